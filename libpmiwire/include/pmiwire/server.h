/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file server.h
 * @brief The server's side of PMI for any number of clients and jobs, both wires, without I/O.
 *
 * The model. A *server* holds *jobs*. A job is a key-value space with a name, a size, attributes
 * and collectives. A *connection* is one client. You name the client's job and rank, or the client
 * names itself (PMI_PORT).
 *
 * You hand over the bytes that you read, and write the replies. The engine keeps pairs, names and
 * attributes and carries out collectives. It calls you back to start processes, to end the job and
 * to send frames to other nodes. A callback that takes time (a spawn, a lookup) returns
 * PMIWIRE_PENDING, and you complete it later by its token.
 *
 *     struct pmiwire_server_ops ops = {.size = sizeof(ops), .ready = look_at, .abort = end_job};
 *     struct pmiwire_server_opts o = {.size = sizeof(o), .ops = &ops, .ctx = me};
 *     struct pmiwire_job_opts jo = {.size = sizeof(jo), .kvsname = "job_0", .n_ranks = 4};
 *
 *     pmiwire_server_create(&o, &s);
 *     pmiwire_server_job_add(s, &jo, &job);
 *     pmiwire_server_accept(s, job, rank, my_client, &conn);  // for each process's socket: it
 *                                            // inherits the other end as PMI_FD, and gets PMI_RANK
 *                                            // and PMI_SIZE
 *
 *     pmiwire_conn_input(conn, buf, n);                       // what read() gave
 *     while ((n = pmiwire_conn_output(conn, &data)) > 0 &&    // after ready()
 *            (n_sent = write(fd, data, n)) > 0)
 *         pmiwire_conn_sent(conn, n_sent);
 *     pmiwire_conn_close(conn);                               // at the end of the input
 *     pmiwire_server_rank_ended(s, job, rank);                // waitpid() has returned it
 *     pmiwire_server_tick(s, now_ns);                         // twice a second
 *
 * Order and names.
 * - The server serves the requests of a connection one after the other. While one waits for its
 *   answer, those behind it wait too.
 * - A published name is visible to all jobs of the server. Only the job that published it may
 *   unpublish it. pmiwire_server_job_remove() drops the job's names.
 *
 * Liveness. A rank is *gone* in three cases: it has finalized; its process has ended; or its
 * connection has ended or was cut off after init. If pmiwire_server_accept() named the rank, the
 * end of the connection before init counts too.
 * - A collective (Fence, Ring, Allgather, group barrier) cannot complete if a rank that has not
 *   entered it is gone. The server answers all ranks that wait in it, and those that enter later,
 *   with rc != 0 and a text such as "rank 3 has finalized: this fence cannot complete". A rank that
 *   has entered before it is gone does not prevent completion.
 * - A waiting Get ends with such an error when every rank that could put the key is gone. If the
 *   Get names another rank, only that rank could put the key. Otherwise every rank except the
 *   waiting one could. A wait for a node attribute ends when every other rank of the job on this
 *   node is gone.
 * - The server calls ops->stuck() once for each kind of collective that cannot complete. You decide
 *   whether the job ends.
 * - The server keeps the pairs of a rank that is gone. The rank may connect again, but takes part
 *   in no collective.
 *
 * Hostile clients. Nothing that a client sends can crash the server, make it allocate without
 * bound, delay other clients or lose their pairs.
 * - The server answers a bad request with rc != 0 and a text. It disconnects a client whose framing
 *   is lost. In both cases it calls ops->diag with the rank and the cause.
 * - To disconnect a client, the server makes its connection PMIWIRE_CONN_FAILED, and you close it.
 * - The server disconnects a client that leaves max_out_bytes of replies unread.
 * - It disconnects a client that sends more than twice max_msg_bytes behind a request whose answer
 *   is delayed.
 * - It disconnects a client that sends 64 malformed or unknown messages in all.
 * - With opts.stall_ns, pmiwire_server_tick() disconnects a client that for this time stops in
 *   mid-message, or reads none of its replies.
 * - After pmiwire_conn_close() you may still call pmiwire_server_spawn_done() or
 *   pmiwire_server_name_done() for the client's requests: the call returns PMIWIRE_ESTALE.
 *
 * Versions. The server never answers with a higher subversion of PMI than the client has asked for,
 * unless PMIWIRE_SERVER_PMI_1_2 is set.
 *
 * Several nodes. Each node has a server, which serves the node's own ranks of the job. An exchange
 * (exchange.h) in each server connects these parts of the job.
 * - Set ops->send(), and in the job's options node_of, node and number. You choose the numbers of
 *   the nodes. Hand over frames with pmiwire_server_frame().
 * - No rank leaves a Fence before all ranks of all nodes have entered it.
 * - A Get goes to other nodes only if the client asks for that (`fp-get`).
 * - The server refuses group barriers that span nodes.
 *
 * Replies. The server adapts its replies to what the client can read.
 * - PMI-2: the server knows a client of this project by PMIWIRE_EXT_CLIENT. A client that pads its
 *   lengths on the right counts as Slurm's, which reads `;;` as `;`. Any other counts as MPICH's.
 * - PMI-1: clients cannot be distinguished, so replies follow only the framing's rules.
 * - If the wire cannot carry an answer, the client gets an error reply that says why (such as the
 *   byte, or the length and the limit), and ops->diag gets a report.
 * - The server refuses a PMI-2 client's put of bytes that the client could not read back.
 *
 * Bytes. If you advertise PMIWIRE_EXT_BYTES, keys and values may hold any byte, NUL included. This
 * project's clients then write and read all of them on both wires. libpmiwire/WIRE.md lists what
 * other clients can read.
 *
 * Threads: one server, one thread at a time.
 *
 * Callbacks may call any function of this header on the same server except
 * pmiwire_server_destroy(), unless the callback's comment allows less. If a callback hands over
 * input, the engine serves this input, and calls ready() for the answers, before the outermost call
 * returns. After a callback has closed a connection, the server does nothing more for the
 * connection.
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
 * Answer PMI-1's init with version 1.2, whatever subversion the client asked for. MPICH main then
 * uses group barriers. Flux's client refuses such an answer.
 */
