/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of filling a store: a server's work in a Fence (SHMEMPMI, Figure 9a, without the
 * network).
 *
 *     bench_shmht_build [--quick] [--seed N] [--n N] [--trials N] [--peer NAME]...
 *
 * Processor time for each entry, page faults included: ns_per_entry, median over the trials; the
 * peers follow each other in a new order in each trial. ours_ratio is that of ours divided by the
 * peer's in the same trial. Every store that was filled is checked once.
 *
 *     insert        pairs one by one into a store that starts small and grows; and bytes_per_entry
 *                   of the result
 *     insert-sized  the same, with the number given beforehand
 *     grow          making the table twice as large when it holds n entries: for each entry of it
 *     fence-B       n pairs in B blocks of equal size, as received from B nodes, into a store that
 *                   starts small; the peers put the pairs of a block one by one. ours-puts does
 *                   that with ours, ours merges the blocks.
 *     fence-B-sized the same, with the number given beforehand
 *
 * SHMEM-1 and SHMEM-2 take a key for new without a look-up (Algorithm 1); ours looks it up.
 */
#define _GNU_SOURCE
#include "stores.h"

#ifdef HAVE_SHMHT
#include <shmht.h>
#endif

#include "shmem.h"

/* ---- insert ----------------------------------------------------------------- */

static void print(struct bench *b, const char *which, uint64_t n, const char *who,
                  struct samples *ns, struct samples *ratio)
{
    if (ns->n)
        bench_figure(b, which, n, who, "ns_per_entry", samples_median(ns), "ns");
    if (ratio->n)
        bench_figure(b, which, n, who, "ours_ratio", samples_median(ratio), "ratio");
    samples_fini(ns);
    samples_fini(ratio);
}

static void run_inserts(struct run *run, const uint32_t *order, uint64_t n, unsigned trials,
                        int sized)
{
    struct bench *b = &run->bench;
    const char *which = sized ? "insert-sized" : "insert";
    struct samples ns[MAX_PEERS] = {0}, ratio[MAX_PEERS] = {0};
    double spent[MAX_PEERS], bytes[MAX_PEERS] = {0};
    unsigned turn[MAX_PEERS], n_turns = 0;

    for (unsigned i = 0; peers[i]; i++)
        if (strncmp(peers[i]->name, "raw", 3) != 0 && !strstr(peers[i]->name, "-inline") &&
            run_wants(run, peers[i]->name))
            turn[n_turns++] = i;
    for (unsigned t = 0; t < trials; t++) {
        shuffle(b, turn, n_turns);
        for (unsigned i = 0; i < n_turns; i++) {
            struct store_run s;

            store_fill(&s, peers[turn[i]], order, n, sized ? n : 0);
            if (t == 0)
                store_check(&s);
            spent[turn[i]] = s.insert_ns + s.finish_ns;
            bytes[turn[i]] = (double)s.bytes / (double)n;
            store_destroy(&s);
        }
        for (unsigned i = 0; i < n_turns; i++) {
            samples_add(&ns[turn[i]], spent[turn[i]]);
            if (strcmp(peers[0]->name, "ours") == 0 && turn[i] != 0 && run_wants(run, "ours"))
                samples_add(&ratio[turn[i]], spent[0] / spent[turn[i]]);
        }
    }
    for (unsigned i = 0; peers[i]; i++) {
        print(b, which, n, peers[i]->name, &ns[i], &ratio[i]);
        if (bytes[i] > 0)
            bench_figure(b, which, n, peers[i]->name, "bytes_per_entry", bytes[i], "B");
    }
}

/* ---- grow ------------------------------------------------------------------- */

enum { OURS, SHMEM2, SHMEM1, OURS_PUTS, N_WHO };

#ifdef HAVE_XXHASH
#define HASH SHMEM_XXH3
static const char *const who_names[N_WHO] = {"ours", "SHMEM-2/XXH3", "SHMEM-1/XXH3", "ours-puts"};
#else
#define HASH SHMEM_FNV1A
static const char *const who_names[N_WHO] = {"ours", "SHMEM-2/FNV-1a", "SHMEM-1/FNV-1a",
                                             "ours-puts"};
#endif

