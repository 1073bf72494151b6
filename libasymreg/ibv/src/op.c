/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations. Each is one work request, signalled; its bookkeeping is a struct req, whose index is
 * in wr_id. An endpoint's requests are in three queues: `posted` to the adapter; `returned` by it
 * because one before them was refused; and, behind them all, `waiting` for a connection or for
 * room. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* htobe64 */
#endif
#include "ibv.h"

#include <errno.h>
#include <stdlib.h>

#define POLL_BATCH     16
#define PROBE_AFTER_NS UINT64_C(100000000)

static void queue_push(struct ibv_transport *t, struct queue *q, uint32_t i)
{
    t->reqs[i].next = NO_REQ;
    if (q->n++ == 0)
        q->head = i;
    else
        t->reqs[q->tail].next = i;
    q->tail = i;
}

static uint32_t queue_pop(struct ibv_transport *t, struct queue *q)
{
    uint32_t i = q->head;

    q->head = t->reqs[i].next;
    q->n--;
    return i;
}

/* Moves all of `from` to the end of `to`. */
static void queue_move(struct ibv_transport *t, struct queue *to, struct queue *from)
{
    while (from->n > 0)
        queue_push(t, to, queue_pop(t, from));
}

/* Removes `i` from a queue. Completions arrive in the order of posting, so `i` is first unless an
 * operation failed. */
static void unlink_req(struct ibv_transport *t, struct queue *q, uint32_t i)
{
    uint32_t before = NO_REQ, at = q->head;

    for (uint32_t n = q->n; n > 0 && at != i; n--) {
        before = at;
        at = t->reqs[at].next;
    }
    if (before == NO_REQ)
        q->head = t->reqs[i].next;
    else
        t->reqs[before].next = t->reqs[i].next;
    if (q->tail == i)
        q->tail = before;
    q->n--;
}

void asymreg_ibv__ops_init(struct ibv_transport *t)
{
    t->free_req = NO_REQ;
    for (uint32_t i = N_REQS; i-- > 0;) {
        t->reqs[i].next = t->free_req;
        t->free_req = i;
    }
    t->n_chunks = N_CHUNKS;
    for (uint32_t i = 0; i < N_CHUNKS; i++)
        t->chunks[i] = i;
}

static unsigned char *slot_of(struct ibv_transport *t, uint32_t i)
{
    return t->bounce + (size_t)i * SLOT_BYTES;
}

static unsigned char *chunk_at(struct ibv_transport *t, uint32_t chunk)
{
    return t->bounce + (size_t)N_REQS * SLOT_BYTES + (size_t)chunk * ASYMREG_IBV_MAX_OP_BYTES;
}

static void release_req(struct ibv_transport *t, uint32_t i)
{
    struct req *r = &t->reqs[i];

    if (r->chunk != NO_CHUNK)
        t->chunks[t->n_chunks++] = r->chunk;
    r->busy = false;
    r->generation++;
    r->next = t->free_req;
    t->free_req = i;
}

/* Reports the result to the caller of the operation, and frees it. */
static void finish_req(struct ibv_transport *t, uint32_t i, int status)
{
    struct req *r = &t->reqs[i];

    if (status == 0 && r->copy_out)
        memcpy(r->dst, r->local, r->bytes);
    if (r->op)
        __atomic_store_n(&r->op->status, status, __ATOMIC_RELEASE);
    else if (status < 0 && r->ep->first_error == 0 && !r->probe)
        r->ep->first_error = status;
    release_req(t, i);
}

static int post_req(struct ibv_transport *t, uint32_t i)
{
    struct req *r = &t->reqs[i];
    struct ibv_sge sge = {.addr = (uintptr_t)r->local, .length = r->bytes, .lkey = r->lkey};
    struct ibv_send_wr wr =
                           {
                               .wr_id = (uint64_t)r->generation << 32 | i,
                               .sg_list = &sge,
                               .num_sge = r->bytes ? 1 : 0,
                               .opcode = r->opcode,
                               .send_flags = IBV_SEND_SIGNALED,
                           },
                       *bad;

    if (r->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        bool cas = r->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;

        wr.wr.atomic.remote_addr = r->raddr;
        wr.wr.atomic.rkey = r->rkey;
        wr.wr.atomic.compare_add = cas ? r->compare : r->operand;
        wr.wr.atomic.swap = cas ? r->operand : 0;
    } else {
        wr.wr.rdma.remote_addr = r->raddr;
        wr.wr.rdma.rkey = r->rkey;
        if (r->opcode == IBV_WR_RDMA_WRITE && r->bytes && r->bytes <= t->max_inline)
            wr.send_flags |= IBV_SEND_INLINE;
    }
    return ibv_post_send(r->ep->qp, &wr, &bad);
}

