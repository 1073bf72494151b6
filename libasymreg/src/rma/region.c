/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions of this process: register and unregister. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "context.h"

#include <errno.h>

static int region_register(struct asymreg_context *c, uint64_t start, uint64_t bytes, uint32_t prot,
                           uint32_t flags, asymreg_id *id, struct asymreg_error *err)
{
    struct asymreg_region r;
    uint64_t value = 0;
    int rc;

    if (asymreg__first_in(asymreg__table_index(c->table), start, start + bytes - 1, &r)) {
        if (!(flags & ASYMREG_SHARE) || r.start != start || r.last != start + bytes - 1 ||
            r.prot != prot)
            return asymreg__fail(err, ASYMREG_EOVERLAP, "overlaps the region %#llx to %#llx",
                                 (unsigned long long)r.start, (unsigned long long)r.last);
        if (c->shares[(uint32_t)r.id] == UINT32_MAX)
            return ASYMREG_EFULL;
        c->shares[(uint32_t)r.id]++;
        *id = r.id;
        return 0;
    }
    rc = flags & ASYMREG_REMAPPED ? asymreg__segments_retire(c, start, start + bytes - 1) : 0;
    if (rc < 0)
        return rc;
    rc = asymreg__segment_for(c, start, bytes, prot, flags, &value, err);
    if (rc < 0)
        return rc;
    rc = asymreg__table_insert(c->table, start, bytes, prot, value, id);
    if (rc < 0 && c->segs[(uint32_t)value].automatic)
        asymreg__segment_remove(c, value); /* fails if it has other regions */
    return rc;
}

int asymreg_register(struct asymreg_context *context, const void *addr, size_t bytes, uint32_t prot,
                     uint32_t flags, asymreg_id *id, struct asymreg_error *err)
{
    uint64_t start = (uintptr_t)addr;
    struct asymreg_error why;
    asymreg_id mine;
    int rc = asymreg__may_change(context);

    why.code = 0;
    if (rc < 0) {
        if (rc == -EPERM)
            asymreg__fail(&why, rc, "the context is of another process, which has forked this one");
    } else if (!addr || !bytes || !prot || (prot & ~ASYMREG_ALL) ||
               (flags & ~(ASYMREG_SHARE | ASYMREG_ALONE | ASYMREG_REMAPPED | ASYMREG__KIND_MASK))) {
        rc = asymreg__fail(&why, -EINVAL,
                           "addr %p, bytes %zu, prot %#x, flags %#x: the first three must not be "
                           "0, and prot and flags may have only known bits",
                           addr, bytes, prot, flags);
    } else if (start + bytes - 1 < start || start + bytes - 1 > UINTPTR_MAX) {
        rc = ASYMREG_EOVERFLOW;
    } else {
        rc = asymreg__kind_check(context, asymreg__kind(flags), -1, &why);
    }
    if (rc == 0) {
        pthread_mutex_lock(&context->lock);
        rc = region_register(context, start, bytes, prot, flags, &mine, err ? &why : NULL);
        pthread_mutex_unlock(&context->lock);
    }
    if (rc < 0)
        return asymreg__fail_at(err, rc, &why, ASYMREG__NO_PE, start, bytes);
    if (id)
        *id = mine;
    return 0;
}

static int is_registered(const struct asymreg__index *ix, asymreg_id id)
{
    uint32_t slot = (uint32_t)id;

    return slot < ix->n_used && (id >> 32 & 1) && ix->slots[slot].generation == id >> 32;
}

static int region_unregister(struct asymreg_context *c, asymreg_id id)
{
    uint32_t slot = (uint32_t)id;
    struct asymreg__index *ix = asymreg__table_index(c->table);
    uint64_t value;
    int rc;

    if (!is_registered(ix, id))
        return ASYMREG_ESTALE;
    if (c->shares[slot]) {
        c->shares[slot]--;
        return 0;
    }
    value = ix->slots[slot].value;
    c->dereg_rc = 0;
    rc = asymreg__table_remove(c->table, id);
    if (rc < 0)
        return rc;
    asymreg__guard_wait(c);
    if (c->segs[(uint32_t)value].automatic)
        asymreg__segment_remove(c, value); /* fails if it has other regions */
    return 0;
}

int asymreg_unregister(struct asymreg_context *context, asymreg_id id)
{
    int rc = asymreg__may_change(context);

    if (rc < 0)
        return rc;
    pthread_mutex_lock(&context->lock);
    rc = region_unregister(context, id);
    pthread_mutex_unlock(&context->lock);
    return rc;
}

/* Checks that a drain can wait for the end of this registration. */
static int can_drain(struct asymreg_context *c, asymreg_id id, struct asymreg_error *err)
{
    uint32_t slot = (uint32_t)id;
    struct asymreg__index *ix = asymreg__table_index(c->table);
    const char *why;
    uint64_t value;

    if (!is_registered(ix, id))
        return ASYMREG_ESTALE;
    if (c->shares[slot])
        return ASYMREG_EBUSY;
    if (c->activity || (c->guard_reader && (c->caps.flags & ASYMREG_CAP_REVOKE)))
        return 0;
    value = ix->slots[slot].value;
    if (c->caps.flags & ASYMREG_CAP_REVOKE) {
        if (c->segs[(uint32_t)value].automatic && asymreg__table_users(c->table, value) == 1)
            return 0;
        why = "the region lies in a registration that outlives it; see ASYMREG_ALONE";
    } else if (c->caps.flags & ASYMREG_CAP_MAP) {
        why = "the context was opened without ASYMREG_DRAIN";
    } else {
        why = asymreg__reason(c, ASYMREG_CAP_REVOKE);
    }
    return asymreg__fail(err, ASYMREG_ENOTSUP, "%s", why);
}

int asymreg_unregister_drain(struct asymreg_context *context, asymreg_id id, uint32_t timeout_ms,
                             struct asymreg_error *err)
{
    struct asymreg_error why = {.code = 0};
    int rc = asymreg__may_change(context);

    if (rc == 0 && id != ASYMREG_ANY) {
        pthread_mutex_lock(&context->lock);
        rc = can_drain(context, id, &why);
        if (rc == 0)
            rc = region_unregister(context, id);
        if (rc == 0 && !context->activity)
            rc = context->dereg_rc;
        pthread_mutex_unlock(&context->lock);
    } else if (rc == 0 && context->guard_reader && (context->caps.flags & ASYMREG_CAP_REVOKE)) {
        asymreg__guard_wait(context);
    } else if (rc == 0 && !context->activity) {
        rc = asymreg__fail(&why, ASYMREG_ENOTSUP,
                           context->flags & ASYMREG_DRAIN
                               ? "the transport does not show who is inside an operation"
                               : "the context was opened without ASYMREG_DRAIN");
    }
    if (rc == 0 && context->activity)
        rc = asymreg__activity_drain(context->activity, context->activity_fence, timeout_ms);
    return rc < 0 ? asymreg__fail_at(err, rc, &why, ASYMREG__NO_PE, 0, 0) : 0;
}
