/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory object: creation, address space up to its cap, growth in preallocated steps, seals.
 *
 * A memfd is mapped for writing and sealed afterwards. From then on F_SEAL_FUTURE_WRITE refuses
 * every new writable mapping, write() and hole punching, from any process; F_SEAL_SHRINK refuses
 * truncation. The existing mapping stays writable, and grows with the file. fallocate() takes
 * memory step by step, so that a lack of memory is an error here, and never SIGBUS at a store.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define MIN_STEP_BYTES 65536u
#define MAX_STEP_BYTES (UINT64_C(64) << 20)
/* of one fallocate(): a signal undoes the whole call */
#define PIECE_BYTES (UINT64_C(8) << 20)
/* growth between two checks of free memory */
#define CHECK_BYTES            (UINT64_C(1) << 20)
#define DEFAULT_MIN_FREE_BYTES (UINT64_C(16) << 20)

int shmht__random(void *buf, size_t len)
{
    ssize_t n;

    do
        n = getrandom(buf, len, 0);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)len ? 0 : n < 0 ? -errno : -EIO;
}

int shmht__name_ok(const char *name)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/";
    size_t len = strnlen(name, SHMHT_MAX_NAME_BYTES);

    return name[0] == '/' && len < SHMHT_MAX_NAME_BYTES && strspn(name, allowed) == len;
}

/* Maps `bytes` bytes of the object, more than its present size if need be, at an address aligned
 * for 2 MB pages. */
