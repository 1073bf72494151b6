/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file server.h
 * @brief The server's side of PMI for any number of clients and jobs, both wires, without I/O.
 *
 * The model. A *server* holds *jobs*: a job is a key-value space with a name, a size, attributes
 * and a barrier. A *connection* is one client: you say which job and rank it is, or let the client
 * say it (PMI_PORT). You hand over what you read and take away replies. The engine calls you back
 * for what only you can do: start processes, end the job, reach other nodes. What you do not
 * provide it does by itself: key-value store, name service, attributes, barriers. An operation that
 * takes time (a spawn, a get of another node's key, a fence over several nodes, a lookup) returns
 * PMIWIRE_PENDING and is completed later by its token or job.
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
 *
 * Order.
 * - Requests of a connection are served one after the other: while one waits for its answer, those
 *   behind it are not looked at.
 * - Names are published for all jobs of the server; only the job that published one may take it
 *   back, and pmiwire_server_job_remove() drops what is left.
 * - Barriers of groups that span nodes (n_local < n_ranks) are refused.
 *
 * Hostile clients. Nothing a client sends can crash the server, make it allocate without bound,
 * delay other clients or lose their pairs.
 * - What can be answered is answered with rc != 0 and a text; where the framing is lost the
 *   connection is closed; both are reported to ops->diag with rank and cause.
 * - Cut off is a client that leaves max_out_bytes of replies unread, sends more than
 *   2 * max_msg_bytes behind a request whose answer is delayed, sends 64 malformed or unknown
 *   messages in all, or (pmiwire_server_tick()) stops in mid-message.
 * - A client that goes away makes the tokens of its requests stale, which is harmless.
 *
 * Versions. A client is never answered with a higher subversion than it asked for, unless
 * PMIWIRE_SERVER_PMI_1_2 is set.
 *
 * Several nodes. Each has a server for its own ranks and an exchange (exchange.h) with the others.
 *
 * | server's callback         | calls                                                             |
 * |---------------------------|-------------------------------------------------------------------|
 * | put                       | pmiwire_exchange_put()                                            |
 * | get                       | pmiwire_exchange_get()                                            |
 * | ring                      | pmiwire_exchange_ring(), and returns PENDING                      |
 * | fence                     | pmiwire_exchange_fence(), PMIWIRE_RANK_ALL; and returns PENDING   |
 * | state: a client finalizes | pmiwire_exchange_gone(), as the end of a process does             |
 *
 * | exchange's callback       | calls                                                             |
 * |---------------------------|-------------------------------------------------------------------|
 * | got                       | pmiwire_server_get_done()                                         |
 * | done                      | pmiwire_server_fence_done()                                       |
 * | ringed                    | pmiwire_server_ring_done()                                        |
 *
 * So nobody leaves a barrier before the exchange's Fence is complete, and a get goes to other nodes
 * only for a client that has asked for that.
 *
 * Replies. A PMI-2 client whose lengths are padded on the right is taken for Slurm's and answered
 * within what that one reads (`;;`), any other PMI-2 client within what MPICH's reads. PMI-1
 * replies are held to the framing's rules alone, since nothing tells the clients apart. An answer
 * that cannot be carried becomes an error reply that names the byte and whose limit it is, and is
 * reported to diag. A PMI-2 client that puts bytes that it could not read back is refused.
 *
 * Bytes. Keys and values may hold any, NUL too, once you advertise PMIWIRE_EXT_BYTES: clients of
 * this project then say and read all of them on both wires. What else clients can read is in
 * libpmiwire/WIRE.md.
 *
 * Threads: one server, one thread at a time. Callbacks may call any function of this header on the
 * same server except pmiwire_server_destroy(). What they cause is queued where it could disturb:
 * input given within a callback is served, and ready() called, before the outermost call returns; a
 * connection closed within a callback takes part in nothing more.
 */
#ifndef PMIWIRE_SERVER_H
#define PMIWIRE_SERVER_H

#include <sys/types.h>

#include <pmiwire/codec.h>
#include <pmiwire/command.h>
#include <pmiwire/extension.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Answer init with PMI 1.2 whatever was asked: MPICH main then uses group barriers; Flux's client
 * refuses.
 */
#define PMIWIRE_SERVER_PMI_1_2 1u

/** Rank of a connection that has not said yet who it is. */
#define PMIWIRE_RANK_UNKNOWN (-1)

/**
 * @name States of a connection
 * @{
 */
#define PMIWIRE_CONN_NEW       0u /**< has not completed init: perhaps no PMI program at all */
#define PMIWIRE_CONN_INITED    1u /**< between init and finalize: must not vanish */
#define PMIWIRE_CONN_FINALIZED 2u /**< said finalize and was answered */
#define PMIWIRE_CONN_FAILED    3u /**< to be closed: send what output is left, then close */
/** @} */

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
 * What you do for the engine. Every member may be NULL. `ctx` is opts.ctx.
 * Views in arguments live until the callback returns.
 */
struct pmiwire_server_ops {
    size_t size; /**< sizeof(struct pmiwire_server_ops) */

    /**
     * Output has appeared on a connection that had none, or it has to be closed: look at it soon.
     */
    void (*ready)(void *ctx, struct pmiwire_conn *conn, void *cookie);

    /**
     * A client did something wrong, or cannot be served.
     * @param code  PMIWIRE_E* or -ENOMEM
     * @param text  one line that names rank and cause, printable whatever the client sent
     */
    void (*diag)(void *ctx, const struct pmiwire_peer *who, int code, const char *text);

    /**
     * A connection without rank says its id (PMI_PORT). Fill in job and rank; nonzero refuses.
     * NULL: the id is the rank, in the first job.
     */
    int (*identify)(void *ctx, struct pmiwire_conn *conn, void *cookie, int32_t pmiid,
                    uint32_t *job, int32_t *rank);

    /** A client reached or left init … finalize. @param state PMIWIRE_CONN_* */
    void (*state)(void *ctx, const struct pmiwire_peer *who, uint32_t state);

    /**
     * End the job (MPI_Abort); `who` always has a rank.
     * @param message  prose from the client, not to be trusted
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
     * Store a pair elsewhere than in the engine. If set, `get` must be set too.
     * @param hint  the client's, PMIWIRE_HINT_*
     * @return 0, or PMIWIRE_E* or -errno, with which the client is answered
     */
    int (*put)(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str key,
               struct pmiwire_str value, uint32_t hint);
    /**
     * Find a pair.
     * @param job    whose space is asked, which may differ from who->job
     * @param srcid  the rank that puts it, as the client says; -1: unknown
     * @param how    PMIWIRE_GET_*. Other than LOCAL only from clients that know our extensions, and
     *               only where PMIWIRE_EXT_EXCHANGE is advertised: programs that probe for keys
     *               never block
     * @param value  filled in with 0; valid until the next call into the server
     * @return 0, PMIWIRE_ENOENT, or PMIWIRE_PENDING and later pmiwire_server_get_done()
     */
    int (*get)(void *ctx, const struct pmiwire_peer *who, uint32_t job, int32_t srcid,
               struct pmiwire_str key, uint32_t how, uint64_t token, struct pmiwire_str *value);

    /**
     * All local clients of a job are in the fence. 0 releases them, PMIWIRE_PENDING waits for
     * pmiwire_server_fence_done().
     */
    int (*fence)(void *ctx, uint32_t job);

    /**
     * Name service elsewhere than in the engine: all three or none. 0, PMIWIRE_EEXIST,
     * PMIWIRE_ENOENT; lookup also PENDING and pmiwire_server_get_done().
     */
    int (*publish)(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str service,
                   struct pmiwire_str port);
    int (*unpublish)(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str service);
    int (*lookup)(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str service,
                  uint64_t token, struct pmiwire_str *port);

    /**
     * A client of a job that has ranks elsewhere (n_local < n_ranks) enters the ring. Return
     * PMIWIRE_PENDING and call pmiwire_server_ring_done() (at once or later), or an error. NULL:
     * such rings are refused; those of one node are the engine's own.
     */
    int (*ring)(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str left,
                struct pmiwire_str right, uint64_t token);
};

/** How a server is set up. Zero all, set `size`, then what differs. */
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
};

