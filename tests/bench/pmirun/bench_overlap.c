/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time that a process spends in calls for a Fence and an Allgather, where it waits for them and
 * where it computes at the same time: bench_overlap PMIRUN [--quick]. RANKS processes of a job on
 * one node put PAIRS pairs each; the last rank enters LATE_MS after the others, so that blocking
 * takes them that long. The others begin the operation, compute for AWAY_MS, and wait for it. They
 * "compute" asleep, so that the server has a processor, as on a node with more processors than
 * processes.
 *
 * Each figure is a median over ROUNDS, for the slowest rank.
 */
#include "../bench.h"

#include "pmi2.h"

enum { RANKS = 4, PAIRS = 16, LATE_MS = 10, AWAY_MS = 15, ROUNDS = 50 };

static int rank, size;

static void must(int rc, const char *what)
{
    if (rc == PMI2_SUCCESS)
        return;
    fprintf(stderr, "bench_overlap: rank %d: %s: %d\n", rank, what, rc);
    exit(1);
}

static double now_us(void)
{
    return (double)bench_ns(CLOCK_MONOTONIC) * 1e-3;
}

static void be_away(int ms)
{
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}

static void put_all(void)
{
    char key[32];

    for (int i = 0; i < PAIRS; i++) {
        snprintf(key, sizeof(key), "overlap-%d-%d", rank, i);
        must(PMI2_KVS_Put(key, "a value of some thirty characters"), "Put");
    }
}

static int fence_begin(void)
{
    return PMI2_KVS_Ifence();
}

static int fence_wait(void)
{
    return PMI2_KVS_Wait();
}

static int gather_begin(void)
{
    return PMI2_SHMEM_Iallgather("a value of some thirty characters");
}

static int gather_wait(void)
{
    void *values;
    int stride;

    return PMI2_SHMEM_Iallgather_wait_stride(&values, &stride);
}

/* Time in calls of one operation; *put_us: of a put behind it. */
static double one(int (*begin)(void), int (*wait)(void), int overlaps, double *put_us)
{
    double began, in_calls;

    put_all();
    must(PMI2_KVS_Fence(), "Fence");
    if (rank == size - 1)
        be_away(LATE_MS);
    began = now_us();
    must(begin(), "begin");
    in_calls = now_us() - began;
    if (overlaps) {
        began = now_us();
        must(PMI2_KVS_Put("overlap-behind", "v"), "Put");
        *put_us = now_us() - began;
        be_away(AWAY_MS);
    }
    began = now_us();
    must(wait(), "wait");
    return in_calls + now_us() - began;
}

/* The longest median of the ranks that were in time. */
static double longest(double *values, int n)
{
    static char all[RANKS * PMI2_MAX_VALLEN];
    char text[32];
    double most = 0;

    snprintf(text, sizeof(text), "%.9g", bench_median(values, (size_t)n));
    must(PMIX_Allgather(text, all), "Allgather");
    for (int r = 0; r < size - 1; r++)
        if (strtod(all + r * PMI2_MAX_VALLEN, NULL) > most)
            most = strtod(all + r * PMI2_MAX_VALLEN, NULL);
    return most;
}

static void measure(const struct bench *b, const char *which, int (*begin)(void), int (*wait)(void))
{
    double blocking[ROUNDS], overlapped[ROUNDS], puts[ROUNDS], unused = 0, waits, calls, put;
    const int rounds = b->quick ? 3 : ROUNDS;

    for (int i = 0; i < rounds; i++) {
        blocking[i] = one(begin, wait, 0, &unused);
        overlapped[i] = one(begin, wait, 1, &puts[i]);
    }
    waits = longest(blocking, rounds);
    calls = longest(overlapped, rounds);
    put = longest(puts, rounds);
    if (rank != 0)
        return;
    bench_figure(b, which, (uint64_t)size, "pmirun", "blocking", waits, "us");
    bench_figure(b, which, (uint64_t)size, "pmirun", "in_calls", calls, "us");
    bench_figure(b, which, (uint64_t)size, "pmirun", "in_calls_of_blocking", 100 * calls / waits,
                 "%");
    bench_figure(b, which, (uint64_t)size, "pmirun", "put_behind", put, "us");
}

/* Executes itself again, under pmirun. */
static int start_job(char **argv)
{
    char number[16], *args[16] = {argv[1], "-n", number, argv[0], "job"};

    snprintf(number, sizeof(number), "%d", RANKS);
    for (int i = 2; argv[i] && i < 10; i++)
        args[i + 3] = argv[i];
    execv(argv[1], args);
    perror(argv[1]);
    return 1;
}

int main(int argc, char **argv)
{
    int spawned, appnum;
    struct bench b;

    if (argc < 2)
        return fprintf(stderr, "usage: bench_overlap PMIRUN [--quick]\n"), 2;
    if (strcmp(argv[1], "job") != 0)
        return start_job(argv);
    bench_init(&b, "overlap", argc - 1, argv + 1);
    must(PMI2_Init(&spawned, &size, &rank, &appnum), "Init");
    measure(&b, "ifence", fence_begin, fence_wait);
    measure(&b, "iallgather", gather_begin, gather_wait);
    fflush(stdout);
    must(PMI2_Finalize(), "Finalize");
    return 0;
}
