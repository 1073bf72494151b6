/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory from the allocator, and address space from the kernel. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CACHE_LINE 64u

void *asymreg__alloc(const struct asymreg_allocator *a, size_t bytes)
{
    void *p;

    if (!a)
        return calloc(1, bytes); /* it does not touch large fresh blocks */
    p = a->realloc(a->ctx, NULL, bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

void asymreg__free(const struct asymreg_allocator *a, void *p)
{
    if (!a)
        free(p);
    else if (p)
        a->free(a->ctx, p);
}

/* The pointer to the allocated block is stored right before the first line, where the alignment
 * leaves at least 16 bytes. */
void *asymreg__alloc_lines(const struct asymreg_allocator *a, size_t bytes)
{
    char *block =
             asymreg__alloc(a, (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE + CACHE_LINE),
         *line;

    if (!block)
        return NULL;
    line = block + CACHE_LINE - (uintptr_t)block % CACHE_LINE;
    memcpy(line - sizeof(block), &block, sizeof(block));
    return line;
}

void asymreg__free_lines(const struct asymreg_allocator *a, void *p)
{
    void *block;

    if (!p)
        return;
    memcpy(&block, (char *)p - sizeof(block), sizeof(block));
    asymreg__free(a, block);
}

void *asymreg__reserve(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

void asymreg__unreserve(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}
