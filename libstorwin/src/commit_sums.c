/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic commits: the checksums of blocks. Those of changed pages may be older than these pages: a
 * commit makes them as it writes. */
#include "commit.h"
#include "sum.h"

#include <string.h>

#define SLICE 1024u /* pages that a thread checksums at a time */

atomic_uint storwin__sum_min = 256; /* a thread's start takes as long as the sums of 60 pages */

uint64_t storwin__block_bytes(const struct storwin_window *win, uint64_t block)
{
    const uint64_t at = block * STORWIN__BLOCK;

    return at < win->stor_bytes ? storwin__min(STORWIN__BLOCK, win->stor_bytes - at) : 0;
}

/* Stores a block's sum. Returns whether it is another one. */
static int store_sum(struct storwin__commit *c, uint64_t block, uint64_t sum)
{
    const uint64_t old = c->sums[block];

    atomic_fetch_add_explicit(&c->total, sum - old, memory_order_relaxed);
    c->sums[block] = sum;
    return sum != old;
}

/* Recomputes the sums of a page's blocks. Returns whether any changed. `next` is the page of
 * the next call. */
static int page_resum(struct storwin_window *win, uint64_t page, uint64_t next)
{
    struct storwin__commit *c = win->commit;
    const uint64_t per_page = win->page_bytes / STORWIN__BLOCK;
    const uint8_t *at = win->source, *ahead = at + (next - page) * win->page_bytes;
    int differs = 0;

    STORWIN__IGNORE_READS(Begin);
    for (uint64_t b = page * per_page; b < storwin__min((page + 1) * per_page, c->n_blocks); b++)
        differs |= store_sum(c, b,
                             storwin__sum_ahead(at + b * STORWIN__BLOCK,
                                                (size_t)storwin__block_bytes(win, b), b,
                                                ahead + b * STORWIN__BLOCK));
    STORWIN__IGNORE_READS(End);
    return differs;
}

/* Copies a block for a write, with zeros behind it. */
void storwin__block_read(const struct storwin_window *win, uint64_t block, uint8_t *to)
{
    const size_t bytes = (size_t)storwin__block_bytes(win, block);

    STORWIN__IGNORE_READS(Begin);
    memcpy(to, win->source + block * STORWIN__BLOCK, bytes);
    STORWIN__IGNORE_READS(End);
    memset(to + bytes, 0, (size_t)STORWIN__BLOCK - bytes);
}

/* The same, and stores the sum of the copy. */
void storwin__block_copy(struct storwin_window *win, uint64_t block, uint8_t *to)
{
    const uint64_t page = block / (win->page_bytes / STORWIN__BLOCK);

    storwin__block_read(win, block, to);
    if (store_sum(win->commit, block,
                  storwin__sum(to, (size_t)storwin__block_bytes(win, block), block)))
        storwin__set_add(win->commit->changed, page, page + 1);
}

/* Copies the blocks of pages [page, end). */
void storwin__pages_copy(struct storwin_window *win, uint64_t page, uint64_t end, uint8_t *to)
{
    const uint64_t per_page = win->page_bytes / STORWIN__BLOCK;

    for (uint64_t b = page * per_page; b < storwin__min(end * per_page, win->commit->n_blocks); b++)
        storwin__block_copy(win, b, to + (b - page * per_page) * STORWIN__BLOCK);
}

/*
 * Gets the pages that a commit must write from copies, with the sums of the copies: [0, *first) and
 * [*last, the end). Only sums show stores into these pages. A store that comes after the sum and is
 * undone before the next one does not show, but the written data could contain it.
 */
void storwin__copied_pages(const struct storwin_window *win, uint64_t *first, uint64_t *last)
{
    *first = 0;
    *last = storwin__pages(win);
    if (!win->commit || win->commit->picture)
        return;
    if (win->track == STORWIN_TRACK_COMPARED)
        *first = *last;
    else
        storwin__edges(win, first, last);
}

/* Marks pages of [first, end), all or those in `set`, as changed if their sum differs. Returns
 * whether there are any. */
int storwin__compare_pages(struct storwin_window *win, const atomic_uint_least64_t *set,
                           uint64_t first, uint64_t end)
{
    uint64_t next = set ? storwin__set_next(set, first, end, 1) : first;
    int any = 0;

    for (uint64_t p = next; p < end; p = next) {
        next = set ? storwin__set_next(set, p + 1, end, 1) : p + 1;
        if (page_resum(win, p, next < end ? next : p)) {
            storwin__set_add(win->commit->changed, p, p + 1);
            any = 1;
        }
    }
    return any;
}

struct comparison {
    struct storwin_window *win;
    const atomic_uint_least64_t *set;
    atomic_uint_least64_t next;
    atomic_int any;
};

static void compare_slices(void *ctx)
{
    struct comparison *job = ctx;
    const uint64_t pages = storwin__pages(job->win);
    uint64_t first;

    while ((first = atomic_fetch_add_explicit(&job->next, SLICE, memory_order_relaxed)) < pages) {
        const uint64_t end = storwin__min(first + SLICE, pages);

        if (storwin__compare_pages(job->win, job->set, first, end))
            atomic_store_explicit(&job->any, 1, memory_order_relaxed);
    }
}

/* storwin__compare_pages() in parallel, over all pages or over `set`. */
int storwin__compare(struct storwin_window *win, const atomic_uint_least64_t *set)
{
    struct comparison job = {.win = win, .set = set};
    const uint64_t pages = storwin__pages(win);
    const uint64_t n = (set ? storwin__set_count(set, 0, pages) : pages) / SLICE;

    storwin__parallel((unsigned)storwin__min(n, storwin__threads(win)), compare_slices, &job);
    return atomic_load(&job.any);
}

static void *sum_pages(void *arg)
{
    const struct storwin__summing *s = arg;

    (void)storwin__compare(s->win, s->set);
    return NULL;
}

/*
 * Begins to sum the pages of `set`, which a commit is about to write, in a thread of its own: the
 * device works meanwhile. If a store into the window makes a sum and what is written differ, the
 * search for stores at the end of the commit finds it. Omits pages whose sums are those of copies:
 * the edges, and all of a window that is compared.
 */
void storwin__sum_start(struct storwin__summing *s, struct storwin_window *win,
                        const atomic_uint_least64_t *set)
{
    const uint64_t pages = storwin__pages(win);
    uint64_t first, last;

    *s = (struct storwin__summing){.win = win};
    if (win->track == STORWIN_TRACK_COMPARED)
        return;
    if (storwin__threads(win) > 1 &&
        storwin__set_count(set, 0, pages) >= atomic_load(&storwin__sum_min))
        s->set = storwin__set_alloc(win);
    storwin__edges(win, &first, &last);
    if (s->set) {
        storwin__set_merge(s->set, set, pages);
        storwin__set_remove(s->set, 0, first);
        storwin__set_remove(s->set, last, pages);
        if (storwin__thread(&s->thread, sum_pages, s) == 0)
            return;
        storwin__free(win->opts.allocator, s->set);
        s->set = NULL;
    }
    /* without a thread: before the writes */
    (void)storwin__compare_pages(win, set, first, last);
}

void storwin__sum_finish(const struct storwin__summing *s)
{
    if (s->set) {
        pthread_join(s->thread, NULL);
        storwin__free(s->win->opts.allocator, s->set);
    }
}
