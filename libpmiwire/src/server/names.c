/* SPDX-License-Identifier: BSD-3-Clause */
/* Name publishing, for all jobs of a server, and node attributes, for each job its own. */
#include <errno.h>
#include <string.h>

#include "server_internal.h"

static struct pmiwire_str service_of(const struct pmiwire__req *q)
{
    struct pmiwire_str name = {0};

    (void)pmiwire_msg_str(q->msg, q->msg->wire == PMIWIRE_V2 ? PMIWIRE_F_NAME : PMIWIRE_F_SERVICE,
                          &name);
    return name;
}

static int publish_here(struct pmiwire_server *s, struct pmiwire__job *j,
                        struct pmiwire_str service, struct pmiwire_str port)
{
    size_t cost = pmiwire__pair_cost(service, port);
    int rc;

    if (pmiwire__kvs_find(&s->names, service))
        return PMIWIRE_EEXIST;
    if (pmiwire__job_bytes(j) + cost > s->opts.max_kvs_bytes)
        return -ENOMEM;
    rc = pmiwire__kvs_put(&s->names, service, port, j->number);
    if (rc == 0)
        j->names_bytes += cost;
    return rc;
}

void pmiwire__do_publish(const struct pmiwire__req *q)
{
    struct pmiwire_server *s = q->s;
    struct pmiwire_str service = service_of(q), port = {0};
    struct pmiwire_peer who;
    int rc;

    (void)pmiwire_msg_str(q->msg, PMIWIRE_F_PORT, &port);
    /* A port is held to the limit on values. A service may be as long as a value too: MPI's
     * programs choose the name, and no client is told a maximum for it. */
    if (service.len >= s->opts.vallen_max || port.len >= s->opts.vallen_max) {
        pmiwire__refuse(q->c, q->cmd, PMIWIRE_EVALLEN, NULL);
        return;
    }
    pmiwire__peer(q->c, &who);
    rc = s->ops.publish ? s->ops.publish(s->opts.ctx, &who, service, port)
                        : publish_here(s, q->c->job, service, port);
    if (rc == 0)
        pmiwire__reply_ok(q->c, q->cmd);
    else
        pmiwire__reply_error(q->c, q->cmd, rc,
                             rc == PMIWIRE_EEXIST ? "name is published already"
                             : rc == -ENOMEM      ? "no room for this name"
                                                  : NULL);
}

/* Only the job that published a name may take it back. */
static int unpublish_here(struct pmiwire_server *s, struct pmiwire__job *j,
                          struct pmiwire_str service)
{
    const struct pmiwire__entry *e = pmiwire__kvs_find(&s->names, service);

    if (!e || e->owner != j->number)
        return PMIWIRE_ENOENT;
    j->names_bytes -= pmiwire__pair_cost(service, pmiwire__entry_value(e));
    pmiwire__kvs_remove(&s->names, service);
    return 0;
}

void pmiwire__do_unpublish(const struct pmiwire__req *q)
{
    struct pmiwire_server *s = q->s;
    struct pmiwire_str service = service_of(q);
    struct pmiwire_peer who;
    int rc;

    pmiwire__peer(q->c, &who);
    rc = s->ops.unpublish ? s->ops.unpublish(s->opts.ctx, &who, service)
                          : unpublish_here(s, q->c->job, service);
    if (rc == 0)
        pmiwire__reply_ok(q->c, q->cmd);
    else
        pmiwire__reply_error(q->c, q->cmd, rc,
                             rc == PMIWIRE_ENOENT ? "name is not published by this job" : NULL);
}

void pmiwire__answer_lookup(struct pmiwire_conn *c, uint16_t cmd, int rc, struct pmiwire_str port)
{
    struct pmiwire__reply r;

    if (rc != 0) {
        pmiwire__reply_error(c, cmd, rc, rc == PMIWIRE_ENOENT ? "name is not published" : NULL);
        return;
    }
    if (!pmiwire__reply_begin(&r, c, cmd, 2 * port.len))
        return;
    pmiwire_enc_int(&r.e, PMIWIRE_F_RC, 0);
    pmiwire__reply_bytes(&r, PMIWIRE_F_PORT, port, pmiwire_strz(NULL));
    pmiwire_enc_str(&r.e, PMIWIRE_F_PORT, port);
    if (cmd == PMIWIRE_V2_NAME_LOOKUP) { /* MPICH reads port, Slurm value and found */
        pmiwire_enc_int(&r.e, PMIWIRE_F_FOUND, 1);
        pmiwire_enc_str(&r.e, PMIWIRE_F_VALUE, port);
    }
    pmiwire__reply_send(&r, cmd);
}

void pmiwire__do_lookup(const struct pmiwire__req *q)
{
    struct pmiwire_server *s = q->s;
    struct pmiwire_conn *c = q->c;
    struct pmiwire_str service = service_of(q), port = {0};
    const struct pmiwire__entry *e;
    struct pmiwire_peer who;
    uint64_t token;
    int rc;

    if (!s->ops.lookup) {
        e = pmiwire__kvs_find(&s->names, service);
        if (e)
            port = pmiwire__entry_value(e);
        pmiwire__answer_lookup(c, q->cmd, e ? 0 : PMIWIRE_ENOENT, port);
        return;
    }
    pmiwire__peer(c, &who);
    token = pmiwire__pend(c, PMIWIRE__PEND_LOOKUP, q->cmd, NULL);
    rc = s->ops.lookup(s->opts.ctx, &who, service, token, &port);
    if (rc == PMIWIRE_PENDING || c->token != token)
        return;
    pmiwire__unpend(c);
    pmiwire__answer_lookup(c, q->cmd, rc, port);
}

/* ---- node attributes ---- */

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
    if (key.len >= q->s->opts.keylen_max) { /* nobody could ever put it */
        pmiwire__refuse(c, q->cmd, PMIWIRE_EKEYLEN, NULL);
        return;
    }
    pmiwire__free(q->s, c->pend_mem);
    c->pend_mem = pmiwire__alloc(q->s, key.len);
    if (!c->pend_mem) {
        pmiwire__refuse(c, q->cmd, -ENOMEM, NULL);
        return;
    }
    memcpy(c->pend_mem, key.ptr, key.len);
    c->pend_len[0] = key.len;
    (void)pmiwire__pend(c, PMIWIRE__PEND_HERE, q->cmd, NULL);
    pmiwire__append(&j->attr_waiters, &c->wait);
}

/* Answer those who wait for this attribute. The rest is put back in its order. */
static void wake(struct pmiwire__job *j, struct pmiwire_str key)
{
    const struct pmiwire__entry *e = pmiwire__kvs_find(&j->nodeattrs, key);
    struct pmiwire__link list;

    pmiwire__take_all(&j->attr_waiters, &list);
    while (pmiwire__linked(&list)) {
        struct pmiwire_conn *c = PMIWIRE__OF(struct pmiwire_conn, wait, list.next);
        struct pmiwire_str wanted = {c->pend_mem, c->pend_len[0]};

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
    pmiwire__reply_ok(q->c, q->cmd);
    wake(j, key);
}
