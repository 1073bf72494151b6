/* SPDX-License-Identifier: BSD-3-Clause */
/* The exchange: a waiting Get ends when the rank that could put its key is gone, but not before a
 * search for that rank's puts; and the frames that this costs. */
#include "exchange_world.h"

static const uint32_t designs[] = {PMIWIRE_DESIGN_DKVS, PMIWIRE_DESIGN_DIRECT, PMIWIRE_DESIGN_TREE};

static void start(struct world *w, uint32_t n_nodes, uint32_t n_ranks,
                  const struct pmiwire_exchange_opts *o)
{
    w_init(w, n_nodes, n_ranks, BLOCK, 11);
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

/* Unanswered Gets leave no state, neither where they waited nor on the way. */
static void expect_nothing(const struct world *w)
{
    for (uint32_t i = 0; i < w->n_nodes; i++) {
        assert_int_equal(w_stats(w, i).n_waiting, 0);
        assert_int_equal(w_stats(w, i).n_keys, 0);
    }
}

static void expect_culprit(const struct world *w, uint64_t token, uint32_t rank)
{
    assert_int_equal(w->gets[token].culprit, rank);
    assert_int_equal(w->gets[token].why, PMIWIRE_GONE_ENDED);
}

static void expect_none(const struct world *w, uint64_t token)
{
    assert_true(w->gets[token].ended);
    assert_int_equal(w->gets[token].rc, PMIWIRE_ENOENT);
}

/* Delivers everything except frames of `from` to the nodes of this bit set. */
static void run_without(struct world *w, uint32_t from, uint64_t to)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (uint32_t i = 0; i < w->n_nodes * w->n_nodes; i++)
            if (w->queues[i].head && !(i / w->n_nodes == from && to >> i % w->n_nodes & 1)) {
                assert_int_equal(w_deliver(w, i / w->n_nodes, i % w->n_nodes), 0);
                moved = true;
            }
    }
}

/* Links between two nodes in the tree of arity 2. */
static uint32_t distance(uint32_t a, uint32_t b)
{
    uint32_t n = 0;

    for (; a != b; n++)
        if (a > b)
            a = (a - 1) / 2;
        else
            b = (b - 1) / 2;
    return n;
}

/* A Get from every node for a rank of every node. While no rank is gone no node asks; afterwards
 * each tick asks by the shortest way, and the answer about that rank returns by the same way. */
static void a_named_source(void **state)
{
    struct world w;

    for (size_t d = 0; d < 3; d++)
        for (uint32_t waits = 0; waits < 7; waits++)
            for (uint32_t source = 0; source < 7; source++) {
                struct pmiwire_exchange_opts o = {.design = designs[d], .arity = 2};
                const uint32_t links = distance(waits, source);
                uint64_t t, base;

                start(&w, 7, 14, &o); /* two ranks a node */
                t = w_get_by(&w, waits, (int32_t)(2 * waits), "key", (int32_t)(2 * source + 1),
                             PMIWIRE_GET_WAIT);
                w_run(&w);
                ticks(&w, 6);
                assert_int_equal(count(&w, PMIWIRE_FRAME_GONE), 0);
                /* The other rank of its node, unless that one waits. */
                w_gone(&w, waits == source ? (2 * source + 2) % 14 : 2 * source);
                w_run(&w);
                ticks(&w, 1); /* flooded: each link carries it once */
                assert_int_equal(count(&w, PMIWIRE_FRAME_LIMIT), 6);
                base = count(&w, PMIWIRE_FRAME_GONE); /* a node may be ticked after it has come */
                ticks(&w, 5);
                assert_int_equal(count(&w, PMIWIRE_FRAME_GONE), base + 5 * links);
                assert_true(w.gets[t].pending);
                w_gone(&w, 2 * source + 1);
                w_gone(&w, 2 * source + 1);
                w_run(&w);
                if (links)
                    assert_true(w.gets[t].pending);
                ticks(&w, 1);
                expect_none(&w, t);
                expect_culprit(&w, t, 2 * source + 1);
                assert_int_equal(count(&w, PMIWIRE_FRAME_GONE), base + 7 * links);
                t = count(&w, PMIWIRE_FRAME_GONE);
                ticks(&w, 5);
                assert_int_equal(count(&w, PMIWIRE_FRAME_GONE), t);
                for (uint32_t i = 0; i < 7; i++)
                    assert_int_equal(w_stats(&w, i).n_refused, 0);
                w_fini(&w);
            }
}

