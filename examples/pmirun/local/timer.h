/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines: one sorted list, which the loop waits for. All-zero is a timer that is not set. */
#ifndef PMIRUN_TIMER_H
#define PMIRUN_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct timer {
    uint64_t at; /* ns, as loop.now_ns; stays after it has passed. 0: never set, or cancelled */
    void (*fire)(void *of); /* NULL: only wakes the loop, which checks timer_passed() */
    void *of;
    bool waits; /* it is in the list */
    struct timer *next;
};

/* Sets it again if it waits. at 0: cancels it. */
void timer_set(struct timer *t, uint64_t at);
/* The same, and calls fire(of) then. */
void timer_call(struct timer *t, uint64_t at, void (*fire)(void *of), void *of);
/* Sets it unless it waits for an earlier time. at 0: a no-op. */
void timer_sooner(struct timer *t, uint64_t at);
bool timer_passed(const struct timer *t);
/* Fires those that are due. */
void timers_run(void);
/* Until the next, for epoll_wait(); -1: none is set. */
int timers_wait_ms(void);

#endif
