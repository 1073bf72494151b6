/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carries libpmix's upcalls from its thread to the loop. That thread touches no other data of ours.
 */
#ifndef QUEUE_H
#define QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Beyond these limits requests are refused: clients can ask faster than we answer. */
#define QUEUE_MAX   65536u
#define QUEUE_BYTES ((size_t)256 << 20)

/* The first member of what is queued. */
struct queued {
    struct queued *next;
    size_t bytes;
};

struct queue {
    int fd; /* an eventfd: readable when something is queued */
    pthread_mutex_t mutex;
    struct queued *first, **last;
    size_t n, bytes;
};

int queue_open(struct queue *q); /* 0 or -errno */
void queue_close(struct queue *q);
/* In any thread. False: full, and it stays the caller's. always: never full; for rare events that
 * must not be lost. */
bool queue_put(struct queue *q, struct queued *what, bool always);
struct queued *queue_take(struct queue *q); /* all that is queued, in order */

#endif
