/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index: from an address to its region. No I/O, no threads of its own, no other process.
 *
 * An ordered set of disjoint regions, each with a permission word and a 64-bit value. One thread at
 * a time changes it. Any number of threads search it at the same time, wait-free and without
 * writing to shared memory. A lookup is linearizable: its answer is true at some moment between
 * call and return.
 *
 *   index.c   changes: a B+ tree of 16 keys a node over an array of 32-byte slots; a change copies
 *             one leaf and swaps one pointer
 *   nodes.c   memory of nodes, and epochs: an unlinked node is reused once no reader can be in it.
 *             If the kernel has membarrier(), readers need no fence
 *   search.c  lookups. Each reader remembers its last hit: reusing it costs a comparison and a load
 *   hint.c    where a region probably is, without a search: a word for each stretch of addresses
 *
 * Source: sorted table and search of "Asymmetric Memory Extension for OpenSHMEM", section 3, with
 * its slowdown (Figure 1) removed; the structure is ours.
 */
#ifndef ASYMREG_SRC_INDEX_H
#define ASYMREG_SRC_INDEX_H

#include <pthread.h>

#include "../base/base.h"

#define FANOUT    16u               /* keys of a node */
#define HUGE_PAGE ((size_t)2 << 20) /* bytes */
/* Neighbours under one node are merged if they have fewer than 11 entries together, so 2^26 regions
 * need about 11 levels: this leaves room. */
#define MAX_DEPTH 24u
#define KEY_NONE  INT64_MAX

/*
 * A region in memory, also on a published leaf. generation is odd while the region is registered.
 * Readers in this process may read the slot during a rewrite: they compare the generation before
 * and after, so the writer makes it even first, and stores the rest with release.
 */
struct asymreg__slot {
    _Atomic uint64_t start;
    _Atomic uint64_t last;
    _Atomic uint32_t generation;
    _Atomic uint32_t prot;
    _Atomic uint64_t value;
};
_Static_assert(sizeof(struct asymreg__slot) == 32, "slots are 32 bytes in published tables");

/*
 * Keys are start addresses with the top bit flipped, so that signed comparison orders them; unused
 * ones are KEY_NONE, which no region has. A linked leaf never changes. In an inner node child
 * pointers change, and a separator may grow while no region lies between its old and new value;
 * keys[0] is INT64_MIN.
 */
struct asymreg__leaf {
    int64_t keys[FANOUT];
    uint32_t slots[FANOUT];
};
struct asymreg__inner {
    int64_t keys[FANOUT];
    void *_Atomic child[FANOUT];
};

enum { LEAF, INNER, N_CLASSES };

/* Fixed-size blocks of one class, 64-byte aligned, from growing slabs. */
struct asymreg__pool {
    size_t size;
    void *free; /* linked through the first word */
    size_t n_free;
    char *bump; /* rest of the newest slab */
    char *bump_end;
    struct asymreg__slab *slabs;
    size_t slab_bytes; /* of all slabs */
    size_t next_slab;
};

struct asymreg__retired {
    void *node;
    uint64_t epoch; /* lowest bit shifted out: epoch << 1 | class */
};

struct asymreg__reader;
struct asymreg__index;

#define ASYMREG__BATCH 32u
/* Searches the tree for those of n addresses (at most ASYMREG__BATCH) that `which` names. The
 * result for each is slot + 1, or 0. */
typedef void asymreg__search_many_fn(const struct asymreg__index *ix, const uint64_t *addrs,
                                     const uint32_t *which, uint32_t n, uint32_t *words);

struct asymreg__index {
    _Atomic uintptr_t root; /* node | depth; depth 1: a leaf */
    const struct asymreg_region *(*search)(struct asymreg__reader *, uint64_t addr);
    asymreg__search_many_fn *search_many;
    struct asymreg__slot *slots;
    _Atomic uint32_t *_Atomic hints_on; /* or NULL */
    _Atomic uint64_t epoch;
    uint32_t fence; /* readers must fence: the kernel has no membarrier() */
    /* log2 of a granule's length and of the number of words; a reader may see an old one beside a
     * new one */
    _Atomic uint32_t hint_shift, hint_bits;
    uint32_t max_regions;

