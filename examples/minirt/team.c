/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Teams: a map from librankmap, bound to the address vector, and a slot of flags for barriers. What a team is, every member computes for
 * itself; its members need to agree on the slot alone, the lowest that is free at all members of the parent.
 */
#include "internal.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SPINS 200u
#define LOOK_NS UINT64_C(50000000) /* how often a process that waits asks whether the one waited for lives */

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Until `from` has raised this round's flag. It may be one barrier ahead, never more. */
static int await(struct minirt_team *t, const uint64_t *flag, uint32_t from)
{
    struct minirt *rt = t->rt;
    uint64_t asked = now_ns(), seen;
    int rc;

    for (uint32_t spins = 0; seen = __atomic_load_n(flag, __ATOMIC_ACQUIRE), seen != t->epoch && seen != t->epoch + 1; spins++) {
        if (spins < SPINS)
            continue;
        if ((rc = asymreg_progress(rt->worker)) < 0)
            return minirt__fail(rt, rc, "barrier");
        if (spins % 16 == 0 && now_ns() - asked > LOOK_NS) {
            uint32_t id = (uint32_t)rankmap_id(t->map, from);

            if ((rc = minirt__connect(rt, id)) == 0 && (rc = asymreg_put(rt->worker, id, 0, ASYMREG_ANY, NULL, 0)) < 0)
                rc = minirt__fail(rt, rc, "barrier of %u ranks, waiting for rank %u (process %u)", t->n, from, id);
            seen = __atomic_load_n(flag, __ATOMIC_ACQUIRE);
            if (rc < 0 && seen != t->epoch && seen != t->epoch + 1)
                return rc;
            rt->broken = 0; /* it may have raised the flag and left */
            asked = now_ns();
        }
        sched_yield();
    }
    return 0;
}

/*
 * A dissemination barrier: in round k rank r tells r + 2^k and hears of r - 2^k, so that after the last everybody has heard of all, of some twice:
 * what is combined on the way must not mind. What comes with a flag is put and flushed before it.
 */
static int combine(struct minirt_team *t, uint64_t *value, int least)
{
    struct team_slot *mine = &t->rt->service->team[t->slot];
    const size_t slot = offsetof(struct service, team) + t->slot * sizeof(*mine);
    uint64_t parity = ++t->epoch & 1;

    for (uint32_t round = 0, step = 1; step < t->n; round++, step *= 2) {
        uint32_t to = (uint32_t)rankmap_id(t->map, (uint32_t)(((uint64_t)t->me + step) % t->n));
        uint32_t from = (t->me + t->n - step) % t->n;
        int rc = 0;

        if (value)
            rc = minirt__service_put(t->rt, to, slot + offsetof(struct team_slot, value) + (parity * ROUNDS + round) * 8, value, 8);
        if (rc == 0)
            rc = minirt__service_put(t->rt, to, slot + offsetof(struct team_slot, flag) + round * 8, &t->epoch, 8);
        if (rc == 0)
            rc = await(t, &mine->flag[round], from);
        if (rc < 0)
            return rc;
        if (value && least)
            *value = mine->value[parity][round] < *value ? mine->value[parity][round] : *value;
        else if (value)
            *value &= mine->value[parity][round];
    }
    return 0;
}

int minirt__agree(struct minirt_team *team, uint64_t *value, int least)
{
    struct minirt *rt = team->rt;
    int rc = asymreg_flush_all(rt->worker);
    uint32_t id = 0;

    if (rc == 0)
        return combine(team, value, least);
    /* libasymreg does not say whom it was about */
    while (rc == ASYMREG_EPEER && id < rt->n - 1 && (!rt->entries[id] || asymreg_put(rt->worker, id, 0, ASYMREG_ANY, NULL, 0) == 0))
        id++;
    return minirt__fail(rt, rc, "barrier of %u ranks, completing what was put (process %u)", team->n, id);
}

int minirt_barrier(struct minirt_team *team)
{
    return minirt__agree(team, NULL, 0);
}

int minirt_min(struct minirt_team *team, uint64_t *value)
{
    return minirt__agree(team, value, 1);
}

/* ---- making teams ---- */

/* A team of a map of processes, whose reference it takes over. */
static int create(struct minirt *rt, struct rankmap *map, uint32_t slot, struct minirt_team **out)
{
    struct minirt_team *t = aligned_alloc(64, (sizeof(*t) + 63) / 64 * 64);
    int64_t me = rankmap_rank(map, rt->rank);
    int rc = !t ? -ENOMEM : me < 0 ? (int)me : rankmap_lookup_init(&t->lookup, map, (uintptr_t)rt->entries, 8);

    if (rc < 0) {
        rankmap_unref(map);
        free(t);
        return minirt__fail(rt, rc, "team");
    }
    t->rt = rt;
    t->map = map;
    t->n = rankmap_size(map);
    t->me = (uint32_t)me;
    t->slot = slot;
    t->epoch = 0;
    *out = rt->teams[slot] = t;
    return 0;
}

int minirt__world(struct minirt *rt)
{
    struct rankmap *map;
    int rc = rankmap_affine(0, 1, rt->n, NULL, &map);

    return rc < 0 ? minirt__fail(rt, rc, "world") : create(rt, map, 0, &rt->world);
}

