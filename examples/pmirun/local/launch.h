/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts processes. */
#ifndef PMIRUN_LAUNCH_H
#define PMIRUN_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

struct input;
struct job;
struct jobs;
struct launcher;
struct output;
struct signals;

/* Makes jobs->launcher; exits on failure. Call it first of all: it takes low descriptors. Each rank
 * gets its output, its input, and the signals as they were at pmirun's start. */
void launch_init(struct jobs *jobs, struct output *output, struct input *input,
                 const struct signals *signals);
/* Starts waiting processes for a limited time; true: some still wait. */
bool launch_some(struct launcher *l);
/* Waits until no child shares our memory. Call it before a signal is sent to a rank. */
void launch_land_all(struct launcher *l);
/* Drops all pointers to a job that is no longer in the queue. */
void launch_drop(struct launcher *l, struct job *job);
/* Notes the children that left our memory, and handles a program that could not be executed. Call
 * it before ranks are reaped. */
void launch_settle(struct launcher *l);
/* Checks the limit on descriptors for n more processes, and n_fds besides. NULL, or a sentence to
 * be freed. */
char *launch_check_limits(struct launcher *l, uint64_t n_more, uint64_t n_fds);

#endif
