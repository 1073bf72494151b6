#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# slow.sh HOW: readers that take their time get everything: of a job that has ended while output waits on its nodes,
# and of one that is stopped meanwhile.
. "${0%/*}/harness.sh"

mkfifo "$dir/never"
exec 9<> "$dir/never"
slowly ended 10 "$pmirun" "${nodes[@]}" -n 60 head -c 60000 /dev/zero
slowly stopped 10 "$pmirun" "${nodes[@]}" -n 60 sh -c "head -c 60000 /dev/zero; : > $dir/wrote.\$PMI_RANK; [ \$PMI_RANK = 0 ] || exit 0
    until set -- $dir/wrote.*; [ \$# = 60 ]; do sleep 0.1; done; kill -9 \$\$"
timeout 60 "$pmirun" "${nodes[@]}" --timeout 1 -n 4 yes > "$dir/never" 2> "$dir/err"
status=$?
[ $status = 124 ] || fail "--timeout: status $status"
"$pmirun" "${nodes[@]}" -n 4 yes > "$dir/never" 2> "$dir/err" &
sleep 1
kill -TERM $!
wait $!
status=$?
[ $status = 143 ] || fail "a signal while the reader sleeps: status $status"
wait
was ended 0 3600000
was stopped 137 3600000
nothing_left
finish
