#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# basic.sh HOW: a job on four nodes: PMI, environment, output, descriptors.
. "${0%/*}/harness.sh"

run 0 -n 8 "$RAWPMI" pgf
err_empty
run 0 -n 7 "$RAWPMI" pgf
run 0 -n 3 "$RAWPMI" pgf # fewer ranks than nodes
run 0 --map cyclic -n 9 "$RAWPMI" pgf
run 0 --no-shm -n 8 "$RAWPMI" pgf
run 0 --pmi-port -n 8 "$RAWPMI" pgf
err_empty
run 0 -n 2 "$RAWPMI" pgf : -n 6 "$RAWPMI" pgf
run 0 -n 6 -l -x A=1 sh -c 'echo "$A $PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS"' : -n 2 -x A=2 sh -c 'echo $A $PMI_RANK'
[ "$(sorted)" = "[0] 1 0/8 0/2
[1] 1 1/8 1/2
[2] 1 2/8 0/2
[3] 1 3/8 1/2
[4] 1 4/8 0/2
[5] 1 5/8 1/2
[6] 2 6
[7] 2 7" ] || fail "labels, groups or environment"
run 0 --map cyclic -n 6 sh -c 'echo "$PMI_RANK $MPI_LOCALRANKID/$MPI_LOCALNRANKS"'
[ "$(sorted | tr '\n' ,)" = "0 0/2,1 0/2,2 0/1,3 0/1,4 1/2,5 1/2," ] || fail "cyclic placement"
FP_OWN="a b" run 0 -n 4 sh -c 'echo "$FP_OWN" "$PWD"'
[ "$(sorted | uniq -c | sed 's/^ *//')" = "4 a b $PWD" ] || fail "environment or directory were not passed on"
PMI_ID=9 PMIX_RANK=8 SLURM_PROCID=7 PMI_SPAWNED=1 run 0 --mpi pmi -n 4 sh -c 'echo "${PMI_ID-no} ${PMIX_RANK-no} ${SLURM_PROCID-no} ${PMI_SPAWNED-no} $PMI_FD"'
[ "$(sort -u "$dir/out")" = "no no no no 3" ] || fail "what another launcher left behind"
run 0 -n 4 --wdir / pwd
[ "$(sort -u "$dir/out")" = / ] || fail "--wdir"
run 0 -n 4 sh -c 'ls /proc/self/fd | wc -l'
[ "$(sort -u "$dir/out")" = 5 ] || fail "ranks have other descriptors than 0, 1, 2, PMI, and that of ls"
run 0 -n 8 "$RAWPMI" hints
run 0 --no-shm --map cyclic -n 10 "$RAWPMI" hints
run 0 --design direct -n 8 "$RAWPMI" hints
run 0 --design tree --map cyclic -n 8 "$RAWPMI" hints
run 0 --stats -n 8 "$RAWPMI" pgf
err_has '"puts":8,'
run 0 -n 8 "$RAWPMI" gather 200 shm # they keep only the last one's values
[ "$(sort -u "$dir/out" | sed 's/shared //')" -le 32768 ] || fail "shared memory has grown"
run 0 --no-shm --map cyclic -n 10 "$RAWPMI" gather 20
run 0 --pmi-port -n 8 "$RAWPMI" gather 20 shm
run 0 -n 8 "$RAWPMI" publish
[ "$(grep -c 'has published it' "$dir/out")" = 1 ] || fail "not one rank has published the name"
run 0 -N 1 -n 2 "$RAWPMI" pgf
if [ "$1" = hosts ]; then
    run 0 -n 4 -l hostname
    [ "$(sorted | tr '\n' ' ')" = "[0] a [1] b [2] c [3] d " ] || fail "ranks are not on the hosts"
fi
finish
