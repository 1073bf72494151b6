/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A copy of this process's memory at one moment: a process that shares its pages, copied on the
 * first store, and does nothing else. The kernel lets no store pass while it makes the process, it
 * needs no privilege, and system calls of the program that store into the window work as always.
 */
#include "commit.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns the process, or -1. It runs nothing of the program: no handler of pthread_atfork() or of
 * a signal. It sends no SIGCHLD, and no wait() of the program finds it. */
pid_t storwin__freeze(void)
{
    const pid_t parent = getpid();
    sigset_t all, old;
    pid_t pid;

    if (storwin__disabled(STORWIN__NO_FORK)) {
        errno = EPERM;
        return -1;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pid = (pid_t)syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == parent)
            (void)poll(NULL, 0, -1);
        _exit(0);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return pid;
}

void storwin__thaw(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
}

/* Reads bytes at `from` as they are in the frozen memory. */
int storwin__frozen_read(pid_t pid, void *to, const void *from, size_t bytes)
{
    while (bytes > 0) {
        struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)from, bytes};
        const ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);

        if (n <= 0)
            return n < 0 ? -errno : -EFAULT;
        to = (uint8_t *)to + n;
        from = (const uint8_t *)from + n;
        bytes -= (size_t)n;
    }
    return 0;
}
