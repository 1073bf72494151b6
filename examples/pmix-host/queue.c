/* SPDX-License-Identifier: BSD-3-Clause */
/* From libpmix's thread to the loop. */
#define _GNU_SOURCE
#include "queue.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int queue_open(struct queue *q)
{
    *q = (struct queue){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    q->last = &q->first;
    if (q->fd < 0)
        return -errno;
    return -pthread_mutex_init(&q->mutex, NULL);
}

void queue_close(struct queue *q)
{
    close(q->fd);
    pthread_mutex_destroy(&q->mutex);
}

bool queue_put(struct queue *q, struct queued *what, bool always)
{
    const uint64_t one = 1;
    bool fits, wake;

    what->next = NULL;
    pthread_mutex_lock(&q->mutex);
    fits = always || (q->n < QUEUE_MAX && (q->n == 0 || q->bytes + what->bytes <= QUEUE_BYTES));
    wake = q->n == 0;
    if (fits) {
        *q->last = what;
        q->last = &what->next;
        q->n++;
        q->bytes += what->bytes;
    }
    pthread_mutex_unlock(&q->mutex);
    while (fits && wake && write(q->fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    return fits;
}

struct queued *queue_take(struct queue *q)
{
    struct queued *first;
    uint64_t n;

    while (read(q->fd, &n, sizeof(n)) < 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&q->mutex);
    first = q->first;
    q->first = NULL;
    q->last = &q->first;
    q->n = q->bytes = 0;
    pthread_mutex_unlock(&q->mutex);
    return first;
}
