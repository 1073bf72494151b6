#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# options.sh PMIRUN RAWPMI PART PARTS: runs every option of the table (pmirun --help=names) by each of its names, with good values and bad ones. A bad one ends
# with status 2 and a sentence that names option and value. An option without a case here is a failure. Of PARTS parts of the table this is PART, from 0 on.
set -u
. "$(dirname "$0")/no-batch.bash"
pmirun=$1
raw=$2
part=$3
parts=$4
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
cd "$dir" || exit 1
unset MPIEXEC_TIMEOUT
failed=0
n=0

fail() {
    echo "FAIL: $*"
    sed 's/^/    out: /' out | cut -c1-200 | head -10
    sed 's/^/    err: /' err | cut -c1-200 | head -10
    failed=1
}

# run STATUS ARGUMENT...: its output goes to out and err
run() {
    local want=$1 got
    shift
    n=$((n + 1))
    timeout -k 5 60 "$pmirun" "$@" > out 2> err < "${stdin:-/dev/null}"
    got=$?
    [ "$got" = "$want" ] || fail "pmirun $*: status $got, not $want"
}
# ok LINES ARGUMENT...: status 0, and these lines on stdout, sorted, with ; between
ok() {
    local want=$1 got
    shift
    run 0 "$@"
    got=$(sort out | tr '\n' ';')
    [ "$got" = "$want" ] || fail "pmirun $*: \"$got\", not \"$want\""
}
err_has() { grep -qF -e "$1" err || fail "stderr has no \"$1\""; }
out_has() { grep -q -e "$1" out || fail "stdout has no \"$1\""; }

# with VALUE LINES ARGUMENT...: ok with the option, its value the next word, or behind =, or a number behind the letter
with() {
    local value=$1 lines=$2
    shift 2
    ok "$lines" "$name" "$value" "$@"
    ok "$lines" "$name=$value" "$@"
    [[ $name != -? || $value != [0-9]* ]] || ok "$lines" "$name$value" "$@"
}
# bad VALUE...: each is refused
bad() {
    local value
    for value in "$@"; do
        run 2 "$name" "$value" -n 1 true
        err_has "$name"
        err_has "$(head -1 <<< "$value")"
        [ "$(grep -c '^pmirun: ' err)" = 1 ] || fail "not one sentence"
    done
}
"$pmirun" -N 1 --launch fork -n 1 true 2> err < /dev/null && nodes=yes || { nodes= && echo "left out: $(cat err)"; }
several() { [ -n "$nodes" ]; }
# Is there a topology, and which is the first processor that we may use?
hwloc() { "$pmirun" --bind-to core -n 1 true 2> /dev/null; }
cpu=$(sed -n 's/^Cpus_allowed_list:\t*\([0-9]*\).*/\1/p' /proc/self/status)
# In place of ssh: takes -x, a host, a command for a shell.
printf '#!/bin/sh\necho "$2" >> "%s/called"\nexec sh -c "$3"\n' "$dir" > agent
chmod +x agent
# on LIST ARGUMENT...: on which hosts, in the order of their names
on() {
    local want=$1 got
    shift
    rm -f called
    run 0 --launch-agent ./agent "$@"
    got=$(sort called | tr '\n' ' ')
    [ "$got" = "$want" ] || fail "pmirun $*: on \"$got\", not \"$want\""
}
mkdir bin
printf '#!/bin/sh\necho from bin\n' > bin/only-here
chmod +x bin/only-here
printf 'one\ntwo\n' > input
size() { printf '%s\n' 'ask() { printf "$1" >&3; read -r answer <&3; }' "ask 'cmd=init pmi_version=1 pmi_subversion=1\n'" "ask 'cmd=get_universe_size\n'" 'echo "$answer"' "ask 'cmd=finalize\n'"; }
size > size

