/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic commits: which generations a file holds, according to its records. */
#include "commit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Returns the length of a new file, from the window's offset. */
uint64_t storwin__commit_space(uint64_t bytes, uint32_t atomic, uint32_t areas)
{
    return areas * STORWIN__PLACE_BYTES + (areas + (atomic == STORWIN_ATOMIC_SLOTS ? 0 : 1)) *
                                              storwin__round_up(bytes, STORWIN__AREA_UNIT);
}

/* Returns the newest record; its seq is 0 if there is none. */
const struct storwin__record *storwin__record_newest(const struct storwin__records *found)
{
    const struct storwin__record *newest = &found->at[0];

    for (uint32_t place = 1; place < found->areas; place++)
        if (found->at[place].seq > newest->seq)
            newest = &found->at[place];
    return newest;
}

/* Returns the newest record before another one, or NULL. */
const struct storwin__record *storwin__record_older(const struct storwin__records *found,
                                                    const struct storwin__record *than)
{
    const struct storwin__record *older = NULL;

    for (uint32_t place = 0; place < found->areas; place++)
        if (found->at[place].seq < than->seq && found->at[place].seq > (older ? older->seq : 0))
            older = &found->at[place];
    return older;
}

/*
 * Returns the newest record with the newest generation up to the given one; the records after
 * `after` if that is not NULL, since its data may be damaged. *covered is that generation. NULL:
 * there is none.
 */
const struct storwin__record *storwin__record_for(const struct storwin__records *found,
                                                  uint64_t generation,
                                                  const struct storwin__record *after,
                                                  uint64_t *covered)
{
    const struct storwin__record *r = storwin__record_newest(found);
    int later = 0; /* a record has only later generations */

    for (; r && r->seq > 0; r = storwin__record_older(found, r)) {
        if (!after || r->seq < after->seq) {
            *covered = storwin__min(generation, r->generation);
            if (r->home_generation <= generation && (generation <= r->generation || later))
                return r;
        }
        later |= r->home_generation > generation;
    }
    return NULL;
}

static int records_foreign(const struct storwin__records *found, struct storwin_error *err,
                           const char *path)
{
    return storwin__fail(err, STORWIN_EFORMAT, STORWIN__FILENAME, "\"%.80s\" holds %s", path,
                         found->swapped ? "commits of a machine of the other byte order"
                                        : "no commits: another program wrote it");
}

/* Refuses a file without a valid record. */
int storwin__records_refuse(const struct storwin__records *found, const char *path,
                            struct storwin_error *err)
{
    if (storwin__record_newest(found)->seq > 0)
        return 0;
    if (found->n_torn == 0 && !found->foreign)
        return storwin__fail(err, STORWIN_ENONE, STORWIN__FILENAME, "\"%.80s\" holds no commit",
                             path);
    return found->ours ? storwin__fail(err, STORWIN_EDAMAGED, STORWIN__FILENAME,
                                       "\"%.80s\" is damaged: no record is intact", path)
                       : records_foreign(found, err, path);
}

int storwin__version_check(const struct storwin_window *win, const struct storwin__record *r,
                           struct storwin_error *err)
{
    return win->opts.app_version == 0 || win->opts.app_version == r->app_version
               ? 0
               : storwin__fail(err, STORWIN_EVERSION, "storage_alloc_version",
                               "\"%.80s\" holds a state of version %" PRIu64 ", not %" PRIu64,
                               win->path, r->app_version, win->opts.app_version);
}

/* Reports that a file does not hold a generation, and which it does. */
int storwin__generation_absent(const struct storwin_window *win,
                               const struct storwin__records *found, uint64_t generation,
                               struct storwin_error *err)
{
    const struct storwin__record *r = storwin__record_newest(found);
    char list[128] = "";
    size_t len = 0;

    for (; r && len < sizeof(list); r = storwin__record_older(found, r))
        len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%" PRIu64 " to %" PRIu64,
                                len ? ", " : "", r->home_generation, r->generation);
    return storwin__fail(err, STORWIN_ENONE, "storage_alloc_generation",
                         "\"%.80s\" does not hold generation %" PRIu64 ": it has %s", win->path,
                         generation, list);
}

