/* SPDX-License-Identifier: BSD-3-Clause */
/* The exchange: life cycle, memory, completions, failure, time. */
#include <errno.h>

#include "exchange_internal.h"

/* ---- memory ---- */

void *pmiwire__xrealloc(struct pmiwire_exchange *x, void *ptr, size_t old_bytes, size_t bytes)
{
    void *p;

    if (bytes == 0) {
        if (ptr)
            x->alloc.free(x->alloc.ctx, ptr);
        x->stats.bytes -= old_bytes;
        return NULL;
    }
    /* While it grows both are there. */
    if (bytes > x->max_bytes || x->stats.bytes > x->max_bytes - bytes)
        return NULL;
    p = x->alloc.realloc(x->alloc.ctx, ptr, bytes);
    if (!p)
        return NULL;
    x->stats.bytes += bytes;
    if (x->stats.bytes > x->stats.peak_bytes)
        x->stats.peak_bytes = x->stats.bytes;
    x->stats.bytes -= old_bytes;
    return p;
}

int pmiwire__xbuf_room(struct pmiwire_exchange *x, struct pmiwire__xbuf *b, size_t bytes)
{
    size_t cap = b->cap ? b->cap : 64, need = b->len + bytes;
    char *p;

    if (need <= b->cap)
        return 0;
    if (need < bytes || need > SIZE_MAX / 4)
        return -ENOMEM;
    while (cap < need)
        cap *= 2;
    p = pmiwire__xrealloc(x, b->ptr, b->cap, cap);
    if (!p)
        return -ENOMEM;
    b->ptr = p;
    b->cap = cap;
    return 0;
}

void pmiwire__xbuf_free(struct pmiwire_exchange *x, struct pmiwire__xbuf *b)
{
    (void)pmiwire__xrealloc(x, b->ptr, b->cap, 0);
    memset(b, 0, sizeof(*b));
}

void pmiwire__xbuf_reset(struct pmiwire_exchange *x, struct pmiwire__xbuf *b)
{
    if (b->cap > PMIWIRE__KEEP_BYTES)
        pmiwire__xbuf_free(x, b);
    else
        b->len = 0;
}

/* ---- life cycle ---- */

static int check_shape(const struct pmiwire_exchange_opts *o)
{
    uint32_t i;

    if (o->n_nodes == 0 || o->n_nodes > INT32_MAX || o->node >= o->n_nodes ||
        o->n_ranks > INT32_MAX || o->n_ranks < o->n_nodes || o->n_local == 0 ||
        o->n_local > o->n_ranks || !o->ranks || o->n_below > o->n_ranks - o->n_local)
        return -EINVAL;
    /* Every other node has a rank at least. */
    if (o->n_below < o->node || o->n_ranks - o->n_below - o->n_local < o->n_nodes - 1 - o->node)
        return -EINVAL;
    for (i = 0; i < o->n_local; i++)
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
        return -EINVAL; /* a chain would be deeper than a request can name its nodes */
    if (o->max_frame_bytes && (o->max_frame_bytes < PMIWIRE_EXCHANGE_MIN_FRAME_BYTES ||
                               o->max_frame_bytes > PMIWIRE_EXCHANGE_MAX_FRAME_BYTES))
        return -EINVAL;
    if ((ops->find && !ops->pairs) || (o->n_nodes > 1 && !ops->send) ||
        (o->n_nodes > 1 && !ops->node_of))
        return -EINVAL;
    return 0;
}

static void take_opts(struct pmiwire_exchange *x, const struct pmiwire_exchange_opts *o)
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
    /* The same at all nodes of a job, so that they agree on who owns a key. */
    x->owner_key[0] = UINT64_C(0x646d6b7673000000) + o->job;
    x->owner_key[1] = o->n_nodes;
    x->ring_number = 1;
    x->rings_end = &x->rings;
}

