/* SPDX-License-Identifier: BSD-3-Clause */
/* The shortest program of Open MPI that needs all of its ranks: `pmibench start` starts it. */
#include <mpi.h>

#include "figures.h"

int main(int argc, char **argv)
{
    int rank, size, sum;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (size != (argc > 1 ? atoi(argv[1]) : size) || sum != size * (size - 1) / 2) {
        fprintf(stderr, "pmibench-hello: rank %d of %d: wrong size, or sum of ranks (%d)\n", rank,
                size, sum);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        all_up(); /* the others wait in MPI_Finalize() */
    MPI_Finalize();
    return 0;
}
