/* SPDX-License-Identifier: BSD-3-Clause */
/* The client session: a server that breaks the protocol or closes, many requests, memory. */
#include "client_script.h"

#include <sys/mman.h>
#include <unistd.h>

/* ---- a server that breaks the protocol ---- */

static void test_broken_server(void **state)
{
    static const struct {
        uint32_t wire;
        int rc;
        const char *text; /* of PMI-2: the body */
    } cases[] = {
        {PMIWIRE_V1, PMIWIRE_EPROTO, "cmd=barrier_out\n"},
        {PMIWIRE_V1, PMIWIRE_EPROTO, "cmd=no_such_command\n"},
        {PMIWIRE_V1, PMIWIRE_EPROTO, "cmd=get kvsname=k key=k\n"},
        {PMIWIRE_V1, PMIWIRE_EPROTO, "    34cmd=kvs-get-response;rc=0;value=v;"},
        {PMIWIRE_V1, PMIWIRE_EPROTO, "mcmd=get_result\nrc=0\nvalue=v\nendcmd\n"},
        {PMIWIRE_V1, PMIWIRE_EMISSING, "cmd=get_result rc=0\n"},
        {PMIWIRE_V1, PMIWIRE_ETYPE, "cmd=get_result rc=zero value=v\n"},
        {PMIWIRE_V1, PMIWIRE_ENOCMD, "cmd= rc=0\n"},
        {PMIWIRE_V1, PMIWIRE_ENOCMD, "come\n"},
        {PMIWIRE_V1, PMIWIRE_ENOEQ, "cmd=get_result rc=0 value=v w\n"},
        {PMIWIRE_V1, PMIWIRE_EEMPTY, "cmd=get_result =0 value=v\n"},
        {PMIWIRE_V1, PMIWIRE_EBADLEN, "\n"},
        {PMIWIRE_V1, PMIWIRE_EBADLEN, "-00001"},
        {PMIWIRE_V2, PMIWIRE_EPROTO, "cmd=kvs-put-response;rc=0;"},
        {PMIWIRE_V2, PMIWIRE_EPROTO, "cmd=what-response;rc=0;"},
        {PMIWIRE_V2, PMIWIRE_EMISSING, "cmd=kvs-get-response;found=TRUE;value=v;"},
        {PMIWIRE_V2, PMIWIRE_EMISSING, "cmd=kvs-get-response;rc=0;found=TRUE;"},
        {PMIWIRE_V2, PMIWIRE_ETYPE, "cmd=kvs-get-response;rc=0;found=maybe;value=v;"},
        {PMIWIRE_V2, PMIWIRE_EUNTERM, "cmd=kvs-get-response;rc=0;value=v"},
        {PMIWIRE_V2, PMIWIRE_ENOEQ, "cmd=kvs-get-response;rc;"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pmiwire_error diag;
        const char *text = cases[i].wire == PMIWIRE_V2 ? v2(cases[i].text) : cases[i].text;

        fresh(cases[i].wire, 0);
        assert_int_equal(pmiwire_client_get(session, absent, -1, S("k"), PMIWIRE_GET_LOCAL, 1), 0);
        assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 2), 0);
        pmiwire_client_sent(session, 1000);
        assert_int_equal(pmiwire_client_input(session, text, strlen(text)), 0);
        for (uint64_t cookie = 1; cookie <= 2; cookie++) {
            assert_int_equal(pmiwire_client_next(session, &ev, NULL), 1);
            if (ev.rc != cases[i].rc)
                fail_msg("case %zu: rc %d (%s)", i, ev.rc, pmiwire_strerror(ev.rc));
            assert_int_equal(ev.cookie, cookie);
        }
        assert_int_equal(pmiwire_client_next(session, &ev, NULL), cases[i].rc);
        assert_int_equal(pmiwire_client_next(session, &ev, NULL), cases[i].rc);
        assert_int_equal(pmiwire_client_input(session, "x", 1), cases[i].rc);
        assert_int_equal(pmiwire_client_put(session, S("k"), S("v"), PMIWIRE_HINT_NONE, 0),
                         cases[i].rc);
        assert_int_equal(pmiwire_client_output(session, &(const void *){NULL}), 0);
        assert_int_equal(pmiwire_client_next(session, &ev, &diag), cases[i].rc);
        assert_int_equal(diag.code, cases[i].rc);
        assert_non_null(strstr(diag.text, pmiwire_strerror(cases[i].rc)));
    }
    /* A NUL, which the table of strings above cannot hold. */
    fresh(PMIWIRE_V1, 0);
    assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 2), 0);
    sends("cmd=barrier_in\n");
    assert_int_equal(pmiwire_client_input(session, "cmd=barrier_out x=\0\n", 20), 0);
    assert_int_equal(pmiwire_client_next(session, &ev, NULL), 1);
    assert_int_equal(ev.rc, PMIWIRE_ENUL);
}

