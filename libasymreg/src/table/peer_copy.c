/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer's side of a published table: an index over a copy of the table's slots, at the same
 * positions. The code checks all bytes from the owner before use. A slot's generation only grows,
 * so it skips content that is older than the copy.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_LEAVES  64u
#define BATCH_RECORDS 1024u
#define LEAF_BYTES    (ASYMREG__LEAF_SLOTS * sizeof(struct asymreg__slot))
#define READ_TRIES    256
#define LEAF_UNKNOWN  UINT64_MAX

struct asymreg__cache {
    struct asymreg__cache_opts opts;
    struct asymreg__header h; /* its fixed part: checked */
    struct asymreg__index *index;
    uint64_t position; /* log records before this are in the index */
    _Atomic uint64_t
        synced;         /* position, for other threads; UINT64_MAX while the copy is incomplete */
    int first;          /* nothing has been read yet */
    uint64_t *leaf_gen; /* of each leaf, when it was copied */
    uint64_t *gen_now;  /* scratch: the generations now, and after copying */
    uint64_t *gen_then;
    void *scratch; /* BATCH_LEAVES leaves or BATCH_RECORDS records */
    struct asymreg__cache_stats stats;
};

_Static_assert(BATCH_RECORDS * sizeof(struct asymreg__record) <= BATCH_LEAVES * LEAF_BYTES,
               "one scratch buffer for both");

/* One thread at a time counts; any thread may read the counters. */
static void figure_add(_Atomic uint64_t *figure, uint64_t n)
{
    atomic_store_explicit(figure, *figure + n, memory_order_relaxed);
}

/* Offset and bytes are multiples of 8. */
static int read_block(struct asymreg__cache *c, uint64_t offset, void *dst, size_t bytes)
{
    figure_add(&c->stats.read_bytes, bytes);
    if (!c->opts.mapped)
        return c->opts.read(c->opts.ctx, offset, dst, bytes);
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = atomic_load_explicit(
            (const _Atomic uint64_t *)(const void *)((const char *)c->opts.mapped + offset + i),
            memory_order_acquire);
        memcpy((char *)dst + i, &word, 8);
    }
    return 0;
}

static int read_log(struct asymreg__cache *c, struct asymreg__log_state *log)
{
    int rc;

    for (int i = 0; i < READ_TRIES; i++, figure_add(&c->stats.n_retries, 1)) {
        rc = read_block(c, offsetof(struct asymreg__header, log), log, sizeof(*log));
        if (rc < 0)
            return rc;
        if (log->state != TABLE_OPEN)
            return log->state == TABLE_CLOSED ? ASYMREG_EPEER : ASYMREG_ETABLE;
        if (log->n_slots > c->h.max_regions || log->log_tail < c->position)
            return ASYMREG_ETABLE;
        if (log->log_head > log->log_tail) /* read in another order than written */
            continue;
        if (log->log_tail - log->log_head > c->h.ring) /* the head has moved since */
            log->log_head = log->log_tail - c->h.ring;
        return 0;
    }
    return ASYMREG_EBUSY;
}

