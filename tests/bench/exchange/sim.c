/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim.h"

#include "processors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Payload of a Fence that all nodes hold at the same time, bytes. */
#define PAYLOAD_LIMIT 800e6
#define PAIR_BYTES    29.0
#define VALUE_BYTES   16
#define SHAKE_BYTES   80 /* of each of the three messages, about */

enum kind {
    BEGIN,   /* a rank */
    REQUEST, /* of a rank; its answer */
    FRAMES,
    CONNECTED, /* followed by a handshake of three messages; the last one comes with frames */
    HELLO,
    WELCOME,
};

/* A process's item. A rank has one, which travels to its server and back. */
struct work {
    struct item item; /* the first */
    enum kind kind;
    uint32_t from;        /* rank or node */
    struct frame *frames; /* oldest first */
};

struct frame {
    struct frame *next;
    size_t bytes;
    char data[];
};

/* From one node to another; from == to: an empty place of the table. */
struct link {
    uint32_t from, to;
    bool open;
    struct frame *first, *last; /* that wait until it is open */
};

struct outgoing {
    uint32_t to, order;
    struct frame *frame;
};

struct sim;

struct node {
    struct sim *sim;
    struct pmiwire_exchange *x;
    uint64_t now; /* in its turn */
    uint32_t n_dialled;
};

struct sim {
    const struct script *s;
    const struct costs *c;
    uint32_t n_nodes, per_node, n_ranks, sample, arity;
    enum connected connected;
    bool cold;
    struct processors p; /* processes: servers by node, then ranks */
    struct node *nodes;
    struct work *requests; /* by rank */
    unsigned char *step;   /* by rank: place in the script */
    uint64_t *since;       /* by rank: when that began */
    struct outgoing *out;  /* of the current turn */
    size_t n_out, cap_out;
    struct link *links; /* by hash; of those that were not there at the start */
    size_t n_links, cap_links;
    uint64_t end, rank_ns, server_ns, n_packets;
    double spent[OP_MAX_];
    bool wrong, out_of_memory;
};

static uint64_t ns(double t)
{
    return (uint64_t)(t + 0.5);
}

static uint32_t node_of(const struct sim *sim, uint32_t rank)
{
    return sim->s->cyclic ? rank % sim->n_nodes : rank / sim->per_node;
}

static uint32_t node_number(const struct node *n)
{
    return (uint32_t)(n - n->sim->nodes);
}

/* ---- pairs ---- */

#define SCATTER 2654435761u
#define GATHER  244002641u /* times SCATTER is 1 */

static size_t key_of(const struct sim *sim, char *text, uint32_t number)
{
    return (size_t)(sim->s->scattered ? snprintf(text, 32, "%08x-addr", number * SCATTER)
                                      : snprintf(text, 32, "addr-%08x", number));
}

static uint32_t number_of(const struct sim *sim, struct pmiwire_str key)
{
    return (uint32_t)strtoul(key.ptr + (sim->s->scattered ? 0 : 5), NULL, 16) *
           (sim->s->scattered ? GATHER : 1);
}

static size_t value_of(char *text, uint32_t number)
{
    return (size_t)snprintf(text, 32, "%0*x", VALUE_BYTES, number * SCATTER);
}

static void check(struct sim *sim, uint32_t number, struct pmiwire_str value)
{
    char want[32];

    if (value.len != value_of(want, number) || memcmp(want, value.ptr, value.len) != 0)
        sim->wrong = true;
}

/* Keys are numbered: those that a rank puts follow each other. */
static uint32_t keys_a_rank(const struct sim *sim)
{
    return sim->s->put_before ? sim->s->put_before : 1;
}

/* The rank whose value a rank's current request asks for. */
static uint32_t source(const struct sim *sim, uint32_t rank)
{
    switch (sim->s->ops[sim->step[rank]]) {
    case OP_GET_LEFT: return (rank + sim->n_ranks - 1) % sim->n_ranks;
    case OP_GET_RIGHT: return (rank + 1) % sim->n_ranks;
    default: return 0;
    }
}

/* Is this rank's pair in the sample? Only Fences are sampled, as they need the memory; whole nodes
 * are taken, so that segments keep their length. */
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
    for (uint32_t i = 0; i < keys_a_rank(sim); i++) {
        const uint32_t number = rank * keys_a_rank(sim) + i;

        key = (struct pmiwire_str){k, key_of(sim, k, number)};
        value = (struct pmiwire_str){v, value_of(v, number)};
        if (pmiwire_exchange_put(n->x, (int32_t)rank, key, value, sim->s->hint) != 0)
            sim->wrong = true;
    }
}

