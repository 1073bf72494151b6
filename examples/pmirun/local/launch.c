/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts the ranks of jobs: their channels, their processes (flight.c), what is done when one
 * cannot be started.
 */
#define _GNU_SOURCE
#include "launch.h"

#include "bind.h"
#include "flight.h"
#include "guard.h"
#include "input.h"
#include "job.h"
#include "job_end.h"
#include "loop.h"
#include "output.h"
#include "pmi.h"
#include "port.h"
#include "program.h"
#include "rank_end.h"
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BUDGET_NS    (2 * NS_PER_MS) /* of launching at a time; then pmirun serves ranks */
#define SPARE_FDS    24u             /* pmirun's own descriptors besides the ranks' and the slots */
#define FDS_PER_RANK 3u

struct launcher {
    struct jobs *jobs;
    struct output *output;
    struct input *input;
    struct fleet fleet;
    const struct app *app; /* of the ranks that are being started; NULL: none */
    struct app_env env;    /* its environment */
    char **shell_argv;
    struct rank *failed; /* first rank that could not be executed, and why */
    int failed_err;
    enum stage failed_stage;
};

void launch_init(struct jobs *jobs, struct output *output, struct input *input,
                 const struct signals *signals)
{
    struct launcher *l;
    int err;

    guard_start(jobs->guard); /* first: it copies us, and our descriptors by then */
    l = xzalloc(sizeof(*l));
    err = fleet_init(&l->fleet, signals);
    if (err)
        die(STATUS_RESOURCES, "cannot start: %s", strerror(-err));
    l->jobs = jobs;
    l->output = output;
    l->input = input;
    jobs->launcher = l;
}

/* Room for n descriptors at once. If the table grows while children in flight share it, the kernel
 * waits each time until all processors have passed a quiescent state (synchronize_rcu()). Jobs of
 * /bin/true on 16 processors: 64 ranks 22 to 35 ms, without these waits 7 to 10; 128 ranks 27 to
 * 42, without them 13 to 15. */
static void reserve_descriptors(const struct fleet *fleet, uint64_t n)
{
    const int fd = n > INT_MAX ? -1 : fcntl(fleet->null_fd, F_DUPFD_CLOEXEC, (int)n - 1);

    if (fd >= 0)
        close(fd);
}

char *launch_check_limits(struct launcher *l, uint64_t n_more, uint64_t n_fds)
{
    struct fleet *fleet = &l->fleet;
    struct rlimit now;
    uint64_t n = n_more, need, spare;

    if (getrlimit(RLIMIT_NOFILE, &now) != 0)
        return NULL;
    for (const struct job *job = l->jobs->first; job; job = job->next)
        n += job->queued ? job->n_local - job->n_launched : 0;
    /* One flight is enough: more only make a start faster. */
    need = SPARE_FDS + FD_SLOTS + SLOTS + n * FDS_PER_RANK + n_fds + l->output->n_streams +
           l->jobs->pmi->n_conns;
    need += n * ((l->jobs->opt->stdin_rank == STDIN_ALL) + (l->jobs->opt->outfile != NULL) +
                 (l->jobs->opt->errfile != NULL));
    if (need > now.rlim_cur)
        return xprintf("%llu processes need %llu descriptors, the limit is %llu: raise it (ulimit "
                       "-n)",
                       (unsigned long long)n_more, (unsigned long long)need,
                       (unsigned long long)now.rlim_cur);
    spare = (now.rlim_cur - need) / SLOTS;
    if (spare + 1 < fleet->n) {
        launch_land_all(l);
        fleet_shrink(fleet, (unsigned)spare + 1);
    }
    reserve_descriptors(fleet, need + SLOTS * (fleet->n - 1));
    return NULL;
}

/* ---- landing ---- */

/* Its child has left our memory, or will now: notes an error, but not of a failed spawn. */
static void settle_flight(struct launcher *l, struct flight *f)
{
    flight_land(f);
    if (f->err && !l->failed && !f->rank->job->abandoned) {
        l->failed = f->rank;
        l->failed_err = f->err;
        l->failed_stage = f->stage;
    }
}

void launch_land_all(struct launcher *l)
{
    for (unsigned i = 0; l && i < l->fleet.n; i++) /* NULL: a head */
        if (l->fleet.flights[i].busy)
            settle_flight(l, &l->fleet.flights[i]);
}

/* ---- one rank ---- */

