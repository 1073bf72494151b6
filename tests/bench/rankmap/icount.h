/* SPDX-License-Identifier: BSD-3-Clause */
/* Instructions a call of functions of this program, counted by valgrind's callgrind. */
#ifndef FENCEPOST_BENCH_ICOUNT_H
#define FENCEPOST_BENCH_ICOUNT_H

#include <stdint.h>

/* A function whose symbol and code stay its own: neither inlined nor cloned nor merged with an
 * identical one. */
#if defined(__clang__)
#define ICOUNT_FUNCTION __attribute__((noinline, used))
#else
#define ICOUNT_FUNCTION __attribute__((noinline, noclone, no_icf, used))
#endif

/* The counts of a function with its callees over the whole run. */
struct icount {
    uint64_t instructions;
    uint64_t d1_misses, ll_misses; /* of data, in the first and the last cache; 0 without caches */
};

/*
 * Runs this program with one argument under callgrind and calls `found` for each function whose
 * name begins with `prefix`. With `last_cache`, "BYTES,WAYS,LINE", callgrind simulates that cache
 * behind one of 32 KiB for data; NULL: no caches. 0, or -1 with a note on stderr when there is no
 * valgrind or it failed.
 */
int icount_run(const char *argument, const char *prefix, const char *last_cache,
               void (*found)(const char *function, const struct icount *counts, void *context),
               void *context);

#endif
