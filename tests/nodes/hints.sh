#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# hints.sh HOW: the drop-in libraries' hinted puts, Gets that wait, and rings, on both wires.
# Environment: HINTS (of tests/libpmi2, without the 1 or 2 of its wire).
. "${0%/*}/harness.sh"

for wire in 1 2; do
    run 0 -n 8 "$HINTS$wire" pairs nodes
    run 0 --no-shm --map cyclic -n 10 "$HINTS$wire" pairs nodes
    run 0 -n 65 "$HINTS$wire" one
    run 0 --map cyclic -n 13 "$HINTS$wire" chain
    run 0 -n 9 "$HINTS$wire" ring
    run 0 --map cyclic -n 8 "$HINTS$wire" ring
    rm -f "$dir/told"
    run 0 --get-timeout 0.5 -n 8 "$HINTS$wire" never time "$dir/told"
    rm -f "$dir/told"
    run 124 --timeout 3 --get-timeout 0 -n 8 "$HINTS$wire" never time "$dir/told" # without a time limit
    run 142 -n 8 "$HINTS$wire" die
    err_has "rank 1 on ${names[0]} .* died of signal 14"
    # A node is lost while all wait.
    rm -f "$dir/report"
    begin -n 8 -x NODES_MARK=$mark "$HINTS$wire" orphans "$dir/report"
    await 8 ready
    soon ranks_wait || fail "ranks do not wait for the key"
    kill -9 "$(our_agent 2)"
    end 253
    nothing_left
    # The killed agent's guard may have ended its two ranks.
    [ "$(grep -c 'ended well' "$dir/report")" -ge 5 ] || fail "$(grep -c . "$dir/report") of 5 ranks got the error for the key"
done
run 0 -n 4 "${HINTS}1" ring 440 : -n 4 "${HINTS}2" ring 440
finish
