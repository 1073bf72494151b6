/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job's exchange: its nodes, and the calls between the exchange and the rest of the server.
 *
 * The server stores a pair first, by ops->put() or in job->kvs, then passes it to the exchange:
 * with one node the exchange wakes waiting Gets, with several a Fence carries the pair. So the
 * exchange's `find` finds the pairs that this node has put. Only the exchange has the SPARSE keys
 * of a job of several nodes. Values travel with a NUL behind them, so that a block can be merged
 * unchanged into a table of C strings.
 *
 * The exchange numbers the nodes that have ranks from 0; job->nodes[] has the caller's numbers.
 */
#include <errno.h>
#include <string.h>

#include "server_internal.h"

/* ---- nodes ---- */

/* Numbers the nodes that have ranks. */
static int number_nodes(struct pmiwire__job *j)
{
    struct pmiwire_server *s = j->s;
    uint32_t *sorted = pmiwire__realloc(s, NULL, j->n_ranks * sizeof(*sorted)), i, n = 1;

    if (!sorted)
        return -ENOMEM;
    memcpy(sorted, j->node_of, j->n_ranks * sizeof(*sorted));
    pmiwire__sort(sorted, j->n_ranks, sizeof(*sorted));
    for (i = 1; i < j->n_ranks; i++)
        if (sorted[i] != sorted[n - 1])
            sorted[n++] = sorted[i];
    j->nodes = pmiwire__alloc(s, n * sizeof(*j->nodes));
    j->node_ranks = pmiwire__alloc(s, n * sizeof(*j->node_ranks));
    if (j->nodes && j->node_ranks) {
        memcpy(j->nodes, sorted, n * sizeof(*j->nodes));
        for (i = 0; i < j->n_ranks; i++) {
            j->node_of[i] = pmiwire__sorted_find(j->nodes, n, j->node_of[i]);
            j->node_ranks[j->node_of[i]]++;
        }
    }
    pmiwire__free(s, sorted);
    j->n_nodes = n;
    return j->nodes && j->node_ranks ? 0 : -ENOMEM;
}

uint32_t pmiwire__local_index(const struct pmiwire__job *j, int32_t rank)
{
    if (rank < 0 || (uint32_t)rank >= j->n_ranks)
        return PMIWIRE__NOT_HERE;
    return j->locals ? pmiwire__sorted_find(j->locals, j->n_local, (uint32_t)rank) : (uint32_t)rank;
}

/* ---- from the exchange ---- */

static int x_send(void *ctx, uint32_t node, const struct iovec *iov, uint32_t n_iov, size_t bytes)
{
    const struct pmiwire__job *j = ctx;
    struct pmiwire_peer who;

    if (j->removed || !j->s->ops.send)
        return 0;
    pmiwire__job_peer(j, &who);
    return j->s->ops.send(j->s->opts.ctx, &who, j->nodes[node], iov, n_iov, bytes);
}

static uint32_t x_node_of(void *ctx, uint32_t rank)
{
    const struct pmiwire__job *j = ctx;

    return j->all_here ? 0 : j->node_of[rank];
}

bool pmiwire__find(const struct pmiwire__job *j, struct pmiwire_str key, struct pmiwire_str *value)
{
    const struct pmiwire__entry *e;
    struct pmiwire_peer who;

    if (j->s->ops.find) {
        pmiwire__job_peer(j, &who);
        return j->s->ops.find(j->s->opts.ctx, &who, key, value) == 0;
    }
    e = pmiwire__kvs_find(&j->kvs, key);
    if (e)
        *value = pmiwire__entry_value(e);
    return e != NULL;
}

/* Replaces the value by a copy with a NUL, in the server's buffer. */
static int add_nul(struct pmiwire_server *s, struct pmiwire_str *value)
{
    struct pmiwire__buf *b = &s->value;

    b->len = 0;
    if (pmiwire__buf_room(&s->mem, b, value->len + 1) != 0)
        return -ENOMEM;
    pmiwire__buf_add(b, value->ptr, value->len);
    pmiwire__buf_add(b, "", 1);
    *value = (struct pmiwire_str){b->ptr, b->len};
    return 0;
}

