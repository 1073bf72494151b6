/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: one handler an operation; the reply layer knows the wires. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server_internal.h"

static bool is_v2(const struct pmiwire__req *q)
{
    return q->msg->wire == PMIWIRE_V2;
}

/* ---- init ---- */

/* Takes the rank that the client names; a rank known before must agree. Returns false after a
 * refusal, which is answered. */
static bool identify_rank(const struct pmiwire__req *q, int32_t id)
{
    struct pmiwire_server *s = q->s;
    struct pmiwire_conn *c = q->c;
    uint32_t job = 0;
    int32_t rank = id;
    int rc;

    if (c->job) {
        if (id == c->rank)
            return true;
        pmiwire__refuse(c, q->cmd, -EINVAL, "client claims another rank than its own");
        return false;
    }
    if (s->ops.identify) {
        rc = s->ops.identify(s->opts.ctx, c, c->cookie, id, &job, &rank);
        if (!pmiwire__alive(c))
            return false;
        if (rc != 0) {
            pmiwire__refuse(c, q->cmd, PMIWIRE_ENOENT, "client's id was refused");
            return false;
        }
    } else {
        while (job < s->n_jobs && !s->jobs[job])
            job++;
    }
    rc = pmiwire__bind(c, job, rank);
    if (rc == 0)
        return true;
    pmiwire__refuse(c, q->cmd, rc,
                    rc == PMIWIRE_EEXIST ? "a client with this rank is connected already"
                                         : "no such rank or job");
    return false;
}

/* Notes which extensions this client knows. */
static void note_extensions(const struct pmiwire__req *q)
{
    struct pmiwire_conn *c = q->c;
    struct pmiwire_str v;
    int32_t level = 0;

    c->has_extensions = pmiwire_msg_ext(q->msg, PMIWIRE_EXT_CLIENT, &v) == 0;
    c->has_bytes = c->has_extensions && pmiwire__parse_int(v, &level) == 0 && level >= 2 &&
                   c->job->ext[PMIWIRE_EXT_BYTES];
}

static void do_init(const struct pmiwire__req *q)
{
    struct pmiwire_conn *c = q->c;
    struct pmiwire__reply r;
    int32_t major = 0, minor = 0, top = 2;

    (void)pmiwire_msg_int(q->msg, PMIWIRE_F_PMI_VERSION, &major);
    (void)pmiwire_msg_int(q->msg, PMIWIRE_F_PMI_SUBVERSION, &minor);
    if (c->major != 0) {
        pmiwire__refuse(c, q->cmd, PMIWIRE_ESTATE, "second init");
        return;
    }
    if ((major != 1 && major != 2) || minor < 0) {
        pmiwire__refuse(c, q->cmd, PMIWIRE_EVERSION, "unsupported PMI version: not 1 or 2");
        return;
    }
    if (major == 1 && !c->job) {
        pmiwire__refuse(c, q->cmd, PMIWIRE_ESTATE, "init before an initack with the rank");
        return;
    }
    if (major == 2)
        minor = 0;
    else if (q->s->opts.flags & PMIWIRE_SERVER_PMI_1_2)
        minor = 2;
    else if (minor > top)
        minor = top;
    if (!pmiwire__reply_begin(&r, c, q->cmd, 0, pmiwire__ext_bytes(c->job, PMIWIRE__AT_INIT, 0)))
        return;
    pmiwire_enc_int(&r.e, PMIWIRE_F_PMI_VERSION, major);
    pmiwire_enc_int(&r.e, PMIWIRE_F_PMI_SUBVERSION, minor);
    if (major == 1)
        pmiwire__reply_ext(&r, PMIWIRE__AT_INIT, 0);
    pmiwire__reply_send(&r, q->cmd);
    if (!pmiwire__alive(c))
        return;
    c->major = major;
    if (major == 1)
        note_extensions(q);
    if (major == 1)
        pmiwire__set_state(c, PMIWIRE_CONN_INITED);
}

