/* SPDX-License-Identifier: BSD-3-Clause */
/* The client session: init, every request, and requests that it refuses itself. */
#include "client_script.h"

/* ---- init ---- */

static void check_info(int version, int subversion)
{
    struct pmiwire_info_client info;

    pmiwire_client_query(session, &info);
    assert_int_equal(info.rank, 1);
    assert_int_equal(info.n_ranks, 4);
    assert_int_equal(info.appnum, 3);
    assert_int_equal(info.version, version);
    assert_int_equal(info.subversion, subversion);
    assert_int_equal(info.debugged, 0);
    assert_int_equal(info.spawned, 0);
    assert_int_equal(info.keylen_max, version == 1 ? 64 : 0);
    assert_int_equal(info.vallen_max, version == 1 ? 1024 : 0);
    assert_int_equal(info.kvsname_max, version == 1 ? 256 : 0);
    is_str(info.kvsname, version == 1 ? "kvs_1" : "");
}

static void test_init(void **state)
{
    struct pmiwire_client_opts o = options(PMIWIRE_V1);
    struct pmiwire_info_client info;

    for (step_bytes = 0; step_bytes < 8; step_bytes++) {
        o.wire = PMIWIRE_V1;
        create(&o);
        pmiwire_client_query(session, &info);
        assert_int_equal(info.n_ranks, 0);
        begin_v1();
        check_info(1, 1);
        o.wire = PMIWIRE_V2;
        create(&o);
        begin_v2();
        check_info(2, 0);
    }
    step_bytes = 0;
}

/* Hydra main answers 1.2 to any version, and pmiverbose=0 without a version in PMI-2. */
static void test_init_hydra_main(void **state)
{
    struct pmiwire_client_opts o = options(PMIWIRE_V1);
    struct pmiwire_info_client info;

    create(&o);
    sends(INIT_V1);
    assert_int_equal(hear("cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n"), 0);
    sends("cmd=get_maxes\n");
    assert_int_equal(hear("cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n"), 0);
    sends("cmd=get_appnum\n");
    assert_int_equal(hear("cmd=appnum rc=1 msg=it_is_not_known\n"), 0);
    sends("cmd=get_my_kvsname\n");
    answered("cmd=my_kvsname rc=0 kvsname=k\n", PMIWIRE_OP_INIT, 0);
    pmiwire_client_query(session, &info);
    assert_int_equal(info.subversion, 2);
    assert_int_equal(info.appnum, -1);
    assert_int_equal(pmiwire_client_fence(session, S("NODE:7"), 5), 0);
    sends("cmd=barrier_in group=NODE:7\n");
    answered("cmd=barrier_out tag=7\n", PMIWIRE_OP_FENCE, 0);
    assert_int_equal(ev.cookie, 5);

    o.wire = PMIWIRE_V2;
    o.jobid = "42.0";
    o.threaded = 1;
    create(&o);
    sends(INIT_V2);
    assert_int_equal(hear(INITED_V2), 0);
    sends(v2("cmd=fullinit;pmijobid=42.0;pmirank=1;threaded=TRUE;"));
    answered(v2("cmd=fullinit-response;rc=0;rank=2;size=3;appnum=0;spawner-jobid=41.0;debugged=1;"
                "pmiverbose=0;"),
             PMIWIRE_OP_INIT, 0);
    is_str(ev.value, "41.0");
    pmiwire_client_query(session, &info);
    assert_int_equal(info.rank, 2);
    assert_int_equal(info.n_ranks, 3);
    assert_int_equal(info.spawned, 1);
    assert_int_equal(info.debugged, 1);
}

/* PMI_PORT: our rank and size come in initack itself, in the three lines behind it, or in both. */
static void test_init_port(void **state)
{
    static const char *const acks[] = {
        "cmd=initack\ncmd=set size=4\ncmd=set rank=1\ncmd=set debug=1\n",
        ("cmd=initack rc=0 rank=1 size=4 appnum=3 debug=1\n"
         "cmd=set size=4\ncmd=set rank=1\ncmd=set debug=1\n"),
        "cmd=initack rc=0 rank=1 size=4 appnum=3 debug=1\n",
    };
    struct pmiwire_client_opts o = options(PMIWIRE_V1);
    struct pmiwire_info_client info;

    o.has_pmiid = 1;
    o.pmiid = 17;
    o.rank = -1;
    o.n_ranks = 0;
    for (size_t i = 0; i < 3; i++) {
        for (step_bytes = 0; step_bytes < 2; step_bytes++) {
            create(&o);
            sends("cmd=initack pmiid=17\n");
            assert_int_equal(hear(acks[i]), 0);
            sends(INIT_V1);
            assert_int_equal(hear(INITED_V1), 0);
            sends("cmd=get_maxes\n");
            assert_int_equal(hear(MAXES), 0);
            sends("cmd=get_appnum\n");
            assert_int_equal(hear("cmd=appnum appnum=3\n"), 0);
            sends("cmd=get_my_kvsname\n");
            answered("cmd=my_kvsname kvsname=k\n", PMIWIRE_OP_INIT, 0);
            pmiwire_client_query(session, &info);
            assert_int_equal(info.rank, 1);
            assert_int_equal(info.n_ranks, 4);
            assert_int_equal(info.debugged, 1);
        }
    }
    step_bytes = 0;
    /* A fourth `set` is one too many. */
    create(&o);
    sends("cmd=initack pmiid=17\n");
    answered("cmd=initack\ncmd=set size=4\ncmd=set rank=1\ncmd=set debug=0\ncmd=set debug=0\n",
             PMIWIRE_OP_INIT, PMIWIRE_EPROTO);
    /* In PMI-2 the server learns it from fullinit. */
    o.wire = PMIWIRE_V2;
    create(&o);
    sends(INIT_V2);
    assert_int_equal(hear(INITED_V2), 0);
    sends(v2("cmd=fullinit;pmirank=17;threaded=FALSE;"));
    answered(v2(FULLINITED), PMIWIRE_OP_INIT, 0);
}

