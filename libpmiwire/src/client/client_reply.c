/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers to a client session: each answers the oldest request and becomes an event. */
#include "client_internal.h"

/* ---- reading an answer ---- */

/* Reads a field's value. It is a view of the input, or, if `;;` had to become `;`, of the scratch
 * buffer. */
static int read_str(struct pmiwire_client *c, uint16_t field, struct pmiwire_str *out)
{
    const struct pmiwire_field *f = pmiwire__msg_field(&c->msg, field);

    if (!f)
        return PMIWIRE_EMISSING;
    *out = f->value;
    if (f->flags & PMIWIRE_FIELD_ESCAPED) {
        out->ptr = c->scratch + c->scratch_used;
        out->len = pmiwire_unescape(f->value, c->scratch + c->scratch_used);
        c->scratch_used += out->len;
    }
    return 0;
}

static int32_t read_int(const struct pmiwire_client *c, uint16_t field, int32_t otherwise)
{
    (void)pmiwire_msg_int(&c->msg, field, &otherwise);
    return otherwise;
}

/* A protocol error ends the session. */
static int refuse_answer(struct pmiwire_client *c, int code, uint16_t field)
{
    return pmiwire__msg_error(&c->err, code, c->msg.id, field, 0);
}

static int refuse_missing(struct pmiwire_client *c, uint16_t field)
{
    return refuse_answer(c, PMIWIRE_EMISSING, field);
}

/* Keeps the name of our key-value space. The first one stays, as views of it exist. */
static int keep_kvsname(struct pmiwire_client *c, uint16_t field, struct pmiwire_str name)
{
    if (c->info.kvsname.ptr)
        return 0;
    if (name.len > sizeof(c->kvsname))
        return refuse_answer(c, PMIWIRE_EVALLEN, field);
    memcpy(c->kvsname, name.ptr, name.len);
    c->info.kvsname = (struct pmiwire_str){c->kvsname, name.len};
    return 0;
}

/* Returns whether the present message is this command, in this command's framing. */
static int is_cmd(const struct pmiwire_client *c, uint16_t id)
{
    return c->msg.id == id && c->msg.wire == pmiwire_command_get(id)->wire;
}

static int check_server_reply(struct pmiwire_client *c)
{
    return pmiwire_msg_check(&c->msg, PMIWIRE_CHECK_FIRST_WINS, &c->err);
}

/* ---- events ---- */

static void pending_pop(struct pmiwire_client *c)
{
    const struct pmiwire__pending *p = pmiwire__pending_at(c, 0);

    if (p->end > c->answered && p->end <= c->sent)
        c->answered = p->end;
    c->first = (c->first + 1) % PMIWIRE_CLIENT_MAX_PENDING;
    c->n_pending--;
}

/* Fills in an event for the oldest request, without an answer. */
static void begin_event(struct pmiwire_client *c, struct pmiwire_event *ev, int rc)
{
    const struct pmiwire__pending *p = pmiwire__pending_at(c, 0);

    memset(ev, 0, sizeof(*ev));
    ev->op = p->op;
    ev->cookie = p->cookie;
    ev->rc = rc;
}

/* What every answer has: rc, a text, the fields. */
static void answer_event(struct pmiwire_client *c, struct pmiwire_event *ev)
{
    begin_event(c, ev, 0);
    ev->msg = &c->msg;
    ev->peer_rc = read_int(c, PMIWIRE_F_RC, 0);
    ev->rc = ev->peer_rc ? PMIWIRE_EPEER : 0;
    if (read_str(c, PMIWIRE_F_MSG, &ev->text) < 0)
        (void)read_str(c, PMIWIRE_F_ERRMSG, &ev->text);
}

/* ---- init ---- */

static void note_set(struct pmiwire_client *c)
{
    if (pmiwire_msg_int(&c->msg, PMIWIRE_F_RANK, &c->info.rank) == 0)
        c->has_rank = 1;
    if (pmiwire_msg_int(&c->msg, PMIWIRE_F_SIZE, &c->info.n_ranks) == 0)
        c->has_size = 1;
    (void)pmiwire_msg_int(&c->msg, PMIWIRE_F_DEBUG, &c->info.debugged);
}

