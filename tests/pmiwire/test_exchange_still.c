/* SPDX-License-Identifier: BSD-3-Clause */
/* The exchange: a Get that waits for a key that nobody is left to put ends, and only such a Get
 * does; and what finding that out costs. */
#include "exchange_world.h"

static const uint32_t designs[] = {PMIWIRE_DESIGN_DKVS, PMIWIRE_DESIGN_DIRECT, PMIWIRE_DESIGN_TREE};

/* Which nodes' ranks are all gone or blocked: a bit for each. */
static uint32_t still_nodes;

static int on_still(const struct node *n)
{
    return still_nodes >> n->id & 1;
}

static void start(struct world *w, uint32_t n_nodes, uint32_t n_ranks,
                  const struct pmiwire_exchange_opts *o)
{
    w_init(w, n_nodes, n_ranks, BLOCK, 11);
    w->on_still = on_still;
    still_nodes = UINT32_MAX;
    w_start(w, o);
}

static uint64_t count(const struct world *w, uint32_t type)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < w->n_nodes; i++)
        n += w_stats(w, i).frames[type].n_sent;
    return n;
}

static uint64_t clock_;

static void ticks(struct world *w, uint32_t n)
{
    while (n-- > 0) {
        w_tick(w, clock_ += 1000);
        w_run(w);
    }
}

static void expect_none(const struct world *w, uint64_t token)
{
    assert_true(w->gets[token].ended);
    assert_int_equal(w->gets[token].rc, PMIWIRE_ENOENT);
}

/* Deliver all but STILL frames. */
static void run_others(struct world *w)
{
    while (w->n_queued > w->n_still)
        for (uint32_t i = 0; i < w->n_nodes * w->n_nodes; i++)
            if (w->queues[i].head && !is_still(w->queues[i].head))
                assert_int_equal(w_deliver(w, i / w->n_nodes, i % w->n_nodes), 0);
}

/* Deliver everything but what one node sends to another. */
static void run_but(struct world *w, uint32_t from, uint32_t to)
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

/* Everybody waits, from everywhere, for one key or each for another; all end, and the job goes on.
 * Again. */
static void all_wait(void **state)
{
    static const uint32_t sizes[] = {1, 2, 7, 31};
    struct world w;

    (void)state;
    for (size_t d = 0; d < 3; d++)
        for (size_t s = 0; s < 4; s++)
            for (uint32_t same = 0; same < 2; same++) {
                struct pmiwire_exchange_opts o = {.design = designs[d], .arity = s == 3 ? 0 : 2};
                const uint32_t n = sizes[s];
                uint64_t t[62];

                start(&w, n, 2 * n, &o);
                for (uint32_t round = 0; round < 3; round++) {
                    const uint64_t sent = count(&w, PMIWIRE_XF_STILL);
                    char key[16] = "key";

                    for (uint32_t r = 0; r < 2 * n; r++) {
                        if (!same)
                            snprintf(key, sizeof(key), "key%u", r);
                        t[r] = w_get(&w, w.node_of[r], key, (int32_t)(same ? 1 : (r + 3) % (2 * n)),
                                     PMIWIRE_GET_WAIT);
                        assert_true(w.gets[t[r]].pending);
                    }
                    ticks(&w, 1);
                    for (uint32_t r = 0; r < 2 * n; r++)
                        assert_true(w.gets[t[r]].pending);
                    assert_int_equal(count(&w, PMIWIRE_XF_STILL), sent);
                    ticks(&w, 2);
                    for (uint32_t r = 0; r < 2 * n; r++)
                        expect_none(&w, t[r]);
                    /* On each link a NEED, two where it meets the first PROBE; two waves; an END.
                     * */
                    assert_in_range(count(&w, PMIWIRE_XF_STILL) - sent, 6 * (n - 1), 7 * (n - 1));
                    for (uint32_t i = 0; i < n; i++) {
                        assert_int_equal(w_stats(&w, i).n_waiting, 0);
                        assert_int_equal(w_stats(&w, i).n_keys, 0);
                        assert_int_equal(w_stats(&w, i).n_refused, 0);
                    }
                }
                t[0] = w_get(&w, n - 1, "key", 1, PMIWIRE_GET_WAIT);
                t[1] = count(&w, PMIWIRE_XF_STILL);
                w_put(&w, 1, "key", "now", PMIWIRE_HINT_SPARSE);
                w_run(&w);
                w_expect(&w, t[0], "now");
                w_fence(&w);
                ticks(&w, 5);
                assert_int_equal(count(&w, PMIWIRE_XF_STILL), t[1]);
                w_fini(&w);
            }
}

