/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic commits: lock the file, find the newest generation, verify it and load it into memory. */
#include "commit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* Returns the length of a new file, from the window's offset. */
uint64_t storwin__commit_space(uint64_t bytes, uint32_t atomic)
{
    return STORWIN__FIRST_AREA +
           (atomic == STORWIN_ATOMIC_SLOTS ? 2 : 3) * storwin__round_up(bytes, STORWIN__AREA_UNIT);
}

/* Returns 1 if the file is zero, or absent, before the areas; 0 if it has other bytes; or an
 * error. */
static int all_zero(int fd, uint64_t offset)
{
    static const uint8_t zeros[STORWIN__BLOCK];
    uint8_t raw[STORWIN__BLOCK];

    for (uint64_t at = 0; at < STORWIN__FIRST_AREA; at += sizeof(raw)) {
        const int rc = storwin__read_all(fd, raw, sizeof(raw), offset + at);

        if (rc < 0 || memcmp(raw, zeros, sizeof(raw)) != 0)
            return rc;
    }
    return 1;
}

static int records_foreign(const struct storwin__records *found, struct storwin_error *err,
                           const char *path)
{
    return storwin__fail(err, STORWIN_EFORMAT, STORWIN__FILENAME, "\"%.80s\" holds %s", path,
                         found->swapped ? "commits of a machine of the other byte order"
                                        : "no commits: another program wrote it");
}

static int records_damaged(struct storwin_error *err, const char *path)
{
    return storwin__fail(err, STORWIN_EDAMAGED, STORWIN__FILENAME,
                         "\"%.80s\" is damaged: no record is intact", path);
}

static uint32_t newest_of(const struct storwin__records *found)
{
    return found->at[1].seq > found->at[0].seq;
}

/* Reads the records of a file, which may be another program's, and changes nothing. *opened: the
 * file could be opened. */
static int read_records(const struct storwin_opts *opts, const char *path,
                        struct storwin__records *found, int *opened, struct storwin_error *err)
{
    struct storwin__file f;
    int zero = 1, rc = storwin__file_open_to_read(&f, opts, path, err);

    *opened = rc == 0;
    if (rc == 0) {
        rc = storwin__records_read(f.fd, opts->offset_bytes, found);
        if (rc == 0 && found->at[0].seq == 0 && found->at[1].seq == 0 && !found->ours)
            zero = all_zero(f.fd, opts->offset_bytes);
        if (rc < 0 || zero < 0)
            rc = storwin__fail(err, rc < 0 ? rc : zero, STORWIN__FILENAME, "\"%.80s\": %s", path,
                               storwin_strerror(rc < 0 ? rc : zero));
        else if (zero == 0)
            rc = records_foreign(found, err, path);
    }
    storwin__file_close(&f);
    return rc;
}

/* Reads an existing file before a change to it is possible. If the areas have moved, *space becomes
 * the length before the first area: reserve_areas() handles the areas. */
int storwin__commit_precheck(const struct storwin_opts *opts, const char *path, uint64_t *space,
                             struct storwin_error *err)
{
    struct storwin__records found;
    struct storwin_error why;
    int opened, rc = read_records(opts, path, &found, &opened, &why);

    /* the file is new, or the later open for writing reports the error */
    if (!opened && rc != -ENOMEM)
        return 0;
    if (rc < 0) {
        if (err)
            *err = why;
        return rc;
    }
    if (found.at[newest_of(&found)].base > STORWIN__FIRST_AREA)
        *space = STORWIN__FIRST_AREA;
    return 0;
}

int storwin_file_query(const struct storwin_opts *opts, struct storwin_info_file *info,
                       struct storwin_error *err)
{
    struct storwin_info_file full = {0};
    const struct storwin__record *new, *old;
    struct storwin__records found;
    struct storwin_opts own;
    int opened, rc = opts ? storwin__opts_or_defaults(&own, opts, err)
                          : storwin__fail(err, -EINVAL, NULL, "an argument is NULL");

    if (rc < 0)
        return rc;
    own.alloc_type = STORWIN_STORAGE;
    own.pager = STORWIN_PAGER_RESIDENT;
    rc = storwin__opts_check(&own, (uint64_t)sysconf(_SC_PAGESIZE), err);
    if (rc == 0)
        rc = read_records(&own, own.filename, &found, &opened, err);
    if (rc < 0)
        return rc;
    new = &found.at[newest_of(&found)];
    old = &found.at[1 - newest_of(&found)];
    if (new->seq == 0)
        return found.n_torn > 0 || found.foreign
                   ? records_damaged(err, own.filename)
                   : storwin__fail(err, STORWIN_ENONE, STORWIN__FILENAME,
                                   "\"%.80s\" holds no commit", own.filename);
    full.bytes = new->bytes;
    full.generation = new->generation;
    full.older_generation = old->seq > 0 && old->generation < new->generation ? old->generation
                            : new->home_generation < new->generation          ? new->home_generation
                                                                              : 0;
    full.app_version = new->app_version;
    full.damaged = found.n_torn > 0;
    return storwin__struct_give(info, &full, sizeof(full)) < 0
               ? storwin__fail(err, -EINVAL, NULL, "the struct for the answer has no size")
               : 0;
}

