/* SPDX-License-Identifier: BSD-3-Clause */
/* The owner's side of a published table. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "table.h"

#include <errno.h>
#include <string.h>

#define LAST_SEGMENT_GENERATION 0xfffffffeu

struct asymreg__table {
    struct asymreg__header h;       /* its fixed part, where no peer can write */
    struct asymreg__header *header; /* as published */
    struct asymreg__record *ring;
    _Atomic uint64_t *leaves;
    char *segments;
    struct asymreg__index *index;
    uint64_t tail;
    uint32_t *users;    /* regions in each segment */
    uint32_t *seg_next; /* of each free segment, the next one + 1 */
    uint32_t seg_free;  /* segment + 1 */
    const struct asymreg_allocator *allocator;
};

static uint64_t page_up(uint64_t n)
{
    return (n + 4095) & ~UINT64_C(4095);
}

int asymreg__layout(const struct asymreg__table_opts *opts, struct asymreg__header *h)
{
    struct asymreg__table_opts o = *opts;

    if (!o.max_regions)
        o.max_regions = 1u << 20;
    if (!o.max_segments)
        o.max_segments = 4096;
    if (!o.ring)
        o.ring = 4096;
    if (o.max_regions > ASYMREG_MAX_REGIONS || o.max_segments > ASYMREG_MAX_SEGMENTS ||
        o.ring < 16 || o.ring > ASYMREG__MAX_RING || (o.ring & (o.ring - 1)) ||
        o.max_handle_bytes > ASYMREG__MAX_HANDLE_BYTES)
        return -EINVAL;
    memset(h, 0, sizeof(*h));
    h->magic = TABLE_MAGIC;
    h->version = TABLE_VERSION;
    h->byte_order = TABLE_ORDER;
    h->max_regions = asymreg__n_leaves(o.max_regions) * ASYMREG__LEAF_SLOTS;
    h->max_segments = o.max_segments;
    h->ring = o.ring;
    h->max_handle_bytes = o.max_handle_bytes;
    h->segment_bytes = (sizeof(struct asymreg__segment) + o.max_handle_bytes + 7) & ~7u;
    h->ring_at = 4096;
    h->leaves_at = h->ring_at + page_up((uint64_t)h->ring * sizeof(struct asymreg__record));
    h->slots_at =
        h->leaves_at + page_up((uint64_t)asymreg__n_leaves(h->max_regions) * sizeof(uint64_t));
    h->segments_at = h->slots_at + (uint64_t)h->max_regions * sizeof(struct asymreg__slot);
    h->total_bytes = h->segments_at + page_up(h->max_segments * h->segment_bytes);
    return 0;
}

uint64_t asymreg__table_bytes(const struct asymreg__table_opts *opts)
{
    struct asymreg__header h;

    return asymreg__layout(opts, &h) < 0 ? 0 : h.total_bytes;
}

int asymreg__table_create(const struct asymreg__table_opts *opts, void *memory,
                          uint64_t incarnation, struct asymreg__table **table)
{
    struct asymreg__index_opts index_opts = {.allocator = opts->allocator};
    struct asymreg__table *t;
    struct asymreg__header h;
    char *base = memory;
    int rc;

    if (!memory || (uintptr_t)memory % 64 || !incarnation || asymreg__layout(opts, &h) < 0)
        return -EINVAL;
    t = asymreg__alloc(opts->allocator, sizeof(*t));
    if (!t)
        return -ENOMEM;
    index_opts.max_regions = h.max_regions;
    index_opts.slots = (struct asymreg__slot *)(void *)(base + h.slots_at);
    t->allocator = opts->allocator;
    t->users = asymreg__reserve(h.max_segments * sizeof(*t->users));
    t->seg_next = asymreg__reserve(h.max_segments * sizeof(*t->seg_next));
    rc = t->users && t->seg_next ? asymreg__index_create(&index_opts, &t->index) : -ENOMEM;
    if (rc < 0) {
        asymreg__unreserve(t->users, h.max_segments * sizeof(*t->users));
        asymreg__unreserve(t->seg_next, h.max_segments * sizeof(*t->seg_next));
        asymreg__free(opts->allocator, t);
        return rc;
    }
    t->header = memory;
    t->ring = (struct asymreg__record *)(void *)(base + h.ring_at);
    t->leaves = (_Atomic uint64_t *)(void *)(base + h.leaves_at);
    t->segments = base + h.segments_at;
    h.incarnation = incarnation;
    t->h = h;
    *t->header = h;
    atomic_store_explicit(&t->header->log.state, TABLE_OPEN, memory_order_release);
    *table = t;
    return 0;
}

