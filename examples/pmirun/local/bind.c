/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binds ranks to processors. Without an option that asks for it, this file does nothing and hwloc
 * is not loaded. place/ decides. This file gives it the node's topology, the processors that pmirun
 * may use (by its control group, by taskset) and the number of ranks, and reports the decision.
 * flight.c's child binds itself before its execve().
 */
#define _GNU_SOURCE
#include "bind.h"

#include "job.h"
#include "role.h"
#include "topology.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "PMIRUN_CPUSET="

/*
 * Ranks of all jobs on this host have seats, numbered from 0. place/ gives each seat its
 * processors: those of a lower seat never depend on how many there are.
 */
struct seats {
    const uint32_t *own; /* of the job's ranks here */
    uint32_t n;          /* up to the job's last */
    bool alone;          /* no other job has any */
    bool says;           /* this pmirun speaks for the host */
};

bool bind_own(struct place_set *set)
{
    set->end = PLACE_MAX_PUS;
    return sched_getaffinity(0, sizeof(set->bits), (cpu_set_t *)(void *)set->bits) == 0;
}

void bind_free(struct binding *b)
{
    if (!b)
        return;
    for (uint32_t i = 0; i < b->n; i++) {
        free(b->vars[i]);
        free(b->localities[i]);
    }
    free(b->sets);
    free(b->vars);
    free(b->cpusets);
    free(b->localities);
    free(b);
}

static struct binding *make_binding(uint32_t n)
{
    struct binding *b = xzalloc(sizeof(*b));

    b->n = n;
    b->sets = xzalloc(n * sizeof(*b->sets));
    b->vars = xzalloc(n * sizeof(*b->vars));
    b->cpusets = xzalloc(n * sizeof(*b->cpusets));
    b->localities = xzalloc(n * sizeof(*b->localities));
    return b;
}

/* With --launch fork all nodes are on this host. */
static uint32_t ranks_on_host(const struct job *job)
{
    return job->jobs->opt->one_host ? job->n_ranks : job->n_local;
}

/* The next job from `job` on that has seats now. */
static const struct job *next_seated(const struct job *job)
{
    while (job && (!job->seats || job->ended))
        job = job->next;
    return job;
}

/* A job's ranks get the lowest seats that no running job has. */
static void take_seats(struct job *job)
{
    const uint32_t n = ranks_on_host(job);
    const struct job *first = next_seated(job->jobs->first);
    uint32_t *seats = xrealloc(NULL, n * sizeof(*seats)), most = n;
    bool *taken;

    for (const struct job *j = first; j; j = next_seated(j->next))
        most += ranks_on_host(j);
    taken = xzalloc(most * sizeof(*taken));
    for (const struct job *j = first; j; j = next_seated(j->next))
        for (uint32_t i = 0; i < ranks_on_host(j); i++)
            if (j->seats[i] < most)
                taken[j->seats[i]] = true;
    for (uint32_t i = 0, seat = 0; i < n; seat++)
        if (!taken[seat])
            seats[i++] = seat;
    free(taken);
    job->seats = seats;
}

static struct seats find_seats(struct job *job)
{
    const struct jobs *jobs = job->jobs;
    const bool alone = !next_seated(jobs->first);
    uint32_t first = 0; /* of those here: nodes come one after the other */

    for (uint32_t i = 0; jobs->opt->one_host && i < job->n_ranks; i++)
        first += job->node_of[i] < agent_node(jobs->agent);
    take_seats(job);
    return (struct seats){.own = job->seats + first,
                          .n = job->seats[ranks_on_host(job) - 1] + 1,
                          .alone = alone,
                          .says = first == 0};
}

/* ---- the decision ---- */

static bool may_use(const struct topology *topology, const struct place_topology *t,
                    const struct place_set *own, uint32_t cpu)
{
    if (!topology->elsewhere)
        return place_set_has(own, cpu);
    for (uint32_t i = 0; i < t->n_pus; i++)
        if (t->pus[i].os == cpu)
            return true;
    return false;
}

static int bind_list(const struct topology *topology, const struct job *job, const struct seats *s,
                     const struct place_topology *t, const struct place_set *own, struct binding *b,
                     char **why)
{
    const struct place_policy *p = &job->jobs->opt->place;

    for (uint32_t i = 0; i < b->n; i++) {
        const struct place_set *set = &b->sets[i];

        b->sets[i] = p->list[s->own[i] % p->n_list];
        for (uint32_t cpu = 0; cpu < set->end; cpu++) {
            char *may;

            if (!place_set_has(set, cpu) || may_use(topology, t, own, cpu))
                continue;
            may = place_set_text(own);
            *why = xprintf("cannot bind rank %u to processor %u: pmirun may not use it here (it "
                           "may use %s); use --bind-to none",
                           job->ranks[i].number, cpu, may ? may : "?");
            free(may);
            return STATUS_USAGE;
        }
    }
    return 0;
}

/* Warns once why no rank is bound. */
static void say_full(const struct place_policy *p, const struct seats *s, uint32_t room)
{
    static bool said;

    char *what =
        !p->bind_given && p->map_each
            ? xprintf("PE=%u", p->map_each)
            : xprintf("%s %s", p->bind_given ? "--bind-to" : "--map-by", place_level_name(p->bind));

    if (s->says && !said)
        log_message("warning: ranks are not bound: %u on this host, %s has room for %u", s->n, what,
                    room);
    said = true;
    free(what);
}