/* Whether the server answers at once. */
static bool get(struct node *n, uint32_t rank)
{
    struct sim *sim = n->sim;
    uint32_t src = source(sim, rank);
    struct pmiwire_str value;
    char k[32];
    int rc = pmiwire_exchange_get(n->x, (int32_t)rank,
                                  (struct pmiwire_str){k, key_of(sim, k, src * keys_a_rank(sim))},
                                  (int32_t)src, sim->s->how, rank, &value);

    if (rc == 0)
        check(sim, src * keys_a_rank(sim), value);
    else if (rc == PMIWIRE_PENDING)
        return false;
    else if (sampled(sim, src) ||
             rc != PMIWIRE_ENOENT) /* else it would be there; it costs as a local one */
        sim->wrong = true;
    return true;
}

/* ---- frames ---- */

/* A sampled Fence's payload stands for `sample` times as much. */
static double charged_bytes(const struct sim *sim, size_t bytes)
{
    return (double)(bytes - PMIWIRE_EXCHANGE_HEADER_BYTES) * sim->sample +
           PMIWIRE_EXCHANGE_HEADER_BYTES;
}

/* A frame's cost for its sender and its receiver. */
static void work_on_frame(struct node *n, size_t bytes)
{
    const struct costs *c = n->sim->c;
    const double all = charged_bytes(n->sim, bytes);
    const double frames =
        all > PMIWIRE_EXCHANGE_FRAME_BYTES ? all / PMIWIRE_EXCHANGE_FRAME_BYTES : 1;

    n->now += ns(c->frame * frames + (c->copy_byte + c->crypt_byte) * all);
}

static struct work *new_work(struct sim *sim, enum kind kind, uint32_t from)
{
    struct work *w = calloc(1, sizeof(*w));

    if (w) {
        w->kind = kind;
        w->from = from;
    } else {
        sim->out_of_memory = true;
    }
    return w;
}

static void free_frames(struct frame *f)
{
    while (f) {
        struct frame *next = f->next;

        free(f);
        f = next;
    }
}

static void drop(void *ctx, struct item *item)
{
    struct work *w = (struct work *)item;

    if (w->kind == BEGIN || w->kind == REQUEST)
        return;
    free_frames(w->frames);
    free(w);
}

/* Sends to another node; or to this one, once a connection exists. */
static void send_packet(struct node *n, uint32_t to, enum kind kind, double bytes,
                        struct frame *frames)
{
    const struct costs *c = n->sim->c;
    struct work *w = new_work(n->sim, kind, node_number(n));
    double on_its_way = c->L + c->G * bytes;

    if (!w) {
        free_frames(frames);
        return;
    }
    w->frames = frames;
    n->now += ns(c->packet + c->copy_byte * (kind == FRAMES ? 0 : bytes));
    n->sim->n_packets++;
    processors_give(&n->sim->p, to, n->now + ns(on_its_way), &w->item);
}

/* ---- links ---- */

static bool are_in_tree(const struct sim *sim, uint32_t a, uint32_t b)
{
    const uint32_t high = a > b ? a : b, low = a > b ? b : a,
                   arity = sim->arity ? sim->arity : pmiwire_exchange_arity(sim->n_nodes);

    return (high - 1) / arity == low;
}

static struct link *place_of(const struct sim *sim, uint32_t from, uint32_t to)
{
    uint64_t hash = ((uint64_t)from << 32 | to) * UINT64_C(0x9e3779b97f4a7c15);
    size_t i = (size_t)(hash >> 20) & (sim->cap_links - 1);

    while (sim->links[i].from != sim->links[i].to &&
           (sim->links[i].from != from || sim->links[i].to != to))
        i = (i + 1) & (sim->cap_links - 1);
    return &sim->links[i];
}

static bool more_links(struct sim *sim)
{
    struct link *old = sim->links;
    size_t n = sim->cap_links;
    struct link *links = calloc(n ? 2 * n : 1024, sizeof(*links));

    if (!links) {
        sim->out_of_memory = true;
        return false;
    }
    sim->links = links;
    sim->cap_links = n ? 2 * n : 1024;
    for (size_t i = 0; i < n; i++)
        if (old[i].from != old[i].to)
            *place_of(sim, old[i].from, old[i].to) = old[i];
    free(old);
    return true;
}

/* NULL: frames can be sent. Otherwise they wait in the returned link, which is dialled if
 * necessary. */
