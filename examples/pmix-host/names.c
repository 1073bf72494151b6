/* SPDX-License-Identifier: BSD-3-Clause */
/* Published values, as names of the launcher's name service. */
#define _GNU_SOURCE
#include "names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_BIT   (UINT64_C(1) << 62) /* of the tokens of this file */
#define SLOT_BITS   11u                 /* NAMES_KEYS * RANGES fit */
#define OWNER_BIT   0x80000000u
#define NAME_BYTES  (NAMES_KEY_BYTES + HOST_NSPACE_BYTES + 64u)
#define VALUE_BYTES 14u /* before the namespace: job, rank, node, range, persist */
#define NS_PER_S    UINT64_C(1000000000)

/* The ranges that a rank is in, from the narrowest. */
static const uint8_t ranges[] = {NAMES_PROC, NAMES_NSPACE, NAMES_LOCAL, NAMES_SESSION};
#define RANGES 4u

/* What a rank here has published. */
struct published {
    struct published *next;
    uint64_t id; /* no other on this node has it */
    uint32_t job, rank, uid;
    uint8_t range, persist;
    size_t bytes;
    char key[];
};

/* What was found of a key. */
struct found {
    char *value; /* NULL: nothing */
    size_t len;
    uint32_t range; /* index in `ranges` */
    uint32_t job, rank, node;
    uint8_t persist;
};

/* COUNTS: before ASKS. A publish asks which earlier values are still there. */
enum stage { STAGE_ASKS, STAGE_CLEANS, STAGE_WAITS, STAGE_COUNTS };

/* A request that is not answered. */
struct name_task {
    struct name_task *next;
    uint64_t id;
    const struct names_req *req;
    const struct host_job *job;
    uint32_t rank;
    host_done_fn done;
    void *ctx;
    enum stage stage;
    uint32_t n_out; /* questions without an answer */
    int status;
    bool again, last, gone; /* lookup: ask once more; answer in any case; nobody wants the answer */
    uint64_t deadline_ns;
    struct found *found;    /* lookup: by key */
    struct published *made; /* publish: of all its keys, in their order reversed; not in the list */
    bool *is_made;          /* by key */
    uint64_t *counted;      /* publish: ids of values that it asks for, by slot; NULL: of none */
};

/* ---- names and values ---- */

static uint8_t range_class(uint8_t range)
{
    return range == NAMES_UNDEF || range == NAMES_GLOBAL ? NAMES_SESSION : range;
}

static uint32_t owner_of_rank(uint32_t job, uint32_t rank)
{
    return OWNER_BIT | ((job * 2654435761u + rank) & ~OWNER_BIT);
}

/* The name of a key of this user in a range that this rank is in. No text of a client begins so. */
static struct pmiwire_str name_write(char buf[NAME_BYTES], const struct name_task *t, uint8_t range,
                                     const char *key)
{
    const int head = snprintf(buf, NAME_BYTES, "\1pmix %u ", t->req->uid);
    char *p = buf + head;
    const size_t room = NAME_BYTES - (size_t)head;
    int n;

    switch (range_class(range)) {
    case NAMES_PROC: n = snprintf(p, room, "p%s %u %s", t->job->nspace, t->rank, key); break;
    case NAMES_NSPACE: n = snprintf(p, room, "n%s %s", t->job->nspace, key); break;
    case NAMES_LOCAL: n = snprintf(p, room, "l%u %s", t->job->node_of[t->rank], key); break;
    default: n = snprintf(p, room, "s%s", key);
    }
    return (struct pmiwire_str){buf, (size_t)head + (size_t)n};
}

/* What is stored under a name: who has published it and how long it stays; the bytes. NULL: no
 * memory. */
