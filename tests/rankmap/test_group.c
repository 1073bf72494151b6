/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: cases in which peers are wrong, composition by rule, views and the tables that they may
 * pin, generations, translation. */
#include "rankmap_tools.h"

static void peers_get_these_wrong(void **state)
{
    struct rankmap *a = MAP_OF(1, 2), *b = MAP_OF(2, 1), *c = MAP_OF(1, 2, 3), *d = MAP_OF(1, 3),
                   *map = NULL;

    assert_int_equal(rankmap_intersection(a, b, NULL, &map), 0);
    HAS_IDS(map, 1, 2);
    rankmap_unref(map);
    assert_int_equal(rankmap_intersection(b, a, NULL, &map), 0);
    HAS_IDS(map, 2, 1);
    rankmap_unref(map);
    assert_int_equal(rankmap_difference(c, d, NULL, &map), 0);
    HAS_IDS(map, 2);
    rankmap_unref(map);
    assert_int_equal(rankmap_compare(a, b), RANKMAP_SIMILAR);
    map = NULL;
    assert_int_equal(include_ranks(c, IDS(0, 1, 0), 3, NULL, &map), RANKMAP_EDUP);
    assert_int_equal(exclude_ranks(c, IDS(2, 2), 2, NULL, &map), RANKMAP_EDUP);
    assert_null(map);
    map = MAP_OF(0, 2, 6);
    assert_true(kind_of(map) > RANKMAP_STRIDE);
    HAS_IDS(map, 0, 2, 6);
    rankmap_unref(map);
    rankmap_unref(d);
    rankmap_unref(c);
    rankmap_unref(b);
    rankmap_unref(a);
}

static void node_maps_are_no_groups(void **state)
{
    struct rankmap *nodes, *world = affine(0, 1, 8), *map = NULL;
    struct rankmap_index *index = NULL;
    uint32_t rank;

    assert_int_equal(rankmap_nodes_from_text("(vector,(0,2,4))", 16, 8, NULL, &nodes, NULL), 0);
    assert_int_equal(rankmap_union(nodes, world, NULL, &map), RANKMAP_ENOTINJECTIVE);
    assert_int_equal(rankmap_intersection(world, nodes, NULL, &map), RANKMAP_ENOTINJECTIVE);
    assert_int_equal(rankmap_difference(nodes, world, NULL, &map), RANKMAP_ENOTINJECTIVE);
    assert_int_equal(rankmap_exclude(world, nodes, NULL, &map), RANKMAP_ENOTINJECTIVE);
    assert_int_equal(rankmap_exclude(nodes, world, NULL, &map), RANKMAP_ENOTINJECTIVE);
    assert_int_equal(rankmap_split(nodes, NULL, 0, 0, NULL, &map, NULL), RANKMAP_ENOTINJECTIVE);
    assert_int_equal(rankmap_index_create(nodes, NULL, &index), RANKMAP_ENOTINJECTIVE);
    assert_int_equal(rankmap_translate(world, NULL, 1, nodes, &rank), RANKMAP_ENOTINJECTIVE);
    assert_int_equal(rankmap_compose(world, nodes, NULL, &map), RANKMAP_EDUP);
    assert_null(map);
    assert_int_equal(reverse_ranks(nodes, NULL, &map), 0); /* but it can be composed */
    HAS_IDS(map, 1, 1, 1, 1, 0, 0, 0, 0);
    assert_int_equal(rankmap_compare(map, nodes), RANKMAP_SIMILAR);
    rankmap_unref(map);
    rankmap_unref(world);
    rankmap_unref(nodes);
}

/* A child of equal ids on runs; the same ids as often, and not as often, in another order. */
static void equal_ids(void **state)
{
    struct rankmap_opts dup = {.size = sizeof(dup), .flags = RANKMAP_ALLOW_DUPLICATES};
    const struct rankmap_range ranges[] = {{0, 99, 1}, {200, 299, 1}, {500, 520, 1}};
    struct rankmap *runs, *map = NULL, *other;

    assert_int_equal(rankmap_from_ranges(ranges, 3, NULL, &runs, NULL), 0);
    assert_int_equal(kind_of(runs), RANKMAP_RUNS);
    assert_int_equal(include_ranks(runs, IDS(105, 105), 2, &dup, &map), 0);
    HAS_IDS(map, 205, 205);
    rankmap_unref(map);
    map = NULL;
    assert_int_equal(include_ranks(runs, IDS(105, 105), 2, NULL, &map), RANKMAP_EDUP);
    assert_null(map);
    rankmap_unref(runs);
    assert_int_equal(rankmap_from_ids(IDS(0, 0, 1), 4, 3, &dup, &map, NULL), 0);
    assert_int_equal(rankmap_from_ids(IDS(1, 0, 0), 4, 3, &dup, &other, NULL), 0);
    assert_int_equal(rankmap_compare(map, other), RANKMAP_SIMILAR);
    rankmap_unref(other);
    assert_int_equal(rankmap_from_ids(IDS(1, 1, 0), 4, 3, &dup, &other, NULL), 0);
    assert_int_equal(rankmap_compare(map, other), RANKMAP_UNEQUAL);
    rankmap_unref(other);
    rankmap_unref(map);
}

/* MPI_Comm_split() by rows, columns and a key that reverses; members of other colors are not
 * needed. */