static uint32_t rank_appnum(const struct pmiwire_conn *c)
{
    return c->job->appnum ? c->job->appnum[c->rank] : 0;
}

/* Sends one of the lines that follow the answer to initack. */
static void send_set_line(struct pmiwire_conn *c, uint16_t field, int64_t value)
{
    struct pmiwire__reply r;

    if (!pmiwire__reply_begin(&r, c, PMIWIRE_V1_INITACK, 0, 0))
        return;
    pmiwire_enc_begin(&r.e, c->out.ptr + c->out.len, c->out.cap - c->out.len, PMIWIRE_V1_SET, NULL);
    pmiwire_enc_int(&r.e, field, value);
    pmiwire__reply_send(&r, PMIWIRE_V1_INITACK);
}

static void do_initack(const struct pmiwire__req *q)
{
    struct pmiwire_conn *c = q->c;
    const struct pmiwire__job *j;
    int32_t id = -1;

    (void)pmiwire_msg_int(q->msg, PMIWIRE_F_PMIID, &id);
    if (c->major != 0) {
        pmiwire__refuse(c, q->cmd, PMIWIRE_ESTATE, "initack after init");
        return;
    }
    if (!identify_rank(q, id))
        return;
    j = c->job; /* c->job is NULL once a callback has closed the connection */
    pmiwire__reply_ok(c, q->cmd);
    send_set_line(c, PMIWIRE_F_SIZE, j->n_ranks);
    send_set_line(c, PMIWIRE_F_RANK, c->rank);
    send_set_line(c, PMIWIRE_F_DEBUG, j->debugged != 0);
}

static void do_singinit(const struct pmiwire__req *q)
{
    struct pmiwire_conn *c = q->c;
    struct pmiwire__reply r;
    int32_t major = 1;

    (void)pmiwire_msg_int(q->msg, PMIWIRE_F_PMI_VERSION, &major);
    if (c->major != 0 || !c->job) {
        pmiwire__refuse(c, q->cmd, PMIWIRE_ESTATE,
                        c->job ? "singinit after init" : "singinit from an unknown rank");
        return;
    }
    if (!pmiwire__reply_begin(&r, c, q->cmd, major == 1 ? 0 : -1, c->job->name.len))
        return;
    pmiwire_enc_str(&r.e, PMIWIRE_F_VERSIONOK, pmiwire_strz(major == 1 ? "yes" : "no"));
    pmiwire_enc_str(&r.e, PMIWIRE_F_STDIO, pmiwire_strz("no"));
    pmiwire_enc_str(&r.e, PMIWIRE_F_KVSNAME, c->job->name);
    pmiwire__reply_send(&r, q->cmd);
    if (!pmiwire__alive(c) || major != 1)
        return;
    c->major = 1;
    pmiwire__set_state(c, PMIWIRE_CONN_INITED);
}

static void do_fullinit(const struct pmiwire__req *q)
{
    static const uint16_t ids[] = {PMIWIRE_F_PMIRANK, PMIWIRE_F_SRCID};
    struct pmiwire_conn *c = q->c;
    struct pmiwire__reply r;
    size_t bytes;
    int32_t id;

    if (c->state != PMIWIRE_CONN_NEW || c->major != 2) {
        pmiwire__refuse(c, q->cmd, PMIWIRE_ESTATE,
                        c->major ? "second fullinit, or one after PMI-1's init"
                                 : "fullinit before the init line of version 2");
        return;
    }
    for (size_t i = 0; i < 2; i++)
        if (pmiwire_msg_int(q->msg, ids[i], &id) == 0 && !identify_rank(q, id))
            return;
    if (!c->job) {
        pmiwire__refuse(c, q->cmd, PMIWIRE_EMISSING, "fullinit without a rank");
        return;
    }
    note_extensions(q);
    bytes = pmiwire__ext_bytes(c->job, PMIWIRE__AT_INIT, 0) +
            (c->job->spawner ? strlen(c->job->spawner) : 0);
    if (!pmiwire__reply_begin(&r, c, q->cmd, 0, bytes))
        return;
    pmiwire_enc_int(&r.e, PMIWIRE_F_V2_PMI_VERSION, 2);
    pmiwire_enc_int(&r.e, PMIWIRE_F_V2_PMI_SUBVERSION, 0);
    pmiwire_enc_int(&r.e, PMIWIRE_F_RANK, c->rank);
    pmiwire_enc_int(&r.e, PMIWIRE_F_SIZE, c->job->n_ranks);
    pmiwire_enc_int(&r.e, PMIWIRE_F_APPNUM, rank_appnum(c));
    if (c->job->spawner)
        pmiwire_enc_str(&r.e, PMIWIRE_F_SPAWNER_JOBID, pmiwire_strz(c->job->spawner));
    pmiwire_enc_int(&r.e, PMIWIRE_F_DEBUGGED, c->job->debugged != 0);
    pmiwire_enc_int(&r.e, PMIWIRE_F_PMIVERBOSE, 0);
    pmiwire__reply_ext(&r, PMIWIRE__AT_INIT, 0);
    pmiwire__reply_send(&r, q->cmd);
    if (pmiwire__alive(c))
        pmiwire__set_state(c, PMIWIRE_CONN_INITED);
}