static char *no_place(const struct place_policy *p, enum place_result rc, enum place_level missing)
{
    const char *map = place_level_name(p->map), *bind = place_level_name(p->bind);
    char *what = xprintf("--map-by %s --bind-to %s", p->map == PLACE_NODE ? "slot" : map, bind);

    if (rc == PLACE_NO_OBJECTS)
        return xappend(what, ": hwloc finds no %s on this node", place_level_name(missing));
    if (p->map == PLACE_NODE)
        return xappend(what,
                       ": %u of them for each rank, and this node has fewer that pmirun may "
                       "use",
                       p->each);
    return xappend(what, ": %u of them for each rank, and no %s has as many that pmirun may use",
                   p->each, map);
}

/* 0, and *full: no rank is bound. */
static int bind_objects(const struct job *job, const struct place_topology *t,
                        const struct seats *s, struct binding *b, bool *full, char **why)
{
    const struct place_policy *p = &job->jobs->opt->place;
    struct place_policy in_turn = *p;
    struct place_plan plan;
    enum place_result rc;
    int status = 0;

    /* Blocks depend on the number of seats; the same seats in turn have the same processors. */
    in_turn.block = p->block && s->alone;
    rc = place_ranks(t, &in_turn, s->n, &plan);
    *full = rc == PLACE_FULL;
    if (*full)
        say_full(p, s, plan.room);
    else if (rc == PLACE_NO_MEMORY)
        status = STATUS_RESOURCES;
    else if (rc != PLACE_OK) {
        *why = no_place(p, rc, plan.missing);
        status = STATUS_USAGE;
    }
    for (uint32_t i = 0; rc == PLACE_OK && i < b->n; i++)
        place_group_set(t, &plan.groups[plan.group_of[s->own[i]]], &b->sets[i]);
    place_plan_free(&plan);
    return status;
}

/* ---- telling ---- */

static void report_binding(const struct job *job, uint32_t i, const char *what, const char *drawn,
                           const char *cpus)
{
    log_message("%s %s%s%s, processors %s", rank_name(&job->ranks[i]), what, drawn ? " " : "",
                drawn ? drawn : "", cpus);
}

/* Turns the decision into texts, and reports it. */
static int describe_binding(const struct topology *topology, const struct job *job,
                            const struct place_topology *t, struct binding *b)
{
    const char *what = topology->elsewhere ? "placed on" : "bound to";

    for (uint32_t i = 0; i < b->n; i++) {
        char *cpus = place_set_text(&b->sets[i]), *drawn = NULL;

        if (!cpus)
            return STATUS_RESOURCES;
        b->vars[i] = xprintf(VARIABLE "%s", cpus);
        b->cpusets[i] = b->vars[i] + strlen(VARIABLE);
        if (t && job->mpi != MPI_PMI)
            b->localities[i] = place_locality(t, &b->sets[i]);
        if (t && job->jobs->opt->report_bindings)
            drawn = place_draw(t, &b->sets[i]);
        if (job->jobs->opt->report_bindings)
            report_binding(job, i, what, drawn, cpus);
        free(drawn);
        free(cpus);
    }
    return 0;
}

static void report_unbound(const struct job *job, const struct place_set *own)
{
    char *cpus = place_set_text(own);

    for (uint32_t i = 0; job->jobs->opt->report_bindings && i < job->n_local; i++)
        report_binding(job, i, "not bound", NULL, cpus ? cpus : "?");
    free(cpus);
}

/* ---- a job ---- */

/* The topology, if it is needed, and which of its processors ranks may use. 0, or a STATUS_*. */
static int find_table(struct topology *topology, const struct job *job, const struct place_set *own,
                      const struct place_topology **t, char **why)
{
    const struct place_policy *p = &job->jobs->opt->place;
    const char *no_table;

    *t = NULL;
    if (p->n_list && !job->jobs->opt->report_bindings && !job->jobs->opt->topology &&
        job->mpi == MPI_PMI)
        return 0;
    *t = topology_table(topology, &no_table);
    if (!*t && job->jobs->opt->topology)
        *why = xprintf("--topology \"%s\": %s", job->jobs->opt->topology, no_table);
    else if (!*t && !p->n_list)
        *why = xprintf(
            "--bind-to %s: the topology of this node is unknown: %s; use --bind-to none, or list",
            place_level_name(p->bind), no_table);
    for (uint32_t i = 0; *t && !topology->elsewhere && i < (*t)->n_pus; i++)
        (*t)->pus[i].usable = place_set_has(own, (*t)->pus[i].os);
    return *why ? STATUS_USAGE : 0;
}

static int decide_binding(struct topology *topology, struct job *job, const struct place_set *own,
                          char **why)
{
    const struct seats seats = find_seats(job);
    const struct place_topology *t;
    struct binding *b;
    bool full = false;
    int status = find_table(topology, job, own, &t, why);

    if (status)
        return status;
    b = make_binding(job->n_local);
    if (job->jobs->opt->place.n_list)
        status = bind_list(topology, job, &seats, t, own, b, why);
    else
        status = bind_objects(job, t, &seats, b, &full, why);
    if (status == 0 && full)
        report_unbound(job, own);
    else if (status == 0)
        status = describe_binding(topology, job, t, b);
    if (status || full || topology->elsewhere)
        bind_free(b);
    else
        job->bound = b;
    return status;
}

int bind_job(struct topology *topology, struct job *job, char **why)
{
    struct place_set own = {0};
    int status = 0;

    *why = NULL;
    if (!place_binds(&job->jobs->opt->place) && !job->jobs->opt->report_bindings)
        return 0;
    if (!bind_own(&own))
        *why = xprintf("the processors that pmirun may use are unknown: sched_getaffinity: %s",
                       strerror(errno));
    else if (place_binds(&job->jobs->opt->place))
        status = decide_binding(topology, job, &own, why);
    else
        report_unbound(job, &own);
    if (*why && !status)
        status = STATUS_RESOURCES;
    if (status && !*why)
        *why = xprintf("out of memory for the bindings of ranks");
    return status;
}
