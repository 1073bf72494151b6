/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decoding. A message is first delimited (a newline, the line "endcmd", or the length), which is
 * what remembers its place between calls; then it is split. There are two ways to split it that
 * come to the same: one for the usual message, from marks of where its separators are, and one for
 * every message, a separator after the other.
 */
#include "../base/internal.h"
#include "marks.h"

void pmiwire_decoder_init(struct pmiwire_decoder *d, size_t max_msg_bytes, uint32_t flags)
{
    memset(d, 0, sizeof(*d));
    d->max_msg_bytes = max_msg_bytes ? max_msg_bytes : PMIWIRE_DEFAULT_MAX_MSG_BYTES;
    d->flags = flags;
}

/* Ready for the next message; what an error leaves behind is kept. */
static void restart(struct pmiwire_decoder *d)
{
    d->scanned = 0;
    d->line = 0;
    d->need_bytes = 0;
}

static ssize_t fail(struct pmiwire_decoder *d, int code, size_t offset, size_t bytes)
{
    restart(d);
    d->err_offset = offset;
    d->err_bytes = bytes;
    return code;
}

static ssize_t more(struct pmiwire_decoder *d, size_t need)
{
    d->need_bytes = need;
    return 0;
}

/* What a key is. `begin` is that of the message. */
static inline uint16_t key_id(const char *begin, const char *key, size_t len, uint32_t *index,
                              uint16_t *indexed)
{
    const char *end = key + len;
    uint64_t tail;

    if ((end[-1] >= '0' && end[-1] <= '9') || len > PMIWIRE__FIELD_NAME_MAX || end - begin < 8)
        return pmiwire__field_lookup(key, len, index, indexed);
    *index = 0;
    *indexed = 0;
    /* The eight bytes that end with the key, without those that stand before it. */
    tail = pmiwire__load8(end - 8);
    if (len <= 8)
        return pmiwire__field_by_words(tail >> 8 * (8 - len), 0, PMIWIRE__NAME_TAG(len, 0u));
    return pmiwire__field_by_words(pmiwire__load8(key), tail >> 8 * (16 - len),
                                   PMIWIRE__NAME_TAG(len, 0u));
}

static inline void set_key(struct pmiwire_field *f, const char *begin, const char *key, size_t len)
{
    uint16_t indexed;

    f->key.ptr = key;
    f->key.len = len;
    f->id = key_id(begin, key, len, &f->index, &indexed);
    f->flags = indexed ? PMIWIRE_FIELD_INDEXED : 0;
}

/* Add a field; returns its slot, NULL when the array is full (the fields are still counted). Sets
 * *id either way. */
static struct pmiwire_field *add_field(struct pmiwire_msg *msg, uint32_t *total, const char *begin,
                                       const char *key, size_t len, uint16_t *id)
{
    struct pmiwire_field f;

    set_key(&f, begin, key, len);
    *id = f.id;
    if ((*total)++ >= msg->cap_fields)
        return NULL;
    msg->fields[msg->n_fields] = f;
    return &msg->fields[msg->n_fields++];
}

static ssize_t finish(struct pmiwire_decoder *d, const struct pmiwire_msg *msg, uint32_t total,
                      size_t bytes)
{
    if (total > msg->cap_fields) {
        d->need_fields = total;
        return fail(d, PMIWIRE_EFIELDS, 0, bytes);
    }
    restart(d);
    return (ssize_t)bytes;
}

/*
 * Split a usual message, on either wire: n bytes from behind "cmd=" up to its last separator, all
 * marked in m; every word is a key, '=' and a value; there is no NUL, and room for all fields.
 * Returns 0 when it is of another kind: then the general splitters take it from the start, and say
 * what is wrong with it if anything is. This takes half their time (bench_codec).
 */
