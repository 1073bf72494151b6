/* SPDX-License-Identifier: BSD-3-Clause */
/* The two areas of atomic commits: updates the area that is not home, and makes it home. */
#include "commit.h"

#include <string.h>

/* Unchanged pages between two changed ones that are written with them: a request takes the time of
 * about so many pages, and the processor time of twice as many. */
#define GAP 4u

static void fill_gaps(atomic_uint_least64_t *set, uint64_t pages)
{
    uint64_t page = storwin__set_next(set, 0, pages, 1);

    while (page < pages) {
        const uint64_t stop = storwin__set_next(set, page, pages, 0);

        page = storwin__set_next(set, stop, pages, 1);
        if (page < pages && page - stop <= GAP)
            storwin__set_add(set, stop, page);
    }
}

/* Adds all pages that a flip writes: what changed, and what the other area lacks. Few large
 * requests are faster than many small ones, so it adds gaps too, or all pages if most must be
 * written; but not if the program has protected or unmapped a page. */
void storwin__flip_pages(const struct storwin_window *win, atomic_uint_least64_t *set)
{
    const struct storwin__commit *c = win->commit;
    const uint64_t pages = storwin__pages(win);

    storwin__set_merge(set, c->changed, pages);
    storwin__set_merge(set, c->behind, pages);
    if (c->whole)
        storwin__set_add(set, 0, pages);
    if (c->whole || !storwin__all_readable(win))
        return;
    if (storwin__set_count(set, 0, pages) >= pages - pages / 4)
        storwin__set_add(set, 0, pages);
    else
        fill_gaps(set, pages);
}

/* Writes the pages of c->behind, which storwin__flip_pages() has completed, and flushes; *next is
 * the record that makes it home. */
int storwin__commit_flip(struct storwin_window *win, uint64_t generation,
                         struct storwin__record *next, struct storwin__failure *fail)
{
    struct storwin__commit *c = win->commit;
    const uint64_t pages = storwin__pages(win);
    atomic_uint_least64_t *dirty = win->dirty;
    const uint32_t area = c->last.seq > 0 && c->last.base == c->base ? 1 - c->last.home : 0;

    /* Recompute the sums of all pages to write: an unreported store must not invalidate the whole
     * area. */
    if (win->track != STORWIN_TRACK_COMPARED)
        (void)storwin__compare(win, c->behind, c->changed);
    storwin__set_merge(c->behind, c->changed, pages);
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
        storwin__set_add(c->behind, 0, pages);
    return fail->code;
}
