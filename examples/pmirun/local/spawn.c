/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PMI spawn: a running rank asks for further processes. They become a job of their own, with its
 * own key-value space, output labelled `[job:rank]`, stdin from /dev/null.
 *
 * All or nothing, as for MPI_Comm_spawn without a `soft` list: before pmirun starts a process, it
 * must find every program and be able to honour every info key that it knows; else it refuses the
 * spawn, and standard error names the processes that caused it. If an execve() fails later (a
 * broken binary), pmirun kills the processes already started, and the spawn fails too.
 *
 * On several nodes an agent sends the programs to its head, which places them and has the agents
 * find them.
 */
#define _GNU_SOURCE
#include "spawn.h"

#include "../allocation.h"
#include "host.h"
#include "job.h"
#include "launch.h"
#include "mpi_detect.h"
#include "pmi.h"
#include "program.h"
#include "role.h"
#include "table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *copy_str(struct pmiwire_str s)
{
    return xprintf("%.*s", (int)s.len, s.ptr ? s.ptr : "");
}

static bool str_is(struct pmiwire_str s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0;
}

/* Applies one info key. NULL, or why it cannot be satisfied. MPI demands that unknown keys are
 * ignored. */
static const char *apply_info(struct app *app, const struct pmiwire_keyval *kv, bool is_alone)
{
    char **place = NULL;
    bool ok = true;

    if (str_is(kv->key, "wdir") || str_is(kv->key, "wd"))
        place = &app->wdir;
    else if (str_is(kv->key, "path"))
        place = &app->search;
    if (place) {
        free(*place);
        *place = copy_str(kv->value);
    } else if (!is_alone && (str_is(kv->key, "host") || str_is(kv->key, "hosts"))) {
        free(app->hosts);
        app->hosts = copy_str(kv->value); /* for head_place_ranks() */
    } else if (str_is(kv->key, SPAWN_ENV) && memchr(kv->value.ptr, '=', kv->value.len)) {
        strings_add(&app->sets, &app->n_sets, copy_str(kv->value));
    } else if (str_is(kv->key, "host") || str_is(kv->key, "hosts")) {
        char *list = copy_str(kv->value), *save = NULL;

        for (char *h = strtok_r(list, ", ", &save); h; h = strtok_r(NULL, ", ", &save))
            ok = ok && (host_is_own(h) || strcmp(h, "127.0.0.1") == 0);
        free(list);
    }
    return ok ? NULL : "processes can be started on this node only";
}

/* The program gets the same variables of pmirun's environment as its spawner. */
static void copy_env(struct env *env, const struct env *from)
{
    env->what = from->what;
    env->n_pass = from->n_pass;
    env->pass = xrealloc(NULL, (from->n_pass + 1) * sizeof(*env->pass));
    for (uint32_t i = 0; i < from->n_pass; i++)
        env->pass[i] = xprintf("%s", from->pass[i]);
    env->pass[from->n_pass] = NULL;
}

/* Fills in one program. NULL, or why it cannot be started. */
static const char *make_app(struct app *app, const struct pmiwire_spawn_cmd *cmd,
                            const struct app *spawner, bool is_alone)
{
    const char *why = NULL;
    int err;

    app->n_procs = cmd->maxprocs;
    app->argv = xrealloc(NULL, ((size_t)cmd->argc + 2) * sizeof(char *));
    app->argv[0] = copy_str(cmd->execname);
    for (uint32_t i = 0; i < cmd->argc; i++)
        app->argv[i + 1] = copy_str(cmd->argv[i]);
    app->argv[cmd->argc + 1] = NULL;
    app->wdir = spawner && spawner->wdir ? xprintf("%s", spawner->wdir) : NULL;
    for (uint32_t i = 0; spawner && i < spawner->n_sets; i++)
        strings_add(&app->sets, &app->n_sets, xprintf("%s", spawner->sets[i]));
    if (spawner)
        copy_env(&app->env, &spawner->env);
    for (uint32_t i = 0; i < cmd->n_info && !why; i++)
        why = apply_info(app, &cmd->info[i], is_alone);
    if (why)
        return why;
    if (app->search) { /* MPI's `path` is where to look first */
        const char *rest = getenv("PATH");
        char *both = xprintf("%s%s%s", app->search, rest ? ":" : "", rest ? rest : "");

        free(app->search);
        app->search = both;
    }
    err = is_alone ? program_resolve(app) : 0; /* else where it is to run */
    return err == 0 ? NULL : err == NO_WDIR ? "no such working directory" : strerror(err);
}

