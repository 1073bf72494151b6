/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sizes that 32 bits cannot hold. A few ids can be far apart, and a formula of few bytes can have
 * 2^32 ranks; so a size computed from either may not wrap on a 32-bit machine. On a 64-bit machine
 * the allocator refuses what a 32-bit machine cannot have.
 */
#include "../heap.h"
#include "rankmap_tools.h"

static struct heap heap = {.max_bytes = 1 << 20};
static const struct rankmap_allocator allocator = {heap_realloc, heap_free, &heap};
static const struct rankmap_opts opts = {.size = sizeof(opts), .allocator = &allocator};

/* A bitmap of these ids has 2^34 words. */
static void few_far_ids(void **state)
{
    static const uint64_t ids[] = {0, 7, 100, 1000, 5000, RANKMAP_ID_LIMIT - 1};
    static const char text[] = "0,7,100,1000,5000,1099511627775";
    unsigned char bytes[100];
    struct rankmap *map[3];
    ssize_t len;

    assert_int_equal(rankmap_from_ids64(ids, 6, &opts, &map[0], NULL), 0);
    assert_int_equal(rankmap_from_text(text, strlen(text), &opts, &map[1], NULL), 0);
    len = rankmap_pack(map[0], bytes, sizeof(bytes));
    assert_true(len > 0);
    assert_int_equal(rankmap_unpack(bytes, (size_t)len, &opts, &map[2]), len);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kind_of(map[i]), RANKMAP_PACKED);
        for (uint32_t r = 0; r < 6; r++)
            assert_int_equal(rankmap_id(map[i], r), ids[r]);
        rankmap_unref(map[i]);
    }
}

/* Twice 2^31 sort keys. */
static void ranks_by_node(void **state)
{
    struct rankmap *nodes = affine(0, 1, UINT32_C(1) << 31), *out = NULL;

    assert_int_equal(rankmap_ranks_by_node(nodes, &opts, &out), -ENOMEM);
    rankmap_unref(nodes);
}

/* Room for all ranks, and one more. */
static void difference(void **state)
{
    struct rankmap *all = affine(0, 1, RANKMAP_MAX_RANKS), *out = NULL;
    struct rankmap *some = MAP_OF(9, 2, 14, 3, 8, 0, 5, 11, 1, 15, 6, 13);

    assert_int_equal(kind_of(some), RANKMAP_PACKED);
    assert_int_equal(rankmap_difference(all, some, &opts, &out), -ENOMEM);
    rankmap_unref(some);
    rankmap_unref(all);
}

/* The same; the blocks do not have id 2, without which the union would be the blocks. */
static void union_of_all(void **state)
{
    struct rankmap *blocks, *one = affine(2, 1, 1), *out = NULL;

    assert_int_equal(make_block(0, 2, 3, 1, 0, RANKMAP_MAX_RANKS - 1, NULL, &blocks), 0);
    assert_int_equal(rankmap_union(blocks, one, &opts, &out), -ENOMEM);
    rankmap_unref(one);
    rankmap_unref(blocks);
}

/* A set whose bits take 2^32 + 1 words. */
static void members(void **state)
{
    struct rankmap *all = affine(0, 1, RANKMAP_MAX_RANKS), *blocks, *out = NULL;

    assert_int_equal(make_block(0, 2, 256, 1, 0, (UINT32_C(1) << 31) + 2, NULL, &blocks), 0);
    assert_int_equal(rankmap_intersection(all, blocks, &opts, &out), -ENOMEM);
    rankmap_unref(blocks);
    rankmap_unref(all);
}

/* Nine runs, the last one first: their ranks need an index. The last run ends at `last`. */
static struct rankmap *long_runs(uint64_t apart, int64_t stride, uint64_t last)
{
    const uint64_t span = ((UINT64_C(1) << 28) - 1) * (uint64_t)stride;
    struct rankmap_range ranges[9];
    struct rankmap *map;

    ranges[0] = (struct rankmap_range){8 * apart, last, stride};
    for (uint64_t i = 0; i < 8; i++)
        ranges[i + 1] = (struct rankmap_range){i * apart, i * apart + span, stride};
    assert_int_equal(rankmap_from_ranges(ranges, 9, NULL, &map, NULL), 0);
    assert_int_equal(kind_of(map), RANKMAP_RUNS);
    return map;
}

/* An array of 2^32 slots. */
static void dense_index(void **state)
{
    struct rankmap *map = long_runs(400000000, 1, UINT32_MAX - 1);
    struct rankmap_index *index = NULL;

    assert_int_equal(rankmap_index_create(map, &allocator, &index), -ENOMEM);
    rankmap_unref(map);
}

/* 2^32 buckets. */
static void hashed_index(void **state)
{
    struct rankmap *map = long_runs(1400000000, 5, UINT64_C(12540000000));
    struct rankmap_index *index = NULL;

    assert_true(rankmap_size(map) > UINT32_C(1) << 31);
    assert_int_equal(rankmap_index_create(map, &allocator, &index), -ENOMEM);
    rankmap_unref(map);
}

/* These take memory from libc, which a 64-bit machine may have, or read 2^30 ranks. */
#if SIZE_MAX == UINT32_MAX
/* Three arrays of 2^32/3 ids. */
static void compared(void **state)
{
    const struct rankmap_opts twice = {.size = sizeof(twice), .flags = RANKMAP_ALLOW_DUPLICATES};
    const uint32_t n = UINT32_MAX / 3 + 1;
    struct rankmap *up, *down;

    assert_int_equal(make_block(0, 2, 1, 0, 0, n, &twice, &up), 0);
    assert_int_equal(make_block(n / 2 - 1, 2, -1, 0, 0, n, &twice, &down), 0);
    assert_int_equal(rankmap_compare(up, down), -ENOMEM);
    rankmap_unref(down);
    rankmap_unref(up);
}

/* 40 bits a rank of a view are more than 2^32 bytes. */
static void packed_view(void **state)
{
    const uint32_t n = 858993472;
    const struct rankmap_range ranges[] = {{RANKMAP_ID_LIMIT - 1, RANKMAP_ID_LIMIT - 1, 1},
                                           {10, n / 2 + 9, 1},
                                           {UINT32_MAX, UINT32_MAX + UINT64_C(1) * (n / 2), 1}};
    struct rankmap *runs, *swaps, *view;

    assert_int_equal(rankmap_from_ranges(ranges, 3, NULL, &runs, NULL), 0);
    assert_int_equal(make_block(1, 2, 2, -1, 0, rankmap_size(runs) & ~1u, NULL, &swaps), 0);
    assert_int_equal(rankmap_compose(runs, swaps, NULL, &view), 0);
    assert_int_equal(kind_of(view), RANKMAP_LUT_BLOCKSTRIDE);
    assert_int_equal(rankmap_pack(view, NULL, 0), RANKMAP_ENOBUF);
    rankmap_unref(view);
    rankmap_unref(swaps);
    rankmap_unref(runs);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_far_ids),
        cmocka_unit_test(ranks_by_node),
        cmocka_unit_test(difference),
        cmocka_unit_test(union_of_all),
        cmocka_unit_test(members),
        cmocka_unit_test(dense_index),
        cmocka_unit_test(hashed_index),
#if SIZE_MAX == UINT32_MAX
        cmocka_unit_test(compared),
        cmocka_unit_test(packed_view),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