static inline int split_usual(const char *begin, const char *words, size_t n,
                              const struct pmiwire__marks *m, struct pmiwire_msg *msg)
{
    const uint32_t room = msg->cap_fields;
    uint32_t used = 0;
    size_t word = pmiwire__next_stop(m, 0);

    if (m->nuls || word == 0)
        return 0;
    msg->cmd.ptr = words;
    msg->cmd.len = word;
    while (word < n) {
        const size_t start = word + 1, stop = pmiwire__next_stop(m, start),
                     equals = pmiwire__next_equals(m, start, stop);
        struct pmiwire_field *f;

        if (equals >= stop || equals == start || used == room)
            return 0;
        f = &msg->fields[used++];
        set_key(f, begin, words + start, equals - start);
        f->value.ptr = words + equals + 1;
        f->value.len = stop - equals - 1;
        word = stop;
    }
    msg->n_fields = used;
    return 1;
}

/* The next byte of [p, end) that separates: separator, NUL, and before a value '='; end when there
 * is none. */
static const char *next_separator(const char *p, const char *end, char separator, int in_value)
{
    const char *stop, *nul;

    if (!in_value) {
        while (p < end && *p != separator && *p != '=' && *p != '\0')
            p++;
        return p;
    }
    stop = memchr(p, separator, (size_t)(end - p));
    if (!stop)
        stop = end;
    nul = memchr(p, '\0', (size_t)(stop - p));
    return nul ? nul : stop;
}

/*
 * Split a PMI-1 line. `end` points to its newline. Words are separated by
 * spaces; a word is split at its first '='.
 */
static ssize_t split_line(struct pmiwire_decoder *d, const char *buf, const char *end,
                          struct pmiwire_msg *msg)
{
    const size_t bytes = (size_t)(end - buf) + 1;
    const char *word = buf;         /* start of the current word */
    struct pmiwire_field *f = NULL; /* the last field, when there was room for it */
    uint16_t id = 0;                /* what it is, room or not */
    const char *equals = buf + 3;   /* the '=' of the current word, when met: that of cmd= */
    const char *at = buf + 4;       /* separators before it have been seen */
    uint32_t total = 0;

    for (;;) {
        const char *p = next_separator(at, end, ' ', equals != NULL);

        at = p + 1;
        if (p < end && *p == '\0')
            return fail(d, PMIWIRE_ENUL, (size_t)(p - buf), bytes);
        if (p < end && *p == '=') {
            equals = p;
            if (p == word)
                return fail(d, PMIWIRE_EEMPTY, (size_t)(p - buf), bytes);
            f = add_field(msg, &total, buf, word, (size_t)(p - word), &id);
            if (id == PMIWIRE_F_VALUE && (d->flags & PMIWIRE_DECODE_VALUE_TO_EOL)) {
                const char *nul = memchr(p + 1, '\0', (size_t)(end - p - 1));

                if (nul)
                    return fail(d, PMIWIRE_ENUL, (size_t)(nul - buf), bytes);
                if (f) {
                    f->value.ptr = p + 1;
                    f->value.len = (size_t)(end - p - 1);
                }
                return finish(d, msg, total, bytes);
            }
            continue;
        }
        /* A space, or the end of the line: the end of a word, unless there was none. */
        if (word == buf) {
            msg->cmd.len = (size_t)(p - msg->cmd.ptr);
            if (msg->cmd.len == 0)
                return fail(d, PMIWIRE_ENOCMD, 4, bytes);
            msg->id = pmiwire_command_find(PMIWIRE_V1, msg->cmd);
        } else if (equals) {
            if (f) {
                f->value.ptr = equals + 1;
                f->value.len = (size_t)(p - equals - 1);
            }
        } else if (p > word) { /* prose goes on over a word without '=' */
            if (pmiwire__fields[id].type != PMIWIRE_TYPE_TEXT)
                return fail(d, PMIWIRE_ENOEQ, (size_t)(word - buf), bytes);
            if (f)
                f->value.len = (size_t)(p - f->value.ptr);
        }
        if (p == end)
            return finish(d, msg, total, bytes);
        word = p + 1;
        equals = NULL;
    }
}

static ssize_t decode_line(struct pmiwire_decoder *d, const char *buf, size_t len,
                           struct pmiwire_msg *msg)
{
    const char *words = buf + 4, *end = NULL;
    size_t from = d->scanned;

