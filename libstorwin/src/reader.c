/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Readers. A writer never changes the data of the newest record; it replaces those of older ones
 * after a newer record is in the file. So a copy that does not match its record's checksum, while
 * no record has changed, is damaged; if a record has changed, the copy may be a mix of commits.
 */
#include "commit.h"
#include "sum.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST_TRIES 16u

/* What a reader has of one commit. */
struct copy {
    uint8_t *map;
    uint64_t bytes;
    struct storwin__commit *commit;
};

static struct copy copy_get(const struct storwin_window *win)
{
    return (struct copy){win->map, win->bytes, win->commit};
}

static void copy_set(struct storwin_window *win, struct copy copy)
{
    win->map = win->source = copy.map;
    win->commit = copy.commit;
    win->bytes = win->stor_bytes = win->parts[0].bytes = copy.bytes;
    win->map_bytes = storwin__round_up(copy.bytes, win->page_bytes);
}

/* Frees the copy of a window, and gives it another one. */
static void copy_replace(struct storwin_window *win, struct copy by)
{
    if (win->map)
        munmap(win->map, (size_t)win->map_bytes);
    storwin__commit_close(win);
    copy_set(win, by);
}

static int map_copy(struct storwin_window *win, struct storwin_error *err)
{
    const uint64_t room = storwin__min(storwin__memory_available(NULL), SIZE_MAX / 2);
    void *at;

    if (win->bytes > room)
        return storwin__fail(err, -ENOMEM, STORWIN__FILENAME,
                             "\"%.80s\" holds a state of %" PRIu64 " bytes; %" PRIu64
                             " bytes of memory are available",
                             win->path, win->bytes, room);
    at = mmap(NULL, (size_t)win->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
              0);
    if (at == MAP_FAILED)
        return storwin__fail(err, -errno, STORWIN__FILENAME, "map %" PRIu64 " bytes: %s",
                             win->bytes, storwin_strerror(-errno));
    (void)madvise(at, (size_t)win->map_bytes, MADV_HUGEPAGE);
    win->map = win->source = at;
    return 0;
}

/* Reads the commit of a generation that a record covers; the old copy stays until it is whole. */
static int read_copy(struct storwin_window *win, const struct storwin__record *r,
                     uint64_t generation, struct storwin_error *err)
{
    const struct copy old = copy_get(win);
    struct copy new;
    int rc;

    copy_set(win, (struct copy){NULL, r->bytes, NULL});
    rc = map_copy(win, err);
    if (rc == 0)
        rc = storwin__commit_alloc(win, storwin__record_areas(r), err);
    if (rc == 0)
        rc = storwin__load_record(win, r, generation, err);
    if (rc == 0 && mprotect(win->map, (size_t)win->map_bytes, PROT_READ) < 0)
        rc = storwin__fail(err, -errno, NULL, "protect the copy: %s", storwin_strerror(-errno));
    if (rc < 0) {
        copy_replace(win, old);
        return rc;
    }
    new = copy_get(win);
    copy_set(win, old);
    copy_replace(win, new);
    return 0;
}

static int reader_damaged(const struct storwin_window *win, struct storwin_error *err,
                          uint64_t generation)
{
    return storwin__fail(err, STORWIN_EDAMAGED, STORWIN__FILENAME,
                         "the journal of \"%.80s\" is damaged, in or before generation %" PRIu64,
                         win->path, generation);
}

/* Checks a batch in memory, `room` bytes from the journal's end. Returns its bytes, or 0. */
static uint64_t check_batch(const struct storwin_window *win, const struct storwin__record *r,
                            const uint8_t *at, uint64_t room, uint64_t prev)
{
    const struct storwin__batch *head = (const void *)at;
    const struct storwin__entry *entries = (const void *)(at + sizeof(*head));
    uint64_t index_bytes;

    if (room < STORWIN__BLOCK || !storwin__batch_check(head, r, prev, room) ||
        storwin__batch_sum(head, entries) != head->sum)
        return 0;
    index_bytes = storwin__batch_index_bytes(head->n_blocks);
    for (uint64_t i = 0; i < head->n_blocks; i++) {
        const uint64_t block = entries[i].block;

        if (block >= win->commit->n_blocks ||
            storwin__sum(at + index_bytes + i * STORWIN__BLOCK,
                         (size_t)storwin__block_bytes(win, block), block) != entries[i].sum)
            return 0;
    }
    return index_bytes + head->n_blocks * STORWIN__BLOCK;
}

