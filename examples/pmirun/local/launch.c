/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting processes, fast.
 *
 * A child is made by clone(CLONE_VM | CLONE_FILES): no page table is copied, and no descriptor
 * table either, which matters because ours holds three descriptors for each rank. The child's ends
 * are put into fixed low slots of the shared table; the child takes a private copy of just those
 * with close_range(CLOSE_RANGE_UNSHARE), whose cost does not depend on how many we have, and moves
 * them to where the program expects them. So PMI_FD is the same number in every rank.
 *
 * Several children are on their way to execve() at a time, each a `flight` with its own stack,
 * slots and environment, while we prepare the next: execve() takes most of the time and can use the
 * other processors. The kernel clears flight->tid when the child has left our memory
 * (CLONE_CHILD_CLEARTID), and wakes us if we wait for it: the flight has landed. A child in flight
 * must not touch errno, which it shares with us: it makes raw system calls. And no signal may be
 * sent to one (a core dump would kill us too): code that signals ranks calls launch_land_all()
 * first.
 *
 * qemu-user cannot share memory with a child, and in a container on an old kernel a child that does
 * cannot have descriptors of its own: there the child is a copy of us, one at a time, and reports
 * its errors through a pipe.
 *
 * 1,024 static programs that exit at once, 2 processors, median of 3: fork 429 ms, vfork (one at a
 * time) 538 ms, this 280 ms. CPU seconds of 1,000 ranks of a small PMI client and ours: 0.65; with
 * a copied descriptor table 0.78; with plain fork() 1.04; mpiexec.hydra 1.28. Of the 0.65, 64 % are
 * the clients' own start, talk and exit, 5 % clone().
 */
#define _GNU_SOURCE
#include "launch.h"

#include "bind.h"
#include "guard.h"
#include "input.h"
#include "job.h"
#include "loop.h"
#include "output.h"
#include "pmi.h"
#include "port.h"
#include "progress.h"
#include "rawcall.h"
#include "role.h"
#include "signals.h"
#include "spawn.h"
#include "timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/*
 * Children on their way to execve() at a time, at most; one where we have no raw system calls. A
 * few would do on an idle machine, but beside other work each waits for its turn on a processor:
 * 1,024 ranks of a PMI client beside 4 busy processes, whole job: 4 flights 2.1 s, 16 flights 1.1
 * s, 64 flights 0.8 s.
 */
#define FLIGHTS (RAWCALL ? 32 : 1)

/* pmirun's low descriptors. The program finds its PMI connection at FD_PMI; each flight has SLOTS
 * from FD_SLOTS on. */
enum { FD_PMI = 3, FD_SLOTS = 4, SLOT_PMI = 0, SLOT_OUT, SLOT_ERR, SLOT_IN, SLOTS };

#define STACK_BYTES  131072u
#define GUARD_BYTES  65536u          /* at its low end; a page of any size */
#define BUDGET_NS    (2 * NS_PER_MS) /* of launching at a time; then pmirun serves ranks */
#define SPARE_FDS    24u             /* pmirun's own descriptors besides the ranks' and the slots */
#define FDS_PER_RANK 3u

/* What failed in a child. */
enum stage { STAGE_NONE, STAGE_DESCRIPTORS, STAGE_WDIR, STAGE_BIND, STAGE_EXEC };

struct flight {
    int tid; /* nonzero while the child shares our memory; cleared by the kernel */
    bool busy;
    char *stack;
    struct launcher *l;
    struct rank *rank;
    const struct app *app;
    char **envp;
    const struct place_set *cpus; /* it binds itself to these; NULL: does not */
    bool take_stdin;              /* the slot's descriptor becomes stdin; else our own stays */
    volatile int err;
    volatile enum stage stage;
    int fd;     /* first of its slots */
    int report; /* where a forked child writes err and stage; -1: it shares memory */
    char rank_env[32], local_env[32], id_env[32], pmix_env[32];
};

struct launcher {
    struct jobs *jobs;
    struct output *output;
    struct input *input;
    const struct signals *signals; /* as they were before pmirun changed them */
    pid_t parent;
    struct flight flights[FLIGHTS];
    struct rlimit orig_nofile;
    bool nofile_raised;
    bool copies; /* children are copies of us */
    int null_fd;
    int n_flights; /* fewer when the ranks need the descriptors of the limit */
    int fd_end;    /* one past the last slot */
    unsigned next;
    char **shell_argv;
    size_t n_env;        /* strings of the environment of the app being launched */
    struct rank *failed; /* first rank that could not be executed, and why */
    int failed_err;
    enum stage failed_stage;
};

