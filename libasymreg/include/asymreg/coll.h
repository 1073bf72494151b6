/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file coll.h
 * @brief Collectives over registered regions, made of puts and gets: sync, barrier, broadcast,
 *        all-gather, collect, all-to-all and reduction.
 *
 * A group has n members, numbered 0 to n-1. Each member registers a scratch region, and the members
 * exchange the addresses of these regions by any means. Every member makes the same calls in the
 * same order. Data go to ordinary regions, anywhere.
 *
 * A member communicates with the 2 ⌈log2 n⌉ members that are a power of two away from it. The group
 * calls the callback of asymreg_group_create() for each of these when it first needs it; the
 * callback may then import the peer. asymreg_collect() and asymreg_alltoall() put to every member:
 * import all of them before. Making a group involves no other member, so a team of some members
 * costs nothing to set up. Teams share the scratch regions: each uses one of eight channels.
 *
 * The transport must write 8 aligned bytes as one access; shared memory, CMA, UCX and verbs do.
 *
 * | OpenSHMEM            | here                                                                 |
 * |----------------------|----------------------------------------------------------------------|
 * | sync                 | asymreg_sync()                                                       |
 * | barrier              | asymreg_barrier()                                                    |
 * | broadcast            | asymreg_broadcast()                                                  |
 * | fcollect (of equal length) | asymreg_allgather()                                            |
 * | collect (of any length) | asymreg_collect()                                                 |
 * | alltoall, alltoalls  | asymreg_alltoall()                                                   |
 * | and, or, xor, min, max, sum, prod _reduce | asymreg_reduce()                                |
 *
 * **Algorithms.** Sync: dissemination, ⌈log2 n⌉ rounds. Broadcast: a binomial tree. All-gather: by
 * doubling, ⌈log2 n⌉ rounds, each a put of the blocks known so far (two puts if they wrap around)
 * and of a flag. Collect: a sync that adds up the lengths, then each member puts its block to every
 * other member. All-to-all: a put to every other member. Reduction: a binomial tree whose root is
 * the last member, in which each parent gets its children's results, then a broadcast of the
 * result. Flags are 8-byte counters in the scratch regions; they only grow.
 *
 * **When a buffer is accessed.** Peers read or write a member's `buf` only after that member has
 * entered the call.
 *
 * **Failure.** A call that cannot complete ends at every member with the same error. The member
 * that detects the failure notifies those that it communicates with, and they notify theirs.
 * `err->member` is the number of the member concerned:
 *   - ASYMREG_EPEER: the member that has died, or has closed its connections (asymreg-ucx.h, Death)
 *   - ASYMREG_ENOREGION and the like: the member whose memory is not as `where` says
 *   - ASYMREG_ETIMEDOUT: the member that another one has waited for
 *
 * `err->pe` is that member's PE if this member knows it: from `where`, or because the two
 * communicate. A member that has already returned gets the error from its next call. Afterwards the
 * group and its channel are unusable; a call on the group returns the error again. Operations on
 * the buffers of the call may be in flight until asymreg_flush() of the members; the group's own
 * memory stays until the worker is freed.
 *
 * A call refuses wrong arguments (-EINVAL, ASYMREG_EALIGN) before it involves another member: the
 * group is unchanged, and you can repeat the call.
 *
 * Over UCX and verbs a failed call must notify members that it has not put to yet. It waits for
 * their tables up to `timeout_ms`, 5 seconds at most. It does not notify a member that has not
 * answered by then. That member's call ends by its own `timeout_ms` and may name another member;
 * with `timeout_ms` 0 it waits until a member that it awaits has gone.
 *
 * Call asymreg_forget() for a stopped member before asymreg_flush() or asymreg_worker_destroy():
 * over UCX, puts to it arrive only when it continues, and both calls wait for that without limit.
 *
 * A member may close as soon as a call has returned an error. The members that it communicates with
 * do not name it then, since it has notified them. Others may name it: members that only put to it,
 * in asymreg_collect() or asymreg_alltoall(); and, over UCX and verbs, a member that has neither
 * put to it nor waited for it yet.
 *
 * Members return different errors in two cases. If two members detect different failures at the
 * same time, each member may return either. If the callback `member` returns an error that is
 * neither one of asymreg's nor an errno up to 191, the other members return ASYMREG_ETRANSPORT.
 *
 * A member that waits for others progresses its worker. Over UCX without an adapter, puts run in
 * the target: there, a member notifies others of a failure only while it calls asymreg_progress(),
 * when it closes, or if it has ASYMREG_UCX_THREAD.
 *
 * **Waiting.** A call waits for a member in four places: for its flag; for a put or get to arrive;
 * over UCX and verbs, for its table, at the first access and after a change; and, in
 * asymreg_barrier(), for earlier operations. `timeout_ms` bounds each of these waits. In a barrier
 * members wait for each other twice as long, as one member's flush may take all of its time. If a
 * member is stopped (SIGSTOP), the call of others ends after that time; without a timeout it waits.
 * If a put or get ends with ASYMREG_EBUSY, because its peer registers and unregisters memory, the
 * call retries it until it succeeds or the time is over.
 *
 * Flush operations that the worker has begun with _nb before a call: their late errors would end
 * it.
 *
 * Threads: a group belongs to its worker, and so to one thread at a time; groups of distinct
 * workers are independent. Once made, a group itself allocates nothing, except, with `timeout_ms`
 * and over a network, while it reads a member's table; its transport may.
 *
 * Source: "Asymmetric Memory Extension for OpenSHMEM", section 5, names collectives as future work;
 * the algorithms are textbook ones.
 */