int pmiwire_exchange_create(const struct pmiwire_exchange_opts *opts, struct pmiwire_exchange **out)
{
    struct pmiwire_exchange_opts o;
    struct pmiwire_exchange probe, *x;
    int rc;

    memset(&probe, 0, sizeof(probe));
    if (!opts || !out || pmiwire__opts_take(&o, sizeof(o), opts, opts->size) != 0 || !o.ops ||
        pmiwire__opts_take(&probe.ops, sizeof(probe.ops), o.ops, o.ops->size) != 0)
        return -EINVAL;
    if (check_shape(&o) != 0 || check_opts(&o, &probe.ops) != 0)
        return -EINVAL;
    probe.alloc = o.alloc ? *o.alloc : pmiwire__libc_allocator;
    probe.max_bytes = o.max_bytes ? o.max_bytes : PMIWIRE_EXCHANGE_MAX_BYTES;
    x = pmiwire__xrealloc(&probe, NULL, 0, sizeof(*x));
    if (!x)
        return -ENOMEM;
    *x = probe;
    take_opts(x, &o);
    pmiwire__xstore_init(x);
    rc = pmiwire__xcolls_init(x);
    x->ranks = rc == 0 ? pmiwire__xrealloc(x, NULL, 0, x->n_local * sizeof(*x->ranks)) : NULL;
    x->gone = x->ranks ? pmiwire__xrealloc(x, NULL, 0, (x->n_local + 7) / 8) : NULL;
    if (!x->gone) {
        pmiwire_exchange_destroy(x);
        return -ENOMEM;
    }
    memset(x->gone, 0, (x->n_local + 7) / 8);
    memcpy(x->ranks, o.ranks, x->n_local * sizeof(*x->ranks));
    *out = x;
    return 0;
}

void pmiwire_exchange_destroy(struct pmiwire_exchange *x)
{
    struct pmiwire_allocator a;

    if (!x)
        return;
    pmiwire__xstore_fini(x);
    pmiwire__xcolls_fini(x);
    pmiwire__xrings_fini(x);
    (void)pmiwire__xrealloc(x, x->ranks, x->n_local * sizeof(*x->ranks), 0);
    (void)pmiwire__xrealloc(x, x->gone, (x->n_local + 7) / 8, 0);
    a = x->alloc;
    a.free(a.ctx, x);
}

uint32_t pmiwire__xlocal(const struct pmiwire_exchange *x, int32_t rank)
{
    uint32_t lo = 0, n = x->n_local;

    if (rank < 0)
        return PMIWIRE__XNONE;
    while (n > 1) {
        if (x->ranks[lo + n / 2] <= (uint32_t)rank) {
            lo += n / 2;
            n -= n / 2;
        } else {
            n /= 2;
        }
    }
    return x->ranks[lo] == (uint32_t)rank ? lo : PMIWIRE__XNONE;
}

/* ---- completions ---- */

/* Whether there was one. */
static bool tell_coll(struct pmiwire_exchange *x)
{
    uint32_t kind;

    for (kind = 0; kind < PMIWIRE_COLL_COUNT_; kind++) {
        struct pmiwire__xcoll *c = &x->colls[kind];
        uint32_t number = c->told + 1;

        if (number < c->number) {
            c->told = number;
            if (x->ops.done)
                x->ops.done(x->ctx, kind, number, 0);
            return true;
        }
        if (x->err && c->n_in > 0) {
            c->n_in = 0;
            if (x->ops.done)
                x->ops.done(x->ctx, kind, number, x->err);
            return true;
        }
    }
    return false;
}

static bool tell_waiter(struct pmiwire_exchange *x)
{
    struct pmiwire__xstore *s = &x->store;
    struct pmiwire_str value = {NULL, 0};
    struct pmiwire__xwaiter w;
    uint32_t i = s->due_head;

    if (i == PMIWIRE__XNONE)
        return false;
    w = s->waiters[i];
    s->due_head = w.next;
    pmiwire__xfree_waiter(x, i);
    if (w.rc == 0)
        value = pmiwire__xvalue(x, w.entry);
    if (x->ops.got)
        x->ops.got(x->ctx, w.token, w.rc, value);
    s->entries[w.entry].pins--;
    pmiwire__xtidy(x, w.entry);
    return true;
}

