/* SPDX-License-Identifier: BSD-3-Clause */
/* Three nodes, each with a server, and six clients on both wires: server.h's promises for several
 * nodes. */
#define _GNU_SOURCE
#include <stdbool.h>

#include "server_cluster.h"

#include <pmiwire/client.h>

enum { NODES = 3, RANKS = 6 };

struct client {
    struct pmiwire_client *c;
    struct pmiwire_conn *conn; /* its server's end */
    struct pmiwire_event ev;
    char value[1100], value2[1100];
    bool answered;
};

static struct cluster cl;
static struct client clients[RANKS];

/* ---- the cluster ---- */

static void start(uint32_t design)
{
    memset(clients, 0, sizeof(clients));
    cl_start(&cl, NODES, RANKS, CYCLIC, design, NULL, NULL);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(pmiwire_server_advertise(cl.servers[i], 0, PMIWIRE_EXT_SERVER, str("1")),
                         0);
        assert_int_equal(pmiwire_server_advertise(cl.servers[i], 0, PMIWIRE_EXT_EXCHANGE, str("1")),
                         0);
    }
}

/* Delivers all bytes and frames between clients, servers and nodes. */
static void settle(void)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (uint32_t r = 0; r < RANKS; r++) {
            struct client *k = &clients[r];
            struct pmiwire_event ev;
            const void *p;
            size_t n;

            if (!k->c)
                continue;
            while ((n = pmiwire_client_output(k->c, &p)) > 0) {
                (void)pmiwire_conn_input(k->conn, p, n);
                pmiwire_client_sent(k->c, n);
                moved = true;
            }
            while ((n = pmiwire_conn_output(k->conn, &p)) > 0) {
                assert_int_equal(pmiwire_client_input(k->c, p, n), 0);
                pmiwire_conn_sent(k->conn, n);
                moved = true;
            }
            while (pmiwire_client_next(k->c, &ev, NULL) == 1) {
                assert_false(k->answered);
                k->answered = true;
                k->ev = ev;
                snprintf(k->value, sizeof(k->value), "%.*s", (int)ev.value.len,
                         ev.value.ptr ? ev.value.ptr : "");
                snprintf(k->value2, sizeof(k->value2), "%.*s", (int)ev.value2.len,
                         ev.value2.ptr ? ev.value2.ptr : "");
                moved = true;
            }
        }
        if (!moved)
            moved = cl_step(&cl);
    }
}

static void answered(uint32_t r, int rc)
{
    settle();
    assert_true(clients[r].answered);
    assert_int_equal(clients[r].ev.rc, rc);
    clients[r].answered = false;
}

static void waits(uint32_t r)
{
    settle();
    assert_false(clients[r].answered);
}

/* Even ranks speak PMI-1, odd ones PMI-2. */
static void connect_all(uint32_t flags)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        struct pmiwire_client_opts o = {.size = sizeof(o),
                                        .wire = r % 2 ? PMIWIRE_V2 : PMIWIRE_V1,
                                        .rank = (int32_t)r,
                                        .n_ranks = RANKS,
                                        .flags = flags};

        assert_int_equal(pmiwire_server_accept(cl.servers[cl.w.node_of[r]], 0, (int32_t)r, NULL,
                                               &clients[r].conn),
                         0);
        assert_int_equal(pmiwire_client_create(&o, &clients[r].c), 0);
        answered(r, 0);
    }
}

static void stop(void)
{
    for (uint32_t r = 0; r < RANKS; r++)
        pmiwire_client_destroy(clients[r].c);
    cl_stop(&cl);
}

static void put(uint32_t r, const char *key, const char *value, uint32_t hint)
{
    assert_int_equal(pmiwire_client_put(clients[r].c, str(key), str(value), hint, 0), 0);
    answered(r, 0);
}

