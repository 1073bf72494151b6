/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of libstorwin: a directory of their own, counts of a process's resources, and
 * reference contents. */
#ifndef STORWIN_TEST_H
#define STORWIN_TEST_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <storwin.h>

static char test_dir[64];
static pid_t test_owner;
/* that can be had: all but the last, the user-level one, where userfaultfd is refused */
static uint32_t test_pagers;

static inline int test_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static inline void test_clean(void)
{
    if (getpid() == test_owner)
        (void)nftw(test_dir, test_remove, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Also in threads, and in children, which leave the directory alone. */
#define CHECK_END() (test_clean(), _exit(1))
#include "../check.h"

/* "DIR/name"; valid until this thread's eighth call after. */
static inline const char *test_path(const char *name)
{
    static _Thread_local char paths[8][128];
    static _Thread_local unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof(paths[0]), "%s/%s", test_dir, name);
    return path;
}

static inline unsigned count_entries(const char *dir)
{
    DIR *d = opendir(dir);
    unsigned n = 0;

    CHECK(d != NULL);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static inline unsigned count_fds(void)
{
    return count_entries("/proc/self/fd");
}

static inline unsigned count_threads(void)
{
    return count_entries("/proc/self/task");
}

/* From now on this process's mounts are its own, and end with it. Needs root. */
static inline int private_mounts(void)
{
    return geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
                   mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0
               ? 0
               : -1;
}

/* No more threads than before: the kernel's io_uring workers for this process take a moment to end,
 * and some may have existed before. */
static inline int threads_settle(unsigned expected)
{
    for (int i = 0; i < 4000 && count_threads() > expected; i++)
        usleep(5000);
    return count_threads() <= expected;
}

/* Mapped bytes of this process, in KiB. */
static inline unsigned long mapped_kib(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    unsigned long kib = 0;

    CHECK(f != NULL);
    while (fgets(line, sizeof(line), f))
        (void)sscanf(line, "VmSize: %lu kB", &kib);
    fclose(f);
    return kib;
}

static inline unsigned count_maps(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    unsigned n = 0;
    int c;

    CHECK(f != NULL);
    while ((c = getc(f)) != EOF)
        n += c == '\n';
    fclose(f);
    return n;
}

static inline uint64_t test_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* Makes n_bytes, whole blocks of 4,096, the state of a generation. Each differs from the one before
 * in its first block and a quarter of the others, in every sector of these; unchanged blocks are
 * not stored into. */
static inline void test_state(uint64_t generation, uint8_t *data, uint32_t n_bytes)
{
    for (uint32_t block = 0; block < n_bytes / 4096; block++) {
        const uint64_t since = block == 0 ? 0 : (generation - block) % 4;
        const uint64_t g = generation > since ? generation - since : 0; /* that changed it */
        uint64_t rng = (g * UINT64_C(0x9e3779b97f4a7c15) + block) | 1;

        for (uint64_t i = 0; i < 512; i++, data += 8) {
            const uint64_t word = i % 64 == g % 64 ? test_random(&rng) : g / 64 * 64 + i;

            if (memcmp(data, &word, 8) != 0)
                memcpy(data, &word, 8);
        }
    }
}

static inline struct storwin_opts storage_opts(const char *path)
{
    struct storwin_opts opts;

    storwin_opts_init(&opts);
    opts.alloc_type = STORWIN_STORAGE;
    opts.filename = path;
    return opts;
}

/* Makes a directory below the working directory, which is that of the build; the process's end
 * removes it. Also prints what cannot be tested here. */
static inline void test_begin(void)
{
    struct storwin_opts opts;
    struct storwin_window *win;
    struct storwin_error err;
    int rc;

    strcpy(test_dir, "storwin-XXXXXX");
    CHECK(mkdtemp(test_dir) != NULL);
    test_owner = getpid();
    atexit(test_clean);
    opts = storage_opts(test_path("pager"));
    opts.pager = STORWIN_PAGER_USER;
    opts.flags = STORWIN_UNLINK;
    rc = storwin_alloc(&opts, 1, &win, &err);
    CHECK(rc == STORWIN_EPAGER || (rc == 0 && storwin_free(win, &err) == 0));
    test_pagers = rc == 0 ? STORWIN_PAGER_USER + 1 : STORWIN_PAGER_USER;
    if (rc < 0)
        printf("left out: the user-level pager: %s\n", err.text);
}

/* Opens a window of the newest commit in a file, whose end does not commit. NULL, with the error on
 * stderr. */
static inline struct storwin_window *test_commit_open(const char *path, uint32_t atomic,
                                                      uint32_t flags, uint64_t bytes)
{
    struct storwin_opts opts = storage_opts(path);
    struct storwin_window *win;
    struct storwin_error err;
    int rc = -ENOMEM;

    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = atomic;
    opts.flags = STORWIN_DISCARD | flags;
    opts.app_version = 1;
    for (int tries = 0; rc == -ENOMEM && tries < 60; tries++) {
        if (tries > 0) /* others may have taken all memory for a moment */
            sleep(1);
        rc = storwin_alloc(&opts, bytes, &win, &err);
    }
    if (rc == 0)
        return win;
    fprintf(stderr, "%s: %s\n", path, err.text);
    return NULL;
}

static inline uint64_t window_generation(const struct storwin_window *win)
{
    struct storwin_info info = {.size = sizeof(info)};

    CHECK(storwin_query(win, &info) == 0);
    return info.generation;
}

static inline uint64_t window_bytes(const struct storwin_window *win)
{
    struct storwin_info info = {.size = sizeof(info)};

    CHECK(storwin_query(win, &info) == 0);
    return info.bytes;
}

static inline struct storwin_stats window_stats(const struct storwin_window *win)
{
    struct storwin_stats stats = {.size = sizeof(stats)};

    CHECK(storwin_window_stats(win, &stats) == 0);
    return stats;
}

static inline uint64_t file_size(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (uint64_t)st.st_size : UINT64_MAX;
}

/* The bytes of a file as a reader with its own descriptor sees them. */
static inline void read_file(const char *path, uint64_t offset, void *to, size_t bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    CHECK(fd >= 0);
    CHECK(pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes);
    close(fd);
}

static inline void write_file(const char *path, uint64_t offset, const void *from, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    CHECK(pwrite(fd, from, bytes, (off_t)offset) == (ssize_t)bytes);
    close(fd);
}

#endif
