/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's internals.
 *
 *   worker.c    workers, their links to peers, flush
 *   op.c        put, get and atomics: from an address to its region and key, to the transport
 *   request.c   requests of operations in flight
 *   many.c      the searches of many puts at once
 *   resolve.c   why an access fails
 *   bound.c     bound handles
 */
#ifndef ASYMREG_SRC_WORKER_H
#define ASYMREG_SRC_WORKER_H

#include <asymreg/bound.h>

#include "context.h"

struct binding; /* bound.c */

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
    /* Operations may be in flight: PENDING_UNTIL_FLUSH, and PENDING_REQUEST for each request. */
    uint32_t pending;
    struct asymreg_watch watch; /* of the bound handles; their other data: */
    struct binding *bindings;
    uint32_t n_bindings, max_bindings, free_binding; /* the last: + 1 */
};

enum { PENDING_UNTIL_FLUSH = 1, PENDING_REQUEST = 2 };

struct asymreg_worker {
    struct asymreg_context *context;
    const struct asymreg_transport_ops *ops;
    struct asymreg_transport *t;
    struct link *last; /* the last link used, at this number of forgotten peers */
    uint64_t last_forgets;
    uint32_t last_pe;
    struct link *used;
    struct asymreg__reader *own; /* of the own table; made if the transport needs it */
    struct link *chunks[ASYMREG_MAX_PEERS / PEER_CHUNK];
};

/* worker.c: link_get() for a peer other than the last one. */
int asymreg__link_find(struct asymreg_worker *w, uint32_t pe, struct link **out);

/* Gets the link to a peer. ASYMREG_ENOPEER, ASYMREG_EPEER, or as asymreg__peer_open_table(). */
static inline int link_get(struct asymreg_worker *w, uint32_t pe, struct link **out)
{
    if (pe != w->last_pe ||
        atomic_load_explicit(&w->context->forgets, memory_order_acquire) != w->last_forgets)
        return asymreg__link_find(w, pe, out);
    *out = w->last;
    return atomic_load_explicit(&w->last->peer->dead, memory_order_relaxed) ? ASYMREG_EPEER : 0;
}

/* Notes the peer's death if an operation's result says so. Returns the result. */
static inline int link_note_death(struct link *l, int rc)
{
    if (rc == ASYMREG_EPEER)
        atomic_store_explicit(&l->peer->dead, 1, memory_order_relaxed);
    return rc;
}

/* The result of an access that asymreg__target_find() refused: the mapped table of a killed peer
 * stays as it was. */
static inline int link_refusal(struct link *l, int rc)
{
    return asymreg__peer_alive(l->peer) == ASYMREG_EPEER ? ASYMREG_EPEER : link_note_death(l, rc);
}

/* Announces an operation to an owner that drains, before reading the owner's table; and its end. */
static inline void link_announce(struct link *l)
{
    if (l->slot && !l->pending)
        asymreg__activity_enter(l->slot, ++l->number, l->fence);
}

static inline void link_retract(struct link *l)
{
    if (l->slot && !l->pending)
        asymreg__activity_exit(l->slot);
}

/* Prefetches memory of the segment used last, before the search finds it. */
static inline void link_prefetch(const struct link *l, uint64_t raddr)
{
    if (raddr - l->guess_base < l->guess_span)
        __builtin_prefetch(l->guess + (raddr - l->guess_base), 1);
}

/* Region and key of an access. */
struct target {
    struct asymreg_region region; /* id ASYMREG_ANY: none */
    struct asymreg__key *key;     /* NULL: not made yet */
};

/*
 * op.c: finds region and key for an access. On success it has entered the reader's section, in
 * which neither is freed. Refreshes the peer's table once, if the table has changed or if the
 * access would fail without a refresh; `refreshed`: the caller has done so, having found a region.
 */
int asymreg__target_find(struct link *l, uint64_t raddr, size_t bytes, asymreg_id id, uint32_t need,
                         int refreshed, struct target *t);

/* request.c: counts an operation that is in flight on this link. */
void asymreg__req_begun(struct link *l, struct asymreg_req *req);

/* op.c: as asymreg_put_nb(); the address is probably in the region of slot `word` - 1 of the peer's
 * index, unless that is 0. */
int asymreg__put_near(struct asymreg_worker *worker, uint32_t pe,
                      const struct asymreg_transfer *transfer, uint32_t word);

#endif