static void splits(void **state)
{
    enum { N = 12 };
    struct rankmap_member all[N], mine[4], twice[2] = {{5, 0, 0}, {5, 0, 1}};
    struct rankmap *world = affine(100, 1, N), *map = NULL;
    struct rankmap_error err;

    for (uint32_t r = 0; r < N; r++)
        all[r] = (struct rankmap_member){r, (int32_t)(r % 3), -(int32_t)r};
    assert_int_equal(rankmap_split(world, all, N, 1, NULL, &map, NULL), 0);
    HAS_IDS(map, 110, 107, 104, 101);
    assert_int_equal(kind_of(map), RANKMAP_STRIDE);
    rankmap_unref(map);
    for (uint32_t i = 0; i < 4; i++)
        mine[i] = (struct rankmap_member){.rank = 11 - i, .color = 2};
    assert_int_equal(rankmap_split(world, mine, 4, 2, NULL, &map, NULL), 0);
    HAS_IDS(map, 108, 109, 110, 111);
    rankmap_unref(map);
    assert_int_equal(rankmap_split(world, all, N, 7, NULL, &map, NULL), 0);
    assert_int_equal(rankmap_size(map), 0);
    rankmap_unref(map);
    map = NULL;
    assert_int_equal(rankmap_split(world, twice, 2, 0, NULL, &map, &err), RANKMAP_EDUP);
    assert_string_equal(err.text, "two members are rank 5");
    all[4].rank = N;
    assert_int_equal(rankmap_split(world, all, N, 1, NULL, &map, &err), RANKMAP_ERANGE);
    assert_string_equal(err.text, "member 4 is rank 12, and the parent has 12 ranks");
    assert_int_equal(rankmap_split(world, NULL, 1, 1, NULL, &map, &err), -EINVAL);
    assert_int_equal(rankmap_split(NULL, all, N, 1, NULL, &map, NULL), -EINVAL);
    assert_int_equal(rankmap_split(world, all, SIZE_MAX / 2 + 1, 1, NULL, &map, NULL), -ENOMEM);
    assert_null(map);
    rankmap_unref(world);
}

/* A node map that is irregular and one rank of each of its nodes: a group again, as a view and as a
 * table. */
static void one_rank_a_node(void **state)
{
    enum { N = 2000 };
    struct rankmap_opts dup = {.size = sizeof(dup), .flags = RANKMAP_ALLOW_DUPLICATES};
    struct rankmap *nodes, *even = affine(0, 2, N / 2), *twice, *view = NULL;
    uint32_t node_of[N];

    for (uint32_t r = 0; r < N; r++)
        node_of[r] = r / 2 * 7919 % 1009;
    assert_int_equal(rankmap_from_ids(node_of, sizeof(uint32_t), N, &dup, &nodes, NULL), 0);
    assert_int_equal(rankmap_compose(nodes, even, NULL, &view), 0);
    assert_int_equal(kind_of(view), RANKMAP_LUT_STRIDE);
    assert_int_equal(query(view).distinct, 1);
    for (uint32_t r = 0; r < N / 2; r++)
        assert_int_equal(rankmap_rank(view, node_of[2 * r]), r);
    rankmap_unref(view);
    twice = affine(0, 1, N - 10);
    assert_int_equal(rankmap_compose(nodes, twice, NULL, &view), 0);
    assert_int_equal(kind_of(view), RANKMAP_LUT_STRIDE);
    assert_int_equal(rankmap_rank(view, node_of[0]), RANKMAP_ENOTINJECTIVE);
    rankmap_unref(view);
    rankmap_unref(twice);
    rankmap_unref(even);
    rankmap_unref(nodes);
}

/* Two strides whose product passes 2^63 meet once. */
static void strides_that_meet_once(void **state)
{
    const int64_t s = INT64_C(1) << 38, t = INT64_C(1) << 33;
    struct rankmap *a = affine(0, s, 3), *b = affine(0, s + 1, 3), *map = NULL;

    assert_int_equal(rankmap_intersection(a, b, NULL, &map), 0);
    HAS_IDS(map, 0);
    rankmap_unref(map);
    assert_int_equal(rankmap_difference(a, b, NULL, &map), 0);
    assert_int_equal(rankmap_size(map), 2);
    assert_int_equal(rankmap_id(map, 1), 2 * s);
    rankmap_unref(map);
    rankmap_unref(b);
    rankmap_unref(a);
    for (int64_t i = 0; i < 20; i++) { /* at a's element i, b's element 7 */
        const int64_t at = 8 * t + i * (t + t / 3);

        a = affine(8 * (uint64_t)t, t + t / 3, 20);
        b = affine((uint64_t)(at - 7 * (t - 9)), t - 9, 20);
        assert_int_equal(rankmap_intersection(a, b, NULL, &map), 0);
        assert_int_equal(rankmap_size(map), 1);
        assert_int_equal(rankmap_id(map, 0), at);
        rankmap_unref(map);
        rankmap_unref(b);
        rankmap_unref(a);
    }
}

