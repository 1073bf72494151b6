/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded in one of pmirun's agents: the head's messages arrive in small pieces, and none for a
 * second once the agent has obeyed the first one, which sets the job's working directory. So the
 * other agents begin before this one knows of them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static time_t until_ms;

static time_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int chdir(const char *path)
{
    until_ms = now_ms() + 1000;
    return (int)syscall(SYS_chdir, path);
}

ssize_t recv(int fd, void *p, size_t n, int flags)
{
    if (flags == MSG_DONTWAIT) { /* pmirun's */
        if (now_ms() < until_ms) {
            errno = EAGAIN;
            return -1;
        }
        n = n < 16 ? n : 16;
    }
    return syscall(SYS_recvfrom, fd, p, n, flags, NULL, NULL);
}
