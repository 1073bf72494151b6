/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that continue during other calls: Fences, Allgathers, and the puts behind them. All
 * with core's lock held; functions that return int return 0, -errno or PMIWIRE_E*.
 */
#ifndef FENCEPOST_LIBPMI2_OPS_H
#define FENCEPOST_LIBPMI2_OPS_H

#include "core.h"

enum { OP_FENCE = 1, OP_GATHER = 2, OP_GATHER_TO = 4 /* into its caller's buffer */ };

struct op {
    struct request request;
    struct op *next; /* in the order in which they were begun */
    int what;
    int is_counted;      /* its caller does not wait for it */
    int rc;              /* once it has been answered */
    int n_open;          /* its requests that are not over */
    int peer_rc;         /* the server's own rc */
    uint64_t fence;      /* a Fence: its number, from 0 */
    struct put *refused; /* a Fence: a refused put before it, or NULL */
    /* An Allgather. */
    unsigned number;           /* from 0 */
    char *to;                  /* the caller's buffer, or NULL */
    struct shmht_array *array; /* its values in shared memory, */
    char *own;                 /* or in this process's */
    struct get_value *gets;    /* pending requests, if there is no array */
    char value[];              /* this rank's */
};

/* Begin one. -EAGAIN: PMI2_MAX_OUTSTANDING are pending. `waits`: the caller completes this one
 * before it returns, so it does not count. to: NULL, or n_ranks * PMI2_MAX_VALLEN bytes. */
int op_fence(int waits, struct op **op);
int op_gather(int waits, const char *value, char *to, struct op **op);

/* The oldest of these kinds, or NULL. */
struct op *op_oldest(int what);

/*
 * Complete one: free it and return its rc. `done`: NULL, wait for it; otherwise nothing waits, and
 * *done says whether it was over. With `to`, an Allgather's values are copied there; op_gathered()
 * shows where they are. No op: PMIWIRE_ESTATE.
 */
int op_complete(struct op *op, char *to, int *done);

/* The values of the last completed Allgather. PMIWIRE_ENOENT: it has left none here. */
int op_gathered(const void **values, int *stride);

/* The key of the put that made the last completed Fence fail, and why. PMIWIRE_ENOENT: no put
 * did. */
int op_refused(char key[], int bytes, int *why);

/* Put behind pending operations, without waiting. 1: nothing is pending, and this was not put. */
int op_put(const char *key, const char *value, int hint, struct pair *pair);

/* The error of the first failed put that no Fence has reported, as in op_complete(); 0: none. */
int ops_unreported(void);

/* Free everything; no operation may be in flight. */
void ops_free(void);

#endif
