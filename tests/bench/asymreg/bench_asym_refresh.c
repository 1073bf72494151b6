/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time until a peer knows of a change among n regions: by the change log, mapped and read with
 * process_vm_readv; by leaf, after the log has been overrun; compared with a copy of the whole
 * table, as in the paper. The owner and the peer are the same process here; wall-clock time, since
 * the kernel's copying is part of it. Case `peers`: the memory of an imported and used peer.
 */
#define _GNU_SOURCE
#include <asymreg.h>
#include <errno.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "../../../libasymreg/src/table/table.h"
#include "../bench.h"

#define BASE UINT64_C(0x100000000000)

static char *block;
static uint64_t block_bytes;

static int read_cma(void *ctx, uint64_t offset, void *dst, size_t bytes)
{
    struct iovec here = {dst, bytes}, there = {block + offset, bytes};

    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes ? 0 : -errno;
}

enum { MAPPED, CMA, WAYS };
static const char *const ways[WAYS] = {"mapped", "CMA"};

static struct {
    struct asymreg__table *table;
    struct asymreg__cache *cache[WAYS];
    struct asymreg__reader *reader[WAYS];
    uint64_t segment;
    uint32_t n;
} w;

static void change(struct bench *b, uint32_t count)
{
    asymreg_id id;

    for (uint32_t i = 0; i < count; i += 2)
        if (asymreg__table_insert(w.table, BASE + bench_random(b, w.n) * UINT64_C(4096) + 2048,
                                  1024, ASYMREG_RW, w.segment, &id) < 0 ||
            (i + 1 < count && asymreg__table_remove(w.table, id) < 0))
            exit(1);
}

/* Registers a region; the peer refreshes and finds it. Returns the nanoseconds from the end of the
 * registration to the successful lookup. */
static double one_change(struct bench *b, int way)
{
    uint64_t addr = BASE + bench_random(b, w.n) * UINT64_C(4096) + 2048, begin, ns;
    asymreg_id id;

    if (asymreg__table_insert(w.table, addr, 1024, ASYMREG_RW, w.segment, &id) < 0)
        exit(1);
    begin = bench_ns(CLOCK_MONOTONIC);
    if (asymreg__cache_refresh(w.cache[way]) < 0 || !asymreg__index_lookup(w.reader[way], addr))
        exit(1);
    ns = bench_ns(CLOCK_MONOTONIC) - begin;
    if (asymreg__table_remove(w.table, id) < 0 || asymreg__cache_refresh(w.cache[way]) < 0)
        exit(1);
    return (double)ns;
}

static double overrun(struct bench *b, int way)
{
    uint64_t begin;

    change(b, 5000); /* in the few slots that are free: few leaves */
    begin = bench_ns(CLOCK_MONOTONIC);
    if (asymreg__cache_refresh(w.cache[way]) < 0)
        exit(1);
    return (double)(bench_ns(CLOCK_MONOTONIC) - begin);
}

/* The paper's method: one read copies the whole table. */
static double copy_all(void *to)
{
    uint64_t begin = bench_ns(CLOCK_MONOTONIC);

    if (read_cma(NULL, 4096, to, w.n * 32ul) < 0)
        exit(1);
    return (double)(bench_ns(CLOCK_MONOTONIC) - begin);
}

static double first_import(void)
{
    struct asymreg__cache_opts o = {.read = read_cma, .bytes = block_bytes};
    struct asymreg__cache *c;
    uint64_t begin = bench_ns(CLOCK_MONOTONIC), ns;

    if (asymreg__cache_create(&o, &c) < 0 || asymreg__cache_refresh(c) < 0)
        exit(1);
    ns = bench_ns(CLOCK_MONOTONIC) - begin;
    asymreg__cache_destroy(c);
    return (double)ns;
}

