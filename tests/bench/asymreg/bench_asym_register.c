/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registering and publishing with n regions registered; the readers' cost while a writer runs at
 * full speed; memory a region; unregistering with a drain while n peers put without a pause
 * (drain). Peers: UCX's page table and a sorted array (the paper's), both local, without
 * publication and readers.
 */
#define _GNU_SOURCE
#include <asymreg.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../../../libasymreg/src/table/table.h"
#include "../bench.h"

#ifdef HAVE_UCS
#include <ucs/datastruct/pgtable.h>
#endif

#define STRIDE UINT64_C(4096)
#define BASE   UINT64_C(0x100000000000)

/* n places in random order; the spare ones are for the measurement. */
static uint32_t *shuffled(struct bench *b, uint32_t n)
{
    uint32_t *order = malloc(n * sizeof(*order));

    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = bench_random(b, i), t = order[i - 1];
        order[i - 1] = order[k];
        order[k] = t;
    }
    return order;
}

static void *at(uint32_t place)
{
    return (void *)(uintptr_t)(BASE + place * STRIDE);
}

/* asymreg_register() and asymreg_unregister() of a context: index, published slot, log record,
 * lock. The memory at the address is not accessed. */
static void ours(struct bench *b, uint32_t n, uint32_t batch, unsigned trials)
{
    struct asymreg_opts o = {.size = sizeof(o), .max_regions = 1200000};
    uint32_t *order = shuffled(b, n + batch);
    asymreg_id *ids = malloc((n + batch) * sizeof(*ids));
    double reg[BENCH_MAX_TRIALS], unreg[BENCH_MAX_TRIALS];
    struct asymreg_context *c;

    if (asymreg_open(&o, &c, NULL) < 0)
        exit(1);
    for (uint32_t i = 0; i < n; i++)
        if (asymreg_register(c, at(order[i]), 2048, ASYMREG_RW, NULL, &ids[i], NULL) < 0)
            exit(1);
    for (unsigned t = 0; t < trials; t++) {
        uint64_t begin = bench_cpu_ns();
        for (uint32_t i = 0; i < batch; i++)
            asymreg_register(c, at(order[n + i]), 2048, ASYMREG_RW, NULL, &ids[n + i], NULL);
        reg[t] = (double)(bench_cpu_ns() - begin) / batch;
        begin = bench_cpu_ns();
        for (uint32_t i = 0; i < batch; i++)
            asymreg_unregister(c, ids[n + i]);
        unreg[t] = (double)(bench_cpu_ns() - begin) / batch;
    }
    bench_figure(b, "register", n, "ours, published", "ns_per_register", bench_median(reg, trials),
                 "ns");
    bench_figure(b, "register", n, "ours, published", "ns_per_unregister",
                 bench_median(unreg, trials), "ns");
    asymreg_close(c);
    free(order);
    free(ids);
}

/* The paper's table: sorted, so that a new entry moves those after it. */
struct entry {
    uint64_t start, bytes, handle;
};

static void sorted(struct bench *b, uint32_t n, uint32_t batch, unsigned trials)
{
    struct entry *table = malloc((n + 1) * sizeof(*table));
    double ns[BENCH_MAX_TRIALS];

    for (uint32_t i = 0; i < n; i++)
        table[i] = (struct entry){BASE + i * STRIDE, 2048, i};
    for (unsigned t = 0; t < trials; t++) {
        uint64_t begin = bench_cpu_ns();
        for (uint32_t i = 0; i < batch;
             i++) { /* one in and out again, at a random place: half of that is one insertion */
            uint32_t low = 0, high = n;
            uint64_t start = BASE + bench_random(b, n) * STRIDE + 2048;
            while (low < high) {
                uint32_t middle = (low + high) / 2;
                if (table[middle].start <= start)
                    low = middle + 1;
                else
                    high = middle;
            }
            memmove(table + low + 1, table + low, (n - low) * sizeof(*table));
            table[low] = (struct entry){start, 1024, i};
            memmove(table + low, table + low + 1, (n - low) * sizeof(*table));
        }
        ns[t] = (double)(bench_cpu_ns() - begin) / batch / 2;
    }
    bench_figure(b, "register", n, "sorted array", "ns_per_register", bench_median(ns, trials),
                 "ns");
    free(table);
}

