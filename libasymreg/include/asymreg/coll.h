/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file coll.h
 * @brief Collectives over registered regions, made of puts and gets: sync, barrier, broadcast,
 *        all-gather, collect, all-to-all and reduction.
 *
 * A group is n members that know the address of a scratch region of each, exchanged by any means.
 * Members are numbered 0 to n-1; every member makes the same calls in the same order. The regions
 * that data go to are ordinary ones, anywhere. A member talks to the 2 ⌈log2 n⌉ others that are a
 * power of two away from it: asymreg_group_create() asks for each when it is first needed, which is
 * the time to import it. asymreg_collect() and asymreg_alltoall() put to every member, which is
 * imported by then. Making a group involves nobody else, so a team of some members costs them
 * nothing to set up, and teams share the scratch regions: each has a channel of eight.
 *
 * Any transport will do that writes 8 aligned bytes at once: shared memory, CMA, UCX and verbs do.
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
 * doubling, ⌈log2 n⌉ rounds, each a put of what is known so far (two where it wraps around) and of
 * a flag. Collect: the sync that begins it adds up the lengths, then each member puts its block to
 * every other. All-to-all: a put to every other member. Reduction: a binomial tree that ends at the
 * last member, in which each parent gets its children's results, and a broadcast of the result.
 * Flags are 8-byte counters in the scratch regions that only grow.
 *
 * **When a buffer is touched.** Nobody's `buf` is read or written before that member has called.
 *
 * **Failure.** A call that cannot be completed ends at every member. The member that finds out
 * notifies those it talks to, and they do the same: each returns the same error, and `err->member`
 * is the number of the member concerned: ASYMREG_EPEER, which member has died; ASYMREG_ENOREGION
 * and the like, whose memory is not as `where` says; ASYMREG_ETIMEDOUT, for whom a member has
 * waited. `err->pe` is that member's PE where this member knows it: from `where`, or if they talk
 * to each other. A member that has returned before learns of it in its next call. Then the group is
 * of no use, nor is its channel; a call on it returns the error again. Operations may still be
 * under way on the buffers of the call until asymreg_flush() of the members; the group's own memory
 * is kept until the worker goes. Wrong arguments (-EINVAL, ASYMREG_EALIGN) are refused before
 * another member is involved: the group is as it was, and the call can be made again.
 *
 * A member may close as soon as a call has returned an error: it has notified those that it talks
 * to, so they do not name it. But it may be named by members that put to it in asymreg_collect() or
 * asymreg_alltoall() and do not talk to it otherwise; and, over UCX and verbs, by a member that it
 * has neither put to nor waited for yet.
 *
 * Over UCX and verbs a failed call waits for the tables of members that it has not put to yet, in
 * order to notify them: `timeout_ms`, 5 seconds at most. A member that has not answered by then is
 * not notified. It ends by its own `timeout_ms` and may name another member, or, with `timeout_ms`
 * 0, waits until a member that it awaits has gone.
 *
 * Before asymreg_flush() or asymreg_worker_destroy() a member that is stopped must be dropped with
 * asymreg_forget(): over UCX what was put to it arrives only when it continues, and both wait for
 * that without limit.
 *
 * Errors differ in two cases. If two members find different failures at a time, members may return
 * either. An error of `member` that is neither one of asymreg's nor an errno up to 191 is
 * ASYMREG_ETRANSPORT at the other members.
 *
 * A member that waits for others progresses its worker. Over UCX without an adapter, where puts run
 * in the target, others may learn of a failure from a member only if that calls asymreg_progress()
 * or closes (or has ASYMREG_UCX_THREAD).
 *
 * **Waiting.** A call waits for a member in four places: for its flag; for a put or get to arrive;
 * over UCX and verbs, for its table, at the first access and when it has changed; and, in
 * asymreg_barrier(), for what was begun before. `timeout_ms` bounds each of them; in a barrier
 * members wait for each other twice as long, as the flush may take one of them all of its time. A
 * member that is stopped (SIGSTOP) ends the call of others after that time, and holds them up
 * without it. A put or get that ASYMREG_EBUSY ends, as its peer registers and unregisters memory,
 * is made again until it succeeds or the time is over.
 *
 * Operations that the worker began without waiting are flushed before a call: their late errors
 * would end it.
 *
 * Threads: a group is its worker's, and so one thread's at a time; groups of distinct workers are
 * independent. Once it is made it allocates nothing of its own, but, with `timeout_ms` and over a
 * network, while it reads a member's table; its operations are as the transport makes them.
 *
 * Source: "Asymmetric Memory Extension for OpenSHMEM", section 5, names collectives as future work;
 * the algorithms are common knowledge.
 */
