/* SPDX-License-Identifier: BSD-3-Clause */
/* The exchange's collectives: Fence, Allgather and Ring on every shape, the frames and bytes that
 * they take, and the tree. */
#include <stdbool.h>

#include "exchange_world.h"

static uint64_t frames(const struct world *w, uint32_t type)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < w->n_nodes; i++)
        n += w_stats(w, i).frames[type].n_sent;
    return n;
}

/* ---- Fence ---- */

static int send_short(void *ctx, uint32_t to, const struct iovec *iov, uint32_t n_iov, size_t bytes)
{
    assert_true(bytes <= PMIWIRE_EXCHANGE_FRAME_BYTES);
    return w_send(ctx, to, iov, n_iov, bytes);
}

/* Pairs of two lengths in turn, so that each is a run and takes a byte more than its record: a
 * segment of as many records as a segment may have would not fit in a frame. */
static void pairs_longer_than_records(void **state)
{
    struct pmiwire_exchange_ops ops = w_ops;
    struct pmiwire_exchange_opts o = {.ops = &ops};
    static char text[133];
    struct world w;

    memset(text, 'v', 132);
    ops.send = send_short;
    w_init(&w, 2, 2, BLOCK, 1);
    w_start(&w, &o);
    for (uint32_t i = 0; i < 1000; i++) {
        char key[16];

        snprintf(key, sizeof(key), "%04u", i);
        w_put(&w, 0, key, text + i % 2 * 4, PMIWIRE_HINT_DENSE);
    }
    w_fence(&w);
    assert_int_equal(w.nodes[1].n_done[PMIWIRE_COLL_FENCE], 1);
    assert_int_equal(w.nodes[1].n_pairs, 1000);
    w_fini(&w);
}

static void check_fence(uint32_t n, uint32_t fence, uint32_t arity, uint32_t frame_bytes,
                        size_t value_bytes)
{
    struct pmiwire_exchange_opts o = {
        .fence = fence, .arity = arity, .max_frame_bytes = frame_bytes};
    char key[32], *value = malloc(value_bytes + 1);
    uint32_t ranks = 2 * n;
    struct world w;

    assert_non_null(value);
    memset(value, 'v', value_bytes);
    value[value_bytes] = '\0';
    w_init(&w, n, ranks, CYCLIC, n * 7 + arity);
    w_start(&w, &o);
    for (uint32_t round = 1; round <= 3; round++) {
        for (uint32_t r = 0; r < ranks; r++) {
            snprintf(key, sizeof(key), "k%u", r);
            value[0] = (char)('a' + (r + round) % 26);
            w_put(&w, r, key, value, PMIWIRE_HINT_NONE);
        }
        for (uint32_t i = 0; i < n; i++)
            w.nodes[i].n_pairs = 0;
        w_fence(&w);
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(w.nodes[i].n_done[PMIWIRE_COLL_FENCE], round);
            assert_int_equal(w.nodes[i].n_pairs, ranks);
            for (uint32_t r = 0; r < ranks; r++) {
                struct pmiwire_str v;

                snprintf(key, sizeof(key), "k%u", r);
                assert_int_equal(
                    pmiwire_exchange_get(w.nodes[i].x, -1, str(key), -1, PMIWIRE_GET_LOCAL, 0, &v),
                    0);
                assert_int_equal(v.len, value_bytes);
                assert_int_equal(v.ptr[0], 'a' + (r + round) % 26);
            }
        }
    }
    w_fini(&w);
    free(value);
}

static void fence_every_shape(void **state)
{
    for (uint32_t n = 1; n <= 20; n++)
        for (uint32_t arity = 0; arity <= 5; arity++) {
            check_fence(n, PMIWIRE_FENCE_TREE, arity, 0, 16);
            check_fence(n, PMIWIRE_FENCE_DOUBLING, arity, 0, 16);
        }
}

/* Sets that take many frames, with values near a frame's size. */
static void fence_of_many_frames(void **state)
{
    for (uint32_t n = 1; n <= 9; n++) {
        check_fence(n, PMIWIRE_FENCE_TREE, 2, 4096, 1500);
        check_fence(n, PMIWIRE_FENCE_TREE, 3, 4096, 4096 - PMIWIRE_EXCHANGE_OVERHEAD_BYTES - 4);
        check_fence(n, PMIWIRE_FENCE_DOUBLING, 0, 4096, 1500);
        check_fence(n, PMIWIRE_FENCE_DOUBLING, 0, 4096, 4096 - PMIWIRE_EXCHANGE_OVERHEAD_BYTES - 4);
    }
}

