/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "store.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS  1024u
#define NS_PER_S 1000000000ull

/* What a process or a job has published. */
struct quota {
    struct quota *next;
    uint32_t job, rank; /* a job's: UINT32_MAX */
    uint32_t values, waiting;
    uint64_t bytes;
};

struct value {
    struct value *next; /* of its bucket */
    struct quota *proc, *job;
    uint32_t node, uid;
    uint8_t range, persist;
    char *nspace; /* the key and the bytes follow, in the same block */
    char *key;
    char *p;
    size_t len;
};

struct waiter {
    struct waiter *next;
    struct store_who who;
    struct quota *proc;
    struct names_req req;
    uint64_t id, deadline_ns; /* 0: none */
    uint64_t bytes;
    struct names_value values[];
};

struct store {
    struct store_limits limits;
    store_answer_fn answer;
    void *ctx;
    struct value *buckets[BUCKETS];
    struct quota *quotas[BUCKETS];
    struct waiter *waiters, **waiters_tail;
    uint32_t values;
    uint64_t bytes, waiting_bytes;
};

/* An answer that is being written. */
struct text {
    char *p;
    size_t len, cap;
    bool failed;
};

struct store *store_create(const struct store_limits *limits, store_answer_fn answer, void *ctx)
{
    static const struct store_limits usual = {
        STORE_PROC_VALUES, STORE_JOB_VALUES, STORE_ALL_VALUES, STORE_PROC_WAITING,
        STORE_PROC_BYTES,  STORE_JOB_BYTES,  STORE_ALL_BYTES,  STORE_WAITING_BYTES};
    struct store *st = calloc(1, sizeof(*st));

    if (!st)
        return NULL;
    st->limits = limits ? *limits : usual;
    st->answer = answer;
    st->ctx = ctx;
    st->waiters_tail = &st->waiters;
    return st;
}

/* ---- what a process and a job have ---- */

static struct quota **quota_bucket(struct store *st, uint32_t job, uint32_t rank)
{
    return &st->quotas[(job * 31u + rank) % BUCKETS];
}

static struct quota *quota_find(struct store *st, uint32_t job, uint32_t rank)
{
    struct quota *q = *quota_bucket(st, job, rank);

    while (q && (q->job != job || q->rank != rank))
        q = q->next;
    return q;
}

/* NULL: no memory. */
static struct quota *quota_get(struct store *st, uint32_t job, uint32_t rank)
{
    struct quota *q = quota_find(st, job, rank), **bucket = quota_bucket(st, job, rank);

    if (q)
        return q;
    q = calloc(1, sizeof(*q));
    if (!q)
        return NULL;
    *q = (struct quota){.next = *bucket, .job = job, .rank = rank};
    *bucket = q;
    return q;
}

/* Frees an entry that counts nothing. */
static void quota_release(struct store *st, struct quota *q)
{
    struct quota **p;

    if (!q || q->values || q->waiting)
        return;
    p = quota_bucket(st, q->job, q->rank);
    while (*p != q)
        p = &(*p)->next;
    *p = q->next;
    free(q);
}

/* ---- values ---- */

static struct value **bucket_of(struct store *st, const char *key)
{
    uint32_t h = 2166136261u;

    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 16777619u;
    return &st->buckets[h % BUCKETS];
}

static size_t value_bytes(const struct value *v)
{
    return strlen(v->key) + v->len;
}

/* Frees *p, and takes it out of its bucket. */
static void value_remove(struct store *st, struct value **p)
{
    struct value *v = *p;

    *p = v->next;
    v->proc->values--;
    v->job->values--;
    st->values--;
    v->proc->bytes -= value_bytes(v);
    v->job->bytes -= value_bytes(v);
    st->bytes -= value_bytes(v);
    quota_release(st, v->proc);
    quota_release(st, v->job);
    free(v);
}

static uint8_t range_class(uint8_t range)
{
    return range == NAMES_UNDEF || range == NAMES_GLOBAL ? NAMES_SESSION : range;
}

static bool is_range(uint8_t range)
{
    return range <= NAMES_PROC && range != 1 && range != 6;
}

/* Are a publisher and another process within this range of each other? */
static bool within(uint8_t range, const struct value *v, const struct store_who *who)
{
    switch (range_class(range)) {
    case NAMES_SESSION: return true;
    case NAMES_NSPACE: return v->proc->job == who->job;
    case NAMES_LOCAL: return v->node == who->node;
    default: return v->proc->job == who->job && v->proc->rank == who->rank;
    }
}

/* The value of a key that this process may see; NULL: none. */
static struct value **value_find(struct store *st, const struct store_who *who, uint32_t uid,
                                 uint8_t range, const char *key)
{
    struct value **p = bucket_of(st, key);

    while (*p && (strcmp((*p)->key, key) != 0 || (*p)->uid != uid ||
                  !within((*p)->range, *p, who) || !within(range, *p, who)))
        p = &(*p)->next;
    return *p ? p : NULL;
}

