/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels between servers: the handshake, the frames that a channel must refuse, and what an
 * eavesdropper sees. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/pmirun/multinode/channel.h"

/* ---- two channels and the bytes between them ---- */

struct end {
    struct channel_self self;
    struct channel c;
    unsigned n_opened, n_frames, n_replayed;
    char last[64];
    size_t last_len, bytes;
    bool unwelcoming, dislikes;
};

static struct end *end_of(struct channel *c)
{
    return (struct end *)(void *)((char *)c - offsetof(struct end, c));
}

static bool on_opened(void *ctx, struct channel *c)
{
    end_of(c)->n_opened++;
    return !end_of(c)->unwelcoming;
}

static bool on_frame(void *ctx, struct channel *c, const void *p, size_t n)
{
    struct end *e = end_of(c);

    e->n_frames++;
    e->bytes += n;
    e->last_len = n < sizeof(e->last) ? n : sizeof(e->last);
    memcpy(e->last, p, e->last_len);
    return !e->dislikes;
}

static void on_replayed(void *ctx, struct channel *c, uint64_t number)
{
    (void)ctx, (void)number;
    end_of(c)->n_replayed++;
}

static const struct channel_ops ops = {on_opened, on_frame, on_replayed};

struct pair {
    struct end d, a; /* who dials, who accepts */
    char kept[1 << 16];
};

static void set_up(struct pair *p)
{
    memset(p, 0, sizeof(*p));
    for (size_t i = 0; i < CHANNEL_SECRET_BYTES; i++)
        p->d.self.secret[i] = p->a.self.secret[i] = (uint8_t)(i * 7 + 1);
    memset(p->d.self.job, 5, CHANNEL_JOB_BYTES);
    memset(p->a.self.job, 5, CHANNEL_JOB_BYTES);
    p->d.self.id = 3;
    p->a.self.id = 9;
}

static void begin(struct pair *p)
{
    channel_init(&p->d.c, &p->d.self, true, p->a.self.id);
    channel_init(&p->a.c, &p->a.self, false, CHANNEL_NOBODY);
}

static void tear_down(struct pair *p)
{
    channel_fini(&p->d.c);
    channel_fini(&p->a.c);
}

/* Takes the bytes that `from` has to send: valid until the next call. */
static size_t take(struct pair *p, struct channel *from)
{
    const void *out;
    size_t n = channel_output(from, &out);

    assert_in_range(n, 0, sizeof(p->kept));
    if (n)
        memcpy(p->kept, out, n);
    channel_sent(from, n);
    return n;
}

/* Carries bytes, `piece` at a time, until neither side has more. */
static int carry(struct pair *p, size_t piece)
{
    int rc = 0;
    bool any = true;

    while (any && rc == 0) {
        any = false;
        for (int way = 0; way < 2; way++) {
            size_t n = take(p, way ? &p->a.c : &p->d.c);

            for (size_t i = 0; i < n && rc == 0; i += piece)
                rc = channel_input(way ? &p->d.c : &p->a.c, p->kept + i,
                                   n - i < piece ? n - i : piece, &ops, NULL);
            any = any || n;
        }
    }
    return rc;
}

static int say(struct end *e, const char *text)
{
    return channel_send(&e->c, text, strlen(text));
}

static void expect_last(const struct end *e, const char *text)
{
    assert_int_equal(e->last_len, strlen(text));
    assert_memory_equal(e->last, text, e->last_len);
}

