/* SPDX-License-Identifier: BSD-3-Clause */
/* The record that each rank of launch_client leaves for bench_launch; all times in ms, moments on
 * CLOCK_MONOTONIC.
 * */
#ifndef FENCEPOST_BENCH_LAUNCH_RECORD_H
#define FENCEPOST_BENCH_LAUNCH_RECORD_H

#define MAX_ROUNDS 32

struct record {
    double started; /* moment main() began */
    double init;
    double put;               /* last round's */
    double round[MAX_ROUNDS]; /* put and barrier */
    double gets;
    double finalize;
    double ended; /* moment of the end */
};

#endif
