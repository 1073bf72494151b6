/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients' requests, in the loop's thread: checks rights, finds who can answer. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../local/host.h"
#include "../local/pmirun.h"
#include "../local/spawn.h"
#include "hosted.h"

static struct upcall *waiting; /* not answered */
static uint64_t last_token = HOST_TOKEN;

static void answer(struct upcall *u, int status, const void *data, size_t len)
{
    *u->prev = u->next;
    if (u->next)
        u->next->prev = u->prev;
    upcall_set_answer(u, status, data, len);
    if (u->state == UP_IN_HAND) /* who asks may look at it again */
        u->state = UP_ANSWERED;
    else
        upcall_send_answer(u);
}

static void on_done(void *ctx, int status, const char *data, size_t len)
{
    answer(ctx, status, data, len);
}

/* ---- a client's life ---- */

static void on_connected(struct pmirun *pr, struct upcall *u)
{
    struct hosted *h;
    struct rank *r = hosted_rank(u->who.nspace, u->who.rank, &h);

    if (r && h->n_open[r - h->job->ranks]++ == 0) {
        bool again = hosted_is_gone(r);

        job_rank_state(pr, r, PMIWIRE_CONN_INITED);
        if (again)
            hosted_recount(h);
    }
    answer(u, r ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, NULL, 0);
}

/* One of its connections has ended. True: it was the last. */
static bool has_closed(const struct upcall *u, struct rank **r, struct hosted **h)
{
    uint32_t *n;

    *r = hosted_rank(u->who.nspace, u->who.rank, h);
    if (!*r)
        return false;
    n = &(*h)->n_open[*r - (*h)->job->ranks];
    return *n > 0 && --*n == 0;
}

static void on_finalized(struct pmirun *pr, struct upcall *u)
{
    struct hosted *h;
    struct rank *r;

    if (has_closed(u, &r, &h)) {
        job_rank_state(pr, r, PMIWIRE_CONN_FINALIZED);
        hosted_recount(h);
        far_rank_gone(pr, r);
    }
    answer(u, PMIX_SUCCESS, NULL, 0);
}

static void on_lost(struct pmirun *pr, struct upcall *u)
{
    struct hosted *h;
    struct rank *r;

    if (has_closed(u, &r, &h)) {
        job_rank_state(pr, r, PMIWIRE_CONN_FAILED);
        far_rank_gone(pr, r);
    }
}

static void on_abort(struct pmirun *pr, struct upcall *u)
{
    struct hosted *h;
    struct rank *r = hosted_rank(u->who.nspace, u->who.rank, &h);

    if (r)
        job_rank_aborted(pr, r, u->status, u->text);
    answer(u, r ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, NULL, 0);
}

/* ---- collectives ---- */

/* How many ranks these are; 0: one is unknown, or they are more than there are. */
static uint64_t count(const struct upcall *u)
{
    uint64_t n = 0, all = hosted_n_ranks();

    for (size_t i = 0; i < u->n_procs && n <= all; i++) {
        const struct hosted *h = hosted_find(u->procs[i].nspace);

        if (!h || (u->procs[i].rank != PMIX_RANK_WILDCARD && u->procs[i].rank >= h->n_ranks))
            return 0;
        n += u->procs[i].rank == PMIX_RANK_WILDCARD ? h->n_ranks : 1;
    }
    return n <= all ? n : 0;
}

/* Their names, each rank by itself. True: one of them is here. */
static bool resolve(const struct upcall *u, struct proc_name *names)
{
    bool here = false;
    size_t n = 0;

    for (size_t i = 0; i < u->n_procs; i++) {
        const pmix_proc_t *p = &u->procs[i];
        struct hosted *h = hosted_find(p->nspace);
        bool all = p->rank == PMIX_RANK_WILDCARD;

        for (uint32_t k = all ? 0 : p->rank; k < (all ? h->n_ranks : p->rank + 1); k++)
            names[n++] = (struct proc_name){h->nspace, k};
        here = here || (all ? h->job != NULL : hosted_rank(p->nspace, p->rank, &h) != NULL);
    }
    return here;
}

/* Its ranks here begin or stop waiting. libpmix reports it when all of them have entered. */
static void note_collective(struct pmirun *pr, const struct upcall *u, enum timeline_what what)
{
    const uint32_t coll = u->kind == UP_FENCE ? PMIWIRE_COLL_FENCE : PMIWIRE_STUCK_GROUP;

    for (size_t i = 0; i < u->n_procs; i++) {
        const pmix_proc_t *p = &u->procs[i];
        const bool all = p->rank == PMIX_RANK_WILDCARD;
        struct hosted *h = hosted_find(p->nspace);

        for (uint32_t k = 0; h && h->job && k < h->job->n_local; k++)
            if (all || h->job->ranks[k].number == p->rank)
                timeline_rank(pr, &h->job->ranks[k], what, coll);
    }
}

static void on_collected(void *ctx, int status, const char *data, size_t len)
{
    struct upcall *u = ctx;

    if (u->pr)
        note_collective(u->pr, u, TIMELINE_LEAVE);
    answer(u, status, data, len);
}

