/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls of <shmem.h> that take the address of another PE's memory, each as the OpenSHMEM's own
 * (pshmem_...) if the address is symmetric, else by asym.c. A list of types makes the calls of a
 * class; each exists with a context and without. The compiler holds them against the declarations
 * of shmem.h.
 *
 * Wait and test need nothing here: they look at memory of the calling PE.
 */
#include <pshmem.h>
#include <shmem.h>

#include "asym.h"
#include "types.h"

#define BARE(...) __VA_ARGS__

/* shmem_NAME and shmem_ctx_NAME: PARAMS and ARGS in parentheses; REMOTE is the address to test,
 * ASYM the code for one that is not symmetric, with the name in `call`. */
#define CALL(NAME, PARAMS, ARGS, REMOTE, ASYM)                                                     \
    void shmem_##NAME(BARE PARAMS)                                                                 \
    {                                                                                              \
        static const char call[] = "shmem_" #NAME;                                                 \
                                                                                                   \
        if (is_symmetric(REMOTE, pe))                                                              \
            pshmem_##NAME(BARE ARGS);                                                              \
        else                                                                                       \
            ASYM;                                                                                  \
    }
#define CALL_OF(T, NAME, PARAMS, ARGS, REMOTE, ASYM)                                               \
    T shmem_##NAME(BARE PARAMS)                                                                    \
    {                                                                                              \
        static const char call[] = "shmem_" #NAME;                                                 \
        T result;                                                                                  \
                                                                                                   \
        if (is_symmetric(REMOTE, pe))                                                              \
            return pshmem_##NAME(BARE ARGS);                                                       \
        ASYM;                                                                                      \
        return result;                                                                             \
    }
