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

/*
 * Runs this program with one argument under callgrind and calls `found` for each function whose
 * name begins with `prefix`, with the instructions executed in it and in all that it called, over
 * the whole run. 0, or -1 with a note on stderr when there is no valgrind or it failed.
 */
int icount_run(const char *argument, const char *prefix,
               void (*found)(const char *function, uint64_t instructions, void *context),
               void *context);

#endif
