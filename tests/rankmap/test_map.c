/* SPDX-License-Identifier: BSD-3-Clause */
/* Models one by one, at, below and above their limits, edges, and rankmap_query(). */
#include <limits.h>

#include "rankmap_tools.h"

static void kinds(void **state)
{
    static const struct {
        uint32_t ids[12], n, kind;
    } cases[] = {
        {{0, 1, 2, 3}, 4, RANKMAP_DIRECT},
        {{5, 6, 7}, 3, RANKMAP_OFFSET},
        {{5, 7, 9, 11}, 4, RANKMAP_STRIDE},
        {{9, 6, 3, 0}, 4, RANKMAP_STRIDE},
        {{3, 2, 1, 0}, 4, RANKMAP_STRIDE},
        {{0, 1, 4, 5, 8, 9}, 6, RANKMAP_BLOCKSTRIDE},
        {{0, 1, 4, 5, 8}, 5, RANKMAP_BLOCKSTRIDE},     /* last block cut */
        {{1, 4, 5, 8, 9, 12}, 6, RANKMAP_BLOCKSTRIDE}, /* first block cut */
        {{0, 4, 8, 1, 5, 9, 2, 6, 10}, 9, RANKMAP_BLOCKSTRIDE},
        {{9, 8, 5, 4, 1, 0}, 6, RANKMAP_BLOCKSTRIDE},
        {{0, 2, 6}, 3, RANKMAP_RUNS}, /* no stride */
        {{7}, 1, RANKMAP_OFFSET},
        {{0}, 1, RANKMAP_DIRECT},
        {{0}, 0, RANKMAP_DIRECT},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rankmap *map = from32(cases[i].ids, cases[i].n);

        assert_int_equal(kind_of(map), cases[i].kind);
        if (cases[i].kind <= RANKMAP_STRIDE)
            assert_int_equal(query(map).levels[0].count, 0); /* unbounded */
        assert_ids(map, cases[i].ids, cases[i].n);
        rankmap_unref(map);
    }
}

static void formulas(void **state)
{
    struct rankmap *map;

    assert_int_equal(make_block(100, 3, 10, 2, 1, 8, NULL, &map), 0);
    HAS_IDS(map, 102, 104, 110, 112, 114, 120, 122, 124);
    rankmap_unref(map);
    assert_int_equal(make_block(30, 2, -10, -1, 0, 5, NULL, &map), 0);
    HAS_IDS(map, 30, 29, 20, 19, 10);
    rankmap_unref(map);
    /* a 2·3·2 brick of a 4·5·6 grid, from (1,1,1) on */
    assert_int_equal(make_layout(25, (const struct rankmap_level[]){{1, 2}, {4, 3}, {20, 2}}, 3, 0,
                                 12, NULL, &map),
                     0);
    HAS_IDS(map, 25, 26, 29, 30, 33, 34, 45, 46, 49, 50, 53, 54);
    rankmap_unref(map);
}

static void bad_parameters(void **state)
{
    static const struct rankmap_level nine[9] = {{1, 2},  {3, 2},   {7, 2},   {17, 2},  {40, 2},
                                                 {90, 2}, {200, 2}, {500, 2}, {1200, 2}};
    struct rankmap_opts opts = {.size = sizeof(opts), .id_limit = 100};
    struct rankmap *map = NULL;

    assert_int_equal(rankmap_affine(0, 0, 2, NULL, &map), RANKMAP_EDUP);
    assert_int_equal(rankmap_affine(5, -1, 7, NULL, &map), RANKMAP_ERANGE);
    assert_int_equal(rankmap_affine(0, INT64_MAX, 3, NULL, &map), RANKMAP_ERANGE);
    assert_int_equal(rankmap_affine(0, INT64_MIN, 3, NULL, &map), RANKMAP_ERANGE);
    assert_int_equal(rankmap_affine(UINT64_MAX, 1, 1, NULL, &map), RANKMAP_ERANGE);
    assert_int_equal(rankmap_affine(0, 1, 101, &opts, &map), RANKMAP_ERANGE);
    assert_int_equal(rankmap_affine(0, 1, 4, NULL, NULL), -EINVAL);
    assert_int_equal(make_block(0, 0, 1, 1, 0, 4, NULL, &map), RANKMAP_EFORMAT);
    assert_int_equal(make_block(0, 4, 8, 1, 4, 4, NULL, &map), RANKMAP_ERANGE);
    assert_int_equal(make_block(0, 4, 2, 1, 0, 8, NULL, &map), RANKMAP_EDUP);
    assert_int_equal(make_block(INT64_MAX, 4, 8, 1, 0, 8, NULL, &map), RANKMAP_ERANGE);
    assert_int_equal(make_block(INT64_MIN, 4, 8, 1, 0, 8, NULL, &map), RANKMAP_ERANGE);
    assert_int_equal(make_block(0, UINT64_MAX, INT64_MAX, INT64_MIN, UINT64_MAX - 1, 8, NULL, &map),
                     RANKMAP_ERANGE);
    assert_int_equal(make_layout(0, nine, 9, 0, 512, NULL, &map), RANKMAP_ELEVELS);
    assert_int_equal(make_layout(0, nine, 0, 0, 512, NULL, &map), RANKMAP_EFORMAT);
    opts.flags = 1u << 30;
    assert_int_equal(rankmap_affine(0, 1, 4, &opts, &map), -EINVAL);
    opts.flags = 0;
    opts.id_limit = RANKMAP_ID_LIMIT + 1;
    assert_int_equal(rankmap_affine(0, 1, 4, &opts, &map), RANKMAP_ERANGE);
    opts.id_limit = 0;
    opts.size = 8;
    assert_int_equal(rankmap_affine(0, 1, 4, &opts, &map), -EINVAL);
    assert_null(map);
    assert_int_equal(make_layout(0, nine, 8, 0, 256, NULL, &map), 0); /* eight are allowed */
    assert_int_equal(rankmap_id(map, 255), 1 + 3 + 7 + 17 + 40 + 90 + 200 + 500);
    rankmap_unref(map);
}

