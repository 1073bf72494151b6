/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file exchange.h
 * @brief Between the servers of a job's nodes: Put, Get, Fence, Ring and Allgather over many nodes,
 *        without I/O.
 *
 * The model. A job runs on `n_nodes` nodes, each with one server; an *exchange* is one node's part
 * in one job. Its node tells it what the ranks there do (put, get, fence, ring, allgather), hands
 * over the frames that come from other nodes, and says when a node is lost. The exchange gives out
 * frames through ops->send() and results through the other callbacks. It owns no link, thread,
 * clock or file; the same code runs in pmirun and, 65,536 times, in a simulator.
 *
 * Two kinds of keys. A DENSE key is read by most nodes: a Fence brings it to all of them. A SPARSE
 * key is read by few: it is never broadcast but fetched by who asks. The hint comes with the Put;
 * unhinted keys go by `opts.unhinted`. A key that a Fence has once broadcast, or will since its
 * node has put it so, is DENSE from then on, whatever later Puts say.
 *
 * Where SPARSE keys live (`opts.design`). Each has a *home*, the one node whose copy is always
 * right:
 *
 * | design | home of a key            | a Put sends             | a Get that misses sends                          |
 * |--------|--------------------------|-------------------------|--------------------------------------------------|
 * | TREE   | the tree's root, node 0  | 1 frame to each ancestor, all keep it | requests up to the first node that knows; it answers all that passed them on |
 * | DKVS   | by the key's hash        | 1 frame, and 1 back to acknowledge it unless FENCE_FREE | 1 request, 1 answer         |
 * | DIRECT | the node of the source rank, which the Get must name | nothing   | 1 request, 1 answer                 |
 *
 * Consistency. What was put before a Fence is found by every Get after it, and of several Puts of a
 * key the latest in that order. Puts of one key by two nodes between the same two Fences have no
 * order, but every node agrees on one of them after the Fence: for DENSE keys the highest node's,
 * for SPARSE ones what came last at its home. Every node counts its Fences; a copy of a SPARSE key
 * away from its home carries the count at which it was fetched and is not used after the next one.
 * Without Fences, copies are good for ever, so that such a job must put each key once.
 *
 * Get. PMIWIRE_GET_LOCAL looks at what is on this node. PMIWIRE_GET_REMOTE asks the home where that
 * fails, which answers at once. PMIWIRE_GET_WAIT has the home wait for the Put. A node has at most
 * one request for a key under way, of each of the last two kinds: further Gets of it queue up
 * behind that. A WAIT for a DENSE key ends with the Fence that brings it (in design DIRECT, with
 * its Put). It ends without a value when the rank that could put the key is gone: PMIWIRE_ENOENT;
 * a Get that names its source needs that rank, any other needs one rank besides the waiter's own.
 * Or after opts.wait_ns: PMIWIRE_ETIME. pmiwire_exchange_gone() says which local ranks are gone.
 * In design DKVS with FENCE_FREE, whose Puts are not acknowledged, ranks of other nodes that are
 * gone end nothing.
 *
 * Fence. A flood over a k-ary tree: to each neighbour goes what came from all others and from here,
 * one frame each way on each of the tree's n - 1 links where it fits one, and every node gets each
 * byte once. Beside it, dissemination (Bruck's form of recursive doubling, for any n): ceil(log2 n)
 * frames from each node. A Fence also waits until the acknowledgements of this node's Puts have
 * come. An Allgather is the same with one value a rank instead of pairs.
 *
 * Ring. Every rank gives a value for its left and one for its right neighbour. The ring's order is
 * that of nodes, and within a node that of ranks, so that however ranks are placed each node sends
 * two frames, to the node before and the node after it. A rank's place is a prefix sum over the
 * nodes' numbers of ranks; these are known from the placement (`opts.n_below`), and each frame to
 * the right carries the sum to have it checked.
 *
 * Failure. A lost node, or memory that runs out in the middle of something that other nodes rely
 * on, ends the exchange: every token and every collective under way is completed with the error,
 * later calls return it, and a FAIL frame tells the tree's neighbours, who pass it on. So every
 * node learns of a loss if each reports losing its neighbours in the tree
 * (pmiwire_exchange_neighbour()); keep links to those.
 *
 * Frames. At most opts.max_frame_bytes, default PMIWIRE_EXCHANGE_FRAME_BYTES; larger sets are
 * split. Between two nodes they must arrive whole, once and in order; nothing is assumed about
 * different pairs of nodes. They hold no length of their own that the link could trust: it delimits
 * them. Every frame is checked whole before anything of it is used; one that is not in order is
 * refused with PMIWIRE_EPROTO and changes nothing. Links must have authenticated their peer and
 * refuse replays. A frame:
 *
 *     u32 magic        "PFX3" read as a word: nodes of the other byte order, and of another
 *                      version, are refused
 *     u8  type         PMIWIRE_XF_*
 *     u8  flags        PMIWIRE_XFF_*
 *     u16 arg          GET: nodes that want the answer; COLL: kind << 8 | round (0 on the tree)
 *     u32 job          opts.job
 *     u32 from         the node that sent it
 *     u32 seq          PUT, GET: the sender's count of Fences; ANSWER: the count at which it is
 *                      good; COLL, RING: number of the collective, from 1; ACK: how many Puts
 *     u32 bytes        of the frame
 *     PUT, ANSWER      records; an ANSWER has one, without FOUND one with an empty value
 *     GET              u32 nodes[arg]: who wants the answer; then the key
 *     COLL             segments: number node, number bytes, runs
 *     RING             u32 prefix sum, i32 reserved, then the value
 *     FAIL             i32 code, u32 node
 *     GONE             u32 rank, u32 the node that asks; with FOUND the answer: it is gone
 *
 * A *record* is a pair as libshmht's log holds it: a word (key length << 18 | value length), key,
 * value, zeros up to a multiple of 4. What collectives deliver is *blocks*: a header of
 * PMIWIRE_BLOCK_HEADER_BYTES and records, which is what shmht_merge() takes whole.
 * pmiwire_block_next() walks one.
 *
 * Between nodes a collective's pairs are *runs*, which stay as the node that they come from has
 * made them until they are put into blocks. A run is n pairs with keys of one length and values of
 * one length, and says once what those keys have in common at their beginning:
 *
 *     number n, u8 shared, number rest, number length    a number: 7 bits a byte, the lowest first,
 *                                                        all but the last byte with 128; no longer
 *                                                        than it must be
 *     char begin[shared]                                 the keys are of shared + rest bytes, the
 *                                                        values of length bytes
 *     char pairs[n][rest + length]
 *
 * So the bytes of a Fence are 24 a frame, 2 to 10 a segment, 4 to 11 a run, and of the pairs
 * themselves less than they are by shared * (n - 1) for each run. A node has one segment in a
 * Fence, or one for every max_frame_bytes - 64 bytes of its pairs as records: what a frame says is
 * never more than that a segment. A collective whose frames are more than 4 GiB ends with -ENOMEM.
 *
 * Cost. A Get is at most two lookups by hash and one of ops->find(). Memory is what is held: own
 * Puts, keys whose home is here, and copies of what this node's ranks asked for (dropped at the
 * next Fence): O(k) for k such keys, whatever the job's size, at about 70 bytes each and the pair;
 * while a Fence is under way, what it brings and a block of it. Buffers grow by doubling within
 * opts.max_bytes; nothing else is allocated.
 *
 * Whether a rank is gone is asked with each tick, while a Get waits for it from one tick to the
 * next: one frame to its node by the tree, and one back when it is.
 *
 * Callbacks may call every function here for the same exchange, but pmiwire_exchange_destroy(),
 * with the exceptions that are stated. Results are handed over before the outermost call returns.
 * Threads: one exchange, one thread at a time. No global state.
 *
 * @source S. Chakraborty, H. Subramoni, J. Perkins, A. Moody, M. Arnold, D. K. Panda, "PMI
 * Extensions for Scalable MPI Startup" (EuroMPI/ASIA 2014): designs (3.1 to 3.3), sequence numbers
 * and pending queues (3.4), Ring, hint, waiting Get (4.1 to 4.3). The flooding Fence, the
 * acknowledged Puts, homes, agreement on concurrent Puts, blocks and failure are ours.
 */
