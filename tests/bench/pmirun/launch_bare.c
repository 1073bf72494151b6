/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The least that a launcher of PMI-1 can do: posix_spawn() in a loop, a socket for each process,
 * epoll, and answers to launch_client.c's requests, from an array. It forwards no output, checks
 * nothing and cleans nothing up: a row of bench_launch that separates a launcher's own cost from
 * the unavoidable cost of its ranks' start and requests.
 *
 *     launch_bare -n N CLIENT [ARGUMENT...]
 *     launch_bare -s N CLIENT [ARGUMENT...]     each process leads a session, as pmirun's ranks do
 */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_N    1024
#define CLIENT   3 /* the client's descriptor */
#define AT_ONCE  8 /* processes to start before requests are answered */
#define N_EVENTS 256

extern char **environ;

static int fds[MAX_N], n_ranks, n_inside;
static posix_spawnattr_t attributes;
static char values[MAX_N][80];

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void say(int rank, const char *text)
{
    const size_t n = strlen(text);

    if (send(fds[rank], text, n, MSG_NOSIGNAL) != (ssize_t)n)
        die("launch_bare: send");
}

static void answer(int rank, const char *request)
{
    static const char *const fixed[][2] = {
        {"cmd=init ", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"},
        {"cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"},
        {"cmd=get_appnum", "cmd=appnum appnum=0\n"},
        {"cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs\n"},
        {"cmd=put ", "cmd=put_result rc=0 msg=success\n"},
        {"cmd=finalize", "cmd=finalize_ack\n"},
    };
    const char *value = strstr(request, "value="), *key = strstr(request, "key=k");
    char text[160];

    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        if (strncmp(request, fixed[i][0], strlen(fixed[i][0])) != 0)
            continue;
        if (value)
            snprintf(values[rank], sizeof(values[0]), "%.*s", (int)strcspn(value, "\n"), value);
        say(rank, fixed[i][1]);
        return;
    }
    if (key) {
        snprintf(text, sizeof(text), "cmd=get_result rc=0 msg=success %s\n",
                 values[atoi(key + strlen("key=k")) % MAX_N]);
        say(rank, text);
    } else if (++n_inside == n_ranks) {
        n_inside = 0;
        for (int i = 0; i < n_ranks; i++)
            say(i, "cmd=barrier_out rc=0\n");
    }
}

static void start(int epoll, int rank, char **argv)
{
    static char number[32], size[32], fd[] = "PMI_FD=3";
    static char **env;
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = (uint32_t)rank};
    posix_spawn_file_actions_t files;
    int p[2], n = 0;
    pid_t pid;

    while (!env && environ[n])
        n++;
    if (!env) {
        env = calloc((size_t)n + 4, sizeof(*env));
        if (!env)
            die("launch_bare");
        memcpy(env + 3, environ, (size_t)n * sizeof(*env));
        env[0] = number;
        env[1] = size;
        env[2] = fd;
    }
    snprintf(number, sizeof(number), "PMI_RANK=%d", rank);
    snprintf(size, sizeof(size), "PMI_SIZE=%d", n_ranks);
    posix_spawn_file_actions_init(&files);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) != 0 ||
        posix_spawn_file_actions_adddup2(&files, p[1], CLIENT) != 0 ||
        posix_spawn(&pid, argv[0], &files, &attributes, argv, env) != 0 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, p[0], &e) != 0)
        die("launch_bare: cannot start a process");
    posix_spawn_file_actions_destroy(&files);
    close(p[1]);
    fds[rank] = p[0];
}

int main(int argc, char **argv)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC), started = 0, ended = 0, status, failed = 0;
    struct epoll_event ev[N_EVENTS];
    char request[1024];

    n_ranks = argc > 3 ? atoi(argv[2]) : 0;
    posix_spawnattr_init(&attributes);
    if (n_ranks && strcmp(argv[1], "-s") == 0)
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    if (epoll < 0 || n_ranks < 1 || n_ranks > MAX_N) {
        fprintf(stderr, "usage: launch_bare -n|-s N CLIENT [ARGUMENT...]; N: 1 to %d\n", MAX_N);
        return 2;
    }
    while (ended < n_ranks) {
        int n;

        for (int i = 0; i < AT_ONCE && started < n_ranks; i++)
            start(epoll, started++, argv + 3);
        n = epoll_wait(epoll, ev, N_EVENTS, started < n_ranks ? 0 : -1);
        for (int i = 0; i < n; i++) {
            int rank = (int)ev[i].data.u32;
            ssize_t len = recv(fds[rank], request, sizeof(request) - 1, MSG_DONTWAIT);

            if (len <= 0) {
                close(fds[rank]);
                ended++;
                continue;
            }
            request[len] = '\0';
            answer(rank, request);
        }
    }
    for (int i = 0; i < n_ranks; i++)
        failed |= wait(&status) < 0 || status != 0;
    return failed;
}
