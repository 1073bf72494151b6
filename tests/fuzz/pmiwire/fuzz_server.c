/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer target: the server engine with several clients side by side, and perhaps a second node
 * with a server and a client. The input is a program of small steps: a client sends some of the
 * following bytes, reads, closes and reconnects, its process ends, a delayed answer comes,
 * callbacks begin to delay, a frame arrives that a server has sent or not. Checked:
 *
 *   - a FAILED connection queues nothing more, and keeps reporting FAILED;
 *   - every reply is a whole message that our own decoder and table accept;
 *   - the number and order of replies match the requests, with the right values (for one client
 *     that sends only well-formed requests, among the wild ones);
 *   - the store's bytes are those of its pairs; memory stays in bounds; all of it is freed.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmiwire/server.h>

#include "fuzz.h"
#include "../../heap.h"

enum { N_CLIENTS = 5, N_TOKENS = 8 };
/* the client of the second node */
#define FAR N_CLIENTS
/* the client with well-formed requests; alone in its job, so that no other changes its pairs */
#define TAME     0
#define TAME_JOB 2
#define MAX_MSG  2048u
#define MAX_VAL  300u /* its puts may be encoded: three times as long */
#define MAX_OUT  8192u
#define MAX_KVS  4096u

/* Every byte handed over is read, for the sanitizer. */
static volatile size_t sink;

/* ---- the world around the server ---- */

struct client {
    struct pmiwire_conn *conn;
    int failed;
    size_t owed; /* output seen when it failed */
    char *heard; /* bytes read and not yet decoded */
    size_t n_heard;
};

/* A frame in flight. */
struct frame {
    struct frame *next;
    size_t n;
    unsigned char bytes[];
};

struct world {
    struct heap heap;
    struct pmiwire_server *s, *far; /* far: NULL, or of the second node */
    struct client client[N_CLIENTS + 1];
    struct frame *frames[2], **frames_end[2]; /* to the second node, to the first */
    int enough;                               /* what send() returns */
    uint64_t token[N_TOKENS];
    unsigned n_tokens;
    unsigned delay;    /* bits: which callbacks delay */
    char found[64];    /* what on_find() found last */
    int memory_failed; /* if set, a well-formed request may end in an error */
    int tame_gone;     /* it has left all fences */
    int tame_state;    /* what the tame client waits for */
    int tame_init;
    uint32_t tame_n; /* its last put that was acknowledged */
    uint32_t tame_next;
    int tame_open; /* a put whose answer never came: either value may be there */
};

static void remember(struct world *w, uint64_t token)
{
    w->token[w->n_tokens++ % N_TOKENS] = token;
}

static void on_ready(void *ctx, struct pmiwire_conn *conn, void *cookie)
{
    MUST(((struct client *)cookie)->conn == conn);
}

static void on_diag(void *ctx, const struct pmiwire_peer *who, int code, const char *text)
{
    size_t i;

    MUST(who->conn != NULL && code < 0 && text[0]);
    for (i = 0; text[i]; i++)
        MUST(text[i] >= 32 && text[i] <= 126);
}

static int on_spawn(void *ctx, const struct pmiwire_peer *who, const struct pmiwire_spawn *req,
                    uint64_t token)
{
    struct world *w = ctx;
    uint32_t i, k;
    size_t n;

    MUST(req->n_cmds > 0);
    for (i = 0; i < req->n_cmds; i++) {
        MUST(req->cmds[i].maxprocs > 0 && req->cmds[i].execname.ptr);
        for (k = 0; k < req->cmds[i].argc; k++) {
            MUST(req->cmds[i].argv[k].ptr != NULL);
            for (n = 0; n < req->cmds[i].argv[k].len; n++)
                sink += (unsigned char)req->cmds[i].argv[k].ptr[n];
        }
        for (k = 0; k < req->cmds[i].n_info; k++) {
            MUST(req->cmds[i].info[k].key.ptr && req->cmds[i].info[k].value.ptr);
            for (n = 0; n < req->cmds[i].info[k].value.len; n++)
                sink += (unsigned char)req->cmds[i].info[k].value.ptr[n];
        }
    }
    for (i = 0; i < req->n_preput; i++)
        MUST(req->preput[i].key.ptr && req->preput[i].value.ptr);
    remember(w, token);
    if (w->delay & 1)
        return PMIWIRE_PENDING;
    MUST(pmiwire_server_spawn_done(w->s, token, 0, "kid", NULL, 0) == 0);
    return PMIWIRE_PENDING;
}