static void fence_takes_one_frame_a_link(void **state)
{
    struct pmiwire_exchange_opts tree = {.arity = 3}, rounds = {.fence = PMIWIRE_FENCE_DOUBLING};
    struct world w;

    w_init(&w, 13, 26, BLOCK, 1);
    w_start(&w, &tree);
    w_put(&w, 4, "a", "1", PMIWIRE_HINT_DENSE);
    w_fence(&w);
    assert_int_equal(frames(&w, PMIWIRE_FRAME_COLL), 2 * 12);
    w_fini(&w);
    w_init(&w, 13, 26, BLOCK, 1);
    w_start(&w, &rounds);
    w_fence(&w);
    assert_int_equal(frames(&w, PMIWIRE_FRAME_COLL), 13 * 4);
    w_fini(&w);
}

/* No rank leaves before every rank has entered, and no rank enters twice. */
static void fence_is_a_barrier(void **state)
{
    struct pmiwire_exchange_opts o = {0};
    struct world w;

    for (o.fence = 0; o.fence < 2; o.fence++)
        for (uint32_t late = 0; late < 12; late++) {
            w_init(&w, 6, 12, RANDOM, late + 1);
            w_start(&w, &o);
            for (uint32_t r = 0; r < 12; r++)
                if (r != late) {
                    struct pmiwire_exchange *x = w.nodes[w.node_of[r]].x;

                    assert_int_equal(pmiwire_exchange_fence(x, (int32_t)r), 0);
                    assert_int_equal(pmiwire_exchange_fence(x, (int32_t)r), PMIWIRE_ESTATE);
                    assert_int_equal(pmiwire_exchange_fence(x, PMIWIRE_RANK_ALL), PMIWIRE_ESTATE);
                }
            w_run(&w);
            for (uint32_t i = 0; i < 6; i++)
                assert_int_equal(w.nodes[i].n_done[PMIWIRE_COLL_FENCE], 0);
            assert_int_equal(pmiwire_exchange_fence(w.nodes[w.node_of[late]].x, (int32_t)late), 0);
            w_run(&w);
            for (uint32_t i = 0; i < 6; i++)
                assert_int_equal(w.nodes[i].n_done[PMIWIRE_COLL_FENCE], 1);
            w_fini(&w);
        }
}

/* A Fence's payload, as bytes, comes once to every node, with 5 % on top at most: pairs with 16
 * bytes of key and values of this length, 16 a node. */
static void check_fence_bytes(uint32_t n, uint32_t fence, size_t value_bytes, const char *form,
                              bool alike)
{
    struct pmiwire_exchange_opts o = {.fence = fence};
    const uint64_t pairs = (uint64_t)16 * (16 + value_bytes), payload = n * pairs;
    char key[32], value[129];
    uint64_t sent = 0;
    struct world w;

    memset(value, 'v', value_bytes);
    value[value_bytes] = '\0';
    w_init(&w, n, 16 * n, BLOCK, 1);
    w_start(&w, &o);
    for (uint32_t r = 0; r < 16 * n; r++) {
        snprintf(key, sizeof(key), form, alike ? r : r * 2654435761u);
        assert_int_equal(strlen(key), 16);
        w_put(&w, r, key, value, PMIWIRE_HINT_DENSE);
    }
    w_fence(&w);
    for (uint32_t i = 0; i < n; i++) {
        struct pmiwire_stats_exchange s = w_stats(&w, i);
        uint64_t received = s.frames[PMIWIRE_FRAME_COLL].bytes_received;

        assert_int_equal(s.payload_bytes, payload);
        assert_true(received <= payload * 105 / 100);
        assert_true(alike ? received <= payload - pairs
                          : received >= payload - pairs); /* its own are not sent to it */
        sent += s.frames[PMIWIRE_FRAME_COLL].bytes_sent;
        if (fence)
            assert_true(s.frames[PMIWIRE_FRAME_COLL].bytes_sent <= payload * 105 / 100);
    }
    assert_true(sent <= payload * n * 105 / 100);
    w_fini(&w);
}

static void fence_bytes(void **state)
{
    for (uint32_t fence = 0; fence < 2; fence++)
        for (uint32_t n = 2; n <= 40; n += 19) {
            check_fence_bytes(n, fence, 128, "rank-%08u-ab", true);
            check_fence_bytes(n, fence, 13, "addr-of-%08x", true);
            check_fence_bytes(n, fence, 13, "%08x-address",
                              false); /* keys without a common prefix */
            check_fence_bytes(n, fence, 0, "%08x-address", false);
        }
}

/* Pairs of every length, in runs of every kind, arrive unchanged, in the order of nodes and of
 * their Puts. */
#define MANY 300u

