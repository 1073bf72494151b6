/* SPDX-License-Identifier: BSD-3-Clause */
/* Gets that wait for their key, on one node. */
#ifndef PMIRUN_WAIT_H
#define PMIRUN_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include <pmiwire/server.h>

struct conn;
struct job;
struct pmirun;

int wait_begin(struct pmirun *pr, struct job *job, const struct pmiwire_peer *who,
               struct pmiwire_str key, uint64_t token);
void wait_put(struct pmirun *pr, struct job *job, struct pmiwire_str key,
              struct pmiwire_str value); /* after it has been stored */
void wait_rank_done(struct pmirun *pr,
                    struct job *job); /* a rank has finalized, or exited without */
void wait_job_ended(struct pmirun *pr, struct job *job);
void wait_conn_closed(struct conn *c);
void wait_tick(
    struct pmirun *pr); /* twice a second: --get-timeout and who is left, on several nodes too */
/* Will no rank of the job that is here put anything before it is told something? */
bool wait_nobody_left(const struct pmirun *pr, const struct job *job);
void wait_destroy(struct job *job); /* unanswered: no client is left, or we end */

#endif
