/* SPDX-License-Identifier: BSD-3-Clause */
/* Compatible extra fields: the registry, the server that advertises, the client session that
 * listens. */
#include "server_harness.h"

#include "../../libpmiwire/src/codec/codec_internal.h"

#include <pmiwire/client.h>
#include <pmiwire/extension.h>

#define S(text) pmiwire_strz(text)
#define TABLE   "2,1,1,0,5f,1,4000000,/dev/shm/x"

static int is(struct pmiwire_str s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0;
}

/* ---- the registry ---- */

static void test_registry(void **state)
{
    static const uint16_t carriers[] = {PMIWIRE_V1_RESPONSE_TO_INIT,
                                        PMIWIRE_V2_FULLINIT_RESPONSE,
                                        PMIWIRE_V1_BARRIER_OUT,
                                        PMIWIRE_V2_KVS_FENCE_RESPONSE,
                                        PMIWIRE_V1_INIT,
                                        PMIWIRE_V2_FULLINIT,
                                        PMIWIRE_V1_GET_RESULT,
                                        PMIWIRE_V2_KVS_GET_RESPONSE,
                                        PMIWIRE_V1_FINALIZE_ACK,
                                        PMIWIRE_V2_KVS_PUT_RESPONSE};
    static const uint16_t at[] = {PMIWIRE__AT_INIT,
                                  PMIWIRE__AT_INIT,
                                  PMIWIRE__AT_FENCE | PMIWIRE__AT_DATA,
                                  PMIWIRE__AT_FENCE | PMIWIRE__AT_DATA,
                                  PMIWIRE__AT_HELLO,
                                  PMIWIRE__AT_HELLO,
                                  PMIWIRE__AT_DATA,
                                  PMIWIRE__AT_DATA,
                                  0,
                                  0};

    assert_null(pmiwire__ext_get(0));
    assert_null(pmiwire__ext_get(PMIWIRE_EXT_COUNT_));
    assert_null(pmiwire__ext_get(UINT16_MAX));
    for (uint16_t ext = 1; ext < PMIWIRE_EXT_COUNT_; ext++)
        for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
            const struct pmiwire__ext *desc = pmiwire__ext_get(ext);
            struct pmiwire_field fields[8];
            struct pmiwire_msg m = {.fields = fields, .cap_fields = 8};
            struct pmiwire_str value = {NULL, 0};
            struct pmiwire_decoder d;
            struct pmiwire_encoder e;
            char buf[256];
            ssize_t n;

            pmiwire_enc_begin(&e, buf, sizeof(buf), carriers[i], NULL);
            pmiwire_enc_int(&e, PMIWIRE_F_RC, 0);
            pmiwire__enc_ext(&e, ext, S(TABLE));
            n = pmiwire_enc_end(&e, NULL);
            if (!(desc->at & at[i])) {
                assert_int_equal(n, -EINVAL);
                /* Ignored even when a peer writes it there. */
                pmiwire_enc_begin(&e, buf, sizeof(buf), carriers[i], NULL);
                pmiwire_enc_extra(&e, desc->name, S(TABLE));
                n = pmiwire_enc_end(&e, NULL);
            }
            assert_true(n > 0);
            pmiwire_decoder_init(&d, 0, 0);
            assert_int_equal(pmiwire_decode(&d, buf, (size_t)n, &m), n);
            assert_int_equal(pmiwire_msg_ext(&m, ext, &value),
                             desc->at & at[i] ? 0 : PMIWIRE_EMISSING);
            assert_int_equal(is(value, TABLE), (desc->at & at[i]) != 0);
            assert_int_equal(pmiwire_msg_ext(&m, 0, &value), PMIWIRE_EMISSING);
        }
}

/* ---- the server ---- */

static void test_advertise(void **state)
{
    struct harness h;

    h_init(&h);
    h_start(&h, 2);
    assert_int_equal(pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_SERVER, S("1")), 0);
    assert_int_equal(pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_TABLE, S("old")), 0);
    assert_int_equal(pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_TABLE, S(TABLE)), 0);
    ask(&h, 0, "cmd=init pmi_version=1 pmi_subversion=1\n",
        "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1 fp-server=1 fp-table=" TABLE
        "\n");
    ask(&h, 1, "cmd=init pmi_version=2 pmi_subversion=0\n",
        "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n");
    ask(&h, 1, v2("cmd=fullinit;pmirank=1;threaded=FALSE;"),
        v2("cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=2;appnum=0;"
           "debugged=FALSE;pmiverbose=FALSE;"
           "fp-server=1;fp-table=" TABLE ";"));
    assert_false(conn_info(h.c[0]).has_extensions);
    assert_false(conn_info(h.c[1]).has_extensions);
    /* A fence carries its own, and only as long as it is advertised. */
    for (int round = 0; round < 3; round++) {
        assert_int_equal(
            pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_TABLE_END, round == 1 ? S("1") : S(NULL)),
            0);
        say(&h, 0, "cmd=barrier_in\n");
        ask(&h, 1, v2("cmd=kvs-fence;"),
            v2(round == 1 ? "cmd=kvs-fence-response;rc=0;fp-table-end=1;"
                          : "cmd=kvs-fence-response;rc=0;"));
        expect(&h, 0,
               round == 1 ? "cmd=barrier_out rc=0 fp-table-end=1\n" : "cmd=barrier_out rc=0\n");
    }
    /* Other jobs and other answers know nothing of it. */
    h_job(&h, "other", 1);
    h_accept(&h, 2, 1, 0);
    ask(&h, 2, "cmd=init pmi_version=1 pmi_subversion=1\n",
        "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n");
    ask(&h, 0, "cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n");
    h_stop(&h);
}

