/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file server.h
 * @brief The server's side of PMI for any number of clients and jobs, both wires, without I/O.
 *
 * The model. A *server* holds *jobs*: a job is a key-value space with a name, a size, attributes
 * and collectives. A *connection* is one client: you name its job and rank, or the client names
 * itself (PMI_PORT). You hand over the bytes that you read, and take replies. The engine keeps
 * pairs, names and attributes and carries out collectives. It calls you back to start processes, to
 * end the job and to carry frames to other nodes. A callback that takes time (a spawn, a lookup)
 * returns PMIWIRE_PENDING, and you complete it later by its token.
 *
 *     struct pmiwire_server_ops ops = {.size = sizeof(ops), .ready = look_at, .abort = end_job};
 *     struct pmiwire_server_opts o = {.size = sizeof(o), .ops = &ops, .ctx = me};
 *     struct pmiwire_job_opts jo = {.size = sizeof(jo), .kvsname = "job_0", .n_ranks = 4};
 *
 *     pmiwire_server_create(&o, &s);
 *     pmiwire_server_job_add(s, &jo, &job);
 *     pmiwire_server_accept(s, job, rank, my_client, &conn);  // for each process's socket
 *
 *     pmiwire_conn_input(conn, buf, n);                       // what read() gave
 *     while ((n = pmiwire_conn_output(conn, &data)) > 0 &&    // after ready()
 *            (n_sent = write(fd, data, n)) > 0)
 *         pmiwire_conn_sent(conn, n_sent);
 *     pmiwire_conn_close(conn);                               // at the end of the input
 *     pmiwire_server_rank_ended(s, job, rank);                // waitpid() has returned it
 *     pmiwire_server_tick(s, now_ns);                         // twice a second
 *
 * Order.
 * - The server serves the requests of a connection one after the other: while one waits for its
 *   answer, those behind it wait too.
 * - A published name is visible to all jobs of the server. Only the job that published it may
 *   unpublish it; pmiwire_server_job_remove() drops the job's names.
 *
 * Liveness. A rank is *gone* when it has finalized, its process has ended, or its connection has
 * ended or was cut off after init (before init too, where pmiwire_server_accept() named the rank).
 * - A Fence, Ring, Allgather or group barrier cannot complete once a rank is gone without having
 *   entered it. The server answers all ranks that wait in it, and those that enter later, with rc
 *   != 0 and a text such as "rank 3 has finalized: this fence cannot complete". A rank that enters
 *   first and is gone later does no harm.
 * - A waiting Get, or a wait for a node attribute, ends in the same way when every rank that could
 *   put the key is gone: the rank that the Get names, otherwise all ranks but the waiting one.
 * - ops->stuck() reports the first failure of each kind; you decide whether the job ends.
 * - The server keeps the pairs of a rank that is gone. The rank may connect again, but takes part
 *   in no collective.
 *
 * Hostile clients. Nothing a client sends can crash the server, make it allocate without bound,
 * delay other clients or lose their pairs.
 * - The server answers a bad request with rc != 0 and a text, and closes a connection whose framing
 *   is lost. ops->diag receives rank and cause of both.
 * - The server disconnects a client that leaves max_out_bytes of replies unread, sends more than
 *   twice max_msg_bytes behind a request whose answer is delayed, sends 64 malformed or unknown
 *   messages in all, or (pmiwire_server_tick()) stops in mid-message.
 * - When a client closes its connection, tokens of its requests become stale, which is harmless.
 *
 * Versions. The server never answers with a higher subversion than the client's, unless
 * PMIWIRE_SERVER_PMI_1_2 is set.
 *
 * Several nodes. Each node has a server with a job for its own ranks. The engine of exchange.h,
 * inside each server, joins them. Give job_opts.node_of, .node and .number and ops->send(), and
 * hand over frames with pmiwire_server_frame(). The numbers in node_of are yours. No rank leaves a
 * Fence before it is complete on all nodes; a Get goes to other nodes only if the client asks for
 * that (`fp-get`). The server refuses group barriers that span nodes.
 *
 * Replies. The server takes a PMI-2 client that pads its lengths on the right for Slurm's, and
 * keeps replies within what Slurm's client reads (`;;`); for any other PMI-2 client, within what
 * MPICH's reads. PMI-1 clients cannot be distinguished, so PMI-1 replies follow the framing's rules
 * alone. If the wire cannot carry an answer, the client gets an error reply that names the byte and
 * the limit, and diag a report. The server refuses a PMI-2 client's put of bytes that the client
 * could not read back.
 *
 * Bytes. Keys and values may hold any byte, NUL too, once you advertise PMIWIRE_EXT_BYTES: this
 * project's clients then write and read all of them on both wires. libpmiwire/WIRE.md says what
 * other clients can read.
 *
 * Threads: one server, one thread at a time. Callbacks may call any function of this header on the
 * same server except pmiwire_server_destroy(). The engine serves input given within a callback, and
 * calls ready() for it, before the outermost call returns. After a callback has closed a
 * connection, the server does nothing more for it.
 */
