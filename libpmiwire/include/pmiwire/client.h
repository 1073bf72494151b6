/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file client.h
 * @brief The client's side of a PMI conversation, on either wire, without I/O.
 *
 * One session is one process's connection to its server. You ask (put, get,
 * fence, …), move the bytes, and take events:
 *
 *     pmiwire_client_create(&opts, &c);
 *     pmiwire_client_start(c);
 *     for (;;) {
 *         int rc = pmiwire_client_next(c, &ev);          // an event, or none, or the end
 *         if (rc > 0) { …ev.op, ev.rc, ev.value… continue; }
 *         if (rc < 0) break;                              // rc says why
 *         n = pmiwire_client_output(c, &p);               // bytes to write
 *         if (n) { ssize_t w = write(fd, p, n);           // (a loop over EINTR left out)
 *                  if (w < 0) pmiwire_client_eof(c); else pmiwire_client_sent(c, w); continue; }
 *         n = read(fd, buf, sizeof buf);                  // nothing to write: wait for the server
 *         if (n <= 0) { pmiwire_client_eof(c); continue; }
 *         pmiwire_client_input(c, buf, n);
 *     }
 *
 * Requests queue up and are sent one at a time, each when the one before it
 * has been answered: Slurm's PMI-1 server takes what one read() returns for one
 * command and loses the rest. With PMIWIRE_CLIENT_PIPELINE they go out at
 * once (our server and Hydra answer in order). Every accepted request is
 * answered by exactly one event, in order; when the session dies, by an event
 * with the reason.
 *
 * Caveats: views in an event live until the next call of any function of the
 * session. Values that the server's wire cannot carry are refused when you
 * ask, before a byte is sent.
 */
#ifndef PMIWIRE_CLIENT_H
#define PMIWIRE_CLIENT_H

#include <sys/types.h>

#include <pmiwire/codec.h>
#include <pmiwire/command.h>
#include <pmiwire/extension.h>
#include <pmiwire/profile.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Send requests without waiting for the answers before them. */
#define PMIWIRE_CLIENT_PIPELINE 1u
/**
 * Say PMIWIRE_EXT_CLIENT at init: a server of this project then answers in full (extension.h).
 * Others have been seen to skip it.
 */
#define PMIWIRE_CLIENT_EXTENSIONS 2u

/** Most requests that may wait for an answer at a time; one more is refused with -EAGAIN. */
#define PMIWIRE_CLIENT_MAX_PENDING 64u

/** How a session is set up. Zero all, set `size`, then what differs. */
struct pmiwire_client_opts {
    size_t size;    /**< sizeof(struct pmiwire_client_opts) */
    uint32_t wire;  /**< PMIWIRE_V1 (default) or PMIWIRE_V2 */
    uint32_t flags; /**< PMIWIRE_CLIENT_* */
    int32_t rank; /**< PMI_RANK; must be right on PMI-1 over PMI_FD, whose wire does not tell it */
    int32_t n_ranks;   /**< PMI_SIZE; likewise */
    int32_t has_pmiid; /**< nonzero: PMI_PORT mode, first say who we are (`initack`, or PMI-2's
                          `pmirank`) */
    int32_t pmiid;     /**< PMI_ID */
    const char *jobid; /**< PMI_JOBID, sent in PMI-2's fullinit; may be NULL. Not kept */
    uint32_t max_subversion; /**< PMI-1: highest 1.x asked for; 0 means 1 */
    uint32_t threaded;       /**< PMI-2: say so in fullinit */
    size_t max_msg_bytes; /**< longest message either way, bytes, 256 (and jobid's length) to 2^30;
                             0 means PMIWIRE_DEFAULT_MAX_MSG_BYTES */
    uint32_t max_fields;  /**< most fields of one answer, 16 to 2^20; 0 means 256 */
    uint32_t reserved;    /**< 0 */
    const struct pmiwire_profile *server;  /**< what the server can carry; NULL: "any-server" */
    const struct pmiwire_allocator *alloc; /**< NULL: libc. Copied */
};

/**
 * @name What an event answers
 * @{
 */
