/* SPDX-License-Identifier: BSD-3-Clause */
/* Encoding: into the caller's buffer. */
#include <errno.h>

#include "codec_internal.h"

/* Extra fields: what every measured peer survives. */
#define EXTRA_MAX_FIELDS  16u
#define EXTRA_MAX_KEY     31u
#define EXTRA_MAX_VALUE   900u
#define EXTRA_MAX_MESSAGE 1000u

static const struct pmiwire_str no_index = {"", 0};

static void refuse(struct pmiwire_encoder *e, int code, uint16_t field)
{
    if (!e->err) {
        e->err = code;
        e->err_field = field;
    }
}

static void append(struct pmiwire_encoder *e, const char *p, size_t n)
{
    if (e->err)
        return;
    if (n > e->cap - e->len) {
        refuse(e, PMIWIRE_ENOBUF, 0);
        return;
    }
    if (n)
        memcpy(e->buf + e->len, p, n);
    e->len += n;
}

static void append_char(struct pmiwire_encoder *e, char c)
{
    append(e, &c, 1);
}

/* A PMI-2 value as it goes on the wire. */
static void append_escaped(struct pmiwire_encoder *e, struct pmiwire_str v)
{
    for (size_t i = 0; i < v.len; i++) {
        append_char(e, v.ptr[i]);
        if (v.ptr[i] == ';')
            append_char(e, ';');
    }
}

static void begin(struct pmiwire_encoder *e, char *buf, size_t cap, uint16_t wire,
                  const struct pmiwire_profile *profile)
{
    memset(e, 0, sizeof(*e));
    e->buf = buf;
    e->cap = cap;
    e->wire = wire;
    e->profile = profile;
}

static void begin_name(struct pmiwire_encoder *e, struct pmiwire_str name)
{
    if (e->wire == PMIWIRE_V2)
        append(e, "      ", PMIWIRE_V2_HEADER_BYTES);
    if (e->wire == PMIWIRE_V1_MCMD)
        append_char(e, 'm');
    append(e, "cmd=", 4);
    append(e, name.ptr, name.len);
    if (e->wire == PMIWIRE_V2)
        append_char(e, ';');
    if (e->wire == PMIWIRE_V1_MCMD)
        append_char(e, '\n');
    e->n_fields = 1;
}

void pmiwire_enc_begin(struct pmiwire_encoder *e, char *buf, size_t cap, uint16_t cmd,
                       const struct pmiwire_profile *profile)
{
    const struct pmiwire_command_desc *c = pmiwire_command_get(cmd);

    begin(e, buf, cap, c ? c->wire : 0, profile);
    e->cmd = cmd;
    if (c)
        begin_name(e, (struct pmiwire_str){c->name, c->name_bytes});
    else
        refuse(e, -EINVAL, 0);
}

/* Letters, digits, and the marks that names are made of. */
static int is_name(struct pmiwire_str s, size_t max, int dot)
{
    if (s.len == 0 || s.len > max)
        return 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '-' && c != '_' && !(dot && c == '.'))
            return 0;
    }
    return 1;
}

void pmiwire__enc_begin_named(struct pmiwire_encoder *e, char *buf, size_t cap, uint16_t wire,
                              struct pmiwire_str name, const struct pmiwire_profile *profile)
{
    begin(e, buf, cap, wire, profile);
    if ((wire != PMIWIRE_V1 && wire != PMIWIRE_V2) || !is_name(name, 31, 0))
        refuse(e, -EINVAL, 0);
    else
        begin_name(e, name);
}

/* A short copy, as nearly all are: two pieces that may overlap, and no call. */
static char *copy(char *to, const char *from, size_t n)
{
    if (n > 16) {
        memcpy(to, from, n);
    } else if (n >= 8) {
        memcpy(to, from, 8);
        memcpy(to + n - 8, from + n - 8, 8);
    } else if (n >= 4) {
        memcpy(to, from, 4);
        memcpy(to + n - 4, from + n - 4, 4);
    } else if (n) {
        to[0] = from[0];
        to[n / 2] = from[n / 2];
        to[n - 1] = from[n - 1];
    }
    return to + n;
}

/* Key (and index), '=', value, and what ends a field in this framing. All is checked already. */
static void append_field(struct pmiwire_encoder *e, struct pmiwire_str key,
                         struct pmiwire_str index, struct pmiwire_str value)
{
    const size_t bytes = key.len + index.len + value.len + 2;
    char *p = e->buf + e->len;