#ifndef PMIWIRE_SERVER_H
#define PMIWIRE_SERVER_H

#include <sys/types.h>

#include <pmiwire/codec.h>
#include <pmiwire/command.h>
#include <pmiwire/exchange.h>
#include <pmiwire/extension.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Answer init with PMI 1.2, whatever version the client asked for: MPICH main then uses group
 * barriers; Flux's client refuses.
 */
#define PMIWIRE_SERVER_PMI_1_2 1u

/** Rank of a connection whose client has not named itself yet. */
#define PMIWIRE_RANK_UNKNOWN (-1)

/**
 * @name States of a connection
 * @{
 */
#define PMIWIRE_CONN_NEW       0u /**< has not completed init; may not be a PMI program */
#define PMIWIRE_CONN_INITED    1u /**< between init and finalize: its end is an error */
#define PMIWIRE_CONN_FINALIZED 2u /**< sent finalize and got the answer */
#define PMIWIRE_CONN_FAILED    3u /**< to be closed: send the remaining output, then close */
/** @} */

/**
 * @name Requests to ops->name()
 * @{
 */
#define PMIWIRE_NAME_PUBLISH   0u
#define PMIWIRE_NAME_UNPUBLISH 1u
#define PMIWIRE_NAME_LOOKUP    2u
/** @} */

/** ops->stuck(): not a PMIWIRE_COLL_*, but a barrier of some ranks. */
#define PMIWIRE_STUCK_GROUP 16u

struct pmiwire_server; /**< the engine */
struct pmiwire_conn;   /**< one client; valid until pmiwire_conn_close() */

/** A rank of a job. */
struct pmiwire_peer {
    uint32_t job; /**< from pmiwire_server_job_add(); UINT32_MAX while the rank is unknown */
    int32_t rank; /**< or PMIWIRE_RANK_UNKNOWN */
    void *cookie; /**< the connection's */
    struct pmiwire_conn *conn;
    void *job_cookie; /**< the job's; NULL while the rank is unknown */
};

/**
 * The engine's callbacks. Every member may be NULL. `ctx` is opts.ctx.
 * Views in arguments live until the callback returns.
 */
struct pmiwire_server_ops {
    size_t size; /**< sizeof(struct pmiwire_server_ops) */

    /**
     * A connection has its first output, or must be closed: call pmiwire_conn_output() soon.
     */
    void (*ready)(void *ctx, struct pmiwire_conn *conn, void *cookie);

    /**
     * A client broke the protocol, or the server cannot answer it.
     * @param code  PMIWIRE_E* or -ENOMEM
     * @param text  one line that names rank and cause, always printable
     */
    void (*diag)(void *ctx, const struct pmiwire_peer *who, int code, const char *text);

    /**
     * A connection without rank sends its id (PMI_PORT). Fill in job and rank; nonzero refuses.
     * NULL: the id is the rank, in the first job.
     */
    int (*identify)(void *ctx, struct pmiwire_conn *conn, void *cookie, int32_t pmiid,
                    uint32_t *job, int32_t *rank);

    /** A client reached or left init … finalize. @param state PMIWIRE_CONN_* */
    void (*state)(void *ctx, const struct pmiwire_peer *who, uint32_t state);

    /**
     * End the job (MPI_Abort); `who` always has a rank.
     * @param message  prose from the client, untrusted
     */
    void (*abort)(void *ctx, const struct pmiwire_peer *who, int32_t exitcode,
                  struct pmiwire_str message);

