/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that cannot complete. A rank that is gone enters no further collective. So a
 * collective that it has not entered never completes, nor does a later one of that kind. Each node
 * keeps, for each kind, the rank that is gone and has entered the fewest (`ends`): that number is
 * the limit.
 *
 * pmiwire_exchange_gone() reports this node's own ranks. With the next tick the node floods the
 * ranks that have lowered a limit over the tree. A node forwards such a frame only if the frame
 * lowers one of its own limits. Limits of a Fence or an Allgather differ by at most one, so the end
 * of a job costs a few frames a node. Before the first tick after a rank's end it costs none.
 *
 * A LIMIT frame may overtake a collective's frames, or follow them: a collective that the limit
 * allows completes, however late, and one that it forbids could never complete.
 */
#include "exchange_internal.h"

void pmiwire__limits_init(struct pmiwire_exchange *x)
{
    memset(x->ends, 0xff, sizeof(x->ends)); /* no rank, and no limit */
    x->miss_rank = PMIWIRE__NONE;
}

/* Returns the number of the collective in progress, or of the next one. */
static uint32_t coll_number(const struct pmiwire_exchange *x, uint32_t kind)
{
    return kind == PMIWIRE_COLL_RING ? x->ring_number : x->colls[kind].number;
}

static bool rank_has_entered(const struct pmiwire_exchange *x, uint32_t kind, uint32_t i)
{
    if (kind == PMIWIRE_COLL_RING)
        return x->ring && x->ring->given[i].in;
    return x->colls[kind].in[i / 8] >> i % 8 & 1;
}

bool pmiwire__is_stopped(const struct pmiwire_exchange *x, uint32_t kind)
{
    return coll_number(x, kind) > x->ends[kind].entered[kind];
}

/* Lowers limits. Returns the kinds, as bits, whose limit this rank lowers. */
static uint32_t lower_limits(struct pmiwire_exchange *x, const struct pmiwire__end *end)
{
    uint32_t lowered = 0;

    for (uint32_t kind = 0; kind < PMIWIRE_COLL_COUNT_; kind++)
        if (end->entered[kind] < x->ends[kind].entered[kind]) {
            x->ends[kind] = *end;
            lowered |= 1u << kind;
        }
    for (uint32_t kind = 0; kind < PMIWIRE_COLL_COUNT_; kind++)
        if ((lowered >> kind & 1) && pmiwire__is_stopped(x, kind)) {
            if (kind == PMIWIRE_COLL_RING)
                pmiwire__ring_stop(x, PMIWIRE_EGONE);
            else
                pmiwire__coll_stop(x, kind);
        }
    return lowered;
}

/* Sends a limit to the neighbours in the tree except one. */
static void flood_limit(struct pmiwire_exchange *x, const struct pmiwire__end *end, uint32_t but)
{
    uint32_t to;

    for (uint32_t i = 0; pmiwire__tree_neighbour(x, i, &to); i++) {
        struct pmiwire__frame f = {.type = PMIWIRE_FRAME_LIMIT};

        if (to != but)
            pmiwire__send_bytes(x, to, &f, end, sizeof(*end));
    }
}

void pmiwire__limits_rank_gone(struct pmiwire_exchange *x, uint32_t rank, uint32_t why)
{
    const uint32_t i = pmiwire__local_rank(x, (int32_t)rank);
    struct pmiwire__end end = {.rank = rank, .why = why};

    for (uint32_t kind = 0; kind < PMIWIRE_COLL_COUNT_; kind++)
        end.entered[kind] = coll_number(x, kind) - 1 + rank_has_entered(x, kind, i);
    x->unsent_limits |= lower_limits(x, &end);
}

void pmiwire__limits_send(struct pmiwire_exchange *x)
{
    uint32_t last = PMIWIRE__NONE;

    for (uint32_t kind = 0; kind < PMIWIRE_COLL_COUNT_; kind++) {
        if (!(x->unsent_limits >> kind & 1) || x->ends[kind].rank == last)
            continue;
        last = x->ends[kind].rank; /* one frame has all kinds of a rank */
        flood_limit(x, &x->ends[kind], x->me);
    }
    x->unsent_limits = 0;
}

int pmiwire__on_limit(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                      size_t n)
{
    struct pmiwire__end end;
    uint32_t node, lowered;

    if (f->flags || f->arg || f->seq || n != sizeof(end))
        return PMIWIRE_EPROTO;
    memcpy(&end, p, sizeof(end));
    if (end.rank >= x->n_ranks || end.why == 0 || end.why >= PMIWIRE_GONE_COUNT_)
        return PMIWIRE_EPROTO;
    node = x->ops.node_of(x->ctx, end.rank);
    if (node == x->me || pmiwire__tree_hop(x, node) != f->from)
        return PMIWIRE_EPROTO;
    /* The rank has entered every collective that completed here. Beyond that it has entered at most
     * the one in progress, or the next one if this node has already contributed: no collective
     * completes anywhere without this node's part. This does not hold for Rings, which are no
     * barrier. */
    for (uint32_t kind = 0; kind < PMIWIRE_COLL_RING; kind++)
        if (end.entered[kind] < x->colls[kind].number - 1 ||
            end.entered[kind] > x->colls[kind].number + x->colls[kind].own_in)
            return PMIWIRE_EPROTO;
    lowered = lower_limits(x, &end);
    x->unsent_limits &= ~lowered;
    if (lowered)
        flood_limit(x, &end, f->from);
    return 0;
}

int32_t pmiwire_exchange_culprit(const struct pmiwire_exchange *x, uint32_t coll, uint32_t *why)
{
    if (coll >= PMIWIRE_COLL_COUNT_ || !pmiwire__is_stopped(x, coll))
        return -1;
    *why = x->ends[coll].why;
    return (int32_t)x->ends[coll].rank;
}