static void largest(void **state)
{
    struct rankmap *map, *other, *made;
    struct rankmap_lookup l;
    uint32_t n = RANKMAP_MAX_RANKS, last = n - 1;

    map = affine(RANKMAP_ID_LIMIT - n, 1, n);
    assert_int_equal(rankmap_id(map, last), RANKMAP_ID_LIMIT - 1);
    assert_int_equal(rankmap_id(map, n), RANKMAP_NO_ID);
    assert_int_equal(rankmap_rank(map, RANKMAP_ID_LIMIT - 1), last);
    rankmap_unref(map);
    assert_int_equal(rankmap_affine(RANKMAP_ID_LIMIT - n + 1, 1, n, NULL, &map), RANKMAP_ERANGE);
    map = affine(RANKMAP_ID_LIMIT - 1, -256, n);
    assert_int_equal(rankmap_id(map, last), RANKMAP_ID_LIMIT - 1 - 256 * (uint64_t)last);
    assert_int_equal(rankmap_lookup_init(&l, map, 1000, RANKMAP_MAX_WIDTH), 0);
    assert_int_equal(rankmap_at(&l, last), 1000 + RANKMAP_MAX_WIDTH * rankmap_id(map, last));
    assert_int_equal(reverse_ranks(map, NULL, &other), 0);
    assert_int_equal(rankmap_id(other, 0), rankmap_id(map, last));
    assert_int_equal(rankmap_compare(map, other), RANKMAP_SIMILAR);
    rankmap_unref(other);
    rankmap_unref(map);
    /* blocks, whole and cut, over all ranks */
    for (uint64_t b = 2; b < n; b = b * 7 + 1) {
        assert_int_equal(make_block(5, b, (int64_t)(2 * b + 1), 1, 0, n / 2, NULL, &map), 0);
        assert_int_equal(rankmap_id(map, n / 2 - 1),
                         5 + (n / 2 - 1) / b * (2 * b + 1) + (n / 2 - 1) % b);
        assert_int_equal(rankmap_lookup_init(&l, map, 0, 1), 0);
        for (uint64_t q = 1; q <= 3 && q * b < n / 2; q++) {
            uint32_t r = (uint32_t)((n / 2 - 1) / b / q * b);

            assert_int_equal(rankmap_at(&l, r), 5 + r / b * (2 * b + 1));
            assert_int_equal(rankmap_at(&l, r - (r > 0)),
                             5 + (r - (r > 0)) / b * (2 * b + 1) + (r - (r > 0)) % b);
        }
        assert_int_equal(reverse_ranks(map, NULL, &other), 0);
        assert_true(kind_of(other) <= RANKMAP_MD);
        assert_int_equal(rankmap_id(other, 0), rankmap_id(map, n / 2 - 1));
        assert_int_equal(rankmap_id(other, n / 2 - 1), 5);
        rankmap_unref(other);
        rankmap_unref(map);
    }
    /* every second of all, and all but one */
    map = affine(0, 1, n);
    other = affine(0, 2, n / 2 + 1);
    assert_int_equal(rankmap_compose(map, other, NULL, &made), 0);
    assert_int_equal(rankmap_id(made, n / 2), n - 1);
    rankmap_unref(made);
    assert_int_equal(exclude_ranks(map, IDS(77), 1, NULL, &made), 0);
    assert_int_equal(rankmap_size(made), n - 1);
    assert_int_equal(rankmap_id(made, n - 2), n - 1);
    rankmap_unref(made);
    rankmap_unref(other);
    rankmap_unref(map);
}

static void too_many_ranks(void **state)
{
    struct rankmap *a = affine(0, 1, RANKMAP_MAX_RANKS), *b = affine(UINT64_C(1) << 33, 1, 1),
                   *map = NULL;
    static const struct rankmap_range endless = {0, UINT32_MAX, 1};
    struct rankmap_range two[2] = {{0, UINT32_MAX - 1, 1},
                                   {UINT64_C(1) << 33, UINT64_C(1) << 33, 1}};

    assert_int_equal(rankmap_union(a, b, NULL, &map), RANKMAP_ERANGE);
    assert_int_equal(rankmap_from_ranges(&endless, 1, NULL, &map, NULL),
                     RANKMAP_ERANGE); /* 2^32 ranks */
    assert_int_equal(rankmap_from_ranges(two, 2, NULL, &map, NULL), RANKMAP_ERANGE); /* as many */
#if SIZE_MAX > UINT32_MAX
    assert_int_equal(rankmap_from_ids((const uint32_t[]){0}, sizeof(uint32_t),
                                      (size_t)RANKMAP_MAX_RANKS + 1, NULL, &map, NULL),
                     RANKMAP_ERANGE);
#endif
    assert_null(map);
    two[0].last--;
    assert_int_equal(rankmap_from_ranges(two, 2, NULL, &map, NULL), 0);
    assert_int_equal(rankmap_id(map, RANKMAP_MAX_RANKS - 1), two[1].first);
    rankmap_unref(map);
    rankmap_unref(b);
    rankmap_unref(a);
}

