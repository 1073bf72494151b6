/* SPDX-License-Identifier: BSD-3-Clause */
/* Node attributes, for each job its own. */
#include <errno.h>
#include <string.h>

#include "server_internal.h"

/* Answers a wait for an attribute that no remaining rank can put. */
static void answer_attr_gone(struct pmiwire_conn *c, uint16_t cmd, int32_t rank, uint32_t why)
{
    static const char what[] = "no rank is left to put this attribute";
    char text[PMIWIRE__GONE_TEXT];

    pmiwire__reply_error(c, cmd, PMIWIRE_EGONE,
                         why ? pmiwire__gone_text(text, rank, why, what) : what);
}

void pmiwire__nodeattr_gone(struct pmiwire__job *j, int32_t rank, uint32_t why)
{
    struct pmiwire__link list;

    if (!pmiwire__linked(&j->attr_waiters))
        return;
    pmiwire__take_all(&j->attr_waiters, &list);
    while (pmiwire__linked(&list)) {
        struct pmiwire_conn *c = PMIWIRE__OF(struct pmiwire_conn, wait, list.next);

        if (pmiwire__others_left(j, c->rank)) {
            pmiwire__unlink(&c->wait);
            pmiwire__append(&j->attr_waiters, &c->wait);
            continue;
        }
        pmiwire__resume(c);
        answer_attr_gone(c, c->pend_cmd, rank, why);
    }
}

void pmiwire__do_getnodeattr(const struct pmiwire__req *q)
{
    struct pmiwire_conn *c = q->c;
    struct pmiwire__job *j = c->job;
    struct pmiwire_str key = {0}, none = {0};
    const struct pmiwire__entry *e;
    int wait = 0;

    (void)pmiwire_msg_str(q->msg, PMIWIRE_F_KEY, &key);
    (void)pmiwire_msg_int(q->msg, PMIWIRE_F_WAIT, &wait);
    e = pmiwire__kvs_find(&j->nodeattrs, key);
    if (e || !wait) {
        pmiwire__reply_value(c, q->cmd, e ? 0 : PMIWIRE_ENOENT, e ? pmiwire__entry_value(e) : none);
        return;
    }
    if (key.len >= q->s->opts.keylen_max) { /* no rank could put such a key */
        pmiwire__refuse(c, q->cmd, PMIWIRE_EKEYLEN, NULL);
        return;
    }
    if (!pmiwire__others_left(j, c->rank)) {
        uint32_t why = 0;
        int32_t rank = pmiwire__gone_other(j, c->rank, &why);

        answer_attr_gone(c, q->cmd, rank, why);
        return;
    }
    pmiwire__free(q->s, c->pend_mem);
    c->pend_mem = pmiwire__alloc(q->s, key.len);
    if (!c->pend_mem) {
        pmiwire__refuse(c, q->cmd, -ENOMEM, NULL);
        return;
    }
    memcpy(c->pend_mem, key.ptr, key.len);
    c->pend_len = key.len;
    (void)pmiwire__pend(c, PMIWIRE__PEND_HERE, q->cmd, NULL);
    pmiwire__append(&j->attr_waiters, &c->wait);
}

/* Answers the waiters for this attribute, and puts the others back in order. */
static void wake_attr_waiters(struct pmiwire__job *j, struct pmiwire_str key)
{
    const struct pmiwire__entry *e = pmiwire__kvs_find(&j->nodeattrs, key);
    struct pmiwire__link list;

    pmiwire__take_all(&j->attr_waiters, &list);
    while (pmiwire__linked(&list)) {
        struct pmiwire_conn *c = PMIWIRE__OF(struct pmiwire_conn, wait, list.next);
        struct pmiwire_str wanted = {c->pend_mem, c->pend_len};

        if (!pmiwire__str_eq(wanted, key)) {
            pmiwire__unlink(&c->wait);
            pmiwire__append(&j->attr_waiters, &c->wait);
            continue;
        }
        pmiwire__resume(c);
        pmiwire__free(c->s, c->pend_mem);
        c->pend_mem = NULL;
        pmiwire__reply_value(c, PMIWIRE_V2_INFO_GETNODEATTR, 0, pmiwire__entry_value(e));
    }
}

void pmiwire__do_putnodeattr(const struct pmiwire__req *q)
{
    struct pmiwire__job *j = q->c->job;
    struct pmiwire_str key = {0}, value = {0};
    int rc;

    (void)pmiwire_msg_str(q->msg, PMIWIRE_F_KEY, &key);
    (void)pmiwire_msg_str(q->msg, PMIWIRE_F_VALUE, &value);
    if (pmiwire__may_put(q, key, value) != 0)
        return;
    rc = pmiwire__store(q->s, j, &j->nodeattrs, key, value);
    if (rc != 0) {
        pmiwire__refuse(q->c, q->cmd, rc, rc == -ENOMEM ? "no room for this attribute" : NULL);
        return;
    }
    wake_attr_waiters(j, key); /* first: the answer may cut this rank off, which ends waits */
    pmiwire__reply_ok(q->c, q->cmd);
}
