/* SPDX-License-Identifier: BSD-3-Clause */
/* An allocator for engines under test: it counts, has a limit that must never be passed, and fails on request. */
#ifndef FENCEPOST_TESTS_FUZZ_HEAP_H
#define FENCEPOST_TESTS_FUZZ_HEAP_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct heap {
    size_t n_live, live, limit;
    uint32_t fail_in; /* calls until one fails, 0: none */
};

static void heap_free(void *ctx, void *ptr)
{
    struct heap *h = ctx;

    if (!ptr)
        return;
    h->n_live--;
    h->live -= ((size_t *)ptr)[-2];
    free((size_t *)ptr - 2);
}

static void *heap_realloc(void *ctx, void *ptr, size_t bytes)
{
    struct heap *h = ctx;
    size_t *p;

    if (h->fail_in && --h->fail_in == 0)
        return NULL;
    p = malloc(bytes + 2 * sizeof(size_t));
    if (!p)
        abort();
    p[0] = bytes;
    if (ptr) {
        size_t old = ((size_t *)ptr)[-2];

        memcpy(p + 2, ptr, old < bytes ? old : bytes);
        heap_free(ctx, ptr);
    }
    h->n_live++;
    h->live += bytes;
    if (h->live > h->limit)
        abort();
    return p + 2;
}

#endif
