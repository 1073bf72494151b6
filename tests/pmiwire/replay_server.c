/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recorded clients against our server engine: their messages are fed in the recorded order, and
 * each of our answers is compared with the recorded one: the same command, the same success or
 * refusal, and the same value in every recorded field. Texts (msg, errmsg) may differ.
 *
 * The engine must also not be later than the recorded server: where the recording has an answer,
 * ours is there; and it lets no rank out of a fence or ring before all have entered.
 */
#define _GNU_SOURCE 1 /* strdup */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmiwire/command.h>
#include <pmiwire/server.h>

#include "conn_info.h"
#include "transcript.h"

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

/*
 * Where our answer differs from the recorded server's by intent. Looked up as "CASE.label" and
 * "COMMAND rc", "COMMAND.FIELD", "late COMMAND", "no COMMAND", "extra COMMAND" or "diag CODE".
 */
static struct exception exceptions[] = {
    /* Slurm sends appnum -1 to every rank; ours sends the number of the rank's program on the
     * command line. */
    {"*-slurm*", "appnum.appnum", "Slurm knows no appnum", 0},
    {"*-slurm*", "fullinit-response.appnum", "Slurm knows no appnum", 0},
    /* Slurm answers any unknown attribute with its network information. */
    {"libpmi2-slurm-info.*", "info-getjobattr-response.found", "Slurm finds every attribute", 0},
    {"libpmi2-slurm-info.*", "info-getjobattr-response.value", "Slurm finds every attribute", 0},
    {"raw2-slurm.*", "info-getjobattr-response.found", "Slurm finds every attribute", 0},
    {"raw2-slurm.*", "info-getjobattr-response.value", "Slurm finds every attribute", 0},
    /* Slurm's name service: a second publish overwrites, and unpublishing a missing name
     * succeeds. */
    {"raw1-slurm.*", "publish_result rc", "Slurm overwrites a name; ours refuses, as Hydra does",
     0},
    {"raw1-slurm.*", "lookup_result.port", "Slurm overwrites a name; ours refuses, as Hydra does",
     0},
    {"*-slurm*", "unpublish_result rc", "Slurm takes back names that are not published", 0},
    {"*-slurm*", "name-unpublish-response rc", "Slurm takes back names that are not published", 0},
    /* Both end a PMI-2 value at its first `;`, though libpmi2 sends `;;`; ours keeps the value
     * whole. */
    {"libpmi2-*-kvs.*", "kvs-get-response.value", "the recorded server cuts the value at `;`", 0},
    {"libpmi2-*-info.*", "info-getnodeattr-response.value",
     "the recorded server cuts the value at `;`", 0},
    /* ... and from a client that pads on the left, as MPICH's, which would cut it itself, it is
     * refused. */
    {"raw2-*", "kvs-put-response rc", "MPICH's client could not read back a value with `;`", 0},
    {"raw2-*", "kvs-get-response.found", "MPICH's client could not read back a value with `;`", 0},
    {"raw2-*", "kvs-get-response.value", "MPICH's client could not read back a value with `;`", 0},
    {"raw2-*", "diag -21015", "MPICH's client could not read back a value with `;`", 0},
    /* Hydra answers a PMI-2 fence at once and makes gets wait instead; ours releases all ranks
     * together. */
    {"libpmi2-hydra-kvs.*", "late *", "Hydra's PMI-2 fence does not wait", 0},
    {"libpmi2-hydra-name.*", "late *", "Hydra's PMI-2 fence does not wait", 0},
    {"libpmi2-hydra-name.r1", "name-lookup-response rc",
     "behind a fence that waited, the name is published", 0},
    {"libpmi2-hydra-abort.r1", "late kvs-fence-response", "Hydra's PMI-2 fence does not wait", 0},
    {"libpmi2-hydra-abort.r1", "no kvs-fence-response",
     "Hydra's PMI-2 fence does not wait; rank 0 was killed", 0},
    {"libpmi2-hydra-abort.r1", "no abort", "it stands behind a fence that rank 0 never entered", 0},
    /* Hydra announces a number of errcodes, and sends none. */
    {"libpmi2-hydra-spawn.r0", "spawn-response.nerrs", "a field of Hydra's own", 0},
    /* Ours answers a request that ends the job under Hydra, and the client continues. */
    {"raw1-hydra-unknown.*", "extra no_such_command_result", "Hydra kills the job, ours refuses",
     0},
    {"raw1-hydra-unknown.*", "diag -21009", "Hydra kills the job, ours refuses", 0},
    {"raw2-hydra-unknown.*", "extra no-such-command-response", "Hydra kills the job, ours refuses",
     0},
    {"raw2-hydra-unknown.*", "diag -21009", "Hydra kills the job, ours refuses", 0},
    {"raw2-hydra-early.*", "extra kvs-get-response",
     "mpiexec's assertion fails, ours says not found", 0},
};

