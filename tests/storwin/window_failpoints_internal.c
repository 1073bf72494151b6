/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoints: every allocation and system call of a window's life fails in turn, by --wrap.
 * After each failure nothing leaks, no half-made file is left, and an operation that reports
 * success has taken effect.
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <pthread.h>
#include <sys/mman.h>

#include "../../libstorwin/src/internal.h"
#include "storwin_test.h"

static atomic_int countdown, armed;

/* Whether this is the call that fails. */
static int hit(int code)
{
    if (!atomic_load(&armed) || atomic_fetch_sub(&countdown, 1) != 1)
        return 0;
    errno = code;
    return 1;
}

#define WRAP(type, name, bad, code, params, args)                                                  \
    type __real_##name params;                                                                     \
    type __wrap_##name params;                                                                     \
    type __wrap_##name params                                                                      \
    {                                                                                              \
        return hit(code) ? (bad) : __real_##name args;                                             \
    }
WRAP(void *, calloc, NULL, ENOMEM, (size_t n, size_t m), (n, m))
WRAP(void *, realloc, NULL, ENOMEM, (void *p, size_t n), (p, n))
WRAP(void *, mmap, MAP_FAILED, ENOMEM, (void *a, size_t n, int p, int f, int fd, off_t o),
     (a, n, p, f, fd, o))
WRAP(int, madvise, -1, ENOMEM, (void *a, size_t n, int what), (a, n, what))
WRAP(int, msync, -1, EIO, (void *a, size_t n, int how), (a, n, how))
WRAP(int, fstat, -1, EIO, (int fd, struct stat *st), (fd, st))
WRAP(int, fstatat, -1, EIO, (int fd, const char *n, struct stat *st, int f), (fd, n, st, f))
WRAP(int, ftruncate, -1, ENOSPC, (int fd, off_t n), (fd, n))
WRAP(int, linkat, -1, ENOSPC, (int a, const char *p, int b, const char *q, int f), (a, p, b, q, f))
WRAP(int, eventfd, -1, EMFILE, (unsigned n, int f), (n, f))
WRAP(int, shm_open, -1, EMFILE, (const char *n, int f, mode_t m), (n, f, m))
WRAP(int, memfd_create, -1, EMFILE, (const char *n, unsigned f), (n, f))
WRAP(ssize_t, pread, -1, EIO, (int fd, void *p, size_t n, off_t o), (fd, p, n, o))
WRAP(ssize_t, pwrite, -1, ENOSPC, (int fd, const void *p, size_t n, off_t o), (fd, p, n, o))
WRAP(int, sync_file_range, -1, EIO, (int fd, off_t o, off_t n, unsigned f), (fd, o, n, f))
WRAP(int, pthread_create, EAGAIN, 0,
     (pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *c), (t, a, f, c))

/* A process that is not killed needs no flush, and disks are slow. */
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
    return hit(EIO) ? -1 : 0;
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    return hit(EIO) ? -1 : 0;
}

static atomic_int signals; /* calls for more than SHORT bytes that a signal still comes into */
#define SHORT (1 << 20)

static atomic_int reserve_error, remove_error; /* of every fallocate(), unlinkat(); 0: none */

int __real_unlinkat(int dir, const char *path, int flags);
int __wrap_unlinkat(int dir, const char *path, int flags);
int __wrap_unlinkat(int dir, const char *path, int flags)
{
    errno = atomic_load(&remove_error);
    return errno != 0 ? -1 : __real_unlinkat(dir, path, flags);
}

int __real_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    if (hit(ENOSPC))
        return -1;
    errno = atomic_load(&reserve_error);
    if (errno != 0)
        return -1;
    if (bytes > SHORT && atomic_load(&signals) > 0) {
        errno = atomic_fetch_sub(&signals, 1) > 1 ? EINTR : EIO; /* it has gone on for too long */
        return -1;
    }
    return __real_fallocate(fd, mode, offset, bytes);
}

