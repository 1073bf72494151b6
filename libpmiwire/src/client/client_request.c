/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of a client session: each adds bytes to the queue and records the expected answer. */
#include <errno.h>
#include <stdio.h>

#include "client_internal.h"

/* ---- init ---- */

int pmiwire__client_send_step(struct pmiwire_client *c, enum pmiwire__step step)
{
    static const struct {
        uint16_t cmd, reply;
    } steps[] = {
        [PMIWIRE__STEP_INITACK] = {PMIWIRE_V1_INITACK, PMIWIRE_V1_INITACK},
        [PMIWIRE__STEP_SET] = {0, PMIWIRE_V1_SET},
        [PMIWIRE__STEP_INIT] = {PMIWIRE_V1_INIT, PMIWIRE_V1_RESPONSE_TO_INIT},
        [PMIWIRE__STEP_MAXES] = {PMIWIRE_V1_GET_MAXES, PMIWIRE_V1_MAXES},
        [PMIWIRE__STEP_APPNUM] = {PMIWIRE_V1_GET_APPNUM, PMIWIRE_V1_APPNUM},
        [PMIWIRE__STEP_KVSNAME] = {PMIWIRE_V1_GET_MY_KVSNAME, PMIWIRE_V1_MY_KVSNAME},
        [PMIWIRE__STEP_FULLINIT] = {PMIWIRE_V2_FULLINIT, PMIWIRE_V2_FULLINIT_RESPONSE},
    };
    struct pmiwire__pending *p = pmiwire__head(c);
    struct pmiwire_encoder e;
    int rc;

    if (steps[step].cmd) {
        pmiwire__client_encode(c, &e, steps[step].cmd);
        if (step == PMIWIRE__STEP_INITACK) {
            pmiwire_enc_int(&e, PMIWIRE_F_PMIID, c->pmiid);
        } else if (step == PMIWIRE__STEP_INIT) {
            pmiwire_enc_int(&e, PMIWIRE_F_PMI_VERSION, c->wire);
            pmiwire_enc_int(&e, PMIWIRE_F_PMI_SUBVERSION,
                            pmiwire__is_v2(c) ? 0 : c->max_subversion);
        } else if (step == PMIWIRE__STEP_FULLINIT) {
            if (c->jobid)
                pmiwire_enc_str(&e, PMIWIRE_F_PMIJOBID, pmiwire_strz(c->jobid));
            /* A client that connects sends its id here. It does not send srcid, Slurm's name for
             * it: Hydra requires pmirank, and a server whose ids are not ranks would see two
             * claims. */
            if (c->has_pmiid || c->info.rank >= 0)
                pmiwire_enc_int(&e, PMIWIRE_F_PMIRANK, c->has_pmiid ? c->pmiid : c->info.rank);
            pmiwire_enc_int(&e, PMIWIRE_F_THREADED, c->threaded != 0);
        }
        if ((c->flags & PMIWIRE_CLIENT_EXTENSIONS) &&
            step == (c->wire == PMIWIRE_V1 ? PMIWIRE__STEP_INIT : PMIWIRE__STEP_FULLINIT))
            pmiwire__enc_ext(&e, PMIWIRE_EXT_CLIENT, pmiwire_strz("2"));
        rc = pmiwire__client_encoded(c, &e);
        if (rc < 0)
            return rc;
    }
    c->step = step;
    p->reply = steps[step].reply;
    p->end = pmiwire__queued(c);
    return 0;
}

/* Records a request that has been queued (or is local). */
static struct pmiwire__pending *pending_push(struct pmiwire_client *c, uint16_t op, uint16_t reply,
                                             uint64_t cookie)
{
    struct pmiwire__pending *p = pmiwire__pending_at(c, c->n_pending++);

    *p = (struct pmiwire__pending){
        .cookie = cookie, .end = pmiwire__queued(c), .op = op, .reply = reply};
    return p;
}

