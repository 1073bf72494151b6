/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment of ranks: pmirun's own variables, -x and the like, what is passed on, and what a
 * job sets for its MPI.
 */
#define _GNU_SOURCE
#include "rank_env.h"

#include "bind.h"
#include "guard.h"
#include "job.h"
#include "pmi.h"
#include "port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

#define MAX_OWN    5u /* variables of a rank, at most */
#define MAX_SHARED 6u /* variables of pmirun that all ranks get, at most */

/*
 * Variables that another launcher has set for pmirun would mislead a rank: an MPI library that
 * finds PMIx or Slurm step variables may take them for its own. Flux's two bring Open MPI to PMI-1
 * (mpi_detect.c); pmirun sets its own where a job needs them.
 */
static bool is_stale(const struct job *job, const char *var)
{
    static const char *const prefixes[] = {
        "PMI_",
        "PMI2_",
        "PMIX_",
        "SLURM_STEP",
        "SLURM_SRUN_",
        "SLURM_PMI",
        "SLURM_LAUNCH_NODE",
        "SLURM_PROCID=",
        "SLURM_LOCALID=",
        "SLURM_NODEID=",
        "SLURM_GTIDS=",
        "SLURM_TASK_PID=",
        "SLURM_MPI_TYPE=",
        "SLURM_DISTRIBUTION=",
        "MPI_LOCALRANKID=",
        "MPI_LOCALNRANKS=",
        "HYDI_CONTROL_FD=",
        "OMPI_COMM_WORLD_",
        "OMPI_MCA_orte_",
        "PRTE_",
        "PMIRUN_CPUSET=",
        "HYDRA_HOST_FILE=",
        NULL,
    };
    static const char *const flux[] = {"FLUX_JOB_ID=", "FLUX_PMI_LIBRARY_PATH=", NULL};

    return begins_with(var, prefixes) || (job->mpi == MPI_OPENMPI && begins_with(var, flux));
}

/* Does one of the strings NAME=... from `from` to `to` - 1 set this variable, NAME=...? */
static bool is_set_by(char *const *vars, size_t from, size_t to, const char *var)
{
    const size_t len = strcspn(var, "=");

    for (size_t i = from; i < to; i++)
        if (strncmp(vars[i], var, len) == 0 && vars[i][len] == '=')
            return true;
    return false;
}

bool app_sets(const struct app *app, const char *var, uint32_t from)
{
    return is_set_by(app->sets, from, app->n_sets, var);
}

/* Does the program get this variable of pmirun's, NAME=...? */
static bool passes_variable(const struct app *app, const char *var)
{
    const size_t len = strcspn(var, "=");

    if (app->env.what != ENV_SOME)
        return true;
    for (uint32_t i = 0; i < app->env.n_pass; i++)
        if (strlen(app->env.pass[i]) == len && memcmp(app->env.pass[i], var, len) == 0)
            return true;
    return false;
}

void app_env_make(struct app_env *env, const struct job *job, const struct app *app, int pmi_fd)
{
    static char spawned[] = "PMI_SPAWNED=1";
    const struct jobs *jobs = job->jobs;
    const size_t n_environ = strings_count(environ), n_vars = strings_count(job->vars);
    size_t n = 2u + jobs->opt->use_port + (job->mpi == MPI_PMIX) + (job->bound != NULL), n_ours;
    char **e =
        xrealloc(NULL, (MAX_OWN + MAX_SHARED + app->n_sets + n_environ + n_vars + 1) * sizeof(*e));

    if (jobs->opt->use_port)
        snprintf(env->pmi, sizeof(env->pmi), "PMI_PORT=127.0.0.1:%u", jobs->pmi->port->number);
    else /* and never PMI_ID: Slurm's libpmi2 would send it as srcid */
        snprintf(env->pmi, sizeof(env->pmi), "PMI_FD=%d", pmi_fd);
    snprintf(env->size, sizeof(env->size), "PMI_SIZE=%u", job->n_ranks);
    snprintf(env->local_size, sizeof(env->local_size), "MPI_LOCALNRANKS=%u", job->n_local);
    snprintf(env->job_id, sizeof(env->job_id), "PMI_JOBID=%s", job->kvsname);
    e[n++] = env->pmi;
    e[n++] = env->size;
    e[n++] = env->local_size;
    e[n++] = env->job_id;
    if (job->spawned)
        e[n++] = spawned;
    if (jobs->guard->ranks)
        e[n++] = jobs->guard->variable;
    n_ours = n;
    for (uint32_t i = 0; i < app->n_sets; i++)
        if (!app_sets(app, app->sets[i], i + 1))
            e[n++] = app->sets[i];
    for (size_t i = 0; i < n_environ; i++)
        if (passes_variable(app, environ[i]) && !is_stale(job, environ[i]) &&
            !app_sets(app, environ[i], 0))
            e[n++] = environ[i];
    for (size_t i = 0; i < n_vars; i++)
        if (!is_set_by(e, n_ours, n, job->vars[i]))
            e[n++] = job->vars[i];
    e[n] = NULL;
    env->vars = e;
    env->n = (uint32_t)n;
}

void app_env_free(struct app_env *env)
{
    free(env->vars);
    env->vars = NULL;
}

void rank_env_make(struct rank_env *own, const struct app_env *env, const struct rank *r)
{
    size_t n = 0;

    snprintf(own->rank, sizeof(own->rank), "PMI_RANK=%u", r->number);
    snprintf(own->local, sizeof(own->local), "MPI_LOCALRANKID=%u", r->local);
    snprintf(own->id, sizeof(own->id), "PMI_ID=%u", r->token);
    snprintf(own->pmix, sizeof(own->pmix), "PMIX_RANK=%u", r->number);
    own->vars = xrealloc(own->vars, (env->n + 1) * sizeof(*own->vars));
    memcpy(own->vars, env->vars, (env->n + 1) * sizeof(*own->vars));
    own->vars[n++] = own->rank;
    own->vars[n++] = own->local;
    if (r->job->jobs->opt->use_port)
        own->vars[n++] = own->id;
    if (r->job->mpi == MPI_PMIX)
        own->vars[n++] = own->pmix;
    if (r->job->bound)
        own->vars[n++] = r->job->bound->vars[r - r->job->ranks];
}
