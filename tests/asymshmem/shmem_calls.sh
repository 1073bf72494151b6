#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shmem_calls.sh OSHRUN PROGRAM LIBRARY PES: the program prints the same alone, with the library on symmetric memory, and on memory
# that is registered; on memory that is not, the job ends and says why.
set -eu
oshrun=$1 library=$3 n=$4
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
cp "$2" "$library" "$dir"
cd "$dir"

# run OUTPUT [OPTION...]
run() {
    output=$1
    shift
    timeout 90 "$oshrun" --oversubscribe --mca opal_common_ucx_opal_mem_hooks 0 -n "$n" "$@" ./shmem_calls >"$output" 2>"$output.err"
}
# must_equal OUTPUT: as what the OpenSHMEM gives alone.
must_equal() {
    cmp alone "$1" || { diff alone "$1" | head -20; exit 1; }
}
preload="-x LD_PRELOAD=$dir/libasymshmem.so"
run alone || { cat alone.err; exit 1; }
[ "$(wc -l <alone)" -eq 110 ] || { echo "not all results: $(wc -l <alone)"; exit 1; }
run symmetric $preload || { cat symmetric.err; exit 1; }
must_equal symmetric
run asymmetric $preload -x MEMORY=asymmetric || { cat asymmetric.err; exit 1; }
must_equal asymmetric
if run missing $preload -x MEMORY=missing; then
    echo "a put to memory that is not registered has not ended the job"
    exit 1
fi
grep -q 'PE [0-9]*: shmem_char_p: 1 bytes at 0x[0-9a-f]* of PE [0-9]*: no registered region holds the address' missing.err ||
    { cat missing.err; exit 1; }
