/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spawn. In PMI-1 a request is several mcmd messages, one a sub-command, in PMI-2
 * one message in which `subcmd` opens each sub-command. Both become one struct pmiwire_spawn. The
 * order of fields inside a sub-command is free (MPICH 4.0 sends arguments before their number,
 * MPICH main after it). Indices may start at 0 or at 1, since descriptions and clients differ, but
 * they must be complete.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server_internal.h"

/* ---- one request taken apart ---- */

/* A run of fields: a whole PMI-1 message, or one group of a PMI-2 message. */
struct part {
    const struct pmiwire_field *f;
    uint32_t n;
};

/* Memory for the request's arrays, sized in advance. */
struct arena {
    char *ptr;
    size_t left;
};

static void *arena_alloc(struct arena *a, size_t bytes)
{
    void *p = a->ptr;

    if (bytes > a->left)
        return NULL;
    a->ptr += bytes;
    a->left -= bytes;
    return p;
}

/* Reads a number that may occur once; `*out` stays if it is absent. */
static int read_number(struct part p, uint16_t id, uint32_t *out)
{
    bool found = false;
    int32_t v;

    for (uint32_t i = 0; i < p.n; i++) {
        if (p.f[i].id != id)
            continue;
        if (found)
            return PMIWIRE_EDUP;
        if (pmiwire__parse_int(p.f[i].value, &v) != 0 || v < 0)
            return PMIWIRE_ETYPE;
        *out = (uint32_t)v;
        found = true;
    }
    return found ? 0 : PMIWIRE_EMISSING;
}

/* Collects all `count` fields of an indexed kind in the order of their numbers; they may arrive in
 * any order. `out` points to the first of `count` views, `stride` bytes apart, that are still
 * absent. */
static int collect_indexed(struct part p, uint16_t id, uint32_t count, void *out, size_t stride)
{
    uint32_t base = 1, seen = 0;

    for (uint32_t i = 0; i < p.n; i++)
        if (p.f[i].id == id && p.f[i].index == 0)
            base = 0;
    for (uint32_t i = 0; i < p.n; i++) {
        struct pmiwire_str *at;

        if (p.f[i].id != id)
            continue;
        if (p.f[i].index - base >= count)
            return PMIWIRE_ETYPE; /* more than announced */
        at = (struct pmiwire_str *)(void *)((char *)out + (p.f[i].index - base) * stride);
        if (at->ptr)
            return PMIWIRE_EDUP;
        *at = p.f[i].value;
        seen++;
    }
    return seen == count ? 0 : PMIWIRE_EMISSING;
}

/* Collects pairs of a key and a value with the same number. */
static int collect_pairs(struct arena *a, struct part p, uint32_t count, uint16_t key,
                         uint16_t value, const struct pmiwire_keyval **out)
{
    struct pmiwire_keyval *kv;
    int rc;

    if (count > p.n)
        return PMIWIRE_EMISSING;
    kv = arena_alloc(a, count * sizeof(*kv));
    if (!kv)
        return -ENOMEM;
    memset(kv, 0, count * sizeof(*kv));
    rc = collect_indexed(p, key, count, &kv[0].key, sizeof(*kv));
    if (rc == 0)
        rc = collect_indexed(p, value, count, &kv[0].value, sizeof(*kv));
    *out = kv;
    return rc;
}

/* The two wires' names of the same fields. */
struct names {
    uint16_t nprocs, argc, argv, info_num, info_num2, info_key, info_val, preput_num, preput_key,
        preput_val;
};

static const struct names v1_names = {
    PMIWIRE_F_NPROCS,     PMIWIRE_F_ARGCNT,    PMIWIRE_F_ARG,      PMIWIRE_F_INFO_NUM,
    PMIWIRE_F_INFONUM,    PMIWIRE_F_INFO_KEY,  PMIWIRE_F_INFO_VAL, PMIWIRE_F_PREPUT_NUM,
    PMIWIRE_F_PREPUT_KEY, PMIWIRE_F_PREPUT_VAL};
