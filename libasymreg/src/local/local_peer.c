/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers on the same node: the process, its descriptors, and its memory as mapped here. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "local_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

/* of a transport: further endpoints open one for each use */
#define KEPT_PIDFDS 64

/*
 * Gets a descriptor of the peer's process: the endpoint's, or a new one for the caller to close.
 * ASYMREG_EPEER: the process is gone; another process or a thread may have its number (ENOENT since
 * Linux 6.16, EINVAL before). -ENOSYS: /proc or kill() shows the process alive, but the system has
 * no such descriptors (before Linux 5.3; under system call filters, which may return EPERM; under
 * tools that do not know the call). Else another -errno.
 */
static int process_get(const struct asymreg_ep *ep, int *fd)
{
    uint64_t started = 0;
    int rc, ended = 0;

    *fd = ep->pidfd;
    if (*fd >= 0)
        return 0;
    *fd = (int)syscall(SYS_pidfd_open, (pid_t)ep->peer.pid, 0);
    if (*fd < 0 && errno != ENOSYS && errno != EPERM)
        return errno == ESRCH || errno == EINVAL || errno == ENOENT ? ASYMREG_EPEER : -errno;
    rc = ep->peer.start_time ? asymreg__process_stat(ep->peer.pid, &started, &ended) : -ENOENT;
    /* No /proc, or it hides other users' processes (hidepid): does a process with this number
     * exist? */
    if (rc == -ENOENT || rc == -EPERM || rc == -EACCES)
        rc = kill((pid_t)ep->peer.pid, 0) < 0 && errno == ESRCH ? ASYMREG_EPEER : 0;
    else if (rc == -ESRCH || (rc == 0 && (started != ep->peer.start_time || ended)))
        rc = ASYMREG_EPEER;
    if (rc < 0 && *fd >= 0)
        close(*fd);
    return rc < 0 ? rc : *fd < 0 ? -ENOSYS : 0;
}

static void process_put(const struct asymreg_ep *ep, int fd)
{
    if (fd >= 0 && fd != ep->pidfd)
        close(fd);
}

__attribute__((noinline)) int asymreg__local_alive(struct asymreg_transport *t,
                                                   struct asymreg_ep *ep)
{
    struct pollfd p = {.events = POLLIN};
    int rc;

    (void)t;
    if (atomic_load_explicit(&ep->dead, memory_order_relaxed))
        return ASYMREG_EPEER;
    rc = process_get(ep, &p.fd);
    if (rc == 0) {
        if (poll(&p, 1, 0) > 0)
            rc = ASYMREG_EPEER;
        process_put(ep, p.fd);
    }
    if (rc != ASYMREG_EPEER && asymreg__canary_gone(&ep->peer)) /* after exec() */
        rc = ASYMREG_EPEER;
    if (rc == ASYMREG_EPEER) {
        atomic_store_explicit(&ep->dead, 1, memory_order_relaxed);
        return ASYMREG_EPEER;
    }
    /* The peer is alive, or the kernel cannot tell now (no free descriptor): ask again later. */
    atomic_store_explicit(&ep->checked_ns, asymreg__coarse_ns(), memory_order_relaxed);
    return 0;
}

void asymreg__local_disconnect(struct asymreg_transport *t, struct asymreg_ep *ep)
{
    if (ep->pidfd >= 0) {
        close(ep->pidfd);
        atomic_fetch_sub_explicit(&asymreg__local(t)->kept, 1, memory_order_relaxed);
    }
    asymreg__free(asymreg__local(t)->allocator, ep);
}

int asymreg__local_connect(struct asymreg_transport *t, const void *bytes, size_t n,
                           struct asymreg_ep **out, struct asymreg_error *err)
{
    struct asymreg__local *l = asymreg__local(t);
    struct asymreg_ep *ep;
    struct address a;
    int fd, rc;