#ifdef HAVE_SHMHT
static struct shmht_writer *writer(uint64_t n, uint64_t expected)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts), .expected_entries = expected};
    struct shmht_writer *w;
    int rc;

    opts.max_bytes = (UINT64_C(256) << 20) + n * 256;
    rc = shmht_writer_create(&opts, &w, NULL);
    if (rc != 0)
        die("ours: %s", shmht_strerror(rc));
    return w;
}

static struct shmht_stats writer_stats(struct shmht_writer *w)
{
    struct shmht_stats stats;

    shmht_reader_stats(shmht_writer_view(w), &stats);
    return stats;
}

/* Fills a table that was made for n entries; the put that makes it grow comes soon after and is the
 * one on the clock. */
static double grow_ours(const uint32_t *order, uint64_t n)
{
    struct shmht_writer *w = writer(n, n);
    uint64_t spent = 0, grows = writer_stats(w).table_grows;

    for (uint64_t i = 0; i < 2 * n; i++) {
        struct pair pair;
        uint64_t start;

        /* The keys beyond n are absent ones of the data. */
        data_key(order[i % n], i >= n, &pair.key);
        data_value(order[i % n], &pair.value);
        start = bench_cpu_ns();
        if (shmht_put(w, pair.key.s, KEY_BYTES, pair.value.s, VALUE_BYTES) != SHMHT_PUT_NEW)
            die("ours: cannot put");
        spent = bench_cpu_ns() - start;
        if ((i >= n * 9 / 10 || spent > 20000) && writer_stats(w).table_grows != grows) {
            uint64_t entries = writer_stats(w).entries;

            shmht_writer_destroy(w);
            return (double)spent / (double)entries;
        }
    }
    die("ours: %llu entries more than expected did not make the table grow", (unsigned long long)n);
}
#endif

static double grow_shmem2(const uint32_t *order, uint64_t n)
{
    const struct peer_ops *ops = peer_find(who_names[SHMEM2]);
    struct store_run s;
    struct shmem2 *server;
    uint64_t spent;

    store_fill(&s, ops, order, n, n);
    server = s.store; /* the first member of the peer's store */
    spent = bench_cpu_ns();
    if (shmem2_resize(server, HASH, 2 * server->n_buckets) != 0)
        die("%s: cannot grow", ops->name);
    spent = bench_cpu_ns() - spent;
    store_destroy(&s);
    return (double)spent / (double)n;
}

static double grow_shmem1(const uint32_t *order, uint64_t n)
{
    struct shmem1 s;
    uint64_t spent, bytes = n * (sizeof(int32_t) + sizeof(struct pair));
    uint32_t n_buckets = SHMEM_FIRST_BUCKETS;

    while (n_buckets < n)
        n_buckets *= 2;
    if (shmem1_open(&s, n_buckets, bytes) != 0)
        die("%s: cannot make a store", who_names[SHMEM1]);
    for (uint64_t i = 0; i < n; i++) {
        struct pair pair;

        data_key(order[i], 0, &pair.key);
        data_value(order[i], &pair.value);
        if (shmem1_insert(&s, HASH, pair.key.s, KEY_CHARS, pair.value.s, VALUE_CHARS) != 0)
            die("%s: cannot insert", who_names[SHMEM1]);
    }
    spent = bench_cpu_ns();
    if (shmem1_rebuild(&s, HASH, 2 * n_buckets, 2 * bytes) != 0)
        die("%s: cannot grow", who_names[SHMEM1]);
    spent = bench_cpu_ns() - spent;
    shmem_region_close(&s.region);
    return (double)spent / (double)n;
}

static void run_grow(struct run *run, const uint32_t *order, uint64_t n, unsigned trials)
{
    struct samples ns[N_WHO] = {0}, ratio[N_WHO] = {0};

    for (unsigned t = 0; t < trials; t++) {
        double spent[N_WHO] = {0};

#ifdef HAVE_SHMHT
        if (run_wants(run, who_names[OURS]))
            spent[OURS] = grow_ours(order, n);
#endif
        if (run_wants(run, who_names[SHMEM2]))
            spent[SHMEM2] = grow_shmem2(order, n);
        if (run_wants(run, who_names[SHMEM1]))
            spent[SHMEM1] = grow_shmem1(order, n);
        for (unsigned i = 0; i < N_WHO; i++)
            if (spent[i] > 0) {
                samples_add(&ns[i], spent[i]);
                if (i != OURS && spent[OURS] > 0)
                    samples_add(&ratio[i], spent[OURS] / spent[i]);
            }
    }
    for (unsigned i = 0; i < N_WHO; i++)
        print(&run->bench, "grow", n, who_names[i], &ns[i], &ratio[i]);
}

