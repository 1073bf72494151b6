/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Get: find the key's line, compare 8 hashes at once, compare the keys of the slots that match.
 *
 * Why a Get is right beside a writer. The writer (writer.c) stores a record, then `top`, then the
 * slot that refers to the record, with release. It fills a new table before it stores
 * `header.table`, with release. It never undoes a store and never reuses memory. A Get loads
 * `table`, and each slot that it uses, with acquire: so it reads whole tables and whole records.
 * The slots of a line fill from the left, and the lines of a search fill in order: so a Get meets
 * every key that was put before it began before it meets an empty slot. An update stores another
 * offset into the same slot: the Get finds the old record or the new one, and both stay. A delete
 * stores an offset that is no record's; the slot is never empty again, and only a key with its hash
 * may take it, after a search that has not found that key elsewhere. A Get that
 * loaded `table` before the table grew misses only keys that were put while it ran.
 * tests/shmht/model.c checks this exhaustively, under a memory model that allows every reordering
 * that release and acquire do not forbid.
 */
#include "internal.h"
#include "line.h"

/* Behind a record's first byte: where a small record most likely has its second line. */
#define PREFETCH_BYTES 48

/* Searches the table from a line on. Handles every case. */
__attribute__((noinline)) static int search_table(const struct shmht_reader *r,
                                                  const struct shmht__table *t, uint32_t at,
                                                  uint32_t hash, const unsigned char *key,
                                                  size_t len, struct shmht_bytes *value)
{
    for (uint32_t probes = SHMHT_MAX_PROBE; probes > 0; probes--) {
        const _Atomic uint64_t *line = t->lines + (size_t)at * LINE_SLOTS;

        for (unsigned mask = line_match(line, hash); mask; mask = line_drop(mask)) {
            uint64_t slot = atomic_load_explicit(line_slot(line, mask), memory_order_acquire);
            uint64_t pos = (uint64_t)(uint32_t)slot << r->granule_shift;
            struct shmht__record rec;
            uint32_t word;

            if (slot == 0 || (uint32_t)slot == DELETED_OFFSET)
                continue;
            if (UNLIKELY(pos < HEADER_BYTES || shmht__record_at(r, pos, &word, &rec) != 0))
                return shmht__absent(value, SHMHT_ECORRUPT);
            if (LIKELY(rec.key == len && shmht__same(r->base + pos + rec.head, key, len))) {
                value->ptr = r->base + pos + rec.head + rec.key;
                value->len = rec.value;
                return 0;
            }
        }
        if (atomic_load_explicit(&line[LINE_SLOTS - 1], memory_order_relaxed) == 0)
            break;
        if (++at == t->n_lines)
            at = 0;
    }
    return shmht__absent(value, SHMHT_ENOENT);
}

/* Any key, any table. */
__attribute__((noinline)) static int get_any(const struct shmht_reader *r, const void *key,
                                             size_t len, struct shmht_bytes *value)
{
    struct shmht__table t;
    uint32_t hash;

    if (UNLIKELY(len - 1 >= SHMHT_MAX_KEY_BYTES))
        return shmht__absent(value, SHMHT_EKEYLEN);
    if (UNLIKELY(shmht__table_of(r, &t) != 0))
        return shmht__absent(value, SHMHT_ECORRUPT);
    hash = shmht__key_hash(r, key, len);
    return search_table(r, &t, shmht__home(hash, t.n_lines), hash, key, len, value);
}

/*
 * Handles the usual case itself: a key of 9 to 16 bytes in a table with XXH3 and granules of 4
 * bytes. It is few instructions, in registers alone, because that decides how many Gets the
 * processor has in flight at once, and so how far their cache misses overlap.
 */
int shmht_get(const struct shmht_reader *r, const void *key, size_t len, struct shmht_bytes *value)
{
    const struct shmht__table *t = atomic_load_explicit(&r->table, memory_order_acquire);
    uint64_t table = atomic_load_explicit(&shmht__header_of(r)->table, memory_order_acquire);
    const _Atomic uint64_t *line;
    uint32_t hash;
    unsigned mask;

    if (UNLIKELY(len - 9 >= r->n_usual || table != t->table))
        return get_any(r, key, len, value);
    hash = (uint32_t)(shmht__xxh3_16(key, len, r->flip_lo, r->flip_hi) >> 32);
    line = t->lines + (hash * t->n_lines >> 32) * LINE_SLOTS;
    mask = line_match(line, hash);
    if (mask) {
        uint64_t slot = atomic_load_explicit(line_slot(line, mask), memory_order_acquire);

        if (LIKELY(shmht__hit(r, r->base + (uint64_t)(uint32_t)slot * 4, key, len, value)))
            return 0;
    } else if (LIKELY(atomic_load_explicit(&line[LINE_SLOTS - 1], memory_order_relaxed) == 0)) {
        return shmht__absent(value, SHMHT_ENOENT);
    }
    return get_any(r, key, len, value);
}

