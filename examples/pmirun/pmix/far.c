/* SPDX-License-Identifier: BSD-3-Clause */
/* What PMIx clients ask for beyond their own node: on one node, and what is common. */
#define _GNU_SOURCE
#include "far.h"

#include <stdlib.h>
#include <string.h>

#include "../local/pmirun.h"
#include "store.h"

/* One that has not been answered. */
struct request {
    struct request *next;
    uint64_t id;
    host_done_fn done;
    void *ctx;
};

struct far {
    struct store *store;
    struct request *requests;
    uint64_t last_id;
};

/* ---- requests ---- */

static uint64_t request_new(struct far *f, host_done_fn done, void *ctx)
{
    struct request *r = xrealloc(NULL, sizeof(*r));

    *r = (struct request){f->requests, ++f->last_id, done, ctx};
    f->requests = r;
    return r->id;
}

/* Its answer has come. False: there is no such request. */
static bool request_done(struct far *f, uint64_t id, int status, const char *data, size_t len)
{
    struct request **p = &f->requests, *r;

    while (*p && (*p)->id != id)
        p = &(*p)->next;
    r = *p;
    if (!r)
        return false;
    *p = r->next;
    r->done(r->ctx, status, data, len);
    free(r);
    return true;
}

static void on_answer(void *ctx, uint64_t id, int status, const char *data, size_t len)
{
    struct pmirun *pr = ctx;

    request_done(pr->far, id, status, data, len);
}

static struct far *far_get(struct pmirun *pr)
{
    if (!pr->far) {
        pr->far = xrealloc(NULL, sizeof(*pr->far));
        *pr->far = (struct far){0};
        pr->far->store = store_create(NULL, on_answer, pr);
        if (!pr->far->store)
            die(STATUS_RESOURCES, "out of memory for what PMIx clients publish");
    }
    return pr->far;
}

/* ---- jobs ---- */

static struct job *job_of(const struct pmirun *pr, const char *nspace)
{
    struct job *job = pr->jobs;

    while (job && strcmp(job->kvsname, nspace) != 0)
        job = job->next;
    return job;
}

/* NULL: no such rank. */
static struct job *job_of_rank(const struct pmirun *pr, const struct proc_name *proc)
{
    struct job *job = job_of(pr, proc->nspace);

    return job && proc->rank < job->n_ranks ? job : NULL;
}

/* ---- what clients ask for ---- */

void far_collect(struct pmirun *pr, enum far_kind kind, const struct proc_name *procs, size_t n,
                 const void *data, size_t len, host_done_fn done, void *ctx)
{
    int status = FAR_OK;

    (void)kind;
    for (size_t i = 0; i < n && status == FAR_OK; i++)
        if (!job_of_rank(pr, &procs[i]))
            status = FAR_ENOENT;
    done(ctx, status, status ? NULL : data, status ? 0 : len);
}

void far_modex(struct pmirun *pr, const char *nspace, uint32_t rank, host_done_fn done, void *ctx)
{
    (void)pr, (void)nspace, (void)rank;
    done(ctx, FAR_ENOENT, NULL, 0); /* libpmix knows all ranks of this node itself */
}

void far_names(struct pmirun *pr, const struct names_req *req, host_done_fn done, void *ctx)
{
    struct far *f = far_get(pr);
    const struct job *job = job_of_rank(pr, &req->by);
    struct store_who who;

    if (!job) {
        done(ctx, FAR_ENOENT, NULL, 0);
        return;
    }
    who = (struct store_who){job->number, req->by.rank, 0, job->kvsname};
    store_request(f->store, &who, req, pr->now_ns, request_new(f, done, ctx));
}

/* ---- what happens ---- */

void far_event(struct pmirun *pr, int code, const struct rank *r, int status)
{
    (void)pr, (void)code, (void)r, (void)status; /* there is no other node */
}

void far_rank_gone(struct pmirun *pr, const struct rank *r)
{
    if (pr->far)
        store_proc_gone(pr->far->store, r->job->number, r->number);
}

void far_job_over(struct pmirun *pr, const struct job *job)
{
    if (pr->far)
        store_job_gone(pr->far->store, job->number);
}

void far_ready(struct pmirun *pr)
{
    (void)far_get(pr);
}

void far_tick(struct pmirun *pr)
{
    if (pr->far)
        store_tick(pr->far->store, pr->now_ns);
}

void far_stop(struct pmirun *pr)
{
    struct far *f = pr->far;

    if (!f)
        return;
    pr->far = NULL;
    store_destroy(f->store);
    while (f->requests) {
        struct request *r = f->requests;

        f->requests = r->next;
        free(r);
    }
    free(f);
}