#ifndef PMIWIRE_EXCHANGE_H
#define PMIWIRE_EXCHANGE_H

#include <sys/types.h>
#include <sys/uio.h>

#include <pmiwire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @name Limits, bytes
 * @{
 */
#define PMIWIRE_EXCHANGE_FRAME_BYTES     65536u    /**< default of opts.max_frame_bytes */
#define PMIWIRE_EXCHANGE_MIN_FRAME_BYTES 4096u     /**< least that opts.max_frame_bytes may be */
#define PMIWIRE_EXCHANGE_MAX_FRAME_BYTES 16777216u /**< most */
/**
 * key + value of a pair, or a value of a Ring or an Allgather, are at most max_frame_bytes less
 * this
 */
#define PMIWIRE_EXCHANGE_OVERHEAD_BYTES  192u
#define PMIWIRE_EXCHANGE_MAX_KEY_BYTES   2047u
#define PMIWIRE_EXCHANGE_MAX_VALUE_BYTES 262143u
#define PMIWIRE_EXCHANGE_MAX_BYTES       1073741824u /**< default of opts.max_bytes */
#define PMIWIRE_EXCHANGE_MAX_ARITY       32u         /**< most children of a node in the tree */
#define PMIWIRE_EXCHANGE_MAX_IOV         64u         /**< most pieces that send() is given */
#define PMIWIRE_EXCHANGE_HEADER_BYTES    24u         /**< of a frame */
#define PMIWIRE_BLOCK_HEADER_BYTES       32u         /**< of a block */
/** a block is at most this, or one node's one segment */
#define PMIWIRE_EXCHANGE_BLOCK_BYTES 1048576u
/** @} */

/** The rank of pairs that no rank has put: the launcher's. */
#define PMIWIRE_RANK_NONE (-1)
/** pmiwire_exchange_fence(): all local ranks at once. */
#define PMIWIRE_RANK_ALL (-2)

/** @name Designs: where SPARSE keys live
 * @{ */
#define PMIWIRE_DESIGN_DKVS   0u
#define PMIWIRE_DESIGN_DIRECT 1u
#define PMIWIRE_DESIGN_TREE   2u
/** @} */

/** @name Algorithms of Fence and Allgather
 * @{ */
#define PMIWIRE_FENCE_TREE 0u
/** not with PMIWIRE_DESIGN_TREE, whose Puts it could overtake */
#define PMIWIRE_FENCE_DOUBLING 1u
/** @} */

/** @name Flags of an exchange
 * @{ */
/** every key is SPARSE and put once; a Fence is a barrier alone; Puts are not acknowledged */
#define PMIWIRE_EXCHANGE_FENCE_FREE 1u
/** @} */

/** @name What collectives are
 * @{ */
#define PMIWIRE_COLL_FENCE     0u
#define PMIWIRE_COLL_ALLGATHER 1u
#define PMIWIRE_COLL_COUNT_    2u
/** @} */

/** @name Types of frames, and flags within them
 * @{ */
#define PMIWIRE_XF_PUT    1u
#define PMIWIRE_XF_ACK    2u
#define PMIWIRE_XF_GET    3u
#define PMIWIRE_XF_ANSWER 4u
#define PMIWIRE_XF_COLL   5u
#define PMIWIRE_XF_RING   6u
#define PMIWIRE_XF_FAIL   7u
#define PMIWIRE_XF_GONE   8u
#define PMIWIRE_XF_COUNT_ 9u

#define PMIWIRE_XFF_WAIT  1u /**< GET, ANSWER: of a Get that waits */
#define PMIWIRE_XFF_FOUND 2u /**< ANSWER: there is a value; GONE: the rank is gone */
/** COLL: nothing more comes from this neighbour for this collective */
#define PMIWIRE_XFF_LAST  4u
#define PMIWIRE_XFF_RIGHT 8u  /**< RING: goes to the node after, else to the one before */
#define PMIWIRE_XFF_ACK   16u /**< PUT: to be acknowledged */
/** GET: the answer to an earlier request does not do */
#define PMIWIRE_XFF_FRESH 32u
/** @} */

struct pmiwire_exchange; /**< one node's part in one job */

/**
 * What you do for an exchange. `ctx` is opts.ctx. Views in arguments live until the callback
 * returns or calls the exchange: copy what you hand back to it.
 */
struct pmiwire_exchange_ops {
    size_t size; /**< sizeof(struct pmiwire_exchange_ops) */

    /**
     * Send a frame: queue or copy its bytes, which are valid during the call alone. Must not call
     * the exchange: a link that turns out to be dead is reported later. Needed where there are two
     * nodes or more.
     * @param node   never this one
     * @param iov    n_iov pieces, at most PMIWIRE_EXCHANGE_MAX_IOV, each 1 byte or more
     * @param bytes  of all together, at most opts.max_frame_bytes
     */
    void (*send)(void *ctx, uint32_t node, const struct iovec *iov, uint32_t n_iov, size_t bytes);

    /**
     * The node of a rank below opts.n_ranks. Must be a constant function. Needed where there are
     * two nodes or more, and for Allgather.
     */
    uint32_t (*node_of)(void *ctx, uint32_t rank);

    /**
     * A Get has ended. @param token as given; @param rc 0, PMIWIRE_ENOENT (of PMIWIRE_GET_WAIT:
     * who could put the key is gone), PMIWIRE_ETIME, or why the exchange failed; @param value of rc
     * 0. Needed where Gets are not all local.
     */
    void (*got)(void *ctx, uint64_t token, int rc, struct pmiwire_str value);

    /**
     * A collective has ended, for all local ranks; its pairs have been handed over. @param kind
     * PMIWIRE_COLL_*; @param number counts those of a kind from 1;
     * @param rc 0 or why the exchange failed. Needed for Fence and Allgather.
     */
    void (*done)(void *ctx, uint32_t kind, uint32_t number, int rc);

    /**
     * Pairs that a collective has brought, those of this node among them; several times where there
     * are many. A Fence's: put them in order into what `find` looks at, later ones replacing
     * earlier ones. An Allgather's: the key is the rank, 4 bytes as in memory (uint32_t), each rank
     * once, in no order of ranks.
     * @param block  pmiwire_block_next() or shmht_merge() read it; aligned to 8
     * @return 0, or an error, which ends the exchange with it. Must not call the exchange
     */
    int (*pairs)(void *ctx, uint32_t kind, uint32_t number, const void *block, size_t bytes);

    /**
     * Look among the pairs of Fences. With it the exchange keeps none of them itself, and `pairs`
     * must be set. NULL: it keeps them. Must not call the exchange, and must not find what `pairs`
     * has not brought, such as this node's SPARSE keys.
     * @return 0 with *value, or PMIWIRE_ENOENT
     */
    int (*find)(void *ctx, struct pmiwire_str key, struct pmiwire_str *value);

    /** The Ring has ended for a local rank. @param place its place in the ring, from 0; @param left
     * what the left neighbour gave for its right,
     * @param right what the right one gave for its left; all void with rc != 0. Needed for Ring. */
    void (*ringed)(void *ctx, uint32_t rank, int rc, uint32_t place, struct pmiwire_str left,
                   struct pmiwire_str right);

    /**
     * The exchange has failed, once, after all completions. @param node the lost node where rc is
     * PMIWIRE_ELOST, otherwise where it failed. May be NULL.
     */
    void (*failed)(void *ctx, int rc, uint32_t node);
};

/**
 * How an exchange is set up. Zero all, set `size`, then what differs. All nodes must give the same
 * where not said otherwise.
 */
struct pmiwire_exchange_opts {
    size_t size;                            /**< sizeof(struct pmiwire_exchange_opts) */
    const struct pmiwire_exchange_ops *ops; /**< copied. Of this node */
    void *ctx;                              /**< handed to every callback. Of this node */
    const struct pmiwire_allocator *alloc;  /**< NULL: libc. Copied. Of this node */
    uint32_t job;     /**< stands in every frame, so that links can serve several jobs */
    uint32_t node;    /**< this one, below n_nodes */
    uint32_t n_nodes; /**< 1 to 2^31-1: those that have ranks of the job, numbered from 0 */
    uint32_t n_ranks; /**< of the whole job, n_nodes to 2^31-1 */
    const uint32_t
        *ranks;       /**< array of n_local: those on this node, ascending. Copied. Of this node */
    uint32_t n_local; /**< 1 to n_ranks. Of this node */
    uint32_t n_below; /**< ranks on the nodes below this one. Of this node */
    uint32_t design;  /**< PMIWIRE_DESIGN_* */
    uint32_t fence;   /**< PMIWIRE_FENCE_* */
    uint32_t arity;   /**< of the tree, 1 (PMIWIRE_DESIGN_TREE: 2) to PMIWIRE_EXCHANGE_MAX_ARITY; 0:
                         pmiwire_exchange_arity(n_nodes) */
    uint32_t unhinted; /**< PMIWIRE_HINT_DENSE or _SPARSE; 0: DENSE, since PMI's programs Fence and
                          then Get everything. SPARSE is for jobs all of whose Gets are REMOTE or
                          WAIT: a LOCAL one does not find other nodes' SPARSE keys */
    uint32_t flags;    /**< PMIWIRE_EXCHANGE_* */
    uint32_t max_frame_bytes; /**< 0: PMIWIRE_EXCHANGE_FRAME_BYTES */
    size_t max_bytes; /**< most memory that this exchange holds; 0: PMIWIRE_EXCHANGE_MAX_BYTES. Of
                         this node */
    uint64_t wait_ns; /**< a Get not answered for so long ends with PMIWIRE_ETIME; 0: never. Of this
                         node */
};

/**
 * @brief Create one node's part in a job.
 *
 * Frames of other nodes may come before theirs is known here: the link keeps them until this has
 * been called.
 * @return 0, -ENOMEM, -EINVAL
 * @threads MT-Safe. Allocates about 1,260 bytes and 4 3/8 a local rank.
 */
PMIWIRE_API int pmiwire_exchange_create(const struct pmiwire_exchange_opts *opts,
                                        struct pmiwire_exchange **x);

/**
 * @brief Free it; nothing is completed and no callback called. NULL is allowed. Not from a
 *        callback.
 */
PMIWIRE_API void pmiwire_exchange_destroy(struct pmiwire_exchange *x);

/**
 * @name What ranks do
 *
 * Each returns an error without having changed anything: -ENOMEM (max_bytes too), the errors named,
 * or why the exchange has failed. MT-Safe on distinct exchanges. Allocates only where a buffer has
 * to grow.
 * @{
 */
/**
 * @brief Put a pair.
 * @param rank   local, or PMIWIRE_RANK_NONE
 * @param key    1 to PMIWIRE_EXCHANGE_MAX_KEY_BYTES bytes, any
 * @param value  may be empty; with the key within max_frame_bytes less
 *               PMIWIRE_EXCHANGE_OVERHEAD_BYTES
 * @param hint   PMIWIRE_HINT_*
 * @return 0, -EINVAL (rank or hint), PMIWIRE_EEMPTY, PMIWIRE_EKEYLEN, PMIWIRE_EVALLEN
 *
 * Cost: a lookup and a copy. Frames: see the table of designs; none for DENSE keys.
 */
PMIWIRE_API int pmiwire_exchange_put(struct pmiwire_exchange *x, int32_t rank,
                                     struct pmiwire_str key, struct pmiwire_str value,
                                     uint32_t hint);

/**
 * @brief Get a value.
 * @param rank   local, the one that wants it, or PMIWIRE_RANK_NONE
 * @param key    as it was put
 * @param src    the rank that puts it, or PMIWIRE_RANK_NONE: unknown. PMIWIRE_DESIGN_DIRECT asks
 *               its node; where it is gone a PMIWIRE_GET_WAIT ends
 * @param how    PMIWIRE_GET_*
 * @param token  yours, comes back in ops->got() if this returns PMIWIRE_PENDING
 * @param[out] value  valid until the next call for the exchange
 * @return 0, PMIWIRE_PENDING, PMIWIRE_ENOENT, -EINVAL (how, or no such rank), PMIWIRE_EKEYLEN,
 *         PMIWIRE_EMISSING (DIRECT, not here, and src is unknown)
 */
PMIWIRE_API int pmiwire_exchange_get(struct pmiwire_exchange *x, int32_t rank,
                                     struct pmiwire_str key, int32_t src, uint32_t how,
                                     uint64_t token, struct pmiwire_str *value);

/**
 * @brief A local rank enters the Fence. When all ranks of all nodes have, ops->done() is called,
 *        perhaps before this returns.
 * @param rank  local, or PMIWIRE_RANK_ALL
 * @return 0, -EINVAL, PMIWIRE_ESTATE (is in it already; with RANK_ALL: some rank is)
 */
PMIWIRE_API int pmiwire_exchange_fence(struct pmiwire_exchange *x, int32_t rank);

/**
 * @brief A local rank gives its value to the Allgather. When all have, ops->pairs() and ops->done()
 *        are called.
 * @return 0, -EINVAL, PMIWIRE_ESTATE (has done so already), PMIWIRE_EVALLEN
 */
PMIWIRE_API int pmiwire_exchange_allgather(struct pmiwire_exchange *x, int32_t rank,
                                           struct pmiwire_str value);

/**
 * @brief A local rank enters the Ring. ops->ringed() is called for each.
 * @param left   for the left neighbour, who gets it as its `right`
 * @param right  for the right neighbour, who gets it as its `left`
 * @return 0, -EINVAL, PMIWIRE_ESTATE (is in it already), PMIWIRE_EVALLEN
 */
PMIWIRE_API int pmiwire_exchange_ring(struct pmiwire_exchange *x, int32_t rank,
                                      struct pmiwire_str left, struct pmiwire_str right);

/**
 * @brief A local rank is gone: it has finalized or ended, and does nothing here any more. Gets that
 *        wait for it on any node end. Again: ignored.
 * @return 0, -EINVAL (not local)
 * @cost A pass over the keys that are waited for.
 */
PMIWIRE_API int pmiwire_exchange_gone(struct pmiwire_exchange *x, int32_t rank);
/** @} */

/**
 * @name What links and clocks do
 * @{
 */
/**
 * @brief A frame has come.
 * @param node  from which link: who the peer was proved to be
 * @param data  the frame, any alignment; not kept
 * @return 0; PMIWIRE_EPROTO (not in order, of another node or job: refused, nothing has changed;
 *         tell and drop it, or the link), PMIWIRE_EVERSION (of another byte order or version);
 *         -ENOMEM and others: the exchange has failed with this
 * @threads MT-Safe on distinct exchanges.
 */
PMIWIRE_API int pmiwire_exchange_input(struct pmiwire_exchange *x, uint32_t node, const void *data,
                                       size_t n);

/**
 * @brief A node is lost: its link broke, or could not be made. The exchange fails with
 *        PMIWIRE_ELOST. Again: ignored. @return 0, -EINVAL
 */
PMIWIRE_API int pmiwire_exchange_lost(struct pmiwire_exchange *x, uint32_t node);

/**
 * @brief Give up, for a reason of your own: as pmiwire_exchange_lost(), with any error. All nodes
 *        are told. @return 0, -EINVAL (rc is not negative)
 */
PMIWIRE_API int pmiwire_exchange_fail(struct pmiwire_exchange *x, int rc);

/**
 * @brief Set the time, twice a second perhaps: for opts.wait_ns, and for Gets that wait for ranks
 *        of other nodes, which may be gone.
 * @param now_ns  any monotonic clock
 * @cost A pass over the keys that are waited for.
 */
PMIWIRE_API void pmiwire_exchange_tick(struct pmiwire_exchange *x, uint64_t now_ns);

/**
 * @brief The links to keep from the start: the parent and the children in the tree.
 * @param i     0, 1, … until this fails
 * @param[out] node  the i-th of them; the parent comes first where there is one
 * @return 0, PMIWIRE_ENOENT
 */
PMIWIRE_API int pmiwire_exchange_neighbour(const struct pmiwire_exchange *x, uint32_t i,
                                           uint32_t *node);

/**
 * @brief The same without an exchange: the parent of node is (node - 1) / arity, its children arity
 *        * node + 1 to arity * node + arity.
 * @param arity  0: pmiwire_exchange_arity(n_nodes)
 * @return 0, PMIWIRE_ENOENT, -EINVAL
 */
PMIWIRE_API int pmiwire_exchange_tree_neighbour(uint32_t n_nodes, uint32_t arity, uint32_t node,
                                                uint32_t i, uint32_t *neighbour);

/**
 * @brief The arity used by default: of 2 to 4 the one of least depth * (8 + arity), as a hop costs
 *        about as much as sending 8 small frames.
 *
 * Where Fences bring little, 8 is up to 15 % faster; where they bring much, whose time goes with
 * arity, 3 is as much faster than 4. MT-Safe.
 * @source ours, by sim_exchange
 */
PMIWIRE_API uint32_t pmiwire_exchange_arity(uint32_t n_nodes);

/** What stands in a frame's header. */
struct pmiwire_frame_info {
    uint32_t job;
    uint32_t from;
    uint32_t type; /**< PMIWIRE_XF_* */
    uint32_t seq;
};

/**
 * @brief Read a frame's header, to find the exchange that it is for. @return 0, PMIWIRE_EPROTO,
 *        PMIWIRE_EVERSION. MT-Safe
 */
PMIWIRE_API int pmiwire_frame_peek(const void *data, size_t n, struct pmiwire_frame_info *info);
/** @} */

/**
 * @brief Walk a block.
 * @param block  of `bytes` bytes, not trusted
 * @param pos    0 to begin with; the library's
 * @param[out] pair  points into the block
 * @return 1: a pair; 0: the end; PMIWIRE_EPROTO, PMIWIRE_EVERSION
 * @threads MT-Safe.
 */
PMIWIRE_API int pmiwire_block_next(const void *block, size_t bytes, size_t *pos,
                                   struct pmiwire_keyval *pair);

/** Frames of one type. */
struct pmiwire_frame_count {
    uint64_t n_sent, bytes_sent; /**< with headers */
    uint64_t n_received, bytes_received;
};

/** What has been done, and what is held. The first never go back. */
struct pmiwire_exchange_stats {
    struct pmiwire_frame_count frames[PMIWIRE_XF_COUNT_]; /**< by type */
    uint64_t n_refused;                                   /**< frames refused */
    uint64_t n_puts;                                      /**< by local ranks, as the following */
    uint64_t n_gets;
    uint64_t n_local;       /**< Gets answered at once */
    uint64_t n_requests;    /**< GET frames that began here */
    uint64_t n_joined;      /**< Gets that queued up behind one */
    uint64_t n_stale;       /**< copies that a Get found too old */
    uint64_t n_fences;      /**< completed */
    uint64_t payload_bytes; /**< keys and values that Fences and Allgathers have brought, this
                               node's among them */
    uint64_t n_keys;        /**< held now: own, home's and copies */
    uint64_t n_waiting;     /**< Gets waiting now, other nodes' among them */
    uint64_t bytes;         /**< memory held now */
    uint64_t peak_bytes;
};

/** @brief Read the counters. */
PMIWIRE_API void pmiwire_exchange_get_stats(const struct pmiwire_exchange *x,
                                            struct pmiwire_exchange_stats *stats);

#ifdef __cplusplus
}
#endif
#endif /* PMIWIRE_EXCHANGE_H */
