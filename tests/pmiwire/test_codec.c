/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The codec: messages of all three framings against a naive reader, whole and at every split; every error with its place;
 * limits on both sides; and the encoder in buffers that end at a page without access.
 */
#include "codec_tools.h"

#define REF_FIELDS 512

static struct guard text_guard, out_guard;

static int open_guards(void **state)
{
    (void)state;
    text_guard = guard_open(2u << 20);
    out_guard = guard_open(2u << 20);
    return 0;
}

static int close_guards(void **state)
{
    (void)state;
    guard_close(&text_guard);
    guard_close(&out_guard);
    return 0;
}

/* ---- A naive reader: a byte at a time, from the words of codec.h ------------ */

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
    return same(key, "msg") || same(key, "errmsg") || same(key, "message") || same(key, "error_msg");
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
        if (i > 0 && (flags & PMIWIRE_DECODE_VALUE_TO_EOL) && e - i == 5 && memcmp(b + i, "value", 5) == 0 && e < j &&
            b[e] == '=')
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
        print_error(b[i] >= 32 && b[i] < 127 && b[i] != '\\' ? "%c" : "\\x%02x", (unsigned char)b[i]);
    print_error("\n");
}

/* NULL, or what differs; `b` is where msg's views point. */
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
    if (m->id != pmiwire_command_find(m->wire, m->cmd))
        return "id";
    for (uint32_t i = 0; i < r->n; i++) {
        uint32_t index = 0;

        if (m->fields[i].key.ptr != r->f[i].key.ptr || m->fields[i].key.len != r->f[i].key.len)
            return "key";
        if (m->fields[i].value.ptr != r->f[i].value.ptr || m->fields[i].value.len != r->f[i].value.len)
            return "value";
        if (((m->fields[i].flags & PMIWIRE_FIELD_ESCAPED) != 0) != r->f[i].escaped)
            return "escaped";
        if (m->fields[i].id != pmiwire_field_find(m->fields[i].key, &index) || m->fields[i].index != index)
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
        fail_msg("%s: decoder %ld at %zu, reference %ld at %zu", what, rc, d.err_offset, ref_state.rc, ref_state.offset);
    }
    for (uint32_t cap = 0; cap < ref_state.n && ref_state.n < 40; cap++) {
        struct pmiwire_field *few = malloc(cap ? cap * sizeof(*few) : 1);

        assert_non_null(few);
        m.fields = few;
        m.cap_fields = cap;
        pmiwire_decoder_init(&d, max, flags);
        rc = pmiwire_decode(&d, copy, len, &m);
        if (ref_state.rc > 0 && (rc != PMIWIRE_EFIELDS || d.need_fields < ref_state.n || d.need_fields > REF_FIELDS ||
                                 d.err_bytes != (size_t)ref_state.rc)) {
            show("message", b, len);
            fail_msg("room for %u of %u fields: %ld, need_fields %u, err_bytes %zu", cap, ref_state.n, rc, d.need_fields,
                     d.err_bytes);
        }
        if (ref_state.rc < 0 && (rc != ref_state.rc || d.err_offset != ref_state.offset)) {
            show("message", b, len);
            fail_msg("room for %u fields: %ld, reference %ld", cap, rc, ref_state.rc);
        }
        assert_true(m.n_fields <= cap);
        if (ref_state.rc > 0) { /* the retry it asks for succeeds */
            m.fields = fields;
            m.cap_fields = d.need_fields;
            assert_int_equal(pmiwire_decode(&d, copy, len, &m), ref_state.rc);
            assert_int_equal(m.n_fields, ref_state.n);
        }
        free(few);
    }
}

/* Fed in pieces of `step` bytes, each time from a fresh block of exactly what has come. */
static void check_split(const char *b, size_t len, size_t max, uint32_t flags, uint32_t step)
{
    struct pmiwire_field fields[REF_FIELDS];
    struct pmiwire_msg m = {.fields = fields, .cap_fields = REF_FIELDS};
    struct pmiwire_decoder d;

    pmiwire_decoder_init(&d, max, flags);
    for (size_t n = 0;; n += step ? step : 1 + rnd(40)) {
        char *copy;
        const char *what;
        long rc;

        n = n < len ? n : len;
        copy = exact_copy(b, n);
        ref_decode(&ref_state, copy, n, max, flags);
        rc = pmiwire_decode(&d, copy, n, &m);
        what = differs(&ref_state, rc, &d, &m);
        if (what) {
            show("message", b, n);
            fail_msg("%s after %zu bytes: decoder %ld, reference %ld", what, n, rc, ref_state.rc);
        }
        free(copy);
        if (rc != 0 || n == len)
            return;
    }
}

/* Two pieces, cut at each place. */
static void check_two(const char *b, size_t len, uint32_t flags)
{
    struct pmiwire_field fields[REF_FIELDS];
    struct pmiwire_msg m = {.fields = fields, .cap_fields = REF_FIELDS};
    struct pmiwire_decoder d;

    for (size_t cut = 0; cut <= len; cut++) {
        char *first = exact_copy(b, cut), *all = exact_copy(b, len);
        long rc;

        pmiwire_decoder_init(&d, 0, flags);
        rc = pmiwire_decode(&d, first, cut, &m);
        free(first);
        if (rc == 0) {
            ref_decode(&ref_state, all, len, PMIWIRE_DEFAULT_MAX_MSG_BYTES, flags);
            rc = pmiwire_decode(&d, all, len, &m);
            if (differs(&ref_state, rc, &d, &m)) {
                show("message", b, len);
                fail_msg("%s, cut at %zu", differs(&ref_state, rc, &d, &m), cut);
            }
        }
        free(all);
    }
}

static void check_everywhere(const char *b, size_t len, uint32_t flags)
{
    check_whole(b, len, PMIWIRE_DEFAULT_MAX_MSG_BYTES, flags);
    check_split(b, len, PMIWIRE_DEFAULT_MAX_MSG_BYTES, flags, 1);
    check_two(b, len, flags);
}

/* ---- Tables ---------------------------------------------------------------- */

struct want {
    const char *text;
    uint32_t flags;
    uint16_t wire, id;
    const char *cmd;
    uint32_t n;
    struct {
        const char *key, *value;
        uint16_t id;
        uint32_t index;
        uint16_t flags;
    } f[6];
};

#define F(name) PMIWIRE_F_##name
#define ESC PMIWIRE_FIELD_ESCAPED
#define IDX PMIWIRE_FIELD_INDEXED
#define V1 PMIWIRE_V1
#define V2 PMIWIRE_V2
#define MCMD PMIWIRE_V1_MCMD
#define EOL_FLAG PMIWIRE_DECODE_VALUE_TO_EOL

