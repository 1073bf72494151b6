/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the property tests: random numbers, random shapes, and the naive reference, which has
 * only the formula and arrays.
 */
#ifndef TESTS_RANKMAP_RANDOM_H
#define TESTS_RANKMAP_RANDOM_H

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rankmap_calls.h"

static uint64_t rng_state, rng_seed;
static uint64_t case_number;

#define CHECK_END()                                                                                \
    (fprintf(stderr, "  --seed %" PRIu64 ", case %" PRIu64 "\n", rng_seed, case_number), abort())
#include "../check.h"

static inline uint64_t rng(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return rng_state * UINT64_C(0x2545f4914f6cdd1d) >> 8;
}

static inline uint64_t below(uint64_t n)
{
    return rng() % n;
}

static inline int64_t between(int64_t lo, int64_t hi)
{
    return lo + (int64_t)below((uint64_t)(hi - lo + 1));
}

/* Each case has its own numbers, so that one can be run alone. */
static inline void rng_case(uint64_t number)
{
    case_number = number;
    rng_state = (rng_seed + number) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    rng_state |= rng_state == 0;
    rng();
    rng();
}

/* A regular model by its formula. */
struct formula {
    int64_t o;
    struct rankmap_level level[RANKMAP_MAX_LEVELS];
    uint32_t n_levels;
    uint64_t phi;
    uint32_t n;
};

static inline int64_t formula_id(const struct formula *f, uint64_t r)
{
    uint64_t x = r + f->phi;
    int64_t id = f->o;

    for (uint32_t i = 0; i < f->n_levels; i++) {
        uint64_t digit = i + 1 < f->n_levels ? x % f->level[i].count : x;

        id += f->level[i].stride * (int64_t)digit;
        x = i + 1 < f->n_levels ? x / f->level[i].count : 0;
    }
    return id;
}

static inline uint64_t formula_period(const struct formula *f)
{
    uint64_t period = 1;

    for (uint32_t i = 0; i + 1 < f->n_levels; i++)
        period *= f->level[i].count;
    return period;
}

/* Levels whose strides nest, in any order and of either sign: a part of a grid. */
static inline void random_grid(struct formula *f, uint32_t n_levels, uint64_t max_count,
                               uint32_t max_n)
{
    uint32_t order[RANKMAP_MAX_LEVELS];
    int64_t stride = between(1, 3), least = 0;

    memset(f, 0, sizeof(*f));
    f->n_levels = n_levels;
    for (uint32_t i = 0; i < n_levels; i++) {
        f->level[i].count = 1 + below(max_count);
        order[i] = i;
    }
    for (uint32_t i = n_levels; i > 1; i--) {
        uint32_t k = (uint32_t)below(i), swap = order[k];

        order[k] = order[i - 1];
        order[i - 1] = swap;
    }
    f->phi = below(3) == 0 ? below(formula_period(f)) : 0;
    f->n = (uint32_t)below(below(4) == 0 ? max_n
                                         : formula_period(f) * f->level[n_levels - 1].count + 1);
    if (f->n > max_n)
        f->n = max_n;
    f->level[n_levels - 1].count = (f->phi + f->n + formula_period(f) - 1) / formula_period(f) + 1;
    for (uint32_t i = 0; i < n_levels; i++) {
        struct rankmap_level *level = &f->level[order[i]];

        level->stride = below(3) == 0 ? -stride : stride;
        if (level->stride < 0)
            least += level->stride * (int64_t)(level->count - 1);
        stride = stride * (int64_t)level->count + (below(2) ? between(0, 5) : 0);
    }
    f->o = between(0, 50) - least;
}

/* Any strides at all: ids may be equal, or out of range. */
static inline void random_formula(struct formula *f, uint32_t n_levels, uint64_t max_count,
                                  uint32_t max_n)
{
    random_grid(f, n_levels, max_count, max_n);
    for (uint32_t i = 0; i < n_levels; i++)
        f->level[i].stride = between(-12, 12);
    f->o = between(0, 300);
}

