/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases: name service, attributes, ring, barriers of groups, spawn, and the ways a job ends: by a
 * rank that leaves, or because a fence can no longer complete. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cases.h"

/* A name that no other job has, as name services may be shared. */
static const char *service(void)
{
    static char name[64];

    snprintf(name, sizeof(name), "pmiprobe-%d-%lld", (int)getpid(), (long long)now_ms());
    return name;
}

static int lookup(struct play *p, const char *name)
{
    say(p, p->wire == PMIWIRE_V2 ? "cmd=name-lookup;name=%s;" : "cmd=lookup_name service=%s", name);
    hear_cmd(p, p->wire == PMIWIRE_V2 ? "name-lookup-response" : "lookup_result");
    return rc_of(p);
}

/* PMI-1 clients need an rc: MPICH 4.0 takes a reply without one for a failure. */
static void name_reply(struct play *p, const char *cmd)
{
    int32_t rc;

    hear_cmd(p, cmd);
    if (pmiwire_msg_int(&p->c.msg, PMIWIRE_F_RC, &rc) < 0)
        finish(p, V_WRONG, "no rc, which MPICH 4.0 needs: %s", p->text);
    if (rc != 0)
        finish(p, V_ERROR, "%s", p->text);
}

void case_publish(struct play *p)
{
    bool v2 = p->wire == PMIWIRE_V2;
    const char *name = service();

    begin(p);
    say(p,
        v2 ? "cmd=name-publish;name=%s;port=host:1234;infokeycount=0;"
           : "cmd=publish_name service=%s port=host:1234",
        name);
    name_reply(p, v2 ? "name-publish-response" : "publish_result");
    if (lookup(p, name) != 0)
        finish(p, V_ERROR, "published, but not found: %s", p->text);
    if (!str_is(field_of(p, PMIWIRE_F_PORT), "host:1234"))
        finish(p, V_WRONG, "no port, which MPICH reads: %s", p->text);
    if (v2 && !str_is(field_of(p, PMIWIRE_F_VALUE), "host:1234"))
        finish(p, V_WRONG, "no value, which Slurm's libpmi2 reads: %s", p->text);
    if (!v2 && field_of(p, PMIWIRE_F_RC).ptr == NULL)
        finish(p, V_WRONG, "no rc, which MPICH 4.0 needs: %s", p->text);
    say(p, v2 ? "cmd=name-unpublish;name=%s;infokeycount=0;" : "cmd=unpublish_name service=%s",
        name);
    name_reply(p, v2 ? "name-unpublish-response" : "unpublish_result");
    if (lookup(p, name) == 0 && field_of(p, PMIWIRE_F_PORT).ptr)
        finish(p, V_WRONG, "still found after unpublish: %s", p->text);
}

void case_lookup_unknown(struct play *p)
{
    begin(p);
    if (lookup(p, service()) == 0)
        finish(p, V_WRONG, "rc=0 for an unpublished name: %s", p->text);
    finish(p, V_OK, "%s", p->text);
}

void case_group(struct play *p)
{
    begin_version(p, 1, 2);
    if (number_of(p, PMIWIRE_F_RC, "rc") != 0)
        finish(p, V_ERROR, "%s", p->text);
    p->begun = true;
    if (number_of(p, PMIWIRE_F_PMI_SUBVERSION, "pmi_subversion") < 2)
        finish(p, V_NO, "PMI 1.1 only");
    if (p->rank == 0) { /* alone: rank 1 is not in the group */
        say(p, "cmd=barrier_in group=0:7");
        hear_cmd(p, "barrier_out");
        if (rc_of(p) != 0)
            finish(p, V_ERROR, "%s", p->text);
    } else {
        sleep_ms(300);
    }
    say(p, "cmd=barrier_in group=0,1:8");
    hear_cmd(p, "barrier_out");
    if (rc_of(p) != 0)
        finish(p, V_ERROR, "%s", p->text);
    say(p, "cmd=barrier_in group=WORLD:9");
    hear_cmd(p, "barrier_out");
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
    say(p, "cmd=ring;ring-count=1;ring-left=%s;ring-right=%s;", left, right);
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
    say(p, "cmd=info-putnodeattr;key=attr;value=of-node;");
    hear_cmd(p, "info-putnodeattr-response");
    if (rc_of(p) != 0)
        finish(p, V_ERROR, "put of a node attribute refused: %s", p->text);
}

