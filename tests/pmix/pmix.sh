#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# pmix.sh PMIRUN CLIENT HOW GROUP: bare PMIx clients, of the libpmix whose version is $LIBPMIX. HOW: one (node); fork: two nodes here. GROUP: works, ends, broken (see the end).
set -u
pmirun=$(realpath "$1") how=$3 group=$4
. "${0%/*}/../pmirun/jobs.bash"
ln -s "$(realpath "$2")" "$dir/client"
client=$dir/client
mkdir "$dir/tmp"
export TMPDIR=$dir/tmp # our own folder, to find leftovers
case $how in
one) nodes=() ;;
fork) nodes=(-N 2 --launch fork) ;;
esac
# run STATUS RANKS WHAT...
run() {
    local want=$1 ranks=$2 got
    shift 2
    what="$*"
    n=$((n + 1))
    timeout -k 5 100 "$pmirun" --mpi pmix "${nodes[@]}" -n "$ranks" "$client" "$@" > "$dir/out" 2> "$dir/err" < /dev/null
    got=$?
    [ $got = "$want" ] || fail "status $got, not $want"
    [ -z "$(ls -A "$TMPDIR")" ] || fail "left in the temporary folder: $(ls -A "$TMPDIR")"
    pgrep -f "^$client" > "$dir/left" && fail "processes are left"
}
# All ranks report success, and there is no other output.
works() {
    run 0 "$@"
    [ "$(grep -c ' ok$' "$dir/out")" = "$1" ] || fail "not all ranks say ok"
    # libpmix 5 reports a group that is refused.
    ! grep -qv 'SOMEONE IS NULL: \|PMIX_ERR_BAD_PARAM in file .*/pmix_client_group\.c ' "$dir/err" || fail "standard error is not empty"
}

# maps WANT [option of pmirun...]: is libpmix in the process that starts ranks, yes or no?
maps() {
    local want=$1 got
    shift
    what="libpmix $*"
    n=$((n + 1))
    timeout -k 5 100 "$pmirun" "$@" "${nodes[@]}" -n 1 sh -c 'grep -q libpmix /proc/$PPID/maps && echo yes || echo no' > "$dir/out" 2> "$dir/err"
    [ "$(cat "$dir/out")" = "$want" ] || fail "it is there: $(cat "$dir/out")"
}

group_works() {
    maps yes # a shell may start any MPI
    maps no --mpi pmi
    maps yes --mpi pmix
    for ranks in 2 4 7; do
        works $ranks keys
        works $ranks subsets
        works $ranks names
    done
    works 2 unsupported
    run 0 2 spawn
    [ "$(grep -c ' ok$' "$dir/out")" = 4 ] || fail "not all ranks say ok, or not all that were spawned"
    err_has '^pmirun.* ./no/such/program: No such file'
    err_has '^pmirun: spawn by rank 0.*: cannot start 1000000 processes beside 0 .*(--max-procs)$'
    err_has '^pmirun: MPI_Comm_spawn has failed: with MPI_ERRORS_RETURN its other ranks wait for ever$'
    [ "$(wc -l < "$dir/err")" = 3 ] || fail "more output than that"
    run 3 3 event
    [ "$(grep -c '^event ok$' "$dir/out")" = 2 ] || fail "not all that have registered got the event"
}

group_ends() {
    run 9 4 abort 9
    err_has '^pmirun: rank 3 .*aborted with code 9: the sky falls; stopping the job$'
    run 1 2 abort 256
    for where in fence infence modex spawn connect lookup; do
        run 137 4 die $where
        err_has '^pmirun: rank 1 .*died of signal 9'
    done
    run 7 4 die exit
    err_has '^pmirun: rank 1 .*exited with status 7 after PMI init, without finalize'
    run 7 1 twice
    err_has '^pmirun: rank 0 .*exited with status 7 after PMI init, without finalize'
    for us in 1 1000 3000 5000 7000 10000 15000 20000 30000; do
        run 142 2 init $us
        err_has '^pmirun: rank 1 .*died of signal 14'
    done
    if [ "${LIBPMIX%%.*}" -ge 5 ]; then
        echo "left out: gone, absent: libpmix 5 completes a fence without a rank of its node that has ended"
        return
    fi
    run 254 3 gone
    err_has '^pmirun: rank 1 .*has finalized: a fence that other ranks wait in cannot complete; stopping the job$'
    [ "$(grep -c '^told$' "$dir/out")" = 2 ] || fail "not all waiting ranks got the error"
    run 254 3 absent
    err_has '^pmirun: rank 1 .*has ended without PMI init: a fence that other ranks wait in cannot complete; stopping the job$'
    [ "$(grep -c '^told$' "$dir/out")" = 2 ] || fail "not all waiting ranks got the error"
}

# A pmirun whose jobs lack a key that clients need reports that at once.
group_broken() {
    run 250 2 keys
    err_has '^pmirun: PMIx clients would hang: .*lacks the key .*Open MPI'
}

"group_$group"
[ $failed = 0 ] && echo "$how $group: $n runs, all as they should be"
exit $failed
