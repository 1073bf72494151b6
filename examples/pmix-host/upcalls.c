/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Between libpmix's thread and the loop's. The loop's calls upcalls_module(), upcall_new_given(),
 * upcall_set_answer() and upcall_send_answer(). upcall_free() may run in either; the rest runs in
 * libpmix's.
 */
#define _GNU_SOURCE
#include "upcalls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct queue *queue;
static const char *env_key; /* of a variable in a spawn */

/* ---- copies of what libpmix says ---- */

struct upcall_block {
    struct upcall_block *next;
    max_align_t bytes[];
};

/* Zeroed memory that is freed with it; NULL: there is none, or the request has had enough. */
static void *block_take(struct upcall *u, size_t n)
{
    const bool fits = n <= UPCALL_BYTES && u->queued.bytes <= UPCALL_BYTES - n;
    struct upcall_block *b = fits ? calloc(1, sizeof(*b) + n) : NULL;

    if (!b)
        return NULL;
    b->next = u->blocks;
    u->blocks = b;
    u->queued.bytes += sizeof(*b) + n;
    return b->bytes;
}

static char *string_take(struct upcall *u, const char *s)
{
    size_t n = strlen(s ? s : "") + 1;
    char *copy = block_take(u, n);

    if (copy)
        memcpy(copy, s ? s : "", n);
    return copy;
}

void upcall_free(struct upcall *u)
{
    while (u->blocks) {
        struct upcall_block *b = u->blocks;

        u->blocks = b->next;
        free(b);
    }
    free(u->data);
    free(u->answer);
    free(u);
}

static struct upcall *upcall_new(enum upcall_kind kind, const pmix_proc_t *who, void *cbdata)
{
    struct upcall *u = calloc(1, sizeof(*u));

    if (!u)
        return NULL;
    u->queued.bytes = sizeof(*u);
    u->kind = kind;
    u->cbdata = cbdata;
    if (who)
        u->who = *who;
    return u;
}

static struct upcall *upcall_new_op(enum upcall_kind kind, const pmix_proc_t *who,
                                    pmix_op_cbfunc_t done, void *cbdata)
{
    struct upcall *u = upcall_new(kind, who, cbdata);

    if (u)
        u->done.op = done;
    return u;
}

/* Queues u; NULL: out of memory; not ok: that, or it is too large. Returns libpmix's status: the
 * answer follows, or an error. */
static pmix_status_t upcall_queue(struct upcall *u, bool ok)
{
    if (!u)
        return PMIX_ERR_NOMEM;
    if (ok && queue_put(queue, &u->queued, u->kind == UP_FINALIZED || u->kind == UP_LOST))
        return PMIX_SUCCESS;
    u->data = NULL; /* stays libpmix's */
    upcall_free(u);
    return PMIX_ERR_OUT_OF_RESOURCE;
}

static bool take_procs(struct upcall *u, const pmix_proc_t *procs, size_t n)
{
    if (n > SIZE_MAX / 2 / sizeof(*procs))
        return false;
    u->procs = block_take(u, n * sizeof(*procs));
    if (u->procs && n > 0)
        memcpy(u->procs, procs, n * sizeof(*procs));
    u->n_procs = n;
    return u->procs != NULL;
}

/* ---- a client's life ---- */

static pmix_status_t upcall_connected(const pmix_proc_t *proc, void *object, pmix_info_t info[],
                                      size_t n_info, pmix_op_cbfunc_t done, void *cbdata)
{
    return upcall_queue(upcall_new_op(UP_CONNECTED, proc, done, cbdata), true);
}

static pmix_status_t upcall_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done,
                                      void *cbdata)
{
    return upcall_queue(upcall_new_op(UP_FINALIZED, proc, done, cbdata), true);
}

