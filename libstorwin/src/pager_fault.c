/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults of the user pager: fill blocks from the file, or mark them dirty. */
#include "pager.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Returns how many blocks to read for a fault: more if faults are sequential. *stream is the
 * fault's sequence. */
static uint64_t read_ahead(struct storwin__pager *p, uint64_t block, unsigned *stream)
{
    const uint64_t most = storwin__min(STORWIN__AHEAD_BYTES / p->block_bytes, p->max / 4);
    const uint32_t style = p->win->opts.access_style;

    *stream = STORWIN__STREAMS;
    if ((style & STORWIN_ACCESS_RANDOM) || most <= 1)
        return 1;
    if (style & (STORWIN_ACCESS_SEQUENTIAL | STORWIN_ACCESS_REVERSE))
        return most;
    for (*stream = 0; *stream < STORWIN__STREAMS; (*stream)++) {
        if (p->expect[*stream] == block) {
            p->ahead[*stream] = storwin__min(p->ahead[*stream] * 2, most);
            return p->ahead[*stream];
        }
    }
    *stream = p->stream = (p->stream + 1) % STORWIN__STREAMS;
    p->ahead[*stream] = 1;
    return 1;
}

/* Claims `block` and free neighbours for this thread. Returns their number, from *first on. */
static uint64_t claim_blocks(struct storwin__pager *p, uint64_t block, uint64_t *first)
{
    const int back = (p->win->opts.access_style & STORWIN_ACCESS_REVERSE) != 0;
    unsigned stream;
    uint64_t want = read_ahead(p, block, &stream), n = 1;

    p->state[block] |= BUSY;
    while (p->resident >= p->max && !p->stuck && !p->stopping) {
        pthread_cond_signal(&p->pressure);
        pthread_cond_wait(&p->room, &p->lock);
    }
    if (p->resident < p->max)
        want = storwin__min(want, p->max - p->resident);
    else
        want = 1;
    *first = block;
    while (n < want) {
        uint64_t next = back ? *first - 1 : block + n;

        if (next >= p->n_blocks || p->state[next] != 0)
            break;
        p->state[next] = BUSY;
        if (back)
            *first = next;
        n++;
    }
    if (stream < STORWIN__STREAMS)
        p->expect[stream] = block + n;
    storwin__pager_set_resident(p, p->resident + n);
    if (p->resident + p->keep_free > p->max)
        pthread_cond_signal(&p->pressure);
    return n;
}

static int read_blocks(struct storwin__pager *p, uint8_t *to, uint64_t block, uint64_t n)
{
    const uint64_t at = block * p->block_bytes, bytes = storwin__blocks_bytes(p, block, n);
    const uint64_t want = storwin__min(bytes, p->win->stor_bytes - at);
    int rc = storwin__file_read(&p->win->files[0], to, want, p->win->opts.offset_bytes + at);

    if (rc < 0)
        return rc;
    memset(to + want, 0, (size_t)(bytes - want));
    atomic_fetch_add_explicit(&p->read_bytes, want, memory_order_relaxed);
    return 0;
}

/* Copies pages [first, end) in; `from` is the content of the first. */
static void copy_in(const struct storwin__pager *p, const uint8_t *from, uint64_t first,
                    uint64_t end, int protect)
{
    const uint64_t page = p->win->page_bytes;

    if (first < end)
        storwin__uffd_copy(p->uffd, from, (uint64_t)(uintptr_t)p->base + first * page,
                           (end - first) * page, protect, page);
}

/* An unreadable block raises SIGBUS, as in a mapping. */
static void poison_block(struct storwin__pager *p, uint64_t block)
{
    const uint64_t at = storwin__block_addr(p, block), bytes = storwin__blocks_bytes(p, block, 1);

    if (!p->can_poison || storwin__uffd_poison(p->uffd, at, bytes) < 0)
        (void)mprotect((void *)(uintptr_t)at, (size_t)bytes, PROT_NONE);
}

/* Copies blocks [first, first + n) in; leaves pages [lo, hi) unprotected, into which stores are
 * expected. */
static void copy_all(const struct storwin__pager *p, const uint8_t *from, uint64_t first,
                     uint64_t n, uint64_t lo, uint64_t hi)
{
    const uint64_t page = p->win->page_bytes, begin = first * p->block_pages,
                   end = storwin__block_end(p, first + n - 1);

    if (lo == hi)
        lo = hi = begin;
    copy_in(p, from, begin, lo, 1);
    copy_in(p, from + (lo - begin) * page, lo, hi, 0);
    copy_in(p, from + (hi - begin) * page, hi, end, 1);
}

