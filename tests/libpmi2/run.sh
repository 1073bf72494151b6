#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# run.sh <pmirun> <ranks> <folder of libpmi2.so.0> <test> [<rounds>]: one group of tests of the drop-in library under our own server.
set -u
export LC_ALL=C
pmirun=$1 ranks=$2 libs=$3 what=$4 rounds=${5-1000}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

# job <status> <option of pmirun>... -- <argument of ranks>...
job() {
    local want=$1 options=() status
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    timeout 100 "$pmirun" --timeout 90 "${options[@]}" -x LD_LIBRARY_PATH="$libs" "$ranks" "$@" > "$dir/out" 2> "$dir/err"
    status=$?
    if [ $status != "$want" ] || { [ "$want" = 0 ] && ! grep -q "^ok $1$" "$dir/out"; }; then
        echo "FAILED: ${options[*]} $*: status $status, not $want"
        cat "$dir/out" "$dir/err"
        failed=1
    else
        echo "ok: ${options[*]} $*"
    fi
}

# agent <argument of job>...: on one node that has an agent, where pmirun is built for several
agent() {
    if "$pmirun" -N 1 --launch fork -n 1 true 2> "$dir/err"; then
        job 0 -N 1 --launch fork "$@"
    else
        echo "left out: $* under an agent: $(cat "$dir/err")"
    fi
}

# A rank that outlives pmirun: the guard of a killed pmirun ends its ranks' groups, and every process with its variable.
# shellcheck disable=SC2016
outlive='for v in $(env | sed -n "s/^\(PMIRUN_[^=]*\)=.*/\1/p"); do unset "$v"; done; RANKS_SERVER=$PPID exec setsid -w "$@"'

case $what in
gets)
    for shm in "" --no-shm --pmi-port; do
        job 0 $shm -n 1 -- rounds 20
        job 0 $shm -n 4 -- rounds 40
        job 0 $shm -n 4 -- ifence "$([ "$shm" = --no-shm ] && echo socket || echo shm)"
        job 0 $shm -n 5 -- allgather "$([ "$shm" = --no-shm ] && echo socket || echo shm)"
        job 0 $shm -n 2 -- threads
    done
    job 0 -n 3 -- mapping
    job 0 -n 3 -- many
    job 0 --universe-size 9 -n 2 -- attributes
    ;;
rounds) job 0 -n 2 -- rounds "$rounds" ;;
full)
    job 0 --shm-max 1 -n 4 -- full
    grep -q "cannot grow the shared table" "$dir/err" || { echo "FAILED: no message about the table"; cat "$dir/err"; failed=1; }
    ;;
limits)
    job 0 -n 3 -- no-descriptor
    job 0 -n 3 -- one-array
    job 0 -n 2 -- write
    ;;
death)
    for where in put fence mapped; do
        job 137 -n 4 -- die $where
    done
    timeout 60 "$pmirun" --timeout 50 -n 4 -x LD_LIBRARY_PATH="$libs" sh -c "$outlive" sh "$ranks" orphans "$dir/report" > "$dir/out" 2> "$dir/err"
    # The same over TCP, where shared memory begins with a name.
    timeout 60 "$pmirun" --pmi-port --timeout 50 -n 4 -x LD_LIBRARY_PATH="$libs" sh -c "$outlive" sh "$ranks" orphans "$dir/report" > "$dir/out" 2>> "$dir/err"
    for i in $(seq 600); do
        [ "$(grep -c . "$dir/report" 2> /dev/null)" = 6 ] && break
        sleep 0.1
    done
    if [ "$(grep -c 'ended well' "$dir/report" 2> /dev/null)" = 6 ]; then
        echo "ok: ranks whose server was killed in their fence"
    else
        echo "FAILED: ranks whose server was killed in their fence"
        cat "$dir/report" "$dir/err"
        failed=1
    fi
    ;;
hints)
    job 0 -n 1 -- pairs shm
    for options in "-n 6" "--pmi-port -n 5"; do
        job 0 $options -- pairs shm
        job 0 $options -- ring
    done
    job 0 --no-shm -n 6 -- pairs socket
    agent -n 4 -- pairs shm
    job 0 -n 1 -- ring
    job 0 -n 65 -- one # 64 wait for a key
    job 0 --no-shm -n 65 -- one
    job 0 -n 33 -- chain
    job 0 -n 7 -- nonblocking
    ;;
nonblocking)
    mkdir "$dir/told"
    for options in "-n 4" "--no-shm -n 4" "--pmi-port -n 3" "-n 6 -N 3 --launch fork"; do
        modes="old behind progress"
        [[ $ranks == *1 ]] || modes+=" mixed order"
        # With --pmi-port memory goes by name, and no request follows an Allgather; an agent is no rank's parent, so it cannot be
        # stopped alone.
        [[ $ranks == *1 || $options == *pmi-port* ]] || modes+=" gather-progress"
        [[ $ranks == *1 || $options == *no-shm* || $options == *-N* ]] || modes+=" stopped"
        if [[ $options == *-N* ]] && ! "$pmirun" -N 1 --launch fork -n 1 true 2> "$dir/err"; then
            echo "left out: $options: $(cat "$dir/err")"
            continue
        fi
        for mode in $modes; do
            job 0 $options -- $mode "$dir/told" $([[ $options == *no-shm* ]] && echo socket)
            rm -f "$dir/told/"*
        done
    done
    job 0 -n 1 -- old
    for mode in abort abort-thread abort-handler abort-long; do
        job "$([[ $ranks == *1 ]] && echo 3 || echo 1)" --timeout 20 -n 3 -- $mode
    done
    ;;
waiting)
    for shm in "" --no-shm; do
        job 0 --timeout 20 $shm -n 7 -- never last # far below --get-timeout
        job 0 --timeout 20 $shm -n 7 -- source
        job 0 --get-timeout 0.5 $shm -n 7 -- never all
        job 0 --get-timeout 0.5 $shm -n 7 -- never fenced
        job 0 --get-timeout 0.5 $shm -n 5 -- dense
        job 0 --get-timeout 0.5 $shm -n 5 -- ifence
    done
    job 0 --stall-timeout 0 --get-timeout 0.5 -n 4 -- never fenced
    agent --get-timeout 0.5 -n 4 -- never fenced # an agent's one node
    agent --timeout 20 -n 4 -- source
    job 0 --timeout 20 --get-timeout 0 -n 4 -- source # without a time limit, but the source is gone
    job 0 --timeout 20 -n 1 -- never last
    job 0 --get-timeout 0.5 -n 5 -- never time "$dir/told"
    rm -f "$dir/told"
    job 124 --timeout 3 --get-timeout 0 -n 5 -- never time "$dir/told" # without a time limit
    rm -f "$dir/told"
    job 124 --timeout 3 -n 5 -- never time "$dir/told" # 60 s
    job 142 -n 4 -- die
    HINTS_KILL=server timeout 60 "$pmirun" --timeout 50 -n 5 sh -c "$outlive" sh "$ranks" orphans "$dir/report" > "$dir/out" 2> "$dir/err"
    for i in $(seq 600); do
        [ "$(grep -c . "$dir/report" 2> /dev/null)" = 4 ] && break
        sleep 0.1
    done
    if [ "$(grep -c 'ended well' "$dir/report" 2> /dev/null)" = 4 ]; then
        echo "ok: ranks whose server was killed while they waited"
    else
        echo "FAILED: ranks whose server was killed while they waited"
        cat "$dir/report" "$dir/err"
        failed=1
    fi
    ;;
esac
exit $failed
