/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded in pmirun: another process reads the same stdin, and is quicker once. It takes the
 * first input between pmirun's epoll_wait() and read(), and makes the file that $TAKEN names.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int epoll_wait(int epoll, struct epoll_event *ev, int most, int ms)
{
    static int taken;
    const long n = syscall(SYS_epoll_pwait, epoll, ev, most, ms, NULL, _NSIG / 8);
    char bytes[4096];
    int waiting = 0;

    if (n > 0 && !taken && ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 && waiting > 0 &&
        read(STDIN_FILENO, bytes, sizeof(bytes)) > 0) {
        taken = 1;
        close(open(getenv("TAKEN"), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    }
    return (int)n;
}
