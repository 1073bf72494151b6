/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes maps from a shape, from ranges, or from an array of ids; explains errors in these. */
#include <errno.h>
#include <inttypes.h>

#include "internal.h"

#define TWIN_RANGES 1024u /* up to this many ranges, an error names two that share an id */
/* more ranks take more in a table than in a formula: seven levels may have 2 bits a rank, eight
 * have 3 */
#define TABLE_RANKS 384u

/* Keeps a table instead of a shape if that is smaller: many levels with few ranks. */
static int keep_or_pack(const struct make *mk, struct rankmap *map, struct rankmap **out)
{
    size_t bytes = rankmap__model_bytes(map);
    uint64_t min, max, scratch[TABLE_RANKS];
    struct ids ids = {.a64 = scratch, .n = map->n};
    struct make made = *mk;
    struct rankmap *packed = NULL;
    int rc;

    made.distinct = map->flags & MAP_DISTINCT;
    if (map->n_levels >= 3 && map->n <= TABLE_RANKS) {
        unsigned bits;

        rankmap__bounds(map, &min, &max);
        bits = rankmap__bit_length(max - min);
        if (mk->flags & RANKMAP_FAST && bits < 32)
            bits = 32;
        if (bytes > rankmap__packed_bytes(map->n, bits)) {
            rankmap__expand(map, 0, map->n, scratch);
            rc = rankmap__from_table(&made, &ids, min, max - min, false, SIZE_MAX, &packed);
            rankmap_unref(map);
            if (rc < 0)
                return rc;
            map = packed;
        }
    }
    *out = map;
    return 0;
}

/* Checks a shape and makes its map. Counts must be at least 1, φ below their product. */
int rankmap__from_shape(const struct make *mk, const struct shape *shape, struct rankmap **out)
{
    struct shape s = *shape;
    int rc = rankmap__shape_normalize(&s, mk->id_limit), distinct;
    struct rankmap *map;
    uint32_t kind = RANKMAP_MD;

    if (rc < 0)
        return rc;
    distinct = mk->distinct ? 1 : rankmap__shape_distinct(&s);
    if (distinct == 0 && !(mk->flags & RANKMAP_ALLOW_DUPLICATES))
        return RANKMAP_EDUP;
    if (s.n_levels == 1)
        kind = s.level[0].stride != 1 ? RANKMAP_STRIDE : s.o != 0 ? RANKMAP_OFFSET : RANKMAP_DIRECT;
    else if (s.n_levels == 2)
        kind = RANKMAP_BLOCKSTRIDE;
    if (s.n_levels == 2) {
        struct make made = *mk;

        made.distinct = distinct;
        rc = rankmap__two_runs(&made, &s, out);
        if (rc != 0)
            return rc < 0 ? rc : 0;
    }
    if (!rankmap__shape_storable(&s))
        return RANKMAP_ERANGE;
    map = rankmap__new(mk, kind, s.n, rankmap__regular_bytes(s.n_levels));
    if (!map)
        return -ENOMEM;
    map->n_levels = (uint8_t)s.n_levels;
    rankmap__shape_store(map->word, &s);
    if (distinct < 0) {
        distinct = s.n > mk->max_check ? RANKMAP_ERANGE : rankmap__map_distinct(mk->alloc, map);
        if (distinct == 0 && !(mk->flags & RANKMAP_ALLOW_DUPLICATES))
            distinct = RANKMAP_EDUP;
        if (distinct < 0) {
            rankmap_unref(map);
            return distinct;
        }
    }
    map->flags = distinct ? MAP_DISTINCT : 0;
    return keep_or_pack(mk, map, out);
}

/* Makes a view of a table, with a reference to the table. shape's ids are checked ranks of the
 * table. */
int rankmap__view(const struct make *mk, struct rankmap *table, const struct shape *shape,
                  struct rankmap **out)
{
    uint32_t kind = shape->n_levels == 1 ? RANKMAP_LUT_STRIDE : RANKMAP_LUT_BLOCKSTRIDE;
    struct rankmap *map =
        rankmap__new(mk, kind, shape->n, 8 + rankmap__regular_bytes(shape->n_levels));

    if (!map)
        return -ENOMEM;
    map->n_levels = (uint8_t)shape->n_levels;
    map->flags = mk->distinct ? MAP_DISTINCT : 0;
    map->word[0] = (uintptr_t)rankmap_ref(table);
    rankmap__shape_store(map->word + 1, shape);
    *out = map;
    return 0;
}

int rankmap_affine(uint64_t offset, int64_t stride, uint32_t n, const struct rankmap_opts *opts,
                   struct rankmap **out)
{
    struct shape shape = {.o = (int64_t)offset, .n = n, .n_levels = 1, .level = {{stride, 0}}};
    struct make mk;
    int rc = rankmap__make_init(&mk, opts, out);

    return rc < 0 ? rc : rankmap__from_shape(&mk, &shape, out);
}

/* ---- Ranges ---- */

static int bad_range(size_t i, const struct rankmap_range *range, const char *why, uint64_t limit,
                     struct rankmap_error *err)
{
    return rankmap__fail(err, RANKMAP_ERANGE, i, RANKMAP_NO_ID,
                         "range %zu, from %" PRIu64 " to %" PRIu64 " by %" PRId64 ", %s %" PRIu64,
                         i, range->first, range->last, range->stride, why, limit);
}

