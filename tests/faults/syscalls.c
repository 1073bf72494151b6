/* SPDX-License-Identifier: BSD-3-Clause */
/* The system calls that fail, and the errors that each can plausibly return. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#include "faults.h"

#define CALL(name, len_arg, failures)                                                              \
    {                                                                                              \
#name, SYS_##name, len_arg, failures                                                       \
    }

const struct call calls[] = {
    CALL(open, 0, "EMFILE* EACCES EINTR"),
    CALL(openat, 0, "EMFILE* EACCES ENOSPC EINTR"),
    CALL(creat, 0, "EMFILE* ENOSPC"),
    CALL(memfd_create, 0, "EMFILE* ENOMEM ENOSYS"),
    CALL(close, 0, "+EIO +EINTR"),
    CALL(socket, 0, "EMFILE* ENOBUFS"),
    CALL(socketpair, 0, "EMFILE* ENFILE"),
    CALL(bind, 0, "EADDRINUSE"),
    CALL(listen, 0, "EADDRINUSE"),
    CALL(accept, 0, "EMFILE ECONNABORTED EINTR ?EAGAIN"),
    CALL(accept4, 0, "EMFILE ECONNABORTED EINTR ?EAGAIN"),
    CALL(connect, 0, "ECONNREFUSED EINTR ETIMEDOUT"),
    CALL(getsockname, 0, "ENOBUFS"),
    CALL(setsockopt, 0, "ENOPROTOOPT"),
    CALL(sendto, 3, "EINTR ?EAGAIN EPIPE ENOBUFS"),
    CALL(sendmsg, -1, "EINTR ?EAGAIN EPIPE ETOOMANYREFS ENOBUFS"),
    CALL(recvfrom, 3, "EINTR ?EAGAIN ECONNRESET"),
    CALL(recvmsg, -1, "EINTR ?EAGAIN ECONNRESET"),
    CALL(shutdown, 0, "ENOTCONN"),
    CALL(read, 3, "EINTR ?EAGAIN EIO"),
    CALL(write, 3, "EINTR ?EAGAIN EIO ENOSPC EPIPE"),
    CALL(readv, 0, "EINTR ?EAGAIN EIO"),
    CALL(writev, 0, "EINTR ?EAGAIN EIO ENOSPC"),
    CALL(pread64, 3, "EINTR EIO"),
    CALL(pwrite64, 3, "EINTR EIO ENOSPC*"),
    CALL(preadv, 0, "EINTR EIO"),
    CALL(pwritev, 0, "EINTR EIO ENOSPC"),
    CALL(process_vm_readv, 0, "EPERM* ESRCH EFAULT"),
    CALL(process_vm_writev, 0, "EPERM* ESRCH EFAULT"),
    CALL(copy_file_range, 0, "EIO ENOSPC EXDEV"),
    CALL(sendfile, 0, "EIO EINTR"),
    CALL(poll, 0, "EINTR ENOMEM"),
    CALL(ppoll, 0, "EINTR ENOMEM"),
    CALL(select, 0, "EINTR"),
    CALL(epoll_create1, 0, "EMFILE"),
    CALL(epoll_ctl, 0, "ENOMEM ENOSPC"),
    CALL(epoll_wait, 0, "EINTR"),
    CALL(epoll_pwait, 0, "EINTR"),
    CALL(signalfd4, 0, "EMFILE ENOMEM"),
    CALL(eventfd2, 0, "EMFILE"),
    CALL(timerfd_create, 0, "EMFILE"),
    CALL(userfaultfd, 0, "EPERM EMFILE ENOSYS"),
    CALL(pipe2, 0, "EMFILE* ENFILE"),
    CALL(dup2, 0, "EMFILE EINTR"),
    CALL(dup3, 0, "EMFILE EBUSY"),
    CALL(fcntl, 0, "EMFILE EINVAL"),
    CALL(ioctl, 0, "ENOMEM EINVAL"),
    CALL(flock, 0, "EINTR ENOLCK"),
    CALL(clone, 0, "EAGAIN* ENOMEM"),
    CALL(clone3, 0, "EAGAIN ENOMEM"),
    CALL(fork, 0, "EAGAIN ENOMEM"),
    CALL(vfork, 0, "EAGAIN"),
    CALL(execve, 0, "ENOENT EACCES ENOMEM E2BIG"),
    CALL(wait4, 0, "EINTR"),
    CALL(waitid, 0, "EINTR"),
    CALL(kill, 0, "EPERM ESRCH"),
    CALL(setsid, 0, "EPERM"),
    CALL(prctl, 0, "EINVAL"),
    CALL(prlimit64, 0, "EPERM"),
    CALL(close_range, 0, "ENOSYS ENOMEM"),
    CALL(unshare, 0, "ENOMEM"),
    CALL(chdir, 0, "EACCES"),
    CALL(nanosleep, 0, "EINTR"),
    CALL(clock_nanosleep, 0, "EINTR"),
    CALL(getrandom, 0, "EINTR ENOSYS"),
    CALL(mmap, 0, "ENOMEM* EAGAIN"),
    CALL(mremap, 0, "ENOMEM"),
    CALL(mprotect, 0, "ENOMEM"),
    CALL(madvise, 0, "ENOMEM EINVAL"),
    CALL(mlock, 0, "ENOMEM"),
    CALL(msync, 0, "EIO ENOMEM"),
    CALL(ftruncate, 0, "EFBIG ENOSPC EINTR"),
    CALL(truncate, 0, "EFBIG ENOSPC"),
    CALL(fallocate, 0, "ENOSPC* EINTR EOPNOTSUPP"),
    CALL(fsync, 0, "EIO ENOSPC EINTR"),
    CALL(fdatasync, 0, "EIO ENOSPC EINTR"),
    CALL(sync_file_range, 0, "EIO"),
    CALL(syncfs, 0, "EIO"),
    CALL(stat, 0, "EACCES"),
    CALL(fstat, 0, "EIO"),
    CALL(newfstatat, 0, "EACCES EIO"),
    CALL(statx, 0, "EACCES"),
    CALL(statfs, 0, "ENOSYS EIO"),
    CALL(fstatfs, 0, "EIO"),
    CALL(faccessat2, 0, "EACCES"),
    CALL(access, 0, "EACCES"),
    CALL(unlink, 0, ""), /* recorded, but never failed: a process can remove its own files */
    CALL(unlinkat, 0, ""),
    CALL(link, 0, "EEXIST ENOSPC"),
    CALL(linkat, 0, "EEXIST ENOSPC"),
    CALL(rename, 0, "ENOSPC EIO"),
    CALL(renameat2, 0, "ENOSPC EIO"),
    CALL(mkdir, 0, "ENOSPC EACCES"),
    CALL(mkdirat, 0, "ENOSPC EACCES"),
    CALL(fchmod, 0, "EPERM"),
    CALL(fchmodat, 0, "EPERM"),
    CALL(getdents64, 0, "EIO"),
    CALL(readlink, 0, "EACCES"),
    CALL(readlinkat, 0, "EACCES"),
    CALL(getcwd, 0, "ENOENT"),
    CALL(lseek, 0, "EOVERFLOW"),
};
const size_t n_calls = sizeof(calls) / sizeof(calls[0]);
_Static_assert(sizeof(calls) / sizeof(calls[0]) <= MAX_CALLS, "more kinds of call than MAX_CALLS");