/* After initack and each `set`: init is next as soon as the rank is known. */
static int send_after_rank(struct pmiwire_client *c)
{
    return pmiwire__client_send_step(c, c->has_rank && c->has_size ? PMIWIRE__STEP_INIT
                                                                   : PMIWIRE__STEP_SET);
}

static int check_rank(struct pmiwire_client *c)
{
    if (c->info.rank < 0 || c->info.rank >= c->info.n_ranks)
        return refuse_answer(c, PMIWIRE_EPROTO, PMIWIRE_F_RANK);
    return 0;
}

/* Keeps the extensions that this answer to init advertises, and ignores those that do not fit. */
static void keep_extensions(struct pmiwire_client *c)
{
    size_t used = 0;

    for (uint16_t i = 1; i < PMIWIRE_EXT_COUNT_; i++) {
        struct pmiwire_str v;

        if (pmiwire_msg_ext(&c->msg, i, &v) != 0 || v.len == 0 ||
            v.len > sizeof(c->ext_bytes) - used)
            continue;
        memcpy(c->ext_bytes + used, v.ptr, v.len);
        c->info.ext[i] = (struct pmiwire_str){c->ext_bytes + used, v.len};
        used += v.len;
    }
    if (c->info.ext[PMIWIRE_EXT_SERVER].len) {
        c->server = *pmiwire_profile_find("fencepost");
        if (c->flags & PMIWIRE_CLIENT_PIPELINE_KNOWN)
            c->flags |= PMIWIRE_CLIENT_PIPELINE;
    }
    c->has_bytes = (c->flags & PMIWIRE_CLIENT_EXTENSIONS) && c->info.ext[PMIWIRE_EXT_BYTES].len;
}

/* The answer to the init line, which both wires begin with. */
static int on_init(struct pmiwire_client *c, int32_t rc)
{
    int32_t version = read_int(c, PMIWIRE_F_PMI_VERSION, (int32_t)c->wire);

    if (version != (int32_t)c->wire)
        return refuse_answer(c, PMIWIRE_EVERSION, PMIWIRE_F_PMI_VERSION);
    if (rc)
        return PMIWIRE_EPEER;
    c->info.version = version;
    c->info.subversion = read_int(c, PMIWIRE_F_PMI_SUBVERSION, 0);
    keep_extensions(c);
    return pmiwire__client_send_step(c, pmiwire__is_v2(c) ? PMIWIRE__STEP_FULLINIT
                                                          : PMIWIRE__STEP_MAXES);
}

static int on_fullinit(struct pmiwire_client *c, struct pmiwire_event *ev)
{
    c->info.rank = read_int(c, PMIWIRE_F_RANK, -1);
    c->info.n_ranks = read_int(c, PMIWIRE_F_SIZE, -1);
    c->info.appnum = read_int(c, PMIWIRE_F_APPNUM, -1);
    c->info.version = read_int(c, PMIWIRE_F_V2_PMI_VERSION, c->info.version);
    c->info.subversion = read_int(c, PMIWIRE_F_V2_PMI_SUBVERSION, c->info.subversion);
    c->info.debugged = read_int(c, PMIWIRE_F_DEBUGGED, 0);
    c->info.spawned = read_str(c, PMIWIRE_F_SPAWNER_JOBID, &ev->value) == 0;
    return check_rank(c);
}

static int32_t not_negative(int32_t n)
{
    return n < 0 ? 0 : n;
}

