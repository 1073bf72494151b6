/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file transport.h
 * @brief The table of operations that a transport implements to move the bytes.
 *
 * A transport is an object that begins with struct asymreg_transport. Its `ops` point to the
 * functions of struct asymreg_transport_ops. A function of the transport's library creates the
 * object (asymreg_local_create() here, asymreg_ucx_create(), asymreg_ibv_create(), yours). Then the
 * context owns it: asymreg_open() takes the pointer, and asymreg_close() calls `destroy`. "The
 * core" is the rest of libasymreg. rma.h explains contexts, regions and segments.
 *
 * How the core uses a transport, in order:
 *
 *   1. It calls `query` once, for the capabilities and limits.
 *   2. It calls `mem_reg` once for the published table, and once for each segment (a stretch of
 *      memory that many regions may share). With ASYMREG_DRAIN and ASYMREG_CAP_MAP it also calls
 *      `mem_reg` once for the memory in which peers publish their operations. Each call makes a
 *      handle: bytes that the core publishes for peers. The core calls `mem_dereg` for
 *      - a segment that it made for a region, when the segment's last region has gone;
 *      - a segment that the user made, in asymreg_segment_remove();
 *      - a registration whose handle it cannot publish;
 *      - all registrations that are left, in asymreg_close().
 *   3. In each asymreg_export() it calls `address` for the bytes with which peers connect to this
 *      process. The bootstrap blob carries them.
 *   4. In asymreg_import() it calls `connect` with the bytes of the peer's `address`, which makes
 *      an *endpoint*. Then it calls `rkey_unpack` with the handle of the peer's table, which makes
 *      a *key*. It reads the table by `map` or `get`. It unpacks the handle of a segment when an
 *      operation first needs the segment. The core calls `rkey_release` in asymreg_forget() and
 *      asymreg_close(), before `disconnect`. It releases a segment's key earlier if the peer has
 *      ended the segment and another segment has its place in the table; by then no operation uses
 *      the key.
 *   5. It calls `put`, `get`, `amo`, `flush`, `progress` as the user asks. Before each put, get and
 *      amo it has checked, with the newest table that it knows, that the access lies inside one
 *      region and is permitted. A transport need not check again. If the hardware or the kernel
 *      refuses the access, the transport reports the error: see "Errors".
 *   6. In asymreg_close() it releases all keys of each endpoint, and calls `disconnect` for the
 *      endpoint. Then it calls `mem_dereg` as above, and last `destroy`.
 *
 * **Completion.** An operation (put, get, amo) returns
 *
 *   - 0: it is complete. For a put this means that the source may be reused; see `flush`
 *   - ASYMREG_PENDING (1): it is in flight
 *   - a negative code: it was not begun
 *
 * With an `op`, an operation is *explicit*. If the call returns ASYMREG_PENDING, op->status is
 * ASYMREG_PENDING. When the operation completes, the transport sets op->status to 0 or an error:
 * inside some call on the transport, or in a thread of its own. The `op` is the caller's memory,
 * and stays valid until then.
 *
 * If `op` is NULL, the operation is *implicit*. The transport keeps the first error of each
 * endpoint, and the next `flush` of that endpoint returns it once.
 *
 * The caller keeps source and destination buffers valid until the operation completes; those of an
 * implicit operation, until a `flush` has returned 0 or an error.
 *
 * A full queue is not an error: progress inside the call until the queue has room, or return
 * -EAGAIN. After -EAGAIN the core calls `progress` and tries again, until the operation begins or
 * `peer_alive` reports that the peer is gone.
 *
 * **Ordering.** A transport need not order operations, except by `flush`. When `flush` returns 0,
 * every operation begun before it on that endpoint is complete at the target: visible to the
 * target's processor and to later operations of any process. Fetched values and the bytes of gets
 * are in the caller's memory.
 *
 * **Errors.**
 *
 *   - ASYMREG_ESTALE: the handle is invalid (revoked, deregistered). The core refreshes its copy of
 *     the peer's table, and retries once, unless the user's call has returned.
 *   - ASYMREG_EFAULT: the address is registered, but no memory is there.
 *   - ASYMREG_EACCES: the hardware or the kernel refuses the access.
 *   - ASYMREG_EPEER: the peer is gone. Every operation pending on the endpoint must then complete
 *     with this code too, and no later call may wait for that peer. The death of a peer must show
 *     within one second in a pending operation, a `flush` or `peer_alive`.
 *   - ASYMREG_EUNREACH: this side cannot reach the peer or its memory. asymreg_import() and
 *     asymreg_resolve() get the reason from `check`.
 *   - ASYMREG_ENOTSUP, ASYMREG_EALIGN, ASYMREG_ERANGE (not inside the registration), -ENOMEM or
 *     another -errno; ASYMREG_ETRANSPORT for a failure that has no code of its own.
 *
 * A function with a parameter `err` (may be NULL) fills err->code and err->text if it knows more
 * than the code.
 *
 * **Threads.** With ASYMREG_CAP_THREADS several threads may call the functions at once, except
 * `destroy`. Without it the core makes one call at a time. No function may call back into the
 * context.
 *
 * **Hostile peers.** The bytes given to `connect` and `rkey_unpack` come from another process:
 * check them.
 */