static const struct want wants[] = {
    {"cmd=get_maxes\n", 0, V1, PMIWIRE_V1_GET_MAXES, "get_maxes", 0, {{0}}},
    {"cmd=init pmi_version=1 pmi_subversion=1\n", 0, V1, PMIWIRE_V1_INIT, "init", 2,
     {{"pmi_version", "1", F(PMI_VERSION), 0, 0}, {"pmi_subversion", "1", F(PMI_SUBVERSION), 0, 0}}},
    {"cmd=put kvsname=k key=a value=b=c==\n", 0, V1, PMIWIRE_V1_PUT, "put", 3,
     {{"kvsname", "k", F(KVSNAME), 0, 0}, {"key", "a", F(KEY), 0, 0}, {"value", "b=c==", F(VALUE), 0, 0}}},
    {"cmd=put   key=a    value=\n", 0, V1, PMIWIRE_V1_PUT, "put", 2,
     {{"key", "a", F(KEY), 0, 0}, {"value", "", F(VALUE), 0, 0}}},
    {"cmd=finalize  \n", 0, V1, PMIWIRE_V1_FINALIZE, "finalize", 0, {{0}}},
    {"cmd=zap x=1\n", 0, V1, 0, "zap", 1, {{"x", "1", 0, 0, 0}}},
    {"cmd=put key=a;b value=c;;\n", 0, V1, PMIWIRE_V1_PUT, "put", 2,
     {{"key", "a;b", F(KEY), 0, 0}, {"value", "c;;", F(VALUE), 0, 0}}},
    /* Prose goes on over words without '=', in the middle and at the end; other fields do not. */
    {"cmd=get_result rc=-1 msg=no such  key here value=unknown\n", 0, V1, PMIWIRE_V1_GET_RESULT, "get_result", 3,
     {{"rc", "-1", F(RC), 0, 0}, {"msg", "no such  key here", F(MSG), 0, 0}, {"value", "unknown", F(VALUE), 0, 0}}},
    {"cmd=abort exitcode=3 message= a b\n", 0, V1, PMIWIRE_V1_ABORT, "abort", 2,
     {{"exitcode", "3", F(EXITCODE), 0, 0}, {"message", " a b", F(MESSAGE), 0, 0}}},
    {"cmd=abort error_msg=x y errmsg=z w\n", 0, V1, PMIWIRE_V1_ABORT, "abort", 2,
     {{"error_msg", "x y", F(ERROR_MSG), 0, 0}, {"errmsg", "z w", F(ERRMSG), 0, 0}}},
    /* Flux: the value runs to the end of the line. */
    {"cmd=get_result rc=0 value=a b=c  d \n", EOL_FLAG, V1, PMIWIRE_V1_GET_RESULT, "get_result", 2,
     {{"rc", "0", F(RC), 0, 0}, {"value", "a b=c  d ", F(VALUE), 0, 0}}},
    {"cmd=get_result value=\n", EOL_FLAG, V1, PMIWIRE_V1_GET_RESULT, "get_result", 1, {{"value", "", F(VALUE), 0, 0}}},
    {"cmd=get_result value==\n", EOL_FLAG, V1, PMIWIRE_V1_GET_RESULT, "get_result", 1, {{"value", "=", F(VALUE), 0, 0}}},
    {"mcmd=spawn\nnprocs=2\nexecname=/bin/a b\narg1=x=y z\narg12=\nendcmd\n", 0, MCMD, PMIWIRE_V1_SPAWN, "spawn", 4,
     {{"nprocs", "2", F(NPROCS), 0, 0}, {"execname", "/bin/a b", F(EXECNAME), 0, 0}, {"arg1", "x=y z", F(ARG), 1, IDX},
      {"arg12", "", F(ARG), 12, IDX}}},
    {"mcmd=spawn\nendcmd\n", 0, MCMD, PMIWIRE_V1_SPAWN, "spawn", 0, {{0}}},
    {"mcmd=zap\nendcmd1=endcmd\n x=endcmd \nendcmd\n", 0, MCMD, 0, "zap", 2,
     {{"endcmd1", "endcmd", 0, 0, 0}, {" x", "endcmd ", 0, 0, 0}}},
    {"mcmd=x\nendcmd\n", 0, MCMD, 0, "x", 0, {{0}}},
    {"mcmd=a b=c\nendcmd\n", 0, MCMD, 0, "a b=c", 0, {{0}}},
    {"    22cmd=kvs-get;key=alpha;", 0, V2, PMIWIRE_V2_KVS_GET, "kvs-get", 1, {{"key", "alpha", F(KEY), 0, 0}}},
    {"22    cmd=kvs-get;key=alpha;", 0, V2, PMIWIRE_V2_KVS_GET, "kvs-get", 1, {{"key", "alpha", F(KEY), 0, 0}}},
    {"  22  cmd=kvs-get;key=alpha;", 0, V2, PMIWIRE_V2_KVS_GET, "kvs-get", 1, {{"key", "alpha", F(KEY), 0, 0}}},
    {"000022cmd=kvs-get;key=alpha;", 0, V2, PMIWIRE_V2_KVS_GET, "kvs-get", 1, {{"key", "alpha", F(KEY), 0, 0}}},
    {"    25cmd=kvs-put;key=a;value=;", 0, V2, PMIWIRE_V2_KVS_PUT, "kvs-put", 2,
     {{"key", "a", F(KEY), 0, 0}, {"value", "", F(VALUE), 0, 0}}},
    {"    30cmd=kvs-put;key=a;value=b;;c;;", 0, V2, 0, NULL, 0, {{0}}}, /* the last pair is no end: below */
    {"    31cmd=kvs-put;key=a;value=b;;c;;;", 0, V2, PMIWIRE_V2_KVS_PUT, "kvs-put", 2,
     {{"key", "a", F(KEY), 0, 0}, {"value", "b;;c;;", F(VALUE), 0, ESC}}},
    {"    34cmd=kvs-put;key=a;;;;;value=x y=z;", 0, V2, PMIWIRE_V2_KVS_PUT, "kvs-put", 2,
     {{"key", "a;;;;", F(KEY), 0, ESC}, {"value", "x y=z", F(VALUE), 0, 0}}},
    {"    44cmd=spawn;argv0=a;argv10=b;infokey3=c;zz9=d;", 0, V2, PMIWIRE_V2_SPAWN, "spawn", 4,
     {{"argv0", "a", F(ARGV), 0, IDX}, {"argv10", "b", F(ARGV), 10, IDX}, {"infokey3", "c", F(INFOKEY), 3, IDX},
      {"zz9", "d", 0, 0, 0}}},
};

