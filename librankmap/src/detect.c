/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From an array to its map.
 *
 * The quick detector finds shapes whose phase is 0. It begins with p = 1, takes s = a[p] − a[0],
 * and continues while a[i + p] − a[i] = s. Where this first fails, at L = i + p, a level of L / p
 * steps of s ends, and the next level has p = L. It compares each element once, for any number of
 * levels. It computes differences modulo 2^32 (2^64), since it knows nothing of the ids yet; the
 * bounds of the shape, computed in integers, then show whether the shape is real.
 *
 * The general detector finds every shape, level by level. Take a shape whose neighbouring levels
 * cannot be merged, with blocks of c at the lowest level:
 *
 *   - All steps a[i + 1] − a[i] are the block's stride, except every c-th, the boundaries. A
 *     boundary may have that stride too, if a level above the second begins there; then the
 *     boundaries before and after it have another step, the same for both. So visible boundaries
 *     are c or 2c apart. If all are 2c apart, they have one step, and blocks of 2c give the same
 *     ids with two levels.
 *   - If c > 2, two of the first three steps are the block's stride, which leaves one choice. If c
 *     = 2, every second step is the stride.
 *
 * So the detector tries one stride, size and head of the blocks at each level; the starts of the
 * blocks are a sequence with one level less. Each level compares all its steps, as integers.
 */
#include <errno.h>

#include "internal.h"

/* Detects phase 0: whole blocks from rank 0 on; the last one may be partial. */
static bool detect_aligned(const struct ids *ids, struct shape *shape)
{
    size_t lag = 1, n = ids->n;

    shape->n_levels = 0;
    shape->phi = 0;
    shape->o = (int64_t)ids_get(ids, 0);
    shape->n = (uint32_t)n;
    while (lag < n) {
        uint64_t stride = ids_get(ids, lag) - ids_get(ids, 0);
        size_t end = lag;

        if (shape->n_levels == RANKMAP_MAX_LEVELS)
            return false;
        end += ids->a32 ? rankmap__lag32(ids->a32, n - lag, lag, (uint32_t)stride)
                        : rankmap__lag64(ids->a64, n - lag, lag, stride);
        if (end < n && end % lag)
            return false;
        shape->level[shape->n_levels].stride = (int64_t)stride;
        shape->level[shape->n_levels++].count = end < n ? end / lag : 1;
        lag = end;
    }
    if (shape->n_levels == 0)
        shape->level[shape->n_levels++] = (struct rankmap_level){1, 0};
    return true;
}

/* The array, or the starts of its blocks: `first`, which may lie outside the array, then every
 * step-th element from `start` on. */
struct sequence {
    const struct ids *ids;
    int64_t first;
    size_t start;
    size_t step;
    size_t n;
};

static int64_t sequence_at(const struct sequence *q, size_t i)
{
    return i == 0 ? q->first : (int64_t)ids_get(q->ids, q->start + (i - 1) * q->step);
}

static int64_t sequence_step(const struct sequence *q, size_t i)
{
    return (int64_t)((uint64_t)sequence_at(q, i + 1) - (uint64_t)sequence_at(q, i));
}

/* Returns the first step, from i on, that is not `stride`; without one n - 1, the number of steps.
 */
static size_t next_break(const struct sequence *q, size_t i, int64_t stride)
{
    if (q->step == 1) { /* the array itself */
        const uint32_t *a32 = q->ids->a32;
        const uint64_t *a64 = q->ids->a64;

        if (a32)
            while (i + 1 < q->n && (int64_t)a32[i + 1] - (int64_t)a32[i] == stride)
                i++;
        else
            while (i + 1 < q->n && a64[i + 1] - a64[i] == (uint64_t)stride)
                i++;
        return i;
    }
    while (i + 1 < q->n && sequence_step(q, i) == stride)
        i++;
    return i;
}

/* The lowest level of a sequence. */
struct blocks {
    int64_t stride;
    size_t count; /* elements of a block; 0: the sequence is one progression */
    size_t head;  /* elements of the first block */
};

