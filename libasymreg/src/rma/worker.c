/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations: find the region, check it, find the key, pass the operation to the transport. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "worker.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#define MAX_TRIES 16

int asymreg_worker_create(struct asymreg_context *context, struct asymreg_worker **worker)
{
    struct asymreg_worker *w;
    int rc = asymreg__may_change(context);

    if (rc < 0 || !worker)
        return rc < 0 ? rc : -EINVAL;
    if (!(w = asymreg__alloc(context->allocator, sizeof(*w))))
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
    *worker = w;
    return 0;
}

void asymreg_worker_destroy(struct asymreg_worker *worker)
{
    struct asymreg_context *c;
    struct asymreg__peer *p;

    if (!worker || worker->context->owner != getpid()) /* a child would claim slots in which its
                                                          parent announces operations */
        return;
    c = worker->context;
    asymreg_flush(worker, ASYMREG_ALL_PEERS);
    pthread_mutex_lock(&c->lock); /* no peer is forgotten meanwhile */
    for (struct link *l = worker->used; l; l = l->next)
        if ((p = asymreg__peer_at(c, l->pe)) && p->serial == l->serial) {
            asymreg__reader_destroy(l->reader);
            if (l->slot)
                asymreg__activity_release(l->slot);
        }
    pthread_mutex_unlock(&c->lock);
    asymreg__reader_destroy(worker->own);
    for (struct link *l = worker->used; l; l = l->next)
        asymreg__free(c->allocator, l->bindings);
    for (struct asymreg__kept *k = worker->kept, *next; k; k = next) {
        next = k->next;
        asymreg__free(c->allocator, k);
    }
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
    if (__atomic_load_n(&p->dead, __ATOMIC_RELAXED))
        return ASYMREG_EPEER;
    if (!*chunk &&
        !(*chunk = asymreg__alloc(w->context->allocator, PEER_CHUNK * sizeof(struct link))))
        return -ENOMEM;
    l = &(*chunk)[pe % PEER_CHUNK];
    l->serial = 0;
    l->slot = NULL;
    l->pending = 0;
    l->guess = NULL;
    l->guess_base = l->guess_span = 0;
    if ((rc = asymreg__peer_open_table(p, w->patience_ns)) < 0)
        return rc;
    if (p->activity && (rc = asymreg__activity_claim(p->activity, asymreg__activity_tag(p),
                                                     &l->slot, &l->fence)) < 0)
        return rc;
    if ((rc = asymreg__reader_create(asymreg__cache_index(p->cache), &l->reader)) < 0) {
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

static int link_find(struct asymreg_worker *w, uint32_t pe, struct link **out)
{
    uint64_t forgets = __atomic_load_n(&w->context->forgets, __ATOMIC_ACQUIRE);
    struct asymreg__peer *p;
    struct link *l;
    int rc;

    if (pe >= ASYMREG_MAX_PEERS)
        return ASYMREG_ENOPEER;
    p = asymreg__peer_at(w->context, pe);
    l = w->chunks[pe / PEER_CHUNK];
    if (!p || !l || l[pe % PEER_CHUNK].serial != p->serial) {
        if ((rc = link_open(w, pe, &l)) < 0)
            return rc;
    } else {
        l = &l[pe % PEER_CHUNK];
    }
    w->last = *out = l;
    w->last_pe = pe;
    w->last_forgets = forgets;
    return __atomic_load_n(&l->peer->dead, __ATOMIC_RELAXED) ? ASYMREG_EPEER : 0;
}

static inline int link_get(struct asymreg_worker *w, uint32_t pe, struct link **out)
{
    if (pe != w->last_pe ||
        __atomic_load_n(&w->context->forgets, __ATOMIC_ACQUIRE) != w->last_forgets)
        return link_find(w, pe, out);
    *out = w->last;
    return __atomic_load_n(&w->last->peer->dead, __ATOMIC_RELAXED) ? ASYMREG_EPEER : 0;
}

/* Announces an operation to an owner that drains, before reading the owner's table; and its end. */
static inline void announce(struct link *l)
{
    if (l->slot && !l->pending)
        asymreg__activity_enter(l->slot, ++l->number, l->fence);
}

static inline void retract(struct link *l)
{
    if (l->slot && !l->pending)
        asymreg__activity_exit(l->slot);
}

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Region and key of an operation. */
struct target {
    struct asymreg_region region; /* id ASYMREG_ANY: none */
    struct asymreg__key *key;     /* NULL: not made yet */
};

/* Returns 0 if this region permits the access, else the error. */
static inline int judge(const struct asymreg_region *r, uint64_t raddr, size_t bytes, asymreg_id id,
                        uint32_t need)
{
    if (!r)
        return ASYMREG_ENOREGION;
    if (id != ASYMREG_ANY && r->id != id)
        return ASYMREG_ESTALE;
    if (bytes && r->last - raddr < bytes - 1)
        return ASYMREG_ERANGE;
    if (need & ~r->prot)
        return ASYMREG_EACCES;
    return 0;
}

/* Returns the key of a region whose segment has been used; NULL: begin() must find out more. */
ALWAYS_INLINE struct asymreg__key *known_key(struct asymreg__peer *p,
                                             const struct asymreg_region *r)
{
    uint32_t n = (uint32_t)r->value;
    struct asymreg__key *key =
        n < p->n_keys ? __atomic_load_n(&p->keys[n], __ATOMIC_ACQUIRE) : NULL;

    return key && key->value == r->value && r->start >= key->base && r->last <= key->last ? key
                                                                                          : NULL;
}

/*
 * Gets the key for an access, if it exists (NULL: it must be made), and, if `seen` is not NULL, the
 * region (id ASYMREG_ANY: none); inside a section. Returns judge()'s result. It searches only if no
 * slot is known: an identifier has the slot, a batch may have found one (`word`: slot + 1, or 0),
 * and a hint names a probable one.
 */
ALWAYS_INLINE int look_up(struct link *l, uint64_t raddr, size_t bytes, asymreg_id id,
                          uint32_t need, uint32_t word, struct asymreg__key **key,
                          struct asymreg_region *seen)
{
    static const struct asymreg_region none = {.id = ASYMREG_ANY};
    struct asymreg_region region;
    const struct asymreg_region *found;
    int rc;

    *key = NULL;
    if (word ? asymreg__slot_read(l->reader->index, word - 1, raddr, &region)
             : asymreg__probable(l->reader->index, raddr, id, &region)) {
        if ((rc = judge(&region, raddr, bytes, id, need)) == 0)
            *key = known_key(l->peer, &region);
        if (seen)
            *seen = region;
        return rc;
    }
    found = asymreg__index_lookup(l->reader, raddr);
    if ((rc = judge(found, raddr, bytes, id, need)) == 0)
        *key = known_key(l->peer, found);
    if (seen)
        *seen = found ? *found : none;
    return rc;
}

/* The error of an access that look_up() refused, with an up-to-date table. */
static int refuse(struct link *l, asymreg_id id, int had, int rc)
{
    int elsewhere = asymreg__index_lives(l->reader, id); /* the named registration exists */

    asymreg__reader_exit(l->reader);
    if (elsewhere && (rc == ASYMREG_ENOREGION || rc == ASYMREG_ESTALE))
        return ASYMREG_ERANGE;
    return rc == ASYMREG_ENOREGION && (id != ASYMREG_ANY || had) ? ASYMREG_ESTALE : rc;
}

/*
 * Finds region and key for an access. On success it has entered the reader's section, in which
 * neither is freed. Refreshes the peer's table once, if the table has changed or if the access
 * would fail without a refresh.
 */
static int begin(struct link *l, uint64_t raddr, size_t bytes, asymreg_id id, uint32_t need,
                 int refreshed, struct target *t)
{
    struct asymreg__peer *p = l->peer;
    int64_t patience_ns = l->watch.worker->patience_ns;
    int had = refreshed; /* a region was known there: a caller that has refreshed had found one */
    int rc;

    if (bytes && raddr + bytes - 1 < raddr)
        return ASYMREG_EOVERFLOW;
    for (int i = 0; i < MAX_TRIES; i++) {
        asymreg__reader_enter(l->reader);
        rc = look_up(l, raddr, bytes, id, need, 0, &t->key, &t->region);
        had |= t->region.id != ASYMREG_ANY;
        if (!refreshed && (rc < 0 || asymreg__stale(&l->fresh) || p->ask)) {
            asymreg__reader_exit(l->reader);
            refreshed = 1;
            if ((rc = asymreg__peer_refresh(p, patience_ns)) < 0)
                return rc;
            continue;
        }
        if (rc < 0)
            return refuse(l, id, had, rc);
        if (t->key) {
            l->guess = t->key->mapped;
            l->guess_base = l->guess ? t->key->base : 0;
            l->guess_span = l->guess ? t->key->last - t->key->base : 0;
            return 0;
        }
        asymreg__reader_exit(l->reader);
        rc = asymreg__peer_key(p, &t->region, patience_ns, NULL);
        if (rc == ASYMREG_ESTALE) /* the segment went after the table was read */
            rc = asymreg__peer_refresh(p, patience_ns);
        if (rc == ASYMREG_EPEER)
            __atomic_store_n(&p->dead, 1, __ATOMIC_RELAXED);
        if (rc < 0)
            return rc;
    }
    return ASYMREG_EBUSY;
}

enum { PUT, GET };

/* The parts of any operation. */
struct transfer {
    int what;
    int blocking;
    char *here;
    uint64_t operand, compare, *result; /* of an atomic */
};
#define ATOMIC 16

static int issue(struct asymreg_worker *w, struct link *l, const struct target *t, uint64_t raddr,
                 size_t bytes, struct asymreg_mem *mem, const struct transfer *x,
                 struct asymreg_op *op)
{
    struct asymreg_context *c = w->context;
    const struct asymreg_transport_ops *ops = c->t->ops;
    int rc;

    asymreg__t_lock(c);
    if (x->what == PUT)
        rc = ops->put(c->t, l->peer->ep, t->key->rkey, raddr, x->here, bytes, mem, op);
    else if (x->what == GET)
        rc = ops->get(c->t, l->peer->ep, t->key->rkey, raddr, x->here, bytes, mem, op);
    else
        rc = ops->amo(c->t, l->peer->ep, t->key->rkey, raddr, (uint32_t)(x->what - ATOMIC),
                      (uint32_t)bytes, x->operand, x->compare, x->result, op);
    asymreg__t_unlock(c);
    return rc;
}

/* Continues after `issue` has returned rc: retries while a queue is full, and waits for completion
 * if asked to. */
static int carry_on(struct asymreg_worker *w, struct link *l, const struct target *t,
                    uint64_t raddr, size_t bytes, struct asymreg_mem *mem, const struct transfer *x,
                    struct asymreg_op *use, int rc)
{
    struct asymreg_context *c = w->context;
    int64_t until = rc == -EAGAIN && w->patience_ns ? asymreg__now_ns() + w->patience_ns : 0;
    int moved;

    while (rc == -EAGAIN || (rc == ASYMREG_PENDING && use &&
                             __atomic_load_n(&use->status, __ATOMIC_ACQUIRE) == ASYMREG_PENDING)) {
        asymreg__t_lock(c);
        moved = c->t->ops->progress(c->t);
        if (rc == -EAGAIN && c->t->ops->peer_alive(c->t, l->peer->ep) < 0)
            moved = ASYMREG_EPEER;
        asymreg__t_unlock(c);
        if (rc == -EAGAIN) {
            if (moved == ASYMREG_EPEER)
                return moved;
            if (until && asymreg__now_ns() > until)
                return ASYMREG_ETIMEDOUT;
            rc = issue(w, l, t, raddr, bytes, mem, x, use);
        }
        if (moved == 0)
            sched_yield();
    }
    if (rc == ASYMREG_PENDING) {
        rc = use ? use->status : 0;
        l->pending |= !use;
    }
    return rc;
}

static int carry_out(struct asymreg_worker *w, struct link *l, const struct target *t,
                     uint64_t raddr, size_t bytes, struct asymreg_mem *mem,
                     const struct transfer *x)
{
    struct asymreg_op op = {.status = 0}, *use = x->blocking ? &op : NULL;

    return carry_on(w, l, t, raddr, bytes, mem, x, use, issue(w, l, t, raddr, bytes, mem, x, use));
}

/* Returns this side's registration of a buffer, for transports that need it. */
static struct asymreg_mem *own_mem(struct asymreg_worker *w, const void *p, size_t bytes)
{
    const struct asymreg_region *r;

    if (!w->own || !(r = asymreg__index_lookup(w->own, (uintptr_t)p)) ||
        r->last - (uintptr_t)p < bytes - 1)
        return NULL;
    return w->context->segs[(uint32_t)r->value].mem;
}

static int gone(struct link *l, int rc)
{
    if (rc == ASYMREG_EPEER)
        __atomic_store_n(&l->peer->dead, 1, __ATOMIC_RELAXED);
    return rc;
}

/* Result of an access that begin() refused: the mapped table of a killed peer stays as it was. */
static int refused(struct link *l, int rc)
{
    return asymreg__peer_alive(l->peer) == ASYMREG_EPEER ? ASYMREG_EPEER : gone(l, rc);
}

static int transfer_pieces(struct asymreg_worker *w, struct link *l, uint64_t raddr, asymreg_id id,
                           uint32_t need, size_t bytes, struct transfer *x)
{
    struct asymreg_context *c = w->context;
    struct target t;
    int rc, again = 0, copied = 0; /* copied: a part */

    while (bytes) {
        size_t n = bytes;
        rc = begin(l, raddr, n, id, need, again, &t);
        if (rc == ASYMREG_ERANGE && (c->flags & ASYMREG_SPLIT) && id == ASYMREG_ANY &&
            x->what < ATOMIC && (rc = begin(l, raddr, 0, id, need, 1, &t)) == 0)
            n = t.region.last - raddr + 1;
        else if (copied && (c->flags & ASYMREG_SPLIT) &&
                 (rc == ASYMREG_ENOREGION || rc == ASYMREG_ESTALE || rc == ASYMREG_EACCES))
            rc = ASYMREG_ERANGE; /* these three promise that nothing was copied */
        if (rc < 0)
            return refused(l, rc);
        if (c->caps.max_op_bytes && n > c->caps.max_op_bytes)
            n = c->caps.max_op_bytes;
        rc = carry_out(w, l, &t, raddr, n, w->own ? own_mem(w, x->here, n) : NULL, x);
        asymreg__reader_exit(l->reader);
        if (rc == ASYMREG_ESTALE && !again) { /* the handle has been revoked: a new one may exist */
            again = 1;
            if ((rc = asymreg__peer_refresh(l->peer, w->patience_ns)) < 0)
                return rc;
            continue;
        }
        if (rc < 0)
            return gone(l, rc);
        raddr += n;
        if (x->here) /* an atomic has none */
            x->here += n;
        bytes -= n;
        copied = 1;
    }
    return 0;
}

static int transfer(struct asymreg_worker *w, struct link *l, uint64_t raddr, asymreg_id id,
                    uint32_t need, size_t bytes, struct transfer *x)
{
    int rc;

    if (!bytes)
        return asymreg__peer_alive(l->peer);
    if (x->what < ATOMIC && !x->here)
        return -EINVAL;
    announce(l);
    if (raddr - l->guess_base < l->guess_span)
        __builtin_prefetch(l->guess + (raddr - l->guess_base), 1);
    rc = transfer_pieces(w, l, raddr, id, need, bytes, x);
    retract(l);
    return rc;
}

/* Continues when the transport's put or get has not returned 0. As try_fast(). */
__attribute__((noinline)) static int go_on(struct asymreg_worker *w, struct link *l,
                                           struct asymreg__key *key, uint64_t raddr, size_t bytes,
                                           int what, char *here, struct asymreg_op *use, int rc)
{
    struct transfer x = {.what = what, .blocking = use != NULL, .here = here};
    struct target found = {.key = key};

    if (rc == ASYMREG_PENDING || rc == -EAGAIN)
        rc = carry_on(w, l, &found, raddr, bytes, NULL, &x, use, rc);
    if (rc == ASYMREG_ESTALE) /* begin() refreshes */
        return 1;
    return gone(l, rc);
}

/*
 * Handles the usual case in few instructions, so that the processor has several operations in
 * flight while it waits for memory. Returns 1 for any other case, and has done nothing then.
 */
ALWAYS_INLINE int try_fast(struct asymreg_worker *w, struct link *l, uint64_t raddr, asymreg_id id,
                           uint32_t word, size_t bytes, int what, int blocking, char *here)
{
    struct asymreg_op op, *use = blocking ? &op : NULL;
    struct asymreg__key *key;
    int rc = 1;

    if (!l->plain || !bytes || !here || raddr + bytes - 1 < raddr)
        return 1;
    if (raddr - l->guess_base < l->guess_span) /* prefetch before the search finds it */
        __builtin_prefetch(l->guess + (raddr - l->guess_base), 1);
    asymreg__reader_enter(l->reader);
    if (look_up(l, raddr, bytes, id, what == PUT ? ASYMREG_WRITE : ASYMREG_READ, word, &key,
                NULL) == 0 &&
        key && !asymreg__stale(&l->fresh)) {
        op.status = 0;
        if (what == PUT)
            rc = w->ops->put(w->t, l->peer->ep, key->rkey, raddr, here, bytes, NULL, use);
        else
            rc = w->ops->get(w->t, l->peer->ep, key->rkey, raddr, here, bytes, NULL, use);
        if (rc)
            rc = go_on(w, l, key, raddr, bytes, what, here, use, rc);
        else
            l->known_alive = 1;
    }
    asymreg__reader_exit(l->reader);
    return rc;
}

__attribute__((noinline)) static int transfer_slow(struct asymreg_worker *w, struct link *l,
                                                   uint64_t raddr, asymreg_id id, size_t bytes,
                                                   int what, int blocking, char *here)
{
    struct transfer x = {.what = what, .blocking = blocking, .here = here};

    return transfer(w, l, raddr, id, what == PUT ? ASYMREG_WRITE : ASYMREG_READ, bytes, &x);
}

ALWAYS_INLINE int put_or_get(struct asymreg_worker *w, uint32_t pe, uint64_t raddr, asymreg_id id,
                             uint32_t word, size_t bytes, int what, int blocking, char *here)
{
    struct link *l;
    int rc;

    if ((rc = link_get(w, pe, &l)) < 0)
        return rc;
    rc = try_fast(w, l, raddr, id, word, bytes, what, blocking, here);
    return rc <= 0 ? rc : transfer_slow(w, l, raddr, id, bytes, what, blocking, here);
}

int asymreg_put(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                const void *src, size_t bytes)
{
    return put_or_get(worker, pe, raddr, id, 0, bytes, PUT, 1, (char *)(uintptr_t)src);
}

int asymreg_get(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                void *dst, size_t bytes)
{
    return put_or_get(worker, pe, raddr, id, 0, bytes, GET, 1, dst);
}

int asymreg_put_nb(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                   const void *src, size_t bytes)
{
    return put_or_get(worker, pe, raddr, id, 0, bytes, PUT, 0, (char *)(uintptr_t)src);
}

int asymreg_get_nb(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                   void *dst, size_t bytes)
{
    return put_or_get(worker, pe, raddr, id, 0, bytes, GET, 0, dst);
}

int asymreg__put_near(struct asymreg_worker *worker, uint32_t pe, const struct asymreg_transfer *x,
                      uint32_t word)
{
    return put_or_get(worker, pe, x->raddr, x->id, word, x->bytes, PUT, 0, x->here);
}

int asymreg__get_near(struct asymreg_worker *worker, uint32_t pe, const struct asymreg_transfer *x,
                      uint32_t word)
{
    return put_or_get(worker, pe, x->raddr, x->id, word, x->bytes, GET, 0, x->here);
}

struct link *asymreg__plain_link(struct asymreg_worker *worker, uint32_t pe)
{
    struct link *l;

    return link_get(worker, pe, &l) == 0 && l->plain ? l : NULL;
}

/* Makes an atomic that the transport has. */
static int amo(struct asymreg_worker *w, struct link *l, uint64_t raddr, asymreg_id id,
               uint32_t which, uint32_t bytes, uint64_t operand, uint64_t compare, uint64_t *old)
{
    struct transfer x = {.what = (int)(ATOMIC + which),
                         .blocking = 1,
                         .operand = operand,
                         .compare = compare,
                         .result = old};
    struct asymreg__key *key;
    struct asymreg_op op;
    int rc = 1;

    if (l->plain) { /* as try_fast() */
        if (raddr - l->guess_base < l->guess_span)
            __builtin_prefetch(l->guess + (raddr - l->guess_base), 1);
        asymreg__reader_enter(l->reader);
        if (look_up(l, raddr, bytes, id, ASYMREG_ATOMIC, 0, &key, NULL) == 0 && key &&
            !asymreg__stale(&l->fresh)) {
            op.status = 0;
            rc = w->ops->amo(w->t, l->peer->ep, key->rkey, raddr, which, bytes, operand, compare,
                             old, &op);
            if (rc) {
                struct target found = {.key = key};
                rc = rc == ASYMREG_ESTALE
                         ? 1
                         : gone(l, carry_on(w, l, &found, raddr, bytes, NULL, &x, &op, rc));
            } else {
                l->known_alive = 1;
            }
        }
        asymreg__reader_exit(l->reader);
        if (rc <= 0)
            return rc;
    }
    return transfer(w, l, raddr, id, ASYMREG_ATOMIC, bytes, &x);
}

static uint64_t after_amo(uint32_t which, uint64_t old, uint64_t operand)
{
    switch (which) {
    case ASYMREG_AMO_ADD:
    case ASYMREG_AMO_FETCH_ADD: return old + operand;
    case ASYMREG_AMO_AND: return old & operand;
    case ASYMREG_AMO_OR: return old | operand;
    case ASYMREG_AMO_XOR: return old ^ operand;
    case ASYMREG_AMO_FETCH: return old;
    default: return operand;
    }
}

/* Builds an atomic that the transport lacks from compare-and-swap. */
static int amo_by_compare(struct asymreg_worker *w, struct link *l, uint64_t raddr, asymreg_id id,
                          uint32_t which, uint32_t bytes, uint64_t operand, uint64_t *old)
{
    uint64_t mask = bytes == 4 ? UINT32_MAX : UINT64_MAX, guess = 0;
    int rc;

    for (;;) { /* a wrong first guess returns the right value */
        rc = amo(w, l, raddr, id, ASYMREG_AMO_COMPARE_SWAP, bytes,
                 after_amo(which, guess, operand) & mask, guess, old);
        if (rc < 0 || *old == guess)
            return rc;
        guess = *old;
    }
}

int asymreg_amo(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                uint32_t which, uint32_t bytes, uint64_t operand, uint64_t compare,
                uint64_t *result)
{
    struct asymreg_context *c = worker->context;
    uint64_t old = 0, mask = bytes == 4 ? UINT32_MAX : UINT64_MAX;
    uint32_t has = bytes == 4 ? c->caps.amo4_ops : c->caps.amo8_ops;
    struct link *l;
    int rc;

    if (which > 31 || !(ASYMREG_AMO_ALL >> which & 1) || (bytes != 4 && bytes != 8))
        return -EINVAL;
    if (raddr % bytes)
        return ASYMREG_EALIGN;
    if (!(c->caps.flags & ASYMREG_CAP_AMO) || !c->t->ops->amo ||
        !(has & (1u << which | 1u << ASYMREG_AMO_COMPARE_SWAP)))
        return ASYMREG_ENOTSUP;
    if ((rc = link_get(worker, pe, &l)) < 0)
        return rc;
    if (has >> which & 1)
        rc = amo(worker, l, raddr, id, which, bytes, operand & mask, compare & mask, &old);
    else
        rc = amo_by_compare(worker, l, raddr, id, which, bytes, operand & mask, &old);
    if (rc == 0 && result)
        *result = old;
    return rc;
}

/* Finds out why an access fails although the region permits it. */
static int check_access(struct asymreg_worker *w, struct link *l, struct asymreg_rkey *rkey,
                        uint64_t raddr, uint32_t need, struct asymreg_error *why)
{
    struct asymreg_context *c = w->context;
    int rc = 0;

    if ((need & ASYMREG_ATOMIC) && (!(c->caps.flags & ASYMREG_CAP_AMO) || !c->t->ops->amo))
        return asymreg__fail(why, ASYMREG_ENOTSUP, "%s", asymreg__reason(c, ASYMREG_CAP_AMO));
    if (need && c->t->ops->check) {
        asymreg__t_lock(c);
        rc = c->t->ops->check(c->t, l->peer->ep, rkey, raddr, need, why);
        asymreg__t_unlock(c);
    }
    return rc;
}

/* Finds out, by another try, why this side could not make a region's key or read the peer's table.
 * `l` is NULL if the link itself could not be made. */
static void explain(struct asymreg_worker *w, struct asymreg__peer *p, struct link *l,
                    uint64_t raddr, struct asymreg_error *why)
{
    struct asymreg_context *c = w->context;
    struct asymreg_region region = {.id = ASYMREG_ANY};
    const struct asymreg_region *found;

    if (l) {
        asymreg__reader_enter(l->reader);
        if ((found = asymreg__index_lookup(l->reader, raddr)))
            region = *found;
        asymreg__reader_exit(l->reader);
    }
    if (region.id != ASYMREG_ANY) {
        (void)asymreg__peer_key(p, &region, 0, why);
    } else if (c->t->ops->check) {
        asymreg__t_lock(c);
        (void)c->t->ops->check(c->t, p->ep, p->table_key, p->table_addr, ASYMREG_READ, why);
        asymreg__t_unlock(c);
    }
}

int asymreg_resolve(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, size_t bytes,
                    uint32_t need, struct asymreg_region *region, struct asymreg_error *err)
{
    struct asymreg_error why = {.code = 0};
    struct link *l = NULL;
    struct target t;
    int rc = link_get(worker, pe, &l);

    if (rc == 0 && (rc = begin(l, raddr, bytes, ASYMREG_ANY, need, 0, &t)) == 0) {
        rc = gone(l, check_access(worker, l, t.key->rkey, raddr, need, &why));
        asymreg__reader_exit(l->reader);
    } else if (rc == ASYMREG_ENOTSUP || rc == ASYMREG_EUNREACH) {
        explain(worker, asymreg__peer_at(worker->context, pe), l, raddr, &why);
    } else if (l) {
        rc = refused(l, rc);
    }
    if (rc < 0)
        return asymreg__fail_at(err, rc, &why, pe, raddr, bytes);
    t.region.reserved = 0;
    if (region)
        *region = t.region;
    return 0;
}

__attribute__((noinline)) static int flush_link(struct link *l, int wait)
{
    struct asymreg__peer *p = l->peer;
    int rc, late;

    if (__atomic_load_n(&p->dead, __ATOMIC_RELAXED))
        return ASYMREG_EPEER;
    if ((rc = wait ? asymreg__peer_flush(p) : asymreg__peer_try_flush(p)) == ASYMREG_PENDING)
        return rc;
    l->pending = 0;
    retract(l);
    if (__atomic_load_n(&p->late, __ATOMIC_RELAXED) &&
        (late = __atomic_exchange_n(&p->late, 0, __ATOMIC_ACQ_REL)) && rc == 0)
        rc = late;
    if (rc == ASYMREG_ESTALE) /* the copy of the table is old: the next operation finds a new one */
        (void)gone(l, asymreg__peer_refresh(p, l->watch.worker->patience_ns));
    return gone(l, rc);
}

__attribute__((noinline)) static int flush_all(struct asymreg_worker *worker, int wait)
{
    int pending = 0, rc;

    for (struct link *l = worker->used; l; l = l->next) {
        struct asymreg__peer *p = asymreg__peer_at(worker->context, l->pe);
        if (!p || p->serial != l->serial)
            continue; /* forgotten */
        if ((rc = flush_link(l, wait)) == ASYMREG_PENDING)
            pending = 1;
        else if (rc < 0 && !worker->flush_error)
            worker->flush_error = rc;
    }
    if (pending)
        return ASYMREG_PENDING;
    rc = worker->flush_error;
    worker->flush_error = 0;
    return rc;
}

ALWAYS_INLINE int flush(struct asymreg_worker *worker, uint32_t pe, int wait)
{
    struct link *l;
    int rc = link_get(worker, pe, &l);

    if (rc < 0)
        return pe == ASYMREG_ALL_PEERS ? flush_all(worker, wait) : rc;
    /* A transport of loads and stores has nothing in flight, and has just checked that the peer is
     * alive; an operation of a bound handle has not checked that. */
    if (l->known_alive && l->plain && !l->pending && !l->n_bindings &&
        (worker->context->caps.flags & ASYMREG_CAP_DIRECT)) {
        l->known_alive = 0;
        __atomic_thread_fence(__ATOMIC_RELEASE);
        return 0;
    }
    return flush_link(l, wait);
}

int asymreg_flush(struct asymreg_worker *worker, uint32_t pe)
{
    return flush(worker, pe, 1);
}

int asymreg__try_flush(struct asymreg_worker *worker, uint32_t pe)
{
    return flush(worker, pe, 0);
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

/* ---- bound handles ---- */

#define ASK_EVERY 256u /* operations */
#define PROT_BITS 3
_Static_assert(ASYMREG_ALL >> PROT_BITS == 0, "permissions are the lower bits of a tag");
_Static_assert(sizeof(struct asymreg_bound) == 32 || sizeof(void *) != 8, "two on a cache line");

static struct link *link_of(const struct asymreg_watch *watch)
{
    return (struct link *)(void *)((char *)(uintptr_t)watch - offsetof(struct link, watch));
}

static struct binding *binding_of(const struct asymreg_bound *bound)
{
    return &link_of(bound->watch)->bindings[bound->tag >> PROT_BITS];
}

/* Allocates a number for a handle, with room for its data. -ENOMEM; ASYMREG_EFULL. */
static int take_binding(struct link *l, const struct asymreg_allocator *allocator, uint32_t *number)
{
    uint32_t max = l->max_bindings ? 2 * l->max_bindings : 8;
    struct binding *more;

    if (l->free_binding) {
        *number = l->free_binding - 1;
        l->free_binding = l->bindings[*number].next;
        return 0;
    }
    if (l->n_bindings == l->max_bindings) {
        if (max > UINT32_MAX >> PROT_BITS)
            return ASYMREG_EFULL;
        if (!(more = asymreg__alloc(allocator, max * sizeof(*more))))
            return -ENOMEM;
        if (l->n_bindings)
            memcpy(more, l->bindings, l->n_bindings * sizeof(*more));
        asymreg__free(allocator, l->bindings);
        l->bindings = more;
        l->max_bindings = max;
    }
    *number = l->n_bindings++;
    return 0;
}

static void leave_binding(struct link *l, uint32_t number)
{
    l->bindings[number].key = NULL;
    l->bindings[number].next = l->free_binding;
    l->free_binding = number + 1;
}

/* Binds directly to the memory of a region with a key, if loads and stores reach it. */
static void bind_directly(struct asymreg_worker *w, struct link *l, const struct target *t,
                          const struct binding *x, struct asymreg_bound *b)
{
    const struct asymreg_transport_ops *ops = w->ops;
    const void *at = NULL, *writable;
    uint32_t prot = t->region.prot;

    if (!l->plain || !l->watch.retired || !t->key->mapped ||
        ops->map(w->t, l->peer->ep, t->key->rkey, x->addr, x->bytes, 0, &at) < 0)
        return;
    b->at = (char *)(uintptr_t)at;
    if (ops->map(w->t, l->peer->ep, t->key->rkey, x->addr, x->bytes, 1, &writable) < 0)
        prot &= ASYMREG_READ;
    if ((uintptr_t)at % 8 != x->addr % 8) /* mapped at an odd offset in its file */
        prot &= ~ASYMREG_ATOMIC;
    b->bytes = x->bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)x->bytes;
    b->tag |= prot;
}

int asymreg_bind(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, uint64_t bytes,
                 asymreg_id id, struct asymreg_bound *bound)
{
    struct asymreg_bound b = {.at = NULL};
    struct binding *x;
    struct target t;
    struct link *l;
    uint32_t number;
    int rc;

    if (bound)
        *bound = b;
    if (!worker || !bound || !bytes || bytes > SIZE_MAX)
        return -EINVAL;
    if ((rc = link_get(worker, pe, &l)) < 0 ||
        (rc = take_binding(l, worker->context->allocator, &number)) < 0)
        return rc;
    b.seen = l->watch.retired ? __atomic_load_n(l->watch.retired, __ATOMIC_ACQUIRE) : 0;
    if ((rc = begin(l, raddr, (size_t)bytes, id, 0, 0, &t)) < 0) {
        leave_binding(l, number);
        return refused(l, rc);
    }
    x = &l->bindings[number];
    *x = (struct binding){.id = t.region.id, .addr = raddr, .bytes = bytes, .key = t.key};
    pthread_mutex_lock(&l->peer->lock); /* the section keeps the key until it is counted */
    t.key->bound++;
    l->peer->n_bound++;
    pthread_mutex_unlock(&l->peer->lock);
    b.watch = &l->watch;
    b.tag = number << PROT_BITS;
    bind_directly(worker, l, &t, x, &b);
    asymreg__reader_exit(l->reader);
    *bound = b;
    return 0;
}

void asymreg_unbind(struct asymreg_bound *bound)
{
    struct asymreg__peer *p;

    if (!bound || !bound->watch)
        return;
    p = link_of(bound->watch)->peer;
    pthread_mutex_lock(&p->lock);
    binding_of(bound)->key->bound--;
    p->n_bound--;
    pthread_mutex_unlock(&p->lock);
    leave_binding(link_of(bound->watch), bound->tag >> PROT_BITS);
    *bound = (struct asymreg_bound){.at = NULL};
}

int asymreg_bound_check(struct asymreg_bound *bound)
{
    struct asymreg_worker *w;
    struct link *l;
    uint64_t now;
    int rc;

    if (!bound->watch)
        return -EINVAL;
    w = bound->watch->worker;
    l = link_of(bound->watch);
    now = l->watch.retired ? __atomic_load_n(l->watch.retired, __ATOMIC_ACQUIRE) : 0;
    if (__atomic_load_n(&l->peer->dead, __ATOMIC_RELAXED))
        return ASYMREG_EPEER;
    asymreg__t_lock(w->context);
    rc = bound->at ? w->ops->flush(w->t, l->peer->ep) : w->ops->peer_alive(w->t, l->peer->ep);
    asymreg__t_unlock(w->context);
    if (rc < 0)
        return gone(l, rc);
    if (bound->seen != now || !bound->at) {
        if ((asymreg__stale(&l->fresh) || !bound->at) &&
            (rc = asymreg__peer_refresh(l->peer, w->patience_ns)) < 0)
            return rc;
        if (!asymreg__index_lives(l->reader, binding_of(bound)->id))
            return ASYMREG_ESTALE;
        bound->seen = now;
    }
    l->watch.left = ASK_EVERY;
    return 0;
}

/* Checks before an operation by address stands in for a handle's: that it is inside the bound range
 * and, if that is mapped, that the peer is alive, so that the next operation may be direct. */
static int bound_prepare(struct asymreg_bound *bound, uint64_t offset, size_t bytes)
{
    const struct binding *x;

    if (!bound->watch) /* asymreg_bind() has failed, or asymreg_unbind() was called */
        return -EINVAL;
    x = binding_of(bound);
    if (bytes > x->bytes || offset > x->bytes - bytes)
        return ASYMREG_ERANGE;
    return bound->at ? asymreg_bound_check(bound) : 0;
}

int asymreg_bound_put_rest(struct asymreg_bound *bound, uint64_t offset, const void *src,
                           size_t bytes)
{
    const struct binding *x;
    int rc = bound_prepare(bound, offset, bytes);

    if (rc == 0 && src && asymreg__bound_begin(bound, offset, bytes, ASYMREG_WRITE)) {
        asymreg__store(bound->at + offset, src, bytes);
        return asymreg__bound_end(bound);
    }
    if (rc < 0)
        return rc;
    x = binding_of(bound);
    return asymreg_put(bound->watch->worker, link_of(bound->watch)->pe, x->addr + offset, x->id,
                       src, bytes);
}

int asymreg_bound_get_rest(struct asymreg_bound *bound, uint64_t offset, void *dst, size_t bytes)
{
    const struct binding *x;
    int rc = bound_prepare(bound, offset, bytes);

    if (rc == 0 && dst && asymreg__bound_begin(bound, offset, bytes, ASYMREG_READ)) {
        asymreg__load(dst, bound->at + offset, bytes);
        return asymreg__bound_end(bound);
    }
    if (rc < 0)
        return rc;
    x = binding_of(bound);
    rc = asymreg_get(bound->watch->worker, link_of(bound->watch)->pe, x->addr + offset, x->id, dst,
                     bytes);
    return rc == 0 && bound->at ? asymreg__bound_end(bound) : rc;
}

int asymreg_bound_amo_rest(struct asymreg_bound *bound, uint64_t offset, uint32_t which,
                           uint32_t bytes, uint64_t operand, uint64_t compare, uint64_t *result)
{
    const struct binding *x;
    int rc = bound_prepare(bound, offset, bytes);

    if (rc < 0)
        return rc;
    x = binding_of(bound);
    return asymreg_amo(bound->watch->worker, link_of(bound->watch)->pe, x->addr + offset, x->id,
                       which, bytes, operand, compare, result);
}
