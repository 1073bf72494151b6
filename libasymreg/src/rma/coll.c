/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives made of puts and of flags in the members' scratch regions. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <asymreg/coll.h>

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "context.h"

#define ROUNDS 24u
#define SPINS  2000u

/* What each member registers: every flag has one writer at a time, and holds the number of the last
 * operation that reached it. */
struct scratch {
    uint64_t barrier[ROUNDS];
    uint64_t gather[ROUNDS];
    uint64_t broadcast;
};
#define CHANNEL_BYTES (ASYMREG_GROUP_SCRATCH_BYTES / ASYMREG_GROUP_CHANNELS)
_Static_assert(sizeof(struct scratch) <= CHANNEL_BYTES, "scratch region");

/* Everything goes to members a power of two after this one, and comes from those a power of two
 * before it. */
enum { AFTER, BEFORE };

struct asymreg_group {
    const struct asymreg_allocator *allocator;
    struct asymreg_worker *worker;
    struct scratch *mine;
    uint32_t n, me;
    int64_t timeout_ns;
    uint64_t barriers, operations; /* so far, from the serial on */
    uint64_t channel_at;
    int (*member)(void *ctx, uint32_t number, struct asymreg_member *where);
    void *ctx;
    uint32_t known[2]; /* bit: which of the partners are */
    struct asymreg_member partner[2][ROUNDS];
};

/* The member `step`, a power of two, away. */
static int partner(struct asymreg_group *g, int which, uint32_t step,
                   const struct asymreg_member **m)
{
    uint32_t k = (uint32_t)__builtin_ctz(step),
             number = (which == AFTER ? g->me + step : g->me + g->n - step) % g->n;
    int rc;

    *m = &g->partner[which][k];
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
        return asymreg__fail(err, -EINVAL, "member %u of %u on channel %u", o.me, o.n, o.channel);
    if (!o.scratch || (uintptr_t)o.scratch % 64 || !o.member == !o.members)
        return asymreg__fail(err, -EINVAL,
                             "a scratch region aligned to 64 bytes, and either `members` or "
                             "`member`, are needed");
    allocator = asymreg__worker_allocator(worker);
    if (!(g = asymreg__alloc(allocator, sizeof(*g))))
        return asymreg__fail(err, -ENOMEM, "no memory for a group");
    g->allocator = allocator;
    g->worker = worker;
    g->channel_at = o.channel * CHANNEL_BYTES;
    g->mine = (struct scratch *)(void *)((char *)o.scratch + g->channel_at);
    g->n = o.n;
    g->me = o.me;
    g->timeout_ns = (int64_t)o.timeout_ms * 1000000;
    g->barriers = g->operations = (uint64_t)o.serial << 32;
    g->member = o.members ? from_array : o.member;
    g->ctx = o.members ? (void *)(uintptr_t)o.members : o.ctx;
    for (uint32_t step = 1; o.members && step < o.n; step *= 2) { /* the array may go */
        partner(g, AFTER, step, &m);
        partner(g, BEFORE, step, &m);
    }
    *group = g;
    return 0;
}

