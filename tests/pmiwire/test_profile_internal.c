/* SPDX-License-Identifier: BSD-3-Clause */
/* Profiles: the values that each flag allows, and every limit from both sides, by the checks and by
 * the encoder. */
#include "codec_tools.h"

#include "../../libpmiwire/src/codec/codec_internal.h"

#define F(name) PMIWIRE_F_##name
#define V1      PMIWIRE_V1
#define V2      PMIWIRE_V2
#define MCMD    PMIWIRE_V1_MCMD

static char large[200000];

static void found_by_name(void **state)
{
    static const char *const names[] = {"portable",      "any-server", "mpich-4.0", "mpich-main",
                                        "slurm-libpmi2", "flux",       "hydra-4.0", "hydra-main",
                                        "slurmstepd",    "fencepost"};
    uint32_t n = 0;

    for (; pmiwire_profile_at(n); n++) {
        const struct pmiwire_profile *p = pmiwire_profile_at(n);

        assert_ptr_equal(pmiwire_profile_find(p->name), p);
        assert_non_null(p->peer);
        assert_true(p->flags & (PMIWIRE_PEER_V1 | PMIWIRE_PEER_V2));
    }
    assert_int_equal(n, N_OF(names));
    for (size_t i = 0; i < N_OF(names); i++)
        assert_non_null(pmiwire_profile_find(names[i]));
    assert_null(pmiwire_profile_find("mpich"));
    assert_null(pmiwire_profile_find(""));
    assert_null(pmiwire_profile_find(NULL));
    assert_null(pmiwire_profile_at(UINT32_MAX));
}

/* What was measured of each peer: the bytes of these that its values carry on each wire, NULL where
 * it speaks another, and its longest name of a space. */
static void as_measured(void **state)
{
    static const char bytes[] = " ;\\\t\200";
    static const struct {
        const char *name, *v1, *v2;
        uint32_t kvsname;
    } peers[] = {
        {"portable", "", "", 63},
        {"any-server", ";", "", 255},
        {"mpich-4.0", ";\\", NULL, 255},
        {"mpich-main", ";", " \t\200", 255},
        {"slurm-libpmi2", NULL, " ;\\\t\200", 255},
        {"flux", " ;\\", NULL, 63},
        {"hydra-4.0", ";\\", " \\", 255},
        {"hydra-main", ";", "", 255},
        {"slurmstepd", ";\\", " \\", 255},
        {"fencepost", ";\\\200", " ;\\\200", 255},
    };

    for (size_t i = 0; i < N_OF(peers); i++) {
        const struct pmiwire_profile *p = pmiwire_profile_find(peers[i].name);

        assert_int_equal(p->max_kvsname_bytes, peers[i].kvsname);
        for (uint16_t wire = V1; wire <= V2; wire++) {
            const char *want = wire == V1 ? peers[i].v1 : peers[i].v2;
            const uint32_t speaks = wire == V1 ? PMIWIRE_PEER_V1 : PMIWIRE_PEER_V2;

            assert_int_equal((p->flags & speaks) != 0, want != NULL);
            for (const char *b = bytes; want && *b; b++)
                if ((pmiwire__check_value(p, wire, view(b, 1)) == 0) != (strchr(want, *b) != NULL))
                    fail_msg("%s, PMI-%u, byte %d", p->name, wire, (unsigned char)*b);
        }
    }
}

/* "portable" promises that every peer carries the values that it allows. */
static void portable_is_the_least(void **state)
{
    const struct pmiwire_profile *least = pmiwire_profile_find("portable"), *p;

    for (uint32_t i = 0; (p = pmiwire_profile_at(i)) != NULL; i++) {
        uint32_t can = PMIWIRE_PEER_SPACES | PMIWIRE_PEER_EMPTY | PMIWIRE_PEER_BACKSLASH |
                       PMIWIRE_PEER_SEMICOLON_V1 | PMIWIRE_PEER_SEMICOLON_V2 |
                       PMIWIRE_PEER_EXTENDED_MAPPING | PMIWIRE_PEER_V1_2 | PMIWIRE_PEER_8BIT |
                       PMIWIRE_PEER_LONG_EXTRA | PMIWIRE_PEER_RAW_V2;

        assert_int_equal(least->flags & can & ~p->flags, 0);
        assert_true(p->max_key_bytes == 0 || least->max_key_bytes <= p->max_key_bytes);
        assert_true(p->max_value_bytes == 0 || least->max_value_bytes <= p->max_value_bytes);
        assert_true(p->max_kvsname_bytes == 0 || least->max_kvsname_bytes <= p->max_kvsname_bytes);
        assert_true(p->max_line_bytes == 0 || least->max_line_bytes <= p->max_line_bytes);
        assert_true(p->max_msg_bytes == 0 || least->max_msg_bytes <= p->max_msg_bytes);
        assert_true(p->max_fields == 0 || least->max_fields <= p->max_fields);
        assert_true(p->max_mapping_bytes == 0 || least->max_mapping_bytes <= p->max_mapping_bytes);
    }
}

