/* SPDX-License-Identifier: BSD-3-Clause */
/* The server engine: life cycle, statistics. */
#include <errno.h>
#include <string.h>

#include "server_internal.h"

/* ---- memory ---- */

void *pmiwire__realloc(struct pmiwire_server *s, void *p, size_t bytes)
{
    return s->mem.a.realloc(s->mem.a.ctx, p, bytes ? bytes : 1);
}

void *pmiwire__alloc(struct pmiwire_server *s, size_t bytes)
{
    void *p = pmiwire__realloc(s, NULL, bytes);

    if (p)
        memset(p, 0, bytes);
    return p;
}

void pmiwire__free(struct pmiwire_server *s, void *p)
{
    if (p)
        s->mem.a.free(s->mem.a.ctx, p);
}

char *pmiwire__scratch(struct pmiwire_server *s, size_t bytes)
{
    char *p;

    if (bytes <= s->cap_scratch)
        return s->scratch;
    p = pmiwire__realloc(s, NULL, bytes);
    if (!p)
        return NULL;
    pmiwire__free(s, s->scratch);
    s->scratch = p;
    s->cap_scratch = bytes;
    return p;
}

/* ---- life cycle ---- */

size_t pmiwire__put_bytes(const struct pmiwire_server_opts *o)
{
    return 3 * ((size_t)o->keylen_max + o->vallen_max) + o->kvsname_max + PMIWIRE__PUT_ROOM;
}

/* Room for the answers to all Gets that a client of ours pipelines, every byte of the values
 * encoded. */
static size_t out_bytes(const struct pmiwire_server_opts *o)
{
    return 64 * (3 * (size_t)o->vallen_max + 512);
}

static int server_opts_take(struct pmiwire_server *s, const struct pmiwire_server_opts *opts)
{
    struct pmiwire_server_opts *o = &s->opts;

    if (pmiwire__opts_take(o, opts, sizeof(*o)) != 0)
        return -EINVAL;
    if (pmiwire__opts_take(&s->ops, o->ops, sizeof(s->ops)) != 0)
        return -EINVAL;
    o->ops = NULL;
    if (pmiwire__allocator_take(&s->mem.a, o->allocator) != 0)
        return -EINVAL;
    s->mem.max = SIZE_MAX;
    o->allocator = NULL;
    if ((o->flags & ~PMIWIRE_SERVER_PMI_1_2) || (o->decode_flags & ~PMIWIRE_DECODE_VALUE_TO_EOL))
        return -EINVAL;
    if (!s->ops.put != !s->ops.find || (s->ops.put && s->ops.send && !s->ops.merge) ||
        (s->ops.merge && !s->ops.put))
        return -EINVAL;
    if (!o->kvsname_max)
        o->kvsname_max = PMIWIRE_DEFAULT_KVSNAME_MAX;
    if (!o->keylen_max)
        o->keylen_max = PMIWIRE_DEFAULT_KEYLEN_MAX;
    if (!o->vallen_max)
        o->vallen_max = PMIWIRE_DEFAULT_VALLEN_MAX;
    if (!o->max_msg_bytes)
        o->max_msg_bytes = pmiwire__put_bytes(o) > PMIWIRE_DEFAULT_MAX_MSG_BYTES
                               ? pmiwire__put_bytes(o)
                               : PMIWIRE_DEFAULT_MAX_MSG_BYTES;
    if (!o->max_fields)
        o->max_fields = PMIWIRE_DEFAULT_MAX_FIELDS;
    if (!o->max_out_bytes)
        o->max_out_bytes = out_bytes(o) > PMIWIRE_DEFAULT_MAX_OUT_BYTES
                               ? out_bytes(o)
                               : PMIWIRE_DEFAULT_MAX_OUT_BYTES;
    if (!o->max_spawn_bytes)
        o->max_spawn_bytes = PMIWIRE_DEFAULT_MAX_SPAWN_BYTES;
    if (!o->max_kvs_bytes)
        o->max_kvs_bytes = PMIWIRE_DEFAULT_MAX_KVS_BYTES;
    if (o->kvsname_max < 2 || o->keylen_max < 2 || o->vallen_max < 2 ||
        o->kvsname_max > INT32_MAX || o->keylen_max > INT32_MAX || o->vallen_max > INT32_MAX ||
        o->max_msg_bytes > SIZE_MAX / 4)
        return -EINVAL;
    return 0;
}

int pmiwire_server_create(const struct pmiwire_server_opts *opts, struct pmiwire_server **out)
{
    struct pmiwire_server probe, *s;
    int rc;

    memset(&probe, 0, sizeof(probe));
    rc = out ? server_opts_take(&probe, opts) : -EINVAL;
    if (rc != 0)
        return rc;
    s = pmiwire__alloc(&probe, sizeof(*s));
    if (!s)
        return -ENOMEM;
    *s = probe;
    s->cap_fields =
        s->opts.max_fields < PMIWIRE_USUAL_FIELDS ? s->opts.max_fields : PMIWIRE_USUAL_FIELDS;
    s->fields = pmiwire__alloc(s, s->cap_fields * sizeof(*s->fields));
    if (!s->fields) {
        pmiwire__free(&probe, s);
        return -ENOMEM;
    }
    s->v2_mpich = pmiwire_profile_find("mpich-main");
    s->v2_slurm = pmiwire_profile_find("slurm-libpmi2");
    s->ours = *pmiwire_profile_find("fencepost");
    s->ours.max_key_bytes = s->ours.max_value_bytes = 0;
    s->ours.max_line_bytes = s->ours.max_msg_bytes = 0;
    s->ours.flags |= PMIWIRE_PEER_RAW_V2 | PMIWIRE_PEER_EMPTY; /* our own codec reads such values */
    s->free_slot = UINT32_MAX;
    pmiwire__kvs_init(&s->job_names, &s->mem.a);
    pmiwire__kvs_init(&s->names, &s->mem.a);
    pmiwire__link_init(&s->conns);
    pmiwire__link_init(&s->work);
    pmiwire__link_init(&s->closed_conns);
    pmiwire__link_init(&s->removed_jobs);
    *out = s;
    return 0;
}

void pmiwire_server_destroy(struct pmiwire_server *s)
{
    static const struct pmiwire_server_ops no_ops;

    if (!s)
        return;
    s->ops = no_ops;
    s->ending = true;
    while (pmiwire__linked(&s->conns))
        pmiwire_conn_close(PMIWIRE__OF(struct pmiwire_conn, all, s->conns.next));
    for (uint32_t i = 0; i < s->n_jobs; i++)
        if (s->jobs[i])
            pmiwire__job_free(s->jobs[i]);
    pmiwire__free(s, s->jobs);
    pmiwire__kvs_fini(&s->job_names);
    pmiwire__kvs_fini(&s->names);
    pmiwire__free(s, s->slots);
    pmiwire__free(s, s->fields);
    pmiwire__free(s, s->scratch);
    pmiwire__buf_free(&s->mem, &s->value);
    {
        struct pmiwire_allocator a = s->mem.a;

        a.free(a.ctx, s);
    }
}

/* ---- statistics ---- */

void pmiwire_server_stats(const struct pmiwire_server *s, struct pmiwire_stats_server *stats)
{
    *stats = s->stats;
    stats->kvs_bytes = s->names.bytes;
    for (uint32_t i = 0; i < s->n_jobs; i++)
        if (s->jobs[i])
            stats->kvs_bytes +=
                s->jobs[i]->kvs.bytes + s->jobs[i]->attrs.bytes + s->jobs[i]->nodeattrs.bytes;
}
