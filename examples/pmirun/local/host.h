/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The PMIx host: all that local/ and multinode/ see of pmix/, which has these functions. The first
 * job that uses PMIx loads libpmix and starts its server.
 *
 * All functions are called in the loop's thread. Where libpmix's headers were missing at build
 * time, pmix/host_none.c is built: host_available() returns false, and the others are never called.
 */
#ifndef PMIRUN_HOST_H
#define PMIRUN_HOST_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct job;
struct pmirun;
struct rank;
struct space;

/* status: a pmix_status_t. data is valid during the call. */
typedef void (*host_done_fn)(void *ctx, int status, const char *data, size_t len);

/* Can this node's ranks use PMIx? If not, *why says what to install. */
bool host_available(const char **why);

/*
 * Before the first rank of the job is launched here: starts the server if it does not run, checks
 * that the job's description has every key that clients ask for, registers it, and adds variables
 * to job->vars. Needs job->ranks and job->node_of. Returns 0, or a STATUS_* and *why, a sentence to
 * be freed.
 */
int host_job(struct pmirun *pr, struct job *job, char **why);
void host_job_over(struct pmirun *pr, struct job *job);
/* The rank's process has ended: notifies the clients that asked for such events. */
void host_rank_gone(struct pmirun *pr, struct rank *r, const siginfo_t *si);
void host_tick(struct pmirun *pr); /* every half second */
/* Before ranks are killed, and before pmirun ends: stops libpmix for good, since its server
 * crashes when several clients die at once. */
void host_stop(struct pmirun *pr);

/* A spawn that a PMIx client asked for, whose token has HOST_TOKEN, is done: rc is 0, an -errno or
 * libpmiwire's own. */
#define HOST_TOKEN (UINT64_C(1) << 63)
void host_spawned(struct pmirun *pr, uint64_t token, int rc, const char *nspace);

/* ---- for pmix/far.c ---- */

/* The pairs that a client here has put, packed by libpmix. done() gets PMIX_ERR_NOT_FOUND when
 * the client is gone and has put nothing. */
void host_modex(struct pmirun *pr, const char *nspace, uint32_t rank, host_done_fn done, void *ctx);
/* Registers a namespace without clients here, with what a client needs to connect to its ranks.
 * False: libpmix refused it. */
bool host_space(struct pmirun *pr, const struct space *s);
void host_space_over(struct pmirun *pr, const char *nspace);
/* Notifies the clients here that asked for events of this code; the event concerns that rank. */
void host_event(struct pmirun *pr, int code, const char *nspace, uint32_t rank, int status);

#endif
