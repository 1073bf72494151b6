/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file asymreg-ibv.h
 * @brief A transport of libasymreg over verbs: InfiniBand, RoCE, soft-RoCE. Give it to
 *        asymreg_open().
 *
 * Put is an RDMA write, get is an RDMA read, and the adapter executes the atomics: the target's
 * processor takes no part. To register memory the transport calls ibv_reg_mr, which pins the
 * memory. To end a registration it calls ibv_dereg_mr. Afterwards the adapter refuses operations
 * that peers still send (ASYMREG_ESTALE). So no peer accesses a region that its owner has
 * unregistered, unless the registration continues. It does if the region lies in a segment, or if
 * other regions share the registration (see "Coalescing" in asymreg/rma.h).
 *
 * **Connections.** Both sides must take part to make a reliable connection, but a target makes no
 * calls. So each transport has one thread, which sleeps except to connect and reconnect. It answers
 * requests for connections, which arrive as datagrams (UD) on the same adapter; no other network is
 * used. asymreg_import() does not wait for the connection; the first operations do.
 *
 * A refused operation breaks a reliable connection. Then the transport reconnects, and repeats in
 * order the operations queued behind the refused one: the adapter had not begun these. If instead
 * an operation fails on this side because its buffer is gone, the adapter may have begun the
 * operations queued behind it: these end with ASYMREG_ETRANSPORT.
 *
 * **Death.** This side's adapter repeats an operation for a quarter to a half of
 * asymreg_ibv_opts.timeout_ms. If the peer's adapter does not answer by then, the peer is dead
 * (ASYMREG_EPEER). A peer is also dead if a connection to it is not made within timeout_ms. If no
 * operation is in flight, the transport probes with an empty write. A stopped process is not dead,
 * since its adapter answers; but the process cannot accept new connections.
 *
 * **Limits.**
 *
 *   - Atomics have 8 bytes, and need an adapter that has atomics. The adapter executes add and
 *     compare-and-swap; all others are loops of compare-and-swap.
 *   - A single operation has at most ASYMREG_IBV_MAX_OP_BYTES; the core splits longer ones.
 *   - Pinned memory counts towards RLIMIT_MEMLOCK. asymreg_open() registers the whole published
 *     table, so open the context with no more max_regions than needed.
 *   - Linux 6.12 refuses to register shared mappings of files on some file systems for writing:
 *     ASYMREG_EFAULT.
 *   - Machines of different byte order cannot import each other: ASYMREG_EVERSION.
 *
 * Caveat: the adapter reports that it refuses an operation, but not why. So the result is
 * ASYMREG_ESTALE whatever the cause.
 *
 * Source: "Asymmetric Memory Extension for OpenSHMEM", section 3 (remote handles, refresh upon
 * failure); the rest is ours.
 */
#ifndef ASYMREG_IBV_H
#define ASYMREG_IBV_H

#include <asymreg/transport.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Release of this header. */
#define ASYMREG_IBV_VERSION "0.1.0"

#if defined(__GNUC__)
#define ASYMREG_IBV_API __attribute__((visibility("default")))
#else
#define ASYMREG_IBV_API
#endif

/** Longest single put or get, bytes. */
#define ASYMREG_IBV_MAX_OP_BYTES 65536u
/** Longest timeout, milliseconds. */
#define ASYMREG_IBV_MAX_TIMEOUT_MS 60000u

/** Use asymreg_ibv_opts.gid_index. Without this flag the transport chooses an index: that of a GID
 * of RoCE v2 over IPv4 if the port has one, else 0. */
#define ASYMREG_IBV_GID_INDEX 1u

/** Options. Zero the struct, set `size`, then the members that differ from the default. */
struct asymreg_ibv_opts {
    size_t size; /**< sizeof(struct asymreg_ibv_opts) */
    /** name of the adapter, as ibv_devices lists it; NULL: the first with an active port */
    const char *device;
    uint32_t flags;     /**< ASYMREG_IBV_GID_INDEX */
    uint32_t port;      /**< its port, 1 and up; 0: the first active one */
    uint32_t gid_index; /**< index into the port's GIDs, below 256 */
    /** milliseconds that a peer may be silent before it is dead; 0: 1000; at most
     * ASYMREG_IBV_MAX_TIMEOUT_MS */
    uint32_t timeout_ms;
    /** most connections that peers may have to this side at a time; 0: 4096. Further ones time out.
     * The connection of an initiator that was killed counts until this side closes */
    uint32_t max_peers;
    uint32_t reserved; /**< 0 */
};

/**
 * @brief Open an adapter and make a transport of it.
 * @param opts  NULL: defaults
 * @param out   the new transport; give it to asymreg_open(), which takes it over, or call its
 *              ops->destroy
 * @param err   detail on failure, or NULL
 * @return 0; -EINVAL (options); -ENODEV (no such adapter, or none with an active port); -ENOMEM
 *         (also if RLIMIT_MEMLOCK is too low: the transport pins 1.6 MiB, and the driver its
 *         queues); another -errno, of the adapter's driver or of the thread
 *
 * MT-Safe. Allocates, and starts one thread, which blocks all signals and ends in `destroy`.
 */
ASYMREG_IBV_API int asymreg_ibv_create(const struct asymreg_ibv_opts *opts,
                                       struct asymreg_transport **out, struct asymreg_error *err);

/**
 * @brief Explain a result of asymreg_ibv_create().
 * @param code  0 or a negative value
 * @return a constant phrase, never NULL: in English, or libc's own
 *
 * MT-Safe. Allocates nothing.
 */
ASYMREG_IBV_API const char *asymreg_ibv_strerror(int code);

/** @brief Release of the library in use, such as "0.1.0". MT-Safe. */
ASYMREG_IBV_API const char *asymreg_ibv_version(void);

#ifdef __cplusplus
}
#endif
#endif /* ASYMREG_IBV_H */
