/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "channel.h"

#include "../local/bytes.h"
#include "../local/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#define VERSION    2
#define KEPT_BYTES (256u << 10) /* an empty buffer that is larger is freed */

/* Where things are in the messages of the handshake; keys depend on what precedes the proofs. */
#define HELLO_KEY_AT  32u
#define ANSWER_KEY_AT 8u
#define PROOF_AT      40u /* in an answer */
#define SHAKE_BYTES   (CHANNEL_HELLO_BYTES + PROOF_AT)

#define STREAM_HEADER_BYTES crypto_secretstream_xchacha20poly1305_HEADERBYTES
#define STREAM_TAG_BYTES    crypto_secretstream_xchacha20poly1305_ABYTES

_Static_assert(STREAM_TAG_BYTES == CHANNEL_TAG_BYTES &&
                   STREAM_HEADER_BYTES + STREAM_TAG_BYTES == CHANNEL_PROOF_BYTES &&
                   sizeof(crypto_secretstream_xchacha20poly1305_state) == CHANNEL_STREAM_BYTES,
               "channel.h does without sodium.h");

/* ---- bytes that wait ---- */

static void bytes_reserve(struct channel_bytes *b, size_t n)
{
    size_t cap = b->cap ? b->cap : 4096;

    if (b->head > b->len / 2 && b->len + n > b->cap) { /* else it would move the same bytes often */
        memmove(b->p, b->p + b->head, b->len - b->head);
        b->len -= b->head;
        b->head = 0;
    }
    if (b->len + n <= b->cap)
        return;
    while (cap < b->len + n)
        cap *= 2;
    b->p = xrealloc(b->p, cap);
    b->cap = cap;
}

static void bytes_append(struct channel_bytes *b, const void *p, size_t n)
{
    bytes_reserve(b, n);
    if (n)
        memcpy(b->p + b->len, p, n);
    b->len += n;
}

static void bytes_release(struct channel_bytes *b)
{
    free(b->p);
    *b = (struct channel_bytes){0};
}

static void bytes_consume(struct channel_bytes *b, size_t n)
{
    b->head += n;
    if (b->head < b->len)
        return;
    b->head = b->len = 0;
    if (b->cap > KEPT_BYTES)
        bytes_release(b);
}

/* ---- handshake ---- */

static int channel_fail(struct channel *c, const char *why)
{
    c->state = CHANNEL_FAILED;
    c->why = why;
    return -EPROTO;
}

int channel_start(void (*misuse)(void))
{
    sodium_set_misuse_handler(misuse);
    return sodium_init() < 0 ? -EIO : 0;
}

void channel_init(struct channel *c, const struct channel_self *self, bool dials, uint32_t peer)
{
    uint8_t *h = c->shake;

    memset(c, 0, sizeof(*c));
    c->self = self;
    c->dials = dials;
    c->peer = peer;
    if (!dials)
        return;
    memcpy(h, "FPNL", 4);
    h[4] = VERSION;
    memcpy(h + 8, self->job, CHANNEL_JOB_BYTES);
    bytes_put_u32(h + 24, self->id);
    bytes_put_u32(h + 28, peer);
    crypto_kx_keypair(h + HELLO_KEY_AT, c->key);
    bytes_append(&c->out, h, CHANNEL_HELLO_BYTES);
}

void channel_fini(struct channel *c)
{
    bytes_release(&c->in);
    bytes_release(&c->out);
    bytes_release(&c->unsealed);
    bytes_release(&c->unsent);
    sodium_memzero(c, sizeof(*c));
}

/* The key of one direction's frames: from the key exchange, the whole handshake and the secret. */
static void bind_key(const struct channel *c, uint8_t key[crypto_kx_SESSIONKEYBYTES])
{
    static const char label[] = "fencepost frames";
    crypto_generichash_state hash;

    crypto_generichash_init(&hash, c->self->secret, CHANNEL_SECRET_BYTES,
                            crypto_kx_SESSIONKEYBYTES);
    crypto_generichash_update(&hash, (const uint8_t *)label, sizeof(label));
    crypto_generichash_update(&hash, key, crypto_kx_SESSIONKEYBYTES);
    crypto_generichash_update(&hash, c->shake, SHAKE_BYTES);
    crypto_generichash_final(&hash, key, crypto_kx_SESSIONKEYBYTES);
    sodium_memzero(&hash, sizeof(hash));
}

/* Both directions' keys, from both public keys and the own private one, which is then erased. */
static int make_keys(struct channel *c, uint8_t rx[crypto_kx_SESSIONKEYBYTES],
                     uint8_t tx[crypto_kx_SESSIONKEYBYTES])
{
    const uint8_t *dialler = c->shake + HELLO_KEY_AT,
                  *acceptor = c->shake + CHANNEL_HELLO_BYTES + ANSWER_KEY_AT;
    int rc = c->dials ? crypto_kx_client_session_keys(rx, tx, dialler, c->key, acceptor)
                      : crypto_kx_server_session_keys(rx, tx, acceptor, c->key, dialler);

    sodium_memzero(c->key, sizeof(c->key));
    if (rc != 0)
        return channel_fail(c, "its public key is invalid");
    bind_key(c, rx);
    bind_key(c, tx);
    return 0;
}

