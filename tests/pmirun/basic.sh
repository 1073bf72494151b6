#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# basic.sh PMIRUN RAWPMI: a job: PMI, environment, output, descriptors.
. "${0%/*}/rawpmi.bash"

run 0 -n 1 "$raw" pgf
err_empty
run 0 -n 7 "$raw" pgf
run 0 --pmi-port -n 7 "$raw" pgf
err_empty
run 0 -n 2 "$raw" pgf : -n 3 "$raw" pgf
run 0 -n 7 "$raw" hints
run 0 --no-shm -n 2 "$raw" hints
run 0 -n 2 -x A=1 -l sh -c 'echo "$A $PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS"' : -n 1 -x A=2 sh -c 'echo $A $PMI_RANK'
[ "$(sort "$dir/out")" = "[0] 1 0/3 0/3
[1] 1 1/3 1/3
[2] 2 2" ] || fail "labels, groups or environment"
PMI_ID=9 PMIX_RANK=8 SLURM_PROCID=7 PMI_SPAWNED=1 run 0 --mpi pmi -n 1 sh -c 'echo "${PMI_ID-no} ${PMIX_RANK-no} ${SLURM_PROCID-no} ${PMI_SPAWNED-no} $PMI_FD"'
out_is "no no no no 3"
run 0 -n 2 --wdir / pwd
out_is "/
/"
echo line > "$dir/in"
stdin=$dir/in run 0 -n 3 -l cat
out_is "[0] line"
run 0 --stats -n 2 "$raw" pgf
err_has '"fences":1,'
# Allgathers keep only the last one's values.
run 0 -n 5 "$raw" gather 200 shm
[ "$(sort -u "$dir/out" | sed 's/shared //')" -le 32768 ] || fail "shared memory has grown"
run 0 --no-shm -n 5 "$raw" gather 20
run 0 --pmi-port -n 5 "$raw" gather 20 shm
run 0 -n 5 "$raw" publish
[ "$(grep -c 'has published it' "$dir/out")" = 1 ] || fail "not one rank has published the name"
run 0 --version
run 0 --help
if grep 'see man' "$dir/out"; then fail "--help sends the reader to the manual"; fi
run 0 -n 1 sh -c 'ls /proc/self/fd | wc -l'
out_is 5 # 0, 1, 2, PMI, and that of ls
finish
