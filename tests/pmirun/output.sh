#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# output.sh PMIRUN RAWPMI: lines stay whole; readers that leave.
. "${0%/*}/rawpmi.bash"

# Lines of several writes stay whole.
run 0 -n 8 -l sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do printf "a$PMI_RANK"; printf "b$PMI_RANK\n"; done'
[ "$(grep -c '^\[\([0-7]\)\] a\1b\1$' "$dir/out")" = 80 ] || fail "lines were mixed"
# A line of 1 MB: complete, with one label.
run 0 -n 2 -l sh -c 'head -c 1000000 /dev/zero | tr "\0" x; echo; echo end'
[ "$(tr -cd x < "$dir/out" | wc -c)" = 2000000 ] || fail "bytes of a long line were lost"
[ "$(tr -d x < "$dir/out" | grep -o '\[[01]\]' | wc -l)" = 4 ] || fail "not 4 labels"
# No newline at the end.
run 0 -n 1 -l printf '%s' tail
out_is "[0] tail"
# A filter that outlives its rank passes on what it has. It has a second: a busy machine has five tries.
for _ in 1 2 3 4 5; do
    run 0 -n 2 bash -c 'exec > >(sleep 0.1; sed s/^/x/); seq 1 500'
    ! has_lines 1000 ^x out || break
done
has_lines 1000 ^x out || fail "a filter was ended with its rank"
# One that ends while pmirun is stopped, for longer than that second: pmirun has not read what it has passed on.
for _ in 1 2 3 4 5; do
    rm -f "$dir/go"
    begin -v -n 2 bash -c "exec > >(until [ -e $dir/go ]; do sleep 0.05; done; cat); echo hello"
    await 2 'exited with 0' err
    kill -STOP $pid
    touch "$dir/go"
    sleep 2
    kill -CONT $pid
    wait $pid
    ! has_lines 2 hello out || break
done
has_lines 2 hello out || fail "output was lost while pmirun was stopped"
# A prompt is seen while the rank still runs.
begin -n 2 sh -c "printf prompt; until [ -e $dir/seen ]; do sleep 0.1; done"
await 1 prompt
touch "$dir/seen"
wait $pid
# stdout and stderr apart
run 0 -n 2 sh -c 'echo o; echo e >&2'
[ "$(cat "$dir/out" "$dir/err")" = "o
o
e
e" ] || fail "stdout and stderr"
# Nobody reads.
(timeout 20 "$pmirun" -n 2 yes; echo $? > "$dir/status") 2> "$dir/err" | head -1 > "$dir/out"
[ "$(cat "$dir/status")" = 141 ] || fail "status after a closed pipe: $(cat "$dir/status"), not 141"
# Nobody can read: that is an error once there is output.
timeout 20 "$pmirun" -n 2 sh -c 'echo x' >&- 2> "$dir/err"
[ $? = 252 ] || fail "closed stdout"
err_has "cannot write to stdout: Bad file descriptor"
timeout 20 "$pmirun" -n 2 sh -c 'echo x; echo y >&2' >&- 2>&- <&-
[ $? = 252 ] || fail "closed stdin, stdout, stderr"
timeout 20 "$pmirun" -n 2 sh -c 'echo y >&2' >&- 2> "$dir/err" || fail "closed stdout, and no output"
timeout 20 "$pmirun" -n 2 yes > /dev/full 2> "$dir/err"
[ $? = 252 ] || fail "a full disk"
err_has "cannot write to stdout"
finish
