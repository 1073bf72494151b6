/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of libshmht. */
#ifndef TESTS_SHMHT_COMMON_H
#define TESTS_SHMHT_COMMON_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmht.h>

/* For programs without cmocka: prints the fault, and ends this process with 1. */
#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

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

#endif
