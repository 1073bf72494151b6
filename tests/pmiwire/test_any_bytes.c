/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes in keys and values: fp-bytes between our client and server, and the answers to other
 * clients of the same job. */
#define _GNU_SOURCE
#include "server_harness.h"

#include <pmiwire/client.h>
#include <pmiwire/extension.h>
#include <pmiwire/profile.h>

#define S(text) pmiwire_strz(text)
#define N_OF(a) (sizeof(a) / sizeof((a)[0]))
#define LITERAL(text)                                                                              \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

static const struct pmiwire_str none = {NULL, 0};

static int same(struct pmiwire_str a, struct pmiwire_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* ---- clients of ours: h->c[i] is the server's end of sessions[i] ---- */

static struct pmiwire_client *sessions[H_CONNS];
static char said[1 << 20]; /* the session's output since forget() */
static size_t n_said;

static void forget(void)
{
    n_said = 0;
}

/* Carries bytes between session i and its server until an event, or until both are silent. 1: *ev
 * is filled in. */
static int converse(struct harness *h, int i, struct pmiwire_event *ev)
{
    int rc;

    while ((rc = pmiwire_client_next(sessions[i], ev, NULL)) == 0) {
        const void *p;
        size_t n = pmiwire_client_output(sessions[i], &p);

        if (n) {
            assert_true(n_said + n < sizeof(said));
            memcpy(said + n_said, p, n);
            said[n_said += n] = '\0';
            (void)pmiwire_conn_input(h->c[i], p, n);
            pmiwire_client_sent(sessions[i], n);
            continue;
        }
        n = pmiwire_conn_output(h->c[i], &p);
        if (n == 0)
            return 0;
        assert_true(n_said + n < sizeof(said));
        memcpy(said + n_said, p, n);
        said[n_said += n] = '\0';
        assert_int_equal(pmiwire_client_input(sessions[i], p, n), 0);
        pmiwire_conn_sent(h->c[i], n);
    }
    return rc;
}

static void open_session(struct harness *h, int i, uint32_t wire, uint32_t flags,
                         size_t max_msg_bytes)
{
    struct pmiwire_client_opts o = {.size = sizeof(o),
                                    .wire = wire,
                                    .flags = flags,
                                    .rank = i,
                                    .n_ranks = H_CONNS,
                                    .max_msg_bytes = max_msg_bytes};
    struct pmiwire_event ev;

    assert_int_equal(pmiwire_client_create(&o, &sessions[i]), 0);
    assert_int_equal(converse(h, i, &ev), 1);
    assert_int_equal(ev.op, PMIWIRE_OP_INIT);
    assert_int_equal(ev.rc, 0);
    forget();
}

static void close_session(int i)
{
    pmiwire_client_destroy(sessions[i]);
    sessions[i] = NULL;
}

static void offer(struct harness *h)
{
    assert_int_equal(pmiwire_server_advertise(h->s, 0, PMIWIRE_EXT_SERVER, S("1")), 0);
    assert_int_equal(pmiwire_server_advertise(h->s, 0, PMIWIRE_EXT_EXCHANGE, S("1")), 0);
    assert_int_equal(pmiwire_server_advertise(h->s, 0, PMIWIRE_EXT_BYTES, S("1")), 0);
}

/* A request's rc: refused at once, or answered. */
static int done(struct harness *h, int i, int rc, struct pmiwire_event *ev)
{
    if (rc < 0)
        return rc;
    assert_int_equal(converse(h, i, ev), 1);
    return ev->rc;
}

static int put(struct harness *h, int i, struct pmiwire_str key, struct pmiwire_str value)
{
    struct pmiwire_event ev;

    return done(h, i, pmiwire_client_put(sessions[i], key, value, PMIWIRE_HINT_NONE, 0), &ev);
}

static int get(struct harness *h, int i, struct pmiwire_str key, struct pmiwire_event *ev)
{
    return done(h, i, pmiwire_client_get(sessions[i], none, -1, key, PMIWIRE_GET_LOCAL, 0), ev);
}

/* ---- on the wire ---- */

/* Two sessions of ours on different wires, h->c[0] and h->c[1]. */
static void start_two(struct harness *h)
{
    h_init(h);
    h_start(h, 2);
    offer(h);
    open_session(h, 0, PMIWIRE_V1, PMIWIRE_CLIENT_EXTENSIONS, 0);
    open_session(h, 1, PMIWIRE_V2, PMIWIRE_CLIENT_EXTENSIONS, 0);
}

static void stop_two(struct harness *h)
{
    close_session(0);
    close_session(1);
    h_stop(h);
}

/* Values that need no encoding are unchanged; others are marked and encoded. */
static void test_messages(void **state)
{
    static const struct {
        struct pmiwire_str key, value;
        const char *v1, *v2;
    } cases[] = {
        {LITERAL("k"), LITERAL("v"), "cmd=put kvsname=kvs_0 key=k value=v\n",
         "cmd=kvs-put;key=k;value=v;"},
        {LITERAL("50%"), LITERAL("100%25"), "cmd=put kvsname=kvs_0 key=50% value=100%25\n",
         "cmd=kvs-put;key=50%;value=100%25;"},
        {LITERAL("k"), LITERAL("a\\b;=\303\251"),
         "cmd=put kvsname=kvs_0 key=k value=a\\b;=\303\251\n",
         "cmd=kvs-put;key=k;value=a\\b;;=\303\251;"},
        {LITERAL("k"), LITERAL("a b"), "cmd=put kvsname=kvs_0 fp-bytes=v key=k value=a%20b\n",
         "cmd=kvs-put;key=k;value=a b;"},
        {LITERAL("k"), LITERAL(""), "cmd=put kvsname=kvs_0 fp-bytes=v key=k value=%\n",
         "cmd=kvs-put;fp-bytes=v;key=k;value=%;"},
        {LITERAL("a=b"), LITERAL("v%"), "cmd=put kvsname=kvs_0 fp-bytes=k key=a%3Db value=v%\n",
         "cmd=kvs-put;fp-bytes=k;key=a%3Db;value=v%;"},
        {LITERAL("k "), LITERAL("\0\n%"),
         "cmd=put kvsname=kvs_0 fp-bytes=kv key=k%20 value=%00%0A%25\n",
         "cmd=kvs-put;fp-bytes=kv;key=k%20;value=%00%0A%25;"},
        {LITERAL("k\377"), LITERAL("\t;"),
         "cmd=put kvsname=kvs_0 fp-bytes=v key=k\377 value=%09%3B\n",
         "cmd=kvs-put;fp-bytes=v;key=k\377;value=%09%3B;"},
    };
    struct pmiwire_event ev;
    struct harness h;
    char want[200];

    start_two(&h);
    for (size_t i = 0; i < N_OF(cases); i++)
        for (int who = 0; who < 2; who++) {
            forget();
            assert_int_equal(put(&h, who, cases[i].key, cases[i].value), 0);
            snprintf(want, sizeof(want), "%s%s", who ? v2(cases[i].v2) : cases[i].v1,
                     who ? v2("cmd=kvs-put-response;rc=0;") : "cmd=put_result rc=0\n");
            assert_string_equal(said, want);
            for (int reader = 0; reader < 2; reader++) {
                assert_int_equal(get(&h, reader, cases[i].key, &ev), 0);
                assert_true(same(ev.value, cases[i].value));
            }
        }
    forget();
    assert_int_equal(put(&h, 0, S("g"), S("a b")), 0);
    forget();
    assert_int_equal(get(&h, 0, S("g"), &ev), 0);
    assert_string_equal(said, "cmd=get kvsname=kvs_0 key=g\n"
                              "cmd=get_result rc=0 fp-bytes=v value=a%20b\n");
    /* The offer is in init's answer alone. */
    forget();
    assert_int_equal(pmiwire_client_fence(sessions[0], none, 0), 0);
    assert_int_equal(converse(&h, 0, &ev), 0);
    assert_int_equal(done(&h, 1, pmiwire_client_fence(sessions[1], none, 0), &ev), 0);
    assert_int_equal(converse(&h, 0, &ev), 1);
    snprintf(want, sizeof(want), "cmd=barrier_in\n%s%scmd=barrier_out rc=0\n", v2("cmd=kvs-fence;"),
             v2("cmd=kvs-fence-response;rc=0;"));
    assert_string_equal(said, want);
    assert_int_equal(h.n_diag, 0);
    stop_two(&h);
}

/* The server's limits count bytes before they are encoded, and messages have room for them. */
static void test_limits(void **state)
{
    static const uint32_t longest[] = {0, 2, 1024, 4096, 100000};
    static char bytes[100001];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i % 7);
    for (size_t i = 0; i < N_OF(longest); i++) {
        const uint32_t vallen_max = longest[i] ? longest[i] : PMIWIRE_DEFAULT_VALLEN_MAX;
        const uint32_t keylen_max = longest[i] > 2 ? longest[i] / 16 : 64;
        const struct pmiwire_str key = {bytes, keylen_max - 1}, most = {bytes, vallen_max - 1};
        struct pmiwire_event ev;
        struct harness h;

        h_init(&h);
        h.opts.vallen_max = longest[i];
        h.opts.keylen_max = keylen_max;
        h_start(&h, 1);
        offer(&h);
        open_session(&h, 0, PMIWIRE_V1, PMIWIRE_CLIENT_EXTENSIONS, 1 << 20);
        assert_int_equal(put(&h, 0, key, most), 0);
        assert_int_equal(get(&h, 0, key, &ev), 0);
        assert_true(same(ev.value, most));
        assert_int_equal(put(&h, 0, key, (struct pmiwire_str){bytes, most.len + 1}),
                         PMIWIRE_EVALLEN);
        assert_int_equal(put(&h, 0, (struct pmiwire_str){bytes, key.len + 1}, S("v")),
                         PMIWIRE_EKEYLEN);
        close_session(0);
        h_stop(&h);
    }
    /* PMI-2 announces no limits: 1,024 bytes. A session without room for them refuses. */
    for (size_t max = 1024; max <= 4096; max *= 2) {
        const struct pmiwire_str most = {bytes, 1024};
        struct pmiwire_event ev;
        struct harness h;

        h_init(&h);
        h_start(&h, 1);
        offer(&h);
        open_session(&h, 0, PMIWIRE_V2, PMIWIRE_CLIENT_EXTENSIONS, max);
        assert_int_equal(put(&h, 0, S("k"), most), max == 4096 ? 0 : PMIWIRE_ETOOBIG);
        if (max == 4096) {
            assert_int_equal(get(&h, 0, S("k"), &ev), 0);
            assert_true(same(ev.value, most));
            assert_int_equal(put(&h, 0, S("k"), (struct pmiwire_str){bytes, 1025}),
                             PMIWIRE_EVALLEN);
            assert_int_equal(put(&h, 0, S(""), S("v")), PMIWIRE_EEMPTY);
            assert_int_equal(put(&h, 0, S(" "), S("v")), 0);
        }
        close_session(0);
        h_stop(&h);
    }
    /* A server whose messages are too short for the longest pair cannot offer it. */
    for (size_t missing = 0; missing <= 1; missing++) {
        struct harness h;

        h_init(&h);
        h.opts.max_msg_bytes = 3 * (64 + 1024) + 256 + 256 - missing;
        h_start(&h, 1);
        assert_int_equal(pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_BYTES, S("1")),
                         missing ? -EINVAL : 0);
        h_stop(&h);
    }
}

