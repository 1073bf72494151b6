/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints: two slots that take turns. A slot is a header and, behind it, the application's
 * bytes. Its checksum is the sum of one 64-bit value for each block of data, so that a commit
 * computes anew only the blocks that changed. The layout is in LAYOUT.md.
 */
#include "internal.h"
#include "ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_BYTE (INT64_MAX - 8)
#define SUM_BYTES UINT64_C(4096) /* of data under one value */

struct slot {
    uint8_t *header, *data;
    uint64_t *sums; /* one for each block; those of the data as last summed */
    uint64_t total;
    uint64_t generation;  /* 0: not valid */
    uint64_t app_version; /* of that state */
};

struct storwin_ckpt {
    const struct storwin_allocator *allocator;
    struct storwin_window *win;
    struct slot slot[2];
    uint64_t bytes, n_sums, slot_bytes, app_version;
    uint32_t n_valid, open;
    int newest; /* slot, or -1 */
};

static uint64_t block_bytes(const struct storwin_ckpt *c, uint64_t block)
{
    return storwin__min(SUM_BYTES, c->bytes - block * SUM_BYTES);
}

/* Sums blocks [first, end) of a slot anew. */
static void resum(const struct storwin_ckpt *c, struct slot *s, uint64_t first, uint64_t end)
{
    for (uint64_t i = first; i < end; i++) {
        uint64_t sum = storwin__sum(s->data + i * SUM_BYTES, (size_t)block_bytes(c, i), i);

        s->total += sum - s->sums[i];
        s->sums[i] = sum;
    }
}

static uint64_t slot_offset(const struct storwin_ckpt *c, const struct slot *s)
{
    return (uint64_t)(s->header - (const uint8_t *)c->win->map);
}

/* Looks at both slots: which are whole, which is the newest. */
static int find_newest(struct storwin_ckpt *c, struct storwin_error *err)
{
    int foreign = 0;

    c->newest = -1;
    for (uint32_t i = 0; i < 2; i++) {
        struct slot *s = &c->slot[i];
        struct storwin__ckpt_header h;
        int rc = storwin__ckpt_header_check(s->header, c->bytes, i, &h);

        resum(c, s, 0, c->n_sums);
        foreign += rc == STORWIN_EFORMAT;
        if (rc < 0 || h.data_sum != s->total)
            continue;
        s->generation = h.generation;
        s->app_version = h.app_version;
        c->n_valid++;
        if (c->newest < 0 || s->generation > c->slot[c->newest].generation)
            c->newest = (int)i;
    }
    if (foreign > 0)
        return storwin__fail(err, STORWIN_EFORMAT, "storage_alloc_filename",
                             "the file holds something else than checkpoints of %" PRIu64 " bytes",
                             c->bytes);
    return 0;
}

/*
 * One process at a time: the whole file, but of a device only what is used. Writes of a killed
 * process may still be under way; they hold the descriptor that they go through, and with it this
 * lock.
 */
static int lock(struct storwin_ckpt *c, struct storwin_error *err)
{
    const struct storwin__file *f = &c->win->files[0];
    struct flock what = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_BYTE, .l_len = 1};

    if (f->device) {
        what.l_start = (off_t)c->win->opts.offset_bytes;
        what.l_len = (off_t)(2 * c->slot_bytes);
    }
    if (fcntl(f->direct_fd >= 0 ? f->direct_fd : f->fd, F_OFD_SETLK, &what) == 0)
        return 0;
    if (errno == EAGAIN || errno == EACCES)
        return storwin__fail(err, STORWIN_EBUSY, "storage_alloc_filename",
                             "these checkpoints are open elsewhere");
    return storwin__fail(err, -errno, "storage_alloc_filename", "lock: %s",
                         storwin_strerror(-errno));
}

static int open_slots(struct storwin_ckpt *c, uint64_t app_version, struct storwin_error *err)
{
    int rc = lock(c, err);

    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < 2; i++) {
        struct slot *s = &c->slot[i];

        s->header = c->win->map + i * c->slot_bytes;
        s->data = s->header + STORWIN__CKPT_HEADER_BYTES;
        s->sums = storwin__calloc(c->allocator, (size_t)c->n_sums, sizeof(*s->sums));
        if (!s->sums)
            return storwin__fail(err, -ENOMEM, NULL, "out of memory");
    }
    rc = find_newest(c, err);
    if (rc < 0)
        return rc;
    if (c->newest >= 0 && app_version != 0 && c->slot[c->newest].app_version != app_version)
        return storwin__fail(err, STORWIN_EVERSION, NULL,
                             "the newest checkpoint is of version %" PRIu64 ", not %" PRIu64,
                             c->slot[c->newest].app_version, app_version);
    /* A killed process may have left the newest in the page cache only; once the other slot is
     * overwritten, it is all there is. */
    if (c->newest >= 0 && fdatasync(c->win->files[0].fd) < 0)
        return storwin__fail(err, -errno, "storage_alloc_filename", "sync: %s",
                             storwin_strerror(-errno));
    c->app_version =
        app_version == 0 && c->newest >= 0 ? c->slot[c->newest].app_version : app_version;
    return 0;
}