/* Collective: the lowest slot that is free everywhere in the parent. */
static int agree_on_slot(struct minirt_team *parent, uint32_t *slot)
{
    uint64_t is_free = 0;
    int rc;

    for (uint32_t i = 0; i < MINIRT_MAX_TEAMS; i++)
        is_free |= (uint64_t)!parent->rt->teams[i] << i;
    if ((rc = minirt__agree(parent, &is_free, 0)) < 0)
        return rc;
    if (!is_free)
        return minirt__fail(parent->rt, MINIRT_ENOMEM, "no slot for one more team: %u at a time", MINIRT_MAX_TEAMS);
    *slot = (uint32_t)__builtin_ctzll(is_free);
    return 0;
}

int minirt_team_from(struct minirt_team *parent, const struct rankmap *ranks, struct minirt_team **team)
{
    struct minirt *rt = parent->rt;
    struct rankmap *map;
    uint32_t slot = 0;
    int rc = agree_on_slot(parent, &slot), outer;

    if (rc < 0)
        return rc;
    if (!ranks || rankmap_rank(ranks, parent->me) == RANKMAP_ENOENT) {
        *team = NULL;
        return 0;
    }
    outer = minirt__charge(rt, MINIRT_MAPS);
    rc = rankmap_compose(parent->map, ranks, NULL, &map);
    rc = rc < 0 ? minirt__fail(rt, rc, "team") : create(rt, map, slot, team);
    minirt__charge(rt, outer);
    return rc;
}

/* The team of n ranks of the parent: first, first + stride, … */
static int affine(struct minirt_team *parent, uint64_t first, int64_t stride, uint64_t n, struct minirt_team **team)
{
    struct rankmap *ranks;
    int rc;

    if (n == 0)
        return minirt__fail(parent->rt, MINIRT_EINVAL, "a grid of no columns, or every 0th rank");
    if ((rc = rankmap_affine(first, stride, (uint32_t)n, NULL, &ranks)) < 0)
        return minirt__fail(parent->rt, rc, "team");
    rc = minirt_team_from(parent, ranks, team);
    rankmap_unref(ranks);
    return rc;
}

int minirt_team_dup(struct minirt_team *parent, struct minirt_team **team)
{
    return affine(parent, 0, 1, parent->n, team);
}

int minirt_team_reverse(struct minirt_team *parent, struct minirt_team **team)
{
    return affine(parent, parent->n - 1, -1, parent->n, team);
}

int minirt_team_row(struct minirt_team *parent, uint32_t n_columns, struct minirt_team **team)
{
    uint32_t first = n_columns ? parent->me / n_columns * n_columns : 0, left = parent->n - first;

    return affine(parent, first, 1, left < n_columns ? left : n_columns, team);
}

int minirt_team_every(struct minirt_team *parent, uint32_t k, struct minirt_team **team)
{
    uint32_t first = k ? parent->me % k : 0;

    return affine(parent, first, k, k ? ((uint64_t)parent->n - first + k - 1) / k : 0, team);
}

int minirt_team_column(struct minirt_team *parent, uint32_t n_columns, struct minirt_team **team)
{
    return minirt_team_every(parent, n_columns, team);
}

int minirt_team_node(struct minirt_team *parent, struct minirt_team **team)
{
    const struct rankmap_opts several = {.size = sizeof(several), .flags = RANKMAP_ALLOW_DUPLICATES};
    struct rankmap *nodes = NULL, *here = NULL;
    int rc = rankmap_compose(parent->rt->nodes, parent->map, &several, &nodes); /* rank of the parent to node */

    if (rc < 0 || (rc = rankmap_on_node(nodes, rankmap_id(nodes, parent->me), NULL, &here)) < 0)
        rc = minirt__fail(parent->rt, rc, "the ranks of a node");
    else
        rc = minirt_team_from(parent, here, team);
    rankmap_unref(nodes);
    rankmap_unref(here);
    return rc;
}

int minirt_team_free(struct minirt_team *team)
{
    struct minirt *rt;
    int rc;

    if (!team)
        return 0;
    rt = team->rt;
    if (team == rt->world)
        return minirt__fail(rt, MINIRT_EINVAL, "the world is not freed");
    for (uint32_t i = 0; i < MINIRT_MAX_WINDOWS; i++)
        if (rt->windows[i] && rt->windows[i]->team == team)
            return minirt__fail(rt, MINIRT_EINVAL, "a team is freed before its window");
    rc = minirt_barrier(team);
    minirt__team_drop(team);
    return rc;
}

/* Nobody raises flags in its slot any more: whoever has it next begins with 0. */
void minirt__team_drop(struct minirt_team *team)
{
    if (!team)
        return;
    if (team->rt->service)
        team->rt->service->team[team->slot] = (struct team_slot){0};
    team->rt->teams[team->slot] = NULL;
    rankmap_unref(team->map);
    free(team);
}

uint32_t minirt_rank(const struct minirt_team *team)
{
    return team->me;
}

uint32_t minirt_size(const struct minirt_team *team)
{
    return team->n;
}

const struct rankmap *minirt_map(const struct minirt_team *team)
{
    return team->map;
}

struct minirt_team *minirt_world(struct minirt *rt)
{
    return rt->world;
}
