/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job's pairs between its nodes: libpmiwire's exchange engine between the server engine, the
 * job's table and the other agents.
 *
 * A put goes into this node's table at once and into the exchange, and a fence brings what was put
 * to the tables of all nodes: keys are DENSE, which is what PMI's programs expect, and their Gets
 * are answered here. What a client has put as SPARSE is in the exchange alone, and a Get that is
 * not answered from the table asks there. Values travel with the NUL that they have in the table,
 * so that what arrives is merged as it is.
 *
 * The engine numbers the nodes that have ranks of the job from 0 on: `members` translates.
 */
#include "exchange.h"

#include "pmirun.h"
#include "table.h"
#include "waiting_gets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <pmiwire/exchange.h>

struct exchange {
    struct pmirun *pr;
    struct job *job;
    struct pmiwire_exchange *engine;
    uint32_t *members; /* nodes with ranks of the job, ascending */
    uint32_t n_members;
    uint64_t *ring_tokens; /* of our ranks in the ring, as in job->ranks */
    bool entering;         /* fence() has not returned */
    bool ended;            /* meanwhile the fence has ended, with end_rc */
    int end_rc;
    bool over;   /* no node has any more of the job: nothing is sent */
    char *found; /* the value that on_find() found last, with a NUL */
    size_t found_cap;
};

static int on_send(void *ctx, uint32_t member, const struct iovec *iov, uint32_t n_iov,
                   size_t bytes)
{
    const struct exchange *x = ctx;

    (void)bytes;
    return x->over ? 0 : x->pr->agent->send(x->pr, x->members[member], x->job->number, iov, n_iov);
}

/* n_members: it has none of the job's ranks. */
static uint32_t member_of(const struct exchange *x, uint32_t node)
{
    uint32_t low = 0, high = x->n_members;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (x->members[mid] < node)
            low = mid + 1;
        else
            high = mid;
    }
    return low < x->n_members && x->members[low] == node ? low : x->n_members;
}

static uint32_t on_node_of(void *ctx, uint32_t rank)
{
    const struct exchange *x = ctx;

    return member_of(x, x->job->node_of[rank]);
}

static int on_pairs(void *ctx, uint32_t kind, uint32_t number, const void *block, size_t bytes)
{
    const struct exchange *x = ctx;

    (void)kind, (void)number;
    return table_merge(x->pr, x->job, pmiwire_exchange_pairs(x->engine), block, bytes);
}

/* Without its NUL. */
static struct pmiwire_str bare(struct pmiwire_str value)
{
    if (value.len)
        value.len--;
    return value;
}

static void on_got(void *ctx, uint64_t token, int rc, struct pmiwire_str value)
{
    const struct exchange *x = ctx;

    pmiwire_server_get_done(x->pr->server, token, rc, bare(value));
}

/* Where a rank stands in job->ranks, which is ordered. */
static uint32_t index_of(const struct job *job, uint32_t rank)
{
    uint32_t low = 0, high = job->n_local;

    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;

        if (job->ranks[mid].number <= rank)
            low = mid;
        else
            high = mid;
    }
    return low;
}

static void on_ringed(void *ctx, uint32_t rank, int rc, uint32_t place, struct pmiwire_str left,
                      struct pmiwire_str right)
{
    const struct exchange *x = ctx;

    pmiwire_server_ring_done(x->pr->server, x->ring_tokens[index_of(x->job, rank)], rc, place, left,
                             right);
}

static int on_find(void *ctx, struct pmiwire_str key, struct pmiwire_str *value)
{
    struct exchange *x = ctx;
    int rc = table_find(x->pr, x->job, key, value);

    if (rc != 0)
        return rc;
    if (value->len >= x->found_cap) { /* where there is no table, no NUL stands behind it */
        char *found = realloc(x->found, value->len + 1);

        if (!found)
            return -ENOMEM;
        x->found = found;
        x->found_cap = value->len + 1;
    }
    memcpy(x->found, value->ptr, value->len);
    x->found[value->len] = '\0';
    *value = (struct pmiwire_str){x->found, value->len + 1};
    return 0;
}

static void on_done(void *ctx, uint32_t kind, uint32_t number, int rc)
{
    struct exchange *x = ctx;

    (void)kind, (void)number;
    if (rc == 0)
        table_publish(x->pr, x->job);
    if (x->entering) {
        x->ended = true;
        x->end_rc = rc;
    } else {
        pmiwire_server_fence_done(x->pr->server, x->job->id, rc);
    }
}

static void on_failed(void *ctx, int rc, uint32_t member)
{
    const struct exchange *x = ctx;

    if (x->over)
        return;
    if (rc == PMIWIRE_ELOST && member < x->n_members &&
        x->members[member] != x->pr->agent->node(x->pr)) {
        x->pr->agent->lost(x->pr, x->members[member], "it is gone");
        return;
    }
    say(x->pr, "the exchange between nodes has failed: %s", any_strerror(rc));
    job_stop(x->pr, STATUS_RESOURCES);
}

/* The job's nodes; how many of its ranks are on those below this one. */
static int find_members(struct exchange *x, uint32_t n_nodes, uint32_t self, uint32_t *me,
                        uint32_t *n_below)
{
    const struct job *job = x->job;
    uint32_t *n_on = calloc(n_nodes, sizeof(*n_on));

    x->members = calloc(n_nodes, sizeof(*x->members));
    if (!n_on || !x->members) {
        free(n_on);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < job->n_ranks; i++)
        n_on[job->node_of[i]]++;
    *n_below = 0;
    for (uint32_t i = 0; i < n_nodes; i++) {
        if (!n_on[i])
            continue;
        if (i == self)
            *me = x->n_members;
        else if (i < self)
            *n_below += n_on[i];
        x->members[x->n_members++] = i;
    }
    free(n_on);
    return 0;
}