static void dispose(struct storwin_ckpt *c)
{
    storwin__free(c->allocator, c->slot[0].sums);
    storwin__free(c->allocator, c->slot[1].sums);
    storwin__free(c->allocator, c);
}

/* A file that exists is looked at before anything could change it. */
static int check_existing(const struct storwin_opts *opts, uint64_t slot_bytes, uint64_t bytes,
                          struct storwin_error *err)
{
    struct storwin__ckpt_header raw, h;
    struct stat st;
    int fd = -1, bad = 0;
    off_t end;

    if (opts->offset_bytes <=
        (uint64_t)INT64_MAX -
            2 * slot_bytes) /* if not, storwin_alloc() will say that there is no such place */
        fd = open(opts->filename, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))) {
        if (fd >= 0)
            close(fd);
        return 0; /* new, or storwin_alloc() will say why not */
    }
    end = lseek(fd, 0, SEEK_END);
    for (uint32_t i = 0; i < 2; i++) {
        off_t at = (off_t)(opts->offset_bytes + i * slot_bytes);

        if (pread(fd, &raw, sizeof(raw), at) == (ssize_t)sizeof(raw))
            bad |= storwin__ckpt_header_check(&raw, bytes, i, &h) == STORWIN_EFORMAT;
        else if (end > at)
            bad = 1;
    }
    close(fd);
    if (bad)
        return storwin__fail(err, STORWIN_EFORMAT, "storage_alloc_filename",
                             "\"%.80s\" holds something else than checkpoints of %" PRIu64 " bytes",
                             opts->filename, bytes);
    return 0;
}

int storwin_ckpt_open(const struct storwin_opts *opts, uint64_t bytes, uint64_t app_version,
                      struct storwin_ckpt **out, struct storwin_error *err)
{
    struct storwin_opts own;
    struct storwin_ckpt *c;
    struct storwin_error why;
    int rc;

    if (!opts || !out || bytes == 0 || bytes > STORWIN_MAX_BYTES / 4)
        return storwin__fail(err, -EINVAL, NULL,
                             "an argument is NULL, or the length is not from 1 to 2^44");
    rc = storwin__opts_or_defaults(&own, opts, err);
    if (rc < 0)
        return rc;
    if (own.pager == STORWIN_PAGER_USER)
        return storwin__fail(err, STORWIN_ECONFLICT, "storage_alloc_pager",
                             "checkpoints have the pager kernel or resident");
    own.alloc_type = STORWIN_STORAGE;
    own.factor_ppb = STORWIN_FACTOR_ONE;
    own.atomic = STORWIN_ATOMIC_NONE; /* they are by themselves */
    rc = storwin__opts_check(&own, (uint64_t)sysconf(_SC_PAGESIZE), err);
    if (rc < 0)
        return rc;
    c = storwin__calloc(own.allocator, 1, sizeof(*c));
    if (!c)
        return storwin__fail(err, -ENOMEM, NULL, "out of memory");
    c->allocator = own.allocator;
    c->bytes = bytes;
    c->n_sums = storwin__round_up(bytes, SUM_BYTES) / SUM_BYTES;
    c->slot_bytes =
        STORWIN__CKPT_HEADER_BYTES + storwin__round_up(bytes, STORWIN__CKPT_HEADER_BYTES);
    rc = check_existing(&own, c->slot_bytes, bytes, err);
    if (rc == 0)
        rc = storwin_alloc(&own, 2 * c->slot_bytes, &c->win, err);
    if (rc == 0 && (rc = open_slots(c, app_version, &why)) < 0) {
        if (err)
            *err = why;
        c->win->opts.flags |=
            STORWIN_DISCARD |
            STORWIN_UNLINK; /* a file that is new and of nobody's use yet goes, others stay */
        if (!c->win->files[0].created || rc == STORWIN_EBUSY)
            c->win->opts.flags &= ~STORWIN_UNLINK;
        (void)storwin_free(c->win, NULL);
    }
    if (rc < 0) {
        dispose(c);
        return rc;
    }
    *out = c;
    return 0;
}

int storwin_ckpt_query(const struct storwin_ckpt *c, struct storwin_info_ckpt *info)
{
    struct storwin_info_ckpt full = {0};

    if (!c)
        return -EINVAL;
    full.bytes = c->bytes;
    full.n_valid = c->n_valid;
    full.open = c->open;
    if (c->newest >= 0) {
        full.data = c->slot[c->newest].data;
        full.generation = c->slot[c->newest].generation;
        full.app_version = c->slot[c->newest].app_version;
    }
    if (storwin__give(info, &full, sizeof(full)) < 0)
        return -EINVAL;
    return c->newest < 0 ? STORWIN_ENONE : 0;
}

