/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists and ranges of a parent's ranks: MPI_Group_incl(), _excl() and their ranges, and
 * MPI_Comm_split(), which takes the ranks of one color in the order of their keys. */
#include <errno.h>
#include <limits.h>

#include "internal.h"

/* Combines key and rank into a number whose order is that of the new ranks. */
static uint64_t sort_key(const struct rankmap_member *m)
{
    return (uint64_t)((uint32_t)m->key ^ UINT32_C(0x80000000)) << 32 | m->rank;
}

/* Lists the sorted keys of the color's members; *n gets their number. */
static int list_keys(const struct rankmap *parent, const struct rankmap_member *members,
                     size_t n_members, int32_t color, uint64_t *keys, size_t *n,
                     struct rankmap_error *err)
{
    bool ascending = true;

    *n = 0;
    for (size_t i = 0; i < n_members; i++) {
        const struct rankmap_member *m = &members[i];

        if (m->color != color)
            continue;
        if (m->rank >= parent->n)
            return rankmap__fail(err, RANKMAP_ERANGE, i, m->rank,
                                 "member %zu is rank %u, and the parent has %u ranks", i,
                                 (unsigned)m->rank, (unsigned)parent->n);
        keys[*n] = sort_key(m);
        ascending = ascending && (*n == 0 || keys[*n] > keys[*n - 1]);
        ++*n;
    }
    if (!ascending)
        rankmap__sort(keys, keys + n_members, *n, 0, 64);
    return 0;
}

static int split_members(const struct make *mk, struct rankmap *parent,
                         const struct rankmap_member *members, size_t n_members, int32_t color,
                         const struct rankmap_opts *opts, struct rankmap **out,
                         struct rankmap_error *err)
{
    struct make of_ranks = {.alloc = mk->alloc, .id_limit = parent->n, .max_check = UINT64_MAX};
    uint64_t *keys = rankmap__alloc(mk->alloc, 2 * n_members, sizeof(*keys)), twin;
    struct ids ids = {.a64 = keys};
    struct rankmap *ranks = NULL;
    int rc;

    if (!keys)
        return -ENOMEM;
    rc = list_keys(parent, members, n_members, color, keys, &ids.n, err);
    for (size_t i = 0; i < ids.n && rc == 0; i++)
        keys[i] &= UINT32_MAX;
    if (rc == 0)
        rc = rankmap__from_ids(&of_ranks, &ids, &ranks);
    if (rc == RANKMAP_EDUP) {
        twin = rankmap__find_twin(keys, keys + n_members, ids.n, 32);
        rankmap__fail(err, RANKMAP_EDUP, NOWHERE, twin, "two members are rank %u", (unsigned)twin);
    }
    rankmap__free(mk->alloc, keys);
    if (rc < 0)
        return rc;
    rc = rankmap_compose(parent, ranks, opts, out);
    rankmap_unref(ranks);
    return rc;
}

int rankmap_split(struct rankmap *parent, const struct rankmap_member *members, size_t n_members,
                  int32_t color, const struct rankmap_opts *opts, struct rankmap **out,
                  struct rankmap_error *err)
{
    struct rankmap_error detail = {.code = 0};
    struct make mk;
    int rc = rankmap__make_init(&mk, opts, parent && out && (members || n_members == 0));

    if (rc == 0 && !(parent->flags & MAP_DISTINCT))
        rc = RANKMAP_ENOTINJECTIVE;
    if (rc == 0 && n_members > SIZE_MAX / 2)
        rc = -ENOMEM;
    if (rc == 0)
        rc = split_members(&mk, parent, members, n_members, color, opts, out, &detail);
    return rankmap__report(rc, &detail, err);
}

/* Makes the map of a list of the parent's ranks. */
static int list_of_ranks(const struct make *mk, const struct rankmap *parent, const int *ranks,
                         size_t n, struct rankmap **list, struct rankmap_error *err)
{
    struct ids ids = {.a32 = (const uint32_t *)ranks, .n = n};
    struct make of_list = *mk;
    int rc;

    of_list.id_limit = min_u64(parent->n, (uint64_t)INT_MAX + 1);
    rc = rankmap__from_ids(&of_list, &ids, list);
    if (rc == RANKMAP_EDUP)
        rankmap__explain_twins(mk, &ids, "entries", "rank", err);
    for (size_t i = 0; rc == RANKMAP_ERANGE && i < n; i++)
        if (ranks[i] < 0 || (uint32_t)ranks[i] >= parent->n)
            return rankmap__fail(err, rc, i, ids.a32[i],
                                 "entry %zu is rank %d, and the parent has %u ranks", i, ranks[i],
                                 (unsigned)parent->n);
    return rc;
}

