/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Property: maps with equal ids, as RANKMAP_ALLOW_DUPLICATES permits, go through every function
 * that takes a map. Each gives the result of plain arrays, or RANKMAP_ENOTINJECTIVE exactly where
 * ids are equal. The same holds after packing; changed bytes give an error or a valid map.
 */
#include "random_map.h"

static uint64_t n_maps, n_with_twins;

static uint32_t flags_now(void)
{
    return RANKMAP_ALLOW_DUPLICATES | (below(6) == 0 ? RANKMAP_FAST : 0) |
           (below(6) == 0 ? RANKMAP_NO_VIEW : 0);
}

static struct rankmap_opts some_opts(uint64_t limit)
{
    return (struct rankmap_opts){
        .size = sizeof(struct rankmap_opts), .flags = flags_now(), .id_limit = limit};
}

/* Pieces of any stride, 0 too. */
static uint32_t pieces(int64_t *ids, uint64_t limit)
{
    uint32_t n = (uint32_t)below(MAX_N), r = 0;

    while (r < n) {
        int64_t id = (int64_t)below(limit), stride = between(-2, 2);

        for (uint64_t left = 1 + below(n); left > 0 && r < n; left--, id += stride) {
            if (id < 0 || (uint64_t)id >= limit)
                break;
            ids[r++] = id;
        }
    }
    return n;
}

static struct rankmap *of_formula(int64_t *ids, uint32_t *n, const struct rankmap_opts *opts)
{
    struct rankmap *map = NULL;
    struct formula f;

    random_formula(&f, 1 + (uint32_t)below(4), 1 + below(8), MAX_N);
    for (uint32_t i = 0; i < f.n_levels; i++)
        f.level[i].stride = below(3) ? f.level[i].stride : 0;
    formula_fill(&f, ids);
    for (*n = f.n; *n > 0 && !in_range(ids, *n, opts->id_limit);)
        --*n;
    CHECK(make_layout(f.o, f.level, f.n_levels, f.phi, *n, opts, &map) == 0);
    return map;
}

static struct rankmap *of_ranges(int64_t *ids, uint32_t *n, const struct rankmap_opts *opts)
{
    struct rankmap_range ranges[5];
    uint32_t n_ranges = (uint32_t)below(6);
    struct rankmap *map = NULL;

    *n = 0;
    for (uint32_t i = 0; i < n_ranges; i++) {
        uint64_t first = below(opts->id_limit), steps = below(MAX_N / 5);
        int64_t stride = (int64_t)(1 + below(3));

        while (first + steps * (uint64_t)stride >= opts->id_limit)
            steps /= 2;
        ranges[i] = (struct rankmap_range){first, first + steps * (uint64_t)stride, stride};
        for (uint64_t k = 0; k <= steps; k++)
            ids[(*n)++] = (int64_t)(first + k * (uint64_t)stride);
    }
    CHECK(rankmap_from_ranges(ranges, n_ranges, opts, &map, NULL) == 0);
    return map;
}

/* A map of any kind with ids below the limit, and its ids. */
static struct rankmap *any_map(int64_t *ids, uint32_t *n, uint64_t limit)
{
    struct rankmap_opts opts = some_opts(limit);
    struct rankmap *map = NULL;
    uint64_t few = 1 + below(below(2) ? 4 : 60), id;

    n_maps++;
    *n = 0;
    if (limit == 0) {
        CHECK(rankmap_affine(0, 1, 0, NULL, &map) == 0);
        return map;
    }
    switch (below(6)) {
    case 0: return of_formula(ids, n, &opts);
    case 1: return of_ranges(ids, n, &opts);
    case 2: /* all alike */
        *n = (uint32_t)below(MAX_N);
        id = below(limit);
        for (uint32_t r = 0; r < *n; r++)
            ids[r] = (int64_t)id;
        CHECK(rankmap_affine(id, 0, *n, &opts, &map) == 0);
        return map;
    case 3: *n = pieces(ids, limit); break;
    case 4: /* few ids, near or far */
        *n = (uint32_t)below(MAX_N);
        for (uint32_t r = 0; r < *n; r++)
            ids[r] = (int64_t)(below(few) * (limit / few) % limit);
        break;
    default:
        *n = (uint32_t)below(MAX_N);
        for (uint32_t r = 0; r < *n; r++)
            ids[r] = (int64_t)below(limit);
    }
    CHECK(rankmap_from_ids(ids, sizeof(uint64_t), *n, &opts, &map, NULL) == 0);
    return map;
}

