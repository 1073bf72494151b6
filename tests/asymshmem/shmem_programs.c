/* SPDX-License-Identifier: BSD-3-Clause */
/* Small programs, one for each group of calls, in the manner of the examples in OpenSHMEM's
 * specification: each PE's result is the same on 2 or more PEs, in any order of events. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shmem_test.h"
#include "types.h"

static int before; /* the PE whose neighbour this one is */

/* Waits until *word, which others write, is at least this. A wait of Debian 12's OpenSHMEM does not
 * yield the processor, and a test makes no progress. */
static void await(long *word, long value)
{
    for (int i = 0; i < 100 && !shmem_long_test(word, SHMEM_CMP_GE, value); i++)
        sched_yield();
    shmem_long_wait_until(word, SHMEM_CMP_GE, value);
}

/* Every PE's number travels once around, a step at a time. */
static void rotation(void)
{
    struct block b = block_alloc(2 * sizeof(int));
    int *cell = (int *)(void *)b.mine, carried = me, steps = 0;

    do {
        shmem_int_p((int *)block_at(&b, next) + steps % 2, carried, next);
        shmem_barrier_all();
        carried = cell[steps % 2];
        steps++;
    } while (steps < n_pes);
    result("program", "rotation", 100 * steps + carried);
    block_free(&b);
}

/* PE 0 has an array, and gives it to all others in blocks. */
static void distribution(void)
{
    enum { N = 300 };
    struct block b = block_alloc(N * sizeof(double));
    const double *mine = (double *)(void *)b.mine;
    double source[N], sum = 0;

    for (int i = 0; i < N; i++)
        source[i] = 0.25 * i;
    for (int pe = 0; me == 0 && pe < n_pes; pe++) {
        shmem_double_put(block_at(&b, pe), source, N / 2, pe);
        shmem_putmem((double *)block_at(&b, pe) + N / 2, source + N / 2, N / 2 * sizeof(double),
                     pe);
    }
    shmem_barrier_all();
    for (int i = 0; i < N; i++)
        sum += mine[i];
    result("program", "distribution", sum);
    block_free(&b);
}

/* Each PE has more than the one before; PE 0 collects all of it with concurrent gets. */
static void gathering(void)
{
    enum { N = 40 };
    struct block b = block_alloc(N * MAX_PES * sizeof(long));
    long *mine = (long *)(void *)b.mine, all[MAX_PES * MAX_PES * N] = {0}, sum = 0;
    size_t at = 0;

    for (int i = 0; i < N * (me + 1); i++)
        mine[i] = 1000 * me + i;
    shmem_barrier_all();
    for (int pe = 0; me == 0 && pe < n_pes; pe++) {
        shmem_long_get_nbi(all + at, block_at(&b, pe), (size_t)N * (size_t)(pe + 1), pe);
        at += (size_t)N * (size_t)(pe + 1);
    }
    shmem_quiet();
    for (size_t i = 0; i < at; i++)
        sum = (31 * sum + all[i]) % 1000003;
    result("program", "gathering", (double)sum);
    block_free(&b);
}

/* Transposes a matrix: each PE has a row and gets a column, with strides on one side. */
static void transposition(void)
{
    struct block b = block_alloc(MAX_PES * MAX_PES * sizeof(int));
    const int *mine = (int *)(void *)b.mine;
    int row[MAX_PES * 2], column[MAX_PES], sum = 0;

    for (int i = 0; i < n_pes; i++)
        row[2 * i] = 10 * me + i;
    for (int pe = 0; pe < n_pes; pe++) /* this row is a column there */
        shmem_int_iput((int *)block_at(&b, pe) + me, row, n_pes, 2, (size_t)n_pes, pe);
    shmem_barrier_all();
    for (int i = 0; i < n_pes * n_pes; i++)
        sum = 7 * sum % 10007 + mine[i];
    shmem_int_iget(column, (int *)block_at(&b, next) + 1, 1, n_pes, (size_t)n_pes, next);
    for (int i = 0; i < n_pes; i++)
        sum += column[i];
    result("program", "transposition", sum);
    block_free(&b);
}