/* Is this key already published in the range where `who` would publish it? */
static bool is_taken(struct store *st, const struct store_who *who, const struct names_req *req,
                     const char *key)
{
    for (const struct value *v = *bucket_of(st, key); v; v = v->next)
        if (strcmp(v->key, key) == 0 && v->uid == req->uid &&
            range_class(v->range) == range_class(req->range) && within(v->range, v, who))
            return true;
    return false;
}

static struct value *value_new(const struct store_who *who, const struct names_req *req,
                               const struct names_value *from)
{
    const size_t nspace = strlen(who->nspace) + 1, key = strlen(from->key) + 1;
    struct value *v = malloc(sizeof(*v) + nspace + key + from->len);

    if (!v)
        return NULL;
    *v = (struct value){.node = who->node,
                        .uid = req->uid,
                        .range = req->range,
                        .persist = req->persist,
                        .len = from->len};
    v->nspace = (char *)(v + 1);
    v->key = v->nspace + nspace;
    v->p = v->key + key;
    memcpy(v->nspace, who->nspace, nspace);
    memcpy(v->key, from->key, key);
    if (from->len)
        memcpy(v->p, from->p, from->len);
    return v;
}

/* ---- publish ---- */

static bool is_beyond(uint32_t values, uint64_t bytes, const struct quota *q, uint32_t max_values,
                      uint64_t max_bytes)
{
    const uint32_t have = q ? q->values : 0;
    const uint64_t have_bytes = q ? q->bytes : 0;

    return values > max_values - have || bytes > max_bytes - have_bytes;
}

/* Checks what a publish asks for, against the limits too. */
static int check_publish(struct store *st, const struct store_who *who, const struct names_req *req)
{
    const struct store_limits *max = &st->limits;
    const struct quota all = {.values = st->values, .bytes = st->bytes};
    uint64_t bytes = 0;

    if (req->persist > NAMES_UNTIL_END)
        return FAR_EINVAL;
    for (uint32_t i = 0; i < req->n_values; i++) {
        bytes += strlen(req->values[i].key) + req->values[i].len;
        if (is_taken(st, who, req, req->values[i].key))
            return FAR_EEXIST;
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(req->values[i].key, req->values[k].key) == 0)
                return FAR_EEXIST;
    }
    if (is_beyond(req->n_values, bytes, quota_find(st, who->job, who->rank), max->proc_values,
                  max->proc_bytes) ||
        is_beyond(req->n_values, bytes, quota_find(st, who->job, UINT32_MAX), max->job_values,
                  max->job_bytes) ||
        is_beyond(req->n_values, bytes, &all, max->all_values, max->all_bytes))
        return FAR_ELIMIT;
    return FAR_OK;
}

static int publish(struct store *st, const struct store_who *who, const struct names_req *req)
{
    struct value *made = NULL;
    struct quota *proc, *job;
    int rc = check_publish(st, who, req);

    if (rc)
        return rc;
    for (uint32_t i = 0; i < req->n_values; i++) {
        struct value *v = value_new(who, req, &req->values[i]);

        rc = v ? rc : FAR_ENOMEM;
        if (!v)
            break;
        v->next = made;
        made = v;
    }
    proc = quota_get(st, who->job, who->rank);
    job = quota_get(st, who->job, UINT32_MAX);
    if (!proc || !job)
        rc = FAR_ENOMEM;
    while (made) {
        struct value *v = made, **bucket = bucket_of(st, v->key);

        made = v->next;
        if (rc) {
            free(v);
            continue;
        }
        v->proc = proc;
        v->job = job;
        proc->values++;
        job->values++;
        st->values++;
        proc->bytes += value_bytes(v);
        job->bytes += value_bytes(v);
        st->bytes += value_bytes(v);
        v->next = *bucket;
        *bucket = v;
    }
    quota_release(st, proc);
    quota_release(st, job);
    return rc;
}

/* ---- lookup ---- */

static void add(struct text *t, const void *p, size_t n)
{
    if (n > t->cap - t->len && !t->failed) {
        const size_t cap = (t->len + n) * 2;
        char *grown = realloc(t->p, cap);

        t->failed = !grown;
        if (grown) {
            t->p = grown;
            t->cap = cap;
        }
    }
    if (t->failed || !n)
        return;
    memcpy(t->p + t->len, p, n);
    t->len += n;
}

static void add_u32(struct text *t, uint32_t v)
{
    const unsigned char b[4] = {(unsigned char)v, (unsigned char)(v >> 8), (unsigned char)(v >> 16),
                                (unsigned char)(v >> 24)};

    add(t, b, sizeof(b));
}

