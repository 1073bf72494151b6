/* SPDX-License-Identifier: BSD-3-Clause */
/* An allocator for engines under test: it counts, fails on request, and aborts beyond a limit. */
#ifndef FENCEPOST_TESTS_HEAP_H
#define FENCEPOST_TESTS_HEAP_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct heap {
    size_t n_live, live, peak;
    size_t limit;     /* of `live`: exceeding it ends the program; 0: none */
    size_t max_bytes; /* longer requests fail; 0: none */
    long n_calls;
    long fail_at; /* the call of this number fails, from 1; 0: none */
};

static inline void heap_free(void *ctx, void *ptr)
{
    struct heap *h = ctx;

    if (!ptr)
        return;
    h->n_live--;
    h->live -= ((size_t *)ptr)[-2];
    free((size_t *)ptr - 2);
}

static inline void *heap_realloc(void *ctx, void *ptr, size_t bytes)
{
    struct heap *h = ctx;
    size_t *p;

    h->n_calls++;
    if (h->n_calls == h->fail_at || (h->max_bytes && bytes > h->max_bytes))
        return NULL;
    p = malloc(bytes + 2 * sizeof(size_t));
    if (!p)
        abort();
    p[0] = bytes;
    memset(p + 2, 0xa5, bytes); /* callers must not rely on zeros */
    if (ptr) {
        size_t old = ((size_t *)ptr)[-2];

        memcpy(p + 2, ptr, old < bytes ? old : bytes);
        heap_free(ctx, ptr);
    }
    h->n_live++;
    h->live += bytes;
    if (h->live > h->peak)
        h->peak = h->live;
    if (h->limit && h->live > h->limit)
        abort();
    return p + 2;
}

#endif