#ifndef ASYMREG_TRANSPORT_H
#define ASYMREG_TRANSPORT_H

#include <asymreg/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Version of the table below; a context refuses another one with ASYMREG_EVERSION. */
#define ASYMREG_TRANSPORT_VERSION 1u

/**
 * Longest handle of one registration, bytes: the limit of asymreg_transport_caps.max_handle_bytes.
 */
#define ASYMREG_MAX_HANDLE_BYTES 1024u
/** Longest result of asymreg_transport_ops.address, bytes. */
#define ASYMREG_MAX_ADDRESS_BYTES 4096u

/** An operation in flight. */
#define ASYMREG_PENDING 1

/**
 * @name Capabilities
 * Each is one bit of asymreg_transport_caps.flags. asymreg_transport_ops.reason explains why a bit
 * is off.
 * @{
 */
#define ASYMREG_CAP_PUT (1u << 0) /**< has `put`, which is required */
#define ASYMREG_CAP_GET (1u << 1) /**< has `get`, which is required */
#define ASYMREG_CAP_AMO (1u << 2) /**< some atomics; which ones: amo4_ops and amo8_ops */
/** operations complete although the target does not run (SIGSTOP) or makes no call */
#define ASYMREG_CAP_ONE_SIDED (1u << 3)
/** after mem_dereg an operation of a peer fails with ASYMREG_ESTALE, and does not reach the
 * memory */
#define ASYMREG_CAP_REVOKE (1u << 4)
/** one registration (address 0, length 2^64-1) serves all private memory, also its last byte */
#define ASYMREG_CAP_WHOLE_SPACE (1u << 5)
/** `map` can map a peer's table: then this side sees a change of the table without a call */
#define ASYMREG_CAP_MAP (1u << 6)
/** can register memory by descriptor and offset: see asymreg_mem_desc.fd */
#define ASYMREG_CAP_FD (1u << 7)
/** can register memory without descriptor: malloc, stack, static, mmap */
#define ASYMREG_CAP_PRIVATE     (1u << 8)
#define ASYMREG_CAP_THREADS     (1u << 9)  /**< may be called by several threads at once */
#define ASYMREG_CAP_REMOTE_NODE (1u << 10) /**< reaches peers on other nodes */
/**
 * a put or get that has returned 0 is complete at the target, and the peer was alive at that time,
 * as after a flush
 */
#define ASYMREG_CAP_DIRECT (1u << 12)
/** puts and atomics on an endpoint take effect in the order in which they were begun */
#define ASYMREG_CAP_ORDERED (1u << 13)
/** a request, not an ability: the core must give `put` and `get`, in their parameter `local`, the
 * registration that holds the caller's buffer. To find it, the core searches this process's own
 * regions in each operation */
#define ASYMREG_CAP_WANT_LOCAL (1u << 11)
/** @} */

/**
 * @name Atomics
 * Numbers for `amo`; bit 1 << number in amo4_ops and amo8_ops.
 * @{
 */