/* Converts MPI's triplets into pieces. */
static int pieces_of_ranges(const struct make *mk, const struct rankmap_range *ranges, size_t n,
                            struct piece *pieces, struct rankmap_error *err)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t first = ranges[i].first, last = ranges[i].last, steps;
        int64_t stride = ranges[i].stride;

        if (stride == 0 || (stride > 0 ? last < first : last > first))
            return bad_range(i, &ranges[i], "does not reach", last, err);
        steps = (first < last ? last - first : first - last) / abs_i64(stride);
        if (first >= mk->id_limit || first + steps * (uint64_t)stride >= mk->id_limit)
            return bad_range(i, &ranges[i], "leaves the ids below", mk->id_limit, err);
        if (steps >= RANKMAP_MAX_RANKS)
            return bad_range(i, &ranges[i], "has more ids than", RANKMAP_MAX_RANKS, err);
        pieces[i] = (struct piece){(int64_t)first, steps > 0 ? stride : 1, steps + 1};
    }
    return 0;
}

/* Names two ranges that share an id. */
static void explain_twin_ranges(const struct piece *pieces, size_t n, const char *what,
                                struct rankmap_error *err)
{
    for (size_t j = 1; j < n && n <= TWIN_RANGES; j++)
        for (size_t i = 0; i < j; i++) {
            struct piece common;
            int64_t id;

            if (!rankmap__piece_meet(&pieces[j], &pieces[i], &common))
                continue;
            id = pieces[j].first + common.first * pieces[j].stride;
            rankmap__fail(err, RANKMAP_EDUP, j, (uint64_t)id,
                          "ranges %zu and %zu both have %s %" PRId64, i, j, what, id);
            return;
        }
}

int rankmap__from_ranges(const struct make *mk, const struct rankmap_range *ranges, size_t n,
                         const char *what, struct rankmap **out, struct rankmap_error *err)
{
    struct piece *pieces = rankmap__alloc(mk->alloc, n, sizeof(*pieces));
    int rc;

    if (!pieces)
        return -ENOMEM;
    rc = pieces_of_ranges(mk, ranges, n, pieces, err);
    if (rc == 0)
        rc = rankmap__from_pieces(mk, pieces, n, out);
    if (rc == RANKMAP_EDUP && pieces_of_ranges(mk, ranges, n, pieces, err) == 0)
        explain_twin_ranges(pieces, n, what, err);
    rankmap__free(mk->alloc, pieces);
    return rc;
}

int rankmap_from_ranges(const struct rankmap_range *ranges, size_t n_ranges,
                        const struct rankmap_opts *opts, struct rankmap **out,
                        struct rankmap_error *err)
{
    struct rankmap_error detail = {.code = 0};
    struct make mk;
    int rc = rankmap__make_init(&mk, opts, out && (ranges || n_ranges == 0));

    if (rc == 0)
        rc = rankmap__from_ranges(&mk, ranges, n_ranges, "id", out, &detail);
    return rankmap__report(rc, &detail, err);
}

/* ---- Arrays of ids ---- */

/* Names the first id that is out of range. */
static void explain_range(const struct make *mk, const struct ids *ids, struct rankmap_error *err)
{
    for (size_t r = 0; r < ids->n && ids->n <= RANKMAP_MAX_RANKS; r++) {
        uint64_t id = ids_get(ids, r);

        if (id < mk->id_limit)
            continue;
        rankmap__fail(err, RANKMAP_ERANGE, r, id,
                      "rank %zu has id %" PRIu64 ", which is not below %" PRIu64, r, id,
                      mk->id_limit);
        return;
    }
}

/* Names the least number that comes twice, if there is memory to find it: "ranks 3 and 17 both have
 * id 5". */
void rankmap__explain_twins(const struct make *mk, const struct ids *ids, const char *places,
                            const char *what, struct rankmap_error *err)
{
    size_t n = ids->n, first = 0, second;
    uint64_t *keys = rankmap__alloc(mk->alloc, 2 * n, sizeof(*keys)), twin;

    if (!keys)
        return;
    for (size_t r = 0; r < n; r++)
        keys[r] = ids_get(ids, r);
    twin = rankmap__find_twin(keys, keys + n, n, 64);
    rankmap__free(mk->alloc, keys);
    while (ids_get(ids, first) != twin)
        first++;
    for (second = first + 1; ids_get(ids, second) != twin;)
        second++;
    rankmap__fail(err, RANKMAP_EDUP, second, twin, "%s %zu and %zu both have %s %" PRIu64, places,
                  first, second, what, twin);
}

int rankmap_from_ids(const void *ids, size_t id_bytes, size_t n, const struct rankmap_opts *opts,
                     struct rankmap **out, struct rankmap_error *err)
{
    struct rankmap_error detail; /* filled only on failure */
    struct ids source = {.a32 = id_bytes == sizeof(uint32_t) ? ids : NULL,
                         .a64 = id_bytes == sizeof(uint64_t) ? ids : NULL,
                         .n = n};
    struct make mk;
    int rc = rankmap__make_init(&mk, opts, out && (ids || n == 0));

    detail.code = 0;
    if (rc == 0 && id_bytes != sizeof(uint32_t) && id_bytes != sizeof(uint64_t))
        rc = -EINVAL;
    if (rc < 0)
        return rankmap__report(rc, &detail, err);
    rc = rankmap__from_ids(&mk, &source, out);
    if (rc == RANKMAP_ERANGE && err)
        explain_range(&mk, &source, &detail);
    else if (rc == RANKMAP_EDUP && err)
        rankmap__explain_twins(&mk, &source, "ranks", "id", &detail);
    return rankmap__report(rc, &detail, err);
}
