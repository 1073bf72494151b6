/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * [--no-pidfd=ENOSYS|EPERM]: every allocation and system call of a context's life fails in turn, by
 * --wrap. The call of the library in which the failure occurs reports it, changes nothing, and
 * succeeds when repeated. At the end no memory is mapped and no descriptor open that was not
 * before.
 */
#define _GNU_SOURCE
#include "targets.h"

#include <dirent.h>
#include <stdarg.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>

static long countdown;     /* calls until one fails */
static int armed, fired;   /* only while the library is called */
static const char *victim; /* the function that failed */
static int error;          /* and how */
static long long mapped;

static int hit(const char *name, int code)
{
    if (!armed || --countdown != 0)
        return 0;
    fired = 1;
    victim = name;
    error = errno = code;
    return 1;
}

#define WRAP(type, name, bad, code, params, args)                                                  \
    type __real_##name params;                                                                     \
    type __wrap_##name params;                                                                     \
    type __wrap_##name params                                                                      \
    {                                                                                              \
        return hit(#name, code) ? (bad) : __real_##name args;                                      \
    }
WRAP(void *, calloc, NULL, ENOMEM, (size_t n, size_t m), (n, m))
WRAP(int, madvise, -1, ENOMEM, (void *a, size_t n, int what), (a, n, what))
WRAP(int, memfd_create, -1, EMFILE, (const char *name, unsigned flags), (name, flags))
WRAP(int, ftruncate, -1, ENOSPC, (int fd, off_t n), (fd, n))
WRAP(int, fstat, -1, EIO, (int fd, struct stat *st), (fd, st))
WRAP(int, stat, -1, EIO, (const char *path, struct stat *st), (path, st))
WRAP(FILE *, fopen, NULL, EMFILE, (const char *path, const char *how), (path, how))
WRAP(ssize_t, getrandom, -1, EIO, (void *p, size_t n, unsigned flags), (p, n, flags))
WRAP(ssize_t, sendmsg, -1, ENOBUFS, (int fd, const struct msghdr *m, int flags), (fd, m, flags))
WRAP(ssize_t, recvmsg, -1, ENOBUFS, (int fd, struct msghdr *m, int flags), (fd, m, flags))
WRAP(ssize_t, process_vm_readv, -1, ENOMEM,
     (pid_t p, const struct iovec *a, unsigned long n, const struct iovec *b, unsigned long m,
      unsigned long f),
     (p, a, n, b, m, f))
WRAP(ssize_t, process_vm_writev, -1, ENOMEM,
     (pid_t p, const struct iovec *a, unsigned long n, const struct iovec *b, unsigned long m,
      unsigned long f),
     (p, a, n, b, m, f))

void *__real_mmap(void *a, size_t n, int p, int f, int fd, off_t o);
void *__wrap_mmap(void *a, size_t n, int p, int f, int fd, off_t o);
void *__wrap_mmap(void *a, size_t n, int p, int f, int fd, off_t o)
{
    void *r = hit("mmap", ENOMEM) ? MAP_FAILED : __real_mmap(a, n, p, f, fd, o);

    if (r != MAP_FAILED)
        mapped += ((long long)n + 4095) / 4096;
    return r;
}

int __real_munmap(void *a, size_t n);
int __wrap_munmap(void *a, size_t n);
int __wrap_munmap(void *a, size_t n)
{
    mapped -= ((long long)n + 4095) / 4096;
    return __real_munmap(a, n);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    return hit("open", EMFILE) ? -1
                               : __real_open(path, flags); /* the library never creates by open() */
}

long __real_syscall(long n, ...);
long __wrap_syscall(long n, ...);
long __wrap_syscall(long n, ...)
{
    long a[4];
    va_list args;

    va_start(args, n);
    for (int i = 0; i < 4; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    return hit("syscall", EMFILE) ? -1 : __real_syscall(n, a[0], a[1], a[2], a[3]);
}

int __real_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...)
{
    va_list args;
    void *arg;

    va_start(args, what);
    arg = va_arg(args, void *);
    va_end(args);
    return hit("fcntl", EMFILE) ? -1 : __real_fcntl(fd, what, arg);
}

static int open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    CHECK(d != NULL);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/*
 * A call in which the failure may occur. If it does, the call returns the cause's code (or, for
 * causes without one, a code of the library), and succeeds when repeated.
 */
#define TRY(want, call)                                                                            \
    do {                                                                                           \
        int before_ = fired;                                                                       \
        armed = 1;                                                                                 \
        long long rc_ = (call);                                                                    \
        armed = 0;                                                                                 \
        if (rc_ != (want)) {                                                                       \
            if (!fired || before_) {                                                               \
                fprintf(stderr, "%s:%d: %s is %lld without cause\n", __FILE__, __LINE__, #call,    \
                        rc_);                                                                      \
                exit(1);                                                                           \
            }                                                                                      \
            if (rc_ != -error && rc_ != ASYMREG_EUNREACH && rc_ != ASYMREG_EBLOB) {                \
                fprintf(stderr, "%s:%d: %s is %lld when %s fails\n", __FILE__, __LINE__, #call,    \
                        rc_, victim);                                                              \
                exit(1);                                                                           \
            }                                                                                      \
            n_failed++;                                                                            \
            rc_ = (call);                                                                          \
            if (rc_ != (want)) {                                                                   \
                fprintf(stderr, "%s:%d: %s is %lld after %s failed\n", __FILE__, __LINE__, #call,  \
                        rc_, victim);                                                              \
                exit(1);                                                                           \
            }                                                                                      \
        }                                                                                          \
    } while (0)

static struct asymreg_context *owner, *user;
static struct target *far; /* another process, or NULL */
static int n_failed;
static uint32_t mode;
static uint64_t coalesce;
static const struct asymreg_transport_ops *under;
static struct asymreg_transport_ops ops;

/* Each region is to be registered with the transport, if the context coalesces. */
static int query(struct asymreg_transport *t, struct asymreg_transport_caps *caps)
{
    int rc = under->query(t, caps);

    caps->flags &= ~ASYMREG_CAP_WHOLE_SPACE;
    return rc;
}

static int open_one(uint32_t flags, struct asymreg_context **ctx)
{
    struct asymreg_local_opts lo = {.size = sizeof(lo), .flags = mode};
    struct asymreg_opts o = {.size = sizeof(o),
                             .flags = flags,
                             .max_regions = 5000,
                             .ring = 16,
                             .coalesce_bytes = coalesce};
    int rc = asymreg_local_create(&lo, &o.transport, NULL);

    if (rc == 0 && coalesce) {
        under = o.transport->ops;
        ops = *under;
        ops.query = query;
        o.transport->ops = &ops;
    }
    return rc < 0 ? rc : asymreg_open(&o, ctx, NULL); /* which takes it over in any case */
}

enum { N = 1500 };

static void life(void)
{
    static char memory[N * 8] __attribute__((aligned(4096)));
    static asymreg_id ids[N];
    struct asymreg_worker *w;
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    char *base = memory;
    asymreg_id one;
    ssize_t n;
    void *p;
    int fd = __real_memfd_create("x", 0), pair[2];

    CHECK(fd >= 0 && __real_fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && __real_ftruncate(fd, 8192) == 0);
    TRY(0, open_one(ASYMREG_DRAIN, &owner));
    TRY(0, open_one(0, &user));
    TRY(0, asymreg_segment_alloc(owner, 3 * 4096, &p, NULL));
    char *file = __real_mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(file != MAP_FAILED);
    if (mode & ASYMREG_LOCAL_SHM)
        TRY(0, asymreg_register(owner, file, 8192, ASYMREG_RW, SEGMENT_OF(0, fd, 0), NULL, NULL));
    if (!(mode & ASYMREG_LOCAL_CMA))
        base = p;
    for (int i = 0; i < N; i++)
        TRY(0, asymreg_register(owner, base + i * 8, 7, ASYMREG_RW, NULL, &ids[i], NULL));
    n = asymreg_export(owner, blob, sizeof(blob), NULL);
    CHECK(n > 0);
    TRY(0, asymreg_import(user, 1, blob, (size_t)n, NULL));
    TRY(0, asymreg_worker_create(user, &w));
    TRY(0, asymreg_put(w, 1, (uintptr_t)base, ids[0], "x", 1));
    CHECK(base[0] == 'x');
    if (mode & ASYMREG_LOCAL_SHM) {
        TRY(0, asymreg_register(owner, file, 100, ASYMREG_RW, NULL, &one, NULL));
        TRY(0, asymreg_put(w, 1, (uintptr_t)file + 7, one, "y", 1)); /* through the kernel */
        CHECK(file[7] == 'y');
        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
        armed = 1;
        int sent = asymreg_fds_send(owner, pair[0]);
        armed = 0;
        if (sent < 0)
            n_failed++;
        CHECK(sent == 4 || (fired && sent < 0));
        if (sent == 4) { /* a stream that was cut is of no more use */
            armed = 1;
            int got = asymreg_fds_recv(user, pair[1]);
            armed = 0;
            n_failed += got < 0;
            CHECK(got == 4 || (fired && got < 0));
        }
        close(pair[0]);
        close(pair[1]);
        TRY(0, asymreg_unregister(owner, one));
        TRY(0, asymreg_segment_remove(owner, file));
    }
    /* Every second one goes: more changes than the log holds. */
    for (int i = 0; i < N; i += 2)
        TRY(0, asymreg_unregister(owner, ids[i]));
    TRY(0, asymreg_put(w, 1, (uintptr_t)base + 8, ASYMREG_ANY, "z", 1));
    CHECK(base[8] == 'z');
    for (int i = 0; i < N; i++)
        CHECK_EQ(asymreg_put(w, 1, (uintptr_t)base + (uint64_t)i * 8, ids[i], "z", 1),
                 i % 2 ? 0 : ASYMREG_ESTALE);
    TRY(0, asymreg_unregister_drain(owner, ids[1], 5000, NULL));
    TRY(0, asymreg_unregister_drain(owner, ASYMREG_ANY, 5000, NULL));
    for (int i = 3; i < N; i += 2)
        TRY(0, asymreg_unregister(owner, ids[i]));
    struct asymreg_stats st = {.size = sizeof(st)};
    CHECK_EQ(asymreg_context_stats(owner, &st), 0);
    CHECK_EQ(st.n_regions, 0);
    CHECK_EQ(st.n_segments, 1 + (mode & ASYMREG_LOCAL_CMA && !coalesce));
    TRY(0, asymreg_segment_remove(owner, p));
    if (far) { /* descriptors from another process */
        char c = 0;
        struct answer a =
            tell(far, (struct order){.what = REGISTER,
                                     .kind = mode & ASYMREG_LOCAL_SHM ? SHARED : MALLOC,
                                     .bytes = 4096,
                                     .prot = ASYMREG_RW});
        CHECK_EQ(a.rc, 0);
        TRY(0, asymreg_import(user, 2, far->blob, far->blob_bytes, NULL));
        TRY(0, asymreg_put(w, 2, a.addr, a.id, "f", 1));
        TRY(0, asymreg_get(w, 2, a.addr, a.id, &c, 1));
        CHECK_EQ(c, 'f');
        CHECK_EQ(tell(far, (struct order){.what = UNREGISTER, .value = a.id}).rc, 0);
    }
    armed = 1;
    asymreg_worker_destroy(w);
    CHECK(asymreg_forget(user, 1) == 0);
    asymreg_close(user);
    asymreg_close(owner);
    armed = 0;
    __real_munmap(file, 8192);
    close(fd);
}

/* With enough regions the index maps huge pages, and unmaps the excess around them. */
static void large_life(void)
{
    enum { MANY = 250000 };
    struct asymreg_opts o = {.size = sizeof(o), .max_regions = MANY};
    static char memory[MANY];
    long long pages = mapped;

    CHECK_EQ(asymreg_open(&o, &owner, NULL), 0);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(asymreg_register(owner, memory + i, 1, ASYMREG_READ, NULL, NULL, NULL), 0);
    asymreg_close(owner);
    CHECK_EQ(mapped, pages);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        uint32_t mode;
        uint64_t coalesce;
    } lives[] = {{"shm", ASYMREG_LOCAL_SHM, 0},
                 {"cma", ASYMREG_LOCAL_CMA, 0},
                 {"coalescing", ASYMREG_LOCAL_CMA, 4096}};

    no_pidfd_asked(argv[1]);
    large_life();
    for (size_t i = 0; i < sizeof(lives) / sizeof(*lives); i++) {
        struct target t;
        long k = 0;
        mode = lives[i].mode;
        coalesce = lives[i].coalesce;
        target_start(&t, mode);
        far = &t;
        countdown = 0;
        life();
        n_failed = 0;
        do {
            int files = open_files();
            long long pages = mapped;
            countdown = ++k;
            fired = 0;
            life();
            CHECK_EQ(open_files(), files);
            CHECK_EQ(mapped, pages);
        } while (fired);
        printf("%s: %ld calls failed in turn, of which %d showed\n", lives[i].name, k - 1,
               n_failed);
        CHECK(k > 40 && n_failed > k / 3);
        target_end(&t);
    }
    return 0;
}