static void fields_of_messages(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OF(wants); i++) {
        const struct want *w = &wants[i];
        struct pmiwire_field fields[8];
        struct pmiwire_msg m = {.fields = fields, .cap_fields = 8};
        struct pmiwire_decoder d;

        check_everywhere(w->text, strlen(w->text), w->flags);
        pmiwire_decoder_init(&d, 0, w->flags);
        if (!w->cmd) {
            assert_int_equal(pmiwire_decode(&d, w->text, strlen(w->text), &m), PMIWIRE_EUNTERM);
            continue;
        }
        if (pmiwire_decode(&d, w->text, strlen(w->text), &m) != (ssize_t)strlen(w->text))
            fail_msg("%s: not decoded whole", w->text);
        assert_int_equal(m.wire, w->wire);
        assert_int_equal(m.id, w->id);
        assert_true(same(m.cmd, w->cmd));
        assert_int_equal(m.n_fields, w->n);
        assert_int_equal(m.pad_right, w->wire == V2 && w->text[5] == ' ');
        for (uint32_t k = 0; k < w->n; k++) {
            if (!same(fields[k].key, w->f[k].key) || !same(fields[k].value, w->f[k].value) ||
                fields[k].id != w->f[k].id || fields[k].index != w->f[k].index || fields[k].flags != w->f[k].flags)
                fail_msg("%s: field %u", w->text, k);
        }
    }
}

/* Messages behind one another, all framings in one stream, fed in every size of piece. */
static void pipelining(void **state)
{
    char stream[4096];
    size_t n = 0, n_messages = 0;

    (void)state;
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < N_OF(wants); i++) {
            if (!wants[i].cmd || wants[i].flags)
                continue;
            memcpy(stream + n, wants[i].text, strlen(wants[i].text));
            n += strlen(wants[i].text);
            n_messages++;
        }
    for (size_t step = 1; step <= n; step += 1 + step / 16) {
        struct pmiwire_field fields[8];
        struct pmiwire_msg m = {.fields = fields, .cap_fields = 8};
        struct pmiwire_decoder d;
        size_t begin = 0, count = 0;

        pmiwire_decoder_init(&d, 0, 0);
        for (size_t end = 0; end < n;) {
            ssize_t rc;

            end = end + step < n ? end + step : n;
            while ((rc = pmiwire_decode(&d, stream + begin, end - begin, &m)) > 0) {
                begin += (size_t)rc;
                count++;
            }
            assert_int_equal(rc, 0);
            assert_true(d.need_bytes > end - begin);
        }
        assert_int_equal(begin, n);
        assert_int_equal(count, n_messages);
    }
}

struct bad {
    const char *text;
    size_t len; /* 0: strlen */
    uint32_t flags;
    int code;
    size_t offset;
    int end_known; /* err_bytes is the whole message; else 0 */
    const char *cmd; /* still readable; NULL: not */
};

static const struct bad bads[] = {
    {"hello\n", 0, 0, PMIWIRE_EBADLEN, 0, 0, NULL},
    {"-00010cmd=a;b=c;", 0, 0, PMIWIRE_EBADLEN, 0, 0, NULL},
    {"+00010cmd=a;b=c;", 0, 0, PMIWIRE_EBADLEN, 0, 0, NULL},
    {"    -5cmd=a;b=c;", 0, 0, PMIWIRE_EBADLEN, 4, 0, NULL},
    {"     0cmd=a;", 0, 0, PMIWIRE_EBADLEN, 0, 0, NULL},
    {"000000cmd=a;", 0, 0, PMIWIRE_EBADLEN, 0, 0, NULL},
    {"      cmd=a;", 0, 0, PMIWIRE_EBADLEN, 0, 0, NULL},
    {"1 2   cmd=a;", 0, 0, PMIWIRE_EBADLEN, 0, 0, NULL},
    {"0x0010cmd=a;b=c;", 0, 0, PMIWIRE_EBADLEN, 1, 0, NULL},
    {"  \t 10", 0, 0, PMIWIRE_EBADLEN, 2, 0, NULL},
    {"  a", 0, 0, PMIWIRE_EBADLEN, 2, 0, NULL},
    {"\n", 0, 0, PMIWIRE_EBADLEN, 0, 0, NULL},
    {"\0", 1, 0, PMIWIRE_EBADLEN, 0, 0, NULL},
    {"999999", 0, 0, PMIWIRE_ETOOBIG, 0, 0, NULL},
    {"cmdx", 0, 0, PMIWIRE_ENOCMD, 0, 0, NULL},
    {"cx", 0, 0, PMIWIRE_ENOCMD, 0, 0, NULL},
    {"mcmdx", 0, 0, PMIWIRE_ENOCMD, 0, 0, NULL},
    {"mmcmd=", 0, 0, PMIWIRE_ENOCMD, 0, 0, NULL},
    {"cmd=\n", 0, 0, PMIWIRE_ENOCMD, 4, 1, NULL},
    {"cmd= key=a\n", 0, 0, PMIWIRE_ENOCMD, 4, 1, NULL},
    {"mcmd=\nendcmd\n", 0, 0, PMIWIRE_ENOCMD, 5, 1, NULL},
    {"     3abc", 0, 0, PMIWIRE_ENOCMD, 6, 1, NULL},
    {"     7cmx=ab;", 0, 0, PMIWIRE_ENOCMD, 6, 1, NULL},
    {"     5cmd=;", 0, 0, PMIWIRE_ENOCMD, 10, 1, NULL},
    {"cmd=put key value=b\n", 0, 0, PMIWIRE_ENOEQ, 8, 1, "put"},
    {"cmd=put key=a value=b c\n", 0, 0, PMIWIRE_ENOEQ, 22, 1, "put"},
    {"mcmd=spawn\nnprocs\nendcmd\n", 0, 0, PMIWIRE_ENOEQ, 11, 1, "spawn"},
    {"mcmd=spawn\n\nendcmd\n", 0, 0, PMIWIRE_ENOEQ, 11, 1, "spawn"},
    {"    11cmd=get;zz;", 0, 0, PMIWIRE_ENOEQ, 14, 1, "get"},
    {"    11cmd=get;k;;", 0, 0, PMIWIRE_ENOEQ, 14, 1, "get"},
    {"cmd=put =a\n", 0, 0, PMIWIRE_EEMPTY, 8, 1, "put"},
    {"cmd=abort msg=a =b\n", 0, 0, PMIWIRE_EEMPTY, 16, 1, "abort"},
    {"mcmd=spawn\n=2\nendcmd\n", 0, 0, PMIWIRE_EEMPTY, 11, 1, "spawn"},
    {"    11cmd=get;=a;", 0, 0, PMIWIRE_EEMPTY, 14, 1, "get"},
    {"    13cmd=get;key=a", 0, 0, PMIWIRE_EUNTERM, 14, 1, "get"},
    {"     9cmd=get;k", 0, 0, PMIWIRE_EUNTERM, 14, 1, "get"},
    {"    14cmd=get;k=a;;;", 0, 0, 0, 0, 0, NULL}, /* two of three ';' are one, the third ends: no error */
    {"    15cmd=get;k=a;;;;", 0, 0, PMIWIRE_EUNTERM, 14, 1, "get"},
    {"     7cmd=get", 0, 0, PMIWIRE_EUNTERM, 6, 1, NULL},
    {"cmd=put key=\0 value=b\n", 22, 0, PMIWIRE_ENUL, 12, 1, "put"},
    {"cmd=p\0t key=a\n", 14, 0, PMIWIRE_ENUL, 5, 1, NULL},
    {"cmd=get_result value=ab c\0d\n", 28, EOL_FLAG, PMIWIRE_ENUL, 25, 1, "get_result"},
    {"mcmd=spawn\nnprocs=\0\nendcmd\n", 27, 0, PMIWIRE_ENUL, 18, 1, NULL},
    {"    14cmd=get;key=\0;", 20, 0, PMIWIRE_ENUL, 18, 1, "get"},
    {"    14cmd=get;ke\0=a;", 20, 0, PMIWIRE_ENUL, 16, 1, "get"},
};