/* A recorded client and our end of its connection. */
struct peer {
    struct replay *replay;
    const struct transcript *t;
    char where[128];
    struct pmiwire_conn *conn;
    size_t next;            /* the next record */
    struct kept_msgs said;  /* by the client */
    struct kept_msgs heard; /* from the recorded server */
    size_t said_bytes;      /* of the client's, fed so far */
    size_t heard_bytes;     /* of the recorded answers, up to the order's line in hand */
    char *out;              /* from us */
    size_t out_len;
    uint64_t spawn_token;
    int has_spawn_token;
    int aborted;
    int32_t exitcode;
};

struct replay {
    const struct recording *r;
    struct pmiwire_server *server;
    struct peer *peers;
    uint32_t job[2]; /* of the ranks, of the spawned ranks */
    int ending;
};

static int known(const struct peer *p, const char *what)
{
    return excepted(exceptions, N_OF(exceptions), p->where, what);
}

/* The first value of a field in recorded answers of this command, in the parents or the
 * children. */
static char *recorded(const struct replay *rp, int child, uint16_t cmd, uint16_t field)
{
    for (size_t i = 0; i < rp->r->n_transcripts; i++) {
        const struct peer *p = &rp->peers[i];

        for (size_t k = 0; is_child(p->t) == child && k < p->heard.n; k++)
            if (p->heard.at[k].msg.id == cmd && find_field(&p->heard.at[k].msg, field))
                return field_text(&p->heard.at[k].msg, field);
    }
    return NULL;
}

/* The mapping that the recorded server sent, in any answer. */
static char *recorded_mapping(const struct replay *rp, int child)
{
    for (size_t i = 0; i < rp->r->n_transcripts; i++) {
        const struct peer *p = &rp->peers[i];

        for (size_t k = 0; is_child(p->t) == child && k < p->heard.n; k++) {
            char *value = field_text(&p->heard.at[k].msg, PMIWIRE_F_VALUE);

            if (value && strncmp(value, "(vector,", 8) == 0)
                return value;
            free(value);
        }
    }
    return NULL;
}

static uint32_t n_ranks(const struct replay *rp, int child)
{
    char *size =
        recorded(rp, child, PMIWIRE_V1_SET, PMIWIRE_F_SIZE); /* PMI_PORT: only this field has it */
    uint32_t n = size ? (uint32_t)strtoul(size, NULL, 10) : 0;

    free(size);
    for (size_t i = 0; i < rp->r->n_transcripts; i++)
        if (is_child(rp->peers[i].t) == child && rp->peers[i].t->size > 0)
            n = (uint32_t)rp->peers[i].t->size;
    return n;
}