/* Gets that are answered before two ticks have gone by cost nothing, however many there are. */
static void no_frames_for_short_waits(void **state)
{
    struct world w;
    char key[24];

    (void)state;
    for (size_t d = 0; d < 3; d++) {
        struct pmiwire_exchange_opts o = {.design = designs[d], .arity = 2};

        start(&w, 7, 14, &o);
        for (uint32_t round = 0; round < 50; round++) {
            uint64_t t[14];

            for (uint32_t r = 0; r < 14; r++) {
                snprintf(key, sizeof(key), "%u.%u", round, (r + 5) % 14);
                t[r] = w_get(&w, w.node_of[r], key, (int32_t)(r + 5) % 14, PMIWIRE_GET_WAIT);
            }
            ticks(&w, 1);
            for (uint32_t r = 0; r < 14; r++) {
                snprintf(key, sizeof(key), "%u.%u", round, r);
                w_put(&w, r, key, "v", PMIWIRE_HINT_SPARSE);
            }
            w_run(&w);
            for (uint32_t r = 0; r < 14; r++)
                w_expect(&w, t[r], "v");
        }
        ticks(&w, 10);
        assert_int_equal(count(&w, PMIWIRE_XF_STILL), 0);
        w_fini(&w);
    }
}

/* A rank that computes may still put: its node holds the wave, whichever it is, and nothing is sent
 * meanwhile. */
static void a_busy_node(void **state)
{
    struct world w;

    (void)state;
    for (size_t d = 0; d < 3; d++)
        for (uint32_t busy = 0; busy < 7; busy++)
            for (uint32_t puts = 0; puts < 2; puts++) {
                struct pmiwire_exchange_opts o = {.design = designs[d], .arity = 2};
                const uint32_t waits = (busy + 3) % 7;
                uint64_t t, sent;

                start(&w, 7, 7, &o);
                still_nodes &= ~(1u << busy);
                t = w_get(&w, waits, "key", (int32_t)busy, PMIWIRE_GET_WAIT);
                ticks(&w, 5);
                sent = count(&w, PMIWIRE_XF_STILL);
                assert_in_range(sent, 6, 3 * 6);
                ticks(&w, 100);
                assert_int_equal(count(&w, PMIWIRE_XF_STILL), sent);
                assert_true(w.gets[t].pending);
                if (puts)
                    w_put(&w, busy, "key", "v", PMIWIRE_HINT_SPARSE);
                w_run(&w);
                still_nodes = UINT32_MAX; /* it waits, or has gone: seen with the next tick */
                ticks(&w, 2);
                if (puts)
                    w_expect(&w, t, "v");
                else
                    expect_none(&w, t);
                sent = count(&w, PMIWIRE_XF_STILL);
                ticks(&w, 10);
                assert_int_equal(count(&w, PMIWIRE_XF_STILL),
                                 sent); /* nothing is left to ask about */
                w_fini(&w);
            }
}

/* Everybody is still, but a frame is on its way: waves come and go around it. One after the other,
 * each frame that a Put or a Get sends. */
