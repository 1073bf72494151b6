/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file rma.h
 * @brief Register any memory, tell peers once who you are, and put, get and update by
 *        (PE, address).
 *
 * **Context** (one a process, or several): its registered regions, published; a transport; the
 * peers it was told of. **Worker** (one a thread): what a thread needs to begin operations. **PE**:
 * a peer's number, which you choose. Nothing is collective: a process registers and unregisters
 * when it likes, and no peer takes part. How the address of a region reaches a peer is your affair.
 *
 *     asymreg_open(NULL, &ctx, &err);                             // both sides
 *     asymreg_register(ctx, p, 4096, ASYMREG_RW, 0, &id, &err);   // the target: any memory
 *     n = asymreg_export(ctx, blob, sizeof(blob), &err);          // carried by PMI, a socket
 *     asymreg_import(ctx, 7, blob, n, &err);                      // the initiator
 *     asymreg_worker_create(ctx, &worker);
 *     asymreg_put(worker, 7, addr_of_p + 8, id, "x", 1);          // id, or ASYMREG_ANY
 *     asymreg_flush(worker, 7);                                   // it has arrived
 *
 * **Which table is used.** If the transport maps the peer's table, each operation sees the newest
 * one (one load). Otherwise the copy made by the last refresh is used, and refreshed once when it
 * has no such region or the transport says that a handle is stale. A transport without
 * ASYMREG_CAP_REVOKE cannot know the latter: there, ASYMREG_FRESH or asymreg_refresh() makes sure
 * that what was unregistered before is refused.
 *
 * **What is promised.** An operation reaches exactly the region that it names, or fails with a
 * defined error before anything is written, with two exceptions that only the transport can close:
 *   -# the owner unregisters between the check and the access. Then the access goes to what is at
 *      that address now, or fails with ASYMREG_EFAULT. A transport with ASYMREG_CAP_REVOKE closes
 *      this, and so does asymreg_unregister_drain(); otherwise unregister, tell the peers and wait
 *      for them before reusing the memory.
 *   -# an operation that fails half way (ASYMREG_EFAULT, ASYMREG_EPEER, ASYMREG_ERANGE with
 *      ASYMREG_SPLIT) may have moved a part.
 *
 * **A peer that dies**: every operation on it returns ASYMREG_EPEER within a second, without
 * waiting; so do those under way. A peer that is stopped (SIGSTOP) does not matter to a one-sided
 * transport.
 *
 * **fork()**: a child must not use its parent's context: the published table is in memory that both
 * have. It opens its own. In a child, what would change the parent's context (registering,
 * unregistering, segments, importing, forgetting, making a worker) is -EPERM, and closing it or
 * freeing its workers is a no-op.
 *
 * **exec()**: for its peers, a process that calls it has gone: ASYMREG_EPEER. CMA asks in the
 * system call that copies, and so never reaches the new program. Memory that peers have mapped
 * outlives the old one, and harms nobody; they ask every 20 ms (if they may trace the process: see
 * asymreg_local_create()).
 *
 * **Coalescing.** A transport without ASYMREG_CAP_WHOLE_SPACE registers memory itself: that pins
 * pages, or costs a microsecond, a key in every peer that uses it and one of max_segments. With
 * asymreg_opts.coalesce_bytes at C, a region that lies in no segment is registered together with
 * what is mapped around it in the same aligned C bytes (several times C if the region is longer);
 * later regions in there share that registration, and it ends with the last of them.
 *   - It stops at gaps, guard pages, memory of another file or origin, memory without the
 *     permissions, and segments that are there already.
 *   - It permits what its regions were registered for: the first one that asks for more makes a new
 *     registration, which later ones use, while those before keep theirs.
 *   - Where the transport refuses all that, the region is registered alone.
 *   - Costs: C bytes may be pinned for a few; /proc/self/maps is read for each new registration
 *     (some microseconds, more with many mappings); and neighbours are kept apart by the
 *     initiator's check, not by hardware, which ASYMREG_ALONE avoids.
 *   - The rule to keep: memory that was unmapped, mapped anew or dropped (munmap, mremap,
 *     MADV_DONTNEED; so may free() of what malloc() gave) while a region *near* it was registered,
 *     and is then registered itself, needs ASYMREG_REMAPPED, or a transport that pins would serve
 *     the old pages.
 *
 * Source: "Asymmetric Memory Extension for OpenSHMEM", sections 2 and 3 (register, unregister, put,
 * get; refresh and retry) and 5 (atomics, collectives); identifiers, permissions and errors are
 * ours.
 */