/** A job. Zero all, set `size`, then what differs. */
struct pmiwire_job_opts {
    size_t size;         /**< sizeof(struct pmiwire_job_opts) */
    const char *kvsname; /**< name of its key-value space and PMI-2 job id: 1 to kvsname_max-1 bytes
                            from 33 to 126 without `;` and `\` */
    uint32_t n_ranks;    /**< 1 to 2^31-1 */
    uint32_t n_local;    /**< ranks that connect to this server and enter its fence; 0: n_ranks */
    int32_t universe_size; /**< -1: unknown, as Hydra says */
    uint32_t debugged;
    const uint32_t *appnum;  /**< array of n_ranks: program each rank runs, copied; NULL: 0 */
    const uint32_t *node_of; /**< array of n_ranks: node of each rank, for group barriers over NODE;
                                NULL: all on one. Copied */
    const char *spawner_jobid; /**< job that spawned this one; NULL: none */
    void *cookie;              /**< yours, handed to callbacks in pmiwire_peer */
};

/**
 * @brief Create a server.
 * @return 0, -ENOMEM, -EINVAL (a flag or limit, or callbacks of which one needs another that is not
 *         there). Allocates.
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
 * @brief Add a job. @param job its number, from 0 upwards. @return 0, -ENOMEM, -EINVAL,
 *        PMIWIRE_EEXIST (name in use), PMIWIRE_ECHARS
 */
