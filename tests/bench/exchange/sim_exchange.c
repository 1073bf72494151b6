/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim_exchange: Fence, the three designs and Ring on up to 65,536 nodes in virtual time, by the
 * library's own exchange (sim.h says what things cost). One JSON line a figure; "n" is the number
 * of ranks. What must hold at every size is counted as well, and the program fails where it does
 * not: two frames a node in a Ring, a constant number of frames and keys a node for SPARSE keys in
 * design DIRECT, no more than 5 % on top of the pairs themselves in what a Fence brings to a node.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../bench.h"
#include "sim.h"

#define FENCED .hint = PMIWIRE_HINT_DENSE, .how = PMIWIRE_GET_LOCAL
#define FREE                                                                                       \
    .hint = PMIWIRE_HINT_SPARSE, .how = PMIWIRE_GET_WAIT, .flags = PMIWIRE_EXCHANGE_FENCE_FREE

enum { N_SPARSE = 11, N_DENSE = 5, N_OPS = 6 };

/* The paper's Figure 7(b): every rank puts a value of 16 bytes and gets its two neighbours'. */
static const struct script sparse[N_SPARSE] = {
    {.who = "fence-tree",
     .ops = {OP_PUT, OP_FENCE, OP_GET_LEFT, OP_GET_RIGHT},
     .put_every = 1,
     FENCED},
    {.who = "fence-doubling",
     .ops = {OP_PUT, OP_FENCE, OP_GET_LEFT, OP_GET_RIGHT},
     .fence = PMIWIRE_FENCE_DOUBLING,
     .put_every = 1,
     FENCED},
    {.who = "tree",
     .ops = {OP_PUT, OP_GET_LEFT, OP_GET_RIGHT},
     .design = PMIWIRE_DESIGN_TREE,
     .put_every = 1,
     FREE},
    {.who = "dkvs",
     .ops = {OP_PUT, OP_GET_LEFT, OP_GET_RIGHT},
     .design = PMIWIRE_DESIGN_DKVS,
     .put_every = 1,
     FREE},
    {.who = "direct",
     .ops = {OP_PUT, OP_GET_LEFT, OP_GET_RIGHT},
     .design = PMIWIRE_DESIGN_DIRECT,
     .put_every = 1,
     FREE},
    {.who = "ring", .ops = {OP_RING}},
    {.who = "dkvs-cyclic",
     .ops = {OP_PUT, OP_GET_LEFT, OP_GET_RIGHT},
     .design = PMIWIRE_DESIGN_DKVS,
     .put_every = 1,
     .cyclic = true,
     FREE},
    {.who = "direct-cyclic",
     .ops = {OP_PUT, OP_GET_LEFT, OP_GET_RIGHT},
     .design = PMIWIRE_DESIGN_DIRECT,
     .put_every = 1,
     .cyclic = true,
     FREE},
    {.who = "ring-cyclic", .ops = {OP_RING}, .cyclic = true},
    {.who = "fence-tree-scattered",
     .ops = {OP_PUT, OP_FENCE, OP_GET_LEFT, OP_GET_RIGHT},
     .put_every = 1,
     .scattered = true,
     FENCED},
    {.who = "fence-doubling-scattered",
     .ops = {OP_PUT, OP_FENCE, OP_GET_LEFT, OP_GET_RIGHT},
     .fence = PMIWIRE_FENCE_DOUBLING,
     .put_every = 1,
     .scattered = true,
     FENCED},
};

/* 7(a): one rank puts, all get. */
static const struct script dense[N_DENSE] = {
    {.who = "fence-tree", .ops = {OP_PUT, OP_FENCE, OP_GET_ONE}, FENCED},
    {.who = "fence-doubling",
     .ops = {OP_PUT, OP_FENCE, OP_GET_ONE},
     .fence = PMIWIRE_FENCE_DOUBLING,
     FENCED},
    {.who = "tree", .ops = {OP_PUT, OP_GET_ONE}, .design = PMIWIRE_DESIGN_TREE, FREE},
    {.who = "dkvs", .ops = {OP_PUT, OP_GET_ONE}, .design = PMIWIRE_DESIGN_DKVS, FREE},
    {.who = "direct", .ops = {OP_PUT, OP_GET_ONE}, .design = PMIWIRE_DESIGN_DIRECT, FREE},
};

