/* SPDX-License-Identifier: BSD-3-Clause */
/* Detects whether a process still runs the same program: number and start of a process survive
 * exec(), its address space does not. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "local_internal.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 /* from Linux 4.17; before, the address is a hint */
#endif

#define CANARY_TRIES  16
#define CANARY_LOWEST 0x100000 /* above the kernel's minimum and NULL */

/* A page at a random address of at most `bits` bits, unlikely to be chosen otherwise. */
static void *random_page(int bits, size_t page)
{
    uint64_t number;
    void *want, *got;

    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        return NULL;
    number = (number & ((UINT64_C(1) << bits) - 1)) / page * page;
    if (number < CANARY_LOWEST)
        return NULL;
    want = (void *)(uintptr_t)number;
    got = mmap(want, page, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == want)
        return got;
    if (got != MAP_FAILED)
        munmap(got, page);
    return NULL;
}

int asymreg__canary_create(struct canary *c)
{
    /* Bits of user addresses; ThreadSanitizer ends a program that requests more than 37. */
    static const int bits[] = {ASYMREG__TSAN ? 37 : 46, 37, 30};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t value;
    void *p;

    if (getrandom(&value, sizeof(value), 0) != sizeof(value))
        return -EIO;
    for (size_t i = 0; i < CANARY_TRIES * sizeof(bits) / sizeof(*bits); i++) {
        if (bits[i / CANARY_TRIES] > (int)sizeof(void *) * 8 - 2)
            continue;
        p = random_page(bits[i / CANARY_TRIES], page);
        if (!p)
            continue;
        *(uint64_t *)p = value;
        *c = (struct canary){(uintptr_t)p, value};
        return 0;
    }
    return -ENOMEM;
}

void asymreg__canary_destroy(struct canary *c)
{
    if (c->at)
        munmap((void *)(uintptr_t)c->at, (size_t)sysconf(_SC_PAGESIZE));
    c->at = 0;
}

int asymreg__canary_gone(const struct address *peer)
{
    uint64_t word = 0;
    struct iovec mine = {&word, sizeof(word)},
                 theirs = {(void *)(uintptr_t)peer->canary.at, sizeof(word)};
    ssize_t n = process_vm_readv((pid_t)peer->pid, &mine, 1, &theirs, 1, 0);

    if (n < 0)
        return errno == EFAULT || errno == ESRCH;
    return n != sizeof(word) || word != peer->canary.value;
}