try_group() {
    case $1 in
    -n)
        with 2 'x;x;' echo x
        ok 'x;' echo x
        ok 'x;x;' --ppn 2 echo x
        ok 'x;x;' --map-by ppr:2:node echo x
        ok 'x;y;' --ppn 2 echo x : echo y # a group beside others has one process
        if several; then
            ok 'x;x;x;x;' --launch-agent ./agent --host a:4 echo x
            ok 'x;x;x;' --launch-agent ./agent --host a:2,b echo x
            ok 'x;x;' --launch-agent ./agent --hosts a,b echo x
            ok 'x;x;x;x;' --launch-agent ./agent --hosts a,b --ppn 2 echo x
            ok 'x;x;' --launch-agent ./agent -N 2 --hosts a:4,b:4 echo x
            ok 'x;x;' -N 2 --launch fork echo x
            ok 'x;x;x;x;x;x;' -N 2 --ppn 3 --launch fork echo x
            printf 'a\nb\na\nb\n' > pbs
            PBS_NODEFILE=pbs ok '0 2;0 2;1 2;1 2;' --launch-agent ./agent sh -c 'echo $MPI_LOCALRANKID $MPI_LOCALNRANKS'
            SLURM_JOB_NODELIST='n[1-2]' SLURM_TASKS_PER_NODE='2(x2)' ok 'x;x;x;x;' --launch ssh --launch-agent ./agent echo x
            SLURM_JOB_NODELIST='n[1-2]' SLURM_TASKS_PER_NODE='2(x2)' SLURM_STEP_NUM_TASKS=4 ok 'x;' echo x # within a rank
        fi
        run 2 --ppn 1000000 -N 2 true
        err_has 'more than 1000000 processes'
        bad 0 -1 x 1000001 2x 99999999999999999999
        ;;
    -x)
        with A=1 '1;' -n 1 sh -c 'echo $A'
        A=2 with A '2;' --genvnone -n 1 /bin/sh -c 'echo $A'
        ok 'no;' "$name" NO_SUCH -n 1 sh -c 'echo ${NO_SUCH-no}'
        err_has "warning: $name NO_SUCH: pmirun's environment lacks this variable"
        bad =1 PMI_RANK=1 MPI_LOCALRANKID
        ;;
    --env)
        ok '1 2;' "$name" A '1 2' -n 1 sh -c 'echo "$A"'
        ok ';' "$name" A '' -n 1 sh -c 'echo "$A"'
        ok '1 2;' "$name" "A=1 2" -n 1 sh -c 'echo "$A"'
        run 2 "$name" =A 1 -n 1 true
        err_has "$name: \"=A\" does not"
        run 2 "$name" PMI_RANK=1 -n 1 true
        err_has "$name PMI_RANK=1"
        run 2 "$name" PMI_RANK 1 -n 1 true
        err_has "$name PMI_RANK"
        run 2 "$name=A" 1 true
        err_has "$name wants its arguments as two words"
        ;;
    --envlist)
        A=1 B=2 C=3 with A,B '1 2 no;' -n 1 /bin/sh -c 'echo $A $B ${C-no}'
        bad A,,B ,A PMI_RANK A=1
        ;;
    --envnone) A=1 ok 'no 2;' "$name" -env B 2 -n 1 /bin/sh -c 'echo ${A-no} $B' ;;
    --envall) A=1 ok '1;no;' --genvnone "$name" -n 1 /bin/sh -c 'echo ${A-no}' : -n 1 /bin/sh -c 'echo ${A-no}' ;;
    --wdir)
        with / '/;' -n 1 pwd
        run 126 "$name" /no/such -n 1 true
        err_has /no/such
        run 2 "$name" '' -n 1 true
        err_has "$name"
        ;;
    --path)
        with "$dir/bin" 'from bin;' -n 1 only-here
        run 127 "$name" /no/such -n 1 only-here
        run 2 "$name" '' -n 1 true
        err_has "$name"
        ;;
    -h)
        run 0 "$name"
        out_has '^usage: '
        run 0 "$name=table"
        out_has '^\.TS'
        run 2 "$name=x"
        err_has "$name wants man, table or names, not \"x\""
        ;;
    -V)
        run 0 "$name"
        out_has '^pmirun [0-9.]* '
        run 2 "$name=x"
        err_has "$name takes no argument, not \"x\""
        ;;
    --info)
        run 0 "$name"
        out_has '^launchers: fork'
        ;;
    *) fail "no case for $1" ;;
    esac
}

