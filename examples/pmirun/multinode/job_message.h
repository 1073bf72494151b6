/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages about jobs, each field in one place for the side that writes it and the side that reads
 * it: reports, what a job is to agents (MSG_SETUP, MSG_JOB), and what is to become one (MSG_SPAWN).
 */
#ifndef PMIRUN_JOB_MESSAGE_H
#define PMIRUN_JOB_MESSAGE_H

#include "../local/job.h"
#include "../local/message.h"

void report_put(struct msg *m, const struct report *r);
void report_get(struct msg_in *in, struct report *r, char **text); /* its text, to be freed */

/* MSG_SETUP. Read: cwd and vars are to be freed. */
struct setup {
    struct options *opt; /* those that agents need */
    bool timeline;
    char *cwd;
    char **vars; /* the environment */
    uint32_t n_vars;
};

void setup_fields(struct msg_fields *f, struct setup *s);
/* Programs. Read: to be freed by apps_free(), even if in->bad. */
void apps_fields(struct msg_fields *f, struct app **apps, uint32_t *n);
/* MSG_JOB without its pairs. Read: all of it is to be freed, even if in->bad; else each rank has a
 * node below n_nodes. */
void job_fields(struct msg_fields *f, struct job *plan, uint32_t n_nodes);
/* Is this message of a spawn small enough to be sent? If not, says that the spawn fails. */
bool spawn_fits(const struct msg *m);
uint64_t apps_n_ranks(const struct app *apps, uint32_t n);

#endif
