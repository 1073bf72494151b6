/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's pairs between its nodes. */
#ifndef PMIRUN_EXCHANGE_H
#define PMIRUN_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pmiwire/server.h>

struct job;
struct pmirun;

int exchange_create(struct pmirun *pr, struct job *job);
void exchange_destroy(struct job *job);
void exchange_over(struct job *job); /* no node has any more of the job: ranks of other jobs that
                                        wait here for a key of it are told that it will not come */
/* The value with its NUL; PMIWIRE_HINT_*. */
int exchange_put(struct job *job, int32_t rank, struct pmiwire_str key, struct pmiwire_str value,
                 uint32_t hint);
int exchange_get(struct job *job, int32_t rank, struct pmiwire_str key, int32_t src, uint32_t how,
                 uint64_t token, struct pmiwire_str *value); /* rank -1: of another job */
int exchange_on_ring(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str left,
                     struct pmiwire_str right, uint64_t token);
int exchange_fence(struct job *job); /* 0, PMIWIRE_PENDING, or an error */
/* A frame of node `from`; false when it makes no sense. */
bool exchange_frame(struct job *job, uint32_t from, const void *p, size_t n);
void exchange_lost(struct job *job, uint32_t node);
void exchange_room(struct job *job, uint32_t node); /* the way there was full */
void exchange_gone(struct job *job, int32_t rank);
void exchange_tick(struct job *job);

#endif
