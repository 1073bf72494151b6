/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file rma.h
 * @brief Register any memory, give peers a *blob* once, and put, get and update by (PE, address).
 *
 * - A *context* (one or more in a process) has registered regions, a transport, and imported peers.
 * - A *region* is registered memory that peers may access. A context publishes a *table* of its
 *   regions.
 * - A *transport* moves the bytes. The built-in one uses shared memory and CMA (process_vm_readv,
 *   process_vm_writev); libasymreg-ucx and libasymreg-ibv use UCX and verbs.
 * - A *worker* (one for each thread) begins operations.
 * - A *PE* is the number that you give to a peer.
 * - A *blob* is what a context sends to its peers once, so that they can import it.
 * - A *segment* is one registration with the transport, in which many regions can lie. The
 *   published table has its *handle*: the bytes that peers need to access it.
 *
 * Nothing is collective: a process registers and unregisters at any time, and no peer takes part.
 * How the address of a region reaches a peer is up to you.
 *
 *     asymreg_open(NULL, &ctx, &err);                             // both sides
 *     asymreg_register(ctx, p, 4096, ASYMREG_RW, NULL, &id, &err); // the target: any memory
 *     n = asymreg_export(ctx, blob, sizeof(blob), &err);          // carried by PMI, a socket
 *     asymreg_import(ctx, 7, blob, n, &err);                      // the initiator
 *     asymreg_worker_create(ctx, &worker);
 *     asymreg_put(worker, 7, addr_of_p + 8, id, "x", 1);          // id, or ASYMREG_ANY
 *     asymreg_flush(worker, 7);                                   // it has arrived
 *
 * **Which table is used.** An operation looks up its region in this side's copy of the peer's
 * table. If the transport maps the peer's table, the operation first reads one cache line of that
 * table, which shows any change. After a change it refreshes the copy. If the transport does not
 * map the table, the operation uses the copy as it is. It refreshes the copy once, if the copy does
 * not permit the access or if the transport reports a stale handle (its registration has ended).
 *
 * A copy that is used as it is may be old. An operation may then access the addresses of a region
 * that has been unregistered, unless the transport refuses the operation. A transport need not
 * refuse it in these cases:
 *   - without ASYMREG_CAP_REVOKE: over CMA where the table cannot be mapped, and over
 *     libasymreg-ucx if UCX has an RDMA adapter or supports the memory of a GPU;
 *   - over libasymreg-ibv, if the registration outlives the region, because the region lies in a
 *     segment that the user made, or other regions share its registration;
 *   - over libasymreg-ucx, if another region with the same registration has the address now.
 *
 * In these cases, open the initiator's context with ASYMREG_FRESH, or let the initiator call
 * asymreg_refresh() before the operation. After a refresh that succeeds, the operation refuses a
 * region that was unregistered before the refresh. With ASYMREG_FRESH the operation fails if the
 * refresh fails.
 *
 * **Guarantees.** An operation checks its access against the region, and then accesses that region
 * only. If the check fails, the operation writes nothing. After the check two things can happen:
 *   -# The owner unregisters the region before the access. Then the operation accesses the memory
 *      that is at that address now, or fails with ASYMREG_EFAULT. asymreg_unregister_drain() or a
 *      transport with ASYMREG_CAP_REVOKE rules this out, except in the last two cases of the list
 *      above. Where nothing rules it out, unregister, notify the peers, and wait for their answer
 *      before you reuse the memory.
 *   -# The operation fails in the middle, and may have copied a part. Its error is then
 *      ASYMREG_EFAULT, ASYMREG_EPEER, ASYMREG_ERANGE, or an error of the transport or of a refresh.
 *      ASYMREG_ERANGE can come from the middle only with ASYMREG_SPLIT, or if the operation is
 *      longer than the transport's max_op_bytes: such operations run in pieces.
 *
 * **A peer that dies.** Within a second, operations in flight to the peer end with ASYMREG_EPEER,
 * and new operations return it. Over verbs the limit is asymreg_ibv_opts.timeout_ms instead of a
 * second. There are exceptions over UCX (asymreg-ucx.h) and for bound handles (bound.h). A peer
 * that is stopped (SIGSTOP) delays no operation over shared memory, CMA, or an established
 * connection of verbs.
 *
 * **fork().** The published table is in memory that parent and child share. So a child must not use
 * its parent's context. It must open its own. In a child, calls that would change the parent's
 * context (register, unregister, segments, import, forget, create a worker) return -EPERM, and
 * asymreg_close() and asymreg_worker_destroy() are no-ops. asymreg_ucx_create() fails in a process
 * that was forked while its parent had a transport of libasymreg-ucx.
 *
 * **exec().** To its peers, a process that calls exec() is gone: ASYMREG_EPEER. CMA checks this in
 * the system call that copies, and so never accesses the new program. Memory that peers have mapped
 * outlives the old program, and the new one shares it only by mapping the same file. An operation
 * on mapped memory, or a flush, checks for exec() if the last check was 20 ms ago or more. This
 * needs the permission to trace the peer: see asymreg_local_create().
 *
 * **Coalescing.** With ASYMREG_CAP_WHOLE_SPACE (CMA), one registration serves all private memory.
 * With other transports (UCX, verbs) each registration may pin pages, takes a microsecond or more,
 * needs a key in every peer that uses it, and counts towards max_segments. So regions can share
 * registrations: set asymreg_opts.coalesce_bytes, here C. For a region outside all segments, the
 * library then also registers the mapped memory around it, in the blocks of C bytes (aligned to C)
 * that the region touches. Later regions inside that range use the same registration. It ends when
 * the last region that uses it is unregistered.
 *   - The range stops at gaps, guard pages, memory of another file or origin, memory without the
 *     permissions, and existing segments.
 *   - The registration has the permissions of the region that it was made for. If it replaces
 *     earlier shared registrations, it has theirs too, where the memory allows them. A region that
 *     needs more permissions gets a new registration, which later regions share. Earlier regions
 *     keep the old one.
 *   - If the transport refuses the larger range, the library registers the region alone.
 *   - Coalescing has three costs: C bytes may be pinned for a region of a few bytes; each new
 *     registration reads /proc/self/maps (some microseconds, more with many mappings); and only the
 *     initiator's check, not the hardware, separates neighbours. ASYMREG_ALONE avoids all three.
 *   - A rule for the caller: if memory was unmapped, remapped or dropped (munmap, mremap,
 *     MADV_DONTNEED, and possibly free()) while a region *near* it was registered, register that
 *     memory with ASYMREG_REMAPPED. (Near: one registration may include both.) Otherwise a
 *     transport that pins would access the old pages.
 *
 * Source: "Asymmetric Memory Extension for OpenSHMEM", sections 2 and 3 (register, unregister, put,
 * get; refresh and retry) and 5 (atomics). Identifiers, permissions and errors are ours.
 */