    e->n_fields++;
    if (e->wire == PMIWIRE_V2 && value.len && memchr(value.ptr, ';', value.len)) {
        append(e, key.ptr, key.len);
        append(e, index.ptr, index.len);
        append_char(e, '=');
        append_escaped(e, value);
        append_char(e, ';');
        return;
    }
    if (e->err || value.len >= e->cap || bytes > e->cap - e->len) {
        refuse(e, PMIWIRE_ENOBUF, 0);
        return;
    }
    if (e->wire == PMIWIRE_V1)
        *p++ = ' ';
    p = copy(p, key.ptr, key.len);
    p = copy(p, index.ptr, index.len);
    *p++ = '=';
    p = copy(p, value.ptr, value.len);
    if (e->wire != PMIWIRE_V1)
        *p = e->wire == PMIWIRE_V2 ? ';' : '\n';
    e->len += bytes;
}

/*
 * May this prose stand in a PMI-1 line? A reader takes it over spaces, up to a word with '=', which
 * it takes for the next field; of spaces at the end nothing is left.
 */
static int check_line_text(struct pmiwire_str text)
{
    int words = 0; /* a space has been passed */

    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\n' || text.ptr[i] == '\0' || (words && text.ptr[i] == '='))
            return PMIWIRE_ECHARS;
        words |= text.ptr[i] == ' ';
    }
    return text.len && text.ptr[text.len - 1] == ' ' ? PMIWIRE_ECHARS : 0;
}

/* Does the framing carry this prose, and the profile's peer too? */
static int check_text(const struct pmiwire_encoder *e, struct pmiwire_str text)
{
    if (e->wire == PMIWIRE_V1 && !e->profile)
        return check_line_text(text);
    if (e->wire == PMIWIRE_V1 && text.len && memchr(text.ptr, ' ', text.len))
        return PMIWIRE_ECHARS;
    if (text.len && e->profile && !(e->profile->flags & PMIWIRE_PEER_SEMICOLON_V2) &&
        e->wire == PMIWIRE_V2 && memchr(text.ptr, ';', text.len))
        return PMIWIRE_ECHARS;
    return pmiwire__check_value(NULL, e->wire, text);
}

static int check_field(const struct pmiwire_encoder *e, const struct pmiwire_field_desc *d,
                       struct pmiwire_str value)
{
    if (d->type == PMIWIRE_TYPE_TEXT)
        return check_text(e, value);
    if (d->id == PMIWIRE_F_KEY)
        return pmiwire__check_key(e->profile, e->wire, value);
    if (value.len == 0 && e->wire == PMIWIRE_V1_MCMD)
        return 0;
    /* Peers that read spaces read them in what is last on the line. */
    if (e->wire == PMIWIRE_V1 && d->id != PMIWIRE_F_VALUE && value.len && e->profile &&
        (e->profile->flags & PMIWIRE_PEER_SPACES) && memchr(value.ptr, ' ', value.len))
        return PMIWIRE_ECHARS;
    return pmiwire__check_value(e->profile, e->wire, value);
}

static void add(struct pmiwire_encoder *e, uint16_t field, struct pmiwire_str index,
                struct pmiwire_str value)
{
    const struct pmiwire_field_desc *d = pmiwire_field_get(field);
    int rc;

    if (e->err)
        return;
    if (!d || d->indexed != (index.len != 0)) {
        refuse(e, -EINVAL, field);
        return;
    }
    rc = check_field(e, d, value);
    if (rc == 0 && e->wire == PMIWIRE_V1 && e->value_written && e->profile &&
        (e->profile->flags & PMIWIRE_PEER_VALUE_LAST))
        rc = PMIWIRE_ESTATE;
    if (rc < 0) {
        refuse(e, rc, field);
        return;
    }
    append_field(e, (struct pmiwire_str){d->name, d->name_bytes}, index, value);
    if (e->err && !e->err_field)
        e->err_field = field;
    if (field == PMIWIRE_F_VALUE)
        e->value_written = 1;
}

void pmiwire_enc_str(struct pmiwire_encoder *e, uint16_t field, struct pmiwire_str value)
{
    add(e, field, no_index, value);
}

