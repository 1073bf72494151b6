/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The user pager: private memory with a bounded number of present blocks. Handler threads serve the
 * faults of userfaultfd and fill blocks from the file; evictor threads keep some room free, oldest
 * blocks first.
 *
 * A page is write-protected until the first store. That store faults, and the handler marks the
 * page touched and its block dirty. For sequential stores it also marks some pages ahead as
 * touched. Syncs and evictions write only touched pages.
 *
 * Eviction makes the block BUSY (faults on it wait until it is not), moves it to a place that only
 * the evictor knows, writes it if it was dirty, and drops it. The kernel refuses to move pinned
 * pages, into which a device or system call may store past the page tables: such a block stays, and
 * counts as dirty. Before Linux 6.8 a block cannot be moved; the evictor protects it again, writes
 * it in place and drops it, and such stores are lost.
 *
 * A sync protects dirty blocks, and keeps them (PINNED) while it writes them: stores continue, and
 * mark the block dirty again.
 *
 * The thread that ends a BUSY state wakes the threads that wait for the block, and they fault
 * again. So a handler may drop a fault on a BUSY block.
 *
 * On kernels without PAGEMAP_SCAN the resident pager uses the store tracking of this pager: every
 * block is present, and none is evicted.
 */
#ifndef STORWIN_PAGER_H
#define STORWIN_PAGER_H

#include "internal.h"
#include "uffd.h"

/* States of a block. */
#define PRESENT  1u  /* filled */
#define BUSY     2u  /* being filled or evicted */
#define DIRTY    4u  /* may differ from the file */
#define PINNED   8u  /* being written by a sync: stays */
#define POISONED 16u /* unreadable */

#define STORWIN__AHEAD_BYTES (UINT64_C(1) << 20) /* most bytes to read for one fault */
#define STORWIN__EVICT_BATCH 64u                 /* blocks that one evictor takes at a time */
#define STORWIN__STREAMS     8u                  /* sequential readers that it distinguishes */
#define STORWIN__MAX_WORKERS 64u

struct storwin__pager {
    struct storwin_window *win;
    uint8_t *base;
    /* pages: of the span; a revert changes the window's own while handlers run */
    uint64_t block_bytes, n_blocks, block_pages, pages;
    uint64_t max, keep_free; /* blocks */
    int uffd, stop_fd;
    uint32_t user_faults_only, can_poison, can_move;
    /* destination of moved blocks: the sync's place, then each evictor's; NULL: blocks cannot be
     * moved */
    uint8_t *stash;
    size_t sync_stash, evictor_stash, all_stash; /* bytes */
    /* memory into which each handler reads blocks; NULL if nothing is read */
    uint8_t *bounces;
    size_t bounce, all_bounces; /* bytes of one, of all */
    atomic_uint n_evictors, n_handlers;
    pthread_t workers[STORWIN__MAX_WORKERS];
    unsigned n_workers;
    pthread_mutex_t lock; /* protects everything below */
    pthread_cond_t room, pressure,
        idle;       /* a block was evicted; room is short; a block is no longer BUSY or PINNED */
    uint8_t *state; /* n_blocks */
    /* a bit for each page: set only in dirty blocks; evictors read those of their blocks without
     * the lock */
    atomic_uint_least64_t *touched;
    uint32_t *ring; /* present blocks, oldest first */
    uint64_t ring_cap, ring_head, ring_len;
    uint64_t resident;   /* blocks present or being filled */
    int stopping, stuck; /* stuck: evictions fail, so the budget is exceeded */
    uint64_t fruitless;  /* blocks that could not be evicted since the last one that could */
    struct storwin__failure fail;
    /* span of pages that evictions have written and no flush has covered; hi 0: none */
    uint64_t evicted_lo, evicted_hi;
    uint64_t expect[STORWIN__STREAMS], ahead[STORWIN__STREAMS];
    unsigned stream;
    atomic_uint_least64_t n_faults, read_bytes, resident_bytes, n_pinned;
};

static inline uint64_t storwin__block_addr(const struct storwin__pager *p, uint64_t block)
{
    return (uint64_t)(uintptr_t)p->base + block * p->block_bytes;
}

/* Bytes of n blocks, whole pages; the last block may be short. */
static inline uint64_t storwin__blocks_bytes(const struct storwin__pager *p, uint64_t block,
                                             uint64_t n)
{
    uint64_t all = p->pages * p->win->page_bytes, at = block * p->block_bytes;

    return storwin__min(n * p->block_bytes, all - at);
}

static inline void storwin__blocks_wake(const struct storwin__pager *p, uint64_t block, uint64_t n)
{
    storwin__uffd_wake(p->uffd, storwin__block_addr(p, block), storwin__blocks_bytes(p, block, n));
}

static inline int storwin__blocks_protect(const struct storwin__pager *p, uint64_t block,
                                          uint64_t n, int on)
{
    return storwin__uffd_protect(p->uffd, storwin__block_addr(p, block),
                                 storwin__blocks_bytes(p, block, n), on);
}

/* Marks pages [first, end) as touched or untouched: touched ones may differ from the file. */
static inline void storwin__pages_touch(struct storwin__pager *p, uint64_t first, uint64_t end,
                                        int touched)
{
    for (; first < end; first++) {
        const uint64_t bit = UINT64_C(1) << first % 64;

        if (touched)
            atomic_fetch_or_explicit(&p->touched[first / 64], bit, memory_order_relaxed);
        else
            atomic_fetch_and_explicit(&p->touched[first / 64], ~bit, memory_order_relaxed);
    }
}

static inline int storwin__page_touched(const struct storwin__pager *p, uint64_t page)
{
    return (int)(atomic_load_explicit(&p->touched[page / 64], memory_order_relaxed) >> page % 64 &
                 1);
}

static inline uint64_t storwin__block_end(const struct storwin__pager *p, uint64_t block)
{
    return storwin__min((block + 1) * p->block_pages, p->pages);
}

/* Marks the whole block dirty. */
static inline void storwin__block_dirty(struct storwin__pager *p, uint64_t block)
{
    p->state[block] |= DIRTY;
    storwin__pages_touch(p, block * p->block_pages, storwin__block_end(p, block), 1);
}

static inline void storwin__pager_set_resident(struct storwin__pager *p, uint64_t blocks)
{
    p->resident = blocks;
    atomic_store_explicit(&p->resident_bytes, blocks * p->block_bytes, memory_order_relaxed);
}

/* pager_fault.c */
void *storwin__pager_handler(void *pager);

/* pager_evict.c */
void *storwin__pager_evictor(void *pager);
void storwin__pager_push(struct storwin__pager *p, uint64_t block);

/* pager_stash.c */
void storwin__stash_open(struct storwin__pager *p, unsigned evictors);
void storwin__stash_return(const struct storwin__pager *p, uint64_t to, uint8_t *stash,
                           uint64_t bytes);

#endif
