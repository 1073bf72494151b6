/* SPDX-License-Identifier: BSD-3-Clause */
/* The exchange: Put and Get in each design, the frames that they take, refusals, and the loss of a
 * node. */
#include <stdbool.h>

#include "exchange_world.h"

static const uint32_t designs[] = {PMIWIRE_DESIGN_DKVS, PMIWIRE_DESIGN_DIRECT, PMIWIRE_DESIGN_TREE};

static uint64_t frames(const struct world *w, uint32_t type)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < w->n_nodes; i++)
        n += w_stats(w, i).frames[type].n_sent;
    return n;
}

/* ---- SPARSE keys ---- */

static void sparse_is_fetched(void **state)
{
    char key[16], value[16];
    struct world w;

    for (size_t d = 0; d < 3; d++)
        for (uint32_t fence_free = 0; fence_free < 2; fence_free++) {
            struct pmiwire_exchange_opts o = {
                .design = designs[d], .flags = fence_free, .arity = 2};

            w_init(&w, 9, 27, RANDOM, 3);
            w_start(&w, &o);
            for (uint32_t r = 0; r < 27; r++) {
                snprintf(key, sizeof(key), "k%u", r);
                snprintf(value, sizeof(value), "v%u", r);
                w_put(&w, r, key, value, PMIWIRE_HINT_SPARSE);
            }
            if (fence_free)
                w_run(&w);
            else
                w_fence(&w);
            assert_int_equal(w.nodes[0].n_pairs, 0); /* no Fence brings them */
            for (uint32_t i = 0; i < 9; i++)
                for (uint32_t r = 0; r < 27; r++) {
                    uint64_t t;

                    snprintf(key, sizeof(key), "k%u", r);
                    snprintf(value, sizeof(value), "v%u", r);
                    t = w_get(&w, i, key, (int32_t)r, PMIWIRE_GET_REMOTE);
                    w_run(&w);
                    w_expect(&w, t, value);
                }
            w_fini(&w);
        }
}

/* A Put away from the key's home, for DKVS: rank r of which node? */
static uint32_t away(struct world *w, const char *key, uint32_t *owner)
{
    struct pmiwire_stats_exchange s;

    w_put(w, 0, key, "x", PMIWIRE_HINT_SPARSE);
    w_run(w);
    for (*owner = 0; *owner < w->n_nodes; ++*owner) {
        s = w_stats(w, *owner);
        if (s.frames[PMIWIRE_FRAME_PUT].n_received)
            return (*owner + 1) % w->n_nodes ? (*owner + 1) % w->n_nodes : 1;
    }
    *owner = 0;
    return 1;
}

static void dkvs_costs_two_frames(void **state)
{
    struct pmiwire_exchange_opts o = {.design = PMIWIRE_DESIGN_DKVS};
    uint32_t owner, from;
    uint64_t t, before;
    struct world w;

    w_init(&w, 8, 8, BLOCK, 1);
    w_start(&w, &o);
    from = away(&w, "key", &owner);
    assert_true(frames(&w, PMIWIRE_FRAME_PUT) <= 1);
    assert_int_equal(frames(&w, PMIWIRE_FRAME_ACK), frames(&w, PMIWIRE_FRAME_PUT));
    before = frames(&w, PMIWIRE_FRAME_GET) + frames(&w, PMIWIRE_FRAME_ANSWER);
    t = w_get(&w, from, "key", -1, PMIWIRE_GET_REMOTE);
    w_run(&w);
    w_expect(&w, t, "x");
    assert_int_equal(frames(&w, PMIWIRE_FRAME_GET) + frames(&w, PMIWIRE_FRAME_ANSWER) - before, 2);
    t = w_get(&w, from, "key", -1, PMIWIRE_GET_REMOTE); /* now it is here */
    w_expect(&w, t, "x");
    assert_int_equal(frames(&w, PMIWIRE_FRAME_GET), 1);
    w_fini(&w);
}

static void direct_costs_one_round_trip(void **state)
{
    struct pmiwire_exchange_opts o = {.design = PMIWIRE_DESIGN_DIRECT};
    struct world w;
    uint64_t t;

    w_init(&w, 8, 16, CYCLIC, 1);
    w_start(&w, &o);
    w_put(&w, 5, "key", "x", PMIWIRE_HINT_SPARSE);
    t = w_get(&w, 2, "key", 5, PMIWIRE_GET_REMOTE);
    assert_true(w.gets[t].pending);
    assert_int_equal(w.n_queued, 1);
    assert_int_equal(w_deliver(&w, 2, 5), 0);
    assert_int_equal(w.n_queued, 1);
    assert_int_equal(w_deliver(&w, 5, 2), 0);
    w_expect(&w, t, "x");
    assert_int_equal(w.n_queued, 0);
    assert_int_equal(w_get(&w, 3, "key", -1, PMIWIRE_GET_WAIT), 1);
    assert_int_equal(w.gets[1].rc, PMIWIRE_EMISSING);
    w_fini(&w);
    w_init(&w, 2, 2, BLOCK, 1);
    w_start(&w, &o);
    assert_int_equal(w_get(&w, 0, "key", -1, PMIWIRE_GET_REMOTE), 0);
    assert_int_equal(w.gets[0].rc, PMIWIRE_EMISSING);
    w_fini(&w);
}

