/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fence and Allgather. Received segments stay as they are: a chunk holds the segments of one frame
 * and the frame's link. This node's own pairs become segments as ranks put them, one chunk each. On
 * the tree the links are the parent, if the node has one, and the children; the node forwards each
 * segment to all links but its own. In dissemination link r is round r: it receives from the node
 * 2^r before this one, and sends to the node 2^r after it the segments of earlier rounds; in the
 * last round only those that the other node lacks. A full link waits at its cursor. Once all
 * segments have arrived and been sent, deliver.c delivers them.
 */
#include <errno.h>

#include "exchange_internal.h"

#define OWN PMIWIRE__NONE /* as a link: this node's part */

/* ---- the shape ---- */

static uint32_t count_rounds(uint32_t n)
{
    uint32_t r = 0;

    while (((uint64_t)1 << r) < n)
        r++;
    return r;
}

static bool is_tree(const struct pmiwire_exchange *x)
{
    return x->fence == PMIWIRE_FENCE_TREE;
}

static uint32_t node_before(const struct pmiwire_exchange *x, uint32_t distance)
{
    return x->me >= distance ? x->me - distance : x->n_nodes - (distance - x->me);
}

/* Returns how many nodes this one is after `node`, counted upwards around the ring. */
static uint32_t distance_from(const struct pmiwire_exchange *x, uint32_t node)
{
    return x->me >= node ? x->me - node : x->n_nodes - (node - x->me);
}

/* Returns the node to which a link sends. */
static uint32_t link_to(const struct pmiwire_exchange *x, uint32_t link)
{
    uint32_t node = 0;

    if (!is_tree(x))
        return (uint32_t)(((uint64_t)x->me + ((uint64_t)1 << link)) % x->n_nodes);
    (void)pmiwire__tree_neighbour(x, link, &node);
    return node;
}

/* Returns the link of a frame from this node; OWN: no link. */
static uint32_t link_from(const struct pmiwire_exchange *x, uint32_t node, uint32_t round)
{
    if (!is_tree(x))
        return round < x->n_links && node_before(x, (uint32_t)1 << round) == node ? round : OWN;
    if (round != 0)
        return OWN;
    if (x->me > 0 && node == pmiwire__tree_parent(x, x->me))
        return 0;
    if (node == 0 || pmiwire__tree_parent(x, node) != x->me)
        return OWN;
    return node - x->arity * x->me - 1 + (x->me > 0);
}

/* Returns whether a segment of `node` may arrive by that link. */
static bool segment_may_come(const struct pmiwire_exchange *x, uint32_t link, uint32_t from,
                             uint32_t node)
{
    if (node >= x->n_nodes)
        return false;
    if (!is_tree(x))
        return distance_from(x, node) >> link == 1;
    if (x->me > 0 && link == 0)
        return !pmiwire__tree_under(x, node, x->me);
    return pmiwire__tree_under(x, node, from);
}

/* Returns whether a segment of `node` leaves by that link. In the last round only those leave that
 * the other node lacks. */
static bool segment_leaves(const struct pmiwire_exchange *x, uint32_t link, uint32_t node)
{
    return is_tree(x) || distance_from(x, node) < x->n_nodes - ((uint32_t)1 << link);
}

/* ---- chunks ---- */

static struct pmiwire__chunk *chunk_new(struct pmiwire_exchange *x, uint32_t link, size_t bytes)
{
    struct pmiwire__chunk *ch = pmiwire__mem_realloc(&x->mem, NULL, 0, sizeof(*ch) + bytes);

    if (ch)
        *ch = (struct pmiwire__chunk){.link = link, .bytes = (uint32_t)bytes};
    return ch;
}

static void chunk_add(struct pmiwire__coll_data *d, struct pmiwire__chunk *ch)
{
    if (d->tail)
        d->tail->next = ch;
    else
        d->head = ch;
    d->tail = ch;
    d->bytes += ch->bytes;
}

