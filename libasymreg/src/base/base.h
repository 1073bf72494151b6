/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions for every part of the library: memory, options, error details, other processes. */
#ifndef ASYMREG_SRC_BASE_H
#define ASYMREG_SRC_BASE_H

#include <asymreg/base.h>

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_THREAD__)
#define ASYMREG__TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ASYMREG__TSAN 1
#endif
#endif
#ifndef ASYMREG__TSAN
#define ASYMREG__TSAN 0
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* memory.c */
/* Returns zeroed memory of an allocator (NULL: libc), or NULL; asymreg__free() accepts NULL too. */
void *asymreg__alloc(const struct asymreg_allocator *a, size_t bytes);
void asymreg__free(const struct asymreg_allocator *a, void *p);
/* As asymreg__alloc(), aligned to a cache line. */
void *asymreg__alloc_lines(const struct asymreg_allocator *a, size_t bytes);
void asymreg__free_lines(const struct asymreg_allocator *a, void *p);
/* Reserves address space, which takes memory only at first access; NULL on failure. */
void *asymreg__reserve(size_t bytes);
void asymreg__unreserve(void *p, size_t bytes);

/* opts.c: copies an option struct if its size is allowed; NULL leaves `to` unchanged. -EINVAL:
 * the size is not allowed, or something is set that this release does not know. */
int asymreg__opts_take(void *to, const void *from, size_t bytes);
/* Returns whether an allocator is NULL or has both functions. */
int asymreg__allocator_ok(const struct asymreg_allocator *a);

/* error.c */
#define ASYMREG__NO_PE UINT32_MAX
/* Writes code and sentence if err is not NULL. Returns the code. */
int asymreg__fail(struct asymreg_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
/*
 * Ends a public call that failed with `code`. If the caller wants the detail, copies the sentence
 * in `inner` (code 0: asymreg_strerror()'s), and the place. Returns the code.
 */
int asymreg__fail_at(struct asymreg_error *err, int code, const struct asymreg_error *inner,
                     uint32_t pe, uint64_t addr, uint64_t bytes) __attribute__((cold));
/* A failure's code is negative: what callers, compilers and analysers of other files rely on. */
static inline int asymreg__negative(int code)
{
    return code < 0 ? code : -EINVAL;
}
#define asymreg__fail(...)    asymreg__negative(asymreg__fail(__VA_ARGS__))
#define asymreg__fail_at(...) asymreg__negative(asymreg__fail_at(__VA_ARGS__))

/*
 * process.c: reads from /proc/PID/stat when a process began, in clock ticks since boot, and whether
 * all its threads have ended, reaped or not. Returns 0, -ENOENT or -ESRCH (no such process, or no
 * /proc), or another -errno.
 */
int asymreg__process_stat(uint64_t pid, uint64_t *started, int *ended);
/* Returns whether a process's mapping of an address permits stores; -1 if this cannot be known. */
int asymreg__process_permits_write(uint64_t pid, uint64_t addr);
/* The monotonic clock. */
int64_t asymreg__now_ns(void);

#endif