static void wide_ids(void **state)
{
    static const uint64_t near_limit[3] = {RANKMAP_ID_LIMIT - 1, 0, 12345},
                          above[2] = {5, RANKMAP_ID_LIMIT};
    static const uint64_t wrapping[4] = {0, UINT64_C(1) << 63, 1, (UINT64_C(1) << 63) + 1};
    static const uint64_t far_apart[][4] = {
        {5, UINT64_C(1) << 63, 7, 9},       {5, 6, UINT64_C(1) << 63, 7},
        {0, UINT64_MAX, 5, UINT64_MAX - 3}, {UINT64_C(1) << 63, (UINT64_C(1) << 63) - 1, 0, 1},
        {1, (UINT64_C(1) << 63) + 7, 1, 2}, {3, 4, 5, UINT64_C(1) << 63},
    };
    /* the first block lacks one of three; a digit of five values would reach 2^40 */
    static const uint64_t far_steps[5] = {7, (UINT64_C(1) << 38) + 7, 100,
                                          (UINT64_C(1) << 38) + 100, (UINT64_C(1) << 39) + 100};
    static const uint32_t jumps[4] = {0xfffffff0, 0xffffffff, 0xe, 0x1d}; /* 15 apart modulo 2^32 */
    struct rankmap *map = NULL;

    assert_int_equal(rankmap_from_ids(near_limit, sizeof(uint64_t), 3, NULL, &map, NULL), 0);
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(rankmap_id(map, r), near_limit[r]);
        assert_int_equal(rankmap_rank(map, near_limit[r]), r);
    }
    rankmap_unref(map);
    assert_int_equal(rankmap_from_ids(above, sizeof(uint64_t), 2, NULL, &map, NULL),
                     RANKMAP_ERANGE);
    assert_int_equal(rankmap_from_ids(wrapping, sizeof(uint64_t), 4, NULL, &map, NULL),
                     RANKMAP_ERANGE);
    for (size_t i = 0; i < sizeof(far_apart) / sizeof(far_apart[0]);
         i++) /* differences pass 2^63 */
        assert_int_equal(rankmap_from_ids(far_apart[i], sizeof(uint64_t), 4, NULL, &map, NULL),
                         RANKMAP_ERANGE);
    assert_int_equal(rankmap_from_ids64(far_steps, 5, NULL, &map, NULL), 0);
    assert_int_equal(kind_of(map), RANKMAP_BLOCKSTRIDE);
    for (uint32_t r = 0; r < 5; r++)
        assert_int_equal(rankmap_id(map, r), far_steps[r]);
    rankmap_unref(map);
    map = from32(jumps, 4);
    assert_ids(map, jumps, 4);
    assert_true(kind_of(map) > RANKMAP_STRIDE);
    rankmap_unref(map);
}

/* The error's text, and none on success. */
static void details(void **state)
{
    static const uint64_t far[3] = {5, 6, RANKMAP_ID_LIMIT};
    static const struct rankmap_range ranges[3] = {{0, 99, 1}, {200, 100, -3}, {50, 150, 10}},
                                      endless[2] = {{0, 9, 1}, {5, 4, 1}},
                                      leaving[2] = {{90, 110, 10}, {110, 90, -10}};
    struct rankmap_opts opts = {.size = sizeof(opts), .id_limit = 100};
    struct rankmap_error err, before;
    struct rankmap *map = NULL;

    memset(&err, 0x5a, sizeof(err));
    before = err;
    assert_int_equal(rankmap_from_ids(IDS(3, 1, 4), sizeof(uint32_t), 3, NULL, &map, &err), 0);
    assert_memory_equal(&err, &before, sizeof(err));
    rankmap_unref(map);
    assert_int_equal(rankmap_from_ids(IDS(3, 1, 4, 9, 1, 3), sizeof(uint32_t), 6, NULL, &map, &err),
                     RANKMAP_EDUP);
    assert_int_equal(err.code, RANKMAP_EDUP);
    assert_int_equal(err.where, 4);
    assert_int_equal(err.id, 1);
    assert_string_equal(err.text, "ranks 1 and 4 both have id 1");
    assert_int_equal(rankmap_from_ids(far, sizeof(uint64_t), 3, NULL, &map, &err), RANKMAP_ERANGE);
    assert_int_equal(err.where, 2);
    assert_int_equal(err.id, RANKMAP_ID_LIMIT);
    assert_int_equal(rankmap_from_ids(IDS(7, 100), sizeof(uint32_t), 2, &opts, &map, &err),
                     RANKMAP_ERANGE);
    assert_string_equal(err.text, "rank 1 has id 100, which is not below 100");
    assert_int_equal(rankmap_from_ids(far, 3, 3, NULL, &map, &err), -EINVAL);
    assert_int_equal(err.code, -EINVAL);
    assert_true(err.where == UINT64_MAX && err.id == RANKMAP_NO_ID);
    assert_string_equal(err.text, rankmap_strerror(-EINVAL));
    assert_int_equal(rankmap_from_ranges(ranges, 3, NULL, &map, &err), RANKMAP_EDUP);
    assert_int_equal(err.where, 2);
    assert_int_equal(err.id, 50);
    assert_string_equal(err.text, "ranges 0 and 2 both have id 50");
    assert_int_equal(rankmap_from_ranges(endless, 2, NULL, &map, &err), RANKMAP_ERANGE);
    assert_int_equal(err.where, 1);
    /* one end is below the limit */
    assert_int_equal(rankmap_from_ranges(&leaving[0], 1, &opts, &map, &err), RANKMAP_ERANGE);
    assert_string_equal(err.text, "range 0, from 90 to 110 by 10, leaves the ids below 100");
    assert_int_equal(rankmap_from_ranges(&leaving[1], 1, &opts, &map, &err), RANKMAP_ERANGE);
    assert_string_equal(err.text, "range 0, from 110 to 90 by -10, leaves the ids below 100");
}

static void negative_ints(void **state)
{
    static const int ranks[3] = {4, -1, 2};
    struct rankmap_opts opts = {.size = sizeof(opts), .id_limit = 100};
    struct rankmap *map = NULL;

    assert_int_equal(
        rankmap_from_ids((const uint32_t *)ranks, sizeof(uint32_t), 3, &opts, &map, NULL),
        RANKMAP_ERANGE);
    assert_null(map);
}

