/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Payload of a Fence that is there at once on all nodes, bytes. */
#define PAYLOAD_LIMIT 800e6
#define PAIR_BYTES    29.0
#define VALUE_BYTES   16

struct frame {
    size_t bytes;
    uint32_t from;
    char data[];
};

struct event {
    uint64_t time, serial;
    struct frame *frame; /* NULL: a request of a rank */
    uint32_t node, rank;
};

struct sim;

struct node {
    struct sim *sim;
    struct pmiwire_exchange *x;
    uint64_t busy, tx, rx;
};

struct sim {
    const struct script *s;
    const struct costs *c;
    uint32_t n_nodes, per_node, n_ranks, sample, arity;
    struct node *nodes;
    unsigned char *step; /* by rank: place in the script */
    uint64_t *since;     /* by rank: when its request began */
    struct event *heap;
    size_t n_heap, cap_heap;
    uint64_t serial, end;
    double spent[OP_MAX_];
    bool wrong, out_of_memory;
};

/* ---- events ---- */

static bool earlier(const struct event *a, const struct event *b)
{
    return a->time != b->time ? a->time < b->time : a->serial < b->serial;
}

static void push(struct sim *sim, struct event e)
{
    size_t i;

    if (sim->n_heap == sim->cap_heap) {
        size_t cap = sim->cap_heap ? sim->cap_heap * 2 : 1024;
        struct event *heap = realloc(sim->heap, cap * sizeof(*heap));

        if (!heap) {
            free(e.frame);
            sim->out_of_memory = true;
            return;
        }
        sim->heap = heap;
        sim->cap_heap = cap;
    }
    e.serial = sim->serial++;
    for (i = sim->n_heap++; i > 0 && earlier(&e, &sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
        sim->heap[i] = sim->heap[(i - 1) / 2];
    sim->heap[i] = e;
}

static struct event pop(struct sim *sim)
{
    struct event top = sim->heap[0], e = sim->heap[--sim->n_heap];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < sim->n_heap) {
        if (child + 1 < sim->n_heap && earlier(&sim->heap[child + 1], &sim->heap[child]))
            child++;
        if (!earlier(&sim->heap[child], &e))
            break;
        sim->heap[i] = sim->heap[child];
        i = child;
    }
    sim->heap[i] = e;
    return top;
}

static void work(struct node *n, double ns)
{
    n->busy += (uint64_t)ns;
}

/* ---- ranks ---- */

static uint32_t node_of(const struct sim *sim, uint32_t rank)
{
    return sim->s->cyclic ? rank % sim->n_nodes : rank / sim->per_node;
}

/* A request is answered: the next one follows. */
static void answered(struct node *n, uint32_t rank)
{
    struct sim *sim = n->sim;

    sim->spent[sim->s->ops[sim->step[rank]]] += (double)(n->busy - sim->since[rank]);
    sim->step[rank]++;
    if (n->busy > sim->end)
        sim->end = n->busy;
    if (sim->s->ops[sim->step[rank]] == OP_END)
        return;
    push(sim, (struct event){.time = n->busy + (uint64_t)sim->c->turn,
                             .node = (uint32_t)(n - sim->nodes),
                             .rank = rank});
}

#define SCATTER 2654435761u
#define GATHER  244002641u /* times SCATTER is 1 */

static size_t key_of(const struct sim *sim, char *text, uint32_t rank)
{
    return (size_t)(sim->s->scattered ? snprintf(text, 32, "%08x-addr", rank * SCATTER)
                                      : snprintf(text, 32, "addr-%08x", rank));
}

static uint32_t rank_of(const struct sim *sim, struct pmiwire_str key)
{
    return (uint32_t)strtoul(key.ptr + (sim->s->scattered ? 0 : 5), NULL, 16) *
           (sim->s->scattered ? GATHER : 1);
}

static size_t value_of(char *text, uint32_t rank)
{
    return (size_t)snprintf(text, 32, "%0*x", VALUE_BYTES, rank * 2654435761u);
}

static void check(struct sim *sim, uint32_t rank, struct pmiwire_str value)
{
    char want[32];

    if (value.len != value_of(want, rank) || memcmp(want, value.ptr, value.len) != 0)
        sim->wrong = true;
}

/* Whose value a rank's present request asks for. */
static uint32_t source(const struct sim *sim, uint32_t rank)
{
    switch (sim->s->ops[sim->step[rank]]) {
    case OP_GET_LEFT: return (rank + sim->n_ranks - 1) % sim->n_ranks;
    case OP_GET_RIGHT: return (rank + 1) % sim->n_ranks;
    default: return 0;
    }
}

/* Is this rank's pair in the sample? Of a Fence alone, which is what costs memory: whole nodes are,
 * so that segments are as long as ever. */
static bool sampled(const struct sim *sim, uint32_t rank)
{
    return node_of(sim, rank) % sim->sample == 0;
}

static void put(struct node *n, uint32_t rank)
{
    struct sim *sim = n->sim;
    struct pmiwire_str key, value;
    char k[32], v[32];

    if (!(sim->s->put_every ? rank % sim->s->put_every == 0 : rank == 0) || !sampled(sim, rank))
        return;
    key = (struct pmiwire_str){k, key_of(sim, k, rank)};
    value = (struct pmiwire_str){v, value_of(v, rank)};
    if (pmiwire_exchange_put(n->x, (int32_t)rank, key, value, sim->s->hint) != 0)
        sim->wrong = true;
}

/* Whether it is answered at once. */
static bool get(struct node *n, uint32_t rank)
{
    struct sim *sim = n->sim;
    uint32_t src = source(sim, rank);
    struct pmiwire_str value;
    char k[32];
    int rc = pmiwire_exchange_get(n->x, (int32_t)rank, (struct pmiwire_str){k, key_of(sim, k, src)},
                                  (int32_t)src, sim->s->how, rank, &value);

    if (rc == 0)
        check(sim, src, value);
    else if (rc == PMIWIRE_PENDING)
        return false;
    else if (sampled(sim, src) ||
             rc !=
                 PMIWIRE_ENOENT) /* else it would have been there, and is as local as the others */
        sim->wrong = true;
    return true;
}

static void request(struct node *n, uint32_t rank)
{
    struct sim *sim = n->sim;
    char v[32];
    int rc = 0;

    work(n, sim->c->serve);
    switch (sim->s->ops[sim->step[rank]]) {
    case OP_PUT: put(n, rank); break;
    case OP_GET_LEFT:
    case OP_GET_RIGHT:
    case OP_GET_ONE:
        if (!get(n, rank))
            return;
        break;
    case OP_FENCE: rc = pmiwire_exchange_fence(n->x, (int32_t)rank); break;
    case OP_RING: {
        struct pmiwire_str value = {v, value_of(v, rank)};

        rc = pmiwire_exchange_ring(n->x, (int32_t)rank, value, value);
        break;
    }
    default: return;
    }
    if (rc != 0)
        sim->wrong = true;
    if (sim->s->ops[sim->step[rank]] != OP_FENCE && sim->s->ops[sim->step[rank]] != OP_RING)
        answered(n, rank);
}

/* ---- callbacks ---- */

static int on_send(void *ctx, uint32_t to, const struct iovec *iov, uint32_t n_iov, size_t bytes)
{
    struct node *n = ctx;
    struct sim *sim = n->sim;
    struct frame *f = malloc(sizeof(*f) + bytes);
    uint64_t wire;
    size_t at = 0;

    if (!f) {
        sim->out_of_memory = true;
        return 0;
    }
    f->bytes = bytes;
    f->from = (uint32_t)(n - sim->nodes);
    for (uint32_t i = 0; i < n_iov; i++) {
        memcpy(f->data + at, iov[i].iov_base, iov[i].iov_len);
        at += iov[i].iov_len;
    }
    /* What a sampled Fence carries stands for `sample` times as much. */
    wire = (uint64_t)(sim->c->G * (double)((bytes - PMIWIRE_EXCHANGE_HEADER_BYTES) * sim->sample +
                                           PMIWIRE_EXCHANGE_HEADER_BYTES));
    work(n, sim->c->o);
    if (n->tx < n->busy)
        n->tx = n->busy;
    push(sim, (struct event){.time = n->tx + wire + (uint64_t)sim->c->L, .frame = f, .node = to});
    n->tx += wire > (uint64_t)sim->c->g ? wire : (uint64_t)sim->c->g;
    return 0;
}

static uint32_t on_node_of(void *ctx, uint32_t rank)
{
    const struct node *n = ctx;

    return node_of(n->sim, rank);
}

static void on_got(void *ctx, uint64_t token, int rc, struct pmiwire_str value)
{
    struct node *n = ctx;
    struct sim *sim = n->sim;
    uint32_t rank = (uint32_t)token;

    work(n, sim->c->reply);
    if (rc == 0)
        check(sim, source(sim, rank), value);
    else
        sim->wrong = true;
    answered(n, rank);
}

static uint32_t local_rank(const struct sim *sim, uint32_t node, uint32_t i)
{
    return sim->s->cyclic ? i * sim->n_nodes + node : node * sim->per_node + i;
}

static void on_done(void *ctx, uint32_t kind, uint32_t number, int rc)
{
    struct node *n = ctx;
    struct sim *sim = n->sim;

    (void)kind, (void)number;
    if (rc != 0)
        sim->wrong = true;
    for (uint32_t i = 0; i < sim->per_node; i++) {
        work(n, sim->c->reply);
        answered(n, local_rank(sim, (uint32_t)(n - sim->nodes), i));
    }
}

static int on_pairs(void *ctx, uint32_t kind, uint32_t number, const void *block, size_t bytes)
{
    const struct node *n = ctx;

    (void)kind, (void)number, (void)block;
    work(ctx, n->sim->c->byte_ns * (double)(bytes * n->sim->sample));
    return 0;
}

/* What Fences have brought is the same on all nodes, and known. */
static int on_find(void *ctx, struct pmiwire_str key, struct pmiwire_str *value)
{
    static char text[32];
    const struct node *n = ctx;
    struct pmiwire_stats_exchange s;
    uint32_t rank;

    pmiwire_exchange_stats(n->x, &s);
    if (s.n_fences == 0 || key.len != 13 || n->sim->s->hint == PMIWIRE_HINT_SPARSE)
        return PMIWIRE_ENOENT;
    rank = rank_of(n->sim, key);
    if (!sampled(n->sim, rank))
        return PMIWIRE_ENOENT;
    *value = (struct pmiwire_str){text, value_of(text, rank)};
    return 0;
}

static void on_ringed(void *ctx, uint32_t rank, int rc, uint32_t place, struct pmiwire_str left,
                      struct pmiwire_str right)
{
    struct node *n = ctx;
    struct sim *sim = n->sim;
    uint32_t node = place / sim->per_node, i = place % sim->per_node;
    uint32_t before = (place + sim->n_ranks - 1) % sim->n_ranks, after = (place + 1) % sim->n_ranks;

    work(n, sim->c->reply);
    if (rc != 0 || local_rank(sim, node, i) != rank) {
        sim->wrong = true;
        return;
    }
    check(sim, local_rank(sim, before / sim->per_node, before % sim->per_node), left);
    check(sim, local_rank(sim, after / sim->per_node, after % sim->per_node), right);
    answered(n, rank);
}

/* ---- the run ---- */

static int start(struct sim *sim)
{
    static const struct pmiwire_exchange_ops ops = {
        .size = sizeof(ops),
        .send = on_send,
        .node_of = on_node_of,
        .got = on_got,
        .done = on_done,
        .pairs = on_pairs,
        .find = on_find,
        .ringed = on_ringed,
    };
    uint32_t ranks[1024];

    if (sim->per_node > 1024)
        return -1;
    for (uint32_t i = 0; i < sim->n_nodes; i++) {
        struct pmiwire_exchange_opts o = {.size = sizeof(o), .ops = &ops, .ranks = ranks};

        for (uint32_t k = 0; k < sim->per_node; k++)
            ranks[k] = local_rank(sim, i, k);
        sim->nodes[i].sim = sim;
        o.ctx = &sim->nodes[i];
        o.node = i;
        o.n_nodes = sim->n_nodes;
        o.n_ranks = sim->n_ranks;
        o.n_local = sim->per_node;
        o.n_below = i * sim->per_node;
        o.design = sim->s->design;
        o.fence = sim->s->fence;
        o.flags = sim->s->flags;
        o.arity = sim->arity;
        if (sim->sample > 1) /* shorter frames, so that sets still are passed on in several */
            o.max_frame_bytes = PMIWIRE_EXCHANGE_MIN_FRAME_BYTES;
        if (pmiwire_exchange_create(&o, &sim->nodes[i].x) != 0)
            return -1;
        for (uint32_t k = 0; k < sim->per_node; k++)
            push(sim, (struct event){.time = 0, .node = i, .rank = ranks[k]});
    }
    return 0;
}

static void handle(struct sim *sim, struct event *e)
{
    struct node *n = &sim->nodes[e->node];
    uint64_t now = e->time;

    if (!e->frame) {
        sim->since[e->rank] = now;
        if (n->busy < now)
            n->busy = now;
        request(n, e->rank);
        return;
    }
    {
        uint64_t wire = (uint64_t)(sim->c->G * (double)(e->frame->bytes * sim->sample));

        if (now < n->rx)
            now = n->rx;
        n->rx = now + (wire > (uint64_t)sim->c->g ? wire : (uint64_t)sim->c->g);
        if (n->busy < now)
            n->busy = now;
        work(n, sim->c->o + sim->c->byte_ns * (double)(e->frame->bytes * sim->sample));
        if (pmiwire_exchange_input(n->x, e->frame->from, e->frame->data, e->frame->bytes) != 0)
            sim->wrong = true;
        free(e->frame);
    }
}

static void sum_up(struct sim *sim, struct result *r)
{
    uint32_t done = 0;

    for (uint32_t i = 0; i < sim->n_nodes; i++) {
        struct pmiwire_stats_exchange s;
        uint64_t sent = 0, received = 0, bytes = 0, bytes_in = 0;

        pmiwire_exchange_stats(sim->nodes[i].x, &s);
        for (uint32_t t = 1; t < PMIWIRE_FRAME_COUNT_; t++) {
            const uint64_t scale = t == PMIWIRE_FRAME_COLL ? sim->sample : 1;

            r->frames[t] += s.frames[t].n_sent;
            sent += s.frames[t].n_sent;
            received += s.frames[t].n_received;
            bytes += (s.frames[t].bytes_sent - s.frames[t].n_sent * PMIWIRE_EXCHANGE_HEADER_BYTES) *
                         scale +
                     s.frames[t].n_sent * PMIWIRE_EXCHANGE_HEADER_BYTES;
            bytes_in += (s.frames[t].bytes_received -
                         s.frames[t].n_received * PMIWIRE_EXCHANGE_HEADER_BYTES) *
                            scale +
                        s.frames[t].n_received * PMIWIRE_EXCHANGE_HEADER_BYTES;
        }
        if (s.n_waiting)
            sim->wrong = true;
        if (sent + received > r->max_frames)
            r->max_frames = sent + received;
        if (sent > r->max_sent)
            r->max_sent = sent;
        if (bytes_in > r->max_bytes_received)
            r->max_bytes_received = bytes_in;
        if (s.n_keys > r->max_keys)
            r->max_keys = s.n_keys;
        if (s.peak_bytes > r->max_memory)
            r->max_memory = s.peak_bytes;
        if (s.payload_bytes * sim->sample > r->payload)
            r->payload = s.payload_bytes * sim->sample;
        r->mean_frames += (double)sent / sim->n_nodes;
        r->mean_bytes += (double)bytes / sim->n_nodes;
        r->mean_keys += (double)s.n_keys / sim->n_nodes;
        r->n_requests += s.n_requests;
    }
    for (uint32_t rank = 0; rank < sim->n_ranks; rank++)
        done += sim->s->ops[sim->step[rank]] == OP_END;
    r->time_us = (double)sim->end / 1e3;
    for (int op = 0; op < OP_MAX_; op++)
        r->op_us[op] = sim->spent[op] / sim->n_ranks / 1e3;
    r->sample = sim->sample;
    r->right = !sim->wrong && done == sim->n_ranks;
}

/* One of how many nodes' pairs are really in a Fence: a power of two, and so a divisor of the sizes
 * that are run. */
static uint32_t sample_for(const struct script *s, uint32_t n_nodes, uint32_t n_ranks)
{
    const double whole = s->put_every ? (double)n_ranks / s->put_every * PAIR_BYTES * n_nodes : 0;
    uint32_t sample = 1;
    bool fence = false;

    for (size_t i = 0; i < 6; i++)
        fence = fence || s->ops[i] == OP_FENCE;
    while (fence && whole / sample > PAYLOAD_LIMIT && sample < n_nodes / 4)
        sample *= 2;
    return sample;
}

int sim_run(const struct script *s, uint32_t n_nodes, uint32_t per_node, const struct costs *c,
            uint32_t sample, uint32_t arity, struct result *r)
{
    struct sim sim = {
        .s = s, .c = c, .n_nodes = n_nodes, .per_node = per_node, .n_ranks = n_nodes * per_node};

    memset(r, 0, sizeof(*r));
    sim.sample = sample ? sample : sample_for(s, n_nodes, sim.n_ranks);
    sim.arity = arity;
    sim.nodes = calloc(n_nodes, sizeof(*sim.nodes));
    sim.step = calloc(sim.n_ranks, 1);
    sim.since = calloc(sim.n_ranks, sizeof(*sim.since));
    sim.out_of_memory = !sim.nodes || !sim.step || !sim.since || start(&sim) != 0;
    while (sim.n_heap && !sim.out_of_memory) {
        struct event e = pop(&sim);

        handle(&sim, &e);
    }
    if (!sim.out_of_memory)
        sum_up(&sim, r);
    for (size_t i = 0; i < sim.n_heap; i++)
        free(sim.heap[i].frame);
    for (uint32_t i = 0; sim.nodes && i < n_nodes; i++)
        pmiwire_exchange_destroy(sim.nodes[i].x);
    free(sim.nodes);
    free(sim.step);
    free(sim.since);
    free(sim.heap);
    return sim.out_of_memory;
}