/* Checks that the options allow the number of generations that a file keeps. */
int storwin__generations_check(const struct storwin_opts *opts, const char *path, uint32_t areas,
                               struct storwin_error *err)
{
    if (opts->generations > 0 && opts->generations != areas)
        return storwin__fail(err, STORWIN_EVALUE, "storage_alloc_generations",
                             "\"%.80s\" keeps %u generations, not %" PRIu64
                             ": storage_alloc_generations only applies to a new file",
                             path, areas, opts->generations);
    return areas == 2 || opts->atomic == STORWIN_ATOMIC_SLOTS
               ? 0
               : storwin__fail(err, STORWIN_ECONFLICT, "storage_alloc_atomic",
                               "\"%.80s\" keeps %u generations, which needs "
                               "storage_alloc_atomic=slots",
                               path, areas);
}

/* Reads the records of a file, which may be another program's, and changes nothing. *opened: the
 * file could be opened. */
static int read_records(const struct storwin_opts *opts, const char *path,
                        struct storwin__records *found, int *opened, struct storwin_error *err)
{
    struct storwin__file f;
    int rc = storwin__file_open_to_read(&f, opts, path, err);

    *opened = rc == 0;
    if (rc == 0) {
        rc = storwin__records_read(f.fd, opts->offset_bytes, found);
        if (rc < 0)
            rc = storwin__fail(err, rc, STORWIN__FILENAME, "\"%.80s\": %s", path,
                               storwin_strerror(rc));
        else if (storwin__record_newest(found)->seq == 0 && !found->ours && found->foreign)
            rc = records_foreign(found, err, path);
    }
    storwin__file_close(&f);
    return rc;
}

/* Reads an existing file before a change to it is possible. *space becomes the length that a window
 * needs; if the areas have moved, the length before the first one: reserve_areas() handles the
 * areas. */
int storwin__commit_precheck(const struct storwin_opts *opts, const char *path, uint64_t bytes,
                             uint64_t *space, struct storwin_error *err)
{
    const struct storwin__record *newest;
    struct storwin__records found;
    struct storwin_error why;
    int opened, rc = read_records(opts, path, &found, &opened, &why);

    *space = storwin__commit_space(bytes, opts->atomic,
                                   opts->generations > 0 ? (uint32_t)opts->generations : 2);
    /* the file is new, or the later open for writing reports the error */
    if (!opened && rc != -ENOMEM)
        return 0;
    if (rc < 0) {
        if (err)
            *err = why;
        return rc;
    }
    newest = storwin__record_newest(&found);
    if (newest->seq == 0)
        return 0;
    *space = newest->base > found.areas * STORWIN__PLACE_BYTES
                 ? found.areas * STORWIN__PLACE_BYTES
                 : storwin__commit_space(bytes, opts->atomic, found.areas);
    return storwin__generations_check(opts, path, found.areas, err);
}

/* Returns the newest generation below another one that a record names, or 0. */
static uint64_t generation_before(const struct storwin__records *found, uint64_t generation)
{
    uint64_t before = 0;

    for (uint32_t place = 0; place < found->areas; place++) {
        const struct storwin__record *r = &found->at[place];

        before = r->generation < generation ? storwin__max(before, r->generation) : before;
        before =
            r->home_generation < generation ? storwin__max(before, r->home_generation) : before;
    }
    return before;
}

int storwin_file_query(const struct storwin_opts *opts, struct storwin_info_file *info,
                       struct storwin_error *err)
{
    struct storwin_info_file full = {0};
    const struct storwin__record *r;
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
    if (rc == 0)
        rc = storwin__records_refuse(&found, own.filename, err);
    if (rc < 0)
        return rc;
    r = storwin__record_newest(&found);
    while (own.generation > 0 && r && r->home_generation > own.generation)
        r = storwin__record_older(&found, r);
    if (!r)
        return storwin__fail(err, STORWIN_ENONE, "storage_alloc_generation",
                             "\"%.80s\" has no generation up to %" PRIu64, own.filename,
                             own.generation);
    full.bytes = r->bytes;
    full.generation =
        own.generation > 0 ? storwin__min(own.generation, r->generation) : r->generation;
    full.older_generation = generation_before(&found, full.generation);
    full.app_version = r->app_version;
    full.damaged = found.n_torn > 0;
    full.generations = found.areas;
    return storwin__struct_give(info, &full, sizeof(full)) < 0
               ? storwin__fail(err, -EINVAL, NULL, "the struct for the answer has no size")
               : 0;
}