/* A view of the low ids of a table that has high ones too. */
static void low_part_of_wide_table(void **state)
{
    enum { N = 1000, LOW = 500 };
    uint64_t ids[N], seed = 11;
    struct rankmap *table, *half = affine(0, 1, LOW), *view, *nodes;
    uint32_t out[LOW], whole[N];

    for (uint32_t r = 0; r < N; r++)
        ids[r] = (r < LOW ? 0 : UINT64_C(1) << 34) + r + (uint64_t)scramble(&seed, 1000) * N;
    assert_int_equal(rankmap_from_ids(ids, sizeof(uint64_t), N, NULL, &table, NULL), 0);
    assert_int_equal(rankmap_compose(table, half, NULL, &view), 0);
    assert_int_equal(kind_of(view), RANKMAP_LUT_STRIDE);
    assert_int_equal(rankmap_ids(view, 0, LOW, sizeof(uint32_t), out), 0);
    for (uint32_t r = 0; r < LOW; r++)
        assert_int_equal(out[r], ids[r]);
    assert_int_equal(rankmap_ids(table, 0, N, sizeof(uint32_t), whole), RANKMAP_ERANGE);
    assert_int_equal(rankmap_ranks_by_node(view, NULL, &nodes), 0);
    for (uint32_t r = 1; r < LOW; r++)
        assert_true(ids[rankmap_id(nodes, r - 1)] < ids[rankmap_id(nodes, r)]);
    rankmap_unref(nodes);
    rankmap_unref(view);
    rankmap_unref(half);
    rankmap_unref(table);
}

/* Three and eight levels whose strides do not nest: the index does not search them, which would
 * take thousands of steps. */
static void index_of_strides_that_do_not_nest(void **state)
{
    static const uint64_t prime[8] = {100003, 100019, 100043, 100049,
                                      100057, 100069, 100103, 100109};
    struct counter counter = {.left = -1};
    const struct rankmap_allocator allocator = {counted_realloc, counted_free, &counter};
    struct rankmap_level levels[8];
    struct rankmap_index *index;
    struct rankmap *map;

    for (uint32_t i = 0; i < 8; i++)
        levels[i] = (struct rankmap_level){(int64_t)(prime[i] * 1000 + 131 * i * i * i * i), 4};
    for (uint32_t n_levels = 3; n_levels <= 8; n_levels += 5) {
        assert_int_equal(make_layout(0, levels, n_levels, 0, 1 << 15, NULL, &map), 0);
        assert_int_equal(kind_of(map), RANKMAP_MD);
        assert_int_equal(rankmap_index_create(map, &allocator, &index), 0);
        assert_true(counter.n_bytes >= 8u << 15);
        for (uint32_t r = 0; r < 1 << 15; r++)
            assert_int_equal(rankmap_index_rank(index, rankmap_id(map, r)), r);
        assert_int_equal(rankmap_index_rank(index, 1), RANKMAP_ENOENT);
        assert_int_equal(rankmap_rank(map, rankmap_id(map, 31000)), 31000);
        rankmap_index_destroy(index);
        rankmap_unref(map);
    }
}

/* parent B(o,b,s,t,φ), child o + s·r: whether it is regular, by the rule on gcd and remainder. */
static void blocks_of_even_splits(void **state)
{
    for (uint64_t b = 2; b <= 12; b++)
        for (uint32_t step = 1; step <= 40; step++) {
            struct rankmap *parent, *child, *made;
            uint64_t g = b, r = step, kappa;
            uint32_t n = 100000 / step;

            while (r) {
                uint64_t rest = g % r;

                g = r;
                r = rest;
            }
            kappa = step % b / g;
            assert_int_equal(make_block(3, b, 29, 2, b / 2, 100000, NULL, &parent), 0);
            child = affine(0, step, n);
            assert_int_equal(rankmap_compose(parent, child, NULL, &made), 0);
            if (kappa <= 1 || kappa == b / g - 1)
                assert_true(kind_of(made) <= RANKMAP_BLOCKSTRIDE);
            for (uint32_t i = 0; i < n; i += 97)
                assert_int_equal(rankmap_id(made, i), rankmap_id(parent, i * step));
            rankmap_unref(made);
            rankmap_unref(child);
            rankmap_unref(parent);
        }
}

/* A brick of a grid, and a brick of the brick; blocks of blocks. */
static void bricks(void **state)
{
    static const struct rankmap_level outer[3] = {{1, 16}, {64, 16}, {4096, 16}},
                                      inner[3] = {{1, 4}, {16, 8}, {256, 2}};
    struct rankmap *parent, *child, *made;
    struct rankmap_info info;

    assert_int_equal(make_layout(0, outer, 3, 0, 4096, NULL, &parent), 0);
    assert_int_equal(query(parent).model_bytes, 56);
    assert_int_equal(make_layout(5 + 16 * 3, inner, 3, 0, 64, NULL, &child), 0);
    assert_int_equal(rankmap_compose(parent, child, NULL, &made), 0);
    info = query(made);
    assert_int_equal(info.kind, RANKMAP_MD);
    assert_int_equal(info.n_levels, 3);
    for (uint32_t r = 0; r < 64; r++)
        assert_int_equal(rankmap_id(made, r), rankmap_id(parent, (uint32_t)rankmap_id(child, r)));
    rankmap_unref(made);
    rankmap_unref(child);
    rankmap_unref(parent);
    assert_int_equal(make_block(0, 8, 64, 1, 0, 1u << 30, NULL, &parent), 0);
    assert_int_equal(make_block(2, 4, 16, 1, 0, 1u << 25, NULL, &child),
                     0); /* inside of every second block */
    assert_int_equal(rankmap_compose(parent, child, NULL, &made), 0);
    assert_int_equal(kind_of(made), RANKMAP_BLOCKSTRIDE);
    assert_int_equal(rankmap_id(made, 4 * 1000 + 3), 2 + 128 * 1000 + 3);
    rankmap_unref(made);
    rankmap_unref(child);
    assert_int_equal(make_block(16, 24, 80, 1, 0, 1u << 25, NULL, &child),
                     0); /* three whole blocks of ten */
    assert_int_equal(rankmap_compose(parent, child, NULL, &made), 0);
    assert_int_equal(kind_of(made), RANKMAP_MD);
    assert_int_equal(rankmap_id(made, 24 * 1000 + 9), rankmap_id(parent, 16 + 80 * 1000 + 9));
    rankmap_unref(made);
    rankmap_unref(child);
    rankmap_unref(parent);
}

