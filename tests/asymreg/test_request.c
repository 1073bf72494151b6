/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests, fences and atomics by type: over a transport that completes nothing at once (late.h),
 * and over shared memory, which completes everything at once. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "late.h"

#define PE 5

static uint64_t at(size_t offset)
{
    return (uintptr_t)memory + offset;
}

static int in_queue(void)
{
    return ((const struct late *)(const void *)c_transport)->n;
}

static void expose(void)
{
    assert_int_equal(asymreg_register(c, memory, sizeof(memory), ASYMREG_ALL, NULL, NULL, NULL), 0);
}

/* Many at once, each with its own result; the longest in pieces. */
static void requests_end_by_themselves(void **state)
{
    static char out[3][2500], in[2500];
    struct asymreg_req r[4];
    int n_pending = 0;

    expose();
    for (int i = 0; i < 3; i++) {
        memset(out[i], 'a' + i, sizeof(out[i]));
        assert_int_equal(
            asymreg_put_nb(w, PE, at(3000 * (size_t)i), 0, out[i], i ? 10 : 2500, &r[i]), 0);
    }
    assert_true(in_queue() > 0);
    while (asymreg_req_test(w, &r[2], NULL) == ASYMREG_PENDING)
        n_pending++;
    assert_true(n_pending > 0);
    assert_memory_equal(memory + 6000, out[2], 10);
    for (int i = 0; i < 3; i++)
        assert_int_equal(asymreg_req_wait(w, &r[i], NULL), 0);
    assert_memory_equal(memory, out[0], 2500);
    assert_int_equal(asymreg_get_nb(w, PE, at(0), 0, in, 2500, &r[3]), 0);
    assert_int_equal(asymreg_req_wait(w, &r[3], NULL), 0);
    assert_memory_equal(in, out[0], 2500);
    assert_int_equal(asymreg_req_test(w, &r[3], NULL), 0); /* again */
    assert_int_equal(asymreg_put_nb(w, PE, at(0), 0, out[0], 0, &r[3]), 0);
    assert_int_equal(asymreg_req_test(w, &r[3], NULL), 0); /* no bytes */
}

/* A flush includes operations with requests. */
static void a_flush_completes_requests(void **state)
{
    struct asymreg_req r[2];
    int before;

    expose();
    assert_int_equal(asymreg_put_nb(w, PE, at(0), 0, "first", 5, &r[0]), 0);
    assert_int_equal(asymreg_put_nb(w, PE, at(5), 0, "second", 6, NULL), 0);
    assert_int_equal(asymreg_put_nb(w, PE, at(11), 0, "third", 5, &r[1]), 0);
    assert_int_equal(asymreg_flush(w, PE), 0);
    assert_memory_equal(memory, "firstsecondthird", 16);
    before = n_progress;
    assert_int_equal(asymreg_req_test(w, &r[1], NULL), 0);
    assert_int_equal(asymreg_req_test(w, &r[0], NULL), 0);
    assert_int_equal(n_progress, before);
}

