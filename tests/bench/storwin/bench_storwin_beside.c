/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commits while another thread stores: storwin_commit() and storwin_commit_start() with nobody
 * else, with a thread that stores a word every 3 ms, and with one that never pauses, when 1 %, 10 %
 * or all pages changed, single pages at random. LMDB's other thread puts a page in a transaction of
 * its own every 3 ms: LMDB has one writer at a time.
 *
 *     bench_storwin_beside [--quick] [--seed N]
 *
 * `ms_per_commit` is the mean; for storwin_commit_start() it counts until the result is collected,
 * and `ms_of_start` is the time of the call itself. `pause_p50`, `pause_p99` and `pause_max` are
 * the times of single stores, or puts, of the other thread while a commit is in progress; stores
 * between commits do not count. `memcpy` is the time to copy a page that is not in a cache.
 * `refused` counts STORWIN_ERACE.
 */
#include "storwin_bench.h"

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>

#define MOST_STORES 1000000u

enum { JOURNAL, SLOTS, AUTO, STARTED, LMDB, CONTENDERS };
enum { QUIET, SLOW, BUSY, BESIDES };

static const char *const names[CONTENDERS] = {"journal", "slots", "auto", "auto-start", "LMDB"};
static const char *const besides[BESIDES] = {"quiet", "every-3-ms", "busy"};

static uint64_t page, pages;
static uint32_t *order; /* of pages; a trial changes the first ones */
static uint8_t *base;
static struct storwin_window *win;
static MDB_env *env;
static MDB_dbi dbi;

static atomic_int storing, committing;
static unsigned nap_us;
static double *pauses; /* in ns */
static size_t n_pauses;

static void put_pages(uint64_t n, unsigned flags)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(env, NULL, flags, &txn);

    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        size_t key = order[i];
        MDB_val k = {sizeof(key), &key}, v = {4000, base + order[i] * page};

        rc = mdb_put(txn, dbi, &k, &v, 0);
    }
    if (rc == 0)
        rc = mdb_txn_commit(txn);
    if (rc != 0)
        die("LMDB", mdb_strerror(rc));
}

static void *store_words(void *arg)
{
    uint64_t rng = 88172645463325252u;

    (void)arg;
    while (atomic_load(&storing)) {
        const int during = atomic_load(&committing);
        uint64_t start, end;

        rng ^= rng << 13;
        rng ^= rng >> 7;
        rng ^= rng << 17;
        start = bench_ns(CLOCK_MONOTONIC);
        if (win)
            ((_Atomic uint64_t *)(void *)base)[rng % pages * page / 8 + 1]++;
        else
            put_pages(1, MDB_NOSYNC);
        end = bench_ns(CLOCK_MONOTONIC);
        if (during && n_pauses < MOST_STORES)
            pauses[n_pauses++] = (double)(end - start);
        if (nap_us > 0)
            usleep(nap_us);
    }
    return NULL;
}

static void open_state(unsigned who)
{
    static const char *const hints[] = {"alloc_type=storage;storage_alloc_pager=resident;"
                                        "storage_alloc_atomic=journal",
                                        "alloc_type=storage;storage_alloc_pager=resident;"
                                        "storage_alloc_atomic=slots",
                                        "alloc_type=storage;storage_alloc_pager=resident;"
                                        "storage_alloc_atomic=auto"};
    char path[64];
    MDB_txn *txn;

    win = NULL;
    if (who != LMDB) {
        win = bench_window(hints[who < STARTED ? who : AUTO], pages * page);
        base = storwin_base(win);
        return;
    }
    base = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    snprintf(path, sizeof(path), "bench-storwin-lmdb-%ld", (long)getpid());
    if (base == MAP_FAILED || mdb_env_create(&env) != 0 ||
        mdb_env_set_mapsize(env, 4 * pages * page) != 0 ||
        mdb_env_open(env, path, MDB_NOSUBDIR, 0600) != 0 ||
        mdb_txn_begin(env, NULL, 0, &txn) != 0 ||
        mdb_dbi_open(txn, NULL, MDB_INTEGERKEY, &dbi) != 0 || mdb_txn_commit(txn) != 0)
        die("LMDB", "cannot be opened");
    unlink(path);
    strcat(path, "-lock");
    unlink(path);
}

static void close_state(void)
{
    if (win) {
        (void)storwin_free(win, NULL);
        return;
    }
    mdb_env_close(env);
    munmap(base, pages * page);
}

/* Returns 1 if it was refused. */
static int commit(unsigned who, uint64_t n, double *start_ms)
{
    const double start = wall_ms();
    struct storwin_error err;
    int rc;

    if (who == LMDB) {
        put_pages(n, 0);
        return 0;
    }
    rc = who == STARTED ? storwin_commit_start(win, &err) : storwin_commit(win, &err);
    *start_ms += wall_ms() - start;
    if (rc == 0 && who == STARTED)
        rc = storwin_commit_wait(win, &err);
    if (rc < 0 && rc != STORWIN_ERACE)
        die("commit", err.text);
    return rc < 0;
}

