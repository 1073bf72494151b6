/* SPDX-License-Identifier: BSD-3-Clause */
/* The decoder: messages of all three framings against a naive reader; every error with its place;
 * limits on both sides. */
#include "naive_decoder.h"

/* Fed in pieces of `step` bytes, each time from a fresh block of exactly the bytes so far. */
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

static const struct want wants[] = {
    {"cmd=get_maxes\n", 0, V1, PMIWIRE_V1_GET_MAXES, "get_maxes", 0, {{0}}},
    {"cmd=init pmi_version=1 pmi_subversion=1\n",
     0,
     V1,
     PMIWIRE_V1_INIT,
     "init",
     2,
     {{"pmi_version", "1", F(PMI_VERSION), 0, 0},
      {"pmi_subversion", "1", F(PMI_SUBVERSION), 0, 0}}},
    {"cmd=put kvsname=k key=a value=b=c==\n",
     0,
     V1,
     PMIWIRE_V1_PUT,
     "put",
     3,
     {{"kvsname", "k", F(KVSNAME), 0, 0},
      {"key", "a", F(KEY), 0, 0},
      {"value", "b=c==", F(VALUE), 0, 0}}},
    {"cmd=put   key=a    value=\n",
     0,
     V1,
     PMIWIRE_V1_PUT,
     "put",
     2,
     {{"key", "a", F(KEY), 0, 0}, {"value", "", F(VALUE), 0, 0}}},
    {"cmd=finalize  \n", 0, V1, PMIWIRE_V1_FINALIZE, "finalize", 0, {{0}}},
    {"cmd=zap x=1\n", 0, V1, 0, "zap", 1, {{"x", "1", 0, 0, 0}}},
    {"cmd=put key=a;b value=c;;\n",
     0,
     V1,
     PMIWIRE_V1_PUT,
     "put",
     2,
     {{"key", "a;b", F(KEY), 0, 0}, {"value", "c;;", F(VALUE), 0, 0}}},
    /* Prose includes words without '=', in the middle and at the end; other fields do not. */
    {"cmd=get_result rc=-1 msg=no such  key here value=unknown\n",
     0,
     V1,
     PMIWIRE_V1_GET_RESULT,
     "get_result",
     3,
     {{"rc", "-1", F(RC), 0, 0},
      {"msg", "no such  key here", F(MSG), 0, 0},
      {"value", "unknown", F(VALUE), 0, 0}}},
    {"cmd=abort exitcode=3 message= a b\n",
     0,
     V1,
     PMIWIRE_V1_ABORT,
     "abort",
     2,
     {{"exitcode", "3", F(EXITCODE), 0, 0}, {"message", " a b", F(MESSAGE), 0, 0}}},
    {"cmd=abort error_msg=x y errmsg=z w\n",
     0,
     V1,
     PMIWIRE_V1_ABORT,
     "abort",
     2,
     {{"error_msg", "x y", F(ERROR_MSG), 0, 0}, {"errmsg", "z w", F(ERRMSG), 0, 0}}},
    /* Flux: the value runs to the end of the line. */
    {"cmd=get_result rc=0 value=a b=c  d \n",
     EOL_FLAG,
     V1,
     PMIWIRE_V1_GET_RESULT,
     "get_result",
     2,
     {{"rc", "0", F(RC), 0, 0}, {"value", "a b=c  d ", F(VALUE), 0, 0}}},
    {"cmd=get_result value=\n",
     EOL_FLAG,
     V1,
     PMIWIRE_V1_GET_RESULT,
     "get_result",
     1,
     {{"value", "", F(VALUE), 0, 0}}},
    {"cmd=get_result value==\n",
     EOL_FLAG,
     V1,
     PMIWIRE_V1_GET_RESULT,
     "get_result",
     1,
     {{"value", "=", F(VALUE), 0, 0}}},
    {"mcmd=spawn\nnprocs=2\nexecname=/bin/a b\narg1=x=y z\narg12=\nendcmd\n",
     0,
     MCMD,
     PMIWIRE_V1_SPAWN,
     "spawn",
     4,
     {{"nprocs", "2", F(NPROCS), 0, 0},
      {"execname", "/bin/a b", F(EXECNAME), 0, 0},
      {"arg1", "x=y z", F(ARG), 1, IDX},
      {"arg12", "", F(ARG), 12, IDX}}},
    {"mcmd=spawn\nendcmd\n", 0, MCMD, PMIWIRE_V1_SPAWN, "spawn", 0, {{0}}},
    {"mcmd=zap\nendcmd1=endcmd\n x=endcmd \nendcmd\n",
     0,
     MCMD,
     0,
     "zap",
     2,
     {{"endcmd1", "endcmd", 0, 0, 0}, {" x", "endcmd ", 0, 0, 0}}},
    {"mcmd=x\nendcmd\n", 0, MCMD, 0, "x", 0, {{0}}},
    {"mcmd=a b=c\nendcmd\n", 0, MCMD, 0, "a b=c", 0, {{0}}},
    {"    22cmd=kvs-get;key=alpha;",
     0,
     V2,
     PMIWIRE_V2_KVS_GET,
     "kvs-get",
     1,
     {{"key", "alpha", F(KEY), 0, 0}}},
    {"22    cmd=kvs-get;key=alpha;",
     0,
     V2,
     PMIWIRE_V2_KVS_GET,
     "kvs-get",
     1,
     {{"key", "alpha", F(KEY), 0, 0}}},
    {"  22  cmd=kvs-get;key=alpha;",
     0,
     V2,
     PMIWIRE_V2_KVS_GET,
     "kvs-get",
     1,
     {{"key", "alpha", F(KEY), 0, 0}}},
    {"000022cmd=kvs-get;key=alpha;",
     0,
     V2,
     PMIWIRE_V2_KVS_GET,
     "kvs-get",
     1,
     {{"key", "alpha", F(KEY), 0, 0}}},
    {"    25cmd=kvs-put;key=a;value=;",
     0,
     V2,
     PMIWIRE_V2_KVS_PUT,
     "kvs-put",
     2,
     {{"key", "a", F(KEY), 0, 0}, {"value", "", F(VALUE), 0, 0}}},
    {"    30cmd=kvs-put;key=a;value=b;;c;;", 0, V2, 0, NULL, 0, {{0}}}, /* the last pair is no end:
                                                                           below */
    {"    31cmd=kvs-put;key=a;value=b;;c;;;",
     0,
     V2,
     PMIWIRE_V2_KVS_PUT,
     "kvs-put",
     2,
     {{"key", "a", F(KEY), 0, 0}, {"value", "b;;c;;", F(VALUE), 0, ESC}}},
    {"    34cmd=kvs-put;key=a;;;;;value=x y=z;",
     0,
     V2,
     PMIWIRE_V2_KVS_PUT,
     "kvs-put",
     2,
     {{"key", "a;;;;", F(KEY), 0, ESC}, {"value", "x y=z", F(VALUE), 0, 0}}},
    {"    44cmd=spawn;argv0=a;argv10=b;infokey3=c;zz9=d;",
     0,
     V2,
     PMIWIRE_V2_SPAWN,
     "spawn",
     4,
     {{"argv0", "a", F(ARGV), 0, IDX},
      {"argv10", "b", F(ARGV), 10, IDX},
      {"infokey3", "c", F(INFOKEY), 3, IDX},
      {"zz9", "d", 0, 0, 0}}},
};

