/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file asymreg-ucx.h
 * @brief A transport of libasymreg over UCX (UCP): any network that UCX supports. Give it to
 *        asymreg_open().
 *
 * UCX chooses networks by its environment variables (UCX_TLS, UCX_NET_DEVICES). Over RDMA (UCX's
 * transports rc and dc), the adapter executes put and get. Elsewhere, such as over shared memory
 * and TCP, put and get are messages (UCX's active messages), which this library handles in the
 * target. Atomics are messages everywhere. Consequences:
 *
 * **The target must progress** to handle messages: its program must call asymreg_progress() from
 * time to time, or set ASYMREG_UCX_THREAD, with which a thread of the transport handles them.
 * Without either, operations that are messages wait.
 *
 * **Unregistering revokes** where UCX has neither an RDMA adapter nor support for the memory of a
 * GPU (ASYMREG_CAP_REVOKE). The target compares each message with the regions that are registered
 * now, and refuses an access outside them. So after asymreg_unregister() you may unmap or reuse the
 * memory, even if peers have old tables, and asymreg_unregister_drain() need not wait for the
 * peers. With an adapter or a GPU, UCX keeps its registrations for a while. In that case notify the
 * peers, and wait for their answer before you reuse the memory.
 *
 * **Registered memory that is gone** (unmapped, made read-only, or behind the end of its file): an
 * access by a message fails with ASYMREG_EFAULT.
 *
 *   - Before each access the target asks the kernel whether the memory is there. This takes 0.25
 *     µs, or 1.8 µs for the longest message, 128 KiB. Linux before 5.14 cannot answer: there the
 *     access kills the target.
 *   - The owner must not unmap memory while a message accesses it.
 *   - If another mapping takes the place of memory that is gone, the access reaches that mapping.
 *     So unregister memory before you unmap it.
 *   - For some memory the kernel reports only whether it is mapped: device registers, memory of
 *     memfd_secret(), and memory with PROT_WRITE alone. The transport looks at the first page of
 *     each registration when it is made. If the page is such memory, or has PROT_NONE, the target
 *     checks in this registration only whether the memory is mapped. In other registrations an
 *     access to such memory fails with ASYMREG_EFAULT.
 *
 * **Put and get** that are messages complete with the target's answer: one round trip each. Use
 * asymreg_put_nb() and asymreg_get_nb() to have several in flight.
 *
 * **Death.** On one node the transport asks the kernel whether a peer has died: by a pidfd, or by
 * `/proc` where pidfds do not exist or a sandbox forbids them. It asks while it progresses, at most
 * every 20 ms. It keeps the pidfds of 64 peers, and always asks about these peers. About another
 * peer it asks while operations to that peer are in flight. UCX reports the death of peers on other
 * nodes. For this the transport sets UCX's KEEPALIVE_INTERVAL to 0.3 s, unless
 * UCX_KEEPALIVE_INTERVAL is in the environment.
 *
 * On one node the transport uses UCX's shared memory if UCX has it. There:
 *
 *   - Operations in flight to a peer that dies end with ASYMREG_EPEER, and UCX no longer accesses
 *     their buffers.
 *   - A peer that closes its context without exiting notifies this side: operations fail with
 *     ASYMREG_EPEER once this side progresses.
 *   - The peer sends no notification if it closes before it has handled this side's import, or if
 *     it has no memory for the message. Then this side notices only the end of the peer's process.
 *
 * **Deaths that UCX does not survive** (seen with UCX 1.13). In UCX's shared memory a process has
 * one queue for all its senders. A sender takes a place in the queue, then fills the place. A
 * sender killed in between, which is rare, blocks the queue for good: nothing reaches the queue's
 * process any more.
 *
 *   - So after a peer's death the transport sends a message to its own process, from a second
 *     worker of UCX. The call to asymreg_progress() that does so takes up to 20 ms. The transport
 *     then checks, at most every 20 ms, whether any message has arrived. If none arrives for 0.3 s
 *     and 6 checks, it closes its connections over shared memory, also the one to itself.
 *   - Then operations between this process and the peers that had imported it end with
 *     ASYMREG_EPEER on both sides, although all these processes live. From then on,
 *     asymreg_import() in this process fails with ASYMREG_EUNREACH for peers on its node.
 *   - The transport closes the connections within a second of the death if the process progresses,
 *     has imported the peer that died, keeps that peer's pidfd, and has memory for the second
 *     worker. Otherwise, operations between the blocked process and another process wait until one
 *     of the two ends. Operations of a peer that imports the blocked process later wait likewise.
 *   - A job on one node that is to continue after deaths should use asymreg_local_create().
 *
 * **fork().** UCX delivers nothing between a process that has UCX open and a child that opens UCX
 * too. So asymreg_ucx_create() fails with -EPERM in a process that was forked while its parent had
 * a transport of this library. Fork before you create one, or call exec() in the child.
 *
 * **UCX's own faults.** UCX may abort a process whose peer dies or closes while the two connect:
 * over TCP, and from 1.18 on over shared memory too. asymreg_ucx_create() calls ucp_init(), which
 * in UCX 1.18 of Debian 13 may never return. UCX_MEM_MMAP_HOOK_MODE=reloc in the environment
 * prevents this.
 *
 * **Memory.** A process that has 1,024 operations, or 4 MiB of messages, in flight to one target
 * begins no further operation until some have ended. The target keeps its answers until UCX has
 * sent them. If the target has no memory for an answer, the answer is lost: its operation waits
 * until the initiator's or the target's process ends.
 *
 * **Hostile peers.** This transport adds a checksum to what it puts into blobs and tables: UCX's
 * addresses of workers, and UCX's keys of registrations. The checksum detects damage, not malice:
 * UCX trusts the content. So connect only to processes that you would let debug yours. An answer
 * counts only if it comes from the peer that was asked.
 *
 * Source: "Asymmetric Memory Extension for OpenSHMEM", section 3, which used UCCS, UCX's ancestor.
 */
#ifndef ASYMREG_UCX_H
#define ASYMREG_UCX_H

#include <asymreg/transport.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Release of this header. */
#define ASYMREG_UCX_VERSION "0.1.0"

#if defined(__GNUC__)
#define ASYMREG_UCX_API __attribute__((visibility("default")))
#else
#define ASYMREG_UCX_API
#endif

/**
 * Start a thread that handles the messages of peers, and sleeps while no message arrives. Each call
 * on the transport then takes a lock.
 */
#define ASYMREG_UCX_THREAD 1u

/** Options. Zero the struct, set `size`, then the members that differ from the default. */
struct asymreg_ucx_opts {
    size_t size;       /**< sizeof(struct asymreg_ucx_opts) */
    uint32_t flags;    /**< ASYMREG_UCX_THREAD */
    uint32_t reserved; /**< 0 */
};

/**
 * @brief Open UCX and make a transport of it.
 * @param opts  NULL: defaults
 * @param out   the new transport; give it to asymreg_open(), which takes it over, or call its
 *              ops->destroy
 * @param err   detail on failure, or NULL
 * @return 0; -EINVAL (options); -ENOMEM; -ENODEV (UCX has no usable device); -ENOTSUP (UCX's
 *         address is longer than ASYMREG_MAX_ADDRESS_BYTES: name fewer devices in UCX_NET_DEVICES);
 *         -EIO (any other error of UCX); -EPERM (see "fork()" above); or another -errno (/proc
 *         cannot be read; no descriptor or thread for ASYMREG_UCX_THREAD)
 *
 * MT-Safe. Allocates. UCX itself starts a thread, may print (UCX_LOG_LEVEL), and reads its
 * configuration from the environment.
 */
ASYMREG_UCX_API int asymreg_ucx_create(const struct asymreg_ucx_opts *opts,
                                       struct asymreg_transport **out, struct asymreg_error *err);

/**
 * @brief Explain a result of asymreg_ucx_create().
 * @param code  0 or a negative value
 * @return a constant phrase, never NULL: in English, or libc's own
 *
 * MT-Safe. Allocates nothing.
 */
ASYMREG_UCX_API const char *asymreg_ucx_strerror(int code);

/** @brief Release of the library in use, such as "0.1.0". MT-Safe. */
ASYMREG_UCX_API const char *asymreg_ucx_version(void);

#ifdef __cplusplus
}
#endif
#endif /* ASYMREG_UCX_H */