static void fence_all(void)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(pmiwire_client_fence(clients[r].c, pmiwire_strz(NULL), 0), 0);
        if (r + 1 < RANKS)
            waits(r);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        answered(r, 0);
    for (uint32_t i = 1; i < NODES; i++)
        assert_int_equal(cl.n_fenced[i], cl.n_fenced[0]);
}

/* ---- tests ---- */

static void test_put_fence_get(void **state)
{
    char key[16];

    for (uint32_t design = 0; design < 3; design++) {
        start(design);
        connect_all(PMIWIRE_CLIENT_EXTENSIONS);
        for (uint32_t r = 0; r < RANKS; r++) {
            snprintf(key, sizeof(key), "k%u", r);
            put(r, key, key, PMIWIRE_HINT_NONE);
        }
        fence_all();
        for (uint32_t r = 0; r < RANKS; r++)
            for (uint32_t i = 0; i < RANKS; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                assert_int_equal(
                    pmiwire_client_get(clients[r].c, str(NULL), -1, str(key), PMIWIRE_GET_LOCAL, 0),
                    0);
                answered(r, 0);
                assert_string_equal(clients[r].value, key);
            }
        stop();
    }
}

/* A hint does not shorten values: a put that fits without a hint, up to the server's last byte,
 * fits with one. */
static void test_hints_on_long_values(void **state)
{
    static char value[1024];
    const size_t most = 1023;

    memset(value, 'v', most);
    start(PMIWIRE_DESIGN_DKVS);
    connect_all(PMIWIRE_CLIENT_EXTENSIONS);
    for (size_t len = most - 140; len <= most; len++)
        for (uint32_t r = 0; r < 2; r++) { /* PMI-1 and PMI-2 */
            char key[64];

            snprintf(key, sizeof(key), "%063zu", len * 2 + r);
            value[len] = '\0';
            put(r, key, value, len % 2 ? PMIWIRE_HINT_SPARSE : PMIWIRE_HINT_DENSE);
            assert_int_equal(pmiwire_client_get(clients[r].c, pmiwire_strz(NULL), (int32_t)r,
                                                str(key), PMIWIRE_GET_REMOTE, 0),
                             0);
            answered(r, 0);
            assert_int_equal(strlen(clients[r].value), len);
            value[len] = 'v';
        }
    stop();
}

/* A Get that probes for a key gets its answer at once; one with a wait waits. */
static void test_far_gets(void **state)
{
    for (uint32_t design = 0; design < 3; design++)
        for (uint32_t r = 0; r < RANKS; r++) {
            start(design);
            connect_all(PMIWIRE_CLIENT_EXTENSIONS);
            assert_int_equal(
                pmiwire_client_get(clients[r].c, str(NULL), -1, str("key"), PMIWIRE_GET_LOCAL, 0),
                0);
            answered(r, PMIWIRE_ENOENT);
            assert_int_equal(cl_stats(&cl, cl.w.node_of[r]).n_requests, 0);
            assert_int_equal(pmiwire_client_get(clients[r].c, pmiwire_strz(NULL), 4, str("key"),
                                                PMIWIRE_GET_REMOTE, 0),
                             0);
            answered(r, PMIWIRE_ENOENT);
            assert_int_equal(pmiwire_client_get(clients[r].c, pmiwire_strz(NULL), 4, str("key"),
                                                PMIWIRE_GET_WAIT, 0),
                             0);
            waits(r);
            if (r == 4) { /* a waiting rank cannot put: another rank of its node does */
                put(1, "key", "value", PMIWIRE_HINT_SPARSE);
            } else {
                put(4, "key", "value", PMIWIRE_HINT_SPARSE);
            }
            answered(r, 0);
            assert_string_equal(clients[r].value, "value");
            assert_int_equal(
                pmiwire_client_get(clients[r].c, pmiwire_strz(NULL), 4, str("key"), 3, 0), -EINVAL);
            stop();
        }
}