/* Returns the end of the pages to mark as touched for a store into `page`. After `page` it takes as
 * many pages as were touched just before, because each page that is marked alone costs a fault. */
static uint64_t touch_end(const struct storwin__pager *p, uint64_t page)
{
    const uint64_t begin = page / p->block_pages * p->block_pages,
                   end = storwin__block_end(p, page / p->block_pages);
    uint64_t before = page;

    if (p->win->opts.access_style & (STORWIN_ACCESS_SEQUENTIAL | STORWIN_ACCESS_REVERSE))
        return end;
    while (before > begin && storwin__page_touched(p, before - 1))
        before--;
    return storwin__min(end, page + (page > before ? page - before : 1));
}

/* Fills the block of a page. The caller holds the lock; this releases it during I/O. */
static void fill_block(struct storwin__pager *p, uint64_t page, int store, uint8_t *bounce)
{
    const uint64_t block = page / p->block_pages, stored_end = store ? touch_end(p, page) : page;
    uint64_t first, n = claim_blocks(p, block, &first), good = first, n_good = n;
    int rc;

    pthread_mutex_unlock(&p->lock);
    rc = read_blocks(p, bounce, first, n);
    if (rc < 0 && n > 1) { /* perhaps only the read-ahead failed */
        good = block;
        n_good = 1;
        rc = read_blocks(p, bounce, block, 1);
    }
    if (rc == 0) {
        copy_all(p, bounce, good, n_good, page, stored_end);
    } else {
        n_good = 0;
        poison_block(p, block);
    }
    pthread_mutex_lock(&p->lock);
    for (uint64_t i = first; i < first + n; i++) {
        p->state[i] = 0;
        if (i >= good && i < good + n_good) {
            p->state[i] = PRESENT | (store && i == block ? DIRTY : 0);
            storwin__pager_push(p, i);
        }
    }
    if (rc < 0)
        p->state[block] = POISONED;
    else
        storwin__pages_touch(p, page, stored_end, 1);
    storwin__pager_set_resident(p, p->resident - (n - n_good));
    pthread_cond_broadcast(&p->idle);
    if (n_good < n)
        pthread_cond_broadcast(&p->room);
    storwin__blocks_wake(p, first, n);
}

static void serve_fault(struct storwin__pager *p, const struct uffd_msg *msg, uint8_t *bounce)
{
    const uint64_t flags = msg->arg.pagefault.flags;
    const uint64_t page =
        (msg->arg.pagefault.address - (uint64_t)(uintptr_t)p->base) / p->win->page_bytes;
    const uint64_t block = page / p->block_pages;
    unsigned state;

    if (block >= p->n_blocks)
        return;
    atomic_fetch_add_explicit(&p->n_faults, 1, memory_order_relaxed);
    pthread_mutex_lock(&p->lock);
    state = p->state[block];
    if (state & BUSY) {
        /* The thread that is busy with the block wakes the faulting one. */
    } else if (state & PRESENT) {
        if (flags & UFFD_PAGEFAULT_FLAG_WP) {
            const uint64_t end = touch_end(p, page), at = msg->arg.pagefault.address;

            p->state[block] |= DIRTY;
            storwin__pages_touch(p, page, end, 1);
            if (storwin__uffd_protect(p->uffd, at - at % p->win->page_bytes,
                                      (end - page) * p->win->page_bytes, 0) < 0)
                storwin__blocks_wake(p, block, 1); /* the access is retried */
        } else {
            storwin__blocks_wake(p, block, 1);
        }
    } else if (state & POISONED) {
        storwin__blocks_wake(p, block, 1);
    } else {
        fill_block(p, page, (flags & UFFD_PAGEFAULT_FLAG_WRITE) != 0, bounce);
    }
    pthread_mutex_unlock(&p->lock);
}

void *storwin__pager_handler(void *arg)
{
    struct storwin__pager *p = arg;
    struct pollfd fds[2] = {{.fd = p->uffd, .events = POLLIN},
                            {.fd = p->stop_fd, .events = POLLIN}};
    uint8_t *bounce =
        p->bounces ? p->bounces + atomic_fetch_add(&p->n_handlers, 1) * p->bounce : NULL;

    for (;;) {
        struct uffd_msg msg;
        ssize_t n;

        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (fds[1].revents)
            break;
        n = read(p->uffd, &msg, sizeof(msg));
        if (n == (ssize_t)sizeof(msg) && msg.event == UFFD_EVENT_PAGEFAULT)
            serve_fault(p, &msg, bounce);
    }
    return NULL;
}
