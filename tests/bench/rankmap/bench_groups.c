/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Comparing, subtracting and translating groups, against nested loops (Open MPI, and MPICH main
 * except for strides), sorting (MPICH up to 4.3) and a dense inverse (the floor).
 *
 *     bench_rankmap_groups [--quick] [--seed N]
 *
 * `irregular`: of 2n processes, a has n at random, in random order, and b is the same in another
 * order (compare) or n others at random, half of them in a (difference, intersection, union,
 * translate). `affine`: a has every second of 6n processes, b every third. Ours works on maps, the
 * others on arrays of ids; `ours, 32-bit` on maps made with RANKMAP_FAST. Results are checked
 * against each other. Times are the thread's processor time, medians over alternating trials.
 */
#include "../bench.h"

#include <rankmap.h>

#include "group_peers.h"

enum op { COMPARE, DIFFERENCE, INTERSECTION, UNION, TRANSLATE, N_OPS };

static const char *const op_names[N_OPS] = {"compare", "difference", "intersection", "union",
                                            "translate"};
static const struct group_ops *const peers[] = {&group_nested, &group_sorted, &group_dense};

#define N_PEERS (sizeof(peers) / sizeof(peers[0]))
#define N_WHO   (N_PEERS + 2)

/* Ours come first. */
static const char *who_name(unsigned w)
{
    return w == 0 ? "ours" : w == 1 ? "ours, 32-bit" : peers[w - 2]->who;
}

struct pair {
    uint32_t n, n_ids;
    struct group a, b, c; /* b is a in another order, c another set */
    struct maps {
        struct rankmap *a, *b, *c;
    } maps[2]; /* without and with RANKMAP_FAST */
    uint32_t *ours, *theirs;
};

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench_rankmap_groups: %s\n", what);
        exit(1);
    }
}

static void *need(void *p)
{
    check(p != NULL, "out of memory");
    return p;
}

/* ---- The operations; `size` is the size of the result, or the relation ---- */

static uint32_t do_ours(struct pair *p, const struct maps *m, enum op op)
{
    struct rankmap *out = NULL;
    uint32_t size;
    int r = 0;

    switch (op) {
    case COMPARE:
        r = rankmap_compare(m->a, m->b);
        check(r >= 0, "rankmap_compare()");
        return (uint32_t)r;
    case TRANSLATE:
        check(rankmap_translate(m->a, NULL, p->n, m->c, p->ours) == 0, "rankmap_translate()");
        return p->n;
    case DIFFERENCE: r = rankmap_difference(m->a, m->c, NULL, &out); break;
    case INTERSECTION: r = rankmap_intersection(m->a, m->c, NULL, &out); break;
    default: r = rankmap_union(m->a, m->c, NULL, &out); break;
    }
    check(r == 0, op_names[op]);
    size = rankmap_size(out);
    rankmap_unref(out);
    return size;
}

static uint32_t do_peer(const struct group_ops *peer, struct pair *p, enum op op)
{
    switch (op) {
    case COMPARE: return (uint32_t)peer->compare(&p->a, &p->b, p->n_ids);
    case DIFFERENCE: return peer->difference(&p->a, &p->c, p->n_ids, p->theirs);
    default: peer->translate(&p->a, &p->c, p->n_ids, p->theirs); return p->n;
    }
}

static int peer_does(const struct group_ops *peer, const struct pair *p, enum op op)
{
    return p->n <= peer->max_n && op != INTERSECTION && op != UNION;
}