#ifndef ASYMREG_RMA_H
#define ASYMREG_RMA_H

#include <sys/types.h>

#include <asymreg/base.h>
#include <asymreg/transport.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Longest bootstrap blob, bytes. With the transport for one node it is shorter than 512. */
#define ASYMREG_MAX_BLOB_BYTES 8192u
/** Most peers of a context: PEs are below this. */
#define ASYMREG_MAX_PEERS 0x1000000u

/** A context. */
struct asymreg_context;
/** A thread's means of beginning operations. */
struct asymreg_worker;

/**
 * @name Life cycle
 * @{
 */

/**
 * asymreg_opts.flags: an operation that crosses from one region into the next, adjacent one is cut
 * in two instead of refused with ASYMREG_ERANGE.
 */
#define ASYMREG_SPLIT 1u
/**
 * asymreg_opts.flags: each operation on a peer whose table is not mapped looks whether that has
 * changed first: one more remote read each.
 */
#define ASYMREG_FRESH 2u
/**
 * asymreg_opts.flags: peers on this node show when they are inside an operation, so that
 * asymreg_unregister_drain() can wait for its end. Costs each of their operations two stores; a
 * peer that cannot map the memory for that is refused when it imports, ASYMREG_EUNREACH.
 */
#define ASYMREG_DRAIN 4u

/** asymreg_opts.coalesce_bytes: everything that is mapped around a region, however much it is. */
#define ASYMREG_COALESCE_MAPPING UINT64_MAX

/** Options of a context. Zero all, set `size`, then what differs. */
struct asymreg_opts {
    size_t size;           /**< sizeof(struct asymreg_opts) */
    uint32_t flags;        /**< ASYMREG_SPLIT, ASYMREG_FRESH, ASYMREG_DRAIN */
    uint32_t max_regions;  /**< 0: 1,048,576; at most ASYMREG_MAX_REGIONS; rounded up to a multiple
                              of 128. The published table has 32 bytes for each (and for each
                              segment 32 and its longest handle): address space only until used,
                              but a transport that pins what it registers pins all of it */
    uint32_t max_segments; /**< 0: as max_regions, at most 65,536 */
    uint32_t ring;         /**< records of the change log; 0: 4096 */
    struct asymreg_transport *transport; /**< taken over, also on failure, unless `size` is below
                                            this or above 4,096; NULL: asymreg_local_create() */
    uint64_t coalesce_bytes; /**< 0; a power of two (raised to a page); or ASYMREG_COALESCE_MAPPING:
                                see "Coalescing" above */
    const struct asymreg_allocator *allocator; /**< NULL: libc's. The published table and tables of
                                                  its size are mapped pages in any case */
};

/**
 * @brief Open a context and publish its empty table.
 * @param opts     NULL: all defaults
 * @param context  the new context
 * @param err      detail on failure, or NULL
 * @return 0, -EINVAL, -ENOMEM, ASYMREG_EVERSION (the transport), -EFBIG (the table is shared
 *         memory, larger than RLIMIT_FSIZE), another -errno, or what the transport returned
 *
 * MT-Safe. Allocates; no thread is started and no signal handler installed.
 */
ASYMREG_API int asymreg_open(const struct asymreg_opts *opts, struct asymreg_context **context,
                             struct asymreg_error *err);

/**
 * @brief Close a context: peers get ASYMREG_EPEER. After all its workers; waits for nobody. NULL is
 *        allowed.
 *
 * Memory that was registered stays the caller's, except what asymreg_segment_alloc() gave, which
 * goes. In a child of the process that opened the context nothing is done. No other thread may be
 * using the context.
 * @param context  the context
 */
ASYMREG_API void asymreg_close(struct asymreg_context *context);

/**
 * @brief Make a worker.
 * @param context  its context
 * @param worker   the new worker
 * @return 0, -EINVAL, -EPERM (in a child), -ENOMEM
 *
 * MT-Safe. Allocates.
 */
ASYMREG_API int asymreg_worker_create(struct asymreg_context *context,
                                      struct asymreg_worker **worker);

/**
 * @brief Free a worker, after a flush of what it began. NULL is allowed. In a child of the process
 *        that opened the context nothing is done.
 *
 * The flush has no limit. Over UCX it waits while a peer with something under way is stopped:
 * asymreg_forget() that peer first.
 */