#ifndef ASYMREG_RMA_H
#define ASYMREG_RMA_H

#include <sys/types.h>

#include <asymreg/base.h>
#include <asymreg/transport.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Longest bootstrap blob, bytes. With the built-in transport a blob is shorter than 512. */
#define ASYMREG_MAX_BLOB_BYTES 8192u
/** Most peers of a context: PEs are below this. */
#define ASYMREG_MAX_PEERS 0x1000000u

/** A context. */
struct asymreg_context;
/** The state that one thread needs to begin operations. */
struct asymreg_worker;

/**
 * @name Life cycle
 * @{
 */

/**
 * asymreg_opts.flags: split a put or get with ASYMREG_ANY that crosses from one region into the
 * adjacent one, instead of refusing it with ASYMREG_ERANGE.
 */
#define ASYMREG_SPLIT 1u
/**
 * asymreg_opts.flags: each operation on a peer whose table is not mapped first checks whether the
 * table has changed. This costs one more remote read for each operation.
 */
#define ASYMREG_FRESH 2u
/**
 * asymreg_opts.flags: peers on this node publish that they are inside an operation, so that
 * asymreg_unregister_drain() can wait for its end. This costs a peer two stores an operation. A
 * peer that cannot map the memory in which it would publish its operations cannot import this
 * context: ASYMREG_EUNREACH. Over UCX and verbs the flag has no effect.
 */
#define ASYMREG_DRAIN 4u

/** asymreg_opts.coalesce_bytes: the whole mapping around a region, without a cap. */
#define ASYMREG_COALESCE_MAPPING UINT64_MAX

/** Options of a context. Zero the struct, set `size`, then the members that differ from the
 * default. */
struct asymreg_opts {
    size_t size;    /**< sizeof(struct asymreg_opts) */
    uint32_t flags; /**< ASYMREG_SPLIT, ASYMREG_FRESH, ASYMREG_DRAIN */
    /**
     * most regions at a time, up to ASYMREG_MAX_REGIONS, rounded up to a multiple of 128; 0:
     * 1,048,576. The published table has 32 bytes for each region, and for each segment 32 bytes
     * and the longest handle. Unused parts take only address space; but a transport that pins
     * registrations pins the whole table
     */
    uint32_t max_regions;
    /** most segments at a time, up to ASYMREG_MAX_SEGMENTS; 0: max_regions + 1, but at most 65,536
     */
    uint32_t max_segments;
    /** number of records in the table's log of changes, from which peers refresh their copies: a
     * power of two from 16 to 1,048,576; 0: 4096 */
    uint32_t ring;
    /** transport of the context; NULL: asymreg_local_create(). asymreg_open() takes it over, and
     * destroys it if the call fails. The transport remains yours only if the call refuses `size`
     * (below sizeof(struct asymreg_opts) or above 4,096) */
    struct asymreg_transport *transport;
    /** 0: no coalescing; a power of two, raised to the page size if it is less; or
     * ASYMREG_COALESCE_MAPPING: see "Coalescing" above */
    uint64_t coalesce_bytes;
    /** NULL: libc's. The published table, copies of peers' tables, and nodes of search trees are
     * always in mapped pages */
    const struct asymreg_allocator *allocator;
};

/**
 * @brief Open a context and publish its empty table.
 * @param opts  NULL: defaults
 * @param out   the new context
 * @param err   detail on failure, or NULL
 * @return 0, -EINVAL (options, or a transport without a required function), -ENOMEM,
 *         ASYMREG_EVERSION (the transport is of another version), -EFBIG (the table is shared
 *         memory, and larger than RLIMIT_FSIZE), another -errno, or an error of the transport
 *
 * MT-Safe. Allocates; starts no thread and installs no signal handler.
 */
ASYMREG_API int asymreg_open(const struct asymreg_opts *opts, struct asymreg_context **out,
                             struct asymreg_error *err);

/**
 * @brief Close a context. Destroy its workers first. After the call, operations of its peers fail
 *        with ASYMREG_EPEER. The call waits for no peer. NULL is allowed.
 *
 * Registered memory remains the caller's: the call frees only memory of asymreg_segment_alloc(). In
 * a child of the process that opened the context, the call is a no-op. No other thread may use the
 * context during the call.
 * @param context  the context
 */
ASYMREG_API void asymreg_close(struct asymreg_context *context);