/* Finds blocks with steps of `stride` inside: any two neighbouring breaks must be the least
 * distance apart, or twice that. */
static bool blocks_of(const struct sequence *q, int64_t stride, struct blocks *b)
{
    size_t first = next_break(q, 0, stride), at = first, least = 0, n_steps = q->n - 1;

    *b = (struct blocks){.stride = stride};
    if (first == n_steps)
        return true;
    for (;;) {
        size_t next = next_break(q, at + 1, stride), gap = next - at;

        if (next >= n_steps)
            break;
        if (least == 0 || 2 * gap == least)
            least = gap;
        else if (gap != least && gap != 2 * least)
            return false;
        if (least == 1)
            return false;
        at = next;
    }
    b->count = least > 0 ? least : first + 1 > n_steps - first ? first + 1 : n_steps - first;
    b->head = first % b->count + 1;
    return true;
}

/* Finds blocks of two; the first block has `head` elements, 1 or 2. Every second step is the
 * stride. */
static bool pairs_of(const struct sequence *q, size_t head, struct blocks *b)
{
    size_t i = 2 - head;

    *b = (struct blocks){.stride = sequence_step(q, i), .count = 2, .head = head};
    while (i + 1 < q->n && sequence_step(q, i) == b->stride)
        i += 2;
    return i + 1 >= q->n;
}

static bool find_blocks(const struct sequence *q, struct blocks *b)
{
    int64_t steps[3];

    if (q->n <= 2) {
        *b = (struct blocks){.stride = q->n == 2 ? sequence_step(q, 0) : 1};
        return true;
    }
    for (size_t i = 0; i < 3; i++)
        steps[i] = sequence_step(q, i + 1 < q->n ? i : 0);
    if (steps[0] == steps[1] || steps[0] == steps[2] || steps[1] == steps[2])
        if (blocks_of(q, steps[1] == steps[2] ? steps[1] : steps[0], b))
            return true;
    return pairs_of(q, 2, b) || pairs_of(q, 1, b);
}

static bool detect_any(const struct ids *ids, struct shape *shape)
{
    struct sequence q = {
        .ids = ids, .first = (int64_t)ids_get(ids, 0), .start = 1, .step = 1, .n = ids->n};
    uint64_t weight = 1;
    struct blocks b;

    *shape = (struct shape){.n = (uint32_t)ids->n};
    for (;;) {
        size_t missing;

        if (shape->n_levels == RANKMAP_MAX_LEVELS || !find_blocks(&q, &b))
            return false;
        shape->level[shape->n_levels++] = (struct rankmap_level){b.stride, b.count};
        if (b.count == 0)
            break;
        missing = b.count - b.head;
        shape->phi += missing * weight;
        weight *= b.count;
        q.first = (int64_t)((uint64_t)q.first - missing * (uint64_t)b.stride);
        q.start += (b.head - 1) * q.step;
        q.step *= b.count;
        q.n = 1 + (q.n - b.head + b.count - 1) / b.count;
    }
    shape->o = q.first;
    return true;
}

/* Returns whether a boundary of some level has the stride of a level two or more below it, and so
 * cannot be seen. Only then can a phase save a level: see the head of this file. */
static bool hides_boundary(const struct shape *shape)
{
    for (uint32_t i = 0; i + 2 < shape->n_levels; i++) {
        int64_t below = 0;

        for (uint32_t j = i + 1; j < shape->n_levels; j++) {
            below += (int64_t)(shape->level[j - 1].count - 1) * shape->level[j - 1].stride;
            if (j >= i + 2 && shape->level[j].stride - below == shape->level[i].stride)
                return true;
        }
    }
    return false;
}

static bool is_real(struct shape *shape, uint64_t limit)
{
    return rankmap__shape_normalize(shape, limit) == 0 && rankmap__shape_storable(shape);
}

