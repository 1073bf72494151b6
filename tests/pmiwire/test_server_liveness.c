/* SPDX-License-Identifier: BSD-3-Clause */
/* A collective or Get that can no longer complete ends, for all waiting ranks, with an error that
 * names the lost rank and the reason: on one server and on three, on both wires. */
#include "server_ranks.h"

enum { RANKS = 6 }; /* on three nodes: two ranks each, r and r + 3 */

static struct ranks k;

/* Every rank connects and sends init, except `goer` if it must not. */
static void start(uint32_t n_nodes, bool v2, uint32_t goer, enum way way)
{
    r_start(&k, n_nodes, RANKS, v2, PMIWIRE_DESIGN_DKVS);
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r == goer && way == NEVER_CAME)
            continue;
        r_connect(&k, r);
        if (r != goer || way != CLOSES_EARLY)
            r_init(&k, r);
    }
}

static const char *const ends[N_WHATS] = {
    [FENCE] = "this fence cannot complete",
    [GATHER] = "this Allgather cannot complete",
    [RING] = "this ring cannot complete",
    [GET_NAMED] = "no rank is left to put this key",
    [GET] = "no rank is left to put this key",
    [GROUP] = "this barrier of a group cannot complete",
    [NODEATTR] = "no rank is left to put this attribute",
};

/* Does this rank wait? All do in collectives and for keys, the goer's node in the rest. */
static bool is_waiter(uint32_t r, enum what what, uint32_t goer)
{
    if (r == goer || what == GET)
        return r != goer && r == (goer + 1) % RANKS;
    if (what == GROUP || what == NODEATTR)
        return r == (goer + 3) % RANKS;
    return true;
}

/* rank GOER has …: … @param any  another rank may be named as well */
static void hears(uint32_t r, enum what what, uint32_t goer, enum way way, bool any)
{
    const char *heard = r_hear(&k, r);
    char text[200];

    if (any)
        snprintf(text, sizeof(text), ": %s", ends[what]);
    else
        snprintf(text, sizeof(text), "rank %u %s: %s", goer, r_whys[way], ends[what]);
    if (r_rc(heard) != 14 || !strstr(heard, text))
        fail_msg("rank %u hears \"%s\", not \"%s\"", r, heard, text);
}

static void hears_of(uint32_t r, enum what what, uint32_t goer, enum way way)
{
    hears(r, what, goer, way, false);
}

/* The number of calls of stuck(), and the rank of each. */
static void check_stuck(uint32_t n_nodes, enum what what, uint32_t goer)
{
    for (uint32_t i = 0; i < n_nodes; i++) {
        bool waits = false;

        for (uint32_t r = 0; r < RANKS; r++)
            waits = waits || (k.cl.w.node_of[r] == i && is_waiter(r, what, goer));
        for (uint32_t coll = 0; coll < PMIWIRE_COLL_COUNT_; coll++)
            assert_int_equal(k.cl.stuck[i].n[coll], coll == (uint32_t)what && waits);
        assert_int_equal(k.cl.stuck[i].n_groups, what == GROUP && waits);
        if (what <= RING || (what == GROUP && waits))
            assert_int_equal(k.cl.stuck[i].rank, goer);
    }
}

