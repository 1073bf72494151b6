/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agents' messages over UCX, as they come: in what order they are delivered, what is refused, and
 * that a sender is lost whose message cannot be kept. No UCX is there: the test calls its callback.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool no_memory;

static void *test_alloc(size_t n)
{
    return no_memory ? NULL : calloc(1, n);
}

#define malloc test_alloc
#include "../../examples/pmirun/multinode/links_ucx.c"
#undef malloc

enum { ME = 2, PEER = 1, N_NODES = 3 };

/* ---- pmirun, as far as a message reaches it ---- */

static struct {
    struct pmirun pr;
    struct nodes nodes;
    uint64_t heard[8];
    unsigned n_heard, n_refused, n_lost;
} w;

bool agent_heard(struct pmirun *pr, uint32_t node, const void *p, size_t n)
{
    assert_ptr_equal(pr, &w.pr);
    assert_int_equal(node, PEER);
    assert_int_equal(n, sizeof(uint64_t));
    memcpy(&w.heard[w.n_heard++ % 8], p, n);
    return true;
}

void agent_lost(struct pmirun *pr, uint32_t node, const char *why)
{
    assert_ptr_equal(pr, &w.pr);
    assert_int_equal(node, PEER);
    assert_non_null(why);
    w.n_lost++;
}

void say(struct pmirun *pr, const char *format, ...)
{
    (void)pr, (void)format;
    w.n_refused++;
}

int loop_add(struct pmirun *pr, struct source *src, uint32_t events)
{
    (void)pr, (void)src, (void)events;
    return 0;
}

void loop_del(struct pmirun *pr, struct source *src)
{
    (void)pr, (void)src;
}

static int setup(void **state)
{
    (void)state;
    memset(&w, 0, sizeof(w));
    w.pr.nodes = &w.nodes;
    w.nodes.agent.node = ME;
    w.nodes.agent.n_nodes = N_NODES;
    memset(w.nodes.net.self.secret, 's', sizeof(w.nodes.net.self.secret));
    ucx = (struct ucx){.pr = &w.pr, .src = {NULL, -1}};
    return ucx_join(&w.pr);
}

static int teardown(void **state)
{
    (void)state;
    no_memory = false;
    ucx_stop(&w.pr);
    return 0;
}

/* The peer's message of this number, which says it too. */
static void come(uint64_t seq, bool altered)
{
    uint8_t key[DATAGRAM_KEY_BYTES], bytes[sizeof(seq) + DATAGRAM_TAG_BYTES];
    const ucp_am_recv_param_t param = {0};
    const struct header h = {.from = PEER, .to = ME, .seq = seq};

    datagram_key(&w.nodes.net.self, PEER, ME, key);
    datagram_seal(key, seq, &seq, sizeof(seq), bytes);
    bytes[0] ^= altered;
    assert_int_equal(on_message(&ucx, &h, sizeof(h), bytes, sizeof(bytes), &param), UCS_OK);
}

static void heard(unsigned n)
{
    assert_int_equal(w.n_heard, n);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(w.heard[i], i);
}

/* ---- tests ---- */

static void test_order(void **state)
{
    (void)state;
    come(0, false);
    come(3, false);
    come(1, false);
    heard(2);
    come(2, false);
    heard(4);
    assert_int_equal(w.n_refused + w.n_lost, 0);
}

/* Neither one that was delivered nor one that waits is taken twice. */
static void test_refused(void **state)
{
    (void)state;
    come(0, false);
    come(0, false);
    come(1, true);
    assert_int_equal(w.n_refused, 2);
    come(2, false);
    come(2, false);
    assert_int_equal(w.n_refused, 3);
    assert_int_equal(ucx.peers[PEER].n_waiting, 1);
    come(1, false);
    heard(3);
    assert_int_equal(w.n_lost, 0);
}

static void test_too_far_ahead(void **state)
{
    (void)state;
    for (uint64_t seq = 1; seq <= MAX_WAITING; seq++)
        come(seq, false);
    assert_int_equal(w.n_lost, 0);
    come(MAX_WAITING + 1, false);
    assert_int_equal(w.n_lost, 1);
    heard(0);
}

static void test_no_memory(void **state)
{
    (void)state;
    no_memory = true;
    come(0, false);
    assert_int_equal(w.n_lost, 1);
    heard(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_far_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
