/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Between private memory and the file, by several threads at a time. The span is dealt out in regions. In each, runs of changed
 * pages become requests: long ones direct, short ones through the page cache, where the kernel sorts and queues them better than
 * waiting threads would. Where changed pages lie close together a few large requests are quicker than many small ones, though they
 * write what had not changed: a request costs about as much as GAP pages.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define REGION_BYTES (UINT64_C(4) << 20) /* also the longest request */
#define LONG_BYTES   65536u              /* requests from here on are direct */
#define GAP          15u                 /* unchanged pages worth writing to save a request ... */
#define DENSE        12u                 /* ... where at least one page in so many changed */
#define ALIGNMENT    4096u               /* of direct I/O; pages are no smaller */

struct job {
    struct storwin_window *win;
    uint64_t first, end, per_region;
    int merge, through; /* through: never leave data in the page cache if that can be helped */
    atomic_uint_least64_t next;
    atomic_uint buffered, direct;
    pthread_mutex_t lock; /* of what follows */
    struct storwin__failure *fail;
    uint64_t buffered_lo, buffered_hi; /* pages */
    int read_rc;
    uint64_t read_at;
};

unsigned storwin__threads(const struct storwin_window *win)
{
    return win->opts.n_threads ? win->opts.n_threads : 4;
}

