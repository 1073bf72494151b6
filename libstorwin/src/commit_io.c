/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic commits: reads and writes, past the page cache where possible. Offsets are offsets in the
 * file. */
#include "commit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* Reads or writes all bytes, by preadv() or pwritev(), or returns the error; consumes *iov. No
 * written byte is durable before a flush. */
int storwin__commit_transfer(struct storwin_window *win, storwin__transfer_fn *call,
                             struct iovec *iov, unsigned n, uint64_t offset)
{
    const struct storwin__file *f = &win->files[0];
    const int reads = call == preadv;
    int fd = f->direct_fd >= 0 ? f->direct_fd : f->fd;

    while (n > 0) {
        ssize_t done =
            call(fd, iov, (int)(n < STORWIN__MOST_IOV ? n : STORWIN__MOST_IOV), (off_t)offset);

        if (done < 0 && errno == EINTR)
            continue;
        /* Direct I/O refuses the alignment; a read may succeed through the page cache anyway. */
        if (done < 0 && (errno == EINVAL || reads) && fd != f->fd) {
            fd = f->fd;
            continue;
        }
        if (done <= 0)
            return done < 0 ? -errno : reads ? STORWIN_EDAMAGED : -ENOSPC;
        if (!reads)
            storwin__count_written(win, (uint64_t)done);
        offset += (uint64_t)done;
        for (; n > 0 && (size_t)done >= iov->iov_len; iov++, n--)
            done -= (ssize_t)iov->iov_len;
        if (n > 0) {
            iov->iov_base = (uint8_t *)iov->iov_base + done;
            iov->iov_len -= (size_t)done;
        }
    }
    return 0;
}

int storwin__stream_flush(struct storwin__stream *s)
{
    int rc = s->n ? storwin__commit_transfer(s->win, s->call, s->iov, s->n, s->offset) : 0;

    s->offset += s->bytes;
    s->n = 0;
    s->bytes = 0;
    return rc;
}

int storwin__stream_put(struct storwin__stream *s, uint8_t *at, uint64_t bytes)
{
    struct iovec *last = s->n ? &s->iov[s->n - 1] : NULL;
    int rc = 0;

    if (last && (uint8_t *)last->iov_base + last->iov_len == at) {
        last->iov_len += bytes;
    } else {
        if (s->n == STORWIN__MOST_IOV)
            rc = storwin__stream_flush(s);
        s->iov[s->n++] = (struct iovec){at, bytes};
    }
    s->bytes += bytes;
    return rc;
}

/* The offset in the file of a copy of a record; `offset` is the window's. */
static uint64_t copy_at(uint64_t offset, uint32_t place, uint32_t copy)
{
    return offset + place * STORWIN__PLACE_BYTES + copy * STORWIN__COPY_BYTES;
}

/* Returns 1 if a copy of a record begins with the magic, of either byte order; 0; or an error. */
int storwin__records_present(int fd, uint64_t offset)
{
    if (offset > INT64_MAX - STORWIN__FIRST_AREA)
        return 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t magic;
        const int rc =
            storwin__read_all(fd, (uint8_t *)&magic, sizeof(magic), copy_at(offset, i / 2, i % 2));

        if (rc < 0)
            return rc;
        if (magic == STORWIN__RECORD_MAGIC || magic == __builtin_bswap64(STORWIN__RECORD_MAGIC))
            return 1;
    }
    return 0;
}

