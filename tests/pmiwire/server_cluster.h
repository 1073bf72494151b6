/* SPDX-License-Identifier: BSD-3-Clause */
/* Servers of several nodes in one process, joined by the queues of exchange_world.h. */
#ifndef PMIWIRE_TESTS_SERVER_CLUSTER_H
#define PMIWIRE_TESTS_SERVER_CLUSTER_H

#include "exchange_world.h"

#include <pmiwire/server.h>

enum { CL_NODES = 4 };

struct cluster {
    struct world w;
    struct pmiwire_server *servers[CL_NODES]; /* each with one job, number 0 */
    uint32_t node_of[64];                     /* as the servers number the nodes */
    struct {
        uint32_t n[PMIWIRE_COLL_COUNT_]; /* calls of stuck() for collectives of this kind */
        uint32_t n_groups;
        int32_t rank; /* of the last call */
        uint32_t why;
        bool connected;
    } stuck[CL_NODES];
    uint32_t n_fenced[CL_NODES];
    uint32_t n_failed[CL_NODES], failed_node;
    int failed_rc;
    uint64_t now;
};

static uint32_t cl_frame_bytes;  /* most in a frame, 0: the default */
static size_t cl_exchange_bytes; /* most that an exchange holds, 0: the default */

/* Nodes have numbers with gaps. */
static uint32_t cl_number(uint32_t node)
{
    return 7 * node + 3;
}

static struct node *cl_node(const struct pmiwire_peer *job)
{
    return job->job_cookie;
}

static struct cluster *cl_of(const struct pmiwire_peer *job)
{
    return (struct cluster *)(void *)((char *)cl_node(job)->w - offsetof(struct cluster, w));
}

static UNUSED int cl_send(void *ctx, const struct pmiwire_peer *job, uint32_t node,
                          const struct iovec *iov, uint32_t n_iov, size_t bytes)
{
    assert_int_equal((node - 3) % 7, 0);
    return w_send(cl_node(job), (node - 3) / 7, iov, n_iov, bytes);
}

static UNUSED void cl_stuck(void *ctx, const struct pmiwire_peer *who, uint32_t coll, uint32_t why)
{
    struct cluster *cl = cl_of(who);
    const uint32_t me = cl_node(who)->id;

    if (coll == PMIWIRE_STUCK_GROUP) {
        cl->stuck[me].n_groups++;
    } else {
        assert_in_range(coll, 0, PMIWIRE_COLL_COUNT_ - 1);
        cl->stuck[me].n[coll]++;
    }
    cl->stuck[me].rank = who->rank;
    cl->stuck[me].why = why;
    cl->stuck[me].connected = who->conn != NULL;
}

static UNUSED void cl_fenced(void *ctx, const struct pmiwire_peer *job)
{
    cl_of(job)->n_fenced[cl_node(job)->id]++;
}

static UNUSED void cl_failed(void *ctx, const struct pmiwire_peer *job, int rc, uint32_t node)
{
    struct cluster *cl = cl_of(job);

    cl->n_failed[cl_node(job)->id]++;
    cl->failed_rc = rc;
    cl->failed_node = node;
}

static const struct pmiwire_server_ops cl_ops = {.size = sizeof(cl_ops),
                                                 .send = cl_send,
                                                 .stuck = cl_stuck,
                                                 .fenced = cl_fenced,
                                                 .failed = cl_failed};

static UNUSED void cl_start(struct cluster *cl, uint32_t n_nodes, uint32_t n_ranks,
                            enum placement placement, uint32_t design,
                            const struct pmiwire_server_opts *opts,
                            const struct pmiwire_server_ops *ops)
{
    memset(cl, 0, sizeof(*cl));
    assert_true(n_nodes <= CL_NODES && n_ranks <= 64);
    w_init(&cl->w, n_nodes, n_ranks, placement, 1);
    for (uint32_t r = 0; r < n_ranks; r++)
        cl->node_of[r] = cl_number(cl->w.node_of[r]);
    for (uint32_t i = 0; i < n_nodes; i++) {
        struct pmiwire_server_opts so = {0};
        struct pmiwire_job_opts jo = {.size = sizeof(jo),
                                      .kvsname = "kvs_0",
                                      .n_ranks = n_ranks,
                                      .number = 5,
                                      .node = cl_number(i),
                                      .node_of = cl->node_of,
                                      .design = design};
        uint32_t job;

        if (opts)
            so = *opts;
        jo.max_frame_bytes = cl_frame_bytes;
        jo.max_exchange_bytes = cl_exchange_bytes;
        so.size = sizeof(so);
        so.ops = ops ? ops : &cl_ops;
        cl->w.nodes[i].w = &cl->w;
        cl->w.nodes[i].id = i;
        jo.cookie = &cl->w.nodes[i];
        assert_int_equal(pmiwire_server_create(&so, &cl->servers[i]), 0);
        assert_int_equal(pmiwire_server_job_add(cl->servers[i], &jo, &job), 0);
        assert_int_equal(job, 0);
    }
}

/* Delivers one frame of a pair of nodes chosen at random. False: there is none. */
static UNUSED bool cl_step(struct cluster *cl)
{
    struct world *w = &cl->w;
    const size_t pairs = (size_t)w->n_nodes * w->n_nodes;
    size_t i;
    struct msg *m;
    uint32_t to;
    int rc;

    if (w->n_queued == 0)
        return false;
    for (i = w_random(w, (uint32_t)pairs); !w->queues[i].head;)
        i = (i + 1) % pairs;
    to = (uint32_t)(i % w->n_nodes);
    m = w_take(w, (uint32_t)(i / w->n_nodes), to);
    if (!w->nodes[to].dead) {
        rc = pmiwire_server_frame(cl->servers[to], 0, cl_number((uint32_t)(i / w->n_nodes)),
                                  m->data, m->bytes);
        assert_true(rc == 0 || (cl->n_failed[to] && rc == cl->failed_rc));
    }
    free(m);
    return true;
}

static UNUSED void cl_tick(struct cluster *cl)
{
    cl->now += 500000000;
    for (uint32_t i = 0; i < cl->w.n_nodes; i++)
        pmiwire_server_tick(cl->servers[i], cl->now);
}

static UNUSED struct pmiwire_stats_exchange cl_stats(const struct cluster *cl, uint32_t node)
{
    struct pmiwire_stats_exchange st;

    pmiwire_exchange_stats(pmiwire_server_exchange(cl->servers[node], 0), &st);
    return st;
}

static UNUSED void cl_stop(struct cluster *cl)
{
    for (uint32_t i = 0; i < cl->w.n_nodes; i++)
        pmiwire_server_destroy(cl->servers[i]);
    w_fini(&cl->w);
}

#endif
