/* SPDX-License-Identifier: BSD-3-Clause */
/* The tree of nodes: a heap of some arity, node 0 its root. */
#include <errno.h>

#include "exchange_internal.h"

/* Levels below the root of a tree of n nodes. */
static uint32_t depth(uint32_t n, uint32_t arity)
{
    uint32_t levels = 0;
    uint64_t here = 1, total = 1;

    while (total < n) {
        here *= arity;
        total += here;
        levels++;
    }
    return levels;
}

/* A large set goes to each child whole, so that more than four cost more than their tree's fewer
 * levels save. */
#define MOST_BY_DEFAULT 4u

uint32_t pmiwire_exchange_arity(uint32_t n_nodes)
{
    uint32_t best = 2, k;

    for (k = 3; k <= MOST_BY_DEFAULT; k++)
        if (depth(n_nodes, k) * (8 + k) < depth(n_nodes, best) * (8 + best))
            best = k;
    return best;
}

int pmiwire_exchange_tree_neighbour(uint32_t n_nodes, uint32_t arity, uint32_t node, uint32_t i,
                                    uint32_t *neighbour)
{
    uint64_t child;

    if (n_nodes == 0 || n_nodes > INT32_MAX || arity > PMIWIRE_EXCHANGE_MAX_ARITY ||
        node >= n_nodes)
        return -EINVAL;
    if (arity == 0)
        arity = pmiwire_exchange_arity(n_nodes);
    if (node > 0 && i-- == 0) {
        *neighbour = (node - 1) / arity;
        return 0;
    }
    child = (uint64_t)arity * node + 1 + i;
    if (i >= arity || child >= n_nodes)
        return PMIWIRE_ENOENT;
    *neighbour = (uint32_t)child;
    return 0;
}

int pmiwire_exchange_neighbour(const struct pmiwire_exchange *x, uint32_t i, uint32_t *node)
{
    return pmiwire_exchange_tree_neighbour(x->n_nodes, x->arity, x->me, i, node);
}

bool pmiwire__xunder(const struct pmiwire_exchange *x, uint32_t node, uint32_t top)
{
    while (node > top)
        node = pmiwire__xparent(x, node);
    return node == top;
}
