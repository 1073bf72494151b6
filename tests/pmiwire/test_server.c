/* SPDX-License-Identifier: BSD-3-Clause */
/* The server engine, command by command on both wires: replies to the byte. */
#include "server_harness.h"

/* ---- init and what the job is ---- */

static void test_v1_session(void **state)
{
    struct harness h;

    h_init(&h);
    h_start(&h, 2);
    assert_int_equal(conn_state(h.c[1]), PMIWIRE_CONN_NEW);
    init1(&h, 1);
    assert_int_equal(h.n_ready, 1);
    assert_int_equal(h.state, PMIWIRE_CONN_INITED);
    ask(&h, 1, "cmd=get_maxes\n", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n");
    ask(&h, 1, "cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n");
    ask(&h, 1, "cmd=get_universe_size\n", "cmd=universe_size rc=0 size=-1\n");
    ask(&h, 1, "cmd=get_my_kvsname\n", "cmd=my_kvsname rc=0 kvsname=kvs_0\n");
    ask(&h, 1, "cmd=put kvsname=kvs_0 key=a value=1\n", "cmd=put_result rc=0\n");
    ask(&h, 1, "cmd=get kvsname=kvs_0 key=a\n", "cmd=get_result rc=0 value=1\n");
    ask(&h, 1, "cmd=put key=b value=x=y;\\z\n", "cmd=put_result rc=0\n");
    ask(&h, 1, "cmd=get key=b\n", "cmd=get_result rc=0 value=x=y;\\z\n");
    ask(&h, 1, "cmd=get key=none\n", "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
    assert_int_equal(h.n_diag, 0);
    ask(&h, 1, "cmd=abort exitcode=7 message=so long\n", "");
    assert_int_equal(h.n_abort, 1);
    assert_int_equal(h.exitcode, 7);
    assert_string_equal(h.message, "so long");
    ask(&h, 1, "cmd=abort exitcode=-3 error_msg=gone\n", "");
    assert_int_equal(h.exitcode, -3);
    assert_string_equal(h.message, "gone");
    ask(&h, 1, "cmd=finalize\n", "cmd=finalize_ack rc=0\n");
    assert_int_equal(conn_state(h.c[1]), PMIWIRE_CONN_FINALIZED);
    pmiwire_conn_close(h.c[1]);
    assert_int_equal(h.n_diag, 0);
    h_stop(&h);
}

static void test_v2_session(void **state)
{
    static const uint32_t appnum[] = {0, 5};
    struct pmiwire_job_opts o = {.size = sizeof(o),
                                 .kvsname = "kid.1",
                                 .n_ranks = 2,
                                 .universe_size = 8,
                                 .debugged = 1,
                                 .appnum = appnum,
                                 .spawner_jobid = "kvs_0"};
    struct harness h;
    uint32_t job;

    h_init(&h);
    h_start(&h, 1);
    assert_int_equal(pmiwire_server_job_add(h.s, &o, &job), 0);
    h_accept(&h, 1, job, 1);
    ask(&h, 1, INIT2, INIT2_OK);
    assert_int_equal(conn_state(h.c[1]), PMIWIRE_CONN_NEW);
    ask(&h, 1, v2("cmd=fullinit;pmijobid=kid.1;pmirank=1;threaded=FALSE;"),
        v2("cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=2;appnum=5;"
           "spawner-jobid=kvs_0;debugged=TRUE;pmiverbose=FALSE;"));
    ask(&h, 1, v2("cmd=job-getid;"), v2("cmd=job-getid-response;rc=0;jobid=kid.1;"));
    ask(&h, 1, v2("cmd=kvs-put;key=a;value=1 2;"), v2("cmd=kvs-put-response;rc=0;"));
    ask(&h, 1, v2r("cmd=kvs-get;jobid=kid.1;srcid=-1;key=a;"),
        v2r("cmd=kvs-get-response;rc=0;found=TRUE;value=1 2;"));
    ask(&h, 1,
        v2r("cmd=kvs-get;jobid=;srcid=-1;key=a;"), /* PMI2_KVS_Get(NULL, ...) of Slurm's client */
        v2r("cmd=kvs-get-response;rc=0;found=TRUE;value=1 2;"));
    ask(&h, 1, v2r("cmd=kvs-get;jobid=;srcid=;key=a;"),
        v2r("cmd=kvs-get-response;rc=0;found=TRUE;value=1 2;"));
    ask(&h, 1, v2("cmd=kvs-get;key=zz;thrid=0x7f;"),
        v2("cmd=kvs-get-response;thrid=0x7f;rc=0;found=FALSE;"));
    ask(&h, 1, v2("cmd=info-getjobattr;key=universeSize;"),
        v2("cmd=info-getjobattr-response;rc=0;found=TRUE;value=8;"));
    ask(&h, 1, v2("cmd=info-getjobattr;key=PMI_process_mapping;"),
        v2("cmd=info-getjobattr-response;rc=0;found=FALSE;"));
    ask(&h, 1, v2("cmd=job-connect;jobid=kvs_0;"),
        v2("cmd=job-connect-response;rc=0;kvscopy=FALSE;"));
    ask(&h, 1, v2("cmd=job-disconnect;jobid=kvs_0;"), v2("cmd=job-disconnect-response;rc=0;"));
    ask(&h, 1, v2("cmd=job-connect;jobid=nix;"),
        v2("cmd=job-connect-response;rc=-1;errmsg=no such job;"));
    assert_int_equal(h.n_diag, 0);
    ask(&h, 1, v2("cmd=abort;isworld=TRUE;msg=a;;b c;"), "");
    assert_string_equal(h.message, "a;b c");
    assert_int_equal(h.exitcode, 1);
    ask(&h, 1, v2("cmd=abort;exitcode=4;message=;"), "");
    assert_int_equal(h.exitcode, 4);
    ask(&h, 1, v2r("cmd=finalize;thrid=9;"), v2r("cmd=finalize-response;thrid=9;rc=0;"));
    assert_int_equal(conn_state(h.c[1]), PMIWIRE_CONN_FINALIZED);
    h_stop(&h);
}

static void test_versions(void **state)
{
    static const char *const asked[][2] = {
        {"cmd=init pmi_version=1 pmi_subversion=0\n",
         "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=0\n"},
        {INIT1, INIT1_OK},
        {"cmd=init pmi_version=1 pmi_subversion=2\n",
         "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n"},
        {"cmd=init pmi_version=1 pmi_subversion=9\n",
         "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n"},
        {INIT2, INIT2_OK},
    };
    struct harness h;
    size_t i;

    for (i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        h_init(&h);
        h_start(&h, 1);
        ask(&h, 0, asked[i][0], asked[i][1]);
        h_stop(&h);
    }
    h_init(&h);
    h.opts.flags = PMIWIRE_SERVER_PMI_1_2;
    h_start(&h, 1);
    ask(&h, 0, INIT1, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n");
    h_stop(&h);
    h_init(&h);
    h_start(&h, 1);
    ask(&h, 0, "cmd=init pmi_version=3 pmi_subversion=0\n",
        "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1 "
        "msg=unsupported_PMI_version:_not_1_or_2\n");
    assert_int_equal(h.diag_code, PMIWIRE_EVERSION);
    ask(&h, 0, INIT1, INIT1_OK); /* it may choose again */
    h_stop(&h);
}

/* PMI_PORT: a client sends its own rank. */
static void test_identity(void **state)
{
    struct harness h;

    h_init(&h);
    h_start(&h, 3);
    pmiwire_conn_close(h.c[1]);
    pmiwire_conn_close(h.c[2]);
    h_accept(&h, 1, 77, PMIWIRE_RANK_UNKNOWN);
    assert_int_equal(say(&h, 1, INIT1), 0);
    assert_non_null(strstr(hear(&h, 1), "cmd=response_to_init rc=-1"));
    assert_int_equal(say(&h, 1, "cmd=initack pmiid=0\n"), 0);
    expect(&h, 1, "cmd=initack rc=-1 msg=a_client_with_this_rank_is_connected_already\n");
    assert_int_equal(say(&h, 1, "cmd=initack pmiid=3\n"), 0);
    expect(&h, 1, "cmd=initack rc=-1 msg=no_such_rank_or_job\n");
    assert_int_equal(say(&h, 1, "cmd=initack pmiid=-1\n"), 0);
    expect(&h, 1, "cmd=initack rc=-1 msg=no_such_rank_or_job\n");
    ask(&h, 1, "cmd=initack pmiid=2\n",
        "cmd=initack rc=0\ncmd=set size=3\ncmd=set rank=2\ncmd=set debug=0\n");
    init1(&h, 1);
    h_accept(&h, 2, 0, PMIWIRE_RANK_UNKNOWN);
    ask(&h, 2, INIT2, INIT2_OK);
    ask(&h, 2, v2("cmd=fullinit;"),
        v2("cmd=fullinit-response;rc=-1;errmsg=fullinit without a rank;"));
    assert_int_equal(say(&h, 2, v2r("cmd=fullinit;srcid=1;threaded=FALSE;")), 0);
    assert_non_null(strstr(hear(&h, 2), "rank=1;size=3"));
    /* a rank given at accept cannot change */
    ask(&h, 0, INIT2, INIT2_OK);
    ask(&h, 0, v2("cmd=fullinit;pmirank=1;"),
        v2("cmd=fullinit-response;rc=-1;errmsg=client claims another rank than its own;"));
    assert_string_equal(h.diag, "kvs_0 rank 0: fullinit: client claims another rank than its own");
    ask(&h, 0, v2("cmd=fullinit;pmirank=0;srcid=2;"),
        v2("cmd=fullinit-response;rc=-1;errmsg=client claims another rank than its own;"));
    assert_int_equal(say(&h, 0, v2("cmd=fullinit;pmirank=0;srcid=0;")), 0);
    assert_non_null(strstr(hear(&h, 0), ";rank=0;"));
    h_stop(&h);

    h_init(&h);
    h.ops.identify = h_identify;
    h_start(&h, 1);
    pmiwire_conn_close(h.c[0]);
    h_accept(&h, 0, 0, PMIWIRE_RANK_UNKNOWN);
    h.identify_rc = -1;
    ask(&h, 0, "cmd=initack pmiid=100\n", "cmd=initack rc=-1 msg=client's_id_was_refused\n");
    assert_string_equal(h.diag, "unidentified client: initack: client's id was refused");
    h.identify_rc = 0;
    assert_int_equal(say(&h, 0, "cmd=initack pmiid=100\n"), 0);
    assert_non_null(strstr(hear(&h, 0), "cmd=set rank=0\n"));
    h_stop(&h);
}

static void test_singinit(void **state)
{
    struct harness h;

    h_init(&h);
    h_start(&h, 1);
    ask(&h, 0, "cmd=singinit pmi_version=1 pmi_subversion=1 stdio=yes authtype=none\n",
        "cmd=singinit_info rc=0 versionok=yes stdio=no kvsname=kvs_0\n");
    ask(&h, 0, "cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n");
    h_stop(&h);
    /* another version: it is not in, and may choose again */
    h_init(&h);
    h_start(&h, 1);
    ask(&h, 0, "cmd=singinit pmi_version=2 pmi_subversion=0 stdio=yes authtype=none\n",
        "cmd=singinit_info rc=-1 versionok=no stdio=no kvsname=kvs_0\n");
    assert_int_equal(conn_state(h.c[0]), PMIWIRE_CONN_NEW);
    init1(&h, 0);
    h_stop(&h);
}

/* ---- pairs ---- */

static char *filled(char *buf, const char *before, char c, size_t n, const char *after)
{
    char *p = buf + sprintf(buf, "%s", before);

    memset(p, c, n);
    strcpy(p + n, after);
    return buf;
}

static void test_limits_of_pairs(void **state)
{
    static char buf[4096];
    struct harness h;

    h_init(&h);
    h_start(&h, 2);
    init1(&h, 0);
    init2(&h, 1);
    /* values of 1023 bytes are the longest that pass between the wires; PMI-2 alone takes 1024 */
    ask(&h, 0, filled(buf, "cmd=put key=v1 value=", 'v', 1023, "\n"), "cmd=put_result rc=0\n");
    ask(&h, 0, "cmd=get key=v1\n", filled(buf, "cmd=get_result rc=0 value=", 'v', 1023, "\n"));
    ask(&h, 1, v2(filled(buf, "cmd=kvs-put;key=v2;value=", 'w', 1023, ";")),
        v2("cmd=kvs-put-response;rc=0;"));
    ask(&h, 0, "cmd=get key=v2\n", filled(buf, "cmd=get_result rc=0 value=", 'w', 1023, "\n"));
    ask(&h, 1, v2("cmd=kvs-get;key=v1;"),
        v2(filled(buf, "cmd=kvs-get-response;rc=0;found=TRUE;value=", 'v', 1023, ";")));
    assert_int_equal(h.n_diag, 0);
    ask(&h, 0, filled(buf, "cmd=put key=v3 value=", 'v', 1024, "\n"),
        "cmd=put_result rc=7 msg=value_is_too_long\n");
    assert_string_equal(h.diag, "kvs_0 rank 0: put: value is too long");
    ask(&h, 1, v2(filled(buf, "cmd=kvs-put;key=v3;value=", 'v', 1025, ";")),
        v2("cmd=kvs-put-response;rc=7;errmsg=value is too long;"));
    ask(&h, 0, "cmd=get key=v3\n", "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
    ask(&h, 1, v2(filled(buf, "cmd=kvs-put;key=v4;value=", 'v', 1024, ";")),
        v2("cmd=kvs-put-response;rc=0;"));
    /* MPICH's client has no room for it. */
    ask(&h, 1, v2("cmd=kvs-get;key=v4;"),
        v2("cmd=kvs-get-response;rc=7;errmsg=value has 1024 bytes, the profile \"mpich-main\" "
           "carries 1023;"));
    assert_int_equal(say(&h, 0, "cmd=get key=v4\n"), 0);
    assert_non_null(strstr(hear(&h, 0), "cmd=get_result rc=7 "));
    /* keys of 63 bytes */
    ask(&h, 0, filled(buf, "cmd=put value=1 key=", 'k', 63, "\n"), "cmd=put_result rc=0\n");
    ask(&h, 0, filled(buf, "cmd=get key=", 'k', 63, "\n"), "cmd=get_result rc=0 value=1\n");
    ask(&h, 0, filled(buf, "cmd=put value=1 key=", 'k', 64, "\n"),
        "cmd=put_result rc=5 msg=key_is_too_long\n");
    ask(&h, 1, v2(filled(buf, "cmd=kvs-put;value=1;key=", 'k', 65, ";")),
        v2("cmd=kvs-put-response;rc=5;errmsg=key is too long;"));
    ask(&h, 1, v2(filled(buf, "cmd=kvs-put;value=1;key=", 'k', 64, ";")),
        v2("cmd=kvs-put-response;rc=0;"));
    ask(&h, 1, v2(filled(buf, "cmd=kvs-get;key=", 'k', 64, ";")),
        v2("cmd=kvs-get-response;rc=0;found=TRUE;value=1;"));
    ask(&h, 0, filled(buf, "cmd=get key=", 'k', 64, "\n"),
        "cmd=get_result rc=5 msg=key_is_too_long value=unknown\n");
    /* empty ones */
    assert_int_equal(say(&h, 0, "cmd=put key= value=1\n"), 0);
    assert_non_null(strstr(hear(&h, 0), "cmd=put_result rc=4 "));
    assert_int_equal(say(&h, 0, "cmd=put key=a value=\n"), 0);
    assert_non_null(strstr(hear(&h, 0), "cmd=put_result rc=6 "));
    assert_int_equal(say(&h, 1, v2("cmd=kvs-put;key=a;value=;")), 0);
    assert_non_null(strstr(hear(&h, 1), "cmd=kvs-put-response;rc=6;errmsg="));
    h_stop(&h);
}

static void test_spaces(void **state)
{
    struct harness h;

    h_init(&h);
    h_start(&h, 1);
    assert_int_equal(h_job(&h, "other", 1), 1);
    h_accept(&h, 1, 1, 0);
    init1(&h, 0);
    init2(&h, 1);
    assert_int_equal(pmiwire_server_put(h.s, 0, pmiwire_strz("k"), pmiwire_strz("zero")), 0);
    assert_int_equal(pmiwire_server_put(h.s, 1, pmiwire_strz("k"), pmiwire_strz("one")), 0);
    assert_int_equal(pmiwire_server_put(h.s, 2, pmiwire_strz("k"), pmiwire_strz("two")),
                     PMIWIRE_ENOENT);
    assert_int_equal(pmiwire_server_job_attr(h.s, 0, pmiwire_strz("PMI_process_mapping"),
                                             pmiwire_strz("(vector,(0,1,1))")),
                     0);
    ask(&h, 0, "cmd=get kvsname=other key=k\n", "cmd=get_result rc=0 value=one\n");
    ask(&h, 1, v2("cmd=kvs-get;jobid=kvs_0;key=k;"),
        v2("cmd=kvs-get-response;rc=0;found=TRUE;value=zero;"));
    ask(&h, 0, "cmd=get key=PMI_process_mapping\n", "cmd=get_result rc=0 value=(vector,(0,1,1))\n");
    ask(&h, 1, v2("cmd=kvs-get;jobid=kvs_0;key=PMI_process_mapping;"),
        v2("cmd=kvs-get-response;rc=0;found=FALSE;"));
    ask(&h, 0, "cmd=get kvsname=nix key=k\n",
        "cmd=get_result rc=-1 msg=no_such_key-value_space value=unknown\n");
    ask(&h, 1, v2("cmd=kvs-get;jobid=nix;key=k;"),
        v2("cmd=kvs-get-response;rc=-1;errmsg=no such key-value space;"));
    ask(&h, 0, "cmd=put kvsname=other key=k value=x\n",
        "cmd=put_result rc=-1 msg=put_into_a_key-value_space_that_is_not_one's_own\n");
    ask(&h, 0, "cmd=get kvsname=other key=k\n", "cmd=get_result rc=0 value=one\n");
    assert_int_equal(pmiwire_server_job_remove(h.s, 1), PMIWIRE_ESTATE);
    pmiwire_conn_close(h.c[1]);
    assert_int_equal(pmiwire_server_job_remove(h.s, 1), 0);
    assert_int_equal(pmiwire_server_job_remove(h.s, 1), PMIWIRE_ENOENT);
    ask(&h, 0, "cmd=get kvsname=other key=k\n",
        "cmd=get_result rc=-1 msg=no_such_key-value_space value=unknown\n");
    h_stop(&h);
}

/* Behind each value in the engine's store is a NUL, whatever its length: an exchange takes both. */
static void test_nul_behind_values(void **state)
{
    const char *text = "0123456789abcdef0123456789abcdef";
    struct pmiwire_str v;
    struct harness h;

    h_init(&h);
    h_start(&h, 1);
    for (size_t n = 0; n <= strlen(text); n++) {
        struct pmiwire_str key = {text, 1 + n % 7};

        assert_int_equal(pmiwire_server_put(h.s, 0, key, (struct pmiwire_str){text, n}), 0);
        assert_int_equal(pmiwire_server_get(h.s, 0, key, &v), 0);
        assert_int_equal(v.len, n);
        assert_int_equal(v.ptr[n], '\0');
    }
    h_stop(&h);
}

/* A value that one wire can send and the other cannot is refused, not cut. */
static void test_values_across_wires(void **state)
{
    struct pmiwire_str v;
    struct harness h;

    h_init(&h);
    h_start(&h, 3);
    init1(&h, 0);
    init2(&h, 1);
    init2(&h, 2);
    ask(&h, 2, v2r("cmd=kvs-put;key=s;value=a b;"), v2r("cmd=kvs-put-response;rc=0;"));
    ask(&h, 2, v2r("cmd=kvs-put;key=c;value=a;;b;"), v2r("cmd=kvs-put-response;rc=0;"));
    ask(&h, 2, v2r("cmd=kvs-get;key=c;"), v2r("cmd=kvs-get-response;rc=0;found=TRUE;value=a;;b;"));
    assert_int_equal(pmiwire_server_get(h.s, 0, pmiwire_strz("c"), &v), 0);
    assert_int_equal(v.len, 3);
    assert_memory_equal(v.ptr, "a;b", 3);
    assert_int_equal(h.n_diag, 0);
    ask(&h, 0, "cmd=get key=s\n",
        "cmd=get_result rc=6 msg=value_holds_byte_0x20_at_1,_which_PMI-1_without_fp-bytes_"
        "cannot_carry value=unknown\n");
    assert_int_equal(h.diag_code, PMIWIRE_ECHARS);
    ask(&h, 0, "cmd=get key=c\n", "cmd=get_result rc=0 value=a;b\n");
    ask(&h, 1, v2("cmd=kvs-get;key=c;"),
        v2("cmd=kvs-get-response;rc=6;errmsg=value holds byte 0x3b at 1, which the profile "
           "\"mpich-main\" cannot carry;"));
    assert_int_equal(h.n_diag, 2);
    ask(&h, 0, "cmd=put key=b value=a\\b\n", "cmd=put_result rc=0\n");
    assert_int_equal(say(&h, 1, v2("cmd=kvs-get;key=b;")), 0);
    assert_non_null(strstr(hear(&h, 1), "rc=6;errmsg=value holds byte 0x5c at 1,"));
    ask(&h, 1, v2("cmd=kvs-put;key=b;value=a\\b;"), /* it could not read its own value */
        v2("cmd=kvs-put-response;rc=6;errmsg=value holds byte 0x5c at 1, which the profile "
           "\"mpich-main\" cannot carry;"));
    ask(&h, 2, v2r("cmd=kvs-get;key=b;"), v2r("cmd=kvs-get-response;rc=0;found=TRUE;value=a\\b;"));
    h_stop(&h);
}

/* ---- waiting for each other ---- */

static void test_mixed_barrier(void **state)
{
    struct pmiwire_stats_server st;
    struct harness h;

    h_init(&h);
    h_start(&h, 3);
    init1(&h, 0);
    init2(&h, 1);
    init2(&h, 2);
    ask(&h, 0, BARRIER, "");
    ask(&h, 2, v2r("cmd=kvs-fence;"), "");
    expect(&h, 0, "");
    h.n_ready = 0;
    ask(&h, 1, v2("cmd=kvs-fence;thrid=5;"), v2("cmd=kvs-fence-response;thrid=5;rc=0;"));
    assert_int_equal(h.n_ready, 3);
    expect(&h, 0, BARRIER_OK);
    expect(&h, 2, v2r("cmd=kvs-fence-response;rc=0;"));
    pmiwire_server_stats(h.s, &st);
    assert_int_equal(st.n_fences, 1);
    h_stop(&h);
}

/* Requests behind a barrier are served when it opens, in order, and no sooner. */
static void test_pipelining(void **state)
{
    struct harness h;

    h_init(&h);
    h_start(&h, 2);
    ask(&h, 0, INIT1 BARRIER "cmd=get key=late\n" BARRIER "cmd=get_appnum\ncmd=fin", INIT1_OK);
    ask(&h, 0, "alize\n", "");
    ask(&h, 1, INIT1 "cmd=put key=late value=yes\n", INIT1_OK "cmd=put_result rc=0\n");
    ask(&h, 1, BARRIER, BARRIER_OK);
    expect(&h, 0, BARRIER_OK "cmd=get_result rc=0 value=yes\n");
    ask(&h, 1, BARRIER, BARRIER_OK);
    expect(&h, 0, BARRIER_OK "cmd=appnum rc=0 appnum=0\ncmd=finalize_ack rc=0\n");
    h_stop(&h);
}

static void test_groups(void **state)
{
    static const uint32_t node_of[] = {0, 0, 7, 7};
    struct pmiwire_job_opts o = {.size = sizeof(o),
                                 .kvsname = "kvs_0",
                                 .n_ranks = 4,
                                 .universe_size = -1,
                                 .node_of = node_of};
    static const char *const bad[] = {
        "cmd=barrier_in group=0,1,1:t\n", "cmd=barrier_in group=1,0,1:t\n",
        "cmd=barrier_in group=1,2:t\n",   "cmd=barrier_in group=0,4:t\n",
        "cmd=barrier_in group=0,-1:t\n",  "cmd=barrier_in group=0,:t\n",
        "cmd=barrier_in group=,0:t\n",    "cmd=barrier_in group=:t\n",
        "cmd=barrier_in group=0,x:t\n",   "cmd=barrier_in group=WORLDS:t\n",
    };
    struct harness h;
    uint32_t job;
    int i;

    h_init(&h);
    assert_int_equal(pmiwire_server_create(&h.opts, &h.s), 0);
    assert_int_equal(pmiwire_server_job_add(h.s, &o, &job), 0);
    for (i = 0; i < 4; i++) {
        h_accept(&h, i, 0, i);
        init1(&h, i);
    }
    for (i = 0; i < (int)(sizeof(bad) / sizeof(bad[0])); i++) {
        assert_int_equal(say(&h, 0, bad[i]), 0);
        assert_non_null(strstr(hear(&h, 0), "cmd=barrier_out rc=-1 msg=group_"));
    }
    /* two at once: a node and a list */
    ask(&h, 0, "cmd=barrier_in group=NODE:5\n", "");
    ask(&h, 2, "cmd=barrier_in group=3,2:five\n", "");
    ask(&h, 3, "cmd=barrier_in group=2,3:five\n", "cmd=barrier_out rc=0 tag=five\n");
    expect(&h, 2, "cmd=barrier_out rc=0 tag=five\n");
    expect(&h, 0, "");
    /* the same set in another form is the same group; another tag is another group */
    ask(&h, 1, "cmd=barrier_in group=1,0:5\n", "cmd=barrier_out rc=0 tag=5\n");
    expect(&h, 0, "cmd=barrier_out rc=0 tag=5\n");
    ask(&h, 0, "cmd=barrier_in group=0,2:a\n", "");
    ask(&h, 2, "cmd=barrier_in group=2,0:a\n", "cmd=barrier_out rc=0 tag=a\n");
    expect(&h, 0, "cmd=barrier_out rc=0 tag=a\n");
    /* all ranks, and one alone */
    ask(&h, 0, "cmd=barrier_in group=WORLD:w\n", "");
    ask(&h, 1, "cmd=barrier_in group=0,1,2,3:w\n", "");
    ask(&h, 2, "cmd=barrier_in group=WORLD:w\n", "");
    ask(&h, 3,
        "cmd=barrier_in group=3:solo\n"
        "cmd=barrier_in group=WORLD:w\n",
        "cmd=barrier_out rc=0 tag=solo\ncmd=barrier_out rc=0 tag=w\n");
    expect(&h, 0, "cmd=barrier_out rc=0 tag=w\n");
    expect(&h, 1, "cmd=barrier_out rc=0 tag=w\n");
    expect(&h, 2, "cmd=barrier_out rc=0 tag=w\n");
    /* still waiting at the end: freed with the server */
    ask(&h, 1, "cmd=barrier_in group=NODE:5\n", "");
    h_stop(&h);
}

static void test_ring(void **state)
{
    char left[1200], right[1200];
    struct harness h;

    h_init(&h);
    h_start(&h, 3);
    init2(&h, 0);
    init2(&h, 1);
    init2(&h, 2);
    ask(&h, 2, v2r("cmd=ring;ring-count=1;ring-left=l2;ring-right=r2;"), "");
    ask(&h, 0, v2("cmd=ring;ring-count=1;ring-left=l0;ring-right=r0;thrid=1;"), "");
    ask(&h, 1, v2("cmd=ring;ring-count=1;ring-left=l1;ring-right=r1;"),
        v2("cmd=ring-response;rc=0;ring-count=1;ring-left=r0;ring-right=l2;"));
    expect(&h, 0, v2("cmd=ring-response;thrid=1;rc=0;ring-count=0;ring-left=r2;ring-right=l1;"));
    expect(&h, 2, v2r("cmd=ring-response;rc=0;ring-count=2;ring-left=r1;ring-right=l0;"));
    /* values that are not there */
    ask(&h, 1, v2("cmd=ring;ring-count=1;ring-left=c;ring-right=d;"), "");
    ask(&h, 2, v2("cmd=ring;ring-count=1;ring-left=e;ring-right=f;"), "");
    ask(&h, 0, v2("cmd=ring;ring-count=1;"),
        v2("cmd=ring-response;rc=0;ring-count=0;ring-left=f;ring-right=c;"));
    expect(&h, 1, v2("cmd=ring-response;rc=0;ring-count=1;ring-right=e;"));
    expect(&h, 2, v2("cmd=ring-response;rc=0;ring-count=2;ring-left=d;"));
    /* each side has the limit of values */
    filled(left, "cmd=ring;ring-count=1;ring-left=", 'x', 1024, ";ring-right=r;");
    filled(right, "cmd=ring;ring-count=1;ring-left=l;ring-right=", 'x', 1024, ";");
    assert_int_equal(say(&h, 0, v2(left)), 0);
    assert_non_null(strstr(hear(&h, 0), "cmd=ring-response;rc=7;"));
    assert_int_equal(say(&h, 0, v2(right)), 0);
    assert_non_null(strstr(hear(&h, 0), "cmd=ring-response;rc=7;"));
    h_stop(&h);
}

/* What was reported since the last time. */
static void waited(struct harness *h, const char *want)
{
    assert_string_equal(h->waits, want);
    h->waits[0] = '\0';
}

static void test_waits(void **state)
{
    struct harness h;

    h_init(&h);
    h.ops.waits = h_waits;
    h_start(&h, 2);
    init1(&h, 0);
    init2(&h, 1);
    waited(&h, "");
    ask(&h, 0, BARRIER, "");
    waited(&h, "+0 fence ");
    ask(&h, 1, v2("cmd=kvs-fence;"), v2("cmd=kvs-fence-response;rc=0;"));
    waited(&h, "+1 fence -0 fence -1 fence ");
    expect(&h, 0, BARRIER_OK);
    ask(&h, 1, v2("cmd=kvs-fence;fp-gather=a;"), "");
    ask(&h, 0, "cmd=barrier_in fp-gather=b\n", BARRIER_OK);
    waited(&h, "+1 gather +0 gather -1 gather -0 gather ");
    expect(&h, 1, v2("cmd=kvs-fence-response;rc=0;"));
    ask(&h, 1, v2("cmd=ring;ring-count=1;ring-left=l;ring-right=r;"), "");
    waited(&h, "+1 ring ");
    assert_int_equal(say(&h, 0, "cmd=barrier_in fp-ring=x\n"), 0);
    waited(&h, "+0 ring -0 ring -1 ring ");
    (void)hear(&h, 0);
    (void)hear(&h, 1);
    ask(&h, 0, "cmd=barrier_in group=0:t\n", "cmd=barrier_out rc=0 tag=t\n");
    waited(&h, "+0 group -0 group ");
    /* a waiting Get is none; one whose client disconnects while it waits has left */
    ask(&h, 0, "cmd=get fp-get=wait key=c\n" BARRIER, "");
    waited(&h, "");
    ask(&h, 1, v2("cmd=kvs-fence;"), "");
    waited(&h, "+1 fence ");
    pmiwire_conn_close(h.c[1]);
    assert_int_equal(strncmp(h.waits, "-1 fence ", 9), 0);
    h_stop(&h);
}

static void test_node_attributes(void **state)
{
    struct harness h;

    h_init(&h);
    h_start(&h, 3);
    init2(&h, 0);
    init2(&h, 1);
    init2(&h, 2);
    ask(&h, 0, v2("cmd=info-getnodeattr;key=seg;"),
        v2("cmd=info-getnodeattr-response;rc=0;found=FALSE;"));
    ask(&h, 0, v2("cmd=info-getnodeattr;key=seg;wait=FALSE;"),
        v2("cmd=info-getnodeattr-response;rc=0;found=FALSE;"));
    ask(&h, 0, v2("cmd=info-getnodeattr;key=seg;wait=TRUE;thrid=a;"), "");
    ask(&h, 1, v2("cmd=info-getnodeattr;key=other;wait=TRUE;"), "");
    ask(&h, 2, v2("cmd=info-putnodeattr;key=seg;value=/dev/shm/x;"),
        v2("cmd=info-putnodeattr-response;rc=0;"));
    expect(&h, 0, v2("cmd=info-getnodeattr-response;thrid=a;rc=0;found=TRUE;value=/dev/shm/x;"));
    expect(&h, 1, "");
    ask(&h, 2, v2("cmd=info-getnodeattr;key=seg;wait=TRUE;"),
        v2("cmd=info-getnodeattr-response;rc=0;found=TRUE;value=/dev/shm/x;"));
    pmiwire_conn_close(h.c[1]);
    ask(&h, 2, v2("cmd=info-putnodeattr;key=other;value=1;"),
        v2("cmd=info-putnodeattr-response;rc=0;"));
    h_stop(&h);
}

/* The answer to a put cuts its rank off: the rank that waits gets the attribute all the same. */
static void test_node_attribute_of_slow_reader(void **state)
{
    const size_t answer = strlen(v2("cmd=info-putnodeattr-response;rc=0;"));
    struct harness h;
    const void *p;

    h_init(&h);
    h.opts.max_out_bytes = 1024;
    h_start(&h, 2);
    init2(&h, 0);
    init2(&h, 1);
    ask(&h, 0, v2("cmd=info-getnodeattr;key=k;wait=TRUE;"), "");
    while (pmiwire_conn_output(h.c[1], &p) + answer <= 1024)
        assert_int_equal(say(&h, 1, v2("cmd=info-putnodeattr;key=other;value=1;")), 0);
    assert_int_equal(say(&h, 1, v2("cmd=info-putnodeattr;key=k;value=2;")), PMIWIRE_ESLOW);
    expect(&h, 0, v2("cmd=info-getnodeattr-response;rc=0;found=TRUE;value=2;"));
    h_stop(&h);
}

/* ---- names ---- */

static void test_names(void **state)
{
    struct harness h;

    h_init(&h);
    h_start(&h, 1);
    h_job(&h, "other", 1);
    h_accept(&h, 1, 1, 0);
    init1(&h, 0);
    init2(&h, 1);
    ask(&h, 0, "cmd=lookup_name service=s\n", "cmd=lookup_result rc=1 msg=name_is_not_published\n");
    ask(&h, 0, "cmd=unpublish_name service=s\n",
        "cmd=unpublish_result rc=1 msg=name_is_not_published_by_this_job\n");
    ask(&h, 0, "cmd=publish_name service=s port=tag#0$x\n", "cmd=publish_result rc=0\n");
    ask(&h, 0, "cmd=lookup_name service=s\n", "cmd=lookup_result rc=0 port=tag#0$x\n");
    ask(&h, 1, v2("cmd=name-publish;name=s;port=q;"),
        v2("cmd=name-publish-response;rc=-1;errmsg=name is published already;"));
    ask(&h, 1, v2("cmd=name-lookup;name=s;"),
        v2("cmd=name-lookup-response;rc=0;port=tag#0$x;found=TRUE;value=tag#0$x;"));
    ask(&h, 1, v2("cmd=name-unpublish;name=s;"),
        v2("cmd=name-unpublish-response;rc=-1;errmsg=name is not published by this job;"));
    ask(&h, 0, "cmd=unpublish_name service=s\n", "cmd=unpublish_result rc=0\n");
    ask(&h, 1, v2("cmd=name-publish;name=s;port=q;infokeycount=0;"),
        v2("cmd=name-publish-response;rc=0;"));
    ask(&h, 0, "cmd=lookup_name service=s\n", "cmd=lookup_result rc=0 port=q\n");
    assert_int_equal(h.n_diag, 0);
    pmiwire_conn_close(h.c[1]);
    assert_int_equal(pmiwire_server_job_remove(h.s, 1), 0);
    ask(&h, 0, "cmd=lookup_name service=s\n", "cmd=lookup_result rc=1 msg=name_is_not_published\n");
    h_stop(&h);
}

/* ---- stores elsewhere, answers that come later ---- */

static void test_outside_store(void **state)
{
    struct harness h;

    h_init(&h);
    h.ops.put = h_put;
    h.ops.find = h_find;
    h.ops.fenced = h_fenced;
    h_start(&h, 2);
    init1(&h, 0);
    init2(&h, 1);
    ask(&h, 0, "cmd=put key=a value=b\n", "cmd=put_result rc=0\n");
    ask(&h, 1, v2("cmd=kvs-get;key=a;srcid=4;"),
        v2("cmd=kvs-get-response;rc=0;found=TRUE;value=b;"));
    ask(&h, 1, v2("cmd=kvs-get;key=c;srcid=4;"), v2("cmd=kvs-get-response;rc=0;found=FALSE;"));
    /* a waiting Get, for a key that comes at once, later, and while another one waits too */
    ask(&h, 0, "cmd=get fp-get=wait key=a\n", "cmd=get_result rc=0 value=b\n");
    ask(&h, 0, "cmd=get fp-get=wait key=c\ncmd=get_appnum\n", "");
    ask(&h, 1, v2("cmd=kvs-put;key=d;value=e;"), v2("cmd=kvs-put-response;rc=0;"));
    expect(&h, 0, "");
    ask(&h, 1, v2("cmd=kvs-put;key=c;value=later;"), v2("cmd=kvs-put-response;rc=0;"));
    expect(&h, 0, "cmd=get_result rc=0 value=later\ncmd=appnum rc=0 appnum=0\n");
    assert_int_equal(h.n_fenced, 0);
    ask(&h, 0, BARRIER, "");
    ask(&h, 1, v2("cmd=kvs-fence;"), v2("cmd=kvs-fence-response;rc=0;"));
    expect(&h, 0, BARRIER_OK);
    assert_int_equal(h.n_fenced, 1);
    /* disconnected while it waits: the put wakes no Get */
    ask(&h, 0, "cmd=get fp-get=wait key=f\n", "");
    pmiwire_conn_close(h.c[0]);
    ask(&h, 1, v2("cmd=kvs-put;key=f;value=g;"), v2("cmd=kvs-put-response;rc=0;"));
    h_stop(&h);
}

static void test_outside_names(void **state)
{
    struct harness h;

    h_init(&h);
    h.ops.name = h_name;
    h_start(&h, 1);
    init2(&h, 0);
    h.name_rc = PMIWIRE_PENDING;
    h.done_inside = 1;
    ask(&h, 0, v2("cmd=name-publish;name=s;port=p;"), v2("cmd=name-publish-response;rc=0;"));
    ask(&h, 0, v2("cmd=name-lookup;name=s;"),
        v2("cmd=name-lookup-response;rc=0;port=p;found=TRUE;value=p;"));
    h.done_inside = 0;
    ask(&h, 0, v2("cmd=name-lookup;name=s;"), "");
    assert_int_equal(pmiwire_server_spawn_done(h.s, h.token, 0, "x", NULL, 0), PMIWIRE_ESTALE);
    assert_int_equal(pmiwire_server_name_done(h.s, h.token, 0, pmiwire_strz("far")), 0);
    expect(&h, 0, v2("cmd=name-lookup-response;rc=0;port=far;found=TRUE;value=far;"));
    assert_int_equal(pmiwire_server_name_done(h.s, h.token, 0, pmiwire_strz("twice")),
                     PMIWIRE_ESTALE);
    assert_int_equal(pmiwire_server_name_done(h.s, 0, 0, pmiwire_strz("x")), PMIWIRE_ESTALE);
    assert_int_equal(pmiwire_server_name_done(h.s, UINT64_MAX, 0, pmiwire_strz("x")),
                     PMIWIRE_ESTALE);
    ask(&h, 0, v2("cmd=name-lookup;name=s;"), "");
    assert_int_equal(pmiwire_server_name_done(h.s, h.token, PMIWIRE_ENOENT, pmiwire_strz(NULL)), 0);
    expect(&h, 0, v2("cmd=name-lookup-response;rc=-1;errmsg=name is not published;"));
    h.name_rc = -ENOMEM;
    ask(&h, 0, v2("cmd=name-lookup;name=s;"),
        v2("cmd=name-lookup-response;rc=-1;errmsg=Cannot allocate memory;"));
    h.name_rc = 0; /* a lookup without an answer so far */
    ask(&h, 0, v2("cmd=name-lookup;name=s;"),
        v2("cmd=name-lookup-response;rc=-1;errmsg=name is not published;"));
    ask(&h, 0, v2("cmd=name-unpublish;name=s;"),
        v2("cmd=name-unpublish-response;rc=-1;errmsg=name is not published by this job;"));
    h_stop(&h);
}

/* The engine's names, for a caller that serves other clients. */
static void test_names_of_others(void **state)
{
    const uint32_t one = UINT32_C(1) << 31, other = one + 1; /* no jobs' numbers */
    struct pmiwire_str port;
    struct harness h;

    h_init(&h);
    h.opts.max_kvs_bytes = 200;
    h_start(&h, 1);
    init1(&h, 0);
    assert_int_equal(pmiwire_server_publish(h.s, one, pmiwire_strz("a"), pmiwire_strz("1")), 0);
    assert_int_equal(pmiwire_server_publish(h.s, other, pmiwire_strz("a"), pmiwire_strz("2")),
                     PMIWIRE_EEXIST);
    ask(&h, 0, "cmd=lookup_name service=a\n", "cmd=lookup_result rc=0 port=1\n");
    ask(&h, 0, "cmd=unpublish_name service=a\n",
        "cmd=unpublish_result rc=1 msg=name_is_not_published_by_this_job\n");
    assert_int_equal(pmiwire_server_unpublish(h.s, other, pmiwire_strz("a")), PMIWIRE_ENOENT);
    assert_int_equal(pmiwire_server_unpublish(h.s, one, pmiwire_strz("a")), 0);
    assert_int_equal(pmiwire_server_lookup(h.s, pmiwire_strz("a"), &port), PMIWIRE_ENOENT);
    /* three pairs go into 200 bytes; a job has its own limit */
    for (int i = 0; i < 4; i++) {
        const char name[] = {(char)('a' + i), '\0'};

        assert_int_equal(pmiwire_server_publish(h.s, one, pmiwire_strz(name), pmiwire_strz("1")),
                         i < 3 ? 0 : -ENOMEM);
    }
    ask(&h, 0, "cmd=publish_name service=x port=y\n", "cmd=publish_result rc=0\n");
    assert_int_equal(pmiwire_server_names_drop(h.s, one), 0);
    assert_int_equal(pmiwire_server_lookup(h.s, pmiwire_strz("a"), &port), PMIWIRE_ENOENT);
    assert_int_equal(pmiwire_server_lookup(h.s, pmiwire_strz("x"), &port), 0);
    assert_memory_equal(port.ptr, "y", port.len);
    assert_int_equal(pmiwire_server_names_drop(h.s, 0), 0);
    for (int i = 0; i < 3; i++) {
        char text[64];

        snprintf(text, sizeof(text), "cmd=publish_name service=y%d port=y\n", i);
        ask(&h, 0, text,
            i < 2 ? "cmd=publish_result rc=0\n"
                  : "cmd=publish_result rc=1 msg=no_room_for_this_name\n");
    }
    /* A job's end removes the job's own names and no others. */
    assert_int_equal(pmiwire_server_names_drop(h.s, 0), 0);
    ask(&h, 0, "cmd=publish_name service=x port=y\n", "cmd=publish_result rc=0\n");
    assert_int_equal(pmiwire_server_publish(h.s, one, pmiwire_strz("a"), pmiwire_strz("1")), 0);
    pmiwire_conn_close(h.c[0]);
    assert_int_equal(pmiwire_server_job_remove(h.s, 0), 0);
    assert_int_equal(pmiwire_server_lookup(h.s, pmiwire_strz("a"), &port), 0);
    assert_int_equal(pmiwire_server_lookup(h.s, pmiwire_strz("x"), &port), PMIWIRE_ENOENT);
    h_stop(&h);
}

/* Every kind of waiting request, side by side, and the end in the middle. */
static void test_all_waits(void **state)
{
    struct harness h;

    h_init(&h);
    h.ops.name = h_name;
    h.name_rc = PMIWIRE_PENDING;
    h_start(&h, 9);
    assert_int_equal(h_job(&h, "kvs_1", 2), 1);
    h_accept(&h, 9, 1, 0);
    for (int i = 0; i < 10; i++)
        (i == 1 ? init1 : init2)(&h, i);
    ask(&h, 0, v2("cmd=kvs-fence;"), "");
    ask(&h, 0, v2("cmd=kvs-put;key=a;value=b;"), "");
    ask(&h, 1, "cmd=barrier_in fp-gather=v\n", "");
    ask(&h, 2, v2("cmd=ring;ring-count=1;"), "");
    ask(&h, 3, v2("cmd=info-getnodeattr;key=k;wait=TRUE;"), "");
    ask(&h, 4, v2("cmd=kvs-get;key=a;fp-get=wait;"), "");
    ask(&h, 5, v2("cmd=kvs-get;key=c;srcid=2;fp-get=wait;"), "");
    ask(&h, 6, v2("cmd=name-lookup;name=s;"), "");
    ask(&h, 7, v2("cmd=spawn;ncmds=1;preputcount=0;subcmd=a;maxprocs=1;argc=0;infokeycount=0;"),
        "");
    assert_string_equal(h.spawned, "1*a;");
    ask(&h, 8, v2("cmd=kvs-get;jobid=kvs_1;key=a;fp-get=wait;"), "");
    ask(&h, 9, v2("cmd=kvs-get;jobid=kvs_0;key=d;fp-get=wait;"), "");
    /* a key of another job, and that job's end */
    ask(&h, 9, v2("cmd=finalize;"), "");
    pmiwire_conn_close(h.c[9]);
    assert_int_equal(pmiwire_server_job_remove(h.s, 1), 0);
    expect(&h, 8, v2("cmd=kvs-get-response;rc=0;found=FALSE;"));
    /* put by the launcher: an ordinary put */
    assert_int_equal(pmiwire_server_put(h.s, 0, pmiwire_strz("c"), pmiwire_strz("own")), 0);
    expect(&h, 5, v2("cmd=kvs-get-response;rc=0;found=TRUE;value=own;"));
    h_stop(&h);
}

/* ---- spawn ---- */

#define BLOCK(text) "mcmd=spawn\n" text "endcmd\n"

static void test_spawn_v1(void **state)
{
    static const int32_t codes[] = {0, -2, 0};
    static int32_t many[600];
    struct harness h;

    h_init(&h);
    h_start(&h, 1);
    init1(&h, 0);
    /* MPICH 4.0's order, in pieces, the pairs in each message */
    ask(&h, 0,
        "mcmd=spawn\nnprocs=2\nexecname=./a b\ntotspawns=2\nspawnssofar=1\narg1=-x\narg2=y z\n",
        "");
    ask(&h, 0,
        "argcnt=2\npreput_num=1\npreput_key_0=PARENT\npreput_val_0=port#1 2\ninfo_num=0\nendcmd\n",
        "");
    ask(&h, 0,
        BLOCK("nprocs=1\nexecname=b\ntotspawns=2\nspawnssofar=2\nargcnt=0\npreput_num=1\n"
              "preput_key_0=PARENT\npreput_val_0=only the first counts\n"
              "info_num=2\ninfo_key_0=wdir\ninfo_val_0=/tmp\ninfo_key_1=host\ninfo_val_1=\n"),
        "");
    assert_string_equal(h.spawned, "put PARENT=port#1 2;2*./a b [-x] [y z];1*b wdir=/tmp host=;");
    assert_int_equal(pmiwire_server_spawn_done(h.s, h.token, 0, NULL, codes, 3), 0);
    expect(&h, 0, "cmd=spawn_result rc=0 errcodes=0,-2,0\n");
    assert_int_equal(pmiwire_server_spawn_done(h.s, h.token, 0, NULL, codes, 3), PMIWIRE_ESTALE);
    /* MPICH main's order, indices from 0, and what its description calls info_num */
    ask(&h, 0,
        BLOCK("argcnt=1\narg0=only\ntotspawns=1\nspawnssofar=1\ninfonum=1\ninfo_val_1=v\ninfo_key_"
              "1=k\n"
              "execname=c\nnprocs=2\n"),
        "");
    assert_string_equal(h.spawned, "2*c [only] k=v;");
    assert_int_equal(pmiwire_server_spawn_done(h.s, h.token, 0, "kid", NULL, 0), 0);
    expect(&h, 0, "cmd=spawn_result rc=0 jobid=kid errcodes=0,0\n");
    /* answers at once, refusals, and error codes that do not fit a line */
    h.done_inside = 1;
    ask(&h, 0, BLOCK("nprocs=1\nexecname=c\ntotspawns=1\nspawnssofar=1\n") "cmd=get_appnum\n",
        "cmd=spawn_result rc=0 jobid=kid errcodes=0\ncmd=appnum rc=0 appnum=0\n");
    h.spawn_rc = -EAGAIN; /* too late to refuse: the answer has been sent */
    ask(&h, 0, BLOCK("nprocs=1\nexecname=c\ntotspawns=1\nspawnssofar=1\n"),
        "cmd=spawn_result rc=0 jobid=kid errcodes=0\n");
    h.done_inside = 0;
    assert_int_equal(say(&h, 0, BLOCK("nprocs=1\nexecname=c\ntotspawns=1\nspawnssofar=1\n")), 0);
    assert_non_null(strstr(hear(&h, 0), "cmd=spawn_result rc=-1 msg="));
    h.spawn_rc = PMIWIRE_PENDING;
    ask(&h, 0, BLOCK("nprocs=600\nexecname=c\ntotspawns=1\nspawnssofar=1\n"), "");
    assert_int_equal(pmiwire_server_spawn_done(h.s, h.token, 0, "kid", many, 600), 0);
    expect(&h, 0, "cmd=spawn_result rc=0 jobid=kid\n");
    many[599] = PMIWIRE_ENOENT;
    ask(&h, 0, BLOCK("nprocs=600\nexecname=c\ntotspawns=1\nspawnssofar=1\n"), "");
    assert_int_equal(pmiwire_server_spawn_done(h.s, h.token, 0, "kid", many, 600), 0);
    expect(&h, 0, "cmd=spawn_result rc=-1 msg=no_such_key,_name,_job_or_attribute\n");
    /* empty fields that the engine drops */
    h.done_inside = 1;
    ask(&h, 0, BLOCK("jobid=\nkvsname=\nnprocs=1\nexecname=c\ntotspawns=1\nspawnssofar=1\n"),
        "cmd=spawn_result rc=0 jobid=kid errcodes=0\n");
    assert_int_equal(h.n_diag, 0);
    h_stop(&h);
}

static void hears_one_refusal(struct harness *h)
{
    static const char refusal[] = "cmd=spawn_result rc=-1 msg=";
    const char *heard = hear(h, 0);

    assert_memory_equal(heard, refusal, sizeof(refusal) - 1);
    assert_ptr_equal(strchr(heard, '\n'), heard + strlen(heard) - 1);
}

static void test_spawn_v1_refused(void **state)
{
#define OK_BLOCK "nprocs=1\nexecname=c\ntotspawns=1\nspawnssofar=1\n"
    static const char *const bad[] = {
        BLOCK("execname=c\ntotspawns=1\nspawnssofar=1\n"),
        BLOCK("nprocs=0\nexecname=c\ntotspawns=1\nspawnssofar=1\n"),
        BLOCK("nprocs=-1\nexecname=c\ntotspawns=1\nspawnssofar=1\n"),
        BLOCK("nprocs=x\nexecname=c\ntotspawns=1\nspawnssofar=1\n"),
        BLOCK("nprocs=1\nexecname=c\ntotspawns=0\nspawnssofar=1\n"),
        BLOCK("nprocs=1\nexecname=c\ntotspawns=2\nspawnssofar=2\n"),
        BLOCK("nprocs=1\nexecname=c\ntotspawns=1\nspawnssofar=0\n"),
        BLOCK(OK_BLOCK "argcnt=1\n"),
        BLOCK(OK_BLOCK "argcnt=2\narg1=a\narg3=b\n"),
        BLOCK(OK_BLOCK "argcnt=1\narg1=a\narg2=b\n"),
        BLOCK(OK_BLOCK "arg1=a\n"),
        BLOCK(OK_BLOCK "argcnt=2\narg1=a\narg1=b\n"),
        BLOCK(OK_BLOCK "argcnt=1\nargcnt=1\narg1=a\n"),
        BLOCK(OK_BLOCK "argcnt=2000000000\narg1=a\n"),
        BLOCK(OK_BLOCK "argcnt=-1\n"),
        BLOCK(OK_BLOCK "argcnt=1\narg4294967297=b\n"),
        BLOCK(OK_BLOCK "info_num=1\ninfo_key_0=k\n"),
        BLOCK(OK_BLOCK "preput_num=1\npreput_val_0=k\n"),
        BLOCK(OK_BLOCK "preput_num=2147483647\n"),
        "mcmd=spawn\nnprocs\nendcmd\n",
        BLOCK(OK_BLOCK "=x\n"),
    };
    struct harness h;
    size_t i;

    h_init(&h);
    h_start(&h, 1);
    init1(&h, 0);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        h.n_diag = 0;
        assert_int_equal(say(&h, 0, bad[i]), 0);
        assert_non_null(strstr(hear(&h, 0), "cmd=spawn_result rc=-1 msg="));
        assert_int_equal(h.n_diag, 1);
        assert_memory_equal(h.diag, "kvs_0 rank 0: spawn: ", 21);
        assert_int_equal(h.token, 0);
    }
    /* a request with an error in its second message gets one answer, at its end */
    ask(&h, 0, BLOCK("nprocs=1\nexecname=c\ntotspawns=3\nspawnssofar=1\nargcnt=9\n"), "");
    ask(&h, 0, BLOCK("nprocs=1\nexecname=c\ntotspawns=3\nspawnssofar=2\n"), "");
    assert_int_equal(say(&h, 0, BLOCK("nprocs=1\nexecname=c\ntotspawns=3\nspawnssofar=3\n")), 0);
    assert_string_equal(
        hear(&h, 0),
        "cmd=spawn_result rc=-1 msg=an_argument,_key_or_value_that_was_announced_is_missing\n");
    /* a missing message is an error at once */
    ask(&h, 0, BLOCK("nprocs=1\nexecname=c\ntotspawns=3\nspawnssofar=1\n"), "");
    ask(&h, 0, BLOCK("nprocs=1\nexecname=c\ntotspawns=3\nspawnssofar=3\n"),
        "cmd=spawn_result rc=-1 msg=totspawns_and_spawnssofar_are_out_of_step\n");
    /* and the connection continues */
    h.done_inside = 1;
    ask(&h, 0, BLOCK(OK_BLOCK), "cmd=spawn_result rc=0 jobid=kid errcodes=0\n");
    h_stop(&h);

    h_init(&h);
    h.opts.max_spawn_bytes = 150;
    h_start(&h, 1);
    init1(&h, 0);
    ask(&h, 0, BLOCK("nprocs=1\nexecname=c\ntotspawns=3\nspawnssofar=1\n"), "");
    ask(&h, 0, BLOCK("nprocs=1\nexecname=c\ntotspawns=3\nspawnssofar=2\n"), "");
    ask(&h, 0, BLOCK("nprocs=1\nexecname=c\ntotspawns=3\nspawnssofar=3\n"),
        "cmd=spawn_result rc=-1 msg=request_is_longer_than_the_limit\n");
    h_stop(&h);

    h_init(&h);
    h.ops.spawn = NULL;
    h_start(&h, 1);
    init1(&h, 0);
    ask(&h, 0, BLOCK(OK_BLOCK), "cmd=spawn_result rc=-1 msg=this_server_does_not_spawn\n");
    h_stop(&h);
}

/* A request with a malformed message, too, gets one answer, at its end. */
static void test_spawn_v1_malformed(void **state)
{
    static const char *const bad[] = {
        "execname=\n",
        "execname=c\ninfo_key_0=\n",
        "execname=c\nx=1\nx=1\nx=1\nx=1\nx=1\nx=1\nx=1\n", /* too many fields */
        "execname=c\nno value\n",
        "nprocs=1\n", /* twice */
    };
    struct harness h;
    char text[200];

    h_init(&h);
    h.opts.max_fields = 10;
    h.done_inside = 1;
    h_start(&h, 1);
    init1(&h, 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        for (int at = 1; at <= 3; at++) {
            for (int part = 1; part <= 3; part++) {
                snprintf(text, sizeof(text), BLOCK("totspawns=3\nspawnssofar=%d\nnprocs=1\n%s"),
                         part, part == at ? bad[i] : "execname=c\n");
                assert_int_equal(say(&h, 0, text), 0);
                if (part < 3)
                    expect(&h, 0, "");
            }
            assert_int_equal(h.token, 0);
            hears_one_refusal(&h);
            ask(&h, 0, "cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n");
        }
    /* without numbers it is answered at once */
    assert_int_equal(say(&h, 0, BLOCK("execname=c\nno value\n")), 0);
    hears_one_refusal(&h);
    /* and the connection continues */
    ask(&h, 0, BLOCK(OK_BLOCK), "cmd=spawn_result rc=0 jobid=kid errcodes=0\n");
    h_stop(&h);

    /* before init each message is answered */
    h_init(&h);
    h_start(&h, 1);
    assert_int_equal(say(&h, 0, BLOCK("nprocs=1\nexecname=\ntotspawns=2\nspawnssofar=1\n")), 0);
    hears_one_refusal(&h);
    h_stop(&h);
}

static void test_spawn_v2(void **state)
{
    static const char *const bad[] = {
        "cmd=spawn;ncmds=0;preputcount=0;",
        "cmd=spawn;ncmds=2;preputcount=0;subcmd=a;maxprocs=1;argc=0;",
        "cmd=spawn;ncmds=1;preputcount=0;subcmd=a;maxprocs=1;argc=0;subcmd=b;maxprocs=1;argc=0;",
        "cmd=spawn;ncmds=2;preputcount=0;subcmd=a;maxprocs=1;maxprocs=1;subcmd=b;argc=0;",
        "cmd=spawn;ncmds=1;subcmd=a;maxprocs=1;argc=0;argc=0;",
        "cmd=spawn;ncmds=1;preputcount=1;ppkey0=k;subcmd=a;maxprocs=1;argc=0;",
        "cmd=spawn;ncmds=1;subcmd=a;maxprocs=1;argc=1;",
        "cmd=spawn;ncmds=1;subcmd=a;maxprocs=1;argc=1;argv0=x;argv1=y;",
        "cmd=spawn;ncmds=1;subcmd=a;maxprocs=1;argc=2;argv0=x;argv2=y;",
        "cmd=spawn;ncmds=2;subcmd=a;maxprocs=2147483647;argc=0;subcmd=a;maxprocs=1;argc=0;",
        "cmd=spawn;preputcount=0;subcmd=a;maxprocs=1;ncmds=1;argc=0;",
    };
    struct harness h;
    size_t i;

    h_init(&h);
    h_start(&h, 1);
    init2(&h, 0);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        h.n_diag = 0;
        assert_int_equal(say(&h, 0, v2(bad[i])), 0);
        assert_non_null(strstr(hear(&h, 0), "cmd=spawn-response;rc=-1;errmsg="));
        assert_int_equal(h.n_diag, 1);
        assert_int_equal(h.token, 0);
    }
    ask(&h, 0,
        v2("cmd=spawn;thrid=3;ncmds=2;preputcount=2;ppkey1=b;ppval1=;ppkey0=a;ppval0=x;;y;"
           "subcmd=p "
           "q;maxprocs=2;argc=2;argv0=-a;argv1=b;;c;infokeycount=1;infokey0=wdir;infoval0=/t;"
           "subcmd=r;maxprocs=1;argc=1;argv1=one;"),
        "");
    assert_string_equal(h.spawned, "put a=x;y;put b=;2*p q [-a] [b;c] wdir=/t;1*r [one];");
    assert_int_equal(pmiwire_server_spawn_done(h.s, h.token, 0, "kid", NULL, 0), 0);
    expect(&h, 0, v2("cmd=spawn-response;thrid=3;rc=0;jobid=kid;errcodes=0,0,0;"));
    ask(&h, 0, v2("cmd=spawn;ncmds=1;subcmd=a;maxprocs=1;"), "");
    assert_int_equal(pmiwire_server_spawn_done(h.s, h.token, PMIWIRE_ENOENT, NULL, NULL, 0), 0);
    expect(&h, 0, v2("cmd=spawn-response;rc=-1;errmsg=no such key, name, job or attribute;"));
    h_stop(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v1_session),
        cmocka_unit_test(test_v2_session),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_singinit),
        cmocka_unit_test(test_limits_of_pairs),
        cmocka_unit_test(test_spaces),
        cmocka_unit_test(test_nul_behind_values),
        cmocka_unit_test(test_values_across_wires),
        cmocka_unit_test(test_mixed_barrier),
        cmocka_unit_test(test_pipelining),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_node_attributes),
        cmocka_unit_test(test_node_attribute_of_slow_reader),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_outside_store),
        cmocka_unit_test(test_outside_names),
        cmocka_unit_test(test_names_of_others),
        cmocka_unit_test(test_all_waits),
        cmocka_unit_test(test_spawn_v1),
        cmocka_unit_test(test_spawn_v1_refused),
        cmocka_unit_test(test_spawn_v1_malformed),
        cmocka_unit_test(test_spawn_v2),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