static int put(int fd, const uint8_t *from, uint64_t bytes, uint64_t offset)
{
    while (bytes > 0) {
        ssize_t n = pwrite(fd, from, (size_t)bytes, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? -ENOSPC : -errno;
        from += n;
        bytes -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

static void count(struct storwin_window *win, uint64_t bytes)
{
    atomic_fetch_add_explicit(&win->written_bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&win->n_requests, 1, memory_order_relaxed);
}

static int put_buffered(struct job *job, const uint8_t *from, uint64_t bytes, uint64_t offset, uint64_t page, uint64_t end)
{
    count(job->win, bytes);
    atomic_store_explicit(&job->buffered, 1, memory_order_relaxed);
    pthread_mutex_lock(&job->lock);
    if (page < job->buffered_lo)
        job->buffered_lo = page;
    if (end > job->buffered_hi)
        job->buffered_hi = end;
    pthread_mutex_unlock(&job->lock);
    return put(job->win->files[0].fd, from, bytes, offset);
}

/* Writes pages [page, end) of the span. */
static void request(struct job *job, uint64_t page, uint64_t end)
{
    struct storwin_window *win = job->win;
    const struct storwin__file *f = &win->files[0];
    const uint64_t at = page * win->page_bytes;
    const uint64_t bytes = storwin__min((end - page) * win->page_bytes, win->stor_bytes - at);
    const uint8_t *from = win->map + win->stor_offset + at;
    const uint64_t offset = win->opts.offset_bytes + at;
    uint64_t direct = 0;
    int rc = 0;

    storwin__bits_clear(win, page, end);
    if (f->direct_fd >= 0 && (job->through || bytes >= LONG_BYTES))
        direct = bytes / ALIGNMENT * ALIGNMENT;
    if (direct > 0) {
        rc = put(f->direct_fd, from, direct, offset);
        if (rc == -EINVAL) { /* this file system wants another alignment, or none of it */
            direct = 0;
            rc = 0;
        } else {
            count(win, direct);
            atomic_store_explicit(&job->direct, 1, memory_order_relaxed);
        }
    }
    if (rc == 0 && direct < bytes)
        rc = put_buffered(job, from + direct, bytes - direct, offset + direct, page, end);
    if (rc < 0) {
        storwin__bits_set(win, page, end);
        pthread_mutex_lock(&job->lock);
        storwin__failure_add(job->fail, rc, win->stor_offset + at, win->stor_offset + at + bytes);
        pthread_mutex_unlock(&job->lock);
    }
}

static void write_region(struct job *job, uint64_t first, uint64_t end)
{
    const struct storwin_window *win = job->win;
    uint64_t page = storwin__bits_next(win, first, end, 1), gap = 0;

    if (job->merge && storwin__bits_count(win, first, end) * DENSE >= end - first)
        gap = GAP;
    while (page < end) {
        uint64_t stop = storwin__bits_next(win, page, end, 0);
        uint64_t next = storwin__bits_next(win, stop, end, 1);

        while (next < end && next - stop <= gap) {
            stop = storwin__bits_next(win, next, end, 0);
            next = storwin__bits_next(win, stop, end, 1);
        }
        request(job, page, stop);
        page = next;
    }
}

static int next_region(struct job *job, uint64_t *first, uint64_t *end)
{
    *first = atomic_fetch_add_explicit(&job->next, job->per_region, memory_order_relaxed);
    if (*first >= job->end)
        return 0;
    *end = storwin__min((*first / job->per_region + 1) * job->per_region, job->end);
    if (*first < job->first)
        *first = job->first;
    return 1;
}

static void write_regions(void *ctx)
{
    struct job *job = ctx;
    uint64_t first, end;

    while (next_region(job, &first, &end))
        write_region(job, first, end);
}

static void job_init(struct job *job, struct storwin_window *win, uint64_t first, uint64_t end)
{
    job->win = win;
    job->first = first;
    job->end = end;
    job->per_region = REGION_BYTES / win->page_bytes;
    atomic_store(&job->next, first / job->per_region * job->per_region);
    pthread_mutex_init(&job->lock, NULL);
    job->buffered_lo = UINT64_MAX;
}

static unsigned job_threads(const struct job *job, uint64_t pages)
{
    const struct storwin_window *win = job->win;
    uint64_t regions = (job->end - job->first) / job->per_region + 1;

    if (pages * win->page_bytes <= REGION_BYTES)
        return 1;
    return (unsigned)storwin__min(regions, storwin__threads(win));
}

/*
 * Writes the pages of [first, end) whose bits are set, and waits until they are durable. Pages that failed have their bits again.
 * Returns how they were written, STORWIN_WROTE_.
 */
int storwin__write_pages(struct storwin_window *win, uint64_t first, uint64_t end, int merge,
                         struct storwin__failure *fail)
{
    uint64_t pages = storwin__bits_count(win, first, end);
    struct job job = {.merge = merge, .through = !merge, .fail = fail};

    if (pages == 0)
        return STORWIN_WROTE_NOTHING;
    atomic_fetch_add_explicit(&win->dirty_bytes, pages * win->page_bytes, memory_order_relaxed);
    job_init(&job, win, first, end);
    storwin__parallel(job_threads(&job, pages), write_regions, &job);
    pthread_mutex_destroy(&job.lock);
    if (fdatasync(win->files[0].fd) < 0) {
        int rc = -errno;

        if (job.buffered_lo >= job.buffered_hi) { /* the device's answer to what was written directly */
            job.buffered_lo = first;
            job.buffered_hi = end;
        }
        storwin__bits_set(win, job.buffered_lo, job.buffered_hi);
        storwin__failure_add(fail, rc, win->stor_offset + job.buffered_lo * win->page_bytes,
                             storwin__min(win->stor_offset + job.buffered_hi * win->page_bytes,
                                          win->stor_offset + win->stor_bytes));
    }
    return atomic_load(&job.direct) ? STORWIN_WROTE_DIRECT : STORWIN_WROTE_BUFFERED;
}

/* Writes n_pages from `page` on, past the page cache, for an eviction: durable by the next sync. */
int storwin__write_through(struct storwin_window *win, uint64_t page, uint64_t n_pages, struct storwin__failure *fail)
{
    struct storwin__failure none = {0, 0, 0};
    struct job job = {.through = 1, .fail = &none};

    job_init(&job, win, page, page + n_pages);
    request(&job, page, page + n_pages);
    pthread_mutex_destroy(&job.lock);
    if (none.code == 0)
        return 0;
    storwin__bits_clear(win, page, page + n_pages);
    storwin__failure_add(fail, none.code, none.lo, none.hi);
    return none.code;
}

static int get(int fd, uint8_t *to, uint64_t bytes, uint64_t offset)
{
    while (bytes > 0) {
        ssize_t n = pread(fd, to, (size_t)bytes, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0) /* somebody has cut the file: zeros */
            return 0;
        to += n;
        bytes -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

static int read_region(const struct storwin_window *win, uint64_t first, uint64_t end)
{
    const struct storwin__file *f = &win->files[0];
    uint64_t at = first * win->page_bytes;
    uint64_t stop = storwin__min(end * win->page_bytes, win->stor_bytes);
    uint8_t *to = win->map + win->stor_offset;
    int rc = 0;

    while (rc == 0 && at < stop) { /* holes stay what new memory is */
        off_t data = lseek(f->fd, (off_t)(win->opts.offset_bytes + at), SEEK_DATA), hole;
        uint64_t limit = stop, direct = 0;

        if (data < 0 && errno == ENXIO)
            return 0;
        if (data >= 0) {
            at = (uint64_t)data - win->opts.offset_bytes;
            at = at / win->page_bytes * win->page_bytes;
            if (at >= stop)
                return 0;
            hole = lseek(f->fd, data, SEEK_HOLE);
            if (hole > 0)
                limit = storwin__min(stop, storwin__round_up((uint64_t)hole - win->opts.offset_bytes, win->page_bytes));
        }
        if (f->direct_fd >= 0)
            direct = (limit - at) / ALIGNMENT * ALIGNMENT;
        if (direct > 0 && get(f->direct_fd, to + at, direct, win->opts.offset_bytes + at) < 0)
            direct = 0;
        rc = get(f->fd, to + at + direct, limit - at - direct, win->opts.offset_bytes + at + direct);
        at = limit;
    }
    return rc;
}

static void read_regions(void *ctx)
{
    struct job *job = ctx;
    uint64_t first, end;

    while (next_region(job, &first, &end)) {
        int rc = read_region(job->win, first, end);

        if (rc < 0) {
            pthread_mutex_lock(&job->lock);
            job->read_rc = rc;
            job->read_at = first;
            pthread_mutex_unlock(&job->lock);
        }
    }
}

/* Fills the span from the file. */
int storwin__read_span(struct storwin_window *win, struct storwin_error *err)
{
    struct job job = {.merge = 0};

    job_init(&job, win, 0, storwin__pages(win));
    storwin__parallel(job_threads(&job, storwin__pages(win)), read_regions, &job);
    pthread_mutex_destroy(&job.lock);
    if (job.read_rc < 0)
        return storwin__fail(err, job.read_rc, "storage_alloc_filename", "read at offset %llu of the file: %s",
                             (unsigned long long)(win->opts.offset_bytes + job.read_at * win->page_bytes),
                             storwin_strerror(job.read_rc));
    return 0;
}
