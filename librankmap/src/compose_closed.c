/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Closed composition: the shape of p∘c from the shapes of p and c, without reading a rank.
 *
 * Let P be the product of p's counts except the last. For a child o_c + s·r, split s = k·P + g with
 * |g| < P. Then p(x + k·P·r) = p(x) + s_L·k·r. The rest, p∘(o_c + g·r), is closed if g = W·c, where
 * W is the product of some of p's lowest counts and c divides the next count. A negative g is the
 * reversal of a positive one.
 *
 * A child of several levels is a sum of digits times strides. p of that sum is the sum of p's
 * values unless a digit of p carries. So the code spreads each child level over the digits of p,
 * and keeps the largest value that each digit can reach.
 */
#include "internal.h"

#define MAX_WORK 24u /* intermediate levels, before equal ones are merged */

/* Reverses a shape: r → n−1−r. n > 0. */
void rankmap__shape_reverse(struct shape *shape)
{
    uint64_t period = rankmap__shape_period(shape), last = shape->n - 1 + shape->phi;
    uint32_t top = shape->n_levels - 1;

    shape->o += (int64_t)(last / period) * shape->level[top].stride;
    for (uint32_t i = 0; i < top; i++)
        shape->o += (int64_t)(shape->level[i].count - 1) * shape->level[i].stride;
    for (uint32_t i = 0; i <= top; i++)
        shape->level[i].stride = -shape->level[i].stride;
    shape->phi = period - 1 - last % period;
}

/* Adds slope·r to a shape. */
static bool add_slope(struct shape *shape, int64_t slope)
{
    int64_t weight = 1, add;

    for (uint32_t i = 0; i < shape->n_levels; i++) {
        if (__builtin_mul_overflow(slope, weight, &add) ||
            __builtin_add_overflow(shape->level[i].stride, add, &shape->level[i].stride))
            return false;
        if (i + 1 < shape->n_levels &&
            __builtin_mul_overflow(weight, (int64_t)shape->level[i].count, &weight))
            return false;
    }
    return !__builtin_mul_overflow(slope, (int64_t)shape->phi, &add) &&
           !__builtin_sub_overflow(shape->o, add, &shape->o);
}

/* Composes p∘(x + g·r) in positions of p (x includes φ), 0 < g < P. */
static bool small_steps(const struct shape *p, uint64_t x, uint64_t g, uint32_t n,
                        struct shape *out)
{
    uint64_t weight = 1, low, step;
    uint32_t j = 0;

    while (j + 1 < p->n_levels && weight * p->level[j].count <= g)
        weight *= p->level[j++].count;
    if (j + 1 >= p->n_levels || g % weight)
        return false;
    step = g / weight;
    if (p->level[j].count % step)
        return false;
    *out = (struct shape){.o = p->o, .n = n, .n_levels = p->n_levels - j};
    low = x % weight;
    for (uint32_t i = 0; i < j; i++) {
        out->o += (int64_t)(low % p->level[i].count) * p->level[i].stride;
        low /= p->level[i].count;
    }
    x /= weight;
    out->o += (int64_t)(x % step) * p->level[j].stride;
    memcpy(out->level, &p->level[j], out->n_levels * sizeof(out->level[0]));
    out->level[0].count /= step;
    out->level[0].stride *= (int64_t)step;
    out->phi = x / step;
    return true;
}

/* Reduces a position, possibly negative, to p's first period; *add gets the value of the whole
 * periods. Returns false if that overflows: a position far before p's first, as a try may have. */
static bool into_first_period(const struct shape *p, int64_t x, uint64_t period, uint64_t *start,
                              int64_t *add)
{
    int64_t periods = x / (int64_t)period;

    if (x % (int64_t)period < 0)
        periods--;
    *start = (uint64_t)x - (uint64_t)periods * period;
    return !__builtin_mul_overflow(periods, p->level[p->n_levels - 1].stride, add);
}

/* Composes p∘(x + s·r); x is a position of p. */
static bool affine_child(const struct shape *p, int64_t x, int64_t s, uint32_t n, struct shape *out)
{
    uint64_t period = rankmap__shape_period(p);
    int64_t k = s / (int64_t)period, g = s % (int64_t)period, add, slope;

    for (int attempt = 0; attempt < 2; attempt++) {
        int64_t reach = 0, from;
        uint64_t start;
        bool closed = true;

        if (g < 0 && __builtin_mul_overflow(g, (int64_t)(n - 1), &reach))
            return false;
        from = x + reach;
        if (!into_first_period(p, from, period, &start, &add))
            return false;
        if (g == 0)
            *out = (struct shape){
                .o = rankmap__shape_at(p, start), .n = n, .n_levels = 1, .level = {{0, 0}}};
        else
            closed = small_steps(p, start, abs_i64(g), n, out);
        if (closed) {
            out->o += add;
            if (g < 0)
                rankmap__shape_reverse(out);
            return !__builtin_mul_overflow(k, p->level[p->n_levels - 1].stride, &slope) &&
                   add_slope(out, slope);
        }
        k += g < 0 ? -1 : 1; /* the other way to write s */
        g += g < 0 ? (int64_t)period : -(int64_t)period;
    }
    return false;
}