/* MPICH and Open MPI tell the error to the rank that has asked, and to no other. */
static void say_who_waits(const struct job *job)
{
    if (job->n_ranks > 1)
        log_message(
            "MPI_Comm_spawn has failed: with MPI_ERRORS_RETURN its other ranks wait for ever");
}

/* The requested programs; NULL after it has reported those that cannot be started. */
static struct app *make_apps(const struct rank *by, const struct pmiwire_spawn *req)
{
    struct app *apps = xzalloc(req->n_cmds * sizeof(*apps));
    bool bad = false;

    for (uint32_t i = 0; i < req->n_cmds; i++) {
        const char *why = make_app(&apps[i], &req->cmds[i], by->app, !by->job->jobs->agent);

        if (why) {
            bad = true;
            log_message("spawn by %s: %.500s: %.1000s", rank_name(by), apps[i].argv[0], why);
        }
    }
    if (!bad)
        return apps;
    say_who_waits(by->job);
    apps_free(apps, req->n_cmds);
    return NULL;
}

/* ---- starting them ---- */

/* The nodes to start it on. NULL: this one, or none (*bad), which it has reported. */
static uint32_t *place_spawned(const struct rank *by, const struct app *apps, uint32_t n_apps,
                               uint64_t n_procs, bool *bad)
{
    uint32_t *node_of, *next;

    if (!by->job->jobs->head)
        return NULL;
    next = node_of = xrealloc(NULL, n_procs * sizeof(*node_of));
    for (uint32_t i = 0; i < n_apps; i++) {
        if (!head_place_ranks(by->job->jobs->head, apps[i].n_procs, apps[i].hosts, next)) {
            *bad = true;
            log_message("spawn by %s: %.500s: this job has no such nodes: %.500s", rank_name(by),
                        apps[i].argv[0], apps[i].hosts);
        }
        next += apps[i].n_procs;
    }
    return node_of;
}

/* Processes of spawned jobs that run, or are to be started. */
static uint64_t n_spawned(const struct job *jobs)
{
    uint64_t n = 0;

    for (const struct job *job = jobs; job; job = job->next)
        for (uint32_t i = 0; job->spawned && i < job->n_local; i++)
            n += job->ranks[i].state == RANK_RUNNING ||
                 (job->ranks[i].state == RANK_WAITING && !job->abandoned);
    return n;
}

/* Checks --max-procs for n more. 0 or -EDQUOT. */
static int check_number(const struct rank *by, uint64_t n)
{
    const struct jobs *jobs = by->job->jobs;
    uint64_t now = n_spawned(jobs->first);

    if (now + n <= jobs->opt->max_spawned)
        return 0;
    log_message(
        "spawn by %s: cannot start %llu processes beside %llu spawned ones: the limit is %u "
        "(--max-procs)",
        rank_name(by), (unsigned long long)n, (unsigned long long)now, jobs->opt->max_spawned);
    return -EDQUOT;
}

/* Checks that n more processes have descriptors. 0 or -EMFILE. */
static int check_descriptors(const struct rank *by, uint64_t n)
{
    const struct jobs *jobs = by->job->jobs;
    char *why = jobs->head ? NULL : launch_check_limits(jobs->launcher, n, 0);

    if (!why)
        return 0;
    log_message("spawn by %s: %.1000s", rank_name(by), why);
    free(why);
    return -EMFILE;
}

