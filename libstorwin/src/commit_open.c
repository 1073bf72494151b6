/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic commits: lock the file, find the newest generation, verify it and load it into memory. */
#include "commit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* No area has any page of the window's state. */
void storwin__lack_all(struct storwin_window *win)
{
    for (uint32_t area = 0; area < win->commit->areas; area++)
        storwin__set_add(win->commit->lacks[area], 0, storwin__pages(win));
}

int storwin__commit_alloc(struct storwin_window *win, uint32_t areas, struct storwin_error *err)
{
    const struct storwin_allocator *a = win->opts.allocator;
    struct storwin__commit *c = storwin__calloc(a, 1, sizeof(*c));
    int whole;

    if (!c)
        return storwin__fail(err, -ENOMEM, NULL, "out of memory");
    win->commit = c;
    c->n_blocks = storwin__round_up(win->stor_bytes, STORWIN__BLOCK) / STORWIN__BLOCK;
    c->areas = areas;
    c->base = areas * STORWIN__PLACE_BYTES;
    c->cap = storwin__round_up(win->stor_bytes, STORWIN__AREA_UNIT);
    c->app_version = win->opts.app_version;
    c->sums = storwin__calloc(a, (size_t)c->n_blocks, sizeof(*c->sums));
    c->changed = storwin__set_alloc(win);
    c->fresh = storwin__set_alloc(win);
    whole = c->sums && c->changed && c->fresh;
    for (uint32_t area = 0; whole && area < areas; area++)
        whole = (c->lacks[area] = storwin__set_alloc(win)) != NULL;
    if (!whole)
        return storwin__fail(err, -ENOMEM, NULL, "out of memory");
    storwin__lack_all(win);
    return 0;
}

void storwin__commit_close(struct storwin_window *win)
{
    const struct storwin_allocator *a = win->opts.allocator;
    struct storwin__commit *c = win->commit;

    if (!c)
        return;
    storwin__free(a, c->sums);
    storwin__free(a, c->changed);
    storwin__free(a, c->fresh);
    for (uint32_t area = 0; area < c->areas; area++)
        storwin__free(a, c->lacks[area]);
    storwin__free(a, c);
    win->commit = NULL;
}

/* Reserves space for the areas at their present place. */
static int reserve_areas(struct storwin_window *win, struct storwin_error *err)
{
    struct storwin__file *f = &win->files[0];
    struct storwin__commit *c = win->commit;
    const uint64_t from = win->opts.offset_bytes + c->base;
    const uint64_t end = win->opts.offset_bytes + c->base +
                         (c->areas + (win->opts.atomic == STORWIN_ATOMIC_SLOTS ? 0 : 1)) * c->cap;
    int rc;

    c->journal_cap = win->opts.atomic == STORWIN_ATOMIC_SLOTS ? 0 : c->cap;
    if (c->base == c->areas * STORWIN__PLACE_BYTES)
        return 0; /* reserved when the file was opened */
    if (f->device)
        return end <= f->size ? storwin__commit_lock(win, end - win->opts.offset_bytes, err)
                              : storwin__fail(err, STORWIN_ESHORT, STORWIN__FILENAME,
                                              "device \"%.80s\" has %" PRIu64
                                              " bytes; for the longer state it would need %" PRIu64,
                                              win->path, f->size, end);
    rc = storwin__limit_check(end, win->path, STORWIN__FILENAME, err);
    if (rc < 0)
        return rc;
    f->grown = 1;
    rc = storwin__file_extend(f->allocator, f->fd, from, end - from,
                              (win->opts.flags & STORWIN_SPARSE) != 0);
    return rc == 0 ? 0
                   : storwin__fail(err, rc, STORWIN__FILENAME,
                                   "room for %" PRIu64 " bytes in \"%.80s\": %s", end - from,
                                   win->path, storwin_strerror(rc));
}

static void resum_all(struct storwin_window *win)
{
    struct storwin__commit *c = win->commit;

    memset(c->sums, 0, (size_t)c->n_blocks * sizeof(*c->sums));
    c->total = 0;
    (void)storwin__compare(win, NULL);
    storwin__set_remove(c->changed, 0, storwin__pages(win)); /* since the last commit */
}

/* Loads a generation that a record covers into memory, and verifies it. c->last becomes the record
 * of that generation alone. */