#ifdef HAVE_UCS
static uint64_t dir_bytes;

static ucs_pgt_dir_t *dir_alloc(const ucs_pgtable_t *table)
{
    dir_bytes += 192;
    return aligned_alloc(64, 192);
}

static void dir_release(const ucs_pgtable_t *table, ucs_pgt_dir_t *dir)
{
    dir_bytes -= 192;
    free(dir);
}

static void drop(const ucs_pgtable_t *table, ucs_pgt_region_t *region, void *arg)
{
    (void)table, (void)region, (void)arg;
}

static void pgtable(struct bench *b, uint32_t n, uint32_t batch, unsigned trials)
{
    ucs_pgt_region_t *regions = aligned_alloc(64, ((n + batch) * sizeof(*regions) + 63) / 64 * 64);
    uint32_t *order = shuffled(b, n + batch);
    double ns[BENCH_MAX_TRIALS];
    ucs_pgtable_t table;

    dir_bytes = 0;
    ucs_pgtable_init(&table, dir_alloc, dir_release);
    for (uint32_t i = 0; i < n + batch; i++) {
        regions[i].start = (uintptr_t)at(order[i]);
        regions[i].end = regions[i].start + 2048;
        if (i < n && ucs_pgtable_insert(&table, &regions[i]) != UCS_OK)
            exit(1);
    }
    bench_figure(b, "memory", n, "pgtable", "bytes_per_region",
                 (double)dir_bytes / n + sizeof(*regions), "B");
    for (unsigned t = 0; t < trials; t++) {
        uint64_t begin = bench_cpu_ns();
        for (uint32_t i = 0; i < batch; i++)
            ucs_pgtable_insert(&table, &regions[n + i]);
        ns[t] = (double)(bench_cpu_ns() - begin) / batch;
        for (uint32_t i = 0; i < batch; i++)
            ucs_pgtable_remove(&table, &regions[n + i]);
    }
    bench_figure(b, "register", n, "pgtable", "ns_per_register", bench_median(ns, trials), "ns");
    ucs_pgtable_purge(&table, drop, NULL);
    ucs_pgtable_cleanup(&table);
    free(regions);
    free(order);
}
#endif

/* Bytes of a table's index and published slots, after random insertion. */
static void memory(struct bench *b, uint32_t n)
{
    struct asymreg__table_opts o = {.max_regions = n};
    struct asymreg__index_stats s = {0};
    uint64_t bytes = asymreg__table_bytes(&o), segment;
    char *block = aligned_alloc(4096, bytes);
    uint32_t *order = shuffled(b, n);
    struct asymreg__table *t;
    asymreg_id id;

    memset(block, 0, bytes);
    if (asymreg__table_create(&o, block, 1, &t) < 0 ||
        asymreg__table_segment_add(t, 0, UINT64_MAX, NULL, 0, &segment) < 0)
        exit(1);
    for (uint32_t i = 0; i < n; i++)
        if (asymreg__table_insert(t, (uintptr_t)at(order[i]), 2048, ASYMREG_RW, segment, &id) < 0)
            exit(1);
    asymreg__index_stats(asymreg__table_index(t), &s);
    /* Tree, slots, leaf generations, and the owner's words for freed slots and segments. */
    bench_figure(b, "memory", n, "ours, published", "bytes_per_region",
                 (double)(s.bytes + n / 128 * 8) / n + 4, "B");
    asymreg__table_destroy(t);
    free(block);
    free(order);
}