/* The recorded server's job. */
static void add_job(struct replay *rp, int child)
{
    struct pmiwire_job_opts opts = {.size = sizeof(opts), .n_ranks = n_ranks(rp, child)};
    uint32_t *appnum = need(calloc(opts.n_ranks + 1, sizeof(*appnum)));
    char *name = recorded(rp, child, PMIWIRE_V1_MY_KVSNAME, PMIWIRE_F_KVSNAME), *universe;
    char *mapping = recorded_mapping(rp, child);
    char *spawner = recorded(rp, child, PMIWIRE_V2_FULLINIT_RESPONSE, PMIWIRE_F_SPAWNER_JOBID);
    int rc;

    if (!name)
        name = recorded(rp, child, PMIWIRE_V2_JOB_GETID_RESPONSE, PMIWIRE_F_JOBID);
    if (!name && child) /* this job never asked for its name: the other job got it */
        name = recorded(rp, 0, PMIWIRE_V2_SPAWN_RESPONSE, PMIWIRE_F_JOBID);
    else if (!name)
        name = recorded(rp, 1, PMIWIRE_V2_FULLINIT_RESPONSE, PMIWIRE_F_SPAWNER_JOBID);
    for (size_t i = 0; i < rp->r->n_transcripts; i++) {
        const struct peer *p = &rp->peers[i];
        int32_t n;

        if (is_child(p->t) != child)
            continue;
        if (!name && p->t->jobid)
            name = need(strdup(p->t->jobid));
        for (size_t k = 0; k < p->heard.n; k++)
            if (p->heard.at[k].msg.id != PMIWIRE_V1_SET &&
                pmiwire_msg_int(&p->heard.at[k].msg, PMIWIRE_F_APPNUM, &n) == 0 && n > 0)
                appnum[p->t->rank] = (uint32_t)n;
    }
    universe = recorded(rp, child, PMIWIRE_V1_UNIVERSE_SIZE, PMIWIRE_F_SIZE);
    opts.universe_size = universe                       ? (int32_t)strtol(universe, NULL, 10)
                         : strstr(rp->r->name, "slurm") ? (int32_t)opts.n_ranks
                                                        : -1;
    opts.kvsname = name ? name : "unnamed";
    opts.appnum = appnum;
    opts.spawner_jobid = spawner;
    rc = pmiwire_server_job_add(rp->server, &opts, &rp->job[child]);
    if (rc == 0 && mapping)
        rc = pmiwire_server_job_attr(rp->server, rp->job[child],
                                     pmiwire_strz("PMI_process_mapping"), pmiwire_strz(mapping));
    if (rc < 0)
        deviation(rp->r->name, "no such job can be made: %s", pmiwire_strerror(rc));
    free(name);
    free(universe);
    free(mapping);
    free(spawner);
    free(appnum);
}

/* ---- the engine's callbacks ---- */

static void on_diag(void *ctx, const struct pmiwire_peer *who, int code, const char *text)
{
    struct replay *rp = ctx;
    struct peer *p = who->cookie;
    char what[32];

    snprintf(what, sizeof(what), "diag %d", code);
    if (!rp->ending &&
        !known(p, what)) /* at the end we close the connections of ranks that the launcher killed */
        deviation(p->where, "%s: %s", what, text);
}

static void on_abort(void *ctx, const struct pmiwire_peer *who, int32_t exitcode,
                     struct pmiwire_str message)
{
    struct peer *p = who->cookie;

    p->aborted = 1;
    p->exitcode = exitcode;
}

/* The program and arguments of a sub-command in the recorder's form: the last part of the path,
 * one blank between. */
static void print_program(char *out, size_t cap, const struct pmiwire_spawn_cmd *cmd)
{
    size_t slash = 0, n;

    for (size_t i = 0; i < cmd->execname.len; i++)
        if (cmd->execname.ptr[i] == '/')
            slash = i + 1;
    n = (size_t)snprintf(out, cap, "%.*s", (int)(cmd->execname.len - slash),
                         cmd->execname.ptr + slash);
    for (uint32_t i = 0; i < cmd->argc && n < cap; i++)
        n += (size_t)snprintf(out + n, cap - n, " %.*s", (int)cmd->argv[i].len, cmd->argv[i].ptr);
}

static int on_spawn(void *ctx, const struct pmiwire_peer *who, const struct pmiwire_spawn *req,
                    uint64_t token)
{
    struct replay *rp = ctx;
    struct peer *p = who->cookie;
    uint32_t rank = 0;
    char program[1024];

    /* The engine must read the same spawn that the recorded server started: the recorded children
     * prove it. */
    for (uint32_t i = 0; i < req->n_cmds; i++) {
        print_program(program, sizeof(program), &req->cmds[i]);
        for (uint32_t k = 0; k < req->cmds[i].maxprocs; k++, rank++)
            for (size_t j = 0; j < rp->r->n_transcripts; j++) {
                const struct transcript *t = rp->peers[j].t;

                if (is_child(t) && (uint32_t)t->rank == rank && strcmp(t->program, program) != 0)
                    deviation(p->where, "asks for \"%s\", and \"%s\" was started", program,
                              t->program);
            }
    }
    if (rank != n_ranks(rp, 1))
        deviation(p->where, "asks for %" PRIu32 " processes, and %" PRIu32 " were started", rank,
                  n_ranks(rp, 1));
    add_job(rp, 1);
    for (uint32_t i = 0; i < req->n_preput; i++)
        if (pmiwire_server_put(rp->server, rp->job[1], req->preput[i].key, req->preput[i].value) <
            0)
            deviation(p->where, "preput %" PRIu32 " cannot be put", i);
    p->spawn_token = token;
    p->has_spawn_token = 1;
    return PMIWIRE_PENDING;
}

