/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's internals, and its functions for collectives. */
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
    uint64_t serial; /* of the peer to which the other members belong */
    struct asymreg__reader *reader;
    struct link *next; /* of those in use */
    uint32_t pe;
    int listed;
    int known_alive; /* an operation has succeeded since the last flush */
    int plain;       /* an operation needs no lock, pieces, announcement or check of the table */
    /* The last segment used, if it is mapped (else an empty one): a guess, which may be stale. */
    uint64_t guess_base, guess_span;
    const char *guess;
    struct asymreg__freshness fresh;     /* of the peer's table */
    struct asymreg__activity_slot *slot; /* with a peer that drains */
    uint64_t number;                     /* of operations announced there */
    uint32_t fence;
    uint32_t pending;           /* operations may be in flight until a flush */
    struct asymreg_watch watch; /* of the bound handles; their other data: */
    struct binding *bindings;
    uint32_t n_bindings, max_bindings, free_binding; /* the last: + 1 */
};

struct asymreg_worker {
    struct asymreg_context *context;
    const struct asymreg_transport_ops *ops;
    struct asymreg_transport *t;
    struct link *last; /* the last link used, at this number of forgotten peers */
    uint64_t last_forgets;
    uint32_t last_pe;
    struct link *used;
    struct asymreg__reader *own; /* of the own table; made if the transport needs it */
    struct asymreg__kept *kept;  /* memory that transports may use until the worker is destroyed */
    int64_t patience_ns; /* longest wait of an operation for a peer's table; 0: without limit */
    int flush_error;     /* the first one of a flush of all peers that has not ended */
    struct link *chunks[ASYMREG_MAX_PEERS / PEER_CHUNK];
};

/* The head of memory that a worker keeps. */
struct asymreg__kept {
    struct asymreg__kept *next;
};

/* As asymreg_put_nb() and asymreg_get_nb(); the address is probably in the region of slot
 * `word` - 1 of the peer's index, unless that is 0. */
int asymreg__put_near(struct asymreg_worker *worker, uint32_t pe,
                      const struct asymreg_transfer *transfer, uint32_t word);
int asymreg__get_near(struct asymreg_worker *worker, uint32_t pe,
                      const struct asymreg_transfer *transfer, uint32_t word);
/* Returns a worker's link to a peer whose memory it reaches without a lock or a network; else
 * NULL. */
struct link *asymreg__plain_link(struct asymreg_worker *worker, uint32_t pe);

/* As asymreg_flush(), without waiting: ASYMREG_PENDING. Progresses. */
int asymreg__try_flush(struct asymreg_worker *worker, uint32_t pe);

#endif
