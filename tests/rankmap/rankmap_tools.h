/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the unit tests. */
#ifndef TESTS_RANKMAP_TOOLS_H
#define TESTS_RANKMAP_TOOLS_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rankmap_calls.h"

/* A map's bytes without its model. */
#ifdef __i386__ /* aligns 64-bit words to 4 */
#define OBJECT_BYTES 20
#define OBJECT_TEXT  "20"
#else
#define OBJECT_BYTES 24
#define OBJECT_TEXT  "24"
#endif

static inline void *xmalloc(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);

    assert_non_null(p);
    return p;
}

/* An allocator that counts, and fails once. */
struct counter {
    long left; /* allocations before the one that fails; below 0: none fails */
    long n_live;
    size_t n_bytes;
};

#define COUNTED_HEAD 16u /* each block begins with its size, and stays aligned */

static inline void *counted_realloc(void *ctx, void *ptr, size_t bytes)
{
    struct counter *c = ctx;
    unsigned char *p;

    assert_null(ptr); /* nothing here grows */
    if (c->left-- == 0)
        return NULL;
    p = malloc(COUNTED_HEAD + bytes);
    assert_non_null(p);
    memcpy(p, &bytes, sizeof(bytes));
    c->n_live++;
    c->n_bytes += bytes;
    return p + COUNTED_HEAD;
}

static inline void counted_free(void *ctx, void *ptr)
{
    struct counter *c = ctx;
    unsigned char *p = ptr;
    size_t bytes;

    assert_non_null(ptr);
    memcpy(&bytes, p - COUNTED_HEAD, sizeof(bytes));
    c->n_live--;
    c->n_bytes -= bytes;
    free(p - COUNTED_HEAD);
}

static inline struct rankmap *affine(uint64_t offset, int64_t stride, uint32_t n)
{
    struct rankmap *map = NULL;

    assert_int_equal(rankmap_affine(offset, stride, n, NULL, &map), 0);
    return map;
}

static inline struct rankmap *from32(const uint32_t *ids, size_t n)
{
    struct rankmap *map = NULL;

    assert_int_equal(rankmap_from_ids(ids, sizeof(uint32_t), n, NULL, &map, NULL), 0);
    return map;
}

#define IDS(...)          ((const uint32_t[]){__VA_ARGS__})
#define N_IDS(...)        (sizeof(IDS(__VA_ARGS__)) / sizeof(uint32_t))
#define MAP_OF(...)       from32(IDS(__VA_ARGS__), N_IDS(__VA_ARGS__))
#define HAS_IDS(map, ...) assert_ids(map, IDS(__VA_ARGS__), N_IDS(__VA_ARGS__))

static inline void assert_ids(const struct rankmap *map, const uint32_t *ids, size_t n)
{
    assert_int_equal(rankmap_size(map), n);
    for (uint32_t r = 0; r < n; r++)
        assert_int_equal(rankmap_id(map, r), ids[r]);
}

/* A generator that needs no seed: the same in each run. */
static inline uint32_t scramble(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 33) % below);
}

/* A permutation of 0 … n-1. */
static inline uint32_t *permutation(uint32_t n, uint64_t seed)
{
    uint32_t *a = xmalloc(n * sizeof(*a));

    for (uint32_t i = 0; i < n; i++)
        a[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = scramble(&seed, i), swap = a[k];

        a[k] = a[i - 1];
        a[i - 1] = swap;
    }
    return a;
}

#endif