void pmiwire__chunk_free(struct pmiwire_exchange *x, struct pmiwire__chunk *ch)
{
    (void)pmiwire__mem_realloc(&x->mem, ch, sizeof(*ch) + ch->bytes, 0);
}

static void chunks_free(struct pmiwire_exchange *x, struct pmiwire__coll_data *d)
{
    while (d->head) {
        struct pmiwire__chunk *next = d->head->next;

        pmiwire__chunk_free(x, d->head);
        d->head = next;
    }
    d->tail = NULL;
    d->bytes = 0;
}

/* ---- life ---- */

int pmiwire__colls_init(struct pmiwire_exchange *x)
{
    const size_t bits = (x->n_local + 7) / 8;
    uint32_t node;

    while (is_tree(x) && pmiwire__tree_neighbour(x, x->n_links, &node))
        x->n_links++;
    if (!is_tree(x))
        x->n_links = count_rounds(x->n_nodes);
    x->all_links = ((uint64_t)1 << x->n_links) - 1;
    for (uint32_t kind = 0; kind < PMIWIRE_COLL_RING; kind++) {
        struct pmiwire__coll *c = &x->colls[kind];

        c->kind = kind;
        c->number = 1;
        c->in = pmiwire__mem_realloc(&x->mem, NULL, 0, bits);
        if (!c->in)
            return -ENOMEM;
        memset(c->in, 0, bits);
        if (x->n_links == 0)
            continue;
        c->cursors = pmiwire__mem_realloc(&x->mem, NULL, 0, x->n_links * sizeof(*c->cursors));
        if (!c->cursors)
            return -ENOMEM;
        memset(c->cursors, 0, x->n_links * sizeof(*c->cursors));
    }
    return 0;
}

void pmiwire__colls_fini(struct pmiwire_exchange *x)
{
    for (uint32_t kind = 0; kind < PMIWIRE_COLL_RING; kind++) {
        struct pmiwire__coll *c = &x->colls[kind];

        (void)pmiwire__mem_realloc(&x->mem, c->in, c->in ? (x->n_local + 7) / 8 : 0, 0);
        (void)pmiwire__mem_realloc(&x->mem, c->cursors,
                                   c->cursors ? x->n_links * sizeof(*c->cursors) : 0, 0);
        pmiwire__buf_free(&x->mem, &c->own);
        chunks_free(x, &c->data[0]);
        chunks_free(x, &c->data[1]);
    }
}

/* ---- out ---- */

/* A frame under construction, from runs of segments. */
struct out_frame {
    struct pmiwire__frame f;
    struct iovec iov[PMIWIRE_EXCHANGE_MAX_IOV];
    uint32_t n_iov, to;
    size_t bytes;
};

static void out_begin(struct out_frame *o)
{
    o->n_iov = 1;
    o->bytes = sizeof(o->f);
}

static void out_send(struct pmiwire_exchange *x, struct out_frame *o, uint8_t flags)
{
    o->f.flags = flags;
    pmiwire__send(x, o->to, &o->f, o->iov, o->n_iov);
    out_begin(o);
}

static bool out_fits(const struct pmiwire_exchange *x, const struct out_frame *o, const char *p,
                     size_t n)
{
    const struct iovec *last = &o->iov[o->n_iov - 1];

    if (o->bytes + n > x->max_frame)
        return false;
    return o->n_iov < PMIWIRE_EXCHANGE_MAX_IOV || (const char *)last->iov_base + last->iov_len == p;
}

static void out_add(struct out_frame *o, const char *p, size_t n)
{
    struct iovec *last = &o->iov[o->n_iov - 1];

    if (o->n_iov > 1 && (const char *)last->iov_base + last->iov_len == p)
        last->iov_len += n;
    else
        o->iov[o->n_iov++] = (struct iovec){(void *)(uintptr_t)p, n};
    o->bytes += n;
}

void pmiwire__link_full(struct pmiwire_exchange *x, uint32_t node)
{
    for (uint32_t link = 0; link < x->n_links; link++)
        if (link_to(x, link) == node)
            x->full |= (uint64_t)1 << link;
}

