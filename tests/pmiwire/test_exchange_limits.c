/* SPDX-License-Identifier: BSD-3-Clause */
/* The exchange: a collective that a lost rank has not entered ends with PMIWIRE_EGONE for all ranks
 * that wait in it or enter later, on every node after one tick; one that it has entered completes;
 * and the frames that this costs. */
#include "exchange_world.h"

#define KINDS PMIWIRE_COLL_COUNT_

static uint64_t clock_;

static void tick(struct world *w)
{
    w_tick(w, clock_ += 1000);
    w_run(w);
}

static int enter(struct world *w, uint32_t rank, uint32_t kind)
{
    struct pmiwire_exchange *x = w->nodes[w->node_of[rank]].x;

    switch (kind) {
    case PMIWIRE_COLL_FENCE: return pmiwire_exchange_fence(x, (int32_t)rank);
    case PMIWIRE_COLL_ALLGATHER: return pmiwire_exchange_allgather(x, (int32_t)rank, str("value"));
    default: return pmiwire_exchange_ring(x, (int32_t)rank, str("left"), str("right"));
    }
}

/* The result of a rank's last collective, n of this kind: 1, none yet. */
static int told(const struct world *w, uint32_t rank, uint32_t kind, uint32_t n)
{
    const struct node *node = &w->nodes[w->node_of[rank]];

    if (kind == PMIWIRE_COLL_RING)
        return w->rings[rank].n < n ? 1 : w->rings[rank].rc;
    if (node->n_done[kind] >= n)
        return 0;
    return node->n_failed_done ? node->done_rc : 1;
}

static void expect_culprit(const struct world *w, uint32_t node, uint32_t kind, uint32_t rank,
                           uint32_t why)
{
    uint32_t is = 0;

    assert_int_equal(pmiwire_exchange_culprit(w->nodes[node].x, kind, &is), rank);
    assert_int_equal(is, why);
}

/* One round succeeds; then all ranks but one, or half of them, are in the next, when that one is
 * lost. */
static void never_enters(uint32_t n, uint32_t fence, uint32_t kind, uint32_t victim, uint32_t every)
{
    struct pmiwire_exchange_opts o = {.fence = fence, .arity = 2, .max_frame_bytes = 4096};
    const uint32_t ranks = 2 * n, why = 1 + victim % 5;
    bool through[14];
    uint64_t held[8];
    struct world w;
    uint32_t is;

    w_init(&w, n, ranks, CYCLIC, victim + 1);
    w_start(&w, &o);
    for (uint32_t i = 0; i < n; i++)
        held[i] = w_stats(&w, i).bytes;
    for (uint32_t r = 0; r < ranks; r++)
        assert_int_equal(enter(&w, r, kind), 0);
    w_run(&w);
    for (uint32_t r = 0; r < ranks; r++)
        if (r != victim && r % every == 0)
            assert_int_equal(enter(&w, r, kind), 0);
    w_run(&w);
    for (uint32_t r = 0; r < ranks; r++) /* a Ring needs no more than its neighbours */
        through[r] = kind == PMIWIRE_COLL_RING && told(&w, r, kind, 2) == 0;
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(pmiwire_exchange_culprit(w.nodes[i].x, kind, &is), -1);
    assert_int_equal(pmiwire_exchange_gone(w.nodes[w.node_of[victim]].x, (int32_t)victim, why), 0);
    expect_culprit(&w, w.node_of[victim], kind, victim, why);
    tick(&w);
    for (uint32_t i = 0; i < n; i++)
        expect_culprit(&w, i, kind, victim, why);
    for (uint32_t r = 0; r < ranks; r++) {
        if (r == victim)
            continue;
        if (r % every == 0)
            assert_int_equal(told(&w, r, kind, 2), through[r] ? 0 : PMIWIRE_EGONE);
        for (int i = 0; i < 2; i++)
            assert_int_equal(enter(&w, r, kind), PMIWIRE_EGONE);
    }
    for (uint32_t i = 0; i < n; i++) { /* ranks in it get the error once */
        uint32_t in = 0;

        for (uint32_t r = i; r < ranks; r += n)
            in += r != victim && r % every == 0;
        if (kind != PMIWIRE_COLL_RING)
            assert_int_equal(w.nodes[i].n_failed_done, in > 0);
        assert_int_equal(w.nodes[i].n_failed, 0);
        assert_int_equal(w_stats(&w, i).n_refused, 0);
        assert_true(w_stats(&w, i).bytes <= held[i] + 256); /* a small buffer may be kept */
    }
    w_put(&w, (victim + 1) % ranks, "key", "value", PMIWIRE_HINT_SPARSE); /* the rest continues */
    w_run(&w);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t t = w_get(&w, i, "key", -1, PMIWIRE_GET_REMOTE);

        w_run(&w);
        w_expect(&w, t, "value");
    }
    w_fini(&w);
}

