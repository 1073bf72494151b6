/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time of a sync, and the bytes that it writes, when 1 %, 10 % or all pages changed, single or
 * in runs of 16: the pagers of libstorwin compared with a plain mapping and msync().
 *
 *     bench_storwin_sync [--quick] [--seed N]
 *
 * Every contender has its own window on its own file, fully written and synced before. Trials
 * alternate; the same pages change for all. `stores` is the time to change them, with the faults
 * that tracking costs; `time` that of the sync: wall time, since a sync waits for the device;
 * figures are medians. `written` is what /proc/self/io counts for the changes and the sync
 * together, over the bytes that changed. `ratio` is the time of msync over that of the contender in
 * the same trial: above 1 is faster.
 */
#include "storwin_bench.h"

#define MAX_CONTENDERS 5

struct contender {
    const char *name, *hints;
    struct storwin_window *win;
    uint8_t *base;
};

struct load {
    const char *name;
    unsigned percent, run;
};

static const struct load loads[] = {
    {"1%,runs of 1", 1, 1},     {"1%,runs of 16", 1, 16}, {"10%,runs of 1", 10, 1},
    {"10%,runs of 16", 10, 16}, {"100%", 100, 1},
};

/* Stores into the chosen pages; returns how many. The choice depends on the seed alone. */
static uint64_t change(uint8_t *base, uint64_t pages, uint64_t page, const struct load *load,
                       uint64_t seed)
{
    uint64_t changed = 0, period = (uint64_t)load->run * 100 / load->percent;

    for (uint64_t at = 0; at + period <= pages; at += period) {
        uint64_t room = period - load->run;

        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        for (uint64_t p = at + (room ? (seed >> 33) % (room + 1) : 0), end = p + load->run; p < end;
             p++, changed++)
            base[p * page + (seed >> 20) % page] += 1;
    }
    return changed;
}

static void sync_it(const struct contender *c, uint64_t bytes)
{
    struct storwin_error err;

    if (!c->win) {
        if (msync(c->base, bytes, MS_SYNC) < 0)
            die("msync", "failed");
    } else if (storwin_sync(c->win, 0, STORWIN_TO_END, &err) < 0) {
        die("storwin_sync", err.text);
    }
}

static void measure(struct bench *b, struct contender *all, unsigned n, uint64_t bytes,
                    const struct load *load)
{
    const unsigned trials = b->quick ? 3 : 9;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), pages = bytes / page;
    double ms[MAX_CONTENDERS][BENCH_MAX_TRIALS], ratio[MAX_CONTENDERS][BENCH_MAX_TRIALS],
        written[MAX_CONTENDERS][BENCH_MAX_TRIALS], stores[MAX_CONTENDERS][BENCH_MAX_TRIALS];

    for (unsigned t = 0; t < trials; t++) {
        uint64_t seed = (uint64_t)bench_random(b, UINT32_MAX) << 20;

        for (unsigned k = 0; k < n; k++) {
            unsigned i = (k + t) % n; /* the order changes */
            uint64_t sent = sent_bytes(), changed;
            double start = wall_ms();

            changed = change(all[i].base, pages, page, load, seed);
            stores[i][t] = wall_ms() - start;
            start = wall_ms();
            sync_it(&all[i], bytes);
            ms[i][t] = wall_ms() - start;
            written[i][t] = (double)(sent_bytes() - sent) / (double)(changed * page);
        }
        for (unsigned i = 0; i < n; i++)
            ratio[i][t] = ms[0][t] / ms[i][t];
    }
    for (unsigned i = 0; i < n; i++) {
        bench_figure(b, load->name, bytes, all[i].name, "stores", bench_median(stores[i], trials),
                     "ms");
        bench_figure(b, load->name, bytes, all[i].name, "time", bench_median(ms[i], trials), "ms");
        bench_figure(b, load->name, bytes, all[i].name, "written", bench_median(written[i], trials),
                     "bytes/changed byte");
        if (i > 0)
            bench_figure(b, load->name, bytes, all[i].name, "ratio", bench_median(ratio[i], trials),
                         "x msync");
    }
}

int main(int argc, char **argv)
{
    struct contender all[MAX_CONTENDERS] = {
        {"msync", NULL, NULL, NULL},
        {"kernel", "alloc_type=storage", NULL, NULL},
        {"kernel,random", "alloc_type=storage;access_style=random", NULL, NULL},
        {"resident", "alloc_type=storage;storage_alloc_pager=resident", NULL, NULL},
    };
    struct bench b;
    uint64_t bytes;
    const unsigned n = 4;
    int fd;

    bench_init(&b, "storwin_sync", argc, argv);
    bytes = b.quick ? UINT64_C(16) << 20 : UINT64_C(256) << 20;
    fd = bench_file(bytes, 0);
    all[0].base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (all[0].base == MAP_FAILED)
        die("mmap", "failed");
    for (unsigned i = 0; i < n; i++) {
        if (all[i].hints) {
            all[i].win = bench_window(all[i].hints, bytes);
            all[i].base = storwin_base(all[i].win);
        }
        memset(all[i].base, 1, bytes);
        sync_it(&all[i], bytes);
    }
    for (unsigned i = 0; i < sizeof(loads) / sizeof(loads[0]); i++)
        measure(&b, all, n, bytes, &loads[i]);
    return 0;
}
