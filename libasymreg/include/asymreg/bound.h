/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file bound.h
 * @brief Handles bound to a region: put, get and atomics without a lookup.
 *
 * asymreg_bind() finds the region, checks the range, and takes the transport's key for the region's
 * segment (its registration with the transport). It does this once; an operation by address does it
 * each time. Permissions are checked in each operation, also through a handle.
 *
 *   - If the peer's memory is mapped here (a segment of shared memory, on one node), an operation
 *     through the handle is inlined: a check, a load or store, and a second check. In a handle of 4
 *     GiB or more, only operations on the first 4 GiB - 1 bytes are inlined. asymreg_bound_ptr()
 *     returns the memory itself, as shmem_ptr() and MPI_Win_shared_query() do.
 *   - Otherwise (CMA, files that could be shortened, networks, a peer with ASYMREG_DRAIN) the
 *     operation is one by address and identifier.
 *
 * A handle's life:
 *
 *     asymreg_bind(worker, 7, raddr, id, 64, &b);    // once
 *     asymreg_bound_put(&b, 8, &x, sizeof(x));       // to raddr + 8
 *     asymreg_flush(worker, 7);
 *     asymreg_unbind(&b);                            // before the worker and the peer go
 *
 * **The check.** A peer's table counts the peer's unregistrations, and a handle remembers the count
 * at which its region was last checked. While both counts are equal, the region is still
 * registered. So a check is one load, of a cache line that all handles to this peer share. After
 * the peer's count has changed, the next operation of each handle checks the handle's own region.
 * If the region has been unregistered, every operation of the handle fails with ASYMREG_ESTALE,
 * even if the same memory is registered again.
 *
 * A check is not a lock: see "Guarantees" in rma.h. The second check of a get follows the get's
 * loads. The second check of a put may precede the put's stores, as other processors see them. So a
 * put that returns 0 may still write memory that is unregistered at the same time.
 *
 * **Death.** The memory of a peer that dies stays mapped, and operations on it may still return 0.
 * Every 256th operation of a worker through handles of a peer checks that the peer lives, and so
 * does asymreg_flush(). Both ask the kernel at most every 20 ms. So a flush returns ASYMREG_EPEER
 * if it begins 20 ms or more after the death.
 *
 * **Many handles.** If the caches do not hold the handles, each operation waits for its handle, and
 * a processor can overlap only few of these waits. With 100,000 handles used at random, a put took
 * 3 to 15 times as long as a plain store, and a store through asymreg_bound_ptr() 3 to 9 times
 * (bench_asym_bound, on several days and machines). A program can call __builtin_prefetch() on each
 * handle 16 operations before its use. Then a put takes as long as a store through
 * asymreg_bound_ptr(): 2.4 to 4.3 times as long as a plain store.
 *
 * A handle has 32 bytes on a 64-bit machine. Align arrays of handles to 32 bytes (aligned_alloc()),
 * and best put them in huge pages.
 *
 * Threads: a handle belongs to its worker's thread. asymreg_bind() allocates at the first use of a
 * peer or a segment, and when a worker has more handles of a peer than ever before. An operation
 * allocates only when it refreshes the copy of the peer's table, or where asymreg_put() would
 * allocate too.
 *
 * Source: ours. "Asymmetric Memory Extension for OpenSHMEM", section 3, searches in every
 * operation.
 */
#ifndef ASYMREG_BOUND_H
#define ASYMREG_BOUND_H

#include <string.h>

#include <asymreg/rma.h>

