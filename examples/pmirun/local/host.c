/* SPDX-License-Identifier: BSD-3-Clause */
/* Between pmirun and the PMIx host. */
#define _GNU_SOURCE
#include "host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "bind.h"
#include "folder.h"
#include "guard.h"
#include "job.h"
#include "job_end.h"
#include "launch.h"
#include "loop.h"
#include "pmi.h"
#include "role.h"
#include "spawn.h"
#include "timeline.h"
#include "topology.h"

#define TICK_NS (NS_PER_S / 2)

/* One a process, as the libpmix that it loads. */
static struct {
    struct jobs *jobs;
    struct source src;
    struct pmix_host *host; /* NULL: no job has used PMIx yet, or it was stopped */
    uint32_t n_known;       /* numbers of announced jobs are below this */
    struct timer tick;      /* every half second */
    unsigned depth;         /* calls of the host that we are in */
    bool stopped;
} hosting;

void host_init(struct jobs *jobs)
{
    hosting.jobs = jobs;
}

/* ---- calls of the host ---- */

static struct pmix_host *host_enter(void)
{
    if (hosting.host)
        hosting.depth++;
    return hosting.host;
}

static void host_leave(void)
{
    hosting.depth--;
}

/* ---- what it calls ---- */

static void host_says(void *ctx, const char *text)
{
    log_message("%s", text);
}

static void host_failed(void *ctx, const char *why)
{
    if (hosting.jobs->stopping)
        return;
    log_message("%s; stopping the job", why);
    job_stop(hosting.jobs, STATUS_RESOURCES);
}

/* A rank here. */
static struct rank *rank_here(uint32_t job, uint32_t number)
{
    const struct job *of = job_by_number(hosting.jobs, job);

    return of ? job_rank(of, number) : NULL;
}

static void client_state(void *ctx, uint32_t job, uint32_t rank, uint32_t state)
{
    struct rank *r = rank_here(job, rank);

    if (r)
        job_rank_state(r, state);
}

static void client_aborted(void *ctx, uint32_t job, uint32_t rank, int32_t code, const char *text)
{
    struct rank *r = rank_here(job, rank);

    if (r)
        job_rank_aborted(r, code, text);
}

static void client_waits(void *ctx, uint32_t job, uint32_t rank, uint32_t coll, bool begins)
{
    const struct rank *r = rank_here(job, rank);

    if (r)
        timeline_rank(hosting.jobs->timeline, r, begins ? TIMELINE_ENTER : TIMELINE_LEAVE, coll);
}

static void collective_stuck(void *ctx, uint32_t job, uint32_t rank, uint32_t coll, uint32_t why)
{
    struct job *of = job_by_number(hosting.jobs, job);

    if (of)
        job_stuck(of, rank, coll, why);
    else if (hosting.jobs->agent) /* the head knows the job */
        agent_report(hosting.jobs->agent, MSG_STUCK,
                     &(struct report){.job = job, .rank = rank, .value = coll, .detail = why});
}

/* A client may set no variable of pmirun's; and those that pmirun has set for it are not the new
 * job's, which has its own, with folders of its own node for example. */
static bool is_job_var(const struct job *job, struct pmiwire_str value)
{
    if (value.len > 7 && memcmp(value.ptr, "PMIRUN_", 7) == 0)
        return true;
    for (char *const *p = job->vars; p && *p; p++)
        if (strlen(*p) == value.len && memcmp(*p, value.ptr, value.len) == 0)
            return true;
    return false;
}

/* A client passes its environment to the processes that it spawns. */
static void drop_job_vars(const struct pmiwire_spawn *req, const struct job *job)
{
    for (uint32_t i = 0; i < req->n_cmds; i++) {
        struct pmiwire_spawn_cmd *cmd = (struct pmiwire_spawn_cmd *)(uintptr_t)&req->cmds[i];
        struct pmiwire_keyval *info = (struct pmiwire_keyval *)(uintptr_t)cmd->info;
        uint32_t n = 0;

        for (uint32_t k = 0; k < cmd->n_info; k++)
            if (info[k].key.len != strlen(SPAWN_ENV) ||
                memcmp(info[k].key.ptr, SPAWN_ENV, info[k].key.len) != 0 ||
                !is_job_var(job, info[k].value))
                info[n++] = info[k];
        cmd->n_info = n;
    }
}

static int spawn_asked(void *ctx, uint32_t job, uint32_t rank, const struct pmiwire_spawn *req,
                       uint64_t token)
{
    struct rank *r = rank_here(job, rank);

    if (!r)
        return -EINVAL;
    drop_job_vars(req, r->job);
    return spawn_for(r, req, HOST_TOKEN | token);
}