static void measure(struct bench *b, unsigned who, unsigned beside, unsigned percent,
                    unsigned trials)
{
    const uint64_t n = pages * percent / 100;
    double ms = 0, start_ms = 0;
    unsigned refused = 0;
    char name[32];
    pthread_t thread;

    snprintf(name, sizeof(name), "%u%%-%s", percent, besides[beside]);
    n_pauses = 0;
    nap_us = beside == SLOW ? 3000 : 0;
    atomic_store(&storing, 1);
    if (beside != QUIET && pthread_create(&thread, NULL, store_words, NULL) != 0)
        die("thread", "none");
    for (unsigned t = 0; t < trials; t++) {
        double start;

        for (uint64_t i = 0; i < n; i++) {
            const uint64_t j = i + bench_random(b, (uint32_t)(pages - i));
            const uint32_t one = order[i];

            order[i] = order[j];
            order[j] = one;
            base[order[i] * page]++;
        }
        atomic_store(&committing, 1);
        start = wall_ms();
        refused += (unsigned)commit(who, n, &start_ms);
        ms += wall_ms() - start;
        atomic_store(&committing, 0);
    }
    atomic_store(&storing, 0);
    if (beside != QUIET)
        pthread_join(thread, NULL);
    bench_figure(b, name, pages * page, names[who], "ms_per_commit", ms / trials, "ms");
    if (who == STARTED)
        bench_figure(b, name, pages * page, names[who], "ms_of_start", start_ms / trials, "ms");
    if (beside == QUIET || n_pauses == 0)
        return;
    qsort(pauses, n_pauses, sizeof(*pauses), bench_compare);
    bench_figure(b, name, n_pauses, names[who], "pause_p50", pauses[n_pauses / 2] / 1e3, "us");
    bench_figure(b, name, n_pauses, names[who], "pause_p99", pauses[n_pauses * 99 / 100] / 1e3,
                 "us");
    bench_figure(b, name, n_pauses, names[who], "pause_max", pauses[n_pauses - 1] / 1e3, "us");
    bench_figure(b, name, trials, names[who], "refused", refused, "commits");
}

static void measure_memcpy(struct bench *b)
{
    uint8_t *from =
        mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *to = malloc(page);
    const size_t n = 10000;

    if (from == MAP_FAILED || !to)
        die("memory", "none");
    memset(from, 1, pages * page);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *at = from + bench_random(b, (uint32_t)pages) * page;
        const uint64_t start = bench_ns(CLOCK_MONOTONIC);

        memcpy(to, at, page);
        pauses[i] = (double)(bench_ns(CLOCK_MONOTONIC) - start);
    }
    qsort(pauses, n, sizeof(*pauses), bench_compare);
    bench_figure(b, "page", page, "memcpy", "pause_p50", pauses[n / 2] / 1e3, "us");
    bench_figure(b, "page", page, "memcpy", "pause_p99", pauses[n * 99 / 100] / 1e3, "us");
    munmap(from, pages * page);
    free(to);
}

int main(int argc, char **argv)
{
    static const unsigned percents[] = {1, 10, 100};
    /* A hundred commits of 1 %, or ten of 10 %, fill a journal: each mean includes that. */
    static const unsigned trials[] = {101, 21, 5};
    struct bench b;

    setvbuf(stdout, NULL, _IOLBF, 0); /* it takes minutes */
    bench_init(&b, "storwin_beside", argc, argv);
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    pages = (b.quick ? UINT64_C(16) << 20 : UINT64_C(1) << 30) / page;
    order = malloc(pages * sizeof(*order));
    pauses = malloc(MOST_STORES * sizeof(*pauses));
    if (!order || !pauses)
        die("malloc", "failed");
    for (uint64_t i = 0; i < pages; i++)
        order[i] = (uint32_t)i;
    measure_memcpy(&b);
    for (unsigned who = 0; who < CONTENDERS; who++) {
        double unused = 0;

        open_state(who);
        for (int round = 0; round < 2; round++) { /* into both copies */
            memset(base, 1 + round, pages * page);
            (void)commit(who, pages, &unused);
        }
        for (unsigned p = 0; p < 3; p++)
            for (unsigned beside = 0; beside < BESIDES; beside++)
                if (who != LMDB || beside != BUSY)
                    measure(&b, who, beside, percents[p],
                            b.quick          ? 2
                            : beside == BUSY ? 2
                                             : trials[p]);
        close_state();
    }
    free(order);
    free(pauses);
    return 0;
}
