/* SPDX-License-Identifier: BSD-3-Clause */
/* Describes a map, in numbers and in text. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "internal.h"

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {
        [RANKMAP_DIRECT] = "direct",
        [RANKMAP_OFFSET] = "offset",
        [RANKMAP_STRIDE] = "stride",
        [RANKMAP_BLOCKSTRIDE] = "blockstride",
        [RANKMAP_MD] = "md-blockstride",
        [RANKMAP_RUNS] = "runs",
        [RANKMAP_BITMAP] = "bitmap",
        [RANKMAP_ELIAS_FANO] = "elias-fano",
        [RANKMAP_FRAMES] = "frames",
        [RANKMAP_PACKED] = "lut-packed",
        [RANKMAP_LUT32] = "lut",
        [RANKMAP_LUT_STRIDE] = "lut-stride",
        [RANKMAP_LUT_BLOCKSTRIDE] = "lut-blockstride",
    };

    return names[kind];
}

int rankmap_query(const struct rankmap *map, struct rankmap_info *info)
{
    struct rankmap_info all = {.size = sizeof(all)};
    struct shape shape;

    if (!map || !info || info->size < sizeof(all))
        return -EINVAL;
    all.size = info->size;
    all.kind = map->kind;
    all.kind_name = kind_name(map->kind);
    all.n_ranks = map->n;
    all.bits = map->bits;
    all.distinct = map->flags & MAP_DISTINCT;
    all.n_runs = map->kind == RANKMAP_RUNS ? map->aux : 0;
    all.model_bytes = rankmap__model_bytes(map);
    all.total_bytes = rankmap__bytes(map);
    all.offset = word_i64(map->word[0]);
    if (map->n > 0)
        rankmap__bounds(map, &all.min_id, &all.max_id);
    if (rankmap__is_view(map))
        all.pinned_bytes = rankmap__bytes(rankmap__table_of(map));
    if (rankmap__is_view(map) || rankmap__is_regular(map)) {
        rankmap__shape_of(map, &shape);
        all.offset = shape.o;
        all.phase = shape.phi;
        all.n_levels = shape.n_levels;
        memcpy(all.levels, shape.level, shape.n_levels * sizeof(all.levels[0]));
    }
    *info = all;
    return 0;
}

/* Text that may be longer than its buffer. */
struct text {
    char *buf;
    size_t cap, len;
};

__attribute__((format(printf, 2, 3))) static void text_add(struct text *t, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(t->len < t->cap ? t->buf + t->len : NULL, t->len < t->cap ? t->cap - t->len : 0,
                  format, args);
    va_end(args);
    t->len += n > 0 ? (size_t)n : 0;
}

/* Adds "r" or "(r + φ)", with the parentheses that its context needs. */
static void add_position(struct text *t, uint64_t phi)
{
    if (phi)
        text_add(t, "(r + %" PRIu64 ")", phi);
    else
        text_add(t, "r");
}

static void add_term(struct text *t, bool first, int64_t stride)
{
    if (first)
        text_add(t, "%s", stride < 0 ? "-" : "");
    else
        text_add(t, " %c ", stride < 0 ? '-' : '+');
    if (abs_i64(stride) != 1)
        text_add(t, "%" PRIu64 "*", abs_i64(stride));
}

static void add_shape(struct text *t, const struct shape *shape)
{
    uint64_t weight = 1;
    bool first = shape->o == 0;

    if (shape->o)
        text_add(t, "%" PRId64, shape->o);
    for (uint32_t i = 0; i < shape->n_levels; i++) {
        bool last = i + 1 == shape->n_levels;

        if (shape->level[i].stride == 0) {
            weight *= last ? 1 : shape->level[i].count;
            continue;
        }
        add_term(t, first, shape->level[i].stride);
        first = false;
        if (shape->n_levels == 1) {
            text_add(t, "r");
        } else if (weight == 1) {
            text_add(t, "(");
            add_position(t, shape->phi);
            text_add(t, " %% %" PRIu64 ")", shape->level[i].count);
        } else {
            text_add(t, last ? "(" : "((");
            add_position(t, shape->phi);
            text_add(t, " / %" PRIu64 ")", weight);
            if (!last)
                text_add(t, " %% %" PRIu64 ")", shape->level[i].count);
        }
        weight *= last ? 1 : shape->level[i].count;
    }
    if (first)
        text_add(t, "0");
}

ssize_t rankmap_describe(const struct rankmap *map, char *buf, size_t cap)
{
    struct text t = {.buf = buf, .cap = cap};
    struct rankmap_info info = {.size = sizeof(info)};
    struct shape shape;

    if (rankmap_query(map, &info) < 0 || (!buf && cap > 0))
        return -EINVAL;
    text_add(&t, "%s, %" PRIu32 " rank%s", info.kind_name, info.n_ranks,
             info.n_ranks == 1 ? "" : "s");
    if (info.n_levels > 0 && info.n_ranks > 0) {
        rankmap__shape_of(map, &shape);
        text_add(&t, rankmap__is_view(map) ? ": table[" : ": ");
        add_shape(&t, &shape);
        if (rankmap__is_view(map))
            text_add(&t, "] of %s", kind_name(rankmap__table_of(map)->kind));
    } else if (info.n_ranks > 0) {
        text_add(&t, ": ids %" PRIu64 " to %" PRIu64, info.min_id, info.max_id);
        if (info.n_runs)
            text_add(&t, " in %" PRIu32 " runs", info.n_runs);
        else if (info.bits)
            text_add(&t, ", %" PRIu32 " bits each", info.bits);
    }
    text_add(&t, "; %" PRIu64 " + %zu bytes", info.model_bytes, sizeof(*map));
    if (info.pinned_bytes)
        text_add(&t, ", %" PRIu64 " pinned", info.pinned_bytes);
    return (ssize_t)t.len;
}
