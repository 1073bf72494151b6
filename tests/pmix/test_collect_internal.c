/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives gathered by signature: in random orders, with lost ranks, malformed frames, and at
 * the limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/pmirun/pmix/collect.h"

#define NODES  5u
#define SIGS   4u
#define ROUNDS 12u
#define AHEAD  3u /* concurrent rounds of one signature on a node */

/* ---- nodes, links that keep the order, signatures ---- */

struct frame {
    struct frame *next;
    enum collect_frame what;
    uint32_t sig;
    int status;
    size_t len;
    char data[];
};

struct world;

struct node {
    struct world *w;
    uint32_t id;
    struct collect *c;
    bool gone[SIGS]; /* a participant of this signature */
    uint32_t n_stuck;
    uint32_t entered[SIGS], ended[SIGS];
    int status[SIGS][ROUNDS];
};

struct wait {
    struct node *node;
    uint32_t sig, round;
};

struct world {
    struct node nodes[NODES];
    struct frame *links[NODES][NODES];
    uint32_t members[SIGS][NODES], n_members[SIGS];
    char names[SIGS][8];
    struct wait waits[NODES][SIGS][ROUNDS];
    uint32_t n_asks;
};

static uint64_t seed = 88172645463325252ull;

static uint32_t pick(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed % n);
}

static struct collect_sig sig_of(struct world *w, uint32_t k)
{
    return (struct collect_sig){w->names[k], strlen(w->names[k]), w->members[k], w->n_members[k]};
}

static uint32_t number_of(const struct world *w, const struct collect_sig *sig)
{
    uint32_t k = 0;

    while (strlen(w->names[k]) != sig->len || memcmp(w->names[k], sig->p, sig->len) != 0)
        k++;
    assert_int_equal(sig->n, w->n_members[k]);
    assert_memory_equal(sig->members, w->members[k], sig->n * sizeof(*sig->members));
    return k;
}

static void on_send(void *ctx, const uint32_t *nodes, uint32_t n, enum collect_frame what,
                    const struct collect_sig *sig, int status, const void *data, size_t len)
{
    struct node *node = ctx;
    struct world *w = node->w;

    for (uint32_t i = 0; i < n; i++) {
        struct frame *f = malloc(sizeof(*f) + len), **last = &w->links[node->id][nodes[i]];

        assert_non_null(f);
        assert_int_not_equal(nodes[i], node->id);
        *f = (struct frame){NULL, what, number_of(w, sig), status, len};
        if (len)
            memcpy(f->data, data, len);
        while (*last)
            last = &(*last)->next;
        *last = f;
        w->n_asks += what == COLLECT_ASK;
    }
}

static bool on_gone(void *ctx, const struct collect_sig *sig)
{
    struct node *node = ctx;

    return node->gone[number_of(node->w, sig)];
}

static void on_stuck(void *ctx, const struct collect_sig *sig)
{
    struct node *node = ctx;

    assert_true(node->gone[number_of(node->w, sig)]);
    node->n_stuck++;
}

static const struct collect_ops ops = {on_send, on_gone, on_stuck};

static void begin(struct world *w, const struct collect_limits *limits)
{
    memset(w, 0, sizeof(*w));
    for (uint32_t i = 0; i < NODES; i++) {
        w->nodes[i] = (struct node){.w = w, .id = i};
        w->nodes[i].c = collect_create(i, limits, &ops, &w->nodes[i]);
        assert_non_null(w->nodes[i].c);
    }
    for (uint32_t k = 0; k < SIGS; k++)
        snprintf(w->names[k], sizeof(w->names[k]), "s%u", k);
}

/* Members of a signature by a mask of nodes. */
static void set_members(struct world *w, uint32_t k, uint32_t mask)
{
    w->n_members[k] = 0;
    for (uint32_t i = 0; i < NODES; i++)
        if (mask & 1u << i)
            w->members[k][w->n_members[k]++] = i;
}

static bool is_member(const struct world *w, uint32_t k, uint32_t node)
{
    for (uint32_t i = 0; i < w->n_members[k]; i++)
        if (w->members[k][i] == node)
            return true;
    return false;
}