static void test_refused(void **state)
{
    char text[PMIWIRE_EXT_MAX_BYTES + 1];
    const size_t most = PMIWIRE_EXT_MAX_BYTES - strlen(" fp-table=");
    struct harness h;

    memset(text, 'v', sizeof(text));
    h_init(&h);
    h_start(&h, 1);
    assert_int_equal(pmiwire_server_advertise(h.s, 0, 0, S("1")), -EINVAL);
    assert_int_equal(pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_COUNT_, S("1")), -EINVAL);
    assert_int_equal(pmiwire_server_advertise(h.s, 7, PMIWIRE_EXT_TABLE, S("1")), PMIWIRE_ENOENT);
    assert_int_equal(pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_TABLE, S("")), PMIWIRE_EEMPTY);
    for (int c = 0; c < 256; c++) {
        const char bad = (char)c;
        const int good = c > 32 && c < 127 && c != ';' && c != '\\';

        assert_int_equal(
            pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_TABLE, (struct pmiwire_str){&bad, 1}),
            good ? 0 : PMIWIRE_ECHARS);
    }
    /* All of one answer together: below, at and above the limit. */
    assert_int_equal(
        pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_TABLE, (struct pmiwire_str){text, most - 1}),
        0);
    assert_int_equal(
        pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_TABLE, (struct pmiwire_str){text, most}), 0);
    assert_int_equal(
        pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_TABLE, (struct pmiwire_str){text, most + 1}),
        PMIWIRE_EVALLEN);
    assert_int_equal(pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_SERVER, S("1")), PMIWIRE_EVALLEN);
    assert_int_equal(pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_TABLE_END, S("1")),
                     0); /* that stands elsewhere */
    say(&h, 0, "cmd=init pmi_version=1 pmi_subversion=1\n");
    assert_non_null(strstr(hear(&h, 0), " fp-table=vvvv"));
    for (size_t beyond = 0; beyond <= 1; beyond++) { /* beside " fp-server=1" */
        const struct pmiwire_str value = {text, most - strlen(" fp-server=1") + beyond};

        assert_int_equal(pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_TABLE, S(NULL)), 0);
        assert_int_equal(pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_SERVER, S("1")), 0);
        assert_int_equal(pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_TABLE, value),
                         beyond ? PMIWIRE_EVALLEN : 0);
    }
    /* No memory: what was advertised stays. */
    h.heap.fail_at = h.heap.n_calls + 1;
    assert_int_equal(pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_TABLE_END, S("2")), -ENOMEM);
    h.heap.fail_at = 0;
    ask(&h, 0, "cmd=barrier_in\n", "cmd=barrier_out rc=0 fp-table-end=1\n");
    h_stop(&h);
}

/* ---- server and session, byte by byte ---- */

/* Carries bytes both ways, at most `step` at a time, until the session has an event. */
static int converse(struct harness *h, struct pmiwire_client *c, size_t step,
                    struct pmiwire_event *ev)
{
    int rc;

    while ((rc = pmiwire_client_next(c, ev, NULL)) == 0) {
        const void *p;
        size_t n = pmiwire_client_output(c, &p);

        if (n) {
            n = n < step ? n : step;
            assert_int_equal(pmiwire_conn_input(h->c[0], p, n), 0);
            pmiwire_client_sent(c, n);
            continue;
        }
        n = pmiwire_conn_output(h->c[0], &p);
        assert_true(n > 0);
        n = n < step ? n : step;
        assert_int_equal(pmiwire_client_input(c, p, n), 0);
        pmiwire_conn_sent(h->c[0], n);
    }
    return rc;
}