ASYMREG_API void asymreg_worker_destroy(struct asymreg_worker *worker);
/** @} */

/**
 * @name Registering
 * MT-Safe; registrations of one context take turns.
 * @{
 */

/**
 * asymreg_register(): if exactly this range is registered, with the same permissions, count one
 * more user of it.
 */
#define ASYMREG_SHARE 1u
/**
 * asymreg_register(): a transport registration of its own, although the context coalesces. No
 * effect in a segment of asymreg_segment_add(), or where one registration serves all private
 * memory.
 */
#define ASYMREG_ALONE 4u
/**
 * asymreg_register(): the memory was unmapped, mapped anew or dropped while a region near it was
 * registered: share no automatic registration that was made before. See "Coalescing".
 */
#define ASYMREG_REMAPPED 8u

/**
 * asymreg_register() and asymreg_segment_add(), among the flags: memory of a device, by its
 * ASYMREG_KIND_*. It has a registration of its own, and a transport that cannot use it refuses:
 * ASYMREG_ENOTSUP (shared memory and CMA; libasymreg-ucx where UCX was built without that device).
 * A dma-buf has a descriptor: asymreg_segment_add(). The library never touches such memory itself.
 * Compiled against UCX's and libibverbs' headers, and not tried on a device.
 */
#define ASYMREG_KIND(kind) ((kind) << 8)

/**
 * @brief Make memory reachable for peers, from now on.
 *
 * If it lies in a segment (asymreg_segment_add(), asymreg_segment_alloc(), or with a transport that
 * has ASYMREG_CAP_WHOLE_SPACE), that is what the transport uses; otherwise a registration is made,
 * for this region alone or as "Coalescing" says. It may lie anywhere: malloc, stack, static data, a
 * mapped file.
 *
 * @param context  the context
 * @param addr     first byte, not NULL; need not be aligned
 * @param bytes    length, more than 0
 * @param prot     ASYMREG_READ, ASYMREG_WRITE, ASYMREG_ATOMIC: what peers may do
 * @param flags    ASYMREG_SHARE, ASYMREG_ALONE, ASYMREG_REMAPPED, ASYMREG_KIND()
 * @param id       names this registration; may be NULL
 * @param err      detail on failure, or NULL
 * @return 0; -EINVAL (no bytes, NULL, unknown bits); -EPERM (in a child); ASYMREG_EOVERFLOW;
 *         ASYMREG_EOVERLAP; ASYMREG_EFULL; ASYMREG_EACCES (more than its segment permits);
 *         ASYMREG_ERANGE (begins in a segment of asymreg_segment_add() and runs past its end);
 *         -ENOMEM, or what the transport returned
 *
 * Cost: about a microsecond, however many there are; and the transport's registration if it needs
 * one.
 */
ASYMREG_API int asymreg_register(struct asymreg_context *context, const void *addr, size_t bytes,
                                 uint32_t prot, uint32_t flags, asymreg_id *id,
                                 struct asymreg_error *err);

/**
 * @brief End a registration (or one user of a shared one).
 * @param context  the context
 * @param id       from asymreg_register()
 * @return 0, -EINVAL, -EPERM (in a child), ASYMREG_ESTALE
 *
 * Operations that peers begin after this returns are refused; for those already begun see the head
 * of this file. The memory itself is not touched.
 */
ASYMREG_API int asymreg_unregister(struct asymreg_context *context, asymreg_id id);
/** @} */

/**
 * @name Peers
 * MT-Safe.
 * @{
 */

/**
 * @brief Write the bootstrap blob: how others reach this context. The same bytes at any time.
 * @param context  the context
 * @param buf      the blob, some hundred bytes; it stays valid as long as the context, and what is
 *                 registered later is found through it
 * @param cap      room there; ASYMREG_MAX_BLOB_BYTES is always enough
 * @param err      detail on failure, or NULL
 * @return its length; -ENOBUFS; -EINVAL; or an error of the transport
 */
ASYMREG_API ssize_t asymreg_export(struct asymreg_context *context, void *buf, size_t cap,
                                   struct asymreg_error *err);

