/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of clients among several nodes. Each group of processes that has a collective has a
 * libpmiwire exchange among its nodes, and each collective is a Fence of it: every node puts its
 * ranks' data in pieces, and gets everybody's. The exchange also brings the ends of ranks.
 *
 * A *signature* names a group: the kind, and the sorted processes. It precedes each frame, so that
 * a node can create its part of the exchange when the first frame comes, before its own ranks have
 * entered. Exchanges of groups stay until one of their jobs is over: they count their collectives.
 *
 * A Get of a rank elsewhere is a group of two nodes, the asking one and the rank's, for one
 * collective: the rank's node enters when libpmix has the data. A waiting Get of the exchange would
 * carry 256 KiB at most, and the exchange would keep the value.
 */
#ifndef GROUPS_H
#define GROUPS_H

#include "host_internal.h"

enum group_kind { GROUP_FENCE = 1, GROUP_CONNECT, GROUP_DISCONNECT, GROUP_MODEX };

#define GROUPS_MAX            16384u              /* on a node */
#define GROUPS_BYTES          ((size_t)256 << 20) /* of their descriptions, not counting data */
#define GROUP_SIGNATURE_BYTES 32768u
#define GROUP_DATA_BYTES      ((size_t)256 << 20) /* of a collective, all nodes' */

struct group_proc {
    uint32_t job, rank;
};

/*
 * All of this node's participants have entered; there is one. procs: of known jobs, in any order;
 * sorted by the call. done: all nodes' data, in the order of nodes; HOST_EGONE when a rank is gone
 * that has not entered; HOST_ELIMIT beyond a limit.
 */
void groups_enter(struct pmix_host *h, enum group_kind kind, struct group_proc *procs, size_t n,
                  const void *data, size_t len, host_done_fn done, void *ctx);
/* The data of a rank on another node. */
void groups_fetch(struct pmix_host *h, const struct host_job *job, uint32_t rank, host_done_fn done,
                  void *ctx);
/* The answer to host_modex(). */
void groups_given(struct pmix_host *h, uint64_t token, int status, const char *data, size_t len);
/* A frame of another node. False: it is invalid. */
bool groups_input(struct pmix_host *h, uint32_t from, const void *p, size_t n);
void groups_link_ready(struct pmix_host *h, uint32_t node);
/* Ends the groups that have ranks of this job, with HOST_EGONE. */
void groups_job_end(struct pmix_host *h, uint32_t job);
void groups_tick(struct pmix_host *h); /* reports ranks that are gone */
void groups_free(struct pmix_host *h); /* nothing is answered */

#endif
