/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases: name service, attributes, ring, barriers of groups, spawn, and the ways a job ends: by a
 * rank that leaves, or because a fence can no longer complete. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cases.h"

/* A name that no other job has, as name services may be shared. */
static const char *service_name(void)
{
    static char name[64];

    snprintf(name, sizeof(name), "pmiprobe-%d-%lld", (int)getpid(), (long long)now_ms());
    return name;
}

static int lookup_service(struct play *p, const char *name)
{
    request_begin(p, PMIWIRE_V1_LOOKUP_NAME, PMIWIRE_V2_NAME_LOOKUP);
    request_text(p, p->wire == PMIWIRE_V2 ? PMIWIRE_F_NAME : PMIWIRE_F_SERVICE, name);
    request_call(p);
    return rc_of(p);
}

/* PMI-1 clients need an rc: MPICH 4.0 takes a reply without one for a failure. */
static void call_name_service(struct play *p)
{
    int32_t rc;

    if (p->wire == PMIWIRE_V2)
        pmiwire_enc_int(&p->enc, PMIWIRE_F_INFOKEYCOUNT, 0);
    request_call(p);
    if (pmiwire_msg_int(&p->c.msg, PMIWIRE_F_RC, &rc) < 0)
        finish(p, V_WRONG, "no rc, which MPICH 4.0 needs: %s", p->text);
    if (rc != 0)
        finish(p, V_ERROR, "%s", p->text);
}

void case_publish(struct play *p)
{
    bool v2 = p->wire == PMIWIRE_V2;
    const char *name = service_name();

    begin(p);
    request_begin(p, PMIWIRE_V1_PUBLISH_NAME, PMIWIRE_V2_NAME_PUBLISH);
    request_text(p, v2 ? PMIWIRE_F_NAME : PMIWIRE_F_SERVICE, name);
    request_text(p, PMIWIRE_F_PORT, "host:1234");
    call_name_service(p);
    if (lookup_service(p, name) != 0)
        finish(p, V_ERROR, "published, but not found: %s", p->text);
    if (!str_is(field_of(p, PMIWIRE_F_PORT), "host:1234"))
        finish(p, V_WRONG, "no port, which MPICH reads: %s", p->text);
    if (v2 && !str_is(field_of(p, PMIWIRE_F_VALUE), "host:1234"))
        finish(p, V_WRONG, "no value, which Slurm's libpmi2 reads: %s", p->text);
    if (!v2 && field_of(p, PMIWIRE_F_RC).ptr == NULL)
        finish(p, V_WRONG, "no rc, which MPICH 4.0 needs: %s", p->text);
    request_begin(p, PMIWIRE_V1_UNPUBLISH_NAME, PMIWIRE_V2_NAME_UNPUBLISH);
    request_text(p, v2 ? PMIWIRE_F_NAME : PMIWIRE_F_SERVICE, name);
    call_name_service(p);
    if (lookup_service(p, name) == 0 && field_of(p, PMIWIRE_F_PORT).ptr)
        finish(p, V_WRONG, "still found after unpublish: %s", p->text);
}

void case_lookup_unknown(struct play *p)
{
    begin(p);
    if (lookup_service(p, service_name()) == 0)
        finish(p, V_WRONG, "rc=0 for an unpublished name: %s", p->text);
    finish(p, V_OK, "%s", p->text);
}

static void group_barrier(struct play *p, const char *group)
{
    request_begin(p, PMIWIRE_V1_BARRIER_IN, 0);
    request_text(p, PMIWIRE_F_GROUP, group);
    request_call(p);
    if (rc_of(p) != 0)
        finish(p, V_ERROR, "%s", p->text);
}

void case_group(struct play *p)
{
    begin_version(p, 1, 2);
    if (number_of(p, PMIWIRE_F_RC, "rc") != 0)
        finish(p, V_ERROR, "%s", p->text);
    p->begun = true;
    if (number_of(p, PMIWIRE_F_PMI_SUBVERSION, "pmi_subversion") < 2)
        finish(p, V_NO, "PMI 1.1 only");
    if (p->rank == 0) /* alone: rank 1 is not in the group */
        group_barrier(p, "0:7");
    else
        sleep_ms(300);
    group_barrier(p, "0,1:8");
    group_barrier(p, "WORLD:9");
}

