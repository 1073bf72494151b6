/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Merging a block: check all of it, make room for all of it, then put its pairs in batches. This is
 * faster than single puts because the table lines of a batch are fetched from memory together.
 */
#include "internal.h"
#include "line.h"

/* Hashes n keys (at most SHMHT_BATCH), prefetches their table lines, then the records that those
 * lines may refer to. */
static void prefetch_pairs(const struct shmht_writer *w, const struct shmht__pair *pairs, size_t n,
                           uint32_t *hashes)
{
    for (size_t i = 0; i < n; i++) {
        hashes[i] = shmht__key_hash(&w->view, pairs[i].key.ptr, pairs[i].key.len);
        __builtin_prefetch(
            PLAIN(w->lines + (size_t)shmht__home(hashes[i], w->n_lines) * LINE_SLOTS), 1);
    }
    for (size_t i = 0; i < n; i++) {
        const _Atomic uint64_t *line =
            w->lines + (size_t)shmht__home(hashes[i], w->n_lines) * LINE_SLOTS;
        unsigned mask = line_match(line, hashes[i]);

        if (mask) {
            uint64_t slot = atomic_load_explicit(line_slot(line, mask), memory_order_relaxed);

            __builtin_prefetch(w->object.base + ((uint64_t)(uint32_t)slot << w->view.granule_shift),
                               1);
        }
    }
}

/* Puts n pairs, at most SHMHT_BATCH. */
int shmht__put_batch(struct shmht_writer *w, const struct shmht__pair *pairs, size_t n,
                     uint32_t duplicates, struct shmht_merged *merged)
{
    uint32_t hashes[SHMHT_BATCH];

    prefetch_pairs(w, pairs, n, hashes);
    for (size_t i = 0; i < n; i++) {
        int rc = shmht__put_hashed(w, hashes[i], pairs[i].key.ptr, pairs[i].key.len,
                                   pairs[i].value.ptr, pairs[i].value.len, duplicates);

        if (rc == SHMHT_PUT_NEW)
            merged->n_new++;
        else if (rc == SHMHT_PUT_REPLACED)
            merged->n_replaced++;
        else if (rc == SHMHT_PUT_KEPT || rc == SHMHT_EEXIST)
            merged->n_kept++;
        else
            return rc;
    }
    return 0;
}

/* Reads up to SHMHT_BATCH pairs of a checked block. */
static size_t take_pairs(const unsigned char *block, size_t bytes, uint64_t *pos,
                         struct shmht__pair *pairs)
{
    size_t n = 0;

    while (n < SHMHT_BATCH && shmht__block_pair(block, bytes, pos, &pairs[n]) == 1)
        n++;
    return n;
}

static uint64_t pair_log_bytes(const struct shmht_writer *w, const struct shmht__pair *pair)
{
    struct shmht__record rec = record_plan(pair->key.len, pair->value.len);

    return shmht__log_bytes(&w->view, &rec);
}

/* Checks a whole block. Counts its pairs and the bytes that they would take in the log. */
static int count_pairs(const struct shmht_writer *w, const unsigned char *block, size_t bytes,
                       uint64_t *n, uint64_t *need)
{
    uint64_t pos = SHMHT_BLOCK_HEADER_BYTES;
    struct shmht__pair pair;
    uint32_t n_pairs;
    int rc = shmht__block_check(block, bytes, &n_pairs);

    *n = *need = 0;
    if (rc < 0)
        return rc;
    while ((rc = shmht__block_pair(block, bytes, &pos, &pair)) == 1) {
        ++*n;
        *need += pair_log_bytes(w, &pair);
    }
    return rc < 0 ? rc : *n != n_pairs ? SHMHT_ECORRUPT : 0;
}

/* Counts only pairs whose keys are new. Returns 1 if the table has every pair, with its value. */
static int count_new_pairs(const struct shmht_writer *w, const unsigned char *block, size_t bytes,
                           uint64_t *n, uint64_t *need)
{
    uint64_t pos = SHMHT_BLOCK_HEADER_BYTES;
    struct shmht__pair pairs[SHMHT_BATCH];
    struct shmht_bytes value;
    uint32_t hashes[SHMHT_BATCH];
    int all = 1;
    size_t m;

    *n = *need = 0;
    while ((m = take_pairs(block, bytes, &pos, pairs)) > 0) {
        prefetch_pairs(w, pairs, m, hashes);
        for (size_t i = 0; i < m; i++) {
            if (shmht_writer_get(w, pairs[i].key.ptr, pairs[i].key.len, &value) != 0) {
                ++*n;
                *need += pair_log_bytes(w, &pairs[i]);
                all = 0;
            } else if (value.len != pairs[i].value.len ||
                       (value.len && memcmp(value.ptr, pairs[i].value.ptr, value.len) != 0)) {
                all = 0;
            }
        }
    }
    return all;
}

int shmht_writer_merge(struct shmht_writer *w, const void *block, size_t bytes,
                       struct shmht_merged *merged)
{
    struct shmht_merged done = {0, 0, 0};
    struct shmht__pair pairs[SHMHT_BATCH];
    uint64_t pos = SHMHT_BLOCK_HEADER_BYTES, n, need, n_new, need_new;
    size_t m;
    int rc = shmht__may_write(&w->object);

    if (rc == 0)
        rc = count_pairs(w, block, bytes, &n, &need);
    if (rc < 0)
        return rc;
    if (!shmht__writer_has_room(w, n, need)) {
        /* Before the object grows, or is full, count the pairs that are new. */
        if (count_new_pairs(w, block, bytes, &n_new, &need_new) ||
            w->duplicates != SHMHT_DUP_REPLACE)
            need = need_new;
        n = n_new;
    }
    rc = shmht__writer_room(w, n, need);
    while (rc == 0 && (m = take_pairs(block, bytes, &pos, pairs)) > 0)
        if (shmht__put_batch(w, pairs, m, w->duplicates, &done) != 0)
            rc = SHMHT_EPROBE; /* there is room for all: no slot was near enough */
    if (merged && rc == 0)
        *merged = done;
    return rc;
}
