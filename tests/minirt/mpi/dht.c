/* SPDX-License-Identifier: BSD-3-Clause */
/* examples/minirt/dht.c with messages: keys travel to their owners, owners sort and count. The
 * contents must be the same. */
#include "mpi_random.h"

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    uint64_t keys, seed, n, *mine, *sorted, *got;
    int rank, size, *counts, *starts, *from_counts, *from_starts, total = 0;
    FILE *file;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 4)
        MPI_Abort(MPI_COMM_WORLD, 2);
    keys = strtoull(argv[1], NULL, 10), seed = strtoull(argv[2], NULL, 10);
    n = keys * (uint64_t)size;
    mine = calloc(keys + 1, 8), sorted = calloc(keys + 1, 8);
    counts = calloc((size_t)size, 4), starts = calloc((size_t)size + 1, 4);
    from_counts = calloc((size_t)size, 4), from_starts = calloc((size_t)size + 1, 4);
    for (uint64_t i = 0; i < keys; i++) {
        mine[i] =
            random_number(seed, random_number(~seed, (uint64_t)rank * keys + i) % (n / 2 + 1)) | 1;
        counts[(mine[i] >> 32) % (uint64_t)size]++;
    }
    for (int r = 0; r < size; r++)
        starts[r + 1] = starts[r] + counts[r], counts[r] = 0;
    for (uint64_t i = 0; i < keys; i++) {
        int r = (int)((mine[i] >> 32) % (uint64_t)size);

        sorted[starts[r] + counts[r]++] = mine[i];
    }
    MPI_Alltoall(counts, 1, MPI_INT, from_counts, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < size; r++)
        from_starts[r] = total, total += from_counts[r];
    got = calloc((size_t)total + 1, 8);
    MPI_Alltoallv(sorted, counts, starts, MPI_UINT64_T, got, from_counts, from_starts, MPI_UINT64_T,
                  MPI_COMM_WORLD);
    qsort(got, (size_t)total, 8, ascending);
    for (int r = 0; r < size; r++) { /* in turn */
        if (r == rank) {
            if (!(file = fopen(argv[3], r ? "a" : "w")))
                MPI_Abort(MPI_COMM_WORLD, 1);
            for (int i = 0, j; i < total; i = j) {
                for (j = i; j < total && got[j] == got[i]; j++)
                    ;
                fprintf(file, "%d %016llx %d\n", rank, (unsigned long long)got[i], j - i);
            }
            fclose(file);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(mine), free(sorted), free(counts), free(starts), free(from_counts), free(from_starts),
        free(got);
    MPI_Finalize();
    return 0;
}
