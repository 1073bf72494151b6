/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of libpmix to its host on behalf of clients. libpmix calls us in its own thread, which
 * queues a copy of the arguments. The loop's answer goes back through that thread too, since some
 * of libpmix's callbacks may not be called in another.
 */
#ifndef UPCALLS_H
#define UPCALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pmiwire/command.h>

#include "lib.h"
#include "names.h"
#include "queue.h"

enum upcall_kind {
    UP_CONNECTED, /* `who` has begun, in its PMIx_Init() */
    UP_FINALIZED,
    UP_LOST,  /* its connection has ended without that; wants no answer */
    UP_ABORT, /* status, text */
    UP_FENCE, /* of procs: all that are here have entered; data is what they have put */
    UP_CONNECT,
    UP_DISCONNECT,
    UP_MODEX, /* of procs[0]: a client here wants its pairs */
    UP_NAMES, /* publish, lookup, unpublish */
    UP_SPAWN,
    UP_UNSUPPORTED,
    UP_GIVEN, /* the answer to our own request: status, data; wants none */
};

/* Of a request's copy. A client's message has at most 4 MiB (bounds.h), but a spawn's is larger: it
 * has what belongs to all programs once. */
#define UPCALL_BYTES ((size_t)64 << 20)

struct upcall_block;

struct upcall {
    struct queued queued;
    /* requests.c's: of those that wait for an answer, or have one that is not sent */
    struct upcall *next, **prev;
    struct pmix_host *host;
    enum { UP_WAITS, UP_IN_HAND, UP_ANSWERED } state;
    struct upcall_block *blocks; /* memory of what is copied */
    enum upcall_kind kind;
    pmix_proc_t who; /* not of a collective, or a modex: libpmix does not say */
    pmix_proc_t *procs;
    size_t n_procs;
    char *data; /* of malloc() */
    size_t len;
    int status;
    char *text;
    struct names_req names;
    struct pmiwire_spawn spawn;
    uint64_t token; /* of a spawn, or of our own request */

    /* How libpmix takes the answer. */
    union {
        pmix_op_cbfunc_t op;
        pmix_modex_cbfunc_t modex;
        pmix_lookup_cbfunc_t lookup;
        pmix_spawn_cbfunc_t spawn;
    } done;
    void *cbdata;
    pmix_status_t answer_status;
    char *answer; /* of malloc() */
    size_t answer_len;
};

/* The table that libpmix calls; its requests go to q. env_key: see pmix_host_opts. */
pmix_server_module_t *upcalls_module(struct queue *q, const char *env_key);
/* To be registered for PMIX_ERR_LOST_CONNECTION. */
void upcalls_on_event(size_t id, pmix_status_t status, const pmix_proc_t *source,
                      pmix_info_t info[], size_t n_info, pmix_info_t *results, size_t n_results,
                      pmix_event_notification_cbfunc_fn_t done, void *cbdata);
/* For PMIx_server_dmodex_request(): the request's answer, allocated with the request. NULL: no
 * memory. Its callback, and cbdata: upcalls_on_given(), and that. */
struct upcall *upcall_new_given(uint64_t token);
void upcalls_on_given(pmix_status_t status, char *data, size_t len, void *cbdata);
/* The answer to it; data is copied. */
void upcall_set_answer(struct upcall *u, int status, const void *data, size_t len);
/* Sends that, in libpmix's thread, which frees it: no more may be done with it here. False: libpmix
 * does not take it now. */
bool upcall_send_answer(struct upcall *u);
/* Frees one that is not answered. */
void upcall_free(struct upcall *u);

#endif
