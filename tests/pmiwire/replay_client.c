/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Our client session in place of each recorded client: it makes the requests of the recorded
 * messages, gets the recorded answers in the recorded chunks, and must report the right events. Its
 * requests must equal the recorded ones, byte for byte; in PMI-2 only behind the length, which
 * MPICH's clients pad on the left and Slurm's on the right.
 */
#define _GNU_SOURCE 1 /* strdup */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmiwire/client.h>

#include "transcript.h"

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Where our session's request differs by intent. Looked up as "CASE.label" and "COMMAND". */
static struct exception exceptions[] = {
    {"libpmi2-*", "name-publish", "libpmi2 adds infokeycount=0", 0},
    {"libpmi2-*", "name-lookup", "libpmi2 adds infokeycount=0", 0},
    {"libpmi2-*", "name-unpublish", "libpmi2 adds infokeycount=0", 0},
    {"libpmi2-*-kvs.*", "kvs-get", "libpmi2 says srcid=-1 where it has no hint, ours leaves it out",
     0},
    {"libpmi2-*-abort.*", "abort",
     "ours also says exitcode and message, which is what MPICH's servers read", 0},
    {"raw2-*", "kvs-get", "like libpmi2's", 0},
    {"raw2-*", "info-getnodeattr", "sent without `wait` on purpose; ours always says it", 0},
    {"raw1-*", "put", "sent with an extra field on purpose", 0},
    {"raw2-*", "kvs-put", "sent with an extra field on purpose", 0},
    {"pmi1-*", "spawn", "MPICH 4.0 sends argcnt behind the arguments", 0},
    {"pmi1-*-multi.r0", "spawn without preputs",
     "MPICH 4.0 sends the preputs with every block, ours with the first", 0},
};

/*
 * Servers that carry all recorded values, by wire: no limits but those of the framing. Only the
 * PMI-2 profile allows blanks: a PMI-1 server that keeps blanks reads `value=` to the end of the
 * line, so no field may follow it.
 */
static const struct pmiwire_profile carries_v1 = {
    .name = "recorded, PMI-1",
    .peer = "whatever was recorded on PMI-1",
    .flags =
        PMIWIRE_PEER_V1 | PMIWIRE_PEER_EMPTY | PMIWIRE_PEER_BACKSLASH | PMIWIRE_PEER_SEMICOLON_V1,
};
static const struct pmiwire_profile carries_v2 = {
    .name = "recorded, PMI-2",
    .peer = "whatever was recorded on PMI-2",
    .flags = PMIWIRE_PEER_V2 | PMIWIRE_PEER_EMPTY | PMIWIRE_PEER_BACKSLASH | PMIWIRE_PEER_SPACES |
             PMIWIRE_PEER_SEMICOLON_V2,
};

/* A recorded request, its answer, and the session's results. */
struct exchange {
    const struct kept_msg *ask;
    const struct kept_msg *answer; /* NULL: none was recorded, or there is none to an abort */
    size_t from,
        to; /* the answer's bytes among those of the server, initack's `set` lines with them */
    int done;
};

struct replay {
    const struct transcript *t;
    char where[128];
    struct kept_msgs said, heard;
    char *server_bytes;
    struct exchange *x;
    size_t n, n_events, n_same, n_asked;
    int hung_up; /* the recording ended, and so did the session's input */
    struct pmiwire_client *c;
};

/* ---- which answer belongs to which request ---- */

/* Spawn's blocks but the last, and abort, are not answered. */
static int is_answered(const struct kept_msg *m)
{
    int32_t total = 1, so_far = 1;

    if (m->msg.id == PMIWIRE_V1_SPAWN) {
        (void)pmiwire_msg_int(&m->msg, PMIWIRE_F_TOTSPAWNS, &total);
        (void)pmiwire_msg_int(&m->msg, PMIWIRE_F_SPAWNSSOFAR, &so_far);
    }
    return total == so_far && m->msg.id != PMIWIRE_V1_ABORT && m->msg.id != PMIWIRE_V2_ABORT;
}

