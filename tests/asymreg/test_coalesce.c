/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which transport registration a region gets when the context coalesces. The transport is the one
 * for one node, changed to demand registration: it records each registration and, like an adapter,
 * refuses memory that it cannot read.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include <asymreg.h>

#include "register.h"

#define PE    1u
#define CHUNK 65536u
#define PAGE  4096u

static const struct asymreg_transport_ops *under;
static struct asymreg_transport_ops ops;
static struct asymreg_mem_desc newest; /* what was registered last */
static uint64_t longest = UINT64_MAX;  /* the transport refuses what is longer */
static struct asymreg_context *c;
static struct asymreg_worker *w;
static char *arena; /* four chunks, aligned, between two pages that cannot be accessed */

static int query(struct asymreg_transport *t, struct asymreg_transport_caps *caps)
{
    int rc = under->query(t, caps);

    caps->flags &= ~ASYMREG_CAP_WHOLE_SPACE;
    return rc;
}

static int mem_reg(struct asymreg_transport *t, const struct asymreg_mem_desc *desc,
                   struct asymreg_mem **mem, void *handle, size_t *n, struct asymreg_error *err)
{
    if (desc->flags & ASYMREG_MEM_TABLE)
        return under->mem_reg(t, desc, mem, handle, n, err);
    if (desc->bytes > longest)
        return ASYMREG_EFAULT;
    for (uint64_t at = desc->addr & ~(uint64_t)(PAGE - 1); at < desc->addr + desc->bytes;
         at += PAGE) {
        char byte;
        struct iovec to = {.iov_base = &byte, .iov_len = 1},
                     from = {.iov_base = (void *)(uintptr_t)at, .iov_len = 1};
        if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 1)
            return ASYMREG_EFAULT;
    }
    newest = *desc;
    return under->mem_reg(t, desc, mem, handle, n, err);
}

static int no_memory; /* the context's allocator fails */

static void *realloc_or_fail(void *ctx, void *ptr, size_t bytes)
{
    return no_memory ? NULL : realloc(ptr, bytes);
}

static void free_block(void *ctx, void *ptr)
{
    free(ptr);
}

static void open_with(uint64_t coalesce_bytes, uint32_t max_segments)
{
    static const struct asymreg_allocator allocator = {realloc_or_fail, free_block, NULL};
    struct asymreg_local_opts lo = {.size = sizeof(lo), .flags = ASYMREG_LOCAL_CMA};
    struct asymreg_opts o = {.size = sizeof(o),
                             .max_regions = 5000,
                             .max_segments = max_segments,
                             .allocator = &allocator,
                             .coalesce_bytes = coalesce_bytes};
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    ssize_t n;

    assert_int_equal(asymreg_local_create(&lo, &o.transport, NULL), 0);
    under = o.transport->ops;
    ops = *under;
    ops.query = query;
    ops.mem_reg = mem_reg;
    o.transport->ops = &ops;
    assert_int_equal(asymreg_open(&o, &c, NULL), 0);
    n = asymreg_export(c, blob, sizeof(blob), NULL);
    assert_true(n > 0);
    assert_int_equal(asymreg_import(c, PE, blob, (size_t)n, NULL), 0);
    assert_int_equal(asymreg_worker_create(c, &w), 0);
}

static void close_all(void)
{
    asymreg_worker_destroy(w);
    asymreg_close(c);
}

