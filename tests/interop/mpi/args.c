/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0 prints its arguments and the variables INTEROP_A, INTEROP_B and those that a launcher must
 * set or remove; every rank must have rank 0's arguments. */
#include "world.h"

int main(int argc, char **argv)
{
    static const char *const names[] = {"INTEROP_A", "INTEROP_B", "PMI_FD",     "PMI_RANK",
                                        "PMI_SIZE",  "PMI_PORT",  "PMI_SPAWNED"};
    struct world w = world_start(&argc, &argv);
    unsigned hash = 2166136261u, low, high;

    for (int i = 1; i < argc; i++) {
        for (const char *c = argv[i];; c++) {
            hash = (hash ^ (unsigned char)*c) * 16777619u;
            if (!*c)
                break;
        }
        if (w.rank == 0)
            printf("arg %d=[%s]\n", i, argv[i]);
    }
    for (size_t i = 0; w.rank == 0 && i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);

        printf("env %s=%s\n", names[i], value ? value : "(unset)");
    }
    fflush(stdout);
    MPI_Allreduce(&hash, &low, 1, MPI_UNSIGNED, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&hash, &high, 1, MPI_UNSIGNED, MPI_MAX, MPI_COMM_WORLD);
    CHECK_MSG(low == high, "ranks have different arguments");
    return world_end(&w, "args");
}
