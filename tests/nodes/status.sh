#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# status.sh HOW: exit statuses, and what is said about them.
. "${0%/*}/harness.sh"

run 2 -N 0 -n 1 true
run 2 --map nowhere -n 1 true
run 2 --design nothing -n 1 true
run 0 --start-timeout 0 -n 4 true # as long as it takes
PATH=/usr/bin:/bin run 127 -n 4 no-such-program # the kernel reports another error for a folder without search permission
err_has "cannot start no-such-program: No such file"
# The ranks of one node may have ended before the head knows that another node's have started: these still have a second. On a busy machine they may
# need longer to begin, and are stopped then; never sooner.
for i in {1..20}; do
    begun=${EPOCHREALTIME/./}
    run 254 --mpi pmi -N 2 -n 4 "$RAWPMI" early
    [ "$(grep -c 'rc=14' "$dir/out")" = 3 ] || [ $((${EPOCHREALTIME/./} - begun)) -gt 1000000 ] || fail "not all ranks that wait got the error"
done
run 126 -n 4 /etc/passwd
run 126 -n 4 --wdir /no/such true
err_has '/no/such: no such working directory'
run 126 -n 4 --wdir / /etc/passwd/prog
err_has 'cannot start /etc/passwd/prog: Not a directory'
run 1 -n 4 false
run 5 -n 4 sh -c '[ $PMI_RANK = 3 ] && exit 5; exit 0'
err_has "rank 3 on ${names[3]} (pid .*) exited with status 5"
run 9 -n 3 "$RAWPMI" sleep : -n 1 "$RAWPMI" exit 9 inited
err_has "rank 3 on ${names[3]} (pid .*) exited with status 9 after PMI init, without finalize"
run 251 -n 3 "$RAWPMI" sleep : -n 1 "$RAWPMI" exit 0 inited
run 6 -n 1 "$RAWPMI" exit 6 early : -n 3 "$RAWPMI" pgf # a rank that has not begun, on another node than the waiting ones
run 139 -n 1 "$RAWPMI" die 11 inited : -n 3 "$RAWPMI" sleep
err_has "rank 0 on ${names[0]} (pid .*) died of signal 11"
run 33 -n 3 "$RAWPMI" sleep : -n 1 "$RAWPMI" abort 33
err_has "rank 3 on ${names[3]} (pid .*) aborted with code 33"
# The cause is the rank that dies first, not the rank on another node that aborts because of it.
run 137 -n 1 "$RAWPMI" abort 33 "$dir" : -n 2 "$RAWPMI" sleep : -n 1 "$RAWPMI" victim "$dir"
err_has "rank 3 on ${names[3]} (pid .*) died of signal 9"
run 124 --timeout 1 -n 4 sleep "$mark"
run 124 --timeout 1 -n 4 sh -c 'trap "" TERM; sleep 60 & wait' # SIGKILL after the grace
run 0 -n 4 sh -c "setsid sleep $mark > /dev/null 2>&1 & exit 0"
[ -z "$(pids_of "sleep $mark")" ] || fail "leftovers of ranks"
nothing_left
[ "$1" = fork ] || finish
run 2 -n 4 ""
err_has "the program's name is empty"
run 2 -n 4 --wdir "" true
err_has '--wdir wants DIR, not ""'
nodes=()
run 2 --launch ssh -n 4 true
err_has 'no host is given'
# What ssh says ends with CR LF.
printf '#!/bin/sh\nprintf "no route to %%s\\r\\n" "$2"\nexit 255\n' > "$dir/noroute"
chmod +x "$dir/noroute"
nodes=(--hosts a --launch-agent "$dir/noroute")
run 253 -n 1 true
err_has '^pmirun: a: no route to a$'
# A rank that reads nothing: the message says how it ended, not that writing to it failed.
nodes=(--hosts a --launch-agent false)
for ((i = 0; i < 10; i++)); do
    run 253 -n 1 true
    err_has 'node 0 (a) is lost: false exited with status 1 before its agent connected'
done
nodes=(--hosts ::1 --launch-agent "$dir/noroute")
run 253 -n 1 true
err_has '^pmirun: ::1: no route to ::1$'
# A removed working directory has no name that nodes could use.
nodes=(-N 2 --launch fork)
mkdir "$dir/gone"
cd "$dir/gone" && rmdir "$dir/gone" && run 126 -n 2 true
err_has 'cannot find the working directory for the nodes: No such file'
cd /
finish