static char *value_write(const struct name_task *t, const struct names_value *from, size_t *len)
{
    const size_t nspace = strlen(t->job->nspace) + 1;
    char *p = malloc(VALUE_BYTES + nspace + from->len);

    if (!p)
        return NULL;
    le32_write(p, t->job->number);
    le32_write(p + 4, t->rank);
    le32_write(p + 8, t->job->node_of[t->rank]);
    p[12] = (char)t->req->range;
    p[13] = (char)t->req->persist;
    memcpy(p + VALUE_BYTES, t->job->nspace, nspace);
    if (from->len)
        memcpy(p + VALUE_BYTES + nspace, from->p, from->len);
    *len = VALUE_BYTES + nspace + from->len;
    return p;
}

/* False: it is not such a value, or there is no memory for it. */
static bool value_read(struct found *f, struct pmiwire_str value)
{
    if (value.len < VALUE_BYTES ||
        !memchr(value.ptr + VALUE_BYTES, '\0', value.len - VALUE_BYTES) ||
        !(f->value = malloc(value.len)))
        return false;
    memcpy(f->value, value.ptr, value.len);
    f->len = value.len;
    f->job = le32_read(f->value);
    f->rank = le32_read(f->value + 4);
    f->node = le32_read(f->value + 8);
    f->persist = (uint8_t)f->value[13];
    return true;
}

static void name_ask(struct pmix_host *h, struct name_task *t, uint32_t what, uint32_t slot,
                     uint32_t owner, uint8_t range, const char *key, struct pmiwire_str value)
{
    char buf[NAME_BYTES];

    t->n_out++;
    h->ops.name(h->ctx, what, owner, name_write(buf, t, range, key), value,
                TOKEN_BIT | t->id << SLOT_BITS | slot);
}

/* ---- what ranks here have published ---- */

static void published_free(struct pmix_host *h, struct published *it)
{
    const struct host_job *job = host_job_find(h, it->job);
    struct client *c = job ? host_client(job, it->rank) : NULL;

    if (c) {
        c->n_published--;
        c->published_bytes -= it->bytes;
    }
    free(it);
}

/* The value of key i. NULL: no memory. */
static struct published *published_new(const struct name_task *t, struct client *by, uint32_t i)
{
    const struct names_value *from = &t->req->values[i];
    const size_t len = strlen(from->key) + 1;
    struct published *it = malloc(sizeof(*it) + len);

    if (!it)
        return NULL;
    *it = (struct published){.id = t->id << SLOT_BITS | i,
                             .job = t->job->number,
                             .rank = t->rank,
                             .uid = t->req->uid,
                             .range = t->req->range,
                             .persist = t->req->persist,
                             .bytes = len - 1 + from->len};
    memcpy(it->key, from->key, len);
    by->n_published++;
    by->published_bytes += it->bytes;
    return it;
}

static bool is_first_read(const struct published *it, const struct name_task *t)
{
    return it->persist == NAMES_FIRST_READ && it->job == t->job->number && it->rank == t->rank &&
           it->uid == t->req->uid;
}

/* The names of a task were free: its rank's earlier values under them have been read. */
static void published_replace(struct pmix_host *h, const struct name_task *t)
{
    for (const struct published *made = t->made; made; made = made->next) {
        for (struct published **p = &h->published; *p;) {
            struct published *it = *p;

            if (is_first_read(it, t) && range_class(it->range) == range_class(made->range) &&
                strcmp(it->key, made->key) == 0) {
                *p = it->next;
                published_free(h, it);
            } else {
                p = &it->next;
            }
        }
    }
}

/* Moves what a task has published into the list. */
static void published_add(struct pmix_host *h, struct name_task *t)
{
    while (t->made) {
        struct published *it = t->made;

        t->made = it->next;
        it->next = h->published;
        h->published = it;
    }
}

/* Tells the name service to forget it; nobody waits for its answer. */
static void published_drop(struct pmix_host *h, struct published **p, const struct host_job *job)
{
    struct published *it = *p;
    const struct names_req req = {.uid = it->uid};
    const struct name_task as = {.req = &req, .job = job, .rank = it->rank};
    char buf[NAME_BYTES];

    *p = it->next;
    h->ops.name(h->ctx, PMIWIRE_NAME_UNPUBLISH, owner_of_rank(it->job, it->rank),
                name_write(buf, &as, it->range, it->key), (struct pmiwire_str){0}, TOKEN_BIT);
    published_free(h, it);
}