static struct link *link_that_opens(struct node *n, uint32_t to)
{
    struct sim *sim = n->sim;
    const uint32_t from = node_number(n);
    struct link *l;

    if (sim->connected == CONNECTED_ALL ||
        (sim->connected == CONNECTED_TREE && are_in_tree(sim, from, to)))
        return NULL;
    if (4 * sim->n_links >= 3 * sim->cap_links && !more_links(sim))
        return NULL;
    l = place_of(sim, from, to);
    if (l->from == l->to) {
        struct work *w = new_work(sim, CONNECTED, to);

        *l = (struct link){.from = from, .to = to};
        sim->n_links++;
        n->n_dialled++;
        n->now += ns(sim->c->connect + sim->c->shake / 2);
        if (w)
            processors_give(&sim->p, from, n->now + ns(2 * sim->c->L), &w->item);
    }
    return l->open ? NULL : l;
}

static int by_node(const void *a, const void *b)
{
    const struct outgoing *x = a, *y = b;

    return x->to != y->to ? (x->to > y->to) - (x->to < y->to)
                          : (x->order > y->order) - (x->order < y->order);
}

/* Sends the turn's frames: one packet to each node. */
static void flush(struct node *n)
{
    struct sim *sim = n->sim;

    if (sim->n_out > 1)
        qsort(sim->out, sim->n_out, sizeof(*sim->out), by_node);
    for (size_t i = 0, next; i < sim->n_out; i = next) {
        const uint32_t to = sim->out[i].to;
        double bytes = 0;
        struct link *l;

        for (next = i; next < sim->n_out && sim->out[next].to == to; next++) {
            bytes += charged_bytes(sim, sim->out[next].frame->bytes);
            sim->out[next].frame->next = next + 1 < sim->n_out && sim->out[next + 1].to == to
                                             ? sim->out[next + 1].frame
                                             : NULL;
        }
        l = link_that_opens(n, to);
        if (!l) {
            send_packet(n, to, FRAMES, bytes, sim->out[i].frame);
            continue;
        }
        *(l->first ? &l->last->next : &l->first) = sim->out[i].frame;
        l->last = sim->out[next - 1].frame;
    }
    sim->n_out = 0;
}

/* Sends the frames that waited for the link. */
static void open_link(struct node *n, uint32_t to)
{
    struct link *l = place_of(n->sim, node_number(n), to);
    double bytes = SHAKE_BYTES;

    l->open = true;
    for (struct frame *f = l->first; f; f = f->next)
        bytes += charged_bytes(n->sim, f->bytes);
    send_packet(n, to, FRAMES, bytes, l->first);
    l->first = l->last = NULL;
}

static void take_frames(struct node *n, struct work *w)
{
    for (struct frame *f = w->frames; f; f = f->next) {
        work_on_frame(n, f->bytes);
        if (pmiwire_exchange_input(n->x, w->from, f->data, f->bytes) != 0)
            n->sim->wrong = true;
    }
}

static void take_packet(struct node *n, struct work *w)
{
    const struct costs *c = n->sim->c;

    n->now += ns(c->packet);
    switch (w->kind) {
    case CONNECTED: send_packet(n, w->from, HELLO, SHAKE_BYTES, NULL); break;
    case HELLO:
        n->now += ns(c->connect + c->shake);
        send_packet(n, w->from, WELCOME, SHAKE_BYTES, NULL);
        break;
    case WELCOME:
        n->now += ns(c->shake / 2);
        open_link(n, w->from);
        break;
    default: take_frames(n, w);
    }
    drop(NULL, &w->item);
}

/* ---- ranks ---- */

/* The rank has its answer when it has been woken. */
static void answer(struct node *n, uint32_t rank)
{
    struct sim *sim = n->sim;

    n->now += ns(sim->c->request / 2);
    processors_give(&sim->p, sim->n_nodes + rank, n->now, &sim->requests[rank].item);
}

static uint64_t rank_turn(struct sim *sim, uint32_t rank, uint64_t now)
{
    const enum op *ops = sim->s->ops;
    const uint64_t half = ns(sim->c->rank / 2);
    const uint64_t begun = now;

    if (sim->requests[rank].kind == BEGIN) {
        sim->requests[rank].kind = REQUEST;
        now += ns(sim->c->arrive + (sim->cold ? sim->c->cold : 0));
    } else {
        now += half;
        sim->spent[ops[sim->step[rank]++]] += (double)(now - sim->since[rank]);
    }
    if (ops[sim->step[rank]] == OP_END) {
        if (now > sim->end)
            sim->end = now;
    } else {
        sim->since[rank] = now;
        now += half;
        processors_give(&sim->p, node_of(sim, rank), now, &sim->requests[rank].item);
    }
    sim->rank_ns += now - begun;
    return now;
}

