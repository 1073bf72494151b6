/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An index published in memory that peers can read, and a peer's copy of one. Neither does I/O.
 *
 * The owner (struct asymreg__table) keeps its regions in a block of memory that peers can read:
 * shared memory, or registered with a network. Every change rewrites one 32-byte slot and appends
 * one record to a ring, the change log. Peers take no part. ../../LAYOUT.md describes the block.
 *
 * A peer (struct asymreg__cache) keeps an index of the block. It gets a function that reads bytes
 * of the block, or the block's address if it is mapped. asymreg__cache_refresh() updates the index
 * in the cheapest way that works:
 *   - by delta: the records since last time, if the ring still has them: three reads, however large
 *     the table is;
 *   - by leaf: otherwise the generations of all leaves (128 slots, 4 KiB each), and only the leaves
 *     that changed;
 *   - whole: the first time, and after a failed refresh.
 * The cache checks all bytes before use: a torn, stale or hostile table gives ASYMREG_EBUSY or
 * ASYMREG_ETABLE, never a wild read.
 *
 * A region is in a segment: one registration of a transport, with its handle. Many regions may
 * share a segment. A region's value is the segment's number in the lower 32 bits and its generation
 * in the upper; a peer reads the handle when it first needs it.
 *
 * Threads: making a table or a cache is MT-Safe. A table has one writer: one thread at a time calls
 * functions that change or destroy it, while readers of its index, here and in other processes,
 * continue. The same is true of a cache. asymreg__stale() may be called at any time.
 *
 * Source: the copied table of "Asymmetric Memory Extension for OpenSHMEM", section 3; log, leaves
 * and generations are ours.
 */
#ifndef ASYMREG_SRC_TABLE_H
#define ASYMREG_SRC_TABLE_H

#include "../index/index.h"

#define ASYMREG__LEAF_SLOTS       128u      /* slots of a leaf */
#define ASYMREG__MAX_RING         0x100000u /* cap of the records of a log */
#define ASYMREG__MAX_HANDLE_BYTES 1024u     /* cap of a segment's handle */

#define TABLE_MAGIC   UINT64_C(0x3147455259534121) /* "!ASYREG1" in little-endian order */
#define TABLE_VERSION 2u
#define TABLE_ORDER   0x01020304u
#define TABLE_OPEN    1u
#define TABLE_CLOSED  2u

/* The part that changes, on a cache line of its own. */
struct asymreg__log_state {
    _Atomic uint64_t state;    /* TABLE_OPEN or TABLE_CLOSED */
    _Atomic uint64_t log_head; /* oldest complete record */
    _Atomic uint64_t log_tail; /* one past the newest: the number of changes so far */
    _Atomic uint32_t n_slots;  /* slots below this have been used */
    _Atomic uint32_t n_segments;
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
    uint64_t segment_bytes; /* stride of the segments */
    uint64_t reserved[5];
    struct asymreg__log_state log;
    uint64_t unused[4];
    _Atomic uint64_t
        n_retired; /* regions unregistered so far, plus 1 when closed: on a line of its own */
};
_Static_assert(offsetof(struct asymreg__header, log) == 128, "published layout");
_Static_assert(offsetof(struct asymreg__header, n_retired) == 192, "published layout");
_Static_assert(sizeof(struct asymreg__log_state) == 32, "published layout");

struct asymreg__record {
    _Atomic uint64_t sequence; /* its number + 1 */
    _Atomic uint32_t slot;
    uint32_t reserved;
    struct asymreg__slot content;
};
_Static_assert(sizeof(struct asymreg__record) == 48, "published layout");

struct asymreg__segment {
    _Atomic uint64_t generation; /* odd: in use */
    _Atomic uint64_t base;
    _Atomic uint64_t last;
    _Atomic uint32_t handle_bytes;
    uint32_t reserved;
    unsigned char handle[];
};
_Static_assert(sizeof(struct asymreg__segment) == 32, "published layout");

/* ---- table.c: the owner's side ---- */

/* The sizes of a table. */
struct asymreg__table_opts {
    uint32_t max_regions;      /* 0: 1,048,576. Rounded up to whole leaves */
    uint32_t max_segments;     /* 0: 4096 */
    uint32_t ring;             /* records of the log, a power of two, 16 at least; 0: 4096 */
    uint32_t max_handle_bytes; /* at most ASYMREG__MAX_HANDLE_BYTES */
    const struct asymreg_allocator *allocator;
};

struct asymreg__table;

/* Fills the fixed part of a header for these sizes. Returns 0, -EINVAL. */
int asymreg__layout(const struct asymreg__table_opts *opts, struct asymreg__header *h);
/* Length of the memory that a table of these sizes needs, a multiple of 4096; 0: bad sizes. */
uint64_t asymreg__table_bytes(const struct asymreg__table_opts *opts);

/* Makes an empty table in asymreg__table_bytes() zeroed bytes, aligned to 64. They remain the
 * caller's, and in use until the table is destroyed. `incarnation` is not 0, and no other table has
 * had it. -EINVAL, -ENOMEM. */
int asymreg__table_create(const struct asymreg__table_opts *opts, void *memory,
                          uint64_t incarnation, struct asymreg__table **table);
/* Marks the table closed, which notifies peers, and frees the owner's side. */
void asymreg__table_destroy(struct asymreg__table *table);

/* Publishes a transport's registration of [base, base + bytes); 0 and 2^64-1 cover the whole
 * address space, including its last byte. *segment is the value for the regions inside. -EINVAL,
 * ASYMREG_EOVERFLOW, ASYMREG_EFULL. */
