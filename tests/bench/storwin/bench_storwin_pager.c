/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random accesses to a window of four times the memory that the process may use: the user-level
 * pager compared with a plain mapping, with and without MADV_RANDOM, each in a process of its own
 * in a control group of the same limit.
 *
 *     bench_storwin_pager [--quick] [--seed N]
 *
 * Half of the accesses store 8 bytes, half load them; a contender does 20,000, or as many as fit in
 * 3 s. `accesses` is the rate without, `with-sync` with the sync behind them, in wall time; medians
 * over trials that alternate. `ratio` is the rate over that of the plain mapping in the same trial.
 * Needs permission to make a memory control group (v1 or v2); skips without it.
 */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "storwin_bench.h"

#define N_CONTENDERS 4

static const struct {
    const char *name, *style;
    int advice;
} contenders[N_CONTENDERS] = {
    {"mmap", NULL, MADV_NORMAL},
    {"mmap,MADV_RANDOM", NULL, MADV_RANDOM},
    {"user,random", "random", 0},
    {"user", "read_mostly", 0},
};

struct result {
    double ms, synced_ms;
    unsigned done;
    int refused;
};

static char group[256];

static int put(const char *dir, const char *name, uint64_t value)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "we");
    if (!f)
        return -1;
    fprintf(f, "%llu\n", (unsigned long long)value);
    return fclose(f);
}

static void remove_group(void)
{
    for (int i = 0; i < 100 && rmdir(group) < 0 && errno == EBUSY; i++)
        usleep(10000);
}

/* Makes a group with this limit, in either hierarchy. */
static int make_group(uint64_t limit)
{
    static const struct {
        const char *top, *name;
    } places[] = {{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
                  {"/sys/fs/cgroup", "memory.max"}};

    for (unsigned i = 0; i < 2; i++) {
        snprintf(group, sizeof(group), "%s/bench-storwin-%ld", places[i].top, (long)getpid());
        if (mkdir(group, 0700) < 0)
            continue;
        if (put(group, places[i].name, limit) == 0) {
            (void)put(group, "memory.swap.max", 0);
            return 0;
        }
        rmdir(group);
    }
    return -1;
}

static void sync_it(struct storwin_window *win, void *base, uint64_t bytes)
{
    if (win ? storwin_sync(win, 0, STORWIN_TO_END, NULL) < 0 : msync(base, bytes, MS_SYNC) < 0)
        die("sync", "failed");
}

/* In a process of its own, in the group: n accesses, or as many as it does in `most_ms`. */
static struct result run(unsigned which, uint64_t bytes, uint64_t budget, unsigned n,
                         double most_ms, uint64_t rng)
{
    struct result r = {0, 0, 0, 0};
    struct storwin_window *win = NULL;
    volatile uint64_t *words;
    uint64_t sum = 0;
    double start;

    if (contenders[which].style) {
        char hints[160];

        snprintf(
            hints, sizeof(hints),
            "alloc_type=storage;storage_alloc_pager=user;storage_alloc_budget=%llu;access_style=%s",
            (unsigned long long)budget, contenders[which].style);
        win = bench_window(hints, bytes);
        if (!win) {
            r.refused = 1;
            return r;
        }
        words = storwin_base(win);
    } else {
        words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bench_file(bytes, 0), 0);
        if (words == MAP_FAILED)
            die("mmap", "failed");
    }
    for (uint64_t i = 0; i < bytes / 8; i += 64)
        words[i] = i;
    sync_it(win, (void *)(uintptr_t)words, bytes);
    if (!win)
        (void)madvise((void *)(uintptr_t)words, bytes, contenders[which].advice);
    start = wall_ms();
    for (unsigned i = 0; i < n && (i % 16 || wall_ms() - start < most_ms); i++, r.done++) {
        rng = rng * UINT64_C(6364136223846793005) + 1442695040888963407u;
        if (i % 2)
            words[(rng >> 24) % (bytes / 8)] = rng;
        else
            sum += words[(rng >> 24) % (bytes / 8)];
    }
    r.ms = wall_ms() - start;
    sync_it(win, (void *)(uintptr_t)words, bytes);
    r.synced_ms = wall_ms() - start;
    if (sum == 1) /* so that the compiler keeps the loads */
        r.refused = 2;
    return r;
}

static struct result run_apart(unsigned which, uint64_t bytes, uint64_t budget, unsigned n,
                               double most_ms, uint64_t rng)
{
    struct result r = {0, 0, 0, 2};
    int ends[2], status;
    pid_t pid;

    pid = pipe(ends) < 0 ? -1 : fork();
    if (pid < 0)
        die("fork", strerror(errno));
    if (pid == 0) {
        if (put(group, "cgroup.procs", (uint64_t)getpid()) < 0)
            die("cgroup.procs", strerror(errno));
        r = run(which, bytes, budget, n, most_ms, rng);
        _exit(write(ends[1], &r, sizeof(r)) == sizeof(r) ? 0 : 1);
    }
    close(ends[1]);
    if (read(ends[0], &r, sizeof(r)) != sizeof(r))
        r.refused = 2;
    close(ends[0]);
    if (waitpid(pid, &status, 0) != pid || status != 0 || r.refused == 2)
        die(contenders[which].name, "did not survive in its control group");
    return r;
}

static void on_signal(int sig)
{
    rmdir(group);
    _exit(128 + sig);
}

int main(int argc, char **argv)
{
    double rate[N_CONTENDERS][BENCH_MAX_TRIALS], synced[N_CONTENDERS][BENCH_MAX_TRIALS],
        ratio[N_CONTENDERS][BENCH_MAX_TRIALS];
    struct bench b;
    uint64_t limit, bytes;
    unsigned trials, n, refused = 0;

    bench_init(&b, "storwin_pager", argc, argv);
    limit = b.quick ? UINT64_C(16) << 20 : UINT64_C(48) << 20;
    bytes = 4 * limit;
    n = b.quick ? 1000 : 20000;
    trials = b.quick ? 1 : 3;
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    if (make_group(limit) < 0) {
        printf("skip: needs leave to make a memory control group\n");
        return 77;
    }
    atexit(remove_group);
    for (unsigned t = 0; t < trials; t++) {
        uint64_t seed = (uint64_t)bench_random(&b, UINT32_MAX) << 20;

        for (unsigned k = 0; k < N_CONTENDERS; k++) {
            unsigned i = (k + t) % N_CONTENDERS;
            /* The rest is for the program itself and the pager's tables. */
            struct result r = run_apart(i, bytes, limit / 4 * 3, n, b.quick ? 300 : 3000, seed);

            refused |= (unsigned)r.refused << i;
            rate[i][t] = r.done / r.ms * 1e3;
            synced[i][t] = r.done / r.synced_ms * 1e3;
        }
        for (unsigned i = 0; i < N_CONTENDERS; i++)
            ratio[i][t] = rate[i][t] / rate[0][t];
    }
    for (unsigned i = 0; i < N_CONTENDERS; i++) {
        if (refused & (1u << i))
            continue;
        bench_figure(&b, "random", bytes, contenders[i].name, "accesses",
                     bench_median(rate[i], trials), "1/s");
        bench_figure(&b, "random", bytes, contenders[i].name, "with-sync",
                     bench_median(synced[i], trials), "1/s");
        if (i > 0)
            bench_figure(&b, "random", bytes, contenders[i].name, "ratio",
                         bench_median(ratio[i], trials), "x mmap");
    }
    return 0;
}
