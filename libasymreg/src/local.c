/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport for peers on the same node: shared memory by descriptor, and
 * process_vm_readv/writev for everything else. */
#define _GNU_SOURCE
#include "local.h"
#include "opts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define ADDRESS_MAGIC 0x4c4d5341u
/* also without ASYMREG_LOCAL_SHM */
#define MAPPED_ALWAYS  (ASYMREG_MEM_TABLE | ASYMREG_MEM_ACTIVITY)
#define FDS_MAGIC      0x44465341u
#define ALIVE_EVERY_NS 20000000
/* of a transport: the endpoints beyond open theirs each time that they need one */
#define KEPT_PIDFDS  64
#define MAX_ONE_CALL ((size_t)1 << 30) /* the kernel moves a little less than 2 GiB in one call */

/* What connect() is given. */
struct address {
    uint32_t magic;
    uint32_t flags; /* ASYMREG_LOCAL_* of the owner */
    char boot_id[40];
    uint64_t pid_ns;
    uint64_t start_time; /* of the process, clock ticks since boot: tells a recycled pid */
    uint64_t pid;
};

/* What mem_reg() publishes. */
enum { HANDLE_CMA = 1, HANDLE_FD = 2 };
struct handle {
    uint32_t kind;
    int32_t fd; /* number in the owner's process */
    uint64_t fd_offset;
    uint64_t dev;
    uint64_t ino;
    uint32_t flags; /* ASYMREG_MEM_* */
    uint32_t reserved;
};

struct asymreg_mem {
    struct asymreg_mem *next, **link;
    int fd;
    struct handle handle;
};

/* A descriptor that a peer sent. */
struct received {
    struct received *next;
    uint64_t pid, start_time, dev, ino;
    int fd;
};

struct asymreg__local {
    struct asymreg_transport base;
    uint32_t flags;
    pid_t pid;
    struct address self;
    pthread_mutex_t lock; /* of the lists */
    struct asymreg_mem *mems;
    struct received *received;
    int kept;        /* descriptors of processes */
    const char *why; /* last failure; a constant */
};

struct asymreg_ep {
    struct address peer;
    int pidfd; /* or -1: none is kept */
    int dead;
    int64_t checked_ns; /* when the process was last known to live */
};

enum { KEY_DIRECT, KEY_GUARDED, KEY_CMA };
struct asymreg_rkey {
    int kind;
    int writable;
    uint64_t put_bytes; /* of it, for loads and stores: all or none */
    uint64_t get_bytes;
    uint32_t flags; /* ASYMREG_MEM_* */
    uint64_t addr, bytes;
    char *ptr; /* where `addr` is mapped here */
    void *map;
    size_t map_bytes;
};

static struct asymreg__local *local(struct asymreg_transport *t)
{
    return (struct asymreg__local *)(void *)t;
}

static int fail(struct asymreg__local *l, int code, const char *why)
{
    __atomic_store_n(&l->why, why, __ATOMIC_RELAXED);
    return code;
}

static int64_t coarse_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int asymreg__process_stat(uint64_t pid, uint64_t *started, int *ended)
{
    char path[64], text[1024], *p, state = 0;
    ssize_t n;
    int fd, e, n_threads = 0;

    snprintf(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)pid);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return -errno;
    n = read(fd, text, sizeof(text) - 1);
    e = n < 0 ? errno : EIO;
    close(fd);
    if (n <= 0)
        return -e;
    text[n] = '\0';
    if (!(p = strrchr(text, ')'))) /* the name before it may hold anything */
        return -EIO;
    for (int field = 3; field <= 22; field++) {
        if (!(p = strchr(p + 1, ' ')))
            return -EIO;
        if (field == 3)
            state = p[1];
        else if (field == 20)
            n_threads = atoi(p + 1);
    }
    *started = strtoull(p + 1, NULL, 10);
    *ended = (state == 'Z' || state == 'X') &&
             n_threads <= 1; /* the first thread may end before others */
    return 0;
}

