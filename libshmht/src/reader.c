/* SPDX-License-Identifier: BSD-3-Clause */
/* An attached reader: its size and table, which grow; iteration; statistics. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sys/stat.h>

#include "internal.h"

/* Re-reads the object's size. Returns 0 if at least `need` bytes are readable. Two threads may race
 * to store it: either value is right, as the object only grows. */
int shmht__reader_refresh(const struct shmht_reader *r, uint64_t need)
{
    uint64_t now = atomic_load_explicit(&r->bytes, memory_order_acquire);
    struct stat st;

    if (now < need && r->fd >= 0 && need <= r->max_bytes && fstat(r->fd, &st) == 0 &&
        (uint64_t)st.st_size > now) {
        now = (uint64_t)st.st_size < r->max_bytes ? (uint64_t)st.st_size : r->max_bytes;
        shmht__reader_set_bytes((struct shmht_reader *)(uintptr_t)r, now);
    }
    return now < need ? SHMHT_ECORRUPT : 0;
}

/* Publishes the new readable size. */
void shmht__reader_set_bytes(struct shmht_reader *r, uint64_t bytes)
{
    atomic_store_explicit(&r->guard, r->base + (bytes > GUARD_BYTES ? bytes - GUARD_BYTES : 0),
                          memory_order_relaxed);
    atomic_store_explicit(&r->bytes, bytes, memory_order_relaxed);
}

/*
 * Keeps a checked table, so that the next Get need not check it again. If several threads see the
 * same change, one of them stores the table, and no thread stores a table that the writer has
 * already replaced. So each table of an honest writer takes one place in `tables`. Once a hostile
 * writer has used all places, every Get checks the table.
 */
static void keep_table(struct shmht_reader *r, const struct shmht__table *t)
{
    const struct shmht__table *known;

    if (atomic_exchange_explicit(&r->remembering, 1, memory_order_acquire) != 0)
        return;
    known = atomic_load_explicit(&r->table, memory_order_relaxed);
    if (!known ||
        (r->n_tables < MAX_TABLES && known->table != t->table &&
         atomic_load_explicit(&shmht__header_of(r)->table, memory_order_relaxed) == t->table)) {
        r->tables[r->n_tables] = *t;
        atomic_store_explicit(&r->table, &r->tables[r->n_tables++], memory_order_release);
    }
    atomic_store_explicit(&r->remembering, 0, memory_order_release);
}

/* Checks a new table of the writer's, and keeps it: this changes atomics of the handle, and memory
 * that one of them guards. */
int shmht__reader_table(const struct shmht_reader *r, uint64_t table, struct shmht__table *t)
{
    uint64_t first = (uint32_t)table, n_lines = table >> 32, end = (first + n_lines) * LINE_BYTES;

    if (n_lines == 0 || (end > atomic_load_explicit(&r->bytes, memory_order_relaxed) &&
                         shmht__reader_refresh(r, end) != 0))
        return SHMHT_ECORRUPT;
    t->table = table;
    t->lines = (const _Atomic uint64_t *)(const void *)(r->base + first * LINE_BYTES);
    t->n_lines = n_lines;
    keep_table((struct shmht_reader *)(uintptr_t)r, t);
    return 0;
}

/*
 * Moves *pos, which is below top, past one entry of the log. Returns 1: a record; 2: a skip;
 * SHMHT_ECORRUPT.
 */
static int log_step(const struct shmht_reader *r, uint64_t top, uint64_t *pos, uint32_t *word,
                    struct shmht__record *rec)
{
    const _Atomic uint32_t *p = (const _Atomic uint32_t *)(const void *)(r->base + *pos);
    uint64_t bytes;
    int kind = 1;

    *word = 0;
    if (UNLIKELY(top > r->max_bytes || top - *pos < 8))
        return SHMHT_ECORRUPT;
    if (LIKELY(shmht__record_at(r, *pos, word, rec) == 0)) {
        bytes = shmht__log_bytes(r, rec);
    } else if (*word & WORD_SKIP) { /* then its 8 bytes are readable */
        bytes = (uint64_t)atomic_load_explicit(p + 1, memory_order_relaxed) << r->granule_shift;
        kind = 2;
    } else {
        return SHMHT_ECORRUPT;
    }
    if (UNLIKELY(bytes == 0 || bytes > top - *pos))
        return SHMHT_ECORRUPT;
    *pos += bytes;
    return kind;
}

/*
 * Walks the log up to `top`, and skips records with WORD_DEAD. Their successors follow later: the
 * writer moved `top` past the successor before it set the bit with release; this function loads the
 * bit with acquire, and loads `top` again at the end.
 */
int shmht_reader_next(const struct shmht_reader *r, struct shmht_iter *it, struct shmht_bytes *key,
                      struct shmht_bytes *value)
{
    const _Atomic uint64_t *shared_top = &shmht__header_of(r)->top;
    uint64_t pos = it->pos ? it->pos : HEADER_BYTES,
             top = atomic_load_explicit(shared_top, memory_order_acquire);

    if (UNLIKELY(pos < HEADER_BYTES || pos & ((UINT64_C(1) << r->granule_shift) - 1)))
        return SHMHT_ECORRUPT;
    while (pos < top) {
        const unsigned char *p = r->base + pos;
        struct shmht__record rec;
        uint32_t word;
        int kind = log_step(r, top, &pos, &word, &rec);

        if (UNLIKELY(kind < 0))
            return kind;
        if (kind == 1 && !(word & WORD_DEAD)) {
            *key = (struct shmht_bytes){p + rec.head, rec.key};
            *value = (struct shmht_bytes){p + rec.head + rec.key, rec.value};
            it->pos = pos;
            return 1;
        }
        if (pos >= top)
            top = atomic_load_explicit(shared_top, memory_order_acquire);
    }
    it->pos = pos;
    return 0;
}

int shmht_reader_stats(const struct shmht_reader *r, struct shmht_stats *stats)
{
    const struct shmht__header *h = shmht__header_of(r);
    uint64_t table = atomic_load_explicit(&h->table, memory_order_acquire);
    uint64_t top = atomic_load_explicit(&h->top, memory_order_acquire), sum;
    struct shmht_stats s;

    memset(&s, 0, sizeof(s));
    /* so that free_bytes includes growth */
    (void)shmht__reader_refresh(r, r->max_bytes);
    s.entries = atomic_load_explicit(&h->entries, memory_order_relaxed);
    s.slots = (table >> 32) * LINE_SLOTS;
    s.generation = r->generation;
    s.superseded = atomic_load_explicit(&h->superseded, memory_order_acquire);
    s.total_bytes = atomic_load_explicit(&r->bytes, memory_order_relaxed);
    s.header_bytes = HEADER_BYTES;
    s.live_bytes = atomic_load_explicit(&h->live_bytes, memory_order_relaxed);
    s.garbage_bytes = atomic_load_explicit(&h->garbage_bytes, memory_order_relaxed);
    s.table_bytes = (table >> 32) * LINE_BYTES;
    sum = s.header_bytes + s.live_bytes + s.garbage_bytes + s.table_bytes;
    s.old_table_bytes = top > sum ? top - sum : 0;
    s.free_bytes = s.total_bytes > top ? s.total_bytes - top : 0;
    s.max_bytes = r->max_bytes;
    s.table_grows = atomic_load_explicit(&h->table_grows, memory_order_relaxed);
    s.huge_bytes = r->object ? r->object->huge_bytes : r->huge_bytes;
    s.huge_errno = r->object ? r->object->huge_errno : r->huge_errno;
    s.notes = r->object ? r->object->notes : r->notes;
    *stats = s;
    return 0;
}
