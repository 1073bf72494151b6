/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slurmstepd's side: the agent of a node. Its parent ends at once: slurmstepd kills what is below
 * it when its own tasks have ended, and other nodes may still need the agent. It ends when the head
 * ends or orders it to; when slurmstepd ends, it ends with its ranks. slurmstepd writes its stdin:
 * first the head's output, by the child that becomes the agent; then a line for each task's begin
 * and end.
 */
#define _GNU_SOURCE
#include "plugin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define AGENT_S 15 /* for the child to become the agent */

/* The failure, for the reader of srun's output. */
enum stage { FINE, RESOURCES, USER, VARIABLE, CREDENTIAL, EXEC, BEGIN, STAGES };

struct failure {
    int stage, err;
};

struct rank_ends {
    uint32_t number;
    int task, agent;
};

static struct {
    struct failure failure;
    struct rank_ends *ranks;
    uint32_t node, n_ranks, n_ended; /* of them, here */
    uint32_t n_tasks;                /* on all nodes */
    int agent;                       /* a pidfd; -1: Linux before 5.3 */
    int control[2]; /* a pipe, the agent's stdin; both ends, so that a write is never SIGPIPE */
} step = {.agent = -1, .control = {-1, -1}};

/* ---- the child ---- */

static _Noreturn void child_fail(int to, int stage, int err)
{
    const struct failure f = {stage, err};

    _exit(write(to, &f, sizeof(f)) == sizeof(f) ? 1 : 2);
}

/* For good: no id of this process stays root's, unless the user is root. */
static bool become_user(void)
{
    const uid_t uid = geteuid();
    const gid_t gid = getegid();

    prctl(PR_SET_DUMPABLE, 0); /* the user shall not look into slurmstepd's memory */
    return setresgid(gid, gid, gid) == 0 && setresuid(uid, uid, uid) == 0 &&
           (uid == 0 || setuid(0) != 0);
}

/* "RANK:DESCRIPTOR,..." of all ranks here. */
static char *list_ranks(void)
{
    char *list = malloc(24 * (size_t)step.n_ranks + 1), *p = list;

    for (uint32_t i = 0; list && i < step.n_ranks; i++)
        p += sprintf(p, "%s%u:%d", i ? "," : "", step.ranks[i].number, step.ranks[i].agent);
    return list;
}

/* Above stderr; Linux has a call for that from 5.11 on. */
static bool close_at_exec(void)
{
    DIR *d = opendir("/proc/self/fd");

    for (const struct dirent *e; d && (e = readdir(d));)
        if (atoi(e->d_name) > STDERR_FILENO)
            (void)fcntl(atoi(e->d_name), F_SETFD, FD_CLOEXEC);
    return d != NULL;
}

/* Becomes the agent, which says by a byte on its stdout, `up`, that it has begun. It reads the
 * user's data only as the user. */
static _Noreturn void be_agent(spank_t spank, int say, int up)
{
    char *credential, *text, *list = list_ranks(), node[16], flag[] = "--agent",
                             path[] = "PATH=/usr/local/bin:/usr/bin:/bin",
                             *pmirun = strdup(settings.pmirun);
    char *argv[] = {pmirun, flag, node, list, NULL}, *env[] = {path, NULL};
    const struct failure self = {FINE, getpid()};
    const char *why;

    if (write(say, &self, sizeof(self)) != sizeof(self) || !become_user())
        child_fail(say, USER, errno);
    credential = malloc(CREDENTIAL_BYTES);
    if (!credential || !list || !pmirun)
        child_fail(say, RESOURCES, ENOMEM);
    if (spank_getenv(spank, CREDENTIAL_VARIABLE, credential, CREDENTIAL_BYTES) != ESPANK_SUCCESS)
        child_fail(say, VARIABLE, ENOENT);
    text = credential_open(credential, &why);
    if (!text) {
        dprintf(STDERR_FILENO, "fencepost: MUNGE: %s\n", why);
        child_fail(say, CREDENTIAL, EACCES);
    }
    errno = ENOBUFS; /* of a write that is short */
    if (write(step.control[1], text, strlen(text)) != (ssize_t)strlen(text))
        child_fail(say, RESOURCES, errno);
    snprintf(node, sizeof(node), "%u", step.node);
    if (dup2(step.control[0], STDIN_FILENO) < 0 || dup2(up, STDOUT_FILENO) < 0 ||
        !close_at_exec() || chdir("/") != 0)
        child_fail(say, RESOURCES, errno);
    for (uint32_t i = 0; i < step.n_ranks; i++)
        if (fcntl(step.ranks[i].agent, F_SETFD, 0) != 0)
            child_fail(say, RESOURCES, errno);
    execve(pmirun, argv, env);
    child_fail(say, EXEC, errno);
}