/* A server that refuses, or answers another version or nonsense, ends the session with one
 * event. */
static void test_init_refused(void **state)
{
    static const struct {
        uint32_t wire;
        int rc, peer_rc;
        const char *replies[4];
    } cases[] = {
        {PMIWIRE_V1,
         PMIWIRE_EPEER,
         -1,
         {"cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1 msg=go_away\n"}},
        {PMIWIRE_V1, PMIWIRE_EPEER, 3, {"cmd=response_to_init rc=3\n"}},
        {PMIWIRE_V1,
         PMIWIRE_EVERSION,
         0,
         {"cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n"}},
        {PMIWIRE_V2,
         PMIWIRE_EVERSION,
         -1,
         {"cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1\n"}},
        {PMIWIRE_V1, PMIWIRE_EMISSING, 0, {"cmd=response_to_init rc=0\n"}},
        {PMIWIRE_V1, PMIWIRE_EPROTO, 0, {MAXES}},
        {PMIWIRE_V1, PMIWIRE_EPROTO, 0, {"cmd=set rank=1\n"}},
        {PMIWIRE_V1,
         PMIWIRE_EPROTO,
         0,
         {"mcmd=response_to_init\nrc=0\npmi_version=1\npmi_subversion=1\nendcmd\n"}},
        {PMIWIRE_V1, PMIWIRE_EPEER, 1, {INITED_V1, "cmd=maxes rc=1\n"}},
        {PMIWIRE_V1, PMIWIRE_EMISSING, 0, {INITED_V1, "cmd=maxes kvsname_max=1 keylen_max=64\n"}},
        {PMIWIRE_V1,
         PMIWIRE_ETYPE,
         0,
         {INITED_V1, "cmd=maxes kvsname_max=1 keylen_max=x vallen_max=2\n"}},
        {PMIWIRE_V1,
         PMIWIRE_EPEER,
         1,
         {INITED_V1, MAXES, "cmd=appnum appnum=0\n", "cmd=my_kvsname rc=1\n"}},
        {PMIWIRE_V1,
         PMIWIRE_EMISSING,
         0,
         {INITED_V1, MAXES, "cmd=appnum appnum=0\n", "cmd=my_kvsname\n"}},
        {PMIWIRE_V2, PMIWIRE_EBADLEN, 0, {INITED_V2, "nonsense"}},
        {PMIWIRE_V2,
         PMIWIRE_EPEER,
         14,
         {INITED_V2, "    37cmd=fullinit-response;rc=14;errmsg=no;"}},
        {PMIWIRE_V2,
         PMIWIRE_EPROTO,
         0,
         {INITED_V2, "    52cmd=fullinit-response;rc=0;rank=4;size=4;appnum=0;   "}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pmiwire_client_opts o = options(cases[i].wire);
        const char *body = NULL;

        create(&o);
        for (size_t k = 0; k < 4 && cases[i].replies[k]; k++) {
            const void *data;
            size_t n = pmiwire_client_output(session, &data);

            pmiwire_client_sent(session, n);
            assert_true(n > 0);
            body = cases[i].replies[k];
            if (strncmp(body, "    ", 4) == 0) { /* its length is made here */
                char text[200];

                snprintf(text, sizeof(text), "%s", body + 6);
                while (text[strlen(text) - 1] == ' ')
                    text[strlen(text) - 1] = '\0';
                body = v2(text);
            }
            if (k == 3 || !cases[i].replies[k + 1])
                break;
            assert_int_equal(hear(body), 0);
        }
        answered(body, PMIWIRE_OP_INIT, cases[i].rc);
        assert_int_equal(ev.peer_rc, cases[i].peer_rc);
        assert_int_equal(pmiwire_client_next(session, &ev, NULL), cases[i].rc);
        assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 0), cases[i].rc);
    }
}

/* ---- every request on both wires ---- */