/* The Get names no rank, or its own: one other rank is enough, on any node. */
static void no_source(void **state)
{
    struct world w;

    for (size_t d = 0; d < 3; d += 2) /* DIRECT needs a source */
        for (uint32_t self = 0; self < 2; self++)
            for (uint32_t waits = 0; waits < 14; waits++) {
                struct pmiwire_exchange_opts o = {.design = designs[d], .arity = 2};
                const uint32_t last = (waits + 5) % 14;
                uint64_t t, other;

                start(&w, 7, 14, &o);
                t = w_get_by(&w, w.node_of[waits], (int32_t)waits, "key",
                             self ? (int32_t)waits : -1, PMIWIRE_GET_WAIT);
                other = w_get_by(&w, w.node_of[last], (int32_t)last, "key", -1, PMIWIRE_GET_WAIT);
                w_run(&w);
                ticks(&w, 2);
                for (uint32_t r = 0; r < 14; r++)
                    if (r != waits && r != last)
                        w_gone(&w, r);
                w_run(&w);
                ticks(&w, 3);
                assert_true(w.gets[t].pending && w.gets[other].pending); /* both could put */
                w_gone(&w, last);                                        /* it has given up */
                w_run(&w);
                ticks(&w, 1);
                expect_none(&w, t);
                assert_int_equal(w_stats(&w, w.node_of[waits]).n_refused, 0);
                w_fini(&w);
            }
}

/* A Get does not wait for a source that is known to be gone; it finds that rank's puts. */
static void known_to_be_gone(void **state)
{
    struct world w;

    for (size_t d = 0; d < 3; d++) {
        struct pmiwire_exchange_opts o = {.design = designs[d], .arity = 2};

        start(&w, 3, 6, &o);
        w_put(&w, 0, "key", "v", PMIWIRE_HINT_SPARSE);
        w_gone(&w, 0);
        for (uint32_t node = 0; node < 3; node++) {
            uint64_t t = w_get(&w, node, "key", 0, PMIWIRE_GET_WAIT),
                     none = w_get(&w, node, "none", 0, PMIWIRE_GET_WAIT);

            w_run(&w);
            w_expect(&w, t, "v");
            ticks(&w, node == 0 ? 0 : 2);
            expect_none(&w, none);
        }
        assert_int_equal(pmiwire_exchange_gone(w.nodes[0].x, 3, PMIWIRE_GONE_ENDED), -EINVAL);
        assert_int_equal(pmiwire_exchange_gone(w.nodes[0].x, -1, PMIWIRE_GONE_ENDED), -EINVAL);
        assert_int_equal(pmiwire_exchange_gone(w.nodes[0].x, 6, PMIWIRE_GONE_ENDED), -EINVAL);
        w_fini(&w);
    }
}

/* Gets that end within two ticks cost no frames, whatever their number. */
static void no_frames_for_short_waits(void **state)
{
    struct world w;
    char key[24];

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
        for (uint32_t r = 0; r < 14; r++)
            w_gone(&w, r);
        ticks(&w, 10);
        assert_int_equal(count(&w, PMIWIRE_FRAME_GONE), 0);
        w_fini(&w);
    }
}

/* The source has put the key and ended, and one of the frames of its Put or the Get is late, each
 * in turn: the key is found. */