static void retired_count_add(struct asymreg__table *t)
{
    atomic_store_explicit(&t->header->n_retired, t->header->n_retired + 1, memory_order_release);
    /* This fence precedes any reuse of the memory: bound handles load from the memory and then
     * check. */
    atomic_thread_fence(memory_order_seq_cst);
}

void asymreg__table_destroy(struct asymreg__table *table)
{
    if (!table)
        return;
    atomic_store_explicit(&table->header->log.state, TABLE_CLOSED, memory_order_release);
    retired_count_add(table);
    asymreg__index_destroy(table->index);
    asymreg__unreserve(table->users, table->h.max_segments * sizeof(*table->users));
    asymreg__unreserve(table->seg_next, table->h.max_segments * sizeof(*table->seg_next));
    asymreg__free(table->allocator, table);
}

struct asymreg__index *asymreg__table_index(struct asymreg__table *table)
{
    return table->index;
}

static struct asymreg__segment *segment_at(struct asymreg__table *t, uint32_t n)
{
    return (struct asymreg__segment *)(void *)(t->segments + n * t->h.segment_bytes);
}

/* The segment that a value names, or NULL. */
static struct asymreg__segment *segment_find(struct asymreg__table *t, uint64_t value)
{
    struct asymreg__segment *s;

    if ((uint32_t)value >= t->header->log.n_segments)
        return NULL;
    s = segment_at(t, (uint32_t)value);
    return (s->generation & 1) && s->generation == value >> 32 ? s : NULL;
}

int asymreg__table_segment_add(struct asymreg__table *table, uint64_t base, uint64_t bytes,
                               const void *handle, size_t handle_bytes, uint64_t *segment)
{
    struct asymreg__segment *s;
    uint32_t n;

    if (!bytes || handle_bytes > table->h.max_handle_bytes || (handle_bytes && !handle))
        return -EINVAL;
    if (base + bytes - 1 < base)
        return ASYMREG_EOVERFLOW;
    if (table->seg_free) {
        n = table->seg_free - 1;
        table->seg_free = table->seg_next[n];
    } else if (table->header->log.n_segments < table->h.max_segments) {
        n = table->header->log.n_segments;
        atomic_store_explicit(&table->header->log.n_segments, n + 1, memory_order_release);
    } else {
        return ASYMREG_EFULL;
    }
    s = segment_at(table, n);
    atomic_store_explicit(&s->base, base, memory_order_release);
    /* No length can express the whole address space: the largest length, from 0, means all of it,
     * including the last byte. */
    atomic_store_explicit(&s->last, bytes < UINT64_MAX ? base + bytes - 1 : UINT64_MAX,
                          memory_order_release);
    atomic_store_explicit(&s->handle_bytes, (uint32_t)handle_bytes, memory_order_release);
    for (size_t i = 0; i < handle_bytes; i += 8) { /* the size of a segment is a multiple of 8 */
        uint64_t word = 0;
        memcpy(&word, (const char *)handle + i, handle_bytes - i < 8 ? handle_bytes - i : 8);
        atomic_store_explicit((_Atomic uint64_t *)(void *)(s->handle + i), word,
                              memory_order_release);
    }
    atomic_store_explicit(&s->generation, s->generation + 1, memory_order_release);
    *segment = s->generation << 32 | n;
    return 0;
}

