/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The user-level pager: private memory of which a bounded number of blocks is present. Handler
 * threads take the faults of userfaultfd and fill blocks from the file; evictor threads keep some
 * room free, oldest blocks first.
 *
 * A block is write-protected until it is stored into; that store faults, and marks the block dirty.
 * To evict, the block is BUSY (faults on it wait until it is not), moved to a place that only the
 * evictor knows, written if it was dirty, and dropped. The kernel does not move pages that
 * something has pinned to store into them past the page tables: such a block stays, and counts as
 * dirty. Before Linux 6.8 a block cannot be moved; it is protected again, written in its place and
 * dropped, and such stores are lost. A sync protects dirty blocks, and keeps them (PINNED) while
 * they are written: stores go on, and mark the block dirty anew. Whoever ends a BUSY state wakes
 * those who wait for the block, which then fault again; so a fault on a BUSY block may be
 * forgotten.
 *
 * The resident pager on kernels without PAGEMAP_SCAN uses the part of this that tracks stores:
 * every block is present, none is evicted.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PRESENT  1u  /* filled */
#define BUSY     2u  /* being filled or evicted */
#define DIRTY    4u  /* may differ from the file */
#define PINNED   8u  /* being written by a sync: stays */
#define POISONED 16u /* could not be read */

#define MAX_BLOCKS  (UINT64_C(1) << 28)
#define AHEAD_BYTES (UINT64_C(1) << 20) /* most that is read for one fault */
/* most that a sync moves at a time, and at least one block */
#define STASH_BYTES    262144u
#define BATCH          64u /* blocks that one evictor takes at a time */
#define STREAMS        8u  /* sequential readers told apart */
#define FEATURE_POISON (UINT64_C(1) << 14)
#define FEATURE_MOVE   (UINT64_C(1) << 16)
#define MAX_WORKERS    64u

/* Of Linux 6.6. */
struct poison {
    struct uffdio_range range;
    uint64_t mode;
    int64_t updated;
};
#define UFFDIO_POISON_ _IOWR(UFFDIO, 0x08, struct poison)

/* Of Linux 6.8. */
struct move {
    uint64_t to, from, bytes, mode;
    int64_t moved;
};
#define MOVE_DONTWAKE UINT64_C(1)
#define UFFDIO_MOVE_  _IOWR(UFFDIO, 0x05, struct move)

struct storwin__pager {
    struct storwin_window *win;
    uint8_t *base;
    uint64_t block_bytes, n_blocks, block_pages;
    uint64_t max, keep_free; /* blocks */
    int uffd, stop_fd;
    uint32_t user_faults_only, can_poison, can_move;
    uint8_t *stash; /* where blocks are moved to: of the sync, then of each evictor; NULL: they
                       cannot be moved */
    size_t sync_stash, evictor_stash, all_stash; /* bytes */
    uint8_t *bounces; /* where blocks are read to: of each handler; NULL where nothing is read */
    size_t bounce, all_bounces; /* bytes of one, of all */
    atomic_uint n_evictors, n_handlers;
    pthread_t workers[MAX_WORKERS];
    unsigned n_workers;
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t room, pressure,
        idle;       /* a block was evicted; room is short; some block is BUSY or PINNED no more */
    uint8_t *state; /* n_blocks */
    uint32_t *ring; /* present blocks, oldest first */
    uint64_t ring_cap, ring_head, ring_len;
    uint64_t resident;   /* blocks present or being filled */
    int stopping, stuck; /* stuck: evictions fail, so the bound gives way */
    uint64_t fruitless;  /* blocks that could not be evicted since the last that could */
    struct storwin__failure fail;
    uint64_t evicted_lo, evicted_hi; /* span of pages that were written by evictions and not flushed
                                        since; hi 0: none */
    uint64_t expect[STREAMS], ahead[STREAMS];
    unsigned stream;
    atomic_uint_least64_t n_faults, read_bytes, resident_bytes, n_pinned;
};

static uint64_t block_addr(const struct storwin__pager *p, uint64_t block)
{
    return (uint64_t)(uintptr_t)p->base + block * p->block_bytes;
}

/* Bytes of n blocks, whole pages; the last block may be short. */
static uint64_t blocks_bytes(const struct storwin__pager *p, uint64_t block, uint64_t n)
{
    uint64_t all = storwin__pages(p->win) * p->win->page_bytes, at = block * p->block_bytes;

    return storwin__min(n * p->block_bytes, all - at);
}

static struct uffdio_range range_of(const struct storwin__pager *p, uint64_t block, uint64_t n)
{
    struct uffdio_range range = {block_addr(p, block), blocks_bytes(p, block, n)};

    return range;
}

static void wake(const struct storwin__pager *p, uint64_t block, uint64_t n)
{
    struct uffdio_range range = range_of(p, block, n);

    (void)ioctl(p->uffd, UFFDIO_WAKE, &range);
}

