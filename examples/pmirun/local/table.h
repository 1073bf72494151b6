/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's pairs and Allgathers in shared memory. */
#ifndef PMIRUN_TABLE_H
#define PMIRUN_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include <pmiwire/server.h>

struct job;

void table_create(struct job *job);  /* without shared memory job->table stays NULL */
void table_destroy(struct job *job); /* and its Allgathers */
int table_fd(const struct job *job); /* what readers get, -1: none */
int table_put(struct job *job, struct pmiwire_str key, struct pmiwire_str value);
void table_publish(struct job *job); /* makes the pairs put so far visible to readers */
/* The descriptor of the last Allgather, -1: none; and the number of Allgathers so far. */
int gather_fd(const struct job *job, uint32_t *n_arrays);
/* The server's callbacks, see pmiwire/server.h. Values of a block end with a NUL. */
int table_on_put(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str key,
                 struct pmiwire_str value);
int table_on_find(void *ctx, const struct pmiwire_peer *peer, struct pmiwire_str key,
                  struct pmiwire_str *value);
int table_on_merge(void *ctx, const struct pmiwire_peer *peer, const void *block, size_t bytes);
void table_on_fenced(void *ctx, const struct pmiwire_peer *peer);
int gather_on_values(void *ctx, const struct pmiwire_peer *peer, uint32_t number, uint32_t longest,
                     const void *block, size_t bytes);

#endif
