/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes the user pager: sizes, tables, threads. pager.h describes how it works. */
#include "pager.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_BLOCKS (UINT64_C(1) << 28)

static void choose_sizes(struct storwin__pager *p, int resident)
{
    const struct storwin_window *win = p->win;
    const uint64_t page = win->page_bytes, all = storwin__pages(win) * page;
    uint64_t budget = win->opts.budget_bytes, block = 65536;

    if (budget == 0)
        budget = storwin__memory_available(NULL) / 4;
    if (budget < STORWIN_MIN_BUDGET)
        budget = STORWIN_MIN_BUDGET;
    if (resident || (win->opts.access_style & STORWIN_ACCESS_RANDOM))
        block = page;
    else if (win->opts.access_style & (STORWIN_ACCESS_SEQUENTIAL | STORWIN_ACCESS_REVERSE))
        block = 262144;
    if (!resident && win->opts.block_bytes > 0)
        block = win->opts.block_bytes;
    while (!resident && block > page && block > budget / 16)
        block /= 2;
    if (block < page)
        block = page;
    while (all / block > MAX_BLOCKS)
        block *= 2;
    p->block_bytes = block;
    p->block_pages = block / page;
    p->n_blocks = storwin__round_up(all, block) / block;
    p->max = resident ? p->n_blocks : budget / block;
    p->keep_free = storwin__min(p->max / 16 + 1, (UINT64_C(8) << 20) / block + 1);
}

static int start_workers(struct storwin__pager *p, int resident)
{
    const unsigned half = (storwin__threads(p->win) + 1) / 2;
    const unsigned handlers = resident ? 1 : half, evictors = resident ? 0 : half;

    if (!resident) {
        storwin__stash_open(p, evictors);
        p->bounce = (size_t)storwin__round_up(
            STORWIN__AHEAD_BYTES > p->block_bytes ? STORWIN__AHEAD_BYTES : p->block_bytes, 4096);
        p->all_bounces = handlers * p->bounce;
        p->bounces =
            mmap(NULL, p->all_bounces, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p->bounces == MAP_FAILED) {
            p->bounces = NULL;
            return -errno;
        }
    }
    for (unsigned i = 0; i < handlers + evictors; i++) {
        int rc = storwin__thread(&p->workers[i],
                                 i < handlers ? storwin__pager_handler : storwin__pager_evictor, p);

        if (rc < 0)
            return rc;
        p->n_workers++;
    }
    return 0;
}

/* Populates the span: protection applies only to pages that are present. */
static int protect_all(struct storwin__pager *p)
{
    const struct storwin_window *win = p->win;
    const uint64_t pages = storwin__pages(win);

    for (uint64_t i = 0; i < pages; i++)
        storwin__store_same(p->base + i * win->page_bytes);
    pthread_mutex_lock(&p->lock);
    memset(p->state, PRESENT, (size_t)p->n_blocks);
    storwin__pager_set_resident(p, p->n_blocks);
    pthread_mutex_unlock(&p->lock);
    return storwin__blocks_protect(p, 0, p->n_blocks, 1);
}

