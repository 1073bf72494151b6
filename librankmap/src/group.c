/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps as sets: translate, compare, union, intersection, difference. */
#include <errno.h>

#include "internal.h"

#define PIECE_PAIRS 4096u /* up to this many pairs of pieces, set operations work on the pieces */
#define SCAN_RANKS  2u    /* up to this many ids are searched in a table without an index */

static struct piece affine_piece(const struct rankmap *map)
{
    return (struct piece){word_i64(map->word[0]), word_i64(map->word[1]), map->n};
}

int rankmap_translate(const struct rankmap *from, const uint32_t *ranks, size_t n,
                      const struct rankmap *to, uint32_t *out)
{
    struct rankmap_index *index = NULL;
    uint64_t ids[BLOCK];

    if (!from || !to || (!out && n > 0))
        return -EINVAL;
    if (!(to->flags & MAP_DISTINCT))
        return RANKMAP_ENOTINJECTIVE;
    if (!ranks && n > from->n)
        return RANKMAP_ERANGE;
    for (size_t i = 0; ranks && i < n; i++)
        if (ranks[i] >= from->n)
            return RANKMAP_ERANGE;
    if (n > SCAN_RANKS && to->n > 0 && !rankmap__is_affine(to)) {
        int rc = rankmap__index_new(to, &rankmap__libc, n >= to->n / 16, &index);

        if (rc < 0)
            return rc;
    }
    for (size_t done = 0; done < n;) {
        size_t some = min_u64(BLOCK, n - done);

        if (ranks) {
            for (size_t i = 0; i < some; i++)
                ids[i] = ranks[done + i];
            rankmap__gather(from, ids, some, ids);
        } else {
            rankmap__expand(from, (uint32_t)done, (uint32_t)some, ids);
        }
        if (index)
            rankmap__index_ranks(index, ids, some, out + done);
        for (size_t i = 0; !index && i < some; i++) {
            int64_t rank = rankmap_rank(to, ids[i]);

            out[done + i] = rank < 0 ? RANKMAP_NO_RANK : (uint32_t)rank;
        }
        done += some;
    }
    rankmap_index_destroy(index);
    return 0;
}

static bool same_ids(const struct rankmap *a, const struct rankmap *b)
{
    uint64_t x[BLOCK], y[BLOCK];

    for (uint32_t done = 0; done < a->n;) {
        uint32_t some = (uint32_t)min_u64(BLOCK, a->n - done);

        rankmap__expand(a, done, some, x);
        rankmap__expand(b, done, some, y);
        if (memcmp(x, y, some * sizeof(x[0])) != 0)
            return false;
        done += some;
    }
    return true;
}

/* Returns whether a has all ids of b. */
static int contains(const struct rankmap *a, const struct rankmap *b)
{
    struct members m;
    uint64_t ids[BLOCK];
    bool has[BLOCK];
    int rc = rankmap__members_init(&m, &rankmap__libc, a, b->n);

    if (rc < 0)
        return rc;
    rc = 1;
    for (uint32_t done = 0; done < b->n && rc == 1;) {
        uint32_t some = (uint32_t)min_u64(BLOCK, b->n - done);

        rankmap__expand(b, done, some, ids);
        rankmap__members_have(&m, ids, some, has);
        for (uint32_t i = 0; i < some; i++)
            rc &= has[i];
        done += some;
    }
    rankmap__members_fini(&m);
    return rc;
}

static uint64_t *sorted_ids(const struct rankmap *map, uint64_t *ids, uint64_t *scratch)
{
    rankmap__expand(map, 0, map->n, ids);
    rankmap__sort(ids, scratch, map->n, 0, rankmap__bit_length(RANKMAP_ID_LIMIT - 1));
    return ids;
}

/* Returns whether two maps of equal size, with duplicate ids, have each id equally often. */
static int same_multiset(const struct rankmap *a, const struct rankmap *b)
{
    size_t n = a->n;
    uint64_t *ids = rankmap__alloc(&rankmap__libc, 3 * n, sizeof(*ids)), *scratch = ids + 2 * n;
    int same;

    if (!ids)
        return -ENOMEM;
    same =
        memcmp(sorted_ids(a, ids, scratch), sorted_ids(b, ids + n, scratch), n * sizeof(*ids)) == 0;
    rankmap__free(&rankmap__libc, ids);
    return same;
}

