/* SPDX-License-Identifier: BSD-3-Clause */
/* Other libraries' group operations on arrays of ids, reimplemented. */
#ifndef FENCEPOST_BENCH_GROUP_PEERS_H
#define FENCEPOST_BENCH_GROUP_PEERS_H

#include <stdint.h>

#define GROUP_NONE UINT32_MAX

enum group_relation { GROUP_IDENT, GROUP_SIMILAR, GROUP_UNEQUAL };

struct group {
    const uint32_t *ids;
    uint32_t n;
};

/* Every algorithm gives the same: `out` has a.n places. */
struct group_ops {
    const char *who;
    uint32_t max_n; /* quadratic ones are not run above it */
    enum group_relation (*compare)(const struct group *a, const struct group *b, uint32_t n_ids);
    /* The ids of a that are not in b, in the order of a; returns their number. */
    uint32_t (*difference)(const struct group *a, const struct group *b, uint32_t n_ids,
                           uint32_t *out);
    /* The rank in b of each rank of a, or GROUP_NONE. */
    void (*translate)(const struct group *a, const struct group *b, uint32_t n_ids, uint32_t *out);
};

/* Open MPI, and MPICH main for irregular groups: each id is searched for from the front. */
extern const struct group_ops group_nested;
/* MPICH up to 4.3: ids sorted, by merging, then both lists walked. */
extern const struct group_ops group_sorted;
/* The floor: a table from id to rank, thrown away afterwards. */
extern const struct group_ops group_dense;

#endif
