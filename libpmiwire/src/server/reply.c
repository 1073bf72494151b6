/* SPDX-License-Identifier: BSD-3-Clause */
/* Replies, in the wire of the request, and diagnostics. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server_internal.h"

/* Room for all of a reply except its values. */
#define REPLY_ROOM 512u

void pmiwire__peer(const struct pmiwire_conn *c, struct pmiwire_peer *who)
{
    memset(who, 0, sizeof(*who));
    who->job = c->job ? c->job->number : PMIWIRE__NO_JOB;
    who->rank = c->rank;
    who->cookie = c->cookie;
    who->conn = (struct pmiwire_conn *)(uintptr_t)c;
    who->job_cookie = c->job ? c->job->cookie : NULL;
}

void pmiwire__diag(struct pmiwire_conn *c, int code, const char *text)
{
    struct pmiwire_peer who;
    char line[768];

    if (!c->s->ops.diag)
        return;
    if (!text)
        text = pmiwire_strerror(code);
    if (c->job)
        snprintf(line, sizeof(line), "%.300s rank %d: %.400s", c->job->kvsname, (int)c->rank, text);
    else
        snprintf(line, sizeof(line), "unidentified client: %.400s", text);
    for (size_t i = 0; line[i]; i++)
        if (line[i] < 32 || line[i] > 126)
            line[i] = '?';
    pmiwire__peer(c, &who);
    c->s->ops.diag(c->s->opts.ctx, &who, code, line);
}

/* ---- building a reply ---- */

static const struct pmiwire_profile *reader_profile(const struct pmiwire_conn *c, uint16_t wire)
{
    if (c->has_bytes)
        return &c->s->ours;
    /* PMI-1 clients do not name their library, so only the framing's rules apply. MPICH 4.0's short
     * lines are no danger, since it limits the values that it puts. */
    if (wire != PMIWIRE_V2)
        return NULL;
    if (c->has_extensions)
        return &c->s->ours;
    return c->pad_right ? c->s->v2_slurm : c->s->v2_mpich;
}

/* Makes room at the end of the output, or fails the connection. */
static bool reply_room(struct pmiwire_conn *c, size_t bytes)
{
    if (!pmiwire__alive(c))
        return false;
    /* A `;` doubles in PMI-2, and an encoded byte takes three. */
    if (bytes > SIZE_MAX / 4 ||
        pmiwire__buf_room(&c->s->mem, &c->out, REPLY_ROOM + 3 * bytes) != 0) {
        pmiwire__fail(c, -ENOMEM, NULL);
        return false;
    }
    return true;
}

static void echo_thrid(struct pmiwire__reply *r)
{
    struct pmiwire_conn *c = r->c;
    struct pmiwire_str thrid = {c->thrid, c->thrid_len};

    if (c->pad_right)
        r->e.pad_right = 1;
    if (c->thrid_len)
        pmiwire_enc_str(&r->e, PMIWIRE_F_THRID, thrid);
}

bool pmiwire__reply_begin(struct pmiwire__reply *r, struct pmiwire_conn *c, uint16_t cmd,
                          int32_t rc, size_t bytes)
{
    const struct pmiwire_command_desc *req = pmiwire_command_get(cmd), *desc;

    desc = req && req->reply ? pmiwire_command_get(req->reply) : NULL;
    if (!desc || !reply_room(c, bytes))
        return false;
    r->c = c;
    pmiwire_enc_begin(&r->e, c->out.ptr + c->out.len, c->out.cap - c->out.len, desc->id,
                      reader_profile(c, desc->wire));
    r->e.can_bytes = c->has_bytes;
    if (desc->wire == PMIWIRE_V2)
        echo_thrid(r);
    pmiwire_enc_int(&r->e, PMIWIRE_F_RC, rc);
    return true;
}

/* Counts n more bytes at the end of the output. */
static void count_queued(struct pmiwire_conn *c, size_t n)
{
    struct pmiwire_server *s = c->s;
    bool was_empty = c->out.len == c->out.off;

    if (c->out.len - c->out.off + n > s->opts.max_out_bytes) {
        pmiwire__fail(c, PMIWIRE_ESLOW, NULL);
        return;
    }
    c->out.len += n;
    s->stats.bytes_out += n;
    if (was_empty) {
        c->moved_out = true; /* the stall clock starts now */
        c->notify = true;
        pmiwire__work(c);
    }
}

int pmiwire__reply_end(struct pmiwire__reply *r)
{
    ssize_t n = pmiwire_enc_end(&r->e, NULL);

    if (n < 0)
        return (int)n;
    count_queued(r->c, (size_t)n);
    return 0;
}

void pmiwire__reply_bytes(struct pmiwire__reply *r, uint16_t field, struct pmiwire_str value,
                          struct pmiwire_str another)
{
    uint8_t bytes = 0;

    if (value.ptr)
        bytes |= pmiwire__enc_needs(&r->e, field, value);
    if (another.ptr)
        bytes |= pmiwire__enc_needs(&r->e, field, another);
    pmiwire__enc_bytes(&r->e, bytes);
}

