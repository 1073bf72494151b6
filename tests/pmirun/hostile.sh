#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# hostile.sh PMIRUN RAWPMI: a bad client, and others that finish.
. "${0%/*}/rawpmi.bash"

# beside [argument of pmirun...]: a client that stays, with three others that all get their answers
beside() {
    local mode=${!#}
    begin "$@" : -n 3 sh -c "$raw chat 2000; echo done \$?"
    await 3 'done 0'
    [ "$mode" != noread ] || await 1 "does not read its replies" err
    kill -TERM $pid
    wait $pid
    [ $? = 143 ] || fail "$mode: status $?"
}

# One bad client each, and others that finish.
beside --stall-timeout 600 -n 1 "$raw" silent
run 0 --timeout 20 -n 1 "$raw" garbage : -n 3 sh -c "$raw chat 2000; echo done \$?"
[ "$(grep -c 'done 0' "$dir/out")" = 3 ] || fail "garbage held up others"
err_has "rank 0"
beside -n 1 "$raw" noread
err_has "does not read its replies"
run 251 --timeout 20 --stall-timeout 0.5 -n 1 sh -c "timeout 3 $raw silent; exit 0" : -n 1 sleep 60
err_has "rank 0"
# A rank that waits for a key and disconnects does not disturb the others.
for shm in "" --no-shm; do
    rm -f "$dir/late"
    run 251 --timeout 20 $shm -n 3 "$raw" gone "$dir" : -n 1 "$raw" late "$dir" : -n 2 "$raw" gone "$dir"
    out_has "got what was late"
done
# A Get finds the pairs that a rank put before it ended, also when pmirun notices the end first.
run 0 --timeout 20 -n 3 "$raw" last "$dir"
# A Get behind one that ends by --get-timeout has its own time limit.
run 0 --timeout 20 --get-timeout 1 -n 3 "$raw" ahead
several && run 0 --timeout 20 --get-timeout 1 -N 3 --launch fork -n 3 "$raw" ahead
# Processes that write to a connection without end do not hold pmirun, also when the rank has ended.
seconds=20 run 1 --timeout 10 -n 1 sh -c "trap '' TERM; for i in 1 2 3 4; do yes cmd=abort >&\$PMI_FD 2> /dev/null & done; sleep 1"
! grep -q 'still run' "$dir/err" || fail "they hold pmirun"
# A rank replaces the program of a later one by a FIFO, which has no writer.
mkfifo "$dir/fifo"
printf '#!/bin/sh\nexit 126\n' > "$dir/prog"
chmod +x "$dir/fifo" "$dir/prog"
seconds=30 run 126 -n 1 mv "$dir/fifo" "$dir/prog" : -n 300 true : -n 1 "$dir/prog"
# A wrong id is refused; the right one can be used once.
run 99 --timeout 20 --pmi-port -n 1 -x RAWPMI_ID=12345 "$raw" chat 1
run 99 --timeout 20 --pmi-port -n 1 sh -c "$raw pgf && $raw pgf"
# Further connections, of a rank or a stranger, are refused, do no harm and do not fill the log.
# 102 of them have a wrong id; a rank with the right one is served afterwards.
run 0 --timeout 20 --pmi-port -n 1 sh -c "$raw strangers 300; : > $dir/tried" : -n 2 "$raw" chat 2000 : \
    -n 1 sh -c "until [ -e $dir/tried ]; do sleep 0.1; done; exec $raw chat 10"
out_has "300 were refused"
err_has "further errors of unidentified clients are only counted"
err_has "100 errors of unidentified clients"
[ "$(wc -l < "$dir/err")" = 10 ] || fail "not 8 complaints, and 2 lines about the others"
if [ "$(id -u)" = 0 ]; then
    cp "$raw" "$dir/raw" && chmod 755 "$dir" "$dir/raw"
    run 99 --timeout 20 --pmi-port -n 1 setpriv --reuid=65534 --clear-groups "$dir/raw" chat 1
    err_has "user 65534 is refused"
else
    echo "not root: not tried as another user"
fi
finish