/**
 * @brief Make a worker.
 * @param context  its context
 * @param out      the new worker
 * @return 0, -EINVAL, -EPERM (in a child), -ENOMEM
 *
 * MT-Safe. Allocates.
 */
ASYMREG_API int asymreg_worker_create(struct asymreg_context *context, struct asymreg_worker **out);

/**
 * @brief Flush a worker's operations, and free the worker. NULL is allowed. In a child of the
 *        process that opened the context this is a no-op.
 *
 * The flush has no time limit. Over UCX, if operations to a stopped peer are in flight, it waits
 * for that peer. To avoid this, first forget the peer: asymreg_forget().
 */
ASYMREG_API void asymreg_worker_destroy(struct asymreg_worker *worker);
/** @} */

/**
 * @name Registering
 * MT-Safe; registrations of one context are serialized.
 * @{
 */

/**
 * asymreg_register_opts.flags: if exactly this range is registered with the same permissions, add
 * one user to that registration. It ends when each user has called asymreg_unregister().
 */
#define ASYMREG_SHARE 1u
/**
 * asymreg_register_opts.flags: the file behind `fd` is never shortened: see ASYMREG_MEM_TRUSTED.
 */
#define ASYMREG_TRUSTED 2u
/**
 * asymreg_register_opts.flags: make a transport registration for this region alone, even if the
 * context coalesces. This has no effect in a segment, or if one registration serves all private
 * memory.
 */
#define ASYMREG_ALONE 4u
/**
 * asymreg_register_opts.flags: the memory was unmapped, remapped or dropped while a region near it
 * was registered: do not share a registration that coalescing made before. See "Coalescing".
 */
#define ASYMREG_REMAPPED 8u
/** asymreg_register_opts.flags: `fd` and `fd_offset` are set. */
#define ASYMREG_FD 16u
/**
 * asymreg_register_opts.flags: make a *segment*: register the memory with the transport, but not as
 * a region. Peers reach only the regions that you then register in it.
 */
#define ASYMREG_SEGMENT 32u

/** Options of a registration. Zero the struct, set `size`, then the members that differ from the
 * default. */
struct asymreg_register_opts {
    size_t size;    /**< sizeof(struct asymreg_register_opts) */
    uint32_t flags; /**< ASYMREG_SHARE, ALONE, REMAPPED, FD, TRUSTED, SEGMENT */
    /**
     * ASYMREG_KIND_*; 0: host memory. Memory of a device (GPU) gets a registration of its own, or
     * lies in a segment of the same kind. The library never loads or stores memory of a device:
     * such memory may be the target of an operation, but not its `src` or `dst`.
     * ASYMREG_KIND_DMABUF needs ASYMREG_FD, and must not lie in a segment.
     *
     * A transport returns ASYMREG_ENOTSUP for a kind that it cannot use. Shared memory and CMA can
     * use none of these kinds. libasymreg-ibv cannot use CUDA and ROCm. libasymreg-ucx cannot use
     * dma-bufs, and can use CUDA or ROCm only if UCX reports support for it in this process.
     * Untested: the code compiles against UCX's and libibverbs' headers, but was never run on a
     * device
     */
    uint32_t kind;
    /** with ASYMREG_FD: the file, memfd or /dev/shm object of which the memory is a MAP_SHARED
     * mapping; with ASYMREG_KIND_DMABUF the dma-buf. You may close it after the call */
    int32_t fd;
    uint32_t reserved;  /**< 0 */
    uint64_t fd_offset; /**< offset in `fd` at which `addr` lies, bytes */
};

/**
 * @brief Make memory reachable for peers, from now on.
 *
 * The memory may be anywhere: malloc, stack, static data, a mapped file. The region uses one of
 * these registrations with the transport:
 *
 *   - In a segment (of ASYMREG_SEGMENT or asymreg_segment_alloc()): the segment's.
 *   - With ASYMREG_FD: one of its own. Over shared memory, peers map the file, and access it by
 *     loads and stores if nobody can shorten it: see asymreg_local_create().
 *   - With a transport that has ASYMREG_CAP_WHOLE_SPACE: the one of all private memory.
 *   - Otherwise: one of its own, or a shared one, see "Coalescing".
 *
 * @param context  the context
 * @param addr     first byte, not NULL; need not be aligned
 * @param bytes    length, more than 0
 * @param prot     ASYMREG_READ, ASYMREG_WRITE, ASYMREG_ATOMIC: operations allowed to peers; for a
 *                 segment, the most that its regions may allow
 * @param opts     NULL: defaults
 * @param id       names this registration; may be NULL; untouched with ASYMREG_SEGMENT
 * @param err      detail on failure, or NULL
 * @return 0; or one of these, and nothing is registered:
 *   - -EINVAL: no bytes, NULL, no permission, unknown bits or kind; flags that exclude each other;
 *     members that are set without their flag; a dma-buf without ASYMREG_FD, or CUDA or ROCm memory
 *     with it
 *   - -EPERM: in a child
 *   - -EBADF; ASYMREG_EOVERFLOW; -ENOMEM
 *   - ASYMREG_EOVERLAP: the memory overlaps a region; or it begins before a segment and overlaps
 *     it; or, with ASYMREG_SEGMENT or ASYMREG_FD, it overlaps a segment in any way
 *   - ASYMREG_EFULL: max_regions or max_segments is reached, or a registration has 2^32 users
 *   - ASYMREG_EACCES: `prot` has more than the segment or `fd` permits
 *   - ASYMREG_ERANGE: the memory begins in a segment and runs past the segment's end
 *   - ASYMREG_ENOTSUP: the transport cannot use a descriptor or this kind of memory, or needs a
 *     descriptor
 *   - another error of the transport
 *
 * Cost: 0.18 µs at 100 regions, 0.81 µs at a million (because of cache misses); plus the time of
 * the transport's registration if the region needs one. In shared memory each segment, and each
 * region with ASYMREG_FD, needs one descriptor here, and one mapping in each peer that uses it.
 */