static int alloc_commit(struct storwin_window *win, struct storwin_error *err)
{
    const struct storwin_allocator *a = win->opts.allocator;
    struct storwin__commit *c = storwin__calloc(a, 1, sizeof(*c));

    if (!c)
        return storwin__fail(err, -ENOMEM, NULL, "out of memory");
    win->commit = c;
    c->n_blocks = storwin__round_up(win->stor_bytes, STORWIN__BLOCK) / STORWIN__BLOCK;
    c->base = STORWIN__FIRST_AREA;
    c->cap = storwin__round_up(win->stor_bytes, STORWIN__AREA_UNIT);
    c->app_version = win->opts.app_version;
    c->sums = storwin__calloc(a, (size_t)c->n_blocks, sizeof(*c->sums));
    c->changed = storwin__set_alloc(win);
    c->behind = storwin__set_alloc(win);
    c->since = storwin__set_alloc(win);
    if (!c->sums || !c->changed || !c->behind || !c->since)
        return storwin__fail(err, -ENOMEM, NULL, "out of memory");
    storwin__set_add(c->behind, 0, storwin__pages(win));
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
    storwin__free(a, c->behind);
    storwin__free(a, c->since);
    storwin__free(a, c);
    win->commit = NULL;
}

/* Reserves space for the areas at their present place. */
static int reserve_areas(struct storwin_window *win, struct storwin_error *err)
{
    struct storwin__file *f = &win->files[0];
    struct storwin__commit *c = win->commit;
    const uint64_t from = win->opts.offset_bytes + c->base;
    const uint64_t n = win->opts.atomic == STORWIN_ATOMIC_SLOTS ? 2 : 3, end = from + n * c->cap;
    int rc;

    c->journal_cap = n == 3 ? c->cap : 0;
    if (c->base == STORWIN__FIRST_AREA)
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
    (void)storwin__compare(win, NULL, NULL);
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
    storwin__set_remove(c->since, 0, storwin__pages(win));
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
    if (rc == 0 && bytes != r->bytes)
        resum_all(win);
    return rc;
}

static int record_covers(const struct storwin__record *r, uint64_t generation)
{
    return r->seq > 0 && r->home_generation <= generation && generation <= r->generation;
}

/* Loads the newest generation that is not above the requested one. */
static int load_requested(struct storwin_window *win, const struct storwin__record *new,
                          const struct storwin__record *old, int *from_old,
                          struct storwin_error *err)
{
    const uint64_t asked = win->opts.generation;
    struct storwin_error why; /* the other record may still be good */
    int rc = storwin__fail(&why, STORWIN_ENONE, "storage_alloc_generation",
                           "\"%.80s\" does not hold generation %" PRIu64 ": it has %" PRIu64
                           " to %" PRIu64 " and %" PRIu64 " to %" PRIu64 " (0: none)",
                           win->path, asked, old->home_generation, old->generation,
                           new->home_generation, new->generation);

    if (record_covers(new, asked))
        rc = storwin__load_record(win, new, asked, &why);
    *from_old = rc < 0;
    if (rc < 0 && record_covers(old, asked))
        rc = storwin__load_record(win, old, asked, &why);
    else if (rc < 0 && old->seq > 0 && old->generation < asked && asked < new->home_generation)
        rc = storwin__load_record(win, old, old->generation, &why);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

/* Loads the newest generation, or the requested one. *place is the place of the newest record on
 * entry, and of the record used on return. */
static int load_generation(struct storwin_window *win, const struct storwin__records *found,
                           uint32_t *place, struct storwin_error *err)
{
    const uint32_t newest = newest_of(found);
    const struct storwin__record *new = &found->at[newest], *old = &found->at[1 - newest];
    struct storwin_error why;
    int rc = STORWIN_ENONE;

    if (win->opts.generation > 0) {
        int from_old;

        rc = load_requested(win, new, old, &from_old, err);
        *place = from_old ? 1 - newest : newest;
        return rc;
    }
    if (found->n_torn == 0) {
        rc = storwin__load_record(win, new, new->generation, &why);
        if (rc == 0 || rc != STORWIN_EDAMAGED) {
            if (rc < 0 && err)
                *err = why;
            return rc;
        }
    } else {
        (void)storwin__fail(&why, rc = STORWIN_EDAMAGED, STORWIN__FILENAME,
                            "\"%.80s\": both copies of a record are damaged", win->path);
        old = new;
    }
    if (old->seq > 0 && storwin__load_record(win, old, old->generation, NULL) == 0)
        return storwin__fail(err, rc, STORWIN__FILENAME,
                             "%.160s; generation %" PRIu64
                             " is whole: storage_alloc_generation opens it",
                             why.text, old->generation);
    return storwin__fail(err, rc, STORWIN__FILENAME,
                         "%.160s; no other generation is whole (before it: %" PRIu64 "; 0: none)",
                         why.text, old->generation);
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
        c->base = r->base + 3 * r->cap;
        c->old_base = r->base;
        c->old_bytes = 3 * r->cap;
    } else {
        c->cap = r->cap;
    }
    c->whole = r->bytes != win->stor_bytes;
    return reserve_areas(win, err);
}