static void ticks(void)
{
    for (uint32_t i = 0; i < 5; i++) {
        cl_tick(&cl);
        settle();
    }
}

static void finalize(uint32_t r)
{
    assert_int_equal(pmiwire_client_finalize(clients[r].c, 0), 0);
    answered(r, 0);
}

/* A Get that named the finalizing rank ends, except for that rank's puts; a Get without a name ends
 * when all others have finalized. */
static void test_source_gone(void **state)
{
    for (uint32_t design = 0; design < 3; design++) {
        start(design);
        connect_all(PMIWIRE_CLIENT_EXTENSIONS);
        assert_int_equal(pmiwire_client_get(clients[0].c, pmiwire_strz(NULL), 4, str("key"),
                                            PMIWIRE_GET_WAIT, 0),
                         0);
        if (design != PMIWIRE_DESIGN_DIRECT) /* there a Get must name its source */
            assert_int_equal(pmiwire_client_get(clients[1].c, pmiwire_strz(NULL), -1, str("key"),
                                                PMIWIRE_GET_WAIT, 0),
                             0);
        ticks();
        put(4, "another", "value", PMIWIRE_HINT_SPARSE);
        finalize(4);
        finalize(3);
        ticks();
        answered(0, PMIWIRE_EPEER);
        assert_int_equal(pmiwire_client_get(clients[0].c, pmiwire_strz(NULL), 4, str("another"),
                                            PMIWIRE_GET_WAIT, 0),
                         0);
        answered(0, 0);
        assert_string_equal(clients[0].value, "value");
        finalize(0);
        finalize(2);
        ticks();
        waits(1); /* rank 5 could put it */
        finalize(5);
        ticks();
        if (design != PMIWIRE_DESIGN_DIRECT)
            answered(1, PMIWIRE_EPEER);
        stop();
    }
}

/* Slurm's command on PMI-2, the extension's field on PMI-1, in one ring. */
static void test_ring(void **state)
{
    static const uint32_t order[RANKS] = {0, 3, 1, 4, 2, 5}; /* dealt out to the nodes one by one */
    char text[64];

    start(0);
    connect_all(PMIWIRE_CLIENT_EXTENSIONS);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            snprintf(text, sizeof(text), "%u-of-%u", r, round);
            assert_int_equal(pmiwire_client_ring(clients[r].c, str(text), 0), 0);
            settle();
        }
        for (uint32_t i = 0; i < RANKS; i++) {
            struct client *k = &clients[order[i]];

            answered(order[i], 0);
            assert_int_equal(k->ev.number, i);
            snprintf(text, sizeof(text), "%u-of-%u", order[(i + RANKS - 1) % RANKS], round);
            assert_string_equal(k->value, text);
            snprintf(text, sizeof(text), "%u-of-%u", order[(i + 1) % RANKS], round);
            assert_string_equal(k->value2, text);
        }
    }
    for (uint32_t i = 0; i < NODES; i++)
        assert_int_equal(cl_stats(&cl, i).frames[PMIWIRE_FRAME_RING].n_sent, 6);
    stop();
}

/* The longest values that a PMI-1 answer always carries, and one that it cannot. */
static void test_ring_limits(void **state)
{
    static char text[1000];

    start(0);
    connect_all(PMIWIRE_CLIENT_EXTENSIONS);
    memset(text, 'x', 440);
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(pmiwire_client_ring(clients[r].c, str(text), 0), 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        answered(r, 0);
        assert_string_equal(clients[r].value, text);
    }
    memset(text, 'x', 900);
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(pmiwire_client_ring(clients[r].c, str(text), 0), 0);
    for (uint32_t r = 0; r < RANKS; r++)
        answered(r, r % 2 ? 0 : PMIWIRE_EPEER);
    assert_int_equal(pmiwire_client_ring(clients[0].c, str("a b"), 0), PMIWIRE_ECHARS);
    stop();
}