static void fields_of_messages(void **state)
{
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
                fields[k].id != w->f[k].id || fields[k].index != w->f[k].index ||
                fields[k].flags != w->f[k].flags)
                fail_msg("%s: field %u", w->text, k);
        }
    }
}

/* Messages behind one another, all framings in one stream, fed in every size of piece. */
static void pipelining(void **state)
{
    char stream[4096];
    size_t n = 0, n_messages = 0;

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
    int end_known;   /* err_bytes is the whole message; else 0 */
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
    {"    14cmd=get;k=a;;;", 0, 0, 0, 0, 0,
     NULL}, /* two of three ';' are one, the third ends: no error */
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
        /* Skips it and continues with the same decoder. */
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
    /* Words of a field that had no room are no error of the message. */
    static const char prose[] = "cmd=get_result rc=1 msg=no such key\n";
    static const char flux[] = "cmd=get_result rc=0 value=a b =c\n";

    check_whole(prose, sizeof(prose) - 1, 1000, 0);
    check_whole(flux, sizeof(flux) - 1, 1000, EOL_FLAG);
}

static void message_limits(void **state)
{
    static const char *const texts[] = {"cmd=put key=a value=b\n",
                                        "mcmd=spawn\nnprocs=2\narg1=a b\nendcmd\n",
                                        "    22cmd=kvs-get;key=alpha;"};

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
            assert_int_equal(rc,
                             max < strlen(texts[i]) ? PMIWIRE_ETOOBIG : (ssize_t)strlen(texts[i]));
        }
}