/* Answers without a request, and answers that come before the request is sent. */
static void test_unasked(void **state)
{
    const void *data;

    fresh(PMIWIRE_V1, 0);
    assert_int_equal(hear("cmd=barrier_out\n"), PMIWIRE_EPROTO);
    for (size_t part = 0; part < strlen("cmd=barrier_in\n"); part++) {
        fresh(PMIWIRE_V1, 0);
        assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 2), 0);
        assert_int_equal(pmiwire_client_output(session, &data), strlen("cmd=barrier_in\n"));
        pmiwire_client_sent(session, part);
        answered("cmd=barrier_out\n", PMIWIRE_OP_FENCE, PMIWIRE_EPROTO);
    }
    /* One at a time: the second answer cannot be there yet. */
    fresh(PMIWIRE_V1, 0);
    assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 2), 0);
    assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 3), 0);
    sends("cmd=barrier_in\n");
    answered("cmd=barrier_out\ncmd=barrier_out\n", PMIWIRE_OP_FENCE, 0);
    assert_int_equal(ev.cookie, 2);
    assert_int_equal(pmiwire_client_next(session, &ev, NULL), 1);
    assert_int_equal(ev.rc, PMIWIRE_EPROTO);
    assert_int_equal(ev.cookie, 3);
}

/* The server closes after each byte of a whole conversation: every request gets one event.
 * */
static void test_eof_everywhere(void **state)
{
    static const char *const script[] = {INITED_V1,
                                         MAXES,
                                         "cmd=appnum appnum=3\n",
                                         "cmd=my_kvsname kvsname=k\n",
                                         "cmd=put_result rc=0\n",
                                         "cmd=barrier_out\n",
                                         "cmd=finalize_ack\n"};
    struct pmiwire_client_opts o = options(PMIWIRE_V1);
    size_t total = 0;

    for (size_t i = 0; i < 7; i++)
        total += strlen(script[i]);
    for (size_t cut = 0; cut <= total; cut++) {
        size_t left = cut;
        int n_good = 0, n_eof = 0, rc, line = 0;
        size_t at = 0;

        create(&o);
        for (int turns = 0;; turns++) {
            assert_true(turns < 1000);
            rc = pmiwire_client_next(session, &ev, NULL);
            if (rc < 0)
                break;
            if (rc > 0) {
                n_good += ev.rc == 0;
                n_eof += ev.rc == PMIWIRE_EEOF;
                if (ev.op == PMIWIRE_OP_INIT && ev.rc == 0) {
                    assert_int_equal(
                        pmiwire_client_put(session, S("k"), S("v"), PMIWIRE_HINT_NONE, 1), 0);
                    assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 2), 0);
                    assert_int_equal(pmiwire_client_finalize(session, 3), 0);
                }
                continue;
            }
            pmiwire_client_sent(session, 1000);
            if (left == 0) {
                pmiwire_client_eof(session);
                continue;
            }
            assert_int_equal(pmiwire_client_input(session, script[line] + at, 1), 0);
            left--;
            at++;
            if (!script[line][at]) {
                line++;
                at = 0;
            }
        }
        assert_int_equal(rc, cut == total ? PMIWIRE_ESTATE : PMIWIRE_EEOF);
        /* INIT alone, or INIT and the three requests. */
        assert_int_equal(n_good + n_eof, n_good ? 4 : 1);
        assert_int_equal(n_good == 4, cut == total);
        assert_int_equal(pmiwire_client_next(session, &ev, NULL), rc);
    }
    /* Answers that came before the end are reported. */
    fresh(PMIWIRE_V1, 0);
    assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 2), 0);
    sends("cmd=barrier_in\n");
    assert_int_equal(pmiwire_client_input(session, "cmd=barrier_out\n", 16), 0);
    pmiwire_client_eof(session);
    assert_int_equal(pmiwire_client_next(session, &ev, NULL), 1);
    assert_int_equal(ev.rc, 0);
    assert_int_equal(pmiwire_client_next(session, &ev, NULL), PMIWIRE_EEOF);
    assert_int_equal(pmiwire_client_input(session, "x", 1), PMIWIRE_EEOF);
}

