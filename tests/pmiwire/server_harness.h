/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of the server engine: a server with recording callbacks, and its memory. */
#ifndef PMIWIRE_TESTS_SERVER_HARNESS_H
#define PMIWIRE_TESTS_SERVER_HARNESS_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pmiwire/server.h>

#include "conn_info.h"

#include "../heap.h"

#define UNUSED __attribute__((unused))

/* ---- recording ---- */

enum { H_CONNS = 16 };

struct harness {
    struct heap heap;
    struct pmiwire_allocator alloc;
    struct pmiwire_server_ops ops;
    struct pmiwire_server_opts opts;
    struct pmiwire_server *s;
    struct pmiwire_conn *c[H_CONNS]; /* cookie: &h->c[i] */

    int n_ready, n_diag, diag_code;
    char diag[512];
    int n_state;
    uint32_t state;
    int n_abort;
    int32_t exitcode;
    char message[256];

    /* answers of callbacks */
    int spawn_rc, name_rc, identify_rc;
    int done_inside; /* complete within the callback, then return PENDING */
    uint64_t token;
    char spawned[4096]; /* the request, written out */
    char value[256];
    int n_fenced;
    char waits[256]; /* entered (+) and left (-) collectives */
    int n_stuck;     /* and the last one: */
    int32_t stuck_rank;
    struct pmiwire_conn *stuck_conn;
    uint32_t stuck_coll, stuck_why;
};

static UNUSED void h_ready(void *ctx, struct pmiwire_conn *conn, void *cookie)
{
    struct harness *h = ctx;

    assert_ptr_equal(*(struct pmiwire_conn **)cookie, conn);
    h->n_ready++;
}

static UNUSED void h_diag(void *ctx, const struct pmiwire_peer *who, int code, const char *text)
{
    struct harness *h = ctx;
    size_t i;

    assert_non_null(who->conn);
    for (i = 0; text[i]; i++)
        assert_in_range(text[i], 32, 126);
    assert_true(i < sizeof(h->diag));
    memcpy(h->diag, text, i + 1);
    h->diag_code = code;
    h->n_diag++;
}

static UNUSED void h_state(void *ctx, const struct pmiwire_peer *who, uint32_t state)
{
    struct harness *h = ctx;

    assert_int_equal(conn_state(who->conn), state);
    h->n_state++;
    h->state = state;
}

static UNUSED void h_abort(void *ctx, const struct pmiwire_peer *who, int32_t exitcode,
                           struct pmiwire_str message)
{
    struct harness *h = ctx;

    h->n_abort++;
    h->exitcode = exitcode;
    snprintf(h->message, sizeof(h->message), "%.*s", (int)message.len,
             message.ptr ? message.ptr : "");
}

static UNUSED int h_spawn(void *ctx, const struct pmiwire_peer *who,
                          const struct pmiwire_spawn *req, uint64_t token)
{
    struct harness *h = ctx;
    char *p = h->spawned, *end = p + sizeof(h->spawned);
    uint32_t i, k;

    *p = '\0';
    for (i = 0; i < req->n_preput; i++)
        p += snprintf(p, (size_t)(end - p), "put %.*s=%.*s;", (int)req->preput[i].key.len,
                      req->preput[i].key.ptr, (int)req->preput[i].value.len,
                      req->preput[i].value.ptr);
    for (i = 0; i < req->n_cmds; i++) {
        const struct pmiwire_spawn_cmd *c = &req->cmds[i];

        p += snprintf(p, (size_t)(end - p), "%u*%.*s", c->maxprocs, (int)c->execname.len,
                      c->execname.ptr);
        for (k = 0; k < c->argc; k++)
            p += snprintf(p, (size_t)(end - p), " [%.*s]", (int)c->argv[k].len, c->argv[k].ptr);
        for (k = 0; k < c->n_info; k++)
            p += snprintf(p, (size_t)(end - p), " %.*s=%.*s", (int)c->info[k].key.len,
                          c->info[k].key.ptr, (int)c->info[k].value.len, c->info[k].value.ptr);
        p += snprintf(p, (size_t)(end - p), ";");
    }
    h->token = token;
    if (h->done_inside)
        assert_int_equal(pmiwire_server_spawn_done(h->s, token, 0, "kid", NULL, 0), 0);
    return h->spawn_rc;
}

