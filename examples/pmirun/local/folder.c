/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Temporary folders of a job. They hold what would be left behind when it is killed: shared memory
 * of Open MPI, files of a PMIx server, and with --pmi-port memory of our own, which has a name
 * until every rank has opened it. A pmirun removes its folders when it ends. After SIGKILL its
 * guard does (guard.c). If both are killed, the next pmirun of the same user on this host that
 * makes a folder in the same place does.
 *
 * A lock tells whether a folder's owner lives: the owner holds flock() on the folder, and the
 * kernel releases it when the owner dies. Between mkdir() and flock() a new folder looks abandoned,
 * so an owner that has the lock checks that the folder still exists. The name has a hash of the
 * host's name: a pmirun never removes a folder of another host, whose lock a network file system
 * may hide.
 *
 * Removal follows no symbolic link, opens no folder of another user, stays on the folder's file
 * system, and ends after MAX_ENTRIES.
 */
#define _GNU_SOURCE
#include "folder.h"

#include "guard.h"
#include "util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX     "pmirun-"
#define NAME_BYTES 64
#define KEY_DIGITS (sizeof(((struct guard *)0)->key) - 1)
/* tries to make a folder: another pmirun may take it for abandoned and remove it */
#define MAX_TRIES 100u
/* of a removal, each counted as often as it is seen: bounds the removal of a folder that grows */
#define MAX_ENTRIES 1000000u

const char *folder_where(enum folder_place place)
{
    const char *tmp = getenv("TMPDIR");

    if (place == FOLDER_SHM)
        return "/dev/shm";
    return tmp && tmp[0] == '/' ? tmp : "/tmp"; /* the guard's working directory is not ours */
}

/* Without a key: the prefix of the names of this host's folders. */
static void folder_name(const char *key, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, PREFIX "%08x-%s", hash_text(own_host()), key);
}

/* ---- removal: at exit and in the guard, where nothing may call die() ---- */

/* Opens this user's folder in `parent`; -1 with errno: no folder, another user's, or on another
 * file system. The checks are made on the open descriptor: another user may replace the name by a
 * link at any time. */
static int open_folder(int parent, const char *name, const dev_t *dev)
{
    const int flags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int at = openat(parent, name, O_PATH | flags), fd = -1, err;
    char path[32];
    struct stat st;

    if (at < 0)
        return -1;
    if (fstat(at, &st) != 0) {
        err = errno;
    } else if (st.st_uid != geteuid() || (dev && st.st_dev != *dev)) {
        err = EPERM;
    } else {
        fd = openat(at, ".", O_RDONLY | flags);
        if (fd < 0 && errno == EACCES) { /* it may have taken its owner's rights away */
            snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
            if (chmod(path, 0700) == 0)
                fd = openat(at, ".", O_RDONLY | flags);
        }
        err = errno;
    }
    close(at);
    errno = err;
    return fd;
}

/* The next entry; NULL: no more, or *left is 0. */
static const char *next_entry(DIR *d, unsigned *left)
{
    const struct dirent *e;

    while (d && *left > 0 && (e = readdir(d))) {
        --*left;
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            return e->d_name;
    }
    return NULL;
}

static bool remove_entry(int folder, const char *name)
{
    return unlinkat(folder, name, 0) == 0 || unlinkat(folder, name, AT_REMOVEDIR) == 0;
}

/* Empties a folder, which stays open. True when an entry was removed or moved. up -1: empties the
 * folders in it too; else those that are not empty move up there, so that depth takes neither stack
 * nor descriptors. */
static bool empty_folder(int folder, int up, dev_t dev, unsigned *left)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), sub;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    bool progress = false;
    const char *entry;
    char name[32];

    while ((entry = next_entry(d, left))) {
        snprintf(name, sizeof(name), "%llx", (unsigned long long)clock_ns()); /* a new one */
        if (remove_entry(folder, entry) || (up >= 0 && renameat(folder, entry, up, name) == 0)) {
            progress = true;
        } else if (up < 0 && (sub = open_folder(folder, entry, &dev)) >= 0) {
            fchmod(sub, 0700);
            progress = empty_folder(sub, folder, dev, left) || progress;
            progress = unlinkat(folder, entry, AT_REMOVEDIR) == 0 || progress;
            close(sub);
        }
    }
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    return progress;
}

