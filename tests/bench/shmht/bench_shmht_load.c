/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of a Get by load factor (SHMEMPMI, Figure 8b): keys for each bucket of SHMEM-2, keys
 * for each slot of ours.
 *
 *     bench_shmht_load [--quick] [--seed N] [--n N] [--trials N] [--peer NAME]...
 *
 * Stores of one size and all load factors exist together; trials go through them in a new order
 * each time. Cases are hit-LOAD, absent-LOAD, many32-LOAD: ns_per_get as in bench_shmht_get; and
 * size-LOAD: bytes_per_entry. SHMEM-2 has exactly the number of buckets that the load factor gives,
 * not a power of two.
 */
#include "stores.h"

#define MAX_STORES 16
#define N_QUERIES  131072u

static const struct {
    const char *who;
    unsigned percent;
} all[] = {
    {"ours", 25},         {"ours", 50},          {"ours", 60},         {"ours", 70},
    {"ours", 80},         {"ours", 90},          {"SHMEM-2/XXH3", 25}, {"SHMEM-2/XXH3", 50},
    {"SHMEM-2/XXH3", 75}, {"SHMEM-2/XXH3", 100},
};

static const enum gets cases[] = {GETS_HIT, GETS_ABSENT, GETS_MANY32};

static void figure(struct bench *b, const char *which, const struct store_run *s, unsigned percent,
                   const char *metric, double value, const char *unit)
{
    char name[32];

    snprintf(name, sizeof(name), "%s-0.%02u", which, percent);
    if (percent == 100)
        snprintf(name, sizeof(name), "%s-1.00", which);
    bench_figure(b, name, s->n, s->ops->name, metric, value, unit);
}

static void run_size(struct run *run, uint64_t n)
{
    struct bench *b = &run->bench;
    struct samples samples[MAX_STORES][sizeof(cases) / sizeof(*cases)] = {0};
    struct store_run stores[MAX_STORES];
    unsigned percents[MAX_STORES], turn[MAX_STORES], n_stores = 0;
    unsigned trials = run->trials ? run->trials : b->quick ? 3 : 15;
    struct queries warm, timed;
    uint32_t *order = data_order(b, n);

    queries_init(&warm, b->quick ? 8192 : N_QUERIES);
    queries_init(&timed, b->quick ? 8192 : N_QUERIES);
    for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) {
        const struct peer_ops *ops = peer_find(all[i].who);

        if (!ops || !run_wants(run, ops->name))
            continue;
        peer_load_percent = percents[n_stores] = all[i].percent;
        store_fill(&stores[n_stores], ops, order, n, n);
        store_check(&stores[n_stores]);
        turn[n_stores] = n_stores;
        n_stores++;
    }
    for (unsigned t = 0; t < trials; t++) {
        shuffle(b, turn, n_stores);
        for (unsigned i = 0; i < n_stores; i++)
            for (unsigned c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
                double ns = gets_time(b, &stores[turn[i]], cases[c], &warm, &timed);

                if (ns > 0)
                    samples_add(&samples[turn[i]][c], ns);
            }
    }
    for (unsigned i = 0; i < n_stores; i++) {
        for (unsigned c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
            if (samples[i][c].n)
                figure(b, gets_names[cases[c]], &stores[i], percents[i], "ns_per_get",
                       samples_median(&samples[i][c]), "ns");
            samples_fini(&samples[i][c]);
        }
        figure(b, "size", &stores[i], percents[i], "bytes_per_entry",
               (double)stores[i].bytes / (double)n, "B");
        store_destroy(&stores[i]);
    }
    queries_fini(&warm);
    queries_fini(&timed);
    free(order);
}

int main(int argc, char **argv)
{
    static const uint64_t sizes[] = {1000, 10000, 100000, 1000000}, quick_sizes[] = {1000, 20000};
    struct run run;

    run_init(&run, "shmht_load", argc, argv);
    if (!peer_find("ours") && !peer_find("SHMEM-2/XXH3"))
        skip();
    if (run.n) {
        run_size(&run, run.n);
        return 0;
    }
    for (unsigned i = 0; i < (run.bench.quick ? 2 : 4); i++)
        run_size(&run, run.bench.quick ? quick_sizes[i] : sizes[i]);
    return 0;
}
