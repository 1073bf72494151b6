/* SPDX-License-Identifier: BSD-3-Clause */
/* The head's orders to an agent. */
#define _GNU_SOURCE
#include "agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pmiwire/exchange.h>

#include "../local/host.h"
#include "../local/input.h"
#include "../local/job.h"
#include "../local/job_end.h"
#include "../local/launch.h"
#include "../local/mpi_detect.h"
#include "../local/pmi.h"
#include "../local/port.h"
#include "../local/rank_end.h"
#include "../local/role.h"
#include "../local/program.h"
#include "../local/spawn.h"
#include "../local/table.h"
#include "../local/timeline.h"
#include "step.h"

static char **get_strings(struct msg_in *in, uint32_t *n)
{
    char **v;

    *n = get_count(in, 4);
    v = xrealloc(NULL, (*n + 1) * sizeof(*v));
    for (uint32_t i = 0; i < *n; i++)
        v[i] = get_string(in);
    v[*n] = NULL;
    return v;
}

/* NULL when empty. */
static char *get_option(struct msg_in *in)
{
    char *s = get_string(in);

    if (s[0])
        return s;
    free(s);
    return NULL;
}

static void start_own_server(struct agent *a)
{
    int err = pmi_init(a->jobs->pmi);

    if (err == 0 && a->opt->use_port)
        err = port_init(a->jobs->pmi->port);
    if (err) {
        say("cannot start the PMI server: %s; stopping the job", any_strerror(err));
        job_stop(a->jobs, STATUS_RESOURCES);
        a->unserved = true;
    }
}

/* The part of MSG_SETUP about binding: flags, and the texts of three options. */
static bool get_place(struct options *opt, struct msg_in *in)
{
    const uint32_t flags = get_u32(in);

    opt->report_bindings = flags & 1;
    opt->one_host = flags & 2;
    free(opt->map_by); /* a second MSG_SETUP is refused, after this */
    free(opt->bind_to);
    free(opt->topology);
    opt->map_by = get_option(in);
    opt->bind_to = get_option(in);
    opt->topology = get_option(in);
    return !in->bad && !(opt->map_by && place_parse_map(&opt->place, opt->map_by)) &&
           !(opt->bind_to && place_parse_bind(&opt->place, opt->bind_to)) &&
           !place_settle(&opt->place);
}

static bool on_setup(struct agent *a, struct msg_in *in)
{
    uint32_t flags = get_u32(in), n;
    uint64_t stall_ns, get_ns;
    char *cwd, **vars;
    bool ok, placed;

    a->opt->use_port = flags & 1;
    a->opt->no_shm = flags & 2;
    a->opt->pmi_1_2 = flags & 4;
    a->opt->verbose = messages.verbose = flags & 8;
    a->opt->as_hydra = flags & 16;
    a->opt->design = flags >> 5 & 15;
    a->opt->stdin_rank = get_u32(in);
    a->opt->mpi = (enum mpi_way)get_u32(in);
    placed = get_place(a->opt, in);
    a->opt->universe_size = (int32_t)get_u32(in);
    stall_ns = get_u64(in);
    a->opt->stall_s = (double)stall_ns / 1e9;
    get_ns = get_u64(in);
    a->opt->get_s = (double)get_ns / 1e9;
    a->opt->shm_max_bytes = get_u64(in);
    cwd = get_string(in);
    vars = get_strings(in, &n);
    ok = !in->bad && placed && flags < 1024 && !a->jobs->pmi->server && !a->unserved &&
         stall_ns < UINT64_MAX / 2 && get_ns < UINT64_MAX / 2 &&
         a->opt->design <= PMIWIRE_DESIGN_TREE && a->opt->mpi <= MPI_PMIX;
    for (uint32_t i = 0; i < n; i++) {
        if (ok)
            env_set(vars[i]);
        free(vars[i]);
    }
    free(vars);
    if (ok && !a->step && chdir(cwd) != 0) {
        say("%s: %s; stopping the job", cwd, strerror(errno));
        job_stop(a->jobs, STATUS_NOEXEC);
    }
    free(cwd);
    if (ok && (flags & 512))
        timeline_begin(a->jobs->timeline);
    if (ok)
        start_own_server(a);
    return ok;
}

