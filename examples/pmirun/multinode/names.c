/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Published names on several nodes. The head keeps them in a server engine of its own. An agent
 * passes its ranks' requests to the head, and answers when the head has answered. So a name is
 * known everywhere when its publisher gets the answer. A PMI client's name belongs to its job.
 */
#include "names.h"

#include "../local/job.h"
#include "../local/role.h"
#include "agent.h"
#include "head.h"

/* ---- an agent ---- */

void agent_request_name(struct agent *a, uint64_t token, uint32_t owner, uint32_t what,
                        struct pmiwire_str service, struct pmiwire_str port)
{
    struct msg *m = agent_msg(a, MSG_NAME);

    msg_u64(m, token);
    msg_u32(m, owner);
    msg_u32(m, what);
    msg_text(m, service.ptr, service.len);
    msg_text(m, port.ptr, port.len);
    agent_tell(a);
}

/* ---- the head ---- */

int names_init(struct head *h)
{
    const struct pmiwire_server_opts opts = {.size = sizeof(opts)};

    return pmiwire_server_create(&opts, &h->names);
}

void head_drop_names(struct head *h, const struct job *job)
{
    pmiwire_server_names_drop(h->names, job->number);
}

static void tell_named(struct head *h, struct node *node, uint64_t token, int rc,
                       struct pmiwire_str found)
{
    struct msg m = {0};

    msg_begin(&m, MSG_NAMED);
    msg_u64(&m, token);
    msg_u32(&m, (uint32_t)rc);
    msg_text(&m, found.ptr, rc == 0 ? found.len : 0);
    nodes_tell(h, node, &m);
    msg_free(&m);
}

/* Nodes that did not find a name look again. */
static void wake_seekers(struct head *h)
{
    for (uint32_t i = 0; i < h->jobs->opt->n_nodes; i++) {
        struct node *node = &h->nodes[i];

        if (node->seeks)
            tell_named(h, node, 0, 0, (struct pmiwire_str){0});
        node->seeks = false;
    }
}

bool names_asked(struct head *h, struct node *node, struct msg_in *in)
{
    uint64_t token = get_u64(in);
    uint32_t owner = get_u32(in), what = get_u32(in);
    struct pmiwire_str service = get_str(in), port = get_str(in), found = {0};
    int rc = PMIWIRE_ENOENT;

    if (in->bad || (owner < 1u << 31 && !job_by_number(h->jobs, owner)))
        return false;
    if (what == PMIWIRE_NAME_PUBLISH)
        rc = pmiwire_server_publish(h->names, owner, service, port);
    else if (what == PMIWIRE_NAME_UNPUBLISH)
        rc = pmiwire_server_unpublish(h->names, owner, service);
    else if (what == PMIWIRE_NAME_LOOKUP)
        rc = pmiwire_server_lookup(h->names, service, &found);
    else
        return false;
    node->seeks = node->seeks || (what == PMIWIRE_NAME_LOOKUP && rc != 0);
    tell_named(h, node, token, rc, found);
    if (what == PMIWIRE_NAME_PUBLISH && rc == 0)
        wake_seekers(h);
    return true;
}
