/* SPDX-License-Identifier: BSD-3-Clause */
/* Each measurement is between two new processes, as UCX reads its configuration once. */
#ifndef BENCH_TWO_PROCESSES_H
#define BENCH_TWO_PROCESSES_H

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define DIE_IF(condition)                                                                          \
    do {                                                                                           \
        if (condition) {                                                                           \
            fprintf(stderr, "%s:%d: %s\n", program_invocation_short_name, __LINE__, #condition);   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* UCX prints to standard output, and reads its log level on load. */
static inline void quiet_ucx(char **argv)
{
    if (!getenv("UCX_LOG_LEVEL")) {
        setenv("UCX_LOG_LEVEL", "fatal", 1);
        execv("/proc/self/exe", argv);
    }
}

typedef void side_fn(const void *measured, int sock);

static inline pid_t side_start(side_fn *side, const void *measured, const int sock[2])
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(sock[1]);
        side(measured, sock[0]);
        exit(0);
    }
    DIE_IF(pid < 0);
    return pid;
}

/* Runs both sides until the client ends. */
static inline void two_processes(side_fn *serve, side_fn *client, const void *measured)
{
    int pair[2], status;
    pid_t server, us;

    DIE_IF(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0);
    fflush(NULL);
    server = side_start(serve, measured, (int[2]){pair[1], pair[0]});
    us = side_start(client, measured, pair);
    close(pair[0]);
    close(pair[1]);
    DIE_IF(waitpid(us, &status, 0) != us);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    DIE_IF(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

#endif
