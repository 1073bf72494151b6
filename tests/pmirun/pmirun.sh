#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# pmirun.sh PMIRUN RAWPMI GROUP: tests of the launcher with clients that speak PMI by hand. Groups: see the end.
set -u
pmirun=$1
raw=$2
group=$3
. "${0%/*}/jobs.bash"
main=$$
ln -s "$raw" "$dir/rawpmi" # texts for a shell name it, so its path has no blanks
raw=$dir/rawpmi

# run SECONDS STATUS [argument of pmirun...]: its output goes to $dir/out and $dir/err. A busy machine has five times as long.
run() {
    local limit=$1 want=$2 got
    shift 2
    n=$((n + 1))
    timeout -k 5 $((5 * limit)) "$pmirun" "$@" > "$dir/out" 2> "$dir/err" < "${stdin:-/dev/null}"
    got=$?
    [ "$got" = "$want" ] || fail "pmirun $*: status $got, not $want"
}

out_is() { [ "$(cat "$dir/out")" = "$1" ] || fail "stdout is not \"$1\""; }
err_empty() { [ ! -s "$dir/err" ] || fail "stderr is not empty"; }

# begin [argument of pmirun...]: in the background, as $pid
begin() {
    : > "$dir/out"
    : > "$dir/err"
    "$pmirun" "$@" > "$dir/out" 2> "$dir/err" &
    pid=$!
}
has_lines() { [ "$(grep -c -e "$2" "$1")" -ge "$3" ]; } # FILE PATTERN COUNT
await() { soon has_lines "$dir/$1" "$2" "${3:-1}" || fail "not ${3:-1} lines \"$2\" in $1"; } # out|err PATTERN [COUNT]
# Is this pmirun built for several nodes? Prints a message if not.
several() { "$pmirun" -N 1 --launch fork -n 1 true 2> "$dir/err" || { echo "left out: $(cat "$dir/err")"; false; }; }