static int on_put(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str key,
                  struct pmiwire_str value)
{
    struct world *w = ctx;

    if (value.len >= sizeof(w->found))
        return PMIWIRE_EVALLEN;
    return pmiwire_server_put(w->s, who->job, key, value);
}

static int on_find(void *ctx, const struct pmiwire_peer *job, struct pmiwire_str key,
                   struct pmiwire_str *value)
{
    struct world *w = ctx;
    struct pmiwire_str v;

    MUST(job->rank == PMIWIRE_RANK_UNKNOWN && !job->conn);
    if (pmiwire_server_get(w->s, job->job, key, &v) != 0)
        return PMIWIRE_ENOENT;
    memcpy(w->found, v.ptr, v.len);
    w->found[v.len] = '\0';
    *value = (struct pmiwire_str){w->found, v.len};
    return 0;
}

static int on_merge(void *ctx, const struct pmiwire_peer *job, const void *block, size_t bytes)
{
    struct pmiwire_keyval kv;
    size_t pos = 0;
    int rc;

    (void)ctx, (void)job;
    while ((rc = pmiwire_block_next(block, bytes, &pos, &kv)) == 1)
        sink += kv.value.len;
    return rc;
}

static int on_gather(void *ctx, const struct pmiwire_peer *job, uint32_t number, uint32_t longest,
                     const void *block, size_t bytes)
{
    struct pmiwire_keyval kv;
    size_t pos = 0;

    (void)ctx, (void)job, (void)number;
    while (block && pmiwire_block_next(block, bytes, &pos, &kv) == 1)
        MUST(kv.key.len == 4 && kv.value.len <= longest);
    return 0;
}

static int on_name(void *ctx, const struct pmiwire_peer *who, uint32_t what,
                   struct pmiwire_str service, struct pmiwire_str port, uint64_t token)
{
    struct world *w = ctx;
    int rc = 0;

    MUST(what <= PMIWIRE_NAME_LOOKUP);
    remember(w, token);
    if (w->delay & 2)
        return PMIWIRE_PENDING;
    if (what == PMIWIRE_NAME_PUBLISH)
        return pmiwire_server_publish(w->s, who->job, service, port);
    if (what == PMIWIRE_NAME_UNPUBLISH)
        return pmiwire_server_unpublish(w->s, who->job, service);
    rc = pmiwire_server_lookup(w->s, service, &port);
    MUST(pmiwire_server_name_done(w->s, token, rc, port) == 0);
    return PMIWIRE_PENDING;
}

static void on_stuck(void *ctx, const struct pmiwire_peer *who, uint32_t coll, uint32_t why)
{
    MUST(who->rank >= 0 && why > 0 && why < PMIWIRE_GONE_COUNT_);
    MUST(coll < PMIWIRE_COLL_COUNT_ || coll == PMIWIRE_STUCK_GROUP);
}

/* Nodes are 5 and 9. */
static int on_send(void *ctx, const struct pmiwire_peer *job, uint32_t node,
                   const struct iovec *iov, uint32_t n_iov, size_t bytes)
{
    struct world *w = ctx;
    struct frame *f = malloc(sizeof(*f) + bytes);
    const int to = node == 9 ? 0 : 1;
    size_t at = 0;
    uint32_t i;

    MUST(f != NULL && job->job == 0 && (node == 5 || node == 9));
    for (i = 0; i < n_iov; at += iov[i++].iov_len)
        memcpy(f->bytes + at, iov[i].iov_base, iov[i].iov_len);
    MUST(at == bytes);
    f->n = bytes;
    f->next = NULL;
    *w->frames_end[to] = f;
    w->frames_end[to] = &f->next;
    return w->enough;
}

/* ---- listening ---- */

