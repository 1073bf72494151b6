/* SPDX-License-Identifier: BSD-3-Clause */
/* The tree of nodes: a heap of some arity, node 0 its root. */
#include "exchange_internal.h"

/* Levels below the root of a tree of n nodes. */
static uint32_t tree_depth(uint32_t n, uint32_t arity)
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

/* The default arity, of 2 to 4, is the one with the least depth * (8 + arity). A node sends a large
 * set whole to each child, so more than four children cost more than the fewer levels save. A hop
 * costs about as much as sending 8 small frames. */
#define MOST_BY_DEFAULT 4u

uint32_t pmiwire_exchange_arity(uint32_t n_nodes)
{
    uint32_t best = 2;

    for (uint32_t k = 3; k <= MOST_BY_DEFAULT; k++)
        if (tree_depth(n_nodes, k) * (8 + k) < tree_depth(n_nodes, best) * (8 + best))
            best = k;
    return best;
}

bool pmiwire__tree_neighbour(const struct pmiwire_exchange *x, uint32_t i, uint32_t *node)
{
    uint64_t child;

    if (x->me > 0 && i-- == 0) {
        *node = pmiwire__tree_parent(x, x->me);
        return true;
    }
    child = (uint64_t)x->arity * x->me + 1 + i;
    if (i >= x->arity || child >= x->n_nodes)
        return false;
    *node = (uint32_t)child;
    return true;
}

bool pmiwire__tree_under(const struct pmiwire_exchange *x, uint32_t node, uint32_t top)
{
    while (node > top)
        node = pmiwire__tree_parent(x, node);
    return node == top;
}

uint32_t pmiwire__tree_hop(const struct pmiwire_exchange *x, uint32_t node)
{
    if (!pmiwire__tree_under(x, node, x->me))
        return pmiwire__tree_parent(x, x->me);
    while (pmiwire__tree_parent(x, node) != x->me)
        node = pmiwire__tree_parent(x, node);
    return node;
}
