/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Teams: a map from librankmap, bound to the address vector; a group of libasymreg, which looks
 * members up when it first needs them, for barriers; and a slot in every member's struct service.
 * Every member computes by itself what the team is; members agree only on the slot, the lowest that
 * is free at all members of the parent.
 */
#include "internal.h"

/* ---- waiting for all, and agreeing ---- */

/* A flush does not report which peer is gone: takes, of those that this process knows, the nearest
 * before it. */
static uint32_t who_has_gone(const struct minirt *rt)
{
    uint32_t id = rt->rank;

    do
        id = (id + rt->n - 1) % rt->n;
    while (id != rt->rank &&
           (!rt->entries[id] || asymreg_put(rt->worker, id, 0, ASYMREG_ANY, NULL, 0) == 0));
    return id;
}

/* The error of libasymreg, and the member concerned; or that of locate(), which is a code of
 * minirt.h and recorded already. */
static int all_done(struct minirt_team *team, int rc, uint32_t member)
{
    if (rc == ASYMREG_EPEER)
        return minirt__fail(team->rt, MINIRT_EPEER, asymreg_strerror(rc),
                            "barrier of %u ranks (process %u)", team->n,
                            member < team->n ? (uint32_t)rankmap_id(team->map, member)
                                             : who_has_gone(team->rt));
    return rc == 0 || (rc <= MINIRT_EINVAL && rc >= MINIRT_ESYSTEM)
               ? rc
               : minirt__fail(team->rt, minirt__remote_code(rc), asymreg_strerror(rc),
                              "barrier of %u ranks", team->n);
}

int minirt_barrier(struct minirt_team *team)
{
    struct asymreg_error err = {.member = UINT32_MAX};
    int rc = asymreg_barrier(team->group, &err);

    return all_done(team, rc, err.member);
}

/*
 * asymreg_reduce() needs an array of every member's memory, which a large team does not have. So
 * this works by dissemination: in round k rank r publishes what it knows and reads what rank r +
 * 2^k publishes. After the last round every rank has every value, some of them twice: the operation
 * must be idempotent. A rank that completes the next agreement knows that all ranks completed this
 * one. Reads poll remote memory; barriers are more frequent and wait for local flags.
 */
int minirt__agree(struct minirt_team *team, uint64_t *value, int least)
{
    struct word *said = team->rt->service->team[team->slot].said[++team->agreements % 2];
    int rc = all_done(team, asymreg_flush(team->rt->worker, ASYMREG_ALL_PEERS), UINT32_MAX);
    uint64_t heard, step = 1;

    for (; rc == 0 && step < team->n; said++, step *= 2) {
        said->value = *value;
        __atomic_store_n(&said->number, team->agreements, __ATOMIC_RELEASE);
        rc = minirt__await(team->rt,
                           (uint32_t)rankmap_id(team->map, (uint32_t)((team->me + step) % team->n)),
                           said, team->agreements, &heard, sizeof(heard));
        if (rc == 0)
            *value = !least ? *value & heard : heard < *value ? heard : *value;
    }
    return rc;
}

int minirt__agree_on_slot(struct minirt_team *team, void *const table[], int rc, uint32_t *slot)
{
    uint64_t mine = 0, common;
    int agreed;

    for (uint32_t i = 0; rc == 0 && i < MINIRT_SLOTS; i++)
        mine |= (uint64_t)!table[i] << i;
    common = mine;
    agreed = minirt__agree(team, &common, 0);
    if (rc < 0 || agreed < 0)
        return rc < 0 ? rc : agreed;
    if (common == 0)
        return minirt__fail(
            team->rt, table == team->rt->windows && mine ? MINIRT_EWINDOW : MINIRT_ENOMEM, NULL,
            "no slot of %u is free at all ranks, or another rank could not open the window",
            MINIRT_SLOTS);
    *slot = (uint32_t)__builtin_ctzll(common);
    return 0;
}

int minirt_min(struct minirt_team *team, uint64_t *value)
{
    return minirt__agree(team, value, 1);
}

/* ---- making teams ---- */

/* Where a member's scratch memory is; libasymreg calls it when it first needs that member. */
static int locate(void *ctx, uint32_t rank, struct asymreg_member *where)
{
    struct minirt_team *t = ctx;
    uint32_t id = (uint32_t)rankmap_id(t->map, rank);
    int rc = minirt__connect(t->rt, id);

    *where = (struct asymreg_member){
        .pe = id, .addr = minirt__there(t->rt, id, &t->rt->service->team[t->slot].scratch)};
    return rc;
}

