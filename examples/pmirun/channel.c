/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define VERSION      1
#define HELLO_BYTES  64u
#define ANSWER_BYTES 72u
#define PROOF_BYTES  32u
#define HEAD_BYTES   16u
#define TAG_BYTES    16u

static void put_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put_u64(uint8_t *p, uint64_t v)
{
    put_u32(p, (uint32_t)v);
    put_u32(p + 4, (uint32_t)(v >> 32));
}

static uint64_t get_u64(const uint8_t *p)
{
    return get_u32(p) | (uint64_t)get_u32(p + 4) << 32;
}

/* ---- bytes that wait ---- */

static int reserve(struct channel_bytes *b, size_t n)
{
    size_t cap = b->cap ? b->cap : 4096;
    uint8_t *p;

    if (b->head && b->len + n > b->cap) {
        memmove(b->p, b->p + b->head, b->len - b->head);
        b->len -= b->head;
        b->head = 0;
    }
    if (b->len + n <= b->cap)
        return 0;
    while (cap < b->len + n)
        cap *= 2;
    p = realloc(b->p, cap);
    if (!p)
        return -ENOMEM;
    b->p = p;
    b->cap = cap;
    return 0;
}

static int append(struct channel_bytes *b, const void *p, size_t n)
{
    int rc = reserve(b, n);

    if (rc == 0 && n) {
        memcpy(b->p + b->len, p, n);
        b->len += n;
    }
    return rc;
}

static void consume(struct channel_bytes *b, size_t n)
{
    b->head += n;
    if (b->head == b->len)
        b->head = b->len = 0;
}

/* ---- handshake ---- */

static int fill_random(uint8_t *p, size_t n)
{
    while (n > 0) {
        ssize_t r = getrandom(p, n, 0);

        if (r < 0 && errno != EINTR)
            return -EIO;
        if (r > 0) {
            p += r;
            n -= (size_t)r;
        }
    }
    return 0;
}

/* Of the label and the first n bytes of the handshake. */
static void over_shake(const struct channel *c, const char *label, size_t n,
                       uint8_t out[SHA256_BYTES])
{
    struct hmac key;
    struct sha256 s;

    hmac_init(&key, c->self->secret, sizeof(c->self->secret));
    hmac_begin(&key, &s);
    sha256_add(&s, label, strlen(label) + 1);
    sha256_add(&s, c->shake, n);
    hmac_end(&key, &s, out);
    explicit_bzero(&key, sizeof(key));
}

static void make_keys(struct channel *c)
{
    uint8_t key[SHA256_BYTES];

    over_shake(c, "frames of who dials", HELLO_BYTES + ANSWER_BYTES, key);
    hmac_init(c->dials ? &c->out_key : &c->in_key, key, sizeof(key));
    over_shake(c, "frames of who accepts", HELLO_BYTES + ANSWER_BYTES, key);
    hmac_init(c->dials ? &c->in_key : &c->out_key, key, sizeof(key));
    explicit_bzero(key, sizeof(key));
}

static int fail(struct channel *c, const char *why)
{
    c->state = CHANNEL_FAILED;
    c->why = why;
    return -EPROTO;
}

int channel_init(struct channel *c, const struct channel_self *self, bool dials, uint32_t peer)
{
    uint8_t *h = c->shake;

    memset(c, 0, sizeof(*c));
    c->self = self;
    c->dials = dials;
    c->peer = peer;
    if (!dials)
        return 0;
    memcpy(h, "FPNL", 4);
    h[4] = VERSION;
    memcpy(h + 8, self->job, CHANNEL_JOB_BYTES);
    put_u32(h + 24, self->id);
    put_u32(h + 28, peer);
    if (fill_random(h + 32, 32) != 0)
        return -EIO;
    return append(&c->out, h, HELLO_BYTES);
}

void channel_fini(struct channel *c)
{
    free(c->in.p);
    free(c->out.p);
    free(c->early.p);
    explicit_bzero(c, sizeof(*c));
}

static int on_hello(struct channel *c)
{
    uint8_t *h = c->shake, *a = c->shake + HELLO_BYTES;

    if (memcmp(h, "FPNL", 4) != 0)
        return fail(c, "it does not speak our protocol");
    if (h[4] != VERSION || h[5] || h[6] || h[7])
        return fail(c, "another version of the protocol");
    if (!bytes_equal(h + 8, c->self->job, CHANNEL_JOB_BYTES))
        return fail(c, "another job's");
    if (get_u32(h + 28) != c->self->id)
        return fail(c, "it wants another node");
    c->peer = get_u32(h + 24);
    if (c->peer == c->self->id || c->peer == CHANNEL_NOBODY)
        return fail(c, "it has no number that it may have");
    memcpy(a, "FPNA", 4);
    a[4] = VERSION;
    if (fill_random(a + 8, 32) != 0)
        return fail(c, "no random numbers");
    over_shake(c, "accepts", HELLO_BYTES + 40, a + 40);
    return append(&c->out, a, ANSWER_BYTES);
}

