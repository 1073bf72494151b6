#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# status.sh PMIRUN RAWPMI: exit statuses, and what is said about them.
. "${0%/*}/rawpmi.bash"

run 2
run 2 --nonsense -n 1 true
run 2 -n x true
run 2 -n 1 true :
run 2 -x PMI_RANK=1 -n 1 true
run 2 -x MPI_LOCALNRANKS=1 -n 1 true
for hosts in a,,b:2 a,b,:3 ,a:1 ,:1; do # never dialled: pmirun starts nothing before it has checked all options
    run 2 --hosts "${hosts%:*}" --launch-agent false -n 1 true
    err_has "hosts ${hosts%:*}: name ${hosts#*:} of the list is empty"
done
run 2 --hosts "" -n 1 true
err_has "host names, separated by commas"
run 2 --hosts a,-oX -n 1 true
err_has '"-oX" is not a valid host name'
run 0 -x MPI_LOCALNRANKS_=1 -n 1 true
PATH=/usr/bin:/bin run 127 -n 2 no-such-program # the kernel reports another error for a folder without search permission
run 127 -n 2 ./no/such/program
run 126 -n 2 /etc/passwd
run 126 --wdir /no/such -n 1 true
err_has '/no/such: no such working directory'
run 126 --wdir / -n 1 /etc/passwd/prog
err_has 'cannot start /etc/passwd/prog: Not a directory'
printf '\177ELF-broken' > "$dir/broken"
chmod +x "$dir/broken"
run 126 -n 2 "$dir/broken"
printf '#!/no/such/shell\n' > "$dir/orphan"
chmod +x "$dir/orphan"
run 127 -n 2 "$dir/orphan"
err_has 'orphan: the interpreter that it names does not exist'
run 2 -n 1 ''
err_has 'name is empty'
printf 'echo "script $1"\n' > "$dir/script"
chmod +x "$dir/script"
run 0 -n 1 "$dir/script" x
out_is "script x"
run 1 -n 3 false
run 5 -n 1 sh -c 'exit 5'
run 7 -n 2 "$raw" exit 0 final : -n 1 "$raw" exit 7 final
run 9 -n 1 "$raw" exit 9 inited : -n 2 "$raw" sleep
err_has "rank 0 (pid .*) exited with status 9 after PMI init, without finalize"
run 251 -n 2 "$raw" sleep : -n 1 "$raw" exit 0 inited
run 6 -n 1 "$raw" exit 6 early : -n 2 "$raw" pgf
run 143 -n 1 "$raw" die 15 final : -n 2 "$raw" sleep
run 139 -n 1 "$raw" die 11 inited : -n 2 "$raw" sleep
err_has "rank 0 (pid .*) died of signal 11"
run 33 -n 2 "$raw" sleep : -n 1 "$raw" abort 33 # no rank waits in a fence for it
run 1 -n 1 "$raw" abort 256
# The cause is the rank that dies first, not one that aborts because of it before pmirun can reap it; a rank that exits after its abort
# counts as aborted.
run 137 -n 1 "$raw" abort 33 "$dir" : -n 2 "$raw" sleep : -n 1 "$raw" victim "$dir"
err_has "rank 3 (pid .*) died of signal 9"
[ "$(grep -c 'stopping the job' "$dir/err")" = 1 ] || fail "two causes"
run 34 -n 2 "$raw" sleep : -n 1 sh -c 'printf "cmd=init pmi_version=1 pmi_subversion=1\ncmd=abort exitcode=34\n" >&3; exit 9'
err_has "rank 2 (pid .*) aborted with code 34"
[ "$(grep -c 'stopping the job' "$dir/err")" = 1 ] || fail "two causes"
# A rank that has closed its connection and still runs does not block an abort.
rm -f "$dir/closed" "$dir/aborted"
run 35 -n 1 "$raw" abort 35 "$dir" : -n 1 sh -c "$raw victim $dir & exec 3>&-; exec sleep 60"
err_has "rank 0 (pid .*) aborted with code 35"
# Ranks that print without pause, more than the loop handles at a time, do not block one either.
if [ "$(ulimit -Hn)" = unlimited ] || [ "$(ulimit -Hn)" -ge 4000 ]; then
    timeout -k 5 60 "$pmirun" -n 600 sh -c '[ $PMI_RANK != 7 ] || { sleep 2; echo cmd=abort exitcode=36 >&3; }; exec yes' > /dev/null 2> "$dir/err"
    [ $? = 36 ] || fail "an abort while 600 ranks print: not status 36"
    err_has "rank 7 (pid .*) aborted with code 36"
fi
run 124 --timeout 0.3 -n 2 sleep 60
run 124 --timeout 0.3 -n 2 sh -c 'trap "" TERM; sleep 60' # SIGKILL after the grace
run 0 --pmi-port -n 2 true
finish
