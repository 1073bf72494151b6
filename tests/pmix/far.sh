#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# far.sh PMIRUN HOW GROUP PROGRAM...: PMIx from node to node. HOW: one (node); fork2, fork4: two or four nodes here; hosts: those of
# tests/nodes/hosts; srun: four of a Slurm cluster. GROUP: client, with far_client for PROGRAM; mpi, with hello and dynamic of Open MPI.
# $LIBPMIX is the version of libpmix.
set -u
pmirun=$(realpath "$1") how=$2 group=$3
shift 3
. "${0%/*}/../pmirun/jobs.bash"
for program; do ln -s "$(realpath "$program")" "$dir/"; done
mkdir "$dir/tmp"
export TMPDIR=$dir/tmp # our own folder, to find leftovers
case $how in
one) nodes=() several=false ;;
fork2) nodes=(-N 2 --launch fork) several=true ;;
fork4) nodes=(-N 4 --launch fork) several=true ;;
srun) nodes=(-N 4 --launch srun) several=true ;;
hosts) nodes=(--hosts "$HOSTS" --launch-agent "$HOST_SSH") several=true ;;
esac
# run STATUS RANKS PROGRAM [ARGUMENT...]
run() {
    local want=$1 ranks=$2 program=$3 got
    shift 3
    what="$ranks $program $*"
    n=$((n + 1))
    timeout -k 5 100 "$pmirun" --mpi pmix "${nodes[@]}" -n "$ranks" "$dir/$program" "$@" > "$dir/out" 2> "$dir/err" < /dev/null
    got=$?
    [ $got = "$want" ] || fail "status $got, not $want"
    [ -z "$(ls -A "$TMPDIR")" ] || fail "left in the temporary folder: $(ls -A "$TMPDIR")"
    pgrep -f "^$dir/$program" > "$dir/left" && fail "processes are left"
}
# Slurm may still be busy with the end of the job before.
silent() {
    ! grep -vq '^pmirun: srun: srun: job [0-9]* \(queued and waiting for\|has been allocated\) resources$' "$dir/err" ||
        fail "standard error is not empty"
}
says() { [ "$(grep -c "$2" "$dir/out")" = "$1" ] || fail "not $1 times: $2"; }

group_client() {
    for ranks in 4 7; do
        for word in sets names "big 200"; do
            run 0 $ranks far_client $word
            says $ranks ' ok$'
            silent
        done
    done
    run 0 4 far_client big 600 # a piece is 64 KiB, a link full with 1 MiB; a client may send 4 MiB (bounds.h), and sends all it has put, twice
    says 4 ' ok$'
    run 0 3 far_client limits
    says 3 ' ok$'
    if $several; then # on one node libpmix does all of it
        for word in fence connect; do
            if [ "$word" = fence ] && [ "${LIBPMIX%%.*}" -ge 5 ]; then
                echo "left out: early fence: libpmix 5 completes one without a rank of its node that has ended"
                continue
            fi
            run 254 4 far_client early $word
            says 3 "^$word: \\(PMIX_ERR_\\)\\?LOST_CONNECTION$"
            grep -q 'rank 3 .*has finalized: a .* that other ranks wait in cannot complete; stopping the job$' "$dir/err" ||
                fail "the cause is not said"
        done
    fi
    run 0 4 far_client early modex
    says 3 '^modex: \(NOT-FOUND\|TIMEOUT\|PMIX_ERR_NOT_FOUND\|PMIX_ERR_TIMEOUT\)$' # TIMEOUT: libpmix's own, of a rank on the same node
}

group_mpi() {
    run 0 8 hello
    says 1 '^token came back as 8, sum of ranks 28,'
    for args in "2 spawn 3" "4 spawn 2" "4 spawn 6" "4 names"; do # of 2 children two of four nodes have none
        run 0 ${args%% *} dynamic ${args#* }
        says 1 '^good$'
    done
}

"group_$group"
[ $failed = 0 ] && echo "$how $group: $n runs, all as they should be"
exit $failed