int rankmap_compare(const struct rankmap *a, const struct rankmap *b)
{
    uint64_t min_a, max_a, min_b, max_b;
    int rc;

    if (!a || !b)
        return -EINVAL;
    if (a->n != b->n)
        return RANKMAP_UNEQUAL;
    if (a == b || a->n == 0)
        return RANKMAP_IDENT;
    if (rankmap__is_affine(a) && rankmap__is_affine(b)) {
        if (a->word[0] == b->word[0] && a->word[1] == b->word[1])
            return RANKMAP_IDENT;
        /* the same ids in reverse */
        return a->word[1] == -b->word[1] && a->word[0] + (a->n - 1) * a->word[1] == b->word[0]
                   ? RANKMAP_SIMILAR
                   : RANKMAP_UNEQUAL;
    }
    if (a->kind == b->kind && a->bits == b->bits && a->aux == b->aux &&
        a->n_levels == b->n_levels && a->flags == b->flags &&
        rankmap__bytes(a) == rankmap__bytes(b) &&
        memcmp(a->word, b->word, rankmap__model_bytes(a)) == 0)
        return RANKMAP_IDENT;
    if (!rankmap__is_view(a) && !rankmap__is_view(b)) {
        rankmap__bounds(a, &min_a, &max_a);
        rankmap__bounds(b, &min_b, &max_b);
        if (min_a != min_b || max_a != max_b)
            return RANKMAP_UNEQUAL;
    }
    if (same_ids(a, b))
        return RANKMAP_IDENT;
    if ((a->flags ^ b->flags) & MAP_DISTINCT)
        return RANKMAP_UNEQUAL;
    rc = a->flags & MAP_DISTINCT ? contains(a, b) : same_multiset(a, b);
    return rc < 0 ? rc : rc ? RANKMAP_SIMILAR : RANKMAP_UNEQUAL;
}

/* A growing array, for results that are computed id by id. */
struct collect {
    uint64_t *ids;
    size_t n, cap;
};

static void collect(struct collect *c, const struct rankmap *map, const struct members *other,
                    bool wanted)
{
    uint64_t ids[BLOCK];
    bool has[BLOCK];

    for (uint32_t done = 0; done < map->n;) {
        uint32_t some = (uint32_t)min_u64(BLOCK, map->n - done);

        rankmap__expand(map, done, some, ids);
        if (other)
            rankmap__members_have(other, ids, some, has);
        for (uint32_t i = 0; i < some; i++) {
            c->ids[c->n] = ids[i];
            c->n += !other || has[i] == wanted;
        }
        done += some;
    }
}

/* Selects the ids of a that b has (wanted) or does not have, id by id. Neither map is empty. */
static int filter(const struct make *mk, struct rankmap *a, const struct rankmap *b, bool wanted,
                  struct rankmap **out)
{
    struct collect c = {.cap = (size_t)a->n + 1};
    struct members m;
    struct ids ids;
    int rc = rankmap__members_init(&m, mk->alloc, b, a->n);

    if (rc < 0)
        return rc;
    c.ids = rankmap__alloc(mk->alloc, c.cap, sizeof(*c.ids));
    rc = -ENOMEM;
    if (c.ids) {
        collect(&c, a, &m, wanted);
        ids = (struct ids){.a64 = c.ids, .n = c.n};
        rc = rankmap__from_ids(mk, &ids, out);
        rankmap__free(mk->alloc, c.ids);
    }
    rankmap__members_fini(&m);
    return rc;
}

/* Makes the shape of a without the elements `gone`. Returns false unless these are every period-th
 * element of a, up to its end. */
static bool without_progression(const struct piece *a, const struct piece *gone,
                                struct shape *shape)
{
    uint64_t period = (uint64_t)gone->stride, first = (uint64_t)gone->first;
    uint64_t last = first + (gone->n - 1) * period;

    if (first >= period || last + period < a->n)
        return false;
    *shape = (struct shape){.n = (uint32_t)(a->n - gone->n), .n_levels = 2};
    shape->level[0] = (struct rankmap_level){a->stride, period - 1};
    shape->level[1] = (struct rankmap_level){a->stride * (int64_t)period, 0};
    shape->o = a->first + a->stride * ((int64_t)first - (int64_t)period + 1);
    shape->phi = period - 1 - first;
    if (first == 0) {
        shape->o += shape->level[1].stride;
        shape->phi = 0;
    }
    return true;
}

static struct piece part(const struct piece *a, uint64_t first, uint64_t n)
{
    return (struct piece){a->first + a->stride * (int64_t)first, a->stride, n};
}

/* Lists the gaps that a progression leaves in a. */
static int gaps(const struct make *mk, const struct piece *a, const struct piece *gone,
                struct rankmap **out)
{
    struct piece *parts = rankmap__alloc(mk->alloc, gone->n + 1, sizeof(*parts));
    uint64_t next = 0, at = (uint64_t)gone->first;
    int rc;

    if (!parts)
        return -ENOMEM;
    for (uint64_t i = 0; i < gone->n; i++, at += (uint64_t)gone->stride) {
        parts[i] = part(a, next, at - next);
        next = at + 1;
    }
    parts[gone->n] = part(a, next, a->n - next);
    rc = rankmap__from_pieces(mk, parts, gone->n + 1, out);
    rankmap__free(mk->alloc, parts);
    return rc;
}

