/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fit_exchange FIGURES: fits the simulation's costs, and prints measurements and predictions side
 * by side, as Markdown.
 *
 *     fit_exchange [--busy] [--processors N] FIGURES
 *
 * FIGURES are lines of wire_costs, whose costs are taken as they are, and of bench_exchange --cpu
 * on 4, 8, 16 hosts or some of these. All hosts share the machine's processors, and so do the
 * simulated nodes.
 *
 * The fit uses 4 hosts alone, with all sizes and ways; for the Gets, which come first in their
 * jobs, also the first round. It minimizes the mean of |log(predicted / measured)|: first of the
 * processor times of ranks and of servers, by the costs that costs.c calls FITTED; then of the
 * time, by those that it calls IDLE. It descends along one cost after the other, by factors of 2 to
 * 1.01.
 *
 * --busy: other processes use the processors too, so elapsed times mean nothing: the IDLE costs
 * keep their values in the table.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "board.h"
#include "costs.h"
#include "sim.h"

#define MAX_CASES 200
#define HOSTS_FIT 4

enum metric { TIME, RANKS, SERVERS, FIRST_TIME, FIRST_RANKS, FIRST_SERVERS, N_METRICS };
static const char *const metrics[N_METRICS] = {"time",       "ranks",       "servers",
                                               "first time", "first ranks", "first servers"};

#define WAITING                                                                                    \
    .ops = {OP_PUT, OP_GET_LEFT, OP_GET_RIGHT}, .hint = PMIWIRE_HINT_SPARSE,                       \
    .how = PMIWIRE_GET_WAIT, .put_every = 1
#define FENCED .hint = PMIWIRE_HINT_DENSE, .how = PMIWIRE_GET_LOCAL, .put_every = 1

/* As in exchange_client. */
static const struct script ways[] = {
    {.who = "Ring", .ops = {OP_RING}},
    {.who = "Direct", .design = PMIWIRE_DESIGN_DIRECT, WAITING},
    {.who = "DKVS", .design = PMIWIRE_DESIGN_DKVS, WAITING},
    {.who = "Tree", .design = PMIWIRE_DESIGN_TREE, WAITING},
    {.who = "Put-Fence-Get", .ops = {OP_PUT, OP_FENCE, OP_GET_LEFT, OP_GET_RIGHT}, FENCED},
    {.who = "Fence", .ops = {OP_FENCE}, .put_before = 1, FENCED},
    {.who = "Fence of many", .ops = {OP_FENCE}, .put_before = BOARD_BULK, FENCED},
};

#define N_WAYS (sizeof(ways) / sizeof(ways[0]))

/* One way at one size: ms. */
struct measured {
    uint32_t n_hosts, n_ranks;
    const struct script *way;
    double measured[N_METRICS]; /* 0: was not */
    double predicted[N_METRICS];
};

static struct measured cases[MAX_CASES];
static size_t n_cases;
static uint32_t n_processors;
static bool busy;

static void fail(const char *what)
{
    fprintf(stderr, "fit_exchange: %s\n", what);
    exit(1);
}

/* ---- measurements ---- */

static struct measured *case_of(uint32_t n_hosts, uint32_t n_ranks, const struct script *way)
{
    for (size_t i = 0; i < n_cases; i++)
        if (cases[i].n_hosts == n_hosts && cases[i].n_ranks == n_ranks && cases[i].way == way)
            return &cases[i];
    if (n_cases == MAX_CASES)
        fail("too many figures");
    cases[n_cases] = (struct measured){.n_hosts = n_hosts, .n_ranks = n_ranks, .way = way};
    return &cases[n_cases++];
}

static void take_measured(uint32_t n_hosts, uint32_t n, const char *who, const char *metric,
                          double value)
{
    for (size_t w = 0; w < N_WAYS; w++)
        for (size_t m = 0; m < N_METRICS; m++)
            if (strcmp(ways[w].who, who) == 0 && strcmp(metrics[m], metric) == 0)
                case_of(n_hosts, n, &ways[w])->measured[m] = value;
}