ASYMREG_API int asymreg_register(struct asymreg_context *context, const void *addr, size_t bytes,
                                 uint32_t prot, const struct asymreg_register_opts *opts,
                                 asymreg_id *id, struct asymreg_error *err);

/**
 * @brief End a registration (or one user of a shared one).
 * @param context  the context
 * @param id       from asymreg_register()
 * @return 0; or -EINVAL, -EPERM (in a child), ASYMREG_ESTALE, -ENOMEM: nothing was changed
 *
 * An operation that a peer begins after the return is refused if the transport maps the table, or
 * reports the stale handle (see "Which table is used" at the head of this file). Otherwise it is
 * refused once the peer has refreshed its copy. For operations in flight see "Guarantees" there.
 *
 * The call does not access the memory itself. If an operation of this context uses the memory as
 * its buffer, complete that operation first: over libasymreg-ibv the operation may otherwise end
 * with ASYMREG_EFAULT.
 */
ASYMREG_API int asymreg_unregister(struct asymreg_context *context, asymreg_id id);
/** @} */

/**
 * @name Peers
 * MT-Safe.
 * @{
 */

/**
 * @brief Write the bootstrap blob, with which others reach this context.
 * @param context  the context
 * @param buf      receives the blob. The blob is valid as long as the context, also for regions
 *                 registered later
 * @param cap      size of `buf`; ASYMREG_MAX_BLOB_BYTES is always enough
 * @param err      detail on failure, or NULL
 * @return the blob's length; -ENOBUFS (`cap` is too small); -EINVAL; or an error of the transport
 */
ASYMREG_API ssize_t asymreg_export(struct asymreg_context *context, void *buf, size_t cap,
                                   struct asymreg_error *err);

/**
 * @brief Import another context, or this one, under a number. The imported context takes no part.
 * @param context  the context
 * @param pe       the number, below ASYMREG_MAX_PEERS, not in use
 * @param blob     the bytes that asymreg_export() of that context wrote
 * @param bytes    its length
 * @param err      detail on failure, or NULL
 * @return 0; or one of these, and nothing is imported:
 *   - -EINVAL; -EEXIST (the number is in use); -EPERM (in a child); -ENOMEM
 *   - ASYMREG_EBLOB; ASYMREG_EVERSION
 *   - ASYMREG_EUNREACH: the transport cannot reach the peer; or the peer uses another transport; or
 *     the peer has ASYMREG_DRAIN, and this process cannot map the memory in which it would publish
 *     its operations
 *   - ASYMREG_EPEER: the peer has gone already
 *   - ASYMREG_ETABLE: the peer's table is damaged
 *   - ASYMREG_EBUSY: the peer's table changes too fast
 *   - another error of the transport
 *
 * The call maps the peer's table if the transport can. It reads and checks the table's header if
 * the table is mapped, or if the transport stays on one node. The first operation reads the rest.
 */
ASYMREG_API int asymreg_import(struct asymreg_context *context, uint32_t pe, const void *blob,
                               size_t bytes, struct asymreg_error *err);

/**
 * @brief Forget a peer, dead or alive. No thread may be using it.
 * @param context  the context
 * @param pe       its number, free for another import afterwards
 * @return 0; or ASYMREG_ENOPEER, ASYMREG_EBUSY (a handle of bound.h is bound to it), -EPERM (in a
 *         child): nothing was changed
 */
ASYMREG_API int asymreg_forget(struct asymreg_context *context, uint32_t pe);
/** @} */

/**
 * @name Operations
 * A worker belongs to one thread at a time; distinct workers are independent. At most 4096 workers,
 * of all processes together, can use a peer that has ASYMREG_DRAIN; further ones get ASYMREG_EFULL.
 *
 * `id` is the registration to which the address must belong, or ASYMREG_ANY. A put or get of 0
 * bytes only checks that the peer is alive, for any address. Each operation returns 0 or:
 *   - -EINVAL: `src` or `dst` is NULL, and `bytes` is not 0
 *   - ASYMREG_ENOPEER; ASYMREG_EPEER; ASYMREG_EUNREACH
 *   - ASYMREG_ENOREGION: `id` is ASYMREG_ANY, and nothing is registered there
 *   - ASYMREG_ERANGE: the access runs past the region, or begins outside the region that `id`
 *     names. Or a later piece of an operation in pieces was refused ("Guarantees", above)
 *   - ASYMREG_ESTALE: `id` is unregistered. With ASYMREG_ANY: this side's copy of the peer's table
 *     had a region there, and the newest table has none
 *   - ASYMREG_EACCES: the region or its file does not permit it; nothing was copied
 *   - ASYMREG_EOVERFLOW; ASYMREG_EFAULT; ASYMREG_ENOTSUP
 *   - ASYMREG_EBUSY, ASYMREG_ETABLE, ASYMREG_EVERSION or -ENOMEM from the first use of the peer or
 *     of a segment, or from a refresh of the copy of the peer's table
 *   - ASYMREG_EFULL (above); or another error of the transport
 *
 * asymreg_resolve() explains a failure in a sentence.
 *
 * For readers who know OpenSHMEM:
 *
 *   - put, get, put_nbi, get_nbi: asymreg_put(), asymreg_get(), asymreg_put_nb(), asymreg_get_nb()
 *   - quiet, fence: asymreg_flush(), asymreg_fence(), with ASYMREG_ALL_PEERS
 *   - iput: asymreg_put_many(), then asymreg_flush()
 *   - iget: asymreg_get_nb() for each element, then asymreg_flush()
 *   - atomics: asymreg_fetch_add64() and the other calls of asymreg/atomic.h
 *   - put_signal: asymreg_put_signal(); wait_until and test: asymreg_wait_until(), for test with a
 *     timeout of 0
 *   - shmem_ptr(): asymreg_bound_ptr()
 * @{
 */

