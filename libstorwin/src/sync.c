/* SPDX-License-Identifier: BSD-3-Clause */
/* Sync: of a range or of the whole window, by the caller or by a thread. */
#include "commit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Updates the bits of pages [first, end) of private memory. */
void storwin__find_dirty(struct storwin_window *win, uint64_t first, uint64_t end)
{
    if (win->track == STORWIN_TRACK_FAULTS)
        storwin__pager_take(win, first, end, 0);
    else
        storwin__track_harvest(win, first, end);
}

/*
 * Flushes the data that evictions have written, even if this sync writes nothing itself. The kernel
 * reports an error only to the first flush, so a failure of this sync covers the evicted pages too.
 */
static int flush_evicted(struct storwin_window *win, struct storwin__failure *fail)
{
    uint64_t first, end;
    int rc;

    if (!storwin__pager_evicted(win, &first, &end))
        return STORWIN_WROTE_NOTHING;
    rc = fdatasync(win->files[0].fd) < 0 ? -errno : fail->code;
    if (rc < 0)
        storwin__failure_add(fail, rc, win->stor_offset + first * win->page_bytes,
                             win->stor_offset +
                                 storwin__min(end * win->page_bytes, win->stor_bytes));
    return STORWIN_WROTE_DIRECT;
}

static int sync_faults(struct storwin_window *win, uint64_t first, uint64_t end,
                       struct storwin__failure *fail)
{
    const uint64_t slice = storwin__pager_slice(win);
    const int merge = win->opts.pager == STORWIN_PAGER_RESIDENT;
    int wrote = flush_evicted(win, fail), late;

    for (uint64_t next; first < end; first = next) {
        int how;

        next = storwin__min(end, (first / slice + 1) * slice);
        storwin__pager_take(win, first, next, 1);
        how = storwin__write_pages(win, first, next, merge, fail);
        storwin__pager_release(win, first, next);
        wrote = how > wrote ? how : wrote;
    }
    late = flush_evicted(win, fail); /* evictions during this sync */
    return late > wrote ? late : wrote;
}

/* Syncs window offsets [lo, hi), extended to whole pages of the storage span. */
static int sync_span(struct storwin_window *win, uint64_t lo, uint64_t hi,
                     struct storwin__failure *fail)
{
    const uint64_t first = (lo - win->stor_offset) / win->page_bytes;
    const uint64_t end =
        storwin__round_up(hi - win->stor_offset, win->page_bytes) / win->page_bytes;
    int wrote;

    if (win->opts.pager == STORWIN_PAGER_KERNEL)
        return storwin__cache_sync(win, win->stor_offset + first * win->page_bytes,
                                   storwin__min(win->stor_offset + end * win->page_bytes,
                                                win->stor_offset + win->stor_bytes),
                                   fail);
    if (win->track == STORWIN_TRACK_FAULTS) {
        wrote = sync_faults(win, first, end, fail);
        storwin__pager_failure(win, fail);
        return wrote;
    }
    storwin__find_dirty(win, first, end);
    return storwin__write_pages(win, first, end, 1, fail);
}

/* Makes the names of new files durable, unless STORWIN_UNLINK is set. */
int storwin__sync_names(struct storwin_window *win, struct storwin_error *err)
{
    for (uint32_t i = 0; i < win->n_files && !(win->opts.flags & STORWIN_UNLINK); i++) {
        int rc = win->files[i].fd >= 0 ? storwin__file_sync_name(&win->files[i]) : 0;

        if (rc < 0)
            return storwin__fail(err, rc, "storage_alloc_filename",
                                 "sync of the directory of \"%.80s\": %s", win->path,
                                 storwin_strerror(rc));
    }
    return 0;
}

/*
 * Finds the bytes that a shortened file has lost behind its new end: no later write reports them. A
 * resident window still has them, and writes them again.
 */
void storwin__find_cut(struct storwin_window *win, uint64_t lo, uint64_t hi,
                       struct storwin__failure *cut)
{
    for (uint32_t i = 0; i < win->n_parts; i++) {
        const struct storwin__part *part = &win->parts[i];
        uint64_t from = lo > part->offset ? lo : part->offset,
                 to = storwin__min(hi, part->offset + part->bytes), there;
        struct stat st;

        if (part->kind != STORWIN_STORAGE || from >= to || win->files[part->file].device ||
            fstat(win->files[part->file].fd, &st) < 0)
            continue;
        there = part->offset + ((uint64_t)st.st_size > part->file_offset
                                    ? (uint64_t)st.st_size - part->file_offset
                                    : 0);
        if (there >= to)
            continue;
        from = from > there ? from : there;
        if (win->opts.pager != STORWIN_PAGER_RESIDENT)
            storwin__failure_add(cut, STORWIN_ESHORT, from, to);
        for (from -= from % win->page_bytes; win->opts.pager == STORWIN_PAGER_RESIDENT && from < to;
             from += win->page_bytes)
            storwin__store_same(win->map + from); /* a change, for any kind of tracking */
    }
}

