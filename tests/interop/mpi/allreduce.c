/* SPDX-License-Identifier: BSD-3-Clause */
/* Sum and maximum over int and double arrays, small to larger than MPICH's eager messages. */
#include "world.h"

int main(int argc, char **argv)
{
    static const int counts[] = {1, 7, 256, 20000};
    struct world w = world_start(&argc, &argv);
    int most = counts[3];
    int *i_in = malloc(sizeof(int) * (size_t)most), *i_out = malloc(sizeof(int) * (size_t)most);
    double *d_in = malloc(sizeof(double) * (size_t)most);
    double *d_out = malloc(sizeof(double) * (size_t)most);

    CHECK_MSG(i_in && i_out && d_in && d_out, "out of memory");
    for (int i = 0; i < most; i++) {
        i_in[i] = w.rank * 3 + i;
        d_in[i] = 0.5 * w.rank - i; /* exact in binary: so equality must hold */
    }
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        int n = counts[c], ranks = w.size * (w.size - 1) / 2;

        MPI_Allreduce(i_in, i_out, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            CHECK_MSG(i_out[i] == 3 * ranks + w.size * i, "sum of int, %d of %d", i, n);
        MPI_Allreduce(i_in, i_out, n, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            CHECK_MSG(i_out[i] == 3 * (w.size - 1) + i, "maximum of int, %d of %d", i, n);
        MPI_Allreduce(d_in, d_out, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++) {
            double expected = 0.5 * ranks - (double)w.size * i;

            CHECK_MSG(!(d_out[i] < expected) && !(d_out[i] > expected), "sum of double, %d of %d",
                      i, n);
        }
    }
    free(i_in);
    free(i_out);
    free(d_in);
    free(d_out);
    return world_end(&w, "allreduce");
}
