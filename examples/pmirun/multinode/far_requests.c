/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of ranks that the head carries out: to spawn, and about published names. An agent passes
 * them to the head, and answers when the head has answered.
 *
 * The head keeps the names in a server engine of its own. So a name is known everywhere when its
 * publisher gets the answer. A PMI client's name belongs to its job.
 */
#include <errno.h>

#include "agent.h"
#include "head.h"
#include "job_message.h"

#include "../local/job.h"
#include "../local/role.h"
#include "../local/spawn.h"

/* ---- an agent ---- */

int agent_spawn(struct agent *a, const struct rank *by, struct app *apps,
                const struct pmiwire_spawn *req, uint64_t token)
{
    struct msg *m = agent_msg(a, MSG_SPAWN);
    struct msg_fields f = {.out = m};
    uint32_t n_apps = req->n_cmds;

    msg_u64(m, token);
    msg_u32(m, by->job->number);
    msg_u32(m, by->number);
    apps_fields(&f, &apps, &n_apps);
    msg_u32(m, req->n_preput);
    for (uint32_t i = 0; i < req->n_preput; i++) {
        msg_text(m, req->preput[i].key.ptr, req->preput[i].key.len);
        msg_text(m, req->preput[i].value.ptr, req->preput[i].value.len);
    }
    if (!spawn_fits(m))
        return -EMSGSIZE;
    agent_tell(a);
    return 0;
}

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

static void tell_answer(struct head *h, enum message what, uint32_t node, uint64_t token, int rc,
                        struct pmiwire_str text)
{
    struct msg *m = head_msg(h, what);

    msg_u64(m, token);
    msg_u32(m, (uint32_t)rc);
    msg_text(m, text.ptr, text.len);
    nodes_tell(h, &h->nodes[node]);
}

/* ---- spawn ---- */

void head_answer_spawn(struct head *h, const struct job *job, int err)
{
    tell_answer(h, MSG_SPAWNED, job->spawn_node, job->spawn_token, err, pmiwire_strz(job->kvsname));
}

/* Makes the job of the programs in the message. NULL: *err, or in->bad. */
static struct job *spawn_of_message(struct rank *by, uint64_t token, struct msg_in *in, int *err)
{
    struct msg_fields f = {.in = in};
    struct app *apps;
    uint32_t n;

    apps_fields(&f, &apps, &n);
    if (!in->bad)
        return spawn_create(by, apps, n, token, err);
    apps_free(apps, n);
    return NULL;
}

bool head_spawn_asked(struct head *h, const struct node *node, struct msg_in *in)
{
    const uint64_t token = get_u64(in);
    const uint32_t of = get_u32(in), number = get_u32(in);
    struct rank *by = rank_of_node(h, node, of, number);
    struct job *job = NULL;
    int err = -EINVAL;

    if (by)
        job = spawn_of_message(by, token, in, &err);
    if (in->bad || (!by && !job_was(h->jobs, of)))
        return false;
    if (job)
        head_launch_job(h, job, in); /* what is left are the pairs */
    else
        tell_answer(h, MSG_SPAWNED, node->id, token, err, pmiwire_strz(NULL));
    return true;
}

/* ---- names ---- */

int names_init(struct head *h)
{
    const struct pmiwire_server_opts opts = {.size = sizeof(opts)};

    return pmiwire_server_create(&opts, &h->names);
}

void head_drop_names(struct head *h, const struct job *job)
{
    pmiwire_server_names_drop(h->names, job->number);
}

/* Nodes that did not find a name look again. */
static void wake_seekers(struct head *h)
{
    for (uint32_t i = 0; i < h->opt->n_nodes; i++) {
        struct node *node = &h->nodes[i];

        if (node->seeks)
            tell_answer(h, MSG_NAMED, i, 0, 0, pmiwire_strz(NULL));
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
    tell_answer(h, MSG_NAMED, node->id, token, rc, found);
    if (what == PMIWIRE_NAME_PUBLISH && rc == 0)
        wake_seekers(h);
    return true;
}