static int init_launcher(struct launcher *l)
{
    rlim_t limit;
    int fd;

    guard_start(l->jobs->guard); /* first: it copies us, and our descriptors by then */
    if (getrlimit(RLIMIT_NOFILE, &l->orig_nofile) != 0)
        return -errno;
    limit = l->orig_nofile.rlim_max;
    if (l->orig_nofile.rlim_cur < limit) {
        struct rlimit all = {limit, limit};

        l->nofile_raised = setrlimit(RLIMIT_NOFILE, &all) == 0;
        if (!l->nofile_raised)
            limit = l->orig_nofile.rlim_cur;
    }
    l->n_flights = limit / 4 / SLOTS < FLIGHTS ? (int)(limit / 4 / SLOTS)
                                               : FLIGHTS; /* not over a quarter of all */
    l->n_flights += l->n_flights == 0;
    l->fd_end = FD_SLOTS + SLOTS * l->n_flights;

    /* 0, 1 and 2 must be open, or our own descriptors would become the ranks' stdout. */
    do {
        fd = open("/dev/null", O_RDWR);
        if (fd < 0)
            return -errno;
    } while (fd <= STDERR_FILENO);
    l->null_fd = fcntl(fd, F_DUPFD_CLOEXEC, l->fd_end);
    if (l->null_fd < 0)
        return errno == EINVAL ? -EMFILE
                               : -errno; /* EINVAL: the limit on descriptors is below that */
    if (fd >= l->fd_end)
        close(fd);
    for (fd = FD_PMI; fd < l->fd_end; fd++)
        if (dup3(l->null_fd, fd, O_CLOEXEC) < 0)
            return -errno;

    for (int i = 0; i < l->n_flights; i++) {
        struct flight *f = &l->flights[i];

        f->l = l;
        f->fd = FD_SLOTS + SLOTS * i;
        f->report = -1;
    }
    /* Before Linux 5.9 there is no close_range(), and a container's filter may refuse unshare(). */
    l->copies = syscall(SYS_close_range, ~0u, ~0u, 0) != 0 && unshare(CLONE_FILES) != 0;
    l->parent = getpid();
    return 0;
}

void launch_init(struct jobs *jobs, struct output *output, struct input *input,
                 const struct signals *signals)
{
    struct launcher *l = xrealloc(NULL, sizeof(*l));
    int err;

    memset(l, 0, sizeof(*l));
    l->jobs = jobs;
    l->output = output;
    l->input = input;
    l->signals = signals;
    err = init_launcher(l);

    if (err)
        die(STATUS_RESOURCES, "cannot start: %s", strerror(-err));
    jobs->launcher = l;
}

/* Gives back the descriptors of all flights but the first n. */
static void keep_flights(struct launcher *l, int n)
{
    launch_land_all(l);
    for (; l->n_flights > n; l->n_flights--)
        for (int i = 0; i < SLOTS; i++)
            close(l->flights[l->n_flights - 1].fd + i);
    l->fd_end = FD_SLOTS + SLOTS * l->n_flights; /* their next users may lack close-on-exec */
}

int launch_check_limits(struct launcher *l, uint64_t n_more, uint64_t *need, uint64_t *have)
{
    struct rlimit now;
    uint64_t n = n_more, spare;

    if (getrlimit(RLIMIT_NOFILE, &now) != 0)
        return 0;
    for (const struct job *job = l->jobs->launch; job; job = job->next_launch)
        n += job->n_local - job->n_launched;
    /* One flight is enough: more only make a start faster. */
    *need = SPARE_FDS + FD_SLOTS + SLOTS + n * FDS_PER_RANK + l->output->n_streams +
            l->jobs->pmi->n_conns;
    *need += n * ((l->jobs->opt->stdin_rank == STDIN_ALL) + (l->jobs->opt->outfile != NULL) +
                  (l->jobs->opt->errfile != NULL));
    *have = now.rlim_cur;
    if (*need > *have)
        return -EMFILE;
    spare = (*have - *need) / SLOTS;
    if (spare + 1 < (uint64_t)l->n_flights)
        keep_flights(l, (int)spare + 1);
    return 0;
}

/* ---- which file to execute ---- */

