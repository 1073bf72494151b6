/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps as objects: their life, their ids and ranks, and the dispatch over kinds. */
#include <errno.h>

#include "internal.h"

size_t rankmap__model_bytes(const struct rankmap *map)
{
    if (rankmap__is_regular(map))
        return rankmap__regular_bytes(map->n_levels);
    if (rankmap__is_view(map))
        return 8 + rankmap__regular_bytes(map->n_levels);
    if (map->kind == RANKMAP_RUNS)
        return rankmap__runs_bytes(map);
    return rankmap__table_bytes(map);
}

size_t rankmap__bytes(const struct rankmap *map)
{
    return sizeof(*map) + rankmap__model_bytes(map);
}

/* Makes a map with one reference; its model is zeroed. */
struct rankmap *rankmap__new(const struct make *mk, uint32_t kind, uint32_t n, uint64_t model_bytes)
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
    if (map)
        atomic_fetch_add_explicit(&map->refs, 1, memory_order_relaxed);
    return map;
}

void rankmap_unref(struct rankmap *map)
{
    if (!map || atomic_fetch_sub_explicit(&map->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (rankmap__is_view(map))
        rankmap_unref(rankmap__table_of(map));
    rankmap__free(map->alloc, map);
}

uint32_t rankmap_size(const struct rankmap *map)
{
    return map->n;
}

/* Returns the id of a rank below the size. */
static uint64_t id_of(const struct rankmap *map, uint32_t rank)
{
    if (rankmap__is_view(map)) {
        rank = (uint32_t)rankmap__regular_id(map->word + 1, map->n_levels, rank);
        map = rankmap__table_of(map);
    }
    if (rankmap__is_regular(map))
        return rankmap__regular_id(map->word, map->n_levels, rank);
    if (map->kind == RANKMAP_RUNS)
        return rankmap__runs_id(map, rank);
    return rankmap__table_id(map, rank);
}

uint64_t rankmap_id(const struct rankmap *map, uint32_t rank)
{
    return rank < map->n ? id_of(map, rank) : RANKMAP_NO_ID;
}

/* Gets the ids of n ranks below the size, in any order. out may be ranks. */
void rankmap__gather(const struct rankmap *map, const uint64_t *ranks, size_t n, uint64_t *out)
{
    if (rankmap__is_regular(map)) {
        for (size_t i = 0; i < n; i++)
            out[i] = rankmap__regular_id(map->word, map->n_levels, ranks[i]);
    } else {
        for (size_t i = 0; i < n; i++)
            out[i] = id_of(map, (uint32_t)ranks[i]);
    }
}

/* Gets the ids of consecutive ranks below the size. */
void rankmap__expand(const struct rankmap *map, uint32_t first, uint32_t n, uint64_t *out)
{
    if (rankmap__is_regular(map)) {
        rankmap__regular_expand(map, first, n, out);
    } else if (rankmap__is_view(map)) {
        rankmap__regular_expand(map, first, n, out);
        rankmap__gather(rankmap__table_of(map), out, n, out);
    } else if (map->kind == RANKMAP_RUNS) {
        rankmap__runs_expand(map, first, n, out);
    } else {
        rankmap__table_expand(map, first, n, out);
    }
}

void rankmap__walk_start(struct walk *w, const struct rankmap *map)
{
    w->map = map;
    w->first = w->n = 0;
}

bool rankmap__walk_next(struct walk *w)
{
    w->first += w->n;
    w->n = (uint32_t)min_u64(BLOCK, w->map->n - w->first);
    rankmap__expand(w->map, w->first, w->n, w->id);
    return w->n > 0;
}

/* Gets the ids of consecutive ranks as 32 bits each; all ids are below 2^32. */
static void expand_narrow(const struct rankmap *map, uint32_t first, uint32_t n, uint32_t *out)
{
    uint64_t ids[BLOCK];

    while (n > 0) {
        uint32_t some = n < BLOCK ? n : BLOCK;

        rankmap__expand(map, first, some, ids);
        for (uint32_t i = 0; i < some; i++)
            out[i] = (uint32_t)ids[i];
        out += some;
        first += some;
        n -= some;
    }
}

int rankmap_ids(const struct rankmap *map, uint32_t first, uint32_t n, size_t id_bytes, void *out)
{
    uint64_t min, max;

    if (!map || (id_bytes != sizeof(uint32_t) && id_bytes != sizeof(uint64_t)))
        return -EINVAL;
    if (first > map->n || n > map->n - first)
        return RANKMAP_ERANGE;
    if (n == 0)
        return 0;
    if (id_bytes == sizeof(uint64_t)) {
        rankmap__expand(map, first, n, out);
        return 0;
    }
    rankmap__bounds(map, &min, &max);
    if (max > UINT32_MAX)
        rankmap__exact_bounds(map, &min, &max);
    if (max > UINT32_MAX)
        return RANKMAP_ERANGE;
    expand_narrow(map, first, n, out);
    return 0;
}

/* Gets bounds of the ids; for a view, those of the whole table. n > 0. */
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

            *min = min_u64(*min, (uint64_t)piece_low(&p));
            *max = max_u64(*max, (uint64_t)piece_high(&p));
        }
    } else {
        *min = map->word[0];
        *max = map->word[0] + map->word[1];
    }
}

/* Gets the exact bounds of the map's ids; for a view this reads every id. n > 0. */
void rankmap__exact_bounds(const struct rankmap *map, uint64_t *min, uint64_t *max)
{
    struct walk w;

    if (!rankmap__is_view(map)) {
        rankmap__bounds(map, min, max);
        return;
    }
    *min = UINT64_MAX;
    *max = 0;
    for (rankmap__walk_start(&w, map); rankmap__walk_next(&w);)
        for (uint32_t i = 0; i < w.n; i++) {
            *min = min_u64(*min, w.id[i]);
            *max = max_u64(*max, w.id[i]);
        }
}

int64_t rankmap_rank(const struct rankmap *map, uint64_t id)
{
    if (!(map->flags & MAP_DISTINCT))
        return RANKMAP_ENOTINJECTIVE;
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

        if (!(table->flags & MAP_DISTINCT)) { /* the view may have chosen distinct ids */
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
