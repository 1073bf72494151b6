#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# moments.sh HOW: an agent is killed at some moment, from before it connects to after its end: the job ends, in one way or the other, and nothing is left.
. "${0%/*}/harness.sh"

RANDOM=${SEED:-1}
for ((i = 0; i < 25; i++)); do
    begin -n 8 "$RAWPMI" hints
    sleep 0.$(printf %03d $((RANDOM % 300)))
    victims=($(our_agents))
    [ ${#victims[@]} = 0 ] || kill -9 "${victims[RANDOM % ${#victims[@]}]}" 2> /dev/null
    wait "$limit"
    got=$?
    [ $got = 253 ] || [ $got = 0 ] || fail "status $got"
    [ $got = 0 ] || err_has "is lost: "
    nothing_left
done
finish
