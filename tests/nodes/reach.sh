#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# reach.sh HOW GROUP: the ways to a node. HOW as in harness.sh: fork, on this host alone, where commands of a template stand for ssh; hosts; or salloc: this
# runs in an allocation of `cluster run -N 4` of tests/interop/slurm. Environment: PMIRUN, RAWPMI (programs), LATE (seconds until a host answers,
# default 1).
set -u
. "${0%/*}/harness.sh"
group=$2
[ "$1" = salloc ] || . "${0%/*}/../pmirun/no-batch.bash"
export REACH_DIR=$dir

# command NAME LINE...: a script in $dir/bin, in place of ssh and similar commands
command() {
    local name=$1
    shift
    printf '%s\n' '#!/bin/bash' "$@" > "$dir/bin/$name"
    chmod +x "$dir/bin/$name"
}
mkdir "$dir/bin"
called() { cat "$dir"/called.* 2> /dev/null | sort | tr '\n' ' '; } # with which hosts
err_count() { [ "$(grep -c -e "$2" "$dir/err")" = "$1" ] || fail "stderr does not have \"$2\" $1 times"; }

test_template() {
    local name
    # Into namespaces without a script: nsenter's words as a template.
    for name in "${names[@]}"; do ln -s "/proc/$(cat "$HOST_DIR/$name.pid")/ns" "$dir/$name"; done
    mkdir "$dir/a folder"
    cd "$dir/a folder" || exit 1
    local way="nsenter --net=$dir/%h/net --uts=$dir/%h/uts --mount=$dir/%h/mnt --ipc=$dir/%h/ipc '--wd=$PWD' %c"
    nodes=(--hosts "$HOSTS" --launch "$way")
    run 0 -n 4 -l hostname
    [ "$(sorted | tr '\n' ' ')" = "[0] a [1] b [2] c [3] d " ] || fail "ranks are not on the hosts"
    run 0 -n 8 "$RAWPMI" pgf
    err_empty
    run 0 --map cyclic -n 10 "$RAWPMI" hints
    run 0 -n 4 pwd
    [ "$(sort -u "$dir/out")" = "$PWD" ] || fail "the working directory"
    # %c in quotes is for a shell; %% is a percent sign.
    nodes=(--hosts "$HOSTS" --launch "nsenter --net=$dir/%h/net --uts=$dir/%h/uts sh -c 'PERCENT=%%h; export PERCENT; exec %c'")
    run 0 -n 4 sh -c 'echo "$(hostname) $PERCENT"'
    [ "$(sorted | tr '\n' ' ')" = "a %h b %h c %h d %h " ] || fail "a template with a shell"
    nodes=(--hosts "a,nowhere,c,d" --launch "$way")
    run 253 -n 4 true
    err_has 'node 1 (nowhere) is lost: nsenter exited with status 1 before its agent connected: does "nsenter --net=.* true" work by hand?'
    nodes=(--hosts "$HOSTS" --launch "$way")
    begin -n 4 sh -c "echo ready; exec sleep $mark"
    await 4 ready
    kill -9 "$(our_agent 2)"
    end 253
    err_has 'node 2 (c) is lost: '
    nothing_left
    cd / || exit 1
}