static void check_all(const struct rankmap *map, const int64_t *ids, uint32_t n)
{
    bool twins = has_twins(ids, n);

    check_ids(map, ids, n);
    CHECK(query(map).distinct == !twins);
    if (!twins)
        check_inverse(map, ids, n);
    for (uint32_t r = 0; twins && r < n; r++)
        CHECK(rankmap_rank(map, (uint64_t)ids[r]) == RANKMAP_ENOTINJECTIVE);
}

static void check_compose(struct rankmap *a, const int64_t *x, struct rankmap *c, const int64_t *y,
                          uint32_t n_c)
{
    struct rankmap_opts opts = some_opts(0);
    struct rankmap *map = NULL;
    int64_t want[MAX_N];
    int rc = rankmap_compose(a, c, NULL, &map);

    for (uint32_t r = 0; r < n_c; r++)
        want[r] = x[y[r]];
    CHECK(rc == (has_twins(y, n_c) ? RANKMAP_EDUP : 0));
    if (rc == 0)
        check_all(map, want, n_c);
    rankmap_unref(map);
    CHECK(rankmap_compose(a, c, &opts, &map) == 0);
    check_all(map, want, n_c);
    rankmap_unref(map);
}

static void check_exclude(struct rankmap *a, const int64_t *x, uint32_t n_a, struct rankmap *c,
                          const int64_t *y, uint32_t n_c)
{
    struct rankmap *map = NULL;
    bool gone[MAX_N] = {false};
    int64_t want[MAX_N];
    uint32_t n = 0;
    int rc = rankmap_exclude(a, c, NULL, &map);

    CHECK(rc == (has_twins(x, n_a) || has_twins(y, n_c) ? RANKMAP_ENOTINJECTIVE : 0));
    if (rc < 0)
        return;
    for (uint32_t r = 0; r < n_c; r++)
        gone[y[r]] = true;
    for (uint32_t r = 0; r < n_a; r++)
        if (!gone[r])
            want[n++] = x[r];
    check_all(map, want, n);
    rankmap_unref(map);
}

static int compare_arrays(const int64_t *x, uint32_t n_a, const int64_t *y, uint32_t n_b)
{
    int64_t a[MAX_N], b[MAX_N];

    if (n_a != n_b)
        return RANKMAP_UNEQUAL;
    if (memcmp(x, y, n_a * sizeof(*x)) == 0)
        return RANKMAP_IDENT;
    memcpy(a, x, n_a * sizeof(*x));
    memcpy(b, y, n_a * sizeof(*x));
    qsort(a, n_a, sizeof(*a), compare_i64);
    qsort(b, n_a, sizeof(*b), compare_i64);
    return memcmp(a, b, n_a * sizeof(*a)) == 0 ? RANKMAP_SIMILAR : RANKMAP_UNEQUAL;
}

static void check_compare(const struct rankmap *a, const int64_t *x, uint32_t n_a,
                          const struct rankmap *b, const int64_t *y, uint32_t n_b)
{
    struct rankmap_opts opts = some_opts(0);
    struct rankmap *other = NULL;
    int64_t moved[MAX_N];

    CHECK(rankmap_compare(a, b) == compare_arrays(x, n_a, y, n_b));
    CHECK(rankmap_compare(b, a) == compare_arrays(x, n_a, y, n_b));
    memcpy(moved, x, n_a * sizeof(*x));
    for (uint32_t i = 0; i < 3 && n_a > 0; i++) {
        uint32_t k = (uint32_t)below(n_a), m = (uint32_t)below(n_a);
        int64_t swap = moved[k];

        moved[k] = moved[m];
        moved[m] = swap;
    }
    if (below(3) == 0 && n_a > 0)
        moved[below(n_a)] = x[below(n_a)];
    CHECK(rankmap_from_ids(moved, sizeof(uint64_t), n_a, &opts, &other, NULL) == 0);
    CHECK(rankmap_compare(a, other) == compare_arrays(x, n_a, moved, n_a));
    rankmap_unref(other);
}

