/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ends of processes, and what follows from the decisions of job_end.c: signals to ranks,
 * answers to spawners, memory. The loop calls it between batches of events; so no part is entered
 * while it is in the middle of something.
 */
#ifndef PMIRUN_RANK_END_H
#define PMIRUN_RANK_END_H

#include <signal.h>
#include <stdbool.h>

struct job;
struct jobs;
struct rank;

/* Carries out the decisions since its last call. */
void jobs_progress(struct jobs *jobs);
/* Frees spawned jobs that are over; events of a batch may point to a job. */
void jobs_free_ended(struct jobs *jobs);
/* Frees a job that is not in the list. */
void job_release(struct job *job);
void ranks_signal(struct jobs *jobs, int sig);
/* A child is this rank, or no longer: to reap it, and for the guard. */
void rank_note_pid(struct rank *r, bool runs);
/* Reaps processes that have ended. */
void ranks_reap(struct jobs *jobs);
/* After the last rank: ends processes that outlive theirs. True when none is left. */
bool leftovers_end(struct jobs *jobs);
/* A rank's process has ended. */
void rank_process_ended(struct rank *r, const siginfo_t *si);

#endif
