/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives among nodes, each a Fence of the group's exchange. */
#define _GNU_SOURCE
#include "groups.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <pmiwire/exchange.h>

#define PIECE_BYTES  61440u     /* of a node's data, in one pair */
#define STATUS_PIECE UINT32_MAX /* the number of a pair that carries a status instead */
#define FRAME_SEQ    16u        /* where a frame has the number of its collective (EXCHANGE.md) */
#define FRAME_TYPE   4u

struct group {
    struct group *next;
    struct pmix_host *host;
    enum group_kind kind;
    char *sig;
    uint32_t sig_len;
    uint32_t last_job; /* the highest number of a job */
    uint32_t n_nodes, me;
    uint32_t *nodes; /* node numbers of the members */
    uint32_t n_procs;
    struct group_proc *procs; /* the exchange's ranks */
    uint32_t *member_of;      /* by those */
    size_t bytes;
    struct pmiwire_exchange *x;
    uint32_t n_done, n_heard; /* collectives that have ended here, that others have begun */
    bool over;                /* to be freed */
    uint64_t asked;           /* GROUP_MODEX: the token of our request to libpmix; 0: none */
    uint32_t n_ticks_gone;    /* and for how long the rank has been gone */

    /* The collective in which our ranks are. */
    bool entered;
    host_done_fn done;
    void *ctx;
    int status;
    char *data;
    size_t len, cap;
    uint32_t last_node, n_pieces; /* of what has come in last */
};

/* ---- signatures ---- */

/* Little-endian words: the kind; the number of jobs; for each, ascending: its number, the number of
 * its runs; for each, ascending: first rank, how many, how far apart. Of a GROUP_MODEX: the kind;
 * job and rank; the node that asks, and its number of the request. */

struct words {
    const unsigned char *p;
    size_t left;
    bool bad;
};

static uint32_t word_read(struct words *w)
{
    uint32_t v;

    if (w->left < 4) {
        w->bad = true;
        return 0;
    }
    v = le32_read(w->p);
    w->p += 4;
    w->left -= 4;
    return v;
}

struct signature {
    uint32_t len;
    char p[GROUP_SIGNATURE_BYTES];
};

static bool signature_add(struct signature *s, uint32_t v)
{
    if (s->len + 4 > sizeof(s->p))
        return false;
    le32_write(s->p + s->len, v);
    s->len += 4;
    return true;
}

