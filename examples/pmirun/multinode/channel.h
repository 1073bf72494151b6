/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encrypted, authenticated frames between two servers of a job, without I/O: bytes go in, frames
 * come out; frames go in, bytes come out. CHANNEL.md has the layout and what it protects against;
 * libsodium does the cryptography; channel_none.c replaces channel.c in builds without it.
 *
 * Both sides hold the job's secret, 32 random bytes. One dials, the other accepts. A handshake of
 * three messages exchanges ephemeral keys and proves to each side that the other has the secret;
 * the channel is then OPEN, and frames travel both ways, numbered from 0 on:
 *
 *   - a frame with a number that was used before is refused and reported; the channel continues;
 *   - a frame that was altered, or behind one that is missing, makes the channel FAILED;
 *   - so does a frame of more than CHANNEL_MAX_BYTES.
 *
 * An unauthenticated peer costs at most 5 KiB of memory; it comes from xrealloc(). MT-Safe on
 * distinct objects.
 */
#ifndef PMIRUN_CHANNEL_H
#define PMIRUN_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHANNEL_SECRET_BYTES 32u
#define CHANNEL_JOB_BYTES    16u
#define CHANNEL_MAX_BYTES    (64u << 20) /* of a frame's payload */
#define CHANNEL_MAX_REPLAYED 64u         /* frames; then the channel is given up */
#define CHANNEL_NOBODY       0xfffffffeu /* the peer of an accepted channel before its hello */
#define CHANNEL_HEAD         0xffffffffu /* the id of the head; others are node numbers */

/* Messages of the handshake, and what a frame has besides its payload. */
#define CHANNEL_HELLO_BYTES  64u
#define CHANNEL_TAG_BYTES    17u /* of a stream of libsodium */
#define CHANNEL_PROOF_BYTES  (24u + CHANNEL_TAG_BYTES)
#define CHANNEL_ANSWER_BYTES (40u + CHANNEL_PROOF_BYTES)
#define CHANNEL_STREAM_BYTES 52u /* the state of one */
#define CHANNEL_HEAD_BYTES   12u /* length u32, number u64 */
#define CHANNEL_FRAME_BYTES  (CHANNEL_HEAD_BYTES + CHANNEL_TAG_BYTES)

enum channel_state { CHANNEL_SHAKING, CHANNEL_OPEN, CHANNEL_FAILED };

/* What each side brings: the same secret and job, an id of its own. */
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
    uint32_t peer; /* the other side's id; proven once the channel is OPEN */
    uint8_t shake[CHANNEL_HELLO_BYTES + CHANNEL_ANSWER_BYTES + CHANNEL_PROOF_BYTES];
    size_t step, have; /* of the handshake; bytes received of the awaited message */
    uint8_t key[32]; /* until the proofs: the dialler's private key, the acceptor's for frames in */
    uint8_t in_stream[CHANNEL_STREAM_BYTES], out_stream[CHANNEL_STREAM_BYTES];
    uint64_t in_seq, out_seq;
    uint32_t n_replayed;
    const char *why; /* FAILED: the cause, in words */
    struct channel_bytes in, out;
    struct channel_bytes unsealed; /* the frame that is being delivered */
    struct channel_bytes unsent;   /* frames until the channel is OPEN: lengths and payloads */
};

struct channel_ops {
    /* The other side has proven its id, c->peer. False: it is not welcome, the channel FAILED. */
    bool (*opened)(void *ctx, struct channel *c);
    /* A frame has come. `payload` is valid during the call, in which channel_send() may be called
     * on any channel. False: it is invalid, and the channel FAILED. */
    bool (*frame)(void *ctx, struct channel *c, const void *payload, size_t n);
    /* A frame was refused: its number was used before. */
    void (*replayed)(void *ctx, struct channel *c, uint64_t number);
};

/* Call it once, first. misuse: called where libsodium would abort(). 0, -EIO (no random numbers),
 * -ENOTSUP (built without libsodium). */
int channel_start(void (*misuse)(void));
/* `self` stays the caller's and outlives the channel. peer: the id that it dials; CHANNEL_NOBODY
 * for one that was accepted. */
void channel_init(struct channel *c, const struct channel_self *self, bool dials, uint32_t peer);
void channel_fini(struct channel *c);
/* 0, or -EPROTO when the channel FAILED. Input after a failure is ignored. */
int channel_input(struct channel *c, const void *data, size_t n, const struct channel_ops *ops,
                  void *ctx);
/* A frame; queued until the channel is OPEN. 0, -EMSGSIZE, -EPIPE (FAILED). */
int channel_send(struct channel *c, const void *p, size_t n);
/* Bytes to write, and how many of them were. */
size_t channel_output(const struct channel *c, const void **data);
void channel_sent(struct channel *c, size_t n);
/* All waiting bytes, including frames for which there is no key yet. */
size_t channel_waiting(const struct channel *c);

#endif
