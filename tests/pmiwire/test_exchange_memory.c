/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchange's memory in a large Fence or Allgather: little more than one copy of the pairs, less
 * those handed over. And links that are full.
 *
 * FENCEPOST_PAIRS=N: the number of pairs, or ranks. FENCEPOST_MB=N: the size of one rank's puts.
 */
#include "exchange_world.h"

enum { NODES = 4, KEY = 16, VALUE = 32, BIG = 8192 };

static uint32_t number(const char *name, uint32_t otherwise)
{
    const char *s = getenv(name);

    return s ? (uint32_t)strtoul(s, NULL, 10) : otherwise;
}

static int find_nothing(void *ctx, struct pmiwire_str key, struct pmiwire_str *value)
{
    (void)ctx, (void)key, (void)value;
    return PMIWIRE_ENOENT;
}

/* The peak of the store's growth plus the exchange's memory; the number of pairs to come. */
static uint64_t most_together[NODES], of_a_pair, to_come;

static int together(struct node *n, uint32_t kind, const void *block, size_t bytes)
{
    const uint64_t all = w_stats(n->w, n->id).bytes + n->n_pairs * of_a_pair;

    assert_int_equal(pmiwire_exchange_pairs(n->x), to_come);
    assert_true(bytes <= PMIWIRE_EXCHANGE_BLOCK_BYTES + PMIWIRE_BLOCK_HEADER_BYTES);
    assert_int_equal(kind == PMIWIRE_COLL_ALLGATHER ? VALUE : KEY + VALUE, of_a_pair);
    if (all > most_together[n->id])
        most_together[n->id] = all;
    return 0;
}

static void some_steps(struct world *w, uint32_t n)
{
    int rc = 0;

    while (n-- > 0 && (w_step(w, &rc) || w_ready(w)))
        assert_int_equal(rc, 0);
}

static void everything(struct world *w)
{
    int rc = 0;

    while (w_step(w, &rc) || w_ready(w))
        assert_int_equal(rc, 0);
}

static void report(const char *what, const struct world *w)
{
    uint64_t peak = 0, both = 0, left = 0;

    for (uint32_t i = 0; i < NODES; i++) {
        struct pmiwire_stats_exchange s = w_stats(w, i);

        peak = s.peak_bytes > peak ? s.peak_bytes : peak;
        left = s.bytes > left ? s.bytes : left;
        both = most_together[i] > both ? most_together[i] : both;
    }
    print_message("%s: a node holds at most %.2f MB, with what it has handed over %.2f MB, "
                  "afterwards %.3f MB\n",
                  what, (double)peak / 1e6, (double)both / 1e6, (double)left / 1e6);
}

static void a_fence(void **state)
{
    const uint32_t n = number("FENCEPOST_PAIRS", 200000);
    struct pmiwire_exchange_ops ops = w_ops;
    struct pmiwire_exchange_opts o = {.ops = &ops};
    char key[32], value[VALUE + 1];
    struct world w;

    ops.find = find_nothing;
    of_a_pair = KEY + VALUE;
    to_come = n;
    for (o.fence = 0; o.fence < 2; o.fence++) {
        memset(most_together, 0, sizeof(most_together));
        w_init(&w, NODES, NODES, BLOCK, 1);
        w.on_pairs = together;
        w.choke = true;
        w_start(&w, &o);
        for (uint32_t i = 0; i < n; i++) {
            snprintf(key, sizeof(key), "%08x-address", i * 2654435761u); /* nothing in common */
            snprintf(value, sizeof(value), "%032x", i);
            w_put(&w, i % NODES, key, value, PMIWIRE_HINT_DENSE);
            some_steps(&w, i % 256 == 0);
        }
        for (uint32_t i = 0; i < NODES; i++)
            assert_int_equal(pmiwire_exchange_fence(w.nodes[i].x, PMIWIRE_RANK_ALL), 0);
        everything(&w);
        report(o.fence ? "a Fence by rounds" : "a Fence", &w);
        for (uint32_t i = 0; i < NODES; i++) {
            struct pmiwire_stats_exchange s = w_stats(&w, i);

            assert_int_equal(w.nodes[i].n_done[PMIWIRE_COLL_FENCE], 1);
            assert_int_equal(w.nodes[i].n_pairs, n);
            assert_true(s.peak_bytes <= (uint64_t)n * (KEY + VALUE) + 2000000);
            assert_true(most_together[i] <= (uint64_t)n * (KEY + VALUE) + 2000000);
            assert_true(s.bytes < 8192);
        }
        w_fini(&w);
    }
}

