/* SPDX-License-Identifier: BSD-3-Clause */
/* What the core repeats, and when it ends that: a transport's queue that is full, a handle that is
 * stale, a table that changes while it is read. The transport is CMA to this process itself, which
 * fails on request. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <asymreg.h>

#include "../../libasymreg/src/local/local_internal.h"
#include "../../libasymreg/src/rma/worker.h"

#define PE 9

static struct asymreg_transport_ops ops;
static const struct asymreg_transport_ops *lower;

/* The faults, and what they met. */
static struct {
    int full;             /* so many operations find a full queue */
    int put, get, unpack; /* result of the next one */
    int stale_from;       /* puts from this one on (from 1) have a stale handle */
    int reborn;           /* the table is of another context */
    int late;             /* puts are complete at the next progress */
    int hasty;            /* puts are complete at once, with a status that says pending */
    int dead;
    void (*before_get)(void);
    void (*after_flush)(void);
    int n_gets, n_puts, n_released;
    struct asymreg_op *op; /* of a late put */
} fault;

static struct asymreg_context *owner, *user;
static struct asymreg_worker *worker;
static unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
static ssize_t blob_bytes;
static char memory[8192];
static uint32_t more_caps;
static uint64_t max_op_bytes;
static uint32_t opts_flags;

static int take(int *rc)
{
    int now = *rc;

    *rc = 0;
    return now;
}

static int query(struct asymreg_transport *t, struct asymreg_transport_caps *caps)
{
    int rc = lower->query(t, caps);

    caps->flags &= ~(uint32_t)(ASYMREG_CAP_MAP | ASYMREG_CAP_WHOLE_SPACE);
    caps->flags |= more_caps;
    caps->max_op_bytes = max_op_bytes;
    return rc;
}

static int alive(struct asymreg_transport *t, struct asymreg_ep *ep)
{
    return fault.dead ? ASYMREG_EPEER : lower->peer_alive(t, ep);
}

static int unpack(struct asymreg_transport *t, struct asymreg_ep *ep, const void *handle, size_t n,
                  uint64_t addr, uint64_t bytes, struct asymreg_rkey **rkey,
                  struct asymreg_error *err)
{
    int rc = take(&fault.unpack);

    return rc ? rc : lower->rkey_unpack(t, ep, handle, n, addr, bytes, rkey, err);
}

static int get(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey,
               uint64_t addr, void *dst, size_t bytes, struct asymreg_mem *local,
               struct asymreg_op *op)
{
    int rc;

    fault.n_gets++;
    if (fault.full && fault.full--)
        return -EAGAIN;
    rc = take(&fault.get);
    if (rc)
        return rc;
    if (fault.before_get)
        fault.before_get();
    rc = lower->get(t, ep, rkey, addr, dst, bytes, local, op);
    if (fault.reborn && bytes == sizeof(struct asymreg__header))
        ((struct asymreg__header *)dst)->incarnation++;
    return rc;
}

static int put(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey,
               uint64_t addr, const void *src, size_t bytes, struct asymreg_mem *local,
               struct asymreg_op *op)
{
    int rc;

    fault.n_puts++;
    if (fault.full && fault.full--)
        return -EAGAIN;
    rc = take(&fault.put);
    if (fault.stale_from && fault.n_puts >= fault.stale_from)
        rc = ASYMREG_ESTALE;
    if (rc == 0)
        rc = lower->put(t, ep, rkey, addr, src, bytes, local, NULL);
    if (fault.hasty)
        op->status = ASYMREG_PENDING;
    if (!fault.late)
        return rc;
    fault.op = op;
    op->status = ASYMREG_PENDING;
    return ASYMREG_PENDING;
}

static int flush(struct asymreg_transport *t, struct asymreg_ep *ep)
{
    int rc = lower->flush(t, ep);

    if (fault.after_flush)
        fault.after_flush();
    return rc;
}

static void release(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey)
{
    fault.n_released++;
    lower->rkey_release(t, ep, rkey);
}

static int progress(struct asymreg_transport *t)
{
    if (!fault.op)
        return 0;
    fault.op->status = fault.late < 0 ? fault.late : 0;
    fault.op = NULL;
    return 1;
}

static struct asymreg_context *context(uint32_t ring)
{
    struct asymreg_local_opts lo = {.size = sizeof(lo), .flags = ASYMREG_LOCAL_CMA};
    struct asymreg_opts o = {
        .size = sizeof(o), .max_regions = 1000, .ring = ring, .flags = opts_flags};
    struct asymreg_context *made;

