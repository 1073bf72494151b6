/* SPDX-License-Identifier: BSD-3-Clause */
/* The contents of shared memory, layout version 1; LAYOUT.md describes them. */
#ifndef SHMHT_SRC_LAYOUT_H
#define SHMHT_SRC_LAYOUT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <shmht.h>

#define HEADER_BYTES    4096u
#define LINE_BYTES      64u
#define LINE_SLOTS      8u
#define BYTE_ORDER_MARK 0x01020304u

static const unsigned char shmht__magic[8] = {'S', 'H', 'M', 'H', 'T', 'R', 'G', 'N'};

/* The members of the first line never change after the region is published; readers copy those that
 * they need once. */
struct shmht__header {
    unsigned char magic[8];
    uint32_t byte_order;
    uint16_t layout;
    uint8_t word_bits; /* 64 */
    uint8_t kind;
    uint64_t id;
    uint64_t generation;
    uint64_t max_bytes;
    union {
        struct { /* a table */
            uint64_t seed;
            uint64_t hash_check; /* hash of a fixed text: shmht__hash_check() */
        };
        struct { /* an array */
            uint64_t n_ranks;
            uint64_t stride_bytes;
        };
    };
    uint32_t hash_id;
    uint8_t granule_shift;
    uint8_t max_load_percent;
    uint8_t duplicates;
    uint8_t reserved;
    /* Every Get reads this line; it changes when the table grows. */
    /* first line of the table from the region's start, and its number of lines << 32 */
    _Atomic uint64_t table;
    _Atomic uint64_t superseded; /* of the table that this one was compacted into */
    uint8_t unused[48];
    /* The writer changes this line with each put. */
    _Atomic uint64_t top; /* end of the log */
    union {
        _Atomic uint64_t entries; /* a table */
        _Atomic uint64_t n_set;   /* an array: ranks that have a value */
    };
    _Atomic uint64_t live_bytes;    /* of records that the table refers to */
    _Atomic uint64_t garbage_bytes; /* of other records */
    _Atomic uint64_t table_grows;
    _Atomic uint32_t wakes; /* calls of shmht_writer_wake(): the futex of waiting readers */
    uint8_t unused2[20];
};

_Static_assert(sizeof(struct shmht__header) == 192, "layout");
_Static_assert(offsetof(struct shmht__header, seed) == 40, "layout");
_Static_assert(offsetof(struct shmht__header, hash_check) == 48, "layout");
_Static_assert(offsetof(struct shmht__header, n_ranks) == 40, "layout");
_Static_assert(offsetof(struct shmht__header, stride_bytes) == 48, "layout");
_Static_assert(offsetof(struct shmht__header, hash_id) == 56, "layout");
_Static_assert(offsetof(struct shmht__header, table) == 64, "layout");
_Static_assert(offsetof(struct shmht__header, top) == 128, "layout");
_Static_assert(offsetof(struct shmht__header, entries) == 136, "layout");
_Static_assert(offsetof(struct shmht__header, n_set) == 136, "layout");
_Static_assert(offsetof(struct shmht__header, wakes) == 168, "layout");
_Static_assert(sizeof(_Atomic uint64_t) == 8 && ATOMIC_LLONG_LOCK_FREE == 2,
               "atomics in shared memory must not use locks");

#define TABLE(first_line, n_lines) ((uint64_t)(n_lines) << 32 | (uint32_t)(first_line))
#define SLOT(hash, offset)         ((uint64_t)(hash) << 32 | (uint32_t)(offset))
/* Offset in a deleted key's slot. Whatever the granule, it is in the header's unused bytes, which
 * are 0: no record, so no key. */
#define DELETED_OFFSET 62u
_Static_assert(DELETED_OFFSET << 2 >= sizeof(struct shmht__header) &&
                   (DELETED_OFFSET + 1) << 6 < HEADER_BYTES,
               "layout");

/* The first word of a record or skip. */
#define WORD_LONG        0x80000000u
#define WORD_DEAD        0x40000000u
#define WORD_SKIP        0x20000000u
#define SHORT_VALUE_BITS 18
#define SHORT_VALUE_MAX  ((1u << SHORT_VALUE_BITS) - 1)
#define SHORT_KEY_MAX    2047u

/* The parts of a record. */
struct shmht__record {
    uint32_t head;  /* bytes of its words: 4 or 8 */
    uint32_t key;   /* bytes */
    uint32_t value; /* bytes */
};

static inline uint64_t record_bytes(const struct shmht__record *rec)
{
    return (uint64_t)rec->head + rec->key + rec->value;
}

static inline struct shmht__record record_plan(size_t key, size_t value)
{
    struct shmht__record rec = {key <= SHORT_KEY_MAX && value <= SHORT_VALUE_MAX ? 4 : 8,
                                (uint32_t)key, (uint32_t)value};

    return rec;
}

/* Parses a record's first words; 8 bytes are readable. Returns 0 if they are no record. */
static inline int record_parse(uint32_t word, uint32_t second, struct shmht__record *rec)
{
    if (word & WORD_SKIP)
        return 0;
    if (word & WORD_LONG) {
        rec->head = 8;
        rec->key = word & 0x1fffffffu;
        rec->value = second;
    } else {
        rec->head = 4;
        rec->key = word >> SHORT_VALUE_BITS & SHORT_KEY_MAX;
        rec->value = word & SHORT_VALUE_MAX;
    }
    return rec->key - 1 < SHMHT_MAX_KEY_BYTES && rec->value <= SHMHT_MAX_VALUE_BYTES;
}

static inline uint32_t record_word(const struct shmht__record *rec)
{
    return rec->head == 8 ? WORD_LONG | rec->key : rec->key << SHORT_VALUE_BITS | rec->value;
}

/* Copies len bytes, n to 2 n: the first n and the last n, which may overlap. */
static inline void copy_ends(unsigned char *to, const unsigned char *from, size_t len, size_t n)
{
    unsigned char first[16], last[16];

    memcpy(first, from, n);
    memcpy(last, from + len - n, n);
    memcpy(to, first, n);
    memcpy(to + len - n, last, n);
}

/* memcpy() without the call for 8 to 32 bytes, as most keys and many values have. */
static inline void copy_short(unsigned char *to, const void *from, size_t len)
{
    if (len - 8 > 32 - 8) {
        if (len > 0)
            memcpy(to, from, len);
    } else if (len <= 16) {
        copy_ends(to, from, len, 8);
    } else {
        copy_ends(to, from, len, 16);
    }
}

/* Writes a record at p. Key and value point to rec->key and rec->value bytes. */
static inline void record_store(unsigned char *p, const struct shmht__record *rec, const void *key,
                                const void *value)
{
    uint32_t word = record_word(rec);

    memcpy(p, &word, 4);
    if (rec->head == 8)
        memcpy(p + 4, &rec->value, 4);
    copy_short(p + rec->head, key, rec->key);
    copy_short(p + rec->head + rec->key, value, rec->value);
}

static inline uint64_t align_up(uint64_t x, uint64_t to)
{
    return (x + to - 1) & ~(to - 1);
}

/* Where an array's bits begin. */
static inline uint64_t array_bits_place(uint64_t n_ranks, uint64_t stride)
{
    return HEADER_BYTES + align_up(n_ranks * stride, 64);
}

static inline uint64_t array_bytes(uint64_t n_ranks, uint64_t stride)
{
    return array_bits_place(n_ranks, stride) + align_up(n_ranks, 512) / 8;
}

#endif