/* Figure 2: what each operation takes, with all ranks' pairs, half of them, and none. */
static const struct script ops[N_OPS] = {
    {.who = "fence-tree with PUT",
     .ops = {OP_PUT, OP_FENCE, OP_GET_LEFT, OP_GET_RIGHT},
     .put_every = 1,
     FENCED},
    {.who = "fence-tree with 50% PUT", .ops = {OP_PUT, OP_FENCE}, .put_every = 2, FENCED},
    {.who = "fence-tree w/o PUT", .ops = {OP_FENCE}, .put_every = 0, FENCED},
    {.who = "fence-doubling with PUT",
     .ops = {OP_PUT, OP_FENCE, OP_GET_LEFT, OP_GET_RIGHT},
     .fence = PMIWIRE_FENCE_DOUBLING,
     .put_every = 1,
     FENCED},
    {.who = "fence-doubling with 50% PUT",
     .ops = {OP_PUT, OP_FENCE},
     .fence = PMIWIRE_FENCE_DOUBLING,
     .put_every = 2,
     FENCED},
    {.who = "fence-doubling w/o PUT",
     .ops = {OP_FENCE},
     .fence = PMIWIRE_FENCE_DOUBLING,
     .put_every = 0,
     FENCED},
};

struct args {
    struct bench b;
    struct costs c;
    uint32_t from, to, per_node, sample, arity;
    const char *only; /* a case */
    bool bad;
};

static void figure(struct args *a, const char *which, uint64_t n, const char *who,
                   const char *metric, double v, const char *unit)
{
    bench_figure(&a->b, which, n, who, metric, v, unit);
}

static void must(struct args *a, bool holds, const char *what, const char *who, uint32_t nodes)
{
    if (holds)
        return;
    fprintf(stderr, "sim_exchange: %s, %u nodes: %s\n", who, nodes, what);
    a->bad = true;
}

/* What does not depend on the size of the job. */
static void check(struct args *a, const struct script *s, uint32_t nodes, const struct result *r)
{
    must(a, r->right, "not every rank has found what was put", s->who, nodes);
    if (strncmp(s->who, "ring", 4) == 0)
        must(a, r->max_sent == 2 && r->mean_frames > 1.999, "not two frames a node", s->who, nodes);
    if (strcmp(s->who, "direct") == 0 &&
        s->ops[1] == OP_GET_LEFT) { /* two requests, two answers, each way */
        must(a, r->max_frames == 8, "not eight frames a node", s->who, nodes);
        must(a, r->max_keys == a->per_node + 2, "not its own keys and two", s->who, nodes);
    }
    if (s->design == PMIWIRE_DESIGN_DKVS && s->ops[1] == OP_GET_LEFT) {
        must(a,
             r->frames[PMIWIRE_FRAME_GET] == r->n_requests &&
                 r->frames[PMIWIRE_FRAME_ANSWER] == r->n_requests,
             "not two frames a Get", s->who, nodes);
        must(a, r->mean_frames <= a->per_node * (s->cyclic ? 5.0 : 1.0) + 4.001,
             "more frames a node than its ranks ask for", s->who, nodes);
        must(a, r->mean_keys <= a->per_node * (s->cyclic ? 4.0 : 2.0) + 2.001,
             "more keys a node than its ranks put and ask for", s->who, nodes);
        must(a, r->frames[PMIWIRE_FRAME_ACK] == 0, "acknowledged", s->who, nodes);
    }
    if (s->ops[1] == OP_FENCE && s->put_every == 1) { /* 13 bytes of key, 16 of value */
        must(a, r->payload == (uint64_t)29 * nodes * a->per_node, "not all pairs", s->who, nodes);
        must(a, (double)r->max_bytes_received <= 1.05 * (double)r->payload,
             "the Fence brings more than the pairs and 5 %", s->who, nodes);
    }
}

static void run(struct args *a, const char *which, const struct script *s, uint32_t nodes)
{
    uint64_t n = (uint64_t)nodes * a->per_node;
    struct result r;

    if (sim_run(s, nodes, a->per_node, &a->c, a->sample, a->arity, &r) != 0) {
        must(a, false, "out of memory", s->who, nodes);
        return;
    }
    check(a, s, nodes, &r);
    figure(a, which, n, s->who, "time", r.time_us, "us");
    figure(a, which, n, s->who, "frames sent a node", r.mean_frames, "frames");
    figure(a, which, n, s->who, "most frames sent and received by a node", (double)r.max_frames,
           "frames");
    figure(a, which, n, s->who, "bytes sent a node", r.mean_bytes, "bytes");
    if (s->ops[1] == OP_FENCE && s->put_every == 1)
        figure(a, which, n, s->who, "most bytes received by a node, beside the pairs",
               (double)r.max_bytes_received / (double)r.payload, "ratio");
    figure(a, which, n, s->who, "most keys held by a node", (double)r.max_keys, "keys");
    figure(a, which, n, s->who, "most memory of a node", (double)r.max_memory, "bytes");
    figure(a, which, n, s->who, "payload sample", r.sample, "of 1");
    fflush(stdout);
}

