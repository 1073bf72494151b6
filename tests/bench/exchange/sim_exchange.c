/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim_exchange: Fence, the three designs and Ring on up to 65,536 nodes in virtual time, by the
 * library's own exchange (costs.h has the costs). One JSON line a figure; "n" is the number of
 * ranks, and the case names the mode: every process has a processor of its own, or all nodes share
 * a number of them (--processors). The program also checks bounds, and fails if one does not hold
 * at every size: two frames a node in a Ring; a constant number of frames and keys a node for
 * SPARSE keys in design DIRECT; in a Fence, at most 5 % of traffic to a node beyond the pairs
 * themselves.
 *
 * The tree's links exist at the start, as in pmirun; others are opened on demand. Each operation
 * that opens links, except Fences, runs a second time with all links open ("WHO, connected").
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../bench.h"
#include "costs.h"
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

/* Figure 2: the time of each operation with all ranks' pairs, half of them, and none. */
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
    struct setup setup;
    uint32_t from, to;
    const char *only; /* a case */
    bool bad;
};

static void figure(struct args *a, const char *which, uint64_t n, const char *who,
                   const char *metric, double v, const char *unit)
{
    char text[80];

    if (a->setup.n_processors)
        snprintf(text, sizeof(text), "%s, %u shared processors", which, a->setup.n_processors);
    else
        snprintf(text, sizeof(text), "%s, own processors", which);
    bench_figure(&a->b, text, n, who, metric, v, unit);
}

static void must(struct args *a, bool holds, const char *what, const char *who, uint32_t nodes)
{
    if (holds)
        return;
    fprintf(stderr, "sim_exchange: %s, %u nodes: %s\n", who, nodes, what);
    a->bad = true;
}

/* Bounds that do not depend on the size of the job. */
static void check(struct args *a, const struct script *s, uint32_t nodes, const struct result *r)
{
    must(a, r->right, "not every rank has found what was put", s->who, nodes);
    if (strncmp(s->who, "ring", 4) == 0)
        must(a, r->max_sent == 2 && r->mean_frames > 1.999, "not two frames a node", s->who, nodes);
    if (strcmp(s->who, "direct") == 0 &&
        s->ops[1] == OP_GET_LEFT) { /* two requests, two answers, each way */
        must(a, r->max_frames == 8, "not eight frames a node", s->who, nodes);
        must(a, r->max_keys == a->setup.per_node + 2, "not its own keys and two", s->who, nodes);
    }
    if (s->design == PMIWIRE_DESIGN_DKVS && s->ops[1] == OP_GET_LEFT) {
        must(a,
             r->frames[PMIWIRE_FRAME_GET] == r->n_requests &&
                 r->frames[PMIWIRE_FRAME_ANSWER] == r->n_requests,
             "not two frames a Get", s->who, nodes);
        must(a, r->mean_frames <= a->setup.per_node * (s->cyclic ? 5.0 : 1.0) + 4.001,
             "more frames a node than its ranks ask for", s->who, nodes);
        must(a, r->mean_keys <= a->setup.per_node * (s->cyclic ? 4.0 : 2.0) + 2.001,
             "more keys a node than its ranks put and ask for", s->who, nodes);
        must(a, r->frames[PMIWIRE_FRAME_ACK] == 0, "acknowledged", s->who, nodes);
    }
    if (s->ops[1] == OP_FENCE && s->put_every == 1) { /* 13 bytes of key, 16 of value */
        must(a, r->payload == (uint64_t)29 * nodes * a->setup.per_node, "not all pairs", s->who,
             nodes);
        must(a, (double)r->max_bytes_received <= 1.05 * (double)r->payload,
             "the Fence brings more than the pairs and 5 %", s->who, nodes);
    }
}

static bool simulate(struct args *a, const struct script *s, uint32_t nodes,
                     enum connected connected, struct result *r)
{
    struct setup setup = a->setup;

    setup.n_nodes = nodes;
    setup.connected = connected;
    if (sim_run(s, &setup, &a->c, r) != 0) {
        must(a, false, "out of memory", s->who, nodes);
        return false;
    }
    check(a, s, nodes, r);
    return true;
}