    msg->wire = PMIWIRE_V1;
    if (from == 0) { /* the line is mostly there as a whole, and short */
        const size_t span = len - 4 < PMIWIRE__SPAN ? len - 4 : PMIWIRE__SPAN;
        struct pmiwire__marks marks;
        const size_t n = pmiwire__mark(buf, words, span, ' ', 1, &marks);

        from = 4 + n;
        if (n < span && from < d->max_msg_bytes && d->flags == 0 &&
            split_usual(buf, words, n, &marks, msg)) {
            msg->id = pmiwire_command_find(PMIWIRE_V1, msg->cmd);
            restart(d);
            return (ssize_t)from + 1;
        }
    }
    end = memchr(buf + from, '\n', len - from);
    if (!end) {
        if (len >= d->max_msg_bytes)
            return fail(d, PMIWIRE_ETOOBIG, d->max_msg_bytes, 0);
        d->scanned = len;
        return more(d, len + 1);
    }
    if ((size_t)(end - buf) >= d->max_msg_bytes)
        return fail(d, PMIWIRE_ETOOBIG, d->max_msg_bytes, (size_t)(end - buf) + 1);
    msg->cmd = (struct pmiwire_str){words, 0};
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
        return fail(d, PMIWIRE_ENUL, (size_t)(nul - buf), bytes);
    msg->cmd.ptr = buf + 5;
    msg->cmd.len = (size_t)(line - msg->cmd.ptr);
    if (msg->cmd.len == 0)
        return fail(d, PMIWIRE_ENOCMD, 5, bytes);
    msg->id = pmiwire_command_find(PMIWIRE_V1, msg->cmd);
    for (line++; line < end;) {
        const char *eol = memchr(line, '\n', (size_t)(end - line));
        const char *equals = memchr(line, '=', (size_t)(eol - line));
        struct pmiwire_field *f;
        uint16_t id;

        if (!equals)
            return fail(d, PMIWIRE_ENOEQ, (size_t)(line - buf), bytes);
        if (equals == line)
            return fail(d, PMIWIRE_EEMPTY, (size_t)(line - buf), bytes);
        f = add_field(msg, &total, buf, line, (size_t)(equals - line), &id);
        if (f) {
            f->value.ptr = equals + 1;
            f->value.len = (size_t)(eol - equals - 1);
        }
        line = eol + 1;
    }
    return finish(d, msg, total, bytes);
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
                return fail(d, PMIWIRE_ETOOBIG, d->max_msg_bytes, 0);
            d->scanned = len;
            return more(d, len + 1);
        }
        next = (size_t)(eol - buf) + 1;
        if (next > d->max_msg_bytes)
            return fail(d, PMIWIRE_ETOOBIG, d->max_msg_bytes, 0);
        if (next - d->line == 7 && memcmp(buf + d->line, "endcmd", 6) == 0)
            return split_mcmd(d, buf, buf + d->line, msg, next);
        d->line = d->scanned = next;
    }
}

/* The six characters: spaces, digits, spaces. Returns the length, 0 when it is none. */
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

/* Split a PMI-2 body, [body, end). */
static ssize_t split_body(struct pmiwire_decoder *d, const char *buf, const char *body,
                          const char *end, struct pmiwire_msg *msg)
{
    const size_t bytes = (size_t)(end - buf);
    const char *word = body;
    const char *equals = body + 3; /* of cmd= */
    struct pmiwire_field *f = NULL;
    uint16_t id;
    uint16_t flags = 0; /* PMIWIRE_FIELD_ESCAPED, for the current field */
    const char *at = body + 4;
    uint32_t total = 0;

    if (bytes < PMIWIRE_V2_HEADER_BYTES + 4 || memcmp(body, "cmd=", 4) != 0)
        return fail(d, PMIWIRE_ENOCMD, PMIWIRE_V2_HEADER_BYTES, bytes);
    msg->cmd.ptr = body + 4;
    for (;;) {
        const char *p = next_separator(at, end, ';', equals != NULL);

        at = p + 1;
        if (p == end) {
            if (word == end)
                return finish(d, msg, total, bytes);
            return fail(d, PMIWIRE_EUNTERM, (size_t)(word - buf), bytes);
        }
        if (*p == '\0')
            return fail(d, PMIWIRE_ENUL, (size_t)(p - buf), bytes);
        if (*p == '=') {
            equals = p;
            if (p == word)
                return fail(d, PMIWIRE_EEMPTY, (size_t)(p - buf), bytes);
            f = add_field(msg, &total, buf, word, (size_t)(p - word), &id);
            continue;
        }
        if (!equals)
            return fail(d, PMIWIRE_ENOEQ, (size_t)(word - buf), bytes);
        if (p + 1 < end && p[1] == ';') { /* stands for one ';' */
            flags = PMIWIRE_FIELD_ESCAPED;
            at = p + 2;
            continue;
        }
        if (word == body) {
            msg->cmd.len = (size_t)(p - msg->cmd.ptr);
            if (msg->cmd.len == 0)
                return fail(d, PMIWIRE_ENOCMD, PMIWIRE_V2_HEADER_BYTES + 4, bytes);
            msg->id = pmiwire_command_find(PMIWIRE_V2, msg->cmd);
        } else if (f) {
            f->value.ptr = equals + 1;
            f->value.len = (size_t)(p - equals - 1);
            f->flags |= flags;
        }
        word = p + 1;
        equals = NULL;
        flags = 0;
    }
}