/* On several nodes the head keeps the names. */
static void name_asked(void *ctx, uint32_t what, uint32_t owner, struct pmiwire_str name,
                       struct pmiwire_str value, uint64_t token)
{
    struct pmiwire_server *server = hosting.jobs->pmi->server;
    struct pmiwire_str found = {0};
    int rc;

    if (hosting.jobs->agent) {
        agent_request_name(hosting.jobs->agent, HOST_TOKEN | token, owner, what, name, value);
        return;
    }
    if (what == PMIWIRE_NAME_PUBLISH)
        rc = pmiwire_server_publish(server, owner, name, value);
    else if (what == PMIWIRE_NAME_UNPUBLISH)
        rc = pmiwire_server_unpublish(server, owner, name);
    else
        rc = pmiwire_server_lookup(server, name, &found);
    pmix_host_answer(hosting.host, token, rc, found);
}

static int frame_send(void *ctx, uint32_t node, uint32_t job, const struct iovec *iov,
                      uint32_t n_iov)
{
    return agent_send_frame(hosting.jobs->agent, true, node, job, iov, n_iov);
}

/* ---- the host ---- */

static void on_readable(void *of, struct source *src, uint32_t events)
{
    if (!host_enter())
        return;
    pmix_host_progress(hosting.host);
    host_leave();
}

/* This node, as its own ranks see it. */
static void own_name(char *buf, size_t size)
{
    snprintf(buf, size, "%s", messages.host ? messages.host : own_host());
    buf[strcspn(buf, ".,;")] = '\0'; /* libpmix cuts them there too; and they stand in lists */
    if (!buf[0])
        snprintf(buf, size, "localhost");
}

static void host_tick(void *of)
{
    if (!host_enter())
        return;
    pmix_host_tick(hosting.host, loop.now_ns);
    host_leave();
    timer_call(&hosting.tick, loop.now_ns + TICK_NS, host_tick, NULL);
}

/* 0 or -errno. */
static int host_create(void)
{
    const struct jobs *jobs = hosting.jobs;
    struct pmix_host_ops ops = {.say = host_says,
                                .failed = host_failed,
                                .state = client_state,
                                .aborted = client_aborted,
                                .stuck = collective_stuck,
                                .spawn = spawn_asked,
                                .name = name_asked,
                                .send = frame_send};
    struct pmix_host_opts opts = {.ops = &ops, .env_key = SPAWN_ENV, .n_nodes = 1};
    char name[256], *server;
    int rc;

    if (hosting.host)
        return 0;
    if (hosting.stopped)
        return -ECANCELED;
    if (jobs->timeline->on)
        ops.waits = client_waits;
    if (jobs->agent) {
        opts.node = agent_node(jobs->agent);
        opts.n_nodes = jobs->opt->n_nodes;
    }
    own_name(name, sizeof(name));
    opts.server = server = xprintf("pmirun.%s", jobs->guard->key);
    opts.host = name;
    rc = pmix_host_create(&opts, &hosting.host);
    free(server);
    if (rc)
        return rc;
    /* The first one now: it sets the host's clock, before a client asks for a timeout. */
    timer_call(&hosting.tick, loop.now_ns, host_tick, NULL);
    return loop_open(&hosting.src, on_readable, NULL, pmix_host_fd(hosting.host), EPOLLIN);
}

#define SERVER_FDS 32 /* of libpmix's threads, and while it reads topology and writes its files */

static void note_known(uint32_t number)
{
    if (number >= hosting.n_known)
        hosting.n_known = number + 1;
}

/* Announces it, with the bindings of its ranks. 0, or -1 and *why. */
static int announce_job(struct job *job, struct pmix_host_job *j, char **why)
{
    char **vars = NULL;
    int rc;

    if (job->bound) {
        j->cpusets = (const char *const *)job->bound->cpusets;
        j->localities = (const char *const *)job->bound->localities;
    }
    topology_use(hosting.jobs->topology, true);
    host_enter();
    rc = pmix_host_job_begin(hosting.host, j, &vars, why);
    host_leave();
    topology_use(hosting.jobs->topology, false);
    for (size_t i = 0; vars && vars[i]; i++)
        job_var(job, vars[i]);
    free(vars);
    return rc;
}

/* Ranks here of other jobs. */
static uint32_t count_others(const struct job *job)
{
    uint32_t n = 0;

    for (const struct job *j = job->jobs->first; j; j = j->next)
        n += j != job && !j->ended ? j->n_local : 0;
    return n;
}