static bool on_peers(struct agent *a, struct msg_in *in)
{
    if (a->peers || get_u32(in) != a->n_nodes)
        return false;
    a->peers = xrealloc(NULL, a->n_nodes * sizeof(*a->peers));
    memset(a->peers, 0, a->n_nodes * sizeof(*a->peers));
    for (uint32_t i = 0; i < a->n_nodes; i++) {
        struct peer *p = &a->peers[i];
        uint32_t port;

        p->address = get_string(in);
        port = get_u32(in);
        in->bad = in->bad || port > UINT16_MAX;
        p->port = (uint16_t)port;
    }
    return !in->bad;
}

static bool get_app(struct msg_in *in, struct app *app)
{
    uint32_t argc, what;

    app->n_procs = get_u32(in);
    app->argv = get_strings(in, &argc);
    app->wdir = get_option(in);
    app->search = get_option(in);
    app->sets = get_strings(in, &app->n_sets);
    what = get_u32(in);
    app->env.pass = get_strings(in, &app->env.n_pass);
    if (what == ENV_SOME)
        app->env.what = ENV_SOME;
    return !in->bad && argc > 0 && what <= ENV_SOME;
}

/* Sets `bad` unless every rank has a node, and some rank is on ours (or, as asked, none is). */
static uint32_t *get_placement(const struct agent *a, struct msg_in *in, uint64_t n_ranks,
                               bool with_ours)
{
    uint32_t n_runs = get_count(in, 8), *node_of = xrealloc(NULL, n_ranks * sizeof(*node_of));
    bool ours = false;
    uint64_t at = 0;

    for (uint32_t i = 0; i < n_runs && !in->bad; i++) {
        uint32_t node = get_u32(in), n = get_u32(in);

        in->bad = in->bad || node >= a->n_nodes || n > n_ranks - at;
        ours = ours || (n && node == a->node);
        for (uint32_t k = 0; k < n && !in->bad; k++)
            node_of[at++] = node;
    }
    in->bad = in->bad || at != n_ranks || ours != with_ours;
    return node_of;
}

/* Finds the programs of the ranks here. Reports the first missing one, and returns its status. */
static int find_job_programs(struct job *job)
{
    for (uint32_t i = 0; i < job->n_local; i++) {
        struct app *app = job->ranks[i].app;
        char *why;
        int status = app->path ? 0 : program_find(app, &why);

        if (status == 0)
            continue;
        say("%s; %s", why, job->spawned ? "the spawn fails" : "stopping the job");
        free(why);
        return status;
    }
    return 0;
}

static int put_all(struct job *job, struct msg_in *in)
{
    uint32_t n = get_count(in, 8);
    int err = 0;

    for (uint32_t i = 0; i < n && err == 0; i++) {
        struct pmiwire_str key = get_str(in), value = get_str(in);

        if (!in->bad)
            err = table_put(job, key, value);
    }
    return err;
}

static int check_limits(struct agent *a, const struct job *job)
{
    uint64_t need, have;
    int err = launch_check_limits(a->jobs->launcher, job->n_local, &need, &have);

    if (err)
        say("%u processes need %llu descriptors, the limit is %llu: raise it (ulimit -n)",
            job->n_local, (unsigned long long)need, (unsigned long long)have);
    return err;
}

/* The error for a spawner where only a status is known. */
static int spawn_error(int status)
{
    return status == STATUS_NOTFOUND ? -ENOENT : status == STATUS_RESOURCES ? -ENOMEM : -EACCES;
}

/* A job that cannot be started here: a status, and -errno for its spawner. */
static void refuse_job(struct job *job, int status, int err)
{
    if (job->spawned)
        job_spawn_done(job, err);
    else
        job_stop(job->jobs, status);
}

static void free_plan(const struct job_plan *plan)
{
    apps_free(plan->apps, plan->n_apps);
    free(plan->node_of);
}

/* False: malformed. All but the first job have been spawned, and their numbers grow. */
static bool get_plan(const struct agent *a, struct msg_in *in, struct job_plan *plan)
{
    uint64_t n_ranks = 0;
    bool ok = true;

    plan->n_apps = get_count(in, 16);
    plan->apps = xrealloc(NULL, plan->n_apps * sizeof(*plan->apps));
    memset(plan->apps, 0, plan->n_apps * sizeof(*plan->apps));
    for (uint32_t i = 0; i < plan->n_apps && ok; i++) {
        ok = get_app(in, &plan->apps[i]);
        n_ranks += plan->apps[i].n_procs;
    }
    if (!ok || n_ranks == 0 || n_ranks > MAX_PROCS || !a->jobs->pmi->server || !a->peers ||
        plan->number < a->jobs->n_jobs || plan->number == UINT32_MAX)
        return false;
    plan->node_of = get_placement(a, in, n_ranks, true);
    return !in->bad;
}