static void request(struct node *n, uint32_t rank)
{
    struct sim *sim = n->sim;
    const enum op op = sim->s->ops[sim->step[rank]];
    char v[32];
    int rc = 0;

    n->now += ns(sim->c->request / 2);
    switch (op) {
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
    if (op != OP_FENCE && op != OP_RING)
        answer(n, rank);
}

static uint64_t on_turn(void *ctx, uint32_t process, uint64_t now, struct item *items)
{
    struct sim *sim = ctx;
    struct node *n;

    if (process >= sim->n_nodes)
        return rank_turn(sim, process - sim->n_nodes, now);
    n = &sim->nodes[process];
    n->now = now + ns(sim->c->turn);
    while (items) {
        struct work *w = (struct work *)items;

        items = items->next;
        if (w->kind == REQUEST)
            request(n, w->from);
        else
            take_packet(n, w);
    }
    flush(n);
    sim->server_ns += n->now - now;
    return n->now;
}

/* ---- callbacks ---- */

static int on_send(void *ctx, uint32_t to, const struct iovec *iov, uint32_t n_iov, size_t bytes)
{
    struct node *n = ctx;
    struct sim *sim = n->sim;
    struct frame *f = malloc(sizeof(*f) + bytes);
    size_t at = 0;

    if (f && sim->n_out == sim->cap_out) {
        size_t cap = sim->cap_out ? 2 * sim->cap_out : 64;
        struct outgoing *out = realloc(sim->out, cap * sizeof(*out));

        if (out) {
            sim->out = out;
            sim->cap_out = cap;
        } else {
            free(f);
            f = NULL;
        }
    }
    if (!f) {
        sim->out_of_memory = true;
        return 0;
    }
    f->next = NULL;
    f->bytes = bytes;
    for (uint32_t i = 0; i < n_iov; i++) {
        memcpy(f->data + at, iov[i].iov_base, iov[i].iov_len);
        at += iov[i].iov_len;
    }
    work_on_frame(n, bytes);
    sim->out[sim->n_out] = (struct outgoing){to, (uint32_t)sim->n_out, f};
    sim->n_out++;
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
    uint32_t rank = (uint32_t)token;

    if (rc == 0)
        check(n->sim, source(n->sim, rank) * keys_a_rank(n->sim), value);
    else
        n->sim->wrong = true;
    answer(n, rank);
}

static uint32_t local_rank(const struct sim *sim, uint32_t node, uint32_t i)
{
    return sim->s->cyclic ? i * sim->n_nodes + node : node * sim->per_node + i;
}

static void on_done(void *ctx, uint32_t kind, uint32_t number, int rc)
{
    struct node *n = ctx;

    (void)kind, (void)number;
    if (rc != 0)
        n->sim->wrong = true;
    for (uint32_t i = 0; i < n->sim->per_node; i++)
        answer(n, local_rank(n->sim, node_number(n), i));
}

static int on_pairs(void *ctx, uint32_t kind, uint32_t number, const void *block, size_t bytes)
{
    struct node *n = ctx;
    struct pmiwire_keyval pair;
    size_t pos = 0, count = 0;

    (void)kind, (void)number;
    while (pmiwire_block_next(block, bytes, &pos, &pair) == 1)
        count++;
    n->now += ns(n->sim->c->pair * (double)count * n->sim->sample);
    return 0;
}

/* The result of Fences is the same on all nodes, and known. */
static int on_find(void *ctx, struct pmiwire_str key, struct pmiwire_str *value)
{
    static char text[32];
    const struct node *n = ctx;
    struct pmiwire_stats_exchange s;
    uint32_t number;

    pmiwire_exchange_stats(n->x, &s);
    if (s.n_fences == 0 || key.len != 13 || n->sim->s->hint == PMIWIRE_HINT_SPARSE)
        return PMIWIRE_ENOENT;
    number = number_of(n->sim, key);
    if (!sampled(n->sim, number / keys_a_rank(n->sim)))
        return PMIWIRE_ENOENT;
    *value = (struct pmiwire_str){text, value_of(text, number)};
    return 0;
}

static void on_ringed(void *ctx, uint32_t rank, int rc, uint32_t place, struct pmiwire_str left,
                      struct pmiwire_str right)
{
    struct node *n = ctx;
    struct sim *sim = n->sim;
    uint32_t node = place / sim->per_node, i = place % sim->per_node;
    uint32_t before = (place + sim->n_ranks - 1) % sim->n_ranks, after = (place + 1) % sim->n_ranks;

    if (rc != 0 || local_rank(sim, node, i) != rank) {
        sim->wrong = true;
        return;
    }
    check(sim, local_rank(sim, before / sim->per_node, before % sim->per_node), left);
    check(sim, local_rank(sim, after / sim->per_node, after % sim->per_node), right);
    answer(n, rank);
}

/* ---- the run ---- */

/* Ranks begin at moments that are spread evenly and not correlated between neighbours. */
static void begin(struct sim *sim, uint32_t node, uint32_t rank)
{
    const double part = (double)(rank * SCATTER) / 4294967296.0;

    if (sim->s->put_before)
        put(&sim->nodes[node], rank);
    sim->requests[rank] = (struct work){.kind = BEGIN, .from = rank};
    processors_give(&sim->p, sim->n_nodes + rank, ns(sim->c->skew * part),
                    &sim->requests[rank].item);
}

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
        if (sim->sample > 1) /* shorter frames, so that sets still need several */
            o.max_frame_bytes = PMIWIRE_EXCHANGE_MIN_FRAME_BYTES;
        if (pmiwire_exchange_create(&o, &sim->nodes[i].x) != 0)
            return -1;
        for (uint32_t k = 0; k < sim->per_node; k++)
            begin(sim, i, ranks[k]);
    }
    return 0;
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
        r->n_connections += sim->nodes[i].n_dialled;
        if (sim->nodes[i].n_dialled > r->max_connections)
            r->max_connections = sim->nodes[i].n_dialled;
    }
    for (uint32_t rank = 0; rank < sim->n_ranks; rank++)
        done += sim->s->ops[sim->step[rank]] == OP_END;
    r->time_us = (double)sim->end / 1e3;
    for (int op = 0; op < OP_MAX_; op++)
        r->op_us[op] = sim->spent[op] / sim->n_ranks / 1e3;
    r->ranks_us = (double)sim->rank_ns / 1e3;
    r->servers_us = (double)sim->server_ns / 1e3;
    r->n_packets = sim->n_packets;
    r->sample = sim->sample;
    r->right = !sim->wrong && done == sim->n_ranks;
}