/* All others wait, and the goer ends. */
static void one_goes(uint32_t n_nodes, bool v2, enum what what, enum way way, uint32_t goer)
{
    start(n_nodes, v2, goer, way);
    for (uint32_t r = 0; r < RANKS; r++)
        if (is_waiter(r, what, goer))
            r_enter(&k, r, what, goer, 0);
    r_run(&k);
    for (uint32_t r = 0; r < RANKS; r++)
        if (is_waiter(r, what, goer))
            assert_string_equal(r_hear(&k, r), "");
    /* A Get without a named rank, or for an attribute, needs one of several ranks. */
    for (uint32_t r = 0; r < RANKS; r++)
        if (r != goer && !is_waiter(r, what, goer) &&
            (what == GET || (what == NODEATTR && n_nodes == 1))) {
            r_go(&k, r, FINALIZES);
            r_run(&k);
            cl_tick(&k.cl);
            r_run(&k);
        }
    for (uint32_t r = 0; r < RANKS; r++)
        if (is_waiter(r, what, goer))
            assert_string_equal(r_hear(&k, r), "");
    r_go(&k, goer, way);
    for (uint32_t i = 0; i < 3 && n_nodes > 1; i++) { /* on one node at once */
        r_run(&k);
        if (i == 0 || what == GET || what == GET_NAMED)
            cl_tick(&k.cl);
        r_run(&k);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        if (is_waiter(r, what, goer))
            hears(r, what, goer, way, what == GET && n_nodes > 1);
    check_stuck(n_nodes, what, goer);
    /* Again: at once, and no rank gets the error twice. */
    for (uint32_t r = 0; r < RANKS; r++)
        if (is_waiter(r, what, goer)) {
            r_enter(&k, r, what, goer, 0);
            for (uint32_t i = 0; i < 3 && n_nodes > 1 && (what == GET || what == GET_NAMED); i++) {
                r_run(&k);
                cl_tick(&k.cl);
                r_run(&k);
            }
            hears(r, what, goer, way, what == GET || what == NODEATTR);
        }
    check_stuck(n_nodes, what, goer);
    r_stop(&k);
}

static void test_one_goes(void **state)
{
    for (uint32_t n_nodes = 1; n_nodes <= 3; n_nodes += 2)
        for (uint32_t wire = 0; wire < 2; wire++)
            for (uint32_t what = 0; what < N_WHATS; what++)
                for (uint32_t way = 0; way < N_WAYS; way++)
                    for (uint32_t goer = 0; goer < RANKS; goer++)
                        one_goes(n_nodes, wire == 1, what, way, goer);
}

/* The goer has entered before its end: this collective completes, and no other. */
static void test_goes_inside(void **state)
{
    static const enum way ways[] = {CLOSES, TOO_BIG, ENDS};

    for (uint32_t n_nodes = 1; n_nodes <= 3; n_nodes += 2)
        for (uint32_t i = 0; i < 2 * N_WHATS * 3; i++) {
            const enum what what = i / 6;
            const enum way way = ways[i / 2 % 3];
            const uint32_t goer = i % RANKS;

            if (what == GET || what == GET_NAMED || what == NODEATTR)
                continue;
            start(n_nodes, i % 2 == 1, goer, way);
            r_enter(&k, goer, what, (goer + 3) % RANKS, 0);
            r_go(&k, goer, way);
            r_run(&k);
            cl_tick(&k.cl);
            r_run(&k);
            for (uint32_t r = 0; r < RANKS; r++)
                if (is_waiter(r, what, goer))
                    r_enter(&k, r, what, goer, 0);
            r_run(&k);
            for (uint32_t r = 0; r < RANKS; r++)
                if (is_waiter(r, what, goer))
                    assert_int_equal(r_rc(r_hear(&k, r)), 0);
            for (uint32_t r = 0; r < RANKS; r++)
                if (is_waiter(r, what, goer)) {
                    r_enter(&k, r, what, goer, 0);
                    hears_of(r, what, goer, way);
                }
            check_stuck(n_nodes, what, goer);
            r_stop(&k);
        }
}

/* A client's puts stay: a Get that waits for one gets it. */
static void test_last_put(void **state)
{
    for (uint32_t n_nodes = 1; n_nodes <= 3; n_nodes += 2)
        for (uint32_t i = 0; i < 2 * N_WAYS; i++) {
            const enum way way = i / 2;
            const uint32_t goer = i % RANKS;

            if (way == NEVER_CAME || way == CLOSES_EARLY)
                continue;
            start(n_nodes, i % 2 == 1, goer, way);
            r_enter(&k, (goer + 1) % RANKS, GET_NAMED, goer, 0);
            r_put(&k, goer, 0, true);
            r_go(&k, goer, way);
            r_enter(&k, (goer + 2) % RANKS, GET_NAMED, goer, 0);
            for (uint32_t t = 0; t < 4; t++) {
                r_run(&k);
                cl_tick(&k.cl);
            }
            for (uint32_t r = 1; r < 3; r++) {
                const char *heard = r_hear(&k, (goer + r) % RANKS);

                assert_int_equal(r_rc(heard), 0);
                assert_non_null(strstr(heard, "value=v0"));
            }
            r_stop(&k);
        }
}

/* A client of a port that has only sent its rank may reconnect; one that had sent init may too, but
 * has left all collectives. */
static void test_comes_again(void **state)
{
    r_start(&k, 1, 2, false, 0);
    r_connect(&k, 0);
    r_init(&k, 0);
    r_enter(&k, 0, FENCE, 0, 0);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(
            pmiwire_server_accept(k.cl.servers[0], 0, PMIWIRE_RANK_UNKNOWN, &k.conn[1], &k.conn[1]),
            0);
        r_say(&k, 1, "cmd=initack pmiid=1\n");
        (void)r_hear(&k, 1);
        if (i < 2) {
            if (i == 1)
                r_say(&k, 1, "cmd=bad\xff\n"); /* cut off */
            pmiwire_conn_close(k.conn[1]);
        }
    }
    assert_string_equal(r_hear(&k, 0), "");
    r_init(&k, 1);
    r_enter(&k, 1, FENCE, 0, 0);
    assert_int_equal(r_rc(r_hear(&k, 0)), 0);
    (void)r_hear(&k, 1);
    pmiwire_conn_close(k.conn[1]);
    assert_int_equal(k.cl.stuck[0].n[PMIWIRE_COLL_FENCE], 0);
    r_connect(&k, 1);
    r_init(&k, 1);
    r_put(&k, 1, 0, false);
    for (enum what what = FENCE; what <= GROUP; what++) {
        if (what == GET || what == GET_NAMED)
            continue;
        r_enter(&k, 1, what, 0, 0);
        assert_string_equal(r_hear(&k, 1), "cmd=barrier out rc=14 msg=rank 1 has closed its "
                                           "connection: it takes part in no further operation\n");
    }
    r_enter(&k, 0, FENCE, 0, 0);
    hears_of(0, FENCE, 1, CLOSES);
    assert_true(k.cl.stuck[0].connected);
    r_stop(&k);
}