/* Makes a rank's channels: our ends, by slot, and the child's ends in their slots. 0 or -errno. */
static int make_channels(const struct flight *f, bool use_port, int ours[SLOT_IN])
{
    int p[2], rc = 0;

    for (int slot = SLOT_PMI; slot < SLOT_IN; slot++)
        ours[slot] = -1;
    for (int slot = use_port ? SLOT_OUT : SLOT_PMI; slot < SLOT_IN && rc == 0; slot++) {
        if ((slot == SLOT_PMI ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p)
                              : pipe2(p, O_CLOEXEC)) != 0)
            return -errno;
        ours[slot] = p[0];
        if (dup3(p[1], f->fd + slot, O_CLOEXEC) < 0)
            rc = -errno;
        close(p[1]);
    }
    return rc;
}

static bool prepare_stdin(struct launcher *l, const struct flight *f, const struct rank *r)
{
    const int null_fd = l->fleet.null_fd;
    int fd;

    if (!input_join(l->input, r, &fd))
        fd = null_fd;
    if (fd == STDIN_FILENO)
        return false;
    dup3(fd, f->fd + SLOT_IN, O_CLOEXEC);
    if (fd != null_fd)
        close(fd);
    return true;
}

/* The flight for the next rank, free. */
static struct flight *next_flight(struct launcher *l)
{
    struct flight *f = &l->fleet.flights[l->fleet.next++ % l->fleet.n];

    if (f->busy)
        settle_flight(l, f);
    return f;
}

/* Makes the process. Its pid, or -errno; then nothing is left of it. */
static pid_t start_rank(struct launcher *l, struct flight *f, struct rank *r, int ours[SLOT_IN])
{
    const bool use_port = l->jobs->opt->use_port;
    pid_t pid;
    int rc;

    rc = make_channels(f, use_port, ours);
    if (rc == 0 && use_port)
        port_assign(l->jobs, r);
    if (rc == 0) {
        f->rank = r;
        f->shell_argv = l->shell_argv;
        f->cpus = r->job->bound ? &r->job->bound->sets[r - r->job->ranks] : NULL;
        rank_env_make(&f->env, &l->env, r);
        f->take_stdin = prepare_stdin(l, f, r);
        pid = flight_start(f);
        if (pid > 0)
            return pid;
        rc = pid;
    }
    flight_land(f);
    for (int slot = SLOT_PMI; slot < SLOT_IN; slot++)
        if (ours[slot] >= 0)
            close(ours[slot]);
    return rc;
}

/* 0 or -errno: no process. An error of its execve() is known when it lands. */
static int launch_rank(struct launcher *l, struct rank *r)
{
    struct flight *f = next_flight(l);
    int ours[SLOT_IN];
    const pid_t pid = start_rank(l, f, r, ours);

    if (pid < 0)
        return pid;
    r->pid = pid;
    rank_note_pid(r, true); /* first: the guard must know it if pmirun ends */
    rank_started(r, pid);
    if (!f->take_stdin) { /* only that rank reads it now */
        settle_flight(l, f);
        dup3(l->fleet.null_fd, STDIN_FILENO, 0);
    }
    if (!output_begin(l->output, r))
        job_stop(l->jobs, STATUS_OUTPUT);
    if (output_attach(l->output, &r->out, ours[SLOT_OUT]) != 0 ||
        output_attach(l->output, &r->err, ours[SLOT_ERR]) != 0 ||
        (ours[SLOT_PMI] >= 0 && pmi_attach(r, ours[SLOT_PMI]) != 0)) {
        log_message("out of memory or descriptors: stopping the job");
        job_stop(l->jobs, STATUS_RESOURCES);
    }
    return 0;
}

/* ---- failures ---- */

/* The file that failed, and why. If the program exists, exec()'s ENOENT is about its interpreter.
 */
static const char *what_failed(const struct app *app, int err, enum stage stage, const char **why)
{
    *why = stage == STAGE_DESCRIPTORS ? "setting up descriptors failed"
           : stage == STAGE_BIND      ? "pmirun may no longer use its processors (--bind-to)"
           : stage == STAGE_EXEC && err == ENOENT && access(app->path, F_OK) == 0
               ? "the interpreter that it names does not exist"
               : strerror(err);
    return stage == STAGE_WDIR ? app->wdir : app->path;
}