static void run_ops(struct args *a, const struct script *s, uint32_t nodes)
{
    uint64_t n = (uint64_t)nodes * a->per_node;
    struct result r;

    if (sim_run(s, nodes, a->per_node, &a->c, a->sample, a->arity, &r) != 0) {
        must(a, false, "out of memory", s->who, nodes);
        return;
    }
    check(a, s, nodes, &r);
    figure(a, "operations", n, s->who, "FENCE", r.op_us[OP_FENCE], "us");
    figure(a, "operations", n, s->who, "payload sample", r.sample, "of 1");
    if (s->put_every == 1) {
        figure(a, "operations", n, s->who, "PUT", r.op_us[OP_PUT], "us");
        figure(a, "operations", n, s->who, "GET",
               (r.op_us[OP_GET_LEFT] + r.op_us[OP_GET_RIGHT]) / 2, "us");
    }
    fflush(stdout);
}

static void all(struct args *a)
{
    for (uint32_t nodes = a->from; nodes <= a->to; nodes *= 4) {
        for (size_t i = 0; i < N_SPARSE; i++)
            if (!a->only ? !sparse[i].scattered || nodes <= 4096
                         : strcmp(a->only, "sparse") == 0 || strcmp(a->only, sparse[i].who) == 0)
                run(a, "sparse", &sparse[i], nodes);
        for (size_t i = 0; i < N_DENSE; i++)
            if (!a->only || strcmp(a->only, "dense") == 0)
                run(a, "dense", &dense[i], nodes);
        for (size_t i = 0; i < N_OPS; i++)
            if (!a->only || strcmp(a->only, "operations") == 0)
                run_ops(a, &ops[i], nodes);
    }
}

static void usage(void)
{
    fprintf(stderr,
            "usage: sim_exchange [--quick] [--from NODES] [--to NODES] [--ranks PER_NODE] "
            "[--sample N] [--arity K]\n"
            "                    [--case sparse|dense|operations|WHO] [--L NS] [--o NS] [--g NS] "
            "[--G NS_A_BYTE]\n"
            "                    [--byte NS_A_BYTE] [--serve NS] [--reply NS] [--turn NS]\n");
    exit(2);
}

int main(int argc, char **argv)
{
    /* Servers that talk over TCP on a fast network, and ranks over sockets of the node. */
    struct args a = {.b = {.name = "exchange"},
                     .c = {20000, 5000, 2000, 0.8, 0.3, 5000, 4000, 10000},
                     .from = 16,
                     .to = 65536,
                     .per_node = 16};
    const struct {
        const char *name;
        double *value;
    } costs[] = {{"--L", &a.c.L},         {"--o", &a.c.o},          {"--g", &a.c.g},
                 {"--G", &a.c.G},         {"--byte", &a.c.byte_ns}, {"--serve", &a.c.serve},
                 {"--reply", &a.c.reply}, {"--turn", &a.c.turn}};
    const struct {
        const char *name;
        uint32_t *value, most;
    } numbers[] = {{"--from", &a.from, 65536},
                   {"--to", &a.to, 65536},
                   {"--ranks", &a.per_node, 1024},
                   {"--sample", &a.sample, 65536},
                   {"--arity", &a.arity, PMIWIRE_EXCHANGE_MAX_ARITY}};

    for (int i = 1; i < argc; i++) {
        bool known = false;

        if (strcmp(argv[i], "--quick") == 0) {
            a.to = 256;
            continue;
        }
        if (i + 1 == argc)
            usage();
        for (size_t k = 0; k < sizeof(costs) / sizeof(costs[0]); k++)
            if (strcmp(argv[i], costs[k].name) == 0) {
                *costs[k].value = strtod(argv[i + 1], NULL);
                known = *costs[k].value >= 0 && *costs[k].value < 1e9;
            }
        for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++)
            if (strcmp(argv[i], numbers[k].name) == 0) {
                unsigned long v = strtoul(argv[i + 1], NULL, 10);

                known = v >= 1 && v <= numbers[k].most;
                *numbers[k].value = (uint32_t)v;
            }
        if (strcmp(argv[i], "--case") == 0) {
            a.only = argv[i + 1];
            known = true;
        }
        if (!known)
            usage();
        i++;
    }
    if (a.from < 4) /* neighbours in the Ring and on the tree are four nodes */
        usage();
    for (size_t k = 0; k < sizeof(costs) / sizeof(costs[0]); k++)
        figure(&a, "parameters", a.per_node, "LogGP", costs[k].name + 2, *costs[k].value,
               costs[k].value == &a.c.G || costs[k].value == &a.c.byte_ns ? "ns/byte" : "ns");
    all(&a);
    return a.bad ? 1 : 0;
}