static const struct names v2_names = {
    PMIWIRE_F_MAXPROCS,     PMIWIRE_F_ARGC,    PMIWIRE_F_ARGV,    PMIWIRE_F_INFOKEYCOUNT,
    PMIWIRE_F_INFOKEYCOUNT, PMIWIRE_F_INFOKEY, PMIWIRE_F_INFOVAL, PMIWIRE_F_PREPUTCOUNT,
    PMIWIRE_F_PPKEY,        PMIWIRE_F_PPVAL};

static int parse_cmd(struct arena *a, struct part p, const struct names *n,
                     struct pmiwire_spawn_cmd *cmd)
{
    struct pmiwire_str *argv;
    int rc = read_number(p, n->nprocs, &cmd->maxprocs);

    if (rc != 0 || cmd->maxprocs == 0)
        return rc != 0 ? rc : PMIWIRE_ETYPE;
    rc = read_number(p, n->argc, &cmd->argc);
    if (rc != 0 && rc != PMIWIRE_EMISSING)
        return rc;
    if (cmd->argc > p.n)
        return PMIWIRE_EMISSING;
    argv = arena_alloc(a, cmd->argc * sizeof(*argv));
    if (!argv)
        return -ENOMEM;
    memset(argv, 0, cmd->argc * sizeof(*argv));
    cmd->argv = argv;
    rc = collect_indexed(p, n->argv, cmd->argc, argv, sizeof(*argv));
    if (rc != 0)
        return rc;
    rc = read_number(p, n->info_num, &cmd->n_info);
    if (rc == PMIWIRE_EMISSING)
        rc = read_number(p, n->info_num2, &cmd->n_info);
    if (rc != 0 && rc != PMIWIRE_EMISSING)
        return rc;
    return collect_pairs(a, p, cmd->n_info, n->info_key, n->info_val, &cmd->info);
}

static int parse_preput(struct arena *a, struct part p, const struct names *n,
                        struct pmiwire_spawn *req)
{
    int rc = read_number(p, n->preput_num, &req->n_preput);

    if (rc != 0 && rc != PMIWIRE_EMISSING)
        return rc;
    return collect_pairs(a, p, req->n_preput, n->preput_key, n->preput_val, &req->preput);
}

/* ---- handing over ---- */

static int count_procs(const struct pmiwire_spawn *req, uint32_t *total)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < req->n_cmds; i++)
        n += req->cmds[i].maxprocs;
    if (n > INT32_MAX)
        return PMIWIRE_ETYPE;
    *total = (uint32_t)n;
    return 0;
}

static const char *spawn_error_text(int rc)
{
    switch (rc) {
    case PMIWIRE_EMISSING: return "an argument, key or value that was announced is missing";
    case PMIWIRE_EDUP: return "an argument, key or value came twice";
    case PMIWIRE_ETYPE: return "a number is wrong, or does not fit the fields it counts";
    case PMIWIRE_ETOOBIG: return "request is longer than the limit";
    case -ENOMEM: return "no memory";
    default: return NULL;
    }
}

static void start_spawn(struct pmiwire_conn *c, uint16_t cmd, const struct pmiwire_spawn *req)
{
    struct pmiwire_server *s = c->s;
    struct pmiwire_peer who;
    uint64_t token;
    uint32_t total = 0;
    int rc = count_procs(req, &total);

    if (rc != 0) {
        pmiwire__refuse(c, cmd, rc, spawn_error_text(rc));
        return;
    }
    if (!s->ops.spawn) {
        pmiwire__reply_error(c, cmd, PMIWIRE_EUNKNOWN, "this server does not spawn");
        return;
    }
    pmiwire__peer(c, &who);
    token = pmiwire__pend(c, PMIWIRE__PEND_SPAWN, cmd, NULL);
    c->pend_count = total;
    rc = s->ops.spawn(s->opts.ctx, &who, req, token);
    if (rc >= 0 || c->token != token)
        return;
    pmiwire__unpend(c);
    pmiwire__reply_error(c, cmd, rc, NULL);
}

