#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shmem_test.sh node|nodes LAUNCHER PROGRAM LIBRARY PES: the program prints the same alone, with the library on symmetric memory, and on memory
# that is registered; on memory that is not, the job ends and says why. LAUNCHER: oshrun, for one node; or pmirun, for the two of `hosts run`
# of tests/nodes, under which this runs then.
set -eu
place=$1 launcher=$2 n=$5
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_opal_common_ucx_opal_mem_hooks=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
cp "$3" "$dir/shmem_test"
cp "$4" "$dir/libasymshmem.so"
cd "$dir"

# launch [OPTION...]
launch() {
    case $place in
    node) timeout -k 5 90 "$launcher" --oversubscribe -n "$n" "$@" ./shmem_test ;;
    nodes) TMPDIR=$dir timeout -k 5 90 "$launcher" --hosts "$HOSTS" --launch-agent "$HOST_SSH" --mpi openmpi -n "$n" -x CONTEXT=default "$@" ./shmem_test ;;
    esac
}
# run OUTPUT [OPTION...]: a signal in the OpenSHMEM's own shmem_finalize() is not this library's, and comes after all output.
run() {
    output=$1
    shift
    launch "$@" >"$output" 2>"$output.err" || grep -q "a signal in the OpenSHMEM's own shmem_finalize()" "$output.err" || {
        echo "$output: status $?"
        tail -n 30 "$output.err"
        return 1
    }
}
# must_equal OUTPUT: as what the OpenSHMEM gives alone.
must_equal() {
    cmp alone "$1" || { diff alone "$1" | head -20; exit 1; }
}
preload="-x LD_PRELOAD=$dir/libasymshmem.so"
run alone
[ "$(wc -l <alone)" -eq 134 ] || { echo "not all results: $(wc -l <alone)"; exit 1; }
run symmetric $preload
must_equal symmetric
run asymmetric $preload -x MEMORY=asymmetric
must_equal asymmetric
if [ "$place" = node ]; then
    run over_ucx $preload -x MEMORY=asymmetric -x ASYMSHMEM_TRANSPORT=ucx
    must_equal over_ucx
fi
if launch $preload -x MEMORY=missing >missing 2>missing.err; then
    echo "a put to memory that is not registered has not ended the job"
    exit 1
fi
grep -q 'PE [0-9]*: shmem_char_p: 1 bytes at 0x[0-9a-f]* of PE [0-9]*: no registered region holds the address' missing.err ||
    { cat missing.err; exit 1; }
