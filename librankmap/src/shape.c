/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regular models as formulas: f(r) = o + Σ sᵢ·dᵢ, where dᵢ are the digits of x = r + φ in mixed
 * radix.
 *
 * After rankmap__shape_normalize() every digit moves an id by less than 2^40 and |o| is below 2^45,
 * so that all later arithmetic cannot overflow.
 */
#include "internal.h"

uint64_t rankmap__shape_period(const struct shape *shape)
{
    uint64_t period = 1;

    for (uint32_t i = 0; i + 1 < shape->n_levels; i++)
        period *= shape->level[i].count;
    return period;
}

int64_t rankmap__shape_at(const struct shape *shape, uint64_t x)
{
    int64_t id = shape->o;

    for (uint32_t i = 0; i + 1 < shape->n_levels; i++) {
        id += (int64_t)(x % shape->level[i].count) * shape->level[i].stride;
        x /= shape->level[i].count;
    }
    return id + (int64_t)x * shape->level[shape->n_levels - 1].stride;
}

static void remove_level(struct shape *shape, uint32_t i)
{
    memmove(&shape->level[i], &shape->level[i + 1],
            (shape->n_levels - i - 1) * sizeof(shape->level[0]));
    shape->n_levels--;
}

/* Adds steps of a stride to o. Returns false if the sum overflows. */
static bool move_origin(struct shape *shape, uint64_t steps, int64_t stride)
{
    int64_t add;

    return steps <= (uint64_t)INT64_MAX && !__builtin_mul_overflow((int64_t)steps, stride, &add) &&
           !__builtin_add_overflow(shape->o, add, &shape->o);
}

/* x / y. Most quotients are 0, and the comparison is faster than a division. */
static inline uint64_t quotient_of(uint64_t x, uint64_t y)
{
    return x < y ? 0 : x / y;
}

/*
 * Moves levels above the highest changing digit into o. Also bounds the counts: afterwards the
 * product of all but the last is at most n + φ, and φ is below it.
 */
static int cut_constant_levels(struct shape *shape)
{
    uint64_t last = shape->phi + shape->n - 1, weight = 1, q0;
    uint32_t i;

    for (i = 0; i + 1 < shape->n_levels; i++) {
        uint64_t next;

        if (__builtin_mul_overflow(weight, shape->level[i].count, &next) ||
            quotient_of(shape->phi, next) == quotient_of(last, next))
            break;
        weight = next;
    }
    /* Level i is the highest that changes. It starts at q0, and the levels above no longer limit
     * its digit. */
    q0 = quotient_of(shape->phi, weight);
    if (i + 1 < shape->n_levels) {
        uint64_t rest = quotient_of(q0, shape->level[i].count), back = rest * shape->level[i].count;

        for (uint32_t k = i + 1; k < shape->n_levels && rest > 0; k++) {
            uint64_t digit = k + 1 < shape->n_levels ? rest % shape->level[k].count : rest;

            if (!move_origin(shape, digit, shape->level[k].stride))
                return RANKMAP_ERANGE;
            rest = k + 1 < shape->n_levels ? rest / shape->level[k].count : 0;
        }
        q0 -= back;
        shape->n_levels = i + 1;
    }
    if (!move_origin(shape, q0, shape->level[i].stride))
        return RANKMAP_ERANGE;
    shape->phi -= quotient_of(shape->phi, weight) * weight;
    return 0;
}

static void merge_levels(struct shape *shape)
{
    for (uint32_t i = 0; i + 1 < shape->n_levels;) {
        struct rankmap_level *low = &shape->level[i], *high = low + 1;
        int64_t step;

        if (low->count == 1) {
            remove_level(shape, i);
            i -= i > 0;
        } else if (!__builtin_mul_overflow(low->stride, (int64_t)low->count, &step) &&
                   step == high->stride) {
            if (i + 2 < shape->n_levels)
                low->count *= high->count;
            remove_level(shape, i + 1);
            i -= i > 0;
        } else {
            i++;
        }
    }
}