static int open_pager(struct storwin__pager *p, int resident, struct storwin_error *err)
{
    struct storwin_window *win = p->win;
    int rc;

    p->uffd = storwin__uffd_open(&p->user_faults_only, &p->can_poison, &p->can_move);
    if (p->uffd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        return storwin__fail(err, -errno, "storage_alloc_pager", "userfaultfd: %s",
                             storwin_strerror(-errno));
    if (p->uffd < 0)
        return storwin__fail(err, STORWIN_EPAGER, "storage_alloc_pager",
                             "userfaultfd with write protection: %s; see "
                             "vm.unprivileged_userfaultfd and /dev/userfaultfd",
                             storwin_strerror(-errno));
    choose_sizes(p, resident);
    /* The budget may be far larger than the window. */
    p->ring_cap = resident ? 1 : storwin__min(p->max, p->n_blocks) * 2;
    p->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (p->stop_fd < 0)
        return storwin__fail(err, -errno, "storage_alloc_pager", "eventfd: %s",
                             storwin_strerror(-errno));
    p->ring = storwin__realloc(win->opts.allocator, NULL, p->ring_cap * sizeof(*p->ring));
    p->state = storwin__calloc(win->opts.allocator, (size_t)p->n_blocks, 1);
    p->touched = storwin__set_alloc(win);
    if (!p->ring || !p->state || !p->touched)
        return storwin__fail(err, -ENOMEM, "storage_alloc_pager", "out of memory");
    if (!resident) {
        (void)madvise(p->base, (size_t)storwin__blocks_bytes(p, 0, p->n_blocks), MADV_NOHUGEPAGE);
        (void)madvise(p->base, (size_t)storwin__blocks_bytes(p, 0, p->n_blocks), MADV_DONTFORK);
    }
    rc = storwin__uffd_register(p->uffd, storwin__block_addr(p, 0),
                                storwin__blocks_bytes(p, 0, p->n_blocks), !resident);
    if (rc < 0)
        return storwin__fail(err, STORWIN_EPAGER, "storage_alloc_pager", "userfaultfd: %s",
                             storwin_strerror(rc));
    rc = start_workers(p, resident);
    if (rc < 0)
        return storwin__fail(err, rc, "storage_alloc_pager", "threads and their memory: %s",
                             storwin_strerror(rc));
    rc = resident ? protect_all(p) : 0;
    if (rc < 0)
        return storwin__fail(err, STORWIN_EPAGER, "storage_alloc_pager", "userfaultfd: %s",
                             storwin_strerror(rc));
    win->track = STORWIN_TRACK_FAULTS;
    return 0;
}

/* Pages the storage span; with `resident` it only tracks the stores into it. */
int storwin__pager_open(struct storwin_window *win, int resident, struct storwin_error *err)
{
    struct storwin__pager *p = storwin__calloc(win->opts.allocator, 1, sizeof(*p));
    int rc;

    if (!p)
        return storwin__fail(err, -ENOMEM, "storage_alloc_pager", "out of memory");
    p->win = win;
    p->base = win->map + win->stor_offset;
    p->pages = storwin__pages(win);
    p->uffd = p->stop_fd = -1;
    for (unsigned i = 0; i < STORWIN__STREAMS; i++)
        p->expect[i] = UINT64_MAX;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->room, NULL);
    pthread_cond_init(&p->pressure, NULL);
    pthread_cond_init(&p->idle, NULL);
    win->pager = p;
    rc = open_pager(p, resident, err);
    if (rc < 0)
        storwin__pager_close(win);
    return rc;
}

void storwin__pager_close(struct storwin_window *win)
{
    struct storwin__pager *p = win->pager;
    const uint64_t one = 1;

    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stopping = 1;
    pthread_cond_broadcast(&p->pressure);
    pthread_cond_broadcast(&p->room);
    pthread_cond_broadcast(&p->idle);
    pthread_mutex_unlock(&p->lock);
    /* It cannot fail: an eventfd takes its first write. Leaking is better than waiting for threads
     * that do not end. */
    if (p->stop_fd >= 0 && write(p->stop_fd, &one, sizeof(one)) < 0)
        return;
    while (p->n_workers > 0)
        pthread_join(p->workers[--p->n_workers], NULL);
    if (p->stash)
        munmap(p->stash, p->all_stash);
    if (p->bounces)
        munmap(p->bounces, p->all_bounces);
    if (p->uffd >= 0)
        close(p->uffd);
    if (p->stop_fd >= 0)
        close(p->stop_fd);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->room);
    pthread_cond_destroy(&p->pressure);
    pthread_cond_destroy(&p->idle);
    storwin__free(win->opts.allocator, p->ring);
    storwin__free(win->opts.allocator, p->state);
    storwin__free(win->opts.allocator, p->touched);
    storwin__free(win->opts.allocator, p);
    win->pager = NULL;
}

void storwin__pager_query(const struct storwin_window *win, struct storwin_info *info)
{
    const struct storwin__pager *p = win->pager;

    if (!p)
        return;
    info->user_faults_only = p->user_faults_only;
    info->keeps_pinned = p->stash != NULL;
    info->budget_bytes = p->max * p->block_bytes;
    if (win->opts.pager == STORWIN_PAGER_USER)
        info->block_bytes = p->block_bytes;
}

void storwin__pager_stats(const struct storwin_window *win, struct storwin_stats *stats)
{
    const struct storwin__pager *p = win->pager;

    if (!p)
        return;
    stats->n_pinned = atomic_load_explicit(&p->n_pinned, memory_order_relaxed);
    stats->resident_bytes = atomic_load_explicit(&p->resident_bytes, memory_order_relaxed);
    stats->n_faults = atomic_load_explicit(&p->n_faults, memory_order_relaxed);
    stats->read_bytes = atomic_load_explicit(&p->read_bytes, memory_order_relaxed);
}
