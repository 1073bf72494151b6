/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * System calls that do not set errno, for a child that runs in its parent's memory while the parent
 * continues: both share errno, as all thread-local storage. RAWCALL is 0 on machines without such
 * calls here; there the parent must sleep meanwhile.
 */
#ifndef PMIRUN_RAWCALL_H
#define PMIRUN_RAWCALL_H

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns the result, or -errno. */
static inline long raw_syscall(long number, long a, long b, long c, long d)
{
#if defined(__x86_64__)
#define RAWCALL 1
    register long r10 __asm__("r10") = d;
    long rc;

    __asm__ volatile("syscall"
                     : "=a"(rc)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return rc;
#elif defined(__aarch64__)
#define RAWCALL 1
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;

    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
#else
#define RAWCALL 0
    long rc = syscall(number, a, b, c, d);

    return rc < 0 ? -errno : rc;
#endif
}

#endif