/* ---- the job's properties ---- */

static void do_maxes(const struct pmiwire__req *q)
{
    const struct pmiwire_server_opts *o = &q->s->opts;
    struct pmiwire__reply r;

    if (!pmiwire__reply_begin(&r, q->c, q->cmd, 0, 0))
        return;
    pmiwire_enc_int(&r.e, PMIWIRE_F_KVSNAME_MAX, o->kvsname_max);
    pmiwire_enc_int(&r.e, PMIWIRE_F_KEYLEN_MAX, o->keylen_max);
    pmiwire_enc_int(&r.e, PMIWIRE_F_VALLEN_MAX, o->vallen_max);
    pmiwire__reply_send(&r, q->cmd);
}

static void reply_number(const struct pmiwire__req *q, uint16_t field, int64_t value)
{
    struct pmiwire__reply r;

    if (!pmiwire__reply_begin(&r, q->c, q->cmd, 0, 0))
        return;
    pmiwire_enc_int(&r.e, field, value);
    pmiwire__reply_send(&r, q->cmd);
}

static void do_kvsname(const struct pmiwire__req *q)
{
    struct pmiwire_str name = q->c->job->name;
    struct pmiwire__reply r;

    if (!pmiwire__reply_begin(&r, q->c, q->cmd, 0, name.len))
        return;
    pmiwire_enc_str(&r.e, is_v2(q) ? PMIWIRE_F_JOBID : PMIWIRE_F_KVSNAME, name);
    pmiwire__reply_send(&r, q->cmd);
}

static void do_connect(const struct pmiwire__req *q)
{
    struct pmiwire_str jobid = {0};
    struct pmiwire__reply r;

    (void)pmiwire_msg_str(q->msg, PMIWIRE_F_JOBID, &jobid);
    if (!pmiwire__job_named(q->s, jobid)) {
        pmiwire__reply_error(q->c, q->cmd, PMIWIRE_ENOENT, "no such job");
        return;
    }
    if (!pmiwire__reply_begin(&r, q->c, q->cmd, 0, 0))
        return;
    if (q->cmd == PMIWIRE_V2_JOB_CONNECT)
        pmiwire_enc_int(&r.e, PMIWIRE_F_KVSCOPY, 0);
    pmiwire__reply_send(&r, q->cmd);
}

/* ---- key-value space ---- */

/* Returns the space that a request names; without a name, or with an empty one, the client's own.
 * NULL: no such space. */
static struct pmiwire__job *named_space(const struct pmiwire__req *q)
{
    struct pmiwire_str name = {0};

    (void)pmiwire_msg_str(q->msg, is_v2(q) ? PMIWIRE_F_JOBID : PMIWIRE_F_KVSNAME, &name);
    if (name.len == 0 || pmiwire__str_eq(name, q->c->job->name))
        return q->c->job;
    return pmiwire__job_named(q->s, name);
}

