/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recorded bytes through the codec: they decode in chunks of any size, every message passes the
 * command table's check, and the decoded message encodes to the same bytes.
 */
#define _GNU_SOURCE 1 /* open_memstream */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmiwire/command.h>

#include "transcript.h"

#define N_OF(array)   (sizeof(array) / sizeof((array)[0]))
#define MAX_FIELDS    256
#define MAX_MSG_BYTES 65536

/* Intended deviations, looked up as "CASE.label" and "check COMMAND CODE" or "encode COMMAND". */
static struct exception exceptions[] = {
    {"raw1-hydra-unknown.r0", "check no_such_command -21009",
     "a command that nobody knows was sent on purpose", 0},
    {"raw2-hydra-unknown.r0", "check no-such-command -21009",
     "a command that nobody knows was sent on purpose", 0},
    {"raw1-*", "encode put", "our encoder puts no extra field behind PMI-1's value", 0},
};

/* Every view of a message as text, so that results of two chunk sizes can be compared. */
static void print_msg(FILE *out, const struct pmiwire_msg *msg, size_t len)
{
    fprintf(out, "%zu bytes, wire %u, right %u, id %u, %.*s", len, msg->wire, msg->pad_right,
            msg->id, (int)msg->cmd.len, msg->cmd.ptr);
    for (uint32_t i = 0; i < msg->n_fields; i++) {
        const struct pmiwire_field *f = &msg->fields[i];

        fprintf(out, " [%u.%u.%u %.*s=%.*s]", f->id, f->index, f->flags, (int)f->key.len,
                f->key.ptr, (int)f->value.len, f->value.ptr);
    }
    fputc('\n', out);
}

/* A program's reader: a buffer that grows with the input, and a decoder that keeps its place. */
struct feed {
    struct pmiwire_decoder decoder;
    char buf[2 * MAX_MSG_BYTES];
    size_t len;
    FILE *out;
};

static void feed_bytes(struct feed *feed, const char *data, size_t n)
{
    struct pmiwire_field fields[MAX_FIELDS];
    size_t at = 0;
    ssize_t used;

    memcpy(feed->buf + feed->len, data, n);
    feed->len += n;
    for (;;) {
        struct pmiwire_msg msg = {.fields = fields, .cap_fields = MAX_FIELDS};

        used = pmiwire_decode(&feed->decoder, feed->buf + at, feed->len - at, &msg);
        if (used <= 0)
            break;
        print_msg(feed->out, &msg, (size_t)used);
        at += (size_t)used;
        if (at == feed->len)
            break;
    }
    if (used < 0)
        fprintf(feed->out, "error %d\n", (int)used);
    memmove(feed->buf, feed->buf + at, feed->len - at);
    feed->len -= at;
}

/* All of one side: as one piece (step 0), as recorded (step SIZE_MAX), or step bytes at a time. */
static char *decode_fed(const struct transcript *t, char side, size_t step)
{
    struct feed *feed = need(malloc(sizeof(*feed)));
    char *text = NULL, *joined;
    size_t text_len, len;

    pmiwire_decoder_init(&feed->decoder, MAX_MSG_BYTES, 0);
    feed->len = 0;
    feed->out = need(open_memstream(&text, &text_len));
    joined = transcript_join(t, side, &len);
    if (step == SIZE_MAX) {
        for (size_t i = 0; i < t->n_records; i++)
            if (t->records[i].side == side)
                feed_bytes(feed, t->records[i].data, t->records[i].len);
    } else {
        if (step == 0)
            step = len;
        for (size_t at = 0; at < len; at += step)
            feed_bytes(feed, joined + at, step < len - at ? step : len - at);
    }
    fprintf(feed->out, "%zu bytes left\n", feed->len);
    fclose(feed->out);
    free(joined);
    free(feed);
    return text;
}