/* A reader's lookups at random, with and without a thread that registers and unregisters as fast as
 * it can. */
struct shared {
    struct asymreg__index *ix;
    uint32_t n;
    int stop;
    uint64_t changes;
};

static void *writer(void *arg)
{
    struct shared *s = arg;
    uint64_t rng = 88172645463325252u;
    asymreg_id id;

    while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
        rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
        if (asymreg__index_insert(s->ix, BASE + (rng >> 20) % s->n * STRIDE + 2048, 1024, 1, 1,
                                  &id) == 0)
            asymreg__index_remove(s->ix, id);
        __atomic_store_n(&s->changes, s->changes + 2, __ATOMIC_RELAXED);
    }
    return NULL;
}

static double lookups(struct bench *b, struct asymreg__reader *r, uint32_t n, uint32_t count)
{
    static uint64_t addrs[65536];
    uint64_t begin, sum = 0;

    for (uint32_t i = 0; i < count; i++)
        addrs[i] = BASE + bench_random(b, n) * STRIDE + bench_random(b, 2048);
    begin = bench_cpu_ns();
    for (uint32_t i = 0; i < count; i++)
        sum += asymreg__index_lookup(r, addrs[i])->value;
    if (sum != count)
        exit(1);
    return (double)(bench_cpu_ns() - begin) / count;
}

static void readers(struct bench *b, uint32_t n, unsigned trials)
{
    struct shared s = {.n = n};
    double alone[BENCH_MAX_TRIALS], beside[BENCH_MAX_TRIALS], ratio[BENCH_MAX_TRIALS];
    uint32_t *order = shuffled(b, n), count = b->quick ? 8192 : 65536;
    struct asymreg__index_opts o = {.max_regions = 1200000};
    struct asymreg__reader *r;
    pthread_t thread;
    asymreg_id id;

    if (asymreg__index_create(&o, &s.ix) < 0 || asymreg__reader_create(s.ix, &r) < 0)
        exit(1);
    for (uint32_t i = 0; i < n; i++)
        asymreg__index_insert(s.ix, BASE + order[i] * STRIDE, 2048, 1, 1, &id);
    lookups(b, r, n, count);
    for (unsigned t = 0; t < trials; t++) {
        alone[t] = lookups(b, r, n, count);
        s.stop = 0;
        if (pthread_create(&thread, NULL, writer, &s) != 0)
            exit(1);
        while (__atomic_load_n(&s.changes, __ATOMIC_RELAXED) == 0)
            ;
        beside[t] = lookups(b, r, n, count);
        __atomic_store_n(&s.stop, 1, __ATOMIC_RELAXED);
        pthread_join(thread, NULL);
        ratio[t] = beside[t] / alone[t];
    }
    bench_figure(b, "reader", n, "ours", "ns_per_lookup_alone", bench_median(alone, trials), "ns");
    bench_figure(b, "reader", n, "ours", "ns_per_lookup_beside_writer",
                 bench_median(beside, trials), "ns");
    bench_figure(b, "reader", n, "ours", "beside_writer_over_alone", bench_median(ratio, trials),
                 "ratio");
    asymreg__reader_destroy(r);
    asymreg__index_destroy(s.ix);
    free(order);
}

/* Memory that a draining process and its peers share. */
#define MAX_PUTTERS 4u
struct drained {
    uint64_t addr;
    ssize_t n;
    uint32_t ready;
    int stop;
    uint64_t puts[MAX_PUTTERS]; /* by each peer */
    char blob[ASYMREG_MAX_BLOB_BYTES];
};

/* Puts 8 bytes again and again. */
static void putter(struct drained *d, uint64_t *puts)
{
    struct asymreg_context *c;
    struct asymreg_worker *w;
    uint64_t word = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (asymreg_open(NULL, &c, NULL) < 0 || asymreg_import(c, 0, d->blob, (size_t)d->n, NULL) < 0 ||
        asymreg_worker_create(c, &w) < 0)
        _exit(1);
    __atomic_fetch_add(&d->ready, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&d->stop, __ATOMIC_RELAXED))
        if (asymreg_put(w, 0, d->addr, ASYMREG_ANY, &word, 8) < 0)
            _exit(1);
        else
            __atomic_store_n(puts, *puts + 1, __ATOMIC_RELAXED);
    _exit(0);
}

