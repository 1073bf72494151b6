/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Property: parent∘child has the ids of two consecutive lookups, for parents and children of every
 * kind; the closed rules cover what they promise, without reading a rank; bytes stay below the
 * bound; inverses are exact.
 */
#include "random_map.h"

#include "../../librankmap/src/internal.h"

/* Each rule's answers. */
static uint64_t n_affine_any, n_any_affine, n_any_any, n_closed, n_views, n_cases;

static void check_bound(const struct rankmap *map)
{
    struct rankmap_info info = {.size = sizeof(info)};
    uint64_t bits;

    CHECK(rankmap_query(map, &info) == 0);
    bits =
        info.max_id > info.min_id ? 64 - (uint64_t)__builtin_clzll(info.max_id - info.min_id) : 0;
    CHECK(info.total_bytes <= (info.n_ranks * bits + 7) / 8 + 64 || info.kind == RANKMAP_LUT32);
    if (info.pinned_bytes) {
        n_views++;
        CHECK(info.pinned_bytes <= 8 * ((info.n_ranks * bits + 7) / 8 + 64));
    }
}

/* The rules of composition that the header promises for shapes of one and two levels. */
static bool promised(const struct shape *p, const struct shape *c)
{
    uint64_t b = p->level[0].count, s, g, kappa;

    if (p->n_levels == 1)
        return true;
    if (p->n_levels > 2 || c->n_levels > 1)
        return c->n_levels == 1 && abs_i64(c->level[0].stride) == 1;
    s = abs_i64(c->level[0].stride);
    g = rankmap__gcd(b, s, NULL);
    kappa = s % b / g;
    return kappa <= 1 || kappa == b / g - 1;
}

static void check_closure(const struct rankmap *parent, const struct rankmap *child,
                          const int64_t *want)
{
    struct shape p, c, f;

    if (parent->kind > RANKMAP_MD || child->kind > RANKMAP_MD || child->n < 2)
        return;
    rankmap__shape_of(parent, &p);
    rankmap__shape_of(child, &c);
    if (!rankmap__closure(&p, &c, &f)) {
        CHECK(!promised(&p, &c));
        return;
    }
    n_closed++;
    n_affine_any += p.n_levels == 1;
    n_any_affine += p.n_levels > 1 && c.n_levels == 1;
    n_any_any += p.n_levels > 1 && c.n_levels > 1;
    CHECK(rankmap__shape_normalize(&f, RANKMAP_ID_LIMIT) == 0);
    for (uint32_t r = 0; r < f.n; r++)
        CHECK(rankmap__shape_at(&f, r + f.phi) == want[r]);
}

static void run(void)
{
    static int64_t p_ids[MAX_N], c_ids[MAX_N], want[MAX_N], again[MAX_N];
    struct rankmap *parent, *child, *made, *next;
    uint32_t n_p, n_c;

    parent = random_map(p_ids, &n_p, 1 + below(below(2) ? 400 : 40000));
    if (!parent)
        return;
    child = random_map(c_ids, &n_c, n_p);
    if (!child) {
        rankmap_unref(parent);
        return;
    }
    n_cases++;
    for (uint32_t r = 0; r < n_c; r++)
        want[r] = p_ids[c_ids[r]];
    CHECK(rankmap_compose(parent, child, NULL, &made) == 0);
    check_ids(made, want, n_c);
    check_inverse(made, want, n_c);
    check_bound(made);
    check_closure(parent, child, want);
    if (below(2)) { /* another generation */
        rankmap_unref(child);
        rankmap_unref(parent);
        parent = made;
        child = random_map(c_ids, &n_c, rankmap_size(made));
        if (child) {
            for (uint32_t r = 0; r < n_c; r++)
                again[r] = want[c_ids[r]];
            CHECK(rankmap_compose(parent, child, NULL, &next) == 0);
            check_ids(next, again, n_c);
            check_inverse(next, again, n_c);
            check_bound(next);
            rankmap_unref(next);
        }
    } else {
        CHECK(reverse_ranks(made, NULL, &next) == 0);
        for (uint32_t r = 0; r < n_c; r++)
            again[r] = want[n_c - 1 - r];
        check_ids(next, again, n_c);
        rankmap_unref(next);
        rankmap_unref(made);
    }
    rankmap_unref(child);
    rankmap_unref(parent);
}

int main(int argc, char **argv)
{
    int status = run_cases(argc, argv, run);

    printf("%" PRIu64 " compositions, %" PRIu64 " closed (affine parent %" PRIu64
           ", affine child %" PRIu64 ", levels both %" PRIu64 "), %" PRIu64 " views\n",
           n_cases, n_closed, n_affine_any, n_any_affine, n_any_any, n_views);
    return status;
}