static void read_figures(const char *path, struct costs *c)
{
    FILE *f = fopen(path, "r");
    char line[512], bench[64], which[64], who[64], metric[64];
    unsigned n, hosts;
    double value;

    if (!f)
        fail(path);
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line,
                   "{\"bench\":\"%63[^\"]\",\"case\":\"%63[^\"]\",\"n\":%u,\"who\":\"%63[^\"]\","
                   "\"metric\":\"%63[^\"]\",\"value\":%lf",
                   bench, which, &n, who, metric, &value) != 6)
            fail(line);
        if (strcmp(bench, "exchange_cpu") == 0 && sscanf(which, "%u hosts", &hosts) == 1)
            take_measured(hosts, n, who, metric, value);
        for (size_t i = 0; i < N_COSTS && strcmp(bench, "wire_costs") == 0; i++)
            if (strcmp(cost_table[i].name, metric) == 0)
                *cost_of(c, &cost_table[i]) = value;
    }
    fclose(f);
}

/* ---- predictions ---- */

static void run(struct measured *m, const struct costs *c, bool first)
{
    const struct setup setup = {.n_nodes = m->n_hosts,
                                .per_node = m->n_ranks / m->n_hosts,
                                .n_processors = n_processors,
                                .connected = first ? CONNECTED_TREE : CONNECTED_ALL,
                                .cold = first};
    double *to = m->predicted + (first ? FIRST_TIME : TIME);
    struct result r;

    if (sim_run(m->way, &setup, c, &r) != 0 || !r.right)
        fail("the simulation has failed");
    to[TIME] = r.time_us / 1e3;
    to[RANKS] = r.ranks_us / 1e3;
    to[SERVERS] = r.servers_us / 1e3;
}

static void predict(struct measured *m, const struct costs *c)
{
    run(m, c, false);
    if (m->way->hint == PMIWIRE_HINT_SPARSE) /* a job's first */
        run(m, c, true);
}

/* ---- the fit ---- */

static bool is_time(enum metric m)
{
    return m == TIME || m == FIRST_TIME;
}

/* Of the time, or of processor times. */
static double misfit(const struct costs *c, bool of_time)
{
    double sum = 0;
    unsigned n = 0;

    for (size_t i = 0; i < n_cases; i++) {
        struct measured *m = &cases[i];

        if (m->n_hosts != HOSTS_FIT)
            continue;
        predict(m, c);
        for (enum metric k = 0; k < N_METRICS; k++) {
            if (is_time(k) == of_time && m->measured[k] > 0 && m->predicted[k] > 0) {
                sum += fabs(log(m->predicted[k] / m->measured[k]));
                n++;
            }
        }
    }
    if (n == 0)
        fail("no figures of 4 hosts");
    return sum / n;
}

/* Whether a step along this cost has made it better. */
static bool step(struct costs *c, const struct cost *which, double factor, double *least)
{
    double *value = cost_of(c, which), before = *value, now;

    *value = fmin(fmax(before * factor, which->from), which->to);
    now = misfit(c, which->kind == COST_IDLE);
    if (now < *least * (1 - 1e-6)) {
        *least = now;
        return true;
    }
    *value = before;
    return false;
}

static double fit(struct costs *c, bool of_time)
{
    static const double factors[] = {2, 1.3, 1.1, 1.03, 1.01};
    double least = misfit(c, of_time);

    for (size_t f = 0; f < sizeof(factors) / sizeof(factors[0]); f++) {
        for (bool better = true; better;) {
            better = false;
            for (size_t i = 0; i < N_COSTS; i++) {
                if (cost_table[i].kind != (of_time ? COST_IDLE : COST_FITTED))
                    continue;
                better |= step(c, &cost_table[i], factors[f], &least) ||
                          step(c, &cost_table[i], 1 / factors[f], &least);
            }
        }
    }
    return exp(least);
}

/* ---- output ---- */