static void test_ops_v1(void **state)
{
    for (step_bytes = 0; step_bytes < 3; step_bytes++) {
        fresh(PMIWIRE_V1, 0);
        assert_int_equal(pmiwire_client_put(session, S("key"), S("a=b"), PMIWIRE_HINT_NONE, 7), 0);
        sends("cmd=put kvsname=kvs_1 key=key value=a=b\n");
        answered("cmd=put_result rc=0 msg=success\n", PMIWIRE_OP_PUT, 0);
        assert_int_equal(ev.cookie, 7);
        is_str(ev.text, "success");
        assert_non_null(ev.msg);
        assert_int_equal(pmiwire_client_get(session, absent, 3, S("key"), PMIWIRE_GET_LOCAL, 8), 0);
        sends("cmd=get kvsname=kvs_1 key=key\n");
        answered("cmd=get_result rc=0 x-shm=1 value=a=b\n", PMIWIRE_OP_GET, 0);
        is_str(ev.value, "a=b");
        is_str(ev.msg->fields[1].key, "x-shm");
        is_str(ev.msg->fields[1].value, "1");
        assert_int_equal(
            pmiwire_client_get(session, S("other"), -1, S("key"), PMIWIRE_GET_LOCAL, 8), 0);
        sends("cmd=get kvsname=other key=key\n");
        answered("cmd=get_result rc=-1 msg=key_not_found value=unknown\n", PMIWIRE_OP_GET,
                 PMIWIRE_ENOENT);
        assert_int_equal(ev.peer_rc, -1);
        assert_null(ev.value.ptr);
        assert_int_equal(pmiwire_client_get(session, absent, -1, S("key"), PMIWIRE_GET_LOCAL, 8),
                         0);
        sends("cmd=get kvsname=kvs_1 key=key\n");
        answered("cmd=get_result rc=5\n", PMIWIRE_OP_GET, PMIWIRE_EPEER);
        assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 9), 0);
        sends("cmd=barrier_in\n");
        answered("cmd=barrier_out\n", PMIWIRE_OP_FENCE, 0);
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_KVSNAME, pmiwire_strz(NULL), 0),
                         0);
        sends("cmd=get_my_kvsname\n");
        answered("cmd=my_kvsname kvsname=kvs_1\n", PMIWIRE_OP_KVSNAME, 0);
        is_str(ev.value, "kvs_1");
        assert_int_equal(
            pmiwire_client_request(session, PMIWIRE_OP_UNIVERSE_SIZE, pmiwire_strz(NULL), 0), 0);
        sends("cmd=get_universe_size\n");
        answered("cmd=universe_size size=-1\n", PMIWIRE_OP_UNIVERSE_SIZE, 0);
        assert_int_equal(ev.number, -1);
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_APPNUM, pmiwire_strz(NULL), 0),
                         0);
        sends("cmd=get_appnum\n");
        answered("cmd=appnum appnum=3\n", PMIWIRE_OP_APPNUM, 0);
        assert_int_equal(ev.number, 3);
        assert_int_equal(
            pmiwire_client_request(session, PMIWIRE_OP_JOBATTR, S("PMI_process_mapping"), 0), 0);
        sends("cmd=get kvsname=kvs_1 key=PMI_process_mapping\n");
        answered("cmd=get_result rc=0 msg=success value=(vector,(0,1,1))\n", PMIWIRE_OP_JOBATTR, 0);
        is_str(ev.value, "(vector,(0,1,1))");
        assert_int_equal(pmiwire_client_publish(session, S("svc"), S("p:1"), 0), 0);
        sends("cmd=publish_name service=svc port=p:1\n");
        answered("cmd=publish_result rc=0 info=ok\n", PMIWIRE_OP_PUBLISH, 0);
        assert_int_equal(pmiwire_client_publish(session, S("svc"), S("p:1"), 0), 0);
        sends("cmd=publish_name service=svc port=p:1\n");
        answered("cmd=publish_result info=fail\n", PMIWIRE_OP_PUBLISH, PMIWIRE_EPEER);
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_LOOKUP, S("svc"), 0), 0);
        sends("cmd=lookup_name service=svc\n");
        answered("cmd=lookup_result info=ok port=p:1\n", PMIWIRE_OP_LOOKUP, 0);
        is_str(ev.value, "p:1");
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_LOOKUP, S("svc"), 0), 0);
        sends("cmd=lookup_name service=svc\n");
        answered("cmd=lookup_result info=fail\n", PMIWIRE_OP_LOOKUP, PMIWIRE_ENOENT);
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_UNPUBLISH, S("svc"), 0), 0);
        sends("cmd=unpublish_name service=svc\n");
        answered("cmd=unpublish_result rc=1 info=fail\n", PMIWIRE_OP_UNPUBLISH, PMIWIRE_EPEER);
        assert_int_equal(ev.peer_rc, 1);
        assert_int_equal(pmiwire_client_abort(session, 3, S("why"), 4), 0);
        assert_int_equal(pmiwire_client_next(session, &ev, NULL), 0);
        sends("cmd=abort exitcode=3 message=why\n");
        assert_int_equal(pmiwire_client_next(session, &ev, NULL), 1);
        assert_int_equal(ev.op, PMIWIRE_OP_ABORT);
        assert_int_equal(ev.rc, 0);
        assert_int_equal(ev.cookie, 4);
        assert_null(ev.msg);
        assert_int_equal(pmiwire_client_finalize(session, 6), 0);
        assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 9), PMIWIRE_ESTATE);
        assert_int_equal(pmiwire_client_finalize(session, 6), PMIWIRE_ESTATE);
        sends("cmd=finalize\n");
        answered("cmd=finalize_ack rc=0\n", PMIWIRE_OP_FINALIZE, 0);
        assert_int_equal(ev.cookie, 6);
        pmiwire_client_eof(session);
        assert_int_equal(pmiwire_client_next(session, &ev, NULL), PMIWIRE_ESTATE);
        assert_int_equal(pmiwire_client_input(session, "x", 1), PMIWIRE_ESTATE);
        assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 9), PMIWIRE_ESTATE);
    }
}

