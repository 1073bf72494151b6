/* SPDX-License-Identifier: BSD-3-Clause */
/* A naive reader of all three framings, and the decoder compared with it. */
#ifndef FENCEPOST_TESTS_NAIVE_DECODER_H
#define FENCEPOST_TESTS_NAIVE_DECODER_H

#include "codec_tools.h"

#define REF_FIELDS 512
#define F(name)    PMIWIRE_F_##name
#define ESC        PMIWIRE_FIELD_ESCAPED
#define IDX        PMIWIRE_FIELD_INDEXED
#define V1         PMIWIRE_V1
#define V2         PMIWIRE_V2
#define MCMD       PMIWIRE_V1_MCMD
#define EOL_FLAG   PMIWIRE_DECODE_VALUE_TO_EOL

static struct guard text_guard, out_guard;

static int open_guards(void **state)
{
    text_guard = guard_open(2u << 20);
    out_guard = guard_open(2u << 20);
    return 0;
}

static int close_guards(void **state)
{
    guard_close(&text_guard);
    guard_close(&out_guard);
    return 0;
}

/* ---- A naive reader: a byte at a time, from codec.h's description ------------ */

struct ref {
    long rc; /* as pmiwire_decode() */
    size_t offset, bytes, need;
    struct pmiwire_str cmd;
    uint32_t n;
    struct {
        struct pmiwire_str key, value;
        int escaped;
    } f[REF_FIELDS];
};

static long ref_fail(struct ref *r, int code, size_t offset, size_t bytes)
{
    r->offset = offset;
    r->bytes = bytes;
    return r->rc = code;
}

static long ref_more(struct ref *r, size_t need)
{
    r->need = need;
    return r->rc = 0;
}

static void ref_field(struct ref *r, const char *key, const char *eq, const char *end, int escaped)
{
    assert_true(r->n < REF_FIELDS);
    r->f[r->n].key = view(key, (size_t)(eq - key));
    r->f[r->n].value = view(eq + 1, (size_t)(end - eq - 1));
    r->f[r->n++].escaped = escaped;
}

static int ref_is_text(struct pmiwire_str key)
{
    return same(key, "msg") || same(key, "errmsg") || same(key, "message") ||
           same(key, "error_msg");
}

static long ref_line(struct ref *r, const char *b, size_t len, size_t max, uint32_t flags)
{
    size_t eol = 0, i = 0, j, e;

    while (eol < len && b[eol] != '\n')
        eol++;
    if (eol == len)
        return len >= max ? ref_fail(r, PMIWIRE_ETOOBIG, max, 0) : ref_more(r, len + 1);
    if (eol + 1 > max)
        return ref_fail(r, PMIWIRE_ETOOBIG, max, eol + 1);
    for (i = 0; i <= eol; i = j + 1) {
        for (j = i; j < eol && b[j] != ' '; j++)
            ;
        for (e = i; e < j && b[e] != '=' && b[e] != '\0'; e++)
            ;
        if (e == i && e < j && b[e] == '=')
            return ref_fail(r, PMIWIRE_EEMPTY, e, eol + 1);
        if (i > 0 && (flags & PMIWIRE_DECODE_VALUE_TO_EOL) && e - i == 5 &&
            memcmp(b + i, "value", 5) == 0 && e < j && b[e] == '=')
            j = eol;
        for (size_t k = i; k < j; k++)
            if (b[k] == '\0')
                return ref_fail(r, PMIWIRE_ENUL, k, eol + 1);
        if (i == 0) {
            r->cmd = view(b + 4, j - 4);
            if (j == 4)
                return ref_fail(r, PMIWIRE_ENOCMD, 4, eol + 1);
        } else if (e < j) {
            ref_field(r, b + i, b + e, b + j, 0);
        } else if (j > i) {
            if (r->n == 0 || !ref_is_text(r->f[r->n - 1].key))
                return ref_fail(r, PMIWIRE_ENOEQ, i, eol + 1);
            r->f[r->n - 1].value.len = (size_t)(b + j - r->f[r->n - 1].value.ptr);
        }
    }
    return r->rc = (long)eol + 1;
}

static long ref_mcmd(struct ref *r, const char *b, size_t len, size_t max)
{
    size_t i = 0, j, e, whole;

    for (;; i = j + 1) { /* find the end */
        for (j = i; j < len && b[j] != '\n'; j++)
            ;
        if (j == len)
            return len >= max ? ref_fail(r, PMIWIRE_ETOOBIG, max, 0) : ref_more(r, len + 1);
        if (j + 1 > max)
            return ref_fail(r, PMIWIRE_ETOOBIG, max, 0);
        if (j - i == 6 && memcmp(b + i, "endcmd", 6) == 0)
            break;
    }
    whole = j + 1;
    for (size_t k = 0; k < i; k++)
        if (b[k] == '\0')
            return ref_fail(r, PMIWIRE_ENUL, k, whole);
    for (size_t end = i, line = 0; line < end; line = j + 1) {
        for (j = line; b[j] != '\n'; j++)
            ;
        for (e = line; e < j && b[e] != '='; e++)
            ;
        if (line == 0) {
            r->cmd = view(b + 5, j - 5);
            if (j == 5)
                return ref_fail(r, PMIWIRE_ENOCMD, 5, whole);
        } else if (e == j) {
            return ref_fail(r, PMIWIRE_ENOEQ, line, whole);
        } else if (e == line) {
            return ref_fail(r, PMIWIRE_EEMPTY, line, whole);
        } else {
            ref_field(r, b + line, b + e, b + j, 0);
        }
    }
    return r->rc = (long)whole;
}

