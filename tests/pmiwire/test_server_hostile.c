/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server engine against bad, slow, many and vanishing clients: errors, limits,
 * splits, callbacks that close connections, and 10,000 clients.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* MAP_ANONYMOUS */
#endif
#include <sys/mman.h>
#include <unistd.h>

#include "server_scripts.h"

static uint64_t rng_state = 0x2545f4914f6cdd1du;

static uint32_t rnd(uint32_t below)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return (uint32_t)((rng_state >> 20) % below);
}

/* ---- commands at the wrong time, unknown, malformed ---- */

static void test_states(void **state)
{
    struct harness h;

    h_init(&h);
    h_start(&h, 2);
    ask(&h, 0, "cmd=get_appnum\n", "cmd=appnum rc=-1 msg=command_before_init\n");
    ask(&h, 0, BARRIER, "cmd=barrier_out rc=-1 msg=command_before_init\n");
    ask(&h, 0, "cmd=finalize\n", "cmd=finalize_ack rc=-1 msg=command_before_init\n");
    assert_string_equal(h.diag, "kvs_0 rank 0: finalize: command before init");
    ask(&h, 0, v2("cmd=kvs-get;key=a;"),
        v2("cmd=kvs-get-response;rc=-1;errmsg=command before init;"));
    ask(&h, 0, v2("cmd=fullinit;thrid=1;"),
        v2("cmd=fullinit-response;thrid=1;rc=-1;errmsg=fullinit before the init line of version "
           "2;"));
    ask(&h, 0, "cmd=abort exitcode=2\n", "");
    assert_int_equal(h.n_abort, 1);
    init1(&h, 0);
    ask(&h, 0, INIT1,
        "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1 msg=second_init\n");
    ask(&h, 0, "cmd=initack pmiid=0\n", "cmd=initack rc=-1 msg=initack_after_init\n");
    assert_int_equal(say(&h, 0, v2("cmd=fullinit;")), 0);
    assert_non_null(strstr(hear(&h, 0), "cmd=fullinit-response;rc=-1;"));
    assert_int_equal(conn_state(h.c[0]), PMIWIRE_CONN_INITED);
    ask(&h, 1, INIT2, INIT2_OK);
    ask(&h, 1, v2("cmd=kvs-fence;"),
        v2("cmd=kvs-fence-response;rc=-1;errmsg=command before init;"));
    ask(&h, 1, INIT2,
        "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1 msg=second_init\n");
    ask(&h, 0, "cmd=finalize\ncmd=get_appnum\n",
        "cmd=finalize_ack rc=0\ncmd=appnum rc=-1 msg=command_after_finalize\n");
    ask(&h, 0, "cmd=finalize\n", "cmd=finalize_ack rc=-1 msg=command_after_finalize\n");
    assert_int_equal(conn_state(h.c[0]), PMIWIRE_CONN_FINALIZED);
    h_stop(&h);
}

static void test_malformed(void **state)
{
    static const char *const cases[][2] = {
        {"cmd=put value=1\n", "cmd=put_result rc=-1 "},
        {"cmd=put key=a key=b value=1\n", "cmd=put_result rc=-1 "},
        {"cmd=put key=a value\n", "cmd=put_result rc=-1 msg=put:_a_word_without_'_'"},
        {"cmd=put key=a value=b c\n",
         "cmd=put_result rc=-1 msg=put:_a_word_without_'_'_at_byte_22:_"
         "PMI-1_without_fp-bytes_cannot_carry_byte_0x20\n"},
        {"cmd=get =x\n", "cmd=get_result rc=-1 "},
        {"cmd=init pmi_version=1\n", "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1 "},
        {"cmd=init pmi_version=one pmi_subversion=1\n", "cmd=response_to_init rc=-1 "},
        {"cmd=initack pmiid=99999999999\n", "cmd=initack rc=-1 "},
        {"cmd=frobnicate a=b\n", "cmd=frobnicate_result rc=-1 msg=unknown_command\n"},
        {"cmd=put_result rc=0\n", "cmd=put_result_result rc=-1 msg=unknown_command\n"},
        {"cmd=a23456789012345678901234\n",
         "cmd=a23456789012345678901234_result rc=-1 msg=unknown_command\n"},
        {"cmd=a234567890123456789012345\n", "cmd=unknown_result rc=-1 msg=unknown_command\n"},
        {"cmd=a234567890123456789012345678901\n", "cmd=unknown_result rc=-1 msg=unknown_command\n"},
        {"    30cmd=kvs-put;key=a;value=b;x\n\n;", "cmd=kvs-put-response;rc=-1;errmsg="},
        {"    19cmd=kvs-put;key=a;x", "cmd=kvs-put-response;rc=-1;errmsg="},
        {"    18cmd=kvs-get;nokey;", "cmd=kvs-get-response;rc=-1;errmsg="},
        {"    17cmd=what;thrid=7;", "cmd=what-response;thrid=7;rc=-1;errmsg=unknown command;"},
        {"    63cmd=kvs-fence;thrid=123456789012345678901234567890123456789012;",
         "cmd=kvs-fence-response;rc=-1;"},
    };
    struct pmiwire_stats_server st;
    struct harness h;
    size_t i, n = sizeof(cases) / sizeof(cases[0]);

    h_init(&h);
    h_start(&h, 1);
    for (i = 0; i < n; i++) {
        h.n_diag = 0;
        assert_int_equal(say(&h, 0, cases[i][0]), 0);
        if (!strstr(hear(&h, 0), cases[i][1]))
            fail_msg("case %zu: %s", i, h.diag);
        assert_int_equal(h.n_diag, 1);
        assert_memory_equal(h.diag, "kvs_0 rank 0: ", 14);
        assert_int_equal(conn_state(h.c[0]), PMIWIRE_CONN_NEW);
    }
    pmiwire_server_stats(h.s, &st);
    assert_int_equal(st.n_bad, n);
    assert_int_equal(st.n_messages, n);
    assert_int_equal(st.n_failed, 0);
    init1(&h, 0); /* nothing is broken */
    h_stop(&h);
}

