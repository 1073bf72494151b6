/* SPDX-License-Identifier: BSD-3-Clause */
/* mSTREAM ("MPI Windows on Storage for HPC Applications", section 3.2): large segments of a window
 * are read and written in turn, in order (SEQ), in order with gaps (PAD), at random (RND), and in
 * order and at random by turns (MIX). The last iteration of a kernel ends with a window
 * synchronization, timed apart. The program checks each segment that it reads, and at the end the
 * whole window. */
#include "program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kernel { SEQ, PAD, RND, MIX, N_KERNELS };
static const char *const kernel_names[] = {"SEQ", "PAD", "RND", "MIX"};

static uint64_t window_mib = 256, segment_kib = 16384, n_iterations = 10;

struct stream {
    unsigned char *base, *segment; /* the window, and memory of one segment's length */
    size_t bytes;                  /* of a segment */
    uint64_t n_segments;
    uint64_t *stamps; /* the expected stamp of each segment */
    uint64_t rng, n_ops;
};

static uint64_t next_random(struct stream *s)
{
    return program_mix(s->rng += UINT64_C(0x9e3779b97f4a7c15));
}

/* The i-th segment that a kernel visits. PAD leaves out one of three. */
static uint64_t choose_segment(struct stream *s, enum kernel kernel, uint64_t i)
{
    switch (kernel) {
    case SEQ: return i % s->n_segments;
    case PAD: return (i + i / 2) % s->n_segments;
    case RND: return next_random(s) % s->n_segments;
    default: return i % 2 ? next_random(s) % s->n_segments : i % s->n_segments;
    }
}

/* A segment carries its stamp in the first and the last word of each page. */
static void mark_segment(unsigned char *segment, size_t bytes, uint64_t stamp)
{
    for (size_t at = 0; at < bytes; at += 4096) {
        memcpy(segment + at, &stamp, 8);
        memcpy(segment + at + 4088, &stamp, 8);
    }
}

static void check_segment(const struct stream *s, const unsigned char *segment, uint64_t which,
                          size_t step)
{
    uint64_t first, last;

    for (size_t at = 0; at < s->bytes; at += step) {
        memcpy(&first, segment + at, 8);
        memcpy(&last, segment + at + 4088, 8);
        CHECK(first == s->stamps[which] && last == s->stamps[which],
              "segment %llu, byte %zu: %llx and %llx, expected %llx", (unsigned long long)which, at,
              (unsigned long long)first, (unsigned long long)last,
              (unsigned long long)s->stamps[which]);
    }
}

/* One pass: one operation per segment. Reads and writes alternate, and one pass reads what the
 * other writes. While the clock runs, only the first page of a segment is checked. */
static void run_iteration(struct stream *s, enum kernel kernel, uint64_t iteration)
{
    for (uint64_t i = 0; i < s->n_segments; i++) {
        uint64_t which = choose_segment(s, kernel, i);
        unsigned char *at = s->base + which * s->bytes;

        if ((i + iteration) % 2 == 0) {
            memcpy(s->segment, at, s->bytes);
            check_segment(s, s->segment, which, s->bytes);
        } else {
            s->stamps[which] = program_mix(++s->n_ops);
            mark_segment(s->segment, s->bytes, s->stamps[which]);
            memcpy(at, s->segment, s->bytes);
        }
    }
}

/* Times of one kernel on one window, in s: the iterations without the cold one, and the
 * synchronization that ends them.
 */
static void run_kernel(struct program *p, struct stream *s, MPI_Win win, enum kernel kernel,
                       double *work, double *sync)
{
    double start;

    run_iteration(s, kernel, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (uint64_t i = 1; i <= n_iterations; i++)
        run_iteration(s, kernel, i);
    *work = MPI_Wtime() - start;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, p->rank, 0, win);
    start = MPI_Wtime();
    MPI_Win_sync(win);
    *sync = MPI_Wtime() - start;
    MPI_Win_unlock(p->rank, win);
    for (uint64_t i = 0; i < s->n_segments; i++)
        check_segment(s, s->base + i * s->bytes, i, 4096);
    *work = program_slowest(*work);
    *sync = program_slowest(*sync);
}

static void print_kernel(struct program *p,
                         double times[N_KERNELS][PROGRAM_MAX_CASES][2][PROGRAM_MAX_TRIALS],
                         uint64_t n_segments)
{
    double moved =
        (double)n_segments * (double)(segment_kib << 10) * (double)n_iterations * p->size / 1e6;
    double both[PROGRAM_MAX_TRIALS];

    for (int k = 0; k < N_KERNELS; k++) {
        for (int i = 0; i < p->n_cases; i++) {
            if (p->works[i] != 1)
                continue;
            for (uint64_t t = 0; t < p->n_trials; t++)
                both[t] = times[k][i][0][t] + times[k][i][1][t];
            program_figure(p, kernel_names[k], window_mib << 20, p->cases[i].who, "bandwidth",
                           moved / program_median(times[k][i][0], p->n_trials), "MB/s");
            program_figure(p, kernel_names[k], window_mib << 20, p->cases[i].who,
                           "bandwidth with sync", moved / program_median(both, p->n_trials),
                           "MB/s");
            program_figure(p, kernel_names[k], window_mib << 20, p->cases[i].who, "sync",
                           program_median(times[k][i][1], p->n_trials), "s");
        }
    }
}

int main(int argc, char **argv)
{
    static const struct program_option options[] = {
        {"--window", &window_mib, 16, "MiB of each rank's window"},
        {"--segment", &segment_kib, 1024, "KiB of a segment, a multiple of 4"},
        {"--iterations", &n_iterations, 2, "iterations of a kernel, after a cold one"},
        {0},
    };
    static double times[N_KERNELS][PROGRAM_MAX_CASES][2][PROGRAM_MAX_TRIALS];
    struct program p;
    struct stream s = {0};
    uint64_t trial;

    program_init(&p, "mstream", &argc, &argv, options);
    CHECK(segment_kib > 0 && segment_kib % 4 == 0 && window_mib << 10 >= segment_kib &&
              n_iterations > 0,
          "a segment is a multiple of 4 KiB and fits into the window");
    s.bytes = segment_kib << 10;
    s.n_segments = (window_mib << 20) / s.bytes;
    s.segment = malloc(s.bytes);
    s.stamps = malloc(s.n_segments * sizeof(*s.stamps));
    CHECK(s.segment && s.stamps, "no memory");
    memset(s.segment, 1, s.bytes);
    for (int i = -1; program_next(&p, &i, &trial);) {
        MPI_Win win;

        if (!program_window(&p, i, (MPI_Aint)(s.n_segments * s.bytes), 1, &s.base, &win))
            continue;
        memset(s.stamps, 0, s.n_segments * sizeof(*s.stamps));
        memset(s.base, 0, s.n_segments * s.bytes); /* MPI promises no zeros */
        s.rng = p.seed + trial;
        for (enum kernel k = SEQ; k < N_KERNELS; k++)
            run_kernel(&p, &s, win, k, &times[k][i][0][trial], &times[k][i][1][trial]);
        MPI_Win_free(&win);
    }
    print_kernel(&p, times, s.n_segments);
    free(s.segment);
    free(s.stamps);
    return program_end(&p);
}
