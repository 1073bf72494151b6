/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What Open MPI 4 finds, by PMI-1, of its peers' places before they have put anything.
 *
 * In MPI_Init each rank looks where its peers on the node are bound, among what they put, and does
 * so once: what it has not found by then it takes for unknown. Two ranks must not find different
 * things of each other, or their collectives do not match. So each rank here has a value from the
 * beginning, which we make; its own Put of that key is held back until the first Fence, which no
 * rank enters before it has looked.
 */
#ifndef PMIRUN_EARLY_H
#define PMIRUN_EARLY_H

#include <stdint.h>

#include <pmiwire/server.h>

struct job;
struct pmirun;

/* Puts where the ranks here are bound; `number` is what Open MPI takes for the job's. 0, or an
 * -errno or error of libpmiwire's. A no-op for ranks that are not bound. */
int early_put(struct pmirun *pr, struct job *job, uint32_t number);
/* A rank here puts: is that held back? 0: no; 1: it is; -ENOMEM. */
int early_hold(struct job *job, uint32_t rank, struct pmiwire_str key, struct pmiwire_str value);
/* A Fence is complete: what was held back is put. */
void early_release(struct pmirun *pr, struct job *job);
void early_free(struct job *job);

#endif