/* ---- slurmstepd, before it forks its tasks ---- */

static int make_sockets(spank_t spank)
{
    int p[2];

    step.ranks = calloc(step.n_ranks, sizeof(*step.ranks));
    if (!step.ranks)
        return ENOMEM;
    for (uint32_t i = 0; i < step.n_ranks; i++)
        step.ranks[i].task = step.ranks[i].agent = -1;
    for (uint32_t i = 0; i < step.n_ranks; i++) {
        struct rank_ends *r = &step.ranks[i];

        if (spank_get_item(spank, S_JOB_LOCAL_TO_GLOBAL_ID, i, &r->number) != ESPANK_SUCCESS)
            return EINVAL;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) != 0)
            return errno;
        r->task = p[0], r->agent = p[1];
    }
    return 0;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Is the pipe readable, or its other end closed, within AGENT_S? No signal ends the wait. */
static bool await_pipe(int fd)
{
    sigset_t all;

    sigfillset(&all);
    return ppoll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1,
                 &(struct timespec){.tv_sec = AGENT_S}, &all) > 0;
}

/* Forks it, and waits until it is pmirun and has begun. A pipe packs small lines; a socket would
 * hold 280. */
static struct failure fork_agent(spank_t spank)
{
    int say[2] = {-1, -1}, up[2] = {-1, -1};
    struct failure f = {FINE, 0};
    pid_t pid = -1;
    char byte;

    if (pipe2(step.control, O_CLOEXEC) == 0 && pipe2(say, O_CLOEXEC) == 0 &&
        pipe2(up, O_CLOEXEC) == 0 && fcntl(step.control[1], F_SETFL, O_NONBLOCK) == 0)
        pid = fork();
    if (pid == 0) {
        setsid();
        pid = fork();
        if (pid == 0)
            be_agent(spank, say[1], up[1]);
        if (pid < 0)
            child_fail(say[1], RESOURCES, errno);
        _exit(0);
    }
    if (pid < 0)
        f = (struct failure){RESOURCES, errno};
    close_fd(&say[1]);
    close_fd(&up[1]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    while (pid > 0 && f.stage == FINE)
        if (!await_pipe(say[0]))
            f = (struct failure){EXEC, ETIMEDOUT};
        else if (read(say[0], &f, sizeof(f)) != sizeof(f))
            break; /* its end was closed by execve() */
        else if (f.stage == FINE)
            step.agent = (int)syscall(SYS_pidfd_open, f.err, 0);
    if (f.stage == FINE && !await_pipe(up[0]))
        f = (struct failure){BEGIN, ETIMEDOUT};
    else if (f.stage == FINE && read(up[0], &byte, 1) != 1)
        f = (struct failure){BEGIN, ESRCH};
    close_fd(&say[0]);
    close_fd(&up[0]);
    return f;
}

int stepd_begin(spank_t spank)
{
    int err;

    (void)spank_get_item(spank, S_JOB_NODEID, &step.node);
    (void)spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &step.n_ranks);
    (void)spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &step.n_tasks);
    err = make_sockets(spank);
    step.failure = err ? (struct failure){RESOURCES, err} : fork_agent(spank);
    for (uint32_t i = 0; step.ranks && i < step.n_ranks; i++)
        close_fd(&step.ranks[i].agent);
    if (step.failure.stage != FINE)
        stepd_end();
    (void)spank_unsetenv(spank, CREDENTIAL_VARIABLE);
    return 0;
}

/* ---- in a task ---- */

static void explain_failure(void)
{
    static const char *const stages[STAGES] = {
        [RESOURCES] = "no descriptors or process for the agent",
        [USER] = "the agent cannot become the user",
        [VARIABLE] = "no " CREDENTIAL_VARIABLE
                     " from srun: does srun's plugstack.conf have the plugin's line?",
        [CREDENTIAL] = "MUNGE refuses the step's secret",
        [EXEC] = "the agent cannot be executed",
        [BEGIN] = "the agent ends before it has begun, or does not begin",
    };
    const struct failure *f = &step.failure;

    dprintf(STDERR_FILENO, "fencepost: node %u: %s: %s: %s\n", step.node, stages[f->stage],
            settings.pmirun, strerror(f->err));
}