static int procs_compare(const void *a, const void *b)
{
    const struct group_proc *x = a, *y = b;

    if (x->job != y->job)
        return x->job < y->job ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* The end of the run that begins at i. */
static size_t run_end(const struct group_proc *procs, size_t n, size_t i)
{
    size_t k = i + 1;

    while (k < n && procs[k].job == procs[i].job &&
           (k == i + 1 || procs[k].rank - procs[k - 1].rank == procs[i + 1].rank - procs[i].rank))
        k++;
    return k;
}

/* False: it is too long. */
static bool signature_write(struct signature *s, enum group_kind kind,
                            const struct group_proc *procs, size_t n)
{
    uint32_t jobs = 0;
    bool ok = true;

    s->len = 0;
    for (size_t i = 0; i < n; i++)
        jobs += i == 0 || procs[i].job != procs[i - 1].job;
    ok = signature_add(s, (uint32_t)kind) && signature_add(s, jobs);
    for (size_t i = 0, end; i < n && ok; i = end) {
        uint32_t runs = 0;

        for (end = i; end < n && procs[end].job == procs[i].job; end = run_end(procs, n, end))
            runs++;
        ok = signature_add(s, procs[i].job) && signature_add(s, runs);
        for (size_t k = i, next; k < end && ok; k = next) {
            next = run_end(procs, n, k);
            ok = signature_add(s, procs[k].rank) && signature_add(s, (uint32_t)(next - k)) &&
                 signature_add(s, next > k + 1 ? procs[k + 1].rank - procs[k].rank : 1);
        }
    }
    return ok;
}

/* Reads the processes of a job. Returns how many there are in all; 0: malformed. */
static uint32_t runs_read(struct words *w, const struct host_job *job, struct group_proc *procs,
                          uint32_t n, uint32_t room)
{
    const uint32_t runs = word_read(w);

    for (uint32_t i = 0; i < runs; i++) {
        const uint32_t first = word_read(w), count = word_read(w), step = word_read(w);

        if (w->bad || count == 0 || step == 0 || count > room - n || first >= job->n_ranks ||
            (count - 1) > (job->n_ranks - 1 - first) / step)
            return 0;
        for (uint32_t k = 0; k < count; k++)
            procs[n++] = (struct group_proc){job->number, first + k * step};
    }
    return runs ? n : 0;
}

enum verdict { SIGNATURE_GOOD, SIGNATURE_WRONG, SIGNATURE_OVER, SIGNATURE_NO_MEMORY };

/* The room that its processes need, at most; and are all jobs known? The launcher keeps a frame
 * until its jobs are: one that is not known is over. */
static enum verdict jobs_check(const struct pmix_host *h, struct words w, uint32_t *room)
{
    const uint32_t jobs = word_read(&w);
    uint32_t last = 0;
    uint64_t n = 0;

    for (uint32_t i = 0; i < jobs; i++) {
        const uint32_t number = word_read(&w), runs = word_read(&w);
        const struct host_job *job = host_job_find(h, number);

        if (w.bad || runs > w.left / 12 || (i > 0 && number <= last))
            return SIGNATURE_WRONG;
        last = number;
        if (!job)
            return SIGNATURE_OVER;
        n += job->n_ranks;
        w.p += (size_t)runs * 12;
        w.left -= (size_t)runs * 12;
    }
    *room = (uint32_t)n;
    return w.left || n == 0 || n > INT32_MAX ? SIGNATURE_WRONG : SIGNATURE_GOOD;
}

/* Lists the processes of a collective's signature. Only the form of signature_write() is valid. */
static enum verdict procs_read(struct group *g, struct words *w)
{
    struct signature *again;
    enum verdict v;
    uint32_t room = 0, jobs, n = 0;

    v = jobs_check(g->host, *w, &room);
    if (v != SIGNATURE_GOOD)
        return v;
    g->procs = malloc(room * sizeof(*g->procs));
    again = malloc(sizeof(*again));
    v = g->procs && again ? SIGNATURE_GOOD : SIGNATURE_NO_MEMORY;
    jobs = word_read(w);
    for (uint32_t i = 0; i < jobs && v == SIGNATURE_GOOD; i++) {
        g->last_job = word_read(w);
        n = runs_read(w, host_job_find(g->host, g->last_job), g->procs, n, room);
        v = n ? v : SIGNATURE_WRONG;
    }
    g->n_procs = n;
    for (uint32_t i = 1; i < n && v == SIGNATURE_GOOD; i++)
        v = procs_compare(&g->procs[i - 1], &g->procs[i]) < 0 ? v : SIGNATURE_WRONG;
    if (v == SIGNATURE_GOOD && (!signature_write(again, g->kind, g->procs, n) ||
                                again->len != g->sig_len || memcmp(again->p, g->sig, g->sig_len)))
        v = SIGNATURE_WRONG;
    free(again);
    return v;
}

/* A request for a rank's data: of the exchange's ranks 0 and 1, one is on each node. */
static enum verdict modex_read(struct group *g, struct words *w)
{
    const uint32_t number = word_read(w), rank = word_read(w), asks = word_read(w);
    const struct host_job *job = host_job_find(g->host, number);

    if (w->left != 8 || asks >= g->host->n_nodes)
        return SIGNATURE_WRONG;
    if (!job)
        return SIGNATURE_OVER;
    if (rank >= job->n_ranks || job->node_of[rank] == asks)
        return SIGNATURE_WRONG;
    g->last_job = number;
    g->n_procs = 2;
    g->procs = calloc(2, sizeof(*g->procs));
    if (!g->procs)
        return SIGNATURE_NO_MEMORY;
    g->procs[0] = g->procs[1] = (struct group_proc){number, rank};
    return SIGNATURE_GOOD;
}

/* ---- members ---- */

static uint32_t proc_node(const struct group *g, uint32_t i)
{
    struct words w = {(const unsigned char *)g->sig + 12, g->sig_len - 12, false};
    const struct host_job *job = host_job_find(g->host, g->procs[i].job);
    const uint32_t home = job->node_of[g->procs[i].rank];
    uint32_t asks;

    if (g->kind != GROUP_MODEX)
        return home;
    asks = word_read(&w);
    return (i == 0) == (asks < home) ? asks : home;
}

/* Lists the nodes that take part. */
static enum verdict members_list(struct group *g)
{
    const uint32_t n = g->host->n_nodes;
    uint32_t *index = malloc(n * sizeof(*index));
    bool here = false;

    g->member_of = malloc(g->n_procs * sizeof(*g->member_of));
    g->nodes = malloc((n < g->n_procs ? n : g->n_procs) * sizeof(*g->nodes));
    if (!index || !g->member_of || !g->nodes) {
        free(index);
        return SIGNATURE_NO_MEMORY;
    }
    memset(index, 0, n * sizeof(*index));
    for (uint32_t i = 0; i < g->n_procs; i++)
        index[proc_node(g, i)] = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (!index[i])
            continue;
        index[i] = g->n_nodes;
        if (i == g->host->node) {
            g->me = g->n_nodes;
            here = true;
        }
        g->nodes[g->n_nodes++] = i;
    }
    for (uint32_t i = 0; i < g->n_procs; i++)
        g->member_of[i] = index[proc_node(g, i)];
    free(index);
    return here ? SIGNATURE_GOOD : SIGNATURE_WRONG;
}

