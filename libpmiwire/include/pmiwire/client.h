/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file client.h
 * @brief The client's side of a PMI conversation, on either wire, without I/O.
 *
 * One *session* is one process's connection to its server. You make requests, move the bytes, and
 * take events. Each accepted request gets exactly one event, in the order of the requests. The
 * first event is INIT's. If the session dies, all requests that wait for an answer get an event
 * with the reason.
 *
 * Requests queue up. The session sends a request only when the request before it has been answered,
 * because some servers do not serve requests in order:
 *  - Slurm's PMI-1 server takes all bytes of one read() for one command, and so loses the commands
 *    behind the first.
 *  - Hydra answers a put behind a barrier before the barrier.
 *
 * A server of this project answers in order. With PMIWIRE_CLIENT_PIPELINE_KNOWN the session sends
 * requests to such a server at once, within a window.
 *
 * If the server's wire cannot carry a request's values, the request fails at once, and the session
 * sends no byte of it. Values may hold any bytes if the server has advertised
 * PMIWIRE_EXT_BYTES and the session has PMIWIRE_CLIENT_EXTENSIONS.
 *
 *     pmiwire_client_create(&opts, &c);                            // queues init
 *     for (;;) {
 *         int rc = pmiwire_client_next(c, &ev, NULL);              // an event, or none, or the end
 *         if (rc > 0) {
 *             …ev.op, ev.rc, ev.value; put, fence, get, finalize…
 *             continue;
 *         }
 *         if (rc < 0) break;                                       // rc: why
 *         n = pmiwire_client_output(c, &p);                        // bytes to write
 *         if (n) {
 *             ssize_t w = write(fd, p, n);                         // (a loop over EINTR left out)
 *             if (w < 0) pmiwire_client_eof(c);
 *             else pmiwire_client_sent(c, w);
 *             continue;
 *         }
 *         n = read(fd, buf, sizeof buf);                           // wait for the server
 *         if (n <= 0) pmiwire_client_eof(c);
 *         else pmiwire_client_input(c, buf, n);
 *     }
 *     pmiwire_client_destroy(c);
 *
 * @threads A session is for one thread at a time. Sessions share no state.
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

/** A session. */
struct pmiwire_client;

/**
 * Send requests without waiting for earlier answers. Set this flag only for a server that is known
 * to answer in order.
 *
 * The window: behind the oldest unanswered request, at most max_msg_bytes of whole requests are in
 * flight. A server of this project cuts off a client that sends more than twice the server's
 * max_msg_bytes behind a request whose answer is delayed.
 */
#define PMIWIRE_CLIENT_PIPELINE 1u
/**
 * Send PMIWIRE_EXT_CLIENT at init. This field tells a server of this project that the client knows
 * the extensions (extension.h). All other servers that were measured skip the field.
 */
#define PMIWIRE_CLIENT_EXTENSIONS 2u
/** As PMIWIRE_CLIENT_PIPELINE, once an answer has advertised PMIWIRE_EXT_SERVER. */
#define PMIWIRE_CLIENT_PIPELINE_KNOWN 4u

/** Most requests of a session that wait for their event; one more fails with -EAGAIN. */
#define PMIWIRE_CLIENT_MAX_PENDING 64u

/** Options of a session. Zero all, set `size`, then the members that differ from the default. */
struct pmiwire_client_opts {
    size_t size;    /**< sizeof(struct pmiwire_client_opts) */
    uint32_t wire;  /**< PMIWIRE_V1 (default) or PMIWIRE_V2 */
    uint32_t flags; /**< PMIWIRE_CLIENT_* */
    /** PMI_RANK. Must be right for PMI-1 over PMI_FD, where no message carries the rank */
    int32_t rank;
    int32_t n_ranks; /**< PMI_SIZE; as for rank */
    /** nonzero: PMI_PORT mode. The session first sends pmiid (`initack`, or PMI-2's `pmirank`) */
    int32_t has_pmiid;
    int32_t pmiid;           /**< PMI_ID */
    const char *jobid;       /**< PMI_JOBID, sent in PMI-2's fullinit; may be NULL. Copied */
    uint32_t max_subversion; /**< PMI-1: highest x of PMI 1.x to ask for; 0 means 1 */
    uint32_t threaded;       /**< PMI-2: sent in fullinit */
    /** longest message in either direction, bytes: from 256 plus the length of jobid up to 2^30; 0
     * means PMIWIRE_DEFAULT_MAX_MSG_BYTES */
    size_t max_msg_bytes;
    uint32_t max_fields;                  /**< most fields of one answer, 16 to 2^20; 0 means 256 */
    uint32_t reserved;                    /**< 0 */
    const struct pmiwire_profile *server; /**< the server's limits; NULL: "any-server" */
    const struct pmiwire_allocator *allocator; /**< NULL: libc */
};

