#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# output.sh HOW: output and input of four nodes.
. "${0%/*}/harness.sh"

run 0 -n 8 -l sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do printf "a$PMI_RANK"; printf "b$PMI_RANK\n"; done'
[ "$(grep -c '^\[\([0-7]\)\] a\1b\1$' "$dir/out")" = 80 ] || fail "lines were mixed"
run 0 -n 4 -l sh -c 'head -c 3000000 /dev/zero | tr "\0" x; echo; echo end'
[ "$(tr -cd x < "$dir/out" | wc -c)" = 12000000 ] || fail "bytes of a long line were lost"
run 0 -n 4 sh -c 'echo o; echo e >&2'
[ "$(cat "$dir/out" "$dir/err" | tr -d '\n')" = ooooeeee ] || fail "stdout and stderr"
run 0 -n 4 -l printf '%s' tail
[ "$(grep -o '\[[0-3]\] tail' "$dir/out" | wc -l)" = 4 ] || fail "output without a newline at its end"
seq 100000 > "$dir/in"
stdin=$dir/in run 0 -n 4 cat
cmp -s "$dir/in" "$dir/out" || fail "stdin from a file"
: > "$dir/out" # input that comes after rank 0 has read all that was there
(cat "$dir/in"; soon has_lines 100000 . out; echo last) | timeout 60 "$pmirun" "${nodes[@]}" -n 4 cat > "$dir/out" 2> "$dir/err"
out_has '^last$'
stdin=/dev/zero run 0 -n 4 true # a rank that does not read it
stdin=/ run 0 -n 4 cat
err_has "cannot read standard input: Is a directory"
(timeout 60 "$pmirun" "${nodes[@]}" -n 4 yes; echo $? > "$dir/status") 2> "$dir/err" | head -1 > "$dir/out"
[ "$(cat "$dir/status")" = 141 ] || fail "status after a closed pipe: $(cat "$dir/status"), not 141"
# A reader that does not read: PMI continues, memory stays bounded, no output is lost.
mkfifo "$dir/pipe"
exec 9<> "$dir/pipe"
timeout 150 "$pmirun" "${nodes[@]}" -n 1 sh -c 'head -c 20000000 /dev/zero | tr "\0" "y" | fold -w 99' \
    : -n 3 sh -c "$RAWPMI chat 1000 && echo done >&2" > "$dir/pipe" 2> "$dir/err" &
limit=$!
soon has_lines 3 done err || fail "PMI was held up by a reader that sleeps"
for p in $(first_child $limit) $(our_agents); do
    steady rss_of "$p"
    rss=$(rss_of "$p")
    [ "${rss:-0}" -lt 40000 ] || fail "pmirun uses $rss kB while its reader sleeps"
done
exec 8< "$dir/pipe" 9>&-
bytes=$(tr -cd y <&8 | wc -c)
exec 8<&-
[ "$bytes" = 20000000 ] || fail "$bytes bytes of 20000000 arrived"
wait $limit || fail "status $? after the reader woke up"
finish