/* rank UINT32_MAX: of the whole job. */
static void published_forget(struct pmix_host *h, uint32_t job, uint32_t rank, uint8_t persist)
{
    const struct host_job *of = host_job_find(h, job);

    for (struct published **p = &h->published; *p;) {
        struct published *it = *p;

        if (of && it->job == job && (rank == UINT32_MAX || it->rank == rank) &&
            it->persist == persist)
            published_drop(h, p, of);
        else
            p = &it->next;
    }
}

/* Notes what a request is to publish. HOST_OK, HOST_ELIMIT, or HOST_ENOMEM. */
static int publish_note(struct name_task *t)
{
    struct client *by = host_client(t->job, t->rank);
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < t->req->n_values; i++)
        bytes += strlen(t->req->values[i].key) + t->req->values[i].len;
    if (!by || t->req->n_values > NAMES_PROC_VALUES - by->n_published ||
        bytes > NAMES_PROC_BYTES - by->published_bytes)
        return HOST_ELIMIT;
    for (uint32_t i = 0; i < t->req->n_values; i++) {
        struct published *it = published_new(t, by, i);

        if (!it)
            return HOST_ENOMEM;
        it->next = t->made;
        t->made = it;
    }
    return HOST_OK;
}

/* ---- tasks ---- */

static void task_free(struct pmix_host *h, struct name_task *t)
{
    for (uint32_t i = 0; t->found && i < t->req->n_values; i++)
        free(t->found[i].value);
    while (t->made) {
        struct published *it = t->made;

        t->made = it->next;
        published_free(h, it);
    }
    free(t->found);
    free(t->is_made);
    free(t->counted);
    free(t);
}

/* Answers it. The request is not ours any more then. */
static void task_end(struct pmix_host *h, struct name_task *t, int status, const char *data,
                     size_t len)
{
    const host_done_fn done = t->done;
    void *const ctx = t->ctx;
    struct name_task **p = &h->name_tasks;

    while (*p != t)
        p = &(*p)->next;
    *p = t->next;
    task_free(h, t);
    done(ctx, status, data, len);
}

static struct name_task *task_add(struct pmix_host *h, const struct host_job *job, uint32_t rank,
                                  const struct names_req *req, host_done_fn done, void *ctx)
{
    struct name_task *t = calloc(1, sizeof(*t));
    const size_t n = req->n_values + 1;

    if (!t)
        return NULL;
    *t = (struct name_task){.next = h->name_tasks,
                            .id = ++h->last_name_task,
                            .req = req,
                            .job = job,
                            .rank = rank,
                            .done = done,
                            .ctx = ctx,
                            .n_out = 1}; /* until all questions have been asked */
    t->is_made = calloc(n, sizeof(*t->is_made));
    t->found = calloc(n, sizeof(*t->found));
    if (!t->is_made || !t->found) {
        task_free(h, t);
        return NULL;
    }
    h->name_tasks = t;
    return t;
}

/* May one more request of this rank have values sent? Of its own alone, each sends 4 MiB. */
static bool may_read(const struct pmix_host *h, const struct name_task *by)
{
    uint32_t n = 0;

    for (const struct name_task *t = h->name_tasks; t; t = t->next)
        n += t != by && (t->req->what == PMIWIRE_NAME_LOOKUP || t->stage == STAGE_COUNTS) &&
             t->job == by->job && t->rank == by->rank;
    return n < NAMES_PROC_LOOKUPS;
}

/* ---- publish ---- */

/*
 * The rank is at its limit. Its values that end with the first read may have been read: the
 * reader's host tells the name service alone. So asks that which of them are still there.
 */
