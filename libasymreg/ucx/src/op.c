/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations. UCX completes most of them at once. An operation in flight has a struct req, which
 * UCX's callback finds. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ucx.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define SLAB_REQS 256u
/* most operations of an endpoint in flight; further ones wait */
#define MAX_PENDING 1024
/* most bytes of its messages in flight: they, or the answers, take memory until UCX has sent
 * them */
#define MAX_PENDING_BYTES ((uint64_t)4 << 20)
/* how often to ask the kernel whether peers are alive */
#define CHECK_EVERY_NS 20000000

struct slab {
    struct req reqs[SLAB_REQS];
};

static struct slab *new_slab(struct ucx_transport *t)
{
    struct slab *slab = calloc(1, sizeof(*slab));
    struct slab **more = slab ? realloc(t->slabs, (t->n_slabs + 1) * sizeof(*more)) : NULL;

    if (!more) {
        free(slab);
        return NULL;
    }
    t->slabs = more;
    t->slabs[t->n_slabs] = slab;
    for (uint32_t i = 0; i < SLAB_REQS; i++) {
        slab->reqs[i].number = t->n_slabs * SLAB_REQS + i;
        slab->reqs[i].t = t;
        slab->reqs[i].next = t->free_reqs;
        t->free_reqs = &slab->reqs[i];
    }
    t->n_slabs++;
    return slab;
}

static struct req *new_req(struct ucx_transport *t, struct asymreg_ep *ep, struct asymreg_op *op)
{
    struct req *r;

    if (!t->free_reqs && !new_slab(t))
        return NULL;
    r = t->free_reqs;
    t->free_reqs = r->next;
    r->ep = ep;
    r->op = op;
    r->to = r->copy = NULL;
    r->sending = false;
    r->bytes = 0;
    r->message.token = 0; /* no answer is expected */
    r->lives++;
    r->next = ep->pending;
    r->back = &ep->pending;
    if (r->next)
        r->next->back = &r->next;
    ep->pending = r;
    ep->n_pending++;
    return r;
}

/* Returns the operation of an answer; NULL: it was abandoned. */
struct req *asymreg_ucx__req_at(struct ucx_transport *t, uint64_t cookie)
{
    uint32_t number = (uint32_t)cookie;
    struct req *r;

    if (number / SLAB_REQS >= t->n_slabs)
        return NULL;
    r = &t->slabs[number / SLAB_REQS]->reqs[number % SLAB_REQS];
    return r->ep && r->lives == cookie >> 32 ? r : NULL;
}

void asymreg_ucx__free_reqs(struct ucx_transport *t)
{
    for (uint32_t i = 0; i < t->n_slabs; i++) {
        for (uint32_t k = 0; k < SLAB_REQS; k++)
            free(t->slabs[i]->reqs[k].copy);
        free(t->slabs[i]);
    }
    free(t->slabs);
}

void asymreg_ucx__detach_req(struct req *r, int status)
{
    struct asymreg_ep *ep = r->ep;

    if (r->op)
        __atomic_store_n(&r->op->status, status, __ATOMIC_RELEASE);
    else if (status < 0 && ep->first_error == 0)
        ep->first_error = status;
    *r->back = r->next;
    if (r->next)
        r->next->back = r->back;
    ep->n_pending--;
    ep->pending_bytes -= r->bytes;
    r->ep = NULL;
}

void asymreg_ucx__release_req(struct req *r)
{
    struct ucx_transport *t = r->t;

    if (r->ep || r->sending)
        return;
    free(r->copy);
    r->copy = NULL;
    r->next = t->free_reqs;
    t->free_reqs = r;
}

static void on_complete(void *request, ucs_status_t status, void *arg)
{
    struct req *r = arg;

    ucp_request_free(request);
    r->sending = false;
    if (r->ep) {
        asymreg_ucx__detach_req(r, asymreg_ucx__map_status(status));
        r->t->done++;
    }
    asymreg_ucx__release_req(r);
}

void asymreg_ucx__fail_ep(struct ucx_transport *t, struct asymreg_ep *ep, int error)
{
    if (!ep->dead)
        ep->dead = error;
    while (ep->pending) {
        struct req *r = ep->pending;

        asymreg_ucx__detach_req(r, error);
        asymreg_ucx__release_req(r);
        t->done++;
    }
}

