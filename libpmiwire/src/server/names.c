/* SPDX-License-Identifier: BSD-3-Clause */
/* Name publishing, for all jobs of a server. */
#include <errno.h>
#include <string.h>

#include "server_internal.h"

/* ---- the store ---- */

int pmiwire_server_publish(struct pmiwire_server *s, uint32_t owner, struct pmiwire_str service,
                           struct pmiwire_str port)
{
    struct pmiwire__job *j = pmiwire__job(s, owner);
    const size_t cost = pmiwire__pair_cost(service, port);
    int rc;

    if (pmiwire__kvs_find(&s->names, service))
        return PMIWIRE_EEXIST;
    if ((j ? pmiwire__job_bytes(j) : pmiwire__store_cost(&s->names)) + cost > s->opts.max_kvs_bytes)
        return -ENOMEM;
    rc = pmiwire__kvs_put(&s->names, service, port, owner);
    if (rc == 0 && j)
        j->names_bytes += cost;
    return rc;
}

/* Only the publisher of a name may unpublish it. */
int pmiwire_server_unpublish(struct pmiwire_server *s, uint32_t owner, struct pmiwire_str service)
{
    const struct pmiwire__entry *e = pmiwire__kvs_find(&s->names, service);
    struct pmiwire__job *j = pmiwire__job(s, owner);

    if (!e || e->owner != owner)
        return PMIWIRE_ENOENT;
    if (j) {
        const size_t cost = pmiwire__pair_cost(service, pmiwire__entry_value(e));

        /* A caller may have published it under this number before the job existed. */
        j->names_bytes -= cost < j->names_bytes ? cost : j->names_bytes;
    }
    pmiwire__kvs_remove(&s->names, service);
    return 0;
}

int pmiwire_server_lookup(const struct pmiwire_server *s, struct pmiwire_str service,
                          struct pmiwire_str *port)
{
    const struct pmiwire__entry *e = pmiwire__kvs_find(&s->names, service);

    if (!e)
        return PMIWIRE_ENOENT;
    *port = pmiwire__entry_value(e);
    return 0;
}

int pmiwire_server_names_drop(struct pmiwire_server *s, uint32_t owner)
{
    struct pmiwire__job *j = pmiwire__job(s, owner);

    pmiwire__kvs_remove_owner(&s->names, owner);
    if (j)
        j->names_bytes = 0;
    return 0;
}

/* ---- requests ---- */

static void answer_lookup(struct pmiwire_conn *c, uint16_t cmd, struct pmiwire_str port)
{
    struct pmiwire__reply r;

    if (!pmiwire__reply_begin(&r, c, cmd, 0, 2 * port.len))
        return;
    pmiwire__reply_bytes(&r, PMIWIRE_F_PORT, port, pmiwire_strz(NULL));
    pmiwire_enc_str(&r.e, PMIWIRE_F_PORT, port);
    if (cmd == PMIWIRE_V2_NAME_LOOKUP) { /* MPICH reads port, Slurm value and found */
        pmiwire_enc_int(&r.e, PMIWIRE_F_FOUND, 1);
        pmiwire_enc_str(&r.e, PMIWIRE_F_VALUE, port);
    }
    pmiwire__reply_send(&r, cmd);
}

static const char *name_error_text(uint32_t what, int rc)
{
    if (rc == -ENOMEM && what == PMIWIRE_NAME_PUBLISH)
        return "no room for this name";
    if (rc == PMIWIRE_EEXIST && what == PMIWIRE_NAME_PUBLISH)
        return "name is published already";
    if (rc == PMIWIRE_ENOENT && what == PMIWIRE_NAME_UNPUBLISH)
        return "name is not published by this job";
    return rc == PMIWIRE_ENOENT && what == PMIWIRE_NAME_LOOKUP ? "name is not published" : NULL;
}

static void answer_name(struct pmiwire_conn *c, uint16_t cmd, uint32_t what, int rc,
                        struct pmiwire_str port)
{
    if (rc != 0)
        pmiwire__reply_error(c, cmd, rc, name_error_text(what, rc));
    else if (what == PMIWIRE_NAME_LOOKUP)
        answer_lookup(c, cmd, port);
    else
        pmiwire__reply_ok(c, cmd);
}

/* Passes a request on to ops->name(). */
static void ask_caller(const struct pmiwire__req *q, uint32_t what, struct pmiwire_str service,
                       struct pmiwire_str port)
{
    struct pmiwire_conn *c = q->c;
    struct pmiwire_peer who;
    uint64_t token;
    int rc;

    pmiwire__peer(c, &who);
    token = pmiwire__pend(c, PMIWIRE__PEND_NAME, q->cmd, NULL);
    c->pend_count = what;
    rc = q->s->ops.name(q->s->opts.ctx, &who, what, service, port, token);
    if (rc == PMIWIRE_PENDING || c->token != token)
        return; /* the answer comes later, or came within the callback, or the client is gone */
    pmiwire__unpend(c);
    if (rc == 0 && what == PMIWIRE_NAME_LOOKUP)
        rc = PMIWIRE_ENOENT; /* the callback gave no port */
    answer_name(c, q->cmd, what, rc, (struct pmiwire_str){0});
}

int pmiwire_server_name_done(struct pmiwire_server *s, uint64_t token, int rc,
                             struct pmiwire_str port)
{
    struct pmiwire_conn *c = pmiwire__by_token(s, token);

    if (!c || c->pend != PMIWIRE__PEND_NAME)
        return PMIWIRE_ESTALE;
    pmiwire__enter(s);
    answer_name(c, c->pend_cmd, c->pend_count, rc, port);
    pmiwire__resume(c);
    pmiwire__leave(s);
    return 0;
}

void pmiwire__do_name(const struct pmiwire__req *q, uint32_t what)
{
    struct pmiwire_server *s = q->s;
    const uint32_t owner = q->c->job->number;
    struct pmiwire_str service = {0}, port = {0};
    int rc;

    (void)pmiwire_msg_str(q->msg, q->msg->wire == PMIWIRE_V2 ? PMIWIRE_F_NAME : PMIWIRE_F_SERVICE,
                          &service);
    (void)pmiwire_msg_str(q->msg, PMIWIRE_F_PORT, &port);
    /* The limit on values applies to a port. It applies to a service too, since MPI programs choose
     * its name and the wire has no maximum for it. */
    if (what == PMIWIRE_NAME_PUBLISH &&
        (service.len >= s->opts.vallen_max || port.len >= s->opts.vallen_max)) {
        pmiwire__refuse(q->c, q->cmd, PMIWIRE_EVALLEN, NULL);
        return;
    }
    if (s->ops.name) {
        ask_caller(q, what, service, port);
        return;
    }
    switch (what) {
    case PMIWIRE_NAME_PUBLISH: rc = pmiwire_server_publish(s, owner, service, port); break;
    case PMIWIRE_NAME_UNPUBLISH: rc = pmiwire_server_unpublish(s, owner, service); break;
    default: rc = pmiwire_server_lookup(s, service, &port);
    }
    answer_name(q->c, q->cmd, what, rc, port);
}
