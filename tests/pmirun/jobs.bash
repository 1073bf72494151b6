# SPDX-License-Identifier: BSD-3-Clause
# Sourced by tests of jobs: helpers, and a folder $dir. The script's end removes $dir and kills the jobs that it has started. $pmirun is the program, and
# ${nodes[@]} its first arguments.
dir=$(mktemp -d) || exit 1
trap 'for pid in $(jobs -p); do kill -9 "$pid" 2> /dev/null; done; rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
# libpmix, which serves shells' jobs too, leaks a few strings: a build with sanitizers would print them to stderr.
echo leak:libpmix > "$dir/lsan"
export LSAN_OPTIONS=suppressions=$dir/lsan:print_suppressions=0
failed=0 n=0

fail() {
    echo "FAIL: ${what:+$what: }$*"
    sed 's/^/    out: /' "$dir/out" 2> /dev/null | cut -c1-300 | head -20
    sed 's/^/    err: /' "$dir/err" 2> /dev/null | cut -c1-300 | head -20
    failed=1
}
soon() { # COMMAND...: whether it succeeds within a minute
    local i
    for ((i = 0; i < 600; i++)); do
        "$@" && return
        sleep 0.1
    done
    return 1
}
has_lines() { [ "$(grep -c -e "$2" "$dir/$3")" -ge "$1" ]; } # COUNT PATTERN out|err
await() { soon has_lines "$1" "$2" "${3:-out}" || fail "not $1 lines \"$2\""; } # COUNT PATTERN [err]
steady() { # COMMAND...: waits until it prints the same twice, a moment apart
    local now before= i
    for ((i = 0; i < 600; i++)); do
        now=$("$@")
        [ "$now" != "$before" ] || return
        before=$now
        sleep 0.1
    done
}
# run STATUS [argument of pmirun...]: its output goes to $dir/out and $dir/err
run() {
    local want=$1 got
    shift
    n=$((n + 1))
    timeout -k 5 "${seconds:-100}" "$pmirun" "${nodes[@]}" "$@" > "$dir/out" 2> "$dir/err" < "${stdin:-/dev/null}"
    got=$?
    [ "$got" = "$want" ] || fail "pmirun $*: status $got, not $want"
}
# begin [argument of pmirun...]: in the background, as $pid
begin() {
    n=$((n + 1))
    : > "$dir/out"
    : > "$dir/err"
    "$pmirun" "$@" > "$dir/out" 2> "$dir/err" &
    pid=$!
}
# Is this pmirun built for several nodes? Prints a message if not.
several() { "$pmirun" -N 1 --launch fork -n 1 true 2> "$dir/err" || { echo "left out: $(cat "$dir/err")"; false; }; }
finish() {
    [ $failed = 0 ] && echo "$n runs, all as they should be"
    exit $failed
}
out_is() { [ "$(cat "$dir/out")" = "$1" ] || fail "stdout is not \"$1\""; }
err_empty() { [ ! -s "$dir/err" ] || fail "stderr is not empty"; }
out_has() { grep -q -e "$1" "$dir/out" || fail "stdout has no \"$1\""; }
err_has() { grep -q -e "$1" "$dir/err" || fail "stderr has no \"$1\""; }
rss_of() { awk '/VmRSS/ { print $2 }' "/proc/$1/status" 2> /dev/null; } # KiB of PID
state_is() { [ "$(ps -o state= -p "$2" | tr -d ' ')" = "$1" ]; }     # LETTER PID
# slowly NAME SECONDS COMMAND...: in the background, its stdout read by one who takes nothing before SECONDS have passed. was NAME STATUS BYTES: how it ended,
# and how many bytes it has written.
slowly() {
    local name=$1 seconds=$2
    shift 2
    ("$@" 2> "$dir/$name.err" < /dev/null; echo $? > "$dir/$name.status") | (sleep "$seconds"; wc -c > "$dir/$name.bytes") &
}
was() {
    [ "$(cat "$dir/$1.status")" = "$2" ] || fail "$1: status $(cat "$dir/$1.status"), not $2: $(cat "$dir/$1.err")"
    [ "$(cat "$dir/$1.bytes")" = "$3" ] || fail "$1: $(cat "$dir/$1.bytes") bytes of $3 were read"
}
