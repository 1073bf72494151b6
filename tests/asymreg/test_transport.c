/* SPDX-License-Identifier: BSD-3-Clause */
/* The core's promises over a third party's transport (late.h), among them the paper's "if an
 * operation fails, update the table and try again". */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "late.h"

#include "register.h"

static void pieces_and_patience(void **state)
{
    static char out[9000], in[9000];

    for (size_t i = 0; i < sizeof(out); i++)
        out[i] = (char)(i * 13);
    n_eagain = 0;
    assert_int_equal(asymreg_register(c, memory, sizeof(memory), ASYMREG_ALL, NULL, NULL, NULL), 0);
    assert_int_equal(asymreg_put(w, 5, (uintptr_t)memory + 3, 0, out, 9000), 0);
    assert_memory_equal(memory + 3, out, 9000);
    assert_int_equal(asymreg_get_nb(w, 5, (uintptr_t)memory + 3, 0, in, 9000, NULL),
                     0); /* nine pieces, room for four */
    assert_true(n_eagain > 0);
    assert_int_equal(asymreg_flush(w, 5), 0);
    assert_memory_equal(in, out, 9000);
    memset(memory, 0, sizeof(memory));
    assert_int_equal(asymreg_put_nb(w, 5, (uintptr_t)memory + 3, 0, out, 9000, NULL), 0);
    assert_int_equal(asymreg_flush(w, ASYMREG_ALL_PEERS), 0);
    assert_memory_equal(memory + 3, out, 9000);
}

static void own_memory_is_made_known(void **state)
{
    static char out[100];

    assert_int_equal(asymreg_register(c, memory, 1000, ASYMREG_ALL, NULL, NULL, NULL), 0);
    assert_int_equal(asymreg_put(w, 5, (uintptr_t)memory, 0, out, 100), 0);
    assert_null(last_local);
    assert_int_equal(asymreg_put(w, 5, (uintptr_t)memory, 0, memory + 500, 100), 0);
    assert_non_null(last_local);
    assert_int_equal(asymreg_put(w, 5, (uintptr_t)memory, 0, memory + 950, 51),
                     0); /* runs out of it */
    assert_null(last_local);
}

static void some_atomics(void **state)
{
    static uint64_t word = 40;
    uint64_t old;

    assert_int_equal(asymreg_register(c, &word, 8, ASYMREG_ALL, NULL, NULL, NULL), 0);
    assert_int_equal(asymreg_amo(w, 5, (uintptr_t)&word, 0, ASYMREG_AMO_FETCH_ADD, 8, 2, 0, &old),
                     0);
    assert_int_equal(old, 40);
    assert_int_equal(word, 42);
    assert_int_equal(asymreg_amo(w, 5, (uintptr_t)&word, 0, ASYMREG_AMO_FETCH_ADD, 4, 2, 0, &old),
                     ASYMREG_ENOTSUP);
    /* The others are made of compare-and-swap. */
    static const struct {
        uint32_t which;
        uint64_t operand, then;
    } steps[] = {{ASYMREG_AMO_SWAP, 5, 5},      {ASYMREG_AMO_OR, 0xf0, 0xf5},
                 {ASYMREG_AMO_AND, 0x3c, 0x34}, {ASYMREG_AMO_XOR, 0xff, 0xcb},
                 {ASYMREG_AMO_FETCH, 99, 0xcb}, {ASYMREG_AMO_SET, 0, 0},
                 {ASYMREG_AMO_ADD, 1, 1},       {ASYMREG_AMO_SET, UINT64_MAX, UINT64_MAX}};
    uint64_t before = 42;
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        assert_int_equal(
            asymreg_amo(w, 5, (uintptr_t)&word, 0, steps[i].which, 8, steps[i].operand, 0, &old),
            0);
        assert_int_equal(old, before);
        assert_int_equal(word, steps[i].then);
        before = word;
    }
}

/* Registered again at the same address, with another handle: the old one fails, the table is
 * refreshed, the new one serves. */
