/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows whose segments several processes share: the place of each segment, and the objects that
 * each process creates or attaches. */
#include "internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int check_shared(const struct storwin_opts *opts, const struct storwin_shared *s,
                        struct storwin_error *err)
{
    if (s->n_ranks == 0 || s->n_ranks > STORWIN_MAX_RANKS || s->rank >= s->n_ranks || !s->bytes ||
        (s->flags & ~STORWIN_SHARED_NONCONTIG) || s->reserved)
        return storwin__fail(err, -EINVAL, NULL, "the description of the shared window is invalid");
    if (s->shm_name && (s->shm_name[0] != '/' || strlen(s->shm_name) < 2 ||
                        strlen(s->shm_name) > 255 || strchr(s->shm_name + 1, '/')))
        return storwin__fail(err, -EINVAL, NULL, "shm_name must be \"/\" and 1 to 254 characters");
    if (opts->alloc_type == STORWIN_MEMORY)
        return s->shm_name
                   ? 0
                   : storwin__fail(err, -EINVAL, NULL, "a shared window in memory needs shm_name");
    if (opts->pager != STORWIN_PAGER_KERNEL)
        return storwin__fail(err, STORWIN_ECONFLICT, "storage_alloc_pager",
                             "shared windows have the pager kernel");
    if (opts->factor_ppb == STORWIN_FACTOR_AUTO && opts->memory_bytes == 0)
        return storwin__fail(err, STORWIN_EMISSING, "storage_alloc_memory",
                             "a shared window with the factor auto needs storage_alloc_memory");
    if (opts->factor_ppb != STORWIN_FACTOR_ONE && !s->shm_name)
        return storwin__fail(err, -EINVAL, NULL,
                             "the memory part of a shared window needs shm_name");
    if (s->filenames)
        for (uint32_t i = 0; i < s->n_ranks; i++)
            if (!s->filenames[i] || !*s->filenames[i] || strlen(s->filenames[i]) > STORWIN_MAX_PATH)
                return storwin__fail(err, STORWIN_EVALUE, STORWIN__FILENAME,
                                     "the file name of rank %u is empty or too long", i);
    return 0;
}

/* Sets the segments and the window's length. */
static int lay_out(const struct storwin_shared *s, uint64_t page, int own_files,
                   struct storwin__segment *segments, uint64_t *bytes, struct storwin_error *err)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < s->n_ranks; i++) {
        if (s->bytes[i] > STORWIN_MAX_BYTES)
            return storwin__fail(err, -EINVAL, NULL, "the segment of rank %u is too long", i);
        if (s->flags & STORWIN_SHARED_NONCONTIG)
            at = storwin__round_up(at, page);
        if (own_files && s->bytes[i] > 0 && at % page != 0)
            return storwin__fail(err, -EINVAL, STORWIN__FILENAME,
                                 "with a file for each segment and no gaps, segments are multiples "
                                 "of the page size");
        segments[i].offset = at;
        segments[i].bytes = s->bytes[i];
        at += s->bytes[i];
        if (at > STORWIN_MAX_BYTES)
            return storwin__fail(err, -EINVAL, NULL, "all segments together are too long");
    }
    *bytes = at;
    return 0;
}

int storwin_alloc_shared(const struct storwin_opts *opts, const struct storwin_shared *shared,
                         struct storwin_window **out, struct storwin_error *err)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct storwin_opts copy;
    struct storwin_shared s;
    struct storwin_window *win = NULL;
    struct storwin__segment *segments;
    struct storwin__plan plan = {.opts = &copy, .paths = &copy.filename};
    int own_files, rc;

    if (!out || !shared)
        return storwin__fail(err, -EINVAL, NULL, "an argument is NULL");
    rc = storwin__opts_or_defaults(&copy, opts, err);
    if (rc == 0)
        rc = storwin__opts_take(&s, shared, sizeof(s), err);
    if (rc == 0)
        rc = check_shared(&copy, &s, err);
    if (rc < 0)
        return rc;
    if (s.filenames && !copy.filename)
        copy.filename = s.filenames[s.rank];
    segments = storwin__calloc(copy.allocator, s.n_ranks, sizeof(*segments));
    if (!segments)
        return storwin__fail(err, -ENOMEM, NULL, "out of memory");
    own_files = s.filenames && copy.alloc_type == STORWIN_STORAGE;
    rc = lay_out(&s, page, own_files, segments, &plan.bytes, err);
    plan.n_files = own_files ? s.n_ranks : copy.alloc_type == STORWIN_STORAGE;
    if (own_files) {
        plan.paths = s.filenames;
        plan.segments = segments;
    }
    plan.shm_name = s.shm_name;
    plan.attach = s.rank != 0;
    /* Other ranks store and sync, but cannot know which files are new. */
    plan.sync_names = s.rank == 0;
    if (rc == 0)
        rc = storwin__window_create(&plan, &win, err);
    if (rc < 0) {
        storwin__free(copy.allocator, segments);
        return rc;
    }
    win->segments = segments;
    win->n_ranks = s.n_ranks;
    win->rank = s.rank;
    *out = win;
    return 0;
}

int storwin_shared_segment(const struct storwin_window *win, uint32_t rank, void **base,
                           uint64_t *offset, uint64_t *bytes)
{
    if (!win || rank >= win->n_ranks)
        return -EINVAL;
    if (base)
        *base = win->segments[rank].bytes ? win->map + win->segments[rank].offset : NULL;
    if (offset)
        *offset = win->segments[rank].offset;
    if (bytes)
        *bytes = win->segments[rank].bytes;
    return 0;
}

int storwin_shared_unlink(struct storwin_window *win, struct storwin_error *err)
{
    if (!win)
        return storwin__fail(err, -EINVAL, NULL, "an argument is NULL");
    if (win->shm_name && shm_unlink(win->shm_name) < 0 && errno != ENOENT)
        return storwin__fail(err, -errno, NULL, "remove shared memory object \"%.100s\": %s",
                             win->shm_name, storwin_strerror(-errno));
    return 0;
}