/* Protects blocks, or takes the protection away and wakes those who wait to store. */
static int protect(const struct storwin__pager *p, uint64_t block, uint64_t n, int on)
{
    struct uffdio_writeprotect wp = {.range = range_of(p, block, n),
                                     .mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0};

    while (ioctl(p->uffd, UFFDIO_WRITEPROTECT, &wp) < 0) {
        if (errno != EAGAIN)
            return -errno;
        sched_yield();
    }
    return 0;
}

static void set_resident(struct storwin__pager *p, uint64_t blocks)
{
    p->resident = blocks;
    atomic_store_explicit(&p->resident_bytes, blocks * p->block_bytes, memory_order_relaxed);
}

/* The ring has room for every present block, also beyond the bound: it grows then, or the block is
 * never evicted. */
static void ring_push(struct storwin__pager *p, uint64_t block)
{
    if (p->ring_len == p->ring_cap) {
        uint32_t *grown =
            storwin__realloc(p->win->opts.allocator, NULL, p->ring_cap * 2 * sizeof(*grown));

        if (!grown)
            return;
        for (uint64_t i = 0; i < p->ring_len; i++)
            grown[i] = p->ring[(p->ring_head + i) % p->ring_cap];
        storwin__free(p->win->opts.allocator, p->ring);
        p->ring = grown;
        p->ring_head = 0;
        p->ring_cap *= 2;
    }
    p->ring[(p->ring_head + p->ring_len++) % p->ring_cap] = (uint32_t)block;
}

static uint64_t ring_pop(struct storwin__pager *p)
{
    uint64_t block = p->ring[p->ring_head];

    p->ring_head = (p->ring_head + 1) % p->ring_cap;
    p->ring_len--;
    return block;
}

/* ---- filling */

/* How many blocks to read for a fault: more where faults follow each other. *stream says who asked.
 * */
static uint64_t read_ahead(struct storwin__pager *p, uint64_t block, unsigned *stream)
{
    const uint64_t most = storwin__min(AHEAD_BYTES / p->block_bytes, p->max / 4);
    const uint32_t style = p->win->opts.access_style;

    *stream = STREAMS;
    if ((style & STORWIN_ACCESS_RANDOM) || most <= 1)
        return 1;
    if (style & (STORWIN_ACCESS_SEQUENTIAL | STORWIN_ACCESS_REVERSE))
        return most;
    for (*stream = 0; *stream < STREAMS; (*stream)++) {
        if (p->expect[*stream] == block) {
            p->ahead[*stream] = storwin__min(p->ahead[*stream] * 2, most);
            return p->ahead[*stream];
        }
    }
    *stream = p->stream = (p->stream + 1) % STREAMS;
    p->ahead[*stream] = 1;
    return 1;
}

/* Takes `block` and free neighbours for this thread; *first and the result say which. */
static uint64_t claim(struct storwin__pager *p, uint64_t block, uint64_t *first)
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
    if (stream < STREAMS)
        p->expect[stream] = block + n;
    set_resident(p, p->resident + n);
    if (p->resident + p->keep_free > p->max)
        pthread_cond_signal(&p->pressure);
    return n;
}

