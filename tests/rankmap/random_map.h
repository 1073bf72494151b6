/* SPDX-License-Identifier: BSD-3-Clause */
/* Random maps of every kind, with their ids as an array. */
#ifndef TESTS_RANKMAP_RANDOM_MAP_H
#define TESTS_RANKMAP_RANDOM_MAP_H

#include "rankmap_random.h"

#define MAX_N 300u

static inline uint32_t least(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

/* Ids below `limit`, mostly distinct. */
static inline uint32_t irregular_ids(uint64_t *a, uint64_t limit, uint32_t how)
{
    uint32_t n = (uint32_t)below(least(limit, MAX_N) + 1);

    for (uint32_t r = 0; r < n; r++) {
        if (how == 0 || r == 0)
            a[r] = below(limit);
        else if (how == 1) /* ascending, dense or sparse */
            a[r] = a[r - 1] + 1 + below(3) * below(9);
        else if (how == 2) /* runs */
            a[r] = a[r - 1] + (below(9) ? 1 : below(50));
        else /* a permutation of a stretch */
            a[r] = a[0] + r;
        if (a[r] >= limit)
            return r;
    }
    if (how == 3)
        for (uint32_t r = n; r > 1; r--) {
            uint32_t k = (uint32_t)below(r);
            uint64_t swap = a[k];

            a[k] = a[r - 1];
            a[r - 1] = swap;
        }
    return n;
}

/* NULL when the random ids are invalid, hence refused. */
static inline struct rankmap *random_map(int64_t *ids, uint32_t *n, uint64_t limit)
{
    struct rankmap_opts opts = {
        .size = sizeof(opts), .flags = below(4) == 0 ? RANKMAP_FAST : 0, .id_limit = limit};
    struct rankmap *map = NULL;
    struct formula f;
    uint64_t a[MAX_N];
    int rc;

    *n = 0;
    if (limit == 0)
        return rankmap_affine(0, 1, 0, NULL, &map) == 0 ? map : NULL;
    if (below(2)) {
        random_grid(&f, below(3) ? 1 : 1 + (uint32_t)below(3), 1 + below(12), MAX_N);
        if (below(3) == 0)
            f.o -= between(0, f.o < 50 ? f.o : 50);
        formula_fill(&f, ids);
        *n = f.n;
        while (*n > 0 && !in_range(ids, *n, limit))
            --*n;
        rc = make_layout(f.o, f.level, f.n_levels, f.phi, *n, &opts, &map);
    } else {
        *n = irregular_ids(a, limit, (uint32_t)below(4));
        for (uint32_t r = 0; r < *n; r++)
            ids[r] = (int64_t)a[r];
        rc = rankmap_from_ids(a, sizeof(uint64_t), *n, &opts, &map, NULL);
    }
    if (rc == 0)
        return map;
    CHECK(map == NULL && (rc == RANKMAP_EDUP ? has_twins(ids, *n)
                                             : rc == RANKMAP_ERANGE && !in_range(ids, *n, limit)));
    return NULL;
}

#endif
