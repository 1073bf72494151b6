/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic commits: reads and writes, past the page cache where possible. Offsets are offsets in the
 * file. */
#include "commit.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define MOST_IOV 1024u /* IOV_MAX of Linux */

/* Writes all bytes or returns the error; consumes *iov. No byte is durable before a flush. */
int storwin__commit_write(struct storwin_window *win, struct iovec *iov, unsigned n,
                          uint64_t offset)
{
    const struct storwin__file *f = &win->files[0];
    int fd = f->direct_fd >= 0 ? f->direct_fd : f->fd;

    while (n > 0) {
        ssize_t done = pwritev(fd, iov, (int)(n < MOST_IOV ? n : MOST_IOV), (off_t)offset);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0 && errno == EINVAL && fd != f->fd) { /* direct I/O refuses the alignment */
            fd = f->fd;
            continue;
        }
        if (done <= 0)
            return done < 0 ? -errno : -ENOSPC;
        atomic_fetch_add_explicit(&win->written_bytes, (uint64_t)done, memory_order_relaxed);
        atomic_fetch_add_explicit(&win->n_requests, 1, memory_order_relaxed);
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

/* `to` and `bytes` are aligned for direct I/O. */
int storwin__commit_read(const struct storwin_window *win, void *to, uint64_t bytes,
                         uint64_t offset)
{
    const struct storwin__file *f = &win->files[0];
    int rc = -EINVAL;

    if (f->direct_fd >= 0)
        rc = storwin__read_all(f->direct_fd, to, bytes, offset);
    return rc == -EINVAL ? storwin__read_all(f->fd, to, bytes, offset) : rc;
}

/* Reads all four copies, and uses the newer whole one of each place. */
int storwin__records_read(int fd, uint64_t offset, struct storwin__records *found)
{
    _Alignas(4096) uint8_t raw[STORWIN__BLOCK];

    memset(found, 0, sizeof(*found));
    for (uint32_t place = 0; place < 2; place++) {
        unsigned bad = 0, empty = 0;

        for (uint32_t copy = 0; copy < 2; copy++) {
            struct storwin__record r;
            int rc = storwin__read_all(fd, raw, sizeof(raw),
                                       offset + place * STORWIN__PLACE_BYTES +
                                           copy * STORWIN__COPY_BYTES);

            if (rc < 0)
                return rc;
            rc = storwin__record_check(raw, place, copy, &r);
            found->ours |= rc == 0 || rc == STORWIN_EDAMAGED;
            found->foreign |= rc == STORWIN_EFORMAT;
            found->swapped |= r.magic == __builtin_bswap64(STORWIN__RECORD_MAGIC);
            bad += rc == STORWIN_EDAMAGED || rc == STORWIN_EFORMAT;
            empty += rc == STORWIN_ENONE;
            if (rc == 0 && r.seq > found->at[place].seq)
                found->at[place] = r;
        }
        if (found->at[place].seq > 0)
            found->n_damaged += bad;
        else if (empty == 0)
            found->n_torn++;
        else
            found->n_unfinished += bad;
    }
    return 0;
}

/* Writes both copies of a record, and flushes. */
int storwin__record_write(struct storwin_window *win, const struct storwin__record *r)
{
    _Alignas(4096) uint8_t raw[STORWIN__BLOCK] = {0};
    const uint32_t place = r->place;

    for (uint32_t copy = 0; copy < 2; copy++) {
        struct storwin__record sealed = *r;
        struct iovec iov = {raw, sizeof(raw)};
        int rc;

        storwin__record_seal(&sealed, place, copy);
        memcpy(raw, &sealed, sizeof(sealed));
        rc = storwin__commit_write(win, &iov, 1,
                                   win->opts.offset_bytes + place * STORWIN__PLACE_BYTES +
                                       copy * STORWIN__COPY_BYTES);
        if (rc < 0)
            return rc;
    }
    return fdatasync(win->files[0].fd) < 0 ? -errno : 0;
}

/* Allocates zeroed whole blocks, aligned for direct I/O; *whole is the pointer to free. */
void *storwin__blocks_alloc(const struct storwin_window *win, uint64_t bytes, void **whole)
{
    uint8_t *at = storwin__calloc(win->opts.allocator, (size_t)(bytes + STORWIN__BLOCK), 1);

    *whole = at;
    return at ? at + (STORWIN__BLOCK - (uintptr_t)at % STORWIN__BLOCK) % STORWIN__BLOCK : NULL;
}
