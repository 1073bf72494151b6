/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded: counts the allocations of a process and makes one of them fail. The file that
 * FAULTS_ALLOC names has the sweep's order. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "faults.h"

/* glibc's own, under names that are not interposed. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

static struct alloc_plan *plan;
static int who;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAULTS_ALLOC"), *rank = getenv("PMI_RANK");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *p;

    if (fd < 0)
        return;
    p = mmap(NULL, sizeof(*plan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        return;
    plan = p;
    if (rank)
        who = 1 + atoi(rank) + (getenv("PMI_SPAWNED") ? 16 : 0);
    else if ((who = __atomic_fetch_add(&plan->n_others, 1, __ATOMIC_RELAXED)) > 0)
        who = 17 - who;
    if (who < 0 || who >= MAX_PROCS)
        who = MAX_PROCS - 1;
    if (program_invocation_short_name)
        strncpy(plan->names[who], program_invocation_short_name, sizeof(plan->names[who]) - 1);
}

static int fails(void)
{
    uint64_t n;

    if (!plan)
        return 0;
    n = __atomic_add_fetch(&plan->count[who], 1, __ATOMIC_RELAXED);
    if (!plan->fail_at || who != plan->who || n < plan->fail_at || (n > plan->fail_at && !plan->on))
        return 0;
    plan->hit = n;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t n)
{
    return fails() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return fails() ? NULL : __libc_realloc(p, n);
}

void *memalign(size_t alignment, size_t n)
{
    return fails() ? NULL : __libc_memalign(alignment, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return memalign(alignment, n);
}

int posix_memalign(void **p, size_t alignment, size_t n)
{
    void *q = memalign(alignment, n);

    if (!q)
        return ENOMEM;
    *p = q;
    return 0;
}
