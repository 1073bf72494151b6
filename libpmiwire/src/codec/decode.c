/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decoding. The first part finds the end of a message: a newline, the line "endcmd", or the length;
 * it keeps its place between calls. The second part splits the message into fields from left to
 * right, and so reports the first fault.
 */
#include "codec_internal.h"

void pmiwire_decoder_init(struct pmiwire_decoder *d, size_t max_msg_bytes, uint32_t flags)
{
    memset(d, 0, sizeof(*d));
    d->max_msg_bytes = max_msg_bytes ? max_msg_bytes : PMIWIRE_DEFAULT_MAX_MSG_BYTES;
    d->flags = flags;
}

/* Prepares for the next message; keeps the members that describe an error. */
static void decoder_reset(struct pmiwire_decoder *d)
{
    d->scanned = 0;
    d->line = 0;
    d->need_bytes = 0;
}

static ssize_t decode_fail(struct pmiwire_decoder *d, int code, size_t offset, size_t bytes)
{
    decoder_reset(d);
    d->err_offset = offset;
    d->err_bytes = bytes;
    return code;
}

static ssize_t need_more(struct pmiwire_decoder *d, size_t need)
{
    d->need_bytes = need;
    return 0;
}

/* Returns the end of the text to split: a NUL, which no message may hold, or end. */
static const char *text_end(const char *begin, const char *end)
{
    const char *nul = memchr(begin, '\0', (size_t)(end - begin));

    return nul ? nul : end;
}

/* The first of [p, end) that ends a key: '=' or the separator; end when there is none. */
static const char *key_end(const char *p, const char *end, char separator)
{
    while (p < end && *p != '=' && *p != separator)
        p++;
    return p;
}

/* Adds the field `key=value`, [key, equals) and (equals, end). Without room, only counts it.
 * Returns its id. */
static uint16_t add_field(struct pmiwire_msg *msg, uint32_t *total, const char *key,
                          const char *equals, const char *end, uint16_t flags)
{
    const struct pmiwire_str name = {key, (size_t)(equals - key)};
    uint32_t index;
    uint16_t id = pmiwire__field_find(name, &index);

    if ((*total)++ < msg->cap_fields)
        msg->fields[msg->n_fields++] = (struct pmiwire_field){
            .key = name,
            .value = {equals + 1, (size_t)(end - equals - 1)},
            .id = id,
            .flags = (uint16_t)(flags | (pmiwire__fields[id].indexed ? PMIWIRE_FIELD_INDEXED : 0)),
            .index = index,
        };
    return id;
}

static ssize_t decode_end(struct pmiwire_decoder *d, const struct pmiwire_msg *msg, uint32_t total,
                          size_t bytes)
{
    if (total > msg->cap_fields) {
        d->need_fields = total;
        return decode_fail(d, PMIWIRE_EFIELDS, 0, bytes);
    }
    decoder_reset(d);
    return (ssize_t)bytes;
}

/*
 * Splits a PMI-1 line; `end` points to its newline. Spaces separate words, and a word's first '='
 * separates key and value. A word without '=' continues the prose of the field before it.
 */
static ssize_t split_line(struct pmiwire_decoder *d, const char *buf, const char *end,
                          struct pmiwire_msg *msg)
{
    const size_t bytes = (size_t)(end - buf) + 1;
    const char *stop = text_end(buf, end);
    const char *word = buf + 4, *space = memchr(word, ' ', (size_t)(stop - word));
    uint16_t last = 0; /* id of the last field */
    uint32_t total = 0;

    if (!space)
        space = stop;
    if (space == stop && stop < end)
        return decode_fail(d, PMIWIRE_ENUL, (size_t)(stop - buf), bytes);
    msg->cmd = (struct pmiwire_str){word, (size_t)(space - word)};
    if (msg->cmd.len == 0)
        return decode_fail(d, PMIWIRE_ENOCMD, 4, bytes);
    msg->id = pmiwire__command_find(PMIWIRE_V1, msg->cmd);
    while (space < stop) {
        const char *equals;

        word = space + 1;
        equals = key_end(word, stop, ' ');
        if (equals == stop || *equals == ' ') {
            space = equals;
            equals = NULL;
        } else if (equals == word) {
            return decode_fail(d, PMIWIRE_EEMPTY, (size_t)(word - buf), bytes);
        } else if ((d->flags & PMIWIRE_DECODE_VALUE_TO_EOL) && equals - word == 5 &&
                   memcmp(word, "value", 5) == 0) {
            space = stop;
        } else {
            space = memchr(equals, ' ', (size_t)(stop - equals));
            if (!space)
                space = stop;
        }
        if (space == stop && stop < end)
            return decode_fail(d, PMIWIRE_ENUL, (size_t)(stop - buf), bytes);
        if (equals) {
            last = add_field(msg, &total, word, equals, space, 0);
        } else if (space > word) {
            if (pmiwire__fields[last].type != PMIWIRE_TYPE_TEXT)
                return decode_fail(d, PMIWIRE_ENOEQ, (size_t)(word - buf), bytes);
            if (total == msg->n_fields) /* the last field had room */
                msg->fields[total - 1].value.len =
                    (size_t)(space - msg->fields[total - 1].value.ptr);
        }
    }
    return decode_end(d, msg, total, bytes);
}