static int setup(void **state)
{
    char *p = mmap(NULL, 8 * CHUNK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(p != MAP_FAILED);
    arena = p + (CHUNK - (uintptr_t)p % CHUNK) % CHUNK + CHUNK;
    assert_int_equal(mprotect(arena, 4 * CHUNK, PROT_READ | PROT_WRITE), 0);
    munmap(p, (size_t)(arena - PAGE - p));
    munmap(arena + 4 * CHUNK + PAGE, (size_t)(p + 8 * CHUNK - (arena + 4 * CHUNK + PAGE)));
    longest = UINT64_MAX;
    open_with(CHUNK, 0);
    return 0;
}

static int teardown(void **state)
{
    close_all();
    munmap(arena - PAGE, 4 * CHUNK + 2 * PAGE);
    return 0;
}

static asymreg_id reg(void *p, size_t bytes, uint32_t prot, uint32_t flags)
{
    asymreg_id id;

    assert_int_equal(asymreg_register(c, p, bytes, prot, FLAGS(flags), &id, NULL), 0);
    return id;
}

static struct asymreg_stats stats(void)
{
    struct asymreg_stats st = {.size = sizeof(st)};

    assert_int_equal(asymreg_context_stats(c, &st), 0);
    return st;
}

static void expect(uint64_t segments, uint64_t registrations)
{
    struct asymreg_stats st = stats();

    assert_int_equal(st.n_segments, segments);
    assert_int_equal(st.n_registrations, registrations);
}

static void expect_newest(const char *from, uint64_t bytes, uint32_t prot)
{
    assert_int_equal(newest.addr, (uintptr_t)from);
    assert_int_equal(newest.bytes, bytes);
    assert_int_equal(newest.prot, prot);
}

/* A peer reaches the region: its first byte and its last. */
static void reached(char *p, size_t bytes, asymreg_id id)
{
    char byte = (char)((uintptr_t)p / 3 | 1);

    assert_int_equal(asymreg_put(w, PE, (uintptr_t)p, id, &byte, 1), 0);
    assert_int_equal(asymreg_put(w, PE, (uintptr_t)p + bytes - 1, id, &byte, 1), 0);
    assert_int_equal(p[0], byte);
    assert_int_equal(p[bytes - 1], byte);
}

static void neighbours_share(void **state)
{
    enum { N = 1000 };
    static asymreg_id ids[N];

    for (int i = 0; i < N; i++)
        ids[i] = reg(arena + 100 + i * 60, 48, ASYMREG_RW, 0);
    expect(1, 1);
    expect_newest(arena, CHUNK, ASYMREG_RW);
    assert_int_equal(stats().segment_bytes, CHUNK);
    assert_int_equal(stats().n_regions, N);
    for (int i = 0; i < N; i++) {
        reached(arena + 100 + i * 60, 48, ids[i]);
        assert_int_equal(
            asymreg_put(w, PE, (uintptr_t)arena + 100 + (uint64_t)i * 60 + 47, ids[i], "xy", 2),
            ASYMREG_ERANGE);
    }
    assert_int_equal(asymreg_put(w, PE, (uintptr_t)arena + 99, 0, "x", 1),
                     ASYMREG_ENOREGION); /* in the segment, in no region */
    for (int i = 1; i < N; i++) {
        assert_int_equal(asymreg_unregister(c, ids[i]), 0);
        expect(1, 1);
    }
    reached(arena + 100, 48, ids[0]);
    assert_int_equal(asymreg_unregister(c, ids[0]), 0); /* the last one */
    expect(0, 1);
    assert_int_equal(stats().segment_bytes, 0);
    assert_int_equal(asymreg_put(w, PE, (uintptr_t)arena + 100, ids[0], "x", 1), ASYMREG_ESTALE);
    ids[0] = reg(arena + 100, 48, ASYMREG_RW, 0);
    expect(1, 2);
    reached(arena + 100, 48, ids[0]);
}

static void one_chunk_one_segment(void **state)
{
    asymreg_id a, b, across;

    a = reg(arena + 10, 10, ASYMREG_RW, 0);
    b = reg(arena + 2 * CHUNK, 2 * CHUNK, ASYMREG_RW, 0); /* ends with its chunk */
    expect(2, 2);
    expect_newest(arena + 2 * CHUNK, 2 * CHUNK, ASYMREG_RW);
    /* Across the end of the first: around both its chunks, up to the third, and in place of the
     * first. */
    across = reg(arena + CHUNK - 5, 10, ASYMREG_RW, 0);
    expect(3, 3);
    expect_newest(arena, 2 * CHUNK, ASYMREG_RW);
    reached(arena + 10, 10, a);
    reached(arena + CHUNK - 5, 10, across);
    reached(arena + 2 * CHUNK, 2 * CHUNK, b);
    assert_int_equal(asymreg_unregister(c, a),
                     0); /* alone in the first, which gets no further region */
    expect(2, 3);
    a = reg(arena + 10, 10, ASYMREG_RW, 0);
    expect(2, 3);
    reached(arena + 10, 10, a);
    assert_int_equal(asymreg_unregister(c, a), 0);
    assert_int_equal(asymreg_unregister(c, across), 0);
    expect(1, 3);
    assert_int_equal(asymreg_unregister(c, b), 0);
    expect(0, 3);
    reg(arena + CHUNK, 8, ASYMREG_RW, 0);
    reg(arena, 8, ASYMREG_RW, 0);
    reg(arena + CHUNK + 8, 8, ASYMREG_RW, 0); /* the first segment is still there */
    expect(2, 5);
}

/* A region that begins at the last byte of a segment, and one that ends at the first byte. */
static void touches_other_segments(void **state)
{
    asymreg_id a, b;

    reg(arena, 8, ASYMREG_RW, 0);
    a = reg(arena + CHUNK - 1, 2, ASYMREG_RW, 0);
    expect_newest(arena, 2 * CHUNK, ASYMREG_RW);
    reg(arena + 3 * CHUNK + 8, 8, ASYMREG_RW, 0);
    b = reg(arena + 3 * CHUNK - 1, 2, ASYMREG_RW, 0);
    expect_newest(arena + 2 * CHUNK, 2 * CHUNK, ASYMREG_RW);
    reached(arena + CHUNK - 1, 2, a);
    reached(arena + 3 * CHUNK - 1, 2, b);
}

/* Heap and stack are memory around a region like any other; the kernel's own mappings are not. */
static void named_mappings(void **state)
{
    char stack[8], *heap = sbrk(2 * PAGE);
    const struct {
        const char *name;
        char *p;
        int alone;
    } t[] = {{"heap", heap, 0},
             {"stack", stack, 0},
             {"vdso", (char *)(uintptr_t)getauxval(AT_SYSINFO_EHDR), 1}};

    assert_true(heap != (char *)-1);
    for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
        if (!t[i].p)
            continue; /* without a vdso */
        print_message("%s\n", t[i].name);
        reg(t[i].p, 8, ASYMREG_READ, 0);
        assert_true((newest.bytes == 8) == t[i].alone);
    }
}