int __real_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...)
{
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t) : 0;
    va_end(args);
    return hit(EMFILE) ? -1 : __real_openat(dir, path, flags, mode);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    return hit(EMFILE) ? -1 : __real_open(path, flags); /* the library never creates by open() */
}

int __real_ioctl(int fd, unsigned long what, ...);
int __wrap_ioctl(int fd, unsigned long what, ...);
int __wrap_ioctl(int fd, unsigned long what, ...)
{
    va_list args;
    void *arg;

    va_start(args, what);
    arg = va_arg(args, void *);
    va_end(args);
    return hit(EPERM) ? -1 : __real_ioctl(fd, what, arg);
}

long __real_syscall(long n, ...);
long __wrap_syscall(long n, ...);
long __wrap_syscall(long n, ...)
{
    long a[6];
    va_list args;

    va_start(args, n);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    return hit(EPERM) ? -1 : __real_syscall(n, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static atomic_int lock_error; /* of every attempt to lock a file; 0: none */

int __real_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...)
{
    va_list args;
    void *arg;

    va_start(args, what);
    arg = va_arg(args, void *);
    va_end(args);
    if (what == F_OFD_SETLK && atomic_load(&lock_error) != 0) {
        errno = atomic_load(&lock_error);
        return -1;
    }
    return hit(ENOLCK) ? -1 : __real_fcntl(fd, what, arg);
}

#define BYTES ((UINT64_C(1) << 18) + 99)

static const char *path;

/* Allocates, stores, syncs, frees. When armed, only until the end of the allocation, whose result
 * decides what must hold. */
static int life(uint32_t pager, uint32_t factor, int existing)
{
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win = NULL;
    struct storwin_error err = {.code = 0};
    struct storwin_info info = {.size = sizeof(info)};
    uint8_t *copy = NULL;
    uint64_t stored;
    int rc;

    if (existing)
        write_file(path, 100, "existing", 8);
    opts.pager = pager;
    opts.factor_ppb = factor;
    opts.order = STORWIN_STORAGE_FIRST;
    opts.budget_bytes = STORWIN_MIN_BUDGET;
    atomic_store(&armed, 1);
    rc = storwin_alloc(&opts, BYTES, &win, &err);
    atomic_store(&armed, 0);
    if (rc < 0) {
        CHECK(win == NULL && err.code == rc && err.text[0]);
        CHECK(file_size(path) == (existing ? 108 : UINT64_MAX));
        unlink(path);
        return rc;
    }
    storwin_query(win, &info);
    stored = info.storage_bytes;
    CHECK(memcmp((char *)storwin_base(win) + 100,
                 existing && stored ? "existing" : "\0\0\0\0\0\0\0\0", 8) == 0);
    memset(storwin_base(win), 'z', BYTES);
    atomic_store(&armed, 1); /* the same failing call may come in the sync now */
    rc = storwin_sync(win, 0, STORWIN_TO_END, &err);
    atomic_store(&armed, 0);
    CHECK(rc == 0 || (err.code == rc && err.bytes > 0));
    CHECK(storwin_free(win, &err) == 0); /* syncs what the other did not */
    copy = malloc(BYTES);
    if (stored > 0) {
        read_file(path, 0, copy, stored);
        for (uint64_t i = 0; i < stored; i++)
            CHECK(copy[i] == 'z');
    }
    free(copy);
    unlink(path);
    return 0;
}

static int kernel_life(void)
{
    return life(STORWIN_PAGER_KERNEL, STORWIN_FACTOR_ONE, 0);
}

static int grown_life(void)
{
    return life(STORWIN_PAGER_KERNEL, STORWIN_FACTOR_ONE / 2, 1);
}

static int resident_life(void)
{
    return life(STORWIN_PAGER_RESIDENT, STORWIN_FACTOR_ONE, 1);
}

static int user_life(void)
{
    return life(STORWIN_PAGER_USER, STORWIN_FACTOR_ONE, 1);
}

static int fallback_life(void)
{
    int rc;

    atomic_store(&storwin__without, STORWIN__NO_TMPFILE | STORWIN__NO_FALLOCATE | STORWIN__NO_SCAN);
    rc = life(STORWIN_PAGER_RESIDENT, STORWIN_FACTOR_ONE, 1);
    atomic_store(&storwin__without, 0);
    return rc;
}

static int memfd_life(void)
{
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win = NULL;
    struct storwin_error err = {.code = 0};
    int rc;

    opts.factor_ppb = STORWIN_FACTOR_ONE / 2;
    opts.flags = STORWIN_UNLINK | STORWIN_MEMFD;
    atomic_store(&armed, 1);
    rc = storwin_alloc(&opts, BYTES, &win, &err);
    atomic_store(&armed, 0);
    if (rc == 0)
        CHECK(storwin_free(win, NULL) == 0);
    else
        CHECK(win == NULL && err.code == rc && err.text[0]);
    return rc;
}

static int shared_life(void)
{
    uint64_t bytes[2] = {5000, 6000};
    char name[80];
    struct storwin_shared shared = {
        .size = sizeof(shared), .n_ranks = 2, .bytes = bytes, .shm_name = name};
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win = NULL;
    struct storwin_error err;
    int rc, fd;

    snprintf(name, sizeof(name), "/%s", test_dir);
    opts.factor_ppb = STORWIN_FACTOR_ONE / 2;
    opts.flags = STORWIN_UNLINK;
    atomic_store(&armed, 1);
    rc = storwin_alloc_shared(&opts, &shared, &win, &err);
    atomic_store(&armed, 0);
    if (rc == 0)
        CHECK(storwin_free(win, NULL) == 0);
    else
        CHECK(win == NULL && err.code == rc);
    fd = shm_open(name, O_RDWR, 0);
    CHECK(fd < 0 && errno == ENOENT);
    CHECK(file_size(path) == UINT64_MAX);
    return rc;
}

/* One commit that writes a copy, one that appends to the journal, and an asynchronous one: each
 * that returned 0 restores. */
static int commit_life(void)
{
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win = NULL;
    uint8_t *base, acked = 0;
    int rc;

    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = STORWIN_ATOMIC_JOURNAL;
    opts.flags = STORWIN_DISCARD;
    atomic_store(&armed, 1);
    rc = storwin_alloc(&opts, 50000, &win, NULL);
    if (rc == 0) {
        base = storwin_base(win);
        memset(base, 7, 50000);
        for (uint8_t g = 1; g < 3; g++) {
            base[0] = g;
            if (storwin_commit(win, NULL) == 0)
                acked = g;
        }
        base[0] = 3;
        if (storwin_commit_fd(win, NULL) >= 0 && storwin_commit_start(win, NULL) == 0 &&
            storwin_commit_wait(win, NULL) == 0)
            acked = 3;
        atomic_store(&armed, 0);
        CHECK(storwin_free(win, NULL) == 0 && storwin_alloc(&opts, 50000, &win, NULL) == 0);
        base = storwin_base(win);
        CHECK(base[0] >= acked);
        CHECK(window_generation(win) == 0 || (base[0] > 0 && base[49999] == 7));
        CHECK(storwin_free(win, NULL) == 0);
    }
    atomic_store(&armed, 0);
    CHECK(rc == 0 || file_size(path) == UINT64_MAX);
    unlink(path);
    return rc;
}

/* Follows a commit in the journal and one in another area. After a failure the copy is
 * unchanged. */
static int read_life(void)
{
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win = NULL, *reader = NULL;
    int rc = 0;

    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = STORWIN_ATOMIC_AUTO;
    opts.flags = STORWIN_DISCARD;
    CHECK(storwin_alloc(&opts, 50000, &win, NULL) == 0);
    for (uint8_t g = 1, seen = 0; g < 4; g++) {
        uint8_t *base = storwin_base(win);
        int one;

        base[0] = g;
        if (g != 2)
            memset(base + 1, g, 49999);
        CHECK(storwin_commit(win, NULL) == 0);
        atomic_store(&armed, 1);
        one = reader ? storwin_follow(reader, NULL) : storwin_open_read(&opts, &reader, NULL);
        atomic_store(&armed, 0);
        rc = one < 0 ? one : rc;
        seen = one < 0 ? seen : g;
        CHECK((reader != NULL) == (seen > 0));
        if (reader) {
            base = storwin_base(reader);
            CHECK(base[0] == seen && base[49999] == (seen == 2 ? 1 : seen));
        }
    }
    CHECK(storwin_free(reader, NULL) == 0);
    CHECK(storwin_free(win, NULL) == 0);
    unlink(path);
    return rc;
}

/* Signals that come faster than a long fallocate() ends undo it; the space is still reserved. */
static void reserve_under_signals(void)
{
    uint64_t bytes = 5 * SHORT + 100;
    char name[80];
    struct storwin_shared shared = {
        .size = sizeof(shared), .n_ranks = 1, .bytes = &bytes, .shm_name = name};
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win;
    struct stat st;
    int fd;

    snprintf(name, sizeof(name), "/%s", test_dir);
    atomic_store(&signals, 100);
    CHECK(storwin_alloc(&opts, bytes, &win, NULL) == 0);
    CHECK(file_size(path) == bytes && stat(path, &st) == 0 &&
          (uint64_t)st.st_blocks * 512 >= bytes);
    CHECK(storwin_free(win, NULL) == 0);
    CHECK(storwin_alloc_shared(NULL, &shared, &win, NULL) == 0);
    atomic_store(&signals, 0);
    fd = shm_open(name, O_RDWR, 0);
    CHECK(fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_size == bytes &&
          (uint64_t)st.st_blocks * 512 >= bytes);
    close(fd);
    CHECK(storwin_free(win, NULL) == 0);
    unlink(path);
}

/* A file system without locks has windows, but none with commits. Other errors count. */
static void without_locks(void)
{
    static const struct {
        int code, plain; /* result of a window without commits */
    } cases[] = {{ENOLCK, 0},    {EOPNOTSUPP, 0}, {EINVAL, 0},
                 {EOVERFLOW, 0}, {EIO, -EIO},     {EBADF, -EBADF}};

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct storwin_opts opts = storage_opts(path);
        struct storwin_window *win;

        atomic_store(&lock_error, cases[i].code);
        CHECK(storwin_alloc(&opts, BYTES, &win, NULL) == cases[i].plain);
        if (cases[i].plain == 0)
            CHECK(storwin_free(win, NULL) == 0 && unlink(path) == 0);
        opts.pager = STORWIN_PAGER_RESIDENT;
        opts.atomic = STORWIN_ATOMIC_JOURNAL;
        CHECK(storwin_alloc(&opts, BYTES, &win, NULL) == -cases[i].code);
        CHECK(file_size(path) == UINT64_MAX);
    }
    atomic_store(&lock_error, 0);
}

