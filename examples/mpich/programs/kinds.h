/* SPDX-License-Identifier: BSD-3-Clause */
/* The communicators that the programs here make of the world, by name. */
#ifndef KINDS_H
#define KINDS_H

#include <mpi.h>
#include <stdint.h>
#include <string.h>

static const char *const kinds[] = {"dup",        "offset",   "stride", "blocks",
                                    "transposed", "reversed", "random", NULL};

/* A rank's key under a permutation that all ranks compute alike. */
static int random_key(int rank, unsigned seed)
{
    uint32_t x = (uint32_t)rank * 2654435761u + seed * 40503u;

    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (int)(x >> 1);
}

/* Makes a communicator of a kind: collective. `seed` changes the random ones. Ranks that a kind
 * leaves out join a communicator of their own. */
static void kind_make(const char *kind, unsigned seed, MPI_Comm *comm)
{
    int rank, size, color = 0, key = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(kind, "dup") == 0) {
        MPI_Comm_dup(MPI_COMM_WORLD, comm);
        return;
    }
    if (strcmp(kind, "offset") == 0)
        color = rank >= size / 2;
    else if (strcmp(kind, "stride") == 0)
        color = rank % 2;
    else if (strcmp(kind, "blocks") == 0)
        color = rank / 2 % 2;
    else if (strcmp(kind, "transposed") == 0) /* a matrix of two columns, by columns */
        key = rank % 2 * size + rank / 2;
    else if (strcmp(kind, "reversed") == 0)
        key = -rank;
    else
        key = random_key(rank, seed);
    MPI_Comm_split(MPI_COMM_WORLD, color, key, comm);
}

#endif
