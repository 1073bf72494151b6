/* SPDX-License-Identifier: BSD-3-Clause */
/* Child processes: started in a group of their own, watched, and ended with all descendants. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

volatile sig_atomic_t probe_stopped;

static void on_signal(int sig)
{
    probe_stopped = sig;
}

void proc_setup(void)
{
    struct sigaction sa = {.sa_handler = on_signal};
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaction(signals[i], &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
    /* Orphans of a launcher become children of the probe, which can find and end them. */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

pid_t proc_start(char *const argv[], const char *const *env, int out_fd, int keep_fd)
{
    pid_t parent = getpid(), pid = fork();

    if (pid != 0)
        return pid;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != parent)
        _exit(126);
    for (int s = 1; s < 32; s++)
        signal(s, SIG_DFL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (out_fd >= 0) {
        int null = open("/dev/null", O_RDONLY);

        dup2(null, 0);
        dup2(out_fd, 1);
        dup2(out_fd, 2);
    }
    if (keep_fd >= 0)
        fcntl(keep_fd, F_SETFD, 0);
    for (; env && *env; env++) {
        if (strchr(*env, '=')) {
            char *copy = strdup(*env); /* putenv() keeps it */

            if (copy)
                putenv(copy);
        } else {
            unsetenv(*env);
        }
    }
    execvp(argv[0], argv);
    dprintf(2, "pmiprobe: cannot start %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

/* Kills every child, ours or inherited. True if we had one. */
static bool kill_children(void)
{
    char path[64], word[16];
    FILE *f;
    bool any = false;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    f = fopen(path, "re");
    if (!f)
        return false;
    while (fscanf(f, "%15s", word) == 1) {
        pid_t pid = (pid_t)atoi(word);

        if (pid > 1)
            any |= kill(pid, SIGKILL) == 0;
    }
    fclose(f);
    return any;
}

void proc_end(pid_t pgid, bool running, int grace_ms)
{
    int64_t end = now_ms() + grace_ms;

    if (running) {
        kill(pgid, SIGTERM);
        while (now_ms() < end && waitpid(pgid, NULL, WNOHANG) == 0)
            sleep_ms(10);
    }
    kill(-pgid, SIGKILL);
    /* The probe inherits the children of a killed process: repeat until none is left. */
    for (int i = 0; i < 100; i++) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (!kill_children())
            break;
        sleep_ms(5);
    }
}
