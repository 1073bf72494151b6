/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts processes. */
#ifndef PMIRUN_LAUNCH_H
#define PMIRUN_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

struct job;
struct pmirun;

void launch_init(struct pmirun *pr); /* exits on failure. First of all: it takes low descriptors */
/* Starts waiting processes for a limited time; true: some still wait. */
bool launch_some(struct pmirun *pr);
/* Waits until no child shares our memory. Call it before a signal is sent to a rank. */
void launch_land_all(struct pmirun *pr);
/* Stops starting the processes of a job, and drops all pointers to it. */
void launch_drop(struct pmirun *pr, struct job *job);
/* Notes the children that left our memory, and handles a program that could not be executed. Call
 * it before ranks are reaped. */
void launch_settle(struct pmirun *pr);
/* Checks the limit on descriptors for n more processes. 0 or -EMFILE; *need: in all, *have: the
 * limit. */
int launch_check_limits(struct pmirun *pr, uint64_t n_more, uint64_t *need, uint64_t *have);

#endif
