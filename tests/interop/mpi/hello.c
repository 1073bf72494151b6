/* SPDX-License-Identifier: BSD-3-Clause */
/* Every rank prints hello. Ranks must be distinct and complete, and the size the launcher's. */
#include "world.h"

static int environment(const char *name, int absent)
{
    const char *text = getenv(name);

    return text ? atoi(text) : absent;
}

int main(int argc, char **argv)
{
    struct world w = world_start(&argc, &argv);
    int pmi_rank = environment("PMI_RANK", -1), pmi_size = environment("PMI_SIZE", -1);
    int universe = world_attribute(MPI_UNIVERSE_SIZE, -1);
    int appnum = world_attribute(MPI_APPNUM, -1);
    char *seen = calloc((size_t)w.size, 1), *all = calloc((size_t)w.size, 1);

    CHECK_MSG(seen && all, "out of memory");
    CHECK_MSG(pmi_rank == -1 || pmi_rank == w.rank, "PMI_RANK=%d, MPI says %d", pmi_rank, w.rank);
    CHECK_MSG(pmi_size == -1 || pmi_size == w.size, "PMI_SIZE=%d, MPI says %d", pmi_size, w.size);
    if (argc > 1) /* the size that the caller asked for */
        CHECK_MSG(atoi(argv[1]) == w.size, "asked for %s ranks, MPI says %d", argv[1], w.size);
    /* MPICH treats a universe of 0 or less as "unlimited" and does not set the attribute. */
    CHECK_MSG(universe == -1 || universe >= w.size, "universe of %d for %d ranks", universe,
              w.size);
    printf("hello from rank %d of %d universe=%d appnum=%d\n", w.rank, w.size, universe, appnum);
    fflush(stdout);
    seen[w.rank] = 1;
    MPI_Allreduce(seen, all, w.size, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < w.size; i++)
        CHECK_MSG(all[i] == 1, "rank %d is not there", i);
    free(seen);
    free(all);
    return world_end(&w, "hello");
}
