/* SPDX-License-Identifier: BSD-3-Clause */
/* --stats: counters and times of the job, at its end, on stderr. */
#ifndef PMIRUN_STATS_H
#define PMIRUN_STATS_H

struct pmirun;

void stats_print(struct pmirun *pr); /* as pr->opt.stats says */

#endif
