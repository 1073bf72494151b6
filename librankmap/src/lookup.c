/* SPDX-License-Identifier: BSD-3-Clause */
/* Lookups: see rankmap/lookup.h. */
#include <errno.h>

#include "internal.h"

static const uint64_t no_table[2]; /* what the branch-free form reads where there is no table */

int rankmap_lookup_init(struct rankmap_lookup *lookup, const struct rankmap *map, uint64_t base, uint32_t width)
{
    struct rankmap_lookup l = {.bent = 1, .form = RANKMAP_FORM_OTHER, .base = base, .table = no_table, .map = map, .width = width};
    const struct rankmap *table = map;
    struct shape shape;
    uint64_t first = 0;

    if (!lookup || !map || width == 0 || width > RANKMAP_MAX_WIDTH)
        return -EINVAL;
    if (map->kind == RANKMAP_LUT_STRIDE && map->word[2] == 1) { /* a stretch of a table is a table */
        table = rankmap__table_of(map);
        first = map->word[1];
    }
    if (rankmap__shape_if(map, &shape) && shape.n_levels <= 2 && rankmap__shape_storable(&shape)) {
        uint64_t words[5];

        rankmap__shape_words(&shape, words);
        l.bent = shape.n_levels == 2;
        l.form = l.bent ? RANKMAP_FORM_BLOCK : RANKMAP_FORM_AFFINE;
        l.base = base + words[0] * width;
        l.step = words[1] * width;
        if (l.bent) {
            l.phase = (uint32_t)words[2];
            l.magic = words[3];
            l.jump = words[4] * width;
        }
    } else if (table->kind == RANKMAP_LUT32) {
        l.form = RANKMAP_FORM_LUT32;
        l.base = base + table->word[0] * width;
        l.table = (const uint32_t *)(table->word + 2) + first;
        l.mask = UINT32_MAX;
    } else if (map->kind == RANKMAP_PACKED) {
        l.form = RANKMAP_FORM_PACKED;
        l.base = base + map->word[0] * width;
        l.step = (UINT64_C(1) << map->bits) - 1;
        l.jump = map->bits;
        l.table = map->word + 2;
    }
    *lookup = l;
    return 0;
}

uint64_t rankmap_at_other(const struct rankmap_lookup *lookup, uint32_t rank)
{
    if (lookup->form == RANKMAP_FORM_PACKED)
        return rankmap_at_packed(lookup, rank, lookup->width);
    return lookup->base + rankmap_id(lookup->map, rank) * lookup->width;
}

void rankmap_at_many(const struct rankmap_lookup *l, const uint32_t *ranks, size_t n, uint64_t *out)
{
    switch (l->form) {
    case RANKMAP_FORM_AFFINE:
        for (size_t i = 0; i < n; i++)
            out[i] = rankmap_at_affine(l, ranks[i]);
        break;
    case RANKMAP_FORM_BLOCK:
        for (size_t i = 0; i < n; i++)
            out[i] = rankmap_at_phased(l, ranks[i]);
        break;
    case RANKMAP_FORM_LUT32:
        for (size_t i = 0; i < n; i++)
            out[i] = rankmap_at_lut32(l, ranks[i], l->width);
        break;
    case RANKMAP_FORM_PACKED:
        for (size_t i = 0; i < n; i++)
            out[i] = rankmap_at_packed(l, ranks[i], l->width);
        break;
    default:
        for (size_t i = 0; i < n; i++)
            out[i] = rankmap_at_other(l, ranks[i]);
    }
}