static void a_rank_that_never_enters(void **state)
{
    for (uint32_t n = 1; n <= 7; n++)
        for (uint32_t fence = 0; fence < 2; fence++)
            for (uint32_t kind = 0; kind < KINDS; kind++)
                for (uint32_t victim = 0; victim < 2 * n; victim++)
                    for (uint32_t every = 1; every <= 3; every++)
                        never_enters(n, fence, kind, victim, every);
}

/* A lost rank does not prevent a collective that it has entered. It prevents the next one, at once
 * where its loss is known. */
static void entered_and_gone(void **state)
{
    for (uint32_t n = 1; n <= 7; n++)
        for (uint32_t kind = 0; kind < KINDS; kind++)
            for (uint32_t fence = 0; fence < 2; fence++)
                for (uint32_t victim = 0; victim < 2 * n; victim++) {
                    struct pmiwire_exchange_opts o = {.fence = fence, .arity = 3};
                    struct world w;
                    uint32_t why;

                    w_init(&w, n, 2 * n, BLOCK, 1);
                    w_start(&w, &o);
                    assert_int_equal(enter(&w, victim, kind), 0);
                    w_gone(&w, victim);
                    tick(&w);
                    for (uint32_t r = 0; r < 2 * n; r++)
                        if (r != victim) {
                            assert_int_equal(
                                pmiwire_exchange_culprit(w.nodes[w.node_of[r]].x, kind, &why), -1);
                            assert_int_equal(enter(&w, r, kind), 0);
                        }
                    w_run(&w);
                    for (uint32_t r = 0; r < 2 * n; r++) {
                        assert_int_equal(told(&w, r, kind, 1), 0);
                        if (r != victim)
                            assert_int_equal(enter(&w, r, kind), PMIWIRE_EGONE);
                    }
                    for (uint32_t i = 0; i < n; i++) {
                        expect_culprit(&w, i, kind, victim, PMIWIRE_GONE_ENDED);
                        assert_int_equal(w.nodes[i].n_failed_done, 0);
                    }
                    w_fini(&w);
                }
}

/* A rank that has not entered a collective of one kind does not prevent the other kinds. */
static void kinds_are_apart(void **state)
{
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        struct pmiwire_exchange_opts o = {.arity = 2};
        struct world w;

        w_init(&w, 3, 6, BLOCK, 1);
        w_start(&w, &o);
        for (uint32_t r = 0; r < 6; r++)
            for (uint32_t other = 0; other < KINDS; other++)
                if (r != 4 || other != kind)
                    assert_int_equal(enter(&w, r, other), 0);
        w_gone(&w, 4);
        tick(&w);
        for (uint32_t r = 0; r < 6; r++)
            for (uint32_t other = 0; other < KINDS; other++)
                if (r != 4 || other != kind)
                    assert_int_equal(
                        other == PMIWIRE_COLL_RING
                            ? w.rings[r].rc
                            : (w.nodes[w.node_of[r]].n_done[other] ? 0 : PMIWIRE_EGONE),
                        other == kind ? PMIWIRE_EGONE : 0);
        w_fini(&w);
    }
}

/* A node that is ahead has sent its part of the next one, which then cannot complete: that part is
 * freed when this one is complete. */