static void finish(struct world *w)
{
    for (uint32_t i = 0; i < NODES; i++) {
        collect_destroy(w->nodes[i].c);
        for (uint32_t k = 0; k < NODES; k++) {
            while (w->links[i][k]) {
                struct frame *f = w->links[i][k];

                w->links[i][k] = f->next;
                free(f);
            }
        }
    }
}

/* ---- the nodes ---- */

static size_t write_part(char *out, uint32_t sig, uint32_t round, uint32_t node)
{
    /* some bring no data */
    return (node + round) % 4 == 0 ? 0 : (size_t)sprintf(out, "%u:%u:%u;", sig, round, node);
}

static void on_done(void *ctx, int status, const char *data, size_t len)
{
    struct wait *wait = ctx;
    struct node *node = wait->node;
    const struct world *w = node->w;
    char want[NODES * 32];
    size_t n = 0;

    assert_int_equal(wait->round, node->ended[wait->sig]); /* in order, and once */
    node->status[wait->sig][wait->round] = status;
    node->ended[wait->sig]++;
    if (status) {
        assert_int_equal(len, 0);
        return;
    }
    for (uint32_t i = 0; i < w->n_members[wait->sig]; i++)
        n += write_part(want + n, wait->sig, wait->round, w->members[wait->sig][i]);
    assert_int_equal(len, n);
    if (n)
        assert_memory_equal(data, want, n);
}

static void enter(struct world *w, uint32_t node, uint32_t k)
{
    struct node *nd = &w->nodes[node];
    const struct collect_sig sig = sig_of(w, k);
    const uint32_t round = nd->entered[k]++;
    struct wait *wait = &w->waits[node][k][round];
    char data[32];
    size_t n = write_part(data, k, round, node);

    *wait = (struct wait){nd, k, round};
    collect_enter(nd->c, &sig, data, n, on_done, wait);
}

/* Takes a message from a node; false: there is none. */
static bool deliver(struct world *w, uint32_t from, uint32_t to)
{
    struct frame *f = w->links[from][to];
    struct collect_sig sig;

    if (!f)
        return false;
    w->links[from][to] = f->next;
    sig = sig_of(w, f->sig);
    assert_int_equal(collect_heard(w->nodes[to].c, from, f->what, &sig, f->status, f->data, f->len),
                     FAR_OK);
    free(f);
    return true;
}

static bool may_enter(const struct world *w, uint32_t node, uint32_t k)
{
    const struct node *nd = &w->nodes[node];

    return is_member(w, k, node) && !nd->gone[k] && nd->entered[k] < ROUNDS &&
           nd->entered[k] - nd->ended[k] < AHEAD;
}

static void settle(struct world *w)
{
    bool more = true;

    while (more) {
        more = false;
        for (uint32_t i = 0; i < NODES; i++)
            for (uint32_t k = 0; k < NODES; k++)
                more |= deliver(w, i, k);
    }
}

static void random_step(struct world *w)
{
    const uint32_t a = pick(NODES), b = pick(NODES);

    switch (pick(8)) {
    case 0: collect_tick(w->nodes[a].c); break;
    case 1:
    case 2: b == a || !may_enter(w, a, b % SIGS) ? (void)0 : enter(w, a, b % SIGS); break;
    default: deliver(w, a, b);
    }
}

static void random_members(struct world *w)
{
    for (uint32_t k = 0; k < SIGS; k++) {
        do
            set_members(w, k, pick(1u << NODES));
        while (w->n_members[k] < 2);
    }
}

/* Enters all the rest, and checks the missing members. */
static void run_out(struct world *w)
{
    for (uint32_t round = 0; round < 4 * ROUNDS; round++) {
        for (uint32_t i = 0; i < NODES; i++) {
            for (uint32_t k = 0; k < SIGS; k++)
                if (may_enter(w, i, k))
                    enter(w, i, k);
            collect_tick(w->nodes[i].c);
        }
        settle(w);
    }
}