int pmiwire__client_start(struct pmiwire_client *c)
{
    int port = c->wire == PMIWIRE_V1 && c->has_pmiid;
    int rc;

    pending_push(c, PMIWIRE_OP_INIT, 0, 0);
    /* Refuse an unsendable job id now, not when fullinit's turn comes. */
    rc = pmiwire__is_v2(c) ? pmiwire__client_send_step(c, PMIWIRE__STEP_FULLINIT) : 0;
    c->out_tail = c->out_head;
    if (rc == 0)
        rc = pmiwire__client_send_step(c, port ? PMIWIRE__STEP_INITACK : PMIWIRE__STEP_INIT);
    return rc;
}

/* ---- common to all requests ---- */

/* Returns 0, or why the session accepts no request now. */
static int check_session(const struct pmiwire_client *c)
{
    if (c->dead)
        return c->dead;
    if (c->state != PMIWIRE__READY)
        return PMIWIRE_ESTATE;
    return c->n_pending == PMIWIRE_CLIENT_MAX_PENDING ? -EAGAIN : 0;
}

/* A request being built: its command on this wire, and its encoder, which keeps the first error. */
struct client_request {
    struct pmiwire_client *c;
    struct pmiwire_encoder e;
    uint16_t cmd;
};

/* A refusal is final, so it comes before -EAGAIN, which a full buffer causes. */
static void request_refuse(struct client_request *r, int rc)
{
    if (!r->e.err || r->e.err == PMIWIRE_ENOBUF)
        r->e.err = rc;
}

/* Begins a request; a command of 0 means that this wire has none. */
static void request_begin(struct client_request *r, struct pmiwire_client *c, uint16_t v1,
                          uint16_t v2)
{
    const int rc = check_session(c);

    r->c = c;
    r->cmd = pmiwire__is_v2(c) ? v2 : v1;
    pmiwire__client_encode(c, &r->e, r->cmd);
    if (rc < 0 || !r->cmd)
        r->e.err = rc < 0 ? rc : PMIWIRE_EVERSION;
}

static int request_queue(struct client_request *r, uint16_t op, uint64_t cookie)
{
    int rc = pmiwire__client_encoded(r->c, &r->e);

    if (rc == 0)
        pending_push(r->c, op, pmiwire_command_get(r->cmd)->reply, cookie);
    return rc;
}

/* Checks the limits of keys and values that the server has announced, NUL included. */
static void request_check_maxes(struct client_request *r, struct pmiwire_str key,
                                struct pmiwire_str value)
{
    const struct pmiwire_info_client *info = &r->c->info;

    if (info->keylen_max > 0 && key.len >= (size_t)info->keylen_max)
        request_refuse(r, PMIWIRE_EKEYLEN);
    if (info->vallen_max > 0 && value.len >= (size_t)info->vallen_max)
        request_refuse(r, PMIWIRE_EVALLEN);
}

/* ---- the key-value space ---- */

static const struct pmiwire_str no_value = {NULL, 0};

static int has_exchange(const struct pmiwire_client *c)
{
    return c->info.ext[PMIWIRE_EXT_EXCHANGE].len > 0;
}

int pmiwire_client_put(struct pmiwire_client *c, struct pmiwire_str key, struct pmiwire_str value,
                       uint32_t hint, uint64_t cookie)
{
    struct client_request r;

    request_begin(&r, c, PMIWIRE_V1_PUT, PMIWIRE_V2_KVS_PUT);
    if (hint > PMIWIRE_HINT_DENSE)
        request_refuse(&r, -EINVAL);
    request_check_maxes(&r, key, value);
    if (hint != PMIWIRE_HINT_NONE && has_exchange(c))
        pmiwire__enc_ext(&r.e, PMIWIRE_EXT_HINT,
                         pmiwire_strz(hint == PMIWIRE_HINT_SPARSE ? "sparse" : "dense"));
    if (!pmiwire__is_v2(c))
        pmiwire_enc_str(&r.e, PMIWIRE_F_KVSNAME, c->info.kvsname);
    pmiwire__enc_pair(&r.e, PMIWIRE_F_KEY, key, PMIWIRE_F_VALUE, value);
    return request_queue(&r, PMIWIRE_OP_PUT, cookie);
}