static bool link_is_full(const struct pmiwire_exchange *x, uint32_t link)
{
    return x->full >> link & 1;
}

/* Returns whether a chunk leaves by a link. In dissemination a round does not send chunks of later
 * rounds. */
static bool link_takes(const struct pmiwire_exchange *x, uint32_t link,
                       const struct pmiwire__chunk *ch)
{
    return ch->link != link && (is_tree(x) || ch->link == OWN || ch->link < link);
}

/* Sends unsent segments by a link while it has room: only full frames, or, with `last`, all
 * segments. The cursor keeps the position. Returns whether LAST has been sent. */
static bool flush_link(struct pmiwire_exchange *x, struct pmiwire__coll *c, uint32_t link,
                       bool last)
{
    struct pmiwire__cursor *at = &c->cursors[link];
    struct out_frame o = {.f = {.type = PMIWIRE_FRAME_COLL, .seq = c->number},
                          .to = link_to(x, link)};
    struct pmiwire__cursor here = *at;

    o.f.arg = (uint16_t)(c->kind << 8 | (is_tree(x) ? 0 : link));
    out_begin(&o);
    if (link_is_full(x, link))
        return false;
    for (;;) {
        struct pmiwire__segment s;
        const char *p;

        if (o.n_iov == 1)
            *at = here;
        if (!here.chunk || here.segment == here.chunk->bytes || !link_takes(x, link, here.chunk)) {
            struct pmiwire__chunk *next =
                here.chunk ? here.chunk->next : c->data[c->number & 1].head;

            if (!next)
                break;
            here = (struct pmiwire__cursor){next, 0};
            continue;
        }
        p = here.chunk->data + here.segment;
        (void)pmiwire__segment_read(p, here.chunk->bytes - here.segment, &s);
        if (segment_leaves(x, link, s.node)) {
            if (!out_fits(x, &o, p, s.whole)) {
                out_send(x, &o, 0);
                *at = here;
                if (link_is_full(x, link))
                    return false;
            }
            out_add(&o, p, s.whole);
        }
        here.segment += s.whole;
    }
    if (last)
        out_send(x, &o, PMIWIRE__FRAME_LAST);
    return last;
}

/* On the tree, forwards a large set while it is still arriving. */
static void flush_early(struct pmiwire_exchange *x, struct pmiwire__coll *c)
{
    if (!is_tree(x) || c->data[c->number & 1].bytes < x->max_frame)
        return;
    for (uint32_t link = 0; link < x->n_links; link++)
        if (!(c->sent >> link & 1))
            (void)flush_link(x, c, link, false);
}

/* ---- the end ---- */

static void reset_sent(const struct pmiwire_exchange *x, struct pmiwire__coll *c)
{
    c->sent = 0;
    if (c->cursors)
        memset(c->cursors, 0, x->n_links * sizeof(*c->cursors));
}

static int complete_coll(struct pmiwire_exchange *x, struct pmiwire__coll *c)
{
    struct pmiwire__coll_data *d = &c->data[c->number & 1];
    int rc;

    x->mem.no_max = true;
    rc = pmiwire__deliver(x, c->kind, c->number, &d->head);
    d->tail = NULL;
    d->bytes = 0;
    if (rc == 0 && c->kind == PMIWIRE_COLL_FENCE) {
        rc = pmiwire__after_fence(x);
        x->stats.n_fences++;
    }
    x->mem.no_max = false;
    if (rc != 0)
        return rc;
    d->last = 0;
    reset_sent(x, c);
    memset(c->in, 0, (x->n_local + 7) / 8);
    c->n_in = 0;
    c->own_in = false;
    c->number++; /* ops->done() follows when the outermost call ends */
    if (pmiwire__is_stopped(x, c->kind))
        pmiwire__coll_stop(x, c->kind);
    return 0;
}