static void figures(struct args *a, const char *which, const struct script *s, const char *who,
                    uint32_t nodes, const struct result *r)
{
    uint64_t n = (uint64_t)nodes * a->setup.per_node;

    figure(a, which, n, who, "time", r->time_us, "us");
    if (r->op_us[OP_GET_LEFT] > 0)
        figure(a, which, n, who, "GET", (r->op_us[OP_GET_LEFT] + r->op_us[OP_GET_RIGHT]) / 2, "us");
    figure(a, which, n, who, "frames sent a node", r->mean_frames, "frames");
    figure(a, which, n, who, "most frames sent and received by a node", (double)r->max_frames,
           "frames");
    figure(a, which, n, who, "bytes sent a node", r->mean_bytes, "bytes");
    figure(a, which, n, who, "connections made a node", (double)r->n_connections / nodes,
           "connections");
    figure(a, which, n, who, "most connections made by a node", (double)r->max_connections,
           "connections");
    if (s->ops[1] == OP_FENCE && s->put_every == 1)
        figure(a, which, n, who, "most bytes received by a node, beside the pairs",
               (double)r->max_bytes_received / (double)r->payload, "ratio");
    figure(a, which, n, who, "most keys held by a node", (double)r->max_keys, "keys");
    figure(a, which, n, who, "most memory of a node", (double)r->max_memory, "bytes");
    figure(a, which, n, who, "payload sample", r->sample, "of 1");
    fflush(stdout);
}

static void run(struct args *a, const char *which, const struct script *s, uint32_t nodes)
{
    struct result r;
    char who[64];

    if (!simulate(a, s, nodes, CONNECTED_TREE, &r))
        return;
    figures(a, which, s, s->who, nodes, &r);
    if (r.n_connections == 0 || s->ops[1] == OP_FENCE || !simulate(a, s, nodes, CONNECTED_ALL, &r))
        return;
    snprintf(who, sizeof(who), "%s, connected", s->who);
    figures(a, which, s, who, nodes, &r);
}

static void run_ops(struct args *a, const struct script *s, uint32_t nodes)
{
    uint64_t n = (uint64_t)nodes * a->setup.per_node;
    struct result r;

    if (!simulate(a, s, nodes, CONNECTED_TREE, &r))
        return;
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
    fprintf(stderr, "usage: sim_exchange [--quick] [--from NODES] [--to NODES] [--ranks PER_NODE] "
                    "[--sample N] [--arity K]\n"
                    "                    [--case sparse|dense|operations|WHO] [--processors N] "
                    "[--machine own|hosts] [--COST NS]...\n"
                    "COST:");
    for (size_t i = 0; i < N_COSTS; i++)
        fprintf(stderr, " %s", cost_table[i].name);
    fprintf(stderr, "\n--machine hosts, before costs: those of this machine's namespaces\n");
    exit(2);
}

static bool take_number(struct args *a, const char *name, const char *text)
{
    const struct {
        const char *name;
        uint32_t *value, most;
    } numbers[] = {{"--from", &a->from, 65536},
                   {"--to", &a->to, 65536},
                   {"--ranks", &a->setup.per_node, 1024},
                   {"--sample", &a->setup.sample, 65536},
                   {"--processors", &a->setup.n_processors, 65536},
                   {"--arity", &a->setup.arity, PMIWIRE_EXCHANGE_MAX_ARITY}};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        unsigned long v = strtoul(text, NULL, 10);

        if (strcmp(name, numbers[i].name) != 0)
            continue;
        *numbers[i].value = (uint32_t)v;
        return v >= 1 && v <= numbers[i].most;
    }
    return false;
}

static bool take_cost(struct args *a, const char *name, const char *text)
{
    for (size_t i = 0; i < N_COSTS; i++) {
        double *value = cost_of(&a->c, &cost_table[i]);

        if (strncmp(name, "--", 2) != 0 || strcmp(name + 2, cost_table[i].name) != 0)
            continue;
        *value = strtod(text, NULL);
        return *value >= 0 && *value < 1e9;
    }
    return false;
}

static bool take_machine(struct args *a, const char *text)
{
    if (strcmp(text, "hosts") == 0)
        costs_hosts(&a->c);
    else if (strcmp(text, "own") == 0)
        costs_own(&a->c);
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    struct args a = {.b = {.name = "exchange"},
                     .setup = {.per_node = 16, .cold = true},
                     .from = 16,
                     .to = 65536};

    costs_own(&a.c);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            a.to = 256;
            continue;
        }
        if (i + 1 == argc)
            usage();
        if (strcmp(argv[i], "--case") == 0)
            a.only = argv[i + 1];
        else if (strcmp(argv[i], "--machine") == 0 ? !take_machine(&a, argv[i + 1])
                                                   : !take_number(&a, argv[i], argv[i + 1]) &&
                                                         !take_cost(&a, argv[i], argv[i + 1]))
            usage();
        i++;
    }
    if (a.from < 4) /* neighbours in the Ring and on the tree are four nodes */
        usage();
    for (size_t i = 0; i < N_COSTS; i++)
        figure(&a, "parameters", a.setup.per_node, cost_table[i].source, cost_table[i].name,
               *cost_of(&a.c, &cost_table[i]), cost_table[i].unit);
    all(&a);
    return a.bad ? 1 : 0;
}