/* An invalid stream ends its own connection, and no other. */
static void test_lost_framing(void **state)
{
    static const struct {
        const char *text;
        size_t n;
        int code;
    } cases[] = {
        {"GET / HTTP/1.0\r\n", 16, PMIWIRE_EBADLEN},
        {"     0", 6, PMIWIRE_EBADLEN},
        {"   -12cmd=x;", 12, PMIWIRE_EBADLEN},
        {"   +12cmd=x;", 12, PMIWIRE_EBADLEN},
        {"0x0012", 6, PMIWIRE_EBADLEN},
        {"999999cmd=", 10, PMIWIRE_ETOOBIG},
        {"cmx=\n", 5, PMIWIRE_ENOCMD},
        {"cmd=\n", 5, PMIWIRE_ENOCMD},
        {"cmd=a b=c\n", 0, 0},
        {"cmd=a!b\n", 8, PMIWIRE_EUNKNOWN},
        {"cmd=a2345678901234567890123456789012\n", 37, PMIWIRE_EUNKNOWN},
        {"     8cmd=\033[1;", 14, PMIWIRE_EUNKNOWN},
        {"     6key=a;", 12, PMIWIRE_ENOCMD},
    };
    struct harness h;
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (cases[i].code == 0)
            continue;
        h_init(&h);
        h_start(&h, 2);
        init1(&h, 0);
        init1(&h, 1);
        assert_int_equal(pmiwire_conn_input(h.c[0], "cmd=get_appnum\n", 15), 0);
        h.n_ready = 0;
        assert_int_equal(pmiwire_conn_input(h.c[0], cases[i].text, cases[i].n), cases[i].code);
        assert_int_equal(h.n_ready, 1);
        assert_int_equal(conn_state(h.c[0]), PMIWIRE_CONN_FAILED);
        assert_int_equal(conn_error(h.c[0]), cases[i].code);
        assert_int_equal(h.diag_code, cases[i].code);
        assert_memory_equal(h.diag, "kvs_0 rank 0: ", 14);
        assert_int_equal(say(&h, 0, "cmd=get_appnum\n"), cases[i].code);
        expect(&h, 0, "cmd=appnum rc=0 appnum=0\n"); /* earlier answers */
        h.n_diag = 0;
        pmiwire_conn_close(h.c[0]);
        assert_int_equal(h.n_diag, 0);
        ask(&h, 1, "cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n");
        h_stop(&h);
    }
}

static void test_patience(void **state)
{
    struct harness h;
    int i;

    h_init(&h);
    h_start(&h, 2);
    init1(&h, 0);
    for (i = 0; i < 63; i++)
        ask(&h, 0, i % 2 ? "cmd=nix\n" : "cmd=nix a\n",
            "cmd=nix_result rc=-1 msg=unknown_command\n");
    assert_int_equal(say(&h, 0, "cmd=put\n"), PMIWIRE_EMISSING);
    assert_string_equal(h.diag, "kvs_0 rank 0: too many malformed messages");
    h_stop(&h);
}

/* ---- limits ---- */

