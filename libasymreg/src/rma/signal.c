/* SPDX-License-Identifier: BSD-3-Clause */
/* Put with signal, waiting for a signal, and strided transfers, made of the operations of
 * worker.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "context.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#define SPINS 256u

int asymreg_put_signal(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                       const void *src, size_t bytes, const struct asymreg_signal *signal)
{
    int rc;

    if (!signal || signal->reserved ||
        (signal->what != ASYMREG_AMO_SET && signal->what != ASYMREG_AMO_ADD))
        return -EINVAL;
    if (signal->addr % 8)
        return ASYMREG_EALIGN;
    if ((rc = asymreg_put(worker, pe, raddr, id, src, bytes)) < 0 ||
        (rc = asymreg_flush(worker, pe)) < 0)
        return rc;
    rc = asymreg_amo(worker, pe, signal->addr, signal->id, signal->what, 8, signal->value, 0, NULL);
    /* Every transport writes 8 aligned bytes at once. */
    if (rc == ASYMREG_ENOTSUP && signal->what == ASYMREG_AMO_SET)
        rc = asymreg_put(worker, pe, signal->addr, signal->id, &signal->value, 8);
    return rc;
}

static int holds(uint64_t now, uint32_t compare, uint64_t value, uint32_t bytes)
{
    int less = now < value;

    if (compare & ASYMREG_CMP_SIGNED)
        less = bytes == 4 ? (int32_t)now < (int32_t)value : (int64_t)now < (int64_t)value;
    switch (compare & ~ASYMREG_CMP_SIGNED) {
    case ASYMREG_CMP_EQ: return now == value;
    case ASYMREG_CMP_NE: return now != value;
    case ASYMREG_CMP_LT: return less;
    case ASYMREG_CMP_LE: return less || now == value;
    case ASYMREG_CMP_GT: return !less && now != value;
    default: return !less;
    }
}

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int asymreg_wait_until(struct asymreg_worker *worker, const void *addr, uint32_t bytes,
                       uint32_t compare, uint64_t value, uint32_t timeout_ms)
{
    uint64_t now, mask = bytes == 4 ? UINT32_MAX : UINT64_MAX, end = 0;
    int rc;

    if (!worker || !addr || (bytes != 4 && bytes != 8) ||
        (compare & ~ASYMREG_CMP_SIGNED) > ASYMREG_CMP_GE)
        return -EINVAL;
    if ((uintptr_t)addr % bytes)
        return ASYMREG_EALIGN;
    for (uint32_t turn = 0;; turn++) {
        now = bytes == 4 ? __atomic_load_n((const uint32_t *)addr, __ATOMIC_ACQUIRE)
                         : __atomic_load_n((const uint64_t *)addr, __ATOMIC_ACQUIRE);
        if (holds(now, compare, value & mask, bytes))
            return 0;
        if (timeout_ms == 0 && turn)
            return ASYMREG_ETIMEDOUT;
        if ((rc = asymreg_progress(worker)) < 0)
            return rc;
        if (turn % SPINS != SPINS - 1 || timeout_ms == ASYMREG_FOREVER) {
            if (turn > SPINS)
                sched_yield();
            continue;
        }
        if (!end)
            end = now_ms() + timeout_ms;
        else if (now_ms() >= end)
            timeout_ms = 0; /* check a last time */
    }
}

/* Checks that the span from the first to the last element does not overflow. */
static int spans(uint64_t addr, uint64_t stride, size_t element_bytes, size_t n)
{
    uint64_t step, all;

    return __builtin_mul_overflow(stride, element_bytes, &step) ||
           __builtin_mul_overflow(step, n - 1, &all) || __builtin_add_overflow(addr, all, &all);
}

enum { PUT, GET };

static int strided_once(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                        char *here, const struct asymreg_strides *s, int what)
{
    int rc = 0, flushed;

    if (!s || !s->n || !s->element_bytes)
        return s && s->element_bytes ? 0 : -EINVAL;
    if (spans(raddr, s->there, s->element_bytes, s->n) ||
        spans((uintptr_t)here, s->here, s->element_bytes, s->n))
        return ASYMREG_EOVERFLOW;
    for (size_t i = 0; i < s->n && rc == 0; i++) {
        uint64_t at = raddr + i * s->there * s->element_bytes;
        char *p = here ? here + i * s->here * s->element_bytes : NULL;
        rc = what == PUT ? asymreg_put_nb(worker, pe, at, id, p, s->element_bytes)
                         : asymreg_get_nb(worker, pe, at, id, p, s->element_bytes);
    }
    flushed = asymreg_flush(worker, pe); /* afterwards the caller may reuse the buffer */
    return rc < 0 ? rc : flushed;
}

static int strided(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                   char *here, const struct asymreg_strides *s, int what)
{
    int rc = strided_once(worker, pe, raddr, id, here, s, what);

    /* The flush has refreshed an old copy of the table. */
    return rc == ASYMREG_ESTALE && id == ASYMREG_ANY
               ? strided_once(worker, pe, raddr, id, here, s, what)
               : rc;
}

int asymreg_put_strided(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                        const void *src, const struct asymreg_strides *strides)
{
    return strided(worker, pe, raddr, id, (char *)(uintptr_t)src, strides, PUT);
}

int asymreg_get_strided(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                        void *dst, const struct asymreg_strides *strides)
{
    return strided(worker, pe, raddr, id, dst, strides, GET);
}
