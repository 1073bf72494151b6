/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks of a cluster as clients that write and read plain text, on either wire. */
#ifndef PMIWIRE_TESTS_SERVER_RANKS_H
#define PMIWIRE_TESTS_SERVER_RANKS_H

#include "server_cluster.h"

#include "conn_info.h"

/* The kinds of a client's waits. */
enum what { FENCE, GATHER, RING, GET_NAMED, GET, GROUP, NODEATTR, N_WHATS };
/* The kinds of a rank's end. */
enum way { FINALIZES, CLOSES, STALLS, TOO_BIG, ENDS, NEVER_CAME, CLOSES_EARLY, N_WAYS };

enum { R_MAX_MSG = 1024 };

struct ranks {
    struct cluster cl;
    uint32_t n;
    bool v2; /* their wire */
    struct pmiwire_conn *conn[64];
};

static struct pmiwire_server *r_server(const struct ranks *k, uint32_t r)
{
    return k->cl.servers[k->cl.w.node_of[r]];
}

static void r_run(struct ranks *k)
{
    while (cl_step(&k->cl))
        ;
}

/* Raw bytes. */
static void r_say(struct ranks *k, uint32_t r, const char *text)
{
    (void)pmiwire_conn_input(k->conn[r], text, strlen(text));
}

/* A message of PMI-1, or the body of one of PMI-2. */
static void r_ask(struct ranks *k, uint32_t r, const char *text)
{
    char message[2048];

    if (text[strlen(text) - 1] == '\n')
        snprintf(message, sizeof(message), "%s", text);
    else
        snprintf(message, sizeof(message), "%6zu%s", strlen(text), text);
    r_say(k, r, message);
}

/* All output for a rank, "" if there is none. PMI-1's underscores are blanks. */
static const char *r_hear(struct ranks *k, uint32_t r)
{
    static char buf[4096];
    const void *p;
    size_t n = pmiwire_conn_output(k->conn[r], &p);

    assert_true(n < sizeof(buf));
    if (n)
        memcpy(buf, p, n);
    buf[n] = '\0';
    pmiwire_conn_sent(k->conn[r], n);
    for (size_t i = 0; i < n && buf[0] == 'c'; i++)
        if (buf[i] == '_')
            buf[i] = ' ';
    return buf;
}

static UNUSED int r_rc(const char *answer)
{
    const char *rc = strstr(answer, "rc=");

    assert_non_null(rc);
    return atoi(rc + 3);
}

static void r_connect(struct ranks *k, uint32_t r)
{
    assert_int_equal(pmiwire_server_accept(r_server(k, r), 0, (int32_t)r, &k->conn[r], &k->conn[r]),
                     0);
}

static void r_init(struct ranks *k, uint32_t r)
{
    r_say(k, r,
          k->v2 ? "cmd=init pmi_version=2 pmi_subversion=0\n"
                : "cmd=init pmi_version=1 pmi_subversion=2\n");
    if (k->v2)
        r_ask(k, r, "cmd=fullinit;");
    (void)r_hear(k, r);
    assert_int_equal(conn_state(k->conn[r]), PMIWIRE_CONN_INITED);
}

static UNUSED void r_start(struct ranks *k, uint32_t n_nodes, uint32_t n, bool v2, uint32_t design)
{
    const struct pmiwire_server_opts opts = {.stall_ns = UINT64_C(20000000000),
                                             .max_msg_bytes = R_MAX_MSG};

    memset(k->conn, 0, sizeof(k->conn));
    k->n = n;
    k->v2 = v2;
    cl_start(&k->cl, n_nodes, n, CYCLIC, design, &opts, NULL);
}

static UNUSED void r_stop(struct ranks *k)
{
    cl_stop(&k->cl);
}

