/* SPDX-License-Identifier: BSD-3-Clause */
/* On which nodes a job runs, and how one gets there: what the options about that come to. */
#ifndef PMIRUN_REACH_H
#define PMIRUN_REACH_H

#include <stdint.h>

#include "options.h"

/* --launch HOW. NULL, or what is wrong with it, to be freed. */
char *reach_launch(struct options *opt, const char *how);
/* Once all options are known: nodes, hosts and the way there. NULL, or what is wrong. */
char *reach_settle(struct options *opt);
/* How many of n ranks each node gets: as many as it has slots, again from the first node when
 * there are more; as evenly as can be where slots is NULL. */
void reach_share(const uint32_t *slots, uint32_t n, uint32_t n_nodes, uint32_t *share);

#endif