static int query(struct asymreg_transport *t, struct asymreg_transport_caps *out)
{
    struct asymreg_transport_caps all = {.size = out->size}, *caps = &all;
    uint32_t flags = local(t)->flags;

    caps->flags = ASYMREG_CAP_PUT | ASYMREG_CAP_GET | ASYMREG_CAP_ONE_SIDED | ASYMREG_CAP_THREADS |
                  ASYMREG_CAP_MAP | ASYMREG_CAP_DIRECT;
    if (flags & ASYMREG_LOCAL_SHM) {
        caps->flags |= ASYMREG_CAP_AMO | ASYMREG_CAP_FD;
        caps->amo4_ops = caps->amo8_ops = ASYMREG_AMO_ALL;
    }
    if (flags & ASYMREG_LOCAL_CMA)
        caps->flags |= ASYMREG_CAP_WHOLE_SPACE | ASYMREG_CAP_PRIVATE;
    caps->max_handle_bytes = sizeof(struct handle);
    caps->max_address_bytes = sizeof(struct address);
    memcpy(out, &all, all.size < sizeof(all) ? all.size : sizeof(all));
    return 0;
}

static const char *reason(struct asymreg_transport *t, uint32_t cap)
{
    struct asymreg_transport_caps caps = {.size = sizeof(caps)};

    query(t, &caps);
    if (cap == 0)
        return __atomic_load_n(&local(t)->why, __ATOMIC_RELAXED);
    if (caps.flags & cap)
        return NULL;
    switch (cap) {
    case ASYMREG_CAP_AMO: return "process_vm_writev cannot update atomically; use shared memory";
    case ASYMREG_CAP_FD: return "shared memory is off";
    case ASYMREG_CAP_PRIVATE:
    case ASYMREG_CAP_WHOLE_SPACE: return "memory without a descriptor needs CMA, which is off";
    case ASYMREG_CAP_REVOKE:
        return "the kernel cannot take back a mapping, nor the right to trace a process";
    case ASYMREG_CAP_REMOTE_NODE: return "shared memory and process_vm_readv end at the node";
    default: return "not offered";
    }
}