/* Levels of the result while a child of several levels is spread over p. */
struct work {
    struct rankmap_level level[MAX_WORK];
    uint32_t n_levels;
    uint64_t used[RANKMAP_MAX_LEVELS]; /* the largest value that each digit of p can reach */
    int64_t o;
};

static bool work_add(struct work *w, uint64_t count, int64_t stride, bool flipped)
{
    int64_t reach;

    if (w->n_levels == MAX_WORK || __builtin_mul_overflow((int64_t)(count - 1), stride, &reach) ||
        (flipped && __builtin_add_overflow(w->o, reach, &w->o)))
        return false;
    w->level[w->n_levels++] = (struct rankmap_level){flipped ? -stride : stride, count};
    return true;
}

/* Spreads one level of the child: `count` steps of `stride` positions of p. */
static bool spread_level(const struct shape *p, struct work *w, uint64_t stride, uint64_t count,
                         bool flipped, bool is_last)
{
    uint64_t weight = 1;
    uint32_t j = 0;

    while (j + 1 < p->n_levels && weight * p->level[j].count <= stride)
        weight *= p->level[j++].count;
    if (stride % weight)
        return false;
    for (;; j++) {
        uint64_t step = stride / weight, m;
        int64_t id_step;

        if (__builtin_mul_overflow((int64_t)step, p->level[j].stride, &id_step))
            return false;
        if (j + 1 == p->n_levels)
            return work_add(w, count, id_step, flipped);
        if (count - 1 <= (p->level[j].count - 1 - w->used[j]) / step) {
            w->used[j] += step * (count - 1);
            return work_add(w, count, id_step, flipped);
        }
        if (p->level[j].count % step)
            return false;
        m = p->level[j].count / step;
        if (w->used[j] + (m - 1) * step > p->level[j].count - 1)
            return false;
        if (count % m && (flipped || !is_last))
            return false;
        w->used[j] += (m - 1) * step;
        if (m > 1 && !work_add(w, m, id_step, flipped))
            return false;
        count = (count + m - 1) / m;
        weight *= p->level[j].count;
        stride = weight;
    }
}

static bool layered_child(const struct shape *p, const struct shape *c, struct shape *out)
{
    uint64_t period = rankmap__shape_period(p), start, x;
    uint64_t c_top = (c->phi + c->n - 1) / rankmap__shape_period(c) + 1;
    struct work w = {.n_levels = 0};
    int64_t from = c->o + (int64_t)p->phi, add;
    struct shape merged = {.n = c->n, .phi = c->phi};

    for (uint32_t i = 0; i < c->n_levels; i++)
        if (c->level[i].stride < 0)
            from += c->level[i].stride *
                    (int64_t)((i + 1 < c->n_levels ? c->level[i].count : c_top) - 1);
    if (!into_first_period(p, from, period, &start, &add))
        return false;
    x = start;
    for (uint32_t i = 0; i + 1 < p->n_levels; i++) {
        w.used[i] = x % p->level[i].count;
        x /= p->level[i].count;
    }
    w.o = rankmap__shape_at(p, start) + add;
    for (uint32_t i = 0; i < c->n_levels; i++) {
        bool is_last = i + 1 == c->n_levels;

        if (c->level[i].stride == 0) { /* a child with duplicate ids */
            if (!work_add(&w, is_last ? c_top : c->level[i].count, 0, false))
                return false;
        } else if (!spread_level(p, &w, abs_i64(c->level[i].stride),
                                 is_last ? c_top : c->level[i].count, c->level[i].stride < 0,
                                 is_last)) {
            return false;
        }
    }
    merged.o = w.o;
    for (uint32_t i = 0; i < w.n_levels; i++) {
        struct rankmap_level *below =
            merged.n_levels > 0 ? &merged.level[merged.n_levels - 1] : NULL;
        int64_t next;

        if (below && !__builtin_mul_overflow(below->stride, (int64_t)below->count, &next) &&
            next == w.level[i].stride)
            below->count *= w.level[i].count;
        else if (merged.n_levels == RANKMAP_MAX_LEVELS)
            return false;
        else
            merged.level[merged.n_levels++] = w.level[i];
    }
    *out = merged;
    return true;
}

int rankmap__closure(const struct shape *p, const struct shape *c, struct shape *out)
{
    if (c->n <= 1) {
        *out = (struct shape){.n = c->n, .n_levels = 1, .level = {{1, 0}}};
        if (c->n == 1)
            out->o = rankmap__shape_at(p, (uint64_t)rankmap__shape_at(c, c->phi) + p->phi);
        return 1;
    }
    if (p->n_levels == 1) {
        int64_t slope = p->level[0].stride;

        *out = *c;
        if (__builtin_mul_overflow(slope, c->o, &out->o) ||
            __builtin_add_overflow(p->o, out->o, &out->o))
            return 0;
        for (uint32_t i = 0; i < c->n_levels; i++)
            if (__builtin_mul_overflow(slope, c->level[i].stride, &out->level[i].stride))
                return 0;
        return 1;
    }
    if (c->n_levels == 1)
        return affine_child(p, c->o + (int64_t)p->phi, c->level[0].stride, c->n, out);
    return layered_child(p, c, out);
}