void case_ring(struct play *p)
{
    char left[32], right[32], want_left[32], want_right[32];
    int n = p->size;

    begin(p);
    snprintf(left, sizeof(left), "left%d", p->rank);
    snprintf(right, sizeof(right), "right%d", p->rank);
    /* Each gets its left neighbour's right value and its right neighbour's left value. */
    snprintf(want_left, sizeof(want_left), "right%d", (p->rank + n - 1) % n);
    snprintf(want_right, sizeof(want_right), "left%d", (p->rank + 1) % n);
    request_begin(p, 0, PMIWIRE_V2_RING);
    pmiwire_enc_int(&p->enc, PMIWIRE_F_RING_COUNT, 1);
    request_text(p, PMIWIRE_F_RING_LEFT, left);
    request_text(p, PMIWIRE_F_RING_RIGHT, right);
    request_send(p);
    hear(p);
    if (p->c.msg.id != PMIWIRE_V2_RING_RESPONSE || rc_of(p) != 0)
        finish(p, V_ERROR, "%s", p->text);
    if (number_of(p, PMIWIRE_F_RING_COUNT, "ring-count") != p->rank)
        finish(p, V_WRONG, "ring-count is not the rank: %s", p->text);
    if (!str_is(field_of(p, PMIWIRE_F_RING_LEFT), want_left) ||
        !str_is(field_of(p, PMIWIRE_F_RING_RIGHT), want_right))
        finish(p, V_WRONG, "%s and %s expected: %s", want_left, want_right, p->text);
}

static void put_node_attr(struct play *p)
{
    request_begin(p, 0, PMIWIRE_V2_INFO_PUTNODEATTR);
    request_text(p, PMIWIRE_F_KEY, "attr");
    request_text(p, PMIWIRE_F_VALUE, "of-node");
    request_call(p);
    if (rc_of(p) != 0)
        finish(p, V_ERROR, "put of a node attribute refused: %s", p->text);
}

static void get_node_attr(struct play *p, const char *key, bool wait)
{
    request_begin(p, 0, PMIWIRE_V2_INFO_GETNODEATTR);
    request_text(p, PMIWIRE_F_KEY, key);
    pmiwire_enc_int(&p->enc, PMIWIRE_F_WAIT, wait);
    request_call(p);
}

static void node_attr_is(struct play *p, bool wait)
{
    int found = 0;

    get_node_attr(p, "attr", wait);
    pmiwire_msg_int(&p->c.msg, PMIWIRE_F_FOUND, &found);
    if (rc_of(p) != 0 || !found)
        finish(p, V_ERROR, "%s", p->text);
    if (!str_is(field_of(p, PMIWIRE_F_VALUE), "of-node"))
        finish(p, V_WRONG, "%s", p->text);
}

void case_nodeattr(struct play *p)
{
    begin(p);
    put_node_attr(p);
    node_attr_is(p, false);
}

void case_nodeattr_wait(struct play *p)
{
    begin(p);
    fence(p);
    if (p->rank == 0) {
        sleep_ms(300);
        put_node_attr(p);
    } else {
        int64_t start = now_ms();

        node_attr_is(p, true);
        if (now_ms() - start > 1500)
            finish(p, V_DELAYED, "answered %d ms after the put", (int)(now_ms() - start - 300));
    }
    fence(p);
}

static void get_job_attr(struct play *p, const char *key)
{
    request_begin(p, 0, PMIWIRE_V2_INFO_GETJOBATTR);
    request_text(p, PMIWIRE_F_KEY, key);
    request_call(p);
}

static void must_miss(struct play *p)
{
    int found = 1;

    pmiwire_msg_int(&p->c.msg, PMIWIRE_F_FOUND, &found);
    if (rc_of(p) == 0 && found)
        finish(p, V_WRONG, "neither found=FALSE nor an rc: %s", p->text);
    finish(p, V_OK, "%s", p->text);
}

void case_nodeattr_miss(struct play *p)
{
    begin(p);
    get_node_attr(p, "no-such-attr", false);
    must_miss(p);
}

void case_jobattr(struct play *p)
{
    begin(p);
    get_job_attr(p, "universeSize");
    if (rc_of(p) != 0 || !field_of(p, PMIWIRE_F_VALUE).len)
        finish(p, V_NO, "%s", p->text);
    number_of(p, PMIWIRE_F_VALUE, "value");
    finish(p, V_OK, "%s", p->text);
}

void case_jobattr_miss(struct play *p)
{
    begin(p);
    get_job_attr(p, "no-such-attr");
    must_miss(p);
}

void case_job_connect(struct play *p)
{
    begin(p);
    request_begin(p, 0, PMIWIRE_V2_JOB_CONNECT);
    request_text(p, PMIWIRE_F_JOBID, "no-such-job");
    request_send(p);
    hear(p);
    finish(p, rc_of(p) ? V_ERROR : V_WRONG, "%s", p->text);
}