/* ---- PMI-2 ---- */

static int parse_spawn_v2(struct arena *a, const struct pmiwire_msg *msg, struct pmiwire_spawn *req)
{
    struct part head = {msg->fields, 0};
    struct pmiwire_spawn_cmd *cmds;
    uint32_t ncmds = 0, k = 0;
    int rc;

    while (head.n < msg->n_fields && msg->fields[head.n].id != PMIWIRE_F_SUBCMD)
        head.n++;
    rc = read_number(head, PMIWIRE_F_NCMDS, &ncmds);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < msg->n_fields; i++)
        req->n_cmds += msg->fields[i].id == PMIWIRE_F_SUBCMD;
    if (ncmds == 0 || ncmds != req->n_cmds)
        return PMIWIRE_ETYPE;
    cmds = arena_alloc(a, ncmds * sizeof(*cmds));
    if (!cmds)
        return -ENOMEM;
    memset(cmds, 0, ncmds * sizeof(*cmds));
    req->cmds = cmds;
    rc = parse_preput(a, head, &v2_names, req);
    for (uint32_t i = head.n; i < msg->n_fields && rc == 0; k++) {
        struct part p = {msg->fields + i + 1, 0};

        cmds[k].execname = msg->fields[i].value;
        while (i + 1 + p.n < msg->n_fields && p.f[p.n].id != PMIWIRE_F_SUBCMD)
            p.n++;
        rc = parse_cmd(a, p, &v2_names, &cmds[k]);
        i += 1 + p.n;
    }
    return rc;
}

/* Each argument is one field and takes 16 bytes, each pair two fields and 32 bytes; a field opens
 * at most one sub-command. */
static size_t arena_size(size_t n_fields, size_t n_cmds)
{
    return n_fields * sizeof(struct pmiwire_keyval) + n_cmds * sizeof(struct pmiwire_spawn_cmd);
}

void pmiwire__do_spawn_v2(const struct pmiwire__req *q)
{
    struct pmiwire_spawn req = {0};
    struct arena a;
    char *mem;
    int rc;

    a.left = arena_size(q->msg->n_fields, q->msg->n_fields);
    mem = a.ptr = q->raw_len > q->s->opts.max_spawn_bytes ? NULL : pmiwire__alloc(q->s, a.left);
    if (!mem)
        rc = q->raw_len > q->s->opts.max_spawn_bytes ? PMIWIRE_ETOOBIG : -ENOMEM;
    else
        rc = parse_spawn_v2(&a, q->msg, &req);
    if (rc == 0)
        start_spawn(q->c, q->cmd, &req);
    else
        pmiwire__refuse(q->c, q->cmd, rc, spawn_error_text(rc));
    pmiwire__free(q->s, mem);
}

/* ---- PMI-1 ---- */

/* Decodes all messages of a request again, side by side, and joins them. `bytes`: room for decoding
 * fp-bytes; NULL: the client does not know fp-bytes. */
static int parse_spawn_v1(struct pmiwire_server *s, const struct pmiwire__spawn_part *acc,
                          struct pmiwire_field *fields, struct arena *a, char *bytes,
                          struct pmiwire_spawn *req)
{
    const char *p = acc->bytes.ptr;
    size_t left = acc->bytes.len, used_fields = 0;
    struct pmiwire_spawn_cmd *cmds = arena_alloc(a, acc->total * sizeof(*cmds));
    bool have_preput = false;
    int rc;

