/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of pairs for stores that keep only pointers: one record for a pair, 48 bytes without gap,
 * cheaper for them than an allocation for each string; and the bytes that such a store has taken
 * from malloc().
 */
#ifndef FENCEPOST_SHMHT_RECORDS_H
#define FENCEPOST_SHMHT_RECORDS_H

#include <malloc.h>
#include <stdlib.h>

#include "data.h"

/* nearly 1 MB: from 32 blocks on the loss at the edges is negligible */
#define RECORDS_A_BLOCK 21000u

struct records_block {
    struct records_block *next;
    size_t n;
    struct pair pairs[RECORDS_A_BLOCK];
};

struct records {
    struct records_block *last;
    size_t malloc_bytes; /* in use before the store was made */
};

static inline size_t records_malloc_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

static inline void records_init(struct records *records)
{
    records->last = NULL;
    records->malloc_bytes = records_malloc_bytes();
}

static inline struct pair *records_add(struct records *records, const struct pair *pair)
{
    struct pair *copy;

    if (!records->last || records->last->n == RECORDS_A_BLOCK) {
        struct records_block *block = (struct records_block *)malloc(sizeof(*block));

        if (!block)
            return NULL;
        block->next = records->last;
        block->n = 0;
        records->last = block;
    }
    copy = &records->last->pairs[records->last->n++];
    *copy = *pair;
    return copy;
}

/* Taken from malloc() since records_init(), less what the last block has not used. Right only while
 * no other code allocates. */
static inline uint64_t records_bytes(const struct records *records)
{
    size_t spare = records->last ? (RECORDS_A_BLOCK - records->last->n) * sizeof(struct pair) : 0;

    return records_malloc_bytes() - records->malloc_bytes - spare;
}

static inline void records_fini(struct records *records)
{
    while (records->last) {
        struct records_block *block = records->last;

        records->last = block->next;
        free(block);
    }
}

#endif
