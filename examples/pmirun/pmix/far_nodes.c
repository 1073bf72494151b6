/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of PMIx clients over several nodes: messages between agents, and between an agent and
 * its head, in order; parcel.h cuts them into pieces. A message is a byte with its type and fields
 * (local/fields.h). It names jobs by their numbers, which are the same on all nodes.
 *
 * Every message is checked: its form, that ranks exist, that a rank is on the sender's node or
 * ours. An invalid one is refused, and its node counts as lost. A message about a job that this
 * node does not know yet waits for the job; one about a job that is over gets no answer where its
 * sender learns of the end too.
 */
#define _GNU_SOURCE
#include "far_nodes.h"

#include <stdlib.h>
#include <string.h>

#include "../local/fields.h"
#include "../local/host.h"
#include "../local/pmirun.h"
#include "collect.h"
#include "parcel.h"
#include "store.h"

#define EARLY_BYTES (64u << 20) /* of messages about jobs that this node does not know yet */
#define MAX_SERVED  65536u      /* modexes of other nodes that wait for a rank here */

enum far_message {
    FAR_COLLECT = 1, /* u32 COLLECT_*, u32 status, text signature, data */
    FAR_MODEX,       /* u64 id, u32 job, u32 rank */
    FAR_DATA,        /* u64 id, u32 status, data: the answer */
    FAR_NAMES,       /* to the head: u64 id, u32 job, u32 rank, the request */
    FAR_NAMED,       /* u64 id, u32 status, data: the answer */
    FAR_EVENT        /* to the head and from it: u32 job, u32 rank, u32 code, u32 status */
};

/* A job that has no rank here. */
struct far_space {
    struct far_space *next;
    uint32_t number, n_ranks, n_apps;
    uint32_t *node_of, *app_procs;
    char *nspace, *parent;
};

/* A modex that another node waits for. */
struct served {
    struct served *next;
    struct pmirun *pr;
    uint64_t their_id;
    uint32_t node;
};

struct early {
    struct early *next;
    uint32_t from;
    size_t n;
    char p[];
};

/* Why a message is not heeded. */
enum verdict { GOOD, WRONG, EARLY, OVER };

static bool on_message(void *ctx, uint32_t from, const void *p, size_t n);

/* ---- jobs ---- */

static uint32_t own_node(const struct pmirun *pr)
{
    return pr->agent ? agent_node(pr) : 0;
}

static uint32_t n_nodes(const struct pmirun *pr)
{
    return pr->agent ? pr->opt.n_nodes : 1;
}

static void place_job(const struct job *job, struct far_place *place)
{
    *place = (struct far_place){job->number, job->n_ranks, job->kvsname, job->node_of};
}

static void place_space(const struct far_space *s, struct far_place *place)
{
    *place = (struct far_place){s->number, s->n_ranks, s->nspace, s->node_of};
}

bool far_find(const struct pmirun *pr, const char *nspace, struct far_place *place)
{
    for (const struct job *job = pr->jobs; job; job = job->next) {
        if (strcmp(job->kvsname, nspace) == 0) {
            place_job(job, place);
            return true;
        }
    }
    for (const struct far_space *s = pr->far ? pr->far->spaces : NULL; s; s = s->next) {
        if (strcmp(s->nspace, nspace) == 0) {
            place_space(s, place);
            return true;
        }
    }
    return false;
}

static enum verdict find_number(const struct pmirun *pr, uint32_t number, struct far_place *place)
{
    const struct job *job = job_by_number(pr, number);

    if (job) {
        place_job(job, place);
        return GOOD;
    }
    for (const struct far_space *s = pr->far->spaces; s; s = s->next) {
        if (s->number == number) {
            place_space(s, place);
            return GOOD;
        }
    }
    return number < pr->n_jobs || number < pr->far->n_known ? OVER : EARLY;
}

static uint32_t node_of(const struct far_place *place, uint32_t rank)
{
    return place->node_of ? place->node_of[rank] : 0;
}

static bool is_gone(const struct rank *r)
{
    return r->state == RANK_EXITED || r->pmi_state == PMIWIRE_CONN_FINALIZED;
}

/* ---- messages ---- */

