/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchange under random schedules: ranks put, get, wait, ring and fence in any order, also
 * repeatedly; frames take any time and keep their order only between two nodes. The header's
 * promises must hold: after a Fence every Get finds the latest earlier Put; without concurrent Puts
 * all nodes find the same value; a waiting Get ends; and once a node is lost, everything ends
 * everywhere.
 *
 * A waiting Get ends with "no rank left" only where that is true: its source, or every other rank,
 * is gone, and has not put the key.
 *
 * Ranks also die at any moment, of any cause. After all frames and one tick, ranks in a collective
 * that a dead rank has not entered have the error, and ranks in other collectives do not. Links
 * report at random that they are full.
 *
 * FENCEPOST_SEEDS=N runs N seeds of each kind, FENCEPOST_SEED=N that one alone.
 */
#include <stdbool.h>

#include "exchange_world.h"

enum { MAX_NODES = 9, MAX_RANKS = 24, EPOCHS = 4, KEYS = 6, MAX_STEPS = 1 << 20, NOBODYS = 999 };

/* The puts of one key, by time. Values are numbers from 1. */
struct history {
    uint32_t last[EPOCHS + 2][MAX_RANKS]; /* each rank's last value of an epoch, 0: none */
    uint32_t agreed[EPOCHS + 2];          /* values found in an epoch without puts */
    bool put;
};

struct actor {
    uint32_t epoch; /* Fences behind it */
    uint32_t to_do; /* actions until its Fence */
    bool in_fence, gone, waited_put;
    bool in_ring, in_gather;
    uint32_t n_rings, n_gathers; /* that it has entered */
    bool stuck;                  /* it has the error of a collective */
    uint32_t waited;             /* a bit for each epoch in which it has put its waited key */
    bool blocked;                /* in a Get */
    uint64_t token;
    uint32_t key, how; /* of that */
    int32_t src;
};

struct play {
    struct world w;
    uint32_t design, arity, flags, unhinted;
    bool store; /* the caller has one: ops->find is set */
    struct history keys[KEYS];
    struct actor actors[MAX_RANKS];
    uint32_t next_value;
    uint32_t step;
    uint32_t n_vain;        /* Gets that ended with "no rank left" */
    uint64_t now, limit;    /* limit: wait_ns, 0: none */
    uint32_t quiet;         /* an epoch without puts */
    uint32_t ring_before;   /* of this epoch and later ones: all enter a Ring before the Fence */
    uint32_t gather_before; /* and an Allgather */
    bool killing, killed, dying;
    uint32_t n_to_die;
    uint32_t limit_of[PMIWIRE_COLL_COUNT_]; /* the fewest that a dead rank has entered */
    uint32_t victim;
    uint32_t to_tell[MAX_NODES], n_to_tell;
    bool told[MAX_NODES];
};

static const char *key_name(uint32_t k)
{
    static const char *const names[KEYS] = {
        "dense", "sparse", "unhinted", "mixed", "another sparse one", "d2"};

    return names[k];
}

static uint32_t key_hint(struct play *p, uint32_t k)
{
    static const uint32_t hints[KEYS] = {PMIWIRE_HINT_DENSE,  PMIWIRE_HINT_SPARSE,
                                         PMIWIRE_HINT_NONE,   0,
                                         PMIWIRE_HINT_SPARSE, PMIWIRE_HINT_DENSE};

    return k == 3 ? w_random(&p->w, 3) : hints[k];
}

/* The one rank that may put a key where its node is its home, or where keys are put once. */
static uint32_t key_rank(const struct play *p, uint32_t k)
{
    return k * 5 % p->w.n_ranks;
}

static bool one_rank(const struct play *p)
{
    return p->design == PMIWIRE_DESIGN_DIRECT || p->flags;
}

static bool ever_put(const struct history *h, uint32_t epoch)
{
    for (uint32_t e = 0; e < epoch; e++)
        for (uint32_t r = 0; r < MAX_RANKS; r++)
            if (h->last[e][r])
                return true;
    return false;
}

