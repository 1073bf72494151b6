/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many writes in flight from one thread: the necessary part of io_uring, by system calls. One
 * thread owns a ring.
 */
#include "internal.h"
#include "ring.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *map_ring(int fd, size_t bytes, uint64_t what)
{
    void *at =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, (off_t)what);

    return at == MAP_FAILED ? NULL : at;
}

/* Opens a ring. Returns 0, or -errno if io_uring is missing or not allowed. */
int storwin__ring_open(struct storwin__ring *r)
{
    struct io_uring_params p;
    size_t sq_bytes, cq_bytes;
    uint8_t *at;

    memset(r, 0, sizeof(*r));
    memset(&p, 0, sizeof(p));
    r->fd = -1;
    if (storwin__disabled(STORWIN__NO_RING))
        return -ENOSYS;
    r->fd = (int)syscall(SYS_io_uring_setup, STORWIN__RING_DEPTH, &p);
    if (r->fd < 0)
        return -errno;
    if (!(p.features & IORING_FEAT_SINGLE_MMAP) || p.sq_entries < STORWIN__RING_DEPTH) {
        storwin__ring_close(r);
        return -ENOSYS;
    }
    sq_bytes = p.sq_off.array + p.sq_entries * sizeof(uint32_t);
    cq_bytes = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
    r->rings_bytes = sq_bytes > cq_bytes ? sq_bytes : cq_bytes;
    r->sqes_bytes = p.sq_entries * sizeof(struct io_uring_sqe);
    r->rings = map_ring(r->fd, r->rings_bytes, IORING_OFF_SQ_RING);
    r->sqes = map_ring(r->fd, r->sqes_bytes, IORING_OFF_SQES);
    if (!r->rings || !r->sqes) {
        storwin__ring_close(r);
        return -ENOMEM;
    }
    at = r->rings;
    r->sq_head = (void *)(at + p.sq_off.head);
    r->sq_tail = (void *)(at + p.sq_off.tail);
    r->sq_array = (void *)(at + p.sq_off.array);
    r->sq_mask = p.sq_entries - 1;
    r->cq_head = (void *)(at + p.cq_off.head);
    r->cq_tail = (void *)(at + p.cq_off.tail);
    r->cqes = (void *)(at + p.cq_off.cqes);
    r->cq_mask = p.cq_entries - 1;
    return 0;
}

void storwin__ring_close(struct storwin__ring *r)
{
    if (r->rings)
        munmap(r->rings, r->rings_bytes);
    if (r->sqes)
        munmap(r->sqes, r->sqes_bytes);
    if (r->fd >= 0)
        close(r->fd);
    memset(r, 0, sizeof(*r));
    r->fd = -1;
}

/* Queues a write; the caller keeps fewer than STORWIN__RING_DEPTH in flight. */
void storwin__ring_write(struct storwin__ring *r, int fd, const void *from, uint32_t bytes,
                         uint64_t offset, uint64_t tag)
{
    const uint32_t tail = atomic_load_explicit(r->sq_tail, memory_order_relaxed),
                   i = tail & r->sq_mask;
    struct io_uring_sqe *sqe = (struct io_uring_sqe *)r->sqes + i;

    memset(sqe, 0, sizeof(*sqe));
    sqe->opcode = IORING_OP_WRITE;
    sqe->fd = fd;
    sqe->addr = (uint64_t)(uintptr_t)from;
    sqe->len = bytes;
    sqe->off = offset;
    sqe->user_data = tag;
    r->sq_array[i] = i;
    atomic_store_explicit(r->sq_tail, tail + 1, memory_order_release);
    r->under_way++;
}

/* Gets the next completed write, if any: its tag, and bytes or -errno. */
static int next_end(struct storwin__ring *r, uint64_t *tag, int *result)
{
    const uint32_t head = atomic_load_explicit(r->cq_head, memory_order_relaxed);
    const struct io_uring_cqe *cqe;

    if (head == atomic_load_explicit(r->cq_tail, memory_order_acquire))
        return 0;
    cqe = (const struct io_uring_cqe *)r->cqes + (head & r->cq_mask);
    *tag = cqe->user_data;
    *result = cqe->res;
    atomic_store_explicit(r->cq_head, head + 1, memory_order_release);
    r->under_way--;
    return 1;
}

/*
 * Submits the queued writes and waits for one to complete. If it must sleep, it sleeps until half
 * of the writes have completed, so that it wakes seldom. If the kernel refuses further writes,
 * those complete with -EAGAIN, and the caller writes them in another way; it waits for the accepted
 * ones.
 */
void storwin__ring_wait(struct storwin__ring *r, uint64_t *tag, int *result)
{
    for (;;) {
        uint32_t queued = atomic_load_explicit(r->sq_tail, memory_order_relaxed) -
                          atomic_load_explicit(r->sq_head, memory_order_acquire);

        if (queued == 0 && next_end(r, tag, result))
            return;
        if (!r->broken) {
            if (syscall(SYS_io_uring_enter, r->fd, queued, (r->under_way + 1) / 2,
                        IORING_ENTER_GETEVENTS, NULL, 0) < 0 &&
                errno != EINTR && errno != EAGAIN && errno != EBUSY)
                r->broken = 1;
        } else if (queued > 0) {
            const uint32_t tail = atomic_load_explicit(r->sq_tail, memory_order_relaxed) - 1;

            *tag = ((struct io_uring_sqe *)r->sqes)[r->sq_array[tail & r->sq_mask]].user_data;
            *result = -EAGAIN;
            atomic_store_explicit(r->sq_tail, tail, memory_order_release);
            r->under_way--;
            return;
        } else {
            usleep(1000);
        }
        if (next_end(r, tag, result))
            return;
    }
}