/* Posts waiting requests while the adapter has room. */
static void post_waiting(struct ibv_transport *t, struct asymreg_ep *ep)
{
    while (ep->waiting.n > 0 && ep->posted.n < SQ_DEPTH && atomic_load(&ep->state) == EP_READY) {
        uint32_t i = ep->waiting.head;
        int rc = post_req(t, i);

        if (rc == ENOMEM && ep->posted.n > 0)
            return; /* the driver's queue is shorter than it reported */
        queue_pop(t, &ep->waiting);
        if (rc == 0)
            queue_push(t, &ep->posted, i);
        else
            finish_req(t, i, rc == EINVAL ? ASYMREG_EALIGN : ASYMREG_ETRANSPORT);
    }
}

void asymreg_ibv__ep_dead(struct ibv_transport *t, struct asymreg_ep *ep, int error)
{
    struct ibv_qp *qp;

    pthread_mutex_lock(&t->lock);
    if (atomic_load(&ep->state) != EP_DEAD) {
        ep->why = error;
        atomic_store(&ep->state, EP_DEAD);
    }
    qp = ep->qp;
    ep->qp = NULL;
    pthread_mutex_unlock(&t->lock);
    if (qp)
        ibv_destroy_qp(qp); /* after this the adapter accesses no user memory */
    queue_move(t, &ep->returned, &ep->posted);
    queue_move(t, &ep->returned, &ep->waiting);
    while (ep->returned.n > 0)
        finish_req(t, queue_pop(t, &ep->returned), error);
}

/* Reconnects, after the adapter has returned all requests of a broken connection. They are before
 * those that were begun meanwhile. */
static void reconnect_ep(struct ibv_transport *t, struct asymreg_ep *ep)
{
    int rc;

    queue_move(t, &ep->returned, &ep->waiting);
    queue_move(t, &ep->waiting, &ep->returned);
    ep->unsure = false;
    ibv_destroy_qp(ep->qp);
    ep->qp = NULL;
    pthread_mutex_lock(&t->lock);
    rc = asymreg_ibv__ep_begin(t, ep);
    pthread_mutex_unlock(&t->lock);
    if (rc < 0)
        asymreg_ibv__ep_dead(t, ep, ASYMREG_ETRANSPORT);
}

static int map_status(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR: return ASYMREG_ESTALE;
    case IBV_WC_LOC_PROT_ERR: return ASYMREG_EFAULT; /* the caller's own memory */
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR: return ASYMREG_EPEER;
    default: return ASYMREG_ETRANSPORT;
    }
}

/* Handles one completion of the adapter. Returns 1 if it completes an operation of the user's. */
static int handle_completion(struct ibv_transport *t, const struct ibv_wc *wc)
{
    uint32_t i = (uint32_t)wc->wr_id;
    struct req *r = i < N_REQS ? &t->reqs[i] : NULL;
    struct asymreg_ep *ep;
    int error;

    if (!r || !r->busy || r->generation != (uint32_t)(wc->wr_id >> 32))
        return 0; /* the operation was abandoned */
    ep = r->ep;
    unlink_req(t, &ep->posted, i);
    if (wc->status == IBV_WC_SUCCESS) {
        ep->proof_ns = 0; /* the next probe begins a new interval */
        error = !r->probe;
        finish_req(t, i, 0);
        return error;
    }
    if (wc->status == IBV_WC_WR_FLUSH_ERR) { /* queued behind the one that failed */
        error = ep->unsure;
        if (ep->unsure)
            finish_req(t, i, ASYMREG_ETRANSPORT);
        else
            queue_push(t, &ep->returned, i);
        atomic_store(&ep->state, EP_BROKEN);
    } else {
        error = map_status(wc->status);
        if (error == ASYMREG_EPEER) {
            finish_req(t, i, error);
            asymreg_ibv__ep_dead(t, ep, error);
            return 1;
        }
        ep->unsure = error != ASYMREG_ESTALE; /* it failed here, not at the peer */
        atomic_store(&ep->state, EP_BROKEN);
        finish_req(t, i, error);
    }
    if (ep->posted.n == 0)
        reconnect_ep(t, ep);
    return error != 0;
}