/* Makes the map of ranges of the parent's ranks: 3·n ints. */
static int list_of_ranges(const struct make *mk, const struct rankmap *parent, const int *triplets,
                          size_t n, struct rankmap **list, struct rankmap_error *err)
{
    struct rankmap_range *ranges = rankmap__alloc(mk->alloc, n, sizeof(*ranges));
    struct make of_list = *mk;
    int rc = ranges ? 0 : -ENOMEM;

    of_list.id_limit = parent->n;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        int64_t first = triplets[3 * i], last = triplets[3 * i + 1], stride = triplets[3 * i + 2];
        bool reaches = stride != 0 && (stride > 0 ? first <= last : first >= last);
        int64_t end = reaches ? first + (last - first) / stride * stride : last;

        if (!reaches)
            rc = rankmap__fail(err, RANKMAP_ERANGE, i, RANKMAP_NO_ID,
                               "range %zu, from rank %d to %d by %d, does not reach its end", i,
                               (int)first, (int)last, (int)stride);
        else if (first < 0 || first >= parent->n || end < 0 || end >= parent->n)
            rc = rankmap__fail(err, RANKMAP_ERANGE, i, RANKMAP_NO_ID,
                               "range %zu, from rank %d to %d by %d, leaves the parent's %u ranks",
                               i, (int)first, (int)last, (int)stride, (unsigned)parent->n);
        ranges[i] = (struct rankmap_range){(uint64_t)first, (uint64_t)end, stride};
    }
    if (rc == 0)
        rc = rankmap__from_ranges(&of_list, ranges, n, "rank", list, err);
    rankmap__free(mk->alloc, ranges);
    return rc;
}

/* Makes a list of the parent's ranks from what MPI passes. */
typedef int list_fn(const struct make *mk, const struct rankmap *parent, const int *given, size_t n,
                    struct rankmap **list, struct rankmap_error *err);

static int listed_map(list_fn *list_of, struct rankmap *parent, const int *given, size_t n,
                      bool exclude, const struct rankmap_opts *opts, struct rankmap **out,
                      struct rankmap_error *err)
{
    struct rankmap_error detail = {.code = 0};
    struct rankmap *list = NULL;
    struct make mk;
    int rc = rankmap__make_init(&mk, opts, parent && out && (given || n == 0));

    if (rc == 0)
        rc = list_of(&mk, parent, given, n, &list, &detail);
    if (rc == 0)
        rc = exclude ? rankmap_exclude(parent, list, opts, out)
                     : rankmap_compose(parent, list, opts, out);
    rankmap_unref(list);
    return rankmap__report(rc, &detail, err);
}

int rankmap_include_ranks(struct rankmap *parent, const int *ranks, size_t n,
                          const struct rankmap_opts *opts, struct rankmap **out,
                          struct rankmap_error *err)
{
    return listed_map(list_of_ranks, parent, ranks, n, false, opts, out, err);
}

int rankmap_include_ranges(struct rankmap *parent, const int *ranges, size_t n,
                           const struct rankmap_opts *opts, struct rankmap **out,
                           struct rankmap_error *err)
{
    return listed_map(list_of_ranges, parent, ranges, n, false, opts, out, err);
}

int rankmap_exclude_ranks(struct rankmap *parent, const int *ranks, size_t n,
                          const struct rankmap_opts *opts, struct rankmap **out,
                          struct rankmap_error *err)
{
    return listed_map(list_of_ranks, parent, ranks, n, true, opts, out, err);
}

int rankmap_exclude_ranges(struct rankmap *parent, const int *ranges, size_t n,
                           const struct rankmap_opts *opts, struct rankmap **out,
                           struct rankmap_error *err)
{
    return listed_map(list_of_ranges, parent, ranges, n, true, opts, out, err);
}
