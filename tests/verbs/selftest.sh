#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# selftest.sh <guest> [<option>...]: the guest forwards output and status, limits time, and has working verbs devices.
set -u
guest=("$@")
fail() {
    echo "FAILED: $*"
    exit 1
}
# in_guest <status expected> <options and command>...: one guest; its output is in $out.
in_guest() {
    local want=$1 status
    shift
    out=$("${guest[@]}" "$@" < /dev/null)
    status=$?
    if [ $status -eq 77 ]; then
        echo "$out"
        exit 77
    fi
    [ $status -eq "$want" ] || fail "status $status, not $want, of: $* (output: $out)"
}

in_guest 200 -- bash -c 'echo out; echo err >&2; uname -r; exit 200'
[[ $out == *out* && $out == *err* ]] || fail "output lost: $out"
echo "guest kernel: $(tail -n 1 <<< "$out" | tr -d '\r')"
in_guest 137 -- bash -c 'kill -9 $$'
in_guest 124 -t 4 -- sleep 60
in_guest 0 -n link -- bash -c 'ls /dev/infiniband /sys/class/infiniband && cat /sys/class/infiniband/rxe?/ports/1/state'
for word in uverbs0 uverbs1 rxe0 rxe1; do
    [[ $out == *$word* ]] || fail "no $word: $out"
done
[ "$(grep -c ACTIVE <<< "$out")" -eq 2 ] || fail "not both ports are active: $out"
echo "two soft-RoCE devices, both active"
