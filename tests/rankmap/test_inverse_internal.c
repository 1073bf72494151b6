/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inverses: dense, hashed, and hashed with ids chosen to fall into one bucket. Single and bulk
 * lookups, as in rankmap_translate(), agree.
 */
#include "rankmap_tools.h"

#include "../../librankmap/src/internal.h"

/* Bits from 32 on that are equal for all colliding ids: more than any bucket here uses. */
#define COLLIDING_BITS 18u

static uint64_t residue(uint64_t id)
{
    return id * INDEX_FACTOR & ((UINT64_C(1) << (32 + COLLIDING_BITS)) - 1);
}

/*
 * n ids below 2^40 whose products with INDEX_FACTOR have zeros in COLLIDING_BITS bits from 32 on:
 * sums of two numbers with small residues of opposite sign, which Euclid's algorithm finds.
 */
static void colliding(uint64_t *ids, uint32_t n)
{
    uint64_t modulus = UINT64_C(1) << (32 + COLLIDING_BITS), r0 = modulus, r1 = residue(1), t0 = 0,
             t1 = 1, start = 1;
    uint32_t found = 0;

    while (t1 < UINT64_C(1) << 28) { /* t·factor ≡ ±r, signs in turns */
        uint64_t q = r0 / r1, r2 = r0 - q * r1, t2 = t0 + q * t1;

        r0 = r1;
        r1 = r2;
        t0 = t1;
        t1 = t2;
    }
    while (residue(start) >> 31 != 1) /* in the middle of what may be added and subtracted */
        start++;
    for (uint64_t i = 0; i * t0 < RANKMAP_ID_LIMIT && found < n; i++)
        for (uint64_t id = start + i * t0; id < RANKMAP_ID_LIMIT && found < n; id += t1)
            if (residue(id) >> 32 == 0)
                ids[found++] = id;
    assert_int_equal(found, n);
}

static void shuffle(uint64_t *ids, uint32_t n, uint64_t seed)
{
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = scramble(&seed, i);
        uint64_t swap = ids[k];

        ids[k] = ids[i - 1];
        ids[i - 1] = swap;
    }
}

static struct rankmap *from64(const uint64_t *ids, size_t n)
{
    struct rankmap *map = NULL;

    assert_int_equal(rankmap_from_ids(ids, sizeof(uint64_t), n, NULL, &map, NULL), 0);
    return map;
}

/* Ids of which the first n are a map and others are not: one by one and in bulk. */
static void finds_all(const uint64_t *ids, uint32_t n, const uint64_t *others, uint32_t n_others)
{
    struct rankmap *map = from64(ids, n), *rest = from64(others, n_others), *out;
    uint32_t most = n > n_others ? n : n_others, *ranks = xmalloc(most * sizeof(*ranks));
    struct counter counter = {.left = -1};
    const struct rankmap_allocator allocator = {counted_realloc, counted_free, &counter};
    struct rankmap_index *index;

    assert_int_equal(rankmap_index_create(map, &allocator, &index), 0);
    assert_true(counter.n_bytes <= 200 + 17 * (uint64_t)n);
    for (uint32_t r = 0; r < n; r++)
        assert_int_equal(rankmap_index_rank(index, ids[r]), r);
    for (uint32_t r = 0; r < n_others; r++)
        assert_int_equal(rankmap_index_rank(index, others[r]), RANKMAP_ENOENT);
    assert_int_equal(rankmap_index_rank(index, RANKMAP_NO_ID), RANKMAP_ENOENT);
    rankmap_index_destroy(index);
    assert_int_equal(counter.n_live, 0);
    assert_int_equal(rankmap_translate(map, NULL, n, map, ranks), 0);
    for (uint32_t r = 0; r < n; r++)
        assert_int_equal(ranks[r], r);
    assert_int_equal(rankmap_translate(rest, NULL, n_others, map, ranks), 0);
    for (uint32_t r = 0; r < n_others; r++)
        assert_int_equal(ranks[r], RANKMAP_NO_RANK);
    assert_int_equal(rankmap_difference(map, rest, NULL, &out), 0);
    assert_int_equal(rankmap_compare(out, map), RANKMAP_IDENT);
    rankmap_unref(out);
    assert_int_equal(rankmap_intersection(rest, map, NULL, &out), 0);
    assert_int_equal(rankmap_size(out), 0);
    rankmap_unref(out);
    free(ranks);
    rankmap_unref(rest);
    rankmap_unref(map);
}

