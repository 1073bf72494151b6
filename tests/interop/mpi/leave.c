/* SPDX-License-Identifier: BSD-3-Clause */
/* The last rank leaves with a status (3, or the first argument) after MPI_Init and without
 * MPI_Finalize; the others block. */
#include "world.h"

int main(int argc, char **argv)
{
    struct world w = world_start(&argc, &argv);

    MPI_Barrier(MPI_COMM_WORLD);
    if (w.rank == w.size - 1)
        _exit(argc > 1 ? atoi(argv[1]) : 3);
    for (;;)
        pause();
}
