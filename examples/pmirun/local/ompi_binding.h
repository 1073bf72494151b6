/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The binding of each rank as its peers of Open MPI 4 read it by PMI-1, before any of them has put.
 *
 * In MPI_Init each rank reads once where its peers on the node are bound. A peer that has not put
 * its binding yet counts as unknown, for good. If two ranks read different bindings, their
 * collectives do not match. So pmirun stores a value for each rank before the ranks start, and
 * holds back the rank's own Put of that key until the first Fence: every rank has read by then.
 */
#ifndef PMIRUN_OMPI_BINDING_H
#define PMIRUN_OMPI_BINDING_H

#include <stdbool.h>
#include <stdint.h>

#include <pmiwire/server.h>

struct job;

/* Stores the bindings of the ranks here; `number` is the job's as Open MPI sees it. 0, or an
 * -errno or error of libpmiwire's. A no-op for ranks that are not bound. */
int early_put(struct job *job, uint32_t number);
/* A rank here puts this pair. True: it is held back; else the caller stores it. */
bool early_hold(struct job *job, uint32_t rank, struct pmiwire_str key, struct pmiwire_str value);
/* A Fence is complete: stores the pairs that were held back. */
void early_release(struct job *job);
void early_free(struct job *job);

#endif