static void destroy(struct asymreg_transport *t)
{
    struct asymreg__local *l = local(t);
    struct received *r;

    while ((r = l->received)) {
        l->received = r->next;
        close(r->fd);
        free(r);
    }
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static int mem_reg(struct asymreg_transport *t, const struct asymreg_mem_desc *desc,
                   struct asymreg_mem **mem, void *handle, size_t *handle_bytes)
{
    struct asymreg__local *l = local(t);
    struct asymreg_mem *m;
    struct stat st;
    int mode = 0;

    if (desc->fd < 0 && !(l->flags & ASYMREG_LOCAL_CMA))
        return fail(l, ASYMREG_ENOTSUP, "memory without a descriptor needs CMA, which is off");
    if (!(m = calloc(1, sizeof(*m))))
        return -ENOMEM;
    m->fd = -1;
    m->handle.kind = HANDLE_CMA;
    m->handle.flags = desc->flags;
    if (desc->fd >= 0 && (mode = fcntl(desc->fd, F_GETFL)) < 0) {
        free(m);
        return -errno;
    }
    if (desc->fd >= 0 && (desc->prot & (ASYMREG_WRITE | ASYMREG_ATOMIC)) &&
        (mode & O_ACCMODE) != O_RDWR) {
        free(m);
        return fail(l, ASYMREG_EACCES, "the descriptor is not open for reading and writing");
    }
    if (desc->fd >= 0 && ((l->flags & ASYMREG_LOCAL_SHM) || (desc->flags & MAPPED_ALWAYS))) {
        if ((m->fd = fcntl(desc->fd, F_DUPFD_CLOEXEC, 3)) < 0 || fstat(m->fd, &st) < 0) {
            int e = errno;
            if (m->fd >= 0)
                close(m->fd);
            free(m);
            return -e;
        }
        m->handle.kind = HANDLE_FD;
        m->handle.fd = m->fd;
        m->handle.fd_offset = desc->fd_offset;
        m->handle.dev = st.st_dev;
        m->handle.ino = st.st_ino;
    }
    pthread_mutex_lock(&l->lock);
    m->next = l->mems;
    m->link = &l->mems;
    if (m->next)
        m->next->link = &m->next;
    l->mems = m;
    pthread_mutex_unlock(&l->lock);
    memcpy(handle, &m->handle, sizeof(m->handle));
    *handle_bytes = sizeof(m->handle);
    *mem = m;
    return 0;
}

static int mem_dereg(struct asymreg_transport *t, struct asymreg_mem *mem)
{
    pthread_mutex_lock(&local(t)->lock);
    *mem->link = mem->next;
    if (mem->next)
        mem->next->link = mem->link;
    pthread_mutex_unlock(&local(t)->lock);
    if (mem->fd >= 0)
        close(mem->fd);
    free(mem);
    return 0;
}

static int address(struct asymreg_transport *t, void *buf, size_t *bytes)
{
    memcpy(buf, &local(t)->self, sizeof(struct address));
    *bytes = sizeof(struct address);
    return 0;
}

/*
 * A descriptor of the peer's process: the endpoint's, or one for the caller to close.
 * ASYMREG_EPEER: it has gone, and perhaps another process or a thread has its number (ENOENT since
 * Linux 6.16, EINVAL before); -ENOSYS: it lives, as far as /proc or kill() tells, but there is no
 * such descriptor (before Linux 5.3, under filters of system calls, which may say EPERM, and tools
 * that know no such call); other -errno.
 */
static int process_get(const struct asymreg_ep *ep, int *fd)
{
    uint64_t started = 0;
    int rc, ended = 0;

    if ((*fd = ep->pidfd) >= 0)
        return 0;
    if ((*fd = (int)syscall(SYS_pidfd_open, (pid_t)ep->peer.pid, 0)) < 0 && errno != ENOSYS &&
        errno != EPERM)
        return errno == ESRCH || errno == EINVAL || errno == ENOENT ? ASYMREG_EPEER : -errno;
    rc = ep->peer.start_time ? asymreg__process_stat(ep->peer.pid, &started, &ended) : -ENOENT;
    if (rc == -ENOENT || rc == -EPERM ||
        rc == -EACCES) /* no /proc, or it hides other users' processes (hidepid): is there any of
                          this number? */
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

__attribute__((noinline)) static int peer_alive(struct asymreg_transport *t, struct asymreg_ep *ep)
{
    struct pollfd p = {.events = POLLIN};
    int rc;

    (void)t;
    if (__atomic_load_n(&ep->dead, __ATOMIC_RELAXED))
        return ASYMREG_EPEER;
    rc = process_get(ep, &p.fd);
    if (rc == 0) {
        if (poll(&p, 1, 0) > 0)
            rc = ASYMREG_EPEER;
        process_put(ep, p.fd);
    }
    if (rc == ASYMREG_EPEER) {
        __atomic_store_n(&ep->dead, 1, __ATOMIC_RELAXED);
        return ASYMREG_EPEER;
    }
    /* It lives, or that cannot be told now (no descriptor left): later, then. */
    __atomic_store_n(&ep->checked_ns, coarse_ns(), __ATOMIC_RELAXED);
    return 0;
}

/* For every operation: asks the kernel no more than once in 20 ms. */
static inline int known_alive(const struct asymreg_ep *ep)
{
    return !__atomic_load_n(&ep->dead, __ATOMIC_RELAXED) &&
           coarse_ns() - __atomic_load_n(&ep->checked_ns, __ATOMIC_RELAXED) < ALIVE_EVERY_NS;
}

static inline int alive_lately(struct asymreg_transport *t, struct asymreg_ep *ep)
{
    return known_alive(ep) ? 0 : peer_alive(t, ep);
}

static void disconnect(struct asymreg_transport *t, struct asymreg_ep *ep)
{
    if (ep->pidfd >= 0) {
        close(ep->pidfd);
        __atomic_fetch_sub(&local(t)->kept, 1, __ATOMIC_RELAXED);
    }
    free(ep);
}

static int connect_to(struct asymreg_transport *t, const void *bytes, size_t n,
                      struct asymreg_ep **out)
{
    struct asymreg__local *l = local(t);
    struct asymreg_ep *ep;
    struct address a;
    int fd, rc;

    if (n != sizeof(a))
        return ASYMREG_EBLOB;
    memcpy(&a, bytes, sizeof(a));
    if (a.magic != ADDRESS_MAGIC || a.pid == 0 || a.pid > INT_MAX)
        return ASYMREG_EBLOB;
    if (memcmp(a.boot_id, l->self.boot_id, sizeof(a.boot_id)) != 0)
        return fail(l, ASYMREG_EUNREACH, "the peer is on another node");
    if (a.pid_ns != l->self.pid_ns)
        return fail(l, ASYMREG_EUNREACH, "the peer is in another pid namespace");
    if (!(ep = calloc(1, sizeof(*ep))))
        return -ENOMEM;
    ep->peer = a;
    ep->pidfd = -1;
    rc = process_get(ep, &fd);
    if (rc == 0 && __atomic_fetch_add(&l->kept, 1, __ATOMIC_RELAXED) < KEPT_PIDFDS) {
        ep->pidfd = fd;
    } else if (rc == 0) {
        __atomic_fetch_sub(&l->kept, 1, __ATOMIC_RELAXED);
        close(fd);
    }
    if (rc == -ENOSYS)
        rc = 0;
    if (rc == 0)
        rc = peer_alive(t, ep);
    if (rc < 0) {
        disconnect(t, ep);
        return rc;
    }
    *out = ep;
    return 0;
}

/* A descriptor of the peer's file, for this process to close; -1 with errno. */
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
    if ((e = process_get(ep, &process)) == 0) {
        fd = (int)syscall(SYS_pidfd_getfd, process, h->fd, 0);
        e = -errno;
        process_put(ep, process);
        if (fd >= 0)
            return fd;
    }
    e = e == ASYMREG_EPEER ? ESRCH : -e;
    snprintf(path, sizeof(path), "/proc/%llu/fd/%d", (unsigned long long)ep->peer.pid, h->fd);
    if ((fd = open(path, O_RDWR | O_CLOEXEC)) < 0 &&
        (errno == EACCES || errno == EPERM || errno == EROFS || errno == ETXTBSY))
        fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) /* closed, if there is a /proc and the process in it */
        errno = e == ESRCH || !ep->peer.start_time ? e
                : peer_alive(&l->base, ep) < 0     ? ESRCH
                                                   : EBADF;
    return fd;
}

