/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs and ranks: their start, their end, and what a rank's end means for its job. */
#define _GNU_SOURCE
#include "job.h"

#include "bind.h"
#include "ompi_binding.h"
#include "gather.h"
#include "host.h"
#include "launch.h"
#include "pmirun.h"
#include "spawn.h"
#include "table.h"
#include "mpi_detect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pmiwire/mapping.h>

#define SWEEP_EVERY_NS (20 * NS_PER_MS)
/* an abort waits this long for the end of a rank that hung up */
#define DYING_NS     NS_PER_S
#define NODES_NS     (50 * NS_PER_MS) /* and this long for reports of other nodes */
#define SAID_AT_MOST 4u               /* processes that are ended with their rank, by name */
/* for processes to end by themselves when a collective cannot complete */
#define STUCK_NS NS_PER_S

/* ---- creation ---- */

uint32_t job_pid_of(const struct rank *r)
{
    return (uint32_t)r->pid;
}

/* Unique among jobs, later ones too, and of characters that every peer can carry. */
static void make_kvsname(const struct pmirun *pr, struct job *job)
{
    char host[33] = "";
    size_t n = 0;

    gethostname(host, sizeof(host) - 1);
    for (size_t i = 0; host[i]; i++)
        if ((host[i] >= 'a' && host[i] <= 'z') || (host[i] >= 'A' && host[i] <= 'Z') ||
            (host[i] >= '0' && host[i] <= '9') || host[i] == '-' || host[i] == '.')
            host[n++] = host[i];
    host[n] = '\0';
    snprintf(job->kvsname, sizeof(job->kvsname), "kvs_%d_%u_%08x%08x_%s", (int)getpid(), pr->n_jobs,
             random_u32(), random_u32(), n ? host : "node");
}

/* PMI_process_mapping. Without it MPICH compares host names, so failing is harmless. */
static void set_mapping(struct pmiwire_server *server, const struct job *job)
{
    uint32_t *zeros = job->node_of ? NULL : calloc(job->n_ranks, sizeof(*zeros)),
             *node_of = job->node_of ? job->node_of : zeros;
    char text[PMIWIRE_MAPPING_MPICH40_BYTES + 1];

    if (node_of && pmiwire_mapping_encode(node_of, job->n_ranks, PMIWIRE_MAPPING_CLASSIC,
                                          sizeof(text) - 1, text, sizeof(text)) > 0)
        pmiwire_server_job_attr(server, job->id, pmiwire_strz("PMI_process_mapping"),
                                pmiwire_strz(text));
    free(zeros);
}

/* The program of each rank, by the order of the groups. */
static uint32_t *number_apps(const struct job *job)
{
    uint32_t *appnum = calloc(job->n_ranks, sizeof(*appnum));

    for (uint32_t i = 0, k = 0; appnum && i < job->n_apps; i++)
        for (uint32_t j = 0; j < job->apps[i].n_procs; j++)
            appnum[k++] = i;
    return appnum;
}

static int add_to_engine(struct pmirun *pr, struct job *job)
{
    uint32_t *appnum = number_apps(job);
    struct pmiwire_job_opts opts = {.size = sizeof(opts)};
    int rc;

    if (!appnum)
        return -ENOMEM;
    opts.kvsname = job->kvsname;
    opts.n_ranks = job->n_ranks;
    opts.number = job->number;
    opts.node = pr->agent ? agent_node(pr) : 0;
    opts.node_of = job->node_of;
    opts.design = pr->opt.design;
    opts.universe_size = pr->opt.universe_size;
    opts.appnum = appnum;
    opts.spawner_jobid = job->spawner;
    opts.cookie = job;
    rc = pmiwire_server_job_add(pr->server, &opts, &job->id);
    free(appnum);
    if (rc != 0)
        return rc;
    set_mapping(pr->server, job);
    rc = pmiwire_server_advertise(pr->server, job->id, PMIWIRE_EXT_SERVER, pmiwire_strz("1"));
    if (rc == 0)
        rc = pmiwire_server_advertise(pr->server, job->id, PMIWIRE_EXT_EXCHANGE, pmiwire_strz("1"));
    if (rc == 0)
        rc = pmiwire_server_advertise(pr->server, job->id, PMIWIRE_EXT_BYTES, pmiwire_strz("1"));
    if (rc == 0)
        table_create(pr, job);
    else
        pmiwire_server_job_remove(pr->server, job->id);
    return rc;
}

