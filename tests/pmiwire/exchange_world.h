/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the tests of the exchange: all nodes of a job in one process. Frames wait in a queue
 * for each ordered pair of nodes; the test chooses the queue that moves next.
 */
#ifndef PMIWIRE_TESTS_EXCHANGE_WORLD_H
#define PMIWIRE_TESTS_EXCHANGE_WORLD_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pmiwire/exchange.h>

#define UNUSED __attribute__((unused))

struct msg {
    struct msg *next;
    size_t bytes;
    char data[];
};

struct queue {
    struct msg *head, **tail;
};

struct world;

/* A Get in flight, or ended. */
struct get {
    bool pending, ended;
    int rc;
    char value[64];
    size_t len;
    int32_t culprit; /* the rank whose end has ended it */
    uint32_t why;
};

/* A node's store of pairs, for ops->find. */
struct store {
    struct {
        char key[24], value[16];
    } pairs[256];
    uint32_t n;
};

struct node {
    struct world *w;
    struct store store;
    uint32_t id;
    struct pmiwire_exchange *x;
    bool dead;
    uint32_t *ranks, n_local;
    uint32_t n_done[PMIWIRE_COLL_COUNT_]; /* completions with rc 0 */
    int done_rc;                          /* of the last completion */
    uint32_t n_failed_done;
    uint32_t n_stopped[PMIWIRE_COLL_COUNT_]; /* completions with PMIWIRE_EGONE */
    uint32_t n_pairs;                        /* brought, of the last collective */
    int failed_rc;
    uint32_t failed_node, n_failed;
    uint64_t sent, received; /* frames */
};

struct world {
    uint32_t n_nodes, n_ranks;
    uint32_t *node_of;
    struct node *nodes;
    struct queue *queues; /* from * n_nodes + to */
    uint64_t n_queued;
    uint64_t rng;
    uint32_t slow; /* nonzero: some pairs of nodes are slow; a seed chooses them */
    bool choke;    /* links report now and then that they are full */
    bool *full;    /* by pair: reported full */
    uint32_t n_full;
    struct get *gets; /* by token */
    size_t n_gets, cap_gets;
    struct { /* by rank, of the last ring */
        int rc;
        uint32_t n, place;
        char left[64], right[64];
    } * rings;
    void *hook_ctx;
    void (*on_got)(struct node *n, uint64_t token);
    void (*on_done)(struct node *n, uint32_t kind, uint32_t number, int rc);
    int (*on_pairs)(struct node *n, uint32_t kind, const void *block, size_t bytes);
};

static UNUSED uint32_t w_random(struct world *w, uint32_t below)
{
    w->rng ^= w->rng << 13;
    w->rng ^= w->rng >> 7;
    w->rng ^= w->rng << 17;
    return (uint32_t)((w->rng >> 20) % below);
}

/* Are they neighbours in the tree? */
static UNUSED bool w_linked(uint32_t arity, uint32_t a, uint32_t b)
{
    return a > b ? (a - 1) / arity == b : b > a && (b - 1) / arity == a;
}

static UNUSED struct pmiwire_str str(const char *s)
{
    return pmiwire_strz(s);
}

static int w_send(void *ctx, uint32_t to, const struct iovec *iov, uint32_t n_iov, size_t bytes)
{
    struct node *n = ctx;
    struct world *w = n->w;
    struct queue *q = &w->queues[(size_t)n->id * w->n_nodes + to];
    struct msg *m = malloc(sizeof(*m) + bytes);
    size_t at = 0;

    assert_true(m && to < w->n_nodes && to != n->id && n_iov >= 1 &&
                n_iov <= PMIWIRE_EXCHANGE_MAX_IOV);
    for (uint32_t i = 0; i < n_iov; i++) {
        assert_true(iov[i].iov_len > 0);
        memcpy(m->data + at, iov[i].iov_base, iov[i].iov_len);
        at += iov[i].iov_len;
    }
    assert_int_equal(at, bytes);
    n->sent++;
    if (w->nodes[to].dead || n->dead) {
        free(m);
        return 0;
    }
    m->next = NULL;
    m->bytes = bytes;
    *q->tail = m;
    q->tail = &m->next;
    w->n_queued++;
    if (!w->choke || w_random(w, 4))
        return 0;
    w->n_full += !w->full[(size_t)n->id * w->n_nodes + to];
    w->full[(size_t)n->id * w->n_nodes + to] = true;
    return 1;
}

