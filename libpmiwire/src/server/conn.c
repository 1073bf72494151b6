/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: bytes in, bytes out, and the order of service. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server_internal.h"

static size_t waiting_bytes(const struct pmiwire_conn *c)
{
    return c->in.len - c->in.off;
}

/* ---- life ---- */

int pmiwire__bind(struct pmiwire_conn *c, uint32_t job, int32_t rank)
{
    struct pmiwire__job *j = pmiwire__job(c->s, job);
    uint32_t i;

    if (!j)
        return PMIWIRE_ENOENT;
    i = pmiwire__local_index(j, rank);
    if (i == PMIWIRE__NOT_HERE)
        return -EINVAL;
    if (j->conns[i])
        return PMIWIRE_EEXIST;
    j->conns[i] = c;
    c->job = j;
    c->rank = rank;
    j->n_conns++;
    return 0;
}

static int take_slot(struct pmiwire_server *s, uint32_t *slot)
{
    if (s->free_slot == UINT32_MAX) {
        uint32_t i, n = s->n_slots ? s->n_slots * 2 : 16;
        struct pmiwire__conn_slot *slots =
            n > 1u << 24 ? NULL : pmiwire__realloc(s, s->slots, n * sizeof(*slots));

        if (!slots)
            return -ENOMEM;
        s->slots = slots;
        for (i = n; i-- > s->n_slots;) {
            slots[i].conn = NULL;
            slots[i].next_free = s->free_slot;
            s->free_slot = i;
        }
        s->n_slots = n;
    }
    *slot = s->free_slot;
    s->free_slot = s->slots[*slot].next_free;
    return 0;
}

static void give_slot(struct pmiwire_server *s, uint32_t slot)
{
    s->slots[slot].conn = NULL;
    s->slots[slot].next_free = s->free_slot;
    s->free_slot = slot;
}

int pmiwire_server_accept(struct pmiwire_server *s, uint32_t job, int32_t rank, void *cookie,
                          struct pmiwire_conn **conn)
{
    struct pmiwire_conn *c;
    int rc;

    if (!conn)
        return -EINVAL;
    c = pmiwire__alloc(s, sizeof(*c));
    if (!c)
        return -ENOMEM;
    c->s = s;
    c->cookie = cookie;
    c->rank = PMIWIRE_RANK_UNKNOWN;
    pmiwire__link_init(&c->all);
    pmiwire__link_init(&c->work);
    pmiwire__link_init(&c->wait);
    pmiwire_decoder_init(&c->dec, s->opts.max_msg_bytes, s->opts.decode_flags);
    rc = take_slot(s, &c->slot);
    if (rc != 0) {
        pmiwire__free(s, c);
        return rc;
    }
    c->was_told = rank != PMIWIRE_RANK_UNKNOWN;
    if (c->was_told)
        rc = pmiwire__bind(c, job, rank);
    if (rc != 0) {
        give_slot(s, c->slot);
        pmiwire__free(s, c);
        return rc;
    }
    s->slots[c->slot].conn = c;
    pmiwire__append(&s->conns, &c->all);
    s->stats.n_conns++;
    *conn = c;
    return 0;
}

static void unbind_rank(struct pmiwire_conn *c)
{
    if (!c->job)
        return;
    c->job->conns[pmiwire__local_index(c->job, c->rank)] = NULL;
    c->job->n_conns--;
    c->job = NULL;
}

/* Returns whether the end of this connection means that its rank is gone. A client of a port that
 * has not completed init may connect again. */
static bool ends_rank(const struct pmiwire_conn *c)
{
    return c->job &&
           (c->state == PMIWIRE_CONN_INITED || (c->state == PMIWIRE_CONN_NEW && c->was_told));
}

void pmiwire_conn_close(struct pmiwire_conn *c)
{
    struct pmiwire_server *s = c->s;
    const struct pmiwire__group *group = c->group;
    struct pmiwire__job *j = c->job;
    bool gone;

    if (c->closed)
        return;
    pmiwire__enter(s);
    if (c->state == PMIWIRE_CONN_INITED)
        pmiwire__diag(c, PMIWIRE_EEOF, "connection ended between init and finalize");
    else if (waiting_bytes(c) || c->spawn.total) /* a failed connection has neither */
        pmiwire__diag(c, PMIWIRE_EEOF, "connection ended in the middle of a message");
    if (!c->closed) { /* the callback may have closed it too */
        gone = ends_rank(c);
        c->closed = true;
        pmiwire__unpend(c);
        unbind_rank(c);
        pmiwire__unlink(&c->all);
        pmiwire__unlink(&c->work);
        pmiwire__append(&s->closed_conns, &c->all);
        s->stats.n_conns--;
        if (gone)
            pmiwire__rank_gone(
                j, c->rank,
                c->state == PMIWIRE_CONN_INITED ? PMIWIRE_GONE_CLOSED : PMIWIRE_GONE_ABSENT, group);
    }
    pmiwire__leave(s);
}