/**
 * @brief Copy to a peer. When it returns, `src` may be reused; a flush guarantees arrival.
 * @param worker  this thread's worker
 * @param pe      the peer
 * @param raddr   address there, anywhere in a region
 * @param id      registration meant, or ASYMREG_ANY
 * @param src     bytes to copy
 * @param bytes   how many
 * @return see above
 *
 * Cost: one lookup and one put of the transport for each piece. A piece is at most 128 KiB over
 * libasymreg-ucx and 64 KiB over libasymreg-ibv, and with ASYMREG_SPLIT it lies in one region. Over
 * shared memory and CMA, once this worker has used the segment, the call allocates nothing and
 * takes no lock, unless it refreshes the copy of the peer's table. Over UCX and verbs it takes a
 * lock. If libasymreg-ucx sends a put of more than 64 bytes as a message, the call allocates a copy
 * of the bytes.
 */
ASYMREG_API int asymreg_put(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,
                            asymreg_id id, const void *src, size_t bytes);

/**
 * @brief Copy from a peer. When it returns, the bytes are in `dst`.
 * @param worker  this thread's worker
 * @param pe      the peer
 * @param raddr   address there
 * @param id      registration meant, or ASYMREG_ANY
 * @param dst     destination
 * @param bytes   how many
 * @return see above; `dst` may be partly written on failure
 */
ASYMREG_API int asymreg_get(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,
                            asymreg_id id, void *dst, size_t bytes);

/**
 * A request: one operation of asymreg_put_nb() or asymreg_get_nb(), in the caller's memory. The
 * caller keeps it valid, and does not touch it, until asymreg_req_test() or asymreg_req_wait() has
 * returned another result than ASYMREG_PENDING.
 */
struct asymreg_req {
    struct asymreg_op op; /**< the transport's; all members are the library's */
    uint64_t raddr, bytes;
    asymreg_id id;
    uint64_t serial; /**< of the peer */
    uint32_t pe;
    uint32_t need; /**< ASYMREG_WRITE: a put; ASYMREG_READ: a get */
    uint32_t in_flight;
    uint32_t reserved;
};

/**
 * @brief As asymreg_put(), but `src` must not change before the operation is complete.
 * @param worker  this thread's worker
 * @param pe      the peer
 * @param raddr   address there, anywhere in a region
 * @param id      registration meant, or ASYMREG_ANY
 * @param src     bytes to copy
 * @param bytes   how many
 * @param req     NULL: asymreg_flush() completes the operation, and reports an error that occurs
 *                after this call. Otherwise asymreg_req_test() or asymreg_req_wait() does both
 * @return see above. After a failure `req` has the error, which asymreg_req_wait() explains
 *
 * The library splits an operation that is longer than the transport permits (libasymreg-ucx: 128
 * KiB). With a request, only the last piece is in flight when the call returns.
 */
ASYMREG_API int asymreg_put_nb(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,
                               asymreg_id id, const void *src, size_t bytes,
                               struct asymreg_req *req);

/**
 * @brief As asymreg_get(), but `dst` is filled only when the operation is complete.
 * @param worker  this thread's worker
 * @param pe      the peer
 * @param raddr   address there
 * @param id      registration meant, or ASYMREG_ANY
 * @param dst     destination
 * @param bytes   how many
 * @param req     as for asymreg_put_nb()
 * @return as asymreg_put_nb()
 */
ASYMREG_API int asymreg_get_nb(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,
                               asymreg_id id, void *dst, size_t bytes, struct asymreg_req *req);

/**
 * @brief Report whether a request is complete. Progresses operations, and does not wait for them.
 * @param worker  the worker that began it
 * @param req     the request
 * @param err     on failure names the operation (put or get, peer, address, length), and gives the
 *                reason as asymreg_resolve() does; or NULL
 * @return
 *   - 0: complete: the buffer is the caller's again, and `dst` of a get is filled
 *   - ASYMREG_PENDING
 *   - the operation's error. After ASYMREG_ESTALE, repeat the operation: the call has refreshed
 *     this side's copy of the peer's table
 *
 * When the request of a put is complete, the put need not have arrived: as after asymreg_put(),
 * only a flush guarantees that. asymreg_flush() and asymreg_fence() include operations with
 * requests, but do not report their errors: asymreg_req_test() and asymreg_req_wait() do.
 */
ASYMREG_API int asymreg_req_test(struct asymreg_worker *worker, struct asymreg_req *req,
                                 struct asymreg_error *err);

/**
 * @brief As asymreg_req_test(), but waits until the request is complete.
 * @param worker  the worker that began it
 * @param req     the request
 * @param err     as for asymreg_req_test()
 * @return as asymreg_req_test(), never ASYMREG_PENDING
 */
ASYMREG_API int asymreg_req_wait(struct asymreg_worker *worker, struct asymreg_req *req,
                                 struct asymreg_error *err);

/** asymreg_flush(), asymreg_fence(): every peer that the worker has used. */
#define ASYMREG_ALL_PEERS UINT32_MAX