/* The member that this node is; n_nodes: none. */
static uint32_t member_find(const struct group *g, uint32_t node)
{
    uint32_t i = 0;

    while (i < g->n_nodes && g->nodes[i] != node)
        i++;
    return i;
}

/* ---- the exchange's callbacks ---- */

static int send_frame(void *ctx, uint32_t node, const struct iovec *iov, uint32_t n_iov,
                      size_t bytes)
{
    const struct group *g = ctx;
    struct iovec all[PMIWIRE_EXCHANGE_MAX_IOV + 2];
    char len[4];

    le32_write(len, g->sig_len);
    all[0] = (struct iovec){len, sizeof(len)};
    all[1] = (struct iovec){g->sig, g->sig_len};
    memcpy(&all[2], iov, n_iov * sizeof(*iov));
    return g->host->ops.send(g->host->ctx, g->nodes[node], g->last_job, all, n_iov + 2);
}

static uint32_t node_of_rank(void *ctx, uint32_t rank)
{
    return ((const struct group *)ctx)->member_of[rank];
}

/* No Get looks for the pairs: the exchange need not keep them. */
static int find_pair(void *ctx, struct pmiwire_str key, struct pmiwire_str *value)
{
    return PMIWIRE_ENOENT;
}

static void data_append(struct group *g, struct pmiwire_str piece)
{
    if (g->len + piece.len > g->cap) {
        const size_t cap = 2 * (g->len + piece.len);
        char *more = realloc(g->data, cap);

        if (!more) {
            g->status = HOST_ENOMEM;
            return;
        }
        g->data = more;
        g->cap = cap;
    }
    memcpy(g->data + g->len, piece.ptr, piece.len);
    g->len += piece.len;
}

static int pair_take(struct group *g, const struct pmiwire_keyval *pair)
{
    struct words w = {(const unsigned char *)pair->key.ptr, pair->key.len, false};
    const uint32_t node = word_read(&w), piece = word_read(&w);

    if (w.bad || w.left || node >= g->n_nodes || node < g->last_node)
        return PMIWIRE_EPROTO;
    if (node > g->last_node)
        g->n_pieces = 0;
    g->last_node = node;
    if (piece == STATUS_PIECE) {
        struct words v = {(const unsigned char *)pair->value.ptr, pair->value.len, false};

        g->status = (int)word_read(&v);
        return v.bad || g->status >= 0 ? PMIWIRE_EPROTO : 0;
    }
    if (piece != g->n_pieces++)
        return PMIWIRE_EPROTO;
    if (g->len + pair->value.len > GROUP_DATA_BYTES)
        g->status = HOST_ELIMIT;
    if (g->status == HOST_OK && pair->value.len)
        data_append(g, pair->value);
    return 0;
}

