/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic commits: find the changes, write them to the journal or to an area, write the record. */
#include "commit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FLIP_PERCENT 40 /* STORWIN_ATOMIC_AUTO: from here on the area is cheaper */

static atomic_uint_least64_t *next_lacks(struct storwin_window *win)
{
    return win->commit->lacks[storwin__commit_area(win->commit)];
}

/* Marks pages as changed that the program has stored into since the last call with `protect`,
 * according to this process's page tables. Returns whether there are any. */
static int scan_stores(struct storwin_window *win, int protect)
{
    const uint64_t pages = storwin__pages(win);
    uint64_t first, last;
    int any;

    if (win->track == STORWIN_TRACK_FAULTS && protect)
        storwin__pager_take(win, 0, pages);
    else if (win->track == STORWIN_TRACK_FAULTS)
        storwin__pager_peek(win);
    else
        storwin__track_scan(win, 0, pages, protect);
    any = storwin__set_next(win->dirty, 0, pages, 1) < pages;
    storwin__set_merge(win->commit->changed, win->dirty, pages);
    storwin__set_remove(win->dirty, 0, pages);
    if (win->track == STORWIN_TRACK_FAULTS && protect)
        storwin__pager_release(win, 0, pages);
    storwin__edges(win, &first, &last);
    any |= storwin__compare_pages(win, NULL, 0, first);
    any |= storwin__compare_pages(win, NULL, last, pages);
    return any;
}

/* Updates the set of changed pages, which a commit writes. Without `protect` it costs no fault for
 * each to read into them. */
int storwin__find_changes(struct storwin_window *win, int protect, struct storwin_error *err)
{
    const int compared = win->track == STORWIN_TRACK_COMPARED;
    int rc = storwin__check_mapped(win, err);

    if (rc == 0 && !compared)
        (void)scan_stores(win, protect);
    if (rc == 0)
        rc = storwin__check_readable(win, compared ? NULL : win->commit->changed, err);
    if (rc == 0 && compared)
        (void)storwin__compare(win, NULL);
    return rc;
}

/* Finds the pages into which the program has stored since the last call, c->fresh, and marks them
 * as changed. Returns whether there are any. */
int storwin__find_stores(struct storwin_window *win)
{
    struct storwin__commit *c = win->commit;
    atomic_uint_least64_t *changed = c->changed;
    const uint64_t pages = storwin__pages(win);
    int any;

    storwin__set_remove(c->fresh, 0, pages);
    c->changed = c->fresh;
    any = win->track == STORWIN_TRACK_COMPARED ? storwin__compare(win, NULL) : scan_stores(win, 1);
    c->changed = changed;
    storwin__set_merge(c->changed, c->fresh, pages);
    storwin__set_merge(next_lacks(win), c->fresh, pages);
    return any;
}

/* Whether a commit of n_changed pages writes an area, and not the journal. */
int storwin__must_flip(const struct storwin_window *win, uint64_t n_changed)
{
    const struct storwin__commit *c = win->commit;

    return c->whole || win->opts.atomic == STORWIN_ATOMIC_SLOTS ||
           !storwin__journal_fits(win, n_changed) ||
           (win->opts.atomic == STORWIN_ATOMIC_AUTO &&
            n_changed * 100 >= storwin__pages(win) * FLIP_PERCENT);
}

/* Frees the space of areas that no record needs. */
static void free_old_areas(struct storwin_window *win)
{
    struct storwin__commit *c = win->commit;

    if (c->old_bytes == 0)
        return;
    for (uint32_t place = 0; place < c->areas; place++)
        if (c->at[place].seq > 0 && c->at[place].base != c->base)
            return;
    storwin__commit_punch(win, c->old_base, c->old_bytes);
    c->old_bytes = 0;
}

/* Writes the record of durable data. After a failure the record may be in the file or not, so
 * nothing that it needs changes before it has been written again. */
int storwin__write_pending(struct storwin_window *win, struct storwin_error *err)
{
    struct storwin__commit *c = win->commit;
    int rc;

    if (c->pending.seq == 0)
        return 0;
    rc = storwin__record_write(win, &c->pending, err);
    if (rc < 0)
        return rc;
    storwin__place_record(c, &c->pending);
    memset(&c->pending, 0, sizeof(c->pending));
    free_old_areas(win);
    return 0;
}

