/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers between private memory and the file. Runs of changed pages become direct requests, many
 * of them in flight at once: by io_uring from one thread. Without io_uring, several threads each
 * take regions of the span; short requests then go through the page cache, where the kernel sorts
 * and queues them better than blocked threads would. Where changed pages are dense, a few large
 * requests are faster than many small ones, although they write unchanged pages too: a request
 * costs about as much as GAP pages.
 */
#include "internal.h"
#include "ring.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* density is measured over these; longest request of the ring */
#define BLOCK_BYTES (UINT64_C(4) << 20)
/* longest region, and so the longest request of a thread */
#define REGION_BYTES (UINT64_C(16) << 20)
#define LONG_BYTES   65536u /* threads: requests are direct from this length on */
/* unchanged pages worth writing to save a request ... */
#define GAP       15u
#define DENSE     12u   /* ... where at least one page in this many changed */
#define ALIGNMENT 4096u /* of direct I/O; pages are no smaller */

struct transfer {
    struct storwin_window *win;
    struct storwin__ring *ring; /* NULL: threads */
    struct {
        uint64_t page, end; /* of each tag */
    } under_way[STORWIN__RING_DEPTH];
    uint16_t idle_tags[STORWIN__RING_DEPTH];
    unsigned n_idle;
    uint64_t first, end, per_region;
    int merge, through;                /* through: leave no data in the page cache if possible */
    uint64_t window_first, window_end; /* pages outside are written from copies */
    atomic_uint_least64_t next;
    atomic_uint direct;
    pthread_mutex_t lock; /* protects the members below */
    struct storwin__failure *fail;
    uint64_t lo, hi; /* pages that all requests together span */
    int read_rc;
    uint64_t read_at;
};

unsigned storwin__threads(const struct storwin_window *win)
{
    return win->opts.n_threads ? win->opts.n_threads : 4;
}

static ssize_t write_once(int fd, const uint8_t *from, uint64_t bytes, uint64_t offset)
{
    ssize_t n;

    STORWIN__IGNORE_READS(Begin);
    n = pwrite(fd, from, (size_t)bytes, (off_t)offset);
    STORWIN__IGNORE_READS(End);
    return n;
}

