/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives of <shmem.h>. The PEs of the active set first agree whether source and
 * destination are symmetric in all of them; if so, the OpenSHMEM's own collective runs. Otherwise
 * every PE publishes the address of its source in symmetric memory; a barrier; each PE gets what it
 * needs into its own destination; a barrier. So a source is registered, or symmetric in all PEs of
 * the set, and a destination may be any memory.
 *
 * The barriers are the OpenSHMEM's, with the caller's pSync, which each leaves free for the next.
 */
#include <pshmem.h>
#include <shmem.h>

#include <complex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asym.h"
#include "types.h"

/* A PE's part in a collective, which the others read. */
struct part {
    uint64_t source, n; /* address, elements */
    int symmetric;
};

static struct part *parts; /* symmetric: the own one */
/* Symmetric: each PE's last word on its addresses, in two places by turns. A PE sends the next word
 * only after this PE's answer, so this PE has read the word of two turns ago. */
static uint64_t *words;
static uint64_t *turns; /* with each PE, so far */
/* One collective of a PE at a time. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void collectives_begin(void)
{
    size_t n_pes = (size_t)pshmem_n_pes();

    parts = pshmem_malloc(sizeof(*parts));
    words = pshmem_malloc(2 * n_pes * sizeof(*words));
    turns = calloc(n_pes, sizeof(*turns));
    if (!parts || !words || !turns)
        asym_die("shmem_init", "asymmetric memory", "out of memory");
    memset(words, 0, 2 * n_pes * sizeof(*words)); /* a barrier follows */
}

void collectives_end(void)
{
    free(turns);
    pshmem_free(words);
    words = NULL;
    pshmem_free(parts);
}

/* A collective in flight: PEs first, first + step, ... */
struct call {
    const char *name;
    const void *source;
    size_t size; /* of an element */
    int first, log_step, n_pes;
    long *sync;
};

static int pe_of(const struct call *c, int member)
{
    return c->first + (member << c->log_step);
}

static int own_number(const struct call *c)
{
    return (pshmem_my_pe() - c->first) >> c->log_step;
}

/* Whether `mine` holds in all PEs of the set: each sends its own to every other. */
static bool all_say(const struct call *c, bool mine)
{
    int me = pshmem_my_pe(), n_pes = pshmem_n_pes();
    bool all = mine;

    for (int i = 0; i < c->n_pes; i++) {
        int pe = pe_of(c, i);
        if (pe == me)
            continue;
        turns[pe]++;
        pshmem_uint64_p(&words[turns[pe] % 2 * (uint64_t)n_pes + (uint64_t)me],
                        2 * turns[pe] + mine, pe);
    }
    for (int i = 0; i < c->n_pes; i++) {
        int pe = pe_of(c, i);
        uint64_t *word = &words[turns[pe] % 2 * (uint64_t)n_pes + (uint64_t)pe];
        if (pe == me)
            continue;
        pshmem_uint64_wait_until(word, SHMEM_CMP_GE, 2 * turns[pe]);
        all = all && *(volatile uint64_t *)word % 2;
    }
    return all;
}

/* Ends the job if the set has a PE that the job has not, before anybody waits for it. */
static void check_set(const struct call *c)
{
    int most = pshmem_n_pes();
    char set[112];

    if (c->first >= 0 && c->n_pes >= 1 && c->log_step >= 0 && c->log_step < 31 &&
        c->first + ((int64_t)(c->n_pes - 1) << c->log_step) < most)
        return;
    snprintf(set, sizeof(set), "the active set PE_start %d, logPE_stride %d, PE_size %d", c->first,
             c->log_step, c->n_pes);
    asym_die(c->name, set, "does not fit the PEs of the job");
}

/* Whether the OpenSHMEM's own call suffices; if not, returns with the mutex held. A PE that takes
 * no part may pass NULL. */
static bool all_symmetric(const struct call *c, const void *dest)
{
    int me = pshmem_my_pe();
    bool all;

    if (!words) /* before shmem_init() */
        return true;
    check_set(c);
    pthread_mutex_lock(&mutex);
    all = all_say(c,
                  (!dest || is_symmetric(dest, me)) && (!c->source || is_symmetric(c->source, me)));
    if (all)
        pthread_mutex_unlock(&mutex);
    return all;
}