int storwin__load_record(struct storwin_window *win, const struct storwin__record *r,
                         uint64_t generation, struct storwin_error *err)
{
    struct storwin__commit *c = win->commit;
    const uint64_t bytes = win->stor_bytes, n_blocks = c->n_blocks;
    int rc;

    if (r->bytes > bytes)
        return storwin__fail(err, STORWIN_EFORMAT, STORWIN__FILENAME,
                             "generation %" PRIu64 " of \"%.80s\" has %" PRIu64
                             " bytes, and the window has room for %" PRIu64,
                             generation, win->path, r->bytes, bytes);
    c->replayed_bytes = 0;
    storwin__lack_all(win);
    storwin__set_remove(c->lacks[r->home], 0, storwin__pages(win));
    win->stor_bytes = r->bytes; /* the window may have grown since */
    c->n_blocks = storwin__round_up(r->bytes, STORWIN__BLOCK) / STORWIN__BLOCK;
    win->file_base = win->opts.offset_bytes + storwin__area_at(r, r->home);
    rc = storwin__read_span(win, err);
    if (rc == 0)
        rc = storwin__journal_replay(win, r, generation, NULL, &c->last, err);
    if (rc == 0) {
        resum_all(win);
        if (c->total != c->last.data_sum)
            rc = storwin__fail(err, STORWIN_EDAMAGED, STORWIN__FILENAME,
                               "\"%.80s\": area %u, %" PRIu64 " bytes at %" PRIu64
                               ", does not match the checksum of generation %" PRIu64,
                               win->path, r->home, r->bytes,
                               win->opts.offset_bytes + storwin__area_at(r, r->home), generation);
    }
    win->stor_bytes = bytes;
    c->n_blocks = n_blocks;
    /* After damage, too: the next commit's sum is that of the whole window. */
    if ((rc == 0 || rc == STORWIN_EDAMAGED) && bytes != r->bytes)
        resum_all(win);
    return rc;
}

/* Loads the newest generation that is not above the requested one. *used is its record. */
static int load_requested(struct storwin_window *win, const struct storwin__records *found,
                          const struct storwin__record **used, struct storwin_error *err)
{
    struct storwin_error why; /* an older record may still be good */
    int rc = storwin__generation_absent(win, found, win->opts.generation, &why);
    uint64_t covered;

    *used = NULL;
    while (rc < 0 && rc != -EFAULT &&
           (*used = storwin__record_for(found, win->opts.generation, *used, &covered)) != NULL) {
        rc = storwin__load_record(win, *used, covered, &why);
        /* An older state may be shorter. -EFAULT: the memory is not writable. */
        if (rc < 0 && rc != -EFAULT && (*used)->bytes <= win->stor_bytes)
            memset(win->map + win->stor_offset, 0, (size_t)(*used)->bytes);
    }
    if (rc < 0 && err)
        *err = why;
    return rc;
}

/* Loads the newest generation, or the requested one. *used is its record. */
static int load_generation(struct storwin_window *win, const struct storwin__records *found,
                           const struct storwin__record **used, struct storwin_error *err)
{
    const struct storwin__record *new = storwin__record_newest(found), *old = new;
    struct storwin_error why;
    uint64_t before;
    int rc = STORWIN_EDAMAGED;

    if (win->opts.generation > 0)
        return load_requested(win, found, used, err);
    *used = new;
    if (found->n_torn == 0) {
        rc = storwin__load_record(win, new, new->generation, &why);
        if (rc == 0 || rc != STORWIN_EDAMAGED) {
            if (rc < 0 && err)
                *err = why;
            return rc;
        }
        old = storwin__record_older(found, new);
    } else {
        (void)storwin__fail(&why, rc, STORWIN__FILENAME,
                            "\"%.80s\": both copies of a record are damaged", win->path);
    }
    before = old ? old->generation : 0;
    for (; old; old = storwin__record_older(found, old))
        if (storwin__load_record(win, old, old->generation, NULL) == 0)
            return storwin__fail(err, rc, STORWIN__FILENAME,
                                 "%.160s; generation %" PRIu64
                                 " is whole: storage_alloc_generation opens it",
                                 why.text, old->generation);
    return storwin__fail(err, rc, STORWIN__FILENAME,
                         "%.160s; no other generation is whole (before it: %" PRIu64 "; 0: none)",
                         why.text, before);
}

/* Adopts the layout of the record found, and fits it to the window's length. */
static int adopt_layout(struct storwin_window *win, const struct storwin__record *r,
                        struct storwin_error *err)
{
    struct storwin__commit *c = win->commit;

    /* An older generation may be shorter: loading it compares its own length. */
    if (r->bytes > win->stor_bytes && win->opts.generation == 0)
        return storwin__fail(err, STORWIN_EFORMAT, STORWIN__FILENAME,
                             "\"%.80s\" holds a state of %" PRIu64
                             " bytes, and the window has room for %" PRIu64,
                             win->path, r->bytes, win->stor_bytes);
    c->base = r->base;
    if (c->cap > r->cap) { /* behind all data in the file */
        c->old_base = r->base;
        c->old_bytes = storwin__max(c->areas, 3) * r->cap;
        c->base = r->base + c->old_bytes;
    } else {
        c->cap = r->cap;
    }
    c->whole = r->bytes != win->stor_bytes;
    return reserve_areas(win, err);
}

