/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer target: the codec. The first two bytes choose flags, the room for fields, the limit and
 * the split of the rest, which is a stream of messages. Decoded whole and in pieces it must give
 * the same; views must lie in the buffer; each decoded message is checked against the table, and
 * encoded again must decode to the same fields. Every buffer is a heap block of exactly its size.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmiwire/codec.h>
#include <pmiwire/command.h>
#include <pmiwire/extension.h>
#include <pmiwire/profile.h>

#define MAX_FIELDS 1024u

static void *exact(const void *data, size_t bytes)
{
    char *p = malloc(bytes ? bytes : 1);

    MUST(p != NULL);
    if (bytes && data)
        memcpy(p, data, bytes);
    return p;
}

static int inside(struct pmiwire_str s, const char *buf, size_t len)
{
    return s.len == 0 ? s.ptr == NULL || (s.ptr >= buf && s.ptr <= buf + len)
                      : s.ptr >= buf && s.len <= len && s.ptr + s.len <= buf + len;
}

static int equal(struct pmiwire_str a, struct pmiwire_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

struct outcome {
    ssize_t rc;
    struct pmiwire_decoder d;
    struct pmiwire_msg m;
    char *buf;
    size_t len;
};

static void look_inside(const struct outcome *o)
{
    struct pmiwire_error diag;
    struct pmiwire_str value;

    MUST(o->rc <= (ssize_t)o->len && inside(o->m.cmd, o->buf, o->len) &&
         o->m.n_fields <= o->m.cap_fields);
    if (o->rc < 0) /* begun fields hold no value yet */
        MUST(o->d.err_bytes <= o->len);
    if (o->rc == 0)
        MUST(o->d.need_bytes > o->len);
    if (o->rc <= 0)
        return;
    for (uint32_t i = 0; i < o->m.n_fields; i++) {
        const struct pmiwire_field *f = &o->m.fields[i];
        const struct pmiwire_field_desc *desc = pmiwire_field_get(f->id);

        MUST(f->key.len > 0 && f->key.ptr != NULL && f->value.ptr != NULL);
        MUST(inside(f->key, o->buf, (size_t)o->rc) && inside(f->value, o->buf, (size_t)o->rc));
        /* An id is that of the key's name; what follows it is the index. */
        MUST(!desc || (f->key.len >= strlen(desc->name) &&
                       memcmp(f->key.ptr, desc->name, strlen(desc->name)) == 0 &&
                       (f->key.len > strlen(desc->name)) == desc->indexed));
        MUST(desc && desc->indexed ? (f->flags & PMIWIRE_FIELD_INDEXED) != 0
                                   : f->index == 0 && !(f->flags & PMIWIRE_FIELD_INDEXED));
    }
    for (uint32_t flags = 0; flags <= PMIWIRE_CHECK_FIRST_WINS; flags++)
        if (pmiwire_msg_check(&o->m, flags, &diag) != 0) {
            MUST(diag.code < 0 && diag.offset < (size_t)o->rc);
            MUST(strlen(diag.text) > 0 && strlen(diag.text) < sizeof(diag.text) - 1);
        }
    for (uint16_t ext = 0; ext <= PMIWIRE_EXT_COUNT_; ext++)
        if (pmiwire_msg_ext(&o->m, ext, &value) == 0)
            MUST(inside(value, o->buf, (size_t)o->rc));
}

/* Decodes the bytes so far, in blocks of their own. The last one stays, as *o. */
static void decode_in_pieces(struct outcome *o, const char *data, size_t len, size_t max,
                             uint32_t flags, uint32_t seed)
{
    size_t n = 0;

    pmiwire_decoder_init(&o->d, max, flags);
    do {
        free(o->buf);
        seed = seed * 1103515245u + 12345u;
        n += 1 + (seed >> 16) % (seed & 0x100 ? 4 : 64);
        n = n < len ? n : len;
        o->buf = exact(data, n);
        o->len = n;
        o->rc = pmiwire_decode(&o->d, o->buf, n, &o->m);
    } while (o->rc == 0 && n < len);
}

static void compare(const struct outcome *whole, const struct outcome *pieces)
{
    /* The end of a message over the limit may be missing. */
    if (whole->rc != pieces->rc)
        abort();
    if (whole->rc < 0) {
        MUST(whole->d.err_offset == pieces->d.err_offset);
        MUST(whole->d.err_bytes == pieces->d.err_bytes ||
             (whole->rc == PMIWIRE_ETOOBIG && pieces->d.err_bytes == 0));
        MUST(whole->rc != PMIWIRE_EFIELDS || whole->d.need_fields == pieces->d.need_fields);
    }
    if (whole->rc == 0)
        MUST(whole->d.need_bytes == pieces->d.need_bytes);
    if (whole->rc <= 0)
        return;
    MUST(whole->m.id == pieces->m.id && whole->m.wire == pieces->m.wire &&
         whole->m.pad_right == pieces->m.pad_right);
    MUST(equal(whole->m.cmd, pieces->m.cmd) && whole->m.n_fields == pieces->m.n_fields);
    for (uint32_t i = 0; i < whole->m.n_fields; i++) {
        const struct pmiwire_field *a = &whole->m.fields[i], *b = &pieces->m.fields[i];

        MUST(equal(a->key, b->key) && equal(a->value, b->value) && a->id == b->id &&
             a->flags == b->flags);
    }
}

/* Encodes the fields again; the result must decode to the same. */
static void encode_again(const struct pmiwire_msg *m, size_t bytes,
                         const struct pmiwire_profile *profile)
{
    size_t cap = 2 * bytes + 64;
    char *room = exact(NULL, cap), *tight;
    struct pmiwire_field *fields = exact(NULL, (m->n_fields + 1) * sizeof(*fields));
    struct pmiwire_msg again = {.fields = fields, .cap_fields = m->n_fields};
    char **plain = exact(NULL, (m->n_fields + 1) * sizeof(*plain));
    struct pmiwire_str *values = exact(NULL, (m->n_fields + 1) * sizeof(*values));
    struct pmiwire_encoder e;
    struct pmiwire_decoder d;
    ssize_t n;
    int must = m->wire == PMIWIRE_V2 && !profile;

    pmiwire_enc_begin(&e, room, cap, m->id, profile);
    e.pad_right = m->pad_right != 0;
    for (uint32_t i = 0; i < m->n_fields; i++) {
        const struct pmiwire_field *f = &m->fields[i];
        char key[33]; /* a longer one is refused, and so is a part of this one */

        snprintf(key, sizeof(key), "%.*s", (int)f->key.len, f->key.ptr);
        plain[i] = exact(f->value.ptr, f->value.len);
        values[i] = (struct pmiwire_str){plain[i], f->value.len};
        if (f->flags & PMIWIRE_FIELD_ESCAPED)
            values[i].len = pmiwire_unescape(values[i], plain[i]);
        if (f->flags & PMIWIRE_FIELD_INDEXED)
            pmiwire_enc_indexed(&e, f->id, f->index, values[i]);
        else if (f->id)
            pmiwire_enc_str(&e, f->id, values[i]);
        else
            pmiwire_enc_extra(&e, key, values[i]);
        /* The encoder may refuse extra fields, and keys that no peer could get. */
        must = must && f->id && f->id != PMIWIRE_F_KEY;
    }
    n = pmiwire_enc_end(&e, NULL);
    MUST(n > 0 || !must);
    if (n > 0) {
        tight = exact(room, (size_t)n);
        pmiwire_decoder_init(&d, cap, 0);
        MUST(pmiwire_decode(&d, tight, (size_t)n, &again) == n);
        MUST(equal(again.cmd, m->cmd) && again.id == m->id && again.wire == m->wire &&
             again.n_fields == m->n_fields);
        for (uint32_t i = 0; i < again.n_fields; i++) {
            struct pmiwire_str *v = &again.fields[i].value;
            char *out = exact(v->ptr, v->len);

            if (again.fields[i].flags & PMIWIRE_FIELD_ESCAPED)
                v->len = pmiwire_unescape(*v, out);
            v->ptr = out;
            MUST(equal(again.fields[i].key, m->fields[i].key) && equal(*v, values[i]));
            free(out);
        }
        free(tight);
    }
    for (uint32_t i = 0; i < m->n_fields; i++)
        free(plain[i]);
    free(values);
    free(plain);
    free(fields);
    free(room);
}

/* One message at the head of data; returns its bytes, 0 at the end. */
static size_t one_message(const char *data, size_t len, unsigned choice, unsigned seed)
{
    static const size_t limits[] = {0, PMIWIRE_V2_MAX_BYTES, 64, 20};
    static const uint32_t caps[] = {MAX_FIELDS, 8, 3, 0};
    const uint32_t cap = caps[choice >> 1 & 3], flags = choice & PMIWIRE_DECODE_VALUE_TO_EOL;
    const size_t max = limits[choice >> 3 & 3];
    struct outcome whole, pieces;
    size_t consumed;

    memset(&whole, 0, sizeof(whole));
    memset(&pieces, 0, sizeof(pieces));
    whole.m.fields = exact(NULL, cap * sizeof(struct pmiwire_field));
    pieces.m.fields = exact(NULL, cap * sizeof(struct pmiwire_field));
    whole.m.cap_fields = pieces.m.cap_fields = cap;
    whole.buf = exact(data, len);
    whole.len = len;
    pmiwire_decoder_init(&whole.d, max, flags);
    whole.rc = pmiwire_decode(&whole.d, whole.buf, len, &whole.m);
    look_inside(&whole);
    decode_in_pieces(&pieces, data, len, max, flags, seed);
    look_inside(&pieces);
    compare(&whole, &pieces);
    if (whole.rc > 0) {
        const struct pmiwire_profile *profile =
            choice & 32 ? pmiwire_profile_at(choice >> 6) : NULL;

        if (whole.m.id && pmiwire_command_get(whole.m.id)->wire == whole.m.wire)
            encode_again(&whole.m, (size_t)whole.rc, profile);
    } else if (whole.rc == PMIWIRE_EFIELDS && whole.d.need_fields <= MAX_FIELDS) {
        struct pmiwire_msg enough = {.cap_fields = whole.d.need_fields};

        enough.fields = exact(NULL, enough.cap_fields * sizeof(*enough.fields));
        MUST(pmiwire_decode(&whole.d, whole.buf, len, &enough) == (ssize_t)whole.d.err_bytes);
        free(enough.fields);
    }
    consumed = whole.rc > 0 ? (size_t)whole.rc : whole.rc < 0 ? whole.d.err_bytes : 0;
    free(whole.buf);
    free(pieces.buf);
    free(whole.m.fields);
    free(pieces.m.fields);
    return consumed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t at = 2, step;

    if (size < 2)
        return 0;
    do {
        step = one_message((const char *)data + at, size - at, data[0], data[1] + (unsigned)at);
        at += step;
    } while (step > 0);
    return 0;
}
