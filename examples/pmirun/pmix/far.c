/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of PMIx clients that concern other nodes: the part for one node, and the common part. */
#define _GNU_SOURCE
#include "far.h"

#include <stdlib.h>

#include "../local/pmirun.h"
#include "far_nodes.h"
#include "store.h"

/* ---- requests ---- */

struct request *far_request(struct far *f, host_done_fn done, void *ctx)
{
    struct request *r = xrealloc(NULL, sizeof(*r));

    *r = (struct request){.next = f->requests, .id = ++f->last_id, .done = done, .ctx = ctx};
    f->requests = r;
    return r;
}

bool far_answer(struct pmirun *pr, uint64_t id, int status, const char *data, size_t len)
{
    struct request **p = &pr->far->requests, *r;

    while (*p && (*p)->id != id)
        p = &(*p)->next;
    r = *p;
    if (!r)
        return false;
    *p = r->next;
    if (r->done)
        r->done(r->ctx, status, data, len);
    else
        far_nodes_named(pr, r, status, data, len);
    free(r);
    return true;
}

static void on_stored(void *ctx, uint64_t id, int status, const char *data, size_t len)
{
    far_answer(ctx, id, status, data, len);
}

struct far *far_get(struct pmirun *pr)
{
    struct far *f = pr->far;

    if (f)
        return f;
    f = pr->far = xrealloc(NULL, sizeof(*f));
    *f = (struct far){0};
    if (!pr->agent) {
        f->store = store_create(NULL, on_stored, pr);
        if (!f->store)
            die(STATUS_RESOURCES, "out of memory for what PMIx clients publish");
    }
    if (pr->agent || pr->head)
        far_nodes_init(pr, f);
    return f;
}

/* ---- what clients ask for ---- */

/* False: there is no such rank. */
static bool find(const struct pmirun *pr, const struct proc_name *proc, struct far_place *place)
{
    return far_find(pr, proc->nspace, place) && proc->rank < place->n_ranks;
}

void far_modex(struct pmirun *pr, const char *nspace, uint32_t rank, host_done_fn done, void *ctx)
{
    const struct proc_name proc = {nspace, rank};
    struct far_place place;

    if (pr->agent && find(pr, &proc, &place))
        far_nodes_modex(pr, &place, rank, done, ctx);
    else /* libpmix knows all ranks of its own node itself */
        done(ctx, FAR_ENOENT, NULL, 0);
}

void far_names(struct pmirun *pr, const struct names_req *req, host_done_fn done, void *ctx)
{
    struct far *f = far_get(pr);
    struct far_place place;

    if (!find(pr, &req->by, &place)) {
        done(ctx, FAR_ENOENT, NULL, 0);
    } else if (pr->agent) {
        far_nodes_names(pr, &place, req, done, ctx);
    } else {
        const struct store_who who = {place.number, req->by.rank, 0, place.nspace};

        store_request(f->store, &who, req, pr->now_ns, far_request(f, done, ctx)->id);
    }
}

/* ---- what happens ---- */

void far_event(struct pmirun *pr, int code, const struct rank *r, int status)
{
    if (pr->agent && pr->far)
        far_nodes_event(pr, code, r, status);
}

void far_rank_gone(struct pmirun *pr, const struct rank *r)
{
    if (pr->far && pr->far->store)
        store_proc_gone(pr->far->store, r->job->number, r->number);
    if (pr->far)
        far_nodes_gone(pr);
}

void far_job_over(struct pmirun *pr, const struct job *job)
{
    if (pr->far && pr->far->store)
        store_job_gone(pr->far->store, job->number);
    if (pr->far)
        far_nodes_over(pr, job->number);
}

void far_ready(struct pmirun *pr)
{
    far_get(pr);
    far_nodes_ready(pr);
}

void far_tick(struct pmirun *pr)
{
    if (pr->far && pr->far->store)
        store_tick(pr->far->store, pr->now_ns);
    if (pr->far)
        far_nodes_tick(pr);
}

void far_stop(struct pmirun *pr)
{
    struct far *f = pr->far;

    if (!f)
        return;
    pr->far = NULL;
    store_destroy(f->store);
    far_nodes_stop(f);
    while (f->requests) {
        struct request *r = f->requests;

        f->requests = r->next;
        free(r);
    }
    free(f);
}
