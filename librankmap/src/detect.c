/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From an array to its map.
 *
 * The regular detector: with p = 1, take s = a[p] − a[0] and continue while a[i + p] − a[i] = s;
 * where this first fails, at L = i + p, a level of L / p steps of s has ended, and the next one has
 * p = L. Each element is compared once, whatever the number of levels. L that is no multiple of p
 * is irregular, or the first block is cut (φ ≠ 0): then the first two runs tell the block, the
 * starts of the blocks are a shorter sequence that is detected the same way, and the guess is
 * compared with every element.
 *
 * Differences are taken modulo 2^32 (2^64), since nothing is known of the ids yet; the bounds of
 * the shape, computed in integers, tell whether it is real.
 */
#include <errno.h>

#include "internal.h"

/* The array itself, or the starts of its blocks: `first`, then every step-th element from `start`
 * on. */
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

static int64_t sequence_step(const struct sequence *q, size_t i, size_t lag)
{
    return (int64_t)((uint64_t)sequence_at(q, i + lag) - (uint64_t)sequence_at(q, i));
}

/* First i below n - lag with at(i + lag) - at(i) ≠ stride. */
static size_t sequence_lag(const struct sequence *q, size_t from, size_t lag, int64_t stride)
{
    size_t i = from;

    if (q->step == 1 && q->start == 1 && from == 0) /* the whole array */
        return q->ids->a32 ? rankmap__lag32(q->ids->a32, q->n - lag, lag, (uint32_t)stride)
                           : rankmap__lag64(q->ids->a64, q->n - lag, lag, (uint64_t)stride);
    while (i + lag < q->n && sequence_step(q, i, lag) == stride)
        i++;
    return i;
}

/* Whole blocks from rank 0 on, the last one possibly cut. Levels are added to shape. */
static bool detect_aligned(const struct sequence *q, struct shape *shape)
{
    size_t lag = 1;

    shape->n_levels = 0;
    shape->phi = 0;
    shape->o = q->first;
    while (lag < q->n) {
        int64_t stride = sequence_step(q, 0, lag);
        size_t end;

        if (shape->n_levels == RANKMAP_MAX_LEVELS)
            return false;
        end = sequence_lag(q, 0, lag, stride) + lag;
        if (end < q->n && end % lag)
            return false;
        shape->level[shape->n_levels].stride = stride;
        shape->level[shape->n_levels++].count = end < q->n ? end / lag : 1;
        lag = end;
    }
    if (shape->n_levels == 0)
        shape->level[shape->n_levels++] = (struct rankmap_level){1, 0};
    return true;
}

static bool detect_sequence(const struct sequence *q, struct shape *shape, uint32_t max_levels);

/* The first block has `head` elements, the ones after it `count`, with `stride` inside. */
static bool detect_blocks(const struct sequence *q, size_t head, size_t count, int64_t stride,
                          struct shape *shape, uint32_t max_levels)
{
    size_t missing = count - head;
    struct sequence starts = {
        .ids = q->ids, .step = count * q->step, .start = q->start + (head - 1) * q->step};
    struct shape upper;

    starts.first = (int64_t)((uint64_t)q->first - missing * (uint64_t)stride);
    starts.n = 1 + (q->n - head + count - 1) / count;
    if (!detect_sequence(&starts, &upper, max_levels - 1) || upper.n_levels == RANKMAP_MAX_LEVELS)
        return false;
    shape->o = upper.o;
    shape->phi = upper.phi * count + missing;
    shape->n_levels = upper.n_levels + 1;
    shape->level[0] = (struct rankmap_level){stride, count};
    memcpy(&shape->level[1], upper.level, upper.n_levels * sizeof(upper.level[0]));
    return true;
}

/* The first block is cut: its head has fewer elements than the block after it; or as many, when the
 * blocks of blocks are. */
static bool detect_cut(const struct sequence *q, struct shape *shape, uint32_t max_levels,
                       bool or_whole)
{
    size_t head, count;
    int64_t stride;

    if (max_levels < 2 || q->n < 3)
        return false;
    /* A head of two elements and more has the stride of the block… */
    stride = sequence_step(q, 0, 1);
    head = sequence_lag(q, 0, 1, stride) + 1;
    if (head >= 2 && head < q->n) {
        count = sequence_lag(q, head, 1, stride) + 1 - head;
        if (count + or_whole > head && detect_blocks(q, head, count, stride, shape, max_levels))
            return true;
    }
    /* … one of a single element has not. */
    stride = sequence_step(q, 1, 1);
    count = sequence_lag(q, 1, 1, stride);
    return count >= 2 && detect_blocks(q, 1, count, stride, shape, max_levels);
}

static bool detect_sequence(const struct sequence *q, struct shape *shape, uint32_t max_levels)
{
    return max_levels > 0 && ((detect_aligned(q, shape) && shape->n_levels <= max_levels) ||
                              detect_cut(q, shape, max_levels, true));
}

/*
 * Compares a shape with every element: those of the first period by the formula, the others with
 * the element a period before, from which they differ by the stride of the last level.
 */
