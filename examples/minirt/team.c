/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Teams: a map from librankmap, bound to the address vector, and a slot in every member's struct
 * service. Every member computes by itself what the team is; members agree only on the slot, the
 * lowest that is free at all members of the parent.
 */
#include "internal.h"

/* ---- waiting for all, and agreeing ---- */

/*
 * Barriers and agreements work by dissemination: in round k a rank sends a word to the rank 2^k
 * after it, and waits for the word of the rank 2^k before it. After ⌈log2 n⌉ rounds every rank has
 * heard from every other, from some of them twice: an agreement's operation must be idempotent. A
 * rank that enters the next barrier knows that all ranks have entered this one.
 */

/* How long a rank waits before it asks whether the process that it waits for is there. */
#define ASK_MS 5u
#define SPINS  2000

/* A flush does not report which peer is gone: takes, of those that this process knows, the nearest
 * before it. */
static uint32_t find_gone(const struct minirt *rt)
{
    uint32_t id = rt->rank;

    do
        id = (id + rt->n - 1) % rt->n;
    while (id != rt->rank &&
           (!rt->entries[id] || asymreg_put(rt->worker, id, 0, ASYMREG_ANY, NULL, 0) == 0));
    return id;
}

/* Shows to the ranks that wait for this one that it will not complete a barrier, because of process
 * `id`. */
static void publish_gone(struct minirt *rt, uint32_t id)
{
    __atomic_store_n(&rt->service->gone, (uint64_t)id + 1, __ATOMIC_RELEASE);
}

/* Records the failure of a barrier; with ASYMREG_EPEER, process `id` is gone. */
static int fail_barrier(struct minirt_team *team, int rc, uint32_t id)
{
    struct minirt *rt = team->rt;

    publish_gone(rt, rc == ASYMREG_EPEER ? id : rt->rank);
    if (rc != ASYMREG_EPEER)
        return minirt__fail(rt, minirt__remote_code(rc), asymreg_strerror(rc),
                            "barrier of %u ranks", team->n);
    return minirt__fail(rt, MINIRT_EPEER, asymreg_strerror(rc), "barrier of %u ranks (process %u)",
                        team->n, id);
}

/* Sends a word: its number, and before that its value, unless that is NULL. */
static int put_word(struct minirt *rt, uint32_t id, const struct word *place, uint64_t number,
                    const uint64_t *value)
{
    const struct asymreg_signal signal = {
        .addr = minirt__there(rt, id, &place->number), .value = number, .what = ASYMREG_AMO_SET};
    int rc;

    if (value)
        return asymreg_put_signal(rt->worker, id, minirt__there(rt, id, &place->value), ASYMREG_ANY,
                                  value, sizeof(*value), &signal);
    rc = asymreg_put(rt->worker, id, signal.addr, ASYMREG_ANY, &number, sizeof(number));
    return rc < 0 ? rc : asymreg_flush(rt->worker, id);
}

static int send_word(struct minirt *rt, uint32_t id, const struct word *place, uint64_t number,
                     const uint64_t *value)
{
    int rc;

    do
        rc = put_word(rt, id, place, number, value);
    while (rc == ASYMREG_EBUSY || rc == ASYMREG_ESTALE);
    /* The process may have received the word and ended before this one learned that the word had
     * arrived. If it has died, the ranks that wait for it notice. */
    return rc == ASYMREG_EPEER ? 0 : rc;
}

/* Waits for the word that this process sends. On failure *gone is the process that is gone. */
static int await_word(struct minirt *rt, uint32_t id, const struct word *place, uint64_t number,
                      uint32_t *gone)
{
    uint64_t there = minirt__there(rt, id, &rt->service->gone), heard;
    int rc;

    /* The word is often close: looks for it without progress first, which takes locks. */
    for (int i = 0; i < SPINS; i++)
        if (__atomic_load_n(&place->number, __ATOMIC_ACQUIRE) >= number)
            return 0;
    for (;;) {
        rc = asymreg_wait_until(rt->worker, &place->number, sizeof(place->number), ASYMREG_CMP_GE,
                                number, ASK_MS);
        if (rc != ASYMREG_ETIMEDOUT)
            return rc;
        heard = 0;
        rc = asymreg_get(rt->worker, id, there, ASYMREG_ANY, &heard, sizeof(heard));
        if (rc == ASYMREG_EBUSY || (rc == 0 && heard == 0))
            continue;
        /* It may have sent the word just before its end. */
        if (__atomic_load_n(&place->number, __ATOMIC_ACQUIRE) >= number)
            return 0;
        *gone = heard ? (uint32_t)(heard - 1) : id;
        return heard ? ASYMREG_EPEER : rc;
    }
}

/* The process of the rank `step` after (negative: before) this one. */
static uint32_t partner_id(const struct minirt_team *team, int64_t step)
{
    return (uint32_t)rankmap_id(team->map, (uint32_t)((team->me + team->n + step) % team->n));
}

/* Connects to the partners of all rounds: a process that is first met when it is gone can give no
 * reason. On failure *failed is the process that could not be reached. */