/* Gets from this space; absent: PMI-2's own. Serves get, and PMI-1's jobattr. */
static int queue_get(struct pmiwire_client *c, uint16_t op, struct pmiwire_str space, int32_t srcid,
                     struct pmiwire_str key, uint32_t how, uint64_t cookie)
{
    const int v2 = pmiwire__is_v2(c);
    struct client_request r;
    char number[16];

    request_begin(&r, c, PMIWIRE_V1_GET, PMIWIRE_V2_KVS_GET);
    request_check_maxes(&r, key, no_value);
    if (how != PMIWIRE_GET_LOCAL)
        pmiwire__enc_ext(&r.e, PMIWIRE_EXT_GET,
                         pmiwire_strz(how == PMIWIRE_GET_WAIT ? "wait" : "remote"));
    if (!v2 && how != PMIWIRE_GET_LOCAL && srcid >= 0) {
        snprintf(number, sizeof(number), "%d", (int)srcid);
        pmiwire__enc_ext(&r.e, PMIWIRE_EXT_SRC, pmiwire_strz(number));
    }
    if (space.ptr)
        pmiwire_enc_str(&r.e, v2 ? PMIWIRE_F_JOBID : PMIWIRE_F_KVSNAME, space);
    if (v2 && srcid >= 0)
        pmiwire_enc_int(&r.e, PMIWIRE_F_SRCID, srcid);
    pmiwire__enc_pair(&r.e, PMIWIRE_F_KEY, key, 0, no_value);
    return request_queue(&r, op, cookie);
}

int pmiwire_client_get(struct pmiwire_client *c, struct pmiwire_str jobid, int32_t srcid,
                       struct pmiwire_str key, uint32_t how, uint64_t cookie)
{
    int rc = check_session(c);

    if (rc < 0)
        return rc;
    if (how > PMIWIRE_GET_WAIT || (how != PMIWIRE_GET_LOCAL && jobid.ptr))
        return -EINVAL;
    if (how != PMIWIRE_GET_LOCAL && !has_exchange(c))
        return PMIWIRE_EVERSION;
    if (!jobid.ptr && !pmiwire__is_v2(c))
        jobid = c->info.kvsname;
    return queue_get(c, PMIWIRE_OP_GET, jobid, srcid, key, how, cookie);
}

int pmiwire_client_fence(struct pmiwire_client *c, struct pmiwire_str group, uint64_t cookie)
{
    struct client_request r;

    request_begin(&r, c, PMIWIRE_V1_BARRIER_IN, group.ptr ? 0 : PMIWIRE_V2_KVS_FENCE);
    if (group.ptr && c->info.subversion < 2)
        request_refuse(&r, PMIWIRE_EVERSION);
    if (group.ptr)
        pmiwire_enc_str(&r.e, PMIWIRE_F_GROUP, group);
    return request_queue(&r, PMIWIRE_OP_FENCE, cookie);
}

/* ---- Allgather ---- */

int pmiwire_client_gather(struct pmiwire_client *c, struct pmiwire_str value, uint64_t cookie)
{
    struct client_request r;

    request_begin(&r, c, has_exchange(c) ? PMIWIRE_V1_BARRIER_IN : 0,
                  has_exchange(c) ? PMIWIRE_V2_KVS_FENCE : 0);
    request_check_maxes(&r, no_value, value);
    if (value.len == 0)
        request_refuse(&r, PMIWIRE_EEMPTY);
    pmiwire__enc_encoded(&r.e, PMIWIRE_EXT_GATHER, value);
    return request_queue(&r, PMIWIRE_OP_GATHER, cookie);
}

/* ---- requests without a value ---- */