try_environment() {
    case $1 in
    --genv)
        ok '1;2;' "$name" A=1 -n 1 sh -c 'echo $A' : --env A=2 -n 1 sh -c 'echo $A'
        ok '1;2;' "$name" A 1 -n 1 sh -c 'echo $A' : --env A 2 -n 1 sh -c 'echo $A'
        run 2 "$name" '' 1 -n 1 true
        err_has "$name: \"\""
        run 2 -n 1 true : "$name" A 1 true
        err_has "$name is for the whole job"
        ;;
    --genvlist)
        A=1 B=2 with A '1 no;2 1;' -n 1 /bin/sh -c 'echo $A ${B-no}' : --envall -n 1 /bin/sh -c 'echo $B $A'
        bad A,
        ;;
    --genvnone) A=1 ok 'no 2;' "$name" -n 1 -x B=2 /bin/sh -c 'echo ${A-no} $B' ;;
    --genvall) A=1 ok '1;' --genvnone "$name" -n 1 sh -c 'echo $A' ;;
    --mca)
        ok 'tcp;' "$name" btl tcp -n 1 sh -c 'echo $OMPI_MCA_btl'
        [ ! -s err ] || fail "a warning about a parameter of the library"
        for word in rmaps_base_mapping_policy plm_rsh_agent hwloc_base_binding_policy; do
            run 0 "$name" $word x -n 1 true
            err_has "warning: $name $word is a parameter of mpirun itself"
        done
        run 2 "$name" a=b c -n 1 true
        err_has "$name: \"a=b\""
        ;;
    --gwdir)
        with /usr '/;/usr;' -n 1 pwd : --wdir / -n 1 pwd
        run 2 "$name" '' -n 1 true
        err_has "$name wants DIR"
        ;;
    --gpath)
        with "$dir/bin" 'from bin;from bin;' -n 1 only-here : -n 1 only-here
        run 2 "$name" '' -n 1 true
        err_has "$name wants DIR"
        ;;
    --configfile)
        printf '%s\n' '# two groups' '-l -n 1 echo "a  b" \' "'c d' # the end" '' '-n 2 echo e\ f' > config
        ok '[0] a  b c d;[1] e f;[2] e f;' "$name" config
        ok '[0] a  b c d;[1] e f;[2] e f;' -genv A 1 "$name=config"
        for text in '-n 1 echo "a' '-n x echo' '--configfile config' '# nothing'; do
            echo "$text" > config
            run 2 "$name" config
            err_has config
        done
        printf -- '-n 1 \0 true' > config
        run 2 "$name" config
        err_has "$name config: has a NUL byte"
        run 2 "$name" /no/such
        err_has "$name /no/such: No such file"
        run 2 "$name" "$dir"
        err_has "$name $dir: Is a directory"
        run 2 "$name" config true
        err_has 'must be the last option, "true" follows it'
        ;;
    *) return 1 ;;
    esac
}