/* May a Get in this epoch find this value? */
static bool allowed(const struct play *p, uint32_t k, uint32_t epoch, uint32_t value)
{
    const struct history *h = &p->keys[k];
    uint32_t e = epoch + 1;

    /* Any value of the epochs that are not over; then the last ones of the latest epoch before. */
    for (; e-- > 0;) {
        bool any = false;

        for (uint32_t r = 0; r < MAX_RANKS; r++) {
            any = any || h->last[e][r];
            if (h->last[e][r] == value)
                return true;
        }
        if (e < epoch && any)
            return false;
    }
    return false;
}

static uint64_t n_ended; /* Gets with that end, in all seeds */

/* Each value's key and epoch. */
struct put {
    uint32_t key, epoch;
};
static struct put all_puts[1 << 16];

/* An overwritten value of the current epoch is valid too. */
static bool of_this_epoch(const struct play *p, uint32_t value, uint32_t k, uint32_t epoch)
{
    return value < p->next_value && all_puts[value].key == k && all_puts[value].epoch >= epoch;
}

/* A waiting Get has ended with "no rank left". */
static void check_vain(struct play *p, uint32_t rank)
{
    const struct actor *a = &p->actors[rank];
    const bool named = a->src >= 0 && (uint32_t)a->src != rank;
    const struct history *h;

    n_ended++;
    p->n_vain++;
    for (uint32_t r = 0; r < p->w.n_ranks; r++)
        if (named ? r == (uint32_t)a->src : r != rank)
            assert_true(p->actors[r].gone);
    if (a->key == NOBODYS)
        return;
    if (a->key >= KEYS) { /* each rank puts one after its Fence, unless it dies */
        const struct actor *src = &p->actors[(a->key - 1000) / 10];

        assert_false(src->waited >> (a->key - 1000) % 10 & 1);
        return;
    }
    h = &p->keys[a->key];
    assert_false(ever_put(h, a->epoch) && !p->flags);
    if (p->flags || a->key == 1 || a->key == 4) /* is always SPARSE */
        for (uint32_t e = 0; e <= EPOCHS; e++)
            for (uint32_t r = 0; r < p->w.n_ranks; r++)
                assert_false(h->last[e][r] && (!named || r == (uint32_t)a->src));
}

static void check_value(struct play *p, uint32_t rank, uint64_t token)
{
    const struct actor *a = &p->actors[rank];
    const struct get *g = &p->w.gets[token];
    char text[16] = "";
    uint32_t v;

    assert_true(g->ended);
    if (g->rc == PMIWIRE_ETIME) {
        assert_true(p->limit && a->how != PMIWIRE_GET_LOCAL);
        return;
    }
    if (g->rc == PMIWIRE_ENOENT && a->how == PMIWIRE_GET_WAIT) {
        check_vain(p, rank);
        return;
    }
    if (g->rc == PMIWIRE_ENOENT) {
        if (a->how == PMIWIRE_GET_REMOTE && !p->flags && a->key < KEYS)
            assert_false(ever_put(&p->keys[a->key], a->epoch)); /* no key is lost */
        if (a->key == 0 || a->key == 5)
            assert_false(ever_put(&p->keys[a->key], a->epoch) && !p->flags);
        return;
    }
    assert_int_equal(g->rc, 0);
    memcpy(text, g->value, g->len < 15 ? g->len : 15);
    v = (uint32_t)strtoul(text, NULL, 10);
    if (a->key >= KEYS) { /* a waited one */
        assert_int_equal(v, a->key);
        return;
    }
    assert_true(allowed(p, a->key, a->epoch, v) || of_this_epoch(p, v, a->key, a->epoch));
    if (a->epoch == p->quiet) {
        if (!p->keys[a->key].agreed[a->epoch])
            p->keys[a->key].agreed[a->epoch] = v;
        assert_int_equal(v, p->keys[a->key].agreed[a->epoch]);
    }
}

