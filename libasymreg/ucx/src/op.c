/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations. UCX completes most of them at once; for what goes on there is a struct req, which
 * UCX's callback finds. */
#include "ucx.h"

#include <errno.h>
#include <stdlib.h>

#define SLAB_REQS 256
/* without anything moving, and the kernel is asked whether the peers live */
#define IDLE_CALLS 512

struct slab {
    struct slab *next;
    struct req reqs[SLAB_REQS];
};

static struct req *new_req(struct ucx_transport *t, struct asymreg_ep *ep, struct asymreg_op *op)
{
    struct req *r = t->free_reqs;

    if (!r) {
        struct slab *slab = calloc(1, sizeof(*slab));

        if (!slab)
            return NULL;
        slab->next = t->slabs;
        t->slabs = slab;
        for (int i = 0; i < SLAB_REQS; i++) {
            slab->reqs[i].next = t->free_reqs;
            t->free_reqs = &slab->reqs[i];
        }
        r = t->free_reqs;
    }
    t->free_reqs = r->next;
    r->t = t;
    r->ep = ep;
    r->op = op;
    r->result = NULL;
    r->bytes = 0;
    r->next = ep->pending;
    r->back = &ep->pending;
    if (r->next)
        r->next->back = &r->next;
    ep->pending = r;
    ep->n_pending++;
    return r;
}

void asymreg_ucx__free_reqs(struct ucx_transport *t)
{
    while (t->slabs) {
        struct slab *slab = t->slabs;

        t->slabs = slab->next;
        free(slab);
    }
}

/* Ends what the user knows of it. */
static void detach(struct req *r, int status)
{
    struct asymreg_ep *ep = r->ep;

    if (status == 0 && r->result) {
        uint32_t low;

        memcpy(&low, &r->reply, sizeof(low));
        *r->result = r->bytes == 4 ? low : r->reply;
    }
    if (r->op)
        __atomic_store_n(&r->op->status, status, __ATOMIC_RELEASE);
    else if (status < 0 && ep->first_error == 0)
        ep->first_error = status;
    *r->back = r->next;
    if (r->next)
        r->next->back = r->back;
    ep->n_pending--;
    r->ep = NULL;
}

static void release(struct req *r)
{
    struct ucx_transport *t = r->t;

    r->next = t->free_reqs;
    t->free_reqs = r;
}

static void on_complete(void *request, ucs_status_t status, void *arg)
{
    struct req *r = arg;

    ucp_request_free(request);
    if (r->ep) {
        detach(r, asymreg_ucx__error(status));
        r->t->done++;
    }
    release(r);
}

void asymreg_ucx__give_up(struct ucx_transport *t, struct asymreg_ep *ep, int error)
{
    if (!ep->dead)
        ep->dead = error;
    while (ep->pending) {
        detach(ep->pending, error);
        t->done++;
    }
}

/* What UCX has said to a new operation; `r` is its bookkeeping. */
static int begun(struct asymreg_ep *ep, struct req *r, void *request)
{
    int rc;

    ep->begun++;
    if (UCS_PTR_IS_PTR(request))
        return ASYMREG_PENDING; /* or completed in the meantime, in which case op->status says so */
    rc = asymreg_ucx__error(UCS_PTR_STATUS(request));
    r->op = NULL; /* the caller gets it from here */
    detach(r, 0);
    release(r);
    return rc;
}

/* Before an operation: room for it, on an endpoint that is alive. */
static int begin(struct ucx_transport *t, struct asymreg_ep *ep, struct asymreg_op *op,
                 struct req **r)
{
    if (ep->dead) {
        asymreg_ucx__give_up(t, ep, ep->dead);
        return ep->dead;
    }
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

int asymreg_ucx__put(struct asymreg_transport *base, struct asymreg_ep *ep,
                     struct asymreg_rkey *rkey, uint64_t addr, const void *src, size_t bytes,
                     struct asymreg_mem *local, struct asymreg_op *op)
{
    struct ucx_transport *t = ucx_of(base);
    struct req *r;
    int rc;

    (void)local;
    if (!(rkey->prot & ASYMREG_WRITE))
        return ASYMREG_EACCES;
    ucx_lock(t);
    rc = begin(t, ep, op, &r);
    if (rc == 0) {
        ucp_request_param_t param = params_for(r);

        rc = begun(ep, r, ucp_put_nbx(ep->ep, src, bytes, addr, rkey->rkey, &param));
    }
    ucx_unlock(t);
    return rc;
}

int asymreg_ucx__get(struct asymreg_transport *base, struct asymreg_ep *ep,
                     struct asymreg_rkey *rkey, uint64_t addr, void *dst, size_t bytes,
                     struct asymreg_mem *local, struct asymreg_op *op)
{
    struct ucx_transport *t = ucx_of(base);
    struct req *r;
    int rc;