/* Makes room between one pair of nodes, chosen at random. False: all have room. */
static UNUSED bool w_ready(struct world *w)
{
    uint32_t pairs = w->n_nodes * w->n_nodes, i;
    int rc;

    if (w->n_full == 0)
        return false;
    for (i = w_random(w, pairs); !w->full[i]; i = (i + 1) % pairs)
        ;
    w->full[i] = false;
    w->n_full--;
    rc = pmiwire_exchange_ready(w->nodes[i / w->n_nodes].x, i % w->n_nodes);
    assert_true(rc == 0 || w->nodes[i / w->n_nodes].n_failed);
    return true;
}

static uint32_t w_node_of(void *ctx, uint32_t rank)
{
    const struct node *n = ctx;

    return n->w->node_of[rank];
}

static void w_culprit(const struct node *n, struct get *g)
{
    uint32_t why = UINT32_MAX;

    g->culprit = pmiwire_exchange_get_culprit(n->x, &why);
    if (g->culprit >= 0)
        g->why = why;
    else
        assert_int_equal(why, UINT32_MAX);
}

static void w_got(void *ctx, uint64_t token, int rc, struct pmiwire_str value)
{
    struct node *n = ctx;
    struct get *g = &n->w->gets[token];

    assert_true(token < n->w->n_gets && g->pending && !g->ended);
    g->pending = false;
    g->ended = true;
    g->rc = rc;
    w_culprit(n, g);
    if (rc == 0) {
        assert_true(value.len <= sizeof(g->value));
        g->len = value.len;
        if (value.len)
            memcpy(g->value, value.ptr, value.len);
    }
    if (n->w->on_got)
        n->w->on_got(n, token);
}

static void w_done(void *ctx, uint32_t kind, uint32_t number, int rc)
{
    struct node *n = ctx;

    n->done_rc = rc;
    if (rc == 0)
        assert_int_equal(++n->n_done[kind], number);
    else
        n->n_failed_done++;
    n->n_stopped[kind] += rc == PMIWIRE_EGONE;
    if (n->w->on_done)
        n->w->on_done(n, kind, number, rc);
}

static int w_pairs(void *ctx, uint32_t kind, uint32_t number, const void *block, size_t bytes)
{
    struct node *n = ctx;
    struct pmiwire_keyval kv;
    size_t pos = 0;
    uint32_t n_pairs, here = 0;
    int rc;

    assert_int_equal((uintptr_t)block % 8, 0);
    while ((rc = pmiwire_block_next(block, bytes, &pos, &kv)) == 1)
        here++;
    assert_int_equal(rc, 0);
    memcpy(&n_pairs, (const char *)block + 16, 4); /* of its header, as libshmht's */
    assert_true(here > 0 && here == n_pairs);
    n->n_pairs += here;
    return n->w->on_pairs ? n->w->on_pairs(n, kind, block, bytes) : 0;
}

static void w_ringed(void *ctx, uint32_t rank, int rc, uint32_t place, struct pmiwire_str left,
                     struct pmiwire_str right)
{
    struct node *n = ctx;
    struct world *w = n->w;

    assert_int_equal(w->node_of[rank], n->id);
    w->rings[rank].n++;
    w->rings[rank].rc = rc;
    w->rings[rank].place = place;
    snprintf(w->rings[rank].left, 64, "%.*s", (int)left.len, left.ptr ? left.ptr : "");
    snprintf(w->rings[rank].right, 64, "%.*s", (int)right.len, right.ptr ? right.ptr : "");
}

