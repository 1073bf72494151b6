#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# signals.sh HOW: signals to the head.
. "${0%/*}/harness.sh"

four_sleep() { [ "$(pids_of "sleep $mark" | wc -l)" = 4 ]; }
begin -n 4 sh -c 'trap "echo got; exit 0" USR1; echo ready; while :; do sleep 0.1; done'
await 4 ready
kill -USR1 "$head"
end 0
[ "$(grep -c got "$dir/out")" = 4 ] || fail "SIGUSR1 did not reach all"
begin -n 4 sh -c 'echo ready; exec sleep 60'
await 4 ready
kill -TERM "$head"
end 143
# The second signal kills ranks that ignore the first.
begin -n 4 sh -c 'trap "echo survived" TERM; echo ready; while :; do sleep 0.1; done'
await 4 ready
term=${EPOCHREALTIME/./}
kill -TERM "$head"
await 4 survived
# SIGKILL comes by itself after 2 s.
kill -0 "$head" || [ $((${EPOCHREALTIME/./} - term)) -gt 1500000 ] || fail "the first SIGTERM ended what ignores it"
sleep 0.5
kill -TERM "$head"
end 143
! grep -q 'still run' "$dir/err" || fail "second SIGTERM"
begin -n 4 sh -c "echo ready; exec sleep $mark"
soon four_sleep || fail "they do not sleep"
kill -TSTP "$head"
for p in $head $(pids_of "sleep $mark"); do
    soon state_is T "$p" || fail "$p is not stopped"
done
kill -CONT "$head"
for p in $(pids_of "sleep $mark"); do
    soon state_is S "$p" || fail "$p does not go on"
done
kill -TERM "$head"
end 143
nothing_left
finish
