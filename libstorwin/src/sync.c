/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sync: of a range or of the whole window, by the caller or by a thread.
 *
 * storwin__sync() chooses between a commit and a sync, and sync_span() decides what a sync writes,
 * by the window's pager:
 *   - kernel: nothing here; msync() writes what the page cache has as dirty (pager_kernel.c)
 *   - resident: storwin__track_scan() (track.c) sets the bits of changed pages in win->dirty, from
 *     the page tables, and storwin__write_pages() (write.c) writes these
 *   - user, and resident without PAGEMAP_SCAN: storwin__pager_take() (pager_sync.c) sets the bits
 *     of the pages that faults have marked; sync_faults() writes them
 *   - a window with commits: storwin__find_changes() (commit.c)
 */
#include "commit.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

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
        storwin__failure_add_pages(fail, rc, win, first, end);
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
        storwin__pager_take(win, first, next);
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
        return storwin__cache_sync(
            win, win->stor_offset + first * win->page_bytes,
            win->stor_offset + storwin__min(end * win->page_bytes, win->stor_bytes), fail);
    if (win->track == STORWIN_TRACK_FAULTS) {
        wrote = sync_faults(win, first, end, fail);
        storwin__pager_failure(win, fail);
        if (fail->code < 0)
            storwin__pager_distrust(win);
    } else {
        storwin__track_scan(win, first, end, 1);
        wrote = storwin__write_pages(win, first, end, 1, fail);
        if (fail->code < 0) /* as storwin__pager_distrust() */
            storwin__set_add(win->dirty, 0, storwin__pages(win));
    }
    if (fail->code < 0)
        storwin__failure_add(&win->unmended, fail->code, win->stor_offset,
                             win->stor_offset + win->stor_bytes);
    else if (win->unmended.code < 0)
        storwin__cache_repair(win, fail);
    return wrote;
}

/* Makes the names of new files durable, unless STORWIN_UNLINK is set. */
int storwin__sync_names(struct storwin_window *win, struct storwin_error *err)
{
    for (uint32_t i = 0; i < win->n_files && !(win->opts.flags & STORWIN_UNLINK); i++) {
        int rc = win->files[i].fd >= 0 ? storwin__file_sync_name(&win->files[i]) : 0;

        if (rc < 0)
            return storwin__fail(err, rc, STORWIN__FILENAME,
                                 "sync of the directory of \"%.80s\": %s", win->path,
                                 storwin_strerror(rc));
    }
    return 0;
}

/*
 * Finds the bytes that a shortened file has lost behind its new end: no later write reports them. A
 * resident window still has them: this sync reports them too, and writes them again.
 */
void storwin__find_cut(struct storwin_window *win, uint64_t lo, uint64_t hi,
                       struct storwin__failure *cut)
{
    for (uint32_t i = 0; i < win->n_parts; i++) {
        const struct storwin__part *part = &win->parts[i];
        const struct storwin__file *f = &win->files[part->file];
        const uint64_t to = storwin__min(hi, part->offset + part->bytes);
        uint64_t from = storwin__max(lo, part->offset);
        struct stat st;

        if (part->kind != STORWIN_STORAGE || from >= to || f->device || fstat(f->fd, &st) < 0)
            continue;
        if ((uint64_t)st.st_size > part->file_offset)
            from = storwin__max(from, part->offset + (uint64_t)st.st_size - part->file_offset);
        if (from >= to)
            continue;
        storwin__failure_add(cut, STORWIN_ESHORT, from, to);
        if (win->opts.pager != STORWIN_PAGER_RESIDENT)
            continue;
        /* Each store is a change, for any kind of tracking. */
        for (from -= from % win->page_bytes; from < to; from += win->page_bytes)
            storwin__store_same(win->map + from);
    }
}

/* Syncs a range of a window, as storwin_sync(); the caller has checked the range. */
int storwin__sync(struct storwin_window *win, uint64_t offset, uint64_t bytes,
                  struct storwin_error *err)
{
    struct storwin__failure fail = {0, 0, 0}, cut = {0, 0, 0};
    uint64_t lo = storwin__max(offset, win->stor_offset);
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
        /* Without a durable name the whole file may be lost. */
        fail = (struct storwin__failure){rc, lo, hi};
    } else {
        storwin__fail(err, fail.code, STORWIN__FILENAME,
                      "bytes %" PRIu64 " to %" PRIu64 " of the window may not be in \"%.80s\": %s",
                      fail.lo, fail.hi, win->path, storwin_strerror(fail.code));
    }
    if (err) {
        err->offset = fail.lo;
        err->bytes = fail.hi - fail.lo;
    }
    return fail.code;
}

/* Checks that this process may sync the window now: also before a commit. */
int storwin__sync_check(const struct storwin_window *win, struct storwin_error *err)
{
    if (!win)
        return storwin__fail(err, -EINVAL, NULL, "an argument is NULL");
    if (storwin__owned(win, err) < 0)
        return STORWIN_ESTATE;
    if (storwin__reads_only(win))
        return storwin__fail(err, STORWIN_ESTATE, NULL,
                             "the window only reads \"%.80s\": storwin_open_read() made it",
                             win->path);
    if (atomic_load(&win->async) != STORWIN__IDLE)
        return storwin__fail(err, STORWIN_ESTATE, NULL,
                             "an asynchronous sync is in flight: wait for it first");
    return 0;
}

