/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds pages that a commit cannot read: the program has protected or unmapped them. To read them
 * would end the process with SIGSEGV. */
#include "commit.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

#define FEW_PAGES 64u

static int populate_range(const struct storwin_window *win, uint64_t address, uint64_t bytes)
{
    const uint64_t page = win->page_bytes, at = address / page * page;
    const uint64_t end = storwin__round_up(address + bytes, page);

    return madvise((void *)(uintptr_t)at, (size_t)(end - at), MADV_POPULATE_READ);
}

static int span_readable(const struct storwin_window *win, uint64_t first, uint64_t end)
{
    const uint64_t at = first * win->page_bytes,
                   to = storwin__min(end * win->page_bytes, win->stor_bytes);

    if (populate_range(win, (uint64_t)(uintptr_t)(win->map + win->stor_offset) + at, to - at) == 0)
        return 1;
    if (errno == EFAULT || errno == ENOMEM)
        return 0;
    /* EINVAL: no permission, or a kernel without this advice: then nothing is known. */
    return errno != EINVAL || populate_range(win, (uint64_t)(uintptr_t)win->commit, 1) < 0;
}

/* To ask for one page takes 0.3 us, to read the list of mappings some 20 us. */
static int mappings_readable(const struct storwin_window *win)
{
    const uint64_t at = (uint64_t)(uintptr_t)(win->map + win->stor_offset);

    return storwin__memory_readable(at, at + win->stor_bytes);
}

/* Returns whether every page can be read; 1 too if nothing is known. */
int storwin__all_readable(const struct storwin_window *win)
{
    return mappings_readable(win) || span_readable(win, 0, storwin__pages(win));
}

static int check_span(const struct storwin_window *win, uint64_t first, uint64_t end,
                      struct storwin_error *err)
{
    uint64_t last;

    if (span_readable(win, first, end))
        return 0;
    while (first + 1 < end && span_readable(win, first, first + 1))
        first++;
    for (last = first + 1; last < end && !span_readable(win, last, last + 1);)
        last++;
    first *= win->page_bytes;
    last = storwin__min(last * win->page_bytes, win->stor_bytes);
    storwin__fail(err, -EFAULT, NULL,
                  "bytes %" PRIu64 " to %" PRIu64
                  " of the window are unmapped or protected; \"%.80s\" still holds generation "
                  "%" PRIu64,
                  win->stor_offset + first, win->stor_offset + last, win->path,
                  win->commit->last.generation);
    if (err) {
        err->offset = win->stor_offset + first;
        err->bytes = last - first;
    }
    return -EFAULT;
}

/* Checks the pages of a set; NULL: all pages. */
int storwin__check_readable(const struct storwin_window *win, const atomic_uint_least64_t *set,
                            struct storwin_error *err)
{
    const uint64_t pages = storwin__pages(win);
    uint64_t page = 0, end;
    int rc = 0;

    if ((!set || storwin__set_count(set, 0, pages) > FEW_PAGES) && mappings_readable(win))
        return 0;
    if (!set)
        return check_span(win, 0, pages, err);
    while (rc == 0 && (page = storwin__set_next(set, page, pages, 1)) < pages) {
        end = storwin__set_next(set, page, pages, 0);
        rc = check_span(win, page, end, err);
        page = end;
    }
    return rc;
}

/* Checks that no part of existing memory is unmapped, where page tables show no change, and that
 * its edges can be read, which only sums show. */
int storwin__check_mapped(const struct storwin_window *win, struct storwin_error *err)
{
    const uint64_t base = (uint64_t)(uintptr_t)win->map, page = win->page_bytes;
    const uint64_t at = base / page * page, to = storwin__round_up(base + win->stor_bytes, page);
    const uint64_t pages = storwin__pages(win);
    uint64_t first, last;
    int rc = 0;

    if (!win->adopted)
        return 0;
    /* With MS_ASYNC the kernel only looks at the mappings. */
    if (msync((void *)(uintptr_t)at, (size_t)(to - at), MS_ASYNC) < 0 && errno == ENOMEM)
        rc = check_span(win, 0, pages, err);
    if (rc < 0 || win->track == STORWIN_TRACK_COMPARED) /* then every page is checked */
        return rc;
    storwin__edges(win, &first, &last);
    if (first > 0)
        rc = check_span(win, 0, first, err);
    if (rc == 0 && last < pages)
        rc = check_span(win, last, pages, err);
    return rc;
}