    if (!cmds)
        return -ENOMEM;
    memset(cmds, 0, acc->total * sizeof(*cmds));
    req->cmds = cmds;
    req->n_cmds = acc->total;
    for (uint32_t i = 0; i < acc->total; i++) {
        struct pmiwire_msg msg = {0};
        struct pmiwire_decoder d;
        struct part part;
        ssize_t n;

        msg.fields = fields + used_fields;
        msg.cap_fields = (uint32_t)(acc->n_fields - used_fields);
        pmiwire_decoder_init(&d, s->opts.max_msg_bytes, 0);
        n = pmiwire_decode(&d, p, left, &msg);
        if (n <= 0)
            return n < 0 ? (int)n : PMIWIRE_EPROTO; /* cannot happen: it was decoded before */
        if (bytes) {
            size_t used;

            rc = pmiwire__msg_bytes(&msg, bytes, &used, NULL);
            if (rc != 0)
                return rc; /* cannot happen, for the same reason */
            bytes += used;
        }
        part.f = msg.fields;
        part.n = msg.n_fields;
        (void)pmiwire_msg_str(&msg, PMIWIRE_F_EXECNAME, &cmds[i].execname);
        rc = parse_cmd(a, part, &v1_names, &cmds[i]);
        if (rc == 0 && !have_preput && pmiwire__msg_field(&msg, PMIWIRE_F_PREPUT_NUM)) {
            /* MPICH 4.0 repeats the pairs in every message; MPICH main sends them only in the
             * first. */
            have_preput = true;
            rc = parse_preput(a, part, &v1_names, req);
        }
        if (rc != 0)
            return rc;
        used_fields += msg.n_fields;
        p += n;
        left -= (size_t)n;
    }
    return 0;
}

/* Serves the request once its last message is here. */
static void finish_spawn_v1(const struct pmiwire__req *q)
{
    struct pmiwire_server *s = q->s;
    struct pmiwire_conn *c = q->c;
    struct pmiwire__spawn_part acc = c->spawn;
    struct pmiwire_spawn req = {0};
    struct pmiwire_field *fields = NULL;
    struct arena a;
    char *mem = NULL, *bytes;
    int rc = acc.err;

    memset(&c->spawn, 0, sizeof(c->spawn)); /* acc lives until the callback has returned */
    if (rc == 0) {
        a.left = arena_size(acc.n_fields, acc.total);
        mem = a.ptr = pmiwire__alloc(s, a.left + (c->has_bytes ? acc.bytes.len : 0));
        bytes = mem && c->has_bytes ? mem + a.left : NULL;
        fields = pmiwire__alloc(s, acc.n_fields * sizeof(*fields));
        rc = mem && fields ? parse_spawn_v1(s, &acc, fields, &a, bytes, &req) : -ENOMEM;
    }
    if (rc == 0)
        start_spawn(c, q->cmd, &req);
    else
        pmiwire__refuse(c, q->cmd, rc, spawn_error_text(rc));
    pmiwire__free(s, fields);
    pmiwire__free(s, mem);
    pmiwire__buf_free(&s->mem, &acc.bytes);
}

/* Returns whether this message continues the request in progress, or begins one. */
static bool part_fits(const struct pmiwire__spawn_part *acc, int32_t total, int32_t sofar)
{
    if (total < 1 || sofar < 1 || sofar > total)
        return false;
    return acc->total ? (uint32_t)total == acc->total && (uint32_t)sofar == acc->n + 1 : sofar == 1;
}

/* Counts a message of a request. Returns false, and drops the request, if the message is out of
 * step. */
static bool count_part(struct pmiwire_conn *c, const struct pmiwire_msg *msg)
{
    struct pmiwire__spawn_part *acc = &c->spawn;
    int32_t total = 0, sofar = 0;

    (void)pmiwire_msg_int(msg, PMIWIRE_F_TOTSPAWNS, &total);
    (void)pmiwire_msg_int(msg, PMIWIRE_F_SPAWNSSOFAR, &sofar);
    if (!part_fits(acc, total, sofar)) {
        pmiwire__spawn_drop(c);
        return false;
    }
    if (!acc->total)
        *acc = (struct pmiwire__spawn_part){.total = (uint32_t)total};
    acc->n++;
    return true;
}

