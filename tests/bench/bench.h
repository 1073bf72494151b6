/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the benchmarks: arguments, clocks, a random seed for each run, medians, and the form
 * of a figure. */
#ifndef FENCEPOST_TESTS_BENCH_H
#define FENCEPOST_TESTS_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BENCH_MAX_TRIALS 64

struct bench {
    const char *name;
    int quick;     /* --quick: checks that it runs; the figures mean nothing */
    uint64_t seed; /* --seed N, otherwise another one in each run */
    uint64_t rng;
};

static inline uint64_t bench_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* This thread's processor time, which other processes do not change. */
static inline uint64_t bench_cpu_ns(void)
{
    return bench_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline uint32_t bench_random(struct bench *b, uint32_t below)
{
    b->rng ^= b->rng << 13;
    b->rng ^= b->rng >> 7;
    b->rng ^= b->rng << 17;
    return (uint32_t)((b->rng >> 20) % below);
}

/* Reads --quick and --seed N; ends the program with 2 at anything else. */
static inline void bench_init(struct bench *b, const char *name, int argc, char **argv)
{
    b->name = name;
    b->quick = 0;
    b->seed = bench_ns(CLOCK_REALTIME) ^ (uint64_t)getpid() << 40;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            b->quick = 1;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            b->seed = strtoull(argv[++i], NULL, 0);
        } else {
            fprintf(stderr, "usage: %s [--quick] [--seed N]\n", argv[0]);
            exit(2);
        }
    }
    b->rng = b->seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    fprintf(stderr, "bench_%s: --seed %llu\n", name, (unsigned long long)b->seed);
}

/* One figure, one line. */
static inline void bench_figure(const struct bench *b, const char *which, uint64_t n,
                                const char *who, const char *metric, double value, const char *unit)
{
    printf("{\"bench\":\"%s\",\"case\":\"%s\",\"n\":%llu,\"who\":\"%s\",\"metric\":\"%s\","
           "\"value\":%.6g,\"unit\":\"%s\"}\n",
           b->name, which, (unsigned long long)n, who, metric, value, unit);
}

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts the n values. */
static inline double bench_median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), bench_compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

#endif
