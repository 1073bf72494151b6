/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic commits: brings a window back to its last commit, in place. */
#include "commit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Most unchanged bytes between changed pages that are read with them: a disk takes no less time for
 * a further request. */
#define GAP_BYTES 65536u

/* Reads the changed pages from the home area, and with room for GAP_BYTES gaps of up to that size
 * with them. */
static int read_changed(struct storwin_window *win, uint8_t *gap)
{
    const struct storwin__commit *c = win->commit;
    const uint64_t pages = storwin__pages(win), unit = win->page_bytes;
    const uint64_t area = win->opts.offset_bytes + storwin__area_at(&c->last, c->last.home);
    struct storwin__stream s = {.win = win, .call = preadv};
    uint64_t page, end = 0;
    int rc = 0;

    while (rc == 0 && (page = storwin__set_next(c->changed, end, pages, 1)) < pages) {
        if (gap && s.n > 0 && (page - end) * unit <= GAP_BYTES) {
            rc = storwin__stream_put(&s, gap, (page - end) * unit);
        } else {
            rc = storwin__stream_flush(&s);
            s.offset = area + page * unit;
        }
        end = storwin__set_next(c->changed, page, pages, 0);
        if (win->track == STORWIN_TRACK_FAULTS)
            storwin__pager_unprotect(win, page, end);
        if (rc == 0)
            rc = storwin__stream_put(&s, win->map + win->stor_offset + page * unit,
                                     storwin__min(end * unit, win->stor_bytes) - page * unit);
    }
    return rc == 0 ? storwin__stream_flush(&s) : rc;
}

/* Restores the changed pages, whose set is current, and verifies the result. */
static int restore_changed(struct storwin_window *win, struct storwin_error *err)
{
    struct storwin__commit *c = win->commit;
    struct storwin__record reached;
    void *gap = NULL;
    int rc;

    if (posix_memalign(&gap, 4096, GAP_BYTES) != 0)
        gap = NULL;
    rc = read_changed(win, gap);
    if (rc < 0 && gap) /* perhaps only a gap cannot be read */
        rc = read_changed(win, NULL);
    free(gap);
    if (rc < 0)
        return storwin__fail(err, rc, STORWIN__FILENAME, "read \"%.80s\": %s", win->path,
                             storwin_strerror(rc));
    rc = storwin__journal_replay(win, &c->last, c->last.generation, c->changed, &reached, err);
    if (rc == 0)
        rc = storwin__find_changes(win, 1, err);
    if (rc == 0 && win->track != STORWIN_TRACK_COMPARED)
        (void)storwin__compare(win, c->changed);
    if (rc == 0 && c->total != c->last.data_sum)
        rc = storwin__fail(err, STORWIN_EDAMAGED, STORWIN__FILENAME,
                           "generation %" PRIu64 " of \"%.80s\" does not match its checksum",
                           c->last.generation, win->path);
    return rc;
}

int storwin_revert(struct storwin_window *win, struct storwin_error *err)
{
    int rc = storwin__commit_check(win, err);
    struct storwin__commit *c = rc == 0 ? win->commit : NULL;
    struct stat st;
    uint64_t end;

    if (!c) /* an error, or a window wholly in memory */
        return rc;
    /* With SLOTS the last commit may still need the journal of another window. */
    end = win->opts.offset_bytes +
          storwin__max(c->base + c->areas * c->cap + c->journal_cap,
                       storwin__area_at(&c->last, 2) + c->last.journal_bytes);
    if (!win->files[0].device && fstat(win->files[0].fd, &st) == 0 && (uint64_t)st.st_size < end)
        return storwin__fail(err, STORWIN_ESHORT, STORWIN__FILENAME,
                             "\"%.80s\" was shortened to %" PRIu64 " bytes", win->path,
                             (uint64_t)st.st_size);
    rc = storwin__write_pending(win, err);
    if (rc < 0)
        return rc;
    if (c->lost)
        return storwin__fail(err, STORWIN_ESHORT, STORWIN__FILENAME,
                             "\"%.80s\" was shortened, and lost its last commit", win->path);
    if (c->last.seq == 0)
        return storwin__fail(err, STORWIN_ENONE, STORWIN__FILENAME, "\"%.80s\" holds no commit",
                             win->path);
    if (c->whole) { /* there is no home of this length yet */
        const struct storwin__record last = c->last;

        if (win->track == STORWIN_TRACK_FAULTS)
            storwin__pager_unprotect(win, 0, storwin__pages(win));
        rc = storwin__load_record(win, &last, last.generation, err);
        if (rc < 0)
            c->last = last; /* and not the part of it that could be read */
        storwin__lack_all(win);
        return rc;
    }
    rc = storwin__find_changes(win, 0, err);
    if (rc == 0)
        rc = restore_changed(win, err);
    if (rc < 0)
        return rc;
    /* A commit that failed may have written these pages to another area. */
    for (uint32_t area = 0; area < c->areas; area++)
        if (area != c->last.home)
            storwin__set_merge(c->lacks[area], c->changed, storwin__pages(win));
    storwin__set_remove(c->changed, 0, storwin__pages(win));
    return 0;
}
