/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's first moments: it attaches to a store that is full, then Gets for the first time. Page
 * faults are most of it.
 *
 *     bench_shmht_cold [--quick] [--seed N] [--n N] [--trials N] [--peer NAME]...
 *
 *     attach    ns: a client's work from the receipt of its descriptor until it can Get
 *     first100  ns_per_get: its first 100 Gets; ns: attach and 100 Gets together
 *     next100   ns_per_get: the 100 after those
 *
 * Each sample is a new process; the peers follow each other in a new order in each trial. Processor
 * time, the kernel's included. NAME+populate maps all pages when it attaches.
 */
#include "stores.h"

#include "children.h"

#define FIRST 100u

static const struct variant {
    const char *who, *peer;
    int populate;
} variants[] = {
    {"ours", "ours", 0},
    {"ours+populate", "ours", 1},
    {"ours-2m", "ours-2m", 0},
    {"ours-2m+populate", "ours-2m", 1},
    {"SHMEM-2/XXH3", "SHMEM-2/XXH3", 0},
    {"SHMEM-2/XXH3+populate", "SHMEM-2/XXH3", 1},
    {"SHMEM-1/XXH3", "SHMEM-1/XXH3", 0},
    {"LMDB", "LMDB", 0},
    {"tinycdb", "tinycdb", 0},
};
#define N_VARIANTS (sizeof(variants) / sizeof(*variants))

enum { ATTACH, FIRST_GETS, NEXT_GETS, N_TIMES };

struct job {
    struct bench *bench;
    const struct store_run *store;
    struct queries warm, first, next;
    int populate;
};

static void ask(const struct job *job, const struct queries *q)
{
    struct sum sum = {0, 0};

    job->store->ops->get(job->store->store, q, &sum);
    sum_check(job->store->ops->name, q, &sum, 0);
}

/* The code is warm, the view to attach is not: these Gets use the inherited view.
 * */
static void ready(void *ctx, unsigned child)
{
    struct job *job = ctx;

    ask(job, &job->warm);
    bench_cpu_ns();
}

static void go(void *ctx, unsigned child, double *times)
{
    struct job *job = ctx;
    uint64_t start = bench_cpu_ns(), attached, got, end;

    if (job->store->ops->attach(job->store->store, job->populate) != 0)
        die("%s: a client cannot attach", job->store->ops->name);
    attached = bench_cpu_ns();
    ask(job, &job->first);
    got = bench_cpu_ns();
    ask(job, &job->next);
    end = bench_cpu_ns();
    times[ATTACH] = (double)(attached - start);
    times[FIRST_GETS] = (double)(got - attached);
    times[NEXT_GETS] = (double)(end - got);
}

static void run_size(struct run *run, uint64_t n)
{
    static const struct children_ops ops = {ready, go};
    struct bench *b = &run->bench;
    struct samples samples[N_VARIANTS][N_TIMES] = {0}, whole[N_VARIANTS] = {0};
    struct store_run stores[N_VARIANTS];
    unsigned of_store[N_VARIANTS], turn[N_VARIANTS], n_stores = 0, n_turns = 0;
    unsigned trials = run->trials ? run->trials : b->quick ? 3 : 25;
    struct job job = {.bench = b};
    uint32_t *order = data_order(b, n);

    queries_init(&job.warm, FIRST);
    queries_init(&job.first, FIRST);
    queries_init(&job.next, FIRST);
    for (unsigned v = 0; v < N_VARIANTS; v++) {
        const struct peer_ops *peer = peer_find(variants[v].peer);

        if (!peer || !run_wants(run, variants[v].who))
            continue;
        if (n_turns && stores[of_store[turn[n_turns - 1]]].ops == peer) {
            of_store[v] = n_stores - 1;
        } else {
            store_fill(&stores[n_stores], peer, order, n, n);
            store_check(&stores[n_stores]);
            of_store[v] = n_stores++;
        }
        turn[n_turns++] = v;
    }
    for (unsigned t = 0; t < trials; t++) {
        shuffle(b, turn, n_turns);
        for (unsigned i = 0; i < n_turns; i++) {
            double times[1][MAX_FIGURES];
            unsigned v = turn[i];

            queries_draw(&job.warm, b, n, 0);
            queries_draw(&job.first, b, n, 0);
            queries_draw(&job.next, b, n, 0);
            job.store = &stores[of_store[v]];
            job.populate = variants[v].populate;
            children_run(&ops, &job, 1, times);
            for (unsigned k = 0; k < N_TIMES; k++)
                samples_add(&samples[v][k], times[0][k]);
            samples_add(&whole[v], times[0][ATTACH] + times[0][FIRST_GETS]);
        }
    }
    for (unsigned v = 0; v < N_VARIANTS; v++) {
        if (!whole[v].n)
            continue;
        bench_figure(b, "attach", n, variants[v].who, "ns", samples_median(&samples[v][ATTACH]),
                     "ns");
        bench_figure(b, "first100", n, variants[v].who, "ns_per_get",
                     samples_median(&samples[v][FIRST_GETS]) / FIRST, "ns");
        bench_figure(b, "first100", n, variants[v].who, "ns", samples_median(&whole[v]), "ns");
        bench_figure(b, "next100", n, variants[v].who, "ns_per_get",
                     samples_median(&samples[v][NEXT_GETS]) / FIRST, "ns");
        for (unsigned k = 0; k < N_TIMES; k++)
            samples_fini(&samples[v][k]);
        samples_fini(&whole[v]);
    }
    for (unsigned i = 0; i < n_stores; i++)
        store_destroy(&stores[i]);
    queries_fini(&job.warm);
    queries_fini(&job.first);
    queries_fini(&job.next);
    free(order);
}

int main(int argc, char **argv)
{
    struct run run;

    run_init(&run, "shmht_cold", argc, argv);
    if (!peer_find("ours") && !peer_find("SHMEM-2/XXH3"))
        skip();
    run_size(&run, run.n ? run.n : run.bench.quick ? 20000 : 1000000);
    return 0;
}
