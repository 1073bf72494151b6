/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the events of ranks mean for their job, and for pmirun's exit status. Everything reports
 * here: launch.c a rank that cannot be started, pmi.c and host.c what it does, rank_end.c its end,
 * output.c a reader that is gone, a head's agents all of these.
 *
 * It decides, and nothing more: a decision is state of the jobs, which jobs_progress() carries out
 * after the batch of events. An agent passes events to its head, which decides.
 */
#ifndef PMIRUN_JOB_END_H
#define PMIRUN_JOB_END_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct job;
struct jobs;
struct rank;

/* ---- events ---- */

/* A rank entered or left init ... finalize, or called abort. */
void job_rank_state(struct rank *r, uint32_t state);
void job_rank_aborted(struct rank *r, int32_t exitcode, const char *message);
void job_rank_ended(struct rank *r, const siginfo_t *si);
/* A collective cannot complete: a rank is gone. */
void job_stuck(struct job *job, uint32_t rank, uint32_t coll, uint32_t why);
/* A spawned job cannot be started: -errno. Those of its processes that run are to end. */
void job_spawn_failed(struct job *job, int err);

/* ---- decisions ---- */

/* Decides on an abort and the like, unless another rank is about to die, which may be its cause;
 * and on a stuck collective, after a while. Reap processes before. */
void job_decide_end(struct jobs *jobs);
bool job_end_is_pending(const struct jobs *jobs);  /* is there something to decide? */
uint64_t job_decision_ns(const struct jobs *jobs); /* when, 0: there is not */
/* Ends everything: SIGTERM, and SIGKILL after GRACE_NS. The first status given counts. */
void job_stop(struct jobs *jobs, int status);
/* The same without a status, which an agent does not have. */
void job_stop_all(struct jobs *jobs);
/* Once the job is stopped, readers of our output have 2 * GRACE_NS. */
void job_hasten(struct jobs *jobs);
/* Does its end wait for no reader of our output? */
bool job_is_hasty(const struct jobs *jobs);
/* If it does wait: streams that are still open are read for DRAIN_NS more. */
void job_give_time(struct jobs *jobs);
void job_set_status(struct jobs *jobs, int status);

#endif
