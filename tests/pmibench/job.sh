#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# job.sh <pmibench-job> <pmirun> <pmibench-client> <folder of our libpmi2.so.0>: pmibench-job's output, and that it leaves nothing when the job
# fails or takes too long, or when it is ended by a signal itself.
set -u
export LC_ALL=C
job=$1 pmirun=$2 client=$3 libdir=$4
TMPDIR=$(mktemp -d) || exit 1
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
failed=0
wrong() {
    echo "FAILED: $*"
    failed=1
}
value() { # of a figure in the line $out
    awk -v m="$1" '{ for (i = 1; i < NF; i++) if ($i == m) print $(i + 1) }' <<< "$out"
}
positive() { # do these have values above 0?
    for name; do
        awk -v v="$(value "$name")" 'BEGIN { exit !(v > 0) }' || wrong "$name is not above 0 in: $out"
    done
}
left() { # a process of this test, or a folder of the job's pipes
    ! pgrep -f "sleep 98765$$" > /dev/null || wrong "$1: the job's process runs"
    [ -z "$(ls -A "$TMPDIR")" ] || wrong "$1: $(ls -A "$TMPDIR") is left"
}

# Under pmirun: its guard is a server, so there are more than one; --look shows both sides.
out=$("$job" "$pmirun" -n 4 -x LD_LIBRARY_PATH="$libdir" "$client" hello) || wrong "status $? under pmirun"
positive wall_ms cpu_ms
[ -z "$(value servers_kb)" ] || wrong "memory without --look: $out"
out=$("$job" --look "$pmirun" -n 4 -x LD_LIBRARY_PATH="$libdir" "$client" hello) || wrong "status $? with --look"
positive wall_ms cpu_ms servers_kb ranks_kb shared_kb
# Ranks and servers are distinguished: four ranks take more than one.
four=$(value ranks_kb)
out=$("$job" --look "$pmirun" -n 1 -x LD_LIBRARY_PATH="$libdir" "$client" hello)
[ "${four:-0}" -gt "$(value ranks_kb)" ] || wrong "four ranks take $four kB, one $(value ranks_kb)"
# A server that is no descendant of the launcher, and counts to a million before it starts its rank: its time and memory count.
cat > "$TMPDIR/server" << EOF
i=0
while [ \$i -lt 1000000 ]; do i=\$((i + 1)); done
'$client' hello
echo \$? > '$TMPDIR/status'
EOF
out=$(LD_LIBRARY_PATH=$libdir "$job" --look sh -c "setsid -f sh '$TMPDIR/server'; while ! [ -s '$TMPDIR/status' ]; do sleep 0.05; done; exit \$(cat '$TMPDIR/status')") ||
    wrong "status $? with a server elsewhere"
positive wall_ms cpu_ms servers_kb ranks_kb
awk -v cpu="$(value cpu_ms)" 'BEGIN { exit !(cpu > 50) }' || wrong "a server that counts to a million takes $(value cpu_ms) ms"
rm -f "$TMPDIR/server" "$TMPDIR/status"
left "after jobs that ended well"

out=$("$job" sh -c 'exit 3' 2>&1) && wrong "status 0 of a job that failed"
[[ $out == *"ended with status 3"* ]] || wrong "not said: status 3: $out"
out=$("$job" /nonexistent/launcher 2>&1) && wrong "status 0 of a launcher that is not there"
[[ $out == *"No such file"* ]] || wrong "not said: no launcher: $out"
left "after jobs that failed"
out=$("$job" --seconds 0.3 sleep "98765$$" 2>&1) && wrong "status 0 of a job that took too long"
[[ $out == *"took too long"* ]] || wrong "not said: too long: $out"
left "after a job that took too long"

"$job" sleep "98765$$" 2> /dev/null &
pid=$!
for ((i = 0; i < 100; i++)); do
    pgrep -f "sleep 98765$$" > /dev/null && break
    sleep 0.05
done
kill "$pid"
wait "$pid"
[ $? = 1 ] || wrong "not status 1 after SIGTERM"
left "after SIGTERM"
exit $failed