/* Moves whole periods of φ into o; a merged last level may have left some. */
static void reduce_phase(struct shape *shape)
{
    uint64_t period = rankmap__shape_period(shape);

    if (shape->phi < period)
        return;
    shape->o += (int64_t)(shape->phi / period) * shape->level[shape->n_levels - 1].stride;
    shape->phi %= period;
}

/*
 * If the last digit takes only two values, shortens the digit below: removes from φ the whole
 * sub-blocks before rank 0 that the part after the boundary does not need.
 */
static void trim_two_blocks(struct shape *shape)
{
    uint32_t top = shape->n_levels - 1;
    struct rankmap_level *below = &shape->level[top - 1];
    uint64_t period = rankmap__shape_period(shape), weight, after = shape->phi + shape->n - period,
             spare, cut;

    if (shape->phi + shape->n > 2 * period)
        return;
    weight = period / below->count;
    spare = below->count - (after + weight - 1) / weight;
    cut = min_u64(spare, shape->phi / weight);
    if (cut == 0)
        return;
    below->count -= cut;
    shape->phi -= cut * weight;
    shape->o += (int64_t)cut * below->stride;
    shape->level[top].stride -= (int64_t)cut * below->stride;
}

/* Checks that every digit moves ids by less than STRIDE_LIMIT. Constant levels are gone already. */
static int check_strides(const struct shape *shape)
{
    uint64_t weight = 1;

    for (uint32_t i = 0; i < shape->n_levels; i++) {
        bool is_last = i + 1 == shape->n_levels;
        uint64_t top = is_last ? (shape->phi + shape->n - 1) / weight : shape->level[i].count - 1;
        uint64_t stride = abs_i64(shape->level[i].stride), sum;

        if (__builtin_mul_overflow(stride, top, &sum) || sum >= (uint64_t)STRIDE_LIMIT)
            return RANKMAP_ERANGE;
        weight *= is_last ? 1 : shape->level[i].count;
    }
    return abs_i64(shape->o) < (uint64_t)OFFSET_LIMIT ? 0 : RANKMAP_ERANGE;
}

/*
 * Brings a shape into its simplest form and checks it. Counts are at least 1, φ + n does not
 * overflow and n_levels is 1 at least. Returns 0 or RANKMAP_ERANGE.
 */
int rankmap__shape_normalize(struct shape *shape, uint64_t id_limit)
{
    struct shape untrimmed;
    int64_t min, max;
    int rc;

    if (shape->n == 0) {
        *shape = (struct shape){.n_levels = 1, .level = {{1, 0}}};
        return 0;
    }
    rc = cut_constant_levels(shape);
    if (rc < 0)
        return rc;
    merge_levels(shape);
    rc = check_strides(shape);
    if (rc < 0)
        return rc;
    reduce_phase(shape);
    if (shape->n_levels > 1) {
        untrimmed = *shape;
        trim_two_blocks(shape);
        merge_levels(shape);
        reduce_phase(shape);
        /* if levels nest, ids differ: no rank needs a check */
        if (shape->n_levels >= 3 && !rankmap__shape_nests(shape) &&
            rankmap__shape_nests(&untrimmed))
            *shape = untrimmed;
    }
    if (shape->n_levels > 1 && shape->n == 2) {
        int64_t first = rankmap__shape_at(shape, shape->phi);

        shape->level[0].stride = rankmap__shape_at(shape, shape->phi + 1) - first;
        shape->o = first;
        shape->phi = 0;
        shape->n_levels = 1;
    }
    if (shape->n == 1)
        shape->level[0].stride = 1;
    rc = check_strides(shape);
    if (rc < 0)
        return rc;
    rankmap__shape_bounds(shape, &min, &max);
    return min < 0 || (uint64_t)max >= id_limit ? RANKMAP_ERANGE : 0;
}

/* Adds the contribution of levels 0 … n_levels-1, over all their digits, to [min, max]. */
static void full_bounds(const struct shape *shape, uint32_t n_levels, int64_t *min, int64_t *max)
{
    *min = *max = 0;
    for (uint32_t i = 0; i < n_levels; i++) {
        int64_t reach = (int64_t)(shape->level[i].count - 1) * shape->level[i].stride;

        *(reach < 0 ? min : max) += reach;
    }
}