static void stale_handles_are_replaced(void **state)
{
    asymreg_id a, b;

    n_stale = 0;
    assert_int_equal(asymreg_register(c, memory, 100, ASYMREG_ALL, NULL, &a, NULL), 0);
    assert_int_equal(asymreg_put(w, 5, (uintptr_t)memory, a, "1", 1), 0);
    for (int i = 0; i < 40; i++) { /* more often than the log is long */
        assert_int_equal(asymreg_unregister(c, a), 0);
        assert_int_equal(asymreg_register(c, memory, 100, ASYMREG_ALL, NULL, &b, NULL), 0);
        assert_int_equal(asymreg_put(w, 5, (uintptr_t)memory, ASYMREG_ANY, "2", 1), 0);
        assert_int_equal(n_stale, i + 1); /* the cached one was tried first */
        assert_int_equal(asymreg_put(w, 5, (uintptr_t)memory, a, "3", 1), ASYMREG_ESTALE);
        assert_int_equal(memory[0], '2');
        a = b;
    }
    assert_int_equal(asymreg_unregister(c, a), 0);
    assert_int_equal(asymreg_put(w, 5, (uintptr_t)memory, ASYMREG_ANY, "4", 1), ASYMREG_ESTALE);
    assert_int_equal(asymreg_put(w, 5, (uintptr_t)memory, ASYMREG_ANY, "4", 1), ASYMREG_ENOREGION);
    /* Begun without waiting: the flush reports the failure, once. */
    assert_int_equal(asymreg_register(c, memory, 100, ASYMREG_ALL, NULL, &a, NULL), 0);
    assert_int_equal(asymreg_put(w, 5, (uintptr_t)memory, a, "5", 1), 0);
    assert_int_equal(asymreg_unregister(c, a), 0);
    assert_int_equal(asymreg_put_nb(w, 5, (uintptr_t)memory, ASYMREG_ANY, "6", 1, NULL), 0);
    assert_int_equal(asymreg_flush(w, 5), ASYMREG_ESTALE);
    assert_int_equal(asymreg_flush(w, 5), 0);
    assert_int_equal(memory[0], '5');
}

/* Many segments come and go: keys that are replaced are released, never while a pending operation
 * (rkey_release() looks) or a bound handle uses them. */
static void replaced_keys_are_released(void **state)
{
    asymreg_id id;

    for (int i = 0; i < 300; i++) {
        assert_int_equal(asymreg_register(c, memory + i, 100, ASYMREG_ALL, NULL, &id, NULL), 0);
        assert_int_equal(asymreg_put_nb(w, 5, (uintptr_t)memory + (uint64_t)i, id, "x", 1, NULL),
                         0);
        if (i % 3 == 0)
            asymreg_flush(w, 5);
        assert_int_equal(asymreg_unregister(c, id), 0);
    }
    asymreg_flush(w, 5);
    assert_int_equal(n_keys, 2); /* of the table, and of the last segment */
    for (int bound = 1; bound >= 0; bound--) {
        struct asymreg_bound b;
        assert_int_equal(asymreg_register(c, memory, 100, ASYMREG_ALL, NULL, &id, NULL), 0);
        assert_int_equal(asymreg_bind(w, 5, (uintptr_t)memory, id, 100, &b), 0);
        if (!bound)
            asymreg_unbind(&b);
        assert_int_equal(asymreg_unregister(c, id), 0);
        assert_int_equal(asymreg_register(c, memory, 100, ASYMREG_ALL, NULL, &id, NULL), 0);
        assert_int_equal(asymreg_put(w, 5, (uintptr_t)memory, id, "x", 1), 0);
        assert_int_equal(n_keys, 2 + bound);
        asymreg_unbind(&b);
        assert_int_equal(asymreg_unregister(c, id), 0);
    }
}

/* Where only a flush learns that a handle was stale, the next operation has a new one. */
static void stale_at_a_flush(void **state)
{
    asymreg_id id;

    assert_int_equal(asymreg_register(c, memory, 100, ASYMREG_ALL, NULL, &id, NULL), 0);
    assert_int_equal(asymreg_put(w, 5, (uintptr_t)memory, ASYMREG_ANY, "1", 1), 0);
    assert_int_equal(asymreg_unregister(c, id), 0);
    assert_int_equal(asymreg_register(c, memory, 100, ASYMREG_ALL, NULL, NULL, NULL), 0);
    assert_int_equal(asymreg_put_nb(w, 5, (uintptr_t)memory, ASYMREG_ANY, "2", 1, NULL), 0);
    assert_int_equal(asymreg_flush(w, 5), ASYMREG_ESTALE);
    assert_int_equal(memory[0], '1');
    assert_int_equal(asymreg_put_nb(w, 5, (uintptr_t)memory, ASYMREG_ANY, "3", 1, NULL), 0);
    assert_int_equal(asymreg_flush(w, 5), 0);
    assert_int_equal(memory[0], '3');
}