static void test_talk(void **state)
{
    struct pair p;

    for (size_t piece = 1; piece < 200; piece += piece < 40 ? 1 : 53) {
        set_up(&p);
        begin(&p);
        assert_int_equal(say(&p.d, "early"), 0); /* before there is a key */
        assert_int_equal(say(&p.a, "early too"), 0);
        assert_int_equal(carry(&p, piece), 0);
        assert_int_equal(p.d.c.state, CHANNEL_OPEN);
        assert_int_equal(p.a.c.state, CHANNEL_OPEN);
        assert_int_equal(p.a.c.peer, 3);
        expect_last(&p.a, "early");
        expect_last(&p.d, "early too");
        for (int i = 0; i < 5; i++) {
            assert_int_equal(say(&p.d, "hello"), 0);
            assert_int_equal(say(&p.a, "and back"), 0);
        }
        assert_int_equal(channel_send(&p.d.c, NULL, 0), 0); /* an empty one */
        assert_int_equal(carry(&p, piece), 0);
        assert_int_equal(p.a.n_frames, 7);
        assert_int_equal(p.d.n_frames, 6);
        assert_int_equal(p.a.last_len, 0);
        assert_int_equal(p.a.n_opened + p.d.n_opened, 2);
        tear_down(&p);
    }
}

/* Each of these must keep the acceptor shut, and the frame given early with it. */
static void refuse(struct pair *p, const char *why)
{
    begin(p);
    assert_int_equal(say(&p->d, "in"), 0);
    assert_int_equal(carry(p, 1000), -EPROTO);
    assert_string_equal(p->a.c.state == CHANNEL_FAILED ? p->a.c.why : p->d.c.why, why);
    assert_int_equal(p->a.n_frames, 0);
    assert_int_equal(p->a.n_opened, 0);
    assert_int_equal(say(&p->a, "x"), p->a.c.state == CHANNEL_FAILED ? -EPIPE : 0);
    tear_down(p);
}

static void test_strangers(void **state)
{
    struct pair p;

    set_up(&p);
    p.d.self.secret[31] ^=
        1; /* here the dialler notices first, as the acceptor proves itself first */
    refuse(&p, "it does not know the job's secret");
    set_up(&p);
    p.d.self.job[0] ^= 1;
    refuse(&p, "it belongs to another job");
    set_up(&p);
    p.d.self.id = 9;
    refuse(&p, "its node number is not allowed");
    set_up(&p);
    p.d.self.id = CHANNEL_NOBODY;
    refuse(&p, "its node number is not allowed");
    set_up(&p);
    begin(&p);
    p.a.self.id = 8; /* dialled for another node */
    assert_int_equal(carry(&p, 1000), -EPROTO);
    assert_string_equal(p.a.c.why, "it asks for another node");
    tear_down(&p);
}

/* A hello, and its answer in p->kept. */
static size_t half_shake(struct pair *p)
{
    size_t n;

    set_up(p);
    begin(p);
    n = take(p, &p->d.c);
    assert_int_equal(n, CHANNEL_HELLO_BYTES);
    assert_int_equal(channel_input(&p->a.c, p->kept, n, &ops, NULL), 0);
    return take(p, &p->a.c);
}

/* Nothing but the secret makes a proof: not the acceptor's proof reflected, not a dialler's with a
 * flipped bit. */
