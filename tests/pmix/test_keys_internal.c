/* SPDX-License-Identifier: BSD-3-Clause */
/* The job's data for libpmix: complete for all requests of clients. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/pmix-host/keys.h"

struct lib lib;

static const uint32_t blocks[] = {0, 0, 1, 1, 1}, cyclic[] = {2, 0, 1, 2, 0}, procs[] = {2, 3};

static struct keys_job job_on(const uint32_t *node_of)
{
    return (struct keys_job){.nspace = "space",
                             .n_ranks = 5,
                             .n_nodes = node_of ? 3 : 1,
                             .node_of = node_of,
                             .host = "here",
                             .anl_map = "(vector,(0,1,5))",
                             .n_apps = 2,
                             .app_procs = procs,
                             .universe = 8,
                             .n_before = 4,
                             .parent = "other",
                             .parent_rank = 3,
                             .tmpdir = "/tmp/x",
                             .nsdir = "/tmp/x/1"};
}

static const pmix_info_t *find(const pmix_info_t *info, size_t n, const char *key, size_t nth)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(info[i].key, key) == 0 && nth-- == 0)
            return &info[i];
    fail_msg("no %s", key);
    return NULL;
}

/* A pair of a rank, or of a program. */
static const pmix_value_t *inner(const struct keys *k, const char *array, size_t nth,
                                 const char *key)
{
    const pmix_data_array_t *a = find(k->info, k->n, array, nth)->value.data.darray;

    return &find(a->array, a->size, key, 0)->value;
}

static void maps(void **state)
{
    struct keys_job job = job_on(NULL);
    char *text;

    assert_string_equal(text = keys_nodes(&job), "here");
    free(text);
    assert_string_equal(text = keys_ranks(&job), "0,1,2,3,4");
    free(text);
    job = job_on(blocks);
    assert_string_equal(text = keys_nodes(&job), "here,node1");
    free(text);
    assert_string_equal(text = keys_ranks(&job), "0,1;2,3,4");
    free(text);
    job = job_on(cyclic);
    job.node = 2;
    assert_string_equal(text = keys_nodes(&job), "here,node0,node1");
    free(text);
    assert_string_equal(text = keys_ranks(&job), "0,3;1,4;2");
    free(text);
}

static void values(void **state)
{
    struct keys_job job = job_on(cyclic);
    struct keys k = {0};

    job.node = 2;
    assert_int_equal(keys_make(&k, &job), 0);
    assert_int_equal(find(k.info, k.n, PMIX_JOB_SIZE, 0)->value.data.uint32, 5);
    assert_int_equal(find(k.info, k.n, PMIX_UNIV_SIZE, 0)->value.data.uint32, 8);
    assert_int_equal(find(k.info, k.n, PMIX_NUM_NODES, 0)->value.data.uint32, 3);
    assert_int_equal(find(k.info, k.n, PMIX_LOCAL_SIZE, 0)->value.data.uint32, 2);
    assert_int_equal(find(k.info, k.n, PMIX_NODE_SIZE, 0)->value.data.uint32, 6);
    /* In the given order: PMIx_generate_regex() would reorder the names of nodes. */
    assert_string_equal(find(k.info, k.n, PMIX_NODE_MAP, 0)->value.data.bo.bytes,
                        "raw:here,node0,node1");
    assert_string_equal(find(k.info, k.n, PMIX_PROC_MAP, 0)->value.data.bo.bytes, "raw:0,3;1,4;2");
    assert_string_equal(find(k.info, k.n, PMIX_LOCAL_PEERS, 0)->value.data.string, "0,3");
    assert_int_equal(find(k.info, k.n, PMIX_PARENT_ID, 0)->value.data.proc->rank, 3);
    assert_string_equal(find(k.info, k.n, PMIX_PARENT_ID, 0)->value.data.proc->nspace, "other");
    assert_int_equal(inner(&k, PMIX_APP_INFO_ARRAY, 1, PMIX_APPLDR)->data.rank, 2);
    assert_int_equal(inner(&k, PMIX_PROC_INFO_ARRAY, 3, PMIX_RANK)->data.rank, 3);
    assert_int_equal(inner(&k, PMIX_PROC_INFO_ARRAY, 3, PMIX_APPNUM)->data.uint32, 1);
    assert_int_equal(inner(&k, PMIX_PROC_INFO_ARRAY, 3, PMIX_APP_RANK)->data.rank, 1);
    assert_int_equal(inner(&k, PMIX_PROC_INFO_ARRAY, 3, PMIX_LOCAL_RANK)->data.uint16, 1);
    assert_int_equal(inner(&k, PMIX_PROC_INFO_ARRAY, 3, PMIX_NODE_RANK)->data.uint16, 5);
    assert_string_equal(inner(&k, PMIX_PROC_INFO_ARRAY, 3, PMIX_PROCDIR)->data.string,
                        "/tmp/x/1/3");
    assert_string_equal(inner(&k, PMIX_PROC_INFO_ARRAY, 4, PMIX_HOSTNAME)->data.string, "node0");
    keys_free(&k);
}