try_hosts() {
    case $1 in
    -N)
        several && with 2 '0 1;0 2;1 2;' -n 3 --launch fork sh -c 'echo $MPI_LOCALRANKID $MPI_LOCALNRANKS'
        bad 0 x 65537
        ;;
    --hosts)
        if several; then
            on 'a b ' "$name" a,b -n 4 true
            on 'a ' "$name" a:2,b -n 2 true
            on 'n01 n02 n12 ' "$name=n[01-02,12]" -n 3 true
            on 'a b-c.d::1 u@e_f ' "$name" "a,b-c.d::1,u@e_f" -n 3 true
            ok '0 1;0 3;1 3;2 3;' --launch-agent ./agent "$name" a:2,b,a -n 4 sh -c 'echo $MPI_LOCALRANKID $MPI_LOCALNRANKS'
            ok '0 1;0 4;1 4;2 4;3 4;' --launch-agent ./agent "$name" a:2,b -n 5 sh -c 'echo $MPI_LOCALRANKID $MPI_LOCALNRANKS'
        fi
        bad a,,b -oX 'a;b' $'a\nb' 'a b' 'a$b' 'u@-oX' 'a@' a:0 a:x a:1000001 'n[2-1]' 'n[1' 'n[]' 'n[1-]' "$(printf '%0256d' 0)"
        for list in a,-b 'b,a;b' 'n[1-99999999]'; do
            run 2 "$name" "$list" -n 1 true
            err_has "$name: "
        done
        run 2 "$name" a:600000,b,a:600000 -n 1 true
        err_has 'host a is named more than once, and has more than 1000000 slots'
        run 2 "$name" '' -n 1 true
        err_has "$name wants host names"
        ;;
    --hostfile)
        if several; then
            printf '%s\n' '# hosts' 'a:2 # two' '' $'b\tslots=1 max_slots=4\r' 'n[1-2]' > hosts
            on 'a b n1 n2 ' "$name" hosts -n 5 true
            HYDRA_HOST_FILE=hosts on 'a b n1 n2 ' -n 5 true
            HYDRA_HOST_FILE=hosts on 'c ' --hosts c -n 2 true
            HYDRA_HOST_FILE=hosts run 0 -N 2 --launch fork -n 2 true
            HYDRA_HOST_FILE= run 0 -n 1 true
            HYDRA_HOST_FILE=/no/such run 2 -n 1 true
            err_has 'HYDRA_HOST_FILE /no/such: '
            echo localhost > nodes
            HYDRA_HOST_FILE=/no/such PBS_NODEFILE=nodes run 0 -n 1 true
            HYDRA_HOST_FILE=/no/such SLURM_STEP_NUM_TASKS=2 run 0 -n 1 true
            HYDRA_HOST_FILE=/no/such ok 'no;' --launch fork -n 1 sh -c 'echo ${HYDRA_HOST_FILE-no}'
            ok '0 1;0 1;0 1;0 2;1 2;' --launch-agent ./agent "$name=hosts" -n 5 sh -c 'echo $MPI_LOCALRANKID $MPI_LOCALNRANKS'
        fi
        for line in '-oX' 'a;b' 'a $(touch ran)' '`touch ran`' 'a b' 'a slots=0' 'a slots=x' 'a:2 slots=2' 'a, b' 'a slots=1 cpus=2'; do
            printf '%s\n' ok "$line" > hosts
            run 2 "$name" hosts -n 1 true
            err_has "$name hosts, line 2: "
        done
        [ ! -e ran ] || fail "a shell has seen a host file"
        printf 'a\0b\n' > hosts
        run 2 "$name" hosts -n 1 true
        err_has "$name hosts: has a NUL byte"
        echo '# none' > hosts
        run 2 "$name" hosts -n 1 true
        err_has "$name hosts: names no host"
        bad /no/such
        ;;
    --ppn)
        several && with 2 '0 1;0 2;1 2;' -n 3 --launch fork sh -c 'echo $MPI_LOCALRANKID $MPI_LOCALNRANKS'
        with 2 'x;x;x;' -n 3 echo x
        bad 0 x
        ;;
    --map)
        several && with cyclic '0 0;1 0;2 1;' -N 2 --launch fork -n 3 sh -c 'echo $PMI_RANK $MPI_LOCALRANKID'
        with block 'x;' -n 1 echo x
        bad x
        ;;
    --map-by)
        several && with ppr:2:node '0 1;0 2;1 2;' -n 3 --launch fork sh -c 'echo $MPI_LOCALRANKID $MPI_LOCALNRANKS'
        several && with node '0 0;1 0;2 1;' -N 2 --launch fork -n 3 sh -c 'echo $PMI_RANK $MPI_LOCALRANKID'
        with slot 'x;' -n 1 echo x
        hwloc && with hwthread:block "$cpu;" -n 1 sh -c 'echo $PMIRUN_CPUSET'
        bad x socket:x core:PE=0
        for value in ppr:x:node ppr:0:node ppr:1:core; do
            run 2 "$name" $value -n 1 true
            err_has "$name wants "
        done
        ;;
    --bind-to)
        with none ';' -n 1 sh -c 'echo $PMIRUN_CPUSET'
        with "list:$cpu" "$cpu;" -n 1 sh -c 'echo $PMIRUN_CPUSET'
        hwloc && with hwthread "$cpu;" -n 1 sh -c 'echo $PMIRUN_CPUSET'
        bad x core:0 list: list:2-1 list:8192
        ;;
    --report-bindings)
        ok 'x;' "$name" -n 1 echo x
        err_has 'pmirun: rank 0 not bound, processors '
        ;;
    --topology)
        run 2 "$name" 'core:2 pu:2' -n 1 true
        err_has "$name "
        hwloc || return 0
        with 'core:2 pu:2' 'x;' --bind-to core --report-bindings -n 1 echo x
        err_has 'rank 0 placed on core 0[hwt 0-1]: [BB/..], processors 0-1'
        run 2 "$name" 'nonsense:2' --bind-to core -n 1 true
        err_has "$name \"nonsense:2\": hwloc does not understand it"
        ;;
    --launch)
        several && with fork 'x;x;' -N 2 -n 2 echo x
        several && with 'env "H=<%h>" %c' '<a>;<b>;' --hosts a,b -n 2 sh -c 'echo $H'
        bad x 'env %h' 'env %c "' 'env %c %x'
        ;;
    --fanout)
        several && with 1 'x;x;x;' -N 3 --launch fork -n 3 echo x
        bad 0 x 65537
        ;;
    --launch-agent)
        several && with ./agent 'x;' --hosts a -n 1 echo x
        run 2 "$name" '' --hosts a -n 1 true
        err_has "$name wants PROG"
        ;;
    --links)
        several && with tcp 'x;x;' -N 2 --launch fork -n 2 echo x
        several && with any 'x;x;' -N 2 --launch fork -n 2 echo x
        bad x
        run 2 "$name" ucx -n 1 true
        err_has "pmirun: $name ucx: links between nodes no longer use UCX; use $name tcp"
        ;;
    --design)
        several && with tree 'x;x;' -N 2 --launch fork -n 2 echo x
        bad x
        ;;
    *) return 1 ;;
    esac
}

