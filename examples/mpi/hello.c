/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An ordinary MPI program: nothing in it knows about Fencepost. Each rank says
 * where it runs, a token goes round the ring, and all agree on a sum.
 *
 *     mpicc.mpich hello.c -o hello && pmirun -n 4 ./hello
 */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    char host[MPI_MAX_PROCESSOR_NAME];
    int rank, size, length, token, sum;
    double start;

    MPI_Init(&argc, &argv);
    start = MPI_Wtime();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &length);
    printf("rank %d of %d on %s\n", rank, size, host);

    /* Rank 0 sends 1; each adds 1 and passes it on; it comes back as the size. */
    token = 1;
    if (rank == 0) {
        MPI_Sendrecv_replace(&token, 1, MPI_INT, (rank + 1) % size, 0, size - 1, 0, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        token++;
        MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    }

    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != size * (size - 1) / 2 || (rank == 0 && token != size)) {
        fprintf(stderr, "rank %d: wrong sum %d or token %d\n", rank, sum, token);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        printf("token came back as %d, sum of ranks %d, %.1f ms after MPI_Init\n", token, sum,
               1e3 * (MPI_Wtime() - start));
    MPI_Finalize();
    return 0;
}