static void free_closed(struct pmiwire_server *s)
{
    while (pmiwire__linked(&s->closed_conns)) {
        struct pmiwire_conn *c = PMIWIRE__OF(struct pmiwire_conn, all, s->closed_conns.next);

        pmiwire__unlink(&c->all);
        give_slot(s, c->slot);
        pmiwire__buf_free(&s->mem, &c->in);
        pmiwire__buf_free(&s->mem, &c->out);
        pmiwire__spawn_drop(c);
        pmiwire__free(s, c->pend_mem);
        pmiwire__free(s, c);
    }
    while (pmiwire__linked(&s->removed_jobs)) {
        struct pmiwire__job *j =
            PMIWIRE__OF(struct pmiwire__job, removed_link, s->removed_jobs.next);

        pmiwire__unlink(&j->removed_link);
        pmiwire__job_free(j);
    }
}

void pmiwire__set_state(struct pmiwire_conn *c, uint32_t state)
{
    struct pmiwire_peer who;

    c->state = state;
    if (c->s->ops.state) {
        pmiwire__peer(c, &who);
        c->s->ops.state(c->s->opts.ctx, &who, state);
    }
}

void pmiwire__fail(struct pmiwire_conn *c, int code, const char *text)
{
    const struct pmiwire__group *group = c->group;
    struct pmiwire_server *s = c->s;
    struct pmiwire__job *j = c->job;
    bool gone;

    if (!pmiwire__alive(c))
        return;
    gone = ends_rank(c);
    c->err = code;
    c->state = PMIWIRE_CONN_FAILED; /* first, so that no callback finds it half alive */
    s->stats.n_failed++;
    pmiwire__unpend(c);
    pmiwire__buf_free(&s->mem, &c->in);
    pmiwire__spawn_drop(c);
    c->notify = true;
    pmiwire__work(c);
    pmiwire__diag(c, code, text);
    if (!c->closed)
        pmiwire__set_state(c, PMIWIRE_CONN_FAILED);
    if (gone)
        pmiwire__rank_gone(j, c->rank, PMIWIRE_GONE_CUT_OFF, group);
}

/* ---- waiting ---- */

/* Returns the collective of this PMIWIRE__PEND_*; PMIWIRE_COLL_COUNT_: none. */
static uint32_t coll_of(uint16_t pend)
{
    switch (pend) {
    case PMIWIRE__PEND_FENCE: return PMIWIRE_COLL_FENCE;
    case PMIWIRE__PEND_GATHER: return PMIWIRE_COLL_ALLGATHER;
    case PMIWIRE__PEND_RING: return PMIWIRE_COLL_RING;
    case PMIWIRE__PEND_GROUP: return PMIWIRE_STUCK_GROUP;
    default: return PMIWIRE_COLL_COUNT_;
    }
}

static void report_wait(const struct pmiwire_conn *c, bool begins)
{
    const struct pmiwire_server *s = c->s;
    const uint32_t coll = coll_of(c->pend);
    struct pmiwire_peer who;

    if (!s->ops.waits || coll == PMIWIRE_COLL_COUNT_)
        return;
    pmiwire__peer(c, &who);
    s->ops.waits(s->opts.ctx, &who, coll, begins);
}

uint64_t pmiwire__pend(struct pmiwire_conn *c, uint16_t what, uint16_t cmd,
                       void (*end)(struct pmiwire_conn *c))
{
    c->pend = what;
    c->pend_cmd = cmd;
    c->pend_end = end;
    /* 24 bits of slot and 40 of serial number: a token recurs after 10^12 requests. */
    c->s->serial = (c->s->serial + 1) & ((UINT64_C(1) << 40) - 1);
    if (c->s->serial == 0)
        c->s->serial = 1;
    c->token = ((uint64_t)c->slot << 40) | c->s->serial;
    report_wait(c, true);
    return c->token;
}

void pmiwire__unpend(struct pmiwire_conn *c)
{
    void (*end)(struct pmiwire_conn *) = c->pend_end;

    pmiwire__unlink(&c->wait);
    report_wait(c, false);
    c->pend = PMIWIRE__PEND_NONE;
    c->token = 0;
    c->pend_end = NULL;
    if (end)
        end(c);
}

void pmiwire__resume(struct pmiwire_conn *c)
{
    pmiwire__unpend(c);
    if (!c->closed && (c->notify || waiting_bytes(c)))
        pmiwire__work(c);
}