static void w_failed(void *ctx, int rc, uint32_t node)
{
    struct node *n = ctx;

    n->n_failed++;
    n->failed_rc = rc;
    n->failed_node = node;
}

static const struct pmiwire_exchange_ops w_ops = {
    .size = sizeof(w_ops),
    .send = w_send,
    .node_of = w_node_of,
    .got = w_got,
    .done = w_done,
    .pairs = w_pairs,
    .ringed = w_ringed,
    .failed = w_failed,
};

/* How ranks are placed. */
enum placement { BLOCK, CYCLIC, RANDOM };

static void place(struct world *w, enum placement p)
{
    uint32_t n = w->n_nodes, i;

    for (i = 0; i < w->n_ranks; i++)
        w->node_of[i] = p == BLOCK             ? (uint32_t)((uint64_t)i * n / w->n_ranks)
                        : p == CYCLIC || i < n ? i % n
                                               : w_random(w, n);
    for (i = w->n_ranks; p == RANDOM && i > 1; i--) { /* the first n gave each node one: shuffle */
        uint32_t j = w_random(w, i), t = w->node_of[i - 1];

        w->node_of[i - 1] = w->node_of[j];
        w->node_of[j] = t;
    }
}

/* Adds the node's own options to *o, which has the rest. */
static UNUSED int w_create(struct world *w, uint32_t node, struct pmiwire_exchange_opts *o)
{
    struct node *n = &w->nodes[node];
    uint32_t below = 0, r;

    n->w = w;
    n->id = node;
    n->n_local = 0;
    free(n->ranks);
    n->ranks = calloc(w->n_ranks, sizeof(*n->ranks));
    for (r = 0; r < w->n_ranks; r++) {
        if (w->node_of[r] == node)
            n->ranks[n->n_local++] = r;
        below += w->node_of[r] < node;
    }
    o->size = sizeof(*o);
    if (!o->ops)
        o->ops = &w_ops;
    o->ctx = n;
    o->node = node;
    o->n_nodes = w->n_nodes;
    o->n_ranks = w->n_ranks;
    o->ranks = n->ranks;
    o->n_local = n->n_local;
    o->n_below = below;
    return pmiwire_exchange_create(o, &n->x);
}

static UNUSED void w_init(struct world *w, uint32_t n_nodes, uint32_t n_ranks, enum placement p,
                          uint64_t seed)
{
    memset(w, 0, sizeof(*w));
    w->n_nodes = n_nodes;
    w->n_ranks = n_ranks;
    w->rng = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    w->node_of = calloc(n_ranks, sizeof(*w->node_of));
    w->nodes = calloc(n_nodes, sizeof(*w->nodes));
    w->queues = calloc((size_t)n_nodes * n_nodes, sizeof(*w->queues));
    w->rings = calloc(n_ranks, sizeof(*w->rings));
    w->full = calloc((size_t)n_nodes * n_nodes, sizeof(*w->full));
    assert_true(w->node_of && w->nodes && w->queues && w->rings && w->full);
    for (size_t i = 0; i < (size_t)n_nodes * n_nodes; i++)
        w->queues[i].tail = &w->queues[i].head;
    place(w, p);
}

static UNUSED void w_start(struct world *w, const struct pmiwire_exchange_opts *opts)
{
    for (uint32_t i = 0; i < w->n_nodes; i++) {
        struct pmiwire_exchange_opts o = *opts;

        assert_int_equal(w_create(w, i, &o), 0);
    }
}

static void drop_queue(struct world *w, struct queue *q)
{
    while (q->head) {
        struct msg *m = q->head;

        q->head = m->next;
        w->n_queued--;
        free(m);
    }
    q->tail = &q->head;
}