static void a_put_that_is_late(void **state)
{
    struct world w;

    for (size_t d = 0; d < 3; d++)
        for (uint32_t flags = 0; flags < 2; flags++)
            for (uint32_t remote = 0; remote < 2; remote++)
                for (uint32_t put = 0; put < 7; put++)
                    for (uint32_t slow = 0;; slow++) {
                        struct pmiwire_exchange_opts o = {
                            .design = designs[d], .arity = 2, .flags = flags};
                        const uint32_t node = (put + 2) % 7;
                        uint32_t n_slow = 0, from = 0, to = 0;
                        uint64_t t;

                        start(&w, 7, 7, &o);
                        if (remote) /* one that does not wait is in flight, and arrives too early */
                            (void)w_get(&w, node, "key", (int32_t)put, PMIWIRE_GET_REMOTE);
                        t = w_get(&w, node, "key", (int32_t)put, PMIWIRE_GET_WAIT);
                        w_put(&w, put, "key", "v", PMIWIRE_HINT_SPARSE);
                        w_gone(&w, put);
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
                            w_run_but(&w, from, to);
                            assert_true(!w.gets[t].ended || w.gets[t].rc == 0);
                        }
                        w_run(&w);
                        w_expect(&w, t, "v");
                        w_fini(&w);
                    }
}

/* The home's answer to a request that did not wait is late: it reports that there is no key, from
 * before the Put. The rank that put it is gone, and that answer does not count. */
static void an_answer_that_is_late(void **state)
{
    struct pmiwire_exchange_opts o = {.design = PMIWIRE_DESIGN_TREE, .arity = 2};
    struct world w;
    uint64_t t, early;

    start(&w, 7, 7, &o);
    t = w_get(&w, 3, "key", 2, PMIWIRE_GET_WAIT);
    w_run(&w);
    early = w_get(&w, 3, "key", 2, PMIWIRE_GET_REMOTE);
    w_run_but(&w, 0, 3);
    assert_true(w.gets[early].pending); /* the answer is in flight */
    w_put(&w, 2, "key", "v", PMIWIRE_HINT_SPARSE);
    w_gone(&w, 2);
    for (uint32_t i = 0; i < 3; i++) {
        w_tick(&w, clock_ += 1000);
        w_run_but(&w, 0, 3);
        assert_true(!w.gets[t].ended || w.gets[t].rc == 0);
    }
    w_run(&w);
    w_expect(&w, t, "v");
    w_fini(&w);
}

/* The same on the way up the tree: node 3 expects such an answer, and still forwards node 7's
 * request. */
static void a_late_answer_on_the_way(void **state)
{
    struct pmiwire_exchange_opts o = {.design = PMIWIRE_DESIGN_TREE, .arity = 2};
    const uint64_t late = 1u << 3 | 1u << 7;
    struct world w;
    uint64_t t, early;

    start(&w, 15, 15, &o);
    t = w_get(&w, 7, "key", 2, PMIWIRE_GET_WAIT);
    w_run(&w);
    early = w_get(&w, 3, "key", 2, PMIWIRE_GET_REMOTE);
    run_without(&w, 0, late);
    assert_true(w.gets[early].pending);
    w_put(&w, 2, "key", "v", PMIWIRE_HINT_SPARSE);
    w_gone(&w, 2);
    for (uint32_t i = 0; i < 3; i++) {
        w_tick(&w, clock_ += 1000);
        run_without(&w, 0, late);
    }
    assert_int_equal(w_deliver(&w, 0, 3), 0); /* "no such key" */
    run_without(&w, 0, late);
    w_expect(&w, t, "v");
    w_run(&w);
    assert_true(w.gets[early].ended);
    w_fini(&w);
}

/* Two such answers are late at node 3: one to its own request, and one to a last request that it
 * has forwarded for node 7 meanwhile. Neither counts. */
