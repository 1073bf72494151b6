/* SPDX-License-Identifier: BSD-3-Clause */
/* Sync of the user-level pager: blocks are taken, written by write.c, and released. */
#include "pager.h"

#include <string.h>
#include <sys/mman.h>

/* Pages that one slice of a sync covers: whole blocks, at most a quarter of the bound. */
uint64_t storwin__pager_slice(const struct storwin_window *win)
{
    const struct storwin__pager *p = win->pager;
    uint64_t blocks = p->max / 4;

    return (blocks ? blocks : 1) * p->block_pages;
}

/*
 * Blocks that a sync is about to write: stores count anew from here on. Protection alone would not
 * do where pages are pinned: what pins them does not fault. So they are moved to the stash, which
 * the kernel refuses for these, and come back as protected copies; a block that stays stays dirty,
 * and is written now and again by the next sync.
 */
static void copy_taken(struct storwin__pager *p, uint64_t block, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t at = storwin__block_addr(p, block + i),
                       bytes = storwin__blocks_bytes(p, block + i, n - i);
        const uint64_t done = storwin__uffd_move(p->uffd, (uint64_t)(uintptr_t)p->stash, at, bytes);
        const uint64_t whole = done == bytes ? bytes : done / p->block_bytes * p->block_bytes;

        if (whole > 0) {
            storwin__uffd_copy(p->uffd, p->stash, at, whole, 1, p->win->page_bytes);
            (void)madvise(p->stash, (size_t)whole, MADV_DONTNEED);
        }
        if (done == bytes)
            return;
        if (done > whole)
            storwin__stash_return(p, at + whole, p->stash + whole, done - whole);
        i += whole / p->block_bytes;
        p->state[block + i] |= DIRTY;
    }
}

/* What cannot be protected stays dirty too. */
static void protect_taken(struct storwin__pager *p, uint64_t block, uint64_t n)
{
    if (p->stash)
        copy_taken(p, block, n);
    else if (storwin__blocks_protect(p, block, n, 1) < 0)
        for (uint64_t i = block; i < block + n; i++)
            p->state[i] |= DIRTY;
}

/*
 * Sets the bits of the pages in dirty blocks of [first, end), and of no others. With `pin` these
 * blocks count as clean from now on and stay present until storwin__pager_release().
 */
void storwin__pager_take(struct storwin_window *win, uint64_t first, uint64_t end, int pin)
{
    struct storwin__pager *p = win->pager;
    const uint64_t stop = storwin__round_up(end, p->block_pages) / p->block_pages;
    const uint64_t pages = storwin__pages(win),
                   most = p->stash ? p->sync_stash / p->block_bytes : UINT64_MAX;
    uint64_t run = 0; /* blocks before b that wait for their protection */

    pthread_mutex_lock(&p->lock);
    for (uint64_t b = first / p->block_pages; b < stop; b++) {
        uint64_t page = b * p->block_pages, page_end = storwin__min(page + p->block_pages, pages);
        int dirty = (p->state[b] & (DIRTY | BUSY)) == DIRTY;

        if (run > 0 && (!dirty || run == most)) {
            /* before the lock is let go, since stores into these no longer count */
            protect_taken(p, b - run, run);
            run = 0;
            if (p->stash) { /* faults have waited */
                pthread_mutex_unlock(&p->lock);
                pthread_mutex_lock(&p->lock);
            }
        }
        while ((p->state[b] & BUSY) && !p->stopping)
            pthread_cond_wait(&p->idle, &p->lock);
        storwin__bits_clear(win, page, page_end);
        if (!(p->state[b] & DIRTY))
            continue;
        storwin__bits_set(win, page, page_end);
        if (pin) {
            p->state[b] = (uint8_t)((p->state[b] & ~DIRTY) | PINNED);
            run++;
        }
    }
    if (run > 0)
        protect_taken(p, stop - run, run);
    pthread_mutex_unlock(&p->lock);
}

/* The pages whose bits are still set were not written: their blocks are dirty again. */
void storwin__pager_release(struct storwin_window *win, uint64_t first, uint64_t end)
{
    struct storwin__pager *p = win->pager;
    const uint64_t stop = storwin__round_up(end, p->block_pages) / p->block_pages;
    const uint64_t pages = storwin__pages(win);

    pthread_mutex_lock(&p->lock);
    for (uint64_t b = first / p->block_pages; b < stop; b++) {
        uint64_t page = b * p->block_pages, page_end = storwin__min(page + p->block_pages, pages);

        if (!(p->state[b] & PINNED))
            continue;
        p->state[b] &= (uint8_t)~PINNED;
        if (storwin__bits_next(win, page, page_end, 1) < page_end)
            p->state[b] |= DIRTY;
        storwin__bits_clear(win, page, page_end);
    }
    pthread_cond_broadcast(&p->idle);
    pthread_mutex_unlock(&p->lock);
}

/* The span of pages that evictions wrote since the last call, and that are still to be flushed; 0:
 * there are none. */
int storwin__pager_evicted(struct storwin_window *win, uint64_t *first, uint64_t *end)
{
    struct storwin__pager *p = win->pager;

    pthread_mutex_lock(&p->lock);
    *first = p->evicted_lo;
    *end = p->evicted_hi;
    p->evicted_hi = 0;
    pthread_mutex_unlock(&p->lock);
    return *end > 0;
}

/* What evictions could not write since the last sync. */
void storwin__pager_failure(struct storwin_window *win, struct storwin__failure *fail)
{
    struct storwin__pager *p = win->pager;

    pthread_mutex_lock(&p->lock);
    if (p->fail.code < 0)
        storwin__failure_add(fail, p->fail.code, p->fail.lo, p->fail.hi);
    memset(&p->fail, 0, sizeof(p->fail));
    pthread_mutex_unlock(&p->lock);
}