try_time() {
    case $1 in
    --start-timeout | --wait-hosts | --node-timeout | --get-timeout | --stall-timeout)
        several && with 50.5 'x;x;' -N 2 --launch fork -n 2 echo x
        bad -1 x nan 1e10
        ;;
    --timeout)
        run 124 "$name" 0.2 -n 1 sleep 60
        with 60 'x;' -n 1 echo x
        bad -1 x inf
        MPIEXEC_TIMEOUT=0.2 run 124 -n 1 sleep 60
        MPIEXEC_TIMEOUT=0.2 run 0 "$name" 0 -n 1 sleep 0.5
        MPIEXEC_TIMEOUT= run 0 -n 1 true
        MPIEXEC_TIMEOUT=x run 2 -n 1 true
        err_has 'MPIEXEC_TIMEOUT wants seconds, not "x"'
        ;;
    *) return 1 ;;
    esac
}

# late OPTION RANKS BYTES DESCRIPTOR ARGUMENT...: RANKS ranks write BYTES bytes each to the descriptor, hence to a FIFO, whose reader comes late.
late() {
    local option=$1 ranks=$2 bytes=$3 to=$4 reader
    shift 4
    rm -f fifo read
    mkfifo fifo
    (exec < fifo; sleep 2.5; exec wc -c) > read &
    reader=$!
    exec 9> fifo # waits for the reader
    run 0 "$option" fifo -n "$ranks" "$@" sh -c "head -c $bytes /dev/zero >&$to"
    exec 9>&-
    wait $reader
    [ "$(cat read)" = $((ranks * bytes)) ] || fail "$(cat read) bytes, not $((ranks * bytes))"
}