static void begin_call(const struct call *c, size_t n)
{
    int me = pshmem_my_pe();

    if (!is_symmetric(c->sync, me))
        asym_die(c->name, "pSync", "is not symmetric");
    *parts = (struct part){.source = (uintptr_t)c->source,
                           .n = n,
                           .symmetric = c->source && is_symmetric(c->source, me)};
    pshmem_barrier(c->first, c->log_step, c->n_pes, c->sync);
}

static void end_call(const struct call *c)
{
    asym_quiet(c->name);
    pshmem_barrier(c->first, c->log_step, c->n_pes, c->sync);
    pthread_mutex_unlock(&mutex);
}

static struct part part_of(const struct call *c, int member)
{
    struct part p;

    pshmem_getmem(&p, parts, sizeof(p), pe_of(c, member));
    return p;
}

/* n elements of a member's source, from element `at` on, `from_step` apart, to places `to_step`
 * apart; there after asym_quiet(). This PE's address of symmetric memory names it at every PE. */
static void fetch_elements(const struct call *c, int member, const struct part *p, size_t at,
                           ptrdiff_t from_step, char *to, ptrdiff_t to_step, size_t n)
{
    int pe = pe_of(c, member);
    const char *from = (const char *)(p->symmetric ? (uintptr_t)c->source : (uintptr_t)p->source);
    size_t size = c->size;

    from += at * size;
    if (!p->symmetric && to_step == 1 && from_step == 1)
        asym_nbi(c->name, false, from, to, n, size, pe);
    else if (!p->symmetric)
        asym_get(c->name, to, from, to_step, from_step, n, size, pe);
    else if (!is_symmetric(c->source, pshmem_my_pe()))
        asym_die(c->name, "the source", "is symmetric in some PEs and not in others");
    else if (to_step == 1 && from_step == 1)
        pshmem_getmem(to, from, n * size, pe);
    else
        for (ptrdiff_t i = 0; i < (ptrdiff_t)n; i++)
            pshmem_getmem(to + i * to_step * (ptrdiff_t)size,
                          from + i * from_step * (ptrdiff_t)size, size, pe);
}

static void broadcast_asym(const struct call *c, char *dest, size_t n, int root)
{
    begin_call(c, n);
    if (own_number(c) != root && n) {
        struct part p = part_of(c, root);
        fetch_elements(c, root, &p, 0, 1, dest, 1, n);
    }
    end_call(c);
}

/* Of n elements each, or of each PE's own number. */
static void collect_asym(const struct call *c, char *dest, size_t n)
{
    begin_call(c, n);
    for (int member = 0; member < c->n_pes; member++) {
        struct part p = part_of(c, member);
        if (p.n)
            fetch_elements(c, member, &p, 0, 1, dest, 1, p.n);
        dest += p.n * c->size;
    }
    end_call(c);
}

static void alltoall_asym(const struct call *c, char *dest, ptrdiff_t dest_step,
                          ptrdiff_t source_step, size_t n)
{
    size_t at = (size_t)own_number(c) * n * (size_t)source_step,
           apart = n * (size_t)dest_step * c->size;

    begin_call(c, n);
    for (int member = 0; n && member < c->n_pes; member++) {
        struct part p = part_of(c, member);
        fetch_elements(c, member, &p, at, source_step, dest + (size_t)member * apart, dest_step, n);
    }
    end_call(c);
}

/* The result of all PEs' elements in their order, for the caller to copy when the collective has
 * ended, and to free: a destination may be the source. */
static void *reduce_asym(const struct call *c, size_t n,
                         void (*combine)(void *so_far, const void *next, size_t n))
{
    char *so_far = malloc(2 * n * c->size + 1), *next;

    if (!so_far)
        asym_die(c->name, "asymmetric memory", "out of memory");
    next = so_far + n * c->size;
    begin_call(c, n);
    for (int member = 0; n && member < c->n_pes; member++) {
        struct part p = part_of(c, member);
        fetch_elements(c, member, &p, 0, 1, member ? next : so_far, 1, n);
        asym_quiet(c->name);
        if (member)
            combine(so_far, next, n);
    }
    end_call(c);
    return so_far;
}