/* Prepares the record that makes a generation valid; its data are durable. */
static void prepare_record(struct storwin_window *win, const struct storwin__record *next, int flip)
{
    struct storwin__commit *c = win->commit;
    const uint64_t pages = storwin__pages(win);

    c->pending = *next;
    c->pending.seq = ++c->newest_seq;
    c->pending.place = c->place;
    c->pending.app_version = c->app_version;
    c->newest_generation = next->generation;
    for (uint32_t area = 0; area < c->areas; area++)
        storwin__set_merge(c->lacks[area], c->changed, pages);
    if (flip) {
        storwin__set_remove(c->lacks[next->home], 0, pages);
        c->whole = c->lost = 0;
    }
    storwin__set_remove(c->changed, 0, pages);
}

/* Writes the changes to the journal or to an area; *next is the record that makes them valid. */
static int write_changes(struct storwin_window *win, uint64_t n_changed, int flip,
                         uint64_t generation, struct storwin__record *next)
{
    struct storwin__failure fail = {0, 0, 0};

    if (flip)
        return storwin__commit_flip(win, generation, next, &fail);
    if (n_changed == 0) { /* a generation without changes */
        *next = win->commit->last;
        next->generation = generation;
        return 0;
    }
    atomic_fetch_add_explicit(&win->dirty_bytes, n_changed * win->page_bytes, memory_order_relaxed);
    return storwin__journal_append(win, generation, next);
}

/* If the file has been shortened, extends it to its old length, and marks all of the window to be
 * written again. */
static int restore_length(struct storwin_window *win, struct storwin_error *err)
{
    const struct storwin__file *f = &win->files[0];
    struct storwin__commit *c = win->commit;
    const uint64_t from = win->opts.offset_bytes + c->base;
    const uint64_t bytes = c->areas * c->cap + c->journal_cap;
    struct stat st;
    int rc;

    if (f->device || fstat(f->fd, &st) < 0 || (uint64_t)st.st_size >= from + bytes)
        return 0;
    rc = storwin__file_extend(f->allocator, f->fd, from, bytes,
                              (win->opts.flags & STORWIN_SPARSE) != 0);
    if (rc < 0)
        return storwin__fail(err, rc, STORWIN__FILENAME,
                             "\"%.80s\" was shortened, and cannot be made longer: %s", win->path,
                             storwin_strerror(rc));
    c->whole = c->lost = 1;
    storwin__lack_all(win);
    return 0;
}

/* An older record was opened, and the first commit overwrites data of the newest record. Makes the
 * older record the newest: from then on a crash leaves its state. */
static int discard_newer(struct storwin_window *win, struct storwin_error *err)
{
    struct storwin__commit *c = win->commit;
    int rc;

    if (c->discard.seq == 0)
        return 0;
    c->discard.seq = c->newest_seq + 1;
    c->discard.place = c->place;
    rc = storwin__record_write(win, &c->discard, err);
    if (rc < 0)
        return rc;
    c->newest_seq++;
    storwin__place_record(c, &c->discard);
    memset(&c->discard, 0, sizeof(c->discard));
    return 0;
}

/* Makes the file fit for the next commit, after failures too, and finds what changed. */
int storwin__commit_prepare(struct storwin_window *win, struct storwin_error *err)
{
    struct storwin__commit *c = win->commit;
    const uint64_t pages = storwin__pages(win);
    int rc = restore_length(win, err);

    storwin__set_remove(c->fresh, 0, pages);
    if (rc == 0)
        rc = storwin__write_pending(win, err);
    if (rc == 0)
        rc = storwin__find_changes(win, 1, err);
    storwin__set_merge(next_lacks(win), c->changed, pages);
    return rc;
}

/* Commits the changes that were found, under this generation; 0: under the next one, if there are
 * any. Without a picture it writes from the window, and STORWIN_ERACE says that a store came
 * meanwhile: the written data may contain it or not. */
int storwin__commit_changes(struct storwin_window *win, uint64_t generation,
                            struct storwin_error *err)
{
    struct storwin__commit *c = win->commit;
    const uint64_t n_changed = storwin__set_count(c->changed, 0, storwin__pages(win));
    struct storwin__record next;
    int flip, rc;