static UNUSED int h_put(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str key,
                        struct pmiwire_str value)
{
    struct harness *h = ctx;
    char text[300];

    assert_true(value.len + 2 < sizeof(text));
    snprintf(text, sizeof(text), "%.*s", (int)value.len, value.ptr);
    return pmiwire_server_put(h->s, who->job, key, pmiwire_strz(text));
}

/* In the engine's own store, with a NUL behind it. */
static UNUSED int h_find(void *ctx, const struct pmiwire_peer *job, struct pmiwire_str key,
                         struct pmiwire_str *value)
{
    struct harness *h = ctx;
    struct pmiwire_str found;

    assert_int_equal(job->rank, PMIWIRE_RANK_UNKNOWN);
    assert_null(job->conn);
    if (pmiwire_server_get(h->s, job->job, key, &found) != 0)
        return PMIWIRE_ENOENT;
    snprintf(h->value, sizeof(h->value), "%.*s", (int)found.len, found.ptr);
    *value = pmiwire_strz(h->value);
    return 0;
}

static UNUSED void h_fenced(void *ctx, const struct pmiwire_peer *job)
{
    ((struct harness *)ctx)->n_fenced++;
}

static UNUSED void h_stuck(void *ctx, const struct pmiwire_peer *who, uint32_t coll, uint32_t why)
{
    struct harness *h = ctx;

    h->n_stuck++;
    h->stuck_rank = who->rank;
    h->stuck_conn = who->conn;
    h->stuck_coll = coll;
    h->stuck_why = why;
}

static UNUSED void h_waits(void *ctx, const struct pmiwire_peer *who, uint32_t coll,
                           uint32_t begins)
{
    static const char *const colls[] = {"fence", "gather", "ring"};
    struct harness *h = ctx;
    const size_t n = strlen(h->waits);

    assert_non_null(who->conn);
    snprintf(h->waits + n, sizeof(h->waits) - n, "%c%d %s ", begins ? '+' : '-', (int)who->rank,
             coll == PMIWIRE_STUCK_GROUP ? "group" : colls[coll]);
}

/* One name, for any key; unpublish finds none. */
static UNUSED int h_name(void *ctx, const struct pmiwire_peer *who, uint32_t what,
                         struct pmiwire_str service, struct pmiwire_str port, uint64_t token)
{
    struct harness *h = ctx;

    assert_ptr_equal(who->conn, h->c[who->rank]);
    assert_ptr_equal(who->cookie, &h->c[who->rank]);
    h->token = token;
    if (what == PMIWIRE_NAME_UNPUBLISH)
        return PMIWIRE_ENOENT;
    if (what == PMIWIRE_NAME_PUBLISH) {
        snprintf(h->value, sizeof(h->value), "%.*s", (int)port.len, port.ptr);
        return 0;
    }
    if (h->done_inside)
        assert_int_equal(pmiwire_server_name_done(h->s, token, 0, pmiwire_strz(h->value)), 0);
    return h->name_rc;
}

static UNUSED int h_identify(void *ctx, struct pmiwire_conn *conn, void *cookie, int32_t pmiid,
                             uint32_t *job, int32_t *rank)
{
    struct harness *h = ctx;

    *job = 0;
    *rank = pmiid - 100;
    return h->identify_rc;
}

/* ---- a server ---- */

static UNUSED void h_init(struct harness *h)
{
    memset(h, 0, sizeof(*h));
    h->alloc.realloc = heap_realloc;
    h->alloc.free = heap_free;
    h->alloc.ctx = &h->heap;
    h->ops.size = sizeof(h->ops);
    h->ops.ready = h_ready;
    h->ops.diag = h_diag;
    h->ops.state = h_state;
    h->ops.abort = h_abort;
    h->ops.spawn = h_spawn;
    h->opts.size = sizeof(h->opts);
    h->opts.ops = &h->ops;
    h->opts.ctx = h;
    h->opts.allocator = &h->alloc;
    h->spawn_rc = PMIWIRE_PENDING;
}