/* Maps [addr, addr + bytes) of the handle's file. Loads and stores are used only if nobody can take
 * the pages away. */
static int map_file(struct asymreg__local *l, int fd, const struct handle *h,
                    struct asymreg_rkey *key)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = h->fd_offset & ~(page - 1), end;
    struct stat st;
    int seals, prot = PROT_READ | PROT_WRITE;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_dev != h->dev || st.st_ino != h->ino)
        return ASYMREG_ESTALE; /* the number stands for another file now */
    if (__builtin_add_overflow(h->fd_offset, key->bytes, &end) || end > (uint64_t)INT64_MAX)
        return ASYMREG_ETABLE;
    key->map_bytes = end - from;
    key->map = mmap(NULL, key->map_bytes, prot, MAP_SHARED, fd, (off_t)from);
    if (key->map == MAP_FAILED && (errno == EACCES || errno == EPERM)) {
        prot = PROT_READ;
        key->map = mmap(NULL, key->map_bytes, prot, MAP_SHARED, fd, (off_t)from);
    }
    if (key->map == MAP_FAILED) {
        key->map = NULL;
        return errno == ENOMEM ? -ENOMEM
                               : fail(l, ASYMREG_EUNREACH, "the peer's file cannot be mapped");
    }
    key->writable = prot != PROT_READ;
    key->ptr = (char *)key->map + (h->fd_offset - from);
    seals = fcntl(fd, F_GET_SEALS);
    key->kind = KEY_GUARDED;
    if (end <= (uint64_t)st.st_size &&
        ((seals > 0 && (seals & F_SEAL_SHRINK)) ||
         ((h->flags & ASYMREG_MEM_TRUSTED) && (l->flags & ASYMREG_LOCAL_TRUST))))
        key->kind = KEY_DIRECT;
    return 0;
}

static int rkey_unpack(struct asymreg_transport *t, struct asymreg_ep *ep, const void *handle,
                       size_t handle_bytes, uint64_t addr, uint64_t bytes,
                       struct asymreg_rkey **out)
{
    struct asymreg__local *l = local(t);
    struct asymreg_rkey *key;
    struct handle h;
    int fd, rc;

