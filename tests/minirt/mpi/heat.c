/* SPDX-License-Identifier: BSD-3-Clause */
/* examples/minirt/heat.c with MPI's point-to-point messages: the plate that it writes must be the
 * same, bit for bit. Each rank has rows only: the result does not depend on which rank computes a
 * point. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    uint64_t nx, ny, iterations, y0, h;
    double *u, *next, *swap;
    int rank, size;
    FILE *file;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 5)
        MPI_Abort(MPI_COMM_WORLD, 2);
    nx = strtoull(argv[1], NULL, 10), ny = strtoull(argv[2], NULL, 10),
    iterations = strtoull(argv[3], NULL, 10);
    y0 = ny * (uint64_t)rank / (uint64_t)size;
    h = ny * (uint64_t)(rank + 1) / (uint64_t)size - y0;
    u = calloc((h + 2) * nx, sizeof(*u)); /* row 0 and row h + 1 are the neighbours' */
    next = calloc((h + 2) * nx, sizeof(*next));
    for (uint64_t i = 0; i < h; i++)
        for (uint64_t j = 0; j < nx; j++)
            u[(i + 1) * nx + j] =
                y0 + i == 0 ? 100.0 : 20.0 + (double)(j * 7 % 13) - (double)((y0 + i) * 3 % 11);
    for (uint64_t k = 0; k < iterations; k++) {
        int up = rank > 0 ? rank - 1 : MPI_PROC_NULL,
            down = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;

        MPI_Sendrecv(u + nx, (int)nx, MPI_DOUBLE, up, 0, u + (h + 1) * nx, (int)nx, MPI_DOUBLE,
                     down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(u + h * nx, (int)nx, MPI_DOUBLE, down, 1, u, (int)nx, MPI_DOUBLE, up, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (uint64_t i = 1; i <= h; i++)
            for (uint64_t j = 0; j < nx; j++) {
                uint64_t at = i * nx + j, y = y0 + i - 1;

                next[at] =
                    y == 0 || j == 0 || y == ny - 1 || j == nx - 1
                        ? u[at]
                        : u[at] + 0.1 * (((u[at - nx] + u[at + nx]) + (u[at - 1] + u[at + 1])) -
                                         4.0 * u[at]);
            }
        swap = u, u = next, next = swap;
    }
    for (int r = 0; r < size; r++) { /* in turn */
        if (r == rank && (!(file = fopen(argv[4], r ? "ab" : "wb")) ||
                          fwrite(u + nx, sizeof(*u), h * nx, file) != h * nx || fclose(file) != 0))
            MPI_Abort(MPI_COMM_WORLD, 1);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(u);
    free(next);
    MPI_Finalize();
    return 0;
}
