/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Property: maps of 0, 1, around 2^31 and up to 2^32 - 1 ranks, which no array holds, have the ids
 * of their formula at random ranks, at both ends and around 2^31; so do their lookups, inverses,
 * reversals, children of few ranks, intersections and packed bytes.
 */
#include "rankmap_random.h"

#define TRIES    24u
#define MAX_KIDS 200u

static uint64_t n_maps, n_refused;

static uint32_t any_size(void)
{
    switch (below(6)) {
    case 0: return (uint32_t)below(2);
    case 1: return UINT32_C(0x80000000);
    case 2: return RANKMAP_MAX_RANKS;
    case 3: return RANKMAP_MAX_RANKS - (uint32_t)below(100);
    case 4: return UINT32_C(0x80000000) - 50 + (uint32_t)below(100);
    default: return 1 + (uint32_t)below(RANKMAP_MAX_RANKS);
    }
}

static uint32_t any_rank(uint32_t n, uint32_t i)
{
    if (i == 0)
        return 0;
    if (i == 1)
        return n - 1;
    if (i < 6 && n > UINT32_C(0x80000005))
        return UINT32_C(0x80000000) - 3 + i;
    return (uint32_t)below(n);
}

/* Strides that nest, in any order of levels and of either sign, so that all ids differ. */
static void large_grid(struct formula *f)
{
    uint32_t order[RANKMAP_MAX_LEVELS];
    int64_t stride = between(1, 2), least = 0;

    memset(f, 0, sizeof(*f));
    f->n = any_size();
    f->n_levels = 1 + (uint32_t)below(5);
    for (uint32_t i = 0; i < f->n_levels; i++) {
        f->level[i].count = 1 + below(UINT64_C(1) << below(12));
        order[i] = i;
    }
    for (uint32_t i = f->n_levels; i > 1; i--) {
        uint32_t k = (uint32_t)below(i), swap = order[k];

        order[k] = order[i - 1];
        order[i - 1] = swap;
    }
    f->phi = below(2) ? below(formula_period(f)) : 0;
    f->level[f->n_levels - 1].count = (f->phi + f->n) / formula_period(f) + 1;
    for (uint32_t i = 0; i < f->n_levels; i++) {
        struct rankmap_level *level = &f->level[order[i]];

        level->stride = below(3) == 0 ? -stride : stride;
        if (level->stride < 0)
            least += level->stride * (int64_t)(level->count - 1);
        stride *= (int64_t)level->count;
        stride += below(2) ? between(0, 5) : 0;
    }
    f->o = between(0, 50) - least;
}

static void check_ranks(const struct rankmap *map, const struct formula *f)
{
    uint64_t base = below(UINT64_C(1) << 46), some[8];
    uint32_t width = 1 + (uint32_t)below(64);
    struct rankmap_lookup l;

    CHECK(rankmap_size(map) == f->n);
    CHECK(rankmap_id(map, f->n) == RANKMAP_NO_ID);
    CHECK(rankmap_lookup_init(&l, map, base, width) == 0);
    for (uint32_t i = 0; i < TRIES && f->n > 0; i++) {
        uint32_t r = any_rank(f->n, i), n = f->n - r < 8 ? f->n - r : 8;
        uint64_t want = (uint64_t)formula_id(f, r);

        CHECK(rankmap_id(map, r) == want);
        CHECK(rankmap_at(&l, r) == base + want * width);
        CHECK(rankmap_at_nobranch(&l, r) == base + want * width);
        CHECK(rankmap_rank(map, want) == (int64_t)r);
        CHECK(rankmap_ids(map, r, n, sizeof(uint64_t), some) == 0);
        for (uint32_t k = 0; k < n; k++)
            CHECK(some[k] == (uint64_t)formula_id(f, (uint64_t)r + k));
    }
}

