/* SPDX-License-Identifier: BSD-3-Clause */
/* The system's information about a process. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t asymreg__now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int asymreg__process_permits_write(uint64_t pid, uint64_t addr)
{
    unsigned long long start, end;
    char path[64], line[256], perms[5];
    int permits = -1;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%llu/maps", (unsigned long long)pid);
    f = fopen(path, "re");
    /* A long path makes several lines; none of the others begins like a mapping. */
    while (f && permits < 0 && fgets(line, sizeof(line), f))
        if (sscanf(line, "%llx-%llx %4s", &start, &end, perms) == 3 && addr >= start && addr < end)
            permits = perms[1] == 'w';
    if (f)
        fclose(f);
    return permits;
}

int asymreg__process_stat(uint64_t pid, uint64_t *started, int *ended)
{
    char path[64], text[1024], *p, state = 0;
    ssize_t n;
    int fd, e, n_threads = 0;

    /* Reads the first thread's entry, which equals /proc/PID/stat: qemu-user invents the latter. */
    snprintf(path, sizeof(path), "/proc/%llu/task/%llu/stat", (unsigned long long)pid,
             (unsigned long long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    n = read(fd, text, sizeof(text) - 1);
    e = n < 0 ? errno : EIO;
    close(fd);
    if (n <= 0)
        return -e;
    text[n] = '\0';
    p = strrchr(text, ')');
    if (!p) /* the name before it may hold anything */
        return -EIO;
    for (int field = 3; field <= 22; field++) {
        p = strchr(p + 1, ' ');
        if (!p)
            return -EIO;
        if (field == 3)
            state = p[1];
        else if (field == 20)
            n_threads = atoi(p + 1);
    }
    *started = strtoull(p + 1, NULL, 10);
    *ended = (state == 'Z' || state == 'X') &&
             n_threads <= 1; /* the first thread may end before others */
    return 0;
}
