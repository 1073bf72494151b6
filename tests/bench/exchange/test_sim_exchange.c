/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulation's arithmetic: all costs but one are 0, and the sum of that one is known
 * beforehand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "processors.h"
#include "sim.h"

/* ---- processors ---- */

#define TURN 100u

/* Each process records the end of its last turn, the number of its turns, and the number of its
 * items. */
struct notes {
    uint64_t ended[8];
    unsigned turns[8], items[8];
};

static uint64_t one_turn(void *ctx, uint32_t process, uint64_t now, struct item *items)
{
    struct notes *notes = ctx;

    notes->turns[process]++;
    for (; items; items = items->next)
        notes->items[process]++;
    notes->ended[process] = now + TURN;
    return now + TURN;
}

static void ignore(void *ctx, struct item *item)
{
    (void)ctx, (void)item;
}

static struct processors processors(uint32_t n_processors, struct notes *notes)
{
    const struct processors_opts o = {.n_processes = 8,
                                      .n_processors = n_processors,
                                      .wake_ns = 10,
                                      .switch_ns = 5,
                                      .turn = one_turn,
                                      .drop = ignore,
                                      .ctx = notes};
    struct processors p;

    assert_int_equal(processors_init(&p, &o), 0);
    return p;
}

static void test_own_processors(void **state)
{
    struct notes notes = {0};
    struct processors p = processors(0, &notes);
    struct item items[8];

    for (uint32_t i = 0; i < 8; i++)
        processors_give(&p, i, 0, &items[i]);
    assert_int_equal(processors_run(&p), 0);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(notes.ended[i], 10 + TURN);
    processors_fini(&p);
}

static void test_shared_processors(void **state)
{
    struct notes notes = {0};
    struct processors p = processors(2, &notes);
    struct item items[5];

    for (uint32_t i = 0; i < 5; i++)
        processors_give(&p, i, i, &items[i]);
    assert_int_equal(processors_run(&p), 0);
    assert_int_equal(notes.ended[0], 0 + 10 + TURN); /* woken */
    assert_int_equal(notes.ended[1], 1 + 10 + TURN);
    assert_int_equal(notes.ended[2],
                     notes.ended[0] + 5 + TURN); /* in the order in which they came */
    assert_int_equal(notes.ended[3], notes.ended[1] + 5 + TURN);
    assert_int_equal(notes.ended[4], notes.ended[2] + 5 + TURN);
    processors_fini(&p);
}

static void test_turns(void **state)
{
    struct notes notes = {0};
    struct processors p = processors(1, &notes);
    struct item items[5];

    processors_give(&p, 0, 0, &items[0]);
    processors_give(&p, 0, 50, &items[1]); /* in its turn: it continues */
    processors_give(&p, 1, 20, &items[2]);
    processors_give(&p, 1, 60, &items[3]); /* while it waits: one turn for both */
    processors_give(&p, 1, 1000, &items[4]);
    assert_int_equal(processors_run(&p), 0);
    assert_int_equal(notes.turns[0], 2);
    assert_int_equal(notes.ended[0], 10 + 2 * TURN);
    assert_int_equal(notes.items[1], 3);
    assert_int_equal(notes.turns[1], 2);
    assert_int_equal(notes.ended[1], 1000 + 10 + TURN);
    processors_fini(&p);
}

/* Items come in the order of their moments, those of one moment in the order of the calls; half of
 * them are given within turns. */
#define N_TIMED 20000u

struct timed {
    struct item item;
    uint64_t when;
};

struct order {
    struct processors p;
    struct timed items[N_TIMED];
    uint32_t given, taken, random;
    const struct timed *last;
};

static void give_next(struct order *o, uint64_t now)
{
    struct timed *t = &o->items[o->given++];

    o->random = o->random * 1664525 + 1013904223;
    t->when = now + (o->random >> 8) % (o->random % 3 ? 9 : 100000);
    processors_give(&o->p, 0, t->when, &t->item);
}

static uint64_t in_order(void *ctx, uint32_t process, uint64_t now, struct item *items)
{
    struct order *o = ctx;

    for (; items; items = items->next) {
        const struct timed *t = (const struct timed *)items;

        assert_int_equal(t->when, now);
        assert_true(!o->last || t->when > o->last->when ||
                    (t->when == o->last->when && t > o->last));
        o->last = t;
        o->taken++;
        if (o->given < N_TIMED)
            give_next(o, now);
    }
    return now;
}

static void test_order(void **state)
{
    static struct order o = {.random = 1};
    const struct processors_opts opts = {
        .n_processes = 1, .turn = in_order, .drop = ignore, .ctx = &o};

    assert_int_equal(processors_init(&o.p, &opts), 0);
    while (o.given < N_TIMED / 2)
        give_next(&o, 0);
    assert_int_equal(processors_run(&o.p), 0);
    assert_int_equal(o.taken, N_TIMED);
    processors_fini(&o.p);
}

