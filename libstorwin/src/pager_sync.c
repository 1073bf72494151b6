/* SPDX-License-Identifier: BSD-3-Clause */
/* Sync of the user pager: takes blocks, has write.c write them, and releases them. */
#include "pager.h"

#include <string.h>
#include <sys/mman.h>

/* Returns the pages of one slice of a sync: whole blocks, at most a quarter of the budget. */
uint64_t storwin__pager_slice(const struct storwin_window *win)
{
    const struct storwin__pager *p = win->pager;
    uint64_t blocks = p->max / 4;

    return (blocks ? blocks : 1) * p->block_pages;
}

/* Keeps a page dirty whose stores cannot be seen: this sync and the next one write it. */
static void stays_dirty(struct storwin__pager *p, uint64_t page)
{
    storwin__set_add(p->win->dirty, page, page + 1);
    storwin__pages_touch(p, page, page + 1, 1);
    p->state[page / p->block_pages] |= DIRTY;
}

/*
 * Protects pages before a sync writes them: later stores count for the next sync. Protection alone
 * is not enough for pinned pages: a device or system call stores into them without a fault. So this
 * moves pages to the stash, which the kernel refuses for pinned pages, and puts protected copies in
 * their place. A page that cannot be moved remains dirty: this sync and the next one write it.
 */
static void copy_taken(struct storwin__pager *p, uint64_t block, uint64_t n)
{
    const uint64_t unit = p->win->page_bytes, end = storwin__block_end(p, block + n - 1);
    uint64_t page = block * p->block_pages;

    while ((page = storwin__set_next(p->win->dirty, page, end, 1)) < end) {
        const uint64_t stop = storwin__min(storwin__set_next(p->win->dirty, page, end, 0),
                                           page + p->sync_stash / unit),
                       at = (uint64_t)(uintptr_t)p->base + page * unit;
        const uint64_t done =
            storwin__uffd_move(p->uffd, (uint64_t)(uintptr_t)p->stash, at, (stop - page) * unit);

        if (done > 0) {
            storwin__uffd_copy(p->uffd, p->stash, at, done, 1, unit);
            (void)madvise(p->stash, (size_t)done, MADV_DONTNEED);
        }
        page += done / unit;
        if (page < stop)
            stays_dirty(p, page++);
    }
}

/* Protects blocks. A taken page that cannot be protected stays dirty too. */
static void protect_taken(struct storwin__pager *p, uint64_t block, uint64_t n)
{
    const uint64_t unit = p->win->page_bytes, end = storwin__block_end(p, block + n - 1);
    uint64_t page = block * p->block_pages;

    if (p->stash)
        copy_taken(p, block, n);
    else if (storwin__blocks_protect(p, block, n, 1) < 0) /* perhaps only one of them */
        for (; (page = storwin__set_next(p->win->dirty, page, end, 1)) < end; page++)
            if (storwin__uffd_protect(p->uffd, (uint64_t)(uintptr_t)p->base + page * unit, unit,
                                      1) < 0)
                stays_dirty(p, page);
}

/* Sets the bits of touched pages: these will be written. */
static void set_bits(struct storwin__pager *p, uint64_t page, uint64_t end)
{
    for (; page < end; page++)
        if (storwin__page_touched(p, page))
            storwin__set_add(p->win->dirty, page, page + 1);
}

/*
 * Sets the bits of the touched pages in the blocks of [first, end), and no others. These blocks
 * count as clean from now on and stay present until storwin__pager_release().
 */
