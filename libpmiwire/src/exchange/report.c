/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports to the caller: results when the outermost call ends, and the exchange's failure. */
#include <errno.h>

#include "exchange_internal.h"

/* ---- completions ---- */

/* Reports a collective's end. Returns whether one had ended. */
static bool report_coll(struct pmiwire_exchange *x)
{
    for (uint32_t kind = 0; kind < PMIWIRE_COLL_RING; kind++) {
        struct pmiwire__coll *c = &x->colls[kind];
        uint32_t number = c->reported + 1;

        if (number < c->number) {
            c->reported = number;
            if (x->ops.done)
                x->ops.done(x->ctx, kind, number, 0);
            return true;
        }
        if (c->stopped || (x->err && c->n_in > 0)) {
            const int rc = c->stopped ? PMIWIRE_EGONE : x->err;

            c->stopped = false;
            c->n_in = 0;
            if (x->ops.done)
                x->ops.done(x->ctx, kind, number, rc);
            return true;
        }
    }
    return false;
}

static bool report_waiter(struct pmiwire_exchange *x)
{
    struct pmiwire__keys *s = &x->store;
    struct pmiwire_str value = {NULL, 0};
    struct pmiwire__waiter w;
    uint32_t i = s->due_head;

    if (i == PMIWIRE__NONE)
        return false;
    w = s->waiters[i];
    s->due_head = w.next;
    pmiwire__waiter_free(x, i);
    if (w.rc == 0)
        value = pmiwire__key_value(x, w.entry);
    x->miss_rank = w.rc == PMIWIRE_ENOENT ? w.lost : PMIWIRE__NONE;
    x->miss_why = w.why;
    if (x->ops.got)
        x->ops.got(x->ctx, w.token, w.rc, value);
    if (--s->entries[w.entry].pins == 0 && pmiwire__keeps_nothing(x))
        s->entries[w.entry].flags &= (uint16_t)~PMIWIRE__KEY_VALUE;
    pmiwire__key_tidy(x, w.entry);
    return true;
}

static void report_all(struct pmiwire_exchange *x)
{
    for (;;) {
        if (report_coll(x) || report_waiter(x))
            continue;
        if (x->rings) {
            pmiwire__ring_report(x);
            continue;
        }
        if (!x->err || x->err_reported)
            return;
        x->err_reported = true;
        if (x->ops.failed)
            x->ops.failed(x->ctx, x->err, x->err_node);
    }
}

void pmiwire__exchange_enter(struct pmiwire_exchange *x)
{
    x->depth++;
}

void pmiwire__exchange_leave(struct pmiwire_exchange *x)
{
    if (x->depth == 1)
        report_all(x);
    x->depth--;
}

/* ---- failure ---- */

static void fail_waiters(struct pmiwire_exchange *x)
{
    struct pmiwire__keys *s = &x->store;

    while (s->waiting != PMIWIRE__NONE) {
        uint32_t w = pmiwire__waiters_take(x, s->waiting);

        while (w != PMIWIRE__NONE) {
            uint32_t next = s->waiters[w].next;

            if (s->waiters[w].remote)
                pmiwire__waiter_free(x, w);
            else
                pmiwire__waiter_due(x, w, x->err);
            w = next;
        }
    }
}

void pmiwire__exchange_fail(struct pmiwire_exchange *x, int rc, uint32_t node, uint32_t from)
{
    struct {
        int32_t code;
        uint32_t node;
    } why = {rc, node};
    uint32_t to;

    if (x->err)
        return;
    x->err = rc;
    x->err_node = node;
    fail_waiters(x);
    pmiwire__ring_stop(x, rc);
    for (uint32_t i = 0; pmiwire__tree_neighbour(x, i, &to); i++) {
        struct pmiwire__frame f = {.type = PMIWIRE_FRAME_FAIL};

        if (to != from && !(rc == PMIWIRE_ELOST && to == node))
            pmiwire__send_bytes(x, to, &f, &why, sizeof(why));
    }
}

int pmiwire_exchange_fail(struct pmiwire_exchange *x, int rc, uint32_t node)
{
    const bool lost = rc == PMIWIRE_ELOST;

    if (rc >= 0 || (lost && (node >= x->n_nodes || node == x->me)))
        return -EINVAL;
    pmiwire__exchange_enter(x);
    pmiwire__exchange_fail(x, rc, lost ? node : x->me, lost ? node : x->me);
    pmiwire__exchange_leave(x);
    return 0;
}