/* Checks before the timing: the same relation, the same ids in the same order. */
static void verify(struct pair *p, const struct maps *m)
{
    uint32_t n_common, *ids = need(malloc(2 * (size_t)p->n * sizeof(*ids)));
    struct rankmap *out;

    check(do_ours(p, m, COMPARE) == RANKMAP_SIMILAR &&
              do_peer(&group_dense, p, COMPARE) == GROUP_SIMILAR,
          "compare");
    group_dense.translate(&p->a, &p->c, p->n_ids, p->theirs);
    do_ours(p, m, TRANSLATE);
    check(memcmp(p->ours, p->theirs, p->n * sizeof(*p->ours)) == 0, "translations differ");
    n_common = 0;
    for (uint32_t r = 0; r < p->n; r++)
        n_common += p->theirs[r] != GROUP_NONE;
    check(rankmap_difference(m->a, m->c, NULL, &out) == 0 && rankmap_size(out) == p->n - n_common &&
              rankmap_ids(out, 0, rankmap_size(out), sizeof(uint32_t), ids) == 0,
          "rankmap_difference()");
    check(group_dense.difference(&p->a, &p->c, p->n_ids, p->theirs) == rankmap_size(out) &&
              memcmp(ids, p->theirs, rankmap_size(out) * sizeof(*ids)) == 0,
          "differences differ");
    rankmap_unref(out);
    check(do_ours(p, m, INTERSECTION) == n_common && do_ours(p, m, UNION) == 2 * p->n - n_common,
          "intersection or union");
    free(ids);
}

static void run(struct bench *b, struct pair *p)
{
    static double ns[N_WHO][BENCH_MAX_TRIALS];
    const unsigned trials = b->quick ? 3 : 11;

    verify(p, &p->maps[0]);
    verify(p, &p->maps[1]);
    for (unsigned op = 0; op < N_OPS; op++) {
        for (unsigned t = 0; t < trials; t++) {
            for (unsigned i = 0; i < N_WHO; i++) {
                unsigned w = (i + t) % N_WHO;
                uint64_t start = bench_cpu_ns();

                if (w < 2)
                    do_ours(p, &p->maps[w], (enum op)op);
                else if (peer_does(peers[w - 2], p, (enum op)op))
                    do_peer(peers[w - 2], p, (enum op)op);
                ns[w][t] = (double)(bench_cpu_ns() - start);
            }
        }
        fprintf(stderr, "irregular %-12s %8lu |", op_names[op], (unsigned long)p->n);
        for (unsigned w = 0; w < N_WHO; w++) {
            char which[48];
            double median;

            if (w >= 2 && !peer_does(peers[w - 2], p, (enum op)op))
                continue;
            median = bench_median(ns[w], trials);
            snprintf(which, sizeof(which), "irregular %s", op_names[op]);
            bench_figure(b, which, p->n, who_name(w), "ms_per_operation", median / 1e6, "ms");
            bench_figure(b, which, p->n, who_name(w), "ns_per_rank", median / p->n, "ns");
            fprintf(stderr, " %s %.3f ms", who_name(w), median / 1e6);
        }
        fputc('\n', stderr);
    }
}

static void run_irregular(struct bench *b, uint32_t n)
{
    struct pair p = {.n = n, .n_ids = 2 * n};
    uint32_t *ids = need(malloc(p.n_ids * sizeof(*ids))), *a = need(malloc(n * sizeof(*a))),
             *same = need(malloc(n * sizeof(*same))), *c = need(malloc(n * sizeof(*c)));

    p.ours = need(malloc(n * sizeof(*p.ours)));
    p.theirs = need(malloc(n * sizeof(*p.theirs)));
    for (unsigned turn = 0; turn < 2; turn++) {
        for (uint32_t r = 0; r < p.n_ids; r++) {
            uint32_t k = bench_random(b, r + 1);

            ids[r] = ids[k];
            ids[k] = r;
        }
        memcpy(turn ? c : a, ids, n * sizeof(*a));
    }
    for (uint32_t r = 0; r < n; r++) {
        uint32_t k = bench_random(b, r + 1);

        same[r] = same[k];
        same[k] = a[r];
    }
    p.a = (struct group){a, n};
    p.b = (struct group){same, n};
    p.c = (struct group){c, n};
    for (unsigned i = 0; i < 2; i++) {
        const struct rankmap_opts opts = {.size = sizeof(opts), .flags = i ? RANKMAP_FAST : 0};

        check(rankmap_from_ids(a, sizeof(uint32_t), n, &opts, &p.maps[i].a, NULL) == 0 &&
                  rankmap_from_ids(same, sizeof(uint32_t), n, &opts, &p.maps[i].b, NULL) == 0 &&
                  rankmap_from_ids(c, sizeof(uint32_t), n, &opts, &p.maps[i].c, NULL) == 0,
              "rankmap_from_ids()");
    }
    run(b, &p);
    for (unsigned i = 0; i < 2; i++) {
        rankmap_unref(p.maps[i].a);
        rankmap_unref(p.maps[i].b);
        rankmap_unref(p.maps[i].c);
    }
    free(p.ours);
    free(p.theirs);
    free(c);
    free(same);
    free(a);
    free(ids);
}