/**
 * @brief Make another context known under a number. It need not be doing anything. May be this
 *        context itself.
 * @param context  the context
 * @param pe       the number, below ASYMREG_MAX_PEERS, not in use
 * @param blob     what the other's asymreg_export() wrote
 * @param bytes    its length
 * @param err      detail on failure, or NULL
 * @return 0; -EINVAL; -EEXIST; ASYMREG_EBLOB; ASYMREG_EVERSION; ASYMREG_EUNREACH (also: it drains,
 *         and the memory for that cannot be mapped); ASYMREG_EPEER (has gone already);
 *         ASYMREG_ETABLE; -ENOMEM
 *
 * The table is mapped and checked now if the transport can do that; otherwise it is first read by
 * the first operation.
 */
ASYMREG_API int asymreg_import(struct asymreg_context *context, uint32_t pe, const void *blob,
                               size_t bytes, struct asymreg_error *err);

/**
 * @brief Drop a peer, dead or alive. No thread may be using it.
 * @param context  the context
 * @param pe       its number, free again
 * @return 0, ASYMREG_ENOPEER, ASYMREG_EBUSY (a handle is bound, see bound.h), -EPERM (in a child)
 */
ASYMREG_API int asymreg_forget(struct asymreg_context *context, uint32_t pe);
/** @} */

/**
 * @name Operations
 * A worker belongs to one thread at a time; distinct workers are independent. With a peer that
 * drains, 4096 workers at most, of all processes: ASYMREG_EFULL.
 *
 * `id` is the registration that must be meant, or ASYMREG_ANY. An operation of 0 bytes checks the
 * peer and succeeds, whatever the address. Each operation returns 0 or:
 *   - -EINVAL: bytes to or from NULL
 *   - ASYMREG_ENOPEER; ASYMREG_EPEER; ASYMREG_EUNREACH
 *   - ASYMREG_ENOREGION: nothing is registered there
 *   - ASYMREG_ERANGE: runs past the region, or begins outside of the one that `id` names
 *   - ASYMREG_ESTALE: `id` has gone; or the region known before has gone and no other has come
 *   - ASYMREG_EACCES: not permitted, nothing was sent
 *   - ASYMREG_EOVERFLOW; ASYMREG_EFAULT; ASYMREG_ENOTSUP
 *   - ASYMREG_EBUSY, ASYMREG_ETABLE or -ENOMEM, when the copy of the peer's table had to be
 *     refreshed; or another error of the transport
 *
 * asymreg_resolve() says why in a sentence.
 *
 * In OpenSHMEM's words: put, get, put_nbi and get_nbi are asymreg_put() and its siblings; quiet is
 * asymreg_flush() with ASYMREG_ALL_PEERS, and a fence one for each peer; iput and iget are
 * asymreg_put_strided() and asymreg_get_strided(); atomics of 4 and 8 bytes, with and without a
 * fetch, are asymreg_amo(); put_signal, wait_until and test are asymreg_put_signal() and
 * asymreg_wait_until(); shmem_ptr() is asymreg_bound_ptr().
 * @{
 */

/**
 * @brief Copy to a peer. When it returns, `src` may be reused; a flush makes sure that it has
 *        arrived.
 * @param worker  this thread's worker
 * @param pe      the peer
 * @param raddr   address there, anywhere in a region
 * @param id      registration meant, or ASYMREG_ANY
 * @param src     bytes to copy
 * @param bytes   how many
 * @return see above
 *
 * Cost: one lookup and the transport's put. No allocation and no lock once the segment has been
 * used; over UCX a put of more than 64 bytes as a message allocates a copy of them, and
 * ASYMREG_UCX_THREAD is a lock.
 */
ASYMREG_API int asymreg_put(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,
                            asymreg_id id, const void *src, size_t bytes);

/**
 * @brief Copy from a peer. When it returns, the bytes are in `dst`.
 * @param worker  this thread's worker
 * @param pe      the peer
 * @param raddr   address there
 * @param id      registration meant, or ASYMREG_ANY
 * @param dst     where to
 * @param bytes   how many
 * @return see above; `dst` may be partly written on failure
 */
ASYMREG_API int asymreg_get(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,
                            asymreg_id id, void *dst, size_t bytes);

/**
 * @brief As asymreg_put(), but `src` must stay as it is until a flush, which also reports late
 *        errors.
 */
ASYMREG_API int asymreg_put_nb(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,
                               asymreg_id id, const void *src, size_t bytes);

/**
 * @brief As asymreg_get(), but the bytes are there only after a flush, which also reports late
 *        errors.
 */
