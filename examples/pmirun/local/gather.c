/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allgathers in shared memory. The server engine collects the values; here they become an array
 * with one place a rank, as wide as the longest of them. Ranks map it and read it in place; Gets of
 * `-allgather-K-R` (pmiwire/extension.h) are answered from it. One array at a time is enough:
 * before values of the next Allgather arrive, each rank has learnt where the last array lies.
 */
#include "gather.h"

#include "job.h"
#include "pmi.h"
#include "table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pmiwire/exchange.h>
#include <shmht.h>

#define PREFIX "-allgather-"

struct gather {
    uint32_t number;           /* of the last one */
    uint32_t n_arrays;         /* published */
    struct shmht_array *array; /* of the last one; NULL: its values are pairs, or the engine's */
    bool advertised;
    char name[SHMHT_MAX_NAME_BYTES]; /* --pmi-port: of the array, while it has one */
};

void gather_destroy(struct job *job)
{
    if (!job->gather)
        return;
    shmht_array_destroy(job->gather->array);
    free(job->gather);
    job->gather = NULL;
}

int gather_find(const struct job *job, struct pmiwire_str key, struct pmiwire_str *value)
{
    const struct gather *g = job->gather;
    struct shmht_bytes v;
    uint32_t k, r;

    if (!g || !g->array || pmiwire_gather_key(key, &k, &r) != 0 || k != g->number ||
        shmht_array_get(g->array, r, &v) != 0)
        return -1;
    *value = (struct pmiwire_str){v.ptr, strnlen(v.ptr, v.len)};
    return 0;
}

void gather_settled(struct job *job)
{
    struct gather *g = job->gather;

    if (!g || !g->advertised)
        return;
    pmi_send_answers(job); /* its descriptor goes with the answers that name it */
    if (g->name[0])
        unlink(g->name);
    g->name[0] = '\0';
    pmiwire_server_advertise(job->server, job->id, PMIWIRE_EXT_ARRAY, pmiwire_strz(NULL));
    g->advertised = false;
}

/* Makes the array, without values. 0, or an error. */
static int make_array(struct gather *g, const struct job *job, uint32_t longest)
{
    const struct options *opt = job->jobs->opt;
    struct shmht_array_opts opts = {
        .size = sizeof(opts), .n_ranks = job->n_ranks, .stride_bytes = longest + 1};
    char name[SHMHT_MAX_NAME_BYTES];
    int rc;

    opts.generation = g->number + 1u;
    if (opt->use_port) {
        rc = table_new_name(job, name);
        if (rc)
            return rc;
        opts.name = name;
        opts.flags = SHMHT_NAMED;
    }
    if (opts.n_ranks * opts.stride_bytes > opt->shm_max_bytes)
        return SHMHT_EFULL;
    return shmht_array_create(&opts, &g->array, NULL);
}

/* The values of an Allgather begin to arrive. */
static void gather_begin(struct job *job, uint32_t number, uint32_t longest)
{
    struct gather *g = job->gather;
    int rc;

    if (g && g->number == number)
        return;
    if (!g)
        g = job->gather = xzalloc(sizeof(*g));
    gather_settled(job);
    shmht_array_destroy(g->array);
    g->array = NULL;
    g->number = number;
    rc = make_array(g, job, longest);
    if (rc != 0)
        log_verbose("an Allgather without shared memory: %s", table_why(rc));
}

static int gather_add_value(struct job *job, uint32_t rank, struct pmiwire_str value);

/* The array holds C strings. If a value has a NUL, all values become pairs instead. */
static int leave_array(struct job *job)
{
    struct shmht_array *array = job->gather->array;
    struct shmht_bytes v;
    int rc = 0;

    job->gather->array = NULL;
    for (uint32_t r = 0; rc == 0 && r < job->n_ranks; r++)
        if (shmht_array_get(array, r, &v) == 0)
            rc = gather_add_value(job, r, (struct pmiwire_str){v.ptr, strnlen(v.ptr, v.len)});
    shmht_array_destroy(array);
    return rc;
}

static int gather_add_value(struct job *job, uint32_t rank, struct pmiwire_str value)
{
    struct gather *g = job->gather;
    char key[64];
    int rc;

    if (g->array && memchr(value.ptr, 0, value.len) && (rc = leave_array(job)) != 0)
        return rc;
    if (g->array)
        return shmht_array_put(g->array, rank, value.ptr, value.len) == 0 ? 0 : PMIWIRE_EPROTO;
    snprintf(key, sizeof(key), PREFIX "%u-%u", g->number, rank);
    return table_put(job, pmiwire_strz(key), value);
}

/* 0, or an error; 1: no room for pairs, the engine keeps this block's values. */
static int add_all(struct job *job, const void *block, size_t bytes)
{
    struct pmiwire_keyval pair;
    size_t pos = 0;
    int rc;

    while ((rc = pmiwire_block_next(block, bytes, &pos, &pair)) == 1) {
        uint32_t rank;

        if (pair.key.len != sizeof(rank))
            return PMIWIRE_EPROTO;
        memcpy(&rank, pair.key.ptr, sizeof(rank));
        rc = gather_add_value(job, rank, pair.value);
        if (rc != 0)
            return rc == -ENOMEM ? 1 : rc;
    }
    return rc;
}

/* All values have arrived: advertises the array. A rank that misses this asks the server. */
static void gather_advertise(struct job *job)
{
    struct gather *g = job->gather;
    struct shmht_desc desc;

    if (!g->array || shmht_array_share(g->array, &desc) < 0)
        return;
    g->n_arrays++;
    g->advertised = true;
    (void)shared_advertise(job, PMIWIRE_EXT_ARRAY, &desc, g->name);
}

int gather_on_values(void *ctx, const struct pmiwire_peer *peer, uint32_t number, uint32_t longest,
                     const void *block, size_t bytes)
{
    struct job *job = peer->job_cookie;

    gather_begin(job, number, longest);
    if (block)
        return add_all(job, block, bytes);
    gather_advertise(job);
    return 0;
}

int gather_fd(const struct job *job, uint32_t *n_arrays)
{
    const struct gather *g = job->gather;

    *n_arrays = g ? g->n_arrays : 0;
    return g && g->advertised ? shmht_array_share(g->array, NULL) : -1;
}
