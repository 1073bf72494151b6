/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives: flags in the members' scratch regions. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "coll.h"

#include <asymreg/coll.h>

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "worker.h"

#define ROUNDS       24u
#define SPINS        2000u
#define PIECE_BYTES  ((size_t)1 << 20) /* of a put: the wait can end after each piece */
#define BOUNCE_BYTES 8192u
/* Longest wait of a failed call for its notifications to leave; before that, longest wait for the
 * tables of members that it has not put to yet. */
#define FAREWELL_NS 100000000
#define MEETING_NS  5000000000

/* The scratch region that each member registers. Every flag has one writer at a time; its value is
 * the number of the last operation that reached it. */
struct scratch {
    uint64_t sync[ROUNDS];
    uint64_t round[ROUNDS];
    uint64_t window[ROUNDS]; /* sum of the lengths of the members up to the writer */
    uint64_t broadcast;
    uint64_t failure; /* written by any member that knows of a failure: see pack() */
};
#define CHANNEL_BYTES (ASYMREG_GROUP_SCRATCH_BYTES / ASYMREG_GROUP_CHANNELS)
_Static_assert(sizeof(struct scratch) <= CHANNEL_BYTES, "scratch region");
#define AT(field) offsetof(struct scratch, field)

/* A member sends to the members a power of two after it, and receives from those a power of two
 * before it. */
enum { AFTER, BEFORE };

struct asymreg_group {
    struct asymreg__kept kept; /* after a failure: operations may still be in flight on the members
                                  below */
    const struct asymreg_allocator *allocator;
    struct asymreg_worker *worker;
    struct scratch *mine;
    uint32_t n, me;
    int64_t timeout_ns;
    int64_t limit_ns;           /* of each wait of this call; 0: none */
    uint64_t syncs, operations; /* so far, counted from the serial */
    uint64_t serial;            /* in the upper half */
    uint64_t channel_at;
    int (*member)(void *ctx, uint32_t number, struct asymreg_member *where);
    void *ctx;
    uint32_t known[2]; /* bits: partners whose address is known */
    uint32_t with;     /* the member that the call currently works with */
    struct asymreg_member partner[2][ROUNDS];
    int rc; /* of the call that failed */
    uint64_t failure;
    uint64_t flag, window; /* in flight to a member */
    _Alignas(max_align_t) char bounce[BOUNCE_BYTES];
};

/* Gets the member that is `step`, a power of two, away. */
static int partner(struct asymreg_group *g, int which, uint32_t step,
                   const struct asymreg_member **m)
{
    uint32_t k = (uint32_t)__builtin_ctz(step),
             number = (which == AFTER ? g->me + step : g->me + g->n - step) % g->n;
    int rc;

    *m = &g->partner[which][k];
    g->with = number;
    if (g->known[which] >> k & 1)
        return 0;
    if ((rc = g->member(g->ctx, number, &g->partner[which][k])) != 0)
        return rc < 0 ? rc : -EINVAL;
    g->known[which] |= 1u << k;
    return 0;
}

static int from_array(void *ctx, uint32_t number, struct asymreg_member *where)
{
    *where = ((const struct asymreg_member *)ctx)[number];
    return 0;
}

int asymreg_group_create(struct asymreg_worker *worker, const struct asymreg_group_opts *opts,
                         struct asymreg_group **group, struct asymreg_error *err)
{
    struct asymreg_group_opts o = {.size = sizeof(o)};
    const struct asymreg_allocator *allocator;
    const struct asymreg_member *m;
    struct asymreg_group *g;

