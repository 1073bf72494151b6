/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file coll.h
 * @brief Barrier, broadcast and all-gather over registered regions, made of puts.
 *
 * A group is n members that have told each other the address of a scratch region each, by whatever
 * means. Members are numbered 0 to n-1; every member makes the same calls in the same order. The
 * regions that data go to are ordinary ones, anywhere. A member talks to the 2 ⌈log2 n⌉ others that
 * are a power of two away from it, and need know no more of them: asymreg_group_create() asks for
 * each when it is first needed, which is the time to import it. Making a group involves nobody
 * else, so a team of some members costs them nothing to set up, and teams share the scratch
 * regions: each has a channel of eight.
 *
 * Algorithms: dissemination barrier, ⌈log2 n⌉ rounds; broadcast along a binomial tree; all-gather
 * by doubling, ⌈log2 n⌉ rounds, each a put of what is known so far (two where it wraps around) and
 * of a flag. Flags are 8-byte counters in the scratch regions that only grow; the transport must
 * write 8 aligned bytes at once. Broadcast and all-gather begin with a barrier: nobody's buffer is
 * written before it has called.
 *
 * A member that dies makes the others return ASYMREG_EPEER if they wait for it directly, or
 * ASYMREG_ETIMEDOUT; the group is of no use then, nor is its channel.
 *
 * Threads: a group is its worker's, and so one thread's at a time; groups of distinct workers are
 * independent. Once it is made it allocates nothing of its own; its puts are as the transport makes
 * them.
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
#define ASYMREG_GROUP_SCRATCH_BYTES 4096u
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
    uint32_t timeout_ms; /**< how long a round of a call waits for the member that it needs; 0: for
                            ever, or until that has died */
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
 * have. It takes 1.3 KB, however many members there are. A group ends as silently, with
 * asymreg_group_destroy(), when its last call has returned. After 2^32 calls a group runs into the
 * next serial's numbers.
 */
ASYMREG_API int asymreg_group_create(struct asymreg_worker *worker,
                                     const struct asymreg_group_opts *opts,
                                     struct asymreg_group **group, struct asymreg_error *err);

/** @brief Free a group. NULL is allowed. */
ASYMREG_API void asymreg_group_destroy(struct asymreg_group *group);

/**
 * @brief Wait until every member has called it. @param group the group @return 0, ASYMREG_EPEER,
 *        ASYMREG_ETIMEDOUT, or as asymreg_put()
 */
ASYMREG_API int asymreg_barrier(struct asymreg_group *group);

/**
 * @brief Copy bytes from one member to all.
 * @param group  the group
 * @param root   the member that has them
 * @param buf    here: the source at the root, the destination elsewhere, registered ASYMREG_WRITE
 * @param where  array of n: each member's `buf`, as peers reach it
 * @param bytes  how many
 * @return as asymreg_barrier(), -EINVAL. When it returns, `buf` is filled here; others may still be
 *         at work
 */
ASYMREG_API int asymreg_broadcast(struct asymreg_group *group, uint32_t root, void *buf,
                                  const struct asymreg_member *where, size_t bytes);

/**
 * @brief Collect a block of every member at every member.
 * @param group  the group
 * @param src    this member's block, `bytes` long
 * @param buf    n blocks, in the order of members; registered ASYMREG_WRITE
 * @param where  array of n: each member's `buf`, as peers reach it
 * @param bytes  length of a block
 * @return as asymreg_barrier(), -EINVAL. When it returns, all n blocks are here
 */
ASYMREG_API int asymreg_allgather(struct asymreg_group *group, const void *src, void *buf,
                                  const struct asymreg_member *where, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif /* ASYMREG_COLL_H */