#define PMIWIRE_SERVER_PMI_1_2 1u

/** For pmiwire_server_accept(): the client will name its rank itself. In pmiwire_peer: it has not
 * done so yet. */
#define PMIWIRE_RANK_UNKNOWN (-1)

/**
 * @name States of a connection
 * @{
 */
#define PMIWIRE_CONN_NEW       0u /**< has not completed init; need not be a PMI program */
#define PMIWIRE_CONN_INITED    1u /**< between init and finalize: closing it now is an error */
#define PMIWIRE_CONN_FINALIZED 2u /**< sent finalize and got the answer */
#define PMIWIRE_CONN_FAILED    3u /**< cut off: send the remaining output, then close it */
/** @} */

/**
 * @name Requests to ops->name()
 * @{
 */
#define PMIWIRE_NAME_PUBLISH   0u
#define PMIWIRE_NAME_UNPUBLISH 1u
#define PMIWIRE_NAME_LOOKUP    2u
/** @} */

/** For ops->stuck() and ops->waits(), beside PMIWIRE_COLL_*: a group barrier. */
#define PMIWIRE_STUCK_GROUP 16u

struct pmiwire_server; /**< the engine */
struct pmiwire_conn;   /**< one client; valid until pmiwire_conn_close() */

/** What a callback is about: a connection, its rank and its job. */
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
     * The output of a connection was empty and now is not, or the connection must be closed: call
     * pmiwire_conn_output() soon, and close the connection if its state is then
     * PMIWIRE_CONN_FAILED.
     */
    void (*ready)(void *ctx, struct pmiwire_conn *conn, void *cookie);

    /**
     * A client has broken the protocol, or the server cannot answer it.
     * @param code  PMIWIRE_E* or -ENOMEM
     * @param text  one line that names rank and cause, always printable
     */
    void (*diag)(void *ctx, const struct pmiwire_peer *who, int code, const char *text);

    /**
     * A client whose connection has no rank sends its id (PMI_PORT). Fill in job and rank, and
     * return 0. Any other result refuses the client. NULL: the id is the rank, in the first job.
     */
    int (*identify)(void *ctx, struct pmiwire_conn *conn, void *cookie, int32_t pmiid,
                    uint32_t *job, int32_t *rank);

    /** The state of a connection has changed. @param state the new one, PMIWIRE_CONN_* */
    void (*state)(void *ctx, const struct pmiwire_peer *who, uint32_t state);

    /**
     * A client asks to end the job (MPI_Abort): stop all ranks. Some clients, such as MPICH's, wait
     * until you have done so. With them the job hangs if this is NULL. `who` always has a rank.
     * @param message  prose from the client, untrusted
     */
    void (*abort)(void *ctx, const struct pmiwire_peer *who, int32_t exitcode,
                  struct pmiwire_str message);

    /**
     * Start processes. Return PMIWIRE_PENDING, and call pmiwire_server_spawn_done() at once or
     * later. To refuse, return an error. NULL: the server refuses every spawn.
     */
    int (*spawn)(void *ctx, const struct pmiwire_peer *who, const struct pmiwire_spawn *req,
                 uint64_t token);

    /**
     * Store a pair in a store of yours instead of the engine's. Set both put and find, or neither.
     * With several nodes set merge too. In a job of several nodes the server does not pass SPARSE
     * keys (`fp-hint`) here: the exchange keeps them.
     * @return 0: `find` must find the pair from now on; or PMIWIRE_E* or -errno, which the client
     *         gets
     */
    int (*put)(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str key,
               struct pmiwire_str value);
    /**
     * Find a pair. May call pmiwire_server_get() and pmiwire_server_advertise(), and no other
     * function of the server.
     * @param job    the key-value space; only its members job and job_cookie are set
     * @param value  filled in on success. It must stay valid until the next call into the server,
     *               and have a readable NUL behind it
     * @return 0, PMIWIRE_ENOENT
     */
    int (*find)(void *ctx, const struct pmiwire_peer *job, struct pmiwire_str key,
                struct pmiwire_str *value);
    /**
     * Store the pairs that a Fence has brought from all nodes, in the order of the block. May call
     * the functions that find may call.
     * @param block  for pmiwire_block_next() or shmht_writer_merge(). Each value ends with a NUL
     *               that its length counts
     * @return 0; 1: you have not stored the block, so the engine puts it into its own store, where
     *         pmiwire_server_get() finds the pairs; or an error, which fails the job's exchange
     */
    int (*merge)(void *ctx, const struct pmiwire_peer *job, const void *block, size_t bytes);

    /**
     * Take an Allgather's values, before the server answers any rank. The server makes several
     * calls for one Allgather. In the last call block is NULL; in this call you may advertise
     * PMIWIRE_EXT_ARRAY. Without this callback the engine keeps the values of the last Allgather.
     *
     * Clients get rank R's value of Allgather K under the key `-allgather-K-R`. The server then
     * calls `find`, and if that finds nothing, looks among the values that the engine has kept.
     * @param number   counts the Allgathers from 0
     * @param longest  bytes of the longest value of all, the same in every call
     * @param block    for pmiwire_block_next(). The keys are ranks, 4 bytes as in memory. The
     *                 values have no NUL
     * @return 0; 1: the engine keeps the block's values, as if gather were NULL; or an error, which
     *         fails the job's exchange
     */
    int (*gather)(void *ctx, const struct pmiwire_peer *job, uint32_t number, uint32_t longest,
                  const void *block, size_t bytes);

    /** A Fence is complete, and the server has answered no rank yet. You may advertise here. */
    void (*fenced)(void *ctx, const struct pmiwire_peer *job);

    /**
     * A collective cannot complete. The server calls this once for each job and kind of collective,
     * before it answers the ranks that wait. NULL: diag reports it. exchange.h has the constants.
     * @param who   the rank that is gone; conn and cookie are NULL if it is not connected here
     * @param coll  PMIWIRE_COLL_* or PMIWIRE_STUCK_GROUP
     * @param why   PMIWIRE_GONE_*
     */
    void (*stuck)(void *ctx, const struct pmiwire_peer *who, uint32_t coll, uint32_t why);

    /**
     * Send a frame to another node, under the rules of pmiwire_exchange_ops.send. Must not call the
     * server. NULL: all ranks of every job are here.
     * @param node  numbered as in job_opts.node_of
     * @return 0: accepted; 1: accepted, and the link is full until pmiwire_server_link_ready()
     */
    int (*send)(void *ctx, const struct pmiwire_peer *job, uint32_t node, const struct iovec *iov,
                uint32_t n_iov, size_t bytes);

    /**
     * A job's exchange has failed: from now on its collectives end with rc. Called once.
     * @param node  numbered as in job_opts.node_of: if rc is PMIWIRE_ELOST the lost node, otherwise
     *              the node where the exchange failed
     */
    void (*failed)(void *ctx, const struct pmiwire_peer *job, int rc, uint32_t node);

    /**
     * Serve a client's request to publish, unpublish or look up a name, instead of the engine.
     * @param what  PMIWIRE_NAME_*
     * @param port  for PUBLISH only
     * @return PMIWIRE_PENDING: call pmiwire_server_name_done() at once or later; 0: the request is
     *         done, but a lookup has found nothing; or PMIWIRE_E*
     */
    int (*name)(void *ctx, const struct pmiwire_peer *who, uint32_t what,
                struct pmiwire_str service, struct pmiwire_str port, uint64_t token);

    /**
     * A rank starts or stops waiting in a collective: for statistics and pictures. Must not call
     * the server.
     * @param coll    PMIWIRE_COLL_* or PMIWIRE_STUCK_GROUP
     * @param begins  1: the rank waits from now on; 0: it has its answer, or its connection has
     *                ended. After each 1 comes one 0
     */
    void (*waits)(void *ctx, const struct pmiwire_peer *who, uint32_t coll, uint32_t begins);
};

