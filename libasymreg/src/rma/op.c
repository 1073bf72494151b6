/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put, get and atomics: every one is a struct op, and op_run() does it. It gets the link to the
 * peer, finds the region of the address in the copy of the peer's table, checks it, finds the
 * segment's key, and posts the operation to the transport.
 *
 * Two paths lead there. op_hit() takes the usual one, in few instructions, so that the processor
 * has several operations in flight while it waits for memory. op_run_slow() takes any other: a
 * table to be refreshed, a key to be made, a transport with a lock, an operation in pieces.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "worker.h"

#include <errno.h>

#define FIND_TRIES 16 /* of a region whose segment changes between the table and its key */

enum { OP_PUT, OP_GET, OP_AMO };

struct op {
    int kind;
    int wait; /* returns when complete; else the request does, or a flush */
    uint64_t raddr;
    asymreg_id id;
    size_t bytes;
    char *buf;                          /* of a put or get */
    struct asymreg_req *req;            /* NULL: a flush completes it */
    uint32_t word;                      /* slot + 1 of a batch's search, or 0 */
    uint32_t amo;                       /* ASYMREG_AMO_*; its operands: */
    uint64_t operand, compare, *result; /* the last is not NULL */
};

/* A copy in memory, for a function that is not inlined. Member by member, so that the original
 * stays in registers: gcc would store all of it before the usual case. */
ALWAYS_INLINE struct op op_copy(const struct op *op)
{
    return (struct op){op->kind, op->wait, op->raddr, op->id,      op->bytes,   op->buf,
                       op->req,  op->word, op->amo,   op->operand, op->compare, op->result};
}

static inline uint32_t op_need(const struct op *op)
{
    return op->kind == OP_PUT ? ASYMREG_WRITE : op->kind == OP_GET ? ASYMREG_READ : ASYMREG_ATOMIC;
}

/* ---- from an address to its region and key ---- */

/* Returns the key of a region whose segment has been used; NULL: asymreg__peer_key() makes it. */
ALWAYS_INLINE struct asymreg__key *region_key(struct asymreg__peer *p,
                                              const struct asymreg_region *r)
{
    uint32_t n = (uint32_t)r->value;
    struct asymreg__key *key =
        n < p->n_keys ? atomic_load_explicit(&p->keys[n], memory_order_acquire) : NULL;

    return key && key->value == r->value && r->start >= key->base && r->last <= key->last ? key
                                                                                          : NULL;
}

/* Returns 0 and the key, if it exists, if this region permits the access; else the error. */
ALWAYS_INLINE int region_check(struct asymreg__peer *p, const struct asymreg_region *r,
                               uint64_t raddr, size_t bytes, asymreg_id id, uint32_t need,
                               struct asymreg__key **key)
{
    if (!r)
        return ASYMREG_ENOREGION;
    if (id != ASYMREG_ANY && r->id != id)
        return ASYMREG_ESTALE;
    if (bytes && r->last - raddr < bytes - 1)
        return ASYMREG_ERANGE;
    if (need & ~r->prot)
        return ASYMREG_EACCES;
    *key = region_key(p, r);
    return 0;
}

/*
 * Looks up the region of an address in the copy of the peer's table, and checks it; inside a
 * section. Returns region_check()'s result and key, and in `seen`, unless that is NULL, the region
 * (id ASYMREG_ANY: none). It searches only if no slot is known: an identifier has the slot, a batch
 * may have found one (`word`), and a hint names a probable one.
 */
ALWAYS_INLINE int region_lookup(struct link *l, uint64_t raddr, size_t bytes, asymreg_id id,
                                uint32_t need, uint32_t word, struct asymreg__key **key,
                                struct asymreg_region *seen)
{
    const struct asymreg__index *ix = l->reader->index;
    const struct asymreg_region *found;
    struct asymreg_region region;

