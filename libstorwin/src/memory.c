/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that a window may take before the system, or this process's control group, runs out of
 * it. */
#include "internal.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NO_LIMIT UINT64_MAX

/* Reads the number behind `word` in a file of lines `word number [unit]`; with word "" the file has
 * only the number. */
static int read_number(const char *path, const char *word, uint64_t *value)
{
    FILE *file = fopen(path, "re");
    size_t len = strlen(word);
    char line[256];
    int found = -1;

    if (!file)
        return -1;
    while (found < 0 && fgets(line, sizeof(line), file)) {
        char *end;

        if (strncmp(line, word, len) != 0 || (len > 0 && line[len] != ' ' && line[len] != ':'))
            continue;
        if (strncmp(line, "max", 3) == 0) {
            *value = NO_LIMIT;
            found = 0;
            continue;
        }
        *value = strtoull(line + len + (len > 0), &end, 10);
        if (end != line + len + (len > 0))
            found = 0;
    }
    fclose(file);
    return found;
}

struct names {
    const char *limit, *usage, *reclaimable;
};
static const struct names v1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                "total_inactive_file"};
static const struct names v2 = {"memory.max", "memory.current", "inactive_file"};

static int read_member(const char *dir, const char *name, const char *word, uint64_t *value)
{
    char path[PATH_MAX + 64];
    int len = snprintf(path, sizeof(path), "%s/%s", dir, name);

    return len < 0 || (size_t)len >= sizeof(path) ? -1 : read_number(path, word, value);
}

/* Returns what one group has left; counts inactive file pages as free. */
static uint64_t group_left(const char *dir, const struct names *names)
{
    uint64_t limit, usage, reclaimable;

    if (read_member(dir, names->limit, "", &limit) < 0 || limit >= (uint64_t)INT64_MAX / 2 ||
        read_member(dir, names->usage, "", &usage) < 0)
        return NO_LIMIT;
    if (read_member(dir, "memory.stat", names->reclaimable, &reclaimable) < 0 ||
        reclaimable > usage)
        reclaimable = 0;
    usage -= reclaimable;
    return usage < limit ? limit - usage : 0;
}

/* Returns what the group below the mount point `top`, and every group above it, has left. */
static uint64_t groups_left(const char *top, const char *group, const struct names *names)
{
    char dir[PATH_MAX];
    size_t floor = strlen(top);
    uint64_t least = NO_LIMIT;
    int len = snprintf(dir, sizeof(dir), "%s%s", top, strcmp(group, "/") == 0 ? "" : group);

    if (len < 0 || (size_t)len >= sizeof(dir))
        return NO_LIMIT;
    for (;;) {
        char *slash;

        least = storwin__min(least, group_left(dir, names));
        slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < floor)
            return least;
        *slash = '\0';
    }
}

/* Fields of a line of mountinfo: root of the mount, mount point, and what follows the separator
 * "-". */
static int mount_line(char *line, char **root, char **place, char **type, char **options)
{
    char *save = NULL, *word;
    int i = 0;

    *root = *place = *type = *options = NULL;
    line[strcspn(line, "\n")] = '\0';
    for (word = strtok_r(line, " ", &save); word && strcmp(word, "-") != 0;
         word = strtok_r(NULL, " ", &save), i++) {
        if (i == 3)
            *root = word;
        else if (i == 4)
            *place = word;
    }
    if (!word || !*place)
        return -1;
    *type = strtok_r(NULL, " ", &save);
    (void)strtok_r(NULL, " ", &save);
    *options = strtok_r(NULL, " ", &save);
    return *type && *options ? 0 : -1;
}

/* Returns whether a comma-separated list has the word. */
static int list_has(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
        if (strncmp(list, word, len) == 0 && (list[len] == ',' || list[len] == '\0'))
            return 1;
    return 0;
}

/* Gets this process's group in the hierarchy of `controller` ("" for v2) from /proc/self/cgroup. */
static int own_group(const char *path, const char *controller, char *group, size_t cap)
{
    FILE *file = fopen(path, "re");
    char line[PATH_MAX + 256];
    int found = -1;

    if (!file)
        return -1;
    while (found < 0 && fgets(line, sizeof(line), file)) {
        char *list = strchr(line, ':'), *name = list ? strchr(list + 1, ':') : NULL;

        if (!name)
            continue;
        *name++ = '\0';
        name[strcspn(name, "\n")] = '\0';
        if (*controller ? !list_has(list + 1, controller) : list[1] != '\0')
            continue;
        if (strlen(name) < cap) {
            strcpy(group, name);
            found = 0;
        }
    }
    fclose(file);
    return found;
}

static uint64_t cgroups_left(const struct storwin__memory_source *src)
{
    FILE *file = fopen(src->mountinfo, "re");
    char line[2 * PATH_MAX], group[PATH_MAX], top[2 * PATH_MAX];
    uint64_t least = NO_LIMIT;

    if (!file)
        return NO_LIMIT;
    while (fgets(line, sizeof(line), file)) {
        char *root, *place, *type, *options;
        const struct names *names;
        size_t len;

        if (mount_line(line, &root, &place, &type, &options) < 0)
            continue;
        if (strcmp(type, "cgroup2") == 0)
            names = &v2;
        else if (strcmp(type, "cgroup") == 0 && list_has(options, "memory"))
            names = &v1;
        else
            continue;
        if (own_group(src->cgroup, names == &v1 ? "memory" : "", group, sizeof(group)) < 0)
            continue;
        len = strcmp(root, "/") == 0
                  ? 0
                  : strlen(root); /* a container may see only a part of the tree */
        if (strncmp(group, root, len) != 0)
            len = strlen(group);
        snprintf(top, sizeof(top), "%s%s", src->root, place);
        least = storwin__min(least, groups_left(top, group[len] ? group + len : "/", names));
    }
    fclose(file);
    return least;
}

uint64_t storwin__memory_available(const struct storwin__memory_source *given)
{
    static const struct storwin__memory_source real = {"/proc/meminfo", "/proc/self/cgroup",
                                                       "/proc/self/mountinfo", ""};
    const struct storwin__memory_source *src = given ? given : &real;
    uint64_t kib, free_bytes;

    if (read_number(src->meminfo, "MemAvailable", &kib) == 0 && kib < UINT64_MAX / 1024)
        free_bytes = kib * 1024;
    else
        free_bytes = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return storwin__min(free_bytes, cgroups_left(src));
}