/* Makes the data of one slot that of another, storing only into blocks that differ. */
static void copy_slot(const struct storwin_ckpt *c, struct slot *to, const struct slot *from)
{
    for (uint64_t i = 0; i < c->n_sums; i++) {
        uint8_t *at = to->data + i * SUM_BYTES;
        const size_t n = (size_t)block_bytes(c, i);

        if (memcmp(at, from->data + i * SUM_BYTES, n) != 0)
            memcpy(at, from->data + i * SUM_BYTES, n);
    }
}

static struct slot *next_slot(struct storwin_ckpt *c)
{
    return &c->slot[c->newest < 0 ? 0 : 1 - c->newest];
}

int storwin_ckpt_begin(struct storwin_ckpt *c, uint32_t flags, void **data,
                       struct storwin_error *err)
{
    struct slot *s;

    if (!c || !data || (flags & ~STORWIN_CKPT_COPY))
        return storwin__fail(err, -EINVAL, NULL, "an argument is NULL, or unknown flags");
    if (storwin__owned(c->win, err) < 0)
        return STORWIN_ESTATE;
    if (c->open)
        return storwin__fail(err, STORWIN_ESTATE, NULL, "the last state was not committed");
    s = next_slot(c);
    s->generation = 0; /* what it held is no more */
    if ((flags & STORWIN_CKPT_COPY) && c->newest >= 0)
        copy_slot(c, s, &c->slot[c->newest]);
    c->open = 1;
    *data = s->data;
    return 0;
}

/* Brings the sums up to date: of what the tracking lists, or of everything where it cannot vouch
 * for the rest. */
static void sum_changes(struct storwin_ckpt *c, struct slot *s)
{
    const struct storwin_window *win = c->win;
    const uint64_t page = win->page_bytes, lo = slot_offset(c, s) + STORWIN__CKPT_HEADER_BYTES;
    const uint64_t first = lo / page, end = storwin__round_up(lo + c->bytes, page) / page;

    if (win->track != STORWIN_TRACK_SCAN && win->track != STORWIN_TRACK_FAULTS) {
        resum(c, s, 0, c->n_sums);
        return;
    }
    storwin__find_dirty(c->win, first, end);
    for (uint64_t p = storwin__bits_next(win, first, end, 1); p < end;
         p = storwin__bits_next(win, p, end, 1)) {
        uint64_t stop = storwin__bits_next(win, p, end, 0);

        resum(c, s, (p * page - lo) / SUM_BYTES,
              storwin__min(c->n_sums, (stop * page - lo) / SUM_BYTES));
        p = stop;
    }
}

int storwin_ckpt_commit(struct storwin_ckpt *c, struct storwin_error *err)
{
    struct storwin__ckpt_header h;
    struct slot *s;
    uint64_t at, generation;
    int rc;

    if (!c)
        return storwin__fail(err, -EINVAL, NULL, "an argument is NULL");
    if (storwin__owned(c->win, err) < 0)
        return STORWIN_ESTATE;
    if (!c->open)
        return storwin__fail(err, STORWIN_ESTATE, NULL, "commit without begin");
    s = next_slot(c);
    at = slot_offset(c, s);
    generation = c->newest < 0 ? 1 : c->slot[c->newest].generation + 1;
    if (generation == 0) /* would not be found again */
        return storwin__fail(err, -EOVERFLOW, NULL,
                             "the newest checkpoint has the last number that there is");
    sum_changes(c, s);
    rc = storwin_sync(c->win, at + STORWIN__CKPT_HEADER_BYTES, c->bytes, err);
    if (rc == 0) {
        storwin__ckpt_header_make(&h, c->bytes, generation, c->app_version, s->total,
                                  (uint32_t)(s - c->slot));
        memcpy(s->header, &h, sizeof(h));
        rc = storwin_sync(c->win, at, STORWIN__CKPT_HEADER_BYTES, err);
    }
    if (rc < 0) {
        if (err)
            err->offset = err->offset > at + STORWIN__CKPT_HEADER_BYTES
                              ? err->offset - at - STORWIN__CKPT_HEADER_BYTES
                              : 0;
        return rc;
    }
    s->generation = generation;
    s->app_version = c->app_version;
    c->newest = (int)(s - c->slot);
    c->open = 0;
    return 0;
}

void storwin_ckpt_close(struct storwin_ckpt *c)
{
    if (!c)
        return;
    c->win->opts.flags |=
        STORWIN_DISCARD; /* what was committed is durable, and nothing else shall be */
    (void)storwin_free(c->win, NULL);
    dispose(c);
}
