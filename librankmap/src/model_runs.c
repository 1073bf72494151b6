/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs: pieces of constant stride, one after the other.
 *
 * In memory, after the least start of a run: first[k] of 32 bits, in whole words if MAP_WIDE; then
 * offset[k] and, with MAP_STRIDED, stride[k], of 32 bits or, with MAP_WIDE, of 64.
 */
#include <errno.h>

#include "internal.h"

/* up to this many pieces are kept as runs if they have more than this many ranks: then no table is
 * smaller */
#define FEW_PIECES 4u
#define FEW_RANKS  32u
/* more pieces are expanded to detect their model: those with up to this many ranks each, and all
 * with up to this many ranks together */
#define PIECEWISE     64u
#define ALWAYS_EXPAND 4096u
/* most overlapping pieces to compare pair by pair, unless checking each rank is less work */
#define MEET_LIMIT 4096u

static size_t runs_bytes(size_t k, uint32_t flags)
{
    size_t word = flags & MAP_WIDE ? 8 : 4;

    return (8 + k * (4 + word + (flags & MAP_STRIDED ? word : 0)) + 7) & ~(size_t)7;
}

size_t rankmap__runs_bytes(const struct rankmap *map)
{
    return runs_bytes(map->aux, map->flags);
}

static const uint32_t *runs_first(const struct rankmap *map)
{
    return (const uint32_t *)(map->word + 1);
}

uint32_t rankmap__run_first(const struct rankmap *map, uint32_t i)
{
    return runs_first(map)[i];
}

static void run_set(struct rankmap *map, uint32_t i, uint32_t first, uint64_t offset,
                    int64_t stride)
{
    uint32_t *u = (uint32_t *)(map->word + 1);
    size_t k = map->aux;
    uint64_t *w = map->word + 1 + (k + 1) / 2;

    u[i] = first;
    if (map->flags & MAP_WIDE)
        w[i] = offset;
    else
        u[k + i] = (uint32_t)offset;
    if (map->flags & MAP_WIDE && map->flags & MAP_STRIDED)
        w[k + i] = (uint64_t)stride;
    else if (map->flags & MAP_STRIDED)
        u[2 * k + i] = (uint32_t)stride;
}

static inline int64_t run_start(const struct rankmap *map, uint32_t i, int64_t *stride)
{
    const uint32_t *u = runs_first(map);
    size_t k = map->aux;
    const uint64_t *w = map->word + 1 + (k + 1) / 2;
    bool strided = map->flags & MAP_STRIDED;

    if (map->flags & MAP_WIDE) {
        *stride = strided ? (int64_t)w[k + i] : 1;
        return (int64_t)(map->word[0] + w[i]);
    }
    *stride = strided ? (int32_t)u[2 * k + i] : 1;
    return (int64_t)(map->word[0] + u[k + i]);
}

struct piece rankmap__run(const struct rankmap *map, uint32_t i)
{
    const uint32_t *first = runs_first(map);
    struct piece p;

    p.first = run_start(map, i, &p.stride);
    p.n = (i + 1 < map->aux ? first[i + 1] : map->n) - first[i];
    return p;
}

/* Returns the run of a rank. */
static uint32_t run_find(const struct rankmap *map, uint32_t rank)
{
    const uint32_t *first = runs_first(map);
    uint32_t lo = 0, n = map->aux;

    while (n > 1) {
        uint32_t half = n / 2;

        lo = first[lo + half] <= rank ? lo + half : lo;
        n -= half;
    }
    return lo;
}

uint64_t rankmap__runs_id(const struct rankmap *map, uint32_t rank)
{
    uint32_t i = run_find(map, rank);
    int64_t stride, start = run_start(map, i, &stride);

    return (uint64_t)(start + stride * (int64_t)(rank - runs_first(map)[i]));
}

void rankmap__runs_expand(const struct rankmap *map, uint32_t first, uint32_t n, uint64_t *out)
{
    uint32_t i = n > 0 ? run_find(map, first) : 0;

    for (; n > 0; i++) {
        struct piece p = rankmap__run(map, i);
        uint64_t skip = first - rankmap__run_first(map, i);
        uint32_t some = (uint32_t)min_u64(n, p.n - skip);
        uint64_t id = (uint64_t)p.first + skip * (uint64_t)p.stride;

        for (uint32_t k = 0; k < some; k++)
            out[k] = id + k * (uint64_t)p.stride;
        out += some;
        first += some;
        n -= some;
    }
}

