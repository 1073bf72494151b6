/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client with many pairs, over the drop-in libpmi2: one rank, or all, put N pairs, all fence and
 * look some of them up.
 *
 *     big_pairs RANK N BYTES    RANK (-1: all of them together) puts N pairs, values of BYTES
 *     big_pairs full N BYTES    rank 0 puts up to N pairs until a put is refused; then it prints
 *                               "accepted I pairs" and all continue; the others put 1000 pairs
 *                               each, so that a Fence brings more. After the Fence each rank finds
 *                               the first missing pair, and prints "found I pairs"
 *
 * BIG_WAITS in the environment: the ranks fence once this file exists.
 * Each rank prints "server peak P private A" in KiB: the peak of its server's memory, and the
 * server's private memory after the Fence.
 */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pmi2.h"

enum { MOST = 1024, LOOKS = 1000 };

static int rank, size;
static long n_pairs;
static char value[MOST + 1];
static int value_len;

static void fail(const char *what, long i, int rc)
{
    fprintf(stderr, "rank %d: %s %ld: %d\n", rank, what, i, rc);
    PMI2_Abort(1, what);
    exit(1);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* KiB of a field of our server's /proc/PID/status. */
static long server_kib(const char *field)
{
    char path[64], line[256];
    long kib = -1;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)getppid());
    f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, field, strlen(field)) == 0)
            kib = atol(line + strlen(field));
    if (f)
        fclose(f);
    return kib;
}

/* A pair by its number: mostly x, so that its length and ends show whether it is whole. */
static void make(char *key, long i)
{
    sprintf(key, "big-%010ld", i);
    memset(value, 'x', (size_t)value_len);
    value[sprintf(value, "%ld.", i)] = 'x';
    value[value_len] = '\0';
}

static int put(long i)
{
    char key[32];

    make(key, i);
    return PMI2_KVS_Put(key, value);
}

static int find(long i)
{
    char key[32], got[MOST + 1];
    int len, rc;

    make(key, i);
    rc = PMI2_KVS_Get(NULL, PMI2_ID_NULL, key, got, sizeof(got), &len);
    if (rc == PMI2_SUCCESS && (len != value_len || strcmp(got, value) != 0))
        fail("not what was put: pair", i, len);
    return rc;
}

static void look(long i)
{
    int rc = find(i);

    if (rc != PMI2_SUCCESS)
        fail("cannot get pair", i, rc);
}

/* The number of pairs that are there. */
static long count(void)
{
    long low = 0, high = n_pairs;

    while (low < high) {
        long middle = low + (high - low) / 2;

        if (find(middle) == PMI2_SUCCESS)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int main(int argc, char **argv)
{
    int spawned, app, putter, full, rc = 0;
    long n_put, n_looks;
    double t;

    if (argc != 4 || PMI2_Init(&spawned, &size, &rank, &app) != PMI2_SUCCESS)
        return 1;
    n_pairs = atol(argv[2]);
    value_len = atoi(argv[3]);
    full = strcmp(argv[1], "full") == 0;
    putter = full ? 0 : atoi(argv[1]);
    if (n_pairs < 1 || value_len < 24 || value_len > MOST)
        fail("no such size", n_pairs, value_len);
    t = now();
    for (n_put = 0; n_put < n_pairs && rc == 0; n_put++)
        if (putter < 0 ? n_put % size == rank : putter == rank)
            rc = put(n_put);
    for (long i = 0; full && rank > 0 && rc == 0 && i < LOOKS; i++)
        rc = put(n_pairs + rank * LOOKS + i);
    if ((rc != 0) != (full && rank == 0))
        fail("put", n_put, rc);
    if (rc != 0)
        printf("accepted %ld pairs\n", n_put - 1);
    printf("rank %d: puts took %.2f s\n", rank, now() - t);
    fflush(stdout);
    while (getenv("BIG_WAITS") && access(getenv("BIG_WAITS"), F_OK) != 0)
        usleep(10000);
    t = now();
    rc = PMI2_KVS_Fence();
    if (rc != PMI2_SUCCESS)
        fail("fence", 0, rc);
    printf("rank %d: the fence took %.2f s\n", rank, now() - t);
    n_looks = full ? count() : n_pairs;
    if (full)
        printf("found %ld pairs\n", n_looks);
    for (long i = 0; i < LOOKS; i++)
        look((i * 7919 + rank) % n_looks);
    for (long i = LOOKS; full && i < size * LOOKS; i++)
        look(n_pairs + i);
    PMI2_KVS_Fence(); /* every server has left the first one */
    printf("server peak %ld private %ld\n", server_kib("VmHWM:"), server_kib("RssAnon:"));
    PMI2_Finalize();
    printf("rank %d ended well\n", rank);
    return 0;
}