/* Both sides must announce it; otherwise the old rules hold, and no value is misread. */
static void test_negotiation(void **state)
{
    struct pmiwire_event ev;
    struct harness h;

    for (uint32_t wire = PMIWIRE_V1; wire <= PMIWIRE_V2; wire++) {
        h_init(&h);
        h_start(&h, 3);
        assert_int_equal(pmiwire_server_advertise(h.s, 0, PMIWIRE_EXT_SERVER, S("1")), 0);
        open_session(&h, 0, wire, PMIWIRE_CLIENT_EXTENSIONS, 0); /* not offered */
        assert_int_equal(put(&h, 0, S("k"), S("a\nb")), PMIWIRE_ECHARS);
        offer(&h);
        open_session(&h, 1, wire, 0, 0); /* the client does not announce it */
        assert_int_equal(put(&h, 1, S("k"), S("a\nb")), PMIWIRE_ECHARS);
        open_session(&h, 2, wire, PMIWIRE_CLIENT_EXTENSIONS, 0);
        assert_int_equal(put(&h, 2, S("k"), S("a\nb")), 0);
        assert_int_equal(get(&h, 2, S("k"), &ev), 0);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(get(&h, i, S("k"), &ev), wire == PMIWIRE_V1 ? PMIWIRE_EPEER : 0);
            if (wire == PMIWIRE_V2) { /* its lengths are explicit */
                assert_true(same(ev.value, S("a\nb")));
                continue;
            }
            assert_int_equal(ev.peer_rc, 6);
            assert_true(same(ev.text, S("value_holds_byte_0x0a_at_1,_which_PMI-1_without_fp-bytes_"
                                        "cannot_carry")));
        }
        for (int i = 0; i < 3; i++)
            close_session(i);
        h_stop(&h);
    }
    /* A client of an earlier build announces 1: it does not decode. */
    h_init(&h);
    h_start(&h, 2);
    offer(&h);
    assert_int_equal(pmiwire_server_put(h.s, 0, S("k"), S("a b")), 0);
    assert_int_equal(say(&h, 0, "cmd=init pmi_version=1 pmi_subversion=1 fp-client=1\n"), 0);
    hear(&h, 0);
    ask(&h, 0, "cmd=get key=k\n",
        "cmd=get_result rc=6 msg=value_holds_byte_0x20_at_1,_which_PMI-1_without_fp-bytes_cannot_"
        "carry value=unknown\n");
    assert_int_equal(say(&h, 1, "cmd=init pmi_version=1 pmi_subversion=1 fp-client=2\n"), 0);
    hear(&h, 1);
    ask(&h, 1, "cmd=get key=k\n", "cmd=get_result rc=0 fp-bytes=v value=a%20b\n");
    h_stop(&h);
}