static int read_blocks(struct storwin__pager *p, uint8_t *to, uint64_t block, uint64_t n)
{
    const struct storwin__file *f = &p->win->files[0];
    const uint64_t at = block * p->block_bytes;
    const uint64_t want = storwin__min(blocks_bytes(p, block, n), p->win->stor_bytes - at);
    uint64_t done = 0;
    int fd = f->direct_fd >= 0 ? f->direct_fd : f->fd;

    while (done < want) {
        /* Direct reads want whole sectors; at the end of the file they come back short. */
        uint64_t ask =
            fd == f->fd ? want - done : storwin__round_up(want - done, p->win->page_bytes);
        ssize_t got =
            pread(fd, to + done, (size_t)ask, (off_t)(p->win->opts.offset_bytes + at + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && fd != f->fd) {
            fd = f->fd;
            continue;
        }
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        done += (uint64_t)got;
        if (fd != f->fd && done % p->win->page_bytes != 0 && done < want)
            fd = f->fd;
    }
    done = storwin__min(done, want);
    memset(to + done, 0, (size_t)(blocks_bytes(p, block, n) - done));
    atomic_fetch_add_explicit(&p->read_bytes, done, memory_order_relaxed);
    return 0;
}

/* When there is no memory it waits for some, as a fault in the kernel does. */
static void copy_bytes(const struct storwin__pager *p, const uint8_t *from, uint64_t to,
                       uint64_t bytes, int protected)
{
    struct uffdio_copy copy = {.dst = to, .src = (uint64_t)(uintptr_t)from, .len = bytes};

    while (copy.len > 0) {
        uint64_t done;

        copy.mode = UFFDIO_COPY_MODE_DONTWAKE | (protected ? UFFDIO_COPY_MODE_WP : 0);
        copy.copy = 0;
        if (ioctl(p->uffd, UFFDIO_COPY, &copy) == 0)
            return;
        done = copy.copy > 0 ? (uint64_t)copy.copy : errno == EEXIST ? p->win->page_bytes : 0;
        copy.dst += done;
        copy.src += done;
        copy.len -= done;
        if (done == 0)
            usleep(errno == EAGAIN ? 10 : 1000);
    }
}

static void copy_in(const struct storwin__pager *p, const uint8_t *from, uint64_t block, uint64_t n,
                    int protected)
{
    copy_bytes(p, from, block_addr(p, block), blocks_bytes(p, block, n), protected);
}

/* An unreadable block gives SIGBUS, as it would in a mapping. */
static void poison(struct storwin__pager *p, uint64_t block)
{
    struct poison what = {.range = range_of(p, block, 1), .mode = 0};

    if (!p->can_poison || ioctl(p->uffd, UFFDIO_POISON_, &what) < 0)
        (void)mprotect((void *)(uintptr_t)what.range.start, (size_t)what.range.len, PROT_NONE);
}

/* Blocks [first, first + n), of which `stored` is about to be stored into, if it is among them. */
static void copy_all(const struct storwin__pager *p, const uint8_t *from, uint64_t first,
                     uint64_t n, uint64_t stored)
{
    const uint64_t before = stored - first;

    if (stored < first || stored >= first + n) {
        copy_in(p, from, first, n, 1);
        return;
    }
    if (before > 0)
        copy_in(p, from, first, before, 1);
    copy_in(p, from + before * p->block_bytes, stored, 1, 0);
    if (before + 1 < n)
        copy_in(p, from + (before + 1) * p->block_bytes, stored + 1, n - before - 1, 1);
}

/* The lock is held, and is again at the end. */
static void fill(struct storwin__pager *p, uint64_t block, int store, uint8_t *bounce)
{
    uint64_t first, n = claim(p, block, &first), good = first, n_good = n;
    int rc;

    pthread_mutex_unlock(&p->lock);
    rc = read_blocks(p, bounce, first, n);
    if (rc < 0 && n > 1) { /* perhaps only what was read ahead is bad */
        good = block;
        n_good = 1;
        rc = read_blocks(p, bounce, block, 1);
    }
    if (rc == 0) {
        copy_all(p, bounce, good, n_good, store ? block : UINT64_MAX);
    } else {
        n_good = 0;
        poison(p, block);
    }
    pthread_mutex_lock(&p->lock);
    for (uint64_t i = first; i < first + n; i++) {
        p->state[i] = 0;
        if (i >= good && i < good + n_good) {
            p->state[i] = PRESENT | (store && i == block ? DIRTY : 0);
            ring_push(p, i);
        }
    }
    if (rc < 0)
        p->state[block] = POISONED;
    set_resident(p, p->resident - (n - n_good));
    pthread_cond_broadcast(&p->idle);
    if (n_good < n)
        pthread_cond_broadcast(&p->room);
    wake(p, first, n);
}

static void fault(struct storwin__pager *p, const struct uffd_msg *msg, uint8_t *bounce)
{
    const uint64_t flags = msg->arg.pagefault.flags;
    const uint64_t block =
        (msg->arg.pagefault.address - (uint64_t)(uintptr_t)p->base) / p->block_bytes;
    unsigned state;

    if (block >= p->n_blocks)
        return;
    atomic_fetch_add_explicit(&p->n_faults, 1, memory_order_relaxed);
    pthread_mutex_lock(&p->lock);
    state = p->state[block];
    if (state & BUSY) {
        /* Whoever is busy with it wakes the thread. */
    } else if (state & PRESENT) {
        if (flags & UFFD_PAGEFAULT_FLAG_WP) {
            p->state[block] |= DIRTY;
            if (protect(p, block, 1, 0) < 0)
                wake(p, block, 1); /* to try again */
        } else {
            wake(p, block, 1);
        }
    } else if (state & POISONED) {
        wake(p, block, 1);
    } else {
        fill(p, block, (flags & UFFD_PAGEFAULT_FLAG_WRITE) != 0, bounce);
    }
    pthread_mutex_unlock(&p->lock);
}

static void *handler_main(void *arg)
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
            fault(p, &msg, bounce);
    }
    return NULL;
}

/* ---- moving */