    /**
     * Start processes. Return PMIWIRE_PENDING and call pmiwire_server_spawn_done()
     * (at once or later), or an error to refuse. NULL: spawn is refused.
     */
    int (*spawn)(void *ctx, const struct pmiwire_peer *who, const struct pmiwire_spawn *req,
                 uint64_t token);

    /**
     * Store a pair in a store of yours instead of the engine's. Set put and find, with several
     * nodes merge too, or none of them. In a job of several nodes the exchange keeps SPARSE keys
     * (`fp-hint`), and does not pass them here.
     * @return 0: `find` finds the pair from now on; or PMIWIRE_E* or -errno, which the client gets
     */
    int (*put)(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str key,
               struct pmiwire_str value);
    /**
     * Find a pair. May call pmiwire_server_get() and pmiwire_server_advertise(), and no other
     * function of the server.
     * @param job    the key-value space; only its members job and job_cookie are set
     * @param value  filled in on success; valid until the next call into the server, with a
     *               readable NUL behind it
     * @return 0, PMIWIRE_ENOENT
     */
    int (*find)(void *ctx, const struct pmiwire_peer *job, struct pmiwire_str key,
                struct pmiwire_str *value);
    /**
     * Store the pairs of all nodes that a Fence has brought, in this order. May call the functions
     * that find may call.
     * @param block  pmiwire_block_next() or shmht_writer_merge() read it. Each value has a NUL
     *               behind it that its length counts
     * @return 0; 1: the engine puts the block into its own store, where pmiwire_server_get() finds
     *         it; or an error, which fails the job's exchange
     */
    int (*merge)(void *ctx, const struct pmiwire_peer *job, const void *block, size_t bytes);

    /**
     * Take an Allgather's values, before the server answers any rank. The server calls this several
     * times, at last with block NULL; that call may advertise PMIWIRE_EXT_ARRAY. If this member is
     * NULL, the engine keeps the values of the last Allgather and answers Gets of `-allgather-K-R`
     * from them; otherwise it calls `find` for those keys.
     * @param number   counts the Allgathers from 0
     * @param longest  bytes of the longest value of all, the same in every call
     * @param block    the keys are ranks, 4 bytes as in memory; the values have no NUL
     * @return 0; 1: the engine keeps the block's values, as with NULL; or an error, which fails the
     *         job's exchange
     */
    int (*gather)(void *ctx, const struct pmiwire_peer *job, uint32_t number, uint32_t longest,
                  const void *block, size_t bytes);

    /** A Fence is complete on all nodes; the server has answered no rank yet. You may advertise. */
    void (*fenced)(void *ctx, const struct pmiwire_peer *job);

    /**
     * A collective cannot complete. Called once for each kind and job, before the server answers
     * the ranks that wait in it. NULL: diag reports it.
     * @param who   the rank that is gone; conn and cookie are NULL if it is not connected here
     * @param coll  PMIWIRE_COLL_* or PMIWIRE_STUCK_GROUP
     * @param why   PMIWIRE_GONE_*
     */
    void (*stuck)(void *ctx, const struct pmiwire_peer *who, uint32_t coll, uint32_t why);

    /**
     * Several nodes: send a frame, as pmiwire_exchange_ops.send does. Must not call the server.
     * NULL: all ranks of every job are here.
     * @param node  as in job_opts.node_of
     * @return 0: accepted; 1: accepted, and the link is full until pmiwire_server_link_ready()
     */
    int (*send)(void *ctx, const struct pmiwire_peer *job, uint32_t node, const struct iovec *iov,
                uint32_t n_iov, size_t bytes);

    /**
     * A job's exchange has failed: from now on its collectives end with rc. Called once.
     * @param node  as in job_opts.node_of: the lost node if rc is PMIWIRE_ELOST, otherwise the node
     *              where the exchange failed
     */
    void (*failed)(void *ctx, const struct pmiwire_peer *job, int rc, uint32_t node);

    /**
     * Name service of your own instead of the engine's.
     * @param what  PMIWIRE_NAME_*
     * @param port  of PUBLISH
     * @return PMIWIRE_PENDING and pmiwire_server_name_done() (at once or later), or PMIWIRE_E*; 0:
     *         done, except for a lookup
     */
    int (*name)(void *ctx, const struct pmiwire_peer *who, uint32_t what,
                struct pmiwire_str service, struct pmiwire_str port, uint64_t token);

