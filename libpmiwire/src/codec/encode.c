/* SPDX-License-Identifier: BSD-3-Clause */
/* Encoding: into the caller's buffer. */
#include <errno.h>
#include <stdio.h>

#include "codec_internal.h"

/* Extra fields: limits that every measured peer reads without harm. */
#define EXTRA_MAX_FIELDS  16u
#define EXTRA_MAX_VALUE   900u
#define EXTRA_MAX_MESSAGE 1000u

static void refuse_message(struct pmiwire_encoder *e, int code, uint16_t field)
{
    if (!e->err) {
        e->err = code;
        e->err_field = field;
    }
}

/* Refuses a key or value, and keeps the offending byte for the error's text. */
static void refuse_field(struct pmiwire_encoder *e, int code, uint16_t field,
                         struct pmiwire_str value)
{
    const int is_key = field == PMIWIRE_F_KEY;
    const size_t at =
        code == PMIWIRE_ECHARS ? pmiwire__bad_byte(e->profile, e->wire, is_key, value) : value.len;

    e->err_at = at < UINT32_MAX ? (uint32_t)at : UINT32_MAX;
    e->err_byte = at < value.len ? (uint8_t)value.ptr[at] : 0;
    refuse_message(e, code, field);
}

static void append_bytes(struct pmiwire_encoder *e, const char *p, size_t n)
{
    if (e->err)
        return;
    if (n > e->cap - e->len) {
        refuse_message(e, PMIWIRE_ENOBUF, 0);
        return;
    }
    if (n)
        memcpy(e->buf + e->len, p, n);
    e->len += n;
}

static void append_char(struct pmiwire_encoder *e, char c)
{
    append_bytes(e, &c, 1);
}

/* Appends a PMI-2 value with `;` doubled. */
static void append_escaped(struct pmiwire_encoder *e, struct pmiwire_str v)
{
    for (size_t i = 0; i < v.len; i++) {
        append_char(e, v.ptr[i]);
        if (v.ptr[i] == ';')
            append_char(e, ';');
    }
}

/* Appends a value percent-encoded, as bytes.c reads it. */
static void append_percent(struct pmiwire_encoder *e, struct pmiwire_str v)
{
    static const char digits[] = "0123456789ABCDEF";

    if (v.len == 0)
        append_char(e, '%');
    for (size_t i = 0; i < v.len; i++) {
        const unsigned char c = (unsigned char)v.ptr[i];
        const char coded[3] = {'%', digits[c >> 4], digits[c & 15]};

        if (pmiwire__bytes_plain(c))
            append_char(e, v.ptr[i]);
        else
            append_bytes(e, coded, 3);
    }
}

static void encoder_init(struct pmiwire_encoder *e, char *buf, size_t cap, uint16_t wire,
                         const struct pmiwire_profile *profile)
{
    memset(e, 0, sizeof(*e));
    e->buf = buf;
    e->cap = cap;
    e->wire = wire;
    e->profile = profile;
}

static void write_command(struct pmiwire_encoder *e, struct pmiwire_str name)
{
    if (e->wire == PMIWIRE_V2)
        append_bytes(e, "      ", PMIWIRE_V2_HEADER_BYTES);
    if (e->wire == PMIWIRE_V1_MCMD)
        append_char(e, 'm');
    append_bytes(e, "cmd=", 4);
    append_bytes(e, name.ptr, name.len);
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

    encoder_init(e, buf, cap, c ? c->wire : 0, profile);
    e->cmd = cmd;
    if (c)
        write_command(e, (struct pmiwire_str){c->name, c->name_bytes});
    else
        refuse_message(e, -EINVAL, 0);
}

int pmiwire__is_name(struct pmiwire_str s, int dot)
{
    if (s.len == 0 || s.len > PMIWIRE__NAME_MAX)
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
    encoder_init(e, buf, cap, wire, profile);
    if ((wire != PMIWIRE_V1 && wire != PMIWIRE_V2) || !pmiwire__is_name(name, 0))
        refuse_message(e, -EINVAL, 0);
    else
        write_command(e, name);
}

/* Appends key, '=', value, and this framing's end of a field. The caller has checked them. */
static void append_field(struct pmiwire_encoder *e, struct pmiwire_str key,
                         struct pmiwire_str value)
{
    const size_t bytes = key.len + value.len + 2;
    char *p = e->buf + e->len;

