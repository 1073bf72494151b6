/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The user-level pager: private memory of which a bounded number of blocks is present. Handler
 * threads take the faults of userfaultfd and fill blocks from the file; evictor threads keep some
 * room free, oldest blocks first.
 *
 * A page is write-protected until it is stored into; that store faults, and marks the page as
 * touched and its block dirty. Where stores follow each other, some pages ahead are touched with
 * it. Only touched pages are written.
 *
 * To evict, the block is BUSY (faults on it wait until it is not), moved to a place that only the
 * evictor knows, written if it was dirty, and dropped. The kernel does not move pages that
 * something has pinned to store into them past the page tables: such a block stays, and counts as
 * dirty. Before Linux 6.8 a block cannot be moved; it is protected again, written in its place and
 * dropped, and such stores are lost. A sync protects dirty blocks, and keeps them (PINNED) while
 * they are written: stores go on, and mark the block dirty anew. Whoever ends a BUSY state wakes
 * those who wait for the block, which then fault again; so a fault on a BUSY block may be
 * forgotten.
 *
 * The resident pager on kernels without PAGEMAP_SCAN uses the part of this that tracks stores:
 * every block is present, none is evicted.
 */
#ifndef STORWIN_PAGER_H
#define STORWIN_PAGER_H

#include "internal.h"
#include "uffd.h"

/* States of a block, and what happens to it. */
#define PRESENT  1u  /* filled */
#define BUSY     2u  /* being filled or evicted */
#define DIRTY    4u  /* may differ from the file */
#define PINNED   8u  /* being written by a sync: stays */
#define POISONED 16u /* could not be read */

#define STORWIN__AHEAD_BYTES (UINT64_C(1) << 20) /* most that is read for one fault */
#define STORWIN__EVICT_BATCH 64u                 /* blocks that one evictor takes at a time */
#define STORWIN__STREAMS     8u                  /* sequential readers told apart */
#define STORWIN__MAX_WORKERS 64u

struct storwin__pager {
    struct storwin_window *win;
    uint8_t *base;
    uint64_t block_bytes, n_blocks, block_pages;
    uint64_t max, keep_free; /* blocks */
    int uffd, stop_fd;
    uint32_t user_faults_only, can_poison, can_move;
    uint8_t *stash; /* where blocks are moved to: of the sync, then of each evictor; NULL: they
                       cannot be moved */
    size_t sync_stash, evictor_stash, all_stash; /* bytes */
    uint8_t *bounces; /* where blocks are read to: of each handler; NULL where nothing is read */
    size_t bounce, all_bounces; /* bytes of one, of all */
    atomic_uint n_evictors, n_handlers;
    pthread_t workers[STORWIN__MAX_WORKERS];
    unsigned n_workers;
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t room, pressure,
        idle;       /* a block was evicted; room is short; some block is BUSY or PINNED no more */
    uint8_t *state; /* n_blocks */
    atomic_uint_least64_t *touched; /* a bit for each page: set only in dirty blocks; evictors read
                                       those of their blocks without the lock */
    uint32_t *ring;                 /* present blocks, oldest first */
    uint64_t ring_cap, ring_head, ring_len;
    uint64_t resident;   /* blocks present or being filled */
    int stopping, stuck; /* stuck: evictions fail, so the bound gives way */
    uint64_t fruitless;  /* blocks that could not be evicted since the last that could */
    struct storwin__failure fail;
    uint64_t evicted_lo, evicted_hi; /* span of pages that were written by evictions and not flushed
                                        since; hi 0: none */
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
    uint64_t all = storwin__pages(p->win) * p->win->page_bytes, at = block * p->block_bytes;

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

/* Pages [first, end) may differ from the file; or they do not. */
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
    return storwin__min((block + 1) * p->block_pages, storwin__pages(p->win));
}

/* The block is dirty, all of it. */
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