static void errors_and_their_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OF(bads); i++) {
        const struct bad *b = &bads[i];
        size_t len = b->len ? b->len : strlen(b->text);
        struct pmiwire_field fields[8];
        struct pmiwire_msg m = {.fields = fields, .cap_fields = 8};
        struct pmiwire_decoder d;
        static const char next[] = "cmd=finalize\n";
        char both[256];
        ssize_t rc;

        check_everywhere(b->text, len, b->flags);
        pmiwire_decoder_init(&d, 0, b->flags);
        rc = pmiwire_decode(&d, b->text, len, &m);
        if (b->code == 0) {
            assert_true(rc > 0);
            continue;
        }
        if (rc != b->code || d.err_offset != b->offset || d.err_bytes != (b->end_known ? len : 0)) {
            show("message", b->text, len);
            fail_msg("%ld at %zu, %zu bytes", (long)rc, d.err_offset, d.err_bytes);
        }
        if (b->cmd && !same(m.cmd, b->cmd))
            fail_msg("%s: the command is lost", b->text);
        if (!b->end_known)
            continue;
        /* Skip it and go on, with the same decoder. */
        memcpy(both, b->text, len);
        memcpy(both + len, next, sizeof(next));
        assert_int_equal(pmiwire_decode(&d, both, len + sizeof(next) - 1, &m), b->code);
        assert_int_equal(d.err_bytes, len);
        assert_int_equal(pmiwire_decode(&d, both + len, sizeof(next) - 1, &m), sizeof(next) - 1);
        assert_int_equal(m.id, PMIWIRE_V1_FINALIZE);
    }
}

static void text_and_value_with_little_room(void **state)
{
    /* Words that belong to a field for which there was no room are no error of the message. */
    static const char prose[] = "cmd=get_result rc=1 msg=no such key\n";
    static const char flux[] = "cmd=get_result rc=0 value=a b =c\n";

    (void)state;
    check_whole(prose, sizeof(prose) - 1, 1000, 0);
    check_whole(flux, sizeof(flux) - 1, 1000, EOL_FLAG);
}

static void message_limits(void **state)
{
    static const char *const texts[] = {
        "cmd=put key=a value=b\n", "mcmd=spawn\nnprocs=2\narg1=a b\nendcmd\n", "    22cmd=kvs-get;key=alpha;"};

    (void)state;
    for (size_t i = 0; i < N_OF(texts); i++)
        for (size_t max = 1; max < strlen(texts[i]) + 4; max++) {
            struct pmiwire_field fields[8];
            struct pmiwire_msg m = {.fields = fields, .cap_fields = 8};
            struct pmiwire_decoder d;
            ssize_t rc;

            check_whole(texts[i], strlen(texts[i]), max, 0);
            check_split(texts[i], strlen(texts[i]), max, 0, 1);
            pmiwire_decoder_init(&d, max, 0);
            rc = pmiwire_decode(&d, texts[i], strlen(texts[i]), &m);
            assert_int_equal(rc, max < strlen(texts[i]) ? PMIWIRE_ETOOBIG : (ssize_t)strlen(texts[i]));
        }
}

static void longest_messages(void **state)
{
    const size_t million = 1000000;
    struct pmiwire_field fields[4];
    struct pmiwire_msg m = {.fields = fields, .cap_fields = 4};
    struct pmiwire_decoder d;
    char *b = guard_end(&text_guard, PMIWIRE_V2_MAX_BYTES);

    (void)state;
    memset(b, 'v', PMIWIRE_V2_MAX_BYTES);
    memcpy(b, "999999cmd=kvs-put;key=a;value=", 30);
    b[PMIWIRE_V2_MAX_BYTES - 1] = ';';
    pmiwire_decoder_init(&d, PMIWIRE_V2_MAX_BYTES, 0);
    assert_int_equal(pmiwire_decode(&d, b, PMIWIRE_V2_MAX_BYTES, &m), PMIWIRE_V2_MAX_BYTES);
    assert_int_equal(fields[1].value.len, PMIWIRE_V2_MAX_BYTES - 31);
    assert_int_equal(pmiwire_decode(&d, b, PMIWIRE_V2_MAX_BYTES - 1, &m), 0);
    assert_int_equal(d.need_bytes, PMIWIRE_V2_MAX_BYTES);
    pmiwire_decoder_init(&d, PMIWIRE_V2_MAX_BYTES - 1, 0);
    assert_int_equal(pmiwire_decode(&d, b, 6, &m), PMIWIRE_ETOOBIG); /* told by the length alone */

    /* A line of 1 MB is refused as soon as it passes the limit. */
    b = guard_end(&text_guard, million);
    memset(b, 'v', million);
    memcpy(b, "cmd=put key=a value=", 20);
    b[million - 1] = '\n';
    pmiwire_decoder_init(&d, 0, 0);
    assert_int_equal(pmiwire_decode(&d, b, PMIWIRE_DEFAULT_MAX_MSG_BYTES - 1, &m), 0);
    assert_int_equal(pmiwire_decode(&d, b, PMIWIRE_DEFAULT_MAX_MSG_BYTES, &m), PMIWIRE_ETOOBIG);
    assert_int_equal(d.err_bytes, 0);
    assert_int_equal(pmiwire_decode(&d, b, million, &m), PMIWIRE_ETOOBIG);
    assert_int_equal(d.err_bytes, million);
}

