/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting processes. */
#ifndef PMIRUN_LAUNCH_H
#define PMIRUN_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

struct app;
struct job;
struct pmirun;

void launch_init(struct pmirun *pr); /* exits on failure. First of all: it takes low descriptors */
/* Finds app's program; 0, NO_WDIR (its working directory is not there), or an errno: ENOENT,
 * EACCES, ... */
#define NO_WDIR (-1)
int launch_resolve(struct app *app);
/* The same: 0, or a STATUS_* and *why, a sentence to be freed. */
int launch_find(struct app *app, char **why);
/* Does -x set this variable, NAME=..., by one of app->sets from this one on? */
bool launch_is_set(const struct app *app, const char *var, uint32_t from);
/* Starts waiting processes for a little while; true when more are waiting. */
bool launch_some(struct pmirun *pr);
/* Waits until no child shares our memory any more. Before any signal is sent to a rank. */
void launch_land_all(struct pmirun *pr);
/* Starts no more of a job, and keeps nothing that points to it. */
void launch_drop(struct pmirun *pr, struct job *job);
/* Notes those who have left our memory by now, and deals with a program that could not be executed.
 * Before ranks are reaped. */
void launch_settle(struct pmirun *pr);
/* Are there descriptors for n more processes? 0 or -EMFILE; how many that takes in all, and the
 * limit. */
int launch_check_limits(struct pmirun *pr, uint64_t n_more, uint64_t *need, uint64_t *have);

#endif