void asymreg_group_destroy(struct asymreg_group *group)
{
    if (group)
        asymreg__free(group->allocator, group);
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Everything put to the member `step` after this one has arrived, then the flag. */
static int raise_flag(struct asymreg_group *g, uint32_t step, size_t offset, uint64_t value)
{
    const struct asymreg_member *m;
    int rc = partner(g, AFTER, step, &m);

    if (rc == 0)
        rc = asymreg_flush(g->worker, m->pe);
    if (rc == 0)
        rc = asymreg_put(g->worker, m->pe, m->addr + g->channel_at + offset, m->id, &value,
                         sizeof(value));
    return rc == 0 ? asymreg_flush(g->worker, m->pe) : rc;
}

/* Until the flag, which the member `step` before this one raises, is at least this. */
static int await_flag(struct asymreg_group *g, uint32_t step, const uint64_t *flag, uint64_t value)
{
    int64_t begin = g->timeout_ns ? now_ns() : 0;
    const struct asymreg_member *m;
    int rc = partner(g, BEFORE, step, &m);

    if (rc < 0)
        return rc;

    for (uint32_t spins = 0; __atomic_load_n(flag, __ATOMIC_ACQUIRE) < value; spins++) {
        if (spins < SPINS)
            continue;
        if ((rc = asymreg_progress(g->worker)) < 0)
            return rc;
        /* A put of nothing asks whether the peer lives; its last act may have been to raise the
         * flag. */
        if (spins % 64 == 0 && (rc = asymreg_put(g->worker, m->pe, 0, ASYMREG_ANY, NULL, 0)) < 0 &&
            __atomic_load_n(flag, __ATOMIC_ACQUIRE) < value)
            return rc;
        if (g->timeout_ns && now_ns() - begin > g->timeout_ns)
            return ASYMREG_ETIMEDOUT;
        sched_yield();
    }
    return 0;
}

int asymreg_barrier(struct asymreg_group *group)
{
    struct asymreg_group *g = group;
    uint64_t number;
    int rc;

    if (!g)
        return -EINVAL;
    number = ++g->barriers;
    for (uint32_t round = 0, step = 1; step < g->n; round++, step *= 2) {
        size_t offset = offsetof(struct scratch, barrier) + round * sizeof(uint64_t);
        if ((rc = raise_flag(g, step, offset, number)) < 0 ||
            (rc = await_flag(g, step, &g->mine->barrier[round], number)) < 0)
            return rc;
    }
    return 0;
}

int asymreg_broadcast(struct asymreg_group *group, uint32_t root, void *buf,
                      const struct asymreg_member *where, size_t bytes)
{
    struct asymreg_group *g = group;
    uint32_t relative, step;
    int rc;

    if (!g || root >= g->n || (bytes && (!buf || !where)))
        return -EINVAL;
    if ((rc = asymreg_barrier(g)) < 0)
        return rc;
    g->operations++;
    relative = (g->me + g->n - root) % g->n;
    /* From the member without my lowest bit, to those with one more bit below it. */
    step = relative ? relative & -relative : 1u << ROUNDS;
    if (relative && (rc = await_flag(g, step, &g->mine->broadcast, g->operations)) < 0)
        return rc;
    for (step /= 2; step; step /= 2) {
        uint32_t to = (g->me + step) % g->n;
        if (step >= g->n - relative)
            continue;
        if (bytes && (rc = asymreg_put(g->worker, where[to].pe, where[to].addr, where[to].id, buf,
                                       bytes)) < 0)
            return rc;
        if ((rc = raise_flag(g, step, offsetof(struct scratch, broadcast), g->operations)) < 0)
            return rc;
    }
    return 0;
}

/* Puts blocks [first, first + count) of `buf`, counted around the end, to the same place of another
 * member. */
static int put_blocks(struct asymreg_group *g, const struct asymreg_member *to, const char *buf,
                      uint32_t first, uint32_t count, size_t bytes)
{
    uint32_t head = count < g->n - first ? count : g->n - first;
    int rc = asymreg_put(g->worker, to->pe, to->addr + first * bytes, to->id, buf + first * bytes,
                         head * bytes);

    return rc == 0 && count > head
               ? asymreg_put(g->worker, to->pe, to->addr, to->id, buf, (count - head) * bytes)
               : rc;
}

int asymreg_allgather(struct asymreg_group *group, const void *src, void *buf,
                      const struct asymreg_member *where, size_t bytes)
{
    struct asymreg_group *g = group;
    int rc;

    if (!g || (bytes && (!src || !buf || !where || bytes > SIZE_MAX / g->n)))
        return -EINVAL;
    if ((rc = asymreg_barrier(g)) < 0)
        return rc;
    g->operations++;
    if (bytes)
        memmove((char *)buf + g->me * bytes, src, bytes);
    /* Before each round a member has the blocks of itself and of the step - 1 members before it. */
    for (uint32_t round = 0, step = 1; step < g->n; round++, step *= 2) {
        uint32_t to = (g->me + step) % g->n, count = step < g->n - step ? step : g->n - step;
        uint32_t first = (g->me + g->n - (count - 1)) % g->n;
        if (bytes && (rc = put_blocks(g, &where[to], buf, first, count, bytes)) < 0)
            return rc;
        if ((rc = raise_flag(g, step, offsetof(struct scratch, gather) + round * sizeof(uint64_t),
                             g->operations)) < 0 ||
            (rc = await_flag(g, step, &g->mine->gather[round], g->operations)) < 0)
            return rc;
    }
    return 0;
}