/* With the caller's store DENSE pairs go there first; with one node all do. */
static void put(struct play *p, uint32_t rank, const char *key, const char *value, uint32_t hint)
{
    struct node *n = &p->w.nodes[p->w.node_of[rank]];
    struct pmiwire_str found;
    const bool dense =
        !p->flags && (hint == PMIWIRE_HINT_DENSE ||
                      (hint == PMIWIRE_HINT_NONE && p->unhinted != PMIWIRE_HINT_SPARSE) ||
                      (p->store && w_find(n, str(key), &found) == 0));

    if (p->store && (dense || p->w.n_nodes == 1))
        w_store(n, str(key), str(value));
    w_put(&p->w, rank, key, value, hint);
}

static void put_value(struct play *p, uint32_t rank, uint32_t k)
{
    struct actor *a = &p->actors[rank];
    uint32_t v = p->next_value++, hint = key_hint(p, k), times = 1 + (w_random(&p->w, 4) == 0);
    char text[16];

    assert_true(v < sizeof(all_puts) / sizeof(all_puts[0]));
    all_puts[v] = (struct put){k, a->epoch};
    snprintf(text, sizeof(text), "%u", v);
    p->keys[k].put = true;
    while (times-- > 0)
        put(p, rank, key_name(k), text, hint);
    p->keys[k].last[a->epoch][rank] = v;
}

static void waited_name(char *text, size_t n, uint32_t rank, uint32_t epoch)
{
    snprintf(text, n, "w%u.%u", rank, epoch);
}

static void get_value(struct play *p, uint32_t rank)
{
    struct actor *a = &p->actors[rank];
    uint32_t k = w_random(&p->w, KEYS + (p->limit ? 4 : 2)), src,
             times = 1 + (w_random(&p->w, 4) == 0);
    char name[24];

    if (k == KEYS + 3) { /* perhaps no rank ever puts it */
        a->key = w_random(&p->w, KEYS);
        a->how = PMIWIRE_GET_WAIT;
        src = key_rank(p, a->key);
        snprintf(name, sizeof(name), "%s", key_name(a->key));
    } else if (k == KEYS + 2) { /* surely */
        a->key = NOBODYS;
        a->how = PMIWIRE_GET_WAIT;
        src = w_random(&p->w, p->w.n_ranks);
        snprintf(name, sizeof(name), "nobody%u", w_random(&p->w, 3));
    } else if (k < KEYS) {
        src = key_rank(p, k);
        a->key = k;
        a->how = w_random(&p->w, 2);
        snprintf(name, sizeof(name), "%s", key_name(k));
        if (a->how == PMIWIRE_GET_REMOTE && w_random(&p->w, 4) == 0 &&
            ever_put(&p->keys[k], a->epoch) && !p->flags)
            a->how = PMIWIRE_GET_WAIT;
    } else {
        src = w_random(&p->w, p->w.n_ranks);
        a->key = 1000 + src * 10 + a->epoch;
        a->how = PMIWIRE_GET_WAIT;
        waited_name(name, sizeof(name), src, a->epoch);
    }
    while (times-- > 0)
        a->token = w_get_by(&p->w, p->w.node_of[rank], (int32_t)rank, name, (int32_t)src, a->how);
    a->src = (int32_t)src;
    a->blocked = true;
}

/* After the last Fence: Gets of lower ranks' keys, and of keys that no rank has put. Rank 0 leaves
 * first, and only the last rank may name no source. */
static void get_last(struct play *p, uint32_t rank)
{
    struct actor *a = &p->actors[rank];
    char name[24];

    a->how = PMIWIRE_GET_WAIT;
    a->key = w_random(&p->w, 2) ? NOBODYS : w_random(&p->w, KEYS);
    a->src = a->key < KEYS ? (int32_t)key_rank(p, a->key) : (int32_t)w_random(&p->w, p->w.n_ranks);
    if ((uint32_t)a->src >= rank) {
        a->src = (int32_t)w_random(&p->w, rank);
        if (p->design == PMIWIRE_DESIGN_DIRECT) /* DIRECT asks the rank that has put it */
            a->key = NOBODYS;
    }
    if (rank == p->w.n_ranks - 1 && p->design != PMIWIRE_DESIGN_DIRECT && w_random(&p->w, 2))
        a->src = w_random(&p->w, 2) ? -1 : (int32_t)rank;
    if (a->key < KEYS)
        snprintf(name, sizeof(name), "%s", key_name(a->key));
    else
        snprintf(name, sizeof(name), "nobody%u", w_random(&p->w, 3));
    a->token = w_get_by(&p->w, p->w.node_of[rank], (int32_t)rank, name, a->src, a->how);
    a->blocked = true;
}

