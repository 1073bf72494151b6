/* SPDX-License-Identifier: BSD-3-Clause */
/* Fence, Allgather and Ring: clients wait here while the job's exchange does the work. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server_internal.h"

/* Answers a rank that waits in a collective which cannot complete, with the reason. */
static void answer_coll_gone(struct pmiwire_conn *c, uint16_t cmd, uint32_t kind)
{
    const char *what = kind == PMIWIRE_COLL_FENCE       ? "this fence cannot complete"
                       : kind == PMIWIRE_COLL_ALLGATHER ? "this Allgather cannot complete"
                                                        : "this ring cannot complete";
    char text[PMIWIRE__GONE_TEXT];
    uint32_t why = 0;
    const int32_t rank = pmiwire_exchange_culprit(c->job->x, kind, &why);

    pmiwire__gone_text(text, rank, why, what);
    pmiwire__stuck(c, kind, rank, why, text);
    pmiwire__reply_error(c, cmd, PMIWIRE_EGONE, text);
}

static void answer_coll_error(struct pmiwire_conn *c, uint16_t cmd, uint32_t kind, int rc)
{
    if (rc == PMIWIRE_EGONE && c->job)
        answer_coll_gone(c, cmd, kind);
    else
        pmiwire__reply_error(c, cmd, rc, NULL);
}

/* ---- fence and Allgather ---- */

void pmiwire__coll_done(struct pmiwire__job *j, uint32_t kind, int rc)
{
    /* Only an Allgather's answer has fp-array. */
    const uint16_t but = kind == PMIWIRE_COLL_FENCE ? PMIWIRE_EXT_ARRAY : 0;
    struct pmiwire_server *s = j->s;
    struct pmiwire__link list;
    struct pmiwire_peer who;
    size_t ext_bytes;

    if (kind == PMIWIRE_COLL_FENCE && rc == 0) {
        s->stats.n_fences++;
        if (s->ops.fenced) {
            pmiwire__job_peer(j, &who);
            s->ops.fenced(s->opts.ctx, &who);
        }
    }
    /* Ranks that enter again during the loop wait for the next collective. */
    pmiwire__take_all(&j->waiting[kind], &list);
    ext_bytes = pmiwire__ext_bytes(j, PMIWIRE__AT_FENCE, but);
    while (pmiwire__linked(&list)) {
        struct pmiwire_conn *c = PMIWIRE__OF(struct pmiwire_conn, wait, list.next);
        struct pmiwire__reply r;
        uint16_t cmd = c->pend_cmd;

        pmiwire__resume(c);
        if (rc != 0) {
            answer_coll_error(c, cmd, kind, rc);
        } else if (pmiwire__reply_begin(&r, c, cmd, 0, ext_bytes)) {
            if (ext_bytes)
                pmiwire__reply_ext(&r, PMIWIRE__AT_FENCE, but);
            pmiwire__reply_send(&r, cmd);
        }
    }
}

/* Enters a fence, or with a value an Allgather, and waits. */
static void enter_coll(const struct pmiwire__req *q, const struct pmiwire_str *value)
{
    const uint32_t kind = value ? PMIWIRE_COLL_ALLGATHER : PMIWIRE_COLL_FENCE;
    struct pmiwire_conn *c = q->c;
    struct pmiwire__job *j = c->job;
    const uint64_t token =
        pmiwire__pend(c, value ? PMIWIRE__PEND_GATHER : PMIWIRE__PEND_FENCE, q->cmd, NULL);
    int rc;

    pmiwire__append(&j->waiting[kind], &c->wait);
    rc = value ? pmiwire_exchange_allgather(j->x, c->rank, *value)
               : pmiwire_exchange_fence(j->x, c->rank);
    if (rc == 0 || c->token != token)
        return;
    pmiwire__unpend(c);
    answer_coll_error(c, q->cmd, kind, rc);
}

/* Enter an Allgather with a value that is percent-encoded. */
static void enter_allgather(const struct pmiwire__req *q, struct pmiwire_str encoded)
{
    struct pmiwire_server *s = q->s;
    char *memory = pmiwire__scratch(s, encoded.len);
    const ssize_t n = memory ? pmiwire__bytes_decode(encoded, memory) : 0;
    const struct pmiwire_str value = {memory, n < 0 ? 0 : (size_t)n};

    if (!memory)
        pmiwire__refuse(q->c, q->cmd, -ENOMEM, NULL);
    else if (n < 0)
        pmiwire__refuse(q->c, q->cmd, PMIWIRE_ECHARS,
                        "fp-gather: a percent sign that encodes no byte");
    else if (value.len == 0)
        pmiwire__refuse(q->c, q->cmd, PMIWIRE_EEMPTY, NULL);
    else if (pmiwire__too_long(q->msg->wire, value.len, s->opts.vallen_max))
        pmiwire__refuse(q->c, q->cmd, PMIWIRE_EVALLEN, NULL);
    else
        enter_coll(q, &value);
}