static void duplicates(void **state)
{
    struct rankmap_opts allow = {.size = sizeof(allow), .flags = RANKMAP_ALLOW_DUPLICATES};
    uint32_t *big = permutation(5000, 3), far[4] = {0, 0xfffffff0, 17, 0xfffffff0};
    struct rankmap *map = NULL;

    assert_int_equal(rankmap_from_ids(IDS(1, 2, 1), sizeof(uint32_t), 3, NULL, &map, NULL),
                     RANKMAP_EDUP);
    assert_int_equal(rankmap_from_ids(IDS(4, 4), sizeof(uint32_t), 2, NULL, &map, NULL),
                     RANKMAP_EDUP);
    assert_int_equal(rankmap_from_ids(far, sizeof(uint32_t), 4, NULL, &map, NULL),
                     RANKMAP_EDUP); /* by sorting: the range is wide */
    big[4999] = big[17];
    assert_int_equal(rankmap_from_ids(big, sizeof(uint32_t), 5000, NULL, &map, NULL), RANKMAP_EDUP);
    assert_null(map);
    assert_int_equal(rankmap_from_ids(big, sizeof(uint32_t), 5000, &allow, &map, NULL), 0);
    assert_ids(map, big, 5000);
    assert_int_equal(query(map).distinct, 0);
    assert_int_equal(rankmap_rank(map, big[0]), RANKMAP_ENOTINJECTIVE);
    rankmap_unref(map);
    assert_int_equal(rankmap_affine(3, 0, 9, &allow, &map), 0);
    assert_int_equal(rankmap_id(map, 8), 3);
    rankmap_unref(map);
    free(big);
}

/* Seven levels of ids below 4: no map takes more than its bits and 64 bytes. */
static void few_bits_a_rank(void **state)
{
    struct rankmap_opts allow = {.size = sizeof(allow), .flags = RANKMAP_ALLOW_DUPLICATES};
    uint32_t ids[400];

    for (uint32_t r = 0; r < 400; r++)
        ids[r] = r / 2 % 2 + r / 8 % 2 + r / 32 % 2;
    for (uint32_t n = 64; n <= 400; n++) {
        struct rankmap *map = NULL;

        assert_int_equal(rankmap_from_ids32(ids, n, &allow, &map, NULL), 0);
        assert_ids(map, ids, n);
        assert_true(bytes_of(map) <= (2 * n + 7) / 8 + 64);
        rankmap_unref(map);
    }
}

static void edges(void **state)
{
    struct rankmap *empty = affine(7, 3, 0), *one = affine(7, 3, 1), *made;
    struct rankmap_info info = query(empty);
    uint64_t none;

    assert_int_equal(info.n_ranks, 0);
    assert_int_equal(info.max_id, 0);
    assert_int_equal(rankmap_ids(empty, 0, 0, sizeof(uint64_t), &none), 0);
    assert_int_equal(rankmap_ids(NULL, 0, 0, sizeof(uint64_t), &none), -EINVAL);
    assert_int_equal(rankmap_ids(empty, 1, 0, sizeof(uint64_t), &none), RANKMAP_ERANGE);
    assert_int_equal(rankmap_id(empty, 0), RANKMAP_NO_ID);
    assert_int_equal(rankmap_rank(empty, 0), RANKMAP_ENOENT);
    assert_int_equal(rankmap_id(one, 0), 7);
    assert_int_equal(rankmap_id(one, 1), RANKMAP_NO_ID);
    assert_int_equal(rankmap_rank(one, 7), 0);
    assert_int_equal(rankmap_compare(empty, empty), RANKMAP_IDENT);
    assert_int_equal(rankmap_compare(empty, one), RANKMAP_UNEQUAL);
    assert_int_equal(rankmap_compose(one, empty, NULL, &made), 0);
    assert_int_equal(rankmap_size(made), 0);
    rankmap_unref(made);
    assert_int_equal(rankmap_compose(empty, empty, NULL, &made), 0);
    rankmap_unref(made);
    assert_int_equal(reverse_ranks(empty, NULL, &made), 0);
    rankmap_unref(made);
    assert_int_equal(rankmap_union(empty, one, NULL, &made), 0);
    HAS_IDS(made, 7);
    rankmap_unref(made);
    assert_int_equal(rankmap_difference(one, empty, NULL, &made), 0);
    HAS_IDS(made, 7);
    rankmap_unref(made);
    assert_int_equal(rankmap_intersection(one, empty, NULL, &made), 0);
    assert_int_equal(rankmap_size(made), 0);
    rankmap_unref(made);
    assert_int_equal(rankmap_from_ids(NULL, sizeof(uint32_t), 0, NULL, &made, NULL), 0);
    rankmap_unref(made);
    assert_int_equal(rankmap_from_ids(NULL, sizeof(uint32_t), 1, NULL, &made, NULL), -EINVAL);
    assert_int_equal(rankmap_from_ranges(NULL, 1, NULL, &made, NULL), -EINVAL);
    assert_int_equal(rankmap_from_ranges(NULL, 0, NULL, NULL, NULL), -EINVAL);
    rankmap_unref(NULL);
    assert_null(rankmap_ref(NULL));
    rankmap_unref(one);
    rankmap_unref(empty);
}

static void described(void **state)
{
    char text[200], cut[8];
    struct rankmap *map;

    assert_int_equal(make_block(100, 8, 64, 1, 3, 4096, NULL, &map), 0);
    assert_true(rankmap_describe(map, text, sizeof(text)) < (ssize_t)sizeof(text));
    assert_string_equal(
        text, "blockstride, 4096 ranks: 100 + ((r + 3) % 8) + 64*((r + 3) / 8); 40 + " OBJECT_TEXT
              " bytes");
    assert_int_equal(rankmap_describe(map, cut, sizeof(cut)), strlen(text));
    assert_string_equal(cut, "blockst");
    assert_int_equal(rankmap_describe(map, NULL, 0), strlen(text));
    rankmap_unref(map);
    map = affine(99, -1, 100);
    rankmap_describe(map, text, sizeof(text));
    assert_string_equal(text, "stride, 100 ranks: 99 - r; 16 + " OBJECT_TEXT " bytes");
    assert_int_equal(query(map).n_runs, 0);
    rankmap_unref(map);
    map = affine(0, 1, 1);
    rankmap_describe(map, text, sizeof(text));
    assert_string_equal(text, "direct, 1 rank: r; 16 + " OBJECT_TEXT " bytes");
    rankmap_unref(map);
    assert_int_equal(rankmap_from_text("0-999,1001-2000", 15, NULL, &map, NULL), 0);
    rankmap_describe(map, text, sizeof(text));
    assert_string_equal(text,
                        "runs, 2000 ranks: ids 0 to 2000 in 2 runs; 24 + " OBJECT_TEXT " bytes");
    rankmap_unref(map);
}

