/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of commands and fields: every name is found and no other; every command is
 * checked with each of its fields missing, doubled, empty and of the wrong type; numbers at their
 * limits; the texts of diagnostics.
 */
#include "codec_tools.h"

#include <limits.h>

#include "../../libpmiwire/src/codec/codec_internal.h"

#define F(name) PMIWIRE_F_##name

/* ---- Names ----------------------------------------------------------------- */

static int is_command(uint16_t wire, const char *name, size_t len)
{
    const struct pmiwire_command_desc *c;

    for (uint16_t id = 0; id < PMIWIRE_CMD_COUNT_; id++)
        if ((c = pmiwire_command_get(id)) != NULL &&
            (c->wire == PMIWIRE_V2) == (wire == PMIWIRE_V2) && strlen(c->name) == len &&
            memcmp(c->name, name, len) == 0)
            return c->id;
    return 0;
}

/* As command.h specifies: a plain name, or an indexed one and up to 9 digits without a needless
 * 0. */
static int is_field(const char *key, size_t len, uint32_t *index)
{
    *index = 0;
    for (uint16_t id = 1; id < F(COUNT_); id++) {
        const struct pmiwire_field_desc *f = pmiwire_field_get(id);
        size_t n = strlen(f->name);
        uint32_t number = 0;

        if (len < n || memcmp(f->name, key, n) != 0)
            continue;
        if (!f->indexed && len == n)
            return id;
        if (!f->indexed || len == n || len - n > 9 || (key[n] == '0' && len - n > 1))
            continue;
        while (n < len && key[n] >= '0' && key[n] <= '9')
            number = number * 10 + (uint32_t)(key[n++] - '0');
        if (n < len)
            continue;
        *index = number;
        return id;
    }
    return 0;
}

/* Looks a name up as command and as field, in a block of exactly its size. */
static void look_up(const char *name, size_t len)
{
    char *copy = exact_copy(name, len);
    struct pmiwire_str s = view(copy, len);
    uint32_t index = 77, want;
    int id = is_field(name, len, &want);

    if (pmiwire__command_find(PMIWIRE_V1, s) != is_command(PMIWIRE_V1, name, len) ||
        pmiwire__command_find(PMIWIRE_V1_MCMD, s) != is_command(PMIWIRE_V1, name, len) ||
        pmiwire__command_find(PMIWIRE_V2, s) != is_command(PMIWIRE_V2, name, len))
        fail_msg("command %.*s", (int)len, name);
    if (pmiwire__field_find(s, &index) != id || index != want || pmiwire__field_find(s, NULL) != id)
        fail_msg("field %.*s: %u, index %u", (int)len, name, pmiwire__field_find(s, NULL), index);
    free(copy);
}

static void look_up_mutated(const char *name)
{
    char b[64];
    size_t n = strlen(name);

    look_up(name, n);
    for (size_t i = 0; i < n; i++) {
        look_up(name, i);
        look_up(name + i, n - i);
        for (unsigned c = 0; c < 256; c++) {
            memcpy(b, name, n);
            b[i] = (char)c;
            look_up(b, n);
        }
        for (size_t k = 0; k < i; k++) { /* two neighbours or more exchanged */
            memcpy(b, name, n);
            b[i] = name[k];
            b[k] = name[i];
            look_up(b, n);
        }
    }
    for (unsigned c = 0; c < 256; c++) {
        memcpy(b, name, n);
        b[n] = (char)c;
        look_up(b, n + 1);
        for (unsigned k = 2; k < 14; k++) {
            b[n + k - 1] = c ? (char)('0' + rnd(10)) : '\0';
            look_up(b, n + k);
        }
        b[0] = (char)c;
        memcpy(b + 1, name, n);
        look_up(b, n + 1);
    }
}