static int check_program(const char *dir, const char *path)
{
    struct stat st;
    char *full = path[0] == '/' || !dir ? NULL : xprintf("%s/%s", dir, path);
    const char *p = full ? full : path;
    int err = 0;

    if (stat(p, &st) != 0)
        err = errno;
    else if (!S_ISREG(st.st_mode) || faccessat(AT_FDCWD, p, X_OK, AT_EACCESS) != 0)
        err = EACCES;
    free(full);
    return err;
}

static const char *app_getenv(const struct app *app, const char *name)
{
    size_t len = strlen(name);

    for (uint32_t i = app->n_sets; i-- > 0;)
        if (strncmp(app->sets[i], name, len) == 0 && app->sets[i][len] == '=')
            return app->sets[i] + len + 1;
    return getenv(name);
}

int launch_resolve(struct app *app)
{
    const char *name = app->argv[0], *p;
    int err = ENOENT, rc;
    struct stat st;

    if (app->wdir && (stat(app->wdir, &st) != 0 || !S_ISDIR(st.st_mode)))
        return NO_WDIR;
    if (name[0] == '\0')
        return ENOENT;
    if (strchr(name, '/')) {
        app->path = xprintf("%s", name);
        return check_program(app->wdir, name);
    }
    p = app->search ? app->search : app_getenv(app, "PATH");
    if (!p)
        p = "/usr/local/bin:/usr/bin:/bin";
    while (p) {
        const char *colon = strchr(p, ':');
        int len = colon ? (int)(colon - p) : (int)strlen(p);
        char *path = len ? xprintf("%.*s/%s", len, p, name) : xprintf("./%s", name);

        rc = check_program(app->wdir, path);
        if (rc == 0) {
            app->path = path;
            return 0;
        }
        if (rc == EACCES)
            err = rc;
        free(path);
        p = colon ? colon + 1 : NULL;
    }
    /* As under other launchers, a plain name may also be a file of the working directory. */
    app->path = xprintf("./%s", name);
    return check_program(app->wdir, app->path) == 0 ? 0 : err;
}

/* Why a file is no program. */
static const char *explain_access(const struct app *app, int err)
{
    struct stat st = {0};
    char *full;

    if (err != EACCES)
        return strerror(err);
    full = app->path[0] == '/' || !app->wdir ? NULL : xprintf("%s/%s", app->wdir, app->path);
    if (stat(full ? full : app->path, &st) != 0)
        st.st_mode = S_IXUSR;
    free(full);
    return S_ISDIR(st.st_mode)    ? "it is a directory"
           : !(st.st_mode & 0111) ? "it is not executable (chmod +x)"
                                  : strerror(err);
}

int launch_find(struct app *app, char **why)
{
    int err = launch_resolve(app);

    if (err == NO_WDIR)
        *why = xprintf("cannot start %s: %s: no such working directory", app->argv[0], app->wdir);
    else if (err)
        *why = xprintf("cannot start %s: %s", app->argv[0], explain_access(app, err));
    return err == 0 ? 0 : err == ENOENT ? STATUS_NOTFOUND : STATUS_NOEXEC;
}

/* ---- environment ---- */

static bool has_prefix(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

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
    };

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (has_prefix(var, prefixes[i]))
            return true;
    return job->way == MPI_OPENMPI &&
           (has_prefix(var, "FLUX_JOB_ID=") || has_prefix(var, "FLUX_PMI_LIBRARY_PATH="));
}

bool launch_is_set(const struct app *app, const char *var, uint32_t from)
{
    size_t len = strcspn(var, "=");

    for (uint32_t i = from; i < app->n_sets; i++)
        if (strncmp(app->sets[i], var, len) == 0 && app->sets[i][len] == '=')
            return true;
    return false;
}

#define ENV_MAX_SLOTS 12u
#define SHARED_ENV    4u /* strings that build_env() makes, one more in a spawned job */

