/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting processes, fast.
 *
 * A child is made by clone(CLONE_VM | CLONE_VFORK | CLONE_FILES): no page table is copied, and no
 * descriptor table either, which matters because ours holds three descriptors for each rank. The
 * child's ends are put into fixed low slots of the shared table; then the child takes a private
 * copy of just those with close_range(CLOSE_RANGE_UNSHARE), whose cost does not depend on how many
 * we have. The slots are also why PMI_FD is the same number in every rank.
 *
 * The environment is built once for each program; per rank only the text of two or three of its
 * strings is rewritten in place, which is sound because we sleep until the child has called execve().
 *
 * CPU seconds, user and system, ours and the ranks', for 1,000 ranks of a small static PMI client (2 cores, busy machine,
 * so that only CPU time can be compared): as here 0.65; with a copied descriptor table 0.78; with plain fork() 1.04;
 * mpiexec.hydra 1.28. Of the 0.65, 64 % are the clients' own start, talk and exit, 5 % clone().
 */
#define _GNU_SOURCE
#include "pmirun.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Descriptors of the table that a child takes along. */
enum { SLOT_PMI = 3, SLOT_OUT = 4, SLOT_ERR = 5, SLOT_IN = 6, SLOT_END = 7 };

#define STACK_BYTES 65536u
#define BUDGET_NS (2 * NS_PER_MS) /* of launching before ranks are served again */
#define SPARE_FDS 24u             /* what we need besides the ranks' own */
#define FDS_PER_RANK 3u

/* What a child could not do. */
enum stage { STAGE_NONE, STAGE_DESCRIPTORS, STAGE_WDIR, STAGE_EXEC };

struct launcher {
    char *stack;
    pid_t parent;
    const struct pmirun *pr;
    const struct app *app;
    char **shell_argv;
    bool slots_used; /* they hold a rank's ends */
    bool take_stdin; /* the slot's descriptor becomes stdin; else our own stays */
    volatile int err;
    volatile enum stage stage;
    char rank_env[32], local_env[32], id_env[32];
};

int launch_init(struct pmirun *pr)
{
    struct launcher *l;
    int fd;

    /* 0, 1 and 2 must be something, or our own descriptors would become the ranks' stdout. */
    do {
        fd = open("/dev/null", O_RDWR);
        if (fd < 0)
            return -errno;
    } while (fd <= STDERR_FILENO);
    pr->null_fd = fcntl(fd, F_DUPFD_CLOEXEC, SLOT_END);
    if (pr->null_fd < 0)
        return -errno;
    if (fd >= SLOT_END)
        close(fd);
    for (fd = SLOT_PMI; fd < SLOT_END; fd++)
        if (dup3(pr->null_fd, fd, O_CLOEXEC) < 0)
            return -errno;

    l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    l->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (l->stack == MAP_FAILED) {
        free(l);
        return -ENOMEM;
    }
    l->parent = getpid();
    l->pr = pr;
    pr->launcher = l;

    if (getrlimit(RLIMIT_NOFILE, &pr->orig_nofile) == 0 && pr->orig_nofile.rlim_cur < pr->orig_nofile.rlim_max) {
        struct rlimit all = {pr->orig_nofile.rlim_max, pr->orig_nofile.rlim_max};

        pr->nofile_raised = setrlimit(RLIMIT_NOFILE, &all) == 0;
    }
    return 0;
}

int launch_check_limits(struct pmirun *pr, uint64_t n_more, uint64_t *need, uint64_t *have)
{
    struct rlimit now;
    uint64_t n = n_more;

    if (getrlimit(RLIMIT_NOFILE, &now) != 0)
        return 0;
    for (const struct job *job = pr->launch; job; job = job->next_launch)
        n += job->n_ranks - job->n_launched;
    *need = SPARE_FDS + n * FDS_PER_RANK + pr->n_streams + pr->n_conns;
    *have = now.rlim_cur;
    return *need > *have ? -EMFILE : 0;
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
        return ENOTDIR;
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
    /* As other launchers do: a plain name may also be a file of the working directory. */
    app->path = xprintf("./%s", name);
    return check_program(app->wdir, app->path) == 0 ? 0 : err;
}

/* ---- environment ---- */