static void test_ops_v2(void **state)
{
    for (step_bytes = 0; step_bytes < 3; step_bytes++) {
        struct pmiwire_info_client info;

        fresh(PMIWIRE_V2, 0);
        assert_int_equal(pmiwire_client_put(session, S("key"), S("a=b"), PMIWIRE_HINT_NONE, 7), 0);
        sends(v2("cmd=kvs-put;key=key;value=a=b;"));
        answered(v2("cmd=kvs-put-response;rc=0;"), PMIWIRE_OP_PUT, 0);
        assert_int_equal(ev.cookie, 7);
        assert_int_equal(pmiwire_client_put(session, S("key"), S("v"), PMIWIRE_HINT_NONE, 7), 0);
        sends(v2("cmd=kvs-put;key=key;value=v;"));
        answered(v2("cmd=kvs-put-response;rc=7;errmsg=too;;long;"), PMIWIRE_OP_PUT, PMIWIRE_EPEER);
        assert_int_equal(ev.peer_rc, 7);
        is_str(ev.text, "too;long");
        assert_int_equal(pmiwire_client_get(session, absent, 3, S("key"), PMIWIRE_GET_LOCAL, 8), 0);
        sends(v2("cmd=kvs-get;srcid=3;key=key;"));
        answered(v2("cmd=kvs-get-response;rc=0;found=TRUE;value=a;;b;;;;c;"), PMIWIRE_OP_GET, 0);
        is_str(ev.value, "a;b;;c");
        assert_int_equal(pmiwire_client_get(session, S("job"), -1, S("key"), PMIWIRE_GET_LOCAL, 8),
                         0);
        sends(v2("cmd=kvs-get;jobid=job;key=key;"));
        answered(v2("cmd=kvs-get-response;rc=0;found=FALSE;"), PMIWIRE_OP_GET, PMIWIRE_ENOENT);
        assert_int_equal(pmiwire_client_get(session, S("job"), -1, S("key"), PMIWIRE_GET_LOCAL, 8),
                         0);
        sends(v2("cmd=kvs-get;jobid=job;key=key;"));
        answered(v2("cmd=kvs-get-response;rc=-1;errmsg=no;"), PMIWIRE_OP_GET, PMIWIRE_EPEER);
        assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 9), 0);
        sends(v2("cmd=kvs-fence;"));
        answered(v2("cmd=kvs-fence-response;rc=0;"), PMIWIRE_OP_FENCE, 0);
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_KVSNAME, pmiwire_strz(NULL), 0),
                         0);
        sends(v2("cmd=job-getid;"));
        answered(v2("cmd=job-getid-response;rc=0;jobid=42.0;"), PMIWIRE_OP_KVSNAME, 0);
        is_str(ev.value, "42.0");
        pmiwire_client_query(session, &info);
        is_str(info.kvsname, "42.0");
        /* A server's later answer does not change a view that the caller holds. */
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_KVSNAME, pmiwire_strz(NULL), 0),
                         0);
        sends(v2("cmd=job-getid;"));
        answered(v2("cmd=job-getid-response;rc=0;jobid=9999;"), PMIWIRE_OP_KVSNAME, 0);
        is_str(ev.value, "9999");
        is_str(info.kvsname, "42.0");
        assert_int_equal(
            pmiwire_client_request(session, PMIWIRE_OP_UNIVERSE_SIZE, pmiwire_strz(NULL), 0), 0);
        sends(v2("cmd=info-getjobattr;key=universeSize;"));
        answered(v2("cmd=info-getjobattr-response;rc=0;found=TRUE;value=8;"),
                 PMIWIRE_OP_UNIVERSE_SIZE, 0);
        assert_int_equal(ev.number, 8);
        assert_int_equal(
            pmiwire_client_request(session, PMIWIRE_OP_UNIVERSE_SIZE, pmiwire_strz(NULL), 0), 0);
        sends(v2("cmd=info-getjobattr;key=universeSize;"));
        answered(v2("cmd=info-getjobattr-response;rc=0;found=FALSE;"), PMIWIRE_OP_UNIVERSE_SIZE, 0);
        assert_int_equal(ev.number, -1);
        is_str(info.kvsname, "42.0");
        /* No message for this one. */
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_APPNUM, pmiwire_strz(NULL), 2),
                         0);
        assert_int_equal(pmiwire_client_next(session, &ev, NULL), 1);
        assert_int_equal(ev.op, PMIWIRE_OP_APPNUM);
        assert_int_equal(ev.number, 3);
        assert_null(ev.msg);
        assert_int_equal(
            pmiwire_client_request(session, PMIWIRE_OP_JOBATTR, S("PMI_process_mapping"), 0), 0);
        sends(v2("cmd=info-getjobattr;key=PMI_process_mapping;"));
        answered(v2("cmd=info-getjobattr-response;rc=0;found=TRUE;value=(vector,(0,1,1));"),
                 PMIWIRE_OP_JOBATTR, 0);
        is_str(ev.value, "(vector,(0,1,1))");
        assert_int_equal(pmiwire_client_nodeattr_put(session, S("k"), S("v"), 0), 0);
        sends(v2("cmd=info-putnodeattr;key=k;value=v;"));
        answered(v2("cmd=info-putnodeattr-response;rc=0;"), PMIWIRE_OP_NODEATTR_PUT, 0);
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_NODEATTR_WAIT, S("k"), 0), 0);
        sends(v2("cmd=info-getnodeattr;key=k;wait=TRUE;"));
        answered(v2("cmd=info-getnodeattr-response;rc=0;found=TRUE;value=v;"),
                 PMIWIRE_OP_NODEATTR_WAIT, 0);
        is_str(ev.value, "v");
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_NODEATTR_GET, S("k"), 0), 0);
        sends(v2("cmd=info-getnodeattr;key=k;wait=FALSE;"));
        answered(v2("cmd=info-getnodeattr-response;rc=0;found=FALSE;"), PMIWIRE_OP_NODEATTR_GET,
                 PMIWIRE_ENOENT);
        assert_int_equal(pmiwire_client_publish(session, S("svc"), S("p:1"), 0), 0);
        sends(v2("cmd=name-publish;name=svc;port=p:1;"));
        answered(v2("cmd=name-publish-response;rc=0;"), PMIWIRE_OP_PUBLISH, 0);
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_LOOKUP, S("svc"), 0), 0);
        sends(v2("cmd=name-lookup;name=svc;"));
        answered(v2("cmd=name-lookup-response;rc=0;value=p:1;"), PMIWIRE_OP_LOOKUP, 0);
        is_str(ev.value, "p:1");
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_LOOKUP, S("svc"), 0), 0);
        sends(v2("cmd=name-lookup;name=svc;"));
        answered(v2("cmd=name-lookup-response;rc=0;port=p:2;value=p:1;"), PMIWIRE_OP_LOOKUP, 0);
        is_str(ev.value, "p:2");
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_LOOKUP, S("svc"), 0), 0);
        sends(v2("cmd=name-lookup;name=svc;"));
        answered(v2("cmd=name-lookup-response;rc=1;"), PMIWIRE_OP_LOOKUP, PMIWIRE_ENOENT);
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_UNPUBLISH, S("svc"), 0), 0);
        sends(v2("cmd=name-unpublish;name=svc;"));
        answered(v2("cmd=name-unpublish-response;rc=0;"), PMIWIRE_OP_UNPUBLISH, 0);
        assert_int_equal(pmiwire_client_ring(session, S("me"), 0), 0);
        sends(v2("cmd=ring;ring-count=1;ring-left=me;ring-right=me;"));
        answered(v2("cmd=ring-response;rc=0;ring-count=2;ring-left=x;;y;ring-right=z;;;"),
                 PMIWIRE_OP_RING, 0);
        assert_int_equal(ev.number, 2);
        is_str(ev.value, "x;y");
        is_str(ev.value2, "z;");
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_JOB_CONNECT, S("43.0"), 0), 0);
        sends(v2("cmd=job-connect;jobid=43.0;"));
        answered(v2("cmd=job-connect-response;rc=0;"), PMIWIRE_OP_JOB_CONNECT, 0);
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_JOB_DISCONNECT, S("43.0"), 0),
                         0);
        sends(v2("cmd=job-disconnect;jobid=43.0;"));
        answered(v2("cmd=job-disconnect-response;rc=0;"), PMIWIRE_OP_JOB_DISCONNECT, 0);
        assert_int_equal(pmiwire_client_abort(session, 3, S("why"), 4), 0);
        sends(v2("cmd=abort;isworld=TRUE;exitcode=3;msg=why;message=why;"));
        assert_int_equal(pmiwire_client_next(session, &ev, NULL), 1);
        assert_int_equal(ev.op, PMIWIRE_OP_ABORT);
        assert_int_equal(pmiwire_client_finalize(session, 6), 0);
        sends(v2("cmd=finalize;"));
        answered(v2("cmd=finalize-response;rc=0;"), PMIWIRE_OP_FINALIZE, 0);
        assert_int_equal(pmiwire_client_next(session, &ev, NULL), PMIWIRE_ESTATE);
    }
}

