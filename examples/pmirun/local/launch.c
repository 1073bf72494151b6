/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts the ranks of jobs: their channels, their processes (flight.c), what is done when one
 * cannot be started.
 */
#define _GNU_SOURCE
#include "launch.h"

#include "bind.h"
#include "flight.h"
#include "mpir.h"
#include "pmirun.h"
#include "program.h"
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BUDGET_NS    (2 * NS_PER_MS) /* of launching at a time; then pmirun serves ranks */
#define SPARE_FDS    24u             /* pmirun's own descriptors besides the ranks' and the slots */
#define FDS_PER_RANK 3u

struct launcher {
    struct fleet fleet;
    const struct app *app; /* of the ranks that are being started; NULL: none */
    struct app_env env;    /* its environment */
    char **shell_argv;
    struct rank *failed; /* first rank that could not be executed, and why */
    int failed_err;
    enum stage failed_stage;
};

void launch_init(struct pmirun *pr)
{
    struct launcher *l;
    int err;

    guard_start(pr); /* first: it copies us, and our descriptors by then */
    l = calloc(1, sizeof(*l));
    err = l ? fleet_init(&l->fleet, &pr->signals) : -ENOMEM;
    if (err)
        die(STATUS_RESOURCES, "cannot start: %s", strerror(-err));
    pr->launcher = l;
}

int launch_check_limits(struct pmirun *pr, uint64_t n_more, uint64_t *need, uint64_t *have)
{
    struct fleet *fleet = &pr->launcher->fleet;
    struct rlimit now;
    uint64_t n = n_more, spare;

    if (getrlimit(RLIMIT_NOFILE, &now) != 0)
        return 0;
    for (const struct job *job = pr->launch; job; job = job->next_launch)
        n += job->n_local - job->n_launched;
    /* One flight is enough: more only make a start faster. */
    *need = SPARE_FDS + FD_SLOTS + SLOTS + n * FDS_PER_RANK + pr->output.n_streams + pr->conns.n;
    *need += n * ((pr->opt.stdin_rank == STDIN_ALL) + (pr->opt.outfile != NULL) +
                  (pr->opt.errfile != NULL));
    *have = now.rlim_cur;
    if (*need > *have)
        return -EMFILE;
    spare = (*have - *need) / SLOTS;
    if (spare + 1 < fleet->n) {
        launch_land_all(pr);
        fleet_shrink(fleet, (unsigned)spare + 1);
    }
    return 0;
}

/* ---- landing ---- */

/* Its child has left our memory, or will now: notes an error. */
static void settle_flight(struct launcher *l, struct flight *f)
{
    flight_land(f);
    if (f->err && !l->failed) {
        l->failed = f->rank;
        l->failed_err = f->err;
        l->failed_stage = f->stage;
    }
}

void launch_land_all(struct pmirun *pr)
{
    struct launcher *l = pr->launcher; /* NULL: a head */

    for (unsigned i = 0; l && i < l->fleet.n; i++)
        if (l->fleet.flights[i].busy)
            settle_flight(l, &l->fleet.flights[i]);
}

/* ---- one rank ---- */

struct ends {
    int pmi, out, err; /* ours */
};

/* Moves a channel's child end to its slot. 0 or -errno. */
static int move_to_slot(int fd, int slot)
{
    int rc = dup3(fd, slot, O_CLOEXEC) < 0 ? -errno : 0;

    close(fd);
    return rc;
}

static int make_pipe(int *ours, int slot)
{
    int p[2];

    if (pipe2(p, O_CLOEXEC) != 0)
        return -errno;
    *ours = p[0];
    return move_to_slot(p[1], slot);
}

/* Makes a rank's channels, the child's ends in their slots. */
static int make_ends(struct flight *f, struct ends *e)
{
    int p[2], rc = 0;

    *e = (struct ends){-1, -1, -1};
    if (!f->use_port) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) != 0)
            return -errno;
        e->pmi = p[0];
        rc = move_to_slot(p[1], f->fd + SLOT_PMI);
    }
    if (rc == 0)
        rc = make_pipe(&e->out, f->fd + SLOT_OUT);
    return rc ? rc : make_pipe(&e->err, f->fd + SLOT_ERR);
}

static void close_ends(const struct ends *e)
{
    if (e->pmi >= 0)
        close(e->pmi);
    if (e->out >= 0)
        close(e->out);
    if (e->err >= 0)
        close(e->err);
}

