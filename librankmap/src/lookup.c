/* SPDX-License-Identifier: BSD-3-Clause */
/* Lookups: see rankmap/lookup.h. */
#include <errno.h>

#include "internal.h"

static const uint32_t no_table; /* the branch-free form reads this if the lookup has no table */

/* guard of forms that are not affine: negative as an int64_t, and so is guard + r·step for r·step
 * within ±2^62 */
#define BENT       (UINT64_C(3) << 62)
#define STEP_LIMIT (UINT64_C(1) << 62)

/* Sets up one or two levels. Returns false if r·step could leave its limits. */
static bool init_shape(struct rankmap_lookup *l, const struct shape *shape)
{
    uint64_t words[5];

    rankmap__shape_store(words, shape);
    if (shape->n_levels == 2 && abs_i64(word_i64(words[1])) > STEP_LIMIT / l->width / shape->n)
        return false;
    l->form = RANKMAP_FORM_AFFINE;
    l->base += words[0] * l->width;
    l->step = words[1] * l->width;
    l->table = &no_table;
    l->mask = 0;
    if (shape->n_levels == 1) {
        l->guard = l->base;
        return true;
    }
    l->form = words[2] == 0 ? RANKMAP_FORM_BLOCK : RANKMAP_FORM_PHASED;
    l->mask = words[2] == 0 ? 0 : RANKMAP_MASK_SLOW;
    l->phase = (uint32_t)words[2];
    l->magic = words[3];
    l->jump = words[4] * l->width;
    return true;
}

int rankmap_lookup_init(struct rankmap_lookup *lookup, const struct rankmap *map, uint64_t base,
                        uint32_t width)
{
    struct rankmap_lookup l = {.guard = BENT,
                               .form = RANKMAP_FORM_SLOW,
                               .base = base,
                               .table = map,
                               .width = width,
                               .mask = RANKMAP_MASK_SLOW};
    const struct rankmap *table = map;
    struct shape shape;
    uint64_t first = 0;
    bool regular;

    if (!lookup || !map || width == 0 || width > RANKMAP_MAX_WIDTH)
        return -EINVAL;
    /* A stretch of a table is a table. */
    if (map->kind == RANKMAP_LUT_STRIDE && map->word[2] == 1) {
        table = rankmap__table_of(map);
        first = map->word[1];
    }
    regular = rankmap__shape_if(map, &shape) && shape.n_levels <= 2 &&
              rankmap__shape_storable(&shape) && init_shape(&l, &shape);
    if (!regular && table->kind == RANKMAP_LUT32) {
        l.form = RANKMAP_FORM_LUT32;
        l.base = base + table->word[0] * width;
        l.table = (const uint32_t *)(table->word + 2) + first;
        l.mask = UINT32_MAX;
    } else if (!regular && map->kind == RANKMAP_PACKED) {
        l.form = RANKMAP_FORM_PACKED;
        l.base = base + map->word[0] * width;
        l.magic = (UINT64_C(1) << map->bits) - 1;
        l.jump = map->bits;
        l.table = map->word + 2;
    }
    *lookup = l;
    return 0;
}

uint64_t rankmap_lookup_at(const struct rankmap_lookup *l, uint32_t rank)
{
    if (l->form == RANKMAP_FORM_PACKED)
        return rankmap_at_form(l, RANKMAP_FORM_PACKED, rank, l->width);
    if (l->form == RANKMAP_FORM_SLOW)
        return l->base + rankmap_id((const struct rankmap *)l->table, rank) * l->width;
    if (l->form == RANKMAP_FORM_LUT32)
        return rankmap_at_form(l, RANKMAP_FORM_LUT32, rank, l->width);
    return rankmap_at_form(l, RANKMAP_FORM_PHASED, rank, l->width);
}
