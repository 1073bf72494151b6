/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs and ranks: their description, the list of all of them. */
#define _GNU_SOURCE
#include "job.h"

#include "loop.h"
#include "mpir.h"
#include "progress.h"
#include "role.h"
#include "timeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

void apps_free(struct app *apps, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        for (char **p = apps[i].argv; p && *p; p++)
            free(*p);
        for (uint32_t k = 0; k < apps[i].n_sets; k++)
            free(apps[i].sets[k]);
        for (uint32_t k = 0; k < apps[i].env.n_pass; k++)
            free(apps[i].env.pass[k]);
        free(apps[i].env.pass);
        free(apps[i].argv);
        free(apps[i].sets);
        free(apps[i].path);
        free(apps[i].wdir);
        free(apps[i].search);
        free(apps[i].hosts);
    }
    free(apps);
}

void job_free(struct job *job)
{
    for (char **p = job->vars; p && *p; p++)
        free(*p);
    free(job->vars);
    free(job->mpi_reason);
    if (job->spawned) /* else they belong to the command line, or live as long as it */
        apps_free(job->apps, job->n_apps);
    free(job->spawner);
    free(job->node_of);
    free(job->seats);
    free(job->ranks);
    free(job);
}

void job_var(struct job *job, char *owned)
{
    uint32_t n = 0;

    while (job->vars && job->vars[n])
        n++;
    strings_add(&job->vars, &n, owned);
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
    job->mpi = plan->mpi;
    if (plan->kvsname)
        snprintf(job->kvsname, sizeof(job->kvsname), "%s", plan->kvsname);
    else
        make_kvsname(job);
    *err = job->spawned && !job->spawner ? -ENOMEM : make_ranks(job);
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

static int rank_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = ((const struct rank *)b)->number;

    return x < y ? -1 : x > y;
}

struct rank *job_rank(const struct job *job, uint32_t number)
{
    return bsearch(&number, job->ranks, job->n_local, sizeof(*job->ranks), rank_compare);
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

void job_unqueue(const struct job *job)
{
    struct jobs *jobs = job->jobs;
    struct job **p = &jobs->launch;

    while (*p && *p != job)
        p = &(*p)->next_launch;
    if (!*p)
        return;
    *p = job->next_launch;
    if (!*p)
        jobs->launch_tail = p;
}

void jobs_unqueue_all(struct jobs *jobs)
{
    jobs->launch = NULL;
    jobs->launch_tail = &jobs->launch;
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

bool job_is_settled(const struct job *job)
{
    const struct jobs *jobs = job->jobs;

    if (jobs->agent)
        return job->over;
    if (jobs->head)
        return job->abandoned ? job->n_gave_up == job->n_members : job->n_launching == 0;
    return job->abandoned || job->n_launched == job->n_local;
}

/* ---- their start ---- */

void rank_started(struct rank *r, pid_t pid)
{
    struct jobs *jobs = r->job->jobs;

    r->pid = pid;
    r->state = RANK_RUNNING;
    r->job->n_live++;
    jobs->n_live++;
    timeline_rank(jobs->timeline, r, TIMELINE_LAUNCH, 0);
    progress_count(jobs->progress, PROGRESS_STARTED);
    if (jobs->agent)
        agent_report(
            jobs->agent, MSG_STARTED,
            &(struct report){.job = r->job->number, .rank = r->number, .value = (uint32_t)pid});
    else
        log_verbose("%u:%u pid %d started: %s", r->job->number, r->number, (int)pid,
                    jobs->head ? head_node_name(jobs->head, r->node) : r->app->path);
}

void job_started(struct job *job)
{
    struct jobs *jobs = job->jobs;

    if (job->number == 0)
        jobs->at.launch_end = run_ns();
    if (jobs->agent)
        agent_report(jobs->agent, MSG_LAUNCHED, &(struct report){.job = job->number});
    else if (job->number == 0)
        mpir_publish(job);
    else if (!job->abandoned)
        job->spawn_done = true;
}