ASYMREG_API int asymreg_get_nb(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,
                               asymreg_id id, void *dst, size_t bytes);

/** asymreg_flush(): every peer that the worker has used. */
#define ASYMREG_ALL_PEERS UINT32_MAX

/**
 * @brief Wait until everything begun on a peer is complete there.
 * @param worker  this thread's worker
 * @param pe      the peer, or ASYMREG_ALL_PEERS
 * @return 0; the first error of what was begun without waiting (after ASYMREG_ESTALE this side's
 *         copy of the peer's table is new: do it again); ASYMREG_EPEER; ASYMREG_ENOPEER
 *
 * After it, whoever sees something that this thread does later (a store, a message) sees the data
 * too.
 */
ASYMREG_API int asymreg_flush(struct asymreg_worker *worker, uint32_t pe);

/**
 * @brief An atomic operation on 4 or 8 bytes of a peer, complete at the target when it returns.
 * @param worker   this thread's worker
 * @param pe       the peer
 * @param raddr    address there, a multiple of `bytes`
 * @param id       registration meant, or ASYMREG_ANY; it must permit ASYMREG_ATOMIC
 * @param which    ASYMREG_AMO_*
 * @param bytes    4 or 8
 * @param operand  what to add, store or combine with
 * @param compare  for ASYMREG_AMO_COMPARE_SWAP
 * @param result   the value before; may be NULL
 * @return see above; ASYMREG_EALIGN; -EINVAL (another size or operation)
 *
 * What the transport lacks is made of its compare-and-swap, if it has that: several round trips.
 */
ASYMREG_API int asymreg_amo(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,
                            asymreg_id id, uint32_t which, uint32_t bytes, uint64_t operand,
                            uint64_t compare, uint64_t *result);

/** What asymreg_put_signal() does when the data are there. */
struct asymreg_signal {
    uint64_t addr;     /**< of 8 bytes at the peer, aligned */
    asymreg_id id;     /**< registration meant, or ASYMREG_ANY; with ASYMREG_ATOMIC, or, for
                          ASYMREG_AMO_SET on a transport without atomics, ASYMREG_WRITE */
    uint64_t value;    /**< operand */
    uint32_t what;     /**< ASYMREG_AMO_SET or ASYMREG_AMO_ADD */
    uint32_t reserved; /**< 0 */
};

/**
 * @brief As asymreg_put(), and then a signal: who sees the signal at the peer sees the data.
 * @param worker  this thread's worker
 * @param pe      the peer
 * @param raddr   address there
 * @param id      registration meant, or ASYMREG_ANY
 * @param src     bytes to copy
 * @param bytes   how many
 * @param signal  where and what
 * @return as asymreg_put() and asymreg_amo(); after an error the signal was not given
 *
 * Cost: a put, a flush and an atomic.
 */
ASYMREG_API int asymreg_put_signal(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,
                                   asymreg_id id, const void *src, size_t bytes,
                                   const struct asymreg_signal *signal);

#define ASYMREG_CMP_EQ     0u  /**< asymreg_wait_until(): equal */
#define ASYMREG_CMP_NE     1u  /**< not equal */
#define ASYMREG_CMP_LT     2u  /**< less */
#define ASYMREG_CMP_LE     3u  /**< less or equal */
#define ASYMREG_CMP_GT     4u  /**< greater */
#define ASYMREG_CMP_GE     5u  /**< greater or equal */
#define ASYMREG_CMP_SIGNED 16u /**< with one of them: as signed numbers */

/** asymreg_wait_until(): without an end. */
#define ASYMREG_FOREVER UINT32_MAX

/**
 * @brief Wait until memory of this process, which peers write, compares as wanted; the worker's
 *        operations progress meanwhile.
 * @param worker      this thread's worker
 * @param addr        4 or 8 aligned bytes
 * @param bytes       4 or 8
 * @param compare     ASYMREG_CMP_*: what is there, compared with `value`
 * @param value       what it is compared with
 * @param timeout_ms  how long, milliseconds; 0: only a look; ASYMREG_FOREVER: also for a peer that
 *                    has died, which only an operation on it shows
 * @return 0; ASYMREG_ETIMEDOUT; -EINVAL; ASYMREG_EALIGN; or an error of the transport
 *
 * After 0, data that were put before the signal are there.
 */
ASYMREG_API int asymreg_wait_until(struct asymreg_worker *worker, const void *addr, uint32_t bytes,
                                   uint32_t compare, uint64_t value, uint32_t timeout_ms);