static int connect_partners(struct minirt_team *team, uint32_t *failed)
{
    int rc = 0;

    for (int64_t step = 1; rc == 0 && step < team->n; step *= 2) {
        *failed = partner_id(team, step);
        rc = minirt__connect(team->rt, *failed);
        if (rc < 0)
            break;
        *failed = partner_id(team, -step);
        rc = minirt__connect(team->rt, *failed);
    }
    return rc;
}

static uint64_t combine_values(uint64_t mine, uint64_t heard, int least)
{
    if (!least)
        return mine & heard;
    return heard < mine ? heard : mine;
}

/* A barrier that combines values, unless `value` is NULL. Members enter it even if this process's
 * flush has failed. */
static int sync_team(struct minirt_team *team, uint64_t *value, int least)
{
    struct minirt *rt = team->rt;
    struct word *heard = rt->service->team[team->slot].heard[++team->barriers % 2];
    int flushed, rc;
    uint32_t gone = rt->rank;

    if (rt->service->gone)
        return fail_barrier(team, ASYMREG_EPEER, (uint32_t)rt->service->gone - 1);
    flushed = asymreg_flush(rt->worker, ASYMREG_ALL_PEERS);
    rc = connect_partners(team, &gone);
    if (rc < 0) {
        publish_gone(rt, rc == MINIRT_EPEER || rc == MINIRT_EREMOTE ? gone : rt->rank);
        return rc;
    }
    gone = rt->rank;
    for (int64_t step = 1; rc == 0 && step < team->n; heard++, step *= 2) {
        rc = send_word(rt, partner_id(team, step), heard, team->barriers, value);
        if (rc == 0)
            rc = await_word(rt, partner_id(team, -step), heard, team->barriers, &gone);
        if (rc == 0 && value)
            *value = combine_values(*value, heard->value, least);
    }
    if (rc < 0)
        return fail_barrier(team, rc, gone);
    return flushed < 0 ? fail_barrier(team, flushed, find_gone(rt)) : 0;
}

int minirt_barrier(struct minirt_team *team)
{
    return sync_team(team, NULL, 0);
}

int minirt__agree(struct minirt_team *team, uint64_t *value, int least)
{
    return sync_team(team, value, least);
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

/* A team from a map of processes; takes over the reference to the map. */
static int create_team(struct minirt *rt, struct rankmap *map, uint32_t slot,
                       struct minirt_team **out)
{
    struct minirt_team *t = aligned_alloc(64, sizeof(*t));
    int64_t me = rankmap_rank(map, rt->rank);
    struct rankmap_lookup lookup;
    int rc = !t ? -ENOMEM : me < 0 ? (int)me : 0;

    if (rc == 0)
        rc = rankmap_lookup_init(&lookup, map, (uintptr_t)rt->entries, 8);
    if (rc < 0) {
        rc = minirt__fail(rt, minirt__map_code(rc), rankmap_strerror(rc), "team");
        rankmap_unref(map);
        free(t);
        return rc;
    }
    *t = (struct minirt_team){.lookup = lookup,
                              .rt = rt,
                              .map = map,
                              .n = rankmap_size(map),
                              .me = (uint32_t)me,
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
                  : create_team(rt, map, 0, &rt->world);
}

/* The team of these ranks of the parent. */
static int compose_team(struct minirt_team *parent, const struct rankmap *ranks, uint32_t slot,
                        struct minirt_team **team)
{
    struct minirt *rt = parent->rt;
    struct rankmap *map;
    int rc = rankmap_compose(parent->map, ranks, NULL, &map);

    return rc < 0 ? minirt__fail(rt, minirt__map_code(rc), rankmap_strerror(rc), "team")
                  : create_team(rt, map, slot, team);
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
    CHARGE(rt, MINIRT_MAPS, rc, compose_team(parent, ranks, slot, team));
    return rc;
}

/* The team of n ranks of the parent: first, first + stride, … */
static int affine_team(struct minirt_team *parent, uint64_t first, int64_t stride, uint64_t n,
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
    return affine_team(parent, 0, 1, parent->n, team);
}

int minirt_team_reverse(struct minirt_team *parent, struct minirt_team **team)
{
    return affine_team(parent, parent->n - 1, -1, parent->n, team);
}

int minirt_team_row(struct minirt_team *parent, uint32_t n_columns, struct minirt_team **team)
{
    uint32_t first = n_columns ? parent->me / n_columns * n_columns : 0, left = parent->n - first;

    return affine_team(parent, first, 1, left < n_columns ? left : n_columns, team);
}

int minirt_team_every(struct minirt_team *parent, uint32_t k, struct minirt_team **team)
{
    uint32_t first = k ? parent->me % k : 0;

    return affine_team(parent, first, k, k ? ((uint64_t)parent->n - first + k - 1) / k : 0, team);
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
    int rc = rankmap_compose(parent->rt->nodes, parent->map, &several, &nodes);

    /* `nodes` maps a rank of the parent to its node. */
    if (rc == 0)
        rc = rankmap_ranks_on_node(nodes, rankmap_id(nodes, parent->me), NULL, &here);
    if (rc < 0)
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
