/* SPDX-License-Identifier: BSD-3-Clause */
/* The two areas of atomic commits: updates the area that is not home, and makes it home. */
#include "commit.h"

#include <string.h>

/* Adds all pages that a flip writes: what changed, and what the other area lacks. If most pages
 * must be written, one large write is faster than many small ones. */
void storwin__flip_pages(const struct storwin_window *win, atomic_uint_least64_t *set)
{
    const struct storwin__commit *c = win->commit;
    const uint64_t pages = storwin__pages(win);

    storwin__set_merge(set, c->changed, pages);
    storwin__set_merge(set, c->behind, pages);
    if (c->whole || storwin__set_count(set, 0, pages) >= pages - pages / 4)
        storwin__set_add(set, 0, pages);
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

    storwin__flip_pages(win, c->behind);
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
