/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that cleans up when this pmirun is killed with SIGKILL. */
#ifndef PMIRUN_GUARD_H
#define PMIRUN_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct guard {
    pid_t pid;         /* the guard's process id; 0: none */
    uint64_t *ranks;   /* shared with the guard: a bit for each process id of a rank */
    char key[17];      /* 16 digits unique to this pmirun, in the names of its folders */
    char variable[40]; /* in the environment of every rank */
};

/* Starts the guard. If fork() fails, the job runs without one. */
void guard_start(struct guard *g);
/* A rank has started, or was reaped. */
void guard_note(struct guard *g, pid_t rank, bool runs);
/* A child that is no rank was reaped. */
void guard_reaped(struct guard *g, pid_t pid);
/* Nothing is left to clean up. */
void guard_end(struct guard *g);

#endif