static UNUSED uint32_t h_job(struct harness *h, const char *name, uint32_t n_ranks)
{
    struct pmiwire_job_opts o = {
        .size = sizeof(o), .kvsname = name, .n_ranks = n_ranks, .universe_size = -1};
    uint32_t job;

    assert_int_equal(pmiwire_server_job_add(h->s, &o, &job), 0);
    return job;
}

static UNUSED void h_accept(struct harness *h, int i, uint32_t job, int32_t rank)
{
    assert_int_equal(pmiwire_server_accept(h->s, job, rank, &h->c[i], &h->c[i]), 0);
}

/* A server with job 0, "kvs_0", of n ranks, all connected as h->c[rank]. */
static UNUSED void h_start(struct harness *h, uint32_t n)
{
    uint32_t i;

    assert_int_equal(pmiwire_server_create(&h->opts, &h->s), 0);
    assert_int_equal(h_job(h, "kvs_0", n), 0);
    for (i = 0; i < n; i++)
        h_accept(h, (int)i, 0, (int32_t)i);
}

static UNUSED void h_stop(struct harness *h)
{
    pmiwire_server_destroy(h->s);
    assert_int_equal(h->heap.n_live, 0);
    assert_int_equal(h->heap.live, 0);
}

/* ---- talking ---- */

static UNUSED int say(struct harness *h, int i, const char *text)
{
    return pmiwire_conn_input(h->c[i], text, strlen(text));
}

/* A PMI-2 message: up to eight rotating buffers. */
static UNUSED const char *v2(const char *body)
{
    static char bufs[8][8192];
    static unsigned next;
    char *b = bufs[next++ % 8];

    snprintf(b, 8192, "%6zu%s", strlen(body), body);
    return b;
}

/* The same with the padding of Slurm's client. */
static UNUSED const char *v2r(const char *body)
{
    static char bufs[8][8192];
    static unsigned next;
    char *b = bufs[next++ % 8];

    snprintf(b, 8192, "%-6zu%s", strlen(body), body);
    return b;
}

/* All output for client i. */
static UNUSED const char *hear(struct harness *h, int i)
{
    static char buf[1 << 17];
    const void *p;
    size_t n = pmiwire_conn_output(h->c[i], &p);

    assert_true(n < sizeof(buf));
    if (n)
        memcpy(buf, p, n);
    buf[n] = '\0';
    pmiwire_conn_sent(h->c[i], n);
    return buf;
}

#define expect(h, i, text) assert_string_equal(hear(h, i), text)
#define ask(h, i, request, reply)                                                                  \
    do {                                                                                           \
        assert_int_equal(say(h, i, request), 0);                                                   \
        expect(h, i, reply);                                                                       \
    } while (0)

#define INIT1      "cmd=init pmi_version=1 pmi_subversion=1\n"
#define INIT1_OK   "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"
#define INIT2      "cmd=init pmi_version=2 pmi_subversion=0\n"
#define INIT2_OK   "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n"
#define BARRIER    "cmd=barrier_in\n"
#define BARRIER_OK "cmd=barrier_out rc=0\n"

static UNUSED void init1(struct harness *h, int i)
{
    ask(h, i, INIT1, INIT1_OK);
}

static UNUSED void init2(struct harness *h, int i)
{
    ask(h, i, INIT2, INIT2_OK);
    assert_int_equal(say(h, i, v2("cmd=fullinit;")), 0);
    assert_non_null(strstr(hear(h, i), "cmd=fullinit-response;rc=0;"));
    assert_int_equal(conn_state(h->c[i]), PMIWIRE_CONN_INITED);
}

#endif /* PMIWIRE_TESTS_SERVER_HARNESS_H */
