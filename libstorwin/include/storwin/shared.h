/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file shared.h
 * @brief Windows that several processes share, and windows that are synced together.
 */
#ifndef STORWIN_SHARED_H
#define STORWIN_SHARED_H

#include <storwin/window.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------- windows that processes share */

/** shared flags: each segment begins on a page of its own */
#define STORWIN_SHARED_NONCONTIG (1u << 0)

/** The processes of a shared window. All pass the same values, except `rank`. */
struct storwin_shared {
    size_t size;      /**< sizeof(struct storwin_shared) */
    uint32_t n_ranks; /**< number of processes, 1 to STORWIN_MAX_RANKS */
    uint32_t rank;    /**< of this process */
    /** array of n_ranks uint64_t: length of each segment, 0 allowed, in rank order */
    const uint64_t *bytes;
    /** array of n_ranks names: a file for each segment. NULL: all segments lie in opts->filename,
     * one after the other */
    const char *const *filenames;
    /** for memory: name of a shared memory object, "/" and up to 254 characters; else NULL */
    const char *shm_name;
    uint32_t flags;    /**< STORWIN_SHARED_NONCONTIG */
    uint32_t reserved; /**< 0 */
};

/**
 * @brief Allocate a window whose segments several processes of one node share.
 *
 *   1. Rank 0 calls first: it creates and reserves everything.
 *   2. After that call has returned 0, the other ranks call, and map the objects that rank 0
 *      created. (With MPI: rank 0 calls and broadcasts the result, then the
 *      others call.)
 *   3. After all have attached, one rank calls storwin_shared_unlink() to remove the name
 *      `shm_name`.
 *
 * Every process maps all segments, one after the other without a gap. With STORWIN_SHARED_NONCONTIG
 * each segment begins on a page of its own instead. Every segment before the last non-empty one
 * must be a multiple of the page size long, if each segment has a file and there are no gaps.
 *
 * The pager must be kernel. The options factor_ppb and order divide the whole range into a memory
 * part and a storage part; the memory part is the object `shm_name`.
 *
 * storwin_base() returns this rank's segment. A sync of the whole window covers all segments;
 * storwin_shared_segment() returns the range of one.
 *
 * @param opts    as for storwin_alloc(). With storage_alloc_factor=auto every rank passes the same
 *                memory_bytes, not 0
 * @param shared  the processes; read during the call only
 * @param out     receives the window, untouched on failure
 * @param err     detail on failure, or NULL
 * @return
 *   - as storwin_alloc()
 *   - -EINVAL: a value of `shared` is not allowed
 *   - -EEXIST: on rank 0: the name `shm_name` exists
 *   - STORWIN_ESHORT: on another rank: the object or file is shorter than the segments
 *
 * @threads MT-Safe. Killing a process does not affect the mappings of the others.
 * @source  the paper (see storwin.h), section 2.1, MPI_Win_allocate_shared
 */
STORWIN_API int storwin_alloc_shared(const struct storwin_opts *opts,
                                     const struct storwin_shared *shared,
                                     struct storwin_window **out, struct storwin_error *err);

/**
 * @brief Address, offset and length of a rank's segment.
 * @param win     a shared window
 * @param rank    the rank
 * @param base    receives its address in this process, NULL if it has 0 bytes; or NULL
 * @param offset  receives its offset in the window; or NULL
 * @param bytes   receives its length; or NULL
 * @return 0; -EINVAL: not a shared window, or no such rank
 * MT-Safe. Allocates nothing.
 */
STORWIN_API int storwin_shared_segment(const struct storwin_window *win, uint32_t rank, void **base,
                                       uint64_t *offset, uint64_t *bytes);

/**
 * @brief Remove the name of the shared memory object, after all ranks have attached.
 *
 * After this call the processes leave no name behind, however they end. Without it, rank 0's
 * storwin_free() removes the name.
 *
 * @param win  a shared window of any rank
 * @param err  detail on failure, or NULL
 * @return 0, also if the name is gone already; -errno of shm_unlink()
 * MT-Safe on distinct objects.
 */
STORWIN_API int storwin_shared_unlink(struct storwin_window *win, struct storwin_error *err);

/* ---------- dynamic windows */

/** A dynamic window: a list of attached windows that are synced together. It is the storage side of
 * MPI's dynamic windows. */
struct storwin_dynamic;

/**
 * @brief Create a dynamic window, empty.
 * @param allocator  for the window's handle and its list of attached windows; NULL: libc
 * @param out        receives it
 * @return 0; -EINVAL: an allocator without realloc or free; -ENOMEM
 * @threads MT-Safe. Allocates.
 * @source the paper (see storwin.h), section 2.1, MPI_Win_attach
 */
STORWIN_API int storwin_dynamic_create(const struct storwin_allocator *allocator,
                                       struct storwin_dynamic **out);

/**
 * @brief Detach every window and free the dynamic window. The attached windows stay.
 * @param dyn  a dynamic window that no other thread is using, or NULL
 */
STORWIN_API void storwin_dynamic_destroy(struct storwin_dynamic *dyn);

/**
 * @brief Attach a window. It cannot be freed until it is detached from every dynamic window.
 * @param dyn  a dynamic window
 * @param win  a window of at least one byte
 * @return 0; -EEXIST: attached already; -EINVAL: 0 bytes; -ENOMEM
 * @threads The functions of one dynamic window are MT-Safe.
 * @cost    O(windows attached).
 */
STORWIN_API int storwin_dynamic_attach(struct storwin_dynamic *dyn, struct storwin_window *win);

/**
 * @brief Detach a window.
 * @param dyn  a dynamic window
 * @param win  a window
 * @return 0; STORWIN_ENOWIN: it is not attached
 * @threads MT-Safe. @cost O(windows attached). Allocates nothing.
 */
STORWIN_API int storwin_dynamic_detach(struct storwin_dynamic *dyn, struct storwin_window *win);

/**
 * @brief Sync every window attached.
 * @param dyn  a dynamic window
 * @param err  detail of the first failure, or NULL
 * @return 0, or the first error; the other windows are synced nevertheless
 * @threads Make one sync of a window at a time; attach and detach block meanwhile.
 */
STORWIN_API int storwin_dynamic_sync(struct storwin_dynamic *dyn, struct storwin_error *err);

#ifdef __cplusplus
}
#endif

#endif /* STORWIN_SHARED_H */
