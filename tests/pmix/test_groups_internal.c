/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of processes on four nodes of one process, over links that we deliver. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/pmix-host/groups.h"

#define NODES 4u
#define RANKS 8u /* two on each node: 0 and 4, 1 and 5, ... */

struct frame {
    struct frame *next;
    uint32_t from, to;
    size_t n;
    char p[];
};

struct result {
    int n, status;
    char *data;
    size_t len;
};

static struct pmix_host hosts[NODES];
static struct host_job jobs[NODES][2];
static struct client clients[NODES][2][2];
static uint32_t node_of[RANKS];
static struct frame *queue, **queue_end = &queue;
static struct result results[NODES];
static int n_failed, n_stuck;
static uint32_t stuck_rank, stuck_why;
static struct pmix_host *wanted_of; /* a request for data that waits */
static uint64_t wanted;
static bool answers_at_once;

/* ---- what groups.c calls ---- */

struct host_job *host_job_find(const struct pmix_host *h, uint32_t number)
{
    struct host_job *job = h->jobs;

    while (job && job->number != number)
        job = job->next;
    return job;
}

struct client *host_client(const struct host_job *job, uint32_t rank)
{
    for (uint32_t i = 0; i < job->n_clients; i++)
        if (job->clients[i].rank == rank)
            return &job->clients[i];
    return NULL;
}

uint32_t host_client_gone(const struct client *c)
{
    return c->state == PMIWIRE_CONN_FINALIZED ? PMIWIRE_GONE_FINALIZED
           : c->ended                         ? PMIWIRE_GONE_ENDED
                                              : 0;
}

int host_modex(struct pmix_host *h, const struct host_job *job, uint32_t rank, uint64_t token)
{
    assert_int_equal(job->node_of[rank], h->node);
    if (answers_at_once)
        return HOST_ENOENT;
    wanted_of = h;
    wanted = token;
    return HOST_OK;
}

static int on_send(void *ctx, uint32_t node, uint32_t job, const struct iovec *iov, uint32_t n_iov)
{
    const struct pmix_host *h = ctx;
    struct frame *f;
    size_t n = 0;

    assert_true(job < 2 && node < NODES && node != h->node);
    for (uint32_t i = 0; i < n_iov; i++)
        n += iov[i].iov_len;
    f = malloc(sizeof(*f) + n);
    assert_non_null(f);
    *f = (struct frame){NULL, h->node, node, n};
    n = 0;
    for (uint32_t i = 0; i < n_iov; i++) {
        memcpy(f->p + n, iov[i].iov_base, iov[i].iov_len);
        n += iov[i].iov_len;
    }
    *queue_end = f;
    queue_end = &f->next;
    return 0;
}

static void on_stuck(void *ctx, uint32_t job, uint32_t rank, uint32_t coll, uint32_t why)
{
    n_stuck++;
    stuck_rank = rank;
    stuck_why = why;
    assert_int_equal(coll, PMIWIRE_COLL_FENCE);
}

static void on_failed(void *ctx, const char *why)
{
    n_failed++;
}

/* ---- the world ---- */

static int begin(void **state)
{
    n_failed = n_stuck = 0;
    wanted_of = NULL;
    answers_at_once = false;
    memset(results, 0, sizeof(results));
    for (uint32_t i = 0; i < RANKS; i++)
        node_of[i] = i % NODES;
    for (uint32_t i = 0; i < NODES; i++) {
        hosts[i] =
            (struct pmix_host){.ops = {.send = on_send, .stuck = on_stuck, .failed = on_failed},
                               .ctx = &hosts[i],
                               .node = i,
                               .n_nodes = NODES};
        for (uint32_t k = 0; k < 2; k++) {
            clients[i][k][0] = (struct client){.rank = i, .state = PMIWIRE_CONN_INITED};
            clients[i][k][1] = (struct client){.rank = i + NODES, .state = PMIWIRE_CONN_INITED};
            jobs[i][k] = (struct host_job){.next = hosts[i].jobs,
                                           .number = k,
                                           .n_ranks = RANKS,
                                           .node_of = node_of,
                                           .n_clients = 2,
                                           .clients = clients[i][k]};
            hosts[i].jobs = &jobs[i][k];
        }
    }
    return 0;
}

static int end(void **state)
{
    while (queue) {
        struct frame *f = queue;

        queue = f->next;
        free(f);
    }
    queue_end = &queue;
    for (uint32_t i = 0; i < NODES; i++) {
        groups_free(&hosts[i]);
        assert_int_equal(hosts[i].n_groups, 0);
        assert_int_equal(hosts[i].group_bytes, 0);
        free(results[i].data);
    }
    return 0;
}

static struct frame *frame_next(void)
{
    struct frame *f = queue;