static void test_random_orders(void **state)
{
    static struct world w;

    for (uint32_t n = 0; n < 300; n++) {
        begin(&w, NULL);
        random_members(&w);
        for (uint32_t i = 0; i < 2000; i++)
            random_step(&w);
        run_out(&w);
        for (uint32_t i = 0; i < NODES; i++) {
            for (uint32_t k = 0; k < SIGS; k++) {
                if (!is_member(&w, k, i))
                    continue;
                assert_int_equal(w.nodes[i].ended[k], ROUNDS);
                for (uint32_t r = 0; r < ROUNDS; r++)
                    assert_int_equal(w.nodes[i].status[k][r], FAR_OK);
            }
            assert_int_equal(collect_pending(w.nodes[i].c), 0);
            assert_int_equal(w.nodes[i].n_stuck, 0);
        }
        finish(&w);
    }
}

/* A rank that has entered `rounds` of a signature ends: the rounds that its node has not entered
 * fail. */
static void check_gone(const struct world *w, uint32_t k, uint32_t rounds)
{
    for (uint32_t i = 0; i < w->n_members[k]; i++) {
        const struct node *nd = &w->nodes[w->members[k][i]];

        assert_int_equal(nd->ended[k], nd->gone[k] ? rounds : ROUNDS);
        for (uint32_t r = 0; r < nd->ended[k]; r++)
            assert_int_equal(nd->status[k][r], r < rounds ? FAR_OK : FAR_EGONE);
    }
}

static bool is_sig_0(void *ctx, const struct collect_sig *sig)
{
    return number_of(ctx, sig) == 0;
}

static void test_a_rank_goes(void **state)
{
    static struct world w;

    for (uint32_t n = 0; n < 300; n++) {
        uint32_t victim;

        begin(&w, NULL);
        random_members(&w);
        victim = w.members[0][pick(w.n_members[0])];
        for (uint32_t i = 0; i < 2000; i++) {
            random_step(&w);
            if (i == 300) {
                w.nodes[victim].gone[0] = true;
                collect_check(w.nodes[victim].c);
            }
        }
        run_out(&w);
        check_gone(&w, 0, w.nodes[victim].entered[0]);
        assert_true(w.nodes[victim].n_stuck > 0 || w.nodes[victim].entered[0] == ROUNDS);
        for (uint32_t i = 0; i < NODES; i++) {
            if (i != victim)
                assert_int_equal(w.nodes[i].n_stuck, 0);
            collect_drop(w.nodes[i].c, is_sig_0, &w); /* the job is over */
            assert_int_equal(collect_pending(w.nodes[i].c), 0);
        }
        finish(&w);
    }
}

/* No member is asked while all arrive promptly, and each missing member once otherwise. */
static void test_asks(void **state)
{
    static struct world w;

    begin(&w, NULL);
    set_members(&w, 0, 7);
    for (uint32_t i = 0; i < 3; i++)
        enter(&w, i, 0);
    settle(&w);
    collect_tick(w.nodes[0].c);
    assert_int_equal(w.n_asks, 0);
    assert_int_equal(w.nodes[2].ended[0], 1);
    enter(&w, 2, 0);
    settle(&w);
    for (uint32_t i = 0; i < 5; i++)
        collect_tick(w.nodes[0].c);
    settle(&w);
    assert_int_equal(w.n_asks, 1);
    w.nodes[1].gone[0] = true; /* after it has been asked */
    collect_check(w.nodes[1].c);
    settle(&w);
    assert_int_equal(w.nodes[1].n_stuck, 1);
    assert_int_equal(w.nodes[2].status[0][1], FAR_EGONE);
    finish(&w);
}

/* A member is asked about a collective only when it waits in no earlier one: its answer would be
 * for the earlier one. */
