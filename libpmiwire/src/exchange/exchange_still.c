/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of Gets that wait for a key that nobody is left to put: every rank has gone, or is
 * blocked until the exchange tells it something, and no frame is on its way that would.
 *
 * That is found by four counters (F. Mattern, "Algorithms for Distributed Termination Detection",
 * Distributed Computing 2, 1987, section 7). A wave goes down the tree (PROBE) and comes up again
 * (REPLY) with two sums over all nodes: frames sent and frames received. A node replies when its
 * ops->still() says that no rank here will put anything, and its children have replied; until then
 * it holds the wave, which costs nothing. When two waves, one after the other, bring four equal
 * sums, then nothing was on its way when the second began, and no node had received anything since
 * it replied to the first: they had all been still at that one moment. What ranks do here, and what
 * is told them, counts as if it had been sent and received: so what is done without a frame, by a
 * rank whose Get has run out of time perhaps, is seen too.
 *
 * Then an END goes down. A key's home ends the Gets that it had before its own reply to the wave:
 * those of its ranks at once, those of other nodes by an ANSWER that names the wave. A node that
 * gets one ends the Gets that it had before its own reply, and asks again if there are later ones.
 * So a request has one answer, whatever happens meanwhile.
 *
 * Waves begin when a Get has waited from one tick to another and its node has told the root (NEED).
 * In a job without such Gets there are no frames of this kind. `asked` keeps NEEDs few: it is
 * forgotten with each PROBE and END, and stands after a REPLY that has told of waiting Gets, for
 * the root goes on by itself then.
 */
#include "exchange_internal.h"

struct sums {
    uint64_t sent, received, waiting;
};

void pmiwire__xstill_init(struct pmiwire_exchange *x)
{
    const uint32_t above = x->me > 0; /* the parent is the first neighbour */
    uint32_t node, n = 0;

    while (pmiwire_exchange_neighbour(x, above + n++, &node) == 0)
        x->still.all_children = x->still.all_children << 1 | 1;
    x->still.before = UINT64_MAX;
}

static bool is_held(const struct pmiwire_exchange *x)
{
    return x->still.wave != x->still.replied;
}

/* Which child a node is, from 0; PMIWIRE__XNONE: none. */
static uint32_t child_of(const struct pmiwire_exchange *x, uint32_t node)
{
    return node > 0 && pmiwire__xparent(x, node) == x->me ? node - x->arity * x->me - 1
                                                          : PMIWIRE__XNONE;
}

/* ---- out ---- */

static void tell(struct pmiwire_exchange *x, uint32_t node, uint16_t kind, uint32_t wave,
                 const struct sums *sums)
{
    struct pmiwire__frame f = {.type = PMIWIRE_XF_STILL, .arg = kind, .seq = wave};

    pmiwire__xsend1(x, node, &f, sums, sums ? sizeof(*sums) : 0);
}

static void tell_children(struct pmiwire_exchange *x, uint16_t kind, uint32_t wave)
{
    const uint32_t first = x->arity * x->me + 1;
    uint32_t i;

    for (i = 0; x->still.all_children >> i & 1; i++)
        tell(x, first + i, kind, wave, NULL);
}

/* A Get waits here or below. */
static void ask(struct pmiwire_exchange *x)
{
    if (!x->still.asked && x->me > 0)
        tell(x, pmiwire__xparent(x, x->me), PMIWIRE_STILL_NEED, 0, NULL);
    x->still.asked = true;
}

static void begin(struct pmiwire_exchange *x, uint32_t wave)
{
    struct pmiwire__xstill *s = &x->still;

    s->wave = wave;
    s->asked = false;
    s->children = 0;
    s->sent = s->received = s->waiting = 0;
    tell_children(x, PMIWIRE_STILL_PROBE, wave);
}

static void end(struct pmiwire_exchange *x, uint32_t wave)
{
    x->still.ended = wave;
    x->still.asked = false;
    tell_children(x, PMIWIRE_STILL_END, wave);
    pmiwire__xend_waits(x, wave);
}

/* ---- a wave's end ---- */

/* All that has been sent and received here, but for what this file sends. */
static struct sums own_sums(const struct pmiwire_exchange *x)
{
    struct sums sums = {x->still.n_events, x->still.n_events, x->store.n_own};
    uint32_t type;

    for (type = 0; type < PMIWIRE_XF_COUNT_; type++)
        if (type != PMIWIRE_XF_STILL) {
            sums.sent += x->stats.frames[type].n_sent;
            sums.received += x->stats.frames[type].n_received;
        }
    return sums;
}