/* ---- comparing ---- */

/* Is the field each server's own text, or checked elsewhere? */
static int is_text(const struct pmiwire_field *f)
{
    return f->id == PMIWIRE_F_RC || f->id == PMIWIRE_F_MSG || f->id == PMIWIRE_F_ERRMSG ||
           f->id == PMIWIRE_F_INFO;
}

static void compare_fields(const struct peer *p, const struct pmiwire_msg *theirs,
                           const struct pmiwire_msg *ours)
{
    for (uint32_t i = 0; i < theirs->n_fields; i++) {
        const struct pmiwire_field *f = &theirs->fields[i];
        char what[128], *their_value, *our_value;

        if (is_text(f))
            continue;
        snprintf(what, sizeof(what), "%.*s.%.*s", (int)theirs->cmd.len, theirs->cmd.ptr,
                 (int)f->key.len, f->key.ptr);
        their_value = field_text(theirs, f->id);
        our_value = f->id ? field_text(ours, f->id) : NULL;
        if ((!our_value || strcmp(our_value, their_value) != 0) && !known(p, what))
            deviation(p->where, "%s: recorded \"%.*s\", ours \"%s\"", what, (int)f->value.len,
                      f->value.ptr, our_value ? our_value : "(absent)");
        free(their_value);
        free(our_value);
    }
}

static void compare(const struct peer *p, const struct kept_msg *theirs,
                    const struct kept_msg *ours)
{
    char what[128];

    if (ours->msg.id != theirs->msg.id) {
        deviation(p->where, "recorded answer \"%.*s\", ours \"%.*s\"", (int)theirs->len,
                  theirs->text, (int)ours->len, ours->text);
        return;
    }
    if (pmiwire_msg_check(&ours->msg, PMIWIRE_CHECK_FIRST_WINS, NULL) != 0)
        deviation(p->where, "our own answer is not in order: \"%.*s\"", (int)ours->len, ours->text);
    snprintf(what, sizeof(what), "%.*s rc", (int)theirs->msg.cmd.len, theirs->msg.cmd.ptr);
    if (is_refusal(&ours->msg) != is_refusal(&theirs->msg)) {
        if (!known(p, what))
            deviation(p->where, "%s: recorded \"%.*s\", ours \"%.*s\"", what, (int)theirs->len,
                      theirs->text, (int)ours->len, ours->text);
        return;
    }
    if (!is_refusal(&theirs->msg)) /* a refusal's other fields are decoration: `value=unknown` */
        compare_fields(p, &theirs->msg, &ours->msg);
}

/* ---- one case ---- */

static void collect(struct replay *rp)
{
    for (size_t i = 0; i < rp->r->n_transcripts; i++) {
        struct peer *p = &rp->peers[i];
        const void *data;
        size_t n;

        while (p->conn && (n = pmiwire_conn_output(p->conn, &data)) > 0) {
            p->out = need(realloc(p->out, p->out_len + n));
            memcpy(p->out + p->out_len, data, n);
            p->out_len += n;
            pmiwire_conn_sent(p->conn, n);
        }
    }
}

static void client_says(struct replay *rp, struct peer *p, const struct record *rec, size_t step)
{
    int rc = 0;

    if (!p->conn)
        rc = p->t->port ? pmiwire_server_accept(rp->server, 0, PMIWIRE_RANK_UNKNOWN, p, &p->conn)
                        : pmiwire_server_accept(rp->server, rp->job[is_child(p->t)], p->t->rank, p,
                                                &p->conn);
    if (rc < 0) {
        deviation(p->where, "is not accepted: %s", pmiwire_strerror(rc));
        return;
    }
    if (step == 0)
        step = rec->len;
    for (size_t at = 0; at < rec->len; at += step)
        (void)pmiwire_conn_input(p->conn, rec->data + at,
                                 step < rec->len - at ? step : rec->len - at);
    p->said_bytes += rec->len;
}