static int x_find(void *ctx, struct pmiwire_str key, struct pmiwire_str *value)
{
    const struct pmiwire__job *j = ctx;

    if (!pmiwire__find(j, key, value))
        return PMIWIRE_ENOENT;
    value->len++; /* the NUL behind it */
    return 0;
}

static int merge_pairs(struct pmiwire__job *j, const void *block, size_t bytes)
{
    struct pmiwire_keyval kv;
    struct pmiwire_peer who;
    size_t pos = 0;
    int rc;

    /* Check each NUL: readers rely on it, and the sender may be another program. */
    while ((rc = pmiwire_block_next(block, bytes, &pos, &kv)) == 1)
        if (kv.value.len == 0 || kv.value.ptr[kv.value.len - 1] != '\0')
            return -EINVAL;
    if (rc != 0)
        return rc;
    pos = 0;
    if (j->s->ops.merge) {
        pmiwire__job_peer(j, &who);
        rc = j->s->ops.merge(j->s->opts.ctx, &who, block, bytes);
        if (rc <= 0)
            return rc;
    }
    /* max_kvs_bytes does not apply: the nodes that put these pairs have checked it. */
    while ((rc = pmiwire_block_next(block, bytes, &pos, &kv)) == 1) {
        rc = pmiwire__kvs_put(&j->kvs, kv.key, pmiwire__without_nul(kv.value), j->number);
        if (rc != 0)
            break;
    }
    return rc;
}

static int x_pairs(void *ctx, uint32_t kind, uint32_t number, const void *block, size_t bytes)
{
    struct pmiwire__job *j = ctx;

    return kind == PMIWIRE_COLL_FENCE ? merge_pairs(j, block, bytes)
                                      : pmiwire__gathered(j, number, block, bytes);
}

static void x_got(void *ctx, uint64_t token, int rc, struct pmiwire_str value)
{
    const struct pmiwire__job *j = ctx;
    struct pmiwire_conn *c = pmiwire__by_token(j->s, token);

    if (c && c->pend == PMIWIRE__PEND_GET)
        pmiwire__get_done(c, rc, pmiwire__without_nul(value));
}

static void x_done(void *ctx, uint32_t kind, uint32_t number, int rc)
{
    struct pmiwire__job *j = ctx;

    if (kind == PMIWIRE_COLL_ALLGATHER && rc == 0) {
        rc = pmiwire__gathered(j, number, NULL, 0);
        if (rc != 0)
            (void)pmiwire_exchange_fail(j->x, rc, 0);
    }
    pmiwire__coll_done(j, kind, rc);
}

static void x_ringed(void *ctx, uint32_t rank, int rc, uint32_t place, struct pmiwire_str left,
                     struct pmiwire_str right)
{
    pmiwire__ring_done(ctx, rank, rc, place, left, right);
}

static void x_failed(void *ctx, int rc, uint32_t node)
{
    const struct pmiwire__job *j = ctx;
    struct pmiwire_peer who;

    if (j->removed || !j->s->ops.failed)
        return;
    pmiwire__job_peer(j, &who);
    j->s->ops.failed(j->s->opts.ctx, &who, rc, j->n_nodes ? j->nodes[j->all_here ? 0 : node] : 0);
}

/* ---- life ---- */

/* Lists this node's ranks, and counts the ranks of the nodes below it. */
static uint32_t *list_locals(struct pmiwire__job *j, uint32_t *n_below)
{
    uint32_t *ranks, i, n = 0;

    *n_below = 0;
    j->n_local = j->all_here ? j->n_ranks : j->node_ranks[j->me];
    ranks = pmiwire__realloc(j->s, NULL, j->n_local * sizeof(*ranks));
    if (!ranks)
        return NULL;
    for (i = 0; i < j->n_ranks; i++) {
        if (j->all_here || j->node_of[i] == j->me)
            ranks[n++] = i;
        else
            *n_below += j->node_of[i] < j->me;
    }
    return ranks;
}