/* The proof of the secret: the beginning of the own stream, and an empty message in it. */
static void make_proof(struct channel *c, const uint8_t *key, uint8_t proof[CHANNEL_PROOF_BYTES])
{
    crypto_secretstream_xchacha20poly1305_init_push((void *)c->out_stream, proof, key);
    crypto_secretstream_xchacha20poly1305_push((void *)c->out_stream, proof + STREAM_HEADER_BYTES,
                                               NULL, NULL, 0, NULL, 0, 0);
}

static int verify_proof(struct channel *c, const uint8_t *key,
                        const uint8_t proof[CHANNEL_PROOF_BYTES])
{
    uint8_t nothing[1];

    crypto_secretstream_xchacha20poly1305_init_pull((void *)c->in_stream, proof, key);
    if (crypto_secretstream_xchacha20poly1305_pull((void *)c->in_stream, nothing, NULL, NULL,
                                                   proof + STREAM_HEADER_BYTES, STREAM_TAG_BYTES,
                                                   NULL, 0) != 0)
        return channel_fail(c, "it does not know the job's secret");
    return 0;
}

static int check_hello(struct channel *c, const uint8_t *h)
{
    if (memcmp(h, "FPNL", 4) != 0)
        return channel_fail(c, "it does not speak pmirun's protocol");
    if (h[4] != VERSION || h[5] || h[6] || h[7])
        return channel_fail(c,
                            "its protocol version differs: install the same pmirun on all nodes");
    if (sodium_memcmp(h + 8, c->self->job, CHANNEL_JOB_BYTES) != 0)
        return channel_fail(c, "it belongs to another job");
    if (bytes_get_u32(h + 28) != c->self->id)
        return channel_fail(c, "it asks for another node");
    c->peer = bytes_get_u32(h + 24);
    if (c->peer == c->self->id || c->peer == CHANNEL_NOBODY)
        return channel_fail(c, "its node number is not allowed");
    return 0;
}

static int on_hello(struct channel *c)
{
    uint8_t *a = c->shake + CHANNEL_HELLO_BYTES;
    uint8_t rx[crypto_kx_SESSIONKEYBYTES], tx[crypto_kx_SESSIONKEYBYTES];
    int rc = check_hello(c, c->shake);

    if (rc != 0)
        return rc;
    memcpy(a, "FPNA", 4);
    a[4] = VERSION;
    crypto_kx_keypair(a + ANSWER_KEY_AT, c->key);
    rc = make_keys(c, rx, tx);
    if (rc == 0) {
        make_proof(c, tx, a + PROOF_AT);
        memcpy(c->key, rx, sizeof(rx)); /* for the dialler's proof */
        bytes_append(&c->out, a, CHANNEL_ANSWER_BYTES);
    }
    sodium_memzero(rx, sizeof(rx));
    sodium_memzero(tx, sizeof(tx));
    return rc;
}

static int on_shake_answer(struct channel *c)
{
    const uint8_t *a = c->shake + CHANNEL_HELLO_BYTES;
    uint8_t rx[crypto_kx_SESSIONKEYBYTES], tx[crypto_kx_SESSIONKEYBYTES],
        proof[CHANNEL_PROOF_BYTES];
    int rc;

    if (memcmp(a, "FPNA", 4) != 0 || a[4] != VERSION || a[5] || a[6] || a[7])
        return channel_fail(c, "it does not speak pmirun's protocol");
    rc = make_keys(c, rx, tx);
    if (rc == 0)
        rc = verify_proof(c, rx, a + PROOF_AT);
    if (rc == 0) {
        make_proof(c, tx, proof);
        bytes_append(&c->out, proof, sizeof(proof));
    }
    sodium_memzero(rx, sizeof(rx));
    sodium_memzero(tx, sizeof(tx));
    return rc;
}

static int on_proof(struct channel *c)
{
    int rc = verify_proof(c, c->key, c->shake + CHANNEL_HELLO_BYTES + CHANNEL_ANSWER_BYTES);

    sodium_memzero(c->key, sizeof(c->key));
    return rc;
}

static void seal_frame(struct channel *c, const uint8_t *p, size_t n)
{
    uint8_t *frame;

    bytes_reserve(&c->out, CHANNEL_FRAME_BYTES + n);
    frame = c->out.p + c->out.len;
    bytes_put_u32(frame, (uint32_t)n);
    bytes_put_u64(frame + 4, c->out_seq++);
    crypto_secretstream_xchacha20poly1305_push((void *)c->out_stream, frame + CHANNEL_HEAD_BYTES,
                                               NULL, p, n, frame, CHANNEL_HEAD_BYTES, 0);
    c->out.len += CHANNEL_FRAME_BYTES + n;
}

/* The frames that waited for the handshake. */
static void flush_unsent(struct channel *c)
{
    while (c->unsent.head < c->unsent.len) {
        const uint8_t *p = c->unsent.p + c->unsent.head;
        const size_t n = bytes_get_u32(p);

        seal_frame(c, p + 4, n);
        bytes_consume(&c->unsent, 4 + n);
    }
}