int asymreg__cache_create(const struct asymreg__cache_opts *opts, struct asymreg__cache **cache)
{
    struct asymreg__table_opts sizes = {0};
    struct asymreg__index_opts index_opts = {.allocator = opts->allocator};
    struct asymreg__header want;
    struct asymreg__cache *c;
    int rc;

    if ((!opts->read && !opts->mapped) || (uintptr_t)opts->mapped % 8)
        return -EINVAL;
    if (opts->bytes < sizeof(want))
        return ASYMREG_ETABLE;
    c = asymreg__alloc(opts->allocator, sizeof(*c));
    if (!c)
        return -ENOMEM;
    c->opts = *opts;
    c->first = 1;
    c->synced = UINT64_MAX;
    rc = read_block(c, 0, &c->h, sizeof(c->h));
    if (rc < 0)
        goto fail;
    rc = c->h.magic == __builtin_bswap64(TABLE_MAGIC) ? ASYMREG_EVERSION : ASYMREG_ETABLE;
    if (c->h.magic != TABLE_MAGIC)
        goto fail;
    rc = ASYMREG_EVERSION;
    if (c->h.version != TABLE_VERSION || c->h.byte_order != TABLE_ORDER)
        goto fail;
    sizes.max_regions = c->h.max_regions;
    sizes.max_segments = c->h.max_segments;
    sizes.ring = c->h.ring;
    sizes.max_handle_bytes = c->h.max_handle_bytes;
    rc = ASYMREG_ETABLE;
    if (!sizes.max_regions || !sizes.max_segments || !sizes.ring ||
        asymreg__layout(&sizes, &want) < 0 || want.max_regions != c->h.max_regions ||
        want.total_bytes != c->h.total_bytes || c->h.total_bytes > opts->bytes)
        goto fail;
    rc = ASYMREG_ESTALE;
    if (opts->incarnation && c->h.incarnation != opts->incarnation)
        goto fail;
    want.incarnation = c->h.incarnation;
    want.log = c->h.log;
    c->h = want;
    rc = read_log(c, &want.log);
    if (rc < 0)
        goto fail;
    uint32_t n_leaves = asymreg__n_leaves(c->h.max_regions);
    index_opts.max_regions = c->h.max_regions;
    c->leaf_gen = asymreg__reserve(n_leaves * sizeof(uint64_t));
    c->gen_now = asymreg__reserve(n_leaves * sizeof(uint64_t));
    c->gen_then = asymreg__alloc(opts->allocator, BATCH_LEAVES * sizeof(uint64_t));
    c->scratch = asymreg__reserve(BATCH_LEAVES * LEAF_BYTES);
    rc = -ENOMEM;
    if (c->leaf_gen && c->gen_now && c->gen_then && c->scratch)
        rc = asymreg__index_create(&index_opts, &c->index);
    if (rc < 0)
        goto fail;
    *cache = c;
    return 0;
fail:
    asymreg__cache_destroy(c);
    return rc;
}

void asymreg__cache_destroy(struct asymreg__cache *cache)
{
    if (!cache)
        return;
    asymreg__index_destroy(cache->index);
    asymreg__unreserve(cache->leaf_gen, asymreg__n_leaves(cache->h.max_regions) * sizeof(uint64_t));
    asymreg__unreserve(cache->gen_now, asymreg__n_leaves(cache->h.max_regions) * sizeof(uint64_t));
    asymreg__free(cache->opts.allocator, cache->gen_then);
    asymreg__unreserve(cache->scratch, BATCH_LEAVES * LEAF_BYTES);
    asymreg__free(cache->opts.allocator, cache);
}

struct asymreg__index *asymreg__cache_index(struct asymreg__cache *cache)
{
    return cache->index;
}

uint32_t asymreg__cache_max_segments(const struct asymreg__cache *cache)
{
    return cache->h.max_segments;
}

static int check_content(const struct asymreg__cache *c, const struct asymreg__slot *s)
{
    if (!(s->generation & 1))
        return 0;
    return s->last < s->start || s->start == UINT64_MAX || !s->prot || (s->prot & ~ASYMREG_ALL) ||
                   (uint32_t)s->value >= c->h.max_segments || !(s->value >> 32 & 1)
               ? ASYMREG_ETABLE
               : 0;
}

/* Updates the copy of a slot to the content read. Returns 1 if that is a change, 0 if not, or an
 * error. */
static int slot_apply(struct asymreg__cache *c, uint32_t slot, const struct asymreg__slot *now)
{
    const struct asymreg__slot *known = &c->index->slots[slot];
    uint32_t conflict;
    int rc;

    if (now->generation <= known->generation)
        return 0;
    rc = check_content(c, now);
    if (rc < 0)
        return rc;
    if (!(now->generation & 1)) {
        rc = asymreg__index_drop(c->index, slot, now->generation);
        return rc < 0 ? rc : 1;
    }
    if (known->generation & 1)
        rc = asymreg__index_drop(c->index, slot, now->generation - 1);
    if (rc < 0)
        return rc;
    /*
     * Slots read at different times may seem to overlap. Then both changed after the log position
     * at which reading began, and the records from there on will correct the copy. So forget the
     * other slot and read its leaf again; do not mark it dead.
     */
    while ((rc = asymreg__index_put(c->index, slot, now, &conflict)) == ASYMREG_EOVERLAP) {
        c->leaf_gen[conflict / ASYMREG__LEAF_SLOTS] = LEAF_UNKNOWN;
        rc = asymreg__index_drop(c->index, conflict, c->index->slots[conflict].generation - 1);
        if (rc < 0)
            return rc;
    }
    return rc < 0 ? rc : 1;
}

