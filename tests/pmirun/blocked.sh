#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# blocked.sh PMIRUN RAWPMI: a reader that does not read: PMI continues, memory stays bounded, no output is lost.
. "${0%/*}/rawpmi.bash"

# A reader that does not read: PMI continues, memory stays bounded, no output is lost.
mkfifo "$dir/pipe"
exec 9<> "$dir/pipe"
timeout 150 "$pmirun" --stats -n 1 sh -c 'head -c 30000000 /dev/zero | tr "\0" "y" | fold -w 99' \
    : -n 4 sh -c "$raw chat 1000 && echo done >&2" > "$dir/pipe" 2> "$dir/err" &
pid=$!
soon has_lines 4 done err || fail "PMI was held up by a reader that sleeps"
child=$(cat /proc/$pid/task/$pid/children 2>/dev/null | tr -d ' ')
steady rss_of "$child"
rss=$(rss_of "$child")
[ "${rss:-0}" -gt 0 ] && [ "$rss" -lt 20000 ] || fail "pmirun uses $rss kB while its reader sleeps"
exec 8< "$dir/pipe" 9>&-
bytes=$(tr -cd y <&8 | wc -c)
exec 8<&-
[ "$bytes" = 30000000 ] || fail "$bytes bytes of 30000000 arrived"
wait $pid || fail "status $? after the reader woke up"
finish