/* Frees the space before the areas that all records use. */
static void free_first_areas(const struct storwin_window *win, const struct storwin__records *found)
{
    const uint64_t base = found->at[0].base, first = found->areas * STORWIN__PLACE_BYTES;

    for (uint32_t place = 0; place < found->areas; place++)
        if (found->at[place].seq == 0 || found->at[place].base != base)
            return;
    if (base > first)
        storwin__commit_punch(win, first, base - first);
}

/* The records that the next commits must keep: none that is newer than the one in use. */
static void keep_records(struct storwin__commit *c, const struct storwin__records *found,
                         const struct storwin__record *used)
{
    const struct storwin__record last = c->last; /* perhaps an older generation of `used` */

    for (uint32_t place = 0; place < found->areas; place++)
        if (found->at[place].seq <= used->seq)
            c->at[place] = found->at[place];
    storwin__place_record(c, used);
    c->last = last;
}

static int open_records(struct storwin_window *win, const struct storwin__records *found,
                        struct storwin_error *err)
{
    struct storwin__commit *c = win->commit;
    const struct storwin__record *newest = storwin__record_newest(found), *used = newest;
    int rc = storwin__version_check(win, newest, err);

    c->app_version = newest->app_version;
    if (rc == 0)
        rc = adopt_layout(win, newest, err);
    if (rc == 0)
        rc = load_generation(win, found, &used, err);
    if (rc < 0)
        return rc;
    keep_records(c, found, used);
    c->newest_seq = found->newest_seq;
    c->newest_generation = found->newest_generation;
    if (found->n_torn > 0) { /* never use the number of the torn record again */
        c->newest_seq++;
        c->newest_generation++;
    }
    c->recovery = found->n_damaged      ? STORWIN_RECOVERY_REPAIRED
                  : found->n_unfinished ? STORWIN_RECOVERY_UNFINISHED
                                        : STORWIN_RECOVERY_CLEAN;
    if (win->opts.generation > 0 && win->opts.generation < c->newest_generation) {
        c->recovery = STORWIN_RECOVERY_OLDER;
        c->whole = 1;
    }
    if (used != newest || c->recovery == STORWIN_RECOVERY_OLDER)
        c->discard = c->last;
    if (c->whole)
        storwin__lack_all(win);
    if (c->recovery == STORWIN_RECOVERY_OLDER)
        return 0; /* the file does not change before the first commit */
    /* Write the record again: a killed process may have left it only in the page cache, and after a
     * failed flush the kernel no longer counts it as dirty. */
    rc = storwin__record_write(win, used, err);
    if (rc < 0)
        return rc;
    free_first_areas(win, found);
    return 0;
}

static int no_commit(struct storwin_window *win, const struct storwin__records *found,
                     struct storwin_error *err)
{
    int rc = storwin__records_refuse(found, win->path, NULL);

    if (rc != STORWIN_ENONE || win->opts.generation > 0)
        return storwin__records_refuse(found, win->path, err);
    win->commit->recovery =
        found->n_unfinished ? STORWIN_RECOVERY_UNFINISHED : STORWIN_RECOVERY_NONE;
    win->commit->whole = 1;
    rc = reserve_areas(win, err);
    /* The name must be durable before any commit, even if a killed process created the file. */
    win->files[0].named = 0;
    return rc < 0 ? rc : storwin__sync_names(win, err);
}

/* Loads the newest generation of the file into the window, if there is one. */
int storwin__commit_open(struct storwin_window *win, struct storwin_error *err)
{
    const uint32_t atomic = win->opts.atomic, asked = (uint32_t)win->opts.generations;
    const struct storwin__file *f = &win->files[0];
    struct storwin__records found;
    uint32_t areas = asked > 0 ? asked : 2;
    int rc = storwin__commit_lock(win, storwin__commit_space(win->stor_bytes, atomic, areas), err);

    if (rc < 0)
        return rc;
    /* Flush data that a killed process left in the page cache before trusting it. */
    rc = fdatasync(f->fd) < 0 ? -errno
                              : storwin__records_read(f->fd, win->opts.offset_bytes, &found);
    if (rc < 0)
        return storwin__fail(err, rc, STORWIN__FILENAME, "records of \"%.80s\": %s", win->path,
                             storwin_strerror(rc));
    if (storwin__record_newest(&found)->seq > 0 && found.areas != areas) {
        areas = found.areas;
        rc = storwin__generations_check(&win->opts, win->path, areas, err);
        if (rc == 0)
            rc = storwin__commit_lock(win, storwin__commit_space(win->stor_bytes, atomic, areas),
                                      err);
    }
    if (rc == 0)
        rc = storwin__commit_alloc(win, areas, err);
    if (rc < 0)
        return rc;
    win->opts.generations = areas;
    return storwin__record_newest(&found)->seq > 0 ? open_records(win, &found, err)
                                                   : no_commit(win, &found, err);
}
