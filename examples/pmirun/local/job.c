/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs and ranks: their start, their end, and what a rank's end means for its job. */
#define _GNU_SOURCE
#include "job.h"

#include "bind.h"
#include "ompi_binding.h"
#include "gather.h"
#include "guard.h"
#include "host.h"
#include "launch.h"
#include "mpi_detect.h"
#include "pmi.h"
#include "port.h"
#include "progress.h"
#include "role.h"
#include "spawn.h"
#include "table.h"
#include "timeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SWEEP_EVERY_NS (20 * NS_PER_MS)
/* an abort waits this long for the end of a rank that hung up */
#define DYING_NS     NS_PER_S
#define NODES_NS     (50 * NS_PER_MS) /* and this long for reports of other nodes */
#define SAID_AT_MOST 4u               /* processes that are ended with their rank, by name */
/* for processes to end by themselves when a collective cannot complete */
#define STUCK_NS NS_PER_S

/* ---- creation ---- */

static uint32_t job_pid_of(const struct rank *r)
{
    return (uint32_t)r->pid;
}

void jobs_init(struct jobs *jobs, const struct options *opt)
{
    jobs->opt = opt;
    jobs->tail = &jobs->first;
    jobs->launch_tail = &jobs->launch;
    jobs->by_pid.key = job_pid_of;
}

/* Unique among jobs, later ones too, and of characters that every peer can carry. */
static void make_kvsname(struct job *job)
{
    char host[33] = "";
    size_t n = 0;

    gethostname(host, sizeof(host) - 1);
    for (size_t i = 0; host[i]; i++)
        if ((host[i] >= 'a' && host[i] <= 'z') || (host[i] >= 'A' && host[i] <= 'Z') ||
            (host[i] >= '0' && host[i] <= '9') || host[i] == '-' || host[i] == '.')
            host[n++] = host[i];
    host[n] = '\0';
    snprintf(job->kvsname, sizeof(job->kvsname), "kvs_%d_%u_%08x%08x_%s", (int)getpid(),
             job->number, random_u32(), random_u32(), n ? host : "node");
}

/* Is this rank in `ranks`? An agent has only its own there. */
static bool is_known(const struct job *job, uint32_t rank)
{
    const struct agent *agent = job->jobs->agent;

    return !agent || job->node_of[rank] == agent_node(agent);
}

/* The ranks that we know, each with its program, node, and number there. */
static int make_ranks(struct job *job)
{
    uint32_t *n_on = calloc(job->jobs->opt->n_nodes + 1, sizeof(*n_on)), k = 0;

    for (uint32_t i = 0; i < job->n_ranks; i++)
        job->n_local += is_known(job, i);
    job->ranks = calloc(job->n_local ? job->n_local : 1, sizeof(*job->ranks));
    if (!job->ranks || !n_on) {
        free(n_on);
        return -ENOMEM;
    }
    for (uint32_t i = 0, number = 0; i < job->n_apps; i++) {
        for (uint32_t j = 0; j < job->apps[i].n_procs; j++, number++) {
            uint32_t node = job->node_of ? job->node_of[number] : 0;
            struct rank *r = &job->ranks[k];

            if (!is_known(job, number))
                continue;
            k++;
            r->job = job;
            r->app = &job->apps[i];
            r->number = number;
            r->node = node;
            r->local = n_on[node]++;
            r->exit_code = -1;
            r->out.rank = r->err.rank = r;
            r->out.src.fd = r->err.src.fd = -1;
        }
    }
    free(n_on);
    return 0;
}

void job_free(struct job *job)
{
    for (uint32_t i = 0; job->ranks && i < job->n_local; i++)
        port_forget(job->jobs->pmi->port, &job->ranks[i]);
    table_destroy(job);
    gather_destroy(job);
    for (char **p = job->vars; p && *p; p++)
        free(*p);
    free(job->vars);
    bind_free(job->bound);
    early_free(job);
    free(job->way_why);
    if (job->spawned) /* else they belong to the command line, or live as long as it */
        spawn_free_apps(job->apps, job->n_apps);
    free(job->spawner);
    free(job->node_of);
    free(job->ranks);
    free(job);
}

