/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that are gone, and the end of Gets whose key no remaining rank can put. A Get that names
 * its source needs that rank; any other needs one rank besides the waiter's own. Each waiter holds
 * one rank that it `needs`: the source, or the first of all ranks that is not known to be gone.
 *
 * pmiwire_exchange_gone() reports this node's own ranks. For other nodes' ranks, the exchange asks
 * with each tick while a Get waits for one: a GONE frame travels along the tree to the rank's node.
 * It does not ask while no rank of the job is known to be gone (limits.c). That node answers along
 * the same way once the rank is gone and its Puts have reached their homes. In DKVS they are
 * acknowledged; in TREE they travelled before the answer, by the same way; in DIRECT the node is
 * their home. The rank's node drops a question about a rank that is not gone, so that no node keeps
 * a list of questions. An answer may overtake a Fence that brings the key. So the answer carries
 * the number of Fences that have completed at the rank's node; a node that has completed fewer
 * drops the answer, and the next tick asks again.
 *
 * A Get whose ranks are all gone asks the home a last time, without waiting: a Put may have reached
 * the home. An answer to an earlier request does not count (`stale`), nor does an answer to a
 * request that a node further up the tree has in flight (PMIWIRE__FRAME_FRESH).
 */
#include <errno.h>

#include "exchange_internal.h"

struct question {
    uint32_t rank;
    uint32_t asker; /* the node that asks */
};

uint32_t pmiwire__local_rank(const struct pmiwire_exchange *x, int32_t rank)
{
    return rank < 0 ? PMIWIRE__NONE : pmiwire__sorted_find(x->ranks, x->n_local, (uint32_t)rank);
}

uint32_t pmiwire__why_gone(const struct pmiwire_exchange *x, uint32_t rank)
{
    const uint32_t i = pmiwire__local_rank(x, (int32_t)rank);

    return i != PMIWIRE__NONE ? x->gone[i] : 0;
}

/* Returns the first rank, from `from` on, that may put a key for `rank`. */
static uint32_t next_live_rank(const struct pmiwire_exchange *x, uint32_t from, uint32_t rank)
{
    while (from < x->n_ranks && (from == rank || pmiwire__why_gone(x, from)))
        from++;
    return from < x->n_ranks ? from : PMIWIRE__NONE;
}

uint32_t pmiwire__rank_needed(const struct pmiwire_exchange *x, uint32_t rank, uint32_t src)
{
    if (src == PMIWIRE__NONE)
        return next_live_rank(x, 0, rank);
    return pmiwire__why_gone(x, src) ? PMIWIRE__NONE : src;
}

/* ---- out ---- */

/* Sends a question or, with `why`, an answer: the rank is gone, and its node has completed
 * `fences`. */
static void send_gone(struct pmiwire_exchange *x, uint32_t to, const struct question *q,
                      uint32_t why, uint32_t fences)
{
    struct pmiwire__frame f = {.type = PMIWIRE_FRAME_GONE,
                               .flags = why ? PMIWIRE__FRAME_FOUND : 0,
                               .arg = (uint16_t)why,
                               .seq = fences};

    pmiwire__send_bytes(x, pmiwire__tree_hop(x, to), &f, q, sizeof(*q));
}

static void ask_if_gone(struct pmiwire_exchange *x, uint32_t rank)
{
    const struct question q = {rank, x->me};
    const uint32_t node = x->ops.node_of(x->ctx, rank);

    if (node != x->me)
        send_gone(x, node, &q, 0, 0);
}

void pmiwire__gone_ranks_ask(struct pmiwire_exchange *x)
{
    uint32_t last = PMIWIRE__NONE;

    if (x->n_nodes == 1 || x->ends[PMIWIRE_COLL_FENCE].rank == PMIWIRE__NONE)
        return;
    for (uint32_t e = x->store.waiting; e != PMIWIRE__NONE; e = pmiwire__key_at(x, e)->next)
        for (uint32_t w = pmiwire__key_at(x, e)->head; w != PMIWIRE__NONE;
             w = x->store.waiters[w].next) {
            const struct pmiwire__waiter *waiter = &x->store.waiters[w];

            if (waiter->remote || !waiter->wait || !waiter->since || waiter->needs == last)
                continue;
            last = waiter->needs; /* many Gets wait for the same rank */
            ask_if_gone(x, last);
        }
}

/* ---- a rank is gone ---- */

/* Ends the rank's own Gets at an entry. Removes the rank from the needs of the other Gets, and ends
 * those that need no other rank. *next_rank is a rank that the remaining Gets need now. */