void pmiwire__reply_ext(struct pmiwire__reply *r, uint16_t at, uint16_t but)
{
    const struct pmiwire__job *j = r->c->job;

    for (uint16_t i = 1; j && i < PMIWIRE_EXT_COUNT_; i++)
        if (j->ext[i] && (pmiwire__ext_get(i)->at & at) && i != but)
            pmiwire__enc_ext(&r->e, i, pmiwire_strz(j->ext[i]));
}

void pmiwire__reply_ok(struct pmiwire_conn *c, uint16_t cmd)
{
    struct pmiwire__reply r;

    if (pmiwire__reply_begin(&r, c, cmd, 0, 0))
        pmiwire__reply_send(&r, cmd);
}

/* ---- errors ---- */

/* Returns PMI's own code if it has one: PMI_ERR_INVALID_KEY and others have the same numbers on
 * both wires. */
static int32_t wire_rc(uint16_t cmd, int code, uint16_t field)
{
    switch (code) {
    case PMIWIRE_EKEYLEN: return 5;
    case PMIWIRE_EVALLEN: return 7;
    case PMIWIRE_EEMPTY:
    case PMIWIRE_ECHARS:
        if (field == PMIWIRE_F_KEY)
            return 4;
        if (field == PMIWIRE_F_VALUE || cmd == PMIWIRE_V1_PUT || cmd == PMIWIRE_V2_KVS_PUT)
            return 6; /* not the code of a miss */
        break;
    case PMIWIRE_ELOST:
    case PMIWIRE_EGONE:
    case PMIWIRE_ETIME: return 14; /* PMI2_ERR_OTHER: not the code of a miss */
    default: break;
    }
    switch (cmd) {
    case PMIWIRE_V1_PUBLISH_NAME:
    case PMIWIRE_V1_UNPUBLISH_NAME:
    case PMIWIRE_V1_LOOKUP_NAME: return 1;
    default: return -1;
    }
}

/* Returns the text in a form for this wire: PMI-1 cannot carry a space. */
static struct pmiwire_str wire_text(uint16_t wire, const char *text, char *buf, size_t cap)
{
    struct pmiwire_str out = {buf, 0};

    for (; text[out.len] && out.len < cap; out.len++) {
        char ch = text[out.len];
        bool bad = ch < 32 || ch > 126 || ch == ';' || ch == '\\' || ch == '=';

        buf[out.len] = bad || (wire == PMIWIRE_V1 && ch == ' ') ? '_' : ch;
    }
    return out;
}

/* Adds the fields of an error's answer behind rc, and sends it. */
static void send_error(struct pmiwire__reply *r, uint16_t cmd, const char *text)
{
    const uint16_t wire = r->e.wire == PMIWIRE_V2 ? PMIWIRE_V2 : PMIWIRE_V1;
    char buf[200];
    int err;

    if (cmd == PMIWIRE_V1_INIT) {
        pmiwire_enc_int(&r->e, PMIWIRE_F_PMI_VERSION, 1);
        pmiwire_enc_int(&r->e, PMIWIRE_F_PMI_SUBVERSION, 1);
    }
    pmiwire_enc_str(&r->e, wire == PMIWIRE_V2 ? PMIWIRE_F_ERRMSG : PMIWIRE_F_MSG,
                    wire_text(wire, text, buf, sizeof(buf)));
    if (cmd == PMIWIRE_V1_GET) /* some clients read it first */
        pmiwire_enc_str(&r->e, PMIWIRE_F_VALUE, pmiwire_strz("unknown"));
    err = pmiwire__reply_end(r);
    if (err != 0)
        pmiwire__fail(r->c, err, "an error reply cannot be written");
}

void pmiwire__reply_error_in(struct pmiwire_conn *c, uint16_t cmd, int code, uint16_t field,
                             const char *text)
{
    struct pmiwire__reply r;

    if (pmiwire__reply_begin(&r, c, cmd, wire_rc(cmd, code, field), 200))
        send_error(&r, cmd, text ? text : pmiwire_strerror(code));
}

void pmiwire__reply_error(struct pmiwire_conn *c, uint16_t cmd, int code, const char *text)
{
    pmiwire__reply_error_in(c, cmd, code, PMIWIRE_F_NONE, text);
}

static void refuse_in(struct pmiwire_conn *c, uint16_t cmd, int code, uint16_t field,
                      const char *text)
{
    const struct pmiwire_command_desc *desc = pmiwire_command_get(cmd);
    char line[256];

    if (!pmiwire__alive(c))
        return;
    snprintf(line, sizeof(line), "%s: %s", desc ? desc->name : "?",
             text ? text : pmiwire_strerror(code));
    pmiwire__diag(c, code, line);
    pmiwire__reply_error_in(c, cmd, code, field, text);
}

void pmiwire__refuse(struct pmiwire_conn *c, uint16_t cmd, int code, const char *text)
{
    refuse_in(c, cmd, code, PMIWIRE_F_NONE, text);
}

