/* SPDX-License-Identifier: BSD-3-Clause */
/* The index from inside: slots, nodes of the tree, epochs. */
#ifndef ASYMREG_SRC_INDEX_H
#define ASYMREG_SRC_INDEX_H

#include <asymreg/index.h>

#include <pthread.h>
#include <stdint.h>

#define FANOUT 16u /* keys of a node */
/* more than 2^26 regions at two children a node could need is 26; nodes are merged below 4 */
#define MAX_DEPTH 24u
#define KEY_NONE  INT64_MAX

#if defined(__SANITIZE_THREAD__)
#define ASYMREG__TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ASYMREG__TSAN 1
#endif
#endif
#ifndef ASYMREG__TSAN
#define ASYMREG__TSAN 0
#endif

/*
 * A region at rest, also on a published leaf. generation is odd while it is registered. Readers in
 * this process may look while it is rewritten: they check the generation before and after, so the
 * writer makes it even first and stores what follows with release.
 */
struct asymreg__slot {
    uint64_t start;
    uint64_t last;
    uint32_t generation;
    uint32_t prot;
    uint64_t value;
};
_Static_assert(sizeof(struct asymreg__slot) == 32, "slots are 32 bytes in published tables");

/*
 * Keys are start addresses with the top bit flipped, so that signed comparison orders them; those
 * not in use are KEY_NONE, which no region has. A leaf does not change once it is linked. In an
 * inner node child pointers change, and a separator may grow while no region lies between its old
 * and new value; keys[0] is INT64_MIN.
 */
struct asymreg__leaf {
    int64_t keys[FANOUT];
    uint32_t slots[FANOUT];
};
struct asymreg__inner {
    int64_t keys[FANOUT];
    void *child[FANOUT];
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

struct asymreg_index {
    uintptr_t root; /* node | depth; depth 1: a leaf */
    const struct asymreg_region *(*search)(struct asymreg_reader *, uint64_t);
    void (*search_many)(const struct asymreg_index *, const uint64_t *, uint32_t, uint32_t *);
    struct asymreg__slot *slots;
    uint32_t *hints_on; /* or NULL */
    uint64_t epoch;
    uint32_t fence;                 /* readers must fence: the kernel has no membarrier() */
    uint32_t hint_shift, hint_bits; /* of a granule's length and of the number of words; readers may
                                       see one old and one new */
    uint32_t max_regions;

    /* the writer's */
    uint32_t simd __attribute__((aligned(64)));
    uint32_t n_used;    /* slots below this have been used */
    uint32_t free_head; /* slot + 1 */
    uint32_t n_regions;
    uint32_t *free_next; /* of each free slot, the next one + 1 */
    int own_slots, huge, no_hints;
    uint32_t *hints;
    void *hint_memory;
    uint32_t hints_at; /* regions when they were made anew */
    uint64_t hint_bytes, hint_lost,
        hint_limit; /* in granules with a word; of those, not found by it; when to make them anew */
    struct asymreg__pool pools[N_CLASSES];
    struct asymreg__retired *retired; /* a ring in order of epochs */
    size_t retired_cap, retired_at, n_retired;
    size_t reclaim_at; /* try again when there are so many */

