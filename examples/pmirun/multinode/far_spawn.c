/* SPDX-License-Identifier: BSD-3-Clause */
/* PMI spawn on several nodes: carries a request from an agent to the head, and the answer back. */
#include "agent.h"
#include "head.h"

#include <stdlib.h>

#include "../local/job.h"
#include "../local/role.h"
#include "../local/spawn.h"

/* ---- an agent ---- */

static void add_pairs(struct msg *m, const struct pmiwire_keyval *kv, uint32_t n)
{
    msg_u32(m, n);
    for (uint32_t i = 0; i < n; i++) {
        msg_text(m, kv[i].key.ptr, kv[i].key.len);
        msg_text(m, kv[i].value.ptr, kv[i].value.len);
    }
}

void agent_spawn(struct agent *a, const struct rank *by, const struct pmiwire_spawn *req,
                 uint64_t token)
{
    struct msg *m = agent_msg(a, MSG_SPAWN);

    msg_u64(m, token);
    msg_u32(m, by->job->number);
    msg_u32(m, by->number);
    msg_u32(m, req->n_cmds);
    for (uint32_t i = 0; i < req->n_cmds; i++) {
        const struct pmiwire_spawn_cmd *cmd = &req->cmds[i];

        msg_text(m, cmd->execname.ptr, cmd->execname.len);
        msg_u32(m, cmd->maxprocs);
        msg_u32(m, cmd->argc);
        for (uint32_t k = 0; k < cmd->argc; k++)
            msg_text(m, cmd->argv[k].ptr, cmd->argv[k].len);
        add_pairs(m, cmd->info, cmd->n_info);
    }
    add_pairs(m, req->preput, req->n_preput);
    agent_tell(a);
}

/* ---- the head ---- */

static void get_cmd(struct msg_in *in, struct pmiwire_spawn_cmd *cmd)
{
    struct pmiwire_str *argv;
    struct pmiwire_keyval *info;

    cmd->execname = get_str(in);
    cmd->maxprocs = get_u32(in);
    cmd->argc = get_count(in, 4);
    cmd->argv = argv = xrealloc(NULL, cmd->argc * sizeof(*argv));
    for (uint32_t i = 0; i < cmd->argc; i++)
        argv[i] = get_str(in);
    cmd->n_info = get_count(in, 8);
    cmd->info = info = xrealloc(NULL, cmd->n_info * sizeof(*info));
    for (uint32_t i = 0; i < cmd->n_info; i++) {
        info[i].key = get_str(in);
        info[i].value = get_str(in);
    }
}

static void tell_spawned(struct head *h, uint32_t node, uint64_t token, int err,
                         const char *kvsname)
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
    tell_spawned(h, job->spawn_node, job->spawn_token, err, job->kvsname);
}

bool head_spawn_asked(struct head *h, struct rank *by, uint64_t token, struct msg_in *in)
{
    struct pmiwire_spawn_cmd *cmds;
    struct pmiwire_spawn req = {0};
    int rc;

    req.n_cmds = get_count(in, 16);
    req.cmds = cmds = xrealloc(NULL, req.n_cmds * sizeof(*cmds));
    for (uint32_t i = 0; i < req.n_cmds; i++)
        get_cmd(in, &cmds[i]);
    if (!in->bad) {
        rc = spawn_begin(h->detect, by, &req, token, in); /* what is left are the preputs */
        if (rc != PMIWIRE_PENDING)
            tell_spawned(h, by->node, token, rc, NULL);
    }
    for (uint32_t i = 0; i < req.n_cmds; i++) {
        free((void *)(uintptr_t)cmds[i].argv);
        free((void *)(uintptr_t)cmds[i].info);
    }
    free(cmds);
    return !in->bad;
}
