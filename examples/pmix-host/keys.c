/* SPDX-License-Identifier: BSD-3-Clause */
/* Describes a namespace for libpmix. */
#define _GNU_SOURCE
#include "keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- an array of pairs ---- */

struct list {
    pmix_info_t *info;
    size_t n, cap;
    bool failed; /* out of memory */
};

/* The next pair's value. Never NULL: after a failure, writes go to a dummy. */
static pmix_value_t *info_add(struct list *l, const char *key, pmix_data_type_t type)
{
    static pmix_info_t nowhere;
    pmix_info_t *info = &nowhere;

    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 16;
        pmix_info_t *more = realloc(l->info, cap * sizeof(*more));

        if (more) {
            l->info = more;
            l->cap = cap;
        }
    }
    if (l->n < l->cap)
        info = &l->info[l->n++];
    else
        l->failed = true;
    memset(info, 0, sizeof(*info));
    snprintf(info->key, sizeof(info->key), "%s", key);
    info->value.type = type;
    return &info->value;
}

static void add_u32(struct list *l, const char *key, uint32_t v)
{
    info_add(l, key, PMIX_UINT32)->data.uint32 = v;
}

static void add_u16(struct list *l, const char *key, uint32_t v)
{
    info_add(l, key, PMIX_UINT16)->data.uint16 = v > UINT16_MAX ? UINT16_MAX : (uint16_t)v;
}

static void add_rank(struct list *l, const char *key, uint32_t v)
{
    info_add(l, key, PMIX_PROC_RANK)->data.rank = v;
}

static void add_bool(struct list *l, const char *key, bool v)
{
    info_add(l, key, PMIX_BOOL)->data.flag = v;
}

/* Takes s, of malloc(). */
static void add_owned(struct list *l, const char *key, char *s)
{
    if (!s || l->failed) {
        l->failed = true;
        free(s);
        return;
    }
    info_add(l, key, PMIX_STRING)->data.string = s;
}

static void add_string(struct list *l, const char *key, const char *s)
{
    add_owned(l, key, strdup(s));
}

/* A map in the form that libpmix takes for an uncompressed list. PMIx_generate_regex() groups names
 * by prefix, which breaks the order that the map of ranks needs. */
static void add_map(struct list *l, const char *key, const char *text)
{
    pmix_value_t *v = info_add(l, key, PMIX_REGEX);
    const size_t size = strlen("raw:") + strlen(text) + 1;

    v->data.bo.bytes = malloc(size);
    if (!v->data.bo.bytes) {
        l->failed = true;
        return;
    }
    v->data.bo.size = size;
    snprintf(v->data.bo.bytes, size, "raw:%s", text);
}

static void free_info(pmix_info_t *info, size_t n);

static void free_value(pmix_value_t *v)
{
    if (v->type == PMIX_STRING)
        free(v->data.string);
    else if (v->type == PMIX_REGEX)
        free(v->data.bo.bytes);
    else if (v->type == PMIX_PROC)
        free(v->data.proc);
    else if (v->type == PMIX_DATA_ARRAY) {
        free_info(v->data.darray->array, v->data.darray->size);
        free(v->data.darray);
    }
}

static void free_info(pmix_info_t *info, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free_value(&info[i].value);
    free(info);
}

/* Takes what is in `inner`. */
static void add_array(struct list *l, const char *key, struct list *inner)
{
    pmix_data_array_t *a = malloc(sizeof(*a));

    l->failed = l->failed || inner->failed || !a;
    if (l->failed) {
        free_info(inner->info, inner->n);
        free(a);
        return;
    }
    *a = (pmix_data_array_t){.type = PMIX_INFO, .size = inner->n, .array = inner->info};
    info_add(l, key, PMIX_DATA_ARRAY)->data.darray = a;
}

/* ---- nodes ---- */

static uint32_t node_of(const struct keys_job *job, uint32_t rank)
{
    return job->node_of ? job->node_of[rank] : job->node;
}

static bool is_first_of_node(const struct keys_job *job, uint32_t rank, uint8_t *seen)
{
    uint32_t node = node_of(job, rank);
    bool first = !seen[node];

    seen[node] = 1;
    return first;
}