static void what_came_early_is_freed(void **state)
{
    static char text[3001];

    memset(text, 't', 3000);
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        struct pmiwire_exchange_opts o = {.fence = PMIWIRE_FENCE_DOUBLING};
        const uint32_t slow = kind == PMIWIRE_COLL_RING ? 2 : 1, ahead = 3 - slow;
        struct world w;
        uint64_t held;

        w_init(&w, 3, 3, BLOCK, 1);
        w_start(&w, &o);
        held = w_stats(&w, 0).bytes;
        for (uint32_t r = 0; r < 3; r++)
            assert_int_equal(enter(&w, r, kind), 0);
        w_run_but(&w, slow, 0);
        assert_int_equal(told(&w, 0, kind, 1), 1);
        assert_int_equal(told(&w, ahead, kind, 1), 0);
        if (kind == PMIWIRE_COLL_FENCE)
            w_put(&w, ahead, "key", text, PMIWIRE_HINT_DENSE);
        if (kind == PMIWIRE_COLL_FENCE)
            assert_int_equal(enter(&w, ahead, kind), 0);
        else if (kind == PMIWIRE_COLL_ALLGATHER)
            assert_int_equal(
                pmiwire_exchange_allgather(w.nodes[ahead].x, (int32_t)ahead, str(text)), 0);
        else
            assert_int_equal(
                pmiwire_exchange_ring(w.nodes[ahead].x, (int32_t)ahead, str(text), str(text)), 0);
        w_run_but(&w, slow, 0);
        assert_true(w_stats(&w, 0).bytes > held + 3000);
        w_gone(&w, 0);
        w_run(&w);
        assert_int_equal(told(&w, 0, kind, 1), 0);
        assert_true(w_stats(&w, 0).bytes <= held + 256);
        tick(&w);
        assert_int_equal(told(&w, ahead, kind, 2), PMIWIRE_EGONE);
        w_fini(&w);
    }
}

static uint64_t frames(const struct world *w, uint32_t type)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < w->n_nodes; i++)
        n += w_stats(w, i).frames[type].n_sent;
    return n;
}

/* A job that ends within a tick costs no frame; one whose ranks end one by one costs a flood, and
 * another if the first one has entered less than the last. */
static void what_the_end_costs(void **state)
{
    struct pmiwire_exchange_opts o = {.arity = 2};
    struct world w;

    w_init(&w, 15, 60, RANDOM, 1);
    w_start(&w, &o);
    w_fence(&w);
    for (uint32_t r = 0; r < 60; r++)
        w_gone(&w, r);
    assert_int_equal(frames(&w, PMIWIRE_FRAME_LIMIT), 0);
    w_tick(&w, clock_ += 1000);
    w_run(&w);
    assert_in_range(frames(&w, PMIWIRE_FRAME_LIMIT), 14, 2 * 14); /* one each way on each link */
    w_fini(&w);
    w_init(&w, 15, 60, RANDOM, 1);
    w_start(&w, &o);
    w_fence(&w);
    for (uint32_t r = 0; r < 60; r++) {
        if (r >= 30) /* the first ones to end have entered one more than these */
            w_gone(&w, r);
        else
            assert_int_equal(enter(&w, r, PMIWIRE_COLL_FENCE), 0);
        if (r < 30)
            w_gone(&w, r);
        tick(&w);
    }
    assert_int_equal(frames(&w, PMIWIRE_FRAME_LIMIT), 2 * 14);
    w_fini(&w);
}

/* In rounds a Fence's frames take other ways than the report of a lost rank: a waiting Get does not
 * end before the Fence that is complete at the rank's node has brought the key here. */
static void the_news_overtakes_a_fence(void **state)
{
    struct pmiwire_exchange_opts o = {.fence = PMIWIRE_FENCE_DOUBLING, .arity = 2};
    struct world w;
    char key[16];
    uint64_t t;

    w_init(&w, 7, 7, BLOCK, 1);
    w_start(&w, &o);
    for (uint32_t i = 0;; i++) { /* one whose home is node 1: no other node answers */
        snprintf(key, sizeof(key), "key%u", i);
        t = w_get(&w, 1, key, 3, PMIWIRE_GET_WAIT);
        if (w_stats(&w, 1).n_requests == i)
            break;
    }
    w_put(&w, 3, key, "value", PMIWIRE_HINT_DENSE);
    w_run(&w);
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(pmiwire_exchange_fence(w.nodes[i].x, PMIWIRE_RANK_ALL), 0);
    for (int round = 0; round < 5;
         round++) { /* all but what node 4 sends to node 1 by the rounds */
        w_run_but(&w, 4, 1);
        if (round == 0) {
            assert_int_equal(w.nodes[3].n_done[PMIWIRE_COLL_FENCE], 1);
            assert_int_equal(w.nodes[1].n_done[PMIWIRE_COLL_FENCE], 0);
            w_gone(&w, 3);
        }
        w_tick(&w, clock_ += 1000);
        assert_true(w.gets[t].pending || w.gets[t].rc == 0);
    }
    assert_true(w.gets[t].pending);
    w_run(&w);
    w_expect(&w, t, "value");
    w_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_never_enters), cmocka_unit_test(entered_and_gone),
        cmocka_unit_test(kinds_are_apart),          cmocka_unit_test(what_came_early_is_freed),
        cmocka_unit_test(what_the_end_costs),       cmocka_unit_test(the_news_overtakes_a_fence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