/* The command on each wire, and the field for what the request is about; 0: none. */
static const struct request_row {
    uint16_t v1, v1_field, v2, v2_field;
} request_rows[] = {
    [PMIWIRE_OP_KVSNAME] = {PMIWIRE_V1_GET_MY_KVSNAME, 0, PMIWIRE_V2_JOB_GETID, 0},
    [PMIWIRE_OP_UNIVERSE_SIZE] = {PMIWIRE_V1_GET_UNIVERSE_SIZE, 0, PMIWIRE_V2_INFO_GETJOBATTR,
                                  PMIWIRE_F_KEY},
    [PMIWIRE_OP_APPNUM] = {PMIWIRE_V1_GET_APPNUM, 0, 0, 0},
    [PMIWIRE_OP_JOBATTR] = {PMIWIRE_V1_GET, 0, PMIWIRE_V2_INFO_GETJOBATTR, PMIWIRE_F_KEY},
    [PMIWIRE_OP_NODEATTR_GET] = {0, 0, PMIWIRE_V2_INFO_GETNODEATTR, PMIWIRE_F_KEY},
    [PMIWIRE_OP_NODEATTR_WAIT] = {0, 0, PMIWIRE_V2_INFO_GETNODEATTR, PMIWIRE_F_KEY},
    [PMIWIRE_OP_UNPUBLISH] = {PMIWIRE_V1_UNPUBLISH_NAME, PMIWIRE_F_SERVICE,
                              PMIWIRE_V2_NAME_UNPUBLISH, PMIWIRE_F_NAME},
    [PMIWIRE_OP_LOOKUP] = {PMIWIRE_V1_LOOKUP_NAME, PMIWIRE_F_SERVICE, PMIWIRE_V2_NAME_LOOKUP,
                           PMIWIRE_F_NAME},
    [PMIWIRE_OP_JOB_CONNECT] = {0, 0, PMIWIRE_V2_JOB_CONNECT, PMIWIRE_F_JOBID},
    [PMIWIRE_OP_JOB_DISCONNECT] = {0, 0, PMIWIRE_V2_JOB_DISCONNECT, PMIWIRE_F_JOBID},
};

/* The answer to fullinit contained it, and PMI-2 has no command for it. */
static int queue_known_appnum(struct pmiwire_client *c, uint64_t cookie)
{
    int rc = check_session(c);

    if (rc == 0)
        pending_push(c, PMIWIRE_OP_APPNUM, 0, cookie)->local = 1;
    return rc;
}

int pmiwire_client_request(struct pmiwire_client *c, uint32_t op, struct pmiwire_str about,
                           uint64_t cookie)
{
    const size_t n_rows = sizeof(request_rows) / sizeof(request_rows[0]);
    const struct request_row *row = &request_rows[op < n_rows ? op : 0];
    struct client_request r;
    uint16_t field;

    if (!row->v1 && !row->v2)
        return -EINVAL;
    if (op == PMIWIRE_OP_APPNUM && pmiwire__is_v2(c))
        return queue_known_appnum(c, cookie);
    if (op == PMIWIRE_OP_JOBATTR && !pmiwire__is_v2(c))
        return queue_get(c, PMIWIRE_OP_JOBATTR, c->info.kvsname, -1, about, PMIWIRE_GET_LOCAL,
                         cookie);
    request_begin(&r, c, row->v1, row->v2);
    /* PMI-2 has no command for it: MPICH asks for this attribute, and servers answer it. */
    if (op == PMIWIRE_OP_UNIVERSE_SIZE)
        about = pmiwire_strz("universeSize");
    field = pmiwire__is_v2(c) ? row->v2_field : row->v1_field;
    if (field)
        pmiwire__enc_pair(&r.e, field, about, 0, no_value);
    if (r.cmd == PMIWIRE_V2_INFO_GETNODEATTR)
        pmiwire_enc_int(&r.e, PMIWIRE_F_WAIT, op == PMIWIRE_OP_NODEATTR_WAIT);
    return request_queue(&r, (uint16_t)op, cookie);
}

