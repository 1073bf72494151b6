/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job's pairs and Allgathers in shared memory. Pairs are stored once for the node. Ranks with our
 * client read them there; the server answers the others from it. Without shared memory, or when it
 * runs out, the engine's own store takes over.
 *
 * A Fence makes the table large enough for all pairs. Until then only the server finds those that
 * do not fit (SHMHT_DEFER). In a job without Fences MANY_ASKED Gets of such pairs make the table
 * grow too.
 */
#include "table.h"

#include "folder.h"
#include "job.h"
#include "job_end.h"
#include "ompi_binding.h"
#include "pmi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pmiwire/exchange.h>
#include <shmht.h>

#define MANY_ASKED 64u

struct table {
    struct shmht_writer *writer;
    uint32_t n_asked;     /* Gets while pairs were not published */
    uint64_t n_published; /* pairs */
    char *text;           /* a value with the NUL that makes it a string where it lies */
    size_t text_cap;
    bool ended;                      /* no room: later pairs are in the engine's store */
    char name[SHMHT_MAX_NAME_BYTES]; /* --pmi-port: of the object, while it has one */
};

static void table_free(struct table *t)
{
    shmht_writer_destroy(t->writer);
    free(t->text);
    free(t);
}

/* Tells clients by a field where shared memory is; `name` gets its name, if it has one. 0 or an
 * error. */
static int shared_advertise(const struct job *job, uint16_t field, const struct shmht_desc *desc,
                            char name[SHMHT_MAX_NAME_BYTES])
{
    char text[SHMHT_DESC_TEXT_BYTES];
    ssize_t n = shmht_desc_format(desc, text, sizeof(text));

    if (n < 0)
        return (int)n;
    memcpy(name, desc->name, SHMHT_MAX_NAME_BYTES);
    return pmiwire_server_advertise(job->server, job->id, field,
                                    (struct pmiwire_str){text, (size_t)n});
}

/* --pmi-port, where no descriptor can be handed over: a new name in our folder, which its removal
 * takes along (folder.h). 0 or -errno. */
static int table_new_name(const struct job *job, char name[SHMHT_MAX_NAME_BYTES])
{
    const char *folder = folder_get(job->jobs->folders, FOLDER_SHM);

    if (!folder)
        return -errno;
    snprintf(name, SHMHT_MAX_NAME_BYTES, "%s/%08x%08x", folder, random_u32(), random_u32());
    return 0;
}

void table_create(struct job *job)
{
    const struct options *opt = job->jobs->opt;
    struct shmht_writer_opts opts = {.size = sizeof(opts)};
    char name[SHMHT_MAX_NAME_BYTES];
    struct shmht_desc desc;
    struct table *t;
    int rc = 0;

    if (opt->no_shm)
        return;
    opts.max_bytes = opt->shm_max_bytes;
    opts.expected_entries = 2u * (uint64_t)job->n_ranks;
    opts.flags = SHMHT_DEFER;
    if (opt->use_port) { /* no descriptor travels over TCP */
        rc = table_new_name(job, name);
        opts.name = name;
        opts.flags |= SHMHT_NAMED;
    }
    t = xzalloc(sizeof(*t));
    if (rc == 0)
        rc = shmht_writer_create(&opts, &t->writer, NULL);
    if (rc == 0)
        rc = shmht_writer_share(t->writer, &desc);
    if (rc >= 0)
        rc = shared_advertise(job, PMIWIRE_EXT_TABLE, &desc, t->name);
    if (rc != 0) {
        log_message("cannot create the shared table: %s; ranks get pairs by socket",
                    shmht_strerror(rc));
        table_free(t);
        return;
    }
    job->table = t;
}

int table_fd(const struct job *job)
{
    return job->table && !job->table->ended ? shmht_writer_share(job->table->writer, NULL) : -1;
}

/* Out of room. The answer to the next Fence notifies the clients; until then the table is as valid
 * as before. */
static void table_give_up(struct job *job, int rc)
{
    job->table->ended = true;
    pmiwire_server_advertise(job->server, job->id, PMIWIRE_EXT_TABLE, pmiwire_strz(NULL));
    if (pmiwire_server_advertise(job->server, job->id, PMIWIRE_EXT_TABLE_END, pmiwire_strz("1")) !=
        0)
        job_stop(job->jobs, STATUS_RESOURCES); /* else they would read stale values */
    log_message("cannot grow the shared table of job %u: %s; ranks get pairs by socket from now on",
                job->number, shmht_strerror(rc));
}

void table_publish(struct job *job)
{
    struct table *t = job->table;
    struct shmht_stats s;
    int rc;

    if (!t || t->ended)
        return;
    t->n_asked = 0;
    rc = shmht_writer_publish(t->writer);
    shmht_reader_stats(shmht_writer_view(t->writer), &s);
    t->n_published = s.entries;
    if (rc != 0)
        table_give_up(job, rc);
}