/* ---- strictness ---- */

static void test_bad_escapes(void **state)
{
    static const char *const requests[][2] = {
        {"cmd=put key=k fp-bytes=v value=a%\n",
         "cmd=put_result rc=6 msg=put:_fp-bytes:_not_%_and_two_hexadecimal_digits_at_1_of_field_"
         "\"value\"\n"},
        {"cmd=put key=k fp-bytes=v value=%4\n", "cmd=put_result rc=6 "},
        {"cmd=put key=k fp-bytes=v value=%4G\n", "cmd=put_result rc=6 "},
        {"cmd=put key=k fp-bytes=v value=%%41\n", "cmd=put_result rc=6 "},
        {"cmd=put key=k fp-bytes=v value=%-1\n", "cmd=put_result rc=6 "},
        {"cmd=put key=%zz fp-bytes=k value=a\n", "cmd=put_result rc=4 "},
        {"cmd=put key=% fp-bytes=k value=a\n", "cmd=put_result rc=4 "},
        {"cmd=put key=k fp-bytes=x value=a\n",
         "cmd=put_result rc=-1 msg=put:_fp-bytes_is_not_k,_v_or_kv\n"},
        {"cmd=put key=k fp-bytes=vk value=a\n", "cmd=put_result rc=-1 "},
        {"cmd=get fp-bytes=k key=%2\n", "cmd=get_result rc=4 "},
        {"cmd=barrier_in fp-bytes=v fp-ring=%2\n", "cmd=barrier_out rc=-1 "},
        {"cmd=publish_name fp-bytes=kv service=%2 port=a\n", "cmd=publish_result rc=1 "},
        {"mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=1\nspawnssofar=1\nfp-bytes=v\npreput_num=1\n"
         "preput_key_0=k\npreput_val_0=%1\nendcmd\n",
         "cmd=spawn_result rc=-1 "},
        {"cmd=put key=k fp-bytes=v value=%\n", "cmd=put_result rc=0\n"},
        {"cmd=put key=k fp-bytes=v value=%aF%Af\n", "cmd=put_result rc=0\n"},
        {"cmd=put key=k%4 fp-bytes=v value=%41\n", "cmd=put_result rc=0\n"},
        {"cmd=get key=k\n", "cmd=get_result rc=0 value=\257\257\n"},
        {"cmd=get key=k%4\n", "cmd=get_result rc=0 value=A\n"},
    };
    struct harness h;

    h_init(&h);
    h_start(&h, 1);
    offer(&h);
    assert_int_equal(say(&h, 0, "cmd=init pmi_version=1 pmi_subversion=1 fp-client=2\n"), 0);
    hear(&h, 0);
    for (size_t i = 0; i < N_OF(requests); i++) {
        const char *answer;

        assert_int_equal(say(&h, 0, requests[i][0]), 0);
        answer = hear(&h, 0);
        if (strncmp(answer, requests[i][1], strlen(requests[i][1])) != 0)
            fail_msg("case %zu: %s", i, answer);
    }
    h_stop(&h);
}

