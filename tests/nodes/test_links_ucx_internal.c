/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agents' messages over UCX: the order of delivery, refused messages, and the loss of a sender
 * whose message cannot be stored. The test works without UCX: it calls the callback itself.
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
    unsigned n_heard, n_refused, n_lost, n_room;
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

void exchange_room(struct pmirun *pr, uint32_t node)
{
    assert_ptr_equal(pr, &w.pr);
    assert_int_equal(node, PEER);
    w.n_room++;
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
    no_memory = false;
    ucx_stop(&w.pr);
    return 0;
}

/* The peer's message with this number, also in its text. */
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
    come(0, false);
    come(3, false);
    come(1, false);
    heard(2);
    come(2, false);
    heard(4);
    assert_int_equal(w.n_refused + w.n_lost, 0);
}

/* A repeated message is dropped, both after delivery and while the first one waits. */
static void test_refused(void **state)
{
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
    for (uint64_t seq = 1; seq <= MAX_WAITING; seq++)
        come(seq, false);
    assert_int_equal(w.n_lost, 0);
    come(MAX_WAITING + 1, false);
    assert_int_equal(w.n_lost, 1);
    heard(0);
}

static void test_no_memory(void **state)
{
    no_memory = true;
    come(0, false);
    assert_int_equal(w.n_lost, 1);
    heard(0);
}

/* ---- calls to UCX, and its answers ---- */

static struct {
    void *sent[64]; /* sent and unsent messages */
    ucp_send_nbx_callback_t on_sent;
    unsigned n, n_messages; /* n_messages: incoming, one for each call of progress */
} fake;

static ucs_status_ptr_t fake_send(ucp_ep_h ep, unsigned id, const void *header, size_t header_len,
                                  const void *p, size_t n, const ucp_request_param_t *param)
{
    (void)ep, (void)id, (void)header, (void)header_len, (void)p, (void)n;
    fake.on_sent = param->cb.send;
    assert_in_range(fake.n, 0, 63);
    fake.sent[fake.n++] = param->user_data;
    return &fake;
}

static void fake_free(void *request)
{
    assert_ptr_equal(request, &fake);
}

static unsigned fake_progress(ucp_worker_h worker)
{
    if (fake.n_messages == 0)
        return 0;
    come(ucx.peers[PEER].in_seq, false);
    fake.n_messages--;
    return 1;
}

static ucs_status_t fake_arm(ucp_worker_h worker)
{
    return UCS_OK;
}

static void fake_ucx(void)
{
    memset(&fake, 0, sizeof(fake));
    dl_ucp_am_send_nbx = fake_send;
    dl_ucp_request_free = fake_free;
    dl_ucp_worker_progress = fake_progress;
    dl_ucp_worker_arm = fake_arm;
    ucx.peers[PEER].ep = (ucp_ep_h)(void *)&fake; /* connected */
}

/* Full beyond UCX_QUEUE_BYTES in flight; reports room once, when half of them have gone. */
static void test_back_pressure(void **state)
{
    static char frame[UCX_QUEUE_BYTES / 8];

    fake_ucx();
    for (int i = 0; i < 8; i++) {
        assert_int_equal(ucx_send(&w.pr, PEER, frame, sizeof(frame)), 0);
        assert_false(ucx_full(PEER));
    }
    assert_int_equal(ucx_send(&w.pr, PEER, frame, 1), 0);
    assert_true(ucx_full(PEER));
    while (fake.n > 5) {
        ucx_progress();
        assert_int_equal(w.n_room, 0);
        assert_true(ucx_full(PEER));
        fake.on_sent(&fake, UCS_OK, fake.sent[--fake.n]);
    }
    fake.on_sent(&fake, UCS_OK, fake.sent[--fake.n]);
    ucx_progress();
    assert_int_equal(w.n_room, 1);
    assert_true(ucx_more()); /* messages sent because of that */
    ucx_progress();
    assert_int_equal(w.n_room, 1);
    assert_false(ucx_more());
    assert_false(ucx_full(PEER));
    while (fake.n > 0)
        fake.on_sent(&fake, UCS_OK, fake.sent[--fake.n]);
}

/* A flood of messages is handled in turns. */
static void test_turns(void **state)
{
    fake_ucx();
    fake.n_messages = 3 * TURN_BYTES / sizeof(uint64_t) + 3;
    for (int turn = 0; turn < 3; turn++) {
        ucx_progress();
        assert_true(ucx_more());
    }
    assert_int_equal(fake.n_messages, 0);
    ucx_progress();
    assert_false(ucx_more());
    assert_int_equal(w.n_lost + w.n_refused, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_far_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_back_pressure, setup, teardown),
        cmocka_unit_test_setup_teardown(test_turns, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
