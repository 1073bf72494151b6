/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals: from signalfd into the loop, and on to the ranks. */
#ifndef PMIRUN_SIGNALS_H
#define PMIRUN_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "loop.h"

struct signals {
    struct source src;
    sigset_t orig_mask, handled;
    bool pipe_was_ignored, xfsz_was_ignored;
    uint32_t n_interrupts;
    int last;             /* forwarded last, 0: none */
    uint64_t patience_ns; /* until the ranks have had time to end by it, 0: none */
};

int signals_init(struct pmirun *pr);
/* At patience_ns, while ranks run: reports those that ignore SIGINT; ends those that ignore
 * SIGTERM. */
void signals_patience(struct pmirun *pr);

#endif