    /**
     * A rank starts or stops waiting in a collective: for statistics and pictures. Must not call
     * the server.
     * @param coll    PMIWIRE_COLL_* or PMIWIRE_STUCK_GROUP
     * @param begins  1: it waits from now on; 0: it is answered, or its connection has ended. One 0
     *                follows each 1
     */
    void (*waits)(void *ctx, const struct pmiwire_peer *who, uint32_t coll, uint32_t begins);
};

/** Options of a server. Zero all, set `size`, then the members that differ. */
struct pmiwire_server_opts {
    size_t size;                                  /**< sizeof(struct pmiwire_server_opts) */
    const struct pmiwire_server_ops *ops;         /**< copied; NULL: none */
    void *ctx;                                    /**< handed to every callback */
    const struct pmiwire_allocator *allocator;    /**< NULL: libc */
    uint32_t flags;                               /**< PMIWIRE_SERVER_* */
    uint32_t kvsname_max, keylen_max, vallen_max; /**< advertised, 2 to 2^31-1; 0: the defaults. A
                                                     PMI-1 key or value must be shorter, as the NUL
                                                     counts; a PMI-2 one may be as long */
    size_t max_msg_bytes;   /**< at most SIZE_MAX / 4; 0: PMIWIRE_DEFAULT_MAX_MSG_BYTES, or more if
                               PMIWIRE_EXT_BYTES needs it */
    uint32_t max_fields;    /**< 0: PMIWIRE_DEFAULT_MAX_FIELDS */
    uint32_t decode_flags;  /**< PMIWIRE_DECODE_* */
    size_t max_out_bytes;   /**< 0: PMIWIRE_DEFAULT_MAX_OUT_BYTES */
    size_t max_spawn_bytes; /**< 0: PMIWIRE_DEFAULT_MAX_SPAWN_BYTES */
    size_t max_kvs_bytes;   /**< 0: PMIWIRE_DEFAULT_MAX_KVS_BYTES */
    uint64_t stall_ns;      /**< for pmiwire_server_tick(); 0: never */
    uint64_t wait_ns;       /**< a Get that waits this long ends with PMIWIRE_ETIME; 0: never */
};

/** A job. Zero all, set `size`, then the members that differ. */
struct pmiwire_job_opts {
    size_t size;         /**< sizeof(struct pmiwire_job_opts) */
    const char *kvsname; /**< name of its key-value space and PMI-2 job id: 1 to kvsname_max-1 bytes
                            from 33 to 126 without `;` and `\` */
    uint32_t n_ranks;    /**< 1 to 2^31-1 */
    int32_t universe_size; /**< -1: unknown, Hydra's value */
    uint32_t debugged;
    const uint32_t *appnum;    /**< array of n_ranks: program each rank runs, copied; NULL: 0 */
    const uint32_t *node_of;   /**< array of n_ranks: node of each rank; NULL: all on one. Copied */
    const char *spawner_jobid; /**< job that spawned this one; NULL: none */
    void *cookie;              /**< yours, handed to callbacks in pmiwire_peer */
    /* With ops->send(): */
    uint32_t number; /**< of the job, the same on all nodes; part of every frame */
    uint32_t node;   /**< this server's node, which has at least one rank. Without ops->send() all
                        ranks are here, and node_of has no effect */
    uint32_t design, fence, arity, max_frame_bytes; /**< as in pmiwire_exchange_opts */
    size_t max_exchange_bytes;                      /**< its max_bytes */
};

/**
 * @brief Create a server.
 * @return 0, -ENOMEM, -EINVAL (a flag, a limit, or a callback whose partner is missing). Allocates.
 */
PMIWIRE_API int pmiwire_server_create(const struct pmiwire_server_opts *opts,
                                      struct pmiwire_server **s);

/** @brief Free a server with its jobs and connections; no callback is called. NULL is allowed. */
PMIWIRE_API void pmiwire_server_destroy(struct pmiwire_server *s);

/**
 * @name Jobs
 * @{
 */
