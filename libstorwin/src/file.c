/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file or device of a window: opens it without following another user's links, creates it whole
 * or not at all, with its space reserved.
 *
 * A new file has no name while it is being made (O_TMPFILE), if the file system supports that; it
 * gets its name once it has its size and space. An existing file grows under a lock on a byte far
 * behind any data, held until the window is mapped: so undoing a failed allocation cannot truncate
 * a range that another process has just mapped.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MAX_LINKS   8                  /* in a chain of links */
#define MAX_RACES   64                 /* changes of the name during an open */
#define SIZE_LOCK   (INT64_MAX - 16)   /* byte of the lock on the size */
#define MIN_PIECE   65536u             /* of one fallocate() */
#define AGAIN       1                  /* open_once(): the name has changed during the open */
#define WRITES      (INT64_C(1) << 62) /* offset of the locks of direct writes ... */
#define LOCK_UNIT   4096u              /* ... one byte for each unit of the file */
#define MAX_WAIT_MS 120000u            /* for the writes of another process */

atomic_uint storwin__without;

static int fail_path(struct storwin_error *err, int code, const char *what, const char *path)
{
    return storwin__fail(err, code, STORWIN__FILENAME, "%s \"%.100s\": %s", what, path,
                         storwin_strerror(code));
}

/* Splits a path into a directory, opened below dir_fd, and the name in it. */
static int open_dir(const struct storwin_allocator *a, int dir_fd, const char *path, int *fd,
                    char **name, struct storwin_error *err)
{
    const char *slash = strrchr(path, '/');
    const char *last = slash ? slash + 1 : path;
    char *dir = NULL;
    int rc = 0;

    *name = NULL;
    if (!*last || strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
        return storwin__fail(err, STORWIN_ETYPE, STORWIN__FILENAME, "\"%.100s\" is a directory",
                             path);
    if (slash)
        dir = storwin__strndup(a, path, slash == path ? 1 : (size_t)(slash - path));
    *name = storwin__strdup(a, last);
    if (!*name || (slash && !dir)) {
        rc = storwin__fail(err, -ENOMEM, STORWIN__FILENAME, "out of memory");
    } else {
        *fd = openat(dir_fd, dir ? dir : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (*fd < 0)
            rc = fail_path(err, -errno, "directory of", path);
    }
    storwin__free(a, dir);
    if (rc < 0) {
        storwin__free(a, *name);
        *name = NULL;
    }
    return rc;
}

/* Continues at the target of a link: another directory and name. */
static int follow_link(struct storwin__file *f, const char *path, const struct stat *st,
                       struct storwin_error *err)
{
    char target[PATH_MAX], *name;
    ssize_t len;
    int fd, rc;

    if (st->st_uid != geteuid() && st->st_uid != 0)
        return storwin__fail(err, STORWIN_EOWNER, STORWIN__FILENAME,
                             "\"%.100s\" is a link that belongs to user %ld", path,
                             (long)st->st_uid);
    len = readlinkat(f->dir_fd, f->name, target, sizeof(target) - 1);
    if (len < 0)
        return fail_path(err, -errno, "link", path);
    target[len] = '\0';
    rc = open_dir(f->allocator, f->dir_fd, target, &fd, &name, err);
    if (rc < 0)
        return rc;
    close(f->dir_fd);
    storwin__free(f->allocator, f->name);
    f->dir_fd = fd;
    f->name = name;
    return 0;
}

/* Refuses a file of another user in a directory that all users can write to. */
static int check_owner(const struct storwin__file *f, const char *path, const struct stat *st,
                       struct storwin_error *err)
{
    struct stat dir;

    if (fstat(f->dir_fd, &dir) < 0)
        return fail_path(err, -errno, "directory of", path);
    if ((dir.st_mode & S_ISVTX) && (dir.st_mode & (S_IWOTH | S_IWGRP)) && st->st_uid != geteuid() &&
        st->st_uid != 0 && st->st_uid != dir.st_uid)
        return storwin__fail(err, STORWIN_EOWNER, STORWIN__FILENAME,
                             "\"%.100s\" belongs to user %ld, in a directory for all", path,
                             (long)st->st_uid);
    return 0;
}

static int device_size(struct storwin__file *f, const char *path, struct storwin_error *err)
{
    uint64_t size = 0;

    if (ioctl(f->fd, BLKGETSIZE64, &size) < 0)
        return fail_path(err, -errno, "size of device", path);
    f->device = 1;
    f->size = size;
    return 0;
}

static int open_existing(struct storwin__file *f, const char *path, const struct stat *seen,
                         struct storwin_error *err)
{
    const int flags =
        (f->read_only ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    struct stat st;
    int rc = 0;

    if (!S_ISREG(seen->st_mode) && !S_ISBLK(seen->st_mode))
        return storwin__fail(err, STORWIN_ETYPE, STORWIN__FILENAME, "\"%.100s\" is %s", path,
                             S_ISDIR(seen->st_mode) ? "a directory"
                                                    : "neither a regular file nor a block device");
    if (S_ISREG(seen->st_mode))
        rc = check_owner(f, path, seen, err);
    if (rc < 0)
        return rc;
    f->fd = openat(f->dir_fd, f->name, flags);
    if (f->fd < 0)
        return errno == ENOENT || errno == ELOOP ? AGAIN : fail_path(err, -errno, "open", path);
    if (fstat(f->fd, &st) < 0)
        return fail_path(err, -errno, "inspect", path);
    if (st.st_dev != seen->st_dev || st.st_ino != seen->st_ino) {
        close(f->fd);
        f->fd = -1;
        return AGAIN;
    }
    if (S_ISBLK(st.st_mode))
        return device_size(f, path, err);
    return 0;
}

static int create_file(struct storwin__file *f, const struct storwin_opts *opts, const char *path,
                       struct storwin_error *err)
{
    const mode_t perm = opts->file_perm & 0777;
    int rc = 0;

    if (opts->striping_factor || opts->striping_unit)
        rc = storwin__stripe(f->dir_fd, f->name, opts, &f->striping);
    if (rc == -EEXIST)
        return AGAIN;
    if (rc >= 0 && f->striping == STORWIN_STRIPING_APPLIED) {
        f->fd = rc;
        f->created = 1;
        return 0;
    }
    if (!storwin__disabled(STORWIN__NO_TMPFILE) &&
        access("/proc/self/fd", F_OK) == 0) { /* needed later to give the file its name */
        f->fd = openat(f->dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, perm);
        f->nameless = f->fd >= 0;
    }
    if (f->fd < 0) {
        f->fd =
            openat(f->dir_fd, f->name, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, perm);
        if (f->fd < 0 && errno == EEXIST)
            return AGAIN;
        if (f->fd < 0)
            return fail_path(err, -errno, "create", path);
    }
    f->created = 1;
    return 0;
}

static int open_once(struct storwin__file *f, const struct storwin_opts *opts, const char *path,
                     int must_exist, struct storwin_error *err)
{
    struct stat st;

    for (int links = 0; links <= MAX_LINKS; links++) {
        int rc;

        if (fstatat(f->dir_fd, f->name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            if (errno != ENOENT || must_exist)
                return fail_path(err, -errno, "open", path);
            return create_file(f, opts, path, err);
        }
        if (!S_ISLNK(st.st_mode))
            return open_existing(f, path, &st, err);
        rc = follow_link(f, path, &st, err);
        if (rc < 0)
            return rc;
    }
    return storwin__fail(err, -ELOOP, STORWIN__FILENAME, "\"%.100s\": too many links", path);
}

static int no_room(struct storwin_error *err, int code, int fd, const char *path, uint64_t offset,
                   uint64_t bytes)
{
    struct statvfs fs;

    if (code == -ENOSPC && fstatvfs(fd, &fs) == 0)
        return storwin__fail(err, code, STORWIN__FILENAME,
                             "no room for %" PRIu64 " bytes at offset %" PRIu64
                             " of \"%.80s\": its file system has %" PRIu64 " free",
                             bytes, offset, path, (uint64_t)fs.f_bavail * fs.f_frsize);
    return storwin__fail(err, code, STORWIN__FILENAME,
                         "no room for %" PRIu64 " bytes at offset %" PRIu64 " of \"%.80s\": %s",
                         bytes, offset, path, storwin_strerror(code));
}

/* Fills the holes with zeros, on a file system that cannot reserve. */
static int fill_holes(const struct storwin_allocator *a, int fd, uint64_t offset, uint64_t end)
{
    const size_t chunk = (size_t)1 << 18;
    char *zeros = storwin__calloc(a, 1, chunk);
    int rc = 0;

    if (!zeros)
        return -ENOMEM;
    while (rc == 0 && offset < end) {
        off_t hole = lseek(fd, (off_t)offset, SEEK_HOLE), data;
        uint64_t stop = end;

        if (hole < 0 && errno == ENXIO) /* behind the end of the file */
            hole = (off_t)offset;
        else if (hole < 0)
            rc = -errno;
        if (rc < 0 || (uint64_t)hole >= end)
            break;
        data = lseek(fd, hole, SEEK_DATA);
        if (data > 0 && (uint64_t)data < end)
            stop = (uint64_t)data;
        for (offset = (uint64_t)hole; rc == 0 && offset < stop;) {
            ssize_t n =
                pwrite(fd, zeros, (size_t)storwin__min(chunk, stop - offset), (off_t)offset);

            if (n > 0)
                offset += (uint64_t)n;
            else if (n == 0 || errno != EINTR)
                rc = n == 0 ? -ENOSPC : -errno;
        }
    }
    storwin__free(a, zeros);
    return rc;
}

/* Reserves space; after a signal, in shorter pieces: on tmpfs a signal undoes the whole fallocate()
 * that it interrupts, and under frequent signals only short calls complete. */
static int reserve_space(const struct storwin_allocator *a, int fd, uint64_t offset, uint64_t bytes)
{
    uint64_t piece = bytes;

    while (bytes > 0 && !storwin__disabled(STORWIN__NO_FALLOCATE)) {
        const uint64_t n = storwin__min(piece, bytes);

        if (fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)n) == 0) {
            offset += n;
            bytes -= n;
        } else if (errno == EOPNOTSUPP || errno == ENOSYS) {
            break;
        } else if (errno != EINTR) {
            return -errno;
        } else if (piece > MIN_PIECE) {
            piece = storwin__round_up(piece / 2, MIN_PIECE);
        }
    }
    return bytes > 0 ? fill_holes(a, fd, offset, offset + bytes) : 0;
}

/* Checks that this process may have files of this length: above, the kernel would send SIGXFSZ. */
int storwin__limit_check(uint64_t bytes, const char *what, const char *hint,
                         struct storwin_error *err)
{
    struct rlimit limit;
    uint64_t most = INT64_MAX;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        most = storwin__min(most, limit.rlim_cur);
    return bytes <= most ? 0
                         : storwin__fail(err, -EFBIG, hint,
                                         "\"%.80s\" would have %" PRIu64
                                         " bytes; the process may write files of %" PRIu64,
                                         what, bytes, most);
}

/* Reserves space for a range, unless sparse, and makes a shorter file end with it. */
int storwin__file_extend(const struct storwin_allocator *a, int fd, uint64_t offset, uint64_t bytes,
                         int sparse)
{
    const uint64_t end = offset + bytes;
    struct stat st;
    int rc = sparse ? 0 : reserve_space(a, fd, offset, bytes);

    if (rc == 0 &&
        (fstat(fd, &st) < 0 || ((uint64_t)st.st_size < end && ftruncate(fd, (off_t)end) < 0)))
        rc = -errno;
    return rc;
}

/* Locks the size of the file, or unlocks it. */
int storwin__file_lock_size(int fd, int on)
{
    struct flock lock = {
        .l_type = on ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET, .l_start = SIZE_LOCK, .l_len = 1};
    int rc;

    do
        rc = fcntl(fd, F_OFD_SETLKW, &lock);
    while (rc < 0 && errno == EINTR);
    return rc < 0 && errno != ENOLCK && errno != EOPNOTSUPP && errno != EINVAL ? -errno : 0;
}

/*
 * Direct writes of io_uring outlive a killed process: the kernel reaps it without waiting for them.
 * But each write holds its descriptor until it has completed, and the descriptor holds its locks.
 * So a sync holds a read lock on its range while it writes; read locks do not conflict with each
 * other. A process that opens the range tests for them, and waits: a late write would overwrite
 * data that this process syncs.
 */
static struct flock writes_lock(short type, uint64_t offset, uint64_t bytes)
{
    const uint64_t first = offset / LOCK_UNIT;

    return (struct flock){.l_type = type,
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)(WRITES + (int64_t)first),
                          .l_len = (off_t)((offset + bytes - 1) / LOCK_UNIT - first + 1)};
}

/* Best effort: on a file system without locks no other process waits. */
void storwin__file_lock_writes(const struct storwin__file *f, uint64_t offset, uint64_t bytes,
                               int on)
{
    struct flock lock = writes_lock(on ? F_RDLCK : F_UNLCK, offset, bytes);

    if (f->direct_fd >= 0 && bytes > 0)
        (void)fcntl(f->direct_fd, F_OFD_SETLK, &lock);
}

static int wait_for_writes(int fd, const char *path, uint64_t offset, uint64_t bytes,
                           struct storwin_error *err)
{
    const uint64_t until = storwin__now_ms() + MAX_WAIT_MS;

    for (;;) {
        struct flock lock = writes_lock(F_WRLCK, offset, bytes);

        if (bytes == 0 || fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
            return 0;
        if (storwin__now_ms() >= until)
            return storwin__fail(
                err, STORWIN_EBUSY, STORWIN__FILENAME,
                "\"%.80s\": writes of another process to this range have been in flight for %u s",
                path, MAX_WAIT_MS / 1000);
        usleep(1000);
    }
}

/* Undoes what reserve_file() did to an existing file. The lock is held. */
static void shrink_file(struct storwin__file *f)
{
    struct stat st;

    if (!f->created && !f->device && f->grown && fstat(f->fd, &st) == 0 &&
        (uint64_t)st.st_size >= f->size) {
        if (ftruncate(f->fd, (off_t)f->size) < 0)
            return; /* the file keeps its reserved space; nothing can be done */
    }
    f->grown = 0;
}

static int reserve_file(struct storwin__file *f, const struct storwin_opts *opts, const char *path,
                        int must_exist, uint64_t bytes, struct storwin_error *err)
{
    const uint64_t offset = opts->offset_bytes, end = offset + bytes;
    struct stat st;
    int rc = 0;

    if (f->device) {
        if (end <= f->size)
            return 0;
        return storwin__fail(err, STORWIN_ESHORT,
                             offset >= f->size ? "storage_alloc_offset" : STORWIN__FILENAME,
                             "device \"%.80s\" has %" PRIu64 " bytes; the window ends at %" PRIu64,
                             path, f->size, end);
    }
    if (end > INT64_MAX)
        return storwin__fail(err, -EFBIG, "storage_alloc_offset",
                             "the window would end behind 2^63");
    if (!f->created)
        rc = storwin__file_lock_size(f->fd, 1);
    if (rc < 0)
        return fail_path(err, rc, "lock", path);
    if (fstat(f->fd, &st) < 0)
        return fail_path(err, -errno, "inspect", path);
    f->size = (uint64_t)st.st_size;
    if (bytes == 0)
        return 0;
    if (must_exist)
        return end <= f->size
                   ? 0
                   : storwin__fail(err, STORWIN_ESHORT, STORWIN__FILENAME,
                                   "\"%.80s\" has %" PRIu64 " bytes; the window ends at %" PRIu64,
                                   path, f->size, end);
    rc = storwin__limit_check(end, path, STORWIN__FILENAME, err);
    if (rc < 0)
        return rc;
    f->grown = 1;
    rc = storwin__file_extend(f->allocator, f->fd, offset, bytes,
                              (opts->flags & STORWIN_SPARSE) != 0);
    if (rc < 0) {
        shrink_file(f);
        return no_room(err, rc, f->fd, path, offset, bytes);
    }
    return 0;
}

/* Gives a nameless file its name. */
static int name_file(struct storwin__file *f, const char *path, struct storwin_error *err)
{
    char self[40];

    snprintf(self, sizeof(self), "/proc/self/fd/%d", f->fd);
    if (linkat(AT_FDCWD, self, f->dir_fd, f->name, AT_SYMLINK_FOLLOW) == 0) {
        f->nameless = 0;
        return 0;
    }
    if (errno == EEXIST)
        return AGAIN;
    return fail_path(err, -errno, "create", path);
}

static int try_open(struct storwin__file *f, const struct storwin_opts *opts, const char *path,
                    int must_exist, uint64_t bytes, struct storwin_error *err)
{
    struct stat st;
    int rc = open_dir(f->allocator, AT_FDCWD, path, &f->dir_fd, &f->name, err);

    if (rc == 0)
        rc = open_once(f, opts, path, must_exist, err);
    if (rc == 0 && !f->created)
        rc = wait_for_writes(f->fd, path, opts->offset_bytes, bytes, err);
    if (rc == 0 && !opts->atomic) {
        rc = storwin__commit_refuse(f, opts, path, bytes, err);
        if (rc == -EAGAIN)
            rc = AGAIN;
    }
    if (rc == 0)
        rc = reserve_file(f, opts, path, must_exist, bytes, err);
    if (rc == 0 && f->nameless)
        rc = name_file(f, path, err);
    if (rc != 0)
        return rc;
    if (fstat(f->fd, &st) < 0)
        return fail_path(err, -errno, "inspect", path);
    f->dev = st.st_dev;
    f->ino = st.st_ino;
    f->named = !f->created;
    if (!f->created && (opts->striping_factor || opts->striping_unit))
        f->striping = STORWIN_STRIPING_EXISTING;
    return 0;
}

static void file_clear(struct storwin__file *f, const struct storwin_allocator *a)
{
    memset(f, 0, sizeof(*f));
    f->fd = f->direct_fd = f->dir_fd = -1;
    f->allocator = a;
}

static int comes_and_goes(const char *path, struct storwin_error *err)
{
    return storwin__fail(err, -EAGAIN, STORWIN__FILENAME, "\"%.100s\" comes and goes", path);
}

/* Opens an existing path only for reading, by the same rules. Call storwin__file_close() also after
 * a failure. */
int storwin__file_open_to_read(struct storwin__file *f, const struct storwin_opts *opts,
                               const char *path, struct storwin_error *err)
{
    int rc = AGAIN;

    file_clear(f, opts->allocator);
    for (int tries = 0; rc == AGAIN && tries < MAX_RACES; tries++) {
        storwin__file_close(f);
        f->read_only = 1;
        rc = open_dir(f->allocator, AT_FDCWD, path, &f->dir_fd, &f->name, err);
        if (rc == 0)
            rc = open_once(f, opts, path, 1, err);
    }
    return rc == AGAIN ? comes_and_goes(path, err) : rc;
}

/*
 * Opens or creates path with room for `bytes` at opts->offset_bytes. With must_exist it neither
 * creates nor grows. On success it holds the lock on the size until storwin__file_unlock();
 * storwin__file_undo() releases the lock too.
 */
int storwin__file_open(struct storwin__file *f, const struct storwin_opts *opts, const char *path,
                       int must_exist, uint64_t bytes, struct storwin_error *err)
{
    int rc = AGAIN;

    for (int tries = 0; rc == AGAIN && tries < MAX_RACES; tries++) {
        file_clear(f, opts->allocator);
        rc = try_open(f, opts, path, must_exist, bytes, err);
        if (rc == 0)
            return 0;
        storwin__file_undo(f);
    }
    return rc == AGAIN ? comes_and_goes(path, err) : rc;
}

/* Returns whether the file's name still names it; or an error. */
int storwin__file_named(const struct storwin__file *f)
{
    struct stat own, st;

    if (fstat(f->fd, &own) < 0)
        return -errno;
    if (fstatat(f->dir_fd, f->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    return st.st_dev == own.st_dev && st.st_ino == own.st_ino;
}

/* Removes the name if it still names this file. */
int storwin__file_unlink(const struct storwin__file *f)
{
    const int named = f->device ? 0 : storwin__file_named(f);

    if (named <= 0)
        return named;
    return unlinkat(f->dir_fd, f->name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* Makes the name of a file durable, once. If the directory cannot be read, it syncs the file
 * instead. A file system that can sync neither (EINVAL) is accepted. */
int storwin__file_sync_name(struct storwin__file *f)
{
    int dir, rc;

    if (f->device)
        f->named = 1;
    if (f->named)
        return 0;
    dir = openat(f->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rc = fsync(dir >= 0 ? dir : f->fd) < 0 && errno != EINVAL ? -errno : 0;
    if (dir >= 0)
        close(dir);
    f->named = rc == 0;
    return rc;
}

/* Undoes everything after a failed allocation, unless another window has opened the file: from its
 * name on, others can, and one of them may have committed. */
void storwin__file_undo(struct storwin__file *f)
{
    if (f->direct_fd >= 0) { /* it may have the lock that f->fd needs */
        close(f->direct_fd);
        f->direct_fd = -1;
    }
    if (f->fd >= 0 && (f->created || f->grown) && storwin__file_in_use(f)) {
        storwin__file_close(f);
        return;
    }
    if (f->fd >= 0 && f->created && !f->nameless)
        (void)storwin__file_unlink(f);
    else if (f->fd >= 0)
        shrink_file(f);
    storwin__file_close(f);
}

void storwin__file_unlock(struct storwin__file *f)
{
    if (f->fd >= 0 && !f->created && !f->device)
        (void)storwin__file_lock_size(f->fd, 0);
}

/* Opens a second descriptor for direct I/O; if that fails the first one is used. */
void storwin__file_open_direct(struct storwin__file *f)
{
    struct stat st;

    if (storwin__disabled(STORWIN__NO_DIRECT))
        return;
    f->direct_fd =
        openat(f->dir_fd, f->name, O_RDWR | O_DIRECT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (f->direct_fd >= 0 &&
        (fstat(f->direct_fd, &st) < 0 || st.st_dev != f->dev || st.st_ino != f->ino)) {
        close(f->direct_fd);
        f->direct_fd = -1;
    }
}

void storwin__file_close(struct storwin__file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->direct_fd >= 0)
        close(f->direct_fd);
    if (f->dir_fd >= 0)
        close(f->dir_fd);
    storwin__free(f->allocator, f->name);
    f->name = NULL;
    f->fd = f->direct_fd = f->dir_fd = -1;
}