/* Set operations on two arithmetic progressions. Returns 1 when done, 0 if the result is not
 * regular. */
static int affine_sets(const struct make *mk, struct rankmap *a, const struct rankmap *b,
                       bool wanted, struct rankmap **out)
{
    struct piece pa = affine_piece(a), pb = affine_piece(b), common, parts[3];
    struct shape shape;
    int rc;

    if (!rankmap__piece_meet(&pa, &pb, &common))
        common = (struct piece){0, 1, 0};
    if (wanted) {
        parts[0] = part(&pa, (uint64_t)common.first, common.n);
        parts[0].stride = common.n > 1 ? parts[0].stride * common.stride : 1;
        rc = rankmap__from_pieces(mk, parts, 1, out);
    } else if (common.n <= 1 || common.stride == 1) {
        parts[0] = part(&pa, 0, (uint64_t)common.first);
        parts[1] =
            part(&pa, (uint64_t)common.first + common.n, pa.n - (uint64_t)common.first - common.n);
        rc = rankmap__from_pieces(mk, parts, 2, out);
    } else if (without_progression(&pa, &common, &shape)) {
        rc = rankmap__from_shape(mk, &shape, out);
    } else if (common.stride == 2) { /* before, between, after */
        uint64_t first = (uint64_t)common.first, last = first + 2 * (common.n - 1);

        parts[0] = part(&pa, 0, first);
        parts[1] = part(&pa, first + 1, common.n - 1);
        parts[1].stride *= 2;
        parts[2] = part(&pa, last + 1, pa.n - last - 1);
        rc = rankmap__from_pieces(mk, parts, 3, out);
    } else if (common.n < PIECE_PAIRS) {
        rc = gaps(mk, &pa, &common, out);
    } else {
        return 0;
    }
    return rc < 0 ? rc : 1;
}

/*
 * Finds the indices of one piece of a whose ids the pieces of b have, as ascending stretches.
 * Returns their number, or SIZE_MAX if some are no stretch. With `wanted`, a single progression
 * counts as a stretch.
 */
static size_t stretches(const struct piece *a, const struct piece *b, size_t n_b, bool wanted,
                        struct piece *found)
{
    size_t n = 0;
    bool strided = false;

    for (size_t i = 0; i < n_b; i++) {
        struct piece common;
        size_t at = n;

        if (!rankmap__piece_meet(a, &b[i], &common))
            continue;
        if (common.n > 1 && common.stride != 1)
            strided = true;
        for (; at > 0 && found[at - 1].first > common.first; at--)
            found[at] = found[at - 1];
        found[at] = common;
        n++;
    }
    return strided && !(wanted && n == 1) ? SIZE_MAX : n;
}

/* Set operations on two maps of runs. Returns 1 when done, 0 if that takes too many pairs or the
 * result is not runs. */
static int piece_sets(const struct make *mk, struct rankmap *a, const struct rankmap *b,
                      bool wanted, struct rankmap **out)
{
    size_t n_a, n_b, n = 0, cap, n_found = 0;
    struct piece *pa, *pb = NULL, *found = NULL;
    int rc = -ENOMEM;

    n_a = rankmap__is_affine(a) ? 1 : a->aux;
    n_b = rankmap__is_affine(b) ? 1 : b->aux;
    if ((uint64_t)n_a * n_b > PIECE_PAIRS)
        return 0;
    cap = n_a * (n_b + 1);
    pa = rankmap__pieces_of(mk, a, &n_a);
    if (pa && (pb = rankmap__pieces_of(mk, b, &n_b)) &&
        (found = rankmap__alloc(mk->alloc, cap + n_b, sizeof(*found)))) {
        struct piece *common = found + cap;

        for (size_t i = 0; i < n_a && n_found != SIZE_MAX; i++) {
            uint64_t next = 0;

            n_found = stretches(&pa[i], pb, n_b, wanted, common);
            for (size_t k = 0; k < n_found && n_found != SIZE_MAX; k++) {
                uint64_t first = (uint64_t)common[k].first;

                found[n] =
                    wanted ? part(&pa[i], first, common[k].n) : part(&pa[i], next, first - next);
                if (wanted && common[k].n > 1)
                    found[n].stride *= common[k].stride;
                n++;
                next = first + common[k].n;
            }
            if (!wanted && n_found != SIZE_MAX)
                found[n++] = part(&pa[i], next, pa[i].n - next);
        }
        rc = n_found == SIZE_MAX ? 0 : rankmap__from_pieces(mk, found, n, out);
        rc = rc < 0 || n_found == SIZE_MAX ? rc : 1;
    }
    rankmap__free(mk->alloc, found);
    rankmap__free(mk->alloc, pb);
    rankmap__free(mk->alloc, pa);
    return rc;
}

