/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients' requests, in the loop's thread: checks rights, finds who can answer. */
#define _GNU_SOURCE
#include "requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "groups.h"
#include "names.h"

/* Hands the answer to libpmix, or keeps it for the next tick: it may be out of memory. */
static void answer_hand_over(struct pmix_host *h, struct upcall *u)
{
    if (upcall_send_answer(u))
        return;
    u->next = h->unsent;
    h->unsent = u;
}

void requests_send_again(struct pmix_host *h)
{
    struct upcall *u = h->unsent, *next;

    h->unsent = NULL;
    for (; u; u = next) {
        next = u->next;
        answer_hand_over(h, u);
    }
}

static void request_answer(struct upcall *u, int status, const void *data, size_t len)
{
    *u->prev = u->next;
    if (u->next)
        u->next->prev = u->prev;
    upcall_set_answer(u, status, data, len);
    if (u->state == UP_IN_HAND) /* who handles it may look at it again */
        u->state = UP_ANSWERED;
    else
        answer_hand_over(u->host, u);
}

static void request_done(void *ctx, int status, const char *data, size_t len)
{
    request_answer(ctx, status, data, len);
}

static struct host_job *job_by_name(const struct pmix_host *h, const char *nspace)
{
    struct host_job *job = h->jobs;

    while (job && strcmp(job->nspace, nspace) != 0)
        job = job->next;
    return job;
}

/* The client that asks; NULL: it is not one of ours. */
static struct client *client_find(const struct upcall *u, struct host_job **job)
{
    *job = job_by_name(u->host, u->who.nspace);
    return *job ? host_client(*job, u->who.rank) : NULL;
}

/* ---- a client's life ---- */

static void client_connected(struct pmix_host *h, struct upcall *u)
{
    struct host_job *job;
    struct client *c = client_find(u, &job);

    if (c && c->n_open++ == 0) {
        const bool again = host_client_gone(c) != 0;

        c->state = PMIWIRE_CONN_INITED;
        h->ops.state(h->ctx, job->number, c->rank, c->state);
        if (again)
            host_recount(job);
    }
    request_answer(u, c ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, NULL, 0);
}

/* One of its connections has ended. Returns the client if it was the last. */
static struct client *client_closed(const struct upcall *u, struct host_job **job)
{
    struct client *c = client_find(u, job);

    return c && c->n_open > 0 && --c->n_open == 0 ? c : NULL;
}

static void client_finalized(struct pmix_host *h, struct upcall *u)
{
    struct host_job *job;
    struct client *c = client_closed(u, &job);

    if (c) {
        c->state = PMIWIRE_CONN_FINALIZED;
        h->ops.state(h->ctx, job->number, c->rank, c->state);
        host_recount(job);
        names_rank_gone(h, job->number, c->rank);
    }
    request_answer(u, PMIX_SUCCESS, NULL, 0);
}

static void client_lost(struct pmix_host *h, struct upcall *u)
{
    struct host_job *job;
    const struct client *c = client_closed(u, &job);

    if (c) {
        h->ops.state(h->ctx, job->number, c->rank, PMIWIRE_CONN_FAILED);
        names_rank_gone(h, job->number, c->rank);
    }
}

static void client_aborted(struct pmix_host *h, struct upcall *u)
{
    struct host_job *job;
    const struct client *c = client_find(u, &job);

    if (c)
        h->ops.aborted(h->ctx, job->number, c->rank, u->status, u->text);
    request_answer(u, c ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, NULL, 0);
}

/* ---- collectives ---- */

static uint64_t ranks_count(const struct pmix_host *h)
{
    uint64_t n = 0;

    for (const struct host_job *job = h->jobs; job; job = job->next)
        n += job->n_ranks;
    return n;
}

/* How many ranks these are; 0: one is unknown, or they are more than there are. */
static uint64_t procs_count(const struct pmix_host *h, const struct upcall *u)
{
    uint64_t n = 0, all = ranks_count(h);

    for (size_t i = 0; i < u->n_procs && n <= all; i++) {
        const struct host_job *job = job_by_name(h, u->procs[i].nspace);

        if (!job || (u->procs[i].rank != PMIX_RANK_WILDCARD && u->procs[i].rank >= job->n_ranks))
            return 0;
        n += u->procs[i].rank == PMIX_RANK_WILDCARD ? job->n_ranks : 1;
    }
    return n <= all ? n : 0;
}

/* Lists each rank by itself. True: one of them is here. */
static bool procs_list(const struct pmix_host *h, const struct upcall *u, struct group_proc *procs)
{
    bool here = false;
    size_t n = 0;

    for (size_t i = 0; i < u->n_procs; i++) {
        const pmix_proc_t *p = &u->procs[i];
        const struct host_job *job = job_by_name(h, p->nspace);
        const bool all = p->rank == PMIX_RANK_WILDCARD;

        for (uint32_t k = all ? 0 : p->rank; k < (all ? job->n_ranks : p->rank + 1); k++)
            procs[n++] = (struct group_proc){job->number, k};
        here = here || (all ? job->n_clients > 0 : host_client(job, p->rank) != NULL);
    }
    return here;
}

/* Its ranks here begin or stop waiting. libpmix reports it when all of them have entered. */
static void waits_report(const struct upcall *u, bool begins)
{
    const uint32_t coll = u->kind == UP_FENCE ? PMIWIRE_COLL_FENCE : PMIWIRE_STUCK_GROUP;
    const struct pmix_host *h = u->host;

    for (size_t i = 0; h->ops.waits && i < u->n_procs; i++) {
        const pmix_proc_t *p = &u->procs[i];
        const struct host_job *job = job_by_name(h, p->nspace);

        for (uint32_t k = 0; job && k < job->n_clients; k++)
            if (p->rank == PMIX_RANK_WILDCARD || job->clients[k].rank == p->rank)
                h->ops.waits(h->ctx, job->number, job->clients[k].rank, coll, begins);
    }
}