    if (n_changed == 0 && !c->whole && generation == 0)
        return 0;
    if (generation == 0)
        generation = c->newest_generation + 1;
    rc = discard_newer(win, err);
    if (rc < 0)
        return rc;
    flip = storwin__must_flip(win, n_changed);
    if (flip && !c->picture) { /* it reads other pages, too */
        storwin__flip_pages(win, next_lacks(win));
        rc = storwin__check_readable(win, next_lacks(win), err);
    }
    if (rc < 0)
        return rc;
    rc = write_changes(win, n_changed, flip, generation, &next);
    if (rc < 0)
        return storwin__fail(err, rc, STORWIN__FILENAME,
                             "commit of \"%.80s\": %s; it still holds generation %" PRIu64,
                             win->path, storwin_strerror(rc), c->last.generation);
    if (!c->picture && storwin__find_stores(win))
        return storwin__fail(err, STORWIN_ERACE, NULL,
                             "something stored into the window while it was committed; \"%.80s\" "
                             "still holds generation %" PRIu64,
                             win->path, c->last.generation);
    prepare_record(win, &next, flip);
    return storwin__write_pending(win, err);
}

/*
 * As storwin__commit_changes(), of the window as it is now. A flip always writes from the window
 * first: if stores came meanwhile, the picture and the second flip are only of the pages that they
 * changed. A batch of the journal would be written twice, so with a thread that stores it begins
 * with a picture.
 */
int storwin__commit(struct storwin_window *win, uint64_t generation, struct storwin_error *err)
{
    struct storwin__commit *c = win->commit;
    int rc = storwin__commit_prepare(win, err), raced = 0;

    atomic_fetch_add(&win->n_syncs, 1);
    if (rc < 0)
        return rc;
    if (!c->stores_meanwhile ||
        storwin__must_flip(win, storwin__set_count(c->changed, 0, storwin__pages(win)))) {
        rc = storwin__commit_changes(win, generation, err);
        raced = rc == STORWIN_ERACE;
        c->stores_meanwhile = raced;
        if (!raced)
            return rc;
    }
    rc = storwin__picture_take(win, err);
    if (rc == 0)
        rc = storwin__commit_changes(win, generation, err);
    storwin__picture_drop(win);
    c->stores_meanwhile |= raced;
    return rc;
}

/* The last commit wrote all its data and failed to write its record. Writes the record: newer data
 * must not be committed under its number. */
static int commit_again(struct storwin_window *win, struct storwin_error *err)
{
    int rc = restore_length(win, err);

    if (rc < 0)
        return rc;
    if (win->commit->whole)
        return storwin__fail(err, STORWIN_ESHORT, STORWIN__FILENAME,
                             "\"%.80s\" was shortened; commit under another number", win->path);
    rc = storwin__write_pending(win, err);
    if (rc < 0)
        return rc;
    rc = storwin__find_changes(win, 1, err);
    if (rc < 0)
        return rc;
    return storwin__set_count(win->commit->changed, 0, storwin__pages(win)) == 0
               ? 0
               : storwin__fail(err, STORWIN_ERACE, NULL,
                               "something stored into the window since generation %" PRIu64
                               " was to be committed",
                               win->commit->last.generation);
}

int storwin__commit_check(const struct storwin_window *win, struct storwin_error *err)
{
    int rc = storwin__sync_check(win, err);

    if (rc == 0 && !win->opts.atomic)
        rc = storwin__fail(err, STORWIN_ESTATE, "storage_alloc_atomic",
                           "the window has no storage_alloc_atomic");
    return rc;
}

int storwin_commit(struct storwin_window *win, struct storwin_error *err)
{
    int rc = storwin__commit_check(win, err);

    /* Without win->commit the window is wholly in memory. */
    return rc == 0 && win->commit ? storwin__commit(win, 0, err) : rc;
}

int storwin_commit_generation(struct storwin_window *win, uint64_t generation,
                              struct storwin_error *err)
{
    int rc = storwin__commit_check(win, err);

    if (rc < 0 || !win->commit)
        return rc;
    if (win->commit->pending.seq > 0 && win->commit->pending.generation == generation)
        return commit_again(win, err);
    if (generation <= win->commit->newest_generation || generation > INT64_MAX)
        return storwin__fail(err, STORWIN_EVALUE, NULL,
                             "generation %" PRIu64 " is not above %" PRIu64
                             ", which was used already, and below 2^63",
                             generation, win->commit->newest_generation);
    return storwin__commit(win, generation, err);
}