/* Moves pages, as far as none is pinned. Returns how many bytes have moved. */
static uint64_t move(const struct storwin__pager *p, uint64_t to, uint64_t from, uint64_t bytes)
{
    uint64_t done = 0;

    while (done < bytes) {
        struct move what = {to + done, from + done, bytes - done, MOVE_DONTWAKE, 0};

        if (ioctl(p->uffd, UFFDIO_MOVE_, &what) == 0)
            return bytes;
        if (what.moved > 0)
            done += (uint64_t)what.moved;
        else if (errno == EAGAIN)
            sched_yield();
        else
            break;
    }
    return done;
}

/* What was moved to the stash comes back; if need be as a copy. */
static void put_back(const struct storwin__pager *p, uint64_t to, uint8_t *stash, uint64_t bytes)
{
    const uint64_t done = move(p, to, (uint64_t)(uintptr_t)stash, bytes);

    if (done == bytes)
        return;
    copy_bytes(p, stash + done, to + done, bytes - done, 0);
    (void)madvise(stash + done, (size_t)(bytes - done), MADV_DONTNEED);
}

/* Addresses that blocks can be moved to. */
static void open_stash(struct storwin__pager *p, unsigned evictors)
{
    struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_WP | UFFDIO_REGISTER_MODE_MISSING};
    uint8_t *stash;

    if (!p->can_move)
        return;
    p->sync_stash = (size_t)storwin__round_up(STASH_BYTES, p->block_bytes);
    p->evictor_stash = (size_t)(storwin__min(BATCH, p->keep_free) * p->block_bytes);
    p->all_stash = p->sync_stash + evictors * p->evictor_stash;
    stash = mmap(NULL, p->all_stash, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stash == MAP_FAILED)
        return;
    (void)madvise(stash, p->all_stash, MADV_NOHUGEPAGE);
    (void)madvise(stash, p->all_stash, MADV_DONTFORK);
    reg.range.start = (uint64_t)(uintptr_t)stash;
    reg.range.len = p->all_stash;
    if (ioctl(p->uffd, UFFDIO_REGISTER, &reg) == 0)
        p->stash = stash;
    else
        munmap(stash, p->all_stash);
}

/* ---- evicting */

struct victim {
    uint64_t block;
    unsigned dirty, failed; /* failed: stays, and counts as dirty */
};

/* Neighbouring victims go to the stash, each to its place there. A pinned one stays where it is. */
static void move_away(struct storwin__pager *p, uint8_t *stash, struct victim *victims, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const uint64_t from = block_addr(p, victims[i].block),
                       bytes = blocks_bytes(p, victims[i].block, n - i);
        const uint64_t done =
            move(p, (uint64_t)(uintptr_t)(stash + i * p->block_bytes), from, bytes);

        if (done == bytes)
            return;
        i += (unsigned)(done / p->block_bytes);
        if (done % p->block_bytes > 0)
            put_back(p, block_addr(p, victims[i].block), stash + i * p->block_bytes,
                     done % p->block_bytes);
        victims[i].failed = 1;
        atomic_fetch_add_explicit(&p->n_pinned, 1, memory_order_relaxed);
    }
}

static int by_block(const void *a, const void *b)
{
    const struct victim *x = a, *y = b;

    return (x->block > y->block) - (x->block < y->block);
}

static unsigned choose(struct storwin__pager *p, struct victim *victims)
{
    const uint64_t most = storwin__min(BATCH, p->keep_free);
    unsigned n = 0;

    for (uint64_t tries = p->ring_len; tries > 0 && n < most; tries--) {
        uint64_t block = ring_pop(p);

        if (!(p->state[block] & PRESENT))
            continue;
        if (p->state[block] & (BUSY | PINNED)) {
            ring_push(p, block);
            continue;
        }
        victims[n].block = block;
        victims[n].dirty = (p->state[block] & DIRTY) != 0;
        victims[n].failed = 0;
        p->state[block] |= BUSY;
        n++;
    }
    return n;
}

/* How many victims from i on are neighbours; with `alike` those of the same kind. */
static unsigned run_length(const struct victim *victims, unsigned i, unsigned n, int alike)
{
    unsigned len = 1;

    while (i + len < n && victims[i + len].block == victims[i].block + len &&
           (!alike || (victims[i + len].dirty == victims[i].dirty &&
                       victims[i + len].failed == victims[i].failed)))
        len++;
    return len;
}

/* Neighbours of the same kind, which are in their place or, if it is not NULL, in the stash. */
static void evict_run(struct storwin__pager *p, uint8_t *stash, struct victim *victims, unsigned n,
                      struct storwin__failure *fail)
{
    const uint64_t block = victims->block, bytes = blocks_bytes(p, block, n);
    uint8_t *at = stash ? stash : p->base + block * p->block_bytes;
    int rc = 0;