/* Handles UCX's result of a new operation; `r` is its bookkeeping. */
static int handle_status(struct asymreg_ep *ep, struct req *r, void *request)
{
    int rc;

    ep->begun++;
    if (UCS_PTR_IS_PTR(request)) {
        r->sending = r->ep != NULL;
        return ASYMREG_PENDING; /* or complete by now: then op->status has the result */
    }
    rc = asymreg_ucx__map_status(UCS_PTR_STATUS(request));
    r->op = NULL; /* the caller gets the result from here */
    asymreg_ucx__detach_req(r, 0);
    asymreg_ucx__release_req(r);
    return rc;
}

int asymreg_ucx__begin_req(struct ucx_transport *t, struct asymreg_ep *ep, struct asymreg_op *op,
                           struct req **r)
{
    if (ep->dead) {
        asymreg_ucx__fail_ep(t, ep, ep->dead);
        return ep->dead;
    }
    if (ep->n_pending >= MAX_PENDING || ep->pending_bytes >= MAX_PENDING_BYTES)
        return -EAGAIN;
    *r = new_req(t, ep, op);
    if (!*r)
        return -ENOMEM;
    if (op)
        __atomic_store_n(&op->status, ASYMREG_PENDING, __ATOMIC_RELAXED);
    return 0;
}

static ucp_request_param_t params_for(struct req *r)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA, .user_data = r};

    param.cb.send = on_complete;
    return param;
}

/* Returns whether UCX itself reaches this memory. Otherwise a message makes the target move the
 * bytes. */
static bool by_ucx(const struct asymreg_ep *ep, const struct asymreg_rkey *rkey)
{
    return rkey->rkey && (ep->rdma || rkey->kind);
}

static struct request request_for(const struct asymreg_rkey *rkey, uint32_t kind, uint64_t addr,
                                  size_t bytes)
{
    return (struct request){.kind = kind,
                            .addr = addr,
                            .bytes = (uint32_t)bytes,
                            .seq = rkey->seq,
                            .place = rkey->place};
}

/* A put has `src`, a get `dst`; the other is NULL. */
static int transfer_bytes(struct ucx_transport *t, struct asymreg_ep *ep,
                          const struct asymreg_rkey *rkey, uint64_t addr, const void *src,
                          void *dst, size_t bytes, struct asymreg_op *op)
{
    struct request message = request_for(rkey, src ? MESSAGE_PUT : MESSAGE_GET, addr, bytes);
    ucp_request_param_t param;
    ucs_status_ptr_t request;
    struct req *r;
    int rc;

    if (!(rkey->prot & (src ? ASYMREG_WRITE : ASYMREG_READ)))
        return ASYMREG_EACCES;
    if (!by_ucx(ep, rkey))
        return asymreg_ucx__send_request(t, ep, &message, src, dst, op);
    rc = asymreg_ucx__begin_req(t, ep, op, &r);
    if (rc < 0)
        return rc;
    param = params_for(r);
    request = src ? ucp_put_nbx(ep->ep, src, bytes, addr, rkey->rkey, &param)
                  : ucp_get_nbx(ep->ep, dst, bytes, addr, rkey->rkey, &param);
    return handle_status(ep, r, request);
}

int asymreg_ucx__put(struct asymreg_transport *base, struct asymreg_ep *ep,
                     struct asymreg_rkey *rkey, uint64_t addr, const void *src, size_t bytes,
                     struct asymreg_mem *local, struct asymreg_op *op)
{
    int rc;

    (void)local;
    ucx_lock(ucx_of(base));
    rc = transfer_bytes(ucx_of(base), ep, rkey, addr, src, NULL, bytes, op);
    ucx_unlock(ucx_of(base));
    return rc;
}

int asymreg_ucx__get(struct asymreg_transport *base, struct asymreg_ep *ep,
                     struct asymreg_rkey *rkey, uint64_t addr, void *dst, size_t bytes,
                     struct asymreg_mem *local, struct asymreg_op *op)
{
    int rc;

    (void)local;
    ucx_lock(ucx_of(base));
    rc = transfer_bytes(ucx_of(base), ep, rkey, addr, NULL, dst, bytes, op);
    ucx_unlock(ucx_of(base));
    return rc;
}

