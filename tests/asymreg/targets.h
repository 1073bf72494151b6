/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests with several processes: checks that end the process, and a target that executes orders
 * from a socket. */
#ifndef ASYMREG_TESTS_TARGETS_H
#define ASYMREG_TESTS_TARGETS_H

#include <asymreg.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK_END() exit(1)
#include "../check.h"
#include "register.h"

/* Two numbers that must be equal; prints both otherwise. */
#define CHECK_EQ(a, b)                                                                             \
    do {                                                                                           \
        long long check_a = (long long)(a), check_b = (long long)(b);                              \
        if (check_a != check_b) {                                                                  \
            fprintf(stderr, "%s:%d: %s is %lld (%s), not %s\n", __FILE__, __LINE__, #a, check_a,   \
                    check_a < 0 ? asymreg_strerror((int)check_a) : "", #b);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* From here on two system calls of this process and its children fail with `error`. */
static inline void no_calls(unsigned first, unsigned second, int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        printf("skip: no filter of system calls: %s\n", strerror(errno));
        exit(77);
    }
}

/*
 * From here on this process and its children have no descriptors of processes: pidfd_open() and
 * pidfd_getfd() fail with `error`, ENOSYS as on old kernels or EPERM as in some sandboxes.
 */
static inline void no_pidfd(int error)
{
    no_calls(SYS_pidfd_open, SYS_pidfd_getfd, error);
    CHECK(syscall(SYS_pidfd_open, getpid(), 0) < 0 && errno == error);
}

/* Of a test's arguments the first: --no-pidfd=ENOSYS or EPERM. Returns whether it was there. */
static inline int no_pidfd_asked(const char *arg)
{
    if (!arg || strncmp(arg, "--no-pidfd=", 11) != 0)
        return 0;
    no_pidfd(strcmp(arg + 11, "EPERM") == 0 ? EPERM : ENOSYS);
    return 1;
}

/* A target's orders. */
enum { REGISTER, UNREGISTER, UNMAP, PROTECT, TRUNCATE, LOOK, FILL, CLOSE, SEND_FDS, ALLOC_MORE };
/* Where memory comes from. */
enum { MALLOC, SHARED, A_FILE, ANON, READ_ONLY_FILE };

struct order {
    uint32_t what, kind;
    uint64_t addr, bytes, value;
    uint32_t prot, flags;
};

struct answer {
    int64_t rc;
    uint64_t addr, value;
    asymreg_id id;
};

struct target {
    pid_t pid;
    int sock;
    size_t blob_bytes;
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
};

static inline void send_all(int sock, const void *p, size_t n)
{
    while (n) {
        ssize_t w = send(sock, p, n, MSG_NOSIGNAL);
        if (w < 0 && errno == EINTR)
            continue;
        CHECK(w > 0);
        p = (const char *)p + w;
        n -= (size_t)w;
    }
}

static inline int recv_all(int sock, void *p, size_t n)
{
    while (n) {
        ssize_t r = recv(sock, p, n, 0);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return -1;
        p = (char *)p + r;
        n -= (size_t)r;
    }
    return 0;
}

static inline struct asymreg_context *open_context(uint32_t local_flags, uint32_t flags,
                                                   uint32_t max_regions)
{
    struct asymreg_local_opts lo = {.size = sizeof(lo), .flags = local_flags};
    struct asymreg_opts o = {.size = sizeof(o), .flags = flags, .max_regions = max_regions};
    struct asymreg_context *c = NULL;

    CHECK_EQ(asymreg_local_create(&lo, &o.transport, NULL), 0);
    CHECK_EQ(asymreg_open(&o, &c, NULL), 0);
    return c;
}

static inline void target_order(struct asymreg_context **ctx, const struct order *o,
                                struct answer *a, int sock)
{
    static int file = -1;
    static uint64_t file_bytes;
    void *p = NULL;

    switch (o->what) {
    case REGISTER:
        if (o->addr) {
            p = (void *)(uintptr_t)o->addr;
        } else if (o->kind == MALLOC) {
            p = calloc(1, o->bytes);
        } else if (o->kind == ANON) {
            p = mmap(NULL, o->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        } else if (o->kind == SHARED) {
            a->rc = asymreg_segment_alloc(*ctx, o->bytes, &p, NULL);
        } else {
            char path[] = "/tmp/asymreg-test-XXXXXX", self[64];
            int fd = mkstemp(path), ro = -1;
            CHECK(fd >= 0 && ftruncate(fd, (off_t)o->bytes) == 0);
            file = fd;
            file_bytes = o->bytes;
            p = mmap(NULL, o->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            if (o->kind == READ_ONLY_FILE) {
                snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
                ro = open(self, O_RDONLY);
                CHECK(ro >= 0);
            }
            unlink(path);
            a->rc = asymreg_register(
                *ctx, p, o->bytes, o->prot,
                SEGMENT_OF(o->flags >> 8, o->kind == READ_ONLY_FILE ? ro : fd, 0), NULL, NULL);
        }
        if (a->rc == 0)
            a->rc =
                asymreg_register(*ctx, p, o->bytes, o->prot, FLAGS(o->flags & 0xff), &a->id, NULL);
        a->addr = (uintptr_t)p;
        break;
    case UNREGISTER: a->rc = asymreg_unregister(*ctx, o->value); break;
    case UNMAP: a->rc = munmap((void *)(uintptr_t)o->addr, o->bytes); break;
    case PROTECT: a->rc = mprotect((void *)(uintptr_t)o->addr, o->bytes, PROT_READ); break;
    case TRUNCATE: a->rc = ftruncate(file, (off_t)o->bytes); break;
    case LOOK: /* a byte of memory, or the length of the file */
        a->rc = 0;
        if (o->addr)
            a->value = *(volatile unsigned char *)(uintptr_t)o->addr;
        else
            a->value = (uint64_t)lseek(file, 0, SEEK_END);
        break;
    case FILL: memset((void *)(uintptr_t)o->addr, (int)o->value, o->bytes); break;
    case CLOSE:
        asymreg_close(*ctx);
        *ctx = NULL;
        break;
    case SEND_FDS: a->rc = asymreg_fds_send(*ctx, sock); break;
    default: a->rc = -EINVAL;
    }
    (void)file_bytes;
}

/* Forks a process with a context of its own that waits for orders. */
static inline void target_start_as(struct target *t, uint32_t local_flags, int undumpable)
{
    struct asymreg_context *ctx;
    struct order o;
    int pair[2];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    fflush(stdout);
    if ((t->pid = fork()) == 0) {
        close(pair[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (undumpable)
            CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
        ctx = open_context(local_flags, 0, 0);
        unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
        ssize_t n = asymreg_export(ctx, blob, sizeof(blob), NULL);
        CHECK(n > 0);
        send_all(pair[1], &n, sizeof(n));
        send_all(pair[1], blob, (size_t)n);
        while (recv_all(pair[1], &o, sizeof(o)) == 0) {
            struct answer a = {0};
            target_order(&ctx, &o, &a, pair[1]);
            send_all(pair[1], &a, sizeof(a));
        }
        _exit(0);
    }
    CHECK(t->pid > 0);
    close(pair[1]);
    t->sock = pair[0];
    ssize_t n;
    CHECK(recv_all(t->sock, &n, sizeof(n)) == 0 && n > 0 && n <= (ssize_t)sizeof(t->blob));
    t->blob_bytes = (size_t)n;
    CHECK(recv_all(t->sock, t->blob, t->blob_bytes) == 0);
}

static inline void target_start(struct target *t, uint32_t local_flags)
{
    target_start_as(t, local_flags, 0);
}

static inline struct answer tell(struct target *t, struct order o)
{
    struct answer a;

    send_all(t->sock, &o, sizeof(o));
    CHECK(recv_all(t->sock, &a, sizeof(a)) == 0);
    return a;
}

static inline void target_end(struct target *t)
{
    close(t->sock);
    kill(t->pid, SIGKILL);
    waitpid(t->pid, NULL, 0);
}

static inline double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

#endif