/* Is this rank in `ranks`? An agent has only its own there. */
static bool is_known(const struct pmirun *pr, const struct job *job, uint32_t rank)
{
    return !pr->agent || job->node_of[rank] == agent_node(pr);
}

/* The ranks that we know, each with its program, node, and number there. */
static int make_ranks(struct pmirun *pr, struct job *job)
{
    uint32_t *n_on = calloc(pr->opt.n_nodes + 1, sizeof(*n_on)), k = 0;

    for (uint32_t i = 0; i < job->n_ranks; i++)
        job->n_local += is_known(pr, job, i);
    job->ranks = calloc(job->n_local ? job->n_local : 1, sizeof(*job->ranks));
    if (!job->ranks || !n_on) {
        free(n_on);
        return -ENOMEM;
    }
    for (uint32_t i = 0, number = 0; i < job->n_apps; i++) {
        for (uint32_t j = 0; j < job->apps[i].n_procs; j++, number++) {
            uint32_t node = job->node_of ? job->node_of[number] : 0;
            struct rank *r = &job->ranks[k];

            if (!is_known(pr, job, number))
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
            r->out.sink = &pr->output.out;
            r->err.sink = &pr->output.err;
        }
    }
    free(n_on);
    return 0;
}

void job_free(struct pmirun *pr, struct job *job)
{
    for (uint32_t i = 0; job->ranks && i < job->n_local; i++)
        port_forget(pr, &job->ranks[i]);
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

struct job *job_create(struct pmirun *pr, const struct job_plan *plan, int *err)
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
    job->number = plan->kvsname ? plan->number : pr->n_jobs;
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
        make_kvsname(pr, job);
    *err = job->spawned && !job->spawner ? -ENOMEM : make_ranks(pr, job);
    if (*err == 0 && !pr->head) /* whose agents serve the ranks */
        *err = add_to_engine(pr, job);
    if (*err) {
        job->spawned = false; /* its programs stay the caller's */
        job_free(pr, job);
        return NULL;
    }
    pr->n_jobs = job->number + 1;
    pr->n_ranks += job->n_local;
    *pr->jobs_tail = job;
    pr->jobs_tail = &job->next;
    return job;
}

struct job *job_create_first(struct pmirun *pr, uint32_t *node_of)
{
    struct job_plan plan = {.apps = pr->opt.apps, .n_apps = pr->opt.n_apps, .node_of = node_of};
    int err;
    struct job *job = job_create(pr, &plan, &err);

    if (!job)
        die(STATUS_RESOURCES, "cannot start the job: %s", any_strerror(err));
    return job;
}

struct job *job_by_number(const struct pmirun *pr, uint32_t number)
{
    struct job *job = pr->jobs;

    while (job && job->number != number)
        job = job->next;
    return job;
}

struct job *job_by_id(const struct pmirun *pr, uint32_t id)
{
    struct job *job = pr->jobs;

    while (job && job->id != id)
        job = job->next;
    return job;
}

uint32_t job_others(const struct pmirun *pr, const struct job *job)
{
    uint32_t n = 0;

    for (const struct job *j = pr->jobs; j; j = j->next)
        n += j != job && !j->ended ? j->n_local : 0;
    return n;
}

bool job_was(const struct pmirun *pr, uint32_t number)
{
    return number < pr->n_jobs &&
           !job_by_number(pr, number); /* numbers grow, and agents learn of jobs in that order */
}

void job_queue(struct pmirun *pr, struct job *job)
{
    *pr->launch_tail = job;
    pr->launch_tail = &job->next_launch;
}