/** Options of a server. Zero all, set `size`, then the members that differ from the default. */
struct pmiwire_server_opts {
    size_t size;                                  /**< sizeof(struct pmiwire_server_opts) */
    const struct pmiwire_server_ops *ops;         /**< copied; NULL: none */
    void *ctx;                                    /**< handed to every callback */
    const struct pmiwire_allocator *allocator;    /**< NULL: libc */
    uint32_t flags;                               /**< PMIWIRE_SERVER_* */
    uint32_t kvsname_max, keylen_max, vallen_max; /**< advertised, 2 to 2^31-1; 0: the defaults. A
                                                     PMI-2 key or value may have this length. On
                                                     PMI-1 it must be shorter, as a NUL counts */
    size_t max_msg_bytes;   /**< at most SIZE_MAX / 4; 0: PMIWIRE_DEFAULT_MAX_MSG_BYTES, or more if
                               PMIWIRE_EXT_BYTES needs it */
    uint32_t max_fields;    /**< 0: PMIWIRE_DEFAULT_MAX_FIELDS */
    uint32_t decode_flags;  /**< PMIWIRE_DECODE_* */
    size_t max_out_bytes;   /**< unread replies of a client; 0: PMIWIRE_DEFAULT_MAX_OUT_BYTES, or
                               more if vallen_max needs it */
    size_t max_spawn_bytes; /**< 0: PMIWIRE_DEFAULT_MAX_SPAWN_BYTES */
    size_t max_kvs_bytes;   /**< 0: PMIWIRE_DEFAULT_MAX_KVS_BYTES */
    uint64_t stall_ns;      /**< see pmiwire_server_tick(); 0: never disconnect */
    uint64_t wait_ns;       /**< a Get that waits this long ends with PMIWIRE_ETIME; 0: never */
};

