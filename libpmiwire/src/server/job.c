/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs: life cycle, stores, advertised values. */
#include <errno.h>
#include <string.h>

#include "server_internal.h"

/* ---- jobs ---- */

struct pmiwire__job *pmiwire__job(const struct pmiwire_server *s, uint32_t number)
{
    return number < s->n_jobs ? s->jobs[number] : NULL;
}

struct pmiwire__job *pmiwire__job_named(struct pmiwire_server *s, struct pmiwire_str name)
{
    const struct pmiwire__entry *e = pmiwire__kvs_find(&s->job_names, name);
    uint32_t number;

    if (!e)
        return NULL;
    memcpy(&number, pmiwire__entry_value(e).ptr, sizeof(number));
    return pmiwire__job(s, number);
}

struct pmiwire_conn *pmiwire__conn_of(const struct pmiwire__job *j, int32_t rank)
{
    const uint32_t i = pmiwire__local_index(j, rank);

    return i == PMIWIRE__NOT_HERE ? NULL : j->conns[i];
}

void pmiwire__job_peer(const struct pmiwire__job *j, struct pmiwire_peer *who)
{
    *who = (struct pmiwire_peer){
        .job = j->number, .rank = PMIWIRE_RANK_UNKNOWN, .job_cookie = j->cookie};
}

void pmiwire__job_free(struct pmiwire__job *j)
{
    struct pmiwire_server *s = j->s;

    pmiwire_exchange_destroy(j->x);
    pmiwire__groups_free(j);
    pmiwire__gathered_free(j);
    pmiwire__kvs_fini(&j->kvs);
    pmiwire__kvs_fini(&j->attrs);
    pmiwire__kvs_fini(&j->nodeattrs);
    pmiwire__free(s, j->appnum);
    pmiwire__free(s, j->node_of);
    pmiwire__free(s, j->nodes);
    pmiwire__free(s, j->node_ranks);
    pmiwire__free(s, j->locals);
    pmiwire__free(s, j->gone);
    pmiwire__free(s, j->conns);
    pmiwire__free(s, j->kvsname);
    pmiwire__free(s, j->spawner);
    for (size_t i = 0; i < PMIWIRE_EXT_COUNT_; i++)
        pmiwire__free(s, j->ext[i]);
    pmiwire__free(s, j);
}

/* Every client gets the job id, so every kind of client must be able to read it. */
static int check_name(const char *name, uint32_t max)
{
    if (!name || !name[0])
        return -EINVAL;
    if (!pmiwire__is_plain(pmiwire_strz(name)))
        return PMIWIRE_ECHARS;
    return strlen(name) < max ? 0 : -EINVAL;
}

static void *copy_items(struct pmiwire_server *s, const void *from, size_t n, size_t bytes)
{
    void *copy = n <= SIZE_MAX / bytes ? pmiwire__realloc(s, NULL, n * bytes) : NULL;

    if (copy)
        memcpy(copy, from, n * bytes);
    return copy;
}

static int fill_job(struct pmiwire_server *s, struct pmiwire__job *j,
                    const struct pmiwire_job_opts *o)
{
    j->cookie = o->cookie;
    j->n_ranks = o->n_ranks;
    j->universe_size = o->universe_size;
    j->debugged = o->debugged;
    pmiwire__kvs_init(&j->kvs, &s->mem.a);
    pmiwire__kvs_init(&j->attrs, &s->mem.a);
    pmiwire__kvs_init(&j->nodeattrs, &s->mem.a);
    pmiwire__kvs_init(&j->groups, &s->mem.a);
    pmiwire__link_init(&j->waiting[PMIWIRE_COLL_FENCE]);
    pmiwire__link_init(&j->waiting[PMIWIRE_COLL_ALLGATHER]);
    pmiwire__link_init(&j->group_list);
    pmiwire__link_init(&j->attr_waiters);
    j->kvsname = copy_items(s, o->kvsname, strlen(o->kvsname) + 1, 1);
    if (o->spawner_jobid)
        j->spawner = copy_items(s, o->spawner_jobid, strlen(o->spawner_jobid) + 1, 1);
    if (o->appnum)
        j->appnum = copy_items(s, o->appnum, o->n_ranks, sizeof(*o->appnum));
    if (o->node_of)
        j->node_of = copy_items(s, o->node_of, o->n_ranks, sizeof(*o->node_of));
    if (!j->kvsname || !j->spawner != !o->spawner_jobid || !j->appnum != !o->appnum ||
        !j->node_of != !o->node_of)
        return -ENOMEM;
    j->name = pmiwire_strz(j->kvsname);
    return pmiwire__job_place(j, o);
}

