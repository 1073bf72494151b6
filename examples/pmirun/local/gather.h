/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's Allgathers in shared memory. */
#ifndef PMIRUN_GATHER_H
#define PMIRUN_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#include <pmiwire/server.h>

struct job;
struct pmirun;

void gather_create(struct pmirun *pr, struct job *job);
void gather_destroy(struct job *job);
/* A put that is part of an Allgather: true, and it is kept until the fence. */
bool gather_put(struct job *job, int32_t rank, struct pmiwire_str key, struct pmiwire_str value);
int gather_get(const struct job *job, struct pmiwire_str key, struct pmiwire_str *value);
int gather_on_fence(void *ctx, uint32_t job_id);
/* The descriptor of the last Allgather, -1: none, and how many there have been. */
int gather_fd(const struct job *job, uint32_t *n_arrays);

#endif