/* Writes, and adds the bytes written to *done, also on failure. */
static int write_bytes(int fd, const uint8_t *from, uint64_t bytes, uint64_t offset, uint64_t *done)
{
    while (bytes > 0) {
        ssize_t n = write_once(fd, from, bytes, offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? -ENOSPC : -errno;
        from += n;
        bytes -= (uint64_t)n;
        offset += (uint64_t)n;
        *done += (uint64_t)n;
    }
    return 0;
}

static void span_requests(struct transfer *job, uint64_t page, uint64_t end)
{
    job->lo = storwin__min(job->lo, page);
    job->hi = storwin__max(job->hi, end);
}

/* Writes pages [page, end) of the span, whose content is at `from`, and waits. */
static void write_request(struct transfer *job, uint64_t page, uint64_t end, const uint8_t *from)
{
    struct storwin_window *win = job->win;
    const struct storwin__file *f = &win->files[0];
    const uint64_t at = page * win->page_bytes;
    const uint64_t bytes = storwin__min((end - page) * win->page_bytes, win->stor_bytes - at);
    const uint64_t offset = win->file_base + at;
    uint64_t direct = 0, done = 0;
    int rc = 0;

    storwin__set_remove(win->dirty, page, end);
    pthread_mutex_lock(&job->lock);
    span_requests(job, page, end);
    pthread_mutex_unlock(&job->lock);
    if (f->direct_fd >= 0 && (job->through || bytes >= LONG_BYTES))
        direct = bytes / ALIGNMENT * ALIGNMENT;
    if (direct > 0) {
        rc = write_bytes(f->direct_fd, from, direct, offset, &done);
        if (done > 0) {
            storwin__count_written(win, done);
            atomic_store_explicit(&job->direct, 1, memory_order_relaxed);
        }
        if (rc == -EINVAL) /* this file system has another alignment, or no direct I/O */
            rc = 0;
    }
    if (rc == 0 && done < bytes) {
        const uint64_t before = done;

        rc = write_bytes(f->fd, from + before, bytes - before, offset + before, &done);
        storwin__count_written(win, done - before);
    }
    if (rc < 0) {
        storwin__set_add(win->dirty, page + done / win->page_bytes, end);
        pthread_mutex_lock(&job->lock);
        storwin__failure_add(job->fail, rc, win->stor_offset + at + done,
                             win->stor_offset + at + bytes);
        pthread_mutex_unlock(&job->lock);
    }
}

/* Handles a completed request of the ring. If it wrote too few bytes, or failed with an error worth
 * a retry, write_request() writes the whole range again synchronously and records any error. */
static void complete_request(struct transfer *job)
{
    struct storwin_window *win = job->win;
    uint64_t tag, page, end, bytes;
    int result;

    storwin__ring_wait(job->ring, &tag, &result);
    page = job->under_way[tag].page;
    end = job->under_way[tag].end;
    job->idle_tags[job->n_idle++] = (uint16_t)tag;
    bytes = (end - page) * win->page_bytes;
    if (result >= 0 && (uint64_t)result == bytes) {
        storwin__count_written(win, bytes);
        atomic_store_explicit(&job->direct, 1, memory_order_relaxed);
    } else if (result >= 0 || result == -EAGAIN || result == -EINVAL || result == -EINTR ||
               result == -EOPNOTSUPP) {
        write_request(job, page, end, win->source + page * win->page_bytes);
    } else {
        storwin__set_add(win->dirty, page, end);
        storwin__failure_add_pages(job->fail, result, win, page, end);
    }
}

/* Starts writing pages [page, end), at most a block; the odd bytes at the end of the span are
 * written immediately. */
static void ring_request(struct transfer *job, uint64_t page, uint64_t end)
{
    struct storwin_window *win = job->win;
    const uint64_t at = page * win->page_bytes,
                   whole = (win->stor_bytes - at) / ALIGNMENT * ALIGNMENT / win->page_bytes;
    uint64_t tag;

    if (end - page > whole) {
        write_request(job, page + whole, end, win->source + at + whole * win->page_bytes);
        end = page + whole;
    }
    if (page == end)
        return;
    if (job->n_idle == 0)
        complete_request(job);
    tag = job->idle_tags[--job->n_idle];
    job->under_way[tag].page = page;
    job->under_way[tag].end = end;
    storwin__set_remove(win->dirty, page, end);
    span_requests(job, page, end);
    storwin__ring_write(job->ring, win->files[0].direct_fd, win->source + at,
                        (uint32_t)((end - page) * win->page_bytes), win->file_base + at, tag);
}

/* Writes copies of pages [page, end), whose sums become the commit's. */
static void write_copies(struct transfer *job, uint64_t page, uint64_t end)
{
    _Alignas(ALIGNMENT) uint8_t copy[STORWIN__COPIES];
    const uint64_t most = sizeof(copy) / job->win->page_bytes;

    for (uint64_t next; page < end; page = next) {
        next = storwin__min(end, page + most);
        storwin__pages_copy(job->win, page, next, copy);
        write_request(job, page, next, copy);
    }
}

/* Writes pages [page, end) in requests of suitable length. */
static void write_run(struct transfer *job, uint64_t page, uint64_t end)
{
    const uint64_t most = BLOCK_BYTES / job->win->page_bytes;
    const uint64_t first = storwin__min(storwin__max(page, job->window_first), end);
    const uint64_t last = storwin__max(storwin__min(end, job->window_end), first);

    write_copies(job, page, first);
    write_copies(job, last, end);
    page = first;
    end = last;
    if (!job->ring && page < end) {
        write_request(job, page, end, job->win->source + page * job->win->page_bytes);
        return;
    }
    for (uint64_t next; page < end; page = next) {
        next = storwin__min(end, page + most);
        ring_request(job, page, next);
    }
}

/* Number of unchanged pages before `page` that are worth writing; examines one block. */
static uint64_t gap_before(const struct transfer *job, uint64_t page, uint64_t end, uint64_t *block,
                           uint64_t *gap)
{
    const uint64_t size = BLOCK_BYTES / job->win->page_bytes;

    if (!job->merge)
        return 0;
    if (page / size != *block) {
        uint64_t first = page / size * size, last = storwin__min(first + size, end);

        *block = page / size;
        *gap = storwin__set_count(job->win->dirty, page, last) * DENSE >= last - first ? GAP : 0;
    }
    return *gap;
}

static void write_region(struct transfer *job, uint64_t first, uint64_t end)
{
    const struct storwin_window *win = job->win;
    uint64_t page = storwin__set_next(win->dirty, first, end, 1), block = UINT64_MAX, gap = 0;

    while (page < end) {
        uint64_t stop = storwin__set_next(win->dirty, page, end, 0);
        uint64_t next = storwin__set_next(win->dirty, stop, end, 1);

        while (next < end && next - stop <= gap_before(job, next, end, &block, &gap)) {
            stop = storwin__set_next(win->dirty, next, end, 0);
            next = storwin__set_next(win->dirty, stop, end, 1);
        }
        write_run(job, page, stop);
        page = next;
    }
}

static int next_region(struct transfer *job, uint64_t *first, uint64_t *end)
{
    *first = atomic_fetch_add_explicit(&job->next, job->per_region, memory_order_relaxed);
    if (*first >= job->end)
        return 0;
    *end = storwin__min(*first + job->per_region, job->end);
    if (*first < job->first)
        *first = job->first;
    return 1;
}

static void write_regions(void *ctx)
{
    struct transfer *job = ctx;
    uint64_t first, end;

    while (next_region(job, &first, &end))
        write_region(job, first, end);
}

/* Prepares to write `pages` changed pages between first and end. Returns how many threads are worth
 * starting. */
static unsigned job_init(struct transfer *job, struct storwin_window *win, uint64_t first,
                         uint64_t end, uint64_t pages)
{
    const uint64_t block = BLOCK_BYTES / win->page_bytes, most = REGION_BYTES / BLOCK_BYTES;
    uint64_t threads = storwin__min(storwin__threads(win), pages / block), blocks;

    if (threads == 0)
        threads = 1;
    job->win = win;
    job->first = first;
    job->end = end;
    first = first / block * block; /* so that no two threads share a word of the bits */
    blocks = storwin__min(most, (end - first) / threads / block + 1);
    job->per_region = blocks * block;
    atomic_store(&job->next, first);
    pthread_mutex_init(&job->lock, NULL);
    job->lo = UINT64_MAX;
    return (unsigned)storwin__min(threads, (end - first) / job->per_region + 1);
}

/*
 * Writes the pages of [first, end) whose bits are set, and waits until they are durable. Sets the
 * bits of failed pages again. Returns the way of writing, STORWIN_WROTE_.
 */
int storwin__write_pages(struct storwin_window *win, uint64_t first, uint64_t end, int merge,
                         struct storwin__failure *fail)
{
    uint64_t pages = storwin__set_count(win->dirty, first, end);
    struct transfer job = {.merge = merge, .through = !merge, .fail = fail};
    struct storwin__ring ring;
    unsigned threads;

    if (pages == 0)
        return STORWIN_WROTE_NOTHING;
    atomic_fetch_add_explicit(&win->dirty_bytes, pages * win->page_bytes, memory_order_relaxed);
    threads = job_init(&job, win, first, end, pages);
    storwin__copied_pages(win, &job.window_first, &job.window_end);
    /* Threads copy in parallel; the ring has only one. */
    if (job.window_first < job.window_end && win->files[0].direct_fd >= 0 && pages > 4 &&
        storwin__ring_open(&ring) == 0) {
        const uint64_t at = win->opts.offset_bytes + first * win->page_bytes,
                       bytes = (end - first) * win->page_bytes;

        job.ring = &ring;
        storwin__file_lock_writes(&win->files[0], at, bytes, 1);
        for (job.n_idle = 0; job.n_idle < STORWIN__RING_DEPTH; job.n_idle++)
            job.idle_tags[job.n_idle] = (uint16_t)job.n_idle;
        write_region(&job, first, end);
        while (ring.under_way > 0)
            complete_request(&job);
        storwin__ring_close(&ring);
        storwin__file_lock_writes(&win->files[0], at, bytes, 0);
    } else {
        storwin__parallel(threads, write_regions, &job);
    }
    pthread_mutex_destroy(&job.lock);
    if (fdatasync(win->files[0].fd) < 0) {
        int rc = -errno;

        storwin__set_add(win->dirty, job.lo, job.hi); /* any of it may be lost */
        storwin__failure_add_pages(fail, rc, win, job.lo, job.hi);
    }
    return atomic_load(&job.direct) ? STORWIN_WROTE_DIRECT : STORWIN_WROTE_BUFFERED;
}

/* Writes n_pages for an eviction past the page cache: memory at `from`, to the place of `page` in
 * the file. The next sync makes them durable. */
int storwin__write_through(struct storwin_window *win, const uint8_t *from, uint64_t page,
                           uint64_t n_pages, struct storwin__failure *fail)
{
    struct storwin__failure none = {0, 0, 0};
    struct transfer job = {.through = 1, .fail = &none};

    (void)job_init(&job, win, page, page + n_pages, 0);
    write_request(&job, page, page + n_pages, from);
    pthread_mutex_destroy(&job.lock);
    if (none.code == 0)
        return 0;
    storwin__set_remove(win->dirty, page, page + n_pages);
    storwin__failure_add(fail, none.code, none.lo, none.hi);
    return none.code;
}

/* Reads into `to`; fills it with zeros behind the end of a shortened file. */
int storwin__read_all(int fd, uint8_t *to, uint64_t bytes, uint64_t offset)
{
    while (bytes > 0) {
        ssize_t n = pread(fd, to, (size_t)bytes, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0) {
            memset(to, 0, (size_t)bytes);
            return 0;
        }
        to += n;
        bytes -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

/* Reads as much as possible past the page cache. Memory and offset are aligned for direct I/O. */
int storwin__file_read(const struct storwin__file *f, uint8_t *to, uint64_t bytes, uint64_t offset)
{
    uint64_t direct = f->direct_fd >= 0 ? bytes / ALIGNMENT * ALIGNMENT : 0;

    if (direct > 0 && storwin__read_all(f->direct_fd, to, direct, offset) < 0)
        direct = 0;
    return storwin__read_all(f->fd, to + direct, bytes - direct, offset + direct);
}

static int read_region(const struct storwin_window *win, uint64_t first, uint64_t end)
{
    const struct storwin__file *f = &win->files[0];
    uint64_t at = first * win->page_bytes;
    uint64_t stop = storwin__min(end * win->page_bytes, win->stor_bytes);
    uint8_t *to = win->map + win->stor_offset;
    int rc = 0;

    while (rc == 0 && at < stop) { /* new memory is zero: skips holes */
        off_t data = win->commit ? -1 : lseek(f->fd, (off_t)(win->file_base + at), SEEK_DATA), hole;
        uint64_t limit = stop;

        if (!win->commit && data < 0 && errno == ENXIO)
            return 0;
        if (data >= 0) {
            at = (uint64_t)data - win->file_base;
            at = at / win->page_bytes * win->page_bytes;
            if (at >= stop)
                return 0;
            hole = lseek(f->fd, data, SEEK_HOLE);
            if (hole > 0)
                limit = storwin__min(
                    stop, storwin__round_up((uint64_t)hole - win->file_base, win->page_bytes));
        }
        rc = storwin__file_read(f, to + at, limit - at, win->file_base + at);
        at = limit;
    }
    return rc;
}

static void read_regions(void *ctx)
{
    struct transfer *job = ctx;
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

/* Reads the span from the file. */
int storwin__read_span(struct storwin_window *win, struct storwin_error *err)
{
    struct transfer job = {.merge = 0};

    storwin__parallel(job_init(&job, win, 0, storwin__pages(win), storwin__pages(win)),
                      read_regions, &job);
    pthread_mutex_destroy(&job.lock);
    if (job.read_rc < 0)
        return storwin__fail(err, job.read_rc, STORWIN__FILENAME,
                             "read at offset %llu of the file: %s",
                             (unsigned long long)(win->file_base + job.read_at * win->page_bytes),
                             storwin_strerror(job.read_rc));
    return 0;
}