int pmiwire_server_job_add(struct pmiwire_server *s, const struct pmiwire_job_opts *opts,
                           uint32_t *job)
{
    struct pmiwire_job_opts o;
    struct pmiwire__job *j;
    struct pmiwire_str number;
    int rc;

    if (!opts || !job || pmiwire__opts_take(&o, opts, sizeof(o)) != 0)
        return -EINVAL;
    rc = check_name(o.kvsname, s->opts.kvsname_max);
    if (rc == 0 && o.spawner_jobid)
        rc = check_name(o.spawner_jobid, s->opts.kvsname_max);
    if (rc != 0)
        return rc;
    if (o.n_ranks == 0 || o.n_ranks > INT32_MAX)
        return -EINVAL;
    if (pmiwire__job_named(s, pmiwire_strz(o.kvsname)))
        return PMIWIRE_EEXIST;
    if (s->n_jobs == s->cap_jobs) {
        uint32_t cap = s->cap_jobs ? s->cap_jobs * 2 : 4;
        struct pmiwire__job **jobs =
            cap > UINT32_MAX / 4 ? NULL : pmiwire__realloc(s, s->jobs, cap * sizeof(*jobs));

        if (!jobs)
            return -ENOMEM;
        s->jobs = jobs;
        s->cap_jobs = cap;
    }
    j = pmiwire__alloc(s, sizeof(*j));
    if (!j)
        return -ENOMEM;
    j->s = s;
    j->number = s->n_jobs;
    number.ptr = (const char *)&j->number;
    number.len = sizeof(j->number);
    rc = fill_job(s, j, &o);
    if (rc == 0)
        rc = pmiwire__kvs_put(&s->job_names, j->name, number, 0);
    if (rc != 0) {
        pmiwire__job_free(j);
        return rc;
    }
    s->jobs[s->n_jobs++] = j;
    *job = j->number;
    return 0;
}

int pmiwire_server_job_remove(struct pmiwire_server *s, uint32_t job)
{
    struct pmiwire__job *j = pmiwire__job(s, job);

    if (!j)
        return PMIWIRE_ENOENT;
    if (j->n_conns)
        return PMIWIRE_ESTATE;
    pmiwire__enter(s);
    pmiwire__kvs_remove(&s->job_names, j->name);
    pmiwire__kvs_remove_owner(&s->names, job); /* no rank is left to unpublish them */
    s->jobs[job] = NULL;
    j->removed = true;
    (void)pmiwire_exchange_fail(j->x, PMIWIRE_ENOENT, 0); /* Gets from other jobs end with this */
    pmiwire__append(&s->removed_jobs, &j->removed_link);
    pmiwire__leave(s);
    return 0;
}

/* ---- extensions ---- */

/* Returns the bytes that an extension's field takes in an answer. */
static size_t ext_bytes(const struct pmiwire__ext *desc, size_t value_bytes)
{
    return 1 + strlen(desc->name) + 1 + value_bytes;
}

size_t pmiwire__ext_bytes(const struct pmiwire__job *j, uint16_t at, uint16_t but)
{
    size_t bytes = 0;

    for (size_t i = 1; j && i < PMIWIRE_EXT_COUNT_; i++) {
        const struct pmiwire__ext *desc = pmiwire__ext_get((uint16_t)i);

        if (j->ext[i] && (desc->at & at) && i != but)
            bytes += ext_bytes(desc, strlen(j->ext[i]));
    }
    return bytes;
}

int pmiwire_server_advertise(struct pmiwire_server *s, uint32_t job, uint16_t ext,
                             struct pmiwire_str value)
{
    const struct pmiwire__ext *desc = pmiwire__ext_get(ext);
    struct pmiwire__job *j = pmiwire__job(s, job);
    char *copy = NULL;
    size_t bytes;

    /* The values of fp-place, fp-left and fp-right differ between clients. */
    if (!desc || !(desc->at & (PMIWIRE__AT_INIT | PMIWIRE__AT_FENCE)) ||
        (ext == PMIWIRE_EXT_BYTES && s->opts.max_msg_bytes < pmiwire__put_bytes(&s->opts)) ||
        (ext >= PMIWIRE_EXT_PLACE && ext <= PMIWIRE_EXT_RIGHT))
        return -EINVAL;
    if (!j)
        return PMIWIRE_ENOENT;
    if (value.ptr) {
        if (value.len == 0)
            return PMIWIRE_EEMPTY;
        bytes = pmiwire__ext_bytes(j, desc->at, 0) + ext_bytes(desc, value.len);
        if (j->ext[ext])
            bytes -= ext_bytes(desc, strlen(j->ext[ext]));
        if (bytes > PMIWIRE_EXT_MAX_BYTES)
            return PMIWIRE_EVALLEN;
        if (!pmiwire__is_plain(value))
            return PMIWIRE_ECHARS;
        copy = pmiwire__alloc(s, value.len + 1);
        if (!copy)
            return -ENOMEM;
        memcpy(copy, value.ptr, value.len);
        copy[value.len] = '\0';
    }
    pmiwire__free(s, j->ext[ext]);
    j->ext[ext] = copy;
    return 0;
}