static void test_spawn(void **state)
{
    const struct pmiwire_str argv[] = {S("-x"), S("y")};
    const struct pmiwire_keyval preput[] = {{S("pk"), S("pv")}, {S("pk2"), S("pv2")}};
    const struct pmiwire_keyval info[] = {{S("wdir"), S("/tmp")}};
    const struct pmiwire_spawn_cmd cmds[] = {
        {.execname = S("./a"), .maxprocs = 2, .argc = 2, .argv = argv, .n_info = 1, .info = info},
        {.execname = S("./b"), .maxprocs = 1},
    };
    const struct pmiwire_spawn_cmd bad[] = {cmds[0], {.execname = S("./a\nb"), .maxprocs = 1}};
    struct pmiwire_spawn req = {.n_cmds = 2, .n_preput = 2, .cmds = bad, .preput = preput};
    struct pmiwire_client_opts o = options(PMIWIRE_V2);

    fresh(PMIWIRE_V1, 0);
    /* When the second message is refused, the first one must not go out. */
    assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 1), 0);
    sends("cmd=barrier_in\n");
    assert_int_equal(pmiwire_client_spawn(session, &req, 1), PMIWIRE_ECHARS);
    answered("cmd=barrier_out\n", PMIWIRE_OP_FENCE, 0);
    idle();
    req.cmds = cmds;
    assert_int_equal(pmiwire_client_spawn(session, &req, 1), 0);
    sends("mcmd=spawn\nnprocs=2\nexecname=./"
          "a\ntotspawns=2\nspawnssofar=1\nargcnt=2\narg1=-x\narg2=y\n"
          "preput_num=2\npreput_key_0=pk\npreput_val_0=pv\npreput_key_1=pk2\npreput_val_1=pv2\n"
          "info_num=1\ninfo_key_0=wdir\ninfo_val_0=/tmp\nendcmd\n"
          "mcmd=spawn\nnprocs=1\nexecname=./"
          "b\ntotspawns=2\nspawnssofar=2\nargcnt=0\npreput_num=0\ninfo_num=0\nendcmd\n");
    answered("cmd=spawn_result rc=0 jobid=kvs_2 errcodes=0,0,0\n", PMIWIRE_OP_SPAWN, 0);
    is_str(ev.value, "kvs_2");
    assert_int_equal(pmiwire_msg_str(ev.msg, PMIWIRE_F_ERRCODES, &ev.value2), 0);
    is_str(ev.value2, "0,0,0");
    assert_int_equal(pmiwire_client_spawn(session, &req, 1), 0);
    assert_true(pmiwire_client_output(session, &(const void *){NULL}) > 0);
    pmiwire_client_sent(session, 1u << 20);
    answered(v2("cmd=spawn-response;rc=14;errmsg=no;"), PMIWIRE_OP_SPAWN,
             PMIWIRE_EPEER); /* as in Slurm */
    idle();

    o.server = pmiwire_profile_find("slurmstepd");
    fresh_with(&o);
    assert_int_equal(pmiwire_client_spawn(session, &req, 1), 0);
    sends(v2(
        "cmd=spawn;ncmds=2;preputcount=2;ppkey0=pk;ppval0=pv;ppkey1=pk2;ppval1=pv2;subcmd=./"
        "a;maxprocs=2;argc=2;"
        "argv0=-x;argv1=y;infokeycount=1;infokey0=wdir;infoval0=/tmp;subcmd=./b;maxprocs=1;argc=0;"
        "infokeycount=0;"));
    answered(v2("cmd=spawn-response;rc=0;jobid=43.0;errcodes=0;errcodes=0;"), PMIWIRE_OP_SPAWN, 0);
    is_str(ev.value, "43.0");
    for (unsigned wire = PMIWIRE_V1; wire <= PMIWIRE_V2; wire++) {
        const struct pmiwire_spawn_cmd refused[] = {
            {.maxprocs = 1},
            {.execname = S("a")},
            {.execname = S("a"), .maxprocs = 1u << 31},
            {.execname = S("a"), .maxprocs = 1, .argc = 1},
            {.execname = S("a"), .maxprocs = 1, .n_info = 1},
        };

        fresh(wire, 0);
        for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
            const struct pmiwire_spawn_cmd two[] = {cmds[0], refused[i]};
            const struct pmiwire_spawn bad_req = {.n_cmds = 2, .cmds = two};

            assert_int_equal(pmiwire_client_spawn(session, &bad_req, 1),
                             i == 0 ? PMIWIRE_EEMPTY : -EINVAL);
            idle();
        }
        assert_int_equal(pmiwire_client_spawn(session, &(struct pmiwire_spawn){.n_cmds = 1}, 1),
                         -EINVAL);
        assert_int_equal(
            pmiwire_client_spawn(
                session, &(struct pmiwire_spawn){.n_cmds = 1, .cmds = cmds, .n_preput = 1}, 1),
            -EINVAL);
    }
    req.n_cmds = 0;
    assert_int_equal(pmiwire_client_spawn(session, &req, 1), -EINVAL);
    assert_int_equal(pmiwire_client_spawn(session, NULL, 1), -EINVAL);
    idle();
}