static bool killed_node(const struct play *p, uint32_t node)
{
    return p->killed && p->victim == node;
}

/* The number of collectives of a kind that a rank has entered. */
static uint32_t entered(const struct actor *a, uint32_t kind)
{
    switch (kind) {
    case PMIWIRE_COLL_FENCE: return a->epoch + a->in_fence;
    case PMIWIRE_COLL_ALLGATHER: return a->n_gathers;
    default: return a->n_rings;
    }
}

/* The rank is gone, from any state. */
static void leave(struct play *p, uint32_t rank)
{
    struct actor *a = &p->actors[rank];

    a->gone = true;
    for (uint32_t kind = 0; kind < PMIWIRE_COLL_COUNT_; kind++)
        if (entered(a, kind) < p->limit_of[kind])
            p->limit_of[kind] = entered(a, kind);
    assert_int_equal(pmiwire_exchange_gone(p->w.nodes[p->w.node_of[rank]].x, (int32_t)rank,
                                           1 + w_random(&p->w, PMIWIRE_GONE_COUNT_ - 1)),
                     0);
}

static uint64_t n_stopped; /* ranks with that error, in all seeds */

/* The rank has the error that its collective cannot complete: is that true? */
static void stop(struct play *p, uint32_t rank, uint32_t kind, uint32_t number)
{
    struct actor *a = &p->actors[rank];
    uint32_t why = 0;
    int32_t culprit = pmiwire_exchange_culprit(p->w.nodes[p->w.node_of[rank]].x, kind, &why);

    assert_true(number > p->limit_of[kind]);
    assert_true(culprit >= 0 && why > 0 && p->actors[culprit].gone);
    assert_true(entered(&p->actors[culprit], kind) < number);
    a->in_fence = a->in_ring = a->in_gather = false;
    a->stuck = true;
    a->to_do = w_random(&p->w, 4);
    n_stopped++;
}

/* Enters it, and records the result. False: it cannot complete. */
static bool enters(struct play *p, uint32_t rank, uint32_t kind, int rc, uint32_t number)
{
    if (rc == PMIWIRE_EGONE) {
        stop(p, rank, kind, number);
        return false;
    }
    assert_int_equal(rc, 0);
    return true;
}

/* The result of a rank's wait: 0 or an error; 1: it has not ended. */
static int coll_end(const struct play *p, uint32_t rank)
{
    const struct actor *a = &p->actors[rank];
    const struct node *n = &p->w.nodes[p->w.node_of[rank]];

    if (a->in_ring)
        return p->w.rings[rank].n < a->n_rings ? 1 : p->w.rings[rank].rc;
    if (a->in_gather)
        return n->n_done[PMIWIRE_COLL_ALLGATHER] >= a->n_gathers ? 0
               : n->n_stopped[PMIWIRE_COLL_ALLGATHER]            ? PMIWIRE_EGONE
                                                                 : 1;
    return n->n_done[PMIWIRE_COLL_FENCE] > a->epoch ? 0
           : n->n_stopped[PMIWIRE_COLL_FENCE]       ? PMIWIRE_EGONE
                                                    : 1;
}

static uint32_t coll_kind(const struct actor *a)
{
    return a->in_ring     ? PMIWIRE_COLL_RING
           : a->in_gather ? PMIWIRE_COLL_ALLGATHER
                          : PMIWIRE_COLL_FENCE;
}

/* Continues after a collective. False: it has not ended. */
static bool come_out(struct play *p, uint32_t rank)
{
    struct actor *a = &p->actors[rank];
    int rc = coll_end(p, rank);

    if (rc == 1)
        return false;
    if (rc == PMIWIRE_EGONE) {
        stop(p, rank, coll_kind(a), entered(a, coll_kind(a)));
        return true;
    }
    assert_int_equal(rc, 0);
    if (a->in_fence) {
        a->in_fence = false;
        a->epoch++;
        a->to_do = 1 + w_random(&p->w, 6);
        a->waited_put = false;
    }
    a->in_ring = a->in_gather = false;
    return true;
}