void upcalls_on_event(size_t id, pmix_status_t status, const pmix_proc_t *source,
                      pmix_info_t info[], size_t n_info, pmix_info_t *results, size_t n_results,
                      pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    upcall_queue(upcall_new(UP_LOST, source, NULL), true);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

/* procs do not count: the whole job ends, as by PMI. */
static pmix_status_t upcall_abort(const pmix_proc_t *proc, void *object, int status,
                                  const char text[], pmix_proc_t procs[], size_t n,
                                  pmix_op_cbfunc_t done, void *cbdata)
{
    struct upcall *u = upcall_new_op(UP_ABORT, proc, done, cbdata);

    if (!u)
        return PMIX_ERR_NOMEM;
    u->status = status;
    u->text = string_take(u, text);
    return upcall_queue(u, u->text != NULL);
}

/* ---- collectives, and the pairs of one client ---- */

static pmix_status_t upcall_fence(const pmix_proc_t procs[], size_t n, const pmix_info_t info[],
                                  size_t n_info, char *data, size_t len, pmix_modex_cbfunc_t done,
                                  void *cbdata)
{
    struct upcall *u = upcall_new(UP_FENCE, NULL, cbdata);
    bool ok;

    if (!u)
        return PMIX_ERR_NOMEM;
    u->done.modex = done;
    ok = take_procs(u, procs, n);
    u->data = data; /* libpmix allocated it; the host frees it unless it refuses */
    u->len = data ? len : 0;
    u->queued.bytes += u->len;
    return upcall_queue(u, ok);
}

static pmix_status_t collective_queue(enum upcall_kind kind, const pmix_proc_t procs[], size_t n,
                                      pmix_op_cbfunc_t done, void *cbdata)
{
    struct upcall *u = upcall_new_op(kind, NULL, done, cbdata);

    return upcall_queue(u, u && take_procs(u, procs, n));
}

static pmix_status_t upcall_connect(const pmix_proc_t procs[], size_t n, const pmix_info_t info[],
                                    size_t n_info, pmix_op_cbfunc_t done, void *cbdata)
{
    return collective_queue(UP_CONNECT, procs, n, done, cbdata);
}

static pmix_status_t upcall_disconnect(const pmix_proc_t procs[], size_t n,
                                       const pmix_info_t info[], size_t n_info,
                                       pmix_op_cbfunc_t done, void *cbdata)
{
    return collective_queue(UP_DISCONNECT, procs, n, done, cbdata);
}

static pmix_status_t upcall_modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t n_info,
                                  pmix_modex_cbfunc_t done, void *cbdata)
{
    struct upcall *u = upcall_new(UP_MODEX, NULL, cbdata);

    if (!u)
        return PMIX_ERR_NOMEM;
    u->done.modex = done;
    return upcall_queue(u, take_procs(u, proc, 1));
}

struct upcall *upcall_new_given(uint64_t token)
{
    struct upcall *u = upcall_new(UP_GIVEN, NULL, NULL);

    if (u)
        u->token = token;
    return u;
}

void upcalls_on_given(pmix_status_t status, char *data, size_t len, void *cbdata)
{
    struct upcall *u = cbdata;

    u->status = status;
    if (data && len > 0 && status == PMIX_SUCCESS) { /* stays libpmix's */
        u->data = malloc(len);
        if (u->data)
            memcpy(u->data, data, len);
        else
            u->status = PMIX_ERR_NOMEM;
        u->len = u->data ? len : 0;
        u->queued.bytes += u->len;
    }
    queue_put(queue, &u->queued, true);
}

/* ---- publish and lookup ---- */

static uint32_t number_of(const pmix_value_t *v)
{
    switch (v->type) {
    case PMIX_INT: return v->data.integer < 0 ? 0 : (uint32_t)v->data.integer;
    case PMIX_INT32: return v->data.int32 < 0 ? 0 : (uint32_t)v->data.int32;
    case PMIX_UINT: return v->data.uint;
    case PMIX_UINT32: return v->data.uint32;
    case PMIX_SIZE: return v->data.size > UINT32_MAX ? UINT32_MAX : (uint32_t)v->data.size;
    case PMIX_UINT64: return v->data.uint64 > UINT32_MAX ? UINT32_MAX : (uint32_t)v->data.uint64;
    default: return 0;
    }
}

static bool info_is(const pmix_info_t *info, const char *key)
{
    return strncmp(info->key, key, sizeof(info->key)) == 0;
}

/* Names that begin so are libpmix's: how to do it, not what to publish. */
static bool info_is_directive(const pmix_info_t *info)
{
    return strncmp(info->key, "pmix", 4) == 0;
}

static void take_directives(struct names_req *req, const pmix_info_t info[], size_t n)
{
    req->range = PMIX_RANGE_SESSION;
    req->persist = PMIX_PERSIST_SESSION;
    for (size_t i = 0; i < n; i++) {
        const pmix_value_t *v = &info[i].value;

        if (info_is(&info[i], PMIX_RANGE) && v->type == PMIX_DATA_RANGE)
            req->range = v->data.range;
        else if (info_is(&info[i], PMIX_PERSISTENCE) && v->type == PMIX_PERSIST)
            req->persist = v->data.persist;
        else if (info_is(&info[i], PMIX_USERID))
            req->uid = number_of(v);
        else if (info_is(&info[i], PMIX_TIMEOUT))
            req->timeout_s = number_of(v);
        else if (info_is(&info[i], PMIX_WAIT)) /* 0: all */
            req->wait = number_of(v) ? number_of(v) : UINT32_MAX;
    }
}