try_output() {
    case $1 in
    -l) ok '[0] x;[1] x;' "$name" -n 2 echo x ;;
    --outfile-pattern)
        rm -f f.*
        with "f.%r.%p.%g.%%" '' -n 2 sh -c 'echo $PMI_RANK; [ $PMI_RANK = 1 ] || echo more'
        [ "$(cat f.0.0.0.% f.1.0.0.%)" = $'0\nmore\n1' ] || fail "not what was written: $(cat f.*)"
        ok '' "$name" f.%h -l -n 2 echo x
        [ "$(sort f."$(hostname)")" = $'[0] x\n[1] x' ] || fail "not what was written: $(cat f.*)"
        several && ok '' "$name" f.%h.%r -N 2 --launch fork -n 2 sh -c 'head -c 300000 /dev/zero' && cmp f.node0.0 f.node1.1 &&
            [ "$(wc -c < f.node1.1)" != 300000 ] && fail "not 300000 bytes"
        late "$name" 20 65536 1
        ok '' "$name" same --errfile-pattern same -n 1 sh -c 'echo x; echo y >&2'
        [ "$(sort same)" = $'x\ny' ] || fail "not both in one file"
        run 252 "$name" /no/such -n 1 echo x
        err_has "/no/such"
        run 252 "$name" /dev/full -n 1 echo x
        err_has "cannot write to /dev/full"
        bad %q f.%
        run 2 "$name" '' -n 1 true
        err_has "$name wants FILE"
        (ulimit -n 80; run 250 "$name" f.%r -n 40 true; err_has descriptors; exit $failed) || failed=1
        ;;
    --errfile-pattern)
        with f.%r 'x;' -n 1 sh -c 'echo x; echo y >&2'
        [ "$(cat f.0)" = y ] || fail "not what was written"
        several && late "$name" 2 2000000 2 -N 2 --launch fork
        bad %q
        ;;
    -s)
        bad x 1 -1 1000000
        [ $name = -s ] || return 0
        for from in input pipe; do
            for where in '' '-N 2 --launch fork'; do
                [ -z "$where" ] || several || continue
                for who in all none 0 1; do
                    case $who in
                    all) want='[0] one;[0] two;[1] one;[1] two;[2] one;[2] two;' ;;
                    none) want= ;;
                    *) want="[$who] one;[$who] two;" ;;
                    esac
                    [ $from = input ] && stdin=input ok "$want" "$name" $who $where -l -n 3 cat
                    [ $from = pipe ] && stdin=<(cat input) ok "$want" "$name=$who" $where -l -n 3 cat
                done
                # More than pipes hold; one reader closes it at once, one reads nothing.
                head -c 1000000 /dev/zero > big
                [ $from = input ] && stdin=big ok '1000000;1000000;' "$name" all $where -n 1 true : -n 2 wc -c
                [ $from = pipe ] && stdin=<(cat big) ok '1000000;1000000;' "$name" all $where -n 1 true : -n 2 wc -c
            done
        done
        ;;
    --print-all-exitcodes)
        run 3 "$name" -n 3 sh -c '[ $PMI_RANK != 1 ] || exit 3' # of two that fail, either may be first
        err_has "exit codes: [$(hostname)] 0,3,0"
        several && run 2 "$name" -N 2 --launch fork -n 3 sh -c '[ $PMI_RANK = 0 ] || exit 2' && err_has "exit codes: [node0] 0,2"
        ;;
    --stats)
        run 0 "$name" -n 1 true
        err_has '"processes":1,'
        run 0 "$name=json" -n 1 true
        err_has '"processes":1,'
        run 0 "$name=table" -n 1 true
        err_has 'pmirun: status 0, 1 processes, 1 job'
        run 2 "$name=xml" -n 1 true
        err_has "$name wants json or table, not \"xml\""
        ;;
    --progress) # without a terminal there is no display
        ok 'x;' "$name" -n 1 echo x
        [ ! -s err ] || fail "stderr is not empty"
        ;;
    --timeline)
        rm -f t.json
        with t.json 'x;' -n 1 echo x
        grep -q '"exited with status 0"' t.json || fail "not what was written"
        bad t.png t.svg .svg .json x
        ;;
    -v)
        run 0 "$name" -n 1 true
        err_has 'exited with 0'
        ;;
    *) return 1 ;;
    esac
}

