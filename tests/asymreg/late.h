/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A third party's transport, written from transport.h alone: it completes nothing at once, has a
 * short queue, takes small pieces only, does not map tables, is not thread-safe, and revokes
 * handles. And a context over it, whose peer 5 is itself. Include cmocka.h first.
 */
#ifndef ASYMREG_TESTS_LATE_H
#define ASYMREG_TESTS_LATE_H

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <asymreg.h>

#include "register.h"

enum { QUEUE = 4, PIECE = 1000, MAX_SERIAL = 4096 };

static unsigned char
    live[MAX_SERIAL]; /* handles that have not been revoked: the hardware's own table */
static uint32_t next_serial = 1;
static int dead;   /* the peer */
static int leaves; /* it is forgotten with operations in flight */
static int inside; /* calls in flight: never two */
static int n_eagain, n_progress, n_stale;
static int n_keys;              /* not released yet */
static int progress_error;      /* how the transport fails as a whole */
static uint32_t more_caps;      /* that it claims */
static int n_arms, arms_needed; /* progress waits for so many calls of arm */
static const struct asymreg_transport_ops *lower;

struct job {
    struct asymreg_ep *ep;
    struct asymreg_rkey *rkey;
    struct asymreg_op *op;
    struct asymreg_mem *local;
    uint64_t addr, operand, compare, *result;
    void *here;
    size_t bytes;
    uint32_t amo;
    int what; /* 0 put, 1 get, 2 amo */
};

struct late {
    struct asymreg_transport base;
    struct asymreg_transport *under;
    struct job queue[QUEUE];
    int n;
    int late_error;
};

struct asymreg_mem {
    struct asymreg_mem *under;
    uint32_t serial;
};

struct asymreg_rkey {
    struct asymreg_rkey *under;
    uint32_t serial;
};

#define ENTER()                                                                                    \
    struct late *l = (struct late *)(void *)t;                                                     \
    assert_int_equal(inside++, 0);                                                                 \
    (void)l
#define LEAVE(rc)                                                                                  \
    do {                                                                                           \
        int leave_rc = (rc);                                                                       \
        inside--;                                                                                  \
        return leave_rc;                                                                           \
    } while (0)

static int query(struct asymreg_transport *t, struct asymreg_transport_caps *caps)
{
    caps->flags = ASYMREG_CAP_PUT | ASYMREG_CAP_GET | ASYMREG_CAP_AMO | ASYMREG_CAP_PRIVATE |
                  ASYMREG_CAP_REVOKE | ASYMREG_CAP_WANT_LOCAL | more_caps;
    caps->amo8_ops = 1u << ASYMREG_AMO_FETCH_ADD | 1u << ASYMREG_AMO_COMPARE_SWAP;
    caps->kinds = 1u << ASYMREG_KIND_CUDA | 1u << ASYMREG_KIND_DMABUF;
    caps->max_handle_bytes = 128;
    caps->max_address_bytes = 256;
    caps->max_op_bytes = PIECE;
    return 0;
}

static const char *reason(struct asymreg_transport *t, uint32_t cap)
{
    return cap == ASYMREG_CAP_MAP ? "late does not map" : NULL;
}

/* The library's own registrations at open: a transport may have a thread that reads them for peers
 * until its end. */
static struct {
    uint64_t addr, bytes;
} own[2];
static int n_own;
static uint32_t last_kind; /* of memory registered */
static int last_fd;

static void destroy(struct asymreg_transport *t)
{
    struct late *l = (struct late *)(void *)t;

    assert_int_equal(l->n, 0);
    while (n_own-- > 0) {
        uint64_t page = own[n_own].addr / 4096 * 4096;

        assert_int_equal(
            msync((void *)(uintptr_t)page, own[n_own].addr + own[n_own].bytes - page, MS_ASYNC), 0);
    }
    n_own = 0;
    lower->destroy(l->under);
    free(l);
}

static int mem_reg(struct asymreg_transport *t, const struct asymreg_mem_desc *desc,
                   struct asymreg_mem **mem, void *handle, size_t *n, struct asymreg_error *err)
{
    ENTER();
    struct asymreg_mem_desc d = *desc;
    struct asymreg_mem *m = calloc(1, sizeof(*m));
    last_kind = desc->kind;
    last_fd = desc->fd;
    d.fd = -1;
    d.kind = 0;
    if (n_own < 2) {
        own[n_own].addr = desc->addr;
        own[n_own++].bytes = desc->bytes;
    }
    int rc = lower->mem_reg(l->under, &d, &m->under, (char *)handle + 4, n, err);
    assert_true(next_serial < MAX_SERIAL);
    m->serial = next_serial++;
    live[m->serial] = 1;
    memcpy(handle, &m->serial, 4);
    *n += 4;
    *mem = m;
    LEAVE(rc);
}