static void pair(struct replay *rp)
{
    size_t k = 0, at = 0;

    rp->n = rp->said.n;
    rp->x = need(calloc(rp->n + 1, sizeof(*rp->x)));
    for (size_t i = 0; i < rp->n; i++) {
        struct exchange *x = &rp->x[i];

        x->ask = &rp->said.at[i];
        x->from = x->to = at;
        if (!is_answered(x->ask) || k == rp->heard.n)
            continue;
        x->answer = &rp->heard.at[k];
        do
            at += rp->heard.at[k++].len;
        while (k < rp->heard.n && rp->heard.at[k].msg.id == PMIWIRE_V1_SET);
        x->to = at;
    }
    if (k < rp->heard.n)
        deviation(rp->where, "%zu answers more than requests", rp->heard.n - k);
}

/* ---- bytes ---- */

/* Feeds the answer's bytes in the recorded pieces. */
static void server_says(struct replay *rp, const struct exchange *x)
{
    size_t start = 0;

    for (size_t i = 0; i < rp->t->n_records; i++) {
        const struct record *r = &rp->t->records[i];
        size_t from, to;

        if (r->side != 'S')
            continue;
        from = x->from > start ? x->from : start;
        to = x->to < start + r->len ? x->to : start + r->len;
        if (from < to)
            (void)pmiwire_client_input(rp->c, rp->server_bytes + from, to - from);
        start += r->len;
    }
}

/* Do two spawns hold the same fields, in any order? */
static int same_fields(const struct pmiwire_msg *a, const struct pmiwire_msg *b)
{
    for (uint32_t i = 0; i < a->n_fields; i++) {
        const struct pmiwire_field *f = &a->fields[i];
        uint32_t k = 0;

        while (k < b->n_fields && (b->fields[k].id != f->id || b->fields[k].index != f->index ||
                                   b->fields[k].value.len != f->value.len ||
                                   memcmp(b->fields[k].value.ptr, f->value.ptr, f->value.len) != 0))
            k++;
        if (k == b->n_fields)
            return 0;
    }
    return a->n_fields == b->n_fields;
}

/* One request of ours against the recorded one. */
static void compare_request(struct replay *rp, const struct kept_msg *theirs,
                            const struct kept_msg *ours)
{
    size_t skip = theirs->msg.wire == PMIWIRE_V2 ? PMIWIRE_V2_HEADER_BYTES : 0;
    char what[64];

    rp->n_asked++;
    if (ours->msg.wire == theirs->msg.wire && ours->len == theirs->len &&
        memcmp(ours->text + skip, theirs->text + skip, ours->len - skip) == 0) {
        rp->n_same++;
        return;
    }
    snprintf(what, sizeof(what), "%.*s%s", (int)theirs->msg.cmd.len, theirs->msg.cmd.ptr,
             theirs->msg.id != PMIWIRE_V1_SPAWN || same_fields(&theirs->msg, &ours->msg)
                 ? ""
                 : " without preputs");
    if (ours->msg.id == theirs->msg.id && excepted(exceptions, N_OF(exceptions), rp->where, what))
        return;
    deviation(rp->where, "recorded request \"%.*s\", ours \"%.*s\"", (int)theirs->len, theirs->text,
              (int)ours->len, ours->text);
}

/* Takes the session's output. */
static struct kept_msgs client_says(struct replay *rp)
{
    struct kept_msgs out;
    const void *data;
    size_t n = pmiwire_client_output(rp->c, &data), offset;

    if (msgs_split(data, n, &out, &offset) < 0 || out.rest)
        deviation(rp->where, "what our session sends is no message: \"%.*s\"", (int)n,
                  (const char *)data);
    pmiwire_client_sent(rp->c, n);
    return out;
}

/* ---- init ---- */

static struct exchange *unanswered(struct replay *rp, uint16_t cmd)
{
    for (size_t i = 0; i < rp->n; i++)
        if (!rp->x[i].done && rp->x[i].ask->msg.id == cmd)
            return &rp->x[i];
    return NULL;
}

/*
 * The session's start-up has an order of its own, and asks for the appnum, which MPICH's bare PMI-1
 * client may do later or never: each answer is the recorded one to that request, or a made-up one
 * where the recorded client did not ask.
 */