static void node_attr_is(struct play *p, const char *wait)
{
    int found = 0;

    say(p, "cmd=info-getnodeattr;key=attr;wait=%s;", wait);
    hear_cmd(p, "info-getnodeattr-response");
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
    node_attr_is(p, "FALSE");
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

        node_attr_is(p, "TRUE");
        if (now_ms() - start > 1500)
            finish(p, V_DELAYED, "answered %d ms after the put", (int)(now_ms() - start - 300));
    }
    fence(p);
}

static void must_miss(struct play *p, const char *reply)
{
    int found = 1;

    hear_cmd(p, reply);
    pmiwire_msg_int(&p->c.msg, PMIWIRE_F_FOUND, &found);
    if (rc_of(p) == 0 && found)
        finish(p, V_WRONG, "neither found=FALSE nor an rc: %s", p->text);
    finish(p, V_OK, "%s", p->text);
}

void case_nodeattr_miss(struct play *p)
{
    begin(p);
    say(p, "cmd=info-getnodeattr;key=no-such-attr;wait=FALSE;");
    must_miss(p, "info-getnodeattr-response");
}

void case_jobattr(struct play *p)
{
    begin(p);
    say(p, "cmd=info-getjobattr;key=universeSize;");
    hear_cmd(p, "info-getjobattr-response");
    if (rc_of(p) != 0 || !field_of(p, PMIWIRE_F_VALUE).len)
        finish(p, V_NO, "%s", p->text);
    number_of(p, PMIWIRE_F_VALUE, "value");
    finish(p, V_OK, "%s", p->text);
}

void case_jobattr_miss(struct play *p)
{
    begin(p);
    say(p, "cmd=info-getjobattr;key=no-such-attr;");
    must_miss(p, "info-getjobattr-response");
}

void case_job_connect(struct play *p)
{
    begin(p);
    say(p, "cmd=job-connect;jobid=no-such-job;");
    hear(p);
    finish(p, rc_of(p) ? V_ERROR : V_WRONG, "%s", p->text);
}

void case_spawn(struct play *p)
{
    const char *program = p->pc->arg ? "/no/such/program" : "/bin/true";
    struct pmiwire_str codes;

    begin(p);
    if (p->wire == PMIWIRE_V2)
        say(p,
            "cmd=spawn;ncmds=1;preputcount=0;subcmd=%s;maxprocs=1;argc=1;argv0=x;infokeycount=0;",
            program);
    else
        say(p,
            "mcmd=spawn\nnprocs=1\nexecname=%s\ntotspawns=1\nspawnssofar=1\narg1=x\nargcnt=1\n"
            "preput_num=0\ninfo_num=0\nendcmd",
            program);
    hear_cmd(p, p->wire == PMIWIRE_V2 ? "spawn-response" : "spawn_result");
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
        say(p, p->wire == PMIWIRE_V2 ? "cmd=abort;isworld=TRUE;exitcode=7;msg=probe;"
                                     : "cmd=abort exitcode=7");
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
    say(p, p->wire == PMIWIRE_V2 ? "cmd=kvs-fence;" : "cmd=barrier_in");
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
        say(p, p->wire == PMIWIRE_V2 ? "cmd=finalize;" : "cmd=finalize");
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
    say(p, p->wire == PMIWIRE_V2 ? "cmd=kvs-fence;" : "cmd=barrier_in");
    hear_cmd(p, p->wire == PMIWIRE_V2 ? "kvs-fence-response" : "barrier_out");
    if (rc_of(p) == 0)
        finish(p, V_TAKEN, "the fence completes without rank 0: %s", p->text);
    finish(p, V_ERROR, "%s", p->text);
}
