/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases: versions, each client's first requests, pairs and fences, splitting and pipelining. */
#include <stdlib.h>
#include <string.h>

#include "cases.h"

void case_init(struct play *p)
{
    int major = p->pc->arg / 10, minor = p->pc->arg % 10;

    begin_version(p, major, minor);
    p->begun = true;
    if (number_of(p, PMIWIRE_F_RC, "rc") != 0)
        finish(p, V_ERROR, "%s", p->text);
    if (number_of(p, PMIWIRE_F_PMI_VERSION, "pmi_version") != major)
        finish(p, V_WRONG, "another version: %s", p->text);
    if (number_of(p, PMIWIRE_F_PMI_SUBVERSION, "pmi_subversion") > minor)
        finish(p, V_WRONG, "a higher subversion than asked: %s", p->text);
    finish(p, V_OK, "%s", p->text);
}

void case_init_unknown(struct play *p)
{
    int32_t version = -1;

    begin_version(p, 9, 0);
    p->spoiled = true;
    if (number_of(p, PMIWIRE_F_RC, "rc") != 0)
        finish(p, V_ERROR, "%s", p->text);
    pmiwire_msg_int(&p->c.msg, PMIWIRE_F_PMI_VERSION, &version);
    finish(p, V_WRONG, version == 9 ? "claims version 9: %s" : "rc=0: %s", p->text);
}

void case_maxes(struct play *p)
{
    begin(p);
    if (p->kvsname_max < 16 || p->keylen_max < 16 || p->vallen_max < 64)
        finish(p, V_WRONG, "too small for any client: %d/%d/%d", p->kvsname_max, p->keylen_max,
               p->vallen_max);
    finish(p, V_OK, "%d/%d/%d", p->kvsname_max, p->keylen_max, p->vallen_max);
}

void case_number(struct play *p)
{
    begin(p);
    request_plain(p, p->pc->arg ? PMIWIRE_V1_GET_UNIVERSE_SIZE : PMIWIRE_V1_GET_APPNUM, 0);
    number_of(p, p->pc->arg ? PMIWIRE_F_SIZE : PMIWIRE_F_APPNUM, p->pc->arg ? "size" : "appnum");
    finish(p, V_OK, "%s", p->text);
}

void case_kvsname(struct play *p)
{
    begin(p);
    if ((int)strlen(p->kvsname) >= p->kvsname_max)
        finish(p, V_WRONG, "longer than kvsname_max: %s", p->kvsname);
    finish(p, V_OK, "%s", p->kvsname);
}

void case_init_2(struct play *p)
{
    begin_version(p, 2, 0);
    if (number_of(p, PMIWIRE_F_RC, "rc") != 0)
        finish(p, V_ERROR, "%s", p->text);
    if (number_of(p, PMIWIRE_F_PMI_VERSION, "pmi_version") != 2)
        finish(p, V_WRONG, "another version: %s", p->text);
    fullinit(p, true);
}

void case_fullinit(struct play *p)
{
    static const struct {
        uint16_t id;
        const char *name;
    } truth[] = {{PMIWIRE_F_DEBUGGED, "debugged"}, {PMIWIRE_F_PMIVERBOSE, "pmiverbose"}};

    begin(p);
    if (number_of(p, PMIWIRE_F_V2_PMI_VERSION, "pmi-version") != 2)
        finish(p, V_WRONG, "pmi-version is not 2: %s", p->text);
    number_of(p, PMIWIRE_F_V2_PMI_SUBVERSION, "pmi-subversion");
    number_of(p, PMIWIRE_F_APPNUM, "appnum");
    if (number_of(p, PMIWIRE_F_RANK, "rank") != p->rank)
        finish(p, V_WRONG, "not the rank of PMI_RANK: %s", p->text);
    if (number_of(p, PMIWIRE_F_SIZE, "size") != p->size)
        finish(p, V_WRONG, "not the size of PMI_SIZE: %s", p->text);
    for (int i = 0; i < 2; i++) {
        struct pmiwire_str s = field_of(p, truth[i].id);

        if (s.ptr && !str_is(s, "TRUE") && !str_is(s, "FALSE"))
            finish(p, V_WRONG, "%s is neither TRUE nor FALSE: %s", truth[i].name, p->text);
    }
    finish(p, V_OK, "%s", p->text);
}

