/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding the model of an array of ids, compared with memcpy() of it, a sum over it, and the
 * detectors of ch4, MPICH main and UCC.
 *
 *     bench_rankmap_detect [--quick] [--seed N]
 *
 * Arrays of 4 to 400 MB (32-bit ids): direct, stride, blockstride (16 of 24) and a brick of a grid
 * (md-blockstride). A detector that cannot find a model returns early, and has no figure there.
 * Found models are checked. Times are the thread's processor time, medians over alternating trials.
 */
#include "../bench.h"

#include <rankmap.h>

#include "detect_peers.h"

enum who { OURS, MEMCPY, READ, CH4, MAIN, UCC, N_WHO };

static const char *const labels[N_WHO] = {"ours", "memcpy", "read", "ch4", "MPICH main", "UCC"};

enum shape { DIRECT, STRIDE, BLOCKSTRIDE, BRICK };

static const struct {
    const char *name;
    enum shape shape;
    uint32_t kind;
    uint32_t who; /* the detectors that find it */
} cases[] = {
    {"direct", DIRECT, RANKMAP_DIRECT, 0x3f},
    {"stride", STRIDE, RANKMAP_STRIDE, 0x3f},
    {"blockstride", BLOCKSTRIDE, RANKMAP_BLOCKSTRIDE,
     1u << OURS | 1u << MEMCPY | 1u << READ | 1u << CH4},
    {"md-blockstride", BRICK, RANKMAP_MD, 1u << OURS | 1u << MEMCPY | 1u << READ},
};

static int32_t *ids, *copy;
static volatile uint64_t sink;

static void fail(const char *which, const char *who)
{
    fprintf(stderr, "bench_rankmap_detect: %s: %s does not find it\n", which, who);
    exit(1);
}

static void fill(enum shape shape, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++) {
        switch (shape) {
        case DIRECT: ids[r] = (int32_t)r; break;
        case STRIDE: ids[r] = (int32_t)(7 + 3 * r); break;
        case BLOCKSTRIDE: ids[r] = (int32_t)(5 + r / 16 * 24 + r % 16); break;
        case BRICK: ids[r] = (int32_t)(r % 20 + r / 20 % 25 * 32 + r / 500 * 1024); break;
        }
    }
}

static void detect_ours(unsigned k, uint32_t n)
{
    const struct rankmap_opts opts = {.size = sizeof(opts), .id_limit = UINT64_C(1) << 31};
    struct rankmap_info info = {.size = sizeof(info)};
    struct rankmap *map;
    uint32_t some = n / 3;

    if (rankmap_from_ids((const uint32_t *)ids, sizeof(uint32_t), n, &opts, &map, NULL) != 0)
        fail(cases[k].name, labels[OURS]);
    if (rankmap_query(map, &info) != 0 || info.kind != cases[k].kind ||
        rankmap_id(map, some) != (uint32_t)ids[some] ||
        rankmap_id(map, n - 1) != (uint32_t)ids[n - 1])
        fail(cases[k].name, labels[OURS]);
    rankmap_unref(map);
}

static void detect(enum who who, unsigned k, uint32_t n)
{
    struct found found = {1, 0, 0, 0};

    switch (who) {
    case OURS: detect_ours(k, n); return;
    case MEMCPY:
        memcpy(copy, ids, n * sizeof(*ids));
        __asm__ volatile("" : : "r"(copy) : "memory");
        return;
    case READ: sink = read_sum(ids, n); return;
    case CH4: detect_ch4(ids, n, &found); break;
    case MAIN: detect_main(ids, n, &found); break;
    default: detect_ucc(ids, n, &found); break;
    }
    if (!found.regular ||
        found.offset + (n - 1) / found.block * found.stride + (n - 1) % found.block != ids[n - 1])
        fail(cases[k].name, labels[who]);
}

static void run(struct bench *b, unsigned k, uint32_t n)
{
    static double ns[N_WHO][BENCH_MAX_TRIALS];
    const unsigned trials = b->quick ? 3 : 11, rounds = n < 10000000 ? 10 : 1;
    double median[N_WHO];

    fill(cases[k].shape, n);
    for (unsigned t = 0; t < trials; t++) {
        for (unsigned i = 0; i < N_WHO; i++) {
            unsigned w = (i + t) % N_WHO;
            uint64_t start;

            if (!(cases[k].who >> w & 1))
                continue;
            start = bench_cpu_ns();
            for (unsigned round = 0; round < rounds; round++)
                detect((enum who)w, k, n);
            ns[w][t] = (double)(bench_cpu_ns() - start) / rounds / n;
        }
    }
    fprintf(stderr, "%-15s %9lu |", cases[k].name, (unsigned long)n);
    for (unsigned w = 0; w < N_WHO; w++) {
        if (!(cases[k].who >> w & 1))
            continue;
        median[w] = bench_median(ns[w], trials);
        bench_figure(b, cases[k].name, n, labels[w], "ns_per_rank", median[w], "ns");
        bench_figure(b, cases[k].name, n, labels[w], "bandwidth", sizeof(*ids) / median[w], "GB/s");
        fprintf(stderr, " %s %.1f", labels[w], sizeof(*ids) / median[w]);
        if (w > OURS)
            bench_figure(b, cases[k].name, n, labels[OURS],
                         w == MEMCPY ? "speedup over memcpy"
                         : w == READ ? "speedup over read"
                         : w == CH4  ? "speedup over ch4"
                         : w == MAIN ? "speedup over MPICH main"
                                     : "speedup over UCC",
                         median[w] / median[OURS], "x");
    }
    fputc('\n', stderr);
}

int main(int argc, char **argv)
{
    static const uint32_t sizes[] = {1000000, 10000000, 100000000};
    const unsigned last = 2;
    struct bench b;
    size_t bytes;

    bench_init(&b, "rankmap_detect", argc, argv);
    bytes = sizes[b.quick ? 0 : last] * sizeof(*ids);
    ids = malloc(bytes);
    copy = malloc(bytes);
    if (!ids || !copy) {
        fprintf(stderr, "bench_rankmap_detect: out of memory\n");
        return 1;
    }
    memset(copy, 1, bytes);
    fprintf(stderr, "GB/s of ids read\n");
    for (unsigned i = 0; i < (b.quick ? 1u : last + 1); i++)
        for (unsigned k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
            run(&b, k, sizes[i]);
    free(ids);
    free(copy);
    return 0;
}
