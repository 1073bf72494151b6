/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout of a published table. */
#ifndef ASYMREG_SRC_TABLE_H
#define ASYMREG_SRC_TABLE_H

#include <asymreg/table.h>

#include "index.h"

#define TABLE_MAGIC   UINT64_C(0x3147455259534121) /* "!ASYREG1" in little-endian order */
#define TABLE_VERSION 1u
#define TABLE_ORDER   0x01020304u
#define TABLE_OPEN    1u
#define TABLE_CLOSED  2u

/* What changes, on a cache line of its own. */
struct asymreg__log_state {
    uint64_t state;    /* TABLE_OPEN or TABLE_CLOSED */
    uint64_t log_head; /* oldest record that is whole */
    uint64_t log_tail; /* one past the newest: the number of changes so far */
    uint32_t n_slots;  /* slots below this have been used */
    uint32_t n_segments;
};

struct asymreg__header {
    uint64_t magic;
    uint32_t version;
    uint32_t byte_order;
    uint64_t total_bytes;
    uint64_t incarnation;
    uint32_t max_regions;
    uint32_t max_segments;
    uint32_t ring;
    uint32_t max_handle_bytes;
    uint64_t ring_at; /* offsets from the header */
    uint64_t leaves_at;
    uint64_t slots_at;
    uint64_t segments_at;
    uint64_t segment_bytes; /* from one to the next */
    uint64_t reserved[5];
    struct asymreg__log_state log;
};
_Static_assert(offsetof(struct asymreg__header, log) == 128, "published layout");
_Static_assert(sizeof(struct asymreg__log_state) == 32, "published layout");

struct asymreg__record {
    uint64_t sequence; /* its number + 1 */
    uint32_t slot;
    uint32_t reserved;
    struct asymreg__slot content;
};
_Static_assert(sizeof(struct asymreg__record) == 48, "published layout");

struct asymreg__segment {
    uint64_t generation; /* odd: in use */
    uint64_t base;
    uint64_t last;
    uint32_t handle_bytes;
    uint32_t reserved;
    unsigned char handle[];
};
_Static_assert(sizeof(struct asymreg__segment) == 32, "published layout");

/* Fills the fixed part of a header for these sizes. Returns 0, -EINVAL. */
int asymreg__layout(const struct asymreg_table_opts *opts, struct asymreg__header *h);

/* What tells whether a cache is behind: its peer's log, mapped (NULL: that cannot be told), and
 * what it has of it. */
struct asymreg__freshness {
    const struct asymreg__log_state *log;
    const uint64_t *synced;
};

struct asymreg__freshness asymreg__cache_freshness(const struct asymreg_cache *cache);

static inline int asymreg__stale(const struct asymreg__freshness *f)
{
    return f->log && (__atomic_load_n(&f->log->log_tail, __ATOMIC_ACQUIRE) !=
                          __atomic_load_n(f->synced, __ATOMIC_ACQUIRE) ||
                      __atomic_load_n(&f->log->state, __ATOMIC_ACQUIRE) != TABLE_OPEN);
}

/* How many segments the peer's table has room for. */
uint32_t asymreg__cache_max_segments(const struct asymreg_cache *cache);

/* Regions in a segment. */
uint32_t asymreg__table_users(const struct asymreg_table *table, uint64_t segment);

static inline uint32_t asymreg__n_leaves(uint32_t n_slots)
{
    return (n_slots + ASYMREG_LEAF_SLOTS - 1) / ASYMREG_LEAF_SLOTS;
}

#endif
