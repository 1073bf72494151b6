#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# liveness.sh PMIRUN LIVENESS HOW: a collective needs a rank that is gone. All waiting ranks get an error that names it; pmirun reports it and ends
# the job, within its grace and 1 s on an idle machine, within 20 s on any. HOW: one (node); fork: four nodes here; hosts: this runs under `hosts run`
# of tests/nodes.
set -u
pmirun=$(realpath "$1") how=$3
top=$(mktemp -d) || exit 1
# Each case is a shell of its own, whose child limits its time and forwards signals.
trap 'for pid in $(jobs -p); do pkill -TERM -P "$pid"; done; wait; rm -rf "$top"' EXIT
trap 'exit 1' HUP INT TERM
ln -s "$(realpath "$2")" "$top/liveness" # paths through ssh may have no blanks
liveness=$top/liveness
case $how in
one) nodes=() ranks=4 ;;
fork) nodes=(-N 4 --launch fork) ranks=8 ;;
hosts) nodes=(--hosts "$HOSTS" --launch-agent "$HOST_SSH") ranks=8 ;;
esac
n=0
fail() {
    echo "FAIL: $what: $*"
    sed 's/^/    out: /' "$dir/out" | cut -c1-200 | head -20
    sed 's/^/    err: /' "$dir/err" | cut -c1-200 | head -20
}
# gone STATUS TEXT WIRE COLL DEED THEN [late]: rank 2 does DEED; standard error has TEXT. Cases mostly wait, so three run at a time, each in a folder
# of its own, with its faults in `failures`.
gone() {
    while [ "$(jobs -pr | wc -l)" -ge 3 ]; do wait -n; done
    n=$((n + 1))
    dir=$top/$n
    mkdir "$dir"
    one_gone "$@" > "$dir/failures" &
}
one_gone() {
    local want=$1 text=$2 got told=$((ranks - 1))
    shift 2
    what=$*
    "$liveness" begin "$dir/board"
    timeout -k 5 100 "$pmirun" "${nodes[@]}" --stall-timeout 0.5 -n $ranks "$liveness" rank "$1" "$2" "$3" 2 "$dir/board" "${@:4}" \
        > "$dir/out" 2> "$dir/err" < /dev/null
    got=$?
    "$liveness" check "$dir/board" 20 > "$dir/check" || fail "$(cat "$dir/check")"
    [ $got = "$want" ] || fail "status $got, not $want"
    grep -q -e "^pmirun: rank 2 .*(pid [0-9]*, .*liveness) $text" "$dir/err" || fail "stderr has no \"rank 2 ... $text\""
    [ "$(grep -c 'stopping the job' "$dir/err")" = 1 ] || fail "not one cause"
    # A Ring over nodes is complete for the ranks of a node that has its neighbours' values: 6 and 7 here.
    [ "$how" != one ] && [ "$2" = ring ] && told=$((ranks - 3))
    case "$3 $4" in
    kill* | exit*) ;; # the job's end may kill a waiting rank before it gets the error
    *"finalize fail") grep -q 'exited with status 1 after PMI init' "$dir/err" || fail "the status of a rank with the error has no cause" ;;
    *) [ "$(grep -c '^rank [0-9]: .*rank[ _]2[ _]' "$dir/out")" = $told ] || fail "not all waiting ranks got an error that names rank 2" ;;
    esac
}
stuck() { echo "$1: $2 that other ranks wait in cannot complete"; }

for wire in 1 2 mixed; do
    gone 254 "$(stuck 'has finalized' 'a fence')" $wire fence finalize leave
    gone 254 "$(stuck 'has closed its PMI connection' 'a fence')" $wire fence close leave
    gone 254 "$(stuck 'was cut off from PMI' 'a fence')" $wire fence cut leave
    gone 254 "$(stuck 'was cut off from PMI' 'a fence')" $wire fence stall leave
    gone 254 "$(stuck 'has ended without PMI init' 'a fence')" $wire fence early leave
    gone 137 'died of signal 9' $wire fence kill leave
    gone 7 'exited with status 7 after PMI init' $wire fence exit leave
done
for wire in 1 2; do
    gone 254 "$(stuck 'has finalized' 'an Allgather')" $wire gather finalize leave
    gone 254 "$(stuck 'has closed its PMI connection' 'an Allgather')" $wire gather close leave
    gone 254 "$(stuck 'has finalized' 'a Ring')" $wire ring finalize leave
    gone 254 "$(stuck 'has ended without PMI init' 'a Ring')" $wire ring early leave
done
# A rank that enters later gets the error at once; pmirun ends a rank that stays.
gone 254 "$(stuck 'has finalized' 'a fence')" mixed fence finalize leave late
gone 254 "$(stuck 'has ended without PMI init' 'a Ring')" mixed ring early leave late
gone 254 "$(stuck 'has finalized' 'a fence')" mixed fence finalize stay
gone 254 "$(stuck 'has closed its PMI connection' 'an Allgather')" mixed gather close stay late
# The cause is how the lost rank ends, not how ranks end after the error; where the lost rank ends well, pmirun reports both.
gone 137 'died of signal 9' mixed fence dying fail
gone 1 "$(stuck 'has finalized' 'a fence')" mixed fence finalize fail
wait
cat "$top"/*/failures
cat "$top"/*/failures | grep -q . && exit 1
echo "$how: $n runs, all as they should be"
