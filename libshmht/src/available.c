/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory the node, or this process's memory cgroup, has left. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

/* Reads a small file. Returns the number in it, or UINT64_MAX for "max" or no number. */
static uint64_t read_number(const char *path, const char *after)
{
    char text[4096];
    char *p = text;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return UINT64_MAX;
    text[n] = '\0';
    if (after) {
        p = strstr(text, after);
        if (!p)
            return UINT64_MAX;
        p += strlen(after);
    }
    p += strspn(p, " \t");
    return *p >= '0' && *p <= '9' ? strtoull(p, NULL, 10) : UINT64_MAX;
}

/* A number from a file of a memory cgroup. */
static uint64_t group_number(const char *group, const char *file, const char *after)
{
    char path[640];

    snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", group, file);
    return read_number(path, after);
}

/*
 * Returns the bytes that this process's memory cgroup (version 2) and the groups above it still
 * allow, or UINT64_MAX without a limit. Like MemAvailable it counts inactive files as free. It
 * looks above because launchers put tasks into a group without a limit, below the job's group,
 * which has one.
 */
static uint64_t cgroup_bytes(void)
{
    char group[512] = "", line[640];
    FILE *file = fopen("/proc/self/cgroup", "re");
    uint64_t least = UINT64_MAX;

    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, "0::/", 4) == 0)
            snprintf(group, sizeof(group), "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    if (file)
        fclose(file);
    for (char *end = group; end;) {
        uint64_t max = group_number(group, "memory.max", NULL), now, cache;

        if (max != UINT64_MAX) {
            now = group_number(group, "memory.current", NULL);
            cache = group_number(group, "memory.stat", "\ninactive_file ");
            if (now != UINT64_MAX && cache != UINT64_MAX)
                max += cache < now ? cache : now;
            max -= now == UINT64_MAX ? 0 : now < max ? now : max;
            if (max < least)
                least = max;
        }
        end = strrchr(group, '/');
        if (end)
            *end = '\0';
    }
    return least;
}

uint64_t shmht__available_bytes(void)
{
    uint64_t node = read_number("/proc/meminfo", "MemAvailable:"), group = cgroup_bytes();

    if (node < UINT64_MAX / 1024)
        node *= 1024;
    return node < group ? node : group;
}