static void a_peer_that_dies(void **state)
{
    char buf[10];

    assert_int_equal(asymreg_register(c, memory, 100, ASYMREG_ALL, NULL, NULL, NULL), 0);
    assert_int_equal(asymreg_put(w, 5, (uintptr_t)memory, 0, "1", 1), 0);
    assert_int_equal(asymreg_get_nb(w, 5, (uintptr_t)memory, 0, buf, 10, NULL), 0);
    dead = 1;
    assert_int_equal(asymreg_flush(w, 5), ASYMREG_EPEER);
    assert_int_equal(asymreg_put(w, 5, (uintptr_t)memory, 0, "2", 1), ASYMREG_EPEER);
    assert_int_equal(asymreg_refresh(c, 5), ASYMREG_EPEER);
    assert_int_equal(memory[0], '1');
}

/* Kinds of memory reach the transport, or are refused. */
static void kinds_of_memory(void **state)
{
    static char device[3][4096];
    struct asymreg_error err = {0};
    struct asymreg_context *x;

    assert_int_equal(
        asymreg_register(c, device[0], 100, ASYMREG_RW, KIND_OF(ASYMREG_KIND_CUDA), NULL, NULL), 0);
    assert_int_equal(last_kind, ASYMREG_KIND_CUDA);
    assert_int_equal(
        asymreg_register(c, device[1], 4096, ASYMREG_RW,
                         KIND_WITH(ASYMREG_KIND_DMABUF, ASYMREG_SEGMENT | ASYMREG_FD, 0), NULL,
                         NULL),
        0);
    assert_int_equal(last_kind, ASYMREG_KIND_DMABUF);
    assert_true(last_fd >= 0);
    assert_int_equal(asymreg_register(c, device[2], 100, ASYMREG_RW, NULL, NULL, NULL), 0);
    assert_int_equal(last_kind, ASYMREG_KIND_HOST);
    assert_int_equal(asymreg_register(c, device[2] + 200, 100, ASYMREG_RW,
                                      KIND_OF(ASYMREG_KIND_ROCM), NULL, &err),
                     ASYMREG_ENOTSUP);
    assert_non_null(strstr(err.text, "late cannot use ROCm memory"));
    assert_int_equal(asymreg_register(c, device[2] + 200, 100, ASYMREG_RW,
                                      KIND_OF(ASYMREG_KIND_DMABUF), NULL, NULL),
                     -EINVAL); /* which has a descriptor */
    assert_int_equal(asymreg_register(c, device[2] + 200, 100, ASYMREG_RW, KIND_OF(4u), NULL, NULL),
                     -EINVAL);
    assert_int_equal(asymreg_register(c, device[2] + 200, 100, ASYMREG_RW,
                                      KIND_WITH(ASYMREG_KIND_CUDA, ASYMREG_SEGMENT | ASYMREG_FD, 0),
                                      NULL, NULL),
                     -EINVAL);
    assert_int_equal(asymreg_open(NULL, &x, NULL), 0);
    for (uint32_t kind = ASYMREG_KIND_CUDA; kind <= ASYMREG_KIND_DMABUF; kind++) {
        uint32_t with = kind == ASYMREG_KIND_DMABUF ? ASYMREG_FD : 0;
        assert_int_equal(asymreg_register(x, device[0], 4096, ASYMREG_RW,
                                          KIND_WITH(kind, ASYMREG_SEGMENT | with, 0), NULL, &err),
                         ASYMREG_ENOTSUP);
        assert_non_null(strstr(err.text, "local cannot use"));
    }
    asymreg_close(x);
}

