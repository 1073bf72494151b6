/* SPDX-License-Identifier: BSD-3-Clause */
/* What a pmirun that is killed with SIGKILL leaves to clean up. */
#ifndef PMIRUN_GUARD_H
#define PMIRUN_GUARD_H

#include <stdint.h>
#include <sys/types.h>

struct pmirun;

struct guard {
    pid_t pid;         /* of the process that watches; 0: there is none */
    uint64_t *ranks;   /* shared with it: a bit for each process id that is a rank's */
    char key[17];      /* 16 digits of this pmirun alone: part of names in /dev/shm */
    char variable[40]; /* in the environment of every rank */
};

/* Starts the guard. If fork() fails, the job runs without one. */
void guard_start(struct pmirun *pr);
/* A rank begins; or it has been reaped. */
void guard_add(struct pmirun *pr, pid_t rank);
void guard_remove(struct pmirun *pr, pid_t rank);
/* Some child has been reaped. */
void guard_reaped(struct pmirun *pr, pid_t pid);
/* Nothing is left to clean up. */
void guard_end(struct pmirun *pr);

#endif