static void start_up(struct replay *rp, struct pmiwire_event *ev)
{
    memset(ev, 0, sizeof(*ev));
    for (int rounds = 0; rounds < 16; rounds++) {
        struct kept_msgs out = client_says(rp);
        int rc;

        for (size_t i = 0; i < out.n; i++) {
            struct exchange *x = unanswered(rp, out.at[i].msg.id);

            if (x) {
                x->done = 1;
                compare_request(rp, x->ask, &out.at[i]);
                server_says(rp, x);
            } else if (out.at[i].msg.id == PMIWIRE_V1_GET_APPNUM) {
                (void)pmiwire_client_input(rp->c, "cmd=appnum appnum=0\n", 20);
            } else if (out.at[i].msg.id == PMIWIRE_V1_GET_MAXES) {
                static const char maxes[] =
                    "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n";

                (void)pmiwire_client_input(rp->c, maxes, sizeof(maxes) - 1);
            } else if (out.at[i].msg.id == PMIWIRE_V1_GET_MY_KVSNAME) {
                (void)pmiwire_client_input(rp->c, "cmd=my_kvsname kvsname=untold\n", 30);
            }
        }
        rc = pmiwire_client_next(rp->c, ev, NULL);
        if (rc == 0 && out.n == 0) { /* the recording ends in the middle of init */
            rp->hung_up = 1;
            pmiwire_client_eof(rp->c);
        }
        msgs_free(&out);
        if (rc != 0)
            return;
    }
}

static int32_t recorded_int(const struct replay *rp, uint16_t cmd, uint16_t field,
                            int32_t otherwise)
{
    for (size_t i = 0; i < rp->heard.n; i++)
        if (rp->heard.at[i].msg.id == cmd &&
            pmiwire_msg_int(&rp->heard.at[i].msg, field, &otherwise) == 0)
            break;
    return otherwise;
}

static void expect_int(const struct replay *rp, const char *what, int32_t is, int32_t should)
{
    if (is != should)
        deviation(rp->where, "%s is %" PRId32 ", recorded %" PRId32, what, is, should);
}

static void check_start(struct replay *rp, const struct pmiwire_event *ev, int v2)
{
    struct pmiwire_info_client info;
    char *spawner = NULL;
    const struct kept_msg *last = rp->heard.n ? &rp->heard.at[0] : NULL;

    rp->n_events++;
    if (v2 && rp->heard.n < 2) { /* killed before fullinit was answered */
        expect_int(rp, "init's rc", ev->rc, PMIWIRE_EEOF);
        return;
    }
    if (ev->op != PMIWIRE_OP_INIT || ev->rc != 0 || !last) {
        deviation(rp->where, "init fails: %s", pmiwire_strerror(ev->rc));
        return;
    }
    pmiwire_client_query(rp->c, &info);
    expect_int(rp, "rank", info.rank, rp->t->rank);
    if (rp->t->size >= 0)
        expect_int(rp, "size", info.n_ranks, rp->t->size);
    if (v2) {
        expect_int(rp, "size", info.n_ranks,
                   recorded_int(rp, PMIWIRE_V2_FULLINIT_RESPONSE, PMIWIRE_F_SIZE, -1));
        expect_int(rp, "appnum", info.appnum,
                   recorded_int(rp, PMIWIRE_V2_FULLINIT_RESPONSE, PMIWIRE_F_APPNUM, -1));
        spawner = field_text(&rp->heard.at[1].msg, PMIWIRE_F_SPAWNER_JOBID);
        if ((spawner != NULL) != (ev->value.ptr != NULL) ||
            (spawner && (strlen(spawner) != ev->value.len ||
                         memcmp(spawner, ev->value.ptr, ev->value.len) != 0)))
            deviation(rp->where, "spawner's job is \"%.*s\", recorded \"%s\"", (int)ev->value.len,
                      ev->value.ptr, spawner ? spawner : "(absent)");
        expect_int(rp, "spawned", info.spawned != 0, spawner != NULL);
        free(spawner);
    } else {
        expect_int(rp, "size", info.n_ranks,
                   recorded_int(rp, PMIWIRE_V1_SET, PMIWIRE_F_SIZE, info.n_ranks));
        expect_int(rp, "rank", info.rank,
                   recorded_int(rp, PMIWIRE_V1_SET, PMIWIRE_F_RANK, info.rank));
        expect_int(rp, "appnum", info.appnum,
                   recorded_int(rp, PMIWIRE_V1_APPNUM, PMIWIRE_F_APPNUM, 0));
        expect_int(rp, "kvsname_max", info.kvsname_max,
                   recorded_int(rp, PMIWIRE_V1_MAXES, PMIWIRE_F_KVSNAME_MAX, 256));
        expect_int(rp, "keylen_max", info.keylen_max,
                   recorded_int(rp, PMIWIRE_V1_MAXES, PMIWIRE_F_KEYLEN_MAX, 64));
        expect_int(rp, "vallen_max", info.vallen_max,
                   recorded_int(rp, PMIWIRE_V1_MAXES, PMIWIRE_F_VALLEN_MAX, 1024));
    }
}

