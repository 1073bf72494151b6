/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: operations in flight whose results have names. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "worker.h"

void asymreg__req_begun(struct link *l, struct asymreg_req *req)
{
    l->pending += PENDING_REQUEST;
    req->serial = l->serial;
    req->in_flight = 1;
}

/* Names the operation and says why it has failed. */
static int req_explain(struct asymreg_worker *w, const struct asymreg_req *req, int rc,
                       struct asymreg_error *err)
{
    struct asymreg_error why = {.code = 0}, text;
    int found;

    if (!err)
        return rc;
    found =
        asymreg_resolve(w, req->pe, req->raddr, req->id, (size_t)req->bytes, req->need, NULL, &why);
    asymreg__fail(&text, rc, "%s %llu bytes %s %#llx of PE %u: %s",
                  req->need == ASYMREG_WRITE ? "put" : "get", (unsigned long long)req->bytes,
                  req->need == ASYMREG_WRITE ? "to" : "from", (unsigned long long)req->raddr,
                  req->pe, found == rc ? why.text : asymreg_strerror(rc));
    return asymreg__fail_at(err, rc, &text, req->pe, req->raddr, req->bytes);
}

/* Ends a request whose operation is complete. Returns its result. */
static int req_end(struct asymreg_worker *w, struct asymreg_req *req, struct asymreg_error *err)
{
    struct asymreg__peer *p;
    struct link *l;
    int rc = req->op.status;

    if (req->in_flight) {
        req->in_flight = 0;
        p = asymreg__peer_at(w->context, req->pe);
        l = &w->chunks[req->pe / PEER_CHUNK][req->pe % PEER_CHUNK];
        /* else the peer was forgotten */
        if (p && p->serial == req->serial && l->serial == req->serial) {
            l->pending -= PENDING_REQUEST;
            link_retract(l);
            if (rc == ASYMREG_ESTALE)
                (void)link_note_death(l, asymreg__peer_refresh(l->peer));
            link_note_death(l, rc);
        }
    }
    return rc < 0 ? req_explain(w, req, rc, err) : 0;
}

int asymreg_req_test(struct asymreg_worker *worker, struct asymreg_req *req,
                     struct asymreg_error *err)
{
    /* A transport that fails as a whole ends the operation with its error. */
    if (asymreg__op_pending(&req->op))
        (void)asymreg_progress(worker);
    return asymreg__op_pending(&req->op) ? ASYMREG_PENDING : req_end(worker, req, err);
}

int asymreg_req_wait(struct asymreg_worker *worker, struct asymreg_req *req,
                     struct asymreg_error *err)
{
    struct asymreg__wait wait = {0};
    int moved;

    while (asymreg__op_pending(&req->op)) {
        moved = asymreg_progress(worker);
        asymreg__wait(worker->context, &wait, moved || !asymreg__op_pending(&req->op));
    }
    return req_end(worker, req, err);
}