/* Is it set by `vars`, NULL or NULL-terminated? */
static bool is_set_by(char *const *vars, const char *var)
{
    size_t len = strcspn(var, "=") + 1;

    for (; vars && *vars; vars++)
        if (strncmp(*vars, var, len) == 0)
            return true;
    return false;
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

/* The number of strings that each rank has for itself: see own_env(). */
static size_t own_strings(const struct options *opt, const struct job *job)
{
    return 2 + (opt->use_port ? 1 : 0) + (job->way == MPI_PMIX ? 1 : 0) + (job->bound ? 1 : 0);
}

/* The strings of a program's environment. The first are different in each rank. */
static void build_env(struct launcher *l, const struct job *job, struct app *app)
{
    size_t n = own_strings(l->jobs->opt, job), n_users, count = 0, n_vars = 0;
    char **e;

    while (environ[count])
        count++;
    while (job->vars && job->vars[n_vars])
        n_vars++;
    e = xrealloc(NULL, (count + app->n_sets + n_vars + ENV_MAX_SLOTS + 1) * sizeof(char *));
    if (l->jobs->opt->use_port) {
        e[n++] = xprintf("PMI_PORT=127.0.0.1:%u", l->jobs->pmi->port->number);
    } else {
        e[n++] = xprintf("PMI_FD=%d",
                         FD_PMI); /* and never PMI_ID: Slurm's libpmi2 would send it as srcid */
    }
    e[n++] = xprintf("PMI_SIZE=%u", job->n_ranks);
    e[n++] = xprintf("MPI_LOCALNRANKS=%u", job->n_local);
    e[n++] = xprintf("PMI_JOBID=%s", job->kvsname);
    if (job->spawned)
        e[n++] = xprintf("PMI_SPAWNED=1");
    if (l->jobs->guard->ranks)
        e[n++] = l->jobs->guard->variable;
    n_users = n;
    for (uint32_t i = 0; i < app->n_sets; i++)
        if (!launch_is_set(app, app->sets[i], i + 1))
            e[n++] = app->sets[i];
    for (size_t i = 0; i < count; i++)
        if (passes_variable(app, environ[i]) && !is_stale(job, environ[i]) &&
            !launch_is_set(app, environ[i], 0))
            e[n++] = environ[i];
    e[n] = NULL;
    for (size_t i = 0; i < n_vars; i++) {
        if (is_set_by(e + n_users, job->vars[i]))
            continue;
        e[n++] = job->vars[i];
        e[n] = NULL;
    }
    app->envp = e;
    l->n_env = n;
    for (int i = 0; i < l->n_flights; i++)
        l->flights[i].envp = xrealloc(l->flights[i].envp, (n + 1) * sizeof(char *));
}

/* The environment of one rank, for the flight. */
static void own_env(const struct options *opt, struct flight *f, const struct rank *r)
{
    size_t n = 2;

    snprintf(f->rank_env, sizeof(f->rank_env), "PMI_RANK=%u", r->number);
    snprintf(f->local_env, sizeof(f->local_env), "MPI_LOCALRANKID=%u", r->local);
    snprintf(f->id_env, sizeof(f->id_env), "PMI_ID=%u", r->token);
    snprintf(f->pmix_env, sizeof(f->pmix_env), "PMIX_RANK=%u", r->number);
    memcpy(f->envp, r->app->envp, (f->l->n_env + 1) * sizeof(char *));
    f->envp[0] = f->rank_env;
    f->envp[1] = f->local_env;
    if (opt->use_port)
        f->envp[n++] = f->id_env;
    if (r->job->way == MPI_PMIX)
        f->envp[n++] = f->pmix_env;
    if (r->job->bound)
        f->envp[n++] = r->job->bound->vars[r - r->job->ranks];
}

static void free_env(const struct options *opt, const struct job *job, struct app *app)
{
    size_t first = own_strings(opt, job), last = first + SHARED_ENV + (job->spawned ? 1 : 0);

    for (size_t i = first; i < last; i++)
        free(app->envp[i]);
    free(app->envp);
    app->envp = NULL;
}

/* ---- the child ---- */

/* Steps of a child that can fail. Negative: -errno of a raw system call. */
static void fail_flight(struct flight *f, enum stage stage, long rc) __attribute__((noreturn));

static void fail_flight(struct flight *f, enum stage stage, long rc)
{
    f->err = (int)-rc;
    f->stage = stage;
    if (f->report >= 0) {
        const int report[2] = {f->err, (int)stage};

        raw_syscall(SYS_write, f->report, (long)report, sizeof(report), 0);
    }
    for (;;)
        raw_syscall(SYS_exit, 127, 0, 0, 0);
}

static void move_fd(struct flight *f, int slot, int to, int flags)
{
    long rc = raw_syscall(SYS_dup3, f->fd + slot, to, flags, 0);

    if (rc < 0)
        fail_flight(f, STAGE_DESCRIPTORS, rc);
}

/* Restores for the program what pmirun has changed for itself. */
static void restore_process(const struct launcher *l)
{
    static const unsigned char
        default_action[64]; /* the kernel's struct sigaction: all zero is SIG_DFL */

    if (l->nofile_raised)
        raw_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, (long)&l->orig_nofile, 0);
    if (!l->signals->pipe_was_ignored)
        raw_syscall(SYS_rt_sigaction, SIGPIPE, (long)default_action, 0, 8);
    if (!l->signals->xfsz_was_ignored)
        raw_syscall(SYS_rt_sigaction, SIGXFSZ, (long)default_action, 0, 8);
    raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&l->signals->orig_mask, 0, 8);
}