void case_fullinit_bare(struct play *p)
{
    begin_version(p, 2, 0);
    fullinit(p, false);
    finish(p, V_OK, "%s", p->text);
}

void case_thrid(struct play *p)
{
    begin(p);
    if (field_of(p, PMIWIRE_F_THRID).ptr)
        finish(p, V_WRONG, "thrid without having been asked: %s", p->text);
    request_begin(p, 0, PMIWIRE_V2_JOB_GETID);
    request_text(p, PMIWIRE_F_THRID, "0x1234");
    request_call(p);
    if (!str_is(field_of(p, PMIWIRE_F_THRID), "0x1234"))
        finish(p, V_WRONG, "thrid=0x1234 expected, got: %s", p->text);
    request_plain(p, 0, PMIWIRE_V2_JOB_GETID);
    if (field_of(p, PMIWIRE_F_THRID).ptr)
        finish(p, V_WRONG, "thrid without having been asked: %s", p->text);
}

void case_jobid(struct play *p)
{
    begin(p);
    request_plain(p, 0, PMIWIRE_V2_JOB_GETID);
    if (rc_of(p) != 0)
        finish(p, V_ERROR, "%s", p->text);
    if (!field_of(p, PMIWIRE_F_JOBID).len)
        finish(p, V_WRONG, "no jobid: %s", p->text);
    finish(p, V_OK, "%s", p->text);
}

void case_put_get(struct play *p)
{
    char key[16], value[32];

    begin(p);
    snprintf(key, sizeof(key), "k%d", p->rank);
    snprintf(value, sizeof(value), "value-of-%d", p->rank);
    put_ok(p, key, value);
    fence(p);
    for (int r = 0; r < p->pc->ranks; r++) {
        snprintf(key, sizeof(key), "k%d", r);
        snprintf(value, sizeof(value), "value-of-%d", r);
        get_is(p, key, value);
    }
}

void case_last_wins(struct play *p)
{
    begin(p);
    put_ok(p, "key", "first");
    put_ok(p, "key", "second");
    fence(p);
    get_is(p, "key", "second");
    put_ok(p, "key", "third");
    fence(p);
    get_is(p, "key", "third");
}

void case_own_put(struct play *p)
{
    struct pmiwire_str s;

    begin(p);
    put_ok(p, "key", "value");
    if (get(p, "key", &s) != 0)
        finish(p, V_NO, "only after the fence");
    if (!str_is(s, "value"))
        finish(p, V_WRONG, "%s", p->text);
    finish(p, V_OK, "visible");
}

/* A fence may answer early, but a get behind it must find the pair that a slow rank put before its
 * fence. */
void case_late_put(struct play *p)
{
    int64_t start;

    begin(p);
    fence(p);
    if (p->rank == 1) {
        sleep_ms(400);
        put_ok(p, "late", "here");
    }
    start = now_ms();
    fence(p);
    if (p->rank == 0) {
        int waited = (int)(now_ms() - start);

        get_is(p, "late", "here");
        finish(p, V_OK,
               waited < 200 ? "the fence answers at once, the get waits" : "the fence waits");
    }
}

void case_miss(struct play *p)
{
    struct pmiwire_str s;

    begin(p);
    fence(p);
    if (get(p, "no-such-key", &s) == 0)
        finish(p, V_WRONG, "found: %s", p->text);
    finish(p, V_OK, "%s", p->text);
}

void case_split(struct play *p)
{
    size_t len;

    begin(p);
    put_begin(p);
    request_text(p, PMIWIRE_F_KEY, "split-key");
    request_text(p, PMIWIRE_F_VALUE, "split-value");
    len = request_end(p);
    for (size_t i = 0; i < len; i++) {
        say_raw(p, p->out + i, 1);
        sleep_ms(1);
    }
    hear_cmd(p, p->reply->name);
    fence(p);
    get_is(p, "split-key", "split-value");
}