    assert_int_equal(asymreg_local_create(&lo, &o.transport, NULL), 0);
    lower = o.transport->ops;
    ops = *lower;
    ops.query = query;
    ops.peer_alive = alive;
    ops.rkey_unpack = unpack;
    ops.rkey_release = release;
    ops.flush = flush;
    ops.get = get;
    ops.put = put;
    ops.progress = progress;
    o.transport->ops = &ops;
    assert_int_equal(asymreg_open(&o, &made, NULL), 0);
    return made;
}

static asymreg_id expose(void)
{
    asymreg_id id;

    assert_int_equal(asymreg_register(owner, memory, 4096, ASYMREG_RW, NULL, &id, NULL), 0);
    return id;
}

static int put_byte(asymreg_id id, const char *byte)
{
    return asymreg_put(worker, PE, (uintptr_t)memory, id, byte, 1);
}

static int setup(void **state)
{
    memset(&fault, 0, sizeof(fault));
    memset(memory, 0, sizeof(memory));
    owner = context(64);
    user = context(64);
    blob_bytes = asymreg_export(owner, blob, sizeof(blob), NULL);
    assert_true(blob_bytes > 0);
    assert_int_equal(asymreg_import(user, PE, blob, (size_t)blob_bytes, NULL), 0);
    assert_int_equal(asymreg_worker_create(user, &worker), 0);
    return 0;
}

static int teardown(void **state)
{
    memset(&fault, 0, sizeof(fault));
    asymreg_worker_destroy(worker);
    asymreg_close(user);
    asymreg_close(owner);
    return 0;
}

/* A full queue: the operation is posted again until there is room, or the peer is dead. */
static void queue_is_full(void **state)
{
    char in = 0;

    expose();
    assert_int_equal(put_byte(ASYMREG_ANY, "1"), 0);
    fault.full = 3;
    fault.n_puts = 0;
    assert_int_equal(put_byte(ASYMREG_ANY, "2"), 0);
    assert_true(fault.n_puts == 4 && memory[0] == '2');
    fault.full = 3;
    assert_int_equal(asymreg_get(worker, PE, (uintptr_t)memory, ASYMREG_ANY, &in, 1), 0);
    assert_int_equal(in, '2');
    fault.full = 3; /* the reads of the table */
    fault.n_gets = 0;
    assert_int_equal(asymreg_refresh(user, PE), 0);
    assert_true(fault.n_gets > 3);
    fault.full = -1;
    fault.dead = 1;
    assert_int_equal(put_byte(ASYMREG_ANY, "3"), ASYMREG_EPEER);
    assert_int_equal(memory[0], '2');
}

/* A table whose queue is full ends when its owner does. */
static void table_of_a_dead_peer(void **state)
{
    fault.full = -1;
    fault.dead = 1;
    assert_int_equal(asymreg_refresh(user, PE), ASYMREG_EPEER);
    fault.full = fault.dead = 0;
    assert_int_equal(put_byte(ASYMREG_ANY, "1"), ASYMREG_EPEER); /* dead is dead */
}

/* An operation that the caller waits for. */
static void completes_late(void **state)
{
    asymreg_id id = expose();

    fault.late = 1;
    assert_int_equal(put_byte(id, "1"), 0);
    assert_int_equal(memory[0], '1');
    fault.late = ASYMREG_EFAULT;
    assert_int_equal(put_byte(id, "2"), ASYMREG_EFAULT);
}

/* A status is the operation's only if the transport has returned ASYMREG_PENDING. */
static void completes_at_once(void **state)
{
    struct asymreg_req req;
    asymreg_id id = expose();

    fault.hasty = 1;
    assert_int_equal(put_byte(id, "1"), 0);
    assert_int_equal(asymreg_put_nb(worker, PE, (uintptr_t)memory, id, "2", 1, &req), 0);
    assert_int_equal(asymreg_req_test(worker, &req, NULL), 0);
    assert_int_equal(memory[0], '2');
}

/* A revoked handle: once more, with a table that is read again; the second time it is an error, and
 * so is a table that cannot be read. */
