/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gets that wait for their key, in a job whose ranks are all here; where there are several nodes
 * the exchange keeps them.
 *
 * A Get that finds nothing stays here under its key until a put of it, for --get-timeout at most,
 * or until the rank that could put it is gone, that is, has said finalize or has ended: one that
 * names another rank as its source needs that one, any other needs one rank besides its own.
 * Clients say that they want to wait (pmiwire/extension.h); PMI's own get never comes here, so that
 * programs which probe for keys are answered at once.
 */
#include "waiting_gets.h"

#include "exchange.h"
#include "pmirun.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BUCKETS 65536u

/* A Get. A connection has one at most, as its requests are served one after the other. */
struct waiter {
    struct waiter *next; /* in its bucket, or among those that are answered now */
    struct job *job;     /* whose key it is */
    struct conn *conn;
    uint64_t token, since_ns;
    int32_t rank, src; /* that asks, and that it names; -1: of another job, none */
    uint32_t hash;
    size_t len;
    char key[];
};

struct waits {
    uint32_t n_buckets; /* a power of two */
    uint32_t n;         /* waiting */
    struct waiter *buckets[];
};

/* FNV-1a. No more keys are waited for than there are connections. */
static uint32_t hash_of(struct pmiwire_str key)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < key.len; i++)
        h = (h ^ (unsigned char)key.ptr[i]) * 16777619u;
    return h;
}

static struct waiter **bucket_of(struct waits *w, uint32_t hash)
{
    return &w->buckets[hash & (w->n_buckets - 1)];
}

static struct waits *create(const struct job *job)
{
    uint32_t n = 16;
    struct waits *w;

    while (n < job->n_ranks && n < MAX_BUCKETS)
        n *= 2;
    w = calloc(1, sizeof(*w) + n * sizeof(w->buckets[0]));
    if (w)
        w->n_buckets = n;
    return w;
}

/* Out of its bucket: *at points to it. */
static struct waiter *take(struct waiter **at)
{
    struct waiter *g = *at;
    struct waits *w = g->job->waits;

    *at = g->next;
    g->conn->waiter = NULL;
    w->n--;
    return g;
}

/* Answer all of a list, and free it. An answer may have its client's next requests served, which
 * may come here. */
static void answer(struct pmirun *pr, struct waiter *list, int rc, struct pmiwire_str value)
{
    while (list) {
        struct waiter *g = list;

        list = g->next;
        pmiwire_server_get_done(pr->server, g->token, rc, value);
        free(g);
    }
}

/* Is nobody left who could put its key? All ranks of such a job are in job->ranks. */
static bool is_in_vain(const struct waiter *g)
{
    const struct job *job = g->job;

    if (g->src >= 0 && g->src != g->rank)
        return job->ranks[g->src].gone;
    return job->n_gone + (g->rank >= 0) >= job->n_ranks;
}

/* Answer those that wait in vain, and those that have waited since `since_ns` or longer. */
static void give_up(struct pmirun *pr, struct waits *w, uint64_t since_ns, int rc)
{
    struct waiter *list = NULL;

    for (uint32_t i = 0; i < w->n_buckets; i++) {
        struct waiter **at = &w->buckets[i];

        while (*at) {
            struct waiter *g = *at;

            if (g->since_ns > since_ns && !is_in_vain(g)) {
                at = &g->next;
                continue;
            }
            take(at);
            g->next = list;
            list = g;
        }
    }
    answer(pr, list, rc, pmiwire_strz(NULL));
}

int wait_begin(struct pmirun *pr, struct job *job, const struct pmiwire_peer *who, int32_t src,
               struct pmiwire_str key, uint64_t token)
{
    const struct waiter probe = {
        .job = job, .rank = who->job == job->id ? who->rank : -1, .src = src};
    struct waiter *g, **at;

    if (is_in_vain(&probe))
        return PMIWIRE_ENOENT;
    if (!job->waits)
        job->waits = create(job);
    g = job->waits ? malloc(sizeof(*g) + key.len) : NULL;
    if (!g)
        return -ENOMEM;
    *g = probe;
    g->conn = who->cookie;
    g->token = token;
    g->since_ns = pr->now_ns;
    g->hash = hash_of(key);
    g->len = key.len;
    memcpy(g->key, key.ptr, key.len);
    at = bucket_of(job->waits, g->hash);
    g->next = *at;
    *at = g;
    g->conn->waiter = g;
    job->waits->n++;
    return PMIWIRE_PENDING;
}

void wait_put(struct pmirun *pr, struct job *job, struct pmiwire_str key, struct pmiwire_str value)
{
    struct waiter **at, *list = NULL, **tail = &list;
    uint32_t hash;

    if (!job->waits || job->waits->n == 0)
        return;
    hash = hash_of(key);
    at = bucket_of(job->waits, hash);
    while (*at) {
        struct waiter *g = *at;

        if (g->hash != hash || g->len != key.len || memcmp(g->key, key.ptr, key.len) != 0) {
            at = &g->next;
            continue;
        }
        take(at);
        g->next = NULL;
        *tail = g;
        tail = &g->next;
    }
    answer(pr, list, 0, value);
}

void wait_rank_gone(struct pmirun *pr, struct rank *r)
{
    struct job *job = r->job;

    if (r->gone)
        return;
    r->gone = true;
    job->n_gone++;
    if (job->exchange)
        exchange_gone(job, (int32_t)r->number);
    if (job->waits && job->waits->n)
        give_up(pr, job->waits, 0, PMIWIRE_ENOENT);
}

/* Ranks of other jobs may wait. */
void wait_job_ended(struct pmirun *pr, struct job *job)
{
    if (job->waits)
        give_up(pr, job->waits, UINT64_MAX, PMIWIRE_ENOENT);
    wait_destroy(job);
}

void wait_conn_closed(struct conn *c)
{
    struct waiter *g = c->waiter, **at;

    if (!g)
        return;
    at = bucket_of(g->job->waits, g->hash);
    while (*at != g)
        at = &(*at)->next;
    free(take(at));
}

void wait_tick(struct pmirun *pr)
{
    const uint64_t limit = (uint64_t)(pr->opt.get_s * 1e9);

    for (struct job *job = pr->jobs; job; job = job->next) {
        if (job->exchange)
            exchange_tick(job);
        if (job->waits && job->waits->n && limit && pr->now_ns > limit)
            give_up(pr, job->waits, pr->now_ns - limit, PMIWIRE_ETIME);
    }
}

void wait_destroy(struct job *job)
{
    struct waits *w = job->waits;

    for (uint32_t i = 0; w && i < w->n_buckets; i++)
        while (w->buckets[i])
            free(take(&w->buckets[i]));
    free(w);
    job->waits = NULL;
}