/* Handles one answer of init. Returns 1 when init is complete, 0 before, or why it failed. */
static int init_step(struct pmiwire_client *c, struct pmiwire_event *ev)
{
    struct pmiwire_str name;
    int rc = ev->rc;

    switch (c->step) {
    case PMIWIRE__STEP_INITACK: note_set(c); return rc ? rc : send_after_rank(c);
    case PMIWIRE__STEP_SET: note_set(c); return send_after_rank(c);
    case PMIWIRE__STEP_INIT: return on_init(c, ev->peer_rc);
    case PMIWIRE__STEP_MAXES:
        if (rc)
            return rc;
        c->info.kvsname_max = not_negative(read_int(c, PMIWIRE_F_KVSNAME_MAX, 0));
        c->info.keylen_max = not_negative(read_int(c, PMIWIRE_F_KEYLEN_MAX, 0));
        c->info.vallen_max = not_negative(read_int(c, PMIWIRE_F_VALLEN_MAX, 0));
        /* The server's own limits count. */
        if (c->has_bytes && c->info.keylen_max && c->info.vallen_max)
            c->server.max_key_bytes = c->server.max_value_bytes = c->server.max_line_bytes = 0;
        return pmiwire__client_send_step(c, PMIWIRE__STEP_APPNUM);
    case PMIWIRE__STEP_APPNUM:
        /* A server may not know it. */
        c->info.appnum = rc ? -1 : read_int(c, PMIWIRE_F_APPNUM, -1);
        return pmiwire__client_send_step(c, PMIWIRE__STEP_KVSNAME);
    case PMIWIRE__STEP_KVSNAME:
        if (rc)
            return rc;
        if (read_str(c, PMIWIRE_F_KVSNAME, &name) < 0)
            return refuse_missing(c, PMIWIRE_F_KVSNAME);
        rc = keep_kvsname(c, PMIWIRE_F_KVSNAME, name);
        if (rc == 0)
            rc = check_rank(c);
        return rc < 0 ? rc : 1;
    case PMIWIRE__STEP_FULLINIT:
        if (rc)
            return rc;
        keep_extensions(c);
        rc = on_fullinit(c, ev);
        return rc < 0 ? rc : 1;
    }
    return PMIWIRE_EPROTO;
}

/*
 * Handles an answer while init is pending. Returns 1 with the event, 0 to continue, or why the
 * session ends. If the server refuses, the event has its answer.
 */
static int during_init(struct pmiwire_client *c, struct pmiwire_event *ev)
{
    struct pmiwire__pending *p = pmiwire__pending_at(c, 0);
    /* Three lines follow initack; when the third one comes, init may have been sent already. */
    const int is_set = is_cmd(c, PMIWIRE_V1_SET) && c->has_pmiid &&
                       c->step != PMIWIRE__STEP_INITACK && c->step <= PMIWIRE__STEP_INIT &&
                       c->n_set < 3;
    int rc;

    if (!is_set && (p->reply == PMIWIRE_V1_SET || !is_cmd(c, p->reply) || p->end > c->sent))
        return refuse_answer(c, PMIWIRE_EPROTO, 0);
    c->n_set += (uint32_t)is_set;
    rc = check_server_reply(c);
    if (rc < 0)
        return rc;
    if (is_set && c->step == PMIWIRE__STEP_INIT) {
        note_set(c);
        return 0;
    }
    answer_event(c, ev);
    rc = init_step(c, ev);
    if (rc == 0)
        return 0;
    if (rc < 0 && rc != PMIWIRE_EPEER && rc != PMIWIRE_EVERSION)
        return rc;
    ev->rc = rc < 0 ? rc : 0;
    if (rc < 0)
        pmiwire__client_fail(c, rc);
    else
        c->state = PMIWIRE__READY;
    pending_pop(c);
    return 1;
}

/* ---- the answers ---- */

/* PMI-1's name service answers `info=ok` or `info=fail`, from some servers without rc. */
static int name_refused(const struct pmiwire_client *c)
{
    struct pmiwire_str info;

    return pmiwire_msg_str(&c->msg, PMIWIRE_F_INFO, &info) == 0 && !pmiwire__is(info, "ok");
}

/* PMI-1 reports a miss by rc; these are the codes that servers use for it. All other codes are
 * errors. */
static int is_miss(int32_t rc)
{
    return rc == -1 || rc == 1 || rc == 4;
}

/* An answer with a value, or without one. */
static int on_value(struct pmiwire_client *c, struct pmiwire_event *ev)
{
    if (ev->peer_rc) {
        if (!pmiwire__is_v2(c) && is_miss(ev->peer_rc))
            ev->rc = PMIWIRE_ENOENT;
        return 0;
    }
    if (!read_int(c, PMIWIRE_F_FOUND, 1)) {
        ev->rc = PMIWIRE_ENOENT;
        return 0;
    }
    return read_str(c, PMIWIRE_F_VALUE, &ev->value) < 0 ? refuse_missing(c, PMIWIRE_F_VALUE) : 0;
}