/* Removes `name`, which is open as `folder`, from `parent`. True when it is gone. */
static bool remove_folder(int parent, const char *name, int folder)
{
    unsigned left = MAX_ENTRIES;
    struct stat st;

    if (fstat(folder, &st) != 0)
        return false;
    fchmod(folder, 0700);
    while (unlinkat(parent, name, AT_REMOVEDIR) != 0)
        if ((errno != ENOTEMPTY && errno != EEXIST) || !empty_folder(folder, -1, st.st_dev, &left))
            return false;
    return true;
}

bool folder_remove(const char *key)
{
    char name[NAME_BYTES];
    bool gone = true;

    folder_name(key, name);
    for (int place = 0; place < FOLDER_PLACES; place++) {
        int parent =
                open(folder_where((enum folder_place)place), O_RDONLY | O_DIRECTORY | O_CLOEXEC),
            folder = parent < 0 ? -1 : open_folder(parent, name, NULL);

        if (folder >= 0) {
            gone = remove_folder(parent, name, folder) && gone;
            close(folder);
        } else {
            gone = gone && errno == ENOENT;
        }
        if (parent >= 0)
            close(parent);
    }
    return gone;
}

bool folder_remove_all(struct folders *f)
{
    bool any = false;

    for (int i = 0; i < FOLDER_PLACES; i++) {
        any = any || f->path[i];
        free(f->path[i]);
        f->path[i] = NULL;
    }
    return !any || folder_remove(f->key);
}

/* ---- what others have left behind ---- */

/* Does `name` in the folder `dir` still name what is open as fd? */
static bool is_same(int dir, const char *name, int fd)
{
    struct stat a, b;

    return fstatat(dir, name, &a, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Removes the folders whose owners are dead. */
static void sweep_place(const char *place)
{
    DIR *d = opendir(place);
    const struct dirent *e;
    char prefix[NAME_BYTES];
    size_t prefix_len;

    folder_name("", prefix);
    prefix_len = strlen(prefix);
    while (d && (e = readdir(d))) {
        int folder;

        if (strlen(e->d_name) != prefix_len + KEY_DIGITS ||
            strncmp(e->d_name, prefix, prefix_len) != 0)
            continue;
        folder = open_folder(dirfd(d), e->d_name, NULL);
        if (folder < 0)
            continue;
        /* Between open and lock another pmirun may have removed it, and its owner made it again. */
        if (flock(folder, LOCK_EX | LOCK_NB) == 0 && is_same(dirfd(d), e->d_name, folder) &&
            remove_folder(dirfd(d), e->d_name, folder))
            log_verbose("%s/%s was left behind by a pmirun that was killed: removed", place,
                        e->d_name);
        close(folder);
    }
    if (d)
        closedir(d);
}

/* ---- our own ---- */

/* Makes a folder and locks it: an open descriptor, or -1 with errno. If the file system
 * has no locks, only this pmirun and its guard remove the folder. */
static int make_folder(const char *path)
{
    int fd;

    for (unsigned i = 0; i < MAX_TRIES; i++) {
        if (mkdir(path, 0700) != 0)
            return -1;
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno != ENOENT) {
            int err = errno;

            rmdir(path);
            errno = err;
            return -1;
        }
        if (fd >= 0) {
            flock(fd, LOCK_EX);
            if (is_same(AT_FDCWD, path, fd))
                return fd;
            close(fd);
        }
    }
    errno = EBUSY;
    return -1;
}

const char *folder_get(struct folders *f, enum folder_place place)
{
    const char *where = folder_where(place);
    char name[NAME_BYTES], *path;

    if (f->path[place])
        return f->path[place];
    sweep_place(where);
    folder_name(f->key, name);
    path = xprintf("%s/%s", where, name);
    f->lock[place] = make_folder(path);
    if (f->lock[place] < 0) {
        int err = errno;

        free(path);
        errno = err;
        return NULL;
    }
    f->path[place] = path;
    return path;
}