/* A team from a map of processes; takes over the reference to the map. */
static int create(struct minirt *rt, struct rankmap *map, uint32_t slot, struct minirt_team **out)
{
    struct minirt_team *t = aligned_alloc(64, sizeof(*t));
    int64_t me = rankmap_rank(map, rt->rank);
    struct asymreg_group_opts opts = {.size = sizeof(opts),
                                      .n = rankmap_size(map),
                                      .me = (uint32_t)me,
                                      .scratch = rt->service->team[slot].scratch,
                                      .member = locate,
                                      .ctx = t};
    struct asymreg_group *group = NULL;
    struct rankmap_lookup lookup;
    struct asymreg_error err;
    int rc = !t ? -ENOMEM : me < 0 ? (int)me : 0;

    if (rc == 0)
        rc = rankmap_lookup_init(&lookup, map, (uintptr_t)rt->entries, 8);
    if (rc < 0) {
        rc = minirt__fail(rt, minirt__map_code(rc), rankmap_strerror(rc), "team");
    } else if ((rc = asymreg_group_create(rt->worker, &opts, &group, &err)) < 0) {
        rc = minirt__fail(rt, minirt__remote_code(rc), err.text, "team");
    }
    if (rc < 0) {
        rankmap_unref(map);
        free(t);
        return rc;
    }
    *t = (struct minirt_team){.lookup = lookup,
                              .rt = rt,
                              .map = map,
                              .group = group,
                              .n = opts.n,
                              .me = opts.me,
                              .slot = slot};
    *out = rt->teams[slot] = t;
    return 0;
}

int minirt__world(struct minirt *rt)
{
    struct rankmap *map;
    int rc;

    rc = rankmap_affine(0, 1, rt->n, NULL, &map);
    return rc < 0 ? minirt__fail(rt, minirt__map_code(rc), rankmap_strerror(rc), "world")
                  : create(rt, map, 0, &rt->world);
}

/* The team of these ranks of the parent. */
static int compose(struct minirt_team *parent, const struct rankmap *ranks, uint32_t slot,
                   struct minirt_team **team)
{
    struct minirt *rt = parent->rt;
    struct rankmap *map;
    int rc = rankmap_compose(parent->map, ranks, NULL, &map);

    return rc < 0 ? minirt__fail(rt, minirt__map_code(rc), rankmap_strerror(rc), "team")
                  : create(rt, map, slot, team);
}

int minirt_team_from(struct minirt_team *parent, const struct rankmap *ranks,
                     struct minirt_team **team)
{
    struct minirt *rt = parent->rt;
    uint32_t slot;
    int rc = minirt__agree_on_slot(parent, rt->teams, 0, &slot);

    if (rc < 0)
        return rc;
    *team = NULL;
    if (!ranks || rankmap_rank(ranks, parent->me) == RANKMAP_ENOENT)
        return 0;
    CHARGE(rt, MINIRT_MAPS, rc, compose(parent, ranks, slot, team));
    return rc;
}

/* The team of n ranks of the parent: first, first + stride, … */
static int affine(struct minirt_team *parent, uint64_t first, int64_t stride, uint64_t n,
                  struct minirt_team **team)
{
    struct rankmap *ranks = NULL;
    int rc;

    if (n == 0)
        return minirt__fail(parent->rt, MINIRT_EINVAL, NULL,
                            "a grid of no columns, or every 0th rank");
    rc = rankmap_affine(first, stride, (uint32_t)n, NULL, &ranks);
    rc = rc < 0 ? minirt__fail(parent->rt, minirt__map_code(rc), rankmap_strerror(rc), "team")
                : minirt_team_from(parent, ranks, team);
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
    const struct rankmap_opts several = {.size = sizeof(several),
                                         .flags = RANKMAP_ALLOW_DUPLICATES};
    struct rankmap *nodes = NULL, *here = NULL;
    int rc = rankmap_compose(parent->rt->nodes, parent->map, &several,
                             &nodes); /* rank of the parent to node */

    if (rc < 0 ||
        (rc = rankmap_ranks_on_node(nodes, rankmap_id(nodes, parent->me), NULL, &here)) < 0)
        rc = minirt__fail(parent->rt, minirt__map_code(rc), rankmap_strerror(rc),
                          "the ranks of a node");
    else
        rc = minirt_team_from(parent, here, team);
    rankmap_unref(nodes);
    rankmap_unref(here);
    return rc;
}

int minirt_team_free(struct minirt_team *team)
{
    int rc;

    if (!team)
        return 0;
    if (team == team->rt->world || team->n_windows > 0)
        return minirt__fail(team->rt, MINIRT_EINVAL, NULL,
                            "the world is not freed, and no team before its windows");
    rc = minirt_barrier(team);
    minirt__team_drop(team);
    return rc;
}

/* No rank writes to the team's slot or waits for it any more: clear it for the next team. */
void minirt__team_drop(struct minirt_team *team)
{
    if (!team)
        return;
    team->rt->service->team[team->slot] = (struct team_slot){0};
    team->rt->teams[team->slot] = NULL;
    asymreg_group_destroy(team->group);
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
