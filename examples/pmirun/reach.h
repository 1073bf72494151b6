/* SPDX-License-Identifier: BSD-3-Clause */
/* The way to a job's nodes, from --launch and a batch system's allocation. */
#ifndef PMIRUN_REACH_H
#define PMIRUN_REACH_H

#include "options.h"

/* Does the job need hosts that no option has named? */
bool reach_wants_hosts(const struct options *opt);

/* Each returns NULL, or an error text to be freed. */

char *reach_launch(struct options *opt, const char *how); /* --launch HOW */
/* After all options are read: takes the hosts of an allocation if they name none. */
char *reach_allocation(struct options *opt);
/* After the number of nodes is known: settles the way there. */
char *reach_settle(struct options *opt);

#endif