/* Byte by byte: a decoder that began anew each time would look at 8 * 10^12 bytes, for half an hour and more. */
static void feeding_is_linear(void **state)
{
    const size_t n = 4u << 20;
    struct pmiwire_field field;
    struct pmiwire_msg m = {.fields = &field, .cap_fields = 1};
    struct pmiwire_decoder d;
    char *b = malloc(n);

    (void)state;
    assert_non_null(b);
    for (int lines = 0; lines < 3; lines++) { /* one line; mcmd of one long line; mcmd of many short lines */
        memset(b, 'v', n);
        if (lines == 0) {
            memcpy(b, "cmd=put value=", 14);
            b[n - 1] = '\n';
        } else {
            memcpy(b, "mcmd=spawn\narg1=", 16);
            for (size_t i = 18; lines == 2 && i + 14 < n; i += 2)
                memcpy(b + i, i % 8 == 0 ? "\n=" : "a=", 2);
            memcpy(b + n - 12, "vv=v\nendcmd\n", 12);
        }
        pmiwire_decoder_init(&d, n, 0);
        for (size_t len = 1; len < n; len++)
            if (pmiwire_decode(&d, b, len, &m) != 0)
                fail_msg("kind %d ended after %zu bytes", lines, len);
        assert_int_not_equal(pmiwire_decode(&d, b, n, &m), 0);
        assert_true(lines == 2 || m.n_fields == 1);
    }
    free(b);
}

