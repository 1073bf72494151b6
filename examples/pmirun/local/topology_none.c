/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces topology.c in builds without hwloc's headers. */
#include "pmirun.h"
#include "topology.h"

const char *topology_file(struct pmirun *pr)
{
    if (!pr->topology.tried)
        trace(pr, "each rank detects the node's topology itself: built without hwloc (apt "
                  "install libhwloc-dev)");
    pr->topology.tried = true;
    return NULL;
}

const struct place_topology *topology_table(struct pmirun *pr, const char **why)
{
    *why = "this pmirun was built without hwloc (apt install libhwloc-dev)";
    return NULL;
}

void topology_vars(struct pmirun *pr, struct job *job)
{
    topology_file(pr);
}

void topology_use(const struct pmirun *pr, bool use)
{
    (void)pr, (void)use;
}