/** rank, n_ranks, appnum, debugged and (PMI-2) spawner jobid in value are known */
#define PMIWIRE_OP_INIT          1u
#define PMIWIRE_OP_PUT           2u
#define PMIWIRE_OP_GET           3u /**< value */
#define PMIWIRE_OP_FENCE         4u /**< barrier_in or kvs-fence */
#define PMIWIRE_OP_KVSNAME       5u /**< value: my_kvsname or the job's id */
#define PMIWIRE_OP_UNIVERSE_SIZE 6u /**< number */
#define PMIWIRE_OP_APPNUM        7u /**< number */
#define PMIWIRE_OP_JOBATTR       8u /**< value */
#define PMIWIRE_OP_NODEATTR_GET  9u /**< value */
#define PMIWIRE_OP_NODEATTR_PUT  10u
#define PMIWIRE_OP_PUBLISH       11u
#define PMIWIRE_OP_UNPUBLISH     12u
#define PMIWIRE_OP_LOOKUP        13u /**< value: the port */
/** value: child's jobid where the server tells; msg has errcodes */
#define PMIWIRE_OP_SPAWN 14u
/** number: place in the ring; value, value2: left and right neighbour's value */
#define PMIWIRE_OP_RING           15u
#define PMIWIRE_OP_JOB_CONNECT    16u
#define PMIWIRE_OP_JOB_DISCONNECT 17u
/** the request has been sent; a server does not answer it */
#define PMIWIRE_OP_ABORT    18u
#define PMIWIRE_OP_FINALIZE 19u /**< last event of a healthy session */
#define PMIWIRE_OP_RAW      20u /**< answer to pmiwire_client_raw(); see msg */
/** @} */

/** An answer. Views live until the next call on the session. */
struct pmiwire_event {
    uint32_t op; /**< PMIWIRE_OP_* */
    int32_t rc;  /**< 0; PMIWIRE_EPEER when the server refused; PMIWIRE_ENOENT not found; or why the
                    session died */
    int32_t peer_rc; /**< the server's own rc */
    int32_t number;  /**< see the op */
    uint64_t cookie; /**< the caller's, given with the request */
    struct pmiwire_str value;
    struct pmiwire_str value2;
    struct pmiwire_str text; /**< the server's msg or errmsg, if any */
    const struct pmiwire_msg
        *msg; /**< the whole answer, for extra fields; NULL when there was none */
};

/** A session. */
struct pmiwire_client;

/**
 * @brief Bytes of memory that a session with these options needs, alignment 16.
 * @param opts  the options that the session will have
 * @return the size, 0 for bad options
 *
 * MT-Safe. Allocates nothing.
 */
PMIWIRE_API size_t pmiwire_client_size(const struct pmiwire_client_opts *opts);

/**
 * @brief Set up a session in the caller's memory; nothing is allocated afterwards.
 * @param mem   pmiwire_client_size() bytes, 16-byte aligned
 * @param opts  copied
 * @param c     the session, within mem
 * @return 0 or -EINVAL
 *
 * MT-Safe. A session is for one thread at a time, here and below; there is no state that sessions
 * share.
 */
PMIWIRE_API int pmiwire_client_init(void *mem, const struct pmiwire_client_opts *opts,
                                    struct pmiwire_client **c);

/**
 * @brief As pmiwire_client_init(), in memory of opts->alloc or libc. @param opts copied @param c
 *        the session @return 0, -ENOMEM, -EINVAL
 */
PMIWIRE_API int pmiwire_client_create(const struct pmiwire_client_opts *opts,
                                      struct pmiwire_client **c);

/** @brief Free a session made by pmiwire_client_create(). @param c a session, or NULL */
PMIWIRE_API void pmiwire_client_destroy(struct pmiwire_client *c);

/**
 * @name Requests
 *
 * Each queues one request and returns 0, PMIWIRE_ESTATE (before the INIT
 * event, or after finalize), -EAGAIN (PMIWIRE_CLIENT_MAX_PENDING or the output
 * buffer of max_msg_bytes is full: take events first), PMIWIRE_E* (the request
 * cannot be carried; nothing was queued and the session goes on; PMIWIRE_EVERSION
 * when this wire has no such command), or the
 * reason a dead session died. `cookie` comes back in the event.
 * MT-Safe on distinct sessions. No allocation. Strings are copied into the output buffer.
 * @{
 */
/**
 * @brief Begin: initack where needed, init, PMI-1's maxes, appnum and kvsname or PMI-2's fullinit.
 *        One INIT event.
 */
PMIWIRE_API int pmiwire_client_start(struct pmiwire_client *c);
/** @brief Put a pair into our own key-value space; peers may get it after the next fence. */
PMIWIRE_API int pmiwire_client_put(struct pmiwire_client *c, struct pmiwire_str key,
                                   struct pmiwire_str value, uint64_t cookie);
/**
 * @brief Get.
 *
 * On PMI-2 not before the first fence: Hydra 4.0 ends the job at such a get.
 *
 * @param jobid  a key-value space; absent: our own
 * @param srcid  PMI-2's hint which rank put it; -1: none
 */