/* On the tree the answer goes to all nodes that forwarded the request, and they keep it. */
static void tree_answers_the_way(void **state)
{
    struct pmiwire_exchange_opts o = {.design = PMIWIRE_DESIGN_TREE, .arity = 2};
    struct world w;
    uint64_t t;

    w_init(&w, 15, 15, BLOCK, 1);
    w_start(&w, &o);
    w_put(&w, 14, "key", "x", PMIWIRE_HINT_SPARSE); /* 14, 6, 2, 0 */
    w_run(&w);
    assert_int_equal(frames(&w, PMIWIRE_FRAME_PUT), 3);
    t = w_get(&w, 7, "key", -1, PMIWIRE_GET_REMOTE); /* 7, 3, 1, 0 */
    w_run(&w);
    w_expect(&w, t, "x");
    assert_int_equal(frames(&w, PMIWIRE_FRAME_GET), 3);
    assert_int_equal(frames(&w, PMIWIRE_FRAME_ANSWER), 3);
    t = w_get(&w, 3, "key", -1, PMIWIRE_GET_LOCAL);
    w_expect(&w, t, "x");
    t = w_get(&w, 8, "key", -1, PMIWIRE_GET_REMOTE); /* 3 has it */
    w_run(&w);
    w_expect(&w, t, "x");
    assert_int_equal(frames(&w, PMIWIRE_FRAME_GET), 4);
    t = w_get(&w, 13, "key", -1, PMIWIRE_GET_REMOTE); /* 6 has it from the Put */
    w_run(&w);
    w_expect(&w, t, "x");
    assert_int_equal(frames(&w, PMIWIRE_FRAME_GET), 5);
    w_fini(&w);
}

static void absent_and_waited_for(void **state)
{
    struct world w;

    for (size_t d = 0; d < 3; d++) {
        struct pmiwire_exchange_opts o = {.design = designs[d], .arity = 2};
        uint64_t asked[3], wait[7][3], home;

        w_init(&w, 7, 14, CYCLIC, 5);
        w_start(&w, &o);
        for (int i = 0; i < 3; i++)
            asked[i] = w_get(&w, 4, "key", 3, PMIWIRE_GET_REMOTE);
        w_run(&w);
        for (int i = 0; i < 3; i++) {
            assert_true(w.gets[asked[i]].ended);
            assert_int_equal(w.gets[asked[i]].rc, PMIWIRE_ENOENT);
        }
        assert_int_equal(w_stats(&w, 4).n_requests + w_stats(&w, 4).n_joined,
                         w_stats(&w, 4).n_requests ? 3 : 0);
        for (uint32_t n = 0; n < 7; n++)
            for (int i = 0; i < 3; i++)
                wait[n][i] = w_get(&w, n, "key", 3, PMIWIRE_GET_WAIT);
        w_run(&w);
        home = 0;
        for (uint32_t n = 0; n < 7; n++) {
            /* At most one request of this kind for the key is in flight. */
            assert_true(w_stats(&w, n).n_requests <= 2);
            assert_int_equal(w_stats(&w, n).n_joined,
                             (n == 4 ? 4 : 2) * (w_stats(&w, n).n_requests > 0));
            home += w_stats(&w, n).n_requests == 0;
            for (int i = 0; i < 3; i++)
                assert_true(w.gets[wait[n][i]].pending);
        }
        assert_int_equal(home, 1);
        asked[0] = w_get(&w, 4, "key", 3, PMIWIRE_GET_REMOTE); /* not kept by waiting nodes */
        w_run(&w);
        assert_int_equal(w.gets[asked[0]].rc, PMIWIRE_ENOENT);
        w_put(&w, 3, "key", "late", PMIWIRE_HINT_SPARSE);
        w_run(&w);
        for (uint32_t n = 0; n < 7; n++) {
            for (int i = 0; i < 3; i++)
                w_expect(&w, wait[n][i], "late");
            assert_int_equal(w_stats(&w, n).n_waiting, 0);
        }
        w_fini(&w);
    }
}

/* After the Fence, nodes that had an older value find the new one. */
static void never_stale(void **state)
{
    char value[16];
    struct world w;

    for (size_t d = 0; d < 3; d++)
        for (uint32_t fence = 0; fence < 2; fence++) {
            struct pmiwire_exchange_opts o = {.design = designs[d], .fence = fence, .arity = 2};

            if (designs[d] == PMIWIRE_DESIGN_TREE && fence)
                continue;
            w_init(&w, 7, 7, BLOCK, 5);
            w_start(&w, &o);
            for (uint32_t round = 0; round < 5; round++) {
                snprintf(value, sizeof(value), "%u", round * round * round * round);
                w_put(&w, 5, "key", value, PMIWIRE_HINT_SPARSE);
                w_fence(&w);
                for (uint32_t n = 0; n < 7; n++) {
                    uint64_t t = w_get(&w, n, "key", 5, PMIWIRE_GET_REMOTE);

                    w_run(&w);
                    w_expect(&w, t, value);
                }
            }
            if (designs[d] != PMIWIRE_DESIGN_DIRECT) { /* by another node, too */
                w_put(&w, 2, "key", "other", PMIWIRE_HINT_SPARSE);
                w_fence(&w);
                for (uint32_t n = 0; n < 7; n++) {
                    uint64_t t = w_get(&w, n, "key", 5, PMIWIRE_GET_REMOTE);

                    w_run(&w);
                    w_expect(&w, t, "other");
                }
            }
            w_fini(&w);
        }
}