/* A file system that cannot reserve space has it filled with zeros instead. */
static void without_reservation(void)
{
    static const int codes[] = {EOPNOTSUPP, ENOSYS, EIO};

    for (unsigned i = 0; i < 3; i++) {
        struct storwin_opts opts = storage_opts(path);
        const int want = codes[i] == EIO ? -EIO : 0;
        struct storwin_window *win;
        struct stat st;

        atomic_store(&reserve_error, codes[i]);
        CHECK(storwin_alloc(&opts, BYTES, &win, NULL) == want);
        atomic_store(&reserve_error, 0);
        CHECK((stat(path, &st) == 0) == (want == 0));
        if (want < 0)
            continue;
        CHECK((uint64_t)st.st_size == BYTES && (uint64_t)st.st_blocks * 512 >= BYTES);
        CHECK(storwin_free(win, NULL) == 0 && unlink(path) == 0);
    }
}

/* The end of a window reports that its file stays. */
static void without_removal(void)
{
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win;
    struct storwin_error err;

    opts.flags = STORWIN_UNLINK;
    for (unsigned gone = 0; gone < 2; gone++) { /* by another process, just now */
        CHECK(storwin_alloc(&opts, BYTES, &win, NULL) == 0);
        atomic_store(&remove_error, gone ? ENOENT : EACCES);
        CHECK(storwin_free(win, &err) == (gone ? 0 : -EACCES));
        atomic_store(&remove_error, 0);
        CHECK(gone || (err.code == -EACCES && strcmp(err.hint, "storage_alloc_unlink") == 0));
        CHECK(file_size(path) == BYTES && unlink(path) == 0);
    }
}