    /* the writer's own */
    uint32_t n_used __attribute__((aligned(64))); /* slots below this have been used */
    uint32_t free_head;                           /* slot + 1 */
    uint32_t n_regions;
    uint32_t *free_next; /* of each free slot, the next one + 1 */
    const struct asymreg_allocator *allocator;
    int own_slots, huge, no_hints;
    _Atomic uint32_t *hints;
    void *hint_memory;
    uint32_t hints_at; /* number of regions when the hints were built */
    /* lookups in granules with a word; those that the word did not serve; when to rebuild */
    uint64_t hint_bytes, hint_lost, hint_limit;
    struct asymreg__pool pools[N_CLASSES];
    struct asymreg__retired *retired; /* a ring in order of epochs */
    size_t retired_cap, retired_at, n_retired;
    size_t reclaim_at; /* reclaim when this many are retired */

    pthread_mutex_t readers_lock;
    struct asymreg__reader *readers;
};

/* One thread's state for searching one index. */
struct asymreg__reader {
    struct asymreg_region hit;          /* the last region found */
    uint64_t hit_span;                  /* its last - start */
    const _Atomic uint32_t *generation; /* current one of its slot */
    uint32_t hit_generation;            /* the generation when it was found */
    uint32_t nested;                    /* sections entered */
    _Atomic uint64_t epoch;             /* announced while searching; 0 outside */
    struct asymreg__index *index;
    struct asymreg__reader *next;
};

static inline int64_t asymreg__key(uint64_t addr)
{
    return (int64_t)(addr ^ UINT64_C(1) << 63);
}

static inline asymreg_id asymreg__id(uint32_t slot, uint32_t generation)
{
    return (uint64_t)generation << 32 | slot;
}

/* search.c: chooses how to search nodes: plain C if `plain`, or on a processor without AVX2. */
void asymreg__search_pick(struct asymreg__index *ix, int plain);
/* Returns how many keys are at most `key`; keys are ordered as in a leaf or inner node. For the
 * writer. */
uint32_t asymreg__rank(const int64_t *keys, int64_t key);

/* nodes.c */
int asymreg__mem_init(struct asymreg__index *ix);
void asymreg__mem_fini(struct asymreg__index *ix);
/* Reserves n nodes of each class, and room to retire n nodes. */
int asymreg__mem_reserve(struct asymreg__index *ix, size_t n);
void *asymreg__node_get(struct asymreg__index *ix, int cls);
void asymreg__node_retire(struct asymreg__index *ix, int cls, void *node);
/*
 * For other objects that readers may use: the epoch for marking an unlinked object, and whether
 * every section that may use objects of that epoch has ended. For the writer's thread.
 */
uint64_t asymreg__epoch_now(const struct asymreg__index *ix);
int asymreg__epoch_passed(struct asymreg__index *ix, uint64_t epoch);
/*
 * Random searches of large tables miss the TLB at every step. So once there are many slots, future
 * slots are in huge pages.
 */
void asymreg__slots_grow(struct asymreg__index *ix);

/* Begins a section: no object that is reachable at its beginning is freed before its end. Sections
 * nest. */
static inline void asymreg__reader_enter(struct asymreg__reader *r)
{
    if (r->nested++)
        return;
    atomic_store_explicit(&r->epoch, atomic_load_explicit(&r->index->epoch, memory_order_acquire),
                          memory_order_relaxed);
    if (r->index->fence)
        atomic_thread_fence(memory_order_seq_cst);
    else
        atomic_signal_fence(memory_order_seq_cst);
}

static inline void asymreg__reader_exit(struct asymreg__reader *r)
{
    if (--r->nested == 0)
        atomic_store_explicit(&r->epoch, 0, memory_order_release);
}

