/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks' environment: variables that options set, and those passed on from pmirun's own. */
#define _GNU_SOURCE
#include "row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../local/job.h"
#include "../local/util.h"

/* The first n bytes are a name that a user may set. */
static void check_env_name(const struct parse *p, const char *name, size_t n)
{
    static const char *const ours[] = {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
    bool is_ours = n >= 4 && memcmp(name, "PMI_", 4) == 0;

    if (n == 0 || memchr(name, '=', n))
        usage_error(p, "%s: \"%s\" does not begin with a variable's name", p->word, name);
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        is_ours = is_ours || (n == strlen(ours[i]) && memcmp(name, ours[i], n) == 0);
    if (is_ours)
        usage_error(p, "%s %s: this variable is set by pmirun", p->word, name);
}

void set_x(struct parse *p, const struct option_row *row, char **value)
{
    struct app *app = p->app;
    const size_t n = strcspn(value[0], "=");

    check_env_name(p, value[0], n);
    if (value[0][n])
        strings_add(&app->sets, &app->n_sets, value[0]);
    else
        strings_add(&app->env.pass, &app->env.n_pass, value[0]);
    if (!value[0][n] && !getenv(value[0]))
        fprintf(stderr, "pmirun: warning: %s %s: pmirun's environment lacks this variable\n",
                p->word, value[0]);
}

/* VAR VALUE, or, as hydra takes it too, VAR=VALUE: then the second word is not the option's. */
static char *env_assignment(struct parse *p, char **value)
{
    const size_t n = strcspn(value[0], "=");

    check_env_name(p, value[0], n);
    if (value[0][n]) {
        p->at--;
        return value[0];
    }
    return xprintf("%s=%s", value[0], value[1]);
}

void set_env(struct parse *p, const struct option_row *row, char **value)
{
    if (row->scope == SCOPE_GROUP)
        strings_add(&p->app->sets, &p->app->n_sets, env_assignment(p, value));
    else
        strings_add(&p->opt->sets, &p->opt->n_sets, env_assignment(p, value));
}

void set_mca(struct parse *p, const struct option_row *row, char **value)
{
    static const char *const of_mpirun[] = {"rmaps_", "plm_",  "ras_",
                                            "orte_",  "prte_", "hwloc_base_"};

    check_env_name(p, value[0], strlen(value[0]));
    for (size_t i = 0; i < sizeof(of_mpirun) / sizeof(of_mpirun[0]); i++)
        if (strncmp(value[0], of_mpirun[i], strlen(of_mpirun[i])) == 0)
            fprintf(stderr,
                    "pmirun: warning: %s %s is a parameter of mpirun itself, without effect here; "
                    "use --map-by, --bind-to, -l or --launch-agent\n",
                    p->word, value[0]);
    strings_add(&p->opt->sets, &p->opt->n_sets, xprintf("OMPI_MCA_%s=%s", value[0], value[1]));
}

/* Of the group that is being read, or of all groups. */
static struct env *env_of(const struct parse *p, const struct option_row *row)
{
    return row->scope == SCOPE_GROUP ? &p->app->env : &p->opt->env;
}

/* Names, separated by commas: only these are passed on. */
void set_envlist(struct parse *p, const struct option_row *row, char **value)
{
    struct env *env = env_of(p, row);
    char *rest = xprintf("%s", value[0]), *name;

    env->what = ENV_SOME;
    while ((name = strsep(&rest, ","))) {
        if (!*name)
            usage_error(p, "%s \"%s\": a name of the list is empty", p->word, value[0]);
        check_env_name(p, name, strlen(name));
        strings_add(&env->pass, &env->n_pass, name);
    }
}

void set_envmode(struct parse *p, const struct option_row *row, char **value)
{
    env_of(p, row)->what = (enum env_mode)row->min;
}

void env_settle(const struct options *opt, struct app *app)
{
    char **own = app->sets;
    const uint32_t n_own = app->n_sets;

    if (app->env.what == ENV_UNSET) {
        app->env.what = opt->env.what;
        for (uint32_t i = 0; i < opt->env.n_pass; i++)
            strings_add(&app->env.pass, &app->env.n_pass, opt->env.pass[i]);
    }
    if (!opt->n_sets)
        return;
    app->sets = NULL; /* the group's follow the job's: the last of a name counts */
    app->n_sets = 0;
    for (uint32_t i = 0; i < opt->n_sets; i++)
        strings_add(&app->sets, &app->n_sets, opt->sets[i]);
    for (uint32_t i = 0; i < n_own; i++)
        strings_add(&app->sets, &app->n_sets, own[i]);
    free(own);
}