/* A late answer from before a Fence serves only Gets from before that Fence. */
static void a_late_answer(void **state)
{
    struct world w;

    for (uint32_t asker = 5; asker < 7; asker++) {
        struct pmiwire_exchange_opts o = {.design = PMIWIRE_DESIGN_DIRECT, .arity = 2};
        uint64_t old, young;

        w_init(&w, 7, 7, BLOCK, 5);
        w_start(&w, &o);
        w_put(&w, 3, "key", "old", PMIWIRE_HINT_SPARSE);
        old = w_get(&w, asker, "key", 3, PMIWIRE_GET_REMOTE);
        w_run_but(&w, 3, asker); /* the answer is in flight */
        w_put(&w, 3, "key", "young", PMIWIRE_HINT_SPARSE);
        for (uint32_t i = 0; i < 7; i++)
            assert_int_equal(pmiwire_exchange_fence(w.nodes[i].x, PMIWIRE_RANK_ALL), 0);
        w_run_but(&w, 3, asker); /* no neighbours in the tree */
        assert_int_equal(w.nodes[asker].n_done[PMIWIRE_COLL_FENCE], 1);
        young = w_get(&w, asker, "key", 3, PMIWIRE_GET_REMOTE);
        assert_true(w.gets[old].pending && w.gets[young].pending);
        assert_int_equal(w_stats(&w, asker).n_joined, 1);
        w_run(&w);
        w_expect(&w, old, "old");
        w_expect(&w, young, "young");
        w_expect(&w, w_get(&w, asker, "key", 3, PMIWIRE_GET_LOCAL), "young");
        w_fini(&w);
    }
}

/* A copy that a Fence could not drop, because its node still waits for an answer, is not used after
 * it. */
static void a_copy_that_outlives_a_fence(void **state)
{
    struct pmiwire_exchange_opts o = {.design = PMIWIRE_DESIGN_TREE, .arity = 2};
    struct world w;
    uint64_t t;

    w_init(&w, 7, 7, BLOCK, 5);
    w_start(&w, &o);
    t = w_get(&w, 5, "key", -1, PMIWIRE_GET_WAIT);
    w_run_but(&w, 0, 5);
    w_put(&w, 5, "key", "old", PMIWIRE_HINT_SPARSE);
    w_expect(&w, t, "old");
    w_run_but(&w, 0, 5); /* the root's answer is in flight */
    w_put(&w, 3, "key", "young", PMIWIRE_HINT_SPARSE);
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(pmiwire_exchange_fence(w.nodes[i].x, PMIWIRE_RANK_ALL), 0);
    w_run_but(&w, 0, 5);
    assert_int_equal(w.nodes[5].n_done[PMIWIRE_COLL_FENCE], 1);
    t = w_get(&w, 5, "key", -1, PMIWIRE_GET_REMOTE);
    assert_int_equal(w_stats(&w, 5).n_stale, 1);
    w_run(&w);
    w_expect(&w, t, "young");
    w_fini(&w);
}

/* A Put in flight to its home delays the Fence. */
static void a_slow_put(void **state)
{
    struct pmiwire_exchange_opts o = {.design = PMIWIRE_DESIGN_DKVS};
    struct world w;

    for (uint32_t fence = 0; fence < 2; fence++)
        for (uint32_t from = 0; from < 7; from++) {
            uint32_t home = 0;
            uint64_t t;

            o.fence = fence;
            w_init(&w, 7, 7, BLOCK, 5);
            w_start(&w, &o);
            w_put(&w, from, "key", "value", PMIWIRE_HINT_SPARSE);
            while (home < 7 && !w.queues[from * 7 + home].head)
                home++;
            if (home == 7) { /* it is its own */
                w_fini(&w);
                continue;
            }
            for (uint32_t i = 0; i < 7; i++)
                assert_int_equal(pmiwire_exchange_fence(w.nodes[i].x, PMIWIRE_RANK_ALL), 0);
            w_run_but(&w, from, home);
            for (uint32_t i = 0; i < 7; i++)
                assert_int_equal(w.nodes[i].n_done[PMIWIRE_COLL_FENCE], 0);
            w_run(&w);
            t = w_get(&w, (from + 1) % 7, "key", -1, PMIWIRE_GET_REMOTE);
            w_run(&w);
            w_expect(&w, t, "value");
            w_fini(&w);
        }
}

