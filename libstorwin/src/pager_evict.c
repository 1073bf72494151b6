/* SPDX-License-Identifier: BSD-3-Clause */
/* Eviction by the user pager: moves the oldest blocks away, writes them if they are dirty, and
 * drops them. */
#include "pager.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

/* Appends a block to the ring. The ring grows to hold every present block, also beyond the budget.
 * If it cannot grow, the block is never evicted. */
void storwin__pager_push(struct storwin__pager *p, uint64_t block)
{
    if (p->ring_len == p->ring_cap) {
        uint32_t *grown =
            storwin__realloc(p->win->opts.allocator, NULL, p->ring_cap * 2 * sizeof(*grown));

        if (!grown)
            return;
        for (uint64_t i = 0; i < p->ring_len; i++)
            grown[i] = p->ring[(p->ring_head + i) % p->ring_cap];
        storwin__free(p->win->opts.allocator, p->ring);
        p->ring = grown;
        p->ring_head = 0;
        p->ring_cap *= 2;
    }
    p->ring[(p->ring_head + p->ring_len++) % p->ring_cap] = (uint32_t)block;
}

static uint64_t ring_pop(struct storwin__pager *p)
{
    uint64_t block = p->ring[p->ring_head];

    p->ring_head = (p->ring_head + 1) % p->ring_cap;
    p->ring_len--;
    return block;
}

struct victim {
    uint64_t block;
    unsigned dirty, failed; /* failed: stays, and counts as dirty */
};

/* Moves neighbouring victims to their places in the stash. A pinned one stays. */
static void move_away(struct storwin__pager *p, uint8_t *stash, struct victim *victims, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const uint64_t from = storwin__block_addr(p, victims[i].block),
                       bytes = storwin__blocks_bytes(p, victims[i].block, n - i);
        const uint64_t done = storwin__uffd_move(
            p->uffd, (uint64_t)(uintptr_t)(stash + i * p->block_bytes), from, bytes);

        if (done == bytes)
            return;
        i += (unsigned)(done / p->block_bytes);
        if (done % p->block_bytes > 0)
            storwin__stash_return(p, storwin__block_addr(p, victims[i].block),
                                  stash + i * p->block_bytes, done % p->block_bytes);
        victims[i].failed = 1;
        atomic_fetch_add_explicit(&p->n_pinned, 1, memory_order_relaxed);
    }
}

static int by_block(const void *a, const void *b)
{
    const struct victim *x = a, *y = b;

    return (x->block > y->block) - (x->block < y->block);
}

static unsigned choose_victims(struct storwin__pager *p, struct victim *victims)
{
    const uint64_t most = storwin__min(STORWIN__EVICT_BATCH, p->keep_free);
    unsigned n = 0;

    for (uint64_t tries = p->ring_len; tries > 0 && n < most; tries--) {
        uint64_t block = ring_pop(p);

        if (!(p->state[block] & PRESENT))
            continue;
        if (p->state[block] & (BUSY | PINNED)) {
            storwin__pager_push(p, block);
            continue;
        }
        victims[n].block = block;
        victims[n].dirty = (p->state[block] & DIRTY) != 0;
        victims[n].failed = 0;
        p->state[block] |= BUSY;
        n++;
    }
    return n;
}

/* Number of neighbouring victims from i on; with `alike`, of the same kind only. */
static unsigned run_length(const struct victim *victims, unsigned i, unsigned n, int alike)
{
    unsigned len = 1;

    while (i + len < n && victims[i + len].block == victims[i].block + len &&
           (!alike || (victims[i + len].dirty == victims[i].dirty &&
                       victims[i + len].failed == victims[i].failed)))
        len++;
    return len;
}

/* Records the lost range of a shortened file: an eviction's write behind its end makes the file
 * longer again, and would hide the loss from the next sync. */
static void note_cut(struct storwin_window *win, struct storwin__failure *fail)
{
    struct storwin__failure cut = {0, 0, 0};

    storwin__find_cut(win, win->stor_offset, win->stor_offset + win->stor_bytes, &cut);
    if (cut.code < 0)
        storwin__failure_add(fail, cut.code, cut.lo, cut.hi);
}

/* Writes the touched pages of n blocks, whose content is at `at`: all pages if most are touched. */
static int write_touched(struct storwin__pager *p, const uint8_t *at, uint64_t block, unsigned n,
                         struct storwin__failure *fail)
{
    const uint64_t begin = block * p->block_pages, end = storwin__block_end(p, block + n - 1);
    uint64_t touched = 0;
    int rc = 0;

    for (uint64_t i = begin; i < end; i++)
        touched += (uint64_t)storwin__page_touched(p, i);
    if (touched * 2 > end - begin)
        return storwin__write_through(p->win, at, begin, end - begin, fail);
    for (uint64_t i = begin, stop; rc == 0 && i < end; i = stop + 1) {
        for (stop = i; stop < end && storwin__page_touched(p, stop);)
            stop++;
        if (stop > i)
            rc = storwin__write_through(p->win, at + (i - begin) * p->win->page_bytes, i, stop - i,
                                        fail);
    }
    return rc;
}