PMIWIRE_API int pmiwire_client_get(struct pmiwire_client *c, struct pmiwire_str jobid,
                                   int32_t srcid, struct pmiwire_str key, uint64_t cookie);
/**
 * @brief Put, saying who will read it.
 * @param hint  PMIWIRE_HINT_*; said only to a server that has advertised PMIWIRE_EXT_EXCHANGE,
 *              others take it for a plain put
 */
PMIWIRE_API int pmiwire_client_put_hinted(struct pmiwire_client *c, struct pmiwire_str key,
                                          struct pmiwire_str value, uint32_t hint, uint64_t cookie);
/**
 * @brief Get from our own space, from another node if need be.
 * @param srcid  the rank that puts it; -1: unknown
 * @param how    PMIWIRE_GET_*; other than LOCAL refused with PMIWIRE_EVERSION where the server has
 *               not advertised PMIWIRE_EXT_EXCHANGE
 */
PMIWIRE_API int pmiwire_client_get_from(struct pmiwire_client *c, int32_t srcid,
                                        struct pmiwire_str key, uint32_t how, uint64_t cookie);
/**
 * @brief Enter the barrier of the whole job (`barrier_in`, `kvs-fence`); answered when every rank
 *        has.
 */
PMIWIRE_API int pmiwire_client_fence(struct pmiwire_client *c, uint64_t cookie);
/**
 * @brief PMI 1.2's barrier of a group: `WORLD:tag`, `NODE:tag` or `r,r,…:tag`. PMI-1 only, and only
 *        when the server said 1.2.
 */
PMIWIRE_API int pmiwire_client_fence_group(struct pmiwire_client *c, struct pmiwire_str group,
                                           uint64_t cookie);
/** @brief Ask for our key-value space's name (`get_my_kvsname`) or the job's id (`job-getid`). */
PMIWIRE_API int pmiwire_client_kvsname(struct pmiwire_client *c, uint64_t cookie);
/** @brief Ask how many processes the job could grow to; -1 is unknown. */
PMIWIRE_API int pmiwire_client_universe_size(struct pmiwire_client *c, uint64_t cookie);
/** @brief Ask which of the programs of the command line this process runs, from 0. */
PMIWIRE_API int pmiwire_client_appnum(struct pmiwire_client *c, uint64_t cookie);
/**
 * @brief A job attribute such as PMI_process_mapping: info-getjobattr, or a PMI-1 get from our own
 *        space.
 */
PMIWIRE_API int pmiwire_client_jobattr(struct pmiwire_client *c, struct pmiwire_str key,
                                       uint64_t cookie);
/**
 * @brief A node attribute (PMI-2 only). @param wait nonzero: the server answers when it has been
 *        put
 */
PMIWIRE_API int pmiwire_client_nodeattr_get(struct pmiwire_client *c, struct pmiwire_str key,
                                            int wait, uint64_t cookie);
/** @brief Put a node attribute, for the processes of this node (PMI-2 only). */
PMIWIRE_API int pmiwire_client_nodeattr_put(struct pmiwire_client *c, struct pmiwire_str key,
                                            struct pmiwire_str value, uint64_t cookie);
/** @brief Publish a port under a service name. */
PMIWIRE_API int pmiwire_client_publish(struct pmiwire_client *c, struct pmiwire_str service,
                                       struct pmiwire_str port, uint64_t cookie);
/** @brief Withdraw a service name. */
PMIWIRE_API int pmiwire_client_unpublish(struct pmiwire_client *c, struct pmiwire_str service,
                                         uint64_t cookie);
/** @brief Look a service name up. */
PMIWIRE_API int pmiwire_client_lookup(struct pmiwire_client *c, struct pmiwire_str service,
                                      uint64_t cookie);
/**
 * @brief Start further processes as a job of their own. PMI-1 sends one message a sub-command.
 * @param req  each sub-command has a name (else PMIWIRE_EEMPTY) and 1 to 2^31-1 processes, and what
 *             is counted is there (else -EINVAL)
 */
PMIWIRE_API int pmiwire_client_spawn(struct pmiwire_client *c, const struct pmiwire_spawn *req,
                                     uint64_t cookie);
/**
 * @brief Slurm's PMIX_Ring. On PMI-2 another server may die of it (see profile.h); on PMI-1
 *        PMIWIRE_EVERSION where PMIWIRE_EXT_EXCHANGE is not advertised.
 */
PMIWIRE_API int pmiwire_client_ring(struct pmiwire_client *c, struct pmiwire_str value,
                                    uint64_t cookie);