static void two_late_answers(void **state)
{
    struct pmiwire_exchange_opts o = {.design = PMIWIRE_DESIGN_TREE, .arity = 2};
    struct world w;
    uint64_t t, early, child;

    w_init(&w, 8, 16, CYCLIC, 11);
    w_start(&w, &o);
    early = w_get(&w, 3, "key", 2, PMIWIRE_GET_REMOTE);
    w_run_but(&w, 0, 3);
    w_gone(&w, 15); /* of node 7, which has no other source to wait for */
    child = w_get(&w, 7, "key", 15, PMIWIRE_GET_WAIT);
    w_run_but(&w, 0, 3);
    expect_none(&w, child);
    t = w_get(&w, 3, "key", 2, PMIWIRE_GET_WAIT);
    w_run_but(&w, 0, 3);
    w_put(&w, 2, "key", "v", PMIWIRE_HINT_SPARSE);
    w_gone(&w, 2);
    for (uint32_t i = 0; i < 3; i++) {
        w_tick(&w, clock_ += 1000);
        w_run_but(&w, 0, 3);
    }
    assert_true(w.gets[early].pending && w.gets[t].pending);
    w_run(&w);
    expect_none(&w, early);
    w_expect(&w, t, "v");
    w_fini(&w);
}

/* Puts that are not acknowledged may be anywhere: in DKVS with FENCE_FREE only time ends a Get. */
static void without_acknowledgements(void **state)
{
    struct pmiwire_exchange_opts o = {.design = PMIWIRE_DESIGN_DKVS,
                                      .arity = 2,
                                      .flags = PMIWIRE_EXCHANGE_FENCE_FREE,
                                      .wait_ns = 20000};
    struct world w;
    uint64_t t;

    start(&w, 7, 7, &o);
    t = w_get(&w, 6, "key", 1, PMIWIRE_GET_WAIT);
    w_gone(&w, 1);
    ticks(&w, 10);
    assert_true(w.gets[t].pending);
    ticks(&w, 20);
    assert_true(w.gets[t].ended);
    assert_int_equal(w.gets[t].rc, PMIWIRE_ETIME);
    expect_nothing(&w);
    w_fini(&w);
}

/* The Gets of a rank that is itself gone end, and leave no state, here or at the home; another
 * rank's Get of the same key continues. */
static void its_own(void **state)
{
    struct world w;

    for (size_t d = 0; d < 3; d++)
        for (uint32_t others = 0; others < 2; others++) {
            struct pmiwire_exchange_opts o = {.design = designs[d], .arity = 2};
            uint64_t t, other = 0;

            start(&w, 7, 14, &o);
            t = w_get_by(&w, 5, 10, "key", 3, PMIWIRE_GET_WAIT);
            if (others)
                other = w_get_by(&w, 5, 11, "key", 3, PMIWIRE_GET_WAIT);
            w_run(&w);
            w_gone(&w, 10);
            expect_none(&w, t);
            assert_int_equal(w.gets[t].culprit, -1);
            w_run(&w);
            if (others) {
                assert_true(w.gets[other].pending);
                w_put(&w, 3, "key", "v", PMIWIRE_HINT_SPARSE);
                w_run(&w);
                w_expect(&w, other, "v");
            } else {
                expect_nothing(&w);
            }
            w_fini(&w);
        }
}

/* Many wait for one rank, some for another: a tick asks once for each, and all end. */
static void many_wait(void **state)
{
    struct world w;
    uint64_t t[40];

    for (size_t d = 0; d < 3; d++) {
        struct pmiwire_exchange_opts o = {.design = designs[d], .arity = 2};

        start(&w, 7, 14, &o);
        for (uint32_t i = 0; i < 40; i++) {
            char key[16];

            snprintf(key, sizeof(key), "key%u", i % 10);
            t[i] = w_get(&w, 6, key, 3, PMIWIRE_GET_WAIT);
        }
        w_gone(&w, 0);
        ticks(&w, 2);
        assert_int_equal(count(&w, PMIWIRE_FRAME_GONE), distance(6, 1));
        w_gone(&w, 3);
        ticks(&w, 1);
        for (uint32_t i = 0; i < 40; i++)
            expect_none(&w, t[i]);
        expect_nothing(&w);
        assert_int_equal(w_stats(&w, 6).n_refused, 0);
        w_fini(&w);
    }
}