PMIWIRE_API int pmiwire_server_job_add(struct pmiwire_server *s,
                                       const struct pmiwire_job_opts *opts, uint32_t *job);

/** @brief Forget a job that has no connection left. @return 0, PMIWIRE_ESTATE, PMIWIRE_ENOENT */
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
 * @brief Advertise an extension to the clients of a job: from now on every answer that can carries
 *        its field (extension.h).
 * @param ext    PMIWIRE_EXT_*
 * @param value  within the grammar of pmiwire_enc_extra(), copied; absent: no longer
 * @return 0, -ENOMEM, -EINVAL (no such extension; PMIWIRE_EXT_BYTES where opts.max_msg_bytes is
 *         less than 3 * (keylen_max + vallen_max) + kvsname_max + 256), PMIWIRE_ENOENT (no such
 *         job), PMIWIRE_EEMPTY, PMIWIRE_ECHARS, PMIWIRE_EVALLEN (more than PMIWIRE_EXT_MAX_BYTES in
 *         one answer)
 */
PMIWIRE_API int pmiwire_server_advertise(struct pmiwire_server *s, uint32_t job, uint16_t ext,
                                         struct pmiwire_str value);

/**
 * @brief Put a pair of any bytes into the engine's own store on the launcher's behalf (spawn's
 *        preputs).
 * @return 0, -ENOMEM (max_kvs_bytes too), PMIWIRE_ENOENT (no such job), PMIWIRE_EEMPTY (the key),
 *         PMIWIRE_EKEYLEN, PMIWIRE_EVALLEN
 */
PMIWIRE_API int pmiwire_server_put(struct pmiwire_server *s, uint32_t job, struct pmiwire_str key,
                                   struct pmiwire_str value);

/**
 * @brief Look into the engine's own store. *value is valid until the next call. @return 0,
 *        PMIWIRE_ENOENT
 */
PMIWIRE_API int pmiwire_server_get(struct pmiwire_server *s, uint32_t job, struct pmiwire_str key,
                                   struct pmiwire_str *value);
/** @} */

/**
 * @name Connections
 * @{
 */
/**
 * @brief A client has connected.
 * @param job,rank  who it is; rank PMIWIRE_RANK_UNKNOWN: it says so itself (job is ignored)
 * @param cookie    yours, handed to callbacks
 * @return 0, -ENOMEM, PMIWIRE_ENOENT (no such job), -EINVAL (no such rank, or conn NULL),
 *         PMIWIRE_EEXIST (rank is connected)
 */
PMIWIRE_API int pmiwire_server_accept(struct pmiwire_server *s, uint32_t job, int32_t rank,
                                      void *cookie, struct pmiwire_conn **conn);

