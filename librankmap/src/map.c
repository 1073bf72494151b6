/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps as objects: life, regular models and views, and the dispatch over kinds. */
#include <errno.h>

#include "internal.h"

bool rankmap__is_regular(const struct rankmap *map)
{
    return map->kind <= RANKMAP_MD;
}

bool rankmap__is_view(const struct rankmap *map)
{
    return map->kind >= RANKMAP_LUT_STRIDE;
}

/* The words of the regular part. */
static const uint64_t *regular_words(const struct rankmap *map)
{
    return map->word + rankmap__is_view(map);
}

struct rankmap *rankmap__table_of(const struct rankmap *view)
{
    return (struct rankmap *)(uintptr_t)view->word[0];
}

static size_t shape_bytes(uint32_t n_levels)
{
    return n_levels == 1 ? 16 : 8 + 16 * (size_t)n_levels;
}

size_t rankmap__model_bytes(const struct rankmap *map)
{
    if (rankmap__is_regular(map))
        return shape_bytes(map->n_levels);
    if (rankmap__is_view(map))
        return 8 + shape_bytes(map->n_levels);
    if (map->kind == RANKMAP_RUNS)
        return rankmap__runs_bytes(map);
    return rankmap__table_bytes(map);
}

size_t rankmap_bytes(const struct rankmap *map)
{
    return sizeof(*map) + rankmap__model_bytes(map);
}

/* A map with one reference; its model is zero. */
struct rankmap *rankmap__new(const struct make *mk, uint32_t kind, uint32_t n, size_t model_bytes)
{
    struct rankmap *map = rankmap__alloc(mk->alloc, 1, sizeof(*map) + model_bytes);

    if (!map)
        return NULL;
    memset(map, 0, sizeof(*map) + model_bytes);
    atomic_init(&map->refs, 1);
    map->kind = (uint8_t)kind;
    map->n = n;
    map->alloc = mk->alloc;
    return map;
}

struct rankmap *rankmap_ref(struct rankmap *map)
{
    if (map && map->alloc)
        atomic_fetch_add_explicit(&map->refs, 1, memory_order_relaxed);
    return map;
}

