/* SPDX-License-Identifier: BSD-3-Clause */
/* Properties and statistics of a window. */
#include "commit.h"

#include <errno.h>
#include <string.h>

void *storwin_base(const struct storwin_window *win)
{
    void *base = NULL;

    if (!win)
        return NULL;
    if (win->n_ranks == 0)
        return win->map;
    (void)storwin_shared_segment(win, win->rank, &base, NULL, NULL);
    return base;
}

static uint64_t counter_load(const atomic_uint_least64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Fills a struct whose first member is its size: no more than that size, and no more than this
 * release's members. */
int storwin__struct_give(void *to, const void *full, size_t bytes)
{
    size_t size = 0;

    if (to)
        memcpy(&size, to, sizeof(size));
    if (size < bytes)
        return -EINVAL;
    memcpy((char *)to + sizeof(size), (const char *)full + sizeof(size), bytes - sizeof(size));
    return 0;
}

int storwin_query(const struct storwin_window *win, struct storwin_info *info)
{
    struct storwin_info full = {0};
    const struct storwin__file *f;

    if (!win)
        return -EINVAL;
    f = win->n_files && win->stor_bytes
            ? &win->files[win->parts[win->parts[0].kind == STORWIN_STORAGE ? 0 : 1].file]
            : NULL;
    full.base = win->map;
    full.bytes = win->bytes;
    full.memory_bytes = win->bytes - win->stor_bytes;
    full.storage_bytes = win->stor_bytes;
    full.offset_bytes = win->opts.offset_bytes;
    full.page_bytes = (uint32_t)win->page_bytes;
    full.alloc_type = win->opts.alloc_type;
    full.order = win->opts.order;
    full.factor_ppb = win->opts.factor_ppb;
    full.pager = win->opts.pager;
    full.track = win->track;
    full.target = !f          ? STORWIN_TARGET_NONE
                  : f->device ? STORWIN_TARGET_DEVICE
                              : STORWIN_TARGET_FILE;
    full.created = f ? f->created : 0;
    full.striping = f ? f->striping : STORWIN_STRIPING_NONE;
    full.huge = win->huge;
    full.atomic = win->opts.atomic;
    if (win->commit) {
        full.newest_generation = win->commit->newest_generation;
        full.generation = win->commit->last.seq ? win->commit->last.generation : 0;
        full.app_version = win->commit->app_version;
        full.recovery = win->commit->recovery;
        full.replayed_bytes = win->commit->replayed_bytes;
    }
    storwin__pager_query(win, &full);
    return storwin__struct_give(info, &full, sizeof(full));
}

int storwin_window_stats(const struct storwin_window *win, struct storwin_stats *stats)
{
    struct storwin_stats full = {0};

    if (!win)
        return -EINVAL;
    full.n_syncs = counter_load(&win->n_syncs);
    full.dirty_bytes = counter_load(&win->dirty_bytes);
    full.written_bytes = counter_load(&win->written_bytes);
    full.n_requests = counter_load(&win->n_requests);
    full.wrote = atomic_load_explicit(&win->wrote, memory_order_relaxed);
    storwin__pager_stats(win, &full);
    return storwin__struct_give(stats, &full, sizeof(full));
}

int storwin_part_query(const struct storwin_window *win, uint32_t i, struct storwin_info_part *part)
{
    struct storwin_info_part full = {0};
    const struct storwin__part *p;

    if (!win)
        return -EINVAL;
    if (i >= win->n_parts)
        return STORWIN_ERANGE;
    p = &win->parts[i];
    full.offset = p->offset;
    full.bytes = p->bytes;
    full.kind = p->kind;
    full.file = p->file;
    full.fd_offset = p->file_offset;
    full.fd = p->kind == STORWIN_MEMORY ? win->shm_fd : win->commit ? -1 : win->files[p->file].fd;
    full.coherent =
        full.fd >= 0 && (p->kind == STORWIN_MEMORY || win->opts.pager == STORWIN_PAGER_KERNEL);
    return storwin__struct_give(part, &full, sizeof(full));
}

/* Returns whether an option has an effect on this window: some have none on a window in memory. */
static int in_effect(const struct storwin_window *win, const char *key)
{
    if (strcmp(key, "alloc_type") == 0)
        return 1;
    if (win->opts.alloc_type == STORWIN_MEMORY && strcmp(key, "storage_alloc_memfd") == 0)
        return (win->opts.flags & STORWIN_MEMFD) != 0;
    if (win->opts.alloc_type == STORWIN_MEMORY)
        return 0;
    if (strcmp(key, "storage_alloc_budget") == 0 || strcmp(key, "storage_alloc_block") == 0)
        return win->opts.pager == STORWIN_PAGER_USER;
    if (strcmp(key, "storage_alloc_memory") == 0)
        return win->opts.factor_ppb == STORWIN_FACTOR_AUTO;
    if (strcmp(key, "storage_alloc_changes") == 0 || strcmp(key, "storage_alloc_version") == 0 ||
        strcmp(key, "storage_alloc_generations") == 0)
        return win->opts.atomic != STORWIN_ATOMIC_NONE;
    return 1;
}

int storwin_hint_query(const struct storwin_window *win, const char *key, char *value, size_t cap)
{
    static const char unsupported[] = "unsupported";
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_opts became;

    if (!win || !key || (!value && cap > 0))
        return -EINVAL;
    if (!in_effect(win, key))
        return -ENOENT;
    became = win->opts;
    became.filename = win->path;
    storwin_query(win, &info);
    if (became.factor_ppb == STORWIN_FACTOR_AUTO) {
        uint64_t pages = win->map_bytes / win->page_bytes, storage = storwin__pages(win);

        /* In billionths of the window's pages; both numbers are below 2^34. */
        became.factor_ppb =
            pages ? (uint32_t)((storage * STORWIN_FACTOR_ONE + pages / 2) / pages) : 0;
    }
    became.app_version = info.app_version;
    if (win->opts.pager == STORWIN_PAGER_USER) {
        became.budget_bytes = info.budget_bytes;
        became.block_bytes = info.block_bytes;
    }
    if (strncmp(key, "striping_", 9) == 0 && info.striping != STORWIN_STRIPING_APPLIED) {
        if (info.striping != STORWIN_STRIPING_UNSUPPORTED)
            return -ENOENT;
        if (storwin__hint_text(&became, key, value, cap) == -ENOENT)
            return -ENOENT;
        if (cap < sizeof(unsupported))
            return -ENOBUFS;
        memcpy(value, unsupported, sizeof(unsupported));
        return sizeof(unsupported) - 1;
    }
    return (int)storwin__hint_text(&became, key, value, cap);
}