/* Reads an extension's word as its index in the list; without the field, 0. Returns 0, or
 * PMIWIRE_ETYPE for any other word. */
static int ext_word(const struct pmiwire__req *q, uint16_t ext, const char *const words[3],
                    uint32_t *place)
{
    struct pmiwire_str word;

    *place = 0;
    if (pmiwire_msg_ext(q->msg, ext, &word) != 0)
        return 0;
    for (*place = 1; *place < 3; ++*place)
        if (pmiwire__str_eq(word, pmiwire_strz(words[*place])))
            return 0;
    return PMIWIRE_ETYPE;
}

/* Refuses a put for lack of room, and names the limit that it would exceed. */
static void refuse_put(const struct pmiwire__req *q)
{
    const struct pmiwire_server *s = q->s;
    char text[120];

    if (s->limit)
        snprintf(text, sizeof(text), "no room for this pair: the limit %s is %zu bytes", s->limit,
                 s->limit_bytes);
    else
        snprintf(text, sizeof(text), "no memory for this pair");
    pmiwire__refuse(q->c, q->cmd, -ENOMEM, text);
}

static void do_put(const struct pmiwire__req *q)
{
    static const char *const hints[3] = {
        [PMIWIRE_HINT_SPARSE] = "sparse", [PMIWIRE_HINT_DENSE] = "dense"};
    struct pmiwire_server *s = q->s;
    struct pmiwire_conn *c = q->c;
    struct pmiwire_str key = {0}, value = {0};
    uint32_t hint;
    int rc;

    (void)pmiwire_msg_str(q->msg, PMIWIRE_F_KEY, &key);
    (void)pmiwire_msg_str(q->msg, PMIWIRE_F_VALUE, &value);
    if (named_space(q) != c->job) {
        pmiwire__refuse(c, q->cmd, PMIWIRE_ENOENT,
                        "put into a key-value space that is not one's own");
        return;
    }
    if (pmiwire__may_put(q, key, value) != 0)
        return;
    s->limit = NULL;
    rc = ext_word(q, PMIWIRE_EXT_HINT, hints, &hint);
    if (rc == 0)
        rc = pmiwire__put(c, key, value, hint);
    if (rc == -ENOMEM) {
        refuse_put(q);
        return;
    }
    if (rc != 0) {
        pmiwire__refuse(c, q->cmd, rc, NULL);
        return;
    }
    s->stats.n_puts++;
    pmiwire__reply_ok(c, q->cmd);
}

void pmiwire__get_done(struct pmiwire_conn *c, int rc, struct pmiwire_str value)
{
    const struct pmiwire__job *j = c->pend_job;
    char text[PMIWIRE__GONE_TEXT];
    uint32_t why = 0;
    int32_t rank = PMIWIRE_RANK_NONE;

    if (rc == PMIWIRE_ENOENT && !j->removed)
        rank = pmiwire_exchange_get_culprit(j->x, &why);
    pmiwire__resume(c);
    if (rank != PMIWIRE_RANK_NONE)
        pmiwire__reply_error(
            c, c->pend_cmd, PMIWIRE_EGONE,
            pmiwire__gone_text(text, rank, why, "no rank is left to put this key"));
    else
        pmiwire__reply_value(c, c->pend_cmd, rc, value);
}

static void leave_get(struct pmiwire_conn *c)
{
    c->pend_job->n_gets--;
}

/* Gets a key that local ranks have not put and Fences have not brought. */
static void get_by_exchange(const struct pmiwire__req *q, struct pmiwire__job *j,
                            struct pmiwire_str key)
{
    static const char *const words[3] = {
        [PMIWIRE_GET_REMOTE] = "remote", [PMIWIRE_GET_WAIT] = "wait"};
    struct pmiwire_conn *c = q->c;
    struct pmiwire_str value = {0}, src;
    uint64_t token;
    int32_t srcid = PMIWIRE_RANK_NONE;
    uint32_t how;
    int rc;

