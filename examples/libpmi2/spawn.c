/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spawn.h"

static struct pmiwire_keyval *keyvals_view(const struct keyvals *kv)
{
    struct pmiwire_keyval *v = calloc(kv->n > 0 ? (size_t)kv->n : 1, sizeof(*v));

    for (int i = 0; v && i < kv->n; i++) {
        const char *at = (const char *)kv->first + (size_t)i * kv->stride, *key, *value;

        memcpy(&key, at + kv->key_at, sizeof(key));
        memcpy(&value, at + kv->value_at, sizeof(value));
        v[i].key = pmiwire_strz(key ? key : "");
        v[i].value = pmiwire_strz(value ? value : "");
    }
    return v;
}

int spawn_count(int n_cmds, const char *const cmds[], const int maxprocs[])
{
    int n = 0;

    if (n_cmds < 1 || !cmds || !maxprocs)
        return -EINVAL;
    for (int i = 0; i < n_cmds; i++)
        if (!cmds[i] || maxprocs[i] < 0 || __builtin_add_overflow(n, maxprocs[i], &n))
            return -EINVAL;
    return n;
}

struct pmiwire_spawn_cmd *spawn_begin(struct pmiwire_spawn *req, int n_cmds,
                                      const struct keyvals *preput)
{
    struct pmiwire_spawn_cmd *cmds = calloc((size_t)n_cmds, sizeof(*cmds));

    memset(req, 0, sizeof(*req));
    req->cmds = cmds;
    req->n_cmds = cmds ? (uint32_t)n_cmds : 0;
    req->preput = keyvals_view(preput);
    req->n_preput = preput->n > 0 ? (uint32_t)preput->n : 0;
    if (cmds && req->preput)
        return cmds;
    spawn_release(req);
    return NULL;
}

int spawn_describe(struct pmiwire_spawn_cmd *cmd, const char *name, int argc, const char **argv,
                   int maxprocs, const struct keyvals *info)
{
    struct pmiwire_str *args;

    cmd->execname = pmiwire_strz(name);
    cmd->maxprocs = (uint32_t)maxprocs;
    while (argv && (argc < 0 ? argv[cmd->argc] != NULL : cmd->argc < (uint32_t)argc))
        cmd->argc++;
    args = calloc(cmd->argc + 1u, sizeof(*args));
    for (uint32_t i = 0; args && i < cmd->argc; i++)
        args[i] = pmiwire_strz(argv[i] ? argv[i] : "");
    cmd->argv = args;
    cmd->n_info = info->n > 0 ? (uint32_t)info->n : 0;
    cmd->info = keyvals_view(info);
    return args && cmd->info ? 0 : -ENOMEM;
}

void spawn_release(struct pmiwire_spawn *req)
{
    for (uint32_t i = 0; i < req->n_cmds; i++) {
        free((void *)(uintptr_t)req->cmds[i].argv);
        free((void *)(uintptr_t)req->cmds[i].info);
    }
    free((void *)(uintptr_t)req->cmds);
    free((void *)(uintptr_t)req->preput);
    memset(req, 0, sizeof(*req));
}

void spawn_errcodes(const struct pmiwire_msg *msg, int errors[], int n)
{
    struct pmiwire_str text;
    int at = 0;

    for (int i = 0; i < n; i++)
        errors[i] = 0;
    for (uint32_t k = 0; msg && k < msg->n_fields; k++) {
        if (msg->fields[k].id != PMIWIRE_F_ERRCODES)
            continue;
        /* A list, or the field repeated. */
        text = msg->fields[k].value;
        for (size_t i = 0, start = 0; i <= text.len && at < n; i++) {
            if (i < text.len && text.ptr[i] != ',')
                continue;
            errors[at++] = i > start ? (int)strtol(text.ptr + start, NULL, 10) : 0;
            start = i + 1;
        }
    }
}
