/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program may do wrong: it finalizes twice (the default), or names an active set that does
 * not fit the job (SET is set). */
#include <shmem.h>
#include <stdlib.h>

static long sync_words[SHMEM_COLLECT_SYNC_SIZE];
static long from[2], to[64];

int main(void)
{
    shmem_init();
    for (int i = 0; i < SHMEM_COLLECT_SYNC_SIZE; i++)
        sync_words[i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    if (getenv("SET"))
        shmem_fcollect64(to, from, 2, 0, 1, shmem_n_pes() + 1, sync_words);
    shmem_finalize();
    shmem_finalize();
    return 0;
}