    if (handle_bytes != sizeof(h) || !bytes)
        return ASYMREG_ETABLE;
    memcpy(&h, handle, sizeof(h));
    if (h.kind != HANDLE_CMA && h.kind != HANDLE_FD)
        return ASYMREG_ETABLE;
    if ((rc = peer_alive(t, ep)) < 0)
        return rc;
    if (!(key = calloc(1, sizeof(*key))))
        return -ENOMEM;
    key->addr = addr;
    key->bytes = bytes;
    key->kind = KEY_CMA;
    key->writable = 1;
    key->flags = h.flags;
    if (h.kind == HANDLE_FD && ((l->flags & ASYMREG_LOCAL_SHM) || (h.flags & MAPPED_ALWAYS))) {
        if ((fd = fetch_fd(l, ep, &h)) >= 0) {
            rc = map_file(l, fd, &h, key);
            close(fd);
        } else {
            rc =
                errno == ESRCH   ? ASYMREG_EPEER
                : errno == EBADF ? ASYMREG_ESTALE
                : errno == EMFILE || errno == ENFILE
                    ? -errno
                    : fail(l, ASYMREG_EUNREACH,
                           "no right to fetch the peer's descriptor (another user, Yama, seccomp)");
        }
        /* The same bytes can be had through the owner's own mapping. */
        if (rc == ASYMREG_EUNREACH && (l->flags & ASYMREG_LOCAL_CMA))
            rc = 0;
    } else if (!(l->flags & ASYMREG_LOCAL_CMA)) {
        rc = fail(l, ASYMREG_EUNREACH, "the peer's memory has no descriptor, and CMA is off here");
    }
    if (rc < 0) {
        free(key);
        return rc;
    }
    key->get_bytes = key->kind == KEY_DIRECT ? bytes : 0;
    key->put_bytes = key->writable ? key->get_bytes : 0;
    *out = key;
    return 0;
}

static void rkey_release(struct asymreg_transport *t, struct asymreg_ep *ep,
                         struct asymreg_rkey *rkey)
{
    (void)t, (void)ep;
    if (rkey->map)
        munmap(rkey->map, rkey->map_bytes);
    free(rkey);
}

static int map(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey,
               uint64_t addr, uint64_t bytes, const void **ptr)
{
    (void)ep;
    if (rkey->kind != KEY_DIRECT || (!rkey->writable && (rkey->flags & ASYMREG_MEM_ACTIVITY)) ||
        addr < rkey->addr || bytes > rkey->bytes || addr - rkey->addr > rkey->bytes - bytes)
        return fail(local(t), ASYMREG_ENOTSUP, "this memory cannot be mapped safely");
    *ptr = rkey->ptr + (addr - rkey->addr);
    return 0;
}

/* Copies between this process and another (or itself, where a fault is an error and not a signal).
 * */