    if (!worker || !group || asymreg__opts_take(&o, opts, sizeof(o)) < 0 || o.reserved)
        return asymreg__fail(err, -EINVAL,
                             "no worker, or struct asymreg_group_opts of another release");
    if (!o.n || o.n > 1u << ROUNDS || o.me >= o.n || o.channel >= ASYMREG_GROUP_CHANNELS)
        return asymreg__fail(err, -EINVAL,
                             "member %u of %u on channel %u: a group has 1 to %u members, `me` is "
                             "below `n`, and a channel below %u",
                             o.me, o.n, o.channel, 1u << ROUNDS, ASYMREG_GROUP_CHANNELS);
    if (!o.scratch || (uintptr_t)o.scratch % 64 || !o.member == !o.members)
        return asymreg__fail(err, -EINVAL,
                             "a scratch region aligned to 64 bytes, and either `members` or "
                             "`member`, are needed");
    allocator = worker->context->allocator;
    if (!(g = asymreg__alloc(allocator, sizeof(*g))))
        return asymreg__fail(err, -ENOMEM, "no memory for a group");
    g->allocator = allocator;
    g->worker = worker;
    g->channel_at = o.channel * CHANNEL_BYTES;
    g->mine = (struct scratch *)(void *)((char *)o.scratch + g->channel_at);
    g->n = o.n;
    g->me = o.me;
    g->timeout_ns = (int64_t)o.timeout_ms * 1000000;
    g->serial = g->syncs = g->operations = (uint64_t)o.serial << 32;
    g->member = o.members ? from_array : o.member;
    g->ctx = o.members ? (void *)(uintptr_t)o.members : o.ctx;
    for (uint32_t step = 1; o.members && step < o.n; step *= 2) { /* the caller may free the
                                                                     array */
        partner(g, AFTER, step, &m);
        partner(g, BEFORE, step, &m);
    }
    *group = g;
    return 0;
}

void asymreg_group_destroy(struct asymreg_group *group)
{
    if (!group)
        return;
    if (!group->rc) {
        asymreg__free(group->allocator, group);
        return;
    }
    group->kept.next = group->worker->kept;
    group->worker->kept = &group->kept;
}

/* ---- failing together ---- */

/* How members report a failure: the serial of the group in the upper half, the code and the number
 * of the member concerned in the lower. */
#define MEMBER UINT64_C(0xffffff)
static uint64_t pack(const struct asymreg_group *g, int rc, uint32_t member)
{
    int code = rc <= ASYMREG_ENOREGION && rc > ASYMREG_ENOREGION - 64 ? ASYMREG_ENOREGION + 1 - rc
               : rc < 0 && rc > -192                                  ? 64 - rc
                                                                      : 0;

    if (!code)
        code = ASYMREG_ENOREGION + 1 - ASYMREG_ETRANSPORT;
    return g->serial | (uint64_t)code << 24 | member;
}

/* Returns the failure that another member has reported, or 0. */
static int heard(struct asymreg_group *g)
{
    uint64_t word = __atomic_load_n(&g->mine->failure, __ATOMIC_ACQUIRE);
    int code = (int)(word >> 24 & 255);

    if ((word ^ g->serial) >> 32 || !code)
        return 0;
    if ((word & MEMBER) >= g->n) /* a broken member wrote it */
        word = (word & ~MEMBER) | g->with;
    g->failure = word;
    return code < 65 ? ASYMREG_ENOREGION + 1 - code : 64 - code;
}

/* Returns whether this partner's table has been read. The first operation on a peer waits for
 * it. */
static int has_table(const struct asymreg_group *g, uint32_t pe)
{
    struct asymreg__peer *p =
        pe < ASYMREG_MAX_PEERS ? asymreg__peer_at(g->worker->context, pe) : NULL;

    return p && __atomic_load_n(&p->cache, __ATOMIC_ACQUIRE) != NULL;
}

/* Returns whether this pass notifies this partner. */
static int is_next(const struct asymreg_group *g, int which, uint32_t k, int last)
{
    uint32_t pe = g->partner[which][k].pe;

    if (!(g->known[which] >> k & 1) || has_table(g, pe) == last)
        return 0;
    return !last || (which == AFTER && (g->me + (1u << k)) % g->n != g->with);
}

/* Notifies one partner. */
static int farewell(struct asymreg_group *g, const struct asymreg_member *m, int64_t end)
{
    int64_t left;
    int rc;

    do {
        left = end - asymreg__now_ns();
        g->worker->patience_ns = left > 0 ? left : 1;
        rc = asymreg_put_nb(g->worker, m->pe, m->addr + g->channel_at + AT(failure), m->id,
                            &g->failure, sizeof(g->failure));
    } while (rc == ASYMREG_EBUSY && left > 0 && asymreg_progress(g->worker) >= 0);
    return rc;
}

/*
 * Notifies the partners, without waiting for a member: also the partners before this one, which
 * would otherwise name this member, as it may close now, as the cause. Last come members whose
 * table has not been read; but not members that this one only waits for, nor the member that it has
 * already waited for.
 */
