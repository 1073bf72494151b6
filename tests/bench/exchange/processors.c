/* SPDX-License-Identifier: BSD-3-Clause */
#include "processors.h"

#include <stdlib.h>

#define NOBODY UINT32_MAX

enum state { ASLEEP, READY, RUNNING };

struct process {
    struct item *first, *last; /* that it has been given and not taken */
    uint32_t next;             /* of those that wait for a processor */
    enum state state;
};

enum what { COMES, BEGINS, ENDS }; /* an item; a turn */

struct process_event {
    uint64_t time, serial;
    struct item *item;
    uint32_t process;
    enum what what;
};

/* ---- events ---- */

static bool earlier(const struct process_event *a, const struct process_event *b)
{
    return a->time != b->time ? a->time < b->time : a->serial < b->serial;
}

static bool push(struct processors *p, uint64_t time, enum what what, uint32_t process,
                 struct item *item)
{
    struct process_event e = {time, p->serial++, item, process, what};
    size_t i;

    if (p->n_heap == p->cap_heap) {
        size_t cap = p->cap_heap ? p->cap_heap * 2 : 1024;
        struct process_event *heap = realloc(p->heap, cap * sizeof(*heap));

        if (!heap) {
            p->out_of_memory = true;
            return false;
        }
        p->heap = heap;
        p->cap_heap = cap;
    }
    for (i = p->n_heap++; i > 0 && earlier(&e, &p->heap[(i - 1) / 2]); i = (i - 1) / 2)
        p->heap[i] = p->heap[(i - 1) / 2];
    p->heap[i] = e;
    return true;
}

static struct process_event pop(struct processors *p)
{
    struct process_event top = p->heap[0], e = p->heap[--p->n_heap];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < p->n_heap) {
        if (child + 1 < p->n_heap && earlier(&p->heap[child + 1], &p->heap[child]))
            child++;
        if (!earlier(&p->heap[child], &e))
            break;
        p->heap[i] = p->heap[child];
        i = child;
    }
    p->heap[i] = e;
    return top;
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
    for (size_t i = 0; i < p->n_heap; i++)
        if (p->heap[i].item)
            p->o.drop(p->o.ctx, p->heap[i].item);
    for (uint32_t i = 0; p->processes && i < p->o.n_processes; i++) {
        while (p->processes[i].first) {
            struct item *item = p->processes[i].first;

            p->processes[i].first = item->next;
            p->o.drop(p->o.ctx, item);
        }
    }
    free(p->processes);
    free(p->heap);
}

void processors_give(struct processors *p, uint32_t process, uint64_t when, struct item *item)
{
    if (!push(p, when, COMES, process, item))
        p->o.drop(p->o.ctx, item);
}

int processors_run(struct processors *p)
{
    while (p->n_heap && !p->out_of_memory) {
        struct process_event e = pop(p);

        happen(p, &e);
    }
    return p->out_of_memory ? -1 : 0;
}
