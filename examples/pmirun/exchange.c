/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job's pairs between its nodes: what a Fence brings to all of them. The first node of the job gathers and broadcasts.
 */
#include "message.h"
#include "pmirun.h"

#include <stdlib.h>
#include <string.h>

enum { FRAME_GATHER = 1, FRAME_ALL = 2 };

struct exchange {
    uint32_t *members; /* nodes with ranks of the job, ascending */
    uint32_t n_members, me;
    uint32_t fence;  /* number of the one to come */
    bool inside;     /* our ranks wait in it */
    struct msg puts; /* ours since the last one: key, value, as texts */
    struct msg all;  /* the first member: what has come from others */
    uint32_t n_here; /* there: how many */
};

static uint32_t find_members(const struct job *job, uint32_t n_nodes, uint32_t **members)
{
    uint32_t *has = calloc(n_nodes, sizeof(*has)), n = 0;

    *members = has;
    for (uint32_t i = 0; has && i < job->n_ranks; i++)
        has[job->node_of[i]] = 1;
    for (uint32_t i = 0; has && i < n_nodes; i++)
        if (has[i])
            has[n++] = i;
    return n;
}

int exchange_create(struct pmirun *pr, struct job *job)
{
    struct exchange *x = calloc(1, sizeof(*x));

    if (!x)
        return -12;
    x->n_members = find_members(job, pr->opt.n_nodes, &x->members);
    while (x->me < x->n_members && x->members[x->me] != agent_node(pr))
        x->me++;
    job->exchange = x;
    return 0;
}

void exchange_destroy(struct job *job)
{
    if (!job->exchange)
        return;
    free(job->exchange->members);
    msg_free(&job->exchange->puts);
    msg_free(&job->exchange->all);
    free(job->exchange);
    job->exchange = NULL;
}

int exchange_put(struct pmirun *pr, struct job *job, int32_t rank, struct pmiwire_str key, struct pmiwire_str value)
{
    (void)pr, (void)rank;
    msg_text(&job->exchange->puts, key.ptr, key.len);
    msg_text(&job->exchange->puts, value.ptr, value.len);
    return 0;
}

static void send_frame(struct pmirun *pr, struct job *job, uint32_t member, uint8_t type, const struct msg *pairs)
{
    struct exchange *x = job->exchange;
    struct msg m = {0};

    msg_u32(&m, type);
    msg_u32(&m, x->fence);
    msg_bytes(&m, pairs->p, pairs->len);
    agent_send(pr, x->members[member], job->number, m.p, m.len);
    msg_free(&m);
}

/* 0, or why not all pairs could be stored. */
static int take_pairs(struct pmirun *pr, struct job *job, struct msg_in in)
{
    int err = 0;

    while (in.left && !in.bad && err == 0) {
        struct pmiwire_str key, value;

        key.ptr = get_text(&in, &key.len);
        value.ptr = get_text(&in, &value.len);
        if (!in.bad)
            err = table_put(pr, job, key, value);
    }
    return err;
}

static int fence_done(struct pmirun *pr, struct job *job, const struct msg *all)
{
    struct exchange *x = job->exchange;
    int err = take_pairs(pr, job, (struct msg_in){all->p, all->len, false});

    x->inside = false;
    x->puts.len = x->all.len = 0;
    x->n_here = 0;
    x->fence++;
    return err;
}

/* The first member, when all are here: tells the others. */
static int all_here(struct pmirun *pr, struct job *job)
{
    struct exchange *x = job->exchange;

    msg_bytes(&x->all, x->puts.p, x->puts.len);
    for (uint32_t i = 1; i < x->n_members; i++)
        send_frame(pr, job, i, FRAME_ALL, &x->all);
    return fence_done(pr, job, &x->all);
}

int exchange_fence(struct pmirun *pr, struct job *job)
{
    struct exchange *x = job->exchange;

    x->inside = true;
    if (x->me > 0)
        send_frame(pr, job, 0, FRAME_GATHER, &x->puts);
    else if (x->n_here + 1 == x->n_members)
        return all_here(pr, job);
    return PMIWIRE_PENDING;
}

bool exchange_frame(struct pmirun *pr, struct job *job, uint32_t from, const void *p, size_t n)
{
    struct msg_in in = {p, n, false};
    uint32_t type = get_u32(&in), fence = get_u32(&in);
    struct exchange *x = job->exchange;
    struct msg all = {0};
    int err;

    if (in.bad || !x || fence != x->fence)
        return false;
    if (type == FRAME_GATHER && x->me == 0) {
        msg_bytes(&x->all, in.p, in.left);
        if (++x->n_here + 1 == x->n_members && x->inside)
            pmiwire_server_fence_done(pr->server, job->id, all_here(pr, job));
        return true;
    }
    if (type != FRAME_ALL || from != x->members[0] || !x->inside)
        return false;
    msg_bytes(&all, in.p, in.left);
    err = fence_done(pr, job, &all);
    msg_free(&all);
    pmiwire_server_fence_done(pr->server, job->id, err);
    return true;
}