#define ASYMREG_AMO_ADD       0u /**< target += operand; nothing is fetched */
#define ASYMREG_AMO_FETCH_ADD 1u /**< result = target, target += operand, wrapping */
#define ASYMREG_AMO_SWAP      2u /**< result = target, target = operand */
/** result = target; if that equals compare, target = operand */
#define ASYMREG_AMO_COMPARE_SWAP 3u
#define ASYMREG_AMO_AND          4u     /**< result = target, target &= operand */
#define ASYMREG_AMO_OR           5u     /**< result = target, target |= operand */
#define ASYMREG_AMO_XOR          6u     /**< result = target, target ^= operand */
#define ASYMREG_AMO_FETCH        7u     /**< result = target */
#define ASYMREG_AMO_SET          8u     /**< target = operand; nothing is fetched */
#define ASYMREG_AMO_ALL          0x1ffu /**< every one of them, as bits */
/** @} */

/**
 * @name Kinds of memory
 * Numbers for asymreg_mem_desc.kind; bit 1 << number in asymreg_transport_caps.kinds.
 * @{
 */
#define ASYMREG_KIND_HOST   0u /**< memory that a processor loads and stores */
#define ASYMREG_KIND_CUDA   1u /**< memory of an NVIDIA device, by its address in this process */
#define ASYMREG_KIND_ROCM   2u /**< memory of an AMD device, by its address in this process */
#define ASYMREG_KIND_DMABUF 3u /**< memory of any device, by a dma-buf's file descriptor */
/** @} */

/** What a transport can do, and its limits. */
struct asymreg_transport_caps {
    /** sizeof(struct asymreg_transport_caps), set by the caller: fill no more than that */
    size_t size;
    uint32_t flags;    /**< ASYMREG_CAP_* */
    uint32_t amo4_ops; /**< atomics on 4 bytes, bits 1 << ASYMREG_AMO_* */
    uint32_t amo8_ops; /**< atomics on 8 bytes */
    /** longest handle of one registration; at most ASYMREG_MAX_HANDLE_BYTES; may be 0 */
    uint32_t max_handle_bytes;
    /** longest result of `address`; at most ASYMREG_MAX_ADDRESS_BYTES */
    uint32_t max_address_bytes;
    /** kinds of memory that it can register, bits 1 << ASYMREG_KIND_*; 0: only host memory */
    uint32_t kinds;
    /** longest single put or get; the core splits longer ones; 0: no limit */
    uint64_t max_op_bytes;
};

/** Memory to be registered. */
struct asymreg_mem_desc {
    size_t size;   /**< sizeof(struct asymreg_mem_desc) */
    uint64_t addr; /**< first byte, in this process */
    /** more than 0; addr + bytes is at most 2^64. Address 0 with 2^64-1 bytes is the whole space,
     * its last byte too */
    uint64_t bytes;
    uint32_t prot;  /**< ASYMREG_READ and so on: operations allowed to peers */
    uint32_t flags; /**< ASYMREG_MEM_* */
    /** descriptor of the file that is mapped there, or -1. The caller may close it after the call:
     * a transport that needs it later duplicates it */
    int32_t fd;
    /** ASYMREG_KIND_*, never one that `kinds` lacks. With ASYMREG_KIND_DMABUF `fd` is the
     * dma-buf */
    uint32_t kind;
    uint64_t fd_offset; /**< where in the file `addr` lies, bytes; need not be aligned */
};

/**
 * This is the published table: peers read it, no peer writes to it, and it lives as long as the
 * context.
 */
#define ASYMREG_MEM_TABLE 1u
/**
 * The owner promises that nobody shortens the file. Peers with ASYMREG_LOCAL_TRUST use loads and
 * stores, and get SIGBUS if they access a part that was cut off.
 */
#define ASYMREG_MEM_TRUSTED 2u
/** Peers `map` this memory and store into it: see asymreg_unregister_drain(). Used only with
 * ASYMREG_CAP_MAP. */
#define ASYMREG_MEM_ACTIVITY 4u

/** A registration. Each transport defines this struct and the next two for itself. */
struct asymreg_mem;
/** A connection to one peer. */
struct asymreg_ep;
/** A peer's registration, ready for use. */
struct asymreg_rkey;

/** An explicit operation. The caller's memory, valid until status is no longer ASYMREG_PENDING. */
struct asymreg_op {
    /** The core sets 0 before the call. A transport that will return ASYMREG_PENDING first sets
     * ASYMREG_PENDING, and later 0 or an error (store-release). If the call returns anything else,
     * the core ignores the status. */
    int32_t status;
    uint32_t reserved;
    uint64_t priv[6]; /**< for the transport, while it is pending */
};