static int vm_copy(struct asymreg__local *l, struct asymreg_ep *ep, pid_t pid, uint64_t remote,
                   char *here, size_t bytes, int write)
{
    while (bytes) {
        struct iovec mine = {.iov_base = here,
                             .iov_len = bytes < MAX_ONE_CALL ? bytes : MAX_ONE_CALL};
        struct iovec theirs = {.iov_base = (void *)(uintptr_t)remote, .iov_len = mine.iov_len};
        ssize_t n = write ? process_vm_writev(pid, &mine, 1, &theirs, 1, 0)
                          : process_vm_readv(pid, &mine, 1, &theirs, 1, 0);
        if (n < 0) {
            switch (errno) {
            case EFAULT:
                /* A dying process loses its memory before it is a zombie. */
                return peer_alive(&l->base, ep) < 0 ? ASYMREG_EPEER : ASYMREG_EFAULT;
            case ESRCH: __atomic_store_n(&ep->dead, 1, __ATOMIC_RELAXED); return ASYMREG_EPEER;
            case EPERM:
                return fail(l, ASYMREG_EUNREACH,
                            "no right to trace the peer (another user, Yama, seccomp)");
            case EINTR: continue;
            default: return -errno;
            }
        }
        remote += (uint64_t)n;
        here += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* Plain copies, in which aligned words are written whole: what waits for a flag sees all of it or
 * nothing. */
static inline void copy_words(char *to, const char *from, size_t bytes)
{
    if (bytes == 8 && (uintptr_t)to % 8 == 0) {
        uint64_t word;
        memcpy(&word, from, 8);
        __atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
    } else if (bytes == 4 && (uintptr_t)to % 4 == 0) {
        uint32_t word;
        memcpy(&word, from, 4);
        __atomic_store_n((uint32_t *)(void *)to, word, __ATOMIC_RELEASE);
    } else {
        memcpy(to, from, bytes);
    }
}

static inline int outside(const struct asymreg_rkey *key, uint64_t addr, size_t bytes)
{
    if (key->bytes == UINT64_MAX) /* the whole space, whose end is past what a length can say */
        return 0;
    return addr < key->addr || bytes > key->bytes || addr - key->addr > key->bytes - bytes;
}

/* Everything that is not a load or store of a peer known to live. */
__attribute__((noinline)) static int put_with_care(struct asymreg_transport *t,
                                                   struct asymreg_ep *ep, struct asymreg_rkey *rkey,
                                                   uint64_t addr, const void *src, size_t bytes)
{
    struct asymreg__local *l = local(t);
    int rc;

    if (outside(rkey, addr, bytes))
        return ASYMREG_ERANGE;
    if (rkey->kind == KEY_CMA)
        return vm_copy(l, ep, (pid_t)ep->peer.pid, addr, (char *)(uintptr_t)src, bytes, 1);
    if (!rkey->writable)
        return ASYMREG_EACCES;
    if ((rc = alive_lately(t, ep)) < 0)
        return rc;
    if (rkey->kind == KEY_GUARDED)
        return vm_copy(l, ep, l->pid, (uintptr_t)rkey->ptr + (addr - rkey->addr),
                       (char *)(uintptr_t)src, bytes, 1);
    copy_words(rkey->ptr + (addr - rkey->addr), src, bytes);
    return 0;
}

static int put(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey,
               uint64_t addr, const void *src, size_t bytes, struct asymreg_mem *mem,
               struct asymreg_op *op)
{
    (void)mem, (void)op;
    if (addr - rkey->addr > rkey->put_bytes || bytes > rkey->put_bytes - (addr - rkey->addr) ||
        !known_alive(ep))
        return put_with_care(t, ep, rkey, addr, src, bytes);
    copy_words(rkey->ptr + (addr - rkey->addr), src, bytes);
    return 0;
}

__attribute__((noinline)) static int get_with_care(struct asymreg_transport *t,
                                                   struct asymreg_ep *ep, struct asymreg_rkey *rkey,
                                                   uint64_t addr, void *dst, size_t bytes)
{
    struct asymreg__local *l = local(t);
    int rc;

    if (outside(rkey, addr, bytes))
        return ASYMREG_ERANGE;
    if (rkey->kind == KEY_CMA)
        return vm_copy(l, ep, (pid_t)ep->peer.pid, addr, dst, bytes, 0);
    if ((rc = alive_lately(t, ep)) < 0)
        return rc;
    if (rkey->kind == KEY_GUARDED)
        return vm_copy(l, ep, l->pid, (uintptr_t)rkey->ptr + (addr - rkey->addr), dst, bytes, 0);
    memcpy(dst, rkey->ptr + (addr - rkey->addr), bytes);
    return 0;
}

static int get(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey,
               uint64_t addr, void *dst, size_t bytes, struct asymreg_mem *mem,
               struct asymreg_op *op)
{
    (void)mem, (void)op;
    if (addr - rkey->addr > rkey->get_bytes || bytes > rkey->get_bytes - (addr - rkey->addr) ||
        !known_alive(ep))
        return get_with_care(t, ep, rkey, addr, dst, bytes);
    if (bytes == 8)
        memcpy(dst, rkey->ptr + (addr - rkey->addr), 8);
    else
        memcpy(dst, rkey->ptr + (addr - rkey->addr), bytes);
    return 0;
}

#define DEFINE_AMO(name, type)                                                                     \
    static uint64_t name(type *p, uint32_t amo, type operand, type compare)                        \
    {                                                                                              \
        switch (amo) {                                                                             \
        case ASYMREG_AMO_SWAP: return __atomic_exchange_n(p, operand, __ATOMIC_SEQ_CST);           \
        case ASYMREG_AMO_COMPARE_SWAP:                                                             \
            __atomic_compare_exchange_n(p, &compare, operand, 0, __ATOMIC_SEQ_CST,                 \
                                        __ATOMIC_SEQ_CST);                                         \
            return compare;                                                                        \
        default: return __atomic_fetch_add(p, operand, __ATOMIC_SEQ_CST);                          \
        }                                                                                          \
    }
DEFINE_AMO(amo4, uint32_t)
DEFINE_AMO(amo8, uint64_t)

static int amo(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey,
               uint64_t addr, uint32_t which, uint32_t bytes, uint64_t operand, uint64_t compare,
               uint64_t *result, struct asymreg_op *op)
{
    struct asymreg__local *l = local(t);
    uint64_t old;
    char *p;
    int rc;

    (void)op;
    if (rkey->kind == KEY_CMA)
        return fail(l, ASYMREG_ENOTSUP,
                    "process_vm_writev cannot update atomically; use shared memory (asymreg_alloc, "
                    "or a descriptor)");
    if (rkey->kind == KEY_GUARDED)
        return fail(l, ASYMREG_ENOTSUP,
                    "a file that may be shortened is accessed through the kernel, which cannot "
                    "update atomically");
    if (outside(rkey, addr, bytes))
        return ASYMREG_ERANGE;
    if (!rkey->writable)
        return ASYMREG_EACCES;
    if ((rc = alive_lately(t, ep)) < 0)
        return rc;
    p = rkey->ptr + (addr - rkey->addr);
    if ((uintptr_t)p % bytes)
        return ASYMREG_EALIGN; /* mapped at an odd offset in its file */
    old = bytes == 4 ? amo4((uint32_t *)(void *)p, which, (uint32_t)operand, (uint32_t)compare)
                     : amo8((uint64_t *)(void *)p, which, operand, compare);
    if (result)
        *result = old;
    return 0;
}

static int flush(struct asymreg_transport *t, struct asymreg_ep *ep)
{
    __atomic_thread_fence(__ATOMIC_RELEASE);
    return ep ? alive_lately(t, ep) : 0;
}

static int progress(struct asymreg_transport *t)
{
    (void)t;
    return 0;
}

static const struct asymreg_transport_ops ops = {
    .size = sizeof(ops),
    .version = ASYMREG_TRANSPORT_VERSION,
    .name = "local",
    .query = query,
    .reason = reason,
    .destroy = destroy,
    .mem_reg = mem_reg,
    .mem_dereg = mem_dereg,
    .address = address,
    .connect = connect_to,
    .disconnect = disconnect,
    .peer_alive = peer_alive,
    .rkey_unpack = rkey_unpack,
    .rkey_release = rkey_release,
    .map = map,
    .put = put,
    .get = get,
    .amo = amo,
    .flush = flush,
    .progress = progress,
};

/* Which process this is. What a system without /proc does not tell stays 0, and is then not
 * compared, or the same everywhere. */
static int identify(struct address *a)
{
    struct stat st;
    ssize_t n;
    int fd, ended, rc = asymreg__process_stat(a->pid, &a->start_time, &ended);

    if (rc < 0 && rc != -ENOENT)
        return rc;
    if (stat("/proc/self/ns/pid", &st) == 0)
        a->pid_ns = st.st_ino;
    else if (errno != ENOENT)
        return -errno;
    if ((fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)) < 0)
        return errno == ENOENT ? 0 : -errno;
    n = read(fd, a->boot_id, sizeof(a->boot_id));
    close(fd);
    if (n < 36)
        memset(a->boot_id, 0, sizeof(a->boot_id));
    return 0;
}

int asymreg_local_create(const struct asymreg_local_opts *opts,
                         struct asymreg_transport **transport)
{
    const uint32_t both = ASYMREG_LOCAL_SHM | ASYMREG_LOCAL_CMA;
    uint32_t flags = opts ? opts->flags : 0;
    struct asymreg__local *l;
    int rc;

    if (!transport || (opts && !asymreg__opts_known(opts, sizeof(*opts))) ||
        (flags & ~(both | ASYMREG_LOCAL_TRUST)) || (opts && opts->reserved))
        return -EINVAL;
    if (!(flags & both))
        flags |= both;
    if (!(l = calloc(1, sizeof(*l))))
        return -ENOMEM;
    l->base.ops = &ops;
    l->flags = flags;
    l->pid = getpid();
    l->self.magic = ADDRESS_MAGIC;
    l->self.flags = flags;
    l->self.pid = (uint64_t)l->pid;
    if ((rc = identify(&l->self)) < 0) {
        free(l);
        return rc;
    }
    pthread_mutex_init(&l->lock, NULL);
    *transport = &l->base;
    return 0;
}

struct asymreg__local *asymreg__local_of(struct asymreg_transport *t)
{
    return t->ops == &ops ? local(t) : NULL;
}

/* One message for each descriptor. */
struct fd_message {
    uint32_t magic;
    uint32_t more; /* messages after this one */
    uint64_t pid, start_time, dev, ino;
};

int asymreg__local_fds_send(struct asymreg__local *l, int sock)
{
    union {
        char buf[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}}; /* its padding, too, is sent */
    int n = 0, sent = 0, rc = 0;

    pthread_mutex_lock(&l->lock);
    for (struct asymreg_mem *m = l->mems; m; m = m->next)
        n += m->fd >= 0;
    for (struct asymreg_mem *m = l->mems; m && rc == 0; m = m->next) {
        struct fd_message msg = {FDS_MAGIC,    0, l->self.pid, l->self.start_time, m->handle.dev,
                                 m->handle.ino};
        struct iovec iov = {.iov_base = &msg, .iov_len = sizeof(msg)};
        struct msghdr hdr = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.buf,
                             .msg_controllen = sizeof(control.buf)};
        struct cmsghdr *c = CMSG_FIRSTHDR(&hdr);
        ssize_t done;
        if (m->fd < 0)
            continue;
        msg.more = (uint32_t)(n - sent - 1);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &m->fd, sizeof(int));
        while ((done = sendmsg(sock, &hdr, MSG_NOSIGNAL)) < 0 && errno == EINTR)
            ;
        if (done == (ssize_t)sizeof(msg))
            sent++;
        else
            rc = done < 0 ? -errno : -EIO;
    }
    pthread_mutex_unlock(&l->lock);
    return rc < 0 ? rc : sent;
}