struct pmiwire_conn *pmiwire__by_token(struct pmiwire_server *s, uint64_t token)
{
    uint64_t slot = token >> 40;
    struct pmiwire_conn *c = slot < s->n_slots ? s->slots[slot].conn : NULL;

    return c && token && c->token == token && pmiwire__alive(c) ? c : NULL;
}

/* ---- serving ---- */

/* Makes the array of fields as long as the decoder needs. */
static bool grow_fields(struct pmiwire_server *s, uint32_t need)
{
    struct pmiwire_field *f;

    if (need <= s->cap_fields || need > s->opts.max_fields)
        return false;
    f = pmiwire__realloc(s, NULL, need * sizeof(*f));
    if (!f)
        return false;
    pmiwire__free(s, s->fields);
    s->fields = f;
    s->cap_fields = need;
    return true;
}

static ssize_t decode_message(struct pmiwire_conn *c, const char *p, size_t n,
                              struct pmiwire_msg *msg)
{
    struct pmiwire_server *s = c->s;
    ssize_t k;

    for (;;) {
        memset(msg, 0, sizeof(*msg));
        msg->fields = s->fields;
        msg->cap_fields = s->cap_fields;
        k = pmiwire_decode(&c->dec, p, n, msg);
        if (k != PMIWIRE_EFIELDS || !grow_fields(s, c->dec.need_fields))
            return k;
    }
}

/* Serves messages until one has to wait or is incomplete. Returns the bytes used. */
static size_t serve_input(struct pmiwire_conn *c, const char *p, size_t n)
{
    size_t used = 0;

    while (pmiwire__alive(c) && c->pend == PMIWIRE__PEND_NONE) {
        struct pmiwire_msg msg;
        ssize_t k;

        if (used == n)
            break;
        k = decode_message(c, p + used, n - used, &msg);
        if (k == 0)
            break;
        if (k < 0) {
            pmiwire__handle_broken(c, (int)k, &msg);
            used += c->dec.err_bytes; /* 0: the connection has failed */
            continue;
        }
        c->s->stats.n_messages++;
        pmiwire__handle(c, &msg, p + used, (size_t)k);
        used += (size_t)k;
    }
    return pmiwire__alive(c) ? used : n;
}

/* Keeps the new bytes that serve_input() left, behind those in c->in. */
static void keep_unserved(struct pmiwire_conn *c, const char *p, size_t n)
{
    struct pmiwire__buf whole = {0};

    if (n == 0 || !pmiwire__alive(c))
        return;
    if (waiting_bytes(c) == 0) {
        c->in.off = c->in.len = 0;
        if (pmiwire__buf_append(&c->s->mem, &c->in, p, n) != 0)
            pmiwire__fail(c, -ENOMEM, NULL);
        return;
    }
    if (pmiwire__buf_append(&c->s->mem, &whole, p, n) != 0 ||
        pmiwire__buf_append(&c->s->mem, &whole, c->in.ptr + c->in.off, waiting_bytes(c)) != 0) {
        pmiwire__buf_free(&c->s->mem, &whole);
        pmiwire__fail(c, -ENOMEM, NULL);
        return;
    }
    pmiwire__buf_free(&c->s->mem, &c->in);
    c->in = whole;
}

/* Serves from the connection's own buffer. Detaches the buffer first, because a callback may hand
 * over more input. */
static void serve_buffered(struct pmiwire_conn *c)
{
    struct pmiwire_server *s = c->s;
    struct pmiwire__buf b = c->in;

    memset(&c->in, 0, sizeof(c->in));
    b.off += serve_input(c, b.ptr + b.off, b.len - b.off);
    if (pmiwire__alive(c) && b.off < b.len) {
        if (waiting_bytes(c) &&
            pmiwire__buf_append(&s->mem, &b, c->in.ptr + c->in.off, waiting_bytes(c)) != 0) {
            pmiwire__buf_free(&s->mem, &b);
            pmiwire__fail(c, -ENOMEM, NULL);
            return;
        }
        pmiwire__buf_free(&s->mem, &c->in);
        c->in = b;
        return;
    }
    pmiwire__buf_free(&s->mem, &b);
}

/* Enforces the limit on the bytes behind an unanswered request. */
static void check_backlog(struct pmiwire_conn *c)
{
    if (pmiwire__alive(c) && c->pend != PMIWIRE__PEND_NONE &&
        waiting_bytes(c) > 2 * c->s->opts.max_msg_bytes)
        pmiwire__fail(c, PMIWIRE_ETOOBIG,
                      "too much input behind a request that waits for its answer");
}

void pmiwire__work(struct pmiwire_conn *c)
{
    if (!c->closed && !pmiwire__linked(&c->work))
        pmiwire__append(&c->s->work, &c->work);
}