/**
 * @brief Add a job. @param job its number, from 0 upwards. @return 0, -ENOMEM, -EINVAL (also: this
 *        node has none of its ranks), PMIWIRE_EEXIST (name in use), PMIWIRE_ECHARS
 *
 * Allocates about 2 KiB, 6 bytes a rank of this node, and with node_of 4 more a rank and 8 a node.
 */
PMIWIRE_API int pmiwire_server_job_add(struct pmiwire_server *s,
                                       const struct pmiwire_job_opts *opts, uint32_t *job);

/**
 * @brief Remove a job that has no connection left, and its exchange, without notice to other nodes.
 *
 * A client of another job that waits for one of its keys gets an answer without a value.
 * @return 0, PMIWIRE_ESTATE, PMIWIRE_ENOENT
 */
PMIWIRE_API int pmiwire_server_job_remove(struct pmiwire_server *s, uint32_t job);

/**
 * @brief Set a job attribute, such as `PMI_process_mapping`: PMI-2 clients ask
 *        for it with info-getjobattr, PMI-1 clients get it from their key-value space.
 * @return 0, -ENOMEM, PMIWIRE_ENOENT, PMIWIRE_EEMPTY, PMIWIRE_ECHARS, PMIWIRE_EKEYLEN,
 *         PMIWIRE_EVALLEN
 */
PMIWIRE_API int pmiwire_server_job_attr(struct pmiwire_server *s, uint32_t job,
                                        struct pmiwire_str key, struct pmiwire_str value);

/**
 * @brief Advertise an extension to the clients of a job: from now on every answer that can carry
 *        its field has it (extension.h).
 * @param ext    PMIWIRE_EXT_*
 * @param value  within the grammar of pmiwire_enc_extra(), copied; absent: stop advertising
 * @return 0, -ENOMEM, -EINVAL (no such extension; PMIWIRE_EXT_BYTES where opts.max_msg_bytes is
 *         less than 3 * (keylen_max + vallen_max) + kvsname_max + 256), PMIWIRE_ENOENT (no such
 *         job), PMIWIRE_EEMPTY, PMIWIRE_ECHARS, PMIWIRE_EVALLEN (more than PMIWIRE_EXT_MAX_BYTES in
 *         one answer)
 */
PMIWIRE_API int pmiwire_server_advertise(struct pmiwire_server *s, uint32_t job, uint16_t ext,
                                         struct pmiwire_str value);

/**
 * @brief Put a pair of any bytes into the engine's own store on the launcher's behalf (spawn's
 *        preputs). Other nodes get it with the next Fence, unless ops->put is set.
 * @return 0, -ENOMEM (max_kvs_bytes too), PMIWIRE_ENOENT (no such job), PMIWIRE_EEMPTY (the key),
 *         PMIWIRE_EKEYLEN, PMIWIRE_EVALLEN
 */
PMIWIRE_API int pmiwire_server_put(struct pmiwire_server *s, uint32_t job, struct pmiwire_str key,
                                   struct pmiwire_str value);

/**
 * @brief Get a value from the engine's own store. *value is valid until the next call, with a
 *        readable NUL behind it. @return 0, PMIWIRE_ENOENT
 */
PMIWIRE_API int pmiwire_server_get(struct pmiwire_server *s, uint32_t job, struct pmiwire_str key,
                                   struct pmiwire_str *value);
/** @} */

/**
 * @name Connections
 * @{
 */
/**
 * @brief Add the connection of a client.
 * @param job,rank  the client's job and rank; with rank PMIWIRE_RANK_UNKNOWN the client names
 *                  itself (job is ignored)
 * @param cookie    yours, handed to callbacks
 * @return 0, -ENOMEM, PMIWIRE_ENOENT (no such job), -EINVAL (no such rank here, or conn NULL),
 *         PMIWIRE_EEXIST (rank is connected)
 */
PMIWIRE_API int pmiwire_server_accept(struct pmiwire_server *s, uint32_t job, int32_t rank,
                                      void *cookie, struct pmiwire_conn **conn);

/**
 * @brief Hand over bytes read from a client; the call serves every complete message.
 * @return 0, or PMIWIRE_E* or -ENOMEM once the connection has FAILED (input is then ignored)
 *
 * Any split and any pipelining. Cost: one decode and one callback a message; the engine allocates
 * only for the incomplete message at the end.
 */
