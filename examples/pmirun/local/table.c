/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job's pairs in shared memory, stored once for the node. Ranks with our client read them there;
 * the server answers the others from it. Without shared memory, or when it runs out, the engine's
 * own store takes over.
 *
 * A Fence makes the table large enough for all pairs. Until then only the server finds those that
 * do not fit (SHMHT_DEFER). In a job without Fences MANY_ASKED Gets of such pairs make the table
 * grow too.
 */
#include "table.h"

#include "folder.h"
#include "gather.h"
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

const char *table_why(int rc)
{
    return rc > -4096 ? strerror(-rc) : shmht_strerror(rc);
}

static void table_free(struct table *t)
{
    shmht_writer_destroy(t->writer);
    free(t->text);
    free(t);
}

int shared_advertise(const struct job *job, uint16_t field, const struct shmht_desc *desc,
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

int table_new_name(const struct job *job, char name[SHMHT_MAX_NAME_BYTES])
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
        log_message("cannot create the shared table: %s; ranks get pairs by socket", table_why(rc));
        table_free(t);
        return;
    }
    job->table = t;
}

void table_destroy(struct job *job)
{
    if (job->table)
        table_free(job->table);
    job->table = NULL;
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
                job->number, table_why(rc));
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