static UNUSED void w_fini(struct world *w)
{
    for (size_t i = 0; i < (size_t)w->n_nodes * w->n_nodes; i++)
        drop_queue(w, &w->queues[i]);
    for (uint32_t i = 0; i < w->n_nodes; i++) {
        pmiwire_exchange_destroy(w->nodes[i].x);
        free(w->nodes[i].ranks);
    }
    free(w->node_of);
    free(w->nodes);
    free(w->queues);
    free(w->rings);
    free(w->full);
    free(w->gets);
}

static UNUSED struct msg *w_take(struct world *w, uint32_t from, uint32_t to)
{
    struct queue *q = &w->queues[(size_t)from * w->n_nodes + to];
    struct msg *m = q->head;

    if (!m)
        return NULL;
    q->head = m->next;
    if (!q->head)
        q->tail = &q->head;
    w->n_queued--;
    return m;
}

/* Delivers the oldest frame of a pair. */
static UNUSED int w_deliver(struct world *w, uint32_t from, uint32_t to)
{
    struct msg *m = w_take(w, from, to);
    int rc;

    assert_non_null(m);
    w->nodes[to].received++;
    rc = w->nodes[to].dead ? 0 : pmiwire_exchange_input(w->nodes[to].x, from, m->data, m->bytes);
    free(m);
    return rc;
}

/* Frames between slow pairs of nodes arrive when almost nothing else is left.
 * */
static UNUSED bool w_is_slow(struct world *w, size_t pair)
{
    return w->slow && (((uint32_t)pair ^ w->slow) * 2654435761u >> 28) < 4 && w_random(w, 256) != 0;
}

/* Delivers one frame of a pair chosen at random. False: there is none. */
static UNUSED bool w_step(struct world *w, int *rc)
{
    size_t pairs = (size_t)w->n_nodes * w->n_nodes, i, tries = 2 * pairs;

    if (w->n_queued == 0)
        return false;
    for (i = w_random(w, (uint32_t)pairs); !w->queues[i].head || (tries && w_is_slow(w, i));
         i = (i + 1) % pairs)
        tries -= tries > 0;
    *rc = w_deliver(w, (uint32_t)(i / w->n_nodes), (uint32_t)(i % w->n_nodes));
    return true;
}

/* Delivers all frames in flight; none may be refused. */
static UNUSED void w_run(struct world *w)
{
    int rc;

    while (w_step(w, &rc))
        assert_int_equal(rc, 0);
}

/* Delivers all frames except those from one node to another. */
static UNUSED void w_run_but(struct world *w, uint32_t from, uint32_t to)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (uint32_t i = 0; i < w->n_nodes * w->n_nodes; i++)
            if (i != from * w->n_nodes + to && w->queues[i].head) {
                assert_int_equal(w_deliver(w, i / w->n_nodes, i % w->n_nodes), 0);
                moved = true;
            }
    }
}

/* ---- a store of the caller's ---- */

/* ops->find */
static UNUSED int w_find(void *ctx, struct pmiwire_str key, struct pmiwire_str *value)
{
    const struct store *s = &((struct node *)ctx)->store;

    for (uint32_t i = 0; i < s->n; i++)
        if (strlen(s->pairs[i].key) == key.len && memcmp(s->pairs[i].key, key.ptr, key.len) == 0) {
            *value = str(s->pairs[i].value);
            return 0;
        }
    return PMIWIRE_ENOENT;
}

static UNUSED void w_store(struct node *n, struct pmiwire_str key, struct pmiwire_str value)
{
    struct store *s = &n->store;
    uint32_t i;

    for (i = 0; i < s->n; i++)
        if (strlen(s->pairs[i].key) == key.len && memcmp(s->pairs[i].key, key.ptr, key.len) == 0)
            break;
    assert_true(i < sizeof(s->pairs) / sizeof(s->pairs[0]));
    snprintf(s->pairs[i].key, sizeof(s->pairs[i].key), "%.*s", (int)key.len, key.ptr);
    snprintf(s->pairs[i].value, sizeof(s->pairs[i].value), "%.*s", (int)value.len, value.ptr);
    s->n += i == s->n;
}