static void bad_tables_of_operations(void **state)
{
    struct asymreg_opts o = {.size = sizeof(o), .max_regions = 1000};
    struct asymreg_context *x;

    late_ops.version = 2;
    o.transport = late_create();
    assert_int_equal(asymreg_open(&o, &x, NULL), ASYMREG_EVERSION);
    late_ops.version = ASYMREG_TRANSPORT_VERSION;
    late_ops.size = offsetof(struct asymreg_transport_ops, guard); /* as before there were guards */
    o.transport = late_create();
    assert_int_equal(asymreg_open(&o, &x, NULL), 0);
    asymreg_close(x);
    late_ops.size--;
    o.transport = late_create();
    assert_int_equal(asymreg_open(&o, &x, NULL), ASYMREG_EVERSION);
    late_ops.size = sizeof(late_ops);
    late_ops.get = NULL;
    o.transport = late_create();
    assert_int_equal(asymreg_open(&o, &x, NULL), -EINVAL);
    late_ops.get = get;
    late_ops.name = "sixteen-letters!";
    o.transport = late_create();
    assert_int_equal(asymreg_open(&o, &x, NULL), -EINVAL);
    late_ops.name = "late";
    /* Both sides must speak the same. */
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    o.transport = NULL;
    assert_int_equal(asymreg_open(&o, &x, NULL), 0);
    ssize_t n = asymreg_export(x, blob, sizeof(blob), NULL);
    assert_true(n > 0);
    struct asymreg_error err = {0};
    assert_int_equal(asymreg_import(c, 6, blob, (size_t)n, &err), ASYMREG_EUNREACH);
    assert_int_equal(err.code, ASYMREG_EUNREACH);
    assert_int_equal(err.pe, 6);
    assert_non_null(strstr(err.text, "local, not late"));
    asymreg_close(x);
}

/* A caller of an earlier version with a shorter struct: bytes behind it are not touched. */
static void short_capabilities(void **state)
{
    struct asymreg_transport_caps caps = {.size = offsetof(struct asymreg_transport_caps, amo8_ops),
                                          .amo8_ops = 77,
                                          .max_handle_bytes = 78};
    struct asymreg_transport *t;

    assert_int_equal(asymreg_local_create(NULL, &t, NULL), 0);
    assert_int_equal(t->ops->query(t, &caps), 0);
    assert_true(caps.flags & ASYMREG_CAP_PUT);
    assert_int_equal(caps.amo4_ops, ASYMREG_AMO_ALL);
    assert_int_equal(caps.amo8_ops, 77);
    assert_int_equal(caps.max_handle_bytes, 78);
    t->ops->destroy(t);
}

/* A transport that neither maps tables nor revokes: only a read of the table shows a removed
 * region.
 * */
static struct asymreg_transport_ops blind_ops;
static int n_gets;

static int blind_query(struct asymreg_transport *t, struct asymreg_transport_caps *caps)
{
    int rc = lower->query(t, caps);

    caps->flags &= ~ASYMREG_CAP_MAP;
    return rc;
}

static enum { FREE, HOLD_NEXT, HELD } hold; /* its next get waits until it is FREE again */

static int blind_get(struct asymreg_transport *t, struct asymreg_ep *ep, struct asymreg_rkey *rkey,
                     uint64_t addr, void *dst, size_t bytes, struct asymreg_mem *local,
                     struct asymreg_op *op)
{
    n_gets++;
    if (__atomic_load_n(&hold, __ATOMIC_ACQUIRE) == HOLD_NEXT) {
        __atomic_store_n(&hold, HELD, __ATOMIC_RELEASE);
        while (__atomic_load_n(&hold, __ATOMIC_ACQUIRE) == HELD)
            sched_yield();
    }
    return lower->get(t, ep, rkey, addr, dst, bytes, local, op);
}

static struct asymreg_context *blind_context(uint32_t flags)
{
    struct asymreg_local_opts lo = {.size = sizeof(lo), .flags = ASYMREG_LOCAL_CMA};
    struct asymreg_opts o = {.size = sizeof(o), .max_regions = 1000, .flags = flags};
    struct asymreg_context *x;

    assert_int_equal(asymreg_local_create(&lo, &o.transport, NULL), 0);
    lower = o.transport->ops;
    blind_ops = *lower;
    blind_ops.query = blind_query;
    blind_ops.get = blind_get;
    o.transport->ops = &blind_ops;
    assert_int_equal(asymreg_open(&o, &x, NULL), 0);
    return x;
}