    if (victims->dirty && !stash)
        rc = protect(p, block, n, 1);
    if (victims->dirty && rc == 0)
        rc = storwin__write_through(p->win, at, block * p->block_pages, bytes / p->win->page_bytes,
                                    fail);
    if (rc == 0)
        rc = madvise(at, (size_t)bytes, MADV_DONTNEED);
    if (rc < 0 && stash)
        put_back(p, block_addr(p, block), stash, bytes);
    for (unsigned k = 0; rc < 0 && k < n; k++)
        victims[k].failed = 1;
}

static void evict(struct storwin__pager *p, uint8_t *stash, struct victim *victims, unsigned n,
                  struct storwin__failure *fail)
{
    qsort(victims, n, sizeof(*victims), by_block);
    for (unsigned i = 0, len; stash && i < n; i += len) {
        len = run_length(victims, i, n, 0);
        move_away(p, stash + i * p->block_bytes, &victims[i], len);
    }
    for (unsigned i = 0, len; i < n; i += len) {
        len = run_length(victims, i, n, 1);
        if (!victims[i].failed)
            evict_run(p, stash ? stash + i * p->block_bytes : NULL, &victims[i], len, fail);
    }
}

static void note_evicted(struct storwin__pager *p, uint64_t block)
{
    const uint64_t lo = block * p->block_pages,
                   hi = storwin__min(lo + p->block_pages, storwin__pages(p->win));

    p->evicted_lo = p->evicted_hi == 0 ? lo : storwin__min(lo, p->evicted_lo);
    p->evicted_hi = hi > p->evicted_hi ? hi : p->evicted_hi;
}

static void retire(struct storwin__pager *p, const struct victim *victims, unsigned n,
                   int failed_write)
{
    unsigned gone = 0;

    for (unsigned i = 0; i < n; i++) {
        if (victims[i].failed) {
            p->state[victims[i].block] = PRESENT | DIRTY;
            ring_push(p, victims[i].block);
        } else {
            p->state[victims[i].block] = 0;
            gone++;
            if (victims[i].dirty)
                note_evicted(p, victims[i].block);
        }
    }
    set_resident(p, p->resident - gone);
    p->fruitless = gone > 0 ? 0 : p->fruitless + n;
    p->stuck = gone == 0 && (failed_write || p->fruitless >= p->ring_len);
    pthread_cond_broadcast(&p->idle);
    pthread_cond_broadcast(&p->room);
    for (unsigned i = 0; i < n; i++)
        wake(p, victims[i].block, 1);
}

static void wait_a_while(struct storwin__pager *p)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20 * 1000 * 1000;
    if (until.tv_nsec >= 1000 * 1000 * 1000) {
        until.tv_nsec -= 1000 * 1000 * 1000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&p->idle, &p->lock, &until);
}

