/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions for generators: arguments with defaults, and communicators to add. After a failure all
 * are no-ops. */
#ifndef RANKMAP_EXPLAIN_WORKLOAD_MAKE_H
#define RANKMAP_EXPLAIN_WORKLOAD_MAKE_H

#include "workload.h"

struct maker {
    struct workload *w;
    const struct generator *generator;
    char *args[8];
    unsigned n_args, used;
    int failed;
    char *error;
    size_t error_size;
};

struct generator {
    const char *name, *arguments, *meaning;
    void (*make)(struct maker *m);
    uint32_t usual; /* number that `make` takes without an argument */
};

extern const struct generator workload_apps[],
    workload_shapes[]; /* each ends with a name of NULL */

/* The next argument, or `usual` when there is none; it must be in min..max. */
uint32_t maker_number(struct maker *m, const char *what, uint32_t usual, uint32_t min,
                      uint32_t max);
/* The next argument as AxB or AxBxC; *product, when not NULL, must be at most WORKLOAD_MAX_RANKS in
 * any case. */
void maker_grid(struct maker *m, const char *what, unsigned n_dims, uint32_t *dims);
/* The number of processes, the usual last argument of an application; makes group 0 of them. */
uint32_t maker_processes(struct maker *m, uint32_t usual);
/* Adds a process group behind the others, which begins at the flat id `base`. */
void maker_group(struct maker *m, uint32_t base, uint32_t n);

/*
 * Adds a communicator of n ranks; the result is its indirect array for the caller to fill (NULL
 * after a failure, or when n is 0, which is one). maker_child()'s parent is a communicator added
 * and filled before.
 */
__attribute__((format(printf, 5, 6))) uint32_t *
maker_comm(struct maker *m, const char *model, unsigned count, uint32_t n, const char *name, ...);
uint32_t *maker_child(struct maker *m, uint32_t parent, const char *model, uint32_t n,
                      const char *name);
/* Adds first, first + step, ..., n ranks. */
void maker_affine(struct maker *m, const char *model, unsigned count, uint32_t first, uint32_t step,
                  uint32_t n, const char *name);

/* Adds this percentage of the ranks 0 to n - 1, drawn at random, in ascending order. */
void maker_subset(struct maker *m, uint32_t n, uint32_t percent, uint64_t *random);

__attribute__((format(printf, 2, 3))) void maker_fail(struct maker *m, const char *format, ...);

/* A number below n; the same ones in each run. */
uint32_t workload_random(uint64_t *state, uint32_t n);

#endif
