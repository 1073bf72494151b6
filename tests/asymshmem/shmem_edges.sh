#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shmem_edges.sh OSHCC LIBRARY OSHRUN: a second shmem_finalize() ends as without the library; an active set that does not fit ends the job with
# the call's name.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_opal_common_ucx_opal_mem_hooks=0 OMPI_MCA_mpi_yield_when_idle=1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
"$1" -std=c11 -w -o "$dir/edges" "$here/shmem_edges.c"
cp "$2" "$dir/libasymshmem.so"
cd "$dir"
run() { timeout -k 5 60 "$oshrun" --oversubscribe -n 2 "$@" ./edges >out 2>err; }
oshrun=$3
preload="-x LD_PRELOAD=$dir/libasymshmem.so"
alone=0 with=0
run || alone=$?
run $preload || with=$?
[ "$with" -eq "$alone" ] || { echo "two finalizes: status $with, and $alone without the library"; cat err; exit 1; }
if run $preload -x SET=1; then
    echo "an active set that does not fit has not ended the job"
    exit 1
fi
grep -q 'shmem_fcollect64: the active set PE_start 0, logPE_stride 1, PE_size 3: does not fit' err || { cat err; exit 1; }
