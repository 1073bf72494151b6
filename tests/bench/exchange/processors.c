/* SPDX-License-Identifier: BSD-3-Clause */
#include "processors.h"

#include <stdlib.h>

#define NOBODY UINT32_MAX

enum state { ASLEEP, READY, RUNNING };

struct process {
    struct item *first, *last; /* given and not yet taken */
    uint32_t next;             /* of those that wait for a processor */
    enum state state;
};

enum what { COMES, BEGINS, ENDS }; /* an item; a turn */

struct process_event {
    uint64_t time;
    struct item *item;
    uint32_t process;
    enum what what;
};

/*
 * ---- events ----
 *
 * A radix heap, since no event is earlier than the one that happens now: bucket b > 0 has those
 * whose time differs from `now` in bit b - 1 and no higher one, bucket 0 those of `now`. Events of
 * one time are always in one bucket, in the order in which they came.
 */

static unsigned bucket_of(const struct processors *p, uint64_t time)
{
    const uint64_t differs = time ^ p->now;

    return differs ? 64 - (unsigned)__builtin_clzll(differs) : 0;
}

static bool append(struct processors *p, struct process_event e)
{
    struct process_events *b = &p->buckets[bucket_of(p, e.time)];

    if (b->n == b->cap) {
        size_t cap = b->cap ? 2 * b->cap : 16;
        struct process_event *events = realloc(b->events, cap * sizeof(*events));

        if (!events) {
            p->out_of_memory = true;
            return false;
        }
        b->events = events;
        b->cap = cap;
    }
    b->events[b->n++] = e;
    return true;
}

static bool push(struct processors *p, uint64_t time, enum what what, uint32_t process,
                 struct item *item)
{
    return append(p, (struct process_event){time, item, process, what});
}

/* The events of the earliest bucket go to those below it. */
static void advance(struct processors *p)
{
    struct process_events *b = p->buckets + 1;

    while (b < p->buckets + PROCESSORS_BUCKETS && b->n == 0)
        b++;
    if (b == p->buckets + PROCESSORS_BUCKETS)
        return;
    p->now = b->events[0].time;
    for (size_t i = 1; i < b->n; i++)
        if (b->events[i].time < p->now)
            p->now = b->events[i].time;
    for (size_t i = 0; i < b->n; i++)
        if (!append(p, b->events[i]) && b->events[i].item)
            p->o.drop(p->o.ctx, b->events[i].item);
    b->n = 0;
}

static bool pop(struct processors *p, struct process_event *e)
{
    struct process_events *b = &p->buckets[0];

    if (b->first == b->n) {
        b->first = b->n = 0;
        advance(p);
    }
    if (b->first == b->n)
        return false;
    *e = b->events[b->first++];
    return true;
}

/* ---- processors ---- */

static void wants_processor(struct processors *p, uint32_t process, uint64_t now)
{
    struct process *who = &p->processes[process];

    who->state = READY;
    if (p->o.n_processors == 0 || p->n_idle > 0) {
        p->n_idle -= p->o.n_processors > 0;
        push(p, now + p->o.wake_ns, BEGINS, process, NULL);
        return;
    }
    who->next = NOBODY;
    if (p->first_ready == NOBODY)
        p->first_ready = process;
    else
        p->processes[p->ready].next = process;
    p->ready = process;
}

static void frees_processor(struct processors *p, uint64_t now)
{
    uint32_t process = p->first_ready;

    if (process == NOBODY) {
        p->n_idle += p->o.n_processors > 0;
        return;
    }
    p->first_ready = p->processes[process].next;
    push(p, now + p->o.switch_ns, BEGINS, process, NULL);
}

static void turn(struct processors *p, uint32_t process, uint64_t now)
{
    struct process *who = &p->processes[process];
    struct item *items = who->first;

    who->first = who->last = NULL;
    who->state = RUNNING;
    push(p, p->o.turn(p->o.ctx, process, now, items), ENDS, process, NULL);
}

static void happen(struct processors *p, const struct process_event *e)
{
    struct process *who = &p->processes[e->process];

    switch (e->what) {
    case COMES:
        e->item->next = NULL;
        *(who->first ? &who->last->next : &who->first) = e->item;
        who->last = e->item;
        if (who->state == ASLEEP)
            wants_processor(p, e->process, e->time);
        break;
    case BEGINS: turn(p, e->process, e->time); break;
    case ENDS:
        if (who->first) {
            turn(p, e->process, e->time);
        } else {
            who->state = ASLEEP;
            frees_processor(p, e->time);
        }
        break;
    }
}

/* ---- life ---- */

int processors_init(struct processors *p, const struct processors_opts *o)
{
    *p = (struct processors){
        .o = *o, .n_idle = o->n_processors, .first_ready = NOBODY, .ready = NOBODY};
    p->processes = calloc(o->n_processes, sizeof(*p->processes));
    return p->processes ? 0 : -1;
}

void processors_fini(struct processors *p)
{
    for (struct process_events *b = p->buckets; b < p->buckets + PROCESSORS_BUCKETS; b++) {
        for (size_t i = b->first; i < b->n; i++)
            if (b->events[i].item)
                p->o.drop(p->o.ctx, b->events[i].item);
        free(b->events);
    }
    for (uint32_t i = 0; p->processes && i < p->o.n_processes; i++) {
        while (p->processes[i].first) {
            struct item *item = p->processes[i].first;

            p->processes[i].first = item->next;
            p->o.drop(p->o.ctx, item);
        }
    }
    free(p->processes);
}

void processors_give(struct processors *p, uint32_t process, uint64_t when, struct item *item)
{
    if (!push(p, when, COMES, process, item))
        p->o.drop(p->o.ctx, item);
}

int processors_run(struct processors *p)
{
    struct process_event e;

    while (!p->out_of_memory && pop(p, &e))
        happen(p, &e);
    return p->out_of_memory ? -1 : 0;
}