static void first_reads_count(struct pmix_host *h, struct name_task *t)
{
    uint32_t n = 0;

    t->counted = calloc(NAMES_PROC_VALUES, sizeof(*t->counted));
    if (!t->counted)
        return;
    t->stage = STAGE_COUNTS;
    for (struct published *it = h->published, *next; it && n < NAMES_PROC_VALUES; it = next) {
        next = it->next; /* the answer may free it */
        if (!is_first_read(it, t))
            continue;
        t->counted[n] = it->id;
        name_ask(h, t, PMIWIRE_NAME_LOOKUP, n++, 0, it->range, it->key, (struct pmiwire_str){0});
    }
}

static void first_read_counted(struct pmix_host *h, const struct name_task *t, uint32_t slot,
                               int rc, struct pmiwire_str value)
{
    struct published **p = &h->published;

    if (rc == 0 && value.len >= VALUE_BYTES && le32_read(value.ptr) == t->job->number &&
        le32_read(value.ptr + 4) == t->rank)
        return; /* nobody has read it */
    while (*p && (*p)->id != t->counted[slot])
        p = &(*p)->next;
    if (*p) {
        struct published *it = *p;

        *p = it->next;
        published_free(h, it);
    }
}

static void publish_ask(struct pmix_host *h, struct name_task *t)
{
    for (uint32_t i = 0; i < t->req->n_values; i++) {
        const struct names_value *from = &t->req->values[i];
        size_t len;
        char *value = value_write(t, from, &len);

        if (value)
            name_ask(h, t, PMIWIRE_NAME_PUBLISH, i, owner_of_rank(t->job->number, t->rank),
                     t->req->range, from->key, (struct pmiwire_str){value, len});
        else
            t->status = HOST_ENOMEM;
        free(value);
    }
}

static void publish_begin(struct pmix_host *h, struct name_task *t)
{
    t->status = publish_note(t);
    if (t->status == HOST_OK)
        publish_ask(h, t);
    else if (t->status == HOST_ELIMIT && !t->counted && may_read(h, t))
        first_reads_count(h, t);
}

static void publish_answered(struct name_task *t, uint32_t slot, int rc)
{
    t->is_made[slot] = rc == 0;
    if (rc != 0 && t->status == HOST_OK)
        t->status = rc == PMIWIRE_EEXIST ? HOST_EEXIST : HOST_ELIMIT;
}

/* All is published, or none: takes back what was. */
static void publish_step(struct pmix_host *h, struct name_task *t)
{
    if (t->stage == STAGE_COUNTS) {
        t->stage = STAGE_ASKS;
        t->n_out = 1;
        publish_begin(h, t);
        if (--t->n_out > 0)
            return;
    }
    if (t->status != HOST_OK && t->stage == STAGE_ASKS) {
        t->stage = STAGE_CLEANS;
        t->n_out = 1;
        for (uint32_t i = 0; i < t->req->n_values; i++)
            if (t->is_made[i])
                name_ask(h, t, PMIWIRE_NAME_UNPUBLISH, i, owner_of_rank(t->job->number, t->rank),
                         t->req->range, t->req->values[i].key, (struct pmiwire_str){0});
        if (--t->n_out > 0)
            return;
    }
    if (t->status != HOST_OK) {
        task_end(h, t, t->status, NULL, 0);
        return;
    }
    published_replace(h, t);
    published_add(h, t);
    task_end(h, t, HOST_OK, NULL, 0);
    names_retry(h);
}

/* ---- lookup ---- */

static void lookup_ask(struct pmix_host *h, struct name_task *t)
{
    t->stage = STAGE_ASKS;
    t->again = false;
    for (uint32_t i = 0; i < t->req->n_values; i++) {
        free(t->found[i].value);
        t->found[i] = (struct found){.range = RANGES};
    }
    for (uint32_t i = 0; i < t->req->n_values; i++)
        for (uint32_t k = 0; k < RANGES; k++)
            name_ask(h, t, PMIWIRE_NAME_LOOKUP, i * RANGES + k, 0, ranges[k], t->req->values[i].key,
                     (struct pmiwire_str){0});
}