struct job *spawn_create(struct rank *by, struct app *apps, uint32_t n_apps, uint64_t token,
                         int *err)
{
    struct jobs *jobs = by->job->jobs;
    struct job plan = {.apps = apps,
                       .n_apps = n_apps,
                       .spawner_rank = by->number,
                       /* who asks by PMI may have PMIx too */
                       .mpi = token & HOST_TOKEN ? MPI_PMIX : MPI_AUTO,
                       .spawn_token = token,
                       .spawn_node = by->node};
    struct job *job;
    uint64_t n = 0;
    bool bad = false;

    for (uint32_t i = 0; i < n_apps; i++)
        n += apps[i].n_procs;
    *err = jobs->stopping || n == 0 ? -EINVAL : 0;
    if (*err == 0 && jobs->opt->launch == LAUNCH_STEP) {
        log_message("spawn by %s: not possible in a step of Slurm; use pmirun --launch srun",
                    rank_name(by));
        *err = -ENOTSUP;
    }
    if (*err == 0)
        *err = check_number(by, n);
    if (*err == 0)
        *err = check_descriptors(by, n);
    if (*err == 0)
        plan.node_of = place_spawned(by, apps, n_apps, n, &bad);
    if (bad) {
        say_who_waits(by->job);
        free(plan.node_of);
        *err = -EINVAL;
    }
    if (*err) {
        apps_free(apps, n_apps);
        return NULL;
    }
    plan.spawner = xprintf("%s", by->job->kvsname);
    job = job_create(jobs, &plan);
    log_verbose("job %u of %u processes spawned by %u:%u", job->number, job->n_ranks,
                by->job->number, by->number);
    return job;
}

/* On the one node. 0 or an error. */
static int prepare_job(struct job *job, const struct rank *by, const struct pmiwire_spawn *req)
{
    char *why;
    int status, err = pmi_add_job(job->jobs->pmi, job);

    for (uint32_t i = 0; i < req->n_preput && err == 0; i++)
        err = table_put(job, req->preput[i].key, req->preput[i].value);
    if (err || (status = mpi_detect_choose(job, &why)) == 0)
        return err;
    log_message("spawn by %s: %s", rank_name(by), why);
    free(why);
    return status == STATUS_RESOURCES ? -ENOMEM : -ENOEXEC;
}

int spawn_for(struct rank *by, const struct pmiwire_spawn *req, uint64_t token)
{
    struct jobs *jobs = by->job->jobs;
    struct app *apps = jobs->stopping ? NULL : make_apps(by, req);
    struct job *job;
    int err;

    if (!apps)
        return -EINVAL;
    if (jobs->agent) {
        err = agent_spawn(jobs->agent, by, apps, req, token);
        apps_free(apps, req->n_cmds);
        if (err)
            say_who_waits(by->job);
        return err ? err : PMIWIRE_PENDING;
    }
    job = spawn_create(by, apps, req->n_cmds, token, &err);
    if (!job)
        return err;
    err = prepare_job(job, by, req);
    if (err) {
        job->abandoned = true; /* jobs_free_ended() frees it */
        return err;
    }
    job->queued = true;
    return PMIWIRE_PENDING;
}

void spawn_answer(struct job *job, int err)
{
    const struct jobs *jobs = job->jobs;

    if (err && !jobs->agent)
        say_who_waits(jobs->first);
    if (jobs->head)
        head_answer_spawn(jobs->head, job, err);
    else if (jobs->agent)
        agent_report(jobs->agent, MSG_FAILED,
                     &(struct report){.job = job->number, .value = (uint32_t)err});
    else if (job->spawn_token & HOST_TOKEN)
        host_answer(job->spawn_token, err, pmiwire_strz(job->kvsname));
    else
        pmiwire_server_spawn_done(job->server, job->spawn_token, err, job->kvsname, NULL, 0);
}