/** @brief Connect to another job (PMI-2 only; no server is known to do more than say yes). */
PMIWIRE_API int pmiwire_client_job_connect(struct pmiwire_client *c, struct pmiwire_str jobid,
                                           uint64_t cookie);
/** @brief Disconnect from another job (PMI-2 only). */
PMIWIRE_API int pmiwire_client_job_disconnect(struct pmiwire_client *c, struct pmiwire_str jobid,
                                              uint64_t cookie);
/**
 * @brief End the whole job.
 * @param exitcode  what the launcher should exit with; Slurm and PMI-2 under Hydra 4.0 exit with
 *                  their own
 * @param message   prose, may be absent; PMI-1 carries no blanks
 *
 * Does not wait for answers: it goes out before every request that has not begun to, and so gets
 * past a fence that is never answered. Its event still comes in order, when it has been sent.
 */
PMIWIRE_API int pmiwire_client_abort(struct pmiwire_client *c, int32_t exitcode,
                                     struct pmiwire_str message, uint64_t cookie);
/** @brief Say goodbye. The session ends with the answer. */
PMIWIRE_API int pmiwire_client_finalize(struct pmiwire_client *c, uint64_t cookie);
/**
 * @brief A message of your own making, such as an extension's.
 * @param msg    one whole message as pmiwire_enc_end() left it
 * @param reply  command id that answers it (command.h), 0: any
 */
PMIWIRE_API int pmiwire_client_raw(struct pmiwire_client *c, struct pmiwire_str msg, uint16_t reply,
                                   uint64_t cookie);
/** @} */

/**
 * @brief Bytes to write now.
 * @param data  points to them, within the session, until the next call
 * @return how many, 0 when none
 */
PMIWIRE_API size_t pmiwire_client_output(struct pmiwire_client *c, const void **data);

/** @brief Of those, n were written. */
PMIWIRE_API void pmiwire_client_sent(struct pmiwire_client *c, size_t n);

/**
 * @brief Bytes that were read.
 * @return 0, or the reason why the session is dead (also told by the remaining events)
 *
 * Any split is fine. Takes all of it: there is room for two messages of max_msg_bytes, so that a
 * read of up to max_msg_bytes fits whenever all events have been taken. If there is none, because
 * they were not, the session grows no buffer but dies with PMIWIRE_ETOOBIG; so take events first.
 */
PMIWIRE_API int pmiwire_client_input(struct pmiwire_client *c, const void *data, size_t n);

/** @brief The server has gone. What was asked is answered with PMIWIRE_EEOF. */
PMIWIRE_API void pmiwire_client_eof(struct pmiwire_client *c);

/**
 * @brief Take the next event.
 * @return 1: *ev is filled in; 0: none now, move bytes; negative: the session
 *         is over and no events are left: PMIWIRE_ESTATE after a finalize, else the reason it died
 */
PMIWIRE_API int pmiwire_client_next(struct pmiwire_client *c, struct pmiwire_event *ev);

/**
 * What the server told at init; zeros before the INIT event. Strings live as long as the session.
 */
struct pmiwire_client_info {
    int32_t rank;
    int32_t n_ranks;
    int32_t appnum;  /**< -1 unknown */
    int32_t version; /**< PMI version the server speaks */
    int32_t subversion;
    int32_t kvsname_max; /**< advertised, bytes with NUL; 0 when the wire does not tell */
    int32_t keylen_max;
    int32_t vallen_max;
    int32_t debugged;
    int32_t spawned;            /**< nonzero: another job started this one */
    struct pmiwire_str kvsname; /**< own key-value space (PMI-1); PMI-2: absent until asked */
};

/** @brief What is known of the job. */
PMIWIRE_API void pmiwire_client_get_info(const struct pmiwire_client *c,
                                         struct pmiwire_client_info *info);

/**
 * @brief What the server advertised at init (extension.h).
 *
 * A server that advertises PMIWIRE_EXT_SERVER is from then on held to the profile "fencepost",
 * whatever opts.server said.
 *
 * @param ext    one that stands in answers to init; others are in the answers that carry them:
 *               pmiwire_msg_ext() on the event's msg
 * @param value  lives as long as the session
 * @return 0 or PMIWIRE_EMISSING
 */
PMIWIRE_API int pmiwire_client_ext(const struct pmiwire_client *c, uint16_t ext,
                                   struct pmiwire_str *value);

/**
 * @brief After a protocol error: what was wrong with the server's message. `diag->code` is 0 when
 *        nothing was.
 */
PMIWIRE_API void pmiwire_client_get_diag(const struct pmiwire_client *c, struct pmiwire_diag *diag);

#ifdef __cplusplus
}
#endif
#endif /* PMIWIRE_CLIENT_H */
