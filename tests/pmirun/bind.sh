#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bind.sh PMIRUN PROBE RAWPMI FAKE GROUP [CLIENT [MPIRUN]]: ranks run on the processors that pmirun reports. PROBE prints where it is bound, RAWPMI
# spawns, FAKE is a faulty libhwloc, CLIENT a PMIx client, or for the group openmpi ompi_locality. Groups: policies, limits, imagined, nodes,
# faults, spawn, pmix, openmpi.
set -u
pmirun=$1 probe=$2 rawpmi=$3 fake=$4 group=$5 client=${6-} mpirun=${7-}
export PROBE=$probe CLIENT=$client # of shells that ranks run
. "$(dirname "$0")/hwloc.bash"

# run [argument of pmirun...]: it ends with status $want; its output goes to $dir/out and $dir/err
run() {
    local got
    timeout -k 5 60 "$pmirun" --timeout 50 "$@" > "$dir/out" 2> "$dir/err" < /dev/null
    got=$?
    [ "$got" = "${want:-0}" ] || fail "pmirun $*: status $got, not ${want:-0}"
}

err_has() { [ "$(grep -c -e "$1" "$dir/err")" = "$2" ] || fail "stderr has not $2 times \"$1\""; }

# The processors that we may use: all, as a list of ranges, and one by one.
own=$("$probe" | sed 's/.*cpus=//; s/ .*//')
cpus=()
IFS=, read -ra ranges <<< "$own"
for r in "${ranges[@]}"; do
    for ((i = ${r%-*}; i <= ${r#*-}; i++)); do cpus+=("$i"); done
done

# bound N [argument of pmirun...]: N ranks run where the report has them, and the variable of a bound rank agrees
bound() {
    local n=$1
    shift
    run --report-bindings "$@" -n "$n" "$probe"
    sed -n 's/^pmirun.*: rank \([0-9]*\).* processors \([-,0-9]*\)$/rank=\1 cpus=\2/p' "$dir/err" | sort > "$dir/said"
    sed 's/ variable.*//' "$dir/out" | sort > "$dir/is"
    [ "$(wc -l < "$dir/said")" = "$n" ] || fail "$*: the report has not a line for each of $n ranks"
    cmp -s "$dir/said" "$dir/is" || fail "$*: ranks run elsewhere than the report says"
    if grep -q ' not bound' "$dir/err"; then
        out_has "cpus=${may:-$own} variable=none\$" "$n"
    else
        grep -E 'cpus=([^ ]*) variable=\1$' "$dir/out" | sort | cmp -s - <(sort "$dir/out") || fail "$*: PMIRUN_CPUSET is something else"
    fi
}

# Ranks that share no processor.
apart() { [ "$(sed -n 's/.*cpus=\([^ ]*\) .*/\1/p' "$dir/out" | tr , '\n' | sort | uniq -d)" = "" ] || fail "two ranks have one processor"; }

test_policies() {
    local n how objects=
    for how in socket numa; do # hwloc knows of no sockets on some machines
        "$pmirun" --bind-to $how -n 1 true 2> "$dir/err" && objects+=" $how"
        [ ! -s "$dir/err" ] || cat "$dir/err"
    done
    for n in 1 2 5; do
        bound $n
        err_has ' not bound, ' $n
        for how in none $objects core hwthread; do
            bound $n --bind-to $how
            [ $how = none ] || [ $n -gt ${#cpus[@]} ] || err_has ' bound to ' $n
        done
        for how in slot node${objects// socket/ socket:block} core hwthread; do
            bound $n --map-by $how --bind-to hwthread
            [ $n -gt ${#cpus[@]} ] || { err_has ' bound to ' $n && apart; }
        done
        bound $n --bind-to "list:${cpus[-1]},${cpus[0]}+${cpus[-1]}"
        err_has ' bound to ' $n
    done
    out_has "^rank=[024] cpus=${cpus[-1]} " 3
    # An option alone says enough.
    bound 1 --map-by core
    err_has ' bound to .*core' 1
    bound 1 --map-by slot
    err_has ' not bound' 1
    # More ranks than processors.
    for how in hwthread core; do
        bound $((${#cpus[@]} + 1)) --bind-to $how
        err_has 'warning: ranks are not bound: .* on this host, --bind-to '$how' has room for [0-9]*$' 1
    done
    bound $((${#cpus[@]} + 1)) --bind-to none
    err_has warning 0
    # Without an option there is no report.
    run -n 2 "$probe"
    out_has "cpus=$own variable=none\$" 2
    [ ! -s "$dir/err" ] || fail "a message without an option"
    # The variable of a pmirun around this one does not reach these ranks.
    PMIRUN_CPUSET=77 run -n 1 "$probe"
    out_has ' variable=none$' 1
}

# Of pmirun itself: $1 begins a command of one processor, $last.
limited() {
    may=$last
    for how in core hwthread none; do
        "$1" bound 1 --bind-to $how
        err_has "processors $last\$" 1
        "$1" bound 2 --bind-to $how
        err_has "processors $last\$" 2
        [ $how = none ] || err_has 'ranks are not bound: .* has room for 1$' 1
    done
    "$1" bound 2 --bind-to "list:$last"
    [ ${#cpus[@]} = 1 ] || want=2 "$1" run --bind-to "list:$last,${cpus[0]}" -n 2 true
    [ ${#cpus[@]} = 1 ] || err_has "cannot bind rank 1 to processor ${cpus[0]}: pmirun may not use it here (it may use $last); use --bind-to none" 1
    may=
}

by_taskset() {
    local whole=$pmirun
    pmirun=$dir/limited
    printf '#!/bin/sh\nexec taskset -c %s "%s" "$@"\n' "$last" "$whole" > "$pmirun" && chmod +x "$pmirun"
    "$@"
    pmirun=$whole
}

by_group() {
    (
        echo "$BASHPID" > "$cpuset/cgroup.procs" && "$@"
        exit $failed
    ) || failed=1
}

test_limits() {
    local last=${cpus[-1]}
    limited by_taskset
    make_cpuset "$last" && limited by_group
}

# line RANK TEXT: the report's line for a rank on an imagined node
line() { grep -qxF -e "pmirun: rank $1 placed on $2" "$dir/err" || fail "rank $1 is not placed on $2"; }

test_imagined() {
    run --topology 'node:2 core:32 pu:2' --bind-to core --map-by numa --report-bindings -n 3 "$probe"
    out_has "cpus=$own variable=none\$" 3
    line 1 "core 32[hwt 0-1]: [$(printf '../%.0s' {1..32})BB$(printf '/..%.0s' {1..31})], processors 64-65"
    grep -q 'rank 2 placed on core 1\[hwt 0-1\]: .* processors 2-3$' "$dir/err" || fail "rank 2 is elsewhere"
    run --topology 'socket:2 core:2 pu:2' --map-by socket --report-bindings -n 2 "$probe"
    line 1 'socket 1[core 2-3[hwt 0-1]]: [../..][BB/BB], processors 4-7'
    run --topology 'socket:2 core:2 pu:2' --bind-to list:1+2,7 --report-bindings -n 3 "$probe"
    line 0 'socket 0[core 0[hwt 1]], socket 0[core 1[hwt 0]]: [.B/B.][../..], processors 1-2'
    line 1 'socket 1[core 3[hwt 1]]: [../..][../.B], processors 7'
    line 2 'socket 0[core 0[hwt 1]], socket 0[core 1[hwt 0]]: [.B/B.][../..], processors 1-2'
    # Caches; as many ranks as fit, and one more.
    run --topology 'socket:2 l3:2 core:2 pu:1' --map-by l3cache:block --report-bindings -n 8 "$probe"
    line 7 'socket 1[core 6-7[hwt 0]]: [./././.][././B/B], processors 6-7'
    run --topology 'socket:2 core:2 pu:2' --bind-to core --report-bindings -n 5 "$probe"
    err_has 'warning: ranks are not bound: 5 on this host, --bind-to core has room for 4' 1
    err_has " not bound, processors $own\$" 5
    run --topology 'socket:2 core:2 pu:2' --map-by core:PE=2 -n 3 "$probe"
    err_has 'warning: ranks are not bound: 3 on this host, PE=2 has room for 2' 1
    # The user's own topology, by hwloc's variables, is not this node's either.
    HWLOC_SYNTHETIC='socket:2 core:2 pu:2' run --bind-to core --report-bindings -n 4 "$probe"
    line 3 'socket 1[core 3[hwt 0-1]]: [../..][../BB], processors 6-7'
    out_has "cpus=$own variable=none\$" 4
}

test_nodes() {
    local all=$((${#cpus[@]} + 1))
    # Nodes on one host share its processors.
    bound 2 -N 2 --launch fork --bind-to hwthread
    [ ${#cpus[@]} = 1 ] || { err_has ' bound to ' 2 && apart; }
    bound 2 -N 2 --launch fork --map-by node --bind-to hwthread
    [ ${#cpus[@]} = 1 ] || { err_has ' bound to ' 2 && apart; }
    bound $all -N 2 --launch fork --bind-to hwthread
    err_has 'warning: .* room for' 1
    bound 4 -N 2 --launch fork --bind-to "list:${cpus[0]},${cpus[-1]}"
    out_has "^rank=[13] cpus=${cpus[-1]} " 2
    bound 2 -N 2 --launch fork
    want=2 run -N 2 --launch fork --bind-to core:8192 -n 2 true
    grep -q ' on .*: --map-by slot --bind-to core: 8192 of them for each rank, and this node has fewer' "$dir/err" || fail "an agent has no reason"
    # The order of nodes, as a client sees it.
    run -N 2 --launch fork --map-by slot -n 4 "$probe" mapping
    out_has ' mapping=(vector,(0,2,2))$' 4
    run -N 2 --launch fork --map-by node -n 4 "$probe" mapping
    out_has ' mapping=(vector,(0,2,1))$' 4
    run -N 2 --launch fork --map-by node:block --bind-to none -n 4 "$probe" mapping
    out_has ' mapping=(vector,(0,2,2))$' 4
}

test_faults() {
    local what
    mkdir "$dir/lib" && cp "$fake" "$dir/lib/libhwloc.so.15"
    for what in crash old none; do
        export FAKE_HWLOC=$what
        # Without binding, or with a list, hwloc is not loaded.
        LD_LIBRARY_PATH=$dir/lib run --map-by slot -n 1 "$probe"
        [ ! -s "$dir/err" ] || fail "a report without an option"
        LD_LIBRARY_PATH=$dir/lib run --bind-to "list:${cpus[0]}" -n 1 "$probe"
        out_has " cpus=${cpus[0]} variable=${cpus[0]}\$" 1
        LD_LIBRARY_PATH=$dir/lib want=2 run --bind-to core -n 1 "$probe"
        case $what in
        crash) err_has '^pmirun: --bind-to core: the topology of this node is unknown: hwloc has crashed; use --bind-to none, or list$' 1 ;;
        old) err_has 'libhwloc.so.15 cannot be loaded' 1 ;;
        none) err_has 'hwloc does not find it' 1 ;;
        esac
        [ ! -s "$dir/out" ] || fail "a rank has run"
    done
    unset FAKE_HWLOC
    want=2 run --topology nonsense:2 --bind-to core -n 1 "$probe"
    err_has '^pmirun: --topology "nonsense:2": hwloc does not understand it$' 1
    want=2 run --topology 'core:64 pu:129' --bind-to core -n 1 "$probe"
    err_has 'it has more than 8192 processors\|has not found it within 10 s' 1 # where it is slow
    want=2 run --topology 'socket:2 core:2 pu:2' --map-by socket:PE=3 -n 1 "$probe"
    err_has '^pmirun: --map-by socket --bind-to core: 3 of them for each rank, and no socket has as many that pmirun may use$' 1
    want=2 run --topology 'core:2 pu:2' --bind-to l3cache -n 1 "$probe"
    err_has '^pmirun: --map-by slot --bind-to l3cache: hwloc finds no l3cache on this node' 1
    for what in '--map-by x' '--map-by socket:x' '--map-by core:PE=0' '--bind-to x' '--bind-to list:' '--bind-to list:3-1' '--bind-to list:8192' '--bind-to core:x'; do
        want=2 run $what -n 1 "$probe"
        err_has "^pmirun: ${what% *} wants .*, not \"${what#* }\"\$" 1
    done
}

test_spawn() {
    # They are placed behind those that run: two processors, one for each.
    run --report-bindings --bind-to hwthread -n 1 "$rawpmi" spawn 1 "$rawpmi" child
    if [ ${#cpus[@]} = 1 ]; then
        err_has 'rank 1:0 not bound' 1
    else
        err_has "rank 0 bound to .* processors [0-9]*\$" 1
        err_has "rank 1:0 bound to .* processors [0-9]*\$" 1
        [ "$(sed -n 's/.*processors //p' "$dir/err" | sort -u | wc -l)" = 2 ] || fail "two ranks have one processor"
    fi
    run --report-bindings --bind-to hwthread -n 1 "$rawpmi" spawn ${#cpus[@]} "$rawpmi" child
    err_has 'rank 0 bound to ' 1
    err_has 'ranks are not bound: .* --bind-to hwthread has room for' 1
    err_has 'rank 1:[0-9]* not bound' ${#cpus[@]}
    # A job that has ended leaves its place: job 3 gets that of job 1, beside job 2.
    printf '#!/bin/sh\necho $$ > "%s/$1"\nuntil [ -e "%s/end$1" ]; do sleep 0.05; done\n' "$dir" "$dir" > "$dir/stays" && chmod +x "$dir/stays"
    export DIR=$dir RAWPMI=$rawpmi
    run --mpi pmi --report-bindings --topology 'core:8 pu:1' --bind-to core -n 3 sh -c '
        await() { until "$@" 2> /dev/null; do sleep 0.05; done; }
        gone() { ! kill -0 "$(cat "$DIR/1")"; }
        case $PMI_RANK in
        0) exec "$RAWPMI" spawn 1 "$DIR/stays" 1 ;;
        1) await [ -s "$DIR/1" ] && exec "$RAWPMI" spawn 1 "$DIR/stays" 2 ;;
        2) await [ -s "$DIR/2" ] && : > "$DIR/end1" && await gone && exec "$RAWPMI" spawn 1 touch "$DIR/end2" ;;
        esac'
    [ "$(sed -n 's/.* rank [123]:0 placed on .* processors //p' "$dir/err" | tr '\n' ,)" = 3,4,3, ] ||
        fail "spawned ranks are not on processors 3, 4 and 3"
    # Blocks do not move when more ranks come.
    run --mpi pmi --report-bindings --topology 'socket:2 core:4 pu:1' --map-by socket:block --bind-to core -n 4 sh -c '
        [ $PMI_RANK = 0 ] && exec "$RAWPMI" spawn 2 "$RAWPMI" child; exec "$RAWPMI" chat 5'
    err_has 'rank 1:[01] placed on ' 2
    [ "$(sed -n 's/.*processors //p' "$dir/err" | sort -u | wc -l)" = 6 ] || fail "two of 6 ranks have one processor"
}

test_pmix() {
    run --mpi pmix --report-bindings --bind-to hwthread -n 2 "$client"
    if [ ${#cpus[@]} = 1 ]; then
        out_has '^rank=[01] cpuset= locality=$' 2
        return
    fi
    sed -n 's/^pmirun: rank \([01]\) bound .*processors \(.*\)$/rank=\1 cpuset=hwloc:\2/p' "$dir/err" | sort > "$dir/said"
    sed -n 's/\(^rank=.*\) locality=.*/\1/p' "$dir/out" | sort | cmp -s - "$dir/said" || fail "PMIX_CPUSET is something else than the report"
    out_has '^rank=0 .* locality=.*CR[0-9]*:HT[0-9]*\(:NM[0-9]*\)*$' 1
    out_has '^rank=1 .* locality=.*CR[0-9]*:HT[0-9]*\(:NM[0-9]*\)*$' 1
    run --mpi pmix --bind-to none -n 2 "$client"
    out_has '^rank=[01] cpuset= locality=' 2
    # A list needs no topology, and PMIx clients see it too.
    run --mpi pmix --bind-to "list:${cpus[1]}" -n 1 "$client"
    out_has "^rank=0 cpuset=hwloc:${cpus[1]} locality=.*CR[0-9]*:HT[0-9]*" 1
}

# Open MPI 4 derives the same locality of its peers by each way as from mpirun.
test_openmpi() {
    export OMPI_MCA_mpi_yield_when_idle=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    local one="list:${cpus[0]}" way shm
    for way in openmpi pmix; do
        run --mpi $way --bind-to "$one" -n 2 "$client"
        out_has '^rank [01] shares hwthread=2 core=2 .* node=2$' 2
        run --mpi $way -n 2 "$client"
        out_has '^rank [01] shares hwthread=1 core=1 .* node=2$' 2
        run --mpi $way -N 2 --launch fork --bind-to "$one" -n 4 "$client"
        out_has '^rank [0-3] shares hwthread=2 core=2 .* node=2$' 4
    done
    # A client that comes after the other has put all its pairs; also without shared memory.
    for shm in --shm-max=64 --no-shm; do
        run --mpi openmpi $shm --bind-to "$one" -n 2 sh -c 'sleep "$PMI_RANK"; exec "$CLIENT"'
        out_has '^rank [01] shares hwthread=2 core=2 .* node=2$' 2
    done
    [ ${#cpus[@]} -gt 1 ] || return 0
    timeout -k 5 60 "$mpirun" --use-hwthread-cpus --bind-to hwthread -n 2 "$client" > "$dir/out" 2> "$dir/err" < /dev/null || fail "mpirun: status $?"
    out_has '^rank [01] shares hwthread=1 .* node=2$' 2
    sort "$dir/out" > "$dir/theirs"
    for way in openmpi pmix; do
        run --mpi $way --bind-to hwthread -n 2 "$client"
        sort "$dir/out" | cmp -s - "$dir/theirs" || fail "--mpi $way: not the locality under mpirun: $(cat "$dir/theirs")"
    done
}

"test_$group"
[ $failed = 0 ] && echo "ok"
exit $failed