void storwin__pager_take(struct storwin_window *win, uint64_t first, uint64_t end)
{
    struct storwin__pager *p = win->pager;
    const uint64_t stop = storwin__round_up(end, p->block_pages) / p->block_pages;
    const uint64_t most = p->stash ? p->sync_stash / p->block_bytes : UINT64_MAX;
    /* A resident window's clean pages are protected already: with them, ranges are fewer. */
    const uint64_t gap = p->bounces ? 0 : 16;
    uint64_t clean = 0, run = 0; /* blocks before b: clean; that still need protection */

    pthread_mutex_lock(&p->lock);
    for (uint64_t b = first / p->block_pages; b < stop; b++) {
        uint64_t page = b * p->block_pages, page_end = storwin__block_end(p, b);
        int dirty = (p->state[b] & (DIRTY | BUSY)) == DIRTY;

        clean = dirty ? 0 : clean + 1;
        if (run > 0 && (clean > gap || run == most)) {
            /* protect them before releasing the lock: stores into them no longer count */
            protect_taken(p, b - run, run);
            run = 0;
            if (p->stash) { /* faults have waited */
                pthread_mutex_unlock(&p->lock);
                pthread_mutex_lock(&p->lock);
            }
        }
        while ((p->state[b] & BUSY) && !p->stopping)
            pthread_cond_wait(&p->idle, &p->lock);
        storwin__set_remove(win->dirty, page, page_end);
        if (!(p->state[b] & DIRTY)) {
            run += run > 0;
            continue;
        }
        set_bits(p, page, page_end);
        storwin__pages_touch(p, page, page_end, 0);
        p->state[b] = (uint8_t)((p->state[b] & ~DIRTY) | PINNED);
        run++;
    }
    if (run > 0)
        protect_taken(p, stop - run, run);
    pthread_mutex_unlock(&p->lock);
}

/* Marks blocks dirty again if they have pages whose bits are still set: these were not written. */
void storwin__pager_release(struct storwin_window *win, uint64_t first, uint64_t end)
{
    struct storwin__pager *p = win->pager;
    const uint64_t stop = storwin__round_up(end, p->block_pages) / p->block_pages;

    pthread_mutex_lock(&p->lock);
    for (uint64_t b = first / p->block_pages; b < stop; b++) {
        uint64_t page = b * p->block_pages, page_end = storwin__block_end(p, b), next = page;

        if (!(p->state[b] & PINNED))
            continue;
        p->state[b] &= (uint8_t)~PINNED;
        while ((next = storwin__set_next(win->dirty, next, page_end, 1)) < page_end) {
            storwin__pages_touch(p, next, next + 1, 1);
            p->state[b] |= DIRTY;
            next++;
        }
        storwin__set_remove(win->dirty, page, page_end);
    }
    pthread_cond_broadcast(&p->idle);
    pthread_mutex_unlock(&p->lock);
}

/* Sets the bits of all touched pages, and takes no block. */
void storwin__pager_peek(struct storwin_window *win)
{
    struct storwin__pager *p = win->pager;

    pthread_mutex_lock(&p->lock);
    storwin__set_merge(win->dirty, p->touched, storwin__pages(win));
    pthread_mutex_unlock(&p->lock);
}

/* Marks pages as stored into, and removes their protection: the kernel is about to read into them,
 * and may not be allowed to fault (UFFD_USER_MODE_ONLY). */
void storwin__pager_unprotect(struct storwin_window *win, uint64_t first, uint64_t end)
{
    struct storwin__pager *p = win->pager;

    pthread_mutex_lock(&p->lock);
    for (uint64_t page = first; page < end; page++) {
        if (storwin__page_touched(p, page))
            continue;
        storwin__pages_touch(p, page, page + 1, 1);
        p->state[page / p->block_pages] |= DIRTY;
        /* It fails where the program has unmapped the page: then the read fails, too. */
        (void)storwin__uffd_protect(p->uffd, (uint64_t)(uintptr_t)p->base + page * win->page_bytes,
                                    win->page_bytes, 0);
    }
    pthread_mutex_unlock(&p->lock);
}

/* Gets the span of pages that evictions have written since the last call and no flush has covered.
 * Returns 0 if there is none. */
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

/* Adds the ranges that evictions could not write since the last sync. */
void storwin__pager_failure(struct storwin_window *win, struct storwin__failure *fail)
{
    struct storwin__pager *p = win->pager;

    pthread_mutex_lock(&p->lock);
    if (p->fail.code < 0)
        storwin__failure_add(fail, p->fail.code, p->fail.lo, p->fail.hi);
    memset(&p->fail, 0, sizeof(p->fail));
    pthread_mutex_unlock(&p->lock);
}

/* After a failure no data handed to the kernel counts as written: a full loop device, for one,
 * reports success for the first part of a request that it could not write whole. Marks everything
 * in memory as changed. */
void storwin__pager_distrust(struct storwin_window *win)
{
    struct storwin__pager *p = win->pager;

    pthread_mutex_lock(&p->lock);
    for (uint64_t b = 0; b < p->n_blocks; b++)
        if ((p->state[b] & (PRESENT | BUSY)) == PRESENT)
            storwin__block_dirty(p, b);
    pthread_mutex_unlock(&p->lock);
}