    (void)local;
    if (!(rkey->prot & ASYMREG_READ))
        return ASYMREG_EACCES;
    ucx_lock(t);
    rc = begin(t, ep, op, &r);
    if (rc == 0) {
        ucp_request_param_t param = params_for(r);

        rc = begun(ep, r, ucp_get_nbx(ep->ep, dst, bytes, addr, rkey->rkey, &param));
    }
    ucx_unlock(t);
    return rc;
}

int asymreg_ucx__amo(struct asymreg_transport *base, struct asymreg_ep *ep,
                     struct asymreg_rkey *rkey, uint64_t addr, uint32_t amo, uint32_t bytes,
                     uint64_t operand, uint64_t compare, uint64_t *result, struct asymreg_op *op)
{
    static const ucp_atomic_op_t kinds[] = {UCP_ATOMIC_OP_ADD, UCP_ATOMIC_OP_ADD,
                                            UCP_ATOMIC_OP_SWAP, UCP_ATOMIC_OP_CSWAP};
    struct ucx_transport *t = ucx_of(base);
    struct req *r;
    int rc;

    if (amo > ASYMREG_AMO_COMPARE_SWAP || (bytes != 4 && bytes != 8))
        return ASYMREG_ENOTSUP;
    if (!(rkey->prot & ASYMREG_ATOMIC))
        return ASYMREG_EACCES;
    if (addr % bytes != 0)
        return ASYMREG_EALIGN;
    ucx_lock(t);
    rc = begin(t, ep, op, &r);
    if (rc == 0) {
        ucp_request_param_t param = params_for(r);
        uint32_t low;
        void *request;

        /* Always one that fetches: its answer says that it has been done. UCX wants the new value
         * of a compare-and-swap in the reply. */
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.datatype = ucp_dt_make_contig(bytes);
        param.reply_buffer = &r->reply;
        r->operand = amo == ASYMREG_AMO_COMPARE_SWAP ? compare : operand;
        r->reply = amo == ASYMREG_AMO_COMPARE_SWAP ? operand : 0;
        r->bytes = bytes;
        r->result = result;
        if (bytes == 4) { /* the low bytes first, whatever the byte order */
            low = (uint32_t)r->operand;
            memcpy(&r->operand, &low, sizeof(low));
            low = (uint32_t)r->reply;
            memcpy(&r->reply, &low, sizeof(low));
        }
        request = ucp_atomic_op_nbx(ep->ep, kinds[amo], &r->operand, 1, addr, rkey->rkey, &param);
        if (UCS_PTR_IS_ERR(request))
            r->result = NULL;
        rc = begun(ep, r, request);
    }
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
            return asymreg_ucx__error(status);
        ep->flushed = ep->flush_covers;
    }
    if (!ep->dead && ep->flushed < ep->begun) {
        void *request = ucp_ep_flush_nbx(ep->ep, &none);

        if (UCS_PTR_IS_ERR(request))
            return asymreg_ucx__error(UCS_PTR_STATUS(request));
        if (request) {
            ep->flush = request;
            ep->flush_covers = ep->begun;
            return ASYMREG_PENDING;
        }
        ep->flushed = ep->begun;
    }
    if (ep->dead)
        asymreg_ucx__give_up(t, ep, ep->dead);
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
            ep->first_error = rc; /* to be told when all are done */
    }
    if (!pending && error) {
        for (ep = t->eps; ep; ep = ep->next)
            ep->first_error = 0;
    }
    ucx_unlock(t);
    return pending ? ASYMREG_PENDING : error;
}

int asymreg_ucx__progress(struct asymreg_transport *base)
{
    struct ucx_transport *t = ucx_of(base);
    int done;

    ucx_lock(t);
    if (ucp_worker_progress(t->worker)) {
        t->idle = 0;
    } else if (++t->idle >= IDLE_CALLS) {
        t->idle = 0;
        asymreg_ucx__check_peers(t);
        asymreg_ucx__reap(t);
    }
    done = (int)t->done;
    t->done = 0;
    ucx_unlock(t);
    return done;
}