static ssize_t decode_line(struct pmiwire_decoder *d, const char *buf, size_t len,
                           struct pmiwire_msg *msg)
{
    const char *end = memchr(buf + d->scanned, '\n', len - d->scanned);

    msg->wire = PMIWIRE_V1;
    if (!end) {
        if (len >= d->max_msg_bytes)
            return decode_fail(d, PMIWIRE_ETOOBIG, d->max_msg_bytes, 0);
        d->scanned = len;
        return need_more(d, len + 1);
    }
    if ((size_t)(end - buf) >= d->max_msg_bytes)
        return decode_fail(d, PMIWIRE_ETOOBIG, d->max_msg_bytes, (size_t)(end - buf) + 1);
    return split_line(d, buf, end, msg);
}

/* Split the lines of an mcmd message, [buf, end); end is the start of its line "endcmd". */
static ssize_t split_mcmd(struct pmiwire_decoder *d, const char *buf, const char *end,
                          struct pmiwire_msg *msg, size_t bytes)
{
    const char *line = memchr(buf, '\n', (size_t)(end - buf));
    const char *nul = memchr(buf, '\0', (size_t)(end - buf));
    uint32_t total = 0;

    if (nul)
        return decode_fail(d, PMIWIRE_ENUL, (size_t)(nul - buf), bytes);
    msg->cmd.ptr = buf + 5;
    msg->cmd.len = (size_t)(line - msg->cmd.ptr);
    if (msg->cmd.len == 0)
        return decode_fail(d, PMIWIRE_ENOCMD, 5, bytes);
    msg->id = pmiwire__command_find(PMIWIRE_V1, msg->cmd);
    for (line++; line < end;) {
        const char *eol = memchr(line, '\n', (size_t)(end - line));
        const char *equals = memchr(line, '=', (size_t)(eol - line));

        if (!equals)
            return decode_fail(d, PMIWIRE_ENOEQ, (size_t)(line - buf), bytes);
        if (equals == line)
            return decode_fail(d, PMIWIRE_EEMPTY, (size_t)(line - buf), bytes);
        add_field(msg, &total, line, equals, eol, 0);
        line = eol + 1;
    }
    return decode_end(d, msg, total, bytes);
}

static ssize_t decode_mcmd(struct pmiwire_decoder *d, const char *buf, size_t len,
                           struct pmiwire_msg *msg)
{
    msg->wire = PMIWIRE_V1_MCMD;
    for (;;) {
        const char *eol = memchr(buf + d->scanned, '\n', len - d->scanned);
        size_t next;

        if (!eol) {
            if (len >= d->max_msg_bytes)
                return decode_fail(d, PMIWIRE_ETOOBIG, d->max_msg_bytes, 0);
            d->scanned = len;
            return need_more(d, len + 1);
        }
        next = (size_t)(eol - buf) + 1;
        if (next > d->max_msg_bytes)
            return decode_fail(d, PMIWIRE_ETOOBIG, d->max_msg_bytes, 0);
        if (next - d->line == 7 && memcmp(buf + d->line, "endcmd", 6) == 0)
            return split_mcmd(d, buf, buf + d->line, msg, next);
        d->line = d->scanned = next;
    }
}

/* Parses the six characters: spaces, digits, spaces. Returns the length; 0: they are no length. */
static size_t parse_length(const char *h, uint32_t *pad_right)
{
    size_t i = 0, v = 0, digits = 0;

    while (i < PMIWIRE_V2_HEADER_BYTES && h[i] == ' ')
        i++;
    for (; i < PMIWIRE_V2_HEADER_BYTES && h[i] >= '0' && h[i] <= '9'; i++, digits++)
        v = v * 10 + (size_t)(h[i] - '0');
    *pad_right = digits && i < PMIWIRE_V2_HEADER_BYTES;
    while (i < PMIWIRE_V2_HEADER_BYTES && h[i] == ' ')
        i++;
    return i == PMIWIRE_V2_HEADER_BYTES && digits ? v : 0;
}

/* Returns where a PMI-2 value ends, at a ';' that is not doubled; NULL without one before end. */
static const char *value_end(const char *p, const char *end, uint16_t *flags)
{
    *flags = 0;
    while ((p = memchr(p, ';', (size_t)(end - p))) != NULL && p + 1 < end && p[1] == ';') {
        *flags = PMIWIRE_FIELD_ESCAPED;
        p += 2;
    }
    return p;
}