static uint32_t read_u32(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;

    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* A value in an answer: namespace and key, each with its NUL; rank, length; the bytes. */
static void add_value(struct text *t, const struct value *v)
{
    add(t, v->nspace, strlen(v->nspace) + 1);
    add(t, v->key, strlen(v->key) + 1);
    add_u32(t, v->proc->rank);
    add_u32(t, (uint32_t)v->len);
    add(t, v->p, v->len);
}

static const char *next_string(const char **p, size_t *left)
{
    const char *s = *p, *end = *left ? memchr(s, '\0', *left) : NULL;

    if (!end)
        return NULL;
    *left -= (size_t)(end - s) + 1;
    *p = end + 1;
    return s;
}

bool far_names_next(const char **data, size_t *left, struct names_item *item)
{
    const char *p = *data, *nspace, *key;
    size_t n = *left;
    uint32_t len;

    nspace = next_string(&p, &n);
    key = nspace ? next_string(&p, &n) : NULL;
    if (!key || n < 8)
        return false;
    len = read_u32(p + 4);
    if (len > n - 8)
        return false;
    *item = (struct names_item){{nspace, read_u32(p)}, key, p + 8, len};
    *data = p + 8 + len;
    *left = n - 8 - len;
    return true;
}

/* False: too few keys are published yet; no answer was given. */
static bool answer_lookup(struct store *st, const struct store_who *who,
                          const struct names_req *req, uint32_t least, int otherwise, uint64_t id)
{
    struct text t = {0};
    uint32_t found = 0;
    int status;

    for (uint32_t i = 0; i < req->n_values; i++)
        found += value_find(st, who, req->uid, req->range, req->values[i].key) != NULL;
    if (found < least)
        return false;
    for (uint32_t i = 0; i < req->n_values; i++) {
        struct value **p = value_find(st, who, req->uid, req->range, req->values[i].key);

        if (!p) /* or found before, by the same key, and gone at first read */
            continue;
        add_value(&t, *p);
        if ((*p)->persist == NAMES_FIRST_READ && !t.failed)
            value_remove(st, p);
    }
    status = t.failed ? FAR_ENOMEM : found ? FAR_OK : otherwise;
    st->answer(st->ctx, id, status, t.p, status == FAR_OK ? t.len : 0);
    free(t.p);
    return true;
}

static void waiter_free(struct store *st, struct waiter **p)
{
    struct waiter *w = *p;

    *p = w->next;
    if (st->waiters_tail == &w->next)
        st->waiters_tail = p;
    st->waiting_bytes -= w->bytes;
    w->proc->waiting--;
    quota_release(st, w->proc);
    free(w);
}

/* FAR_OK: it waits. */
static int wait_for(struct store *st, const struct store_who *who, const struct names_req *req,
                    uint64_t now_ns, uint64_t id)
{
    uint64_t bytes = sizeof(struct waiter) + strlen(who->nspace) + 1;
    struct quota *proc;
    struct waiter *w;
    char *at;

    for (uint32_t i = 0; i < req->n_values; i++)
        bytes += sizeof(struct names_value) + strlen(req->values[i].key) + 1;
    proc = quota_find(st, who->job, who->rank);
    if ((proc && proc->waiting >= st->limits.proc_waiting) || st->limits.proc_waiting == 0 ||
        bytes > st->limits.waiting_bytes - st->waiting_bytes)
        return FAR_ELIMIT;
    proc = quota_get(st, who->job, who->rank);
    w = proc ? malloc(bytes) : NULL;
    if (!w) {
        quota_release(st, proc);
        return FAR_ENOMEM;
    }
    *w = (struct waiter){.who = *who, .proc = proc, .req = *req, .id = id, .bytes = bytes};
    w->deadline_ns = req->timeout_s ? now_ns + req->timeout_s * NS_PER_S : 0;
    w->req.values = w->values;
    at = (char *)&w->values[req->n_values];
    w->who.nspace = strcpy(at, who->nspace);
    at += strlen(at) + 1;
    for (uint32_t i = 0; i < req->n_values; i++) {
        w->values[i] = (struct names_value){strcpy(at, req->values[i].key), NULL, 0};
        at += strlen(at) + 1;
    }
    proc->waiting++;
    st->waiting_bytes += bytes;
    *st->waiters_tail = w;
    st->waiters_tail = &w->next;
    return FAR_OK;
}

static void lookup(struct store *st, const struct store_who *who, const struct names_req *req,
                   uint64_t now_ns, uint64_t id)
{
    const uint32_t wait = req->wait < req->n_values ? req->wait : req->n_values;
    int rc;

    if (answer_lookup(st, who, req, wait, FAR_ENOENT, id))
        return;
    rc = wait_for(st, who, req, now_ns, id);
    if (rc)
        st->answer(st->ctx, id, rc, NULL, 0);
}

/* Something has been published. */
static void wake(struct store *st)
{
    for (struct waiter **p = &st->waiters; *p;) {
        struct waiter *w = *p;

        if (answer_lookup(st, &w->who, &w->req,
                          w->req.wait < w->req.n_values ? w->req.wait : w->req.n_values, FAR_ENOENT,
                          w->id))
            waiter_free(st, p);
        else
            p = &w->next;
    }
}

/* ---- unpublish ---- */

static bool is_asked_for(const struct names_req *req, const struct value *v)
{
    if (req->range != NAMES_UNDEF && range_class(v->range) != range_class(req->range))
        return false;
    for (uint32_t i = 0; i < req->n_values; i++)
        if (strcmp(req->values[i].key, v->key) == 0)
            return true;
    return req->n_values == 0;
}

static int unpublish(struct store *st, const struct store_who *who, const struct names_req *req)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < BUCKETS; i++) {
        for (struct value **p = &st->buckets[i]; *p;) {
            const struct value *v = *p;

            if (v->proc->job != who->job || v->proc->rank != who->rank || !is_asked_for(req, v)) {
                p = &(*p)->next;
                continue;
            }
            value_remove(st, p);
            n++;
        }
    }
    return n || req->n_values == 0 ? FAR_OK : FAR_ENOENT;
}