static int create_engine(struct exchange *x, uint32_t me, uint32_t n_below)
{
    static const struct pmiwire_exchange_ops ops = {.size = sizeof(ops),
                                                    .send = on_send,
                                                    .node_of = on_node_of,
                                                    .pairs = on_pairs,
                                                    .find = on_find,
                                                    .got = on_got,
                                                    .ringed = on_ringed,
                                                    .done = on_done,
                                                    .failed = on_failed};
    struct pmiwire_exchange_opts opts = {.size = sizeof(opts), .ops = &ops, .ctx = x};
    const struct job *job = x->job;
    uint32_t *ranks = calloc(job->n_local, sizeof(*ranks));
    int rc;

    x->ring_tokens = calloc(job->n_local, sizeof(*x->ring_tokens));
    if (!ranks || !x->ring_tokens) {
        free(ranks);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < job->n_local; i++)
        ranks[i] = job->ranks[i].number;
    opts.design = x->pr->opt.design;
    opts.job = job->number;
    opts.node = me;
    opts.n_nodes = x->n_members;
    opts.n_ranks = job->n_ranks;
    opts.ranks = ranks;
    opts.n_local = job->n_local;
    opts.n_below = n_below;
    opts.wait_ns = (uint64_t)(x->pr->opt.get_s * 1e9);
    rc = pmiwire_exchange_create(&opts, &x->engine);
    free(ranks);
    return rc;
}

int exchange_create(struct pmirun *pr, struct job *job)
{
    struct exchange *x = calloc(1, sizeof(*x));
    uint32_t me = 0, n_below;
    int rc;

    if (!x)
        return -ENOMEM;
    x->pr = pr;
    x->job = job;
    rc = find_members(x, pr->opt.n_nodes, pr->agent->node(pr), &me, &n_below);
    if (rc == 0)
        rc = create_engine(x, me, n_below);
    job->exchange = x;
    if (rc != 0)
        exchange_destroy(job);
    return rc;
}

void exchange_destroy(struct job *job)
{
    if (!job->exchange)
        return;
    pmiwire_exchange_destroy(job->exchange->engine);
    free(job->exchange->members);
    free(job->exchange->ring_tokens);
    free(job->exchange->found);
    free(job->exchange);
    job->exchange = NULL;
}

void exchange_over(struct job *job)
{
    if (!job->exchange)
        return;
    job->exchange->over = true;
    pmiwire_exchange_fail(job->exchange->engine, PMIWIRE_ENOENT, 0); /* what Gets end with */
}

int exchange_put(struct job *job, int32_t rank, struct pmiwire_str key, struct pmiwire_str value,
                 uint32_t hint)
{
    return pmiwire_exchange_put(job->exchange->engine, rank, key, value, hint);
}

int exchange_get(struct job *job, int32_t rank, struct pmiwire_str key, int32_t src, uint32_t how,
                 uint64_t token, struct pmiwire_str *value)
{
    int rc = pmiwire_exchange_get(job->exchange->engine, rank, key, src, how, token, value);

    if (rc == 0)
        *value = bare(*value);
    return rc;
}

int exchange_on_ring(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str left,
                     struct pmiwire_str right, uint64_t token)
{
    const struct job *job = who->job_cookie;
    int rc;

    (void)ctx;
    if (!job || !job->exchange)
        return PMIWIRE_ENOENT;
    job->exchange->ring_tokens[index_of(job, (uint32_t)who->rank)] = token;
    rc = pmiwire_exchange_ring(job->exchange->engine, who->rank, left, right);
    return rc ? rc : PMIWIRE_PENDING;
}

int exchange_fence(struct job *job)
{
    struct exchange *x = job->exchange;
    int rc;

    x->entering = true;
    x->ended = false;
    rc = pmiwire_exchange_fence(x->engine, PMIWIRE_RANK_ALL);
    x->entering = false;
    if (rc != 0)
        return rc;
    return x->ended ? x->end_rc : PMIWIRE_PENDING;
}

bool exchange_frame(struct job *job, uint32_t from, const void *p, size_t n)
{
    const struct exchange *x = job->exchange;
    int rc;

    if (!x)
        return true; /* our part of the job is over */
    rc = pmiwire_exchange_input(x->engine, member_of(x, from), p, n);
    return rc != PMIWIRE_EPROTO &&
           rc != PMIWIRE_EVERSION; /* another error has been told by failed() */
}

void exchange_gone(struct job *job, int32_t rank)
{
    pmiwire_exchange_gone(job->exchange->engine, rank, PMIWIRE_GONE_ENDED);
}

void exchange_tick(struct job *job)
{
    pmiwire_exchange_tick(job->exchange->engine, job->exchange->pr->now_ns);
}

void exchange_lost(struct job *job, uint32_t node)
{
    if (job->exchange && member_of(job->exchange, node) < job->exchange->n_members)
        pmiwire_exchange_fail(job->exchange->engine, PMIWIRE_ELOST, member_of(job->exchange, node));
}

void exchange_room(struct job *job, uint32_t node)
{
    const struct exchange *x = job->exchange;

    if (x && member_of(x, node) < x->n_members)
        pmiwire_exchange_ready(x->engine, member_of(x, node));
}