static void handle_is_revoked(void **state)
{
    asymreg_id id = expose();

    assert_int_equal(put_byte(id, "1"), 0);
    fault.n_gets = fault.n_puts = 0;
    fault.put = ASYMREG_ESTALE;
    assert_int_equal(put_byte(id, "2"), 0);
    assert_true(fault.n_puts == 2 && memory[0] == '2');
    fault.late = ASYMREG_ESTALE; /* each time */
    fault.n_gets = fault.n_puts = 0;
    assert_int_equal(put_byte(id, "3"), ASYMREG_ESTALE);
    assert_true(fault.n_puts == 3 && fault.n_gets > 0); /* the short path, the long one, again */
    fault.n_gets = fault.n_puts = 0;
    fault.get = -EIO;
    assert_int_equal(put_byte(id, "4"), -EIO);
    assert_int_equal(fault.n_puts, 2);
}

/* An operation in pieces, whose region goes between two of them: ASYMREG_ESTALE would promise that
 * nothing was copied. */
static void region_goes_in_the_middle(void **state)
{
    struct asymreg_worker *other;
    struct asymreg_context *piecewise;
    asymreg_id id = expose();

    max_op_bytes = 8;
    piecewise = context(64);
    max_op_bytes = 0;
    assert_int_equal(asymreg_import(piecewise, PE, blob, (size_t)blob_bytes, NULL), 0);
    assert_int_equal(asymreg_worker_create(piecewise, &other), 0);
    fault.stale_from = 2;
    assert_int_equal(asymreg_put(other, PE, (uintptr_t)memory, id, "0123456789abcdef", 16),
                     ASYMREG_ERANGE);
    assert_true(fault.n_puts == 3 && memcmp(memory, "01234567\0", 9) == 0);
    fault.stale_from = 1;
    fault.n_puts = 0;
    assert_int_equal(asymreg_put(other, PE, (uintptr_t)memory, id, "fedcba9876543210", 16),
                     ASYMREG_ESTALE);
    assert_true(memory[0] == '0');
    fault.stale_from = 0;
    assert_int_equal(asymreg_put(other, PE, (uintptr_t)memory, id, "fedcba9876543210", 16), 0);
    assert_memory_equal(memory, "fedcba9876543210", 16);
    asymreg_worker_destroy(other);
    asymreg_close(piecewise);
}

/* The copy of the table has a region whose segment is gone, and another one is in its place. */
static void segment_has_changed(void **state)
{
    asymreg_id id = expose(), next;

    assert_true(asymreg_refresh(user, PE) > 0);
    assert_int_equal(asymreg_unregister(owner, id), 0);
    next = expose();
    fault.n_gets = 0;
    assert_int_equal(put_byte(ASYMREG_ANY, "1"), 0);
    assert_int_equal(memory[0], '1');
    assert_int_equal(put_byte(id, "2"), ASYMREG_ESTALE);
    assert_int_equal(put_byte(next, "3"), 0);
    assert_int_equal(memory[0], '3');
    /* And the table cannot be read again. */
    assert_int_equal(asymreg_unregister(owner, next), 0);
    next = expose();
    assert_true(asymreg_refresh(user, PE) > 0);
    assert_int_equal(asymreg_unregister(owner, next), 0);
    next = expose();
    fault.unpack = ASYMREG_ESTALE; /* as from a descriptor that is closed */
    assert_int_equal(put_byte(next, "4"), 0);
    assert_int_equal(memory[0], '4');
}

/* Ends the section in which another worker has the old key, and may have posted a put with it. */
static void leave_section(void)
{
    fault.after_flush = NULL;
    asymreg__reader_exit(worker->last->reader);
}

/* The core flushes after the last worker has stopped using a retired key, and then releases it. */
static void key_goes_after_its_operations(void **state)
{
    struct asymreg_worker *other;
    asymreg_id id = expose();

    assert_int_equal(put_byte(id, "1"), 0);
    assert_int_equal(asymreg_worker_create(user, &other), 0);
    asymreg__reader_enter(worker->last->reader);
    fault.after_flush = leave_section;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(asymreg_unregister(owner, id), 0);
        id = expose();
        assert_true(asymreg_refresh(user, PE) > 0);
        assert_int_equal(asymreg_put(other, PE, (uintptr_t)memory, id, "2", 1), 0);
        assert_int_equal(fault.n_released, 0);
    }
    asymreg__reader_exit(worker->last->reader);
    fault.after_flush = NULL;
    assert_int_equal(asymreg_unregister(owner, id), 0);
    id = expose();
    assert_int_equal(asymreg_put(other, PE, (uintptr_t)memory, id, "3", 1), 0);
    assert_int_equal(fault.n_released, 3);
    asymreg_worker_destroy(other);
}

