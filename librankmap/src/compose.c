/* SPDX-License-Identifier: BSD-3-Clause */
/* parent∘child over all models, and the parent without some of its ranks. */
#include <errno.h>

#include "internal.h"

#define PIN_FACTOR 8u /* a view may pin a table this many times as large as its own */
/* ranks up to which a shape that cannot be stored is expanded instead */
#define EXPAND_LIMIT (UINT32_C(1) << 24)

/* Expands the composition's ids into an array, and detects their model. */
static int compose_expanded(const struct make *mk, const struct rankmap *parent,
                            const struct rankmap *child, struct rankmap **out)
{
    uint64_t min, max, *a64 = NULL;
    uint32_t *a32 = NULL;
    struct ids ids;
    struct walk w;
    int rc;

    rankmap__bounds(parent, &min, &max);
    if (max <= UINT32_MAX)
        a32 = rankmap__alloc(mk->alloc, child->n, sizeof(*a32));
    else
        a64 = rankmap__alloc(mk->alloc, child->n, sizeof(*a64));
    if (!a32 && !a64)
        return -ENOMEM;
    for (rankmap__walk_start(&w, child); rankmap__walk_next(&w);) {
        rankmap__gather(parent, w.id, w.n, a64 ? a64 + w.first : w.id);
        for (uint32_t i = 0; a32 && i < w.n; i++)
            a32[w.first + i] = (uint32_t)w.id[i];
    }
    ids = (struct ids){.a32 = a32, .a64 = a64, .n = child->n};
    rc = rankmap__from_ids(mk, &ids, out);
    rankmap__free(mk->alloc, a32);
    rankmap__free(mk->alloc, a64);
    return rc;
}

/* Composes pieces: the parent is affine and the child runs, or the reverse. */
static int compose_pieces(const struct make *mk, const struct rankmap *parent,
                          const struct rankmap *child, struct rankmap **out)
{
    const struct rankmap *source = rankmap__is_affine(parent) ? child : parent;
    size_t n_pieces = rankmap__n_pieces(source), k = 0;
    struct piece *pieces = rankmap__alloc(mk->alloc, n_pieces, sizeof(*pieces));
    int rc;

    if (!pieces)
        return -ENOMEM;
    rankmap__pieces_get(source, pieces);
    if (rankmap__is_affine(parent)) {
        int64_t slope = word_i64(parent->word[1]);

        for (k = 0; k < n_pieces; k++) {
            pieces[k].first = word_i64(parent->word[0]) + slope * pieces[k].first;
            pieces[k].stride = pieces[k].n > 1 ? pieces[k].stride * slope : 1;
        }
    } else {
        int64_t first = word_i64(child->word[0]), step = word_i64(child->word[1]);
        bool down = child->n > 1 && step < 0;
        struct piece whole = {first, step, child->n};

        for (size_t i = 0; i < n_pieces; i++) {
            struct piece ranks = {rankmap__run_first(parent, (uint32_t)i), 1, pieces[i].n}, at;

            if (!rankmap__piece_meet(&whole, &ranks, &at))
                continue;
            pieces[k].first =
                pieces[i].first + (first + step * at.first - ranks.first) * pieces[i].stride;
            pieces[k].stride = at.n > 1 ? step * pieces[i].stride : 1;
            pieces[k++].n = at.n;
        }
        for (size_t i = 0; down && i < k / 2; i++) {
            struct piece swap = pieces[i];

            pieces[i] = pieces[k - 1 - i];
            pieces[k - 1 - i] = swap;
        }
    }
    rc = rankmap__from_pieces(mk, pieces, k, out);
    rankmap__free(mk->alloc, pieces);
    return rc;
}

/* Makes a view of a table unless that would pin too much; then returns 0 with *out untouched, and
 * the child gets its own table. */
static int compose_view(const struct make *mk, struct rankmap *table, const struct shape *shape,
                        struct rankmap **out)
{
    uint64_t min, max, own;
    size_t view_bytes = (shape->n_levels == 1 ? 24 : 16 + 16 * (size_t)shape->n_levels);
    int rc;

    rankmap__bounds(table, &min, &max);
    own = rankmap__packed_bytes(shape->n, rankmap__bit_length(max - min));
    if (mk->flags & RANKMAP_NO_VIEW || max >= mk->id_limit || !rankmap__shape_storable(shape) ||
        view_bytes > own || rankmap__bytes(table) / PIN_FACTOR > own)
        return 0;
    rc = rankmap__view(mk, table, shape, out);
    if (rc < 0 || mk->distinct)
        return rc;
    /* From a table with duplicate ids the child may have chosen distinct ones. */
    rc = rankmap__map_distinct(mk->alloc, *out);
    if (rc < 0) {
        rankmap_unref(*out);
        *out = NULL;
        return rc;
    }
    (*out)->flags = rc ? MAP_DISTINCT : 0;
    return 0;
}

static int compose_models(struct make mk, struct rankmap *parent, const struct rankmap *child,
                          struct rankmap **out)
{
    struct shape p, c, f;
    struct rankmap *map = NULL, *table = parent;
    bool regular;
    int rc;