    rc = ext_word(q, PMIWIRE_EXT_GET, words, &how);
    if (rc == 0 && how != PMIWIRE_GET_WAIT && j->all_here) { /* no other node to ask */
        pmiwire__reply_value(c, q->cmd, PMIWIRE_ENOENT, value);
        return;
    }
    (void)pmiwire_msg_int(q->msg, PMIWIRE_F_SRCID, &srcid);
    if (rc == 0 && pmiwire_msg_ext(q->msg, PMIWIRE_EXT_SRC, &src) == 0)
        rc = pmiwire__parse_int(src, &srcid);
    if (rc != 0) {
        pmiwire__refuse(c, q->cmd, rc, NULL);
        return;
    }
    if (how == PMIWIRE_GET_WAIT && pmiwire__refuse_gone(c, q->cmd))
        return; /* the rank has gone once already: nothing would end its wait */
    if (how == PMIWIRE_GET_LOCAL && (srcid < 0 || (uint32_t)srcid >= j->n_ranks))
        srcid = PMIWIRE_RANK_NONE; /* in PMI's own Get the source is only a hint */
    token = pmiwire__pend(c, PMIWIRE__PEND_GET, q->cmd, leave_get);
    c->pend_job = j;
    j->n_gets++;
    rc = pmiwire_exchange_get(j->x, j == c->job ? c->rank : PMIWIRE_RANK_NONE, key, srcid, how,
                              token, &value);
    if (rc == PMIWIRE_PENDING || c->token != token)
        return; /* the answer comes later, or has been sent */
    pmiwire__get_done(c, rc, pmiwire__without_nul(value));
}

static void do_get(const struct pmiwire__req *q)
{
    struct pmiwire_conn *c = q->c;
    struct pmiwire__job *j = named_space(q);
    const struct pmiwire__entry *e = NULL;
    struct pmiwire_str key = {0}, value = {0};

    (void)pmiwire_msg_str(q->msg, PMIWIRE_F_KEY, &key);
    q->s->stats.n_gets++;
    if (!j) {
        pmiwire__refuse(c, q->cmd, PMIWIRE_ENOENT, "no such key-value space");
        return;
    }
    if (key.len + !is_v2(q) > q->s->opts.keylen_max) {
        pmiwire__refuse(c, q->cmd, PMIWIRE_EKEYLEN, NULL);
        return;
    }
    if (q->cmd == PMIWIRE_V1_GET && j->attrs.n) /* PMI-1 has no other way to ask for an attribute */
        e = pmiwire__kvs_find(&j->attrs, key);
    if (e)
        value = pmiwire__entry_value(e);
    if (e || pmiwire__find(j, key, &value) || pmiwire__gathered_find(j, key, &value))
        pmiwire__reply_value(c, q->cmd, 0, value);
    else
        get_by_exchange(q, j, key);
}

static void do_getjobattr(const struct pmiwire__req *q)
{
    struct pmiwire__job *j = q->c->job;
    const struct pmiwire__entry *e;
    struct pmiwire_str key = {0}, none = {0};
    char number[16];

    (void)pmiwire_msg_str(q->msg, PMIWIRE_F_KEY, &key);
    e = pmiwire__kvs_find(&j->attrs, key);
    if (!e && j->universe_size >= 0 && pmiwire__str_eq(key, pmiwire_strz("universeSize"))) {
        snprintf(number, sizeof(number), "%d", (int)j->universe_size);
        pmiwire__reply_value(q->c, q->cmd, 0, pmiwire_strz(number));
        return;
    }
    pmiwire__reply_value(q->c, q->cmd, e ? 0 : PMIWIRE_ENOENT, e ? pmiwire__entry_value(e) : none);
}

/* ---- the end ---- */