/** Elements that are apart: asymreg_put_strided(), asymreg_get_strided(). */
struct asymreg_strides {
    size_t element_bytes; /**< length of an element */
    size_t n;             /**< how many; 0: nothing is done */
    size_t here;          /**< from one to the next in this process, elements; 1: adjacent */
    size_t there;         /**< the same at the peer */
};

/**
 * @brief Copy elements that are apart to a peer. When it returns 0, they have arrived.
 * @param worker   this thread's worker
 * @param pe       the peer
 * @param raddr    address of the first there
 * @param id       registration meant, or ASYMREG_ANY
 * @param src      the first here
 * @param strides  length, number and distances
 * @return as asymreg_put(), ASYMREG_EOVERFLOW; after an error some may have been copied
 *
 * Cost: an operation for each element, all under way at once, and a flush.
 */
ASYMREG_API int asymreg_put_strided(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,
                                    asymreg_id id, const void *src,
                                    const struct asymreg_strides *strides);

/** @brief As asymreg_put_strided(), from a peer. */
ASYMREG_API int asymreg_get_strided(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,
                                    asymreg_id id, void *dst,
                                    const struct asymreg_strides *strides);

/** One of many transfers: asymreg_put_many(), asymreg_get_many(). */
struct asymreg_transfer {
    uint64_t raddr; /**< address at the peer, anywhere in a region */
    asymreg_id id;  /**< registration meant, or ASYMREG_ANY */
    void *here;     /**< bytes to copy, or where to; a put only reads it */
    size_t bytes;   /**< how many */
};

/**
 * @brief As asymreg_put_nb() of each, in this order.
 * @param worker     this thread's worker
 * @param pe         the peer
 * @param transfers  array of n
 * @param n          how many
 * @param done       NULL, or how many have been begun: n, or on failure those before the one that
 *                   failed
 * @return 0; or as asymreg_put(), for the first that fails; those behind it are not begun
 *
 * Cost: over shared memory and CMA the searches of 32 at a time advance together, so that their
 * waits for memory overlap: a third of the time of asymreg_put() with a million regions, half of it
 * with 100,000. With few regions, where nothing waits for memory, it is somewhat slower than
 * asymreg_put_nb() of each. For runtimes that gather puts: MPI's indexed types, lists of addresses.
 */
ASYMREG_API int asymreg_put_many(struct asymreg_worker *worker, uint32_t pe,
                                 const struct asymreg_transfer *transfers, size_t n, size_t *done);

/** @brief As asymreg_get_nb() of each, in this order; otherwise as asymreg_put_many(). */
ASYMREG_API int asymreg_get_many(struct asymreg_worker *worker, uint32_t pe,
                                 const struct asymreg_transfer *transfers, size_t n, size_t *done);

/**
 * @brief Move pending operations on, without waiting.
 * @param worker  this thread's worker
 * @return how many completed, or an error of the transport
 */
ASYMREG_API int asymreg_progress(struct asymreg_worker *worker);

/**
 * @brief Which region of a peer holds [raddr, raddr + bytes), and why an operation there would
 *        fail.
 * @param worker  this thread's worker
 * @param pe      the peer
 * @param raddr   address there
 * @param bytes   length; 0: any part
 * @param need    permissions needed, or 0
 * @param region  what was found, or NULL
 * @param err     detail on failure, or NULL
 * @return as an operation on it would, but for ASYMREG_EFAULT
 *
 * For when an operation has failed: that itself spends nothing on explanations. With `need` the
 * transport is asked too, and may read a byte of the memory.
 */
ASYMREG_API int asymreg_resolve(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,
                                size_t bytes, uint32_t need, struct asymreg_region *region,
                                struct asymreg_error *err);

/**
 * @brief Bring the copy of a peer's table up to date now. MT-Safe.
 * @param context  the context
 * @param pe       the peer
 * @return changes found; ASYMREG_ENOPEER; ASYMREG_EPEER (closed); ASYMREG_EBUSY (overtaken again
 *         and again); ASYMREG_ETABLE; -ENOMEM; or an error of the transport
 *
 * After an error the copy answers as of some earlier moment; a later refresh mends it. Cost: two
 * reads (1.4 µs each with CMA, nothing when mapped) and the changes, if the log reaches back to the
 * last refresh.
 */