/* ---- all of them ---- */

static int check(const struct names_req *req)
{
    if (!is_range(req->range))
        return req->range <= NAMES_PROC ? FAR_ENOTSUP : FAR_EINVAL;
    if (req->n_values == 0 && req->what != NAMES_UNPUBLISH)
        return FAR_EINVAL;
    if (req->n_values > STORE_KEYS)
        return FAR_ELIMIT;
    for (uint32_t i = 0; i < req->n_values; i++) {
        const size_t n = strlen(req->values[i].key);

        if (n == 0 || n > STORE_KEY_BYTES)
            return FAR_EINVAL;
    }
    return FAR_OK;
}

void store_request(struct store *st, const struct store_who *who, const struct names_req *req,
                   uint64_t now_ns, uint64_t id)
{
    int rc = check(req);

    if (rc == FAR_OK && req->what == NAMES_LOOKUP) {
        lookup(st, who, req, now_ns, id);
        return;
    }
    if (rc == FAR_OK)
        rc = req->what == NAMES_PUBLISH     ? publish(st, who, req)
             : req->what == NAMES_UNPUBLISH ? unpublish(st, who, req)
                                            : FAR_EINVAL;
    st->answer(st->ctx, id, rc, NULL, 0);
    if (rc == FAR_OK && req->what == NAMES_PUBLISH)
        wake(st);
}

/* rank UINT32_MAX: the whole job. */
static void forget(struct store *st, uint32_t job, uint32_t rank, uint8_t persist)
{
    if (rank != UINT32_MAX && !quota_find(st, job, rank))
        return; /* most have nothing here */
    for (uint32_t i = 0; i < BUCKETS; i++) {
        for (struct value **p = &st->buckets[i]; *p;) {
            const struct value *v = *p;

            if (v->proc->job == job && (rank == UINT32_MAX || v->proc->rank == rank) &&
                v->persist == persist)
                value_remove(st, p);
            else
                p = &(*p)->next;
        }
    }
    for (struct waiter **p = &st->waiters; *p;) {
        struct waiter *w = *p;

        if (w->who.job != job || (rank != UINT32_MAX && w->who.rank != rank)) {
            p = &w->next;
            continue;
        }
        st->answer(st->ctx, w->id, FAR_EGONE, NULL, 0);
        waiter_free(st, p);
    }
}

void store_proc_gone(struct store *st, uint32_t job, uint32_t rank)
{
    forget(st, job, rank, NAMES_UNTIL_PROC);
}

void store_job_gone(struct store *st, uint32_t job)
{
    forget(st, job, UINT32_MAX, NAMES_UNTIL_PROC);
    forget(st, job, UINT32_MAX, NAMES_UNTIL_JOB);
}

void store_tick(struct store *st, uint64_t now_ns)
{
    for (struct waiter **p = &st->waiters; *p;) {
        struct waiter *w = *p;

        if (!w->deadline_ns || now_ns < w->deadline_ns) {
            p = &w->next;
            continue;
        }
        /* what of it is there */
        answer_lookup(st, &w->who, &w->req, 0, FAR_ETIME, w->id);
        waiter_free(st, p);
    }
}

void store_destroy(struct store *st)
{
    if (!st)
        return;
    while (st->waiters)
        waiter_free(st, &st->waiters);
    for (uint32_t i = 0; i < BUCKETS; i++)
        while (st->buckets[i])
            value_remove(st, &st->buckets[i]);
    free(st);
}