/**
 * @brief Make a session, and queue its init.
 *
 * On PMI-1 init consists of `initack` (in PMI_PORT mode), `init`, and requests for maxes, appnum
 * and kvsname. On PMI-2 it consists of `init` and `fullinit`. All of it gets one INIT event.
 * @param opts  copied
 * @param c     the session
 * @return 0, -ENOMEM, -EINVAL, or PMIWIRE_E*: the wire cannot carry opts->jobid
 *
 * @allocates About 4 max_msg_bytes, once. No other call on a session allocates.
 */
PMIWIRE_API int pmiwire_client_create(const struct pmiwire_client_opts *opts,
                                      struct pmiwire_client **c);

/** @brief Free a session. @param c a session, or NULL */
PMIWIRE_API void pmiwire_client_destroy(struct pmiwire_client *c);

/**
 * @name Requests
 *
 * Each call queues one request and copies its strings. `cookie` is yours: the event of the request
 * has it. The calls return
 *   - 0: the request is queued
 *   - PMIWIRE_ESTATE: the INIT event has not come yet, or finalize has been called
 *   - -EAGAIN: PMIWIRE_CLIENT_MAX_PENDING requests are queued, or the output buffer of
 *     max_msg_bytes is full. Move bytes and take events first
 *   - PMIWIRE_EVERSION: this wire or this server has no such command
 *   - another PMIWIRE_E* or -EINVAL: the wire cannot carry the request, or an argument is wrong
 *   - if the session is dead, the reason
 *
 * After an error nothing is queued, and a session that was alive continues.
 * @{
 */
/**
 * @brief Put a pair into our own key-value space. Peers may get it after the next fence.
 * @param c       the session
 * @param key     its key, 1 byte or more
 * @param value   its value. The server's limit counts these bytes, not their encoded form
 * @param hint    who will read the pair, PMIWIRE_HINT_*. Only a server that has advertised
 *                PMIWIRE_EXT_EXCHANGE gets the hint. For other servers this is a plain put
 * @param cookie  for the event
 */
PMIWIRE_API int pmiwire_client_put(struct pmiwire_client *c, struct pmiwire_str key,
                                   struct pmiwire_str value, uint32_t hint, uint64_t cookie);
/**
 * @brief Get a value.
 *
 * On PMI-2, do not get before the first fence: Hydra 4.0 ends the job at such a get.
 *
 * @param c       the session
 * @param jobid   a key-value space; absent: our own
 * @param srcid   the rank that puts the key; -1: unknown. A PMI-2 request always has it. A PMI-1
 *                request has it only if `how` is PMIWIRE_GET_REMOTE or PMIWIRE_GET_WAIT
 * @param key     its key
 * @param how     PMIWIRE_GET_*. REMOTE and WAIT fail with -EINVAL for a key-value space that is not
 *                our own, and with PMIWIRE_EVERSION if the server has not advertised
 *                PMIWIRE_EXT_EXCHANGE
 * @param cookie  for the event
 */
PMIWIRE_API int pmiwire_client_get(struct pmiwire_client *c, struct pmiwire_str jobid,
                                   int32_t srcid, struct pmiwire_str key, uint32_t how,
                                   uint64_t cookie);
/**
 * @brief Enter a barrier (`barrier_in`, `kvs-fence`). The answer comes when every rank has entered.
 * @param c       the session
 * @param group   absent: the whole job. Otherwise a group of PMI 1.2: `WORLD:tag`, `NODE:tag` or
 *                `r,r,…:tag`. With a group the call fails with PMIWIRE_EVERSION on PMI-2, and on
 *                PMI-1 if the server has not announced PMI 1.2
 * @param cookie  for the event
 */
PMIWIRE_API int pmiwire_client_fence(struct pmiwire_client *c, struct pmiwire_str group,
                                     uint64_t cookie);
/**
 * @brief Enter an Allgather. The answer comes when every rank has entered.
 *
 * If the values are in shared memory, the message of the event (PMIWIRE_OP_GATHER) has
 * PMIWIRE_EXT_ARRAY. Otherwise get each value with pmiwire_client_get(): the value of rank R in
 * Allgather K has the key `-allgather-K-R`. All ranks count the Allgathers from 0. The server keeps
 * the values of the last complete Allgather.
 *
 * @param c       the session
 * @param value   this rank's value: any bytes, not empty. It is percent-encoded on the wire
 * @param cookie  for the event
 * @return as all requests; PMIWIRE_EEMPTY; PMIWIRE_EVERSION: the server has not advertised
 *         PMIWIRE_EXT_EXCHANGE. In that case put a key of your own, fence, and get every rank's key
 */