void pmiwire__reply_send(struct pmiwire__reply *r, uint16_t cmd)
{
    int rc = pmiwire__reply_end(r);
    char text[128];

    if (rc == 0)
        return;
    pmiwire__enc_refusal(&r->e, text, sizeof(text));
    refuse_in(r->c, cmd, rc, r->e.err_field, text);
}

/* ---- values ---- */

/* Checks that this client could read the value back, without regard to length. */
static int check_readable(const struct pmiwire_conn *c, uint16_t wire, struct pmiwire_str value)
{
    const struct pmiwire_profile *p = reader_profile(c, wire);
    int rc;

    if (c->has_bytes)
        return 0;
    if (wire != PMIWIRE_V2) /* a PMI-1 client can read back the bytes that its line carried */
        return value.len ? 0 : PMIWIRE_EEMPTY;
    rc = pmiwire__check_value(p, wire, value);
    if (rc != PMIWIRE_EVALLEN)
        return rc;
    return pmiwire__bad_byte(p, wire, 0, value) < value.len ? PMIWIRE_ECHARS : 0;
}

/* Answers with an error that names the value that this client's wire cannot carry. */
static void refuse_value(struct pmiwire_conn *c, uint16_t cmd, uint16_t wire, int code,
                         struct pmiwire_str value)
{
    const struct pmiwire_profile *p = reader_profile(c, wire);
    const size_t at = code == PMIWIRE_ECHARS ? pmiwire__bad_byte(p, wire, 0, value) : value.len;
    char text[128];

    pmiwire__refusal_text(text, sizeof(text), code, p, wire, "value", at,
                          at < value.len ? (unsigned char)value.ptr[at] : 0);
    refuse_in(c, cmd, code, PMIWIRE_F_VALUE, text);
}

int pmiwire__may_put(const struct pmiwire__req *q, struct pmiwire_str key, struct pmiwire_str value)
{
    const uint16_t wire = q->msg->wire;
    int rc = pmiwire__check_pair(q->s, wire, key, value);

    if (rc != 0) {
        refuse_in(q->c, q->cmd, rc, rc == PMIWIRE_EVALLEN ? PMIWIRE_F_VALUE : PMIWIRE_F_KEY, NULL);
        return rc;
    }
    rc = check_readable(q->c, wire, value);
    if (rc != 0)
        refuse_value(q->c, q->cmd, wire, rc, value);
    return rc;
}

void pmiwire__reply_value(struct pmiwire_conn *c, uint16_t cmd, int rc, struct pmiwire_str value)
{
    struct pmiwire__reply r;
    bool found = rc == 0;

    if (rc == PMIWIRE_ENOENT && (cmd == PMIWIRE_V1_GET || cmd == PMIWIRE_V2_KVS_GET))
        c->s->stats.n_misses++;
    if (found && cmd == PMIWIRE_V1_GET && value.len >= c->s->opts.vallen_max) {
        pmiwire__refuse(c, cmd, PMIWIRE_EVALLEN,
                        "a PMI-2 client put a value of full length, for which PMI-1 has no room");
        return;
    }
    if (found && value.len == 0 && cmd == PMIWIRE_V1_GET && !c->has_bytes) {
        refuse_value(c, cmd, PMIWIRE_V1, PMIWIRE_EEMPTY, value);
        return;
    }
    if (!found && (cmd == PMIWIRE_V1_GET || rc != PMIWIRE_ENOENT)) {
        pmiwire__reply_error(c, cmd, rc, rc == PMIWIRE_ENOENT ? "key not found" : NULL);
        return;
    }
    if (!pmiwire__reply_begin(&r, c, cmd, 0, found ? value.len : 0))
        return;
    if (cmd != PMIWIRE_V1_GET)
        pmiwire_enc_int(&r.e, PMIWIRE_F_FOUND, found);
    if (found)
        pmiwire__enc_pair(&r.e, 0, value, PMIWIRE_F_VALUE, value);
    pmiwire__reply_send(&r, cmd);
}

void pmiwire__reply_unknown(struct pmiwire_conn *c, uint16_t wire, struct pmiwire_str name)
{
    const char *suffix = wire == PMIWIRE_V2 ? "-response" : "_result";
    struct pmiwire__reply r;
    char buf[48];

    /* Do not repeat a name that leaves no room for the suffix within the longest name that peers
     * read. */
    if (name.len + strlen(suffix) > PMIWIRE__NAME_MAX)
        name = pmiwire_strz("unknown");
    snprintf(buf, sizeof(buf), "%.*s%s", (int)name.len, name.ptr, suffix);
    if (!reply_room(c, 0))
        return;
    r.c = c;
    wire = wire == PMIWIRE_V2 ? PMIWIRE_V2 : PMIWIRE_V1;
    pmiwire__enc_begin_named(&r.e, c->out.ptr + c->out.len, c->out.cap - c->out.len, wire,
                             pmiwire_strz(buf), reader_profile(c, wire));
    if (wire == PMIWIRE_V2)
        echo_thrid(&r);
    pmiwire_enc_int(&r.e, PMIWIRE_F_RC, -1);
    send_error(&r, 0, "unknown command");
}