/* Whether the flags allow one byte of a value; without a profile, the framing alone. */
static int carried(const struct pmiwire_profile *p, uint16_t wire, int c)
{
    if (c == 0 || (c == '\n' && wire != V2))
        return 0;
    if (!p)
        return c != ' ' || wire != V1;
    if (c == ' ')
        return wire == MCMD || (p->flags & PMIWIRE_PEER_SPACES) ||
               (wire == PMIWIRE_V2 && (p->flags & PMIWIRE_PEER_SPACES_V2));
    if (c == ';')
        return wire == MCMD ||
               (p->flags & (wire == V1 ? PMIWIRE_PEER_SEMICOLON_V1 : PMIWIRE_PEER_SEMICOLON_V2));
    if (c == '\\')
        return (p->flags & PMIWIRE_PEER_BACKSLASH) != 0;
    if (wire == V2 && (p->flags & PMIWIRE_PEER_RAW_V2))
        return 1;
    return c > 32 && c != 127 && (c < 127 || (p->flags & PMIWIRE_PEER_8BIT));
}

static void every_byte(const struct pmiwire_profile *p)
{
    static const uint16_t wires[] = {V1, V2, MCMD};

    for (size_t w = 0; w < 3; w++)
        for (int c = 0; c < 256; c++)
            for (int at = 0; at < 3; at++) {
                char b[3] = {'a', 'b', 'c'};
                int ok, in_key;

                b[at] = (char)c;
                ok = carried(p, wires[w], c) != 0;
                in_key = ok && c != '=' && c != ';' && c != '\n' && c != ' ';
                if (pmiwire__check_value(p, wires[w], view(b, 3)) != (ok ? 0 : PMIWIRE_ECHARS))
                    fail_msg("%s, wire %u, byte %d", p ? p->name : "none", wires[w], c);
                if (pmiwire__check_key(p, wires[w], view(b, 3)) != (in_key ? 0 : PMIWIRE_ECHARS))
                    fail_msg("%s, wire %u, byte %d of a key", p ? p->name : "none", wires[w], c);
            }
}

static void every_flag_and_byte(void **state)
{
    const struct pmiwire_profile *p;
    struct pmiwire_profile made = {.name = "made", .peer = "one flag at a time"};

    every_byte(NULL);
    for (uint32_t i = 0; (p = pmiwire_profile_at(i)) != NULL; i++)
        every_byte(p);
    for (uint32_t bit = 0; bit < 14; bit++) {
        made.flags = UINT32_C(1) << bit;
        every_byte(&made);
        made.flags = ~made.flags & 0x3fff;
        every_byte(&made);
    }
}

/* A refused byte at every place of values of every length over two blocks, in memory of exactly
 * that size. */
static void every_place(void **state)
{
    static const char refused[] = {' ', '\t', ';', '\\', 127, '\200', '\377'};
    const struct pmiwire_profile *p = pmiwire_profile_find("portable");

    for (size_t len = 1; len < 50; len++) {
        char *b = exact_copy(large, len);

        assert_int_equal(pmiwire__check_value(p, V2, view(b, len)), 0);
        assert_int_equal(pmiwire__check_key(p, V2, view(b, len)), 0);
        for (size_t at = 0; at < len; at++)
            for (size_t k = 0; k < sizeof(refused); k++) {
                b[at] = refused[k];
                assert_int_equal(pmiwire__check_value(p, V2, view(b, len)), PMIWIRE_ECHARS);
                assert_int_equal(pmiwire__check_key(p, V2, view(b, len)), PMIWIRE_ECHARS);
                b[at] = '=';
                assert_int_equal(pmiwire__check_value(p, V2, view(b, len)), 0);
                assert_int_equal(pmiwire__check_key(p, V2, view(b, len)), PMIWIRE_ECHARS);
                b[at] = 'x';
            }
        free(b);
    }
}