static void tell(struct pmiwire_exchange *x)
{
    for (;;) {
        if (tell_coll(x) || tell_waiter(x))
            continue;
        if (x->rings) {
            pmiwire__xring_tell(x);
            continue;
        }
        if (!x->err || x->err_told)
            return;
        x->err_told = true;
        if (x->ops.failed)
            x->ops.failed(x->ctx, x->err, x->err_node);
    }
}

void pmiwire__xenter(struct pmiwire_exchange *x)
{
    x->depth++;
}

void pmiwire__xleave(struct pmiwire_exchange *x)
{
    if (x->depth == 1)
        tell(x);
    x->depth--;
}

/* ---- failure ---- */

static void fail_waiters(struct pmiwire_exchange *x)
{
    struct pmiwire__xstore *s = &x->store;

    while (s->waiting != PMIWIRE__XNONE) {
        uint32_t e = s->waiting, w = pmiwire__xtake_waiters(x, e);

        s->entries[e].flags &= (uint16_t) ~(PMIWIRE__XE_ASKED | PMIWIRE__XE_ASKED_WAIT);
        while (w != PMIWIRE__XNONE) {
            uint32_t next = s->waiters[w].next;

            if (s->waiters[w].remote)
                pmiwire__xfree_waiter(x, w);
            else
                pmiwire__xdue(x, w, x->err);
            w = next;
        }
    }
}

void pmiwire__xfail(struct pmiwire_exchange *x, int rc, uint32_t node, uint32_t from)
{
    struct {
        int32_t code;
        uint32_t node;
    } why = {rc, node};
    uint32_t i, to;

    if (x->err)
        return;
    x->err = rc;
    x->err_node = node;
    fail_waiters(x);
    pmiwire__xring_fail(x);
    for (i = 0; pmiwire_exchange_neighbour(x, i, &to) == 0; i++) {
        struct pmiwire__frame f = {.type = PMIWIRE_XF_FAIL};

        if (to != from && !(rc == PMIWIRE_ELOST && to == node))
            pmiwire__xsend1(x, to, &f, &why, sizeof(why));
    }
}

int pmiwire_exchange_lost(struct pmiwire_exchange *x, uint32_t node)
{
    if (node >= x->n_nodes || node == x->me)
        return -EINVAL;
    pmiwire__xenter(x);
    pmiwire__xfail(x, PMIWIRE_ELOST, node, node);
    pmiwire__xleave(x);
    return 0;
}

int pmiwire_exchange_fail(struct pmiwire_exchange *x, int rc)
{
    if (rc >= 0)
        return -EINVAL;
    pmiwire__xenter(x);
    pmiwire__xfail(x, rc, x->me, x->me);
    pmiwire__xleave(x);
    return 0;
}

/* ---- time ---- */

/* End what has waited too long. */
static void expire(struct pmiwire_exchange *x, uint32_t e)
{
    struct pmiwire__xstore *s = &x->store;
    uint32_t w = pmiwire__xtake_waiters(x, e), next;

    for (; w != PMIWIRE__XNONE; w = next) {
        struct pmiwire__xwaiter *waiter = &s->waiters[w];

        next = waiter->next;
        if (!waiter->remote && !waiter->since)
            waiter->since = x->now_ns;
        if (!waiter->remote && x->wait_ns && x->now_ns - waiter->since >= x->wait_ns)
            pmiwire__xdue(x, w, PMIWIRE_ETIME);
        else
            pmiwire__xkeep_waiter(x, e, w);
    }
}

void pmiwire_exchange_tick(struct pmiwire_exchange *x, uint64_t now_ns)
{
    uint32_t e, next;

    if (x->err)
        return;
    pmiwire__xenter(x);
    pmiwire__xgone_ask(x);
    if (now_ns > x->now_ns)
        x->now_ns = now_ns;
    for (e = x->store.waiting; e != PMIWIRE__XNONE; e = next) {
        next = x->store.entries[e].next; /* it may be taken off, or put at the front again */
        expire(x, e);
    }
    pmiwire__xleave(x);
}

void pmiwire_exchange_get_stats(const struct pmiwire_exchange *x,
                                struct pmiwire_exchange_stats *stats)
{
    *stats = x->stats;
    stats->n_keys = x->store.n_keys;
    stats->n_waiting = x->store.n_waiting;
}
