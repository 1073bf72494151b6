/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --progress: a line at the bottom of the terminal says how many ranks have been started, are
 * initialized and have finalized. Without a terminal at stderr it shows nothing.
 *
 * It never mixes with output: pmirun clears the line before it writes other bytes to the terminal,
 * and draws it again after a quarter of a second without output, if the cursor is at the start of
 * a line.
 */
#ifndef PMIRUN_PROGRESS_H
#define PMIRUN_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "timer.h"

struct output;
struct sink;

enum progress_step { PROGRESS_STARTED, PROGRESS_INITED, PROGRESS_FINALIZED, PROGRESS_STEPS };

struct progress {
    struct output *output; /* whose terminal it shares */
    bool on;
    bool with_stdout; /* that is a terminal too */
    bool mid_line;    /* the last byte written ended no line */
    struct timer draw;
    uint64_t n[PROGRESS_STEPS];
};

void progress_init(struct progress *p);
void progress_count(struct progress *p, enum progress_step step); /* one more rank */
/* Call them before and after bytes are written to this sink. False: the terminal takes none now. */
bool progress_hide(struct progress *p, const struct sink *sk);
void progress_wrote(struct progress *p, const struct sink *sk, const char *text, size_t n);
/* Clears the line: before bytes that bypass the sinks, and at the end. */
void progress_clear(void);

#endif
