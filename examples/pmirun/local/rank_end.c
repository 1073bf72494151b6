/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carries out what job_end.c has decided: ends ranks, answers spawners, frees jobs; and reaps
 * processes, so that it may decide. pmirun is a subreaper: it inherits every descendant whose
 * parent has died, and ends those that outlive their rank.
 */
#define _GNU_SOURCE
#include "rank_end.h"

#include "bind.h"
#include "guard.h"
#include "host.h"
#include "job.h"
#include "job_end.h"
#include "launch.h"
#include "loop.h"
#include "mpi_detect.h"
#include "ompi_binding.h"
#include "output.h"
#include "pmi.h"
#include "role.h"
#include "spawn.h"
#include "table.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define SWEEP_EVERY_NS (20 * NS_PER_MS)
#define SAID_AT_MOST   4u /* processes that are ended with their rank, by name */

/* ---- children ---- */

/* NULL: it is no rank. */
static struct rank *rank_by_pid(const struct jobs *jobs, pid_t pid)
{
    for (const struct job *job = jobs->first; job; job = job->next)
        for (uint32_t i = 0; i < job->n_local; i++)
            if (job->ranks[i].pid == pid && job->ranks[i].is_child)
                return &job->ranks[i];
    return NULL;
}

void rank_note_pid(struct rank *r, bool runs)
{
    if (r->is_child != runs) /* else another process may have the number by now */
        guard_note(r->job->jobs->guard, r->pid, runs);
    r->is_child = runs;
}

/* ---- processes that outlive their rank ---- */

static bool is_inherited(const struct leftovers *leftovers, pid_t pid)
{
    for (const pid_t *p = leftovers->inherited; p && *p; p++)
        if (*p == pid)
            return true;
    return false;
}

static void say_ended(struct leftovers *l, int pid)
{
    char path[64], name[16] = "";
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    f = fopen(path, "re");
    if (f && fscanf(f, "%15[^\n]", name) == 1 && l->n_said++ < SAID_AT_MOST)
        log_message(
            "process %d (%s) outlives the rank that has started it, and is ended; --ends hydra "
            "lets it run",
            pid, name);
    if (f)
        fclose(f);
}

/* Signals them, 0: none. True if there are any. */
static bool leftovers_signal(struct jobs *jobs, int sig)
{
    pid_t *children = children_of(getpid());
    bool found = false;

    for (const pid_t *p = children; *p; p++) {
        const pid_t pid = *p;

        if (pid == jobs->guard->pid || is_inherited(&jobs->leftovers, pid) ||
            rank_by_pid(jobs, pid))
            continue;
        found = true;
        log_verbose("process %d outlives its rank: signal %d", pid, sig);
        if (sig == SIGTERM && !jobs->stopping && !jobs->head) /* a head's are of ssh or srun */
            say_ended(&jobs->leftovers, pid);
        if (sig)
            kill(pid, sig);
        if (sig == SIGTERM)
            kill(pid, SIGCONT);
    }
    free(children);
    return found;
}

/* ---- signals ---- */

/* Each rank leads a process group, so that a wrapper's children are reached too. */
static void signal_rank(const struct rank *r, int sig)
{
    if (r->state == RANK_RUNNING && kill(-r->pid, sig) != 0)
        kill(r->pid, sig);
}

void ranks_signal(struct jobs *jobs, int sig)
{
    if (jobs->head) {
        head_order(jobs->head, MSG_SIGNAL, (uint32_t)sig);
        return;
    }
    launch_land_all(jobs->launcher);
    for (struct job *job = jobs->first; job; job = job->next)
        for (uint32_t i = 0; i < job->n_launched && job->n_live > 0; i++)
            signal_rank(&job->ranks[i], sig);
    if (jobs->leftovers.n_serving)
        (void)leftovers_signal(jobs, sig);
}

static void end_ranks(struct jobs *jobs)
{
    if (jobs->head)
        head_order(jobs->head, MSG_STOP, 0);
    host_stop(); /* first: libpmix's server would crash when its clients die at once */
    ranks_signal(jobs, SIGTERM);
    ranks_signal(jobs, SIGCONT); /* a stopped process would not see SIGTERM */
}

static void kill_late(struct jobs *jobs)
{
    if (!jobs->stopping || !jobs->n_live || !timer_passed(&jobs->kill))
        return;
    ranks_signal(jobs, SIGKILL);
    timer_set(&jobs->kill, loop.now_ns + NS_PER_S);
}

/* ---- processes ---- */

static void unserve_job(struct job *job)
{
    if (job->mpi == MPI_PMIX)
        host_job_over(job->number);
    pmi_remove_job(job);
}

/* Its last rank here has ended. */
static void close_job(struct job *job)
{
    struct jobs *jobs = job->jobs;

    if (job->ended)
        return;
    job->ended = true;
    if (jobs->head)
        head_drop_names(jobs->head, job);
    else if (!jobs->agent) /* else other nodes may still ask here */
        unserve_job(job);
}

/* By hydra's rules a job waits for processes that have a rank's output. If they have its PMI
 * connection too, the rank ends well when either ends. */
static bool leaves_connection(struct rank *r, const siginfo_t *si)
{
    struct jobs *jobs = r->job->jobs;

    if (!jobs->opt->as_hydra || jobs->stopping || si->si_code != CLD_EXITED || si->si_status)
        return false;
    pmi_read_all(r);
    if (!r->conn)
        return false;
    log_verbose("%u:%u pid %d has left its PMI connection to another process", r->job->number,
                r->number, (int)r->pid);
    rank_note_pid(r, false);
    r->outlived = true;
    jobs->leftovers.n_serving++;
    return true;
}