/* Children that no digit of the parent carries for, at their limits: the map is the only block that
 * the call allocates. */
static void bricks_allocate_the_map_alone(void **state)
{
    static const struct rankmap_level blocks[2] = {{1, 8}, {64, 0}},
                                      grid[3] = {{1, 16}, {64, 16}, {4096, 0}};
    static const struct {
        const struct rankmap_level *parent;
        uint32_t parent_levels, o;
        struct rankmap_level child[3];
        uint32_t n_levels;
    } cases[] = {
        {grid, 3, 5 + 16 * 3, {{1, 4}, {16, 8}, {256, 0}}, 3}, /* fewer than a digit has */
        {blocks, 2, 3, {{1, 5}, {8, 0}}, 2},                   /* as many as a block has behind 3 */
        {blocks, 2, 16, {{1, 24}, {80, 0}}, 2},                /* three blocks */
        {blocks, 2, 1, {{2, 12}, {40, 0}}, 2}, /* every second of three blocks, the last one too */
    };
    struct counter counter = {.left = -1};
    const struct rankmap_allocator allocator = {counted_realloc, counted_free, &counter};
    const struct rankmap_opts opts = {.size = sizeof(opts), .allocator = &allocator};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rankmap *parent, *child, *made;

        assert_int_equal(
            make_layout(0, cases[i].parent, cases[i].parent_levels, 0, 1u << 16, NULL, &parent), 0);
        assert_int_equal(
            make_layout(cases[i].o, cases[i].child, cases[i].n_levels, 0, 1000, NULL, &child), 0);
        counter.left = 1;
        assert_int_equal(rankmap_compose(parent, child, &opts, &made), 0);
        for (uint32_t r = 0; r < 1000; r++)
            assert_int_equal(rankmap_id(made, r),
                             rankmap_id(parent, (uint32_t)rankmap_id(child, r)));
        rankmap_unref(made);
        rankmap_unref(child);
        rankmap_unref(parent);
    }
}

/* What MPI passes: arrays of int. An error names the entry. */
static void lists_of_ranks(void **state)
{
    struct rankmap *parent = affine(100, 2, 5), *none = affine(0, 1, 0), *large, *map = NULL;
    int ranks[] = {4, 0, 2}, twins[] = {1, 3, 0, 3}, beyond[] = {0, 5}, below[] = {0, 1, -1};
    int far_below[] = {0, 1, -100};
    struct rankmap_opts dup = {.size = sizeof(dup), .flags = RANKMAP_ALLOW_DUPLICATES};
    struct rankmap_error err;

    assert_int_equal(rankmap_include_ranks(parent, ranks, 3, NULL, &map, &err), 0);
    HAS_IDS(map, 108, 100, 104);
    rankmap_unref(map);
    assert_int_equal(rankmap_exclude_ranks(parent, ranks, 3, NULL, &map, &err), 0);
    HAS_IDS(map, 102, 106);
    rankmap_unref(map);
    map = NULL;
    for (int exclude = 0; exclude < 2; exclude++) {
        int (*list)(struct rankmap *, const int *, size_t, const struct rankmap_opts *,
                    struct rankmap **, struct rankmap_error *) =
            exclude ? rankmap_exclude_ranks : rankmap_include_ranks;

        assert_int_equal(list(parent, twins, 4, NULL, &map, &err), RANKMAP_EDUP);
        assert_string_equal(err.text, "entries 1 and 3 both have rank 3");
        assert_int_equal(err.where, 3);
        assert_int_equal(list(parent, beyond, 2, NULL, &map, &err), RANKMAP_ERANGE);
        assert_string_equal(err.text, "entry 1 is rank 5, and the parent has 5 ranks");
        assert_int_equal(list(parent, below, 3, NULL, &map, &err), RANKMAP_ERANGE);
        assert_string_equal(err.text, "entry 2 is rank -1, and the parent has 5 ranks");
        assert_int_equal(list(none, beyond, 1, NULL, &map, &err), RANKMAP_ERANGE);
        assert_string_equal(err.text, "entry 0 is rank 0, and the parent has 0 ranks");
        assert_int_equal(list(parent, NULL, 1, NULL, &map, &err), -EINVAL);
        assert_int_equal(list(NULL, ranks, 1, NULL, &map, NULL), -EINVAL);
        assert_null(map);
        assert_int_equal(list(parent, NULL, 0, NULL, &map, NULL), 0);
        assert_int_equal(rankmap_size(map), exclude ? 5 : 0);
        rankmap_unref(map);
        map = NULL;
        /* a negative int is no rank of a parent with more than 2^31 ranks either */
        large = affine(0, 1, UINT32_C(0xfffffff0));
        assert_int_equal(list(large, far_below, 3, NULL, &map, &err), RANKMAP_ERANGE);
        assert_string_equal(err.text, "entry 2 is rank -100, and the parent has 4294967280 ranks");
        rankmap_unref(large);
    }
    assert_int_equal(rankmap_include_ranks(parent, twins, 4, &dup, &map, NULL), 0);
    HAS_IDS(map, 102, 106, 100, 106);
    rankmap_unref(map);
    map = NULL;
    assert_int_equal(rankmap_exclude_ranks(parent, twins, 4, &dup, &map, NULL),
                     RANKMAP_ENOTINJECTIVE);
    assert_null(map);
    rankmap_unref(none);
    rankmap_unref(parent);
}

