/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs and ranks: their description, the list of all of them. */
#define _GNU_SOURCE
#include "job.h"

#include "loop.h"
#include "mpir.h"
#include "progress.h"
#include "role.h"
#include "timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Unique among jobs, later ones too, and of characters that every peer can carry. */
static char *new_kvsname(uint32_t number)
{
    char host[33];
    size_t n = 0;

    for (const char *c = own_host(); *c && n < sizeof(host) - 1; c++)
        if ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
            *c == '-' || *c == '.')
            host[n++] = *c;
    host[n] = '\0';
    return xprintf("kvs_%d_%u_%08x%08x_%s", (int)getpid(), number, random_u32(), random_u32(),
                   n ? host : "node");
}

/* Is this rank in `ranks`? An agent has only its own there. */
static bool is_known(const struct job *job, uint32_t rank)
{
    const struct agent *agent = job->jobs->agent;

    return !agent || job->node_of[rank] == agent_node(agent);
}

/* The ranks that we know, each with its program, node, and number there. */
static void make_ranks(struct job *job)
{
    uint32_t *n_on = xzalloc((job->jobs->opt->n_nodes + 1) * sizeof(*n_on)), k = 0;

    for (uint32_t i = 0; i < job->n_ranks; i++)
        job->n_local += is_known(job, i);
    job->ranks = xzalloc(job->n_local * sizeof(*job->ranks));
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
}

void apps_free(struct app *apps, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        strings_free(apps[i].argv);
        strings_free(apps[i].sets);
        strings_free(apps[i].env.pass);
        free(apps[i].path);
        free(apps[i].wdir);
        free(apps[i].search);
        free(apps[i].hosts);
    }
    free(apps);
}

void job_var(struct job *job, char *owned)
{
    uint32_t n = (uint32_t)strings_count(job->vars);

    strings_add(&job->vars, &n, owned);
}

struct job *job_create(struct jobs *jobs, const struct job *plan)
{
    struct job *job = xrealloc(NULL, sizeof(*job)), **last = &jobs->first;

    *job = *plan;
    job->jobs = jobs;
    job->spawned = job->spawner != NULL;
    if (!job->kvsname) {
        job->number = jobs->n_jobs;
        job->kvsname = new_kvsname(job->number);
    }
    job->n_ranks = 0;
    for (uint32_t i = 0; i < job->n_apps; i++)
        job->n_ranks += job->apps[i].n_procs;
    make_ranks(job);
    jobs->n_jobs = job->number + 1;
    jobs->n_ranks += job->n_local;
    while (*last)
        last = &(*last)->next;
    *last = job;
    return job;
}

struct job *job_create_first(struct jobs *jobs, uint32_t *node_of)
{
    return job_create(
        jobs,
        &(struct job){.apps = jobs->opt->apps, .n_apps = jobs->opt->n_apps, .node_of = node_of});
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

bool job_was(const struct jobs *jobs, uint32_t number)
{
    return number < jobs->n_jobs &&
           !job_by_number(jobs, number); /* numbers grow, and agents learn of jobs in that order */
}

struct job *jobs_queued(const struct jobs *jobs)
{
    struct job *job = jobs->first;

    while (job && !job->queued)
        job = job->next;
    return job;
}

void jobs_unqueue_all(struct jobs *jobs)
{
    for (struct job *job = jobs->first; job; job = job->next)
        job->queued = false;
}

const char *node_name(const struct jobs *jobs, uint32_t node)
{
    return jobs->head ? head_node_name(jobs->head, node) : own_host();
}

const char *rank_name(const struct rank *r)
{
    const struct head *head = r->job->jobs->head;
    static char text[128];
    int n;

    if (r->job->number == 0)
        n = snprintf(text, sizeof(text), "rank %u", r->number);
    else
        n = snprintf(text, sizeof(text), "rank %u:%u", r->job->number, r->number);
    if (head)
        snprintf(text + n, sizeof(text) - (size_t)n, " on %s", head_node_name(head, r->node));
    return text;
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