static long ref_v2(struct ref *r, const char *b, size_t len, size_t max)
{
    size_t i = 0, n = 0, digits = 0, whole;

    for (i = 0; i < len && i < 6; i++)
        if (b[i] != ' ' && (b[i] < '0' || b[i] > '9'))
            return ref_fail(r, PMIWIRE_EBADLEN, i, 0);
    if (len < 6)
        return ref_more(r, 6);
    for (i = 0; i < 6 && b[i] == ' '; i++)
        ;
    for (; i < 6 && b[i] >= '0' && b[i] <= '9'; i++, digits++)
        n = n * 10 + (size_t)(b[i] - '0');
    for (; i < 6 && b[i] == ' '; i++)
        ;
    if (i < 6 || digits == 0 || n == 0)
        return ref_fail(r, PMIWIRE_EBADLEN, 0, 0);
    whole = 6 + n;
    if (whole > max)
        return ref_fail(r, PMIWIRE_ETOOBIG, 0, 0);
    if (len < whole)
        return ref_more(r, whole);
    if (n < 4 || memcmp(b + 6, "cmd=", 4) != 0)
        return ref_fail(r, PMIWIRE_ENOCMD, 6, whole);
    for (i = 6; i < whole;) {
        size_t word = i, e;
        int escaped = 0;

        for (; i < whole && b[i] != '=' && b[i] != ';' && b[i] != '\0'; i++)
            ;
        if (i == whole)
            return ref_fail(r, PMIWIRE_EUNTERM, word, whole);
        if (b[i] == '\0')
            return ref_fail(r, PMIWIRE_ENUL, i, whole);
        if (b[i] == ';')
            return ref_fail(r, PMIWIRE_ENOEQ, word, whole);
        if (i == word)
            return ref_fail(r, PMIWIRE_EEMPTY, i, whole);
        for (e = i++;; i++) {
            if (i == whole)
                return ref_fail(r, PMIWIRE_EUNTERM, word, whole);
            if (b[i] == '\0')
                return ref_fail(r, PMIWIRE_ENUL, i, whole);
            if (b[i] != ';')
                continue;
            if (i + 1 == whole || b[i + 1] != ';')
                break;
            escaped = 1;
            i++;
        }
        if (word > 6) {
            ref_field(r, b + word, b + e, b + i, escaped);
        } else {
            r->cmd = view(b + 10, i - 10);
            if (i == 10)
                return ref_fail(r, PMIWIRE_ENOCMD, 10, whole);
        }
        i++;
    }
    return r->rc = (long)whole;
}

static long ref_decode(struct ref *r, const char *b, size_t len, size_t max, uint32_t flags)
{
    r->n = 0;
    r->cmd = view(NULL, 0);
    r->offset = r->bytes = r->need = 0;
    if (len == 0)
        return ref_more(r, 1);
    if (b[0] != 'c' && b[0] != 'm')
        return ref_v2(r, b, len, max);
    if (len >= 4 && memcmp(b, "cmd=", 4) == 0)
        return ref_line(r, b, len, max, flags);
    if (len >= 5 && memcmp(b, "mcmd=", 5) == 0)
        return ref_mcmd(r, b, len, max);
    if (len < 4 && memcmp(b, "cmd=", len) == 0)
        return ref_more(r, 4);
    if (len < 5 && memcmp(b, "mcmd=", len) == 0)
        return ref_more(r, 5);
    return ref_fail(r, PMIWIRE_ENOCMD, 0, 0);
}

/* ---- Comparing ------------------------------------------------------------- */

static void show(const char *what, const char *b, size_t len)
{
    print_error("%s: ", what);
    for (size_t i = 0; i < len && i < 300; i++)
        print_error(b[i] >= 32 && b[i] < 127 && b[i] != '\\' ? "%c" : "\\x%02x",
                    (unsigned char)b[i]);
    print_error("\n");
}

static uint16_t ref_command(uint16_t wire, struct pmiwire_str name)
{
    for (uint16_t id = 1; id <= PMIWIRE_V2_FINALIZE_RESPONSE; id++) {
        const struct pmiwire_command_desc *c = pmiwire_command_get(id);

        if (c && (c->wire == V2) == (wire == V2) && same(name, c->name))
            return id;
    }
    return 0;
}