/* Decimal digits of v, written backwards from end; returns where they start. */
static char *decimal(char *end, uint64_t v)
{
    do {
        *--end = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    return end;
}

void pmiwire_enc_int(struct pmiwire_encoder *e, uint16_t field, int64_t value)
{
    const struct pmiwire_field_desc *d = pmiwire_field_get(field);
    char text[24], *end = text + sizeof(text);
    char *p = decimal(end, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);

    if (value < 0)
        *--p = '-';
    if (d && d->type == PMIWIRE_TYPE_BOOL)
        add(e, field, no_index, pmiwire_strz(value ? "TRUE" : "FALSE"));
    else
        add(e, field, no_index, (struct pmiwire_str){p, (size_t)(end - p)});
}

void pmiwire_enc_indexed(struct pmiwire_encoder *e, uint16_t field, uint32_t index,
                         struct pmiwire_str value)
{
    char text[24], *end = text + sizeof(text);
    char *p = decimal(end, index);

    add(e, field, (struct pmiwire_str){p, (size_t)(end - p)}, value);
}

/* Names that some peer gives a meaning in any message: see the safe grammar in the README. */
static int is_reserved(struct pmiwire_str key)
{
    static const char *const prefixes[] = {"arg", "info_", "infokey", "infoval", "pp", "preput_"};

    if (pmiwire__field_find(key, NULL) != 0 || pmiwire__is(key, "cmd") || pmiwire__is(key, "mcmd"))
        return 1;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        size_t n = strlen(prefixes[i]);

        if (key.len >= n && memcmp(key.ptr, prefixes[i], n) == 0)
            return 1;
    }
    return 0;
}

void pmiwire_enc_extra(struct pmiwire_encoder *e, const char *name, struct pmiwire_str value)
{
    struct pmiwire_str key = pmiwire_strz(name);

    if (e->err)
        return;
    if (!is_name(key, EXTRA_MAX_KEY, 1) || is_reserved(key))
        refuse(e, PMIWIRE_ERESERVED, 0);
    else if (value.len == 0)
        refuse(e, PMIWIRE_EEMPTY, 0);
    else if (value.len > EXTRA_MAX_VALUE &&
             !(e->profile && e->profile->flags & PMIWIRE_PEER_LONG_EXTRA))
        refuse(e, PMIWIRE_EVALLEN, 0);
    else if (e->n_extra == EXTRA_MAX_FIELDS)
        refuse(e, PMIWIRE_EPEERFIELDS, 0);
    else if (e->wire == PMIWIRE_V1 && e->value_written)
        refuse(e, PMIWIRE_ESTATE, 0);
    else {
        for (size_t i = 0; i < value.len; i++) {
            char c = value.ptr[i];

            if (c < 33 || c > 126 || c == ';' || c == '\\') {
                refuse(e, PMIWIRE_ECHARS, 0);
                return;
            }
        }
        append_field(e, key, no_index, value);
        e->n_extra++;
    }
}

/* PMI-2's six characters, over the spaces that pmiwire_enc_begin() left. */
static void write_length(struct pmiwire_encoder *e)
{
    char text[24], *end = text + sizeof(text);
    char *p = decimal(end, e->len - PMIWIRE_V2_HEADER_BYTES);
    size_t n = (size_t)(end - p);

    memcpy(e->buf + (e->pad_right ? 0 : PMIWIRE_V2_HEADER_BYTES - n), p, n);
}

static int check_whole(const struct pmiwire_encoder *e)
{
    const struct pmiwire_profile *p = e->profile;
    size_t limit;

    if (e->wire == PMIWIRE_V2 && e->len > PMIWIRE_V2_MAX_BYTES)
        return PMIWIRE_ETOOBIG;
    if (e->n_extra && e->len > EXTRA_MAX_MESSAGE && !(p && p->flags & PMIWIRE_PEER_LONG_EXTRA))
        return PMIWIRE_ELINE;
    if (!p)
        return 0;
    limit = e->wire == PMIWIRE_V2 ? p->max_msg_bytes : p->max_line_bytes;
    if (limit && e->len > limit && e->wire != PMIWIRE_V1_MCMD)
        return PMIWIRE_ELINE;
    if (p->max_fields && e->n_fields > p->max_fields && e->wire != PMIWIRE_V1_MCMD)
        return PMIWIRE_EPEERFIELDS;
    return 0;
}

ssize_t pmiwire_enc_end(struct pmiwire_encoder *e, struct pmiwire_error *err)
{
    if (e->wire == PMIWIRE_V1)
        append_char(e, '\n');
    else if (e->wire == PMIWIRE_V1_MCMD)
        append(e, "endcmd\n", 7);
    if (!e->err)
        refuse(e, check_whole(e), 0);
    if (e->err)
        return pmiwire__msg_error(err, e->err, e->cmd, e->err_field, 0);
    if (e->wire == PMIWIRE_V2)
        write_length(e);
    return (ssize_t)e->len;
}