static void set_number(spank_t spank, const char *name, uint32_t v)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", v);
    (void)spank_setenv(spank, name, text, 1);
}

/* Open MPI 4 finds our libpmi by its component for Flux, and uses the job's number but two bits. */
static void set_openmpi(spank_t spank)
{
    uint32_t job = 0, id = 0;

    (void)spank_get_item(spank, S_JOB_ID, &job);
    (void)spank_get_item(spank, S_JOB_STEPID, &id);
    set_number(spank, "FLUX_JOB_ID", (job * 2654435761u + id) & 0x7fff7fff);
    (void)spank_setenv(spank, "FLUX_PMI_LIBRARY_PATH", settings.libpmi, 1);
}

int stepd_task(spank_t spank)
{
    static const char *const stale[] = {"PMI_PORT", "PMI_ID", "PMI_JOBID", "PMI_SPAWNED",
                                        CREDENTIAL_VARIABLE};
    int local = -1;

    (void)spank_get_item(spank, S_TASK_ID, &local);
    if (step.failure.stage == FINE && (local < 0 || (uint32_t)local >= step.n_ranks ||
                                       fcntl(step.ranks[local].task, F_SETFD, 0) != 0))
        step.failure = (struct failure){RESOURCES, EINVAL};
    if (step.failure.stage != FINE) {
        if (local <= 0) /* once a node */
            explain_failure();
        _exit(1);
    }
    for (size_t i = 0; i < sizeof(stale) / sizeof(stale[0]); i++)
        (void)spank_unsetenv(spank, stale[i]);
    set_number(spank, "PMI_FD", (uint32_t)step.ranks[local].task);
    set_number(spank, "PMI_RANK", step.ranks[local].number);
    set_number(spank, "PMI_SIZE", step.n_tasks);
    set_number(spank, "MPI_LOCALRANKID", (uint32_t)local);
    set_number(spank, "MPI_LOCALNRANKS", step.n_ranks);
    set_openmpi(spank);
    return 0;
}

/* ---- slurmstepd, as root ---- */

/* A line for the agent: two numbers from Slurm. If it does not fit, the pipe is closed: the agent
 * sees slurmstepd end. */
static void tell_agent(const char *what, uint32_t rank, int value)
{
    if (step.control[1] >= 0 && dprintf(step.control[1], "%s %u %d\n", what, rank, value) < 0)
        stepd_end();
}

/* The rank of a callback's task; NULL: none. */
static struct rank_ends *ends_of(spank_t spank)
{
    int local = -1;

    (void)spank_get_item(spank, S_TASK_ID, &local);
    return step.ranks && local >= 0 && (uint32_t)local < step.n_ranks ? &step.ranks[local] : NULL;
}

int stepd_forked(spank_t spank)
{
    struct rank_ends *r = ends_of(spank);
    pid_t pid = 0;

    if (!r || spank_get_item(spank, S_TASK_PID, &pid) != ESPANK_SUCCESS)
        return 0;
    close_fd(&r->task); /* all tasks have been forked */
    tell_agent("task", r->number, pid);
    return 0;
}

/* With cgroup/v2 the agent is in the step's cgroup, as slurmstepd is, and Slurm kills every process
 * there once the tasks have ended. Other nodes may need the agent, so this waits for its end, also
 * by a kill of the step. The pidfd reports it even if a process of the user holds the pipe's other
 * end. */
static void await_agent(void)
{
    struct pollfd ends[] = {{.fd = step.control[1]}, {.fd = step.agent, .events = POLLIN}};
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[4096];
    bool in_step = false;

    while (f && !in_step && fgets(line, sizeof(line), f))
        in_step = !strncmp(line, "0::/", 4) && strstr(line, "/step_") && strstr(line, "/slurm\n");
    if (f)
        fclose(f);
    close_fd(&step.control[0]); /* the other reader is the agent */
    while (in_step && poll(ends, 2, -1) < 0 && errno == EINTR)
        ;
}

int stepd_exited(spank_t spank)
{
    const struct rank_ends *r = ends_of(spank);
    int status = 0;

    if (r && spank_get_item(spank, S_TASK_EXIT_STATUS, &status) == ESPANK_SUCCESS)
        tell_agent("exit", r->number, status);
    if (r && ++step.n_ended == step.n_ranks && step.control[1] >= 0)
        await_agent();
    return 0;
}

int stepd_end(void)
{
    close_fd(&step.control[1]); /* by which the agent sees that slurmstepd has ended */
    close_fd(&step.control[0]);
    return 0;
}
