/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel pager: shared mappings. The page cache tracks dirty pages. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK_BYTES (UINT64_C(4) << 20) /* unit in which errors are located */

/*
 * Marks the pages that are still in memory as changed, without regard to their content, so that
 * they are written again. Leaves other pages alone: reading them again could raise SIGBUS.
 */
static void touch_pages(struct storwin_window *win, uint64_t lo, uint64_t hi)
{
    unsigned char there[256];

    while (lo < hi) {
        uint64_t bytes = storwin__min(hi - lo, sizeof(there) * win->page_bytes);

        if (mincore(win->map + lo, (size_t)bytes, there) == 0)
            for (uint64_t i = 0; i * win->page_bytes < bytes; i++)
                if (there[i] & 1)
                    storwin__store_same(win->map + lo + i * win->page_bytes);
        lo += bytes;
    }
}

/* Returns the length of the extent at `at`, up to `end`, that is all written or all unwritten
 * (*unwritten). If the file system does not report extents, all of it counts as written. */
static uint64_t extent_length(int fd, uint64_t at, uint64_t end, int *unwritten)
{
    union {
        struct fiemap map;
        uint8_t bytes[sizeof(struct fiemap) + sizeof(struct fiemap_extent)];
    } m;
    const struct fiemap_extent *e = m.map.fm_extents;

    memset(&m, 0, sizeof(m));
    m.map.fm_start = at;
    m.map.fm_length = end - at;
    m.map.fm_extent_count = 1;
    *unwritten = 0;
    if (ioctl(fd, FS_IOC_FIEMAP, &m.map) < 0 || m.map.fm_mapped_extents == 0)
        return end - at;
    if (e->fe_logical > at)
        return storwin__min(e->fe_logical, end) - at;
    *unwritten = (e->fe_flags & FIEMAP_EXTENT_UNWRITTEN) != 0;
    return storwin__min(e->fe_logical + e->fe_length, end) - at;
}

/* Returns whether the window offsets [lo, hi), all in one file, have an unwritten extent. */
static int any_unwritten(const struct storwin_window *win, const struct storwin__part *part,
                         uint64_t lo, uint64_t hi)
{
    const uint64_t end = part->file_offset + (hi - part->offset);
    int any = 0;

    if (win->files[part->file].device)
        return 0;
    for (uint64_t at = part->file_offset + (lo - part->offset); at < end && !any;)
        at += extent_length(win->files[part->file].fd, at, end, &any);
    return any;
}

/* Writes the unwritten extents of [at, end), at most one piece, past the page cache. Reads all of
 * the piece from the page cache first: a direct write drops the folios that it overlaps, with their
 * neighbouring pages. */
static int write_piece(int fd, int direct_fd, uint8_t *piece, uint64_t at, uint64_t end)
{
    const uint64_t begin = at;
    int rc = 0, unwritten;

    memset(piece, 0, (size_t)(end - at));
    if (pread(fd, piece, (size_t)(end - at), (off_t)at) < 0)
        return -errno;
    for (uint64_t n; rc == 0 && at < end; at += n) {
        n = extent_length(fd, at, end, &unwritten);
        if (unwritten &&
            pwrite(direct_fd, piece + (at - begin), (size_t)n, (off_t)at) != (ssize_t)n)
            rc = errno ? -errno : -EIO;
    }
    return rc;
}

static int write_pieces(int fd, int direct_fd, uint64_t at, uint64_t end)
{
    uint8_t *piece = NULL;
    struct stat st;
    int rc = -posix_memalign((void **)&piece, 4096, CHUNK_BYTES);

    if (rc < 0)
        return rc;
    rc = fstat(fd, &st) < 0 ? -errno : 0;
    for (uint64_t next; rc == 0 && at < end; at = next) {
        next = storwin__min(end, (at / CHUNK_BYTES + 1) * CHUNK_BYTES);
        errno = 0;
        rc = write_piece(fd, direct_fd, piece, at, next);
        if (next > (uint64_t)st.st_size && ftruncate(fd, st.st_size) < 0 && rc == 0)
            rc = -errno; /* the last block was written whole */
    }
    free(piece);
    return rc == 0 && fdatasync(fd) < 0 ? -errno : rc;
}

/*
 * Repairs window offsets [lo, hi) of one file after a write had failed and a later one succeeded.
 * In that case ext4 forgets to mark the reserved blocks that it wrote as written: they read as
 * zeros once their pages have left memory. A direct write marks them. If no extent is unwritten
 * (other file systems, devices), there is nothing to repair. A store between the read of a piece
 * and its direct write is lost. So the failed sync does not repair; the next one does, since its
 * caller knows of the failure.
 */
