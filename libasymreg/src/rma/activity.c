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

#define MAGIC UINT64_C(0x3154434159534121)
#define SPINS 200

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
    if ((p.fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0)) < 0)
        return errno == ESRCH;
    ended = poll(&p, 1, 0) > 0;
    close(p.fd);
    return ended;
}

int asymreg__activity_init(struct asymreg__activity *a)
{
    int fence = barrier_everywhere() < 0;

    a->fence = (uint32_t)fence;
    __atomic_store_n(&a->magic, MAGIC, __ATOMIC_RELEASE);
    return fence;
}

int asymreg__activity_drain(struct asymreg__activity *a, int fence, uint32_t timeout_ms)
{
    int64_t deadline = asymreg__now_ns() + (int64_t)timeout_ms * 1000000;
    uint32_t n, turns = 0;

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    while (!fence && barrier_everywhere() < 0) { /* the kernel has no memory for the barrier now */
        if (asymreg__now_ns() >= deadline)
            return ASYMREG_ETIMEDOUT;
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    n = __atomic_load_n(&a->n_used, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < n && i < ASYMREG__ACTIVITY_SLOTS; i++) {
        struct asymreg__activity_slot *s = &a->slots[i];
        uint64_t process = __atomic_load_n(&s->process, __ATOMIC_ACQUIRE),
                 busy = __atomic_load_n(&s->busy, __ATOMIC_ACQUIRE);
        if (!process || !busy)
            continue;
        while (__atomic_load_n(&s->busy, __ATOMIC_ACQUIRE) == busy &&
               __atomic_load_n(&s->process, __ATOMIC_ACQUIRE) == process) {
            if (++turns < SPINS) {
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
    return __atomic_load_n(&a->magic, __ATOMIC_ACQUIRE) == MAGIC ? 0 : ASYMREG_ETABLE;
}

int asymreg__activity_claim(struct asymreg__activity *a, uint64_t tag,
                            struct asymreg__activity_slot **slot, uint32_t *fence)
{
    uint64_t me, was;
    int rc = this_process(&me);

    if (rc < 0)
        return rc;
    *fence = ask_for_barriers() < 0 || __atomic_load_n(&a->fence, __ATOMIC_RELAXED);
    for (int dead_too = 0; dead_too < 2; dead_too++) {
        for (uint32_t i = 0; i < ASYMREG__ACTIVITY_SLOTS; i++) {
            struct asymreg__activity_slot *s = &a->slots[i];
            uint32_t used;
            if ((was = __atomic_load_n(&s->process, __ATOMIC_ACQUIRE)) &&
                !(dead_too && was != me && has_ended(was)))
                continue;
            if (!__atomic_compare_exchange_n(&s->process, &was, me, 0, __ATOMIC_ACQ_REL,
                                             __ATOMIC_RELAXED))
                continue;
            __atomic_store_n(&s->busy, 0, __ATOMIC_RELEASE);
            __atomic_store_n(&s->tag, tag, __ATOMIC_RELEASE);
            used = __atomic_load_n(&a->n_used, __ATOMIC_RELAXED);
            while (used <= i && !__atomic_compare_exchange_n(&a->n_used, &used, i + 1, 0,
                                                             __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
                ;
            *slot = s;
            return 0;
        }
    }
    return ASYMREG_EFULL;
}

void asymreg__activity_release(struct asymreg__activity_slot *slot)
{
    __atomic_store_n(&slot->busy, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->process, 0, __ATOMIC_RELEASE);
}

void asymreg__activity_release_all(struct asymreg__activity *a, uint64_t tag)
{
    uint32_t n = __atomic_load_n(&a->n_used, __ATOMIC_ACQUIRE);
    uint64_t pid = (uint64_t)getpid();

    for (uint32_t i = 0; i < n && i < ASYMREG__ACTIVITY_SLOTS; i++) {
        struct asymreg__activity_slot *s = &a->slots[i];
        if (__atomic_load_n(&s->process, __ATOMIC_ACQUIRE) >> 32 == pid &&
            __atomic_load_n(&s->tag, __ATOMIC_ACQUIRE) == tag)
            asymreg__activity_release(s);
    }
}