static void a_frame_on_its_way(void **state)
{
    struct world w;

    (void)state;
    for (size_t d = 0; d < 3; d++)
        for (uint32_t fence_free = 0; fence_free < 2; fence_free++)
            for (uint32_t put = 1; put < 7; put++)
                for (uint32_t slow = 0;; slow++) {
                    struct pmiwire_exchange_opts o = {
                        .design = designs[d], .arity = 2, .flags = fence_free};
                    uint32_t n_slow = 0, from = 0, to = 0;
                    uint64_t t;

                    start(&w, 7, 7, &o);
                    t = w_get(&w, (put + 2) % 7, "key", (int32_t)put, PMIWIRE_GET_WAIT);
                    w_put(&w, put, "key", "v", PMIWIRE_HINT_SPARSE);
                    for (uint32_t i = 0; i < 49; i++)
                        if (w.queues[i].head && n_slow++ == slow) {
                            from = i / 7;
                            to = i % 7;
                        }
                    if (slow >= n_slow) {
                        w_fini(&w);
                        break;
                    }
                    for (uint32_t i = 0; i < 10; i++) {
                        w_tick(&w, clock_ += 1000);
                        run_but(&w, from, to);
                        assert_true(!w.gets[t].ended || w.gets[t].rc == 0);
                    }
                    w_run(&w);
                    w_expect(&w, t, "v");
                    w_fini(&w);
                }
}

/* The same with that frame alone being slow, and STILL frames overtaking it by other links than its
 * own: a Put to a home that is no neighbour. */
static void a_put_that_is_overtaken(void **state)
{
    uint32_t n_tried = 0;
    struct world w;

    (void)state;
    for (uint32_t put = 0; put < 15; put++)
        for (uint32_t k = 0; k < 20; k++) {
            struct pmiwire_exchange_opts o = {
                .design = PMIWIRE_DESIGN_DKVS, .arity = 2, .flags = PMIWIRE_EXCHANGE_FENCE_FREE};
            uint32_t home = 0, neighbour;
            bool near = false;
            char key[16];
            uint64_t t;

            snprintf(key, sizeof(key), "key%u", k);
            start(&w, 15, 15, &o);
            w_put(&w, put, key, "v", PMIWIRE_HINT_SPARSE);
            while (home < 15 && !w.queues[put * 15 + home].head)
                home++;
            for (uint32_t i = 0; pmiwire_exchange_neighbour(w.nodes[put].x, i, &neighbour) == 0;
                 i++)
                near = near || neighbour == home;
            if (home < 15 && !near) {
                n_tried++;
                t = w_get(&w, home, key, -1, PMIWIRE_GET_WAIT);
                for (uint32_t i = 0; i < 10; i++) {
                    w_tick(&w, clock_ += 1000);
                    run_but(&w, put, home);
                    assert_true(w.gets[t].pending);
                }
                assert_true(count(&w, PMIWIRE_XF_STILL) > 28); /* waves have been all around */
                w_run(&w);
                w_expect(&w, t, "v");
            }
            w_fini(&w);
        }
    assert_true(n_tried > 100);
}

/* A key that another node has put as DENSE comes with the Fence, which waits for the rank that
 * waits for the key. */
static void one_waits_and_the_others_fence(void **state)
{
    struct world w;

    (void)state;
    for (size_t d = 0; d < 3; d++)
        for (uint32_t fence = 0; fence < (designs[d] == PMIWIRE_DESIGN_TREE ? 1u : 2u); fence++) {
            struct pmiwire_exchange_opts o = {.design = designs[d], .fence = fence, .arity = 2};
            uint64_t t;

            start(&w, 7, 14, &o);
            for (uint32_t r = 0; r < 13; r++) {
                w_put(&w, r, "dense", "v", PMIWIRE_HINT_DENSE);
                assert_int_equal(pmiwire_exchange_fence(w.nodes[w.node_of[r]].x, (int32_t)r), 0);
            }
            t = w_get(&w, 6, designs[d] == PMIWIRE_DESIGN_DIRECT ? "absent" : "dense", 3,
                      PMIWIRE_GET_WAIT);
            if (w.gets[t].pending) /* else its own node has put it */
                ticks(&w, 4);
            else
                t = w_get(&w, 6, "absent", 3, PMIWIRE_GET_WAIT), ticks(&w, 4);
            expect_none(&w, t);
            assert_int_equal(pmiwire_exchange_fence(w.nodes[6].x, 13), 0);
            w_run(&w);
            for (uint32_t i = 0; i < 7; i++)
                w_expect(&w, w_get(&w, i, "dense", -1, PMIWIRE_GET_LOCAL), "v");
            w_fini(&w);
        }
}