/* The next Fence drops a node's fetched pairs and keeps its own. */
static void copies_are_dropped(void **state)
{
    char key[16];
    struct world w;

    for (size_t d = 0; d < 3; d++) {
        struct pmiwire_exchange_opts o = {.design = designs[d], .arity = 2};
        uint64_t held = 0, memory = 0;

        w_init(&w, 7, 21, CYCLIC, 5);
        w_start(&w, &o);
        for (uint32_t round = 0; round < 20; round++) {
            uint64_t n = 0, bytes = 0;

            for (uint32_t r = 0; r < 21; r++) {
                snprintf(key, sizeof(key), "k%u", r);
                w_put(&w, r, key, "v", PMIWIRE_HINT_SPARSE);
            }
            w_fence(&w);
            for (uint32_t i = 0; i < 7; i++)
                n += w_stats(&w, i).n_keys;
            assert_int_equal(n, 21); /* each only at its home */
            for (uint32_t i = 0; i < 7; i++)
                for (uint32_t r = 0; r < 21; r++) {
                    snprintf(key, sizeof(key), "k%u", r);
                    (void)w_get(&w, i, key, (int32_t)r, PMIWIRE_GET_REMOTE);
                }
            w_run(&w);
            n = 0;
            for (uint32_t i = 0; i < 7; i++) {
                n += w_stats(&w, i).n_keys;
                bytes += w_stats(&w, i).bytes;
            }
            assert_true(round == 0 || n == held);
            assert_true(round < 3 || bytes <= 2 * memory);
            held = n;
            memory = round < 3 ? bytes : memory;
        }
        w_fini(&w);
    }
}

/* ---- hints ---- */

static void hints_and_policy(void **state)
{
    struct world w;
    uint64_t t;

    for (uint32_t unhinted = 0; unhinted <= PMIWIRE_HINT_DENSE; unhinted++) {
        struct pmiwire_exchange_opts o = {.unhinted = unhinted};

        w_init(&w, 4, 4, BLOCK, 5);
        w_start(&w, &o);
        w_put(&w, 1, "none", "n", PMIWIRE_HINT_NONE);
        w_put(&w, 1, "sparse", "s", PMIWIRE_HINT_SPARSE);
        w_put(&w, 1, "dense", "d", PMIWIRE_HINT_DENSE);
        w_expect(&w, w_get(&w, 1, "dense", 1, PMIWIRE_GET_LOCAL), "d"); /* one's own, at once */
        t = w_get(&w, 2, "dense", 1, PMIWIRE_GET_LOCAL);
        assert_int_equal(w.gets[t].rc, PMIWIRE_ENOENT);
        w_fence(&w);
        assert_int_equal(w.nodes[3].n_pairs, unhinted == PMIWIRE_HINT_SPARSE ? 1 : 2);
        w_expect(&w, w_get(&w, 3, "dense", 1, PMIWIRE_GET_LOCAL), "d");
        /* Once brought by a Fence, a key is brought again whatever the hint. */
        w_put(&w, 2, "dense", "e", PMIWIRE_HINT_SPARSE);
        w_fence(&w);
        for (uint32_t n = 0; n < 4; n++)
            w_expect(&w, w_get(&w, n, "dense", 1, PMIWIRE_GET_LOCAL), "e");
        w_fini(&w);
    }
}

/* Two nodes put one key between two Fences: all agree on one value. */
static void concurrent_puts_agree(void **state)
{
    struct world w;

    for (uint32_t seed = 1; seed < 40; seed++) {
        struct pmiwire_exchange_opts o = {.fence = seed & 1, .arity = 2};

        w_init(&w, 9, 9, BLOCK, seed);
        w_start(&w, &o);
        w_put(&w, 7, "k", "seven", PMIWIRE_HINT_DENSE);
        w_put(&w, 2, "k", "two", PMIWIRE_HINT_DENSE);
        w_put(&w, 5, "k", "five", PMIWIRE_HINT_DENSE);
        w_fence(&w);
        for (uint32_t n = 0; n < 9; n++)
            w_expect(&w, w_get(&w, n, "k", -1, PMIWIRE_GET_LOCAL), "seven");
        w_fini(&w);
    }
}

/* A Get that waits for a DENSE key ends at the Fence; in design DIRECT, which asks the source, with
 * the Put. */
static void waiting_for_dense(void **state)
{
    struct world w;

    for (size_t d = 0; d < 3; d++) {
        struct pmiwire_exchange_opts o = {.design = designs[d], .arity = 2};
        uint64_t t[7];

        w_init(&w, 7, 7, BLOCK, 5);
        w_start(&w, &o);
        for (uint32_t n = 0; n < 7; n++)
            t[n] = w_get(&w, n, "k", 3, PMIWIRE_GET_WAIT);
        w_run(&w);
        w_put(&w, 3, "k", "v", PMIWIRE_HINT_DENSE);
        w_run(&w);
        w_expect(&w, t[3], "v");
        for (uint32_t n = 0; n < 7; n++)
            assert_true(w.gets[t[n]].ended || designs[d] != PMIWIRE_DESIGN_DIRECT);
        w_fence(&w);
        for (uint32_t n = 0; n < 7; n++) {
            w_expect(&w, t[n], "v");
            assert_int_equal(w_stats(&w, n).n_waiting, 0);
        }
        w_fini(&w);
    }
}

/* ---- the caller's store ---- */

/* As the header demands: into the store first. */
static void store_and_put(struct world *w, uint32_t rank, const char *key, const char *value,
                          uint32_t hint)
{
    w_store(&w->nodes[w->node_of[rank]], str(key), str(value));
    w_put(w, rank, key, value, hint);
}