    if (word ? asymreg__slot_read(ix, word - 1, raddr, &region)
             : asymreg__hint_lookup(ix, raddr, id, &region)) {
        if (seen)
            *seen = region;
        return region_check(l->peer, &region, raddr, bytes, id, need, key);
    }
    found = asymreg__index_lookup(l->reader, raddr);
    if (seen)
        *seen = found ? *found : (struct asymreg_region){.id = ASYMREG_ANY};
    return region_check(l->peer, found, raddr, bytes, id, need, key);
}

/* The error of an access that region_lookup() refused, with an up-to-date table. `had`: a region
 * was there. Ends the section. */
static int access_error(struct link *l, asymreg_id id, int had, int rc)
{
    int elsewhere = asymreg__index_lives(l->reader->index, id); /* the named registration exists */

    asymreg__reader_exit(l->reader);
    if (elsewhere && (rc == ASYMREG_ENOREGION || rc == ASYMREG_ESTALE))
        return ASYMREG_ERANGE;
    return rc == ASYMREG_ENOREGION && (id != ASYMREG_ANY || had) ? ASYMREG_ESTALE : rc;
}

int asymreg__target_find(struct link *l, uint64_t raddr, size_t bytes, asymreg_id id, uint32_t need,
                         int refreshed, struct target *t)
{
    struct asymreg__peer *p = l->peer;
    int had = refreshed;
    int rc;

    if (bytes && raddr + bytes - 1 < raddr)
        return ASYMREG_EOVERFLOW;
    for (int i = 0; i < FIND_TRIES; i++) {
        asymreg__reader_enter(l->reader);
        t->key = NULL;
        rc = region_lookup(l, raddr, bytes, id, need, 0, &t->key, &t->region);
        had |= t->region.id != ASYMREG_ANY;
        if (!refreshed && (rc < 0 || asymreg__stale(&l->fresh) || p->ask)) {
            asymreg__reader_exit(l->reader);
            refreshed = 1;
            rc = asymreg__peer_refresh(p);
            if (rc < 0)
                return rc;
            continue;
        }
        if (rc < 0)
            return access_error(l, id, had, rc);
        if (t->key) {
            l->guess = t->key->mapped;
            l->guess_base = l->guess ? t->key->base : 0;
            l->guess_span = l->guess ? t->key->last - t->key->base : 0;
            return 0;
        }
        asymreg__reader_exit(l->reader);
        rc = asymreg__peer_key(p, &t->region, NULL);
        if (rc == ASYMREG_ESTALE) /* the segment went after the table was read */
            rc = asymreg__peer_refresh(p);
        if (rc < 0)
            return link_note_death(l, rc);
    }
    return ASYMREG_EBUSY;
}

/* ---- from a key to the transport ---- */

/* The transport's status of an operation: the caller's, who waits; the request's; or NULL. */
ALWAYS_INLINE struct asymreg_op *op_status(const struct op *op, struct asymreg_op *waited)
{
    return op->wait ? waited : op->req ? &op->req->op : NULL;
}

/* Under the transport's lock, if it needs one. `status`: NULL if a flush completes it. */
ALWAYS_INLINE int op_post(struct asymreg_worker *w, struct link *l, struct asymreg_rkey *rkey,
                          const struct op *op, struct asymreg_mem *mem, struct asymreg_op *status)
{
    struct asymreg_ep *ep = l->peer->ep;

    if (op->kind == OP_PUT)
        return w->ops->put(w->t, ep, rkey, op->raddr, op->buf, op->bytes, mem, status);
    if (op->kind == OP_GET)
        return w->ops->get(w->t, ep, rkey, op->raddr, op->buf, op->bytes, mem, status);
    return w->ops->amo(w->t, ep, rkey, op->raddr, op->amo, (uint32_t)op->bytes, op->operand,
                       op->compare, op->result, status);
}

/* Returns this side's registration of an operation's buffer, for transports that need it. Under the
 * transport's lock, as its end is. */
static struct asymreg_mem *own_mem(struct asymreg_worker *w, const struct op *op)
{
    const struct asymreg_region *r =
        w->own ? asymreg__index_lookup(w->own, (uintptr_t)op->buf) : NULL;

