/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmirun's side of the PMIx host (pmix_host.h, examples/pmix-host), one a process, as the libpmix
 * that it loads: describes jobs to it, tells it of the ends of ranks, carries out what it asks for.
 * Where the host was left out of the build, pmix_host_available() returns false, and the rest is a
 * no-op.
 */
#ifndef PMIRUN_HOST_H
#define PMIRUN_HOST_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pmix_host.h>

struct job;
struct jobs;
struct rank;

/* Call it first. */
void host_init(struct jobs *jobs);

/* Before the first rank of the job is launched here: announces the job, and adds variables to
 * job->vars. Needs job->ranks and job->node_of. Returns 0, or a STATUS_* and *why, a sentence to be
 * freed. */
int host_job(struct job *job, char **why);
void host_job_over(uint32_t number);
/* An agent: a job without a rank here begins. False: its number is invalid. */
bool host_space(const struct job *plan);
/* An agent: has the head announced this job, with ranks here or without? */
bool host_knows(uint32_t number);

/* What the end of a rank means for PMIx. */
enum pmix_host_end host_end_of(const struct rank *r, const siginfo_t *si);
/* A rank's process has ended, here or on another node. */
void host_rank_gone(uint32_t job, uint32_t rank, enum pmix_host_end end, int status);
/* Before ranks are killed, and before pmirun ends: stops libpmix for good, since its server
 * crashes when several clients die at once. */
void host_stop(void);

/* Tokens of the host's requests have this bit; libpmiwire's own do not. */
#define HOST_TOKEN (UINT64_C(1) << 63)
/* A spawn, or a request about a name, is done. */
void host_answer(uint64_t token, int rc, struct pmiwire_str text);

/* An agent: a frame of another node's host; false: it is invalid. The link there has room again. */
bool host_frame(uint32_t from, const void *p, size_t n);
void host_room(uint32_t node);

#endif