/* Sends it, and forgets it. */
static void post_all(struct pmirun *pr, const uint32_t *nodes, uint32_t n, struct msg *m)
{
    parcels_send(pr->far->parcels, nodes, n, m->p, m->len);
    *m = (struct msg){NULL, 0, 0};
}

static void post(struct pmirun *pr, uint32_t node, struct msg *m)
{
    post_all(pr, &node, 1, m);
}

static uint32_t head_of(const struct pmirun *pr)
{
    return pr->opt.n_nodes;
}

static void post_answer(struct pmirun *pr, uint32_t node, enum far_message what, uint64_t id,
                        int status, const char *data, size_t len)
{
    struct msg m = {0};

    if (len > COLLECT_BYTES) { /* more than a message carries */
        status = FAR_ELIMIT;
        len = 0;
    }
    msg_begin(&m, what);
    msg_u64(&m, id);
    msg_u32(&m, (uint32_t)status);
    msg_bytes(&m, data, len);
    post(pr, node, &m);
}

static bool on_piece(void *ctx, uint32_t node, const void *p, size_t n)
{
    struct pmirun *pr = ctx;

    return pr->agent ? agent_send_pmix(pr, node, p, n) : head_send_pmix(pr, node, p, n);
}

/* ---- signatures ---- */

/* kind; jobs in ascending order: number, runs of ranks in ascending order: first, how many */

struct sig_proc {
    uint32_t job, rank;
};

static int compare_procs(const void *a, const void *b)
{
    const struct sig_proc *x = a, *y = b;

    if (x->job != y->job)
        return x->job < y->job ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* FAR_OK, or FAR_ENOENT: one of the processes does not exist. */
static int find_procs(struct pmirun *pr, const struct proc_name *procs, size_t n,
                      struct sig_proc *out)
{
    struct far_place place = {0};

    for (size_t i = 0; i < n; i++) {
        if ((i == 0 || strcmp(procs[i].nspace, place.nspace) != 0) &&
            !far_find(pr, procs[i].nspace, &place))
            return FAR_ENOENT;
        if (procs[i].rank >= place.n_ranks)
            return FAR_ENOENT;
        out[i] = (struct sig_proc){place.number, procs[i].rank};
    }
    return FAR_OK;
}

/* The end of the run that begins at i. */
static size_t run_end(const struct sig_proc *procs, size_t n, size_t i)
{
    size_t k = i + 1;

    while (k < n && procs[k].job == procs[i].job && procs[k].rank <= procs[k - 1].rank + 1)
        k++;
    return k;
}

static void write_sig(struct msg *m, enum far_kind kind, const struct sig_proc *procs, size_t n)
{
    uint32_t jobs = 0, runs;

    for (size_t i = 0; i < n; i++)
        jobs += i == 0 || procs[i].job != procs[i - 1].job;
    msg_begin(m, (uint8_t)kind);
    msg_u32(m, jobs);
    for (size_t i = 0, end; i < n; i = end) {
        runs = 0;
        for (end = i; end < n && procs[end].job == procs[i].job; end = run_end(procs, n, end))
            runs++;
        msg_u32(m, procs[i].job);
        msg_u32(m, runs);
        for (size_t k = i, next; k < end; k = next) {
            next = run_end(procs, n, k);
            msg_u32(m, procs[k].rank);
            msg_u32(m, procs[next - 1].rank - procs[k].rank + 1);
        }
    }
}

/* Marks the nodes that have ranks of these runs. */
static void mark(const struct far_place *place, uint32_t first, uint32_t n, bool *has)
{
    for (uint32_t i = first; i < first + n; i++)
        has[node_of(place, i)] = true;
}

/* Reads a signature, made by another node or here; `has` marks the member nodes. */
static enum verdict read_sig(const struct pmirun *pr, const char *p, size_t n, bool *has)
{
    struct msg_in in = {p + 1, n - 1, false};
    uint32_t jobs, last = 0;

    memset(has, 0, n_nodes(pr) * sizeof(*has));
    if (n < 1 || p[0] < FAR_FENCE || p[0] > FAR_DISCONNECT)
        return WRONG;
    jobs = get_count(&in, 16);
    for (uint32_t i = 0; i < jobs && !in.bad; i++) {
        const uint32_t number = get_u32(&in), runs = get_count(&in, 8);
        struct far_place place = {0};
        enum verdict v = find_number(pr, number, &place);
        uint32_t free = 0; /* the next run begins here or later */

        if (in.bad || runs == 0 || (i > 0 && number <= last))
            return WRONG;
        if (v != GOOD)
            return v;
        last = number;
        for (uint32_t k = 0; k < runs; k++) {
            const uint32_t first = get_u32(&in), count = get_u32(&in);

            if (in.bad || first < free || first >= place.n_ranks || count == 0 ||
                count > place.n_ranks - first)
                return WRONG;
            free = first + count + 1; /* runs that touch would be one */
            mark(&place, first, count, has);
        }
    }
    return in.bad || in.left || jobs == 0 ? WRONG : GOOD;
}

/* The first member rank here that is gone; NULL: none. */
static const struct rank *find_gone(const struct pmirun *pr, const struct collect_sig *sig)
{
    struct msg_in in = {(const char *)sig->p + 1, sig->len - 1, false};
    uint32_t jobs = get_u32(&in);

    for (uint32_t i = 0; i < jobs; i++) {
        const struct job *job = job_by_number(pr, get_u32(&in));
        uint32_t runs = get_u32(&in), k = 0;

        for (uint32_t n = 0; n < runs; n++) {
            const uint32_t first = get_u32(&in), end = first + get_u32(&in);

            while (job && k < job->n_local && job->ranks[k].number < first)
                k++;
            for (; job && k < job->n_local && job->ranks[k].number < end; k++)
                if (is_gone(&job->ranks[k]))
                    return &job->ranks[k];
        }
    }
    return NULL;
}

static uint32_t list_members(const struct pmirun *pr, const bool *has, uint32_t *members)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < n_nodes(pr); i++)
        if (has[i])
            members[n++] = i;
    return n;
}