PMIWIRE_API int pmiwire_conn_input(struct pmiwire_conn *conn, const void *data, size_t n);

/** @brief Get bytes to write. @return their number; *data valid until the next call */
PMIWIRE_API size_t pmiwire_conn_output(struct pmiwire_conn *conn, const void **data);

/** @brief Report that n of those bytes were written. */
PMIWIRE_API void pmiwire_conn_sent(struct pmiwire_conn *conn, size_t n);

/**
 * @brief Remove a connection; conn is invalid afterwards.
 *
 * If the client was between init and finalize, or in mid-message, diag gets a report
 * (PMIWIRE_EEOF). Its pairs stay; tokens of its requests become stale; its rank is gone.
 */
PMIWIRE_API void pmiwire_conn_close(struct pmiwire_conn *conn);
/** A connection's client, state and error. */
struct pmiwire_info_conn {
    struct pmiwire_peer who;
    uint32_t state;          /**< PMIWIRE_CONN_* */
    int error;               /**< why it FAILED, PMIWIRE_E* or -ENOMEM; 0 otherwise */
    uint32_t has_extensions; /**< 1: the client has sent PMIWIRE_EXT_CLIENT and knows ours */
};

/** @brief Report a connection's client, state and error. */
PMIWIRE_API void pmiwire_conn_query(const struct pmiwire_conn *conn,
                                    struct pmiwire_info_conn *info);
/** @} */

/**
 * @name Delayed answers
 * @{
 */
/**
 * @brief Answer a spawn.
 * @param rc        0; or PMIWIRE_E* / -errno: no process started; clients' libraries then ignore
 *                  the rest
 * @param jobid     the children's job; may be NULL on failure
 * @param errcodes  with rc 0, array of n: 0 or an error code for each process asked for; NULL: no
 *                  process failed
 * @return 0 or PMIWIRE_ESTALE
 */
PMIWIRE_API int pmiwire_server_spawn_done(struct pmiwire_server *s, uint64_t token, int rc,
                                          const char *jobid, const int32_t *errcodes, uint32_t n);

/**
 * @brief Answer a request to ops->name(). @param rc 0, PMIWIRE_EEXIST, PMIWIRE_ENOENT or another
 *        error; @param port of a successful lookup. @return 0 or PMIWIRE_ESTALE
 */
PMIWIRE_API int pmiwire_server_name_done(struct pmiwire_server *s, uint64_t token, int rc,
                                         struct pmiwire_str port);
/** @} */

/**
 * @name Ranks, nodes and frames
 * @{
 */
/**
 * @brief Report that a rank's process has ended and that you have handed over all its bytes:
 *        collectives stop waiting for it. A second call is ignored.
 * @return 0, PMIWIRE_ENOENT (no such job), -EINVAL (no such rank here)
 */
PMIWIRE_API int pmiwire_server_rank_ended(struct pmiwire_server *s, uint32_t job, int32_t rank);

/**
 * @brief Hand over a frame from a node that the link has authenticated.
 * @return as pmiwire_exchange_input(); PMIWIRE_ENOENT: no such job (any more), PMIWIRE_EPROTO also:
 *         that node has no rank of it
 */
PMIWIRE_API int pmiwire_server_frame(struct pmiwire_server *s, uint32_t job, uint32_t node,
                                     const void *data, size_t n);

/**
 * @brief Report that the link to this node, for which ops->send() returned 1, has room again.
 * @return 0, PMIWIRE_ENOENT, -EINVAL
 */
PMIWIRE_API int pmiwire_server_link_ready(struct pmiwire_server *s, uint32_t job, uint32_t node);

/**
 * @brief Report that a node is lost: the job's exchange fails, on all nodes. @return 0,
 *        PMIWIRE_ENOENT (no such job), -EINVAL (none of its ranks is there)
 */
PMIWIRE_API int pmiwire_server_node_lost(struct pmiwire_server *s, uint32_t job, uint32_t node);

/**
 * @brief Parse the key `-allgather-K-R`, which ops->find() receives where ops->gather() is set.
 * @param[out] number  K, of the Allgather
 * @param[out] rank    R, whose value it is; not checked against a job's size
 * @return 0, or PMIWIRE_ENOENT: another key
 * @threads MT-Safe.
 */