/* ---- the operations ---- */

static struct pmiwire_str text(char **keep, const struct pmiwire_msg *msg, uint16_t field)
{
    *keep = field_text(msg, field);
    return pmiwire_strz(*keep);
}

#define MAX_SPAWN 32

/* A recorded spawn's request. The strings are views of the recorded messages; none of them holds
 * `;;`. */
struct spawn {
    struct pmiwire_spawn req;
    struct pmiwire_spawn_cmd cmds[MAX_SPAWN];
    struct pmiwire_str argv[MAX_SPAWN][MAX_SPAWN];
    struct pmiwire_keyval info[MAX_SPAWN][MAX_SPAWN];
    struct pmiwire_keyval preput[MAX_SPAWN];
};

static void note_spawn_field(struct spawn *s, struct pmiwire_spawn_cmd *cmd, size_t i,
                             const struct pmiwire_field *f)
{
    int32_t n = (int32_t)strtol(f->value.ptr, NULL, 10); /* a recorded message: it ends there */
    uint32_t k = f->index < MAX_SPAWN ? f->index : 0;

    switch (f->id) {
    case PMIWIRE_F_EXECNAME:
    case PMIWIRE_F_SUBCMD: cmd->execname = f->value; break;
    case PMIWIRE_F_NPROCS:
    case PMIWIRE_F_MAXPROCS: cmd->maxprocs = (uint32_t)n; break;
    case PMIWIRE_F_ARGCNT:
    case PMIWIRE_F_ARGC: cmd->argc = (uint32_t)n; break;
    case PMIWIRE_F_ARG: s->argv[i][k ? k - 1 : 0] = f->value; break;
    case PMIWIRE_F_ARGV: s->argv[i][k] = f->value; break;
    case PMIWIRE_F_INFO_NUM:
    case PMIWIRE_F_INFOKEYCOUNT: cmd->n_info = (uint32_t)n; break;
    case PMIWIRE_F_INFO_KEY:
    case PMIWIRE_F_INFOKEY: s->info[i][k].key = f->value; break;
    case PMIWIRE_F_INFO_VAL:
    case PMIWIRE_F_INFOVAL: s->info[i][k].value = f->value; break;
    case PMIWIRE_F_PREPUT_NUM:
    case PMIWIRE_F_PREPUTCOUNT: s->req.n_preput = (uint32_t)n; break;
    case PMIWIRE_F_PREPUT_KEY:
    case PMIWIRE_F_PPKEY: s->preput[k].key = f->value; break;
    case PMIWIRE_F_PREPUT_VAL:
    case PMIWIRE_F_PPVAL: s->preput[k].value = f->value; break;
    default: break;
    }
}

/* x is the last of `blocks` messages. */
static int ask_spawn(struct replay *rp, const struct exchange *x, size_t blocks)
{
    struct spawn *s = need(calloc(1, sizeof(*s)));
    size_t i = 0;
    int rc;

    for (size_t b = 0; b < blocks; b++) {
        const struct pmiwire_msg *msg = &(x - (blocks - 1) + b)->ask->msg;

        for (uint32_t k = 0; k < msg->n_fields && i < MAX_SPAWN; k++) {
            const struct pmiwire_field *f = &msg->fields[k];

            if (f->id == PMIWIRE_F_SUBCMD)
                i = s->req.n_cmds++;
            else if (f->id == PMIWIRE_F_NPROCS) /* a block's first field */
                i = s->req.n_cmds++;
            note_spawn_field(s, &s->cmds[i], i, f);
        }
    }
    for (i = 0; i < s->req.n_cmds; i++) {
        s->cmds[i].argv = s->argv[i];
        s->cmds[i].info = s->info[i];
    }
    s->req.cmds = s->cmds;
    s->req.preput = s->preput;
    rc = pmiwire_client_spawn(rp->c, &s->req, 1);
    free(s);
    return rc;
}