/* Is the publisher within this range of the rank that asks? */
static bool is_within(const struct name_task *t, const struct found *f)
{
    switch (range_class(t->req->range)) {
    case NAMES_NSPACE: return f->job == t->job->number;
    case NAMES_LOCAL: return f->node == t->job->node_of[t->rank];
    case NAMES_PROC: return f->job == t->job->number && f->rank == t->rank;
    default: return true;
    }
}

static void lookup_answered(struct name_task *t, uint32_t slot, int rc, struct pmiwire_str value)
{
    struct found *f = &t->found[slot / RANGES], now = {.range = slot % RANGES};

    if (rc != 0 || now.range >= f->range)
        return;
    if (!value_read(&now, value) || !is_within(t, &now)) {
        free(now.value);
        return;
    }
    free(f->value);
    *f = now;
}

/* The answer: of each value found the number of its key, its length, and what is stored. */
static void lookup_end(struct pmix_host *h, struct name_task *t)
{
    size_t len = 0, at = 0;
    char *data;

    for (uint32_t i = 0; i < t->req->n_values; i++)
        if (t->found[i].value)
            len += 8 + t->found[i].len;
    data = malloc(len ? len : 1);
    for (uint32_t i = 0; data && i < t->req->n_values; i++) {
        const struct found *f = &t->found[i];

        if (!f->value)
            continue;
        le32_write(data + at, i);
        le32_write(data + at + 4, (uint32_t)f->len);
        memcpy(data + at + 8, f->value, f->len);
        at += 8 + f->len;
    }
    task_end(h, t,
             !data     ? HOST_ENOMEM
             : len > 0 ? HOST_OK
             : t->last ? HOST_ETIME
                       : HOST_ENOENT,
             data, data ? len : 0);
    free(data);
}

/* Takes what ends with its first read. */
static void first_reads_ask(struct pmix_host *h, struct name_task *t)
{
    t->stage = STAGE_CLEANS;
    t->n_out = 1;
    for (uint32_t i = 0; i < t->req->n_values; i++) {
        const struct found *f = &t->found[i];

        if (f->value && f->persist == NAMES_FIRST_READ)
            name_ask(h, t, PMIWIRE_NAME_UNPUBLISH, i, owner_of_rank(f->job, f->rank),
                     ranges[f->range], t->req->values[i].key, (struct pmiwire_str){0});
    }
    t->n_out--;
}

static uint32_t found_count(const struct name_task *t)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->req->n_values; i++)
        n += t->found[i].value != NULL;
    return n;
}

static void lookup_step(struct pmix_host *h, struct name_task *t)
{
    const uint32_t wait = t->req->wait < t->req->n_values ? t->req->wait : t->req->n_values;

    if (t->stage == STAGE_ASKS && (found_count(t) >= wait || t->last))
        first_reads_ask(h, t);
    if (t->n_out > 0)
        return;
    /* One that waits, and has lost all that it found to other readers, waits on. */
    if (t->stage == STAGE_CLEANS && (found_count(t) > 0 || wait == 0 || t->last)) {
        lookup_end(h, t);
    } else if (t->again || t->last) {
        t->n_out = 1;
        lookup_ask(h, t);
        if (--t->n_out == 0)
            lookup_step(h, t);
    } else {
        t->stage = STAGE_WAITS;
    }
}

/* ---- unpublish ---- */

static bool is_asked_for(const struct name_task *t, const struct published *it)
{
    const struct names_req *req = t->req;

    if (it->job != t->job->number || it->rank != t->rank ||
        (req->range != NAMES_UNDEF && range_class(it->range) != range_class(req->range)))
        return false;
    for (uint32_t i = 0; i < req->n_values; i++)
        if (strcmp(req->values[i].key, it->key) == 0)
            return true;
    return req->n_values == 0;
}

