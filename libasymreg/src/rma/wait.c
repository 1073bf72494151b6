/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for progress. A wait polls for a while, and then sleeps on the transport's descriptor: a
 * thread that sleeps runs as soon as that is readable. Between polls it yields the processor, which
 * the peer may need to answer. But on a busy node a yield gives a whole slice away, and an
 * operation of microseconds takes milliseconds. So after such a yield the next waits do without.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "context.h"

#include <poll.h>
#include <sched.h>

#define POLL_NS       50000
#define FIRST_NS      3000   /* without yields: an answer through shared memory takes less */
#define LONG_YIELD_NS 500000 /* another thread had the processor */
#define WITHOUT       4095u  /* waits */
#define SLEEP_MS      1      /* another thread may have consumed the event */

/* Whether the transport has the optional operation. */
static int has_arm(const struct asymreg_context *c)
{
    const struct asymreg_transport_ops *ops = c->t->ops;

    return ops->size > offsetof(struct asymreg_transport_ops, arm) && ops->arm;
}

/* Yields, and remembers what that cost. */
static void wait_yield(struct asymreg_context *c, int64_t now)
{
    sched_yield();
    if (asymreg__now_ns() - now > LONG_YIELD_NS)
        atomic_store_explicit(&c->no_yields, WITHOUT, memory_order_relaxed);
}

void asymreg__wait(struct asymreg_context *c, struct asymreg__wait *wait, int moved)
{
    struct pollfd p = {.fd = -1, .events = POLLIN};
    uint32_t without;
    int64_t now;
    int rc;

    if (moved) {
        wait->since_ns = 0;
        return;
    }
    if (!has_arm(c)) {
        sched_yield();
        return;
    }
    now = asymreg__now_ns();
    if (!wait->since_ns) {
        wait->since_ns = now;
        without = atomic_load_explicit(&c->no_yields, memory_order_relaxed);
        wait->yields = without == 0;
        if (without > 0)
            atomic_store_explicit(&c->no_yields, without - 1, memory_order_relaxed);
    }
    if (now - wait->since_ns < POLL_NS) {
        if (wait->yields && now - wait->since_ns > FIRST_NS)
            wait_yield(c, now);
        return;
    }
    asymreg__t_lock(c);
    rc = c->t->ops->arm(c->t, &p.fd);
    asymreg__t_unlock(c);
    if (rc == 0)
        (void)poll(&p, 1, SLEEP_MS);
    else if (rc < 0)
        sched_yield();
}
