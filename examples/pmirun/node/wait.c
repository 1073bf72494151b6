/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gets that wait for their key, in a job whose ranks are all here; where there are several nodes
 * the exchange keeps them.
 *
 * A Get that finds nothing stays here under its key until a put of it, for --get-timeout at most,
 * or until nobody is left to put it: every rank of the job has said finalize, has ended, or is
 * blocked, in such a Get or in a fence, say. That is looked at when a Get begins, when a rank has
 * finalized or ended, and twice a second. Clients say that they want to wait (pmiwire/extension.h);
 * PMI's own get never comes here, so that programs which probe for keys are answered at once.
 */
#include "wait.h"

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
    uint32_t hash;
    size_t len;
    char key[];
};

struct waits {
    uint32_t n_buckets; /* a power of two */
    uint32_t n;         /* waiting */
    uint32_t n_due;     /* do not any more, and are to be answered */
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

/* The same, of one that is to be answered. */
static struct waiter *take_due(struct waiter **at)
{
    struct waiter *g = take(at);

    g->job->waits->n_due++;
    return g;
}

/* Answer all of a list, and free it. An answer may have its client's next requests served, which
 * may come here. */
static void answer(struct pmirun *pr, struct waiter *list, int rc, struct pmiwire_str value)
{
    while (list) {
        struct waiter *g = list;

        list = g->next;
        g->job->waits->n_due--;
        pmiwire_server_get_done(pr->server, g->token, rc, value);
        free(g);
    }
}

/* Those that have waited since `since_ns` or longer. */
static void give_up(struct pmirun *pr, struct waits *w, uint64_t since_ns, int rc)
{
    struct waiter *list = NULL;

    for (uint32_t i = 0; i < w->n_buckets; i++) {
        struct waiter **at = &w->buckets[i];

        while (*at) {
            struct waiter *g = *at;

            if (g->since_ns > since_ns) {
                at = &g->next;
                continue;
            }
            take_due(at);
            g->next = list;
            list = g;
        }
    }
    answer(pr, list, rc, pmiwire_strz(NULL));
}

bool wait_nobody_left(const struct pmirun *pr, const struct job *job)
{
    uint32_t n_blocked;

    if (job->ended)
        return true;
    /* Who is to be answered is blocked no more. */
    return pmiwire_server_job_waiting(pr->server, job->id, &n_blocked) == 0 &&
           job->n_done + n_blocked >= job->n_local + (job->waits ? job->waits->n_due : 0);
}

static void end_all(struct pmirun *pr, struct job *job)
{
    if (!job->waits || job->waits->n == 0)
        return;
    trace(pr, "job %u: nobody is left to put what %u Gets wait for", job->number, job->waits->n);
    give_up(pr, job->waits, UINT64_MAX, PMIWIRE_ENOENT);
}

int wait_begin(struct pmirun *pr, struct job *job, const struct pmiwire_peer *who,
               struct pmiwire_str key, uint64_t token)
{
    struct waiter *g, **at;

    if (!job->waits)
        job->waits = create(job);
    g = job->waits ? malloc(sizeof(*g) + key.len) : NULL;
    if (!g)
        return -ENOMEM;
    *g = (struct waiter){.job = job, .conn = who->cookie, .token = token, .since_ns = pr->now_ns};
    g->hash = hash_of(key);
    g->len = key.len;
    memcpy(g->key, key.ptr, key.len);
    at = bucket_of(job->waits, g->hash);
    g->next = *at;
    *at = g;
    g->conn->waiter = g;
    job->waits->n++;
    if (wait_nobody_left(pr, job)) /* this was the last one who could have */
        end_all(pr, job);
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
        take_due(at);
        g->next = NULL;
        *tail = g;
        tail = &g->next;
    }
    answer(pr, list, 0, value);
}

void wait_rank_done(struct pmirun *pr, struct job *job)
{
    job->n_done++;
    if (job->waits && job->waits->n && wait_nobody_left(pr, job))
        end_all(pr, job);
}

/* Ranks of other jobs may still wait. */
void wait_job_ended(struct pmirun *pr, struct job *job)
{
    end_all(pr, job);
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
        if (!job->waits || job->waits->n == 0)
            continue;
        if (wait_nobody_left(pr, job))
            end_all(pr, job);
        else if (limit && pr->now_ns > limit)
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