/** A job. Zero all, set `size`, then the members that differ from the default. */
struct pmiwire_job_opts {
    size_t size;         /**< sizeof(struct pmiwire_job_opts) */
    const char *kvsname; /**< name of its key-value space and PMI-2 job id: 1 to kvsname_max-1 bytes
                            from 33 to 126 without `;` and `\` */
    uint32_t n_ranks;    /**< 1 to 2^31-1 */
    int32_t universe_size; /**< -1: unknown, Hydra's value */
    uint32_t debugged;
    const uint32_t *appnum;    /**< array of n_ranks: each rank's program, copied; NULL: all 0 */
    const uint32_t *node_of;   /**< array of n_ranks: each rank's node, copied; NULL: all on one */
    const char *spawner_jobid; /**< job that spawned this one; NULL: none */
    void *cookie;              /**< yours, handed to callbacks in pmiwire_peer */
    /* With ops->send(): */
    uint32_t number; /**< of the job, the same on all nodes; part of every frame */
    uint32_t node;   /**< this server's node, which must have a rank of the job. Without ops->send()
                        all ranks are here: node has no effect then, and node_of only forms the
                        groups `NODE:tag` */
    uint32_t design, fence, arity, max_frame_bytes; /**< as in pmiwire_exchange_opts */
    size_t max_exchange_bytes;                      /**< max_bytes of pmiwire_exchange_opts */
};