/* ---- collectives ---- */

static void on_collect_send(void *ctx, const uint32_t *nodes, uint32_t n, enum collect_frame what,
                            const struct collect_sig *sig, int status, const void *data, size_t len)
{
    struct msg m = {0};

    msg_begin(&m, FAR_COLLECT);
    msg_u32(&m, what);
    msg_u32(&m, (uint32_t)status);
    msg_text(&m, sig->p, sig->len);
    msg_bytes(&m, data, len);
    post_all(ctx, nodes, n, &m);
}

static bool on_collect_gone(void *ctx, const struct collect_sig *sig)
{
    return find_gone(ctx, sig) != NULL;
}

static void on_collect_stuck(void *ctx, const struct collect_sig *sig)
{
    struct pmirun *pr = ctx;
    const struct rank *r = find_gone(pr, sig);
    const bool fence = *(const char *)sig->p == FAR_FENCE;

    if (r)
        job_stuck(pr, r->job, r->number, fence ? PMIWIRE_COLL_FENCE : PMIWIRE_STUCK_GROUP,
                  r->pmi_state == PMIWIRE_CONN_FINALIZED ? PMIWIRE_GONE_FINALIZED
                  : r->pmi_state == PMIWIRE_CONN_NEW     ? PMIWIRE_GONE_ABSENT
                                                         : PMIWIRE_GONE_ENDED);
}

void far_collect(struct pmirun *pr, enum far_kind kind, const struct proc_name *procs, size_t n,
                 const void *data, size_t len, host_done_fn done, void *ctx)
{
    struct sig_proc *list = xrealloc(NULL, (n ? n : 1) * sizeof(*list));
    bool *has = xrealloc(NULL, n_nodes(pr) * sizeof(*has));
    uint32_t *members = xrealloc(NULL, n_nodes(pr) * sizeof(*members));
    int status = n ? find_procs(pr, procs, n, list) : FAR_EINVAL;
    struct collect_sig sig = {.members = members};
    struct msg m = {0};

    if (status == FAR_OK) {
        qsort(list, n, sizeof(*list), compare_procs);
        write_sig(&m, kind, list, n);
        read_sig(pr, m.p, m.len, has);
        sig.p = m.p;
        sig.len = m.len;
        sig.n = list_members(pr, has, members);
        status = has[own_node(pr)] ? FAR_OK : FAR_EINVAL;
    }
    /* libpmix does not wait for a gone client. If other nodes wait for this one, the root asks. */
    if (status == FAR_OK && find_gone(pr, &sig)) {
        on_collect_stuck(pr, &sig);
        status = FAR_EGONE;
    }
    if (status || sig.n == 1)
        done(ctx, status, status ? NULL : data, status ? 0 : len);
    else
        collect_enter(pr->far->collect, &sig, data, len, done, ctx);
    msg_free(&m);
    free(list);
    free(has);
    free(members);
}