static void do_abort(const struct pmiwire__req *q)
{
    static const uint16_t texts[] = {PMIWIRE_F_MESSAGE, PMIWIRE_F_ERROR_MSG, PMIWIRE_F_MSG};
    struct pmiwire_str message = {0};
    struct pmiwire_peer who;
    int32_t exitcode = 1;

    if (!q->c->job) { /* any process can connect to a port, but must not end a job */
        pmiwire__refuse(q->c, q->cmd, PMIWIRE_ESTATE, "abort before the rank is known");
        return;
    }

    (void)pmiwire_msg_int(q->msg, PMIWIRE_F_EXITCODE, &exitcode);
    for (size_t i = 0; i < 3 && !message.ptr; i++)
        (void)pmiwire_msg_str(q->msg, texts[i], &message);
    if (!q->s->ops.abort)
        return;
    pmiwire__peer(q->c, &who);
    q->s->ops.abort(q->s->opts.ctx, &who, exitcode, message);
}

static void do_finalize(const struct pmiwire__req *q)
{
    struct pmiwire_conn *c = q->c;
    struct pmiwire__job *j = c->job;

    pmiwire__reply_ok(c, q->cmd);
    if (!pmiwire__alive(c))
        return;
    pmiwire__set_state(c, PMIWIRE_CONN_FINALIZED);
    pmiwire__rank_gone(j, c->rank, PMIWIRE_GONE_FINALIZED, NULL);
}

/* ---- dispatch ---- */

static void dispatch_request(const struct pmiwire__req *q)
{
    switch (q->cmd) {
    case PMIWIRE_V1_INIT: do_init(q); break;
    case PMIWIRE_V1_INITACK: do_initack(q); break;
    case PMIWIRE_V1_SINGINIT: do_singinit(q); break;
    case PMIWIRE_V2_FULLINIT: do_fullinit(q); break;
    case PMIWIRE_V1_GET_MAXES: do_maxes(q); break;
    case PMIWIRE_V1_GET_APPNUM: reply_number(q, PMIWIRE_F_APPNUM, rank_appnum(q->c)); break;
    case PMIWIRE_V1_GET_UNIVERSE_SIZE:
        reply_number(q, PMIWIRE_F_SIZE, q->c->job->universe_size);
        break;
    case PMIWIRE_V1_GET_MY_KVSNAME:
    case PMIWIRE_V2_JOB_GETID: do_kvsname(q); break;
    case PMIWIRE_V2_JOB_CONNECT:
    case PMIWIRE_V2_JOB_DISCONNECT: do_connect(q); break;
    case PMIWIRE_V1_PUT:
    case PMIWIRE_V2_KVS_PUT: do_put(q); break;
    case PMIWIRE_V1_GET:
    case PMIWIRE_V2_KVS_GET: do_get(q); break;
    case PMIWIRE_V1_BARRIER_IN:
    case PMIWIRE_V2_KVS_FENCE: pmiwire__do_fence(q); break;
    case PMIWIRE_V2_RING: pmiwire__do_ring(q); break;
    case PMIWIRE_V2_INFO_GETJOBATTR: do_getjobattr(q); break;
    case PMIWIRE_V2_INFO_GETNODEATTR: pmiwire__do_getnodeattr(q); break;
    case PMIWIRE_V2_INFO_PUTNODEATTR: pmiwire__do_putnodeattr(q); break;
    case PMIWIRE_V1_PUBLISH_NAME:
    case PMIWIRE_V2_NAME_PUBLISH: pmiwire__do_name(q, PMIWIRE_NAME_PUBLISH); break;
    case PMIWIRE_V1_UNPUBLISH_NAME:
    case PMIWIRE_V2_NAME_UNPUBLISH: pmiwire__do_name(q, PMIWIRE_NAME_UNPUBLISH); break;
    case PMIWIRE_V1_LOOKUP_NAME:
    case PMIWIRE_V2_NAME_LOOKUP: pmiwire__do_name(q, PMIWIRE_NAME_LOOKUP); break;
    case PMIWIRE_V1_SPAWN: pmiwire__do_spawn_v1(q); break;
    case PMIWIRE_V2_SPAWN: pmiwire__do_spawn_v2(q); break;
    case PMIWIRE_V1_ABORT:
    case PMIWIRE_V2_ABORT: do_abort(q); break;
    case PMIWIRE_V1_FINALIZE:
    case PMIWIRE_V2_FINALIZE: do_finalize(q); break;
    default: pmiwire__reply_unknown(q->c, q->msg->wire, q->msg->cmd); break;
    }
}