/* Takes whole replies from a client's input, and checks them. */
static void judge(struct world *w, struct client *c)
{
    struct pmiwire_field fields[64];
    size_t at = 0;

    for (;;) {
        struct pmiwire_msg msg = {0};
        struct pmiwire_decoder d;
        struct pmiwire_error diag;
        int32_t rc = 0;
        ssize_t n;

        msg.fields = fields;
        msg.cap_fields = 64;
        pmiwire_decoder_init(&d, 1u << 20, 0);
        n = pmiwire_decode(&d, c->heard + at, c->n_heard - at, &msg);
        if (n == 0)
            break;
        MUST(n > 0);
        at += (size_t)n;
        if (msg.id)
            MUST(pmiwire_msg_check(&msg, 0, &diag) == 0);
        if (c != &w->client[TAME])
            continue;
        (void)pmiwire_msg_int(&msg, PMIWIRE_F_RC, &rc);
        MUST(w->tame_state != 0);
        MUST(rc == 0 || w->memory_failed || (msg.id == PMIWIRE_V1_GET_RESULT && w->tame_n == 0) ||
             (msg.id == PMIWIRE_V1_BARRIER_OUT && w->tame_gone));
        MUST(msg.id == w->tame_state);
        if (msg.id == PMIWIRE_V1_GET_RESULT && rc == 0) {
            struct pmiwire_str v;
            char want[16];

            snprintf(want, sizeof(want), "%u%%00", (unsigned)w->tame_n);
            MUST(pmiwire_msg_str(&msg, PMIWIRE_F_VALUE, &v) == 0);
            MUST(w->tame_open || (v.len == strlen(want) && memcmp(v.ptr, want, v.len) == 0));
        } else if (msg.id == PMIWIRE_V1_PUT_RESULT && rc == 0) {
            w->tame_n = w->tame_next; /* acknowledged: from now on a Get must find it */
        }
        if (msg.id == PMIWIRE_V1_RESPONSE_TO_INIT && rc == 0)
            w->tame_init = 1;
        w->tame_state = 0;
    }
    memmove(c->heard, c->heard + at, c->n_heard - at);
    c->n_heard -= at;
}

static void hear(struct world *w, struct client *c, size_t most)
{
    const void *p;
    size_t n = pmiwire_conn_output(c->conn, &p), had = n;

    MUST(n <= MAX_OUT);
    if (c->failed)
        MUST(n <= c->owed);
    if (n > most)
        n = most;
    if (n == 0)
        return;
    c->heard = realloc(c->heard, c->n_heard + n);
    MUST(c->heard != NULL);
    memcpy(c->heard + c->n_heard, p, n);
    c->n_heard += n;
    pmiwire_conn_sent(c->conn, n);
    if (c->failed)
        c->owed = had - n;
    judge(w, c);
}

static struct pmiwire_info_conn info_of(const struct pmiwire_conn *c)
{
    struct pmiwire_info_conn info;

    pmiwire_conn_query(c, &info);
    return info;
}

/* Has it failed since the last check? */
static void look(struct client *c)
{
    const void *p;

    if (info_of(c->conn).state != PMIWIRE_CONN_FAILED) {
        MUST(!c->failed && info_of(c->conn).error == 0);
        return;
    }
    MUST(info_of(c->conn).error < 0);
    if (!c->failed)
        c->owed = pmiwire_conn_output(c->conn, &p);
    c->failed = 1;
    MUST(pmiwire_conn_output(c->conn, &p) <= c->owed);
}

/* ---- acting ---- */

static void come(struct world *w, int i)
{
    struct client *c = &w->client[i];
    struct pmiwire_server *s = i == FAR ? w->far : w->s;
    int32_t rank = i == 3 ? PMIWIRE_RANK_UNKNOWN : i == 4 ? 1 : i == FAR ? 2 : i - 1;
    long fail_at = w->heap.fail_at, n_calls = w->heap.n_calls;

    w->heap.fail_at = 0; /* a client must be connected */
    if (pmiwire_server_accept(s, i == TAME ? TAME_JOB : i == 4, i == TAME ? 0 : rank, c,
                              &c->conn) != 0)
        MUST(pmiwire_server_accept(s, 0, PMIWIRE_RANK_UNKNOWN, c, &c->conn) == 0);
    w->heap.fail_at = fail_at ? fail_at + w->heap.n_calls - n_calls : 0;
    c->failed = 0;
    c->owed = 0;
    c->n_heard = 0;
}

