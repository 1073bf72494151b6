/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For LD_PRELOAD under valgrind: waits for a lock of an open file description by polling. Valgrind
 * runs one thread at a time and treats this call as one that never waits (3.19), so the thread that
 * holds the lock could not release it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

static int ask(int fd, int what, void *arg)
{
    int rc;

    if (what != F_OFD_SETLKW)
        return (int)syscall(SYS_fcntl, fd, what, arg);
    while ((rc = (int)syscall(SYS_fcntl, fd, F_OFD_SETLK, arg)) < 0 &&
           (errno == EAGAIN || errno == EACCES))
        usleep(500);
    return rc;
}

int fcntl(int fd, int what, ...)
{
    va_list args;
    void *arg;

    va_start(args, what);
    arg = va_arg(args, void *);
    va_end(args);
    return ask(fd, what, arg);
}

int fcntl64(int fd, int what, ...)
{
    va_list args;
    void *arg;

    va_start(args, what);
    arg = va_arg(args, void *);
    va_end(args);
    return ask(fd, what, arg);
}
