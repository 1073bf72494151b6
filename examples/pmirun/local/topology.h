/* SPDX-License-Identifier: BSD-3-Clause */
/* The node's topology, detected once for all its ranks that use hwloc. */
#ifndef PMIRUN_TOPOLOGY_H
#define PMIRUN_TOPOLOGY_H

#include <stdbool.h>

#include "../place/place.h"

struct folders;
struct job;
struct options;

struct topology {
    const struct options *opt;
    struct folders *folders; /* of the file */
    bool tried;
    char *file; /* NULL: there is none */
    bool table_tried;
    struct place_topology table;
    const char *no_table; /* NULL: it is there */
    bool elsewhere;       /* the table is not of this node: --topology, or a variable HWLOC_* */
};

/* The node's processors, or those of --topology, found at the first call; all are usable. NULL, and
 * *why. */
const struct place_topology *topology_table(struct topology *t, const char **why);
/* Adds variables to job->vars that make hwloc read a file with this node's topology, unless the
 * user sets one of hwloc's own. */
void topology_vars(struct topology *t, struct job *job);
/* Makes hwloc in this process read that file until it is called with false: libpmix's server
 * detects the topology when it starts. */
void topology_use(const struct topology *t, bool use);

#endif
