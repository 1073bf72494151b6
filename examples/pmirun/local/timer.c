/* SPDX-License-Identifier: BSD-3-Clause */
#include "timer.h"

#include <limits.h>

#include "pmirun.h"

static void timer_remove(struct pmirun *pr, struct timer *t)
{
    struct timer **p = &pr->timers;

    while (*p != t)
        p = &(*p)->next;
    *p = t->next;
    t->waits = false;
}

void timer_set(struct pmirun *pr, struct timer *t, uint64_t at, void (*fire)(struct pmirun *pr))
{
    struct timer **p = &pr->timers;

    if (t->waits)
        timer_remove(pr, t);
    t->at = at;
    t->fire = fire;
    if (!at)
        return;
    while (*p && (*p)->at <= at)
        p = &(*p)->next;
    t->next = *p;
    t->waits = true;
    *p = t;
}

void timer_sooner(struct pmirun *pr, struct timer *t, uint64_t at, void (*fire)(struct pmirun *pr))
{
    if (at && (!t->waits || at < t->at))
        timer_set(pr, t, at, fire);
}

bool timer_passed(const struct pmirun *pr, const struct timer *t)
{
    return t->at && pr->now_ns >= t->at;
}

void timers_run(struct pmirun *pr)
{
    unsigned n = 0; /* a timer that sets itself for now has its turn in the next call */

    for (const struct timer *t = pr->timers; t && timer_passed(pr, t); t = t->next)
        n++;
    for (; n > 0 && pr->timers && timer_passed(pr, pr->timers); n--) {
        struct timer *t = pr->timers;

        timer_remove(pr, t);
        if (t->fire)
            t->fire(pr);
    }
}

int timers_wait_ms(const struct pmirun *pr)
{
    uint64_t ms;

    if (!pr->timers)
        return -1;
    if (timer_passed(pr, pr->timers))
        return 0;
    ms = (pr->timers->at - pr->now_ns + NS_PER_MS - 1) / NS_PER_MS;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}