static void guard_pages_stay_out(void **state)
{
    asymreg_id id;

    assert_int_equal(mprotect(arena + 4 * PAGE, PAGE, PROT_NONE), 0);
    assert_int_equal(munmap(arena + 8 * PAGE, PAGE), 0);
    reg(arena + PAGE, 8, ASYMREG_RW, 0);
    expect_newest(arena, 4 * PAGE, ASYMREG_RW);
    reg(arena + 6 * PAGE, 8, ASYMREG_RW, 0);
    expect_newest(arena + 5 * PAGE, 3 * PAGE, ASYMREG_RW);
    reg(arena + 9 * PAGE, 8, ASYMREG_RW, 0);
    expect_newest(arena + 9 * PAGE, CHUNK - 9 * PAGE, ASYMREG_RW);
    reg(arena + 4 * CHUNK - 1, 1, ASYMREG_RW, 0);
    expect_newest(arena + 3 * CHUNK, CHUNK, ASYMREG_RW); /* not the guard page behind it */
    expect(4, 4);
    /* The transport refuses a region that itself includes such a page. */
    assert_int_equal(asymreg_register(c, arena + 8 * PAGE - 8, 16, ASYMREG_RW, NULL, &id, NULL),
                     ASYMREG_EFAULT);
    assert_int_equal(asymreg_register(c, arena + 4 * PAGE, 16, ASYMREG_READ, NULL, &id, NULL),
                     ASYMREG_EFAULT);
    expect(4, 4);
    mmap(arena + 8 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
         -1, 0);
}