/* The number of fences and rings, requested or answered, in the first bytes. */
static size_t count_fences(const struct kept_msgs *m, size_t bytes)
{
    size_t n = 0, end = 0;

    for (size_t i = 0; i < m->n && (end += m->at[i].len) <= bytes; i++)
        switch (m->at[i].msg.id) {
        case PMIWIRE_V1_BARRIER_IN:
        case PMIWIRE_V1_BARRIER_OUT:
        case PMIWIRE_V2_KVS_FENCE:
        case PMIWIRE_V2_KVS_FENCE_RESPONSE:
        case PMIWIRE_V2_RING:
        case PMIWIRE_V2_RING_RESPONSE: n++; break;
        default: break;
        }
    return n;
}

/* No rank may leave a fence that not every rank of the job has entered. */
static void check_fences(const struct replay *rp, int child)
{
    size_t entered = SIZE_MAX, offset;
    uint32_t n = 0;

    for (size_t i = 0; i < rp->r->n_transcripts; i++) {
        const struct peer *p = &rp->peers[i];
        size_t k = count_fences(&p->said, p->said_bytes);

        if (is_child(p->t) != child)
            continue;
        n++;
        entered = k < entered ? k : entered;
    }
    if (n < n_ranks(rp, child)) /* a rank that was killed before its first message */
        entered = 0;
    for (size_t i = 0; i < rp->r->n_transcripts; i++) {
        const struct peer *p = &rp->peers[i];
        struct kept_msgs ours;

        if (is_child(p->t) != child || msgs_split(p->out, p->out_len, &ours, &offset) < 0)
            continue;
        if (count_fences(&ours, SIZE_MAX) > entered)
            deviation(p->where, "is let out of fence %zu, which not all have entered", entered + 1);
        msgs_free(&ours);
    }
}

/* By now we must have sent at least the recorded server's answers. */
static void server_says(struct replay *rp, struct peer *p, const struct record *rec)
{
    struct kept_msgs ours;
    size_t offset, end = 0, n = 0;

    p->heard_bytes += rec->len;
    while (n < p->heard.n && end + p->heard.at[n].len <= p->heard_bytes)
        end += p->heard.at[n++].len;
    if (n == 0)
        return;
    if (p->has_spawn_token && (p->heard.at[n - 1].msg.id == PMIWIRE_V1_SPAWN_RESULT ||
                               p->heard.at[n - 1].msg.id == PMIWIRE_V2_SPAWN_RESPONSE)) {
        char *jobid = field_text(&p->heard.at[n - 1].msg, PMIWIRE_F_JOBID);
        static const int32_t codes[16];

        if (is_refusal(&p->heard.at[n - 1].msg) ||
            pmiwire_server_spawn_done(rp->server, p->spawn_token, 0, jobid ? jobid : "untold",
                                      codes, n_ranks(rp, 1)) < 0)
            deviation(p->where, "the spawn cannot be answered");
        p->has_spawn_token = 0;
        free(jobid);
        collect(rp);
    }
    if (msgs_split(p->out, p->out_len, &ours, &offset) == 0 && ours.n < n) {
        char what[128];

        snprintf(what, sizeof(what), "late %.*s", (int)p->heard.at[n - 1].msg.cmd.len,
                 p->heard.at[n - 1].msg.cmd.ptr);
        if (!known(p, what))
            deviation(p->where, "%s: recorded answer \"%.*s\" is not there yet", what,
                      (int)p->heard.at[n - 1].len, p->heard.at[n - 1].text);
    }
    msgs_free(&ours);
}

static int said(const struct peer *p, uint16_t v1, uint16_t v2, const struct kept_msg **which)
{
    for (size_t i = 0; i < p->said.n; i++)
        if (p->said.at[i].msg.id == v1 || p->said.at[i].msg.id == v2) {
            *which = &p->said.at[i];
            return 1;
        }
    return 0;
}

/* Compares all of our answers to one client, and the state of its session. Returns the number of
 * comparisons.
 * */