#if defined(__SANITIZE_THREAD__) /* ten times as slow there */
enum { N_CHOSEN = 1 << 14 };
#else
enum { N_CHOSEN = 1 << 17 };
#endif

/* This many ids in one bucket would take minutes if each were compared with all others. */
static void chosen_ids(void **state)
{
    uint64_t *ids = xmalloc(2 * N_CHOSEN * sizeof(*ids));

    colliding(ids, 2 * N_CHOSEN);
    shuffle(ids, 2 * N_CHOSEN, 5);
    finds_all(ids, N_CHOSEN, ids + N_CHOSEN, N_CHOSEN);
    finds_all(ids, 17, ids + N_CHOSEN, 17); /* just sorted, just not */
    finds_all(ids, 16, ids + N_CHOSEN, 16);
    free(ids);
}

/* Ids that are 2^32 apart have the same low half. */
static void equal_low_halves(void **state)
{
    enum { N = 3000 };
    uint64_t *ids = xmalloc(2 * N * sizeof(*ids)), seed = 8;

    for (uint32_t i = 0; i < N; i++) {
        ids[i] = (uint64_t)(i / 100) << 32 | (uint64_t)scramble(&seed, 1u << 30) << 2;
        ids[N + i] = i % 2 ? ids[i] + 1 : (ids[i] + (UINT64_C(1) << 37)) % RANKMAP_ID_LIMIT;
    }
    shuffle(ids, N, 3);
    finds_all(ids, N, ids + N, N);
    free(ids);
}

/* 32 ids in one of 32 buckets, four each with the same low half: it is sorted by low halves. */
static void equal_low_halves_in_one_bucket(void **state)
{
    enum { N = 32 };
    uint64_t ids[2 * N], low = 1;

    for (uint32_t i = 0; i < N; i += 4, low++) {
        while (low * INDEX_FACTOR >> 32 & (N - 1))
            low++;
        for (uint32_t k = 0; k < 8; k++)
            ids[(k % 2 ? N : 0) + i + k / 2] = (uint64_t)k * N << 32 | low;
    }
    shuffle(ids, N, 7);
    finds_all(ids, N, ids + N, N);
}

/* The largest range for each rank that is still dense, and one more. */
static void dense_and_not(void **state)
{
    enum { N = 2000 };
    uint64_t *ids = xmalloc(2 * N * sizeof(*ids)), seed = 1;

    for (uint32_t spread = 2; spread <= 40; spread++) {
        for (uint32_t i = 0; i < N; i++) {
            ids[i] = 1000000 + (uint64_t)i * spread + scramble(&seed, spread - 1);
            ids[N + i] = 1000000 + (uint64_t)i * spread + spread - 1;
        }
        ids[N] = 0;
        ids[N + 1] = 1000000 + (uint64_t)N * spread;
        ids[N + 2] = RANKMAP_ID_LIMIT - 1;
        shuffle(ids, N, spread);
        finds_all(ids, N, ids + N, N);
    }
    free(ids);
}

static void no_memory(void **state)
{
    struct counter few;
    struct rankmap_allocator alloc = {counted_realloc, counted_free, &few};
    uint64_t ids[100];
    struct rankmap_index *index = NULL;
    struct rankmap *map;
    int rc = -ENOMEM;
    long point;

    colliding(ids, 100);
    shuffle(ids, 100, 9);
    map = from64(ids, 100);
    for (point = 0; rc == -ENOMEM; point++) {
        few = (struct counter){.left = point};
        rc = rankmap_index_create(map, &alloc, &index);
        if (rc == 0)
            rankmap_index_destroy(index);
        assert_int_equal(few.n_live, 0);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(point, 5); /* the index, its two arrays, and what sorts a bucket */
    rankmap_unref(map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chosen_ids),
        cmocka_unit_test(equal_low_halves),
        cmocka_unit_test(equal_low_halves_in_one_bucket),
        cmocka_unit_test(dense_and_not),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
