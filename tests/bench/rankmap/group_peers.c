/* SPDX-License-Identifier: BSD-3-Clause */
#include "group_peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *need(void *p)
{
    if (!p) {
        fprintf(stderr, "bench_rankmap_groups: out of memory\n");
        exit(1);
    }
    return p;
}

/* ---- Every operation is a translation and a walk over its result ---- */

typedef void translate_fn(const struct group *a, const struct group *b, uint32_t n_ids,
                          uint32_t *out);

static enum group_relation compare_by(translate_fn *translate, const struct group *a,
                                      const struct group *b, uint32_t n_ids)
{
    enum group_relation relation = GROUP_IDENT;
    uint32_t *ranks;

    if (a->n != b->n)
        return GROUP_UNEQUAL;
    ranks = need(malloc(a->n * sizeof(*ranks)));
    translate(a, b, n_ids, ranks);
    for (uint32_t r = 0; r < a->n; r++) {
        if (ranks[r] == GROUP_NONE) {
            relation = GROUP_UNEQUAL;
            break;
        }
        if (ranks[r] != r)
            relation = GROUP_SIMILAR;
    }
    free(ranks);
    return relation;
}

static uint32_t difference_by(translate_fn *translate, const struct group *a, const struct group *b,
                              uint32_t n_ids, uint32_t *out)
{
    uint32_t n = 0;

    translate(a, b, n_ids, out);
    for (uint32_t r = 0; r < a->n; r++)
        if (out[r] == GROUP_NONE)
            out[n++] = a->ids[r];
    return n;
}

/* ---- Open MPI ---- */

static void nested_translate(const struct group *a, const struct group *b, uint32_t n_ids,
                             uint32_t *out)
{
    for (uint32_t r = 0; r < a->n; r++) {
        out[r] = GROUP_NONE;
        for (uint32_t k = 0; k < b->n; k++) {
            if (b->ids[k] == a->ids[r]) {
                out[r] = k;
                break;
            }
        }
    }
}

static enum group_relation nested_compare(const struct group *a, const struct group *b,
                                          uint32_t n_ids)
{
    return compare_by(nested_translate, a, b, n_ids);
}

static uint32_t nested_difference(const struct group *a, const struct group *b, uint32_t n_ids,
                                  uint32_t *out)
{
    return difference_by(nested_translate, a, b, n_ids, out);
}

const struct group_ops group_nested = {"nested loops (Open MPI, MPICH main)", 10000, nested_compare,
                                       nested_difference, nested_translate};

/* ---- MPICH up to 4.3 ---- */

struct entry {
    uint32_t id, rank;
};

static int by_id(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

static struct entry *sorted(const struct group *g)
{
    struct entry *e = need(malloc(g->n * sizeof(*e)));

    for (uint32_t r = 0; r < g->n; r++)
        e[r] = (struct entry){g->ids[r], r};
    qsort(e, g->n, sizeof(*e), by_id);
    return e;
}

static void sorted_translate(const struct group *a, const struct group *b, uint32_t n_ids,
                             uint32_t *out)
{
    struct entry *x = sorted(a), *y = sorted(b);
    uint32_t k = 0;

    for (uint32_t i = 0; i < a->n; i++) {
        while (k < b->n && y[k].id < x[i].id)
            k++;
        out[x[i].rank] = k < b->n && y[k].id == x[i].id ? y[k].rank : GROUP_NONE;
    }
    free(x);
    free(y);
}

static enum group_relation sorted_compare(const struct group *a, const struct group *b,
                                          uint32_t n_ids)
{
    return compare_by(sorted_translate, a, b, n_ids);
}

static uint32_t sorted_difference(const struct group *a, const struct group *b, uint32_t n_ids,
                                  uint32_t *out)
{
    return difference_by(sorted_translate, a, b, n_ids, out);
}

const struct group_ops group_sorted = {"sort and walk (MPICH up to 4.3)", 10000000, sorted_compare,
                                       sorted_difference, sorted_translate};

/* ---- The floor ---- */

static void dense_translate(const struct group *a, const struct group *b, uint32_t n_ids,
                            uint32_t *out)
{
    uint32_t *rank_of = need(malloc(n_ids * sizeof(*rank_of)));

    memset(rank_of, 0xff, n_ids * sizeof(*rank_of));
    for (uint32_t k = 0; k < b->n; k++)
        rank_of[b->ids[k]] = k;
    for (uint32_t r = 0; r < a->n; r++)
        out[r] = rank_of[a->ids[r]];
    free(rank_of);
}

static enum group_relation dense_compare(const struct group *a, const struct group *b,
                                         uint32_t n_ids)
{
    return compare_by(dense_translate, a, b, n_ids);
}

static uint32_t dense_difference(const struct group *a, const struct group *b, uint32_t n_ids,
                                 uint32_t *out)
{
    return difference_by(dense_translate, a, b, n_ids, out);
}

const struct group_ops group_dense = {"dense inverse", 10000000, dense_compare, dense_difference,
                                      dense_translate};