static void leave(struct world *w, int i)
{
    if (i == TAME) {
        w->tame_open |= w->tame_state == PMIWIRE_V1_PUT_RESULT;
        w->tame_state = 0;
        w->tame_init = 0;
        w->tame_gone = 1;
    }
    pmiwire_conn_close(w->client[i].conn);
    come(w, i);
}

static void send_bytes(struct world *w, int i, const uint8_t *data, size_t n)
{
    char *exact = malloc(n ? n : 1); /* so that a sanitizer sees reads past it */

    MUST(exact != NULL);
    memcpy(exact, data, n);
    MUST(pmiwire_conn_input(w->client[i].conn, exact, n) == info_of(w->client[i].conn).error);
    free(exact);
}

/* One well-formed request, when the last one has been answered. */
static void send_tame(struct world *w, unsigned what)
{
    char text[64];

    hear(w, &w->client[TAME], SIZE_MAX);
    if (w->tame_state != 0 || w->client[TAME].failed)
        return;
    if (!w->tame_init) {
        w->tame_state = PMIWIRE_V1_RESPONSE_TO_INIT;
        snprintf(text, sizeof(text), "cmd=init pmi_version=1 pmi_subversion=1 fp-client=2\n");
    } else if (what % 4 == 0) {
        w->tame_state = PMIWIRE_V1_PUT_RESULT;
        snprintf(text, sizeof(text), "cmd=put key=tame%%0 fp-bytes=v value=%u%%00\n",
                 (unsigned)++w->tame_next);
    } else if (what % 4 == 1) {
        w->tame_state = PMIWIRE_V1_GET_RESULT;
        snprintf(text, sizeof(text), "cmd=get key=tame%%0\n");
    } else if (what % 4 == 2) {
        w->tame_state = PMIWIRE_V1_BARRIER_OUT;
        snprintf(text, sizeof(text), "cmd=barrier_in\n");
    } else {
        w->tame_state = PMIWIRE_V1_APPNUM;
        snprintf(text, sizeof(text), "cmd=get_appnum\n");
    }
    (void)pmiwire_conn_input(w->client[TAME].conn, text, strlen(text));
    hear(w, &w->client[TAME], SIZE_MAX);
    /* every request has its answer by now */
    MUST(w->tame_state == 0 || (w->tame_state == PMIWIRE_V1_BARRIER_OUT && w->memory_failed) ||
         w->client[TAME].failed || info_of(w->client[TAME].conn).state == PMIWIRE_CONN_FAILED);
}

static void complete(struct world *w, unsigned arg)
{
    static const int32_t codes[] = {0, -7, 0};
    uint64_t token = w->token[arg % N_TOKENS];
    int rc = arg & 16 ? PMIWIRE_ENOENT : 0, a, b;

    if (arg & 8)
        token += arg;
    a = pmiwire_server_spawn_done(w->s, token, rc, "kid", arg & 32 ? codes : NULL, 3);
    b = pmiwire_server_name_done(w->s, token, rc, pmiwire_strz(arg & 32 ? "v w" : "v"));
    MUST(a == PMIWIRE_ESTALE || a == 0);
    MUST(b == PMIWIRE_ESTALE || b == 0);
}

/* ---- nodes ---- */

static struct frame *take_frame(struct world *w, int to)
{
    struct frame *f = w->frames[to];

    if (!f)
        return NULL;
    w->frames[to] = f->next;
    if (!f->next)
        w->frames_end[to] = &w->frames[to];
    return f;
}