/* ---- fence ------------------------------------------------------------------ */

struct received {
    struct pair *pairs; /* all of them, block by block */
    uint64_t n;
    unsigned n_blocks;
#ifdef HAVE_SHMHT
    unsigned char *blocks; /* the same as blocks of ours, block_cap bytes apart */
    size_t *block_bytes;
    size_t block_cap;
#endif
};

static uint64_t first_of(const struct received *r, unsigned block)
{
    return r->n * block / r->n_blocks;
}

#ifdef HAVE_SHMHT
/* Makes a block of the pairs from first to last - 1. Returns its bytes. */
static size_t export_pairs(const struct received *r, uint64_t first, uint64_t last, void *block)
{
    struct shmht_writer *w = writer(last - first, last - first);
    struct shmht_iter it = {0};
    ssize_t bytes;

    for (uint64_t i = first; i < last; i++) {
        int rc = shmht_put(w, r->pairs[i].key.s, KEY_BYTES, r->pairs[i].value.s, VALUE_BYTES);

        if (rc != SHMHT_PUT_NEW)
            die("ours: cannot put: %s", shmht_strerror(rc));
    }
    bytes = shmht_reader_export(shmht_writer_view(w), &it, block, r->block_cap);
    if (bytes < 0)
        die("ours: cannot make a block: %s", shmht_strerror((int)bytes));
    shmht_writer_destroy(w);
    return (size_t)bytes;
}
#endif

static void receive(struct received *r, const uint32_t *order, uint64_t n, unsigned n_blocks)
{
    *r = (struct received){.n = n, .n_blocks = n_blocks, .pairs = malloc(n * sizeof(*r->pairs))};
    if (!r->pairs)
        die("out of memory");
    for (uint64_t i = 0; i < n; i++) {
        data_key(order[i], 0, &r->pairs[i].key);
        data_value(order[i], &r->pairs[i].value);
    }
#ifdef HAVE_SHMHT
    r->block_cap = SHMHT_BLOCK_HEADER_BYTES + (n / n_blocks + 1) * 64;
    r->blocks = malloc(r->block_cap * n_blocks);
    r->block_bytes = calloc(n_blocks, sizeof(*r->block_bytes));
    if (!r->blocks || !r->block_bytes)
        die("out of memory");
    for (unsigned k = 0; k < n_blocks; k++)
        r->block_bytes[k] =
            export_pairs(r, first_of(r, k), first_of(r, k + 1), r->blocks + k * r->block_cap);
#endif
}

static void received_fini(struct received *r)
{
    free(r->pairs);
#ifdef HAVE_SHMHT
    free(r->blocks);
    free(r->block_bytes);
#endif
}

/* Puts the pairs of block after block into a store of this peer: processor time for each pair. */
static double fence_puts(const struct received *r, const struct peer_ops *ops, uint64_t expected,
                         int check)
{
    struct store_run s = {.ops = ops, .n = r->n, .store = ops->create(expected)};
    uint64_t spent = 0;

    if (!s.store)
        die("%s: cannot make a store", ops->name);
    for (unsigned k = 0; k < r->n_blocks; k++) {
        uint64_t first = first_of(r, k), start = bench_cpu_ns();

        if (ops->insert(s.store, r->pairs + first, first_of(r, k + 1) - first) != 0)
            die("%s: cannot insert", ops->name);
        spent += bench_cpu_ns() - start;
    }
    if (ops->finish && ops->finish(s.store) != 0)
        die("%s: cannot finish", ops->name);
    if (check)
        store_check(&s);
    store_destroy(&s);
    return (double)spent / (double)r->n;
}