static void unpublish_ask(struct pmix_host *h, struct name_task *t)
{
    uint32_t n = 0;

    for (struct published **p = &h->published; *p;) {
        struct published *it = *p;

        if (!is_asked_for(t, it)) {
            p = &it->next;
            continue;
        }
        *p = it->next;
        name_ask(h, t, PMIWIRE_NAME_UNPUBLISH, 0, owner_of_rank(it->job, it->rank), it->range,
                 it->key, (struct pmiwire_str){0});
        published_free(h, it);
        n++;
    }
    t->status = n || t->req->n_values == 0 ? HOST_OK : HOST_ENOENT;
}

/* ---- all of them ---- */

static int request_check(const struct names_req *req)
{
    /* A lookup in no range that we know looks in all: Open MPI 5.0's MPI_Lookup_name() leaves the
     * range unset, whatever it was. */
    if (req->what != PMIWIRE_NAME_LOOKUP && req->range > NAMES_PROC)
        return HOST_EINVAL;
    if (req->what != PMIWIRE_NAME_LOOKUP && (req->range == 1 || req->range == 6))
        return HOST_ENOTSUP;
    if ((req->n_values == 0 && req->what != PMIWIRE_NAME_UNPUBLISH) ||
        (req->what == PMIWIRE_NAME_PUBLISH && req->persist > NAMES_UNTIL_END))
        return HOST_EINVAL;
    if (req->n_values > NAMES_KEYS)
        return HOST_ELIMIT;
    for (uint32_t i = 0; i < req->n_values; i++) {
        const size_t n = strlen(req->values[i].key);

        if (n == 0 || n > NAMES_KEY_BYTES)
            return HOST_EINVAL;
        /* Else a small request has a value sent 256 times. */
        for (uint32_t k = 0; req->what == PMIWIRE_NAME_LOOKUP && k < i; k++)
            if (strcmp(req->values[k].key, req->values[i].key) == 0)
                return HOST_EINVAL;
    }
    return HOST_OK;
}

/* All questions of a stage are answered. */
static void task_step(struct pmix_host *h, struct name_task *t)
{
    if (t->gone)
        task_end(h, t, HOST_EGONE, NULL, 0);
    else if (t->req->what == PMIWIRE_NAME_PUBLISH)
        publish_step(h, t);
    else if (t->req->what == PMIWIRE_NAME_LOOKUP)
        lookup_step(h, t);
    else
        task_end(h, t, t->status, NULL, 0);
}

void names_request(struct pmix_host *h, const struct host_job *job, uint32_t rank,
                   const struct names_req *req, host_done_fn done, void *ctx)
{
    struct name_task *t = NULL;
    int status = request_check(req);

    if (status == HOST_OK) {
        t = task_add(h, job, rank, req, done, ctx);
        if (!t)
            status = HOST_ENOMEM;
        else if (req->what == PMIWIRE_NAME_LOOKUP && !may_read(h, t))
            status = HOST_ELIMIT;
    }
    if (status != HOST_OK && t) {
        task_end(h, t, status, NULL, 0);
        return;
    }
    if (status != HOST_OK) {
        done(ctx, status, NULL, 0);
        return;
    }
    t->deadline_ns = req->timeout_s ? h->now_ns + req->timeout_s * NS_PER_S : 0;
    if (req->what == PMIWIRE_NAME_PUBLISH)
        publish_begin(h, t);
    else if (req->what == PMIWIRE_NAME_LOOKUP)
        lookup_ask(h, t);
    else
        unpublish_ask(h, t);
    if (--t->n_out == 0)
        task_step(h, t);
}