/* The value as a C string: shmht hands out pointers to it. */
static int store_pair(struct table *t, struct pmiwire_str key, struct pmiwire_str value)
{
    t->text = xgrow(t->text, &t->text_cap, value.len + 1);
    if (value.len)
        memcpy(t->text, value.ptr, value.len);
    t->text[value.len] = '\0';
    return shmht_put(t->writer, key.ptr, key.len, t->text, value.len + 1);
}

int table_put(struct job *job, struct pmiwire_str key, struct pmiwire_str value)
{
    struct table *t = job->table;
    int rc;

    if (t && !t->ended) {
        rc = store_pair(t, key, value);
        if (rc >= 0)
            return 0;
        table_give_up(job, rc);
    }
    return pmiwire_server_put(job->server, job->id, key, value);
}

/*
 * ---- Allgathers ----
 *
 * The server engine collects the values; here they become an array with one place a rank, as wide
 * as the longest of them. Ranks map it and read it in place; Gets of `-allgather-K-R`
 * (pmiwire/extension.h) are answered from it. One array at a time is enough: before values of the
 * next Allgather arrive, each rank has learnt where the last array lies.
 */

struct gather {
    uint32_t number;           /* of the last one */
    uint32_t n_arrays;         /* published */
    struct shmht_array *array; /* of the last one; NULL: its values are pairs, or the engine's */
    bool advertised;
    char name[SHMHT_MAX_NAME_BYTES]; /* --pmi-port: of the array, while it has one */
};

/* Finds a rank's value by its key. 0, or -1: no value of the last Allgather has this key. */
static int gather_find(const struct job *job, struct pmiwire_str key, struct pmiwire_str *value)
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

/* Each rank knows now where the last Allgather lies. */
static void gather_settled(struct job *job)
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
        log_verbose("an Allgather without shared memory: %s", shmht_strerror(rc));
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
    snprintf(key, sizeof(key), "-allgather-%u-%u", g->number, rank);
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

void table_destroy(struct job *job)
{
    if (job->table)
        table_free(job->table);
    job->table = NULL;
    if (job->gather)
        shmht_array_destroy(job->gather->array);
    free(job->gather);
    job->gather = NULL;
}

/* ---- the server's callbacks ---- */

int table_on_merge(void *ctx, const struct pmiwire_peer *peer, const void *block, size_t bytes)
{
    struct job *job = peer->job_cookie;
    struct table *t = job->table;
    int rc;

    if (t && !t->ended) {
        uint64_t n_pairs = pmiwire_exchange_pairs(pmiwire_server_exchange(job->server, job->id));

        (void)shmht_writer_reserve(t->writer, t->n_published + n_pairs); /* else it grows */
        rc = shmht_writer_merge(t->writer, block, bytes, NULL);
        if (rc == 0)
            return 0;
        table_give_up(job, rc);
    }
    return 1; /* into the engine's store, as Puts, but beyond max_kvs_bytes too */
}

int table_on_put(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str key,
                 struct pmiwire_str value)
{
    const struct conn *c = who->cookie;
    struct job *job = who->job_cookie;

    if (c && c->rank && early_hold(job, (uint32_t)(c->rank - job->ranks), key, value))
        return 0;
    return table_put(job, key, value);
}

int table_on_find(void *ctx, const struct pmiwire_peer *peer, struct pmiwire_str key,
                  struct pmiwire_str *value)
{
    struct job *job = peer->job_cookie;
    struct table *t = job->table;
    struct shmht_bytes found;

    if (gather_find(job, key, value) == 0)
        return 0;
    if ((!t || t->ended) && pmiwire_server_get(job->server, job->id, key, value) == 0)
        return 0;
    if (!t || shmht_writer_get(t->writer, key.ptr, key.len, &found) != 0)
        return PMIWIRE_ENOENT;
    if (shmht_writer_has_unpublished(t->writer) && ++t->n_asked > MANY_ASKED)
        table_publish(job);
    *value = (struct pmiwire_str){found.ptr, found.len - 1};
    return 0;
}

void table_on_fenced(void *ctx, const struct pmiwire_peer *peer)
{
    struct job *job = peer->job_cookie;
    struct table *t = job->table;

    early_release(job);
    table_publish(job);
    gather_settled(job);
    if (!t || !t->name[0])
        return;
    unlink(t->name); /* every rank has opened it; it would outlive a pmirun that is killed */
    t->name[0] = '\0';
    if (!t->ended) /* who connects from now on asks */
        pmiwire_server_advertise(job->server, job->id, PMIWIRE_EXT_TABLE, pmiwire_strz(NULL));
}
