/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file exchange.h
 * @brief Between the servers of a job's nodes: Put, Get, Fence, Ring and Allgather over many nodes,
 *        without I/O.
 *
 * The model. A job runs on `n_nodes` nodes with one server each. An *exchange* is the object by
 * which one node takes part in one job: it trades the ranks' pairs with the other nodes, and runs
 * the job's collectives. You report to it the operations of your node's ranks, frames from other
 * nodes, and nodes and ranks that are gone. It sends frames through ops->send() and reports results
 * through the other callbacks. It owns no link, thread, clock or file.
 *
 * A key is DENSE or SPARSE. A DENSE key is one that most nodes read: a Fence brings it to all
 * nodes. A SPARSE key is one that few nodes read: it stays at its *home*, one node that opts.design
 * chooses, and readers fetch it from there. A Get looks on its own node. With PMIWIRE_GET_REMOTE it
 * then asks the home. With PMIWIRE_GET_WAIT it asks the home too, and waits there until a rank puts
 * the key.
 *
 * Liveness. Report the ranks of your node that are *gone*. Such a rank cannot enter a further
 * collective, and the exchange expects no further Put of it.
 *
 * - A collective that a gone rank has not entered cannot complete. It ends with PMIWIRE_EGONE for
 *   the ranks in it: on the gone rank's node at once, on other nodes after that node's next tick
 *   and the frames' latency. Ranks that enter later get PMIWIRE_EGONE at once.
 *   pmiwire_exchange_culprit() returns the gone rank and the reason.
 * - A collective that a gone rank has entered completes once the other ranks have entered it.
 * - A waiting Get ends when every rank that could put its key is gone.
 * - The exchange itself continues.
 *
 * The calls, in the order of a job:
 *
 *     struct pmiwire_exchange_ops ops = {
 *         .size = sizeof(ops), .send = send_frame, .node_of = node_of,
 *         .got = got, .done = done, .pairs = store, .failed = failed};
 *     struct pmiwire_exchange_opts o = {
 *         .size = sizeof(o), .ops = &ops, .node = me, .n_nodes = 3,
 *         .n_ranks = 6, .ranks = mine, .n_local = 2, .n_below = 2 * me};
 *
 *     pmiwire_exchange_create(&o, &x);
 *     pmiwire_exchange_put(x, rank, key, value, PMIWIRE_HINT_DENSE);
 *     pmiwire_exchange_fence(x, rank);               // done() when all ranks of all nodes are in
 *     pmiwire_exchange_input(x, node, frame, bytes); // a frame has come
 *     pmiwire_exchange_get(x, rank, key, -1, PMIWIRE_GET_WAIT, token, &value); // 0, or got() later
 *     pmiwire_exchange_gone(x, rank, PMIWIRE_GONE_FINALIZED); // it takes no further part
 *     pmiwire_exchange_tick(x, now_ns);              // twice a second
 *     pmiwire_exchange_fail(x, PMIWIRE_ELOST, node); // a link has broken
 *
 * A callback may call the functions of this header for the same exchange, except
 * pmiwire_exchange_destroy(). The comments of some callbacks forbid more. The exchange reports
 * results before the outermost call returns.
 *
 * Threads: one exchange, one thread at a time; MT-Safe on distinct exchanges. No global state.
 *
 * libpmiwire/EXCHANGE.md describes frames, blocks, algorithms and their costs.
 *
 * @source S. Chakraborty, H. Subramoni, J. Perkins, A. Moody, M. Arnold, D. K. Panda, "PMI
 * Extensions for Scalable MPI Startup" (EuroMPI/ASIA 2014): designs (3.1 to 3.3), sequence numbers
 * and pending queues (3.4), Ring, hint, waiting Get (4.1 to 4.3). The Fence as a flood over the
 * tree, acknowledged Puts, homes, agreement on concurrent Puts, blocks and the handling of failures
 * are ours.
 */
#ifndef PMIWIRE_EXCHANGE_H
#define PMIWIRE_EXCHANGE_H