static void names(void **state)
{
    const struct pmiwire_command_desc *c;
    uint32_t count = 0;

    for (uint16_t id = 0; id < PMIWIRE_CMD_COUNT_; id++) {
        if ((c = pmiwire_command_get(id)) == NULL)
            continue;
        count++;
        assert_int_equal(c->id, id);
        assert_int_equal(c->name_bytes, strlen(c->name));
        assert_int_equal(pmiwire__command_find(c->wire, pmiwire_strz(c->name)), c->id);
        look_up_mutated(c->name);
    }
    assert_int_equal(count, PMIWIRE_V1_FINALIZE_ACK + PMIWIRE_V2_FINALIZE_RESPONSE -
                                PMIWIRE_V2_FULLINIT + 1);
    for (uint16_t id = 1; id < F(COUNT_); id++) {
        const struct pmiwire_field_desc *f = pmiwire_field_get(id);
        char key[64];
        uint32_t index = 77;

        assert_non_null(f);
        assert_int_equal(f->id, id);
        assert_int_equal(f->name_bytes, strlen(f->name));
        snprintf(key, sizeof(key), f->indexed ? "%s123456789" : "%s", f->name);
        assert_int_equal(pmiwire__field_find(pmiwire_strz(key), &index), id);
        assert_int_equal(index, f->indexed ? 123456789 : 0);
        look_up_mutated(f->name);
        if (f->indexed)
            look_up_mutated(key);
    }
    assert_null(pmiwire_field_get(0));
    assert_null(pmiwire_field_get(F(COUNT_)));
    assert_null(pmiwire_command_get(0));
    assert_null(pmiwire_command_get(40));
    assert_null(pmiwire_command_get(PMIWIRE_V2_FINALIZE_RESPONSE + 1));
    assert_null(pmiwire_command_get(UINT16_MAX));
    assert_int_equal(pmiwire__command_find(PMIWIRE_V1, view(NULL, 0)), 0);
    assert_int_equal(pmiwire__field_find(view(NULL, 0), NULL), 0);
    look_up("arg-1", 5);
    look_up("0", 1);
    look_up("1234567890123456789012345678901234567890", 40);
    look_up("a-name-that-is-longer-than-any-other-of-the-tables", 50);
}

/* A command by its own name, as in a server's answer to an unknown one. */
static void named_commands(void **state)
{
    static const char *const names_[] = {"",
                                         "a b",
                                         "a.b",
                                         "1234567890123456789012345678901",
                                         "12345678901234567890123456789012",
                                         "ok-1_A"};
    struct pmiwire_encoder e;
    char b[64];

    for (int k = 0; k < 6; k++) {
        pmiwire__enc_begin_named(&e, b, sizeof(b), PMIWIRE_V1, pmiwire_strz(names_[k]), NULL);
        assert_int_equal(pmiwire_enc_end(&e, NULL) > 0, k == 3 || k == 5);
        pmiwire__enc_begin_named(&e, b, sizeof(b), PMIWIRE_V1_MCMD, pmiwire_strz(names_[k]), NULL);
        assert_int_equal(pmiwire_enc_end(&e, NULL), -EINVAL);
    }
    pmiwire__enc_begin_named(&e, b, sizeof(b), PMIWIRE_V2, pmiwire_strz("x-y_9"), NULL);
    pmiwire_enc_str(&e, F(KEY), pmiwire_strz("a"));
    pmiwire_enc_str(&e, F(VALUE), pmiwire_strz("a;"));
    assert_int_equal(pmiwire_enc_end(&e, NULL), 32);
    assert_memory_equal(b, "    26cmd=x-y_9;key=a;value=a;;;", 32);
}