int shmht__map(int fd, uint64_t bytes, int prot, unsigned char **base, uint64_t *map_bytes)
{
    uint64_t map = align_up(bytes, PAGE_BYTES), slack = map >= HUGE_BYTES ? HUGE_BYTES : 0, start;
    unsigned char *hold, *p;

    if (map + slack > SIZE_MAX)
        return -ENOMEM;
    hold = mmap(NULL, (size_t)(map + slack), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
    if (hold == MAP_FAILED)
        return -errno;
    start = slack ? align_up((uintptr_t)hold, HUGE_BYTES) - (uintptr_t)hold : 0;
    p = mmap(hold + start, (size_t)map, prot, MAP_SHARED | MAP_FIXED, fd, 0);
    if (p == MAP_FAILED) {
        int rc = -errno;

        munmap(hold, (size_t)(map + slack));
        return rc;
    }
    if (start > 0)
        munmap(hold, (size_t)start);
    if (slack > start)
        munmap(p + map, (size_t)(slack - start));
    *base = p;
    *map_bytes = map;
    return 0;
}

/* Requests 2 MB pages between from and to, whole pages only. Returns 0, or -1 with the reason in
 * *huge_errno. */
int shmht__collapse(const unsigned char *base, uint64_t from, uint64_t to, uint64_t *huge_bytes,
                    int32_t *huge_errno)
{
    from = align_up(from, HUGE_BYTES);
    for (to -= to % HUGE_BYTES; from < to; from += HUGE_BYTES) {
        if (madvise((void *)(uintptr_t)(base + from), HUGE_BYTES, MADV_COLLAPSE) != 0) {
            *huge_errno = errno;
            return -1;
        }
        *huge_bytes += HUGE_BYTES;
    }
    return 0;
}

/* Makes the object exactly `to` bytes large, all backed by memory. On failure the object has its
 * old size, or a few pieces more. */
static int extend_file(struct shmht__object *o, uint64_t to)
{
    struct rlimit file_size;
    uint64_t piece = PIECE_BYTES;

    if (getrlimit(RLIMIT_FSIZE, &file_size) == 0 && file_size.rlim_cur != RLIM_INFINITY &&
        to > file_size.rlim_cur)
        return -EFBIG; /* the kernel would send SIGXFSZ */
    if (to - o->checked_bytes >= CHECK_BYTES) {
        uint64_t available = shmht__available_bytes();

        if (available < o->min_free_bytes || available - o->min_free_bytes < to - o->bytes)
            return -ENOMEM;
        o->checked_bytes = to;
    }
    while (o->bytes < to) {
        uint64_t n = to - o->bytes < piece ? to - o->bytes : piece;

        if (fallocate(o->fd, 0, (off_t)o->bytes, (off_t)n) == 0)
            o->bytes += n;
        else if (errno != EINTR)
            return -errno;
        else if (piece > PAGE_BYTES)
            piece /= 2;
    }
    return 0;
}

/*
 * Makes the object at least `need` bytes large; unless `exact`, rounds the growth up to a step if
 * that fits. Changes the object's size, nothing in the header. Returns 0, SHMHT_EFULL at the cap,
 * -ENOSPC, -ENOMEM, -EFBIG.
 */
int shmht__object_grow(struct shmht__object *o, uint64_t need, int exact)
{
    uint64_t step = o->bytes / 64, unit = o->flags & SHMHT_HUGE ? HUGE_BYTES : PAGE_BYTES,
             from = o->bytes, to;
    int rc;

    if (need <= o->bytes)
        return 0;
    if (need > o->max_bytes)
        return SHMHT_EFULL;
    if (o->fd < 0)
        return SHMHT_EFIXED;
    step = step < MIN_STEP_BYTES ? MIN_STEP_BYTES : step > MAX_STEP_BYTES ? MAX_STEP_BYTES : step;
    to = align_up(!exact && o->bytes + step > need ? o->bytes + step : need, unit);
    if (to > o->max_bytes)
        to = o->max_bytes;
    rc = extend_file(o, to);
    /* The step does not fit; `need` alone may. */
    if (rc < 0 && align_up(need, PAGE_BYTES) < to)
        rc = extend_file(o, align_up(need, PAGE_BYTES));
    if (rc < 0)
        return o->bytes >= need ? 0 : rc;
    if (o->flags & SHMHT_HUGE && shmht__collapse(o->base, from - from % HUGE_BYTES, o->bytes,
                                                 &o->huge_bytes, &o->huge_errno) != 0)
        o->notes |= SHMHT_NOTE_NO_HUGE;
    return 0;
}

static int create_memfd(void)
{
    int fd = memfd_create("shmht", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

    if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
        fd = memfd_create("shmht", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    if (fchmod(fd, 0400) != 0) {
        int rc = -errno;

        close(fd);
        return rc;
    }
    return fd;
}

/* Locks the open file description, so that others see whether a named object's writer is alive: the
 * kernel releases the lock when the last process that holds the description closes it or dies. */
static int lock_writer(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return 0;
    return errno == EAGAIN || errno == EACCES ? SHMHT_EBUSY : -errno;
}

static int create_named(struct shmht__object *o, const char *name)
{
    uint64_t bits[2];
    int fd;

    if (name) {
        if (!shmht__name_ok(name))
            return SHMHT_ENAME;
        snprintf(o->name, sizeof(o->name), "%s", name);
    } else {
        int rc = shmht__random(bits, sizeof(bits));

        if (rc < 0)
            return rc;
        snprintf(o->name, sizeof(o->name), "/dev/shm/shmht-%016llx%016llx",
                 (unsigned long long)bits[0], (unsigned long long)bits[1]);
    }
    fd = open(o->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0400);
    return fd < 0 ? -errno : fd;
}

/* Maps the object, for this process alone: children get a read-only descriptor instead. */
static int map_object(struct shmht__object *o)
{
    int rc = shmht__map(o->fd, o->max_bytes, PROT_READ | PROT_WRITE, &o->base, &o->map_bytes);

    if (rc == 0)
        madvise(o->base, o->map_bytes, MADV_DONTFORK);
    return rc;
}

_Atomic uint32_t shmht__n_forks;

static void fork_count(void)
{
    atomic_fetch_add_explicit(&shmht__n_forks, 1, memory_order_relaxed);
}

static void fork_watch(void)
{
    (void)pthread_atfork(NULL, NULL, fork_count);
}

int shmht__object_create(struct shmht__object *o, const char *name, uint32_t flags,
                         uint64_t max_bytes, uint64_t min_free_bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int rc;

    memset(o, 0, sizeof(*o));
    o->fd = o->ro_fd = -1;
    pthread_once(&once, fork_watch);
    o->owner = getpid();
    o->n_forks = atomic_load_explicit(&shmht__n_forks, memory_order_relaxed);
    o->flags = flags;
    o->max_bytes = max_bytes & ~(uint64_t)(PAGE_BYTES - 1);
    o->min_free_bytes = min_free_bytes ? min_free_bytes : DEFAULT_MIN_FREE_BYTES;
    rc = flags & SHMHT_NAMED ? create_named(o, name) : create_memfd();
    if (rc < 0) {
        o->name[0] = '\0';
        return rc;
    }
    o->fd = rc;
    rc = lock_writer(o->fd);
    if (rc == 0)
        rc = map_object(o);
    if (rc < 0)
        shmht__object_close(o, 1);
    return rc;
}

/* Opens the same file again, for reading alone. */
static int reopen_fd(int fd)
{
    char path[64];
    int other;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    other = open(path, O_RDONLY | O_CLOEXEC);
    if (other >= 0)
        return other;
    return errno == ENOENT ? SHMHT_EPROC : -errno;
}

int shmht__object_publish(struct shmht__object *o, int fixed_size)
{
    int seals = F_SEAL_SHRINK | F_SEAL_SEAL | (fixed_size ? F_SEAL_GROW : 0);
    int rc = reopen_fd(o->fd);

    if (rc < 0)
        return rc;
    o->ro_fd = rc;
    if (o->flags & SHMHT_NAMED)
        return 0;
    if (fcntl(o->fd, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE) == 0)
        return 0;
    if (errno != EINVAL || fcntl(o->fd, F_ADD_SEALS, seals) != 0)
        return -errno;
    o->notes |= SHMHT_NOTE_NO_SEALS;
    return 0;
}

void shmht__object_close(struct shmht__object *o, int unlink_name)
{
    /* A forked child has copies of the descriptors, no mapping, and leaves the name to its parent.
     */
    int mine = o->owner == getpid();

    if (o->fd < 0)
        return;
    if (mine && unlink_name && o->name[0])
        unlink(o->name);
    if (mine && o->base)
        munmap(o->base, (size_t)o->map_bytes);
    if (o->ro_fd >= 0)
        close(o->ro_fd);
    close(o->fd);
    o->fd = o->ro_fd = -1;
    o->base = NULL;
}