/* Concurrent puts to all PEs and one quiet; then each PE is notified that its own has arrived. */
static void scattering(void)
{
    struct block data = block_alloc(MAX_PES * sizeof(long)), told = block_alloc(sizeof(long));
    long values[MAX_PES], sum = 0;

    for (int pe = 0; pe < n_pes; pe++) {
        values[pe] = 100 * me + pe;
        shmem_long_put_nbi((long *)block_at(&data, pe) + me, &values[pe], 1, pe);
    }
    shmem_quiet();
    for (int pe = 0; pe < n_pes; pe++)
        shmem_long_atomic_inc(block_at(&told, pe), pe);
    await((long *)(void *)told.mine, n_pes);
    for (int i = 0; i < n_pes; i++)
        sum = 3 * sum + ((long *)(void *)data.mine)[i];
    result("program", "scattering", (double)sum);
    block_free(&told);
    block_free(&data);
}

/* Data, a fence, a signal: a PE that sees the signal sees the data. The neighbour answers in the
 * same way. */
static void signals(void)
{
    enum { N = 50, ROUNDS = 4 };
    struct block data = block_alloc(N * sizeof(long)), flags = block_alloc(2 * sizeof(long));
    long *mine = (long *)(void *)data.mine, *flag = (long *)(void *)flags.mine, values[N], sum = 0;

    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < N; i++)
            values[i] = 1000L * round + i + me;
        shmem_long_put(block_at(&data, next), values, N, next);
        shmem_fence();
        shmem_long_p(block_at(&flags, next), round, next);
        await(flag, round);
        for (int i = 0; i < N; i++)
            sum += mine[i] * (i + 1) % 13;
        shmem_long_atomic_set((long *)block_at(&flags, before) + 1, round, before);
        await(flag + 1, round); /* the neighbour has read */
    }
    result("program", "signals", (double)sum);
    block_free(&flags);
    block_free(&data);
}

/* PE 0's counter deals out pieces of an integral; the assignment varies, the sum does not. */
static void work_queue(void)
{
    enum { PIECES = 60 };
    struct block b = block_alloc(2 * sizeof(long));
    long *counter = block_at(&b, 0), piece, done = 0;

    while ((piece = shmem_long_atomic_fetch_inc(counter, 0)) < PIECES) {
        done++;
        shmem_long_atomic_add(counter + 1, piece * piece, 0);
    }
    shmem_barrier_all();
    shmem_long_atomic_add(counter, done, 0); /* and has been drawn from once too often by each */
    shmem_barrier_all();
    result("program", "work queue", (double)shmem_long_g(counter + 1, 0));
    result("program", "work drawn", (double)(shmem_long_g(counter, 0) - n_pes));
    block_free(&b);
}

/* One PE finds the cell empty; each swaps its number in elsewhere, and no number is lost. */
static void race(void)
{
    struct block b = block_alloc(3 * sizeof(long));
    long *cell = block_at(&b, 0), won, was;

    won = shmem_long_atomic_compare_swap(cell, 0, me + 1, 0) == 0;
    shmem_long_atomic_add(cell + 1, won, 0);
    was = shmem_long_atomic_swap(cell + 2, me + 1, 0);
    shmem_barrier_all();
    if (me == 0)
        shmem_long_atomic_set(cell, 0, 0);
    shmem_barrier_all();
    shmem_long_atomic_add(cell, was, 0);
    shmem_barrier_all();
    /* The numbers swapped out and the last one in the cell are all numbers, once each. */
    result("program", "race", (double)shmem_long_g(cell + 1, 0));
    result("program", "swaps",
           (double)(shmem_long_atomic_fetch(cell, 0) + shmem_long_atomic_fetch(cell + 2, 0)));
    block_free(&b);
}