try_pmi() {
    case $1 in
    --mpi)
        with pmi 'x;' -n 1 echo x
        with pmi2 'x;' -n 1 echo x
        bad x
        ;;
    --pmi-1.2) ok 'x;' "$name" -n 1 echo x ;;
    --pmi-port | --no-shm) run 0 "$name" -n 3 "$raw" pgf ;;
    --universe-size)
        with 7 'cmd=universe_size rc=0 size=7;' -n 1 sh size
        with SYSTEM 'cmd=universe_size rc=0 size=1;' -n 1 sh size
        several && with SYSTEM 'cmd=universe_size rc=0 size=5;' --hosts a:4,b --launch-agent ./agent -n 1 sh size
        run 0 "$name" INFINITE -n 1 sh size
        bad x -2 2147483648
        ;;
    --max-procs)
        run 0 "$name" 0 -n 1 "$raw" spawn 1 true
        out_has 'Disk.quota.exceeded'
        bad x -1 1000001
        ;;
    --shm-max)
        with 1 'x;' -n 1 echo x
        bad 0 x 65537
        ;;
    --ends)
        run 251 "$name" strict -n 1 "$raw" exit 0 inited
        run 0 "$name" hydra -n 1 "$raw" exit 0 inited
        run 7 "$name" hydra -n 1 "$raw" exit 7 inited
        ok 'child;' "$name" hydra -n 1 sh -c '(sleep 0.3; echo child) & exit 0'
        ok '' "$name" strict -n 1 sh -c '(sleep 30; echo child) & exit 0'
        several && run 0 "$name" hydra -N 2 --launch fork -n 2 "$raw" exit 0 inited
        several && ok 'child;child;' "$name" hydra -N 2 --launch fork -n 2 sh -c '(sleep 0.3; echo child) & exit 0'
        for ends in strict hydra; do # ignored, as a shell does for commands started with &
            : > out
            (trap '' INT; exec "$pmirun" $name $ends -n 1 sh -c "echo up; sleep $([ $ends = hydra ] && echo 60 || echo 1)") > out 2> err &
            for ((i = 0; i < 300; i++)); do grep -q up out && break || sleep 0.1; done
            kill -INT $!
            wait $!
            got=$?
            [ "$got" = $([ $ends = hydra ] && echo 130 || echo 0) ] || fail "$name $ends: status $got after SIGINT"
        done
        bad x
        ;;
    *) return 1 ;;
    esac
}

try() {
    try_environment "$1" || try_hosts "$1" || try_time "$1" || try_output "$1" || try_pmi "$1" || try_group "$1"
}

rows=0
while IFS=$'\t' read -r names scope argument words; do
    rows=$((rows + 1))
    [ $((rows % parts)) = "$part" ] || continue
    first=${names%% *}
    for name in $names; do
        case $scope in
        group | job) try "$first" ;;
        nothing)
            [ "$argument" = - ] && ok 'x;' "$name" -n 1 echo x || ok 'x;' "$name" any -n 1 echo x
            ;;
        elsewhere)
            run 2 "$name" -n 1 true
            err_has "$name is another launcher's option: "
            run 2 "$name=4" -n 1 true
            err_has "$name is another launcher's option: "
            [[ $name != -? ]] || { run 2 "${name}4" -n 1 true && err_has "${name}4 is another launcher's option: "; }
            ;;
        esac
        [ "$argument" = - ] || [[ $argument = \[* ]] || {
            run 2 "$name"
            err_has "$name wants "
        }
    done
done < <("$pmirun" --help=names)
[ "$rows" -gt 80 ] || fail "$rows rows in the table"
run 2 --nonsense -n 1 true
err_has 'unknown option --nonsense'
for pair in --bindto:--bind-to --hostfil:--hostfile -labl:--label --ntask:--ntasks --mapby=x:--map-by; do
    run 2 "${pair%%:*}" -n 1 true
    err_has "unknown option ${pair%%:*}: did you mean ${pair#*:}? (see --help)"
done
run 2 -lN1 true
err_has 'unknown option -lN1; options of one letter are separate words: -l ...'
run 2 -n 1 true : -n x true
err_has 'pmirun: group 2: -n wants a number from 1 to 1000000, not "x"'
run 2 -n 1 true :
err_has 'pmirun: group 2: no program given'
run 126 -n 1 "$dir"
err_has "cannot start $dir: it is a directory"
echo x > no-program
run 126 -n 1 ./no-program
err_has 'cannot start ./no-program: it is not executable (chmod +x)'
[ $failed = 0 ] && echo "$rows options, $n runs"
exit $failed
