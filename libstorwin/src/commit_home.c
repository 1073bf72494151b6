/* SPDX-License-Identifier: BSD-3-Clause */
/* The areas of atomic commits: updates the one that is needed least, and makes it home. */
#include "commit.h"

#include <string.h>

/* Returns the area for the next state: one that no record needs, else that of the record which the
 * next one replaces. */
uint32_t storwin__commit_area(const struct storwin__commit *c)
{
    uint32_t needed = 0, area = 0;

    for (uint32_t place = 0; place < c->areas; place++)
        if (c->at[place].seq > 0 && c->at[place].base == c->base)
            needed |= 1u << c->at[place].home;
    while (area < c->areas && (needed >> area & 1))
        area++;
    return area < c->areas ? area : c->at[c->place].home;
}

/* A record is in the file, and the last one; the next one goes to the place of the oldest. */
void storwin__place_record(struct storwin__commit *c, const struct storwin__record *r)
{
    c->at[r->place] = *r;
    c->last = *r;
    c->place = r->place == 0;
    for (uint32_t place = 0; place < c->areas; place++)
        if (place != r->place && c->at[place].seq < c->at[c->place].seq)
            c->place = place;
}

/* Unchanged pages between two changed ones that are written with them: a request takes the
 * processor time of about so many, with their sums, and the time of half as many. */
#define FILL_GAP 8u

static void fill_gaps(atomic_uint_least64_t *set, uint64_t pages)
{
    uint64_t page = storwin__set_next(set, 0, pages, 1);

    while (page < pages) {
        const uint64_t stop = storwin__set_next(set, page, pages, 0);

        page = storwin__set_next(set, stop, pages, 1);
        if (page < pages && page - stop <= FILL_GAP)
            storwin__set_add(set, stop, page);
    }
}

/* Adds all pages that a flip writes: what the next area lacks. Few large requests are faster than
 * many small ones, so it adds gaps too, or all pages if most must be written; but not if the
 * program has protected or unmapped a page. */
void storwin__flip_pages(const struct storwin_window *win, atomic_uint_least64_t *set)
{
    const struct storwin__commit *c = win->commit;
    const uint64_t pages = storwin__pages(win);

    storwin__set_merge(set, c->lacks[storwin__commit_area(c)], pages);
    if (!storwin__all_readable(win))
        return;
    if (storwin__set_count(set, 0, pages) >= pages - pages / 4)
        storwin__set_add(set, 0, pages);
    else
        fill_gaps(set, pages);
}

/* Writes the pages that the next area lacks, which storwin__flip_pages() has completed, and
 * flushes; *next is the record that makes it home. */
int storwin__commit_flip(struct storwin_window *win, uint64_t generation,
                         struct storwin__record *next, struct storwin__failure *fail)
{
    struct storwin__commit *c = win->commit;
    const uint64_t pages = storwin__pages(win);
    atomic_uint_least64_t *dirty = win->dirty;
    const uint32_t area = storwin__commit_area(c);
    atomic_uint_least64_t *lacks = c->lacks[area];
    struct storwin__summing sums;

    memset(next, 0, sizeof(*next));
    next->layout = c->areas == 2 ? STORWIN__RECORD_LAYOUT : c->areas;
    next->home = area;
    next->bytes = win->stor_bytes;
    next->base = c->base;
    next->cap = c->cap;
    next->generation = next->home_generation = generation;
    next->epoch = c->newest_seq + 1;
    win->file_base = win->opts.offset_bytes + storwin__area_at(next, area);
    /* All pages, not only changed ones: an unreported store must not invalidate the whole area. */
    storwin__sum_start(&sums, win, lacks);
    win->dirty = lacks; /* writing a page clears its bit */
    (void)storwin__write_pages(win, 0, pages, 0, fail);
    win->dirty = dirty;
    storwin__sum_finish(&sums);
    next->data_sum = next->home_sum = c->total;
    if (fail->code < 0) /* the area is invalid: the next commit writes all of it */
        storwin__set_add(lacks, 0, pages);
    return fail->code;
}