/* Why a process could not be made, and what to do. */
static void explain_no_process(const struct rank *r, int err)
{
    struct rlimit lim = {0, 0};

    if (err == EAGAIN) {
        getrlimit(RLIMIT_NPROC, &lim);
        log_message(
            "cannot start %s of %u: the limit on processes is reached (ulimit -u: %lld; or the "
            "control group's pids.max, "
            "or kernel.pid_max); stopping the job",
            rank_name(r), r->job->n_ranks,
            lim.rlim_cur == RLIM_INFINITY ? -1LL : (long long)lim.rlim_cur);
    } else {
        log_message("cannot start %s of %u: %s%s; stopping the job", rank_name(r), r->job->n_ranks,
                    err == EMFILE || err == ENFILE ? "out of descriptors (ulimit -n): " : "",
                    strerror(err));
    }
}

/* A rank could not be started: no process (STAGE_NONE), or not its program. The job stops; of a
 * spawned one, the spawner's job continues and gets the error. */
static void give_up(struct launcher *l, const struct rank *r, int err, enum stage stage)
{
    const char *why, *what = what_failed(r->app, err, stage, &why);
    struct job *job = r->job;

    if (stage == STAGE_NONE && !job->spawned)
        explain_no_process(r, err);
    else
        log_message("cannot start %s: %s: %s; %s", rank_name(r), what, why,
                    job->spawned ? "the spawn fails" : "stopping the job");
    if (job->spawned) {
        job_spawn_failed(job, err == EAGAIN ? -EDQUOT : -err); /* no process can be made */
        return;
    }
    jobs_unqueue_all(l->jobs);
    job_stop(l->jobs, stage == STAGE_NONE ? STATUS_RESOURCES
                      : err == ENOENT     ? STATUS_NOTFOUND
                                          : STATUS_NOEXEC);
}

/* ---- the queue ---- */

/* No rank of the program is left to be started: the flights land, and what they share is freed. */
static void app_launched(struct launcher *l)
{
    launch_land_all(l);
    app_env_free(&l->env);
    free(l->shell_argv);
    l->shell_argv = NULL;
    l->app = NULL;
}

void launch_drop(struct launcher *l, struct job *job)
{
    if (!l) /* a head */
        return;
    launch_land_all(l);
    for (uint32_t i = 0; i < job->n_apps; i++)
        if (l->app == &job->apps[i])
            app_launched(l);
    if (l->failed && l->failed->job == job)
        l->failed = NULL;
}

/* A program could not be executed: lets the other flights land, and reports it. */
static void handle_failure(struct launcher *l)
{
    const struct rank *r = l->failed;

    app_launched(l);
    l->failed = NULL;
    give_up(l, r, l->failed_err, l->failed_stage);
}

void launch_settle(struct launcher *l)
{
    for (unsigned i = 0; i < l->fleet.n; i++)
        if (l->fleet.flights[i].busy && flight_has_landed(&l->fleet.flights[i]))
            settle_flight(l, &l->fleet.flights[i]);
    if (l->failed && l->failed->job->queued)
        handle_failure(l);
    l->failed = NULL;
}

/* Starts the next rank of the job. */
static void launch_next(struct launcher *l, struct job *job)
{
    struct rank *r = &job->ranks[job->n_launched++];
    bool last;
    int rc;

    if (l->app != r->app) {
        app_launched(l);
        l->app = r->app;
        app_env_make(&l->env, job, r->app, FD_PMI);
        l->shell_argv = program_shell_argv(r->app);
    }
    rc = launch_rank(l, r);
    last = job->n_launched == job->n_local;
    if (rc != 0 || last || job->ranks[job->n_launched].app != r->app || l->jobs->stopping)
        app_launched(l);
    if (rc != 0) {
        l->failed = NULL;
        give_up(l, r, -rc, STAGE_NONE);
    } else if (l->failed)
        handle_failure(l);
    else if (!l->jobs->stopping && last) {
        job->queued = false;
        job_started(job);
    }
}

bool launch_some(struct launcher *l)
{
    uint64_t begin, now;
    struct job *job;

    if (!l) /* a head */
        return false;
    job = jobs_queued(l->jobs);
    if (!job) {
        launch_land_all(l); /* when the job was stopped during the launch */
        return false;
    }
    begin = clock_ns();
    if (!l->jobs->at.launch_begin)
        l->jobs->at.launch_begin = begin - loop.start_ns;
    do {
        launch_next(l, job);
        now = clock_ns();
        job = jobs_queued(l->jobs);
    } while (job && now - begin < BUDGET_NS);
    l->jobs->at.launch_busy += now - begin;
    return job != NULL;
}
