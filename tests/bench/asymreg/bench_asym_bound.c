/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put, get and fetch-add of 8 bytes on one of n regions in shared memory, at random: through bound
 * handles (`ours`), and with each handle prefetched 16 operations before its own (`ours, handle
 * prefetched`); by address, alone (`ours by address`) and 64 at once (`ours by address, many`); by
 * plain loads, stores and atomic instructions on the same mapping (`store`), and by these through
 * asymreg_bound_ptr() of a random handle (`pointer of the handle`). Regions are 64 bytes apart;
 * `put, 256 apart` and so on repeat this with regions that share no pair of lines. CPU time of the
 * initiating thread, one after the other in each trial, each behind a round of its own that is not
 * counted: none finds its memory evicted, or loaded, by the one before. The handles, 32 bytes each,
 * lie in huge pages, as a runtime would lay them.
 */
#define _GNU_SOURCE
#include <asymreg.h>
#include <sys/mman.h>

#include "../bench.h"

#define HUGE_PAGE (UINT64_C(2) << 20)
#define PE        1u

enum { PUT, GET, FETCH_ADD, CASES };
enum { OURS, OURS_AHEAD, STORE, POINTER, BY_ADDRESS, MANY, WHOS };
static const char *const cases[CASES] = {"put", "get", "fetch_add"}, *const cases_wide[CASES] = {
                                                                         "put, 256 apart",
                                                                         "get, 256 apart",
                                                                         "fetch_add, 256 apart"};
static const char *const whos[WHOS] = {"ours",
                                       "ours, handle prefetched",
                                       "store",
                                       "pointer of the handle",
                                       "ours by address",
                                       "ours by address, many"};

static struct asymreg_context *owner, *user;
static struct asymreg_worker *w;
static struct asymreg_bound *handles;
static uint32_t *order, n_ops, stride;
static char *there, *here; /* the regions: at the owner, and mapped by the user */
static volatile uint64_t sink;

static double run_ours(int what, uint32_t ahead)
{
    uint64_t begin = bench_cpu_ns(), word = 5, sum = 0;
    int rc = 0;

    for (uint32_t i = 0; i < n_ops; i++) {
        struct asymreg_bound *b = &handles[order[i]];
        if (ahead && i + ahead < n_ops)
            __builtin_prefetch(&handles[order[i + ahead]]);
        if (what == PUT)
            rc |= asymreg_bound_put(b, 0, &word, 8);
        else if (what == GET)
            rc |= asymreg_bound_get(b, 0, &word, 8);
        else
            rc |= asymreg_bound_amo(b, 0, ASYMREG_AMO_FETCH_ADD, 8, 1, 0, &word);
        sum += word;
    }
    if (rc)
        exit(1);
    sink = sum;
    return (double)(bench_cpu_ns() - begin) / n_ops;
}

/* By the handles' pointers, or by computed addresses. */
static double run_store(int what, int by_handle)
{
    uint64_t begin = bench_cpu_ns(), word = 5, sum = 0;

    for (uint32_t i = 0; i < n_ops; i++) {
        uint64_t *p = by_handle ? asymreg_bound_ptr(&handles[order[i]])
                                : (void *)(here + (size_t)order[i] * stride);
        if (what == PUT)
            __atomic_store_n(p, word, __ATOMIC_RELEASE);
        else if (what == GET)
            word = __atomic_load_n(p, __ATOMIC_ACQUIRE);
        else
            word = __atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST);
        sum += word;
    }
    sink = sum;
    return (double)(bench_cpu_ns() - begin) / n_ops;
}

static double run_by_address(int what)
{
    uint64_t begin = bench_cpu_ns(), word = 5, sum = 0;
    int rc = 0;

    for (uint32_t i = 0; i < n_ops; i++) {
        uint64_t addr = (uintptr_t)there + (uint64_t)order[i] * stride;
        if (what == PUT)
            rc |= asymreg_put(w, PE, addr, ASYMREG_ANY, &word, 8);
        else if (what == GET)
            rc |= asymreg_get(w, PE, addr, ASYMREG_ANY, &word, 8);
        else
            rc |= asymreg_amo(w, PE, addr, ASYMREG_ANY, ASYMREG_AMO_FETCH_ADD, 8, 1, 0, &word);
        sum += word;
    }
    if (rc)
        exit(1);
    sink = sum;
    return (double)(bench_cpu_ns() - begin) / n_ops;
}

