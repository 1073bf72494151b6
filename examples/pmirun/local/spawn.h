/* SPDX-License-Identifier: BSD-3-Clause */
/* PMI spawn: a rank asks for more processes. */
#ifndef PMIRUN_SPAWN_H
#define PMIRUN_SPAWN_H

#include <stdint.h>

#include <pmiwire/server.h>

/* An info key of ours, allowed several times: NAME=value, a variable for the program. PMIx clients
 * set variables by it. */
#define SPAWN_ENV "pmirun.env"

struct app;
struct job;
struct rank;

/* A rank asks: starts them here, or through the head. PMIWIRE_PENDING, or an error. */
int spawn_for(struct rank *by, const struct pmiwire_spawn *req, uint64_t token);
/* Makes a job of these programs, which it takes, to be started. NULL, and *err: refused. */
struct job *spawn_create(struct rank *by, struct app *apps, uint32_t n_apps, uint64_t token,
                         int *err);
/* All processes have been started, or err: answers the spawner. */
void spawn_answer(struct job *job, int err);

#endif
