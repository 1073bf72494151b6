/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pictures: copies of the pages that a commit writes, all as they were at one moment, while threads
 * of the program store.
 *
 * A round finds the pages that were stored into since the last round, and copies them. In a round
 * that finds none, every copy still equals its page, and did so from the end of the last copy to
 * the begin of this round: that is the moment. So no thread ever waits; a store costs the fault of
 * tracking. The first round copies what the search of the caller found, the later ones what was
 * stored meanwhile: with PAGEMAP_SCAN a round without stores takes 0.5 ms a GiB of the window. If
 * threads store in each of many rounds, a fork of this process (commit_freeze.c) holds the moment:
 * the last round copies from there what was stored since the round before, or all of a window that
 * is compared. A page that the commit has written to an area is copied only if it was stored into
 * since, as a gap between such pages, or if only its sum shows stores.
 */
#include "commit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#define ROUNDS     8u   /* before a fork */
#define COPY_SLICE 256u /* pages that a thread copies at a time */

struct copying {
    struct storwin_window *win;
    const atomic_uint_least64_t *set;
    atomic_uint_least64_t next;
};

static void copy_slices(void *ctx)
{
    struct copying *job = ctx;
    const struct storwin_window *win = job->win;
    const uint64_t pages = storwin__pages(win), unit = win->page_bytes;
    uint64_t first;

    while ((first = atomic_fetch_add_explicit(&job->next, COPY_SLICE, memory_order_relaxed)) <
           pages) {
        const uint64_t stop = storwin__min(first + COPY_SLICE, pages);
        uint64_t page = first, end;

        while ((page = storwin__set_next(job->set, page, stop, 1)) < stop) {
            end = storwin__set_next(job->set, page, stop, 0);
            STORWIN__IGNORE_READS(Begin);
            memcpy(win->commit->picture + page * unit, win->source + page * unit,
                   (size_t)(storwin__min(end * unit, win->stor_bytes) - page * unit));
            STORWIN__IGNORE_READS(End);
            page = end;
        }
    }
}

/* The sets of pages of a picture: copied and unchanged since; to be copied in this round. */
struct sets {
    atomic_uint_least64_t *copied, *wanted;
};

/* Marks the pages that were stored into since the last round. */
static void find_fresh(struct storwin_window *win, struct sets *s)
{
    (void)storwin__find_stores(win);
    storwin__set_subtract(s->copied, win->commit->fresh, storwin__pages(win));
}

/* Selects the pages that the commit writes and that have no valid copy. Returns their number. */
static uint64_t select_pages(const struct storwin_window *win, struct sets *s)
{
    const struct storwin__commit *c = win->commit;
    const uint64_t pages = storwin__pages(win);

    storwin__set_remove(s->wanted, 0, pages);
    if (storwin__must_flip(win, storwin__set_count(c->changed, 0, pages)))
        storwin__flip_pages(win, s->wanted);
    else
        storwin__set_merge(s->wanted, c->changed, pages);
    storwin__set_subtract(s->wanted, s->copied, pages);
    return storwin__set_count(s->wanted, 0, pages);
}

/* Copies the wanted pages from the frozen memory of another process. */
static int copy_frozen(struct storwin_window *win, const struct sets *s, pid_t pid)
{
    const uint64_t pages = storwin__pages(win), unit = win->page_bytes;
    uint64_t page = 0, end;
    int rc = 0;

    while (rc == 0 && (page = storwin__set_next(s->wanted, page, pages, 1)) < pages) {
        end = storwin__set_next(s->wanted, page, pages, 0);
        rc =
            storwin__frozen_read(pid, win->commit->picture + page * unit, win->source + page * unit,
                                 (size_t)(storwin__min(end * unit, win->stor_bytes) - page * unit));
        page = end;
    }
    return rc;
}

/* Stores the sums of those copies whose pages only sums track: they are the commit's, and the next
 * round compares the window with them. */
static void sum_copies(struct storwin_window *win, const atomic_uint_least64_t *set)
{
    const uint64_t pages = storwin__pages(win);
    uint8_t *window = win->source;
    uint64_t first, last;

    win->source = win->commit->picture;
    if (win->track == STORWIN_TRACK_COMPARED) {
        (void)storwin__compare(win, set);
    } else {
        storwin__edges(win, &first, &last);
        (void)storwin__compare_pages(win, set, 0, first);
        (void)storwin__compare_pages(win, set, last, pages);
    }
    win->source = window;
}

/* Has the edges of adopted memory copied and written again, also if an area has them already: only
 * their sums show stores, and one that the fork holds may have been undone since. */
static void renew_edges(struct storwin_window *win, struct sets *s)
{
    struct storwin__commit *c = win->commit;
    atomic_uint_least64_t *lacks = c->lacks[storwin__commit_area(c)];
    const uint64_t pages = storwin__pages(win);
    uint64_t first, last;

    storwin__edges(win, &first, &last);
    storwin__set_add(c->changed, 0, first);
    storwin__set_add(c->changed, last, pages);
    storwin__set_add(lacks, 0, first);
    storwin__set_add(lacks, last, pages);
    storwin__set_remove(s->copied, 0, first);
    storwin__set_remove(s->copied, last, pages);
}

/* The last round, of a moment that a fork holds. What was stored into after the last scan may have
 * been stored before that moment or after it, so it remains changed; a window that is compared is
 * copied whole, and the copy tells what changed. Memory that others share cannot be held. */