#include <sys/types.h>
#include <sys/uio.h>

#include <pmiwire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pmiwire_exchange; /**< the object by which one node takes part in one job */

/** @name Designs: where SPARSE keys live
 *
 * - DKVS: the key's hash chooses the home. A Put sends 1 frame, and the home acknowledges it with 1
 *   frame (not with PMIWIRE_EXCHANGE_FENCE_FREE). A Get that does not find the key on its own node
 *   costs 1 request and 1 answer.
 * - DIRECT: the home is the node of the source rank, which the Get must name. A Put sends nothing.
 *   A Get that does not find the key on its own node costs 1 request and 1 answer.
 * - TREE: the nodes form a tree, and the home is its root, node 0. A Put goes to every ancestor,
 *   and each keeps the pair. A Get asks one ancestor after the other. The first one with the pair
 *   answers, and all nodes that asked keep the pair.
 * @{ */
#define PMIWIRE_DESIGN_DKVS   0u
#define PMIWIRE_DESIGN_DIRECT 1u
#define PMIWIRE_DESIGN_TREE   2u
/** @} */

/** @name Algorithms of Fence and Allgather
 * @{ */
/** a flood over the tree of nodes: one frame each way on each link (more for a large set), and
 * every node gets each byte once */
#define PMIWIRE_FENCE_TREE 0u
/** dissemination: with n nodes, each sends ceil(log2 n) frames. Not with PMIWIRE_DESIGN_TREE, where
 * the Fence could overtake Puts */
#define PMIWIRE_FENCE_DOUBLING 1u
/** @} */

/** @name Flags of an exchange
 * @{ */
/** Every key is SPARSE and put once. A Fence is only a barrier. Puts are not acknowledged */
#define PMIWIRE_EXCHANGE_FENCE_FREE 1u
/** @} */

/** @name Kinds of collectives
 * @{ */
#define PMIWIRE_COLL_FENCE     0u
#define PMIWIRE_COLL_ALLGATHER 1u
#define PMIWIRE_COLL_RING      2u
#define PMIWIRE_COLL_COUNT_    3u
/** @} */

/** @name Why a rank is gone
 * @{ */
#define PMIWIRE_GONE_FINALIZED 1u
#define PMIWIRE_GONE_ENDED     2u /**< its process has ended */
#define PMIWIRE_GONE_CLOSED    3u /**< it has closed its connection */
#define PMIWIRE_GONE_CUT_OFF   4u /**< its connection was cut off: a broken or silent client */
#define PMIWIRE_GONE_ABSENT    5u /**< its process or its connection has ended before init */
#define PMIWIRE_GONE_COUNT_    6u
/** @} */

/** No rank: the launcher itself in a Put or Get; as the source of a Get, an unknown rank. */
#define PMIWIRE_RANK_NONE (-1)
/** For pmiwire_exchange_fence(): all local ranks enter at once. */
#define PMIWIRE_RANK_ALL (-2)

/**
 * The callbacks of an exchange. `ctx` is opts.ctx. Views in arguments are valid until the callback
 * returns or calls the exchange: copy them before you pass them to the exchange.
 */
struct pmiwire_exchange_ops {
    size_t size; /**< sizeof(struct pmiwire_exchange_ops) */

    /**
     * Send a frame: queue or copy its bytes, which are valid only during the call. Must not call
     * the exchange: report a dead link after the call. Needed with two nodes or more.
     *
     * Your links must deliver the frames between two nodes whole, exactly once and in order, from
     * an authenticated peer. Frames between different pairs of nodes may arrive in any order.
     *
     * Back-pressure: return 1 when the queue is long. The frame counts as sent. Fences and
     * Allgathers then send nothing to `node` until you call pmiwire_exchange_ready(). The pause
     * costs no memory, because a collective keeps its pairs until it completes anyway. Frames of
     * other types may still follow.
     * @param node   the receiver, never this node
     * @param iov    n_iov pieces, at most PMIWIRE_EXCHANGE_MAX_IOV, each 1 byte or more
     * @param bytes  the sum of all lengths, at most opts.max_frame_bytes
     * @return 0; 1: the queue is long
     */
    int (*send)(void *ctx, uint32_t node, const struct iovec *iov, uint32_t n_iov, size_t bytes);