static int on_answer(struct channel *c)
{
    const uint8_t *a = c->shake + HELLO_BYTES;
    uint8_t mac[SHA256_BYTES];

    if (memcmp(a, "FPNA", 4) != 0 || a[4] != VERSION || a[5] || a[6] || a[7])
        return fail(c, "it does not speak our protocol");
    over_shake(c, "accepts", HELLO_BYTES + 40, mac);
    if (!bytes_equal(mac, a + 40, sizeof(mac)))
        return fail(c, "it does not know the job's secret");
    over_shake(c, "dials", HELLO_BYTES + ANSWER_BYTES, mac);
    return append(&c->out, mac, sizeof(mac));
}

static int on_proof(struct channel *c)
{
    uint8_t mac[SHA256_BYTES];

    over_shake(c, "dials", HELLO_BYTES + ANSWER_BYTES, mac);
    return bytes_equal(mac, c->shake + HELLO_BYTES + ANSWER_BYTES, sizeof(mac))
               ? 0
               : fail(c, "it does not know the job's secret");
}

static int seal(struct channel *c, const struct iovec *iov, int n, size_t len);

/* What was given before there was a key: length, payload, and so on. */
static int send_early(struct channel *c)
{
    struct channel_bytes early = c->early;
    int rc = 0;

    memset(&c->early, 0, sizeof(c->early));
    while (rc == 0 && early.head < early.len) {
        size_t n = (size_t)get_u64(early.p + early.head);
        struct iovec iov = {early.p + early.head + 8, n};

        rc = seal(c, &iov, 1, n);
        early.head += 8 + n;
    }
    free(early.p);
    return rc;
}

static int open_up(struct channel *c, const struct channel_ops *ops, void *ctx)
{
    make_keys(c);
    c->state = CHANNEL_OPEN;
    if (!ops->opened(ctx, c))
        return fail(c, "not welcome");
    return send_early(c);
}

/* Takes what belongs to the handshake; how much it was, or an error. */
static ssize_t shake(struct channel *c, const uint8_t *p, size_t n, const struct channel_ops *ops,
                     void *ctx)
{
    static const struct {
        size_t at, len;
        int (*act)(struct channel *c);
    } steps[2][2] = {
        {{0, HELLO_BYTES, on_hello}, {HELLO_BYTES + ANSWER_BYTES, PROOF_BYTES, on_proof}},
        {{HELLO_BYTES, ANSWER_BYTES, on_answer}, {0, 0, NULL}}};
    size_t len = steps[c->dials][c->step].len, some = n < len - c->have ? n : len - c->have;
    int rc;

    memcpy(c->shake + steps[c->dials][c->step].at + c->have, p, some);
    c->have += some;
    if (c->have < len)
        return (ssize_t)some;
    c->have = 0;
    rc = steps[c->dials][c->step].act(c);
    if (rc == 0 && !steps[c->dials][1].act)
        c->step = 1;
    if (rc == 0 && c->step++ == 1)
        rc = open_up(c, ops, ctx);
    return rc ? rc : (ssize_t)some;
}

/* ---- frames ---- */

static int seal(struct channel *c, const struct iovec *iov, int n, size_t len)
{
    uint8_t head[HEAD_BYTES] = {0}, mac[SHA256_BYTES];
    struct sha256 s;

    if (reserve(&c->out, HEAD_BYTES + len + TAG_BYTES) != 0)
        return -ENOMEM;
    put_u32(head, (uint32_t)len);
    put_u64(head + 8, c->out_seq++);
    hmac_begin(&c->out_key, &s);
    sha256_add(&s, head, sizeof(head));
    append(&c->out, head, sizeof(head));
    for (int i = 0; i < n; i++) {
        sha256_add(&s, iov[i].iov_base, iov[i].iov_len);
        append(&c->out, iov[i].iov_base, iov[i].iov_len);
    }
    hmac_end(&c->out_key, &s, mac);
    return append(&c->out, mac, TAG_BYTES);
}

