/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of the test program share: its memory, which is symmetric or not, and its results,
 * which are the same whatever the memory is. */
#ifndef ASYMSHMEM_TESTS_SHMEM_TEST_H
#define ASYMSHMEM_TESTS_SHMEM_TEST_H

#include <shmem.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_PES     16
#define MAX_RESULTS 200

#pragma weak shmemx_register
#pragma weak shmemx_unregister
int shmemx_register(void *addr, size_t bytes);
int shmemx_unregister(void *addr);

extern int me, n_pes, next; /* next: the neighbour */
extern bool asymmetric;     /* the memory of blocks is malloc'd and registered */
extern shmem_ctx_t ctx;     /* the default one where CONTEXT=default */

/* Memory that every PE has some of: in each at another address, unless it is symmetric. */
struct block {
    char *mine;
    uint64_t *where; /* symmetric: of each PE */
};

/* By all PEs, like shmem_malloc() and shmem_free(); zeroed. */
struct block block_alloc(size_t bytes);
void block_free(struct block *block);
/* Where a PE's is, for calls that name that PE. */
void *block_at(const struct block *block, int pe);

/* What this PE has found. All PEs call it in the same order; PE 0 prints what all have found. */
void result(const char *class, const char *name, double value);
/* Printed by PE 0, which alone calls it. */
void result_of_all(const char *name, double value);

/* Ends the job. */
_Noreturn void fail(const char *what);

/* The parts. */
void run_calls(void);
void run_programs(void);

#endif