static void dense_elsewhere(void **state)
{
    struct pmiwire_exchange_opts o = {.arity = 2};
    struct world w;
    uint64_t t;

    (void)state;
    start(&w, 7, 7, &o);
    w_put(&w, 2, "dense", "v", PMIWIRE_HINT_DENSE);
    t = w_get(&w, 5, "dense", 2, PMIWIRE_GET_WAIT);
    w_run(&w);
    if (w.gets[t].pending) { /* unless node 2 is its home */
        ticks(&w, 4);
        expect_none(&w, t);
    }
    w_fence(&w);
    w_expect(&w, w_get(&w, 5, "dense", 2, PMIWIRE_GET_WAIT), "v");
    w_fini(&w);
}

/* Ticks until the first wave has begun, and then until a node has replied to the second, which is
 * the one that ends the Gets. */
static void until_second_reply(struct world *w, uint32_t node)
{
    const uint64_t before = w_stats(w, node).frames[PMIWIRE_XF_STILL].n_sent;
    const uint32_t parent = (node - 1) / 2;
    uint64_t need = 0;
    int rc;

    w_tick(w, clock_ += 1000);
    w_run(w);
    while (w_stats(w, node).frames[PMIWIRE_XF_STILL].n_received < 2 + need ||
           w->queues[node * w->n_nodes + parent].head == NULL ||
           w_stats(w, node).frames[PMIWIRE_XF_STILL].n_sent < before + 2) {
        if (!w_step(w, &rc))
            w_tick(w, clock_ += 1000);
    }
}

/* Somebody asks while the END is on its way already: not for nothing. He is not told that nobody
 * was left before he asked. */
static void who_joins_late(void **state)
{
    struct world w;

    (void)state;
    for (size_t d = 0; d < 3; d++) {
        struct pmiwire_exchange_opts o = {.design = designs[d], .arity = 2};
        uint64_t early, late, other;

        start(&w, 7, 14, &o);
        early = w_get(&w, 5, "key", 9, PMIWIRE_GET_WAIT);
        run_others(&w);
        until_second_reply(&w, 5);
        assert_true(w.gets[early].pending);
        late = w_get(&w, 5, "key", 9, PMIWIRE_GET_WAIT);
        other = w_get(&w, 5, "other", 9, PMIWIRE_GET_WAIT);
        w_run(&w);
        expect_none(&w, early);
        assert_true(w.gets[late].pending && w.gets[other].pending);
        w_put(&w, 9, "key", "v", PMIWIRE_HINT_SPARSE);
        w_run(&w);
        w_expect(&w, late, "v");
        assert_true(w.gets[other].pending);
        ticks(&w, 4);
        expect_none(&w, other);
        w_fini(&w);
    }
}