/* ---- the end ---- */

void job_set_status(struct pmirun *pr, int status)
{
    if (pr->agent) {
        agent_report_failure(pr, status);
        return;
    }
    if (pr->status_set)
        return;
    pr->status = status;
    pr->status_set = true;
}

/* Signals the descendants whose rank has ended, 0: none. True if there are any. */
static bool signal_leftovers(struct pmirun *pr, int sig);

/* Each rank leads a process group, so that a wrapper's children are reached too. */
static void signal_rank(const struct rank *r, int sig)
{
    if (r->state == RANK_RUNNING && kill(-r->pid, sig) != 0)
        kill(r->pid, sig);
}

void job_kill_all(struct pmirun *pr, int sig)
{
    if (pr->head) {
        head_signal_ranks(pr, sig);
        return;
    }
    launch_land_all(pr);
    for (struct job *job = pr->jobs; job; job = job->next)
        for (uint32_t i = 0; i < job->n_launched && job->n_live > 0; i++)
            signal_rank(&job->ranks[i], sig);
    if (pr->leftovers.n_serving)
        (void)signal_leftovers(pr, sig);
}

void job_stop(struct pmirun *pr, int status)
{
    if (pr->agent) { /* the head decides */
        agent_report_fatal(pr, status);
        return;
    }
    job_set_status(pr, status);
    if (pr->stopping)
        return;
    pr->status = status; /* the cause of the stop outweighs an earlier quiet failure of a rank */
    trace(pr, "stopping the job, status %d", status);
    job_stop_all(pr);
}

void job_stop_all(struct pmirun *pr)
{
    pr->stopping = true;
    pr->launch = NULL;
    pr->launch_tail = &pr->launch;
    if (pr->head)
        head_stop_launch(pr);
    host_stop(pr);
    job_kill_all(pr, SIGTERM);
    job_kill_all(pr, SIGCONT); /* a stopped process would not see SIGTERM */
    timer_set(pr, &pr->kill, pr->now_ns + GRACE_NS, NULL);
    timer_set(pr, &pr->drain, pr->now_ns + 2 * GRACE_NS, NULL);
}

void job_kill_late(struct pmirun *pr)
{
    if (!pr->stopping || !pr->n_live || !timer_passed(pr, &pr->kill))
        return;
    job_kill_all(pr, SIGKILL);
    timer_set(pr, &pr->kill, pr->now_ns + NS_PER_S, NULL);
}

void job_hasten(struct pmirun *pr)
{
    if (pr->stopping && !pr->hasty)
        timer_set(pr, &pr->drain, pr->now_ns + 2 * GRACE_NS, NULL);
    pr->hasty = true;
}

bool job_is_hasty(const struct pmirun *pr)
{
    return pr->stopping && pr->hasty;
}

void job_give_time(struct pmirun *pr)
{
    const uint64_t last_words = pr->now_ns + LAST_WORDS_NS;

    if (!job_is_hasty(pr) && pr->drain.at < last_words)
        timer_set(pr, &pr->drain, last_words, NULL);
}

void job_abandon(struct pmirun *pr, struct job *job, int err)
{
    if (job->abandoned)
        return;
    job->abandoned = true;
    if (pr->head) {
        head_abandon_job(pr, job);
    } else {
        launch_drop(pr, job);
        for (uint32_t i = 0; i < job->n_local; i++)
            signal_rank(&job->ranks[i], SIGKILL);
    }
    spawn_launched(pr, job, err);
}

static const char *program_name(const struct rank *r)
{
    return r->app->argv[0];
}

/* ---- what stops the job ---- */

/*
 * Ranks that lose a peer abort or end; then the peer's end is the cause to report, not theirs. The
 * kernel closes a dying process's descriptors before it can be reaped: first the lowest, its PMI
 * connection, then those that peers watch. So an abort is judged at the end of a batch of events,
 * after all dead processes are reaped. While a rank has hung up but not ended, judgement waits for
 * its end, at most DYING_NS.
 */