/* MPI's triplets. An error names the range. */
static void ranges_of_ranks(void **state)
{
    struct rankmap *parent = affine(100, 2, 8), *none = affine(0, 1, 0), *map = NULL;
    /* the last of the second is none of its ranks, nor of the parent's */
    static const int ranges[] = {5, 7, 2, 6, -1, -2};
    static const struct {
        int range[3];
        const char *text;
    } bad[] = {
        {{0, 8, 1}, "range 1, from rank 0 to 8 by 1, leaves the parent's 8 ranks"},
        {{8, 2, -2}, "range 1, from rank 8 to 2 by -2, leaves the parent's 8 ranks"},
        {{-1, 2, 1}, "range 1, from rank -1 to 2 by 1, leaves the parent's 8 ranks"},
        {{1, -1, -1}, "range 1, from rank 1 to -1 by -1, leaves the parent's 8 ranks"},
        {{1, 2, 0}, "range 1, from rank 1 to 2 by 0, does not reach its end"},
        {{2, 1, 3}, "range 1, from rank 2 to 1 by 3, does not reach its end"},
        {{1, 2, -3}, "range 1, from rank 1 to 2 by -3, does not reach its end"},
    };
    static const int twins[] = {0, 6, 3, 5, 7, 1};
    struct rankmap_opts dup = {.size = sizeof(dup), .flags = RANKMAP_ALLOW_DUPLICATES};
    struct rankmap_error err;

    assert_int_equal(rankmap_include_ranges(parent, ranges, 2, NULL, &map, &err), 0);
    HAS_IDS(map, 110, 114, 112, 108, 104, 100);
    rankmap_unref(map);
    assert_int_equal(rankmap_exclude_ranges(parent, ranges, 2, NULL, &map, &err), 0);
    HAS_IDS(map, 102, 106);
    rankmap_unref(map);
    map = NULL;
    for (int exclude = 0; exclude < 2; exclude++) {
        int (*call)(struct rankmap *, const int *, size_t, const struct rankmap_opts *,
                    struct rankmap **, struct rankmap_error *) =
            exclude ? rankmap_exclude_ranges : rankmap_include_ranges;

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            const int two[] = {3, 3, 1, bad[i].range[0], bad[i].range[1], bad[i].range[2]};

            assert_int_equal(call(parent, two, 2, NULL, &map, &err), RANKMAP_ERANGE);
            assert_string_equal(err.text, bad[i].text);
            assert_int_equal(err.where, 1);
        }
        assert_int_equal(call(parent, twins, 2, NULL, &map, &err), RANKMAP_EDUP);
        assert_string_equal(err.text, "ranges 0 and 1 both have rank 6");
        assert_int_equal(call(none, ranges, 1, NULL, &map, &err), RANKMAP_ERANGE);
        assert_int_equal(call(parent, NULL, 1, NULL, &map, &err), -EINVAL);
        assert_int_equal(call(NULL, ranges, 1, NULL, &map, NULL), -EINVAL);
        assert_null(map);
        assert_int_equal(call(parent, NULL, 0, NULL, &map, NULL), 0);
        assert_int_equal(rankmap_size(map), exclude ? 8 : 0);
        rankmap_unref(map);
        map = NULL;
    }
    assert_int_equal(rankmap_include_ranges(parent, twins, 2, &dup, &map, NULL), 0);
    HAS_IDS(map, 100, 106, 112, 110, 112, 114);
    rankmap_unref(map);
    map = NULL;
    assert_int_equal(rankmap_exclude_ranges(parent, twins, 2, &dup, &map, NULL),
                     RANKMAP_ENOTINJECTIVE);
    assert_null(map);
    rankmap_unref(none);
    rankmap_unref(parent);
}

/* A union that adds nothing is one of its arguments: a list of many can begin with the empty map.
 * An option that the argument does not meet is not forgotten. */
static void union_of_one(void **state)
{
    uint32_t *ids = permutation(200, 5);
    struct rankmap *none = affine(0, 1, 0), *table = from32(ids, 200), *some = affine(10, 1, 20),
                   *map = NULL;
    struct rankmap_opts small = {.size = sizeof(small), .id_limit = 100};

    assert_int_equal(rankmap_union(none, table, NULL, &map), 0);
    assert_ptr_equal(map, table);
    rankmap_unref(map);
    assert_int_equal(rankmap_union(table, none, NULL, &map), 0);
    assert_ptr_equal(map, table);
    rankmap_unref(map);
    assert_int_equal(rankmap_union(table, some, NULL, &map), 0);
    assert_ptr_equal(map, table);
    rankmap_unref(map);
    assert_int_equal(rankmap_union(none, none, NULL, &map), 0);
    assert_int_equal(rankmap_size(map), 0);
    rankmap_unref(map);
    map = NULL;
    assert_int_equal(rankmap_union(none, table, &small, &map), RANKMAP_ERANGE);
    assert_int_equal(rankmap_union(table, none, &small, &map), RANKMAP_ERANGE);
    assert_null(map);
    rankmap_unref(some);
    rankmap_unref(table);
    rankmap_unref(none);
    free(ids);
}