static bool verify(const struct ids *ids, const struct shape *shape)
{
    uint64_t period = rankmap__shape_period(shape), count = shape->level[0].count, x = shape->phi;
    int64_t top = shape->level[shape->n_levels - 1].stride;
    size_t head = min_u64(period, ids->n), rest = ids->n - head;

    for (size_t i = 0; i < head;) { /* a run of the lowest digit at a time */
        uint64_t run = shape->n_levels > 1 ? min_u64(head - i, count - x % count) : head;
        uint64_t id = (uint64_t)rankmap__shape_at(shape, x);

        for (uint64_t k = 0; k < run; k++, id += (uint64_t)shape->level[0].stride)
            if (ids_get(ids, i + k) != id)
                return false;
        i += run;
        x += run;
    }
    return (ids->a32 ? rankmap__lag32(ids->a32, rest, head, (uint32_t)top)
                     : rankmap__lag64(ids->a64, rest, head, (uint64_t)top)) == rest;
}

/* 1 with a normalized shape that gives exactly these ids, at least one. */
static int detect_shape(const struct ids *ids, struct shape *shape)
{
    struct sequence q = {
        .ids = ids, .first = (int64_t)ids_get(ids, 0), .start = 1, .step = 1, .n = ids->n};
    uint64_t limit = ids->a32 ? UINT64_C(1) << 32 : RANKMAP_ID_LIMIT;
    struct shape cut;
    int found = 0;

    if (ids_get(ids, 0) >= limit)
        return 0;
    if (detect_aligned(&q, shape)) {
        shape->n = (uint32_t)ids->n;
        found = rankmap__shape_normalize(shape, limit) == 0 && rankmap__shape_storable(shape);
    }
    /* Three levels may be two whose first block is cut. */
    if (found && shape->n_levels < 3)
        return 1;
    if (detect_cut(&q, &cut, found ? shape->n_levels - 1 : RANKMAP_MAX_LEVELS, !found)) {
        cut.n = (uint32_t)ids->n;
        if (rankmap__shape_normalize(&cut, limit) == 0 && rankmap__shape_storable(&cut) &&
            verify(ids, &cut)) {
            *shape = cut;
            return 1;
        }
    }
    return found;
}

/* What one pass tells of irregular ids. */
struct stats {
    uint64_t min, max;
    size_t n_unit_breaks; /* ids that do not follow the one before by 1 */
    size_t n_breaks;      /* differences that are not the one before */
    bool ascending;
};

#define STATS_BODY(type, a, n)                                                                     \
    type min = (a)[0], max = (a)[0], previous = 0;                                                 \
    size_t unit = 0, breaks = 0, falls = 0;                                                        \
                                                                                                   \
    for (size_t i = 1; i < (n); i++) {                                                             \
        type step = (type)((a)[i] - (a)[i - 1]);                                                   \
                                                                                                   \
        min = (a)[i] < min ? (a)[i] : min;                                                         \
        max = (a)[i] > max ? (a)[i] : max;                                                         \
        unit += step != 1;                                                                         \
        breaks += step != previous;                                                                \
        falls += (a)[i] <= (a)[i - 1];                                                             \
        previous = step;                                                                           \
    }                                                                                              \
    *stats = (struct stats){min, max, unit, breaks, falls == 0};

static void take_stats(const struct ids *ids, struct stats *stats)
{
    if (ids->a32) {
        STATS_BODY(uint32_t, ids->a32, ids->n)
    } else {
        STATS_BODY(uint64_t, ids->a64, ids->n)
    }
}

/* The smallest of the irregular models; runs must be half the size of a table, which is looked up
 * faster. */
static int from_irregular(struct make mk, const struct ids *ids, struct rankmap **out)
{
    struct rankmap *map = NULL;
    struct stats stats;
    size_t table_bytes;
    int rc = 1;

    take_stats(ids, &stats);
    if (stats.max >= mk.id_limit)
        return RANKMAP_ERANGE;
    if (!mk.distinct) {
        rc = stats.ascending ? 1 : rankmap__check_distinct(mk.alloc, ids, stats.min, stats.max);
        if (rc < 0)
            return rc;
        if (rc == 0 && !(mk.flags & RANKMAP_ALLOW_DUPLICATES))
            return RANKMAP_EDUP;
    }
    mk.distinct = rc;
    table_bytes = rankmap__packed_bytes(ids->n, rankmap__bit_length(stats.max - stats.min));
    if (!(mk.flags & RANKMAP_FAST) || stats.max - stats.min > UINT32_MAX) {
        if (min_u64(stats.n_unit_breaks, stats.n_breaks / 2) * 8 <= table_bytes / 2) {
            rc = rankmap__runs_of_ids(&mk, ids, table_bytes / 2, &map);
            if (rc < 0)
                return rc;
        }
        rc = rankmap__from_table(&mk, ids, stats.min, stats.max, stats.ascending,
                                 map ? rankmap__runs_bytes(map) : SIZE_MAX, &map);
    } else {
        rc = rankmap__from_table(&mk, ids, stats.min, stats.max, stats.ascending, SIZE_MAX, &map);
    }
    if (rc < 0)
        return rc;
    *out = map;
    return 0;
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
