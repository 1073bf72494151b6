/* SPDX-License-Identifier: BSD-3-Clause */
/* A signal (SIGSEGV, or the number in the first argument) ends the last rank while all others
 * block. */
#include "world.h"

#include <signal.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
    struct world w = world_start(&argc, &argv);
    int number = argc > 1 ? atoi(argv[1]) : SIGSEGV;

    MPI_Barrier(MPI_COMM_WORLD);
    if (w.rank == w.size - 1) {
        struct rlimit none = {0, 0};

        setrlimit(RLIMIT_CORE, &none);
        signal(number, SIG_DFL);
        raise(number);
    }
    for (;;)
        pause();
}
