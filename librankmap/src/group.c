/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps as sets: translate, compare, union, intersection, difference. */
#include <errno.h>

#include "internal.h"

#define PIECE_PAIRS 4096u /* up to this many pairs of pieces, set operations work on the pieces */
#define SCAN_RANKS  2u    /* up to this many ids are searched in a table without an index */

/* As rankmap__gather(), with RANKMAP_NO_ID for RANKMAP_NO_RANK. The map has a rank 0. */
static void gather_some(const struct rankmap *map, const uint32_t *ranks, size_t n, uint64_t *ids)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = ranks[i] == RANKMAP_NO_RANK ? 0 : ranks[i];
    rankmap__gather(map, ids, n, ids);
    for (size_t i = 0; i < n; i++)
        if (ranks[i] == RANKMAP_NO_RANK)
            ids[i] = RANKMAP_NO_ID;
}

int rankmap_translate(const struct rankmap *from, const uint32_t *ranks, size_t n,
                      const struct rankmap *to, uint32_t *out)
{
    struct rankmap_index *index = NULL;
    uint64_t ids[BLOCK];
    size_t n_none = 0;

    if (!from || !to || (!out && n > 0))
        return -EINVAL;
    if (!(to->flags & MAP_DISTINCT))
        return RANKMAP_ENOTINJECTIVE;
    if (!ranks && n > from->n)
        return RANKMAP_ERANGE;
    for (size_t i = 0; ranks && i < n; i++) {
        if (ranks[i] >= from->n && ranks[i] != RANKMAP_NO_RANK)
            return RANKMAP_ERANGE;
        n_none += ranks[i] == RANKMAP_NO_RANK;
    }
    if (n_none == n) {
        for (size_t i = 0; i < n; i++)
            out[i] = RANKMAP_NO_RANK;
        return 0;
    }
    if (n > SCAN_RANKS && to->n > 0 && !rankmap__is_affine(to)) {
        int rc = rankmap__index_new(to, &rankmap__libc, n >= to->n / 16, &index);

        if (rc < 0)
            return rc;
    }
    for (size_t done = 0; done < n;) {
        size_t some = min_u64(BLOCK, n - done);

        if (ranks && n_none > 0) {
            gather_some(from, ranks + done, some, ids);
        } else if (ranks) {
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
    uint64_t ids[BLOCK];
    struct walk w;

    for (rankmap__walk_start(&w, a); rankmap__walk_next(&w);) {
        rankmap__expand(b, w.first, w.n, ids);
        if (memcmp(w.id, ids, w.n * sizeof(ids[0])) != 0)
            return false;
    }
    return true;
}

/* Returns whether a has all ids of b. */
static int has_all(const struct rankmap *a, const struct rankmap *b)
{
    struct members m;
    struct walk w;
    bool has[BLOCK];
    int rc = rankmap__members_init(&m, &rankmap__libc, a, b->n);

    if (rc < 0)
        return rc;
    rc = 1;
    for (rankmap__walk_start(&w, b); rc == 1 && rankmap__walk_next(&w);) {
        rankmap__members_have(&m, w.id, w.n, has);
        for (uint32_t i = 0; i < w.n; i++)
            rc &= has[i];
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
    uint64_t n = a->n;
    uint64_t *ids = rankmap__alloc(&rankmap__libc, 3 * n, sizeof(*ids)), *scratch;
    int same;

    if (!ids)
        return -ENOMEM;
    scratch = ids + 2 * n;
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
    rc = a->flags & MAP_DISTINCT ? has_all(a, b) : same_multiset(a, b);
    return rc < 0 ? rc : rc ? RANKMAP_SIMILAR : RANKMAP_UNEQUAL;
}

/* Appends the ids of a map that `other` has (wanted) or does not have, or all; ids has room for one
 * more. Returns their number. */
static size_t append_ids(uint64_t *ids, const struct rankmap *map, const struct members *other,
                         bool wanted)
{
    struct walk w;
    bool has[BLOCK];
    size_t n = 0;

    for (rankmap__walk_start(&w, map); rankmap__walk_next(&w);) {
        if (other)
            rankmap__members_have(other, w.id, w.n, has);
        for (uint32_t i = 0; i < w.n; i++) {
            ids[n] = w.id[i];
            n += !other || has[i] == wanted;
        }
    }
    return n;
}

/* Selects the ids of a that b has (wanted) or does not have, id by id. Neither map is empty. */
static int select_ids(const struct make *mk, struct rankmap *a, const struct rankmap *b,
                      bool wanted, struct rankmap **out)
{
    struct members m;
    struct ids ids = {.n = 0};
    uint64_t *chosen;
    int rc = rankmap__members_init(&m, mk->alloc, b, a->n);

    if (rc < 0)
        return rc;
    chosen = rankmap__alloc(mk->alloc, (uint64_t)a->n + 1, sizeof(*chosen));
    rc = -ENOMEM;
    if (chosen) {
        ids.a64 = chosen;
        ids.n = append_ids(chosen, a, &m, wanted);
        rc = rankmap__from_ids(mk, &ids, out);
        rankmap__free(mk->alloc, chosen);
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

static struct piece sub_piece(const struct piece *a, uint64_t first, uint64_t n)
{
    return (struct piece){a->first + a->stride * (int64_t)first, a->stride, n};
}

/* Lists the gaps that a progression leaves in a. */
static int list_gaps(const struct make *mk, const struct piece *a, const struct piece *gone,
                     struct rankmap **out)
{
    struct piece *parts = rankmap__alloc(mk->alloc, gone->n + 1, sizeof(*parts));
    uint64_t next = 0, at = (uint64_t)gone->first;
    int rc;

    if (!parts)
        return -ENOMEM;
    for (uint64_t i = 0; i < gone->n; i++, at += (uint64_t)gone->stride) {
        parts[i] = sub_piece(a, next, at - next);
        next = at + 1;
    }
    parts[gone->n] = sub_piece(a, next, a->n - next);
    rc = rankmap__from_pieces(mk, parts, gone->n + 1, out);
    rankmap__free(mk->alloc, parts);
    return rc;
}

/* The difference of a progression and two or more of its members that have a stride. Returns 1 when
 * done, 0 if the result is not regular. */
static int difference_strided(const struct make *mk, const struct piece *all,
                              const struct piece *common, struct rankmap **out)
{
    uint64_t first = (uint64_t)common->first, last = first + 2 * (common->n - 1);
    struct piece parts[3];
    struct shape shape;
    int rc;

    if (without_progression(all, common, &shape)) {
        rc = rankmap__from_shape(mk, &shape, out);
        if (rc != RANKMAP_ERANGE) /* else no formula can have strides that long: pieces can */
            return rc < 0 ? rc : 1;
    }
    if (common->stride == 2) { /* before, between, after */
        parts[0] = sub_piece(all, 0, first);
        parts[1] = sub_piece(all, first + 1, common->n - 1);
        parts[1].stride *= 2;
        parts[2] = sub_piece(all, last + 1, all->n - last - 1);
        rc = rankmap__from_pieces(mk, parts, 3, out);
    } else if (common->n < PIECE_PAIRS) {
        rc = list_gaps(mk, all, common, out);
    } else {
        return 0;
    }
    return rc < 0 ? rc : 1;
}

/* Set operations on two arithmetic progressions. Returns 1 when done, 0 if the result is not
 * regular. */
static int affine_sets(const struct make *mk, struct rankmap *a, const struct rankmap *b,
                       bool wanted, struct rankmap **out)
{
    struct piece pa, pb, common, parts[2];
    int rc;

    rankmap__pieces_get(a, &pa);
    rankmap__pieces_get(b, &pb);
    if (!rankmap__piece_meet(&pa, &pb, &common))
        common = (struct piece){0, 1, 0};
    if (wanted) {
        parts[0] = sub_piece(&pa, (uint64_t)common.first, common.n);
        parts[0].stride = common.n > 1 ? parts[0].stride * common.stride : 1;
        rc = rankmap__from_pieces(mk, parts, 1, out);
    } else if (common.n <= 1 || common.stride == 1) {
        parts[0] = sub_piece(&pa, 0, (uint64_t)common.first);
        parts[1] = sub_piece(&pa, (uint64_t)common.first + common.n,
                             pa.n - (uint64_t)common.first - common.n);
        rc = rankmap__from_pieces(mk, parts, 2, out);
    } else {
        return difference_strided(mk, &pa, &common, out);
    }
    return rc < 0 ? rc : 1;
}

/*
 * Finds the indices of one piece of a whose ids the pieces of b have, as ascending stretches.
 * Returns their number, or SIZE_MAX if some are no stretch. With `wanted`, a single progression
 * counts as a stretch.
 */
static size_t find_stretches(const struct piece *a, const struct piece *b, size_t n_b, bool wanted,
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
    size_t n_a = rankmap__n_pieces(a), n_b = rankmap__n_pieces(b), n = 0;
    struct piece *pa, *pb, *common, *found;
    int rc = 0;

    if ((uint64_t)n_a * n_b > PIECE_PAIRS)
        return 0;
    pa = rankmap__alloc(mk->alloc, n_a + 2 * n_b + n_a * (n_b + 1), sizeof(*pa));
    if (!pa)
        return -ENOMEM;
    pb = pa + n_a;
    common = pb + n_b;
    found = common + n_b;
    rankmap__pieces_get(a, pa);
    rankmap__pieces_get(b, pb);
    for (size_t i = 0; i < n_a; i++) {
        uint64_t next = 0;
        size_t n_common = find_stretches(&pa[i], pb, n_b, wanted, common);

        if (n_common == SIZE_MAX)
            goto out;
        for (size_t k = 0; k < n_common; k++) {
            uint64_t first = (uint64_t)common[k].first;

            found[n] = wanted ? sub_piece(&pa[i], first, common[k].n)
                              : sub_piece(&pa[i], next, first - next);
            if (wanted && common[k].n > 1)
                found[n].stride *= common[k].stride;
            n++;
            next = first + common[k].n;
        }
        if (!wanted)
            found[n++] = sub_piece(&pa[i], next, pa[i].n - next);
    }
    rc = rankmap__from_pieces(mk, found, n, out);
    rc = rc < 0 ? rc : 1;
out:
    rankmap__free(mk->alloc, pa);
    return rc;
}

/* Makes the map of all ids of a, then those of b: a itself if b is empty. */
static int join_maps(const struct make *mk, struct rankmap *a, const struct rankmap *b,
                     struct rankmap **out)
{
    size_t n_a = rankmap__n_pieces(a), n_b = rankmap__n_pieces(b);
    struct ids ids = {.n = 0};
    struct piece *pieces;
    uint64_t *all, min, max;
    int rc;

    if ((uint64_t)a->n + b->n > RANKMAP_MAX_RANKS)
        return RANKMAP_ERANGE;
    if (a->n > 0 && b->n == 0 && !(mk->flags & RANKMAP_NO_VIEW && rankmap__is_view(a))) {
        rankmap__bounds(a, &min, &max);
        if (max < mk->id_limit) {
            *out = rankmap_ref(a);
            return 0;
        }
    }
    if (n_a > 0 && n_b > 0) {
        pieces = rankmap__alloc(mk->alloc, n_a + n_b, sizeof(*pieces));
        if (!pieces)
            return -ENOMEM;
        rankmap__pieces_get(a, pieces);
        rankmap__pieces_get(b, pieces + n_a);
        rc = rankmap__from_pieces(mk, pieces, n_a + n_b, out);
        rankmap__free(mk->alloc, pieces);
        return rc;
    }
    all = rankmap__alloc(mk->alloc, (uint64_t)a->n + b->n + 1, sizeof(*all));
    if (!all)
        return -ENOMEM;
    ids.a64 = all;
    ids.n = append_ids(all, a, NULL, true);
    ids.n += append_ids(all + ids.n, b, NULL, true);
    rc = rankmap__from_ids(mk, &ids, out);
    rankmap__free(mk->alloc, all);
    return rc;
}

int rankmap__select(struct make mk, struct rankmap *a, const struct rankmap *b, bool wanted,
                    struct rankmap **out)
{
    int rc = 0;

    if (a->n == 0 || (wanted && b->n == 0))
        return rankmap__from_pieces(&mk, NULL, 0, out);
    mk.distinct = true;
    if (b->n == 0)
        return join_maps(&mk, a, b, out);
    if (rankmap__is_affine(a) && rankmap__is_affine(b))
        rc = affine_sets(&mk, a, b, wanted, out);
    else if (rankmap__n_pieces(a) > 0 && rankmap__n_pieces(b) > 0)
        rc = piece_sets(&mk, a, b, wanted, out);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    return select_ids(&mk, a, b, wanted, out);
}

static int sets_init(struct make *mk, const struct rankmap *a, const struct rankmap *b,
                     const struct rankmap_opts *opts, struct rankmap **out)
{
    int rc = rankmap__make_init(mk, opts, a && b && out);

    return rc == 0 && !(a->flags & b->flags & MAP_DISTINCT) ? RANKMAP_ENOTINJECTIVE : rc;
}

int rankmap_intersection(struct rankmap *a, struct rankmap *b, const struct rankmap_opts *opts,
                         struct rankmap **out)
{
    struct make mk;
    int rc = sets_init(&mk, a, b, opts, out);

    return rc < 0 ? rc : rankmap__select(mk, a, b, true, out);
}

int rankmap_difference(struct rankmap *a, struct rankmap *b, const struct rankmap_opts *opts,
                       struct rankmap **out)
{
    struct make mk;
    int rc = sets_init(&mk, a, b, opts, out);

    return rc < 0 ? rc : rankmap__select(mk, a, b, false, out);
}

int rankmap_union(struct rankmap *a, struct rankmap *b, const struct rankmap_opts *opts,
                  struct rankmap **out)
{
    struct make mk, plain;
    struct rankmap *more;
    int rc = sets_init(&mk, a, b, opts, out);

    if (rc < 0)
        return rc;
    if (a->n == 0)
        return rankmap__select(mk, b, a, false, out);
    plain = mk;
    plain.flags = 0;
    rc = rankmap__select(plain, b, a, false, &more);
    if (rc < 0)
        return rc;
    mk.distinct = true;
    rc = join_maps(&mk, a, more, out);
    rankmap_unref(more);
    return rc;
}
