/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases: keys and values at their maximum and over it, and with bytes that the framing uses itself.
 * */
#include <string.h>

#include "cases.h"

static size_t length_for(int arg, int advertised)
{
    const size_t max = (size_t)advertised;

    /* The advertised maximum counts a NUL: the longest text is one shorter. */
    return arg == AT_MAX ? max - 1 : arg == OVER_MAX ? max : 3 * max;
}

/* Compares a value with the one that was put: whole, cut, changed or lost. */
static _Noreturn void judge_value(struct play *p, const char *what, const char *sent,
                                  size_t sent_len, int got_rc, struct pmiwire_str got)
{
    char a[80];

    /* PMI-2 reports a miss by found=FALSE, a refusal by rc; PMI-1 has rc for both. */
    if (got_rc != 0 && p->wire == PMIWIRE_V2 && rc_of(p) != 0)
        finish(p, V_ERROR, "put, but refused to this reader: %s", p->text);
    if (got_rc != 0)
        finish(p, V_WRONG, "rc=0, but the %s is lost: %s", what, p->text);
    if (got.len == sent_len && memcmp(got.ptr, sent, sent_len) == 0)
        finish(p, V_OK, "%zu bytes, whole", sent_len);
    if (got.len < sent_len && memcmp(got.ptr, sent, got.len) == 0)
        finish(p, V_WRONG, "rc=0, but cut from %zu to %zu bytes", sent_len, got.len);
    finish(p, V_WRONG, "rc=0, but changed: %s", printable(got.ptr, got.len, a, sizeof(a)));
}

void case_value_len(struct play *p)
{
    static char value[32768], again[32768];
    struct pmiwire_str got;
    size_t len;
    int rc;

    begin(p);
    len = length_for(p->pc->arg, p->vallen_max);
    if (len >= sizeof(value))
        finish(p, V_NO, "the maximum is %d", p->vallen_max);
    for (size_t i = 0; i < len; i++)
        value[i] = (char)('a' + i % 26);
    memcpy(again, value, len);
    if (put(p, "long", value, len) != 0)
        finish(p, V_ERROR, "%zu bytes: %s", len, p->text);
    fence(p);
    rc = get(p, "long", &got);
    judge_value(p, "value", again, len, rc, got);
}

void case_key_len(struct play *p)
{
    static char key[8192];
    struct pmiwire_str got;
    size_t len;

    begin(p);
    len = length_for(p->pc->arg, p->keylen_max);
    /* A Z and a NUL are to follow it. */
    if (len > sizeof(key) - 2)
        finish(p, V_NO, "the maximum is %d", p->keylen_max);
    for (size_t i = 0; i < len; i++)
        key[i] = (char)('a' + i % 26);
    if (put(p, key, "of-long-key", 11) != 0)
        finish(p, V_ERROR, "%zu bytes: %s", len, p->text);
    fence(p);
    if (get(p, key, &got) != 0)
        finish(p, V_WRONG, "rc=0, but a key of %zu bytes is not found", len);
    if (!str_is(got, "of-long-key"))
        finish(p, V_WRONG, "%s", p->text);
    /* A server that cuts keys finds the pair under any key that begins alike. */
    key[len] = 'Z';
    key[len + 1] = '\0';
    if (p->pc->arg != AT_MAX && get(p, key, &got) == 0)
        finish(p, V_WRONG, "rc=0, but the key was cut: another key finds the pair");
    finish(p, V_OK, "%zu bytes, whole", len);
}

void case_value_bytes(struct play *p)
{
    /* The bytes written, and those that must come back. */
    static const struct {
        const char *sent, *want;
    } bytes[] = {
        [B_SPACE] = {"a b", "a b"},    [B_SEMICOLON] = {"a;b", "a;b"},
        [B_DOUBLED] = {"a;;b", "a;b"}, [B_BACKSLASH] = {"a\\b", "a\\b"},
        [B_EQUALS] = {"a=b", "a=b"},   [B_8BIT] = {"a\xc3\xa4z", "a\xc3\xa4z"},
        [B_EMPTY] = {"", ""},
    };
    int which = p->pc->arg & ~B_SLURM;
    const char *sent = bytes[which].sent, *want = bytes[which].want;
    struct pmiwire_str got;
    char plain[256];
    int rc;

    p->pad_right = (p->pc->arg & B_SLURM) != 0;
    begin(p);
    if (put_as_is(p, "key", sent) != 0) {
        char text[sizeof(p->text)];

        memcpy(text, p->text, sizeof(text));
        alive(p);
        finish(p, V_ERROR, "%s", text);
    }
    fence(p);
    rc = get(p, "key", &got);
    if (rc == 0 && p->wire == PMIWIRE_V2 && got.len < sizeof(plain)) {
        got.len = pmiwire_unescape(got, plain);
        got.ptr = plain;
    }
    judge_value(p, "value", want, strlen(want), rc, got);
}