static int dynamic_life(void)
{
    struct storwin_dynamic *dyn = NULL;
    struct storwin_window *win[9];
    int rc, attached = 0;

    for (int i = 0; i < 9; i++)
        CHECK(storwin_alloc(NULL, 100, &win[i], NULL) == 0);
    atomic_store(&armed, 1);
    rc = storwin_dynamic_create(NULL, &dyn);
    for (int i = 0; rc == 0 && i < 9; i++) {
        rc = storwin_dynamic_attach(dyn, win[i]);
        attached += rc == 0;
    }
    atomic_store(&armed, 0);
    for (int i = 0; dyn && i < 9; i++)
        CHECK((storwin_free(win[i], NULL) == STORWIN_EBUSY) == (i < attached));
    storwin_dynamic_destroy(dyn);
    for (int i = 0; i < (dyn ? attached : 9); i++)
        CHECK(storwin_free(win[i], NULL) == 0);
    return rc;
}

static void *own_id(void *arg)
{
    *(pid_t *)arg = gettid();
    return NULL;
}

/* Runs a thread once, so that the sanitizer's and the C library's own threads and memory exist. */
static void first_thread(void)
{
    char task[64];
    pthread_t thread;
    pid_t id;

    CHECK(pthread_create(&thread, NULL, own_id, &id) == 0 && pthread_join(thread, NULL) == 0);
    snprintf(task, sizeof(task), "/proc/self/task/%d", (int)id);
    while (access(task, F_OK) == 0)
        usleep(1000);
}