static inline void formula_fill(const struct formula *f, int64_t *ids)
{
    for (uint32_t r = 0; r < f->n; r++)
        ids[r] = formula_id(f, r);
}

static inline int compare_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static inline bool has_twins(const int64_t *ids, size_t n)
{
    int64_t *sorted = malloc((n + 1) * sizeof(*sorted));
    bool twins = false;

    memcpy(sorted, ids, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), compare_i64);
    for (size_t i = 1; i < n; i++)
        twins = twins || sorted[i] == sorted[i - 1];
    free(sorted);
    return twins;
}

static inline bool in_range(const int64_t *ids, size_t n, uint64_t limit)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint64_t)ids[i] >= limit)
            return false;
    return true;
}

/* The map has exactly these ids, one by one and in a stretch, and its inverse is exact. */
static inline void check_ids(const struct rankmap *map, const int64_t *ids, uint32_t n)
{
    uint64_t *all = malloc(((size_t)n + 1) * sizeof(*all));
    uint32_t first = n ? (uint32_t)below(n) : 0, some = n ? (uint32_t)below(n - first + 1) : 0;
    struct rankmap_lookup l;

    CHECK(rankmap_size(map) == n);
    CHECK(rankmap_id(map, n) == RANKMAP_NO_ID);
    CHECK(rankmap_lookup_init(&l, map, 1000, 7) == 0);
    for (uint32_t r = 0; r < n; r++) {
        CHECK(rankmap_id(map, r) == (uint64_t)ids[r]);
        CHECK(rankmap_at(&l, r) == 1000 + 7 * (uint64_t)ids[r]);
        CHECK(rankmap_at_nobranch(&l, r) == 1000 + 7 * (uint64_t)ids[r]);
    }
    CHECK(rankmap_ids(map, first, some, sizeof(uint64_t), all) == 0);
    for (uint32_t i = 0; i < some; i++)
        CHECK(all[i] == (uint64_t)ids[first + i]);
    CHECK(rankmap_ids(map, first, n - first + 1, sizeof(uint64_t), all) == RANKMAP_ERANGE);
    free(all);
}

static inline void check_inverse(const struct rankmap *map, const int64_t *ids, uint32_t n)
{
    int64_t lo = 0, hi = 0;

    for (uint32_t r = 0; r < n; r++) {
        CHECK(rankmap_rank(map, (uint64_t)ids[r]) == (int64_t)r);
        lo = r == 0 || ids[r] < lo ? ids[r] : lo;
        hi = ids[r] > hi ? ids[r] : hi;
    }
    for (int i = 0; i < 20; i++) {
        uint64_t id = (uint64_t)between(lo > 10 ? lo - 10 : 0, hi + 10);
        int64_t rank = RANKMAP_ENOENT;

        for (uint32_t r = 0; r < n; r++)
            rank = (uint64_t)ids[r] == id ? (int64_t)r : rank;
        CHECK(rankmap_rank(map, id) == rank);
    }
    CHECK(rankmap_rank(map, RANKMAP_NO_ID) == RANKMAP_ENOENT);
    CHECK(rankmap_rank(map, RANKMAP_ID_LIMIT) == RANKMAP_ENOENT);
}

/* prog CASES [--seed N] [--case N]: calls run() for each case. */
static inline int run_cases(int argc, char **argv, void (*run)(void))
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000, only = UINT64_MAX;

    rng_seed = (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid();
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            rng_seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--case") == 0)
            only = strtoull(argv[i + 1], NULL, 10);
    }
    for (uint64_t i = only != UINT64_MAX ? only : 0; i < (only != UINT64_MAX ? only + 1 : n); i++) {
        rng_case(i);
        run();
    }
    printf("%" PRIu64 " cases, --seed %" PRIu64 "\n", n, rng_seed);
    return 0;
}

#endif