/* Finds the normalized shape that gives exactly these ids (at least one). Returns whether one
 * exists. */
static bool detect_shape(const struct ids *ids, struct shape *shape)
{
    uint64_t limit = ids->a32 ? UINT64_C(1) << 32 : RANKMAP_ID_LIMIT;
    struct shape any;
    bool found;

    if (ids_get(ids, 0) >= limit)
        return false;
    found = detect_aligned(ids, shape) && is_real(shape, limit);
    if (found && !(shape->n_levels >= 3 && hides_boundary(shape)))
        return true;
    if (detect_any(ids, &any) && is_real(&any, limit) &&
        !(found && any.n_levels >= shape->n_levels)) {
        *shape = any;
        return true;
    }
    return found;
}

/* Results of one pass over irregular ids. */
struct stats {
    uint64_t min, max;
    size_t n_unit_breaks; /* ids that are not their predecessor + 1 */
    size_t n_breaks;      /* differences that differ from the previous one */
    bool ascending;
};

/* One of the arrays is a constant NULL, which leaves one load in the loop. */
static inline struct stats stats_scan(const uint32_t *a32, const uint64_t *a64, size_t n)
{
    const struct ids ids = {a32, a64, n};
    uint64_t first = ids_get(&ids, 0), last = first, previous = 0;
    struct stats s = {.min = first, .max = first};
    size_t falls = 0;

    for (size_t i = 1; i < n; i++) {
        uint64_t id = ids_get(&ids, i), step = id - last;

        s.min = min_u64(s.min, id);
        s.max = max_u64(s.max, id);
        s.n_unit_breaks += step != 1;
        s.n_breaks += step != previous;
        falls += id <= last;
        last = id;
        previous = step;
    }
    s.ascending = falls == 0;
    return s;
}

/* Makes the smallest of the irregular models. Runs must have at most half the size of a table,
 * whose lookups are faster. */
static int from_irregular(struct make mk, const struct ids *ids, struct rankmap **out)
{
    struct stats stats =
        ids->a32 ? stats_scan(ids->a32, NULL, ids->n) : stats_scan(NULL, ids->a64, ids->n);
    uint64_t range = stats.max - stats.min;
    size_t half = rankmap__packed_bytes(ids->n, rankmap__bit_length(range)) / 2;
    bool fast = mk.flags & RANKMAP_FAST && range <= UINT32_MAX;
    struct rankmap *runs = NULL, *table = NULL;
    int rc = 1;

    if (stats.max >= mk.id_limit)
        return RANKMAP_ERANGE;
    if (!mk.distinct && !stats.ascending)
        rc = rankmap__check_distinct(mk.alloc, ids, stats.min, stats.max);
    if (rc < 0)
        return rc;
    if (rc == 0 && !(mk.flags & RANKMAP_ALLOW_DUPLICATES))
        return RANKMAP_EDUP;
    mk.distinct = rc;
    if (!fast && min_u64(stats.n_unit_breaks, stats.n_breaks / 2) * 8 <= half) {
        rc = rankmap__runs_of_ids(&mk, ids, half, &runs);
        if (rc < 0)
            return rc;
    }
    rc = rankmap__from_table(&mk, ids, stats.min, range, stats.ascending,
                             runs ? rankmap__runs_bytes(runs) : SIZE_MAX, &table);
    if (rc < 0 || table)
        rankmap_unref(runs);
    if (rc == 0)
        *out = table ? table : runs;
    return rc;
}

int rankmap__from_ids(const struct make *mk, const struct ids *ids, struct rankmap **out)
{
    struct shape shape;

    if (ids->n > RANKMAP_MAX_RANKS)
        return RANKMAP_ERANGE;
    if (ids->n == 0)
        return rankmap__from_shape(mk, &(struct shape){.n_levels = 1, .level = {{1, 0}}}, out);
    if (detect_shape(ids, &shape))
        return rankmap__from_shape(mk, &shape, out);
    return from_irregular(*mk, ids, out);
}