int pmiwire__job_place(struct pmiwire__job *j, const struct pmiwire_job_opts *o)
{
    static const struct pmiwire_exchange_ops ops = {.size = sizeof(ops),
                                                    .send = x_send,
                                                    .node_of = x_node_of,
                                                    .got = x_got,
                                                    .done = x_done,
                                                    .pairs = x_pairs,
                                                    .find = x_find,
                                                    .ringed = x_ringed,
                                                    .failed = x_failed};
    struct pmiwire_exchange_opts xo = {.size = sizeof(xo), .ops = &ops, .ctx = j};
    struct pmiwire_server *s = j->s;
    uint32_t *ranks;
    int rc;

    if (j->node_of) {
        rc = number_nodes(j);
        if (rc != 0)
            return rc;
    }
    j->all_here = !s->ops.send || j->n_nodes <= 1;
    if (s->ops.send && j->n_nodes) {
        j->me = pmiwire__sorted_find(j->nodes, j->n_nodes, o->node);
        if (j->me == UINT32_MAX)
            return -EINVAL;
    }
    ranks = list_locals(j, &xo.n_below);
    if (!ranks)
        return -ENOMEM;
    xo.allocator = &s->mem.a;
    xo.job = o->number;
    xo.node = j->all_here ? 0 : j->me;
    xo.n_nodes = j->all_here ? 1 : j->n_nodes;
    xo.n_ranks = j->n_ranks;
    xo.ranks = ranks;
    xo.n_local = j->n_local;
    xo.design = o->design;
    xo.fence = o->fence;
    xo.arity = o->arity;
    xo.max_frame_bytes = o->max_frame_bytes;
    j->max_pair_bytes = (o->max_frame_bytes ? o->max_frame_bytes : PMIWIRE_EXCHANGE_FRAME_BYTES) -
                        PMIWIRE_EXCHANGE_OVERHEAD_BYTES;
    xo.max_bytes = o->max_exchange_bytes;
    xo.wait_ns = s->opts.wait_ns;
    rc = pmiwire_exchange_create(&xo, &j->x);
    if (j->all_here)
        pmiwire__free(s, ranks);
    else
        j->locals = ranks;
    if (rc != 0)
        return rc;
    j->gone = pmiwire__alloc(s, j->n_local);
    j->conns = pmiwire__alloc(s, j->n_local * sizeof(*j->conns));
    return j->gone && j->conns ? 0 : -ENOMEM;
}

/* ---- to the exchange ---- */

/* Checks that frames can carry this pair. */
static int check_frame(const struct pmiwire__job *j, struct pmiwire_str key,
                       struct pmiwire_str value)
{
    if (key.len > PMIWIRE_EXCHANGE_MAX_KEY_BYTES)
        return PMIWIRE_EKEYLEN;
    return value.len >= PMIWIRE_EXCHANGE_MAX_VALUE_BYTES ||
                   key.len + value.len + 1 > j->max_pair_bytes
               ? PMIWIRE_EVALLEN
               : 0;
}

/* Returns whether a DENSE pair goes to this node's store alone. */
static bool exchange_needs_none(const struct pmiwire__job *j)
{
    return j->all_here && j->n_gets == 0;
}

/* Returns rc. If the exchange is at its limit, keeps the limit for the error's text. */
static int note_limit(struct pmiwire__job *j, int rc)
{
    if (rc == -ENOMEM && pmiwire__exchange_at_max(j->x, &j->s->limit_bytes))
        j->s->limit = "max_exchange_bytes";
    return rc;
}

int pmiwire__forward_reserve(struct pmiwire__job *j, struct pmiwire_str key,
                             struct pmiwire_str value)
{
    struct pmiwire_server *s = j->s;
    int rc;

    if (exchange_needs_none(j))
        return 0;
    rc = check_frame(j, key, value);
    if (rc != 0)
        return rc;
    s->value.len = 0;
    if (pmiwire__buf_room(&s->mem, &s->value, value.len + 1) != 0)
        return -ENOMEM;
    return note_limit(j, pmiwire__exchange_reserve(j->x, key, value.len + 1));
}