static void check_children(struct rankmap *map, const struct formula *f)
{
    uint32_t n = 1 + (uint32_t)below(f->n < MAX_KIDS ? f->n : MAX_KIDS);
    uint64_t step = n > 1 ? 1 + below((f->n - 1) / (n - 1)) : 1, first;
    struct rankmap *child, *made, *reversed;

    first = below(f->n - step * (n - 1));
    if (below(2))
        CHECK(rankmap_affine(first, (int64_t)step, n, NULL, &child) == 0);
    else
        CHECK(rankmap_affine(first + step * (n - 1), -(int64_t)step, n, NULL, &child) == 0);
    CHECK(rankmap_compose(map, child, NULL, &made) == 0);
    for (uint32_t r = 0; r < n; r++)
        CHECK(rankmap_id(made, r) == (uint64_t)formula_id(f, rankmap_id(child, r)));
    rankmap_unref(made);
    rankmap_unref(child);
    if (reverse_ranks(map, NULL, &reversed) < 0) /* blocks that are too large once they are cut */
        return;
    for (uint32_t i = 0; i < TRIES; i++) {
        uint32_t r = any_rank(f->n, i);

        CHECK(rankmap_id(reversed, r) == (uint64_t)formula_id(f, f->n - 1 - r));
    }
    rankmap_unref(reversed);
}

static void check_again(const struct rankmap *map)
{
    unsigned char bytes[1024];
    struct rankmap *again = NULL;
    ssize_t len = rankmap_pack(map, bytes, sizeof(bytes));

    CHECK(len > 0);
    CHECK(rankmap_unpack(bytes, (size_t)len, NULL, &again) == len);
    CHECK(rankmap_compare(map, again) == RANKMAP_IDENT);
    rankmap_unref(again);
    again = NULL;
    bytes[below((uint64_t)len)] ^= (unsigned char)(1u << below(8));
    if (rankmap_unpack(bytes, (size_t)len, NULL, &again) >= 0)
        CHECK(rankmap_size(again) == 0 ||
              rankmap_id(again, rankmap_size(again) - 1) < RANKMAP_ID_LIMIT);
    rankmap_unref(again);
}

static void check_intersection(void)
{
    uint64_t o[2] = {below(1000), below(1000)};
    int64_t s[2] = {between(1, 90), between(1, 90)};
    uint32_t n[2] = {any_size(), any_size()};
    struct rankmap *map[2], *both;

    for (int i = 0; i < 2; i++)
        CHECK(rankmap_affine(o[i], s[i], n[i], NULL, &map[i]) == 0);
    CHECK(rankmap_intersection(map[0], map[1], NULL, &both) == 0);
    for (uint32_t i = 0; i < TRIES && n[0] > 0; i++) {
        uint64_t id = o[0] + (uint64_t)s[0] * any_rank(n[0], i);
        bool common =
            id >= o[1] && (id - o[1]) % (uint64_t)s[1] == 0 && (id - o[1]) / (uint64_t)s[1] < n[1];

        CHECK((rankmap_rank(both, id) >= 0) == common);
    }
    rankmap_unref(both);
    rankmap_unref(map[1]);
    rankmap_unref(map[0]);
}

static void run(void)
{
    struct rankmap *map = NULL;
    struct formula f;
    int rc;

    check_intersection();
    large_grid(&f);
    n_maps++;
    rc = make_layout(f.o, f.level, f.n_levels, f.phi, f.n, NULL, &map);
    if (rc < 0) { /* an id above the limit, or blocks as map.h excludes them */
        CHECK(rc == RANKMAP_ERANGE && map == NULL);
        n_refused++;
        return;
    }
    check_ranks(map, &f);
    check_again(map);
    if (f.n > 0)
        check_children(map, &f);
    rankmap_unref(map);
}

int main(int argc, char **argv)
{
    int status = run_cases(argc, argv, run);

    printf("%" PRIu64 " maps, %" PRIu64 " refused\n", n_maps, n_refused);
    CHECK(n_refused < n_maps || n_maps < 1000);
    return status;
}