static double run_many(void)
{
    static struct asymreg_transfer x[64];
    static uint64_t words[64];
    uint64_t begin = bench_cpu_ns();
    uint32_t k;
    int rc = 0;

    for (uint32_t i = 0; i < n_ops; i += k) {
        k = n_ops - i < 64 ? n_ops - i : 64;
        for (uint32_t j = 0; j < k; j++)
            x[j] = (struct asymreg_transfer){.raddr =
                                                 (uintptr_t)there + (uint64_t)order[i + j] * stride,
                                             .here = &words[j],
                                             .bytes = 8};
        rc |= asymreg_put_many(w, PE, x, k, NULL);
    }
    if (rc || asymreg_flush(w, PE) < 0)
        exit(1);
    return (double)(bench_cpu_ns() - begin) / n_ops;
}

/* Only puts have a _many() call. */
static int is_there(int who, int what)
{
    return who != MANY || what == PUT;
}

static double run(int who, int what)
{
    switch (who) {
    case OURS: return run_ours(what, 0);
    case OURS_AHEAD: return run_ours(what, 16);
    case STORE: return run_store(what, 0);
    case POINTER: return run_store(what, 1);
    case MANY: return run_many();
    default: return run_by_address(what);
    }
}

static void open_both(uint32_t n)
{
    struct asymreg_opts o = {.size = sizeof(o), .max_regions = n};
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    void *p;
    ssize_t bytes;

    if (asymreg_open(&o, &owner, NULL) < 0 || asymreg_open(NULL, &user, NULL) < 0 ||
        asymreg_segment_alloc(owner, (size_t)n * stride, &p, NULL) < 0 ||
        (bytes = asymreg_export(owner, blob, sizeof(blob), NULL)) < 0 ||
        asymreg_import(user, PE, blob, (size_t)bytes, NULL) < 0 ||
        asymreg_worker_create(user, &w) < 0)
        exit(1);
    there = p;
    handles = mmap(NULL, n * sizeof(*handles) + HUGE_PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (handles == MAP_FAILED)
        exit(1);
    madvise(handles, n * sizeof(*handles) + HUGE_PAGE, MADV_HUGEPAGE);
    for (uint32_t i = 0; i < n; i++) {
        char *at = there + (size_t)i * stride;
        if (asymreg_register(owner, at, 16, ASYMREG_ALL, NULL, NULL, NULL) < 0 ||
            asymreg_bind(w, PE, (uintptr_t)at, ASYMREG_ANY, 16, &handles[i]) < 0)
            exit(1);
    }
    here = asymreg_bound_ptr(&handles[0]);
    if (!here)
        exit(1);
}

static void close_both(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        asymreg_unbind(&handles[i]);
    munmap(handles, n * sizeof(*handles) + HUGE_PAGE);
    asymreg_worker_destroy(w);
    asymreg_close(user);
    asymreg_close(owner);
}

static void measure(struct bench *b, uint32_t n, uint32_t apart)
{
    static double ns[CASES][WHOS][BENCH_MAX_TRIALS];
    unsigned trials = b->quick ? 3 : 15;

    stride = apart;
    open_both(n);
    for (uint32_t i = 0; i < n_ops; i++)
        order[i] = bench_random(b, n);
    for (unsigned t = 0; t < trials; t++)
        for (int what = 0; what < CASES; what++)
            for (int who = 0; who < WHOS && is_there(who, what); who++) {
                run(who, what);
                ns[what][who][t] = run(who, what);
            }
    for (int what = 0; what < CASES; what++)
        for (int who = 0; who < WHOS && is_there(who, what); who++)
            bench_figure(b, (apart == 64 ? cases : cases_wide)[what], n, whos[who], "ns_per_op",
                         bench_median(ns[what][who], trials), "ns");
    fflush(stdout);
    close_both(n);
}

int main(int argc, char **argv)
{
    static const uint32_t sizes[] = {1, 1000, 100000, 1000000};
    struct bench b;

    bench_init(&b, "asym_bound", argc, argv);
    n_ops = b.quick ? 10000 : 400000;
    order = malloc(n_ops * sizeof(*order));
    if (!order)
        return 1;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        if (!b.quick || sizes[i] <= 100000)
            for (uint32_t apart = 64; apart <= 256; apart *= 4)
                measure(&b, sizes[i], apart);
    free(order);
    return 0;
}