/* As command.h specifies: a plain name, or an indexed one and 1 to 9 digits without a needless
 * 0. */
static uint16_t ref_field_id(struct pmiwire_str key, uint32_t *index)
{
    *index = 0;
    for (uint16_t id = 1; id < F(COUNT_); id++) {
        const struct pmiwire_field_desc *f = pmiwire_field_get(id);
        size_t n = strlen(f->name);
        uint32_t number = 0;

        if (!f->indexed && same(key, f->name))
            return id;
        if (!f->indexed || key.len <= n || key.len - n > 9 || memcmp(key.ptr, f->name, n) != 0 ||
            (key.len - n > 1 && key.ptr[n] == '0'))
            continue;
        for (; n < key.len && key.ptr[n] >= '0' && key.ptr[n] <= '9'; n++)
            number = number * 10 + (uint32_t)(key.ptr[n] - '0');
        if (n == key.len) {
            *index = number;
            return id;
        }
    }
    return 0;
}

/* NULL, or the difference; msg's views point into `b`. */
static const char *differs(const struct ref *r, long rc, const struct pmiwire_decoder *d,
                           const struct pmiwire_msg *m)
{
    if (rc != r->rc)
        return "result";
    if (rc == 0 && d->need_bytes != r->need)
        return "need_bytes";
    if (rc < 0 && d->err_offset != r->offset)
        return "err_offset";
    if (rc < 0 && d->err_bytes != r->bytes)
        return "err_bytes";
    if (rc <= 0)
        return NULL;
    if (m->n_fields != r->n)
        return "n_fields";
    if (m->cmd.ptr != r->cmd.ptr || m->cmd.len != r->cmd.len)
        return "cmd";
    if (m->id != ref_command(m->wire, m->cmd))
        return "id";
    for (uint32_t i = 0; i < r->n; i++) {
        uint32_t index = 0;

        if (m->fields[i].key.ptr != r->f[i].key.ptr || m->fields[i].key.len != r->f[i].key.len)
            return "key";
        if (m->fields[i].value.ptr != r->f[i].value.ptr ||
            m->fields[i].value.len != r->f[i].value.len)
            return "value";
        if (((m->fields[i].flags & PMIWIRE_FIELD_ESCAPED) != 0) != r->f[i].escaped)
            return "escaped";
        if (m->fields[i].id != ref_field_id(m->fields[i].key, &index) ||
            m->fields[i].index != index)
            return "field id";
    }
    return NULL;
}

static struct ref ref_state;

/* Whole, in memory that ends at the guard; and with an array of fields too short by any number. */
static void check_whole(const char *b, size_t len, size_t max, uint32_t flags)
{
    struct pmiwire_field fields[REF_FIELDS];
    struct pmiwire_decoder d;
    char *copy = guard_end(&text_guard, len);
    struct pmiwire_msg m = {.fields = fields, .cap_fields = REF_FIELDS};
    const char *what;
    long rc;

    memcpy(copy, b, len);
    ref_decode(&ref_state, copy, len, max, flags);
    pmiwire_decoder_init(&d, max, flags);
    rc = pmiwire_decode(&d, copy, len, &m);
    what = differs(&ref_state, rc, &d, &m);
    if (what) {
        show("message", b, len);
        fail_msg("%s: decoder %ld at %zu, reference %ld at %zu", what, rc, d.err_offset,
                 ref_state.rc, ref_state.offset);
    }
    for (uint32_t cap = 0; cap < ref_state.n && ref_state.n < 40; cap++) {
        struct pmiwire_field *few = malloc(cap ? cap * sizeof(*few) : 1);

        assert_non_null(few);
        m.fields = few;
        m.cap_fields = cap;
        pmiwire_decoder_init(&d, max, flags);
        rc = pmiwire_decode(&d, copy, len, &m);
        if (ref_state.rc > 0 &&
            (rc != PMIWIRE_EFIELDS || d.need_fields < ref_state.n || d.need_fields > REF_FIELDS ||
             d.err_bytes != (size_t)ref_state.rc)) {
            show("message", b, len);
            fail_msg("room for %u of %u fields: %ld, need_fields %u, err_bytes %zu", cap,
                     ref_state.n, rc, d.need_fields, d.err_bytes);
        }
        if (ref_state.rc < 0 && (rc != ref_state.rc || d.err_offset != ref_state.offset)) {
            show("message", b, len);
            fail_msg("room for %u fields: %ld, reference %ld", cap, rc, ref_state.rc);
        }
        assert_true(m.n_fields <= cap);
        if (ref_state.rc > 0) { /* the requested retry succeeds */
            m.fields = fields;
            m.cap_fields = d.need_fields;
            assert_int_equal(pmiwire_decode(&d, copy, len, &m), ref_state.rc);
            assert_int_equal(m.n_fields, ref_state.n);
        }
        free(few);
    }
}

#endif