/* Encodes the decoded message. */
static ssize_t encode_again(const struct pmiwire_msg *msg, char *out, size_t cap)
{
    struct pmiwire_encoder e;

    pmiwire_enc_begin(&e, out, cap, msg->id, NULL);
    e.pad_right = msg->pad_right != 0;
    for (uint32_t i = 0; i < msg->n_fields; i++) {
        const struct pmiwire_field *f = &msg->fields[i];
        struct pmiwire_str value = f->value;
        char *plain = NULL, key[32];

        if (f->flags & PMIWIRE_FIELD_ESCAPED) {
            plain = need(malloc(value.len));
            value.len = pmiwire_unescape(value, plain);
            value.ptr = plain;
        }
        if (f->flags & PMIWIRE_FIELD_INDEXED) {
            pmiwire_enc_indexed(&e, f->id, f->index, value);
        } else if (f->id) {
            pmiwire_enc_str(&e, f->id, value);
        } else {
            snprintf(key, sizeof(key), "%.*s", (int)f->key.len, f->key.ptr);
            pmiwire_enc_extra(&e, key, value);
        }
        free(plain); /* the encoder has copied it */
    }
    return pmiwire_enc_end(&e, NULL);
}

static void check_encode(const char *where, const struct kept_msg *k)
{
    static char out[MAX_MSG_BYTES];
    char what[64];
    ssize_t n = encode_again(&k->msg, out, sizeof(out));

    if (n == (ssize_t)k->len && memcmp(out, k->text, k->len) == 0)
        return;
    snprintf(what, sizeof(what), "encode %.*s", (int)k->msg.cmd.len, k->msg.cmd.ptr);
    if (excepted(exceptions, N_OF(exceptions), where, what))
        return;
    if (n < 0)
        deviation(where, "%s: %s", what, pmiwire_strerror((int)n));
    else
        deviation(where, "%s: recorded \"%.*s\", encoded again \"%.*s\"", what, (int)k->len,
                  k->text, (int)n, out);
}

static void check_message(const char *where, char side, const struct kept_msg *k)
{
    struct pmiwire_error diag;
    char what[64];
    int rc = pmiwire_msg_check(&k->msg, side == 'S' ? PMIWIRE_CHECK_FIRST_WINS : 0, &diag);

    if (rc != 0) {
        snprintf(what, sizeof(what), "check %.*s %d", (int)k->msg.cmd.len, k->msg.cmd.ptr, rc);
        if (!excepted(exceptions, N_OF(exceptions), where, what))
            deviation(where, "%s: %s", what, diag.text);
    }
    if (k->msg.id)
        check_encode(where, k);
}

static size_t replay_side(const char *where, const struct transcript *t, char side)
{
    struct kept_msgs msgs;
    size_t len, offset = 0, n;
    char *joined = transcript_join(t, side, &len);
    char *whole = decode_fed(t, side, 0);
    static const size_t steps[] = {SIZE_MAX, 1, 7};
    static const char *const names[] = {"as recorded", "of a byte", "of seven bytes"};
    int rc = msgs_split(joined, len, &msgs, &offset);

    if (rc != 0)
        deviation(where, "side %c does not decode: %s at byte %zu", side, pmiwire_strerror(rc),
                  offset);
    if (msgs.rest != 0)
        deviation(where, "side %c ends with %zu bytes that are no message", side, msgs.rest);
    for (size_t i = 0; i < N_OF(steps); i++) {
        char *fed = decode_fed(t, side, steps[i]);

        if (strcmp(fed, whole) != 0)
            deviation(where, "side %c in chunks %s: it gives\n%sthe whole gave\n%s", side, names[i],
                      fed, whole);
        free(fed);
    }
    for (size_t i = 0; i < msgs.n; i++)
        check_message(where, side, &msgs.at[i]);
    n = msgs.n;
    msgs_free(&msgs);
    free(whole);
    free(joined);
    return n;
}

void replay_codec(const struct recording *r)
{
    for (size_t i = 0; i < r->n_transcripts; i++) {
        const struct transcript *t = &r->transcripts[i];
        char where[128];
        size_t n_client, n_server;

        snprintf(where, sizeof(where), "%s.%s", r->name, t->label);
        n_client = replay_side(where, t, 'C');
        n_server = replay_side(where, t, 'S');
        replayed("codec", where, "%zu client and %zu server messages", n_client, n_server);
    }
}

void replay_codec_end(void)
{
    exceptions_unused(exceptions, N_OF(exceptions), "codec");
}