static int mem_dereg(struct asymreg_transport *t, struct asymreg_mem *mem)
{
    ENTER();
    live[mem->serial] = 0;
    int rc = lower->mem_dereg(l->under, mem->under);
    free(mem);
    LEAVE(rc);
}

static int address(struct asymreg_transport *t, void *buf, size_t *n, struct asymreg_error *err)
{
    ENTER();
    LEAVE(lower->address(l->under, buf, n, err));
}

static int connect_to(struct asymreg_transport *t, const void *bytes, size_t n,
                      struct asymreg_ep **ep, struct asymreg_error *err)
{
    ENTER();
    LEAVE(lower->connect(l->under, bytes, n, ep, err));
}

static void disconnect(struct asymreg_transport *t, struct asymreg_ep *ep)
{
    struct late *l = (struct late *)(void *)t;
    int kept = 0;

    for (int i = 0; i < l->n; i++)
        if (l->queue[i].ep != ep)
            l->queue[kept++] = l->queue[i];
        else if (l->queue[i].op)
            l->queue[i].op->status = ASYMREG_EPEER;
    l->n = kept;
    lower->disconnect(l->under, ep);
}

static int peer_alive(struct asymreg_transport *t, struct asymreg_ep *ep)
{
    ENTER();
    LEAVE(dead ? ASYMREG_EPEER : lower->peer_alive(l->under, ep));
}

static int rkey_unpack(struct asymreg_transport *t, struct asymreg_ep *ep, const void *handle,
                       size_t n, uint64_t addr, uint64_t bytes, struct asymreg_rkey **rkey,
                       struct asymreg_error *err)
{
    ENTER();
    struct asymreg_rkey *k = calloc(1, sizeof(*k));
    memcpy(&k->serial, handle, 4);
    int rc = lower->rkey_unpack(l->under, ep, (const char *)handle + 4, n - 4, addr, bytes,
                                &k->under, err);
    *rkey = k;
    n_keys += rc == 0;
    LEAVE(rc);
}

static void rkey_release(struct asymreg_transport *t, struct asymreg_ep *ep,
                         struct asymreg_rkey *rkey)
{
    struct late *l = (struct late *)(void *)t;

    for (int i = 0; i < l->n; i++)
        assert_true(leaves || l->queue[i].rkey != rkey); /* promised: no operation uses it */
    lower->rkey_release(l->under, ep, rkey->under);
    free(rkey);
    n_keys--;
}

static int enqueue(struct asymreg_transport *t, struct job j)
{
    ENTER();
    assert_true(j.bytes > 0 && j.bytes <= PIECE);
    if (dead)
        LEAVE(ASYMREG_EPEER);
    if (l->n == QUEUE) {
        n_eagain++;
        LEAVE(-EAGAIN);
    }
    if (j.op)
        j.op->status = ASYMREG_PENDING;
    l->queue[l->n++] = j;
    LEAVE(ASYMREG_PENDING);
}

static int put(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey,
               uint64_t addr, const void *src, size_t bytes, struct asymreg_mem *local,
               struct asymreg_op *op)
{
    return enqueue(t, (struct job){ep, rkey, op, local, .addr = addr,
                                   .here = (void *)(uintptr_t)src, .bytes = bytes, .what = 0});
}

static int get(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey,
               uint64_t addr, void *dst, size_t bytes, struct asymreg_mem *local,
               struct asymreg_op *op)
{
    return enqueue(
        t, (struct job){ep, rkey, op, local, .addr = addr, .here = dst, .bytes = bytes, .what = 1});
}

static int amo(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey,
               uint64_t addr, uint32_t which, uint32_t bytes, uint64_t operand, uint64_t compare,
               uint64_t *result, struct asymreg_op *op)
{
    assert_true(which == ASYMREG_AMO_FETCH_ADD || which == ASYMREG_AMO_COMPARE_SWAP);
    return enqueue(t, (struct job){ep, rkey, op, NULL, addr, operand, compare, result,
                                   .bytes = bytes, .amo = which, .what = 2});
}

static const struct asymreg_mem *last_local;