    e->n_fields++;
    if (e->wire == PMIWIRE_V2 && value.len && memchr(value.ptr, ';', value.len)) {
        append_bytes(e, key.ptr, key.len);
        append_char(e, '=');
        append_escaped(e, value);
        append_char(e, ';');
        return;
    }
    if (e->err || value.len >= e->cap || bytes > e->cap - e->len) {
        refuse_message(e, PMIWIRE_ENOBUF, 0);
        return;
    }
    if (e->wire == PMIWIRE_V1)
        *p++ = ' ';
    memcpy(p, key.ptr, key.len);
    p += key.len;
    *p++ = '=';
    if (value.len)
        memcpy(p, value.ptr, value.len);
    if (e->wire != PMIWIRE_V1)
        p[value.len] = e->wire == PMIWIRE_V2 ? ';' : '\n';
    e->len += bytes;
}

/* As append_field(), with the value encoded. */
static void append_encoded(struct pmiwire_encoder *e, struct pmiwire_str key,
                           struct pmiwire_str value)
{
    e->n_fields++;
    if (e->wire == PMIWIRE_V1)
        append_char(e, ' ');
    append_bytes(e, key.ptr, key.len);
    append_char(e, '=');
    append_percent(e, value);
    if (e->wire != PMIWIRE_V1)
        append_char(e, e->wire == PMIWIRE_V2 ? ';' : '\n');
}

/*
 * Returns whether a PMI-1 line can carry this prose. A reader reads prose across spaces up to a
 * word with '=', which begins the next field, and drops spaces at the end.
 */
static int check_line_text(struct pmiwire_str text)
{
    int words = 0; /* 1 after the first space */

    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\n' || text.ptr[i] == '\0' || (words && text.ptr[i] == '='))
            return PMIWIRE_ECHARS;
        words |= text.ptr[i] == ' ';
    }
    return text.len && text.ptr[text.len - 1] == ' ' ? PMIWIRE_ECHARS : 0;
}

/* Returns 0 if the framing and the profile's peer can carry this prose. */
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

static inline int check_field(const struct pmiwire_encoder *e, const struct pmiwire_field_desc *d,
                              struct pmiwire_str value)
{
    if (d->type == PMIWIRE_TYPE_TEXT)
        return check_text(e, value);
    if (d->id == PMIWIRE_F_KEY)
        return pmiwire__check_key(e->profile, e->wire, value);
    if (value.len == 0 && e->wire == PMIWIRE_V1_MCMD)
        return 0;
    /* Peers that read spaces read them only in the line's last field. */
    if (e->wire == PMIWIRE_V1 && d->id != PMIWIRE_F_VALUE && value.len && e->profile &&
        (e->profile->flags & PMIWIRE_PEER_SPACES) && memchr(value.ptr, ' ', value.len))
        return PMIWIRE_ECHARS;
    return pmiwire__check_value(e->profile, e->wire, value);
}

/* Checks the length of a field that will be encoded; limits apply to its length before encoding. */
static int check_length(const struct pmiwire_encoder *e, uint8_t kind, struct pmiwire_str value)
{
    const struct pmiwire_profile *p = e->profile;

    if (kind == PMIWIRE__BYTES_KEYS) {
        if (value.len == 0)
            return PMIWIRE_EEMPTY;
        return p && p->max_key_bytes && value.len > p->max_key_bytes ? PMIWIRE_EKEYLEN : 0;
    }
    return p && p->max_value_bytes && value.len > p->max_value_bytes ? PMIWIRE_EVALLEN : 0;
}

/* Adds a field of the table. `key` is its name, with the index of an indexed one; `rc` is what
 * check_field() says of the value. */
static inline void add_table_field(struct pmiwire_encoder *e, const struct pmiwire_field_desc *d,
                                   struct pmiwire_str key, struct pmiwire_str value, int rc)
{
    const uint8_t encoded = e->bytes ? e->bytes & pmiwire__bytes_kind(d->id) : 0;

    if (e->err)
        return;
    if (encoded)
        rc = check_length(e, encoded, value);
    else if (rc == 0 && e->wire == PMIWIRE_V1 && e->value_written && e->profile &&
             (e->profile->flags & PMIWIRE_PEER_VALUE_LAST))
        rc = PMIWIRE_ESTATE;
    if (rc < 0)
        refuse_field(e, rc, d->id, value);
    else if (encoded)
        append_encoded(e, key, value);
    else
        append_field(e, key, value);
    if (e->err && !e->err_field)
        e->err_field = d->id;
    if (d->id == PMIWIRE_F_VALUE)
        e->value_written = 1;
}