static int take_pairs(void *ctx, uint32_t kind, uint32_t number, const void *block, size_t bytes)
{
    struct pmiwire_keyval pair;
    size_t pos = 0;
    int rc;

    while ((rc = pmiwire_block_next(block, bytes, &pos, &pair)) == 1)
        if ((rc = pair_take(ctx, &pair)) != 0)
            return rc;
    return rc;
}

/* The collective in which our ranks are has ended. */
static void collective_end(struct group *g, int rc)
{
    struct pmix_host *h = g->host;
    host_done_fn done = g->done;
    char *data = g->data;
    const size_t len = g->len;
    const int status = rc == 0 ? g->status : rc == -ENOMEM ? HOST_ENOMEM : HOST_EGONE;
    uint32_t why;
    int32_t rank;

    g->n_done++;
    g->entered = false;
    g->over = g->kind == GROUP_MODEX;
    g->data = NULL;
    g->done = NULL;
    if (rc == PMIWIRE_EGONE && g->kind != GROUP_MODEX) {
        rank = pmiwire_exchange_culprit(g->x, PMIWIRE_COLL_FENCE, &why);
        if (rank >= 0)
            h->ops.stuck(h->ctx, g->procs[rank].job, g->procs[rank].rank,
                         g->kind == GROUP_FENCE ? PMIWIRE_COLL_FENCE : PMIWIRE_STUCK_GROUP, why);
    }
    if (done)
        done(g->ctx, status, status == HOST_OK ? data : NULL, status == HOST_OK ? len : 0);
    free(data);
}

static void fence_done(void *ctx, uint32_t kind, uint32_t number, int rc)
{
    collective_end(ctx, rc);
}

static void exchange_failed(void *ctx, int rc, uint32_t node)
{
    struct group *g = ctx;

    g->host->ops.failed(g->host->ctx, rc == -ENOMEM
                                          ? "out of memory for a collective of PMIx clients"
                                          : "a collective of PMIx clients has failed on a node");
}

/* ---- groups ---- */

static void group_free(struct group *g)
{
    pmiwire_exchange_destroy(g->x);
    free(g->sig);
    free(g->nodes);
    free(g->procs);
    free(g->member_of);
    free(g->data);
    free(g);
}

static void group_remove(struct group **p)
{
    struct group *g = *p;

    *p = g->next;
    g->host->n_groups--;
    g->host->group_bytes -= g->bytes;
    group_free(g);
}

/* Frees the groups whose only collective has ended; not from a callback of the exchange. */
static void groups_sweep(struct pmix_host *h)
{
    for (struct group **p = &h->groups; *p;) {
        if ((*p)->over)
            group_remove(p);
        else
            p = &(*p)->next;
    }
}

static int exchange_create(struct group *g)
{
    const struct pmiwire_exchange_ops ops = {.size = sizeof(ops),
                                             .send = send_frame,
                                             .node_of = node_of_rank,
                                             .done = fence_done,
                                             .pairs = take_pairs,
                                             .find = find_pair,
                                             .failed = exchange_failed};
    struct pmiwire_exchange_opts o = {.size = sizeof(o),
                                      .ops = &ops,
                                      .ctx = g,
                                      .node = g->me,
                                      .n_nodes = g->n_nodes,
                                      .n_ranks = g->n_procs,
                                      .max_bytes = GROUP_DATA_BYTES};
    uint32_t *ranks = malloc(g->n_procs * sizeof(*ranks));
    int rc;

    if (!ranks)
        return -ENOMEM;
    for (uint32_t i = 0; i < g->n_procs; i++) {
        o.n_below += g->member_of[i] < g->me;
        if (g->member_of[i] == g->me)
            ranks[o.n_local++] = i;
    }
    o.ranks = ranks;
    rc = pmiwire_exchange_create(&o, &g->x);
    free(ranks);
    return rc;
}

