/* SPDX-License-Identifier: BSD-3-Clause */
/* Arithmetic progressions: where two of them meet (Chinese remainder theorem). */
#include "internal.h"

/* Greatest common divisor of a and b; x may be NULL, else b is at least 1. */
uint64_t rankmap__gcd(uint64_t a, uint64_t b, int64_t *x)
{
    uint64_t r0 = a, r1 = b;
    int64_t x0 = 1, x1 = 0;

    while (r1 != 0) {
        uint64_t q = r0 / r1, r2 = r0 - q * r1;
        int64_t x2 = x0 - (int64_t)q * x1; /* |x| ≤ b / gcd, except the last, unused one */

        r0 = r1;
        r1 = r2;
        x0 = x1;
        x1 = x2;
    }
    if (x)
        *x = x0 < 0 ? x0 + (int64_t)b : x0;
    return r0;
}

uint64_t rankmap__mulmod(uint64_t a, uint64_t b, uint64_t modulus)
{
    uint64_t product, sum = 0;

    a %= modulus;
    b %= modulus;
    if (!__builtin_mul_overflow(a, b, &product))
        return product % modulus;
    for (; a != 0; a >>= 1, b = b * 2 % modulus)
        if (a & 1)
            sum = (sum + b) % modulus;
    return sum;
}

/* Returns the least index with an id of at least `bound`, in a progression with stride > 0. */
static uint64_t index_from(int64_t first, uint64_t stride, int64_t bound)
{
    return bound <= first ? 0 : ((uint64_t)(bound - first) + stride - 1) / stride;
}

/* rankmap__piece_meet() for non-empty pieces without duplicates. */
static bool pieces_meet(const struct piece *a, const struct piece *b, struct piece *index_of_a)
{
    uint64_t sa = a->n > 1 ? abs_i64(a->stride) : 1, sb = b->n > 1 ? abs_i64(b->stride) : 1;
    bool down = a->n > 1 && a->stride < 0;
    int64_t a_low = piece_low(a), b_low = piece_low(b), b_high = piece_high(b), inverse, delta;
    uint64_t g, period, from, to, start;

    from = index_from(a_low, sa, b_low);
    if (b_high < a_low || from >= a->n)
        return false;
    to = min_u64(a->n - 1, (uint64_t)(b_high - a_low) / sa); /* inclusive */
    start = 0;
    period = 1;
    if (sb > 1) { /* sa·i ≡ b_low − a_low (mod sb) */
        g = rankmap__gcd(sa % sb, sb, &inverse);
        delta = (b_low - a_low) % (int64_t)sb;
        if (delta < 0)
            delta += (int64_t)sb;
        if ((uint64_t)delta % g)
            return false;
        period = sb / g;
        start = rankmap__mulmod((uint64_t)delta / g, (uint64_t)inverse, period);
    }
    if (start < from)
        start += (from - start + period - 1) / period * period;
    if (start > to)
        return false;
    index_of_a->n = (to - start) / period + 1;
    index_of_a->stride = (int64_t)period;
    index_of_a->first = (int64_t)(down ? a->n - 1 - (start + (index_of_a->n - 1) * period) : start);
    return true;
}

/*
 * Finds the elements of a that b has. Their indices in a are a progression too, with a positive
 * stride. Ids are within ±2^45, strides below 2^40. Returns false if there are none.
 */
bool rankmap__piece_meet(const struct piece *a, const struct piece *b, struct piece *index_of_a)
{
    struct piece one_a = {a->first, 1, 1}, one_b = {b->first, 1, 1};

    if (a->n == 0 || b->n == 0)
        return false;
    if (b->stride == 0)
        b = &one_b;
    if (a->stride != 0)
        return pieces_meet(a, b, index_of_a);
    if (!pieces_meet(&one_a, b, index_of_a))
        return false;
    *index_of_a = (struct piece){0, 1, a->n}; /* a has one id: all its elements or none */
    return true;
}