/*
 * Runs in our memory, on its own stack, while we continue: it makes raw system calls only, and
 * changes only f->err and f->stage. The signals that pmirun handles are blocked.
 */
static int child_main(void *arg)
{
    struct flight *f = arg;
    int fd_end = f->l->fd_end;
    long rc;

    if (f->report >= 0) { /* open until execve() */
        if (f->report != fd_end)
            raw_syscall(SYS_dup3, f->report, fd_end, O_CLOEXEC, 0);
        f->report = fd_end++;
    }
    /* From here on the descriptors are the child's own, and those behind the slots are closed. */
    rc = raw_syscall(SYS_close_range, fd_end, ~0u, CLOSE_RANGE_UNSHARE, 0);
    if (rc < 0)
        rc = raw_syscall(SYS_unshare, CLONE_FILES, 0, 0, 0);
    if (rc < 0 && f->report < 0)
        fail_flight(f, STAGE_DESCRIPTORS, rc);
    /*
     * A process group of its own, so that a signal reaches all of it. A session of its own too,
     * which is a scheduling group where the kernel groups by session (sched_autogroup): polling
     * ranks in one session get, beside other work, the share of one. 64 polling ranks beside 4
     * busy processes: 39 s in one session, 15.5 s each in its own, as under mpiexec.hydra (15.8 s).
     * But sched_yield() yields only within the group, so ranks that yield stay in one session.
     */
    if (f->rank->job->yields)
        raw_syscall(SYS_setpgid, 0, 0, 0, 0);
    else
        raw_syscall(SYS_setsid, 0, 0, 0, 0);
    raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
    if (raw_syscall(SYS_getppid, 0, 0, 0, 0) != f->l->parent)
        fail_flight(f, STAGE_DESCRIPTORS, -ESRCH); /* the parent died before prctl() */
    if (f->take_stdin)
        move_fd(f, SLOT_IN, STDIN_FILENO, 0);
    move_fd(f, SLOT_OUT, STDOUT_FILENO, 0);
    move_fd(f, SLOT_ERR, STDERR_FILENO, 0);
    if (!f->l->jobs->opt->use_port)
        move_fd(f, SLOT_PMI, FD_PMI, 0);
    if (f->app->wdir && (rc = raw_syscall(SYS_chdir, (long)f->app->wdir, 0, 0, 0)) < 0)
        fail_flight(f, STAGE_WDIR, rc);
    if (f->cpus && (rc = raw_syscall(SYS_sched_setaffinity, 0, (long)f->cpus->bytes,
                                     (long)f->cpus->bits, 0)) < 0)
        fail_flight(f, STAGE_BIND, rc);
    restore_process(f->l);
    rc = raw_syscall(SYS_execve, (long)f->app->path, (long)f->app->argv, (long)f->envp, 0);
    if (rc == -ENOEXEC &&
        f->l->shell_argv) /* a script without #!, as execvp() and shells treat it */
        rc = raw_syscall(SYS_execve, (long)"/bin/sh", (long)f->l->shell_argv, (long)f->envp, 0);
    fail_flight(f, STAGE_EXEC, rc);
}

/* ---- the parent ---- */

struct ends {
    int pmi, out, err; /* ours */
};

static int move_to_slot(int fd, int slot)
{
    int rc = dup3(fd, slot, O_CLOEXEC);

    close(fd);
    return rc < 0 ? -errno : 0;
}