void job_var(struct job *job, char *owned)
{
    size_t n = 0;

    while (job->vars && job->vars[n])
        n++;
    job->vars = xrealloc(job->vars, (n + 2) * sizeof(*job->vars));
    job->vars[n] = owned;
    job->vars[n + 1] = NULL;
}

struct job *job_create(struct jobs *jobs, const struct job_plan *plan, int *err)
{
    struct job *job = calloc(1, sizeof(*job));
    uint64_t n = 0;

    *err = -ENOMEM;
    if (!job) {
        free(plan->node_of);
        return NULL;
    }
    for (uint32_t i = 0; i < plan->n_apps; i++)
        n += plan->apps[i].n_procs;
    job->jobs = jobs;
    job->number = plan->kvsname ? plan->number : jobs->n_jobs;
    job->n_ranks = (uint32_t)n;
    job->apps = plan->apps;
    job->n_apps = plan->n_apps;
    job->spawned = plan->spawner != NULL;
    job->spawner = plan->spawner ? strdup(plan->spawner) : NULL;
    job->spawner_rank = plan->spawner_rank;
    job->node_of = plan->node_of;
    job->way = plan->way;
    if (plan->kvsname)
        snprintf(job->kvsname, sizeof(job->kvsname), "%s", plan->kvsname);
    else
        make_kvsname(job);
    *err = job->spawned && !job->spawner ? -ENOMEM : make_ranks(job);
    if (*err == 0 && !jobs->head) /* whose agents serve the ranks */
        *err = pmi_add_job(jobs->pmi, job);
    if (*err) {
        job->spawned = false; /* its programs stay the caller's */
        job_free(job);
        return NULL;
    }
    jobs->n_jobs = job->number + 1;
    jobs->n_ranks += job->n_local;
    *jobs->tail = job;
    jobs->tail = &job->next;
    return job;
}

struct job *job_create_first(struct jobs *jobs, uint32_t *node_of)
{
    struct job_plan plan = {
        .apps = jobs->opt->apps, .n_apps = jobs->opt->n_apps, .node_of = node_of};
    int err;
    struct job *job = job_create(jobs, &plan, &err);

    if (!job)
        die(STATUS_RESOURCES, "cannot start the job: %s", any_strerror(err));
    return job;
}

struct job *job_by_number(const struct jobs *jobs, uint32_t number)
{
    struct job *job = jobs->first;

    while (job && job->number != number)
        job = job->next;
    return job;
}

uint32_t job_others(const struct job *job)
{
    uint32_t n = 0;

    for (const struct job *j = job->jobs->first; j; j = j->next)
        n += j != job && !j->ended ? j->n_local : 0;
    return n;
}

bool job_was(const struct jobs *jobs, uint32_t number)
{
    return number < jobs->n_jobs &&
           !job_by_number(jobs, number); /* numbers grow, and agents learn of jobs in that order */
}

void job_queue(struct job *job)
{
    struct jobs *jobs = job->jobs;

    *jobs->launch_tail = job;
    jobs->launch_tail = &job->next_launch;
}

/* ---- the end ---- */

void job_set_status(struct jobs *jobs, int status)
{
    if (jobs->agent) {
        agent_report(jobs->agent, MSG_STATUS, (uint32_t)status);
        return;
    }
    if (jobs->status_set)
        return;
    jobs->status = status;
    jobs->status_set = true;
}

/* Signals the descendants whose rank has ended, 0: none. True if there are any. */
static bool signal_leftovers(struct jobs *jobs, int sig);

/* Each rank leads a process group, so that a wrapper's children are reached too. */
static void signal_rank(const struct rank *r, int sig)
{
    if (r->state == RANK_RUNNING && kill(-r->pid, sig) != 0)
        kill(r->pid, sig);
}