    /**
     * Return the node of `rank`, a number below opts.n_ranks. For one rank, return the same node in
     * every call, on every node. Needed with two nodes or more.
     */
    uint32_t (*node_of)(void *ctx, uint32_t rank);

    /**
     * A Get has ended. Needed unless all Gets are PMIWIRE_GET_LOCAL.
     *
     * A waiting Get ends with PMIWIRE_ENOENT in two cases only: its own rank is gone, or no rank is
     * left that could put the key. In the second case pmiwire_exchange_get_culprit() says why.
     * @param token  of the Get
     * @param rc     0; PMIWIRE_ENOENT: no such key; PMIWIRE_ETIME: opts.wait_ns has passed;
     *               -ENOMEM: the value has come, but no memory is left for it, or it would exceed
     *               opts.max_bytes; or the reason why the exchange failed
     * @param value  the value; valid only if rc is 0
     */
    void (*got)(void *ctx, uint64_t token, int rc, struct pmiwire_str value);

    /**
     * A collective has ended for all local ranks in it. Needed for Fence and Allgather.
     * @param kind    PMIWIRE_COLL_FENCE or PMIWIRE_COLL_ALLGATHER
     * @param number  counts the collectives of a kind from 1
     * @param rc      0: the collective is complete, and you have got its pairs; PMIWIRE_EGONE: it
     *                cannot complete, nor can a later one of its kind; or the reason why the
     *                exchange failed
     */
    void (*done)(void *ctx, uint32_t kind, uint32_t number, int rc);

    /**
     * Take pairs that a collective has brought, this node's own pairs included. If there are many,
     * the exchange calls this several times. Must not call the exchange, except for the two queries
     * named here.
     *
     * - Fence: later pairs replace earlier ones. If `find` is set, put them in order into its
     *   store. The pairs that this node has already put for the next Fence then come again, at the
     *   end, so that your store keeps their values. pmiwire_exchange_pairs() returns how many pairs
     *   the Fence brings, without those.
     * - Allgather: the key is the rank, 4 bytes as in memory (uint32_t). Each rank comes once, in
     *   any order. pmiwire_exchange_longest_value_bytes() returns the length of the longest value.
     * @param block  for pmiwire_block_next() or shmht_writer_merge(); aligned to 8
     * @return 0, or an error: the exchange then fails with it
     */
    int (*pairs)(void *ctx, uint32_t kind, uint32_t number, const void *block, size_t bytes);

    /**
     * Look a key up in a store of your own. NULL: the exchange keeps all pairs itself. If you set
     * `find`, set `pairs` too; the exchange then keeps a DENSE pair only until its Fence is
     * complete.
     *
     * - `find` must find the pairs that `pairs` has brought.
     * - It must find this node's DENSE Puts: store the pair, then call pmiwire_exchange_put().
     * - It must not find this node's SPARSE Puts.
     * - With n_nodes 1 it must find every pair, with any hint. The exchange then keeps nothing of a
     *   Put, and Fences do not call `pairs`.
     * - It must not call the exchange.
     * @return 0 with *value, or PMIWIRE_ENOENT
     */
    int (*find)(void *ctx, struct pmiwire_str key, struct pmiwire_str *value);

    /**
     * The Ring has ended for a local rank in it. Needed for Ring. `place`, `left` and `right` are
     * valid only if rc is 0.
     * @param rc     0; PMIWIRE_EGONE: neither this Ring nor a later one can complete; or the reason
     *               why the exchange failed
     * @param place  the rank's place in the ring, from 0
     * @param left   the value that the left neighbour has given for its right neighbour
     * @param right  the value that the right neighbour has given for its left neighbour
     */
    void (*ringed)(void *ctx, uint32_t rank, int rc, uint32_t place, struct pmiwire_str left,
                   struct pmiwire_str right);

