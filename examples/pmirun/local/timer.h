/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines: one sorted list, which the loop waits for. All-zero is a timer that is not set. */
#ifndef PMIRUN_TIMER_H
#define PMIRUN_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct pmirun;

struct timer {
    uint64_t at; /* ns, as pmirun.now_ns; stays after it has passed. 0: never set, or cancelled */
    void (*fire)(struct pmirun *pr); /* NULL: only wakes the loop, which checks timer_passed() */
    bool waits;                      /* it is in the list */
    struct timer *next;
};

/* Sets it again if it waits. at 0: cancels it. */
void timer_set(struct pmirun *pr, struct timer *t, uint64_t at, void (*fire)(struct pmirun *pr));
/* Sets it unless it waits for an earlier time. at 0: a no-op. */
void timer_sooner(struct pmirun *pr, struct timer *t, uint64_t at, void (*fire)(struct pmirun *pr));
bool timer_passed(const struct pmirun *pr, const struct timer *t);
/* Fires those that are due. */
void timers_run(struct pmirun *pr);
/* Until the next, for epoll_wait(); -1: none is set. */
int timers_wait_ms(const struct pmirun *pr);

#endif