void case_spawn(struct play *p)
{
    const char *program = p->pc->arg ? "/no/such/program" : "/bin/true";
    struct pmiwire_str codes;

    begin(p);
    request_begin(p, PMIWIRE_V1_SPAWN, PMIWIRE_V2_SPAWN);
    if (p->wire == PMIWIRE_V2) {
        pmiwire_enc_int(&p->enc, PMIWIRE_F_NCMDS, 1);
        pmiwire_enc_int(&p->enc, PMIWIRE_F_PREPUTCOUNT, 0);
        request_text(p, PMIWIRE_F_SUBCMD, program);
        pmiwire_enc_int(&p->enc, PMIWIRE_F_MAXPROCS, 1);
        pmiwire_enc_int(&p->enc, PMIWIRE_F_ARGC, 1);
        pmiwire_enc_indexed(&p->enc, PMIWIRE_F_ARGV, 0, pmiwire_strz("x"));
        pmiwire_enc_int(&p->enc, PMIWIRE_F_INFOKEYCOUNT, 0);
    } else {
        pmiwire_enc_int(&p->enc, PMIWIRE_F_NPROCS, 1);
        request_text(p, PMIWIRE_F_EXECNAME, program);
        pmiwire_enc_int(&p->enc, PMIWIRE_F_TOTSPAWNS, 1);
        pmiwire_enc_int(&p->enc, PMIWIRE_F_SPAWNSSOFAR, 1);
        pmiwire_enc_indexed(&p->enc, PMIWIRE_F_ARG, 1, pmiwire_strz("x"));
        pmiwire_enc_int(&p->enc, PMIWIRE_F_ARGCNT, 1);
        pmiwire_enc_int(&p->enc, PMIWIRE_F_PREPUT_NUM, 0);
        pmiwire_enc_int(&p->enc, PMIWIRE_F_INFO_NUM, 0);
    }
    request_call(p);
    if (rc_of(p) != 0)
        finish(p, V_ERROR, "%s", p->text);
    codes = field_of(p, PMIWIRE_F_ERRCODES);
    if (codes.len && !str_is(codes, "0"))
        finish(p, V_ERROR, "%s", p->text);
    finish(p, p->pc->arg ? V_WRONG : V_OK, "%s", p->text);
}

/* ---- the end of a job: the probe judges what the launcher does ---- */

void case_abort(struct play *p)
{
    begin(p);
    fence(p);
    if (p->rank == 0) {
        note(p, "ending"); /* before the abort: the launcher may kill this process at once */
        request_begin(p, PMIWIRE_V1_ABORT, PMIWIRE_V2_ABORT);
        if (p->wire == PMIWIRE_V2)
            pmiwire_enc_int(&p->enc, PMIWIRE_F_ISWORLD, 1);
        pmiwire_enc_int(&p->enc, PMIWIRE_F_EXITCODE, 7);
        if (p->wire == PMIWIRE_V2)
            request_text(p, PMIWIRE_F_MSG, "probe");
        request_send(p);
    }
    sleep_ms(p->reply_ms); /* the launcher ends us before that */
    p->spoiled = true;
    finish(p, V_HANG, "the job lives on for %.1f s after an abort", p->reply_ms / 1000.0);
}

void case_leave(struct play *p)
{
    begin(p);
    fence(p);
    if (p->rank == 0) {
        note(p, "ending");
        _exit(0);
    }
    fence_send(p);
    p->reply_ms += 1000; /* an answer to rank 1 is no failure: the job must end */
    if (conn_ends(&p->c, p->reply_ms))
        sleep_ms(1000);
    p->spoiled = true;
    finish(p, V_HANG, "the job lives on for %.1f s after rank 0 left", p->reply_ms / 1000.0);
}

/* ---- a fence that can no longer complete: rank 0 is gone before it enters it ---- */

/* Makes the server close the connection: sends a line, or a length, beyond every limit. */
static void say_too_much(struct play *p)
{
    static char bytes[2u << 20];

    memset(bytes, 'x', sizeof(bytes));
    if (p->wire == PMIWIRE_V2)
        memcpy(bytes, "-99999", 6);
    conn_send(&p->c, bytes, sizeof(bytes), 500, NULL);
}

static _Noreturn void be_gone(struct play *p)
{
    note(p, "ending");
    if (p->pc->arg == GONE_ABSENT)
        _exit(0);
    begin(p);
    wait_note(p, 1, "ready", 3000);
    sleep_ms(100); /* rank 1 is in the fence */
    if (p->pc->arg == GONE_FINALIZED) {
        request_begin(p, PMIWIRE_V1_FINALIZE, PMIWIRE_V2_FINALIZE);
        request_send(p);
        hear(p);
        _exit(0);
    }
    if (p->pc->arg == GONE_CUT_OFF)
        say_too_much(p);
    else
        conn_close(&p->c);
    sleep_ms(3 * p->reply_ms); /* the launcher ends us before that */
    p->spoiled = true;
    finish(p, V_HANG, "the job lives on for %.1f s", 3 * p->reply_ms / 1000.0);
}

/* Rank 1's fence must end with an error, or the job with a status other than 0. */
void case_gone(struct play *p)
{
    if (p->rank == 0)
        be_gone(p);
    begin(p);
    note(p, "ready");
    p->reply_ms += 1000;
    request_plain(p, PMIWIRE_V1_BARRIER_IN, PMIWIRE_V2_KVS_FENCE);
    if (rc_of(p) == 0)
        finish(p, V_TAKEN, "the fence completes without rank 0: %s", p->text);
    finish(p, V_ERROR, "%s", p->text);
}
