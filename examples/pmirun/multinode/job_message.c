/* SPDX-License-Identifier: BSD-3-Clause */
#include "job_message.h"

#include <string.h>

#include "channel.h"

void report_put(struct msg *m, const struct report *r)
{
    msg_u32(m, r->job);
    msg_u32(m, r->rank);
    msg_u32(m, r->value);
    msg_u32(m, r->detail);
    msg_string(m, r->text);
}

void report_get(struct msg_in *in, struct report *r, char **text)
{
    r->job = get_u32(in);
    r->rank = get_u32(in);
    r->value = get_u32(in);
    r->detail = get_u32(in);
    r->text = *text = get_string(in);
}

static void field_mpi(struct msg_fields *f, enum mpi_mode *mode)
{
    uint32_t n = *mode;

    field_u32(f, &n);
    *mode = (enum mpi_mode)n;
    if (n > MPI_PMIX)
        f->in->bad = true;
}

void setup_fields(struct msg_fields *f, struct setup *s)
{
    struct options *opt = s->opt;
    uint32_t universe_size = (uint32_t)opt->universe_size;

    field_bool(f, &opt->use_port);
    field_bool(f, &opt->no_shm);
    field_bool(f, &opt->pmi_1_2);
    field_bool(f, &opt->verbose);
    field_bool(f, &opt->as_hydra);
    field_bool(f, &opt->one_host);
    field_bool(f, &opt->report_bindings);
    field_bool(f, &s->timeline);
    field_u32(f, &opt->design);
    field_u32(f, &opt->stdin_rank);
    field_mpi(f, &opt->mpi);
    field_option(f, &opt->map_by);
    field_option(f, &opt->bind_to);
    field_option(f, &opt->topology);
    field_u32(f, &universe_size);
    opt->universe_size = (int32_t)universe_size;
    field_seconds(f, &opt->stall_s);
    field_seconds(f, &opt->get_s);
    field_u64(f, &opt->shm_max_bytes);
    field_string(f, &s->cwd);
    field_strings(f, &s->vars, &s->n_vars);
}

static void app_fields(struct msg_fields *f, struct app *app)
{
    uint32_t argc = (uint32_t)strings_count(app->argv), what = app->env.what;

    field_u32(f, &app->n_procs);
    field_strings(f, &app->argv, &argc);
    field_option(f, &app->wdir);
    field_option(f, &app->search);
    field_option(f, &app->hosts);
    field_strings(f, &app->sets, &app->n_sets);
    field_u32(f, &what);
    field_strings(f, &app->env.pass, &app->env.n_pass);
    app->env.what = what == ENV_SOME ? ENV_SOME : app->env.what;
    if (f->in && (argc == 0 || what > ENV_SOME))
        f->in->bad = true;
}

void apps_fields(struct msg_fields *f, struct app **apps, uint32_t *n)
{
    if (f->out) {
        msg_u32(f->out, *n);
    } else {
        *n = get_count(f->in, 16);
        *apps = xrealloc(NULL, (*n + 1) * sizeof(**apps));
        memset(*apps, 0, (*n + 1) * sizeof(**apps));
    }
    for (uint32_t i = 0; i < *n && !(f->in && f->in->bad); i++)
        app_fields(f, &(*apps)[i]);
}

uint64_t apps_n_ranks(const struct app *apps, uint32_t n)
{
    uint64_t n_ranks = 0;

    for (uint32_t i = 0; i < n; i++)
        n_ranks += apps[i].n_procs;
    return n_ranks;
}

/* The nodes of ranks, as runs of equal ones. */
static void put_placement(struct msg *m, const uint32_t *node_of, uint64_t n_ranks)
{
    uint32_t runs = 0;
    uint64_t i, k;

    for (i = 0; i < n_ranks; i++)
        runs += i == 0 || node_of[i] != node_of[i - 1];
    msg_u32(m, runs);
    for (i = 0; i < n_ranks; i = k) {
        for (k = i + 1; k < n_ranks && node_of[k] == node_of[i]; k++)
            ;
        msg_u32(m, node_of[i]);
        msg_u32(m, (uint32_t)(k - i));
    }
}

static uint32_t *get_placement(struct msg_in *in, uint64_t n_ranks, uint32_t n_nodes)
{
    uint32_t n_runs = get_count(in, 8), *node_of = xrealloc(NULL, n_ranks * sizeof(*node_of));
    uint64_t at = 0;

    for (uint32_t i = 0; i < n_runs && !in->bad; i++) {
        uint32_t node = get_u32(in), n = get_u32(in);

        in->bad = in->bad || node >= n_nodes || n > n_ranks - at;
        for (uint32_t k = 0; k < n && !in->bad; k++)
            node_of[at++] = node;
    }
    in->bad = in->bad || at != n_ranks;
    return node_of;
}

void job_fields(struct msg_fields *f, struct job *plan, uint32_t n_nodes)
{
    uint64_t n_ranks;

    field_u32(f, &plan->number);
    field_mpi(f, &plan->mpi);
    field_string(f, &plan->kvsname);
    field_option(f, &plan->spawner);
    field_u32(f, &plan->spawner_rank);
    apps_fields(f, &plan->apps, &plan->n_apps);
    n_ranks = apps_n_ranks(plan->apps, plan->n_apps);
    if (f->out)
        put_placement(f->out, plan->node_of, n_ranks);
    else if (!f->in->bad && n_ranks > 0 && n_ranks <= MAX_PROCS)
        plan->node_of = get_placement(f->in, n_ranks, n_nodes);
    else
        f->in->bad = true;
}

bool spawn_fits(const struct msg *m)
{
    if (m->len <= CHANNEL_MAX_BYTES)
        return true;
    log_message("a spawn fails: its programs, each with its arguments and variables (-x), make a "
                "message of %zu MiB, and the limit is %u",
                (m->len >> 20) + 1, CHANNEL_MAX_BYTES >> 20);
    return false;
}
