/* SPDX-License-Identifier: BSD-3-Clause */
/* PMI spawn on several nodes: carries a request from an agent to the head, and the answer back. */
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

/* ---- the head ---- */

void head_tell_spawned(struct head *h, uint32_t node, uint64_t token, int err, const char *kvsname)
{
    struct msg m = {0};

    msg_begin(&m, MSG_SPAWNED);
    msg_u64(&m, token);
    msg_u32(&m, (uint32_t)err);
    msg_string(&m, kvsname);
    nodes_tell(h, &h->nodes[node], &m);
    msg_free(&m);
}

void head_answer_spawn(struct head *h, const struct job *job, int err)
{
    head_tell_spawned(h, job->spawn_node, job->spawn_token, err, job->kvsname);
}

bool head_spawn_asked(struct head *h, struct rank *by, uint64_t token, struct msg_in *in)
{
    struct msg_fields f = {.in = in};
    struct app *apps;
    struct job *job;
    uint32_t n;
    int err;

    apps_fields(&f, &apps, &n);
    if (in->bad) {
        apps_free(apps, n);
        return false;
    }
    job = spawn_create(by, apps, n, token, &err);
    if (job)
        head_launch_job(h, job, in); /* what is left are the pairs */
    else
        head_tell_spawned(h, by->node, token, err, NULL);
    return true;
}
