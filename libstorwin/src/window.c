/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates and frees windows. Reserves addresses for the whole window first; then maps each part
 * into its place. */
#include "commit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HUGE_BYTES (UINT64_C(2) << 20)
#define MAX_TRIES  8u /* to open a file that comes and goes */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Returns factor × pages, rounded to the nearest page, halves upwards; exact, since the product
 * with the remainder stays below 2^60. */
uint64_t storwin__storage_pages(uint64_t pages, uint32_t factor_ppb)
{
    const uint64_t one = STORWIN_FACTOR_ONE;

    return pages / one * factor_ppb + (pages % one * factor_ppb + one / 2) / one;
}

/* Computes begin and length of the storage span. */
static void divide_window(struct storwin_window *win)
{
    const struct storwin_opts *opts = &win->opts;
    const uint64_t page = win->page_bytes, pages = win->map_bytes / page;
    uint64_t storage = 0;

    if (opts->alloc_type == STORWIN_STORAGE && opts->factor_ppb == STORWIN_FACTOR_AUTO) {
        uint64_t room = opts->memory_bytes;

        if (room == 0) {
            room = storwin__memory_available(NULL);
            room -= room / 8;
        }
        storage = pages - storwin__min(pages, room / page);
    } else if (opts->alloc_type == STORWIN_STORAGE) {
        storage = storwin__storage_pages(pages, opts->factor_ppb);
    }
    if (opts->order == STORWIN_STORAGE_FIRST) {
        win->stor_offset = 0;
        win->stor_bytes = storwin__min(storage * page, win->bytes);
    } else {
        win->stor_offset = (pages - storage) * page;
        win->stor_bytes = storage ? win->bytes - win->stor_offset : 0;
    }
}

static void add_part(struct storwin_window *win, uint64_t lo, uint64_t hi, uint32_t kind,
                     uint32_t file)
{
    struct storwin__part *part = &win->parts[win->n_parts];

    if (lo >= hi)
        return;
    part->offset = lo;
    part->bytes = hi - lo;
    part->kind = kind;
    part->file = file;
    part->file_offset = kind == STORWIN_STORAGE ? win->opts.offset_bytes : 0;
    win->n_parts++;
}

/* Lists the parts in address order. */
static int plan_parts(struct storwin_window *win, const struct storwin__plan *plan)
{
    const uint64_t lo = win->stor_offset, hi = lo + win->stor_bytes;

    win->parts =
        storwin__calloc(win->opts.allocator, (size_t)plan->n_files + 2, sizeof(*win->parts));
    if (!win->parts)
        return -ENOMEM;
    if (win->stor_bytes == 0) {
        add_part(win, 0, win->bytes, STORWIN_MEMORY, 0);
        return 0;
    }
    add_part(win, 0, lo, STORWIN_MEMORY, 0);
    if (!plan->segments)
        add_part(win, lo, hi, STORWIN_STORAGE, 0);
    for (uint32_t i = 0; plan->segments && i < plan->n_files; i++) {
        uint64_t from = plan->segments[i].offset, to = from + plan->segments[i].bytes;

        add_part(win, storwin__max(from, lo), storwin__min(to, hi), STORWIN_STORAGE, i);
    }
    add_part(win, hi, win->bytes, STORWIN_MEMORY, 0);
    return 0;
}

static int open_files(struct storwin_window *win, const struct storwin__plan *plan,
                      struct storwin_error *err)
{
    win->files = storwin__calloc(win->opts.allocator, plan->n_files ? plan->n_files : 1,
                                 sizeof(*win->files));
    if (!win->files)
        return storwin__fail(err, -ENOMEM, NULL, "out of memory");
    for (uint32_t i = 0; i < plan->n_files; i++)
        win->files[i].fd = win->files[i].direct_fd = win->files[i].dir_fd = -1;
    win->n_files = plan->n_files;
    for (uint32_t i = 0; i < win->n_parts; i++) {
        const struct storwin__part *part = &win->parts[i];
        const uint32_t atomic = win->opts.atomic;
        uint64_t space = part->bytes;
        int rc = 0;

        if (part->kind != STORWIN_STORAGE)
            continue;
        if (atomic)
            rc = storwin__commit_precheck(plan->opts, plan->paths[part->file], part->bytes, &space,
                                          err);
        if (rc == 0)
            rc = storwin__file_open(&win->files[part->file], plan->opts, plan->paths[part->file],
                                    plan->attach, space, err);
        if (rc < 0)
            return rc;
        if (win->opts.pager != STORWIN_PAGER_KERNEL)
            storwin__file_open_direct(&win->files[part->file]);
    }
    return 0;
}