static void an_allgather(void **state)
{
    const uint32_t n = number("FENCEPOST_PAIRS", 200000);
    struct pmiwire_exchange_opts o = {0};
    char value[VALUE + 1];
    struct world w;

    of_a_pair = VALUE;
    to_come = n;
    memset(most_together, 0, sizeof(most_together));
    w_init(&w, NODES, n, BLOCK, 1);
    w.on_pairs = together;
    w.choke = true;
    w_start(&w, &o);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t r = (uint32_t)((uint64_t)i * 7919 % n); /* in no order */

        snprintf(value, sizeof(value), "%032x", r);
        assert_int_equal(
            pmiwire_exchange_allgather(w.nodes[w.node_of[r]].x, (int32_t)r, str(value)), 0);
        some_steps(&w, i % 256 == 0);
    }
    everything(&w);
    report("an Allgather", &w);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(w.nodes[i].n_done[PMIWIRE_COLL_ALLGATHER], 1);
        assert_int_equal(w.nodes[i].n_pairs, n);
        assert_int_equal(pmiwire_exchange_longest_value_bytes(w.nodes[i].x), VALUE);
        assert_true(most_together[i] <= (uint64_t)n * 38 + 2000000); /* 40 MB of a million */
        assert_true(w_stats(&w, i).bytes < 8192 + (uint64_t)n * 2);
    }
    w_fini(&w);
}

/* All pairs are one rank's. They go out with their Puts, so that the last node to enter does not
 * send all of them. */
static void one_rank(void **state)
{
    const uint32_t mb = number("FENCEPOST_MB", 24);
    struct pmiwire_exchange_ops ops = w_ops;
    struct pmiwire_exchange_opts o = {.ops = &ops};
    static char text[BIG];
    struct world w;
    char key[32];
    uint64_t sent;

    memset(text, 't', sizeof(text));
    ops.find = find_nothing;
    w_init(&w, 2, 2, BLOCK, 1);
    w_start(&w, &o);
    for (uint32_t i = 0; i < mb * (1000000 / BIG); i++) {
        snprintf(key, sizeof(key), "key%u", i);
        assert_int_equal(pmiwire_exchange_put(w.nodes[0].x, 0, str(key),
                                              (struct pmiwire_str){text, sizeof(text)},
                                              PMIWIRE_HINT_DENSE),
                         0);
        some_steps(&w, 2);
    }
    sent = w_stats(&w, 0).frames[PMIWIRE_FRAME_COLL].bytes_sent;
    assert_true(sent > (uint64_t)mb * 990000 - 4 * PMIWIRE_EXCHANGE_FRAME_BYTES);
    w_fence(&w);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(w.nodes[i].n_pairs, mb * (1000000 / BIG));
        assert_true(w_stats(&w, i).peak_bytes <= (uint64_t)mb * 1000000 + 2500000);
    }
    w_fini(&w);
}

/* A full link gets no more of a Fence until it is ready, but does get other frames; the Fence does
 * not complete before. */
