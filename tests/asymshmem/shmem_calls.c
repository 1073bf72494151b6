/* SPDX-License-Identifier: BSD-3-Clause */
/* Every call of libasymshmem's, of each class and type, to the neighbour. */
#define _GNU_SOURCE
#include <sched.h>

#include "shmem_test.h"

#include <stdlib.h>
#include "types.h"

#define CELLS  64
#define ROUNDS (120 / n_pes) /* of all PEs on one counter */

static long total; /* symmetric */
static struct block block;
static char *mine; /* the part of the block that the current class of calls uses */
static size_t area;

static void *block_of(int pe)
{
    return (char *)block_at(&block, pe) + area;
}

/* Moves to another part of the block for the next class of calls, so that PEs need not wait for
 * each other. */
static void go_on(void)
{
    area += CELLS * 16;
    if (area == MAX_RESULTS * CELLS * 16)
        fail("there is room in the block");
    mine = block.mine + area;
}

/* Every cell counts, by its place. */
#define SUM(T, cells, sum)                                                                         \
    for (int i = 0; i < CELLS; i++)                                                                \
    sum = sum * 0.875 + (double)((const T *)(cells))[i]

#define RMA(NAME, T)                                                                               \
    static void rma_##NAME(void)                                                                   \
    {                                                                                              \
        T *to = block_of(next), from[CELLS], got[CELLS] = {0};                                     \
        double sum = 0;                                                                            \
                                                                                                   \
        for (int i = 0; i < CELLS; i++)                                                            \
            from[i] = (T)(i + 1 + 3 * me);                                                         \
        shmem_##NAME##_p(to, from[0], next);                                                       \
        shmem_ctx_##NAME##_p(ctx, to + 1, from[1], next);                                          \
        shmem_##NAME##_put(to + 2, from + 2, 5, next);                                             \
        shmem_ctx_##NAME##_put(ctx, to + 8, from + 8, 5, next);                                    \
        shmem_##NAME##_iput(to + 16, from, 2, 3, 5, next);                                         \
        shmem_ctx_##NAME##_iput(ctx, to + 28, from, 3, 2, 5, next);                                \
        shmem_##NAME##_put_nbi(to + 44, from, 5, next);                                            \
        shmem_ctx_##NAME##_put_nbi(ctx, to + 50, from + 7, 5, next);                               \
        shmem_##NAME##_put(to + 60, from, 0, next);                                                \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_barrier_all();                                                                       \
        SUM(T, mine, sum);                                                                         \
        result("put", #NAME, sum);                                                                 \
        got[0] = shmem_##NAME##_g(to, next);                                                       \
        got[1] = shmem_ctx_##NAME##_g(ctx, to + 1, next);                                          \
        shmem_##NAME##_get(got + 2, to + 2, 5, next);                                              \
        shmem_ctx_##NAME##_get(ctx, got + 8, to + 8, 5, next);                                     \
        shmem_##NAME##_iget(got + 16, to, 2, 3, 5, next);                                          \
        shmem_ctx_##NAME##_iget(ctx, got + 28, to, 3, 2, 5, next);                                 \
        shmem_##NAME##_get_nbi(got + 44, to + 16, 5, next);                                        \
        shmem_ctx_##NAME##_get_nbi(ctx, got + 50, to + 28, 5, next);                               \
        shmem_quiet();                                                                             \
        shmem_ctx_quiet(ctx);                                                                      \
        sum = 0;                                                                                   \
        SUM(T, got, sum);                                                                          \
        result("get", #NAME, sum);                                                                 \
    }

RMA_TYPES(RMA)

#define BLOCKS(NAME, SUFFIX, bytes)                                                                \
    static void blocks_##NAME(void)                                                                \
    {                                                                                              \
        char *to = block_of(next), from[CELLS * 16], got[CELLS * 16] = {0};                        \
        double sum = 0;                                                                            \
                                                                                                   \
        for (int i = 0; i < CELLS * 16; i++)                                                       \
            from[i] = (char)((i + 5 * me) % 100);                                                  \
        shmem_put##SUFFIX(to, from, 3, next);                                                      \
        shmem_ctx_put##SUFFIX(ctx, to + 4 * (bytes), from + 9, 3, next);                           \
        shmem_put##SUFFIX##_nbi(to + 8 * (bytes), from + 2, 3, next);                              \
        shmem_ctx_put##SUFFIX##_nbi(ctx, to + 12 * (bytes), from + 7, 3, next);                    \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_barrier_all();                                                                       \
        shmem_get##SUFFIX(got, to, 3, next);                                                       \
        shmem_ctx_get##SUFFIX(ctx, got + 4 * (bytes), to + 4 * (bytes), 3, next);                  \
        shmem_get##SUFFIX##_nbi(got + 8 * (bytes), to + 8 * (bytes), 3, next);                     \
        shmem_ctx_get##SUFFIX##_nbi(ctx, got + 12 * (bytes), to + 12 * (bytes), 3, next);          \
        shmem_quiet();                                                                             \
        shmem_ctx_quiet(ctx);                                                                      \
        SUM(char, mine, sum);                                                                      \
        SUM(char, got, sum);                                                                       \
        result("blocks", #NAME, sum);                                                              \
    }
#define STRIDED(BITS)                                                                              \
    static void strided_##BITS(void)                                                               \
    {                                                                                              \
        char *to = block_of(next), from[CELLS * 16], got[CELLS * 16] = {0};                        \
        double sum = 0;                                                                            \
                                                                                                   \
        for (int i = 0; i < CELLS * 16; i++)                                                       \
            from[i] = (char)((i + 7 * me) % 100);                                                  \
        shmem_iput##BITS(to, from, 2, 3, 4, next);                                                 \
        shmem_ctx_iput##BITS(ctx, to + 256, from + 32, 3, 2, 4, next);                             \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_barrier_all();                                                                       \
        shmem_iget##BITS(got, to, 3, 2, 4, next);                                                  \
        shmem_ctx_iget##BITS(ctx, got + 256, to + 256, 2, 3, 4, next);                             \
        for (int i = 0; i < CELLS * 16; i++)                                                       \
            sum = sum * 0.99 + mine[i] + 3 * got[i];                                               \
        result("strided", #BITS, sum);                                                             \
    }

#define SIZES(BITS)                                                                                \
    BLOCKS(BITS, BITS, (BITS) / 8)                                                                 \
    STRIDED(BITS)

BLOCKS(mem, mem, 1)
RMA_SIZES(SIZES)

/* Debian 12's OpenSHMEM (Open MPI 4.1.4) writes 8 bytes for the result of a 4-byte compare-swap,
 * and the stack protector aborts; the results of its fetch_and, fetch_or and fetch_xor depend on
 * earlier memory. There, other calls take their place. */
static bool swaps(size_t bytes)
{
    return bytes == 8 || asymmetric;
}

/* Each PE alone uses one cell of its neighbour, which gives the fetched value; all PEs share one
 * cell of PE 0. */
#define FETCHES(NAME, T)                                                                           \
    static void fetches_##NAME(void)                                                               \
    {                                                                                              \
        T *cell = (T *)block_of(next) + 1 + me, value = (T)(me + 5);                               \
        double sum = 0;                                                                            \
                                                                                                   \
        shmem_##NAME##_atomic_set(cell, value, next);                                              \
        sum += (double)shmem_##NAME##_atomic_fetch(cell, next);                                    \
        sum = 3 * sum + (double)shmem_ctx_##NAME##_atomic_swap(ctx, cell, (T)11, next);            \
        sum = 3 * sum + (double)shmem_##NAME##_atomic_swap(cell, (T)12, next);                     \
        shmem_ctx_##NAME##_atomic_set(ctx, cell, (T)13, next);                                     \
        shmem_ctx_quiet(ctx);                                                                      \
        sum = 3 * sum + (double)shmem_ctx_##NAME##_atomic_fetch(ctx, cell, next);                  \
        shmem_barrier_all();                                                                       \
        SUM(T, mine, sum);                                                                         \
        result("fetch", #NAME, sum);                                                               \
    }
#define ARITHMETIC(NAME, T)                                                                        \
    FETCHES(NAME, T)                                                                               \
    static void arithmetic_##NAME(void)                                                            \
    {                                                                                              \
        T *cell = (T *)block_of(next) + 1 + me, *all = block_of(0);                                \
        double sum = 0;                                                                            \
                                                                                                   \
        shmem_##NAME##_atomic_add(cell, (T)40, next);                                              \
        shmem_ctx_##NAME##_atomic_add(ctx, cell, (T)2, next);                                      \
        shmem_##NAME##_atomic_inc(cell, next);                                                     \
        shmem_ctx_##NAME##_atomic_inc(ctx, cell, next);                                            \
        shmem_quiet();                                                                             \
        shmem_ctx_quiet(ctx);                                                                      \
        sum = 3 * sum + (double)shmem_##NAME##_atomic_fetch_add(cell, (T)9, next);                 \
        sum = 3 * sum + (double)shmem_ctx_##NAME##_atomic_fetch_add(ctx, cell, (T)-3, next);       \
        sum = 3 * sum + (double)shmem_##NAME##_atomic_fetch_inc(cell, next);                       \
        sum = 3 * sum + (double)shmem_ctx_##NAME##_atomic_fetch_inc(ctx, cell, next);              \
        if (swaps(sizeof(T))) {                                                                    \
            sum = 3 * sum + (double)shmem_##NAME##_atomic_compare_swap(cell, (T)52, (T)7, next);   \
            sum = 3 * sum +                                                                        \
                  (double)shmem_ctx_##NAME##_atomic_compare_swap(ctx, cell, (T)1, (T)8, next);     \
        } else {                                                                                   \
            shmem_##NAME##_atomic_set(cell, (T)7, next);                                           \
            sum = 3 * (3 * sum + 52) + 7;                                                          \
        }                                                                                          \
        for (int i = 0; i < ROUNDS; i++)                                                           \
            shmem_long_atomic_add(&total, (long)shmem_##NAME##_atomic_fetch_inc(all, 0), 0);       \
        shmem_barrier_all();                                                                       \
        SUM(T, mine, sum);                                                                         \
        result("arithmetic", #NAME, sum);                                                          \
    }
#define FETCHING(NAME, T, OP)                                                                      \
    static double fetch_##OP##_##NAME(T *cell, T value, bool with_context)                         \
    {                                                                                              \
        T got;                                                                                     \
                                                                                                   \
        if (asymmetric)                                                                            \
            return (double)(with_context                                                           \
                                ? shmem_ctx_##NAME##_atomic_fetch_##OP(ctx, cell, value, next)     \
                                : shmem_##NAME##_atomic_fetch_##OP(cell, value, next));            \
        got = shmem_##NAME##_g(cell, next);                                                        \
        shmem_##NAME##_atomic_##OP(cell, value, next);                                             \
        shmem_quiet();                                                                             \
        return (double)got;                                                                        \
    }
#define BITWISE(NAME, T)                                                                           \
    FETCHING(NAME, T, and)                                                                         \
    FETCHING(NAME, T, or)                                                                          \
    FETCHING(NAME, T, xor)                                                                         \
    static void bitwise_##NAME(void)                                                               \
    {                                                                                              \
        T *cell = (T *)block_of(next) + 1 + me;                                                    \
        double sum = 0;                                                                            \
                                                                                                   \
        shmem_##NAME##_atomic_or(cell, (T)0x55, next);                                             \
        shmem_quiet();                                                                             \
        shmem_ctx_##NAME##_atomic_and(ctx, cell, (T)0x1f, next);                                   \
        shmem_ctx_quiet(ctx);                                                                      \
        sum = 3 * sum + fetch_xor_##NAME(cell, (T)0x33, false);                                    \
        sum = 3 * sum + fetch_or_##NAME(cell, (T)0x80, true);                                      \
        sum = 3 * sum + fetch_and_##NAME(cell, (T)0xee, false);                                    \
        shmem_ctx_##NAME##_atomic_or(ctx, cell, (T)0x41, next);                                    \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_##NAME##_atomic_and(cell, (T)0xf7, next);                                            \
        shmem_quiet();                                                                             \
        shmem_##NAME##_atomic_xor(cell, (T)0x101, next);                                           \
        shmem_quiet();                                                                             \
        shmem_ctx_##NAME##_atomic_xor(ctx, cell, (T)0x600, next);                                  \
        shmem_ctx_quiet(ctx);                                                                      \
        sum = 3 * sum + fetch_and_##NAME(cell, (T)0xfef, true);                                    \
        sum = 3 * sum + fetch_or_##NAME(cell, (T)0x2000, false);                                   \
        sum = 3 * sum + fetch_xor_##NAME(cell, (T)0x77, true);                                     \
        shmem_barrier_all();                                                                       \
        SUM(T, mine, sum);                                                                         \
        result("bitwise", #NAME, sum);                                                             \
    }
/* Names from before OpenSHMEM 1.4. */
#define OLD_FETCHES(NAME, T)                                                                       \
    static void old_fetches_##NAME(void)                                                           \
    {                                                                                              \
        T *cell = (T *)block_of(next) + 1 + me;                                                    \
        double sum = 0;                                                                            \
                                                                                                   \
        shmem_##NAME##_set(cell, (T)(me + 3), next);                                               \
        sum = 3 * sum + (double)shmem_##NAME##_fetch(cell, next);                                  \
        sum = 3 * sum + (double)shmem_##NAME##_swap(cell, (T)21, next);                            \
        shmem_barrier_all();                                                                       \
        SUM(T, mine, sum);                                                                         \
        result("old fetch", #NAME, sum);                                                           \
    }
#define OLD_ARITHMETIC(NAME, T)                                                                    \
    OLD_FETCHES(NAME, T)                                                                           \
    static void old_arithmetic_##NAME(void)                                                        \
    {                                                                                              \
        T *cell = (T *)block_of(next) + 1 + me;                                                    \
        double sum = 0;                                                                            \
                                                                                                   \
        shmem_##NAME##_add(cell, (T)6, next);                                                      \
        shmem_##NAME##_inc(cell, next);                                                            \
        shmem_quiet();                                                                             \
        sum = 3 * sum + (double)shmem_##NAME##_fadd(cell, (T)5, next);                             \
        sum = 3 * sum + (double)shmem_##NAME##_finc(cell, next);                                   \
        if (swaps(sizeof(T))) {                                                                    \
            sum = 3 * sum + (double)shmem_##NAME##_cswap(cell, (T)13, (T)me, next);                \
        } else {                                                                                   \
            shmem_##NAME##_set(cell, (T)me, next);                                                 \
            sum = 3 * sum + 13;                                                                    \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
        SUM(T, mine, sum);                                                                         \
        result("old arithmetic", #NAME, sum);                                                      \
    }

SIGNED_TYPES(ARITHMETIC)
UNSIGNED_TYPES(ARITHMETIC)
FLOAT_TYPES(FETCHES)
SIGNED_TYPES(BITWISE)
UNSIGNED_TYPES(BITWISE)
WIDTH_TYPES(BITWISE)
SIGNED_TYPES(OLD_ARITHMETIC)
FLOAT_TYPES(OLD_FETCHES)

#ifdef SHMEM_SIGNAL_SET /* OpenSHMEM 1.5; Open MPI 5's own such calls do nothing, or too little */
#define NBI(NAME, T)                                                                               \
    static void nbi_##NAME(void)                                                                   \
    {                                                                                              \
        T *cell = (T *)block_of(next) + 1 + me, before[CELLS] = {0};                               \
        double sum = 0;                                                                            \
                                                                                                   \
        if (asymmetric) {                                                                          \
            shmem_##NAME##_atomic_swap_nbi(before, cell, (T)(me + 5), next);                       \
            shmem_quiet();                                                                         \
            shmem_ctx_##NAME##_atomic_fetch_add_nbi(ctx, before + 1, cell, (T)9, next);            \
            shmem_ctx_quiet(ctx);                                                                  \
            shmem_##NAME##_atomic_fetch_inc_nbi(before + 2, cell, next);                           \
            shmem_quiet();                                                                         \
            shmem_##NAME##_atomic_compare_swap_nbi(before + 3, cell, (T)(me + 15), (T)7, next);    \
            shmem_quiet();                                                                         \
            shmem_ctx_##NAME##_atomic_fetch_nbi(ctx, before + 4, cell, next);                      \
            shmem_ctx_quiet(ctx);                                                                  \
        } else {                                                                                   \
            before[1] = (T)(me + 5);                                                               \
            before[2] = (T)(me + 14);                                                              \
            before[3] = (T)(me + 15);                                                              \
            before[4] = 7;                                                                         \
            shmem_##NAME##_p(cell, (T)7, next);                                                    \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
        SUM(T, before, sum);                                                                       \
        SUM(T, mine, sum);                                                                         \
        result("nbi", #NAME, sum);                                                                 \
    }
LATER_TYPES(ARITHMETIC)
SIGNED_TYPES(NBI)
UNSIGNED_TYPES(NBI)
LATER_TYPES(NBI)

static void signals(void)
{
    static uint64_t arrived; /* symmetric */
    const long data[] = {me + 1, me + 2, me + 3};
    uint64_t *to = block_of(next);
    double sum = 0;

    if (asymmetric) {
        shmem_long_put_signal((long *)to + 1, data, 3, to, 5, SHMEM_SIGNAL_SET, next);
        shmem_ctx_putmem_signal(ctx, to + 4, data, sizeof(data), to, 2, SHMEM_SIGNAL_ADD, next);
        shmem_put64_signal_nbi(to + 7, data, 3, &arrived, 3, SHMEM_SIGNAL_ADD, next);
        shmem_long_put_signal_nbi((long *)to + 10, data, 3, to, 4, SHMEM_SIGNAL_ADD, next);
    } else {
        for (int i = 1; i <= 10; i += 3)
            shmem_long_put((long *)to + i, data, 3, next);
        shmem_uint64_p(to, 11, next);
        shmem_uint64_p(&arrived, 3, next);
    }
    shmem_barrier_all();
    SUM(uint64_t, mine, sum);
    result("signals", "put", sum);
    result("signals", "symmetric", (double)arrived);
}
#endif

/* A number goes around the PEs once: each waits for it in its own memory, and puts it into the
 * next's, behind data that a fence keeps before it. */
#define WAITS(NAME, T)                                                                             \
    static void waits_##NAME(void)                                                                 \
    {                                                                                              \
        volatile T *flag = (volatile T *)(void *)mine;                                             \
        T *to = block_of(next), data[4] = {1, 2, 3, 4}, go = (T)9;                                 \
        double sum = 0;                                                                            \
                                                                                                   \
        if (me == 0) {                                                                             \
            shmem_putmem(to + 4, data, sizeof(data), next);                                        \
            shmem_fence();                                                                         \
            shmem_putmem(to, &go, sizeof(go), next);                                               \
        }                                                                                          \
        for (int i = 0; i < 100 && !shmem_##NAME##_test(flag, SHMEM_CMP_GE, (T)9); i++)            \
            sched_yield(); /* Debian 12's wait does not progress */                                \
        shmem_##NAME##_wait_until(flag, SHMEM_CMP_EQ, (T)9);                                       \
        SUM(T, mine, sum);                                                                         \
        sum += shmem_##NAME##_test(flag, SHMEM_CMP_GT, (T)8);                                      \
        sum += 2 * shmem_##NAME##_test(flag, SHMEM_CMP_NE, (T)9);                                  \
        if (me != 0) {                                                                             \
            shmem_putmem(to + 4, (T *)(void *)mine + 4, sizeof(data), next);                       \
            shmem_ctx_fence(SHMEM_CTX_DEFAULT);                                                    \
            shmem_putmem(to, &go, sizeof(go), next);                                               \
        }                                                                                          \
        result("wait", #NAME, sum);                                                                \
    }

WAIT_TYPES(WAITS)

/* Memory of shmemx_alloc(), another PE's by a pointer or by put and get: 0, or what is wrong. Every
 * PE allocates another length. */
static double allocated_memory(void)
{
    static uint64_t where[MAX_PES]; /* symmetric */
    int before = (me + n_pes - 1) % n_pes, wrong = 0;
    long *own, *theirs, *pointer, *again, seen = 0;

    if (!asymmetric)
        return 0;
    own = shmemx_alloc((size_t)(me + 2) * sizeof(*own));
    if (!own || own[1] != 0)
        fail("no memory of shmemx_alloc()");
    shmem_uint64_p(&where[me], (uintptr_t)own, before);
    shmem_barrier_all();
    theirs = (long *)(uintptr_t)where[next];
    pointer = shmem_ptr(theirs, next);
    again = shmem_ptr(theirs + 1, next);
    wrong |= !getenv("NO_CMA") != !!pointer; /* mapped only without UCX, which NO_CMA comes with */
    wrong |= (pointer && again != pointer + 1) << 1;
    if (pointer)
        pointer[1] = 500 + me;
    else
        shmem_long_p(theirs + 1, 500 + me, next);
    shmem_getmem(&seen, theirs + 1, sizeof(seen), next);
    wrong |= (seen != 500 + me) << 2;
    shmem_barrier_all();
    wrong |= (own[1] != 500 + before) << 3;
    wrong |= (shmem_ptr(own, me) != own) << 4;
    wrong |= (shmemx_free(own + 1) == 0) << 5;
    wrong |= (shmemx_free(own) != 0) << 6;
    shmem_barrier_all();
    wrong |= (shmem_ptr(theirs, next) != NULL) << 7;   /* no longer registered */
    wrong |= (pointer && pointer[1] != 500 + me) << 8; /* still mapped */
    return wrong;
}

/* Addresses: accessibility, pointers, and the type-generic names. */
static void addresses(void)
{
    long *to = block_of(next), here, value = 31 + me;

    shmem_put(to, &value, 1, next);
    shmem_barrier_all();
    here = shmem_g((long *)block_of(me), me);
    result("addresses", "generic", (double)here);
    result("addresses", "accessible", shmem_addr_accessible(to, next) != 0);
    result("addresses", "inaccessible", shmem_addr_accessible(&here, next) != 0);
    result("addresses", "pointer", shmem_ptr(mine, me) == (void *)mine);
    result("addresses", "allocated", allocated_memory());
}

#define RUN(NAME)                                                                                  \
    go_on();                                                                                       \
    NAME();

static void run_all(void)
{
#define RUN_RMA(NAME, T)            RUN(rma_##NAME)
#define RUN_SIZES(BITS)             RUN(blocks_##BITS) RUN(strided_##BITS)
#define RUN_FETCHES(NAME, T)        RUN(fetches_##NAME)
#define RUN_ARITHMETIC(NAME, T)     RUN(arithmetic_##NAME)
#define RUN_BITWISE(NAME, T)        RUN(bitwise_##NAME)
#define RUN_OLD_FETCHES(NAME, T)    RUN(old_fetches_##NAME)
#define RUN_OLD_ARITHMETIC(NAME, T) RUN(old_arithmetic_##NAME)
#define RUN_WAITS(NAME, T)          RUN(waits_##NAME)
    RMA_TYPES(RUN_RMA)
    RUN(blocks_mem)
    RMA_SIZES(RUN_SIZES)
    SIGNED_TYPES(RUN_FETCHES)
    UNSIGNED_TYPES(RUN_FETCHES)
    FLOAT_TYPES(RUN_FETCHES)
    SIGNED_TYPES(RUN_ARITHMETIC)
    UNSIGNED_TYPES(RUN_ARITHMETIC)
    SIGNED_TYPES(RUN_BITWISE)
    UNSIGNED_TYPES(RUN_BITWISE)
    WIDTH_TYPES(RUN_BITWISE)
    SIGNED_TYPES(RUN_OLD_FETCHES)
    FLOAT_TYPES(RUN_OLD_FETCHES)
    SIGNED_TYPES(RUN_OLD_ARITHMETIC)
    WAIT_TYPES(RUN_WAITS)
#ifdef SHMEM_SIGNAL_SET
#define RUN_NBI(NAME, T) RUN(nbi_##NAME)
    LATER_TYPES(RUN_FETCHES)
    LATER_TYPES(RUN_ARITHMETIC)
    SIGNED_TYPES(RUN_NBI)
    UNSIGNED_TYPES(RUN_NBI)
    LATER_TYPES(RUN_NBI)
    RUN(signals)
#endif
    RUN(addresses)
}

void run_calls(void)
{
    block = block_alloc(MAX_RESULTS * CELLS * 16);
    run_all();
    shmem_barrier_all();
    if (me == 0)
        result_of_all("total", (double)total);
    if (asymmetric && shmemx_unregister(block.mine + 8) == 0)
        fail("only from its beginning a registration ends");
    block_free(&block);
}
