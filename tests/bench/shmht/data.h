/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pairs that fill every store, and the keys for look-ups. As in the paper
 * (SHMEMPMI, section VII-D) a key takes 16 bytes and a value 32, each with its NUL. Keys end in a
 * number: even ones are present, odd ones absent, so that the absent lie between the present in any
 * order. Pairs are inserted in a shuffled order, and looked up at random.
 */
#ifndef FENCEPOST_SHMHT_DATA_H
#define FENCEPOST_SHMHT_DATA_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KEY_BYTES   16u
#define VALUE_BYTES 32u
#define KEY_CHARS   (KEY_BYTES - 1)
#define VALUE_CHARS (VALUE_BYTES - 1)
#define MAX_ENTRIES 5000000u /* seven digits hold twice that */
/* pairs made at a time, outside the clock: they stay in the second-level cache */
#define CHUNK 2048u

struct key {
    char s[KEY_BYTES];
};

struct value {
    char s[VALUE_BYTES];
};

struct pair {
    struct key key;
    struct value value;
};

/* Keys to look up, and the expected results. */
struct queries {
    size_t n;
    struct key *keys;  /* n of them */
    size_t key_len;    /* KEY_CHARS, which the compiler must not know: keys have any length */
    uint32_t *entries; /* n of them: which entry, in 0 ... of the store */
    uint64_t mix;      /* sum of the first 8 bytes of the values; 0 when the keys are absent */
};

/* A reader's results, equal for all readers. */
struct sum {
    uint64_t found, mix;
};

static inline void data_key(uint32_t entry, int absent, struct key *key)
{
    uint32_t number = 2 * entry + (absent ? 1 : 0);

    memcpy(key->s, "mpi-adr-0000000", KEY_BYTES);
    for (char *digit = key->s + KEY_CHARS; number; number /= 10)
        *--digit = (char)('0' + number % 10);
}

static inline uint64_t data_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* 31 hexadecimal digits, as long as an address: no two entries have the same first 8 but by chance.
 * */
static inline void data_value(uint32_t entry, struct value *value)
{
    uint64_t a = data_mix(entry + UINT64_C(0x9e3779b97f4a7c15)), b = data_mix(a);

    for (unsigned i = 0; i < 16; i++)
        value->s[i] = "0123456789abcdef"[a >> 4 * i & 15];
    for (unsigned i = 0; i < 15; i++)
        value->s[16 + i] = "0123456789abcdef"[b >> 4 * i & 15];
    value->s[VALUE_CHARS] = '\0';
}

static inline uint64_t data_head(const void *value)
{
    uint64_t head;

    memcpy(&head, value, sizeof(head));
    return head;
}

#endif