/* Applies the records from c->position to log->log_tail. Returns the number of changes, or
 * ASYMREG_EBUSY if they have been overwritten. */
static int refresh_by_delta(struct asymreg__cache *c, const struct asymreg__log_state *log)
{
    struct asymreg__record *records = c->scratch;
    struct asymreg__log_state after;
    int changes = 0, rc;

    while (c->position < log->log_tail) {
        uint64_t n = log->log_tail - c->position, at = c->position & (c->h.ring - 1);
        if (n > BATCH_RECORDS)
            n = BATCH_RECORDS;
        if (n > c->h.ring - at)
            n = c->h.ring - at;
        rc = read_block(c, c->h.ring_at + at * sizeof(*records), records, n * sizeof(*records));
        if (rc == 0)
            rc = read_log(c, &after);
        if (rc < 0)
            return rc;
        if (after.log_head > c->position)
            return ASYMREG_EBUSY;
        figure_add(&c->stats.n_records, n);
        for (uint64_t i = 0; i < n; i++, c->position++) {
            if (records[i].sequence != c->position + 1 || records[i].slot >= c->h.max_regions)
                return ASYMREG_ETABLE;
            rc = slot_apply(c, records[i].slot, &records[i].content);
            if (rc < 0)
                return rc;
            changes += rc;
        }
    }
    return changes;
}

static int read_generations(struct asymreg__cache *c, uint32_t leaf, uint32_t n, uint64_t *gens)
{
    return read_block(c, c->h.leaves_at + leaf * sizeof(uint64_t), gens, n * sizeof(uint64_t));
}

/* Copies one leaf into `to`, and repeats if the leaf has changed during the copy. */
static int read_leaf(struct asymreg__cache *c, uint32_t leaf, struct asymreg__slot *to,
                     uint64_t *gen)
{
    uint64_t before, after;
    int rc;

    for (int i = 0; i < READ_TRIES; i++, figure_add(&c->stats.n_retries, 1)) {
        rc = read_generations(c, leaf, 1, &before);
        if (rc == 0)
            rc = read_block(c, c->h.slots_at + leaf * LEAF_BYTES, to, LEAF_BYTES);
        if (rc == 0)
            rc = read_generations(c, leaf, 1, &after);
        if (rc < 0)
            return rc;
        figure_add(&c->stats.n_leaves, 1);
        if (before == after && !(before & 1)) {
            *gen = before;
            return 0;
        }
    }
    return ASYMREG_EBUSY;
}