/* ---- many requests ---- */

static void test_pending_limit(void **state)
{
    for (uint32_t flags = 0; flags <= PMIWIRE_CLIENT_PIPELINE; flags++) {
        fresh(PMIWIRE_V1, flags);
        for (uint64_t round = 0, asked = 0, heard = 0; round < 5; round++) {
            int rc;

            while ((rc = pmiwire_client_fence(session, pmiwire_strz(NULL), asked)) == 0)
                asked++;
            assert_int_equal(rc, -EAGAIN);
            assert_int_equal(asked - heard, PMIWIRE_CLIENT_MAX_PENDING);
            assert_int_equal(pmiwire_client_finalize(session, 0), -EAGAIN);
            for (uint64_t n = round < 4 ? 7 + round : asked - heard; n; n--) {
                pmiwire_client_sent(session, 1u << 20);
                answered("cmd=barrier_out\n", PMIWIRE_OP_FENCE, 0);
                assert_int_equal(ev.cookie, heard++);
            }
        }
        idle();
    }
}

static void test_pipelining(void **state)
{
    fresh(PMIWIRE_V2, 0);
    assert_int_equal(pmiwire_client_put(session, S("k"), S("v"), PMIWIRE_HINT_NONE, 1), 0);
    assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_APPNUM, pmiwire_strz(NULL), 2), 0);
    assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 3), 0);
    sends(v2("cmd=kvs-put;key=k;value=v;"));
    answered(v2("cmd=kvs-put-response;rc=0;"), PMIWIRE_OP_PUT, 0);
    assert_int_equal(pmiwire_client_next(session, &ev, NULL), 1);
    assert_int_equal(ev.cookie, 2);
    sends(v2("cmd=kvs-fence;"));
    answered(v2("cmd=kvs-fence-response;rc=0;"), PMIWIRE_OP_FENCE, 0);

    fresh(PMIWIRE_V2, PMIWIRE_CLIENT_PIPELINE);
    assert_int_equal(pmiwire_client_put(session, S("k"), S("v"), PMIWIRE_HINT_NONE, 1), 0);
    assert_int_equal(pmiwire_client_request(session, PMIWIRE_OP_APPNUM, pmiwire_strz(NULL), 2), 0);
    assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 3), 0);
    sends("    26cmd=kvs-put;key=k;value=v;    14cmd=kvs-fence;");
    answered("    26cmd=kvs-put-response;rc=0;    28cmd=kvs-fence-response;rc=0;", PMIWIRE_OP_PUT,
             0);
    assert_int_equal(pmiwire_client_next(session, &ev, NULL), 1);
    assert_int_equal(ev.cookie, 2);
    assert_int_equal(pmiwire_client_next(session, &ev, NULL), 1);
    assert_int_equal(ev.cookie, 3);
    assert_int_equal(ev.rc, 0);
    idle();
}