static struct upcall *names_new(uint32_t what, const pmix_proc_t *proc, const pmix_info_t info[],
                                size_t n_info, void *cbdata)
{
    struct upcall *u = upcall_new(UP_NAMES, proc, cbdata);

    if (!u)
        return NULL;
    u->names.what = what;
    take_directives(&u->names, info, n_info);
    return u;
}

/* A value with its type, as libpmix packs it. */
static bool take_value(struct upcall *u, struct names_value *to, const pmix_info_t *info)
{
    pmix_data_buffer_t buf = {0};
    pmix_value_t v = info->value;
    void *p = NULL;

    to->key = string_take(u, info->key);
    if (to->key && lib.PMIx_Data_pack(NULL, &buf, &v, 1, PMIX_VALUE) == PMIX_SUCCESS) {
        p = block_take(u, buf.bytes_used);
        if (p)
            memcpy(p, buf.base_ptr, buf.bytes_used);
        to->p = p;
        to->len = buf.bytes_used;
    }
    free(buf.base_ptr);
    return p != NULL;
}

static pmix_status_t upcall_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t n,
                                    pmix_op_cbfunc_t done, void *cbdata)
{
    struct upcall *u = names_new(PMIWIRE_NAME_PUBLISH, proc, info, n, cbdata);
    struct names_value *values;
    bool ok;

    if (!u)
        return PMIX_ERR_NOMEM;
    u->done.op = done;
    u->names.values = values = block_take(u, n * sizeof(*values));
    ok = values != NULL;
    for (size_t i = 0; i < n && ok; i++)
        if (!info_is_directive(&info[i]))
            ok = take_value(u, &values[u->names.n_values++], &info[i]);
    return upcall_queue(u, ok);
}

static bool take_keys(struct upcall *u, char **keys)
{
    struct names_value *values;
    size_t n = 0;

    while (keys && keys[n])
        n++;
    u->names.values = values = block_take(u, n * sizeof(*values));
    if (!values || n > UINT32_MAX)
        return false;
    for (; u->names.n_values < n; u->names.n_values++) {
        values[u->names.n_values].key = string_take(u, keys[u->names.n_values]);
        if (!values[u->names.n_values].key)
            return false;
    }
    if (u->names.wait > n)
        u->names.wait = (uint32_t)n;
    return true;
}

static pmix_status_t upcall_lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                                   size_t n, pmix_lookup_cbfunc_t done, void *cbdata)
{
    struct upcall *u = names_new(PMIWIRE_NAME_LOOKUP, proc, info, n, cbdata);

    if (!u)
        return PMIX_ERR_NOMEM;
    u->done.lookup = done;
    return upcall_queue(u, take_keys(u, keys));
}

static pmix_status_t upcall_unpublish(const pmix_proc_t *proc, char **keys,
                                      const pmix_info_t info[], size_t n, pmix_op_cbfunc_t done,
                                      void *cbdata)
{
    struct upcall *u = names_new(PMIWIRE_NAME_UNPUBLISH, proc, info, n, cbdata);

    if (!u)
        return PMIX_ERR_NOMEM;
    u->done.op = done;
    return upcall_queue(u, take_keys(u, keys));
}

/* ---- spawn ---- */

static bool take_str(struct upcall *u, struct pmiwire_str *to, const char *s)
{
    to->ptr = string_take(u, s);
    to->len = strlen(s);
    return to->ptr != NULL;
}

/* An info key of ours. */
static bool take_pair(struct upcall *u, struct pmiwire_spawn_cmd *cmd, struct pmiwire_keyval *pairs,
                      const char *key, const char *value)
{
    struct pmiwire_keyval *kv = &pairs[cmd->n_info++];

    return take_str(u, &kv->key, key) && take_str(u, &kv->value, value);
}

/* The directory and the nodes that are asked for; what else there is may be left out. */
static bool take_places(struct upcall *u, struct pmiwire_spawn_cmd *cmd,
                        struct pmiwire_keyval *pairs, const pmix_info_t info[], size_t n)
{
    bool ok = true;

    for (size_t i = 0; i < n && ok; i++) {
        const pmix_value_t *v = &info[i].value;

        if (v->type != PMIX_STRING || !v->data.string)
            continue;
        if (info_is(&info[i], PMIX_WDIR))
            ok = take_pair(u, cmd, pairs, "wdir", v->data.string);
        else if (info_is(&info[i], PMIX_HOST))
            ok = take_pair(u, cmd, pairs, "host", v->data.string);
    }
    return ok;
}