static void test_asks_for_the_next(void **state)
{
    static struct world w;

    begin(&w, NULL);
    set_members(&w, 0, 7);
    enter(&w, 0, 0);
    enter(&w, 2, 0);
    enter(&w, 0, 0);
    settle(&w);
    collect_tick(w.nodes[0].c);
    settle(&w);
    enter(&w, 1, 0);
    enter(&w, 1, 0);
    settle(&w);
    assert_int_equal(w.nodes[2].status[0][0], FAR_OK);
    w.nodes[2].gone[0] = true;
    collect_check(w.nodes[2].c);
    collect_tick(w.nodes[0].c);
    settle(&w);
    assert_int_equal(w.nodes[2].n_stuck, 1);
    assert_int_equal(w.nodes[0].status[0][1], FAR_EGONE);
    assert_int_equal(w.nodes[1].status[0][1], FAR_EGONE);
    finish(&w);
}

/* A job's end removes its collectives. */
static void test_drop(void **state)
{
    static struct world w;

    begin(&w, NULL);
    set_members(&w, 0, 3);
    set_members(&w, 1, 3);
    enter(&w, 0, 0);
    enter(&w, 0, 1);
    enter(&w, 1, 1);
    collect_drop(w.nodes[0].c, is_sig_0, &w);
    assert_int_equal(w.nodes[0].status[0][0], FAR_EGONE);
    settle(&w);
    assert_int_equal(w.nodes[0].status[1][0], FAR_OK);
    assert_int_equal(w.nodes[1].ended[1], 1);
    finish(&w);
}

static void test_hostile(void **state)
{
    /* members: nodes 1, 2, 3. Receiver, sender, message. */
    static const struct {
        uint32_t to, from;
        int what;
    } frames[] = {
        {1, 0, COLLECT_JOIN},
        {1, 4, COLLECT_JOIN},
        {2, 3, COLLECT_JOIN},
        {1, 1, COLLECT_JOIN},
        {0, 1, COLLECT_JOIN},
        {2, 3, COLLECT_RESULT},
        {2, 1, COLLECT_RESULT},
        {1, 2, COLLECT_RESULT},
        {2, 0, COLLECT_RESULT},
        {2, 3, COLLECT_ASK},
        {0, 1, COLLECT_ASK},
        {1, 2, COLLECT_ASK},
        {2, 3, COLLECT_FAIL},
        {1, 0, COLLECT_FAIL},
        {1, 2, 0},
        {1, 2, 5},
        {1, 77, COLLECT_JOIN},
    };
    static struct world w;
    struct collect_sig sig;

    begin(&w, NULL);
    set_members(&w, 0, 14);
    sig = sig_of(&w, 0);
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++)
        assert_int_equal(collect_heard(w.nodes[frames[i].to].c, frames[i].from,
                                       (enum collect_frame)frames[i].what, &sig, 0, "x", 1),
                         FAR_EINVAL);
    for (uint32_t i = 0; i < NODES; i++)
        assert_int_equal(collect_pending(w.nodes[i].c), 0);
    /* asked, but not entered: no collective can have a result */
    assert_int_equal(collect_heard(w.nodes[2].c, 1, COLLECT_ASK, &sig, 0, NULL, 0), FAR_OK);
    assert_int_equal(collect_heard(w.nodes[2].c, 1, COLLECT_RESULT, &sig, 0, NULL, 0), FAR_EINVAL);
    /* a failure of an unknown collective has no effect */
    assert_int_equal(collect_heard(w.nodes[1].c, 2, COLLECT_FAIL, &sig, 0, NULL, 0), FAR_OK);
    assert_int_equal(collect_pending(w.nodes[1].c), 0);
    enter(&w, 2, 0);
    assert_int_equal(collect_heard(w.nodes[2].c, 3, COLLECT_RESULT, &sig, 0, "x", 1), FAR_EINVAL);
    enter(&w, 1, 0);
    enter(&w, 3, 0);
    settle(&w);
    for (uint32_t i = 1; i < 4; i++)
        assert_int_equal(w.nodes[i].status[0][0], FAR_OK);
    finish(&w);
}

/* ---- limits ---- */

static int last_status;

static void note(void *ctx, int status, const char *data, size_t len)
{
    (void)ctx, (void)data, (void)len;
    last_status = status;
}