/* What the host needs to know of any job. app_procs is to be freed. */
static struct pmix_host_job describe_for_host(const struct job *job)
{
    uint32_t *app_procs = xrealloc(NULL, job->n_apps * sizeof(*app_procs)), n_ranks = 0;

    for (uint32_t i = 0; i < job->n_apps; i++)
        n_ranks += app_procs[i] = job->apps[i].n_procs;
    return (struct pmix_host_job){.number = job->number,
                                  .nspace = job->kvsname,
                                  .n_ranks = n_ranks,
                                  .node_of = job->node_of,
                                  .n_apps = job->n_apps,
                                  .app_procs = app_procs,
                                  .parent = job->spawner,
                                  .parent_rank = job->spawner_rank,
                                  .universe = n_ranks};
}

int host_job(struct job *job, char **why)
{
    struct pmix_host_job j = describe_for_host(job);
    int rc, err;

    j.n_before = count_others(job);
    if (hosting.jobs->opt->universe_size > 0)
        j.universe = (uint32_t)hosting.jobs->opt->universe_size;
    /* libpmix needs a descriptor for each client; without one a client would hang */
    *why = launch_check_limits(hosting.jobs->launcher, job->n_local, job->n_local + SERVER_FDS);
    rc = *why ? -1 : 0;
    if (rc == 0 && (err = host_create()) != 0) {
        *why = xprintf("cannot host PMIx: %s", strerror(-err));
        rc = -1;
    }
    if (rc == 0 && !(j.folder = folder_get(hosting.jobs->folders, FOLDER_TMP))) {
        *why = xprintf("cannot make a folder for PMIx in $TMPDIR or /tmp: %s", strerror(errno));
        rc = -1;
    }
    if (rc == 0)
        rc = announce_job(job, &j, why);
    note_known(job->number);
    free((void *)(uintptr_t)j.app_procs);
    return rc == 0 ? 0 : STATUS_RESOURCES;
}

bool host_space(const struct job *plan)
{
    struct pmix_host_job j = describe_for_host(plan);
    const bool ok = !host_knows(j.number);
    char **vars = NULL, *why = NULL;

    if (ok)
        note_known(j.number);
    if (ok && host_create() == 0 && host_enter()) {
        if (pmix_host_job_begin(hosting.host, &j, &vars, &why) != 0)
            log_message("PMIx: %s: no rank here can connect to namespace %s of other nodes",
                        why ? why : "out of memory", j.nspace);
        host_leave();
    }
    free((void *)(uintptr_t)j.app_procs);
    free(why);
    return ok;
}

bool host_knows(uint32_t number)
{
    return number < hosting.jobs->n_jobs || number < hosting.n_known;
}

void host_job_over(uint32_t number)
{
    if (!host_enter())
        return;
    pmix_host_job_end(hosting.host, number);
    host_leave();
}

enum pmix_host_end host_end_of(const struct rank *r, const siginfo_t *si)
{
    if (r->aborted)
        return PMIX_HOST_ABORTED;
    if (si->si_code != CLD_EXITED)
        return PMIX_HOST_SIGNALED;
    if (r->pmi_state == PMIWIRE_CONN_INITED)
        return PMIX_HOST_UNSYNCED;
    return si->si_status ? PMIX_HOST_BADLY : PMIX_HOST_WELL;
}

void host_rank_gone(uint32_t job, uint32_t rank, enum pmix_host_end end, int status)
{
    if (!host_enter())
        return;
    pmix_host_rank_ended(hosting.host, job, rank, end, status);
    host_leave();
}

void host_answer(uint64_t token, int rc, struct pmiwire_str text)
{
    if (!host_enter())
        return;
    pmix_host_answer(hosting.host, token & ~HOST_TOKEN, rc, text);
    host_leave();
}

bool host_frame(uint32_t from, const void *p, size_t n)
{
    bool ok = true;

    if (!host_enter()) /* it was stopped, or no rank here uses PMIx: the job ends */
        return true;
    ok = pmix_host_frame(hosting.host, from, p, n);
    host_leave();
    return ok;
}

void host_room(uint32_t node)
{
    if (!host_enter())
        return;
    pmix_host_link_ready(hosting.host, node);
    host_leave();
}

void host_stop(void)
{
    if (!hosting.host || hosting.depth) /* in a call of it: pmirun exits there, out of memory */
        return;
    timer_set(&hosting.tick, 0);
    loop_del(&hosting.src);
    hosting.src.fd = -1;
    pmix_host_destroy(hosting.host);
    hosting.host = NULL;
    hosting.stopped = true;
}