/* The Fence really carries the pairs of one in this many nodes: a power of two, hence a divisor of
 * the simulated sizes. */
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

int sim_run(const struct script *s, const struct setup *setup, const struct costs *c,
            struct result *r)
{
    struct sim sim = {.s = s,
                      .c = c,
                      .n_nodes = setup->n_nodes,
                      .per_node = setup->per_node,
                      .n_ranks = setup->n_nodes * setup->per_node,
                      .arity = setup->arity,
                      .connected = setup->connected,
                      .cold = setup->cold};
    const struct processors_opts opts = {.n_processes = sim.n_nodes + sim.n_ranks,
                                         .n_processors = setup->n_processors,
                                         .wake_ns = ns(c->wake),
                                         .switch_ns = ns(c->switch_to),
                                         .turn = on_turn,
                                         .drop = drop,
                                         .ctx = &sim};

    memset(r, 0, sizeof(*r));
    sim.sample = setup->sample ? setup->sample : sample_for(s, sim.n_nodes, sim.n_ranks);
    sim.nodes = calloc(sim.n_nodes, sizeof(*sim.nodes));
    sim.requests = calloc(sim.n_ranks, sizeof(*sim.requests));
    sim.step = calloc(sim.n_ranks, 1);
    sim.since = calloc(sim.n_ranks, sizeof(*sim.since));
    sim.out_of_memory = processors_init(&sim.p, &opts) != 0 || !sim.nodes || !sim.requests ||
                        !sim.step || !sim.since || start(&sim) != 0 ||
                        processors_run(&sim.p) != 0 || sim.out_of_memory;
    if (!sim.out_of_memory)
        sum_up(&sim, r);
    processors_fini(&sim.p);
    for (size_t i = 0; i < sim.cap_links; i++)
        free_frames(sim.links[i].first);
    for (uint32_t i = 0; sim.nodes && i < sim.n_nodes; i++)
        pmiwire_exchange_destroy(sim.nodes[i].x);
    free(sim.nodes);
    free(sim.requests);
    free(sim.step);
    free(sim.since);
    free(sim.out);
    free(sim.links);
    return sim.out_of_memory;
}
