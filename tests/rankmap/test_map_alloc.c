/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every function that allocates, with each allocation failing in turn: it returns -ENOMEM, does not
 * touch its output, and frees everything.
 */
#include "../heap.h"
#include "rankmap_tools.h"

static struct counter counter;
static const struct rankmap_allocator allocator = {
    .realloc = counted_realloc, .free = counted_free, .ctx = &counter};
static const struct rankmap_opts opts = {.size = sizeof(opts), .allocator = &allocator};

/* The calls' arguments; made with libc's allocator. */
static struct rankmap *world, *table, *runs, *block, *nodes, *sparse, *wide, *order;
static uint32_t *ids, sorted_ids[4000], run_ids[1000];
static uint64_t far_ids[2000];

/* Those of `ids` that are ranks below n. */
static struct rankmap *some_ranks(uint32_t n)
{
    uint32_t some[5000];
    size_t n_some = 0;

    for (size_t i = 0; i < 5000; i++)
        if (ids[i] < n)
            some[n_some++] = ids[i];
    return from32(some, n_some);
}

static int from_ids(struct rankmap **out)
{
    return rankmap_from_ids(ids, sizeof(uint32_t), 5000, &opts, out, NULL);
}

static int from_sorted(struct rankmap **out)
{
    return rankmap_from_ids(sorted_ids, sizeof(uint32_t), 4000, &opts, out, NULL);
}

static int from_far(struct rankmap **out)
{
    return rankmap_from_ids(far_ids, sizeof(uint64_t), 2000, &opts, out, NULL);
}

static int from_run_ids(struct rankmap **out)
{
    return rankmap_from_ids32(run_ids, 1000, &opts, out, NULL);
}

static int from_runs(struct rankmap **out)
{
    return rankmap_from_text("0-999,2000-4999,1500-1000,9000-9999:3", 37, &opts, out, NULL);
}

static int few_ranks(struct rankmap **out)
{
    static const struct rankmap_level levels[4] = {{1, 2}, {5, 2}, {17, 2}, {90, 2}};

    return make_layout(0, levels, 4, 0, 16, &opts, out);
}

static int overlapping(struct rankmap **out)
{
    static const struct rankmap_level levels[3] = {{3, 50}, {100, 10}, {2000, 7}};

    return make_layout(0, levels, 3, 0, 3000, &opts, out);
}

static int map_nodes(struct rankmap **out)
{
    return rankmap_nodes_from_text("(vector,(0,3,2),(3,2,5))", 24, 500, &opts, out, NULL);
}

static int by_node(struct rankmap **out)
{
    return rankmap_ranks_by_node(nodes, &opts, out);
}

static int on_node(struct rankmap **out)
{
    return rankmap_ranks_on_node(nodes, 2, &opts, out);
}

static int compose_table(struct rankmap **out)
{
    return rankmap_compose(table, block, &opts, out);
}

static int compose_expanded(struct rankmap **out)
{
    return rankmap_compose(world, table, &opts, out);
}

/* ids of more than 32 bits */
static int compose_far(struct rankmap **out)
{
    return rankmap_compose(wide, order, &opts, out);
}

static int compose_runs(struct rankmap **out)
{
    return rankmap_compose(world, runs, &opts, out);
}

static int reverse(struct rankmap **out)
{
    return reverse_ranks(table, &opts, out);
}

static int include(struct rankmap **out)
{
    return include_ranks(world, ids, 3000, &opts, out);
}

static int exclude(struct rankmap **out)
{
    return exclude_ranks(table, ids, 300, &opts, out);
}

static int exclude_two_ranges(struct rankmap **out)
{
    static const struct rankmap_range ranges[2] = {{0, 100, 7}, {400, 300, -1}};

    return exclude_ranges(table, ranges, 2, &opts, out);
}

static int include_two_ranges(struct rankmap **out)
{
    static const int ranges[] = {0, 100, 7, 400, 300, -1};

    return rankmap_include_ranges(table, ranges, 2, &opts, out, NULL);
}

static int unite(struct rankmap **out)
{
    return rankmap_union(table, sparse, &opts, out);
}