    return r && r->last - (uintptr_t)op->buf >= op->bytes - 1
               ? w->context->segs[(uint32_t)r->value].mem
               : NULL;
}

/* Whether an operation for which the transport has returned rc needs the caller: a queue is full,
 * or the caller waits for the result. */
static int op_needs_progress(const struct op *op, const struct asymreg_op *status, int rc)
{
    return rc == -EAGAIN || (rc == ASYMREG_PENDING && op->wait && asymreg__op_pending(status));
}

/* Continues an operation for which the transport has returned rc: posts it again while a queue is
 * full, and waits for it if the caller does. */
static int op_progress(struct asymreg_worker *w, struct link *l, struct asymreg_rkey *rkey,
                       const struct op *op, struct asymreg_op *status, int rc)
{
    struct asymreg_context *c = w->context;
    struct asymreg__wait wait = {0};
    int moved;

    while (op_needs_progress(op, status, rc)) {
        asymreg__t_lock(c);
        moved = w->ops->progress(w->t);
        if (rc == -EAGAIN && (moved == ASYMREG_EPEER || w->ops->peer_alive(w->t, l->peer->ep) < 0))
            rc = ASYMREG_EPEER;
        else if (rc == -EAGAIN)
            rc = op_post(w, l, rkey, op, own_mem(w, op), status);
        asymreg__t_unlock(c);
        asymreg__wait(c, &wait, moved || !op_needs_progress(op, status, rc));
    }
    if (rc != ASYMREG_PENDING)
        return rc;
    if (op->wait)
        return status->status;
    if (op->req)
        asymreg__req_begun(l, op->req);
    else
        l->pending |= PENDING_UNTIL_FLUSH;
    return 0;
}

/* Posts one piece of an operation and completes it, if the caller waits. */
static int op_run_piece(struct asymreg_worker *w, struct link *l, struct asymreg_rkey *rkey,
                        const struct op *op)
{
    struct asymreg_op status = {.status = 0}, *use = op_status(op, &status);
    int rc;

    asymreg__t_lock(w->context);
    rc = op_post(w, l, rkey, op, own_mem(w, op), use);
    asymreg__t_unlock(w->context);
    return op_progress(w, l, rkey, op, use, rc);
}

/* These three promise that nothing was copied. */
static int op_refusal(int rc, int copied)
{
    if (copied && (rc == ASYMREG_ENOREGION || rc == ASYMREG_ESTALE || rc == ASYMREG_EACCES))
        return ASYMREG_ERANGE;
    return rc;
}

static int op_run_pieces(struct asymreg_worker *w, struct link *l, struct op op)
{
    const struct asymreg_context *c = w->context;
    int split = (c->flags & ASYMREG_SPLIT) && op.kind != OP_AMO;
    uint32_t need = op_need(&op);
    size_t left = op.bytes;
    struct target t;
    int rc, again = 0, copied = 0; /* copied: a part */

    while (left) {
        op.bytes = left;
        rc = asymreg__target_find(l, op.raddr, left, op.id, need, again, &t);
        if (rc == ASYMREG_ERANGE && split && op.id == ASYMREG_ANY) {
            rc = asymreg__target_find(l, op.raddr, 0, op.id, need, 1, &t);
            if (rc == 0 && t.region.last - op.raddr < left - 1) /* it may have grown by now */
                op.bytes = t.region.last - op.raddr + 1;
        }
        if (rc < 0)
            return link_refusal(l, op_refusal(rc, copied));
        if (c->caps.max_op_bytes && op.bytes > c->caps.max_op_bytes)
            op.bytes = c->caps.max_op_bytes;
        if (op.req) /* which has room for one piece, the last */
            op.wait = op.bytes < left;
        rc = op_run_piece(w, l, t.key->rkey, &op);
        asymreg__reader_exit(l->reader);
        if (rc == ASYMREG_ESTALE && !again) { /* the handle has been revoked: a new one may exist */
            again = 1;
            rc = asymreg__peer_refresh(l->peer);
            if (rc < 0)
                return op_refusal(rc, copied);
            continue;
        }
        if (rc < 0)
            return link_note_death(l, op_refusal(rc, copied));
        op.raddr += op.bytes;
        op.buf = op.buf ? op.buf + op.bytes : NULL;
        left -= op.bytes;
        copied = 1;
    }
    return 0;
}

