/* SPDX-License-Identifier: BSD-3-Clause */
/* Carries frames between a job's server engines on several nodes, over the agents' links. */
#ifndef PMIRUN_EXCHANGE_H
#define PMIRUN_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <pmiwire/server.h>

struct job;
struct jobs;

/* For the server. */
int exchange_on_send(void *ctx, const struct pmiwire_peer *peer, uint32_t node,
                     const struct iovec *iov, uint32_t n_iov, size_t bytes);
void exchange_on_failed(void *ctx, const struct pmiwire_peer *peer, int rc, uint32_t node);
/* Delivers a frame of node `from`; false: the frame is invalid. */
bool exchange_frame(const struct job *job, uint32_t from, const void *p, size_t n);
/* The link to a node has room again; the node is lost. */
void exchange_room(struct jobs *jobs, uint32_t node);
void exchange_lost(struct jobs *jobs, uint32_t node);

#endif