/* Creates the group of a signature. */
static enum verdict group_make(struct pmix_host *h, const char *sig, uint32_t len,
                               struct group **group)
{
    struct words w = {(const unsigned char *)sig, len, false};
    struct group *g = calloc(1, sizeof(*g));
    enum verdict v = SIGNATURE_WRONG;

    if (!g)
        return SIGNATURE_NO_MEMORY;
    g->host = h;
    g->kind = (enum group_kind)word_read(&w);
    g->sig_len = len;
    g->sig = malloc(len + 1);
    if (!g->sig)
        v = SIGNATURE_NO_MEMORY;
    else if (memcpy(g->sig, sig, len) && g->kind == GROUP_MODEX)
        v = modex_read(g, &w);
    else if (g->kind >= GROUP_FENCE && g->kind < GROUP_MODEX)
        v = procs_read(g, &w);
    if (v == SIGNATURE_GOOD)
        v = members_list(g);
    g->bytes = sizeof(*g) + len + g->n_procs * (sizeof(*g->procs) + 2 * sizeof(*g->member_of)) +
               g->n_nodes * sizeof(*g->nodes);
    if (v == SIGNATURE_GOOD && g->n_nodes > 1 &&
        (h->n_groups >= GROUPS_MAX || g->bytes > GROUPS_BYTES - h->group_bytes ||
         exchange_create(g) != 0))
        v = SIGNATURE_NO_MEMORY;
    if (v != SIGNATURE_GOOD) {
        group_free(g);
        return v;
    }
    g->next = h->groups;
    h->groups = g;
    h->n_groups++;
    h->group_bytes += g->bytes;
    *group = g;
    return v;
}

static enum verdict group_get(struct pmix_host *h, const char *sig, uint32_t len,
                              struct group **group)
{
    struct group **p = &h->groups;

    while (*p && ((*p)->sig_len != len || memcmp((*p)->sig, sig, len) != 0))
        p = &(*p)->next;
    if (!*p)
        return group_make(h, sig, len, group);
    *group = *p; /* the one that is used most stays in front */
    *p = (*group)->next;
    (*group)->next = h->groups;
    h->groups = *group;
    return SIGNATURE_GOOD;
}

/* ---- collectives ---- */

static int piece_put(struct group *g, uint32_t piece, const char *p, size_t len)
{
    char key[8];

    le32_write(key, g->me);
    le32_write(key + 4, piece);
    return pmiwire_exchange_put(g->x, PMIWIRE_RANK_NONE, (struct pmiwire_str){key, sizeof(key)},
                                (struct pmiwire_str){p, len}, PMIWIRE_HINT_DENSE);
}

/* Our ranks enter, with data, or with an error for everybody. */
static void group_enter(struct group *g, int status, const char *data, size_t len,
                        host_done_fn done, void *ctx)
{
    uint32_t piece = 0;
    char text[4];
    int rc = 0;

    g->entered = true;
    g->done = done;
    g->ctx = ctx;
    g->status = HOST_OK;
    g->len = g->cap = 0;
    g->last_node = g->n_pieces = 0;
    if (status == HOST_OK && len > GROUP_DATA_BYTES)
        status = HOST_ELIMIT;
    for (size_t at = 0; status == HOST_OK && rc == 0 && at < len; at += PIECE_BYTES)
        rc = piece_put(g, piece++, data + at, len - at < PIECE_BYTES ? len - at : PIECE_BYTES);
    if (rc == -ENOMEM)
        status = HOST_ENOMEM;
    if (status != HOST_OK) {
        le32_write(text, (uint32_t)status);
        rc = piece_put(g, STATUS_PIECE, text, sizeof(text));
    }
    if (rc == -ENOMEM) { /* the others must not wait */
        pmiwire_exchange_fail(g->x, rc, 0);
        if (g->entered)
            collective_end(g, rc);
        return;
    }
    rc = pmiwire_exchange_fence(g->x, PMIWIRE_RANK_ALL);
    if (rc != 0 && g->entered)
        collective_end(g, rc);
}

static int verdict_status(enum verdict v)
{
    return v == SIGNATURE_OVER ? HOST_ENOENT : v == SIGNATURE_WRONG ? HOST_EINVAL : HOST_ELIMIT;
}