void case_pipeline(struct play *p)
{
    static const char *const pairs[2][2] = {{"a", "1"}, {"b", "2"}};
    const char *want[4];
    char out[4000];
    size_t n = 0, len;

    begin(p);
    for (int i = 0; i < 4; i++) {
        if (i % 2 == 0) {
            put_begin(p);
            request_text(p, PMIWIRE_F_KEY, pairs[i / 2][0]);
            request_text(p, PMIWIRE_F_VALUE, pairs[i / 2][1]);
        } else {
            request_begin(p, i == 1 ? PMIWIRE_V1_GET_MAXES : PMIWIRE_V1_GET_APPNUM,
                          PMIWIRE_V2_JOB_GETID);
        }
        want[i] = p->reply->name;
        len = request_end(p);
        if (len > sizeof(out) - n)
            finish(p, V_NONE, "the name of the key-value space is too long");
        memcpy(out + n, p->out, len);
        n += len;
    }
    say_raw(p, out, n);
    for (int i = 0; i < 4; i++)
        hear_cmd(p, want[i]);
    fence(p);
    get_is(p, "a", "1");
    get_is(p, "b", "2");
}

static void add_extra_fields(struct play *p)
{
    char key[16], value[16];

    for (int i = 0; i < 16; i++) {
        snprintf(key, sizeof(key), "x-probe%d", i);
        snprintf(value, sizeof(value), "%d", i);
        pmiwire_enc_extra(&p->enc, key, pmiwire_strz(value));
    }
}

void case_extra(struct play *p)
{
    begin(p);
    put_begin(p);
    add_extra_fields(p);
    request_text(p, PMIWIRE_F_KEY, "k");
    request_text(p, PMIWIRE_F_VALUE, "v");
    request_call(p);
    if (rc_of(p) != 0)
        finish(p, V_ERROR, "%s", p->text);
    request_begin(p, PMIWIRE_V1_BARRIER_IN, PMIWIRE_V2_KVS_FENCE);
    add_extra_fields(p);
    request_call(p);
    get_is(p, "k", "v");
}

void case_mapping(struct play *p)
{
    struct pmiwire_mapping_block blocks[64];
    struct pmiwire_str s = {NULL, 0};
    uint32_t n = 0;
    int rc;

    begin(p);
    if (p->wire == PMIWIRE_V2) {
        request_begin(p, 0, PMIWIRE_V2_INFO_GETJOBATTR);
        request_text(p, PMIWIRE_F_KEY, "PMI_process_mapping");
        request_call(p);
        s = field_of(p, PMIWIRE_F_VALUE);
        if (rc_of(p) != 0 || !s.ptr)
            finish(p, V_NO, "%s", p->text);
    } else if (get(p, "PMI_process_mapping", &s) != 0) {
        finish(p, V_NO, "%s", p->text);
    }
    if (!s.len)
        finish(p, V_WRONG, "empty: MPICH 4.0 aborts");
    rc = pmiwire_mapping_parse(s, blocks, 64, &n, NULL);
    if (rc < 0)
        finish(p, V_WRONG, "%s: %s", pmiwire_strerror(rc), p->text);
    /* Only triples are classic: no '[' and the right number of commas. */
    if (memchr(s.ptr, '[', s.len) || s.len > PMIWIRE_MAPPING_MPICH40_BYTES)
        finish(p, V_WRONG, "MPICH 4.0 cannot read this: %s", p->text);
    if (s.len > 8 && s.ptr[8] != '(')
        finish(p, V_WRONG, "not a list of triples, MPICH 4.0 cannot read it: %s", p->text);
    finish(p, V_OK, "%.*s", (int)(s.len < 200 ? s.len : 200), s.ptr);
}

void case_pad(struct play *p)
{
    begin(p);
    p->pad_right = p->pc->arg != 0;
    request_plain(p, 0, PMIWIRE_V2_JOB_GETID);
}

void case_finalize_twice(struct play *p)
{
    begin(p);
    request_plain(p, PMIWIRE_V1_FINALIZE, PMIWIRE_V2_FINALIZE);
    p->spoiled = true;
    request_begin(p, PMIWIRE_V1_FINALIZE, PMIWIRE_V2_FINALIZE);
    request_send(p);
    hear(p);
    finish(p, rc_of(p) ? V_ERROR : V_OK, "%s", p->text);
}