static void test_session(void **state)
{
    for (uint32_t wire = PMIWIRE_V1; wire <= PMIWIRE_V2; wire++)
        for (int says = 0; says <= 1; says++)
            for (size_t step = 1; step <= 1000; step *= 10) {
                struct pmiwire_client_opts o = {.size = sizeof(o),
                                                .wire = wire,
                                                .n_ranks = 1,
                                                .flags = PMIWIRE_CLIENT_EXTENSIONS};
                struct pmiwire_client *c;
                struct pmiwire_event ev;
                struct pmiwire_str v;
                struct harness h;
                struct pmiwire_info_client info;
                int carried;

                h_init(&h);
                h_start(&h, 1);
                if (says) {
                    assert_int_equal(pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_SERVER, S("1")),
                                     0);
                    assert_int_equal(pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_TABLE, S(TABLE)),
                                     0);
                    assert_int_equal(
                        pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_TABLE_END, S("1")), 0);
                }
                assert_int_equal(pmiwire_client_create(&o, &c), 0);
                pmiwire_client_query(c, &info);
                assert_null(info.ext[PMIWIRE_EXT_TABLE].ptr);
                assert_int_equal(converse(&h, c, step, &ev), 1);
                assert_int_equal(ev.op, PMIWIRE_OP_INIT);
                assert_int_equal(ev.rc, 0);
                pmiwire_client_query(c, &info);
                assert_int_equal(info.ext[PMIWIRE_EXT_SERVER].ptr != NULL, says);
                assert_int_equal(info.ext[PMIWIRE_EXT_TABLE].ptr != NULL, says);
                if (says)
                    assert_true(is(info.ext[PMIWIRE_EXT_TABLE], TABLE));
                assert_null(info.ext[0].ptr);
                assert_null(info.ext[PMIWIRE_EXT_TABLE_END].ptr);
                /* Such a server carries values that others corrupt on PMI-2. */
                assert_true(conn_info(h.c[0]).has_extensions);
                carried = says || wire == PMIWIRE_V1;
                assert_int_equal(
                    pmiwire_client_put(c, S("k"), S("semi;colon"), PMIWIRE_HINT_NONE, 0),
                    carried ? 0 : PMIWIRE_ECHARS);
                if (carried) {
                    assert_int_equal(converse(&h, c, step, &ev), 1);
                    assert_int_equal(ev.rc, 0);
                }
                assert_int_equal(pmiwire_client_fence(c, pmiwire_strz(NULL), 0), 0);
                assert_int_equal(converse(&h, c, step, &ev), 1);
                assert_int_equal(pmiwire_msg_ext(ev.msg, PMIWIRE_EXT_TABLE_END, &v),
                                 says ? 0 : PMIWIRE_EMISSING);
                if (carried) {
                    assert_int_equal(
                        pmiwire_client_get(c, S(NULL), -1, S("k"), PMIWIRE_GET_LOCAL, 0), 0);
                    assert_int_equal(converse(&h, c, step, &ev), 1);
                    assert_true(is(ev.value, "semi;colon"));
                }
                pmiwire_client_destroy(c);
                h_stop(&h);
            }
}

/* ---- Allgather ---- */

/* Values up to the server's limit, of bytes that its wire cannot express. */
static void test_gather(void **state)
{
    char longest[PMIWIRE_DEFAULT_VALLEN_MAX + 1];

    memset(longest, ';', sizeof(longest));
    longest[PMIWIRE_DEFAULT_VALLEN_MAX - 1] = '\0';
    for (uint32_t wire = PMIWIRE_V1; wire <= PMIWIRE_V2; wire++)
        for (size_t step = 1; step <= 1000; step *= 10) {
            struct pmiwire_client_opts o = {
                .size = sizeof(o), .wire = wire, .n_ranks = 1, .flags = PMIWIRE_CLIENT_EXTENSIONS};
            struct pmiwire_client *c;
            struct pmiwire_event ev;
            struct harness h;

            h_init(&h);
            h_start(&h, 1);
            assert_int_equal(pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_SERVER, S("1")), 0);
            assert_int_equal(pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_EXCHANGE, S("1")), 0);
            assert_int_equal(pmiwire_client_create(&o, &c), 0);
            assert_int_equal(converse(&h, c, step, &ev), 1);
            for (int k = 0; k < 2; k++) {
                char key[32];

                assert_int_equal(pmiwire_client_gather(c, k ? S("x%3By") : S(longest), 5), 0);
                assert_int_equal(converse(&h, c, step, &ev), 1);
                assert_int_equal(ev.op, PMIWIRE_OP_GATHER);
                assert_int_equal(ev.rc, 0);
                assert_int_equal(ev.cookie, 5);
                snprintf(key, sizeof(key), "-allgather-%d-0", k);
                assert_int_equal(pmiwire_client_get(c, S(NULL), 0, S(key), PMIWIRE_GET_LOCAL, 0),
                                 0);
                assert_int_equal(converse(&h, c, step, &ev), 1);
                assert_int_equal(ev.rc, 0);
                assert_true(is(ev.value, k ? "x%3By" : longest));
            }
            /* Longer ones, and a percent sign that is no encoding. */
            assert_int_equal(
                pmiwire_client_gather(c, (struct pmiwire_str){longest, sizeof(longest)}, 0),
                wire == PMIWIRE_V1 ? PMIWIRE_EVALLEN : 0);
            if (wire == PMIWIRE_V2) {
                assert_int_equal(converse(&h, c, step, &ev), 1);
                assert_int_equal(ev.rc, PMIWIRE_EPEER);
                ask(&h, 0, v2("cmd=kvs-fence;fp-gather=%4;"),
                    v2("cmd=kvs-fence-response;rc=-1;errmsg=fp-gather: a percent sign that "
                       "encodes no byte;"));
            }
            pmiwire_client_destroy(c);
            h_stop(&h);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registry), cmocka_unit_test(test_advertise),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_session),
        cmocka_unit_test(test_gather),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
