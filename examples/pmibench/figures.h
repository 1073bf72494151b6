/* SPDX-License-Identifier: BSD-3-Clause */
/* What the clients of pmibench share: clocks, random numbers, the pairs of the paper. */
#ifndef FENCEPOST_PMIBENCH_FIGURES_H
#define FENCEPOST_PMIBENCH_FIGURES_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_FIGURES 5
#define KEY_BYTES   16 /* with NUL, as in the paper */
#define VALUE_BYTES 30

static inline double read_clock(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t rng;

/* Another sequence for each rank and run. */
static inline void rng_seed(unsigned rank, const char *text)
{
    rng = UINT64_C(0x9e3779b97f4a7c15) * (rank + 1u) + (text ? (uint64_t)atoll(text) : 0);
}

static inline uint32_t rng_below(uint32_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)((rng >> 20) % n);
}

/* Key i of the job. */
static inline void make_key(char *key, unsigned i)
{
    char text[64]; /* gcc 14 fears for the exact number of bytes */

    snprintf(text, sizeof(text), "mpi-addr%07u", i % 10000000u);
    memcpy(key, text, KEY_BYTES);
}

/* Its value in a round, which names its rank. */
static inline void make_address(char *value, unsigned i, unsigned round)
{
    char text[64];

    snprintf(text, sizeof(text), "%010u.%07u.%010u", i * 2654435761u, i % 10000000u, round);
    memcpy(value, text, VALUE_BYTES);
}

/* Random keys, made beforehand, so that only Gets are timed. */
#define N_PICKED 16384u /* more than the Gets of a pass */

static inline void pick_keys(char keys[N_PICKED][KEY_BYTES], unsigned picked[N_PICKED], unsigned n)
{
    for (unsigned i = 0; i < N_PICKED; i++) {
        picked[i] = rng_below(n);
        make_key(keys[i], picked[i]);
    }
}

static inline int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static inline double median_of(double *v, unsigned n)
{
    qsort(v, n, sizeof(*v), compare_doubles);
    return n ? v[n / 2] : 0;
}

/* For rank 0, while all ranks are up: pmibench-job, if that started the job, learns which process
 * this is, and may look at all of them before this returns. */
static inline void all_up(void)
{
    const char *folder = getenv("PMIBENCH_JOB");
    char path[4200], byte;
    int up, go;

    if (!folder)
        return;
    snprintf(path, sizeof(path), "%s/up", folder);
    up = open(path, O_WRONLY | O_NONBLOCK); /* ENXIO when pmibench-job has gone */
    snprintf(path, sizeof(path), "%s/go", folder);
    go = up >= 0 ? open(path, O_RDONLY) : -1;
    if (up < 0 || go < 0 || dprintf(up, "%d", (int)getpid()) < 0 || read(go, &byte, 1) < 0)
        perror(path);
    if (go >= 0)
        close(go);
    if (up >= 0)
        close(up);
}

#endif
