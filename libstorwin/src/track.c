/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tracks changed pages of private memory, by asynchronous write protection (userfaultfd).
 * PAGEMAP_SCAN reads and resets it in one step, so that no store in between is lost. Soft-dirty
 * bits are unsuitable: reading and resetting them takes two steps, and the reset affects the whole
 * process.
 */
#include "uffd.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* From Linux 6.7, newer than the headers of the build may be. */
#define WP_ASYNC      (UINT64_C(1) << 15)
#define WRITTEN       (UINT64_C(1) << 1)
#define WP_MATCHING   (UINT64_C(1) << 0)
#define CHECK_WPASYNC (UINT64_C(1) << 1)

struct scan {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
struct region {
    uint64_t start, end, categories;
};
_Static_assert(sizeof(struct scan) == 96 && sizeof(struct region) == 24, "the kernel's layout");
#define SCAN _IOWR('f', 16, struct scan)

/*
 * The bounds of the tracked addresses, whole pages. The first and the last page of adopted memory
 * may contain other data, and stores into those must not count: storwin__edges().
 */
static uint64_t track_start(const struct storwin_window *win)
{
    return storwin__round_up((uint64_t)(uintptr_t)(win->map + win->stor_offset), win->page_bytes);
}

static uint64_t track_end(const struct storwin_window *win)
{
    const uint64_t page = win->page_bytes;
    const uint64_t end = (uint64_t)(uintptr_t)(win->map + win->stor_offset) + win->stor_bytes;

    return win->adopted ? end / page * page : storwin__round_up(end, page);
}

/* Gets the window's pages that are partly in untracked pages of memory: [0, *first) and [*last, the
 * end). */
void storwin__edges(const struct storwin_window *win, uint64_t *first, uint64_t *last)
{
    const uint64_t base = (uint64_t)(uintptr_t)(win->map + win->stor_offset);
    const uint64_t page = win->page_bytes;

    *first = track_start(win) > base;
    *last = track_end(win) < base + win->stor_bytes ? (track_end(win) - base) / page
                                                    : storwin__pages(win);
}

/* Tracks the storage span from now on, and sets win->track. At first all pages count as
 * unchanged. */
int storwin__track_open(struct storwin_window *win)
{
    const uint64_t start = track_start(win), len = track_end(win) - start;
    struct uffdio_api api = {.api = UFFD_API, .features = WP_ASYNC};
    struct scan probe = {.size = sizeof(probe),
                         .start = start,
                         .end = start + len,
                         .flags = CHECK_WPASYNC | WP_MATCHING,
                         .category_mask = WRITTEN,
                         .return_mask = WRITTEN};
    uint32_t user_faults_only; /* irrelevant: the kernel itself serves the faults */
    struct region one = {0};
    int fd, pagemap;

    win->track = STORWIN_TRACK_ALL;
    /* Adopted memory may be less than a page. */
    if (start >= start + len || storwin__disabled(STORWIN__NO_SCAN))
        return -1;
    fd = storwin__uffd_create(&user_faults_only);
    if (fd < 0)
        return -1;
    /* Open as long as the window: a sync must not depend on a free descriptor. */
    pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    probe.vec = (uint64_t)(uintptr_t)&one;
    probe.vec_len = 1;
    probe.max_pages = 1;
    if (pagemap < 0 || ioctl(fd, UFFDIO_API, &api) < 0 ||
        storwin__uffd_register(fd, start, len, 0) < 0 || ioctl(pagemap, SCAN, &probe) < 0) {
        if (pagemap >= 0)
            close(pagemap);
        close(fd);
        return -1;
    }
    win->track_fd = fd;
    win->pagemap_fd = pagemap;
    win->track = STORWIN_TRACK_SCAN;
    storwin__track_scan(win, 0, storwin__pages(win), 1);
    storwin__set_remove(win->dirty, 0, storwin__pages(win));
    return 0;
}

void storwin__track_close(struct storwin_window *win)
{
    if (win->track_fd >= 0)
        close(win->track_fd);
    if (win->pagemap_fd >= 0)
        close(win->pagemap_fd);
    win->track_fd = win->pagemap_fd = -1;
}

/* Sets the bits of the window's pages that have a byte in a range of addresses. */
static void mark_pages(struct storwin_window *win, uint64_t start, uint64_t end)
{
    const uint64_t base = (uint64_t)(uintptr_t)(win->map + win->stor_offset),
                   page = win->page_bytes;

    storwin__set_add(win->dirty, start > base ? (start - base) / page : 0,
                     storwin__min(storwin__round_up(end - base, page) / page, storwin__pages(win)));
}

/* Sets the bits of the pages that have changed since the last call with `protect`. A page that
 * cannot be scanned counts as changed. */
void storwin__track_scan(struct storwin_window *win, uint64_t first, uint64_t end, int protect)
{
    uint64_t base = (uint64_t)(uintptr_t)(win->map + win->stor_offset), page = win->page_bytes;
    struct region found[256] = {{0}}; /* memory checkers do not know that the kernel fills it */
    struct scan s = {.size = sizeof(s),
                     .flags = CHECK_WPASYNC | (protect ? WP_MATCHING : 0),
                     .vec_len = 256,
                     .category_mask = WRITTEN,
                     .return_mask = WRITTEN};
    const int fd = win->pagemap_fd;
    int again = 0;

    s.vec = (uint64_t)(uintptr_t)found;
    s.start = (base + first * page) / page * page;
    s.end = storwin__min(storwin__round_up(base + end * page, page), track_end(win));
    if (s.start < track_start(win))
        s.start = track_start(win);
    while (fd >= 0 && s.start < s.end) {
        int n = ioctl(fd, SCAN, &s);

        /* The program may have mapped part of adopted memory anew: tracks that, too, unless it is
         * shared, where stores of others would be missed. */
        if (n < 0 && !again && storwin__memory_private(s.start, s.end) &&
            storwin__uffd_register(win->track_fd, s.start, s.end - s.start, 0) == 0) {
            /* Some kernels leave pages that mremap() moved protected: they would seem unchanged. */
            (void)storwin__uffd_protect(win->track_fd, s.start, s.end - s.start, 0);
            mark_pages(win, s.start, s.end);
            again = 1;
            continue;
        }
        if (n < 0)
            break;
        for (int i = 0; i < n; i++)
            mark_pages(win, found[i].start, found[i].end);
        s.start = s.walk_end;
    }
    if (fd < 0 || s.start < s.end)
        mark_pages(win, s.start, s.end);
}
