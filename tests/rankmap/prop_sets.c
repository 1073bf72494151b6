/* SPDX-License-Identifier: BSD-3-Clause */
/* Property: translate, compare, union, intersection, difference, include and exclude agree with
 * naive sets of arrays. */
#include "random_map.h"

#define MAX_ALL (2 * MAX_N)

static uint64_t n_cases, n_compressed;

static int64_t find(const int64_t *ids, uint32_t n, int64_t id)
{
    for (uint32_t r = 0; r < n; r++)
        if (ids[r] == id)
            return (int64_t)r;
    return -1;
}

static void expect(int rc, struct rankmap *map, const int64_t *want, uint32_t n)
{
    CHECK(rc == 0);
    check_ids(map, want, n);
    check_inverse(map, want, n);
    n_compressed += kind_of(map) <= RANKMAP_RUNS;
    rankmap_unref(map);
}

static void check_translate(const struct rankmap *a, const int64_t *x, uint32_t n_a,
                            const struct rankmap *b, const int64_t *y, uint32_t n_b)
{
    uint32_t ranks[MAX_N + 1] = {0}, out[MAX_N + 1], n = (uint32_t)below(n_a + 1);

    for (uint32_t i = 0; i < n; i++)
        ranks[i] = (uint32_t)below(n_a);
    CHECK(rankmap_translate(a, ranks, n, b, out) == 0);
    for (uint32_t i = 0; i < n; i++)
        CHECK(out[i] == (uint32_t)find(y, n_b, x[ranks[i]]));
    CHECK(rankmap_translate(a, NULL, n_a, b, out) == 0);
    for (uint32_t i = 0; i < n_a; i++)
        CHECK(out[i] == (uint32_t)find(y, n_b, x[i]));
    for (uint32_t i = 0; i < n; i++)
        if (below(3) == 0)
            ranks[i] = RANKMAP_NO_RANK;
    CHECK(rankmap_translate(a, ranks, n, b, out) == 0);
    for (uint32_t i = 0; i < n; i++)
        CHECK(out[i] == (ranks[i] == RANKMAP_NO_RANK ? RANKMAP_NO_RANK
                                                     : (uint32_t)find(y, n_b, x[ranks[i]])));
    ranks[n] = n_a;
    CHECK(rankmap_translate(a, ranks, n + 1, b, out) == RANKMAP_ERANGE);
    CHECK(rankmap_translate(a, NULL, (size_t)n_a + 1, b, out) == RANKMAP_ERANGE);
}

static void check_compare(struct rankmap *a, const int64_t *x, uint32_t n_a, struct rankmap *b,
                          const int64_t *y, uint32_t n_b)
{
    int want = n_a == n_b ? RANKMAP_IDENT : RANKMAP_UNEQUAL;
    struct rankmap *reversed;

    for (uint32_t r = 0; r < n_a && want != RANKMAP_UNEQUAL; r++) {
        if (find(y, n_b, x[r]) < 0)
            want = RANKMAP_UNEQUAL;
        else if (x[r] != y[r])
            want = RANKMAP_SIMILAR;
    }
    CHECK(rankmap_compare(a, b) == want);
    CHECK(rankmap_compare(b, a) == want);
    CHECK(rankmap_compare(a, a) == RANKMAP_IDENT);
    CHECK(reverse_ranks(a, NULL, &reversed) == 0);
    CHECK(rankmap_compare(a, reversed) == (n_a > 1 ? RANKMAP_SIMILAR : RANKMAP_IDENT));
    rankmap_unref(reversed);
}

static void check_include(struct rankmap *a, const int64_t *x, uint32_t n_a)
{
    uint32_t ranks[MAX_N + 1] = {0}, n = 0, n_left = 0;
    int64_t want[MAX_N], left[MAX_N];
    bool taken[MAX_N] = {false};
    struct rankmap *map;
    int rc;

    if (n_a == 0)
        return;
    for (uint32_t tries = (uint32_t)below(below(2) ? 6 : n_a + 1); tries > 0; tries--) {
        uint32_t r = (uint32_t)below(n_a);

        if (!taken[r]) {
            taken[r] = true;
            want[n] = x[r];
            ranks[n++] = r;
        }
    }
    for (uint32_t r = 0; r < n_a; r++)
        if (!taken[r])
            left[n_left++] = x[r];
    rc = include_ranks(a, ranks, n, NULL, &map);
    expect(rc, map, want, n);
    rc = exclude_ranks(a, ranks, n, NULL, &map);
    expect(rc, map, left, n_left);
    if (n > 0) {
        ranks[n] = ranks[below(n)];
        CHECK(include_ranks(a, ranks, n + 1, NULL, &map) == RANKMAP_EDUP);
        CHECK(exclude_ranks(a, ranks, n + 1, NULL, &map) == RANKMAP_EDUP);
    }
    ranks[n] = n_a;
    CHECK(include_ranks(a, ranks, n + 1, NULL, &map) == RANKMAP_ERANGE);
    CHECK(exclude_ranks(a, ranks, n + 1, NULL, &map) == RANKMAP_ERANGE);
}