/* With ops->find the exchange holds no pair twice, neither Fences' pairs nor pairs put for the next
 * one. */
static void the_callers_store(void **state)
{
    struct pmiwire_exchange_ops ops = w_ops;
    struct pmiwire_exchange_opts o = {.ops = &ops};
    struct world w;

    ops.find = w_find;
    w_init(&w, 4, 4, BLOCK, 5);
    w.on_pairs = w_store_pairs;
    w_start(&w, &o);
    store_and_put(&w, 1, "a", "1", PMIWIRE_HINT_DENSE);
    store_and_put(&w, 2, "b", "2", PMIWIRE_HINT_DENSE);
    w_expect(&w, w_get(&w, 1, "a", -1, PMIWIRE_GET_LOCAL), "1");
    assert_int_equal(w_stats(&w, 1).n_keys, 0);
    w_fence(&w);
    for (uint32_t n = 0; n < 4; n++) {
        assert_int_equal(w_stats(&w, n).n_keys, 0);
        w_expect(&w, w_get(&w, n, "a", -1, PMIWIRE_GET_LOCAL), "1");
        w_expect(&w, w_get(&w, n, "b", -1, PMIWIRE_GET_WAIT), "2");
    }
    store_and_put(&w, 1, "a", "new", PMIWIRE_HINT_SPARSE); /* it was DENSE, and stays so */
    w_expect(&w, w_get(&w, 1, "a", -1, PMIWIRE_GET_LOCAL), "new");
    w_expect(&w, w_get(&w, 0, "a", -1, PMIWIRE_GET_LOCAL), "1");
    w_fence(&w);
    w_expect(&w, w_get(&w, 0, "a", -1, PMIWIRE_GET_LOCAL), "new");
    w_fini(&w);
}

/* A Put after this node has entered a Fence belongs to the next one. This node finds its value,
 * also when the current Fence brings an earlier one. */
static void puts_behind_a_fence(void **state)
{
    struct pmiwire_exchange_ops ops = w_ops;
    struct pmiwire_exchange_opts o = {.ops = &ops, .max_frame_bytes = 4096};

    for (uint32_t with_find = 0; with_find < 2; with_find++)
        for (o.fence = 0; o.fence < 2; o.fence++)
            for (uint32_t many = 1; many <= 1000; many *= 10) {
                char value[16];
                struct world w;

                ops.find = with_find ? w_find : NULL;
                w_init(&w, 3, 3, BLOCK, 5);
                w.on_pairs = w_store_pairs;
                w_start(&w, &o);
                store_and_put(&w, 1, "a", "before", PMIWIRE_HINT_DENSE);
                store_and_put(&w, 1, "b", "before", PMIWIRE_HINT_DENSE);
                assert_int_equal(pmiwire_exchange_fence(w.nodes[1].x, 1), 0);
                store_and_put(&w, 1, "b", "behind", PMIWIRE_HINT_DENSE); /* in one of many
                                                                          * segments */
                for (uint32_t i = 0; i <= many; i++) {
                    snprintf(value, sizeof(value), "%u", i);
                    store_and_put(&w, 1, "a", value, PMIWIRE_HINT_DENSE);
                }
                store_and_put(&w, 2, "a", "other", PMIWIRE_HINT_DENSE);
                assert_int_equal(pmiwire_exchange_fence(w.nodes[0].x, 0), 0);
                assert_int_equal(pmiwire_exchange_fence(w.nodes[2].x, 2), 0);
                w_run(&w);
                assert_int_equal(w.nodes[1].n_done[PMIWIRE_COLL_FENCE], 1);
                w_expect(&w, w_get(&w, 0, "a", -1, PMIWIRE_GET_LOCAL), "other");
                w_expect(&w, w_get(&w, 1, "a", -1, PMIWIRE_GET_LOCAL), value);
                w_expect(&w, w_get(&w, 1, "b", -1, PMIWIRE_GET_LOCAL), "behind");
                w_fence(&w);
                for (uint32_t n = 0; n < 3; n++)
                    w_expect(&w, w_get(&w, n, "a", -1, PMIWIRE_GET_LOCAL), value);
                w_fini(&w);
            }
}

/* With one node and ops->find a Put is kept by the caller alone, whatever its hint; a waiting Get
 * ends, and the exchange keeps nothing of either. A Fence brings no pairs. */