int asymreg__table_segment_add(struct asymreg__table *table, uint64_t base, uint64_t bytes,
                               const void *handle, size_t handle_bytes, uint64_t *segment);
/* ASYMREG_ESTALE, ASYMREG_EBUSY (a region lies in it). */
int asymreg__table_segment_remove(struct asymreg__table *table, uint64_t segment);
/* Number of regions in a segment. */
uint32_t asymreg__table_users(const struct asymreg__table *table, uint64_t segment);

/* Publishes a region: a peer that refreshes after this call finds it. ASYMREG_ERANGE (not inside
 * the segment), ASYMREG_ESTALE (no such segment), and as asymreg__index_insert(). */
int asymreg__table_insert(struct asymreg__table *table, uint64_t start, uint64_t bytes,
                          uint32_t prot, uint64_t segment, asymreg_id *id);
/* A peer that refreshes after this call does not find it. ASYMREG_ESTALE, -ENOMEM. */
int asymreg__table_remove(struct asymreg__table *table, asymreg_id id);
/* The owner's own index, for lookups. */
struct asymreg__index *asymreg__table_index(struct asymreg__table *table);

static inline uint32_t asymreg__n_leaves(uint32_t n_slots)
{
    return (n_slots + ASYMREG__LEAF_SLOTS - 1) / ASYMREG__LEAF_SLOTS;
}

/* ---- peer_copy.c: a peer's side ---- */

/* Reads [offset, offset + bytes) of a peer's block. Returns 0 or an error, which the cache passes
 * on. Two calls read in their order; one call may read its bytes in any order, and while they
 * change. */
typedef int asymreg__read_fn(void *ctx, uint64_t offset, void *dst, size_t bytes);

/* Access to a peer's table. */
struct asymreg__cache_opts {
    asymreg__read_fn *read; /* may be NULL if `mapped` is given */
    void *ctx;              /* for `read` */
    const void *mapped;     /* the block as mapped here, or NULL */
    uint64_t bytes;         /* length of the block */
    uint64_t incarnation;   /* the required one; 0: any */
    const struct asymreg_allocator *allocator;
};

struct asymreg__cache;

struct asymreg__cache_stats {
    _Atomic uint64_t n_refreshes; /* refreshes that found a change */
    _Atomic uint64_t n_records;   /* log records read */
    _Atomic uint64_t n_leaves;    /* leaves read */
    _Atomic uint64_t read_bytes;  /* bytes read of the peer's block */
    _Atomic uint64_t n_retries;   /* reads repeated because the table changed meanwhile */
};

/* Makes a cache and checks the header of the table. It is empty until refreshed. -EINVAL, -ENOMEM,
 * the error of `read`, ASYMREG_ETABLE, ASYMREG_EVERSION, ASYMREG_ESTALE (another incarnation),
 * ASYMREG_EPEER (closed). */
int asymreg__cache_create(const struct asymreg__cache_opts *opts, struct asymreg__cache **cache);
/* After the readers of its index. */
void asymreg__cache_destroy(struct asymreg__cache *cache);

/*
 * Updates the cache to include all changes published before the call. Returns the number of
 * changes; or the error of `read`, ASYMREG_EPEER (closed), ASYMREG_EBUSY (the table changed during
 * every try), ASYMREG_ETABLE, -ENOMEM. After an error each region in the cache is as it was at some
 * earlier moment, until a refresh succeeds.
 */
int asymreg__cache_refresh(struct asymreg__cache *cache);
/* The index of the peer's regions: identifiers, permissions and segments are the owner's. */
struct asymreg__index *asymreg__cache_index(struct asymreg__cache *cache);
/* Number of segments that the peer's table has room for. */
uint32_t asymreg__cache_max_segments(const struct asymreg__cache *cache);
/* May be called at any time. */
void asymreg__cache_stats(const struct asymreg__cache *cache, struct asymreg__cache_stats *stats);

/* A segment as its owner published it. */
struct asymreg__segment_copy {
    uint64_t base; /* address of its first byte */
    uint64_t last; /* and of its last */
    uint32_t handle_bytes;
    unsigned char handle[ASYMREG__MAX_HANDLE_BYTES];
};

/* Reads a segment of the peer, by two reads. ASYMREG_ESTALE (another generation: refresh),
 * ASYMREG_ETABLE, or the error of `read`. */
int asymreg__cache_segment(struct asymreg__cache *cache, uint64_t segment,
                           struct asymreg__segment_copy *out);

/* For checking whether a cache is behind: its peer's log, mapped (NULL: not mapped), and how far
 * the cache has read it. */
struct asymreg__freshness {
    const struct asymreg__log_state *log;
    const _Atomic uint64_t *synced;
    const uint64_t *retired; /* the count for bound handles, mapped too */
};

struct asymreg__freshness asymreg__cache_freshness(const struct asymreg__cache *cache);

/* Returns whether the table has changed since the last refresh. 1: yes, or closed; 0: no, or
 * unknown because the block is not mapped. */
static inline int asymreg__stale(const struct asymreg__freshness *f)
{
    return f->log && (atomic_load_explicit(&f->log->log_tail, memory_order_acquire) !=
                          atomic_load_explicit(f->synced, memory_order_acquire) ||
                      atomic_load_explicit(&f->log->state, memory_order_acquire) != TABLE_OPEN);
}

#endif