/* What a translation did not find stays so in the next, into the same array and from an empty map
 * too. */
static void translations_in_a_row(void **state)
{
    enum { N = 1000 };
    uint32_t *ids = permutation(N, 5), ranks[N];
    struct rankmap *table = from32(ids, N), *even = affine(0, 2, N / 2), *none = affine(0, 1, 0),
                   *world = affine(0, 1, N);

    assert_int_equal(rankmap_translate(world, NULL, N, even, ranks), 0);
    assert_int_equal(ranks[7], RANKMAP_NO_RANK);
    assert_int_equal(rankmap_translate(even, ranks, N, table, ranks), 0);
    for (uint32_t r = 0; r < N; r++)
        assert_int_equal(ranks[r], r % 2 ? RANKMAP_NO_RANK : rankmap_rank(table, r));
    ranks[0] = ranks[1] = RANKMAP_NO_RANK;
    assert_int_equal(rankmap_translate(none, ranks, 2, table, ranks), 0);
    assert_int_equal(ranks[0], RANKMAP_NO_RANK);
    ranks[1] = 0;
    assert_int_equal(rankmap_translate(none, ranks, 2, table, ranks), RANKMAP_ERANGE);
    assert_int_equal(rankmap_translate(none, NULL, 0, table, NULL), 0);
    rankmap_unref(world);
    rankmap_unref(none);
    rankmap_unref(even);
    rankmap_unref(table);
    free(ids);
}

/* The typed forms are the general one. */
static void typed_arrays(void **state)
{
    const uint32_t narrow[] = {7, 3, 3};
    const uint64_t wide[] = {UINT64_C(1) << 33, 3, 3};
    struct rankmap *map = NULL;
    struct rankmap_error err;

    assert_int_equal(rankmap_from_ids32(narrow, 2, NULL, &map, &err), 0);
    HAS_IDS(map, 7, 3);
    rankmap_unref(map);
    assert_int_equal(rankmap_from_ids64(wide, 2, NULL, &map, &err), 0);
    assert_true(rankmap_id(map, 0) == wide[0] && rankmap_id(map, 1) == 3);
    rankmap_unref(map);
    map = NULL;
    assert_int_equal(rankmap_from_ids32(narrow, 3, NULL, &map, &err), RANKMAP_EDUP);
    assert_int_equal(rankmap_from_ids64(wide, 3, NULL, &map, &err), RANKMAP_EDUP);
    assert_string_equal(err.text, "ranks 1 and 2 both have id 3");
    assert_null(map);
}

static void children_out_of_range(void **state)
{
    uint32_t *ids = permutation(200, 5);
    struct rankmap *parent = affine(10, 2, 5), *table = from32(ids, 200), *child, *half, *view,
                   *map = NULL;

    child = affine(0, 1, 6);
    assert_int_equal(rankmap_compose(parent, child, NULL, &map), RANKMAP_ERANGE);
    assert_int_equal(include_ranks(parent, IDS(0, 5), 2, NULL, &map), RANKMAP_ERANGE);
    assert_int_equal(exclude_ranks(parent, IDS(0, 5), 2, NULL, &map), RANKMAP_ERANGE);
    assert_int_equal(exclude_ranks(parent, IDS(0, 1, 2, 3, 4, 5, 6, 7), 8, NULL, &map),
                     RANKMAP_ERANGE);
    assert_int_equal(include_ranges(parent, &(struct rankmap_range){0, 5, 1}, 1, NULL, &map),
                     RANKMAP_ERANGE);
    assert_int_equal(include_ranges(parent, &(struct rankmap_range){0, 4, 0}, 1, NULL, &map),
                     RANKMAP_ERANGE);
    assert_int_equal(include_ranges(parent, &(struct rankmap_range){4, 0, 1}, 1, NULL, &map),
                     RANKMAP_ERANGE);
    rankmap_unref(child);
    /* a view as the child: its own ids count, not those of its table */
    half = affine(0, 2, 100);
    assert_int_equal(rankmap_compose(table, half, NULL, &view), 0);
    assert_int_equal(kind_of(view), RANKMAP_LUT_STRIDE);
    child = affine(1000, 1, 199);
    assert_int_equal(rankmap_compose(child, view, NULL, &map),
                     rankmap_rank(view, 199) >= 0 ? RANKMAP_ERANGE : 0);
    rankmap_unref(map);
    rankmap_unref(child);
    rankmap_unref(view);
    rankmap_unref(half);
    rankmap_unref(table);
    rankmap_unref(parent);
    free(ids);
}

