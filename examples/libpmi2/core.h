/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The core of both drop-in libraries: one process's PMI behind one lock, under a launcher or
 * without. PMI-1's and PMI-2's functions check their arguments, enter, do one thing, and leave with
 * its code.
 */
#ifndef FENCEPOST_LIBPMI2_CORE_H
#define FENCEPOST_LIBPMI2_CORE_H

#include <pthread.h>

#include "pairs.h"
#include "session.h"

#define CORE_NAME_BYTES 256

struct core {
    pthread_mutex_t lock;
    int initialized;
    int finalized; /* also after a failed init, which closes the connection */
    int alone;     /* no launcher: rank 0 of 1 */
    struct session session;
    char name[CORE_NAME_BYTES]; /* of the own key-value space, or the job's id */
    int keeps_pairs;            /* also under a launcher */
    struct pairs pairs;         /* what this process has put */
};

extern struct core core;

/* The server's answers to init. */
static inline const struct pmiwire_info_client *core_info(void)
{
    return &core.session.info;
}

/* The codes that PMI-1 and PMI-2 share; the rest are libpmiwire's. */
enum { CORE_OK = 0, CORE_FAIL = -1, CORE_NOT_INITIALIZED = 1 };

/* Take the lock. CORE_NOT_INITIALIZED, without it, before init. */
int core_enter(void);
/* The same for calls that need a server: CORE_FAIL, without the lock, without a launcher. */
int core_enter_job(void);
/* Release the lock; returns its argument. */
int core_leave(int code);

/* PMI's code for libpmiwire's result. */
int core_code(int rc);

/* Take the lock and connect, unless that has been done. CORE_OK with the lock held, or a code
 * without it. name_alone: the name of the key-value space without a launcher; code: the interface's
 * code for libpmiwire's result. */
int core_init(uint32_t wire, const char *name_alone, int (*code)(int rc));
/* Finalize, and free everything else. 0, or why the server was not reached. */
int core_end(void);

/* End the job and the process; without exit handlers if the lock is not free within a second. */
_Noreturn void core_abort(int exitcode, const char *message);

/* All below: with the lock held. They return 0, -errno or PMIWIRE_E*. */

/* Wait for the answer to a request that has been queued, or could not be. */
int core_ask(int queued, struct pmiwire_event *ev);
/* Send one request: PMIWIRE_OP_*. */
int core_ask_about(uint32_t op, const char *about, struct pmiwire_event *ev);

/* Does not wait for pending operations (ops.h): the next Fence reports a refusal. */
int core_put(const char *key, const char *value, int hint);
/* The pairs that this process has put. */
int core_own(const char *key, struct pmiwire_str *value);
/* space: NULL is our own. The view lives until the next request. */
int core_get(const char *space, int source, const char *key, struct pmiwire_str *value);
int core_get_wait(int source, const char *key, struct pmiwire_str *value);
/* Values and their NULs fit into max bytes, else PMIWIRE_EVALLEN and no output. */
int core_ring(const char *value, int *rank, int *ranks, char left[], char right[], int max);

int core_publish(const char *service, const char *port);
int core_unpublish(const char *service);
int core_lookup(const char *service, char port[], int bytes);

/* Without the lock: copy a number from the answer to init. A code. */
int core_number(const int *value, int *to);

/* PMIWIRE_ECHARS instead of an rc of 0 if the value is not a string: it contains a NUL. */
int check_string(int rc, const struct pmiwire_str *value);

/* Copy a view to a string of `length` bytes, NUL included. 0, or -1 and no output if it is too
 * long. */
int give(struct pmiwire_str from, char *to, int length);

#endif
