/* SPDX-License-Identifier: BSD-3-Clause */
/* The caller's allocator: handles and tables come from it and return to it, and when it fails the
 * call fails and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <cmocka.h>

#include "storwin_test.h"

static atomic_int live, calls, fail_at; /* blocks; allocations so far; the one that fails, or 0 */

static void *counted_realloc(void *ctx, void *ptr, size_t bytes)
{
    CHECK(ctx == &live && bytes > 0);
    if (atomic_fetch_add(&calls, 1) + 1 == atomic_load(&fail_at))
        return NULL;
    if (!ptr)
        atomic_fetch_add(&live, 1);
    return realloc(ptr, bytes);
}

static void counted_free(void *ctx, void *ptr)
{
    CHECK(ctx == &live && ptr != NULL);
    atomic_fetch_sub(&live, 1);
    free(ptr);
}

static const struct storwin_allocator counted = {counted_realloc, counted_free, &live};

#define BYTES 100000

static int window_life(struct storwin_opts opts)
{
    struct storwin_window *win = NULL;
    int rc = storwin_alloc(&opts, BYTES, &win, NULL);

    if (rc < 0)
        return rc;
    memset(storwin_base(win), 'x', BYTES);
    assert_int_equal(storwin_sync(win, 0, STORWIN_TO_END, NULL), 0);
    return storwin_free(win, NULL);
}

static struct storwin_opts counted_opts(void)
{
    struct storwin_opts opts = storage_opts(test_path("window"));

    opts.flags = STORWIN_UNLINK;
    opts.allocator = &counted;
    return opts;
}

static int memory_life(void)
{
    struct storwin_opts opts = counted_opts();

    opts.alloc_type = STORWIN_MEMORY;
    return window_life(opts);
}

static int kernel_life(void)
{
    return window_life(counted_opts());
}

static int resident_life(void)
{
    struct storwin_opts opts = counted_opts();

    opts.pager = STORWIN_PAGER_RESIDENT;
    return window_life(opts);
}

static int user_life(void)
{
    struct storwin_opts opts = counted_opts();

    opts.pager = STORWIN_PAGER_USER;
    opts.budget_bytes = STORWIN_MIN_BUDGET;
    return window_life(opts);
}

static int shared_life(void)
{
    uint64_t bytes[2] = {5000, 6000};
    char name[80];
    struct storwin_shared shared = {
        .size = sizeof(shared), .n_ranks = 2, .bytes = bytes, .shm_name = name};
    struct storwin_opts opts = counted_opts();
    struct storwin_window *win = NULL;
    int rc;

    snprintf(name, sizeof(name), "/%s", test_dir);
    opts.factor_ppb = STORWIN_FACTOR_ONE / 2;
    rc = storwin_alloc_shared(&opts, &shared, &win, NULL);
    return rc < 0 ? rc : storwin_free(win, NULL);
}

/* One commit that writes a copy, and one that appends to the journal. */
static int commit_life(void)
{
    struct storwin_opts opts = counted_opts();
    struct storwin_window *win = NULL;
    int rc;

    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = STORWIN_ATOMIC_JOURNAL;
    rc = storwin_alloc(&opts, BYTES, &win, NULL);
    if (rc < 0)
        return rc;
    memset(storwin_base(win), 'x', BYTES);
    rc = storwin_commit(win, NULL);
    memset(storwin_base(win), 'y', 1);
    if (rc == 0)
        rc = storwin_commit(win, NULL);
    assert_int_equal(storwin_free(win, NULL), 0);
    return rc;
}

static int dynamic_life(void)
{
    struct storwin_window *win[9];
    struct storwin_dynamic *dyn = NULL;
    int rc = storwin_dynamic_create(&counted, &dyn);

    for (int i = 0; i < 9; i++)
        assert_int_equal(storwin_alloc(NULL, 1, &win[i], NULL), 0);
    for (int i = 0; rc == 0 && i < 9; i++)
        rc = storwin_dynamic_attach(dyn, win[i]);
    storwin_dynamic_destroy(dyn);
    for (int i = 0; i < 9; i++)
        assert_int_equal(storwin_free(win[i], NULL), 0);
    return rc;
}

static void each_fails_in_turn(void **state)
{
    static const struct {
        const char *name;
        int (*life)(void);
    } lives[] = {{"memory", memory_life},  {"kernel", kernel_life}, {"resident", resident_life},
                 {"shared", shared_life},  {"commit", commit_life}, {"dynamic", dynamic_life},
                 {"user pager", user_life}};

    for (size_t i = 0; i < sizeof(lives) / sizeof(lives[0]); i++) {
        const unsigned fds = count_fds();
        int n;

        if (lives[i].life == user_life && test_pagers <= STORWIN_PAGER_USER)
            continue;
        atomic_store(&calls, 0);
        atomic_store(&fail_at, 0);
        assert_int_equal(lives[i].life(), 0);
        n = atomic_load(&calls);
        assert_true(n > 0);
        for (int k = 1; k <= n; k++) {
            int rc;

            atomic_store(&calls, 0);
            atomic_store(&fail_at, k);
            rc = lives[i].life();
            if (rc != -ENOMEM)
                fail_msg("%s: call %d of %d failed, and the result is %d", lives[i].name, k, n, rc);
            if (atomic_load(&live) != 0 || count_fds() != fds || count_entries(test_dir) != 0)
                fail_msg("%s: call %d of %d left something", lives[i].name, k, n);
        }
    }
}

static void refuse(const struct storwin_allocator *half)
{
    const uint64_t bytes = 1;
    struct storwin_shared shared = {
        .size = sizeof(shared), .n_ranks = 1, .bytes = &bytes, .shm_name = "/storwin-refused"};
    struct storwin_opts opts = storage_opts(test_path("window"));
    struct storwin_window *win = NULL;
    struct storwin_dynamic *dyn = NULL;

    opts.allocator = half;
    assert_int_equal(storwin_alloc(&opts, 1, &win, NULL), -EINVAL);
    assert_int_equal(storwin_alloc_shared(&opts, &shared, &win, NULL), -EINVAL);
    assert_int_equal(storwin_dynamic_create(half, &dyn), -EINVAL);
    assert_true(!win && !dyn);
}

static void needs_both(void **state)
{
    const struct storwin_allocator no_free = {counted_realloc, NULL, &live};
    const struct storwin_allocator no_realloc = {NULL, counted_free, &live};

    atomic_store(&fail_at, 0);
    refuse(&no_free);
    refuse(&no_realloc);
    assert_int_equal(atomic_load(&live), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fails_in_turn),
        cmocka_unit_test(needs_both),
    };

    test_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