/* `last` stays: later frames are checked as before. */
void pmiwire__coll_stop(struct pmiwire_exchange *x, uint32_t kind)
{
    struct pmiwire__coll *c = &x->colls[kind];

    c->stopped = c->stopped || c->n_in > 0;
    reset_sent(x, c);
    pmiwire__buf_free(&x->mem, &c->own);
    chunks_free(x, &c->data[0]);
    chunks_free(x, &c->data[1]);
    memset(c->in, 0, (x->n_local + 7) / 8);
    c->n_in = 0;
    c->own_in = false;
}

/* ---- progress ---- */

/* Returns whether this link may send LAST. */
static bool link_may_end(const struct pmiwire_exchange *x, const struct pmiwire__coll *c,
                         uint32_t link)
{
    uint64_t last = c->data[c->number & 1].last, need;

    need = is_tree(x) ? x->all_links & ~((uint64_t)1 << link) : ((uint64_t)1 << link) - 1;
    return c->own_in && (last & need) == need;
}

static int advance_coll(struct pmiwire_exchange *x, struct pmiwire__coll *c)
{
    for (uint32_t link = 0; link < x->n_links; link++)
        if (!(c->sent >> link & 1) && link_may_end(x, c, link) && flush_link(x, c, link, true))
            c->sent |= (uint64_t)1 << link;
    if (c->own_in && c->data[c->number & 1].last == x->all_links && c->sent == x->all_links)
        return complete_coll(x, c);
    return 0;
}

/* Makes a segment of this node's first records, for the collective that carries them. Returns 0, or
 * -ENOMEM with nothing changed. */
static int add_own_segment(struct pmiwire_exchange *x, struct pmiwire__coll *c)
{
    size_t took, bytes = pmiwire__segment_pack(x, &c->own, NULL, &took);
    struct pmiwire__chunk *ch = chunk_new(x, OWN, bytes);

    if (!ch)
        return -ENOMEM;
    (void)pmiwire__segment_pack(x, &c->own, ch->data, &took);
    chunk_add(&c->data[(c->number + c->own_in) & 1], ch);
    memmove(c->own.ptr, c->own.ptr + took, c->own.len - took);
    c->own.len -= took;
    return 0;
}

int pmiwire__own_reserve(struct pmiwire_exchange *x, uint32_t kind, size_t bytes)
{
    struct pmiwire__coll *c = &x->colls[kind];

    while (c->own.len && c->own.len + bytes > pmiwire__segment_most(x))
        if (add_own_segment(x, c) != 0)
            return -ENOMEM;
    return pmiwire__buf_room(&x->mem, &c->own, bytes);
}

void pmiwire__own_add(struct pmiwire_exchange *x, uint32_t kind, struct pmiwire_str key,
                      struct pmiwire_str value)
{
    struct pmiwire__coll *c = &x->colls[kind];

    pmiwire__record_write(c->own.ptr + c->own.len, key, value);
    c->own.len += pmiwire__record_bytes(key.len, value.len);
    flush_early(x, c);
}

/* All local ranks are in: adds this node's part to the received ones. Returns 0 or -ENOMEM. */
static int add_own_part(struct pmiwire_exchange *x, struct pmiwire__coll *c)
{
    while (c->own.len)
        if (add_own_segment(x, c) != 0)
            return -ENOMEM;
    pmiwire__buf_reset(&x->mem, &c->own);
    c->own_in = true;
    return 0;
}

static bool waits_for_acks(const struct pmiwire_exchange *x, const struct pmiwire__coll *c)
{
    return c->kind == PMIWIRE_COLL_FENCE && x->n_unacked > 0;
}

/* The last local rank has entered. A failure from here on is not the rank's own, but the whole
 * exchange's. */
static int try_enter_node(struct pmiwire_exchange *x, struct pmiwire__coll *c)
{
    int rc;

    if (c->n_in < x->n_local || c->own_in || waits_for_acks(x, c))
        return 0;
    x->mem.no_max = true; /* the limit was checked when the ranks put their pairs */
    rc = add_own_part(x, c);
    x->mem.no_max = false;
    if (rc == 0) {
        flush_early(x, c);
        rc = advance_coll(x, c);
    }
    if (rc != 0)
        pmiwire__exchange_fail(x, rc, x->me, x->me);
    return rc;
}