/* Each PE sets its bit in every PE's word, and waits until all have. */
static void bits(void)
{
    struct block b = block_alloc(sizeof(unsigned long));
    unsigned long all = (1UL << n_pes) - 1;

    for (int pe = 0; pe < n_pes; pe++)
        shmem_ulong_atomic_or(block_at(&b, pe), 1UL << me, pe);
    await((long *)(void *)b.mine, (long)all);
    shmem_barrier_all();
    shmem_ulong_atomic_xor(block_at(&b, next), all << 8, next);
    shmem_ulong_atomic_and(block_at(&b, next), ~1UL, next);
    shmem_barrier_all();
    result("program", "bits", (double)*(unsigned long *)(void *)b.mine);
    block_free(&b);
}

/* A histogram over bins that lie on all PEs. */
static void histogram(void)
{
    enum { BINS = 16, DRAWS = 100 };
    struct block b = block_alloc(BINS * sizeof(long));
    uint64_t random = 88172645463325252u + 1000003u * (uint64_t)me;
    long sum = 0;

    for (int i = 0; i < DRAWS; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        int pe = (int)(random / BINS % (uint64_t)n_pes);
        shmem_long_atomic_inc((long *)block_at(&b, pe) + random % BINS, pe);
    }
    shmem_barrier_all();
    for (int i = 0; i < BINS; i++)
        sum = (131 * sum + ((long *)(void *)b.mine)[i]) % 1000003;
    result("program", "histogram", (double)sum);
    block_free(&b);
}

/* Heat along a rod in integers: each PE has a piece, and its neighbours' ends beside it. */
static void heat(void)
{
    enum { N = 20, STEPS = 5 };
    struct block b = block_alloc(2 * (N + 2) * sizeof(long));
    long *rod[2] = {(long *)(void *)b.mine, (long *)(void *)b.mine + N + 2}, sum = 0;

    for (int i = 1; i <= N; i++)
        rod[0][i] = me == 0 && i == 1 ? 1 << 20 : 0;
    for (int step = 0; step < STEPS; step++) {
        long *now = rod[step % 2], *then = rod[1 - step % 2];
        ptrdiff_t at = now - (long *)(void *)b.mine;

        if (me > 0)
            shmem_long_p((long *)block_at(&b, me - 1) + at + N + 1, now[1], me - 1);
        if (me < n_pes - 1)
            shmem_long_p((long *)block_at(&b, me + 1) + at, now[N], me + 1);
        shmem_barrier_all();
        for (int i = 1; i <= N; i++)
            then[i] = (now[i - 1] + 2 * now[i] + now[i + 1]) / 4;
        shmem_barrier_all();
    }
    for (int i = 1; i <= N; i++)
        sum = (7 * sum + rod[STEPS % 2][i]) % 1000003;
    result("program", "heat", (double)sum);
    block_free(&b);
}

/* Sorting: neighbours compare their values, odd pairs and even ones in turn. */
static void sorting(void)
{
    struct block b = block_alloc(2 * sizeof(int));
    int *mine = (int *)(void *)b.mine, other;

    *mine = (me * 37 + 11) % 17;
    for (int phase = 0; phase < n_pes; phase++) {
        int partner = me % 2 == phase % 2 ? me + 1 : me - 1;

        shmem_barrier_all();
        if (partner >= 0 && partner < n_pes) {
            other = shmem_int_g(block_at(&b, partner), partner);
            mine[1] = (partner > me) == (other < *mine) ? other : *mine;
        } else {
            mine[1] = *mine;
        }
        shmem_barrier_all();
        *mine = mine[1];
    }
    result("program", "sorting", *mine);
    block_free(&b);
}

