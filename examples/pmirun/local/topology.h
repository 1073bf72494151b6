/* SPDX-License-Identifier: BSD-3-Clause */
/* The node's topology, found once for all ranks of it that use hwloc. */
#ifndef PMIRUN_TOPOLOGY_H
#define PMIRUN_TOPOLOGY_H

#include <stdbool.h>

#include "../place/place.h"

struct job;
struct pmirun;

struct topology {
    bool tried;
    char *file; /* NULL: there is none */
    bool table_tried;
    struct place_topology table;
    const char *no_table; /* NULL: it is there */
    bool elsewhere;       /* the table is not of this node: --topology, or a variable HWLOC_* */
};

/* A file with the topology of this node as XML, version 2, made at the first call in our folder of
 * temporary files. NULL: there is none, which -v explains. */
const char *topology_file(struct pmirun *pr);
/* The node's processors, or those of --topology, found at the first call; all are usable. NULL, and
 * *why. */
const struct place_topology *topology_table(struct pmirun *pr, const char **why);
/* Adds to job->vars what has hwloc read that file, unless the user sets a variable of hwloc. */
void topology_vars(struct pmirun *pr, struct job *job);
/* From true to false, hwloc in this process reads that file, if there is one: libpmix's server
 * looks for the topology when it starts. */
void topology_use(const struct pmirun *pr, bool use);

#endif
