/* SPDX-License-Identifier: BSD-3-Clause */
/* Put with signal, and waiting for a signal. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "worker.h"

#include <errno.h>

#define WAIT_SPINS 256u

int asymreg_put_signal(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                       const void *src, size_t bytes, const struct asymreg_signal *signal)
{
    int rc;

    if (!signal || signal->reserved ||
        (signal->what != ASYMREG_AMO_SET && signal->what != ASYMREG_AMO_ADD))
        return -EINVAL;
    if (signal->addr % 8)
        return ASYMREG_EALIGN;
    rc = asymreg_put(worker, pe, raddr, id, src, bytes);
    if (rc == 0)
        rc = asymreg_fence(worker, pe);
    if (rc < 0)
        return rc;
    rc = asymreg_amo(worker, pe, signal->addr, signal->id, signal->what, 8, signal->value, 0, NULL);
    /* Every transport writes 8 aligned bytes at once. */
    if (rc == ASYMREG_ENOTSUP && signal->what == ASYMREG_AMO_SET)
        rc = asymreg_put(worker, pe, signal->addr, signal->id, &signal->value, 8);
    return rc;
}

static int compare_holds(uint64_t now, uint32_t compare, uint64_t value, uint32_t bytes)
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

int asymreg_wait_until(struct asymreg_worker *worker, const void *addr, uint32_t bytes,
                       uint32_t compare, uint64_t value, uint32_t timeout_ms)
{
    uint64_t now, mask = bytes == 4 ? UINT32_MAX : UINT64_MAX;
    struct asymreg__wait wait = {0};
    int64_t end_ns = 0;
    int rc;

    if (!worker || !addr || (bytes != 4 && bytes != 8) ||
        (compare & ~ASYMREG_CMP_SIGNED) > ASYMREG_CMP_GE)
        return -EINVAL;
    if ((uintptr_t)addr % bytes)
        return ASYMREG_EALIGN;
    for (uint32_t turn = 0;; turn++) {
        now = bytes == 4
                  ? atomic_load_explicit((const _Atomic uint32_t *)addr, memory_order_acquire)
                  : atomic_load_explicit((const _Atomic uint64_t *)addr, memory_order_acquire);
        if (compare_holds(now, compare, value & mask, bytes))
            return 0;
        if (timeout_ms == 0 && turn)
            return ASYMREG_ETIMEDOUT;
        rc = asymreg_progress(worker);
        if (rc < 0)
            return rc;
        if (turn < WAIT_SPINS)
            continue;
        asymreg__wait(worker->context, &wait, rc);
        if (timeout_ms == ASYMREG_FOREVER)
            continue;
        if (!end_ns)
            end_ns = asymreg__now_ns() + (int64_t)timeout_ms * 1000000;
        else if (asymreg__now_ns() >= end_ns)
            timeout_ms = 0; /* check a last time */
    }
}