static void tell(struct asymreg_group *g)
{
    uint64_t pending = 0; /* bit: 2 x number of the partner + AFTER or BEFORE */
    int64_t end = asymreg__now_ns() +
                  (g->timeout_ns && g->timeout_ns < MEETING_NS ? g->timeout_ns : MEETING_NS);

    for (int last = 0; last < 2; last++)
        for (uint32_t i = 0; i < 2 * ROUNDS; i++)
            if (!(pending >> i & 1) && is_next(g, (int)(i % 2), i / 2, last) &&
                farewell(g, &g->partner[i % 2][i / 2], end) == 0)
                pending |= UINT64_C(1) << i;
    end = asymreg__now_ns() + FAREWELL_NS;
    do
        for (uint32_t i = 0; i < 2 * ROUNDS; i++)
            if ((pending >> i & 1) &&
                asymreg__try_flush(g->worker, g->partner[i % 2][i / 2].pe) != ASYMREG_PENDING)
                pending &= ~(UINT64_C(1) << i);
    while (pending && asymreg__now_ns() < end);
}

/* Returns a member's PE, if it is known here. */
static uint32_t pe_of(const struct asymreg_group *g, uint32_t member,
                      const struct asymreg_member *where)
{
    if (where && member < g->n)
        return where[member].pe;
    for (uint32_t k = 0; k < ROUNDS; k++)
        for (int which = 0; which < 2; which++)
            if ((g->known[which] >> k & 1) &&
                member == (which == AFTER ? g->me + (1u << k) : g->me + g->n - (1u << k)) % g->n)
                return g->partner[which][k].pe;
    return ASYMREG__NO_PE;
}

/* Ends a call. */
static int leave(struct asymreg_group *g, int rc, const struct asymreg_member *where,
                 struct asymreg_error *err)
{
    uint32_t member;
    int known;

    if (rc < 0 && !g->rc) {
        if (!g->failure && (known = heard(g)) < 0) /* why the other member has gone */
            rc = known;
        if (!g->failure)
            g->failure = pack(g, rc, g->with);
        g->rc = rc;
        tell(g);
    }
    g->worker->patience_ns = 0;
    if (rc >= 0 || !err)
        return rc < 0 ? g->rc : 0;
    member = (uint32_t)(g->failure & MEMBER);
    asymreg__fail(err, g->rc, "member %u of %u: %s", member, g->n, asymreg_strerror(g->rc));
    err->member = member;
    err->pe = pe_of(g, member, where);
    return g->rc;
}

/* Begins a call: finds the partners, which must be notified of a failure. */
static int enter_within(struct asymreg_group *g, int64_t limit_ns)
{
    const struct asymreg_member *m;
    int rc = g->rc ? g->rc : heard(g);

    g->worker->patience_ns = g->limit_ns = limit_ns;
    for (uint32_t step = 1; rc == 0 && step < g->n; step *= 2)
        if ((rc = partner(g, AFTER, step, &m)) == 0)
            rc = partner(g, BEFORE, step, &m);
    return rc;
}

static int enter(struct asymreg_group *g)
{
    return enter_within(g, g->timeout_ns);
}

/* ---- waiting ---- */

struct wait {
    uint32_t turns;
    int64_t begin;
};

/* Makes another turn of a wait for a member. Returns 0, or the error that ends the wait. */
static int turn(struct asymreg_group *g, struct wait *w)
{
    int rc = heard(g);

    if (rc < 0 || ++w->turns < SPINS || !g->limit_ns)
        return rc;
    if (!w->begin)
        w->begin = asymreg__now_ns();
    return asymreg__now_ns() - w->begin > g->limit_ns ? ASYMREG_ETIMEDOUT : 0;
}

/* Waits until all operations begun on this peer, or on all peers, are complete. A turn without
 * progress yields the processor, for milliseconds on a busy machine: so it reads the clock soon. */
static int settle(struct asymreg_group *g, uint32_t pe)
{
    struct wait w = {.turns = SPINS - 8};
    int rc, ends;

    while ((rc = asymreg__try_flush(g->worker, pe)) == ASYMREG_PENDING)
        if ((ends = turn(g, &w)) < 0)
            return ends;
    return rc;
}

/* Returns whether to begin an operation again because its peer changed the table faster than it
 * could be read. Makes a long turn of a wait; otherwise *rc has the error. */
static int was_busy(struct asymreg_group *g, struct wait *w, int *rc)
{
    if (*rc != ASYMREG_EBUSY)
        return 0;
    w->turns += SPINS;
    if ((*rc = turn(g, w)) < 0 || (*rc = asymreg_progress(g->worker)) < 0)
        return 0;
    sched_yield();
    return 1;
}

