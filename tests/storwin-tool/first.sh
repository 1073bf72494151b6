#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# first.sh PROGRAM TOOL: the README's program is killed after some steps, ten times: each start continues at or behind the last step
# that it printed, and its file stays.
set -u
program=$1 tool=$2
work=$(mktemp -d "$PWD/storwin-first.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 143' HUP INT TERM
cd "$work" || exit 1
fail() {
    echo "FAILED: $*"
    exit 1
}
last=0
for ((round = 1; round <= 10; round++)); do
    : > out
    ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 stdbuf -oL "$program" > out &
    pid=$!
    for ((i = 0; i < 2000; i++)); do # until it has made some steps, or ended
        [ "$(grep -c '^step' out)" -le "$round" ] && kill -0 $pid 2> /dev/null || break
        sleep 0.005
    done
    kill -KILL $pid 2> /dev/null
    wait $pid 2> /dev/null
    from=$(sed -n 's/^continues after step //p' out)
    [ -n "$from" ] && [ "$from" -ge "$last" ] && [ "$from" -le $((last + 1)) ] || fail "round $round: from ${from:-nowhere}, after step $last"
    last=$(sed -n 's/^step //p' out | tail -n 1)
    [ -n "$last" ] || fail "round $round: no step"
done
[ -s first.state ] || fail "the file is gone"
"$tool" verify first.state | grep -q "generation $last: whole\|generation $((last + 1)): whole" || fail "verify: $("$tool" verify first.state)"
echo "10 kills, $last steps"