int asymreg_ibv__progress(struct asymreg_transport *base)
{
    struct ibv_transport *t = ibv_of(base);
    struct ibv_wc wc[POLL_BATCH];
    int n, done = 0;

    do {
        n = ibv_poll_cq(t->cq, POLL_BATCH, wc);
        if (n < 0) {
            for (struct asymreg_ep *ep = t->eps; ep; ep = ep->next)
                asymreg_ibv__ep_dead(t, ep, ASYMREG_ETRANSPORT);
            return ASYMREG_ETRANSPORT;
        }
        for (int i = 0; i < n; i++) {
            uint32_t req = (uint32_t)wc[i].wr_id;
            struct asymreg_ep *ep = req < N_REQS && t->reqs[req].busy ? t->reqs[req].ep : NULL;

            done += handle_completion(t, &wc[i]);
            if (ep && ep->waiting.n > 0)
                post_waiting(t, ep);
        }
    } while (n == POLL_BATCH);
    if (atomic_exchange(&t->changed, 0) != 0) {
        /* Only this thread changes the list. */
        for (struct asymreg_ep *ep = t->eps; ep; ep = ep->next) {
            if (atomic_load(&ep->state) == EP_DEAD)
                asymreg_ibv__ep_dead(t, ep, ep->why);
            else
                post_waiting(t, ep);
        }
    }
    return done;
}

/* Allocates a request for the endpoint, with a bounce buffer of `chunk_bytes` unless that is 0.
 * NULL if all are in use, or the endpoint is dead (*error). */
static struct req *begin_req(struct ibv_transport *t, struct asymreg_ep *ep, struct asymreg_op *op,
                             size_t chunk_bytes, int *error)
{
    struct req *r;
    uint32_t i;

    *error = -EAGAIN;
    if (t->free_req == NO_REQ || (chunk_bytes > SLOT_BYTES && t->n_chunks == 0))
        asymreg_ibv__progress(&t->base);
    if (atomic_load(&ep->state) == EP_DEAD) {
        asymreg_ibv__ep_dead(t, ep, ep->why);
        *error = ep->why;
        return NULL;
    }
    if (t->free_req == NO_REQ || (chunk_bytes > SLOT_BYTES && t->n_chunks == 0))
        return NULL;
    i = t->free_req;
    r = &t->reqs[i];
    t->free_req = r->next;
    *r = (struct req){.ep = ep,
                      .op = op,
                      .generation = r->generation,
                      .busy = true,
                      .chunk = NO_CHUNK,
                      .next = NO_REQ};
    if (chunk_bytes > 0) {
        r->local = slot_of(t, i);
        r->lkey = t->bounce_mr->lkey;
        if (chunk_bytes > SLOT_BYTES) {
            r->chunk = t->chunks[--t->n_chunks];
            r->local = chunk_at(t, r->chunk);
        }
    }
    return r;
}

/* As begin_req(), for `bytes` at `addr` of the peer; `copy`: through a bounce buffer. */
static struct req *begin_transfer(struct ibv_transport *t, struct asymreg_ep *ep,
                                  struct asymreg_op *op, const struct asymreg_rkey *rkey,
                                  uint64_t addr, size_t bytes, bool copy, int *error)
{
    struct req *r;

    if (bytes > ASYMREG_IBV_MAX_OP_BYTES) {
        *error = -EINVAL;
        return NULL;
    }
    r = begin_req(t, ep, op, copy ? bytes : 0, error);
    if (r) {
        r->rkey = rkey->rkey;
        r->raddr = addr;
        r->bytes = (uint32_t)bytes;
    }
    return r;
}

static void start_req(struct ibv_transport *t, struct req *r)
{
    if (r->op)
        __atomic_store_n(&r->op->status, ASYMREG_PENDING, __ATOMIC_RELAXED);
    queue_push(t, &r->ep->waiting, (uint32_t)(r - t->reqs));
    post_waiting(t, r->ep);
}

int asymreg_ibv__put(struct asymreg_transport *base, struct asymreg_ep *ep,
                     struct asymreg_rkey *rkey, uint64_t addr, const void *src, size_t bytes,
                     struct asymreg_mem *local, struct asymreg_op *op)
{
    struct ibv_transport *t = ibv_of(base);
    bool copy = !local || bytes <= SLOT_BYTES;
    struct req *r;
    int error;

