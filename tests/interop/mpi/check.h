/* SPDX-License-Identifier: BSD-3-Clause */
/* What the MPI programs of this folder share: a check that ends the whole job with a message, and the line that says "ok". */
#ifndef INTEROP_CHECK_H
#define INTEROP_CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A failed check ends every process with status 1: a rank that left alone would leave the others waiting. */
#define CHECK(cond, ...)                                                                          \
    do {                                                                                          \
        if (!(cond)) {                                                                            \
            fprintf(stderr, "%s:%d: check failed: %s: ", __FILE__, __LINE__, #cond);              \
            fprintf(stderr, __VA_ARGS__);                                                         \
            fputc('\n', stderr);                                                                  \
            fflush(NULL);                                                                         \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                         \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

struct world {
    int rank;
    int size;
};

static inline struct world world_start(int *argc, char ***argv)
{
    struct world w;

    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &w.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &w.size);
    return w;
}

/* The barrier makes the line mean that every rank passed its checks. */
static inline int world_end(const struct world *w, const char *name)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (w->rank == 0) {
        printf("%s ok size=%d\n", name, w->size);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}

/* An integer attribute of MPI_COMM_WORLD, or `absent` when MPI does not set it. */
static inline int world_attribute(int key, int absent)
{
    void *value = NULL;
    int found = 0;

    MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &found);
    return found ? *(int *)value : absent;
}

#endif
