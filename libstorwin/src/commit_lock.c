/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock on a file: a window with commits has it alone, other windows share it. On a device it is
 * on the range in use, in a file on one byte far behind any data. Writes of a killed process may
 * still be in flight: they hold their descriptor, and so this lock. Hence the wait.
 */
#include "commit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_BYTE (INT64_MAX - 8)

atomic_uint storwin__lock_ms = 10000; /* longest wait for a lock */

/* Returns whether a descriptor of this process has a lock that begins at `start`. */
static int descriptor_locks(int fd, int64_t start)
{
    char path[40], line[256];
    int64_t at;
    int found = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof(line), file))
        found = sscanf(line, "lock: %*d: OFDLCK %*s %*s %*d %*s %" SCNd64, &at) == 1 && at == start;
    if (file)
        fclose(file);
    return found;
}

/* Returns whether another window of this process holds the lock: to wait for it is useless. */
static int locked_here(const struct storwin__file *f, int64_t start)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    struct stat own, st;
    int found = 0;

    if (!dir)
        return 0;
    if (fstat(f->fd, &own) == 0)
        while (!found && (entry = readdir(dir))) {
            const int fd = (int)strtol(entry->d_name, NULL, 10);

            if (entry->d_name[0] != '.' && fd != f->fd && fd != f->direct_fd &&
                fstat(fd, &st) == 0 && st.st_dev == own.st_dev && st.st_ino == own.st_ino)
                found = descriptor_locks(fd, start);
        }
    closedir(dir);
    return found;
}

/* Takes the lock, of F_WRLCK or F_RDLCK, on `bytes` of a device from `offset`, or on a file.
 * -EAGAIN: the file lost its name meanwhile. The window that created it held the lock, and failed.
 */
static int take_lock(const struct storwin__file *f, short type, uint64_t offset, uint64_t bytes,
                     const char *path, struct storwin_error *err)
{
    struct flock what = {.l_type = type, .l_whence = SEEK_SET, .l_start = LOCK_BYTE, .l_len = 1};
    const uint64_t end = storwin__now_ms() + atomic_load(&storwin__lock_ms);
    const struct timespec pause = {0, 1000000};

    if (f->device) {
        what.l_start = (off_t)offset;
        what.l_len = (off_t)bytes;
    }
    for (int first = 1;; first = 0) {
        if (fcntl(f->direct_fd >= 0 ? f->direct_fd : f->fd, F_OFD_SETLK, &what) == 0)
            return f->device || f->nameless || storwin__file_named(f) != 0
                       ? 0
                       : storwin__fail(err, -EAGAIN, STORWIN__FILENAME, "\"%.100s\" comes and goes",
                                       path);
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return storwin__fail(err, -errno, STORWIN__FILENAME, "lock \"%.80s\": %s", path,
                                 storwin_strerror(-errno));
        if (first && locked_here(f, what.l_start))
            return storwin__fail(err, STORWIN_EBUSY, STORWIN__FILENAME,
                                 "\"%.80s\" is open in this process already", path);
        if (storwin__now_ms() >= end)
            return storwin__fail(err, STORWIN_EBUSY, STORWIN__FILENAME,
                                 "\"%.80s\" is open elsewhere, or a child of fork() has it open",
                                 path);
        nanosleep(&pause, NULL);
    }
}

/* Returns whether another window has the lock on a file. If none has, f->fd takes it, alone. */
int storwin__file_in_use(const struct storwin__file *f)
{
    struct flock what = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_BYTE, .l_len = 1};

    return !f->device && fcntl(f->fd, F_OFD_SETLK, &what) < 0 &&
           (errno == EAGAIN || errno == EACCES);
}

int storwin__commit_lock(const struct storwin_window *win, uint64_t space,
                         struct storwin_error *err)
{
    return take_lock(&win->files[0], F_WRLCK, win->opts.offset_bytes, space, win->path, err);
}

/* Refuses a window without commits on a file that is open with commits or, unless the options say
 * that this is meant, that holds commits. Nothing was changed. */
int storwin__commit_refuse(const struct storwin__file *f, const struct storwin_opts *opts,
                           const char *path, uint64_t bytes, struct storwin_error *err)
{
    int rc = bytes > 0 ? take_lock(f, F_RDLCK, opts->offset_bytes, bytes, path, err) : 0;

    if (rc < 0) /* a file system without locks has none of ours */
        return rc == -ENOLCK || rc == -EOPNOTSUPP || rc == -EINVAL || rc == -EOVERFLOW ? 0 : rc;
    if (f->created || (opts->flags & STORWIN_RAW))
        return 0;
    rc = storwin__records_present(f->fd, 0);
    if (rc == 0 && opts->offset_bytes > 0)
        rc = storwin__records_present(f->fd, opts->offset_bytes);
    if (rc < 0)
        return storwin__fail(err, rc, STORWIN__FILENAME, "read \"%.80s\": %s", path,
                             storwin_strerror(rc));
    return rc == 0 ? 0
                   : storwin__fail(err, STORWIN_EFORMAT, "storage_alloc_atomic",
                                   "\"%.80s\" holds commits: set storage_alloc_atomic to open "
                                   "them, or storage_alloc_raw to overwrite them",
                                   path);
}
