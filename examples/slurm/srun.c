/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * srun's side: the head. It is a child of srun in a session of its own, whose stdin ends with srun
 * however that ends. A thread waits for its end, since a head that gives up must take the step with
 * it: srun is sent SIGTERM, on which it has Slurm kill the step everywhere.
 */
#define _GNU_SOURCE
#include "plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MS   10000  /* for it to say where it listens */
#define LINES     65536u /* which takes no more bytes */
#define END_S     4      /* for the step to end after the head */
#define LAST_S    10     /* and the other way round */
#define STOP_S    15     /* for a head to stop when asked */
#define MAX_WORDS 64u    /* of FENCEPOST_OPTIONS */

extern char **environ;

static struct {
    pid_t pid; /* 0: none */
    int in;    /* its stdin */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_ended; /* the head */
    int status;     /* and how, as a shell has it */
    bool leaving;   /* srun */
} head = {.in = -1, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ---- the head's end ---- */

/* Waits until *flag is set, or `seconds` have passed; with the lock held. */
static void wait_for(const bool *flag, time_t seconds)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    while (!*flag && pthread_cond_timedwait(&head.changed, &head.lock, &until) == 0)
        ;
}

static void *watch_step(void *arg)
{
    int status = 0;

    while (waitpid(head.pid, &status, 0) < 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&head.lock);
    head.has_ended = true;
    head.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    pthread_cond_broadcast(&head.changed);
    if (WIFSIGNALED(status))
        slurm_error("--fencepost: its PMI server died of signal %d", WTERMSIG(status));
    /* Usually the ranks have ended, and srun is about to notice. */
    if (status != 0)
        wait_for(&head.leaving, END_S);
    if (status != 0 && !head.leaving) {
        slurm_error("--fencepost: its PMI server has ended: ending the step");
        kill(getpid(), SIGTERM);
    }
    pthread_mutex_unlock(&head.lock);
    return arg;
}

static void stop_head(void)
{
    if (head.in >= 0)
        close(head.in); /* it stops the ranks, and ends */
    head.in = -1;
}

/* srun's last act, once its status is known. Where it knows of no failure and the head does, as
 * when Slurm has not heard of killed tasks in time, the head's counts. */
static void on_srun_exit(int status, void *arg)
{
    int failed;

    if (!head.pid)
        return;
    pthread_mutex_lock(&head.lock);
    head.leaving = true;
    pthread_cond_broadcast(&head.changed);
    wait_for(&head.has_ended, LAST_S);
    failed = head.status; /* 0 when it has not */
    stop_head();
    wait_for(&head.has_ended, STOP_S);
    if (!head.has_ended)
        kill(head.pid, SIGKILL);
    pthread_mutex_unlock(&head.lock);
    pthread_join(head.thread, NULL);
    head.pid = 0;
    if (status == 0 && failed)
        exit(failed);
}

/* 0 or an errno; then the head is gone. */
static int start_watch(void)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for srun's own threads */
    rc = on_exit(on_srun_exit, NULL);
    if (rc == 0)
        rc = pthread_create(&head.thread, NULL, watch_step, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        kill(head.pid, SIGKILL);
        waitpid(head.pid, NULL, 0);
        head.pid = 0;
    }
    return rc;
}

/* ---- and its beginning ---- */

/* 0 or an errno. `in` and `out` become its stdin and stdout. */
static int spawn_head(char **argv, int in, int out)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int rc;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attr, &none); /* srun has blocked what it waits for */
    posix_spawnattr_setsigdefault(&attr, &all);
    rc = posix_spawn(&head.pid, argv[0], &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    if (rc)
        head.pid = 0;
    return rc ? rc : start_watch();
}

/* What it prints, up to the line "end". False: that line is missing. */
static bool read_lines(int fd, char *text)
{
    size_t n = 0;

    while (n < 5 || memcmp(text + n - 5, "\nend\n", 5) != 0) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = poll(&p, 1, HEAD_MS);
        ssize_t r;

        if (ready < 0 && errno == EINTR)
            continue;
        r = ready > 0 ? read(fd, text + n, LINES - 1 - n) : 0;
        if (r <= 0)
            return false;
        n += (size_t)r;
    }
    return true;
}

/* Starts it and reads its lines. 0, or -1 after a message. */
static int start_head(char **argv, char *text)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, rc;
    bool begins = false;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0 || pipe2(out, O_CLOEXEC) != 0)
        rc = errno;
    else
        rc = spawn_head(argv, in[1], out[1]);
    head.in = in[0];
    close(in[1]);
    close(out[1]);
    if (rc)
        slurm_error("--fencepost: cannot start %s: %s", argv[0], strerror(rc));
    else if (!(begins = read_lines(out[0], text)))
        slurm_error("--fencepost: %s does not start", argv[0]);
    close(out[0]);
    return begins ? 0 : -1;
}

/* The user's options come before the plugin's own, which win. */
static int begin_head(bool no_shm, uint32_t n_nodes, uint32_t n_tasks, char *program, char *text)
{
    const char *user = getenv("FENCEPOST_OPTIONS");
    char *pmirun = strdup(settings.pmirun), *options = NULL, *save = NULL, *argv[MAX_WORDS + 12];
    char *word;
    size_t n = 0;
    int rc = -1;

    argv[n++] = pmirun;
    if (pmirun && asprintf(&options, "--step %s --launch%s -N %u -n %u --", user ? user : "",
                           no_shm ? "=fork --no-shm" : " fork", n_nodes, n_tasks) < 0)
        options = NULL;
    word = options ? strtok_r(options, " \t\n", &save) : NULL;
    for (; word && n < MAX_WORDS + 9; word = strtok_r(NULL, " \t\n", &save))
        argv[n++] = word;
    argv[n++] = program;
    argv[n] = NULL;
    if (word)
        slurm_error("--fencepost: FENCEPOST_OPTIONS has more than %u words", MAX_WORDS);
    else if (!options)
        slurm_error("--fencepost: out of memory");
    else
        rc = start_head(argv, text);
    free(pmirun);
    free(options);
    return rc;
}

/* ---- what srun calls ---- */

/* The text as a credential in the environment, which srun merges into the step's. */
static int publish_step(char *text)
{
    const char *why = "";
    char *credential = credential_seal(text, &why);
    int rc = credential ? setenv(CREDENTIAL_VARIABLE, credential, 1) : -1;

    explicit_bzero(text, LINES);
    free(credential);
    if (rc)
        slurm_error("--fencepost: MUNGE refuses the step's secret: %s", why);
    return rc;
}

int srun_begin(spank_t spank, bool no_shm)
{
    static char text[LINES];
    char **argv, program[] = "step";
    uint32_t n_nodes = 0, n_tasks = 0;
    int argc, rc;

    (void)spank_get_item(spank, S_JOB_NNODES, &n_nodes);
    (void)spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &n_tasks);
    if (spank_get_item(spank, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS || argc == 0)
        argv = NULL;
    rc = begin_head(no_shm, n_nodes, n_tasks, argv ? argv[0] : program, text) ? -1
                                                                              : publish_step(text);
    if (rc)
        stop_head();
    return rc;
}