/* Evicts neighbours of the same kind. They are in the stash, or in place if the stash is NULL. */
static void evict_run(struct storwin__pager *p, uint8_t *stash, struct victim *victims, unsigned n,
                      struct storwin__failure *fail)
{
    const uint64_t block = victims->block, bytes = storwin__blocks_bytes(p, block, n);
    uint8_t *at = stash ? stash : p->base + block * p->block_bytes;
    int rc = 0;

    if (victims->dirty && !stash)
        rc = storwin__blocks_protect(p, block, n, 1);
    if (victims->dirty && rc == 0)
        note_cut(p->win, fail);
    if (victims->dirty && rc == 0)
        rc = write_touched(p, at, block, n, fail);
    if (rc == 0)
        rc = madvise(at, (size_t)bytes, MADV_DONTNEED);
    if (rc < 0 && stash)
        storwin__stash_return(p, storwin__block_addr(p, block), stash, bytes);
    for (unsigned k = 0; rc < 0 && k < n; k++)
        victims[k].failed = 1;
}

static void evict_victims(struct storwin__pager *p, uint8_t *stash, struct victim *victims,
                          unsigned n, struct storwin__failure *fail)
{
    qsort(victims, n, sizeof(*victims), by_block);
    for (unsigned i = 0, len; stash && i < n; i += len) {
        len = run_length(victims, i, n, 0);
        move_away(p, stash + i * p->block_bytes, &victims[i], len);
    }
    for (unsigned i = 0, len; i < n; i += len) {
        len = run_length(victims, i, n, 1);
        if (!victims[i].failed)
            evict_run(p, stash ? stash + i * p->block_bytes : NULL, &victims[i], len, fail);
    }
}

static void note_evicted(struct storwin__pager *p, uint64_t block)
{
    const uint64_t lo = block * p->block_pages, hi = storwin__min(lo + p->block_pages, p->pages);

    p->evicted_lo = p->evicted_hi == 0 ? lo : storwin__min(lo, p->evicted_lo);
    p->evicted_hi = storwin__max(hi, p->evicted_hi);
}

static void retire_victims(struct storwin__pager *p, const struct victim *victims, unsigned n,
                           int failed_write)
{
    unsigned gone = 0;

    for (unsigned i = 0; i < n; i++) {
        if (victims[i].failed) {
            p->state[victims[i].block] = PRESENT;
            storwin__block_dirty(p, victims[i].block);
            storwin__pager_push(p, victims[i].block);
        } else {
            p->state[victims[i].block] = 0;
            storwin__pages_touch(p, victims[i].block * p->block_pages,
                                 storwin__block_end(p, victims[i].block), 0);
            gone++;
            if (victims[i].dirty)
                note_evicted(p, victims[i].block);
        }
    }
    storwin__pager_set_resident(p, p->resident - gone);
    p->fruitless = gone > 0 ? 0 : p->fruitless + n;
    p->stuck = gone == 0 && (failed_write || p->fruitless >= p->ring_len);
    pthread_cond_broadcast(&p->idle);
    pthread_cond_broadcast(&p->room);
    for (unsigned i = 0; i < n; i++)
        storwin__blocks_wake(p, victims[i].block, 1);
}

static void wait_a_while(struct storwin__pager *p)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20 * 1000 * 1000;
    if (until.tv_nsec >= 1000 * 1000 * 1000) {
        until.tv_nsec -= 1000 * 1000 * 1000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&p->idle, &p->lock, &until);
}

void *storwin__pager_evictor(void *arg)
{
    struct storwin__pager *p = arg;
    struct victim victims[STORWIN__EVICT_BATCH];
    const unsigned me = atomic_fetch_add(&p->n_evictors, 1);
    uint8_t *stash = p->stash ? p->stash + p->sync_stash + me * p->evictor_stash : NULL;

    pthread_mutex_lock(&p->lock);
    while (!p->stopping) {
        struct storwin__failure fail = {0, 0, 0};
        unsigned n;

        if (p->resident + p->keep_free <= p->max) {
            pthread_cond_wait(&p->pressure, &p->lock);
            continue;
        }
        n = choose_victims(p, victims);
        if (n == 0) { /* all are pinned or busy */
            wait_a_while(p);
            continue;
        }
        pthread_mutex_unlock(&p->lock);
        evict_victims(p, stash, victims, n, &fail);
        pthread_mutex_lock(&p->lock);
        retire_victims(p, victims, n, fail.code < 0);
        if (fail.code < 0)
            storwin__failure_add(&p->fail, fail.code, fail.lo, fail.hi);
        if (fail.code < 0 || p->stuck)
            wait_a_while(p);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}
