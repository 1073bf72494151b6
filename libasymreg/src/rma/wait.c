/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for progress. On a busy node sched_yield() gives a whole slice away each time, so that an
 * operation of microseconds takes milliseconds. A thread that sleeps on a descriptor runs as soon
 * as that is readable.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "context.h"

#include <poll.h>
#include <sched.h>

#define SPIN_NS  50000
#define SLEEP_MS 1 /* another thread may have consumed the event */

/* Whether the transport has the optional operation. */
static int has_arm(const struct asymreg_context *c)
{
    const struct asymreg_transport_ops *ops = c->t->ops;

    return ops->size > offsetof(struct asymreg_transport_ops, arm) && ops->arm;
}

void asymreg__wait(struct asymreg_context *c, struct asymreg__wait *wait, int moved)
{
    struct pollfd p = {.fd = -1, .events = POLLIN};
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
    if (!wait->since_ns)
        wait->since_ns = now;
    if (now - wait->since_ns < SPIN_NS)
        return;
    asymreg__t_lock(c);
    rc = c->t->ops->arm(c->t, &p.fd);
    asymreg__t_unlock(c);
    if (rc == 0)
        (void)poll(&p, 1, SLEEP_MS);
    else if (rc < 0)
        sched_yield();
}