/* A server with false announcements: the session ends. */
static void test_bad_answer(void **state)
{
    static const char *const answers[] = {"cmd=get_result rc=0 fp-bytes=v value=a%\n",
                                          "cmd=get_result rc=0 fp-bytes=v value=%1x\n",
                                          "cmd=get_result rc=0 fp-bytes=1 value=a\n"};

    for (size_t i = 0; i < N_OF(answers); i++) {
        struct pmiwire_error err = {0};
        struct pmiwire_event ev;
        struct harness h;
        const void *p;

        h_init(&h);
        h_start(&h, 1);
        offer(&h);
        open_session(&h, 0, PMIWIRE_V1, PMIWIRE_CLIENT_EXTENSIONS, 0);
        assert_int_equal(pmiwire_client_get(sessions[0], none, -1, S("k"), PMIWIRE_GET_LOCAL, 0),
                         0);
        pmiwire_client_sent(sessions[0], pmiwire_client_output(sessions[0], &p));
        assert_int_equal(pmiwire_client_input(sessions[0], answers[i], strlen(answers[i])), 0);
        assert_int_equal(pmiwire_client_next(sessions[0], &ev, NULL), 1);
        assert_int_equal(ev.rc, i < 2 ? PMIWIRE_ECHARS : PMIWIRE_ETYPE);
        assert_int_equal(pmiwire_client_next(sessions[0], &ev, &err), ev.rc);
        assert_non_null(strstr(err.text, "fp-bytes"));
        close_session(0);
        h_stop(&h);
    }
}

/* ---- other fields ---- */

#define ODD  ((struct pmiwire_str)LITERAL("\0 \n;\\%=\377"))
#define ODD2 ((struct pmiwire_str)LITERAL("\t\t%%"))

static void test_other_fields(void **state)
{
    struct pmiwire_event ev;
    struct harness h;

    start_two(&h);
    for (int i = 0; i < 2; i++) {
        struct pmiwire_client *c = sessions[i];
        const struct pmiwire_keyval preput[] = {{S("plain%"), S("100%")}, {ODD2, ODD}};
        const struct pmiwire_spawn_cmd cmds[] = {{.execname = S("a"), .maxprocs = 1},
                                                 {.execname = S("b"), .maxprocs = 1}};
        const struct pmiwire_spawn spawn = {
            .n_cmds = 2, .n_preput = 2, .cmds = cmds, .preput = preput};

        /* names and ports */
        assert_int_equal(done(&h, i, pmiwire_client_publish(c, ODD, ODD2, 0), &ev), 0);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(
                done(&h, k, pmiwire_client_request(sessions[k], PMIWIRE_OP_LOOKUP, ODD, 0), &ev),
                0);
            assert_true(same(ev.value, ODD2));
        }
        assert_int_equal(done(&h, i, pmiwire_client_request(c, PMIWIRE_OP_UNPUBLISH, ODD, 0), &ev),
                         0);
        assert_int_equal(done(&h, i, pmiwire_client_request(c, PMIWIRE_OP_LOOKUP, ODD, 0), &ev),
                         PMIWIRE_ENOENT);
        /* preputs: all fields of a kind are encoded, or none */
        assert_int_equal(pmiwire_client_spawn(c, &spawn, 0), 0);
        assert_int_equal(converse(&h, i, &ev), 0);
        assert_int_equal(memcmp(h.spawned, "put plain%=100%;put \t\t%%=", 25), 0);
        assert_int_equal(pmiwire_server_spawn_done(h.s, h.token, 0, "kid", NULL, 0), 0);
        assert_int_equal(converse(&h, i, &ev), 1);
        assert_int_equal(ev.rc, 0);
    }
    stop_two(&h);
}

