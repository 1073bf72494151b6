/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mSTREAM ("MPI Windows on Storage for HPC Applications", section 3.2): segments of a window are
 * read and written in turn, in order (SEQ), in order with gaps (PAD), at random (RND), and both
 * ways mixed (MIX); on memory, storage, half and half, and paged by the library. After it, the
 * sync.
 *
 *     bench_storwin_stream [--quick] [--seed N]
 *
 * `bandwidth` is of the accesses alone, after a cold iteration that does not count; `with-sync` has
 * the sync in it; `time` is the time of the accesses alone divided by memory's in the same trial;
 * `cpu-time` the same for the thread's processor time, page faults included, which other programs
 * disturb less. Trials alternate, figures are medians, of wall time except for `cpu-time`. The
 * contender `raw` writes the same bytes to a file with direct requests of 4 MiB from two threads,
 * one after the other: the device's limit. `sync` is the bandwidth of syncing a fully written
 * window.
 */
#include <pthread.h>

#include "storwin_bench.h"

#define N_CONTENDERS 6
#define N_KERNELS    4

struct contender {
    const char *name, *hints;
    struct storwin_window *win;
    uint8_t *base;
};

enum { SEQ, PAD, RND, MIX };
static const char *const kernel_names[N_KERNELS] = {"SEQ", "PAD", "RND", "MIX"};

static uint64_t bytes, segment, n_segments;
static uint8_t *buffer;

static uint64_t place(int kernel, uint64_t i, uint64_t *rng)
{
    *rng = *rng * UINT64_C(6364136223846793005) + 1442695040888963407u;
    if (kernel == MIX)
        kernel = i / 2 % 2 ? RND : SEQ;
    switch (kernel) {
    case PAD: return i * 2 % n_segments + i * 2 / n_segments % 2;
    case RND: return (*rng >> 33) % n_segments;
    default: return i;
    }
}

static double run_kernel(const struct contender *c, int kernel, uint64_t seed, double *cpu)
{
    double start = wall_ms(), cpu_start = (double)bench_cpu_ns() / 1e6;

    for (uint64_t i = 0; i < n_segments; i++) {
        uint8_t *at = c->base + place(kernel, i, &seed) * segment;

        if (i % 2)
            memcpy(at, buffer, segment);
        else
            memcpy(buffer, at, segment);
    }
    *cpu += (double)bench_cpu_ns() / 1e6 - cpu_start;
    return wall_ms() - start;
}

static double sync_ms(const struct contender *c)
{
    struct storwin_error err;
    double start = wall_ms();

    if (storwin_sync(c->win, 0, STORWIN_TO_END, &err) < 0)
        die(c->name, err.text);
    return wall_ms() - start;
}

static void measure(struct bench *b, struct contender *all, unsigned n, int kernel)
{
    const unsigned trials = b->quick ? 3 : 7, rounds = b->quick ? 1 : 4;
    double plain[N_CONTENDERS][BENCH_MAX_TRIALS], synced[N_CONTENDERS][BENCH_MAX_TRIALS],
        ratio[N_CONTENDERS][BENCH_MAX_TRIALS], cpu_ratio[N_CONTENDERS][BENCH_MAX_TRIALS];
    const double mb = (double)bytes * rounds / 1e6;

    for (unsigned t = 0; t < trials; t++) {
        uint64_t seed = (uint64_t)bench_random(b, UINT32_MAX) << 20;
        double ms[N_CONTENDERS], cpu[N_CONTENDERS];

        for (unsigned k = 0; k < n; k++) {
            unsigned i = (k + t) % n;

            cpu[i] = 0;
            (void)run_kernel(&all[i], kernel, seed, &cpu[i]);
            ms[i] = cpu[i] = 0;
            for (unsigned r = 0; r < rounds; r++)
                ms[i] += run_kernel(&all[i], kernel, seed, &cpu[i]);
            plain[i][t] = mb / ms[i] * 1e3;
            synced[i][t] = mb / (ms[i] + sync_ms(&all[i])) * 1e3;
        }
        for (unsigned i = 0; i < n; i++) {
            ratio[i][t] = ms[i] / ms[0];
            cpu_ratio[i][t] = cpu[i] / cpu[0];
        }
    }
    for (unsigned i = 0; i < n; i++) {
        bench_figure(b, kernel_names[kernel], bytes, all[i].name, "bandwidth",
                     bench_median(plain[i], trials), "MB/s");
        bench_figure(b, kernel_names[kernel], bytes, all[i].name, "with-sync",
                     bench_median(synced[i], trials), "MB/s");
        if (i == 0)
            continue;
        bench_figure(b, kernel_names[kernel], bytes, all[i].name, "time",
                     bench_median(ratio[i], trials), "x memory");
        bench_figure(b, kernel_names[kernel], bytes, all[i].name, "cpu-time",
                     bench_median(cpu_ratio[i], trials), "x memory");
    }
}

