/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allgathers in shared memory. One is a put of "-allgather-K-R" by each rank R and a fence
 * (pmiwire/extension.h): the values wait here until the fence, which puts them into an array with
 * one place a rank, as wide as the longest of them. Ranks that know how map it; for the others it
 * answers the Gets. There is one at a time: when the next one's fence is complete, every rank has
 * done with the last.
 */
#include "gather.h"

#include "exchange.h"
#include "pmirun.h"
#include "shmname.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <shmht.h>

#define PREFIX "-allgather-"

struct gather {
    uint32_t n_ranks;
    uint32_t number;   /* of the next one */
    uint32_t n_arrays; /* published */
    uint32_t n_here;   /* values that have come for the next one */
    size_t longest;
    char **values;             /* by rank, NULL: has not come */
    struct shmht_array *array; /* of the last one */
    bool advertised;
    char name[SHMHT_MAX_NAME_BYTES]; /* --pmi-port: of the array, while it has one */
};

void gather_create(struct pmirun *pr, struct job *job)
{
    struct gather *g;

    if (pr->opt.no_shm)
        return;
    g = calloc(1, sizeof(*g));
    if (g)
        g->values = calloc(job->n_ranks, sizeof(*g->values));
    if (!g || !g->values) {
        free(g); /* pairs, then */
        return;
    }
    g->n_ranks = job->n_ranks;
    job->gather = g;
}

static void forget_values(struct gather *g)
{
    for (uint32_t i = 0; i < g->n_ranks; i++) {
        free(g->values[i]);
        g->values[i] = NULL;
    }
    g->n_here = 0;
    g->longest = 0;
}

void gather_destroy(struct job *job)
{
    if (!job->gather)
        return;
    forget_values(job->gather);
    shmht_array_destroy(job->gather->array);
    free(job->gather->values);
    free(job->gather);
    job->gather = NULL;
}

/* Digits without a sign or leading zeros, up to `stop`; -1: it is none. */
static int64_t number(struct pmiwire_str *s, char stop)
{
    int64_t v = 0;
    size_t i = 0;

    for (; i < s->len && i < 10 && s->ptr[i] >= '0' && s->ptr[i] <= '9'; i++)
        v = v * 10 + (s->ptr[i] - '0');
    if (i == 0 || (i > 1 && s->ptr[0] == '0') ||
        (stop ? i == s->len || s->ptr[i] != stop : i != s->len))
        return -1;
    s->ptr += i + (stop != 0);
    s->len -= i + (stop != 0);
    return v;
}

/* Of which Allgather and rank is this key? */
static bool parse(struct pmiwire_str key, uint32_t *gather, uint32_t *rank)
{
    const size_t n = strlen(PREFIX);
    int64_t k, r;

    if (key.len < n || memcmp(key.ptr, PREFIX, n) != 0)
        return false;
    key.ptr += n;
    key.len -= n;
    k = number(&key, '-');
    r = k < 0 ? -1 : number(&key, '\0');
    if (r < 0 || k > UINT32_MAX || r > UINT32_MAX)
        return false;
    *gather = (uint32_t)k;
    *rank = (uint32_t)r;
    return true;
}

/* What a rank gave, as a pair like others. */
static int as_pair(struct pmirun *pr, struct job *job, uint32_t rank)
{
    char key[64];

    snprintf(key, sizeof(key), PREFIX "%u-%u", job->gather->number, rank);
    return table_put(pr, job, pmiwire_strz(key), pmiwire_strz(job->gather->values[rank]));
}

bool gather_put(struct job *job, int32_t rank, struct pmiwire_str key, struct pmiwire_str value)
{
    struct gather *g = job->gather;
    uint32_t k, r;
    char *copy;

    if (!g || !parse(key, &k, &r) || k != g->number || r >= g->n_ranks || (int32_t)r != rank ||
        memchr(value.ptr, 0, value.len))
        return false;
    copy = malloc(value.len + 1);
    if (!copy)
        return false;
    memcpy(copy, value.ptr, value.len);
    copy[value.len] = '\0';
    if (g->values[r])
        free(g->values[r]); /* the latest wins */
    else
        g->n_here++;
    g->values[r] = copy;
    if (value.len > g->longest)
        g->longest = value.len;
    return true;
}