/* Properties that other tests and callers rely on. */
static void table_is_sound(void **state)
{
    const struct pmiwire_command_desc *c;

    for (uint16_t i = 0; i < PMIWIRE_CMD_COUNT_; i++) {
        if ((c = pmiwire_command_get(i)) == NULL)
            continue;
        const struct pmiwire_command_desc *reply = pmiwire_command_get(c->reply);

        assert_true(c->n_fields <= 32); /* pmiwire_msg_check() keeps a bit for each */
        assert_true(c->is_reply ? c->reply == 0 : c->reply != 0 || strcmp(c->name, "abort") == 0);
        if (reply && reply != c)
            assert_true(reply->is_reply && (reply->wire == PMIWIRE_V2) == (c->wire == PMIWIRE_V2));
        for (uint32_t k = 0; k < c->n_fields; k++) {
            const struct pmiwire_field_desc *f = pmiwire_field_get(c->fields[k].field);

            assert_non_null(f);
            assert_int_equal(f->indexed, (c->fields[k].flags & PMIWIRE_INDEXED) != 0);
            for (uint32_t j = 0; j < k; j++)
                assert_int_not_equal(c->fields[j].field, c->fields[k].field);
        }
    }
}

/* ---- Checking every command ------------------------------------------------ */

struct edit {
    int skip, twice, change; /* place of a field among the command's, -1: none */
    const char *value;       /* of the changed field */
    int refusal;             /* rc=1, and none of the other fields */
    int unknown;             /* unknown fields, in front and behind */
};

static const struct edit none = {-1, -1, -1, NULL, 0, 0};

static size_t put_field(char *b, const struct pmiwire_command_desc *c, const char *key,
                        const char *value)
{
    static const char *const forms[] = {NULL, " %s=%s", "%s=%s;", "%s=%s\n"};

    return (size_t)sprintf(b, forms[c->wire], key, value);
}

/* A message of the command with all its fields, except for the edit. Returns its length; *place:
 * where the edit is. */
static size_t write_message(char *b, const struct pmiwire_command_desc *c, const struct edit *e,
                            size_t *place)
{
    size_t n = (size_t)sprintf(b,
                               c->wire == PMIWIRE_V1   ? "cmd=%s"
                               : c->wire == PMIWIRE_V2 ? "      cmd=%s;"
                                                       : "mcmd=%s\n",
                               c->name);
    char length[24];

    if (e->unknown)
        n += put_field(b + n, c, "unheard-of", "");
    for (int k = 0; k < (int)c->n_fields; k++) {
        const struct pmiwire_field_desc *f = pmiwire_field_get(c->fields[k].field);
        const char *value = f->type == PMIWIRE_TYPE_INT    ? f->id == F(RC) ? "0" : "7"
                            : f->type == PMIWIRE_TYPE_BOOL ? "TRUE"
                                                           : "v";
        char key[40];

        snprintf(key, sizeof(key), "%s%s", f->name, f->indexed ? "1" : "");
        if (k == e->skip || (e->refusal && f->id != F(RC)))
            continue;
        if (k == e->change)
            *place = n + (c->wire == PMIWIRE_V1);
        n += put_field(b + n, c, key, e->refusal ? "1" : k == e->change ? e->value : value);
        if (k == e->twice) {
            *place = n + (c->wire == PMIWIRE_V1);
            n += put_field(b + n, c, key, value);
        }
    }
    if (e->unknown)
        n += put_field(b + n, c, "unheard-of", "x");
    n += (size_t)sprintf(b + n, "%s",
                         c->wire == PMIWIRE_V1   ? "\n"
                         : c->wire == PMIWIRE_V2 ? ""
                                                 : "endcmd\n");
    if (c->wire == PMIWIRE_V2) {
        sprintf(length, "%6zu", n - 6);
        memcpy(b, length, 6);
    }
    return n;
}