/**
 * @brief Wait until all operations that the worker has begun on a peer are complete there.
 * @param worker  this thread's worker
 * @param pe      the peer, or ASYMREG_ALL_PEERS
 * @return
 *   - 0
 *   - ASYMREG_EPEER; ASYMREG_ENOPEER
 *   - the first error of an operation that was begun with _nb and without a request, and failed
 *     later. After ASYMREG_ESTALE, repeat the operation: the call has refreshed this side's copy of
 *     the peer's table. If several workers use a peer, the first worker that flushes gets such an
 *     error, also of another worker's operation
 *   - an error of the transport; or, if the worker has not used the peer before, any error that
 *     asymreg_put() can return
 *
 * The flushed operations happen-before all later actions of this thread: a process that sees a
 * later store or message of this thread also sees the data.
 */
ASYMREG_API int asymreg_flush(struct asymreg_worker *worker, uint32_t pe);

/**
 * @brief Order operations on a peer: puts and atomics begun before the fence take effect there
 *        before those begun after it. Gets are not ordered.
 * @param worker  this thread's worker
 * @param pe      the peer; or ASYMREG_ALL_PEERS: orders the operations on each peer by itself
 * @return 0; ASYMREG_ENOPEER; ASYMREG_EPEER; or another result of asymreg_flush()
 *
 * Where the transport keeps the order by itself (ASYMREG_CAP_DIRECT: shared memory and CMA;
 * ASYMREG_CAP_ORDERED: libasymreg-ibv), the call completes nothing, and so reports no error of an
 * operation begun before. Elsewhere it is a flush.
 */
ASYMREG_API int asymreg_fence(struct asymreg_worker *worker, uint32_t pe);

/**
 * @brief An atomic operation on 4 or 8 bytes of a peer, complete at the target when it returns.
 * @param worker   this thread's worker
 * @param pe       the peer
 * @param raddr    address there, a multiple of `bytes`
 * @param id       registration meant, or ASYMREG_ANY; it must permit ASYMREG_ATOMIC
 * @param which    ASYMREG_AMO_*
 * @param bytes    4 or 8
 * @param operand  operand of the operation
 * @param compare  for ASYMREG_AMO_COMPARE_SWAP
 * @param result   the value before; may be NULL
 * @return see above; ASYMREG_EALIGN (`raddr`, or its place in the mapped file, is no multiple of
 *         `bytes`); -EINVAL (another size or operation)
 *
 * If the transport lacks the operation but has compare-and-swap, the library repeats a
 * compare-and-swap until it succeeds, in several round trips. asymreg/atomic.h has the operations
 * by type.
 */
ASYMREG_API int asymreg_amo(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,
                            asymreg_id id, uint32_t which, uint32_t bytes, uint64_t operand,
                            uint64_t compare, uint64_t *result);

/** The signal that asymreg_put_signal() makes after the data have arrived. */
struct asymreg_signal {
    uint64_t addr; /**< address of 8 aligned bytes at the peer */
    /** registration meant, or ASYMREG_ANY. The region must permit ASYMREG_ATOMIC. Where atomics do
     * not work, ASYMREG_AMO_SET becomes a put. Over CMA, and in a file that could be shortened, the
     * region must then permit ASYMREG_WRITE too. Over a transport without any atomics it needs
     * only ASYMREG_WRITE */
    asymreg_id id;
    uint64_t value;    /**< operand */
    uint32_t what;     /**< ASYMREG_AMO_SET or ASYMREG_AMO_ADD */
    uint32_t reserved; /**< 0 */
};

/**
 * @brief As asymreg_put(), then a signal: a peer that sees the signal also sees the data.
 * @param worker  this thread's worker
 * @param pe      the peer
 * @param raddr   address there
 * @param id      registration meant, or ASYMREG_ANY
 * @param src     bytes to copy
 * @param bytes   how many
 * @param signal  the signal
 * @return as asymreg_put(), asymreg_fence() and asymreg_amo(). Nothing was put if `signal` is NULL
 *         or has a wrong member (-EINVAL), or if signal->addr is no multiple of 8 (ASYMREG_EALIGN).
 *         After an error of the put or the fence, no signal was sent. After an error of the atomic,
 *         the data have been put
 *
 * Cost: a put, a fence and an atomic.
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
#define ASYMREG_CMP_SIGNED 16u /**< combined with one of them: signed numbers */

/** asymreg_wait_until(): without a timeout. */
#define ASYMREG_FOREVER UINT32_MAX

/**
 * @brief Wait until memory of this process that peers write satisfies a comparison. The worker's
 *        operations progress meanwhile.
 * @param worker      this thread's worker
 * @param addr        4 or 8 aligned bytes
 * @param bytes       4 or 8
 * @param compare     ASYMREG_CMP_*: how the memory must compare with `value`
 * @param value       right-hand side of the comparison
 * @param timeout_ms  milliseconds; 0: do not wait; ASYMREG_FOREVER: no limit. If the peer that
 *                    should write dies, this call does not notice; an operation on that peer does
 * @return 0; ASYMREG_ETIMEDOUT; -EINVAL; ASYMREG_EALIGN; or an error of the transport
 *
 * When it returns 0 because of a signal of asymreg_put_signal(), the data put before the signal
 * have arrived.
 */
ASYMREG_API int asymreg_wait_until(struct asymreg_worker *worker, const void *addr, uint32_t bytes,
                                   uint32_t compare, uint64_t value, uint32_t timeout_ms);