static void test_pending_limit(void **state)
{
    static struct world w;

    for (uint32_t max = 2; max <= 4; max++) { /* below, at, above */
        const struct collect_limits limits = {3, 1u << 20};
        int rc = FAR_OK;

        begin(&w, &limits);
        for (uint32_t k = 0; k < max; k++) {
            struct collect_sig sig;

            set_members(&w, k, 3);
            sig = sig_of(&w, k);
            rc = collect_heard(w.nodes[0].c, 1, COLLECT_JOIN, &sig, 0, NULL, 0);
            last_status = FAR_OK;
            collect_enter(w.nodes[1].c, &sig, NULL, 0, note, NULL);
            assert_int_equal(last_status, k < 3 ? FAR_OK : FAR_ELIMIT);
        }
        assert_int_equal(rc, max <= 3 ? FAR_OK : FAR_ELIMIT);
        assert_int_equal(collect_pending(w.nodes[0].c), max < 3 ? max : 3);
        finish(&w);
    }
}

/* Does the root keep this many bytes? */
static bool keeps(struct world *w, const struct collect_limits *limits, const char *big, size_t n)
{
    struct collect_sig sig;

    begin(w, limits);
    set_members(w, 0, 7);
    sig = sig_of(w, 0);
    last_status = 1;
    collect_enter(w->nodes[0].c, &sig, big, n, note, NULL);
    assert_true(last_status == 1 || last_status == FAR_ELIMIT);
    return last_status == 1;
}

/* Data beyond the limit fails the collective for all its members, now or later, and is not kept. */
static void test_bytes_limit(void **state)
{
    static struct world w;
    static char big[100001];
    const struct collect_limits limits = {10, 100000};
    const struct collect_sig sig = {"s0", 2, w.members[0], 3};
    size_t most = 99000;

    assert_true(keeps(&w, &limits, big, most)); /* an entry itself takes some hundred bytes */
    finish(&w);
    while (keeps(&w, &limits, big, most + 1)) {
        assert_true(++most < 100000);
        finish(&w);
    }
    for (uint32_t i = 1; i < 3; i++) { /* later members get the failure */
        last_status = 1;
        collect_enter(w.nodes[i].c, &sig, NULL, 0, note, NULL);
        settle(&w);
        assert_int_equal(last_status, FAR_ELIMIT);
    }
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(collect_pending(w.nodes[i].c), 0);
    for (uint32_t n = 0; n < 3; n++) { /* and all bytes are free again, each time */
        collect_enter(w.nodes[0].c, &sig, big, most, note, NULL);
        collect_enter(w.nodes[1].c, &sig, NULL, 0, note, NULL);
        last_status = 1;
        collect_enter(w.nodes[2].c, &sig, NULL, 0, note, NULL);
        settle(&w);
        assert_int_equal(last_status, FAR_OK);
    }
    finish(&w);
}

/* A member that brings more than a root could keep sends none of it, and all fail. */
static void test_too_much_of_a_member(void **state)
{
    static struct world w;
    static char big[100001];
    const struct collect_limits limits = {10, 100000};
    const struct collect_sig sig = {"s0", 2, w.members[0], 3};

    begin(&w, &limits);
    set_members(&w, 0, 7);
    last_status = 1;
    collect_enter(w.nodes[1].c, &sig, big, sizeof(big), note, NULL);
    assert_int_equal(last_status, FAR_ELIMIT);
    assert_int_equal(w.links[1][0]->len, 0);
    settle(&w);
    for (uint32_t i = 0; i < 3; i += 2) {
        last_status = 1;
        collect_enter(w.nodes[i].c, &sig, NULL, 0, note, NULL);
        settle(&w);
        assert_int_equal(last_status, FAR_ELIMIT);
    }
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(collect_pending(w.nodes[i].c), 0);
    finish(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_orders),
        cmocka_unit_test(test_a_rank_goes),
        cmocka_unit_test(test_asks),
        cmocka_unit_test(test_drop),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_pending_limit),
        cmocka_unit_test(test_bytes_limit),
        cmocka_unit_test(test_asks_for_the_next),
        cmocka_unit_test(test_too_much_of_a_member),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