/* Writes, decodes and checks; the check must return this. */
static void judge(const struct pmiwire_command_desc *c, struct edit e, uint32_t flags, int code,
                  uint16_t field)
{
    char b[4096];
    struct pmiwire_field fields[40];
    struct pmiwire_msg m = {.fields = fields, .cap_fields = 40};
    struct pmiwire_error diag = {1, 2, 3, 4, ""};
    struct pmiwire_decoder d;
    size_t place = 0, n = write_message(b, c, &e, &place);
    int rc;

    pmiwire_decoder_init(&d, 0, 0);
    if (pmiwire_decode(&d, b, n, &m) != (ssize_t)n || m.id != c->id)
        fail_msg("not decoded: %.*s", (int)n, b);
    rc = pmiwire_msg_check(&m, flags, &diag);
    if (rc != code || pmiwire_msg_check(&m, flags, NULL) != code)
        fail_msg("%s, not %s: %.*s", pmiwire_strerror(rc), pmiwire_strerror(code), (int)n, b);
    if (code == 0) {
        assert_true(diag.code == 1 && diag.command == 2 && diag.field == 3 && diag.offset == 4);
        return;
    }
    if (diag.code != code || diag.command != c->id || diag.field != field ||
        diag.offset != (code == PMIWIRE_EMISSING ? 0 : place))
        fail_msg("%.*s: diag {%d, %u, %u, %zu}, place %zu", (int)n, b, diag.code, diag.command,
                 diag.field, diag.offset, place);
    assert_true(strstr(diag.text, c->name) == diag.text &&
                strstr(diag.text, pmiwire_field_get(field)->name) != NULL);
    assert_non_null(strstr(diag.text, pmiwire_strerror(code)));
}

static void judge_field(const struct pmiwire_command_desc *c, uint32_t k)
{
    static const char *const no_numbers[] = {"x",   "1x",         "-",           "+1",
                                             "0x1", "2147483648", "-2147483649", "99999999999"};
    static const char *const no_truths[] = {"x", "TRUEE", "tru", "2", "-1", "TruE", "yesno"};
    static const char *const truths[] = {"TRUE", "FALSE", "true", "false", "yes", "no", "1", "0"};
    const struct pmiwire_field_desc *f = pmiwire_field_get(c->fields[k].field);
    uint16_t flags = c->fields[k].flags;
    struct edit e = none;

    e.skip = (int)k;
    judge(c, e, 0, flags & PMIWIRE_REQUIRED ? PMIWIRE_EMISSING : 0, f->id);
    judge(c, e, PMIWIRE_CHECK_FIRST_WINS, flags & PMIWIRE_REQUIRED ? PMIWIRE_EMISSING : 0, f->id);
    e = none;
    e.twice = (int)k;
    judge(c, e, 0, flags & PMIWIRE_REPEATS ? 0 : PMIWIRE_EDUP, f->id);
    judge(c, e, PMIWIRE_CHECK_FIRST_WINS, 0, 0);
    e = none;
    e.change = (int)k;
    e.value = "";
    judge(c, e, 0, (flags & PMIWIRE_MAYEMPTY) || f->type == PMIWIRE_TYPE_TEXT ? 0 : PMIWIRE_EEMPTY,
          f->id);
    for (size_t i = 0; f->type == PMIWIRE_TYPE_INT && i < N_OF(no_numbers); i++) {
        e.value = no_numbers[i];
        judge(c, e, 0, PMIWIRE_ETYPE, f->id);
    }
    for (size_t i = 0; f->type == PMIWIRE_TYPE_BOOL && i < N_OF(no_truths); i++) {
        e.value = no_truths[i];
        judge(c, e, PMIWIRE_CHECK_FIRST_WINS, PMIWIRE_ETYPE, f->id);
    }
    for (size_t i = 0; f->type == PMIWIRE_TYPE_BOOL && i < N_OF(truths); i++) {
        e.value = truths[i];
        judge(c, e, 0, 0, 0);
    }
}

static void every_command(void **state)
{
    const struct pmiwire_command_desc *c;

    for (uint16_t i = 0; i < PMIWIRE_CMD_COUNT_; i++) {
        if ((c = pmiwire_command_get(i)) == NULL)
            continue;
        struct edit e = none;

        judge(c, e, 0, 0, 0);
        e.unknown = 1;
        judge(c, e, 0, 0, 0);
        e = none;
        e.refusal = 1;
        if (c->is_reply)
            judge(c, e, 0, 0, 0); /* a reply with rc != 0 needs no other field */
        for (uint32_t k = 0; k < c->n_fields; k++)
            judge_field(c, k);
    }
}

