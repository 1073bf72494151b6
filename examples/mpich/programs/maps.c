/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * maps SIZE COUNT: COUNT communicators of each kind, children of one of SIZE processes, in one
 * process, through MPICH's own internals: bytes of malloc() for a map and for the communicator's
 * group, and microseconds of processor time to make each. MPICH's code makes them as for
 * MPI_Comm_split, from the ranks that the call has gathered. Linked with the static library of
 * either build.
 */
#include "mpidimpl.h"

#include "ch4i_comm.h"

#include <malloc.h>
#include <time.h>

static const char *const kinds[] = {"dup",        "offset",   "stride", "blocks",
                                    "transposed", "reversed", "random"};

static double bytes_in_use(void)
{
    struct mallinfo2 info = mallinfo2();

    return (double)info.uordblks + (double)info.hblkhd;
}

static double cpu_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static MPIR_Comm *comm_of(int size)
{
    MPIR_Comm *comm;

    if (MPIR_Comm_create(&comm) != MPI_SUCCESS)
        exit(1);
    comm->comm_kind = MPIR_COMM_KIND__INTRACOMM;
    comm->local_size = comm->remote_size = size;
    comm->rank = 0;
    return comm;
}

static MPIR_Comm *comm_world_of(int size)
{
    MPIR_Comm *comm = comm_of(size);

    memset(&MPIDI_COMM(comm, map), 0, sizeof(MPIDI_COMM(comm, map)));
#ifdef RANKMAP_FORM_AFFINE
    if (rankmap_affine(0, 1, size, NULL, &MPIDI_COMM(comm, map).map) < 0)
        exit(1);
    MPIDI_COMM(comm, local_map) = rankmap_ref(MPIDI_COMM(comm, map).map);
#else
    MPIDI_COMM(comm, map).mode = MPIDI_RANK_MAP_DIRECT_INTRA;
    MPIDI_COMM(comm, map).size = size;
#endif
    return comm;
}

/* The parent's ranks of a child. Returns how many. */
static int kind_ranks(int kind, int size, int *ranks)
{
    int n = kind == 0 || kind > 3 ? size : size / 2;

    for (int i = 0; i < n; i++)
        switch (kind) {
        case 1: ranks[i] = size / 2 + i; break;
        case 2: ranks[i] = 2 * i; break;
        case 3: ranks[i] = i / 2 * 4 + i % 2; break;
        case 4: ranks[i] = i % (size / 2) * 2 + i / (size / 2); break;
        case 5: ranks[i] = size - 1 - i; break;
        default: ranks[i] = i;
        }
    for (int i = n - 1; kind == 6 && i > 0; i--) {
        int j = rand() % (i + 1), t = ranks[i];

        ranks[i] = ranks[j];
        ranks[j] = t;
    }
    return n;
}

int main(int argc, char **argv)
{
    int size = argc > 2 ? atoi(argv[1]) : 64, count = argc > 2 ? atoi(argv[2]) : 100;
    MPIR_Comm **comm = malloc(count * sizeof(comm[0])), *world;
    int *ranks = malloc(size * sizeof(int));

    MPI_Init(&argc, &argv);
    world = comm_world_of(size);
    srand(1);
    for (int kind = 0; kind < 7; kind++) {
        double map_bytes = 0, group_bytes, map_us = 0, group_us;

        for (int i = 0; i < count; i++) {
            int n = kind_ranks(kind, size, ranks);
            MPIR_Comm *made = comm[i] = comm_of(n);

            if (kind == 0)
                MPIR_Comm_map_dup(made, world, MPIR_COMM_MAP_DIR__L2L);
            else
                MPIR_Comm_map_irregular(made, world, ranks, n, MPIR_COMM_MAP_DIR__L2L, NULL);
            map_bytes -= bytes_in_use();
            map_us -= cpu_us();
            if (MPIDI_comm_create_rank_map(made) != MPI_SUCCESS)
                exit(1);
            map_us += cpu_us();
            map_bytes += bytes_in_use();
            MPIR_Comm_map_free(made);
        }
        group_bytes = -bytes_in_use();
        group_us = -cpu_us();
        for (int i = 0; i < count; i++) {
            MPIR_Group *group;

            if (MPIR_Comm_group_impl(comm[i], &group) != MPI_SUCCESS)
                exit(1);
        }
        group_us += cpu_us();
        group_bytes += bytes_in_use();
        printf("maps %d %s %.1f %.1f %.3f %.3f\n", size, kinds[kind], map_bytes / count,
               group_bytes / count, map_us / count, group_us / count);
    }
    printf("maps %d struct %zu\n", size,
           sizeof(((MPIR_Comm *)0)->dev.ch4.map) + sizeof(((MPIR_Comm *)0)->dev.ch4.local_map));
    MPI_Finalize();
    return 0;
}