    if (!f)
        return NULL;
    queue = f->next;
    if (!queue)
        queue_end = &queue;
    return f;
}

static void deliver_all(void)
{
    for (struct frame *f; (f = frame_next()); free(f))
        assert_true(groups_input(&hosts[f->to], f->from, f->p, f->n));
}

static void on_done(void *ctx, int status, const char *data, size_t len)
{
    struct result *r = ctx;

    free(r->data);
    r->n++;
    r->status = status;
    r->len = len;
    r->data = malloc(len + 1);
    memcpy(r->data, data ? data : "", len);
}

/* A node's ranks of `procs` enter. */
static void enter(uint32_t node, const struct group_proc *procs, size_t n, const char *data,
                  size_t len)
{
    struct group_proc copy[2 * RANKS];

    memcpy(copy, procs, n * sizeof(*procs));
    groups_enter(&hosts[node], GROUP_FENCE, copy, n, data, len, on_done, &results[node]);
}

static const struct group_proc everybody[] = {{0, 0}, {0, 1}, {0, 2}, {0, 3},
                                              {0, 4}, {0, 5}, {0, 6}, {0, 7}};

static void expect(uint32_t node, int n, const char *data)
{
    assert_int_equal(results[node].n, n);
    assert_int_equal(results[node].status, HOST_OK);
    assert_int_equal(results[node].len, strlen(data));
    assert_memory_equal(results[node].data, data, strlen(data));
}

/* ---- tests ---- */

/* The data of all, in the order of nodes, also of those that bring none; again and again. */
static void test_fence(void **state)
{
    static const char *const data[NODES] = {"zero.", "", "two.", "three."};

    for (int round = 1; round < 4; round++) {
        for (uint32_t i = 0; i < NODES; i++) {
            assert_int_equal(results[0].n, round - 1);
            enter((i + (uint32_t)round) % NODES, everybody, RANKS,
                  data[(i + (uint32_t)round) % NODES], strlen(data[(i + (uint32_t)round) % NODES]));
            deliver_all();
        }
        for (uint32_t i = 0; i < NODES; i++)
            expect(i, round, "zero.two.three.");
    }
    assert_int_equal(hosts[0].n_groups, 1);
}

/* Processes of one node alone; of several jobs, in any order; two groups at a time. */
static void test_subsets(void **state)
{
    const struct group_proc here[] = {{0, 5}, {0, 1}}, odd[] = {{1, 7}, {0, 3}, {1, 1}},
                            other[] = {{1, 1}, {0, 3}};

    enter(1, here, 2, "alone", 5);
    expect(1, 1, "alone");
    enter(3, odd, 3, "c", 1);
    deliver_all();
    enter(1, other, 2, "x", 1);
    enter(3, other, 2, "y", 1);
    deliver_all();
    expect(1, 2, "xy");
    expect(3, 1, "xy");
    enter(1, (struct group_proc[]){{0, 3}, {1, 1}, {1, 7}}, 3, "b", 1);
    deliver_all();
    expect(1, 3, "bc");
    expect(3, 2, "bc");
}

/* Longer than a piece, a frame, and a value of the exchange. */
static void test_long(void **state)
{
    const size_t len = 700000;
    char *mine = malloc(len);

    for (uint32_t i = 0; i < NODES; i++) {
        memset(mine, (int)i + 'a', len);
        enter(i, everybody, RANKS, mine, len);
    }
    deliver_all();
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(results[i].status, HOST_OK);
        assert_int_equal(results[i].len, NODES * len);
        for (size_t at = 0; at < NODES * len; at += 999)
            assert_int_equal(results[i].data[at], 'a' + at / len);
    }
    free(mine);
}

/* A rank that has finalized: those that wait, and that come later, get the error with its number.
 * But it may be back before anybody waits for it. */
static void test_gone(void **state)
{
    for (int round = 1; round < 3; round++) {
        for (uint32_t i = 0; i < NODES; i++)
            enter(i, everybody, RANKS, "", 0);
        deliver_all();
        for (uint32_t i = 0; i < NODES; i++)
            expect(i, round, "");
        clients[2][0][1].state = PMIWIRE_CONN_FINALIZED;
        for (uint32_t i = 0; i < NODES; i++)
            groups_tick(&hosts[i]);
        deliver_all();
        clients[2][0][1].state = PMIWIRE_CONN_INITED;
    }
    clients[2][0][1].state = PMIWIRE_CONN_FINALIZED;
    enter(0, everybody, RANKS, "", 0);
    enter(1, everybody, RANKS, "", 0);
    enter(3, everybody, RANKS, "", 0);
    deliver_all();
    assert_int_equal(n_stuck, 0);
    for (uint32_t tick = 0; tick < 2; tick++) {
        for (uint32_t i = 0; i < NODES; i++)
            groups_tick(&hosts[i]);
        deliver_all();
    }
    assert_int_equal(n_stuck, 3);
    assert_int_equal(stuck_rank, 6);
    assert_int_equal(stuck_why, PMIWIRE_GONE_FINALIZED);
    for (uint32_t i = 0; i < NODES; i++)
        assert_int_equal(results[i].status, i == 2 ? HOST_OK : HOST_EGONE);
    enter(2, everybody, RANKS, "", 0); /* libpmix does not wait for it */
    assert_int_equal(results[2].status, HOST_EGONE);
    enter(0, everybody, RANKS, "", 0);
    assert_int_equal(results[0].n, 4);
    assert_int_equal(results[0].status, HOST_EGONE);
    assert_int_equal(n_failed, 0);
}