int asymreg__table_segment_remove(struct asymreg__table *table, uint64_t segment)
{
    struct asymreg__segment *s;
    uint32_t n = (uint32_t)segment;

    s = segment_find(table, segment);
    if (!s)
        return ASYMREG_ESTALE;
    if (table->users[n])
        return ASYMREG_EBUSY;
    atomic_store_explicit(&s->generation, s->generation + 1, memory_order_release);
    if (s->generation != LAST_SEGMENT_GENERATION) {
        table->seg_next[n] = table->seg_free;
        table->seg_free = n + 1;
    }
    return 0;
}

uint32_t asymreg__table_users(const struct asymreg__table *table, uint64_t segment)
{
    return table->users[(uint32_t)segment];
}

/* Rewrites a slot for readers in this process and for peers that copy its leaf, and logs the change
 * for peers that follow the log. */
static void slot_publish(void *ctx, struct asymreg__index *ix, uint32_t slot,
                         const struct asymreg__slot *content)
{
    struct asymreg__table *t = ctx;
    struct asymreg__log_state *log = &t->header->log;
    _Atomic uint64_t *leaf = &t->leaves[slot / ASYMREG__LEAF_SLOTS];
    uint32_t ring = t->h.ring;
    struct asymreg__record *r = &t->ring[t->tail & (ring - 1)];

    if (slot >= log->n_slots)
        atomic_store_explicit(&log->n_slots, slot + 1, memory_order_release);
    atomic_store_explicit(leaf, *leaf + 1, memory_order_release);
    asymreg__slot_write(&ix->slots[slot], content);
    atomic_store_explicit(leaf, *leaf + 1, memory_order_release);

    if (t->tail >= ring)
        atomic_store_explicit(&log->log_head, t->tail + 1 - ring, memory_order_release);
    atomic_store_explicit(&r->sequence, t->tail + 1, memory_order_release);
    atomic_store_explicit(&r->slot, slot, memory_order_release);
    atomic_store_explicit(&r->content.start, content->start, memory_order_release);
    atomic_store_explicit(&r->content.last, content->last, memory_order_release);
    atomic_store_explicit(&r->content.generation, content->generation, memory_order_release);
    atomic_store_explicit(&r->content.prot, content->prot, memory_order_release);
    atomic_store_explicit(&r->content.value, content->value, memory_order_release);
    atomic_store_explicit(&log->log_tail, ++t->tail, memory_order_release);
    /* Last: a peer that sees the new count finds the region unregistered. */
    if (!(content->generation & 1))
        retired_count_add(t);
}

int asymreg__table_insert(struct asymreg__table *table, uint64_t start, uint64_t bytes,
                          uint32_t prot, uint64_t segment, asymreg_id *id)
{
    struct asymreg__slot c = {
        .start = start, .last = start + bytes - 1, .prot = prot, .value = segment};
    struct asymreg__segment *s;
    int rc;

    if (!bytes || !prot || (prot & ~ASYMREG_ALL))
        return -EINVAL;
    if (c.last < start)
        return ASYMREG_EOVERFLOW;
    s = segment_find(table, segment);
    if (!s)
        return ASYMREG_ESTALE;
    if (start < s->base || c.last > s->last)
        return ASYMREG_ERANGE;
    rc = asymreg__index_insert_with(table->index, &c, slot_publish, table, id);
    if (rc < 0)
        return rc;
    table->users[(uint32_t)segment]++;
    return 0;
}

int asymreg__table_remove(struct asymreg__table *table, asymreg_id id)
{
    int rc = asymreg__index_remove_with(table->index, id, slot_publish, table);

    if (rc < 0)
        return rc;
    /* The slot's end has changed its generation alone. */
    table->users[(uint32_t)table->index->slots[(uint32_t)id].value]--;
    return 0;
}