static size_t judge(const struct peer *p)
{
    struct kept_msgs ours;
    const struct kept_msg *which;
    size_t offset, i;
    char what[128];
    int32_t exitcode = 0;
    int rc = msgs_split(p->out, p->out_len, &ours, &offset);

    if (rc < 0 || ours.rest)
        deviation(p->where, "our answers are no messages");
    for (i = 0; i < ours.n && i < p->heard.n; i++)
        compare(p, &p->heard.at[i], &ours.at[i]);
    for (size_t k = i; k < p->heard.n; k++) {
        snprintf(what, sizeof(what), "no %.*s", (int)p->heard.at[k].msg.cmd.len,
                 p->heard.at[k].msg.cmd.ptr);
        if (!known(p, what))
            deviation(p->where, "%s: the recorded server answered \"%.*s\"", what,
                      (int)p->heard.at[k].len, p->heard.at[k].text);
    }
    for (size_t k = i; k < ours.n; k++) {
        snprintf(what, sizeof(what), "extra %.*s", (int)ours.at[k].msg.cmd.len,
                 ours.at[k].msg.cmd.ptr);
        if (!known(p, what))
            deviation(p->where, "%s: \"%.*s\" was never recorded", what, (int)ours.at[k].len,
                      ours.at[k].text);
    }
    if (said(p, PMIWIRE_V1_FINALIZE, PMIWIRE_V2_FINALIZE, &which) &&
        conn_state(p->conn) != PMIWIRE_CONN_FINALIZED)
        deviation(p->where, "said finalize, and is in state %" PRIu32, conn_state(p->conn));
    if (said(p, PMIWIRE_V1_ABORT, PMIWIRE_V2_ABORT, &which) != p->aborted) {
        if (!known(p, "no abort"))
            deviation(p->where, "abort was %sheard", p->aborted ? "" : "not ");
    } else if (p->aborted && pmiwire_msg_int(&which->msg, PMIWIRE_F_EXITCODE, &exitcode) == 0 &&
               exitcode != p->exitcode) {
        deviation(p->where, "aborted with %" PRId32 ", heard as %" PRId32, exitcode, p->exitcode);
    }
    msgs_free(&ours);
    return i;
}

static void replay_case(const struct recording *r, size_t step, int quiet)
{
    static const struct pmiwire_server_ops ops = {
        .size = sizeof(ops), .diag = on_diag, .abort = on_abort, .spawn = on_spawn};
    struct replay rp = {.r = r};
    struct pmiwire_server_opts opts = {.size = sizeof(opts), .ops = &ops, .ctx = &rp};
    size_t offset;

    if (pmiwire_server_create(&opts, &rp.server) < 0)
        need(NULL);
    rp.peers = need(calloc(r->n_transcripts, sizeof(*rp.peers)));
    for (size_t i = 0; i < r->n_transcripts; i++) {
        struct peer *p = &rp.peers[i];

        p->replay = &rp;
        p->t = &r->transcripts[i];
        snprintf(p->where, sizeof(p->where), "%s.%s", r->name, p->t->label);
        for (int side = 0; side < 2; side++) {
            size_t len;
            char *joined = transcript_join(p->t, side ? 'S' : 'C', &len);

            (void)msgs_split(joined, len, side ? &p->heard : &p->said,
                             &offset); /* the codec's replay checks it */
            free(joined);
        }
    }
    add_job(&rp, 0);
    for (size_t i = 0; i < r->n_order; i++) {
        struct peer *p = &rp.peers[r->order[i].transcript];
        const struct record *rec = &p->t->records[p->next++];

        if (rec->side == 'C')
            client_says(&rp, p, rec, step);
        collect(&rp);
        check_fences(&rp, is_child(p->t));
        if (rec->side == 'S')
            server_says(&rp, p, rec);
    }
    rp.ending = 1;
    for (size_t i = 0; i < r->n_transcripts; i++) {
        size_t n = rp.peers[i].conn ? judge(&rp.peers[i]) : 0;

        if (!quiet)
            replayed("server", rp.peers[i].where, "%zu answers like those recorded", n);
        free(rp.peers[i].out);
        msgs_free(&rp.peers[i].said);
        msgs_free(&rp.peers[i].heard);
    }
    pmiwire_server_destroy(rp.server);
    free(rp.peers);
}

void replay_server(const struct recording *r)
{
    replay_case(r, 0, 0); /* as recorded */
    replay_case(r, 1, 1); /* byte by byte: the same */
}

void replay_server_end(void)
{
    exceptions_unused(exceptions, N_OF(exceptions), "server");
}