/* An abort does not wait for requests before it, but does not cut a message that is partly sent. */
static void test_abort_overtakes(void **state)
{
    static const char fence[] = "cmd=barrier_in\n", put[] = "cmd=put kvsname=kvs_1 key=k value=v\n",
                      stop[] = "cmd=abort exitcode=3\n", stop4[] = "cmd=abort exitcode=4\n";
    const size_t n = sizeof(fence) - 1;

    for (uint32_t flags = 0; flags <= PMIWIRE_CLIENT_PIPELINE; flags++) {
        for (size_t out = 0; out <= n; out++) {
            char stream[400] = "", expected[400];
            size_t got;
            const void *data;

            fresh(PMIWIRE_V1, flags);
            assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 1), 0);
            assert_int_equal(pmiwire_client_put(session, S("k"), S("v"), PMIWIRE_HINT_NONE, 2), 0);
            assert_true(pmiwire_client_output(session, &data) >= n);
            memcpy(stream, data, out);
            pmiwire_client_sent(session, out);
            assert_int_equal(pmiwire_client_abort(session, 3, absent, 3), 0);
            assert_int_equal(pmiwire_client_abort(session, 4, absent, 4), 0);
            got = pmiwire_client_output(session, &data);
            memcpy(stream + out, data, got);
            pmiwire_client_sent(session, got);
            /* Only the put waits for its turn, without pipelining. */
            snprintf(expected, sizeof(expected), "%s%s%s%s%s", out ? fence : "", stop4, stop,
                     out ? "" : fence, flags ? put : "");
            assert_string_equal(stream, expected);
            assert_int_equal(pmiwire_client_next(session, &ev, NULL), 0);
            answered("cmd=barrier_out\n", PMIWIRE_OP_FENCE, 0);
            if (!flags)
                sends(put);
            answered("cmd=put_result rc=0\n", PMIWIRE_OP_PUT, 0);
            for (uint64_t cookie = 3; cookie <= 4; cookie++) {
                assert_int_equal(pmiwire_client_next(session, &ev, NULL), 1);
                assert_int_equal(ev.op, PMIWIRE_OP_ABORT);
                assert_int_equal(ev.cookie, cookie);
                assert_int_equal(ev.rc, 0);
            }
            idle();
        }
    }
    /* The usual end: the fence is never answered. A sent abort counts, an unsent one does not. */
    fresh(PMIWIRE_V1, 0);
    assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 1), 0);
    sends(fence);
    assert_int_equal(pmiwire_client_abort(session, 3, absent, 3), 0);
    sends(stop);
    assert_int_equal(pmiwire_client_abort(session, 4, absent, 4), 0);
    pmiwire_client_eof(session);
    for (uint64_t cookie = 1; cookie <= 4; cookie += cookie == 1 ? 2 : 1) {
        assert_int_equal(pmiwire_client_next(session, &ev, NULL), 1);
        assert_int_equal(ev.cookie, cookie);
        assert_int_equal(ev.rc, cookie == 3 ? 0 : PMIWIRE_EEOF);
    }
    assert_int_equal(pmiwire_client_next(session, &ev, NULL), PMIWIRE_EEOF);
}

/* ---- memory ---- */

static char *guarded; /* a block that ends before an inaccessible page */
static size_t guarded_bytes;