static int repair_range(struct storwin_window *win, const struct storwin__part *part, uint64_t lo,
                        uint64_t hi)
{
    const uint64_t first = part->file_offset,
                   last = first + storwin__round_up(part->bytes, win->page_bytes);
    const int fd = win->files[part->file].fd;
    uint64_t at = first + (lo - part->offset), end = first + (hi - part->offset);
    int direct_fd, rc;
    char self[40];

    at = at / CHUNK_BYTES * CHUNK_BYTES; /* no folio is larger, and each is aligned to its size */
    at = storwin__max(at, first);
    end = storwin__min(storwin__round_up(end, CHUNK_BYTES), last);
    if (!any_unwritten(win, part, part->offset + (at - first), part->offset + (end - first)))
        return 0;
    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    direct_fd = open(self, O_RDWR | O_DIRECT | O_CLOEXEC);
    if (direct_fd < 0)
        return -errno;
    /* No allocation may grow the file between fstat and ftruncate in write_pieces(). */
    rc = storwin__file_lock_size(fd, 1);
    if (rc == 0) {
        rc = write_pieces(fd, direct_fd, at, end);
        (void)storwin__file_lock_size(fd, 0);
    }
    close(direct_fd);
    return rc;
}

/*
 * Finds the failed range after msync() has failed without naming it: writes all pages again, chunk
 * by chunk. The kernel keeps one error for each file, and writes on its own, too. So this marks
 * each chunk only in its turn; otherwise the kernel might report one chunk's failure for another,
 * and count the failed chunk's pages as written.
 */
static void find_failure(struct storwin_window *win, const struct storwin__part *part, uint64_t lo,
                         uint64_t hi, int code, struct storwin__failure *fail)
{
    const unsigned all =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    const int fd = win->files[part->file].fd;
    struct storwin__failure here = {0, 0, 0};
    int again = 0;

    /* Waits for writes in flight; errors up to here are covered by `code`. */
    (void)sync_file_range(fd, (off_t)(part->file_offset + lo - part->offset), (off_t)(hi - lo),
                          SYNC_FILE_RANGE_WAIT_BEFORE);
    for (uint64_t at = lo, next; at < hi; at = next) {
        next = storwin__min(hi, (at / CHUNK_BYTES + 1) * CHUNK_BYTES);
        touch_pages(win, at, next);
        if (sync_file_range(fd, (off_t)(part->file_offset + at - part->offset), (off_t)(next - at),
                            all) < 0) {
            storwin__failure_add(&here, -errno, at, next);
            again = 1;
        } else if (any_unwritten(win, part, at, next)) { /* only repair_range() can repair these */
            storwin__failure_add(&here, code, at, next);
        }
    }
    if (here.code == 0) /* no chunk failed this time, but lost pages may have left memory */
        storwin__failure_add(&here, code, lo, hi);
    else
        touch_pages(win, here.lo, here.hi); /* for the next sync */
    storwin__failure_add(&win->unmended, code, here.lo, here.hi);
    /* An unwritten extent may never have been stored to: alone it does not locate the failure. */
    storwin__failure_add(fail, code, again ? here.lo : lo, again ? here.hi : hi);
}

/* Repairs the part of [lo, hi) that failed before and has been written again. */
static void repair_failed(struct storwin_window *win, const struct storwin__part *part, uint64_t lo,
                          uint64_t hi, struct storwin__failure *fail)
{
    struct storwin__failure *f = &win->unmended;
    const uint64_t from = storwin__max(lo, f->lo), to = storwin__min(hi, f->hi);
    int rc = from < to ? repair_range(win, part, from, to) : 0;

    if (rc < 0)
        storwin__failure_add(fail, rc, from, to);
    else if (from == f->lo && to == f->hi)
        *f = (struct storwin__failure){0, 0, 0};
}

/* Repairs what the pagers resident and user wrote by the page cache: short requests, and the odd
 * bytes at the end of the span. */
void storwin__cache_repair(struct storwin_window *win, struct storwin__failure *fail)
{
    for (uint32_t i = 0; i < win->n_parts; i++) {
        const struct storwin__part *part = &win->parts[i];

        if (part->kind == STORWIN_STORAGE)
            repair_failed(win, part, part->offset, part->offset + part->bytes, fail);
    }
}

/* Syncs the part of [lo, hi) in one file. */
static void sync_part(struct storwin_window *win, const struct storwin__part *part, uint64_t lo,
                      uint64_t hi, struct storwin__failure *fail)
{
    if (msync(win->map + lo, (size_t)(hi - lo), MS_SYNC) < 0)
        find_failure(win, part, lo, hi, -errno, fail);
    else if (win->unmended.code < 0)
        repair_failed(win, part, lo, hi, fail);
}

/* Syncs window offsets [lo, hi): lo is on a page boundary of the storage span, and so is hi, unless
 * it is the span's end. */
int storwin__cache_sync(struct storwin_window *win, uint64_t lo, uint64_t hi,
                        struct storwin__failure *fail)
{
    for (uint32_t i = 0; i < win->n_parts; i++) {
        const struct storwin__part *part = &win->parts[i];
        uint64_t from = storwin__max(lo, part->offset);
        uint64_t to = storwin__min(hi, part->offset + part->bytes);

        if (part->kind == STORWIN_STORAGE && from < to)
            sync_part(win, part, from, to, fail);
    }
    return STORWIN_WROTE_MSYNC;
}