/* ---- Affine groups: by their parameters ---- */

static void run_affine(struct bench *b, uint32_t n)
{
    static double ns[N_OPS][BENCH_MAX_TRIALS];
    const unsigned trials = b->quick ? 3 : 11, rounds = b->quick ? 1000 : 100000;
    struct rankmap *even, *third, *back, *out;
    uint32_t rank = n / 2 * 3, translated;

    check(rankmap_affine(0, 2, 3 * n, NULL, &even) == 0 &&
              rankmap_affine(0, 3, 2 * n, NULL, &third) == 0 &&
              rankmap_affine(2 * (3 * (uint64_t)n - 1), -2, 3 * n, NULL, &back) == 0,
          "rankmap_affine()");
    for (unsigned t = 0; t < trials; t++) {
        for (unsigned op = 0; op < N_OPS; op++) {
            uint64_t start = bench_cpu_ns();

            for (unsigned i = 0; i < rounds; i++) {
                int r;

                switch ((enum op)op) {
                case COMPARE: r = rankmap_compare(even, back) - RANKMAP_SIMILAR; break;
                case DIFFERENCE: r = rankmap_difference(even, third, NULL, &out); break;
                case INTERSECTION: r = rankmap_intersection(even, third, NULL, &out); break;
                case UNION: r = rankmap_union(even, third, NULL, &out); break;
                default: r = rankmap_translate(even, &rank, 1, third, &translated); break;
                }
                check(r == 0, op_names[op]);
                if (op != COMPARE && op != TRANSLATE) {
                    uint32_t expect = op == DIFFERENCE ? 2 * n : op == INTERSECTION ? n : 4 * n;

                    check(rankmap_size(out) == expect, op_names[op]);
                    rankmap_unref(out);
                }
            }
            ns[op][t] = (double)(bench_cpu_ns() - start) / rounds;
            check(op != TRANSLATE || translated == n / 2 * 2, "translate");
        }
    }
    fprintf(stderr, "affine %lu |", (unsigned long)n);
    for (unsigned op = 0; op < N_OPS; op++) {
        double median = bench_median(ns[op], trials);
        char which[48];

        snprintf(which, sizeof(which), "affine %s", op_names[op]);
        bench_figure(b, which, n, "ours", "ns_per_operation", median, "ns");
        fprintf(stderr, " %s %.1f ns%s", op_names[op], median, op + 1 < N_OPS ? "," : "\n");
    }
    rankmap_unref(even);
    rankmap_unref(third);
    rankmap_unref(back);
}

int main(int argc, char **argv)
{
    struct bench b;

    bench_init(&b, "rankmap_groups", argc, argv);
    run_affine(&b, 1000);
    run_affine(&b, 1000000);
    run_irregular(&b, 1000);
    run_irregular(&b, 10000);
    if (!b.quick) {
        run_irregular(&b, 100000);
        run_irregular(&b, 1000000);
    }
    return 0;
}
