/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel pager: shared mappings. The page cache knows what is to be written. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#define CHUNK_BYTES (UINT64_C(4) << 20) /* unit in which errors are told apart */

/*
 * Marks the pages that are still in memory changed again, whatever they hold, so that they are
 * written once more. Others are not touched: to read them again could end in SIGBUS.
 */
static void touch(struct storwin_window *win, uint64_t lo, uint64_t hi)
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

/*
 * msync() has failed and does not say where: everything is written again, chunk by chunk. The
 * kernel keeps errors by file, and writes of its own accord too: a chunk is marked only when its
 * turn has come, or a failure of one would be told of another, and its pages be taken for written.
 */
static void find_failure(struct storwin_window *win, const struct storwin__part *part, uint64_t lo,
                         uint64_t hi, int code, struct storwin__failure *fail)
{
    const unsigned all =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    const int fd = win->files[part->file].fd;
    struct storwin__failure here = {0, 0, 0};

    /* What is still under way ends; errors so far are told as `code`. */
    (void)sync_file_range(fd, (off_t)(part->file_offset + lo - part->offset), (off_t)(hi - lo),
                          SYNC_FILE_RANGE_WAIT_BEFORE);
    for (uint64_t at = lo, next; at < hi; at = next) {
        next = storwin__min(hi, (at / CHUNK_BYTES + 1) * CHUNK_BYTES);
        touch(win, at, next);
        if (sync_file_range(fd, (off_t)(part->file_offset + at - part->offset), (off_t)(next - at),
                            all) < 0)
            storwin__failure_add(&here, -errno, at, next);
    }
    if (here.code ==
        0) /* this time nothing failed, but what was lost before may have left memory */
        storwin__failure_add(&here, code, lo, hi);
    else
        touch(win, here.lo, here.hi); /* for the next sync */
    storwin__failure_add(fail, code, here.lo, here.hi);
}

/* The part of [lo, hi) in one file. */
static void sync_part(struct storwin_window *win, const struct storwin__part *part, uint64_t lo,
                      uint64_t hi, struct storwin__failure *fail)
{
    if (msync(win->map + lo, (size_t)(hi - lo), MS_SYNC) < 0)
        find_failure(win, part, lo, hi, -errno, fail);
}

/* Syncs window offsets [lo, hi), which begins on a page of the storage span and ends on one or at
 * the span's end. */
int storwin__cache_sync(struct storwin_window *win, uint64_t lo, uint64_t hi,
                        struct storwin__failure *fail)
{
    for (uint32_t i = 0; i < win->n_parts; i++) {
        const struct storwin__part *part = &win->parts[i];
        uint64_t from = lo > part->offset ? lo : part->offset;
        uint64_t to = storwin__min(hi, part->offset + part->bytes);

        if (part->kind == STORWIN_STORAGE && from < to)
            sync_part(win, part, from, to, fail);
    }
    return STORWIN_WROTE_MSYNC;
}
