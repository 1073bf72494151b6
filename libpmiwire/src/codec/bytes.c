/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fp-bytes: any bytes in keys and values, between peers that both know it. A byte that is not plain
 * becomes `%` and two hexadecimal digits; the empty string becomes `%` alone.
 */
#include <stdio.h>

#include "codec_internal.h"

uint8_t pmiwire__bytes_kind(uint16_t field)
{
    switch (field) {
    case PMIWIRE_F_KEY:
    case PMIWIRE_F_SERVICE:
    case PMIWIRE_F_NAME:
    case PMIWIRE_F_PREPUT_KEY:
    case PMIWIRE_F_PPKEY: return PMIWIRE__BYTES_KEYS;
    case PMIWIRE_F_VALUE:
    case PMIWIRE_F_PORT:
    case PMIWIRE_F_PREPUT_VAL:
    case PMIWIRE_F_PPVAL:
    case PMIWIRE_F_RING_LEFT:
    case PMIWIRE_F_RING_RIGHT: return PMIWIRE__BYTES_VALUES;
    default: return 0;
    }
}

/* The extensions that carry a value of the client's. */
static uint8_t field_kind(const struct pmiwire_field *f)
{
    static const uint16_t values[] = {PMIWIRE_EXT_RING, PMIWIRE_EXT_LEFT, PMIWIRE_EXT_RIGHT};

    if (f->id)
        return pmiwire__bytes_kind(f->id);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        if (pmiwire__is(f->key, pmiwire__ext_get(values[i])->name))
            return PMIWIRE__BYTES_VALUES;
    return 0;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

ssize_t pmiwire__bytes_decode(struct pmiwire_str s, char *out)
{
    size_t n = 0;

    if (s.len == 1 && s.ptr[0] == '%')
        return 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] != '%') {
            out[n++] = s.ptr[i];
            continue;
        }
        if (s.len - i < 3 || hex_value(s.ptr[i + 1]) < 0 || hex_value(s.ptr[i + 2]) < 0)
            return -1 - (ssize_t)i;
        out[n++] = (char)(hex_value(s.ptr[i + 1]) << 4 | hex_value(s.ptr[i + 2]));
        i += 2;
    }
    return (ssize_t)n;
}

/* `k`, `v` or `kv`; 0: something else. */
static uint8_t parse_kinds(struct pmiwire_str text)
{
    if (pmiwire__is(text, "v"))
        return PMIWIRE__BYTES_VALUES;
    if (pmiwire__is(text, "k"))
        return PMIWIRE__BYTES_KEYS;
    return pmiwire__is(text, "kv") ? PMIWIRE__BYTES_KEYS | PMIWIRE__BYTES_VALUES : 0;
}

static int bytes_error(struct pmiwire_error *err, int code, const struct pmiwire_msg *msg,
                       uint16_t field, const char *what, ssize_t at)
{
    if (!err)
        return code;
    pmiwire__msg_error(err, code, msg->id, field, 0);
    snprintf(err->text, sizeof(err->text), "%s: %s", pmiwire_command_get(msg->id)->name, what);
    if (at >= 0)
        snprintf(err->text + strlen(err->text), sizeof(err->text) - strlen(err->text),
                 " at %zd of field \"%s\"", at, field ? pmiwire__fields[field].name : "fp-…");
    return code;
}

int pmiwire__msg_bytes(struct pmiwire_msg *msg, char *memory, size_t *used,
                       struct pmiwire_error *err)
{
    struct pmiwire_str text;
    uint8_t kinds;

    *used = 0;
    /* At init the field only offers fp-bytes. */
    if ((pmiwire__ext_place(msg->id) & PMIWIRE__AT_INIT) ||
        pmiwire_msg_ext(msg, PMIWIRE_EXT_BYTES, &text) != 0)
        return 0;
    kinds = parse_kinds(text);
    if (!kinds)
        return bytes_error(err, PMIWIRE_ETYPE, msg, 0, "fp-bytes is not k, v or kv", -1);
    for (uint32_t i = 0; i < msg->n_fields; i++) {
        struct pmiwire_field *f = &msg->fields[i];
        char *at = memory + *used;
        ssize_t n;

        if (!(field_kind(f) & kinds))
            continue;
        if (f->flags & PMIWIRE_FIELD_ESCAPED) {
            f->value = (struct pmiwire_str){at, pmiwire_unescape(f->value, at)};
            f->flags = (uint16_t)(f->flags & ~PMIWIRE_FIELD_ESCAPED);
        }
        n = pmiwire__bytes_decode(f->value, at);
        if (n < 0)
            return bytes_error(err, PMIWIRE_ECHARS, msg, f->id,
                               "fp-bytes: not % and two hexadecimal digits", -1 - n);
        f->value = (struct pmiwire_str){at, (size_t)n};
        *used += (size_t)n;
    }
    return 0;
}