/* Split a PMI-2 body, [body, end). */
static ssize_t split_body(struct pmiwire_decoder *d, const char *buf, const char *body,
                          const char *end, struct pmiwire_msg *msg)
{
    const size_t bytes = (size_t)(end - buf);
    const char *stop, *word = body;
    uint16_t flags = 0;
    uint32_t total = 0;

    if (end - body < 4 || memcmp(body, "cmd=", 4) != 0)
        return decode_fail(d, PMIWIRE_ENOCMD, (size_t)(body - buf), bytes);
    msg->cmd.ptr = body + 4;
    stop = text_end(body, end);
    while (word < stop) {
        const char *equals = key_end(word, stop, ';'), *semicolon = NULL;

        if (equals < stop && *equals == ';')
            return decode_fail(d, PMIWIRE_ENOEQ, (size_t)(word - buf), bytes);
        if (equals == word)
            return decode_fail(d, PMIWIRE_EEMPTY, (size_t)(word - buf), bytes);
        if (equals < stop)
            semicolon = value_end(equals + 1, stop, &flags);
        if (!semicolon && stop == end)
            return decode_fail(d, PMIWIRE_EUNTERM, (size_t)(word - buf), bytes);
        if (!semicolon)
            break; /* a NUL */
        if (word > body) {
            add_field(msg, &total, word, equals, semicolon, flags);
        } else {
            msg->cmd.len = (size_t)(semicolon - msg->cmd.ptr);
            if (msg->cmd.len == 0)
                return decode_fail(d, PMIWIRE_ENOCMD, (size_t)(msg->cmd.ptr - buf), bytes);
            msg->id = pmiwire__command_find(PMIWIRE_V2, msg->cmd);
        }
        word = semicolon + 1;
    }
    if (stop < end)
        return decode_fail(d, PMIWIRE_ENUL, (size_t)(stop - buf), bytes);
    return decode_end(d, msg, total, bytes);
}

/* Returns the offset of the first of n bytes that cannot be part of a length; n without one. */
static size_t not_length(const char *h, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (h[i] != ' ' && (h[i] < '0' || h[i] > '9'))
            return i;
    return n;
}

static ssize_t decode_v2(struct pmiwire_decoder *d, const char *buf, size_t len,
                         struct pmiwire_msg *msg)
{
    size_t body, bad;

    msg->wire = PMIWIRE_V2;
    if (len < PMIWIRE_V2_HEADER_BYTES) {
        /* Refuse at the first byte that cannot be a length: a client that sends text would wait
         * without end. */
        bad = not_length(buf, len);
        if (bad < len)
            return decode_fail(d, PMIWIRE_EBADLEN, bad, 0);
        return need_more(d, PMIWIRE_V2_HEADER_BYTES);
    }
    body = parse_length(buf, &msg->pad_right);
    if (body == 0) {
        bad = not_length(buf, PMIWIRE_V2_HEADER_BYTES);
        return decode_fail(d, PMIWIRE_EBADLEN, bad < PMIWIRE_V2_HEADER_BYTES ? bad : 0, 0);
    }
    if (body + PMIWIRE_V2_HEADER_BYTES > d->max_msg_bytes)
        return decode_fail(d, PMIWIRE_ETOOBIG, 0, 0);
    if (len < body + PMIWIRE_V2_HEADER_BYTES)
        return need_more(d, body + PMIWIRE_V2_HEADER_BYTES);
    return split_body(d, buf, buf + PMIWIRE_V2_HEADER_BYTES, buf + PMIWIRE_V2_HEADER_BYTES + body,
                      msg);
}

/* Returns how many bytes of literal the buffer starts with; -1 if the buffer differs from it. */
static int match_prefix(const char *buf, size_t len, const char *literal)
{
    size_t n = strlen(literal);

    if (len >= n)
        return memcmp(buf, literal, n) == 0 ? 1 : -1;
    return memcmp(buf, literal, len) == 0 ? 0 : -1;
}

ssize_t pmiwire_decode(struct pmiwire_decoder *d, const char *buf, size_t len,
                       struct pmiwire_msg *msg)
{
    int many;

    msg->n_fields = 0;
    msg->cmd = (struct pmiwire_str){NULL, 0};
    msg->id = 0;
    msg->wire = 0;
    msg->pad_right = 0;
    if (len >= 4 && memcmp(buf, "cmd=", 4) == 0)
        return decode_line(d, buf, len, msg);
    if (len == 0)
        return need_more(d, 1);
    if (buf[0] != 'c' && buf[0] != 'm')
        return decode_v2(d, buf, len, msg);
    many = match_prefix(buf, len, "mcmd=");
    if (many > 0)
        return decode_mcmd(d, buf, len, msg);
    if (many == 0)
        return need_more(d, 5);
    return match_prefix(buf, len, "cmd=") == 0 ? need_more(d, 4)
                                               : decode_fail(d, PMIWIRE_ENOCMD, 0, 0);
}

size_t pmiwire_unescape(struct pmiwire_str value, char *out)
{
    size_t n = 0;

    for (size_t i = 0; i < value.len; i++) {
        out[n++] = value.ptr[i];
        if (value.ptr[i] == ';' && i + 1 < value.len && value.ptr[i + 1] == ';')
            i++;
    }
    return n;
}