/**
 * @brief Create a server.
 * @return 0, -ENOMEM, -EINVAL (a wrong flag or limit, or a callback without its partner: see
 *         pmiwire_server_ops.put). Allocates.
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
 * @brief Add a job.
 * @param s     the server
 * @param opts  copied
 * @param job   filled in: the job's number in this server, from 0 upwards
 * @return 0, -ENOMEM, -EINVAL (also: this node has none of its ranks), PMIWIRE_EEXIST (the name is
 *         in use), PMIWIRE_ECHARS
 *
 * Allocates about 2 KiB, and 6 bytes for each rank of this node. With node_of it allocates 4 more
 * bytes for each rank of the job, and 8 for each node.
 */
PMIWIRE_API int pmiwire_server_job_add(struct pmiwire_server *s,
                                       const struct pmiwire_job_opts *opts, uint32_t *job);

/**
 * @brief Remove a job that has no connection left, and its exchange. The other nodes get no notice.
 *
 * A client of another job that waits for one of this job's keys gets an answer without a value.
 * @return 0, PMIWIRE_ESTATE (the job has connections), PMIWIRE_ENOENT (no such job)
 */
PMIWIRE_API int pmiwire_server_job_remove(struct pmiwire_server *s, uint32_t job);

/**
 * @brief Set a job attribute, such as `PMI_process_mapping`, which is optional.
 *
 * PMI-2 clients ask for it with info-getjobattr. PMI-1 clients get it from their key-value space.
 * @return 0, -ENOMEM, PMIWIRE_ENOENT (no such job), PMIWIRE_EEMPTY, PMIWIRE_ECHARS,
 *         PMIWIRE_EKEYLEN, PMIWIRE_EVALLEN
 */
PMIWIRE_API int pmiwire_server_job_attr(struct pmiwire_server *s, uint32_t job,
                                        struct pmiwire_str key, struct pmiwire_str value);

/**
 * @brief Advertise an extension to the clients of a job (extension.h). From now on every answer
 *        that may have the extension's field has it.
 *
 * For PMIWIRE_EXT_BYTES, opts.max_msg_bytes must be at least 3 * (keylen_max + vallen_max) +
 * kvsname_max + 256.
 * @param s      the server
 * @param job    its number
 * @param ext    PMIWIRE_EXT_*
 * @param value  within the grammar of pmiwire_enc_extra(), copied; absent: stop advertising
 * @return 0, -ENOMEM, -EINVAL (a server cannot advertise this extension, or max_msg_bytes is too
 *         small for PMIWIRE_EXT_BYTES), PMIWIRE_ENOENT (no such job), PMIWIRE_EEMPTY,
 *         PMIWIRE_ECHARS, PMIWIRE_EVALLEN (more than PMIWIRE_EXT_MAX_BYTES in one answer)
 */
PMIWIRE_API int pmiwire_server_advertise(struct pmiwire_server *s, uint32_t job, uint16_t ext,
                                         struct pmiwire_str value);

/**
 * @brief Put a pair of any bytes into the engine's own store. For the launcher, for example for
 *        spawn's preputs.
 *
 * Other nodes get the pair with the next Fence, unless ops->put is set.
 * @return 0, -ENOMEM (also for max_kvs_bytes and max_exchange_bytes), PMIWIRE_ENOENT (no such job),
 *         PMIWIRE_EEMPTY (the key), PMIWIRE_EKEYLEN, PMIWIRE_EVALLEN (also, if the job has several
 *         nodes or a Get waits: the pair does not fit into a frame of the exchange), or the reason
 *         why the exchange failed. After an error the pair is not stored
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
 * @param job,rank  the client's job and rank. If rank is PMIWIRE_RANK_UNKNOWN, the client names
 *                  itself, and job is ignored
 * @param cookie    yours, handed to callbacks
 * @return 0, -ENOMEM, PMIWIRE_ENOENT (no such job), -EINVAL (no such rank here, or conn NULL),
 *         PMIWIRE_EEXIST (rank is connected)
 */
