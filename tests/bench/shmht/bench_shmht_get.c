/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of a Get: ours compared with the paper's tables, hash tables inside a process,
 * databases, and bare memory.
 *
 *     bench_shmht_get [--quick] [--seed N] [--n N] [--trials N] [--peer NAME]...
 *
 * Every store gets the number of entries beforehand, is filled in the same shuffled order, and is
 * checked entry by entry. In each trial the peers follow each other in a new order; each looks up
 * random keys, first to warm up, then on the clock. The results of Gets go into a checksum that
 * must be right each time.
 *
 *     hit          the key is there; Gets follow each other as fast as the processor can overlap
 *                  them
 *     dependent    the same, but each Get's key depends on the value before it
 *     absent       the key is not there
 *     many8 ... many64   the key is there; batches of 8 to 64
 *
 * raw has no keys: it reads one line of 64 bytes for each Get, the entry's own. Time is that of the
 * thread's processor; ns_per_get is the median over the trials, ours_ratio that of ours divided by
 * the peer's in the same trial. Peers that do not fit into memory together run in groups, each with
 * ours and SHMEM-2 in it. Then, for 48 bytes of key and value, bytes_per_entry: the bytes in use,
 * and allocated_per_entry: with the store's reserve.
 */
#include "stores.h"

#define GROUP_BYTES ((uint64_t)1700 << 20) /* of stores at a time */
/* of everything: a store that takes more than it announces ends the run */
#define MOST_BYTES    ((uint64_t)2500 << 20)
#define MAX_QUERIES   131072u
#define MIN_QUERIES   32768u
#define QUICK_QUERIES 8192u

struct results {
    struct samples ns[N_GETS], ratio[N_GETS];
    double bytes, allocated;
};

struct plan {
    struct run *run;
    const uint32_t *order;
    uint64_t n;
    struct queries warm, queries;
    struct results results[MAX_PEERS]; /* by place in peers[] */
};

/* Fills these peers, checks them, and runs the trials. group[0] is ours where we have it. */
static void run_group(struct plan *plan, const unsigned *group, unsigned n_group, unsigned trials)
{
    struct bench *b = &plan->run->bench;
    struct store_run stores[MAX_PEERS];
    double ns[MAX_PEERS][N_GETS];
    unsigned turn[MAX_PEERS];
    int has_ours = strcmp(peers[group[0]]->name, "ours") == 0;

    for (unsigned i = 0; i < n_group; i++) {
        store_fill(&stores[i], peers[group[i]], plan->order, plan->n, plan->n);
        plan->results[group[i]].bytes = (double)stores[i].bytes / (double)plan->n;
        if (stores[i].ops->allocated)
            plan->results[group[i]].allocated =
                (double)stores[i].ops->allocated(stores[i].store) / (double)plan->n;
        if (resident_bytes() > MOST_BYTES)
            die("%s and those before it take %llu MB: too much", stores[i].ops->name,
                (unsigned long long)(resident_bytes() >> 20));
        store_check(&stores[i]);
        turn[i] = i;
    }
    for (unsigned t = 0; t < trials; t++) {
        shuffle(b, turn, n_group);
        for (unsigned i = 0; i < n_group; i++)
            for (int which = 0; which < N_GETS; which++)
                ns[turn[i]][which] =
                    gets_time(b, &stores[turn[i]], which, &plan->warm, &plan->queries);
        for (unsigned i = 0; i < n_group; i++)
            for (int which = 0; which < N_GETS; which++)
                if (ns[i][which] > 0) {
                    samples_add(&plan->results[group[i]].ns[which], ns[i][which]);
                    if (has_ours && i > 0 && ns[0][which] > 0)
                        samples_add(&plan->results[group[i]].ratio[which],
                                    ns[0][which] / ns[i][which]);
                }
    }
    for (unsigned i = 0; i < n_group; i++)
        store_destroy(&stores[i]);
}

static void print(struct plan *plan)
{
    struct bench *b = &plan->run->bench;

    for (unsigned i = 0; peers[i]; i++) {
        struct results *r = &plan->results[i];

        for (int which = 0; which < N_GETS; which++) {
            if (r->ns[which].n)
                bench_figure(b, gets_names[which], plan->n, peers[i]->name, "ns_per_get",
                             samples_median(&r->ns[which]), "ns");
            if (r->ratio[which].n)
                bench_figure(b, gets_names[which], plan->n, peers[i]->name, "ours_ratio",
                             samples_median(&r->ratio[which]), "ratio");
            samples_fini(&r->ns[which]);
            samples_fini(&r->ratio[which]);
        }
        if (r->bytes > 0)
            bench_figure(b, "size", plan->n, peers[i]->name, "bytes_per_entry", r->bytes, "B");
        if (r->allocated > 0)
            bench_figure(b, "size", plan->n, peers[i]->name, "allocated_per_entry", r->allocated,
                         "B");
    }
}

/* The peers that are in every group: ours, and the paper's. */
static int is_anchor(const struct peer_ops *ops)
{
    return strcmp(ops->name, "ours") == 0 ||
           ops == (peer_find("SHMEM-2/XXH3") ? peer_find("SHMEM-2/XXH3")
                                             : peer_find("SHMEM-2/FNV-1a"));
}

static void run_size(struct run *run, uint64_t n)
{
    struct bench *b = &run->bench;
    struct plan plan = {.run = run, .n = n};
    unsigned trials = run->trials ? run->trials : b->quick ? 3 : 15;
    unsigned group[MAX_PEERS], n_anchors = 0, n_group;
    uint64_t anchors_bytes = 0, bytes;
    size_t n_queries = b->quick ? QUICK_QUERIES : MAX_QUERIES;
    uint32_t *order = data_order(b, n);

    if (!b->quick && 4 * n < n_queries)
        n_queries = 4 * n > MIN_QUERIES ? 4 * n : MIN_QUERIES;
    plan.order = order;
    queries_init(&plan.warm, n_queries);
    queries_init(&plan.queries, n_queries);
    for (unsigned i = 0; peers[i]; i++)
        if (is_anchor(peers[i]) && run_wants(run, peers[i]->name)) {
            group[n_anchors++] = i;
            anchors_bytes += n * peers[i]->bytes_an_entry;
        }
    n_group = n_anchors;
    bytes = anchors_bytes;
    for (unsigned i = 0; peers[i]; i++) {
        uint64_t more = n * peers[i]->bytes_an_entry;

        if (is_anchor(peers[i]) || !run_wants(run, peers[i]->name))
            continue;
        if (bytes + more > GROUP_BYTES) {
            run_group(&plan, group, n_group, trials);
            n_group = n_anchors;
            bytes = anchors_bytes;
        }
        group[n_group++] = i;
        bytes += more;
    }
    if (n_group)
        run_group(&plan, group, n_group, trials);
    print(&plan);
    queries_fini(&plan.warm);
    queries_fini(&plan.queries);
    free(order);
}

int main(int argc, char **argv)
{
    static const uint64_t sizes[] = {1000, 100000, 1000000, 4000000}, quick_sizes[] = {1000, 20000};
    struct run run;

    run_init(&run, "shmht_get", argc, argv);
    if (run.n) {
        run_size(&run, run.n);
        return 0;
    }
    for (unsigned i = 0; i < (run.bench.quick ? 2 : 4); i++)
        run_size(&run, run.bench.quick ? quick_sizes[i] : sizes[i]);
    return 0;
}