    if (child->n == 0)
        return rankmap__from_pieces(&mk, NULL, 0, out);
    regular = rankmap__shape_if(child, &c);
    if (regular && rankmap__shape_if(parent, &p) && rankmap__closure(&p, &c, &f)) {
        rc = rankmap__from_shape(&mk, &f, out);
        if (rc != RANKMAP_ERANGE || child->n > EXPAND_LIMIT)
            return rc;
    }
    if ((rankmap__is_affine(parent) && child->kind == RANKMAP_RUNS) ||
        (parent->kind == RANKMAP_RUNS && rankmap__is_affine(child)))
        return compose_pieces(&mk, parent, child, out);
    if (!regular || rankmap__is_regular(parent))
        return compose_expanded(&mk, parent, child, out);
    f = c;
    if (rankmap__is_view(parent)) {
        rankmap__shape_of(parent, &p);
        if (!rankmap__closure(&p, &c, &f) || rankmap__shape_normalize(&f, RANKMAP_MAX_RANKS) < 0)
            return compose_expanded(&mk, parent, child, out);
        table = rankmap__table_of(parent);
    }
    if (f.n_levels == 1 && f.o == 0 && f.level[0].stride == 1 && f.n == table->n) {
        uint64_t min, max;

        rankmap__bounds(table, &min, &max);
        if (max < mk.id_limit) {
            *out = rankmap_ref(table);
            return 0;
        }
    }
    rc = compose_view(&mk, table, &f, &map);
    if (rc == 0 && !map)
        return compose_expanded(&mk, parent, child, out);
    if (rc == 0)
        *out = map;
    return rc;
}

/* Composes maps that have been checked: the child's ids are ranks of the parent. */
static int compose_checked(struct make mk, struct rankmap *parent, const struct rankmap *child,
                           struct rankmap **out)
{
    if (!(child->flags & MAP_DISTINCT) && !(mk.flags & RANKMAP_ALLOW_DUPLICATES))
        return RANKMAP_EDUP;
    if (!(parent->flags & MAP_DISTINCT))
        mk.flags |= RANKMAP_ALLOW_DUPLICATES;
    mk.distinct = parent->flags & child->flags & MAP_DISTINCT;
    return compose_models(mk, parent, child, out);
}

/* Checks that a map's ids are ranks of the parent. Returns 0 or RANKMAP_ERANGE. */
static int check_ranks(const struct rankmap *parent, const struct rankmap *child)
{
    uint64_t min, max;

    if (child->n == 0)
        return 0;
    rankmap__bounds(child, &min, &max);
    if (max >= parent->n) /* a view's bounds are those of its table */
        rankmap__exact_bounds(child, &min, &max);
    return max < parent->n ? 0 : RANKMAP_ERANGE;
}

int rankmap_compose(struct rankmap *parent, const struct rankmap *child,
                    const struct rankmap_opts *opts, struct rankmap **out)
{
    struct make mk;
    int rc = rankmap__make_init(&mk, opts, parent && child && out);

    if (rc == 0)
        rc = check_ranks(parent, child);
    return rc < 0 ? rc : compose_checked(mk, parent, child, out);
}

/* Makes the map of the ranks below n that a table does not have, from the table's sorted ids. */
static int others_sorted(const struct make *mk, uint32_t n, const struct rankmap *ranks,
                         struct rankmap **out)
{
    uint64_t n_out = ranks->n;
    uint64_t *sorted = rankmap__alloc(mk->alloc, 2 * n_out, sizeof(*sorted)), next = 0;
    struct piece *pieces = rankmap__alloc(mk->alloc, n_out + 1, sizeof(*pieces));
    int rc = -ENOMEM;

    if (sorted && pieces) {
        rankmap__expand(ranks, 0, ranks->n, sorted);
        rankmap__sort(sorted, sorted + n_out, n_out, 0, 32);
        for (size_t i = 0; i < n_out; i++) {
            pieces[i] = (struct piece){(int64_t)next, 1, sorted[i] - next};
            next = sorted[i] + 1;
        }
        pieces[n_out] = (struct piece){(int64_t)next, 1, n - next};
        rc = rankmap__from_pieces(mk, pieces, n_out + 1, out);
    }
    rankmap__free(mk->alloc, pieces);
    rankmap__free(mk->alloc, sorted);
    return rc;
}

/* As others_sorted(), for a progression or runs, from their parameters. */
static int others_of_pieces(const struct make *mk, uint32_t n, const struct rankmap *ranks,
                            struct rankmap **out)
{
    struct shape whole = {.n = n, .n_levels = 1, .level = {{1, 0}}};
    struct rankmap *all;
    int rc = rankmap__from_shape(mk, &whole, &all);

    if (rc < 0)
        return rc;
    rc = rankmap__select(*mk, all, ranks, false, out);
    rankmap_unref(all);
    return rc;
}

int rankmap_exclude(struct rankmap *parent, const struct rankmap *ranks,
                    const struct rankmap_opts *opts, struct rankmap **out)
{
    struct make mk, kept_mk;
    struct rankmap *kept;
    int rc = rankmap__make_init(&mk, opts, parent && ranks && out);

    if (rc == 0 && !(parent->flags & ranks->flags & MAP_DISTINCT))
        rc = RANKMAP_ENOTINJECTIVE;
    if (rc == 0)
        rc = check_ranks(parent, ranks);
    if (rc < 0)
        return rc;
    kept_mk = mk;
    kept_mk.id_limit = parent->n;
    kept_mk.flags = 0;
    kept_mk.distinct = true;
    if (rankmap__n_pieces(ranks) > 0)
        rc = others_of_pieces(&kept_mk, parent->n, ranks, &kept);
    else
        rc = others_sorted(&kept_mk, parent->n, ranks, &kept);
    if (rc < 0)
        return rc;
    rc = compose_checked(mk, parent, kept, out);
    rankmap_unref(kept);
    return rc;
}