test_basic() {
    run 20 0 -n 1 "$raw" pgf
    err_empty
    run 20 0 -n 7 "$raw" pgf
    run 20 0 --pmi-port -n 7 "$raw" pgf
    err_empty
    run 20 0 -n 2 "$raw" pgf : -n 3 "$raw" pgf
    run 20 0 -n 7 "$raw" hints
    run 20 0 --no-shm -n 2 "$raw" hints
    run 20 0 -n 2 -x A=1 -l sh -c 'echo "$A $PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS"' : -n 1 -x A=2 sh -c 'echo $A $PMI_RANK'
    [ "$(sort "$dir/out")" = "[0] 1 0/3 0/3
[1] 1 1/3 1/3
[2] 2 2" ] || fail "labels, groups or environment"
    PMI_ID=9 PMIX_RANK=8 SLURM_PROCID=7 PMI_SPAWNED=1 run 20 0 --mpi pmi -n 1 sh -c 'echo "${PMI_ID-no} ${PMIX_RANK-no} ${SLURM_PROCID-no} ${PMI_SPAWNED-no} $PMI_FD"'
    out_is "no no no no 3"
    run 20 0 -n 2 --wdir / pwd
    out_is "/
/"
    echo line > "$dir/in"
    stdin=$dir/in run 20 0 -n 3 -l cat
    out_is "[0] line"
    run 20 0 --stats -n 2 "$raw" pgf
    err_has '"fences":1,'
    # Allgathers keep only the last one's values.
    run 20 0 -n 5 "$raw" gather 200 shm
    [ "$(sort -u "$dir/out" | sed 's/shared //')" -le 32768 ] || fail "shared memory has grown"
    run 20 0 --no-shm -n 5 "$raw" gather 20
    run 20 0 --pmi-port -n 5 "$raw" gather 20 shm
    run 20 0 -n 5 "$raw" publish
    [ "$(grep -c 'has published it' "$dir/out")" = 1 ] || fail "not one rank has published the name"
    run 20 0 --version
    run 20 0 --help
    run 20 0 -n 1 sh -c 'ls /proc/self/fd | wc -l'
    out_is 5 # 0, 1, 2, PMI, and that of ls
}

test_status() {
    run 20 2
    run 20 2 --nonsense -n 1 true
    run 20 2 -n x true
    run 20 2 -n 1 true :
    run 20 2 -x PMI_RANK=1 -n 1 true
    run 20 2 -x MPI_LOCALNRANKS=1 -n 1 true
    for hosts in a,,b:2 a,b,:3 ,a:1 ,:1; do # never dialled: pmirun starts nothing before it has checked all options
        run 20 2 --hosts "${hosts%:*}" --launch-agent false -n 1 true
        err_has "hosts ${hosts%:*}: name ${hosts#*:} of the list is empty"
    done
    run 20 2 --hosts "" -n 1 true
    err_has "host names, separated by commas"
    run 20 2 --hosts a,-oX -n 1 true
    err_has '"-oX" is not a valid host name'
    run 20 0 -x MPI_LOCALNRANKS_=1 -n 1 true
    PATH=/usr/bin:/bin run 20 127 -n 2 no-such-program # the kernel reports another error for a folder without search permission
    run 20 127 -n 2 ./no/such/program
    run 20 126 -n 2 /etc/passwd
    run 20 126 --wdir /no/such -n 1 true
    err_has '/no/such: no such working directory'
    run 20 126 --wdir / -n 1 /etc/passwd/prog
    err_has 'cannot start /etc/passwd/prog: Not a directory'
    printf '\177ELF-broken' > "$dir/broken"
    chmod +x "$dir/broken"
    run 20 126 -n 2 "$dir/broken"
    printf '#!/no/such/shell\n' > "$dir/orphan"
    chmod +x "$dir/orphan"
    run 20 127 -n 2 "$dir/orphan"
    err_has 'orphan: the interpreter that it names does not exist'
    run 20 2 -n 1 ''
    err_has 'name is empty'
    printf 'echo "script $1"\n' > "$dir/script"
    chmod +x "$dir/script"
    run 20 0 -n 1 "$dir/script" x
    out_is "script x"
    run 20 1 -n 3 false
    run 20 5 -n 1 sh -c 'exit 5'
    run 20 7 -n 2 "$raw" exit 0 final : -n 1 "$raw" exit 7 final
    run 20 9 -n 1 "$raw" exit 9 inited : -n 2 "$raw" sleep
    err_has "rank 0 (pid .*) exited with status 9 after PMI init, without finalize"
    run 20 251 -n 2 "$raw" sleep : -n 1 "$raw" exit 0 inited
    run 20 6 -n 1 "$raw" exit 6 early : -n 2 "$raw" pgf
    run 20 143 -n 1 "$raw" die 15 final : -n 2 "$raw" sleep
    run 20 139 -n 1 "$raw" die 11 inited : -n 2 "$raw" sleep
    err_has "rank 0 (pid .*) died of signal 11"
    run 20 33 -n 2 "$raw" sleep : -n 1 "$raw" abort 33 # no rank waits in a fence for it
    run 20 1 -n 1 "$raw" abort 256
    # The cause is the rank that dies first, not one that aborts because of it before pmirun can reap it; a rank that exits after its abort
    # counts as aborted.
    run 20 137 -n 1 "$raw" abort 33 "$dir" : -n 2 "$raw" sleep : -n 1 "$raw" victim "$dir"
    err_has "rank 3 (pid .*) died of signal 9"
    [ "$(grep -c 'stopping the job' "$dir/err")" = 1 ] || fail "two causes"
    run 20 34 -n 2 "$raw" sleep : -n 1 sh -c 'printf "cmd=init pmi_version=1 pmi_subversion=1\ncmd=abort exitcode=34\n" >&3; exit 9'
    err_has "rank 2 (pid .*) aborted with code 34"
    [ "$(grep -c 'stopping the job' "$dir/err")" = 1 ] || fail "two causes"
    # A rank that has closed its connection and still runs does not block an abort.
    rm -f "$dir/closed" "$dir/aborted"
    run 20 35 -n 1 "$raw" abort 35 "$dir" : -n 1 sh -c "$raw victim $dir & exec 3>&-; exec sleep 60"
    err_has "rank 0 (pid .*) aborted with code 35"
    run 20 124 --timeout 0.3 -n 2 sleep 60
    run 20 124 --timeout 0.3 -n 2 sh -c 'trap "" TERM; sleep 60' # SIGKILL after the grace
    run 20 0 --pmi-port -n 2 true
}

test_output() {
    # Lines of several writes stay whole.
    run 30 0 -n 8 -l sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do printf "a$PMI_RANK"; printf "b$PMI_RANK\n"; done'
    [ "$(grep -c '^\[\([0-7]\)\] a\1b\1$' "$dir/out")" = 80 ] || fail "lines were mixed"
    # A line of 1 MB: complete, with one label.
    run 30 0 -n 2 -l sh -c 'head -c 1000000 /dev/zero | tr "\0" x; echo; echo end'
    [ "$(tr -cd x < "$dir/out" | wc -c)" = 2000000 ] || fail "bytes of a long line were lost"
    [ "$(tr -d x < "$dir/out" | grep -o '\[[01]\]' | wc -l)" = 4 ] || fail "not 4 labels"
    # No newline at the end.
    run 30 0 -n 1 -l printf '%s' tail
    out_is "[0] tail"
    # A filter that outlives its rank passes on what it has. It has a second: a busy machine has five tries.
    for _ in 1 2 3 4 5; do
        run 20 0 -n 2 bash -c 'exec > >(sleep 0.1; sed s/^/x/); seq 1 500'
        ! has_lines "$dir/out" ^x 1000 || break
    done
    has_lines "$dir/out" ^x 1000 || fail "a filter was ended with its rank"
    # A prompt is seen while the rank still runs.
    begin -n 2 sh -c "printf prompt; until [ -e $dir/seen ]; do sleep 0.1; done"
    await out prompt
    touch "$dir/seen"
    wait $pid
    # stdout and stderr apart
    run 20 0 -n 2 sh -c 'echo o; echo e >&2'
    [ "$(cat "$dir/out" "$dir/err")" = "o
o
e
e" ] || fail "stdout and stderr"
    # Nobody reads.
    (timeout 20 "$pmirun" -n 2 yes; echo $? > "$dir/status") 2> "$dir/err" | head -1 > "$dir/out"
    [ "$(cat "$dir/status")" = 141 ] || fail "status after a closed pipe: $(cat "$dir/status"), not 141"
    timeout 20 "$pmirun" -n 2 sh -c 'echo x' >&- 2> "$dir/err" || fail "closed stdout"
    timeout 20 "$pmirun" -n 2 sh -c 'echo x; echo y >&2' >&- 2>&- <&- || fail "closed stdin, stdout, stderr"
    timeout 20 "$pmirun" -n 2 yes > /dev/full 2> "$dir/err"
    [ $? = 252 ] || fail "a full disk"
    err_has "cannot write to stdout"
}

# Readers that take their time get everything, also of a job that is stopped. A signal, or --timeout, ends their time.
test_slow() {
    local status late bytes
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
    await err 'died of signal 9'
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
        await err 'died of signal 9'
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
}

test_blocked() {
    # A reader that does not read: PMI continues, memory stays bounded, no output is lost.
    mkfifo "$dir/pipe"
    exec 9<> "$dir/pipe"
    timeout 150 "$pmirun" --stats -n 1 sh -c 'head -c 30000000 /dev/zero | tr "\0" "y" | fold -w 99' \
        : -n 4 sh -c "$raw chat 1000 && echo done >&2" > "$dir/pipe" 2> "$dir/err" &
    pid=$!
    soon has_lines "$dir/err" done 4 || fail "PMI was held up by a reader that sleeps"
    child=$(cat /proc/$pid/task/$pid/children 2>/dev/null | tr -d ' ')
    steady rss_of "$child"
    rss=$(rss_of "$child")
    [ "${rss:-0}" -gt 0 ] && [ "$rss" -lt 20000 ] || fail "pmirun uses $rss kB while its reader sleeps"
    exec 8< "$dir/pipe" 9>&-
    bytes=$(tr -cd y <&8 | wc -c)
    exec 8<&-
    [ "$bytes" = 30000000 ] || fail "$bytes bytes of 30000000 arrived"
    wait $pid || fail "status $? after the reader woke up"
}

# beside [argument of pmirun...]: a client that stays, with three others that all get their answers
beside() {
    local mode=${!#}
    begin "$@" : -n 3 sh -c "$raw chat 2000; echo done \$?"
    await out 'done 0' 3
    [ "$mode" != noread ] || await err "does not read its replies"
    kill -TERM $pid
    wait $pid
    [ $? = 143 ] || fail "$mode: status $?"
}

test_hostile() {
    # One bad client each, and others that finish.
    beside --stall-timeout 600 -n 1 "$raw" silent
    run 30 0 --timeout 20 -n 1 "$raw" garbage : -n 3 sh -c "$raw chat 2000; echo done \$?"
    [ "$(grep -c 'done 0' "$dir/out")" = 3 ] || fail "garbage held up others"
    err_has "rank 0"
    beside -n 1 "$raw" noread
    err_has "does not read its replies"
    run 30 251 --timeout 20 --stall-timeout 0.5 -n 1 sh -c "timeout 3 $raw silent; exit 0" : -n 1 sleep 60
    err_has "rank 0"
    # A rank that waits for a key and disconnects does not disturb the others.
    for shm in "" --no-shm; do
        rm -f "$dir/late"
        run 30 251 --timeout 20 $shm -n 3 "$raw" gone "$dir" : -n 1 "$raw" late "$dir" : -n 2 "$raw" gone "$dir"
        out_has "got what was late"
    done
    # A Get finds the pairs that a rank put before it ended, also when pmirun notices the end first.
    run 30 0 --timeout 20 -n 3 "$raw" last "$dir"
    # A Get behind one that ends by --get-timeout has its own time limit.
    run 30 0 --timeout 20 --get-timeout 1 -n 3 "$raw" ahead
    several && run 30 0 --timeout 20 --get-timeout 1 -N 3 --launch fork -n 3 "$raw" ahead
    # A wrong id is refused; the right one can be used once.
    run 30 99 --timeout 20 --pmi-port -n 1 -x RAWPMI_ID=12345 "$raw" chat 1
    run 30 99 --timeout 20 --pmi-port -n 1 sh -c "$raw pgf && $raw pgf"
    # Further connections, of a rank or a stranger, are refused, do no harm and do not fill the log.
    # 102 of them have a wrong id; a rank with the right one is served afterwards.
    run 30 0 --timeout 20 --pmi-port -n 1 sh -c "$raw strangers 300; : > $dir/tried" : -n 2 "$raw" chat 2000 : \
        -n 1 sh -c "until [ -e $dir/tried ]; do sleep 0.1; done; exec $raw chat 10"
    out_has "300 were refused"
    err_has "further errors of unidentified clients are only counted"
    err_has "100 errors of unidentified clients"
    [ "$(wc -l < "$dir/err")" = 10 ] || fail "not 8 complaints, and 2 lines about the others"
    if [ "$(id -u)" = 0 ]; then
        cp "$raw" "$dir/raw" && chmod 755 "$dir" "$dir/raw"
        run 30 99 --timeout 20 --pmi-port -n 1 setpriv --reuid=65534 --clear-groups "$dir/raw" chat 1
        err_has "user 65534 is refused"
    else
        echo "not root: not tried as another user"
    fi
}

test_signals() {
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
    await out up
    guard=$(pgrep -P $pid -x job-guard)
    kill "$pid"
    wait $pid
    gone "${guard:-1}" || fail "the guard outlives a pmirun that was not killed"

    for sig in INT TERM HUP; do
        begin -v -n 2 "$raw" sleep
        await err 'PMI finalize' 2
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
    # So does a second SIGTERM.
    begin -n 2 sh -c 'trap "echo survived" TERM; echo up; while :; do sleep 0.1; done'
    await out up 2
    term=${EPOCHREALTIME/./}
    kill -TERM $pid
    await out survived 2
    # SIGKILL comes by itself after 2 s.
    kill -0 $pid || [ $((${EPOCHREALTIME/./} - term)) -gt 1500000 ] || fail "the first SIGTERM ended what ignores it"
    kill -TERM $pid
    wait $pid
    [ $? = 143 ] || fail "second SIGTERM"
    # What ignores the first is ended after 10 s.
    begin -n 2 sh -c 'trap "" TERM; echo up; while :; do sleep 0.1; done'
    await out up 2
    kill -TERM $pid
    wait $pid
    [ $? = 143 ] && grep -q '2 of 2 processes still run 10 s after SIGTERM; stopping the job' "$dir/err" || fail "the first SIGTERM, ignored"
    # USR1 reaches the ranks
    begin -n 2 sh -c 'trap "echo got; exit" USR1; echo up; while :; do sleep 0.1; done'
    await out up 2
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
    # Leftovers of a rank, daemons too, end with the job.
    run 20 0 -n 2 sh -c "setsid sleep $mark > /dev/null 2>&1 & exit 0"
    for p in $(others_pids "sleep $mark"); do fail "leftover $p"; kill -9 "$p"; done
    run 20 0 -n 1 sh -c "(trap '' TERM; exec sleep $mark) & exit 0"
    for p in $(others_pids "sleep $mark"); do fail "leftover $p"; kill -9 "$p"; done
}
gone() { ! kill -0 "$1" 2> /dev/null; }
are() { [ "$(others_pids "$1" | wc -l)" = "$2" ]; } # COMMAND COUNT
none_of() { are "$1" 0; }
others_pids() { pgrep -f "^$1"; } # the processes whose command line begins so

test_limits() {
    local need l
    # The number of needed descriptors does not depend on the limit: this many suffice, one less does not.
    (ulimit -n 50 && run 20 250 -n 60 true && exit $failed) || failed=1
    need=$(sed -n 's/.*60 processes need \([0-9]*\) descriptors, the limit is 50: .*/\1/p' "$dir/err")
    for l in 150 $((${need:-1000} - 1)); do
        (ulimit -n $l && run 20 250 -n 60 true; err_has "60 processes need $need descriptors, the limit is $l:"; exit $failed) || failed=1
    done
    for l in $need $((need + 1)) $((need + 50)); do
        (ulimit -n $l && run 20 0 -n 60 "$raw" pgf && exit $failed) || failed=1
    done
    # A spawn fails with the same text, and its name.
    for l in 60 80; do
        (ulimit -n $l && run 20 0 -n 1 "$raw" spawn 30 true
            out_has '^cmd=spawn_result rc=-1 .*msg=Too_many_open_files'
            err_has "spawn by rank 0: 30 processes need 125 descriptors in all, the limit is $l"; exit $failed) || failed=1
    done
    (ulimit -n 125 && run 20 0 -n 1 "$raw" spawn 30 true; out_has '^cmd=spawn_result rc=0'; exit $failed) || failed=1
    (ulimit -n 124 && run 20 0 -n 1 "$raw" spawn 30 true; out_has 'Too.many.open.files'; exit $failed) || failed=1
    (ulimit -n 100 && run 20 250 -n 60 true && exit $failed) || failed=1
    (ulimit -n 100 && run 20 250 -n 60 true; err_has "descriptors"; exit $failed) || failed=1
    # The limit on file sizes applies to our output, to shared memory (without it, ranks ask the server for pairs), and to a rank as it would
    # without pmirun.
    (ulimit -f 1 && run 20 252 -n 1 sh -c 'yes | head -c 5000; sleep 5'; err_has "cannot write to stdout: File too large"; exit $failed) || failed=1
    (ulimit -f 1 && run 20 0 -n 4 "$raw" pgf; err_has "cannot create the shared table: .*File too large"; exit $failed) || failed=1
    (ulimit -f 1 && run 20 153 -n 1 dd if=/dev/zero of="$dir/big" bs=5000 count=1; exit $failed) || failed=1
    ! several || (ulimit -f 1 && run 20 153 -N 1 --launch fork -n 1 dd if=/dev/zero of="$dir/big" bs=5000 count=1; exit $failed) || failed=1
    ! several || (ulimit -n 340 && run 20 0 -N 2 --launch fork -n 2 sh -c "[ \$PMI_RANK = 1 ] || exec $raw spawn 300 true"
        out_has 'msg=Too_many_open_files'
        err_has '150 processes need 48[0-9] descriptors, the limit is 340'; exit $failed) || failed=1
    [ "$(id -u)" = 0 ] || {
        echo "not root: the limit on processes was not tried"
        return
    }
    # As a user who has no processes and may have 20
    cp "$pmirun" "$dir/pmirun" && chmod 755 "$dir" "$dir/pmirun"
    (ulimit -u 20; timeout 30 setpriv --reuid=$((40000 + main % 20000)) --clear-groups "$dir/pmirun" -n 60 sleep 50) > "$dir/out" 2> "$dir/err"
    [ $? = 250 ] || fail "status when processes run out"
    err_has "limit on processes"
}

test_spawn() {
    run 20 0 -n 1 -l "$raw" spawn 3 "$raw" child -- wdir / soft 1:3
    out_has '^\[0\] cmd=spawn_result rc=0'
    [ "$(grep -c '^\[1:[0-2]\] child [0-2] of 3 in /: value-of' "$dir/out")" = 3 ] || fail "3 children"
    run 20 0 -n 1 "$raw" far 3 "$dir" # a Get that waits in the children's space ends when they have gone
    out_has 'no such key there'
    run 20 0 -n 1 --pmi-port "$raw" spawn 2 "${raw##*/}" child -- path "${raw%/*}"
    [ "$(grep -c '^child [01] of 2' "$dir/out")" = 2 ] || fail "2 children by path"
    run 20 0 -n 1 "$raw" spawn 2 /no/such/program
    out_has 'rc=[^0]'
    run 20 0 -n 1 "$raw" spawn 2 "$raw" child -- host elsewhere.example
    out_has 'rc=[^0]'
    err_has 'this node only'
    run 20 0 -n 1 "$raw" spawn 2 "$raw" child -- wd /no/such
    out_has 'rc=[^0]'
    err_has 'no such working directory'
    run 20 0 -n 1 "$raw" spawn 2 /etc/passwd/prog -- wd /
    out_has 'rc=[^0]'
    err_has '/etc/passwd/prog: Not a directory'
    printf '\177ELF-broken' > "$dir/broken"
    chmod +x "$dir/broken"
    run 20 0 -n 1 "$raw" spawn 2 "$dir/broken"
    out_has 'rc=[^0]'
    run 20 4 -n 1 "$raw" spawn 1 sh -c 'exit 4'
    # --max-procs: running spawned processes count, on all nodes.
    for where in '' '-N 2 --launch fork'; do
        [ -z "$where" ] || several || continue
        run 20 0 $where --max-procs 3 -n 2 sh -c "[ \$PMI_RANK = 1 ] || exec $raw spawn 3 true"
        out_has '^cmd=spawn_result rc=0'
        run 20 0 $where --max-procs 3 -n 2 sh -c "[ \$PMI_RANK = 1 ] || exec $raw spawn 4 true"
        out_has '^cmd=spawn_result rc=-1 .*msg=Disk_quota_exceeded'
        err_has 'spawn by rank 0.*: cannot start 4 processes beside 0 spawned ones: the limit is 3 (--max-procs)'
        run 20 0 $where --max-procs 0 -n 2 sh -c "[ \$PMI_RANK = 1 ] || exec $raw spawn 1 true"
        out_has '^cmd=spawn_result rc=-1'
        run 20 0 $where --max-procs 5 -n 2 sh -c "[ \$PMI_RANK = 1 ] || exec $raw fill sleep 3"
        out_has '^5 were started: .*Disk.quota.exceeded'
        out_has '^and one more'
    done
    # A spawned rank leaves a process behind, which keeps the connection: the job ends when that is closed, and then its space is gone.
    cat > "$dir/mother" << END
#!/bin/sh
ask() {
    printf "\$1" >&3
    read -r answer <&3
    echo "\$answer"
}
ask 'cmd=init pmi_version=1 pmi_subversion=1\n'
ask 'mcmd=spawn\nnprocs=1\nexecname=$dir/daughter\ntotspawns=1\nspawnssofar=1\nendcmd\n'
job=\${answer#*jobid=}
until [ -e $dir/over ]; do sleep 0.1; done
ask "cmd=get kvsname=\${job%% *} key=k\n"
ask 'cmd=finalize\n'
END
    cat > "$dir/daughter" << END
#!/bin/sh
printf 'cmd=init pmi_version=1 pmi_subversion=1\ncmd=finalize\n' >&3
until [ -e $dir/daughter-left ]; do sleep 0.1; done > /dev/null 2>&1 &
END
    chmod +x "$dir/mother" "$dir/daughter"
    begin -v -n 1 "$dir/mother"
    await err '1:0 pid [0-9]* exited with 0'
    touch "$dir/daughter-left"
    await err 'job 1 is over'
    touch "$dir/over"
    wait $pid || fail "status $?"
    out_has '^cmd=get_result rc=-1 msg=no_such_key-value_space'
    run 20 2 --max-procs x -n 1 true
    run 20 2 --max-procs -1 -n 1 true
    # Job after job: ended jobs take no memory. 300 of them once took 400 KiB. GROWTH: the KiB that they may leave.
    run 100 0 -n 1 "$raw" spawns 300 true x
    read -r word kib rest < "$dir/out"
    [ "$word" = grown ] && [ "$kib" -lt "${GROWTH:-200}" ] || fail "pmirun has grown by $kib KiB in 300 spawns"
    run 100 0 -n 1 --pmi-port "$raw" spawns 150 "$raw" child
    read -r word kib rest < <(grep ^grown "$dir/out")
    [ "$word" = grown ] && [ "$kib" -lt "${GROWTH:-150}" ] || fail "pmirun has grown by $kib KiB in 150 spawns"
}

# Shared memory that has a name, and a pmirun that is killed.
test_names() {
    local name live own pid_live
    # pmiruns of other tests clean up too: with a /dev/shm of our own they do not see our files.
    for own in -m -rm; do
        [ -z "${OWN_SHM:-}" ] && unshare $own mount -t tmpfs tmpfs /dev/shm 2> /dev/null || continue
        OWN_SHM=$own unshare $own sh -c 'mount -t tmpfs tmpfs /dev/shm && exec "$@"' sh bash "$0" "$pmirun" "$raw" names
        exit
    done
    named() { sed -n 's/.*\(\/dev\/shm\/pmirun-[0-9a-f-]*\/[0-9a-f]*\)$/\1/p' "/proc/$1/maps" | head -1; }
    gone_name() { [ ! -e "$1" ] && [ ! -e "${1%/*}" ]; }
    begin_named() {
        begin --pmi-port -n 1 sh -c "echo up; exec sleep 600"
        await out up
    }
    begin_named
    name=$(named $pid)
    [ -e "$name" ] || fail "no name: \"$name\""
    kill -9 $pid
    wait $pid 2> /dev/null
    soon gone_name "$name" || fail "the name is left behind"
    # Its guard is killed with it: the next pmirun cleans up.
    begin_named
    live=$(named $pid) pid_live=$pid
    begin_named
    name=$(named $pid)
    kill -9 "$(pgrep -P $pid -x job-guard)" $pid
    wait $pid 2> /dev/null
    [ -e "$name" ] || fail "what was this test to be about?"
    run 20 0 -n 1 "$raw" pgf
    [ -e "$name" ] || fail "without --pmi-port it is nobody's matter"
    run 20 0 -v --pmi-port -n 1 "$raw" pgf
    gone_name "$name" || fail "left behind"
    err_has "${name%/*} was left behind by a pmirun that was killed: removed"
    [ -e "$live" ] || fail "the name of one that lives was removed"
    kill $pid_live
    wait $pid_live 2> /dev/null
    gone_name "$live" || fail "a pmirun that ends leaves its name"
}

test_many() {
    local want=1000 limit
    limit=$(ulimit -Hn)
    [ "$limit" = unlimited ] || [ "$limit" -ge 4000 ] || want=$(((limit - 100) / 4))
    run 100 0 -n $want /bin/true
    run 100 0 --stats -n $want "$raw" pgf
    err_has "\"puts\":$want,\"gets\":$((2 * want)),"
    cat "$dir/err"
    run 100 0 --pmi-port -n $want "$raw" pgf
}

case $group in
basic | status | output | slow | blocked | hostile | signals | limits | spawn | names | many) "test_$group" ;;
*)
    echo "unknown group $group"
    exit 1
    ;;
esac
[ $failed = 0 ] && echo "$group: $n runs, all as they should be"
exit $failed
