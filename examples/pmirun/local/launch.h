/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts processes. */
#ifndef PMIRUN_LAUNCH_H
#define PMIRUN_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

struct app;
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
/* Finds app's program. 0, NO_WDIR (its working directory does not exist), or an errno: ENOENT,
 * EACCES, ... */
#define NO_WDIR (-1)
int launch_resolve(struct app *app);
/* As launch_resolve(). 0, or a STATUS_* and *why, a sentence to be freed. */
int launch_find(struct app *app, char **why);
/* Does -x set this variable, NAME=..., by one of app->sets from this one on? */
bool launch_is_set(const struct app *app, const char *var, uint32_t from);
/* Starts waiting processes for a limited time; true: some still wait. */
bool launch_some(struct launcher *l);
/* Waits until no child shares our memory. Call it before a signal is sent to a rank. */
void launch_land_all(struct launcher *l);
/* Stops starting the processes of a job, and drops all pointers to it. */
void launch_drop(struct launcher *l, struct job *job);
/* Notes the children that left our memory, and handles a program that could not be executed. Call
 * it before ranks are reaped. */
void launch_settle(struct launcher *l);
/* Checks the limit on descriptors for n more processes. 0 or -EMFILE; *need: in all, *have: the
 * limit. */
int launch_check_limits(struct launcher *l, uint64_t n_more, uint64_t *need, uint64_t *have);

#endif
