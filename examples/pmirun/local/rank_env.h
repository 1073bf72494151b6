/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment of ranks. */
#ifndef PMIRUN_RANK_ENV_H
#define PMIRUN_RANK_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include <pmiwire/server.h>

struct app;
struct job;
struct rank;

/* What all ranks of a program get. The first entries are each rank's own. */
struct app_env {
    char **vars; /* NULL-terminated; NULL: not made */
    uint32_t n;
    char pmi[32], size[32], local_size[32], job_id[16 + PMIWIRE_DEFAULT_KVSNAME_MAX];
};

/* What one rank gets. */
struct rank_env {
    char **vars;
    char rank[32], local[32], id[32], pmix[32];
};

/* pmi_fd: where its PMI connection is, unless it uses a port. */
void app_env_make(struct app_env *env, const struct job *job, const struct app *app, int pmi_fd);
void app_env_free(struct app_env *env);
/* `own` may have been another rank's. It uses strings of env, of r's job and of `own`. */
void rank_env_make(struct rank_env *own, const struct app_env *env, const struct rank *r);
/* Does -x set this variable, NAME=..., by one of app->sets from this one on? */
bool app_sets(const struct app *app, const char *var, uint32_t from);

#endif