test_words() {
    local bad
    nodes=()
    for bad in 'env %h' 'env %h %%c' "env '%h %c" 'env %h %c %d' ''; do
        run 2 --hosts a,b --launch "$bad" -n 2 true
        err_has '^pmirun: --launch '
    done
    run 2 --hosts a,b --launch 'env %c' -n 2 true
    err_has 'lacks %h, which stands for the host'
    run 2 --launch 'env X=%h %c' -n 2 true
    err_has 'no host is given'
    run 2 --hosts a --launch 'env X=%h %c' --launch-agent env -n 1 true
    err_has 'launch names the program already'
    for bad in -oProxyCommand=x $'a\nb' 'a;reboot' 'a b' '$(id)' "a'" ''; do
        run 2 --hosts "$bad" --launch 'env X=%h %c' -n 1 true
        err_has '^pmirun: --hosts'
    done
    for bad in 0 65537 -1 x; do
        run 2 --fanout "$bad" -n 1 true
        err_has "^pmirun: --fanout .*\"$bad\""
    done
    for bad in -1 x 1e10; do
        run 2 --wait-hosts "$bad" -n 1 true
        err_has "^pmirun: --wait-hosts .*\"$bad\""
    done
    # Without %h all nodes are on this host.
    run 0 -N 3 --launch 'env "REACHED=a  b" %c' -n 6 sh -c 'echo "$REACHED"'
    [ "$(sort "$dir/out" | uniq -c | sed 's/^ *//')" = "6 a  b" ] || fail "a template without %h"
    # A program with blanks and quotes in its name, as one word and as a text for a shell.
    ln -s "$(realpath "$pmirun")" "$dir/bin/pmirun" # /proc/self/exe is the link's target
    cp "$(realpath "$pmirun")" "$dir/it's a launcher"
    pmirun="$dir/it's a launcher"
    run 0 --hosts a,b --launch 'env A=%h %c' -n 2 sh -c 'echo $A'
    run 0 --hosts a,b --launch 'env A=%h sh -c "exec %c"' -n 2 sh -c 'echo $A'
    [ "$(sorted | tr -d '\n')" = ab ] || fail "a launcher of an odd name"
}

# Of ten hosts pmirun starts three at a time; a connected agent makes room for the next.
test_fanout() {
    local i
    PATH=$dir/bin:$PATH
    begun() { [ "$(find "$dir" -name 'begun.*' | wc -l)" -ge "$1" ]; }
    command held 'touch "$REACH_DIR/begun.$1"' 'until [ -e "$REACH_DIR/go.$1" ] || [ -e "$REACH_DIR/go.all" ]; do sleep 0.05; done' 'shift' 'exec "$@"'
    nodes=(--hosts h0,h1,h2,h3,h4,h5,h6,h7,h8,h9 --launch "held %h %c" --fanout 3)
    begin -v -n 10 "$RAWPMI" pgf
    for i in 3 4 5; do
        soon begun "$i" || fail "not $i are starting"
        sleep 0.5
        begun $((i + 1)) && fail "more than 3 are starting"
        touch "$dir/go.h$((i - 3))"
    done
    touch "$dir/go.all"
    end 0
    nodes=(-N 64 --launch fork)
    run 0 -n 64 "$RAWPMI" pgf
    err_empty
    run 0 --fanout 1 -N 8 -n 8 "$RAWPMI" pgf
    nothing_left
}