/* Checks that a range is within the window; replaces STORWIN_TO_END by the length. */
static int check_range(const struct storwin_window *win, uint64_t offset, uint64_t *bytes,
                       struct storwin_error *err)
{
    int rc = storwin__sync_check(win, err);

    if (rc < 0)
        return rc;
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

    return rc < 0 ? rc : storwin__sync(win, offset, bytes, err);
}

/* The window has at most one asynchronous operation. */
int storwin__async_claim(struct storwin_window *win, struct storwin_error *err)
{
    int idle = STORWIN__IDLE;

    /* Two threads may have passed storwin__sync_check(). */
    return atomic_compare_exchange_strong(&win->async, &idle, STORWIN__RUNNING)
               ? 0
               : storwin__fail(err, STORWIN_ESTATE, NULL,
                               "an asynchronous sync is in flight: wait for it first");
}

static void signal_done(const struct storwin_window *win)
{
    const uint64_t one = 1;
    const int fd = atomic_load(&win->async_fd);

    if (fd >= 0 && write(fd, &one, sizeof(one)) < 0)
        return; /* not reached: its counter is small */
}

static void *async_main(void *arg)
{
    struct storwin_window *win = arg;

    win->async_rc = win->async_work(win, &win->async_err);
    atomic_store(&win->async, STORWIN__DONE);
    signal_done(win);
    return NULL;
}

/* Has a thread do the work, of a window that the caller has claimed. */
int storwin__async_start(struct storwin_window *win,
                         int (*work)(struct storwin_window *win, struct storwin_error *err),
                         struct storwin_error *err)
{
    int rc;

    win->async_work = work;
    rc = storwin__thread(&win->thread, async_main, win);
    return rc == 0 ? 0 : storwin__fail(err, rc, NULL, "no thread: %s", storwin_strerror(rc));
}

static int sync_range(struct storwin_window *win, struct storwin_error *err)
{
    return storwin__sync(win, win->async_offset, win->async_bytes, err);
}

int storwin_sync_start(struct storwin_window *win, uint64_t offset, uint64_t bytes,
                       struct storwin_error *err)
{
    int rc = check_range(win, offset, &bytes, err);

    if (rc == 0)
        rc = storwin__async_claim(win, err);
    if (rc < 0)
        return rc;
    win->async_offset = offset;
    win->async_bytes = bytes;
    rc = storwin__async_start(win, sync_range, err);
    if (rc < 0)
        atomic_store(&win->async, STORWIN__IDLE);
    return rc;
}

int storwin_commit_fd(struct storwin_window *win, struct storwin_error *err)
{
    int fd, none = -1;

    if (!win || storwin__owned(win, err) < 0)
        return win ? STORWIN_ESTATE : storwin__fail(err, -EINVAL, NULL, "an argument is NULL");
    fd = atomic_load(&win->async_fd);
    if (fd >= 0)
        return fd;
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return storwin__fail(err, -errno, NULL, "eventfd: %s", storwin_strerror(-errno));
    if (!atomic_compare_exchange_strong(&win->async_fd, &none, fd)) {
        close(fd);
        return none;
    }
    if (atomic_load(&win->async) == STORWIN__DONE)
        signal_done(win);
    return fd;
}

static int collect_result(struct storwin_window *win, struct storwin_error *err)
{
    const int fd = atomic_load(&win->async_fd);
    uint64_t count;
    int rc;

    pthread_join(win->thread, NULL);
    if (fd >= 0 && read(fd, &count, sizeof(count)) < 0)
        count = 0; /* it was not signalled: made after the end */
    rc = win->async_rc;
    if (rc < 0 && err)
        *err = win->async_err;
    atomic_store(&win->async, STORWIN__IDLE);
    return rc;
}

static int check_started(const struct storwin_window *win, struct storwin_error *err)
{
    if (win && storwin__owned(win, err) < 0)
        return STORWIN_ESTATE;
    if (!win || atomic_load(&win->async) == STORWIN__IDLE)
        return storwin__fail(err, win ? STORWIN_ESTATE : -EINVAL, NULL,
                             "no asynchronous sync was begun");
    return 0;
}

int storwin_sync_test(struct storwin_window *win, struct storwin_error *err)
{
    int rc = check_started(win, err);

    if (rc < 0)
        return rc;
    return atomic_load(&win->async) == STORWIN__DONE ? collect_result(win, err) : STORWIN_PENDING;
}

int storwin_sync_wait(struct storwin_window *win, struct storwin_error *err)
{
    int rc = check_started(win, err);

    return rc < 0 ? rc : collect_result(win, err);
}

int storwin_commit_test(struct storwin_window *win, struct storwin_error *err)
{
    return storwin_sync_test(win, err);
}

int storwin_commit_wait(struct storwin_window *win, struct storwin_error *err)
{
    return storwin_sync_wait(win, err);
}