static int64_t rank_in_run(const struct rankmap *map, uint32_t i, uint64_t id)
{
    struct piece p = rankmap__run(map, i);
    int64_t away = (int64_t)id - p.first;

    if (p.n == 1 || away == 0)
        return away == 0 ? (int64_t)rankmap__run_first(map, i) : RANKMAP_ENOENT;
    if (away % p.stride || away / p.stride < 0 || (uint64_t)(away / p.stride) >= p.n)
        return RANKMAP_ENOENT;
    return rankmap__run_first(map, i) + away / p.stride;
}

int64_t rankmap__runs_rank(const struct rankmap *map, uint64_t id)
{
    if (map->flags & MAP_ASCENDING) {
        uint32_t lo = 0, n = map->aux;
        int64_t stride;

        while (n > 1) {
            uint32_t half = n / 2;

            lo = run_start(map, lo + half, &stride) <= (int64_t)id ? lo + half : lo;
            n -= half;
        }
        return rank_in_run(map, lo, id);
    }
    for (uint32_t i = 0; i < map->aux; i++) {
        int64_t rank = rank_in_run(map, i, id);

        if (rank >= 0)
            return rank;
    }
    return RANKMAP_ENOENT;
}

/* Makes runs of checked pieces with n ranks in all. */
static int runs_new(const struct make *mk, const struct piece *pieces, size_t k, uint64_t n,
                    struct rankmap **out)
{
    uint64_t min = UINT64_MAX, max = 0, first = 0;
    uint32_t flags = MAP_ASCENDING | (mk->distinct ? MAP_DISTINCT : 0);
    int64_t highest = -1;
    struct rankmap *map;

    for (size_t i = 0; i < k; i++) {
        int64_t last = piece_last(&pieces[i]);

        min = min_u64(min, (uint64_t)pieces[i].first);
        max = max_u64(max, (uint64_t)pieces[i].first);
        if (pieces[i].n > 1 && pieces[i].stride != 1)
            flags |= MAP_STRIDED;
        if (pieces[i].n > 1 && (pieces[i].stride > INT32_MAX || pieces[i].stride < INT32_MIN))
            flags |= MAP_WIDE;
        if (pieces[i].first <= highest || last < pieces[i].first)
            flags &= ~(uint32_t)MAP_ASCENDING;
        highest = last;
    }
    if (max - min > UINT32_MAX)
        flags |= MAP_WIDE;
    map = rankmap__new(mk, RANKMAP_RUNS, (uint32_t)n, runs_bytes(k, flags));
    if (!map)
        return -ENOMEM;
    map->flags = (uint8_t)flags;
    map->aux = (uint32_t)k;
    map->word[0] = min;
    for (size_t i = 0; i < k; i++) {
        run_set(map, (uint32_t)i, (uint32_t)first, (uint64_t)pieces[i].first - min,
                pieces[i].n > 1 ? pieces[i].stride : 1);
        first += pieces[i].n;
    }
    *out = map;
    return 0;
}

/* Joins pieces that continue each other; works in place. */
static size_t join_pieces(struct piece *p, size_t k)
{
    size_t n = 0;

    for (size_t i = 0; i < k; i++) {
        struct piece *last = n > 0 ? &p[n - 1] : NULL;
        int64_t gap;

        if (p[i].n == 0)
            continue;
        if (p[i].n == 1)
            p[i].stride = 1;
        if (last) {
            gap = p[i].first - piece_last(last);
            if ((last->n == 1 || gap == last->stride) && (p[i].n == 1 || gap == p[i].stride) &&
                (last->n > 1 || p[i].n > 1 || gap == 1 || gap == -1)) {
                last->stride = gap;
                last->n += p[i].n;
                continue;
            }
        }
        p[n++] = p[i];
    }
    return n;
}

/* Returns 1 if no two pieces share an id, 0 if some do, -1 if the check would take too long. */
static int pieces_distinct(const struct make *mk, const struct piece *p, size_t k, uint64_t n)
{
    uint64_t limit = (uint64_t)MEET_LIMIT * MEET_LIMIT / 2, n_meets = 0;
    uint64_t *keys;
    int distinct = 1;

    if (n <= mk->max_check)
        limit = min_u64(limit, n + 4 * k);
    for (size_t i = 0; i < k; i++)
        if (p[i].stride == 0) /* of a single rank it is 1: join_pieces() */
            return 0;
    if (k < 2)
        return 1;
    if (k >= (size_t)1 << 23)
        return -1;
    keys = rankmap__alloc(mk->alloc, 2 * k, sizeof(*keys));
    if (!keys)
        return -ENOMEM;
    for (size_t i = 0; i < k; i++)
        keys[i] = (uint64_t)piece_low(&p[i]) << 23 | i;
    rankmap__sort(keys, keys + k, k, 23, 63);
    for (size_t i = 0; i < k && distinct == 1; i++) {
        const struct piece *a = &p[keys[i] & 0x7fffff];
        uint64_t high = (uint64_t)piece_high(a);

        for (size_t j = i + 1; j < k && keys[j] >> 23 <= high && distinct == 1; j++) {
            struct piece common;

            if (++n_meets > limit)
                distinct = -1;
            else if (rankmap__piece_meet(a, &p[keys[j] & 0x7fffff], &common))
                distinct = 0;
        }
    }
    rankmap__free(mk->alloc, keys);
    return distinct;
}