/* A client may not set the variables of PMI and libpmix. */
static bool var_is_ours(const char *var)
{
    return strncmp(var, "PMIX_", 5) == 0 || strncmp(var, "PMI_", 4) == 0;
}

static bool take_app(struct upcall *u, struct pmiwire_spawn_cmd *cmd, const pmix_app_t *app,
                     const pmix_info_t info[], size_t n_info)
{
    struct pmiwire_str *argv;
    struct pmiwire_keyval *pairs;
    size_t argc = 0, n_env = 0;

    while (app->argv && app->argv[argc])
        argc++;
    while (app->env && app->env[n_env])
        n_env++;
    cmd->argv = argv = block_take(u, argc * sizeof(*argv));
    cmd->info = pairs = block_take(u, (n_info + app->ninfo + n_env + 1) * sizeof(*pairs));
    if (!argv || !pairs || !app->cmd || !take_str(u, &cmd->execname, app->cmd))
        return false;
    cmd->maxprocs = app->maxprocs > 0 ? (uint32_t)app->maxprocs : 0;
    for (size_t i = 1; i < argc; i++) /* argv[0] is the program's name */
        if (!take_str(u, &argv[cmd->argc++], app->argv[i]))
            return false;
    for (size_t i = 0; i < n_env; i++)
        if (!var_is_ours(app->env[i]) && !take_pair(u, cmd, pairs, env_key, app->env[i]))
            return false;
    return take_places(u, cmd, pairs, info, n_info) &&
           (!app->cwd || take_pair(u, cmd, pairs, "wdir", app->cwd)) &&
           take_places(u, cmd, pairs, app->info, app->ninfo);
}

static pmix_status_t upcall_spawn(const pmix_proc_t *proc, const pmix_info_t info[], size_t n_info,
                                  const pmix_app_t apps[], size_t n_apps, pmix_spawn_cbfunc_t done,
                                  void *cbdata)
{
    struct upcall *u = upcall_new(UP_SPAWN, proc, cbdata);
    struct pmiwire_spawn_cmd *cmds;
    bool ok;

    if (!u)
        return PMIX_ERR_NOMEM;
    u->done.spawn = done;
    u->spawn.cmds = cmds = block_take(u, n_apps * sizeof(*cmds));
    ok = cmds != NULL && n_apps <= UINT32_MAX;
    while (ok && u->spawn.n_cmds < n_apps) {
        ok = take_app(u, &cmds[u->spawn.n_cmds], &apps[u->spawn.n_cmds], info, n_info);
        u->spawn.n_cmds++;
    }
    return upcall_queue(u, ok);
}

/* ---- what needs no loop ---- */

static pmix_status_t upcall_register(pmix_status_t *codes, size_t n, const pmix_info_t info[],
                                     size_t n_info, pmix_op_cbfunc_t done, void *cbdata)
{
    return PMIX_OPERATION_SUCCEEDED; /* libpmix knows who has asked */
}

static pmix_status_t upcall_deregister(pmix_status_t *codes, size_t n, pmix_op_cbfunc_t done,
                                       void *cbdata)
{
    return upcall_register(codes, n, NULL, 0, done, cbdata);
}

