/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's pairs in shared memory. */
#ifndef PMIRUN_TABLE_H
#define PMIRUN_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include <pmiwire/server.h>

struct job;
struct pmirun;

const char *table_why(int rc); /* an error of libshmht's or the system's */
void table_create(struct pmirun *pr,
                  struct job *job); /* without shared memory job->table stays NULL */
void table_destroy(struct job *job);
/* Every rank has been told where it is, and has opened it: its name is not needed any more, and
 * would outlive a pmirun that is killed. */
void table_settled(struct pmirun *pr, struct job *job);
int table_fd(const struct job *job); /* what readers get, -1: none */
int table_put(struct pmirun *pr, struct job *job, struct pmiwire_str key, struct pmiwire_str value);
/* Pairs of all nodes, with the NUL of their values: a block of the exchange, of a Fence that brings
 * n_pairs in all. */
int table_merge(struct pmirun *pr, struct job *job, uint64_t n_pairs, const void *block,
                size_t bytes);
int table_find(struct pmirun *pr, struct job *job, struct pmiwire_str key,
               struct pmiwire_str *value);
/* A Fence is complete, and nobody has been answered: ranks find all pairs. */
void table_publish(struct pmirun *pr, struct job *job);
int table_on_put(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str key,
                 struct pmiwire_str value, uint32_t hint);
int table_on_get(void *ctx, const struct pmiwire_peer *who, uint32_t job_id, int32_t srcid,
                 struct pmiwire_str key, uint32_t how, uint64_t token, struct pmiwire_str *value);

#endif