#ifdef __cplusplus
extern "C" {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast" /* the inline functions are C */
#endif

/** Shared by a worker's handles of one peer. Its members are for the library. */
struct asymreg_watch {
    const uint64_t *retired;       /**< the peer's count of unregistrations */
    uint32_t left;                 /**< operations until the next check of the peer */
    uint32_t reserved;             /**< 0 */
    struct asymreg_worker *worker; /**< the worker */
};

/** A handle. Its members are for the functions below. */
struct asymreg_bound {
    char *at;                    /**< address of the memory in this process; NULL: not mapped */
    uint64_t seen;               /**< the peer's count when the region was last checked */
    struct asymreg_watch *watch; /**< shared by the handles of a worker and peer; NULL: not bound */
    uint32_t bytes;              /**< bytes reached directly */
    uint32_t tag; /**< permissions for direct access; in higher bits the handle's number */
};

/**
 * @brief Bind a range of a peer's region.
 * @param worker  this thread's worker, which all operations of the handle use
 * @param pe      the peer
 * @param raddr   address there
 * @param id      the registration, or ASYMREG_ANY: the present one
 * @param bytes   length, more than 0
 * @param bound   the handle; zeroed on failure, so that every operation returns -EINVAL
 * @return 0; -EINVAL; ASYMREG_EFULL (the worker has 2^28 handles of the peer); or an error of
 *         asymreg_put() except ASYMREG_EACCES
 *
 * Cost: one lookup, and the mapping of a segment at its first use. Until asymreg_unbind(),
 * asymreg_forget() of the peer returns ASYMREG_EBUSY.
 */
ASYMREG_API int asymreg_bind(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,
                             asymreg_id id, size_t bytes, struct asymreg_bound *bound);

/** @brief End a handle. Call it before you destroy the handle's worker. NULL and a handle of zeros
 * are allowed. */
ASYMREG_API void asymreg_unbind(struct asymreg_bound *bound);

/**
 * @brief Check that a handle's region is registered and its peer alive.
 * @param bound  the handle
 * @return 0, -EINVAL (not bound), ASYMREG_ESTALE, ASYMREG_EPEER, or as asymreg_refresh()
 */
ASYMREG_API int asymreg_bound_check(struct asymreg_bound *bound);

/**
 * @brief Return the peer's memory itself, for loads and stores. NULL: the memory is not mapped
 *        here, the peer has ASYMREG_DRAIN, or the handle is not bound.
 *
 * Nothing checks loads and stores through this pointer, and the owner may unregister at any time.
 * The memory stays mapped until asymreg_unbind(). Do not write memory that is registered only for
 * reading.
 */
static inline void *asymreg_bound_ptr(const struct asymreg_bound *bound)
{
    return bound->at;
}

/** The stores of asymreg_bound_put(): aligned words are written whole. */
static inline void asymreg__store(char *to, const void *from, size_t bytes)
{
    uint64_t word;
    uint32_t half;

    if (bytes == 8 && (uintptr_t)to % 8 == 0) {
        memcpy(&word, from, 8);
        __atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
    } else if (bytes == 4 && (uintptr_t)to % 4 == 0) {
        memcpy(&half, from, 4);
        __atomic_store_n((uint32_t *)(void *)to, half, __ATOMIC_RELEASE);
    } else {
        memcpy(to, from, bytes);
    }
}

/** The loads of asymreg_bound_get(). */
static inline void asymreg__load(void *to, const char *from, size_t bytes)
{
    uint64_t word;
    uint32_t half;

    if (bytes == 8 && (uintptr_t)from % 8 == 0) {
        word = __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_ACQUIRE);
        memcpy(to, &word, 8);
    } else if (bytes == 4 && (uintptr_t)from % 4 == 0) {
        half = __atomic_load_n((const uint32_t *)(const void *)from, __ATOMIC_ACQUIRE);
        memcpy(to, &half, 4);
    } else {
        memcpy(to, from, bytes);
    }
}

/** Whether an operation may access memory directly now. For the functions below. */
static inline int asymreg__bound_begin(struct asymreg_bound *bound, uint64_t offset, uint64_t bytes,
                                       uint32_t need)
{
    struct asymreg_watch *watch = bound->watch;

    if (__builtin_expect(bytes - 1 >= bound->bytes || offset > bound->bytes - bytes ||
                             !(bound->tag & need) || !watch->left ||
                             __atomic_load_n(watch->retired, __ATOMIC_ACQUIRE) != bound->seen,
                         0))
        return 0;
    watch->left--;
    return 1;
}

/** Whether the region is still the one checked before. For the functions below. */
static inline int asymreg__bound_end(struct asymreg_bound *bound)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__builtin_expect(__atomic_load_n(bound->watch->retired, __ATOMIC_RELAXED) == bound->seen,
                         1))
        return 0;
    return asymreg_bound_check(bound);
}

/** The rest of asymreg_bound_put(): all cases except a direct store. */
ASYMREG_API int asymreg_bound_put_rest(struct asymreg_bound *bound, uint64_t offset,
                                       const void *src, size_t bytes);
/** The rest of asymreg_bound_get(). */
ASYMREG_API int asymreg_bound_get_rest(struct asymreg_bound *bound, uint64_t offset, void *dst,
                                       size_t bytes);
/** The rest of asymreg_bound_amo(). */
ASYMREG_API int asymreg_bound_amo_rest(struct asymreg_bound *bound, uint64_t offset, uint32_t which,
                                       uint32_t bytes, uint64_t operand, uint64_t compare,
                                       uint64_t *result);

/**
 * @brief As asymreg_put(), through a handle.
 * @param bound   the handle
 * @param offset  where in it
 * @param src     bytes to copy. If the peer's memory is mapped here, a put of 4 or 8 bytes at an
 *                aligned address is one store
 * @param bytes   how many
 * @return 0; ASYMREG_ERANGE (outside the bound range); -EINVAL (the handle is not bound); or as
 *         asymreg_put()
 *
 * Cost: if the memory is mapped, some loads from cache lines that all handles of the peer share,
 * one load of the handle's own line, and the store.
 */