/* Begins a job; its pairs follow in the message. */
static void begin_job(struct agent *a, const struct job_plan *plan, struct msg_in *in)
{
    struct job *job;
    char *why;
    int err, status;

    job = job_create(a->jobs, plan, &err); /* takes node_of */
    if (!job) {
        say("cannot start the job: %s; stopping", any_strerror(err));
        apps_free(plan->apps, plan->n_apps);
        job_stop(a->jobs, STATUS_RESOURCES);
        return;
    }
    err = pmi_add_job(a->jobs->pmi, job);
    if (err)
        say("cannot serve the job: %s", any_strerror(err));
    if (err == 0 && a->step) {
        step_adopt(a, job);
        agent_begin_exchange(a, job);
        return;
    }
    if (err == 0)
        err = put_all(job, in);
    if (err == 0)
        err = check_limits(a, job);
    status = err ? STATUS_RESOURCES : find_job_programs(job);
    if (status == 0 && (status = mpi_detect_choose(a->detect, job, &why)) != 0) {
        say("%s; %s", why, job->spawned ? "the spawn fails" : "stopping the job");
        free(why);
    }
    if (status)
        refuse_job(job, status, err ? err : spawn_error(status));
    else if (!a->jobs->stopping)
        job_queue(job);
    agent_begin_exchange(a, job);
}

static bool on_job_order(struct agent *a, struct msg_in *in)
{
    struct job_plan plan = {0};
    char *kvsname, *spawner;
    bool ok;

    if (a->unserved)
        return true; /* sent before the head knew that */
    plan.number = get_u32(in);
    ok = get_u32(in) == (plan.number > 0);
    plan.way = (enum mpi_way)get_u32(in);
    plan.kvsname = kvsname = get_string(in);
    plan.spawner = spawner = get_option(in);
    plan.spawner_rank = get_u32(in);
    ok = get_plan(a, in, &plan) && ok && plan.way <= MPI_PMIX &&
         (plan.number > 0) == (spawner != NULL);
    if (ok)
        begin_job(a, &plan, in);
    else
        free_plan(&plan);
    free(kvsname);
    free(spawner);
    return ok && !in->bad;
}

/* A job that has no rank here, but that PMIx clients may name. */
static bool on_space(struct agent *a, struct msg_in *in)
{
    const uint32_t number = get_u32(in);
    char *nspace = get_string(in), *parent = get_option(in);
    struct pmix_host_job s = {.number = number, .nspace = nspace, .parent = parent};
    uint32_t *app_procs, *node_of = NULL;
    uint64_t n_ranks = 0;
    bool ok;

    s.n_apps = get_count(in, 4);
    s.app_procs = app_procs = xrealloc(NULL, (s.n_apps + 1) * sizeof(*app_procs));
    for (uint32_t i = 0; i < s.n_apps; i++)
        n_ranks += app_procs[i] = get_u32(in);
    ok = !in->bad && n_ranks > 0 && n_ranks <= MAX_PROCS && nspace[0] &&
         strlen(nspace) < sizeof(a->jobs->first->kvsname);
    if (ok)
        s.node_of = node_of = get_placement(a, in, n_ranks, false);
    s.n_ranks = (uint32_t)n_ranks;
    ok = ok && !in->bad && !in->left && host_space(&s);
    if (ok) {
        agent_report(a, MSG_LAUNCHED, number); /* the head answers the spawner after this */
        agent_take_early(a, number);
    }
    free(nspace);
    free(parent);
    free(app_procs);
    free(node_of);
    return ok;
}

/* The head is stopping the job, and sends signals for the ranks here. */
static void on_stop(struct agent *a)
{
    a->jobs->stopping = true;
    host_stop();
    jobs_unqueue_all(a->jobs);
    /* in case no signal comes from it */
    timer_set(&a->jobs->kill, loop.now_ns + 5 * GRACE_NS);
    timer_set(&a->jobs->drain, loop.now_ns + 2 * GRACE_NS);
}