    if (n != sizeof(a))
        return ASYMREG_EBLOB;
    memcpy(&a, bytes, sizeof(a));
    if (!a.canary.at || a.magic != ADDRESS_MAGIC || a.pid == 0 || a.pid > INT_MAX)
        return ASYMREG_EBLOB;
    if (memcmp(a.boot_id, l->self.boot_id, sizeof(a.boot_id)) != 0)
        return asymreg__fail(err, ASYMREG_EUNREACH, "the peer is on another node");
    if (a.pid_ns != l->self.pid_ns)
        return asymreg__fail(err, ASYMREG_EUNREACH, "the peer is in another pid namespace");
    ep = asymreg__alloc(l->allocator, sizeof(*ep));
    if (!ep)
        return -ENOMEM;
    ep->peer = a;
    ep->pidfd = -1;
    rc = process_get(ep, &fd);
    if (rc == 0 && atomic_fetch_add_explicit(&l->kept, 1, memory_order_relaxed) < KEPT_PIDFDS) {
        ep->pidfd = fd;
    } else if (rc == 0) {
        atomic_fetch_sub_explicit(&l->kept, 1, memory_order_relaxed);
        close(fd);
    }
    if (rc == -ENOSYS)
        rc = 0;
    if (rc == 0)
        rc = asymreg__local_alive(t, ep);
    if (rc < 0) {
        asymreg__local_disconnect(t, ep);
        return rc;
    }
    *out = ep;
    return 0;
}

/* Gets a descriptor of the peer's file, which the caller closes; -1 with errno. */
static int fetch_fd(struct asymreg__local *l, struct asymreg_ep *ep, const struct handle *h)
{
    char path[64];
    int fd = -1, process = -1, e;

    pthread_mutex_lock(&l->lock);
    for (struct received *r = l->received; r && fd < 0; r = r->next)
        if (r->pid == ep->peer.pid && r->start_time == ep->peer.start_time && r->dev == h->dev &&
            r->ino == h->ino)
            fd = fcntl(r->fd, F_DUPFD_CLOEXEC, 3);
    pthread_mutex_unlock(&l->lock);
    if (fd >= 0)
        return fd;
    if (ep->peer.pid == (uint64_t)l->pid)
        return fcntl(h->fd, F_DUPFD_CLOEXEC, 3);
    e = process_get(ep, &process);
    if (e == 0) {
        fd = (int)syscall(SYS_pidfd_getfd, process, h->fd, 0);
        e = -errno;
        process_put(ep, process);
        if (fd >= 0)
            return fd;
    }
    e = e == ASYMREG_EPEER ? ESRCH : -e;
    snprintf(path, sizeof(path), "/proc/%llu/fd/%d", (unsigned long long)ep->peer.pid, h->fd);
    /* O_NONBLOCK: a FIFO, which only a hostile peer names, must not wait for its other end. */
    fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && (errno == EACCES || errno == EPERM || errno == EROFS || errno == ETXTBSY))
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT) /* closed, if /proc exists and shows the process */
        errno = e == ESRCH || !ep->peer.start_time       ? e
                : asymreg__local_alive(&l->base, ep) < 0 ? ESRCH
                                                         : EBADF;
    return fd;
}

/* The error to return when the peer's descriptor could not be fetched. */
static int not_fetched(int error, struct asymreg_error *err)
{
    switch (error) {
    case ESRCH: return ASYMREG_EPEER;
    case EBADF: return ASYMREG_ESTALE;
    case EMFILE:
    case ENFILE: return -error;
    default:
        return asymreg__fail(
            err, ASYMREG_EUNREACH,
            "no right to fetch the peer's descriptor (another user, Yama, seccomp): %s; "
            "see asymreg_fds_send()",
            strerror(error));
    }
}

/* Maps [addr, addr + bytes) of the handle's file. Permits loads and stores only if no process can
 * take the pages away. */