static int ask_attr_or_get(struct replay *rp, const struct pmiwire_msg *m,
                           struct pmiwire_str kvsname, struct pmiwire_str key)
{
    struct pmiwire_info_client info;
    int32_t srcid = -1;

    pmiwire_client_query(rp->c, &info);
    if (m->wire == PMIWIRE_V1 && key.len == 19 && memcmp(key.ptr, "PMI_process_mapping", 19) == 0)
        return pmiwire_client_request(rp->c, PMIWIRE_OP_JOBATTR, key, 1);
    (void)pmiwire_msg_int(m, PMIWIRE_F_SRCID, &srcid);
    return pmiwire_client_get(rp->c, kvsname, srcid, key, PMIWIRE_GET_LOCAL, 1);
}

/* Makes a recorded message's request in our session. The cookie is 1. */
static int ask(struct replay *rp, const struct exchange *x, size_t blocks)
{
    const struct pmiwire_msg *m = &x->ask->msg;
    char *keep[2] = {NULL, NULL};
    int32_t exitcode = 0;
    int truth = 0, rc = -1;
    struct pmiwire_str key, value;

    switch (m->id) {
    case PMIWIRE_V1_PUT:
    case PMIWIRE_V2_KVS_PUT:
        key = text(&keep[0], m, PMIWIRE_F_KEY);
        value = text(&keep[1], m, PMIWIRE_F_VALUE);
        rc = pmiwire_client_put(rp->c, key, value, PMIWIRE_HINT_NONE, 1);
        break;
    case PMIWIRE_V1_GET:
        key = text(&keep[0], m, PMIWIRE_F_KEY);
        value = text(&keep[1], m, PMIWIRE_F_KVSNAME);
        rc = ask_attr_or_get(rp, m, value, key);
        break;
    case PMIWIRE_V2_KVS_GET:
        key = text(&keep[0], m, PMIWIRE_F_KEY);
        value = text(&keep[1], m, PMIWIRE_F_JOBID);
        rc = ask_attr_or_get(rp, m, value, key);
        break;
    case PMIWIRE_V1_BARRIER_IN:
    case PMIWIRE_V2_KVS_FENCE: rc = pmiwire_client_fence(rp->c, pmiwire_strz(NULL), 1); break;
    case PMIWIRE_V1_GET_MY_KVSNAME:
    case PMIWIRE_V2_JOB_GETID:
        rc = pmiwire_client_request(rp->c, PMIWIRE_OP_KVSNAME, pmiwire_strz(NULL), 1);
        break;
    case PMIWIRE_V1_GET_UNIVERSE_SIZE:
        rc = pmiwire_client_request(rp->c, PMIWIRE_OP_UNIVERSE_SIZE, pmiwire_strz(NULL), 1);
        break;
    case PMIWIRE_V1_GET_APPNUM:
        rc = pmiwire_client_request(rp->c, PMIWIRE_OP_APPNUM, pmiwire_strz(NULL), 1);
        break;
    case PMIWIRE_V2_INFO_GETJOBATTR:
        key = text(&keep[0], m, PMIWIRE_F_KEY);
        rc = strcmp(keep[0], "universeSize") == 0
                 ? pmiwire_client_request(rp->c, PMIWIRE_OP_UNIVERSE_SIZE, pmiwire_strz(NULL), 1)
                 : pmiwire_client_request(rp->c, PMIWIRE_OP_JOBATTR, key, 1);
        break;
    case PMIWIRE_V2_INFO_GETNODEATTR:
        key = text(&keep[0], m, PMIWIRE_F_KEY);
        (void)pmiwire_msg_int(m, PMIWIRE_F_WAIT, &truth);
        rc = pmiwire_client_request(
            rp->c, truth ? PMIWIRE_OP_NODEATTR_WAIT : PMIWIRE_OP_NODEATTR_GET, key, 1);
        break;
    case PMIWIRE_V2_INFO_PUTNODEATTR:
        key = text(&keep[0], m, PMIWIRE_F_KEY);
        value = text(&keep[1], m, PMIWIRE_F_VALUE);
        rc = pmiwire_client_nodeattr_put(rp->c, key, value, 1);
        break;
    case PMIWIRE_V1_PUBLISH_NAME:
    case PMIWIRE_V2_NAME_PUBLISH:
        key = text(&keep[0], m,
                   m->id == PMIWIRE_V1_PUBLISH_NAME ? PMIWIRE_F_SERVICE : PMIWIRE_F_NAME);
        value = text(&keep[1], m, PMIWIRE_F_PORT);
        rc = pmiwire_client_publish(rp->c, key, value, 1);
        break;
    case PMIWIRE_V1_UNPUBLISH_NAME:
    case PMIWIRE_V2_NAME_UNPUBLISH:
        key = text(&keep[0], m,
                   m->id == PMIWIRE_V1_UNPUBLISH_NAME ? PMIWIRE_F_SERVICE : PMIWIRE_F_NAME);
        rc = pmiwire_client_request(rp->c, PMIWIRE_OP_UNPUBLISH, key, 1);
        break;
    case PMIWIRE_V1_LOOKUP_NAME:
    case PMIWIRE_V2_NAME_LOOKUP:
        key =
            text(&keep[0], m, m->id == PMIWIRE_V1_LOOKUP_NAME ? PMIWIRE_F_SERVICE : PMIWIRE_F_NAME);
        rc = pmiwire_client_request(rp->c, PMIWIRE_OP_LOOKUP, key, 1);
        break;
    case PMIWIRE_V1_SPAWN:
    case PMIWIRE_V2_SPAWN: rc = ask_spawn(rp, x, blocks); break;
    case PMIWIRE_V2_RING:
        value = text(&keep[0], m, PMIWIRE_F_RING_LEFT);
        rc = pmiwire_client_ring(rp->c, value, 1);
        break;
    case PMIWIRE_V1_ABORT:
    case PMIWIRE_V2_ABORT:
        (void)pmiwire_msg_int(m, PMIWIRE_F_EXITCODE, &exitcode);
        value = text(&keep[0], m, m->id == PMIWIRE_V1_ABORT ? PMIWIRE_F_ERROR_MSG : PMIWIRE_F_MSG);
        rc = pmiwire_client_abort(rp->c, exitcode, value, 1);
        break;
    case PMIWIRE_V1_FINALIZE:
    case PMIWIRE_V2_FINALIZE: rc = pmiwire_client_finalize(rp->c, 1); break;
    default: break;
    }
    free(keep[0]);
    free(keep[1]);
    return rc;
}

