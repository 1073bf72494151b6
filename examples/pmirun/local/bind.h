/* SPDX-License-Identifier: BSD-3-Clause */
/* Binding ranks to processors: what --map-by and --bind-to decide for the ranks of this node. */
#ifndef PMIRUN_BIND_H
#define PMIRUN_BIND_H

#include <stdbool.h>
#include <stdint.h>

#include "../place/place.h"

struct job;
struct topology;

/* For a job's ranks here, by their index in job->ranks. */
struct binding {
    uint32_t n;
    struct place_set *sets;
    char **vars;       /* PMIRUN_CPUSET=0-3,8 */
    char **cpusets;    /* the same without the name, where it lies in vars */
    char **localities; /* for PMIx and Open MPI: PMIX_LOCALITY_STRING; an entry may be NULL */
};

/* Before the first rank of the job is launched here: sets job->bound, and reports. 0, or a
 * STATUS_* and *why, a sentence to be freed. */
int bind_job(struct topology *topology, struct job *job, char **why);
void bind_free(struct binding *b); /* NULL is allowed */
/* The processors that this process may use. False: unknown. */
bool bind_own(struct place_set *set);

#endif