/* Copies n leaves, whose generations were c->gen_now, into the scratch buffer. */
static int read_leaves(struct asymreg__cache *c, uint32_t leaf, uint32_t n)
{
    int rc;

    rc = read_block(c, c->h.slots_at + leaf * LEAF_BYTES, c->scratch, n * LEAF_BYTES);
    if (rc == 0)
        rc = read_generations(c, leaf, n, c->gen_then);
    if (rc < 0)
        return rc;
    figure_add(&c->stats.n_leaves, n);
    for (uint32_t i = 0; i < n; i++) {
        if (c->gen_then[i] == c->gen_now[leaf + i] && !(c->gen_then[i] & 1))
            continue;
        figure_add(&c->stats.n_retries, 1);
        rc = read_leaf(c, leaf + i, (struct asymreg__slot *)c->scratch + i * ASYMREG__LEAF_SLOTS,
                       &c->gen_now[leaf + i]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int by_start(const void *a, const void *b, void *slots)
{
    uint64_t x = ((struct asymreg__slot *)slots)[*(const uint32_t *)a].start;
    uint64_t y = ((struct asymreg__slot *)slots)[*(const uint32_t *)b].start;

    return (x > y) - (x < y);
}

/* For the first refresh: copies slots directly to their places, then builds the tree at once. */
static int index_build(struct asymreg__cache *c, uint32_t n_slots)
{
    struct asymreg__slot *slots = c->index->slots, content;
    uint32_t *order = asymreg__alloc(c->opts.allocator, (n_slots ? n_slots : 1) * sizeof(*order));
    size_t n = 0;
    int sorted = 1, rc, changes;

    if (!order)
        return -ENOMEM;
    for (uint32_t i = 0; i < n_slots; i++) {
        if (!(slots[i].generation & 1))
            continue;
        if (n && slots[order[n - 1]].start > slots[i].start)
            sorted = 0;
        order[n++] = i;
    }
    if (!sorted)
        qsort_r(order, n, sizeof(*order), by_start, slots);
    changes = (int)n;
    rc = asymreg__index_build(c->index, order, n);
    if (rc == ASYMREG_EOVERLAP) { /* some leaf changed while others were read: insert one by one */
        for (size_t i = 0; i < n; i++)
            atomic_store_explicit(&slots[order[i]].generation, slots[order[i]].generation - 1,
                                  memory_order_release);
        rc = 0;
        for (size_t i = 0; i < n && rc >= 0; i++) {
            content = slots[order[i]];
            atomic_init(&content.generation, content.generation + 1);
            rc = slot_apply(c, order[i], &content);
        }
    }
    asymreg__free(c->opts.allocator, order);
    return rc < 0 ? rc : changes;
}

/*
 * Copies the leaves whose generation differs from the last copy's (`whole`: all leaves), as they
 * were at some moment after `log` was read. Returns the number of changes.
 */
static int refresh_by_leaf(struct asymreg__cache *c, const struct asymreg__log_state *log,
                           int whole)
{
    uint32_t n_leaves = asymreg__n_leaves(log->n_slots), n,
             n_slots = n_leaves * ASYMREG__LEAF_SLOTS;
    int at_once = c->index->n_regions == 0, changes = 0, rc;

    /* Records from here on are applied on top of the leaves. */
    c->position = log->log_tail;
    if (n_slots > c->index->n_used)
        c->index->n_used = n_slots;
    asymreg__slots_grow(c->index);
    rc = n_leaves ? read_generations(c, 0, n_leaves, c->gen_now) : 0;
    if (rc < 0)
        return rc;
    for (uint32_t leaf = 0; leaf < n_leaves; leaf += n) {
        for (n = 0; n < BATCH_LEAVES && leaf + n < n_leaves &&
                    (whole || c->gen_now[leaf + n] != c->leaf_gen[leaf + n]);
             n++)
            ;
        if (n == 0) {
            n = 1;
            continue;
        }
        rc = read_leaves(c, leaf, n);
        if (rc < 0)
            return rc;
        /* Set these before the slots, which may invalidate a leaf again. After an error the next
         * refresh reads all leaves. */
        memcpy(&c->leaf_gen[leaf], &c->gen_now[leaf], n * sizeof(uint64_t));
        const struct asymreg__slot *from = c->scratch;
        for (uint32_t i = 0; i < n * ASYMREG__LEAF_SLOTS; i++) {
            uint32_t slot = leaf * ASYMREG__LEAF_SLOTS + i;
            if (!at_once) {
                rc = slot_apply(c, slot, &from[i]);
                if (rc < 0)
                    return rc;
                changes += rc;
            } else if (from[i].generation > c->index->slots[slot].generation) {
                rc = check_content(c, &from[i]);
                if (rc < 0)
                    goto forget;
                asymreg__slot_write(&c->index->slots[slot], &from[i]);
            }
        }
    }
    if (!at_once)
        return changes;
    rc = index_build(c, n_slots);
    if (rc >= 0 || c->index->n_regions > 0) /* one by one: each slot is as the tree has it */
        return rc;
forget: /* no slot outside the tree may look alive */
    for (uint32_t i = 0; i < n_slots; i++)
        asymreg__slot_write(&c->index->slots[i], &(struct asymreg__slot){.generation = 0});
    memset(c->leaf_gen, 0xff, n_leaves * sizeof(uint64_t));
    return rc;
}

int asymreg__cache_refresh(struct asymreg__cache *cache)
{
    struct asymreg__log_state log;
    uint64_t goal = 0;
    int changes = 0, rc;

    for (int i = 0; i < READ_TRIES; i++) {
        rc = read_log(cache, &log);
        if (rc < 0)
            return rc;
        if (i == 0)
            goal = log.log_tail;
        if (cache->first || log.log_head > cache->position) {
            /* The copy is unusable until the refresh is complete. */
            int whole = cache->first;
            cache->first = 1;
            atomic_store_explicit(&cache->synced, UINT64_MAX, memory_order_relaxed);
            rc = refresh_by_leaf(cache, &log, whole);
            if (rc < 0)
                return rc;
            cache->first = 0;
            changes += rc;
            goal = 0; /* another round, for changes since */
            rc = read_log(cache, &log);
            if (rc < 0)
                return rc;
        }
        rc = refresh_by_delta(cache, &log);
        if (rc >= 0) {
            changes += rc;
            if (cache->position >= goal) {
                figure_add(&cache->stats.n_refreshes, changes > 0);
                atomic_store_explicit(&cache->synced, cache->position, memory_order_release);
                return changes;
            }
        } else if (rc != ASYMREG_EBUSY) {
            return rc;
        }
        figure_add(&cache->stats.n_retries, 1);
    }
    return ASYMREG_EBUSY;
}

struct asymreg__freshness asymreg__cache_freshness(const struct asymreg__cache *cache)
{
    const struct asymreg__header *h = cache->opts.mapped;

    return (struct asymreg__freshness){h ? &h->log : NULL, &cache->synced,
                                       h ? (const uint64_t *)(uintptr_t)&h->n_retired : NULL};
}

int asymreg__cache_segment(struct asymreg__cache *cache, uint64_t segment,
                           struct asymreg__segment_copy *out)
{
    union {
        struct asymreg__segment s;
        unsigned char bytes[sizeof(struct asymreg__segment) + ASYMREG__MAX_HANDLE_BYTES + 8];
        uint64_t align;
    } copy;
    uint32_t n = (uint32_t)segment;
    uint64_t at, after;
    int rc;

    if (n >= cache->h.max_segments)
        return ASYMREG_ETABLE;
    at = cache->h.segments_at + n * cache->h.segment_bytes;
    rc = read_block(cache, at, &copy, cache->h.segment_bytes);
    if (rc == 0)
        rc = read_block(cache, at, &after, sizeof(after));
    if (rc < 0)
        return rc;
    if (copy.s.generation != segment >> 32 || after != copy.s.generation)
        return ASYMREG_ESTALE;
    if (copy.s.last < copy.s.base || copy.s.handle_bytes > cache->h.max_handle_bytes)
        return ASYMREG_ETABLE;
    out->base = copy.s.base;
    out->last = copy.s.last;
    out->handle_bytes = copy.s.handle_bytes;
    memcpy(out->handle, copy.s.handle, copy.s.handle_bytes);
    return 0;
}

void asymreg__cache_stats(const struct asymreg__cache *cache, struct asymreg__cache_stats *stats)
{
    stats->n_refreshes = atomic_load_explicit(&cache->stats.n_refreshes, memory_order_relaxed);
    stats->n_records = atomic_load_explicit(&cache->stats.n_records, memory_order_relaxed);
    stats->n_leaves = atomic_load_explicit(&cache->stats.n_leaves, memory_order_relaxed);
    stats->read_bytes = atomic_load_explicit(&cache->stats.read_bytes, memory_order_relaxed);
    stats->n_retries = atomic_load_explicit(&cache->stats.n_retries, memory_order_relaxed);
}
