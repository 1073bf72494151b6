/* SPDX-License-Identifier: BSD-3-Clause */
#include "timer.h"

#include <limits.h>
#include <stddef.h>

#include "loop.h"
#include "util.h"

static void timer_remove(struct timer *t)
{
    struct timer **p = &loop.timers;

    while (*p != t)
        p = &(*p)->next;
    *p = t->next;
    t->waits = false;
}

void timer_call(struct timer *t, uint64_t at, void (*fire)(void *of), void *of)
{
    struct timer **p = &loop.timers;

    if (t->waits)
        timer_remove(t);
    t->at = at;
    t->fire = fire;
    t->of = of;
    if (!at)
        return;
    while (*p && (*p)->at <= at)
        p = &(*p)->next;
    t->next = *p;
    t->waits = true;
    *p = t;
}

void timer_set(struct timer *t, uint64_t at)
{
    timer_call(t, at, NULL, NULL);
}

void timer_sooner(struct timer *t, uint64_t at)
{
    if (at && (!t->waits || at < t->at))
        timer_set(t, at);
}

bool timer_passed(const struct timer *t)
{
    return t->at && loop.now_ns >= t->at;
}

void timers_run(void)
{
    unsigned n = 0; /* a timer that sets itself for now has its turn in the next call */

    for (const struct timer *t = loop.timers; t && timer_passed(t); t = t->next)
        n++;
    for (; n > 0 && loop.timers && timer_passed(loop.timers); n--) {
        struct timer *t = loop.timers;

        timer_remove(t);
        if (t->fire)
            t->fire(t->of);
    }
}

int timers_wait_ms(void)
{
    uint64_t ms;

    if (!loop.timers)
        return -1;
    if (timer_passed(loop.timers))
        return 0;
    ms = (loop.timers->at - loop.now_ns + NS_PER_MS - 1) / NS_PER_MS;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}