static void *evictor_main(void *arg)
{
    struct storwin__pager *p = arg;
    struct victim victims[BATCH];
    const unsigned me = atomic_fetch_add(&p->n_evictors, 1);
    uint8_t *stash = p->stash ? p->stash + p->sync_stash + me * p->evictor_stash : NULL;

    pthread_mutex_lock(&p->lock);
    while (!p->stopping) {
        struct storwin__failure fail = {0, 0, 0};
        unsigned n;

        if (p->resident + p->keep_free <= p->max) {
            pthread_cond_wait(&p->pressure, &p->lock);
            continue;
        }
        n = choose(p, victims);
        if (n == 0) { /* all are pinned or busy */
            wait_a_while(p);
            continue;
        }
        pthread_mutex_unlock(&p->lock);
        evict(p, stash, victims, n, &fail);
        pthread_mutex_lock(&p->lock);
        retire(p, victims, n, fail.code < 0);
        if (fail.code < 0)
            storwin__failure_add(&p->fail, fail.code, fail.lo, fail.hi);
        if (fail.code < 0 || p->stuck)
            wait_a_while(p);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- sync */

/* Pages that one slice of a sync covers: whole blocks, at most a quarter of the bound. */
uint64_t storwin__pager_slice(const struct storwin_window *win)
{
    const struct storwin__pager *p = win->pager;
    uint64_t blocks = p->max / 4;

    return (blocks ? blocks : 1) * p->block_pages;
}

/*
 * Blocks that a sync is about to write: stores count anew from here on. Protection alone would not
 * do where pages are pinned: what pins them does not fault. So they are moved to the stash, which
 * the kernel refuses for these, and come back as protected copies; a block that stays stays dirty,
 * and is written now and again by the next sync.
 */
static void copy_taken(struct storwin__pager *p, uint64_t block, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t at = block_addr(p, block + i), bytes = blocks_bytes(p, block + i, n - i);
        const uint64_t done = move(p, (uint64_t)(uintptr_t)p->stash, at, bytes);
        const uint64_t whole = done == bytes ? bytes : done / p->block_bytes * p->block_bytes;

        if (whole > 0) {
            copy_bytes(p, p->stash, at, whole, 1);
            (void)madvise(p->stash, (size_t)whole, MADV_DONTNEED);
        }
        if (done == bytes)
            return;
        if (done > whole)
            put_back(p, at + whole, p->stash + whole, done - whole);
        i += whole / p->block_bytes;
        p->state[block + i] |= DIRTY;
    }
}

/* What cannot be protected stays dirty too. */
static void protect_taken(struct storwin__pager *p, uint64_t block, uint64_t n)
{
    if (p->stash)
        copy_taken(p, block, n);
    else if (protect(p, block, n, 1) < 0)
        for (uint64_t i = block; i < block + n; i++)
            p->state[i] |= DIRTY;
}

/*
 * Sets the bits of the pages in dirty blocks of [first, end), and of no others. With `pin` these
 * blocks count as clean from now on and stay present until storwin__pager_release().
 */
void storwin__pager_take(struct storwin_window *win, uint64_t first, uint64_t end, int pin)
{
    struct storwin__pager *p = win->pager;
    const uint64_t stop = storwin__round_up(end, p->block_pages) / p->block_pages;
    const uint64_t pages = storwin__pages(win),
                   most = p->stash ? p->sync_stash / p->block_bytes : UINT64_MAX;
    uint64_t run = 0; /* blocks before b that wait for their protection */

    pthread_mutex_lock(&p->lock);
    for (uint64_t b = first / p->block_pages; b < stop; b++) {
        uint64_t page = b * p->block_pages, page_end = storwin__min(page + p->block_pages, pages);
        int dirty = (p->state[b] & (DIRTY | BUSY)) == DIRTY;

        if (run > 0 &&
            (!dirty ||
             run ==
                 most)) { /* before the lock is let go, since stores into these no longer count */
            protect_taken(p, b - run, run);
            run = 0;
            if (p->stash) { /* faults have waited */
                pthread_mutex_unlock(&p->lock);
                pthread_mutex_lock(&p->lock);
            }
        }
        while ((p->state[b] & BUSY) && !p->stopping)
            pthread_cond_wait(&p->idle, &p->lock);
        storwin__bits_clear(win, page, page_end);
        if (!(p->state[b] & DIRTY))
            continue;
        storwin__bits_set(win, page, page_end);
        if (pin) {
            p->state[b] = (uint8_t)((p->state[b] & ~DIRTY) | PINNED);
            run++;
        }
    }
    if (run > 0)
        protect_taken(p, stop - run, run);
    pthread_mutex_unlock(&p->lock);
}

/* The pages whose bits are still set were not written: their blocks are dirty again. */
void storwin__pager_release(struct storwin_window *win, uint64_t first, uint64_t end)
{
    struct storwin__pager *p = win->pager;
    const uint64_t stop = storwin__round_up(end, p->block_pages) / p->block_pages;
    const uint64_t pages = storwin__pages(win);

    pthread_mutex_lock(&p->lock);
    for (uint64_t b = first / p->block_pages; b < stop; b++) {
        uint64_t page = b * p->block_pages, page_end = storwin__min(page + p->block_pages, pages);

        if (!(p->state[b] & PINNED))
            continue;
        p->state[b] &= (uint8_t)~PINNED;
        if (storwin__bits_next(win, page, page_end, 1) < page_end)
            p->state[b] |= DIRTY;
        storwin__bits_clear(win, page, page_end);
    }
    pthread_cond_broadcast(&p->idle);
    pthread_mutex_unlock(&p->lock);
}

/* The span of pages that evictions wrote since the last call, and that are still to be flushed; 0:
 * there are none. */
int storwin__pager_evicted(struct storwin_window *win, uint64_t *first, uint64_t *end)
{
    struct storwin__pager *p = win->pager;

    pthread_mutex_lock(&p->lock);
    *first = p->evicted_lo;
    *end = p->evicted_hi;
    p->evicted_hi = 0;
    pthread_mutex_unlock(&p->lock);
    return *end > 0;
}

/* What evictions could not write since the last sync. */
void storwin__pager_failure(struct storwin_window *win, struct storwin__failure *fail)
{
    struct storwin__pager *p = win->pager;

    pthread_mutex_lock(&p->lock);
    if (p->fail.code < 0)
        storwin__failure_add(fail, p->fail.code, p->fail.lo, p->fail.hi);
    memset(&p->fail, 0, sizeof(p->fail));
    pthread_mutex_unlock(&p->lock);
}

void storwin__pager_query(const struct storwin_window *win, struct storwin_info *info)
{
    const struct storwin__pager *p = win->pager;

    if (!p)
        return;
    info->user_faults_only = p->user_faults_only;
    info->keeps_pinned = p->stash != NULL;
    info->budget_bytes = p->max * p->block_bytes;
}

void storwin__pager_stats(const struct storwin_window *win, struct storwin_stats *stats)
{
    const struct storwin__pager *p = win->pager;

    if (!p)
        return;
    stats->n_pinned = atomic_load_explicit(&p->n_pinned, memory_order_relaxed);
    stats->resident_bytes = atomic_load_explicit(&p->resident_bytes, memory_order_relaxed);
    stats->n_faults = atomic_load_explicit(&p->n_faults, memory_order_relaxed);
    stats->read_bytes = atomic_load_explicit(&p->read_bytes, memory_order_relaxed);
}

/* ---- opening and closing */

int storwin__userfaultfd(uint32_t *user_faults_only)
{
    int fd, device;

    *user_faults_only = 0;
    if (atomic_load_explicit(&storwin__without, memory_order_relaxed) & STORWIN__NO_UFFD) {
        errno = EPERM;
        return -1;
    }
    fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        return fd;
#ifdef USERFAULTFD_IOC_NEW
    device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
    if (device >= 0) {
        fd = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
        close(device);
        if (fd >= 0)
            return fd;
    }
#else
    (void)device;
#endif
    *user_faults_only = 1;
    return (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
}

/* A descriptor with the features that are there: these can be asked for once for each. */
static int open_features(uint32_t *user_faults_only, uint32_t *can_poison, uint32_t *can_move)
{
    struct uffdio_api api = {.api = UFFD_API};
    int fd = storwin__userfaultfd(user_faults_only);
    uint64_t have;

    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0)
        goto fail;
    have = api.features;
    close(fd);
    fd = storwin__userfaultfd(user_faults_only);
    api = (struct uffdio_api){
        .api = UFFD_API,
        .features = have & (UFFD_FEATURE_PAGEFAULT_FLAG_WP | FEATURE_POISON | FEATURE_MOVE)};
    if (fd < 0 || !(have & UFFD_FEATURE_PAGEFAULT_FLAG_WP) || ioctl(fd, UFFDIO_API, &api) < 0)
        goto fail;
    *can_poison = (have & FEATURE_POISON) != 0;
    *can_move = (have & FEATURE_MOVE) &&
                !(atomic_load_explicit(&storwin__without, memory_order_relaxed) & STORWIN__NO_MOVE);
    return fd;
fail:
    if (fd >= 0)
        close(fd);
    return -1;
}

static void choose_sizes(struct storwin__pager *p, int resident)
{
    const struct storwin_window *win = p->win;
    const uint64_t page = win->page_bytes, all = storwin__pages(win) * page;
    uint64_t budget = win->opts.budget_bytes, block = 65536;

    if (budget == 0)
        budget = storwin__memory_available(NULL) / 4;
    if (budget < STORWIN_MIN_BUDGET)
        budget = STORWIN_MIN_BUDGET;
    if (resident || (win->opts.access_style & STORWIN_ACCESS_RANDOM))
        block = page;
    else if (win->opts.access_style & (STORWIN_ACCESS_SEQUENTIAL | STORWIN_ACCESS_REVERSE))
        block = 262144;
    while (!resident && block > page && block > budget / 16)
        block /= 2;
    if (block < page)
        block = page;
    while (all / block > MAX_BLOCKS)
        block *= 2;
    p->block_bytes = block;
    p->block_pages = block / page;
    p->n_blocks = storwin__round_up(all, block) / block;
    p->max = resident ? p->n_blocks : budget / block;
    p->keep_free = storwin__min(p->max / 16 + 1, (UINT64_C(8) << 20) / block + 1);
}

static int start_workers(struct storwin__pager *p, int resident)
{
    const unsigned half = (storwin__threads(p->win) + 1) / 2;
    const unsigned handlers = resident ? 1 : half, evictors = resident ? 0 : half;

    if (!resident) {
        open_stash(p, evictors);
        p->bounce = (size_t)storwin__round_up(
            AHEAD_BYTES > p->block_bytes ? AHEAD_BYTES : p->block_bytes, 4096);
        p->all_bounces = handlers * p->bounce;
        p->bounces =
            mmap(NULL, p->all_bounces, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p->bounces == MAP_FAILED) {
            p->bounces = NULL;
            return -errno;
        }
    }
    for (unsigned i = 0; i < handlers + evictors; i++) {
        int rc = storwin__thread(&p->workers[i], i < handlers ? handler_main : evictor_main, p);

        if (rc < 0)
            return rc;
        p->n_workers++;
    }
    return 0;
}

/* Every page must be there before protection means anything. */
static int protect_all(struct storwin__pager *p)
{
    const struct storwin_window *win = p->win;
    const uint64_t pages = storwin__pages(win);

    for (uint64_t i = 0; i < pages; i++)
        storwin__store_same(p->base + i * win->page_bytes);
    pthread_mutex_lock(&p->lock);
    memset(p->state, PRESENT, (size_t)p->n_blocks);
    set_resident(p, p->n_blocks);
    pthread_mutex_unlock(&p->lock);
    return protect(p, 0, p->n_blocks, 1);
}

static int open_pager(struct storwin__pager *p, int resident, struct storwin_error *err)
{
    struct storwin_window *win = p->win;
    struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_WP |
                                          (resident ? 0 : UFFDIO_REGISTER_MODE_MISSING)};
    int rc;

    p->uffd = open_features(&p->user_faults_only, &p->can_poison, &p->can_move);
    if (p->uffd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        return storwin__fail(err, -errno, "storage_alloc_pager", "userfaultfd: %s",
                             storwin_strerror(-errno));
    if (p->uffd < 0)
        return storwin__fail(err, STORWIN_EPAGER, "storage_alloc_pager",
                             "userfaultfd with write protection: %s; see "
                             "vm.unprivileged_userfaultfd and /dev/userfaultfd",
                             storwin_strerror(-errno));
    choose_sizes(p, resident);
    p->ring_cap =
        resident ? 1
                 : storwin__min(p->max, p->n_blocks) * 2; /* a bound may be far beyond the window */
    p->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (p->stop_fd < 0)
        return storwin__fail(err, -errno, "storage_alloc_pager", "eventfd: %s",
                             storwin_strerror(-errno));
    p->ring = storwin__realloc(win->opts.allocator, NULL, p->ring_cap * sizeof(*p->ring));
    p->state = storwin__calloc(win->opts.allocator, (size_t)p->n_blocks, 1);
    if (!p->ring || !p->state)
        return storwin__fail(err, -ENOMEM, "storage_alloc_pager", "out of memory");
    if (!resident) {
        (void)madvise(p->base, (size_t)blocks_bytes(p, 0, p->n_blocks), MADV_NOHUGEPAGE);
        (void)madvise(p->base, (size_t)blocks_bytes(p, 0, p->n_blocks), MADV_DONTFORK);
    }
    reg.range = range_of(p, 0, p->n_blocks);
    if (ioctl(p->uffd, UFFDIO_REGISTER, &reg) < 0)
        return storwin__fail(err, STORWIN_EPAGER, "storage_alloc_pager", "userfaultfd: %s",
                             storwin_strerror(-errno));
    rc = start_workers(p, resident);
    if (rc < 0)
        return storwin__fail(err, rc, "storage_alloc_pager", "threads and their memory: %s",
                             storwin_strerror(rc));
    if (resident && (rc = protect_all(p)) < 0)
        return storwin__fail(err, STORWIN_EPAGER, "storage_alloc_pager", "userfaultfd: %s",
                             storwin_strerror(rc));
    win->track = STORWIN_TRACK_FAULTS;
    return 0;
}

/* Pages the storage span, or with `resident` only tracks the stores into it. */
int storwin__pager_open(struct storwin_window *win, int resident, struct storwin_error *err)
{
    struct storwin__pager *p = storwin__calloc(win->opts.allocator, 1, sizeof(*p));
    int rc;

    if (!p)
        return storwin__fail(err, -ENOMEM, "storage_alloc_pager", "out of memory");
    p->win = win;
    p->base = win->map + win->stor_offset;
    p->uffd = p->stop_fd = -1;
    for (unsigned i = 0; i < STREAMS; i++)
        p->expect[i] = UINT64_MAX;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->room, NULL);
    pthread_cond_init(&p->pressure, NULL);
    pthread_cond_init(&p->idle, NULL);
    win->pager = p;
    rc = open_pager(p, resident, err);
    if (rc < 0)
        storwin__pager_close(win);
    return rc;
}

void storwin__pager_close(struct storwin_window *win)
{
    struct storwin__pager *p = win->pager;
    const uint64_t one = 1;

    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stopping = 1;
    pthread_cond_broadcast(&p->pressure);
    pthread_cond_broadcast(&p->room);
    pthread_cond_broadcast(&p->idle);
    pthread_mutex_unlock(&p->lock);
    if (p->stop_fd >= 0 && write(p->stop_fd, &one, sizeof(one)) < 0)
        return; /* cannot be: an eventfd takes its first write; leaking beats waiting for threads
                   that do not end */
    while (p->n_workers > 0)
        pthread_join(p->workers[--p->n_workers], NULL);
    if (p->stash)
        munmap(p->stash, p->all_stash);
    if (p->bounces)
        munmap(p->bounces, p->all_bounces);
    if (p->uffd >= 0)
        close(p->uffd);
    if (p->stop_fd >= 0)
        close(p->stop_fd);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->room);
    pthread_cond_destroy(&p->pressure);
    pthread_cond_destroy(&p->idle);
    storwin__free(win->opts.allocator, p->ring);
    storwin__free(win->opts.allocator, p->state);
    storwin__free(win->opts.allocator, p);
    win->pager = NULL;
}