static int intersect_runs(struct rankmap **out)
{
    return rankmap_intersection(runs, world, &opts, out);
}

static int difference(struct rankmap **out)
{
    return rankmap_difference(sparse, table, &opts, out);
}

static int difference_far(struct rankmap **out)
{
    struct rankmap *far;
    int rc = rankmap_from_ids(far_ids, sizeof(uint64_t), 2000, NULL, &far, NULL);

    assert_int_equal(rc, 0);
    rc = rankmap_difference(table, far, &opts, out);
    rankmap_unref(far);
    return rc;
}

static int difference_gaps(struct rankmap **out)
{
    struct rankmap *few;
    int rc = rankmap_affine(10, 7, 50, NULL, &few);

    assert_int_equal(rc, 0);
    rc = rankmap_difference(world, few, &opts, out);
    rankmap_unref(few);
    return rc;
}

static int concat_runs(struct rankmap **out)
{
    struct rankmap *more;
    int rc = rankmap_affine(20000, 1, 50, NULL, &more);

    assert_int_equal(rc, 0);
    rc = rankmap_union(runs, more, &opts, out);
    rankmap_unref(more);
    return rc;
}

static int unpack(struct rankmap **out)
{
    size_t len = (size_t)rankmap_pack(sparse, NULL, 0);
    void *bytes = xmalloc(len);
    ssize_t rc;

    assert_int_equal(rankmap_pack(sparse, bytes, len), len);
    rc = rankmap_unpack(bytes, len, &opts, out);
    free(bytes);
    return rc < 0 ? (int)rc : 0;
}

static int unpack_runs(struct rankmap **out)
{
    size_t len = (size_t)rankmap_pack(runs, NULL, 0);
    void *bytes = xmalloc(len);
    ssize_t rc;

    assert_int_equal(rankmap_pack(runs, bytes, len), len);
    rc = rankmap_unpack(bytes, len, &opts, out);
    free(bytes);
    return rc < 0 ? (int)rc : 0;
}

static int make_index(struct rankmap **out)
{
    struct rankmap_index *index;
    int rc = rankmap_index_create(table, &allocator, &index);

    if (rc == 0) {
        rankmap_index_destroy(index);
        *out = NULL;
    }
    return rc;
}

static void maps(void **state)
{
    static int (*const calls[])(struct rankmap **) = {
        from_ids,
        from_sorted,
        from_far,
        from_runs,
        few_ranks,
        overlapping,
        map_nodes,
        by_node,
        on_node,
        compose_table,
        compose_expanded,
        compose_far,
        compose_runs,
        reverse,
        include,
        exclude,
        exclude_two_ranges,
        unite,
        intersect_runs,
        difference,
        difference_far,
        difference_gaps,
        concat_runs,
        unpack,
        unpack_runs,
        make_index,
        from_run_ids,
        include_two_ranges,
    };
    uint64_t seed = 2;

    ids = permutation(5000, 4);
    for (uint32_t i = 0; i < 4000; i++)
        sorted_ids[i] = (i ? sorted_ids[i - 1] : 0) + 1 + scramble(&seed, 3);
    for (uint32_t i = 0; i < 1000; i++)
        run_ids[i] = i / 100 * 7 % 11 * 1000 + i;
    for (uint32_t i = 0; i < 2000; i++)
        far_ids[i] = (uint64_t)scramble(&seed, 1u << 30) * 512 + i % 512;
    world = affine(0, 1, 20000);
    table = from32(ids, 5000);
    order = some_ranks(2000);
    assert_int_equal(rankmap_from_ids(far_ids, sizeof(uint64_t), 2000, NULL, &wide, NULL), 0);
    sparse = from32(sorted_ids, 4000);
    assert_int_equal(
        rankmap_from_text("0-999,2000-4999,1500-1000,9000-9999:3", 37, NULL, &runs, NULL), 0);
    assert_int_equal(make_block(0, 4, 8, 1, 0, 2500, NULL, &block), 0);
    rankmap_unref(block);
    assert_int_equal(make_block(0, 4, 8, 1, 0, 2400, NULL, &block), 0);
    assert_int_equal(
        rankmap_nodes_from_text("(vector,(0,3,2),(3,2,5))", 24, 500, NULL, &nodes, NULL), 0);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct rankmap *const untouched = world;
        long point = 0;
        int rc;

        do {
            struct rankmap *map = untouched;

            counter.left = point;
            rc = calls[i](&map);
            if (rc == -ENOMEM)
                assert_ptr_equal(map, untouched);
            else
                assert_int_equal(rc, 0);
            if (rc == 0 && counter.left < 0)
                fail_msg("call %zu succeeds although allocation %ld failed", i, point);
            if (rc == 0)
                rankmap_unref(map);
            if (counter.n_live != 0 || counter.n_bytes != 0)
                fail_msg("call %zu, allocation %ld: %ld live, %zu bytes", i, point, counter.n_live,
                         counter.n_bytes);
            point++;
        } while (rc == -ENOMEM && point < 1000);
        if (point < 2)
            fail_msg("call %zu allocates nothing", i);
    }
    rankmap_unref(order);
    rankmap_unref(wide);
    rankmap_unref(nodes);
    rankmap_unref(block);
    rankmap_unref(runs);
    rankmap_unref(sparse);
    rankmap_unref(table);
    rankmap_unref(world);
    free(ids);
}

