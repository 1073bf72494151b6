/* SPDX-License-Identifier: BSD-3-Clause */
/* The two areas of atomic commits: updates the area that is not home, and makes it home. */
#include "commit.h"

#include <string.h>

static void set_fill(atomic_uint_least64_t *set, uint64_t pages)
{
    storwin__set_add(set, 0, pages);
}

static void set_or(atomic_uint_least64_t *to, const atomic_uint_least64_t *from, uint64_t n_words)
{
    for (uint64_t i = 0; i < n_words; i++)
        atomic_fetch_or_explicit(&to[i], atomic_load_explicit(&from[i], memory_order_relaxed),
                                 memory_order_relaxed);
}

/* Writes the changes that the other area lacks, and flushes; *next is the record that makes it
 * home. */
int storwin__commit_flip(struct storwin_window *win, uint64_t generation,
                         struct storwin__record *next, struct storwin__failure *fail)
{
    struct storwin__commit *c = win->commit;
    const uint64_t pages = storwin__pages(win);
    atomic_uint_least64_t *dirty = win->dirty;
    const uint32_t area = c->last.seq > 0 && c->last.base == c->base ? 1 - c->last.home : 0;

    set_or(c->behind, c->changed, c->n_words);
    /* If most pages must be written, one large write is faster than many small ones. */
    if (c->whole || storwin__set_count(c->behind, pages) >= pages - pages / 4)
        set_fill(c->behind, pages);
    /* Recompute the sums of all pages to write: an unreported store must not invalidate the whole
     * area. */
    if (win->track != STORWIN_TRACK_COMPARED)
        (void)storwin__compare(win, win->track == STORWIN_TRACK_DECLARED ? NULL : c->behind,
                               c->changed);
    set_or(c->behind, c->changed, c->n_words);
    memset(next, 0, sizeof(*next));
    next->home = area;
    next->bytes = win->stor_bytes;
    next->base = c->base;
    next->cap = c->cap;
    next->generation = next->home_generation = generation;
    next->data_sum = next->home_sum = c->total;
    next->epoch = c->newest_seq + 1;
    win->file_base = win->opts.offset_bytes + storwin__area_at(next, area);
    win->dirty = c->behind; /* writing a page clears its bit */
    (void)storwin__write_pages(win, 0, pages, 0, fail);
    win->dirty = dirty;
    if (fail->code < 0) /* the area is invalid: the next commit writes all of it */
        set_fill(c->behind, pages);
    return fail->code;
}

/* Swaps the roles of the two areas. */
void storwin__commit_flipped(struct storwin__commit *c)
{
    set_or(c->since, c->changed, c->n_words);
    for (uint64_t i = 0; i < c->n_words; i++)
        atomic_store_explicit(&c->behind[i], atomic_exchange(&c->since[i], 0),
                              memory_order_relaxed);
    c->whole = 0;
}
