/* SPDX-License-Identifier: BSD-3-Clause */
/* The checks that a transport whose operations run in the target makes before it accesses memory
 * for a peer: see struct asymreg_guard. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "context.h"

/* Checks an access against this side's table. An error makes the peer read the table again. */
static int guard_check(struct asymreg_context *c, uint64_t addr, uint64_t bytes, uint32_t need)
{
    const struct asymreg_region *r;

    if (addr >= (uintptr_t)c->memory && addr - (uintptr_t)c->memory < c->bytes)
        return need == ASYMREG_READ && bytes <= c->bytes - (addr - (uintptr_t)c->memory)
                   ? 0
                   : ASYMREG_EACCES;
    r = c->guard_closed ? NULL : asymreg__index_lookup(c->guard_reader, addr);
    return r && r->last - addr >= bytes - 1 && !(need & ~r->prot) ? 0 : ASYMREG_ESTALE;
}

static int guard_enter(void *ctx, uint64_t addr, uint64_t bytes, uint32_t need)
{
    struct asymreg_context *c = ctx;
    int rc;

    pthread_mutex_lock(&c->guard_lock);
    rc = guard_check(c, addr, bytes, need);
    if (rc < 0)
        pthread_mutex_unlock(&c->guard_lock);
    return rc;
}

static void guard_leave(void *ctx)
{
    pthread_mutex_unlock(&((struct asymreg_context *)ctx)->guard_lock);
}

int asymreg__guard_open(struct asymreg_context *c)
{
    const struct asymreg_guard guard = {guard_enter, guard_leave, c};
    int rc;

    if (c->t->ops->size < offsetof(struct asymreg_transport_ops, arm) || !c->t->ops->guard)
        return 0;
    rc = asymreg__reader_create(asymreg__table_index(c->table), &c->guard_reader);
    if (rc == 0)
        c->t->ops->guard(c->t, &guard);
    return rc;
}

void asymreg__guard_wait(struct asymreg_context *c)
{
    if (!c->guard_reader)
        return;
    pthread_mutex_lock(&c->guard_lock);
    pthread_mutex_unlock(&c->guard_lock);
}

void asymreg__guard_close(struct asymreg_context *c)
{
    pthread_mutex_lock(&c->guard_lock);
    c->guard_closed = 1;
    asymreg__reader_destroy(c->guard_reader);
    c->guard_reader = NULL;
    pthread_mutex_unlock(&c->guard_lock);
}