static void test_no_proof(void **state)
{
    struct pair p;
    size_t n;

    n = half_shake(&p);
    assert_int_equal(n, CHANNEL_ANSWER_BYTES);
    assert_int_equal(channel_input(&p.a.c, p.kept + 40, CHANNEL_PROOF_BYTES, &ops, NULL), -EPROTO);
    assert_string_equal(p.a.c.why, "it does not know the job's secret");
    assert_int_equal(p.a.n_opened, 0);
    assert_int_equal(channel_input(&p.a.c, p.kept, n, &ops, NULL), -EPROTO); /* and it stays so */
    tear_down(&p);
    for (size_t bit = 0; bit < 8 * CHANNEL_PROOF_BYTES; bit += 3) {
        n = half_shake(&p);
        assert_int_equal(channel_input(&p.d.c, p.kept, n, &ops, NULL), 0);
        n = take(&p, &p.d.c);
        assert_int_equal(n, CHANNEL_PROOF_BYTES);
        p.kept[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(channel_input(&p.a.c, p.kept, n, &ops, NULL), -EPROTO);
        assert_int_equal(p.a.n_opened, 0);
        tear_down(&p);
    }
}

/* Every bit of hello and answer counts: with one flipped in transit neither side opens. */
static void test_altered_shake(void **state)
{
    struct pair p;

    for (size_t bit = 0; bit < 8 * CHANNEL_HELLO_BYTES; bit++) {
        set_up(&p);
        begin(&p);
        take(&p, &p.d.c);
        p.kept[bit / 8] ^= (char)(1 << bit % 8);
        if (channel_input(&p.a.c, p.kept, CHANNEL_HELLO_BYTES, &ops, NULL) == 0)
            assert_int_equal(carry(&p, 1000), -EPROTO);
        assert_int_equal(p.a.n_opened + p.d.n_opened, 0);
        tear_down(&p);
    }
    for (size_t bit = 0; bit < 8 * CHANNEL_ANSWER_BYTES; bit++) {
        size_t n = half_shake(&p);

        p.kept[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(channel_input(&p.d.c, p.kept, n, &ops, NULL), -EPROTO);
        assert_int_equal(p.d.n_opened, 0);
        tear_down(&p);
    }
}

/* A public key that makes any key exchange end in zeros. */
static void test_bad_public_key(void **state)
{
    struct pair p;
    size_t n;

    set_up(&p);
    begin(&p);
    n = take(&p, &p.d.c);
    memset(p.kept + 32, 0, 32);
    assert_int_equal(channel_input(&p.a.c, p.kept, n, &ops, NULL), -EPROTO);
    assert_string_equal(p.a.c.why, "its public key is invalid");
    tear_down(&p);
}

/* The bytes in transit do not show the message, and equal messages give different bytes. */
static void test_secrecy(void **state)
{
    static const char text[] = "the value of a key, which is nobody else's";
    char first[256];
    struct pair p;
    size_t n;

    set_up(&p);
    begin(&p);
    assert_int_equal(carry(&p, 1000), 0);
    say(&p.d, text);
    n = take(&p, &p.d.c);
    assert_int_equal(n, CHANNEL_FRAME_BYTES + strlen(text));
    for (size_t i = 0; i + 4 <= n; i++)
        for (size_t k = 0; k + 4 <= strlen(text); k++)
            assert_memory_not_equal(p.kept + i, text + k, 4);
    memcpy(first, p.kept, n);
    say(&p.d, text);
    assert_int_equal(take(&p, &p.d.c), n);
    assert_memory_not_equal(first + CHANNEL_HEAD_BYTES, p.kept + CHANNEL_HEAD_BYTES,
                            n - CHANNEL_HEAD_BYTES);
    tear_down(&p);
}

/* A whole conversation recorded and played again to the same acceptor: its key is another one. */
static void test_replayed_conversation(void **state)
{
    static char record[4096];
    struct pair p;
    struct channel again;
    size_t len = 0, n;

    set_up(&p);
    begin(&p);
    say(&p.d, "secret order");
    for (int i = 0; i < 2; i++) {
        n = take(&p, &p.d.c);
        memcpy(record + len, p.kept, n);
        len += n;
        assert_int_equal(channel_input(&p.a.c, p.kept, n, &ops, NULL), 0);
        n = take(&p, &p.a.c);
        assert_int_equal(channel_input(&p.d.c, p.kept, n, &ops, NULL), 0);
    }
    assert_int_equal(p.a.n_frames, 1);
    channel_init(&again, &p.a.self, false, CHANNEL_NOBODY);
    {
        struct end e = {.c = again};

        assert_int_equal(channel_input(&e.c, record, len, &ops, NULL), -EPROTO);
        assert_int_equal(e.n_opened + e.n_frames, 0);
        channel_fini(&e.c);
    }
    tear_down(&p);
}

/* An acceptor's answers of another conversation do not open a dialler. */
static void test_false_acceptor(void **state)
{
    struct pair p, q;
    size_t n;

    set_up(&p);
    set_up(&q);
    begin(&p);
    begin(&q);
    n = take(&p, &p.d.c);
    assert_int_equal(channel_input(&p.a.c, p.kept, n, &ops, NULL), 0);
    n = take(&p, &p.a.c);
    assert_int_equal(channel_input(&q.d.c, p.kept, n, &ops, NULL), -EPROTO);
    assert_int_equal(q.d.n_opened, 0);
    tear_down(&p);
    tear_down(&q);
}

static void open_both(struct pair *p)
{
    set_up(p);
    begin(p);
    assert_int_equal(carry(p, 1000), 0);
    assert_int_equal(p->a.n_opened, 1);
}

static void test_replayed_frame(void **state)
{
    char first[256];
    struct pair p;
    size_t n;

    open_both(&p);
    say(&p.d, "one");
    n = take(&p, &p.d.c);
    memcpy(first, p.kept, n);
    assert_int_equal(channel_input(&p.a.c, first, n, &ops, NULL), 0);
    assert_int_equal(channel_input(&p.a.c, first, n, &ops, NULL), 0); /* again */
    assert_int_equal(p.a.n_frames, 1);
    assert_int_equal(p.a.n_replayed, 1);
    say(&p.d, "two"); /* and the connection continues */
    assert_int_equal(carry(&p, 7), 0);
    assert_int_equal(p.a.n_frames, 2);
    expect_last(&p.a, "two");
    for (unsigned i = 0; i < CHANNEL_MAX_REPLAYED; i++)
        assert_int_equal(channel_input(&p.a.c, first, n, &ops, NULL),
                         i + 1 < CHANNEL_MAX_REPLAYED ? 0 : -EPROTO);
    tear_down(&p);
}

/* A frame reflected to its sender: each direction has its own key. */
static void test_reflected_frame(void **state)
{
    struct pair p;
    size_t n;

    open_both(&p);
    say(&p.d, "one");
    n = take(&p, &p.d.c);
    assert_int_equal(channel_input(&p.d.c, p.kept, n, &ops, NULL), -EPROTO);
    assert_int_equal(p.d.n_frames, 0);
    tear_down(&p);
}

static void test_altered_frame(void **state)
{
    struct pair p;

    for (size_t byte = 0; byte < CHANNEL_FRAME_BYTES + 5; byte++) {
        size_t n;
        int rc;

        open_both(&p);
        say(&p.d, "order");
        n = take(&p, &p.d.c);
        assert_int_equal(n, CHANNEL_FRAME_BYTES + 5);
        p.kept[byte] ^= 0x10;
        rc = channel_input(&p.a.c, p.kept, n, &ops, NULL);
        assert_int_equal(p.a.n_frames, 0);
        if (byte < 4) /* a length larger than the available bytes, or than the limit */
            assert_true(rc == 0 || rc == -EPROTO);
        else
            assert_int_equal(rc, -EPROTO);
        tear_down(&p);
    }
}

/* A forged frame: refused with a used number, else the end of the channel. */
static void test_forged_frame(void **state)
{
    struct pair p;

    for (int number = 0; number < 4; number++) {
        uint8_t forged[CHANNEL_FRAME_BYTES + 4] = {4, 0, 0, 0, (uint8_t)number};

        open_both(&p);
        say(&p.d, "one");
        say(&p.d, "two");
        assert_int_equal(carry(&p, 1000), 0);
        assert_int_equal(channel_input(&p.a.c, forged, sizeof(forged), &ops, NULL),
                         number < 2 ? 0 : -EPROTO);
        assert_int_equal(p.a.n_frames, 2);
        assert_int_equal(p.a.n_replayed, number < 2);
        tear_down(&p);
    }
}

static void test_lost_frame(void **state)
{
    struct pair p;

    open_both(&p);
    say(&p.d, "one");
    take(&p, &p.d.c); /* and lose it */
    say(&p.d, "two");
    assert_int_equal(carry(&p, 1000), -EPROTO);
    assert_string_equal(p.a.c.why, "a frame was lost on its way");
    assert_int_equal(p.a.n_frames, 0);
    tear_down(&p);
}

static void test_reordered_frames(void **state)
{
    char first[256];
    struct pair p;
    size_t n;

    open_both(&p);
    say(&p.d, "one");
    n = take(&p, &p.d.c);
    memcpy(first, p.kept, n);
    say(&p.d, "two");
    assert_int_equal(carry(&p, 1000), -EPROTO);
    assert_int_equal(channel_input(&p.a.c, first, n, &ops, NULL), -EPROTO); /* too late */
    assert_string_equal(p.a.c.why, "a frame was lost on its way");
    assert_int_equal(p.a.n_frames, 0);
    tear_down(&p);
}

static void test_truncated_frame(void **state)
{
    struct pair p;

    for (size_t cut = 1; cut < CHANNEL_FRAME_BYTES + 5; cut++) {
        open_both(&p);
        say(&p.d, "order");
        take(&p, &p.d.c);
        assert_int_equal(channel_input(&p.a.c, p.kept, cut, &ops, NULL), 0);
        assert_int_equal(p.a.n_frames, 0);
        tear_down(&p);
    }
}

static void test_lengths(void **state)
{
    static const uint8_t huge[CHANNEL_HEAD_BYTES] = {1, 0, 0, 4}; /* one more than the limit */
    const size_t len = 1u << 20;
    char *zeros;
    struct pair p;

    open_both(&p);
    assert_int_equal(channel_send(&p.d.c, NULL, CHANNEL_MAX_BYTES + 1u), -EMSGSIZE);
    assert_int_equal(channel_input(&p.a.c, huge, sizeof(huge), &ops, NULL), -EPROTO);
    assert_string_equal(p.a.c.why, "a frame that is too long");
    assert_in_range(p.a.c.in.cap, 0, 8192); /* no memory was reserved for it */
    tear_down(&p);

    open_both(&p);
    zeros = calloc(1, len);
    assert_non_null(zeros);
    assert_int_equal(channel_send(&p.d.c, zeros, len), 0);
    {
        const void *out;
        size_t n = channel_output(&p.d.c, &out);

        for (size_t i = 0; i < n; i += 4096)
            assert_int_equal(channel_input(&p.a.c, (const char *)out + i,
                                           n - i < 4096 ? n - i : 4096, &ops, NULL),
                             0);
    }
    assert_int_equal(p.a.bytes, 1u << 20);
    free(zeros);
    tear_down(&p);
}

/* A peer that sends garbage costs little memory and is refused at the first whole message.
 * */
static void test_garbage(void **state)
{
    unsigned seed = 12345;

    for (int round = 0; round < 2000; round++) {
        char bytes[300];
        size_t n = 64 + (size_t)round % 200;
        struct pair p;

        set_up(&p);
        begin(&p);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)((seed = seed * 1103515245u + 12345u) >> 16);
        if (round % 3 == 0)
            memcpy(bytes, "FPNL\2\0\0\0", 8);
        assert_int_equal(channel_input(&p.a.c, bytes, n, &ops, NULL), -EPROTO);
        assert_int_equal(p.a.n_opened, 0);
        assert_int_equal(p.a.c.in.cap, 0);
        tear_down(&p);
    }
}

static void test_unwelcome(void **state)
{
    struct pair p;

    set_up(&p);
    p.a.unwelcoming = true;
    begin(&p);
    say(&p.d, "in");
    assert_int_equal(carry(&p, 1000), -EPROTO);
    assert_int_equal(p.a.n_frames, 0);
    tear_down(&p);
    open_both(&p);
    p.a.dislikes = true;
    say(&p.d, "nonsense");
    say(&p.d, "more");
    assert_int_equal(carry(&p, 1000), -EPROTO);
    assert_int_equal(p.a.n_frames, 1);
    tear_down(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_talk),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_no_proof),
        cmocka_unit_test(test_altered_shake),
        cmocka_unit_test(test_bad_public_key),
        cmocka_unit_test(test_secrecy),
        cmocka_unit_test(test_replayed_conversation),
        cmocka_unit_test(test_false_acceptor),
        cmocka_unit_test(test_replayed_frame),
        cmocka_unit_test(test_reflected_frame),
        cmocka_unit_test(test_altered_frame),
        cmocka_unit_test(test_forged_frame),
        cmocka_unit_test(test_lost_frame),
        cmocka_unit_test(test_reordered_frames),
        cmocka_unit_test(test_truncated_frame),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_unwelcome),
    };

    if (channel_start(abort) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