struct asymreg_transport;

/**
 * Checks that the core offers to a transport whose operations run in the target's process (for
 * example by messages). The transport must call `enter` before it accesses memory for a peer, and
 * `leave` afterwards. So a peer with an old copy of the table cannot reach memory that has been
 * unregistered. The transport must make these calls from one thread at a time, and not from within
 * mem_reg() or mem_dereg().
 */
struct asymreg_guard {
    /**
     * Returns 0 if a peer may now access [addr, addr + bytes) as `need` says (ASYMREG_READ and so
     * on). Until the transport then calls `leave`, no call that unregisters the region returns.
     * Otherwise `enter` returns the error with which the transport answers the peer.
     */
    int (*enter)(void *ctx, uint64_t addr, uint64_t bytes, uint32_t need);
    void (*leave)(void *ctx); /**< after `enter` has returned 0 */
    void *ctx;                /**< first argument of both */
};

/**
 * The functions of a transport. `size` and `version` come first. asymreg_open() returns -EINVAL if
 * a function marked *Required*, without a condition, is missing. `t` is the transport, `ep` one of
 * its endpoints, `rkey` one of that endpoint's keys. Addresses of the target are those of the
 * process that registered the memory.
 */
struct asymreg_transport_ops {
    /** sizeof(struct asymreg_transport_ops); or, in a table that ends earlier, the offset of
     * `guard` or of `arm` */
    size_t size;
    uint32_t version;  /**< ASYMREG_TRANSPORT_VERSION */
    uint32_t reserved; /**< 0 */
    /** at most 15 letters, digits and `-`; both sides of a connection must have the same */
    const char *name;

    /** Required. Fills `caps`. Returns 0 or an error. */
    int (*query)(struct asymreg_transport *t, struct asymreg_transport_caps *caps);
    /**
     * Required. Returns why a capability (one ASYMREG_CAP_* bit) is off: a phrase that is valid as
     * long as `t`. NULL: it is on, or there is no more to say.
     */
    const char *(*reason)(struct asymreg_transport *t, uint32_t cap);
    /** Required. Frees `t`. The core has ended every object made from `t` before. */
    void (*destroy)(struct asymreg_transport *t);

    /**
     * Required. Registers `desc`. Writes the handle (at most max_handle_bytes) to `handle`, and its
     * length to *handle_bytes. With ASYMREG_CAP_REVOKE the handle must differ from any earlier one.
     */
    int (*mem_reg)(struct asymreg_transport *t, const struct asymreg_mem_desc *desc,
                   struct asymreg_mem **mem, void *handle, size_t *handle_bytes,
                   struct asymreg_error *err);
    /** Required. Ends a registration, although peers may still hold its handle. */
    int (*mem_dereg)(struct asymreg_transport *t, struct asymreg_mem *mem);

    /**
     * Required. Writes the address for a peer's `connect` to `buf` (`max_address_bytes` long), and
     * its length to *bytes.
     */
    int (*address)(struct asymreg_transport *t, void *buf, size_t *bytes,
                   struct asymreg_error *err);
    /**
     * Required. Connects to the process whose `address` wrote these bytes; it may be this process.
     * The caller may free the bytes afterwards. The function must not wait for a call of the peer.
     * Later calls complete the connection: on this side `progress` or the first operation; and on
     * the peer's side, if the peer must take part, asymreg_progress().
     */
    int (*connect)(struct asymreg_transport *t, const void *address, size_t bytes,
                   struct asymreg_ep **ep, struct asymreg_error *err);
    /**
     * Required. Ends the connection without waiting for the peer; pending operations complete with
     * ASYMREG_EPEER.
     */
    void (*disconnect)(struct asymreg_transport *t, struct asymreg_ep *ep);
    /**
     * Required. Returns 0, or ASYMREG_EPEER once the peer is gone. It is called often (not for each
     * operation), so it must be cheap and never wait.
     */
    int (*peer_alive)(struct asymreg_transport *t, struct asymreg_ep *ep);

