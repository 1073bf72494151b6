/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of a commit, when 1 %, 10 % or all pages changed, single pages at random: the three ways
 * of storwin_commit(), and one of them while a thread stores a word every 3 ms, compared with
 * LMDB's transaction and with non-atomic methods: msync() of a shared mapping, and a write() and
 * fsync() of everything.
 *
 *     bench_storwin_commit [--quick] [--seed N]
 *
 * Every contender has its own state in its own file, fully written and committed before. Trials
 * alternate, and the same pages change for all. `ms_per_commit` is the mean of all trials, since a
 * full journal makes one commit in many more expensive; it counts neither the stores nor their
 * faults, except LMDB's puts, which replace stores. `stores` is the time of a first store to a
 * page. `processor` is the processor time of a commit, with all threads of the process, and for
 * LMDB of its puts. `bytes_per_changed_byte` is what /proc/self/io counts for changes and commit
 * together.
 * `ratio` is the mean over that of msync: below 1 is faster.
 */
#include "storwin_bench.h"

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>

enum { JOURNAL, SLOTS, AUTO, BESIDE, MSYNC, LMDB, WRITE, CONTENDERS };

static const char *const names[CONTENDERS] = {
    "ours-journal", "ours-slots", "ours-auto", "ours-auto-beside", "msync", "LMDB", "write+fsync"};

struct state {
    struct storwin_window *win;
    uint8_t *base;
    int fd;
    MDB_env *env;
    MDB_dbi dbi;
    char path[64];
};

struct total {
    double ms, processor, stores, sent, changed;
};

static uint64_t page, pages;
static uint32_t *order; /* of pages; a trial changes the first ones */

static void shuffle(struct bench *b, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t j = i + bench_random(b, (uint32_t)(pages - i));
        const uint32_t one = order[i];

        order[i] = order[j];
        order[j] = one;
    }
}

static void lmdb_open(struct state *s)
{
    MDB_txn *txn;

    snprintf(s->path, sizeof(s->path), "bench-storwin-lmdb-%ld", (long)getpid());
    if (mdb_env_create(&s->env) != 0 || mdb_env_set_mapsize(s->env, 4 * pages * page) != 0 ||
        mdb_env_open(s->env, s->path, MDB_NOSUBDIR, 0600) != 0 ||
        mdb_txn_begin(s->env, NULL, 0, &txn) != 0 ||
        mdb_dbi_open(txn, NULL, MDB_INTEGERKEY, &s->dbi) != 0 || mdb_txn_commit(txn) != 0)
        die("LMDB", "cannot be opened");
    unlink(s->path);
    strcat(s->path, "-lock");
    unlink(s->path);
}

/* Values of 4,000 bytes take a page of LMDB's own each, those of 4,096 would take two. */
static void lmdb_commit(struct state *s, uint64_t n)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(s->env, NULL, 0, &txn);

    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        size_t key = order[i];
        MDB_val k = {sizeof(key), &key}, v = {4000, s->base + order[i] * page};

        rc = mdb_put(txn, s->dbi, &k, &v, 0);
    }
    if (rc == 0)
        rc = mdb_txn_commit(txn);
    if (rc != 0)
        die("LMDB", mdb_strerror(rc));
}

static void open_state(struct state *s, unsigned who)
{
    static const char *const hints[] = {"alloc_type=storage;storage_alloc_pager=resident;"
                                        "storage_alloc_atomic=journal",
                                        "alloc_type=storage;storage_alloc_pager=resident;"
                                        "storage_alloc_atomic=slots",
                                        "alloc_type=storage;storage_alloc_pager=resident;"
                                        "storage_alloc_atomic=auto"};

    if (who <= BESIDE) {
        s->win = bench_window(hints[who < BESIDE ? who : AUTO], pages * page);
        s->base = storwin_base(s->win);
        return;
    }
    if (who == LMDB)
        lmdb_open(s);
    else
        s->fd = bench_file(pages * page, 0);
    s->base =
        mmap(NULL, pages * page, PROT_READ | PROT_WRITE,
             who == MSYNC ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, who == MSYNC ? s->fd : -1, 0);
    if (s->base == MAP_FAILED)
        die("mmap", "failed");
}