void pmiwire__do_fence(const struct pmiwire__req *q)
{
    struct pmiwire_str group, value;

    if (pmiwire_msg_ext(q->msg, PMIWIRE_EXT_RING, &value) == 0) {
        pmiwire__do_ring(q);
    } else if (q->cmd == PMIWIRE_V1_BARRIER_IN &&
               pmiwire_msg_str(q->msg, PMIWIRE_F_GROUP, &group) == 0) {
        pmiwire__do_group(q, group);
    } else if (pmiwire__refuse_gone(q->c, q->cmd)) {
        return;
    } else if (pmiwire_msg_ext(q->msg, PMIWIRE_EXT_GATHER, &value) != 0) {
        enter_coll(q, NULL);
    } else {
        enter_allgather(q, value);
    }
}

/* ---- ring ---- */

/* Answers with PMI-2's own fields, or to a PMI-1 client with the extension's. */
static void answer_ring(struct pmiwire_conn *c, uint16_t cmd, uint32_t place,
                        struct pmiwire_str left, struct pmiwire_str right)
{
    const struct pmiwire_str none = {NULL, 0};
    struct pmiwire__reply reply;
    char number[16];

    if (!pmiwire__reply_begin(&reply, c, cmd, 0, left.len + right.len))
        return;
    pmiwire__reply_bytes(&reply, cmd == PMIWIRE_V2_RING ? PMIWIRE_F_RING_LEFT : 0,
                         left.len ? left : none, right.len ? right : none);
    if (cmd == PMIWIRE_V2_RING) {
        pmiwire_enc_int(&reply.e, PMIWIRE_F_RING_COUNT, place);
        if (left.len)
            pmiwire_enc_str(&reply.e, PMIWIRE_F_RING_LEFT, left);
        if (right.len)
            pmiwire_enc_str(&reply.e, PMIWIRE_F_RING_RIGHT, right);
    } else {
        snprintf(number, sizeof(number), "%u", (unsigned)place);
        pmiwire__enc_ext(&reply.e, PMIWIRE_EXT_PLACE, pmiwire_strz(number));
        if (left.len)
            pmiwire__enc_value(&reply.e, PMIWIRE_EXT_LEFT, left);
        if (right.len)
            pmiwire__enc_value(&reply.e, PMIWIRE_EXT_RIGHT, right);
    }
    pmiwire__reply_send(&reply, cmd);
}

void pmiwire__ring_done(struct pmiwire__job *j, uint32_t rank, int rc, uint32_t place,
                        struct pmiwire_str left, struct pmiwire_str right)
{
    struct pmiwire_conn *c = pmiwire__conn_of(j, (int32_t)rank);

    if (!c || c->pend != PMIWIRE__PEND_RING)
        return; /* the rank is gone */
    pmiwire__resume(c);
    if (rc == 0)
        answer_ring(c, c->pend_cmd, place, left, right);
    else
        answer_coll_error(c, c->pend_cmd, PMIWIRE_COLL_RING, rc);
}

void pmiwire__do_ring(const struct pmiwire__req *q)
{
    struct pmiwire_conn *c = q->c;
    struct pmiwire_str left = {0}, right = {0};
    uint64_t token;
    int rc;

    if (q->cmd == PMIWIRE_V2_RING) {
        (void)pmiwire_msg_str(q->msg, PMIWIRE_F_RING_LEFT, &left);
        (void)pmiwire_msg_str(q->msg, PMIWIRE_F_RING_RIGHT, &right);
    } else {
        (void)pmiwire_msg_ext(q->msg, PMIWIRE_EXT_RING, &left);
        right = left;
    }
    if (left.len >= q->s->opts.vallen_max || right.len >= q->s->opts.vallen_max) {
        pmiwire__refuse(c, q->cmd, PMIWIRE_EVALLEN, NULL);
        return;
    }
    if (pmiwire__refuse_gone(c, q->cmd))
        return;
    token = pmiwire__pend(c, PMIWIRE__PEND_RING, q->cmd, NULL);
    rc = pmiwire_exchange_ring(c->job->x, c->rank, left, right);
    if (rc == 0 || c->token != token)
        return;
    pmiwire__unpend(c);
    answer_coll_error(c, q->cmd, PMIWIRE_COLL_RING, rc);
}