/* After the error a rank may wait again at once, for another rank. */
static void wait_again(struct node *n, uint64_t token)
{
    char key[24];

    if (token >= 21)
        return;
    snprintf(key, sizeof(key), "again%u", (unsigned)token);
    (void)w_get(n->w, n->id, key, (int32_t)((token + 3) % 7), PMIWIRE_GET_WAIT);
}

static void again_and_again(void **state)
{
    struct world w;

    for (size_t d = 0; d < 3; d++) {
        struct pmiwire_exchange_opts o = {.design = designs[d], .arity = 2};

        start(&w, 7, 7, &o);
        w.on_got = wait_again;
        for (uint32_t i = 0; i < 7; i++)
            (void)w_get(&w, i, "first", 2, PMIWIRE_GET_WAIT);
        ticks(&w, 3);
        for (uint32_t r = 0; r < 7; r++)
            w_gone(&w, r);
        ticks(&w, 20);
        assert_in_range(w.n_gets, 20, 28); /* a Get that this node can decide alone ends at once */
        for (size_t t = 0; t < w.n_gets; t++)
            expect_none(&w, t);
        w_fini(&w);
    }
}

/* A key that another node has put as DENSE comes with the Fence; the Get ends before, as its source
 * is gone, and the job continues. */
static void dense_elsewhere(void **state)
{
    struct pmiwire_exchange_opts o = {.arity = 2};
    struct world w;
    uint64_t t;

    start(&w, 7, 7, &o);
    w_put(&w, 2, "dense", "v", PMIWIRE_HINT_DENSE);
    t = w_get(&w, 5, "dense", 2, PMIWIRE_GET_WAIT);
    w_run(&w);
    assert_int_equal(pmiwire_exchange_fence(w.nodes[2].x, 2), 0);
    w_gone(&w, 2);
    ticks(&w, 3);
    assert_true(w.gets[t].ended); /* with the value if node 2 is its home */
    for (uint32_t i = 0; i < 7; i++)
        if (i != 2)
            assert_int_equal(pmiwire_exchange_fence(w.nodes[i].x, PMIWIRE_RANK_ALL), 0);
    w_run(&w);
    w_expect(&w, w_get(&w, 5, "dense", 2, PMIWIRE_GET_WAIT), "v");
    w_fini(&w);
}

/* Several nodes wait for a key and give up one by one; the rest get the answer. */
static void some_give_up(void **state)
{
    struct world w;
    uint64_t t[15];

    for (size_t d = 0; d < 3; d++) {
        struct pmiwire_exchange_opts o = {.design = designs[d], .arity = 2, .wait_ns = 20000};

        start(&w, 15, 15, &o);
        for (uint32_t i = 14; i > 1; i--) {
            t[i] = w_get(&w, i, "key", 1, PMIWIRE_GET_WAIT);
            ticks(&w, 5);
        }
        for (uint32_t i = 2; i < 15; i++)
            assert_int_equal(w.gets[t[i]].ended, i > 5);
        w_put(&w, 1, "key", "v", PMIWIRE_HINT_SPARSE);
        w_run(&w);
        for (uint32_t i = 2; i < 15; i++)
            if (w.gets[t[i]].rc != PMIWIRE_ETIME)
                w_expect(&w, t[i], "v");
        for (uint32_t i = 0; i < 15; i++)
            assert_int_equal(w_stats(&w, i).n_waiting, 0);
        w_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_named_source),
        cmocka_unit_test(no_source),
        cmocka_unit_test(known_to_be_gone),
        cmocka_unit_test(some_give_up),
        cmocka_unit_test(no_frames_for_short_waits),
        cmocka_unit_test(a_put_that_is_late),
        cmocka_unit_test(an_answer_that_is_late),
        cmocka_unit_test(a_late_answer_on_the_way),
        cmocka_unit_test(two_late_answers),
        cmocka_unit_test(without_acknowledgements),
        cmocka_unit_test(its_own),
        cmocka_unit_test(many_wait),
        cmocka_unit_test(again_and_again),
        cmocka_unit_test(dense_elsewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
