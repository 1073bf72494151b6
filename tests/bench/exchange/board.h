/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ranks of bench_exchange's jobs record their times and synchronize here: in a file that all
 * map, as all "hosts" are this machine. So there is no PMI between two rounds, and all ranks begin
 * a round at the same moment.
 */
#ifndef FENCEPOST_BENCH_BOARD_H
#define FENCEPOST_BENCH_BOARD_H

#include <stdatomic.h>
#include <stdint.h>

#define BOARD_RANKS  256
#define BOARD_WAYS   4
#define BOARD_ROUNDS 16
#define BOARD_BULK   32 /* pairs of a rank */

struct board_rank {   /* moments on CLOCK_MONOTONIC */
    int64_t init_ns;  /* PMI's init was complete */
    int64_t ended_ns; /* after finalize; 0: not reached */
    int64_t begun_ns[BOARD_WAYS][BOARD_ROUNDS];
    int64_t done_ns[BOARD_WAYS][BOARD_ROUNDS];
    int64_t cpu_ns[BOARD_WAYS][BOARD_ROUNDS];    /* of the rank in it, from its sleep on */
    int64_t server_ns[BOARD_WAYS][BOARD_ROUNDS]; /* of its server; of a node's first rank alone */
};

struct board {
    atomic_uint n_here;       /* ranks that have reached the meeting */
    atomic_uint n_met;        /* meetings that are over */
    _Atomic int64_t start_ns; /* of the round that follows */
    int32_t per_node;         /* ranks on a node, consecutive; 0: unknown */
    struct board_rank ranks[BOARD_RANKS];
};

#endif