/* Delivers frames, unchanged or not. Returns the bytes of input that it has used. */
static size_t frames_come(struct world *w, unsigned arg, const uint8_t *data, size_t size)
{
    const int to = arg & 1, all = (arg & 6) == 2;
    struct pmiwire_server *s = to ? w->s : w->far;
    const uint32_t from = to ? 9 : 5;
    struct frame *f;
    unsigned char *exact;
    size_t n = 0;

    if (!w->far)
        return 0;
    if ((arg & 6) == 4) { /* a forged frame */
        n = arg / 8 * 4u;
        n = n < size ? n : size;
        exact = malloc(n ? n : 1);
        MUST(exact != NULL);
        memcpy(exact, data, n);
        (void)pmiwire_server_frame(s, 0, arg & 128 ? 7 : from, exact, n);
        free(exact);
        return n;
    }
    while ((f = take_frame(w, to)) != NULL) {
        if ((arg & 6) == 6 && size >= 2) { /* one with a wrong byte */
            f->bytes[data[0] % f->n] ^= data[1];
            n = 2;
        }
        (void)pmiwire_server_frame(s, 0, from, f->bytes, f->n);
        free(f);
        if (!all)
            break;
    }
    return n;
}

/* A launcher's reports of processes and links. */
static void happens(struct world *w, unsigned what, unsigned arg)
{
    struct pmiwire_server *s = (arg & 1) && w->far ? w->far : w->s;
    const uint32_t job = arg / 2 % 4;
    const int32_t rank = (int32_t)(arg / 8 % 5) - 1;

    switch (what) {
    case 0:
        w->tame_gone |= s == w->s && job == TAME_JOB && rank == 0;
        (void)pmiwire_server_rank_ended(s, job, rank);
        break;
    case 1: (void)pmiwire_server_node_lost(s, job, arg & 64 ? 5 : 9); break;
    case 2: (void)pmiwire_server_link_ready(s, job, arg & 64 ? 5 : 9); break;
    default: w->enough = arg & 1; break;
    }
}

/* The server of one node, 5 or 9: all three jobs, or one alone. */
static struct pmiwire_server *start_one(const struct pmiwire_server_opts *o,
                                        const struct pmiwire_job_opts *jobs, uint32_t n)
{
    struct pmiwire_server *s;
    uint32_t job, i;

    MUST(pmiwire_server_create(o, &s) == 0);
    for (i = 0; i < n; i++)
        MUST(pmiwire_server_job_add(s, &jobs[i], &job) == 0 && job == i);
    /* Job 0 advertises; the others advertise only fp-bytes. */
    MUST(pmiwire_server_job_attr(s, 0, pmiwire_strz("PMI_process_mapping"),
                                 pmiwire_strz("(vector,(0,1,3))")) == 0);
    MUST(pmiwire_server_advertise(s, 0, PMIWIRE_EXT_SERVER, pmiwire_strz("1")) == 0);
    MUST(pmiwire_server_advertise(s, 0, PMIWIRE_EXT_TABLE_END, pmiwire_strz("1")) == 0);
    MUST(pmiwire_server_advertise(s, 0, PMIWIRE_EXT_BYTES, pmiwire_strz("1")) == 0);
    /* The tame client's values end in a NUL. */
    if (n > TAME_JOB)
        MUST(pmiwire_server_advertise(s, TAME_JOB, PMIWIRE_EXT_BYTES, pmiwire_strz("1")) == 0);
    return s;
}

