/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that have been begun and continue during other calls: Fences, Allgathers, and the
 * puts behind them. All with core's lock held; what returns int returns 0, -errno or PMIWIRE_E*.
 */
#ifndef FENCEPOST_LIBPMI2_OPS_H
#define FENCEPOST_LIBPMI2_OPS_H

#include "core.h"

enum { OP_FENCE = 1, OP_GATHER = 2 };

struct op {
    struct request request;
    struct op *next; /* in the order in which they were begun */
    int what;
    int is_counted;      /* its caller does not wait for it */
    int rc;              /* once it has been answered */
    int n_open;          /* requests of it that are not over */
    int peer_rc;         /* the server's own rc */
    uint64_t place;      /* among all that has been begun */
    struct put *refused; /* a Fence: the first before it that was, or NULL */
    /* An Allgather. */
    unsigned number;           /* from 0 */
    char *to;                  /* the caller's buffer, or NULL */
    struct shmht_array *array; /* its values in shared memory, */
    char *own;                 /* or in this process's */
    struct get_value *gets;    /* what is asked for, where there is no array */
    char value[];              /* this rank's */
};

/* Begin one. -EAGAIN: PMI2_MAX_OUTSTANDING are outstanding; `waits`, the caller completes this one
 * before it returns, and is not counted. to: NULL, or n_ranks * PMI2_MAX_VALLEN bytes. */
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

/* The values of the Allgather that was ended last. PMIWIRE_ENOENT: it has left none here. */
int op_gathered(const void **values, int *stride);

/* The key of the put that made the Fence that was completed last fail, and why. PMIWIRE_ENOENT: no
 * put has. */
int op_refused(char key[], int bytes, int *why);

/* Put behind what has been begun, without waiting. 1: nothing has been, and this is not put. */
int op_put(const char *key, const char *value, int hint, struct pair *pair);

/* Why the first put failed that no Fence has reported, as op_complete() says it; 0: none has. */
int ops_unreported(void);

/* Forget everything; nothing may be under way. */
void ops_free(void);

#endif