static void widen_bounds(int64_t *min, int64_t *max, int64_t lo, int64_t hi)
{
    *min = lo < *min ? lo : *min;
    *max = hi > *max ? hi : *max;
}

/* Bounds of Σ sᵢ·dᵢ(x), i < n_levels (at least 1), for x from x0 to x1, both below the product of
 * these levels' counts. */
static void part_bounds(const struct shape *shape, uint32_t n_levels, uint64_t x0, uint64_t x1,
                        int64_t *min, int64_t *max)
{
    uint64_t weight = 1, q0, q1;
    int64_t stride = shape->level[n_levels - 1].stride, lo, hi;

    if (n_levels == 1) {
        lo = (int64_t)x0 * stride;
        hi = (int64_t)x1 * stride;
        *min = lo < hi ? lo : hi;
        *max = lo < hi ? hi : lo;
        return;
    }
    for (uint32_t i = 0; i + 1 < n_levels; i++)
        weight *= shape->level[i].count;
    q0 = quotient_of(x0, weight);
    q1 = quotient_of(x1, weight);
    x0 -= q0 * weight;
    x1 -= q1 * weight;
    part_bounds(shape, n_levels - 1, x0, q0 == q1 ? x1 : weight - 1, min, max);
    *min += (int64_t)q0 * stride;
    *max += (int64_t)q0 * stride;
    if (q0 == q1)
        return;
    part_bounds(shape, n_levels - 1, 0, x1, &lo, &hi);
    widen_bounds(min, max, lo + (int64_t)q1 * stride, hi + (int64_t)q1 * stride);
    if (q1 - q0 > 1) {
        full_bounds(shape, n_levels - 1, &lo, &hi);
        widen_bounds(min, max, lo + (int64_t)(q0 + 1) * stride, hi + (int64_t)(q0 + 1) * stride);
        widen_bounds(min, max, lo + (int64_t)(q1 - 1) * stride, hi + (int64_t)(q1 - 1) * stride);
    }
}

/* Least and greatest id; n > 0. */
void rankmap__shape_bounds(const struct shape *shape, int64_t *min, int64_t *max)
{
    part_bounds(shape, shape->n_levels, shape->phi, shape->phi + shape->n - 1, min, max);
    *min += shape->o;
    *max += shape->o;
}

/* Returns whether ⌊x·⌈2^64/W⌉ / 2^64⌋ is ⌊x/W⌋ for every x that lookups use. */
bool rankmap__shape_storable(const struct shape *shape)
{
    uint64_t weight = 1, last = shape->phi + shape->n, product;

    for (uint32_t i = 0; i + 1 < shape->n_levels; i++) {
        uint64_t excess;

        weight *= shape->level[i].count;
        /* The excess W·⌈2^64/W⌉ − 2^64 is less than W. */
        if (!__builtin_mul_overflow(last, weight, &product))
            continue;
        excess = (weight - -weight % weight) % weight;
        if (__builtin_mul_overflow(last, excess, &product))
            return false;
    }
    return shape->phi <= UINT32_MAX && weight <= UINT32_MAX;
}

/* Sorts the levels by magnitude of stride; includes a count for the last level. */
static void sort_levels(const struct shape *shape, struct rankmap_level *by_stride,
                        uint64_t *weights)
{
    uint64_t weight = 1;

    for (uint32_t i = 0; i < shape->n_levels; i++) {
        struct rankmap_level level = shape->level[i];
        uint32_t k = i;

        if (i + 1 == shape->n_levels)
            level.count = (shape->phi + shape->n - 1) / weight + 1;
        for (; k > 0 && abs_i64(by_stride[k - 1].stride) > abs_i64(level.stride); k--) {
            by_stride[k] = by_stride[k - 1];
            weights[k] = weights[k - 1];
        }
        by_stride[k] = level;
        weights[k] = weight;
        weight *= level.count;
    }
}