/* The error of one operation among others has its name, and belongs to no other call. */
static void errors_name_the_operation(void **state)
{
    static char other[100];
    struct asymreg_req r[3];
    struct asymreg_error err = {0};
    char text[100];
    asymreg_id id;

    expose();
    assert_int_equal(asymreg_register(c, other, 100, ASYMREG_RW, NULL, &id, NULL), 0);
    assert_int_equal(asymreg_put_nb(w, PE, at(0), 0, "a", 1, &r[0]), 0);
    assert_int_equal(asymreg_put_nb(w, PE, (uintptr_t)other + 8, id, "bc", 2, &r[1]), 0);
    assert_int_equal(asymreg_get_nb(w, PE, at(0), 0, text, 1, &r[2]), 0);
    assert_int_equal(asymreg_unregister(c, id), 0); /* while they are in flight */
    assert_int_equal(asymreg_flush(w, PE), 0);
    assert_int_equal(asymreg_req_wait(w, &r[0], &err), 0);
    assert_int_equal(asymreg_req_wait(w, &r[2], &err), 0);
    assert_int_equal(asymreg_req_wait(w, &r[1], &err), ASYMREG_ESTALE);
    snprintf(text, sizeof(text),
             "put 2 bytes to %#llx of PE 5: ", (unsigned long long)(uintptr_t)other + 8);
    assert_non_null(strstr(err.text, text));
    assert_true(err.code == ASYMREG_ESTALE && err.pe == PE && err.bytes == 2 &&
                err.addr == (uintptr_t)other + 8);
    /* The copy of the table is new. */
    assert_int_equal(asymreg_put_nb(w, PE, (uintptr_t)other + 8, 0, "bc", 2, &r[1]),
                     ASYMREG_ENOREGION);
    assert_int_equal(asymreg_req_wait(w, &r[1], &err), ASYMREG_ENOREGION);
    assert_non_null(strstr(err.text, "no region has that address"));
    assert_int_equal(asymreg_get_nb(w, PE + 1, at(0), 0, text, 1, &r[1]), ASYMREG_ENOPEER);
    assert_int_equal(asymreg_req_test(w, &r[1], &err), ASYMREG_ENOPEER);
    assert_true(err.pe == PE + 1 && strstr(err.text, "get 1 bytes from "));
    assert_int_equal(asymreg_put_nb(w, PE, at(0), 0, NULL, 1, &r[1]), -EINVAL);
    assert_int_equal(asymreg_req_test(w, &r[1], NULL), -EINVAL);
}

/* The peer dies, or is forgotten, while operations are in flight. */
static void requests_to_a_peer_that_goes(void **state)
{
    struct asymreg_error err = {0};
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    struct asymreg_req r[3];
    ssize_t n;

    expose();
    assert_int_equal(asymreg_put_nb(w, PE, at(0), 0, "a", 1, &r[0]), 0);
    assert_int_equal(asymreg_put_nb(w, PE, at(3), 0, "d", 1, &r[2]), 0);
    leaves = 1;
    assert_int_equal(asymreg_forget(c, PE), 0);
    leaves = 0;
    assert_int_equal(asymreg_req_wait(w, &r[2], &err), ASYMREG_EPEER); /* of no peer now */
    n = asymreg_export(c, blob, sizeof(blob), NULL);
    assert_int_equal(asymreg_import(c, PE, blob, (size_t)n, NULL), 0);
    assert_int_equal(asymreg_put_nb(w, PE, at(1), 0, "b", 1, &r[1]), 0); /* to another */
    assert_int_equal(asymreg_req_wait(w, &r[0], &err), ASYMREG_EPEER);
    assert_int_equal(asymreg_req_wait(w, &r[1], &err), 0);
    assert_true(memory[0] == 0 && memory[1] == 'b');
    assert_int_equal(asymreg_put_nb(w, PE, at(2), 0, "c", 1, &r[0]), 0);
    dead = 1;
    assert_int_equal(asymreg_req_wait(w, &r[0], &err), ASYMREG_EPEER);
    assert_non_null(strstr(err.text, "of PE 5: the peer has gone"));
    assert_int_equal(asymreg_put(w, PE, at(0), 0, "a", 1), ASYMREG_EPEER);
}

/* A transport that fails as a whole ends each operation with its error, and each wait. */
static void progress_fails(void **state)
{
    struct asymreg_error err = {.code = 0};
    struct asymreg_req r[2];

    expose();
    assert_int_equal(asymreg_put_nb(w, PE, at(0), 0, "a", 1, &r[0]), 0);
    assert_int_equal(asymreg_put_nb(w, PE, at(1), 0, "b", 1, &r[1]), 0);
    assert_int_equal(asymreg_put_nb(w, PE, at(2), 0, "c", 1, NULL), 0);
    progress_error = ASYMREG_ETRANSPORT;
    assert_int_equal(asymreg_req_test(w, &r[0], &err), ASYMREG_ETRANSPORT);
    assert_true(err.pe == PE && err.addr == at(0) && err.bytes == 1);
    assert_non_null(strstr(err.text, "put 1 bytes to"));
    assert_int_equal(asymreg_progress(w), ASYMREG_ETRANSPORT);
    assert_int_equal(asymreg_req_wait(w, &r[1], NULL), ASYMREG_ETRANSPORT);
    assert_int_equal(asymreg_flush(w, PE), ASYMREG_ETRANSPORT);
    assert_int_equal(asymreg_wait_until(w, memory, 8, ASYMREG_CMP_EQ, UINT64_MAX, 0),
                     ASYMREG_ETRANSPORT);
}

