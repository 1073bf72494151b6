#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shmem_test.sh node|nodes PROGRAM LIBRARY PES OSHRUN [PMIRUN]: the program prints the same alone, with the library on symmetric memory,
# and on memory that is registered; on memory that is not, the job ends with a message.
#   node   all of it on one node, by oshrun; on registered memory over shared memory and CMA, and over UCX
#   nodes  on the two nodes of `hosts run` of tests/nodes, under which this runs, by pmirun; alone as above, and on symmetric memory with 2 PEs
#          only, since on several nodes Debian 12's OpenSHMEM spins while it waits: with 4, minutes on 2 processors
set -eu
place=$1 n=$4 oshrun=$5 pmirun=${6-}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_opal_common_ucx_opal_mem_hooks=0 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none UCX_LOG_FILE=stderr
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
cp "$2" "$dir/shmem_test"
cp "$3" "$dir/libasymshmem.so"
mkdir "$dir/tmp"
cd "$dir"

by_oshrun() { TMPDIR=$dir/tmp timeout -k 5 120 "$oshrun" --oversubscribe --host "localhost:$n" -n "$n" "$@" ./shmem_test; }
by_pmirun() {
    TMPDIR=$dir/tmp timeout -k 5 120 "$pmirun" --hosts "$HOSTS" --launch-agent "$HOST_SSH" -n "$n" -x CONTEXT=default "$@" ./shmem_test
}
# run LAUNCH OUTPUT [OPTION...]: a signal in the OpenSHMEM's own shmem_finalize() is not this library's fault, and comes after all output.
run() {
    launch=$1 output=$2
    shift 2
    "$launch" -x "RESULTS=$dir/$output" "$@" 2>"$output.err" || grep -q "a signal in the OpenSHMEM's own shmem_finalize()" "$output.err" || {
        echo "$output: status $?"
        tail -n 30 "$output.err"
        return 1
    }
}
# same LAUNCH OUTPUT [OPTION...]: prints what the OpenSHMEM gives alone.
same() {
    run "$@"
    cmp alone "$2" || { diff alone "$2" | head -20; exit 1; }
}
# ends LAUNCH: memory that is not registered.
ends() {
    if "$1" $preload -x MEMORY=missing >missing 2>missing.err; then
        echo "a put to memory that is not registered has not ended the job"
        exit 1
    fi
    grep -q 'PE [0-9]*: shmem_char_p: 1 bytes at 0x[0-9a-f]* of PE [0-9]*: no registered region holds the address' missing.err ||
        { cat missing.err; exit 1; }
}
preload="-x LD_PRELOAD=$dir/libasymshmem.so"
run by_oshrun alone
results=195
! grep -q '^signals' alone || results=221 # OpenSHMEM 1.5's too
[ "$(wc -l <alone)" -eq "$results" ] || { echo "not all results: $(wc -l <alone)"; exit 1; }
case $place in
node)
    same by_oshrun symmetric $preload
    same by_oshrun asymmetric $preload -x MEMORY=asymmetric
    same by_oshrun over_ucx $preload -x MEMORY=asymmetric -x ASYMSHMEM_TRANSPORT=ucx -x NO_CMA=1
    ends by_oshrun
    ;;
nodes)
    [ "$n" -gt 2 ] || same by_pmirun symmetric $preload
    same by_pmirun asymmetric $preload -x MEMORY=asymmetric -x NO_CMA=1
    ends by_pmirun
    ;;
esac
