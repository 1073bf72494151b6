/* SPDX-License-Identifier: BSD-3-Clause */
/* --stats: counters and times of the job, at its end, on stderr. */
#ifndef PMIRUN_STATS_H
#define PMIRUN_STATS_H

#include <pmiwire/server.h>

struct jobs;

/* As jobs->opt->stats says. `s`: the counters of all nodes' servers. */
void stats_print(const struct jobs *jobs, const struct pmiwire_stats_server *s);

#endif