static void views(void **state)
{
    enum { N = 100000 };
    struct rankmap_opts own = {.size = sizeof(own), .flags = RANKMAP_NO_VIEW},
                        low = {.size = sizeof(low), .id_limit = N / 2};
    uint32_t *ids = permutation(N, 11);
    struct rankmap *table = from32(ids, N), *child, *view = NULL, *deeper;
    struct rankmap_info info;

    child = affine(1, 2, N / 2);
    assert_int_equal(rankmap_compose(table, child, &low, &view), RANKMAP_ERANGE);
    assert_null(view);
    assert_int_equal(rankmap_compose(table, child, NULL, &view), 0);
    info = query(view);
    assert_int_equal(info.kind, RANKMAP_LUT_STRIDE);
    assert_int_equal(info.pinned_bytes, bytes_of(table));
    assert_int_equal(info.total_bytes, OBJECT_BYTES + 24);
    rankmap_unref(child);
    rankmap_unref(table); /* the view keeps it */
    for (uint32_t r = 0; r < N / 2; r++)
        assert_int_equal(rankmap_id(view, r), ids[2 * r + 1]);
    /* a view of the view is a view of the table */
    assert_int_equal(make_block(0, 4, 8, 1, 0, N / 4, NULL, &child), 0);
    assert_int_equal(rankmap_compose(view, child, NULL, &deeper), 0);
    assert_int_equal(kind_of(deeper), RANKMAP_LUT_BLOCKSTRIDE);
    rankmap_unref(view);
    for (uint32_t r = 0; r < N / 4; r++)
        assert_int_equal(rankmap_id(deeper, r), ids[2 * rankmap_id(child, r) + 1]);
    rankmap_unref(child);
    /* just above an eighth pins, just below has its own table */
    child = affine(0, 1, N / 8 - 30);
    assert_int_equal(rankmap_compose(deeper, child, NULL, &view), 0);
    assert_int_equal(query(view).pinned_bytes, 0);
    for (uint32_t r = 0; r < N / 8 - 30; r++)
        assert_int_equal(rankmap_id(view, r), rankmap_id(deeper, r));
    rankmap_unref(view);
    rankmap_unref(child);
    child = affine(0, 1, N / 8 + 16);
    assert_int_equal(rankmap_compose(deeper, child, NULL, &view), 0);
    assert_true(query(view).pinned_bytes > 0);
    assert_int_equal(rankmap_union(view, view, NULL, &table), 0);
    assert_ptr_equal(table, view);
    rankmap_unref(table);
    assert_int_equal(rankmap_union(view, view, &own, &table), 0);
    assert_int_equal(query(table).pinned_bytes, 0);
    rankmap_unref(table);
    rankmap_unref(view);
    assert_int_equal(rankmap_compose(deeper, child, &own, &view), 0);
    assert_int_equal(query(view).pinned_bytes, 0);
    rankmap_unref(view);
    rankmap_unref(child);
    rankmap_unref(deeper);
    free(ids);
}

/* The paper's Table VI: odd/even splits of odd/even splits. Each is as small and as quick as the
 * first. */
static void generations(void **state)
{
    uint32_t n = 1u << 20, *ids = permutation(1u << 14, 2);
    struct rankmap *map = affine(0, 1, n), *half, *next;
    struct rankmap_lookup l;

    for (uint32_t generation = 1; generation <= 10; generation++) {
        n /= 2;
        half = affine(generation % 2, 2, n);
        assert_int_equal(rankmap_compose(map, half, NULL, &next), 0);
        assert_int_equal(bytes_of(next), OBJECT_BYTES + 16);
        assert_int_equal(rankmap_lookup_init(&l, next, 0, 8), 0);
        assert_int_equal(l.form, RANKMAP_FORM_AFFINE);
        for (uint32_t r = 0; r < n; r += 101)
            assert_int_equal(rankmap_id(next, r), rankmap_id(map, 2 * r + generation % 2));
        rankmap_unref(half);
        rankmap_unref(map);
        map = next;
    }
    rankmap_unref(map);
    map = from32(ids, 1u << 14);
    n = 1u << 14;
    for (uint32_t generation = 1; generation <= 10; generation++) { /* of a table: never a chain */
        n /= 2;
        half = affine(1, 2, n);
        assert_int_equal(rankmap_compose(map, half, NULL, &next), 0);
        for (uint32_t r = 0; r < n; r++)
            assert_int_equal(rankmap_id(next, r), rankmap_id(map, 2 * r + 1));
        rankmap_unref(half);
        rankmap_unref(map);
        map = next;
    }
    rankmap_unref(map);
    free(ids);
}

static void compressed_sets(void **state)
{
    struct rankmap *world = affine(0, 1, 786432), *even = affine(0, 2, 393216),
                   *third = affine(0, 3, 262144), *map;

    assert_int_equal(rankmap_difference(world, even, NULL, &map), 0);
    assert_int_equal(kind_of(map), RANKMAP_STRIDE);
    assert_int_equal(rankmap_id(map, 100), 201);
    rankmap_unref(map);
    assert_int_equal(rankmap_difference(world, third, NULL, &map), 0);
    assert_int_equal(kind_of(map), RANKMAP_BLOCKSTRIDE);
    assert_int_equal(rankmap_id(map, 101), 152);
    rankmap_unref(map);
    assert_int_equal(rankmap_intersection(even, third, NULL, &map), 0);
    assert_int_equal(kind_of(map), RANKMAP_STRIDE);
    assert_int_equal(rankmap_id(map, 100), 600);
    rankmap_unref(map);
    assert_int_equal(rankmap_union(even, world, NULL, &map), 0);
    assert_int_equal(rankmap_size(map), 786432);
    assert_int_equal(rankmap_id(map, 393216), 1);
    assert_true(bytes_of(map) < 100);
    rankmap_unref(map);
    assert_int_equal(exclude_ranks(world, IDS(786431, 5, 100000), 3, NULL, &map), 0);
    assert_int_equal(kind_of(map), RANKMAP_RUNS);
    assert_int_equal(bytes_of(map), OBJECT_BYTES + 8 + 3 * 8);
    rankmap_unref(map);
    rankmap_unref(third);
    rankmap_unref(even);
    rankmap_unref(world);
}

