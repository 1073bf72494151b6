/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions of this process: register and unregister. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "context.h"

#include <errno.h>

#define ONLY_REGION (ASYMREG_SHARE | ASYMREG_ALONE | ASYMREG_REMAPPED)
#define KNOWN_FLAGS (ONLY_REGION | ASYMREG_FD | ASYMREG_TRUSTED | ASYMREG_SEGMENT)

static int region_register(struct asymreg_context *c, const struct asymreg_mem_desc *desc,
                           uint32_t flags, asymreg_id *id, struct asymreg_error *err)
{
    const uint64_t start = desc->addr, last = start + desc->bytes - 1;
    struct asymreg_region r;
    uint64_t value = 0;
    int rc;

    if (asymreg__first_in(asymreg__table_index(c->table), start, last, &r)) {
        if (!(flags & ASYMREG_SHARE) || r.start != start || r.last != last || r.prot != desc->prot)
            return asymreg__fail(err, ASYMREG_EOVERLAP, "overlaps the region %#llx to %#llx",
                                 (unsigned long long)r.start, (unsigned long long)r.last);
        if (c->shares[(uint32_t)r.id] == UINT32_MAX)
            return ASYMREG_EFULL;
        c->shares[(uint32_t)r.id]++;
        *id = r.id;
        return 0;
    }
    rc = flags & ASYMREG_REMAPPED ? asymreg__segments_retire(c, start, last) : 0;
    if (rc < 0)
        return rc;
    rc = asymreg__segment_for(c, desc, flags, &value, err);
    if (rc < 0)
        return rc;
    rc = asymreg__table_insert(c->table, start, desc->bytes, desc->prot, value, id);
    if (rc < 0 && c->segs[(uint32_t)value].automatic)
        asymreg__segment_remove(c, value); /* fails if it has other regions */
    return rc;
}

/* Checks what asymreg_register() was given, and completes the description. */
static int register_check(struct asymreg_context *c, const struct asymreg_register_opts *o,
                          struct asymreg_mem_desc *desc, struct asymreg_error *why)
{
    const uint64_t last = desc->addr + desc->bytes - 1;

    if (!desc->addr || !desc->bytes || !desc->prot || (desc->prot & ~ASYMREG_ALL) ||
        (o->flags & ~KNOWN_FLAGS) || o->reserved)
        return asymreg__fail(why, -EINVAL,
                             "addr %#llx, bytes %llu, prot %#x, flags %#x: the first three must "
                             "not be 0, and prot and flags may have only known bits",
                             (unsigned long long)desc->addr, (unsigned long long)desc->bytes,
                             desc->prot, o->flags);
    if (((o->flags & ASYMREG_SEGMENT) && (o->flags & ONLY_REGION)) ||
        (!(o->flags & ASYMREG_FD) && ((o->flags & ASYMREG_TRUSTED) || o->fd || o->fd_offset)))
        return asymreg__fail(why, -EINVAL,
                             "flags %#x: ASYMREG_SEGMENT excludes SHARE, ALONE and REMAPPED; "
                             "TRUSTED, fd and fd_offset need ASYMREG_FD",
                             o->flags);
    if (o->flags & ASYMREG_FD) {
        desc->fd = o->fd;
        desc->fd_offset = o->fd_offset;
        desc->flags = o->flags & ASYMREG_TRUSTED ? ASYMREG_MEM_TRUSTED : 0;
        if (o->fd < 0)
            return -EBADF;
    }
    if (last < desc->addr || last > UINTPTR_MAX || desc->fd_offset + desc->bytes < desc->bytes)
        return ASYMREG_EOVERFLOW;
    desc->kind = o->kind;
    return asymreg__kind_check(c, desc, why);
}

int asymreg_register(struct asymreg_context *context, const void *addr, size_t bytes, uint32_t prot,
                     const struct asymreg_register_opts *opts, asymreg_id *id,
                     struct asymreg_error *err)
{
    struct asymreg_mem_desc desc = {
        .size = sizeof(desc), .addr = (uintptr_t)addr, .bytes = bytes, .prot = prot, .fd = -1};
    struct asymreg_register_opts o = {.size = sizeof(o)};
    struct asymreg_error why;
    asymreg_id mine = ASYMREG_ANY;
    uint64_t value;
    int rc = asymreg__may_change(context);

    why.code = 0;
    if (rc == -EPERM)
        asymreg__fail(&why, rc, "the context is of another process, which has forked this one");
    if (rc == 0 && asymreg__opts_take(&o, opts, sizeof(o)) < 0)
        rc = asymreg__fail(&why, -EINVAL,
                           "struct asymreg_register_opts is of another release, or its size is "
                           "not set");
    if (rc == 0)
        rc = register_check(context, &o, &desc, &why);
    if (rc == 0) {
        pthread_mutex_lock(&context->lock);
        rc = o.flags & ASYMREG_SEGMENT
                 ? asymreg__user_segment_add(context, &desc, &value, &why)
                 : region_register(context, &desc, o.flags, &mine, err ? &why : NULL);
        pthread_mutex_unlock(&context->lock);
    }
    if (rc < 0)
        return asymreg__fail_at(err, rc, &why, ASYMREG__NO_PE, desc.addr, bytes);
    if (id && mine)
        *id = mine;
    return 0;
}

static int region_unregister(struct asymreg_context *c, asymreg_id id)
{
    uint32_t slot = (uint32_t)id;
    struct asymreg__index *ix = asymreg__table_index(c->table);
    uint64_t value;
    int rc, last;

    if (!asymreg__index_lives(ix, id))
        return ASYMREG_ESTALE;
    if (c->shares[slot]) {
        c->shares[slot]--;
        return 0;
    }
    value = ix->slots[slot].value;
    c->dereg_rc = 0;
    /* The last region of a segment ends it. */
    last = c->segs[(uint32_t)value].automatic && asymreg__table_users(c->table, value) == 1;
    rc = last ? asymreg__segment_retire(c, value) : 0;
    if (rc == 0)
        rc = asymreg__table_remove(c->table, id);
    if (rc < 0)
        return rc;
    asymreg__guard_wait(c);
    if (last)
        asymreg__segment_remove(c, value);
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

    if (!asymreg__index_lives(ix, id))
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
