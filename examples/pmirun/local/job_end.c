/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides what the events of ranks mean for their job, and for pmirun's exit status. */
#define _GNU_SOURCE
#include "job_end.h"

#include "job.h"
#include "loop.h"
#include "progress.h"
#include "role.h"
#include "timeline.h"

#include <stdio.h>
#include <string.h>

/* An abort waits this long for the end of a rank that hung up, and for reports of other nodes. */
#define DYING_NS NS_PER_S
#define NODES_NS (50 * NS_PER_MS)
/* For processes to end by themselves when a collective cannot complete. */
#define STUCK_NS NS_PER_S

/* ---- the end of all ---- */

void job_set_status(struct jobs *jobs, int status)
{
    if (jobs->agent) {
        agent_report(jobs->agent, MSG_STATUS, &(struct report){.value = (uint32_t)status});
        return;
    }
    if (jobs->status_set)
        return;
    jobs->status = status;
    jobs->status_set = true;
}

void job_stop(struct jobs *jobs, int status)
{
    if (jobs->agent) { /* the head decides */
        if (!jobs->stopping)
            agent_report(jobs->agent, MSG_FATAL, &(struct report){.value = (uint32_t)status});
        return;
    }
    job_set_status(jobs, status);
    if (jobs->stopping)
        return;
    jobs->status = status; /* the cause of the stop outweighs an earlier quiet failure of a rank */
    log_verbose("stopping the job, status %d", status);
    job_stop_all(jobs);
}

void job_stop_all(struct jobs *jobs)
{
    jobs->stopping = jobs->to_end_ranks = true;
    jobs_unqueue_all(jobs);
    timer_set(&jobs->kill, loop.now_ns + GRACE_NS);
    timer_set(&jobs->drain, loop.now_ns + 2 * GRACE_NS);
}

void job_hasten(struct jobs *jobs)
{
    if (jobs->stopping && !jobs->hasty)
        timer_set(&jobs->drain, loop.now_ns + 2 * GRACE_NS);
    jobs->hasty = true;
}

bool job_is_hasty(const struct jobs *jobs)
{
    return jobs->stopping && jobs->hasty;
}

void job_give_time(struct jobs *jobs)
{
    const uint64_t until = loop.now_ns + DRAIN_NS;

    if (!job_is_hasty(jobs) && jobs->drain.at < until)
        timer_set(&jobs->drain, until);
}

/* ---- a spawn ---- */

void job_spawn_failed(struct job *job, int err)
{
    if (job->abandoned)
        return;
    job->abandoned = job->spawn_done = true;
    job->spawn_err = err;
    job->queued = false;
}

static const char *program_name(const struct rank *r)
{
    return r->app->argv[0];
}

/* ---- what stops the job ---- */

/*
 * Ranks that lose a peer abort or end; then the peer's end is the cause to report, not theirs. The
 * kernel closes a dying process's descriptors before it can be reaped: first the lowest, its PMI
 * connection, then those that peers watch. So an abort is handled at the end of a batch of events,
 * after all dead processes are reaped; while a rank has hung up but not ended, after its end, or
 * after DYING_NS.
 */
static void fail_rank(struct rank *r, int status, const char *text)
{
    struct jobs *jobs = r->job->jobs;
    struct cause *c = &jobs->cause;

    if (c->by && r != jobs->stuck.gone) /* whom the others' collective waits for outweighs them */
        return;
    *c = (struct cause){.by = r, .status = status, .since_ns = loop.now_ns};
    snprintf(c->text, sizeof(c->text), "%s", text);
}

static bool somebody_is_dying(const struct job *jobs)
{
    for (const struct job *job = jobs; job; job = job->next)
        for (uint32_t i = 0; i < job->n_local && job->n_live > 0; i++)
            if (job->ranks[i].hung_up && !job->ranks[i].aborted &&
                job->ranks[i].state == RANK_RUNNING)
                return true;
    return false;
}

/* Handles a rank's end that stops the job. */
static void ended_badly(struct rank *r, int status, const char *text)
{
    struct jobs *jobs = r->job->jobs;

    /* another rank may be the cause */
    if ((jobs->stuck.gone && jobs->stuck.gone != r) || somebody_is_dying(jobs->first)) {
        fail_rank(r, status, text);
        return;
    }
    log_message("%s; stopping the job", text);
    job_stop(jobs, status);
}