#ifndef ASYMREG_COLL_H
#define ASYMREG_COLL_H

#include <asymreg/rma.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Length of the scratch region that each member registers (ASYMREG_RW): zeroed, aligned to 64,
 * enough for 2^24 members.
 */
#define ASYMREG_GROUP_SCRATCH_BYTES 8192u
/** Channels of a scratch region. */
#define ASYMREG_GROUP_CHANNELS 8u

/** Address of a member's memory. */
struct asymreg_member {
    uint32_t pe;       /**< its number in asymreg_import() */
    uint32_t reserved; /**< 0 */
    uint64_t addr;     /**< address there */
    asymreg_id id;     /**< registration, or ASYMREG_ANY */
};

/** A group. */
struct asymreg_group;

/** Options of a group. Zero the struct, set `size`, then the members that differ from the
 * default. */
struct asymreg_group_opts {
    size_t size;         /**< sizeof(struct asymreg_group_opts) */
    uint32_t n;          /**< members, 1 at least */
    uint32_t me;         /**< number of the calling member */
    void *scratch;       /**< the caller's own scratch region; all its groups share it */
    uint32_t timeout_ms; /**< longest wait for a member, at each place (see Waiting); 0: without
                            limit, until a member has died */
    uint32_t channel;    /**< below ASYMREG_GROUP_CHANNELS, the same at each member. Two groups with
                            a member in common need different channels, unless every call on the one
                            has returned, at all members, before the first call on the other
                            begins */
    uint32_t serial;     /**< the same at each member, and larger than that of every earlier group
                          with this channel, at any of its members */
    uint32_t reserved;   /**< 0 */
    /** array of n: the scratch regions, in the same order at all members; the group copies those
     * that it needs. NULL: the group calls `member` for them */
    const struct asymreg_member *members;
    /**
     * Returns where the scratch region (not the channel) of a member begins. The group calls it
     * once for each member that it needs, inside the first call that needs the member; it may
     * import that peer. Returns 0, or an error, which the call on the group then returns.
     */
    int (*member)(void *ctx, uint32_t number, struct asymreg_member *where);
    void *ctx; /**< first argument of `member` */
};

