/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_exchange: runs all-to-all, all-reduce and gather in MPI and prints the results to the last
 * bit, to compare launchers that place ranks alike. Rank 0 prints, in the order of ranks.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define N 64 /* doubles from each rank to each */

/* Numbers whose sum depends on the order of additions. */
static double number(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return ((double)(*seed >> 8) - 8388608.0) * (double)(1u << (*seed & 15)) / 3.0;
}

static uint64_t digest(const double *v, size_t n)
{
    const unsigned char *p = (const unsigned char *)v;
    uint64_t h = 1469598103934665603u;

    for (size_t i = 0; i < n * sizeof(*v); i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

int main(int argc, char **argv)
{
    int rank, size;
    double *send, *recv, sum[N];
    uint64_t mine[2], *all;
    uint32_t seed;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    send = malloc(sizeof(double) * N * (size_t)size);
    recv = malloc(sizeof(double) * N * (size_t)size);
    all = malloc(sizeof(mine) * (size_t)size);
    if (!send || !recv || !all)
        MPI_Abort(MPI_COMM_WORLD, 1);
    seed = 7u + (uint32_t)rank;
    for (int i = 0; i < N * size; i++)
        send[i] = number(&seed);
    MPI_Alltoall(send, N, MPI_DOUBLE, recv, N, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int from = 0; from < size;
         from++) { /* the expected value: each rank's numbers, from its seed */
        seed = 7u + (uint32_t)from;
        for (int i = 0; i < N * rank; i++)
            number(&seed);
        for (int i = 0; i < N; i++) {
            double want = number(&seed);

            if (recv[from * N + i] < want || recv[from * N + i] > want)
                MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    MPI_Allreduce(recv, sum, N, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    mine[0] = digest(recv, (size_t)N * (size_t)size);
    mine[1] = digest(sum, N);
    MPI_Gather(mine, 2, MPI_UINT64_T, all, 2, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    for (int r = 0; rank == 0 && r < size; r++)
        printf("rank %d of %d: all-to-all %016llx all-reduce %016llx first %a\n", r, size,
               (unsigned long long)all[2 * r], (unsigned long long)all[2 * r + 1], sum[0]);
    free(send);
    free(recv);
    free(all);
    MPI_Finalize();
    return 0;
}