/* MPICH 4.0 repeats the preputs in each message of a spawn: decoding a longer repetition leaves the
 * first one, which counts, as it is. */
static void test_spawn_repeats_preputs(void **state)
{
    struct harness h;

    h_init(&h);
    h_start(&h, 1);
    offer(&h);
    assert_int_equal(say(&h, 0, "cmd=init pmi_version=1 pmi_subversion=1 fp-client=2\n"), 0);
    hear(&h, 0);
#define PART(number, value)                                                                        \
    "mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=2\nspawnssofar=" number                           \
    "\nfp-bytes=v\npreput_num=1\npreput_key_0=k\npreput_val_0=" value "\nendcmd\n"
    ask(&h, 0, PART("1", "1%201"), "");
    ask(&h, 0, PART("2", "2%202%202"), "");
    assert_string_equal(h.spawned, "put k=1 1;1*a;1*a;");
    h_stop(&h);
}

static void test_node_attributes(void **state)
{
    struct pmiwire_event ev;
    struct harness h;

    h_init(&h);
    h_start(&h, 2);
    offer(&h);
    for (int i = 0; i < 2; i++)
        open_session(&h, i, PMIWIRE_V2, PMIWIRE_CLIENT_EXTENSIONS, 0);
    assert_int_equal(pmiwire_client_request(sessions[1], PMIWIRE_OP_NODEATTR_WAIT, ODD, 0), 0);
    assert_int_equal(converse(&h, 1, &ev), 0);
    assert_int_equal(done(&h, 0, pmiwire_client_nodeattr_put(sessions[0], ODD, ODD2, 0), &ev), 0);
    assert_int_equal(converse(&h, 1, &ev), 1);
    assert_int_equal(ev.rc, 0);
    assert_true(same(ev.value, ODD2));
    assert_int_equal(done(&h, 0, pmiwire_client_nodeattr_put(sessions[0], S("e"), S(""), 0), &ev),
                     0);
    assert_int_equal(
        done(&h, 1, pmiwire_client_request(sessions[1], PMIWIRE_OP_NODEATTR_GET, S("e"), 0), &ev),
        0);
    assert_int_equal(ev.value.len, 0);
    stop_two(&h);
}

/* A ring over both wires, with values of the maximal length. */
static void test_rings(void **state)
{
    static char longest[1023];
    struct pmiwire_str values[][2] = {
        {S("a"), S("b")}, {ODD, S("50%")}, {ODD, ODD2}, {{longest, 1023}, {longest, 1}}};
    struct pmiwire_event ev;
    struct harness h;

    start_two(&h);
    for (size_t i = 0; i < N_OF(values); i++)
        for (int first = 0; first < 2; first++) {
            for (int k = 0; k < 2; k++) {
                const int who = first ? 1 - k : k;

                assert_int_equal(pmiwire_client_ring(sessions[who], values[i][who], 0), 0);
                if (k == 0)
                    assert_int_equal(converse(&h, who, &ev), 0);
            }
            for (int k = 0; k < 2; k++) {
                const int who = first ? k : 1 - k;

                assert_int_equal(converse(&h, who, &ev), 1);
                assert_int_equal(ev.rc, 0);
                assert_int_equal(ev.number, who);
                assert_true(same(ev.value, values[i][1 - who]));
                assert_true(same(ev.value2, values[i][1 - who]));
            }
        }
    stop_two(&h);
}

/* ---- mixed jobs ---- */

/* Other projects' clients, as they write and read: the value that they take, or that they fail. */
enum { OURS_1, OURS_2, MPICH_1, MPICH_2, SLURM_2, N_KINDS };

static uint32_t seed;

