/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPIR: how a parallel debugger finds the ranks of a job. It starts the launcher under its control,
 * or attaches to it, and reads these variables by name; MPIR_Breakpoint() is called when they are
 * valid. Source: The MPIR Process Acquisition Interface, version 1.0, MPI Forum; names and types
 * are from there. Left out: spawned jobs and the abort of a job.
 *
 * This file is compiled with debug information, which the interface requires.
 */
#define _GNU_SOURCE
#include "mpir.h"

#include <stdlib.h>

#include "job.h"

struct MPIR_PROCDESC {
    const char *host_name, *executable_name;
    int pid;
};

enum { MPIR_NULL, MPIR_DEBUG_SPAWNED };

extern struct MPIR_PROCDESC *MPIR_proctable;
extern int MPIR_proctable_size, MPIR_i_am_starter;
extern volatile int MPIR_being_debugged, MPIR_debug_state;
void MPIR_Breakpoint(void);

struct MPIR_PROCDESC *MPIR_proctable;
int MPIR_proctable_size;
/* The symbol says that this process is no rank. */
int MPIR_i_am_starter;
/* Set by the debugger. */
volatile int MPIR_being_debugged;
volatile int MPIR_debug_state = MPIR_NULL;

__attribute__((noinline)) void MPIR_Breakpoint(void)
{
    __asm__ volatile("");
}

bool mpir_is_debugged(void)
{
    return MPIR_being_debugged != 0;
}

void mpir_init(void)
{
    if (mpir_is_debugged())
        setenv("MPIEXEC_DEBUG", "1", 1);
}

void mpir_publish(const struct job *job)
{
    MPIR_proctable = xrealloc(MPIR_proctable, job->n_ranks * sizeof(*MPIR_proctable));
    for (uint32_t i = 0; i < job->n_ranks; i++) {
        const struct rank *r = &job->ranks[i];

        MPIR_proctable[i] = (struct MPIR_PROCDESC){
            .host_name = node_name(job->jobs, r->node),
            .executable_name = r->app->path ? r->app->path : r->app->argv[0],
            .pid = r->pid,
        };
    }
    MPIR_proctable_size = (int)job->n_ranks;
    MPIR_debug_state = MPIR_DEBUG_SPAWNED;
    MPIR_Breakpoint();
}