void rankmap_unref(struct rankmap *map)
{
    if (!map || !map->alloc || atomic_fetch_sub_explicit(&map->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (rankmap__is_view(map))
        rankmap_unref(rankmap__table_of(map));
    rankmap__free(map->alloc, map, 1, rankmap_bytes(map));
}

int rankmap_copy(const struct rankmap *map, void *mem, size_t bytes, struct rankmap **out)
{
    struct rankmap *copy = mem;

    if (!map || !mem || !out || rankmap__is_view(map) || (uintptr_t)mem % sizeof(uint64_t))
        return -EINVAL;
    if (bytes < rankmap_bytes(map))
        return RANKMAP_ENOBUF;
    atomic_init(&copy->refs, 0);
    copy->kind = map->kind;
    copy->n_levels = map->n_levels;
    copy->bits = map->bits;
    copy->flags = map->flags;
    copy->n = map->n;
    copy->aux = map->aux;
    copy->alloc = NULL;
    memcpy(copy->word, map->word, rankmap__model_bytes(map));
    *out = copy;
    return 0;
}

/* ⌈2^64/weight⌉; weight is 2 at least. */
static uint64_t magic_of(uint64_t weight)
{
    return -weight / weight + 1 + (-weight % weight != 0);
}

/* The weight that a magic was made of: ⌈2^64/magic⌉, exact for weights below 2^32. */
static uint64_t weight_of(uint64_t magic)
{
    return magic_of(magic);
}

static void store_shape(uint64_t *w, const struct shape *shape)
{
    uint64_t weight = 1;

    w[0] = (uint64_t)(shape->o + (int64_t)shape->phi * shape->level[0].stride);
    w[1] = (uint64_t)shape->level[0].stride;
    if (shape->n_levels == 1)
        return;
    w[2] = shape->phi;
    for (uint32_t i = 1; i < shape->n_levels; i++) {
        const struct rankmap_level *below = &shape->level[i - 1];

        weight *= below->count;
        w[1 + 2 * i] = magic_of(weight);
        w[2 + 2 * i] = (uint64_t)(shape->level[i].stride - (int64_t)below->count * below->stride);
    }
}

void rankmap__shape_of(const struct rankmap *map, struct shape *shape)
{
    const uint64_t *w = regular_words(map);
    uint64_t weight = 1;

    memset(shape, 0, sizeof(*shape));
    shape->n = map->n;
    shape->n_levels = map->n_levels;
    shape->o = word_i64(w[0]);
    shape->level[0].stride = word_i64(w[1]);
    if (map->n_levels == 1)
        return;
    shape->phi = w[2];
    shape->o -= (int64_t)shape->phi * shape->level[0].stride;
    for (uint32_t i = 1; i < map->n_levels; i++) {
        struct rankmap_level *below = &shape->level[i - 1];
        uint64_t next = weight_of(w[1 + 2 * i]);

        below->count = next / weight;
        weight = next;
        shape->level[i].stride = word_i64(w[2 + 2 * i]) + (int64_t)below->count * below->stride;
    }
}

static inline uint64_t stored_id(const uint64_t *w, uint32_t n_levels, uint64_t r)
{
    uint64_t id = w[0] + r * w[1];

    if (n_levels > 1) {
        r += w[2];
        for (uint32_t i = 1; i < n_levels; i++)
            id += rankmap_mulhi(r, w[1 + 2 * i]) * w[2 + 2 * i];
    }
    return id;
}

/* Many levels with few ranks take more than their table would: then it is the table that is kept.
 * */
static int keep_or_pack(const struct make *mk, struct rankmap *map, struct rankmap **out)
{
    size_t bytes = rankmap__model_bytes(map);
    uint64_t min, max, scratch[BLOCK];
    struct ids ids = {.a64 = scratch, .n = map->n};
    struct make made = *mk;
    struct rankmap *packed = NULL;
    int rc;

    made.distinct = map->flags & MAP_DISTINCT;
    if (map->n_levels >= 3 && map->n <= BLOCK && !(mk->flags & RANKMAP_FAST)) {
        rankmap__bounds(map, &min, &max);
        if (bytes > rankmap__packed_bytes(map->n, rankmap__bit_length(max - min))) {
            rankmap__expand(map, 0, map->n, scratch);
            rc = rankmap__from_table(&made, &ids, min, max, false, SIZE_MAX, &packed);
            rankmap_unref(map);
            if (rc < 0)
                return rc;
            map = packed;
        }
    }
    *out = map;
    return 0;
}

/* What a lookup of a shape of one or two levels needs: as stored in a map. */
void rankmap__shape_words(const struct shape *shape, uint64_t words[5])
{
    store_shape(words, shape);
}

/* Checks a shape and makes its map. Counts must be at least 1, φ below their product. */
int rankmap__from_shape(const struct make *mk, const struct shape *shape, struct rankmap **out)
{
    struct shape s = *shape;
    int rc = rankmap__shape_normalize(&s, mk->id_limit), distinct;
    struct rankmap *map;
    uint32_t kind = RANKMAP_MD;

    if (rc < 0)
        return rc;
    distinct = mk->distinct ? 1 : rankmap__shape_distinct(&s);
    if (distinct == 0 && !(mk->flags & RANKMAP_ALLOW_DUPLICATES))
        return RANKMAP_EDUP;
    if (s.n_levels == 1)
        kind = s.level[0].stride != 1 ? RANKMAP_STRIDE : s.o != 0 ? RANKMAP_OFFSET : RANKMAP_DIRECT;
    else if (s.n_levels == 2)
        kind = RANKMAP_BLOCKSTRIDE;
    if (s.n_levels == 2) {
        struct make made = *mk;

        made.distinct = distinct;
        map = NULL;
        rc = rankmap__two_runs(&made, &s, &map);
        if (rc < 0)
            return rc;
        if (map) {
            *out = map;
            return 0;
        }
    }
    if (!rankmap__shape_storable(&s))
        return RANKMAP_ERANGE;
    map = rankmap__new(mk, kind, s.n, shape_bytes(s.n_levels));
    if (!map)
        return -ENOMEM;
    map->n_levels = (uint8_t)s.n_levels;
    store_shape(map->word, &s);
    if (distinct < 0) {
        distinct = s.n > mk->max_check ? RANKMAP_ERANGE : rankmap__map_distinct(mk->alloc, map);
        if (distinct == 0 && !(mk->flags & RANKMAP_ALLOW_DUPLICATES))
            distinct = RANKMAP_EDUP;
        if (distinct < 0) {
            rankmap_unref(map);
            return distinct;
        }
    }
    map->flags = distinct ? MAP_DISTINCT : 0;
    return keep_or_pack(mk, map, out);
}

/* A view of a table; shape's ids are ranks of it and have been checked. Takes a reference to the
 * table. */
int rankmap__view(const struct make *mk, struct rankmap *table, const struct shape *shape,
                  struct rankmap **out)
{
    uint32_t kind = shape->n_levels == 1 ? RANKMAP_LUT_STRIDE : RANKMAP_LUT_BLOCKSTRIDE;
    struct rankmap *map = rankmap__new(mk, kind, shape->n, 8 + shape_bytes(shape->n_levels));

    if (!map)
        return -ENOMEM;
    map->n_levels = (uint8_t)shape->n_levels;
    map->flags = mk->distinct ? MAP_DISTINCT : 0;
    map->word[0] = (uintptr_t)rankmap_ref(table);
    store_shape(map->word + 1, shape);
    *out = map;
    return 0;
}

uint32_t rankmap_size(const struct rankmap *map)
{
    return map->n;
}

uint32_t rankmap_kind(const struct rankmap *map)
{
    return map->kind;
}

/* The id of a rank that the map has. */
static uint64_t id_of(const struct rankmap *map, uint32_t rank)
{
    if (rankmap__is_view(map)) {
        rank = (uint32_t)stored_id(map->word + 1, map->n_levels, rank);
        map = rankmap__table_of(map);
    }
    if (rankmap__is_regular(map))
        return stored_id(map->word, map->n_levels, rank);
    if (map->kind == RANKMAP_RUNS)
        return rankmap__runs_id(map, rank);
    return rankmap__table_id(map, rank);
}

uint64_t rankmap_id(const struct rankmap *map, uint32_t rank)
{
    return rank < map->n ? id_of(map, rank) : RANKMAP_NO_ID;
}

/* Ids of n ranks in any order, all of which the map has. out may be ranks. */
void rankmap__gather(const struct rankmap *map, const uint64_t *ranks, size_t n, uint64_t *out)
{
    if (rankmap__is_regular(map)) {
        for (size_t i = 0; i < n; i++)
            out[i] = stored_id(map->word, map->n_levels, ranks[i]);
    } else {
        for (size_t i = 0; i < n; i++)
            out[i] = id_of(map, (uint32_t)ranks[i]);
    }
}

static void expand_regular(const struct rankmap *map, uint32_t first, uint32_t n, uint64_t *out)
{
    const uint64_t *w = regular_words(map);
    uint64_t stride = w[1], count, skip;

    if (map->n_levels == 1) {
        for (uint32_t i = 0; i < n; i++)
            out[i] = w[0] + ((uint64_t)first + i) * stride;
        return;
    }
    count = weight_of(w[3]);
    skip = (first + w[2]) % count;
    while (n > 0) { /* a run of the lowest digit at a time */
        uint32_t run = (uint32_t)min_u64(n, count - skip);
        uint64_t id = stored_id(w, map->n_levels, first);

        for (uint32_t i = 0; i < run; i++)
            out[i] = id + i * stride;
        out += run;
        first += run;
        n -= run;
        skip = 0;
    }
}

/* Ids of consecutive ranks, all of which the map has. */
void rankmap__expand(const struct rankmap *map, uint32_t first, uint32_t n, uint64_t *out)
{
    if (rankmap__is_regular(map)) {
        expand_regular(map, first, n, out);
    } else if (rankmap__is_view(map)) {
        expand_regular(map, first, n, out);
        rankmap__gather(rankmap__table_of(map), out, n, out);
    } else if (map->kind == RANKMAP_RUNS) {
        rankmap__runs_expand(map, first, n, out);
    } else {
        rankmap__table_expand(map, first, n, out);
    }
}

int rankmap_ids(const struct rankmap *map, uint32_t first, uint32_t n, uint64_t *out)
{
    if (first > map->n || n > map->n - first)
        return RANKMAP_ERANGE;
    rankmap__expand(map, first, n, out);
    return 0;
}

int rankmap_ids32(const struct rankmap *map, uint32_t first, uint32_t n, uint32_t *out)
{
    uint64_t ids[BLOCK], min, max;

    if (first > map->n || n > map->n - first)
        return RANKMAP_ERANGE;
    if (n == 0)
        return 0;
    rankmap__bounds(map, &min, &max);
    if (max > UINT32_MAX)
        rankmap__exact_bounds(map, &min, &max);
    if (max > UINT32_MAX)
        return RANKMAP_ERANGE;
    while (n > 0) {
        uint32_t some = n < BLOCK ? n : BLOCK;

        rankmap__expand(map, first, some, ids);
        for (uint32_t i = 0; i < some; i++)
            out[i] = (uint32_t)ids[i];
        out += some;
        first += some;
        n -= some;
    }
    return 0;
}

/* Ids lie between these; for views they are those of the whole table. n > 0. */
void rankmap__bounds(const struct rankmap *map, uint64_t *min, uint64_t *max)
{
    if (rankmap__is_view(map))
        map = rankmap__table_of(map);
    if (rankmap__is_regular(map)) {
        struct shape shape;
        int64_t lo, hi;

        rankmap__shape_of(map, &shape);
        rankmap__shape_bounds(&shape, &lo, &hi);
        *min = (uint64_t)lo;
        *max = (uint64_t)hi;
    } else if (map->kind == RANKMAP_RUNS) {
        *min = UINT64_MAX;
        *max = 0;
        for (uint32_t i = 0; i < map->aux; i++) {
            struct piece p = rankmap__run(map, i);
            uint64_t a = (uint64_t)p.first, b = (uint64_t)(p.first + p.stride * (int64_t)(p.n - 1));

            *min = min_u64(*min, min_u64(a, b));
            *max = a > *max ? a : *max;
            *max = b > *max ? b : *max;
        }
    } else {
        *min = map->word[0];
        *max = map->word[0] + map->word[1];
    }
}

/* The bounds of the ids that the map has, of views too, where that takes a look at each. n > 0. */
void rankmap__exact_bounds(const struct rankmap *map, uint64_t *min, uint64_t *max)
{
    uint64_t ids[BLOCK];

    if (!rankmap__is_view(map)) {
        rankmap__bounds(map, min, max);
        return;
    }
    *min = UINT64_MAX;
    *max = 0;
    for (uint32_t done = 0; done < map->n;) {
        uint32_t some = (uint32_t)min_u64(BLOCK, map->n - done);

        rankmap__expand(map, done, some, ids);
        for (uint32_t i = 0; i < some; i++) {
            *min = min_u64(*min, ids[i]);
            *max = ids[i] > *max ? ids[i] : *max;
        }
        done += some;
    }
}

int64_t rankmap_rank(const struct rankmap *map, uint64_t id)
{
    if (!(map->flags & MAP_DISTINCT))
        return RANKMAP_ENOTONE;
    if (id >= RANKMAP_ID_LIMIT || map->n == 0)
        return RANKMAP_ENOENT;
    if (rankmap__is_regular(map)) {
        struct shape shape;

        if (map->n_levels == 1 && map->word[1] == 1)
            return id - map->word[0] < map->n ? (int64_t)(id - map->word[0]) : RANKMAP_ENOENT;
        rankmap__shape_of(map, &shape);
        return rankmap__shape_rank(&shape, (int64_t)id);
    }
    if (rankmap__is_view(map)) {
        const struct rankmap *table = rankmap__table_of(map);
        struct shape shape;
        int64_t rank;

        if (!(table->flags & MAP_DISTINCT)) { /* the view chose ranks of different ids */
            for (uint32_t r = 0; r < map->n; r++)
                if (id_of(map, r) == id)
                    return r;
            return RANKMAP_ENOENT;
        }
        rank = rankmap_rank(table, id);
        if (rank < 0)
            return rank;
        rankmap__shape_of(map, &shape);
        return rankmap__shape_rank(&shape, rank);
    }
    return map->kind == RANKMAP_RUNS ? rankmap__runs_rank(map, id) : rankmap__table_rank(map, id);
}

int rankmap_affine(uint64_t offset, int64_t stride, uint32_t n, const struct rankmap_opts *opts,
                   struct rankmap **out)
{
    struct shape shape = {.o = (int64_t)offset, .n = n, .n_levels = 1, .level = {{stride, 0}}};
    struct make mk;
    int rc = rankmap__make_init(&mk, opts);

    if (rc < 0 || !out)
        return rc < 0 ? rc : -EINVAL;
    if (offset >= mk.id_limit && n > 0)
        return RANKMAP_ERANGE;
    return rankmap__from_shape(&mk, &shape, out);
}

int rankmap_block(int64_t o, uint64_t b, int64_t s, int64_t t, uint64_t phi, uint32_t n,
                  const struct rankmap_opts *opts, struct rankmap **out)
{
    const struct rankmap_level levels[2] = {{t, b}, {s, 0}};

    return rankmap_layout(o, levels, 2, phi, n, opts, out);
}

int rankmap_layout(int64_t o, const struct rankmap_level *levels, uint32_t n_levels, uint64_t phi,
                   uint32_t n, const struct rankmap_opts *opts, struct rankmap **out)
{
    struct shape shape = {.o = o, .phi = phi, .n = n, .n_levels = n_levels};
    uint64_t period = 1;
    struct make mk;
    int rc = rankmap__make_init(&mk, opts);

    if (rc < 0)
        return rc;
    if (!levels || !out || n_levels == 0)
        return -EINVAL;
    if (n_levels > RANKMAP_MAX_LEVELS)
        return RANKMAP_ELEVELS;
    for (uint32_t i = 0; i < n_levels; i++) {
        shape.level[i] = levels[i];
        if (i + 1 == n_levels)
            break;
        if (levels[i].count == 0)
            return RANKMAP_ERANGE;
        if (__builtin_mul_overflow(period, levels[i].count, &period))
            period = UINT64_MAX;
    }
    if (phi >= period || phi > (uint64_t)INT64_MAX - n)
        return RANKMAP_ERANGE;
    return rankmap__from_shape(&mk, &shape, out);
}