/* A node asks for a rank's data: twice, without success. */
static void test_fetch(void **state)
{
    for (int i = 1; i < 3; i++) {
        groups_fetch(&hosts[3], &jobs[3][1], 5, on_done, &results[3]);
        deliver_all();
        assert_int_equal(results[3].n, i - 1);
        assert_non_null(wanted_of);
        groups_given(wanted_of, wanted, HOST_OK, i == 1 ? "first" : "second", i == 1 ? 5 : 6);
        deliver_all();
        expect(3, i, i == 1 ? "first" : "second");
    }
    answers_at_once = true;
    groups_fetch(&hosts[0], &jobs[0][0], 5, on_done, &results[0]);
    deliver_all();
    assert_int_equal(results[0].n, 1);
    assert_int_equal(results[0].status, HOST_ENOENT);
    answers_at_once = false;
    groups_fetch(&hosts[1], &jobs[1][0], 4, on_done, &results[1]);
    deliver_all();
    clients[0][0][1].ended = true; /* and libpmix does not answer */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(results[1].n, 0);
        groups_tick(&hosts[0]);
        deliver_all();
    }
    assert_int_equal(results[1].n, 1);
    assert_int_equal(results[1].status, HOST_ENOENT);
    for (uint32_t i = 0; i < NODES; i++) /* nothing is left of them but what the next call frees */
        groups_tick(&hosts[i]);
    for (uint32_t i = 0; i < NODES; i++)
        assert_int_equal(hosts[i].n_groups, 0);
}

/* Those that wait get an answer when a job is over; a frame for it that comes later is ignored. */
static void test_job_end(void **state)
{
    const struct group_proc both[] = {{0, 0}, {1, 1}};
    struct frame *f;

    enter(0, both, 2, "", 0);
    groups_job_end(&hosts[0], 1);
    assert_int_equal(results[0].n, 1);
    assert_int_equal(results[0].status, HOST_EGONE);
    assert_int_equal(hosts[0].n_groups, 0);
    enter(1, both, 2, "", 0);
    hosts[0].jobs = &jobs[0][0];
    while ((f = frame_next())) {
        if (f->to == 0)
            assert_true(groups_input(&hosts[0], f->from, f->p, f->n));
        free(f);
    }
    assert_int_equal(hosts[0].n_groups, 0);
}

/* Frames with any byte changed, cut short, or from another node: refused, or harmless. */
static void test_hostile(void **state)
{
    const struct group_proc procs[] = {{0, 0}, {0, 1}, {0, 5}, {1, 0}};
    struct frame *f;
    char *p;

    enter(1, procs, 4, "data", 4);
    f = frame_next();
    assert_non_null(f);
    p = malloc(f->n);
    for (size_t i = 0; i < f->n; i++) {
        for (int bit = 0; bit < 8; bit++) {
            memcpy(p, f->p, f->n);
            p[i] = (char)(p[i] ^ 1 << bit);
            groups_input(&hosts[0], 1, p, f->n);
            groups_free(&hosts[0]);
        }
        assert_false(groups_input(&hosts[0], 1, f->p, i));
        assert_int_equal(hosts[0].n_groups, 0);
    }
    for (uint32_t from = 2; from < NODES; from++) /* takes no part */
        assert_false(groups_input(&hosts[0], from, f->p, f->n));
    assert_false(groups_input(&hosts[3], 1, f->p, f->n)); /* nor does node 3 */
    assert_int_equal(hosts[0].n_groups, 0);
    assert_true(groups_input(&hosts[0], 1, f->p, f->n));
    assert_int_equal(hosts[0].n_groups, 1);
    free(p);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fence, begin, end),
        cmocka_unit_test_setup_teardown(test_subsets, begin, end),
        cmocka_unit_test_setup_teardown(test_long, begin, end),
        cmocka_unit_test_setup_teardown(test_gone, begin, end),
        cmocka_unit_test_setup_teardown(test_fetch, begin, end),
        cmocka_unit_test_setup_teardown(test_job_end, begin, end),
        cmocka_unit_test_setup_teardown(test_hostile, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
