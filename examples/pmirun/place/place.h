/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses the processors of each rank of a node: a table of the processors and a policy go in, a
 * set of processors for each rank comes out. No I/O, and no hwloc: topology.c fills the table from
 * hwloc, tests write it by hand.
 *
 * A processor is what the kernel schedules on: a hardware thread. An *object* is a socket, a NUMA
 * node, a cache, a core or a processor; its *level* says which. Two objects of a policy matter:
 *
 *   - map: ranks are dealt out to these, round robin (cyclic) or each its share of consecutive
 *     ranks (block);
 *   - bind: inside of its map object each rank gets the next group of `each` of these, round robin.
 *
 * A bind object that is larger than the map object is taken whole. A group of cores or hardware
 * threads has room for one rank, a larger one for as many as it has processors in the map object. A
 * map object without room is passed over. More ranks than there is room for is PLACE_FULL.
 */
#ifndef PMIRUN_PLACE_H
#define PMIRUN_PLACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PLACE_MAX_PUS 8192u /* of a node, as Linux has it; their numbers are below it too */
#define PLACE_NONE    UINT32_MAX

/* ---- sets of processors ---- */

#define PLACE_WORD_BITS (8 * sizeof(unsigned long))

/* By the kernel's numbers, `bits` as sched_setaffinity() takes it. {0}: empty. */
struct place_set {
    uint32_t end; /* those in it are below this */
    unsigned long bits[PLACE_MAX_PUS / PLACE_WORD_BITS];
};

void place_set_add(struct place_set *set, uint32_t cpu);
bool place_set_has(const struct place_set *set, uint32_t cpu);
uint32_t place_set_count(const struct place_set *set);
void place_set_print(FILE *f, const struct place_set *set); /* "0-3,8" */
/* The same. To be freed; NULL: out of memory. So for the texts below. */
char *place_set_text(const struct place_set *set);

/* ---- a node ---- */

enum place_level {
    PLACE_NODE,
    PLACE_SOCKET,
    PLACE_NUMA,
    PLACE_L3,
    PLACE_L2,
    PLACE_L1,
    PLACE_CORE,
    PLACE_HWTHREAD,
    PLACE_LEVELS
};

const char *place_level_name(enum place_level level); /* as --bind-to has it */

struct place_pu {
    uint32_t os;               /* the kernel's number */
    uint32_t of[PLACE_LEVELS]; /* its object of each level, from 0; PLACE_NONE: it has none */
    uint32_t usable;           /* 0: ranks may not run on it */
};

/* In the order of the objects: those of one object, of any level, stand together. */
struct place_topology {
    uint32_t n_pus;
    struct place_pu *pus;
};

/* ---- a policy ---- */

struct place_policy {
    bool bind_given;
    enum place_level map; /* PLACE_NODE: ranks are dealt out to bind objects alone */
    bool block;
    bool nodes_cyclic;      /* ranks go round the nodes: --map-by node */
    enum place_level bind;  /* PLACE_NODE: no rank is bound */
    uint32_t map_each;      /* what PE=N says; 0: nothing */
    uint32_t bind_each;     /* the same of --bind-to */
    uint32_t each;          /* bind objects for each rank, once settled */
    struct place_set *list; /* --bind-to list: instead of all this, a set for each rank; malloc() */
    uint32_t n_list;
};

/* Parse --map-by and --bind-to. NULL, or an error text. */
const char *place_parse_map(struct place_policy *p, const char *text);
const char *place_parse_bind(struct place_policy *p, const char *text);
/* After both are read: sets defaults and refuses contradictions. NULL, or an error text. */
const char *place_settle(struct place_policy *p);
bool place_binds(const struct place_policy *p);

/* ---- the decision ---- */

enum place_result {
    PLACE_OK,
    PLACE_FULL,       /* plan->room says for how many there is room */
    PLACE_NO_OBJECTS, /* the node has none of map or of bind: plan->missing */
    PLACE_NO_ROOM,    /* no map object has `each` bind objects */
    PLACE_NO_MEMORY
};

/* Processors first to last - 1 of the table, those that are usable. */
struct place_group {
    uint32_t first, last;
    uint32_t room, n; /* ranks that it has room for, and that it has */
};

struct place_plan {
    uint32_t n_groups;
    struct place_group *groups;
    uint32_t *group_of; /* by rank */
    uint32_t room;
    enum place_level missing;
};

/* For n ranks, with any policy but a list. place_plan_free() in any case. */
enum place_result place_ranks(const struct place_topology *t, const struct place_policy *p,
                              uint32_t n, struct place_plan *plan);
/* Adds the processors of a group. */
void place_group_set(const struct place_topology *t, const struct place_group *g,
                     struct place_set *set);
void place_plan_free(struct place_plan *plan);

/* ---- texts ---- */

/* "socket 0[core 0-1[hwt 0-1]]: [BB/BB/../..][../../../..]": a `~` is a processor that is not
 * usable. */
char *place_draw(const struct place_topology *t, const struct place_set *set);
/* PMIx's PMIX_LOCALITY_STRING: "SK0:L30:CR0-1:HT0-3:NM0". */
char *place_locality(const struct place_topology *t, const struct place_set *set);

#endif
