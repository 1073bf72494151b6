/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces topology.c in builds without hwloc's headers. */
#include "topology.h"
#include "util.h"

const struct place_topology *topology_table(struct topology *t, const char **why)
{
    *why = "this pmirun was built without hwloc (apt install libhwloc-dev)";
    return NULL;
}

void topology_vars(struct topology *t, struct job *job)
{
    if (!t->tried)
        log_verbose("each rank detects the node's topology itself: built without hwloc (apt "
                    "install libhwloc-dev)");
    t->tried = true;
}

void topology_use(const struct topology *t, bool use)
{
}