/* ---- the events ---- */

static void expect_str(const struct replay *rp, const char *what, struct pmiwire_str is,
                       const struct pmiwire_msg *msg, uint16_t field)
{
    char *should = field_text(msg, field);

    if (should ? !is.ptr || is.len != strlen(should) || memcmp(is.ptr, should, is.len) != 0
               : is.ptr != NULL)
        deviation(rp->where, "%s is \"%.*s\", recorded \"%s\"", what, (int)is.len,
                  is.ptr ? is.ptr : "", should ? should : "(absent)");
    free(should);
}

/* The rc that an answer should become. */
static int32_t expected_rc(const struct pmiwire_event *ev, const struct pmiwire_msg *m)
{
    int found = 1;
    int looks = ev->op == PMIWIRE_OP_GET || ev->op == PMIWIRE_OP_JOBATTR ||
                ev->op == PMIWIRE_OP_NODEATTR_GET || ev->op == PMIWIRE_OP_NODEATTR_WAIT ||
                ev->op == PMIWIRE_OP_LOOKUP;

    (void)pmiwire_msg_int(m, PMIWIRE_F_FOUND, &found);
    if (ev->op == PMIWIRE_OP_UNIVERSE_SIZE)
        return 0;      /* -1 means unknown */
    if (is_refusal(m)) /* all recorded refusals of a look-up are for missing names */
        return looks ? PMIWIRE_ENOENT : PMIWIRE_EPEER;
    return looks && !found ? PMIWIRE_ENOENT : 0;
}

