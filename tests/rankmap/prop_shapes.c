/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Property: a map of a formula has the ids of the formula, its inverse is exact, equal and
 * misplaced ids are refused; the detector finds every shape in its array, and none in an array with
 * one element changed.
 */
#include "rankmap_random.h"

#define MAX_N 400u

static uint64_t n_regular, n_cases, n_table;

static void check_refusal(int rc, const int64_t *ids, uint32_t n)
{
    CHECK(rc == RANKMAP_ERANGE || rc == RANKMAP_EDUP);
    CHECK(rc == RANKMAP_ERANGE ? !in_range(ids, n, RANKMAP_ID_LIMIT) : has_twins(ids, n));
}

/* Bytes of the requested regular model. */
static size_t regular_bytes(const struct formula *f)
{
    return f->n_levels == 1 ? 16 : 8 + 16 * (size_t)f->n_levels;
}

static void check_bound(const struct rankmap *map, uint32_t flags)
{
    struct rankmap_info info = {.size = sizeof(info)};
    uint64_t bits;

    CHECK(rankmap_query(map, &info) == 0);
    bits =
        info.max_id > info.min_id ? 64 - (uint64_t)__builtin_clzll(info.max_id - info.min_id) : 0;
    if (flags & RANKMAP_FAST && bits < 32)
        bits = 32;
    CHECK(info.total_bytes == bytes_of(map));
    CHECK(info.total_bytes <= (info.n_ranks * bits + 7) / 8 + 64);
}

static void detect(const struct formula *f, const int64_t *ids, bool regular)
{
    bool wide = below(2);
    uint32_t a32[MAX_N];
    uint64_t a64[MAX_N];
    struct rankmap_opts opts = {.size = sizeof(opts)};
    struct rankmap *map = NULL;
    int rc;

    if (below(8) == 0)
        opts.flags = RANKMAP_FAST;
    for (uint32_t r = 0; r < f->n; r++) {
        a32[r] = (uint32_t)ids[r];
        a64[r] = (uint64_t)ids[r];
    }
    rc = wide ? rankmap_from_ids(a64, sizeof(uint64_t), f->n, &opts, &map, NULL)
              : rankmap_from_ids(a32, sizeof(uint32_t), f->n, &opts, &map, NULL);
    if (rc < 0) {
        CHECK(map == NULL);
        CHECK(rc == RANKMAP_EDUP && has_twins(ids, f->n));
        return;
    }
    CHECK(!has_twins(ids, f->n));
    check_ids(map, ids, f->n);
    check_bound(map, opts.flags);
    if (regular) {
        n_regular += kind_of(map) <= RANKMAP_MD;
        n_table += kind_of(map) > RANKMAP_MD;
        n_cases++;
        /* A shape, or a table that is no larger. */
        CHECK(kind_of(map) <= RANKMAP_MD || bytes_of(map) <= 24 + regular_bytes(f));
    }
    rankmap_unref(map);
}

static void run(void)
{
    static int64_t ids[MAX_N];
    struct rankmap *map = NULL;
    struct formula f;
    bool grid = below(3) != 0;
    int rc;

    if (grid)
        random_grid(&f, 1 + (uint32_t)below(5), 1 + below(9), MAX_N);
    else
        random_formula(&f, 1 + (uint32_t)below(4), 1 + below(9), MAX_N);
    formula_fill(&f, ids);
    rc = make_layout(f.o, f.level, f.n_levels, f.phi, f.n, NULL, &map);
    if (rc < 0) {
        CHECK(map == NULL);
        check_refusal(rc, ids, f.n);
    } else {
        CHECK(in_range(ids, f.n, RANKMAP_ID_LIMIT) && !has_twins(ids, f.n));
        check_ids(map, ids, f.n);
        check_inverse(map, ids, f.n);
        check_bound(map, 0);
        rankmap_unref(map);
    }
    if (!in_range(ids, f.n, RANKMAP_ID_LIMIT))
        return;
    detect(&f, ids, true);
    if (f.n > 0) {
        ids[below(f.n)] = between(0, 300);
        detect(&f, ids, false);
    }
}

int main(int argc, char **argv)
{
    int status = run_cases(argc, argv, run);

    printf("regular found %" PRIu64 " of %" PRIu64 ", the rest in smaller tables (%" PRIu64 ")\n",
           n_regular, n_cases, n_table);
    return status;
}
