/* SPDX-License-Identifier: BSD-3-Clause */
/* A Fence's blocks go directly into libshmht's table: one merge a block, and the exchange looks
 * keys up in that table. */
#include <stdbool.h>

#include <time.h>

#include "exchange_world.h"

#include <shmht.h>

enum { NODES = 5, RANKS = 20 };

static struct shmht_writer *writers[NODES];
static uint64_t merged_new, merged_replaced;

static int merge(struct node *n, uint32_t kind, const void *block, size_t bytes)
{
    struct shmht_merged m;

    assert_int_equal(kind, PMIWIRE_COLL_FENCE);
    assert_int_equal(shmht_writer_merge(writers[n->id], block, bytes, &m), 0);
    merged_new += m.n_new;
    merged_replaced += m.n_replaced;
    return 0;
}

static int find(void *ctx, struct pmiwire_str key, struct pmiwire_str *value)
{
    struct shmht_bytes v;

    if (shmht_get(shmht_writer_view(writers[((struct node *)ctx)->id]), key.ptr, key.len, &v) != 0)
        return PMIWIRE_ENOENT;
    *value = (struct pmiwire_str){v.ptr, v.len};
    return 0;
}

static void blocks_are_merged(void **state)
{
    struct pmiwire_exchange_ops ops = w_ops;
    char key[16], value[64];
    struct world w;

    ops.find = find;
    for (uint32_t fence = 0; fence < 2; fence++) {
        struct pmiwire_exchange_opts o = {.ops = &ops, .fence = fence};
        struct shmht_writer_opts wo = {.size = sizeof(wo), .max_bytes = 1 << 20};

        merged_new = merged_replaced = 0;
        for (uint32_t i = 0; i < NODES; i++)
            assert_int_equal(shmht_writer_create(&wo, &writers[i], NULL), 0);
        w_init(&w, NODES, RANKS, RANDOM, 3);
        w.on_pairs = merge;
        w_start(&w, &o);
        for (uint32_t round = 0; round < 3; round++) {
            for (uint32_t r = 0; r < RANKS; r++) {
                snprintf(key, sizeof(key), "k%u", r);
                snprintf(value, sizeof(value), "%.*s%u", (int)(r * 2),
                         "a value of some length, or of none at all", round);
                assert_true(
                    shmht_put(writers[w.node_of[r]], key, strlen(key), value, strlen(value)) >= 0);
                w_put(&w, r, key, value, PMIWIRE_HINT_NONE);
            }
            w_fence(&w);
            for (uint32_t i = 0; i < NODES; i++)
                for (uint32_t r = 0; r < RANKS; r++) {
                    snprintf(key, sizeof(key), "k%u", r);
                    snprintf(value, sizeof(value), "%.*s%u", (int)(r * 2),
                             "a value of some length, or of none at all", round);
                    w_expect(&w, w_get(&w, i, key, -1, PMIWIRE_GET_LOCAL), value);
                }
        }
        assert_int_equal(merged_new, (NODES - 1) * RANKS); /* each node has its own at once */
        assert_int_equal(merged_replaced, 2 * NODES * RANKS + RANKS);
        for (uint32_t i = 0; i < NODES; i++) {
            assert_int_equal(w_stats(&w, i).n_keys, 0);
            shmht_writer_destroy(writers[i]);
        }
        w_fini(&w);
    }
}

static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Measures the call that completes a large Fence. FENCEPOST_PAIRS=1000000: EXCHANGE.md's. */
static void one_call_delivers(void **state)
{
    const char *pairs = getenv("FENCEPOST_PAIRS");
    const uint32_t n = pairs ? (uint32_t)strtoul(pairs, NULL, 10) : 20000;
    struct shmht_writer_opts wo = {.size = sizeof(wo), .max_bytes = 1 << 28};
    struct pmiwire_exchange_ops ops = w_ops;
    struct pmiwire_exchange_opts o = {.ops = &ops};
    char key[32], value[40];
    struct shmht_bytes v;
    struct world w;
    int rc;

    ops.find = find;
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(shmht_writer_create(&wo, &writers[i], NULL), 0);
    w_init(&w, 2, 2, BLOCK, 1);
    w.on_pairs = merge;
    w_start(&w, &o);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "%08x-address", i * 2654435761u);
        snprintf(value, sizeof(value), "%032x", i);
        assert_true(shmht_put(writers[i % 2], key, 16, value, 32) >= 0);
        w_put(&w, i % 2, key, value, PMIWIRE_HINT_DENSE);
        if (i % 64 == 0)
            (void)w_step(&w, &rc);
    }
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(pmiwire_exchange_fence(w.nodes[i].x, PMIWIRE_RANK_ALL), 0);
    for (double before = cpu_seconds(); w_step(&w, &rc); before = cpu_seconds())
        if (w.nodes[0].n_done[PMIWIRE_COLL_FENCE] == 1) {
            print_message("%u pairs: the last call took %.3f s of a processor\n", n,
                          cpu_seconds() - before);
            break;
        }
    w_run(&w);
    for (uint32_t i = 0; i < n; i += n / 100) {
        snprintf(key, sizeof(key), "%08x-address", i * 2654435761u);
        assert_int_equal(shmht_get(shmht_writer_view(writers[1 - i % 2]), key, 16, &v), 0);
    }
    w_fini(&w);
    for (uint32_t i = 0; i < 2; i++)
        shmht_writer_destroy(writers[i]);
}

/* libpmiwire reads libshmht's blocks, and libshmht reads libpmiwire's. */
static void blocks_are_the_same(void **state)
{
    char buf[512];
    struct pmiwire_keyval kv;
    struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = 1 << 20};
    struct shmht_iter it = {0};
    struct shmht_writer *w;
    size_t n, pos = 0;

    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_int_equal(shmht_put(w, "key", 3, "value", 5), SHMHT_PUT_NEW);
    assert_int_equal(shmht_put(w, "k", 1, "", 0), SHMHT_PUT_NEW);
    n = (size_t)shmht_reader_export(shmht_writer_view(w), &it, buf, sizeof(buf));
    assert_in_range(n, SHMHT_BLOCK_HEADER_BYTES + 1, sizeof(buf));
    shmht_writer_destroy(w);
    assert_int_equal(pmiwire_block_next(buf, n, &pos, &kv), 1);
    assert_int_equal(kv.key.len, 3);
    assert_memory_equal(kv.value.ptr, "value", 5);
    assert_int_equal(pmiwire_block_next(buf, n, &pos, &kv), 1);
    assert_int_equal(kv.value.len, 0);
    assert_int_equal(pmiwire_block_next(buf, n, &pos, &kv), 0);
    for (size_t i = 0; i < n; i++) {
        pos = 0;
        assert_true(pmiwire_block_next(buf, i, &pos, &kv) < 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_merged),
        cmocka_unit_test(one_call_delivers),
        cmocka_unit_test(blocks_are_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
