/* SPDX-License-Identifier: BSD-3-Clause */
/* The decision: groups of processors, and which rank gets which. */
#define _GNU_SOURCE
#include "place.h"

#include <stdlib.h>

/* Consecutive groups of one map object. */
struct object {
    uint32_t first, n_groups, next; /* next: whose turn it is */
    uint32_t room, n;
};

struct work {
    const struct place_topology *t;
    const struct place_policy *p;
    struct place_plan *plan;
    struct object *objects;
    uint32_t n_objects;
};

/* ---- groups ---- */

/* The first processor of the same object. */
static uint32_t begin_of(const struct place_topology *t, enum place_level level, uint32_t from)
{
    uint32_t i = from;

    while (i > 0 && t->pus[i - 1].of[level] == t->pus[from].of[level])
        i--;
    return i;
}

/* One behind the last processor from `from` on that has the same object. */
static uint32_t end_of(const struct place_topology *t, enum place_level level, uint32_t from)
{
    uint32_t i = from + 1;

    while (i < t->n_pus && t->pus[i].of[level] == t->pus[from].of[level])
        i++;
    return i;
}

static bool has_objects(const struct place_topology *t, enum place_level level)
{
    for (uint32_t i = 0; i < t->n_pus; i++)
        if (t->pus[i].of[level] != PLACE_NONE)
            return true;
    return false;
}

static uint32_t count_usable(const struct place_topology *t, uint32_t from, uint32_t to)
{
    uint32_t n = 0;

    for (uint32_t i = from; i < to; i++)
        n += t->pus[i].usable != 0;
    return n;
}

/* The groups of the map object that is processors from to to - 1. */
static void add_groups(struct work *w, uint32_t from, uint32_t to)
{
    const bool small = w->p->bind == PLACE_CORE || w->p->bind == PLACE_HWTHREAD;
    struct object *o = &w->objects[w->n_objects];
    struct place_group g = {0};
    uint32_t n = 0, next;
    bool whole = true;

    *o = (struct object){.first = w->plan->n_groups};
    for (uint32_t i = from; i < to; i = next) {
        const uint32_t begin = begin_of(w->t, w->p->bind, i), end = end_of(w->t, w->p->bind, i);
        uint32_t usable;

        next = end < to ? end : to;
        usable = w->t->pus[i].of[w->p->bind] == PLACE_NONE ? 0 : count_usable(w->t, i, next);
        if (!usable)
            continue;
        whole = whole && begin >= from && end <= to;
        if (n++ == 0)
            g.first = begin;
        g.last = end;
        g.room += usable;
        if (n < w->p->each)
            continue;
        if (small && whole)
            g.room = 1;
        w->plan->groups[w->plan->n_groups++] = g;
        o->n_groups++;
        o->room += g.room;
        g = (struct place_group){0};
        n = 0;
        whole = true;
    }
    if (o->n_groups)
        w->n_objects++;
    w->plan->room += o->room;
}

static void make_groups(struct work *w)
{
    for (uint32_t i = 0, end; i < w->t->n_pus; i = end) {
        end = end_of(w->t, w->p->map, i);
        if (w->t->pus[i].of[w->p->map] != PLACE_NONE)
            add_groups(w, i, end);
    }
}

/* ---- ranks ---- */

/* Deals n ranks out to the objects, round robin; `turn` gets the object of each rank. */
static void deal_ranks(struct work *w, uint32_t n, uint32_t *turn)
{
    for (uint32_t i = 0, k = 0; i < n; k = (k + 1) % w->n_objects) {
        struct object *o = &w->objects[k];

        if (o->n == o->room)
            continue;
        o->n++;
        turn[i++] = k;
    }
}

/* The next group of the object with room. */
static uint32_t next_group(struct work *w, struct object *o)
{
    struct place_group *g;
    uint32_t i;

    do {
        i = o->first + o->next;
        g = &w->plan->groups[i];
        o->next = (o->next + 1) % o->n_groups;
    } while (g->n == g->room);
    g->n++;
    return i;
}

static void fill_objects(struct work *w, uint32_t n)
{
    uint32_t *turn = w->plan->group_of; /* becomes it, rank by rank */

    deal_ranks(w, n, turn);
    if (w->p->block)
        for (uint32_t k = 0, i = 0; k < w->n_objects; k++)
            for (uint32_t j = 0; j < w->objects[k].n; j++)
                turn[i++] = k;
    for (uint32_t i = 0; i < n; i++)
        turn[i] = next_group(w, &w->objects[turn[i]]);
}

enum place_result place_ranks(const struct place_topology *t, const struct place_policy *p,
                              uint32_t n, struct place_plan *plan)
{
    struct work w = {.t = t, .p = p, .plan = plan};
    enum place_result rc = PLACE_OK;

    *plan = (struct place_plan){0};
    if (!has_objects(t, plan->missing = p->map) || !has_objects(t, plan->missing = p->bind))
        return PLACE_NO_OBJECTS;
    plan->groups = calloc(t->n_pus, sizeof(*plan->groups));
    plan->group_of = calloc(n ? n : 1, sizeof(*plan->group_of));
    w.objects = calloc(t->n_pus, sizeof(*w.objects));
    if (!plan->groups || !plan->group_of || !w.objects) {
        rc = PLACE_NO_MEMORY;
    } else {
        make_groups(&w);
        if (plan->room == 0)
            rc = PLACE_NO_ROOM;
        else if (n > plan->room)
            rc = PLACE_FULL;
        else
            fill_objects(&w, n);
    }
    free(w.objects);
    return rc;
}

void place_group_set(const struct place_topology *t, const struct place_group *g,
                     struct place_set *set)
{
    for (uint32_t i = g->first; i < g->last; i++)
        if (t->pus[i].usable)
            place_set_add(set, t->pus[i].os);
}

void place_plan_free(struct place_plan *plan)
{
    free(plan->groups);
    free(plan->group_of);
    *plan = (struct place_plan){0};
}