/* ---- The calls ---- */

#define SET int first, int log_step, int n_pes, long *sync
#define CALL(SIZE)                                                                                 \
    {                                                                                              \
        __func__, source, SIZE, first, log_step, n_pes, sync                                       \
    }

#define BARE(...) __VA_ARGS__

#define COLLECTIVE(NAME, SIZE, PARAMS, ARGS, ASYM)                                                 \
    void shmem_##NAME(void *dest, const void *source, BARE PARAMS, SET)                            \
    {                                                                                              \
        struct call c = CALL(SIZE);                                                                \
                                                                                                   \
        if (all_symmetric(&c, dest))                                                               \
            pshmem_##NAME(dest, source, BARE ARGS, first, log_step, n_pes, sync);                  \
        else                                                                                       \
            ASYM;                                                                                  \
    }

#define BLOCKS(BITS)                                                                               \
    COLLECTIVE(broadcast##BITS, BITS / 8, (size_t n, int root), (n, root),                         \
               broadcast_asym(&c, dest, n, root))                                                  \
    COLLECTIVE(collect##BITS, BITS / 8, (size_t n), (n), collect_asym(&c, dest, n))                \
    COLLECTIVE(fcollect##BITS, BITS / 8, (size_t n), (n), collect_asym(&c, dest, n))               \
    COLLECTIVE(alltoall##BITS, BITS / 8, (size_t n), (n), alltoall_asym(&c, dest, 1, 1, n))        \
    COLLECTIVE(alltoalls##BITS, BITS / 8, (ptrdiff_t dest_step, ptrdiff_t source_step, size_t n),  \
               (dest_step, source_step, n), alltoall_asym(&c, dest, dest_step, source_step, n))

BLOCKS(32)
BLOCKS(64)

#define REDUCTION(NAME, T, OP, RESULT)                                                             \
    static void NAME##_##OP(void *so_far, const void *next, size_t n)                              \
    {                                                                                              \
        const T *ys = next;                                                                        \
        T *xs = so_far;                                                                            \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            const T x = xs[i], y = ys[i];                                                          \
            xs[i] = (T)(RESULT);                                                                   \
        }                                                                                          \
    }                                                                                              \
    void shmem_##NAME##_##OP##_to_all(T *dest, const T *source, int n, SET_WITH_WORK(T))           \
    {                                                                                              \
        struct call c = CALL(sizeof(T));                                                           \
        void *result;                                                                              \
                                                                                                   \
        if (all_symmetric(&c, dest)) {                                                             \
            pshmem_##NAME##_##OP##_to_all(dest, source, n, first, log_step, n_pes, work, sync);    \
        } else {                                                                                   \
            result = reduce_asym(&c, (size_t)n, NAME##_##OP);                                      \
            memcpy(dest, result, (size_t)n * sizeof(T));                                           \
            free(result);                                                                          \
        }                                                                                          \
    }
#define SET_WITH_WORK(T) int first, int log_step, int n_pes, T *work, long *sync

#define ARITHMETIC(NAME, T)                                                                        \
    REDUCTION(NAME, T, sum, x + y)                                                                 \
    REDUCTION(NAME, T, prod, x *y)
#define ORDER(NAME, T)                                                                             \
    REDUCTION(NAME, T, min, y < x ? y : x)                                                         \
    REDUCTION(NAME, T, max, y > x ? y : x)
#define BITS(NAME, T)                                                                              \
    REDUCTION(NAME, T, and, x &y)                                                                  \
    REDUCTION(NAME, T, or, x | y)                                                                  \
    REDUCTION(NAME, T, xor, x ^ y)

REDUCED_INTEGERS(ARITHMETIC)
REDUCED_INTEGERS(ORDER)
REDUCED_INTEGERS(BITS)
REDUCED_REALS(ARITHMETIC)
REDUCED_REALS(ORDER)
ARITHMETIC(complexf, float complex)
ARITHMETIC(complexd, double complex)
