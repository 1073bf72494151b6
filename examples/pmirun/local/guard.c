/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guard: a process that outlives a pmirun that dies of SIGKILL, and cleans up after it.
 *
 * The kernel kills a dead pmirun's ranks (PR_SET_PDEATHSIG), but not what the ranks have started.
 * So pmirun forks the guard before anything else. It is asleep in a session of its own, where
 * neither a terminal nor a kill of pmirun's process group reaches it, until the kernel notifies it
 * of its parent's death. Then it kills
 *   - every process group that a rank leads: the ranks' ids are bits in memory that both share;
 *   - every process with pmirun's variable in its environment, until looks at all of /proc find
 *     none. Daemons have left their rank's group, but rarely have another environment. Each pmirun
 *     has a variable of its own, so that a pmirun under a pmirun keeps both;
 * and then removes the folders (folder.c). A pmirun that ends in any other way does all that
 * itself, and kills the guard.
 */
#define _GNU_SOURCE
#include "guard.h"

#include "folder.h"
#include "util.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NAME       "job-guard"
#define MAX_PID    (1u << 22) /* of the kernel */
#define MAX_ROUNDS 1000       /* looks at /proc; a process inside the kernel may end late */
#define ROUND_NS   (5 * NS_PER_MS)

void guard_note(struct guard *g, pid_t rank, bool runs)
{
    uint64_t *word = g->ranks ? &g->ranks[(uint32_t)rank % MAX_PID / 64] : NULL;
    uint64_t bit = UINT64_C(1) << (uint32_t)rank % 64;

    if (word)
        *word = runs ? *word | bit : *word & ~bit;
}

/* ---- in the guard ---- */

/* Kills its process group; a rank that Slurm started may lead none. */
static void guard_kill(pid_t pid)
{
    if (kill(-pid, SIGKILL) != 0)
        kill(pid, SIGKILL);
}

static void kill_groups(const struct guard *g)
{
    for (uint32_t i = 0; i < MAX_PID / 64; i++)
        for (uint64_t left = g->ranks[i]; left; left &= left - 1)
            guard_kill((pid_t)(64 * i + (uint32_t)__builtin_ctzll(left)));
}

/* Is the variable in that process's environment? */
static bool has_variable(const char *pid, const char *variable)
{
    static char text[1 << 16];
    const size_t len = strlen(variable);
    size_t kept = 0;
    bool found = false;
    char path[64];
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%.20s/environ", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    while (!found && (n = read(fd, text + kept, sizeof(text) - kept)) > 0) {
        size_t all = kept + (size_t)n;

        found = memmem(text, all, variable, len) != NULL;
        kept = all < len ? all : len; /* it may begin here and end in the next bytes */
        memmove(text, text + all - kept, kept);
    }
    close(fd);
    return found;
}

/* Kills every process that has the variable. True if it found one. */
static bool kill_marked(const struct guard *g)
{
    DIR *d = opendir("/proc");
    const struct dirent *e;
    bool found = false;

    while (d && (e = readdir(d))) {
        if (!isdigit((unsigned char)e->d_name[0]) || atoi(e->d_name) == getpid() ||
            !has_variable(e->d_name, g->variable))
            continue;
        kill(atoi(e->d_name), SIGKILL);
        found = true;
    }
    if (d)
        closedir(d);
    return found;
}

static void clean_up(const struct guard *g)
{
    const struct timespec a_while = {.tv_nsec = ROUND_NS};

    /* Two looks that find none: a process in the middle of execve() shows no environment. */
    kill_groups(g); /* once: another process may get their ids */
    for (int i = 0, n_clean = 0; i < MAX_ROUNDS && n_clean < 2; i++) {
        n_clean = kill_marked(g) ? 0 : n_clean + 1;
        nanosleep(&a_while, NULL);
    }
    folder_remove(g->key); /* no process writes there now */
}

/* Renames the process, so that a kill by the name pmirun spares the guard. */
static void take_name(pid_t parent)
{
    static char text[4096];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n;
    size_t all = 0;

    prctl(PR_SET_NAME, NAME, 0, 0, 0);
    while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0)
        all += (size_t)n;
    if (all == 0)
        return;
    memset(program_invocation_name, 0, all); /* and the arguments behind it */
    snprintf(program_invocation_name, all, NAME " %d", (int)parent);
}

/* All signals are blocked that can be. */
static _Noreturn void guard_watch(const struct guard *g, pid_t parent)
{
    sigset_t told;
    int sig;

    setsid();
    take_name(parent);
    if (syscall(SYS_close_range, 0, ~0u, 0) != 0)
        for (int fd = 0; fd < 1024; fd++)
            close(fd);
    if (chdir("/") != 0 || prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0) != 0)
        _exit(1);
    sigemptyset(&told);
    sigaddset(&told, SIGUSR1);
    while (getppid() == parent)
        if (sigwait(&told, &sig) != 0)
            _exit(1);
    clean_up(g);
    _exit(0);
}

/* ---- in pmirun ---- */

void guard_start(struct guard *g)
{
    sigset_t all, before;
    pid_t parent = getpid(), pid;

    snprintf(g->key, sizeof(g->key), "%08x%08x", random_u32(), random_u32());
    snprintf(g->variable, sizeof(g->variable), "PMIRUN_%s=1", g->key);
    g->ranks = mmap(NULL, MAX_PID / 8, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (g->ranks == MAP_FAILED) {
        g->ranks = NULL;
        return;
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid = fork();
    if (pid == 0)
        guard_watch(g, parent);
    sigprocmask(SIG_SETMASK, &before, NULL);
    g->pid = pid > 0 ? pid : 0;
}

void guard_reaped(struct guard *g, pid_t pid)
{
    if (pid == g->pid)
        g->pid = 0;
}

void guard_end(struct guard *g)
{
    pid_t pid = g->pid;

    g->pid = 0;
    if (pid)
        kill_child(pid);
}