/* Begins a put. Of a longer put, all pieces but the last are complete on return. */
static int begin_put(struct asymreg_group *g, const struct asymreg_member *m, uint64_t at,
                     const char *src, size_t bytes)
{
    size_t n;
    int rc = 0;

    for (; bytes && rc == 0; at += n, src += n, bytes -= n) {
        struct wait w = {0};
        n = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
        do
            rc = asymreg_put_nb(g->worker, m->pe, m->addr + at, m->id, src, n);
        while (was_busy(g, &w, &rc));
        if (rc == 0 && n < bytes)
            rc = settle(g, m->pe);
    }
    return rc;
}

/* Returns whether to retry an operation that ended with this error. After a flush that returns the
 * error, this side's copy of the peer's table is new. */
static int again(const struct asymreg_member *m, int rc)
{
    return rc == ASYMREG_ESTALE && m->id == ASYMREG_ANY;
}

static int put(struct asymreg_group *g, const struct asymreg_member *m, uint64_t at,
               const void *src, size_t bytes)
{
    int rc;

    for (int tries = 0;; tries++) {
        if ((rc = begin_put(g, m, at, src, bytes)) == 0)
            rc = settle(g, m->pe);
        if (tries || !again(m, rc))
            return rc;
    }
}

static int get(struct asymreg_group *g, const struct asymreg_member *m, uint64_t at, void *dst,
               size_t bytes)
{
    int rc;

    for (int tries = 0;; tries++) {
        struct wait w = {0};
        do
            rc = asymreg_get_nb(g->worker, m->pe, m->addr + at, m->id, dst, bytes);
        while (was_busy(g, &w, &rc));
        if (rc == 0)
            rc = settle(g, m->pe);
        if (tries || !again(m, rc))
            return rc;
    }
}

/* Stores a word in the scratch region of the member `step` after this one. */
static int tell_after(struct asymreg_group *g, uint32_t step, size_t offset, const uint64_t *word)
{
    const struct asymreg_member *m;
    int rc = partner(g, AFTER, step, &m);

    return rc < 0 ? rc : put(g, m, g->channel_at + offset, word, sizeof(*word));
}

/* A member that is gone is not an error here: it may have seen the flag, returned and closed before
 * this side learned that the flag had arrived. If it has died, the members that wait for it
 * notice. */
static int raise_flag(struct asymreg_group *g, uint32_t step, size_t offset, uint64_t value)
{
    int rc;

    g->flag = value;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    rc = tell_after(g, step, offset, &g->flag);
    return rc == ASYMREG_EPEER ? 0 : rc;
}

/* Waits until the flag that the member `step` before this one raises is at least `value`. */
static int await_flag(struct asymreg_group *g, uint32_t step, const uint64_t *flag, uint64_t value)
{
    const struct asymreg_member *m;
    struct wait w = {0};
    int rc = partner(g, BEFORE, step, &m);

    while (rc == 0 && __atomic_load_n(flag, __ATOMIC_ACQUIRE) < value) {
        if ((rc = turn(g, &w)) < 0 || w.turns < SPINS)
            continue;
        if ((rc = asymreg_progress(g->worker)) < 0)
            return rc;
        /* A put of 0 bytes checks that the peer is alive; it may have raised the flag just before
         * its end. */
        if (w.turns % 64 == 0 &&
            (rc = asymreg_put(g->worker, m->pe, 0, ASYMREG_ANY, NULL, 0)) < 0 &&
            rc != ASYMREG_EBUSY && __atomic_load_n(flag, __ATOMIC_ACQUIRE) < value)
            return rc;
        rc = 0;
        sched_yield();
    }
    return rc;
}

/* ---- sync and barrier ---- */