ASYMREG_API int asymreg_refresh(struct asymreg_context *context, uint32_t pe);
/** @} */

/**
 * @name Unregistering in other ways
 * MT-Safe.
 * @{
 */

/**
 * @brief End the registration of exactly this range, for callers that keep no identifiers.
 * @param context     the context
 * @param addr,bytes  as registered
 * @return 0, ASYMREG_ENOREGION, ASYMREG_EOVERFLOW, -EINVAL (a part of a region, or more than one)
 */
ASYMREG_API int asymreg_unregister_range(struct asymreg_context *context, const void *addr,
                                         size_t bytes);

/**
 * @brief End a registration, and return when no operation of a peer on it is under way any more:
 *        then the memory may be reused.
 * @param context     the context
 * @param id          from asymreg_register(); ASYMREG_ANY: only wait until every operation of a
 *                    peer has ended that was under way at the call, once after several
 *                    asymreg_unregister()
 * @param timeout_ms  how long to wait for peers, milliseconds
 * @param err         detail on failure, or NULL
 * @return
 *   - 0
 *   - ASYMREG_ETIMEDOUT: unregistered, but a peer has not ended its operation (it is stopped, or
 *     its transfer is long). With ASYMREG_ANY one waits on
 *   - ASYMREG_ENOTSUP: nothing was changed, as this cannot be promised
 *   - ASYMREG_EBUSY: nothing was changed, as it has other users (ASYMREG_SHARE)
 *   - ASYMREG_ESTALE; -EINVAL; -ENOMEM: nothing was changed
 *   - what the transport said to the end of its registration
 *
 * What is waited for are operations that looked at the table before; later ones are refused. What
 * each transport can promise:
 *   - shared memory and CMA: all of it, in a context with ASYMREG_DRAIN. A peer that dies meanwhile
 *     is not waited for. Peers are believed: each can write into the memory in which they show what
 *     they do.
 *   - a transport with ASYMREG_CAP_REVOKE (libasymreg-ibv): all of it, for a region with a
 *     registration of its own: the adapter ends what is under way and refuses the rest, no peer is
 *     waited for. ASYMREG_ENOTSUP in a segment, while others share the registration, and for
 *     ASYMREG_ANY.
 *   - libasymreg-ucx without an RDMA adapter: all of it, for any region, at once: the target checks
 *     each operation of a peer when it arrives.
 *   - others: ASYMREG_ENOTSUP. Notify the peers, and wait for them to flush.
 *
 * Cost over shared memory and CMA: a system call, a look at each worker of a peer, and
 *   - half a microsecond where no peer runs;
 *   - where peers run: membarrier(), which interrupts each processor that runs one, and the rest of
 *     the operation that each is inside: 17 to 48 µs with one peer and two processors of a busy
 *     virtual machine (bench_asym_register, case drain);
 *   - where a peer has lost its processor in the middle of an operation: until it runs again, which
 *     is the scheduler's choice: milliseconds where more threads want to run than there are
 *     processors. After several asymreg_unregister(), ASYMREG_ANY waits once for all.
 */
ASYMREG_API int asymreg_unregister_drain(struct asymreg_context *context, asymreg_id id,
                                         uint32_t timeout_ms, struct asymreg_error *err);
/** @} */

/**
 * @name Segments: one registration with the transport, many regions
 * MT-Safe.
 * @{
 */

/** asymreg_segment_add(): see ASYMREG_MEM_TRUSTED. */
#define ASYMREG_TRUSTED 2u

/**
 * @brief Register memory with the transport once, for many regions to share.
 *
 * @param context     the context
 * @param addr,bytes  the memory; must not overlap another segment of this kind or a region
 * @param prot        the most that regions in it may permit
 * @param flags       0, or ASYMREG_TRUSTED, or ASYMREG_KIND()
 * @param fd          descriptor that the memory is a MAP_SHARED mapping of (a file, a memfd,
 *                    /dev/shm), or -1. Not kept: duplicated
 * @param fd_offset   where in it `addr` is, bytes
 * @param err         detail on failure, or NULL
 * @return 0; -EINVAL; -EBADF; ASYMREG_EACCES (writing asked for, but the descriptor cannot);
 *         ASYMREG_EOVERLAP; ASYMREG_EOVERFLOW; ASYMREG_EFULL; ASYMREG_ENOTSUP (the transport cannot
 *         use a descriptor, or needs one); -ENOMEM
 *
 * Allocates. Cost: the transport's; with shared memory one descriptor here, and one mapping in each
 * peer that uses it.
 */