static int concat(const struct make *mk, struct rankmap *a, const struct rankmap *b,
                  struct rankmap **out);

/* Selects the ids of a that b has (wanted) or does not have. */
static int select_from(struct make mk, struct rankmap *a, const struct rankmap *b, bool wanted,
                       struct rankmap **out)
{
    bool pieces_a = rankmap__is_affine(a) || a->kind == RANKMAP_RUNS,
         pieces_b = rankmap__is_affine(b) || b->kind == RANKMAP_RUNS;
    int rc = 0;

    if (a->n == 0 || (wanted && b->n == 0))
        return rankmap__from_pieces(&mk, NULL, 0, out);
    mk.distinct = true;
    if (b->n == 0) {
        uint64_t min, max;

        rankmap__bounds(a, &min, &max);
        if (max >= mk.id_limit)
            return concat(&mk, a, b, out);
        *out = rankmap_ref(a);
        return 0;
    }
    if (rankmap__is_affine(a) && rankmap__is_affine(b))
        rc = affine_sets(&mk, a, b, wanted, out);
    else if (pieces_a && pieces_b)
        rc = piece_sets(&mk, a, b, wanted, out);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    return filter(&mk, a, b, wanted, out);
}

static int begin(struct make *mk, const struct rankmap *a, const struct rankmap *b,
                 const struct rankmap_opts *opts, struct rankmap **out)
{
    int rc = rankmap__make_init(mk, opts);

    if (rc < 0)
        return rc;
    if (!a || !b || !out)
        return -EINVAL;
    return a->flags & b->flags & MAP_DISTINCT ? 0 : RANKMAP_ENOTINJECTIVE;
}

int rankmap_intersection(struct rankmap *a, struct rankmap *b, const struct rankmap_opts *opts,
                         struct rankmap **out)
{
    struct make mk;
    int rc = begin(&mk, a, b, opts, out);

    return rc < 0 ? rc : select_from(mk, a, b, true, out);
}

int rankmap__difference(const struct make *mk, struct rankmap *a, const struct rankmap *b,
                        struct rankmap **out)
{
    return select_from(*mk, a, b, false, out);
}

int rankmap_difference(struct rankmap *a, struct rankmap *b, const struct rankmap_opts *opts,
                       struct rankmap **out)
{
    struct make mk;
    int rc = begin(&mk, a, b, opts, out);

    return rc < 0 ? rc : select_from(mk, a, b, false, out);
}

static int concat(const struct make *mk, struct rankmap *a, const struct rankmap *b,
                  struct rankmap **out)
{
    struct collect c = {.cap = (size_t)a->n + b->n + 1};
    struct ids ids;
    int rc;

    if ((uint64_t)a->n + b->n > RANKMAP_MAX_RANKS)
        return RANKMAP_ERANGE;
    if ((rankmap__is_affine(a) || a->kind == RANKMAP_RUNS) &&
        (rankmap__is_affine(b) || b->kind == RANKMAP_RUNS)) {
        size_t n_a = 0, n_b = 0;
        struct piece *pa = rankmap__pieces_of(mk, a, &n_a), *pb = rankmap__pieces_of(mk, b, &n_b);
        struct piece *both = pa && pb ? rankmap__alloc(mk->alloc, n_a + n_b, sizeof(*both)) : NULL;

        rc = -ENOMEM;
        if (both) {
            memcpy(both, pa, n_a * sizeof(*both));
            memcpy(both + n_a, pb, n_b * sizeof(*both));
            rc = rankmap__from_pieces(mk, both, n_a + n_b, out);
            rankmap__free(mk->alloc, both);
        }
        rankmap__free(mk->alloc, pb);
        rankmap__free(mk->alloc, pa);
        return rc;
    }
    c.ids = rankmap__alloc(mk->alloc, c.cap, sizeof(*c.ids));
    if (!c.ids)
        return -ENOMEM;
    collect(&c, a, NULL, true);
    collect(&c, b, NULL, true);
    ids = (struct ids){.a64 = c.ids, .n = c.n};
    rc = rankmap__from_ids(mk, &ids, out);
    rankmap__free(mk->alloc, c.ids);
    return rc;
}

int rankmap_union(struct rankmap *a, struct rankmap *b, const struct rankmap_opts *opts,
                  struct rankmap **out)
{
    struct make mk, plain;
    struct rankmap *more;
    int rc = begin(&mk, a, b, opts, out);

    if (rc < 0)
        return rc;
    plain = mk;
    plain.flags = 0;
    rc = select_from(plain, b, a, false, &more);
    if (rc < 0)
        return rc;
    mk.distinct = true;
    rc = concat(&mk, a, more, out);
    rankmap_unref(more);
    return rc;
}