/* The first of these processes that is here and is gone; NULL: none. */
static const struct client *gone_find(const struct pmix_host *h, const struct group_proc *procs,
                                      size_t n, uint32_t *job)
{
    const struct host_job *of = NULL;

    for (size_t i = 0; i < n; i++) {
        const struct client *c;

        if (i == 0 || procs[i].job != procs[i - 1].job)
            of = host_job_find(h, procs[i].job);
        c = of ? host_client(of, procs[i].rank) : NULL;
        *job = procs[i].job;
        if (c && host_client_gone(c))
            return c;
    }
    return NULL;
}

void groups_enter(struct pmix_host *h, enum group_kind kind, struct group_proc *procs, size_t n,
                  const void *data, size_t len, host_done_fn done, void *ctx)
{
    struct signature *s = malloc(sizeof(*s));
    const struct client *gone;
    struct group *g = NULL;
    enum verdict v;
    uint32_t job;

    qsort(procs, n, sizeof(*procs), procs_compare);
    gone = gone_find(h, procs, n, &job);
    if (gone) { /* libpmix does not wait for such a client */
        h->ops.stuck(h->ctx, job, gone->rank,
                     kind == GROUP_FENCE ? PMIWIRE_COLL_FENCE : PMIWIRE_STUCK_GROUP,
                     host_client_gone(gone));
        done(ctx, HOST_EGONE, NULL, 0);
    } else if (!s) {
        done(ctx, HOST_ENOMEM, NULL, 0);
    } else if (!signature_write(s, kind, procs, n)) {
        done(ctx, HOST_ELIMIT, NULL, 0);
    } else if ((v = group_get(h, s->p, s->len, &g)) != SIGNATURE_GOOD) {
        done(ctx, verdict_status(v), NULL, 0);
    } else if (g->entered) {
        done(ctx, HOST_EINVAL, NULL, 0);
    } else if (g->n_nodes == 1) {
        g->over = true;
        done(ctx, HOST_OK, data, len);
    } else {
        group_enter(g, HOST_OK, data, len, done, ctx);
    }
    free(s);
    groups_sweep(h);
}

void groups_fetch(struct pmix_host *h, const struct host_job *job, uint32_t rank, host_done_fn done,
                  void *ctx)
{
    const uint64_t id = ++h->last_token;
    struct signature s = {0};
    struct group *g;
    enum verdict v;

    signature_add(&s, GROUP_MODEX);
    signature_add(&s, job->number);
    signature_add(&s, rank);
    signature_add(&s, h->node);
    signature_add(&s, (uint32_t)id);
    signature_add(&s, (uint32_t)(id >> 32));
    v = group_make(h, s.p, s.len, &g);
    if (v != SIGNATURE_GOOD)
        done(ctx, verdict_status(v), NULL, 0);
    else
        group_enter(g, HOST_OK, NULL, 0, done, ctx);
    groups_sweep(h);
}

/* libpmix has the data that another node asks for, or there is none. */
static void modex_end(struct group *g, int status, const char *data, size_t len)
{
    g->asked = 0;
    group_enter(g, status, data, len, NULL, NULL);
}

/* Another node asks for the data of a rank here. */
static void modex_begin(struct group *g)
{
    const struct host_job *job = host_job_find(g->host, g->procs[0].job);
    int status;

    g->asked = ++g->host->last_token;
    status = host_modex(g->host, job, g->procs[0].rank, g->asked);
    if (status != HOST_OK)
        modex_end(g, status, NULL, 0);
}

void groups_given(struct pmix_host *h, uint64_t token, int status, const char *data, size_t len)
{
    for (struct group *g = h->groups; g; g = g->next)
        if (g->asked == token) {
            modex_end(g, status, data, len);
            break;
        }
    groups_sweep(h);
}

/* libpmix would wait without end for data of a rank that is gone. Its answer may be on its way. */
static void modex_give_up(struct group *g)
{
    const struct host_job *job = host_job_find(g->host, g->procs[0].job);
    const struct client *c = job ? host_client(job, g->procs[0].rank) : NULL;

    if (g->asked && (!c || host_client_gone(c)) && g->n_ticks_gone++ >= 2)
        modex_end(g, HOST_ENOENT, NULL, 0);
}

