/* SPDX-License-Identifier: BSD-3-Clause */
/* OpenSHMEM 1.4: put and get, strided too, atomics, a lock, waiting, and the collectives. Each PE
 * prints its results, and "symmetric ends" before it enters shmem_finalize(): a PE that dies there
 * has done all the rest. */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define CHECK_END() (fflush(NULL), shmem_global_exit(1))
#include "../../check.h"

enum { BULK = 20000, MOST_PES = 64 };

static int me, n, next, before;
static long sync_words[SHMEM_ALLTOALL_SYNC_SIZE + SHMEM_COLLECT_SYNC_SIZE + SHMEM_BCAST_SYNC_SIZE +
                       SHMEM_REDUCE_SYNC_SIZE];
static long work[SHMEM_REDUCE_MIN_WRKDATA_SIZE + MOST_PES];
static double work_double[SHMEM_REDUCE_MIN_WRKDATA_SIZE];

/* A PE's own values to and from its neighbours: static data and the symmetric heap. */
static void put_and_get(void)
{
    static long word;
    static double strided[8];
    const double from[4] = {0.5 + me, 1.5 + me, 2.5 + me, 3.5 + me};
    long *heap = shmem_malloc(BULK * sizeof(long)), *back = malloc(BULK * sizeof(long));
    long *mine = malloc(BULK * sizeof(long)), sum = 0;

    CHECK_MSG(heap && back && mine, "out of memory");
    for (int i = 0; i < BULK; i++)
        mine[i] = (long)me * BULK + i;
    shmem_barrier_all();
    shmem_long_p(&word, 1000 + me, next);
    shmem_long_put(heap, mine, BULK, next);
    shmem_double_iput(strided, from, 2, 1, 4, next);
    shmem_barrier_all();
    CHECK_MSG(word == 1000 + before, "p gave %ld", word);
    for (int i = 0; i < BULK; i++) {
        CHECK_MSG(heap[i] == (long)before * BULK + i, "put: element %d is %ld", i, heap[i]);
        sum += heap[i];
    }
    shmem_long_get(back, heap, BULK, before);
    for (int i = 0; i < BULK; i++)
        CHECK_MSG(back[i] == (long)((before + n - 1) % n) * BULK + i, "get: element %d is %ld", i,
                  back[i]);
    printf("symmetric put PE %d: %ld %ld %ld %.1f %.1f\n", me, word, sum, shmem_long_g(&word, next),
           strided[0], strided[6]);
    shmem_barrier_all();
    shmem_free(heap);
    free(back);
    free(mine);
}

static void atomics(void)
{
    static long counter, claimed, swapped, flag, locked, lock;
    long drawn = 0, won, old;

    for (int i = 0; i < 4; i++)
        drawn += shmem_long_atomic_fetch_add(&counter, 1, 0);
    won = shmem_long_atomic_compare_swap(&claimed, 0, me + 1, 0) == 0;
    old = shmem_long_atomic_swap(&swapped, me + 10, next);
    shmem_long_atomic_inc(&flag, next);
    shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
    shmem_set_lock(&lock); /* the protected update is not atomic */
    shmem_long_p(&locked, shmem_long_g(&locked, 0) + 1, 0);
    shmem_quiet();
    shmem_clear_lock(&lock);
    shmem_barrier_all();
    static long in[2], out[2];
    in[0] = drawn;
    in[1] = won;
    shmem_barrier_all();
    shmem_long_sum_to_all(out, in, 2, 0, 0, n, work, sync_words);
    CHECK_MSG(out[0] == 4L * n * (4L * n - 1) / 2, "tickets add up to %ld", out[0]);
    CHECK_MSG(out[1] == 1, "%ld PEs have won", out[1]);
    printf("symmetric atomics PE %d: %ld %ld %ld %ld %ld\n", me, out[0], out[1], old,
           shmem_long_atomic_fetch(&counter, 0), shmem_long_g(&locked, 0));
    shmem_barrier_all();
}

static void collectives(void)
{
    static long from[MOST_PES], all[MOST_PES * MOST_PES], cast[3], each[MOST_PES], largest;
    static double half, halves;
    long sum = 0;

    for (int i = 0; i < n; i++)
        from[i] = 100L * me + i;
    half = 0.5 * (me + 1);
    shmem_barrier_all();
    shmem_broadcast64(cast, from, 3, n - 1, 0, 0, n, sync_words);
    if (me == n - 1) /* the root's own is not written */
        memcpy(cast, from, sizeof(cast));
    shmem_barrier_all();
    shmem_fcollect64(all, from, 2, 0, 0, n, sync_words);
    for (int i = 0; i < 2 * n; i++)
        sum = 31 * sum + all[i];
    shmem_barrier_all();
    shmem_collect64(all, from, (size_t)me % 3 + 1, 0, 0, n, sync_words);
    for (int r = 0, i = 0; r < n; r++)
        for (int k = 0; k <= r % 3; k++, i++)
            CHECK_MSG(all[i] == 100L * r + k, "collect: element %d is %ld", i, all[i]);
    shmem_barrier_all();
    shmem_alltoall64(each, from, 1, 0, 0, n, sync_words);
    for (int r = 0; r < n; r++)
        CHECK_MSG(each[r] == 100L * r + me, "alltoall: of PE %d is %ld", r, each[r]);
    shmem_barrier_all();
    shmem_long_max_to_all(&largest, &each[0], 1, 0, 0, n, work, sync_words);
    shmem_barrier_all();
    shmem_double_sum_to_all(&halves, &half, 1, 0, 0, n, work_double, sync_words);
    printf("symmetric collectives PE %d: %ld %ld %ld %ld %.2f\n", me, cast[0], cast[2], sum,
           largest, halves);
    shmem_barrier_all();
}

int main(void)
{
    const struct rlimit none = {0, 0};

    setrlimit(RLIMIT_CORE, &none);
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    next = (me + 1) % n;
    before = (me + n - 1) % n;
    CHECK_MSG(n <= MOST_PES, "%d PEs", n);
    for (size_t i = 0; i < sizeof(sync_words) / sizeof(sync_words[0]); i++)
        sync_words[i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    put_and_get();
    atomics();
    collectives();
    printf("symmetric ends PE %d of %d\n", me, n);
    fflush(stdout);
    shmem_barrier_all(); /* every PE has set it */
    shmem_finalize();
    return 0;
}