PMIWIRE_API int pmiwire_server_accept(struct pmiwire_server *s, uint32_t job, int32_t rank,
                                      void *cookie, struct pmiwire_conn **conn);

/**
 * @brief Hand over bytes read from a client. The call serves every complete message.
 * @return 0; PMIWIRE_E* or -ENOMEM: the connection is PMIWIRE_CONN_FAILED, and ignores further
 *         input
 *
 * The bytes may end anywhere in a message, and may contain several messages. Cost: one decode and
 * one callback for each message. The engine allocates only for the incomplete message at the end.
 */
PMIWIRE_API int pmiwire_conn_input(struct pmiwire_conn *conn, const void *data, size_t n);

/** @brief Get the bytes to write. @return their number. *data points to them until the next call */
PMIWIRE_API size_t pmiwire_conn_output(struct pmiwire_conn *conn, const void **data);

/** @brief Report that n of the bytes from pmiwire_conn_output() were written. */
PMIWIRE_API void pmiwire_conn_sent(struct pmiwire_conn *conn, size_t n);

/**
 * @brief Remove a connection. conn is invalid afterwards.
 *
 * If the client was between init and finalize, or in mid-message, diag gets a report
 * (PMIWIRE_EEOF). The pairs that the client has put stay. The tokens of its requests become stale.
 * Its rank is gone (see Liveness above).
 */