/* One action of a rank. False: it has none. */
static bool act(struct play *p, uint32_t rank)
{
    struct actor *a = &p->actors[rank];
    struct node *n = &p->w.nodes[p->w.node_of[rank]];
    int rc;

    if (a->gone || killed_node(p, n->id))
        return false;
    if (n->n_failed) {
        a->gone = true;
        return true;
    }
    if (a->blocked) {
        if (p->w.gets[a->token].pending)
            return false;
        check_value(p, rank, a->token);
        a->blocked = false;
        return true;
    }
    if (a->in_ring || a->in_gather || a->in_fence)
        return come_out(p, rank);
    if (a->epoch == EPOCHS || a->stuck) {
        if (a->to_do-- > 0 && rank > 0)
            get_last(p, rank);
        else
            leave(p, rank);
        return true;
    }
    if (!a->waited_put) { /* before it waits for others */
        char name[24], text[16];

        waited_name(name, sizeof(name), rank, a->epoch);
        snprintf(text, sizeof(text), "%u", 1000 + rank * 10 + a->epoch);
        put(p, rank, name, text, PMIWIRE_HINT_SPARSE);
        a->waited_put = true;
        a->waited |= 1u << a->epoch;
        return true;
    }
    if (a->to_do == 0 && a->epoch >= p->gather_before &&
        a->n_gathers <= a->epoch - p->gather_before) {
        rc = pmiwire_exchange_allgather(n->x, (int32_t)rank, str("value"));
        if (enters(p, rank, PMIWIRE_COLL_ALLGATHER, rc, a->n_gathers + 1)) {
            a->n_gathers++;
            a->in_gather = true;
        }
        return true;
    }
    if (a->to_do == 0 && a->epoch >= p->ring_before && a->n_rings <= a->epoch - p->ring_before) {
        rc = pmiwire_exchange_ring(n->x, (int32_t)rank, str("left"), str("right"));
        if (enters(p, rank, PMIWIRE_COLL_RING, rc, a->n_rings + 1)) {
            a->n_rings++;
            a->in_ring = true;
        }
        return true;
    }
    if (a->to_do == 0) {
        rc = pmiwire_exchange_fence(n->x, (int32_t)rank);
        if (!enters(p, rank, PMIWIRE_COLL_FENCE, rc, a->epoch + 1))
            return true;
        if (n->n_done[PMIWIRE_COLL_FENCE] == a->epoch && !n->n_failed)
            assert_int_equal(pmiwire_exchange_fence(n->x, (int32_t)rank), PMIWIRE_ESTATE);
        a->in_fence = true;
        return true;
    }
    a->to_do--;
    if (w_random(&p->w, 2) == 0 && a->epoch != p->quiet) {
        uint32_t k = w_random(&p->w, KEYS);

        if (!one_rank(p) ||
            (key_rank(p, k) == rank && (!p->flags || !ever_put(&p->keys[k], EPOCHS))))
            put_value(p, rank, k);
    } else {
        get_value(p, rank);
    }
    return true;
}

/* A node dies; its neighbours, and nodes that send to it afterwards, learn of it at a random
 * time. */
static void kill_one(struct play *p)
{
    p->killed = true;
    p->w.nodes[p->victim].dead = true;
    for (uint32_t next = 0; next < p->w.n_nodes; next++)
        if (w_linked(p->arity, next, p->victim))
            p->to_tell[p->n_to_tell++] = next;
    /* Some of its frames still arrive; the end of each queue is lost. */
    for (uint32_t to = 0; to < p->w.n_nodes; to++) {
        struct queue *q = &p->w.queues[(size_t)p->victim * p->w.n_nodes + to];
        struct msg **at = &q->head;

        while (*at && w_random(&p->w, 3))
            at = &(*at)->next;
        for (struct msg *m = *at, *after; m; m = after) {
            after = m->next;
            p->w.n_queued--;
            free(m);
        }
        *at = NULL;
        q->tail = at;
    }
}

