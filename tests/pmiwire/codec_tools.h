/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of codec, command table and profiles: a seed, memory that ends at a page
 * without access, views. */
#ifndef FENCEPOST_TESTS_CODEC_TOOLS_H
#define FENCEPOST_TESTS_CODEC_TOOLS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* MAP_ANONYMOUS */
#endif
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <pmiwire/codec.h>
#include <pmiwire/command.h>
#include <pmiwire/profile.h>

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

static uint64_t rng_state = UINT64_C(0x9e3779b97f4a7c15);

static inline uint32_t rnd(uint32_t below)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return (uint32_t)((rng_state >> 20) % below);
}

static inline struct pmiwire_str view(const char *p, size_t len)
{
    return (struct pmiwire_str){p, len};
}

static inline int same(struct pmiwire_str a, const char *b)
{
    return a.len == strlen(b) && memcmp(a.ptr, b, a.len) == 0;
}

/* A heap block of exactly these bytes, so that a sanitizer sees a read past them. */
static inline char *exact_copy(const char *data, size_t len)
{
    char *copy = malloc(len ? len : 1);

    assert_non_null(copy);
    if (len)
        memcpy(copy, data, len);
    return copy;
}

/* Memory that ends at an inaccessible page. */
struct guard {
    char *base;
    size_t bytes;
};

static inline struct guard guard_open(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct guard g;

    g.bytes = (bytes + page - 1) / page * page;
    g.base = mmap(NULL, g.bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.base != MAP_FAILED);
    assert_int_equal(mprotect(g.base + g.bytes, page, PROT_NONE), 0);
    return g;
}

static inline void guard_close(struct guard *g)
{
    munmap(g->base, g->bytes + (size_t)sysconf(_SC_PAGESIZE));
}

/* The last `bytes` bytes before the guard. */
static inline char *guard_end(const struct guard *g, size_t bytes)
{
    assert_true(bytes <= g->bytes);
    return g->base + g->bytes - bytes;
}

#endif