static void one_node_keeps_nothing(void **state)
{
    struct pmiwire_exchange_ops ops = w_ops;
    struct pmiwire_exchange_opts o = {.ops = &ops};
    struct world w;

    ops.find = w_find;
    for (o.design = 0; o.design < 3; o.design++) {
        uint64_t t[2], bytes;

        w_init(&w, 1, 4, BLOCK, 5);
        w.on_pairs = w_store_pairs;
        w_start(&w, &o);
        bytes = w_stats(&w, 0).bytes;
        store_and_put(&w, 0, "a", "1", PMIWIRE_HINT_DENSE);
        store_and_put(&w, 1, "b", "2", PMIWIRE_HINT_SPARSE);
        w_fence(&w);
        w_expect(&w, w_get(&w, 0, "b", 1, PMIWIRE_GET_LOCAL), "2");
        assert_int_equal(w_stats(&w, 0).bytes, bytes);
        for (int i = 0; i < 2; i++)
            t[i] = w_get_by(&w, 0, 1 + i, "c", 3, PMIWIRE_GET_WAIT);
        assert_true(w.gets[t[0]].pending && w.gets[t[1]].pending);
        store_and_put(&w, 3, "c", "3", PMIWIRE_HINT_SPARSE);
        w_expect(&w, t[0], "3");
        w_expect(&w, t[1], "3");
        assert_int_equal(w_stats(&w, 0).n_keys, 0);
        for (uint32_t r = 0; r < 4; r++) {
            assert_int_equal(w.nodes[0].n_done[PMIWIRE_COLL_FENCE], 1);
            assert_int_equal(pmiwire_exchange_fence(w.nodes[0].x, (int32_t)r), 0);
        }
        assert_int_equal(w.nodes[0].n_done[PMIWIRE_COLL_FENCE], 2);
        assert_int_equal(w.nodes[0].n_pairs, 0);
        w_fini(&w);
    }
}

/* ---- failure and time ---- */

static void a_lost_node_ends_everything(void **state)
{
    struct world w;

    for (size_t d = 0; d < 3; d++)
        for (uint32_t dead = 0; dead < 9; dead++) {
            struct pmiwire_exchange_opts o = {.design = designs[d], .arity = 2};
            uint64_t t[9];

            w_init(&w, 9, 18, BLOCK, 5);
            w_start(&w, &o);
            for (uint32_t n = 0; n < 9; n++) {
                t[n] = w_get(&w, n, "k", 2 * (int32_t)dead, PMIWIRE_GET_WAIT);
                assert_int_equal(pmiwire_exchange_fence(w.nodes[n].x, 2 * (int32_t)n), 0);
                assert_int_equal(
                    pmiwire_exchange_ring(w.nodes[n].x, 2 * (int32_t)n, str("l"), str("r")), 0);
                assert_int_equal(pmiwire_exchange_allgather(w.nodes[n].x, 2 * (int32_t)n, str("v")),
                                 0);
            }
            w.nodes[dead].dead = true;
            for (uint32_t next = 0; next < 9; next++)
                if (w_linked(2, next, dead))
                    assert_int_equal(pmiwire_exchange_fail(w.nodes[next].x, PMIWIRE_ELOST, dead),
                                     0);
            for (int rc; w_step(&w, &rc);) /* frames after the end are ignored */
                assert_true(rc == 0 || rc == PMIWIRE_ELOST);
            for (uint32_t n = 0; n < 9; n++) {
                struct pmiwire_str v;

                if (n == dead)
                    continue;
                assert_int_equal(w.nodes[n].n_failed, 1);
                assert_int_equal(w.nodes[n].failed_rc, PMIWIRE_ELOST);
                assert_int_equal(w.nodes[n].failed_node, dead);
                assert_true(w.gets[t[n]].ended);
                assert_int_equal(w.gets[t[n]].rc, PMIWIRE_ELOST);
                assert_int_equal(w.nodes[n].n_failed_done, 2);
                assert_int_equal(w.rings[2 * n].n, 1);
                assert_int_equal(w.rings[2 * n].rc, PMIWIRE_ELOST);
                assert_int_equal(w.rings[2 * n + 1].n, 0);
                assert_int_equal(w_stats(&w, n).n_waiting, 0);
                assert_int_equal(pmiwire_exchange_put(w.nodes[n].x, -1, str("k"), str("v"), 0),
                                 PMIWIRE_ELOST);
                assert_int_equal(pmiwire_exchange_get(w.nodes[n].x, -1, str("k"), -1, 0, 0, &v),
                                 PMIWIRE_ELOST);
                assert_int_equal(pmiwire_exchange_fence(w.nodes[n].x, PMIWIRE_RANK_ALL),
                                 PMIWIRE_ELOST);
                assert_int_equal(
                    pmiwire_exchange_ring(w.nodes[n].x, 2 * (int32_t)n, str(""), str("")),
                    PMIWIRE_ELOST);
                assert_int_equal(pmiwire_exchange_allgather(w.nodes[n].x, 2 * (int32_t)n, str("")),
                                 PMIWIRE_ELOST);
                assert_int_equal(pmiwire_exchange_fail(w.nodes[n].x, PMIWIRE_ELOST, dead), 0);
            }
            w_fini(&w);
        }
}

static void giving_up_is_told(void **state)
{
    struct pmiwire_exchange_opts o = {0};
    struct world w;

    w_init(&w, 5, 5, BLOCK, 1);
    w_start(&w, &o);
    assert_int_equal(pmiwire_exchange_fail(w.nodes[3].x, 0, 0), -EINVAL);
    assert_int_equal(pmiwire_exchange_fail(w.nodes[3].x, -ENOMEM, 0), 0);
    for (int rc; w_step(&w, &rc);)
        ;
    for (uint32_t n = 0; n < 5; n++) {
        assert_int_equal(w.nodes[n].failed_rc, -ENOMEM);
        assert_int_equal(w.nodes[n].failed_node, 3);
    }
    w_fini(&w);
}