/* Makes a rank's channels, the child's ends in their slots. */
static int make_ends(const struct options *opt, struct flight *f, struct ends *e)
{
    int p[2], rc;

    e->pmi = e->out = e->err = -1;
    if (!opt->use_port) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) != 0)
            return -errno;
        e->pmi = p[0];
        rc = move_to_slot(p[1], f->fd + SLOT_PMI);
        if (rc)
            return rc;
    }
    if (pipe2(p, O_CLOEXEC) != 0)
        return -errno;
    e->out = p[0];
    rc = move_to_slot(p[1], f->fd + SLOT_OUT);
    if (rc)
        return rc;
    if (pipe2(p, O_CLOEXEC) != 0)
        return -errno;
    e->err = p[0];
    return move_to_slot(p[1], f->fd + SLOT_ERR);
}

static void close_ends(struct ends *e)
{
    if (e->pmi >= 0)
        close(e->pmi);
    if (e->out >= 0)
        close(e->out);
    if (e->err >= 0)
        close(e->err);
}

/* Closes the slots: they hold a rank's ends open, and its output would never end. */
static void release_slots(const struct flight *f)
{
    for (int i = 0; i < SLOTS; i++)
        dup3(f->l->null_fd, f->fd + i, O_CLOEXEC);
}

static bool prepare_stdin(struct launcher *l, const struct flight *f, const struct rank *r)
{
    int fd;

    if (!input_join(l->input, r, &fd))
        fd = l->null_fd;
    if (fd == STDIN_FILENO)
        return false;
    dup3(fd, f->fd + SLOT_IN, O_CLOEXEC);
    if (fd != l->null_fd)
        close(fd);
    return true;
}

/* Forks a child; returns once its execve() has succeeded or failed. */
static pid_t start_copy(struct flight *f)
{
    int p[2], report[2], err;
    ssize_t n = 0;
    pid_t pid;

    if (pipe2(p, O_CLOEXEC) != 0)
        return -1;
    f->report = p[1];
    pid = fork();
    if (pid == 0)
        _exit(child_main(f));
    err = errno;
    close(p[1]);
    f->report = -1;
    while (pid > 0 && (n = read(p[0], report, sizeof(report))) < 0 && errno == EINTR)
        ;
    if (n == (ssize_t)sizeof(report)) {
        f->err = report[0];
        f->stage = (enum stage)report[1];
    }
    close(p[0]);
    f->tid = 0;
    errno = err;
    return pid;
}

/* Allocated when a flight is first used: a job of few ranks needs few. */
static bool make_stack(struct flight *f)
{
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

    if (stack == MAP_FAILED)
        return false;
    if (mprotect(stack, GUARD_BYTES, PROT_NONE) != 0) {
        munmap(stack, STACK_BYTES);
        return false;
    }
    f->stack = stack;
    return true;
}

static pid_t start_child(struct flight *f)
{
    pid_t pid;

    if (f->l->copies)
        return start_copy(f);
    if (!f->stack && !make_stack(f))
        return -1;
    f->tid = 1;
    pid = clone(child_main, f->stack + STACK_BYTES,
                CLONE_VM | CLONE_FILES | CLONE_CHILD_CLEARTID | (FLIGHTS == 1 ? CLONE_VFORK : 0) |
                    SIGCHLD,
                f, NULL, NULL, &f->tid);
    return pid < 0 && errno == EINVAL ? start_copy(f) : pid;
}

/* ---- landing ---- */

/* Waits until the child has left our memory, and records its error. */
static void land_flight(struct flight *f)
{
    struct launcher *l = f->l;
    int tid;

    while ((tid = __atomic_load_n(&f->tid, __ATOMIC_ACQUIRE)) != 0)
        syscall(SYS_futex, &f->tid, FUTEX_WAIT, tid, NULL, NULL, 0);
    f->busy = false;
    release_slots(f);
    if (f->err && !l->failed) {
        l->failed = f->rank;
        l->failed_err = f->err;
        l->failed_stage = f->stage;
    }
}

void launch_land_all(struct launcher *l)
{
    if (!l) /* a head */
        return;
    for (int i = 0; i < l->n_flights; i++)
        if (l->flights[i].busy)
            land_flight(&l->flights[i]);
}

/* Does the file begin like text? A shell must not get a broken binary. */
static bool is_text(const struct app *app)
{
    char *full = app->path[0] == '/' || !app->wdir ? NULL : xprintf("%s/%s", app->wdir, app->path);
    int fd = open(full ? full : app->path, O_RDONLY | O_CLOEXEC);
    char head[128];
    ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof(head));

    free(full);
    if (fd >= 0)
        close(fd);
    return n >= 0 && !memchr(head, '\0', (size_t)n) && (n < 4 || memcmp(head, "\177ELF", 4) != 0);
}

