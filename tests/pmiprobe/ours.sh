#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# ours.sh PMIPROBE PMIRUN SOURCE_DIR: our own server conforms in every case, and answers a transcript as recorded.
set -u
probe=$1 pmirun=$2 src=$3
# Cases mostly wait, so both wires run at the same time. Other tests run beside this one, so a missing reply takes longer than usual to be a hang.
server=("$probe" server --reply 5 --timeout 40)
"${server[@]}" --case 'v1-*' -- "$pmirun" -n 1 &
"${server[@]}" --case 'v2-*' -- "$pmirun" -n 1 || { wait; exit 1; }
wait $! || exit 1
"$pmirun" -n 2 "$probe" play "$src/two-ranks.txt" || { echo "FAIL: a transcript is not answered as recorded"; exit 1; }
# The probe must report a wrong reply in a transcript.
tmp=$(mktemp) || exit 1
trap 'rm -f "$tmp"' EXIT
sed 's/value=one/value=two/;t;' "$src/two-ranks.txt" | awk '/^S/ && /value=two/ {sub("two", "three")} {print}' >"$tmp"
"$pmirun" -n 2 "$probe" play "$tmp" >/dev/null 2>&1 && { echo "FAIL: a wrong reply was not seen"; exit 1; }
exit 0