/* `;;` and every separator at every place of a block of 16, in values that end there or run past it. */
static void separators_at_block_borders(void **state)
{
    static const char *const marks[] = {";;", ";;;;", ";;;", ";", "=", " ", "\n", "=;", ";=", " =", ";;=", "x"};

    (void)state;
    for (size_t before = 0; before < 36; before++)
        for (size_t after = 0; after < 20; after++)
            for (size_t k = 0; k < N_OF(marks); k++) {
                char body[160], text[200];
                int n = snprintf(body, sizeof(body), "cmd=x;k=%.*s%s%.*s;", (int)before,
                                 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrst", marks[k], (int)after,
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

                n = snprintf(text, sizeof(text), "%6d%s", n, body);
                check_whole(text, (size_t)n, 65536, 0);
                n = snprintf(text, sizeof(text), "cmd=x k=%.*s%s%.*s\n", (int)before,
                             "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrst", marks[k], (int)after,
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
                check_whole(text, (size_t)n, 65536, 0);
            }
}

static void unescape(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {{"", ""}, {"a", "a"}, {";;", ";"}, {"a;;b", "a;b"}, {";;;;", ";;"}, {";;;", ";;"},
                 {"a;;", "a;"}, {";;a", ";a"}, {";", ";"}};

    (void)state;
    for (size_t i = 0; i < N_OF(cases); i++) {
        size_t n = strlen(cases[i].in);
        char *in = guard_end(&text_guard, n), *out = guard_end(&out_guard, n);

        memcpy(in, cases[i].in, n);
        assert_int_equal(pmiwire_unescape(view(in, n), out), strlen(cases[i].out));
        assert_memory_equal(out, cases[i].out, strlen(cases[i].out));
        assert_int_equal(pmiwire_unescape(view(in, n), in), strlen(cases[i].out)); /* in place */
        assert_memory_equal(in, cases[i].out, strlen(cases[i].out));
    }
}

/* ---- Random messages ------------------------------------------------------- */

static const char *random_key(void)
{
    static const char *const keys[] = {"key", "value", "kvsname", "rc", "msg", "errmsg", "message", "error_msg", "arg1",
                                       "argv07", "x", "zz", "found", "thrid", "preput_key_3", "a-rather-long-key-of-no-table"};

    return keys[rnd(N_OF(keys))];
}

static size_t random_message(char *b)
{
    static const char *const bytes[] = {"abcdefgh", "ab=; ", ";;;a", "a b c", "=\\~!", "0123456789"};
    size_t n = 0;
    unsigned wire = 1 + rnd(3);

    n += (size_t)sprintf(b, "%s%s%s", wire == 2 ? "      " : "", wire == 3 ? "mcmd=" : "cmd=",
                         rnd(8) ? rnd(2) ? "put" : "kvs-get-response" : "");
    for (unsigned k = rnd(6); k; k--) {
        const char *from = bytes[rnd(N_OF(bytes))];

        n += (size_t)sprintf(b + n, "%c%s%s", wire == 1 ? ' ' : wire == 2 ? ';' : '\n', random_key(), rnd(20) ? "=" : "");
        for (unsigned v = rnd(rnd(4) ? 12 : 60); v; v--)
            b[n++] = from[rnd((uint32_t)strlen(from))];
    }
    n += (size_t)sprintf(b + n, "%s", wire == 1 ? "\n" : wire == 2 ? ";" : "\nendcmd\n");
    if (wire == 2) {
        char length[24];

        sprintf(length, rnd(2) ? "%6zu" : "%-6zu", n - 6);
        memcpy(b, length, 6);
    }
    return n;
}

static void random_against_naive_reader(void **state)
{
    static const char alphabet[] = " =;\n;= ;\0\\0129cmdea";

    (void)state;
    for (unsigned round = 0; round < 60000; round++) {
        char b[2048];
        size_t n = random_message(b), max = rnd(10) ? 65536 : 1 + rnd((uint32_t)n + 8);
        uint32_t flags = rnd(2) ? 0 : EOL_FLAG;

        for (unsigned k = rnd(4); k; k--) { /* mutations, in half of the rounds none */
            size_t at = rnd((uint32_t)n);

            switch (rnd(4)) {
            case 0: b[at] = alphabet[rnd(sizeof(alphabet) - 1)]; break;
            case 1: b[at] = (char)rnd(256); break;
            case 2: n = at + 1; break;
            default: memmove(b + at + 1, b + at, n - at); b[at] = alphabet[rnd(sizeof(alphabet) - 1)]; n++;
            }
        }
        check_whole(b, n, max, flags);
        if (round % 4 == 0)
            check_split(b, n, max, flags, round % 8 ? 1 : 0);
    }
}

/* ---- Encoding -------------------------------------------------------------- */

/* Names and values whose bytes the framing carries. */
static size_t random_value(char *out, uint16_t wire, int text)
{
    size_t n = rnd(4) ? rnd(20) : rnd(400);

    for (size_t i = 0; i < n; i++) {
        unsigned char c;

        do
            c = rnd(3) ? (unsigned char)(33 + rnd(94)) : rnd(3) ? ';' : (unsigned char)rnd(256);
        while (c == 0 || (wire == V1 && (c == '\n' || c == ' ')) || (wire == MCMD && c == '\n'));
        if (wire == V1 && text && i > 0 && i + 1 < n && !rnd(4))
            c = ' ';
        if (wire == V1 && text && c == '=')
            c = '-';
        out[i] = (char)c;
    }
    if (wire == V1 && text && n && out[n - 1] == ' ')
        out[n - 1] = '.';
    return n;
}

#define RT_FIELDS 8

static void round_trips(void **state)
{
    static const uint16_t ids[] = {F(KVSNAME), F(VALUE), F(RC), F(MSG), F(PORT), F(ARGV), F(INFO_KEY), F(THRID)};
    static char values[RT_FIELDS][512], flat[16384];

    (void)state;
    for (unsigned round = 0; round < 100000; round++) {
        static const uint16_t cmds[] = {PMIWIRE_V1_PUT, PMIWIRE_V2_KVS_PUT, PMIWIRE_V1_SPAWN};
        uint16_t cmd = cmds[round % 3], wire = pmiwire_command_get(cmd)->wire, field[RT_FIELDS];
        uint32_t n = rnd(RT_FIELDS), index[RT_FIELDS];
        struct pmiwire_field fields[RT_FIELDS];
        struct pmiwire_msg m = {.fields = fields, .cap_fields = RT_FIELDS};
        struct iovec iov[2 * RT_FIELDS + 1];
        struct pmiwire_encoder e[2];
        struct pmiwire_decoder d;
        struct pmiwire_str v[RT_FIELDS];
        char pool[16384];
        size_t at = 0;
        ssize_t len, gathered;
        int pad = rnd(2) != 0;

        pmiwire_enc_begin(&e[0], flat, sizeof(flat), cmd, NULL);
        pmiwire_enc_begin_iov(&e[1], pool, sizeof(pool), iov, N_OF(iov), cmd, NULL);
        for (int i = 0; pad && i < 2; i++)
            pmiwire_enc_pad_right(&e[i]);
        for (uint32_t k = 0; k < n; k++) {
            field[k] = ids[rnd(N_OF(ids))];
            index[k] = pmiwire_field_get(field[k])->indexed ? rnd(2) ? rnd(20) : rnd(1000000000) : 0;
            v[k] = view(values[k], random_value(values[k], wire, field[k] == F(MSG)));
            for (int i = 0; i < 2; i++) {
                if (pmiwire_field_get(field[k])->indexed)
                    pmiwire_enc_indexed(&e[i], field[k], index[k], v[k]);
                else
                    pmiwire_enc_str(&e[i], field[k], v[k]);
            }
        }
        len = pmiwire_enc_end(&e[0]);
        gathered = pmiwire_enc_end(&e[1]);
        if (len < 0)
            fail_msg("round %u: %s, field %u", round, pmiwire_strerror((int)len), pmiwire_enc_error_field(&e[0]));
        assert_int_equal(gathered, len);
        for (uint32_t i = 0; i < pmiwire_enc_iovcnt(&e[1]); i++) {
            assert_memory_equal(iov[i].iov_base, flat + at, iov[i].iov_len);
            at += iov[i].iov_len;
        }
        assert_int_equal(at, len);
        pmiwire_decoder_init(&d, sizeof(flat), 0);
        assert_int_equal(pmiwire_decode(&d, flat, (size_t)len, &m), len);
        assert_int_equal(m.id, cmd);
        assert_int_equal(m.wire, wire);
        assert_int_equal(m.n_fields, n);
        for (uint32_t k = 0; k < n; k++) {
            char plain[1024];
            size_t bytes = fields[k].value.len;

            memcpy(plain, fields[k].value.ptr, bytes);
            if (fields[k].flags & ESC)
                bytes = pmiwire_unescape(view(plain, bytes), plain);
            if (fields[k].id != field[k] || fields[k].index != index[k] || bytes != v[k].len ||
                memcmp(plain, v[k].ptr, bytes) != 0) {
                show("message", flat, (size_t)len);
                fail_msg("round %u: field %u came back otherwise", round, k);
            }
        }
        if (round % 50 == 0)
            check_whole(flat, (size_t)len, sizeof(flat), 0);
    }
}

/* One of each kind of field, to be written into `cap` bytes. */
static ssize_t write_sample(char *buf, size_t cap, uint16_t cmd, struct iovec *iov, uint32_t cap_iov, uint32_t *n_iov)
{
    static const char large[] = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123"
                                "4567890123456789012345678901234567890123456789";
    struct pmiwire_encoder e;
    ssize_t rc;

    pmiwire_enc_begin_iov(&e, buf, cap, iov, cap_iov, cmd, NULL);
    pmiwire_enc_int(&e, F(RC), -2147483648LL);
    pmiwire_enc_bool(&e, F(FOUND), 1);
    pmiwire_enc_extra(&e, "fp.cap-1", pmiwire_strz("a,b"));
    pmiwire_enc_indexed(&e, F(ARGV), 10, pmiwire_strz("x"));
    pmiwire_enc_named(&e, pmiwire_strz("own"), pmiwire_strz("y"));
    pmiwire_enc_cstr(&e, F(VALUE), large);
    rc = pmiwire_enc_end(&e);
    if (n_iov)
        *n_iov = pmiwire_enc_iovcnt(&e);
    return rc;
}

static void every_buffer_too_small(void **state)
{
    static const uint16_t cmds[] = {PMIWIRE_V1_GET_RESULT, PMIWIRE_V2_KVS_GET_RESPONSE, PMIWIRE_V1_SPAWN};

    (void)state;
    for (size_t k = 0; k < N_OF(cmds); k++) {
        char whole[1024];
        struct iovec iov[8];
        uint32_t n_iov = 0;
        ssize_t len = write_sample(whole, sizeof(whole), cmds[k], NULL, 0, NULL);

        assert_true(len > 0);
        for (size_t cap = 0; cap <= (size_t)len; cap++) {
            char *buf = guard_end(&out_guard, cap); /* a byte too far is a fault */

            assert_int_equal(write_sample(buf, cap, cmds[k], NULL, 0, NULL), cap < (size_t)len ? PMIWIRE_ENOBUF : len);
            if (cap == (size_t)len)
                assert_memory_equal(buf, whole, cap);
        }
        assert_int_equal(write_sample(whole, sizeof(whole), cmds[k], iov, 8, &n_iov), len);
        assert_int_equal(n_iov, 3);
        assert_int_equal(write_sample(whole, sizeof(whole), cmds[k], iov, 3, NULL), len);
        for (uint32_t few = 0; few < 3; few++)
            assert_int_equal(write_sample(whole, sizeof(whole), cmds[k], iov, few, NULL), PMIWIRE_ENOBUF);
    }
}

static void exact_bytes(void **state)
{
    char b[128];
    struct pmiwire_encoder e;

    (void)state;
    pmiwire_enc_begin(&e, b, sizeof(b), PMIWIRE_V2_KVS_GET, NULL);
    pmiwire_enc_cstr(&e, F(KEY), "alpha");
    assert_int_equal(pmiwire_enc_end(&e), 28);
    assert_memory_equal(b, "    22cmd=kvs-get;key=alpha;", 28);
    pmiwire_enc_begin(&e, b, sizeof(b), PMIWIRE_V2_KVS_GET, NULL);
    pmiwire_enc_pad_right(&e);
    pmiwire_enc_cstr(&e, F(KEY), "alpha");
    assert_int_equal(pmiwire_enc_end(&e), 28);
    assert_memory_equal(b, "22    cmd=kvs-get;key=alpha;", 28);
    pmiwire_enc_begin(&e, b, sizeof(b), PMIWIRE_V1_GET_RESULT, NULL);
    pmiwire_enc_int(&e, F(RC), INT64_MIN);
    pmiwire_enc_bool(&e, F(FOUND), 0);
    pmiwire_enc_cstr(&e, F(VALUE), "");
    assert_int_equal(pmiwire_enc_end(&e), 58);
    assert_memory_equal(b, "cmd=get_result rc=-9223372036854775808 found=FALSE value=\n", 58);
    pmiwire_enc_begin(&e, b, sizeof(b), PMIWIRE_V1_SPAWN, NULL);
    pmiwire_enc_int(&e, F(NPROCS), 0);
    pmiwire_enc_indexed(&e, F(ARG), 1, pmiwire_strz("a b"));
    assert_int_equal(pmiwire_enc_end(&e), 36);
    assert_memory_equal(b, "mcmd=spawn\nnprocs=0\narg1=a b\nendcmd\n", 36);
    pmiwire_enc_begin_named(&e, b, sizeof(b), V2, pmiwire_strz("x-y_9"), NULL);
    pmiwire_enc_named(&e, pmiwire_strz("k"), pmiwire_strz("a;"));
    assert_int_equal(pmiwire_enc_end(&e), 22);
    assert_memory_equal(b, "    16cmd=x-y_9;k=a;;;", 22);
}

/* ---- What the encoder refuses ---------------------------------------------- */

enum how { STR, NAMED, EXTRA, INDEXED };

struct refusal {
    uint16_t cmd;
    const char *profile;
    enum how how;
    uint16_t field;
    const char *key, *value;
    size_t len; /* 0: strlen */
    int code;   /* 0: carried */
};

#define PUT1 PMIWIRE_V1_PUT
#define PUT2 PMIWIRE_V2_KVS_PUT
#define SPAWN1 PMIWIRE_V1_SPAWN

static const struct refusal refusals[] = {
    {999, NULL, STR, F(KEY), NULL, "a", 0, -EINVAL},
    {0, NULL, STR, F(KEY), NULL, "a", 0, -EINVAL},
    {PUT1, NULL, STR, F(COUNT_), NULL, "a", 0, -EINVAL},
    {PUT1, NULL, STR, 0, NULL, "a", 0, -EINVAL},
    {PUT1, NULL, STR, F(ARGV), NULL, "a", 0, -EINVAL},
    {PUT1, NULL, INDEXED, F(KEY), NULL, "a", 0, -EINVAL},
    {PUT1, NULL, STR, F(VALUE), NULL, "a b", 0, PMIWIRE_ECHARS},
    {PUT1, NULL, STR, F(VALUE), NULL, "a\nb", 0, PMIWIRE_ECHARS},
    {PUT1, NULL, STR, F(VALUE), NULL, "a\0b", 3, PMIWIRE_ECHARS},
    {PUT1, NULL, STR, F(VALUE), NULL, "a;\\=\t\377", 0, 0},
    {PUT1, NULL, STR, F(VALUE), NULL, "", 0, 0},
    {PUT2, NULL, STR, F(VALUE), NULL, "a\0b", 3, PMIWIRE_ECHARS},
    {PUT2, NULL, STR, F(VALUE), NULL, "a b\n;=", 0, 0},
    {SPAWN1, NULL, STR, F(EXECNAME), NULL, "a b;=", 0, 0},
    {SPAWN1, NULL, STR, F(EXECNAME), NULL, "a\nb", 0, PMIWIRE_ECHARS},
    {SPAWN1, NULL, STR, F(EXECNAME), NULL, "a\0b", 3, PMIWIRE_ECHARS},
    {SPAWN1, "portable", STR, F(EXECNAME), NULL, "", 0, 0},
    {PUT1, NULL, STR, F(KEY), NULL, "", 0, PMIWIRE_EEMPTY},
    {PUT1, NULL, STR, F(KEY), NULL, "a=b", 0, PMIWIRE_ECHARS},
    {PUT2, NULL, STR, F(KEY), NULL, "a;b", 0, PMIWIRE_ECHARS},
    {PUT1, "portable", STR, F(VALUE), NULL, "", 0, PMIWIRE_EEMPTY},
    {PUT2, "portable", STR, F(VALUE), NULL, "a;b", 0, PMIWIRE_ECHARS},
    {PUT1, "portable", STR, F(VALUE), NULL, "a\\b", 0, PMIWIRE_ECHARS},
    /* Prose: spaces, but nothing that would be read as a field, or be lost. */
    {PMIWIRE_V1_ABORT, NULL, STR, F(MESSAGE), NULL, "out of memory", 0, 0},
    {PMIWIRE_V1_ABORT, NULL, STR, F(MESSAGE), NULL, " out  of memory", 0, 0},
    {PMIWIRE_V1_ABORT, NULL, STR, F(MESSAGE), NULL, "a=b", 0, 0},
    {PMIWIRE_V1_ABORT, NULL, STR, F(MESSAGE), NULL, "rank a=b", 0, PMIWIRE_ECHARS},
    {PMIWIRE_V1_ABORT, NULL, STR, F(MESSAGE), NULL, "rank =b", 0, PMIWIRE_ECHARS},
    {PMIWIRE_V1_ABORT, NULL, STR, F(MESSAGE), NULL, "rank ", 0, PMIWIRE_ECHARS},
    {PMIWIRE_V1_ABORT, NULL, NAMED, 0, "message", "rank a=b", 0, PMIWIRE_ECHARS},
    {PMIWIRE_V1_ABORT, NULL, NAMED, 0, "message", "rank a", 0, 0},
    {PMIWIRE_V1_ABORT, NULL, STR, F(MESSAGE), NULL, "a\nb", 0, PMIWIRE_ECHARS},
    {PMIWIRE_V1_ABORT, "portable", STR, F(MESSAGE), NULL, "a b", 0, PMIWIRE_ECHARS},
    {PMIWIRE_V2_ABORT, NULL, STR, F(MSG), NULL, "a b=c;d", 0, 0},
    {PMIWIRE_V2_ABORT, "portable", STR, F(MSG), NULL, "a b", 0, 0},
    {PMIWIRE_V2_ABORT, "portable", STR, F(MSG), NULL, "a;b", 0, PMIWIRE_ECHARS},
    {PMIWIRE_V2_ABORT, "slurm-libpmi2", STR, F(MSG), NULL, "a;b", 0, 0},
    {PUT1, NULL, NAMED, 0, "", "a", 0, PMIWIRE_EEMPTY},
    {PUT1, NULL, NAMED, 0, "a b", "a", 0, PMIWIRE_ECHARS},
    {PUT2, NULL, NAMED, 0, "a;b", "a", 0, PMIWIRE_ECHARS},
    {PUT2, NULL, NAMED, 0, "a=b", "a", 0, PMIWIRE_ECHARS},
    {PUT1, NULL, NAMED, 0, "k", "a b", 0, PMIWIRE_ECHARS},
    {PUT1, NULL, NAMED, 0, "k", "", 0, 0},
    /* An index that would not come back. */
    {SPAWN1, NULL, INDEXED, F(ARG), NULL, "a", 0, 0},
    {PUT1, NULL, EXTRA, 0, "fp.x-Y_9", "a", 0, 0},
    {PUT1, NULL, EXTRA, 0, "1234567890123456789012345678901", "a", 0, 0},
    {PUT1, NULL, EXTRA, 0, "12345678901234567890123456789012", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "a b", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "a=b", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "thrid", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "tag", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "group", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "found", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "rc", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "cmd", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "mcmd", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "argz", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "info_z", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "ppz", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "x", "", 0, PMIWIRE_EEMPTY},
    {PUT1, NULL, EXTRA, 0, "x", "a b", 0, PMIWIRE_ECHARS},
    {PUT1, NULL, EXTRA, 0, "x", "a;b", 0, PMIWIRE_ECHARS},
    {PUT1, NULL, EXTRA, 0, "x", "a\\b", 0, PMIWIRE_ECHARS},
    {PUT1, NULL, EXTRA, 0, "x", "a\177", 0, PMIWIRE_ECHARS},
    {PUT1, NULL, EXTRA, 0, "x", "a\200", 0, PMIWIRE_ECHARS},
    {PUT1, NULL, EXTRA, 0, "x", "!~=", 0, 0},
};

static void every_refusal(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OF(refusals); i++) {
        const struct refusal *r = &refusals[i];
        struct pmiwire_str value = view(r->value, r->len ? r->len : strlen(r->value));
        struct pmiwire_encoder e;
        char b[256];
        ssize_t rc;

        pmiwire_enc_begin(&e, b, sizeof(b), r->cmd, r->profile ? pmiwire_profile_find(r->profile) : NULL);
        switch (r->how) {
        case STR: pmiwire_enc_str(&e, r->field, value); break;
        case NAMED: pmiwire_enc_named(&e, pmiwire_strz(r->key), value); break;
        case EXTRA: pmiwire_enc_extra(&e, r->key, value); break;
        case INDEXED: pmiwire_enc_indexed(&e, r->field, 7, value); break;
        }
        pmiwire_enc_cstr(&e, F(COUNT_), "a later error does not hide the first"); /* unless there was none */
        rc = pmiwire_enc_end(&e);
        if (rc != (r->code ? r->code : -EINVAL))
            fail_msg("refusal %zu (%s): %ld", i, r->value, (long)rc);
        if (r->code && r->how == STR && r->cmd != 999 && r->cmd != 0)
            assert_int_equal(pmiwire_enc_error_field(&e), r->field);
    }
    /* The command's own name. */
    for (int k = 0; k < 6; k++) {
        static const char *const names[] = {"", "a b", "a.b", "1234567890123456789012345678901",
                                            "12345678901234567890123456789012", "ok-1_A"};
        struct pmiwire_encoder e;
        char b[64];

        pmiwire_enc_begin_named(&e, b, sizeof(b), V1, pmiwire_strz(names[k]), NULL);
        assert_int_equal(pmiwire_enc_end(&e) > 0, k == 3 || k == 5);
        pmiwire_enc_begin_named(&e, b, sizeof(b), MCMD, pmiwire_strz(names[k]), NULL);
        assert_int_equal(pmiwire_enc_end(&e), -EINVAL);
    }
}

static ssize_t with_extras(uint16_t cmd, unsigned n, size_t value_bytes, size_t plain_bytes, int after_value)
{
    static char large[2048], b[65536];
    struct pmiwire_encoder e;
    char key[16];

    memset(large, 'x', sizeof(large));
    pmiwire_enc_begin(&e, b, sizeof(b), cmd, NULL);
    if (after_value)
        pmiwire_enc_cstr(&e, F(VALUE), "v");
    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "x%u", i);
        pmiwire_enc_extra(&e, key, view(large, value_bytes));
    }
    if (plain_bytes)
        pmiwire_enc_str(&e, F(KVSNAME), view(large, plain_bytes));
    return pmiwire_enc_end(&e);
}