/* The arguments of a script that has no #! line: sh, the script, its own arguments. */
static char **make_shell_argv(const struct app *app)
{
    size_t n = 0;
    char **v;

    if (!is_text(app))
        return NULL;
    while (app->argv[n])
        n++;
    v = xrealloc(NULL, (n + 2) * sizeof(char *));
    v[0] = app->argv[0];
    v[1] = app->path;
    memcpy(v + 2, app->argv + 1, n * sizeof(char *));
    return v;
}

/* The flight for the next rank, free. */
static struct flight *next_flight(struct launcher *l)
{
    struct flight *f = &l->flights[l->next++ % (unsigned)l->n_flights];

    if (f->busy)
        land_flight(f);
    return f;
}

/* 0 or -errno: no process. An error of its execve() is known when it lands. */
static int launch_rank(struct launcher *l, struct rank *r)
{
    struct flight *f = next_flight(l);
    struct ends e;
    pid_t pid;
    int rc;

    rc = make_ends(l->jobs->opt, f, &e);
    if (rc == 0 && l->jobs->opt->use_port)
        rc = port_assign(l->jobs->pmi->port, r);
    if (rc == 0) /* an unrecorded process would never be reaped */
        rc = rank_index_reserve(&l->jobs->by_pid);
    if (rc) {
        release_slots(f);
        close_ends(&e);
        return rc;
    }
    f->rank = r;
    f->app = r->app;
    f->cpus = r->job->bound ? &r->job->bound->sets[r - r->job->ranks] : NULL;
    f->err = 0;
    f->stage = STAGE_NONE;
    own_env(l->jobs->opt, f, r);
    f->take_stdin = prepare_stdin(l, f, r);
    pid = start_child(f);
    if (pid < 0) {
        rc = -errno;
        release_slots(f);
        close_ends(&e);
        return rc;
    }
    f->busy = true;
    r->pid = pid;
    guard_add(l->jobs->guard, pid);
    r->state = RANK_RUNNING;
    r->job->n_live++;
    l->jobs->n_live++;
    if (!f->take_stdin) { /* only that rank reads it now */
        land_flight(f);
        dup3(l->null_fd, STDIN_FILENO, 0);
    }
    rank_index_add(&l->jobs->by_pid, r);
    if (!output_begin(l->output, r))
        job_stop(l->jobs, STATUS_OUTPUT);
    if (output_attach(l->output, &r->out, e.out) != 0 ||
        output_attach(l->output, &r->err, e.err) != 0 ||
        (e.pmi >= 0 && pmi_attach(r, e.pmi) != 0)) {
        say("out of memory or descriptors: stopping the job");
        job_stop(l->jobs, STATUS_RESOURCES);
    }
    timeline_rank(l->jobs->timeline, r, TIMELINE_LAUNCH, 0);
    progress_count(l->jobs->progress, PROGRESS_STARTED);
    if (l->jobs->agent)
        agent_report_rank(l->jobs->agent, MSG_STARTED, r, (uint32_t)pid);
    else
        trace("%u:%u pid %d started: %s", r->job->number, r->number, (int)pid, r->app->path);
    return 0;
}

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
    char name[RANK_NAME_BYTES];

    rank_name(r, name);
    if (err == EAGAIN) {
        getrlimit(RLIMIT_NPROC, &lim);
        say("cannot start %s of %u: the limit on processes is reached (ulimit -u: %lld; or the "
            "control group's pids.max, "
            "or kernel.pid_max); stopping the job",
            name, r->job->n_ranks, lim.rlim_cur == RLIM_INFINITY ? -1LL : (long long)lim.rlim_cur);
    } else if (err == EMFILE || err == ENFILE) {
        say("cannot start %s of %u: out of descriptors (ulimit -n): %s; stopping the job", name,
            r->job->n_ranks, strerror(err));
    } else {
        say("cannot start %s of %u: %s; stopping the job", name, r->job->n_ranks, strerror(err));
    }
}

static void launch_failed(struct launcher *l, const struct rank *r, int err, enum stage stage)
{
    char name[RANK_NAME_BYTES];
    const char *what, *why;

    l->jobs->launch = NULL;
    l->jobs->launch_tail = &l->jobs->launch;
    if (stage == STAGE_NONE) {
        explain_no_process(r, err);
        job_stop(l->jobs, STATUS_RESOURCES);
        return;
    }
    what = what_failed(r->app, err, stage, &why);
    say("cannot start %s: %s: %s; stopping the job", rank_name(r, name), what, why);
    job_stop(l->jobs, err == ENOENT ? STATUS_NOTFOUND : STATUS_NOEXEC);
}