int channel_send(struct channel *c, const struct iovec *iov, int n)
{
    uint8_t head[8];
    size_t len = 0;

    for (int i = 0; i < n; i++)
        len += iov[i].iov_len;
    if (len > CHANNEL_MAX_BYTES)
        return -EMSGSIZE;
    if (c->state == CHANNEL_FAILED)
        return -EPIPE;
    if (c->state == CHANNEL_OPEN)
        return seal(c, iov, n, len);
    if (reserve(&c->early, len + sizeof(head)) != 0)
        return -ENOMEM;
    put_u64(head, len);
    append(&c->early, head, sizeof(head));
    for (int i = 0; i < n; i++)
        append(&c->early, iov[i].iov_base, iov[i].iov_len);
    return 0;
}

void channel_tag(const struct hmac *key, const void *head, size_t head_len, const void *payload,
                 size_t n, uint8_t tag[16])
{
    uint8_t mac[SHA256_BYTES];
    struct sha256 s;

    hmac_begin(key, &s);
    sha256_add(&s, head, head_len);
    sha256_add(&s, payload, n);
    hmac_end(key, &s, mac);
    memcpy(tag, mac, TAG_BYTES);
}

void channel_pair_key(const struct channel_self *self, uint32_t from, uint32_t to, struct hmac *key)
{
    static const char label[] = "messages from node to node";
    uint8_t ids[8], mac[SHA256_BYTES];
    struct hmac secret;
    struct sha256 s;

    put_u32(ids, from);
    put_u32(ids + 4, to);
    hmac_init(&secret, self->secret, sizeof(self->secret));
    hmac_begin(&secret, &s);
    sha256_add(&s, label, sizeof(label));
    sha256_add(&s, self->job, sizeof(self->job));
    sha256_add(&s, ids, sizeof(ids));
    hmac_end(&secret, &s, mac);
    hmac_init(key, mac, sizeof(mac));
    explicit_bzero(&secret, sizeof(secret));
    explicit_bzero(mac, sizeof(mac));
}

/* A whole frame at p. 0, or the channel FAILED. */
static int take_frame(struct channel *c, const uint8_t *p, size_t len,
                      const struct channel_ops *ops, void *ctx)
{
    uint64_t seq = get_u64(p + 8);
    uint8_t tag[TAG_BYTES];
    bool authentic;

    channel_tag(&c->in_key, p, HEAD_BYTES, p + HEAD_BYTES, len, tag);
    authentic = get_u32(p + 4) == 0 && bytes_equal(tag, p + HEAD_BYTES + len, TAG_BYTES);
    if (authentic && seq == c->in_seq) {
        c->in_seq++;
        return ops->frame(ctx, c, p + HEAD_BYTES, len) ? 0 : fail(c, "what it says makes no sense");
    }
    if (seq == c->in_seq)
        return fail(c, "a frame was altered on its way");
    if (authentic && seq > c->in_seq)
        return fail(c, "a frame was lost on its way");
    ops->refused(ctx, c, authentic ? "replayed" : "not authentic", seq);
    return ++c->n_refused > CHANNEL_MAX_REFUSED ? fail(c, "too many frames that are not authentic")
                                                : 0;
}

static int take_frames(struct channel *c, const struct channel_ops *ops, void *ctx)
{
    int rc = 0;

    while (rc == 0 && c->in.len - c->in.head >= HEAD_BYTES) {
        const uint8_t *p = c->in.p + c->in.head;
        size_t len = get_u32(p);

        if (len > CHANNEL_MAX_BYTES)
            return fail(c, "a frame that is too long");
        if (c->in.len - c->in.head < HEAD_BYTES + len + TAG_BYTES)
            break;
        rc = take_frame(c, p, len, ops, ctx);
        consume(&c->in, HEAD_BYTES + len + TAG_BYTES);
    }
    return rc;
}

int channel_input(struct channel *c, const void *data, size_t n, const struct channel_ops *ops,
                  void *ctx)
{
    const uint8_t *p = data;

    while (n > 0 && c->state == CHANNEL_SHAKING) {
        ssize_t took = shake(c, p, n, ops, ctx);

        if (took < 0)
            return (int)took;
        p += took;
        n -= (size_t)took;
    }
    if (c->state == CHANNEL_FAILED)
        return -EPROTO;
    if (n == 0)
        return 0;
    if (append(&c->in, p, n) != 0) {
        fail(c, "out of memory");
        return -ENOMEM;
    }
    return take_frames(c, ops, ctx);
}

size_t channel_output(const struct channel *c, const void **data)
{
    *data = c->out.p ? c->out.p + c->out.head : NULL;
    return c->state == CHANNEL_FAILED ? 0 : c->out.len - c->out.head;
}

void channel_sent(struct channel *c, size_t n)
{
    consume(&c->out, n);
}
