/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels between servers: SHA-256 and HMAC by their standards' vectors, the handshake, and
 * everything that must be refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "channel.h"

/* ---- the hash ---- */

static void expect_hex(const uint8_t *p, const char *hex)
{
    char text[2 * SHA256_BYTES + 1];

    for (size_t i = 0; i < SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", p[i]);
    assert_string_equal(text, hex);
}

static void hash(const char *s, size_t piece, const char *hex)
{
    uint8_t out[SHA256_BYTES];
    struct sha256 h;
    size_t n = strlen(s);

    sha256_init(&h);
    for (size_t i = 0; i < n; i += piece)
        sha256_add(&h, s + i, n - i < piece ? n - i : piece);
    sha256_end(&h, out);
    expect_hex(out, hex);
}

static void test_sha256(void **state)
{
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    uint8_t out[SHA256_BYTES];
    struct sha256 h;

    (void)state;
    hash("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    hash("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    for (size_t piece = 1; piece < 70; piece++)
        hash(two, piece, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    sha256_init(&h);
    for (int i = 0; i < 10000; i++)
        sha256_add(&h,
                   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                   "aaaaaaaaaaaaaaaaaaaaa",
                   100);
    sha256_end(&h, out);
    expect_hex(out, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* RFC 4231, cases 1, 2 and 6. */
static void test_hmac(void **state)
{
    static const struct {
        size_t key_len;
        uint8_t fill; /* of the key; 0: "Jefe" */
        const char *data, *hex;
    } cases[] = {
        {20, 0x0b, "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {4, 0, "what do ya want for nothing?",
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {131, 0xaa, "Test Using Larger Than Block-Size Key - Hash Key First",
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t key[131], out[SHA256_BYTES];
        struct hmac k;
        struct sha256 s;

        memset(key, cases[i].fill, sizeof(key));
        if (!cases[i].fill)
            memcpy(key, "Jefe", 4);
        hmac_init(&k, key, cases[i].key_len);
        hmac_begin(&k, &s);
        sha256_add(&s, cases[i].data, strlen(cases[i].data));
        hmac_end(&k, &s, out);
        expect_hex(out, cases[i].hex);
    }
}

/* ---- two channels and what travels between them ---- */

struct end {
    struct channel_self self;
    struct channel c;
    unsigned n_opened, n_frames, n_refused;
    char last[64];
    size_t last_len, bytes;
    const char *refused;
    bool unwelcoming, dislikes;
};

static struct end *end_of(struct channel *c)
{
    return (struct end *)(void *)((char *)c - offsetof(struct end, c));
}

static bool on_opened(void *ctx, struct channel *c)
{
    (void)ctx;
    end_of(c)->n_opened++;
    return !end_of(c)->unwelcoming;
}

static bool on_frame(void *ctx, struct channel *c, const void *p, size_t n)
{
    struct end *e = end_of(c);

    (void)ctx;
    e->n_frames++;
    e->bytes += n;
    e->last_len = n < sizeof(e->last) ? n : sizeof(e->last);
    memcpy(e->last, p, e->last_len);
    return !e->dislikes;
}

static void on_refused(void *ctx, struct channel *c, const char *why, uint64_t seq)
{
    (void)ctx, (void)seq;
    end_of(c)->n_refused++;
    end_of(c)->refused = why;
}

static const struct channel_ops ops = {on_opened, on_frame, on_refused};

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
    assert_int_equal(channel_init(&p->d.c, &p->d.self, true, p->a.self.id), 0);
    assert_int_equal(channel_init(&p->a.c, &p->a.self, false, CHANNEL_NOBODY), 0);
}

static void tear_down(struct pair *p)
{
    channel_fini(&p->d.c);
    channel_fini(&p->a.c);
}

/* What `from` has to say, taken away: valid until the next call. */
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

/* Carries bytes until nobody has any more, `piece` at a time. */
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
    struct iovec iov[2] = {{(void *)(uintptr_t)text, 1},
                           {(void *)(uintptr_t)(text + 1), strlen(text) - 1}};

    return channel_send(&e->c, iov, 2);
}

static void expect_last(const struct end *e, const char *text)
{
    assert_int_equal(e->last_len, strlen(text));
    assert_memory_equal(e->last, text, e->last_len);
}

static void test_talk(void **state)
{
    struct pair p;

    (void)state;
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

    (void)state;
    set_up(&p);
    p.d.self.secret[31] ^=
        1; /* here the dialler notices first, as the acceptor proves itself first */
    refuse(&p, "it does not know the job's secret");
    set_up(&p);
    p.d.self.job[0] ^= 1;
    refuse(&p, "another job's");
    set_up(&p);
    p.d.self.id = 9;
    refuse(&p, "it has no number that it may have");
    set_up(&p);
    p.d.self.id = CHANNEL_NOBODY;
    refuse(&p, "it has no number that it may have");
    set_up(&p);
    begin(&p);
    p.a.self.id = 8; /* dialled for another node */
    assert_int_equal(carry(&p, 1000), -EPROTO);
    assert_string_equal(p.a.c.why, "it wants another node");
    tear_down(&p);
}

/* Who has no secret cannot prove anything, whatever it sends in the place of the proof. */
static void test_no_proof(void **state)
{
    struct pair p;
    size_t n;

    (void)state;
    set_up(&p);
    begin(&p);
    n = take(&p, &p.d.c);
    assert_int_equal(channel_input(&p.a.c, p.kept, n, &ops, NULL), 0);
    n = take(&p, &p.a.c);
    assert_int_equal(n, 72);
    /* Its own proof reflected. */
    assert_int_equal(channel_input(&p.a.c, p.kept + 40, 32, &ops, NULL), -EPROTO);
    assert_int_equal(p.a.n_opened, 0);
    assert_int_equal(channel_input(&p.a.c, p.kept, n, &ops, NULL), -EPROTO); /* and it stays so */
    tear_down(&p);
    for (int bit = 0; bit < 256; bit += 5) {
        set_up(&p);
        begin(&p);
        n = take(&p, &p.d.c);
        assert_int_equal(channel_input(&p.a.c, p.kept, n, &ops, NULL), 0);
        n = take(&p, &p.a.c);
        assert_int_equal(channel_input(&p.d.c, p.kept, n, &ops, NULL), 0);
        n = take(&p, &p.d.c);
        assert_int_equal(n, 32);
        p.kept[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(channel_input(&p.a.c, p.kept, n, &ops, NULL), -EPROTO);
        assert_int_equal(p.a.n_opened, 0);
        tear_down(&p);
    }
}

/* A whole conversation recorded and played again to the same acceptor: its nonce is another one. */
static void test_replayed_conversation(void **state)
{
    static char record[4096];
    struct pair p;
    struct channel again;
    size_t len = 0, n;

    (void)state;
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
    assert_int_equal(channel_init(&again, &p.a.self, false, CHANNEL_NOBODY), 0);
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

    (void)state;
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

    (void)state;
    open_both(&p);
    say(&p.d, "one");
    n = take(&p, &p.d.c);
    memcpy(first, p.kept, n);
    assert_int_equal(channel_input(&p.a.c, first, n, &ops, NULL), 0);
    assert_int_equal(channel_input(&p.a.c, first, n, &ops, NULL), 0); /* again */
    assert_int_equal(p.a.n_frames, 1);
    assert_int_equal(p.a.n_refused, 1);
    assert_string_equal(p.a.refused, "replayed");
    say(&p.d, "two"); /* and the connection goes on */
    assert_int_equal(carry(&p, 7), 0);
    assert_int_equal(p.a.n_frames, 2);
    expect_last(&p.a, "two");
    for (unsigned i = 0; i < CHANNEL_MAX_REFUSED; i++)
        assert_int_equal(channel_input(&p.a.c, first, n, &ops, NULL),
                         i + 1 < CHANNEL_MAX_REFUSED ? 0 : -EPROTO);
    tear_down(&p);
}

/* A frame back to who sent it: its direction has another key. */
static void test_reflected_frame(void **state)
{
    struct pair p;
    size_t n;

    (void)state;
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

    (void)state;
    for (size_t byte = 0; byte < 16 + 5 + 16; byte++) {
        size_t n;
        int rc;

        open_both(&p);
        say(&p.d, "order");
        n = take(&p, &p.d.c);
        assert_int_equal(n, 16 + 5 + 16);
        p.kept[byte] ^= 0x10;
        rc = channel_input(&p.a.c, p.kept, n, &ops, NULL);
        assert_int_equal(p.a.n_frames, 0);
        if (byte < 4) /* a length that the bytes at hand do not fill, or too much */
            assert_true(rc == 0 || rc == -EPROTO);
        else if (byte >= 8 && byte < 16)
            assert_int_equal(
                p.a.n_refused,
                1); /* out of turn: as if slipped in. What follows shows that one is missing */
        else
            assert_int_equal(rc, -EPROTO);
        tear_down(&p);
    }
}

static void test_lost_frame(void **state)
{
    struct pair p;

    (void)state;
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

    (void)state;
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

    (void)state;
    for (size_t cut = 1; cut < 16 + 5 + 16; cut++) {
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
    static const uint8_t huge[16] = {1, 0, 0, 4}; /* one more than the limit */
    struct iovec iov = {NULL, CHANNEL_MAX_BYTES + 1u};
    struct pair p;

    (void)state;
    open_both(&p);
    assert_int_equal(channel_send(&p.d.c, &iov, 1), -EMSGSIZE);
    assert_int_equal(channel_input(&p.a.c, huge, 16, &ops, NULL), -EPROTO);
    assert_string_equal(p.a.c.why, "a frame that is too long");
    assert_in_range(p.a.c.in.cap, 0, 8192); /* nothing was set aside for it */
    tear_down(&p);

    open_both(&p);
    iov.iov_len = 1u << 20;
    iov.iov_base = calloc(1, iov.iov_len);
    assert_non_null(iov.iov_base);
    assert_int_equal(channel_send(&p.d.c, &iov, 1), 0);
    {
        const void *out;
        size_t n = channel_output(&p.d.c, &out);

        for (size_t i = 0; i < n; i += 4096)
            assert_int_equal(channel_input(&p.a.c, (const char *)out + i,
                                           n - i < 4096 ? n - i : 4096, &ops, NULL),
                             0);
    }
    assert_int_equal(p.a.bytes, 1u << 20);
    free(iov.iov_base);
    tear_down(&p);
}

/* Whoever says nothing that we understand costs little and is refused at the first whole message.
 * */
static void test_garbage(void **state)
{
    unsigned seed = 12345;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        char bytes[300];
        size_t n = 64 + (size_t)round % 200;
        struct pair p;

        set_up(&p);
        begin(&p);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)((seed = seed * 1103515245u + 12345u) >> 16);
        if (round % 3 == 0)
            memcpy(bytes, "FPNL\1\0\0\0", 8);
        assert_int_equal(channel_input(&p.a.c, bytes, n, &ops, NULL), -EPROTO);
        assert_int_equal(p.a.n_opened, 0);
        assert_int_equal(p.a.c.in.cap, 0);
        tear_down(&p);
    }
}

static void test_unwelcome(void **state)
{
    struct pair p;

    (void)state;
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

/* Keys for messages outside channels differ for every pair and direction. */
static void test_pair_keys(void **state)
{
    uint8_t tags[4][16];
    struct hmac k;
    struct pair p;

    (void)state;
    set_up(&p);
    channel_pair_key(&p.d.self, 1, 2, &k);
    channel_tag(&k, "h", 1, "payload", 7, tags[0]);
    channel_tag(&k, "h", 1, "paylord", 7, tags[1]);
    channel_pair_key(&p.d.self, 2, 1, &k);
    channel_tag(&k, "h", 1, "payload", 7, tags[2]);
    p.d.self.secret[0] ^= 1;
    channel_pair_key(&p.d.self, 1, 2, &k);
    channel_tag(&k, "h", 1, "payload", 7, tags[3]);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(tags[i], tags[j], 16);
    assert_true(bytes_equal(tags[0], tags[0], 16));
    assert_false(bytes_equal(tags[0], tags[1], 16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_hmac),
        cmocka_unit_test(test_talk),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_no_proof),
        cmocka_unit_test(test_replayed_conversation),
        cmocka_unit_test(test_false_acceptor),
        cmocka_unit_test(test_replayed_frame),
        cmocka_unit_test(test_reflected_frame),
        cmocka_unit_test(test_altered_frame),
        cmocka_unit_test(test_lost_frame),
        cmocka_unit_test(test_reordered_frames),
        cmocka_unit_test(test_truncated_frame),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_unwelcome),
        cmocka_unit_test(test_pair_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