/* A set whose formula has a stride too long to be stored is stored in pieces. */
static void sets_of_far_members(void **state)
{
    const uint32_t top = UINT32_MAX - 1, far = top - 20;
    struct rankmap *world = affine(0, 1, UINT32_MAX), *two = affine(5, far - 5, 2), *map, *all;

    assert_int_equal(rankmap_difference(world, two, NULL, &map), 0);
    assert_int_equal(rankmap_size(map), UINT32_MAX - 2);
    assert_int_equal(rankmap_id(map, 4), 4);
    assert_int_equal(rankmap_id(map, 5), 6);
    assert_int_equal(rankmap_id(map, far - 2), far - 1);
    assert_int_equal(rankmap_id(map, far - 1), far + 1);
    assert_int_equal(rankmap_id(map, UINT32_MAX - 3), top);
    assert_int_equal(rankmap_union(map, two, NULL, &all), 0);
    assert_int_equal(rankmap_size(all), UINT32_MAX);
    assert_int_equal(rankmap_id(all, top), far);
    rankmap_unref(all);
    rankmap_unref(map);
    rankmap_unref(two);
    rankmap_unref(world);
}

static void indexes(void **state)
{
    uint32_t *ids = permutation(5000, 1), out[5000];
    uint64_t wide[1000], seed = 3;
    struct rankmap *table = from32(ids, 5000), *world = affine(0, 1, 5000), *sparse;
    struct counter counter = {.left = -1};
    const struct rankmap_allocator allocator = {counted_realloc, counted_free, &counter};
    struct rankmap_index *index;

    assert_int_equal(rankmap_index_create(world, &allocator, &index), 0);
    assert_true(counter.n_bytes < 150); /* nothing is stored */
    rankmap_index_destroy(index);
    for (uint32_t n = 8; n <= 9; n++) { /* irregular maps of up to 8 ranks are quick */
        sparse = from32(IDS(5, 90, 17, 3, 70, 44, 1000, 8, 61), n);
        assert_int_equal(kind_of(sparse), RANKMAP_PACKED);
        assert_int_equal(rankmap_index_create(sparse, &allocator, &index), 0);
        assert_true(n == 8 ? counter.n_live == 1 : counter.n_live > 1);
        assert_int_equal(rankmap_index_rank(index, 8), 7);
        assert_int_equal(rankmap_index_rank(index, 61), n == 8 ? RANKMAP_ENOENT : 8);
        rankmap_index_destroy(index);
        rankmap_unref(sparse);
    }
    assert_int_equal(rankmap_index_create(table, NULL, &index), 0);
    rankmap_unref(table); /* the index keeps it */
    for (uint32_t r = 0; r < 5000; r++)
        assert_int_equal(rankmap_index_rank(index, ids[r]), r);
    assert_int_equal(rankmap_index_rank(index, 5000), RANKMAP_ENOENT);
    rankmap_index_destroy(index);
    for (uint32_t r = 0; r < 1000; r++)
        wide[r] = (uint64_t)r << 28 | scramble(&seed, 1u << 28);
    assert_int_equal(rankmap_from_ids(wide, sizeof(uint64_t), 1000,
                                      &(struct rankmap_opts){.size = sizeof(struct rankmap_opts)},
                                      &sparse, NULL),
                     0);
    assert_int_equal(rankmap_index_create(sparse, NULL, &index), 0);
    for (uint32_t r = 0; r < 1000; r++)
        assert_int_equal(rankmap_index_rank(index, wide[r]), r);
    assert_int_equal(rankmap_index_rank(index, wide[5] + 1), RANKMAP_ENOENT);
    rankmap_index_destroy(index);
    rankmap_index_destroy(NULL);
    assert_int_equal(rankmap_translate(sparse, NULL, 1000, world, out), 0);
    for (uint32_t r = 0; r < 1000; r++)
        assert_int_equal(out[r], wide[r] < 5000 ? wide[r] : RANKMAP_NO_RANK);
    /* into the array of the ranks */
    for (uint32_t r = 0; r < 1000; r++)
        out[r] = 999 - r;
    assert_int_equal(rankmap_translate(sparse, out, 1000, world, out), 0);
    for (uint32_t r = 0; r < 1000; r++)
        assert_int_equal(out[r], wide[999 - r] < 5000 ? wide[999 - r] : RANKMAP_NO_RANK);
    rankmap_unref(sparse);
    rankmap_unref(world);
    free(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_get_these_wrong),
        cmocka_unit_test(node_maps_are_no_groups),
        cmocka_unit_test(equal_ids),
        cmocka_unit_test(splits),
        cmocka_unit_test(blocks_of_even_splits),
        cmocka_unit_test(bricks),
        cmocka_unit_test(bricks_allocate_the_map_alone),
        cmocka_unit_test(lists_of_ranks),
        cmocka_unit_test(ranges_of_ranks),
        cmocka_unit_test(union_of_one),
        cmocka_unit_test(translations_in_a_row),
        cmocka_unit_test(typed_arrays),
        cmocka_unit_test(children_out_of_range),
        cmocka_unit_test(views),
        cmocka_unit_test(generations),
        cmocka_unit_test(compressed_sets),
        cmocka_unit_test(sets_of_far_members),
        cmocka_unit_test(indexes),
        cmocka_unit_test(one_rank_a_node),
        cmocka_unit_test(strides_that_meet_once),
        cmocka_unit_test(low_part_of_wide_table),
        cmocka_unit_test(index_of_strides_that_do_not_nest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