/* Makes memory that other processes can map. It costs no more than private memory: the kernel
 * allocates pages at first touch. */
static int open_memfd(struct storwin_window *win, uint64_t bytes, struct storwin_error *err)
{
    const uint64_t whole = storwin__round_up(bytes, win->page_bytes);
    int rc = storwin__limit_check(whole, "memfd", "storage_alloc_memfd", err);

    if (rc < 0)
        return rc;
    win->shm_fd = memfd_create("storwin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (win->shm_fd < 0 || ftruncate(win->shm_fd, (off_t)whole) < 0 ||
        fcntl(win->shm_fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        return storwin__fail(err, -errno, "storage_alloc_memfd", "a memfd of %" PRIu64 " bytes: %s",
                             bytes, storwin_strerror(-errno));
    return 0;
}

/* Opens the object of the memory part, with its space reserved. */
static int open_shm(struct storwin_window *win, const struct storwin__plan *plan,
                    struct storwin_error *err)
{
    const uint64_t bytes = win->bytes - win->stor_bytes;
    struct stat st;
    int rc = 0;

    if (bytes == 0)
        return 0;
    if (!plan->shm_name)
        return win->opts.flags & STORWIN_MEMFD ? open_memfd(win, bytes, err) : 0;
    if (!plan->attach)
        rc = storwin__limit_check(bytes, plan->shm_name, NULL, err);
    if (rc < 0)
        return rc;
    win->shm_fd = shm_open(plan->shm_name, plan->attach ? O_RDWR : O_RDWR | O_CREAT | O_EXCL, 0600);
    if (win->shm_fd < 0)
        return storwin__fail(err, -errno, NULL, "shared memory object \"%.100s\": %s",
                             plan->shm_name, storwin_strerror(-errno));
    win->shm_name = storwin__strdup(win->opts.allocator, plan->shm_name);
    if (!win->shm_name) {
        if (!plan->attach)
            shm_unlink(plan->shm_name);
        return storwin__fail(err, -ENOMEM, NULL, "out of memory");
    }
    if (!plan->attach) {
        rc = storwin__file_extend(win->opts.allocator, win->shm_fd, 0, bytes, 0);
        if (rc < 0)
            return storwin__fail(err, rc, NULL, "shared memory of %" PRIu64 " bytes: %s", bytes,
                                 storwin_strerror(rc));
    }
    if (fstat(win->shm_fd, &st) < 0)
        return storwin__fail(err, -errno, NULL, "shared memory object: %s",
                             storwin_strerror(-errno));
    if (st.st_uid != geteuid())
        return storwin__fail(err, STORWIN_EOWNER, NULL,
                             "shared memory object \"%.100s\" belongs to user %ld", plan->shm_name,
                             (long)st.st_uid);
    if ((uint64_t)st.st_size < bytes)
        return storwin__fail(err, STORWIN_ESHORT, NULL,
                             "shared memory object \"%.100s\" has %" PRIu64 " bytes of %" PRIu64,
                             plan->shm_name, (uint64_t)st.st_size, bytes);
    return 0;
}

/* Reserves addresses for the whole window, aligned to a huge page if it is at least as long as
 * one. */
static int reserve_addresses(struct storwin_window *win, struct storwin_error *err)
{
    const uint64_t slack = win->map_bytes >= HUGE_BYTES ? HUGE_BYTES : 0;
    uint8_t *at = mmap(NULL, (size_t)(win->map_bytes + slack), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint64_t skip;

    if (at == MAP_FAILED)
        return storwin__fail(err, -errno, NULL, "%" PRIu64 " bytes of addresses: %s",
                             win->map_bytes, storwin_strerror(-errno));
    skip = slack ? storwin__round_up((uint64_t)(uintptr_t)at, slack) - (uint64_t)(uintptr_t)at : 0;
    if (skip > 0)
        munmap(at, (size_t)skip);
    if (slack > skip)
        munmap(at + skip + win->map_bytes, (size_t)(slack - skip));
    win->map = at + skip;
    return 0;
}

static void advise_part(const struct storwin_window *win, const struct storwin__part *part)
{
    void *at = win->map + part->offset;
    const uint32_t style = win->opts.access_style;
    size_t len = (size_t)storwin__round_up(part->bytes, win->page_bytes);

    if (part->kind != STORWIN_STORAGE || win->opts.pager != STORWIN_PAGER_KERNEL)
        return;
    if (style & STORWIN_ACCESS_RANDOM)
        (void)madvise(at, len, MADV_RANDOM);
    else if (style & STORWIN_ACCESS_SEQUENTIAL)
        (void)madvise(at, len, MADV_SEQUENTIAL);
}

static int map_part(struct storwin_window *win, const struct storwin__part *part,
                    struct storwin_error *err)
{
    int flags = MAP_FIXED, fd = -1;
    uint64_t offset = 0;

    if (part->kind == STORWIN_STORAGE && win->opts.pager == STORWIN_PAGER_KERNEL) {
        flags |= MAP_SHARED;
        fd = win->files[part->file].fd;
        offset = part->file_offset;
    } else if (part->kind == STORWIN_MEMORY && win->shm_fd >= 0) {
        flags |= MAP_SHARED;
        fd = win->shm_fd;
    } else {
        flags |= MAP_PRIVATE | MAP_ANONYMOUS;
        if (part->kind == STORWIN_STORAGE && win->opts.pager == STORWIN_PAGER_USER)
            flags |= MAP_NORESERVE;
    }
    if (mmap(win->map + part->offset, (size_t)storwin__round_up(part->bytes, win->page_bytes),
             PROT_READ | PROT_WRITE, flags, fd, (off_t)offset) == MAP_FAILED)
        return storwin__fail(err, -errno,
                             part->kind == STORWIN_STORAGE ? STORWIN__FILENAME : "alloc_type",
                             "map %" PRIu64 " bytes: %s", part->bytes, storwin_strerror(-errno));
    advise_part(win, part);
    return 0;
}

/* Tracks by page tables if the options allow it and the kernel can. */
static void start_tracking(struct storwin_window *win)
{
    win->track = STORWIN_TRACK_ALL;
    if (win->opts.atomic && win->opts.changes == STORWIN_CHANGES_COMPARED)
        win->track = STORWIN_TRACK_COMPARED;
    else if (storwin__track_open(win) < 0 &&
             (win->adopted || storwin__pager_open(win, 1, NULL) < 0))
        win->track = win->opts.atomic ? STORWIN_TRACK_COMPARED : STORWIN_TRACK_ALL;
}

static int start_resident(struct storwin_window *win, struct storwin_error *err)
{
    const uint64_t room = win->adopted ? UINT64_MAX : storwin__memory_available(NULL);
    int rc = 0;

    if (win->stor_bytes > room)
        return storwin__fail(err, -ENOMEM, "storage_alloc_pager",
                             "resident needs %" PRIu64 " bytes of memory; %" PRIu64
                             " are available",
                             win->stor_bytes, room);
    win->huge = !win->adopted &&
                madvise(win->map + win->stor_offset,
                        (size_t)(storwin__pages(win) * win->page_bytes), MADV_HUGEPAGE) == 0;
    if (win->opts.atomic)
        rc = storwin__commit_open(win, err);
    else if (!win->files[0].created)
        rc = storwin__read_span(win, err);
    if (rc < 0)
        return rc;
    /*
     * If tracking begins before a page is present, the page never becomes part of a huge page, and
     * requests of many small pages take twice as long. So populate all pages first. Old kernels
     * cannot do that, which only costs time.
     */
    if (win->huge)
        (void)madvise(win->map + win->stor_offset, (size_t)(storwin__pages(win) * win->page_bytes),
                      MADV_POPULATE_WRITE);
    start_tracking(win);
    return 0;
}

static int start_pager(struct storwin_window *win, struct storwin_error *err)
{
    if (win->stor_bytes == 0)
        return 0;
    if (win->opts.pager == STORWIN_PAGER_KERNEL) {
        win->track = STORWIN_TRACK_MSYNC;
        return 0;
    }
    win->dirty = storwin__set_alloc(win);
    if (!win->dirty)
        return storwin__fail(err, -ENOMEM, "storage_alloc_pager", "out of memory");
    return win->opts.pager == STORWIN_PAGER_RESIDENT ? start_resident(win, err)
                                                     : storwin__pager_open(win, 0, err);
}

static int build_window(struct storwin_window *win, const struct storwin__plan *plan,
                        struct storwin_error *err)
{
    int rc;

    divide_window(win);
    rc = plan_parts(win, plan);
    if (rc < 0)
        return storwin__fail(err, rc, NULL, "out of memory");
    rc = open_files(win, plan, err);
    if (rc == 0)
        rc = open_shm(win, plan, err);
    if (rc < 0 || win->map_bytes == 0)
        return rc;
    rc = plan->sync_names ? storwin__sync_names(win, err) : 0;
    if (rc < 0)
        return rc;
    win->map = plan->adopt;
    win->adopted = plan->adopt != NULL;
    rc = win->adopted ? 0 : reserve_addresses(win, err);
    for (uint32_t i = 0; rc == 0 && !win->adopted && i < win->n_parts; i++)
        rc = map_part(win, &win->parts[i], err);
    if (rc < 0)
        return rc;
    win->source = win->map + win->stor_offset;
    return start_pager(win, err);
}

/* Closes descriptors that only the allocation needed. */
static void close_unneeded(struct storwin_window *win)
{
    for (uint32_t i = 0; i < win->n_files; i++) {
        struct storwin__file *f = &win->files[i];

        if (f->fd < 0)
            continue;
        storwin__file_unlock(f);
        if (!(win->opts.flags & STORWIN_UNLINK) && f->named) {
            close(f->dir_fd);
            f->dir_fd = -1;
        }
    }
    if (win->shm_fd >= 0 && !(win->opts.flags & STORWIN_MEMFD)) {
        close(win->shm_fd);
        win->shm_fd = -1;
    }
}

static void undo_window(struct storwin_window *win, const struct storwin__plan *plan)
{
    for (uint32_t i = 0; win->files && i < win->n_files; i++)
        storwin__file_undo(&win->files[i]);
    if (win->shm_name && !plan->attach)
        shm_unlink(win->shm_name);
}

static void window_destroy(struct storwin_window *win)
{
    const struct storwin_allocator *a = win->opts.allocator;

    storwin__pager_close(win);
    storwin__track_close(win);
    storwin__commit_close(win);
    if (win->map && !win->adopted)
        munmap(win->map, (size_t)win->map_bytes);
    for (uint32_t i = 0; win->files && i < win->n_files; i++)
        storwin__file_close(&win->files[i]);
    if (win->shm_fd >= 0)
        close(win->shm_fd);
    if (win->async_fd >= 0)
        close(win->async_fd);
    storwin__free(a, win->files);
    storwin__free(a, win->parts);
    storwin__free(a, win->segments);
    storwin__free(a, win->dirty);
    storwin__free(a, win->shm_name);
    storwin__free(a, win->path);
    storwin__free(a, win);
}

/* Makes a window without memory and files; NULL: no memory. */
struct storwin_window *storwin__window_new(const struct storwin_opts *opts)
{
    struct storwin_window *win = storwin__calloc(opts->allocator, 1, sizeof(*win));

    if (!win)
        return NULL;
    win->opts = *opts;
    win->opts.filename = NULL;
    win->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    win->track_fd = win->pagemap_fd = win->shm_fd = -1;
    atomic_init(&win->async_fd, -1);
    win->owner = getpid();
    if (opts->alloc_type == STORWIN_STORAGE) {
        win->path = storwin__strdup(opts->allocator, opts->filename);
        if (!win->path) {
            storwin__free(opts->allocator, win);
            return NULL;
        }
    }
    return win;
}

static int window_make(const struct storwin__plan *plan, uint64_t page, struct storwin_window **out,
                       struct storwin_error *err)
{
    struct storwin_window *win = storwin__window_new(plan->opts);
    int rc;

    if (!win)
        return storwin__fail(err, -ENOMEM, NULL, "out of memory");
    win->file_base = win->opts.offset_bytes;
    win->bytes = plan->bytes;
    win->map_bytes = storwin__round_up(plan->bytes, page);
    rc = build_window(win, plan, err);
    if (rc < 0) {
        undo_window(win, plan);
        window_destroy(win);
        return rc;
    }
    close_unneeded(win);
    *out = win;
    return 0;
}

int storwin__window_create(const struct storwin__plan *plan, struct storwin_window **out,
                           struct storwin_error *err)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    /* A file may lose its name before a window with commits has locked it. */
    unsigned tries = plan->opts->atomic ? MAX_TRIES : 1;
    struct storwin_error why = {.code = 0};
    int rc = storwin__opts_check(plan->opts, page, err);

    if (rc < 0)
        return rc;
    if (plan->bytes > STORWIN_MAX_BYTES)
        return storwin__fail(err, -EINVAL, NULL, "a window has at most 2^46 bytes");
    if (plan->opts->atomic && plan->bytes > STORWIN_MAX_BYTES / 4)
        return storwin__fail(err, -EINVAL, "storage_alloc_atomic",
                             "a window with commits has at most 2^44 bytes");
    if (plan->bytes > SIZE_MAX / 2)
        return storwin__fail(err, -ENOMEM, NULL,
                             "a process of this machine cannot address %" PRIu64 " bytes",
                             plan->bytes);
    do
        rc = window_make(plan, page, out, &why);
    while (rc == -EAGAIN && --tries > 0);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

int storwin_alloc(const struct storwin_opts *opts, uint64_t bytes, struct storwin_window **out,
                  struct storwin_error *err)
{
    struct storwin_opts own;
    struct storwin__plan plan = {.opts = &own, .bytes = bytes, .paths = &own.filename};
    int rc;

    if (!out)
        return storwin__fail(err, -EINVAL, NULL, "an argument is NULL");
    rc = storwin__opts_or_defaults(&own, opts, err);
    if (rc < 0)
        return rc;
    plan.n_files = own.alloc_type == STORWIN_STORAGE;
    return storwin__window_create(&plan, out, err);
}

static int remove_names(struct storwin_window *win, struct storwin_error *err)
{
    int rc = 0;

    if (win->shm_name && win->rank == 0)
        (void)shm_unlink(win->shm_name);
    if (!(win->opts.flags & STORWIN_UNLINK) || win->rank != 0)
        return 0;
    for (uint32_t i = 0; i < win->n_files; i++) {
        int one = win->files[i].fd >= 0 ? storwin__file_unlink(&win->files[i]) : 0;

        if (one < 0 && rc == 0)
            rc = storwin__fail(err, one, "storage_alloc_unlink", "remove \"%.100s\": %s", win->path,
                               storwin_strerror(one));
    }
    return rc;
}

static int window_free(struct storwin_window *win, uint32_t flags, struct storwin_error *err)
{
    int rc, unlinked;

    if (!win)
        return 0;
    rc = storwin__owned(win, err);
    if (rc < 0)
        return rc;
    if (atomic_load(&win->attached) > 0 || atomic_load(&win->async) != STORWIN__IDLE)
        return storwin__fail(err, STORWIN_EBUSY, NULL,
                             "the window is attached, or its asynchronous sync is in flight");
    if (!((win->opts.flags | flags) & (STORWIN_DISCARD | STORWIN_UNLINK)))
        rc = storwin__sync(win, 0, win->bytes, err);
    unlinked = remove_names(win, rc < 0 ? NULL : err);
    window_destroy(win);
    return rc < 0 ? rc : unlinked;
}

int storwin_free(struct storwin_window *win, struct storwin_error *err)
{
    return window_free(win, 0, err);
}

int storwin_discard(struct storwin_window *win, struct storwin_error *err)
{
    return window_free(win, STORWIN_DISCARD, err);
}