int storwin__sync(struct storwin_window *win, uint64_t offset, uint64_t bytes,
                  struct storwin_error *err)
{
    struct storwin__failure fail = {0, 0, 0}, cut = {0, 0, 0};
    uint64_t lo = offset > win->stor_offset ? offset : win->stor_offset;
    uint64_t hi = storwin__min(offset + bytes, win->stor_offset + win->stor_bytes);

    if (lo >= hi)
        return 0;
    if (win->commit)
        return storwin__commit(win, 0, err);
    storwin__find_cut(win, lo, hi, &cut);
    atomic_store(&win->wrote, (unsigned)sync_span(win, lo, hi, &fail));
    if (cut.code < 0)
        storwin__failure_add(&fail, cut.code, cut.lo, cut.hi);
    atomic_fetch_add(&win->n_syncs, 1);
    if (fail.code == 0) {
        int rc = storwin__sync_names(win, err);

        if (rc == 0)
            return 0;
        fail = (struct storwin__failure){rc, lo, hi}; /* without a durable name the whole file may
                                                         be lost */
    } else {
        storwin__fail(err, fail.code, "storage_alloc_filename",
                      "bytes %" PRIu64 " to %" PRIu64 " of the window may not be in \"%.80s\": %s",
                      fail.lo, fail.hi, win->path, storwin_strerror(fail.code));
    }
    if (err) {
        err->offset = fail.lo;
        err->bytes = fail.hi - fail.lo;
    }
    return fail.code;
}

/* Checks that the range is within the window; replaces STORWIN_TO_END by the length. */
static int check_range(const struct storwin_window *win, uint64_t offset, uint64_t *bytes,
                       struct storwin_error *err)
{
    if (!win) {
        (void)storwin__fail(err, -EINVAL, NULL, "an argument is NULL");
        return -EINVAL; /* explicit, so that the compiler knows it after inlining */
    }
    if (storwin__owned(win, err) < 0)
        return STORWIN_ESTATE;
    if (*bytes == STORWIN_TO_END && offset <= win->bytes)
        *bytes = win->bytes - offset;
    if (offset > win->bytes || *bytes > win->bytes - offset)
        return storwin__fail(err, STORWIN_ERANGE, NULL,
                             "%" PRIu64 " bytes at %" PRIu64
                             " do not lie within a window of %" PRIu64,
                             *bytes, offset, win->bytes);
    return 0;
}

int storwin_sync(struct storwin_window *win, uint64_t offset, uint64_t bytes,
                 struct storwin_error *err)
{
    int rc = check_range(win, offset, &bytes, err);

    if (rc < 0)
        return rc;
    if (atomic_load(&win->async) != STORWIN__IDLE)
        return storwin__fail(err, STORWIN_ESTATE, NULL,
                             "an asynchronous sync is in flight: wait for it first");
    return storwin__sync(win, offset, bytes, err);
}

static void *async_main(void *arg)
{
    struct storwin_window *win = arg;

    win->async_rc = storwin__sync(win, win->async_offset, win->async_bytes, &win->async_err);
    atomic_store_explicit(&win->async, STORWIN__DONE, memory_order_release);
    return NULL;
}

int storwin_sync_start(struct storwin_window *win, uint64_t offset, uint64_t bytes,
                       struct storwin_error *err)
{
    int rc = check_range(win, offset, &bytes, err), idle = STORWIN__IDLE;

    if (rc < 0)
        return rc;
    if (!atomic_compare_exchange_strong(&win->async, &idle, STORWIN__RUNNING))
        return storwin__fail(err, STORWIN_ESTATE, NULL,
                             "an asynchronous sync is in flight: wait for it first");
    win->async_offset = offset;
    win->async_bytes = bytes;
    rc = storwin__thread(&win->thread, async_main, win);
    if (rc < 0) {
        atomic_store(&win->async, STORWIN__IDLE);
        return storwin__fail(err, rc, NULL, "no thread: %s", storwin_strerror(rc));
    }
    return 0;
}

static int collect(struct storwin_window *win, struct storwin_error *err)
{
    int rc;

    pthread_join(win->thread, NULL);
    rc = win->async_rc;
    if (rc < 0 && err)
        *err = win->async_err;
    atomic_store(&win->async, STORWIN__IDLE);
    return rc;
}

int storwin_sync_test(struct storwin_window *win, struct storwin_error *err)
{
    int state = win ? atomic_load_explicit(&win->async, memory_order_acquire) : STORWIN__IDLE;

    if (win && storwin__owned(win, err) < 0)
        return STORWIN_ESTATE;
    if (state == STORWIN__IDLE)
        return storwin__fail(err, win ? STORWIN_ESTATE : -EINVAL, NULL,
                             "no asynchronous sync was begun");
    return state == STORWIN__DONE ? collect(win, err) : STORWIN_PENDING;
}

int storwin_sync_wait(struct storwin_window *win, struct storwin_error *err)
{
    if (win && storwin__owned(win, err) < 0)
        return STORWIN_ESTATE;
    if (!win || atomic_load_explicit(&win->async, memory_order_acquire) == STORWIN__IDLE)
        return storwin__fail(err, win ? STORWIN_ESTATE : -EINVAL, NULL,
                             "no asynchronous sync was begun");
    return collect(win, err);
}