/**
 * @brief Make a group.
 * @param worker  this thread's worker; used by every call on the group
 * @param opts    members and channel
 * @param group   the new group
 * @param err     detail on failure, or NULL
 * @return 0, -EINVAL, -ENOMEM
 *
 * Local: a member may call this, and begin its first call on the group, before other members have
 * called it. A group takes 10 KB, independent of the number of members. asymreg_group_destroy() is
 * local too, once the last call on the group has returned. After 2^32 calls a group's numbers reach
 * those of the next serial.
 */
ASYMREG_API int asymreg_group_create(struct asymreg_worker *worker,
                                     const struct asymreg_group_opts *opts,
                                     struct asymreg_group **group, struct asymreg_error *err);

/** @brief Free a group, before its worker. NULL is allowed. */
ASYMREG_API void asymreg_group_destroy(struct asymreg_group *group);

/**
 * @brief Wait until every member has called it.
 * @param group  the group
 * @param err    detail on failure, or NULL
 * @return 0, -EINVAL, ASYMREG_EPEER, ASYMREG_ETIMEDOUT, or as asymreg_put()
 *
 * A member's stores into its own memory before the call happen-before all that other members do
 * after it. Puts may still be in flight.
 */
ASYMREG_API int asymreg_sync(struct asymreg_group *group, struct asymreg_error *err);

/**
 * @brief As asymreg_sync(), after a flush of every peer that the group's worker has used: when it
 *        returns, the members' earlier puts have arrived.
 *
 * If the flush fails and the sync succeeds, the call returns the flush's error, without
 * `err->member`; the group remains usable. One such error is ASYMREG_ETIMEDOUT: after `timeout_ms`
 * some operations have not arrived. If another peer has gone by then, the call returns
 * ASYMREG_EPEER for that peer instead.
 */
ASYMREG_API int asymreg_barrier(struct asymreg_group *group, struct asymreg_error *err);

/**
 * @brief Copy bytes from one member to all.
 * @param group  the group
 * @param root   the member whose bytes are copied
 * @param buf    here: the source at the root, the destination elsewhere, registered ASYMREG_WRITE
 * @param where  array of n: each member's `buf`, as peers reach it
 * @param bytes  how many
 * @param err    detail on failure, or NULL
 * @return as asymreg_sync(). On return `buf` is filled here; other members may still be in the call
 */
ASYMREG_API int asymreg_broadcast(struct asymreg_group *group, uint32_t root, void *buf,
                                  const struct asymreg_member *where, size_t bytes,
                                  struct asymreg_error *err);

/**
 * @brief Gather a block from every member, all of one length, at every member.
 * @param group  the group
 * @param src    this member's block, `bytes` long: at its place in `buf`, or outside `buf`
 * @param buf    n blocks, in the order of members; registered ASYMREG_WRITE
 * @param where  array of n: each member's `buf`, as peers reach it
 * @param bytes  length of a block, the same at each member
 * @param err    detail on failure, or NULL
 * @return as asymreg_sync(). On return all n blocks are here
 */
ASYMREG_API int asymreg_allgather(struct asymreg_group *group, const void *src, void *buf,
                                  const struct asymreg_member *where, size_t bytes,
                                  struct asymreg_error *err);

/**
 * @brief Gather blocks of different lengths from all members at every member, one behind the other,
 *        in the order of members.
 * @param group  the group
 * @param src    this member's block, `bytes` long, outside `buf`
 * @param bytes  its length; may be 0
 * @param buf    receives all blocks; registered ASYMREG_WRITE
 * @param room   length of `buf`, the same at each member
 * @param where  array of n: each member's `buf`, as peers reach it; all are imported
 * @param err    detail on failure, or NULL
 * @return as asymreg_sync(); ASYMREG_ERANGE: the blocks need more than `room`; ASYMREG_EOVERFLOW:
 *         more than 2^64 bytes (some bytes may have been copied)
 *
 * Cost: two syncs, and a put to each other member. For blocks of one length, all-gather needs
 * fewer.
 */
ASYMREG_API int asymreg_collect(struct asymreg_group *group, const void *src, size_t bytes,
                                void *buf, size_t room, const struct asymreg_member *where,
                                struct asymreg_error *err);

