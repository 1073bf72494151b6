/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers: their links to peers, progress and flush. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "worker.h"

#include <errno.h>
#include <unistd.h>

int asymreg_worker_create(struct asymreg_context *context, struct asymreg_worker **out)
{
    struct asymreg_worker *w;
    int rc = asymreg__may_change(context);

    if (rc < 0 || !out)
        return rc < 0 ? rc : -EINVAL;
    w = asymreg__alloc(context->allocator, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->context = context;
    w->t = context->t;
    w->ops = context->t->ops;
    w->last_forgets = UINT64_MAX; /* no last link yet */
    if (context->caps.flags & ASYMREG_CAP_WANT_LOCAL)
        rc = asymreg__reader_create(asymreg__table_index(context->table), &w->own);
    if (rc < 0) {
        asymreg__free(context->allocator, w);
        return rc;
    }
    *out = w;
    return 0;
}

void asymreg_worker_destroy(struct asymreg_worker *worker)
{
    struct asymreg_context *c;

    /* A child would claim slots in which its parent announces operations. */
    if (!worker || worker->context->owner != getpid())
        return;
    c = worker->context;
    asymreg_flush(worker, ASYMREG_ALL_PEERS);
    pthread_mutex_lock(&c->lock); /* no peer is forgotten meanwhile */
    for (struct link *l = worker->used; l; l = l->next) {
        struct asymreg__peer *p = asymreg__peer_at(c, l->pe);
        if (p && p->serial == l->serial) {
            asymreg__reader_destroy(l->reader);
            if (l->slot)
                asymreg__activity_release(l->slot);
        }
    }
    pthread_mutex_unlock(&c->lock);
    asymreg__reader_destroy(worker->own);
    for (struct link *l = worker->used; l; l = l->next)
        asymreg__free(c->allocator, l->bindings);
    for (uint32_t i = 0; i < ASYMREG_MAX_PEERS / PEER_CHUNK; i++)
        asymreg__free(c->allocator, worker->chunks[i]);
    asymreg__free(c->allocator, worker);
}

/* The worker's first use of a peer, or of another peer under the same number. */
static int link_open(struct asymreg_worker *w, uint32_t pe, struct link **out)
{
    struct asymreg__peer *p = asymreg__peer_at(w->context, pe);
    struct link **chunk = &w->chunks[pe / PEER_CHUNK], *l;
    int rc;

    if (!p)
        return ASYMREG_ENOPEER;
    if (atomic_load_explicit(&p->dead, memory_order_relaxed))
        return ASYMREG_EPEER;
    if (!*chunk)
        *chunk = asymreg__alloc(w->context->allocator, PEER_CHUNK * sizeof(struct link));
    if (!*chunk)
        return -ENOMEM;
    l = &(*chunk)[pe % PEER_CHUNK];
    l->serial = 0;
    l->slot = NULL;
    l->pending = 0;
    l->guess = NULL;
    l->guess_base = l->guess_span = 0;
    rc = asymreg__peer_open_table(p);
    if (rc == 0 && p->activity)
        rc = asymreg__activity_claim(p->activity, asymreg__activity_tag(p), &l->slot, &l->fence);
    if (rc < 0)
        return rc;
    rc = asymreg__reader_create(asymreg__cache_index(p->cache), &l->reader);
    if (rc < 0) {
        if (l->slot)
            asymreg__activity_release(l->slot);
        return rc;
    }
    l->fresh = asymreg__cache_freshness(p->cache);
    l->peer = p;
    l->plain = (w->context->caps.flags & ASYMREG_CAP_THREADS) && !w->context->caps.max_op_bytes &&
               !w->own && !l->slot && !p->ask;
    l->watch = (struct asymreg_watch){.retired = l->fresh.retired, .worker = w};
    l->serial = p->serial;
    l->pe = pe;
    if (!l->listed) {
        l->listed = 1;
        l->next = w->used;
        w->used = l;
    }
    *out = l;
    return 0;
}

int asymreg__link_find(struct asymreg_worker *w, uint32_t pe, struct link **out)
{
    uint64_t forgets = atomic_load_explicit(&w->context->forgets, memory_order_acquire);
    struct asymreg__peer *p;
    struct link *l;
    int rc;

    if (pe >= ASYMREG_MAX_PEERS)
        return ASYMREG_ENOPEER;
    p = asymreg__peer_at(w->context, pe);
    l = w->chunks[pe / PEER_CHUNK];
    if (!p || !l || l[pe % PEER_CHUNK].serial != p->serial) {
        rc = link_open(w, pe, &l);
        if (rc < 0)
            return rc;
    } else {
        l = &l[pe % PEER_CHUNK];
    }
    w->last = *out = l;
    w->last_pe = pe;
    w->last_forgets = forgets;
    return atomic_load_explicit(&l->peer->dead, memory_order_relaxed) ? ASYMREG_EPEER : 0;
}

__attribute__((noinline)) static int flush_link(struct link *l)
{
    struct asymreg__peer *p = l->peer;
    int rc;

    if (atomic_load_explicit(&p->dead, memory_order_relaxed))
        return ASYMREG_EPEER;
    rc = asymreg__peer_flush(p);
    l->pending &= ~(uint32_t)PENDING_UNTIL_FLUSH;
    link_retract(l);
    if (atomic_load_explicit(&p->late, memory_order_relaxed)) {
        int late = atomic_exchange_explicit(&p->late, 0, memory_order_acq_rel);
        rc = rc == 0 ? late : rc;
    }
    if (rc == ASYMREG_ESTALE) /* the copy of the table is old: the next operation finds a new one */
        (void)link_note_death(l, asymreg__peer_refresh(p));
    return link_note_death(l, rc);
}

/* Returns the first error. */
__attribute__((noinline)) static int flush_all(struct asymreg_worker *worker)
{
    int first = 0, rc;

    for (struct link *l = worker->used; l; l = l->next) {
        struct asymreg__peer *p = asymreg__peer_at(worker->context, l->pe);
        if (!p || p->serial != l->serial)
            continue; /* forgotten */
        rc = flush_link(l);
        if (first == 0)
            first = rc;
    }
    return first;
}

int asymreg_flush(struct asymreg_worker *worker, uint32_t pe)
{
    struct link *l;
    int rc = link_get(worker, pe, &l);

    if (rc < 0)
        return pe == ASYMREG_ALL_PEERS ? flush_all(worker) : rc;
    /* A transport of loads and stores has nothing in flight, and has just checked that the peer is
     * alive; an operation of a bound handle has not checked that. */
    if (l->known_alive && l->plain && !l->pending && !l->n_bindings &&
        (worker->context->caps.flags & ASYMREG_CAP_DIRECT)) {
        l->known_alive = 0;
        atomic_thread_fence(memory_order_release);
        return 0;
    }
    return flush_link(l);
}

int asymreg_fence(struct asymreg_worker *worker, uint32_t pe)
{
    struct link *l;
    int rc;

    if (!(worker->context->caps.flags & (ASYMREG_CAP_DIRECT | ASYMREG_CAP_ORDERED)))
        return asymreg_flush(worker, pe);
    rc = pe == ASYMREG_ALL_PEERS ? 0 : link_get(worker, pe, &l);
    atomic_thread_fence(memory_order_release);
    return rc;
}

int asymreg_progress(struct asymreg_worker *worker)
{
    struct asymreg_context *c = worker->context;
    int rc;

    asymreg__t_lock(c);
    rc = c->t->ops->progress(c->t);
    asymreg__t_unlock(c);
    return rc;
}