PMIWIRE_API int pmiwire_client_gather(struct pmiwire_client *c, struct pmiwire_str value,
                                      uint64_t cookie);
/** @brief Finalize. The session ends when the answer has come. */
PMIWIRE_API int pmiwire_client_finalize(struct pmiwire_client *c, uint64_t cookie);
/** @} */

/** An answer. Views live until the next call on the session. */
struct pmiwire_event {
    uint32_t op; /**< PMIWIRE_OP_* */
    /** 0; PMIWIRE_EPEER: the server refused; PMIWIRE_ENOENT: not found; or why the session died */
    int32_t rc;
    int32_t peer_rc; /**< rc in the server's answer */
    int32_t number;  /**< meaning: see PMIWIRE_OP_* */
    uint64_t cookie; /**< yours, given with the request */
    struct pmiwire_str value;
    struct pmiwire_str value2;
    struct pmiwire_str text; /**< the server's msg or errmsg, if any */
    /** the whole answer, for reading its extra fields; NULL: there is none */
    const struct pmiwire_msg *msg;
};

/**
 * @brief Take the next event.
 * @param c    the session
 * @param ev   filled in if the call returns 1
 * @param err  on failure: the error in the server's message; may be NULL
 * @return 1: *ev is filled in; 0: no event now: move bytes; negative: the session is over, and no
 *         event is left. The code is PMIWIRE_ESTATE after finalize, otherwise the reason why the
 *         session died
 */
PMIWIRE_API int pmiwire_client_next(struct pmiwire_client *c, struct pmiwire_event *ev,
                                    struct pmiwire_error *err);

/**
 * @brief Get the bytes to write now.
 * @param c     the session
 * @param data  set to the bytes. They belong to the session, and are valid until the next call
 * @return their number; 0: none
 */
PMIWIRE_API size_t pmiwire_client_output(struct pmiwire_client *c, const void **data);

/** @brief Report that n of the bytes from pmiwire_client_output() were written. */
PMIWIRE_API void pmiwire_client_sent(struct pmiwire_client *c, size_t n);

/**
 * @brief Hand over bytes that were read, split anywhere.
 * @return 0, or the reason why the session is dead (the remaining events have it too)
 *
 * The call takes all bytes, but the session has room for only 2 * max_msg_bytes. If the bytes do
 * not fit, the session dies with PMIWIRE_ETOOBIG. To avoid this, take all events before each call,
 * and hand over at most max_msg_bytes.
 */
PMIWIRE_API int pmiwire_client_input(struct pmiwire_client *c, const void *data, size_t n);

/**
 * @brief Report that the connection has ended. Requests without an answer get events with
 *        PMIWIRE_EEOF.
 */
PMIWIRE_API void pmiwire_client_eof(struct pmiwire_client *c);

/**
 * @name Operations that events answer
 * Operations marked "request" are made with pmiwire_client_request().
 * @{
 */
/** after this event pmiwire_client_query() has the server's answers. value: the spawner's jobid
 * (PMI-2) */
#define PMIWIRE_OP_INIT    1u
#define PMIWIRE_OP_PUT     2u
#define PMIWIRE_OP_GET     3u /**< value */
#define PMIWIRE_OP_FENCE   4u
#define PMIWIRE_OP_KVSNAME 5u /**< request: our key-value space or the job's id, in value */
/** request: how many processes the job could have, in number; -1: unknown */
#define PMIWIRE_OP_UNIVERSE_SIZE 6u
#define PMIWIRE_OP_APPNUM        7u /**< request: our program's index (appnum), in number */
/** request: the value of a job attribute such as PMI_process_mapping, in value. On PMI-1 the
 * session sends a get from the job's own key-value space */
#define PMIWIRE_OP_JOBATTR 8u
/** request, PMI-2 only: value of a node attribute */
#define PMIWIRE_OP_NODEATTR_GET 9u
#define PMIWIRE_OP_NODEATTR_PUT 10u
#define PMIWIRE_OP_PUBLISH      11u
#define PMIWIRE_OP_UNPUBLISH    12u /**< request: withdraw a service name */
#define PMIWIRE_OP_LOOKUP       13u /**< request: a service's port, in value */
/** value: the children's jobid if the server sends it. msg has the error codes of the processes */
#define PMIWIRE_OP_SPAWN 14u
/** number: place in the ring; value, value2: left and right neighbour's value */
#define PMIWIRE_OP_RING 15u
/** request, PMI-2 only: connect to a job. The servers that we know only answer it, and do
 * nothing */