static void fresh_looks_first(void **state)
{
    struct asymreg_context *owner = blind_context(0);
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    ssize_t n = asymreg_export(owner, blob, sizeof(blob), NULL);

    assert_true(n > 0);
    for (int fresh = 0; fresh < 2; fresh++) {
        struct asymreg_context *user = blind_context(fresh ? ASYMREG_FRESH : 0);
        struct asymreg_worker *me;
        struct asymreg_region r;
        asymreg_id a, b;

        memset(memory, 0, 100);
        assert_int_equal(asymreg_import(user, 9, blob, (size_t)n, NULL), 0);
        assert_int_equal(asymreg_worker_create(user, &me), 0);
        assert_int_equal(asymreg_register(owner, memory, 100, ASYMREG_RW, NULL, &a, NULL), 0);
        assert_int_equal(asymreg_put(me, 9, (uintptr_t)memory, ASYMREG_ANY, "1", 1), 0);
        /* Nothing has changed: one more read, or none. */
        n_gets = 0;
        assert_int_equal(asymreg_put(me, 9, (uintptr_t)memory, a, "2", 1), 0);
        assert_int_equal(n_gets, fresh);
        assert_int_equal(asymreg_resolve(me, 9, (uintptr_t)memory, ASYMREG_ANY, 100, 0, &r, NULL),
                         0);
        assert_int_equal(n_gets, 2 * fresh);
        /* Registered anew: with it the first look-up finds that, without it the old copy serves. */
        assert_int_equal(asymreg_unregister(owner, a), 0);
        assert_int_equal(asymreg_register(owner, memory, 50, ASYMREG_READ, NULL, &b, NULL), 0);
        assert_int_equal(asymreg_put(me, 9, (uintptr_t)memory, a, "3", 1),
                         fresh ? ASYMREG_ESTALE : 0);
        assert_int_equal(asymreg_put(me, 9, (uintptr_t)memory, ASYMREG_ANY, "4", 1),
                         fresh ? ASYMREG_EACCES : 0);
        assert_int_equal(memory[0], fresh ? '2' : '4');
        assert_int_equal(asymreg_resolve(me, 9, (uintptr_t)memory, ASYMREG_ANY, 1, 0, &r, NULL), 0);
        assert_int_equal(r.id, fresh ? b : a);
        assert_int_equal(asymreg_refresh(user, 9) > 0, !fresh);
        assert_int_equal(asymreg_put(me, 9, (uintptr_t)memory, a, "5", 1), ASYMREG_ESTALE);
        assert_int_equal(asymreg_unregister(owner, b), 0);
        assert_int_equal(asymreg_get(me, 9, (uintptr_t)memory, ASYMREG_ANY, blob, 1),
                         fresh ? ASYMREG_ESTALE : 0);
        asymreg_worker_destroy(me);
        asymreg_close(user);
        assert_int_equal(asymreg_export(owner, blob, sizeof(blob), NULL), n);
    }
    asymreg_close(owner);
}

/* Where a drain cannot wait, its error has the transport's reason. */
static void no_drain_without_map(void **state)
{
    struct asymreg_context *owner = blind_context(ASYMREG_DRAIN);
    struct asymreg_error err = {.code = 0};
    asymreg_id id;

    assert_int_equal(asymreg_register(owner, memory, 100, ASYMREG_RW, NULL, &id, NULL), 0);
    assert_int_equal(asymreg_unregister_drain(owner, id, 0, &err), ASYMREG_ENOTSUP);
    assert_non_null(strstr(err.text, "the kernel cannot take back a mapping"));
    assert_int_equal(asymreg_unregister(owner, id), 0); /* nothing had changed */
    asymreg_close(owner);
}

static void *refresh(void *user)
{
    return (void *)(intptr_t)asymreg_refresh(user, 9);
}