/* Waits until every peer has put, hence runs. */
static void see_all_run(const struct drained *d, uint32_t n_peers)
{
    for (uint32_t i = 0; i < n_peers; i++) {
        uint64_t before = __atomic_load_n(&d->puts[i], __ATOMIC_RELAXED);
        while (__atomic_load_n(&d->puts[i], __ATOMIC_RELAXED) == before)
            ;
    }
}

/* The median and the 90th percentile of many: a drain waits for a peer that loses its processor in
 * the middle of an operation until it runs again. */
static void drain(struct bench *b, uint32_t n_peers)
{
    struct drained *d =
        mmap(NULL, sizeof(*d), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct asymreg_opts o = {.size = sizeof(o), .flags = ASYMREG_DRAIN};
    uint32_t n = b->quick ? 50 : 5000;
    double *us = malloc(n * sizeof(*us));
    struct asymreg_context *c;
    asymreg_id id;
    void *p;

    if (d == MAP_FAILED || asymreg_open(&o, &c, NULL) < 0 ||
        asymreg_segment_alloc(c, 8192, &p, NULL) < 0 ||
        asymreg_register(c, p, 4096, ASYMREG_RW, NULL, NULL, NULL) < 0)
        exit(1);
    d->addr = (uintptr_t)p;
    d->n = asymreg_export(c, d->blob, sizeof(d->blob), NULL);
    fflush(stdout);
    for (uint32_t i = 0; i < n_peers; i++)
        if (fork() == 0)
            putter(d, &d->puts[i]);
    while (__atomic_load_n(&d->ready, __ATOMIC_SEQ_CST) < n_peers)
        usleep(100);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t begin;
        if (asymreg_register(c, (char *)p + 4096, 64, ASYMREG_RW, NULL, &id, NULL) < 0)
            exit(1);
        see_all_run(d, n_peers);
        begin = bench_ns(CLOCK_MONOTONIC);
        if (asymreg_unregister_drain(c, id, 60000, NULL) < 0)
            exit(1);
        us[i] = (double)(bench_ns(CLOCK_MONOTONIC) - begin) / 1e3;
    }
    __atomic_store_n(&d->stop, 1, __ATOMIC_RELAXED);
    while (wait(NULL) > 0)
        ;
    qsort(us, n, sizeof(*us), bench_compare);
    bench_figure(b, "drain", n_peers, "ours", "us_median", us[n / 2], "us");
    bench_figure(b, "drain", n_peers, "ours", "us_of_9_in_10", us[n * 9 / 10], "us");
    asymreg_close(c);
    munmap(d, sizeof(*d));
    free(us);
}

int main(int argc, char **argv)
{
    struct bench b;

    bench_init(&b, "asym_register", argc, argv);
    for (uint32_t i = 0; i <= MAX_PUTTERS && i < (uint32_t)sysconf(_SC_NPROCESSORS_ONLN); i++)
        drain(&b, i);
    for (uint32_t n = 100; n <= (b.quick ? 10000u : 1000000u); n *= 10) {
        unsigned trials = b.quick ? 3 : 15;
        uint32_t batch = b.quick ? 1000 : 10000;
        ours(&b, n, batch, trials);
        sorted(&b, n, n < 100000 ? 1000 : 100, b.quick ? 3 : 9);
#ifdef HAVE_UCS
        pgtable(&b, n, batch, trials);
#endif
        memory(&b, n);
        if (n >= 1000)
            readers(&b, n, trials);
        fflush(stdout);
    }
    return 0;
}
