/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carries libpmix's upcalls from its thread to the loop. That thread touches no other data of ours.
 */
#ifndef PMIRUN_QUEUE_H
#define PMIRUN_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "../local/loop.h"

/* Beyond these limits requests are refused: clients can ask faster than we answer. */
#define QUEUE_MAX   65536u
#define QUEUE_BYTES ((size_t)256 << 20)

/* The first member of what is queued. */
struct queued {
    struct queued *next;
    size_t bytes;
};

struct queue {
    struct source src; /* an eventfd */
    pthread_mutex_t mutex;
    struct queued *first, **last;
    size_t n, bytes;
    void (*take)(struct pmirun *pr, struct queued *q);
};

/* 0 or -errno. take: is called in the loop for each. */
int queue_open(struct pmirun *pr, struct queue *q,
               void (*take)(struct pmirun *pr, struct queued *q));
/* In any thread. False: full, and it stays the caller's. always: never full; for rare events that
 * must not be lost. */
bool queue_put(struct queue *q, struct queued *what, bool always);
/* Frees those that are left with free_one(). */
void queue_close(struct pmirun *pr, struct queue *q, void (*free_one)(struct queued *q));

#endif