/* Frees the space before the areas that both records use. */
static void free_first_areas(const struct storwin_window *win, const struct storwin__records *found)
{
    const uint64_t base = found->at[0].base;

    if (found->at[0].seq > 0 && found->at[1].seq > 0 && base == found->at[1].base &&
        base > STORWIN__FIRST_AREA)
        storwin__commit_punch(win, STORWIN__FIRST_AREA, base - STORWIN__FIRST_AREA);
}

static int check_version(struct storwin_window *win, const struct storwin__record *r,
                         struct storwin_error *err)
{
    struct storwin__commit *c = win->commit;

    c->app_version = r->app_version;
    return win->opts.app_version == 0 || win->opts.app_version == r->app_version
               ? 0
               : storwin__fail(err, STORWIN_EVERSION, "storage_alloc_version",
                               "\"%.80s\" holds a state of version %" PRIu64 ", not %" PRIu64,
                               win->path, r->app_version, win->opts.app_version);
}

static int open_records(struct storwin_window *win, const struct storwin__records *found,
                        struct storwin_error *err)
{
    struct storwin__commit *c = win->commit;
    const uint32_t newest = newest_of(found);
    uint32_t place = newest;
    int rc = check_version(win, &found->at[newest], err);

    if (rc == 0)
        rc = adopt_layout(win, &found->at[newest], err);
    if (rc == 0)
        rc = load_generation(win, found, &place, err);
    if (rc < 0)
        return rc;
    c->place = 1 - place;
    c->newest_seq = found->at[newest].seq;
    c->newest_generation = storwin__max(found->at[0].generation, found->at[1].generation);
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
    if (place != newest || c->recovery == STORWIN_RECOVERY_OLDER) {
        c->discard = c->last;
        c->discard.place = c->place;
    }
    if (c->whole)
        storwin__set_add(c->since, 0, storwin__pages(win));
    if (c->recovery == STORWIN_RECOVERY_OLDER)
        return 0; /* the file does not change before the first commit */
    /* Write the record again: a killed process may have left it only in the page cache, and after a
     * failed flush the kernel no longer counts it as dirty. */
    rc = storwin__record_write(win, &found->at[place], err);
    if (rc < 0)
        return rc;
    free_first_areas(win, found);
    return 0;
}

/* Loads the newest generation of the file into the window, if there is one. */
int storwin__commit_open(struct storwin_window *win, struct storwin_error *err)
{
    const struct storwin__file *f = &win->files[0];
    struct storwin__records found;
    int rc = alloc_commit(win, err);

    if (rc == 0)
        rc = storwin__commit_lock(win, storwin__commit_space(win->stor_bytes, win->opts.atomic),
                                  err);
    if (rc < 0)
        return rc;
    /* Flush data that a killed process left in the page cache before trusting it. */
    rc = fdatasync(f->fd) < 0 ? -errno
                              : storwin__records_read(f->fd, win->opts.offset_bytes, &found);
    if (rc < 0)
        return storwin__fail(err, rc, STORWIN__FILENAME, "records of \"%.80s\": %s", win->path,
                             storwin_strerror(rc));
    if (found.at[0].seq > 0 || found.at[1].seq > 0)
        return open_records(win, &found, err);
    if (found.n_torn > 0 || found.foreign)
        return found.ours ? records_damaged(err, win->path)
                          : records_foreign(&found, err, win->path);
    if (win->opts.generation > 0)
        return storwin__fail(err, STORWIN_ENONE, "storage_alloc_generation",
                             "\"%.80s\" holds no commit", win->path);
    win->commit->recovery =
        found.n_unfinished ? STORWIN_RECOVERY_UNFINISHED : STORWIN_RECOVERY_NONE;
    win->commit->whole = 1;
    storwin__set_add(win->commit->since, 0, storwin__pages(win));
    rc = reserve_areas(win, err);
    /* The name must be durable before any commit, even if a killed process created the file. */
    win->files[0].named = 0;
    return rc < 0 ? rc : storwin__sync_names(win, err);
}