/* hint.c: for the writer. */
/* A region was added. */
void asymreg__hint(struct asymreg__index *ix, uint32_t slot);
/* Many regions were added. */
void asymreg__hints_anew(struct asymreg__index *ix);
uint64_t asymreg__hint_memory(const struct asymreg__index *ix);
void asymreg__hints_fini(struct asymreg__index *ix);

/* Neighbouring granules have neighbouring words, until the words run out. */
static inline uint32_t asymreg__hint_place(uint64_t granule, uint32_t bits)
{
    return (uint32_t)(granule ^ granule >> bits) & (((uint32_t)1 << bits) - 1);
}

/* Returns the hint for an address: a slot + 1, or 0. */
static inline uint32_t asymreg__hint_word(const struct asymreg__index *ix,
                                          const _Atomic uint32_t *hints, uint64_t addr)
{
    uint32_t shift = atomic_load_explicit(&ix->hint_shift, memory_order_relaxed),
             bits = atomic_load_explicit(&ix->hint_bits, memory_order_relaxed);

    return atomic_load_explicit(&hints[asymreg__hint_place(addr >> shift, bits)],
                                memory_order_relaxed);
}

/*
 * Reads a slot. Returns 1 if its region had the address during the whole read. Otherwise the slot
 * had no such region when the leaf was read, or the region has ended since; in both cases there was
 * a moment at which no region in this slot had the address, so the caller may act as if it had
 * looked then.
 */
static inline int asymreg__slot_read(const struct asymreg__index *ix, uint32_t n, uint64_t addr,
                                     struct asymreg_region *out)
{
    const struct asymreg__slot *slot = &ix->slots[n];
    uint32_t generation = atomic_load_explicit(&slot->generation, memory_order_acquire);
    uint64_t start = atomic_load_explicit(&slot->start, memory_order_acquire);
    uint64_t last = atomic_load_explicit(&slot->last, memory_order_acquire);
    uint32_t prot = atomic_load_explicit(&slot->prot, memory_order_acquire);
    uint64_t value = atomic_load_explicit(&slot->value, memory_order_acquire);

    if (!(generation & 1) || addr < start || addr > last ||
        atomic_load_explicit(&slot->generation, memory_order_relaxed) != generation)
        return 0;
    out->start = start;
    out->last = last;
    out->id = asymreg__id(n, generation);
    out->prot = prot;
    out->value = value;
    return 1;
}

/* Gets the region if its identifier or a hint leads to it. For callers that do not expect to use
 * the region again: it does not set the last hit. */
static inline int asymreg__hint_lookup(const struct asymreg__index *ix, uint64_t addr,
                                       asymreg_id id, struct asymreg_region *out)
{
    const _Atomic uint32_t *hints;
    uint32_t slot = (uint32_t)id;

    if (id == ASYMREG_ANY) {
        if (!(hints = atomic_load_explicit(&ix->hints_on, memory_order_acquire)))
            return 0;
        slot = asymreg__hint_word(ix, hints, addr) - 1;
    }
    return slot < ix->max_regions && asymreg__slot_read(ix, slot, addr, out);
}

/* ---- index.c ---- */

struct asymreg__index_opts {
    uint32_t max_regions;        /* 0: 1,048,576 */
    struct asymreg__slot *slots; /* the caller's, zeroed: then there are no hints */
    const struct asymreg_allocator *allocator;
};

/* Statistics of an index at the time of the call. */
struct asymreg__index_stats {
    uint64_t n_regions; /* registered now */
    uint64_t bytes;     /* memory of tree and slots, including retired ones */
    uint64_t n_retired; /* nodes and slots that wait for the end of a reader's search */
    uint32_t depth;     /* levels of the tree; 1: a single leaf */
};

/* -EINVAL (max_regions), -ENOMEM. */
int asymreg__index_create(const struct asymreg__index_opts *opts, struct asymreg__index **index);
/* After all its readers. */
void asymreg__index_destroy(struct asymreg__index *index);
void asymreg__index_stats(const struct asymreg__index *index, struct asymreg__index_stats *stats);