/* The descriptor of a message; -1 if it has not just one, and then none stays open. */
static int take_fd(struct msghdr *hdr)
{
    int fd = -1, n = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(hdr); c; c = CMSG_NXTHDR(hdr, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= c->cmsg_len; at += sizeof(int)) {
            if (n++ > 0)
                close(fd);
            memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
        }
    }
    if (n > 1) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int writes(int fd)
{
    return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
}

/* Keeps a descriptor. Returns 1 if it is new, 0 if there is one that can as much, in which case
 * this one is closed, or -ENOMEM. */
static int keep(struct asymreg__local *l, const struct fd_message *msg, int fd)
{
    struct received *r;
    int old = fd, rc = 0;

    pthread_mutex_lock(&l->lock);
    for (r = l->received; r; r = r->next)
        if (r->pid == msg->pid && r->start_time == msg->start_time && r->dev == msg->dev &&
            r->ino == msg->ino)
            break;
    if (r && !writes(r->fd) &&
        writes(fd)) { /* the file is one that is kept: nobody else's has its number meanwhile */
        old = r->fd;
        r->fd = fd;
        rc = 1;
    } else if (!r && (r = malloc(sizeof(*r)))) {
        *r = (struct received){.next = l->received,
                               .pid = msg->pid,
                               .start_time = msg->start_time,
                               .dev = msg->dev,
                               .ino = msg->ino,
                               .fd = fd};
        l->received = r;
        old = -1;
        rc = 1;
    } else if (!r) {
        rc = -ENOMEM;
    }
    pthread_mutex_unlock(&l->lock);
    if (old >= 0)
        close(old);
    return rc;
}