/* The root has the sums of all. */
static void judge(struct pmiwire_exchange *x, const struct sums *all)
{
    struct pmiwire__xstill *s = &x->still;
    const uint64_t before = s->before;

    s->before = all->received;
    if (all->waiting == 0)
        return;
    /* The fourth sum is equal then: a node that has received nothing since it replied to the wave
     * before has sent nothing either. */
    if (before == all->sent && all->sent == all->received) {
        s->before = UINT64_MAX;
        end(x, s->wave);
        return;
    }
    s->asked = true;
    if (!s->second && all->sent == all->received && s->wave < UINT32_MAX) {
        s->second = true; /* at once, and when that fails with the next tick */
        begin(x, s->wave + 1);
    }
}

static void reply(struct pmiwire_exchange *x)
{
    struct pmiwire__xstill *s = &x->still;
    struct sums sums = own_sums(x);

    sums.sent += s->sent;
    sums.received += s->received;
    sums.waiting += s->waiting;
    s->replied = s->wave;
    if (x->me == 0) {
        judge(x, &sums);
    } else {
        s->asked = sums.waiting > 0;
        tell(x, pmiwire__xparent(x, x->me), PMIWIRE_STILL_REPLY, s->wave, &sums);
    }
}

void pmiwire__xstill_look(struct pmiwire_exchange *x)
{
    const struct pmiwire__xstill *s = &x->still;

    if (x->depth > 0 || !x->ops.still)
        return;
    pmiwire__xenter(x);
    while (!x->err && is_held(x) && s->children == s->all_children && x->ops.still(x->ctx))
        reply(x);
    pmiwire__xleave(x);
}

void pmiwire__xstill_tick(struct pmiwire_exchange *x, bool old)
{
    struct pmiwire__xstill *s = &x->still;

    if (!x->ops.still)
        return;
    if (old && !is_held(x)) /* else the reply tells of it */
        ask(x);
    if (x->me == 0 && s->asked && !is_held(x) && s->wave < UINT32_MAX) {
        s->second = false;
        begin(x, s->wave + 1);
    }
}

/* ---- in ---- */

static int check_from_above(const struct pmiwire_exchange *x, const struct pmiwire__frame *f,
                            size_t n)
{
    const struct pmiwire__xstill *s = &x->still;

    if (x->me == 0 || f->from != pmiwire__xparent(x, x->me) || n != 0 || is_held(x))
        return PMIWIRE_EPROTO;
    if (f->arg == PMIWIRE_STILL_PROBE ? f->seq != s->wave + 1 || f->seq == 0
                                      : f->seq != s->replied || f->seq == s->ended)
        return PMIWIRE_EPROTO;
    return 0;
}

static int check_from_below(const struct pmiwire_exchange *x, const struct pmiwire__frame *f,
                            size_t n)
{
    const struct pmiwire__xstill *s = &x->still;
    const uint32_t child = child_of(x, f->from);

    if (child == PMIWIRE__XNONE)
        return PMIWIRE_EPROTO;
    if (f->arg == PMIWIRE_STILL_NEED)
        return f->seq == 0 && n == 0 ? 0 : PMIWIRE_EPROTO;
    if (n != sizeof(struct sums) || !is_held(x) || f->seq != s->wave || (s->children >> child & 1))
        return PMIWIRE_EPROTO;
    return 0;
}

static void on_reply(struct pmiwire_exchange *x, uint32_t child, const char *p)
{
    struct pmiwire__xstill *s = &x->still;
    struct sums sums;

    memcpy(&sums, p, sizeof(sums));
    s->children |= (uint64_t)1 << child;
    s->sent += sums.sent;
    s->received += sums.received;
    s->waiting += sums.waiting;
}

int pmiwire__xon_still(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                       size_t n)
{
    const bool from_above = f->arg == PMIWIRE_STILL_PROBE || f->arg == PMIWIRE_STILL_END;
    int rc;

    if (f->flags || f->arg < PMIWIRE_STILL_NEED || f->arg > PMIWIRE_STILL_END)
        return PMIWIRE_EPROTO;
    rc = from_above ? check_from_above(x, f, n) : check_from_below(x, f, n);
    if (rc != 0)
        return rc;
    switch (f->arg) {
    case PMIWIRE_STILL_NEED: ask(x); break;
    case PMIWIRE_STILL_PROBE: begin(x, f->seq); break;
    case PMIWIRE_STILL_REPLY: on_reply(x, child_of(x, f->from), p); break;
    default: end(x, f->seq);
    }
    return 0;
}
