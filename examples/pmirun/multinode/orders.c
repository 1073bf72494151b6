/* SPDX-License-Identifier: BSD-3-Clause */
/* The head's orders to an agent. */
#define _GNU_SOURCE
#include "agent.h"

#include <errno.h>
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
#include "../local/table.h"
#include "../local/timeline.h"
#include "job_message.h"
#include "step.h"

static void start_own_server(struct agent *a)
{
    int err = pmi_init(a->jobs->pmi);

    if (err == 0 && a->opt->use_port)
        err = port_init(a->jobs->pmi->port);
    if (err) {
        log_message("cannot start the PMI server: %s; stopping the job", pmiwire_strerror(err));
        job_stop(a->jobs, STATUS_RESOURCES);
        a->unserved = true;
    }
}

static bool parse_place(struct options *opt)
{
    return !(opt->map_by && place_parse_map(&opt->place, opt->map_by)) &&
           !(opt->bind_to && place_parse_bind(&opt->place, opt->bind_to)) &&
           !place_settle(&opt->place);
}

static bool on_setup(struct agent *a, struct msg_in *in)
{
    struct setup setup = {.opt = a->opt};
    struct msg_fields f = {.in = in};
    bool ok;

    if (a->jobs->pmi->server || a->unserved)
        return false; /* it came before */
    setup_fields(&f, &setup);
    ok = !in->bad && a->opt->design <= PMIWIRE_DESIGN_TREE && parse_place(a->opt);
    messages.verbose = a->opt->verbose;
    for (uint32_t i = 0; i < setup.n_vars; i++) {
        if (ok)
            env_set(setup.vars[i]);
        free(setup.vars[i]);
    }
    free(setup.vars);
    if (ok && !a->step && chdir(setup.cwd) != 0) {
        log_message("%s: %s; stopping the job", setup.cwd, strerror(errno));
        job_stop(a->jobs, STATUS_NOEXEC);
    }
    free(setup.cwd);
    if (ok && setup.timeline)
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

/* Finds the programs of the ranks here. Reports the first missing one, and returns its status. */
static int find_job_programs(struct job *job)
{
    for (uint32_t i = 0; i < job->n_local; i++) {
        struct app *app = job->ranks[i].app;
        char *why;
        int status = app->path ? 0 : program_find(app, &why);

        if (status == 0)
            continue;
        log_message("%s; %s", why, job->spawned ? "the spawn fails" : "stopping the job");
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

/* The error for a spawner where only a status is known. */
static int spawn_error(int status)
{
    return status == STATUS_NOTFOUND ? -ENOENT : status == STATUS_RESOURCES ? -ENOMEM : -EACCES;
}

/* A job that cannot be started here: a status, and -errno for its spawner. */
static void refuse_job(struct job *job, int status, int err)
{
    if (job->spawned)
        job_spawn_failed(job, err);
    else
        job_stop(job->jobs, status);
}

static void free_plan(const struct job *plan)
{
    apps_free(plan->apps, plan->n_apps);
    free(plan->node_of);
    free(plan->kvsname);
    free(plan->spawner);
}

/* Begins a job; its pairs follow in the message. */
static void begin_job(struct agent *a, const struct job *plan, struct msg_in *in)
{
    struct job *job;
    char *why;
    int err, status;

    job = job_create(a->jobs, plan);
    err = pmi_add_job(a->jobs->pmi, job);
    if (err)
        log_message("cannot serve the job: %s", pmiwire_strerror(err));
    if (err == 0 && a->step) {
        step_adopt(a, job);
        agent_begin_exchange(a, job);
        return;
    }
    if (err == 0)
        err = put_all(job, in);
    if (err == 0 && (why = launch_check_limits(a->jobs->launcher, job->n_local, 0)) != NULL) {
        log_message("%s", why);
        free(why);
        err = -EMFILE;
    }
    status = err ? STATUS_RESOURCES : find_job_programs(job);
    if (status == 0 && (status = mpi_detect_choose(job, &why)) != 0) {
        log_message("%s; %s", why, job->spawned ? "the spawn fails" : "stopping the job");
        free(why);
    }
    if (status)
        refuse_job(job, status, err ? err : spawn_error(status));
    else if (!a->jobs->stopping)
        job->queued = true;
    agent_begin_exchange(a, job);
}

/* Has it a rank here? */
static bool plan_is_ours(const struct agent *a, const struct job *plan)
{
    const uint64_t n_ranks = apps_n_ranks(plan->apps, plan->n_apps);

    for (uint64_t i = 0; i < n_ranks; i++)
        if (plan->node_of[i] == a->node)
            return true;
    return false;
}

/* A job that has no rank here, but that PMIx clients may name. */
static bool announce_elsewhere(struct agent *a, const struct job *plan)
{
    if (!plan->kvsname[0] || strlen(plan->kvsname) >= PMIWIRE_DEFAULT_KVSNAME_MAX ||
        !host_space(plan))
        return false;
    /* the head answers the spawner after this */
    agent_report(a, MSG_LAUNCHED, &(struct report){.job = plan->number});
    agent_take_early(a, plan->number);
    return true;
}

/* All but the first job have been spawned, and their numbers grow. */
static bool on_job_order(struct agent *a, struct msg_in *in)
{
    struct job plan = {0};
    struct msg_fields f = {.in = in};
    bool ok, ours;

    if (a->unserved)
        return true; /* sent before the head knew that */
    job_fields(&f, &plan, a->n_nodes);
    ok = !in->bad && a->jobs->pmi->server && a->peers && plan.number >= a->jobs->n_jobs &&
         plan.number != UINT32_MAX && (plan.number > 0) == (plan.spawner != NULL);
    ours = ok && plan_is_ours(a, &plan);
    if (ours)
        begin_job(a, &plan, in);
    else
        ok = ok && announce_elsewhere(a, &plan);
    if (!ours)
        free_plan(&plan);
    return ok && !in->bad;
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
    agent_report(a, MSG_HERE, &(struct report){0});
    return true;
}

static bool on_abandon(struct agent *a, struct msg_in *in)
{
    struct job *job = job_by_number(a->jobs, get_u32(in));

    if (job && job->spawned)
        job_spawn_failed(job, -ECANCELED); /* the head knows already */
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
    struct report r;
    char *text;

    report_get(in, &r, &text);
    free(text);
    if (in->bad || r.value > PMIX_HOST_ABORTED)
        return false;
    if (!a->jobs->stopping)
        host_rank_gone(r.job, r.rank, (enum pmix_host_end)r.value, (int)r.detail);
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
    struct pmiwire_str s = get_str(in);

    if (!in->bad)
        input_given(a->input, s.ptr, s.len);
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