#ifndef ASYMREG_COLL_H
#define ASYMREG_COLL_H

#include <asymreg/rma.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Bytes of scratch that each member registers (ASYMREG_RW), zeroed, aligned to 64: enough for 2^24
 * members.
 */
#define ASYMREG_GROUP_SCRATCH_BYTES 8192u
/** Channels of a scratch region. */
#define ASYMREG_GROUP_CHANNELS 8u

/** Where a member's memory is. */
struct asymreg_member {
    uint32_t pe;       /**< its number in asymreg_import() */
    uint32_t reserved; /**< 0 */
    uint64_t addr;     /**< address there */
    asymreg_id id;     /**< registration, or ASYMREG_ANY */
};

/** A group. */
struct asymreg_group;

/** Options of a group. Zero all, set `size`, then what differs. */
struct asymreg_group_opts {
    size_t size;         /**< sizeof(struct asymreg_group_opts) */
    uint32_t n;          /**< members, 1 at least */
    uint32_t me;         /**< which of them is the caller */
    void *scratch;       /**< the caller's own scratch region; groups that it is in share it */
    uint32_t timeout_ms; /**< how long a call waits for a member, at each place (see Waiting); 0:
                            without limit, until a member has died */
    uint32_t channel;    /**< below ASYMREG_GROUP_CHANNELS, the same at each member. Groups with a
                            member in common: each its own, unless every call on the one has
                            returned, everywhere, before the first on the other begins */
    uint32_t serial;   /**< the same at each member, and larger than that of each group that had the
                          channel before, at any of its members */
    uint32_t reserved; /**< 0 */
    /** array of n: the scratch regions, in the same order everywhere; those needed are copied.
     * NULL: `member` says where they are */
    const struct asymreg_member *members;
    /**
     * Where the scratch region of a member begins (not its channel); called once for each member
     * that is needed, from inside the first call on the group that needs it, and may import that
     * peer. Returns 0, or an error, which that call then returns.
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
 * Talks to nobody: a member may call this, and begin its first call on the group, before others
 * have. It takes 10 KB, however many members there are. A group ends as silently, with
 * asymreg_group_destroy(), when its last call has returned. After 2^32 calls a group runs into the
 * next serial's numbers.
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
 * What a member stored into its own memory before is visible to the others after. Puts may still be
 * under way.
 */
ASYMREG_API int asymreg_sync(struct asymreg_group *group, struct asymreg_error *err);

/**
 * @brief As asymreg_sync(), after a flush of every peer that the group's worker has used: what
 *        members put before has arrived after.
 *
 * An error of that flush is returned, without `err->member`, if the sync succeeds; the group can be
 * used. ASYMREG_ETIMEDOUT is one: after `timeout_ms` some of what was begun has not arrived. If by
 * then another peer has gone, its ASYMREG_EPEER is returned in its place.
 */
ASYMREG_API int asymreg_barrier(struct asymreg_group *group, struct asymreg_error *err);

/**
 * @brief Copy bytes from one member to all.
 * @param group  the group
 * @param root   the member that has them
 * @param buf    here: the source at the root, the destination elsewhere, registered ASYMREG_WRITE
 * @param where  array of n: each member's `buf`, as peers reach it
 * @param bytes  how many
 * @param err    detail on failure, or NULL
 * @return as asymreg_sync(). When it returns, `buf` is filled here; others may still be at work
 */
ASYMREG_API int asymreg_broadcast(struct asymreg_group *group, uint32_t root, void *buf,
                                  const struct asymreg_member *where, size_t bytes,
                                  struct asymreg_error *err);

/**
 * @brief Gather a block of every member, all of one length, at every member.
 * @param group  the group
 * @param src    this member's block, `bytes` long; its place in `buf`, or no part of `buf`
 * @param buf    n blocks, in the order of members; registered ASYMREG_WRITE
 * @param where  array of n: each member's `buf`, as peers reach it
 * @param bytes  length of a block, the same at each member
 * @param err    detail on failure, or NULL
 * @return as asymreg_sync(). When it returns, all n blocks are here
 */
ASYMREG_API int asymreg_allgather(struct asymreg_group *group, const void *src, void *buf,
                                  const struct asymreg_member *where, size_t bytes,
                                  struct asymreg_error *err);

/**
 * @brief Gather a block of every member, each of its own length, at every member: one behind the
 *        other, in the order of members.
 * @param group  the group
 * @param src    this member's block, `bytes` long; no part of `buf`
 * @param bytes  its length; may be 0
 * @param buf    all blocks; registered ASYMREG_WRITE
 * @param room   bytes there, the same at each member
 * @param where  array of n: each member's `buf`, as peers reach it; all are imported
 * @param err    detail on failure, or NULL
 * @return as asymreg_sync(); ASYMREG_ERANGE: the blocks take more than `room`, and
 *         ASYMREG_EOVERFLOW: more than 2^64 bytes (some may have been copied)
 *
 * Cost: two syncs, and a put to each other member; all-gather of blocks of one length takes fewer.
 */
ASYMREG_API int asymreg_collect(struct asymreg_group *group, const void *src, size_t bytes,
                                void *buf, size_t room, const struct asymreg_member *where,
                                struct asymreg_error *err);

/**
 * @brief Send a block of its own to every member: block i of `src` becomes block `me` of member i's
 *        `buf`.
 * @param group    the group
 * @param src      n blocks, in the order of members; no part of `buf`
 * @param buf      n blocks, in the order of members; registered ASYMREG_WRITE
 * @param where    array of n: each member's `buf`, as peers reach it; all are imported
 * @param strides  length and number of a block's elements, and how far apart they lie in `src`
 *                 (`here`) and in `buf` (`there`); block i begins i x n x stride elements behind
 *                 the first. For blocks without gaps: {bytes, 1, 1, 1}. The same at each member,
 *                 but for `here`
 * @param err      detail on failure, or NULL
 * @return as asymreg_sync(); ASYMREG_EOVERFLOW: n blocks take more than an address can hold
 *
 * Cost: two syncs, and a put to each other member: one for each element if they lie apart.
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
 * @brief Combine n elements of every member, each with those at the same place, for every member.
 * @param group  the group
 * @param op     ASYMREG_OP_*, the same at each member
 * @param type   ASYMREG_TYPE_*, the same at each member
 * @param src    this member's elements; may be `buf`
 * @param buf    the result; aligned for the type, registered ASYMREG_RW
 * @param where  array of n: each member's `buf`, as peers reach it
 * @param n      how many elements, the same at each member
 * @param err    detail on failure, or NULL
 * @return as asymreg_sync(); -EINVAL: no such operation or type, or not of that type;
 *         ASYMREG_EALIGN; ASYMREG_EOVERFLOW
 *
 * **Deterministic.** Each element is combined once, and every member gets those bits. Elements are
 * combined in the order of members, x of the lower ones with y of the higher ones, in brackets that
 * depend on the number of members alone: from the last member backwards, in halves of powers of two
 * (five: m0 + ((m1 + m2) + (m3 + m4))). So a sum of floating-point numbers is the same in every run
 * and over every transport.
 *
 * Cost: on the way up a get of the elements for each of ⌈log2 n⌉ levels, in pieces of 8 KiB; then a
 * broadcast.
 */
ASYMREG_API int asymreg_reduce(struct asymreg_group *group, uint32_t op, uint32_t type,
                               const void *src, void *buf, const struct asymreg_member *where,
                               size_t n, struct asymreg_error *err);
/** @} */

#ifdef __cplusplus
}
#endif
#endif /* ASYMREG_COLL_H */
