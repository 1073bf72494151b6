#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# mpi.sh HOW: MPI programs, beside mpiexec.hydra.
# Environment: MPI (a folder with MPI programs), HYDRA, LD_PRELOAD_MPI (libraries that the MPI programs preload).
. "${0%/*}/harness.sh"

set=()
# for the ranks alone: in a pmirun with a sanitizer no other library may come first
[ -z "${LD_PRELOAD_MPI:-}" ] || { set=(env "LD_PRELOAD=$LD_PRELOAD_MPI") && nodes+=(-x "LD_PRELOAD=$LD_PRELOAD_MPI"); }
for program in hello allreduce ring; do
    run 0 -n 16 "$MPI/$program"
    out_has "^$program ok size=16\$"
    [ "$1" = srun ] && [ $program != allreduce ] && continue # ranks are placed alike, whichever program starts the agents
    run 0 -n 16 --map cyclic "$MPI/$program"
    out_has "^$program ok size=16\$"
done
run 0 -n 16 "$MPI/split" 4 # on each host as many as it has slots
out_has "^split ok size=16\$"
run 33 -n 16 "$MPI/abort" 33
run 0 -n 16 "$MPI/mpi_exchange"
cp "$dir/out" "$dir/ours"
[ "$(grep -c . "$dir/ours")" = 16 ] || fail "not 16 lines"
if [ "$1" = hosts ]; then
    timeout 100 "${set[@]}" "$HYDRA" -launcher ssh -launcher-exec "$HOST_SSH" -hosts "$HOSTS" -ppn 4 -n 16 "$MPI/mpi_exchange" > "$dir/out" 2> "$dir/err" < /dev/null ||
        fail "mpiexec.hydra: status $?"
else
    timeout 100 "$HYDRA" -n 16 "$MPI/mpi_exchange" > "$dir/out" 2> "$dir/err" < /dev/null || fail "mpiexec.hydra: status $?"
fi
cmp -s "$dir/ours" "$dir/out" || { [ "$1" != hosts ] && [ "$(sed 's/ all-reduce.*//' "$dir/ours")" = "$(sed 's/ all-reduce.*//' "$dir/out")" ]; } ||
    fail "another result than mpiexec.hydra's"
finish