static inline int asymreg_bound_put(struct asymreg_bound *bound, uint64_t offset, const void *src,
                                    size_t bytes)
{
    if (!src || !asymreg__bound_begin(bound, offset, bytes, ASYMREG_WRITE))
        return asymreg_bound_put_rest(bound, offset, src, bytes);
    asymreg__store(bound->at + offset, src, bytes);
    return asymreg__bound_end(bound);
}

/**
 * @brief As asymreg_get(), through a handle.
 * @param bound   the handle
 * @param offset  where in it
 * @param dst     destination. If the peer's memory is mapped here, a get of 4 or 8 bytes at an
 *                aligned address is one load
 * @param bytes   how many
 * @return as asymreg_bound_put(); `dst` may be written on failure
 */
static inline int asymreg_bound_get(struct asymreg_bound *bound, uint64_t offset, void *dst,
                                    size_t bytes)
{
    if (!dst || !asymreg__bound_begin(bound, offset, bytes, ASYMREG_READ))
        return asymreg_bound_get_rest(bound, offset, dst, bytes);
    asymreg__load(dst, bound->at + offset, bytes);
    return asymreg__bound_end(bound);
}

/** The atomic of asymreg_bound_amo() on 8 bytes. */
static inline uint64_t asymreg__amo8(uint64_t *p, uint32_t which, uint64_t operand,
                                     uint64_t compare)
{
    switch (which) {
    case ASYMREG_AMO_SET:
    case ASYMREG_AMO_SWAP: return __atomic_exchange_n(p, operand, __ATOMIC_SEQ_CST);
    case ASYMREG_AMO_COMPARE_SWAP:
        __atomic_compare_exchange_n(p, &compare, operand, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        return compare;
    case ASYMREG_AMO_AND: return __atomic_fetch_and(p, operand, __ATOMIC_SEQ_CST);
    case ASYMREG_AMO_OR: return __atomic_fetch_or(p, operand, __ATOMIC_SEQ_CST);
    case ASYMREG_AMO_XOR: return __atomic_fetch_xor(p, operand, __ATOMIC_SEQ_CST);
    case ASYMREG_AMO_FETCH: return __atomic_load_n(p, __ATOMIC_SEQ_CST);
    default: return __atomic_fetch_add(p, operand, __ATOMIC_SEQ_CST);
    }
}

/** The same on 4 bytes. */
static inline uint32_t asymreg__amo4(uint32_t *p, uint32_t which, uint32_t operand,
                                     uint32_t compare)
{
    switch (which) {
    case ASYMREG_AMO_SET:
    case ASYMREG_AMO_SWAP: return __atomic_exchange_n(p, operand, __ATOMIC_SEQ_CST);
    case ASYMREG_AMO_COMPARE_SWAP:
        __atomic_compare_exchange_n(p, &compare, operand, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        return compare;
    case ASYMREG_AMO_AND: return __atomic_fetch_and(p, operand, __ATOMIC_SEQ_CST);
    case ASYMREG_AMO_OR: return __atomic_fetch_or(p, operand, __ATOMIC_SEQ_CST);
    case ASYMREG_AMO_XOR: return __atomic_fetch_xor(p, operand, __ATOMIC_SEQ_CST);
    case ASYMREG_AMO_FETCH: return __atomic_load_n(p, __ATOMIC_SEQ_CST);
    default: return __atomic_fetch_add(p, operand, __ATOMIC_SEQ_CST);
    }
}

/**
 * @brief As asymreg_amo(), through a handle.
 * @param bound    the handle
 * @param offset   where in it; the address there must be a multiple of `bytes`
 * @param which    ASYMREG_AMO_*
 * @param bytes    4 or 8
 * @param operand  the value to add, store or combine with
 * @param compare  for ASYMREG_AMO_COMPARE_SWAP
 * @param result   the value before; may be NULL
 * @return as asymreg_bound_put(), or as asymreg_amo(). If the region is unregistered at the same
 *         time, the atomic may have taken effect although the call returns an error
 */
static inline int asymreg_bound_amo(struct asymreg_bound *bound, uint64_t offset, uint32_t which,
                                    uint32_t bytes, uint64_t operand, uint64_t compare,
                                    uint64_t *result)
{
    uintptr_t at = (uintptr_t)bound->at + (uintptr_t)offset; /* NULL is no pointer to add to */
    uint64_t old;
    int rc;

    if ((bytes != 4 && bytes != 8) || which > ASYMREG_AMO_SET || at % bytes ||
        !asymreg__bound_begin(bound, offset, bytes, ASYMREG_ATOMIC))
        return asymreg_bound_amo_rest(bound, offset, which, bytes, operand, compare, result);
    old = bytes == 8 ? asymreg__amo8((uint64_t *)at, which, operand, compare)
                     : asymreg__amo4((uint32_t *)at, which, (uint32_t)operand, (uint32_t)compare);
    if ((rc = asymreg__bound_end(bound)) < 0)
        return rc;
    if (result)
        *result = old;
    return 0;
}

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif
#endif /* ASYMREG_BOUND_H */