/* A client notifies others of an event. libpmix has notified those on this node. */
static pmix_status_t upcall_notify(pmix_status_t code, const pmix_proc_t *source,
                                   pmix_data_range_t range, pmix_info_t info[], size_t n,
                                   pmix_op_cbfunc_t done, void *cbdata)
{
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t upcall_query(pmix_proc_t *proc, pmix_query_t *queries, size_t n,
                                  pmix_info_cbfunc_t done, void *cbdata)
{
    return PMIX_ERR_NOT_SUPPORTED;
}

/* Without it libpmix reports success, and logs nothing. */
static void upcall_log(const pmix_proc_t *client, const pmix_info_t data[], size_t n,
                       const pmix_info_t directives[], size_t n_directives, pmix_op_cbfunc_t done,
                       void *cbdata)
{
    if (upcall_queue(upcall_new_op(UP_UNSUPPORTED, client, done, cbdata), true) != PMIX_SUCCESS)
        done(PMIX_ERR_NOT_SUPPORTED, cbdata);
}

/*
 * libpmix answers every upcall that is missing here with "not supported", except log. job_control
 * is missing on purpose: a client could have files removed when it ends.
 */
pmix_server_module_t *upcalls_module(struct queue *q, const char *key)
{
    static pmix_server_module_t module = {
        .client_connected2 = upcall_connected,
        .client_finalized = upcall_finalized,
        .abort = upcall_abort,
        .fence_nb = upcall_fence,
        .direct_modex = upcall_modex,
        .publish = upcall_publish,
        .lookup = upcall_lookup,
        .unpublish = upcall_unpublish,
        .spawn = upcall_spawn,
        .connect = upcall_connect,
        .disconnect = upcall_disconnect,
        .register_events = upcall_register,
        .deregister_events = upcall_deregister,
        .notify_event = upcall_notify,
        .query = upcall_query,
        .log = upcall_log,
    };

    queue = q;
    env_key = key;
    return &module;
}

/* ---- answers ---- */

static bool value_unpack(pmix_pdata_t *to, const struct names_item *item, const char *key)
{
    pmix_data_buffer_t buf = {0};
    int32_t n = 1;
    bool ok;

    buf.base_ptr = malloc(item->len ? item->len : 1);
    if (!buf.base_ptr)
        return false;
    memcpy(buf.base_ptr, item->p, item->len);
    buf.unpack_ptr = buf.base_ptr;
    buf.pack_ptr = buf.base_ptr + item->len;
    buf.bytes_allocated = buf.bytes_used = item->len;
    snprintf(to->proc.nspace, sizeof(to->proc.nspace), "%s", item->nspace);
    to->proc.rank = item->rank;
    snprintf(to->key, sizeof(to->key), "%s", key);
    ok = lib.PMIx_Data_unpack(NULL, &buf, &to->value, &n, PMIX_VALUE) == PMIX_SUCCESS;
    free(buf.base_ptr);
    return ok;
}

static void answer_lookup(struct upcall *u)
{
    pmix_pdata_t *found = calloc(u->names.n_values + 1, sizeof(*found));
    const char *data = u->answer;
    size_t left = u->answer_len, n = 0;
    struct names_item item;

    if (!found)
        u->answer_status = PMIX_ERR_NOMEM;
    while (u->answer_status == PMIX_SUCCESS && n < u->names.n_values &&
           names_next(&data, &left, &item))
        if (value_unpack(&found[n], &item, u->names.values[item.key].key))
            n++;
    u->done.lookup(u->answer_status, found, n, u->cbdata);
    for (size_t i = 0; i < n; i++)
        lib.PMIx_Value_destruct(&found[i].value);
    free(found);
}

static void answer_spawn(struct upcall *u)
{
    pmix_nspace_t nspace = "";

    snprintf(nspace, sizeof(nspace), "%.*s", (int)u->answer_len, u->answer ? u->answer : "");
    u->done.spawn(u->answer_status, nspace, u->cbdata);
}

/* libpmix frees the data, by free(), when it has read it. */
static void answer_modex(struct upcall *u)
{
    char *data = u->answer;

    u->answer = NULL;
    u->done.modex(u->answer_status, data, u->answer_len, u->cbdata, data ? free : NULL, data);
}

static void answer_op(struct upcall *u)
{
    if (u->done.op)
        u->done.op(u->answer_status, u->cbdata);
}

static void answer_give(pmix_status_t ignored, void *arg)
{
    struct upcall *u = arg;

    switch (u->kind) { /* no default: the compiler names a kind that is missing */
    case UP_FENCE:
    case UP_MODEX: answer_modex(u); break;
    case UP_SPAWN: answer_spawn(u); break;
    case UP_NAMES:
        if (u->names.what == PMIWIRE_NAME_LOOKUP)
            answer_lookup(u);
        else
            answer_op(u);
        break;
    case UP_CONNECTED:
    case UP_FINALIZED:
    case UP_ABORT:
    case UP_CONNECT:
    case UP_DISCONNECT:
    case UP_UNSUPPORTED: answer_op(u); break;
    case UP_LOST:
    case UP_GIVEN: break; /* want none */
    }
    upcall_free(u);
}

void upcall_set_answer(struct upcall *u, int status, const void *data, size_t len)
{
    u->answer_status = status;
    if (data && len > 0) {
        u->answer = malloc(len);
        if (u->answer)
            memcpy(u->answer, data, len);
        else
            u->answer_status = PMIX_ERR_NOMEM;
        u->answer_len = u->answer ? len : 0;
    }
}

bool upcall_send_answer(struct upcall *u)
{
    /* To register nothing is libpmix's way to have a function called in its thread. */
    return lib.PMIx_server_register_resources(NULL, 0, answer_give, u) == PMIX_SUCCESS;
}