#define BOTH(NAME, PARAMS, ARGS, REMOTE, ASYM)                                                     \
    CALL(NAME, PARAMS, ARGS, REMOTE, ASYM)                                                         \
    CALL(ctx_##NAME, (shmem_ctx_t ctx, BARE PARAMS), (ctx, BARE ARGS), REMOTE, ASYM)
#define BOTH_OF(T, NAME, PARAMS, ARGS, REMOTE, ASYM)                                               \
    CALL_OF(T, NAME, PARAMS, ARGS, REMOTE, ASYM)                                                   \
    CALL_OF(T, ctx_##NAME, (shmem_ctx_t ctx, BARE PARAMS), (ctx, BARE ARGS), REMOTE, ASYM)

/* ---- Puts and gets ---- */

/* Blocks of elements of type T, or void, and of `size` bytes. */
#define BLOCKS(T, PUT, GET, size)                                                                  \
    BOTH(PUT, (T * to, const T *from, size_t n, int pe), (to, from, n, pe), to,                    \
         asym_put(call, to, from, 1, 1, n, size, pe))                                              \
    BOTH(PUT##_nbi, (T * to, const T *from, size_t n, int pe), (to, from, n, pe), to,              \
         asym_nbi(call, true, to, from, n, size, pe))                                              \
    BOTH(GET, (T * to, const T *from, size_t n, int pe), (to, from, n, pe), from,                  \
         asym_get(call, to, from, 1, 1, n, size, pe))                                              \
    BOTH(GET##_nbi, (T * to, const T *from, size_t n, int pe), (to, from, n, pe), from,            \
         asym_nbi(call, false, from, to, n, size, pe))

#define STRIDED(T, PUT, GET, size)                                                                 \
    BOTH(PUT,                                                                                      \
         (T * to, const T *from, ptrdiff_t to_stride, ptrdiff_t from_stride, size_t n, int pe),    \
         (to, from, to_stride, from_stride, n, pe), to,                                            \
         asym_put(call, to, from, to_stride, from_stride, n, size, pe))                            \
    BOTH(GET,                                                                                      \
         (T * to, const T *from, ptrdiff_t to_stride, ptrdiff_t from_stride, size_t n, int pe),    \
         (to, from, to_stride, from_stride, n, pe), from,                                          \
         asym_get(call, to, from, to_stride, from_stride, n, size, pe))

#define RMA(NAME, T)                                                                               \
    BOTH(NAME##_p, (T * to, T value, int pe), (to, value, pe), to,                                 \
         asym_put(call, to, &value, 1, 1, 1, sizeof(T), pe))                                       \
    BOTH_OF(T, NAME##_g, (const T *from, int pe), (from, pe), from,                                \
            asym_get(call, &result, from, 1, 1, 1, sizeof(T), pe))                                 \
    BLOCKS(T, NAME##_put, NAME##_get, sizeof(T))                                                   \
    STRIDED(T, NAME##_iput, NAME##_iget, sizeof(T))

RMA_TYPES(RMA)

#define RMA_SIZE(BITS)                                                                             \
    BLOCKS(void, put##BITS, get##BITS, BITS / 8)                                                   \
    STRIDED(void, iput##BITS, iget##BITS, BITS / 8)

RMA_SIZES(RMA_SIZE)
BLOCKS(void, putmem, getmem, 1)

/* ---- Atomics ---- */

#define AMO(OP, value, compare, before)                                                            \
    asym_atomic(call, OP, addr, sizeof(*addr), value, compare, before, pe)

/* The calls of a class; DEFINE is BOTH and BOTH_OF, or CALL and CALL_OF for names of before
 * OpenSHMEM 1.4, which know no context. */
#define FETCHES(DEFINE, T, FETCH, SET, SWAP)                                                       \
    DEFINE##_OF(T, FETCH, (const T *addr, int pe), (addr, pe), addr,                               \
                AMO(OP_FETCH, NULL, NULL, &result))                                                \
        DEFINE(SET, (T * addr, T value, int pe), (addr, value, pe), addr,                          \
               AMO(OP_SET, &value, NULL, NULL))                                                    \
            DEFINE##_OF(T, SWAP, (T * addr, T value, int pe), (addr, value, pe), addr,             \
                        AMO(OP_SET, &value, NULL, &result))
#define ARITHMETIC(DEFINE, T, ADD, FETCH_ADD, INC, FETCH_INC, COMPARE_SWAP)                        \
    DEFINE(ADD, (T * addr, T value, int pe), (addr, value, pe), addr,                              \
           AMO(OP_ADD, &value, NULL, NULL))                                                        \
    DEFINE##_OF(T, FETCH_ADD, (T * addr, T value, int pe), (addr, value, pe), addr,                \
                AMO(OP_ADD, &value, NULL, &result))                                                \
        DEFINE(INC, (T * addr, int pe), (addr, pe), addr, AMO(OP_ADD, &(T){1}, NULL, NULL))        \
            DEFINE##_OF(T, FETCH_INC, (T * addr, int pe), (addr, pe), addr,                        \
                        AMO(OP_ADD, &(T){1}, NULL, &result))                                       \
                DEFINE##_OF(T, COMPARE_SWAP, (T * addr, T compare, T value, int pe),               \
                            (addr, compare, value, pe), addr,                                      \
                            AMO(OP_COMPARE_SWAP, &value, &compare, &result))
#define BITWISE(T, PLAIN, FETCHING, OP)                                                            \
    BOTH(PLAIN, (T * addr, T value, int pe), (addr, value, pe), addr, AMO(OP, &value, NULL, NULL)) \
    BOTH_OF(T, FETCHING, (T * addr, T value, int pe), (addr, value, pe), addr,                     \
            AMO(OP, &value, NULL, &result))

#define ATOMIC_FETCHES(NAME, T)                                                                    \
    FETCHES(BOTH, T, NAME##_atomic_fetch, NAME##_atomic_set, NAME##_atomic_swap)
#define ATOMIC_ARITHMETIC(NAME, T)                                                                 \
    ATOMIC_FETCHES(NAME, T)                                                                        \
    ARITHMETIC(BOTH, T, NAME##_atomic_add, NAME##_atomic_fetch_add, NAME##_atomic_inc,             \
               NAME##_atomic_fetch_inc, NAME##_atomic_compare_swap)
#define ATOMIC_BITWISE(NAME, T)                                                                    \
    BITWISE(T, NAME##_atomic_and, NAME##_atomic_fetch_and, OP_AND)                                 \
    BITWISE(T, NAME##_atomic_or, NAME##_atomic_fetch_or, OP_OR)                                    \
    BITWISE(T, NAME##_atomic_xor, NAME##_atomic_fetch_xor, OP_XOR)
#define OLD_FETCHES(NAME, T) FETCHES(CALL, T, NAME##_fetch, NAME##_set, NAME##_swap)
#define OLD_ARITHMETIC(NAME, T)                                                                    \
    OLD_FETCHES(NAME, T)                                                                           \
    ARITHMETIC(CALL, T, NAME##_add, NAME##_fadd, NAME##_inc, NAME##_finc, NAME##_cswap)

SIGNED_TYPES(ATOMIC_ARITHMETIC)
UNSIGNED_TYPES(ATOMIC_ARITHMETIC)
FLOAT_TYPES(ATOMIC_FETCHES)
SIGNED_TYPES(ATOMIC_BITWISE)
UNSIGNED_TYPES(ATOMIC_BITWISE)
WIDTH_TYPES(ATOMIC_BITWISE)
SIGNED_TYPES(OLD_ARITHMETIC)
FLOAT_TYPES(OLD_FETCHES)

#ifdef SHMEM_SIGNAL_SET /* Open MPI 5 has these calls of OpenSHMEM 1.5 */

LATER_TYPES(ATOMIC_ARITHMETIC)

/* Nothing is in flight when they return. */
#define NBI_FETCHES(NAME, T)                                                                       \
    BOTH(NAME##_atomic_fetch_nbi, (T * before, const T *addr, int pe), (before, addr, pe), addr,   \
         AMO(OP_FETCH, NULL, NULL, before))                                                        \
    BOTH(NAME##_atomic_swap_nbi, (T * before, T * addr, T value, int pe),                          \
         (before, addr, value, pe), addr, AMO(OP_SET, &value, NULL, before))
#define NBI_ARITHMETIC(NAME, T)                                                                    \
    NBI_FETCHES(NAME, T)                                                                           \
    BOTH(NAME##_atomic_fetch_add_nbi, (T * before, T * addr, T value, int pe),                     \
         (before, addr, value, pe), addr, AMO(OP_ADD, &value, NULL, before))                       \
    BOTH(NAME##_atomic_fetch_inc_nbi, (T * before, T * addr, int pe), (before, addr, pe), addr,    \
         AMO(OP_ADD, &(T){1}, NULL, before))                                                       \
    BOTH(NAME##_atomic_compare_swap_nbi, (T * before, T * addr, T compare, T value, int pe),       \
         (before, addr, compare, value, pe), addr, AMO(OP_COMPARE_SWAP, &value, &compare, before))
#define NBI_BITWISE_OF(T, FETCHING, OP)                                                            \
    BOTH(FETCHING, (T * before, T * addr, T value, int pe), (before, addr, value, pe), addr,       \
         AMO(OP, &value, NULL, before))
#define NBI_BITWISE(NAME, T)                                                                       \
    NBI_BITWISE_OF(T, NAME##_atomic_fetch_and_nbi, OP_AND)                                         \
    NBI_BITWISE_OF(T, NAME##_atomic_fetch_or_nbi, OP_OR)                                           \
    NBI_BITWISE_OF(T, NAME##_atomic_fetch_xor_nbi, OP_XOR)

SIGNED_TYPES(NBI_ARITHMETIC)
UNSIGNED_TYPES(NBI_ARITHMETIC)
LATER_TYPES(NBI_ARITHMETIC)
FLOAT_TYPES(NBI_FETCHES)
UNSIGNED_TYPES(NBI_BITWISE)
WIDTH_TYPES(NBI_BITWISE)

/* A put and then an atomic on the signal, where not both addresses are symmetric. */
static void put_and_signal(const char *call, void *to, const void *from, size_t n, uint64_t *signal,
                           uint64_t value, int op, int pe)
{
    if (is_symmetric(to, pe))
        pshmem_putmem(to, from, n, pe);
    else
        asym_put(call, to, from, 1, 1, n, 1, pe);
    asym_quiet(call);
    pshmem_quiet();
    if (op == SHMEM_SIGNAL_SET)
        shmem_uint64_atomic_set(signal, value, pe);
    else
        shmem_uint64_atomic_add(signal, value, pe);
}

#define SIGNALLING(T, PUT, size)                                                                   \
    BOTH(PUT, (T * to, const T *from, size_t n, uint64_t *signal, uint64_t value, int op, int pe), \
         (to, from, n, signal, value, op, pe),                                                     \
         is_symmetric(signal, pe) ? (const void *)to : signal,                                     \
         put_and_signal(call, to, from, n *(size), signal, value, op, pe))
#define SIGNALS(T, PUT, size)                                                                      \
    SIGNALLING(T, PUT##_signal, size) SIGNALLING(T, PUT##_signal_nbi, size)
#define RMA_SIGNALS(NAME, T)   SIGNALS(T, NAME##_put, sizeof(T))
#define RMA_SIZE_SIGNALS(BITS) SIGNALS(void, put##BITS, BITS / 8)

RMA_TYPES(RMA_SIGNALS)
RMA_SIZES(RMA_SIZE_SIGNALS)
SIGNALS(void, putmem, 1)
#endif

/* ---- Life, order, addresses ---- */

void shmem_init(void)
{
    pshmem_init();
    asym_begin();
}

int shmem_init_thread(int requested, int *provided)
{
    int rc = pshmem_init_thread(requested, provided);

    if (rc == 0)
        asym_begin();
    return rc;
}

void start_pes(int npes)
{
    (void)npes; /* the standard: ignored */
    shmem_init();
}

void shmem_finalize(void)
{
    asym_end();
    pshmem_finalize();
}

/* What completes puts: on registered memory those of all contexts. Between the two kinds of memory
 * nothing but completion makes an order, so a fence is a quiet. */
#define COMPLETES(NAME, PARAMS, THEIRS)                                                            \
    void shmem_##NAME(BARE PARAMS)                                                                 \
    {                                                                                              \
        asym_quiet("shmem_" #NAME);                                                                \
        THEIRS;                                                                                    \
    }
COMPLETES(quiet, (void), pshmem_quiet())
COMPLETES(fence, (void), pshmem_quiet())
COMPLETES(ctx_quiet, (shmem_ctx_t ctx), pshmem_ctx_quiet(ctx))
COMPLETES(ctx_fence, (shmem_ctx_t ctx), pshmem_ctx_quiet(ctx))
COMPLETES(ctx_destroy, (shmem_ctx_t ctx), pshmem_ctx_destroy(ctx))
COMPLETES(barrier_all, (void), pshmem_barrier_all())
COMPLETES(barrier, (int first, int log_step, int n_pes, long *sync),
          pshmem_barrier(first, log_step, n_pes, sync))
COMPLETES(free, (void *memory), pshmem_free(memory)) /* a barrier */

void *shmem_ptr(const void *addr, int pe)
{
    return is_symmetric(addr, pe) ? pshmem_ptr(addr, pe) : asym_pointer(addr, pe);
}

int shmem_addr_accessible(const void *addr, int pe)
{
    return is_symmetric(addr, pe) ? pshmem_addr_accessible(addr, pe) : asym_accessible(addr, pe);
}