/* ---- the node ---- */

int pmiwire_client_nodeattr_put(struct pmiwire_client *c, struct pmiwire_str key,
                                struct pmiwire_str value, uint64_t cookie)
{
    struct client_request r;

    request_begin(&r, c, 0, PMIWIRE_V2_INFO_PUTNODEATTR);
    pmiwire__enc_pair(&r.e, PMIWIRE_F_KEY, key, PMIWIRE_F_VALUE, value);
    return request_queue(&r, PMIWIRE_OP_NODEATTR_PUT, cookie);
}

/* ---- names ---- */

int pmiwire_client_publish(struct pmiwire_client *c, struct pmiwire_str service,
                           struct pmiwire_str port, uint64_t cookie)
{
    const uint16_t name = pmiwire__is_v2(c) ? PMIWIRE_F_NAME : PMIWIRE_F_SERVICE;
    struct client_request r;

    request_begin(&r, c, PMIWIRE_V1_PUBLISH_NAME, PMIWIRE_V2_NAME_PUBLISH);
    pmiwire__enc_pair(&r.e, name, service, PMIWIRE_F_PORT, port);
    return request_queue(&r, PMIWIRE_OP_PUBLISH, cookie);
}

/* ---- spawn ---- */

static void enc_pairs(struct pmiwire_encoder *e, uint16_t count, uint16_t key, uint16_t val,
                      const struct pmiwire_keyval *pairs, uint32_t n)
{
    pmiwire_enc_int(e, count, n);
    for (uint32_t i = 0; i < n; i++) {
        pmiwire_enc_indexed(e, key, i, pairs[i].key);
        pmiwire_enc_indexed(e, val, i, pairs[i].value);
    }
}

/* Must come before all fields of a spawn: says whether the preputs are encoded. */
static void enc_preput_bytes(struct pmiwire_encoder *e, const struct pmiwire_spawn *req)
{
    const uint16_t key = e->wire == PMIWIRE_V2 ? PMIWIRE_F_PPKEY : PMIWIRE_F_PREPUT_KEY;
    const uint16_t value = e->wire == PMIWIRE_V2 ? PMIWIRE_F_PPVAL : PMIWIRE_F_PREPUT_VAL;
    uint8_t bytes = 0;

    for (uint32_t i = 0; i < req->n_preput; i++)
        bytes |= pmiwire__enc_needs(e, key, req->preput[i].key) |
                 pmiwire__enc_needs(e, value, req->preput[i].value);
    pmiwire__enc_bytes(e, bytes);
}

/* Sends one message for each sub-command. Servers take the preputs from the first message and start
 * all processes at the last. */
static int spawn_v1(struct pmiwire_client *c, const struct pmiwire_spawn *req)
{
    size_t head = c->out_head, tail = c->out_tail;

    for (uint32_t i = 0; i < req->n_cmds; i++) {
        const struct pmiwire_spawn_cmd *cmd = &req->cmds[i];
        struct pmiwire_encoder e;
        int rc;

        pmiwire__client_encode(c, &e, PMIWIRE_V1_SPAWN);
        if (i == 0) { /* the preputs may have moved the queue */
            tail -= head - c->out_head;
            head = c->out_head;
            enc_preput_bytes(&e, req);
        }
        pmiwire_enc_int(&e, PMIWIRE_F_NPROCS, cmd->maxprocs);
        pmiwire_enc_str(&e, PMIWIRE_F_EXECNAME, cmd->execname);
        pmiwire_enc_int(&e, PMIWIRE_F_TOTSPAWNS, req->n_cmds);
        pmiwire_enc_int(&e, PMIWIRE_F_SPAWNSSOFAR, (int64_t)i + 1);
        pmiwire_enc_int(&e, PMIWIRE_F_ARGCNT, cmd->argc);
        for (uint32_t k = 0; k < cmd->argc; k++)
            pmiwire_enc_indexed(&e, PMIWIRE_F_ARG, k + 1, cmd->argv[k]);
        enc_pairs(&e, PMIWIRE_F_PREPUT_NUM, PMIWIRE_F_PREPUT_KEY, PMIWIRE_F_PREPUT_VAL, req->preput,
                  i == 0 ? req->n_preput : 0);
        enc_pairs(&e, PMIWIRE_F_INFO_NUM, PMIWIRE_F_INFO_KEY, PMIWIRE_F_INFO_VAL, cmd->info,
                  cmd->n_info);
        rc = pmiwire__client_encoded(c, &e);
        if (rc < 0) {
            c->out_tail = tail; /* drop the messages already queued */
            /* Retrying helps only if other requests took the room. */
            return rc == -EAGAIN && tail == head ? PMIWIRE_ETOOBIG : rc;
        }
    }
    return 0;
}