ASYMREG_API int asymreg_segment_add(struct asymreg_context *context, void *addr, size_t bytes,
                                    uint32_t prot, uint32_t flags, int fd, uint64_t fd_offset,
                                    struct asymreg_error *err);

/**
 * @brief Allocate memory that peers on this node reach by loads and stores, as a segment. Register
 *        what is in it as usual.
 * @param context  the context
 * @param bytes    rounded up to pages
 * @param addr     zeroed pages, until asymreg_segment_remove() or asymreg_close()
 * @param err      detail on failure, or NULL
 * @return 0, -EINVAL, -ENOMEM, ASYMREG_EFULL, -EFBIG (RLIMIT_FSIZE), or another -errno
 */
ASYMREG_API int asymreg_segment_alloc(struct asymreg_context *context, size_t bytes, void **addr,
                                      struct asymreg_error *err);

/**
 * @brief End a segment; its memory goes if asymreg_segment_alloc() made it.
 * @param context  the context
 * @param addr     where it begins
 * @return 0, -EINVAL, ASYMREG_ENOREGION (no such segment begins there), ASYMREG_EBUSY (a region
 *         lies in it)
 */
ASYMREG_API int asymreg_segment_remove(struct asymreg_context *context, const void *addr);
/** @} */

/**
 * @name What a context is, and its figures
 * MT-Safe. They allocate nothing.
 * @{
 */

/** What a context is. */
struct asymreg_info {
    size_t size; /**< sizeof(struct asymreg_info), set by the caller: filled as far as that says;
                    less than the first release's: -EINVAL */
    struct asymreg_transport *transport; /**< for its ops->name and ops->reason */
    struct asymreg_transport_caps caps;  /**< what it can do, and its limits */
};

/**
 * @brief What a context is: its transport, and what that can do.
 * @param context  the context
 * @param info     filled; set its size first
 * @return 0, -EINVAL
 */
ASYMREG_API int asymreg_context_query(struct asymreg_context *context, struct asymreg_info *info);

/** Figures of a context, as of the call. */
struct asymreg_stats {
    size_t size;            /**< sizeof(struct asymreg_stats), set by the caller, as in
                               struct asymreg_info */
    uint64_t n_regions;     /**< registered now */
    uint64_t n_segments;    /**< registrations with the transport now; without the table's own */
    uint64_t segment_bytes; /**< and their length, together; one that serves all private memory does
                               not count */
    uint64_t n_registrations; /**< registrations with the transport so far */
    /* Of the copies of peers' tables, since the peers that there are now were imported: */
    uint64_t n_refreshes; /**< that found something new */
    uint64_t n_records;   /**< log records read */
    uint64_t n_leaves;    /**< leaves of 128 slots read */
    uint64_t read_bytes;  /**< bytes read */
    uint64_t n_retries;   /**< reads repeated because a table changed meanwhile */
};

/**
 * @brief Figures of a context.
 * @param context  the context
 * @param stats    filled; set its size first
 * @return 0, -EINVAL
 *
 * Cost: a look at each peer. Waits for no refresh under way.
 */
ASYMREG_API int asymreg_context_stats(struct asymreg_context *context, struct asymreg_stats *stats);
/** @} */

/**
 * @name Descriptors by message
 * For peers that may not trace each other (sandboxes, Yama): shared memory only. MT-Safe.
 * @{
 */

/**
 * @brief Send the descriptors of the table and of all shared segments over a Unix socket.
 * @param context  the context
 * @param sock     a connected Unix socket; written without waiting for more than its buffer
 * @return how many were sent, ASYMREG_ENOTSUP (another transport), or -errno
 */
ASYMREG_API int asymreg_fds_send(struct asymreg_context *context, int sock);

/**
 * @brief Receive what asymreg_fds_send() of one peer sent, before asymreg_import() of its blob or
 *        later.
 * @param context  the context
 * @param sock     the other end
 * @return how many were new (of those that have been received before, none is kept twice),
 *         ASYMREG_ENOTSUP, ASYMREG_EBLOB (something else was sent), or -errno
 */
ASYMREG_API int asymreg_fds_recv(struct asymreg_context *context, int sock);
/** @} */

#ifdef __cplusplus
}
#endif
#endif /* ASYMREG_RMA_H */