static void explained(void **state)
{
    static const int codes[] = {RANKMAP_EDUP,
                                RANKMAP_ERANGE,
                                RANKMAP_ESYNTAX,
                                RANKMAP_EFORMAT,
                                RANKMAP_ENOENT,
                                RANKMAP_ENOBUF,
                                RANKMAP_ELEVELS,
                                RANKMAP_ETAG,
                                RANKMAP_EFULL,
                                RANKMAP_ENOTINJECTIVE,
                                -ENOMEM,
                                -EINVAL,
                                0};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        assert_string_not_equal(rankmap_strerror(codes[i]), "unknown error code");
    assert_string_equal(rankmap_strerror(-EIO), strerror(EIO));
    assert_string_equal(rankmap_strerror(-ENOMEM), strerror(ENOMEM));
    assert_string_equal(rankmap_strerror(-4095), "unknown error code");
    assert_string_equal(rankmap_strerror(-4096), "unknown error code");
    assert_string_equal(rankmap_strerror(INT_MIN), "unknown error code");
    assert_string_equal(rankmap_strerror(EIO), "unknown error code");
    assert_string_equal(rankmap_version(), RANKMAP_VERSION);
}

/* Ids that a multiplicative hash would send to few slots. */
static void hostile_ids(void **state)
{
    enum { N = 30000 };
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    struct rankmap_opts allow = {.size = sizeof(allow), .flags = RANKMAP_ALLOW_DUPLICATES};
    uint64_t *ids = xmalloc(N * sizeof(*ids)), seed = 5;
    struct rankmap *map = NULL;
    uint32_t n = 0;

    for (uint64_t id = 1; n < N; id++)
        if ((id * golden >> 32 & 0x3ff) == 5)
            ids[n++] = id;
    ids[N - 1] = RANKMAP_ID_LIMIT - 1;
    for (uint32_t i = N; i > 1; i--) {
        uint32_t k = scramble(&seed, i);
        uint64_t swap = ids[k];

        ids[k] = ids[i - 1];
        ids[i - 1] = swap;
    }
    assert_int_equal(rankmap_from_ids(ids, sizeof(uint64_t), N, NULL, &map, NULL), 0);
    for (uint32_t r = 0; r < N; r++)
        assert_int_equal(rankmap_id(map, r), ids[r]);
    rankmap_unref(map);
    ids[3] = ids[N - 2];
    map = NULL;
    assert_int_equal(rankmap_from_ids(ids, sizeof(uint64_t), N, NULL, &map, NULL), RANKMAP_EDUP);
    assert_null(map);
    assert_int_equal(rankmap_from_ids(ids, sizeof(uint64_t), N, &allow, &map, NULL), 0);
    assert_int_equal(query(map).distinct, 0);
    rankmap_unref(map);
    free(ids);
}

/* Bytes of k ranges, which a reader accepts again. */
static void is_packed_as_runs(const struct rankmap *map, uint32_t k)
{
    size_t len = 24 + 20 * (size_t)k;
    unsigned char *bytes = xmalloc(len);
    struct rankmap *again = NULL;

    assert_int_equal(query(map).n_runs, k);
    assert_int_equal(rankmap_pack(map, bytes, len), len);
    assert_int_equal(rankmap_unpack(bytes, len, NULL, &again), len);
    assert_int_equal(rankmap_compare(map, again), RANKMAP_IDENT);
    rankmap_unref(again);
    free(bytes);
}

/* Ranges that all overlap, more pairs of them than ranks: 65,536 ranks, which a reader may check
 * one by one, and more. */
static void interleaved_ranges(void **state)
{
    enum { K = 512 };
    struct rankmap_range ranges[K];
    struct rankmap *map = NULL;

    for (uint32_t n = 128; n <= 129; n++) {
        for (uint32_t i = 0; i < K; i++) {
            int64_t stride = 4096 * (int64_t)(1000 + i * 7 % 97);

            ranges[i] = (struct rankmap_range){i, i + (uint64_t)stride * (n - 1), stride};
        }
        assert_int_equal(rankmap_from_ranges(ranges, K, NULL, &map, NULL), 0);
        assert_int_equal(rankmap_size(map), K * n);
        for (uint32_t r = 0; r < K * n; r++)
            assert_int_equal(rankmap_id(map, r),
                             ranges[r / n].first + (uint64_t)ranges[r / n].stride * (r % n));
        is_packed_as_runs(map, K);
        rankmap_unref(map);
        map = NULL;
        ranges[K - 1].first = ranges[3].first + (uint64_t)ranges[3].stride * (n - 1);
        ranges[K - 1].last = ranges[K - 1].first + (uint64_t)ranges[K - 1].stride * (n - 1);
        assert_int_equal(rankmap_from_ranges(ranges, K, NULL, &map, NULL), RANKMAP_EDUP);
        assert_null(map);
        /* only the last pair has a common id */
        ranges[K - 1].first = ranges[K - 2].first + (uint64_t)ranges[K - 2].stride * (n - 1);
        ranges[K - 1].last = ranges[K - 1].first + (uint64_t)ranges[K - 1].stride * (n - 1);
        assert_int_equal(rankmap_from_ranges(ranges, K, NULL, &map, NULL), RANKMAP_EDUP);
        assert_null(map);
    }
}

/* A level of stride 0 shows equal ids at once if the map has twice its cycle; else a reader would
 * have to check each rank, of too many. */
static void level_without_effect(void **state)
{
    const struct rankmap_level levels[] = {{1, 50000}, {0, 2}, {1000000, 0}};
    struct rankmap *map = NULL;

    assert_int_equal(make_layout(0, levels, 3, 0, 199999, NULL, &map), RANKMAP_ERANGE);
    assert_int_equal(make_layout(0, levels, 3, 0, 200000, NULL, &map), RANKMAP_EDUP);
    assert_null(map);
}