/* The order matters: slurmstepd reads the fields by position. */
static int spawn_v2(struct pmiwire_client *c, const struct pmiwire_spawn *req)
{
    struct pmiwire_encoder e;

    pmiwire__client_encode(c, &e, PMIWIRE_V2_SPAWN);
    enc_preput_bytes(&e, req);
    pmiwire_enc_int(&e, PMIWIRE_F_NCMDS, req->n_cmds);
    enc_pairs(&e, PMIWIRE_F_PREPUTCOUNT, PMIWIRE_F_PPKEY, PMIWIRE_F_PPVAL, req->preput,
              req->n_preput);
    for (uint32_t i = 0; i < req->n_cmds; i++) {
        const struct pmiwire_spawn_cmd *cmd = &req->cmds[i];

        pmiwire_enc_str(&e, PMIWIRE_F_SUBCMD, cmd->execname);
        pmiwire_enc_int(&e, PMIWIRE_F_MAXPROCS, cmd->maxprocs);
        pmiwire_enc_int(&e, PMIWIRE_F_ARGC, cmd->argc);
        for (uint32_t k = 0; k < cmd->argc; k++)
            pmiwire_enc_indexed(&e, PMIWIRE_F_ARGV, k, cmd->argv[k]);
        enc_pairs(&e, PMIWIRE_F_INFOKEYCOUNT, PMIWIRE_F_INFOKEY, PMIWIRE_F_INFOVAL, cmd->info,
                  cmd->n_info);
    }
    return pmiwire__client_encoded(c, &e);
}

/* Refuses a spawn that no server can start: some servers end the job because of it. */
static int check_spawn(const struct pmiwire_spawn *req)
{
    if (!req || req->n_cmds == 0 || !req->cmds || (req->n_preput && !req->preput))
        return -EINVAL;
    for (uint32_t i = 0; i < req->n_cmds; i++) {
        const struct pmiwire_spawn_cmd *cmd = &req->cmds[i];

        if (cmd->maxprocs == 0 || cmd->maxprocs > INT32_MAX || (cmd->argc && !cmd->argv) ||
            (cmd->n_info && !cmd->info))
            return -EINVAL;
        if (cmd->execname.len == 0)
            return PMIWIRE_EEMPTY;
    }
    return 0;
}

int pmiwire_client_spawn(struct pmiwire_client *c, const struct pmiwire_spawn *req, uint64_t cookie)
{
    int rc = check_session(c);

    if (rc == 0)
        rc = check_spawn(req);
    if (rc == 0)
        rc = pmiwire__is_v2(c) ? spawn_v2(c, req) : spawn_v1(c, req);
    if (rc == 0)
        pending_push(c, PMIWIRE_OP_SPAWN,
                     pmiwire__is_v2(c) ? PMIWIRE_V2_SPAWN_RESPONSE : PMIWIRE_V1_SPAWN_RESULT,
                     cookie);
    return rc;
}

/* ---- ring ---- */