bool names_answer(struct pmix_host *h, uint64_t token, int rc, struct pmiwire_str value)
{
    const uint64_t id = (token & ~TOKEN_BIT) >> SLOT_BITS;
    const uint32_t slot = (uint32_t)token & ((1u << SLOT_BITS) - 1);
    struct name_task *t = h->name_tasks;

    if (!(token & TOKEN_BIT))
        return false;
    while (t && t->id != id)
        t = t->next;
    if (!t || t->n_out == 0)
        return true;
    if (t->stage == STAGE_COUNTS) {
        if (slot < NAMES_PROC_VALUES)
            first_read_counted(h, t, slot, rc, value);
    } else if (t->stage == STAGE_ASKS && t->req->what == PMIWIRE_NAME_LOOKUP) {
        if (slot / RANGES < t->req->n_values)
            lookup_answered(t, slot, rc, value);
    } else if (t->stage == STAGE_ASKS && t->req->what == PMIWIRE_NAME_PUBLISH) {
        if (slot < t->req->n_values)
            publish_answered(t, slot, rc);
    } else if (t->req->what == PMIWIRE_NAME_LOOKUP && rc != 0 && slot < t->req->n_values) {
        free(t->found[slot].value); /* somebody else has read it first */
        t->found[slot].value = NULL;
    }
    if (--t->n_out == 0)
        task_step(h, t);
    return true;
}

void names_retry(struct pmix_host *h)
{
    for (struct name_task *t = h->name_tasks, *next; t; t = next) {
        next = t->next;
        if (t->req->what != PMIWIRE_NAME_LOOKUP)
            continue;
        t->again = true;
        if (t->stage == STAGE_WAITS)
            lookup_step(h, t);
    }
}

void names_tick(struct pmix_host *h)
{
    for (struct name_task *t = h->name_tasks, *next; t; t = next) {
        next = t->next;
        if (t->req->what != PMIWIRE_NAME_LOOKUP || !t->deadline_ns || h->now_ns < t->deadline_ns)
            continue;
        t->last = true;
        if (t->stage == STAGE_WAITS)
            lookup_step(h, t);
    }
}

/* rank UINT32_MAX: all of the job's. */
static void tasks_give_up(struct pmix_host *h, uint32_t job, uint32_t rank)
{
    for (struct name_task *t = h->name_tasks, *next; t; t = next) {
        next = t->next;
        if (t->job->number != job || (rank != UINT32_MAX && t->rank != rank))
            continue;
        t->gone = t->req->what == PMIWIRE_NAME_LOOKUP || t->stage == STAGE_COUNTS;
        if (t->stage == STAGE_WAITS || rank == UINT32_MAX) /* else when its answers have come */
            task_end(h, t, HOST_EGONE, NULL, 0);
    }
}

void names_rank_gone(struct pmix_host *h, uint32_t job, uint32_t rank)
{
    published_forget(h, job, rank, NAMES_UNTIL_PROC);
    tasks_give_up(h, job, rank);
}

void names_job_end(struct pmix_host *h, uint32_t job)
{
    for (struct name_task *t = h->name_tasks; t; t = t->next)
        if (t->job->number == job) /* perhaps they are published already */
            published_add(h, t);
    published_forget(h, job, UINT32_MAX, NAMES_UNTIL_PROC);
    published_forget(h, job, UINT32_MAX, NAMES_UNTIL_JOB);
    tasks_give_up(h, job, UINT32_MAX);
    for (struct published **p = &h->published; *p;) { /* the rest nobody can unpublish any more */
        struct published *it = *p;

        if (it->job == job) {
            *p = it->next;
            published_free(h, it);
        } else {
            p = &it->next;
        }
    }
}

void names_free(struct pmix_host *h)
{
    while (h->name_tasks) {
        struct name_task *t = h->name_tasks;

        h->name_tasks = t->next;
        task_free(h, t);
    }
    while (h->published) {
        struct published *it = h->published;

        h->published = it->next;
        published_free(h, it);
    }
}

bool names_next(const char **data, size_t *left, struct names_item *item)
{
    const char *value = *data + 8, *nspace = value + VALUE_BYTES, *bytes;
    size_t len;

    if (*left < 8)
        return false;
    len = le32_read(*data + 4);
    bytes = nspace + strlen(nspace) + 1; /* value_read() has seen its NUL */
    *item = (struct names_item){le32_read(*data), nspace, le32_read(value + 4), bytes,
                                (size_t)(value + len - bytes)};
    *data += 8 + len;
    *left -= 8 + len;
    return true;
}