static int carry_out(struct late *l, const struct job *j)
{
    uint64_t old;

    if (dead)
        return ASYMREG_EPEER;
    last_local = j->local;
    if (!live[j->rkey->serial]) {
        n_stale++;
        return ASYMREG_ESTALE;
    }
    if (j->what == 0)
        return lower->put(l->under, j->ep, j->rkey->under, j->addr, j->here, j->bytes, NULL, NULL);
    if (j->what == 1)
        return lower->get(l->under, j->ep, j->rkey->under, j->addr, j->here, j->bytes, NULL, NULL);
    memcpy(&old, (void *)(uintptr_t)j->addr, 8); /* this process's own memory */
    *j->result = old;
    old = j->amo == ASYMREG_AMO_FETCH_ADD ? old + j->operand : old == j->compare ? j->operand : old;
    memcpy((void *)(uintptr_t)j->addr, &old, 8);
    return 0;
}

/* One at a time, the oldest first. */
static int progress(struct asymreg_transport *t)
{
    ENTER();
    n_progress++;
    if (progress_error) { /* the transport fails as a whole: nothing stays pending */
        for (; l->n > 0; l->n--)
            if (l->queue[l->n - 1].op)
                __atomic_store_n(&l->queue[l->n - 1].op->status, progress_error, __ATOMIC_RELEASE);
            else
                l->late_error = progress_error;
        LEAVE(progress_error);
    }
    if (l->n == 0 || n_progress % 3 || n_arms < arms_needed) /* lazily */
        LEAVE(0);
    struct job j = l->queue[0];
    memmove(l->queue, l->queue + 1, (size_t)--l->n * sizeof(j));
    int rc = carry_out(l, &j);
    if (j.op)
        __atomic_store_n(&j.op->status, rc, __ATOMIC_RELEASE);
    else if (rc < 0 && !l->late_error)
        l->late_error = rc;
    LEAVE(1);
}

static int flush(struct asymreg_transport *t, struct asymreg_ep *ep)
{
    ENTER();
    int rc = l->late_error;
    if (l->n)
        LEAVE(ASYMREG_PENDING);
    l->late_error = 0;
    LEAVE(rc ? rc : dead ? ASYMREG_EPEER : 0);
}

/* Its event never comes: the core sleeps for its longest time. */
static int arm(struct asymreg_transport *t, int *fd)
{
    ENTER();
    if (n_arms++ % 3 == 2)
        LEAVE(ASYMREG_ENOTSUP);
    *fd = -1;
    LEAVE(n_arms % 3 == 2 ? ASYMREG_PENDING : 0);
}

static struct asymreg_transport_ops late_ops = {
    .size = sizeof(late_ops),
    .version = ASYMREG_TRANSPORT_VERSION,
    .name = "late",
    .query = query,
    .reason = reason,
    .destroy = destroy,
    .mem_reg = mem_reg,
    .mem_dereg = mem_dereg,
    .address = address,
    .connect = connect_to,
    .disconnect = disconnect,
    .peer_alive = peer_alive,
    .rkey_unpack = rkey_unpack,
    .rkey_release = rkey_release,
    .put = put,
    .get = get,
    .amo = amo,
    .flush = flush,
    .progress = progress,
    .arm = arm,
};

static struct asymreg_transport *late_create(void)
{
    struct asymreg_local_opts o = {.size = sizeof(o), .flags = ASYMREG_LOCAL_CMA};
    struct late *l = calloc(1, sizeof(*l));

    assert_int_equal(asymreg_local_create(&o, &l->under, NULL), 0);
    lower = l->under->ops;
    l->base.ops = &late_ops;
    return &l->base;
}

static struct asymreg_context *c;
static struct asymreg_transport *c_transport;
static struct asymreg_worker *w;
static char memory[10000];

static int setup(void **state)
{
    struct asymreg_opts o = {.size = sizeof(o), .max_regions = 1000, .ring = 16};
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    ssize_t n;

    dead = 0;
    n_arms = arms_needed = 0;
    o.transport = c_transport = late_create();
    assert_int_equal(asymreg_open(&o, &c, NULL), 0);
    n = asymreg_export(c, blob, sizeof(blob), NULL);
    assert_true(n > 0);
    assert_int_equal(asymreg_import(c, 5, blob, (size_t)n, NULL), 0);
    assert_int_equal(asymreg_worker_create(c, &w), 0);
    memset(memory, 0, sizeof(memory));
    return 0;
}

static int teardown(void **state)
{
    dead = progress_error = 0;
    asymreg_worker_destroy(w);
    asymreg_close(c);
    return 0;
}

#endif
