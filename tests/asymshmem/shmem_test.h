/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the parts of the test program: its memory, symmetric or not, and its results, which do
 * not depend on the kind of memory. */
#ifndef ASYMSHMEM_TESTS_SHMEM_TEST_H
#define ASYMSHMEM_TESTS_SHMEM_TEST_H

#include <shmem.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_PES     16
#define MAX_RESULTS 240

#pragma weak shmemx_register
#pragma weak shmemx_unregister
#pragma weak shmemx_alloc
#pragma weak shmemx_free
int shmemx_register(void *addr, size_t bytes);
int shmemx_unregister(void *addr);
void *shmemx_alloc(size_t bytes);
int shmemx_free(void *addr);

extern int me, n_pes, next; /* next: the neighbour */
extern bool asymmetric;     /* the memory of blocks is malloc'd and registered */
extern shmem_ctx_t ctx;     /* the default one where CONTEXT=default */

/* Memory in every PE, at another address in each unless it is symmetric. */
struct block {
    char *mine;
    uint64_t *where; /* symmetric: of each PE */
};

/* By all PEs, like shmem_malloc() and shmem_free(); zeroed. */
struct block block_alloc(size_t bytes);
void block_free(struct block *block);
/* The address of a PE's part, for calls that name that PE. */
void *block_at(const struct block *block, int pe);

/* Reports this PE's result. All PEs call it in the same order; PE 0 prints all results. */
void result(const char *class, const char *name, double value);
/* Printed by PE 0, which alone calls it. */
void result_of_all(const char *name, double value);

/* Ends the job. */
_Noreturn void fail(const char *what);

/* The parts. */
void run_calls(void);
void run_programs(void);

#endif