bool pmiwire__spawn_refuse_part(struct pmiwire_conn *c, const struct pmiwire_msg *msg, int code)
{
    struct pmiwire__spawn_part *acc = &c->spawn;

    if (c->state != PMIWIRE_CONN_INITED || !count_part(c, msg))
        return true;
    acc->err = code;
    pmiwire__buf_free(&c->s->mem, &acc->bytes);
    if (acc->n < acc->total)
        return false;
    pmiwire__spawn_drop(c);
    return true;
}

void pmiwire__do_spawn_v1(const struct pmiwire__req *q)
{
    struct pmiwire_server *s = q->s;
    struct pmiwire_conn *c = q->c;
    struct pmiwire__spawn_part *acc = &c->spawn;

    if (!count_part(c, q->msg)) {
        pmiwire__refuse(c, q->cmd, PMIWIRE_ETYPE, "totspawns and spawnssofar are out of step");
        return;
    }
    acc->n_fields += q->n_fields;
    if (acc->err == 0 && acc->bytes.len + q->raw_len > s->opts.max_spawn_bytes)
        acc->err = PMIWIRE_ETOOBIG;
    if (acc->err == 0)
        acc->err = pmiwire__buf_append(&s->mem, &acc->bytes, q->raw, q->raw_len);
    if (acc->err != 0) /* count the messages of a refused request, but do not keep them */
        pmiwire__buf_free(&s->mem, &acc->bytes);
    if (acc->n == acc->total)
        finish_spawn_v1(q);
}

/* ---- the answer ---- */

/* Returns `0,0,…`, or the absent view if that is too long to send. */
static struct pmiwire_str errcode_text(char *buf, size_t cap, const int32_t *errcodes, uint32_t n)
{
    struct pmiwire_str none = {0}, text = {buf, 0};

    for (uint32_t i = 0; i < n; i++) {
        int k = snprintf(buf + text.len, cap - text.len, "%s%d", i ? "," : "",
                         errcodes ? (int)errcodes[i] : 0);

        if (k < 0 || (size_t)k >= cap - text.len)
            return none;
        text.len += (size_t)k;
    }
    return text;
}

static int first_error(const int32_t *errcodes, uint32_t n)
{
    for (uint32_t i = 0; errcodes && i < n; i++)
        if (errcodes[i] != 0)
            return errcodes[i];
    return 0;
}

int pmiwire_server_spawn_done(struct pmiwire_server *s, uint64_t token, int rc, const char *jobid,
                              const int32_t *errcodes, uint32_t n)
{
    struct pmiwire_conn *c = pmiwire__by_token(s, token);
    char buf[PMIWIRE__ERRCODES_MAX];
    struct pmiwire__reply r;
    struct pmiwire_str codes;
    uint16_t cmd;

    if (!c || c->pend != PMIWIRE__PEND_SPAWN)
        return PMIWIRE_ESTALE;
    pmiwire__enter(s);
    cmd = c->pend_cmd;
    if (!errcodes)
        n = c->pend_count;
    codes = errcode_text(buf, sizeof(buf), errcodes, n);
    if (rc == 0 && !codes.len)
        rc = first_error(errcodes, n); /* no room to name the failed ones: so all fail */
    if (rc != 0) {
        pmiwire__reply_error(c, cmd, rc, rc < 0 ? NULL : "spawn failed");
    } else if (pmiwire__reply_begin(&r, c, cmd, 0, codes.len + (jobid ? strlen(jobid) : 0))) {
        if (jobid)
            pmiwire_enc_str(&r.e, PMIWIRE_F_JOBID, pmiwire_strz(jobid));
        if (codes.len)
            pmiwire_enc_str(&r.e, PMIWIRE_F_ERRCODES, codes);
        pmiwire__reply_send(&r, cmd);
    }
    pmiwire__resume(c);
    pmiwire__leave(s);
    return 0;
}