static void apply_batch(struct storwin_window *win, const uint8_t *at)
{
    const struct storwin__batch *head = (const void *)at;
    const struct storwin__entry *entries = (const void *)(at + sizeof(*head));

    at += storwin__batch_index_bytes(head->n_blocks);
    for (uint64_t i = 0; i < head->n_blocks; i++, at += STORWIN__BLOCK)
        memcpy(win->map + entries[i].block * STORWIN__BLOCK, at,
               (size_t)storwin__block_bytes(win, entries[i].block));
}

/* Applies the batches of a journal, which is in memory, once all of them are known to be whole. */
static int apply_batches(struct storwin_window *win, const struct storwin__record *r,
                         const uint8_t *journal, uint64_t bytes, struct storwin_error *err)
{
    const struct storwin__record *last = &win->commit->last;
    uint64_t prev = last->journal_bytes > 0 ? last->journal_sum : last->home_sum, n;

    for (uint64_t at = 0; at < bytes; at += n) {
        n = check_batch(win, r, journal + at, bytes - at, prev);
        if (n == 0)
            return reader_damaged(win, err, r->generation);
        prev = ((const struct storwin__batch *)(const void *)(journal + at))->sum;
    }
    if (bytes > 0 && prev != r->journal_sum)
        return reader_damaged(win, err, r->generation);
    if (mprotect(win->map, (size_t)win->map_bytes, PROT_READ | PROT_WRITE) < 0)
        return storwin__fail(err, -errno, NULL, "change the copy: %s", storwin_strerror(-errno));
    for (uint64_t at = 0; at < bytes; at += n) {
        const struct storwin__batch *head = (const void *)(journal + at);

        n = storwin__batch_index_bytes(head->n_blocks) + head->n_blocks * STORWIN__BLOCK;
        apply_batch(win, journal + at);
    }
    (void)mprotect(win->map, (size_t)win->map_bytes, PROT_READ);
    win->commit->last = *r;
    return 0;
}

/* Returns whether a record is the copy's, with batches appended to its journal. */
static int record_appended(const struct storwin_window *win, const struct storwin__record *r)
{
    const struct storwin__record *last = win->commit ? &win->commit->last : NULL;

    return last && r->epoch == last->epoch && r->home_sum == last->home_sum &&
           r->bytes == last->bytes && r->generation > last->generation &&
           r->journal_bytes >= last->journal_bytes;
}

/* Brings the copy to a record by the journal's new batches. */
static int read_appended(struct storwin_window *win, const struct storwin__record *r,
                         struct storwin_error *err)
{
    const uint64_t from = win->commit->last.journal_bytes, bytes = r->journal_bytes - from;
    void *whole;
    uint8_t *journal = storwin__blocks_alloc(win, bytes, &whole);
    int rc;

    if (!journal)
        return storwin__fail(err, -ENOMEM, NULL, "out of memory");
    rc = storwin__file_read(&win->files[0], journal, bytes,
                            win->opts.offset_bytes + storwin__area_at(r, 2) + from);
    rc = rc < 0 ? storwin__fail(err, rc, STORWIN__FILENAME, "read the journal of \"%.80s\": %s",
                                win->path, storwin_strerror(rc))
                : apply_batches(win, r, journal, bytes, err);
    storwin__free(win->opts.allocator, whole);
    return rc;
}

/* Reads the commit that a generation names, or the newest one (0). Returns 1, or 0 if the copy is
 * of that one. */
static int read_found(struct storwin_window *win, const struct storwin__records *found,
                      uint64_t generation, struct storwin_error *err)
{
    const struct storwin__record *r = storwin__record_newest(found),
                                 *last = win->commit ? &win->commit->last : NULL;
    uint64_t covered;
    int rc = storwin__records_refuse(found, win->path, err);

    if (rc < 0)
        return rc;
    rc = storwin__version_check(win, r, err);
    if (rc < 0)
        return rc;
    if (generation > 0) {
        rc = storwin__generation_absent(win, found, generation, err);
        for (r = NULL; rc < 0 && (r = storwin__record_for(found, generation, r, &covered));)
            rc = read_copy(win, r, covered, err);
        return rc < 0 ? rc : 1;
    }
    if (found->n_torn > 0)
        return storwin__fail(err, STORWIN_EDAMAGED, STORWIN__FILENAME,
                             "\"%.80s\": both copies of a record are damaged", win->path);
    if (last && r->seq == last->seq && r->generation == last->generation)
        return 0;
    rc = record_appended(win, r) ? read_appended(win, r, err)
                                 : read_copy(win, r, r->generation, err);
    return rc < 0 ? rc : 1;
}

