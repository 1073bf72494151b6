/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by libstorwin's benchmarks. Their files are in the working directory and are unlinked once
 * open. */
#ifndef STORWIN_BENCH_H
#define STORWIN_BENCH_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <storwin.h>

#include "bench.h"

static inline void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static inline double wall_ms(void)
{
    return (double)bench_ns(CLOCK_MONOTONIC) / 1e6;
}

/* Opens a window on a new file and unlinks it at once, so that no end of the process leaves a
 * file. */
static inline struct storwin_window *bench_window(const char *hints_text, uint64_t bytes)
{
    struct storwin_hint hints[16];
    struct storwin_error err;
    struct storwin_opts opts;
    struct storwin_window *win;
    char text[512], path[64];
    int n, rc;

    snprintf(text, sizeof(text), "%s", hints_text);
    snprintf(path, sizeof(path), "bench-storwin-%ld", (long)getpid());
    storwin_opts_init(&opts);
    n = storwin_hints_split(text, hints, 16, &err);
    rc = n;
    for (int i = 0; i < n && rc >= 0; i++)
        rc = storwin_opts_set(&opts, hints[i].key, hints[i].value, &err);
    if (rc < 0)
        die(hints_text, err.text);
    opts.filename = path;
    opts.flags |= STORWIN_DISCARD;
    rc = storwin_alloc(&opts, bytes, &win, &err);
    if (rc == STORWIN_EPAGER)
        return NULL;
    if (rc < 0)
        die(hints_text, err.text);
    unlink(path);
    return win;
}

/* A file with space, opened and nameless. */
static inline int bench_file(uint64_t bytes, int flags)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "bench-storwin-raw-%ld", (long)getpid());
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | flags, 0600);
    if (fd < 0 || unlink(path) < 0 || posix_fallocate(fd, 0, (off_t)bytes) != 0)
        die(path, "cannot be made");
    return fd;
}

/* The bytes that this process has sent to storage. */
static inline uint64_t sent_bytes(void)
{
    FILE *f = fopen("/proc/self/io", "re");
    unsigned long long n = 0;
    char line[128];

    while (f && fgets(line, sizeof(line), f))
        (void)sscanf(line, "write_bytes: %llu", &n);
    if (f)
        fclose(f);
    return n;
}

#endif