static void *guard_realloc(void *ctx, void *ptr, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t map = (bytes + 2 * page - 1) / page * page;

    assert_null(ptr);
    assert_null(guarded);
    assert_int_equal(bytes % 16, 0);
    guarded = mmap(NULL, map, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(guarded, MAP_FAILED);
    assert_int_equal(mprotect(guarded + map - page, page, PROT_NONE), 0);
    memset(guarded, 0xa5, map - page);
    guarded_bytes = map;
    return guarded + map - page - bytes;
}

static void guard_free(void *ctx, void *ptr)
{
    (void)ctx, (void)ptr;
    munmap(guarded, guarded_bytes);
    guarded = NULL;
}

/* A session allocates one block, and stays within it. */
static void test_one_block(void **state)
{
    const struct pmiwire_allocator allocator = {guard_realloc, guard_free, NULL};

    for (uint32_t wire = PMIWIRE_V1; wire <= PMIWIRE_V2; wire++) {
        struct pmiwire_client_opts o = options(wire);
        char text[1000];
        int rc;

        o.max_msg_bytes = 1001;
        o.max_fields = 17;
        o.allocator = &allocator;
        if (wire == PMIWIRE_V2)
            o.jobid = "1";
        create(&o);
        if (wire == PMIWIRE_V1) {
            begin_v1();
        } else {
            sends(INIT_V2);
            assert_int_equal(hear(INITED_V2), 0);
            sends(v2("cmd=fullinit;pmijobid=1;pmirank=1;threaded=FALSE;"));
            answered(v2(FULLINITED), PMIWIRE_OP_INIT, 0);
        }
        /* Fill the output, then the input, to the last byte. */
        memset(text, 'x', sizeof(text));
        while ((rc = pmiwire_client_put(session, S("k"), (struct pmiwire_str){text, 300},
                                        PMIWIRE_HINT_NONE, 0)) == 0)
            continue;
        assert_int_equal(rc, -EAGAIN);
        /* What can never succeed is refused at once, not told to wait. */
        assert_int_equal(
            pmiwire_client_put(session, S("k"), (struct pmiwire_str){text, 300}, 99, 0), -EINVAL);
        pmiwire_client_sent(session, 1000);
        while (pmiwire_client_input(session, " ", 1) == 0)
            continue;
        assert_int_equal(pmiwire_client_next(session, &ev, NULL), 1);
        assert_int_equal(ev.rc, PMIWIRE_ETOOBIG);
        pmiwire_client_destroy(session);
        session = NULL;
        assert_null(guarded);
    }
}

/* The longest messages pass, one byte more does not. */
static void test_longest(void **state)
{
    struct pmiwire_client_opts o = options(PMIWIRE_V1);
    char text[700], line[1100];

    memset(text, 'x', sizeof(text));
    o.max_msg_bytes = 600;
    fresh_with(&o);
    /* "cmd=put kvsname=kvs_1 key=k value=" and a newline are 35. */
    assert_int_equal(
        pmiwire_client_put(session, S("k"), (struct pmiwire_str){text, 566}, PMIWIRE_HINT_NONE, 0),
        PMIWIRE_ETOOBIG);
    assert_int_equal(
        pmiwire_client_put(session, S("k"), (struct pmiwire_str){text, 565}, PMIWIRE_HINT_NONE, 0),
        0);
    assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 0), -EAGAIN);
    assert_int_equal(
        pmiwire_client_put(session, S("k"), (struct pmiwire_str){text, 566}, PMIWIRE_HINT_NONE, 0),
        -EAGAIN);
    pmiwire_client_sent(session, 1000);
    answered("cmd=put_result rc=0\n", PMIWIRE_OP_PUT, 0);
    /* Room frees itself as bytes go out. */
    for (int i = 0; i < 50; i++) {
        assert_int_equal(pmiwire_client_put(session, S("k"), (struct pmiwire_str){text, 250},
                                            PMIWIRE_HINT_NONE, 0),
                         0);
        assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 0), 0);
        pmiwire_client_sent(session, 1000);
        answered("cmd=put_result rc=0\n", PMIWIRE_OP_PUT, 0);
        sends("cmd=barrier_in\n");
        answered("cmd=barrier_out\n", PMIWIRE_OP_FENCE, 0);
    }
    for (int more = 0; more < 2; more++) {
        assert_int_equal(pmiwire_client_get(session, absent, -1, S("k"), PMIWIRE_GET_LOCAL, 0), 0);
        pmiwire_client_sent(session, 1000);
        snprintf(line, sizeof(line), "cmd=get_result rc=0 value=%.*s\n", 600 - 27 + more, text);
        answered(line, PMIWIRE_OP_GET, more ? PMIWIRE_ETOOBIG : 0);
    }
    /* A silent flood without an end of line. */
    fresh_with(&o);
    assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 0), 0);
    pmiwire_client_sent(session, 1000);
    memcpy(line, "cmd=", 4);
    memset(line + 4, 'x', 596);
    assert_int_equal(pmiwire_client_input(session, line, 600), 0);
    assert_int_equal(pmiwire_client_next(session, &ev, NULL), 1);
    assert_int_equal(ev.rc, PMIWIRE_ETOOBIG);
    /* More fields than there is room for. */
    o.max_fields = 16;
    fresh_with(&o);
    assert_int_equal(pmiwire_client_fence(session, pmiwire_strz(NULL), 0), 0);
    sends("cmd=barrier_in\n");
    answered(
        "cmd=barrier_out a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1 i=1 j=1 k=1 l=1 m=1 n=1 o=1 p=1 q=1\n",
        PMIWIRE_OP_FENCE, PMIWIRE_EFIELDS);
    /* The name of a key-value space that is longer than any server's. */
    o.max_msg_bytes = 0;
    o.max_fields = 0;
    create(&o);
    sends(INIT_V1);
    assert_int_equal(hear(INITED_V1), 0);
    sends("cmd=get_maxes\n");
    assert_int_equal(hear(MAXES), 0);
    sends("cmd=get_appnum\n");
    assert_int_equal(hear("cmd=appnum appnum=3\n"), 0);
    sends("cmd=get_my_kvsname\n");
    memset(line, 'x', sizeof(line));
    memcpy(line, "cmd=my_kvsname kvsname=", 23);
    memcpy(line + 23 + 1025, "\n", 2);
    answered(line, PMIWIRE_OP_INIT, PMIWIRE_EVALLEN);
}