/* A loop of tests without a timeout progresses operations. */
static void tests_progress(void **state)
{
    int before = n_progress;

    assert_int_equal(asymreg_wait_until(w, memory, 8, ASYMREG_CMP_EQ, UINT64_MAX, 0),
                     ASYMREG_ETIMEDOUT);
    assert_int_equal(n_progress, before + 1);
    assert_int_equal(asymreg_wait_until(w, memory, 8, ASYMREG_CMP_EQ, 0, 0), 0);
}

/* A transport that keeps the order by itself completes nothing for a fence. */
static void fences(void **state)
{
    struct asymreg_req r;

    expose();
    assert_int_equal(asymreg_put(w, PE, at(0), 0, "a", 1), 0); /* the table is read */
    assert_int_equal(asymreg_put_nb(w, PE, at(0), 0, "a", 1, &r), 0);
    assert_int_equal(asymreg_fence(w, PE), 0);
    assert_int_equal(in_queue(), more_caps ? 1 : 0);
    assert_int_equal(asymreg_put_nb(w, PE, at(0), 0, "b", 1, NULL), 0);
    assert_int_equal(asymreg_fence(w, ASYMREG_ALL_PEERS), 0);
    assert_int_equal(in_queue(), more_caps ? 2 : 0);
    assert_int_equal(asymreg_flush(w, PE), 0);
    assert_int_equal(memory[0], 'b');
    assert_int_equal(asymreg_req_test(w, &r, NULL), 0);
    assert_int_equal(asymreg_fence(w, PE + 1), ASYMREG_ENOPEER);
}

static int ordered_setup(void **state)
{
    more_caps = ASYMREG_CAP_ORDERED;
    return setup(state);
}

static int ordered_teardown(void **state)
{
    more_caps = 0;
    return teardown(state);
}

/* Every wait of the core asks the transport for its event, whatever that answers. */
static void waits_use_the_event(void **state)
{
    struct asymreg_req r;
    char text[2];

    expose();
    assert_int_equal(asymreg_put(w, PE, at(0), 0, "a", 1), 0);
    for (int i = 0; i < 5; i++) {
        n_arms = 0;
        arms_needed = 4;
        switch (i) {
        case 0: assert_int_equal(asymreg_get(w, PE, at(0), 0, text, 1), 0); break;
        case 1:
            assert_int_equal(asymreg_put_nb(w, PE, at(0), 0, "a", 1, NULL), 0);
            assert_int_equal(asymreg_flush(w, PE), 0);
            break;
        case 2:
            assert_int_equal(asymreg_put_nb(w, PE, at(0), 0, "b", 1, &r), 0);
            assert_int_equal(asymreg_req_wait(w, &r, NULL), 0);
            break;
        case 3: /* the table changes, and is read again */
            assert_int_equal(asymreg_register(c, text, 2, ASYMREG_RW, NULL, NULL, NULL), 0);
            assert_true(asymreg_refresh(c, PE) > 0);
            break;
        default: /* the time ends the wait, after at least one sleep */
            assert_int_equal(asymreg_wait_until(w, memory, 8, ASYMREG_CMP_EQ, UINT64_MAX, 100),
                             ASYMREG_ETIMEDOUT);
        }
        assert_true(n_arms >= (i == 4 ? 1 : 4));
    }
}

