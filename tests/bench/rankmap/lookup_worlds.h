/* SPDX-License-Identifier: BSD-3-Clause */
/* The processes and the communicators that bench_rankmap_lookup looks ranks up in: the same ones
 * for all. */
#ifndef FENCEPOST_BENCH_LOOKUP_WORLDS_H
#define FENCEPOST_BENCH_LOOKUP_WORLDS_H

#include "lookup_peers.h"

enum shape {
    SHAPE_DIRECT,      /* the first half of the world, as in the paper */
    SHAPE_OFFSET,      /* the second half */
    SHAPE_STRIDE,      /* even ranks */
    SHAPE_BLOCKSTRIDE, /* 16 of each 32 */
    SHAPE_LUT,    /* even ranks, each 64 of them shuffled: no model fits, memory is read nearly in
                     order */
    SHAPE_MLUT,   /* the same, of two process groups alternately */
    SHAPE_RANDOM, /* even ranks, all shuffled */
    SHAPE_MD,     /* blocks of 16 transposed, of each 32 */
    SHAPE_RUNS,   /* 16 pieces, gaps of all sizes between them */
    SHAPE_SET,    /* half of all, at random, ascending */
    SHAPE_SPARSE, /* 1/16 of all, likewise: fewer ranks than the others */
    N_SHAPES
};

/* Entries of up to max_ids processes; the second process group begins in the middle. Ends the
 * program when there is no memory. */
void world_make(uint32_t max_ids);
/* What an id's address is, everywhere. */
uint64_t world_address(uint64_t id);
/* Forgets all entries and writes those of these ids, in all libraries' tables. */
void world_fill(const uint32_t *ids, uint32_t n, uint32_t n_ids);

extern uint64_t *world_entries; /* ours: 8 bytes each, by flat id */

/* The ids of a communicator in a world of 2n (n a multiple of 64): how many they are; n but for
 * SHAPE_SPARSE. */
uint32_t shape_ids(enum shape shape, uint32_t n, uint64_t seed, uint32_t *ids);

/* A communicator as each peer has it; free_peers() frees the tables. */
struct peers {
    struct vcrt_comm vcrt;
    struct sw_comm sw;
    struct pmap_comm pmap;
    struct ucc_comm ucc;
    struct sparse_comm sparse;
};

void make_peers(struct peers *p, enum shape shape, const uint32_t *ids, uint32_t n);
void free_peers(struct peers *p, enum shape shape);

#endif