static void count(void *ctx, struct item *item)
{
    ++*(unsigned *)ctx;
}

static void test_fini_drops(void **state)
{
    unsigned n = 0;
    const struct processors_opts o = {.n_processes = 2, .turn = one_turn, .drop = count, .ctx = &n};
    struct processors p;
    struct item items[3];

    assert_int_equal(processors_init(&p, &o), 0);
    for (uint32_t i = 0; i < 3; i++)
        processors_give(&p, i % 2, i, &items[i]);
    processors_fini(&p);
    assert_int_equal(n, 3);
}

/* ---- the simulation ---- */

static const struct script ring = {.who = "ring", .ops = {OP_RING}},
                           direct = {.who = "direct",
                                     .ops = {OP_PUT, OP_GET_LEFT, OP_GET_RIGHT},
                                     .design = PMIWIRE_DESIGN_DIRECT,
                                     .hint = PMIWIRE_HINT_SPARSE,
                                     .how = PMIWIRE_GET_WAIT,
                                     .put_every = 1},
                           fence = {.who = "fence",
                                    .ops = {OP_FENCE},
                                    .hint = PMIWIRE_HINT_DENSE,
                                    .put_before = 3,
                                    .put_every = 1};

static struct result run(const struct script *s, const struct setup *setup, const struct costs *c)
{
    struct result r;

    assert_int_equal(sim_run(s, setup, c, &r), 0);
    assert_true(r.right);
    return r;
}

static struct result sim(const struct script *s, uint32_t per_node, uint32_t n_processors,
                         enum connected connected, const struct costs *c)
{
    const struct setup setup = {
        .n_nodes = 4, .per_node = per_node, .n_processors = n_processors, .connected = connected};

    return run(s, &setup, c);
}

#define assert_us(value, ns) assert_int_equal((int64_t)((value)*1e3 + 0.5), (int64_t)(ns))

static void test_ranks(void **state)
{
    const struct costs c = {.rank = 2000};
    struct result r = sim(&ring, 2, 0, CONNECTED_ALL, &c);

    assert_us(r.time_us, 2000); /* all at once */
    assert_us(r.ranks_us, 8 * 2000);
    assert_us(r.servers_us, 0);
    assert_us(sim(&ring, 2, 1, CONNECTED_ALL, &c).time_us, 8 * 2000); /* one after the other */
    assert_us(sim(&ring, 2, 2, CONNECTED_ALL, &c).time_us, 4 * 2000);
    assert_us(sim(&direct, 2, 1, CONNECTED_ALL, &c).time_us, 3 * 8 * 2000); /* three requests */
}

static void test_requests(void **state)
{
    const struct costs c = {.request = 2000};
    struct result r = sim(&ring, 3, 0, CONNECTED_ALL, &c);

    assert_us(r.servers_us, 12 * 2000);
    assert_us(r.time_us, 3 * 2000); /* each server its three */
    assert_us(sim(&ring, 3, 1, CONNECTED_ALL, &c).time_us, 12 * 2000);
}

static void test_moments(void **state)
{
    const struct costs wake = {.wake = 100}, switch_to = {.switch_to = 100},
                       arrive = {.arrive = 100}, turn = {.turn = 100, .L = 1000},
                       skew = {.skew = 1000};

    /* rank, server, server when frames have come, rank */
    assert_us(sim(&ring, 1, 0, CONNECTED_ALL, &wake).time_us, 4 * 100);
    assert_us(sim(&ring, 1, 0, CONNECTED_ALL, &switch_to).time_us, 0);
    assert_true(sim(&ring, 1, 1, CONNECTED_ALL, &switch_to).time_us > 0);
    assert_us(sim(&ring, 2, 1, CONNECTED_ALL, &arrive).time_us, 8 * 100);
    assert_us(sim(&ring, 1, 0, CONNECTED_ALL, &turn).time_us, 2 * 100 + 1000);
    assert_true(sim(&ring, 1, 0, CONNECTED_ALL, &skew).time_us > 0.5);
    assert_true(sim(&ring, 1, 0, CONNECTED_ALL, &skew).time_us < 1);
}