/* The request. `rank`, `number`: of the key; for a group, another rank in it. */
static void r_enter(struct ranks *k, uint32_t r, enum what what, uint32_t rank, uint32_t number)
{
    char text[200];

    switch (what) {
    case FENCE: snprintf(text, sizeof(text), k->v2 ? "cmd=kvs-fence;" : "cmd=barrier_in\n"); break;
    case GATHER:
        snprintf(text, sizeof(text),
                 k->v2 ? "cmd=kvs-fence;fp-gather=v%u;" : "cmd=barrier_in fp-gather=v%u\n", r);
        break;
    case RING:
        snprintf(text, sizeof(text),
                 k->v2 ? "cmd=ring;ring-count=1;ring-left=l;ring-right=r;"
                       : "cmd=barrier_in fp-ring=v\n");
        break;
    case GET_NAMED:
        snprintf(text, sizeof(text),
                 k->v2 ? "cmd=kvs-get;key=k%u.%u;srcid=%u;fp-get=wait;"
                       : "cmd=get key=k%u.%u fp-src=%u fp-get=wait\n",
                 rank, number, rank);
        break;
    case GET:
        snprintf(text, sizeof(text),
                 k->v2 ? "cmd=kvs-get;key=k%u.%u;fp-get=wait;" : "cmd=get key=k%u.%u fp-get=wait\n",
                 rank, number);
        break;
    case GROUP: snprintf(text, sizeof(text), "cmd=barrier_in group=%u,%u:t\n", r, rank); break;
    case NODEATTR:
    default: snprintf(text, sizeof(text), "cmd=info-getnodeattr;key=k;wait=TRUE;"); break;
    }
    r_ask(k, r, text);
}

static UNUSED void r_put(struct ranks *k, uint32_t r, uint32_t number, bool sparse)
{
    char text[100];

    snprintf(text, sizeof(text),
             k->v2 ? "cmd=kvs-put;key=k%u.%u;%svalue=v%u;" : "cmd=put key=k%u.%u %svalue=v%u\n", r,
             number,
             !sparse ? ""
             : k->v2 ? "fp-hint=sparse;"
                     : "fp-hint=sparse ",
             number);
    r_ask(k, r, text);
    assert_int_equal(r_rc(r_hear(k, r)), 0);
}

/* A rank ends. */
static UNUSED void r_go(struct ranks *k, uint32_t r, enum way way)
{
    static char much[2 * R_MAX_MSG + 2];
    struct pmiwire_conn *conn = k->conn[r];

    switch (way) {
    case FINALIZES:
        r_ask(k, r, k->v2 ? "cmd=finalize;" : "cmd=finalize\n");
        assert_int_equal(conn_state(conn), PMIWIRE_CONN_FINALIZED);
        break;
    case STALLS:
        r_say(k, r, "cmd=pu");
        cl_tick(&k->cl);
        k->cl.now += UINT64_C(20000000000);
        cl_tick(&k->cl);
        assert_int_equal(conn_state(conn), PMIWIRE_CONN_FAILED);
        break;
    case TOO_BIG: /* an unterminated line, or one behind a waiting request */
        memset(much, 'x', sizeof(much) - 1);
        r_say(k, r, much);
        assert_int_equal(conn_state(conn), PMIWIRE_CONN_FAILED);
        break;
    case ENDS:
    case NEVER_CAME: /* was not connected */
        assert_int_equal(pmiwire_server_rank_ended(r_server(k, r), 0, (int32_t)r), 0);
        assert_int_equal(pmiwire_server_rank_ended(r_server(k, r), 0, (int32_t)r), 0);
        break;
    case CLOSES:
    case CLOSES_EARLY:
    default: pmiwire_conn_close(conn); k->conn[r] = NULL;
    }
}

static UNUSED const char *const r_whys[N_WAYS] = {
    [FINALIZES] = "has finalized",
    [CLOSES] = "has closed its connection",
    [STALLS] = "was cut off",
    [TOO_BIG] = "was cut off",
    [ENDS] = "has ended",
    [NEVER_CAME] = "has ended without init",
    [CLOSES_EARLY] = "has ended without init",
};

#endif