/* A slow refresh of one peer does not block registration or statistics. */
static void figures_do_not_wait(void **state)
{
    struct asymreg_context *owner = blind_context(0), *user = blind_context(0);
    struct asymreg_stats stats = {.size = sizeof(stats)};
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    ssize_t n = asymreg_export(owner, blob, sizeof(blob), NULL);
    void *changes;
    pthread_t thread;

    assert_true(n > 0);
    assert_int_equal(asymreg_import(user, 9, blob, (size_t)n, NULL), 0);
    assert_int_equal(asymreg_refresh(user, 9), 0);
    assert_int_equal(asymreg_register(owner, memory, 100, ASYMREG_RW, NULL, NULL, NULL), 0);
    alarm(30); /* ends the test, should one of them wait */
    hold = HOLD_NEXT;
    assert_int_equal(pthread_create(&thread, NULL, refresh, user), 0);
    while (__atomic_load_n(&hold, __ATOMIC_ACQUIRE) != HELD)
        sched_yield();
    assert_int_equal(asymreg_context_stats(user, &stats), 0);
    assert_int_equal(stats.n_refreshes, 0);
    assert_true(stats.read_bytes > 0);
    assert_int_equal(asymreg_register(user, memory, 100, ASYMREG_RW, NULL, NULL, NULL), 0);
    __atomic_store_n(&hold, FREE, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(thread, &changes), 0);
    alarm(0);
    assert_int_equal((intptr_t)changes, 1);
    assert_int_equal(asymreg_context_stats(user, &stats), 0);
    assert_int_equal(stats.n_refreshes, 1);
    asymreg_close(user);
    asymreg_close(owner);
}

/* Memory with an unusable descriptor is reached by CMA, without an error. */
static void no_error_on_success(void **state)
{
    char name[] = "/tmp/asymreg-XXXXXX", address[ASYMREG_MAX_ADDRESS_BYTES],
         handle[ASYMREG_MAX_HANDLE_BYTES];
    struct asymreg_mem_desc desc = {
        .size = sizeof(desc), .addr = 4096, .bytes = 100, .prot = ASYMREG_READ};
    struct asymreg_error err = {.code = 1};
    size_t n = sizeof(address), handle_bytes = sizeof(handle);
    const struct asymreg_transport_ops *ops;
    struct asymreg_transport *t;
    struct asymreg_rkey *rkey;
    struct asymreg_mem *mem;
    struct asymreg_ep *ep;
    int fd = mkstemp(name);

    assert_true(fd >= 0);
    close(fd);
    assert_true((desc.fd = open(name, O_WRONLY | O_CLOEXEC)) >= 0); /* which cannot be mapped */
    unlink(name);
    assert_int_equal(asymreg_local_create(NULL, &t, NULL), 0);
    ops = t->ops;
    assert_int_equal(ops->address(t, address, &n, &err), 0);
    assert_int_equal(ops->connect(t, address, n, &ep, &err), 0);
    assert_int_equal(ops->mem_reg(t, &desc, &mem, handle, &handle_bytes, &err), 0);
    assert_int_equal(ops->rkey_unpack(t, ep, handle, handle_bytes, 4096, 100, &rkey, &err), 0);
    assert_int_equal(err.code, 1);
    ops->rkey_release(t, ep, rkey);
    ops->disconnect(t, ep);
    assert_int_equal(ops->mem_dereg(t, mem), 0);
    ops->destroy(t);
    close(desc.fd);
}

/* Without CMA memory needs a descriptor. */
static void only_descriptors(void **state)
{
    struct asymreg_local_opts lo = {.size = sizeof(lo), .flags = ASYMREG_LOCAL_SHM};
    struct asymreg_mem_desc desc = {
        .size = sizeof(desc), .addr = 4096, .bytes = 100, .prot = ASYMREG_READ, .fd = -1};
    char handle[ASYMREG_MAX_HANDLE_BYTES];
    struct asymreg_error err = {.code = 0};
    struct asymreg_transport *t;
    struct asymreg_mem *mem;
    size_t n = sizeof(handle);

    assert_int_equal(asymreg_local_create(&lo, &t, NULL), 0);
    assert_int_equal(t->ops->mem_reg(t, &desc, &mem, handle, &n, &err), ASYMREG_ENOTSUP);
    assert_non_null(strstr(err.text, "CMA, which is off"));
    t->ops->destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        TEST(pieces_and_patience),
        TEST(own_memory_is_made_known),
        TEST(some_atomics),
        TEST(kinds_of_memory),
        TEST(stale_handles_are_replaced),
        TEST(stale_at_a_flush),
        TEST(replaced_keys_are_released),
        TEST(a_peer_that_dies),
        TEST(bad_tables_of_operations),
        TEST(short_capabilities),
        cmocka_unit_test(fresh_looks_first),
        cmocka_unit_test(no_drain_without_map),
        cmocka_unit_test(figures_do_not_wait),
        cmocka_unit_test(no_error_on_success),
        cmocka_unit_test(only_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