void rank_process_ended(struct rank *r, const siginfo_t *si)
{
    struct job *job = r->job;
    struct jobs *jobs = job->jobs;

    if (leaves_connection(r, si))
        return;
    r->state = RANK_EXITED;
    r->exit_code = si->si_status + (si->si_code == CLD_EXITED ? 0 : STATUS_SIGNAL);
    rank_note_pid(r, false);
    if (!jobs->head)
        pmi_rank_ended(r);
    if (!jobs->head && job->mpi == MPI_PMIX)
        host_rank_gone(job->number, r->number, host_end_of(r, si), si->si_status);
    job->n_live--;
    if (job->n_live == 0 && job->silent_mpi)
        mpi_detect_ended(job);
    jobs->n_live--;
    job_rank_ended(r, si);
    if (job->n_live == 0 && (job->abandoned || job->n_launched == job->n_local))
        close_job(job);
}

/* Ranks whose connection another process has end when it closes that, or has closed their output.
 */
static void end_outlived(struct job *job)
{
    const siginfo_t si = {.si_code = CLD_EXITED};

    for (uint32_t i = 0; i < job->n_local; i++) {
        struct rank *r = &job->ranks[i];

        if (!r->outlived)
            continue;
        if (!output_is_open(&r->out) && !output_is_open(&r->err))
            pmi_drain(r);
        if (r->conn)
            continue;
        r->outlived = false;
        job->jobs->leftovers.n_serving--;
        rank_process_ended(r, &si);
    }
}

void ranks_reap(struct jobs *jobs)
{
    siginfo_t si;

    for (;;) {
        struct rank *r;

        si.si_pid = 0;
        if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG) != 0) {
            if (errno != EINTR)
                return;
            continue;
        }
        if (si.si_pid == 0)
            return;
        r = rank_by_pid(jobs, si.si_pid);
        if (!r) {
            guard_reaped(jobs->guard, si.si_pid);
            if (jobs->head)
                head_reap_starter(jobs->head, &si);
            continue;
        }
        r->state = RANK_EXITED;        /* reaped: its pid is free */
        launch_settle(jobs->launcher); /* now pmirun knows whether its execve() failed */
        rank_process_ended(r, &si);
    }
}

bool leftovers_end(struct jobs *jobs)
{
    struct timer *sweep = &jobs->leftovers.sweep;
    int sig;

    if (jobs->leftovers.clean || (jobs->opt->as_hydra && !jobs->stopping))
        return true;
    if (sweep->waits && !timer_passed(sweep))
        return false;
    if (!sweep->at)
        timer_set(&jobs->kill, loop.now_ns + GRACE_NS);
    sig = !sweep->at || jobs->stopping ? SIGTERM : 0;
    if (timer_passed(&jobs->kill))
        sig = SIGKILL;
    ranks_reap(jobs);
    jobs->leftovers.clean = !leftovers_signal(jobs, sig);
    timer_set(sweep, loop.now_ns + SWEEP_EVERY_NS);
    return jobs->leftovers.clean;
}

/* ---- jobs ---- */

static void settle_spawn(struct job *job)
{
    const struct jobs *jobs = job->jobs;

    job->spawn_done = false;
    if (job->spawn_err && jobs->head) {
        head_order(jobs->head, MSG_ABANDON, job->number);
    } else if (job->spawn_err) {
        launch_drop(jobs->launcher, job);
        for (uint32_t i = 0; i < job->n_local; i++)
            signal_rank(&job->ranks[i], SIGKILL);
    }
    spawn_answer(job, job->spawn_err);
}

void jobs_progress(struct jobs *jobs)
{
    if (jobs->to_end_ranks) {
        jobs->to_end_ranks = false;
        end_ranks(jobs);
    }
    for (struct job *job = jobs->first; job; job = job->next) {
        if (job->spawn_done)
            settle_spawn(job);
        if (jobs->leftovers.n_serving)
            end_outlived(job);
    }
    kill_late(jobs);
}

/* True when no further message about this job can arrive. */
static bool job_is_over(const struct job *job)
{
    const struct jobs *jobs = job->jobs;

    if (job->n_live || job->spawn_done || (jobs->cause.by && jobs->cause.by->job == job) ||
        (jobs->stuck.gone && jobs->stuck.gone->job == job))
        return false;
    if (!job_is_settled(job))
        return false;
    for (uint32_t i = 0; i < job->n_local; i++)
        if (output_is_open(&job->ranks[i].out) || output_is_open(&job->ranks[i].err) ||
            job->ranks[i].conn)
            return false;
    return true;
}

void job_release(struct job *job)
{
    table_destroy(job);
    bind_free(job->bound);
    early_free(job);
    strings_free(job->vars);
    free(job->mpi_reason);
    if (job->spawned) /* else they belong to the command line, or live as long as it */
        apps_free(job->apps, job->n_apps);
    free(job->kvsname);
    free(job->spawner);
    free(job->node_of);
    free(job->seats);
    free(job->ranks);
    free(job);
}

/* Else a program that spawns job after job would make pmirun grow without bound. */
void jobs_free_ended(struct jobs *jobs)
{
    struct job **p = &jobs->first;

    while (*p && !jobs->stopping) {
        struct job *job = *p;

        if (!job->spawned || !job_is_over(job)) {
            p = &job->next;
            continue;
        }
        log_verbose("job %u is over", job->number);
        close_job(job);
        if (jobs->head)
            head_order(jobs->head, MSG_OVER, job->number);
        if (jobs->agent)
            unserve_job(job);
        *p = job->next;
        job_release(job);
    }
}