static bool on_collect(struct pmirun *pr, uint32_t from, struct msg_in *in, enum verdict *v)
{
    bool *has = xrealloc(NULL, n_nodes(pr) * sizeof(*has));
    uint32_t *members = xrealloc(NULL, n_nodes(pr) * sizeof(*members)), what = get_u32(in);
    int status = (int)get_u32(in), rc = FAR_OK;
    struct collect_sig sig = {.members = members};

    sig.p = get_text(in, &sig.len);
    *v = in->bad ? WRONG : read_sig(pr, sig.p, sig.len, has);
    if (*v == GOOD) {
        sig.n = list_members(pr, has, members);
        rc = collect_heard(pr->far->collect, from, (enum collect_frame)what, &sig, status, in->p,
                           in->left);
        *v = rc == FAR_EINVAL ? WRONG : GOOD;
    }
    free(has);
    free(members);
    if (rc == FAR_OK || rc == FAR_EINVAL)
        return *v != WRONG;
    say(pr,
        "a PMIx collective cannot be kept: more than %u wait here, or they hold more than %llu "
        "MiB; "
        "stopping the job",
        COLLECT_PENDING, COLLECT_BYTES >> 20);
    job_stop(pr, STATUS_RESOURCES);
    return true;
}

/* ---- what ranks have put ---- */

void far_nodes_modex(struct pmirun *pr, const struct far_place *place, uint32_t rank,
                     host_done_fn done, void *ctx)
{
    const uint32_t node = node_of(place, rank);
    struct msg m = {0};

    if (node == own_node(pr)) {
        host_modex(pr, place->nspace, rank, done, ctx);
        return;
    }
    msg_begin(&m, FAR_MODEX);
    msg_u64(&m, far_request(pr->far, done, ctx)->id);
    msg_u32(&m, place->number);
    msg_u32(&m, rank);
    post(pr, node, &m);
}

/* Gets the pairs that a rank here has put, for another node. */
static void on_served(void *ctx, int status, const char *data, size_t len)
{
    struct served *s = ctx, **p = &s->pr->far->served;

    while (*p != s)
        p = &(*p)->next;
    *p = s->next;
    s->pr->far->n_served--;
    post_answer(s->pr, s->node, FAR_DATA, s->their_id, status, data, len);
    free(s);
}

static bool on_modex(struct pmirun *pr, uint32_t from, struct msg_in *in, enum verdict *v)
{
    struct far *f = pr->far;
    const uint64_t their_id = get_u64(in);
    const uint32_t number = get_u32(in), rank = get_u32(in);
    struct far_place place;
    struct served *s;

    *v = in->bad || in->left ? WRONG : find_number(pr, number, &place);
    if (*v == WRONG ||
        (*v == GOOD && (rank >= place.n_ranks || node_of(&place, rank) != own_node(pr))))
        return false;
    if (*v == EARLY)
        return true;
    if (*v == OVER || f->n_served == MAX_SERVED) {
        post_answer(pr, from, FAR_DATA, their_id, *v == OVER ? FAR_ENOENT : FAR_ELIMIT, NULL, 0);
        return true;
    }
    s = xrealloc(NULL, sizeof(*s));
    *s = (struct served){f->served, pr, their_id, from};
    f->served = s;
    f->n_served++;
    host_modex(pr, place.nspace, rank, on_served, s);
    return true;
}