static void check_value(struct replay *rp, const struct pmiwire_event *ev,
                        const struct pmiwire_msg *m)
{
    int32_t n = -1;

    switch (ev->op) {
    case PMIWIRE_OP_GET:
    case PMIWIRE_OP_JOBATTR:
    case PMIWIRE_OP_NODEATTR_GET:
    case PMIWIRE_OP_NODEATTR_WAIT: expect_str(rp, "value", ev->value, m, PMIWIRE_F_VALUE); break;
    case PMIWIRE_OP_LOOKUP: /* Slurm's PMI-2 uses `value` */
        expect_str(rp, "port", ev->value, m,
                   find_field(m, PMIWIRE_F_PORT) ? PMIWIRE_F_PORT : PMIWIRE_F_VALUE);
        break;
    case PMIWIRE_OP_KVSNAME:
        expect_str(rp, "name", ev->value, m,
                   m->wire == PMIWIRE_V2 ? PMIWIRE_F_JOBID : PMIWIRE_F_KVSNAME);
        break;
    case PMIWIRE_OP_SPAWN: expect_str(rp, "jobid", ev->value, m, PMIWIRE_F_JOBID); break;
    case PMIWIRE_OP_UNIVERSE_SIZE:
        (void)pmiwire_msg_int(m, m->wire == PMIWIRE_V2 ? PMIWIRE_F_VALUE : PMIWIRE_F_SIZE, &n);
        if (m->wire == PMIWIRE_V2 && find_field(m, PMIWIRE_F_VALUE))
            n = (int32_t)strtol(find_field(m, PMIWIRE_F_VALUE)->value.ptr, NULL, 10);
        expect_int(rp, "universe size", ev->number, n);
        break;
    case PMIWIRE_OP_APPNUM:
        (void)pmiwire_msg_int(m, PMIWIRE_F_APPNUM, &n);
        expect_int(rp, "appnum", ev->number, n);
        break;
    case PMIWIRE_OP_RING:
        (void)pmiwire_msg_int(m, PMIWIRE_F_RING_COUNT, &n);
        expect_int(rp, "place in the ring", ev->number, n);
        expect_str(rp, "left neighbour", ev->value, m, PMIWIRE_F_RING_LEFT);
        expect_str(rp, "right neighbour", ev->value2, m, PMIWIRE_F_RING_RIGHT);
        break;
    default: break;
    }
}

static void check_event(struct replay *rp, const struct exchange *x)
{
    struct pmiwire_event ev;
    int aborts = x->ask->msg.id == PMIWIRE_V1_ABORT || x->ask->msg.id == PMIWIRE_V2_ABORT;
    int rc = pmiwire_client_next(rp->c, &ev, NULL);
    int32_t peer_rc = 0;

    if (rc == 0 && !x->answer &&
        !aborts) { /* the recording ends here: the launcher had killed a process */
        rp->hung_up = 1;
        pmiwire_client_eof(rp->c);
        rc = pmiwire_client_next(rp->c, &ev, NULL);
    }
    if (rc != 1) {
        deviation(rp->where, "no event for \"%.*s\": %s", (int)x->ask->len, x->ask->text,
                  pmiwire_strerror(rc));
        return;
    }
    rp->n_events++;
    if (ev.cookie != 1)
        deviation(rp->where, "the event is not that of the request");
    if (!x->answer) {
        expect_int(rp, "rc without an answer", ev.rc, aborts ? 0 : PMIWIRE_EEOF);
        return;
    }
    (void)pmiwire_msg_int(&x->answer->msg, PMIWIRE_F_RC, &peer_rc);
    expect_int(rp, "the server's rc", ev.peer_rc, peer_rc);
    if (ev.rc != expected_rc(&ev, &x->answer->msg))
        deviation(rp->where, "rc %" PRId32 " from \"%.*s\"", ev.rc, (int)x->answer->len,
                  x->answer->text);
    else if (ev.rc == 0)
        check_value(rp, &ev, &x->answer->msg);
    if (find_field(&x->answer->msg, PMIWIRE_F_MSG))
        expect_str(rp, "text", ev.text, &x->answer->msg, PMIWIRE_F_MSG);
    else
        expect_str(rp, "text", ev.text, &x->answer->msg, PMIWIRE_F_ERRMSG);
}