static int check_text(const char *text, uint32_t flags, struct pmiwire_error *diag,
                      struct pmiwire_msg *m)
{
    static struct pmiwire_field fields[16];
    struct pmiwire_decoder d;

    m->fields = fields;
    m->cap_fields = 16;
    pmiwire_decoder_init(&d, 0, 0);
    assert_int_equal(pmiwire_decode(&d, text, strlen(text), m), strlen(text));
    return pmiwire_msg_check(m, flags, diag);
}

static void single_checks(void **state)
{
    struct pmiwire_error diag;
    struct pmiwire_msg m;

    assert_int_equal(check_text("cmd=zap key=1\n", 0, &diag, &m), PMIWIRE_EUNKNOWN);
    assert_true(diag.command == 0 && diag.field == 0 && diag.offset == 0);
    assert_string_equal(diag.text, "unknown command");
    assert_int_equal(check_text("cmd=put value=1\n", 0, &diag, &m), PMIWIRE_EMISSING);
    assert_string_equal(diag.text, "put: a mandatory field is missing: field \"key\"");
    assert_int_equal(check_text("mcmd=spawn\nnprocs=x\nendcmd\n", 0, &diag, &m), PMIWIRE_ETYPE);
    assert_string_equal(
        diag.text, "spawn: a field has a value of the wrong form: field \"nprocs\" at byte 11");
    /* A missing required field is an error only when rc is success; an invalid rc is an error of
     * its own. */
    assert_int_equal(check_text("cmd=get_result rc=-3\n", 0, NULL, &m), 0);
    assert_int_equal(check_text("cmd=get_result rc=0\n", 0, NULL, &m), PMIWIRE_EMISSING);
    assert_int_equal(check_text("cmd=get_result\n", 0, NULL, &m), PMIWIRE_EMISSING);
    assert_int_equal(check_text("cmd=get_result rc=x\n", 0, NULL, &m), PMIWIRE_ETYPE);
    assert_int_equal(check_text("cmd=put rc=1\n", 0, NULL, &m), PMIWIRE_EMISSING); /* no reply */
    /* Of doubled fields the first wins, whatever the second holds. */
    assert_int_equal(
        check_text("cmd=get_result rc=0 rc=x value=a value=\n", PMIWIRE_CHECK_FIRST_WINS, NULL, &m),
        0);
}

/* No text is cut. */
static void longest_text(void **state)
{
    struct pmiwire_error err;
    size_t longest = 0;

    for (int code = -21033; code <= 0; code = code == -21001 ? 0 : code + 1)
        for (uint16_t f = 0; f <= F(COUNT_); f++) {
            size_t n;

            assert_int_equal(
                pmiwire__msg_error(&err, code, PMIWIRE_V2_INFO_GETNODEATTR_RESPONSE, f, SIZE_MAX),
                code);
            n = strlen(err.text);
            longest = n > longest ? n : longest;
        }
    assert_true(longest < sizeof(err.text) - 1 && longest > 100);
}

static void error_texts(void **state)
{
    const int unknown[] = {-21000, -21035, -4096, -4095, INT_MIN, 2, EIO, INT_MAX};

    for (int code = PMIWIRE_EGONE; code <= PMIWIRE_EBADLEN; code++)
        assert_string_not_equal(pmiwire_strerror(code), "unknown error code");
    for (int number = 1; number <= 40; number++)
        assert_string_equal(pmiwire_strerror(-number), strerror(number));
    assert_string_equal(pmiwire_strerror(0), "success");
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        assert_string_equal(pmiwire_strerror(unknown[i]), "unknown error code");
}

/* ---- Typed access ---------------------------------------------------------- */