static void collective_done(void *ctx, int status, const char *data, size_t len)
{
    waits_report(ctx, false);
    request_answer(ctx, status, data, len);
}

static void collective_enter(struct pmix_host *h, struct upcall *u, enum group_kind kind)
{
    const uint64_t n = procs_count(h, u);
    struct group_proc *procs = n ? malloc(n * sizeof(*procs)) : NULL;

    if (!procs || !procs_list(h, u, procs)) {
        request_answer(u, n && !procs ? PMIX_ERR_NOMEM : PMIX_ERR_BAD_PARAM, NULL, 0);
    } else {
        waits_report(u, true);
        groups_enter(h, kind, procs, n, u->data, u->len, collective_done, u);
    }
    free(procs);
}

static void modex_ask(struct pmix_host *h, struct upcall *u)
{
    const pmix_proc_t *p = &u->procs[0];
    const struct host_job *job = job_by_name(h, p->nspace);

    /* libpmix knows all ranks of its own node itself */
    if (!job || p->rank >= job->n_ranks || job->node_of[p->rank] == h->node)
        request_answer(u, PMIX_ERR_NOT_FOUND, NULL, 0);
    else
        groups_fetch(h, job, p->rank, request_done, u);
}

static void names_ask(struct pmix_host *h, struct upcall *u)
{
    struct host_job *job;

    if (client_find(u, &job))
        names_request(h, job, u->who.rank, &u->names, request_done, u);
    else
        request_answer(u, PMIX_ERR_NOT_FOUND, NULL, 0);
}

/* ---- spawn ---- */

static pmix_status_t spawn_status(int rc)
{
    switch (rc) {
    case 0: return PMIX_SUCCESS;
    case -ENOENT: return PMIX_ERR_JOB_EXE_NOT_FOUND;
    case -EACCES:
    case -ENOEXEC: return PMIX_ERR_JOB_APP_NOT_EXECUTABLE;
    case -EDQUOT:
    case -EMFILE:
    case -ENOMEM: return PMIX_ERR_OUT_OF_RESOURCE;
    case -EINVAL: return PMIX_ERR_BAD_PARAM;
    default: return PMIX_ERR_JOB_FAILED_TO_LAUNCH;
    }
}

static void spawn_ask(struct pmix_host *h, struct upcall *u)
{
    struct host_job *job;
    const struct client *c = client_find(u, &job);
    const uint64_t token = u->token = ++h->last_token;
    int rc = -EINVAL;

    for (uint32_t i = 0; i < u->spawn.n_cmds; i++)
        if (u->spawn.cmds[i].maxprocs == 0)
            c = NULL;
    if (c)
        rc = h->ops.spawn(h->ctx, job->number, c->rank, &u->spawn, token);
    if (rc != PMIWIRE_PENDING)
        requests_spawned(h, token, rc, (struct pmiwire_str){0});
}

void requests_spawned(struct pmix_host *h, uint64_t token, int rc, struct pmiwire_str nspace)
{
    struct upcall *u = h->waiting;

    while (u && (u->kind != UP_SPAWN || u->token != token))
        u = u->next;
    if (u)
        request_answer(u, spawn_status(rc), nspace.ptr, rc == 0 ? nspace.len : 0);
}

/* ---- all of them ---- */

void requests_take(struct pmix_host *h, struct upcall *u)
{
    u->host = h;
    if (u->kind == UP_LOST || u->kind == UP_GIVEN) { /* want no answer */
        if (u->kind == UP_LOST)
            client_lost(h, u);
        else
            groups_given(h, u->token, u->status, u->data, u->len);
        upcall_free(u);
        return;
    }
    u->next = h->waiting;
    u->prev = &h->waiting;
    if (h->waiting)
        h->waiting->prev = &u->next;
    h->waiting = u;
    u->state = UP_IN_HAND;
    switch (u->kind) { /* no default: the compiler names a kind that is missing */
    case UP_CONNECTED: client_connected(h, u); break;
    case UP_FINALIZED: client_finalized(h, u); break;
    case UP_ABORT: client_aborted(h, u); break;
    case UP_FENCE: collective_enter(h, u, GROUP_FENCE); break;
    case UP_CONNECT: collective_enter(h, u, GROUP_CONNECT); break;
    case UP_DISCONNECT: collective_enter(h, u, GROUP_DISCONNECT); break;
    case UP_MODEX: modex_ask(h, u); break;
    case UP_NAMES: names_ask(h, u); break;
    case UP_SPAWN: spawn_ask(h, u); break;
    case UP_UNSUPPORTED: request_answer(u, PMIX_ERR_NOT_SUPPORTED, NULL, 0); break;
    case UP_LOST:
    case UP_GIVEN: break; /* above */
    }
    if (u->state == UP_ANSWERED)
        answer_hand_over(h, u);
    else
        u->state = UP_WAITS;
}

static void upcalls_free(struct upcall *u)
{
    for (struct upcall *next; u; u = next) {
        next = u->next;
        upcall_free(u);
    }
}

void requests_free(struct pmix_host *h)
{
    upcalls_free(h->waiting);
    upcalls_free(h->unsent);
    h->waiting = h->unsent = NULL;
}
