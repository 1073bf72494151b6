/* SPDX-License-Identifier: BSD-3-Clause */
/* The exchange: life cycle, incoming frames, time. */
#include <errno.h>

#include "exchange_internal.h"

/* ---- life cycle ---- */

static int check_shape(const struct pmiwire_exchange_opts *o)
{
    if (o->n_nodes == 0 || o->n_nodes > INT32_MAX || o->node >= o->n_nodes ||
        o->n_ranks > INT32_MAX || o->n_ranks < o->n_nodes || o->n_local == 0 ||
        o->n_local > o->n_ranks || !o->ranks || o->n_below > o->n_ranks - o->n_local)
        return -EINVAL;
    /* Every other node has at least one rank. */
    if (o->n_below < o->node || o->n_ranks - o->n_below - o->n_local < o->n_nodes - 1 - o->node)
        return -EINVAL;
    for (uint32_t i = 0; i < o->n_local; i++)
        if (o->ranks[i] >= o->n_ranks || (i > 0 && o->ranks[i] <= o->ranks[i - 1]))
            return -EINVAL;
    return 0;
}

static int check_opts(const struct pmiwire_exchange_opts *o, const struct pmiwire_exchange_ops *ops)
{
    if (o->design > PMIWIRE_DESIGN_TREE || o->fence > PMIWIRE_FENCE_DOUBLING ||
        o->arity > PMIWIRE_EXCHANGE_MAX_ARITY || o->unhinted > PMIWIRE_HINT_DENSE ||
        (o->flags & ~PMIWIRE_EXCHANGE_FENCE_FREE))
        return -EINVAL;
    if (o->design == PMIWIRE_DESIGN_TREE && (o->fence == PMIWIRE_FENCE_DOUBLING || o->arity == 1))
        return -EINVAL; /* a chain would have more nodes than a request can name */
    if (o->max_frame_bytes && (o->max_frame_bytes < PMIWIRE_EXCHANGE_MIN_FRAME_BYTES ||
                               o->max_frame_bytes > PMIWIRE_EXCHANGE_MAX_FRAME_BYTES))
        return -EINVAL;
    if ((ops->find && !ops->pairs) || (o->n_nodes > 1 && !ops->send) ||
        (o->n_nodes > 1 && !ops->node_of))
        return -EINVAL;
    return 0;
}

static void exchange_opts_take(struct pmiwire_exchange *x, const struct pmiwire_exchange_opts *o)
{
    x->ctx = o->ctx;
    x->job = o->job;
    x->me = o->node;
    x->n_nodes = o->n_nodes;
    x->n_ranks = o->n_ranks;
    x->n_local = o->n_local;
    x->n_below = o->n_below;
    x->design = o->design;
    x->fence = o->fence;
    x->arity = o->arity ? o->arity : pmiwire_exchange_arity(o->n_nodes);
    x->unhinted = o->unhinted ? o->unhinted : PMIWIRE_HINT_DENSE;
    x->flags = o->flags;
    x->max_frame = o->max_frame_bytes ? o->max_frame_bytes : PMIWIRE_EXCHANGE_FRAME_BYTES;
    x->wait_ns = o->wait_ns;
    /* All nodes of a job have the same key, so that they agree on a key's home. */
    x->owner_key[0] = UINT64_C(0x646d6b7673000000) + o->job;
    x->owner_key[1] = o->n_nodes;
    x->ring_number = 1;
    x->rings_end = &x->rings;
    pmiwire__limits_init(x);
}

int pmiwire_exchange_create(const struct pmiwire_exchange_opts *opts, struct pmiwire_exchange **out)
{
    struct pmiwire_exchange_opts o;
    struct pmiwire_exchange probe, *x;
    int rc;

    memset(&probe, 0, sizeof(probe));
    if (!opts || !out || pmiwire__opts_take(&o, opts, sizeof(o)) != 0 || !o.ops ||
        pmiwire__opts_take(&probe.ops, o.ops, sizeof(probe.ops)) != 0)
        return -EINVAL;
    if (check_shape(&o) != 0 || check_opts(&o, &probe.ops) != 0 ||
        pmiwire__allocator_take(&probe.mem.a, o.allocator) != 0)
        return -EINVAL;
    probe.mem.max = o.max_bytes ? o.max_bytes : PMIWIRE_EXCHANGE_MAX_BYTES;
    x = pmiwire__mem_realloc(&probe.mem, NULL, 0, sizeof(*x));
    if (!x)
        return -ENOMEM;
    *x = probe;
    exchange_opts_take(x, &o);
    pmiwire__keys_init(x);
    rc = pmiwire__colls_init(x);
    x->ranks =
        rc == 0 ? pmiwire__mem_realloc(&x->mem, NULL, 0, x->n_local * sizeof(*x->ranks)) : NULL;
    x->gone = x->ranks ? pmiwire__mem_realloc(&x->mem, NULL, 0, x->n_local) : NULL;
    if (!x->gone) {
        pmiwire_exchange_destroy(x);
        return -ENOMEM;
    }
    memset(x->gone, 0, x->n_local);
    memcpy(x->ranks, o.ranks, x->n_local * sizeof(*x->ranks));
    *out = x;
    return 0;
}