/* Returns whether a client may send this command before init. */
static bool allowed_before_init(uint16_t cmd)
{
    switch (cmd) {
    case PMIWIRE_V1_INIT:
    case PMIWIRE_V1_INITACK:
    case PMIWIRE_V1_SINGINIT:
    case PMIWIRE_V1_ABORT:
    case PMIWIRE_V2_FULLINIT:
    case PMIWIRE_V2_ABORT: return true;
    default: return false;
    }
}

/* Replaces `;;` in values by `;`, in the first half of 2 * raw_len bytes of the server's scratch
 * memory. */
static bool unescape_values(struct pmiwire_server *s, struct pmiwire_msg *msg, size_t raw_len)
{
    char *at = NULL;

    for (uint32_t i = 0; i < msg->n_fields; i++) {
        struct pmiwire_field *f = &msg->fields[i];

        if (!(f->flags & PMIWIRE_FIELD_ESCAPED))
            continue;
        if (!at)
            at = pmiwire__scratch(s, 2 * raw_len);
        if (!at)
            return false;
        f->value.len = pmiwire_unescape(f->value, at);
        f->value.ptr = at;
        at += f->value.len;
        f->flags = (uint16_t)(f->flags & ~PMIWIRE_FIELD_ESCAPED);
    }
    return true;
}

/* Decodes the fields that fp-bytes names. */
static int decode_bytes(struct pmiwire_conn *c, struct pmiwire_msg *msg, size_t raw_len,
                        struct pmiwire_error *err)
{
    char *memory;
    size_t used;

    if (!c->has_bytes || !pmiwire__msg_has_bytes(msg))
        return 0;
    memory = pmiwire__scratch(c->s, 2 * raw_len); /* the second half: see unescape_values() */
    if (!memory)
        return pmiwire__msg_error(err, -ENOMEM, msg->id, 0, 0);
    return pmiwire__msg_bytes(msg, memory + raw_len, &used, err);
}

/* Drops empty names and ranks: Slurm's client writes `jobid=;` without a job id. */
static void drop_empty_fields(struct pmiwire_msg *msg)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < msg->n_fields; i++) {
        const struct pmiwire_field *f = &msg->fields[i];

        if (f->value.len == 0 && (f->id == PMIWIRE_F_JOBID || f->id == PMIWIRE_F_PMIJOBID ||
                                  f->id == PMIWIRE_F_KVSNAME || f->id == PMIWIRE_F_SRCID))
            continue;
        if (n != i)
            msg->fields[n] = *f;
        n++;
    }
    msg->n_fields = n;
}

/* Keeps the id of the thread that asks, for the answer. */
static bool keep_thrid(struct pmiwire_conn *c, const struct pmiwire_msg *msg)
{
    const struct pmiwire_field *f = pmiwire__msg_field(msg, PMIWIRE_F_THRID);

    if (!f)
        return true;
    if (f->value.len == 0 || f->value.len > sizeof(c->thrid) ||
        pmiwire__check_value(c->s->v2_mpich, PMIWIRE_V2, f->value) != 0)
        return false;
    memcpy(c->thrid, f->value.ptr, f->value.len);
    c->thrid_len = (uint8_t)f->value.len;
    return true;
}

/* Answers a malformed message with an error; the last one that PMIWIRE__PATIENCE allows fails the
 * connection. */
