/* SPDX-License-Identifier: BSD-3-Clause */
/* Storage of the regular models, in maps and in views: see struct rankmap. */
#include "internal.h"

/* Returns the words of the regular part. */
static const uint64_t *regular_words(const struct rankmap *map)
{
    return map->word + rankmap__is_view(map);
}

size_t rankmap__regular_bytes(uint32_t n_levels)
{
    return n_levels == 1 ? 16 : 8 + 16 * (size_t)n_levels;
}

/* ⌈2^64/weight⌉; weight is 2 at least. */
static uint64_t magic_of(uint64_t weight)
{
    return -weight / weight + 1 + (-weight % weight != 0);
}

/* Recovers the weight from its magic: ⌈2^64/magic⌉, exact for weights below 2^32. */
static uint64_t weight_of(uint64_t magic)
{
    return magic_of(magic);
}

void rankmap__shape_store(uint64_t *w, const struct shape *shape)
{
    uint64_t weight = 1;

    w[0] = (uint64_t)shape->o + shape->phi * (uint64_t)shape->level[0].stride; /* modulo 2^64 */
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

    shape->n = map->n;
    shape->n_levels = map->n_levels;
    shape->o = word_i64(w[0]);
    shape->phi = 0;
    shape->level[0] = (struct rankmap_level){word_i64(w[1]), 0};
    if (map->n_levels == 1)
        return;
    shape->phi = w[2];
    shape->o = word_i64(w[0] - shape->phi * w[1]);
    for (uint32_t i = 1; i < map->n_levels; i++) {
        struct rankmap_level *below = &shape->level[i - 1];
        uint64_t next = weight_of(w[1 + 2 * i]);

        below->count = next / weight;
        weight = next;
        shape->level[i] = (struct rankmap_level){
            word_i64(w[2 + 2 * i]) + (int64_t)below->count * below->stride, 0};
    }
}

void rankmap__regular_expand(const struct rankmap *map, uint32_t first, uint32_t n, uint64_t *out)
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
        uint64_t id = rankmap__regular_id(w, map->n_levels, first);

        for (uint32_t i = 0; i < run; i++)
            out[i] = id + i * stride;
        out += run;
        first += run;
        n -= run;
        skip = 0;
    }
}