int main(void)
{
    static const struct {
        const char *name;
        int (*life)(void);
    } lives[] = {{"kernel", kernel_life},         {"grown file", grown_life},
                 {"resident", resident_life},     {"user pager", user_life},
                 {"older kernel", fallback_life}, {"shared", shared_life},
                 {"memfd", memfd_life},           {"commit", commit_life},
                 {"dynamic", dynamic_life},       {"reader", read_life}};

    unsigned threads;

    test_begin();
    first_thread();
    threads = count_threads(); /* a sanitizer may have one */
    setvbuf(stdout, NULL, _IOLBF, 0);
    atomic_store(&storwin__sum_min, 1);
    path = test_path("file");
    reserve_under_signals();
    without_locks();
    without_reservation();
    without_removal();
    for (unsigned i = 0; i < sizeof(lives) / sizeof(lives[0]); i++) {
        unsigned fds, refused = 0;
        int n = 0;

        if (lives[i].life == user_life && test_pagers <= STORWIN_PAGER_USER)
            continue;
        atomic_store(&countdown, 0);
        CHECK(lives[i].life() == 0); /* once undisturbed; the C library takes what it keeps */
        fds = count_fds();
        CHECK(threads_settle(threads));
        do {
            atomic_store(&countdown, ++n);
            refused += lives[i].life() < 0;
            if (count_fds() != fds || !threads_settle(threads) || count_entries(test_dir) != 0) {
                fprintf(stderr, "%s: call %d left something behind\n", lives[i].name, n);
                CHECK(0);
            }
        } while (atomic_load(&countdown) <= 0 && n < 10000);
        printf("%s: %d calls, %u times refused\n", lives[i].name, n - 1, refused);
        CHECK(n > 3 && n < 10000 && refused > 0);
    }
    return 0;
}