/* A Get that runs out of time wakes its rank without a frame: between two waves, that is seen. */
static void a_rank_that_wakes_by_itself(void **state)
{
    struct pmiwire_exchange_opts o = {.arity = 2, .wait_ns = 2500};
    struct world w;
    uint64_t a, b;
    int rc;

    (void)state;
    for (uint32_t node = 1; node < 7; node++) {
        start(&w, 7, 14, &o);
        a = w_get(&w, node, "key", -1, PMIWIRE_GET_WAIT);
        w_run(&w);
        /* All nodes but this one see the time pass slowly. */
        pmiwire_exchange_tick(w.nodes[node].x, 1000);
        pmiwire_exchange_tick(w.nodes[node].x, 2000); /* NEED */
        b = w_get(&w, (node + 3) % 7, "another", -1, PMIWIRE_GET_WAIT);
        w_run(&w);
        for (uint32_t i = 0; i < 7; i++)
            if (i != node)
                pmiwire_exchange_tick(w.nodes[i].x, 10);
        while (w_stats(&w, node).frames[PMIWIRE_XF_STILL].n_sent < (node < 3 ? 4u : 2u) ||
               w.queues[node * 7 + (node - 1) / 2].head == NULL)
            assert_true(w_step(&w, &rc)); /* until it has replied to the first wave */
        assert_true(w.gets[a].pending);
        pmiwire_exchange_tick(w.nodes[node].x, 4000);
        assert_int_equal(w.gets[a].rc, PMIWIRE_ETIME);
        w_run(&w);
        assert_true(w.gets[b].pending); /* what that rank has done since could have been a Put */
        w_tick(&w, 20);                 /* nothing since: this pair holds */
        w_run(&w);
        expect_none(&w, b);
        w_fini(&w);
    }
}

/* Without ops->still on one node nothing ends, and nothing breaks. */
static void one_that_cannot_say(void **state)
{
    struct pmiwire_exchange_ops mute = w_ops;
    struct pmiwire_exchange_opts o = {.arity = 2};
    struct world w;
    uint64_t t;

    (void)state;
    mute.still = NULL;
    for (uint32_t node = 0; node < 7; node++) {
        w_init(&w, 7, 7, BLOCK, 11);
        w.on_still = on_still;
        still_nodes = UINT32_MAX;
        for (uint32_t i = 0; i < 7; i++) {
            struct pmiwire_exchange_opts own = o;

            own.ops = i == node ? &mute : NULL;
            assert_int_equal(w_create(&w, i, &own), 0);
        }
        t = w_get(&w, 6, "key", -1, PMIWIRE_GET_WAIT);
        ticks(&w, 20);
        assert_true(w.gets[t].pending);
        assert_true(count(&w, PMIWIRE_XF_STILL) < 30);
        w_put(&w, 1, "key", "v", PMIWIRE_HINT_SPARSE);
        w_run(&w);
        w_expect(&w, t, "v");
        w_fini(&w);
    }
}

/* Whoever is told may wait again at once: that one is ended by a later pair. */
static void wait_again(struct node *n, uint64_t token)
{
    char key[24];

    if (token >= 21)
        return;
    snprintf(key, sizeof(key), "again%u", (unsigned)token);
    (void)w_get(n->w, n->id, key, 2, PMIWIRE_GET_WAIT);
}

static void again_and_again(void **state)
{
    struct world w;

    (void)state;
    for (size_t d = 0; d < 3; d++) {
        struct pmiwire_exchange_opts o = {.design = designs[d], .arity = 2};

        start(&w, 7, 7, &o);
        w.on_got = wait_again;
        for (uint32_t i = 0; i < 7; i++)
            (void)w_get(&w, i, "first", 2, PMIWIRE_GET_WAIT);
        ticks(&w, 20);
        assert_int_equal(w.n_gets, 28);
        for (size_t t = 0; t < w.n_gets; t++)
            expect_none(&w, t);
        w_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_wait),
        cmocka_unit_test(no_frames_for_short_waits),
        cmocka_unit_test(a_busy_node),
        cmocka_unit_test(a_frame_on_its_way),
        cmocka_unit_test(a_put_that_is_overtaken),
        cmocka_unit_test(one_waits_and_the_others_fence),
        cmocka_unit_test(dense_elsewhere),
        cmocka_unit_test(who_joins_late),
        cmocka_unit_test(a_rank_that_wakes_by_itself),
        cmocka_unit_test(one_that_cannot_say),
        cmocka_unit_test(again_and_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