/**
 * @brief Bytes that were read from a client: every complete message is served before it returns.
 * @return 0, or PMIWIRE_E* or -ENOMEM once the connection has FAILED (input is then ignored)
 *
 * Any split and any pipelining. Cost: one decode and one callback a message; memory is
 * allocated only for the part of a message that is left over.
 */
PMIWIRE_API int pmiwire_conn_input(struct pmiwire_conn *conn, const void *data, size_t n);

/** @brief Bytes to write. @return how many; *data valid until the next call on the server */
PMIWIRE_API size_t pmiwire_conn_output(struct pmiwire_conn *conn, const void **data);

/** @brief Of those, n were written. */
PMIWIRE_API void pmiwire_conn_sent(struct pmiwire_conn *conn, size_t n);

/**
 * @brief The connection has ended or is to be forgotten; conn is invalid afterwards.
 *
 * If the client stood between init and finalize, or in mid-message, that is reported to diag
 * (PMIWIRE_EEOF). What it had put stays; tokens of its requests become stale; it no
 * longer counts as arrived in a fence.
 */
PMIWIRE_API void pmiwire_conn_close(struct pmiwire_conn *conn);
/** What a connection is. */
struct pmiwire_info_conn {
    struct pmiwire_peer who;
    uint32_t state;          /**< PMIWIRE_CONN_* */
    int error;               /**< why it FAILED, PMIWIRE_E* or -ENOMEM; 0 otherwise */
    uint32_t has_extensions; /**< 1: the client has said PMIWIRE_EXT_CLIENT, it knows ours */
};

/** @brief Read it. */
PMIWIRE_API void pmiwire_conn_query(const struct pmiwire_conn *conn,
                                    struct pmiwire_info_conn *info);
/** @} */

/**
 * @name Delayed answers
 * @{
 */
/**
 * @brief Answer a spawn.
 * @param rc        0 or PMIWIRE_E* / -errno: all failed; the clients' libraries then look at
 *                  nothing else
 * @param jobid     the children's job; may be NULL on failure
 * @param errcodes  with rc 0, array of n: 0 or an error code for each process asked for; NULL: no
 *                  process failed
 * @return 0 or PMIWIRE_ESTALE
 */
PMIWIRE_API int pmiwire_server_spawn_done(struct pmiwire_server *s, uint64_t token, int rc,
                                          const char *jobid, const int32_t *errcodes, uint32_t n);

/**
 * @brief Answer a get or lookup. @param rc 0, PMIWIRE_ENOENT or another error. @return 0 or
 *        PMIWIRE_ESTALE
 */
PMIWIRE_API int pmiwire_server_get_done(struct pmiwire_server *s, uint64_t token, int rc,
                                        struct pmiwire_str value);

/**
 * @brief Answer a ring. @param rc 0 or an error; @param place the rank's place in the ring, from 0;
 *        @param left,right its neighbours' values. @return 0 or PMIWIRE_ESTALE
 */
PMIWIRE_API int pmiwire_server_ring_done(struct pmiwire_server *s, uint64_t token, int rc,
                                         uint32_t place, struct pmiwire_str left,
                                         struct pmiwire_str right);

/**
 * @brief Release the fence of a job whose `fence` returned PENDING. @return 0, PMIWIRE_ENOENT,
 *        PMIWIRE_ESTATE
 */
PMIWIRE_API int pmiwire_server_fence_done(struct pmiwire_server *s, uint32_t job, int rc);
/** @} */

/**
 * @brief Set the time, now and then: clients silent in mid-message or not
 *        reading for opts.stall_ns are cut off.
 * @param now_ns  any monotonic clock. Cost: one pass over the connections
 */
PMIWIRE_API void pmiwire_server_tick(struct pmiwire_server *s, uint64_t now_ns);

/**
 * @name Limits that are advertised, bytes with NUL (Hydra's, which every client copes with)
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
 * Default limit on what one job may store: pairs, attributes and names, bytes, and 64 more for
 * each.
 */
#define PMIWIRE_DEFAULT_MAX_KVS_BYTES 268435456u

/** What has been served. Counters never go back. */
struct pmiwire_stats_server {
    uint64_t n_messages; /**< complete messages decoded */
    uint64_t n_bad;      /**< of those, answered with an error for their form */
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