static void serve_work(struct pmiwire_server *s)
{
    while (pmiwire__linked(&s->work)) {
        struct pmiwire_conn *c = PMIWIRE__OF(struct pmiwire_conn, work, s->work.next);

        pmiwire__unlink(&c->work);
        if (c->notify) {
            c->notify = false;
            if (s->ops.ready)
                s->ops.ready(s->opts.ctx, c, c->cookie);
        }
        if (pmiwire__alive(c) && c->pend == PMIWIRE__PEND_NONE && waiting_bytes(c))
            serve_buffered(c);
        check_backlog(c);
    }
}

void pmiwire__enter(struct pmiwire_server *s)
{
    s->depth++;
}

void pmiwire__leave(struct pmiwire_server *s)
{
    if (s->depth == 1) {
        serve_work(s);
        free_closed(s);
    }
    s->depth--;
}

int pmiwire_conn_input(struct pmiwire_conn *c, const void *data, size_t n)
{
    struct pmiwire_server *s = c->s;
    int rc;

    if (!pmiwire__alive(c))
        return c->err;
    if (n == 0)
        return 0;
    pmiwire__enter(s);
    s->stats.bytes_in += n;
    c->moved_in = true;
    if (s->depth == 1 && c->pend == PMIWIRE__PEND_NONE && waiting_bytes(c) == 0) {
        size_t used = serve_input(c, data, n);

        keep_unserved(c, (const char *)data + used, n - used);
    } else if (pmiwire__buf_append(&s->mem, &c->in, data, n) != 0) {
        pmiwire__fail(c, -ENOMEM, NULL);
    } else {
        pmiwire__work(c);
    }
    check_backlog(c);
    if (s->depth == 1)
        serve_work(s);
    rc = c->err;
    pmiwire__leave(s);
    return rc;
}

/* ---- output ---- */

size_t pmiwire_conn_output(struct pmiwire_conn *c, const void **data)
{
    *data = c->out.ptr ? c->out.ptr + c->out.off : NULL;
    return c->out.len - c->out.off;
}

void pmiwire_conn_sent(struct pmiwire_conn *c, size_t n)
{
    size_t have = c->out.len - c->out.off;

    if (n == 0)
        return;
    c->moved_out = true;
    c->out.off += n < have ? n : have;
    if (c->out.off == c->out.len) {
        pmiwire__buf_reset(&c->s->mem, &c->out);
    }
}

void pmiwire_conn_query(const struct pmiwire_conn *c, struct pmiwire_info_conn *info)
{
    memset(info, 0, sizeof(*info));
    pmiwire__peer(c, &info->who);
    info->state = c->state;
    info->error = c->err;
    info->has_extensions = c->has_extensions;
}

/* ---- time ---- */

/* Returns whether one side of a connection has made no progress for too long. */
static bool is_stalled(bool busy, bool *moved, uint64_t *stamp, uint64_t now, uint64_t limit)
{
    if (!busy || *moved || *stamp == 0) {
        *stamp = busy ? now : 0;
        *moved = false;
        return false;
    }
    return now - *stamp >= limit;
}

/* Disconnects clients without progress. */
static void check_stalls(struct pmiwire_server *s, uint64_t now_ns)
{
    struct pmiwire__link seen;

    /* A callback may close any connection: so move each from one list to the other. */
    pmiwire__take_all(&s->conns, &seen);
    while (pmiwire__linked(&seen)) {
        struct pmiwire_conn *c = PMIWIRE__OF(struct pmiwire_conn, all, seen.next);
        bool live = c->state != PMIWIRE_CONN_FAILED;
        bool mid = live && c->pend == PMIWIRE__PEND_NONE && (waiting_bytes(c) || c->spawn.total);
        bool unread = live && c->out.len > c->out.off;

        pmiwire__unlink(&c->all);
        pmiwire__append(&s->conns, &c->all);
        if (is_stalled(unread, &c->moved_out, &c->out_stamp, now_ns, s->opts.stall_ns))
            pmiwire__fail(c, PMIWIRE_ESLOW, NULL);
        else if (is_stalled(mid, &c->moved_in, &c->in_stamp, now_ns, s->opts.stall_ns))
            pmiwire__fail(c, PMIWIRE_ESTALL, NULL);
    }
}

void pmiwire_server_tick(struct pmiwire_server *s, uint64_t now_ns)
{
    if (now_ns == 0)
        now_ns = 1; /* 0 means no stamp */
    pmiwire__enter(s);
    if (s->opts.stall_ns)
        check_stalls(s, now_ns);
    for (uint32_t i = 0; i < s->n_jobs; i++) /* callbacks may add and remove jobs */
        if (s->jobs[i])
            pmiwire_exchange_tick(s->jobs[i]->x, now_ns);
    pmiwire__leave(s);
}