static void on_collective(struct pmirun *pr, struct upcall *u, enum far_kind kind)
{
    uint64_t n = count(u);
    struct proc_name *names = n ? malloc(n * sizeof(*names)) : NULL;

    if (!names || !resolve(u, names)) {
        answer(u, n && !names ? PMIX_ERR_NOMEM : PMIX_ERR_BAD_PARAM, NULL, 0);
    } else {
        if (pr->timeline.on) {
            u->pr = pr;
            note_collective(pr, u, TIMELINE_ENTER);
        }
        far_collect(pr, kind, names, n, u->data, u->len, on_collected, u);
    }
    free(names);
}

static void on_modex(struct pmirun *pr, struct upcall *u)
{
    const pmix_proc_t *p = &u->procs[0];
    const struct hosted *h = hosted_find(p->nspace);

    if (!h || p->rank >= h->n_ranks)
        answer(u, PMIX_ERR_NOT_FOUND, NULL, 0);
    else
        far_modex(pr, p->nspace, p->rank, on_done, u);
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

/* Is this one of the variables that we have set for the job's ranks? */
static bool is_job_var(const struct job *job, struct pmiwire_str value)
{
    for (char *const *p = job->vars; p && *p; p++)
        if (strlen(*p) == value.len && memcmp(*p, value.ptr, value.len) == 0)
            return true;
    return false;
}

/* A client passes its environment to the processes that it spawns. Variables that pmirun set there
 * are left out: the new job has its own, with folders of its own node for example. */
static void drop_job_vars(struct pmiwire_spawn *req, const struct job *job)
{
    for (uint32_t i = 0; i < req->n_cmds; i++) {
        struct pmiwire_spawn_cmd *cmd = (struct pmiwire_spawn_cmd *)(uintptr_t)&req->cmds[i];
        struct pmiwire_keyval *info = (struct pmiwire_keyval *)(uintptr_t)cmd->info;
        uint32_t n = 0;

        for (uint32_t k = 0; k < cmd->n_info; k++)
            if (info[k].key.len != strlen(SPAWN_ENV) ||
                memcmp(info[k].key.ptr, SPAWN_ENV, info[k].key.len) != 0 ||
                !is_job_var(job, info[k].value))
                info[n++] = info[k];
        cmd->n_info = n;
    }
}

static void on_spawn(struct pmirun *pr, struct upcall *u)
{
    struct hosted *h;
    struct rank *r = hosted_rank(u->who.nspace, u->who.rank, &h);
    uint64_t token = u->token = ++last_token;
    int rc = -EINVAL;

    for (uint32_t i = 0; i < u->spawn.n_cmds; i++)
        if (u->spawn.cmds[i].maxprocs == 0)
            r = NULL;
    if (r) {
        drop_job_vars(&u->spawn, r->job);
        rc = spawn_for(pr, r, &u->spawn, token);
    }
    if (rc != PMIWIRE_PENDING)
        host_spawned(pr, token, rc, NULL);
}

void host_spawned(struct pmirun *pr, uint64_t token, int rc, const char *nspace)
{
    for (struct upcall *u = waiting; u; u = u->next) {
        if (u->kind != UP_SPAWN || u->token != token)
            continue;
        answer(u, spawn_status(rc), nspace, rc == 0 && nspace ? strlen(nspace) : 0);
        return;
    }
}

/* ---- all of them ---- */

void requests_take(struct pmirun *pr, struct queued *q)
{
    struct upcall *u = (struct upcall *)(void *)q;

    if (u->kind == UP_LOST || u->kind == UP_GIVEN) { /* want no answer */
        if (u->kind == UP_LOST)
            on_lost(pr, u);
        else
            hosted_given(u);
        upcall_free(u);
        return;
    }
    u->next = waiting;
    u->prev = &waiting;
    if (waiting)
        waiting->prev = &u->next;
    waiting = u;
    u->state = UP_IN_HAND;
    switch (u->kind) {
    case UP_CONNECTED: on_connected(pr, u); break;
    case UP_FINALIZED: on_finalized(pr, u); break;
    case UP_ABORT: on_abort(pr, u); break;
    case UP_FENCE: on_collective(pr, u, FAR_FENCE); break;
    case UP_CONNECT: on_collective(pr, u, FAR_CONNECT); break;
    case UP_DISCONNECT: on_collective(pr, u, FAR_DISCONNECT); break;
    case UP_MODEX: on_modex(pr, u); break;
    case UP_NAMES: far_names(pr, &u->names, on_done, u); break;
    case UP_SPAWN: on_spawn(pr, u); break;
    default: answer(u, PMIX_ERR_NOT_SUPPORTED, NULL, 0);
    }
    if (u->state == UP_ANSWERED)
        upcall_send_answer(u);
    else if (u->state == UP_DROPPED)
        upcall_free(u);
    else
        u->state = UP_WAITS;
}

void requests_free(void)
{
    while (waiting) {
        struct upcall *u = waiting;

        waiting = u->next;
        if (u->state == UP_IN_HAND)
            u->state = UP_DROPPED;
        else
            upcall_free(u);
    }
}