PMIWIRE_API int pmiwire_gather_key(struct pmiwire_str key, uint32_t *number, uint32_t *rank);

/** @brief A job's exchange, for pmiwire_exchange_stats(). NULL: no such job. */
PMIWIRE_API const struct pmiwire_exchange *pmiwire_server_exchange(const struct pmiwire_server *s,
                                                                   uint32_t job);
/** @} */

/**
 * @name The engine's name store
 *
 * A name that a client publishes belongs to its job, and goes when the job is removed. These calls
 * keep names for other owners, such as all nodes of a launcher: numbers that no job has, 2^31 and
 * above, or any in a server without jobs.
 * @{
 */
/**
 * @brief Publish a name. @param owner 2^31 or above. @return 0, PMIWIRE_EEXIST, -ENOMEM
 *        (max_kvs_bytes too: of all names)
 */
PMIWIRE_API int pmiwire_server_publish(struct pmiwire_server *s, uint32_t owner,
                                       struct pmiwire_str service, struct pmiwire_str port);

/** @brief Unpublish a name of this owner. @return 0, PMIWIRE_ENOENT */
PMIWIRE_API int pmiwire_server_unpublish(struct pmiwire_server *s, uint32_t owner,
                                         struct pmiwire_str service);

/** @brief Look a name up; *port is valid until the next call. @return 0, PMIWIRE_ENOENT */
PMIWIRE_API int pmiwire_server_lookup(const struct pmiwire_server *s, struct pmiwire_str service,
                                      struct pmiwire_str *port);

/** @brief Drop an owner's names. @return 0 */
PMIWIRE_API int pmiwire_server_names_drop(struct pmiwire_server *s, uint32_t owner);
/** @} */

/**
 * @brief Set the time, for example twice a second: disconnects clients that have been silent in
 *        mid-message, or have not read, for opts.stall_ns, and calls every job's
 *        pmiwire_exchange_tick().
 * @param now_ns  any monotonic clock. Cost: one pass over the connections, and one over the jobs
 */
PMIWIRE_API void pmiwire_server_tick(struct pmiwire_server *s, uint64_t now_ns);

/**
 * @name Advertised limits, bytes with NUL: Hydra's, which every client accepts
 * @{
 */
#define PMIWIRE_DEFAULT_KVSNAME_MAX 256u
#define PMIWIRE_DEFAULT_KEYLEN_MAX  64u
#define PMIWIRE_DEFAULT_VALLEN_MAX  1024u
/** @} */

/** Default limit on replies that a client has not read, bytes. */
#define PMIWIRE_DEFAULT_MAX_OUT_BYTES 1048576u
/** Default limit on the fields of one message (a spawn with as many arguments). */
#define PMIWIRE_DEFAULT_MAX_FIELDS 16384u
/** Default limit on the bytes of one spawn request, all its PMI-1 messages together. */
#define PMIWIRE_DEFAULT_MAX_SPAWN_BYTES 4194304u
/**
 * Default limit on the pairs, attributes and names of one job: their bytes, and 64 more for each.
 * The server refuses a Put beyond it, with a text that names the limit. It keeps the pairs that
 * Fences bring, since their own node accepted them.
 */
#define PMIWIRE_DEFAULT_MAX_KVS_BYTES 268435456u

/** Counters of a server, which only grow, and present values. */
struct pmiwire_stats_server {
    uint64_t n_messages; /**< complete messages decoded */
    uint64_t n_bad;      /**< malformed messages among these */
    uint64_t n_puts;
    uint64_t n_gets;
    uint64_t n_misses; /**< gets that found nothing */
    uint64_t n_fences; /**< completed */
    uint64_t bytes_in;
    uint64_t bytes_out; /**< replies queued */
    uint64_t kvs_bytes; /**< keys and values in store now */
    uint64_t n_conns;   /**< connections now */
    uint64_t n_failed;  /**< connections that FAILED */
};

/** @brief Read the counters. */
PMIWIRE_API void pmiwire_server_stats(const struct pmiwire_server *s,
                                      struct pmiwire_stats_server *stats);

#ifdef __cplusplus
}
#endif
#endif /* PMIWIRE_SERVER_H */