void job_stuck(struct job *job, uint32_t rank, uint32_t coll, uint32_t why)
{
    struct jobs *jobs = job->jobs;

    if (jobs->agent)
        agent_report(
            jobs->agent, MSG_STUCK,
            &(struct report){.job = job->number, .rank = rank, .value = coll, .detail = why});
    else if (!jobs->stopping && !job->abandoned && !jobs->stuck.gone && rank < job->n_ranks)
        jobs->stuck = (struct stuck){&job->ranks[rank], coll, why, loop.now_ns};
}

bool job_end_is_pending(const struct jobs *jobs)
{
    return jobs->cause.by || jobs->stuck.gone;
}

/* Have all processes ended? A head may not know yet that some have started. */
static bool is_all_over(const struct jobs *jobs)
{
    if (jobs->n_live)
        return false;
    for (const struct job *job = jobs->first; job; job = job->next)
        if (!job_is_settled(job))
            return false;
    return true;
}

uint64_t job_decision_ns(const struct jobs *jobs)
{
    uint64_t at = UINT64_MAX;

    if (!job_end_is_pending(jobs))
        return 0;
    if (jobs->stopping || is_all_over(jobs)) /* at once */
        return jobs->cause.by ? jobs->cause.since_ns : jobs->stuck.since_ns;
    if (jobs->cause.by)
        at = jobs->cause.since_ns + (somebody_is_dying(jobs->first) ? DYING_NS
                                     : jobs->head                   ? NODES_NS
                                                                    : 0);
    if (jobs->stuck.gone && jobs->stuck.since_ns + STUCK_NS < at)
        at = jobs->stuck.since_ns + STUCK_NS;
    return at;
}

/* When a process ends, its connection is often seen to end first. */
static const char *how_it_is_gone(const struct stuck *s)
{
    if (s->why == PMIWIRE_GONE_FINALIZED)
        return "has finalized";
    if (s->why == PMIWIRE_GONE_CUT_OFF)
        return "was cut off from PMI";
    if (s->gone->state != RANK_EXITED)
        return "has closed its PMI connection";
    return s->gone->pmi_state == PMIWIRE_CONN_NEW ? "has ended without PMI init" : "has ended";
}

static void say_stuck(struct jobs *jobs, const char *then)
{
    static const char *const colls[] = {"a fence", "an Allgather", "a Ring"};
    const struct stuck *s = &jobs->stuck;

    log_message("%s (pid %d, %s) %s: %s that other ranks wait in cannot complete%s",
                rank_name(s->gone), (int)s->gone->pid, program_name(s->gone), how_it_is_gone(s),
                s->coll < sizeof(colls) / sizeof(colls[0]) ? colls[s->coll] : "a barrier", then);
}

void job_decide_end(struct jobs *jobs)
{
    struct cause *c = &jobs->cause;
    int status;

    if (jobs->stuck.gone &&
        jobs->stuck.gone->job->abandoned) /* it ends as it is, and nothing else */
        jobs->stuck.gone = NULL;
    if (c->by && c->by->job->abandoned)
        c->by = NULL;
    if (!job_end_is_pending(jobs))
        return;
    if (loop.now_ns < job_decision_ns(jobs))
        return;
    if (!jobs->stopping) {
        status = STATUS_STUCK;
        if (jobs->stuck.gone && jobs->status_set) /* of the first that failed */
            status = jobs->status;
        else if (c->by)
            status = c->status;
        if (jobs->stuck.gone)
            say_stuck(jobs, c->by ? "" : "; stopping the job");
        if (c->by)
            log_message("%s; stopping the job", c->text);
        job_stop(jobs, status);
    }
    c->by = NULL;
    jobs->stuck.gone = NULL;
}

/* ---- how a rank ends ---- */

static void rank_died(struct rank *r, int sig, bool dumped)
{
    struct jobs *jobs = r->job->jobs;
    char text[512];

    /* The user sent a signal that pmirun forwarded: it needs no explanation. */
    if (sig == jobs->last_signal) {
        job_stop(jobs, STATUS_SIGNAL + sig);
        return;
    }
    snprintf(text, sizeof(text), "%s (pid %d, %.200s) died of signal %d (%s%s)%s", rank_name(r),
             (int)r->pid, program_name(r), sig, strsignal(sig), dumped ? ", core dumped" : "",
             jobs->opt->launch == LAUNCH_STEP && (sig == SIGKILL || sig == SIGTERM)
                 ? ", as when Slurm cancels the step or its time is over"
                 : "");
    ended_badly(r, STATUS_SIGNAL + sig, text);
}