static void waiting_has_a_limit(void **state)
{
    struct pmiwire_exchange_opts o = {.wait_ns = 1000};
    uint64_t a, b;
    struct world w;

    w_init(&w, 3, 3, BLOCK, 1);
    w_start(&w, &o);
    a = w_get(&w, 1, "k", -1, PMIWIRE_GET_WAIT);
    w_run(&w);
    pmiwire_exchange_tick(w.nodes[1].x, 5000);
    pmiwire_exchange_tick(w.nodes[1].x, 5600);
    b = w_get(&w, 1, "k", -1, PMIWIRE_GET_WAIT);
    pmiwire_exchange_tick(w.nodes[1].x, 5999);
    assert_true(w.gets[a].pending);
    pmiwire_exchange_tick(w.nodes[1].x, 6000);
    assert_int_equal(w.gets[a].rc, PMIWIRE_ETIME);
    assert_true(w.gets[b].pending);
    w_put(&w, 2, "k", "v", PMIWIRE_HINT_SPARSE);
    w_run(&w);
    w_expect(&w, b, "v");
    w_fini(&w);
}

/* ---- callbacks that call ---- */

static void put_again(struct node *n, uint64_t token)
{
    char key[16];

    for (int i = 0; i < 50; i++) { /* the store moves during the call */
        snprintf(key, sizeof(key), "more%d", i);
        assert_int_equal(pmiwire_exchange_put(n->x, -1, str(key),
                                              str("some longer value than before"),
                                              PMIWIRE_HINT_SPARSE),
                         0);
    }
}

static void fence_again(struct node *n, uint32_t kind, uint32_t number, int rc)
{
    assert_int_equal(rc, 0);
    if (kind == PMIWIRE_COLL_FENCE && number < 5)
        assert_int_equal(pmiwire_exchange_fence(n->x, PMIWIRE_RANK_ALL), 0);
}

static void callbacks_may_call(void **state)
{
    struct pmiwire_exchange_opts o = {0};
    struct world w;

    for (uint32_t n = 1; n < 5; n++) {
        uint64_t t[3];

        w_init(&w, n, n, BLOCK, 1);
        w.on_got = put_again;
        w.on_done = fence_again;
        w_start(&w, &o);
        for (int i = 0; i < 3; i++)
            t[i] = w_get(&w, n - 1, "k", -1, PMIWIRE_GET_WAIT);
        w_put(&w, 0, "k", "v", PMIWIRE_HINT_SPARSE);
        w_run(&w);
        for (int i = 0; i < 3; i++)
            w_expect(&w, t[i], "v");
        w_fence(&w);
        assert_int_equal(w.nodes[0].n_done[PMIWIRE_COLL_FENCE], 5);
        w_fini(&w);
    }
}

/* ---- limits ---- */

static void limits_of_pairs(void **state)
{
    struct pmiwire_exchange_opts o = {.max_frame_bytes = 4096};
    const uint32_t most = 4096 - PMIWIRE_EXCHANGE_OVERHEAD_BYTES;
    static char text[8192];
    struct pmiwire_str v;
    struct world w;

    memset(text, 'x', sizeof(text));
    w_init(&w, 3, 3, BLOCK, 1);
    w_start(&w, &o);
    struct pmiwire_exchange *x = w.nodes[1].x;

    for (uint32_t hint = PMIWIRE_HINT_SPARSE; hint <= PMIWIRE_HINT_DENSE; hint++) {
        struct pmiwire_str key = {text, PMIWIRE_EXCHANGE_MAX_KEY_BYTES},
                           value = {text, most - PMIWIRE_EXCHANGE_MAX_KEY_BYTES};

        assert_int_equal(pmiwire_exchange_put(x, 1, key, value, hint), 0);
        value.len++;
        assert_int_equal(pmiwire_exchange_put(x, 1, key, value, hint), PMIWIRE_EVALLEN);
        value.len = 1;
        key.len++;
        assert_int_equal(pmiwire_exchange_put(x, 1, key, value, hint), PMIWIRE_EKEYLEN);
        assert_int_equal(pmiwire_exchange_get(x, -1, key, -1, 0, 0, &v), PMIWIRE_EKEYLEN);
        key.len = 0;
        assert_int_equal(pmiwire_exchange_put(x, 1, key, value, hint), PMIWIRE_EEMPTY);
        key.len = 1;
        value.len = 0;
        assert_int_equal(pmiwire_exchange_put(x, 1, key, value, hint), 0);
        assert_int_equal(pmiwire_exchange_get(x, -1, key, -1, 0, 0, &v), 0);
        assert_int_equal(v.len, 0);
        w_fence(&w);
    }
    assert_int_equal(pmiwire_exchange_put(x, 0, str("k"), str("v"), 0),
                     -EINVAL); /* no rank of this node */
    assert_int_equal(pmiwire_exchange_put(x, -2, str("k"), str("v"), 0), -EINVAL);
    assert_int_equal(pmiwire_exchange_put(x, 1, str("k"), str("v"), 3), -EINVAL);
    assert_int_equal(pmiwire_exchange_get(x, -1, str("k"), 3, 0, 0, &v), -EINVAL);
    assert_int_equal(pmiwire_exchange_get(x, -1, str("k"), -2, 0, 0, &v), -EINVAL);
    assert_int_equal(pmiwire_exchange_get(x, -1, str("k"), 1, 3, 0, &v), -EINVAL);
    assert_int_equal(pmiwire_exchange_fence(x, 2), -EINVAL);
    assert_int_equal(pmiwire_exchange_allgather(x, 2, str("")), -EINVAL);
    assert_int_equal(pmiwire_exchange_ring(x, 2, str(""), str("")), -EINVAL);
    assert_int_equal(pmiwire_exchange_fail(x, PMIWIRE_ELOST, 1), -EINVAL);
    assert_int_equal(pmiwire_exchange_fail(x, PMIWIRE_ELOST, 3), -EINVAL);
    assert_int_equal(pmiwire_exchange_allgather(x, 1, (struct pmiwire_str){text, most + 1}),
                     PMIWIRE_EVALLEN);
    assert_int_equal(pmiwire_exchange_ring(x, 1, (struct pmiwire_str){text, most + 1}, str("")),
                     PMIWIRE_EVALLEN);
    assert_int_equal(pmiwire_exchange_ring(x, 1, str(""), (struct pmiwire_str){text, most + 1}),
                     PMIWIRE_EVALLEN);
    assert_int_equal(pmiwire_exchange_allgather(x, 1, (struct pmiwire_str){text, most}), 0);
    w_fini(&w);
}

