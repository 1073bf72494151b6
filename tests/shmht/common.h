/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of libshmht. */
#ifndef TESTS_SHMHT_COMMON_H
#define TESTS_SHMHT_COMMON_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmht.h>

#include "../check.h"

static inline uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static inline uint64_t next_random(uint64_t *state)
{
    return mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

/* Open descriptors, to find one that a call has left open. */
static inline int n_fds(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* A key of 16 bytes from a number, as in the paper. */
static inline void key16(char *key, uint64_t i)
{
    char text[24];

    snprintf(text, sizeof(text), "mpi-adr-%08llu", (unsigned long long)(i % 100000000));
    memcpy(key, text, 16);
}

/* 32 bytes that name their key and version, so that a torn value is detected. */
static inline void fill32(unsigned char *value, uint64_t i, uint64_t version)
{
    uint64_t words[4] = {i, version, mix(i ^ version << 32), ~mix(i + version)};

    memcpy(value, words, 32);
}

/* The version in such a value, or -1 if it is not one of this key. */
static inline int64_t version32(const struct shmht_bytes *value, uint64_t i)
{
    uint64_t words[4];

    if (value->len != 32)
        return -1;
    memcpy(words, value->ptr, 32);
    if (words[0] != i || words[2] != mix(i ^ words[1] << 32) || words[3] != ~mix(i + words[1]))
        return -1;
    return (int64_t)words[1];
}

/* A block as LAYOUT.md describes it, built without the library: also one that no table exports. */
struct block {
    unsigned char *buf;
    size_t cap;
    size_t used;
    uint32_t n_pairs;
};

static inline void block_begin(struct block *b, void *buf, size_t cap)
{
    *b = (struct block){buf, cap, SHMHT_BLOCK_HEADER_BYTES, 0};
    if (cap < b->used)
        abort();
}

static inline void block_add(struct block *b, const void *key, size_t key_len, const void *value,
                             size_t value_len)
{
    int is_long = key_len > 2047 || value_len > 262143;
    uint32_t words[2] = {is_long ? UINT32_C(1) << 31 | (uint32_t)key_len
                                 : (uint32_t)(key_len << 18 | value_len),
                         (uint32_t)value_len};
    size_t head = is_long ? 8 : 4, bytes = (head + key_len + value_len + 3) / 4 * 4;

    if (bytes > b->cap - b->used)
        abort();
    memset(b->buf + b->used, 0, bytes);
    memcpy(b->buf + b->used, words, head);
    memcpy(b->buf + b->used + head, key, key_len);
    if (value_len > 0)
        memcpy(b->buf + b->used + head + key_len, value, value_len);
    b->used += bytes;
    b->n_pairs++;
}

/* Writes the header. Returns the bytes of the block. */
static inline size_t block_end(struct block *b)
{
    uint32_t words[8] = {0, 0, 0x01020304, 0, b->n_pairs};
    uint16_t layout = SHMHT_LAYOUT_VERSION;
    uint64_t bytes = b->used;

    memcpy(words, "SHMHTBLK", 8);
    memcpy(words + 3, &layout, sizeof(layout));
    memcpy(words + 6, &bytes, sizeof(bytes));
    memcpy(b->buf, words, sizeof(words));
    return b->used;
}

#endif