static uint64_t add_lengths(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Syncs. *sum, a length, becomes the sum over all members up to this one; UINT64_MAX: overflow. */
static int sync_members(struct asymreg_group *g, uint64_t *sum)
{
    uint64_t number = ++g->syncs;
    int rc;

    for (uint32_t round = 0, step = 1; step < g->n; round++, step *= 2) {
        size_t at = round * sizeof(uint64_t);
        if (sum) {
            g->window = *sum;
            if ((rc = tell_after(g, step, AT(window) + at, &g->window)) < 0)
                return rc;
        }
        if ((rc = raise_flag(g, step, AT(sync) + at, number)) < 0 ||
            (rc = await_flag(g, step, &g->mine->sync[round], number)) < 0)
            return rc;
        if (sum && g->me >= step)
            *sum = add_lengths(*sum, __atomic_load_n(&g->mine->window[round], __ATOMIC_RELAXED));
    }
    return 0;
}

int asymreg_sync(struct asymreg_group *group, struct asymreg_error *err)
{
    int rc;

    if (!group)
        return asymreg__fail(err, -EINVAL, "no group");
    if ((rc = enter(group)) == 0)
        rc = sync_members(group, NULL);
    return leave(group, rc, NULL, err);
}

/* The members wait for each other twice as long as for the flush, as another member's flush may
 * take all of its time. */
int asymreg_barrier(struct asymreg_group *group, struct asymreg_error *err)
{
    int flushed = 0, rc;

    if (!group)
        return asymreg__fail(err, -EINVAL, "no group");
    if (!group->rc) {
        group->worker->patience_ns = group->limit_ns = group->timeout_ns;
        flushed = settle(group, ASYMREG_ALL_PEERS);
        if (flushed == ASYMREG_ETIMEDOUT && group->worker->flush_error) {
            flushed = group->worker->flush_error;
            group->worker->flush_error = 0;
        }
    }
    if ((rc = enter_within(group, 2 * group->timeout_ns)) == 0)
        rc = sync_members(group, NULL);
    rc = leave(group, rc, NULL, err);
    if (rc < 0 || flushed == 0)
        return rc;
    return asymreg__fail(err, flushed, "operations begun before the barrier: %s",
                         asymreg_strerror(flushed));
}

/* ---- broadcast ---- */

/* Copies down a binomial tree: from the member without this one's lowest bit, to the members with
 * one more bit below that. */
static int spread(struct asymreg_group *g, uint32_t root, void *buf,
                  const struct asymreg_member *where, size_t bytes)
{
    uint32_t relative = (g->me + g->n - root) % g->n;
    uint32_t step = relative ? relative & -relative : 1u << ROUNDS;
    int rc;

    if (relative && (rc = await_flag(g, step, &g->mine->broadcast, g->operations)) < 0)
        return rc;
    for (step /= 2; step; step /= 2) {
        uint32_t to = (g->me + step) % g->n;
        if (step >= g->n - relative)
            continue;
        g->with = to;
        if ((bytes && (rc = put(g, &where[to], 0, buf, bytes)) < 0) ||
            (rc = raise_flag(g, step, AT(broadcast), g->operations)) < 0)
            return rc;
    }
    return 0;
}

int asymreg_broadcast(struct asymreg_group *group, uint32_t root, void *buf,
                      const struct asymreg_member *where, size_t bytes, struct asymreg_error *err)
{
    int rc;

    if (!group || (bytes && (!buf || !where)))
        return asymreg__fail(err, -EINVAL, "group, buf or where is NULL");
    if (root >= group->n)
        return asymreg__fail(err, -EINVAL, "root %u of %u members", root, group->n);
    if ((rc = enter(group)) == 0 && (rc = sync_members(group, NULL)) == 0) {
        group->operations++;
        rc = spread(group, root, buf, where, bytes);
    }
    return leave(group, rc, where, err);
}

/* ---- all-gather ---- */

/* Puts blocks [first, first + count) of `buf`, wrapping around at the end, to the same places at
 * another member. */
static int put_blocks(struct asymreg_group *g, const struct asymreg_member *to, const char *buf,
                      uint32_t first, uint32_t count, size_t bytes)
{
    uint32_t head = count < g->n - first ? count : g->n - first;
    int rc = put(g, to, first * bytes, buf + first * bytes, head * bytes);

    return rc == 0 && count > head ? put(g, to, 0, buf, (count - head) * bytes) : rc;
}

static int gather(struct asymreg_group *g, char *buf, const struct asymreg_member *where,
                  size_t bytes)
{
    int rc;

    /* Before each round a member has the blocks of itself and of the step - 1 members before it. */
    for (uint32_t round = 0, step = 1; step < g->n; round++, step *= 2) {
        uint32_t to = (g->me + step) % g->n, count = step < g->n - step ? step : g->n - step;
        uint32_t first = (g->me + g->n - (count - 1)) % g->n;
        g->with = to;
        if ((bytes && (rc = put_blocks(g, &where[to], buf, first, count, bytes)) < 0) ||
            (rc = raise_flag(g, step, AT(round) + round * sizeof(uint64_t), g->operations)) < 0 ||
            (rc = await_flag(g, step, &g->mine->round[round], g->operations)) < 0)
            return rc;
    }
    return 0;
}

int asymreg_allgather(struct asymreg_group *group, const void *src, void *buf,
                      const struct asymreg_member *where, size_t bytes, struct asymreg_error *err)
{
    int rc;

    if (!group || (bytes && (!src || !buf || !where)))
        return asymreg__fail(err, -EINVAL, "group, src, buf or where is NULL");
    if (bytes > SIZE_MAX / group->n)
        return asymreg__fail(err, -EINVAL, "%u blocks of %zu bytes", group->n, bytes);
    if ((rc = enter(group)) == 0 && (rc = sync_members(group, NULL)) == 0) {
        group->operations++;
        if (bytes)
            memmove((char *)buf + group->me * bytes, src, bytes);
        rc = gather(group, buf, where, bytes);
    }
    return leave(group, rc, where, err);
}

/* ---- a block from each member to each ---- */

struct blocks {
    const char *src;
    size_t apart; /* bytes from one member's block to the next one's */
    uint64_t at;  /* offset in the others' buffers */
    const struct asymreg_strides *strides;
};

static int begin_block(struct asymreg_group *g, uint32_t to, const struct asymreg_member *m,
                       const struct blocks *b)
{
    const struct asymreg_strides *s = b->strides;
    const char *src = b->src + to * b->apart;
    int rc = 0;

    g->with = to;
    if (s->here == 1 && s->there == 1)
        return begin_put(g, m, b->at, src, s->n * s->element_bytes);
    for (size_t i = 0; i < s->n && rc == 0; i++) {
        rc = begin_put(g, m, b->at + i * s->there * s->element_bytes,
                       src + i * s->here * s->element_bytes, s->element_bytes);
        if (rc == 0 && i % 256 == 255)
            rc = settle(g, m->pe);
    }
    return rc;
}

/* Begins all operations before it waits for any; each member begins with a different target. */
static int exchange(struct asymreg_group *g, const struct asymreg_member *where,
                    const struct blocks *b)
{
    int rc;

    for (uint32_t i = 1; i < g->n; i++) {
        uint32_t to = (g->me + i) % g->n;
        if (again(&where[to], rc = begin_block(g, to, &where[to], b)))
            rc = begin_block(g, to, &where[to], b);
        if (rc < 0)
            return rc;
    }
    for (uint32_t i = 1; i < g->n; i++) {
        uint32_t to = (g->me + i) % g->n;
        g->with = to;
        if (again(&where[to], rc = settle(g, where[to].pe)) &&
            (rc = begin_block(g, to, &where[to], b)) == 0)
            rc = settle(g, where[to].pe);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int collect(struct asymreg_group *g, const void *src, size_t bytes, char *buf, size_t room,
                   const struct asymreg_member *where)
{
    const struct asymreg_strides whole = {.element_bytes = bytes, .n = 1, .here = 1, .there = 1};
    struct blocks b = {.src = src, .strides = &whole};
    uint64_t sum = bytes;
    int rc = sync_members(g, &sum);

    if (rc < 0)
        return rc;
    g->with = g->me;
    if (sum == UINT64_MAX || sum > room)
        return sum == UINT64_MAX ? ASYMREG_EOVERFLOW : ASYMREG_ERANGE;
    b.at = sum - bytes;
    if (bytes)
        memcpy(buf + b.at, src, bytes);
    return bytes && (rc = exchange(g, where, &b)) < 0 ? rc : sync_members(g, NULL);
}

int asymreg_collect(struct asymreg_group *group, const void *src, size_t bytes, void *buf,
                    size_t room, const struct asymreg_member *where, struct asymreg_error *err)
{
    int rc;

    if (!group || (bytes && !src) || (room && !buf) || !where)
        return asymreg__fail(err, -EINVAL, "group, src, buf or where is NULL");
    if ((rc = enter(group)) == 0)
        rc = collect(group, src, bytes, buf, room, where);
    return leave(group, rc, where, err);
}

int asymreg_alltoall(struct asymreg_group *group, const void *src, void *buf,
                     const struct asymreg_member *where, const struct asymreg_strides *strides,
                     struct asymreg_error *err)
{
    struct blocks b = {.src = src, .strides = strides};
    size_t all, step, there;
    int rc;

    if (!group || !strides || !strides->element_bytes)
        return asymreg__fail(err, -EINVAL, "group or strides is NULL, or element_bytes is 0");
    if (strides->n && (!src || !buf || !where))
        return asymreg__fail(err, -EINVAL, "src, buf or where is NULL");
    if (__builtin_mul_overflow(strides->n, strides->element_bytes, &step) ||
        __builtin_mul_overflow(step, strides->here, &b.apart) ||
        __builtin_mul_overflow(step, strides->there, &there) ||
        __builtin_mul_overflow(b.apart, group->n, &all) ||
        __builtin_mul_overflow(there, group->n, &all))
        return asymreg__fail(err, ASYMREG_EOVERFLOW,
                             "%u blocks of %zu elements of %zu bytes, %zu and %zu apart", group->n,
                             strides->n, strides->element_bytes, strides->here, strides->there);
    b.at = group->me * there;
    if ((rc = enter(group)) == 0 && (rc = sync_members(group, NULL)) == 0) {
        for (size_t i = 0; i < strides->n; i++)
            memcpy((char *)buf + b.at + i * strides->there * strides->element_bytes,
                   b.src + group->me * b.apart + i * strides->here * strides->element_bytes,
                   strides->element_bytes);
        if (!strides->n || (rc = exchange(group, where, &b)) == 0)
            rc = sync_members(group, NULL);
    }
    return leave(group, rc, where, err);
}

/* ---- reduction ---- */

struct reduction {
    asymreg__combine_fn *combine;
    char *buf;
    size_t bytes, element_bytes;
};

/* Combines the elements of a lower member with those here. */
static int combine_with(struct asymreg_group *g, const struct asymreg_member *lower,
                        const struct reduction *r)
{
    size_t most = BOUNCE_BYTES / r->element_bytes * r->element_bytes, n;
    int rc;

    for (size_t at = 0; at < r->bytes; at += n) {
        n = r->bytes - at < most ? r->bytes - at : most;
        if ((rc = get(g, lower, at, g->bounce, n)) < 0)
            return rc;
        r->combine(r->buf + at, g->bounce, n / r->element_bytes);
    }
    return 0;
}

/*
 * Combines up a binomial tree to the last member: a parent has a higher number than its children,
 * and flags go to members after this one. When the last member has all elements, every member has
 * entered the call: no buffer is written before.
 */
static int reduce(struct asymreg_group *g, const struct reduction *r,
                  const struct asymreg_member *where)
{
    uint32_t relative = g->n - 1 - g->me, round = 0, step = 1;
    uint64_t number = ++g->operations;
    int rc;

    for (; step < g->n && !(relative & step); round++, step *= 2) {
        if (step > g->me)
            continue;
        if ((rc = await_flag(g, step, &g->mine->round[round], number)) < 0 ||
            (r->bytes && (rc = combine_with(g, &where[g->me - step], r)) < 0))
            return rc;
    }
    if (relative && (rc = raise_flag(g, step, AT(round) + round * sizeof(uint64_t), number)) < 0)
        return rc;
    return spread(g, g->n - 1, r->buf, where, r->bytes);
}

int asymreg_reduce(struct asymreg_group *group, uint32_t op, uint32_t type, const void *src,
                   void *buf, const struct asymreg_member *where, size_t n,
                   struct asymreg_error *err)
{
    struct reduction r = {.buf = buf};
    size_t align;
    int rc;

    if (!group || (n && (!src || !buf || !where)))
        return asymreg__fail(err, -EINVAL, "group, src, buf or where is NULL");
    if (!(r.combine = asymreg__combine(op, type, &r.element_bytes, &align)))
        return asymreg__fail(err, -EINVAL, "no operation %u on elements of type %u", op, type);
    if ((uintptr_t)buf % align)
        return asymreg__fail(err, ASYMREG_EALIGN,
                             "the result of type %u needs %zu bytes' alignment", type, align);
    if (__builtin_mul_overflow(n, r.element_bytes, &r.bytes))
        return asymreg__fail(err, ASYMREG_EOVERFLOW, "%zu elements of %zu bytes", n,
                             r.element_bytes);
    if ((rc = enter(group)) == 0) {
        if (n)
            memmove(buf, src, r.bytes);
        rc = reduce(group, &r, where);
    }
    return leave(group, rc, where, err);
}