/* Finds the shape of pieces of equal length and equal stride whose starts are equally spaced; the
 * first and the last piece may be shorter. */
static bool pieces_block(const struct piece *p, size_t k, struct shape *shape)
{
    uint64_t count = max_u64(p[0].n, p[1].n), missing = count - p[0].n;
    int64_t stride = count > 1 ? (p[1].n > 1 ? p[1].stride : p[0].stride) : 1, step, start;

    if (p[k - 1].n > count)
        return false;
    start = p[0].first - (int64_t)missing * stride;
    step = p[1].first - start;
    for (size_t i = 0; i < k; i++)
        if ((i > 0 && i + 1 < k && p[i].n != count) || (p[i].n > 1 && p[i].stride != stride) ||
            (i > 0 && p[i].first != start + (int64_t)i * step))
            return false;
    shape->o = start;
    shape->phi = missing;
    shape->n_levels = 2;
    shape->level[0] = (struct rankmap_level){stride, count};
    shape->level[1] = (struct rankmap_level){step, 0};
    return true;
}

/*
 * Stores two blocks as two runs if that takes fewer bytes. Returns 1 when done, otherwise 0. The
 * shape is normalized and has two levels.
 */
int rankmap__two_runs(const struct make *mk, const struct shape *shape, struct rankmap **out)
{
    uint64_t count = shape->level[0].count, head = count - shape->phi;
    int64_t t = shape->level[0].stride;
    struct piece p[2] = {{shape->o + (int64_t)shape->phi * t, t, head},
                         {shape->o + shape->level[1].stride, t, shape->n - head}};
    uint64_t apart = abs_i64(p[1].first - p[0].first);
    uint32_t flags = (apart > UINT32_MAX || t > INT32_MAX || t < INT32_MIN ? MAP_WIDE : 0) |
                     (t != 1 ? MAP_STRIDED : 0);
    int rc;

    if (shape->phi + shape->n > 2 * count || runs_bytes(2, flags) >= 40)
        return 0;
    rc = runs_new(mk, p, 2, shape->n, out);
    return rc < 0 ? rc : 1;
}

/* Gets the shape of a regular map, or of two runs of one stride, which are two blocks. */
bool rankmap__shape_if(const struct rankmap *map, struct shape *shape)
{
    struct piece p[2];

    if (rankmap__is_regular(map)) {
        rankmap__shape_of(map, shape);
        return true;
    }
    if (map->kind != RANKMAP_RUNS || map->aux != 2)
        return false;
    p[0] = rankmap__run(map, 0);
    p[1] = rankmap__run(map, 1);
    memset(shape, 0, sizeof(*shape));
    shape->n = map->n;
    return pieces_block(p, 2, shape) && rankmap__shape_normalize(shape, RANKMAP_ID_LIMIT) == 0;
}

static int expand_and_detect(const struct make *mk, const struct piece *p, size_t k, uint64_t n,
                             struct rankmap **out)
{
    uint64_t *a = rankmap__alloc(mk->alloc, n, sizeof(*a));
    struct ids ids = {.a64 = a, .n = n};
    size_t at = 0;
    int rc;

    if (!a)
        return -ENOMEM;
    for (size_t i = 0; i < k; i++)
        for (uint64_t r = 0; r < p[i].n; r++)
            a[at++] = (uint64_t)(p[i].first + p[i].stride * (int64_t)r);
    rc = rankmap__from_ids(mk, &ids, out);
    rankmap__free(mk->alloc, a);
    return rc;
}

/* Makes the map of checked pieces; may change the array. */
int rankmap__from_pieces(const struct make *mk, struct piece *pieces, size_t n_pieces,
                         struct rankmap **out)
{
    struct make made = *mk;
    struct shape shape = {.n_levels = 1, .level = {{1, 0}}};
    uint64_t n = 0;
    size_t k;
    int distinct;

