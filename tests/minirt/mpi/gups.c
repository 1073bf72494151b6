/* SPDX-License-Identifier: BSD-3-Clause */
/* examples/minirt/gups.c with an MPI window: the table must be the same. */
#include "mpi_random.h"

int main(int argc, char **argv)
{
    uint64_t words, updates, seed, *mine, *x, *all = NULL;
    int rank, size;
    MPI_Win win;
    FILE *file;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 5)
        MPI_Abort(MPI_COMM_WORLD, 2);
    words = strtoull(argv[1], NULL, 10), updates = strtoull(argv[2], NULL, 10),
    seed = strtoull(argv[3], NULL, 10);
    x = calloc(updates + 1, 8);
    MPI_Win_allocate((MPI_Aint)words * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    for (uint64_t i = 0; i < words; i++)
        mine[i] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (uint64_t i = 0; i < updates; i++) {
        uint64_t word =
            (x[i] = random_number(seed, (uint64_t)rank * updates + i)) % (words * (uint64_t)size);

        MPI_Accumulate(x + i, 1, MPI_UINT64_T, (int)(word / words), (MPI_Aint)(word % words), 1,
                       MPI_UINT64_T, MPI_SUM, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        all = calloc(words * (uint64_t)size, 8);
    MPI_Gather(mine, (int)words, MPI_UINT64_T, all, (int)words, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (rank == 0 && (!(file = fopen(argv[4], "wb")) ||
                      fwrite(all, 8, words * (uint64_t)size, file) != words * (uint64_t)size ||
                      fclose(file) != 0))
        MPI_Abort(MPI_COMM_WORLD, 1);
    free(all);
    free(x);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