static void random_pair(struct world *w, char *key, char *value)
{
    static const size_t keys[] = {1, 2, 13, 13, 13, 127, 128, 254, 255, 256, 300, 2047},
                        values[] = {0, 0, 1, 16, 16, 16, 127, 128, 700};
    static size_t n = 13, m = 16;

    if (w_random(w, 4) == 0) { /* else with the lengths of the previous one */
        n = keys[w_random(w, 12)];
        m = values[w_random(w, 9)];
    }
    memset(key, 'k', n);
    for (size_t at = n > 5 && w_random(w, 3) ? n - 1 - w_random(w, 5) : w_random(w, (uint32_t)n);
         at < n; at++)
        key[at] = (char)('a' + w_random(w, 8));
    key[n] = '\0';
    memset(value, 'a' + (int)w_random(w, 26), m);
    value[m] = '\0';
}

static struct {
    char *key, *value;
} pairs[3][MANY];
static uint32_t n_seen[3];

static int in_order(struct node *n, uint32_t kind, const void *block, size_t bytes)
{
    uint32_t *seen = &n_seen[n->id];
    struct pmiwire_keyval kv;
    size_t pos = 0;

    assert_int_equal(kind, PMIWIRE_COLL_FENCE);
    for (; pmiwire_block_next(block, bytes, &pos, &kv) == 1; ++*seen) {
        const char *key, *value;

        assert_true(*seen < 3 * MANY);
        key = pairs[*seen / MANY][*seen % MANY].key;
        value = pairs[*seen / MANY][*seen % MANY].value;
        assert_int_equal(kv.key.len, strlen(key));
        assert_memory_equal(kv.key.ptr, key, kv.key.len);
        assert_int_equal(kv.value.len, strlen(value));
        if (kv.value.len)
            assert_memory_equal(kv.value.ptr, value, kv.value.len);
    }
    assert_int_equal(pos, bytes);
    return 0;
}

static uint32_t n_blocks;

static int count_block(struct node *n, uint32_t kind, const void *block, size_t bytes)
{
    (void)n, (void)kind, (void)block, (void)bytes;
    n_blocks++;
    return 0;
}

/* Pairs that fit into one block come in one, of many frames. */
static void fence_in_one_block(void **state)
{
    struct pmiwire_exchange_opts o = {.max_frame_bytes = 4096};
    struct world w;

    w_init(&w, 2, 2, BLOCK, 1);
    w.on_pairs = count_block;
    w_start(&w, &o);
    for (uint32_t i = 0; i < 1000; i++) {
        char key[16];

        snprintf(key, sizeof(key), "key%04u", i);
        w_put(&w, 0, key, "0123456789abcdef", PMIWIRE_HINT_DENSE);
    }
    n_blocks = 0;
    w_fence(&w);
    assert_int_equal(w.nodes[1].n_pairs, 1000);
    assert_int_equal(n_blocks, 2); /* one a node */
    w_fini(&w);
}

static void fence_of_all_lengths(void **state)
{
    char key[2048], value[1024];

    for (uint32_t seed = 1; seed <= 20; seed++) {
        struct pmiwire_exchange_opts o = {
            .fence = seed & 1, .max_frame_bytes = seed & 2 ? PMIWIRE_EXCHANGE_MIN_FRAME_BYTES : 0};
        struct world w;

        w_init(&w, 3, 3, BLOCK, seed);
        w_start(&w, &o);
        w.on_pairs = in_order;
        memset(n_seen, 0, sizeof(n_seen));
        for (uint32_t node = 0; node < 3; node++)
            for (uint32_t i = 0; i < MANY; i++) {
                random_pair(&w, key, value);
                w_put(&w, node, key, value, PMIWIRE_HINT_DENSE);
                pairs[node][i].key = strdup(key);
                pairs[node][i].value = strdup(value);
                assert_true(pairs[node][i].key && pairs[node][i].value);
            }
        w_fence(&w);
        for (uint32_t node = 0; node < 3; node++) {
            assert_int_equal(n_seen[node], 3 * MANY);
            for (uint32_t i = 0; i < MANY; i++) {
                free(pairs[node][i].key);
                free(pairs[node][i].value);
            }
        }
        w_fini(&w);
    }
}

/* ---- Ring ---- */