/* The answer to a modex, or of the head. */
static bool on_answer(struct pmirun *pr, struct msg_in *in)
{
    const uint64_t id = get_u64(in);
    const int status = (int)get_u32(in);

    return !in->bad && far_answer(pr, id, status, in->p, in->left);
}

/* ---- published values ---- */

void far_nodes_names(struct pmirun *pr, const struct far_place *by, const struct names_req *req,
                     host_done_fn done, void *ctx)
{
    uint64_t bytes = 0;
    struct msg m = {0};

    for (uint32_t i = 0; i < req->n_values; i++)
        bytes += req->values[i].len;
    if (req->n_values > STORE_KEYS || bytes > STORE_PROC_BYTES) { /* the head would refuse it */
        done(ctx, FAR_ELIMIT, NULL, 0);
        return;
    }
    msg_begin(&m, FAR_NAMES);
    msg_u64(&m, far_request(pr->far, done, ctx)->id);
    msg_u32(&m, by->number);
    msg_u32(&m, req->by.rank);
    msg_u32(&m, req->what);
    msg_u32(&m, req->uid);
    msg_u32(&m, req->range);
    msg_u32(&m, req->persist);
    msg_u32(&m, req->wait);
    msg_u32(&m, req->timeout_s);
    msg_u32(&m, req->n_values);
    for (uint32_t i = 0; i < req->n_values; i++) {
        msg_string(&m, req->values[i].key);
        msg_text(&m, req->values[i].p, req->values[i].len);
    }
    post(pr, head_of(pr), &m);
}

static bool get_names(struct msg_in *in, struct names_req *req, struct names_value **values)
{
    uint32_t range, persist;

    req->what = (enum names_what)get_u32(in);
    req->uid = get_u32(in);
    range = get_u32(in);
    persist = get_u32(in);
    req->range = (uint8_t)range;
    req->persist = (uint8_t)persist;
    req->wait = get_u32(in);
    req->timeout_s = get_u32(in);
    req->n_values = get_count(in, 8);
    *values = xrealloc(NULL, (req->n_values + 1) * sizeof(**values));
    req->values = *values;
    for (uint32_t i = 0; i < req->n_values; i++) {
        struct names_value *v = &(*values)[i];

        v->key = get_string(in);
        v->p = get_text(in, &v->len);
    }
    return !in->bad && !in->left && range <= UINT8_MAX && persist <= UINT8_MAX;
}

/* The head. */
static bool on_names(struct pmirun *pr, uint32_t from, struct msg_in *in)
{
    const uint64_t their_id = get_u64(in);
    const uint32_t number = get_u32(in), rank = get_u32(in);
    const struct job *job = job_by_number(pr, number);
    struct names_value *values;
    struct names_req req = {0};
    bool ok = get_names(in, &req, &values);

    if (ok && !job) {
        ok = job_was(pr, number);
        if (ok)
            post_answer(pr, from, FAR_NAMED, their_id, FAR_EGONE, NULL, 0);
    } else if (ok) {
        ok = rank < job->n_ranks && job->node_of[rank] == from;
    }
    if (ok && job) {
        const struct store_who who = {number, rank, from, job->kvsname};
        struct request *r = far_request(pr->far, NULL, NULL);

        r->node = from;
        r->their_id = their_id;
        store_request(pr->far->store, &who, &req, pr->now_ns, r->id);
    }
    for (uint32_t i = 0; i < req.n_values; i++)
        free((void *)(uintptr_t)values[i].key);
    free(values);
    return ok;
}

void far_nodes_named(struct pmirun *pr, const struct request *r, int status, const char *data,
                     size_t len)
{
    post_answer(pr, r->node, FAR_NAMED, r->their_id, status, data, len);
}

/* ---- events ---- */

static void write_event(struct msg *m, uint32_t job, uint32_t rank, uint32_t code, uint32_t status)
{
    msg_begin(m, FAR_EVENT);
    msg_u32(m, job);
    msg_u32(m, rank);
    msg_u32(m, code);
    msg_u32(m, status);
}

void far_nodes_event(struct pmirun *pr, int code, const struct rank *r, int status)
{
    struct msg m = {0};

    write_event(&m, r->job->number, r->number, (uint32_t)code, (uint32_t)status);
    post(pr, head_of(pr), &m);
}

