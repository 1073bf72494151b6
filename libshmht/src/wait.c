/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A Get that waits for its key: a futex in the header.
 *
 * No wake is lost. A reader loads `wakes`, looks for the key, and sleeps only if `wakes` is still
 * the same, which the kernel checks. The writer puts, then adds 1 to `wakes` with release, then
 * wakes: so a reader that loads the new number, with acquire, finds the key, and one that slept on
 * the old number is woken. The kernel needs no right to write for a wait in a shared mapping.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

int shmht__wake(struct shmht__header *h)
{
    long n;

    atomic_fetch_add_explicit(&h->wakes, 1, memory_order_release);
    n = syscall(SYS_futex, &h->wakes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return n < 0 ? -errno : (int)n;
}

int shmht_writer_wake(struct shmht_writer *w)
{
    int rc = shmht__may_write(&w->object);

    return rc < 0 ? rc : shmht__wake(w->header);
}

static uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Sleeps while *word is `seen`, until a wake, a signal or the deadline. Returns 0 or -errno. */
static int futex_wait(const _Atomic uint32_t *word, uint32_t seen, const uint64_t *deadline_ns)
{
    /* as the kernel's: this system call has a timespec of two longs */
    long until[2], *end = NULL;

    if (deadline_ns) {
        if (clock_ns() >= *deadline_ns)
            return -ETIMEDOUT;
        until[0] =
            *deadline_ns / 1000000000u > LONG_MAX ? LONG_MAX : (long)(*deadline_ns / 1000000000u);
        until[1] = (long)(*deadline_ns % 1000000000u);
        end = until;
    }
    if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen, end, NULL, FUTEX_BITSET_MATCH_ANY) == 0 ||
        errno == EAGAIN || errno == EINTR)
        return 0;
    return -errno;
}

int shmht_get_wait(const struct shmht_reader *r, const void *key, size_t key_len,
                   int64_t timeout_ns, struct shmht_bytes *value)
{
    const struct shmht__header *h = shmht__header_of(r);
    uint64_t deadline_ns = 0;
    int rc, slept = 0;

    for (;;) {
        uint32_t seen = atomic_load_explicit(&h->wakes, memory_order_acquire);

        rc = shmht_get(r, key, key_len, value);
        if (rc != SHMHT_ENOENT)
            return rc;
        if (atomic_load_explicit(&h->superseded, memory_order_acquire) != 0)
            return SHMHT_ESTALE;
        /* A timeout ends the wait after one more look: the writer may have put without a wake. */
        if (slept < 0)
            return slept;
        if (timeout_ns >= 0 && deadline_ns == 0)
            deadline_ns = clock_ns() + (uint64_t)timeout_ns;
        slept = futex_wait(&h->wakes, seen, timeout_ns >= 0 ? &deadline_ns : NULL);
    }
}