/* ---- refused locally: nothing is sent, and the session continues ---- */

static void test_refused(void **state)
{
    char text[2000];
    struct pmiwire_client_opts o = options(PMIWIRE_V1);

    memset(text, 'x', sizeof(text));
    for (uint32_t wire = PMIWIRE_V1; wire <= PMIWIRE_V2; wire++) {
        o.wire = wire;
        create(&o);
        assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 0), PMIWIRE_ESTATE);
        assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 0), PMIWIRE_ESTATE);
        assert_int_equal(pmiwire_client_abort(session, 0, absent, 0), PMIWIRE_ESTATE);
        fresh(wire, 0);
        assert_int_equal(pmiwire_client_put(session, absent, S("v"), PMIWIRE_HINT_NONE, 0),
                         PMIWIRE_EEMPTY);
        assert_int_equal(pmiwire_client_put(session, S("k"), absent, PMIWIRE_HINT_NONE, 0),
                         PMIWIRE_EEMPTY);
        assert_int_equal(pmiwire_client_put(session, S("k"), S(""), PMIWIRE_HINT_NONE, 0),
                         PMIWIRE_EEMPTY);
        assert_int_equal(pmiwire_client_put(session, S("k=k"), S("v"), PMIWIRE_HINT_NONE, 0),
                         PMIWIRE_ECHARS);
        assert_int_equal(pmiwire_client_put(session, S("k k"), S("v"), PMIWIRE_HINT_NONE, 0),
                         PMIWIRE_ECHARS);
        assert_int_equal(pmiwire_client_put(session, S("k"), S("a b"), PMIWIRE_HINT_NONE, 0),
                         PMIWIRE_ECHARS);
        if (wire == PMIWIRE_V2) /* in PMI-1 it is an ordinary byte */
            assert_int_equal(pmiwire_client_put(session, S("k"), S("a;b"), PMIWIRE_HINT_NONE, 0),
                             PMIWIRE_ECHARS);
        assert_int_equal(pmiwire_client_put(session, S("k"), S("a\\b"), PMIWIRE_HINT_NONE, 0),
                         PMIWIRE_ECHARS);
        assert_int_equal(pmiwire_client_put(session, S("k"), S("a\nb"), PMIWIRE_HINT_NONE, 0),
                         PMIWIRE_ECHARS);
        assert_int_equal(pmiwire_client_put(session, S("k"), (struct pmiwire_str){"a\0b", 3},
                                            PMIWIRE_HINT_NONE, 0),
                         PMIWIRE_ECHARS);
        assert_int_equal(pmiwire_client_put(session, (struct pmiwire_str){text, 64}, S("v"),
                                            PMIWIRE_HINT_NONE, 0),
                         PMIWIRE_EKEYLEN);
        assert_int_equal(pmiwire_client_put(session, S("k"), (struct pmiwire_str){text, 1024},
                                            PMIWIRE_HINT_NONE, 0),
                         PMIWIRE_EVALLEN);
        assert_int_equal(pmiwire_client_get(session, absent, -1, (struct pmiwire_str){text, 64},
                                            PMIWIRE_GET_LOCAL, 0),
                         PMIWIRE_EKEYLEN);
        assert_int_equal(pmiwire_client_get(session, S(""), -1, S("k"), PMIWIRE_GET_LOCAL, 0),
                         PMIWIRE_EEMPTY);
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_JOBATTR, absent, 0),
                         PMIWIRE_EEMPTY);
        assert_int_equal(pmiwire_client_publish(session, S("a b"), S("p"), 0), PMIWIRE_ECHARS);
        assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_LOOKUP, absent, 0),
                         PMIWIRE_EEMPTY);
        assert_int_equal(pmiwire_client_fence(session, S("WORLD:1"), 0), PMIWIRE_EVERSION);
        assert_int_equal(pmiwire_client_get(session, S("j"), -1, S("k"), PMIWIRE_GET_WAIT, 0),
                         -EINVAL);
        assert_int_equal(pmiwire_client_get(session, absent, -1, S("k"), PMIWIRE_GET_WAIT + 1, 0),
                         -EINVAL);
        assert_int_equal(pmiwire_client_get(session, absent, -1, S("k"), PMIWIRE_GET_WAIT, 0),
                         PMIWIRE_EVERSION);
        for (uint32_t op = 0; op < 30; op++)
            if (op != PMIWIRE_OP_KVSNAME && op != PMIWIRE_OP_UNIVERSE_SIZE &&
                op != PMIWIRE_OP_APPNUM && op != PMIWIRE_OP_JOBATTR &&
                op != PMIWIRE_OP_NODEATTR_GET && op != PMIWIRE_OP_NODEATTR_WAIT &&
                op != PMIWIRE_OP_UNPUBLISH && op != PMIWIRE_OP_LOOKUP &&
                op != PMIWIRE_OP_JOB_CONNECT && op != PMIWIRE_OP_JOB_DISCONNECT)
                assert_int_equal(pmiwire_client_request(session, op, S("k"), 0), -EINVAL);
        if (wire == PMIWIRE_V1) {
            assert_int_equal(pmiwire_client_ring(session, S("v"), 0), PMIWIRE_EVERSION);
            assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_NODEATTR_GET, S("k"), 0),
                             PMIWIRE_EVERSION);
            assert_int_equal(pmiwire_client_nodeattr_put(session, S("k"), S("v"), 0),
                             PMIWIRE_EVERSION);
            assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_JOB_CONNECT, S("k"), 0),
                             PMIWIRE_EVERSION);
            assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_JOB_DISCONNECT, S("k"), 0),
                             PMIWIRE_EVERSION);
        }
        idle();
        assert_int_equal(
            pmiwire_client_put(session, (struct pmiwire_str){text, 63},
                               (struct pmiwire_str){text, wire == PMIWIRE_V1 ? 900 : 1023},
                               PMIWIRE_HINT_NONE, 0),
            0);
    }
    /* The server's own maxima count too, whatever its profile. */
    o.wire = PMIWIRE_V1;
    o.server = pmiwire_profile_find("flux");
    create(&o);
    sends(INIT_V1);
    assert_int_equal(hear(INITED_V1), 0);
    sends("cmd=get_maxes\n");
    assert_int_equal(hear("cmd=maxes kvsname_max=256 keylen_max=9 vallen_max=11\n"), 0);
    sends("cmd=get_appnum\n");
    assert_int_equal(hear("cmd=appnum appnum=3\n"), 0);
    sends("cmd=get_my_kvsname\n");
    answered("cmd=my_kvsname kvsname=k\n", PMIWIRE_OP_INIT, 0);
    assert_int_equal(
        pmiwire_client_put(session, (struct pmiwire_str){text, 9}, S("v"), PMIWIRE_HINT_NONE, 0),
        PMIWIRE_EKEYLEN);
    assert_int_equal(pmiwire_client_get(session, absent, -1, (struct pmiwire_str){text, 9},
                                        PMIWIRE_GET_LOCAL, 0),
                     PMIWIRE_EKEYLEN);
    assert_int_equal(
        pmiwire_client_put(session, S("k"), (struct pmiwire_str){text, 11}, PMIWIRE_HINT_NONE, 0),
        PMIWIRE_EVALLEN);
    /* This one carries blanks, both ways. */
    assert_int_equal(
        pmiwire_client_put(session, S("kkkkkkkk"), S("a b c d ef"), PMIWIRE_HINT_NONE, 0), 0);
    sends("cmd=put kvsname=k key=kkkkkkkk value=a b c d ef\n");
    answered("cmd=put_result rc=0\n", PMIWIRE_OP_PUT, 0);
    assert_int_equal(pmiwire_client_get(session, absent, -1, S("k"), PMIWIRE_GET_LOCAL, 0), 0);
    sends("cmd=get kvsname=k key=k\n");
    answered("cmd=get_result rc=0 value=a b c d ef\n", PMIWIRE_OP_GET, 0);
    is_str(ev.value, "a b c d ef");
}