test_wait() {
    PATH=$dir/bin:$PATH
    # One that does not answer: pmirun names it, and others like it, and leaves no process of theirs behind.
    command mute '[ "$1" != b ] && [ "$1" != d ] || sleep '"$mark" 'shift' 'exec "$@"'
    nodes=(--hosts a,b,c,d --launch "mute %h %c")
    run 253 --wait-hosts 4 --start-timeout 11 -n 4 true
    err_has 'node 1 (b) cannot be reached yet: mute started no agent in .* s, and was killed; trying for 4 s'
    err_has 'node 1 (b) is lost: no answer within 15 s, nor from d, and mute still runs, in try [2-9]: does "mute b true" work by hand?; stopping the job'
    nothing_left
    # Its command prints without end.
    nodes=(--hosts a --launch "sh -c 'echo %h; yes; %c'")
    seconds=20 run 253 --start-timeout 1 -n 1 true
    err_has 'node 0 (a) is lost: no answer within 1 s'
    nothing_left
    # Its command hangs and ignores SIGTERM; the next one starts the agent. Two agents of the first command come too late: one sees the end of its
    # stdin and leaves; the other, whose stdin stays open, is refused.
    command hangs 'name=$1' 'shift' '[ "$name" = b ] || exec "$@"' 'cd "$REACH_DIR"' \
        'if ! [ -e first ]; then' '    touch first' '    trap "" TERM' \
        '    setsid sh -c '\''cat > boot; until [ -e next ]; do sleep 0.1; done; cat boot | { sleep 1; exec "$@" 2> late; }; { cat boot; until [ -e leave ]; do sleep 0.1; done; } | { FIRST_TRY=1 "$@"; touch over; }'\'' sh "$@" <&0 &' \
        "    exec sleep $mark" 'fi' 'touch next' 'until [ -e over ]; do sleep 0.1; done' 'touch leave' 'exec "$@"'
    nodes=(--hosts a,b,c --launch "hangs %h %c")
    run 0 -v --wait-hosts 12 -n 3 sh -c 'echo "late: ${FIRST_TRY-no}"; exec "$0" pgf' "$RAWPMI"
    [ "$(grep -c '^late: no$' "$dir/out")" = 3 ] || fail "a late agent has started ranks"
    err_has 'node 1 (b): the agent of try 1 connected too late'
    err_has 'node 1 (b) cannot be reached yet: hangs started no agent in .* s, and was killed; trying for 12 s'
    grep -q 'agent: the head has given up waiting for it' "$dir/late" || fail "the late agent: $(cat "$dir/late")"
    nothing_left
    # One that answers later.
    command later 'echo "$1" >> "$REACH_DIR/tried"' '[ "$1" != b ] || [ -e "$REACH_DIR/up" ] || { echo "port 22: Connection refused"; exit 255; }' \
        'shift' 'exec "$@"'
    nodes=(--hosts a,b,c --launch "later %h %c")
    begin --wait-hosts 100 -n 3 "$RAWPMI" pgf
    await 1 'node 1 (b) cannot be reached yet: later exited with status 255 before its agent connected; trying for 100 s' err
    sleep "${LATE:-1}"
    touch "$dir/up"
    end 0
    err_count 1 'b: port 22: Connection refused' # and not each time
    [ "$(grep -c a "$dir/tried")" = 1 ] || fail "a host that answers was tried again"
    # It never answers.
    rm "$dir/up" "$dir/tried"
    run 253 --wait-hosts 5 -n 3 true
    err_has 'node 1 (b) is lost: later exited with status 255 before its agent connected, .* times in 5 s: nothing answers there: is b up'
    run 253 -n 3 true
    err_has 'node 1 (b) is lost: later exited with status 255 before its agent connected: nothing answers there: is b up? --wait-hosts'
    # One dies while others are under way, or wait to be tried again.
    command dies 'echo $$ > "$REACH_DIR/pid.$1"' 'case $1 in c) sleep '"$mark"' ;; d) exit 255 ;; esac' 'shift' 'exec "$@"'
    nodes=(--hosts a,b,c,d --launch "dies %h %c")
    begin -v --wait-hosts 100 -n 4 true
    await 1 ' node 1 is b, at ' err
    await 1 'node 3 (d) cannot be reached yet' err
    kill -9 "$(cat "$dir/pid.b")"
    end 253
    err_has 'node 1 (b) is lost: '
    nothing_left
    # Signals while pmirun waits for hosts.
    begin --wait-hosts 100 -n 4 true
    await 1 'node 3 (d) cannot be reached yet' err
    kill -TERM "$head"
    end 143
    nothing_left
}

# This host needs no ssh: by `localhost` and by its own name.
test_own() {
    PATH=$dir/bin:$PATH
    command ssh 'echo "$2" > "$REACH_DIR/called.$2"' 'eval "$3"'
    nodes=(--hosts "localhost,$(hostname),elsewhere")
    run 0 -n 6 "$RAWPMI" pgf
    err_empty
    [ "$(called)" = "elsewhere " ] || fail "ssh was called for $(called)"
    nodes=(--hosts localhost --launch 'env NAME=%h %c') # the user's template overrides that
    run 0 -n 1 sh -c 'echo $NAME'
    out_has localhost
}