static void enough(void **state)
{
    for (uint32_t fence = 0; fence < 2; fence++) {
        struct pmiwire_exchange_opts o = {.fence = fence, .max_frame_bytes = 4096};
        static char text[3001];
        struct world w;

        memset(text, 't', 3000);
        w_init(&w, 2, 2, BLOCK, 1);
        w.choke = true;
        w_start(&w, &o);
        for (uint32_t i = 0; i < 40; i++) {
            char key[16];

            snprintf(key, sizeof(key), "key%u", i);
            w_put(&w, 0, key, text, PMIWIRE_HINT_DENSE);
        }
        for (uint32_t i = 0; i < 2; i++)
            assert_int_equal(pmiwire_exchange_fence(w.nodes[i].x, PMIWIRE_RANK_ALL), 0);
        for (uint32_t round = 0; w.nodes[1].n_done[PMIWIRE_COLL_FENCE] == 0; round++) {
            uint64_t sent;

            assert_true(round < 40);
            while (w.n_queued)
                assert_int_equal(w_deliver(&w, w.queues[1].head ? 0 : 1, w.queues[1].head ? 1 : 0),
                                 0);
            if (!w.full[1])
                break;
            assert_int_equal(w.nodes[0].n_done[PMIWIRE_COLL_FENCE], 0);
            sent = w_stats(&w, 0).frames[PMIWIRE_FRAME_COLL].n_sent;
            assert_true(sent < 40);
            pmiwire_exchange_tick(w.nodes[0].x, round);
            assert_int_equal(w_stats(&w, 0).frames[PMIWIRE_FRAME_COLL].n_sent, sent);
            w.full[1] = false;
            w.n_full--;
            assert_int_equal(pmiwire_exchange_ready(w.nodes[0].x, 1), 0);
            assert_true(w_stats(&w, 0).frames[PMIWIRE_FRAME_COLL].n_sent > sent);
        }
        everything(&w);
        for (uint32_t i = 0; i < 2; i++)
            assert_int_equal(w.nodes[i].n_done[PMIWIRE_COLL_FENCE], 1);
        assert_int_equal(pmiwire_exchange_ready(w.nodes[0].x, 1), 0); /* again: it was */
        assert_int_equal(pmiwire_exchange_ready(w.nodes[0].x, 0), -EINVAL);
        assert_int_equal(pmiwire_exchange_ready(w.nodes[0].x, 2), -EINVAL);
        w_fini(&w);
    }
}

static uint32_t n_sent_to_last;

/* The link to node 2 is always full. */
static int send_full(void *ctx, uint32_t to, const struct iovec *iov, uint32_t n_iov, size_t bytes)
{
    n_sent_to_last += to == 2;
    return w_send(ctx, to, iov, n_iov, bytes) || to == 2;
}

/* The last of a node's links gets one frame of a Fence each time that it is ready, too. */
static void full_last_link(void **state)
{
    struct pmiwire_exchange_ops ops = w_ops;
    struct pmiwire_exchange_opts o = {.ops = &ops, .arity = 2, .max_frame_bytes = 4096};
    static char text[3001];
    uint32_t n_ready = 0;
    struct world w;

    memset(text, 't', 3000);
    ops.send = send_full;
    n_sent_to_last = 0;
    w_init(&w, 3, 3, BLOCK, 1);
    w_start(&w, &o);
    for (uint32_t i = 0; i < 10; i++) {
        char key[16];

        snprintf(key, sizeof(key), "key%u", i);
        w_put(&w, 0, key, text, PMIWIRE_HINT_DENSE);
    }
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(pmiwire_exchange_fence(w.nodes[i].x, PMIWIRE_RANK_ALL), 0);
    do {
        w_run(&w);
        assert_int_equal(n_sent_to_last, ++n_ready);
        assert_int_equal(pmiwire_exchange_ready(w.nodes[0].x, 2), 0);
    } while (w.nodes[2].n_done[PMIWIRE_COLL_FENCE] == 0);
    assert_in_range(n_ready, 10, 12);
    w_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fence), cmocka_unit_test(an_allgather),   cmocka_unit_test(one_rank),
        cmocka_unit_test(enough),  cmocka_unit_test(full_last_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
