/* SPDX-License-Identifier: BSD-3-Clause */
/* From libpmix's thread to the loop. */
#define _GNU_SOURCE
#include "queue.h"

#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* All that is queued, in order. */
static struct queued *take_all(struct queue *q)
{
    struct queued *first;

    pthread_mutex_lock(&q->mutex);
    first = q->first;
    q->first = NULL;
    q->last = &q->first;
    q->n = q->bytes = 0;
    pthread_mutex_unlock(&q->mutex);
    return first;
}

static void on_queued(struct pmirun *pr, struct source *src, uint32_t events)
{
    struct queue *q = (struct queue *)(void *)src;
    uint64_t n;

    if (read(src->fd, &n, sizeof(n)) < 0 && errno == EAGAIN)
        return;
    for (struct queued *what = take_all(q), *next; what; what = next) {
        next = what->next;
        q->take(pr, what);
    }
}

int queue_open(struct pmirun *pr, struct queue *q,
               void (*take)(struct pmirun *pr, struct queued *q))
{
    int err;

    *q = (struct queue){.take = take};
    q->last = &q->first;
    q->src = (struct source){on_queued, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (q->src.fd < 0)
        return -errno;
    pthread_mutex_init(&q->mutex, NULL);
    err = loop_add(pr, &q->src, EPOLLIN);
    if (err)
        close(q->src.fd);
    return err;
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
    while (fits && wake && write(q->src.fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    return fits;
}

void queue_close(struct pmirun *pr, struct queue *q, void (*free_one)(struct queued *q))
{
    loop_close(pr, &q->src);
    for (struct queued *what = take_all(q), *next; what; what = next) {
        next = what->next;
        free_one(what);
    }
    pthread_mutex_destroy(&q->mutex);
}