static void check_groups(struct rankmap *a, const int64_t *x, uint32_t n_a, struct rankmap *b,
                         const int64_t *y, uint32_t n_b)
{
    bool twins_a = has_twins(x, n_a), twins_b = has_twins(y, n_b), twins = twins_a || twins_b;
    int want = twins ? RANKMAP_ENOTINJECTIVE : 0;
    struct rankmap *map[3] = {NULL, NULL, NULL};
    struct rankmap_index *index = NULL;
    uint32_t ranks[MAX_N + 1];

    CHECK(rankmap_union(a, b, NULL, &map[0]) == want);
    CHECK(rankmap_intersection(a, b, NULL, &map[1]) == want);
    CHECK(rankmap_difference(a, b, NULL, &map[2]) == want);
    if (!twins)
        CHECK(rankmap_size(map[0]) == rankmap_size(map[2]) + n_b &&
              rankmap_size(map[1]) + rankmap_size(map[2]) == n_a);
    for (int i = 0; i < 3; i++)
        rankmap_unref(map[i]);
    CHECK(rankmap_index_create(a, NULL, &index) == (twins_a ? RANKMAP_ENOTINJECTIVE : 0));
    for (uint32_t r = 0; r < n_a && index; r++)
        CHECK(rankmap_index_rank(index, (uint64_t)x[r]) == (int64_t)r);
    rankmap_index_destroy(index);
    CHECK(rankmap_translate(a, NULL, n_a, b, ranks) == (twins_b ? RANKMAP_ENOTINJECTIVE : 0));
    for (uint32_t r = 0; r < n_a && !twins_b; r++) {
        uint32_t found = RANKMAP_NO_RANK;

        for (uint32_t k = 0; k < n_b; k++)
            found = y[k] == x[r] ? k : found;
        CHECK(ranks[r] == found);
    }
}

/* Ranks by their node, where the range of nodes is small enough. */
static void check_nodes(const struct rankmap *nodes, const int64_t *x, uint32_t n)
{
    struct rankmap *order = NULL, *some = NULL;
    uint64_t node = n > 0 ? (uint64_t)x[below(n)] : 5;
    int64_t want[MAX_N];
    uint32_t n_want = 0;
    int rc = rankmap_ranks_by_node(nodes, NULL, &order);

    CHECK(rc == 0 || rc == RANKMAP_ERANGE);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        uint64_t r = rankmap_id(order, i), before = i > 0 ? rankmap_id(order, i - 1) : 0;

        CHECK(r < n && (i == 0 || x[before] < x[r] || (x[before] == x[r] && before < r)));
    }
    rankmap_unref(order);
    for (uint32_t r = 0; r < n; r++)
        if ((uint64_t)x[r] == node)
            want[n_want++] = r;
    rc = rankmap_ranks_on_node(nodes, node, NULL, &some);
    CHECK(rc == 0 || rc == RANKMAP_ERANGE);
    if (rc == 0)
        check_all(some, want, n_want);
    rankmap_unref(some);
}