test_allocation() {
    PATH=$dir/bin:$PATH
    command ssh 'echo "ssh $2" > "$REACH_DIR/called.$2"' 'export REACHED=$2' 'eval "$3"'
    command remote 'echo "${CALLED_AS-${0##*/}} $1" > "$REACH_DIR/called.$1"' 'export REACHED=$1' 'shift' 'exec "$@"'
    ln -s remote "$dir/bin/blaunch"
    command qrsh '[ "$1" = -inherit ] || exit 1' 'shift' "CALLED_AS=qrsh exec $dir/bin/remote \"\$@\""
    nodes=()
    places() { sorted | tr '\n' ' '; }
    # PBS: slots are filled in turn; no more nodes than the ranks need.
    printf '%s\n' x x y z z > "$dir/hosts"
    export PBS_NODEFILE=$dir/hosts
    run 0 -l -n 5 sh -c 'echo $REACHED'
    [ "$(places)" = "[0] x [1] x [2] y [3] z [4] z " ] || fail "PBS: $(places)"
    [ "$(called)" = "ssh x ssh y ssh z " ] || fail "PBS: called $(called)"
    rm -f "$dir"/called.*
    run 0 -l -n 3 sh -c 'echo $REACHED'
    [ "$(places)" = "[0] x [1] x [2] y " ] || fail "PBS, three ranks: $(places)"
    [ "$(called)" = "ssh x ssh y " ] || fail "PBS, three ranks: called $(called)"
    run 0 -l -n 7 --map cyclic sh -c 'echo $REACHED'
    [ "$(places)" = "[0] x [1] y [2] z [3] x [4] z [5] x [6] y " ] || fail "PBS, seven ranks: $(places)"
    run 0 -l -N 2 -n 4 sh -c 'echo $REACHED' # evenly, with a given number of nodes
    [ "$(places)" = "[0] x [1] x [2] y [3] y " ] || fail "PBS, -N 2: $(places)"
    run 2 -N 4 -n 4 true
    err_has '^pmirun: 3 hosts are too few for 4 nodes; the hosts are those in PBS_NODEFILE$'
    run 0 -n 3 --launch 'env REACHED=%%%h %c' sh -c 'echo $REACHED' # another way to the same nodes
    [ "$(places)" = "%x %x %y " ] || fail "PBS, a template: $(places)"
    run 0 -l --hosts u,v -n 2 sh -c 'echo $REACHED' # the command line counts
    [ "$(places)" = "[0] u [1] v " ] || fail "--hosts in an allocation: $(places)"
    rm -f "$dir"/called.*
    run 0 --launch fork -N 2 -n 2 "$RAWPMI" pgf
    [ -z "$(called)" ] || fail "--launch fork in an allocation calls $(called)"
    # One node, this one: no agent.
    hostname > "$dir/hosts"
    run 0 -v -n 2 "$RAWPMI" pgf
    grep -q 'brings node' "$dir/err" && fail "an agent for this host alone"
    printf 'x\n-oProxyCommand=reboot\n' > "$dir/hosts"
    run 2 -n 2 true
    err_has "^pmirun: PBS_NODEFILE=$dir/hosts, line 2: \"-oProxyCommand=reboot\" is not a valid host name\$"
    PBS_NODEFILE=$dir/none run 2 -n 2 true
    err_has '^pmirun: PBS_NODEFILE=.*/none: cannot read this file: No such file'
    unset PBS_NODEFILE
    # LSF and SGE, each by its own command.
    rm -f "$dir"/called.*
    LSB_MCPU_HOSTS="x 1 y 2" run 0 -l -n 3 sh -c 'echo $REACHED'
    [ "$(places)" = "[0] x [1] y [2] y " ] && [ "$(called)" = "blaunch x blaunch y " ] || fail "LSF: $(places), called $(called)"
    rm -f "$dir"/called.*
    printf '%s\n' 'x 2 all.q@x UNDEFINED' 'y 1 all.q@y UNDEFINED' > "$dir/hosts"
    PE_HOSTFILE=$dir/hosts run 0 -l -n 3 sh -c 'echo $REACHED'
    [ "$(places)" = "[0] x [1] x [2] y " ] && [ "$(called)" = "qrsh x qrsh y " ] || fail "SGE: $(places), called $(called)"
    PE_HOSTFILE=$dir/hosts run 0 -n 3 --launch ssh true
    [ "$(called)" = "ssh x ssh y " ] || fail "SGE by ssh: called $(called)"
    # Slurm, by another command than srun, and where srun is missing.
    rm -f "$dir"/called.*
    SLURM_JOB_NODELIST='n[08-10],m' SLURM_TASKS_PER_NODE='1(x2),2,1' run 0 -l -n 5 --launch ssh sh -c 'echo $REACHED'
    [ "$(places)" = "[0] n08 [1] n09 [2] n10 [3] n10 [4] m " ] || fail "Slurm: $(places)"
    SLURM_JOB_NODELIST='n[08-' run 2 -n 2 true
    err_has "^pmirun: SLURM_JOB_NODELIST=n\[08-: a '\[' has no '\]'"
    SLURM_JOB_NODELIST='n[08-10]' run 127 --launch-agent "$dir/absent" --launch srun -n 3 true
    err_has 'the hosts are those in SLURM_JOB_NODELIST; --launch chooses another way, --hosts localhost this host'
    SLURM_JOB_NODELIST='n[08-10]' SLURM_STEP_NUM_TASKS=3 run 0 -n 2 "$RAWPMI" pgf # one task of several stays where it is
}