/** One of many puts: asymreg_put_many(). */
struct asymreg_transfer {
    uint64_t raddr; /**< address at the peer, anywhere in a region */
    asymreg_id id;  /**< registration meant, or ASYMREG_ANY */
    void *here;     /**< the bytes to copy; they are only read */
    size_t bytes;   /**< how many */
};

/**
 * @brief Begin many puts, in the order of the array, each as asymreg_put_nb() without a request.
 * @param worker     this thread's worker
 * @param pe         the peer
 * @param transfers  array of n
 * @param n          how many
 * @param done       NULL, or receives how many were begun: n, or after a failure the number before
 *                   the one that failed
 * @return 0; or an error of asymreg_put(), from the first put that fails; later ones are not begun
 *
 * It is for runtimes that collect puts: MPI's indexed types, lists of addresses.
 *
 * Cost: over shared memory and CMA, and without ASYMREG_DRAIN, 32 searches advance together, so
 * that their cache misses overlap. In shared memory, compared with one asymreg_put() for each
 * transfer, this takes 0.37 times as long with a million regions, 0.74 times with 100,000, and 1.3
 * times with 1,000 or fewer, where searches do not miss the cache (bench_asym_bound).
 */
ASYMREG_API int asymreg_put_many(struct asymreg_worker *worker, uint32_t pe,
                                 const struct asymreg_transfer *transfers, size_t n, size_t *done);

/**
 * @brief Progress pending operations without blocking.
 * @param worker  this thread's worker
 * @return how many operations of this context have completed, plus how many operations of peers
 *         were executed here; or an error of the transport
 */
ASYMREG_API int asymreg_progress(struct asymreg_worker *worker);

/**
 * @brief Find the region of a peer that contains [raddr, raddr + bytes), and the reason why an
 *        operation there would fail.
 * @param worker  this thread's worker
 * @param pe      the peer
 * @param raddr   address there
 * @param id      registration meant, or ASYMREG_ANY
 * @param bytes   length; 0: only `raddr` must lie in the region
 * @param need    permissions needed, or 0
 * @param region  receives the region; or NULL
 * @param err     on failure: the range, the bounds and permissions of the region there, and the
 *                reason; or NULL
 * @return the result that an operation there would have without ASYMREG_SPLIT. With `need`, the
 *         built-in transport also checks the first and the last byte: ASYMREG_EFAULT if one is not
 *         mapped, or if a put over CMA could not write it. Over other transports only the operation
 *         itself returns ASYMREG_EFAULT
 *
 * Call it after an operation has failed: operations themselves spend no time on explanations. With
 * `need`, the built-in transport may read two bytes of the memory and the peer's /proc/PID/maps.
 */
ASYMREG_API int asymreg_resolve(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,
                                asymreg_id id, size_t bytes, uint32_t need,
                                struct asymreg_region *region, struct asymreg_error *err);

/**
 * @brief Update the copy of a peer's table now. MT-Safe.
 * @param context  the context
 * @param pe       the peer
 * @return number of changes; ASYMREG_ENOPEER; ASYMREG_EPEER; ASYMREG_EBUSY (the table
 *         changed during every try); ASYMREG_ETABLE; ASYMREG_EVERSION; -ENOMEM; or an error of the
 *         transport
 *
 * After an error each region in the copy is as it was at some earlier moment, until a refresh
 * succeeds.
 *
 * Cost: if nothing has changed, one read, by CMA (1.4 µs) or of mapped memory, and a check that the
 * peer is alive. After changes, two more reads for up to 1,024 changes, if the log of changes
 * reaches back to the last refresh. If it does not, the call reads a generation for each leaf (128
 * slots of the table), and the leaves that have changed.
 */
ASYMREG_API int asymreg_refresh(struct asymreg_context *context, uint32_t pe);
/** @} */

/**
 * @name Unregistering and reusing the memory
 * MT-Safe.
 * @{
 */

/**
 * @brief Unregister a region, and return when no peer's operation on it is in flight. Then you may
 *        reuse the memory.
 * @param context     the context
 * @param id          from asymreg_register(). ASYMREG_ANY: unregister nothing, and wait for all
 *                    operations of peers that are in flight at the call; for example once after
 *                    several asymreg_unregister()
 * @param timeout_ms  longest wait for peers, milliseconds
 * @param err         detail on failure, or NULL
 * @return
 *   - 0
 *   - ASYMREG_ETIMEDOUT: unregistered, but an operation of a peer may still be in flight (the peer
 *     is stopped, or its transfer is long). Continue to wait with ASYMREG_ANY
 *   - ASYMREG_ENOTSUP: nothing was changed: the transport cannot guarantee this, the context lacks
 *     ASYMREG_DRAIN, or the region shares its registration (see below)
 *   - ASYMREG_EBUSY: nothing was changed: the registration has other users (ASYMREG_SHARE)
 *   - ASYMREG_ESTALE; -EINVAL; -ENOMEM; -EPERM (in a child): nothing was changed
 *   - an error of the transport: the region is unregistered, but the transport could not end its
 *     own registration of the memory
 *
 * When the call returns 0, no operation of a peer on the region is in flight, and later ones are
 * refused. The transports differ:
 *   - Shared memory and CMA: the call works in a context with ASYMREG_DRAIN. It waits for
 *     operations that read the table before the table changed. A peer that dies during the call
 *     does not block the call. Peers are trusted: each can write to the memory in which all of them
 *     publish their operations.
 *   - libasymreg-ibv (ASYMREG_CAP_REVOKE, no guard): the call works for a region with a
 *     registration of its own. The adapter ends operations in flight and refuses later ones,
 *     without waiting for a peer. The call returns ASYMREG_ENOTSUP for a region in a segment, for a
 *     region whose registration others share, and for ASYMREG_ANY.
 *   - libasymreg-ucx where UCX has neither an RDMA adapter nor support for a GPU
 *     (ASYMREG_CAP_REVOKE and a guard, see struct asymreg_guard): the call works for any region and
 *     for ASYMREG_ANY. The target checks each operation before executing it, so the call waits
 *     for no peer, only for an operation that this process is executing. The check does not compare
 *     `id`: see "Which table is used".
 *   - Others: ASYMREG_ENOTSUP. Notify the peers, and wait until they have flushed.
 *
 * Cost over shared memory and CMA: a system call and a read of what each worker of a peer
 * publishes. In addition:
 *
 *   - If no peer runs: half a microsecond.
 *   - If peers run: membarrier(), which interrupts each processor that runs a peer, and the rest of
 *     each peer's current operation. This takes 17 to 48 µs with one peer and two processors of a
 *     busy virtual machine (bench_asym_register, case drain).
 *   - If a peer was preempted inside an operation: the time until the scheduler runs it again,
 *     milliseconds if there are more runnable threads than processors.
 *
 * After several asymreg_unregister(), one call with ASYMREG_ANY waits for all.
 */