__attribute__((noinline)) static int op_run_slow(struct asymreg_worker *w, struct link *l,
                                                 const struct op *op)
{
    int rc;

    if (!op->bytes)
        return asymreg__peer_alive(l->peer);
    if (op->kind != OP_AMO && !op->buf)
        return -EINVAL;
    link_announce(l);
    link_prefetch(l, op->raddr);
    rc = op_run_pieces(w, l, *op);
    link_retract(l);
    return rc;
}

/* ---- the usual case ---- */

#define OP_MISS 1 /* nothing was done: op_run_slow() */

/* The transport has not returned 0. As op_hit(). */
__attribute__((noinline)) static int op_hit_progress(struct asymreg_worker *w, struct link *l,
                                                     struct asymreg_rkey *rkey, const struct op *op,
                                                     struct asymreg_op *status, int rc)
{
    if (rc == ASYMREG_PENDING || rc == -EAGAIN)
        rc = op_progress(w, l, rkey, op, status, rc);
    return rc == ASYMREG_ESTALE ? OP_MISS : link_note_death(l, rc); /* the slow path refreshes */
}

ALWAYS_INLINE int op_hit(struct asymreg_worker *w, struct link *l, const struct op *op)
{
    struct asymreg_op status, *use = op_status(op, &status);
    struct asymreg__key *key = NULL;
    int rc = OP_MISS;

    if (!l->plain)
        return OP_MISS;
    /* asymreg_amo() has checked its own. */
    if (op->kind != OP_AMO && (!op->bytes || !op->buf || op->raddr + op->bytes - 1 < op->raddr))
        return OP_MISS;
    link_prefetch(l, op->raddr);
    asymreg__reader_enter(l->reader);
    if (region_lookup(l, op->raddr, op->bytes, op->id, op_need(op), op->word, &key, NULL) == 0 &&
        key && !asymreg__stale(&l->fresh)) {
        status.status = 0;
        rc = op_post(w, l, key->rkey, op, NULL, use);
        if (rc) {
            const struct op rest = op_copy(op);

            rc = op_hit_progress(w, l, key->rkey, &rest, use, rc);
        } else {
            l->known_alive = 1;
        }
    }
    asymreg__reader_exit(l->reader);
    return rc;
}

ALWAYS_INLINE int op_run(struct asymreg_worker *w, uint32_t pe, const struct op *op)
{
    struct link *l;
    int rc = link_get(w, pe, &l);

    if (rc < 0)
        return rc;
    rc = op_hit(w, l, op);
    if (rc == OP_MISS) {
        const struct op all = op_copy(op);

        rc = op_run_slow(w, l, &all);
    }
    return rc;
}

/* ---- the calls ---- */

ALWAYS_INLINE int put_or_get(struct asymreg_worker *w, uint32_t pe, int kind, int wait,
                             uint64_t raddr, asymreg_id id, const void *buf, size_t bytes)
{
    return op_run(w, pe,
                  &(struct op){.kind = kind,
                               .wait = wait,
                               .raddr = raddr,
                               .id = id,
                               .bytes = bytes,
                               .buf = (char *)(uintptr_t)buf});
}

int asymreg_put(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                const void *src, size_t bytes)
{
    return put_or_get(worker, pe, OP_PUT, 1, raddr, id, src, bytes);
}

int asymreg_get(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                void *dst, size_t bytes)
{
    return put_or_get(worker, pe, OP_GET, 1, raddr, id, dst, bytes);
}