static int last_round(struct storwin_window *win, struct sets *s, struct storwin_error *err)
{
    const uint64_t at = (uint64_t)(uintptr_t)win->source, pages = storwin__pages(win);
    int rc = -EOPNOTSUPP;

    if (storwin__memory_private(at, at + win->stor_bytes)) {
        const pid_t pid = storwin__freeze();

        rc = pid < 0 ? -errno : 0;
        if (rc == 0) {
            if (win->track == STORWIN_TRACK_COMPARED) {
                storwin__set_add(s->wanted, 0, pages);
                storwin__set_remove(win->commit->fresh, 0, pages);
            } else {
                find_fresh(win, s); /* picture_drop() leaves them changed */
                renew_edges(win, s);
                (void)select_pages(win, s);
            }
            rc = copy_frozen(win, s, pid);
            storwin__thaw(pid);
            if (rc == 0)
                sum_copies(win, s->wanted);
            storwin__set_merge(s->copied, s->wanted, pages);
        }
    }
    return rc == 0 ? 0
                   : storwin__fail(err, STORWIN_ERACE, NULL,
                                   "threads stored into the window in each attempt to take a "
                                   "picture of it, and a fork cannot hold one: %s; \"%.80s\" still "
                                   "holds generation %" PRIu64,
                                   storwin_strerror(rc), win->path, win->commit->last.generation);
}

static int copy_rounds(struct storwin_window *win, struct sets *s, struct storwin_error *err)
{
    const uint64_t pages = storwin__pages(win);
    int rc = 0;

    for (unsigned round = 0; rc == 0; round++) {
        struct copying job = {.win = win, .set = s->wanted};
        uint64_t n;

        if (round == ROUNDS)
            return last_round(win, s, err);
        if (round > 0)
            find_fresh(win, s);
        n = select_pages(win, s);
        if (n == 0) {
            /* Without a store since the first round nobody stores: the next batch begins without a
             * picture. */
            win->commit->stores_meanwhile = round > 1;
            return 0;
        }
        if (n >= pages / 4) /* few faults for many pages */
            (void)madvise(win->commit->picture, (size_t)(pages * win->page_bytes), MADV_HUGEPAGE);
        rc = storwin__check_readable(win, s->wanted, err);
        if (rc < 0)
            return rc;
        storwin__parallel((unsigned)storwin__min(n / COPY_SLICE, storwin__threads(win)),
                          copy_slices, &job);
        sum_copies(win, s->wanted);
        storwin__set_merge(s->copied, s->wanted, pages);
    }
    return rc;
}

/* Copies all that the next commit writes, as it is at one moment, and makes the copy the source of
 * the commit. The caller drops it also after a failure. */
int storwin__picture_take(struct storwin_window *win, struct storwin_error *err)
{
    struct storwin__commit *c = win->commit;
    const struct storwin_allocator *a = win->opts.allocator;
    const uint64_t pages = storwin__pages(win);
    struct sets s = {storwin__set_alloc(win), storwin__set_alloc(win)};
    void *at = mmap(NULL, (size_t)(pages * win->page_bytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int rc = -ENOMEM;

    c->picture = at == MAP_FAILED ? NULL : at;
    if (c->picture)
        (void)madvise(at, (size_t)(pages * win->page_bytes), MADV_DONTFORK);
    if (c->picture && s.copied && s.wanted) {
        rc = copy_rounds(win, &s, err);
        if (rc == 0)
            win->source = c->picture;
        /* Also gaps, and copies of which only a sum has shown that they differ from the area. */
        if (rc == 0 && storwin__must_flip(win, storwin__set_count(c->changed, 0, pages)))
            storwin__set_merge(c->lacks[storwin__commit_area(c)], s.copied, pages);
    } else {
        storwin__fail(err, rc, NULL, "a picture of a window of %" PRIu64 " bytes: out of memory",
                      win->stor_bytes);
    }
    storwin__free(a, s.copied);
    storwin__free(a, s.wanted);
    return rc;
}

void storwin__picture_drop(struct storwin_window *win)
{
    struct storwin__commit *c = win->commit;

    if (c->picture)
        munmap(c->picture, (size_t)(storwin__pages(win) * win->page_bytes));
    /* What the last search found may have been stored into after the moment of the picture. */
    storwin__set_merge(c->changed, c->fresh, storwin__pages(win));
    c->picture = NULL;
    win->source = win->map + win->stor_offset;
}

static int commit_picture(struct storwin_window *win, struct storwin_error *err)
{
    const int rc = win->commit ? storwin__commit_changes(win, 0, err) : 0;

    if (win->commit)
        storwin__picture_drop(win);
    return rc;
}

int storwin_commit_start(struct storwin_window *win, struct storwin_error *err)
{
    int rc = storwin__commit_check(win, err);

    if (rc == 0)
        rc = storwin__async_claim(win, err);
    if (rc < 0)
        return rc;
    if (win->commit) { /* else the window is wholly in memory */
        atomic_fetch_add(&win->n_syncs, 1);
        rc = storwin__commit_prepare(win, err);
        if (rc == 0)
            rc = storwin__picture_take(win, err);
    }
    if (rc == 0)
        rc = storwin__async_start(win, commit_picture, err);
    if (rc < 0) {
        if (win->commit)
            storwin__picture_drop(win);
        atomic_store(&win->async, STORWIN__IDLE);
    }
    return rc;
}