/* Prefetches the record that a slot refers to. Returns its place. */
static inline uint64_t prefetch_record(const struct shmht_reader *r, const _Atomic uint64_t *slot)
{
    uint64_t place = (uint64_t)(uint32_t)atomic_load_explicit(slot, memory_order_acquire)
                     << r->granule_shift;

    __builtin_prefetch(r->base + place);
    __builtin_prefetch(r->base + place + PREFETCH_BYTES);
    return place;
}

/*
 * Makes passes over the keys, each prefetching what the next one reads:
 *   1. hash the keys, prefetch their lines
 *   2. match the slots, prefetch the records, or the next line where a line was full
 *   3. match in those next lines, prefetch the records
 *   4. compare keys, and search in full for every key not settled yet
 * n is at most SHMHT_BATCH. Returns the number found, or the worst error.
 */
static ssize_t get_batch(const struct shmht_reader *r, const struct shmht_bytes *keys, size_t n,
                         struct shmht_bytes *values)
{
    uint32_t hashes[SHMHT_BATCH], lines[SHMHT_BATCH];
    uint64_t places[SHMHT_BATCH];
    unsigned char further[SHMHT_BATCH]; /* keys that can only be in the next line */
    unsigned n_further = 0;
    struct shmht__table t;
    ssize_t found = 0, error = 0;

    if (UNLIKELY(shmht__table_of(r, &t) != 0)) {
        memset(values, 0, n * sizeof(*values));
        return SHMHT_ECORRUPT;
    }
    for (size_t i = 0; i < n; i++) {
        /* UINT32_MAX is no line: a table with so many would not fit the largest region. */
        if (UNLIKELY(keys[i].len - 1 >= SHMHT_MAX_KEY_BYTES)) {
            lines[i] = UINT32_MAX;
            continue;
        }
        hashes[i] = shmht__key_hash(r, keys[i].ptr, keys[i].len);
        lines[i] = shmht__home(hashes[i], t.n_lines);
        __builtin_prefetch(PLAIN(t.lines + (size_t)lines[i] * LINE_SLOTS));
    }
    for (size_t i = 0; i < n; i++) {
        const _Atomic uint64_t *line = t.lines + (size_t)lines[i] * LINE_SLOTS;
        unsigned mask;

        places[i] = 0; /* no record has this place */
        if (UNLIKELY(lines[i] == UINT32_MAX))
            continue;
        mask = line_match(line, hashes[i]);
        if (LIKELY(mask)) {
            places[i] = prefetch_record(r, line_slot(line, mask));
        } else if (atomic_load_explicit(&line[LINE_SLOTS - 1], memory_order_relaxed) != 0) {
            lines[i] = lines[i] + 1 < t.n_lines ? lines[i] + 1 : 0;
            __builtin_prefetch(PLAIN(t.lines + (size_t)lines[i] * LINE_SLOTS));
            further[n_further++] = (unsigned char)i;
        }
    }
    for (unsigned k = 0; k < n_further; k++) {
        unsigned i = further[k];
        const _Atomic uint64_t *line = t.lines + (size_t)lines[i] * LINE_SLOTS;
        unsigned mask = line_match(line, hashes[i]);

        if (LIKELY(mask)) {
            places[i] = prefetch_record(r, line_slot(line, mask));
        }
    }
    for (size_t i = 0; i < n; i++) {
        int rc = 0;

        if (UNLIKELY(places[i] == 0 || keys[i].len - 8 > HIT_KEY_BYTES - 8 ||
                     !shmht__hit(r, r->base + places[i], keys[i].ptr, keys[i].len, &values[i])))
            rc = lines[i] == UINT32_MAX ? SHMHT_EKEYLEN
                                        : search_table(r, &t, lines[i], hashes[i], keys[i].ptr,
                                                       keys[i].len, &values[i]);
        if (LIKELY(rc == 0)) {
            found++;
            continue;
        }
        shmht__absent(&values[i], rc);
        if (rc != SHMHT_ENOENT && error != SHMHT_ECORRUPT)
            error = rc;
    }
    return error ? error : found;
}

ssize_t shmht_get_many(const struct shmht_reader *r, const struct shmht_bytes *keys, size_t n,
                       struct shmht_bytes *values)
{
    ssize_t found = 0, error = 0;

    for (size_t i = 0; i < n; i += SHMHT_BATCH) {
        ssize_t rc = get_batch(r, keys + i, n - i < SHMHT_BATCH ? n - i : SHMHT_BATCH, values + i);

        if (LIKELY(rc >= 0))
            found += rc;
        else if (error != SHMHT_ECORRUPT)
            error = rc;
    }
    return error ? error : found;
}