static void read_only_neighbours(void **state)
{
    asymreg_id ro, rw;

    assert_int_equal(mprotect(arena + PAGE, PAGE, PROT_READ), 0);
    rw = reg(arena, 8, ASYMREG_RW, 0);
    expect_newest(arena, PAGE, ASYMREG_RW); /* what may not be written is left out */
    ro = reg(arena + PAGE, 8, ASYMREG_READ, 0);
    expect_newest(arena + PAGE, CHUNK - PAGE, ASYMREG_READ); /* what may be is not, for reading */
    reached(arena, 8, rw);
    char byte = 1;
    assert_int_equal(asymreg_get(w, PE, (uintptr_t)arena + PAGE, ro, &byte, 1), 0);
    assert_int_equal(byte, 0);
    assert_int_equal(asymreg_put(w, PE, (uintptr_t)arena + PAGE, ro, "x", 1), ASYMREG_EACCES);
    /* A writable region in there gets the writable memory around it. The other one keeps its
     * segment. */
    rw = reg(arena + 2 * PAGE, 8, ASYMREG_RW, 0);
    expect_newest(arena + 2 * PAGE, CHUNK - 2 * PAGE, ASYMREG_RW);
    expect(3, 3);
    reached(arena + 2 * PAGE, 8, rw);
    assert_int_equal(asymreg_get(w, PE, (uintptr_t)arena + PAGE, ro, &byte, 1), 0);
    reg(arena + 3 * PAGE, 8, ASYMREG_READ, 0);
    expect(3, 3);
    assert_int_equal(asymreg_unregister(c, ro), 0);
    expect(2, 3);
    assert_int_equal(mprotect(arena + PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
}

/* A segment has its regions' permissions, and no more. */
static void permissions_grow(void **state)
{
    asymreg_id a, b;

    a = reg(arena, 8, ASYMREG_READ, 0);
    expect_newest(arena, CHUNK, ASYMREG_READ);
    b = reg(arena + 8, 8, ASYMREG_WRITE, 0);
    expect_newest(arena, CHUNK, ASYMREG_RW);
    reg(arena + 16, 8, ASYMREG_READ, 0);
    reg(arena + 24, 8, ASYMREG_RW, 0);
    expect(2, 2);
    reg(arena + 32, 8, ASYMREG_ATOMIC, 0);
    expect_newest(arena, CHUNK, ASYMREG_ALL);
    expect(3, 3);
    reached(arena + 8, 8, b);
    assert_int_equal(asymreg_put(w, PE, (uintptr_t)arena, a, "x", 1), ASYMREG_EACCES);
    assert_int_equal(asymreg_unregister(c, a), 0);
    expect(2, 3);
}

static void alone(void **state)
{
    asymreg_id a, b, d;

    a = reg(arena, 8, ASYMREG_RW, 0);
    b = reg(arena + 8, 8, ASYMREG_RW, ASYMREG_ALONE);
    expect(2, 2);
    expect_newest(arena + 8, 8, ASYMREG_RW);
    d = reg(arena + 16, 8, ASYMREG_RW, 0);
    expect(2, 2);
    reached(arena, 8, a);
    reached(arena + 8, 8, b);
    reached(arena + 16, 8, d);
    assert_int_equal(asymreg_unregister(c, b), 0);
    expect(1, 2);
    b = reg(arena + 8, 8, ASYMREG_RW, 0);
    expect(1, 2);
    reached(arena + 8, 8, b);
}

static void what_the_user_made_comes_first(void **state)
{
    asymreg_id a, b, id;

    a = reg(arena, 8, ASYMREG_RW, 0);
    assert_int_equal(
        asymreg_register(c, arena + 100, 1000, ASYMREG_RW, FLAGS(ASYMREG_SEGMENT), NULL, NULL), 0);
    expect(2, 2);
    b = reg(arena + 200, 8, ASYMREG_RW, 0);
    expect(2, 2);
    reached(arena, 8, a);
    reached(arena + 200, 8, b);
    assert_int_equal(asymreg_segment_remove(c, arena + 100), ASYMREG_EBUSY);
    assert_int_equal(asymreg_register(c, arena + 96, 8, ASYMREG_RW, NULL, &id, NULL),
                     ASYMREG_EOVERLAP);
    assert_int_equal(asymreg_register(c, arena + 1096, 8, ASYMREG_RW, NULL, &id, NULL),
                     ASYMREG_ERANGE);
    /* Next to it: what is left of the chunk. */
    reg(arena + 1100, 8, ASYMREG_RW, 0);
    expect_newest(arena + 1100, CHUNK - 1100, ASYMREG_RW);
    reg(arena + 50, 8, ASYMREG_RW, 0);
    expect_newest(arena, 100, ASYMREG_RW);
    assert_int_equal(asymreg_unregister(c, b), 0);
    assert_int_equal(asymreg_segment_remove(c, arena), ASYMREG_ENOREGION); /* an automatic one */
    assert_int_equal(asymreg_segment_remove(c, arena + 100), 0);
    assert_int_equal(asymreg_register(c, arena, 8, ASYMREG_RW, FLAGS(ASYMREG_SEGMENT), NULL, NULL),
                     ASYMREG_EOVERLAP); /* a region is there */
}

/* A segment that replaces one with fewer permissions also ends where the next one begins, whether
 * the new region ends with the old segment or inside it. */
static void grows_up_to_the_next(void **state)
{
    assert_int_equal(
        asymreg_register(c, arena + 4 * PAGE, PAGE, ASYMREG_RW, FLAGS(ASYMREG_SEGMENT), NULL, NULL),
        0);
    reg(arena, 8, ASYMREG_READ, 0);
    expect_newest(arena, 4 * PAGE, ASYMREG_READ);
    reg(arena + 4 * PAGE - 8, 8, ASYMREG_WRITE, 0);
    expect_newest(arena, 4 * PAGE, ASYMREG_RW);
    reg(arena + 8, 8, ASYMREG_ATOMIC, 0);
    expect_newest(arena, 4 * PAGE, ASYMREG_ALL);
    reg(arena + 16, 8, ASYMREG_ALL, 0); /* shares the new one */
    expect(4, 4);
    /* One that begins at the last byte of a chunk. */
    assert_int_equal(asymreg_register(c, arena + 2 * CHUNK - 1, 2, ASYMREG_RW,
                                      FLAGS(ASYMREG_SEGMENT), NULL, NULL),
                     0);
    reg(arena + CHUNK, 8, ASYMREG_RW, 0);
    expect_newest(arena + CHUNK, CHUNK - 1, ASYMREG_RW);
}

static void refused_in_the_large(void **state)
{
    asymreg_id id;

    longest = 1000;
    id = reg(arena + 5, 1000, ASYMREG_RW, 0);
    expect_newest(arena + 5, 1000, ASYMREG_RW);
    reached(arena + 5, 1000, id);
    assert_int_equal(asymreg_register(c, arena + 2000, 1001, ASYMREG_RW, NULL, &id, NULL),
                     ASYMREG_EFAULT);
    expect(1, 1);
}

static void remapped(void **state)
{
    asymreg_id a, b;

    a = reg(arena, 8, ASYMREG_RW, 0);
    mmap(arena + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
         0);
    b = reg(arena + PAGE, 8, ASYMREG_RW, ASYMREG_REMAPPED);
    expect(2, 2);
    asymreg_id other = reg(arena + CHUNK, 8, ASYMREG_RW, ASYMREG_REMAPPED); /* concerns nobody */
    expect(3, 3);
    assert_int_equal(asymreg_unregister(c, other), 0);
    reached(arena, 8, a);
    reached(arena + PAGE, 8, b);
    assert_int_equal(asymreg_unregister(c, a), 0);
    expect(1, 3);
    reg(arena + PAGE + 8, 8, ASYMREG_RW, 0); /* shares the new one */
    expect(1, 3);
}

static void whole_mappings(void **state)
{
    close_all();
    open_with(ASYMREG_COALESCE_MAPPING, 0);
    for (int i = 0; i < 100; i++)
        reg(arena + i * (PAGE / 2 + 7), 8, ASYMREG_RW, 0);
    expect(1, 1);
    expect_newest(arena, 4 * CHUNK, ASYMREG_RW);
}

/* The last region of a segment is unregistered, and the segment with it, or neither. */
static void unregister_without_memory(void **state)
{
    enum { N = 500 };
    char *p = mmap(NULL, N * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int n_failed = 0;

    assert_true(p != MAP_FAILED);
    close_all();
    open_with(PAGE, 0);
    /* More regions than segments: their indexes need memory at other times. */
    for (int i = 0; i < 100; i++)
        assert_int_equal(asymreg_register(c, arena + 8 * i, 8, ASYMREG_RW, NULL, NULL, NULL), 0);
    for (int i = 0; i < N; i++) {
        char *at = p + (size_t)i * PAGE + 100;
        asymreg_id id;
        int rc;

        assert_int_equal(asymreg_register(c, at, 8, ASYMREG_RW, NULL, &id, NULL), 0);
        no_memory = 1;
        rc = asymreg_unregister(c, id);
        no_memory = 0;
        if (rc == 0) {
            assert_int_equal(stats().n_segments, i + 1);
            assert_int_equal(asymreg_register(c, at, 8, ASYMREG_RW, NULL, &id, NULL), 0);
        } else {
            assert_int_equal(rc, -ENOMEM);
            n_failed++;
        }
        reached(at, 8, id);
        assert_int_equal(stats().n_segments, i + 2);
    }
    assert_true(n_failed > 0);
    munmap(p, N * PAGE);
}

static void options(void **state)
{
    struct asymreg_opts o = {.size = sizeof(o), .coalesce_bytes = 3 * PAGE};
    struct asymreg_context *x;
    asymreg_id id;

    assert_int_equal(asymreg_open(&o, &x, NULL), -EINVAL);
    close_all();
    open_with(1, 3); /* raised to a page */
    for (int i = 0; i < 3; i++)
        reg(arena + (size_t)i * PAGE, 8, ASYMREG_RW, 0);
    expect_newest(arena + 2 * PAGE, PAGE, ASYMREG_RW);
    assert_int_equal(asymreg_register(c, arena + 3 * PAGE, 8, ASYMREG_RW, NULL, &id, NULL),
                     ASYMREG_EFULL);
    reg(arena + 2 * PAGE + 8, 8, ASYMREG_RW, 0);
    expect(3, 3);
    close_all();
    open_with(0, 0); /* off */
    for (int i = 0; i < 10; i++)
        reg(arena + i * 8, 8, ASYMREG_RW, 0);
    expect(10, 10);
}

/* Many threads register and unregister what shares segments. */
static void *come_and_go(void *arg)
{
    unsigned int seed = (unsigned int)(uintptr_t)arg;
    asymreg_id ids[16] = {0};

    for (int i = 0; i < 2000; i++) {
        size_t k = (size_t)rand_r(&seed) % 16;
        if (ids[k]) {
            if (asymreg_unregister(c, ids[k]) != 0)
                return arg;
            ids[k] = 0;
        } else if (asymreg_register(c, arena + k * (CHUNK / 5) + (uintptr_t)arg * 16, 16,
                                    k % 3 ? ASYMREG_RW : ASYMREG_READ, NULL, &ids[k], NULL) != 0) {
            return arg;
        }
    }
    for (size_t k = 0; k < 16; k++)
        if (ids[k] && asymreg_unregister(c, ids[k]) != 0)
            return arg;
    return NULL;
}

static void from_many_threads(void **state)
{
    pthread_t threads[4];
    void *failed;

    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    struct asymreg_stats st = stats();
    assert_int_equal(st.n_segments, 0);
    assert_int_equal(st.segment_bytes, 0);
    assert_int_equal(st.n_regions, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        TEST(neighbours_share),
        TEST(one_chunk_one_segment),
        TEST(touches_other_segments),
        TEST(named_mappings),
        TEST(guard_pages_stay_out),
        TEST(read_only_neighbours),
        TEST(permissions_grow),
        TEST(alone),
        TEST(what_the_user_made_comes_first),
        TEST(grows_up_to_the_next),
        TEST(refused_in_the_large),
        TEST(remapped),
        TEST(whole_mappings),
        TEST(unregister_without_memory),
        TEST(options),
        TEST(from_many_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