int asymreg_ucx__amo(struct asymreg_transport *base, struct asymreg_ep *ep,
                     struct asymreg_rkey *rkey, uint64_t addr, uint32_t amo, uint32_t bytes,
                     uint64_t operand, uint64_t compare, uint64_t *result, struct asymreg_op *op)
{
    struct ucx_transport *t = ucx_of(base);
    struct request message = request_for(rkey, MESSAGE_AMO, addr, bytes);
    int rc;

    if (!(ASYMREG_AMO_ALL >> amo & 1) || (bytes != 4 && bytes != 8) || rkey->kind)
        return ASYMREG_ENOTSUP;
    if (!(rkey->prot & ASYMREG_ATOMIC))
        return ASYMREG_EACCES;
    if (addr % bytes != 0)
        return ASYMREG_EALIGN;
    message.amo = amo;
    message.operand = operand;
    message.compare = compare;
    ucx_lock(t);
    rc = asymreg_ucx__send_request(t, ep, &message, NULL, result, op);
    ucx_unlock(t);
    return rc;
}

static int flush_one(struct ucx_transport *t, struct asymreg_ep *ep)
{
    static const ucp_request_param_t none;
    int error;

    if (!ep->dead && ep->flush) {
        ucs_status_t status = ucp_request_check_status(ep->flush);

        if (status == UCS_INPROGRESS)
            return ASYMREG_PENDING;
        ucp_request_free(ep->flush);
        ep->flush = NULL;
        if (status != UCS_OK)
            return asymreg_ucx__map_status(status);
        ep->flushed = ep->flush_covers;
    }
    if (!ep->dead && ep->flushed < ep->begun) {
        void *request = ucp_ep_flush_nbx(ep->ep, &none);

        if (UCS_PTR_IS_ERR(request))
            return asymreg_ucx__map_status(UCS_PTR_STATUS(request));
        if (request) {
            ep->flush = request;
            ep->flush_covers = ep->begun;
            return ASYMREG_PENDING;
        }
        ep->flushed = ep->begun;
    }
    if (ep->dead)
        asymreg_ucx__fail_ep(t, ep, ep->dead);
    if (ep->n_pending > 0)
        return ASYMREG_PENDING;
    error = ep->first_error;
    ep->first_error = 0;
    return error ? error : ep->dead;
}

int asymreg_ucx__flush(struct asymreg_transport *base, struct asymreg_ep *ep)
{
    struct ucx_transport *t = ucx_of(base);
    int rc, pending = 0, error = 0;

    ucx_lock(t);
    if (ep) {
        rc = flush_one(t, ep);
        ucx_unlock(t);
        return rc;
    }
    for (ep = t->eps; ep; ep = ep->next) {
        rc = flush_one(t, ep);
        if (rc == ASYMREG_PENDING)
            pending = 1;
        else if (error == 0)
            error = rc;
        if (rc < 0 && rc != ep->dead && ep->first_error == 0)
            ep->first_error = rc; /* reported when all are done */
    }
    if (!pending && error) {
        for (ep = t->eps; ep; ep = ep->next)
            ep->first_error = 0;
    }
    ucx_unlock(t);
    return pending ? ASYMREG_PENDING : error;
}

unsigned int asymreg_ucx__advance(struct ucx_transport *t)
{
    unsigned int n = ucp_worker_progress(t->worker);
    int64_t now = ucx_coarse_ns();

    t->probe.heard |= n > 0;
    if (n > 0 && t->sleeper)
        t->sleeper = write(t->moved_fd, &(uint64_t){1}, 8) != 8;
    if (t->probe.worker)
        asymreg_ucx__progress_probe(t);
    if (now - t->checked_ns >= CHECK_EVERY_NS) {
        t->checked_ns = now;
        asymreg_ucx__check_peers(t);
        asymreg_ucx__check_queue(t);
        asymreg_ucx__free_closed(t);
    }
    return n;
}

/* An adapter moves bytes without an event. A blocked queue cannot be armed. */
int asymreg_ucx__arm(struct asymreg_transport *base, int *fd)
{
    struct ucx_transport *t = ucx_of(base);
    uint64_t count;
    int rc = 0;

    ucx_lock(t);
    if (t->rdma || t->blocked) {
        rc = ASYMREG_ENOTSUP;
    } else if (t->done > 0) {
        rc = ASYMREG_PENDING;
    } else if (t->threaded) {
        t->sleeper = true;
        *fd = t->moved_fd;
        (void)!read(t->moved_fd, &count, sizeof(count));
    } else {
        rc = ucp_worker_arm(t->worker) == UCS_OK ? 0 : ASYMREG_PENDING;
        *fd = t->event_fd;
    }
    ucx_unlock(t);
    return rc;
}

int asymreg_ucx__progress(struct asymreg_transport *base)
{
    struct ucx_transport *t = ucx_of(base);
    int done;

    ucx_lock(t);
    asymreg_ucx__advance(t);
    done = (int)t->done;
    t->done = 0;
    ucx_unlock(t);
    return done;
}