static asymreg_id moving;
static int gets_until;

/* The region, which is shorter than the operation, is a longer one. */
static void grow_region(void)
{
    if (gets_until-- != 0)
        return;
    assert_int_equal(asymreg_unregister(owner, moving), 0);
    assert_int_equal(asymreg_register(owner, memory, 4096, ASYMREG_RW, NULL, &moving, NULL), 0);
}

/* A get that is split at the end of regions never gets more than the caller has asked for, whenever
 * a region grows. */
static void split_region_grows(void **state)
{
    char to[4096];

    asymreg_worker_destroy(worker);
    asymreg_close(user);
    opts_flags = ASYMREG_SPLIT;
    user = context(64);
    opts_flags = 0;
    assert_int_equal(asymreg_import(user, PE, blob, (size_t)blob_bytes, NULL), 0);
    assert_int_equal(asymreg_worker_create(user, &worker), 0);
    memset(memory, 'm', 4096);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(asymreg_register(owner, memory, 100, ASYMREG_RW, NULL, &moving, NULL), 0);
        assert_true(asymreg_refresh(user, PE) > 0);
        memset(to, 0, sizeof(to));
        gets_until = i;
        fault.before_get = grow_region;
        (void)asymreg_get(worker, PE, (uintptr_t)memory, ASYMREG_ANY, to, 200);
        fault.before_get = NULL;
        for (int k = 200; k < 4096; k++)
            assert_int_equal(to[k], 0);
        assert_int_equal(asymreg_unregister(owner, moving), 0);
    }
}

static const struct asymreg_region *(*plain_search)(struct asymreg__reader *, uint64_t addr);
static int n_searches;

static const struct asymreg_region *search(struct asymreg__reader *r, uint64_t addr)
{
    n_searches++;
    return plain_search(r, addr);
}

/* The puts of a batch are searched for at once, and not again one by one. */
static void batch_is_searched_once(void **state)
{
    struct asymreg_transfer x[40];
    struct asymreg__index *ix;
    char from[40];
    size_t done;

    for (size_t i = 0; i < 40; i++) {
        from[i] = (char)('A' + i);
        x[i] = (struct asymreg_transfer){(uintptr_t)memory + i * 64, ASYMREG_ANY, &from[i], 1};
        assert_int_equal(asymreg_register(owner, memory + i * 64, 8, ASYMREG_RW, NULL, NULL, NULL),
                         0);
    }
    assert_int_equal(asymreg_put_many(worker, PE, x, 40, &done), 0); /* which makes the keys */
    ix = worker->last->reader->index;
    plain_search = ix->search;
    ix->search = search;
    memset(memory, 0, sizeof(memory));
    assert_int_equal(asymreg_put_many(worker, PE, x, 40, &done), 0);
    ix->search = plain_search;
    for (size_t i = 0; i < 40; i++)
        assert_int_equal(memory[i * 64], from[i]);
    assert_int_equal(n_searches, 0);
}

static void move_region(void)
{
    assert_int_equal(asymreg_unregister(owner, moving), 0);
    moving = expose();
}

/* It changes before each read: the operation gives up, and has written nothing. */
static void segment_changes_for_ever(void **state)
{
    moving = expose();
    assert_true(asymreg_refresh(user, PE) > 0);
    fault.before_get = move_region;
    assert_int_equal(put_byte(ASYMREG_ANY, "1"), ASYMREG_EBUSY);
    assert_int_equal(memory[0], 0);
    fault.before_get = NULL;
    assert_int_equal(put_byte(ASYMREG_ANY, "1"), 0);
    assert_int_equal(memory[0], '1');
}

/* More changes than the log holds. */
static void overrun_log(void)
{
    asymreg_id id;

    for (int i = 0; i < 40; i++) {
        assert_int_equal(asymreg_register(owner, memory + 4096, 1, ASYMREG_RW, NULL, &id, NULL), 0);
        assert_int_equal(asymreg_unregister(owner, id), 0);
    }
}