/* In a Ring every node sends a frame to either side, and has one from either. */
static void test_frames(void **state)
{
    const struct costs L = {.L = 700}, frame = {.frame = 100}, packet = {.packet = 100},
                       copy = {.copy_byte = 1}, crypt = {.crypt_byte = 1}, G = {.G = 1};
    struct result r;

    assert_us(sim(&ring, 1, 0, CONNECTED_ALL, &L).time_us, 700);
    r = sim(&ring, 1, 0, CONNECTED_ALL, &frame);
    assert_us(r.time_us, 4 * 100);
    assert_us(r.servers_us, 16 * 100);
    r = sim(&ring, 1, 0, CONNECTED_ALL, &packet);
    assert_int_equal(r.n_packets, 8);
    assert_us(r.time_us, 4 * 100);
    assert_us(r.servers_us, 16 * 100);
    r = sim(&ring, 1, 0, CONNECTED_ALL, &copy); /* at both ends */
    assert_us(r.servers_us, 2 * 4 * r.mean_bytes);
    assert_us(sim(&ring, 1, 0, CONNECTED_ALL, &crypt).servers_us, 2 * 4 * r.mean_bytes);
    r = sim(&ring, 1, 0, CONNECTED_ALL, &G);
    assert_us(r.servers_us, 0);
    assert_us(r.time_us, r.mean_bytes / 2);
}

/* A server's frames for another node travel as one packet. */
static void test_packets(void **state)
{
    const struct costs c = {.request = 100};
    const struct script dkvs = {.who = "dkvs",
                                .ops = {OP_PUT, OP_GET_LEFT, OP_GET_RIGHT},
                                .design = PMIWIRE_DESIGN_DKVS,
                                .hint = PMIWIRE_HINT_SPARSE,
                                .how = PMIWIRE_GET_WAIT,
                                .put_every = 1};
    struct result r = sim(&dkvs, 32, 0, CONNECTED_ALL, &c);
    uint64_t frames = 0;

    for (uint32_t t = 1; t < PMIWIRE_FRAME_COUNT_; t++)
        frames += r.frames[t];
    assert_true(r.n_packets < frames / 4);
}

static void test_pairs(void **state)
{
    const struct costs c = {.pair = 10};
    const struct setup sampled = {.n_nodes = 4, .per_node = 2, .sample = 2};

    assert_us(sim(&fence, 2, 0, CONNECTED_ALL, &c).servers_us, 4 * 24 * 10); /* each carries all */
    assert_us(run(&fence, &sampled, &c).servers_us, 4 * 24 * 10); /* half stand for all */
}

/* With DIRECT every node dials the nodes on either side. */
static void test_connections(void **state)
{
    const struct costs L = {.L = 700}, connect = {.connect = 100}, shake = {.shake = 100};
    struct result r = sim(&direct, 1, 0, CONNECTED_NONE, &connect);

    assert_int_equal(r.n_connections, 8);
    assert_int_equal(r.max_connections, 2);
    assert_us(r.servers_us, 8 * 2 * 100);
    assert_us(sim(&direct, 1, 0, CONNECTED_NONE, &shake).servers_us, 8 * 2 * 100);
    assert_us(sim(&direct, 1, 0, CONNECTED_ALL, &shake).servers_us, 0);
    /* All other nodes are the root's children; between nodes 1, 2 and 3 are four. */
    assert_int_equal(sim(&direct, 1, 0, CONNECTED_TREE, &shake).n_connections, 4);
    /* Two Gets, there and back. Otherwise the first one finds no link in either direction: each
     * link takes a round trip for TCP and another for hello and welcome. */
    assert_us(sim(&direct, 1, 0, CONNECTED_ALL, &L).time_us, 4 * 700);
    assert_us(sim(&direct, 1, 0, CONNECTED_NONE, &L).time_us, (4 + 2 * 4) * 700);
}

/* A job's first exchange costs its ranks more. */
static void test_cold(void **state)
{
    const struct costs c = {.cold = 100};
    const struct setup first = {.n_nodes = 4, .per_node = 2, .cold = true};

    assert_us(run(&ring, &first, &c).ranks_us, 8 * 100);
    assert_us(sim(&ring, 2, 0, CONNECTED_ALL, &c).ranks_us, 0);
}

/* The table has every cost, in both columns. */
static void test_table(void **state)
{
    struct costs c, own;

    costs_hosts(&c);
    costs_own(&own);
    for (size_t i = 0; i < N_COSTS; i++) {
        assert_true(*cost_of(&c, &cost_table[i]) == cost_table[i].hosts);
        assert_true(*cost_of(&own, &cost_table[i]) == cost_table[i].own);
    }
    assert_int_equal(sizeof(struct costs), N_COSTS * sizeof(double));
    assert_true(sim(&ring, 16, 2, CONNECTED_ALL, &c).time_us >
                sim(&ring, 16, 0, CONNECTED_ALL, &c).time_us);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_processors), cmocka_unit_test(test_shared_processors),
        cmocka_unit_test(test_turns),          cmocka_unit_test(test_fini_drops),
        cmocka_unit_test(test_order),          cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_requests),       cmocka_unit_test(test_moments),
        cmocka_unit_test(test_frames),         cmocka_unit_test(test_packets),
        cmocka_unit_test(test_pairs),          cmocka_unit_test(test_connections),
        cmocka_unit_test(test_cold),           cmocka_unit_test(test_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
