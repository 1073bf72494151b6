/* SPDX-License-Identifier: BSD-3-Clause */
/* The process table for parallel debuggers. */
#ifndef PMIRUN_MPIR_H
#define PMIRUN_MPIR_H

#include <stdbool.h>

struct job;

/* Has a debugger started pmirun? */
bool mpir_is_debugged(void);
/* At the start: if so, MPICH's ranks wait for it in MPI_Init. */
void mpir_init(void);
/* All ranks of the first job have started: fills the table, and stops at the breakpoint. Alone and
 * head. */
void mpir_publish(const struct job *job);

#endif