/* Clients request nothing of servers that advertise nothing. */
static void test_not_advertised(void **state)
{
    start(0);
    for (uint32_t i = 0; i < NODES; i++)
        assert_int_equal(
            pmiwire_server_advertise(cl.servers[i], 0, PMIWIRE_EXT_EXCHANGE, str(NULL)), 0);
    connect_all(0);
    put(0, "key", "v", PMIWIRE_HINT_SPARSE); /* a plain put, so that the Fence brings it */
    assert_int_equal(
        pmiwire_client_get(clients[1].c, pmiwire_strz(NULL), 0, str("key"), PMIWIRE_GET_WAIT, 0),
        PMIWIRE_EVERSION);
    assert_int_equal(
        pmiwire_client_get(clients[1].c, pmiwire_strz(NULL), 0, str("key"), PMIWIRE_GET_LOCAL, 0),
        0);
    answered(1, PMIWIRE_ENOENT);
    assert_int_equal(pmiwire_client_ring(clients[0].c, str("v"), 0), PMIWIRE_EVERSION);
    fence_all();
    assert_int_equal(
        pmiwire_client_get(clients[1].c, pmiwire_strz(NULL), 0, str("key"), PMIWIRE_GET_LOCAL, 0),
        0);
    answered(1, 0);
    stop();
}

static void test_bad_words(void **state)
{
    static const char *const lines[] = {
        "cmd=put fp-hint=maybe key=k value=v\n", "cmd=get fp-get=please key=k\n",
        "cmd=get fp-get=wait fp-src=me key=k\n", "cmd=get fp-get=wait fp-src=6 key=k\n",
        "cmd=get fp-get=wait fp-src=-2 key=k\n"};
    const void *p;
    size_t n;

    start(0);
    connect_all(PMIWIRE_CLIENT_EXTENSIONS);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_int_equal(pmiwire_conn_input(clients[0].conn, lines[i], strlen(lines[i])), 0);
        n = pmiwire_conn_output(clients[0].conn, &p);
        assert_true(n > 0 && memmem(p, n, "rc=-1", 5));
        pmiwire_conn_sent(clients[0].conn, n);
    }
    stop();
}

static void test_lost_node(void **state)
{
    start(0);
    connect_all(PMIWIRE_CLIENT_EXTENSIONS);
    cl.w.nodes[2].dead = true; /* of ranks 2 and 5 */
    assert_int_equal(pmiwire_client_fence(clients[0].c, pmiwire_strz(NULL), 0), 0);
    assert_int_equal(pmiwire_client_fence(clients[3].c, pmiwire_strz(NULL), 0), 0);
    assert_int_equal(pmiwire_client_ring(clients[1].c, str("v"), 0), 0);
    assert_int_equal(
        pmiwire_client_get(clients[4].c, pmiwire_strz(NULL), 2, str("key"), PMIWIRE_GET_WAIT, 0),
        0);
    for (uint32_t r = 0; r < 5; r++)
        if (r != 2)
            waits(r);
    assert_int_equal(pmiwire_server_node_lost(cl.servers[0], 0, cl_number(2)), 0);
    for (uint32_t r = 0; r < 5; r++)
        if (r != 2)
            answered(r, PMIWIRE_EPEER);
    for (uint32_t i = 0; i < NODES; i++)
        assert_int_equal(cl.n_failed[i], i != 2);
    assert_int_equal(cl.failed_rc, PMIWIRE_ELOST);
    assert_int_equal(cl.failed_node, cl_number(2));
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_fence_get),  cmocka_unit_test(test_hints_on_long_values),
        cmocka_unit_test(test_far_gets),       cmocka_unit_test(test_source_gone),
        cmocka_unit_test(test_ring),           cmocka_unit_test(test_ring_limits),
        cmocka_unit_test(test_not_advertised), cmocka_unit_test(test_bad_words),
        cmocka_unit_test(test_lost_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