static void lengths(void **state)
{
    const struct pmiwire_profile *p;

    for (uint32_t i = 0; (p = pmiwire_profile_at(i)) != NULL; i++)
        for (uint16_t wire = V1; wire <= MCMD; wire++) {
            size_t key = p->max_key_bytes, value = p->max_value_bytes;

            assert_int_equal(pmiwire__check_key(p, wire, view(large, 0)), PMIWIRE_EEMPTY);
            assert_int_equal(pmiwire__check_key(p, wire, view(large, key - 1)), 0);
            assert_int_equal(pmiwire__check_key(p, wire, view(large, key)), 0);
            assert_int_equal(pmiwire__check_key(p, wire, view(large, key + 1)), PMIWIRE_EKEYLEN);
            assert_int_equal(pmiwire__check_value(p, wire, view(large, 0)),
                             p->flags & PMIWIRE_PEER_EMPTY ? 0 : PMIWIRE_EEMPTY);
            assert_int_equal(pmiwire__check_value(p, wire, view(large, 1)), 0);
            assert_int_equal(pmiwire__check_value(p, wire, view(large, value)), 0);
            assert_int_equal(pmiwire__check_value(p, wire, view(large, value + 1)),
                             PMIWIRE_EVALLEN);
        }
    assert_int_equal(pmiwire__check_key(NULL, V1, view(large, sizeof(large))), 0);
    assert_int_equal(pmiwire__check_value(NULL, V1, view(large, sizeof(large))), 0);
    assert_int_equal(pmiwire__check_value(NULL, V1, view(large, 0)), 0);
}

/* ---- By the encoder --------------------------------------------------------- */

/* A message of exactly these bytes and fields (`cmd` and `value` among them), or its refusal's
 * code. */
static ssize_t message(const struct pmiwire_profile *p, uint16_t cmd, size_t bytes,
                       uint32_t n_fields)
{
    static char b[300000];
    struct pmiwire_encoder e;
    size_t fixed = pmiwire_command_get(cmd)->wire == V2
                       ? 25
                       : 15; /* "      cmd=kvs-put;value=;", "cmd=put value=\n" */
    size_t value;

    pmiwire_enc_begin(&e, b, sizeof(b), cmd, p);
    for (uint32_t i = 2; i < n_fields; i++, fixed += 7) { /* " tag=12" or "tag=12;" */
        struct pmiwire_str two = {"12", 2};

        pmiwire_enc_str(&e, F(TAG), two);
    }
    value = bytes ? bytes - fixed : 1;
    for (; value > 300;
         value -=
         300) /* each below every limit of one value; " tag=…" or "tag=…;" is 5 bytes more */
        pmiwire_enc_str(&e, F(TAG), view(large, 295));
    pmiwire_enc_str(&e, F(VALUE), view(large, value));
    return pmiwire_enc_end(&e, NULL);
}

static void whole_messages(void **state)
{
    const struct pmiwire_profile *p;

    for (uint32_t i = 0; (p = pmiwire_profile_at(i)) != NULL; i++) {
        struct pmiwire_profile unlimited = *p;

        unlimited.max_fields = 0;
        if (p->max_line_bytes) {
            assert_int_equal(message(&unlimited, PMIWIRE_V1_PUT, p->max_line_bytes - 1, 2),
                             p->max_line_bytes - 1);
            assert_int_equal(message(&unlimited, PMIWIRE_V1_PUT, p->max_line_bytes, 2),
                             p->max_line_bytes);
            assert_int_equal(message(&unlimited, PMIWIRE_V1_PUT, p->max_line_bytes + 1, 2),
                             PMIWIRE_ELINE);
        }
        if (p->max_msg_bytes) {
            assert_int_equal(message(&unlimited, PMIWIRE_V2_KVS_PUT, p->max_msg_bytes - 1, 2),
                             p->max_msg_bytes - 1);
            assert_int_equal(message(&unlimited, PMIWIRE_V2_KVS_PUT, p->max_msg_bytes, 2),
                             p->max_msg_bytes);
            assert_int_equal(message(&unlimited, PMIWIRE_V2_KVS_PUT, p->max_msg_bytes + 1, 2),
                             PMIWIRE_ELINE);
        }
        if (p->max_fields) {
            unlimited = *p;
            unlimited.max_line_bytes = unlimited.max_msg_bytes = 0;
            for (int wire = 0; wire < 2; wire++) {
                uint16_t cmd = wire ? PMIWIRE_V2_KVS_PUT : PMIWIRE_V1_PUT;

                assert_true(message(&unlimited, cmd, 0, p->max_fields - 1) > 0);
                assert_true(message(&unlimited, cmd, 0, p->max_fields) > 0);
                assert_int_equal(message(&unlimited, cmd, 0, p->max_fields + 1),
                                 PMIWIRE_EPEERFIELDS);
            }
        }
    }
}