/* The check finds a missing key, and names its owner. */
static void expect_missing(const struct keys_job *job, const char *key, uint32_t of)
{
    struct keys k = {0};
    const char *who, *missing;
    uint32_t rank;

    assert_int_equal(keys_make(&k, job), 0);
    keys_remove(&k, key);
    missing = keys_missing(&k, job, &who, &rank);
    if (!missing)
        fail_msg("%s is missing, without an error", key);
    assert_string_equal(missing, key);
    assert_int_equal(rank, of);
    assert_true(strlen(who) > 0);
    keys_free(&k);
}

static void missing(void **state)
{
    static const char *const of_job[] = {
        PMIX_JOB_SIZE,     PMIX_NODE_MAP,  PMIX_PROC_MAP,  PMIX_ANL_MAP,    PMIX_UNIV_SIZE,
        PMIX_MAX_PROCS,    PMIX_NUM_NODES, PMIX_PARENT_ID, PMIX_LOCAL_SIZE, PMIX_LOCAL_PEERS,
        PMIX_JOB_NUM_APPS, PMIX_SPAWNED,   PMIX_LOCALLDR,  PMIX_TMPDIR,     PMIX_NSDIR};
    static const char *const of_rank[] = {PMIX_RANK,     PMIX_APPNUM,    PMIX_GLOBAL_RANK,
                                          PMIX_HOSTNAME, PMIX_NODE_RANK, PMIX_LOCAL_RANK,
                                          PMIX_NODEID};
    struct keys_job job = job_on(cyclic);
    struct keys k = {0};
    const char *who;
    uint32_t rank;

    assert_int_equal(keys_make(&k, &job), 0);
    assert_null(keys_missing(&k, &job, &who, &rank));
    keys_free(&k);
    for (size_t i = 0; i < sizeof(of_job) / sizeof(of_job[0]); i++)
        expect_missing(&job, of_job[i], UINT32_MAX);
    for (size_t i = 0; i < sizeof(of_rank) / sizeof(of_rank[0]); i++)
        expect_missing(&job, of_rank[i], 0);
    expect_missing(&job, PMIX_PROCDIR, 1); /* the first on node 0 */
}

/* A job that was not spawned, or that has no rank here, needs fewer keys. */
static void not_needed(void **state)
{
    struct keys_job job = job_on(blocks);
    struct keys k = {0};
    const char *who;
    uint32_t rank;

    job.parent = NULL;
    job.node = 2;
    job.tmpdir = job.nsdir = NULL;
    assert_int_equal(keys_make(&k, &job), 0);
    assert_null(keys_missing(&k, &job, &who, &rank));
    keys_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps),
        cmocka_unit_test(values),
        cmocka_unit_test(missing),
        cmocka_unit_test(not_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