static void fail_rank(struct pmirun *pr, struct rank *r, int status, const char *text)
{
    struct cause *c = &pr->cause;

    if (c->by && r != pr->stuck.gone) /* whom the others' collective waits for outweighs them */
        return;
    *c = (struct cause){.by = r, .status = status, .since_ns = pr->now_ns};
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
static void ended_badly(struct pmirun *pr, struct rank *r, int status, const char *text)
{
    /* another rank may be the cause */
    if ((pr->stuck.gone && pr->stuck.gone != r) || somebody_is_dying(pr->jobs)) {
        fail_rank(pr, r, status, text);
        return;
    }
    say(pr, "%s; stopping the job", text);
    job_stop(pr, status);
}

void job_stuck(struct pmirun *pr, struct job *job, uint32_t rank, uint32_t coll, uint32_t why)
{
    if (pr->agent)
        agent_report_stuck(pr, job, rank, coll, why);
    else if (!pr->stopping && !job->abandoned && !pr->stuck.gone && rank < job->n_ranks)
        pr->stuck = (struct stuck){&job->ranks[rank], coll, why, pr->now_ns};
}

bool job_end_is_pending(const struct pmirun *pr)
{
    return pr->cause.by || pr->stuck.gone;
}

/* Has the start of all its ranks, on all nodes, succeeded or failed? An agent learns it from its
 * head. */
static bool is_settled(const struct pmirun *pr, const struct job *job)
{
    if (pr->agent)
        return job->over;
    if (pr->head)
        return job->abandoned ? job->n_gave_up == job->n_members : job->n_launching == 0;
    return job->abandoned || job->n_launched == job->n_local;
}

/* Have all processes ended? A head may not know yet that some have started. */
static bool is_all_over(const struct pmirun *pr)
{
    if (pr->n_live)
        return false;
    for (const struct job *job = pr->jobs; job; job = job->next)
        if (!is_settled(pr, job))
            return false;
    return true;
}

uint64_t job_decision_ns(const struct pmirun *pr)
{
    uint64_t at = UINT64_MAX;

    if (!job_end_is_pending(pr))
        return 0;
    if (pr->stopping || is_all_over(pr))
        return pr->now_ns;
    if (pr->cause.by)
        at = pr->cause.since_ns + (somebody_is_dying(pr->jobs) ? DYING_NS
                                   : pr->head                  ? NODES_NS
                                                               : 0);
    if (pr->stuck.gone && pr->stuck.since_ns + STUCK_NS < at)
        at = pr->stuck.since_ns + STUCK_NS;
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

static void say_stuck(struct pmirun *pr, const char *then)
{
    static const char *const colls[] = {"a fence", "an Allgather", "a Ring"};
    const struct stuck *s = &pr->stuck;
    char name[RANK_NAME_BYTES];

    say(pr, "%s (pid %d, %s) %s: %s that other ranks wait in cannot complete%s",
        rank_name(pr, s->gone, name), (int)s->gone->pid, program_name(s->gone), how_it_is_gone(s),
        s->coll < sizeof(colls) / sizeof(colls[0]) ? colls[s->coll] : "a barrier", then);
}

void job_decide_end(struct pmirun *pr)
{
    struct cause *c = &pr->cause;
    int status;

    if (pr->stuck.gone && pr->stuck.gone->job->abandoned) /* it ends as it is, and nothing else */
        pr->stuck.gone = NULL;
    if (c->by && c->by->job->abandoned)
        c->by = NULL;
    if (!job_end_is_pending(pr))
        return;
    job_reap(pr);
    if (pr->now_ns < job_decision_ns(pr))
        return;
    if (!pr->stopping) {
        status = STATUS_STUCK;
        if (pr->stuck.gone && pr->status_set) /* of the first that failed */
            status = pr->status;
        else if (c->by)
            status = c->status;
        if (pr->stuck.gone)
            say_stuck(pr, c->by ? "" : "; stopping the job");
        if (c->by)
            say(pr, "%s; stopping the job", c->text);
        job_stop(pr, status);
    }
    c->by = NULL;
    pr->stuck.gone = NULL;
}

/* ---- how a rank ends ---- */

static void rank_died(struct pmirun *pr, struct rank *r, int sig, bool dumped)
{
    char name[RANK_NAME_BYTES], text[512];

    /* The user sent a signal that pmirun forwarded: it needs no explanation. */
    if (sig == pr->signals.last) {
        job_stop(pr, STATUS_SIGNAL + sig);
        return;
    }
    snprintf(text, sizeof(text), "%s (pid %d, %.200s) died of signal %d (%s%s)%s",
             rank_name(pr, r, name), (int)r->pid, program_name(r), sig, strsignal(sig),
             dumped ? ", core dumped" : "",
             pr->opt.launch == LAUNCH_STEP && (sig == SIGKILL || sig == SIGTERM)
                 ? ", as when Slurm cancels the step or its time is over"
                 : "");
    ended_badly(pr, r, STATUS_SIGNAL + sig, text);
}

static void rank_exited(struct pmirun *pr, struct rank *r, int code)
{
    char name[RANK_NAME_BYTES], text[512];

    rank_name(pr, r, name);
    if (r->pmi_state == PMIWIRE_CONN_INITED && (code || !pr->opt.as_hydra)) {
        snprintf(text, sizeof(text),
                 "%s (pid %d, %.200s) exited with status %d after PMI init, without finalize", name,
                 (int)r->pid, program_name(r), code);
        ended_badly(pr, r, code ? code : STATUS_NOFINALIZE, text);
    } else if (code && !pr->status_set) {
        say(pr, "%s (pid %d, %s) exited with status %d", name, (int)r->pid, program_name(r), code);
        job_set_status(pr, code);
    }
}

/* ---- what it does meanwhile ---- */

/* For --progress and --timeline. */
static void note_state(struct pmirun *pr, const struct rank *r, uint32_t state)
{
    if (state == PMIWIRE_CONN_INITED) {
        progress_count(pr, PROGRESS_INITED);
        timeline_rank(pr, r, TIMELINE_INIT, 0);
    } else if (state == PMIWIRE_CONN_FINALIZED) {
        progress_count(pr, PROGRESS_FINALIZED);
        timeline_rank(pr, r, TIMELINE_FINALIZE, 0);
    }
}

void job_rank_state(struct pmirun *pr, struct rank *r, uint32_t state)
{
    uint64_t t = clock_ns() - pr->start_ns;

    if (state != PMIWIRE_CONN_FAILED)
        r->pmi_state = state;
    else if (r->pmi_state == PMIWIRE_CONN_INITED)
        r->hung_up = true;
    note_state(pr, r, state);
    if (pr->agent) {
        agent_report_state(pr, r, state);
        return;
    }
    trace(pr, "%u:%u pid %d PMI %s", r->job->number, r->number, (int)r->pid,
          state == PMIWIRE_CONN_INITED      ? "init"
          : state == PMIWIRE_CONN_FINALIZED ? "finalize"
                                            : "ends");
    if (state == PMIWIRE_CONN_INITED) {
        if (!pr->at.first_init)
            pr->at.first_init = t;
        pr->at.last_init = t;
    } else if (state == PMIWIRE_CONN_FINALIZED) {
        if (!pr->at.first_finalize)
            pr->at.first_finalize = t;
        pr->at.last_finalize = t;
    }
}

void job_rank_aborted(struct pmirun *pr, struct rank *r, int32_t exitcode, const char *message)
{
    char name[RANK_NAME_BYTES], text[512];
    int status = exitcode & 0xff;

    if (pr->stopping || r->aborted || r->job->abandoned)
        return;
    r->aborted = true;
    if (pr->agent) {
        agent_report_aborted(pr, r, exitcode, message);
        return;
    }
    if (exitcode != 0 && status == 0)
        status = 1; /* a shell sees 8 bits only: do not let 256 pass for success */
    snprintf(text, sizeof(text), "%s (pid %d, %.100s) aborted with code %d%s%s",
             rank_name(pr, r, name), (int)r->pid, program_name(r), (int)exitcode,
             message[0] ? ": " : "", message);
    fail_rank(pr, r, status, text);
}

/* ---- the end of a job ---- */

/* No process can ask for its pairs now, and no connection keeps the server's job: a rank's is
 * closed when the rank ends. */
static void forget_pairs(struct pmirun *pr, struct job *job)
{
    if (job->way == MPI_PMIX)
        host_job_over(pr, job->number);
    pmiwire_server_job_remove(pr->server, job->id);
    table_destroy(job);
    gather_destroy(job);
}

/* Its last rank here has ended. */
static void job_ended(struct pmirun *pr, struct job *job)
{
    if (job->ended)
        return;
    job->ended = true;
    if (pr->head)
        pmiwire_server_names_drop(pr->server, job->number);
    else if (!pr->agent) /* else other nodes may still ask here */
        forget_pairs(pr, job);
}

/* True when no further message about this job can arrive. */
static bool is_over(const struct pmirun *pr, const struct job *job)
{
    if (job->n_live || (pr->cause.by && pr->cause.by->job == job) ||
        (pr->stuck.gone && pr->stuck.gone->job == job))
        return false;
    if (!is_settled(pr, job))
        return false;
    for (uint32_t i = 0; i < job->n_local; i++)
        if (output_is_open(&job->ranks[i].out) || output_is_open(&job->ranks[i].err) ||
            job->ranks[i].conn)
            return false;
    return true;
}

/* Else a program that spawns job after job would make pmirun grow without bound. */
void job_free_ended(struct pmirun *pr)
{
    struct job **p = &pr->jobs;

    while (*p && !pr->stopping) {
        struct job *job = *p;

        if (!job->spawned || !is_over(pr, job)) {
            p = &job->next;
            continue;
        }
        trace(pr, "job %u is over", job->number);
        job_ended(pr, job);
        if (pr->head)
            head_announce_end(pr, job);
        if (pr->agent)
            forget_pairs(pr, job);
        *p = job->next;
        if (!*p)
            pr->jobs_tail = p;
        job_free(pr, job);
    }
}

/* By hydra's rules a job waits for processes that have a rank's output. If they have its PMI
 * connection too, the rank ends well when either ends. */
static bool is_outlived(struct pmirun *pr, struct rank *r, const siginfo_t *si)
{
    if (!pr->opt.as_hydra || pr->stopping || si->si_code != CLD_EXITED || si->si_status)
        return false;
    pmi_read_all(pr, r);
    if (!r->conn)
        return false;
    trace(pr, "%u:%u pid %d has left its PMI connection to another process", r->job->number,
          r->number, (int)r->pid);
    rank_index_remove(&pr->by_pid, r);
    guard_remove(pr, r->pid);
    r->outlived = true;
    pr->leftovers.n_serving++;
    return true;
}

void job_rank_closed(struct pmirun *pr, struct rank *r)
{
    siginfo_t si = {.si_code = CLD_EXITED};

    if (!r->outlived)
        return;
    r->outlived = false;
    pr->leftovers.n_serving--;
    job_rank_exited(pr, r, &si);
}

void job_rank_silent(struct pmirun *pr, struct rank *r)
{
    if (r->outlived && !output_is_open(&r->out) && !output_is_open(&r->err))
        pmi_drain(pr, r);
}

void job_rank_exited(struct pmirun *pr, struct rank *r, const siginfo_t *si)
{
    struct job *job = r->job;

    if (is_outlived(pr, r, si))
        return;
    r->state = RANK_EXITED;
    r->exit_code = si->si_status + (si->si_code == CLD_EXITED ? 0 : STATUS_SIGNAL);
    rank_index_remove(&pr->by_pid, r);
    guard_remove(pr, r->pid);
    /* Its last message may still be in the socket: finalize, or an abort. */
    pmi_drain(pr, r);
    if (!pr->head)
        pmiwire_server_rank_ended(pr->server, job->id, r->number);
    if (!pr->head && job->way == MPI_PMIX)
        host_rank_gone(pr, job->number, r->number, host_end_of(r, si), si->si_status);
    job->n_live--;
    if (job->n_live == 0 && job->unasked)
        way_job_ended(pr, job);
    pr->n_live--;
    pr->at.last_exit = pr->now_ns - pr->start_ns;
    timeline_rank(pr, r, TIMELINE_EXIT,
                  (uint32_t)si->si_status | (si->si_code == CLD_EXITED ? 0 : TIMELINE_SIGNAL));
    if (!pr->agent)
        trace(pr, "%u:%u pid %d %s %d", job->number, r->number, (int)r->pid,
              si->si_code == CLD_EXITED ? "exited with" : "died of", si->si_status);
    if (pr->agent) {
        agent_report_exited(pr, r, si);
    } else if (!pr->stopping && !job->abandoned && !r->aborted) {
        if (si->si_code == CLD_EXITED)
            rank_exited(pr, r, si->si_status);
        else
            rank_died(pr, r, si->si_status, si->si_code == CLD_DUMPED);
    }
    if (job->n_live == 0 && (job->abandoned || job->n_launched == job->n_local))
        job_ended(pr, job);
}

void job_reap(struct pmirun *pr)
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
        r = rank_index_find(&pr->by_pid, (uint32_t)si.si_pid);
        if (!r) {
            guard_reaped(pr, si.si_pid);
            if (pr->head)
                head_reap_starter(pr, &si);
            continue;
        }
        r->state = RANK_EXITED; /* reaped: its pid is free */
        launch_settle(pr);      /* now pmirun knows whether its execve() failed */
        job_rank_exited(pr, r, &si);
    }
}