static void name_node(const struct keys_job *job, uint32_t node, char *buf, size_t size)
{
    if (node == job->node)
        snprintf(buf, size, "%s", job->host);
    else
        snprintf(buf, size, "node%u", node);
}

/* By node, in the order of each one's first rank; what it says of a node goes to f. */
static char *by_node(const struct keys_job *job, void (*say)(FILE *f, const struct keys_job *job,
                                                             uint32_t node, uint32_t first))
{
    uint8_t *seen = calloc(job->n_nodes ? job->n_nodes : 1, 1);
    char *text = NULL;
    size_t len;
    FILE *f = seen ? open_memstream(&text, &len) : NULL;

    for (uint32_t i = 0; f && i < job->n_ranks; i++)
        if (is_first_of_node(job, i, seen))
            say(f, job, node_of(job, i), i);
    free(seen);
    if (!f || fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static void say_name(FILE *f, const struct keys_job *job, uint32_t node, uint32_t first)
{
    char name[300];

    name_node(job, node, name, sizeof(name));
    fprintf(f, "%s%s", first ? "," : "", name);
}

static void say_ranks(FILE *f, const struct keys_job *job, uint32_t node, uint32_t first)
{
    fprintf(f, "%s%u", first ? ";" : "", first);
    for (uint32_t i = first + 1; i < job->n_ranks; i++)
        if (node_of(job, i) == node)
            fprintf(f, ",%u", i);
}

char *keys_nodes(const struct keys_job *job)
{
    return by_node(job, say_name);
}

char *keys_ranks(const struct keys_job *job)
{
    return by_node(job, say_ranks);
}

/* ---- the description of a job ---- */

/* Where rank `local` of this node is bound. */
static void add_binding(struct list *l, const struct keys_job *job, uint32_t local)
{
    char *text;

    add_owned(l, PMIX_CPUSET, asprintf(&text, "hwloc:%s", job->cpusets[local]) < 0 ? NULL : text);
    if (job->localities[local])
        add_string(l, PMIX_LOCALITY_STRING, job->localities[local]);
}

static int add_maps(struct list *l, const struct keys_job *job)
{
    char *nodes = keys_nodes(job), *ranks = keys_ranks(job);
    const bool have = nodes && ranks;

    if (have) {
        add_map(l, PMIX_NODE_MAP, nodes);
        add_map(l, PMIX_PROC_MAP, ranks);
    }
    free(nodes);
    free(ranks);
    return have ? 0 : -ENOMEM;
}

static void add_parent(struct list *l, const struct keys_job *job)
{
    pmix_proc_t *parent = calloc(1, sizeof(*parent));

    if (!parent) {
        l->failed = true;
        return;
    }
    snprintf(parent->nspace, sizeof(parent->nspace), "%s", job->parent);
    parent->rank = job->parent_rank;
    info_add(l, PMIX_PARENT_ID, PMIX_PROC)->data.proc = parent;
    add_bool(l, PMIX_SPAWNED, true);
}

/* Of the ranks here: how many, the first, and all of them by commas. */
static void add_local(struct list *l, const struct keys_job *job)
{
    uint32_t n = 0, first = 0;
    char *peers = NULL;
    size_t len;
    FILE *f = open_memstream(&peers, &len);

    for (uint32_t i = 0; f && i < job->n_ranks; i++) {
        if (node_of(job, i) != job->node)
            continue;
        fprintf(f, "%s%u", n ? "," : "", i);
        first = n++ ? first : i;
    }
    if (!f || fclose(f) != 0) {
        l->failed = true;
        free(peers);
        return;
    }
    if (n == 0) {
        free(peers);
        return;
    }
    add_owned(l, PMIX_LOCAL_PEERS, peers);
    add_u32(l, PMIX_LOCAL_SIZE, n);
    add_u32(l, PMIX_NODE_SIZE, n + job->n_before);
    add_rank(l, PMIX_LOCALLDR, first);
    add_string(l, PMIX_TMPDIR, job->tmpdir);
    add_string(l, PMIX_NSDIR, job->nsdir);
    add_bool(l, PMIX_TDIR_RMCLEAN, true); /* we remove them */
}

static uint32_t count_nodes(const struct keys_job *job)
{
    uint8_t *seen = calloc(job->n_nodes ? job->n_nodes : 1, 1);
    uint32_t n = 0;

    for (uint32_t i = 0; seen && i < job->n_ranks; i++)
        n += is_first_of_node(job, i, seen);
    free(seen);
    return n;
}

static void add_apps(struct list *l, const struct keys_job *job)
{
    for (uint32_t i = 0, first = 0; i < job->n_apps; first += job->app_procs[i++]) {
        struct list app = {0};

        add_u32(&app, PMIX_APPNUM, i);
        add_u32(&app, PMIX_APP_SIZE, job->app_procs[i]);
        add_rank(&app, PMIX_APPLDR, first);
        add_array(l, PMIX_APP_INFO_ARRAY, &app);
    }
}

static void add_ranks(struct list *l, const struct keys_job *job, uint32_t *n_on)
{
    for (uint32_t app = 0, rank = 0; app < job->n_apps; app++) {
        for (uint32_t i = 0; i < job->app_procs[app]; i++, rank++) {
            uint32_t node = node_of(job, rank), local = n_on[node]++;
            struct list proc = {0};
            char name[300], *dir;

            name_node(job, node, name, sizeof(name));
            add_rank(&proc, PMIX_RANK, rank);
            add_u32(&proc, PMIX_APPNUM, app);
            add_rank(&proc, PMIX_APP_RANK, i);
            add_rank(&proc, PMIX_GLOBAL_RANK, rank);
            add_u16(&proc, PMIX_LOCAL_RANK, local);
            add_u16(&proc, PMIX_NODE_RANK, local + (node == job->node ? job->n_before : 0));
            add_u32(&proc, PMIX_NODEID, node);
            add_string(&proc, PMIX_HOSTNAME, name);
            if (node == job->node)
                add_owned(&proc, PMIX_PROCDIR,
                          asprintf(&dir, "%s/%u", job->nsdir, rank) < 0 ? NULL : dir);
            if (node == job->node && job->cpusets)
                add_binding(&proc, job, local);
            add_array(l, PMIX_PROC_INFO_ARRAY, &proc);
        }
    }
}

int keys_make(struct keys *k, const struct keys_job *job)
{
    uint32_t *n_on = calloc(job->n_nodes ? job->n_nodes : 1, sizeof(*n_on));
    struct list l = {.failed = !n_on};
    int rc;

    add_string(&l, PMIX_JOBID, job->nspace);
    add_u32(&l, PMIX_JOB_SIZE, job->n_ranks);
    add_u32(&l, PMIX_MAX_PROCS, job->n_ranks);
    add_u32(&l, PMIX_UNIV_SIZE, job->universe);
    add_u32(&l, PMIX_JOB_NUM_APPS, job->n_apps);
    add_u32(&l, PMIX_NUM_NODES, count_nodes(job));
    if (job->anl_map)
        add_string(&l, PMIX_ANL_MAP, job->anl_map);
    if (job->parent)
        add_parent(&l, job);
    rc = add_maps(&l, job);
    add_local(&l, job);
    add_apps(&l, job);
    if (n_on)
        add_ranks(&l, job, n_on);
    free(n_on);
    k->info = l.info;
    k->n = l.n;
    return l.failed ? -ENOMEM : rc;
}

void keys_free(struct keys *k)
{
    free_info(k->info, k->n);
    *k = (struct keys){0};
}

/* ---- which of it clients need ---- */

#define OMPI4 "Open MPI 4"
#define OMPI5 "Open MPI 5"
#define MPICH "MPICH"

enum where { OF_JOB, OF_SPAWNED, OF_NODE, OF_RANK, OF_LOCAL };

static const struct {
    const char *key;
    enum where where; /* OF_NODE: of a job that has ranks here; OF_LOCAL: of a rank that is */
    const char *who;
} needed[] = {
    {PMIX_JOB_SIZE, OF_JOB, OMPI4 ", " OMPI5 " and " MPICH},
    {PMIX_NODE_MAP, OF_JOB, OMPI4 " and " OMPI5},
    {PMIX_PROC_MAP, OF_JOB, OMPI4 " and " OMPI5},
    {PMIX_ANL_MAP, OF_JOB, MPICH},
    {PMIX_UNIV_SIZE, OF_JOB, OMPI4 ", " OMPI5 " and " MPICH},
    {PMIX_MAX_PROCS, OF_JOB, OMPI4},
    {PMIX_JOB_NUM_APPS, OF_JOB, OMPI4 " and " OMPI5},
    {PMIX_NUM_NODES, OF_JOB, OMPI4 " and " OMPI5},
    {PMIX_PARENT_ID, OF_SPAWNED, OMPI5 " and " MPICH},
    {PMIX_SPAWNED, OF_SPAWNED, OMPI4},
    {PMIX_LOCAL_SIZE, OF_NODE, OMPI4 " and " OMPI5},
    {PMIX_LOCAL_PEERS, OF_NODE, OMPI4 " and " OMPI5},
    {PMIX_LOCALLDR, OF_NODE, OMPI4},
    {PMIX_TMPDIR, OF_NODE, OMPI4 " and " OMPI5},
    {PMIX_NSDIR, OF_NODE, OMPI4 " and " OMPI5},
    {PMIX_RANK, OF_RANK, "libpmix"},
    {PMIX_APPNUM, OF_RANK, OMPI4 ", " OMPI5 " and " MPICH},
    {PMIX_GLOBAL_RANK, OF_RANK, OMPI4},
    {PMIX_LOCAL_RANK, OF_RANK, OMPI4 " and " OMPI5},
    {PMIX_NODE_RANK, OF_RANK, OMPI4 " and " OMPI5},
    {PMIX_NODEID, OF_RANK, OMPI4 " and " OMPI5},
    {PMIX_HOSTNAME, OF_RANK, OMPI4 " and " OMPI5},
    {PMIX_PROCDIR, OF_LOCAL, OMPI4 " and " OMPI5},
};

static bool info_has(const pmix_info_t *info, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(info[i].key, key) == 0)
            return true;
    return false;
}

/* The pairs of a rank; NULL: there are none. */
static const pmix_data_array_t *of_rank(const struct keys *k, uint32_t rank, size_t *from)
{
    for (size_t i = *from; i < k->n; i++) {
        const pmix_data_array_t *a = k->info[i].value.data.darray;
        const pmix_info_t *info;

        if (strcmp(k->info[i].key, PMIX_PROC_INFO_ARRAY) != 0)
            continue;
        info = a->array;
        for (size_t j = 0; j < a->size; j++) {
            if (strcmp(info[j].key, PMIX_RANK) == 0 && info[j].value.data.rank == rank) {
                *from = i; /* ranks stand in their order */
                return a;
            }
        }
    }
    return NULL;
}

static const char *missing_of_rank(const struct keys_job *job, const pmix_data_array_t *a,
                                   uint32_t rank, const char **who)
{
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (needed[i].where < OF_RANK ||
            (needed[i].where == OF_LOCAL && node_of(job, rank) != job->node))
            continue;
        *who = needed[i].who;
        if (!a)
            return PMIX_RANK;
        if (!info_has(a->array, a->size, needed[i].key))
            return needed[i].key;
    }
    return NULL;
}

