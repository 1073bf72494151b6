/* SPDX-License-Identifier: BSD-3-Clause */
/* The encoder: its output decodes to the same, in buffers that end at a page without access;
 * limits, and everything that it refuses. */
#include "naive_decoder.h"

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
    static const uint16_t ids[] = {F(KVSNAME), F(VALUE), F(RC),       F(MSG),
                                   F(PORT),    F(ARGV),  F(INFO_KEY), F(THRID)};
    static char values[RT_FIELDS][512], flat[16384];

    for (unsigned round = 0; round < 100000; round++) {
        static const uint16_t cmds[] = {PMIWIRE_V1_PUT, PMIWIRE_V2_KVS_PUT, PMIWIRE_V1_SPAWN};
        uint16_t cmd = cmds[round % 3], wire = pmiwire_command_get(cmd)->wire, field[RT_FIELDS];
        uint32_t n = rnd(RT_FIELDS), index[RT_FIELDS];
        struct pmiwire_field fields[RT_FIELDS];
        struct pmiwire_msg m = {.fields = fields, .cap_fields = RT_FIELDS};
        struct pmiwire_encoder e;
        struct pmiwire_decoder d;
        struct pmiwire_str v[RT_FIELDS];
        struct pmiwire_error err;
        ssize_t len;

        pmiwire_enc_begin(&e, flat, sizeof(flat), cmd, NULL);
        e.pad_right = rnd(2) != 0;
        for (uint32_t k = 0; k < n; k++) {
            field[k] = ids[rnd(N_OF(ids))];
            index[k] =
                pmiwire_field_get(field[k])->indexed ? rnd(2) ? rnd(20) : rnd(1000000000) : 0;
            v[k] = view(values[k], random_value(values[k], wire, field[k] == F(MSG)));
            if (pmiwire_field_get(field[k])->indexed)
                pmiwire_enc_indexed(&e, field[k], index[k], v[k]);
            else
                pmiwire_enc_str(&e, field[k], v[k]);
        }
        len = pmiwire_enc_end(&e, &err);
        if (len < 0)
            fail_msg("round %u: %s", round, err.text);
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
static ssize_t write_sample(char *buf, size_t cap, uint16_t cmd)
{
    static const char large[] = "012345678901234567890123456789012345678901234567890123456789012345"
                                "6789012345678901234567890123"
                                "4567890123456789012345678901234567890123456789";
    struct pmiwire_encoder e;

    pmiwire_enc_begin(&e, buf, cap, cmd, NULL);
    pmiwire_enc_int(&e, F(RC), -2147483648LL);
    pmiwire_enc_int(&e, F(FOUND), 1);
    pmiwire_enc_extra(&e, "fp.cap-1", pmiwire_strz("a,b"));
    pmiwire_enc_indexed(&e, F(ARGV), 10, pmiwire_strz("x"));
    pmiwire_enc_str(&e, F(PORT), pmiwire_strz(cmd == PMIWIRE_V2_KVS_GET_RESPONSE ? "y;z" : "y"));
    pmiwire_enc_str(&e, F(VALUE), pmiwire_strz(large));
    return pmiwire_enc_end(&e, NULL);
}

static void every_buffer_too_small(void **state)
{
    static const uint16_t cmds[] = {PMIWIRE_V1_GET_RESULT, PMIWIRE_V2_KVS_GET_RESPONSE,
                                    PMIWIRE_V1_SPAWN};

    for (size_t k = 0; k < N_OF(cmds); k++) {
        char whole[1024];
        ssize_t len = write_sample(whole, sizeof(whole), cmds[k]);

        assert_true(len > 0);
        for (size_t cap = 0; cap <= (size_t)len; cap++) {
            char *buf = guard_end(&out_guard, cap); /* a byte too far is a fault */

            assert_int_equal(write_sample(buf, cap, cmds[k]),
                             cap < (size_t)len ? PMIWIRE_ENOBUF : len);
            if (cap == (size_t)len)
                assert_memory_equal(buf, whole, cap);
        }
    }
}

/* The error names the field that does not fit; of the message's end, none. */
static void too_small_for_a_field(void **state)
{
    for (size_t cap = 19; cap <= 21; cap += 2) {
        struct pmiwire_error err;
        struct pmiwire_encoder e;
        char b[32];

        pmiwire_enc_begin(&e, b, cap, PMIWIRE_V1_GET_RESULT, NULL);
        pmiwire_enc_int(&e, F(RC), 0); /* "cmd=get_result rc=0" */
        if (cap > 19)
            pmiwire_enc_str(&e, F(VALUE), pmiwire_strz("x"));
        assert_int_equal(pmiwire_enc_end(&e, &err), PMIWIRE_ENOBUF);
        assert_int_equal(err.field, cap > 19 ? F(VALUE) : 0);
    }
}

static void exact_bytes(void **state)
{
    char b[128];
    struct pmiwire_encoder e;

    pmiwire_enc_begin(&e, b, sizeof(b), PMIWIRE_V2_KVS_GET, NULL);
    pmiwire_enc_str(&e, F(KEY), pmiwire_strz("alpha"));
    assert_int_equal(pmiwire_enc_end(&e, NULL), 28);
    assert_memory_equal(b, "    22cmd=kvs-get;key=alpha;", 28);
    pmiwire_enc_begin(&e, b, sizeof(b), PMIWIRE_V2_KVS_GET, NULL);
    e.pad_right = 1;
    pmiwire_enc_str(&e, F(KEY), pmiwire_strz("alpha"));
    assert_int_equal(pmiwire_enc_end(&e, NULL), 28);
    assert_memory_equal(b, "22    cmd=kvs-get;key=alpha;", 28);
    pmiwire_enc_begin(&e, b, sizeof(b), PMIWIRE_V1_GET_RESULT, NULL);
    pmiwire_enc_int(&e, F(RC), INT64_MIN);
    pmiwire_enc_int(&e, F(FOUND), 0);
    pmiwire_enc_str(&e, F(VALUE), pmiwire_strz(""));
    assert_int_equal(pmiwire_enc_end(&e, NULL), 58);
    assert_memory_equal(b, "cmd=get_result rc=-9223372036854775808 found=FALSE value=\n", 58);
    pmiwire_enc_begin(&e, b, sizeof(b), PMIWIRE_V1_SPAWN, NULL);
    pmiwire_enc_int(&e, F(NPROCS), 0);
    pmiwire_enc_indexed(&e, F(ARG), 1, pmiwire_strz("a b"));
    assert_int_equal(pmiwire_enc_end(&e, NULL), 36);
    assert_memory_equal(b, "mcmd=spawn\nnprocs=0\narg1=a b\nendcmd\n", 36);
}

/* ---- What the encoder refuses ---------------------------------------------- */

enum how { STR, EXTRA, INDEXED };

struct refusal {
    uint16_t cmd;
    const char *profile;
    enum how how;
    uint16_t field;
    const char *key, *value;
    size_t len; /* 0: strlen */
    int code;   /* 0: carried */
};

#define PUT1   PMIWIRE_V1_PUT
#define PUT2   PMIWIRE_V2_KVS_PUT
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
    /* Prose: spaces, but no text that would decode as a field, or be lost. */
    {PMIWIRE_V1_ABORT, NULL, STR, F(MESSAGE), NULL, "out of memory", 0, 0},
    {PMIWIRE_V1_ABORT, NULL, STR, F(MESSAGE), NULL, " out  of memory", 0, 0},
    {PMIWIRE_V1_ABORT, NULL, STR, F(MESSAGE), NULL, "a=b", 0, 0},
    {PMIWIRE_V1_ABORT, NULL, STR, F(MESSAGE), NULL, "rank a=b", 0, PMIWIRE_ECHARS},
    {PMIWIRE_V1_ABORT, NULL, STR, F(MESSAGE), NULL, "rank =b", 0, PMIWIRE_ECHARS},
    {PMIWIRE_V1_ABORT, NULL, STR, F(MESSAGE), NULL, "rank ", 0, PMIWIRE_ECHARS},
    {PMIWIRE_V1_ABORT, NULL, STR, F(MESSAGE), NULL, "a\nb", 0, PMIWIRE_ECHARS},
    {PMIWIRE_V1_ABORT, "portable", STR, F(MESSAGE), NULL, "a b", 0, PMIWIRE_ECHARS},
    {PMIWIRE_V2_ABORT, NULL, STR, F(MSG), NULL, "a b=c;d", 0, 0},
    {PMIWIRE_V2_ABORT, "portable", STR, F(MSG), NULL, "a b", 0, 0},
    {PMIWIRE_V2_ABORT, "portable", STR, F(MSG), NULL, "a;b", 0, PMIWIRE_ECHARS},
    {PMIWIRE_V2_ABORT, "slurm-libpmi2", STR, F(MSG), NULL, "a;b", 0, 0},
    /* An index that would not decode. */
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
    {PUT1, NULL, EXTRA, 0, "arg", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "argz", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "ar", "a", 0, 0},
    {PUT1, NULL, EXTRA, 0, "info_", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "info_z", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "infokey", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "infoval", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "pp", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "ppz", "a", 0, PMIWIRE_ERESERVED},
    {PUT1, NULL, EXTRA, 0, "preput_", "a", 0, PMIWIRE_ERESERVED},
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
    for (size_t i = 0; i < N_OF(refusals); i++) {
        const struct refusal *r = &refusals[i];
        struct pmiwire_str value = view(r->value, r->len ? r->len : strlen(r->value));
        struct pmiwire_encoder e;
        struct pmiwire_error err;
        char b[256];
        ssize_t rc;

        pmiwire_enc_begin(&e, b, sizeof(b), r->cmd,
                          r->profile ? pmiwire_profile_find(r->profile) : NULL);
        switch (r->how) {
        case STR: pmiwire_enc_str(&e, r->field, value); break;
        case EXTRA: pmiwire_enc_extra(&e, r->key, value); break;
        case INDEXED: pmiwire_enc_indexed(&e, r->field, 7, value); break;
        }
        pmiwire_enc_str(
            &e, F(COUNT_),
            pmiwire_strz("a later error does not hide the first")); /* unless there was none */
        rc = pmiwire_enc_end(&e, &err);
        if (rc != (r->code ? r->code : -EINVAL))
            fail_msg("refusal %zu (%s): %ld", i, r->value, (long)rc);
        assert_int_equal(err.offset, 0); /* there is no input */
        if (r->code && r->how == STR && r->cmd != 999 && r->cmd != 0)
            assert_true(err.code == r->code && err.field == r->field && err.command == r->cmd);
    }
}