/* MPI_Comm_split() of the map, with the members in any order. */
static void check_split(struct rankmap *a, const int64_t *x, uint32_t n_a)
{
    struct rankmap_member members[MAX_N + 1], swap;
    struct rankmap_error err;
    struct rankmap *map = NULL;
    int64_t want[MAX_N];
    uint32_t n = 0, taken = UINT32_MAX, n_colors = 1 + (uint32_t)below(4);
    bool by_rank = below(2);

    for (uint32_t r = 0; r < n_a; r++)
        members[r] = (struct rankmap_member){r, (int32_t)below(n_colors) - 1,
                                             by_rank ? 0 : (int32_t)between(-3, 3)};
    for (int32_t key = -3; key <= 3; key++)
        for (uint32_t r = 0; r < n_a; r++)
            if (members[r].color == 0 && members[r].key == key) {
                taken = r;
                want[n++] = x[r];
            }
    for (uint32_t r = n_a; r > 1 && below(4); r--) {
        uint32_t k = (uint32_t)below(r);

        swap = members[k];
        members[k] = members[r - 1];
        members[r - 1] = swap;
    }
    if (has_twins(x, n_a)) {
        CHECK(rankmap_split(a, members, n_a, 0, NULL, &map, NULL) == RANKMAP_ENOTINJECTIVE);
        return;
    }
    CHECK(rankmap_split(a, members, n_a, 0, NULL, &map, NULL) == 0);
    check_all(map, want, n);
    rankmap_unref(map);
    members[n_a] = (struct rankmap_member){n_a, 0, 0};
    CHECK(rankmap_split(a, members, n_a + 1, 0, NULL, &map, &err) == RANKMAP_ERANGE);
    CHECK(err.where == n_a && err.id == n_a);
    members[n_a].rank = taken;
    if (taken != UINT32_MAX) {
        CHECK(rankmap_split(a, members, n_a + 1, 0, NULL, &map, &err) == RANKMAP_EDUP);
        CHECK(err.id == taken);
    }
}

static void check_pack(const struct rankmap *map, const int64_t *ids, uint32_t n)
{
    struct rankmap_opts opts = {.size = sizeof(opts), .flags = RANKMAP_ALLOW_DUPLICATES};
    ssize_t packed = rankmap_pack(map, NULL, 0);
    size_t len = (size_t)packed;
    unsigned char *bytes = packed > 0 ? malloc(len) : NULL;
    struct rankmap *again = NULL;

    CHECK(bytes && rankmap_pack(map, bytes, len) == packed);
    CHECK(rankmap_unpack(bytes, len, NULL, &again) ==
          (has_twins(ids, n) ? RANKMAP_EDUP : (ssize_t)len));
    rankmap_unref(again);
    CHECK(rankmap_unpack(bytes, len, &opts, &again) == (ssize_t)len);
    check_all(again, ids, n);
    CHECK(rankmap_compare(map, again) == RANKMAP_IDENT);
    rankmap_unref(again);
    for (int i = 0; i < 6; i++) {
        unsigned char *at = bytes + (below(2) ? below(len) : below(len < 40 ? len : 40));

        *at = below(2) ? (unsigned char)below(256) : (unsigned char)(*at ^ 1u << below(8));
        again = NULL;
        if (rankmap_unpack(bytes, len, &opts, &again) < 0) {
            CHECK(again == NULL);
            continue;
        }
        for (uint32_t k = 0; k < 64 && rankmap_size(again) > 0; k++)
            CHECK(rankmap_id(again, (uint32_t)below(rankmap_size(again))) < RANKMAP_ID_LIMIT);
        rankmap_unref(again);
    }
    free(bytes);
}

static void run(void)
{
    static int64_t x[MAX_N], y[MAX_N], z[MAX_N];
    uint64_t limits[] = {1, 7, 300, 5000, UINT64_C(1) << 33, RANKMAP_ID_LIMIT};
    uint64_t limit = limits[below(6)];
    uint32_t n_a, n_b, n_c;
    struct rankmap *a = any_map(x, &n_a, limit), *b = any_map(y, &n_b, limit),
                   *c = any_map(z, &n_c, n_a);

    n_with_twins += has_twins(x, n_a);
    check_all(a, x, n_a);
    check_compose(a, x, c, z, n_c);
    check_exclude(a, x, n_a, c, z, n_c);
    check_compare(a, x, n_a, b, y, n_b);
    check_groups(a, x, n_a, b, y, n_b);
    check_nodes(a, x, n_a);
    check_split(a, x, n_a);
    check_pack(a, x, n_a);
    rankmap_unref(c);
    rankmap_unref(b);
    rankmap_unref(a);
}

int main(int argc, char **argv)
{
    int status = run_cases(argc, argv, run);

    printf("%" PRIu64 " maps; of those with all functions, %" PRIu64 " with equal ids\n", n_maps,
           n_with_twins);
    return status;
}