static int live;

static void *count_realloc(void *ctx, void *ptr, size_t bytes)
{
    if (*(int *)ctx)
        return NULL;
    assert_null(ptr);
    live++;
    return malloc(bytes);
}

static void count_free(void *ctx, void *ptr)
{
    live--;
    free(ptr);
}

static void test_allocator(void **state)
{
    int refuse = 1;
    struct pmiwire_allocator alloc = {count_realloc, count_free, &refuse};
    struct pmiwire_client_opts o = options(PMIWIRE_V1);

    o.allocator = &alloc;
    assert_int_equal(pmiwire_client_create(&o, &session), -ENOMEM);
    assert_null(session);
    refuse = 0;
    assert_int_equal(pmiwire_client_create(&o, &session), 0);
    alloc.free = NULL; /* it was copied */
    begin_v1();
    pmiwire_client_destroy(session);
    session = NULL;
    assert_int_equal(live, 0);
    pmiwire_client_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_broken_server, cleanup),
        cmocka_unit_test_teardown(test_unasked, cleanup),
        cmocka_unit_test_teardown(test_eof_everywhere, cleanup),
        cmocka_unit_test_teardown(test_pending_limit, cleanup),
        cmocka_unit_test_teardown(test_pipelining, cleanup),
        cmocka_unit_test_teardown(test_abort_overtakes, cleanup),
        cmocka_unit_test_teardown(test_one_block, cleanup),
        cmocka_unit_test_teardown(test_longest, cleanup),
        cmocka_unit_test_teardown(test_allocator, cleanup),
    };

    return cmocka_run_group_tests_name("client, hostile", tests, NULL, NULL);
}