static void review_waiters(struct pmiwire_exchange *x, uint32_t e, uint32_t rank, uint32_t why,
                           uint32_t *next_rank)
{
    struct pmiwire__keys *s = &x->store;
    const bool home = pmiwire__key_at(x, e)->home == x->me;
    const bool in_flight = pmiwire__key_at(x, e)->flags & PMIWIRE__KEY_ASKED;
    uint32_t w = pmiwire__waiters_take(x, e), next;

    for (; w != PMIWIRE__NONE; w = next) {
        struct pmiwire__waiter *waiter = &s->waiters[w];

        next = waiter->next;
        if (!waiter->remote && waiter->rank == rank) { /* its own */
            pmiwire__waiter_due(x, w, PMIWIRE_ENOENT);
            continue;
        }
        if (!waiter->remote && waiter->wait && waiter->needs == rank) {
            waiter->needs =
                waiter->named ? PMIWIRE__NONE : next_live_rank(x, rank + 1, waiter->rank);
            waiter->wait = waiter->needs != PMIWIRE__NONE;
            waiter->fresh = !waiter->wait;
            waiter->stale = !waiter->wait && in_flight;
            waiter->lost = rank;
            waiter->why = why;
            if (waiter->fresh && home) {
                pmiwire__waiter_due(x, w, PMIWIRE_ENOENT);
                continue;
            }
            if (waiter->wait)
                *next_rank = waiter->needs;
        }
        pmiwire__waiter_keep(x, e, w);
    }
    pmiwire__requests_send(x, e);
    pmiwire__request_withdraw(x, e);
    pmiwire__key_tidy(x, e);
}

static void end_gets_for(struct pmiwire_exchange *x, uint32_t rank, uint32_t why)
{
    uint32_t next, next_rank = PMIWIRE__NONE;

    for (uint32_t e = x->store.waiting; e != PMIWIRE__NONE; e = next) {
        next = pmiwire__key_at(x, e)->next; /* it may be taken off, or put at the front again */
        review_waiters(x, e, rank, why, &next_rank);
    }
    if (next_rank != PMIWIRE__NONE)
        ask_if_gone(x, next_rank); /* ask now, not with the next tick: many ranks may go */
}

int pmiwire_exchange_gone(struct pmiwire_exchange *x, int32_t rank, uint32_t why)
{
    const uint32_t i = pmiwire__local_rank(x, rank);

    if (x->err)
        return x->err;
    if (i == PMIWIRE__NONE || why == 0 || why >= PMIWIRE_GONE_COUNT_)
        return -EINVAL;
    if (x->gone[i])
        return 0;
    pmiwire__exchange_enter(x);
    x->gone[i] = (unsigned char)why;
    pmiwire__limits_rank_gone(x, (uint32_t)rank, why);
    end_gets_for(x, (uint32_t)rank, why);
    pmiwire__exchange_leave(x);
    return 0;
}

int32_t pmiwire_exchange_get_culprit(const struct pmiwire_exchange *x, uint32_t *why)
{
    if (x->miss_rank == PMIWIRE__NONE)
        return -1;
    *why = x->miss_why;
    return (int32_t)x->miss_rank;
}

/* ---- in ---- */

/* Returns whether the Puts of this node's ranks have reached their homes. */
static bool puts_have_arrived(const struct pmiwire_exchange *x)
{
    return x->n_unacked == 0 &&
           !(x->design == PMIWIRE_DESIGN_DKVS && (x->flags & PMIWIRE_EXCHANGE_FENCE_FREE));
}

int pmiwire__on_gone(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                     size_t n)
{
    const uint32_t fences = x->colls[PMIWIRE_COLL_FENCE].number - 1;
    struct question q;
    uint32_t node, from, to, why;

    if ((f->flags & ~PMIWIRE__FRAME_FOUND) || n != sizeof(q) || f->arg >= PMIWIRE_GONE_COUNT_ ||
        (f->flags != 0) != (f->arg != 0) || f->seq > (f->flags ? fences + 1 : 0))
        return PMIWIRE_EPROTO;
    memcpy(&q, p, sizeof(q));
    if (q.rank >= x->n_ranks || q.asker >= x->n_nodes)
        return PMIWIRE_EPROTO;
    node = x->ops.node_of(x->ctx, q.rank);
    from = f->flags ? node : q.asker;
    to = f->flags ? q.asker : node;
    if (node == q.asker || from == x->me || pmiwire__tree_hop(x, from) != f->from ||
        (to != x->me && pmiwire__tree_hop(x, to) == f->from))
        return PMIWIRE_EPROTO;
    why = pmiwire__why_gone(x, q.rank);
    if (to != x->me)
        send_gone(x, to, &q, f->arg, f->seq);
    else if (f->flags && f->seq <= fences)
        end_gets_for(x, q.rank, f->arg);
    else if (!f->flags && why && puts_have_arrived(x))
        send_gone(x, q.asker, &q, why, fences);
    return 0;
}