int pmiwire_client_ring(struct pmiwire_client *c, struct pmiwire_str value, uint64_t cookie)
{
    const int v2 = pmiwire__is_v2(c);
    struct client_request r;

    request_begin(&r, c, has_exchange(c) ? PMIWIRE_V1_BARRIER_IN : 0, PMIWIRE_V2_RING);
    pmiwire__enc_bytes(&r.e, pmiwire__enc_needs(&r.e, v2 ? PMIWIRE_F_RING_LEFT : 0, value));
    if (v2) {
        /* One process is a chain of one: both ends hold its value. */
        pmiwire_enc_int(&r.e, PMIWIRE_F_RING_COUNT, 1);
        pmiwire_enc_str(&r.e, PMIWIRE_F_RING_LEFT, value);
        pmiwire_enc_str(&r.e, PMIWIRE_F_RING_RIGHT, value);
    } else {
        pmiwire__enc_value(&r.e, PMIWIRE_EXT_RING, value);
    }
    return request_queue(&r, PMIWIRE_OP_RING, cookie);
}

/* ---- the end ---- */

static void reverse_bytes(char *p, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        char t = p[i];

        p[i] = p[n - 1 - i];
        p[n - 1 - i] = t;
    }
}

/*
 * Moves the last `bytes` of the queue before every request of which no byte has been sent: an abort
 * cannot wait behind a fence that is never answered. Returns where they end.
 */
static uint64_t move_before_unsent(struct pmiwire_client *c, size_t bytes)
{
    uint64_t before = pmiwire__queued(c) - bytes, at = before;
    char *p;

    if (c->answered >= c->sent && c->answered < at)
        at = c->answered;
    for (uint32_t i = 0; i < c->n_pending; i++) {
        uint64_t end = pmiwire__pending_at(c, i)->end;

        if (end >= c->sent && end < at)
            at = end;
    }
    p = c->out + c->out_head + (size_t)(at - c->sent);
    reverse_bytes(p, (size_t)(before - at));
    reverse_bytes(p + (size_t)(before - at), bytes);
    reverse_bytes(p, (size_t)(before - at) + bytes);
    for (uint32_t i = 0; i < c->n_pending; i++)
        if (pmiwire__pending_at(c, i)->end > at)
            pmiwire__pending_at(c, i)->end += bytes;
    /* If two aborts are unsent, the second goes first and moves the first one back. */
    c->abort_end = c->abort_end > at ? c->abort_end + bytes : at + bytes;
    return at + bytes;
}

int pmiwire_client_abort(struct pmiwire_client *c, int32_t exitcode, struct pmiwire_str message,
                         uint64_t cookie)
{
    struct client_request r;
    uint64_t end;
    size_t before;
    int rc;

    request_begin(&r, c, PMIWIRE_V1_ABORT, PMIWIRE_V2_ABORT);
    /* Slurm reads isworld and msg, MPICH's servers exitcode and message. */
    if (pmiwire__is_v2(c))
        pmiwire_enc_int(&r.e, PMIWIRE_F_ISWORLD, 1);
    pmiwire_enc_int(&r.e, PMIWIRE_F_EXITCODE, exitcode);
    if (message.len && pmiwire__is_v2(c))
        pmiwire_enc_str(&r.e, PMIWIRE_F_MSG, message);
    if (message.len)
        pmiwire_enc_str(&r.e, PMIWIRE_F_MESSAGE, message);
    before = c->out_tail;
    rc = pmiwire__client_encoded(c, &r.e);
    if (rc < 0)
        return rc;
    end = move_before_unsent(c, c->out_tail - before);
    pending_push(c, PMIWIRE_OP_ABORT, 0, cookie)->end = end;
    return 0;
}

int pmiwire_client_finalize(struct pmiwire_client *c, uint64_t cookie)
{
    struct client_request r;
    int rc;

    request_begin(&r, c, PMIWIRE_V1_FINALIZE, PMIWIRE_V2_FINALIZE);
    rc = request_queue(&r, PMIWIRE_OP_FINALIZE, cookie);
    if (rc == 0)
        c->state = PMIWIRE__CLOSING;
    return rc;
}