    /**
     * The exchange has failed. Called once, after all completions. May be NULL.
     * @param node  if rc is PMIWIRE_ELOST the lost node, otherwise the node where the exchange
     *              failed
     */
    void (*failed)(void *ctx, int rc, uint32_t node);
};

/**
 * Options of an exchange. Zero all, set `size`, then the members that differ from the default. All
 * nodes must give the same values, except for members marked "Of this node".
 */
struct pmiwire_exchange_opts {
    size_t size;                               /**< sizeof(struct pmiwire_exchange_opts) */
    const struct pmiwire_exchange_ops *ops;    /**< copied. Of this node */
    void *ctx;                                 /**< handed to every callback. Of this node */
    const struct pmiwire_allocator *allocator; /**< NULL: libc. Of this node */
    uint32_t job;     /**< part of every frame, so that links can serve several jobs */
    uint32_t node;    /**< number of this node, below n_nodes. Of this node */
    uint32_t n_nodes; /**< 1 to 2^31-1: nodes that have ranks of the job, numbered from 0 */
    uint32_t n_ranks; /**< ranks of the whole job, n_nodes to 2^31-1 */
    const uint32_t
        *ranks;       /**< array of n_local: ranks on this node, ascending, copied. Of this node */
    uint32_t n_local; /**< 1 to n_ranks. Of this node */
    uint32_t n_below; /**< ranks on all nodes with lower numbers. Of this node */
    uint32_t design;  /**< PMIWIRE_DESIGN_* */
    uint32_t fence;   /**< PMIWIRE_FENCE_* */
    /** children of a node in the tree: 1 to PMIWIRE_EXCHANGE_MAX_ARITY, with PMIWIRE_DESIGN_TREE at
     * least 2. 0: pmiwire_exchange_arity() chooses 2, 3 or 4 */
    uint32_t arity;
    /** what a Put with PMIWIRE_HINT_NONE is: PMIWIRE_HINT_DENSE or PMIWIRE_HINT_SPARSE. 0: DENSE,
     * since PMI's programs Fence and then Get everything. SPARSE is for jobs whose Gets are all
     * REMOTE or WAIT: a LOCAL Get does not find other nodes' SPARSE keys */
    uint32_t unhinted;
    uint32_t flags;           /**< PMIWIRE_EXCHANGE_FENCE_FREE */
    uint32_t max_frame_bytes; /**< 0: PMIWIRE_EXCHANGE_FRAME_BYTES */
    /** limit on the memory held; 0: PMIWIRE_EXCHANGE_MAX_BYTES. If a rank's request would exceed
     * the limit, the exchange refuses the request. If a Get's value would exceed it, the Get ends
     * with -ENOMEM. A Fence, an Allgather or a Ring may exceed the limit: the nodes that sent the
     * values have accepted them. Of this node */
    size_t max_bytes;
    /** an unanswered Get ends with PMIWIRE_ETIME after this time; 0: never. Of this node */
    uint64_t wait_ns;
};

/**
 * @brief Create one node's part in a job.
 *
 * A frame from another node may arrive before this call: leave it on the link until the exchange
 * exists.
 * @return 0, -ENOMEM, -EINVAL
 * @threads MT-Safe. Allocates about 1,500 bytes, and 5 1/4 bytes for each local rank.
 */
PMIWIRE_API int pmiwire_exchange_create(const struct pmiwire_exchange_opts *opts,
                                        struct pmiwire_exchange **x);

/**
 * @brief Free an exchange without completing anything and without a callback. NULL is allowed. Not
 *        from a callback.
 */
PMIWIRE_API void pmiwire_exchange_destroy(struct pmiwire_exchange *x);