static void start(struct world *w, unsigned flags)
{
    static const uint32_t node_of[] = {5, 5, 9};
    struct pmiwire_job_opts jobs[] = {
        {.size = sizeof(jobs[0]),
         .kvsname = "j0",
         .n_ranks = flags & (32 | 64) ? 3 : 2,
         .universe_size = -1,
         .node_of = flags & (1 | 64) ? node_of : NULL,
         .node = 5,
         .design = flags & 1 ? PMIWIRE_DESIGN_TREE : 0},
        {.size = sizeof(jobs[0]),
         .kvsname = "j1",
         .n_ranks = 2,
         .universe_size = 4,
         .debugged = 1,
         .spawner_jobid = "j0"},
        {.size = sizeof(jobs[0]), .kvsname = "tame", .n_ranks = 1, .universe_size = -1}};
    struct pmiwire_allocator alloc = {heap_realloc, heap_free, &w->heap};
    struct pmiwire_server_ops ops = {.size = sizeof(ops),
                                     .ready = on_ready,
                                     .diag = on_diag,
                                     .spawn = on_spawn,
                                     .send = flags & 64 ? on_send : NULL};
    struct pmiwire_server_opts o = {.size = sizeof(o), .ops = &ops, .ctx = w, .allocator = &alloc};
    int i;

    w->heap.limit = 8u << 20;
    w->frames_end[0] = &w->frames[0];
    w->frames_end[1] = &w->frames[1];
    o.max_msg_bytes = MAX_MSG;
    o.vallen_max = MAX_VAL;
    o.max_fields = 64;
    o.max_out_bytes = MAX_OUT;
    o.max_spawn_bytes = 4096;
    o.max_kvs_bytes = MAX_KVS;
    o.stall_ns = 1000;
    o.wait_ns = 3000;
    o.flags = flags & 8 ? PMIWIRE_SERVER_PMI_1_2 : 0;
    o.decode_flags = flags & 16 ? PMIWIRE_DECODE_VALUE_TO_EOL : 0;
    if (flags & 64) {
        jobs[0].node = 9;
        w->far = start_one(&o, jobs, 1);
        jobs[0].node = 5;
    }
    if (flags & 2) {
        ops.put = on_put;
        ops.find = on_find;
        ops.merge = on_merge;
    }
    if (flags & 4) {
        ops.name = on_name;
        ops.stuck = on_stuck;
        ops.gather = on_gather;
    }
    w->s = start_one(&o, jobs, 3);
    for (i = 0; i < N_CLIENTS + (w->far != NULL); i++)
        come(w, i);
}

/* One step: an opcode byte and an argument byte, and for sending the bytes themselves. */
static size_t step(struct world *w, const uint8_t *data, size_t size, uint64_t *now)
{
    unsigned op = data[0] >> 4, arg = data[1];
    int i = data[0] & 3;
    size_t n;

    if (i == 3)
        i += (int)(arg & 1);
    switch (op) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 6:
        if (i == TAME)
            i = w->far ? FAR : 1;
        n = (op == 0 ? 0 : (op & 3) * 64) + arg % 64;
        n = n < size - 2 ? n : size - 2;
        send_bytes(w, i, data + 2, n);
        look(&w->client[i]);
        return 2 + n;
    case 7: return 2 + frames_come(w, arg, data + 2, size - 2);
    case 8: happens(w, data[0] & 3, arg); break;
    case 9: hear(w, &w->client[i == TAME && w->far ? FAR : i], arg); break;
    case 10: leave(w, i); break;
    case 11: w->delay = arg; break;
    case 12: complete(w, arg); break;
    case 13:
        *now += arg * 16u;
        pmiwire_server_tick(w->s, *now);
        if (w->far)
            pmiwire_server_tick(w->far, *now);
        break;
    case 14: send_tame(w, arg); break;
    default:
        if (arg & 128) {
            w->heap.fail_at = w->heap.n_calls + 1 + (arg & 31);
            w->memory_failed = 1;
        }
        break;
    }
    return 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pmiwire_stats_server st;
    struct world w;
    uint64_t now = 1;
    size_t at = 1;
    int i, n_clients;

    if (size < 1)
        return 0;
    memset(&w, 0, sizeof(w));
    start(&w, data[0]);
    n_clients = N_CLIENTS + (w.far != NULL);
    while (at + 2 <= size) {
        at += step(&w, data + at, size - at, &now);
        for (i = 0; i < n_clients; i++)
            look(&w.client[i]);
    }
    pmiwire_server_stats(w.s, &st);
    /* in job 0, the pairs of both nodes */
    MUST(st.n_conns == N_CLIENTS && st.kvs_bytes <= 4 * MAX_KVS);
    MUST(st.n_bad <= st.n_messages + st.n_failed);
    for (i = 0; i < n_clients; i++) {
        hear(&w, &w.client[i], SIZE_MAX);
        MUST(w.client[i].n_heard ==
             0); /* whole messages only, also from a connection that failed */
        free(w.client[i].heard);
    }
    pmiwire_server_destroy(w.s);
    pmiwire_server_destroy(w.far);
    for (i = 0; i < 2; i++) {
        struct frame *f;

        while ((f = take_frame(&w, i)) != NULL)
            free(f);
    }
    MUST(w.heap.n_live == 0 && w.heap.live == 0);
    return 0;
}