/* ---- Allgather ---- */

#define FP_INITED_V1                                                                               \
    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0 fp-server=1 fp-exchange=1\n"
#define FP_FULLINITED                                                                              \
    "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=4;appnum=3;debugged="   \
    "FALSE;pmiverbose=FALSE;fp-server=1;fp-exchange=1;"

/* A session with a server of this project. */
static void fresh_with_ours(uint32_t wire, uint32_t flags)
{
    struct pmiwire_client_opts o = options(wire);

    o.flags = flags;
    create(&o);
    if (wire == PMIWIRE_V2) {
        sends(INIT_V2);
        assert_int_equal(hear(INITED_V2), 0);
        sends(v2(FULLINIT));
        answered(v2(FP_FULLINITED), PMIWIRE_OP_INIT, 0);
        return;
    }
    sends(INIT_V1);
    assert_int_equal(hear(FP_INITED_V1), 0);
    sends("cmd=get_maxes\n");
    assert_int_equal(hear(MAXES), 0);
    sends("cmd=get_appnum\n");
    assert_int_equal(hear("cmd=appnum appnum=3\n"), 0);
    sends("cmd=get_my_kvsname\n");
    answered("cmd=my_kvsname kvsname=kvs_1\n", PMIWIRE_OP_INIT, 0);
}

static void test_gather(void **state)
{
    static const char any[] = "a b;c\\d%e\n\xff";
    char longest[1023], encoded[sizeof(longest) * 3 + 1] = "", request[4000];
    struct pmiwire_str array;

    fresh_with_ours(PMIWIRE_V1, 0);
    assert_int_equal(pmiwire_client_gather(session, S("card:7"), 5), 0);
    sends("cmd=barrier_in fp-gather=card:7\n");
    answered("cmd=barrier_out fp-array=where\n", PMIWIRE_OP_GATHER, 0);
    assert_int_equal(ev.cookie, 5);
    assert_int_equal(pmiwire_msg_ext(ev.msg, PMIWIRE_EXT_ARRAY, &array), 0);
    is_str(array, "where");
    assert_int_equal(pmiwire_client_gather(session, (struct pmiwire_str){any, sizeof(any) - 1}, 6),
                     0);
    sends("cmd=barrier_in fp-gather=a%20b%3Bc%5Cd%25e%0A%FF\n");
    answered("cmd=barrier_out rc=-1 msg=rank_2_is_gone\n", PMIWIRE_OP_GATHER, PMIWIRE_EPEER);
    /* The longest value, of bytes that all need three. */
    memset(longest, ' ', sizeof(longest));
    for (size_t i = 0; i < sizeof(longest); i++)
        memcpy(encoded + 3 * i, "%20", 4);
    assert_int_equal(
        pmiwire_client_gather(session, (struct pmiwire_str){longest, sizeof(longest)}, 7), 0);
    snprintf(request, sizeof(request), "cmd=barrier_in fp-gather=%s\n", encoded);
    sends(request);
    answered("cmd=barrier_out\n", PMIWIRE_OP_GATHER, 0);
    assert_int_equal(
        pmiwire_client_gather(session, (struct pmiwire_str){longest, sizeof(longest) + 1}, 7),
        PMIWIRE_EVALLEN);
    assert_int_equal(pmiwire_client_gather(session, absent, 7), PMIWIRE_EEMPTY);
    idle();

    fresh_with_ours(PMIWIRE_V2, 0);
    assert_int_equal(pmiwire_client_gather(session, S("x y"), 8), 0);
    sends(v2("cmd=kvs-fence;fp-gather=x%20y;"));
    answered(v2("cmd=kvs-fence-response;rc=0;"), PMIWIRE_OP_GATHER, 0);
    assert_int_equal(pmiwire_msg_ext(ev.msg, PMIWIRE_EXT_ARRAY, &array), PMIWIRE_EMISSING);
    for (uint32_t wire = PMIWIRE_V1; wire <= PMIWIRE_V2; wire++) {
        fresh(wire, 0);
        assert_int_equal(pmiwire_client_gather(session, S("x"), 9), PMIWIRE_EVERSION);
        idle();
    }
}