/* ---- frames ---- */

/* Notes the collective that a frame belongs to, when it is a later one: others wait in it. */
static void frame_note(struct group *g, const char *frame)
{
    uint32_t number;

    memcpy(&number, frame + FRAME_SEQ, sizeof(number));
    if ((uint8_t)frame[FRAME_TYPE] == PMIWIRE_FRAME_COLL && number > g->n_heard)
        g->n_heard = number;
}

bool groups_input(struct pmix_host *h, uint32_t from, const void *p, size_t n)
{
    struct words w = {p, n, false};
    const uint32_t len = word_read(&w);
    const char *sig = (const char *)p + 4, *frame = sig + len;
    struct group *g = NULL;
    uint32_t member, n_before = h->n_groups;
    enum verdict v;
    int rc;

    if (w.bad || len > w.left || len > GROUP_SIGNATURE_BYTES)
        return false;
    v = group_get(h, sig, len, &g);
    if (v == SIGNATURE_NO_MEMORY)
        h->ops.failed(h->ctx, "a collective of PMIx clients cannot be kept: out of memory, or too "
                              "many groups of processes have had one");
    if (v != SIGNATURE_GOOD)
        return v != SIGNATURE_WRONG;
    member = member_find(g, from);
    rc = member == g->n_nodes || member == g->me
             ? PMIWIRE_EPROTO
             : pmiwire_exchange_input(g->x, member, frame, w.left - len);
    if (rc == 0)
        frame_note(g, frame);
    else if (h->n_groups > n_before)
        g->over = true; /* nothing valid has made it */
    if (rc == 0 && g->kind == GROUP_MODEX && h->n_groups > n_before)
        modex_begin(g);
    groups_sweep(h);
    return rc != PMIWIRE_EPROTO && rc != PMIWIRE_EVERSION;
}

void groups_link_ready(struct pmix_host *h, uint32_t node)
{
    for (struct group *g = h->groups; g; g = g->next) {
        const uint32_t member = member_find(g, node);

        if (g->x && member < g->n_nodes && member != g->me)
            pmiwire_exchange_ready(g->x, member);
    }
    groups_sweep(h);
}

/* ---- ends ---- */

static bool group_has_job(const struct group *g, uint32_t job)
{
    for (uint32_t i = 0; i < g->n_procs; i++)
        if (g->procs[i].job == job)
            return true;
    return false;
}

void groups_job_end(struct pmix_host *h, uint32_t job)
{
    for (struct group **p = &h->groups; *p;) {
        struct group *g = *p;

        if (!group_has_job(g, job)) {
            p = &g->next;
            continue;
        }
        if (g->done)
            g->done(g->ctx, HOST_EGONE, NULL, 0);
        group_remove(p);
    }
}

/*
 * Reports ranks here that are gone to the exchange, which names them to those that wait. A rank
 * that has finalized may be back, when a shell runs another program: so only if somebody waits.
 */
static void gone_report(struct group *g)
{
    const struct host_job *job = NULL;

    for (uint32_t i = 0; i < g->n_procs; i++) {
        const struct client *c;

        if (i == 0 || g->procs[i].job != g->procs[i - 1].job)
            job = host_job_find(g->host, g->procs[i].job);
        c = g->member_of[i] == g->me && job ? host_client(job, g->procs[i].rank) : NULL;
        if (c && host_client_gone(c))
            pmiwire_exchange_gone(g->x, (int32_t)i, host_client_gone(c));
    }
}

void groups_tick(struct pmix_host *h)
{
    for (struct group *g = h->groups; g; g = g->next) {
        if (g->kind == GROUP_MODEX)
            modex_give_up(g);
        else if (!g->entered && g->n_heard > g->n_done)
            gone_report(g);
        pmiwire_exchange_tick(g->x, h->now_ns);
    }
    groups_sweep(h);
}

void groups_free(struct pmix_host *h)
{
    while (h->groups)
        group_remove(&h->groups);
}
