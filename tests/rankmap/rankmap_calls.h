/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's calls on groups, by librankmap's; and short forms of frequent checks. */
#ifndef TESTS_RANKMAP_CALLS_H
#define TESTS_RANKMAP_CALLS_H

#include <rankmap.h>

#include <stdlib.h>

static inline void store_number(unsigned char *p, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(value >> 8 * i);
}

/* The map of a formula of up to 16 levels, as its packed form: LAYOUT.md. */
static inline int make_layout(int64_t o, const struct rankmap_level *levels, uint32_t n_levels,
                              uint64_t phi, uint32_t n, const struct rankmap_opts *opts,
                              struct rankmap **out)
{
    unsigned char bytes[40 + 16 * 16] = {'R', 'K', 'M', '1', 1, 1, (unsigned char)n_levels};
    size_t len = 40 + 16 * (size_t)n_levels;
    ssize_t used;

    store_number(bytes + 8, n);
    store_number(bytes + 16, len - 24);
    store_number(bytes + 24, (uint64_t)o);
    store_number(bytes + 32, phi);
    for (uint32_t i = 0; i < n_levels; i++) {
        store_number(bytes + 40 + 16 * i, (uint64_t)levels[i].stride);
        store_number(bytes + 48 + 16 * i, i + 1 < n_levels ? levels[i].count : 0);
    }
    used = rankmap_unpack(bytes, len, opts, out);
    return used < 0 ? (int)used : 0;
}

/* B(o,b,s,t,φ) */
static inline int make_block(int64_t o, uint64_t b, int64_t s, int64_t t, uint64_t phi, uint32_t n,
                             const struct rankmap_opts *opts, struct rankmap **out)
{
    const struct rankmap_level levels[] = {{.stride = t, .count = b}, {.stride = s}};

    return make_layout(o, levels, 2, phi, n, opts, out);
}

/* Options for a list of ranks of the parent. */
static inline struct rankmap_opts list_opts(const struct rankmap *parent,
                                            const struct rankmap_opts *opts)
{
    struct rankmap_opts o = {.size = sizeof(o), .id_limit = rankmap_size(parent)};

    if (opts) {
        o.allocator = opts->allocator;
        o.flags = opts->flags & RANKMAP_ALLOW_DUPLICATES;
    }
    return o;
}

/* The calls for lists, of ranks that are in arrays of uint32_t. */
static inline int include_ranks(struct rankmap *parent, const uint32_t *ranks, size_t n,
                                const struct rankmap_opts *opts, struct rankmap **out)
{
    return rankmap_include_ranks(parent, (const int *)ranks, n, opts, out, NULL);
}

static inline int exclude_ranks(struct rankmap *parent, const uint32_t *ranks, size_t n,
                                const struct rankmap_opts *opts, struct rankmap **out)
{
    return rankmap_exclude_ranks(parent, (const int *)ranks, n, opts, out, NULL);
}

/* MPI_Group_range_incl() */
static inline int include_ranges(struct rankmap *parent, const struct rankmap_range *ranges,
                                 size_t n, const struct rankmap_opts *opts, struct rankmap **out)
{
    const struct rankmap_opts of_list = list_opts(parent, opts);
    struct rankmap *list = NULL;
    int rc = rankmap_from_ranges(ranges, n, &of_list, &list, NULL);

    if (rc == 0)
        rc = rankmap_compose(parent, list, opts, out);
    rankmap_unref(list);
    return rc;
}

/* MPI_Group_range_excl() */
static inline int exclude_ranges(struct rankmap *parent, const struct rankmap_range *ranges,
                                 size_t n, const struct rankmap_opts *opts, struct rankmap **out)
{
    const struct rankmap_opts of_list = list_opts(parent, opts);
    struct rankmap *list = NULL;
    int rc = rankmap_from_ranges(ranges, n, &of_list, &list, NULL);

    if (rc == 0)
        rc = rankmap_exclude(parent, list, opts, out);
    rankmap_unref(list);
    return rc;
}

/* The ranks in reverse. */
static inline int reverse_ranks(struct rankmap *parent, const struct rankmap_opts *opts,
                                struct rankmap **out)
{
    const struct rankmap_opts of_list = list_opts(parent, opts);
    uint32_t n = rankmap_size(parent);
    struct rankmap *list = NULL;
    int rc = rankmap_affine(n ? n - 1 : 0, -1, n, &of_list, &list);

    if (rc == 0)
        rc = rankmap_compose(parent, list, opts, out);
    rankmap_unref(list);
    return rc;
}

static inline struct rankmap_info query(const struct rankmap *map)
{
    struct rankmap_info info = {.size = sizeof(info)};

    if (rankmap_query(map, &info) != 0)
        abort();
    return info;
}

static inline uint32_t kind_of(const struct rankmap *map)
{
    return query(map).kind;
}

static inline uint64_t bytes_of(const struct rankmap *map)
{
    return query(map).total_bytes;
}

#endif