#define E(name)                                                                                    \
    {                                                                                              \
#name, name                                                                                \
    }

static const struct {
    const char *name;
    int number;
} errnos[] = {
    E(EMFILE),       E(ENFILE),    E(EACCES),      E(EINTR),      E(ENOSPC),       E(ENOMEM),
    E(ENOSYS),       E(EIO),       E(ENOBUFS),     E(EADDRINUSE), E(ECONNABORTED), E(EAGAIN),
    E(ECONNREFUSED), E(ETIMEDOUT), E(ENOPROTOOPT), E(EPIPE),      E(ETOOMANYREFS), E(ECONNRESET),
    E(ENOTCONN),     E(EPERM),     E(ESRCH),       E(EFAULT),     E(EXDEV),        E(EBUSY),
    E(EINVAL),       E(ENOLCK),    E(ENOENT),      E(E2BIG),      E(EFBIG),        E(EOPNOTSUPP),
    E(EEXIST),       E(EOVERFLOW),
};

int errno_number(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++)
        if (strlen(errnos[i].name) == len && memcmp(errnos[i].name, name, len) == 0)
            return errnos[i].number;
    return 0;
}

const char *errno_name(int err)
{
    for (size_t i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++)
        if (errnos[i].number == err)
            return errnos[i].name;
    return "?";
}
