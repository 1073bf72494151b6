/* SPDX-License-Identifier: BSD-3-Clause */
/* The server engine as its allocations fail: each in turn, and all of a size. */
#include "server_scripts.h"

/* Is every pair that was acknowledged there? */
static void check_pair(struct harness *h, const char *out, const char *reply, const char *key,
                       const char *value)
{
    struct pmiwire_str v;

    if (!strstr(out, reply))
        return;
    assert_int_equal(pmiwire_server_get(h->s, 0, pmiwire_strz(key), &v), 0);
    assert_int_equal(v.len, strlen(value));
    assert_memory_equal(v.ptr, value, v.len);
}

static int scenario(struct harness *h, long fail_at)
{
    static const uint32_t node_of[] = {0, 0};
    struct pmiwire_job_opts o = {.size = sizeof(o),
                                 .kvsname = "kvs_0",
                                 .n_ranks = 2,
                                 .universe_size = -1,
                                 .appnum = node_of,
                                 .node_of = node_of,
                                 .spawner_jobid = "mum"};
    static char out0[8192], out1[8192];
    uint32_t job;
    int i, rc;

    h_init(h);
    h->done_inside = 1;
    h->heap.fail_at = fail_at;
    rc = pmiwire_server_create(&h->opts, &h->s);
    if (rc != 0) {
        assert_int_equal(rc, -ENOMEM);
        assert_int_equal(h->heap.n_live, 0);
        return 0;
    }
    rc = pmiwire_server_job_add(h->s, &o, &job);
    for (i = 0; i < 2 && rc == 0; i++)
        rc = pmiwire_server_accept(h->s, job, i, &h->c[i], &h->c[i]);
    if (rc != 0) {
        assert_int_equal(rc, -ENOMEM);
        h_stop(h);
        return 0;
    }
    out0[0] = out1[0] = '\0';
    for (i = 0; i < 6; i++) {
        static const char *const group[] = {"cmd=barrier_in group=NODE:1\n",
                                            "cmd=barrier_in group=0,1:1\n"};
        size_t n0 = strlen(script0), n1 = strlen(script1);
        size_t a = (size_t)i * n0 / 6, b = (size_t)(i + 1) * n0 / 6;

        (void)pmiwire_conn_input(h->c[0], script0 + a, b - a);
        a = (size_t)i * n1 / 6, b = (size_t)(i + 1) * n1 / 6;
        (void)pmiwire_conn_input(h->c[1], script1 + a, b - a);
        if (i == 5) {
            (void)say(h, 0, group[0]);
            (void)say(h, 1, group[1]);
        }
        strcat(out0, hear(h, 0));
        strcat(out1, hear(h, 1));
    }
    check_pair(h, out0, "cmd=put_result rc=0", "a", "0");
    check_pair(h, out1, "cmd=kvs-put-response;rc=0", "b", "x;y");
    check_pair(h, out1, "cmd=kvs-put-response;thrid=2;rc=0", "c", "1");
    for (i = 0; i < 2; i++)
        if (conn_state(h->c[i]) == PMIWIRE_CONN_FAILED)
            assert_true(h->n_diag > 0);
    rc = h->heap.n_calls;
    h_stop(h);
    return fail_at && rc >= fail_at ? 0 : 1;
}

static void test_failing_memory(void **state)
{
    struct harness h;
    long k = 1;

    make_script1();
    while (scenario(&h, k) == 0 || k < 30)
        k++;
    assert_in_range(k, 30, 2000);
    /* groups, a ring and waiting attributes, where several clients depend on one allocation */
    for (k = 1; k < 60; k++) {
        h_init(&h);
        h_start(&h, 2);
        init1(&h, 0);
        init2(&h, 1);
        h.heap.n_calls = 0;
        h.heap.fail_at = k;
        (void)say(&h, 0, "cmd=barrier_in group=WORLD:t\n");
        (void)say(&h, 1, "cmd=barrier_in group=1,0:t\n");
        (void)say(&h, 1, v2("cmd=info-getnodeattr;key=k;wait=TRUE;"));
        (void)say(&h, 0, v2("cmd=info-putnodeattr;key=k;value=1;"));
        (void)say(&h, 1, v2("cmd=ring;ring-count=1;ring-left=a;ring-right=b;"));
        (void)say(&h, 0, v2("cmd=ring;ring-count=1;ring-left=c;ring-right=d;"));
        h_stop(&h);
    }
}

/* A table that cannot grow accepts pairs as long as a probe still ends, and then refuses. */
static void test_table_that_cannot_grow(void **state)
{
    struct harness h;
    char text[60];
    struct pmiwire_str v;
    int i, n = 0;

    h_init(&h);
    h_start(&h, 1);
    init1(&h, 0);
    ask(&h, 0, "cmd=put key=first value=1\n", "cmd=put_result rc=0\n");
    assert_int_equal(say(&h, 0, "cmd=put\n"), 0); /* the output grows to hold an error */
    (void)hear(&h, 0);
    h.heap.max_bytes = 100;
    for (i = 0; i < 50; i++) {
        sprintf(text, "cmd=put key=%d value=1\n", i);
        assert_int_equal(say(&h, 0, text), 0);
        if (strcmp(hear(&h, 0), "cmd=put_result rc=0\n") == 0)
            n++;
    }
    assert_int_equal(n, 6); /* of 8 slots one holds the first, and one stays empty */
    ask(&h, 0, "cmd=get key=5\n", "cmd=get_result rc=0 value=1\n");
    ask(&h, 0, "cmd=put key=5 value=22\n", "cmd=put_result rc=-1 msg=no_memory_for_this_pair\n");
    h.heap.max_bytes = 0;
    ask(&h, 0, "cmd=put key=6 value=1\n", "cmd=put_result rc=0\n");
    for (i = 0; i < 7; i++) {
        sprintf(text, "%d", i);
        assert_int_equal(pmiwire_server_get(h.s, 0, pmiwire_strz(text), &v), 0);
    }
    h_stop(&h);
}

/* A request that the server has no memory to decode gets an error, and the next one an answer. */
static void test_no_room_to_decode(void **state)
{
    const char *put = v2r("cmd=kvs-put;key=b;value=x;;y;");
    struct harness h;

    h_init(&h);
    h_start(&h, 1);
    init2(&h, 0);
    h.heap.fail_at = h.heap.n_calls + 1;
    assert_int_equal(say(&h, 0, put), 0);
    assert_non_null(strstr(hear(&h, 0), "cmd=kvs-put-response;rc=-1;errmsg="));
    assert_int_equal(h.diag_code, -ENOMEM);
    ask(&h, 0, put, v2r("cmd=kvs-put-response;rc=0;"));
    h_stop(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failing_memory),
        cmocka_unit_test(test_table_that_cannot_grow),
        cmocka_unit_test(test_no_room_to_decode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