static bool tell_one(struct play *p)
{
    uint32_t i, node;

    if (p->n_to_tell == 0)
        return false;
    i = w_random(&p->w, p->n_to_tell);
    node = p->to_tell[i];
    p->to_tell[i] = p->to_tell[--p->n_to_tell];
    assert_int_equal(pmiwire_exchange_fail(p->w.nodes[node].x, PMIWIRE_ELOST, p->victim), 0);
    return true;
}

static bool deliver(struct play *p)
{
    int rc = 0;

    if (!w_step(&p->w, &rc))
        return false;
    assert_true(rc == 0 || (p->killed && rc == PMIWIRE_ELOST));
    return true;
}

static bool all_gone(const struct play *p)
{
    for (uint32_t r = 0; r < p->w.n_ranks; r++)
        if (!p->actors[r].gone && !killed_node(p, p->w.node_of[r]))
            return false;
    return true;
}

static void tick(struct play *p, uint32_t node)
{
    p->now += w_random(&p->w, 200);
    if (!killed_node(p, node))
        pmiwire_exchange_tick(p->w.nodes[node].x, p->now);
}

/* A rank dies. Now and then the test checks at once: after all frames and one tick no rank waits in
 * a collective that cannot complete. */
static void die(struct play *p)
{
    uint32_t rank = w_random(&p->w, p->w.n_ranks);

    p->n_to_die--;
    if (p->actors[rank].gone)
        return;
    leave(p, rank);
    if (w_random(&p->w, 2))
        return;
    w_run(&p->w);
    w_tick(&p->w, p->now += 100);
    w_run(&p->w);
    for (uint32_t r = 0; r < p->w.n_ranks; r++) {
        const struct actor *a = &p->actors[r];

        if (!a->gone && (a->in_fence || a->in_ring || a->in_gather) &&
            entered(a, coll_kind(a)) > p->limit_of[coll_kind(a)])
            assert_int_not_equal(coll_end(p, r), 1);
    }
}

/* Random actions, until none is possible. */
static void run(struct play *p)
{
    uint32_t n = p->w.n_ranks, kill_at = p->killing ? w_random(&p->w, 60 * n) : UINT32_MAX;

    for (;;) {
        uint32_t what = w_random(&p->w, 8), first = w_random(&p->w, n), i = n;
        bool moved = false;

        assert_true(++p->step < MAX_STEPS);
        if (p->step > kill_at && !p->killed)
            kill_one(p);
        if (p->n_to_die && w_random(&p->w, 20 * n) == 0)
            die(p);
        if (what == 0)
            moved = w_random(&p->w, 2) ? tell_one(p) : w_ready(&p->w);
        else if (what < 5)
            moved = deliver(p);
        else if (what == 5 && w_random(&p->w, 4) == 0)
            tick(p, w_random(&p->w, p->w.n_nodes));
        for (i = 0; i < n && !moved; i++)
            moved = act(p, (first + i) % n);
        if (!moved && !deliver(p) && !tell_one(p) && !w_ready(&p->w)) {
            if (all_gone(p))
                return;
            tick(p, w_random(&p->w, p->w.n_nodes));
        }
    }
}

static void check_end(struct play *p)
{
    for (uint32_t r = 0; r < p->w.n_ranks; r++)
        assert_true(p->actors[r].gone || killed_node(p, p->w.node_of[r]));
    for (size_t t = 0; t < p->w.n_gets; t++)
        if (p->w.gets[t].pending)
            assert_true(p->killed); /* then by a rank of that node, as is checked below */
    for (uint32_t i = 0; i < p->w.n_nodes; i++) {
        struct pmiwire_stats_exchange s = w_stats(&p->w, i);

        assert_int_equal(s.n_refused, 0);
        if (killed_node(p, i))
            continue;
        if (!p->limit && !p->n_vain && !p->dying) /* a home does not know which Gets have ended */
            assert_int_equal(s.n_waiting, 0);
        assert_int_equal(p->w.nodes[i].n_failed, p->killed);
        if (!p->killed && !p->dying)
            assert_int_equal(p->w.nodes[i].n_done[PMIWIRE_COLL_FENCE], EPOCHS);
    }
    for (uint32_t r = 0; r < p->w.n_ranks && !p->killed && !p->dying; r++)
        assert_int_equal(p->w.rings[r].n, EPOCHS - p->ring_before);
}