static bool has_prefix(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/*
 * What another launcher told us about ourselves would mislead a rank: an MPI library that finds
 * PMIx or Slurm step variables may well take them for its own.
 */
static bool is_stale(const char *var)
{
    static const char *const prefixes[] = {
        "PMI_", "PMI2_", "PMIX_", "SLURM_STEP", "SLURM_SRUN_", "SLURM_PMI", "SLURM_LAUNCH_NODE", "SLURM_PROCID=",
        "SLURM_LOCALID=", "SLURM_NODEID=", "SLURM_GTIDS=", "SLURM_TASK_PID=", "SLURM_MPI_TYPE=", "SLURM_DISTRIBUTION=",
        "MPI_LOCALRANKID=", "MPI_LOCALNRANKS=", "HYDI_CONTROL_FD=", "OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "PRTE_",
    };

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (has_prefix(var, prefixes[i]))
            return true;
    return false;
}

static bool is_set_again(const struct app *app, const char *var, uint32_t from)
{
    size_t len = strcspn(var, "=");

    for (uint32_t i = from; i < app->n_sets; i++)
        if (strncmp(app->sets[i], var, len) == 0 && app->sets[i][len] == '=')
            return true;
    return false;
}

#define ENV_MAX_SLOTS 10u

/* envp[0..] point into the launcher (rewritten for each rank) or belong to app, up to the job's last. */
static void build_env(struct pmirun *pr, const struct job *job, struct app *app)
{
    struct launcher *l = pr->launcher;
    size_t n = 0, count = 0;
    char **e;

    while (environ[count])
        count++;
    e = xrealloc(NULL, (count + app->n_sets + ENV_MAX_SLOTS + 1) * sizeof(char *));
    e[n++] = l->rank_env;
    e[n++] = l->local_env;
    if (pr->opt.use_port) {
        e[n++] = l->id_env;
        e[n++] = xprintf("PMI_PORT=127.0.0.1:%u", pr->port);
    } else {
        e[n++] = xprintf("PMI_FD=%d", SLOT_PMI); /* and never PMI_ID: Slurm's libpmi2 would send it as srcid */
    }
    e[n++] = xprintf("PMI_SIZE=%u", job->n_ranks);
    e[n++] = xprintf("MPI_LOCALNRANKS=%u", job->n_ranks);
    e[n++] = xprintf("PMI_JOBID=%s", job->kvsname);
    if (job->spawned)
        e[n++] = xprintf("PMI_SPAWNED=1");
    for (uint32_t i = 0; i < app->n_sets; i++)
        if (!is_set_again(app, app->sets[i], i + 1))
            e[n++] = app->sets[i];
    for (size_t i = 0; i < count; i++)
        if (!is_stale(environ[i]) && !is_set_again(app, environ[i], 0))
            e[n++] = environ[i];
    e[n] = NULL;
    app->envp = e;
}

static void free_env(const struct pmirun *pr, const struct job *job, struct app *app)
{
    size_t first = pr->opt.use_port ? 3 : 2, last = (pr->opt.use_port ? 7 : 6) + (job->spawned ? 1 : 0);

    for (size_t i = first; i < last; i++)
        free(app->envp[i]);
    free(app->envp);
    app->envp = NULL;
}

/* ---- the child ---- */

static void fail(struct launcher *l, enum stage stage) __attribute__((noreturn));

static void fail(struct launcher *l, enum stage stage)
{
    l->err = errno;
    l->stage = stage;
    _exit(127);
}

/*
 * Runs in our memory, on its own stack, while we sleep: nothing but system calls, and nothing left changed
 * but l->err and l->stage. Signals are blocked.
 */
static int child_main(void *arg)
{
    struct launcher *l = arg;
    const struct pmirun *pr = l->pr;
    char *const *argv = l->app->argv;

    /* From here on the descriptors are our own. Everything from SLOT_END on is gone. */
    if (syscall(SYS_close_range, SLOT_END, ~0u, CLOSE_RANGE_UNSHARE) != 0 && unshare(CLONE_FILES) != 0)
        fail(l, STAGE_DESCRIPTORS);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != l->parent)
        _exit(127); /* the parent died before prctl() */
    if ((l->take_stdin && dup2(SLOT_IN, STDIN_FILENO) < 0) || dup2(SLOT_OUT, STDOUT_FILENO) < 0 ||
        dup2(SLOT_ERR, STDERR_FILENO) < 0)
        fail(l, STAGE_DESCRIPTORS);
    if (!pr->opt.use_port && fcntl(SLOT_PMI, F_SETFD, 0) != 0)
        fail(l, STAGE_DESCRIPTORS);
    if (pr->nofile_raised)
        setrlimit(RLIMIT_NOFILE, &pr->orig_nofile);
    if (l->app->wdir && chdir(l->app->wdir) != 0)
        fail(l, STAGE_WDIR);
    if (!pr->pipe_was_ignored)
        signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &pr->orig_mask, NULL);
    execve(l->app->path, argv, l->app->envp);
    if (errno == ENOEXEC && l->shell_argv) /* a script without #!, as execvp() and shells treat it */
        execve("/bin/sh", l->shell_argv, l->app->envp);
    fail(l, STAGE_EXEC);
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
static int make_ends(const struct pmirun *pr, struct ends *e)
{
    int p[2], rc;

    e->pmi = e->out = e->err = -1;
    if (!pr->opt.use_port) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) != 0)
            return -errno;
        e->pmi = p[0];
        rc = move_to_slot(p[1], SLOT_PMI);
        if (rc)
            return rc;
    }
    if (pipe2(p, O_CLOEXEC) != 0)
        return -errno;
    e->out = p[0];
    rc = move_to_slot(p[1], SLOT_OUT);
    if (rc)
        return rc;
    if (pipe2(p, O_CLOEXEC) != 0)
        return -errno;
    e->err = p[0];
    return move_to_slot(p[1], SLOT_ERR);
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

