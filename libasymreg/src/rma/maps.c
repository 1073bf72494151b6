/* SPDX-License-Identifier: BSD-3-Clause */
/* The mappings around an address, according to the kernel. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "context.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct mapping {
    uint64_t start, last;
    char perms[5];
    char device[16];
    uint64_t inode;
    char name[32]; /* first bytes of the name */
};

/* Reads the next line. Returns 0 at the end. */
static int mapping_read(FILE *f, struct mapping *m)
{
    char line[256];
    uint64_t end;

    while (fgets(line, sizeof(line), f)) {
        int whole = strchr(line, '\n') != NULL, n;
        m->name[0] = '\0';
        n = sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %15s %" SCNu64 " %31s", &m->start, &end,
                   m->perms, m->device, &m->inode, m->name);
        while (!whole && fgets(line, sizeof(line), f)) /* a long path */
            whole = strchr(line, '\n') != NULL;
        m->last = end - 1;
        if (n >= 5)
            return 1;
    }
    return 0;
}

/* Returns whether memory may be registered without a request: it is not the kernel's own, and has
 * the permissions. */
static int mapping_is_usable(const struct mapping *m, uint32_t prot)
{
    if (m->name[0] == '[' && strncmp(m->name, "[heap]", 6) != 0 &&
        strncmp(m->name, "[stack", 6) != 0 && strncmp(m->name, "[anon", 5) != 0)
        return 0;
    return m->perms[0] == 'r' && (m->perms[1] == 'w' || !(prot & (ASYMREG_WRITE | ASYMREG_ATOMIC)));
}

/* Returns whether two mappings are adjacent and of the same origin. */
static int mapping_continues(const struct mapping *a, const struct mapping *b)
{
    return a->last + 1 == b->start && a->perms[3] == b->perms[3] && a->inode == b->inode &&
           strcmp(a->device, b->device) == 0;
}

int asymreg__mapped_run(uint64_t start, uint64_t last, uint32_t prot, uint64_t *low, uint64_t *high)
{
    FILE *f = fopen("/proc/self/maps", "re");
    struct mapping m, before = {0};
    uint64_t from = 0;
    int in_run = 0;

    if (!f)
        return 0;
    while (mapping_read(f, &m)) {
        int ok = mapping_is_usable(&m, prot);
        if (in_run && ok && mapping_continues(&before, &m)) {
            before = m;
            continue;
        }
        if (in_run && before.last >= start)
            break;
        in_run = ok;
        from = m.start;
        before = m;
        if (m.start > start)
            break;
    }
    fclose(f);
    if (!in_run || from > start || before.last < last)
        return 0;
    if (*low < from)
        *low = from;
    if (*high > before.last)
        *high = before.last;
    return 1;
}