/* Ranges of ranks, as MPI_Group_range_incl() and _excl() have them. */
static void check_ranges(struct rankmap *a, const int64_t *x, uint32_t n_a)
{
    struct rankmap_range ranges[4] = {{0, 0, 1}};
    int64_t want[4 * MAX_N], left[MAX_N];
    bool taken[MAX_N] = {false}, twice = false;
    uint32_t n = 0, n_left = 0, n_ranges = (uint32_t)below(5);
    int triplets[4][3] = {{0}}, rc; /* the same, as MPI passes them */
    struct rankmap *map;

    if (n_a == 0)
        return;
    for (uint32_t i = 0; i < n_ranges; i++) {
        uint64_t first = below(n_a), last = below(n_a);
        int64_t stride = (int64_t)(1 + below(5));

        ranges[i] = (struct rankmap_range){first, last, last < first ? -stride : stride};
        triplets[i][0] = (int)first;
        triplets[i][1] = (int)last;
        triplets[i][2] = (int)ranges[i].stride;
        for (int64_t r = (int64_t)first; last < first ? r >= (int64_t)last : r <= (int64_t)last;
             r += ranges[i].stride) {
            twice = twice || taken[r];
            taken[r] = true;
            want[n++] = x[r];
        }
    }
    rc = include_ranges(a, ranges, n_ranges, NULL, &map);
    if (twice) {
        CHECK(rc == RANKMAP_EDUP);
        CHECK(exclude_ranges(a, ranges, n_ranges, NULL, &map) == RANKMAP_EDUP);
        CHECK(rankmap_include_ranges(a, &triplets[0][0], n_ranges, NULL, &map, NULL) ==
              RANKMAP_EDUP);
        CHECK(rankmap_exclude_ranges(a, &triplets[0][0], n_ranges, NULL, &map, NULL) ==
              RANKMAP_EDUP);
        return;
    }
    expect(rc, map, want, n);
    rc = rankmap_include_ranges(a, &triplets[0][0], n_ranges, NULL, &map, NULL);
    expect(rc, map, want, n);
    for (uint32_t r = 0; r < n_a; r++)
        if (!taken[r])
            left[n_left++] = x[r];
    rc = exclude_ranges(a, ranges, n_ranges, NULL, &map);
    expect(rc, map, left, n_left);
    rc = rankmap_exclude_ranges(a, &triplets[0][0], n_ranges, NULL, &map, NULL);
    expect(rc, map, left, n_left);
}

static void check_index(struct rankmap *a, const int64_t *x, uint32_t n_a, const int64_t *y,
                        uint32_t n_b)
{
    struct rankmap_index *index;

    CHECK(rankmap_index_create(a, NULL, &index) == 0);
    for (uint32_t r = 0; r < n_a; r++)
        CHECK(rankmap_index_rank(index, (uint64_t)x[r]) == (int64_t)r);
    for (uint32_t r = 0; r < n_b; r++) {
        int64_t rank = find(x, n_a, y[r]);

        CHECK(rankmap_index_rank(index, (uint64_t)y[r]) == (rank < 0 ? RANKMAP_ENOENT : rank));
    }
    CHECK(rankmap_index_rank(index, RANKMAP_NO_ID) == RANKMAP_ENOENT);
    rankmap_index_destroy(index);
}

static void run(void)
{
    static int64_t x[MAX_N], y[MAX_N], both[MAX_ALL], common[MAX_N], rest[MAX_N];
    uint64_t limit = 1 + below(below(2) ? 60 : 2000);
    uint32_t n_a, n_b, n_both = 0, n_common = 0, n_rest = 0;
    struct rankmap *a, *b, *map;
    int rc;

    if (below(6) == 0)
        limit = RANKMAP_ID_LIMIT;
    a = random_map(x, &n_a, limit);
    b = a ? random_map(y, &n_b, limit) : NULL;
    if (!b) {
        rankmap_unref(a);
        return;
    }
    n_cases++;
    for (uint32_t r = 0; r < n_a; r++) {
        both[n_both++] = x[r];
        if (find(y, n_b, x[r]) >= 0)
            common[n_common++] = x[r];
        else
            rest[n_rest++] = x[r];
    }
    for (uint32_t r = 0; r < n_b; r++)
        if (find(x, n_a, y[r]) < 0)
            both[n_both++] = y[r];
    rc = rankmap_union(a, b, NULL, &map);
    expect(rc, map, both, n_both);
    rc = rankmap_intersection(a, b, NULL, &map);
    expect(rc, map, common, n_common);
    rc = rankmap_difference(a, b, NULL, &map);
    expect(rc, map, rest, n_rest);
    check_translate(a, x, n_a, b, y, n_b);
    check_compare(a, x, n_a, b, y, n_b);
    check_include(a, x, n_a);
    check_ranges(a, x, n_a);
    check_index(a, x, n_a, y, n_b);
    rankmap_unref(b);
    rankmap_unref(a);
}

int main(int argc, char **argv)
{
    int status = run_cases(argc, argv, run);

    printf("%" PRIu64 " pairs; %" PRIu64 " results regular or runs\n", n_cases, n_compressed);
    return status;
}