void job_kill_all(struct jobs *jobs, int sig)
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
        (void)signal_leftovers(jobs, sig);
}

void job_stop(struct jobs *jobs, int status)
{
    if (jobs->agent) { /* the head decides */
        if (!jobs->stopping)
            agent_report(jobs->agent, MSG_FATAL, (uint32_t)status);
        return;
    }
    job_set_status(jobs, status);
    if (jobs->stopping)
        return;
    jobs->status = status; /* the cause of the stop outweighs an earlier quiet failure of a rank */
    trace("stopping the job, status %d", status);
    job_stop_all(jobs);
}

void job_stop_all(struct jobs *jobs)
{
    jobs->stopping = true;
    jobs->launch = NULL;
    jobs->launch_tail = &jobs->launch;
    if (jobs->head)
        head_order(jobs->head, MSG_STOP, 0);
    host_stop();
    job_kill_all(jobs, SIGTERM);
    job_kill_all(jobs, SIGCONT); /* a stopped process would not see SIGTERM */
    timer_set(&jobs->kill, loop.now_ns + GRACE_NS);
    timer_set(&jobs->drain, loop.now_ns + 2 * GRACE_NS);
}

void job_kill_late(struct jobs *jobs)
{
    if (!jobs->stopping || !jobs->n_live || !timer_passed(&jobs->kill))
        return;
    job_kill_all(jobs, SIGKILL);
    timer_set(&jobs->kill, loop.now_ns + NS_PER_S);
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

void job_abandon(struct job *job, int err)
{
    struct jobs *jobs = job->jobs;

    if (job->abandoned)
        return;
    job->abandoned = true;
    if (jobs->head) {
        head_order(jobs->head, MSG_ABANDON, job->number);
    } else {
        launch_drop(jobs->launcher, job);
        for (uint32_t i = 0; i < job->n_local; i++)
            signal_rank(&job->ranks[i], SIGKILL);
    }
    spawn_launched(job, err);
}

const char *rank_name(const struct rank *r, char buf[RANK_NAME_BYTES])
{
    const struct head *head = r->job->jobs->head;
    int n;

    if (r->job->number == 0)
        n = snprintf(buf, RANK_NAME_BYTES, "rank %u", r->number);
    else
        n = snprintf(buf, RANK_NAME_BYTES, "rank %u:%u", r->job->number, r->number);
    if (head)
        snprintf(buf + n, RANK_NAME_BYTES - (size_t)n, " on %s", head_node_name(head, r->node));
    return buf;
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
    say("%s; stopping the job", text);
    job_stop(jobs, status);
}

void job_stuck(struct job *job, uint32_t rank, uint32_t coll, uint32_t why)
{
    struct jobs *jobs = job->jobs;

    if (jobs->agent)
        agent_report_stuck(jobs->agent, job->number, rank, coll, why);
    else if (!jobs->stopping && !job->abandoned && !jobs->stuck.gone && rank < job->n_ranks)
        jobs->stuck = (struct stuck){&job->ranks[rank], coll, why, loop.now_ns};
}

bool job_end_is_pending(const struct jobs *jobs)
{
    return jobs->cause.by || jobs->stuck.gone;
}

/* Has the start of all its ranks, on all nodes, succeeded or failed? An agent learns it from its
 * head. */
static bool is_settled(const struct job *job)
{
    const struct jobs *jobs = job->jobs;

    if (jobs->agent)
        return job->over;
    if (jobs->head)
        return job->abandoned ? job->n_gave_up == job->n_members : job->n_launching == 0;
    return job->abandoned || job->n_launched == job->n_local;
}

/* Have all processes ended? A head may not know yet that some have started. */
static bool is_all_over(const struct jobs *jobs)
{
    if (jobs->n_live)
        return false;
    for (const struct job *job = jobs->first; job; job = job->next)
        if (!is_settled(job))
            return false;
    return true;
}

uint64_t job_decision_ns(const struct jobs *jobs)
{
    uint64_t at = UINT64_MAX;

    if (!job_end_is_pending(jobs))
        return 0;
    if (jobs->stopping || is_all_over(jobs))
        return loop.now_ns;
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
    char name[RANK_NAME_BYTES];

    say("%s (pid %d, %s) %s: %s that other ranks wait in cannot complete%s",
        rank_name(s->gone, name), (int)s->gone->pid, program_name(s->gone), how_it_is_gone(s),
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
    job_reap(jobs);
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
            say("%s; stopping the job", c->text);
        job_stop(jobs, status);
    }
    c->by = NULL;
    jobs->stuck.gone = NULL;
}

/* ---- how a rank ends ---- */

static void rank_died(struct rank *r, int sig, bool dumped)
{
    struct jobs *jobs = r->job->jobs;
    char name[RANK_NAME_BYTES], text[512];

    /* The user sent a signal that pmirun forwarded: it needs no explanation. */
    if (sig == jobs->last_signal) {
        job_stop(jobs, STATUS_SIGNAL + sig);
        return;
    }
    snprintf(text, sizeof(text), "%s (pid %d, %.200s) died of signal %d (%s%s)%s",
             rank_name(r, name), (int)r->pid, program_name(r), sig, strsignal(sig),
             dumped ? ", core dumped" : "",
             jobs->opt->launch == LAUNCH_STEP && (sig == SIGKILL || sig == SIGTERM)
                 ? ", as when Slurm cancels the step or its time is over"
                 : "");
    ended_badly(r, STATUS_SIGNAL + sig, text);
}

static void rank_exited(struct rank *r, int code)
{
    struct jobs *jobs = r->job->jobs;
    char name[RANK_NAME_BYTES], text[512];

    rank_name(r, name);
    if (r->pmi_state == PMIWIRE_CONN_INITED && (code || !jobs->opt->as_hydra)) {
        snprintf(text, sizeof(text),
                 "%s (pid %d, %.200s) exited with status %d after PMI init, without finalize", name,
                 (int)r->pid, program_name(r), code);
        ended_badly(r, code ? code : STATUS_NOFINALIZE, text);
    } else if (code && !jobs->status_set) {
        say("%s (pid %d, %s) exited with status %d", name, (int)r->pid, program_name(r), code);
        job_set_status(jobs, code);
    }
}

/* ---- what it does meanwhile ---- */

/* For --progress and --timeline. */
static void note_state(const struct rank *r, uint32_t state)
{
    struct jobs *jobs = r->job->jobs;

    if (state == PMIWIRE_CONN_INITED) {
        progress_count(jobs->progress, PROGRESS_INITED);
        timeline_rank(jobs->timeline, r, TIMELINE_INIT, 0);
    } else if (state == PMIWIRE_CONN_FINALIZED) {
        progress_count(jobs->progress, PROGRESS_FINALIZED);
        timeline_rank(jobs->timeline, r, TIMELINE_FINALIZE, 0);
    }
}

void job_rank_state(struct rank *r, uint32_t state)
{
    struct jobs *jobs = r->job->jobs;
    uint64_t t = run_ns();

    if (state != PMIWIRE_CONN_FAILED)
        r->pmi_state = state;
    else if (r->pmi_state == PMIWIRE_CONN_INITED)
        r->hung_up = true;
    note_state(r, state);
    if (jobs->agent) {
        agent_report_rank(jobs->agent, MSG_STATE, r, state);
        return;
    }
    trace("%u:%u pid %d PMI %s", r->job->number, r->number, (int)r->pid,
          state == PMIWIRE_CONN_INITED      ? "init"
          : state == PMIWIRE_CONN_FINALIZED ? "finalize"
                                            : "ends");
    if (state == PMIWIRE_CONN_INITED) {
        if (!jobs->at.first_init)
            jobs->at.first_init = t;
        jobs->at.last_init = t;
    } else if (state == PMIWIRE_CONN_FINALIZED) {
        if (!jobs->at.first_finalize)
            jobs->at.first_finalize = t;
        jobs->at.last_finalize = t;
    }
}

void job_rank_aborted(struct rank *r, int32_t exitcode, const char *message)
{
    struct jobs *jobs = r->job->jobs;
    char name[RANK_NAME_BYTES], text[512];
    int status = exitcode & 0xff;

    if (jobs->stopping || r->aborted || r->job->abandoned)
        return;
    r->aborted = true;
    if (jobs->agent) {
        agent_report_aborted(jobs->agent, r, exitcode, message);
        return;
    }
    if (exitcode != 0 && status == 0)
        status = 1; /* a shell sees 8 bits only: do not let 256 pass for success */
    snprintf(text, sizeof(text), "%s (pid %d, %.100s) aborted with code %d%s%s", rank_name(r, name),
             (int)r->pid, program_name(r), (int)exitcode, message[0] ? ": " : "", message);
    fail_rank(r, status, text);
}

/* ---- the end of a job ---- */

/* Its last rank here has ended. */
static void job_ended(struct job *job)
{
    struct jobs *jobs = job->jobs;

    if (job->ended)
        return;
    job->ended = true;
    if (jobs->head)
        head_drop_names(jobs->head, job);
    else if (!jobs->agent) /* else other nodes may still ask here */
        pmi_remove_job(job);
}

/* True when no further message about this job can arrive. */
static bool is_over(const struct job *job)
{
    const struct jobs *jobs = job->jobs;

    if (job->n_live || (jobs->cause.by && jobs->cause.by->job == job) ||
        (jobs->stuck.gone && jobs->stuck.gone->job == job))
        return false;
    if (!is_settled(job))
        return false;
    for (uint32_t i = 0; i < job->n_local; i++)
        if (output_is_open(&job->ranks[i].out) || output_is_open(&job->ranks[i].err) ||
            job->ranks[i].conn)
            return false;
    return true;
}

/* Else a program that spawns job after job would make pmirun grow without bound. */
void job_free_ended(struct jobs *jobs)
{
    struct job **p = &jobs->first;

    while (*p && !jobs->stopping) {
        struct job *job = *p;

        if (!job->spawned || !is_over(job)) {
            p = &job->next;
            continue;
        }
        trace("job %u is over", job->number);
        job_ended(job);
        if (jobs->head)
            head_order(jobs->head, MSG_OVER, job->number);
        if (jobs->agent)
            pmi_remove_job(job);
        *p = job->next;
        if (!*p)
            jobs->tail = p;
        job_free(job);
    }
}

/* By hydra's rules a job waits for processes that have a rank's output. If they have its PMI
 * connection too, the rank ends well when either ends. */
static bool is_outlived(struct rank *r, const siginfo_t *si)
{
    struct jobs *jobs = r->job->jobs;

    if (!jobs->opt->as_hydra || jobs->stopping || si->si_code != CLD_EXITED || si->si_status)
        return false;
    pmi_read_all(r);
    if (!r->conn)
        return false;
    trace("%u:%u pid %d has left its PMI connection to another process", r->job->number, r->number,
          (int)r->pid);
    rank_index_remove(&jobs->by_pid, r);
    guard_remove(jobs->guard, r->pid);
    r->outlived = true;
    jobs->leftovers.n_serving++;
    return true;
}

void job_rank_closed(struct rank *r)
{
    siginfo_t si = {.si_code = CLD_EXITED};

    if (!r->outlived)
        return;
    r->outlived = false;
    r->job->jobs->leftovers.n_serving--;
    job_rank_exited(r, &si);
}

void job_rank_silent(struct rank *r)
{
    if (r->outlived && !output_is_open(&r->out) && !output_is_open(&r->err))
        pmi_drain(r);
}

void job_rank_exited(struct rank *r, const siginfo_t *si)
{
    struct job *job = r->job;
    struct jobs *jobs = job->jobs;

    if (is_outlived(r, si))
        return;
    r->state = RANK_EXITED;
    r->exit_code = si->si_status + (si->si_code == CLD_EXITED ? 0 : STATUS_SIGNAL);
    rank_index_remove(&jobs->by_pid, r);
    guard_remove(jobs->guard, r->pid);
    if (!jobs->head)
        pmi_rank_ended(r);
    if (!jobs->head && job->way == MPI_PMIX)
        host_rank_gone(job->number, r->number, host_end_of(r, si), si->si_status);
    job->n_live--;
    if (job->n_live == 0 && job->unasked)
        mpi_detect_ended(job);
    jobs->n_live--;
    jobs->at.last_exit = loop.now_ns - loop.start_ns;
    timeline_rank(jobs->timeline, r, TIMELINE_EXIT,
                  (uint32_t)si->si_status | (si->si_code == CLD_EXITED ? 0 : TIMELINE_SIGNAL));
    if (!jobs->agent)
        trace("%u:%u pid %d %s %d", job->number, r->number, (int)r->pid,
              si->si_code == CLD_EXITED ? "exited with" : "died of", si->si_status);
    if (jobs->agent) {
        agent_report_exited(jobs->agent, r, si);
    } else if (!jobs->stopping && !job->abandoned && !r->aborted) {
        if (si->si_code == CLD_EXITED)
            rank_exited(r, si->si_status);
        else
            rank_died(r, si->si_status, si->si_code == CLD_DUMPED);
    }
    if (job->n_live == 0 && (job->abandoned || job->n_launched == job->n_local))
        job_ended(job);
}

void job_reap(struct jobs *jobs)
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
        r = rank_index_find(&jobs->by_pid, (uint32_t)si.si_pid);
        if (!r) {
            guard_reaped(jobs->guard, si.si_pid);
            if (jobs->head)
                head_reap_starter(jobs->head, &si);
            continue;
        }
        r->state = RANK_EXITED;        /* reaped: its pid is free */
        launch_settle(jobs->launcher); /* now pmirun knows whether its execve() failed */
        job_rank_exited(r, &si);
    }
}

