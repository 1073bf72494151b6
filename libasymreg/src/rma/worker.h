/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's internals, and what collectives need of it. */
#ifndef ASYMREG_SRC_WORKER_H
#define ASYMREG_SRC_WORKER_H

#include <asymreg/bound.h>

#include "context.h"

/* Rarely used data of a bound handle. */
struct binding {
    uint64_t addr, bytes;
    asymreg_id id;
    struct asymreg__key *key; /* NULL: free */
    uint32_t next;            /* of a free one: the next one + 1 */
};

/* A worker's way to one peer. */
struct link {
    struct asymreg__peer *peer;
    uint64_t serial; /* of the peer that the rest belongs to */
    struct asymreg__reader *reader;
    struct link *next; /* of those in use */
    uint32_t pe;
    int listed;
    int known_alive; /* an operation has succeeded since the last flush */
    int plain; /* no lock, pieces, announcement or look at the table stands between an operation and
                  the transport */
    /* The segment used last, if it is mapped (if not: an empty one): a guess, which may have gone.
     * */
    uint64_t guess_base, guess_span;
    const char *guess;
    struct asymreg__freshness fresh;     /* of the peer's table */
    struct asymreg__activity_slot *slot; /* with a peer that drains */
    uint64_t number;                     /* of operations announced there */
    uint32_t fence;
    uint32_t pending;           /* operations may go on until a flush */
    struct asymreg_watch watch; /* of the handles bound, and what else is known of them */
    struct binding *bindings;
    uint32_t n_bindings, max_bindings, free_binding; /* the last: + 1 */
};

struct asymreg_worker {
    struct asymreg_context *context;
    const struct asymreg_transport_ops *ops;
    struct asymreg_transport *t;
    struct link
        *last; /* the link that was wanted last, when the context had forgotten this many peers */
    uint64_t last_forgets;
    uint32_t last_pe;
    struct link *used;
    struct asymreg__reader *own; /* of the own table; made when the transport wants it */
    struct asymreg__kept *kept;  /* memory that transports may still use, until the worker goes */
    int64_t patience_ns; /* for how long an operation waits for a peer's table; 0: without limit */
    int flush_error;     /* the first one of a flush of all peers that has not ended */
    struct link *chunks[ASYMREG_MAX_PEERS / PEER_CHUNK];
};

/* The head of memory that is given to a worker to keep. */
struct asymreg__kept {
    struct asymreg__kept *next;
};

/* As asymreg_put_nb() and asymreg_get_nb(); the address is probably in the region of slot
 * `word` - 1 of the peer's index, unless that is 0. */
int asymreg__put_near(struct asymreg_worker *worker, uint32_t pe,
                      const struct asymreg_transfer *transfer, uint32_t word);
int asymreg__get_near(struct asymreg_worker *worker, uint32_t pe,
                      const struct asymreg_transfer *transfer, uint32_t word);
/* A worker's way to a peer whose memory it reaches without a lock or a network; NULL: another. */
struct link *asymreg__plain_link(struct asymreg_worker *worker, uint32_t pe);

/* As asymreg_flush(), without waiting: ASYMREG_PENDING. Progresses. */
int asymreg__try_flush(struct asymreg_worker *worker, uint32_t pe);

#endif