static void rank_exited(struct rank *r, int code)
{
    struct jobs *jobs = r->job->jobs;
    char text[512];

    if (r->pmi_state == PMIWIRE_CONN_INITED && (code || !jobs->opt->as_hydra)) {
        snprintf(text, sizeof(text),
                 "%s (pid %d, %.200s) exited with status %d after PMI init, without finalize",
                 rank_name(r), (int)r->pid, program_name(r), code);
        ended_badly(r, code ? code : STATUS_NOFINALIZE, text);
    } else if (code && !jobs->status_set) {
        log_message("%s (pid %d, %s) exited with status %d", rank_name(r), (int)r->pid,
                    program_name(r), code);
        job_set_status(jobs, code);
    }
}

void job_rank_ended(struct rank *r, const siginfo_t *si)
{
    struct job *job = r->job;
    struct jobs *jobs = job->jobs;

    jobs->at.last_exit = loop.now_ns - loop.start_ns;
    timeline_rank(jobs->timeline, r, TIMELINE_EXIT,
                  (uint32_t)si->si_status | (si->si_code == CLD_EXITED ? 0 : TIMELINE_SIGNAL));
    if (jobs->agent) {
        agent_report(jobs->agent, MSG_EXIT,
                     &(struct report){.job = r->job->number,
                                      .rank = r->number,
                                      .value = (uint32_t)si->si_code,
                                      .detail = (uint32_t)si->si_status});
        return;
    }
    log_verbose("%u:%u pid %d %s %d", job->number, r->number, (int)r->pid,
                si->si_code == CLD_EXITED ? "exited with" : "died of", si->si_status);
    if (jobs->stopping || job->abandoned || r->aborted)
        return;
    if (si->si_code == CLD_EXITED)
        rank_exited(r, si->si_status);
    else
        rank_died(r, si->si_status, si->si_code == CLD_DUMPED);
}

/* ---- what it does meanwhile ---- */

/* Has it happened first or last now? */
static void note_time(uint64_t *first, uint64_t *last)
{
    *last = run_ns();
    if (!*first)
        *first = *last;
}

void job_rank_state(struct rank *r, uint32_t state)
{
    struct jobs *jobs = r->job->jobs;
    const char *what = "ends";

    if (state != PMIWIRE_CONN_FAILED)
        r->pmi_state = state;
    else if (r->pmi_state == PMIWIRE_CONN_INITED)
        r->hung_up = true;
    if (state == PMIWIRE_CONN_INITED) {
        what = "init";
        note_time(&jobs->at.first_init, &jobs->at.last_init);
        progress_count(jobs->progress, PROGRESS_INITED);
        timeline_rank(jobs->timeline, r, TIMELINE_INIT, 0);
    } else if (state == PMIWIRE_CONN_FINALIZED) {
        what = "finalize";
        note_time(&jobs->at.first_finalize, &jobs->at.last_finalize);
        progress_count(jobs->progress, PROGRESS_FINALIZED);
        timeline_rank(jobs->timeline, r, TIMELINE_FINALIZE, 0);
    }
    if (jobs->agent)
        agent_report(jobs->agent, MSG_STATE,
                     &(struct report){.job = r->job->number, .rank = r->number, .value = state});
    else
        log_verbose("%u:%u pid %d PMI %s", r->job->number, r->number, (int)r->pid, what);
}

void job_rank_aborted(struct rank *r, int32_t exitcode, const char *message)
{
    struct jobs *jobs = r->job->jobs;
    char text[512];
    int status = exitcode & 0xff;

    if (jobs->stopping || r->aborted || r->job->abandoned)
        return;
    r->aborted = true;
    if (jobs->agent) {
        agent_report(jobs->agent, MSG_ABORT,
                     &(struct report){.job = r->job->number,
                                      .rank = r->number,
                                      .value = (uint32_t)exitcode,
                                      .text = message});
        return;
    }
    if (exitcode != 0 && status == 0)
        status = 1; /* a shell sees 8 bits only: do not let 256 pass for success */
    snprintf(text, sizeof(text), "%s (pid %d, %.100s) aborted with code %d%s%s", rank_name(r),
             (int)r->pid, program_name(r), (int)exitcode, message[0] ? ": " : "", message);
    fail_rank(r, status, text);
}