static int on_lookup(struct pmiwire_client *c, struct pmiwire_event *ev)
{
    if (ev->peer_rc || !read_int(c, PMIWIRE_F_FOUND, 1) ||
        (!pmiwire__is_v2(c) && name_refused(c))) {
        ev->rc = PMIWIRE_ENOENT;
        return 0;
    }
    /* MPICH's servers send `port`, Slurm's `value`, ours both. A PMI-2 answer with neither means
     * "not found". */
    if (read_str(c, PMIWIRE_F_PORT, &ev->value) == 0 ||
        read_str(c, PMIWIRE_F_VALUE, &ev->value) == 0)
        return 0;
    if (!pmiwire__is_v2(c))
        return refuse_missing(c, PMIWIRE_F_PORT);
    ev->rc = PMIWIRE_ENOENT;
    return 0;
}

static int on_universe_size(struct pmiwire_client *c, struct pmiwire_event *ev)
{
    int rc;

    if (!pmiwire__is_v2(c)) {
        ev->number = read_int(c, PMIWIRE_F_SIZE, -1);
        return 0;
    }
    rc = on_value(c, ev);
    if (rc < 0)
        return rc;
    ev->number = -1;
    if (ev->rc == PMIWIRE_ENOENT)
        ev->rc = 0;
    else if (ev->rc == 0 && pmiwire__parse_int(ev->value, &ev->number) < 0)
        return refuse_answer(c, PMIWIRE_ETYPE, PMIWIRE_F_VALUE);
    return 0;
}

static int on_kvsname(struct pmiwire_client *c, struct pmiwire_event *ev)
{
    uint16_t field = pmiwire__is_v2(c) ? PMIWIRE_F_JOBID : PMIWIRE_F_KVSNAME;

    if (ev->rc)
        return 0;
    if (read_str(c, field, &ev->value) < 0)
        return refuse_missing(c, field);
    return keep_kvsname(c, field, ev->value);
}

/* Reads PMI-1's Ring from a barrier's answer. A server that took the Ring for a barrier sends no
 * place. */
static int on_ring_v1(struct pmiwire_client *c, struct pmiwire_event *ev)
{
    struct pmiwire_str place;

    if (ev->rc)
        return 0;
    if (pmiwire_msg_ext(&c->msg, PMIWIRE_EXT_PLACE, &place) != 0 ||
        pmiwire__parse_int(place, &ev->number) != 0)
        return refuse_answer(c, PMIWIRE_EPROTO, 0);
    (void)pmiwire_msg_ext(&c->msg, PMIWIRE_EXT_LEFT, &ev->value);
    (void)pmiwire_msg_ext(&c->msg, PMIWIRE_EXT_RIGHT, &ev->value2);
    return 0;
}

static int on_ring(struct pmiwire_client *c, struct pmiwire_event *ev)
{
    if (!pmiwire__is_v2(c))
        return on_ring_v1(c, ev);
    ev->number = read_int(c, PMIWIRE_F_RING_COUNT, -1);
    (void)read_str(c, PMIWIRE_F_RING_LEFT, &ev->value);
    (void)read_str(c, PMIWIRE_F_RING_RIGHT, &ev->value2);
    return 0;
}

/* Handles the expected, well-formed answer. Returns 0 with the event complete, or why the session
 * ends. */
static int on_answer(struct pmiwire_client *c, struct pmiwire_event *ev)
{
    switch (ev->op) {
    case PMIWIRE_OP_GET:
    case PMIWIRE_OP_JOBATTR:
    case PMIWIRE_OP_NODEATTR_GET:
    case PMIWIRE_OP_NODEATTR_WAIT: return on_value(c, ev);
    case PMIWIRE_OP_LOOKUP: return on_lookup(c, ev);
    case PMIWIRE_OP_PUBLISH:
    case PMIWIRE_OP_UNPUBLISH:
        if (!pmiwire__is_v2(c) && name_refused(c))
            ev->rc = PMIWIRE_EPEER;
        return 0;
    case PMIWIRE_OP_UNIVERSE_SIZE: return on_universe_size(c, ev);
    case PMIWIRE_OP_APPNUM: ev->number = read_int(c, PMIWIRE_F_APPNUM, -1); return 0;
    case PMIWIRE_OP_KVSNAME: return on_kvsname(c, ev);
    case PMIWIRE_OP_SPAWN: (void)read_str(c, PMIWIRE_F_JOBID, &ev->value); return 0;
    case PMIWIRE_OP_RING: return on_ring(c, ev);
    case PMIWIRE_OP_FINALIZE: c->state = PMIWIRE__OVER; return 0;
    default: return 0;
    }
}

