/* SPDX-License-Identifier: BSD-3-Clause */
/* Ring: a node sends its first rank's value to the previous node, its last rank's to the next node;
 * values between its own ranks stay on the node. */
#include <errno.h>

#include "exchange_internal.h"

enum { BEFORE, AFTER };

struct prefix {
    uint32_t sum;
    int32_t reserved;
};

static uint32_t ring_neighbour(const struct pmiwire_exchange *x, int side)
{
    if (side == BEFORE)
        return x->me > 0 ? x->me - 1 : x->n_nodes - 1;
    return x->me + 1 < x->n_nodes ? x->me + 1 : 0;
}

static void ring_free(struct pmiwire_exchange *x, struct pmiwire__ring *r)
{
    if (!r)
        return;
    pmiwire__buf_free(&x->mem, &r->values);
    pmiwire__buf_free(&x->mem, &r->from[BEFORE]);
    pmiwire__buf_free(&x->mem, &r->from[AFTER]);
    (void)pmiwire__mem_realloc(&x->mem, r, sizeof(*r) + x->n_local * sizeof(r->given[0]), 0);
}

void pmiwire__rings_fini(struct pmiwire_exchange *x)
{
    ring_free(x, x->ring);
    while (x->rings) {
        struct pmiwire__ring *next = x->rings->next;

        ring_free(x, x->rings);
        x->rings = next;
    }
    for (int i = 0; i < 4; i++)
        pmiwire__buf_free(&x->mem, &x->sides[i / 2].value[i % 2]);
}

static struct pmiwire_str left_of(const struct pmiwire__ring *r, uint32_t i)
{
    return (struct pmiwire_str){r->values.ptr + r->given[i].at, r->given[i].left};
}

static struct pmiwire_str right_of(const struct pmiwire__ring *r, uint32_t i)
{
    return (struct pmiwire_str){r->values.ptr + r->given[i].at + r->given[i].left,
                                r->given[i].right};
}

static void send_side(struct pmiwire_exchange *x, int side, struct pmiwire_str value, uint32_t sum)
{
    struct pmiwire__frame f = {.type = PMIWIRE_FRAME_RING, .seq = x->ring_number};
    struct prefix prefix = {sum, 0};
    struct iovec iov[3] = {
        {NULL, 0}, {&prefix, sizeof(prefix)}, {(void *)(uintptr_t)value.ptr, value.len}};

    f.flags = side == AFTER ? PMIWIRE__FRAME_RIGHT : 0;
    pmiwire__send(x, ring_neighbour(x, side), &f, iov, value.len ? 3 : 2);
}

/* Queues the Ring's result once all local ranks and both neighbours' values are here. */
static void ring_try_complete(struct pmiwire_exchange *x)
{
    struct pmiwire__ring *r = x->ring;
    const uint32_t parity = x->ring_number & 1;

    if (!r || r->n_in < x->n_local)
        return;
    for (int side = 0; side < 2 && x->n_nodes > 1; side++)
        if (!x->sides[side].here[parity])
            return;
    for (int side = 0; side < 2 && x->n_nodes > 1; side++) {
        r->from[side] = x->sides[side].value[parity];
        memset(&x->sides[side].value[parity], 0, sizeof(r->from[side]));
        x->sides[side].here[parity] = false;
    }
    x->ring = NULL;
    x->ring_number++;
    *x->rings_end = r;
    x->rings_end = &r->next;
    if (pmiwire__is_stopped(x, PMIWIRE_COLL_RING))
        pmiwire__ring_stop(x, PMIWIRE_EGONE);
}

static struct pmiwire_str buf_view(const struct pmiwire__buf *b)
{
    return (struct pmiwire_str){b->ptr, b->len};
}

/* Report the first queued ring. */
void pmiwire__ring_report(struct pmiwire_exchange *x)
{
    struct pmiwire__ring *r = x->rings;
    uint32_t n = x->n_local;

    x->rings = r->next;
    if (!x->rings)
        x->rings_end = &x->rings;
    for (uint32_t i = 0; i < n && x->ops.ringed; i++) {
        struct pmiwire_str left = {NULL, 0}, right = {NULL, 0};

        if (!r->given[i].in)
            continue;
        if (r->rc == 0) {
            left = i > 0            ? right_of(r, i - 1)
                   : x->n_nodes > 1 ? buf_view(&r->from[BEFORE])
                                    : right_of(r, n - 1);
            right = i + 1 < n        ? left_of(r, i + 1)
                    : x->n_nodes > 1 ? buf_view(&r->from[AFTER])
                                     : left_of(r, 0);
        }
        x->ops.ringed(x->ctx, x->ranks[i], r->rc, r->rc ? 0 : x->n_below + i, left, right);
    }
    ring_free(x, r);
}