/*
 * Two levels with digits (q, m). If any two ranks share an id, then two ranks (q, m) and (q + t/g,
 * m − s/g) do, g = gcd(s, t): two ranks that differ by a multiple of this step are further apart,
 * and the positions between them are ranks too. So search for one such pair.
 */
static bool two_levels_distinct(const struct shape *shape)
{
    uint64_t b = shape->level[0].count, last = shape->phi + shape->n - 1;
    int64_t t = shape->level[0].stride, s = shape->level[1].stride, dq, dm, step, lo, hi;
    uint64_t g = rankmap__gcd(abs_i64(s), abs_i64(t), NULL), x0, x1, r0;

    if (g == 0)
        return false; /* both 0 */
    dq = t / (int64_t)g;
    dm = -(s / (int64_t)g);
    if (abs_i64(dm) >= b || abs_i64(dq) > last / b)
        return true;
    step = dq * (int64_t)b + dm;
    if (step < 0) {
        step = -step;
        dm = -dm;
    }
    /* A step of 0 needs |dm| ≥ b. */
    if (step == 0 || (uint64_t)step > last - shape->phi)
        return true;
    /* Bounds of m in the first of the pair. */
    lo = dm < 0 ? -dm : 0;
    hi = dm < 0 ? (int64_t)b - 1 : (int64_t)b - 1 - dm;
    x0 = shape->phi;
    x1 = last - (uint64_t)step;
    if (x1 - x0 >= b)
        return false;
    r0 = x0 % b;
    /* x0 … x1 has a remainder in [lo, hi]: r0 … r0 + (x1 − x0), which may wrap once */
    return !((r0 <= (uint64_t)hi && r0 + (x1 - x0) >= (uint64_t)lo) ||
             r0 + (x1 - x0) >= b + (uint64_t)lo);
}

bool rankmap__shape_nests(const struct shape *shape)
{
    struct rankmap_level by_stride[RANKMAP_MAX_LEVELS];
    uint64_t weights[RANKMAP_MAX_LEVELS], reach = 0;

    sort_levels(shape, by_stride, weights);
    for (uint32_t i = 0; i < shape->n_levels; i++) {
        if (abs_i64(by_stride[i].stride) <= reach)
            return false;
        reach += abs_i64(by_stride[i].stride) * (by_stride[i].count - 1);
    }
    return true;
}

int rankmap__shape_distinct(const struct shape *shape)
{
    uint64_t weight = 1;

    if (shape->n <= 1)
        return 1;
    if (shape->n_levels == 1)
        return shape->level[0].stride != 0;
    for (uint32_t i = 0; i < shape->n_levels; i++) { /* a digit without effect, in a whole block */
        weight *= i + 1 < shape->n_levels ? shape->level[i].count : 1;
        if (shape->level[i].stride == 0 && shape->n >= 2 * weight)
            return 0;
    }
    if (rankmap__shape_nests(shape))
        return 1;
    return shape->n_levels == 2 ? two_levels_distinct(shape) : -1;
}

/* State of the search for a rank. */
struct search {
    const struct rankmap_level *level; /* ascending strides, all positive */
    const uint64_t *weight;
    uint64_t reach[RANKMAP_MAX_LEVELS]; /* Σ stride·(count-1) of this level and those below it */
    const bool *flipped;
    uint64_t phi, n;
};

/* Solves the last two levels, whose strides may overlap: y = s·q + t·m. Only one remainder of q
 * modulo t/g is possible. */
static int64_t search_two(const struct search *s, uint64_t y, uint64_t x);

static uint64_t digit_weight(const struct search *s, uint32_t i, uint64_t digit)
{
    return (s->flipped[i] ? s->level[i].count - 1 - digit : digit) * s->weight[i];
}

static int64_t in_domain(const struct search *s, uint64_t x)
{
    return x >= s->phi && x - s->phi < s->n ? (int64_t)(x - s->phi) : RANKMAP_ENOENT;
}

/* Searches levels 0 … top: y is the rest of the id for them, x the position so far from the levels
 * above. */
