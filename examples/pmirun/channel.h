/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Authenticated frames between two servers of a job, without I/O: bytes go in, frames come out;
 * frames go in, bytes come out.
 *
 * Both sides hold the job's secret, 32 random bytes. Who dials says HELLO (job, who it is, whom it
 * wants, a nonce); who accepts answers with its own nonce and proves that it knows the secret; then
 * the dialler proves it too:
 *
 *     hello  = "FPNL" version 0 0 0 | job[16] | from u32 | to u32 | nonce[32] 64 bytes
 *     answer = "FPNA" version 0 0 0 | nonce[32] | HMAC(secret, "accepts" | hello | answer[0..39])  72
 *                                                                                                  bytes
 *     proof  = HMAC(secret, "dials" | hello | answer) 32 bytes
 *     frame  = length u32 | 0 u32 | sequence u64 | payload | HMAC(key, header | payload)[0..15] 32
 *            bytes and the payload
 *
 * Integers are little-endian. Each direction has its own key, HMAC(secret, label of the direction |
 * hello | answer): what was said in another connection, by the other side, or to somebody else
 * proves nothing, since nonces, ids and roles all go into it. Nothing is kept secret but the
 * secret: frames are authenticated, not encrypted.
 *
 * Frames carry numbers from 0 on. One out of turn that is old, or not authentic, has been slipped
 * in: it is refused and told to `refused`, and the connection goes on. One in turn that is not
 * authentic was altered on its way, and an authentic one that is too new says that one was taken
 * out: the connection is then useless and FAILED. So is one with more than CHANNEL_MAX_BYTES of
 * payload.
 *
 * Whoever has not proven anything can make us hold 5 KiB. MT-Safe on distinct objects.
 */
#ifndef PMIRUN_CHANNEL_H
#define PMIRUN_CHANNEL_H

#include <sys/types.h>
#include <sys/uio.h>

#include "sha256.h"

#define CHANNEL_SECRET_BYTES 32u
#define CHANNEL_JOB_BYTES    16u
#define CHANNEL_MAX_BYTES    (64u << 20) /* of a frame's payload */
#define CHANNEL_MAX_REFUSED  64u         /* frames; then the connection is given up */
/* peer of an accepted connection that has not said who it is */
#define CHANNEL_NOBODY 0xfffffffeu
#define CHANNEL_HEAD   0xffffffffu /* the id of the head; others are node numbers */

enum channel_state { CHANNEL_SHAKING, CHANNEL_OPEN, CHANNEL_FAILED };

/* Who may know what. */
struct channel_self {
    uint8_t secret[CHANNEL_SECRET_BYTES];
    uint8_t job[CHANNEL_JOB_BYTES];
    uint32_t id;
};

struct channel_bytes {
    uint8_t *p;
    size_t head, len, cap;
};

struct channel {
    const struct channel_self *self;
    enum channel_state state;
    bool dials;
    uint32_t peer; /* who the other side is; proven once the channel is OPEN */
    int step;      /* of the handshake */
    uint8_t shake[64 + 72 + 32];
    size_t have; /* bytes of the message of the handshake that is awaited */
    struct hmac in_key, out_key;
    uint64_t in_seq, out_seq;
    uint32_t n_refused;
    const char *why;                     /* FAILED: the cause, in words */
    struct channel_bytes in, out, early; /* early: frames given before the channel was OPEN */
};

struct channel_ops {
    /* The other side has proven who it is: c->peer. False refuses it. */
    bool (*opened)(void *ctx, struct channel *c);
    /* A frame. Valid during the call, in which channel_send() may be called on any channel. False:
     * nothing more is wanted of this channel. */
    bool (*frame)(void *ctx, struct channel *c, const void *payload, size_t n);
    /* A frame was refused. */
    void (*refused)(void *ctx, struct channel *c, const char *why, uint64_t sequence);
};

/* `self` stays the caller's. peer: whom it dials, or CHANNEL_NOBODY for a connection that was
 * accepted. 0, -ENOMEM, -EIO (no random numbers). */
int channel_init(struct channel *c, const struct channel_self *self, bool dials, uint32_t peer);
void channel_fini(struct channel *c);
/* 0, or -EPROTO when the channel FAILED, -ENOMEM. What follows is ignored then. */
int channel_input(struct channel *c, const void *data, size_t n, const struct channel_ops *ops,
                  void *ctx);
/* A frame of n pieces; queued until the channel is OPEN. 0, -EMSGSIZE, -ENOMEM, -EPIPE (FAILED). */
int channel_send(struct channel *c, const struct iovec *iov, int n);
/* Bytes to write, and how many of them were. */
size_t channel_output(const struct channel *c, const void **data);
void channel_sent(struct channel *c, size_t n);

/* The tag of a message that does not travel in a channel: 16 bytes over what identifies it and what
 * it says. */
void channel_tag(const struct hmac *key, const void *head, size_t head_len, const void *payload,
                 size_t n, uint8_t tag[16]);
/* The key for such messages from one node to another. */
void channel_pair_key(const struct channel_self *self, uint32_t from, uint32_t to,
                      struct hmac *key);

#endif