/* The slots hold a rank's ends open: let go when no launch follows, or its output would never end. */
static void release_slots(struct pmirun *pr)
{
    if (!pr->launcher->slots_used)
        return;
    pr->launcher->slots_used = false;
    for (int fd = SLOT_PMI; fd <= SLOT_ERR; fd++)
        dup3(pr->null_fd, fd, O_CLOEXEC);
}

static bool prepare_stdin(struct pmirun *pr, const struct rank *r)
{
    int fd = pr->null_fd;

    if (r->job->number == 0 && r->number == 0 && input_init(pr, &fd) != 0)
        fd = pr->null_fd;
    if (fd == STDIN_FILENO)
        return false;
    dup3(fd, SLOT_IN, O_CLOEXEC);
    if (fd != pr->null_fd)
        close(fd);
    return true;
}

static pid_t start(struct launcher *l)
{
    return clone(child_main, l->stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, l);
}

/* Does the file begin like text? A broken binary must not be fed to a shell. */
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

/* 0; -errno: no process (*stage NONE), or it could not execute the program. */
static int launch_rank(struct pmirun *pr, struct rank *r, enum stage *stage)
{
    struct launcher *l = pr->launcher;
    struct ends e;
    pid_t pid;
    int rc;

    *stage = STAGE_NONE;
    rc = make_ends(pr, &e);
    if (rc == 0 && pr->opt.use_port)
        rc = port_assign(pr, r);
    if (rc) {
        close_ends(&e);
        return rc;
    }
    l->app = r->app;
    l->err = 0;
    l->stage = STAGE_NONE;
    snprintf(l->rank_env, sizeof(l->rank_env), "PMI_RANK=%u", r->number);
    snprintf(l->local_env, sizeof(l->local_env), "MPI_LOCALRANKID=%u", r->number);
    snprintf(l->id_env, sizeof(l->id_env), "PMI_ID=%u", r->token);
    l->take_stdin = prepare_stdin(pr, r);
    pid = start(l);
    if (pid < 0) {
        rc = -errno;
        close_ends(&e);
        return rc;
    }
    if (r->job->number == 0 && r->number == 0) { /* only rank 0 reads it from here on */
        if (!l->take_stdin)
            dup3(pr->null_fd, STDIN_FILENO, 0);
        dup3(pr->null_fd, SLOT_IN, O_CLOEXEC);
    }
    if (l->err) {
        waitpid(pid, NULL, 0);
        close_ends(&e);
        *stage = l->stage;
        return -l->err;
    }
    r->pid = pid;
    r->state = RANK_RUNNING;
    r->job->n_live++;
    pr->n_live++;
    if (job_add_pid(pr, r) != 0 || output_attach(pr, &r->out, e.out) != 0 ||
        output_attach(pr, &r->err, e.err) != 0 || (e.pmi >= 0 && pmi_attach(pr, r, e.pmi) != 0)) {
        say(pr, "out of memory or descriptors: stopping the job");
        job_stop(pr, STATUS_RESOURCES);
    }
    trace(pr, "%u:%u pid %d started: %s", r->job->number, r->number, (int)pid, r->app->path);
    return 0;
}