/* Takes the bytes of the handshake; returns how many, or an error. */
static ssize_t shake_hands(struct channel *c, const uint8_t *p, size_t n,
                           const struct channel_ops *ops, void *ctx)
{
    static const struct {
        size_t at, len;
        int (*act)(struct channel *c);
    } awaited[2][2] = {
        {{0, CHANNEL_HELLO_BYTES, on_hello},
         {CHANNEL_HELLO_BYTES + CHANNEL_ANSWER_BYTES, CHANNEL_PROOF_BYTES, on_proof}},
        {{CHANNEL_HELLO_BYTES, CHANNEL_ANSWER_BYTES, on_shake_answer}, {0, 0, NULL}}};
    const size_t at = awaited[c->dials][c->step].at, len = awaited[c->dials][c->step].len,
                 some = n < len - c->have ? n : len - c->have;
    int rc;

    memcpy(c->shake + at + c->have, p, some);
    c->have += some;
    if (c->have < len)
        return (ssize_t)some;
    c->have = 0;
    rc = awaited[c->dials][c->step++].act(c);
    if (rc == 0 && (c->dials || c->step == 2)) {
        c->state = CHANNEL_OPEN;
        flush_unsent(c); /* before what opened() sends */
        rc = ops->opened(ctx, c) ? 0 : channel_fail(c, "not welcome");
    }
    return rc ? rc : (ssize_t)some;
}

/* ---- frames ---- */

int channel_send(struct channel *c, const void *p, size_t n)
{
    uint8_t head[4];

    if (n > CHANNEL_MAX_BYTES)
        return -EMSGSIZE;
    if (c->state == CHANNEL_FAILED)
        return -EPIPE;
    if (c->state == CHANNEL_OPEN) {
        seal_frame(c, p, n);
        return 0;
    }
    bytes_put_u32(head, (uint32_t)n);
    bytes_append(&c->unsent, head, sizeof(head));
    bytes_append(&c->unsent, p, n);
    return 0;
}

/* Handles the complete frame at p. 0, or the channel FAILED. */
static int take_frame(struct channel *c, const uint8_t *p, size_t len,
                      const struct channel_ops *ops, void *ctx)
{
    const uint64_t seq = bytes_get_u64(p + 4);
    int rc;

    if (seq < c->in_seq) {
        ops->replayed(ctx, c, seq);
        return ++c->n_replayed > CHANNEL_MAX_REPLAYED ? channel_fail(c, "too many replayed frames")
                                                      : 0;
    }
    if (seq > c->in_seq)
        return channel_fail(c, "a frame was lost on its way");
    bytes_reserve(&c->unsealed, len + 1);
    if (crypto_secretstream_xchacha20poly1305_pull((void *)c->in_stream, c->unsealed.p, NULL, NULL,
                                                   p + CHANNEL_HEAD_BYTES, len + STREAM_TAG_BYTES,
                                                   p, CHANNEL_HEAD_BYTES) != 0)
        return channel_fail(c, "a frame was altered on its way");
    c->in_seq++;
    rc = ops->frame(ctx, c, c->unsealed.p, len) ? 0 : channel_fail(c, "its message is invalid");
    bytes_consume(&c->unsealed, 0);
    return rc;
}

static int take_frames(struct channel *c, const struct channel_ops *ops, void *ctx)
{
    int rc = 0;

    while (rc == 0 && c->in.len - c->in.head >= CHANNEL_HEAD_BYTES) {
        const uint8_t *p = c->in.p + c->in.head;
        size_t len = bytes_get_u32(p);

        if (len > CHANNEL_MAX_BYTES)
            return channel_fail(c, "a frame that is too long");
        if (c->in.len - c->in.head < CHANNEL_FRAME_BYTES + len)
            break;
        rc = take_frame(c, p, len, ops, ctx);
        bytes_consume(&c->in, CHANNEL_FRAME_BYTES + len);
    }
    return rc;
}

int channel_input(struct channel *c, const void *data, size_t n, const struct channel_ops *ops,
                  void *ctx)
{
    const uint8_t *p = data;

    while (n > 0 && c->state == CHANNEL_SHAKING) {
        ssize_t took = shake_hands(c, p, n, ops, ctx);

        if (took < 0)
            return (int)took;
        p += took;
        n -= (size_t)took;
    }
    if (c->state == CHANNEL_FAILED)
        return -EPROTO;
    if (n == 0)
        return 0;
    bytes_append(&c->in, p, n);
    return take_frames(c, ops, ctx);
}

size_t channel_output(const struct channel *c, const void **data)
{
    *data = c->out.p ? c->out.p + c->out.head : NULL;
    return c->state == CHANNEL_FAILED ? 0 : c->out.len - c->out.head;
}

void channel_sent(struct channel *c, size_t n)
{
    bytes_consume(&c->out, n);
}

size_t channel_waiting(const struct channel *c)
{
    return c->state == CHANNEL_FAILED ? 0
                                      : c->out.len - c->out.head + c->unsent.len - c->unsent.head;
}