static void test_message_limit(void **state)
{
    static char big[70000];
    struct harness h;
    size_t i;

    h_init(&h);
    h_start(&h, 2);
    init1(&h, 0);
    init1(&h, 1);
    memset(big, 'a', sizeof(big));
    memcpy(big, "cmd=get key=a ext=", 18);
    big[65535] = '\n';
    assert_int_equal(pmiwire_conn_input(h.c[0], big, 65536), 0);
    expect(&h, 0, "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
    big[65535] = 'a';
    for (i = 0; i < 65536; i += 4096)
        if (pmiwire_conn_input(h.c[0], big + i, 4096) != 0)
            break;
    assert_int_equal(conn_error(h.c[0]), PMIWIRE_ETOOBIG);
    big[65536] = '\n';
    assert_int_equal(pmiwire_conn_input(h.c[1], big, 65537), PMIWIRE_ETOOBIG);
    h_stop(&h);
}

static void test_fields_limit(void **state)
{
    char text[600];
    struct harness h;
    size_t n;
    int i;

    h_init(&h);
    h.opts.max_fields = 100;
    h_start(&h, 1);
    init1(&h, 0);
    n = (size_t)sprintf(text, "cmd=get key=a");
    for (i = 0; i < 99; i++)
        n += (size_t)sprintf(text + n, " x=1");
    strcpy(text + n, "\n");
    ask(&h, 0, text, "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
    strcpy(text + n, " x=1\n");
    assert_int_equal(say(&h, 0, text), 0);
    assert_memory_equal(hear(&h, 0), "cmd=get_result rc=-1 msg=get:_message_has_too_many_fields",
                        57);
    h_stop(&h);
}

static void test_backlog(void **state)
{
    struct harness h;
    int i, rc = 0;

    h_init(&h);
    h.opts.max_msg_bytes = 512;
    h_start(&h, 3);
    for (i = 0; i < 3; i++)
        init1(&h, i);
    ask(&h, 0, BARRIER, "");
    for (i = 0; i < 68; i++) /* 1,020 bytes of 1,024 */
        assert_int_equal(say(&h, 0, "cmd=get_appnum\n"), 0);
    rc = say(&h, 0, "cmd=get_appnum\n");
    assert_int_equal(rc, PMIWIRE_ETOOBIG);
    assert_string_equal(h.diag,
                        "kvs_0 rank 0: too much input behind a request that waits for its answer");
    /* the others continue: it has entered this fence, and will enter no other */
    ask(&h, 1, BARRIER, "");
    ask(&h, 2, BARRIER, BARRIER_OK);
    expect(&h, 1, BARRIER_OK);
    ask(&h, 1, BARRIER,
        "cmd=barrier_out rc=14 msg=rank_0_was_cut_off:_this_fence_cannot_complete\n");
    h_stop(&h);
}

static void test_slow_reader(void **state)
{
    struct harness h;
    const void *p;
    size_t n;
    int i;

    h_init(&h);
    h.opts.max_out_bytes = 1024;
    h_start(&h, 2);
    init1(&h, 0);
    init1(&h, 1);
    for (i = 0; i < 40; i++) /* 25 bytes each */
        assert_int_equal(say(&h, 0, "cmd=get_appnum\n"), 0);
    assert_int_equal(say(&h, 0, "cmd=get_appnum\n"), PMIWIRE_ESLOW);
    assert_int_equal(h.diag_code, PMIWIRE_ESLOW);
    n = pmiwire_conn_output(h.c[0], &p);
    assert_int_equal(n, 1000); /* whole messages only */
    pmiwire_conn_sent(h.c[0], 1000);
    ask(&h, 1, "cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n");
    /* one that reads a little now and then is never dropped */
    for (i = 0; i < 4000; i++) {
        assert_int_equal(say(&h, 1, "cmd=get_appnum\n"), 0);
        n = pmiwire_conn_output(h.c[1], &p);
        pmiwire_conn_sent(h.c[1], n > 400 ? 25 : 24);
    }
    assert_true(h.heap.peak < 100000);
    h_stop(&h);
}

/* By default an answer's room grows with the values: 64 of them, unread, are no slow reader. */
static void test_room_for_values(void **state)
{
    enum { LONG = 100000, ASKED = 64 };
    static char value[LONG];
    struct harness h;
    const void *p;

    memset(value, 'v', sizeof(value));
    h_init(&h);
    h.opts.vallen_max = LONG + 1;
    h_start(&h, 1);
    init1(&h, 0);
    assert_int_equal(
        pmiwire_server_put(h.s, 0, pmiwire_strz("k"), (struct pmiwire_str){value, sizeof(value)}),
        0);
    for (int i = 0; i < ASKED; i++)
        assert_int_equal(say(&h, 0, "cmd=get key=k\n"), 0);
    assert_true(pmiwire_conn_output(h.c[0], &p) > (size_t)ASKED * LONG);
    assert_int_equal(conn_state(h.c[0]), PMIWIRE_CONN_INITED);
    h_stop(&h);
}

static void test_store_limit(void **state)
{
    struct pmiwire_stats_server st;
    struct harness h;
    char text[100];
    int i, n = 0;

    h_init(&h);
    h.opts.max_kvs_bytes = 1000;
    h_start(&h, 1);
    h_job(&h, "other", 1);
    h_accept(&h, 1, 1, 0);
    init2(&h, 0);
    init2(&h, 1);
    for (i = 0; i < 100; i++) {
        sprintf(text, "cmd=kvs-put;key=%02d;value=x;", i);
        assert_int_equal(say(&h, 0, v2(text)), 0);
        n += strstr(hear(&h, 0), ";rc=0;") != NULL;
    }
    assert_int_equal(n, 1000 / (3 + 64));
    pmiwire_server_stats(h.s, &st);
    assert_int_equal(st.kvs_bytes, 3 * n);
    ask(&h, 0, v2("cmd=kvs-put;key=00;value=y;"), v2("cmd=kvs-put-response;rc=0;"));
    ask(&h, 0, v2("cmd=info-putnodeattr;key=a;value=yy;"),
        v2("cmd=info-putnodeattr-response;rc=-1;errmsg=no room for this attribute;"));
    ask(&h, 0, v2("cmd=name-publish;name=a;port=yy;"),
        v2("cmd=name-publish-response;rc=-1;errmsg=no room for this name;"));
    ask(&h, 1, v2("cmd=kvs-put;key=00;value=y;"), v2("cmd=kvs-put-response;rc=0;"));
    pmiwire_server_stats(h.s, &st);
    assert_int_equal(st.kvs_bytes, 3 * n + 3);
    for (i = 0; i < 30; i++) { /* unpublished names make room */
        ask(&h, 1, v2("cmd=name-publish;name=a;port=yy;"), v2("cmd=name-publish-response;rc=0;"));
        ask(&h, 1, v2("cmd=name-unpublish;name=a;"), v2("cmd=name-unpublish-response;rc=0;"));
    }
    ask(&h, 1, v2("cmd=kvs-put;key=00;value=longer;"), v2("cmd=kvs-put-response;rc=0;"));
    pmiwire_server_stats(h.s, &st);
    assert_int_equal(st.kvs_bytes, 3 * n + 8);
    h_stop(&h);
}

static void test_stall(void **state)
{
    struct harness h;
    int i;

    h_init(&h);
    h.opts.stall_ns = 100;
    h_start(&h, 4);
    for (i = 0; i < 4; i++)
        init1(&h, i);
    pmiwire_conn_close(h.c[2]);
    assert_int_equal(say(&h, 0, "cmd=get_app"), 0);      /* half a message */
    assert_int_equal(say(&h, 1, "cmd=get_appnum\n"), 0); /* does not read */
    h_job(&h, "other", 2);
    h_accept(&h, 2, 1, 0);
    init1(&h, 2);
    assert_int_equal(say(&h, 2, BARRIER "cmd=g"), 0); /* waits for us: is not late */
    assert_int_equal(
        say(&h, 3, "mcmd=spawn\nnprocs=1\nexecname=c\ntotspawns=2\nspawnssofar=1\nendcmd\n"), 0);
    pmiwire_server_tick(h.s, 1000);
    pmiwire_server_tick(h.s, 1099);
    for (i = 0; i < 4; i++)
        assert_int_equal(conn_error(h.c[i]), 0);
    assert_int_equal(say(&h, 0, "n"), 0); /* slow, but not silent */
    pmiwire_server_tick(h.s, 1100);
    assert_int_equal(conn_error(h.c[0]), 0);
    assert_int_equal(conn_error(h.c[1]), PMIWIRE_ESLOW);
    assert_int_equal(conn_error(h.c[2]), 0);
    assert_int_equal(conn_error(h.c[3]), PMIWIRE_ESTALL);
    pmiwire_server_tick(h.s, 1199);
    assert_int_equal(conn_error(h.c[0]), 0);
    pmiwire_server_tick(h.s, 1200);
    assert_int_equal(conn_error(h.c[0]), PMIWIRE_ESTALL);
    assert_string_equal(h.diag, "kvs_0 rank 0: client is silent in the middle of a message");
    assert_int_equal(conn_error(h.c[2]), 0);
    h_accept(&h, 4, 1, 1);
    init1(&h, 4);
    ask(&h, 4, BARRIER, BARRIER_OK);
    expect(&h, 2, BARRIER_OK); /* from here on it is in the middle of a message */
    pmiwire_server_tick(h.s, 1300);
    pmiwire_server_tick(h.s, 1399);
    assert_int_equal(conn_error(h.c[2]), 0);
    pmiwire_server_tick(h.s, 1400);
    assert_int_equal(conn_error(h.c[2]), PMIWIRE_ESTALL);
    h_stop(&h);
}

/* ---- callbacks that act ---- */

struct busy {
    struct harness h;
    int close_on_ready, close_on_diag, input_on_ready;
};

static void busy_ready(void *ctx, struct pmiwire_conn *conn, void *cookie)
{
    struct busy *b = ctx;
    struct pmiwire_conn **at = cookie;

    if (b->input_on_ready) {
        b->input_on_ready--;
        assert_int_equal(pmiwire_conn_input(conn, BARRIER, strlen(BARRIER)), 0);
    }
    if (b->close_on_ready && *at) {
        pmiwire_conn_close(conn);
        *at = NULL;
    }
}

static void busy_diag(void *ctx, const struct pmiwire_peer *who, int code, const char *text)
{
    struct busy *b = ctx;
    int i;

    for (i = 0; i < H_CONNS && b->close_on_diag; i++)
        if (b->h.c[i]) {
            struct pmiwire_conn *c = b->h.c[i];

            b->h.c[i] = NULL;
            pmiwire_conn_close(c);
        }
    if (b->close_on_diag)
        (void)pmiwire_server_job_remove(b->h.s, 0);
}

static void busy_init(struct busy *b)
{
    memset(b, 0, sizeof(*b));
    h_init(&b->h);
    b->h.ops.ready = busy_ready;
    b->h.ops.diag = busy_diag;
    b->h.ops.state = NULL;
    b->h.opts.ctx = b;
}

static void busy_start(struct busy *b, uint32_t n)
{
    uint32_t i;

    busy_init(b);
    h_start(&b->h, n);
    for (i = 0; i < n; i++)
        init2(&b->h, (int)i);
}

static void test_acting_callbacks(void **state)
{
    static const char *const last[] = {
        "cmd=kvs-fence;",
        "cmd=ring;ring-count=1;ring-left=a\\b;ring-right=a\\b;",
        "cmd=info-putnodeattr;key=k;value=a\\b;",
    };
    static const char *const first[] = {
        "cmd=kvs-fence;",
        "cmd=ring;ring-count=1;ring-left=a\\b;ring-right=a\\b;",
        "cmd=info-getnodeattr;key=k;wait=TRUE;",
    };
    struct busy b;
    int i;
    size_t k;

    /* ready() closes all clients when the barrier opens */
    busy_start(&b, 3);
    b.close_on_ready = 1;
    for (i = 0; i < 3; i++)
        assert_int_equal(say(&b.h, i, v2("cmd=kvs-fence;")), 0);
    for (i = 0; i < 3; i++)
        assert_null(b.h.c[i]);
    h_stop(&b.h);
    /* the answers cannot be carried; diag closes all clients and removes the job in the middle
     * */
    for (k = 0; k < 3; k++) {
        busy_start(&b, 3);
        for (i = 0; i < 2; i++)
            assert_int_equal(say(&b.h, i, v2(first[k])), 0);
        b.close_on_diag = 1;
        (void)say(&b.h, 2, v2(last[k]));
        b.close_on_diag = 0;
        h_stop(&b.h);
    }
    /* ready() brings the next request of the connection */
    busy_start(&b, 2);
    b.input_on_ready = 2;
    assert_int_equal(say(&b.h, 0, v2("cmd=kvs-fence;")), 0);
    assert_int_equal(say(&b.h, 1, v2("cmd=kvs-fence;")), 0);
    assert_string_equal(hear(&b.h, 0), "    28cmd=kvs-fence-response;rc=0;cmd=barrier_out rc=0\n");
    assert_string_equal(hear(&b.h, 1), "    28cmd=kvs-fence-response;rc=0;cmd=barrier_out rc=0\n");
    h_stop(&b.h);
}

/* A client repeats initack and does not read; diag() closes it while one of the answer's four lines
 * is written. */
static void test_initack_without_reading(void **state)
{
    for (size_t room = 100; room < 200; room++) {
        struct busy b;

        busy_init(&b);
        b.h.opts.max_out_bytes = room;
        h_start(&b.h, 1);
        b.close_on_diag = 1;
        for (int i = 0; i < 100 && b.h.c[0]; i++)
            (void)say(&b.h, 0, "cmd=initack pmiid=0\n");
        assert_null(b.h.c[0]);
        h_stop(&b.h);
    }
}

/* put() brings further input of the connection that is being served. */
static int feeding_put(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str key,
                       struct pmiwire_str value)
{
    static const char more[] = "cmd=get_appnum\n";
    struct harness *h = ctx;
    int i;

    for (i = 0; i < 200; i++) /* enough to move any buffer */
        assert_int_equal(pmiwire_conn_input(who->conn, more, sizeof(more) - 1), 0);
    return pmiwire_server_put(h->s, who->job, key, value);
}

static void test_input_in_callback(void **state)
{
    static const char appnum[] = "cmd=appnum rc=0 appnum=0\n";
    struct harness h;
    const char *p;
    int i;

    h_init(&h);
    h.ops.put = feeding_put;
    h.ops.find = h_find;
    h_start(&h, 1);
    init1(&h, 0);
    assert_int_equal(say(&h, 0, "cmd=put key=a val"), 0);
    assert_int_equal(say(&h, 0, "ue=1\ncmd=get key=a\n"), 0);
    p = hear(&h, 0);
    assert_memory_equal(p, "cmd=put_result rc=0\ncmd=get_result rc=0 value=1\n", 48);
    for (p += 48, i = 0; i < 200; i++, p += sizeof(appnum) - 1)
        assert_memory_equal(p, appnum, sizeof(appnum) - 1);
    assert_int_equal(*p, 0);
    h_stop(&h);
}

/* ---- any split ---- */

/* Feeds both scripts in pieces of up to `piece` bytes (0: all at once) in turns; returns both
 * outputs. */
static void play(uint32_t piece, char *out0, char *out1)
{
    const char *script[2] = {script0, script1};
    size_t at[2] = {0, 0}, len[2] = {sizeof(script0) - 1, strlen(script1)};
    struct harness h;
    int turn;

    h_init(&h);
    h.done_inside = 1;
    h_start(&h, 2);
    out0[0] = out1[0] = '\0';
    for (turn = 0; at[0] < len[0] || at[1] < len[1]; turn ^= 1) {
        size_t n = len[turn] - at[turn], want = piece ? 1 + rnd(piece) : n;
        char *exact;

        n = n < want ? n : want;
        exact = malloc(n + (n == 0));
        assert_non_null(exact);
        memcpy(exact, script[turn] + at[turn], n);
        assert_int_equal(pmiwire_conn_input(h.c[turn], exact, n), 0);
        free(exact);
        at[turn] += n;
        strcat(out0, hear(&h, 0));
        strcat(out1, hear(&h, 1));
    }
    assert_int_equal(conn_state(h.c[0]), PMIWIRE_CONN_FINALIZED);
    assert_int_equal(conn_state(h.c[1]), PMIWIRE_CONN_FINALIZED);
    h_stop(&h);
}

static void test_splits(void **state)
{
    static char a0[8192], a1[8192], b0[8192], b1[8192];
    uint32_t i;

    make_script1();
    play(0, a0, a1);
    assert_non_null(strstr(a0, "cmd=get_result rc=0 value=x;y\n"));
    assert_non_null(strstr(a0, "cmd=spawn_result rc=0 jobid=kid errcodes=0,0\n"));
    assert_non_null(strstr(a1, "value=p;"));
    for (i = 0; i < 300; i++) {
        play(i == 0 ? 1 : 1 + rnd(60), b0, b1);
        assert_string_equal(a0, b0);
        assert_string_equal(a1, b1);
    }
}

/* Input that ends where memory ends: the engine reads no byte beyond. */
static void test_guarded_input(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), i;
    char *base = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct harness h;

    assert_ptr_not_equal(base, MAP_FAILED);
    assert_int_equal(mprotect(base + page, page, PROT_NONE), 0);
    make_script1();
    for (i = 1; i < sizeof(script0); i++) {
        h_init(&h);
        h.done_inside = 1;
        h_start(&h, 1);
        memcpy(base + page - i, script0, i);
        assert_int_equal(pmiwire_conn_input(h.c[0], base + page - i, i), 0);
        h_stop(&h);
    }
    for (i = 1; i <= strlen(script1); i++) {
        h_init(&h);
        h.done_inside = 1;
        h_start(&h, 2);
        memcpy(base + page - i, script1, i);
        assert_int_equal(pmiwire_conn_input(h.c[1], base + page - i, i), 0);
        h_stop(&h);
    }
    munmap(base, 2 * page);
}

/* ---- many ---- */

enum { MANY = 10000 };

static void test_ten_thousand(void **state)
{
    static struct pmiwire_conn *conn[MANY];
    struct pmiwire_stats_server st;
    struct harness h;
    const void *p;
    size_t n;
    int i;

    h_init(&h);
    h.ops.ready = NULL;
    h.ops.state = NULL;
    h_start(&h, 0 + 1);
    assert_int_equal(h_job(&h, "many", MANY), 1);
    for (i = 0; i < MANY; i++)
        assert_int_equal(pmiwire_server_accept(h.s, 1, i, &conn[i], &conn[i]), 0);
    for (i = 0; i < MANY; i++) {
        static const char text[] = INIT1 BARRIER BARRIER BARRIER "cmd=get_appnum\n" BARRIER;

        assert_int_equal(pmiwire_conn_input(conn[i], text, sizeof(text) - 1), 0);
    }
    /* the last one opened four barriers in a row for all */
    for (i = 0; i < MANY; i++) {
        n = pmiwire_conn_output(conn[i], &p);
        assert_int_equal(n, strlen(INIT1_OK BARRIER_OK BARRIER_OK BARRIER_OK
                                   "cmd=appnum rc=0 appnum=0\n" BARRIER_OK));
        pmiwire_conn_sent(conn[i], n);
    }
    pmiwire_server_stats(h.s, &st);
    assert_int_equal(st.n_fences, 4);
    assert_int_equal(st.n_messages, 6 * MANY);
    assert_int_equal(st.n_conns, MANY + 1);
    assert_true(h.heap.live / MANY < 2000);
    for (i = 0; i < MANY; i++)
        pmiwire_conn_close(conn[i]);
    assert_int_equal(pmiwire_server_job_remove(h.s, 1), 0);
    h_stop(&h);
}

/* The stores against an array, with removals. */
static void test_stores_at_random(void **state)
{
    enum { KEYS = 700 };
    static int value_of[KEYS], name_of[KEYS];
    struct harness h;
    char text[100], want[100], key[16];
    struct pmiwire_str v;
    int i, k;

    memset(value_of, 0, sizeof(value_of));
    memset(name_of, 0, sizeof(name_of));
    h_init(&h);
    h_start(&h, 1);
    init1(&h, 0);
    for (i = 1; i < 30000; i++) {
        k = (int)rnd(KEYS);
        sprintf(key, "k%d", k);
        switch (rnd(5)) {
        case 0:
            sprintf(text, "cmd=put key=%s value=%d\n", key, i);
            ask(&h, 0, text, "cmd=put_result rc=0\n");
            value_of[k] = i;
            break;
        case 1:
            if (value_of[k]) {
                assert_int_equal(pmiwire_server_get(h.s, 0, pmiwire_strz(key), &v), 0);
                sprintf(want, "%d", value_of[k]);
                assert_int_equal(v.len, strlen(want));
                assert_memory_equal(v.ptr, want, v.len);
            } else {
                assert_int_equal(pmiwire_server_get(h.s, 0, pmiwire_strz(key), &v), PMIWIRE_ENOENT);
            }
            break;
        case 2:
            sprintf(text, "cmd=publish_name service=%s port=%d\n", key, i);
            assert_int_equal(say(&h, 0, text), 0);
            assert_int_equal(strstr(hear(&h, 0), "rc=0") != NULL, name_of[k] == 0);
            if (!name_of[k])
                name_of[k] = i;
            break;
        case 3:
            sprintf(text, "cmd=unpublish_name service=%s\n", key);
            assert_int_equal(say(&h, 0, text), 0);
            assert_int_equal(strstr(hear(&h, 0), "rc=0") != NULL, name_of[k] != 0);
            name_of[k] = 0;
            break;
        default:
            sprintf(text, "cmd=lookup_name service=%s\n", key);
            sprintf(want, "port=%d\n", name_of[k]);
            assert_int_equal(say(&h, 0, text), 0);
            assert_int_equal(strstr(hear(&h, 0), want) != NULL, name_of[k] != 0);
            break;
        }
    }
    h_stop(&h);
}

static int refused_send(void *ctx, const struct pmiwire_peer *job, uint32_t node,
                        const struct iovec *iov, uint32_t n_iov, size_t bytes)
{
    (void)ctx, (void)job, (void)node, (void)iov, (void)n_iov, (void)bytes;
    return 0;
}

static int refused_merge(void *ctx, const struct pmiwire_peer *job, const void *block, size_t bytes)
{
    (void)ctx, (void)job, (void)block, (void)bytes;
    return -EINVAL;
}

static void test_options(void **state)
{
    static const uint32_t node_of[] = {5, 7};
    struct pmiwire_job_opts nodes = {
        .size = sizeof(nodes), .kvsname = "nodes", .n_ranks = 2, .node_of = node_of, .node = 6};
    struct pmiwire_job_opts o = {
        .size = sizeof(o), .kvsname = "kvs", .n_ranks = 1, .universe_size = -1};
    struct harness h;
    struct pmiwire_server *s = NULL;
    struct pmiwire_conn *c;
    uint32_t job;

    assert_int_equal(pmiwire_server_create(NULL, &s), 0);
    pmiwire_server_destroy(s);
    pmiwire_server_destroy(NULL);
    h_init(&h);
    assert_int_equal(pmiwire_server_create(&h.opts, NULL), -EINVAL);
    h.opts.size = 0;
    assert_int_equal(pmiwire_server_create(&h.opts, &h.s), -EINVAL);
    h_init(&h);
    h.opts.flags = PMIWIRE_SERVER_PMI_1_2 << 1;
    assert_int_equal(pmiwire_server_create(&h.opts, &h.s), -EINVAL);
    h_init(&h);
    h.opts.decode_flags = PMIWIRE_DECODE_VALUE_TO_EOL << 1;
    assert_int_equal(pmiwire_server_create(&h.opts, &h.s), -EINVAL);
    for (int i = 0; i < 7; i++) { /* each limit below and above its range; and the largest ones */
        h_init(&h);
        h.opts.max_msg_bytes = SIZE_MAX / 4 + (i == 6);
        h.opts.kvsname_max = i == 0 ? 1 : i == 1 ? UINT32_C(0x80000000) : INT32_MAX;
        h.opts.keylen_max = i == 2 ? 1 : i == 3 ? UINT32_C(0x80000000) : INT32_MAX;
        h.opts.vallen_max = i == 4 ? 1 : i == 5 ? UINT32_C(0x80000000) : INT32_MAX;
        assert_int_equal(pmiwire_server_create(&h.opts, &s), -EINVAL);
    }
    h.opts.max_msg_bytes--;
    assert_int_equal(pmiwire_server_create(&h.opts, &s), 0);
    pmiwire_server_destroy(s);
    h.opts.max_msg_bytes = 0;
    h.opts.kvsname_max = h.opts.keylen_max = h.opts.vallen_max = 2;
    assert_int_equal(pmiwire_server_create(&h.opts, &s), 0);
    pmiwire_server_destroy(s);
    h_init(&h);
    h.ops.put = h_put;
    assert_int_equal(pmiwire_server_create(&h.opts, &h.s), -EINVAL);
    h_init(&h);
    h.ops.find = h_find;
    assert_int_equal(pmiwire_server_create(&h.opts, &h.s), -EINVAL);
    h.ops.put = h_put;
    h.ops.send = refused_send; /* and no merge */
    assert_int_equal(pmiwire_server_create(&h.opts, &h.s), -EINVAL);
    h.ops.merge = refused_merge;
    assert_int_equal(pmiwire_server_create(&h.opts, &s), 0);
    assert_int_equal(pmiwire_server_job_add(s, &nodes, &job), -EINVAL);
    nodes.node = 7;
    nodes.design = PMIWIRE_DESIGN_TREE + 1;
    assert_int_equal(pmiwire_server_job_add(s, &nodes, &job), -EINVAL);
    nodes.design = 0;
    assert_int_equal(pmiwire_server_job_add(s, &nodes, &job), 0);
    assert_int_equal(pmiwire_server_accept(s, job, 0, NULL, &c), -EINVAL);
    assert_int_equal(pmiwire_server_rank_ended(s, job, 0), -EINVAL);
    assert_int_equal(pmiwire_server_rank_ended(s, job, 2), -EINVAL);
    assert_int_equal(pmiwire_server_rank_ended(s, 1, 1), PMIWIRE_ENOENT);
    assert_int_equal(pmiwire_server_node_lost(s, job, 7), -EINVAL);
    assert_int_equal(pmiwire_server_node_lost(s, job, 0), -EINVAL);
    assert_int_equal(pmiwire_server_node_lost(s, 1, 5), PMIWIRE_ENOENT);
    assert_int_equal(pmiwire_server_link_ready(s, job, 0), -EINVAL);
    assert_int_equal(pmiwire_server_link_ready(s, job, 5), 0);
    assert_int_equal(pmiwire_server_link_ready(s, 1, 5), PMIWIRE_ENOENT);
    assert_int_equal(pmiwire_server_frame(s, job, 0, "frame", 5), PMIWIRE_EPROTO);
    assert_int_equal(pmiwire_server_frame(s, 1, 5, "frame", 5), PMIWIRE_ENOENT);
    assert_non_null(pmiwire_server_exchange(s, job));
    assert_null(pmiwire_server_exchange(s, 1));
    pmiwire_server_destroy(s);
    h_init(&h);
    h.ops.merge = refused_merge;
    assert_int_equal(pmiwire_server_create(&h.opts, &h.s), -EINVAL);
    h_init(&h);
    h_start(&h, 2);
    o.kvsname = "kvs_0";
    assert_int_equal(pmiwire_server_job_add(h.s, &o, &job), PMIWIRE_EEXIST);
    o.kvsname = "a;b";
    assert_int_equal(pmiwire_server_job_add(h.s, &o, &job), PMIWIRE_ECHARS);
    o.kvsname = "";
    assert_int_equal(pmiwire_server_job_add(h.s, &o, &job), -EINVAL);
    o.kvsname = "k";
    o.n_ranks = 0;
    assert_int_equal(pmiwire_server_job_add(h.s, &o, &job), -EINVAL);
    o.n_ranks = 2;
    assert_int_equal(pmiwire_server_job_add(h.s, &o, NULL), -EINVAL);
    assert_int_equal(pmiwire_server_accept(h.s, 0, 1, NULL, NULL), -EINVAL);
    assert_int_equal(pmiwire_server_accept(h.s, 0, 0, NULL, &c), PMIWIRE_EEXIST);
    assert_int_equal(pmiwire_server_accept(h.s, 0, 2, NULL, &c), -EINVAL);
    assert_int_equal(pmiwire_server_accept(h.s, 0, -2, NULL, &c), -EINVAL);
    assert_int_equal(pmiwire_server_accept(h.s, 1, 0, NULL, &c), PMIWIRE_ENOENT);
    assert_int_equal(pmiwire_server_put(h.s, 0, pmiwire_strz(""), pmiwire_strz("v")),
                     PMIWIRE_EEMPTY);
    /* Any bytes; clients whose wire cannot carry them get an error. */
    assert_int_equal(pmiwire_server_put(h.s, 0, pmiwire_strz("k"), (struct pmiwire_str){"a\0b", 3}),
                     0);
    assert_int_equal(pmiwire_server_put(h.s, 0, pmiwire_strz("k"), pmiwire_strz("")), 0);
    assert_int_equal(pmiwire_server_job_attr(h.s, 0, pmiwire_strz("k"), pmiwire_strz("")),
                     PMIWIRE_EEMPTY);
    assert_int_equal(pmiwire_server_job_attr(h.s, 0, pmiwire_strz("k"), pmiwire_strz("a\nb")),
                     PMIWIRE_ECHARS);
    h_stop(&h);
}

/* A client without a rank cannot end a job. */
static void test_stranger_aborts(void **state)
{
    struct harness h;

    h_init(&h);
    h_start(&h, 1);
    h_accept(&h, 1, 0, PMIWIRE_RANK_UNKNOWN);
    ask(&h, 1, "cmd=abort exitcode=77\n", "");
    ask(&h, 1, v2("cmd=abort;exitcode=77;"), "");
    assert_int_equal(h.n_abort, 0);
    assert_int_equal(h.diag_code, PMIWIRE_ESTATE);
    h_stop(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stranger_aborts),  cmocka_unit_test(test_states),
        cmocka_unit_test(test_malformed),        cmocka_unit_test(test_lost_framing),
        cmocka_unit_test(test_patience),         cmocka_unit_test(test_message_limit),
        cmocka_unit_test(test_fields_limit),     cmocka_unit_test(test_backlog),
        cmocka_unit_test(test_slow_reader),      cmocka_unit_test(test_room_for_values),
        cmocka_unit_test(test_store_limit),      cmocka_unit_test(test_stall),
        cmocka_unit_test(test_acting_callbacks), cmocka_unit_test(test_input_in_callback),
        cmocka_unit_test(test_splits),           cmocka_unit_test(test_guarded_input),
        cmocka_unit_test(test_ten_thousand),     cmocka_unit_test(test_stores_at_random),
        cmocka_unit_test(test_options),          cmocka_unit_test(test_initack_without_reading),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