    for (size_t i = 0; i < n_pieces; i++) {
        int64_t last;

        if (pieces[i].n == 0)
            continue;
        if (pieces[i].n > RANKMAP_MAX_RANKS ||
            __builtin_mul_overflow(pieces[i].stride, (int64_t)(pieces[i].n - 1), &last) ||
            __builtin_add_overflow(last, pieces[i].first, &last) || pieces[i].first < 0 ||
            last < 0 || (uint64_t)pieces[i].first >= mk->id_limit || (uint64_t)last >= mk->id_limit)
            return RANKMAP_ERANGE;
        n += pieces[i].n;
        if (n > RANKMAP_MAX_RANKS)
            return RANKMAP_ERANGE;
    }
    k = join_pieces(pieces, n_pieces);
    shape.n = (uint32_t)n;
    if (k == 1) {
        shape.o = pieces[0].first;
        shape.level[0].stride = pieces[0].stride;
    }
    if (k <= 1)
        return rankmap__from_shape(mk, &shape, out);
    if (pieces_block(pieces, k, &shape)) {
        int rc = rankmap__from_shape(mk, &shape, out);

        if (rc != RANKMAP_ERANGE) /* the ids are in range: the blocks are too large to store */
            return rc;
    }
    if (k <= FEW_PIECES ? n <= FEW_RANKS
                        : n <= ALWAYS_EXPAND || (n / PIECEWISE <= k && n <= mk->max_check))
        return expand_and_detect(mk, pieces, k, n, out);
    distinct = mk->distinct ? 1 : pieces_distinct(mk, pieces, k, n);
    if (distinct == -ENOMEM)
        return -ENOMEM;
    if (distinct == -1)
        return n <= mk->max_check ? expand_and_detect(mk, pieces, k, n, out) : RANKMAP_ERANGE;
    if (distinct == 0 && !(mk->flags & RANKMAP_ALLOW_DUPLICATES))
        return RANKMAP_EDUP;
    made.distinct = distinct;
    return runs_new(&made, pieces, k, n, out);
}

/* Splits an array greedily into pieces, or with `unit` into pieces of stride 1. pieces NULL: only
 * counts. */
static size_t cut_ids(const struct ids *ids, bool unit, struct piece *pieces, size_t max)
{
    size_t k = 0;

    for (size_t i = 0; i < ids->n && k <= max; k++) {
        uint64_t first = ids_get(ids, i), last = first;
        int64_t stride = unit || i + 1 == ids->n ? 1 : (int64_t)(ids_get(ids, i + 1) - first);
        size_t end = i + 1;

        for (; end < ids->n && ids_get(ids, end) == last + (uint64_t)stride; end++)
            last += (uint64_t)stride;
        if (pieces)
            pieces[k] = (struct piece){(int64_t)first, stride, end - i};
        i = end;
    }
    return k;
}

/* Makes runs of an array in at most max_bytes; if they take more, returns 0 with *out untouched. */
int rankmap__runs_of_ids(const struct make *mk, const struct ids *ids, size_t max_bytes,
                         struct rankmap **out)
{
    size_t k_unit = cut_ids(ids, true, NULL, max_bytes / 8),
           k = cut_ids(ids, false, NULL, max_bytes / 12);
    size_t unit_bytes = runs_bytes(k_unit, 0), bytes = runs_bytes(k, MAP_STRIDED);
    bool unit = unit_bytes <= bytes;
    struct piece *pieces;
    int rc;

    if ((unit ? unit_bytes : bytes) > max_bytes)
        return 0;
    k = unit ? k_unit : k;
    pieces = rankmap__alloc(mk->alloc, k, sizeof(*pieces));
    if (!pieces)
        return -ENOMEM;
    cut_ids(ids, unit, pieces, k);
    rc = runs_new(mk, pieces, k, ids->n, out);
    rankmap__free(mk->alloc, pieces);
    if (rc == 0 && rankmap__runs_bytes(*out) > max_bytes) { /* wide runs */
        rankmap_unref(*out);
        *out = NULL;
    }
    return rc;
}

size_t rankmap__n_pieces(const struct rankmap *map)
{
    return rankmap__is_affine(map) ? 1 : map->kind == RANKMAP_RUNS ? map->aux : 0;
}

void rankmap__pieces_get(const struct rankmap *map, struct piece *pieces)
{
    if (rankmap__is_affine(map))
        pieces[0] = (struct piece){word_i64(map->word[0]), word_i64(map->word[1]), map->n};
    else
        for (uint32_t i = 0; i < map->aux; i++)
            pieces[i] = rankmap__run(map, i);
}