/* Packed tables whose ids do not ascend, or pass the greatest. */
static void tables_out_of_order(void **state)
{
    enum { N = 1000 };
    struct rankmap *map = NULL;
    unsigned char bytes[4096];
    uint64_t ids[N], seed = 3;
    ssize_t len;

    for (uint32_t r = 0; r < N; r++)
        ids[r] = r / 2 * 64 + r % 2 * 8 + scramble(&seed, 8); /* two with one high part */
    assert_int_equal(rankmap_from_ids64(ids, N, NULL, &map, NULL), 0);
    assert_int_equal(kind_of(map), RANKMAP_ELIAS_FANO);
    len = rankmap_pack(map, bytes, sizeof(bytes));
    rankmap_unref(map);
    map = NULL;
    memset(bytes + len - N / 4, 0, N / 4); /* low parts */
    assert_int_equal(rankmap_unpack(bytes, (size_t)len, NULL, &map), RANKMAP_EFORMAT);
    /* in a bitmap, the greatest id one more than its range */
    for (uint32_t r = 0; r < N; r++)
        ids[r] = 3 * (uint64_t)r + scramble(&seed, 3);
    ids[0] = 0;
    ids[N - 1] = 3 * N - 3;
    assert_int_equal(rankmap_from_ids64(ids, N, NULL, &map, NULL), 0);
    assert_int_equal(kind_of(map), RANKMAP_BITMAP);
    len = rankmap_pack(map, bytes, sizeof(bytes));
    rankmap_unref(map);
    map = NULL;
    assert_int_equal(rankmap_unpack(bytes, (size_t)len, NULL, &map), len);
    rankmap_unref(map);
    map = NULL;
    bytes[24 + 16 + ids[N - 1] / 8] ^= (unsigned char)(3u << ids[N - 1] % 8);
    assert_int_equal(rankmap_unpack(bytes, (size_t)len, NULL, &map), RANKMAP_EFORMAT);
    assert_null(map);
}

/* Ranges of which no two overlap, with more pairs than a reader compares. */
static void ranges_apart(void **state)
{
    enum { K = 4200, N = 21 };
    struct rankmap_range ranges[K];
    struct rankmap *map = NULL;
    uint64_t seed = 12;

    for (uint32_t i = 0; i < K; i++) {
        ranges[i].first = (UINT64_C(1) << 39) + 64 * (uint64_t)i + scramble(&seed, 40);
        ranges[i].last = ranges[i].first + N - 1;
        ranges[i].stride = 1;
    }
    assert_int_equal(rankmap_from_ranges(ranges, K, NULL, &map, NULL), 0);
    assert_int_equal(rankmap_size(map), K * N);
    is_packed_as_runs(map, K);
    rankmap_unref(map);
}

/* A slower model has at most half of the table's bytes. */
static void half_of_a_table(void **state)
{
    enum { N = 62, SORTED = 1000 };
    uint32_t ids[SORTED];
    uint64_t seed = 3;

    for (uint32_t k = 9; k <= 18; k++) /* runs of 8 bytes beside a table of 272 */
        for (uint32_t stride = 1; stride <= 3; stride += 2) {
            uint32_t n = 0, most = stride == 1 ? 16 : 10;
            struct rankmap *map;

            for (uint32_t i = 0; i < k; i++)
                for (uint32_t r = 0; r < N / k + (i < N % k); r++)
                    ids[n++] = (i * 7 % 19 << 27) + i * i + r * stride;
            map = from32(ids, N);
            assert_ids(map, ids, N);
            assert_int_equal(kind_of(map), k <= most ? RANKMAP_RUNS : RANKMAP_PACKED);
            rankmap_unref(map);
        }
    for (uint32_t step = 32; step <= 65; step += 33) { /* 921 of 1,899 bytes, 1,046 of 2,024 */
        struct rankmap *map;

        for (uint32_t r = 0; r < SORTED; r++)
            ids[r] = r * step + (r > 0 ? scramble(&seed, 30) : 0);
        ids[SORTED - 1] = step == 32 ? 32767 : 65535;
        map = from32(ids, SORTED);
        assert_ids(map, ids, SORTED);
        assert_int_equal(kind_of(map), step == 32 ? RANKMAP_ELIAS_FANO : RANKMAP_FRAMES);
        rankmap_unref(map);
    }
}

/* Two ids in the packed form of elias-fano, the second at the end of the range. */
static void ranges_of_packed_tables(void **state)
{
    static const struct {
        uint64_t range;
        unsigned char high, low[10]; /* the second low part begins at bit 38 or 39 */
        int rc;
    } cases[] = {
        {RANKMAP_ID_LIMIT - 1, 0x11, {0, 0, 0, 0, 0xc0, 255, 255, 255, 255, 0x0f}, 24 + 34},
        {RANKMAP_ID_LIMIT, 0x05, {0, 0, 0, 0, 0x80, 255, 255, 255, 255, 0x3f}, RANKMAP_EFORMAT},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned char bytes[24 + 34] = {'R', 'K', 'M', '1', 1, 5};
        struct rankmap *map = NULL;

        store_number(bytes + 8, 2);
        store_number(bytes + 16, 34);
        store_number(bytes + 32, cases[i].range);
        bytes[40] = cases[i].high;
        memcpy(bytes + 48, cases[i].low, sizeof(cases[i].low));
        assert_int_equal(rankmap_unpack(bytes, sizeof(bytes), NULL, &map), cases[i].rc);
        if (map)
            assert_int_equal(rankmap_id(map, 1), RANKMAP_ID_LIMIT - 1);
        rankmap_unref(map);
        map = NULL;
        bytes[6] = 1; /* reserved in this form */
        assert_int_equal(rankmap_unpack(bytes, sizeof(bytes), NULL, &map), RANKMAP_EFORMAT);
        assert_null(map);
    }
}