const char *keys_missing(const struct keys *k, const struct keys_job *job, const char **who,
                         uint32_t *rank)
{
    size_t from = 0;

    *rank = UINT32_MAX;
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (needed[i].where >= OF_RANK || (needed[i].where == OF_SPAWNED && !job->parent) ||
            (needed[i].where == OF_NODE && !job->nsdir))
            continue;
        *who = needed[i].who;
        if (!info_has(k->info, k->n, needed[i].key))
            return needed[i].key;
    }
    for (*rank = 0; *rank < job->n_ranks; ++*rank) {
        const char *key = missing_of_rank(job, of_rank(k, *rank, &from), *rank, who);

        if (key)
            return key;
    }
    return NULL;
}

static void take_out(pmix_info_t *info, size_t *n, const char *key)
{
    for (size_t i = 0; i < *n;) {
        pmix_value_t *v = &info[i].value;

        if (v->type == PMIX_DATA_ARRAY)
            take_out(v->data.darray->array, &v->data.darray->size, key);
        if (strcmp(info[i].key, key) != 0) {
            i++;
            continue;
        }
        free_value(v);
        memmove(&info[i], &info[i + 1], (--*n - i) * sizeof(*info));
    }
}

void keys_remove(struct keys *k, const char *key)
{
    take_out(k->info, &k->n, key);
}