/**
 * @brief Send a different block to every member: block i of `src` becomes block `me` of member i's
 *        `buf`.
 * @param group    the group
 * @param src      n blocks, in the order of members, outside `buf`
 * @param buf      n blocks, in the order of members; registered ASYMREG_WRITE
 * @param where    array of n: each member's `buf`, as peers reach it; all are imported
 * @param strides  length and number of a block's elements, and their stride in `src` (`here`) and
 * in `buf` (`there`); block i begins i x n x stride elements behind the first. For contiguous
 * blocks: {bytes, 1, 1, 1}. The same at each member, except `here`
 * @param err      detail on failure, or NULL
 * @return as asymreg_sync(); ASYMREG_EOVERFLOW: n blocks need more than an address can hold
 *
 * Cost: two syncs, and a put to each other member, or one for each element if they are strided.
 */
ASYMREG_API int asymreg_alltoall(struct asymreg_group *group, const void *src, void *buf,
                                 const struct asymreg_member *where,
                                 const struct asymreg_strides *strides, struct asymreg_error *err);

/**
 * @name Reductions
 * @{
 */
#define ASYMREG_OP_SUM  0u /**< x + y; integers wrap */
#define ASYMREG_OP_PROD 1u /**< x * y; integers wrap */
#define ASYMREG_OP_MIN  2u /**< y < x ? y : x; not of complex numbers */
#define ASYMREG_OP_MAX  3u /**< y > x ? y : x; not of complex numbers */
#define ASYMREG_OP_AND  4u /**< x & y, of integers */
#define ASYMREG_OP_OR   5u /**< x | y, of integers */
#define ASYMREG_OP_XOR  6u /**< x ^ y, of integers */

#define ASYMREG_TYPE_INT8           0u
#define ASYMREG_TYPE_INT16          1u
#define ASYMREG_TYPE_INT32          2u
#define ASYMREG_TYPE_INT64          3u
#define ASYMREG_TYPE_UINT8          4u
#define ASYMREG_TYPE_UINT16         5u
#define ASYMREG_TYPE_UINT32         6u
#define ASYMREG_TYPE_UINT64         7u
#define ASYMREG_TYPE_FLOAT          8u
#define ASYMREG_TYPE_DOUBLE         9u
#define ASYMREG_TYPE_LONG_DOUBLE    10u
#define ASYMREG_TYPE_COMPLEX_FLOAT  11u
#define ASYMREG_TYPE_COMPLEX_DOUBLE 12u

/**
 * @brief Combine n elements of every member, element by element, and give every member the result.
 * @param group  the group
 * @param op     ASYMREG_OP_*, the same at each member
 * @param type   ASYMREG_TYPE_*, the same at each member
 * @param src    this member's elements; may be `buf`
 * @param buf    the result; aligned for the type, registered ASYMREG_RW
 * @param where  array of n: each member's `buf`, as peers reach it
 * @param n      how many elements, the same at each member
 * @param err    detail on failure, or NULL
 * @return as asymreg_sync(); -EINVAL: no such operation or type, or not for that type;
 *         ASYMREG_EALIGN; ASYMREG_EOVERFLOW
 *
 * **Deterministic.** Each element is computed once, and every member gets the same bits. The order
 * is that of the members: x from lower ones, y from higher ones. The brackets depend only on the
 * number of members: from the last member backwards, in halves of powers of two (five: m0 + ((m1 +
 * m2) + (m3 + m4))). So a sum of floating-point numbers is the same in every run and over every
 * transport.
 *
 * Cost: ⌈log2 n⌉ levels, each a get of the elements in pieces of 8 KiB; then a broadcast.
 */
ASYMREG_API int asymreg_reduce(struct asymreg_group *group, uint32_t op, uint32_t type,
                               const void *src, void *buf, const struct asymreg_member *where,
                               size_t n, struct asymreg_error *err);
/** @} */

#ifdef __cplusplus
}
#endif
#endif /* ASYMREG_COLL_H */