static uint32_t next(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

/* Writes a put as this client does. -1: it cannot. */
static int write_put(char *out, size_t *len, int kind, const char *key, struct pmiwire_str value)
{
    char body[8192];
    size_t n;

    if (memchr(value.ptr, 0, value.len)) /* they have C strings */
        return -1;
    if (kind == MPICH_1 &&
        (memchr(value.ptr, '\n', value.len) || memchr(value.ptr, ' ', value.len)))
        return -1; /* the end of the line, or of the value: the server cannot know */
    if (kind == MPICH_2 && memchr(value.ptr, ';', value.len))
        return -1;
    if (kind == MPICH_1) {
        n = (size_t)sprintf(out, "cmd=put kvsname=kvs_0 key=%s value=", key);
        memcpy(out + n, value.ptr, value.len);
        out[n += value.len] = '\n';
        *len = n + 1;
        return 0;
    }
    n = (size_t)sprintf(body, "cmd=kvs-put;key=%s;value=", key);
    for (size_t i = 0; i < value.len; i++) {
        body[n++] = value.ptr[i];
        if (value.ptr[i] == ';' && kind == SLURM_2)
            body[n++] = ';';
    }
    body[n++] = ';';
    *len = (size_t)sprintf(out, kind == SLURM_2 ? "%-6zu" : "%6zu", n);
    memcpy(out + *len, body, n);
    *len += n;
    return 0;
}

/* Where `text` begins in the n bytes at p; NULL: nowhere. */
static const char *find(const char *p, size_t n, const char *text)
{
    return memmem(p, n, text, strlen(text));
}

/* Reads an answer to a get as this client does. Returns its rc; with 0, `out` is the value that it
 * sees. -1: it cannot read the answer. */
static int read_value(const char *p, size_t n, int kind, char *out, size_t *len)
{
    const char *rc = find(p, n, "rc="), *v = find(p, n, "value="), *end = p + n;

    *len = 0;
    if (!rc)
        return -1;
    if (atoi(rc + 3) != 0) {
        /* the error's text */
        assert_non_null(find(p, n, kind == MPICH_1 ? " msg=value_" : ";errmsg=value "));
        return atoi(rc + 3);
    }
    if (!v)
        return -1;
    for (v += 6; v < end; v++) {
        if (kind == MPICH_1 ? *v == ' ' || *v == '\n' : *v == ';') {
            if (kind != SLURM_2 || v + 1 >= end || v[1] != ';')
                break;
            v++; /* doubled */
        } else if (kind == MPICH_2 && *v == '\\') {
            continue; /* it drops them */
        }
        out[(*len)++] = *v;
    }
    return *len == 0 && kind != SLURM_2 ? -1 : 0;
}

/* Puts by this client. 0: accepted. */
static int put_as(struct harness *h, int kind, const char *key, struct pmiwire_str value)
{
    static char message[16384];
    size_t n, heard;
    const void *p;
    char *rc;

    if (kind <= OURS_2)
        return put(h, kind, S(key), value);
    if (write_put(message, &n, kind, key, value) < 0)
        return -1;
    assert_int_equal(pmiwire_conn_input(h->c[kind], message, n), 0);
    heard = pmiwire_conn_output(h->c[kind], &p);
    memcpy(message, p, heard);
    message[heard] = '\0';
    pmiwire_conn_sent(h->c[kind], heard);
    rc = strstr(message, "rc=");
    assert_non_null(rc);
    if (atoi(rc + 3) != 0)
        assert_non_null(strstr(message, "msg="));
    return atoi(rc + 3);
}

/* Gets by this client. 0, with the value; or an error. */
static int get_as(struct harness *h, int kind, const char *key, char *out, size_t *len)
{
    char message[200];
    const char *line = message;
    struct pmiwire_event ev;
    const void *p;
    size_t n;
    int rc;

    if (kind <= OURS_2) {
        rc = get(h, kind, S(key), &ev);
        *len = rc == 0 ? ev.value.len : 0;
        if (*len)
            memcpy(out, ev.value.ptr, *len);
        return rc;
    }
    snprintf(message, sizeof(message),
             kind == MPICH_1 ? "cmd=get kvsname=kvs_0 key=%s\n" : "cmd=kvs-get;key=%s;", key);
    if (kind != MPICH_1)
        line = kind == SLURM_2 ? v2r(message) : v2(message);
    assert_int_equal(say(h, kind, line), 0);
    n = pmiwire_conn_output(h->c[kind], &p);
    rc = read_value(p, n, kind, out, len);
    assert_int_not_equal(rc, -1); /* no answer, or nonsense */
    pmiwire_conn_sent(h->c[kind], n);
    return rc;
}

static void start_mixed(struct harness *h)
{
    h_init(h);
    h_start(h, N_KINDS);
    offer(h);
    open_session(h, OURS_1, PMIWIRE_V1, PMIWIRE_CLIENT_EXTENSIONS, 0);
    open_session(h, OURS_2, PMIWIRE_V2, PMIWIRE_CLIENT_EXTENSIONS, 0);
    assert_int_equal(say(h, MPICH_1, INIT1), 0);
    hear(h, MPICH_1);
    for (int i = MPICH_2; i < N_KINDS; i++) {
        assert_int_equal(say(h, i, INIT2), 0);
        assert_int_equal(say(h, i, i == SLURM_2 ? v2r("cmd=fullinit;") : v2("cmd=fullinit;")), 0);
        hear(h, i);
    }
}

/* Each value by each client: which clients can put it, and the others' results. */
static void test_mixed_job(void **state)
{
    /* by OURS_1, OURS_2, MPICH_1, MPICH_2, SLURM_2: p it can put it, g it can get it */
    static const struct {
        struct pmiwire_str value;
        const char *can[N_KINDS];
    } cases[] = {
        {LITERAL("plain%="), {"pg", "pg", "pg", "pg", "pg"}},
        {LITERAL(""), {"pg", "pg", "", "", "pg"}},
        {LITERAL("42\n"), {"pg", "pg", "", "pg", "pg"}},
        {LITERAL("a b"), {"pg", "pg", "", "pg", "pg"}},
        {LITERAL(" lead"), {"pg", "pg", "", "pg", "pg"}},
        {LITERAL("\tx\1\177"), {"pg", "pg", "pg", "pg", "pg"}},
        {LITERAL("\303\251"), {"pg", "pg", "pg", "pg", "pg"}},
        {LITERAL("a;b"), {"pg", "pg", "pg", "", "pg"}},
        {LITERAL(";;"), {"pg", "pg", "pg", "", "pg"}},
        {LITERAL("a\\b"), {"pg", "pg", "pg", "", "pg"}},
        {LITERAL("a\0b"), {"pg", "pg", "", "", ""}},
    };
    struct harness h;

    for (size_t i = 0; i < N_OF(cases); i++)
        for (int putter = 0; putter < N_KINDS; putter++) {
            const int may = strchr(cases[i].can[putter], 'p') != NULL;
            char out[100];
            size_t n;

            start_mixed(&h);
            if ((put_as(&h, putter, "k", cases[i].value) == 0) != may)
                fail_msg("case %zu, put by %d", i, putter);
            for (int reader = 0; may && reader < N_KINDS; reader++) {
                const int can = strchr(cases[i].can[reader], 'g') != NULL;
                const int rc = get_as(&h, reader, "k", out, &n);

                if ((rc == 0) != can ||
                    (can && !same((struct pmiwire_str){out, n}, cases[i].value)))
                    fail_msg("case %zu, put by %d, read by %d: %d", i, putter, reader, rc);
            }
            close_session(OURS_1);
            close_session(OURS_2);
            h_stop(&h);
        }
}

/* Random bytes, mixed so that every kind of byte is frequent: a Get returns the put value, or the
 * put is refused, or the get ends with an error; our own clients carry everything. */
static void test_random(void **state)
{
    static const char frequent[] = "aZ0%=;\\ \t\n\1\177\200\377";
    static char value[2048], out[8192];
    long n_accepted = 0, n_refused = 0, n_got = 0, n_errors = 0;

    for (uint32_t job = 0; job < 20; job++) {
        struct harness h;

        seed = job;
        start_mixed(&h);
        for (int round = 0; round < 60; round++) {
            const int putter = (int)(next() % N_KINDS), mix = (int)(next() % 4);
            const struct pmiwire_str v = {value, next() % (round % 10 ? 40 : 1024)};
            char key[16];
            int rc;

            for (size_t i = 0; i < v.len; i++)
                value[i] = mix == 0   ? (char)next()
                           : mix == 1 ? frequent[next() % (sizeof(frequent) - 1)]
                           : mix == 2 ? (char)(33 + next() % 94)
                                      : (char)('a' + next() % 26);
            snprintf(key, sizeof(key), "k%d", round);
            rc = put_as(&h, putter, key, v);
            if (putter <= OURS_2)
                assert_int_equal(rc, 0);
            n_accepted += rc == 0;
            n_refused += rc != 0;
            if (conn_state(h.c[putter]) == PMIWIRE_CONN_FAILED)
                break; /* too many malformed messages */
            for (int reader = 0; rc == 0 && reader < N_KINDS; reader++) {
                size_t n;
                const int got = get_as(&h, reader, key, out, &n);

                if (reader <= OURS_2 || reader == putter)
                    assert_int_equal(got, 0);
                if (got == 0)
                    assert_true(same((struct pmiwire_str){out, n}, v));
                n_got += got == 0;
                n_errors += got != 0;
            }
        }
        close_session(OURS_1);
        close_session(OURS_2);
        h_stop(&h);
    }
    /* None of the four is rare. */
    assert_true(n_accepted > 100 && n_refused > 100 && n_got > 500 && n_errors > 100);
}

/* A value that a profile allows decodes unchanged; otherwise the encoder returns the reason. */
static void test_profiles(void **state)
{
    static const uint16_t cmds[] = {PMIWIRE_V1_PUT, PMIWIRE_V1_GET_RESULT, PMIWIRE_V2_KVS_PUT,
                                    PMIWIRE_V2_KVS_GET_RESPONSE};
    static const char frequent[] = "aZ0%=;\\ \t\n\1\177\200\377";
    static char value[2048], message[8192], plain[8192];
    const struct pmiwire_profile *p;
    long n_carried = 0, n_refused = 0;

    seed = 7;
    for (uint32_t i = 0; i == 0 || pmiwire_profile_at(i - 1); i++)
        for (int round = 0; round < 2000; round++) {
            const struct pmiwire_str v = {value, next() % (round % 20 ? 12 : 1100)};
            const uint16_t cmd = cmds[next() % N_OF(cmds)];
            const int v2_wire = pmiwire_command_get(cmd)->wire == PMIWIRE_V2;
            const int any = (int)(next() % 2);
            struct pmiwire_field fields[8];
            struct pmiwire_msg msg = {.fields = fields, .cap_fields = 8};
            struct pmiwire_error err = {0};
            struct pmiwire_decoder d;
            struct pmiwire_encoder e;
            struct pmiwire_str got;
            ssize_t n;

            p = i ? pmiwire_profile_at(i - 1) : NULL;
            if (p && !(p->flags & (v2_wire ? PMIWIRE_PEER_V2 : PMIWIRE_PEER_V1)))
                continue;
            for (size_t k = 0; k < v.len; k++)
                value[k] =
                    any ? frequent[next() % (sizeof(frequent) - 1)] : (char)('a' + next() % 26);
            pmiwire_enc_begin(&e, message, sizeof(message), cmd, p);
            pmiwire_enc_str(&e, PMIWIRE_F_VALUE, v);
            n = pmiwire_enc_end(&e, &err);
            if (n < 0) {
                assert_true(n == PMIWIRE_ECHARS || n == PMIWIRE_EEMPTY || n == PMIWIRE_EVALLEN ||
                            n == PMIWIRE_ELINE);
                assert_true(n == PMIWIRE_ELINE || strstr(err.text, ": value "));
                n_refused++;
                continue;
            }
            /* Flux's reader takes the rest of the line. */
            pmiwire_decoder_init(
                &d, 0, p && (p->flags & PMIWIRE_PEER_SPACES) ? PMIWIRE_DECODE_VALUE_TO_EOL : 0);
            assert_int_equal(pmiwire_decode(&d, message, (size_t)n, &msg), n);
            assert_int_equal(pmiwire_msg_str(&msg, PMIWIRE_F_VALUE, &got), 0);
            if (msg.fields[0].flags & PMIWIRE_FIELD_ESCAPED)
                got = (struct pmiwire_str){plain, pmiwire_unescape(got, plain)};
            assert_true(same(got, v));
            n_carried++;
        }
    assert_true(n_carried > 2000 && n_refused > 2000);
}

#define K64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* The error names whose limit it is, before a byte is sent. */
static void test_error_text(void **state)
{
    static const struct {
        const char *profile;
        uint16_t cmd, field;
        struct pmiwire_str value;
        const char *text;
    } cases[] = {
        {NULL, PMIWIRE_V1_PUT, PMIWIRE_F_VALUE, LITERAL("abc d"),
         "put: value holds byte 0x20 at 3, which PMI-1 without fp-bytes cannot carry"},
        {"any-server", PMIWIRE_V1_PUT, PMIWIRE_F_VALUE, LITERAL("abc d"),
         "put: value holds byte 0x20 at 3, which PMI-1 without fp-bytes cannot carry"},
        {"any-server", PMIWIRE_V1_PUT, PMIWIRE_F_VALUE, LITERAL("a\\"),
         "put: value holds byte 0x5c at 1, which the profile \"any-server\" cannot carry"},
        {"hydra-4.0", PMIWIRE_V2_KVS_PUT, PMIWIRE_F_VALUE, LITERAL("a;"),
         "kvs-put: value holds byte 0x3b at 1, which the profile \"hydra-4.0\" cannot carry"},
        {"hydra-4.0", PMIWIRE_V2_KVS_PUT, PMIWIRE_F_VALUE, LITERAL("a\0"),
         "kvs-put: value holds byte 0x00 at 1, which PMI-2 without fp-bytes cannot carry"},
        {"mpich-main", PMIWIRE_V2_KVS_GET_RESPONSE, PMIWIRE_F_VALUE, LITERAL(""),
         "kvs-get-response: value is empty, which the profile \"mpich-main\" cannot carry"},
        {"flux", PMIWIRE_V1_PUT, PMIWIRE_F_KEY, LITERAL(K64),
         "put: key has 64 bytes, the profile \"flux\" carries 63"},
        {"flux", PMIWIRE_V1_PUT, PMIWIRE_F_KEY, LITERAL("a=b"),
         "put: key holds byte 0x3d at 1, which PMI-1 without fp-bytes cannot carry"},
        {"flux", PMIWIRE_V1_PUT, PMIWIRE_F_KEY, LITERAL(""), "put: key is empty"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct pmiwire_error err = {0};
        struct pmiwire_encoder e;
        char buf[200];

        pmiwire_enc_begin(&e, buf, sizeof(buf), cases[i].cmd,
                          pmiwire_profile_find(cases[i].profile));
        pmiwire_enc_str(&e, cases[i].field, cases[i].value);
        assert_true(pmiwire_enc_end(&e, &err) < 0);
        assert_string_equal(err.text, cases[i].text);
        assert_int_equal(err.field, cases[i].field);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_negotiation),
        cmocka_unit_test(test_bad_escapes),
        cmocka_unit_test(test_bad_answer),
        cmocka_unit_test(test_other_fields),
        cmocka_unit_test(test_spawn_repeats_preputs),
        cmocka_unit_test(test_node_attributes),
        cmocka_unit_test(test_rings),
        cmocka_unit_test(test_mixed_job),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_profiles),
        cmocka_unit_test(test_error_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