int pmiwire__put(struct pmiwire_conn *c, struct pmiwire_str key, struct pmiwire_str value,
                 uint32_t hint)
{
    struct pmiwire__job *j = c->job;
    struct pmiwire_server *s = c->s;
    struct pmiwire_peer who;
    struct pmiwire_str old;
    int rc;

    /* A key that a Fence has brought stays DENSE. */
    if (hint == PMIWIRE_HINT_SPARSE && !j->all_here && !pmiwire__find(j, key, &old))
        return pmiwire__forward_put(j, c->rank, key, value, hint);
    rc = pmiwire__forward_reserve(j, key, value);
    if (rc != 0)
        return rc;
    if (s->ops.put) {
        pmiwire__peer(c, &who);
        rc = s->ops.put(s->opts.ctx, &who, key, value);
    } else {
        rc = pmiwire__store(s, j, &j->kvs, key, value);
    }
    return rc != 0 ? rc : pmiwire__forward_put(j, c->rank, key, value, PMIWIRE_HINT_DENSE);
}

int pmiwire__forward_put(struct pmiwire__job *j, int32_t rank, struct pmiwire_str key,
                         struct pmiwire_str value, uint32_t hint)
{
    struct pmiwire_server *s = j->s;

    if (exchange_needs_none(j))
        return 0;
    if (add_nul(s, &value) != 0)
        return -ENOMEM;
    return note_limit(j, pmiwire_exchange_put(j->x, rank, key, value, hint));
}

int pmiwire_server_rank_ended(struct pmiwire_server *s, uint32_t job, int32_t rank)
{
    struct pmiwire__job *j = pmiwire__job(s, job);
    const struct pmiwire_conn *c;

    if (!j)
        return PMIWIRE_ENOENT;
    if (pmiwire__local_index(j, rank) == PMIWIRE__NOT_HERE)
        return -EINVAL;
    pmiwire__enter(s);
    c = pmiwire__conn_of(j, rank);
    pmiwire__rank_gone(
        j, rank, c && c->state == PMIWIRE_CONN_INITED ? PMIWIRE_GONE_ENDED : PMIWIRE_GONE_ABSENT,
        c ? c->group : NULL);
    pmiwire__leave(s);
    return 0;
}

/* Returns the exchange's number of a node; UINT32_MAX: the node has none of the job's ranks. */
static uint32_t exchange_node(const struct pmiwire__job *j, uint32_t node)
{
    return j->all_here ? UINT32_MAX : pmiwire__sorted_find(j->nodes, j->n_nodes, node);
}

int pmiwire_server_frame(struct pmiwire_server *s, uint32_t job, uint32_t node, const void *data,
                         size_t n)
{
    struct pmiwire__job *j = pmiwire__job(s, job);
    int rc;

    if (!j)
        return PMIWIRE_ENOENT;
    pmiwire__enter(s);
    rc = pmiwire_exchange_input(j->x, exchange_node(j, node), data, n);
    pmiwire__leave(s);
    return rc;
}

int pmiwire_server_link_ready(struct pmiwire_server *s, uint32_t job, uint32_t node)
{
    struct pmiwire__job *j = pmiwire__job(s, job);
    int rc;

    if (!j)
        return PMIWIRE_ENOENT;
    pmiwire__enter(s);
    rc = pmiwire_exchange_ready(j->x, exchange_node(j, node));
    pmiwire__leave(s);
    return rc;
}

int pmiwire_server_node_lost(struct pmiwire_server *s, uint32_t job, uint32_t node)
{
    struct pmiwire__job *j = pmiwire__job(s, job);
    int rc;

    if (!j)
        return PMIWIRE_ENOENT;
    pmiwire__enter(s);
    rc = pmiwire_exchange_fail(j->x, PMIWIRE_ELOST, exchange_node(j, node));
    pmiwire__leave(s);
    return rc;
}

const struct pmiwire_exchange *pmiwire_server_exchange(const struct pmiwire_server *s, uint32_t job)
{
    const struct pmiwire__job *j = pmiwire__job(s, job);

    return j ? j->x : NULL;
}