/* Drops records whose generations were discarded: a newer record is of an older generation. */
static void drop_discarded(struct storwin__records *found)
{
    struct storwin__record all[STORWIN_MAX_GENERATIONS];

    memcpy(all, found->at, sizeof(all));
    for (uint32_t i = 0; i < found->areas; i++)
        for (uint32_t j = 0; j < found->areas; j++)
            if (all[j].seq > all[i].seq && all[j].generation < all[i].generation)
                memset(&found->at[i], 0, sizeof(found->at[i]));
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

/* Reads both copies of the record in each place, and uses the newer whole one. The first two places
 * tell how many there are. */
int storwin__records_read(int fd, uint64_t offset, struct storwin__records *found)
{
    _Alignas(4096) uint8_t raw[STORWIN__BLOCK];

    memset(found, 0, sizeof(*found));
    found->areas = 2;
    for (uint32_t place = 0; place < found->areas; place++) {
        unsigned bad = 0, empty = 0;

        for (uint32_t copy = 0; copy < 2; copy++) {
            struct storwin__record r;
            int rc = storwin__read_all(fd, raw, sizeof(raw), copy_at(offset, place, copy));

            if (rc < 0)
                return rc;
            rc = storwin__record_check(raw, place, copy, &r);
            if (rc == 0 && place >= 2 && storwin__record_areas(&r) != found->areas)
                rc = STORWIN_EFORMAT;
            found->ours |= rc == 0 || rc == STORWIN_EDAMAGED;
            found->foreign |= rc == STORWIN_EFORMAT;
            found->swapped |= r.magic == __builtin_bswap64(STORWIN__RECORD_MAGIC);
            bad += rc == STORWIN_EDAMAGED || rc == STORWIN_EFORMAT;
            empty += rc == STORWIN_ENONE;
            if (rc == 0 && r.seq > found->at[place].seq)
                found->at[place] = r;
        }
        found->newest_seq = storwin__max(found->newest_seq, found->at[place].seq);
        found->newest_generation =
            storwin__max(found->newest_generation, found->at[place].generation);
        if (place < 2 && found->at[place].seq > 0)
            found->areas =
                (uint32_t)storwin__max(found->areas, storwin__record_areas(&found->at[place]));
        if (found->at[place].seq > 0)
            found->n_damaged += bad;
        else if (empty == 0)
            found->n_torn++;
        else
            found->n_unfinished += bad;
    }
    drop_discarded(found);
    if (found->newest_seq == 0 && !found->ours && !found->foreign) {
        const int zero = all_zero(fd, offset);

        if (zero < 0)
            return zero;
        found->foreign = zero == 0;
    }
    return 0;
}

/* Writes both copies of a record, and flushes. */
int storwin__record_write(struct storwin_window *win, const struct storwin__record *r,
                          struct storwin_error *err)
{
    _Alignas(4096) uint8_t raw[STORWIN__BLOCK] = {0};
    int rc = 0;

    for (uint32_t copy = 0; rc == 0 && copy < 2; copy++) {
        struct storwin__record sealed = *r;
        struct iovec iov = {raw, sizeof(raw)};

        storwin__record_seal(&sealed, r->place, copy);
        memcpy(raw, &sealed, sizeof(sealed));
        rc = storwin__commit_transfer(win, pwritev, &iov, 1,
                                      copy_at(win->opts.offset_bytes, r->place, copy));
    }
    if (rc == 0 && fdatasync(win->files[0].fd) < 0)
        rc = -errno;
    return rc == 0 ? 0
                   : storwin__fail(err, rc, STORWIN__FILENAME,
                                   "the record of generation %" PRIu64 " in \"%.80s\": %s",
                                   r->generation, win->path, storwin_strerror(rc));
}

/* Frees the space of a range, relative to the window's offset; best effort. */
void storwin__commit_punch(const struct storwin_window *win, uint64_t offset, uint64_t bytes)
{
    if (!win->files[0].device)
        (void)fallocate(win->files[0].fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        (off_t)(win->opts.offset_bytes + offset), (off_t)bytes);
}

/* Allocates zeroed whole blocks, aligned for direct I/O; *whole is the pointer to free. NULL: no
 * memory, or the length, which may come from a file, is not one of memory. */
void *storwin__blocks_alloc(const struct storwin_window *win, uint64_t bytes, void **whole)
{
    uint8_t *at = bytes <= SIZE_MAX / 2
                      ? storwin__calloc(win->opts.allocator, (size_t)(bytes + STORWIN__BLOCK), 1)
                      : NULL;

    *whole = at;
    return at ? at + (STORWIN__BLOCK - (uintptr_t)at % STORWIN__BLOCK) % STORWIN__BLOCK : NULL;
}