/* on_pairs: takes the pairs of Fences. */
static UNUSED int w_store_pairs(struct node *n, uint32_t kind, const void *block, size_t bytes)
{
    struct pmiwire_keyval kv;
    size_t pos = 0;

    while (kind == PMIWIRE_COLL_FENCE && pmiwire_block_next(block, bytes, &pos, &kv) == 1)
        w_store(n, kv.key, kv.value);
    return 0;
}

/* A Get with a token of its own; its rc is in gets[token] if it has ended. */
static UNUSED uint64_t w_get_by(struct world *w, uint32_t node, int32_t rank, const char *key,
                                int32_t src, uint32_t how)
{
    struct pmiwire_str value = {NULL, 0};
    uint64_t token = w->n_gets;
    struct get *g;
    int rc;

    if (w->n_gets == w->cap_gets) {
        w->cap_gets = w->cap_gets ? 2 * w->cap_gets : 64;
        w->gets = realloc(w->gets, w->cap_gets * sizeof(*w->gets));
        assert_non_null(w->gets);
    }
    g = &w->gets[w->n_gets++];
    memset(g, 0, sizeof(*g));
    g->pending = true;
    rc = pmiwire_exchange_get(w->nodes[node].x, rank, str(key), src, how, token, &value);
    g = &w->gets[token];
    if (rc == PMIWIRE_PENDING)
        return token;
    assert_false(g->ended);
    g->pending = false;
    g->ended = true;
    g->rc = rc;
    w_culprit(&w->nodes[node], g);
    if (rc == 0) {
        assert_true(value.len <= sizeof(g->value));
        g->len = value.len;
        if (value.len)
            memcpy(g->value, value.ptr, value.len);
    }
    return token;
}

static UNUSED uint64_t w_get(struct world *w, uint32_t node, const char *key, int32_t src,
                             uint32_t how)
{
    return w_get_by(w, node, PMIWIRE_RANK_NONE, key, src, how);
}

static UNUSED void w_gone(struct world *w, uint32_t rank)
{
    assert_int_equal(
        pmiwire_exchange_gone(w->nodes[w->node_of[rank]].x, (int32_t)rank, PMIWIRE_GONE_ENDED), 0);
}

static UNUSED void w_expect(struct world *w, uint64_t token, const char *value)
{
    const struct get *g = &w->gets[token];

    assert_true(g->ended);
    assert_int_equal(g->rc, 0);
    assert_int_equal(g->len, strlen(value));
    assert_memory_equal(g->value, value, g->len);
}

static UNUSED void w_put(struct world *w, uint32_t rank, const char *key, const char *value,
                         uint32_t hint)
{
    assert_int_equal(pmiwire_exchange_put(w->nodes[w->node_of[rank]].x, (int32_t)rank, str(key),
                                          str(value), hint),
                     0);
}

static UNUSED void w_fence(struct world *w)
{
    for (uint32_t i = 0; i < w->n_nodes; i++)
        assert_int_equal(pmiwire_exchange_fence(w->nodes[i].x, PMIWIRE_RANK_ALL), 0);
    w_run(w);
    for (uint32_t i = 1; i < w->n_nodes; i++)
        assert_int_equal(w->nodes[i].n_done[PMIWIRE_COLL_FENCE],
                         w->nodes[0].n_done[PMIWIRE_COLL_FENCE]);
}

static UNUSED void w_tick(struct world *w, uint64_t now_ns)
{
    for (uint32_t i = 0; i < w->n_nodes; i++)
        pmiwire_exchange_tick(w->nodes[i].x, now_ns);
}

static UNUSED struct pmiwire_stats_exchange w_stats(const struct world *w, uint32_t node)
{
    struct pmiwire_stats_exchange s;

    pmiwire_exchange_stats(w->nodes[node].x, &s);
    return s;
}

#endif
