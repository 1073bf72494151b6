/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Property: the closed rules alone, on shapes that are too large for arrays: their answers equal
 * p(c(r)) for every tried rank, and every shape that the header promises to be closed is closed.
 */
#include "rankmap_random.h"

#include "../../librankmap/src/internal.h"

static uint64_t n_cases, n_affine, n_layered, n_closed_affine, n_closed_layered;

/* 0 for a divisor of 0. */
static uint64_t divisor_of(uint64_t n)
{
    uint64_t d = 1 + below(n);

    while (n % d)
        d--;
    return d;
}

static void random_parent(struct formula *p)
{
    uint64_t period;

    do {
        random_grid(p, 1 + (uint32_t)below(4), below(2) ? 1 + below(40) : 1 + below(8), 1000);
        period = formula_period(p);
    } while (period > 100000);
    p->n = (uint32_t)(period * (1 + below(1000)) + below(period));
    p->phi = below(2) ? below(period) : 0;
    p->o += INT64_C(1) << 38;
}

/* A child whose strides derive from the parent's counts: most of these are closed. */
static void related_child(struct formula *c, const struct formula *p, uint32_t n_levels)
{
    memset(c, 0, sizeof(*c));
    c->n_levels = n_levels;
    for (uint32_t i = 0; i < n_levels; i++) {
        uint64_t weight = 1;
        uint32_t j = (uint32_t)below(p->n_levels);

        for (uint32_t k = 0; k < j; k++)
            weight *= p->level[k].count;
        c->level[i].stride = (int64_t)(weight * (j + 1 < p->n_levels ? divisor_of(p->level[j].count)
                                                                     : 1 + below(9)));
        if (below(3) == 0)
            c->level[i].stride += (int64_t)(formula_period(p) * below(4));
        if (below(4) == 0)
            c->level[i].stride += below(2) ? 1 : -1;
        if (below(3) == 0)
            c->level[i].stride = -c->level[i].stride;
        c->level[i].count = 1 + below(6);
    }
    c->phi = below(2) ? below(formula_period(c)) : 0;
    c->n = (uint32_t)(1 + below(200));
}

/* Moves a child so that all of its ids are ranks of the parent; false when it is too large. */
static bool place(struct formula *c, uint32_t n_p)
{
    int64_t min = INT64_MAX, max = INT64_MIN;

    for (uint32_t r = 0; r < c->n; r++) {
        int64_t id = formula_id(c, r);

        min = id < min ? id : min;
        max = id > max ? id : max;
    }
    if (max - min >= (int64_t)n_p)
        return false;
    c->o += between(0, (int64_t)n_p - 1 - (max - min)) - min;
    return true;
}

static void to_shape(struct shape *s, const struct formula *f)
{
    memset(s, 0, sizeof(*s));
    s->o = f->o;
    s->phi = f->phi;
    s->n = f->n;
    s->n_levels = f->n_levels;
    memcpy(s->level, f->level, sizeof(s->level));
}

static void run(void)
{
    struct formula p, c;
    struct shape ps, cs, out, reversed;
    bool closed;

    random_parent(&p);
    if (below(2))
        related_child(&c, &p, 1 + (uint32_t)below(3));
    else
        random_grid(&c, 1 + (uint32_t)below(3), 1 + below(9), 200);
    if (c.n < 2 || !place(&c, p.n))
        return;
    to_shape(&ps, &p);
    to_shape(&cs, &c);
    CHECK(rankmap__shape_normalize(&ps, RANKMAP_ID_LIMIT) == 0);
    CHECK(rankmap__shape_normalize(&cs, p.n) == 0);
    closed = rankmap__closure(&ps, &cs, &out);
    n_cases++;
    if (cs.n_levels == 1 && ps.n_levels > 1) {
        uint64_t b = ps.level[0].count, s = abs_i64(cs.level[0].stride),
                 g = rankmap__gcd(b, s, NULL), kappa = s % b / g;

        n_affine++;
        n_closed_affine += closed;
        if (ps.n_levels == 2 && (kappa <= 1 || kappa == b / g - 1))
            CHECK(closed);
        if (s % rankmap__shape_period(&ps) == 0 || s == 1)
            CHECK(closed);
    } else if (ps.n_levels > 1) {
        n_layered++;
        n_closed_layered += closed;
    } else {
        CHECK(closed);
    }
    if (!closed)
        return;
    CHECK(rankmap__shape_normalize(&out, RANKMAP_ID_LIMIT) == 0);
    CHECK(out.n == c.n);
    reversed = out;
    rankmap__shape_reverse(&reversed);
    for (uint32_t r = 0; r < c.n; r++) {
        int64_t id = formula_id(&p, (uint64_t)formula_id(&c, r));

        CHECK(rankmap__shape_at(&out, r + out.phi) == id);
        CHECK(rankmap__shape_at(&reversed, c.n - 1 - r + reversed.phi) == id);
        if (rankmap__shape_distinct(&out) == 1)
            CHECK(rankmap__shape_rank(&out, id) == (int64_t)r);
    }
}

/* Blocks so far apart that a stride of 3, written as a period less 2^25 - 3, begins at an id that
 * 64 bits cannot hold. UBSan reports the overflow. */
static void check_far_blocks(void)
{
    const struct shape p = {.n = UINT32_C(1) << 26,
                            .n_levels = 2,
                            .level = {{1, UINT64_C(1) << 25}, {INT64_C(3) << 38, 0}}};
    const struct shape c = {.n = UINT32_C(1) << 24, .n_levels = 1, .level = {{3, 0}}};
    struct shape out;

    CHECK(rankmap__closure(&p, &c, &out) == 0);
}

int main(int argc, char **argv)
{
    int status;

    check_far_blocks();
    status = run_cases(argc, argv, run);

    printf("%" PRIu64 " pairs; affine children %" PRIu64 ", closed %" PRIu64
           "; children of levels %" PRIu64 ", closed %" PRIu64 "\n",
           n_cases, n_affine, n_closed_affine, n_layered, n_closed_layered);
    return status;
}
