/* SPDX-License-Identifier: BSD-3-Clause */
/* The inverse of tables: dense or hashed; sets for membership; equal ids. */
#include <errno.h>

#include "internal.h"

#define DENSE_FACTOR 4u /* ids of the range for each rank, up to which the inverse is an array */
#define BITMAP_FACTOR 64u /* the same for a set with a bit an id */
#define BITMAP_ALWAYS (UINT64_C(1) << 16)

struct rankmap_index {
    const struct rankmap_allocator *alloc;
    const struct rankmap *map;
    struct rankmap *held; /* the same, when this has a reference */
    uint64_t min, range;  /* dense: slot id − min */
    uint32_t *slot;      /* rank + 1, 0: none; NULL: the map is asked */
    size_t n_slots;      /* hashed: a power of two */
    bool dense;
};

static size_t hash_of(uint64_t id, size_t n_slots)
{
    return (size_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (n_slots - 1);
}

static size_t hash_slots(uint64_t n)
{
    size_t slots = 16;

    while (slots < 2 * n)
        slots *= 2;
    return slots;
}

/* Sorts by the bits low_bit … high_bit-1, stably; scratch has room for n. */
void rankmap__sort(uint64_t *keys, uint64_t *scratch, size_t n, unsigned low_bit, unsigned high_bit)
{
    uint64_t *from = keys, *to = scratch, *swap;

    for (unsigned shift = low_bit; shift < high_bit && n > 1; shift += 8) {
        size_t at[257] = {0};

        for (size_t i = 0; i < n; i++)
            at[(from[i] >> shift & 0xff) + 1]++;
        if (at[(from[0] >> shift & 0xff) + 1] == n)
            continue; /* all alike */
        for (unsigned d = 0; d < 256; d++)
            at[d + 1] += at[d];
        for (size_t i = 0; i < n; i++)
            to[at[from[i] >> shift & 0xff]++] = from[i];
        swap = from;
        from = to;
        to = swap;
    }
    if (from != keys)
        memcpy(keys, from, n * sizeof(*keys));
}

static bool bitmap_pays(uint64_t range, uint64_t n)
{
    return range < BITMAP_ALWAYS || range / BITMAP_FACTOR < n;
}

static size_t bitmap_words(uint64_t range)
{
    return (size_t)(range / 64 + 1);
}

static int distinct_by_bits(const struct rankmap_allocator *alloc, const struct ids *ids, uint64_t min, uint64_t range)
{
    size_t n_words = bitmap_words(range);
    uint64_t *bits = rankmap__alloc(alloc, n_words, sizeof(*bits));
    uint64_t twice = 0;

    if (!bits)
        return -ENOMEM;
    memset(bits, 0, n_words * sizeof(*bits));
    for (size_t i = 0; i < ids->n; i++) {
        uint64_t at = ids_get(ids, i) - min, bit = UINT64_C(1) << at % 64;

        twice |= bits[at / 64] & bit;
        bits[at / 64] |= bit;
    }
    rankmap__free(alloc, bits, n_words, sizeof(*bits));
    return twice == 0;
}

static int distinct_by_sort(const struct rankmap_allocator *alloc, const struct ids *ids, uint64_t min, uint64_t range)
{
    size_t n = ids->n;
    uint64_t *keys = rankmap__alloc(alloc, 2 * n, sizeof(*keys)), twice = 0;

    if (!keys)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        keys[i] = ids_get(ids, i) - min;
    rankmap__sort(keys, keys + n, n, 0, rankmap__bit_length(range));
    for (size_t i = 1; i < n; i++)
        twice |= keys[i] == keys[i - 1];
    rankmap__free(alloc, keys, 2 * n, sizeof(*keys));
    return !twice;
}

/* 1 when no id comes twice, 0 when one does, or -ENOMEM. */
int rankmap__check_distinct(const struct rankmap_allocator *alloc, const struct ids *ids, uint64_t min, uint64_t max)
{
    if (max - min < ids->n - 1)
        return 0;
    if (bitmap_pays(max - min, ids->n))
        return distinct_by_bits(alloc, ids, min, max - min);
    return distinct_by_sort(alloc, ids, min, max - min);
}

/* The same of a map whose parameters do not tell. */
int rankmap__map_distinct(const struct rankmap_allocator *alloc, const struct rankmap *map)
{
    uint64_t *a = rankmap__alloc(alloc, map->n, sizeof(*a)), min, max;
    struct ids ids = {.a64 = a, .n = map->n};
    int distinct;

    if (!a)
        return -ENOMEM;
    rankmap__expand(map, 0, map->n, a);
    rankmap__bounds(map, &min, &max);
    distinct = map->n <= 1 ? 1 : rankmap__check_distinct(alloc, &ids, min, max);
    rankmap__free(alloc, a, map->n, sizeof(*a));
    return distinct;
}

/* Whether rankmap_rank() needs no help. */
bool rankmap__rank_is_quick(const struct rankmap *map)
{
    if (rankmap__is_view(map))
        return false;
    if (rankmap__is_regular(map)) {
        struct shape shape;

        rankmap__shape_of(map, &shape);
        return shape.n_levels <= 2 || rankmap__shape_nests(&shape);
    }
    return map->kind == RANKMAP_BITMAP || map->kind == RANKMAP_ELIAS_FANO ||
           (map->kind == RANKMAP_RUNS && (map->flags & MAP_ASCENDING || map->aux <= 8)) || map->n <= 8;
}

static int index_fill(struct rankmap_index *index)
{
    const struct rankmap *map = index->map;
    uint64_t ids[BLOCK], max;

    rankmap__bounds(map, &index->min, &max);
    index->range = max - index->min;
    index->dense = index->range / DENSE_FACTOR < map->n;
    index->n_slots = index->dense ? (size_t)index->range + 1 : hash_slots(map->n);
    index->slot = rankmap__alloc(index->alloc, index->n_slots, sizeof(*index->slot));
    if (!index->slot)
        return -ENOMEM;
    memset(index->slot, 0, index->n_slots * sizeof(*index->slot));
    for (uint32_t done = 0; done < map->n;) {
        uint32_t some = (uint32_t)min_u64(BLOCK, map->n - done);

        rankmap__expand(map, done, some, ids);
        for (uint32_t i = 0; i < some; i++) {
            size_t at = index->dense ? (size_t)(ids[i] - index->min) : hash_of(ids[i], index->n_slots);

            while (index->slot[at] != 0)
                at = (at + 1) & (index->n_slots - 1);
            index->slot[at] = done + i + 1;
        }
        done += some;
    }
    return 0;
}

/* An index that holds no reference; `fill` makes slots even where the map is quick, if they are dense. */
int rankmap__index_new(const struct rankmap *map, const struct rankmap_allocator *alloc, bool fill, struct rankmap_index **out)
{
    struct rankmap_index *index;
    uint64_t min, max;
    int rc;

    if (!(map->flags & MAP_DISTINCT))
        return RANKMAP_ENOTONE;
    if (fill) {
        rankmap__bounds(map, &min, &max);
        fill = (max - min) / DENSE_FACTOR < map->n;
    }
    index = rankmap__alloc(alloc, 1, sizeof(*index));
    if (!index)
        return -ENOMEM;
    *index = (struct rankmap_index){.alloc = alloc, .map = map};
    if ((fill || !rankmap__rank_is_quick(map)) && (rc = index_fill(index)) < 0) {
        rankmap__free(alloc, index, 1, sizeof(*index));
        return rc;
    }
    *out = index;
    return 0;
}

int rankmap_index_create(struct rankmap *map, const struct rankmap_allocator *alloc, struct rankmap_index **out)
{
    struct rankmap_index *index;
    int rc;

    if (!map || !out || (alloc && (!alloc->alloc || !alloc->free)))
        return -EINVAL;
    rc = rankmap__index_new(map, alloc ? alloc : &rankmap__libc, false, &index);
    if (rc < 0)
        return rc;
    index->held = rankmap_ref(map);
    *out = index;
    return 0;
}

void rankmap_index_destroy(struct rankmap_index *index)
{
    if (!index)
        return;
    rankmap__free(index->alloc, index->slot, index->n_slots, sizeof(*index->slot));
    rankmap_unref(index->held);
    rankmap__free(index->alloc, index, 1, sizeof(*index));
}

int64_t rankmap_index_rank(const struct rankmap_index *index, uint64_t id)
{
    if (!index->slot)
        return rankmap_rank(index->map, id);
    if (index->dense) {
        uint64_t at = id - index->min;

        return at <= index->range && index->slot[at] != 0 ? (int64_t)index->slot[at] - 1 : RANKMAP_ENOENT;
    }
    for (size_t at = hash_of(id, index->n_slots); index->slot[at] != 0; at = (at + 1) & (index->n_slots - 1))
        if (rankmap_id(index->map, index->slot[at] - 1) == id)
            return (int64_t)index->slot[at] - 1;
    return RANKMAP_ENOENT;
}

size_t rankmap_index_bytes(const struct rankmap_index *index)
{
    return sizeof(*index) + index->n_slots * sizeof(*index->slot);
}

/* A set for asking about n_asked ids; map is not empty and outlives it. */
int rankmap__members_init(struct members *m, const struct rankmap_allocator *alloc, const struct rankmap *map, uint64_t n_asked)
{
    bool affine = rankmap__is_regular(map) && map->n_levels == 1;
    uint64_t ids[BLOCK];

    *m = (struct members){.alloc = alloc, .map = map};
    rankmap__bounds(map, &m->min, &m->max);
    if (affine || (rankmap__rank_is_quick(map) && n_asked < map->n / 16))
        return 0;
    if (!bitmap_pays(m->max - m->min, n_asked + map->n))
        return rankmap__index_new(map, alloc, false, &m->index);
    m->n_words = bitmap_words(m->max - m->min);
    m->bits = rankmap__alloc(alloc, m->n_words, sizeof(*m->bits));
    if (!m->bits)
        return -ENOMEM;
    memset(m->bits, 0, m->n_words * sizeof(*m->bits));
    for (uint32_t done = 0; done < map->n;) {
        uint32_t some = (uint32_t)min_u64(BLOCK, map->n - done);

        rankmap__expand(map, done, some, ids);
        for (uint32_t i = 0; i < some; i++)
            m->bits[(ids[i] - m->min) / 64] |= UINT64_C(1) << (ids[i] - m->min) % 64;
        done += some;
    }
    return 0;
}

void rankmap__members_fini(struct members *m)
{
    rankmap__free(m->alloc, m->bits, m->n_words, sizeof(*m->bits));
    rankmap_index_destroy(m->index);
}

bool rankmap__members_has(const struct members *m, uint64_t id)
{
    if (id < m->min || id > m->max)
        return false;
    if (m->bits)
        return m->bits[(id - m->min) / 64] >> (id - m->min) % 64 & 1;
    return (m->index ? rankmap_index_rank(m->index, id) : rankmap_rank(m->map, id)) >= 0;
}