#ifdef HAVE_SHMHT
static void check_writer(struct shmht_writer *w, const struct received *r)
{
    const struct shmht_reader *view = shmht_writer_view(w);

    for (uint64_t i = 0; i < r->n; i++) {
        struct shmht_bytes value;

        if (shmht_get(view, r->pairs[i].key.s, KEY_BYTES, &value) != 0 ||
            value.len != VALUE_BYTES || memcmp(value.ptr, r->pairs[i].value.s, VALUE_BYTES) != 0)
            die("ours: a merged pair is not there");
    }
    if (writer_stats(w).entries != r->n)
        die("ours: merged %llu pairs, has %llu", (unsigned long long)r->n,
            (unsigned long long)writer_stats(w).entries);
}

static double fence_merge(const struct received *r, uint64_t expected, int check)
{
    struct shmht_writer *w = writer(r->n, expected);
    uint64_t spent = 0;

    for (unsigned k = 0; k < r->n_blocks; k++) {
        struct shmht_merged merged;
        uint64_t start = bench_cpu_ns();
        int rc = shmht_writer_merge(w, r->blocks + k * r->block_cap, r->block_bytes[k], &merged);

        spent += bench_cpu_ns() - start;
        if (rc != 0 || merged.n_new != first_of(r, k + 1) - first_of(r, k))
            die("ours: cannot merge: %s", shmht_strerror(rc));
    }
    if (check)
        check_writer(w, r);
    shmht_writer_destroy(w);
    return (double)spent / (double)r->n;
}
#endif

static void run_fence(struct run *run, const uint32_t *order, uint64_t n, unsigned trials,
                      unsigned n_blocks, int sized)
{
    struct bench *b = &run->bench;
    struct samples ns[N_WHO] = {0}, ratio[N_WHO] = {0};
    unsigned turn[N_WHO] = {OURS, SHMEM2, SHMEM1, OURS_PUTS};
    uint64_t expected = sized ? n : 0;
    struct received r;
    char name[32];

    receive(&r, order, n, n_blocks);
    for (unsigned t = 0; t < trials; t++) {
        double spent[N_WHO] = {0};

        shuffle(b, turn, N_WHO);
        for (unsigned i = 0; i < N_WHO; i++) {
            unsigned who = turn[i];
            const struct peer_ops *ops = peer_find(who == OURS_PUTS ? "ours" : who_names[who]);

            if (!ops || !run_wants(run, who_names[who]))
                continue;
#ifdef HAVE_SHMHT
            if (who == OURS) {
                spent[who] = fence_merge(&r, expected, t == 0);
                continue;
            }
#endif
            spent[who] = fence_puts(&r, ops, expected, t == 0);
        }
        for (unsigned i = 0; i < N_WHO; i++)
            if (spent[i] > 0) {
                samples_add(&ns[i], spent[i]);
                if (i != OURS && spent[OURS] > 0)
                    samples_add(&ratio[i], spent[OURS] / spent[i]);
            }
    }
    received_fini(&r);
    snprintf(name, sizeof(name), "fence-%u%s", n_blocks, sized ? "-sized" : "");
    for (unsigned i = 0; i < N_WHO; i++)
        print(b, name, n, who_names[i], &ns[i], &ratio[i]);
}

static void run_size(struct run *run, uint64_t n, unsigned trials)
{
    uint32_t *order = data_order(&run->bench, n);

    if (run->trials)
        trials = run->trials;
    run_inserts(run, order, n, trials, 0);
    run_inserts(run, order, n, trials, 1);
    run_grow(run, order, n, trials);
    run_fence(run, order, n, trials, 1, 0);
    run_fence(run, order, n, trials, 64, 0);
    run_fence(run, order, n, trials, 64, 1);
    free(order);
}

int main(int argc, char **argv)
{
    struct run run;

    run_init(&run, "shmht_build", argc, argv);
    if (run.n) {
        run_size(&run, run.n, 7);
    } else if (run.bench.quick) {
        run_size(&run, 1000, 2);
        run_size(&run, 20000, 2);
    } else {
        run_size(&run, 100000, 15);
        run_size(&run, 1000000, 9);
        run_size(&run, 4000000, 3);
    }
    return 0;
}