/* ---- leftovers: as a subreaper we inherit every descendant whose parent has died ---- */

void job_note_inherited(struct pmirun *pr)
{
    struct leftovers *l = &pr->leftovers;
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

static void say_ended(struct pmirun *pr, int pid)
{
    char path[64], name[16] = "";
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    f = fopen(path, "re");
    if (f && fscanf(f, "%15[^\n]", name) == 1 && pr->leftovers.n_said++ < SAID_AT_MOST)
        say(pr,
            "process %d (%s) outlives the rank that has started it, and is ended; --ends hydra "
            "lets it run",
            pid, name);
    if (f)
        fclose(f);
}

static bool signal_leftovers(struct pmirun *pr, int sig)
{
    char path[64];
    bool found = false;
    FILE *f;
    int pid;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    f = fopen(path, "re");
    while (f && fscanf(f, "%d", &pid) == 1) {
        if (is_inherited(&pr->leftovers, pid) || rank_index_find(&pr->by_pid, (uint32_t)pid))
            continue;
        found = true;
        trace(pr, "process %d outlives its rank: signal %d", pid, sig);
        if (sig == SIGTERM && !pr->stopping)
            say_ended(pr, pid);
        if (sig)
            kill(pid, sig);
        if (sig == SIGTERM)
            kill(pid, SIGCONT);
    }
    if (f)
        fclose(f);
    return found;
}

bool job_sweep(struct pmirun *pr)
{
    struct timer *sweep = &pr->leftovers.sweep;
    int sig;

    if (pr->leftovers.clean || (pr->opt.as_hydra && !pr->stopping))
        return true;
    if (sweep->waits && !timer_passed(pr, sweep))
        return false;
    if (!sweep->at)
        timer_set(pr, &pr->kill, pr->now_ns + GRACE_NS, NULL);
    sig = !sweep->at || pr->stopping ? SIGTERM : 0;
    if (timer_passed(pr, &pr->kill))
        sig = SIGKILL;
    job_reap(pr);
    pr->leftovers.clean = !signal_leftovers(pr, sig);
    timer_set(pr, sweep, pr->now_ns + SWEEP_EVERY_NS, NULL);
    return pr->leftovers.clean;
}