static void integers(void **state)
{
    static const struct {
        const char *text;
        int rc;
        int32_t value;
    } cases[] = {
        {"0", 0, 0},
        {"-0", 0, 0},
        {"7", 0, 7},
        {"-7", 0, -7},
        {"007", 0, 7},
        {"0000000007", 0, 7},
        {"2147483647", 0, INT32_MAX},
        {"-2147483648", 0, INT32_MIN},
        {"2147483648", PMIWIRE_ETYPE, 0},
        {"-2147483649", PMIWIRE_ETYPE, 0},
        {"9999999999", PMIWIRE_ETYPE, 0},
        {"00000000007", PMIWIRE_ETYPE, 0},
        {"4294967296", PMIWIRE_ETYPE, 0},
        {"18446744073709551616", PMIWIRE_ETYPE, 0},
        {"", PMIWIRE_ETYPE, 0},
        {"-", PMIWIRE_ETYPE, 0},
        {"--1", PMIWIRE_ETYPE, 0},
        {"+1", PMIWIRE_ETYPE, 0},
        {" 1", PMIWIRE_ETYPE, 0},
        {"1 ", PMIWIRE_ETYPE, 0},
        {"1-", PMIWIRE_ETYPE, 0},
        {"0x1", PMIWIRE_ETYPE, 0},
        {"1e3", PMIWIRE_ETYPE, 0},
        {"/", PMIWIRE_ETYPE, 0},
        {":", PMIWIRE_ETYPE, 0},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        size_t n = strlen(cases[i].text);
        char *copy = exact_copy(cases[i].text, n);
        int32_t out = 12345;

        if (pmiwire__parse_int(view(copy, n), &out) != cases[i].rc ||
            out != (cases[i].rc ? 12345 : cases[i].value))
            fail_msg("\"%s\": %d", cases[i].text, (int)out);
        free(copy);
    }
    assert_int_equal(pmiwire__parse_int(view(NULL, 0), &(int32_t){0}), PMIWIRE_ETYPE);
}

static void access_to_fields(void **state)
{
    struct pmiwire_str s = {"x", 1};
    struct pmiwire_msg m;
    int32_t number = 5, truth = 5;

    check_text("cmd=get_result rc=-2 rc=3 found=no found2=yes own=a own=b value=v tag=z\n", 0, NULL,
               &m);
    assert_int_equal(pmiwire_msg_int(&m, F(RC), &number), 0);
    assert_int_equal(number, -2);
    assert_int_equal(pmiwire_msg_int(&m, F(VALUE), &number), PMIWIRE_ETYPE);
    assert_int_equal(pmiwire_msg_int(&m, F(KEY), &number), PMIWIRE_EMISSING);
    assert_int_equal(number, -2);
    assert_int_equal(pmiwire_msg_int(&m, F(FOUND), &truth), 0);
    assert_int_equal(truth, 0);
    assert_int_equal(pmiwire_msg_int(&m, F(TAG), &truth), PMIWIRE_ETYPE);
    assert_int_equal(pmiwire_msg_int(&m, F(WAIT), &truth), PMIWIRE_EMISSING);
    assert_int_equal(truth, 0);
    assert_int_equal(pmiwire_msg_str(&m, F(KEY), &s), PMIWIRE_EMISSING);
    assert_true(same(s, "x"));
    assert_int_equal(pmiwire_msg_str(&m, F(VALUE), &s), 0);
    assert_true(same(s, "v"));
    assert_ptr_equal(pmiwire__msg_field(&m, F(FOUND)), &m.fields[2]);
    assert_null(pmiwire__msg_field(&m, F(KEY)));
    check_text("cmd=barrier_out fp-left2=z fp-left=a fp-left=b\n", 0, NULL, &m);
    assert_int_equal(pmiwire_msg_ext(&m, PMIWIRE_EXT_LEFT, &s), 0);
    assert_true(same(s, "a"));
    assert_int_equal(pmiwire_msg_ext(&m, PMIWIRE_EXT_RIGHT, &s), PMIWIRE_EMISSING);
    assert_true(same(s, "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(named_commands),
        cmocka_unit_test(table_is_sound),
        cmocka_unit_test(every_command),
        cmocka_unit_test(single_checks),
        cmocka_unit_test(longest_text),
        cmocka_unit_test(error_texts),
        cmocka_unit_test(integers),
        cmocka_unit_test(access_to_fields),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