static int use_av(void)
{
    struct rankmap_av_opts av_opts = {.size = sizeof(av_opts),
                                      .allocator = &allocator,
                                      .entry_bytes = 8,
                                      .capacity = 10000,
                                      .tag_mask = 1};
    struct rankmap_info_av info = {.size = sizeof(info)};
    struct rankmap_av_group group;
    struct rankmap_av *av;
    int rc = rankmap_av_create(&av_opts, &av);

    if (rc < 0)
        return rc;
    for (int i = 0; i < 6 && rc == 0; i++)
        rc = rankmap_av_group_add(av, 50, &group);
    for (uint64_t id = 0; id < 40 && rc == 0; id++)
        rc = rankmap_av_set(av, id, 2 * id + 1, 0);
    if (rc == 0)
        rc = rankmap_av_group_retire(av, 0);
    if (rc == 0)
        rc = rankmap_av_group_grow(av, 5, 60);
    assert_int_equal(rankmap_av_query(av, &info), 0);
    assert_int_equal(info.bytes, counter.n_bytes + info.n_procs * 8);
    rankmap_av_destroy(av);
    return rc;
}

static void address_vector(void **state)
{
    int rc;

    for (long point = 0; point < 1000; point++) {
        counter.left = point;
        rc = use_av();
        assert_int_equal(counter.n_live, 0);
        assert_int_equal(counter.n_bytes, 0);
        if (rc == 0) {
            assert_true(point > 5);
            return;
        }
        assert_int_equal(rc, -ENOMEM);
    }
    fail();
}

/* The search for equal ids takes a bit for each id of the range. From 64 ids a rank and 65,536 ids
 * on, it takes 16 bytes a rank. */
static void scratch_of_the_search(void **state)
{
    static const struct {
        uint32_t n, range;
        size_t peak;
    } cases[] = {{10, 65535, 8192}, {10, 65536, 160}, {2048, 131071, 16384}, {2048, 131072, 32768}};
    uint64_t seed = 4;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct heap heap = {0};
        const struct rankmap_allocator alloc = {heap_realloc, heap_free, &heap};
        const struct rankmap_opts by_heap = {.size = sizeof(by_heap), .allocator = &alloc};
        uint32_t some[2048] = {cases[i].range, 0}, each = cases[i].range / cases[i].n;
        struct rankmap *map;

        for (uint32_t r = 2; r < cases[i].n; r++)
            some[r] = r * each + scramble(&seed, each);
        assert_int_equal(rankmap_from_ids32(some, cases[i].n, &by_heap, &map, NULL), 0);
        assert_int_equal(heap.peak, cases[i].peak);
        rankmap_unref(map);
        assert_int_equal(heap.n_live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(maps), cmocka_unit_test(address_vector),
                                       cmocka_unit_test(scratch_of_the_search)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
