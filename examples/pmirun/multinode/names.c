/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Published names on several nodes. The head keeps them in a server engine of its own. An agent
 * passes its ranks' requests to the head, and answers when the head has answered. So a name is
 * known everywhere when its publisher gets the answer. A name belongs to its job.
 */
#include "nodes.h"

/* ---- an agent ---- */

int agent_ask_name(void *ctx, const struct pmiwire_peer *who, uint32_t what,
                   struct pmiwire_str service, struct pmiwire_str port, uint64_t token)
{
    struct pmirun *pr = ctx;
    const struct job *job = who->job_cookie;
    struct msg *m = agent_msg(pr, MSG_NAME);

    msg_u64(m, token);
    msg_u32(m, job->number);
    msg_u32(m, what);
    msg_text(m, service.ptr, service.len);
    msg_text(m, port.ptr, port.len);
    agent_tell(pr);
    return PMIWIRE_PENDING;
}

/* ---- the head ---- */

int names_init(struct pmirun *pr)
{
    const struct pmiwire_server_opts opts = {.size = sizeof(opts)};

    return pmiwire_server_create(&opts, &pr->server);
}

bool names_asked(struct pmirun *pr, struct node *node, struct msg_in *in)
{
    uint64_t token = get_u64(in);
    uint32_t job = get_u32(in), what = get_u32(in);
    struct pmiwire_str service = get_str(in), port = get_str(in), found = {0};
    struct msg m = {0};
    int rc = PMIWIRE_ENOENT;

    if (in->bad || !job_by_number(pr, job))
        return false;
    if (what == PMIWIRE_NAME_PUBLISH)
        rc = pmiwire_server_publish(pr->server, job, service, port);
    else if (what == PMIWIRE_NAME_UNPUBLISH)
        rc = pmiwire_server_unpublish(pr->server, job, service);
    else if (what == PMIWIRE_NAME_LOOKUP)
        rc = pmiwire_server_lookup(pr->server, service, &found);
    else
        return false;
    msg_begin(&m, MSG_NAMED);
    msg_u64(&m, token);
    msg_u32(&m, (uint32_t)rc);
    msg_text(&m, found.ptr, rc == 0 ? found.len : 0);
    nodes_tell(pr, node, &m);
    msg_free(&m);
    return true;
}
