/* SPDX-License-Identifier: BSD-3-Clause */
/* Gets that wait for their key, on one node. */
#ifndef PMIRUN_WAIT_H
#define PMIRUN_WAIT_H

#include <stdint.h>

#include <pmiwire/server.h>

struct conn;
struct job;
struct pmirun;
struct rank;

int wait_begin(struct pmirun *pr, struct job *job, const struct pmiwire_peer *who, int32_t src,
               struct pmiwire_str key, uint64_t token);
void wait_put(struct pmirun *pr, struct job *job, struct pmiwire_str key,
              struct pmiwire_str value);                /* after it has been stored */
void wait_rank_gone(struct pmirun *pr, struct rank *r); /* it puts nothing any more */
void wait_job_ended(struct pmirun *pr, struct job *job);
void wait_conn_closed(struct conn *c);
void wait_tick(struct pmirun *pr); /* twice a second: --get-timeout; on several nodes who is gone */
void wait_destroy(struct job *job); /* unanswered: no client is left, or we end */

#endif