/* The head passes it on to the other nodes; an agent notifies its clients. */
static bool on_event(struct pmirun *pr, uint32_t from, struct msg_in *in, enum verdict *v)
{
    const uint32_t number = get_u32(in), rank = get_u32(in), code = get_u32(in),
                   status = get_u32(in);
    struct far_place place;
    uint32_t *nodes, n = 0;
    struct msg m = {0};

    *v = in->bad || in->left ? WRONG : find_number(pr, number, &place);
    if (*v == WRONG || (*v == GOOD && rank >= place.n_ranks))
        return false;
    if (*v != GOOD) { /* no client here knows the job: too early is too late */
        *v = OVER;
        return true;
    }
    if (pr->agent) {
        if (pr->far->ready)
            host_event(pr, (int)code, place.nspace, rank, (int)status);
        return true;
    }
    if (node_of(&place, rank) != from)
        return false;
    nodes = xrealloc(NULL, pr->opt.n_nodes * sizeof(*nodes));
    for (uint32_t i = 0; i < pr->opt.n_nodes; i++)
        if (i != from)
            nodes[n++] = i;
    write_event(&m, number, rank, code, status);
    post_all(pr, nodes, n, &m);
    free(nodes);
    return true;
}

/* ---- what comes ---- */

/* Kept until this node learns of the job: the head notified the sender first. */
static bool keep_early(struct far *f, uint32_t from, const void *p, size_t n)
{
    struct early *e;

    if (f->early_bytes + n > EARLY_BYTES)
        return false;
    e = xrealloc(NULL, sizeof(*e) + n);
    e->next = NULL;
    e->from = from;
    e->n = n;
    memcpy(e->p, p, n);
    *f->early_tail = e;
    f->early_tail = &e->next;
    f->early_bytes += n;
    return true;
}

static bool on_message(void *ctx, uint32_t from, const void *p, size_t n)
{
    struct pmirun *pr = ctx;
    struct msg_in in = {(const char *)p + 1, n - 1, false};
    const bool from_head = pr->agent && from == head_of(pr), from_agent = pr->agent && !from_head;
    enum verdict v = GOOD;
    bool ok = false;

    switch (*(const uint8_t *)p) {
    case FAR_COLLECT: ok = from_agent && on_collect(pr, from, &in, &v); break;
    case FAR_MODEX: ok = from_agent && on_modex(pr, from, &in, &v); break;
    case FAR_DATA: ok = from_agent && on_answer(pr, &in); break;
    case FAR_NAMES: ok = pr->head && on_names(pr, from, &in); break;
    case FAR_NAMED: ok = from_head && on_answer(pr, &in); break;
    case FAR_EVENT: ok = !from_agent && on_event(pr, from, &in, &v); break;
    }
    return ok && (v != EARLY || keep_early(pr->far, from, p, n));
}

bool far_heard(struct pmirun *pr, uint32_t from, const void *p, size_t n)
{
    if (pr->stopping) /* far_stop() has freed what an answer would be for */
        return true;
    return parcels_input(far_get(pr)->parcels, from, p, n);
}

void far_room(struct pmirun *pr, uint32_t node)
{
    if (pr->far && pr->far->parcels)
        parcels_room(pr->far->parcels, node);
}

/* ---- jobs come and go ---- */

void far_known(struct pmirun *pr, uint32_t number)
{
    struct far *f = pr->far;
    struct early *e;

    if (!f)
        return;
    if (number >= f->n_known)
        f->n_known = number + 1;
    e = f->early;
    f->early = NULL;
    f->early_tail = &f->early;
    f->early_bytes = 0;
    while (e) { /* what is still too early is kept again */
        struct early *next = e->next;

        if (!on_message(pr, e->from, e->p, e->n) && e->from < n_nodes(pr))
            agent_report_lost(pr, e->from, "its message about PMIx is invalid");
        free(e);
        e = next;
    }
}

static void tell_host(struct pmirun *pr, const struct far_space *s)
{
    const struct space space = {s->nspace, s->n_ranks,   s->node_of,
                                s->n_apps, s->app_procs, s->parent[0] ? s->parent : NULL};

    if (!host_space(pr, &space))
        say(pr,
            "PMIx: namespace %s of other nodes cannot be registered: no rank here can connect "
            "to it",
            s->nspace);
}