    /**
     * Required. Makes a key of the handle that the peer's mem_reg() wrote for [addr, addr+bytes).
     * If the handle contains an address and a length, check that they are `addr` and `bytes`.
     */
    int (*rkey_unpack)(struct asymreg_transport *t, struct asymreg_ep *ep, const void *handle,
                       size_t handle_bytes, uint64_t addr, uint64_t bytes,
                       struct asymreg_rkey **rkey, struct asymreg_error *err);
    /** Required. Frees a key. No operation that uses it is pending, unless `disconnect` follows. */
    void (*rkey_release)(struct asymreg_transport *t, struct asymreg_ep *ep,
                         struct asymreg_rkey *rkey);
    /**
     * Required with ASYMREG_CAP_MAP. Stores in *ptr the address in this process at which [addr,
     * addr+bytes) can be read with plain loads and, if `write` is not 0, written with plain stores.
     * The address is valid until rkey_release(). Must return ASYMREG_ENOTSUP if somebody could take
     * the memory away, so that an access would raise SIGBUS, unless this side has chosen to trust
     * the memory (as by ASYMREG_LOCAL_TRUST). That the peer's handle calls it safe is not enough.
     */
    int (*map)(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey,
               uint64_t addr, uint64_t bytes, int write, const void **ptr);
    /**
     * Optional. Reports whether operations that need these permissions (ASYMREG_READ and so on)
     * work at `addr` with this key, and if not, why. asymreg_resolve() calls it for the first and
     * the last byte of an access; asymreg_import() calls it after a failure with ASYMREG_EUNREACH.
     * It may read the memory, and must not change it.
     */
    int (*check)(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey,
                 uint64_t addr, uint32_t need, struct asymreg_error *err);

    /**
     * Required. Copies `bytes` (1 to max_op_bytes) from `src` to `addr` of the peer. `local` is the
     * registration that holds `src` if the core knows one, else NULL. If `local` is NULL, a
     * transport that needs a registration uses a bounce buffer or registers `src` on the fly.
     */
    int (*put)(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey,
               uint64_t addr, const void *src, size_t bytes, struct asymreg_mem *local,
               struct asymreg_op *op);
    /**
     * Required. Copies `bytes` from `addr` of the peer to `dst`; `local` as in `put`. When the
     * operation is complete, the bytes are in `dst`.
     */
    int (*get)(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey,
               uint64_t addr, void *dst, size_t bytes, struct asymreg_mem *local,
               struct asymreg_op *op);
    /**
     * Required with ASYMREG_CAP_AMO. Executes one atomic (ASYMREG_AMO_*) on `bytes` (4 or 8) at
     * `addr`, which is aligned. Operands and result are in the low bytes and in host order.
     * `result` (NULL: not wanted) is filled when the operation is complete. The caller keeps its
     * memory valid as it does buffers ("Completion"). The operation must be atomic towards every
     * other `amo` of this transport on that memory; with ASYMREG_CAP_MAP also towards the target's
     * own atomic instructions.
     */
    int (*amo)(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey,
               uint64_t addr, uint32_t amo, uint32_t bytes, uint64_t operand, uint64_t compare,
               uint64_t *result, struct asymreg_op *op);
    /**
     * Required. Starts the completion, at the target, of every operation begun on `ep` (NULL: on
     * all endpoints), and does not wait. Returns 0: all are complete. ASYMREG_PENDING: some are
     * not; the core calls `progress`, then `flush` again, until it returns 0 or an error. An error:
     * the endpoint's, or the first of its implicit operations ("Completion"), reported once.
     */
    int (*flush)(struct asymreg_transport *t, struct asymreg_ep *ep);
    /**
     * Required. Makes progress on pending operations, without waiting. Returns how many operations
     * have completed, plus how many operations of peers it executed here; or an error of the
     * transport as a whole. Before it returns an error, it must end every pending operation with
     * that error, since the core waits until an operation or a flush ends.
     */
    int (*progress)(struct asymreg_transport *t);
    /**
     * Optional. Gives the transport the checks of struct asymreg_guard, to copy and keep until
     * `destroy`. The core calls this function once, before a peer can know of this process. A
     * transport with this function and ASYMREG_CAP_REVOKE must call the guard for every operation
     * of a peer.
     */
    void (*guard)(struct asymreg_transport *t, const struct asymreg_guard *guard);
    /**
     * Optional. Gives the core a descriptor to sleep on. The core calls this function when it has
     * waited for 50 µs in which `progress` had nothing to do. Returns 0: *fd becomes readable when
     * an operation completes, or when an operation of a peer is executed here. The core then sleeps
     * until *fd is readable, at most a millisecond. *fd stays open until `destroy`.
     * ASYMREG_PENDING: the core calls `progress` first. An error: there is no such descriptor; the
     * core yields the processor instead.
     */
    int (*arm)(struct asymreg_transport *t, int *fd);
};

