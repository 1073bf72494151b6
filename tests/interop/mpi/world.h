/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the MPI programs of this folder: a check that ends the whole job with a message, and
 * the line "ok". */
#ifndef INTEROP_WORLD_H
#define INTEROP_WORLD_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A failed check ends every process with status 1; if only one rank left, the others would wait. */
#define CHECK_END() (fflush(NULL), MPI_Abort(MPI_COMM_WORLD, 1), exit(1))
#include "../../check.h"

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

/* After the barrier, the line means that every rank has passed its checks. */
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

/* MPI_Open_port, and MPI_Comm_spawn which begins with it, are not in every MPICH: Debian 12's, over
 * UCX, fails with "not supported with ucx netmod" before it asks the launcher. Returns whether this
 * one has them; if not, the reason is in `why`. */
static inline int world_has_ports(char *why, size_t why_bytes)
{
    char port[MPI_MAX_PORT_NAME], text[MPI_MAX_ERROR_STRING];
    int rc, length, all = 0, mine;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    rc = MPI_Open_port(MPI_INFO_NULL, port);
    mine = rc == MPI_SUCCESS;
    why[0] = 0;
    if (mine) {
        MPI_Close_port(port);
    } else {
        const char *last;

        MPI_Error_string(rc, text, &length);
        last = strrchr(text, '\n'); /* the innermost line of the error stack names the cause */
        snprintf(why, why_bytes, "%s", last ? last + 1 : text);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

/* The end of a program that cannot do its work here: status 77, and the reason from rank 0. */
static inline int world_skip(const struct world *w, const char *name, const char *why)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (w->rank == 0)
        printf("%s skip: %s\n", name, why);
    fflush(stdout);
    MPI_Finalize();
    return 77;
}

/* A path that a spawned process finds from any folder. */
static inline const char *own_path(void)
{
    static char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    path[n > 0 ? n : 0] = 0;
    return path;
}

#endif
