/* SPDX-License-Identifier: BSD-3-Clause */
/* Bound handles: what asymreg/bound.h does not inline. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "worker.h"

#include <errno.h>
#include <string.h>

#define ASK_EVERY 256u /* operations */
#define PROT_BITS 3
_Static_assert(ASYMREG_ALL >> PROT_BITS == 0, "permissions are the lower bits of a tag");
_Static_assert(sizeof(struct asymreg_bound) == 32 || sizeof(void *) != 8, "two on a cache line");

/* Rarely used data of a bound handle. */
struct binding {
    uint64_t addr, bytes;
    asymreg_id id;
    struct asymreg__key *key; /* NULL: free */
    uint32_t next;            /* of a free one: the next one + 1 */
};

static struct link *link_of(const struct asymreg_watch *watch)
{
    return (struct link *)(void *)((char *)(uintptr_t)watch - offsetof(struct link, watch));
}

/* The peer's count of unregistrations; 0: it cannot be seen. */
static uint64_t retired_count(const struct link *l)
{
    return l->watch.retired ? atomic_load_explicit((const _Atomic uint64_t *)l->watch.retired,
                                                   memory_order_acquire)
                            : 0;
}

static struct binding *binding_of(const struct asymreg_bound *bound)
{
    return &link_of(bound->watch)->bindings[bound->tag >> PROT_BITS];
}

/* Allocates a number for a handle, with room for its data. -ENOMEM; ASYMREG_EFULL. */
static int binding_take(struct link *l, const struct asymreg_allocator *allocator, uint32_t *number)
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
        more = asymreg__alloc(allocator, max * sizeof(*more));
        if (!more)
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

static void binding_release(struct link *l, uint32_t number)
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

int asymreg_bind(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                 size_t bytes, struct asymreg_bound *bound)
{
    struct asymreg_bound b = {.at = NULL};
    struct binding *x;
    struct target t;
    struct link *l;
    uint32_t number;
    int rc;

    if (bound)
        *bound = b;
    if (!worker || !bound || !bytes)
        return -EINVAL;
    rc = link_get(worker, pe, &l);
    if (rc < 0)
        return rc;
    rc = binding_take(l, worker->context->allocator, &number);
    if (rc < 0)
        return rc;
    b.seen = retired_count(l);
    rc = asymreg__target_find(l, raddr, bytes, id, 0, 0, &t);
    if (rc < 0) {
        binding_release(l, number);
        return link_refusal(l, rc);
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
    binding_release(link_of(bound->watch), bound->tag >> PROT_BITS);
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
    now = retired_count(l);
    if (atomic_load_explicit(&l->peer->dead, memory_order_relaxed))
        return ASYMREG_EPEER;
    asymreg__t_lock(w->context);
    rc = bound->at ? w->ops->flush(w->t, l->peer->ep) : w->ops->peer_alive(w->t, l->peer->ep);
    asymreg__t_unlock(w->context);
    if (rc < 0)
        return link_note_death(l, rc);
    if (bound->seen != now || !bound->at) {
        if (asymreg__stale(&l->fresh) || !bound->at)
            rc = asymreg__peer_refresh(l->peer);
        if (rc < 0)
            return rc;
        if (!asymreg__index_lives(l->reader->index, binding_of(bound)->id))
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