/**
 * @name Operations of ranks
 *
 * These calls return the errors named below, -ENOMEM (also for max_bytes), or the reason why the
 * exchange has failed. After an error nothing has changed. Collectives return PMIWIRE_EGONE if the
 * exchange knows that they cannot complete. MT-Safe on distinct exchanges. The calls allocate only
 * to grow a buffer.
 * @{
 */
/**
 * @brief Put a pair.
 *
 * - A Get after a Fence finds every pair that was put before the Fence, a SPARSE pair of another
 *   node only with PMIWIRE_GET_REMOTE or PMIWIRE_GET_WAIT. If a key was put several times, the Get
 *   finds the latest value.
 * - If two nodes put one key between the same two Fences, either value may win; after the second
 *   Fence all nodes have the same one.
 * - A Put is DENSE, whatever its hint, in three cases: a Fence has brought the key to this node; a
 *   rank of this node has put the key as DENSE; or ops->find() finds the key.
 * - With ops->find(): store a DENSE pair in your own store before you call this.
 * - In a job without Fences, put each key at most once.
 * @param rank   a local rank, or PMIWIRE_RANK_NONE
 * @param key    1 to PMIWIRE_EXCHANGE_MAX_KEY_BYTES bytes, any
 * @param value  may be empty; at most PMIWIRE_EXCHANGE_MAX_VALUE_BYTES. Key and value together: at
 *               most max_frame_bytes - PMIWIRE_EXCHANGE_OVERHEAD_BYTES
 * @param hint   PMIWIRE_HINT_*
 * @return 0, -EINVAL (rank or hint), PMIWIRE_EEMPTY, PMIWIRE_EKEYLEN, PMIWIRE_EVALLEN
 *
 * Cost: a lookup and a copy. Once the DENSE pairs fill a frame, one call also encodes all of them.
 * With one node and ops->find(): a lookup, and an allocation only if a Get waits for the key.
 *
 * Frames: for a SPARSE key see "Designs" above. DENSE keys travel in the frames of the next Fence;
 * with PMIWIRE_FENCE_TREE each frame leaves as soon as it is full.
 */
PMIWIRE_API int pmiwire_exchange_put(struct pmiwire_exchange *x, int32_t rank,
                                     struct pmiwire_str key, struct pmiwire_str value,
                                     uint32_t hint);

/**
 * @brief Get a value.
 *
 * - PMIWIRE_GET_LOCAL looks on this node.
 * - PMIWIRE_GET_REMOTE looks on this node, then asks the home, which answers at once.
 * - PMIWIRE_GET_WAIT does the same, but if the home does not have the key, the Get waits until a
 *   rank puts the key or a Fence brings it.
 * - A waiting Get ends without a value after opts.wait_ns, or when no rank is left that could put
 *   the key. If the Get names another rank as its source, only the source could put the key.
 *   Otherwise every rank could, except the one that gets.
 * - With PMIWIRE_DESIGN_DKVS and PMIWIRE_EXCHANGE_FENCE_FREE, no Get ends because a rank of another
 *   node is gone.
 * - A node has at most one REMOTE and one WAIT request for a key in flight. Further Gets queue
 *   behind them.
 * @param rank   the local rank that gets, or PMIWIRE_RANK_NONE
 * @param key    as it was put
 * @param src    the *source*: the rank that puts the key, or PMIWIRE_RANK_NONE: unknown. With
 *               PMIWIRE_DESIGN_DIRECT the Get asks the source's node
 * @param how    PMIWIRE_GET_*
 * @param token  yours, passed to ops->got() if this returns PMIWIRE_PENDING
 * @param[out] value  valid until the next call for the exchange
 * @return 0, PMIWIRE_PENDING (ops->got() follows), PMIWIRE_ENOENT, -EINVAL (how, or no such rank),
 *         PMIWIRE_EKEYLEN, PMIWIRE_EMISSING (with PMIWIRE_DESIGN_DIRECT: the key is not on this
 *         node, and src is unknown)
 *
 * Cost: at most two lookups by hash and one of ops->find().
 */
