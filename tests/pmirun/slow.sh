#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# slow.sh PMIRUN RAWPMI: readers that take their time get everything, also of a job that is stopped. A signal, or --timeout, ends their time.
. "${0%/*}/rawpmi.bash"

mkfifo "$dir/never" "$dir/full"
exec 9<> "$dir/never" 8<> "$dir/full"
slowly stopped 6 "$pmirun" -n 1 sh -c 'head -c 300000 /dev/zero; kill -9 $$'
slowly ended 6 "$pmirun" --timeout 5 -n 1 sh -c 'head -c 300000 /dev/zero'
# What a rank leaves behind is ended while it writes to a slow reader.
: > "$dir/endless"
(timeout -k 5 90 "$pmirun" -n 1 sh -c 'yes & sleep 0.5' 2> "$dir/endless.err"; echo $? > "$dir/endless") |
    while [ ! -s "$dir/endless" ]; do head -c 65536; sleep 0.02; done > /dev/null &
"$pmirun" --stats -n 1 sh -c 'head -c 65536 /dev/zero >&2' 2> "$dir/full" & # as much as a pipe takes
pid=$!
timeout 60 "$pmirun" --timeout 0.3 -n 1 yes > "$dir/never" 2> "$dir/err"
status=$?
[ $status = 124 ] || fail "--timeout: status $status"
"$pmirun" -n 1 sh -c 'head -c 300000 /dev/zero; kill -9 $$' > "$dir/never" 2> "$dir/err" &
await 1 'died of signal 9' err
kill -TERM $!
wait $!
status=$?
[ $status = 137 ] || fail "a signal while the reader sleeps: status $status"
# One that wakes up after the signal gets everything. It has 4 s: a busy machine has five tries.
mkfifo "$dir/woken"
for _ in 1 2 3 4 5; do
    exec 6<> "$dir/woken"
    : > "$dir/err"
    "$pmirun" -n 1 sh -c 'head -c 300000 /dev/zero; kill -9 $$' > "$dir/woken" 2> "$dir/err" 6>&- &
    late=$!
    await 1 'died of signal 9' err
    kill -TERM $late
    sleep 0.5
    exec 5< "$dir/woken" 6>&-
    bytes=$(wc -c <&5)
    exec 5<&-
    wait $late
    [ "$bytes" != 300000 ] || break
done
[ "$bytes" = 300000 ] || fail "a reader that wakes up after a signal: $bytes bytes"
exec 7< "$dir/full" 8>&-
cat <&7 > "$dir/out"
wait $pid || fail "--stats: status $?"
out_has '"program":"pmirun"'
wait
was stopped 137 300000
was ended 0 300000
[ "$(cat "$dir/endless")" = 0 ] || fail "a leftover that writes: status $(cat "$dir/endless"): $(cat "$dir/endless.err")"
finish