static int map_file(struct asymreg__local *l, int fd, const struct handle *h,
                    struct asymreg_rkey *key, struct asymreg_error *err)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from, end;
    struct statfs fs;
    struct stat st;
    int seals, huge, prot = h->flags & ASYMREG_MEM_TABLE ? PROT_READ : PROT_READ | PROT_WRITE;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_dev != h->dev || st.st_ino != h->ino)
        return ASYMREG_ESTALE; /* the descriptor number is another file now */
    if (__builtin_add_overflow(h->fd_offset, key->bytes, &end) || end > (uint64_t)INT64_MAX)
        return ASYMREG_ETABLE;
    huge = fstatfs(fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC;
    if (huge)
        page = (uint64_t)fs.f_bsize;
    from = h->fd_offset & ~(page - 1);
    if (end - from > (uint64_t)PTRDIFF_MAX - page)
        return -ENOMEM;
    key->map_bytes = (size_t)((end - from + page - 1) & ~(page - 1));
    key->map = mmap(NULL, key->map_bytes, prot, MAP_SHARED, fd, (off_t)from);
    if (key->map == MAP_FAILED && prot != PROT_READ && (errno == EACCES || errno == EPERM)) {
        prot = PROT_READ;
        key->map = mmap(NULL, key->map_bytes, prot, MAP_SHARED, fd, (off_t)from);
    }
    if (key->map == MAP_FAILED) {
        key->map = NULL;
        return errno == ENOMEM
                   ? -ENOMEM
                   : asymreg__fail(err, ASYMREG_EUNREACH, "the peer's file cannot be mapped: %s",
                                   strerror(errno));
    }
    key->writable = prot != PROT_READ;
    key->ptr = (char *)key->map + (h->fd_offset - from);
    seals = fcntl(fd, F_GET_SEALS);
    key->kind = KEY_GUARDED;
    /* A hole in a file of huge pages may not fill again: SIGBUS, whatever the seals. */
    if (end <= (uint64_t)st.st_size &&
        ((seals > 0 && (seals & F_SEAL_SHRINK) && !huge) ||
         ((h->flags & ASYMREG_MEM_TRUSTED) && (l->flags & ASYMREG_LOCAL_TRUST))))
        key->kind = KEY_DIRECT;
    return 0;
}

int asymreg__local_unpack(struct asymreg_transport *t, struct asymreg_ep *ep, const void *handle,
                          size_t handle_bytes, uint64_t addr, uint64_t bytes,
                          struct asymreg_rkey **out, struct asymreg_error *err)
{
    struct asymreg__local *l = asymreg__local(t);
    struct asymreg_error why = {.code = 0};
    struct asymreg_rkey *key;
    struct handle h;
    int fd, rc;

    if (handle_bytes != sizeof(h) || !bytes)
        return ASYMREG_ETABLE;
    memcpy(&h, handle, sizeof(h));
    if (h.kind != HANDLE_CMA && h.kind != HANDLE_FD)
        return ASYMREG_ETABLE;
    rc = asymreg__local_alive(t, ep);
    if (rc < 0)
        return rc;
    key = asymreg__alloc(l->allocator, sizeof(*key));
    if (!key)
        return -ENOMEM;
    key->addr = addr;
    key->bytes = bytes;
    key->kind = KEY_CMA;
    key->writable = 1;
    key->flags = h.flags;
    if (h.kind == HANDLE_FD && ((l->flags & ASYMREG_LOCAL_SHM) || (h.flags & MAPPED_ALWAYS))) {
        fd = fetch_fd(l, ep, &h);
        if (fd >= 0) {
            rc = map_file(l, fd, &h, key, &why);
            close(fd);
        } else {
            rc = not_fetched(errno, &why);
        }
        /* The same bytes are accessible through the owner's own mapping. */
        if (rc == ASYMREG_EUNREACH && (l->flags & ASYMREG_LOCAL_CMA))
            rc = 0;
    } else if (!(l->flags & ASYMREG_LOCAL_CMA)) {
        rc = asymreg__fail(&why, ASYMREG_EUNREACH,
                           "the peer's memory has no descriptor, and CMA is off here");
    }
    if (rc < 0) {
        asymreg__free(l->allocator, key);
        if (err && why.code)
            *err = why;
        return rc;
    }
    key->get_bytes = key->kind == KEY_DIRECT ? bytes : 0;
    key->put_bytes = key->writable ? key->get_bytes : 0;
    *out = key;
    return 0;
}

void asymreg__local_release(struct asymreg_transport *t, struct asymreg_ep *ep,
                            struct asymreg_rkey *rkey)
{
    (void)ep;
    if (rkey->map)
        munmap(rkey->map, rkey->map_bytes);
    asymreg__free(asymreg__local(t)->allocator, rkey);
}

int asymreg__local_map(struct asymreg_transport *t, struct asymreg_ep *ep,
                       struct asymreg_rkey *rkey, uint64_t addr, uint64_t bytes, int write,
                       const void **ptr)
{
    (void)t, (void)ep;
    if (rkey->kind != KEY_DIRECT || (write && !rkey->writable) || addr < rkey->addr ||
        bytes > rkey->bytes || addr - rkey->addr > rkey->bytes - bytes)
        return ASYMREG_ENOTSUP; /* plain loads would not be safe */
    *ptr = rkey->ptr + (addr - rkey->addr);
    return 0;
}