/* A refresh that the owner overtakes each time ends; if the owner was killed, the peer is dead. */
static void table_changes_for_ever(void **state)
{
    struct asymreg_stats stats = {.size = sizeof(stats)};
    asymreg_id id = expose();

    assert_int_equal(asymreg_register(owner, memory + 4096, 4096, ASYMREG_RW,
                                      &(struct asymreg_register_opts){
                                          .size = sizeof(struct asymreg_register_opts),
                                          .flags = ASYMREG_SEGMENT},
                                      NULL, NULL),
                     0);
    assert_true(asymreg_refresh(user, PE) > 0);
    assert_int_equal(asymreg_context_stats(user, &stats), 0);
    assert_int_equal(stats.n_retries, 0);
    fault.before_get = overrun_log;
    assert_int_equal(asymreg_refresh(user, PE), ASYMREG_EBUSY);
    fault.before_get = NULL;
    assert_int_equal(asymreg_context_stats(user, &stats), 0);
    assert_true(stats.n_retries > 0 && stats.n_retries < 1000);
    assert_int_equal(put_byte(id, "1"), 0);
    fault.before_get = overrun_log;
    fault.dead = 1;
    assert_int_equal(asymreg_refresh(user, PE), ASYMREG_EPEER);
    fault.before_get = NULL;
    assert_int_equal(put_byte(id, "2"), ASYMREG_EPEER);
}

static int gets_left;

static void fail_later(void)
{
    if (gets_left > 0 && --gets_left == 0)
        fault.get = -EIO;
}

/* Whichever read of a refresh fails, its error is the refresh's. */
static void any_read_fails(void **state)
{
    int n, rc;

    (void)expose();
    assert_true(asymreg_refresh(user, PE) > 0);
    for (n = 0;; n++) {
        overrun_log();
        gets_left = n;
        fault.get = n == 0 ? -EIO : 0;
        fault.before_get = fail_later;
        rc = asymreg_refresh(user, PE);
        fault.before_get = NULL;
        if (gets_left > 0 || fault.get)
            break;
        assert_int_equal(rc, -EIO);
    }
    fault.get = 0;
    assert_true(rc >= 0 && n >= 4);
}

/* The process lives, but the context is gone: its table's handle is stale, or the table at that
 * address is another context's. */
static void context_is_gone(void **state)
{
    fault.unpack = ASYMREG_ESTALE;
    assert_int_equal(asymreg_import(user, PE + 1, blob, (size_t)blob_bytes, NULL), ASYMREG_EPEER);
    fault.reborn = 1;
    assert_int_equal(asymreg_import(user, PE + 1, blob, (size_t)blob_bytes, NULL), ASYMREG_EPEER);
    fault.reborn = 0;
    assert_int_equal(asymreg_import(user, PE + 1, blob, (size_t)blob_bytes, NULL), 0);
}

/* With peers on other nodes the table is read at the first use. */
static void context_is_gone_at_first_use(void **state)
{
    struct asymreg_worker *other;
    struct asymreg_context *far;

    more_caps = ASYMREG_CAP_REMOTE_NODE;
    far = context(64);
    more_caps = 0;
    expose();
    assert_int_equal(asymreg_import(far, PE, blob, (size_t)blob_bytes, NULL), 0);
    assert_int_equal(asymreg_import(far, PE + 1, blob, (size_t)blob_bytes, NULL), 0);
    assert_int_equal(asymreg_worker_create(far, &other), 0);
    fault.reborn = 1;
    assert_int_equal(asymreg_put(other, PE, (uintptr_t)memory, ASYMREG_ANY, "1", 1), ASYMREG_EPEER);
    fault.reborn = 0;
    assert_int_equal(asymreg_put(other, PE, (uintptr_t)memory, ASYMREG_ANY, "1", 1), ASYMREG_EPEER);
    assert_int_equal(asymreg_put(other, PE + 1, (uintptr_t)memory, ASYMREG_ANY, "1", 1), 0);
    asymreg_worker_destroy(other);
    asymreg_close(far);
}