/* Requests go out at once to a server of this project, one by one to others. */
static void test_pipeline_known(void **state)
{
    fresh_with_ours(PMIWIRE_V1, PMIWIRE_CLIENT_PIPELINE_KNOWN);
    assert_int_equal(pmiwire_client_fence(session, absent, 1), 0);
    assert_int_equal(pmiwire_client_put(session, S("k"), S("v"), PMIWIRE_HINT_NONE, 2), 0);
    sends("cmd=barrier_in\ncmd=put kvsname=kvs_1 key=k value=v\n");
    fresh(PMIWIRE_V1, PMIWIRE_CLIENT_PIPELINE_KNOWN);
    assert_int_equal(pmiwire_client_fence(session, absent, 1), 0);
    assert_int_equal(pmiwire_client_put(session, S("k"), S("v"), PMIWIRE_HINT_NONE, 2), 0);
    sends("cmd=barrier_in\n");
    answered("cmd=barrier_out\n", PMIWIRE_OP_FENCE, 0);
    sends("cmd=put kvsname=kvs_1 key=k value=v\n");
}

/* Behind a fence in flight the session sends at most max_msg_bytes of whole requests; an abort
 * bypasses that. */
static void test_window(void **state)
{
    struct pmiwire_client_opts o = options(PMIWIRE_V1);
    const char *fence = "cmd=barrier_in\n", *put = "cmd=put kvsname=kvs_1 key=k value=12345678\n";
    const size_t one = strlen(put);
    size_t sent = 0, n = 1, n_puts = 0;
    const void *data;

    o.flags = PMIWIRE_CLIENT_PIPELINE;
    o.max_msg_bytes = 256;
    fresh_with(&o);
    assert_int_equal(pmiwire_client_fence(session, absent, 1), 0);
    sends(fence);
    for (; n > 0; sent += n) {
        while (pmiwire_client_put(session, S("k"), S("12345678"), PMIWIRE_HINT_NONE, 2) == 0)
            n_puts++;
        n = pmiwire_client_output(session, &data);
        pmiwire_client_sent(session, n);
    }
    assert_int_equal(sent, 256 / one * one);
    assert_true(n_puts * one > sent);
    /* With the fence's answer one more goes out behind the put that is next. */
    answered("cmd=barrier_out\n", PMIWIRE_OP_FENCE, 0);
    n = pmiwire_client_output(session, &data);
    assert_int_equal(n, one);
    assert_memory_equal(data, put, one);
    pmiwire_client_sent(session, n);
    answered("cmd=put_result rc=0\n", PMIWIRE_OP_PUT, 0);
    assert_int_equal(pmiwire_client_output(session, &data), one);
    for (uint32_t i = 1; i < n_puts; i++) {
        pmiwire_client_sent(session, SIZE_MAX);
        answered("cmd=put_result rc=0\n", PMIWIRE_OP_PUT, 0);
    }
    idle();
}

static void test_bad_options(void **state)
{
    struct pmiwire_client_opts o;

#define BAD(change)                                                                                \
    do {                                                                                           \
        o = options(PMIWIRE_V1);                                                                   \
        change;                                                                                    \
        assert_int_equal(pmiwire_client_create(&o, &session), -EINVAL);                            \
        assert_null(session);                                                                      \
    } while (0)
    BAD(o.size = 0);
    BAD(o.wire = 3);
    BAD(o.flags = 8);
    BAD(o.rank = -1);
    BAD(o.rank = 4);
    BAD(o.n_ranks = 0);
    BAD(o.reserved = 1);
    BAD(o.max_msg_bytes = 255);
    BAD(o.max_msg_bytes = (size_t)1 << 30 | 1);
    BAD(o.max_msg_bytes = SIZE_MAX / 2);
    BAD(o.max_fields = 15);
    BAD(o.max_fields = (1 << 20) + 1);
    BAD(o.max_fields = UINT32_MAX);
    BAD((o.has_pmiid = 1, o.pmiid = -1));
    BAD(o.server = pmiwire_profile_find("slurm-libpmi2"));
    BAD((o.wire = PMIWIRE_V2, o.server = pmiwire_profile_find("flux")));
    BAD((o.max_msg_bytes = 260, o.jobid = "a job's id that is too long"));
    o = options(PMIWIRE_V1);
    o.max_msg_bytes = 256;
    o.max_fields = 16;
    assert_int_equal(pmiwire_client_create(&o, &session), 0);
    pmiwire_client_destroy(session);
    session = NULL;
    assert_int_equal(pmiwire_client_create(NULL, &session), -EINVAL);
    assert_int_equal(pmiwire_client_create(&o, NULL), -EINVAL);
    o = options(PMIWIRE_V1);
    /* A job id that the wire cannot carry fails at once. */
    o.wire = PMIWIRE_V2;
    o.jobid = "a;b";
    assert_int_equal(pmiwire_client_create(&o, &session), PMIWIRE_ECHARS);
    assert_null(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_init, cleanup),
        cmocka_unit_test_teardown(test_init_hydra_main, cleanup),
        cmocka_unit_test_teardown(test_init_port, cleanup),
        cmocka_unit_test_teardown(test_init_refused, cleanup),
        cmocka_unit_test_teardown(test_ops_v1, cleanup),
        cmocka_unit_test_teardown(test_ops_v2, cleanup),
        cmocka_unit_test_teardown(test_spawn, cleanup),
        cmocka_unit_test_teardown(test_refused, cleanup),
        cmocka_unit_test_teardown(test_gather, cleanup),
        cmocka_unit_test_teardown(test_pipeline_known, cleanup),
        cmocka_unit_test_teardown(test_window, cleanup),
        cmocka_unit_test_teardown(test_bad_options, cleanup),
    };

    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