int pmiwire_exchange_ready(struct pmiwire_exchange *x, uint32_t node)
{
    if (x->err)
        return x->err;
    if (node >= x->n_nodes || node == x->me)
        return -EINVAL;
    pmiwire__exchange_enter(x);
    for (uint32_t link = 0; link < x->n_links; link++)
        if (link_to(x, link) == node)
            x->full &= ~((uint64_t)1 << link);
    for (uint32_t kind = 0; kind < PMIWIRE_COLL_RING && !x->err; kind++) {
        int rc;

        flush_early(x, &x->colls[kind]);
        rc = advance_coll(x, &x->colls[kind]);
        if (rc != 0)
            pmiwire__exchange_fail(x, rc == PMIWIRE_EPROTO ? -EINVAL : rc, x->me, x->me);
    }
    pmiwire__exchange_leave(x);
    return 0; /* a failure is reported by failed() */
}

void pmiwire__puts_acked(struct pmiwire_exchange *x)
{
    (void)try_enter_node(x, &x->colls[PMIWIRE_COLL_FENCE]);
}

static bool rank_is_in(const struct pmiwire__coll *c, uint32_t i)
{
    return c->in[i / 8] >> i % 8 & 1;
}

/* Marks one rank, or with PMIWIRE__NONE all, as entered. */
static void mark_entered(struct pmiwire_exchange *x, struct pmiwire__coll *c, uint32_t i)
{
    if (i == PMIWIRE__NONE) {
        memset(c->in, 0xff, (x->n_local + 7) / 8);
        c->n_in = x->n_local;
    } else {
        c->in[i / 8] |= (unsigned char)(1 << i % 8);
        c->n_in++;
    }
}

int pmiwire_exchange_fence(struct pmiwire_exchange *x, int32_t rank)
{
    struct pmiwire__coll *c = &x->colls[PMIWIRE_COLL_FENCE];
    uint32_t i = rank == PMIWIRE_RANK_ALL ? PMIWIRE__NONE : pmiwire__local_rank(x, rank);

    if (x->err)
        return x->err;
    if (rank != PMIWIRE_RANK_ALL && i == PMIWIRE__NONE)
        return -EINVAL;
    if (pmiwire__is_stopped(x, PMIWIRE_COLL_FENCE))
        return PMIWIRE_EGONE;
    if (i == PMIWIRE__NONE ? c->n_in > 0 : rank_is_in(c, i))
        return PMIWIRE_ESTATE;
    pmiwire__exchange_enter(x);
    mark_entered(x, c, i);
    (void)try_enter_node(x, c);
    pmiwire__exchange_leave(x);
    return 0; /* a failure is reported by done() */
}

int pmiwire_exchange_allgather(struct pmiwire_exchange *x, int32_t rank, struct pmiwire_str value)
{
    struct pmiwire__coll *c = &x->colls[PMIWIRE_COLL_ALLGATHER];
    uint32_t i = pmiwire__local_rank(x, rank), number = (uint32_t)rank;
    struct pmiwire_str key = {(const char *)&number, sizeof(number)};

    if (x->err)
        return x->err;
    if (i == PMIWIRE__NONE)
        return -EINVAL;
    if (pmiwire__is_stopped(x, PMIWIRE_COLL_ALLGATHER))
        return PMIWIRE_EGONE;
    if (rank_is_in(c, i))
        return PMIWIRE_ESTATE;
    if (value.len > PMIWIRE_EXCHANGE_MAX_VALUE_BYTES ||
        value.len > x->max_frame - PMIWIRE_EXCHANGE_OVERHEAD_BYTES)
        return PMIWIRE_EVALLEN;
    if (pmiwire__own_reserve(x, c->kind, pmiwire__record_bytes(key.len, value.len)) != 0)
        return -ENOMEM;
    pmiwire__exchange_enter(x);
    pmiwire__own_add(x, c->kind, key, value);
    mark_entered(x, c, i);
    (void)try_enter_node(x, c);
    pmiwire__exchange_leave(x);
    return 0;
}

