/* SPDX-License-Identifier: BSD-3-Clause */
/* who_answers 1|2: puts, fences and gets with our libpmi.so.0 or libpmi2.so.0; rank 0 prints the
 * source of the answers: "answered by shm" or "... socket". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmi.h"
#include "pmi2.h"

static unsigned long n_read, n_asked;
static int rank, size;

static void need(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "who_answers: %s: %d\n", what, rc);
    exit(1);
}

static void with_pmi2(void)
{
    int spawned, appnum, n;
    char value[64];

    need(PMI2_Init(&spawned, &size, &rank, &appnum), "PMI2_Init");
    need(PMI2_KVS_Put(rank ? "other" : "zero", "value"), "PMI2_KVS_Put");
    need(PMI2_KVS_Fence(), "PMI2_KVS_Fence");
    need(PMI2_KVS_Get(NULL, PMI2_ID_NULL, "zero", value, sizeof(value), &n), "PMI2_KVS_Get");
    need(PMI2_SHMEM_Counts(&n_read, &n_asked), "PMI2_SHMEM_Counts");
    need(PMI2_Finalize(), "PMI2_Finalize");
}

static void with_pmi1(void)
{
    char value[64], kvsname[256];
    int spawned;

    need(PMI_Init(&spawned), "PMI_Init");
    need(PMI_Get_rank(&rank), "PMI_Get_rank");
    need(PMI_KVS_Get_my_name(kvsname, sizeof(kvsname)), "PMI_KVS_Get_my_name");
    need(PMI_KVS_Put(kvsname, rank ? "other" : "zero", "value"), "PMI_KVS_Put");
    need(PMI_KVS_Commit(kvsname), "PMI_KVS_Commit");
    need(PMI_Barrier(), "PMI_Barrier");
    need(PMI_KVS_Get(kvsname, "zero", value, sizeof(value)), "PMI_KVS_Get");
    need(PMI_SHMEM_Counts(&n_read, &n_asked), "PMI_SHMEM_Counts");
    need(PMI_Finalize(), "PMI_Finalize");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "1") == 0)
        with_pmi1();
    else
        with_pmi2();
    if (rank == 0)
        printf("answered by %s\n", n_read && !n_asked   ? "shm"
                                   : n_asked && !n_read ? "socket"
                                                        : "both");
    return 0;
}