/* Where the first of n bytes lies that cannot be part of a length; n when there is none. */
static size_t not_length(const char *h, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (h[i] != ' ' && (h[i] < '0' || h[i] > '9'))
            return i;
    return n;
}

/* Split a PMI-2 message with so many bytes of body, if it is a usual one. */
static int usual_body(const char *buf, size_t body, struct pmiwire_msg *msg)
{
    const char *words = buf + PMIWIRE_V2_HEADER_BYTES + 4;
    const size_t n = body - 5; /* between "cmd=" and the last ';' */
    struct pmiwire__marks marks;

    if (body < 5 || n > PMIWIRE__SPAN || words[n] != ';' || memcmp(words - 4, "cmd=", 4) != 0)
        return 0;
    pmiwire__mark(buf, words, n, ';', 0, &marks);
    if (split_usual(buf, words, n, &marks, msg)) {
        msg->id = pmiwire_command_find(PMIWIRE_V2, msg->cmd);
        return 1;
    }
    msg->cmd = (struct pmiwire_str){NULL, 0};
    return 0;
}

static ssize_t decode_v2(struct pmiwire_decoder *d, const char *buf, size_t len,
                         struct pmiwire_msg *msg)
{
    size_t body, bad;

    msg->wire = PMIWIRE_V2;
    if (len < PMIWIRE_V2_HEADER_BYTES) {
        /* Refuse at the first byte that cannot be a length: a text client would wait for ever. */
        bad = not_length(buf, len);
        if (bad < len)
            return fail(d, PMIWIRE_EBADLEN, bad, 0);
        return more(d, PMIWIRE_V2_HEADER_BYTES);
    }
    body = parse_length(buf, &msg->pad_right);
    if (body == 0) {
        bad = not_length(buf, PMIWIRE_V2_HEADER_BYTES);
        return fail(d, PMIWIRE_EBADLEN, bad < PMIWIRE_V2_HEADER_BYTES ? bad : 0, 0);
    }
    if (body + PMIWIRE_V2_HEADER_BYTES > d->max_msg_bytes)
        return fail(d, PMIWIRE_ETOOBIG, 0, 0);
    if (len < body + PMIWIRE_V2_HEADER_BYTES)
        return more(d, body + PMIWIRE_V2_HEADER_BYTES);
    if (usual_body(buf, body, msg)) {
        restart(d);
        return (ssize_t)(PMIWIRE_V2_HEADER_BYTES + body);
    }
    return split_body(d, buf, buf + PMIWIRE_V2_HEADER_BYTES, buf + PMIWIRE_V2_HEADER_BYTES + body,
                      msg);
}

/* How many bytes of literal the buffer starts with; -1 when it differs before its end. */
static int prefix(const char *buf, size_t len, const char *literal)
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
        return more(d, 1);
    if (buf[0] != 'c' && buf[0] != 'm')
        return decode_v2(d, buf, len, msg);
    many = prefix(buf, len, "mcmd=");
    if (many > 0)
        return decode_mcmd(d, buf, len, msg);
    if (many == 0)
        return more(d, 5);
    return prefix(buf, len, "cmd=") == 0 ? more(d, 4) : fail(d, PMIWIRE_ENOCMD, 0, 0);
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