static void longest_messages(void **state)
{
    const size_t million = 1000000;
    struct pmiwire_field fields[4];
    struct pmiwire_msg m = {.fields = fields, .cap_fields = 4};
    struct pmiwire_decoder d;
    char *b = guard_end(&text_guard, PMIWIRE_V2_MAX_BYTES);

    memset(b, 'v', PMIWIRE_V2_MAX_BYTES);
    memcpy(b, "999999cmd=kvs-put;key=a;value=", 30);
    b[PMIWIRE_V2_MAX_BYTES - 1] = ';';
    pmiwire_decoder_init(&d, PMIWIRE_V2_MAX_BYTES, 0);
    assert_int_equal(pmiwire_decode(&d, b, PMIWIRE_V2_MAX_BYTES, &m), PMIWIRE_V2_MAX_BYTES);
    assert_int_equal(fields[1].value.len, PMIWIRE_V2_MAX_BYTES - 31);
    assert_int_equal(pmiwire_decode(&d, b, PMIWIRE_V2_MAX_BYTES - 1, &m), 0);
    assert_int_equal(d.need_bytes, PMIWIRE_V2_MAX_BYTES);
    pmiwire_decoder_init(&d, PMIWIRE_V2_MAX_BYTES - 1, 0);
    assert_int_equal(pmiwire_decode(&d, b, 6, &m), PMIWIRE_ETOOBIG); /* known from the length
                                                                      * alone */

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

/* Byte by byte: a decoder that starts again each time would read 8 * 10^12 bytes, for more than
 * half an hour. */
static void feeding_is_linear(void **state)
{
    const size_t n = 4u << 20;
    struct pmiwire_field field;
    struct pmiwire_msg m = {.fields = &field, .cap_fields = 1};
    struct pmiwire_decoder d;
    char *b = malloc(n);

    assert_non_null(b);
    for (int lines = 0; lines < 3;
         lines++) { /* one line; mcmd of one long line; mcmd of many short lines */
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

/* `;;` and every separator at every place of a block of 16, in values that end there or run past
 * it. */
static void separators_at_block_borders(void **state)
{
    static const char *const marks[] = {";;", ";;;;", ";;;", ";",  "=",   " ",
                                        "\n", "=;",   ";=",  " =", ";;=", "x"};

    for (size_t before = 0; before < 36; before++)
        for (size_t after = 0; after < 20; after++)
            for (size_t k = 0; k < N_OF(marks); k++) {
                char body[160], text[200];
                int n = snprintf(body, sizeof(body), "cmd=x;k=%.*s%s%.*s;", (int)before,
                                 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrst", marks[k],
                                 (int)after, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

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
    } cases[] = {{"", ""},      {"a", "a"},    {";;", ";"},   {"a;;b", "a;b"}, {";;;;", ";;"},
                 {";;;", ";;"}, {"a;;", "a;"}, {";;a", ";a"}, {";", ";"}};

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
    static const char *const keys[] = {"key",
                                       "value",
                                       "kvsname",
                                       "rc",
                                       "msg",
                                       "errmsg",
                                       "message",
                                       "error_msg",
                                       "arg1",
                                       "argv07",
                                       "x",
                                       "zz",
                                       "found",
                                       "thrid",
                                       "preput_key_3",
                                       "a-rather-long-key-of-no-table"};

    return keys[rnd(N_OF(keys))];
}

static size_t random_message(char *b)
{
    static const char *const bytes[] = {"abcdefgh", "ab=; ", ";;;a",
                                        "a b c",    "=\\~!", "0123456789"};
    size_t n = 0;
    unsigned wire = 1 + rnd(3);

    n += (size_t)sprintf(b, "%s%s%s", wire == 2 ? "      " : "", wire == 3 ? "mcmd=" : "cmd=",
                         rnd(8) ? rnd(2) ? "put" : "kvs-get-response" : "");
    for (unsigned k = rnd(6); k; k--) {
        const char *from = bytes[rnd(N_OF(bytes))];

        n += (size_t)sprintf(b + n, "%c%s%s",
                             wire == 1   ? ' '
                             : wire == 2 ? ';'
                                         : '\n',
                             random_key(), rnd(20) ? "=" : "");
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
            default:
                memmove(b + at + 1, b + at, n - at);
                b[at] = alphabet[rnd(sizeof(alphabet) - 1)];
                n++;
            }
        }
        check_whole(b, n, max, flags);
        if (round % 4 == 0)
            check_split(b, n, max, flags, round % 8 ? 1 : 0);
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
    };

    return cmocka_run_group_tests(tests, open_guards, close_guards);
}