/* ---- stores ---- */

size_t pmiwire__pair_cost(struct pmiwire_str key, struct pmiwire_str value)
{
    return key.len + value.len + PMIWIRE__PAIR_COST;
}

size_t pmiwire__store_cost(const struct pmiwire__kvs *k)
{
    return k->bytes + k->n * PMIWIRE__PAIR_COST;
}

size_t pmiwire__job_bytes(const struct pmiwire__job *j)
{
    return pmiwire__store_cost(&j->kvs) + pmiwire__store_cost(&j->attrs) +
           pmiwire__store_cost(&j->nodeattrs) + j->names_bytes;
}

int pmiwire__store(struct pmiwire_server *s, struct pmiwire__job *job, struct pmiwire__kvs *k,
                   struct pmiwire_str key, struct pmiwire_str value)
{
    size_t have = pmiwire__job_bytes(job), add = pmiwire__pair_cost(key, value);

    if (have + add > s->opts.max_kvs_bytes) {
        /* Near the limit, subtract the old value that this one replaces. */
        const struct pmiwire__entry *old = pmiwire__kvs_find(k, key);

        if (old)
            have -= pmiwire__pair_cost(key, pmiwire__entry_value(old));
        if (have + add > s->opts.max_kvs_bytes) {
            s->limit = "max_kvs_bytes";
            s->limit_bytes = s->opts.max_kvs_bytes;
            return -ENOMEM;
        }
    }
    return pmiwire__kvs_put(k, key, value, job->number);
}

int pmiwire__check_pair(const struct pmiwire_server *s, uint16_t wire, struct pmiwire_str key,
                        struct pmiwire_str value)
{
    if (key.len == 0)
        return PMIWIRE_EEMPTY;
    if (pmiwire__too_long(wire, key.len, s->opts.keylen_max))
        return PMIWIRE_EKEYLEN;
    if (pmiwire__too_long(wire, value.len, s->opts.vallen_max))
        return PMIWIRE_EVALLEN;
    return 0;
}

/* Attributes are for clients of both wires: no NUL and no line end. */
static int check_attr(const struct pmiwire_server *s, struct pmiwire_str key,
                      struct pmiwire_str value)
{
    int rc = pmiwire__check_pair(s, PMIWIRE_V1, key, value);

    if (rc != 0)
        return rc;
    if (value.len == 0)
        return PMIWIRE_EEMPTY;
    if (memchr(key.ptr, 0, key.len) || memchr(value.ptr, 0, value.len) ||
        memchr(key.ptr, '\n', key.len) || memchr(value.ptr, '\n', value.len))
        return PMIWIRE_ECHARS;
    return 0;
}

int pmiwire_server_job_attr(struct pmiwire_server *s, uint32_t job, struct pmiwire_str key,
                            struct pmiwire_str value)
{
    struct pmiwire__job *j = pmiwire__job(s, job);
    int rc = check_attr(s, key, value);

    if (!j)
        return PMIWIRE_ENOENT;
    return rc != 0 ? rc : pmiwire__store(s, j, &j->attrs, key, value);
}

int pmiwire_server_put(struct pmiwire_server *s, uint32_t job, struct pmiwire_str key,
                       struct pmiwire_str value)
{
    struct pmiwire__job *j = pmiwire__job(s, job);
    int rc = pmiwire__check_pair(s, PMIWIRE_V2, key, value); /* the same limits as for a client */

    if (!j)
        return PMIWIRE_ENOENT;
    if (rc == 0 && !s->ops.put)
        rc = pmiwire__forward_reserve(j, key, value);
    if (rc == 0)
        rc = pmiwire__store(s, j, &j->kvs, key, value);
    if (rc != 0 || s->ops.put)
        return rc;
    pmiwire__enter(s);
    rc = pmiwire__forward_put(j, PMIWIRE_RANK_NONE, key, value, PMIWIRE_HINT_DENSE);
    pmiwire__leave(s);
    return rc;
}

int pmiwire_server_get(struct pmiwire_server *s, uint32_t job, struct pmiwire_str key,
                       struct pmiwire_str *value)
{
    struct pmiwire__job *j = pmiwire__job(s, job);
    const struct pmiwire__entry *e = j ? pmiwire__kvs_find(&j->kvs, key) : NULL;

    if (!e)
        return PMIWIRE_ENOENT;
    *value = pmiwire__entry_value(e);
    return 0;
}