ASYMREG_API int asymreg_unregister_drain(struct asymreg_context *context, asymreg_id id,
                                         uint32_t timeout_ms, struct asymreg_error *err);
/** @} */

/**
 * @name Segments: one registration with the transport, many regions
 * MT-Safe.
 * @{
 */

/**
 * @brief Allocate memory as a segment. Register regions in it as usual. Over shared memory, peers
 *        access it by loads and stores.
 * @param context  the context
 * @param bytes    rounded up to pages
 * @param addr     receives the address of zeroed pages, which stay until asymreg_segment_remove()
 *                 or asymreg_close()
 * @param err      detail on failure, or NULL
 * @return 0; or one of these, and nothing is allocated: -EINVAL; -EPERM (in a child); -ENOMEM;
 *         ASYMREG_EFULL (max_segments); -EFBIG (RLIMIT_FSIZE); ASYMREG_EOVERLAP (at the new address
 *         the caller has unmapped memory that is still registered); another -errno; or an error of
 *         the transport
 */
ASYMREG_API int asymreg_segment_alloc(struct asymreg_context *context, size_t bytes, void **addr,
                                      struct asymreg_error *err);

/**
 * @brief End a segment, and free its memory if asymreg_segment_alloc() made it.
 * @param context  the context
 * @param addr     where it begins
 * @return 0; or -EINVAL, -EPERM (in a child), ASYMREG_ENOREGION (no segment of the caller begins
 *         there), ASYMREG_EBUSY (a region lies in it), -ENOMEM: nothing was changed
 */
ASYMREG_API int asymreg_segment_remove(struct asymreg_context *context, const void *addr);
/** @} */

/**
 * @name Statistics of a context
 * MT-Safe. Allocates nothing.
 * @{
 */

/** Statistics of a context at the time of the call. */
struct asymreg_stats {
    /** sizeof(struct asymreg_stats), set by the caller. The call fills in no more bytes than that.
     * A size below that of the first release: -EINVAL */
    size_t size;
    uint64_t n_regions;  /**< registered now */
    uint64_t n_segments; /**< registrations with the transport now, without the table's own */
    /** total length of the segments, without a registration that serves all private memory */
    uint64_t segment_bytes;
    uint64_t n_registrations; /**< registrations with the transport so far */
    /* Copies of the tables of currently imported peers, since their import: */
    uint64_t n_refreshes; /**< refreshes that found a change */
    uint64_t n_records;   /**< records of the tables' logs read */
    uint64_t n_leaves;    /**< leaves read: stretches of 128 slots of a table */
    uint64_t read_bytes;  /**< bytes read */
    uint64_t n_retries;   /**< reads repeated because a table changed meanwhile */
};

/**
 * @brief Return the statistics of a context.
 * @param context  the context
 * @param stats    filled; set its size first
 * @return 0, -EINVAL
 *
 * Cost: a pass over all PEs up to the highest. The call waits for a registration or an import in
 * progress, but not for a refresh.
 */
ASYMREG_API int asymreg_context_stats(struct asymreg_context *context, struct asymreg_stats *stats);
/** @} */

/**
 * @name Descriptors by message
 * Shared memory only, for peers that may not trace each other (sandboxes, Yama). MT-Safe.
 * @{
 */

/**
 * @brief Send descriptors over a Unix socket: those of the table, of all segments in shared memory,
 *        and of regions with ASYMREG_FD.
 * @param context  the context
 * @param sock     a connected Unix socket; the call blocks only while its buffer is full
 * @return number sent; ASYMREG_ENOTSUP (another transport); or -errno: some may have been sent
 */
ASYMREG_API int asymreg_fds_send(struct asymreg_context *context, int sock);

/**
 * @brief Wait for the descriptors that a peer sends by one asymreg_fds_send(), and receive them.
 *        Call this before asymreg_import() of the peer's blob: the import needs the table's
 *        descriptor. For segments that the peer makes later, both sides repeat their calls.
 * @param context  the context
 * @param sock     the other end
 * @return number of new descriptors (a duplicate is closed); or ASYMREG_ENOTSUP, ASYMREG_EBLOB (the
 *         peer sent something else, or closed the socket) or -errno. After an error the descriptors
 *         received before are kept
 */
ASYMREG_API int asymreg_fds_recv(struct asymreg_context *context, int sock);
/** @} */

#ifdef __cplusplus
}
#endif
#endif /* ASYMREG_RMA_H */
