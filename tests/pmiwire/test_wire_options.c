/* SPDX-License-Identifier: BSD-3-Clause */
/* Option structs and tables of callbacks of other releases. */
#include "../opts_size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exchange_world.h"

#include <pmiwire/client.h>
#include <pmiwire/server.h>

static int client(void *opts, void *ctx)
{
    struct pmiwire_client *c = NULL;
    int rc = pmiwire_client_create(opts, &c);

    pmiwire_client_destroy(c);
    return rc;
}

static int server(void *opts, void *ctx)
{
    struct pmiwire_server *s = NULL;
    int rc = pmiwire_server_create(opts, &s);

    pmiwire_server_destroy(s);
    return rc;
}

static int server_ops(void *ops, void *ctx)
{
    struct pmiwire_server_opts o = {.size = sizeof(o), .ops = ops};

    return server(&o, ctx);
}

static int job(void *opts, void *ctx)
{
    struct pmiwire_server *s = NULL;
    uint32_t number;
    int rc;

    assert_int_equal(pmiwire_server_create(NULL, &s), 0);
    rc = pmiwire_server_job_add(s, opts, &number);
    pmiwire_server_destroy(s);
    return rc;
}

static int exchange(void *opts, void *ctx)
{
    struct pmiwire_exchange *x = NULL;
    int rc = pmiwire_exchange_create(opts, &x);

    if (rc == 0)
        pmiwire_exchange_destroy(x);
    return rc;
}

static int exchange_ops(void *ops, void *ctx)
{
    struct pmiwire_exchange_opts o = *(const struct pmiwire_exchange_opts *)ctx;

    o.ops = ops;
    return exchange(&o, NULL);
}

static void every_struct(void **state)
{
    static const uint32_t ranks[] = {2, 3};
    const struct pmiwire_client_opts c = {.size = sizeof(c), .n_ranks = 4};
    const struct pmiwire_server_opts s = {.size = sizeof(s)};
    const struct pmiwire_server_ops so = {.size = sizeof(so)};
    const struct pmiwire_job_opts j = {
        .size = sizeof(j), .kvsname = "kvs", .n_ranks = 2, .universe_size = -1};
    struct pmiwire_exchange_opts x = {.size = sizeof(x),
                                      .ops = &w_ops,
                                      .node = 1,
                                      .n_nodes = 3,
                                      .n_ranks = 6,
                                      .ranks = ranks,
                                      .n_local = 2,
                                      .n_below = 2};

    assert_int_equal(opts_sizes("pmiwire_client_opts", &c, sizeof(c), client, NULL), 0);
    assert_int_equal(opts_sizes("pmiwire_server_opts", &s, sizeof(s), server, NULL), 0);
    assert_int_equal(opts_sizes("pmiwire_server_ops", &so, sizeof(so), server_ops, NULL), 0);
    assert_int_equal(opts_sizes("pmiwire_job_opts", &j, sizeof(j), job, NULL), 0);
    assert_int_equal(opts_sizes("pmiwire_exchange_opts", &x, sizeof(x), exchange, NULL), 0);
    assert_int_equal(opts_sizes("pmiwire_exchange_ops", &w_ops, sizeof(w_ops), exchange_ops, &x),
                     0);
}

static void *counted_realloc(void *ctx, void *ptr, size_t bytes)
{
    ++*(int *)ctx;
    return realloc(ptr, bytes);
}

static void counted_free(void *ctx, void *ptr)
{
    ++*(int *)ctx;
    free(ptr);
}

/* An allocator without a function is refused before its first call. */
static void half_an_allocator(void **state)
{
    static const uint32_t ranks[] = {0};
    int calls = 0;
    const struct pmiwire_allocator halves[] = {{counted_realloc, NULL, &calls},
                                               {NULL, counted_free, &calls}};

    for (int i = 0; i < 2; i++) {
        struct pmiwire_client_opts c = {.size = sizeof(c), .n_ranks = 4, .allocator = &halves[i]};
        struct pmiwire_server_opts s = {.size = sizeof(s), .allocator = &halves[i]};
        struct pmiwire_exchange_opts x = {.size = sizeof(x),
                                          .ops = &w_ops,
                                          .allocator = &halves[i],
                                          .n_nodes = 1,
                                          .n_ranks = 1,
                                          .ranks = ranks,
                                          .n_local = 1};

        assert_int_equal(client(&c, NULL), -EINVAL);
        assert_int_equal(server(&s, NULL), -EINVAL);
        assert_int_equal(exchange(&x, NULL), -EINVAL);
        x.allocator = NULL;
        assert_int_equal(exchange(&x, NULL), 0);
    }
    assert_int_equal(calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_struct),
                                       cmocka_unit_test(half_an_allocator)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