/* Returns whether the present message answers this request. */
static int is_answer_to(struct pmiwire_client *c, const struct pmiwire__pending *p)
{
    /* A request that has not been sent completely has no answer. */
    if (p->end > c->sent)
        return 0;
    /* Slurm answers a PMI-1 spawn that fails in PMI-2's words. */
    if (p->op == PMIWIRE_OP_SPAWN && is_cmd(c, PMIWIRE_V2_SPAWN_RESPONSE))
        return 1;
    return p->reply && is_cmd(c, p->reply);
}

/* Handles a message. Returns 1 with the event, 0 without one, or why the session ends. */
static int on_message(struct pmiwire_client *c, struct pmiwire_event *ev)
{
    const struct pmiwire__pending *p = pmiwire__head(c);
    int rc;

    c->scratch_used = 0;
    if (!p)
        return refuse_answer(c, PMIWIRE_EPROTO, 0);
    if (c->state == PMIWIRE__STARTING)
        return during_init(c, ev);
    if (!is_answer_to(c, p))
        return refuse_answer(c, PMIWIRE_EPROTO, 0);
    rc = check_server_reply(c);
    if (rc == 0 && c->has_bytes && pmiwire__msg_has_bytes(&c->msg))
        rc = pmiwire__msg_bytes(&c->msg, c->scratch, &c->scratch_used, &c->err);
    if (rc < 0)
        return rc;
    answer_event(c, ev);
    rc = on_answer(c, ev);
    if (rc < 0)
        return rc;
    pending_pop(c);
    return 1;
}

/* ---- the next event ---- */

/* Makes an event for a request that no answer follows. Returns 1 if the oldest request is one. */
static int without_answer(struct pmiwire_client *c, struct pmiwire_event *ev)
{
    const struct pmiwire__pending *p = pmiwire__head(c);

    if (!p)
        return 0;
    if (p->op == PMIWIRE_OP_ABORT && p->end <= c->sent) {
        /* The abort has been sent, even if the session has died since. */
        begin_event(c, ev, 0);
    } else if (c->dead) {
        begin_event(c, ev, c->dead);
    } else if (p->local) {
        begin_event(c, ev, 0);
        ev->number = c->info.appnum;
    } else {
        return 0;
    }
    pending_pop(c);
    return 1;
}

/* The session has ended, and every request has had its event. */
static int report_end(const struct pmiwire_client *c, int rc, struct pmiwire_error *err)
{
    if (err && c->err.code)
        *err = c->err;
    else
        pmiwire__error(err, rc, NULL, "", 0);
    return rc;
}

int pmiwire_client_next(struct pmiwire_client *c, struct pmiwire_event *ev,
                        struct pmiwire_error *err)
{
    c->in_head += c->shown;
    c->shown = 0;
    while (c->state != PMIWIRE__OVER) {
        ssize_t n;
        int rc;

        if (without_answer(c, ev))
            return 1;
        if (c->dead)
            return report_end(c, c->dead, err);
        n = pmiwire_decode(&c->decoder, c->in + c->in_head, c->in_tail - c->in_head, &c->msg);
        if (n == 0 && !c->eof)
            return 0;
        if (n <= 0) {
            if (n < 0)
                pmiwire__msg_error(&c->err, (int)n, c->msg.id, 0, c->decoder.err_offset);
            pmiwire__client_fail(c, n < 0 ? (int)n : PMIWIRE_EEOF);
            continue;
        }
        rc = on_message(c, ev);
        if (rc > 0)
            c->shown = (size_t)n;
        else
            c->in_head += (size_t)n;
        if (rc < 0)
            pmiwire__client_fail(c, rc);
        else if (rc > 0)
            return 1;
    }
    return report_end(c, PMIWIRE_ESTATE, err);
}