static void bulk(void **state)
{
    uint32_t *ids = permutation(3000, 9), ranks[50];
    uint64_t seed = 4;
    struct rankmap_opts fast = {.size = sizeof(fast), .flags = RANKMAP_FAST};
    struct rankmap *maps[5];
    struct rankmap_lookup l;

    maps[0] = affine(5, 3, 3000);
    assert_int_equal(make_block(5, 7, 20, 2, 3, 3000, NULL, &maps[1]), 0);
    maps[2] = from32(ids, 3000);
    assert_int_equal(rankmap_from_ids(ids, sizeof(uint32_t), 3000, &fast, &maps[3], NULL), 0);
    assert_int_equal(rankmap_from_text("0-999,1001-3000,3002-3001", 25, NULL, &maps[4], NULL), 0);
    assert_int_equal(kind_of(maps[2]), RANKMAP_PACKED);
    assert_int_equal(kind_of(maps[3]), RANKMAP_LUT32);
    assert_int_equal(kind_of(maps[4]), RANKMAP_RUNS);
    for (int m = 0; m < 5; m++) {
        for (int i = 0; i < 50; i++)
            ranks[i] = scramble(&seed, 3000);
        assert_int_equal(rankmap_lookup_init(&l, maps[m], 64, 12), 0);
        for (int i = 0; i < 50; i++) {
            uint64_t at = 64 + 12 * rankmap_id(maps[m], ranks[i]);

            assert_int_equal(rankmap_at(&l, ranks[i]), at);
            assert_int_equal(rankmap_at_form(&l, l.form, ranks[i], 12), at);
        }
    }
    assert_int_equal(rankmap_lookup_init(&l, maps[0], 0, 0), -EINVAL);
    assert_int_equal(rankmap_lookup_init(&l, maps[0], 0, RANKMAP_MAX_WIDTH + 1), -EINVAL);
    assert_int_equal(rankmap_lookup_init(&l, NULL, 0, 8), -EINVAL);
    assert_true(sizeof(struct rankmap_lookup) == 64 || sizeof(void *) != 8);
    assert_true(sizeof(struct rankmap_lookup) <= 64);
    for (int m = 0; m < 5; m++)
        rankmap_unref(maps[m]);
    free(ids);
}

/* All ways to look a rank up, against the id. */
static void all_ways(const struct rankmap *map, uint64_t base, uint32_t width, uint32_t form)
{
    struct rankmap_lookup l;
    uint32_t n = rankmap_size(map);

    assert_int_equal(rankmap_lookup_init(&l, map, base, width), 0);
    assert_int_equal(l.form, form);
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t rank = i < 20 ? i : n - 1 - (i - 20) * (n / 64);
        uint64_t at = base + width * rankmap_id(map, rank);

        assert_true(rankmap_at(&l, rank) == at);
        assert_true(rankmap_at_sized(&l, rank, width) == at);
        assert_true(rankmap_at_nobranch(&l, rank) == at);
        assert_true(rankmap_at_nobranch_sized(&l, rank, width) == at);
        assert_true(rankmap_lookup_at(&l, rank) == at);
        assert_true(rankmap_addr(&l, rank) == (void *)(uintptr_t)at);
        assert_true(rankmap_at_form(&l, l.form, rank, width) == at);
        if (form <= RANKMAP_FORM_BLOCK)
            assert_true(rankmap_at_form(&l, RANKMAP_FORM_BLOCK, rank, width) == at);
        if (form <= RANKMAP_FORM_BLOCK || form == RANKMAP_FORM_PHASED)
            assert_true(rankmap_at_form(&l, RANKMAP_FORM_PHASED, rank, width) == at);
    }
}

static void every_form_at_every_base(void **state)
{
    static const uint64_t bases[] = {0,
                                     4096,
                                     UINT64_C(0x7fffffffe000),
                                     (UINT64_C(1) << 62) - 1,
                                     UINT64_C(1) << 62,
                                     UINT64_C(1) << 63,
                                     UINT64_C(3) << 62,
                                     UINT64_MAX - 4095};
    static const uint32_t widths[] = {1, 8, 12, RANKMAP_MAX_WIDTH};
    struct rankmap_opts fast = {.size = sizeof(fast), .flags = RANKMAP_FAST};
    const struct rankmap_level brick[] = {{1, 3}, {10, 4}, {100, 0}};
    uint32_t *ids = permutation(3000, 21);
    struct rankmap *maps[8];
    const uint32_t forms[8] = {RANKMAP_FORM_AFFINE, RANKMAP_FORM_AFFINE, RANKMAP_FORM_BLOCK,
                               RANKMAP_FORM_PHASED, RANKMAP_FORM_LUT32,  RANKMAP_FORM_PACKED,
                               RANKMAP_FORM_SLOW,   RANKMAP_FORM_BLOCK};

    maps[0] = affine(RANKMAP_ID_LIMIT - 3000, 1, 3000);
    maps[1] = affine(RANKMAP_ID_LIMIT - 1, -1000, 3000);
    assert_int_equal(make_block(5, 7, 20, 2, 0, 3000, NULL, &maps[2]), 0);
    assert_int_equal(make_block(90000, 7, -20, 2, 3, 3000, NULL, &maps[3]), 0);
    assert_int_equal(rankmap_from_ids(ids, sizeof(uint32_t), 3000, &fast, &maps[4], NULL), 0);
    maps[5] = from32(ids, 3000);
    assert_int_equal(make_layout(7, brick, 3, 0, 3000, NULL, &maps[6]), 0);
    assert_int_equal(rankmap_from_text("0-1999,2001-3000", 16, NULL, &maps[7], NULL),
                     0); /* two runs are blocks to a lookup */
    for (size_t m = 0; m < 8; m++) {
        for (size_t b = 0; b < sizeof(bases) / sizeof(bases[0]); b++)
            for (size_t w = 0; w < 4; w++)
                all_ways(maps[m], bases[b], widths[w], forms[m]);
        rankmap_unref(maps[m]);
    }
    free(ids);
}

