#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# slurm-client.sh PMIPROBE SOURCE_DIR: Slurm's libpmi2 under the probe server, and the inputs that are known
# to crash it.
set -u
probe=$1 src=$2
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
if ! echo 'int main(void){return 0;}' | cc -x c - -o "$tmp/try" -lpmi2 2>/dev/null; then
    echo "skip: needs libpmi2-0-dev"
    exit 77
fi
cc -o "$tmp/prog" "$src/libpmi2.c" -lpmi2 || exit 1
out=$("$probe" client --timeout 30 --ranks 2 -- "$tmp/prog")
rc=$?
printf '%s\n' "$out"
[ $rc -eq 0 ] || { echo "FAIL: status $rc: does not survive what every client must"; exit 1; }
grep -q '^| thrid-in-fence  *| dies' <<<"$out" || { echo "FAIL: a thrid should kill libpmi2 22.05"; exit 1; }
