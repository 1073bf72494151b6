/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The communicators of real applications, as arrays of ranks: what one process of a job holds. Each
 * has its indirect array (rank in the child to rank in the parent), which is what a split or dup
 * has in hand, and the ids that must come out, found by brute force.
 *
 * The applications are those of "Memory Compression Techniques for Network Address Management in
 * MPI", Table I; the sizes that it does not state are assumed, and the table in workload_apps.c
 * says which. The shapes are those that its survey lacks: reordered Cartesian grids, cyclic
 * placement, failed nodes, merged groups, irregular sets.
 */
#ifndef RANKMAP_EXPLAIN_WORKLOAD_H
#define RANKMAP_EXPLAIN_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>

#define WORKLOAD_MAX_COMMS  16u
#define WORKLOAD_MAX_GROUPS 32u
#define WORKLOAD_MAX_RANKS  (UINT32_C(1) << 24)

struct workload_comm {
    char name[72];
    unsigned count; /* communicators like this one in a process */
    int parent;     /* index of the parent; -1: of_parent holds ids */
    int merged;     /* made by a union of groups, not out of one parent */
    /* what it should come out as, with the generator's own sizes; smaller ones can be simpler */
    const char *model;
    uint32_t n;          /* ranks */
    uint32_t *of_parent; /* n ranks of the parent, in the order of this communicator's ranks */
    uint32_t *ids;       /* n flat ids; the same array when the parent is -1 */
};

struct workload {
    char title[96];
    uint32_t n_processes; /* in all groups */
    uint32_t n_groups;
    struct {
        uint32_t base, n; /* flat ids base to base + n - 1 */
    } groups[WORKLOAD_MAX_GROUPS];
    uint32_t n_comms;
    struct workload_comm comms[WORKLOAD_MAX_COMMS];
};

/*
 * Makes what `spec` names: a generator and its arguments, as "nwchem 768x1024" or "nek5000 86".
 * 0, or -1 with a message in `error`, and then there is nothing to free.
 */
int workload_make(struct workload *w, const char *spec, char *error, size_t error_size);
void workload_free(struct workload *w);

/* Is this the name of a generator? `name` ends at its first byte that is no letter, digit, '-' or
 * '_'. */
int workload_known(const char *name);

/* The i-th generator: name, arguments and meaning; 0 when there are no more. */
int workload_at(unsigned i, const char **name, const char **arguments, const char **meaning);

#endif