/** Every transport begins with this. */
struct asymreg_transport {
    const struct asymreg_transport_ops *ops;
};

/** Options of the transport for peers on the same node. Zero the struct, set `size`, then the
 * members that differ from the default. */
struct asymreg_local_opts {
    size_t size;                               /**< sizeof(struct asymreg_local_opts) */
    uint32_t flags;                            /**< ASYMREG_LOCAL_*; neither SHM nor CMA: both */
    uint32_t reserved;                         /**< 0 */
    const struct asymreg_allocator *allocator; /**< NULL: libc's */
};

/**
 * Shared memory: peers map memory that has a descriptor. They fetch the descriptor (pidfd_getfd,
 * /proc/PID/fd), or receive it by asymreg_fds_recv().
 */
#define ASYMREG_LOCAL_SHM 1u
/** CMA: process_vm_readv and process_vm_writev. It reaches any memory, with one system call for
 * each operation, or for each GiB of a longer operation. */
#define ASYMREG_LOCAL_CMA 2u
/**
 * Trust peers that register a file with ASYMREG_TRUSTED: access the file by loads and stores. An
 * access to a part that somebody has cut off raises SIGBUS.
 */
#define ASYMREG_LOCAL_TRUST 4u

/**
 * @brief The default transport of a context: shared memory and CMA, on one node.
 *
 * How memory of a peer is accessed:
 *
 *   - Sealed memory, and files that both sides trust (ASYMREG_TRUSTED there, ASYMREG_LOCAL_TRUST
 *     here): by loads and stores. Sealed memory is a memfd with F_SEAL_SHRINK and without
 *     MFD_HUGETLB, as asymreg_segment_alloc() makes it.
 *   - Other files that were registered with a descriptor: mapped, but copied by the kernel. If such
 *     a file is truncated, the operation returns ASYMREG_EFAULT, where a load would raise SIGBUS.
 *     No atomics.
 *   - All other memory, and memory whose descriptor this side may not fetch: by CMA. No atomics.
 *
 * This transport's ASYMREG_CAP_AMO, amo4_ops and amo8_ops hold for memory that is accessed by loads
 * and stores. An atomic on other memory returns ASYMREG_ENOTSUP.
 *
 * Rights: CMA needs the right to trace the peer. That is: the same user, no seccomp filter that
 * forbids it, and with Yama either a ptrace_scope of 0 or a peer that has called
 * prctl(PR_SET_PTRACER). Shared memory needs the same right, except for descriptors that were
 * received with asymreg_fds_recv().
 *
 * How a dead peer is noticed: this side knows the peer by its process id, its start time and a
 * *canary*. The canary is a word in a page at a random address of the peer; exec() removes the page
 * together with the rest of the address space.
 *
 *   - CMA: each copy has the canary as its first piece, in the same system call. A get reads the
 *     canary, a put writes the same value over it. With the canary an operation on 8 bytes takes a
 *     quarter more time.
 *   - Mapped memory: an operation or a flush checks the peer if the last check was 20 ms ago or
 *     more. The check reads the canary, for which this side needs the right to trace. Without that
 *     right the check notices the end of the process, but not exec().
 *
 * @param opts  NULL: both ways
 * @param out   the new transport; give it to asymreg_open(), which takes it over, or call its
 *              ops->destroy
 * @param err   detail on failure, or NULL
 * @return 0, -EINVAL, -ENOMEM, or another -errno (/proc cannot be read, or no random bytes)
 *
 * MT-Safe. Allocates.
 */
ASYMREG_API int asymreg_local_create(const struct asymreg_local_opts *opts,
                                     struct asymreg_transport **out, struct asymreg_error *err);

#ifdef __cplusplus
}
#endif
#endif /* ASYMREG_TRANSPORT_H */
