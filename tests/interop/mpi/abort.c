/* SPDX-License-Identifier: BSD-3-Clause */
/* The last rank aborts with a status (42, or the first argument) while all others block. The status
 * must reach the shell. */
#include "world.h"

int main(int argc, char **argv)
{
    struct world w = world_start(&argc, &argv);

    MPI_Barrier(MPI_COMM_WORLD);
    if (w.rank == w.size - 1)
        MPI_Abort(MPI_COMM_WORLD, argc > 1 ? atoi(argv[1]) : 42);
    for (;;)
        pause();
}