/* Begins an operation with a request, which gets the error if that fails. */
__attribute__((noinline)) static int req_begin(struct asymreg_worker *w, uint32_t pe, int kind,
                                               uint64_t raddr, asymreg_id id, const void *buf,
                                               size_t bytes, struct asymreg_req *req)
{
    const struct op op = {.kind = kind,
                          .raddr = raddr,
                          .id = id,
                          .bytes = bytes,
                          .buf = (char *)(uintptr_t)buf,
                          .req = req};
    int rc;

    *req = (struct asymreg_req){
        .raddr = raddr, .bytes = bytes, .id = id, .pe = pe, .need = op_need(&op)};
    rc = op_run(w, pe, &op);
    if (!req->in_flight) /* complete, or not begun; a transport may have said PENDING before */
        req->op.status = rc;
    return rc;
}

int asymreg_put_nb(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                   const void *src, size_t bytes, struct asymreg_req *req)
{
    return req ? req_begin(worker, pe, OP_PUT, raddr, id, src, bytes, req)
               : put_or_get(worker, pe, OP_PUT, 0, raddr, id, src, bytes);
}

int asymreg_get_nb(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                   void *dst, size_t bytes, struct asymreg_req *req)
{
    return req ? req_begin(worker, pe, OP_GET, raddr, id, dst, bytes, req)
               : put_or_get(worker, pe, OP_GET, 0, raddr, id, dst, bytes);
}

int asymreg__put_near(struct asymreg_worker *worker, uint32_t pe, const struct asymreg_transfer *x,
                      uint32_t word)
{
    return op_run(worker, pe,
                  &(struct op){.kind = OP_PUT,
                               .raddr = x->raddr,
                               .id = x->id,
                               .bytes = x->bytes,
                               .buf = x->here,
                               .word = word});
}

static uint64_t amo_result(uint32_t which, uint64_t old, uint64_t operand)
{
    switch (which) {
    case ASYMREG_AMO_ADD:
    case ASYMREG_AMO_FETCH_ADD: return old + operand;
    case ASYMREG_AMO_AND: return old & operand;
    case ASYMREG_AMO_OR: return old | operand;
    case ASYMREG_AMO_XOR: return old ^ operand;
    case ASYMREG_AMO_FETCH: return old;
    default: return operand;
    }
}

int asymreg_amo(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr, asymreg_id id,
                uint32_t which, uint32_t bytes, uint64_t operand, uint64_t compare,
                uint64_t *result)
{
    const struct asymreg_transport_caps *caps = &worker->context->caps;
    uint64_t mask = bytes == 4 ? UINT32_MAX : UINT64_MAX, old = 0, guess;
    uint32_t has = bytes == 4 ? caps->amo4_ops : caps->amo8_ops;
    struct op op = {.kind = OP_AMO,
                    .wait = 1,
                    .raddr = raddr,
                    .id = id,
                    .bytes = bytes,
                    .amo = which,
                    .operand = operand & mask,
                    .compare = compare & mask,
                    .result = &old};
    int rc;

    if (which > 31 || !(ASYMREG_AMO_ALL >> which & 1) || (bytes != 4 && bytes != 8))
        return -EINVAL;
    if (raddr % bytes)
        return ASYMREG_EALIGN;
    if (!(caps->flags & ASYMREG_CAP_AMO) || !worker->ops->amo ||
        !(has & (1u << which | 1u << ASYMREG_AMO_COMPARE_SWAP)))
        return ASYMREG_ENOTSUP;
    /* Builds an atomic that the transport lacks from compare-and-swap: a wrong first guess returns
     * the right value. */
    do {
        guess = old;
        if (!(has >> which & 1)) {
            op.amo = ASYMREG_AMO_COMPARE_SWAP;
            op.operand = amo_result(which, guess, operand & mask) & mask;
            op.compare = guess;
        }
        rc = op_run(worker, pe, &op);
    } while (rc == 0 && op.amo != which && old != guess);
    if (rc == 0 && result)
        *result = old;
    return rc;
}