PMIWIRE_API int pmiwire_exchange_get(struct pmiwire_exchange *x, int32_t rank,
                                     struct pmiwire_str key, int32_t src, uint32_t how,
                                     uint64_t token, struct pmiwire_str *value);

/**
 * @brief Let a local rank enter the Fence. When all ranks of all nodes have entered, the exchange
 *        calls ops->done(), possibly within this call.
 * @param rank  a local rank, or PMIWIRE_RANK_ALL
 * @return 0, -EINVAL, PMIWIRE_ESTATE (the rank, or with PMIWIRE_RANK_ALL some rank, has entered
 *         already), PMIWIRE_EGONE
 */
PMIWIRE_API int pmiwire_exchange_fence(struct pmiwire_exchange *x, int32_t rank);

/**
 * @brief Let a local rank enter the Allgather with its value. When all ranks of all nodes have
 *        entered, the exchange calls ops->pairs() and ops->done().
 * @return 0, -EINVAL, PMIWIRE_ESTATE (the rank has entered already), PMIWIRE_EVALLEN, PMIWIRE_EGONE
 */
PMIWIRE_API int pmiwire_exchange_allgather(struct pmiwire_exchange *x, int32_t rank,
                                           struct pmiwire_str value);

/**
 * @brief Get the number of pairs that the present Fence or Allgather brings, this node's own pairs
 *        included. Call it within ops->pairs(), to make room for all of them.
 *
 * The number leaves out this node's pairs for the next Fence, which ops->pairs() gets at the end.
 */
PMIWIRE_API uint64_t pmiwire_exchange_pairs(const struct pmiwire_exchange *x);

/**
 * @brief Get the length of the longest value of the last Allgather, in bytes. It is valid from the
 *        first call of ops->pairs() for that Allgather on, also within that call.
 */
PMIWIRE_API uint32_t pmiwire_exchange_longest_value_bytes(const struct pmiwire_exchange *x);

/**
 * @brief Let a local rank enter the Ring. When the Ring ends, the exchange calls ops->ringed() for
 *        each local rank.
 *
 * The places in the ring follow the order of nodes, and within a node the order of ranks.
 * @param left   value for the left neighbour, which gets it as its `right`
 * @param right  value for the right neighbour, which gets it as its `left`
 * @return 0, -EINVAL, PMIWIRE_ESTATE (the rank has entered already), PMIWIRE_EVALLEN, PMIWIRE_EGONE
 */
PMIWIRE_API int pmiwire_exchange_ring(struct pmiwire_exchange *x, int32_t rank,
                                      struct pmiwire_str left, struct pmiwire_str right);

/**
 * @brief Report that a local rank is gone.
 *
 * - Collectives that the rank has not entered end with PMIWIRE_EGONE: on this node at once, on
 *   other nodes after this node's next tick.
 * - Gets of another node that wait for the rank end after this node's next tick and then a tick of
 *   the other node.
 * - The rank's own Gets end with PMIWIRE_ENOENT.
 * - A second call for the rank is ignored.
 * @param why  PMIWIRE_GONE_*
 * @return 0, -EINVAL (the rank is not local, or `why` is wrong), or the reason why the exchange has
 *         failed
 *
 * Cost: a pass over the keys with waiting Gets. The next tick sends one frame on each link of the
 * tree if, for some kind, the rank has entered fewer collectives than every other rank known to be
 * gone.
 */
PMIWIRE_API int pmiwire_exchange_gone(struct pmiwire_exchange *x, int32_t rank, uint32_t why);

/**
 * @brief Get the rank that makes collectives of a kind end with PMIWIRE_EGONE.
 * @param coll  PMIWIRE_COLL_*
 * @param[out] why  PMIWIRE_GONE_*; untouched with -1
 * @return a rank of any node. If several are gone, nodes may return different ones. -1: this node
 *         knows no rank that prevents the collective in progress, or, if none is in progress, the
 *         next one
 */
PMIWIRE_API int32_t pmiwire_exchange_culprit(const struct pmiwire_exchange *x, uint32_t coll,
                                             uint32_t *why);

