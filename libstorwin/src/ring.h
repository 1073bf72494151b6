/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STORWIN_RING_H
#define STORWIN_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define STORWIN__RING_DEPTH 256u

struct storwin__ring {
    int fd, broken;
    uint32_t under_way; /* queued or submitted, and not completed */
    void *rings, *sqes, *cqes;
    size_t rings_bytes, sqes_bytes;
    _Atomic uint32_t *sq_head, *sq_tail, *cq_head, *cq_tail;
    uint32_t *sq_array;
    uint32_t sq_mask, cq_mask;
};

int storwin__ring_open(struct storwin__ring *r);
void storwin__ring_close(struct storwin__ring *r);
void storwin__ring_write(struct storwin__ring *r, int fd, const void *from, uint32_t bytes,
                         uint64_t offset, uint64_t tag);
void storwin__ring_wait(struct storwin__ring *r, uint64_t *tag, int *result);

#endif