# In an allocation of a real Slurm, of four nodes and eight tasks.
test_salloc() {
    nodes=()
    [ "${SLURM_TASKS_PER_NODE-}" = "2(x4)" ] || fail "this allocation is another: ${SLURM_TASKS_PER_NODE-none}"
    run 0 -l -n 8 sh -c 'echo $SLURMD_NODENAME'
    err_empty
    [ "$(sorted | tr '\n' ' ')" = "[0] n0 [1] n0 [2] n1 [3] n1 [4] n2 [5] n2 [6] n3 [7] n3 " ] || fail "eight ranks are elsewhere"
    run 0 -l sh -c 'echo $SLURMD_NODENAME'
    [ "$(sorted | wc -l)" = 8 ] || fail "without -n not as many ranks as the allocation has tasks"
    run 0 -l -N 2 sh -c 'echo $SLURMD_NODENAME'
    [ "$(sorted | tr '\n' ' ')" = "[0] n0 [1] n1 " ] || fail "-N 2 without -n: not one rank a node"
    run 0 -l -n 3 sh -c 'echo $SLURMD_NODENAME'
    [ "$(sorted | tr '\n' ' ')" = "[0] n0 [1] n0 [2] n1 " ] || fail "three ranks are elsewhere"
    run 0 -n 8 "$RAWPMI" pgf
    run 0 -l -N 4 -n 4 sh -c 'echo $SLURMD_NODENAME'
    [ "$(sorted | tr '\n' ' ')" = "[0] n0 [1] n1 [2] n2 [3] n3 " ] || fail "-N 4: ranks are elsewhere"
    run 0 -N 2 --launch fork -n 2 "$RAWPMI" pgf
    # One task of several of a step stays on its node.
    n=$((n + 1))
    timeout 100 srun -N 2 -n 2 "$pmirun" -n 3 sh -c 'echo $SLURMD_NODENAME' > "$dir/out" 2> "$dir/err" || fail "two tasks of a step: status $?"
    [ "$(sorted | tr '\n' ' ')" = "n0 n0 n0 n1 n1 n1 " ] || fail "a task of a step starts ranks elsewhere"
    nothing_left
}

case $group in
template | words | fanout | wait | own | allocation | salloc) "test_$group" "$1" ;;
*)
    echo "unknown group $group"
    exit 1
    ;;
esac
finish