PMIWIRE_API void pmiwire_conn_close(struct pmiwire_conn *conn);
/** A connection's client, state and error. */
struct pmiwire_info_conn {
    struct pmiwire_peer who;
    uint32_t state;          /**< PMIWIRE_CONN_* */
    int error;               /**< cause of PMIWIRE_CONN_FAILED, PMIWIRE_E* or -ENOMEM; else 0 */
    uint32_t has_extensions; /**< 1: the client has sent PMIWIRE_EXT_CLIENT */
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
 * @param rc        0; or PMIWIRE_E* or -errno: no process was started. The client's library then
 *                  ignores jobid and errcodes
 * @param jobid     the children's job; may be NULL on failure
 * @param errcodes  with rc 0: array of n, one for each process requested: 0, or its error code.
 *                  NULL: no process failed
 * @return 0 or PMIWIRE_ESTALE
 */
PMIWIRE_API int pmiwire_server_spawn_done(struct pmiwire_server *s, uint64_t token, int rc,
                                          const char *jobid, const int32_t *errcodes, uint32_t n);

/**
 * @brief Answer a request to ops->name().
 * @param s      the server
 * @param token  of the request
 * @param rc     0, PMIWIRE_EEXIST, PMIWIRE_ENOENT or another error
 * @param port   the result of a successful lookup
 * @return 0 or PMIWIRE_ESTALE
 */
PMIWIRE_API int pmiwire_server_name_done(struct pmiwire_server *s, uint64_t token, int rc,
                                         struct pmiwire_str port);
/** @} */

/**
 * @name Ranks, nodes and frames
 * @{
 */
/**
 * @brief Report that a rank's process has ended. First hand over all bytes that it has sent. The
 *        rank is then *gone*: collectives that it has not entered fail for the ranks that wait in
 *        them (see Liveness above). A second call is ignored.
 * @return 0, PMIWIRE_ENOENT (no such job), -EINVAL (no such rank here)
 */
PMIWIRE_API int pmiwire_server_rank_ended(struct pmiwire_server *s, uint32_t job, int32_t rank);

/**
 * @brief Hand over a frame from a node that the link has authenticated.
 * @return as pmiwire_exchange_input(); PMIWIRE_EPROTO also if that node has no rank of the job;
 *         PMIWIRE_ENOENT: no such job exists, or it has been removed
 */
PMIWIRE_API int pmiwire_server_frame(struct pmiwire_server *s, uint32_t job, uint32_t node,
                                     const void *data, size_t n);

/**
 * @brief Report that the link to a node has room again, after ops->send() returned 1 for it.
 * @return 0, PMIWIRE_ENOENT (no such job), -EINVAL (not another node of the job)
 */
PMIWIRE_API int pmiwire_server_link_ready(struct pmiwire_server *s, uint32_t job, uint32_t node);

/**
 * @brief Report that a node is lost. The job's exchange fails on all nodes.
 * @return 0, PMIWIRE_ENOENT (no such job), -EINVAL (not another node of the job)
 */
PMIWIRE_API int pmiwire_server_node_lost(struct pmiwire_server *s, uint32_t job, uint32_t node);

/**
 * @brief Parse the key `-allgather-K-R`, which ops->find() receives where ops->gather() is set.
 * @param[out] number  K, the Allgather's number
 * @param[out] rank    R, the rank whose value it is; not checked against the job's size
 * @return 0, or PMIWIRE_ENOENT: another key
 * @threads MT-Safe.
 */
PMIWIRE_API int pmiwire_gather_key(struct pmiwire_str key, uint32_t *number, uint32_t *rank);

/** @brief Get a job's exchange, for pmiwire_exchange_stats(). NULL: no such job. */
PMIWIRE_API const struct pmiwire_exchange *pmiwire_server_exchange(const struct pmiwire_server *s,
                                                                   uint32_t job);
/** @} */

/**
 * @name The engine's name store
 *
 * A name that a client publishes belongs to the client's job, and is dropped with the job. With
 * these calls you keep names for other owners, such as the nodes of a launcher. Choose for each
 * owner a number that no job has: 2^31 and above, or any number in a server without jobs.
 * @{
 */
/**
 * @brief Publish a name.
 * @return 0, PMIWIRE_EEXIST, -ENOMEM (also if all names together exceed max_kvs_bytes)
 */
PMIWIRE_API int pmiwire_server_publish(struct pmiwire_server *s, uint32_t owner,
                                       struct pmiwire_str service, struct pmiwire_str port);

/** @brief Unpublish a name of this owner. @return 0, PMIWIRE_ENOENT */
PMIWIRE_API int pmiwire_server_unpublish(struct pmiwire_server *s, uint32_t owner,
                                         struct pmiwire_str service);

/** @brief Look a name up. *port is valid until the next call. @return 0, PMIWIRE_ENOENT */
PMIWIRE_API int pmiwire_server_lookup(const struct pmiwire_server *s, struct pmiwire_str service,
                                      struct pmiwire_str *port);

/** @brief Drop an owner's names. @return 0 */
PMIWIRE_API int pmiwire_server_names_drop(struct pmiwire_server *s, uint32_t owner);
/** @} */

/**
 * @brief Set the time, for example twice a second.
 *
 * The call disconnects clients that for opts.stall_ns have been silent in mid-message, or have not
 * read their replies. It calls pmiwire_exchange_tick() for every job. Cost: one pass over the
 * connections, and one over the jobs.
 * @param s       the server
 * @param now_ns  any monotonic clock
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
/** Default limit on the fields of one message; each argument of a spawn is a field. */
#define PMIWIRE_DEFAULT_MAX_FIELDS 16384u
/** Default limit on the bytes of one spawn request, all its PMI-1 messages together. */
#define PMIWIRE_DEFAULT_MAX_SPAWN_BYTES 4194304u
/**
 * Default limit on the pairs, attributes and names of one job. Each counts with its bytes and 64
 * more. The server refuses a Put that would exceed the limit, with a text that names the limit. It
 * accepts pairs that a Fence brings even beyond the limit: the node that sent them has already
 * accepted them.
 */
#define PMIWIRE_DEFAULT_MAX_KVS_BYTES 268435456u

/** Counters of a server, which only grow, and present values. */
struct pmiwire_stats_server {
    uint64_t n_messages; /**< complete messages decoded */
    uint64_t n_bad;      /**< malformed messages */
    uint64_t n_puts;
    uint64_t n_gets;
    uint64_t n_misses; /**< gets that found nothing */
    uint64_t n_fences; /**< completed */
    uint64_t bytes_in;
    uint64_t bytes_out; /**< replies queued */
    uint64_t kvs_bytes; /**< keys and values in store now */
    uint64_t n_conns;   /**< connections now */
    uint64_t n_failed;  /**< connections that became PMIWIRE_CONN_FAILED */
};

/** @brief Read the counters. */
PMIWIRE_API void pmiwire_server_stats(const struct pmiwire_server *s,
                                      struct pmiwire_stats_server *stats);

#ifdef __cplusplus
}
#endif
#endif /* PMIWIRE_SERVER_H */
