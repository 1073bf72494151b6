/* SPDX-License-Identifier: BSD-3-Clause */
/* Option structs of other releases. */
#include "../opts_size.h"
#include "storwin_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static int window(void *opts, void *ctx)
{
    struct storwin_window *win = NULL;
    int rc = storwin_alloc(opts, 10000, &win, NULL);

    return rc < 0 ? rc : storwin_free(win, NULL);
}

static int set(void *opts, void *ctx)
{
    struct storwin_opts *o = opts;
    uint32_t before = o->order;
    int rc = storwin_opts_set(o, "storage_alloc_order", "storage_first", NULL);

    assert_int_equal(o->order, rc == 0 ? STORWIN_STORAGE_FIRST : before);
    o->order = before;
    return rc;
}

static int query(void *opts, void *ctx)
{
    struct storwin_info_file info = {.size = sizeof(info)};

    return storwin_file_query(opts, &info, NULL);
}

static int shared(void *shared, void *ctx)
{
    struct storwin_window *win = NULL;
    int rc = storwin_alloc_shared(ctx, shared, &win, NULL);

    return rc < 0 ? rc : storwin_free(win, NULL);
}

static int shared_opts(void *opts, void *ctx)
{
    return shared(ctx, opts);
}

static void every_struct(void **state)
{
    uint64_t bytes = 10000;
    char shm_name[64];
    struct storwin_opts opts;
    struct storwin_shared s = {
        .size = sizeof(s), .n_ranks = 1, .bytes = &bytes, .shm_name = shm_name};

    snprintf(shm_name, sizeof(shm_name), "/storwin-sizes-%d", (int)getpid());
    storwin_opts_init(&opts);
    assert_int_equal(opts.size, sizeof(opts));
    assert_int_equal(opts_sizes("storwin_opts, alloc", &opts, sizeof(opts), window, NULL), 0);
    assert_int_equal(opts_sizes("storwin_opts, alloc_shared", &opts, sizeof(opts), shared_opts, &s),
                     0);
    assert_int_equal(opts_sizes("storwin_shared", &s, sizeof(s), shared, NULL), 0);
    opts.alloc_type = STORWIN_STORAGE;
    opts.filename = test_path("file");
    assert_int_equal(
        opts_sizes("storwin_opts, alloc on storage", &opts, sizeof(opts), window, NULL), 0);
    assert_int_equal(opts_sizes("storwin_opts, set", &opts, sizeof(opts), set, NULL), 0);
    opts.filename = test_path("commits");
    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = STORWIN_ATOMIC_AUTO;
    assert_int_equal(
        opts_sizes("storwin_opts, alloc with commits", &opts, sizeof(opts), window, NULL), 0);
    assert_int_equal(opts_sizes("storwin_opts, file_query", &opts, sizeof(opts), query, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_struct)};

    test_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