static int records_same(const struct storwin__records *a, const struct storwin__records *b)
{
    return memcmp(a->at, b->at, sizeof(a->at)) == 0 && a->n_torn == b->n_torn &&
           a->foreign == b->foreign;
}

/* As read_found(), until no writer interferes. */
static int update_copy(struct storwin_window *win, uint64_t generation, struct storwin_error *err)
{
    const int fd = win->files[0].fd;
    struct storwin__records found, now;
    struct storwin_error why;
    int rc = storwin__records_read(fd, win->opts.offset_bytes, &found);

    for (unsigned tries = 0; rc == 0 && tries < MOST_TRIES; tries++) {
        int got = read_found(win, &found, generation, &why);

        if (got >= 0) {
            win->commit->newest_generation = found.newest_generation;
            win->commit->app_version = win->commit->last.app_version;
            win->commit->recovery = win->commit->last.generation < found.newest_generation
                                        ? STORWIN_RECOVERY_OLDER
                                        : STORWIN_RECOVERY_CLEAN;
            return got;
        }
        rc = storwin__records_read(fd, win->opts.offset_bytes, &now);
        if (rc == 0 && records_same(&now, &found)) {
            if (err)
                *err = why;
            return got;
        }
        found = now;
    }
    return rc < 0 ? storwin__fail(err, rc, STORWIN__FILENAME, "read \"%.80s\": %s", win->path,
                                  storwin_strerror(rc))
                  : storwin__fail(err, STORWIN_EBUSY, STORWIN__FILENAME,
                                  "\"%.80s\": the writer replaced the commits %u times while they "
                                  "were read; keep more of them by storage_alloc_generations",
                                  win->path, MOST_TRIES);
}

/* Makes a window without a copy. */
static int create_reader(const struct storwin_opts *opts, struct storwin_window **out,
                         struct storwin_error *err)
{
    const struct storwin_allocator *a = opts->allocator;
    struct storwin_window *win = storwin__window_new(opts);
    int rc;

    if (!win)
        return storwin__fail(err, -ENOMEM, NULL, "out of memory");
    *out = win;
    win->parts = storwin__calloc(a, 1, sizeof(*win->parts));
    win->files = storwin__calloc(a, 1, sizeof(*win->files));
    if (!win->parts || !win->files)
        return storwin__fail(err, -ENOMEM, NULL, "out of memory");
    rc = storwin__file_open_to_read(&win->files[0], opts, opts->filename, err);
    win->n_files = 1;
    if (win->files[0].dir_fd >= 0)
        close(win->files[0].dir_fd);
    win->files[0].dir_fd = -1;
    win->parts[0].kind = STORWIN_STORAGE;
    win->parts[0].file_offset = opts->offset_bytes;
    win->n_parts = 1;
    return rc;
}

int storwin_open_read(const struct storwin_opts *opts, struct storwin_window **out,
                      struct storwin_error *err)
{
    struct storwin_window *reader = NULL;
    struct storwin_opts own;
    int rc;

    if (!opts || !out)
        return storwin__fail(err, -EINVAL, NULL, "an argument is NULL");
    rc = storwin__opts_or_defaults(&own, opts, err);
    if (rc < 0)
        return rc;
    own.alloc_type = STORWIN_STORAGE;
    own.pager = STORWIN_PAGER_RESIDENT;
    rc = storwin__opts_check(&own, (uint64_t)sysconf(_SC_PAGESIZE), err);
    if (rc < 0)
        return rc;
    own.factor_ppb = STORWIN_FACTOR_ONE;
    own.flags = STORWIN_DISCARD;
    own.atomic = STORWIN_ATOMIC_NONE;
    rc = create_reader(&own, &reader, err);
    if (rc == 0)
        rc = update_copy(reader, own.generation, err);
    if (rc < 0) {
        (void)storwin_free(reader, NULL);
        return rc;
    }
    *out = reader;
    return 0;
}

int storwin_follow(struct storwin_window *win, struct storwin_error *err)
{
    if (!win)
        return storwin__fail(err, -EINVAL, NULL, "an argument is NULL");
    if (storwin__owned(win, err) < 0)
        return STORWIN_ESTATE;
    if (!storwin__reads_only(win))
        return storwin__fail(err, STORWIN_ESTATE, NULL,
                             "the window is no reader: storwin_open_read() did not make it");
    return update_copy(win, 0, err);
}