static void check_ring(uint32_t n, uint32_t ranks, enum placement p, uint64_t seed)
{
    struct pmiwire_exchange_opts o = {0};
    char left[16], right[16], want[16];
    uint32_t *order = calloc(ranks, sizeof(*order)), at = 0;
    struct world w;

    assert_non_null(order);
    w_init(&w, n, ranks, p, seed);
    w_start(&w, &o);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < ranks; r++)
            if (w.node_of[r] == i)
                order[at++] = r;
    for (uint32_t round = 1; round <= 3; round++) {
        for (uint32_t r = 0; r < ranks; r++) {
            struct pmiwire_exchange *x = w.nodes[w.node_of[r]].x;

            snprintf(left, sizeof(left), "l%u.%u", r, round);
            snprintf(right, sizeof(right), "r%u.%u", r, round);
            assert_int_equal(pmiwire_exchange_ring(x, (int32_t)r, str(left), str(right)), 0);
            if (w.rings[r].n < round)
                assert_int_equal(pmiwire_exchange_ring(x, (int32_t)r, str(left), str(right)),
                                 PMIWIRE_ESTATE);
            if (w_random(&w, 3) == 0 && w.n_queued) {
                int rc;

                (void)w_step(&w, &rc);
                assert_int_equal(rc, 0);
            }
        }
        w_run(&w);
        for (uint32_t i = 0; i < ranks; i++) {
            uint32_t r = order[i];

            assert_int_equal(w.rings[r].n, round);
            assert_int_equal(w.rings[r].rc, 0);
            assert_int_equal(w.rings[r].place, i);
            snprintf(want, sizeof(want), "r%u.%u", order[(i + ranks - 1) % ranks], round);
            assert_string_equal(w.rings[r].left, want);
            snprintf(want, sizeof(want), "l%u.%u", order[(i + 1) % ranks], round);
            assert_string_equal(w.rings[r].right, want);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(w.nodes[i].sent, n > 1 ? 6 : 0); /* two a Ring, whatever the placement */
        assert_int_equal(w.nodes[i].received, n > 1 ? 6 : 0);
    }
    w_fini(&w);
    free(order);
}

static void ring_everywhere(void **state)
{
    for (uint32_t n = 1; n <= 12; n++)
        for (uint32_t per = 1; per <= 4; per++)
            for (int p = BLOCK; p <= RANDOM; p++)
                check_ring(n, n * per + (p == RANDOM ? n / 2 : 0), (enum placement)p, n * 31 + per);
}

/* ---- Allgather ---- */

static unsigned char gathered[3][64];

static int gather_pairs(struct node *n, uint32_t kind, const void *block, size_t bytes)
{
    struct pmiwire_keyval kv;
    size_t pos = 0;
    uint32_t rank;

    assert_int_equal(kind, PMIWIRE_COLL_ALLGATHER);
    while (pmiwire_block_next(block, bytes, &pos, &kv) == 1) {
        char want[32];

        assert_int_equal(kv.key.len, 4);
        memcpy(&rank, kv.key.ptr, 4);
        snprintf(want, sizeof(want), "value of %u", rank);
        assert_int_equal(kv.value.len, strlen(want));
        assert_memory_equal(kv.value.ptr, want, kv.value.len);
        gathered[n->id % 3][rank]++;
    }
    return 0;
}

static void allgather(void **state)
{
    char value[32];
    struct world w;

    for (uint32_t seed = 1; seed < 20; seed++) {
        struct pmiwire_exchange_opts o = {.fence = seed & 1};

        memset(gathered, 0, sizeof(gathered));
        w_init(&w, 3, 11, RANDOM, seed);
        w.on_pairs = gather_pairs;
        w_start(&w, &o);
        for (uint32_t r = 0; r < 11; r++) {
            struct pmiwire_exchange *x = w.nodes[w.node_of[r]].x;

            snprintf(value, sizeof(value), "value of %u", r);
            assert_int_equal(pmiwire_exchange_allgather(x, (int32_t)r, str(value)), 0);
            if (r < 10)
                assert_int_equal(pmiwire_exchange_allgather(x, (int32_t)r, str(value)),
                                 PMIWIRE_ESTATE);
        }
        w_run(&w);
        for (uint32_t n = 0; n < 3; n++) {
            assert_int_equal(w.nodes[n].n_done[PMIWIRE_COLL_ALLGATHER], 1);
            assert_int_equal(w.nodes[n].n_done[PMIWIRE_COLL_FENCE], 0);
            for (uint32_t r = 0; r < 11; r++)
                assert_int_equal(gathered[n][r], 1);
        }
        w_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fence_every_shape),         cmocka_unit_test(fence_of_many_frames),
        cmocka_unit_test(pairs_longer_than_records), cmocka_unit_test(fence_takes_one_frame_a_link),
        cmocka_unit_test(fence_is_a_barrier),        cmocka_unit_test(fence_bytes),
        cmocka_unit_test(fence_in_one_block),        cmocka_unit_test(fence_of_all_lengths),
        cmocka_unit_test(ring_everywhere),           cmocka_unit_test(allgather),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