/* A lookup of blocks differs from an affine one by r·step, which must not wrap around. */
static void far_blocks(void **state)
{
    const uint32_t n = 1u << 26;
    const int64_t t = INT64_C(1) << 20; /* t·65536·n is 2^62 */
    struct rankmap *map;

    assert_int_equal(make_block(0, 2, 3, t, 0, n, NULL, &map), 0);
    all_ways(map, 1000, RANKMAP_MAX_WIDTH, RANKMAP_FORM_BLOCK);
    rankmap_unref(map);
    assert_int_equal(make_block(0, 2, 3, t + 1, 0, n, NULL, &map), 0);
    all_ways(map, 1000, RANKMAP_MAX_WIDTH, RANKMAP_FORM_SLOW);
    all_ways(map, 1000, RANKMAP_MAX_WIDTH - 1, RANKMAP_FORM_BLOCK);
    rankmap_unref(map);
    assert_int_equal(make_block(2 * t, 2, 3, -t - 1, 1, n, NULL, &map), 0);
    all_ways(map, 1000, RANKMAP_MAX_WIDTH, RANKMAP_FORM_SLOW);
    all_ways(map, 1000, 8, RANKMAP_FORM_PHASED);
    rankmap_unref(map);
    assert_int_equal(make_block(0, 2, 3, INT64_C(1) << 39, 0, RANKMAP_MAX_RANKS, NULL, &map), 0);
    all_ways(map, 1000, 1, RANKMAP_FORM_SLOW);
    rankmap_unref(map);
}

/* Two blocks far apart take the fewest bytes as runs if their stride is 1. */
static void two_far_blocks(void **state)
{
    for (int64_t t = 1; t <= 2; t++) {
        struct rankmap *map;

        assert_int_equal(make_block(0, 100, INT64_C(1) << 33, t, 0, 200, NULL, &map), 0);
        assert_int_equal(kind_of(map), t == 1 ? RANKMAP_RUNS : RANKMAP_BLOCKSTRIDE);
        assert_int_equal(query(map).model_bytes, t == 1 ? 32 : 40);
        assert_int_equal(rankmap_id(map, 199), (INT64_C(1) << 33) + 99 * t);
        rankmap_unref(map);
    }
}

/* φ times the lowest stride is stored modulo 2^64: here it is above 2^63, and below -2^63. */
static void far_phase(void **state)
{
    const uint32_t n = RANKMAP_MAX_RANKS;
    const uint64_t count[] = {200, 1u << 24}, phi = count[0] * count[1] - 1;

    for (int sign = 1; sign >= -1; sign -= 2) {
        const struct rankmap_level levels[] = {
            {sign * (INT64_C(1) << 32), count[0]}, {1, count[1]}, {1 << 25, 0}};
        const int64_t offset = sign > 0 ? 0 : 199 * (INT64_C(1) << 32);
        struct rankmap *map;

        assert_int_equal(make_layout(offset, levels, 3, phi, n, NULL, &map), 0);
        for (uint64_t r = 0; r < n; r += n / 5) {
            uint64_t x = r + phi, digits[] = {x % 200, x / 200 % count[1], x / 200 / count[1]};
            int64_t id = offset + levels[0].stride * (int64_t)digits[0] + (int64_t)digits[1] +
                         (int64_t)digits[2] * (1 << 25);

            assert_int_equal(rankmap_id(map, (uint32_t)r), id);
        }
        assert_int_equal(query(map).phase, phi);
        rankmap_unref(map);
    }
}

/* No more than `size` is filled, and a smaller one is refused. */
static void size_of_info(void **state)
{
    struct rankmap *map = affine(7, 3, 5);
    struct {
        struct rankmap_info info;
        uint64_t more;
    } longer = {.info = {.size = sizeof(longer)}, .more = 99};

    assert_int_equal(rankmap_query(map, &longer.info), 0);
    assert_int_equal(longer.info.size, sizeof(longer));
    assert_int_equal(longer.more, 99);
    longer.info = (struct rankmap_info){.size = sizeof(longer.info) - 1};
    assert_int_equal(rankmap_query(map, &longer.info), -EINVAL);
    assert_int_equal(longer.info.n_ranks, 0);
    rankmap_unref(map);
}

/* Grids of four levels whose first block is cut, by steps that hide a boundary too. */
static void phased_grids(void **state)
{
    const struct rankmap_level cases[][4] = {
        {{-1, 2}, {6, 9}, {162, 3}, {2430, 0}},
        {{1, 3}, {7, 2}, {10, 5}, {100, 0}}, /* the step into a third level is that of the first */
        {{2, 5}, {100, 2}, {10, 2}, {1000, 0}},
    };

    for (size_t i = 0; i < 3; i++)
        for (uint64_t phi = 0; phi < 20; phi++) {
            struct rankmap *map, *found = NULL;
            uint64_t ids[400];

            assert_int_equal(make_layout(1000, cases[i], 4, phi, 400, NULL, &map), 0);
            assert_int_equal(rankmap_ids(map, 0, 400, sizeof(ids[0]), ids), 0);
            assert_int_equal(rankmap_from_ids(ids, sizeof(ids[0]), 400, NULL, &found, NULL), 0);
            assert_int_equal(rankmap_compare(map, found), RANKMAP_IDENT);
            assert_true(kind_of(found) <= RANKMAP_MD);
            assert_true(query(found).model_bytes <= 72);
            rankmap_unref(found);
            rankmap_unref(map);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds),
        cmocka_unit_test(formulas),
        cmocka_unit_test(bad_parameters),
        cmocka_unit_test(largest),
        cmocka_unit_test(too_many_ranks),
        cmocka_unit_test(wide_ids),
        cmocka_unit_test(hostile_ids),
        cmocka_unit_test(interleaved_ranges),
        cmocka_unit_test(details),
        cmocka_unit_test(negative_ints),
        cmocka_unit_test(duplicates),
        cmocka_unit_test(edges),
        cmocka_unit_test(described),
        cmocka_unit_test(explained),
        cmocka_unit_test(bulk),
        cmocka_unit_test(every_form_at_every_base),
        cmocka_unit_test(phased_grids),
        cmocka_unit_test(far_blocks),
        cmocka_unit_test(two_far_blocks),
        cmocka_unit_test(tables_out_of_order),
        cmocka_unit_test(level_without_effect),
        cmocka_unit_test(size_of_info),
        cmocka_unit_test(far_phase),
        cmocka_unit_test(few_bits_a_rank),
        cmocka_unit_test(ranges_apart),
        cmocka_unit_test(half_of_a_table),
        cmocka_unit_test(ranges_of_packed_tables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
