/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's server engines on several nodes talk to each other: the way between them and the agents'
 * links. */
#ifndef PMIRUN_EXCHANGE_H
#define PMIRUN_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <pmiwire/server.h>

struct job;
struct pmirun;

/* For the server. */
int exchange_on_send(void *ctx, const struct pmiwire_peer *peer, uint32_t node,
                     const struct iovec *iov, uint32_t n_iov, size_t bytes);
void exchange_on_failed(void *ctx, const struct pmiwire_peer *peer, int rc, uint32_t node);
/* A frame of node `from`; false when it makes no sense. */
bool exchange_frame(struct pmirun *pr, struct job *job, uint32_t from, const void *p, size_t n);
/* There is room again on the way to a node; it is lost. */
void exchange_room(struct pmirun *pr, uint32_t node);
void exchange_lost(struct pmirun *pr, uint32_t node);

#endif