static inline void add_plain_field(struct pmiwire_encoder *e, uint16_t field,
                                   struct pmiwire_str value, int rc)
{
    const struct pmiwire_field_desc *d = &pmiwire__fields[field];

    add_table_field(e, d, (struct pmiwire_str){d->name, d->name_bytes}, value, rc);
}

void pmiwire_enc_str(struct pmiwire_encoder *e, uint16_t field, struct pmiwire_str value)
{
    if (field == 0 || field >= PMIWIRE_F_COUNT_ || pmiwire__fields[field].indexed)
        refuse_message(e, -EINVAL, field);
    else
        add_plain_field(e, field, value, check_field(e, &pmiwire__fields[field], value));
}

/* Writes v in decimal digits, backwards from end; returns where they start. */
static char *write_digits(char *end, uint64_t v)
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
    char *p = write_digits(end, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);

    if (value < 0)
        *--p = '-';
    if (d && d->type == PMIWIRE_TYPE_BOOL)
        pmiwire_enc_str(e, field, pmiwire_strz(value ? "TRUE" : "FALSE"));
    else if (d && d->type == PMIWIRE_TYPE_INT) /* every framing carries digits */
        add_plain_field(e, field, (struct pmiwire_str){p, (size_t)(end - p)}, 0);
    else
        pmiwire_enc_str(e, field, (struct pmiwire_str){p, (size_t)(end - p)});
}

void pmiwire_enc_indexed(struct pmiwire_encoder *e, uint16_t field, uint32_t index,
                         struct pmiwire_str value)
{
    const struct pmiwire_field_desc *d = pmiwire_field_get(field);
    char text[48], *end = text + sizeof(text), *key = write_digits(end, index);

    if (!d || !d->indexed) {
        refuse_message(e, -EINVAL, field);
        return;
    }
    key -= d->name_bytes;
    memcpy(key, d->name, d->name_bytes);
    add_table_field(e, d, (struct pmiwire_str){key, (size_t)(end - key)}, value,
                    check_field(e, d, value));
}

/* Names that some peer gives a meaning in any message: see the grammar in WIRE.md. */
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

static void add_extra(struct pmiwire_encoder *e, const char *name, struct pmiwire_str value,
                      int encoded)
{
    struct pmiwire_str key = pmiwire_strz(name);

    if (e->err)
        return;
    if (!pmiwire__is_name(key, 1) || is_reserved(key))
        refuse_message(e, PMIWIRE_ERESERVED, 0);
    else if (value.len == 0 && !encoded)
        refuse_message(e, PMIWIRE_EEMPTY, 0);
    else if (value.len > EXTRA_MAX_VALUE &&
             !(e->profile && e->profile->flags & PMIWIRE_PEER_LONG_EXTRA))
        refuse_message(e, PMIWIRE_EVALLEN, 0);
    else if (e->n_extra == EXTRA_MAX_FIELDS)
        refuse_message(e, PMIWIRE_EPEERFIELDS, 0);
    else if (e->wire == PMIWIRE_V1 && e->value_written)
        refuse_message(e, PMIWIRE_ESTATE, 0);
    else if (!encoded && !pmiwire__is_plain(value))
        refuse_message(e, PMIWIRE_ECHARS, 0);
    else {
        if (encoded)
            append_encoded(e, key, value);
        else
            append_field(e, key, value);
        e->n_extra++;
    }
}

void pmiwire_enc_extra(struct pmiwire_encoder *e, const char *name, struct pmiwire_str value)
{
    add_extra(e, name, value, 0);
}

/* ---- any bytes ---- */

/* Returns the kind of a field that must be encoded because check_field() said rc; 0: as it is. */
static inline uint8_t encoding_of(const struct pmiwire_encoder *e, uint16_t field,
                                  struct pmiwire_str value, int rc)
{
    const uint8_t kind =
        rc == PMIWIRE_ECHARS || rc == PMIWIRE_EEMPTY ? pmiwire__bytes_kind(field) : 0;

    return e->can_bytes && (value.len || kind != PMIWIRE__BYTES_KEYS) ? kind : 0;
}

