#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# mpich-client.sh PMIPROBE SOURCE_DIR: an MPI program under the probe server, and the inputs that crash MPICH
# 4.0's client.
set -u
probe=$1 src=$2
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
"$MPICC" -o "$tmp/hello" "$src/probed.c" || exit 1
out=$("$probe" client --timeout 30 --ranks 2 -- "$tmp/hello")
rc=$?
printf '%s\n' "$out"
[ $rc -eq 0 ] || { echo "FAIL: status $rc: does not survive what every client must"; exit 1; }
grep -q '^| plain  *| ok' <<<"$out" || { echo "FAIL: no ok for plain"; exit 1; }
# MPICH 4.2's client takes an empty mapping.
case $(mpichversion | sed -n 's/^MPICH Version:[[:space:]]*//p') in
4.0*) grep -q '^| mapping-empty  *| dies' <<<"$out" || { echo "FAIL: an empty mapping should stop MPICH"; exit 1; } ;;
esac
# The probe distinguishes a program without PMI and one that hangs from those that work.
"$probe" client --timeout 1 -- true 2>/dev/null && { echo "FAIL: true is no PMI client"; exit 1; }
"$probe" client --timeout 1 -- sleep 100 2>/dev/null && { echo "FAIL: sleep is no PMI client"; exit 1; }
exit 0