static void refuse_malformed(struct pmiwire_conn *c, uint16_t cmd, const struct pmiwire_msg *msg,
                             int code, uint16_t field, const char *text)
{
    bool answer;

    c->s->stats.n_bad++;
    if (++c->n_bad >= PMIWIRE__PATIENCE) {
        pmiwire__fail(c, code, "too many malformed messages");
        return;
    }
    if (cmd) {
        answer = cmd != PMIWIRE_V1_SPAWN || pmiwire__spawn_refuse_part(c, msg, code);
        pmiwire__diag(c, code, text);
        if (answer)
            pmiwire__reply_error_in(c, cmd, code, field, text);
        return;
    }
    if (!pmiwire__is_name(msg->cmd, 0)) {
        pmiwire__fail(c, code, "unknown command with an unprintable or long name");
        return;
    }
    pmiwire__diag(c, code, text);
    pmiwire__reply_unknown(c, msg->wire, msg->cmd);
}

void pmiwire__handle_broken(struct pmiwire_conn *c, int code, const struct pmiwire_msg *msg)
{
    const struct pmiwire_command_desc *desc = msg->id ? pmiwire_command_get(msg->id) : NULL;
    const uint16_t cmd = desc && !desc->is_reply ? desc->id : 0;
    struct pmiwire_error err;

    pmiwire__msg_error(&err, code, msg->id, 0, c->dec.err_offset);
    if (code == PMIWIRE_ENOEQ && cmd == PMIWIRE_V1_PUT)
        snprintf(err.text + strlen(err.text), sizeof(err.text) - strlen(err.text),
                 ": PMI-1 without fp-bytes cannot carry byte 0x20");
    if (c->dec.err_bytes == 0 || (!desc && !pmiwire__is_name(msg->cmd, 0))) {
        c->s->stats.n_bad++;
        pmiwire__fail(c, code, err.text);
        return;
    }
    c->s->stats.n_messages++;
    c->thrid_len = 0;
    refuse_malformed(c, cmd, msg, code, PMIWIRE_F_NONE, err.text);
}

void pmiwire__handle(struct pmiwire_conn *c, struct pmiwire_msg *msg, const char *raw,
                     size_t raw_len)
{
    const struct pmiwire_command_desc *desc = msg->id ? pmiwire_command_get(msg->id) : NULL;
    struct pmiwire__req q = {c->s, c, msg, msg->id, raw, raw_len, msg->n_fields};
    struct pmiwire_error err;
    char text[200];
    int rc;

    c->thrid_len = 0;
    if (msg->wire == PMIWIRE_V2)
        c->pad_right = msg->pad_right != 0;
    if (!desc || desc->is_reply) {
        if (pmiwire__is_name(msg->cmd, 0))
            snprintf(text, sizeof(text), "unknown command \"%.*s\"", (int)msg->cmd.len,
                     msg->cmd.ptr);
        else
            snprintf(text, sizeof(text), "unknown command");
        if (msg->wire == PMIWIRE_V2)
            (void)keep_thrid(c, msg);
        refuse_malformed(c, 0, msg, PMIWIRE_EUNKNOWN, PMIWIRE_F_NONE, text);
        return;
    }
    if (msg->wire == PMIWIRE_V2) {
        if (!unescape_values(c->s, msg, raw_len)) {
            pmiwire__refuse(c, q.cmd, -ENOMEM, NULL);
            return;
        }
        if (!keep_thrid(c, msg)) {
            refuse_malformed(c, q.cmd, msg, PMIWIRE_ETYPE, PMIWIRE_F_THRID,
                             "thread id that cannot be sent back");
            return;
        }
    }
    drop_empty_fields(msg);
    rc = pmiwire_msg_check(msg, 0, &err);
    if (rc == 0)
        rc = decode_bytes(c, msg, raw_len, &err);
    if (rc != 0) {
        refuse_malformed(c, q.cmd, msg, rc, err.field, err.text);
        return;
    }
    if (c->state == PMIWIRE_CONN_FINALIZED)
        pmiwire__refuse(c, q.cmd, PMIWIRE_ESTATE, "command after finalize");
    else if (c->state == PMIWIRE_CONN_NEW && !allowed_before_init(q.cmd))
        pmiwire__refuse(c, q.cmd, PMIWIRE_ESTATE, "command before init");
    else
        dispatch_request(&q);
}