uint8_t pmiwire__enc_needs(const struct pmiwire_encoder *e, uint16_t field,
                           struct pmiwire_str value)
{
    if (!field) /* an extension's field: a value */
        return e->can_bytes && !(value.len && pmiwire__is_plain(value)) ? PMIWIRE__BYTES_VALUES : 0;
    return encoding_of(e, field, value, check_field(e, &pmiwire__fields[field], value));
}

void pmiwire__enc_bytes(struct pmiwire_encoder *e, uint8_t bytes)
{
    static const char *const names[] = {NULL, "k", "v", "kv"};

    if (bytes)
        pmiwire__enc_ext(e, PMIWIRE_EXT_BYTES, pmiwire_strz(names[bytes]));
    e->bytes = bytes;
}

void pmiwire__enc_pair(struct pmiwire_encoder *e, uint16_t key_field, struct pmiwire_str key,
                       uint16_t value_field, struct pmiwire_str value)
{
    const int key_rc = key_field ? check_field(e, &pmiwire__fields[key_field], key) : 0;
    const int value_rc = value_field ? check_field(e, &pmiwire__fields[value_field], value) : 0;

    pmiwire__enc_bytes(e, encoding_of(e, key_field, key, key_rc) |
                              encoding_of(e, value_field, value, value_rc));
    if (key_field)
        add_plain_field(e, key_field, key, key_rc);
    if (value_field)
        add_plain_field(e, value_field, value, value_rc);
}

static void add_extension(struct pmiwire_encoder *e, uint16_t ext, struct pmiwire_str value,
                          int encoded)
{
    const struct pmiwire__ext *desc = pmiwire__ext_get(ext);

    if (desc && (desc->at & pmiwire__ext_place(e->cmd)))
        add_extra(e, desc->name, value, encoded);
    else
        refuse_message(e, -EINVAL, 0);
}

void pmiwire__enc_ext(struct pmiwire_encoder *e, uint16_t ext, struct pmiwire_str value)
{
    add_extension(e, ext, value, 0);
}

void pmiwire__enc_value(struct pmiwire_encoder *e, uint16_t ext, struct pmiwire_str value)
{
    add_extension(e, ext, value, e->bytes & PMIWIRE__BYTES_VALUES);
}

void pmiwire__enc_encoded(struct pmiwire_encoder *e, uint16_t ext, struct pmiwire_str value)
{
    add_extension(e, ext, value, 1);
}

/* Writes PMI-2's six characters over the spaces that pmiwire_enc_begin() left. */
static void write_length(struct pmiwire_encoder *e)
{
    char text[24], *end = text + sizeof(text);
    char *p = write_digits(end, e->len - PMIWIRE_V2_HEADER_BYTES);
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

/* Returns whether the error is about a byte or the length of a key or value. */
static int is_about_value(const struct pmiwire_encoder *e)
{
    return pmiwire__bytes_kind(e->err_field) && e->cmd &&
           (e->err == PMIWIRE_ECHARS || e->err == PMIWIRE_EEMPTY || e->err == PMIWIRE_EKEYLEN ||
            e->err == PMIWIRE_EVALLEN);
}

void pmiwire__enc_refusal(const struct pmiwire_encoder *e, char *text, size_t cap)
{
    if (is_about_value(e))
        pmiwire__refusal_text(text, cap, e->err, e->profile, e->wire,
                              pmiwire__fields[e->err_field].name, e->err_at, e->err_byte);
    else
        snprintf(text, cap, "%s", pmiwire_strerror(e->err));
}

ssize_t pmiwire_enc_end(struct pmiwire_encoder *e, struct pmiwire_error *err)
{
    if (e->wire == PMIWIRE_V1)
        append_char(e, '\n');
    else if (e->wire == PMIWIRE_V1_MCMD)
        append_bytes(e, "endcmd\n", 7);
    if (!e->err)
        refuse_message(e, check_whole(e), 0);
    if (e->err) {
        pmiwire__msg_error(err, e->err, e->cmd, e->err_field, 0);
        if (err && is_about_value(e)) {
            const size_t n = strlen(pmiwire_command_get(e->cmd)->name) + 2; /* "NAME: " */

            pmiwire__enc_refusal(e, err->text + n, sizeof(err->text) - n);
        }
        return e->err;
    }
    if (e->wire == PMIWIRE_V2)
        write_length(e);
    return (ssize_t)e->len;
}
