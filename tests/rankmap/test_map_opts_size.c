/* SPDX-License-Identifier: BSD-3-Clause */
/* Option structs of other releases. */
#include "../opts_size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <rankmap.h>

static int map(void *opts, void *ctx)
{
    struct rankmap *made = NULL;
    int rc = rankmap_affine(0, 1, 4, opts, &made);

    rankmap_unref(made);
    return rc;
}

static int av(void *opts, void *ctx)
{
    struct rankmap_av *made = NULL;
    int rc = rankmap_av_create(opts, &made);

    rankmap_av_destroy(made);
    return rc;
}

static void every_struct(void **state)
{
    const struct rankmap_opts m = {.size = sizeof(m)};
    const struct rankmap_av_opts a = {.size = sizeof(a), .entry_bytes = 8, .capacity = 10};

    assert_int_equal(opts_sizes("rankmap_opts", &m, sizeof(m), map, NULL), 0);
    assert_int_equal(opts_sizes("rankmap_av_opts", &a, sizeof(a), av, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_struct)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