/* Why a process could not be made, in words that help. */
static void explain_no_process(struct pmirun *pr, const struct rank *r, int err)
{
    struct rlimit lim = {0, 0};
    char name[32];

    rank_name(r, name);
    if (err == EAGAIN) {
        getrlimit(RLIMIT_NPROC, &lim);
        say(pr,
            "cannot start %s of %u: the limit on processes is reached (ulimit -u: %lld; or the control group's pids.max, "
            "or kernel.pid_max); stopping the job",
            name, r->job->n_ranks, lim.rlim_cur == RLIM_INFINITY ? -1LL : (long long)lim.rlim_cur);
    } else if (err == EMFILE || err == ENFILE) {
        say(pr, "cannot start %s of %u: out of descriptors (ulimit -n): %s; stopping the job", name, r->job->n_ranks,
            strerror(err));
    } else {
        say(pr, "cannot start %s of %u: %s; stopping the job", name, r->job->n_ranks, strerror(err));
    }
}

static void launch_failed(struct pmirun *pr, struct rank *r, int err, enum stage stage)
{
    char name[32];

    pr->launch = NULL;
    pr->launch_tail = &pr->launch;
    if (stage == STAGE_NONE) {
        explain_no_process(pr, r, err);
        job_stop(pr, STATUS_RESOURCES);
        return;
    }
    say(pr, "cannot start %s: %s: %s; stopping the job", rank_name(r, name),
        stage == STAGE_WDIR ? r->app->wdir : r->app->path,
        stage == STAGE_DESCRIPTORS ? "setting up descriptors failed" : strerror(err));
    job_stop(pr, err == ENOENT ? STATUS_NOTFOUND : STATUS_NOEXEC);
}

/* Of a spawn: the parent job lives on and hears of it. */
static void spawn_failed(struct pmirun *pr, struct job *job, struct rank *r, int err)
{
    char name[32];

    say(pr, "cannot start %s: %s: %s; the spawn fails", rank_name(r, name), r->app->path, strerror(err));
    pr->launch = job->next_launch;
    if (!pr->launch)
        pr->launch_tail = &pr->launch;
    job_abandon(pr, job, r->number, err);
}

static void job_launched(struct pmirun *pr, struct job *job)
{
    pr->launch = job->next_launch;
    if (!pr->launch)
        pr->launch_tail = &pr->launch;
    if (job->number == 0)
        pr->at.launch_end = clock_ns() - pr->start_ns;
    if (job->spawned)
        spawn_launched(pr, job, NULL);
}

bool launch_some(struct pmirun *pr)
{
    uint64_t begin, now;

    if (!pr->launch) {
        release_slots(pr); /* when a signal has stopped the job half way */
        return false;
    }
    pr->launcher->slots_used = true;
    begin = clock_ns();
    if (!pr->at.launch_begin)
        pr->at.launch_begin = begin - pr->start_ns;
    do {
        struct job *job = pr->launch;
        struct rank *r = &job->ranks[job->n_launched++];
        enum stage stage;
        int rc;

        if (!r->app->envp) {
            build_env(pr, job, r->app);
            pr->launcher->shell_argv = make_shell_argv(r->app);
        }
        rc = launch_rank(pr, r, &stage);
        if (job->n_launched == job->n_ranks || job->ranks[job->n_launched].app != r->app || rc != 0) {
            free_env(pr, job, r->app);
            free(pr->launcher->shell_argv);
        }
        if (rc != 0 && job->spawned)
            spawn_failed(pr, job, r, -rc);
        else if (rc != 0)
            launch_failed(pr, r, -rc, stage);
        else if (!pr->stopping && job->n_launched == job->n_ranks)
            job_launched(pr, job);
        now = clock_ns();
    } while (pr->launch && now - begin < BUDGET_NS);
    pr->at.launch_busy += now - begin;
    if (!pr->launch)
        release_slots(pr);
    return pr->launch != NULL;
}