/* In a spawned job: the parent job continues, and gets the error. */
static void spawn_failed(struct job *job, const struct rank *r, int err, enum stage stage)
{
    char name[RANK_NAME_BYTES];
    const char *why, *what = what_failed(r->app, err, stage, &why);

    say("cannot start %s: %s: %s; the spawn fails", rank_name(r, name), what, why);
    job_abandon(job, err == EAGAIN ? -EDQUOT : -err); /* no process can be made */
}

static void take_from_queue(struct launcher *l, const struct job *job)
{
    struct job **p = &l->jobs->launch;

    while (*p && *p != job)
        p = &(*p)->next_launch;
    if (!*p)
        return;
    *p = job->next_launch;
    if (!*p)
        l->jobs->launch_tail = p;
}

static void job_launched(struct launcher *l, struct job *job)
{
    take_from_queue(l, job);
    if (job->number == 0)
        l->jobs->at.launch_end = run_ns();
    if (l->jobs->agent)
        agent_report(l->jobs->agent, MSG_LAUNCHED, job->number);
    else if (job->spawned)
        spawn_launched(job, 0);
}

/* Frees the strings of rank r's program; r was launched last. All flights that share them must have
 * landed. */
static void app_launched(struct launcher *l, const struct job *job, struct app *app)
{
    launch_land_all(l);
    if (!app->envp)
        return;
    free_env(l->jobs->opt, job, app);
    free(l->shell_argv);
    l->shell_argv = NULL;
}

void launch_drop(struct launcher *l, struct job *job)
{
    if (!l) /* a head */
        return;
    launch_land_all(l);
    take_from_queue(l, job);
    for (uint32_t i = 0; i < job->n_apps; i++)
        app_launched(l, job, &job->apps[i]);
    if (l->failed && l->failed->job == job)
        l->failed = NULL;
}

/* A rank could not be started: none, or not its program. */
static void give_up(struct launcher *l, struct job *job, const struct rank *r, int err,
                    enum stage stage)
{
    if (job->spawned)
        spawn_failed(job, r, err, stage);
    else
        launch_failed(l, r, err, stage);
}

/* A program could not be executed: lets the other flights land, and reports it. */
static void handle_failure(struct launcher *l)
{
    struct rank *r = l->failed;

    app_launched(l, r->job, r->app);
    l->failed = NULL;
    give_up(l, r->job, r, l->failed_err, l->failed_stage);
}

void launch_settle(struct launcher *l)
{
    for (int i = 0; i < l->n_flights; i++) {
        struct flight *f = &l->flights[i];

        if (f->busy && __atomic_load_n(&f->tid, __ATOMIC_ACQUIRE) == 0)
            land_flight(f);
    }
    if (l->failed && l->jobs->launch == l->failed->job)
        handle_failure(l);
    l->failed = NULL;
}

/* Start the next rank of the first job in the queue. */
static void launch_next(struct launcher *l)
{
    struct job *job = l->jobs->launch;
    struct rank *r = &job->ranks[job->n_launched++];
    bool last;
    int rc;

    if (!r->app->envp) {
        build_env(l, job, r->app);
        l->shell_argv = make_shell_argv(r->app);
    }
    rc = launch_rank(l, r);
    last = job->n_launched == job->n_local;
    if (rc != 0 || last || job->ranks[job->n_launched].app != r->app || l->jobs->stopping)
        app_launched(l, job, r->app);
    if (rc != 0)
        give_up(l, job, r, -rc, STAGE_NONE);
    else if (l->failed)
        handle_failure(l);
    else if (!l->jobs->stopping && last)
        job_launched(l, job);
}

bool launch_some(struct launcher *l)
{
    uint64_t begin, now;

    if (!l) /* a head */
        return false;
    if (!l->jobs->launch) {
        launch_land_all(l); /* when the job was stopped during the launch */
        return false;
    }
    begin = clock_ns();
    if (!l->jobs->at.launch_begin)
        l->jobs->at.launch_begin = begin - loop.start_ns;
    do {
        launch_next(l);
        now = clock_ns();
    } while (l->jobs->launch && now - begin < BUDGET_NS);
    l->jobs->at.launch_busy += now - begin;
    return l->jobs->launch != NULL;
}