/* ---- in ---- */

/* Checks that an Allgather's keys are ranks of the segment's node. */
static int check_ranks(const struct pmiwire_exchange *x, const struct pmiwire__segment *s)
{
    const char *p = s->runs, *end = s->runs + s->bytes;
    struct pmiwire__run run;
    uint32_t rank;

    while (p < end && pmiwire__run_read(&p, end, &run) == 0) {
        if (run.shared + run.rest != sizeof(rank))
            return PMIWIRE_EPROTO;
        for (uint32_t i = 0; i < run.n; i++) {
            pmiwire__run_key(&run, i, (char *)&rank);
            if (rank >= x->n_ranks || x->ops.node_of(x->ctx, rank) != s->node)
                return PMIWIRE_EPROTO;
        }
    }
    return 0;
}

/* Checks a segment against a limit on its pairs, which may take many times its length. */
static int check_segment(const struct pmiwire_exchange *x, uint32_t kind,
                         const struct pmiwire__segment *s)
{
    uint64_t records;

    if (s->bytes == 0 || pmiwire__segment_records(s, &records) != 0 ||
        records > pmiwire__segment_most(x))
        return PMIWIRE_EPROTO;
    return kind == PMIWIRE_COLL_ALLGATHER ? check_ranks(x, s) : 0;
}

static int check_coll(const struct pmiwire_exchange *x, const struct pmiwire__frame *f,
                      const char *p, size_t n, uint32_t *link)
{
    const uint32_t kind = f->arg >> 8;
    const struct pmiwire__coll *c;
    struct pmiwire__segment s;

    if (kind >= PMIWIRE_COLL_RING || (f->flags & ~PMIWIRE__FRAME_LAST))
        return PMIWIRE_EPROTO;
    c = &x->colls[kind];
    *link = link_from(x, f->from, f->arg & 0xff);
    if (*link == OWN || (c->data[f->seq & 1].last >> *link & 1) || (n == 0 && !f->flags))
        return PMIWIRE_EPROTO;
    /* A neighbour is one collective ahead at most: the one after needs our part in this one. */
    if (f->seq != c->number &&
        (f->seq != c->number + 1 || !(c->data[c->number & 1].last >> *link & 1)))
        return PMIWIRE_EPROTO;
    for (size_t at = 0; at < n; at += s.whole)
        if (pmiwire__segment_read(p + at, n - at, &s) != 0 ||
            !segment_may_come(x, *link, f->from, s.node) || check_segment(x, kind, &s) != 0)
            return PMIWIRE_EPROTO;
    return 0;
}

int pmiwire__on_coll(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                     size_t n)
{
    uint32_t link = OWN;
    int rc = check_coll(x, f, p, n, &link);
    struct pmiwire__coll *c;
    struct pmiwire__coll_data *d;

    if (rc != 0)
        return rc;
    c = &x->colls[f->arg >> 8];
    d = &c->data[f->seq & 1];
    if (n && !pmiwire__is_stopped(x, c->kind)) {
        struct pmiwire__chunk *ch;

        x->mem.no_max = true; /* the node that put the pairs has checked its limit */
        ch = chunk_new(x, link, n);
        x->mem.no_max = false;
        if (!ch)
            return -ENOMEM;
        memcpy(ch->data, p, n);
        chunk_add(d, ch);
    }
    if (f->flags & PMIWIRE__FRAME_LAST)
        d->last |= (uint64_t)1 << link;
    if (f->seq != c->number || pmiwire__is_stopped(x, c->kind))
        return 0;
    flush_early(x, c);
    rc = advance_coll(x, c);
    /* The frame is valid; all segments together exceed a limit. */
    return rc == PMIWIRE_EPROTO ? -EINVAL : rc;
}