static void space_free(struct far_space *s)
{
    free(s->node_of);
    free(s->app_procs);
    free(s->nspace);
    free(s->parent);
    free(s);
}

bool far_space(struct pmirun *pr, uint32_t number, const struct space *from)
{
    struct far *f = far_get(pr);
    struct far_space *s;

    if (number < pr->n_jobs || number < f->n_known || number == UINT32_MAX)
        return false;
    s = xrealloc(NULL, sizeof(*s));
    *s = (struct far_space){f->spaces, number, from->n_ranks, from->n_apps, NULL, NULL, NULL, NULL};
    s->node_of = xrealloc(NULL, from->n_ranks * sizeof(*s->node_of));
    memcpy(s->node_of, from->node_of, from->n_ranks * sizeof(*s->node_of));
    s->app_procs = xrealloc(NULL, (from->n_apps + 1) * sizeof(*s->app_procs));
    memcpy(s->app_procs, from->app_procs, from->n_apps * sizeof(*s->app_procs));
    s->nspace = xprintf("%s", from->nspace);
    s->parent = xprintf("%s", from->parent ? from->parent : "");
    f->spaces = s;
    if (f->ready)
        tell_host(pr, s);
    far_known(pr, number);
    return true;
}

void far_space_over(struct pmirun *pr, uint32_t number)
{
    struct far_space **p = pr->far ? &pr->far->spaces : NULL, *s;

    while (p && *p && (*p)->number != number)
        p = &(*p)->next;
    if (!p || !*p)
        return;
    far_nodes_over(pr, number);
    s = *p;
    *p = s->next;
    if (pr->far->ready)
        host_space_over(pr, s->nspace);
    space_free(s);
}

/* Is this job among those of the signature? */
static bool has_job(void *ctx, const struct collect_sig *sig)
{
    const uint32_t *job = ctx;
    struct msg_in in = {(const char *)sig->p + 1, sig->len - 1, false};
    uint32_t jobs = get_u32(&in);

    for (uint32_t i = 0; i < jobs; i++) {
        const uint32_t number = get_u32(&in), runs = get_u32(&in);

        if (number == *job)
            return true;
        in.p += (size_t)runs * 8;
        in.left -= (size_t)runs * 8;
    }
    return false;
}

void far_nodes_over(struct pmirun *pr, uint32_t job)
{
    if (pr->far->collect)
        collect_drop(pr->far->collect, has_job, &job);
}

void far_nodes_gone(struct pmirun *pr)
{
    if (pr->far->collect)
        collect_check(pr->far->collect);
}

void far_nodes_ready(struct pmirun *pr)
{
    for (const struct far_space *s = pr->far->spaces; s && !pr->far->ready; s = s->next)
        tell_host(pr, s);
    pr->far->ready = true;
}

void far_nodes_tick(struct pmirun *pr)
{
    if (pr->far->collect)
        collect_tick(pr->far->collect);
}

void far_nodes_init(struct pmirun *pr, struct far *f)
{
    static const struct parcel_ops parcel_ops = {on_piece, on_message};
    static const struct collect_ops collect_ops = {on_collect_send, on_collect_gone,
                                                   on_collect_stuck};

    f->early_tail = &f->early;
    f->parcels = parcels_create(pr->opt.n_nodes + 1, &parcel_ops, pr);
    if (!pr->agent)
        return;
    f->collect = collect_create(own_node(pr), NULL, &collect_ops, pr);
    if (!f->collect)
        die(STATUS_RESOURCES, "out of memory for collectives of PMIx clients");
}

void far_nodes_stop(struct far *f)
{
    parcels_destroy(f->parcels);
    collect_destroy(f->collect);
    while (f->spaces) {
        struct far_space *s = f->spaces;

        f->spaces = s->next;
        space_free(s);
    }
    while (f->served) {
        struct served *s = f->served;

        f->served = s->next;
        free(s);
    }
    while (f->early) {
        struct early *e = f->early;

        f->early = e->next;
        free(e);
    }
}