    pthread_mutex_t readers_lock;
    struct asymreg_reader *readers;
};

static inline int64_t asymreg__key(uint64_t addr)
{
    return (int64_t)(addr ^ UINT64_C(1) << 63);
}

static inline asymreg_id asymreg__id(uint32_t slot, uint32_t generation)
{
    return (uint64_t)generation << 32 | slot;
}

/* index_search.c */
int asymreg__search_pick(struct asymreg_index *ix, uint32_t simd);
/* How many of the keys are at most `key`; keys as a leaf or inner node has them. For the writer. */
uint32_t asymreg__rank(const int64_t *keys, int64_t key);

/* index_mem.c */
int asymreg__mem_init(struct asymreg_index *ix);
void asymreg__mem_fini(struct asymreg_index *ix);
/* Makes sure that the next n nodes of each class can be had, and n nodes be retired. */
int asymreg__mem_reserve(struct asymreg_index *ix, size_t n);
void *asymreg__node_get(struct asymreg_index *ix, int cls);
void asymreg__node_retire(struct asymreg_index *ix, int cls, void *node);
/*
 * For other things that readers may hold: the epoch to mark one with after it was unlinked, and
 * whether every section that may hold things of that epoch has ended. For the writer's thread.
 */
uint64_t asymreg__epoch_now(const struct asymreg_index *ix);
int asymreg__epoch_passed(struct asymreg_index *ix, uint64_t epoch);
/* Address space for n bytes that cost nothing until touched; NULL. */
void *asymreg__reserve(size_t bytes);
void asymreg__unreserve(void *p, size_t bytes);
/*
 * Scattered searches of large tables miss the TLB at every step: once there are many slots, the
 * pages of those to come are huge ones.
 */
void asymreg__slots_grow(struct asymreg_index *ix);

/* A section in which nothing that was reachable at its beginning is freed. Sections nest. */
static inline void asymreg__reader_enter(struct asymreg_reader *r)
{
    if (r->nested++)
        return;
    if (r->index->fence)
        (void)__atomic_exchange_n(&r->epoch, __atomic_load_n(&r->index->epoch, __ATOMIC_ACQUIRE),
                                  __ATOMIC_SEQ_CST);
    else
        __atomic_store_n(&r->epoch, __atomic_load_n(&r->index->epoch, __ATOMIC_ACQUIRE),
                         __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void asymreg__reader_exit(struct asymreg_reader *r)
{
    if (--r->nested == 0)
        __atomic_store_n(&r->epoch, 0, __ATOMIC_RELEASE);
}

/* index_hint.c: for the writer. */
/* A region is there. */
void asymreg__hint(struct asymreg_index *ix, uint32_t slot);
/* Many are. */
void asymreg__hints_anew(struct asymreg_index *ix);
uint64_t asymreg__hint_memory(const struct asymreg_index *ix);
void asymreg__hints_fini(struct asymreg_index *ix);

/* Neighbouring granules have neighbouring words, as far as there are words. */
static inline uint32_t asymreg__hint_place(uint64_t granule, uint32_t bits)
{
    return (uint32_t)(granule ^ granule >> bits) & (((uint32_t)1 << bits) - 1);
}

/* What the hints say of an address: a slot + 1, or 0. */
static inline uint32_t asymreg__hint_word(const struct asymreg_index *ix, const uint32_t *hints,
                                          uint64_t addr)
{
    uint32_t shift = __atomic_load_n(&ix->hint_shift, __ATOMIC_RELAXED),
             bits = __atomic_load_n(&ix->hint_bits, __ATOMIC_RELAXED);

    return __atomic_load_n(&hints[asymreg__hint_place(addr >> shift, bits)], __ATOMIC_RELAXED);
}

/*
 * Reads a slot, if it holds the address all the while. If it does not: it held no such region when
 * the leaf was read, or died since; either way there was a moment without one. Returns whether it
 * does.
 */
static inline int asymreg__slot_read(const struct asymreg_index *ix, uint32_t n, uint64_t addr,
                                     struct asymreg_region *out)
{
    const struct asymreg__slot *slot = &ix->slots[n];
    uint32_t generation = __atomic_load_n(&slot->generation, __ATOMIC_ACQUIRE);
    uint64_t start = __atomic_load_n(&slot->start, __ATOMIC_ACQUIRE);
    uint64_t last = __atomic_load_n(&slot->last, __ATOMIC_ACQUIRE);
    uint32_t prot = __atomic_load_n(&slot->prot, __ATOMIC_ACQUIRE);
    uint64_t value = __atomic_load_n(&slot->value, __ATOMIC_ACQUIRE);

    if (!(generation & 1) || addr < start || addr > last ||
        __atomic_load_n(&slot->generation, __ATOMIC_RELAXED) != generation)
        return 0;
    out->start = start;
    out->last = last;
    out->id = asymreg__id(n, generation);
    out->prot = prot;
    out->value = value;
    return 1;
}

/* The region, if its identifier or a hint leads to it. For callers that do not mean to come back to
 * it: no last hit is set. */
static inline int asymreg__probable(const struct asymreg_index *ix, uint64_t addr, asymreg_id id,
                                    struct asymreg_region *out)
{
    const uint32_t *hints;
    uint32_t slot = (uint32_t)id;

    if (id == ASYMREG_ANY) {
        if (!(hints = __atomic_load_n(&ix->hints_on, __ATOMIC_ACQUIRE)))
            return 0;
        slot = asymreg__hint_word(ix, hints, addr) - 1;
    }
    return slot < ix->max_regions && asymreg__slot_read(ix, slot, addr, out);
}

/*
 * index.c: what the published table and the cache need beyond the public calls.
 */

/* As asymreg_index_create(), over slots that somebody else keeps (zeroed), and without hints. */
int asymreg__index_create(const struct asymreg_index_opts *opts, struct asymreg__slot *slots,
                          struct asymreg_index **index);

/* Called with a slot that is about to be rewritten and its new content; does the rewriting with
 * asymreg__slot_write(). */
typedef void asymreg__write_fn(void *ctx, struct asymreg_index *ix, uint32_t slot,
                               const struct asymreg__slot *content);

/* The insert and remove of index.h, with the slot written by `write` (NULL: by the index). */
int asymreg__index_insert(struct asymreg_index *ix, const struct asymreg__slot *content,
                          asymreg__write_fn *write, void *ctx, asymreg_id *id);
int asymreg__index_remove(struct asymreg_index *ix, asymreg_id id, asymreg__write_fn *write,
                          void *ctx);

/* Puts a region into a given slot, which is not in the tree; *conflict is the slot of a region that
 * it overlaps (ASYMREG_EOVERLAP). */
int asymreg__index_put(struct asymreg_index *ix, uint32_t slot, const struct asymreg__slot *content,
                       uint32_t *conflict);
/* Takes a slot's region out of the tree, if it is in, and sets its generation, which is even. */
int asymreg__index_drop(struct asymreg_index *ix, uint32_t slot, uint32_t generation);
/* Fills an empty tree from n slots that hold their content already, in the order of their start.
 * Checked: ASYMREG_EOVERLAP, nothing done. */
int asymreg__index_build(struct asymreg_index *ix, const uint32_t *order, size_t n);

/* The region that this names, if it holds the address and is there: without a search. As
 * asymreg_index_lookup(). */
const struct asymreg_region *asymreg__index_at(struct asymreg_reader *reader, asymreg_id id,
                                               uint64_t addr);

/* Is there a registration of this name, wherever? */
int asymreg__index_lives(const struct asymreg_reader *reader, asymreg_id id);

/* Rewrites a slot under the eyes of readers. */
void asymreg__slot_write(struct asymreg__slot *slot, const struct asymreg__slot *content);

#endif
