/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's Allgathers in shared memory. */
#ifndef PMIRUN_GATHER_H
#define PMIRUN_GATHER_H

#include <stddef.h>
#include <stdint.h>

#include <pmiwire/server.h>

struct job;

void gather_destroy(struct job *job);
/* The server's callbacks for an Allgather, see pmiwire/server.h. */
int gather_on_values(void *ctx, const struct pmiwire_peer *peer, uint32_t number, uint32_t longest,
                     const void *block, size_t bytes);
/* Finds a rank's value by its key. 0, or -1: no value of the last Allgather has this key. */
int gather_find(const struct job *job, struct pmiwire_str key, struct pmiwire_str *value);
/* Each rank knows now where the last Allgather lies. */
void gather_settled(struct job *job);
/* The descriptor of the last Allgather, -1: none; and the number of Allgathers so far. */
int gather_fd(const struct job *job, uint32_t *n_arrays);

#endif