static ssize_t one_field(const struct pmiwire_profile *p, uint16_t cmd, uint16_t field,
                         size_t bytes, uint16_t *refused)
{
    static char b[300000];
    struct pmiwire_error err = {0};
    struct pmiwire_encoder e;
    ssize_t rc;

    pmiwire_enc_begin(&e, b, sizeof(b), cmd, p);
    pmiwire_enc_str(&e, field, view(large, bytes));
    rc = pmiwire_enc_end(&e, &err);
    *refused = err.field;
    return rc;
}

static void keys_and_values(void **state)
{
    static const uint16_t cmds[] = {PMIWIRE_V1_PUT, PMIWIRE_V2_KVS_PUT};
    const struct pmiwire_profile *p;

    for (uint32_t i = 0; (p = pmiwire_profile_at(i)) != NULL; i++)
        for (size_t k = 0; k < N_OF(cmds); k++) {
            struct pmiwire_profile wide = *p;
            uint16_t refused;

            wide.max_line_bytes = wide.max_msg_bytes = 0;
            assert_true(one_field(&wide, cmds[k], F(KEY), p->max_key_bytes, &refused) > 0);
            assert_int_equal(one_field(&wide, cmds[k], F(KEY), p->max_key_bytes + 1, &refused),
                             PMIWIRE_EKEYLEN);
            assert_int_equal(refused, F(KEY));
            assert_true(one_field(&wide, cmds[k], F(VALUE), p->max_value_bytes, &refused) > 0);
            assert_int_equal(one_field(&wide, cmds[k], F(VALUE), p->max_value_bytes + 1, &refused),
                             PMIWIRE_EVALLEN);
            assert_int_equal(refused, F(VALUE));
        }
}

/* Flux takes all behind value= as the value: spaces may stand there only, and nothing behind it. */
static void value_is_last(void **state)
{
    const struct pmiwire_profile *flux = pmiwire_profile_find("flux");
    struct pmiwire_encoder e;
    struct pmiwire_error err;
    char b[200];

    pmiwire_enc_begin(&e, b, sizeof(b), PMIWIRE_V1_GET_RESULT, flux);
    pmiwire_enc_int(&e, F(RC), 0);
    pmiwire_enc_str(&e, F(VALUE), pmiwire_strz("a b=c"));
    assert_int_equal(pmiwire_enc_end(&e, NULL), 32);
    assert_memory_equal(b, "cmd=get_result rc=0 value=a b=c\n", 32);
    pmiwire_enc_begin(&e, b, sizeof(b), PMIWIRE_V1_GET_RESULT, flux);
    pmiwire_enc_str(&e, F(VALUE), pmiwire_strz("a"));
    pmiwire_enc_int(&e, F(RC), 0);
    assert_int_equal(pmiwire_enc_end(&e, &err), PMIWIRE_ESTATE);
    assert_int_equal(err.field, F(RC));
    pmiwire_enc_begin(&e, b, sizeof(b), PMIWIRE_V1_PUT, flux);
    pmiwire_enc_str(&e, F(KVSNAME), pmiwire_strz("a b"));
    assert_int_equal(pmiwire_enc_end(&e, NULL), PMIWIRE_ECHARS);
    pmiwire_enc_begin(&e, b, sizeof(b), PMIWIRE_V1_GET_RESULT, NULL); /* others read on */
    pmiwire_enc_str(&e, F(VALUE), pmiwire_strz("a"));
    pmiwire_enc_int(&e, F(RC), 0);
    assert_int_equal(pmiwire_enc_end(&e, NULL), 28);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_by_name),         cmocka_unit_test(as_measured),
        cmocka_unit_test(portable_is_the_least), cmocka_unit_test(every_flag_and_byte),
        cmocka_unit_test(every_place),           cmocka_unit_test(lengths),
        cmocka_unit_test(whole_messages),        cmocka_unit_test(keys_and_values),
        cmocka_unit_test(value_is_last),
    };

    memset(large, 'x', sizeof(large));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