static ssize_t with_extras(uint16_t cmd, unsigned n, size_t value_bytes, size_t plain_bytes,
                           int after_value)
{
    static char large[2048], b[65536];
    struct pmiwire_encoder e;
    char key[16];

    memset(large, 'x', sizeof(large));
    pmiwire_enc_begin(&e, b, sizeof(b), cmd, NULL);
    if (after_value)
        pmiwire_enc_str(&e, F(VALUE), pmiwire_strz("v"));
    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "x%u", i);
        pmiwire_enc_extra(&e, key, view(large, value_bytes));
    }
    if (plain_bytes)
        pmiwire_enc_str(&e, F(KVSNAME), view(large, plain_bytes));
    return pmiwire_enc_end(&e, NULL);
}

static void extras_limits(void **state)
{
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
    char *value = guard_end(&text_guard, 1000000),
         *buf = guard_end(&out_guard, PMIWIRE_V2_MAX_BYTES + 1);
    struct pmiwire_encoder e;

    memset(value, 'v', 1000000);
    for (size_t k = 0; k < 2; k++) {
        pmiwire_enc_begin(&e, buf, PMIWIRE_V2_MAX_BYTES + 1, PUT2, NULL);
        pmiwire_enc_str(&e, F(VALUE), view(value, 999999 - 19 + k)); /* cmd=kvs-put; value= ; */
        assert_int_equal(pmiwire_enc_end(&e, NULL),
                         k ? PMIWIRE_ETOOBIG : (ssize_t)PMIWIRE_V2_MAX_BYTES);
        if (k == 0)
            assert_memory_equal(buf, "999999cmd=kvs-put;value=v", 25);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),           cmocka_unit_test(every_buffer_too_small),
        cmocka_unit_test(exact_bytes),           cmocka_unit_test(every_refusal),
        cmocka_unit_test(extras_limits),         cmocka_unit_test(six_digits),
        cmocka_unit_test(too_small_for_a_field),
    };

    return cmocka_run_group_tests(tests, open_guards, close_guards);
}
