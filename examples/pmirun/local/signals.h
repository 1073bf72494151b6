/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals: from signalfd into the loop, and on to the ranks. */
#ifndef PMIRUN_SIGNALS_H
#define PMIRUN_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "loop.h"
#include "timer.h"

struct jobs;
struct output;

struct signals {
    struct jobs *jobs;     /* the ranks get most signals */
    struct output *output; /* written before SIGTSTP stops pmirun */
    struct source src;
    sigset_t orig_mask, handled;
    bool pipe_was_ignored, xfsz_was_ignored;
    int interrupted_by;      /* the first SIGINT or SIGTERM; 0: none yet */
    uint64_t interrupted_ns; /* when it had been handled */
    struct timer end;        /* until then the ranks have time to end by it */
};

int signals_init(struct signals *s);

#endif