static void extras_limits(void **state)
{
    (void)state;
    assert_true(with_extras(PUT1, 16, 1, 0, 0) > 0);
    assert_int_equal(with_extras(PUT1, 17, 1, 0, 0), PMIWIRE_EPEERFIELDS);
    assert_true(with_extras(PUT1, 1, 900, 0, 0) > 0);
    assert_int_equal(with_extras(PUT1, 1, 901, 0, 0), PMIWIRE_EVALLEN);
    /* "cmd=put x0=…" is 11 bytes, " kvsname=" 9, the newline 1 */
    assert_int_equal(with_extras(PUT1, 1, 900, 1000 - 900 - 21, 0), 1000);
    assert_int_equal(with_extras(PUT1, 1, 900, 1001 - 900 - 21, 0), PMIWIRE_ELINE);
    assert_true(with_extras(PUT1, 0, 0, 1500, 0) > 1000); /* the limit is that of extras */
    assert_int_equal(with_extras(PUT1, 1, 1, 0, 1), PMIWIRE_ESTATE);
    assert_true(with_extras(PUT2, 1, 1, 0, 1) > 0);
}

static void six_digits(void **state)
{
    char *value = guard_end(&text_guard, 1000000), *buf = guard_end(&out_guard, PMIWIRE_V2_MAX_BYTES + 1);
    struct pmiwire_encoder e;

    (void)state;
    memset(value, 'v', 1000000);
    for (size_t k = 0; k < 2; k++) {
        pmiwire_enc_begin(&e, buf, PMIWIRE_V2_MAX_BYTES + 1, PUT2, NULL);
        pmiwire_enc_str(&e, F(VALUE), view(value, 999999 - 19 + k)); /* cmd=kvs-put; value= ; */
        assert_int_equal(pmiwire_enc_end(&e), k ? PMIWIRE_ETOOBIG : (ssize_t)PMIWIRE_V2_MAX_BYTES);
        if (k == 0)
            assert_memory_equal(buf, "999999cmd=kvs-put;value=v", 25);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_messages),
        cmocka_unit_test(pipelining),
        cmocka_unit_test(errors_and_their_place),
        cmocka_unit_test(text_and_value_with_little_room),
        cmocka_unit_test(message_limits),
        cmocka_unit_test(longest_messages),
        cmocka_unit_test(feeding_is_linear),
        cmocka_unit_test(separators_at_block_borders),
        cmocka_unit_test(unescape),
        cmocka_unit_test(random_against_naive_reader),
        cmocka_unit_test(round_trips),
        cmocka_unit_test(every_buffer_too_small),
        cmocka_unit_test(exact_bytes),
        cmocka_unit_test(every_refusal),
        cmocka_unit_test(extras_limits),
        cmocka_unit_test(six_digits),
    };

    return cmocka_run_group_tests(tests, open_guards, close_guards);
}