static void run(struct bench *b, uint32_t n)
{
    struct asymreg__table_opts o = {.max_regions = n + 10000};
    struct asymreg__cache_opts copts = {0};
    unsigned trials = b->quick ? 5 : 21;
    double ns[BENCH_MAX_TRIALS];
    void *copy = malloc(n * 32ul);
    asymreg_id id;

    w.n = n;
    block_bytes = asymreg__table_bytes(&o);
    block = mmap(NULL, block_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED || asymreg__table_create(&o, block, 1, &w.table) < 0 ||
        asymreg__table_segment_add(w.table, 0, UINT64_MAX, NULL, 0, &w.segment) < 0)
        exit(1);
    for (uint32_t i = 0; i < n; i++)
        if (asymreg__table_insert(w.table, BASE + i * UINT64_C(4096), 2048, ASYMREG_RW, w.segment,
                                  &id) < 0)
            exit(1);
    copts.bytes = block_bytes;
    for (int way = 0; way < WAYS; way++) {
        copts.mapped = way == MAPPED ? block : NULL;
        copts.read = way == CMA ? read_cma : NULL;
        if (asymreg__cache_create(&copts, &w.cache[way]) < 0 ||
            asymreg__cache_refresh(w.cache[way]) < 0 ||
            asymreg__reader_create(asymreg__cache_index(w.cache[way]), &w.reader[way]) < 0)
            exit(1);
    }
    for (int way = 0; way < WAYS; way++) {
        char who[64];
        double inner[64];
        for (unsigned t = 0; t < trials; t++) {
            for (int i = 0; i < 63; i++)
                inner[i] = one_change(b, way);
            ns[t] = bench_median(inner, 63);
        }
        snprintf(who, sizeof(who), "ours, %s", ways[way]);
        bench_figure(b, "one_change", n, who, "ns_until_known", bench_median(ns, trials), "ns");
        for (unsigned t = 0; t < trials; t++)
            ns[t] = overrun(b, way);
        bench_figure(b, "log_overrun", n, who, "ns_until_known", bench_median(ns, trials), "ns");
    }
    for (unsigned t = 0; t < trials; t++)
        ns[t] = copy_all(copy);
    bench_figure(b, "one_change", n, "whole table copied", "ns_until_known",
                 bench_median(ns, trials), "ns");
    for (unsigned t = 0; t < 3; t++)
        ns[t] = first_import();
    bench_figure(b, "first_import", n, "ours, CMA", "ns_until_known", bench_median(ns, 3), "ns");
    for (int way = 0; way < WAYS; way++) {
        asymreg__reader_destroy(w.reader[way]);
        asymreg__cache_destroy(w.cache[way]);
    }
    asymreg__table_destroy(w.table);
    munmap(block, block_bytes);
    free(copy);
    fflush(stdout);
}

struct taken {
    double heap, resident, descriptors;
};

static struct taken taken(void)
{
    struct mallinfo2 m = mallinfo2();
    long pages = 0, ignored;
    FILE *f = fopen("/proc/self/statm", "r");
    int fd = dup(0);

    if (!f || fscanf(f, "%ld %ld", &ignored, &pages) != 2 || fd < 0)
        exit(1);
    fclose(f);
    close(fd);
    return (struct taken){(double)(m.uordblks + m.hblkhd),
                          (double)pages * (double)sysconf(_SC_PAGESIZE), fd};
}

/* Imports itself as n peers that have one region in one segment. */
static void peers(struct bench *b, uint32_t n)
{
    struct asymreg_opts o = {.size = sizeof(o), .max_segments = 256};
    struct asymreg_context *c;
    struct asymreg_worker *worker;
    struct taken before = {0}, imported, used;
    char blob[ASYMREG_MAX_BLOB_BYTES];
    static uint64_t word, got;
    ssize_t bytes;

    if (asymreg_open(&o, &c, NULL) < 0 ||
        asymreg_register(c, &word, sizeof(word), ASYMREG_RW, NULL, NULL, NULL) < 0 ||
        (bytes = asymreg_export(c, blob, sizeof(blob), NULL)) < 0 ||
        asymreg_worker_create(c, &worker) < 0)
        exit(1);
    for (uint32_t i = 0; i <= n; i++) { /* the first also creates what all share */
        if (i == 1)
            before = taken();
        if (asymreg_import(c, i, blob, (size_t)bytes, NULL) < 0 ||
            (i == 0 && asymreg_get(worker, i, (uintptr_t)&word, ASYMREG_ANY, &got, 8) < 0))
            exit(1);
    }
    imported = taken();
    for (uint32_t i = 1; i <= n; i++)
        if (asymreg_get(worker, i, (uintptr_t)&word, ASYMREG_ANY, &got, 8) < 0)
            exit(1);
    used = taken();
    bench_figure(b, "peers", n, "imported", "heap_bytes_per_peer",
                 (imported.heap - before.heap) / n, "B");
    bench_figure(b, "peers", n, "used", "heap_bytes_per_peer", (used.heap - before.heap) / n, "B");
    bench_figure(b, "peers", n, "imported", "resident_bytes_per_peer",
                 (imported.resident - before.resident) / n, "B");
    bench_figure(b, "peers", n, "used", "resident_bytes_per_peer",
                 (used.resident - before.resident) / n, "B");
    bench_figure(b, "peers", n, "used", "descriptors_per_peer",
                 (used.descriptors - before.descriptors) / n, "1");
    asymreg_worker_destroy(worker);
    asymreg_close(c);
}

int main(int argc, char **argv)
{
    struct bench b;

    bench_init(&b, "asym_refresh", argc, argv);
    for (uint32_t n = 100; n <= (b.quick ? 10000u : 1000000u); n *= 100)
        run(&b, n);
    peers(&b, 1000);
    return 0;
}