int gather_get(const struct job *job, struct pmiwire_str key, struct pmiwire_str *value)
{
    const struct gather *g = job->gather;
    struct shmht_bytes v;
    uint32_t k, r;

    if (!g || !parse(key, &k, &r) || r >= g->n_ranks)
        return -1;
    if (k == g->number && g->values[r]) { /* not fenced yet */
        *value = pmiwire_strz(g->values[r]);
        return 0;
    }
    if (!g->array || k + 1 != g->number || shmht_array_get(g->array, r, &v) != 0)
        return -1;
    *value = (struct pmiwire_str){v.ptr, strnlen(v.ptr, v.len)};
    return 0;
}

/* The array of all values. 0, or why there is none. */
static int make_array(struct gather *g, const struct pmirun *pr, struct shmht_array **array)
{
    struct shmht_array_opts opts = {
        .size = sizeof(opts), .n_ranks = g->n_ranks, .stride_bytes = (uint32_t)g->longest + 1};
    char name[SHM_NAME_BYTES];
    int rc;

    opts.generation = g->number + 1u;
    if (pr->opt.use_port) {
        shm_name(name);
        opts.name = name;
        opts.flags = SHMHT_NAMED;
    }
    if ((uint64_t)opts.n_ranks * opts.stride_bytes > pr->opt.shm_max_bytes)
        return SHMHT_EFULL;
    rc = shmht_array_create(&opts, array, NULL);
    for (uint32_t i = 0; rc == 0 && i < g->n_ranks; i++)
        rc = shmht_array_put(*array, i, g->values[i], strlen(g->values[i]));
    return rc;
}

static int advertise(struct pmirun *pr, const struct job *job, struct shmht_array *array,
                     char *name)
{
    char text[SHMHT_DESC_TEXT_BYTES];
    struct shmht_desc desc;
    ssize_t n;
    int rc = shmht_array_share(array, &desc);

    n = rc < 0 ? rc : shmht_desc_format(&desc, text, sizeof(text));
    if (n < 0)
        return (int)n;
    memcpy(name, desc.name, sizeof(desc.name));
    return pmiwire_server_advertise(pr->server, job->id, PMIWIRE_EXT_ARRAY,
                                    (struct pmiwire_str){text, (size_t)n});
}

/* What came for an Allgather that this fence does not complete are pairs like others. */
static int give_up(struct pmirun *pr, struct job *job)
{
    struct gather *g = job->gather;
    int rc = 0;

    for (uint32_t i = 0; i < g->n_ranks && rc == 0; i++)
        if (g->values[i])
            rc = as_pair(pr, job, i);
    return rc;
}

int gather_on_fence(void *ctx, uint32_t job_id)
{
    struct pmirun *pr = ctx;
    struct job *job = job_by_id(pr, job_id);
    struct gather *g = job ? job->gather : NULL;
    struct shmht_array *array = NULL;
    int rc;

    if (job)
        table_settled(pr, job);
    if (job && job->exchange)
        return exchange_fence(job);
    if (job)
        table_publish(pr, job);
    if (!g)
        return 0;
    if (g->name[0])
        unlink(g->name); /* every rank has opened it: it is here again */
    g->name[0] = '\0';
    if (g->advertised)
        pmiwire_server_advertise(pr->server, job_id, PMIWIRE_EXT_ARRAY, pmiwire_strz(NULL));
    g->advertised = false;
    if (g->n_here == 0)
        return 0;
    rc = g->n_here == g->n_ranks ? make_array(g, pr, &array) : SHMHT_ENOENT;
    if (rc == 0)
        rc = advertise(pr, job, array, g->name);
    if (rc != 0) {
        if (rc != SHMHT_ENOENT)
            trace(pr, "an Allgather without shared memory: %s", table_why(rc));
        shmht_array_destroy(array);
        rc = give_up(pr, job);
    } else {
        shmht_array_destroy(g->array);
        g->array = array;
        g->n_arrays++;
        g->advertised = true;
    }
    forget_values(g);
    g->number++;
    return rc;
}

int gather_fd(const struct job *job, uint32_t *n_arrays)
{
    const struct gather *g = job->gather;

    *n_arrays = g ? g->n_arrays : 0;
    return g && g->advertised ? shmht_array_share(g->array, NULL) : -1;
}
