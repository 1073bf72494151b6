/* SPDX-License-Identifier: BSD-3-Clause */
/* bytes COUNT: bytes of malloc() that a process holds for each of COUNT communicators, without and with its group, and the
 * time to make one. The mean of all ranks, a line for each kind. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "kinds.h"

#define MAX_COMMS 2000

static double bytes_in_use(void)
{
    struct mallinfo2 info = mallinfo2();

    return (double)info.uordblks + (double)info.hblkhd;
}

int main(int argc, char **argv)
{
    static MPI_Comm comm[MAX_COMMS];
    static MPI_Group group[MAX_COMMS];
    int count = argc > 1 ? atoi(argv[1]) : 100, rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (count < 1 || count > MAX_COMMS)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int k = 0; kinds[k]; k++) {
        double mine[3], sum[3], start;

        kind_make(kinds[k], 0, &comm[0]); /* what the first one of a kind allocates for good */
        MPI_Comm_free(&comm[0]);
        MPI_Barrier(MPI_COMM_WORLD);
        mine[0] = -bytes_in_use();
        start = MPI_Wtime();
        for (int i = 0; i < count; i++)
            kind_make(kinds[k], (unsigned)i, &comm[i]);
        mine[2] = (MPI_Wtime() - start) / count * 1e6;
        mine[0] += bytes_in_use();
        mine[1] = -bytes_in_use();
        for (int i = 0; i < count; i++)
            MPI_Comm_group(comm[i], &group[i]);
        mine[1] += bytes_in_use();
        for (int i = 0; i < count; i++) {
            MPI_Group_free(&group[i]);
            MPI_Comm_free(&comm[i]);
        }
        mine[0] /= count;
        mine[1] /= count;
        MPI_Reduce(mine, sum, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0)
            printf("bytes %d %s %.1f %.1f %.1f\n", size, kinds[k], sum[0] / size, sum[1] / size, sum[2] / size);
    }
    MPI_Finalize();
    return 0;
}