void pmiwire_exchange_destroy(struct pmiwire_exchange *x)
{
    struct pmiwire_allocator a;

    if (!x)
        return;
    pmiwire__keys_fini(x);
    pmiwire__colls_fini(x);
    pmiwire__rings_fini(x);
    (void)pmiwire__mem_realloc(&x->mem, x->ranks, x->n_local * sizeof(*x->ranks), 0);
    (void)pmiwire__mem_realloc(&x->mem, x->gone, x->n_local, 0);
    a = x->mem.a;
    a.free(a.ctx, x);
}

bool pmiwire__exchange_at_max(const struct pmiwire_exchange *x, size_t *max_bytes)
{
    *max_bytes = x->mem.max;
    return x->mem.at_max;
}

/* ---- frames ---- */

/* Fails the exchange with the node and the reason that a FAIL names; both are forwarded
 * unchanged. */
static int take_fail(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                     size_t n)
{
    struct {
        int32_t code;
        uint32_t node;
    } why;

    if (n != sizeof(why) || f->flags || f->arg || f->seq)
        return PMIWIRE_EPROTO;
    memcpy(&why, p, sizeof(why));
    if (why.code >= 0 || why.node >= x->n_nodes)
        return PMIWIRE_EPROTO;
    pmiwire__exchange_fail(x, why.code, why.node, f->from);
    return 0;
}

static int dispatch_frame(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                          size_t n)
{
    switch (f->type) {
    case PMIWIRE_FRAME_PUT: return pmiwire__on_put(x, f, p, n);
    case PMIWIRE_FRAME_ACK: return pmiwire__on_ack(x, f, p, n);
    case PMIWIRE_FRAME_GET: return pmiwire__on_get(x, f, p, n);
    case PMIWIRE_FRAME_ANSWER: return pmiwire__on_answer(x, f, p, n);
    case PMIWIRE_FRAME_COLL: return pmiwire__on_coll(x, f, p, n);
    case PMIWIRE_FRAME_RING: return pmiwire__on_ring(x, f, p, n);
    case PMIWIRE_FRAME_FAIL: return take_fail(x, f, p, n);
    case PMIWIRE_FRAME_GONE: return pmiwire__on_gone(x, f, p, n);
    case PMIWIRE_FRAME_LIMIT: return pmiwire__on_limit(x, f, p, n);
    default: return PMIWIRE_EPROTO;
    }
}

int pmiwire_exchange_input(struct pmiwire_exchange *x, uint32_t node, const void *data, size_t n)
{
    struct pmiwire__frame f;
    int rc;

    if (x->err)
        return x->err;
    rc = pmiwire__frame_read(data, n, &f);
    if (rc == 0 && (f.job != x->job || f.from != node || node >= x->n_nodes || node == x->me ||
                    n > x->max_frame))
        rc = PMIWIRE_EPROTO;
    if (rc == 0) {
        pmiwire__exchange_enter(x);
        rc = dispatch_frame(x, &f, (const char *)data + sizeof(f), n - sizeof(f));
        if (rc == 0) {
            x->stats.frames[f.type].n_received++;
            x->stats.frames[f.type].bytes_received += n;
        } else if (rc != PMIWIRE_EPROTO && !x->err) {
            pmiwire__exchange_fail(x, rc, x->me, x->me);
        }
        pmiwire__exchange_leave(x);
    }
    if (rc == PMIWIRE_EPROTO || rc == PMIWIRE_EVERSION)
        x->stats.n_refused++;
    return rc != 0 ? rc : f.type == PMIWIRE_FRAME_FAIL ? 0 : x->err;
}

/* ---- time ---- */

/* Ends the Gets that have waited too long. */
static void expire_gets(struct pmiwire_exchange *x, uint32_t e)
{
    struct pmiwire__keys *s = &x->store;
    uint32_t w = pmiwire__waiters_take(x, e), next;

    for (; w != PMIWIRE__NONE; w = next) {
        struct pmiwire__waiter *waiter = &s->waiters[w];

        next = waiter->next;
        if (!waiter->remote && !waiter->since)
            waiter->since = x->now_ns;
        if (!waiter->remote && x->wait_ns && x->now_ns - waiter->since >= x->wait_ns)
            pmiwire__waiter_due(x, w, PMIWIRE_ETIME);
        else
            pmiwire__waiter_keep(x, e, w);
    }
    pmiwire__request_withdraw(x, e);
}

void pmiwire_exchange_tick(struct pmiwire_exchange *x, uint64_t now_ns)
{
    uint32_t next;

    if (x->err)
        return;
    pmiwire__exchange_enter(x);
    pmiwire__limits_send(x);
    pmiwire__gone_ranks_ask(x);
    if (now_ns > x->now_ns)
        x->now_ns = now_ns;
    for (uint32_t e = x->store.waiting; e != PMIWIRE__NONE; e = next) {
        /* The call below may remove the entry or move it to the front. */
        next = x->store.entries[e].next;
        expire_gets(x, e);
    }
    pmiwire__exchange_leave(x);
}

void pmiwire_exchange_stats(const struct pmiwire_exchange *x, struct pmiwire_stats_exchange *stats)
{
    *stats = x->stats;
    stats->n_keys = x->store.n_keys;
    stats->n_waiting = x->store.n_waiting;
    stats->bytes = x->mem.bytes;
    stats->peak_bytes = x->mem.peak;
}
