/* SPDX-License-Identifier: BSD-3-Clause */
/* One set of names for what a rank calls of libpmi.so.0 (TEST_PMI1), of libpmi2.so.0, or of Slurm's
 * libpmi2 (TEST_SLURM). */
#ifndef FENCEPOST_TESTS_EITHER_H
#define FENCEPOST_TESTS_EITHER_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef TEST_SLURM
#include <slurm/pmi2.h>
#else
#include "pmi.h"
#include "pmi2.h"
#endif

static int rank, size;
static char space[256]; /* the job's key-value space */

#define CHECK_END() (fprintf(stderr, "rank %d\n", rank), _exit(1))
#include "../check.h"

#ifdef TEST_PMI1
enum { OK = PMI_SUCCESS, FAIL = PMI_FAIL };

static inline void init(void)
{
    int spawned;

    CHECK(PMI_Init(&spawned) == OK && PMI_Get_rank(&rank) == OK && PMI_Get_size(&size) == OK);
    CHECK(PMI_KVS_Get_my_name(space, sizeof(space)) == OK);
}

static inline int put_plain(const char *key, const char *value)
{
    return PMI_KVS_Put(space, key, value);
}

static inline int get_value(const char *key, char *value, int room)
{
    return PMI_KVS_Get(space, key, value, room);
}

static inline int fence(void)
{
    return PMI_Barrier();
}

static inline int finalize(void)
{
    return PMI_Finalize();
}
#else
enum { OK = PMI2_SUCCESS, FAIL = PMI2_FAIL };

static inline void init(void)
{
    int spawned, appnum;

    CHECK(PMI2_Init(&spawned, &size, &rank, &appnum) == OK);
    CHECK(PMI2_Job_GetId(space, sizeof(space)) == OK);
}

static inline int put_plain(const char *key, const char *value)
{
    return PMI2_KVS_Put(key, value);
}

static inline int get_value(const char *key, char *value, int room)
{
    int n = -1, rc = PMI2_KVS_Get(space, PMI2_ID_NULL, key, value, room, &n);

    CHECK(rc != OK || n == (int)strlen(value));
    return rc;
}

static inline int fence(void)
{
    return PMI2_KVS_Fence();
}

static inline int finalize(void)
{
    return PMI2_Finalize();
}
#endif

#ifndef TEST_SLURM
/* Numbers of Gets read from shared memory, and asked of the server. */
static inline int counts(unsigned long *n_read, unsigned long *n_asked)
{
#ifdef TEST_PMI1
    return PMI_SHMEM_Counts(n_read, n_asked);
#else
    return PMI2_SHMEM_Counts(n_read, n_asked);
#endif
}
#endif

#endif