static void commit(struct state *s, unsigned who, uint64_t n)
{
    struct storwin_error err;

    if (who == LMDB) {
        lmdb_commit(s, n);
    } else if (who == MSYNC) {
        if (msync(s->base, pages * page, MS_SYNC) < 0)
            die("msync", "failed");
    } else if (who == WRITE) {
        for (uint64_t at = 0; at < pages * page; at += (uint64_t)1 << 24) {
            const uint64_t left = pages * page - at, most = (uint64_t)1 << 24;
            const size_t bytes = left < most ? left : most;

            if (pwrite(s->fd, s->base + at, bytes, (off_t)at) != (ssize_t)bytes)
                die("write", "failed");
        }
        if (fsync(s->fd) < 0)
            die("fsync", "failed");
    } else if (storwin_commit(s->win, &err) < 0) {
        die("storwin_commit", err.text);
    }
}

static void trial(struct state *s, unsigned who, uint64_t n, struct total *t)
{
    const uint64_t sent = sent_bytes();
    double start = wall_ms();
    uint64_t busy;

    for (uint64_t i = 0; i < n; i++)
        s->base[order[i] * page]++;
    t->stores += wall_ms() - start;
    start = wall_ms();
    busy = bench_ns(CLOCK_PROCESS_CPUTIME_ID);
    commit(s, who, n);
    t->processor += (double)(bench_ns(CLOCK_PROCESS_CPUTIME_ID) - busy) / 1e6;
    t->ms += wall_ms() - start;
    t->sent += (double)(sent_bytes() - sent);
    t->changed += (double)(n * page);
}

static void *store_words(void *base)
{
    uint64_t rng = 88172645463325252u;

    for (;;) {
        rng ^= rng << 13;
        rng ^= rng >> 7;
        rng ^= rng << 17;
        ((_Atomic uint64_t *)base)[rng % pages * page / 8 + 1]++;
        usleep(3000);
    }
    return NULL;
}

static void measure(struct bench *b, struct state *all, const char *name, unsigned percent,
                    unsigned trials)
{
    const uint64_t n = pages * percent / 100;
    struct total total[CONTENDERS] = {{0}};

    for (unsigned t = 0; t < trials; t++) {
        shuffle(b, n);
        for (unsigned k = 0; k < CONTENDERS; k++) /* the order changes */
            trial(&all[(k + t) % CONTENDERS], (k + t) % CONTENDERS, n,
                  &total[(k + t) % CONTENDERS]);
    }
    for (unsigned i = 0; i < CONTENDERS; i++) {
        bench_figure(b, name, pages * page, names[i], "ms_per_commit", total[i].ms / trials, "ms");
        bench_figure(b, name, pages * page, names[i], "processor", total[i].processor / trials,
                     "ms");
        bench_figure(b, name, pages * page, names[i], "bytes_per_changed_byte",
                     total[i].sent / total[i].changed, "bytes");
        bench_figure(b, name, pages * page, names[i], "ratio", total[i].ms / total[MSYNC].ms,
                     "x msync");
        if (i != LMDB && i != WRITE)
            bench_figure(b, name, pages * page, names[i], "stores",
                         total[i].stores * 1e3 / (double)(n * trials), "us a page");
    }
}

int main(int argc, char **argv)
{
    static struct state all[CONTENDERS];
    pthread_t thread;
    struct bench b;

    bench_init(&b, "storwin_commit", argc, argv);
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    pages = (b.quick ? UINT64_C(16) << 20 : UINT64_C(1) << 30) / page;
    order = malloc(pages * sizeof(*order));
    if (!order)
        die("malloc", "failed");
    for (uint64_t i = 0; i < pages; i++)
        order[i] = (uint32_t)i;
    for (unsigned i = 0; i < CONTENDERS; i++) {
        open_state(&all[i], i);
        for (unsigned round = 0; round < 2; round++) { /* into both copies */
            memset(all[i].base, 1 + (int)round, pages * page);
            commit(&all[i], i, pages);
        }
        all[i].base[0]++;
        commit(&all[i], i, 1); /* the first copy still lacked the second round */
    }
    if (pthread_create(&thread, NULL, store_words, all[BESIDE].base) != 0)
        die("thread", "none");
    /* Enough commits that the mean includes a full journal: 100 commits of 1 % fill one. */
    measure(&b, all, "1%", 1, b.quick ? 3 : 101);
    measure(&b, all, "10%", 10, b.quick ? 3 : 21);
    measure(&b, all, "100%", 100, b.quick ? 2 : 5);
    return 0;
}