void pmiwire__ring_stop(struct pmiwire_exchange *x, int rc)
{
    for (int i = 0; i < 4; i++) /* here[] stays set: a value may arrive only once */
        pmiwire__buf_free(&x->mem, &x->sides[i / 2].value[i % 2]);
    if (!x->ring)
        return;
    x->ring->rc = rc;
    *x->rings_end = x->ring;
    x->rings_end = &x->ring->next;
    x->ring = NULL;
}

static struct pmiwire__ring *ring_new(struct pmiwire_exchange *x)
{
    const size_t bytes =
        sizeof(struct pmiwire__ring) + x->n_local * sizeof(struct pmiwire__ring_values);
    struct pmiwire__ring *r = pmiwire__mem_realloc(&x->mem, NULL, 0, bytes);

    if (r)
        memset(r, 0, bytes);
    return r;
}

int pmiwire_exchange_ring(struct pmiwire_exchange *x, int32_t rank, struct pmiwire_str left,
                          struct pmiwire_str right)
{
    const size_t most = x->max_frame - PMIWIRE_EXCHANGE_OVERHEAD_BYTES;
    uint32_t i = pmiwire__local_rank(x, rank);
    struct pmiwire__ring *r = x->ring;

    if (x->err)
        return x->err;
    if (i == PMIWIRE__NONE)
        return -EINVAL;
    if (pmiwire__is_stopped(x, PMIWIRE_COLL_RING))
        return PMIWIRE_EGONE;
    if (r && r->given[i].in)
        return PMIWIRE_ESTATE;
    if (left.len > most || right.len > most)
        return PMIWIRE_EVALLEN;
    if (!r)
        r = ring_new(x);
    if (!r)
        return -ENOMEM;
    /* An empty value needs memory too. */
    if (pmiwire__buf_room(&x->mem, &r->values, left.len + right.len + 1) != 0) {
        if (!x->ring)
            ring_free(x, r);
        return -ENOMEM;
    }
    pmiwire__exchange_enter(x);
    x->ring = r;
    r->given[i] =
        (struct pmiwire__ring_values){r->values.len, (uint32_t)left.len, (uint32_t)right.len, true};
    pmiwire__buf_add(&r->values, left.ptr, left.len);
    pmiwire__buf_add(&r->values, right.ptr, right.len);
    if (++r->n_in == x->n_local) {
        if (x->n_nodes > 1) {
            send_side(x, BEFORE, left_of(r, 0), x->n_below);
            send_side(x, AFTER, right_of(r, x->n_local - 1), x->n_below + x->n_local);
        }
        ring_try_complete(x);
    }
    pmiwire__exchange_leave(x);
    return 0;
}

static int check_ring(const struct pmiwire_exchange *x, const struct pmiwire__frame *f,
                      const char *p, size_t n)
{
    const int side = f->flags & PMIWIRE__FRAME_RIGHT ? BEFORE : AFTER;
    struct prefix prefix;
    uint32_t sum;

    if ((f->flags & ~PMIWIRE__FRAME_RIGHT) || f->arg || n < sizeof(prefix) ||
        f->from != ring_neighbour(x, side))
        return PMIWIRE_EPROTO;
    /* A neighbour is one Ring ahead at most: the one after needs our part in this one. */
    if (f->seq != x->ring_number &&
        (f->seq != x->ring_number + 1 || !x->sides[side].here[x->ring_number & 1]))
        return PMIWIRE_EPROTO;
    if (x->sides[side].here[f->seq & 1])
        return PMIWIRE_EPROTO;
    memcpy(&prefix, p, sizeof(prefix));
    if (side == BEFORE)
        sum = x->me > 0 ? x->n_below : x->n_ranks;
    else
        sum = x->me + 1 < x->n_nodes ? x->n_below + x->n_local : 0;
    return prefix.sum == sum && prefix.reserved == 0 ? 0 : PMIWIRE_EPROTO;
}

int pmiwire__on_ring(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                     size_t n)
{
    struct pmiwire__ring_side *side = &x->sides[f->flags & PMIWIRE__FRAME_RIGHT ? BEFORE : AFTER];
    int rc = check_ring(x, f, p, n);
    struct pmiwire__buf *b;

    if (rc != 0)
        return rc;
    if (pmiwire__is_stopped(x, PMIWIRE_COLL_RING)) {
        side->here[f->seq & 1] = true; /* no rank waits for it */
        return 0;
    }
    b = &side->value[f->seq & 1];
    x->mem.no_max = true; /* the node that has sent the value has checked its limit */
    rc = pmiwire__buf_room(&x->mem, b, n);
    x->mem.no_max = false;
    if (rc != 0)
        return rc;
    pmiwire__buf_add(b, p + sizeof(struct prefix), n - sizeof(struct prefix));
    side->here[f->seq & 1] = true;
    ring_try_complete(x);
    return 0;
}
