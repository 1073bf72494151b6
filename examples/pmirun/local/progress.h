/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --progress: a line at the bottom of the terminal says how many ranks have been started, are
 * initialized and have finalized. Without a terminal at stderr it shows nothing.
 *
 * It never mixes with what is printed: before other bytes go to the terminal the line is cleared,
 * and it is drawn again once nothing has come for a quarter of a second and the cursor stands at
 * the beginning of a line.
 */
#ifndef PMIRUN_PROGRESS_H
#define PMIRUN_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pmirun;
struct sink;

enum progress_step { PROGRESS_STARTED, PROGRESS_INITED, PROGRESS_FINALIZED, PROGRESS_STEPS };

struct progress {
    bool on;
    bool with_stdout; /* that is a terminal too */
    bool mid_line;    /* what was written last does not end a line */
    uint64_t draw_ns; /* when to draw; 0: no need */
    uint64_t n[PROGRESS_STEPS];
};

void progress_init(struct pmirun *pr);
void progress_count(struct pmirun *pr, enum progress_step step); /* one more rank */
void progress_draw(struct pmirun *pr);
/* Bytes will be written to this sink; false: the terminal takes none now. And: they were. */
bool progress_hide(struct pmirun *pr, const struct sink *sk);
void progress_wrote(struct pmirun *pr, const struct sink *sk, const char *p, size_t n);
/* The line is cleared, for what is written past the sinks, and our end. */
void progress_clear(void);

#endif