/* A stack of all PEs' nodes: PE 0 has its head, a node names the one below it. */
static void stack(void)
{
    enum { EACH = 5 };
    struct block head = block_alloc(sizeof(long)), nodes = block_alloc(EACH * sizeof(long));
    long *mine = (long *)(void *)nodes.mine, seen = 0, sum = 0, top, was;

    for (int i = 0; i < EACH; i++) {
        long name = 100L * (me + 1) + i;

        for (top = shmem_long_g(block_at(&head, 0), 0);; top = was) {
            mine[i] = top;
            was = shmem_long_atomic_compare_swap(block_at(&head, 0), top, name, 0);
            if (was == top)
                break;
        }
    }
    shmem_barrier_all();
    for (top = shmem_long_g(block_at(&head, 0), 0); top != 0; seen++) {
        int pe = (int)(top / 100) - 1;

        sum += top;
        top = shmem_long_g((long *)block_at(&nodes, pe) + top % 100, pe);
    }
    result("program", "stack", (double)(1000000 * seen + sum));
    block_free(&nodes);
    block_free(&head);
}

/* A symmetric lock around a non-atomic update. */
static void locking(void)
{
    static long lock;
    struct block b = block_alloc(2 * sizeof(long));
    long *pair = block_at(&b, n_pes - 1), values[2];

    for (int i = 0; i < 2; i++) {
        shmem_set_lock(&lock);
        shmem_long_get(values, pair, 2, n_pes - 1);
        values[0]++;
        values[1] += values[0];
        shmem_long_put(pair, values, 2, n_pes - 1);
        shmem_quiet();
        shmem_clear_lock(&lock);
    }
    shmem_barrier_all();
    result("program", "locking", (double)shmem_long_g(pair + 1, n_pes - 1));
    block_free(&b);
}

/* A context beside the default one, each with its own order and quiet. */
static void contexts(void)
{
    struct block b = block_alloc(2 * sizeof(long));
    const long *mine = (long *)(void *)b.mine;
    long values[2] = {10 + me, 20 + me};

    shmem_ctx_long_put_nbi(ctx, block_at(&b, next), values, 1, next);
    shmem_ctx_long_put_nbi(SHMEM_CTX_DEFAULT, (long *)block_at(&b, next) + 1, values + 1, 1, next);
    shmem_ctx_fence(ctx);
    shmem_ctx_quiet(ctx);
    shmem_ctx_quiet(SHMEM_CTX_DEFAULT);
    shmem_barrier_all();
    result("program", "contexts", (double)(1000 * mine[0] + mine[1]));
    block_free(&b);
}

#define WORK (SHMEM_REDUCE_MIN_WRKDATA_SIZE + MAX_PES)
static long sync_words[SHMEM_COLLECT_SYNC_SIZE + SHMEM_REDUCE_SYNC_SIZE + SHMEM_BCAST_SYNC_SIZE +
                       SHMEM_ALLTOALL_SYNC_SIZE];
static long work[WORK];
static long from[MAX_PES * 2], to[MAX_PES * MAX_PES * 2];

static void collected(const char *name, int n)
{
    long sum = 0;

    shmem_barrier_all();
    for (int i = 0; i < n; i++)
        sum = (31 * sum + to[i]) % 1000003;
    result("collective", name, (double)sum);
    memset(to, 0, sizeof(to));
    shmem_barrier_all();
}

