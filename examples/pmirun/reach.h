/* SPDX-License-Identifier: BSD-3-Clause */
/* How one gets to a job's nodes: what --launch and a batch system's allocation come to. */
#ifndef PMIRUN_REACH_H
#define PMIRUN_REACH_H

#include "options.h"

/* Each returns NULL, or what is wrong, to be freed. */

char *reach_launch(struct options *opt, const char *how); /* --launch HOW */
/* Once all options are known: where they name no hosts, those of an allocation. */
char *reach_allocation(struct options *opt);
/* Once the number of nodes is known: the way there. */
char *reach_settle(struct options *opt);

#endif
