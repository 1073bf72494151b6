#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# waiting.sh HOW: waiting Gets end when the rank that could put the key has left; else by --get-timeout: the others wait too, or are in a Fence or an Ifence.
# Environment: HINTS (of tests/libpmi2, without the 1 or 2 of its wire).
. "${0%/*}/harness.sh"

for wire in 1 2; do
    run 0 --get-timeout 0.5 -n 8 "$HINTS$wire" never fenced
    run 0 --get-timeout 0.5 -n 8 "$HINTS$wire" dense nodes
    run 0 --get-timeout 0.5 -n 8 "$HINTS$wire" ifence
    for design in dkvs direct tree; do
        run 0 --timeout 20 --design $design -n 8 "$HINTS$wire" source
    done
done
run 0 --get-timeout 0.5 --design direct -n 16 "${HINTS}2" never all
run 0 --get-timeout 0.5 --design tree --no-shm -n 8 "${HINTS}2" dense nodes
run 0 --timeout 20 --get-timeout 0 --map cyclic -n 10 "${HINTS}1" never last
run 0 --timeout 20 --design direct --map cyclic -n 10 "${HINTS}2" never last
run 0 --stall-timeout 0 --get-timeout 0.5 -n 4 "${HINTS}1" never fenced : -n 5 "${HINTS}2" never fenced
finish