/* On symmetric memory, filled from blocks by gets. */
static void collectives(void)
{
    struct block b = block_alloc(2 * MAX_PES * sizeof(long));
    size_t n = (size_t)n_pes;

    for (int i = 0; i < 2 * n_pes; i++)
        ((long *)(void *)b.mine)[i] = 100L * me + i;
    for (size_t i = 0; i < sizeof(sync_words) / sizeof(sync_words[0]); i++)
        sync_words[i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    shmem_long_get(from, block_at(&b, next), 2 * n, next);
    shmem_barrier_all();
    shmem_broadcast64(to, from, 2 * n, n_pes - 1, 0, 0, n_pes, sync_words);
    if (me == n_pes - 1) /* whose own memory a broadcast does not write */
        memcpy(to, from, 2 * n * sizeof(long));
    collected("broadcast", 2 * n_pes);
    shmem_fcollect64(to, from, 2, 0, 0, n_pes, sync_words);
    collected("fcollect", 2 * n_pes);
    shmem_collect64(to, from, (size_t)me % 2 + 1, 0, 0, n_pes, sync_words);
    collected("collect", n_pes + n_pes / 2);
    shmem_alltoall64(to, from, 2, 0, 0, n_pes, sync_words);
    collected("alltoall", 2 * n_pes);
    shmem_long_sum_to_all(to, from, n_pes, 0, 0, n_pes, work, sync_words);
    collected("sum", n_pes);
    shmem_long_max_to_all(to, from, n_pes, 0, 0, n_pes, work, sync_words);
    collected("max", n_pes);
    shmem_long_xor_to_all(to, from, n_pes, 0, 0, n_pes, work, sync_words);
    collected("xor", n_pes);
    block_free(&b);
}

/* ---- collectives on blocks ---- */

enum { PART = 5, CELLS = 2 * PART * MAX_PES };
static struct {
    int first, log_step, n_pes;
    bool mine;
    const char *name;
} set;
static struct block sources, dests;

#define SET   set.first, set.log_step, set.n_pes
#define OWN   ((void *)sources.mine)
#define THERE ((void *)dests.mine)

static void choose_set(const char *name, int first, int log_step, int n)
{
    set.first = first;
    set.log_step = log_step;
    set.n_pes = n;
    set.name = name;
    set.mine = me >= first && (me - first) % (1 << log_step) == 0 && (me - first) >> log_step < n;
}

/* Every PE calls both around a collective of the set. */
static void before_it(void)
{
    memset(dests.mine, 0, CELLS * sizeof(long));
    for (int i = 0; i < CELLS; i++)
        ((int *)OWN)[i] = 1000 * me + i;
    shmem_barrier_all();
}

static void after_it(const char *name)
{
    double sum = 0;
    char text[24];

    shmem_barrier_all();
    for (int i = 0; i < CELLS; i++)
        sum = sum * 0.875 + ((int *)THERE)[i];
    snprintf(text, sizeof(text), "%s %s", set.name, name);
    result("blocks", text, sum);
}

#define COLLECTIVE(name, call)                                                                     \
    do {                                                                                           \
        before_it();                                                                               \
        if (set.mine)                                                                              \
            call;                                                                                  \
        after_it(name);                                                                            \
    } while (0)

static void block_moves(void)
{
    size_t n = PART, some = (size_t)me % 3;

    COLLECTIVE("broadcast32", shmem_broadcast32(THERE, OWN, n, set.n_pes - 1, SET, sync_words));
    COLLECTIVE("broadcast64", shmem_broadcast64(THERE, OWN, n, 0, SET, sync_words));
    COLLECTIVE("collect32", shmem_collect32(THERE, OWN, some, SET, sync_words));
    COLLECTIVE("collect64", shmem_collect64(THERE, OWN, some + 1, SET, sync_words));
    COLLECTIVE("fcollect32", shmem_fcollect32(THERE, OWN, n, SET, sync_words));
    COLLECTIVE("fcollect64", shmem_fcollect64(THERE, OWN, n, SET, sync_words));
    COLLECTIVE("alltoall32", shmem_alltoall32(THERE, OWN, n, SET, sync_words));
    COLLECTIVE("alltoall64", shmem_alltoall64(THERE, OWN, n, SET, sync_words));
    COLLECTIVE("alltoalls32", shmem_alltoalls32(THERE, OWN, 2, 3, 2, SET, sync_words));
    COLLECTIVE("alltoalls64", shmem_alltoalls64(THERE, OWN, 1, 2, 2, SET, sync_words));
}

/* Small numbers, whose sums and products are exact in every type. */
#define REDUCE(NAME, T, OP, in_place)                                                              \
    do {                                                                                           \
        T *source = OWN, *dest = (in_place) ? OWN : THERE;                                         \
        static T pWrk[WORK];                                                                       \
                                                                                                   \
        for (int i = 0; i < PART; i++)                                                             \
            source[i] = (T)((me + i) % 3 + 1);                                                     \
        shmem_barrier_all();                                                                       \
        if (set.mine)                                                                              \
            shmem_##NAME##_##OP##_to_all(dest, source, PART, SET, pWrk, sync_words);               \
        shmem_barrier_all();                                                                       \
        for (int i = 0; i < PART; i++)                                                             \
            sum = sum * 0.875 + (double)dest[i];                                                   \
    } while (0)
#define ARITHMETIC(NAME, T)                                                                        \
    static void arithmetic_##NAME(void)                                                            \
    {                                                                                              \
        double sum = 0;                                                                            \
                                                                                                   \
        REDUCE(NAME, T, sum, false);                                                               \
        REDUCE(NAME, T, prod, true);                                                               \
        result("sum, prod", #NAME, sum);                                                           \
    }
#define ORDER(NAME, T)                                                                             \
    static void order_##NAME(void)                                                                 \
    {                                                                                              \
        double sum = 0;                                                                            \
                                                                                                   \
        REDUCE(NAME, T, min, true);                                                                \
        REDUCE(NAME, T, max, false);                                                               \
        result("min, max", #NAME, sum);                                                            \
    }
#define BITS(NAME, T)                                                                              \
    static void bits_##NAME(void)                                                                  \
    {                                                                                              \
        double sum = 0;                                                                            \
                                                                                                   \
        REDUCE(NAME, T, and, false);                                                               \
        REDUCE(NAME, T, or, true);                                                                 \
        REDUCE(NAME, T, xor, false);                                                               \
        result("and, or, xor", #NAME, sum);                                                        \
    }

REDUCED_INTEGERS(ARITHMETIC)
REDUCED_REALS(ARITHMETIC)
ARITHMETIC(complexf, float complex)
ARITHMETIC(complexd, double complex)
REDUCED_INTEGERS(ORDER)
REDUCED_REALS(ORDER)
REDUCED_INTEGERS(BITS)

#define RUN_ARITHMETIC(NAME, T) arithmetic_##NAME();
#define RUN_ORDER(NAME, T)      order_##NAME();
#define RUN_BITS(NAME, T)       bits_##NAME();

/* Destinations that some PEs have in symmetric memory and, with libasymshmem, others in memory of
 * their own. */
static void mixed_moves(void)
{
    const size_t bytes = CELLS * sizeof(long);
    char *own = malloc(bytes), *to = shmem_malloc(bytes);

    sources.mine = shmem_malloc(bytes);
    if (!own || !to || !sources.mine)
        fail("there is memory");
    for (int odd = 0; odd < 2; odd++) {
        dests.mine = shmemx_register && me % 2 == odd ? own : to;
        choose_set(odd ? "mix 1" : "mix 0", 0, 0, n_pes);
        block_moves();
    }
    shmem_barrier_all();
    shmem_free(sources.mine);
    shmem_free(to);
    free(own);
}

static void block_collectives(void)
{
    sources = block_alloc(CELLS * sizeof(long));
    dests = block_alloc(CELLS * sizeof(long));
    choose_set("all", 0, 0, n_pes);
    block_moves();
    REDUCED_INTEGERS(RUN_ARITHMETIC)
    REDUCED_REALS(RUN_ARITHMETIC)
    RUN_ARITHMETIC(complexf, )
    RUN_ARITHMETIC(complexd, )
    REDUCED_INTEGERS(RUN_ORDER)
    REDUCED_REALS(RUN_ORDER)
    REDUCED_INTEGERS(RUN_BITS)
    if (n_pes > 2)
        choose_set("odd", 1, 1, n_pes / 2);
    block_moves();
    block_free(&dests);
    block_free(&sources);
    mixed_moves();
}

void run_programs(void)
{
    before = (me + n_pes - 1) % n_pes;
    rotation();
    distribution();
    gathering();
    transposition();
    scattering();
    signals();
    work_queue();
    race();
    bits();
    histogram();
    heat();
    sorting();
    stack();
    locking();
    contexts();
    collectives();
    block_collectives();
}
