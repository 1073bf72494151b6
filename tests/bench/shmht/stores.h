/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the benchmarks of shared tables: options, filling and checking stores, queries,
 * samples. Every function here ends the program with a message on failure.
 */
#ifndef FENCEPOST_SHMHT_STORES_H
#define FENCEPOST_SHMHT_STORES_H

#include "../bench.h"
#include "data.h"
#include "peer.h"

#define MAX_PEERS 24

/* --quick and --seed N as everywhere, and --n N, --trials N, --peer NAME (may be repeated). */
struct run {
    struct bench bench;
    uint64_t n;      /* 0: the benchmark's own sizes */
    unsigned trials; /* 0: the benchmark's own number */
    const char *only[MAX_PEERS];
    unsigned n_only;
};

void run_init(struct run *run, const char *name, int argc, char **argv);

/* Whether this peer is wanted; always so without --peer. */
int run_wants(const struct run *run, const char *name);

__attribute__((format(printf, 1, 2), noreturn)) void die(const char *format, ...);

/* Ends the program as a skipped test: neither ours nor the paper's tables with XXH3 are in this
 * build. */
__attribute__((noreturn)) void skip(void);

/* ---- Data ------------------------------------------------------------------- */

/* Entries 0 ... n-1 in the order of their insertion. */
uint32_t *data_order(struct bench *b, uint64_t n);

/* Room for n queries; then new ones for a store of n_entries. */
void queries_init(struct queries *q, size_t n);
void queries_draw(struct queries *q, struct bench *b, uint64_t n_entries, int absent);
void queries_fini(struct queries *q);

/* ---- Stores ----------------------------------------------------------------- */

struct store_run {
    const struct peer_ops *ops;
    void *store;
    uint64_t n;
    uint64_t bytes;   /* as the peer says, once it is filled */
    double insert_ns; /* processor time for each entry, growth included, generation of the pairs
                         excluded */
    double finish_ns; /* processor time of finish(), for each entry */
};

/* Makes a store and fills it with entries order[0 ... n-1]. `expected` goes to create(). */
void store_fill(struct store_run *s, const struct peer_ops *ops, const uint32_t *order, uint64_t n,
                uint64_t expected);

/* Asks for every entry and for as many absent keys, and compares whole values. Not timed. */
void store_check(const struct store_run *s);

void store_destroy(struct store_run *s);

/* Ends the program when a reader missed a present key or found an absent one. */
void sum_check(const char *who, const struct queries *q, const struct sum *sum, int absent);

/* ---- Gets ------------------------------------------------------------------- */

enum gets {
    GETS_HIT,
    GETS_DEPENDENT,
    GETS_ABSENT,
    GETS_MANY8,
    GETS_MANY16,
    GETS_MANY32,
    GETS_MANY64,
    N_GETS
};

extern const char *const gets_names[N_GETS];

/*
 * Draws keys and warms up with them, draws others and looks them up on the clock: processor time
 * for each Get, in ns; 0 if the peer does not have this case. `warm` and `timed` are room for the
 * keys.
 */
double gets_time(struct bench *b, const struct store_run *s, enum gets which, struct queries *warm,
                 struct queries *timed);

/* ---- Samples ---------------------------------------------------------------- */

struct samples {
    double *v;
    size_t n, cap;
};

void samples_add(struct samples *s, double value);
/* 0 when there are none. */
double samples_median(struct samples *s);
void samples_fini(struct samples *s);

/* Shuffles n numbers: the order of the peers in a trial. */
void shuffle(struct bench *b, unsigned *v, unsigned n);

/* Memory that this process takes, shared and private; a page that it has mapped twice counts once.
 * */
uint64_t resident_bytes(void);

#endif
