/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Published values: who may see them, how long they stay, lookups that wait. Sans-I/O: requests go
 * in, answers come out. Values are opaque. Memory is bounded by the limits; what goes beyond one is
 * refused as a whole, with FAR_ELIMIT.
 *
 * A process is a job's number and a rank. A key may be published once in each range: all jobs
 * (SESSION, GLOBAL), one namespace, one node, one process. Each user id has keys of its own.
 */
#ifndef PMIRUN_STORE_H
#define PMIRUN_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "far.h"

/* The limits that pmirun uses. Bytes are those of keys and values. */
#define STORE_KEY_BYTES     511u /* a key, as PMIX_MAX_KEYLEN */
#define STORE_KEYS          256u /* of one request */
#define STORE_PROC_VALUES   1024u
#define STORE_PROC_BYTES    (4u << 20)
#define STORE_JOB_VALUES    65536u
#define STORE_JOB_BYTES     (64u << 20)
#define STORE_ALL_VALUES    131072u /* of all jobs, those that are over among them */
#define STORE_ALL_BYTES     (128u << 20)
#define STORE_PROC_WAITING  16u         /* lookups of a process that wait */
#define STORE_WAITING_BYTES (16u << 20) /* of the keys of all lookups that wait */

struct store;

struct store_limits {
    uint32_t proc_values, job_values, all_values, proc_waiting;
    uint64_t proc_bytes, job_bytes, all_bytes, waiting_bytes;
};

/* Who asks. */
struct store_who {
    uint32_t job, rank, node;
    const char *nspace;
};

/* The answer to a request; once for each. The store may not be called from it. */
typedef void (*store_answer_fn)(void *ctx, uint64_t id, int status, const char *data, size_t len);

/* NULL: no memory. limits NULL: those above. */
struct store *store_create(const struct store_limits *limits, store_answer_fn answer, void *ctx);
void store_destroy(struct store *st); /* what waits is not answered */
/* req->by is ignored. `id` is the caller's. Answered before it returns, unless it waits. */
void store_request(struct store *st, const struct store_who *who, const struct names_req *req,
                   uint64_t now_ns, uint64_t id);
/* Its values with NAMES_UNTIL_PROC go, its waiting lookups end with FAR_EGONE. */
void store_proc_gone(struct store *st, uint32_t job, uint32_t rank);
/* So do those of all its processes, and its values with NAMES_UNTIL_JOB. */
void store_job_gone(struct store *st, uint32_t job);
void store_tick(struct store *st, uint64_t now_ns); /* ends lookups whose time is over */

#endif