static void show_costs(const struct costs *fitted)
{
    struct costs c = *fitted;

    printf("For costs.c:\n\n");
    for (size_t i = 0; i < N_COSTS; i++) {
        const struct cost *cost = &cost_table[i];
        const double value = *cost_of(&c, cost);

        if (cost->kind == COST_MEASURED)
            printf("    MEASURED(%s, \"%s\", %.*f),\n", cost->name, cost->unit, value < 10 ? 2 : 0,
                   value);
        else if (cost->kind != COST_GIVEN)
            printf("    %s(%s, %.0f, %g, %g),\n", cost->kind == COST_IDLE ? "IDLE" : "FITTED",
                   cost->name, value, cost->from, cost->to);
    }
}

static void show_way(const struct script *way, uint32_t n_hosts, enum metric metric, double *worst)
{
    bool any = false;

    for (size_t i = 0; i < n_cases; i++) {
        const struct measured *m = &cases[i];
        double ratio;

        if (m->way != way || m->n_hosts != n_hosts || m->measured[metric] <= 0 ||
            m->predicted[metric] <= 0)
            continue;
        if (!any)
            printf("| %s |", way->who);
        any = true;
        ratio = m->predicted[metric] / m->measured[metric];
        printf(" %.3g : %.3g (%.2f) |", m->measured[metric], m->predicted[metric], ratio);
        *worst = fmax(*worst, fmax(ratio, 1 / ratio));
    }
    if (any)
        putchar('\n');
}

static void show(uint32_t n_hosts, enum metric metric, const char *what)
{
    double worst = 1;
    bool sizes[BOARD_RANKS + 1] = {false}, any = false;

    for (size_t i = 0; i < n_cases; i++)
        if (cases[i].n_hosts == n_hosts && cases[i].measured[metric] > 0 &&
            cases[i].predicted[metric] > 0)
            any = sizes[cases[i].n_ranks] = true;
    if (!any)
        return;
    printf("\n**%u nodes that share %u processors: %s**, ms, measured : predicted (ratio), by "
           "ranks\n\n|",
           n_hosts, n_processors, what);
    for (size_t i = 0; i <= BOARD_RANKS; i++)
        if (sizes[i])
            printf(" | %zu", i);
    printf(" |\n|---");
    for (size_t i = 0; i <= BOARD_RANKS; i++)
        if (sizes[i])
            printf("|---");
    printf("|\n");
    for (size_t w = 0; w < N_WAYS; w++)
        show_way(&ways[w], n_hosts, metric, &worst);
    printf("\nThe worst is a factor of %.2f.\n", worst);
}

static void show_all(const struct costs *c)
{
    static const uint32_t hosts[] = {4, 8, 16};
    static const struct {
        enum metric metric;
        const char *what;
    } tables[] = {{TIME, "time until every rank is done"},
                  {FIRST_TIME, "the same in a job's first exchange, connections included"},
                  {RANKS, "processor time of all ranks"},
                  {SERVERS, "processor time of all servers"},
                  {FIRST_RANKS, "that of ranks in a job's first exchange"},
                  {FIRST_SERVERS, "that of servers in a job's first exchange"}};

    for (size_t i = 0; i < n_cases; i++)
        predict(&cases[i], c);
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
        for (size_t h = 0; h < sizeof(hosts) / sizeof(hosts[0]); h++)
            show(hosts[h], tables[t].metric, tables[t].what);
}

int main(int argc, char **argv)
{
    struct costs c;
    int opt = 1;

    n_processors = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    for (; opt < argc - 1; opt++) {
        if (strcmp(argv[opt], "--busy") == 0)
            busy = true;
        else if (strcmp(argv[opt], "--processors") == 0 && opt + 1 < argc - 1)
            n_processors = (uint32_t)atoi(argv[++opt]);
        else
            break;
    }
    if (opt != argc - 1 || n_processors < 1) {
        fprintf(stderr, "usage: fit_exchange [--busy] [--processors N] FIGURES\n");
        return 2;
    }
    costs_hosts(&c);
    read_figures(argv[opt], &c);
    printf("Fitted at %d nodes that share %u processors. What remains is a factor of %.2f of "
           "processor "
           "times",
           HOSTS_FIT, n_processors, fit(&c, false));
    if (!busy)
        printf(", of %.2f of the time", fit(&c, true));
    printf(", on average.\n\n");
    show_costs(&c);
    show_all(&c);
    return 0;
}