/*
 * Adds a region; start + bytes may be 2^64. -EINVAL (no bytes); ASYMREG_EOVERFLOW (wraps, or begins
 * at the last byte); ASYMREG_EOVERLAP; ASYMREG_EFULL; -ENOMEM. O(log n), one leaf copied.
 */
int asymreg__index_insert(struct asymreg__index *index, uint64_t start, uint64_t bytes,
                          uint32_t prot, uint64_t value, asymreg_id *id);
/* Removes a region: after it returns 0, no new lookup finds it. ASYMREG_ESTALE; -ENOMEM. */
int asymreg__index_remove(struct asymreg__index *index, asymreg_id id);
/* Gets the first region that ends at or after an address. Returns 1; 0: none. For the writer. */
int asymreg__index_next(struct asymreg__index *index, uint64_t addr, struct asymreg_region *region);

/* Additions for the published table and the cache. */

/* Receives a slot and its new content, and rewrites the slot with asymreg__slot_write(). */
typedef void asymreg__write_fn(void *ctx, struct asymreg__index *ix, uint32_t slot,
                               const struct asymreg__slot *content);

/* Insert and remove; `write` writes the slot (NULL: the index itself). */
int asymreg__index_insert_with(struct asymreg__index *ix, const struct asymreg__slot *content,
                               asymreg__write_fn *write, void *ctx, asymreg_id *id);
int asymreg__index_remove_with(struct asymreg__index *ix, asymreg_id id, asymreg__write_fn *write,
                               void *ctx);

/* Puts a region into a given slot, which is not in the tree. ASYMREG_EOVERLAP: *conflict is the
 * slot of the other region. */
int asymreg__index_put(struct asymreg__index *ix, uint32_t slot,
                       const struct asymreg__slot *content, uint32_t *conflict);
/* Removes a slot's region from the tree if it is there, and sets the slot's generation to an even
 * value. */
int asymreg__index_drop(struct asymreg__index *ix, uint32_t slot, uint32_t generation);
/* Fills an empty tree from n slots whose content is written, ordered by start. ASYMREG_EOVERLAP:
 * nothing was done. */
int asymreg__index_build(struct asymreg__index *ix, const uint32_t *order, size_t n);

/* Returns whether a registration with this identifier exists, at any address. */
int asymreg__index_lives(const struct asymreg__index *ix, asymreg_id id);

/* ---- nodes.c, search.c: readers ---- */

/* A reader belongs to one thread at a time. 0, -ENOMEM. */
int asymreg__reader_create(struct asymreg__index *index, struct asymreg__reader **reader);
void asymreg__reader_destroy(struct asymreg__reader *reader);

/*
 * Finds, for each of n addresses (at most ASYMREG__BATCH), slot + 1 of its region if there is one,
 * or 0; inside a section. The searches advance together, so that their cache misses overlap. They
 * prefetch the slots; the caller reads them with asymreg__slot_read().
 */
void asymreg__index_search_many(const struct asymreg__index *ix, const uint64_t *addrs, uint32_t n,
                                uint32_t *words);

/* asymreg__index_lookup() without checking the last hit. */
const struct asymreg_region *asymreg__index_search(struct asymreg__reader *reader, uint64_t addr);

/* Returns the region of an address: a copy, valid until the next call with this reader; NULL: none.
 * Wait-free; never allocates or enters the kernel. */
static inline const struct asymreg_region *asymreg__index_lookup(struct asymreg__reader *reader,
                                                                 uint64_t addr)
{
    if (addr - reader->hit.start <= reader->hit_span &&
        atomic_load_explicit(reader->generation, memory_order_acquire) == reader->hit_generation)
        return &reader->hit;
    return asymreg__index_search(reader, addr);
}

/* Rewrites a slot while readers may read it. */
void asymreg__slot_write(struct asymreg__slot *slot, const struct asymreg__slot *content);

#endif