static bool prepare_stdin(struct pmirun *pr, const struct flight *f, const struct rank *r)
{
    const int null_fd = pr->launcher->fleet.null_fd;
    int fd;

    if (!input_join(pr, r, &fd))
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
static pid_t start_rank(struct pmirun *pr, struct flight *f, struct rank *r, struct ends *e)
{
    pid_t pid;
    int rc;

    f->use_port = pr->opt.use_port;
    rc = make_ends(f, e);
    if (rc == 0 && f->use_port)
        rc = port_assign(pr, r);
    if (rc == 0) /* an unrecorded process would never be reaped */
        rc = rank_index_reserve(&pr->by_pid);
    if (rc == 0) {
        f->rank = r;
        f->app = r->app;
        f->shell_argv = pr->launcher->shell_argv;
        f->cpus = r->job->bound ? &r->job->bound->sets[r - r->job->ranks] : NULL;
        rank_env_make(&f->env, &pr->launcher->env, r, f->use_port);
        f->take_stdin = prepare_stdin(pr, f, r);
        pid = flight_start(f);
        if (pid > 0)
            return pid;
        rc = pid;
    }
    flight_land(f);
    close_ends(e);
    return rc;
}

/* 0 or -errno: no process. An error of its execve() is known when it lands. */
static int launch_rank(struct pmirun *pr, struct rank *r)
{
    struct launcher *l = pr->launcher;
    struct flight *f = next_flight(l);
    struct ends e;
    const pid_t pid = start_rank(pr, f, r, &e);

    if (pid < 0)
        return pid;
    r->pid = pid;
    guard_add(pr, pid);
    r->state = RANK_RUNNING;
    r->job->n_live++;
    pr->n_live++;
    if (!f->take_stdin) { /* only that rank reads it now */
        settle_flight(l, f);
        dup3(l->fleet.null_fd, STDIN_FILENO, 0);
    }
    rank_index_add(&pr->by_pid, r);
    if (!output_begin(pr, r))
        job_stop(pr, STATUS_OUTPUT);
    if (output_attach(pr, &r->out, e.out) != 0 || output_attach(pr, &r->err, e.err) != 0 ||
        (e.pmi >= 0 && pmi_attach(pr, r, e.pmi) != 0)) {
        say(pr, "out of memory or descriptors: stopping the job");
        job_stop(pr, STATUS_RESOURCES);
    }
    timeline_rank(pr, r, TIMELINE_LAUNCH, 0);
    progress_count(pr, PROGRESS_STARTED);
    if (pr->agent)
        agent_report_started(pr, r);
    else
        trace(pr, "%u:%u pid %d started: %s", r->job->number, r->number, (int)pid, r->app->path);
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
static void explain_no_process(struct pmirun *pr, const struct rank *r, int err)
{
    struct rlimit lim = {0, 0};
    char name[RANK_NAME_BYTES];

    rank_name(pr, r, name);
    if (err == EAGAIN) {
        getrlimit(RLIMIT_NPROC, &lim);
        say(pr,
            "cannot start %s of %u: the limit on processes is reached (ulimit -u: %lld; or the "
            "control group's pids.max, "
            "or kernel.pid_max); stopping the job",
            name, r->job->n_ranks, lim.rlim_cur == RLIM_INFINITY ? -1LL : (long long)lim.rlim_cur);
    } else if (err == EMFILE || err == ENFILE) {
        say(pr, "cannot start %s of %u: out of descriptors (ulimit -n): %s; stopping the job", name,
            r->job->n_ranks, strerror(err));
    } else {
        say(pr, "cannot start %s of %u: %s; stopping the job", name, r->job->n_ranks,
            strerror(err));
    }
}

static void launch_failed(struct pmirun *pr, const struct rank *r, int err, enum stage stage)
{
    char name[RANK_NAME_BYTES];
    const char *what, *why;

    pr->launch = NULL;
    pr->launch_tail = &pr->launch;
    if (stage == STAGE_NONE) {
        explain_no_process(pr, r, err);
        job_stop(pr, STATUS_RESOURCES);
        return;
    }
    what = what_failed(r->app, err, stage, &why);
    say(pr, "cannot start %s: %s: %s; stopping the job", rank_name(pr, r, name), what, why);
    job_stop(pr, err == ENOENT ? STATUS_NOTFOUND : STATUS_NOEXEC);
}

/* In a spawned job: the parent job continues, and gets the error. */
static void spawn_failed(struct pmirun *pr, struct job *job, const struct rank *r, int err,
                         enum stage stage)
{
    char name[RANK_NAME_BYTES];
    const char *why, *what = what_failed(r->app, err, stage, &why);

    say(pr, "cannot start %s: %s: %s; the spawn fails", rank_name(pr, r, name), what, why);
    job_abandon(pr, job, err == EAGAIN ? -EDQUOT : -err); /* no process can be made */
}

/* ---- the queue ---- */

static void take_from_queue(struct pmirun *pr, const struct job *job)
{
    struct job **p = &pr->launch;

    while (*p && *p != job)
        p = &(*p)->next_launch;
    if (!*p)
        return;
    *p = job->next_launch;
    if (!*p)
        pr->launch_tail = p;
}

static void job_launched(struct pmirun *pr, struct job *job)
{
    take_from_queue(pr, job);
    if (job->number == 0)
        pr->at.launch_end = clock_ns() - pr->start_ns;
    if (pr->agent)
        agent_report_launched(pr, job);
    else if (job->spawned)
        spawn_launched(pr, job, 0);
    else
        mpir_publish(pr, job);
}

/* No rank of the program is left to be started: the flights land, and what they share is freed. */
static void app_launched(struct pmirun *pr)
{
    struct launcher *l = pr->launcher;

    launch_land_all(pr);
    app_env_free(&l->env);
    free(l->shell_argv);
    l->shell_argv = NULL;
    l->app = NULL;
}

void launch_drop(struct pmirun *pr, struct job *job)
{
    struct launcher *l = pr->launcher;

    if (!l) /* a head */
        return;
    launch_land_all(pr);
    take_from_queue(pr, job);
    for (uint32_t i = 0; i < job->n_apps; i++)
        if (l->app == &job->apps[i])
            app_launched(pr);
    if (l->failed && l->failed->job == job)
        l->failed = NULL;
}

/* A rank could not be started: none, or not its program. */
static void give_up(struct pmirun *pr, struct job *job, const struct rank *r, int err,
                    enum stage stage)
{
    if (job->spawned)
        spawn_failed(pr, job, r, err, stage);
    else
        launch_failed(pr, r, err, stage);
}

/* A program could not be executed: lets the other flights land, and reports it. */
static void handle_failure(struct pmirun *pr)
{
    struct launcher *l = pr->launcher;
    struct rank *r = l->failed;

    app_launched(pr);
    l->failed = NULL;
    give_up(pr, r->job, r, l->failed_err, l->failed_stage);
}

void launch_settle(struct pmirun *pr)
{
    struct launcher *l = pr->launcher;

    for (unsigned i = 0; i < l->fleet.n; i++)
        if (l->fleet.flights[i].busy && flight_has_landed(&l->fleet.flights[i]))
            settle_flight(l, &l->fleet.flights[i]);
    if (l->failed && pr->launch == l->failed->job)
        handle_failure(pr);
    l->failed = NULL;
}

/* Start the next rank of the first job in the queue. */
static void launch_next(struct pmirun *pr)
{
    struct launcher *l = pr->launcher;
    struct job *job = pr->launch;
    struct rank *r = &job->ranks[job->n_launched++];
    bool last;
    int rc;

    if (l->app != r->app) {
        app_launched(pr);
        l->app = r->app;
        app_env_make(&l->env, pr, job, r->app, FD_PMI);
        l->shell_argv = program_shell_argv(r->app);
    }
    rc = launch_rank(pr, r);
    last = job->n_launched == job->n_local;
    if (rc != 0 || last || job->ranks[job->n_launched].app != r->app || pr->stopping)
        app_launched(pr);
    if (rc != 0)
        give_up(pr, job, r, -rc, STAGE_NONE);
    else if (l->failed)
        handle_failure(pr);
    else if (!pr->stopping && last)
        job_launched(pr, job);
}

bool launch_some(struct pmirun *pr)
{
    uint64_t begin, now;

    if (!pr->launch) {
        launch_land_all(pr); /* when the job was stopped during the launch */
        return false;
    }
    begin = clock_ns();
    if (!pr->at.launch_begin)
        pr->at.launch_begin = begin - pr->start_ns;
    do {
        launch_next(pr);
        now = clock_ns();
    } while (pr->launch && now - begin < BUDGET_NS);
    pr->at.launch_busy += now - begin;
    return pr->launch != NULL;
}