/* Each atomic by type, on shared memory: its result, and the value before. */
#define ATOMICS(bits)                                                                              \
    static void atomics_##bits(struct asymreg_worker *me, uint##bits##_t *word)                    \
    {                                                                                              \
        const uint##bits##_t top = UINT##bits##_MAX;                                               \
        const uint64_t a = (uintptr_t)word;                                                        \
        uint##bits##_t old = 0;                                                                    \
                                                                                                   \
        assert_int_equal(asymreg_set##bits(me, PE, a, top), 0);                                    \
        assert_true(*word == top);                                                                 \
        assert_int_equal(asymreg_add##bits(me, PE, a, 2), 0);                                      \
        assert_true(*word == 1);                                                                   \
        assert_int_equal(asymreg_fetch_add##bits(me, PE, a, 4, &old), 0);                          \
        assert_true(old == 1 && *word == 5);                                                       \
        assert_int_equal(asymreg_fetch##bits(me, PE, a, &old), 0);                                 \
        assert_true(old == 5 && *word == 5);                                                       \
        assert_int_equal(asymreg_swap##bits(me, PE, a, top, &old), 0);                             \
        assert_true(old == 5 && *word == top);                                                     \
        assert_int_equal(asymreg_compare_swap##bits(me, PE, a, 5, 6, &old), 0);                    \
        assert_true(old == top && *word == top);                                                   \
        assert_int_equal(asymreg_compare_swap##bits(me, PE, a, top, 6, &old), 0);                  \
        assert_true(old == top && *word == 6);                                                     \
        assert_int_equal(asymreg_and##bits(me, PE, a, 12), 0);                                     \
        assert_true(*word == 4);                                                                   \
        assert_int_equal(asymreg_or##bits(me, PE, a, 3), 0);                                       \
        assert_true(*word == 7);                                                                   \
        assert_int_equal(asymreg_xor##bits(me, PE, a, 2), 0);                                      \
        assert_true(*word == 5);                                                                   \
        assert_int_equal(asymreg_fetch_and##bits(me, PE, a, 4, &old), 0);                          \
        assert_true(old == 5 && *word == 4);                                                       \
        assert_int_equal(asymreg_fetch_or##bits(me, PE, a, 1, &old), 0);                           \
        assert_true(old == 4 && *word == 5);                                                       \
        assert_int_equal(asymreg_fetch_xor##bits(me, PE, a, 1, &old), 0);                          \
        assert_true(old == 5 && *word == 4);                                                       \
        assert_int_equal(asymreg_swap##bits(me, PE, a, 1, NULL), 0);                               \
        assert_int_equal(asymreg_fetch_add##bits(me, PE, a + 1, 1, &old), ASYMREG_EALIGN);         \
        assert_true(old == 5 && *word == 1);                                                       \
    }
ATOMICS(32)
ATOMICS(64)

static void shared_memory(void **state)
{
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    struct asymreg_worker *me;
    struct asymreg_context *x;
    struct asymreg_req r;
    char *p, got[6] = "";
    void *pages;
    ssize_t n;

    assert_int_equal(asymreg_open(NULL, &x, NULL), 0);
    assert_int_equal(asymreg_segment_alloc(x, 4096, &pages, NULL), 0);
    p = pages;
    assert_int_equal(asymreg_register(x, p, 4096, ASYMREG_ALL, NULL, NULL, NULL), 0);
    n = asymreg_export(x, blob, sizeof(blob), NULL);
    assert_int_equal(asymreg_import(x, PE, blob, (size_t)n, NULL), 0);
    assert_int_equal(asymreg_worker_create(x, &me), 0);
    assert_int_equal(asymreg_put_nb(me, PE, (uintptr_t)p, 0, "words", 6, &r), 0);
    assert_int_equal(asymreg_req_test(me, &r, NULL), 0);
    assert_int_equal(asymreg_fence(me, PE), 0);
    assert_int_equal(asymreg_get_nb(me, PE, (uintptr_t)p, 0, got, 6, &r), 0);
    assert_string_equal(got, "words");
    assert_int_equal(asymreg_req_wait(me, &r, NULL), 0);
    atomics_32(me, (uint32_t *)pages + 4);
    atomics_64(me, (uint64_t *)pages + 4);
    asymreg_worker_destroy(me);
    asymreg_close(x);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(requests_end_by_themselves),
        TEST(a_flush_completes_requests),
        TEST(errors_name_the_operation),
        TEST(requests_to_a_peer_that_goes),
        TEST(progress_fails),
        TEST(tests_progress),
        TEST(fences),
        cmocka_unit_test_setup_teardown(fences, ordered_setup, ordered_teardown),
        TEST(waits_use_the_event),
        cmocka_unit_test(shared_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