/**
 * @brief After a waiting Get has ended with PMIWIRE_ENOENT, get a rank that is gone and could have
 *        put the key. Call it in ops->got(), or directly after pmiwire_exchange_get().
 *
 * If the Get names another rank as its source, the result is the source.
 * @param[out] why  PMIWIRE_GONE_*; untouched with -1
 * @return a rank; -1: no rank is the cause
 */
PMIWIRE_API int32_t pmiwire_exchange_get_culprit(const struct pmiwire_exchange *x, uint32_t *why);
/** @} */

/**
 * @name Links and clocks
 * @{
 */
/**
 * @brief Hand over a frame. The call checks the whole frame before it uses any part.
 *
 * After PMIWIRE_EPROTO and PMIWIRE_EVERSION nothing has changed. Report the frame, and drop it or
 * the link.
 * @param node  the link's authenticated peer
 * @param data  the frame, any alignment; not kept
 * @return 0; PMIWIRE_EPROTO (malformed, or of another node or job); PMIWIRE_EVERSION (of another
 *         byte order or version); -ENOMEM and others: the exchange has failed with this error
 */
PMIWIRE_API int pmiwire_exchange_input(struct pmiwire_exchange *x, uint32_t node, const void *data,
                                       size_t n);

/**
 * @brief Report that the queue to a node has room again, after ops->send() returned 1 for it. If
 *        ops->send() has not returned 1, the call is a no-op.
 * @return 0, -EINVAL (not another node), or the reason why the exchange has failed
 */
PMIWIRE_API int pmiwire_exchange_ready(struct pmiwire_exchange *x, uint32_t node);

/**
 * @brief End the exchange: a node is lost, or for a reason of your own. A second call is ignored.
 *
 * Every pending Get and every collective in progress ends with rc. Later calls return rc too. The
 * call notifies the neighbours in the tree, which pass the notice on. So if each node reports the
 * loss of its own neighbours, all nodes learn of any loss.
 *
 * Keep a link to each neighbour, so that you notice its loss. pmiwire_exchange_arity() returns the
 * default arity. The neighbours of node n are
 * - its parent: node (n - 1) / arity; node 0 has none
 * - its children: nodes arity * n + 1 to arity * n + arity, below opts.n_nodes
 * @param rc    negative; PMIWIRE_ELOST: `node` is lost
 * @param node  the lost node; ignored with another rc
 * @return 0, -EINVAL (rc is not negative, or `node` is not another node)
 */
PMIWIRE_API int pmiwire_exchange_fail(struct pmiwire_exchange *x, int rc, uint32_t node);

/**
 * @brief Set the time, for example twice a second.
 *
 * The call ends Gets that have waited for opts.wait_ns. It notifies other nodes of ranks of this
 * node that are gone. If a Get waits for a rank of another node, the call asks that node whether
 * the rank is gone.
 * @param now_ns  any monotonic clock
 * @cost A pass over the keys with waiting Gets. Once a rank of the job is gone, each Get that has
 *       waited since an earlier tick sends one frame along the tree, to the node of the rank that
 *       it waits for. Consecutive Gets that wait for one rank share a frame.
 */
PMIWIRE_API void pmiwire_exchange_tick(struct pmiwire_exchange *x, uint64_t now_ns);
/** @} */

/**
 * @brief Get the arity that the exchange chooses for n_nodes if opts.arity is 0. The arity
 *        determines a node's neighbours in the tree.
 * @return 2, 3 or 4
 * @threads MT-Safe.
 */
PMIWIRE_API uint32_t pmiwire_exchange_arity(uint32_t n_nodes);

/**
 * @brief Get the next pair of a block.
 * @param block  `bytes` bytes, not trusted
 * @param pos    set it to 0 before the first call; the calls advance it
 * @param[out] pair  points into the block
 * @return 1 (a pair), 0 (the end), PMIWIRE_EPROTO, PMIWIRE_EVERSION
 * @threads MT-Safe.
 */