    if (!(rkey->prot & ASYMREG_WRITE))
        return ASYMREG_EACCES;
    r = begin_transfer(t, ep, op, rkey, addr, bytes, copy, &error);
    if (!r)
        return error;
    r->opcode = IBV_WR_RDMA_WRITE;
    if (copy) {
        memcpy(r->local, src, bytes);
    } else {
        r->local = (void *)(uintptr_t)src; // NOLINT: only read
        r->lkey = local->mr->lkey;
    }
    start_req(t, r);
    return !op && copy ? 0 : ASYMREG_PENDING;
}

int asymreg_ibv__get(struct asymreg_transport *base, struct asymreg_ep *ep,
                     struct asymreg_rkey *rkey, uint64_t addr, void *dst, size_t bytes,
                     struct asymreg_mem *local, struct asymreg_op *op)
{
    struct ibv_transport *t = ibv_of(base);
    bool copy = !local || !local->local_write || bytes <= SLOT_BYTES;
    struct req *r;
    int error;

    if (!(rkey->prot & ASYMREG_READ))
        return ASYMREG_EACCES;
    r = begin_transfer(t, ep, op, rkey, addr, bytes, copy, &error);
    if (!r)
        return error;
    r->opcode = IBV_WR_RDMA_READ;
    r->dst = dst;
    r->copy_out = copy;
    if (!copy) {
        r->local = dst;
        r->lkey = local->mr->lkey;
    }
    start_req(t, r);
    return ASYMREG_PENDING;
}

int asymreg_ibv__amo(struct asymreg_transport *base, struct asymreg_ep *ep,
                     struct asymreg_rkey *rkey, uint64_t addr, uint32_t amo, uint32_t bytes,
                     uint64_t operand, uint64_t compare, uint64_t *result, struct asymreg_op *op)
{
    struct ibv_transport *t = ibv_of(base);
    bool adds = amo == ASYMREG_AMO_ADD || amo == ASYMREG_AMO_FETCH_ADD;
    struct req *r;
    int error;

    if (!t->atomics || bytes != 8 || !(AMO_OPS >> amo & 1))
        return ASYMREG_ENOTSUP;
    if (!(rkey->prot & ASYMREG_ATOMIC))
        return ASYMREG_EACCES;
    if (addr % 8 != 0)
        return ASYMREG_EALIGN;
    r = begin_transfer(t, ep, op, rkey, addr, 8, true, &error);
    if (!r)
        return error;
    r->opcode = adds ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
    r->operand = operand;
    r->compare = compare;
    r->dst = result;
    r->copy_out = result != NULL;
    start_req(t, r);
    return ASYMREG_PENDING;
}

int asymreg_ibv__peer_alive(struct asymreg_transport *base, struct asymreg_ep *ep)
{
    struct ibv_transport *t = ibv_of(base);
    uint64_t now;
    struct req *r;
    int error;

    if (atomic_load(&t->changed) != 0 || ep->posted.n > 0)
        asymreg_ibv__progress(base);
    if (atomic_load(&ep->state) == EP_DEAD)
        return ep->why;
    if (ep->posted.n > 0 || ep->waiting.n > 0 || atomic_load(&ep->state) != EP_READY)
        return 0; /* operations in flight will show it */
    now = asymreg_ibv__now_ns();
    if (ep->proof_ns == 0)
        ep->proof_ns = now;
    if (now - ep->proof_ns < PROBE_AFTER_NS)
        return 0;
    r = begin_req(t, ep, NULL, 0, &error);
    if (!r)
        return error == -EAGAIN ? 0 : error;
    r->probe = true;
    r->opcode = IBV_WR_RDMA_WRITE;
    start_req(t, r);
    return 0;
}

static int flush_one(struct asymreg_ep *ep)
{
    int error;

    if (ep->posted.n > 0 || ep->waiting.n > 0)
        return ASYMREG_PENDING;
    error = ep->first_error;
    ep->first_error = 0;
    if (error == 0 && atomic_load(&ep->state) == EP_DEAD)
        error = ep->why;
    return error;
}

int asymreg_ibv__flush(struct asymreg_transport *base, struct asymreg_ep *ep)
{
    struct ibv_transport *t = ibv_of(base);
    int rc = asymreg_ibv__progress(base), error = 0;

    if (rc < 0)
        return rc;
    if (ep)
        return flush_one(ep);
    for (ep = t->eps; ep; ep = ep->next) {
        if (ep->posted.n > 0 || ep->waiting.n > 0)
            return ASYMREG_PENDING;
    }
    for (ep = t->eps; ep; ep = ep->next) {
        rc = flush_one(ep);
        if (error == 0)
            error = rc;
    }
    return error;
}