/* Replays a request and its answer; returns the number of recorded messages used. */
static size_t one_exchange(struct replay *rp, size_t i)
{
    struct kept_msgs out;
    size_t blocks = 1;
    int rc;

    if (!rp->x[i].ask->msg.id) /* a session does not send unknown requests */
        return blocks;
    while (rp->x[i].ask->msg.id == PMIWIRE_V1_SPAWN && !is_answered(rp->x[i + blocks - 1].ask) &&
           i + blocks < rp->n)
        blocks++;
    rc = ask(rp, &rp->x[i + blocks - 1], blocks);
    if (rc < 0) {
        deviation(rp->where, "our session does not ask \"%.*s\": %s", (int)rp->x[i].ask->len,
                  rp->x[i].ask->text, pmiwire_strerror(rc));
        return blocks;
    }
    out = client_says(rp);
    if (out.n != blocks)
        deviation(rp->where, "%zu messages for \"%.*s\"", out.n, (int)rp->x[i].ask->len,
                  rp->x[i].ask->text);
    for (size_t b = 0; b < blocks && b < out.n; b++)
        compare_request(rp, rp->x[i + b].ask, &out.at[b]);
    msgs_free(&out);
    server_says(rp, &rp->x[i + blocks - 1]);
    check_event(rp, &rp->x[i + blocks - 1]);
    return blocks;
}

/* Behind the last answer the session has ended if that was the one to a goodbye, else it
 * continues. */
static void check_end(struct replay *rp)
{
    struct pmiwire_event ev;
    uint16_t last = rp->n ? rp->x[rp->n - 1].ask->msg.id : 0;
    int over = last == PMIWIRE_V1_FINALIZE || last == PMIWIRE_V2_FINALIZE;
    int rc = pmiwire_client_next(rp->c, &ev, NULL);

    if (rc != (rp->hung_up ? PMIWIRE_EEOF : over ? PMIWIRE_ESTATE : 0))
        deviation(rp->where, "behind the last event the session says %d", rc);
}

static void replay_transcript(const struct recording *r, const struct transcript *t)
{
    struct replay rp = {.t = t};
    struct pmiwire_client_opts opts = {.size = sizeof(opts), .rank = t->rank, .n_ranks = t->size};
    struct pmiwire_event ev;
    size_t len, offset;
    int32_t version = 0;
    char *said = transcript_join(t, 'C', &len), *jobid = NULL;

    snprintf(rp.where, sizeof(rp.where), "%s.%s", r->name, t->label);
    (void)msgs_split(said, len, &rp.said, &offset); /* the codec's replay checks it */
    rp.server_bytes = transcript_join(t, 'S', &len);
    (void)msgs_split(rp.server_bytes, len, &rp.heard, &offset);
    pair(&rp);
    for (size_t i = 0; i < rp.said.n; i++) {
        (void)pmiwire_msg_int(&rp.said.at[i].msg, PMIWIRE_F_PMI_VERSION, &version);
        if (rp.said.at[i].msg.id == PMIWIRE_V2_FULLINIT)
            jobid = field_text(&rp.said.at[i].msg, PMIWIRE_F_PMIJOBID);
    }
    opts.wire = version == 2 ? PMIWIRE_V2 : PMIWIRE_V1;
    opts.server = version == 2 ? &carries_v2 : &carries_v1;
    opts.jobid = jobid;
    opts.has_pmiid = t->port;
    opts.pmiid = t->rank;
    if (pmiwire_client_create(&opts, &rp.c) < 0) {
        deviation(rp.where, "no such session can be made");
    } else {
        start_up(&rp, &ev);
        check_start(&rp, &ev, version == 2);
        for (size_t i = 0; i < rp.n;)
            i += rp.x[i].done ? 1 : one_exchange(&rp, i);
        check_end(&rp);
    }
    replayed("client", rp.where, "%zu events, %zu of %zu requests the same bytes", rp.n_events,
             rp.n_same, rp.n_asked);
    pmiwire_client_destroy(rp.c);
    free(jobid);
    free(said);
    free(rp.x);
    free(rp.server_bytes);
    msgs_free(&rp.said);
    msgs_free(&rp.heard);
}

void replay_client(const struct recording *r)
{
    for (size_t i = 0; i < r->n_transcripts; i++)
        replay_transcript(r, &r->transcripts[i]);
}

void replay_client_end(void)
{
    exceptions_unused(exceptions, N_OF(exceptions), "client");
}
