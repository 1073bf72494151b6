/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that outlive their rank. */
#ifndef PMIRUN_LEFTOVERS_H
#define PMIRUN_LEFTOVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "timer.h"

struct jobs;

struct leftovers {
    pid_t *inherited;    /* children of this process before main(): not pmirun's; then a 0 */
    uint32_t n_serving;  /* ranks that they have outlived and whose connection they use */
    uint32_t n_said;     /* lines about those that were ended */
    struct timer filter; /* until then they may end by themselves; not set: ranks still run */
    struct timer sweep;  /* when to look for leftovers again; not set: not looked yet */
    bool clean;          /* no process of ours is left */
};

/* Notes the children that are not pmirun's. Call it before any is started. */
void leftovers_note_inherited(struct leftovers *l);
/* Signals them, 0: none. True if there are any. */
bool leftovers_signal(struct jobs *jobs, int sig);
/* After the last rank: ends them. True when none is left. */
bool leftovers_end(struct jobs *jobs);

#endif