static void play(uint64_t seed, bool killing, bool dying)
{
    static struct play p;
    struct pmiwire_exchange_ops ops = w_ops;
    struct pmiwire_exchange_opts o = {.ops = &ops};
    uint32_t nodes, ranks;

    memset(&p, 0, sizeof(p));
    p.w.rng = (seed * UINT64_C(0x9e3779b97f4a7c15)) | 1;
    for (int i = 0; i < 5; i++)
        (void)w_random(&p.w, 2);
    nodes = (killing ? 2 : 1) + w_random(&p.w, MAX_NODES - killing);
    ranks = nodes + w_random(&p.w, MAX_RANKS - nodes);
    o.design = w_random(&p.w, 3);
    o.fence = o.design == PMIWIRE_DESIGN_TREE ? 0 : w_random(&p.w, 2);
    o.arity = 2 + w_random(&p.w, 3);
    o.flags = w_random(&p.w, 4) == 0 ? PMIWIRE_EXCHANGE_FENCE_FREE : 0;
    o.unhinted = w_random(&p.w, 3);
    o.max_frame_bytes = w_random(&p.w, 2) ? 4096 : 0;
    o.wait_ns = w_random(&p.w, 4) && !(o.flags && o.design == PMIWIRE_DESIGN_DKVS)
                    ? 0
                    : 1 + w_random(&p.w, 20000);
    w_init(&p.w, nodes, ranks, (enum placement)w_random(&p.w, 3), seed);
    p.design = o.design;
    p.arity = o.arity;
    p.flags = o.flags;
    p.limit = o.wait_ns;
    p.w.hook_ctx = &p;
    p.next_value = 1;
    p.quiet = w_random(&p.w, EPOCHS + 2);
    p.ring_before = w_random(&p.w, EPOCHS + 1);
    p.gather_before = w_random(&p.w, EPOCHS + 1);
    p.killing = killing;
    p.dying = dying;
    p.n_to_die = dying ? 1 + w_random(&p.w, 3) : 0;
    memset(p.limit_of, 0xff, sizeof(p.limit_of));
    p.unhinted = o.unhinted;
    p.store = w_random(&p.w, 2);
    ops.find = p.store ? w_find : NULL;
    p.w.on_pairs = p.store ? w_store_pairs : NULL;
    p.w.choke = w_random(&p.w, 2);
    p.victim = w_random(&p.w, nodes);
    p.w.slow = w_random(&p.w, 2) ? w_random(&p.w, 1u << 30) | 1 : 0;
    w_start(&p.w, &o);
    for (uint32_t r = 0; r < ranks; r++)
        p.actors[r].to_do = 1 + w_random(&p.w, 6);
    run(&p);
    check_end(&p);
    w_fini(&p.w);
}

static void seeds(bool killing, bool dying)
{
    const char *one = getenv("FENCEPOST_SEED"), *many = getenv("FENCEPOST_SEEDS");
    uint64_t from = one ? strtoull(one, NULL, 0) : 1, n = one    ? 1
                                                          : many ? strtoull(many, NULL, 0)
                                                                 : 5000;

    for (uint64_t seed = from; seed < from + n; seed++) {
        print_message("\r%s seed %llu",
                      killing ? "killing"
                      : dying ? "dying"
                              : "playing",
                      (unsigned long long)seed);
        play(seed, killing, dying);
    }
    print_message("\n%llu Gets ended with \"no rank left\"\n", (unsigned long long)n_ended);
    assert_true(one || n_ended > n);
    assert_true(one || !dying || n_stopped > n);
}

static void every_promise(void **state)
{
    seeds(false, false);
}

static void a_node_killed_at_any_step(void **state)
{
    seeds(true, false);
}

static void ranks_die_at_any_step(void **state)
{
    seeds(false, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_promise),
        cmocka_unit_test(a_node_killed_at_any_step),
        cmocka_unit_test(ranks_die_at_any_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
