#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# signals.sh PMIRUN RAWPMI: signals to pmirun, and what a killed pmirun leaves behind.
. "${0%/*}/rawpmi.bash"

gone() { ! kill -0 "$1" 2> /dev/null; }
are() { [ "$(others_pids "$1" | wc -l)" = "$2" ]; } # COMMAND COUNT
none_of() { are "$1" 0; }
others_pids() { pgrep -f "^$1"; } # the processes whose command line begins so

mark=$((main + 100000)).125 # sleeps of a length that no other test uses
# A killed pmirun leaves no process: no daemon of a rank, also not one without its environment; also when its whole process group is
# killed.
for target in '' - ; do
    : > "$dir/out"
    setsid "$pmirun" -n 2 sh -c "setsid sleep $mark & env -i sleep $mark & echo up; sleep $mark; true" > "$dir/out" 2> "$dir/err" &
    pid=$!
    soon are "sleep $mark" 6 || fail "they do not sleep"
    guard=$(pgrep -P $pid -x job-guard)
    kill -9 -- "$target$pid"
    wait $pid 2> /dev/null
    soon none_of "\(setsid \|env -i \|sh -c setsid \|\)sleep $mark" || fail "still there: $(others_pids "sleep $mark")"
    soon gone "${guard:-1}" || fail "the guard is still there"
done
# A pmirun under it ends too, with its ranks.
begin -n 1 "$pmirun" -n 2 sh -c "setsid sleep $mark & sleep $mark; true"
soon are "sleep $mark" 4 || fail "they do not sleep under two"
kill -9 $pid
wait $pid 2> /dev/null
soon none_of "sleep $mark" || fail "left under two: $(others_pids "sleep $mark")"
# So it is with one node of several.
if several; then
    begin -N 2 --launch fork -n 2 sh -c "setsid sleep $mark & echo up; sleep $mark; true"
    soon are "sleep $mark" 4 || fail "they do not sleep on two nodes"
    kill -9 "$(pgrep -o -P $pid)"
    wait $pid
    [ $? = 253 ] || fail "an agent that is killed"
    soon none_of "sleep $mark" || fail "left by an agent: $(others_pids "sleep $mark")"
fi
# The guard of a pmirun that ends by itself ends too.
begin -n 1 sh -c "echo up; exec sleep $mark"
await 1 up
guard=$(pgrep -P $pid -x job-guard)
kill "$pid"
wait $pid
gone "${guard:-1}" || fail "the guard outlives a pmirun that was not killed"

for sig in INT TERM HUP; do
    begin -v -n 2 "$raw" sleep
    await 2 'PMI finalize' err
    # Jobs that a script starts with & ignore SIGINT; pmirun then leaves it ignored.
    [ $sig = INT ] && sig2=TERM || sig2=$sig
    kill -$sig2 $pid
    wait $pid
    got=$?
    [ $got = $((128 + $(kill -l $sig2))) ] || fail "status $got after SIG$sig2"