/* A Get of a process that ended before the server read it does not wait: nothing would end that
 * wait. */
static void test_asks_when_gone(void **state)
{
    static const enum way ways[] = {ENDS, CLOSES};

    for (uint32_t n_nodes = 1; n_nodes <= 3; n_nodes += 2)
        for (uint32_t i = 0; i < 8; i++) {
            const enum way way = ways[i / 2 % 2];
            const char *heard;
            char text[100];

            start(n_nodes, i % 2 == 1, 0, way);
            r_go(&k, 0, way);
            if (way == CLOSES) { /* and has reconnected */
                r_connect(&k, 0);
                r_init(&k, 0);
            }
            r_enter(&k, 0, i < 4 ? GET : GET_NAMED, 1, 0);
            r_run(&k);
            heard = r_hear(&k, 0);
            snprintf(text, sizeof(text), "rank 0 %s: it takes part in no further operation",
                     r_whys[way]);
            if (!strstr(heard, text))
                fail_msg("rank 0 hears \"%s\", not \"%s\"", heard, text);
            r_stop(&k);
        }
}

/* A singleton never waits. */
static void test_alone(void **state)
{
    for (uint32_t wire = 0; wire < 2; wire++) {
        r_start(&k, 1, 1, wire == 1, 0);
        r_connect(&k, 0);
        r_init(&k, 0);
        r_enter(&k, 0, NODEATTR, 0, 0);
        assert_non_null(strstr(r_hear(&k, 0), "rc=14"));
        r_enter(&k, 0, GET, 0, 0);
        assert_true(pmiwire_conn_output(k.conn[0], &(const void *){NULL}) > 0);
        for (uint32_t i = 0; i < 3; i++) {
            (void)r_hear(&k, 0);
            r_enter(&k, 0, FENCE + i, 0, 0);
            assert_int_equal(r_rc(r_hear(&k, 0)), 0);
        }
        r_stop(&k);
    }
}

static int n_diags;
static char last_diag[200];

static void on_diag(void *ctx, const struct pmiwire_peer *who, int code, const char *text)
{
    (void)ctx, (void)who;
    if (code != PMIWIRE_EGONE)
        return;
    n_diags++;
    snprintf(last_diag, sizeof(last_diag), "%s", text);
}

/* Without stuck() the engine reports through diag, once. */
static void test_diag_tells(void **state)
{
    const struct pmiwire_server_ops ops = {.size = sizeof(ops), .diag = on_diag};

    memset(k.conn, 0, sizeof(k.conn));
    k.v2 = false;
    k.n = 3;
    cl_start(&k.cl, 1, 3, BLOCK, 0, NULL, &ops);
    for (uint32_t r = 0; r < 3; r++) {
        r_connect(&k, r);
        r_init(&k, r);
    }
    r_enter(&k, 1, FENCE, 0, 0);
    r_enter(&k, 2, FENCE, 0, 0);
    r_go(&k, 0, FINALIZES);
    assert_int_equal(n_diags, 1);
    assert_string_equal(last_diag,
                        "kvs_0 rank 1: rank 0 has finalized: this fence cannot complete");
    r_enter(&k, 1, FENCE, 0, 0);
    assert_int_equal(n_diags, 1);
    r_stop(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_goes),       cmocka_unit_test(test_goes_inside),
        cmocka_unit_test(test_last_put),       cmocka_unit_test(test_comes_again),
        cmocka_unit_test(test_alone),          cmocka_unit_test(test_diag_tells),
        cmocka_unit_test(test_asks_when_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