PMIWIRE_API int pmiwire_block_next(const void *block, size_t bytes, size_t *pos,
                                   struct pmiwire_keyval *pair);

/**
 * @name Limits, bytes
 * @{
 */
#define PMIWIRE_EXCHANGE_FRAME_BYTES     65536u    /**< default of opts.max_frame_bytes */
#define PMIWIRE_EXCHANGE_MIN_FRAME_BYTES 4096u     /**< smallest opts.max_frame_bytes */
#define PMIWIRE_EXCHANGE_MAX_FRAME_BYTES 16777216u /**< largest */
/**
 * A pair's key and value together, or a value of a Ring or an Allgather, may have at most
 * max_frame_bytes minus this
 */
#define PMIWIRE_EXCHANGE_OVERHEAD_BYTES  192u
#define PMIWIRE_EXCHANGE_MAX_KEY_BYTES   2047u
#define PMIWIRE_EXCHANGE_MAX_VALUE_BYTES 262143u
#define PMIWIRE_EXCHANGE_MAX_BYTES       2147483648u /**< default of opts.max_bytes */
#define PMIWIRE_EXCHANGE_MAX_ARITY       32u         /**< most children of a node in the tree */
#define PMIWIRE_EXCHANGE_MAX_IOV         64u         /**< most pieces that send() is given */
#define PMIWIRE_EXCHANGE_HEADER_BYTES    24u         /**< of a frame */
#define PMIWIRE_BLOCK_HEADER_BYTES       32u         /**< of a block */
/** a block's records have at most this many bytes, or opts.max_frame_bytes if that is more */
#define PMIWIRE_EXCHANGE_BLOCK_BYTES 1048576u
/** @} */

/** @name Types of frames
 * @{ */
#define PMIWIRE_FRAME_PUT    1u
#define PMIWIRE_FRAME_ACK    2u
#define PMIWIRE_FRAME_GET    3u
#define PMIWIRE_FRAME_ANSWER 4u
#define PMIWIRE_FRAME_COLL   5u
#define PMIWIRE_FRAME_RING   6u
#define PMIWIRE_FRAME_FAIL   7u
#define PMIWIRE_FRAME_GONE   8u
#define PMIWIRE_FRAME_LIMIT  9u
#define PMIWIRE_FRAME_COUNT_ 10u
/** @} */

/** Frames of one type. */
struct pmiwire_frame_count {
    uint64_t n_sent, bytes_sent; /**< with headers */
    uint64_t n_received, bytes_received;
};

/** Counters, which only grow, and present values. */
struct pmiwire_stats_exchange {
    struct pmiwire_frame_count frames[PMIWIRE_FRAME_COUNT_]; /**< by type */
    uint64_t n_refused;                                      /**< frames refused */
    uint64_t n_puts; /**< by local ranks, like the next four */
    uint64_t n_gets;
    uint64_t n_local;       /**< Gets answered at once */
    uint64_t n_requests;    /**< Gets for which this node sent a request */
    uint64_t n_joined;      /**< Gets that queued behind an earlier request for their key */
    uint64_t n_stale;       /**< copies that a Get found too old */
    uint64_t n_fences;      /**< completed */
    uint64_t payload_bytes; /**< keys and values that Fences and Allgathers have brought, this
                               node's own included */
    uint64_t n_keys;        /**< keys held now: those whose home is this node, copies of others, and
                               those for which a Get waits; without ops->find also all DENSE keys
                               that local ranks have put or Fences have brought */
    uint64_t n_waiting;     /**< Gets waiting now here, those of other nodes included */
    uint64_t bytes;         /**< memory held now */
    uint64_t peak_bytes;
};

/** @brief Read the counters. */
PMIWIRE_API void pmiwire_exchange_stats(const struct pmiwire_exchange *x,
                                        struct pmiwire_stats_exchange *stats);

#ifdef __cplusplus
}
#endif
#endif /* PMIWIRE_EXCHANGE_H */