#define PMIWIRE_OP_JOB_CONNECT    16u
#define PMIWIRE_OP_JOB_DISCONNECT 17u /**< request, PMI-2 only */
#define PMIWIRE_OP_ABORT          18u /**< the request has been sent; a server does not answer it */
#define PMIWIRE_OP_FINALIZE       19u /**< last event of a healthy session */
/** request, PMI-2 only: as PMIWIRE_OP_NODEATTR_GET, but the server waits with its answer until the
 * attribute has been put */
#define PMIWIRE_OP_NODEATTR_WAIT 20u
#define PMIWIRE_OP_GATHER        21u /**< msg: PMIWIRE_EXT_ARRAY, if the server has an array */
/** @} */

/**
 * @name Further requests, with the results listed under "Requests"
 * @{
 */
/**
 * @brief Make a request without a value.
 * @param c       the session
 * @param op      a PMIWIRE_OP_* marked "request"; others fail with -EINVAL
 * @param about   the attribute's key, the service name or the job id, as op needs it; absent if op
 *                needs none
 * @param cookie  for the event
 */
PMIWIRE_API int pmiwire_client_request(struct pmiwire_client *c, uint32_t op,
                                       struct pmiwire_str about, uint64_t cookie);
/** @brief Put a node attribute, for the processes of this node (PMI-2 only). */
PMIWIRE_API int pmiwire_client_nodeattr_put(struct pmiwire_client *c, struct pmiwire_str key,
                                            struct pmiwire_str value, uint64_t cookie);
/** @brief Publish a port under a service name. */
PMIWIRE_API int pmiwire_client_publish(struct pmiwire_client *c, struct pmiwire_str service,
                                       struct pmiwire_str port, uint64_t cookie);
/**
 * @brief Start further processes as a job of their own. PMI-1 sends one message for each
 *        sub-command.
 * @param c       the session
 * @param req     one sub-command or more (else -EINVAL). Each has a name (else PMIWIRE_EEMPTY), 1
 *                to 2^31-1 processes (else -EINVAL), and arrays that are not NULL where their count
 *                is not 0 (else -EINVAL)
 * @param cookie  for the event
 */
PMIWIRE_API int pmiwire_client_spawn(struct pmiwire_client *c, const struct pmiwire_spawn *req,
                                     uint64_t cookie);
/**
 * @brief Enter a Ring, Slurm's PMIX_Ring: each rank gets the values of its two neighbours.
 *
 * On PMI-2 the request can crash servers other than Slurm's and this project's. On PMI-1 the call
 * fails with PMIWIRE_EVERSION unless the server advertises PMIWIRE_EXT_EXCHANGE.
 */
PMIWIRE_API int pmiwire_client_ring(struct pmiwire_client *c, struct pmiwire_str value,
                                    uint64_t cookie);
/**
 * @brief End the whole job.
 *
 * The session sends the abort ahead of every request of which it has not sent a byte. So the abort
 * does not wait for the answer to an earlier request, such as a fence. The abort's event comes
 * after the events of all earlier requests. If the server may never answer one of these, do not
 * wait for the abort's event: the abort is sent once you have reported its bytes to
 * pmiwire_client_sent().
 *
 * @param c         the session
 * @param exitcode  exit code for the launcher. Slurm, and Hydra 4.0 with PMI-2, ignore it and use
 *                  one of their own
 * @param message   prose; may be absent; on PMI-1 without blanks
 * @param cookie    for the event
 */
PMIWIRE_API int pmiwire_client_abort(struct pmiwire_client *c, int32_t exitcode,
                                     struct pmiwire_str message, uint64_t cookie);
/** @} */

/**
 * The server's answers at init. Before the INIT event all members are 0. Strings live as long as
 * the session.
 */
struct pmiwire_info_client {
    int32_t rank;
    int32_t n_ranks;
    int32_t appnum;  /**< -1 unknown */
    int32_t version; /**< PMI version the server speaks */
    int32_t subversion;
    int32_t kvsname_max; /**< advertised, bytes with NUL; 0: the wire has no such field */
    int32_t keylen_max;
    int32_t vallen_max;
    int32_t debugged;
    int32_t spawned;            /**< nonzero: another job started this one */
    struct pmiwire_str kvsname; /**< own key-value space; PMI-2: absent until requested */
    /**
     * the values that the server has advertised, indexed by PMIWIRE_EXT_*; absent: the server has
     * not advertised the extension. With PMIWIRE_EXT_SERVER advertised, the session uses the
     * profile "fencepost" instead of opts.server
     */
    struct pmiwire_str ext[PMIWIRE_EXT_COUNT_];
};

/** @brief Get the server's answers at init. @param c the session @param info filled in */
PMIWIRE_API void pmiwire_client_query(const struct pmiwire_client *c,
                                      struct pmiwire_info_client *info);

#ifdef __cplusplus
}
#endif
#endif /* PMIWIRE_CLIENT_H */
