/* SPDX-License-Identifier: BSD-3-Clause */
/* Option structs of other releases. */
#include "../opts_size.h"
#include "cm.h"

static int writer(void *opts, void *ctx)
{
    struct shmht_writer *w = NULL;
    int rc = shmht_writer_create(opts, &w, NULL);

    shmht_writer_destroy(w);
    return rc;
}

static int compacted(void *opts, void *ctx)
{
    struct shmht_writer *w = NULL;
    int rc = shmht_writer_compact(ctx, opts, &w, NULL);

    shmht_writer_destroy(w);
    return rc;
}

static int reader(void *opts, void *ctx)
{
    struct shmht_reader *r = NULL;
    int rc = shmht_reader_attach(NULL, shmht_writer_share(ctx, NULL), opts, &r, NULL);

    shmht_reader_detach(r);
    return rc;
}

static int array(void *opts, void *ctx)
{
    struct shmht_array *a = NULL;
    int rc = shmht_array_create(opts, &a, NULL);

    shmht_array_destroy(a);
    return rc;
}

static int array_attached(void *opts, void *ctx)
{
    struct shmht_array *a = NULL;
    int rc = shmht_array_attach(NULL, shmht_array_share(ctx, NULL), opts, &a, NULL);

    shmht_array_detach(a);
    return rc;
}

static void every_struct(void **state)
{
    const struct shmht_writer_opts wo = {.size = sizeof(wo), .max_bytes = 1 << 20};
    const struct shmht_reader_opts ro = {.size = sizeof(ro)};
    const struct shmht_array_opts ao = {.size = sizeof(ao), .n_ranks = 10, .stride_bytes = 8};
    struct shmht_writer *w;
    struct shmht_array *a;

    assert_int_equal(opts_sizes("shmht_writer_opts", &wo, sizeof(wo), writer, NULL), 0);
    assert_int_equal(shmht_writer_create(&wo, &w, NULL), 0);
    assert_int_equal(opts_sizes("shmht_writer_opts, compact", &wo, sizeof(wo), compacted, w), 0);
    assert_int_equal(opts_sizes("shmht_reader_opts", &ro, sizeof(ro), reader, w), 0);
    shmht_writer_destroy(w);
    assert_int_equal(opts_sizes("shmht_array_opts", &ao, sizeof(ao), array, NULL), 0);
    assert_int_equal(shmht_array_create(&ao, &a, NULL), 0);
    assert_int_equal(opts_sizes("shmht_reader_opts, array", &ro, sizeof(ro), array_attached, a), 0);
    shmht_array_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_struct)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
