/* SPDX-License-Identifier: BSD-3-Clause */
/* A libpmiwire client session over PMI_FD or PMI_PORT: blocking and
 * non-blocking requests. Both drop-in libraries are built on it. */
#ifndef FENCEPOST_LIBPMI2_SESSION_H
#define FENCEPOST_LIBPMI2_SESSION_H

#include <pmiwire/client.h>

#include "shm_table.h"

struct session;

/*
 * A non-blocking request. The session sends these in order, as far ahead of the answers as the
 * server permits.
 */
struct request {
    struct request *next;
    /* Make the request of the client session, with this cookie: 0; -EAGAIN, it cannot be made yet;
     * or why it cannot be made. */
    int (*send)(struct session *s, struct request *r, uint64_t cookie);
    /* It is over: answered (*ev), or it could not be made (ev is NULL). Frees it, if necessary.
     * Calls nothing of the session except session_begin_first(). */
    void (*done)(struct session *s, struct request *r, int rc, const struct pmiwire_event *ev);
};

struct session {
    struct pmiwire_client *client;
    struct pmiwire_info_client info; /* the server's answers to init */
    uint32_t wire;
    int fd;
    struct request *first, *last; /* begun and not yet sent */
    unsigned n_ahead;             /* sent and not yet answered, */
    unsigned n_arrays_due;        /* of them, those whose answer may bring an array */
    struct table table;
    struct shmht_array *array; /* an array from the present answer; its user sets this to NULL */
    /* the last descriptor that came with the server's bytes, until it is used; -1: none */
    int passed_fd;
    unsigned long n_read, n_asked; /* Gets answered by the table, and by the server */
    unsigned n_rings;              /* that had to be made of pairs */
    int peer_rc;                   /* of the last answer */
};

/* The cookie of a request that session_wait() waits for; other requests have their addresses. */
enum { SESSION_ASK };

/* The launcher's environment variables. */
struct environment {
    /* PMI_FD, or a connection to PMI_PORT; -1: none, a program started without a launcher */
    int fd;
    int has_id, id; /* PMI_ID, with PMI_PORT */
    int rank, size; /* PMI_RANK and PMI_SIZE; -1 when absent */
    const char *jobid;
};

/* Read the environment, and connect if it says PMI_PORT. 0 or -errno. */
int environment_read(struct environment *env);

/* Open a session on a wire (PMIWIRE_V1 or PMIWIRE_V2) and pass init. 0, -errno or PMIWIRE_E*. */
int session_open(struct session *s, const struct environment *env, uint32_t wire);

/* ---- non-blocking requests ---- */

/*
 * Begin a request; never waits. 0, or why it cannot be made, and then done() is not called. What a
 * full socket or the window holds back goes out with the calls that follow.
 */
int session_begin(struct session *s, struct request *r);
/* The same, before all that have not been sent: for what a done() still has to ask. */
void session_begin_first(struct session *s, struct request *r);

/* Is a non-blocking request outstanding? */
int session_busy(const struct session *s);
/* Make progress. With `wait`, block until there is some. 0: there was none. */
int session_progress(struct session *s, int wait);

/* ---- blocking requests ---- */

/* Completes all outstanding requests. Returns the client session: the next request made with it is
 * the next one answered. */
struct pmiwire_client *session_ready(struct session *s);

/*
 * Move bytes until the request just made with the cookie SESSION_ASK is answered; returns the
 * event's rc. Views in *ev live until the next call.
 */
int session_wait(struct session *s, struct pmiwire_event *ev);

/*
 * The value of a key in this job's own space (jobid absent) or another's: from shared memory, or
 * else asked for. A view that lives until the next request; from shared memory, a string that lives
 * until session_close().
 */
int session_get(struct session *s, struct pmiwire_str jobid, int source, struct pmiwire_str key,
                struct pmiwire_str *value);

/*
 * The same for a key of this job's own space that may not have been put yet: the server answers
 * when it has. PMIWIRE_EVERSION: this server does not do that, and has not been asked;
 * PMIWIRE_ENOENT: it has given up.
 */
int session_get_wait(struct session *s, int source, struct pmiwire_str key,
                     struct pmiwire_str *value);

/* Put and wait for the answer. Servers that know hints get the hint, PMIWIRE_HINT_*. */
int session_put(struct session *s, struct pmiwire_str key, struct pmiwire_str value, uint32_t hint);

/* A ring: this rank's place in it, and its neighbours' values. */
#define SESSION_RING_MAX_BYTES 1024
struct ring {
    int place;
    char left[SESSION_RING_MAX_BYTES + 1], right[SESSION_RING_MAX_BYTES + 1];
};

/*
 * Give a value of 1 to SESSION_RING_MAX_BYTES bytes to the ring of a job of n_ranks, of which this
 * is one. Where the server has none it is a put, a Fence and two gets, and the place is the rank.
 * *ring is of use only if this returns 0.
 */
int session_ring(struct session *s, int rank, int n_ranks, const char *value, struct ring *ring);

/* Has the server advertised this extension? */
int session_offers(const struct session *s, uint16_t ext);

/* Close the connection without finalize; finalize first for an orderly end. */
void session_close(struct session *s);

#endif