/* The number of a descriptor that the owner has closed, and then of another file. */
static void descriptor_is_closed(void **state)
{
    char address[ASYMREG_MAX_ADDRESS_BYTES], handle[ASYMREG_MAX_HANDLE_BYTES];
    struct asymreg_mem_desc desc = {
        .size = sizeof(desc), .bytes = 4096, .prot = ASYMREG_READ, .fd_offset = 0};
    size_t n = sizeof(address), handle_bytes = sizeof(handle);
    struct asymreg_transport *t;
    struct asymreg_rkey *rkey;
    struct asymreg_mem *mem;
    struct asymreg_ep *ep;
    int other[8];

    desc.fd = memfd_create("closed", MFD_CLOEXEC);
    assert_true(desc.fd >= 0 && ftruncate(desc.fd, 4096) == 0);
    desc.addr = (uintptr_t)mmap(NULL, 4096, PROT_READ, MAP_SHARED, desc.fd, 0);
    assert_int_equal(asymreg_local_create(NULL, &t, NULL), 0);
    assert_int_equal(t->ops->address(t, address, &n, NULL), 0);
    assert_int_equal(t->ops->connect(t, address, n, &ep, NULL), 0);
    assert_int_equal(t->ops->mem_reg(t, &desc, &mem, handle, &handle_bytes, NULL), 0);
    assert_int_equal(t->ops->rkey_unpack(t, ep, handle, handle_bytes, desc.addr, 4096, &rkey, NULL),
                     0);
    t->ops->rkey_release(t, ep, rkey);
    assert_int_equal(t->ops->mem_dereg(t, mem), 0);
    munmap((void *)(uintptr_t)desc.addr, 4096);
    close(desc.fd);
    assert_int_equal(t->ops->rkey_unpack(t, ep, handle, handle_bytes, desc.addr, 4096, &rkey, NULL),
                     ASYMREG_ESTALE);
    for (int i = 0; i < 8; i++)
        other[i] = memfd_create("other", MFD_CLOEXEC);
    assert_int_equal(t->ops->rkey_unpack(t, ep, handle, handle_bytes, desc.addr, 4096, &rkey, NULL),
                     ASYMREG_ESTALE);
    for (int i = 0; i < 8; i++)
        close(other[i]);
    t->ops->disconnect(t, ep);
    t->ops->destroy(t);
}

/* What connect and rkey_unpack get from a hostile peer, or from one that has become another
 * program. */
static void false_addresses_and_handles(void **state)
{
    struct asymreg_mem_desc desc = {
        .size = sizeof(desc), .bytes = 4096, .prot = ASYMREG_READ, .fd_offset = 0};
    static const uint64_t offsets[] = {INT64_MAX, UINT64_MAX - 4096, UINT64_MAX - 100};
    size_t n = sizeof(struct address), handle_bytes = sizeof(struct handle);
    struct asymreg_transport *t;
    struct asymreg_rkey *rkey;
    struct asymreg_mem *mem;
    struct asymreg_ep *ep;
    struct address a;
    struct handle h;

    desc.fd = memfd_create("file", MFD_CLOEXEC);
    assert_true(desc.fd >= 0 && ftruncate(desc.fd, 4096) == 0);
    desc.addr = (uintptr_t)memory;
    assert_int_equal(asymreg_local_create(NULL, &t, NULL), 0);
    assert_int_equal(t->ops->address(t, &a, &n, NULL), 0);
    a.canary.value++;
    assert_int_equal(t->ops->connect(t, &a, n, &ep, NULL), ASYMREG_EPEER);
    a.canary.value--;
    assert_int_equal(t->ops->connect(t, &a, n, &ep, NULL), 0);
    assert_int_equal(t->ops->mem_reg(t, &desc, &mem, &h, &handle_bytes, NULL), 0);
    assert_int_equal(t->ops->rkey_unpack(t, ep, &h, handle_bytes - 1, desc.addr, 4096, &rkey, NULL),
                     ASYMREG_ETABLE);
    assert_int_equal(t->ops->rkey_unpack(t, ep, &h, handle_bytes, desc.addr, 0, &rkey, NULL),
                     ASYMREG_ETABLE);
    for (size_t i = 0; i < sizeof(offsets) / sizeof(*offsets); i++) {
        h.fd_offset = offsets[i];
        assert_int_equal(t->ops->rkey_unpack(t, ep, &h, handle_bytes, desc.addr, 4096, &rkey, NULL),
                         ASYMREG_ETABLE);
    }
    t->ops->disconnect(t, ep);
    assert_int_equal(t->ops->mem_dereg(t, mem), 0);
    close(desc.fd);
    t->ops->destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        TEST(queue_is_full),
        TEST(table_of_a_dead_peer),
        TEST(completes_late),
        TEST(completes_at_once),
        TEST(handle_is_revoked),
        TEST(region_goes_in_the_middle),
        TEST(segment_has_changed),
        TEST(key_goes_after_its_operations),
        TEST(split_region_grows),
        TEST(batch_is_searched_once),
        TEST(segment_changes_for_ever),
        TEST(table_changes_for_ever),
        TEST(any_read_fails),
        TEST(context_is_gone),
        TEST(context_is_gone_at_first_use),
        cmocka_unit_test(descriptor_is_closed),
        cmocka_unit_test(false_addresses_and_handles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