static bool on_spawned(struct agent *a, struct msg_in *in)
{
    uint64_t token = get_u64(in);
    int32_t rc = (int32_t)get_u32(in);
    char *kvsname = get_string(in);

    if (!in->bad && (token & HOST_TOKEN))
        host_answer(token, rc, pmiwire_strz(kvsname));
    else if (!in->bad && a->jobs->pmi->server)
        pmiwire_server_spawn_done(a->jobs->pmi->server, token, rc, kvsname[0] ? kvsname : NULL,
                                  NULL, 0);
    free(kvsname);
    return !in->bad;
}

static bool on_named(struct agent *a, struct msg_in *in)
{
    uint64_t token = get_u64(in);
    int32_t rc = (int32_t)get_u32(in);
    struct pmiwire_str port = get_str(in);

    if (!in->bad && (token == 0 || (token & HOST_TOKEN)))
        host_answer(token, rc, port);
    else if (!in->bad && a->jobs->pmi->server)
        pmiwire_server_name_done(a->jobs->pmi->server, token, rc, port);
    return !in->bad;
}

static bool on_head_ask(struct agent *a)
{
    agent_msg(a, MSG_HERE);
    agent_tell(a);
    return true;
}

static bool on_abandon(struct agent *a, struct msg_in *in)
{
    struct job *job = job_by_number(a->jobs, get_u32(in));

    if (job && job->spawned)
        job_spawn_done(job, -ECANCELED); /* the head knows already */
    return !in->bad;
}

static bool on_over(struct agent *a, struct msg_in *in)
{
    const uint32_t number = get_u32(in);
    struct job *job = job_by_number(a->jobs, number);

    if (job && !a->jobs->stopping && !job->abandoned && job->n_launched < job->n_local)
        return false; /* its ranks have not begun */
    if (job)
        job->over = true;
    else
        host_job_over(number);
    return !in->bad;
}

/* A rank of another node has ended. */
static bool on_rank_ended(struct agent *a, struct msg_in *in)
{
    const uint32_t job = get_u32(in), rank = get_u32(in), end = get_u32(in), status = get_u32(in);

    if (in->bad || end > PMIX_HOST_ABORTED)
        return false;
    if (!a->jobs->stopping)
        host_rank_gone(job, rank, (enum pmix_host_end)end, (int)status);
    return true;
}

static bool on_room_order(struct agent *a, struct msg_in *in)
{
    uint32_t which = get_u32(in), n = get_u32(in);

    if (in->bad || which < 1 || which > 2)
        return false;
    output_room_given(a->output, which == 1 ? &a->output->out : &a->output->err, n);
    return true;
}

static bool on_input(struct agent *a, struct msg_in *in)
{
    size_t n;
    const char *p = get_text(in, &n);

    if (!in->bad)
        input_given(a->input, p, n);
    return !in->bad;
}

static bool on_signal(struct agent *a, struct msg_in *in)
{
    uint32_t sig = get_u32(in);

    if (in->bad || sig == 0 || sig > 64)
        return false;
    ranks_signal(a->jobs, (int)sig);
    return true;
}

bool orders_frame(struct agent *a, const void *p, size_t n)
{
    struct msg_in in = {(const char *)p + 1, n - 1, false};

    switch (n ? *(const uint8_t *)p : 0) {
    case MSG_SETUP: return on_setup(a, &in);
    case MSG_PEERS: return on_peers(a, &in);
    case MSG_JOB: return on_job_order(a, &in);
    case MSG_SIGNAL: return on_signal(a, &in);
    case MSG_STOP: on_stop(a); return true;
    case MSG_ABANDON: return on_abandon(a, &in);
    case MSG_SPACE: return on_space(a, &in);
    case MSG_ENDED: return on_rank_ended(a, &in);
    case MSG_OVER: return on_over(a, &in);
    case MSG_ROOM: return on_room_order(a, &in);
    case MSG_INPUT: return on_input(a, &in);
    case MSG_SPAWNED: return on_spawned(a, &in);
    case MSG_NAMED: return on_named(a, &in);
    case MSG_ASK: return on_head_ask(a);
    case MSG_END: a->ending = true; return true;
    default: return false;
    }
}