static void bad_options(void **state)
{
    static const uint32_t ranks[] = {2, 3}, unsorted[] = {3, 2}, far[] = {2, 6};
    const struct pmiwire_exchange_opts good = {.size = sizeof(good),
                                               .ops = &w_ops,
                                               .node = 1,
                                               .n_nodes = 3,
                                               .n_ranks = 6,
                                               .ranks = ranks,
                                               .n_local = 2,
                                               .n_below = 2};
    struct pmiwire_exchange_ops ops = w_ops;
    struct pmiwire_exchange_opts o = good;
    struct pmiwire_exchange *x;

    assert_int_equal(pmiwire_exchange_create(NULL, &x), -EINVAL);
    assert_int_equal(pmiwire_exchange_create(&o, NULL), -EINVAL);
    assert_int_equal(pmiwire_exchange_create(&o, &x), 0);
    pmiwire_exchange_destroy(x);
    pmiwire_exchange_destroy(NULL);
#define BAD(change)                                                                                \
    do {                                                                                           \
        o = good;                                                                                  \
        change;                                                                                    \
        assert_int_equal(pmiwire_exchange_create(&o, &x), -EINVAL);                                \
    } while (0)
    BAD(o.size = 4);
    BAD(o.ops = NULL);
    BAD(o.node = 3);
    BAD(o.n_nodes = 0);
    BAD(o.n_nodes = 7);
    BAD(o.n_ranks = 2);
    BAD(o.ranks = NULL);
    BAD(o.ranks = unsorted);
    BAD(o.ranks = far);
    BAD(o.n_local = 0);
    BAD(o.n_local = 7);
    BAD(o.n_below = 0);
    BAD(o.n_below = 4);
    BAD(o.n_below = 5);
    BAD(o.design = 3);
    BAD(o.fence = 2);
    BAD(o.arity = 33);
    BAD(o.unhinted = 3);
    BAD(o.flags = 2);
    BAD(o.max_frame_bytes = 4095);
    BAD(o.max_frame_bytes = PMIWIRE_EXCHANGE_MAX_FRAME_BYTES + 1);
    BAD(o.design = PMIWIRE_DESIGN_TREE; o.fence = PMIWIRE_FENCE_DOUBLING);
    BAD(o.design = PMIWIRE_DESIGN_TREE; o.arity = 1);
    BAD(o.ops = &ops; ops.send = NULL);
    ops = w_ops;
    BAD(o.ops = &ops; ops.node_of = NULL; o.design = PMIWIRE_DESIGN_DIRECT);
    ops = w_ops;
    BAD(o.ops = &ops; ops.find = w_find; ops.pairs = NULL);
    ops = w_ops;
    BAD(o.ops = &ops; ops.size = 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sparse_is_fetched),
        cmocka_unit_test(dkvs_costs_two_frames),
        cmocka_unit_test(direct_costs_one_round_trip),
        cmocka_unit_test(tree_answers_the_way),
        cmocka_unit_test(absent_and_waited_for),
        cmocka_unit_test(never_stale),
        cmocka_unit_test(a_late_answer),
        cmocka_unit_test(a_copy_that_outlives_a_fence),
        cmocka_unit_test(a_slow_put),
        cmocka_unit_test(copies_are_dropped),
        cmocka_unit_test(hints_and_policy),
        cmocka_unit_test(concurrent_puts_agree),
        cmocka_unit_test(waiting_for_dense),
        cmocka_unit_test(the_callers_store),
        cmocka_unit_test(puts_behind_a_fence),
        cmocka_unit_test(one_node_keeps_nothing),
        cmocka_unit_test(a_lost_node_ends_everything),
        cmocka_unit_test(giving_up_is_told),
        cmocka_unit_test(waiting_has_a_limit),
        cmocka_unit_test(callbacks_may_call),
        cmocka_unit_test(limits_of_pairs),
        cmocka_unit_test(bad_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
