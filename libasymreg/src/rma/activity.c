/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers inside an operation: see activity.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "activity.h"

#include <errno.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../base/base.h"

#define ACTIVITY_MAGIC UINT64_C(0x3154434159534121)
#define DRAIN_SPINS    200

/* Makes every thread of every registered process execute a full barrier. */
static int barrier_everywhere(void)
{
    return ASYMREG__TSAN ? -1
                         : (int)syscall(__NR_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

static int ask_for_barriers(void)
{
    return ASYMREG__TSAN
               ? -1
               : (int)syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
}

/* Names this process. Without /proc its start is 0. */
static int this_process(uint64_t *process)
{
    uint64_t pid = (uint64_t)getpid(), started = 0;
    int ended, rc = asymreg__process_stat(pid, &started, &ended);

    *process = pid << 32 | (uint32_t)started;
    return rc == -ENOENT ? 0 : rc;
}

/* Returns 1 only if no thread of the process runs any more. */
static int has_ended(uint64_t process)
{
    uint64_t pid = process >> 32, started;
    struct pollfd p = {.events = POLLIN};
    int ended;

    if (pid == 0 || pid > INT_MAX || (kill((pid_t)pid, 0) < 0 && errno == ESRCH))
        return 1;
    if ((uint32_t)process && asymreg__process_stat(pid, &started, &ended) == 0 &&
        ((uint32_t)started != (uint32_t)process || ended))
        return 1; /* or another process has its number */
    p.fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (p.fd < 0)
        return errno == ESRCH;
    ended = poll(&p, 1, 0) > 0;
    close(p.fd);
    return ended;
}

int asymreg__activity_init(struct asymreg__activity *a)
{
    int fence = barrier_everywhere() < 0;

    a->fence = (uint32_t)fence;
    atomic_store_explicit(&a->magic, ACTIVITY_MAGIC, memory_order_release);
    return fence;
}

int asymreg__activity_drain(struct asymreg__activity *a, int fence, uint32_t timeout_ms)
{
    int64_t deadline = asymreg__now_ns() + (int64_t)timeout_ms * 1000000;
    uint32_t n, turns = 0;

    atomic_thread_fence(memory_order_seq_cst);
    while (!fence && barrier_everywhere() < 0) { /* the kernel has no memory for the barrier now */
        if (asymreg__now_ns() >= deadline)
            return ASYMREG_ETIMEDOUT;
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    n = atomic_load_explicit(&a->n_used, memory_order_acquire);
    for (uint32_t i = 0; i < n && i < ASYMREG__ACTIVITY_SLOTS; i++) {
        struct asymreg__activity_slot *s = &a->slots[i];
        uint64_t process = atomic_load_explicit(&s->process, memory_order_acquire),
                 busy = atomic_load_explicit(&s->busy, memory_order_acquire);
        if (!process || !busy)
            continue;
        while (atomic_load_explicit(&s->busy, memory_order_acquire) == busy &&
               atomic_load_explicit(&s->process, memory_order_acquire) == process) {
            if (++turns < DRAIN_SPINS) {
                sched_yield();
                continue;
            }
            if (has_ended(process))
                break;
            if (asymreg__now_ns() >= deadline)
                return ASYMREG_ETIMEDOUT;
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        }
    }
    return 0;
}

int asymreg__activity_check(const struct asymreg__activity *a)
{
    return atomic_load_explicit(&a->magic, memory_order_acquire) == ACTIVITY_MAGIC ? 0
                                                                                   : ASYMREG_ETABLE;
}

int asymreg__activity_claim(struct asymreg__activity *a, uint64_t tag,
                            struct asymreg__activity_slot **slot, uint32_t *fence)
{
    uint64_t me, was;
    int rc = this_process(&me);

    if (rc < 0)
        return rc;
    *fence = ask_for_barriers() < 0 || atomic_load_explicit(&a->fence, memory_order_relaxed);
    for (int dead_too = 0; dead_too < 2; dead_too++) {
        for (uint32_t i = 0; i < ASYMREG__ACTIVITY_SLOTS; i++) {
            struct asymreg__activity_slot *s = &a->slots[i];
            uint32_t used;
            was = atomic_load_explicit(&s->process, memory_order_acquire);
            if (was && !(dead_too && was != me && has_ended(was)))
                continue;
            if (!atomic_compare_exchange_strong_explicit(
                    &s->process, &was, me, memory_order_acq_rel, memory_order_relaxed))
                continue;
            atomic_store_explicit(&s->busy, 0, memory_order_release);
            atomic_store_explicit(&s->tag, tag, memory_order_release);
            used = atomic_load_explicit(&a->n_used, memory_order_relaxed);
            while (used <= i && !atomic_compare_exchange_strong_explicit(&a->n_used, &used, i + 1,
                                                                         memory_order_seq_cst,
                                                                         memory_order_relaxed))
                ;
            *slot = s;
            return 0;
        }
    }
    return ASYMREG_EFULL;
}

void asymreg__activity_release(struct asymreg__activity_slot *slot)
{
    atomic_store_explicit(&slot->busy, 0, memory_order_release);
    atomic_store_explicit(&slot->process, 0, memory_order_release);
}

void asymreg__activity_release_all(struct asymreg__activity *a, uint64_t tag)
{
    uint32_t n = atomic_load_explicit(&a->n_used, memory_order_acquire);
    uint64_t pid = (uint64_t)getpid();

    for (uint32_t i = 0; i < n && i < ASYMREG__ACTIVITY_SLOTS; i++) {
        struct asymreg__activity_slot *s = &a->slots[i];
        if (atomic_load_explicit(&s->process, memory_order_acquire) >> 32 == pid &&
            atomic_load_explicit(&s->tag, memory_order_acquire) == tag)
            asymreg__activity_release(s);
    }
}
