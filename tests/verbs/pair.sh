#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# pair.sh <contract> <guest> [<option>...]: two guests on one cable, with the target of each case in one and the initiator in the
# other: two kernels, two adapters. Then the target's machine ends while the initiator gets from it.
set -u
contract=$1
shift
guest=("$@")
dir=$(mktemp -d) || exit 1
target=
finish() {
    trap - EXIT HUP INT TERM
    [ -z "$target" ] || kill "$target" 2> /dev/null
    rm -rf "$dir"
}
trap finish EXIT
trap 'exit 143' HUP INT TERM

# cable <mine> <the other>: QEMU's arguments. Frames are datagrams between two Unix sockets; neither end needs to be there first.
cable() {
    echo "-netdev dgram,id=cable,local.type=unix,local.path=$dir/$1,remote.type=unix,remote.path=$dir/$2" \
        "-device virtio-net-pci,netdev=cable,mac=52:54:00:77:00:0$1"
}
start_target() {
    rm -f "$dir"/[12]
    "${guest[@]}" -n lan:1 -a "$(cable 1 2)" -- "$contract" ibv --listen 7000 > "$dir/target" 2>&1 &
    target=$!
}
fail() {
    echo "FAILED: $*"
    echo "the target:"
    cat "$dir/target"
    exit 1
}

start_target
"${guest[@]}" -n lan:2 -a "$(cable 2 1)" -- "$contract" ibv --connect 10.77.0.1 7000
status=$?
[ $status -ne 77 ] || exit 77
[ $status -eq 0 ] || fail "the initiator ended with status $status"
wait "$target" || fail "the target ended with status $?"
target=

start_target
: > "$dir/initiator"
"${guest[@]}" -n lan:2 -a "$(cable 2 1)" -- "$contract" ibv --connect 10.77.0.1 7000 machine > "$dir/initiator" 2>&1 &
initiator=$!
for ((i = 0; i < 1200; i++)); do
    ! grep -q 'machine: end it' "$dir/initiator" || break
    sleep .1
done
kill "$target" # ends the script that holds it, and QEMU with it
wait "$target"
target=
# The target's machine is gone, so the initiator cannot report the last case to it: its status does not matter, its output does.
wait "$initiator"
cat "$dir/initiator"
grep -q 'machine: noticed' "$dir/initiator" || fail "the initiator did not notice"
grep -q 'machine  *ok' "$dir/initiator" || fail "the case failed"