/* ---- leftovers: as a subreaper we inherit every descendant whose parent has died ---- */

void job_note_inherited(struct leftovers *l)
{
    char path[64];
    FILE *f;
    int pid;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    f = fopen(path, "re");
    while (f && fscanf(f, "%d", &pid) == 1) {
        l->inherited = xrealloc(l->inherited, (l->n_inherited + 1) * sizeof(pid_t));
        l->inherited[l->n_inherited++] = pid;
    }
    if (f)
        fclose(f);
}

static bool is_inherited(const struct leftovers *leftovers, pid_t pid)
{
    for (size_t i = 0; i < leftovers->n_inherited; i++)
        if (leftovers->inherited[i] == pid)
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
        say("process %d (%s) outlives the rank that has started it, and is ended; --ends hydra "
            "lets it run",
            pid, name);
    if (f)
        fclose(f);
}

static bool signal_leftovers(struct jobs *jobs, int sig)
{
    char path[64];
    bool found = false;
    FILE *f;
    int pid;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    f = fopen(path, "re");
    while (f && fscanf(f, "%d", &pid) == 1) {
        if (pid == jobs->guard->pid || is_inherited(&jobs->leftovers, pid) ||
            rank_index_find(&jobs->by_pid, (uint32_t)pid))
            continue;
        found = true;
        trace("process %d outlives its rank: signal %d", pid, sig);
        if (sig == SIGTERM && !jobs->stopping)
            say_ended(&jobs->leftovers, pid);
        if (sig)
            kill(pid, sig);
        if (sig == SIGTERM)
            kill(pid, SIGCONT);
    }
    if (f)
        fclose(f);
    return found;
}

bool job_sweep(struct jobs *jobs)
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
    job_reap(jobs);
    jobs->leftovers.clean = !signal_leftovers(jobs, sig);
    timer_set(sweep, loop.now_ns + SWEEP_EVERY_NS);
    return jobs->leftovers.clean;
}
