/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of shared memory, for --pmi-port, where no descriptor can be handed over. A name is
 * unlinked as soon as every rank has opened it. When pmirun is killed with SIGKILL before, its
 * guard removes it (guard.c). When both are killed, the name stays, and the memory with it. So the
 * next pmirun with --pmi-port looks for such names and removes those whose writer is gone:
 * libshmht's writer holds a lock on its object that ends with it, and no client can take the lock,
 * since clients cannot open the object for writing.
 *
 * An object that was made or has grown within FRESH_S stays: between open() and the lock it looks
 * abandoned.
 */
#define _GNU_SOURCE
#include "shmname.h"

#include "guard.h"
#include "util.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FOLDER  "/dev/shm"
#define PREFIX  "shmht-pmirun-"
#define FRESH_S 10

void shm_name(const struct guard *g, char name[SHM_NAME_BYTES])
{
    snprintf(name, SHM_NAME_BYTES, FOLDER "/" PREFIX "%s%08x%08x", g->key, random_u32(),
             random_u32());
}

void shm_remove(const char *key)
{
    const size_t prefix = strlen(PREFIX);
    DIR *d = opendir(FOLDER);
    const struct dirent *e;

    while (d && (e = readdir(d)))
        if (strncmp(e->d_name, PREFIX, prefix) == 0 &&
            strncmp(e->d_name + prefix, key, strlen(key)) == 0)
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

/* A regular file of ours, without a writer, and not new. */
static bool is_left_behind(int folder, const char *name)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    bool yes;

    if (fd < 0)
        return false;
    yes = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
          st.st_mtime + FRESH_S < time(NULL) && fcntl(fd, F_OFD_GETLK, &lock) == 0 &&
          lock.l_type == F_UNLCK;
    close(fd);
    return yes;
}

void shm_sweep(void)
{
    DIR *d = opendir(FOLDER);
    const struct dirent *e;

    while (d && (e = readdir(d))) {
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0 || !is_left_behind(dirfd(d), e->d_name))
            continue;
        if (unlinkat(dirfd(d), e->d_name, 0) == 0)
            trace("%s/%s was left behind by a pmirun that was killed: removed", FOLDER, e->d_name);
    }
    if (d)
        closedir(d);
}