static int64_t search_down(const struct search *s, uint32_t top, uint64_t y, uint64_t x)
{
    uint64_t stride = s->level[top].stride < 0 ? 0 : (uint64_t)s->level[top].stride, lo, hi;

    if (y > s->reach[top])
        return RANKMAP_ENOENT;
    if (top == 0)
        return y % stride ? RANKMAP_ENOENT : in_domain(s, x + digit_weight(s, 0, y / stride));
    if (top == 1 && s->reach[0] >= stride)
        return search_two(s, y, x);
    lo = y > s->reach[top - 1] ? (y - s->reach[top - 1] + stride - 1) / stride : 0;
    hi = min_u64(y / stride, s->level[top].count - 1);
    for (uint64_t digit = lo; digit <= hi; digit++) {
        int64_t rank = search_down(s, top - 1, y - digit * stride, x + digit_weight(s, top, digit));

        if (rank >= 0)
            return rank;
    }
    return RANKMAP_ENOENT;
}

static int64_t search_two(const struct search *s, uint64_t y, uint64_t x)
{
    uint64_t big = (uint64_t)s->level[1].stride, small = (uint64_t)s->level[0].stride;
    int64_t inverse;
    uint64_t g = rankmap__gcd(big, small, &inverse), period = small / g, lo, hi, digit;

    if (y % g)
        return RANKMAP_ENOENT;
    lo = y > s->reach[0] ? (y - s->reach[0] + big - 1) / big : 0;
    hi = min_u64(y / big, s->level[1].count - 1);
    /* big·digit ≡ y (mod small) */
    digit = period > 1 ? rankmap__mulmod(y / g, (uint64_t)inverse, period) : 0;
    if (digit < lo)
        digit += (lo - digit + period - 1) / period * period;
    for (; digit <= hi; digit += period) {
        int64_t rank = in_domain(s, x + digit_weight(s, 1, digit) +
                                        digit_weight(s, 0, (y - digit * big) / small));

        if (rank >= 0)
            return rank;
    }
    return RANKMAP_ENOENT;
}

/* Tries every rank. A shape with a zero stride has distinct ids only if it has few ranks. */
static int64_t scan_ranks(const struct shape *shape, int64_t id)
{
    for (uint64_t r = 0; r < shape->n; r++)
        if (rankmap__shape_at(shape, r + shape->phi) == id)
            return (int64_t)r;
    return RANKMAP_ENOENT;
}

/* Returns the rank of an id in a shape with distinct ids, or RANKMAP_ENOENT. */
int64_t rankmap__shape_rank(const struct shape *shape, int64_t id)
{
    struct rankmap_level by_stride[RANKMAP_MAX_LEVELS];
    uint64_t weights[RANKMAP_MAX_LEVELS];
    bool flipped[RANKMAP_MAX_LEVELS];
    struct search s = {.level = by_stride,
                       .weight = weights,
                       .flipped = flipped,
                       .phi = shape->phi,
                       .n = shape->n};
    int64_t least = shape->o;
    uint64_t reach = 0;

    if (shape->n == 0)
        return RANKMAP_ENOENT;
    if (shape->n_levels == 1) {
        int64_t stride = shape->level[0].stride, away = id - shape->o;

        if (stride < 0 ? away > 0 : away < 0)
            return RANKMAP_ENOENT;
        if (stride == 1)
            return (uint64_t)away < shape->n ? away : RANKMAP_ENOENT;
        return away % stride || (uint64_t)(away / stride) >= shape->n ? RANKMAP_ENOENT
                                                                      : away / stride;
    }
    sort_levels(shape, by_stride, weights);
    for (uint32_t i = 0; i < shape->n_levels; i++) {
        flipped[i] = by_stride[i].stride < 0;
        if (flipped[i]) {
            least += by_stride[i].stride * (int64_t)(by_stride[i].count - 1);
            by_stride[i].stride = -by_stride[i].stride;
        }
        if (by_stride[i].stride == 0)
            return scan_ranks(shape, id);
        reach += (uint64_t)by_stride[i].stride * (by_stride[i].count - 1);
        s.reach[i] = reach;
    }
    return id < least ? RANKMAP_ENOENT
                      : search_down(&s, shape->n_levels - 1, (uint64_t)(id - least), 0);
}
