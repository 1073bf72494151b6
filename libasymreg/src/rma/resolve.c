/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds a peer's region without an operation, and the reason why an operation there would fail. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "worker.h"

#include <stdio.h>

/* With the first and the last byte: the memory may end in between. */
static int check_access(struct asymreg_worker *w, struct link *l, struct asymreg_rkey *rkey,
                        uint64_t raddr, size_t bytes, uint32_t need, struct asymreg_error *why)
{
    struct asymreg_context *c = w->context;
    int rc = 0;

    if (need && c->t->ops->check) {
        asymreg__t_lock(c);
        rc = c->t->ops->check(c->t, l->peer->ep, rkey, raddr, need, why);
        if (rc == 0 && bytes > 1)
            rc = c->t->ops->check(c->t, l->peer->ep, rkey, raddr + bytes - 1, need, why);
        asymreg__t_unlock(c);
    }
    return rc;
}

/* Finds out, by another try, why this side could not make a region's key or read the peer's table.
 * `l` is NULL if the link itself could not be made. */
static void table_explain(struct asymreg_worker *w, struct asymreg__peer *p, struct link *l,
                          uint64_t raddr, struct asymreg_error *why)
{
    struct asymreg_context *c = w->context;
    struct asymreg_region region = {.id = ASYMREG_ANY};
    const struct asymreg_region *found;

    if (l) {
        asymreg__reader_enter(l->reader);
        found = asymreg__index_lookup(l->reader, raddr);
        if (found)
            region = *found;
        asymreg__reader_exit(l->reader);
    }
    if (region.id != ASYMREG_ANY) {
        (void)asymreg__peer_key(p, &region, why);
    } else if (c->t->ops->check) {
        asymreg__t_lock(c);
        (void)c->t->ops->check(c->t, p->ep, p->table_key, p->table_addr, ASYMREG_READ, why);
        asymreg__t_unlock(c);
    }
}

/* Writes what was asked for and what is there, for an access that the table refuses. */
static void refusal_explain(struct link *l, int rc, uint64_t raddr, size_t bytes, asymreg_id id,
                            struct asymreg_error *why)
{
    const struct asymreg_region *found;
    char there[112] = "no region has that address";

    asymreg__reader_enter(l->reader);
    found = asymreg__index_lookup(l->reader, raddr);
    if (found)
        snprintf(there, sizeof(there), "the region there is %#llx to %#llx%s and permits%s%s%s",
                 (unsigned long long)found->start, (unsigned long long)found->last,
                 id == ASYMREG_ANY || id == found->id ? "" : ", has another id",
                 found->prot & ASYMREG_READ ? " get" : "",
                 found->prot & ASYMREG_WRITE ? " put" : "",
                 found->prot & ASYMREG_ATOMIC ? " atomics" : "");
    asymreg__reader_exit(l->reader);
    asymreg__fail(why, rc, "%s: %zu bytes at %#llx; %s", asymreg_strerror(rc), bytes,
                  (unsigned long long)raddr, there);
}

int asymreg_resolve(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                    size_t bytes, uint32_t need, struct asymreg_region *region,
                    struct asymreg_error *err)
{
    struct asymreg_error why = {.code = 0};
    struct link *l = NULL;
    struct target t;
    int rc = link_get(worker, pe, &l);

    if (rc == 0 && (need & ASYMREG_ATOMIC) &&
        (!(worker->context->caps.flags & ASYMREG_CAP_AMO) || !worker->ops->amo)) {
        asymreg__fail(&why, ASYMREG_ENOTSUP, "%s",
                      asymreg__reason(worker->context, ASYMREG_CAP_AMO));
        return asymreg__fail_at(err, ASYMREG_ENOTSUP, &why, pe, raddr, bytes);
    }
    if (rc == 0)
        rc = asymreg__target_find(l, raddr, bytes, id, need, 0, &t);
    if (rc == 0) {
        rc = link_note_death(l, check_access(worker, l, t.key->rkey, raddr, bytes, need, &why));
        asymreg__reader_exit(l->reader);
    } else if (rc == ASYMREG_ENOTSUP || rc == ASYMREG_EUNREACH) {
        table_explain(worker, asymreg__peer_at(worker->context, pe), l, raddr, &why);
    } else if (l) {
        rc = link_refusal(l, rc);
        if (rc != ASYMREG_EPEER)
            refusal_explain(l, rc, raddr, bytes, id, &why);
    }
    if (rc < 0)
        return asymreg__fail_at(err, rc, &why, pe, raddr, bytes);
    t.region.reserved = 0;
    if (region)
        *region = t.region;
    return 0;
}