done
# The second SIGINT kills ranks that ignore the first.
command -v python3 > /dev/null || echo "without python3: the second SIGINT is not tested"
command -v python3 > /dev/null && ! timeout 100 python3 -c '
import atexit, signal, subprocess, sys
p = subprocess.Popen([sys.argv[1], "-n", "2", "sh", "-c", "trap \"echo int\" INT; echo up; while :; do sleep 0.1; done"],
                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
atexit.register(p.kill)
def hear(word): assert [p.stdout.readline() for _ in range(2)] == [word + "\n"] * 2, word
hear("up"); p.send_signal(signal.SIGINT); hear("int")
assert p.stderr.readline() == "pmirun: 2 of 2 processes have not ended yet; press Ctrl-C again to kill the job\n"
assert p.poll() is None, "the first SIGINT ended it"
p.send_signal(signal.SIGINT); sys.exit(0 if p.wait(60) == 130 else 1)' "$pmirun" 2> "$dir/err" && fail "second SIGINT"
# Another signal than the first is a second one, however soon.
command -v python3 > /dev/null && ! timeout 100 python3 -c '
import atexit, signal, subprocess, sys
p = subprocess.Popen([sys.argv[1], "-n", "1", "sh", "-c", "trap \"\" INT TERM; echo up; while :; do sleep 0.1; done"],
                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
atexit.register(p.kill)
p.stdout.readline(); p.send_signal(signal.SIGTERM); p.send_signal(signal.SIGINT)
sys.exit(0 if p.wait(60) in (130, 143) and p.stderr.read() == "" else 1)' "$pmirun" 2> "$dir/err" && fail "SIGTERM and SIGINT"
# So does a second SIGTERM.
begin -n 2 sh -c 'trap "echo survived" TERM; echo up; while :; do sleep 0.1; done'
await 2 up
term=${EPOCHREALTIME/./}
kill -TERM $pid
await 2 survived
# SIGKILL comes by itself after 2 s.
kill -0 $pid || [ $((${EPOCHREALTIME/./} - term)) -gt 1500000 ] || fail "the first SIGTERM ended what ignores it"
sleep 0.5
kill -TERM $pid
wait $pid
[ $? = 143 ] && ! grep -q 'still run' "$dir/err" || fail "second SIGTERM"
# One that comes within 0.2 s of the first, as from timeout(1), is no second one. A busy machine may be later, but not five times.
for i in 1 2 3 4 5; do
    rm -f "$dir/got"
    begin -n 1 sh -c "trap ': > $dir/got; sleep 0.5; echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    await 1 up
    kill -TERM $pid
    until [ -e "$dir/got" ] || gone $pid; do :; done
    kill -TERM $pid
    wait $pid && break
done
out_has saved
# What ignores the first is ended after 10 s.
begin -n 2 sh -c 'trap "" TERM; echo up; while :; do sleep 0.1; done'
await 2 up
kill -TERM $pid
wait $pid
[ $? = 143 ] && grep -q '2 of 2 processes still run 10 s after SIGTERM; stopping the job' "$dir/err" || fail "the first SIGTERM, ignored"
# USR1 reaches the ranks
begin -n 2 sh -c 'trap "echo got; exit" USR1; echo up; while :; do sleep 0.1; done'
await 2 up
kill -USR1 $pid
wait $pid
[ "$(grep -c got "$dir/out")" = 2 ] || fail "SIGUSR1 did not reach both"
# TSTP stops us and the ranks, CONT wakes all.
begin -n 2 sh -c "echo up; exec sleep $mark"
soon are "sleep $mark" 2 || fail "they do not sleep"
kill -TSTP $pid
for p in $pid $(others_pids "sleep $mark"); do
    soon state_is T "$p" || fail "$p is not stopped"
done
kill -CONT $pid
for p in $(others_pids "sleep $mark"); do
    soon state_is S "$p" || fail "$p does not go on"
done
kill -TERM $pid
wait $pid
# So it is while pmirun starts ranks, also if they stay in its session, as those do that are more than the processors and may yield them.
one=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
crowd=
for mpi in pmix openmpi; do
    taskset -c "$one" "$pmirun" --mpi $mpi -n 2 true 2> "$dir/err" && crowd=$mpi && break
done
if [ -n "$crowd" ]; then
    set -m # a process group of its own
    taskset -c "$one" "$pmirun" --mpi $crowd -n 300 sh -c "echo up; exec sleep $mark" > "$dir/out" 2> "$dir/err" &
    pid=$!
    set +m
    until [ -s "$dir/out" ] || gone $pid; do :; done
    for ((i = 0; i < 20; i++)); do
        kill -TSTP -- -$pid
        soon state_is T $pid || { fail "SIGTSTP $i during the launch: pmirun is not stopped"; break; }
        kill -CONT -- -$pid
        sleep 0.005
    done
    kill -TERM $pid
    [ $i = 20 ] || kill -9 -- -$pid
    wait $pid
else
    echo "neither PMIx nor Open MPI: SIGTSTP while ranks start is not tested"
fi
# Leftovers of a rank, daemons too, end with the job, which names them.
run 0 -n 2 sh -c "setsid sleep $mark > /dev/null 2>&1 & exit 0"
[ "$(grep -c 'process [0-9]* ([a-z]*) outlives the rank that has started it, and is ended' "$dir/err")" = 2 ] || fail "leftovers are not named"
# By hydra's rules one that has a rank's connection and output takes its place.
run 0 --ends hydra -n 3 sh -c "(sleep 0.5; $raw pgf && echo done) & exit 0"
[ "$(grep -cx done "$dir/out")" = 3 ] || fail "not three that take their ranks' places"
[ "$(wc -c < "$dir/err")" = 0 ] || fail "stderr is not empty"
run 0 --ends hydra -n 2 sh -c "sleep $mark > /dev/null 2>&1 & exit 0" # not one that has its connection alone: it is left running
are "sleep $mark" 2 || fail "not two left running"
for p in $(others_pids "sleep $mark"); do kill -9 "$p"; done
ln -s "$(realpath "$raw")" "$dir/left"
run 7 --ends hydra -n 1 sh -c "(sleep 0.5; $dir/left sleep) & exit 0" : -n 1 sh -c "sleep 2; $raw abort 7"
none_of "$dir/left sleep" || fail "left behind by an abort: $(others_pids "$dir/left sleep")"
run 124 --ends hydra --timeout 1 -n 2 sh -c "(trap '' TERM; sleep $mark) & exit 0"
for p in $(others_pids "sleep $mark"); do fail "leftover $p"; kill -9 "$p"; done
run 0 -n 1 sh -c "(trap '' TERM; exec sleep $mark) & exit 0"
for p in $(others_pids "sleep $mark"); do fail "leftover $p"; kill -9 "$p"; done
finish