/* Receives one message and keeps its descriptor. Returns 1 if that is new, 0, or an error; and how
 * many follow. */
static int receive_one(struct asymreg__local *l, int sock, uint32_t *more)
{
    union {
        char buf[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct fd_message msg;
    struct iovec iov = {.iov_base = &msg, .iov_len = sizeof(msg)};
    struct msghdr hdr = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.buf,
                         .msg_controllen = sizeof(control.buf)};
    struct stat st;
    ssize_t n;
    int fd;

    while ((n = recvmsg(sock, &hdr, MSG_CMSG_CLOEXEC | MSG_WAITALL)) < 0 && errno == EINTR)
        ;
    if (n < 0)
        return -errno;
    fd = take_fd(&hdr);
    if (n != (ssize_t)sizeof(msg) || msg.magic != FDS_MAGIC || fd < 0 || fstat(fd, &st) < 0 ||
        st.st_dev != msg.dev || st.st_ino != msg.ino) {
        if (fd >= 0)
            close(fd);
        return ASYMREG_EBLOB;
    }
    *more = msg.more;
    return keep(l, &msg, fd);
}

int asymreg__local_fds_recv(struct asymreg__local *l, int sock)
{
    uint32_t more;
    int n = 0, rc;

    do {
        if ((rc = receive_one(l, sock, &more)) < 0)
            return rc;
        n += rc;
    } while (more > 0);
    return n;
}