struct half {
    int fd;
    uint64_t from, to;
    const uint8_t *data;
};

static void *write_half(void *arg)
{
    const struct half *h = arg;

    for (uint64_t at = h->from; at < h->to; at += UINT64_C(4) << 20)
        if (pwrite(h->fd, h->data, (size_t)4 << 20, (off_t)at) < 0)
            die("raw", "write");
    return NULL;
}

static double raw_ms(int fd, const uint8_t *data)
{
    struct half halves[2] = {{fd, 0, bytes / 2, data}, {fd, bytes / 2, bytes, data}};
    double start = wall_ms();
    pthread_t other;

    if (pthread_create(&other, NULL, write_half, &halves[1]) != 0)
        die("raw", "thread");
    write_half(&halves[0]);
    pthread_join(other, NULL);
    if (fdatasync(fd) < 0)
        die("raw", "fdatasync");
    return wall_ms() - start;
}

/* The bandwidth of a sync of a fully written window, and the device's own. */
static void whole(struct bench *b, struct contender *all, unsigned n)
{
    const unsigned trials = b->quick ? 3 : 7;
    double mbs[N_CONTENDERS][BENCH_MAX_TRIALS], part[N_CONTENDERS][BENCH_MAX_TRIALS];
    int fd = bench_file(bytes, O_DIRECT);
    uint8_t *data =
        mmap(NULL, (size_t)4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (data == MAP_FAILED)
        die("raw", "memory");
    memset(data, 7, (size_t)4 << 20);
    (void)raw_ms(fd, data); /* writes the file's blocks once, as for the others */
    for (unsigned t = 0; t < trials; t++) {
        mbs[0][t] = (double)bytes / 1e3 / raw_ms(fd, data);
        for (unsigned i = 1; i < n; i++) {
            struct storwin_info info = {.size = sizeof(info)};

            memset(all[i].base, (int)t, bytes);
            storwin_query(all[i].win, &info);
            mbs[i][t] = (double)info.storage_bytes / 1e3 / sync_ms(&all[i]);
            part[i][t] = mbs[i][t] / mbs[0][t];
        }
    }
    close(fd);
    bench_figure(b, "whole", bytes, "raw", "sync", bench_median(mbs[0], trials), "MB/s");
    for (unsigned i = 1; i < n; i++) {
        if (strcmp(all[i].name, "user") == 0)
            continue; /* evictions have written most of it before */
        bench_figure(b, "whole", bytes, all[i].name, "sync", bench_median(mbs[i], trials), "MB/s");
        bench_figure(b, "whole", bytes, all[i].name, "of-raw", bench_median(part[i], trials),
                     "x raw");
    }
}

int main(int argc, char **argv)
{
    struct contender all[N_CONTENDERS] = {
        {"memory", "alloc_type=memory", NULL, NULL},
        {"storage", "alloc_type=storage", NULL, NULL},
        {"storage,resident", "alloc_type=storage;storage_alloc_pager=resident", NULL, NULL},
        {"combined 0.5", "alloc_type=storage;storage_alloc_factor=0.5", NULL, NULL},
        {"user", NULL, NULL, NULL},
    };
    char user[128];
    struct bench b;
    unsigned n = 5;

    bench_init(&b, "storwin_stream", argc, argv);
    bytes = b.quick ? UINT64_C(16) << 20 : UINT64_C(192) << 20;
    segment = b.quick ? 1 << 20 : 8 << 20;
    n_segments = bytes / segment;
    /* A quarter of the window may be in memory. */
    snprintf(user, sizeof(user),
             "alloc_type=storage;storage_alloc_pager=user;access_style=sequential;storage_alloc_"
             "budget=%llu",
             (unsigned long long)bytes / 4);
    all[4].hints = user;
    buffer = malloc(segment);
    for (unsigned i = 0; i < n; i++) {
        all[i].win = bench_window(all[i].hints, bytes);
        if (!all[i].win) {
            fprintf(stderr, "%s: not allowed here\n", all[i].name);
            n = i;
            break;
        }
        all[i].base = storwin_base(all[i].win);
        memset(all[i].base, 1, bytes);
        (void)sync_ms(&all[i]);
    }
    for (int k = 0; k < N_KERNELS; k++)
        measure(&b, all, n, k);
    whole(&b, all, n);
    return 0;
}
