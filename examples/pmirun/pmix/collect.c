/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "collect.h"

#include <stdlib.h>
#include <string.h>

/* What a member has brought. */
struct part {
    bool joined;
    char *p;
    size_t len;
};

struct entry {
    struct entry *next;
    struct collect_sig sig; /* its bytes and members are the entry's */
    uint32_t mine;          /* our place among the members */
    bool entered;           /* by us */
    bool asked;             /* root: the members that are missing; else: by the root */
    bool answered;          /* we have been called back */
    bool told;              /* root: it has notified the members of the failure */
    int status;             /* why it has failed; FAR_OK: it has not, that we know of */
    host_done_fn done;
    void *done_ctx;
    struct part *parts; /* root: by member; else NULL */
    uint32_t n_joined;
    uint64_t bytes;      /* of all of the above */
    uint64_t data_bytes; /* of the parts among them */
};

struct collect {
    uint32_t me;
    struct collect_limits limits;
    struct collect_ops ops;
    void *ctx;
    struct entry *entries, **tail;
    uint32_t pending;
    uint64_t bytes;
};

struct collect *collect_create(uint32_t me, const struct collect_limits *limits,
                               const struct collect_ops *ops, void *ctx)
{
    struct collect *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->me = me;
    c->limits = limits ? *limits : (struct collect_limits){COLLECT_PENDING, COLLECT_BYTES};
    c->ops = *ops;
    c->ctx = ctx;
    c->tail = &c->entries;
    return c;
}

uint32_t collect_pending(const struct collect *c)
{
    return c->pending;
}

/* ---- entries ---- */

static void release_parts(struct collect *c, struct entry *e)
{
    for (uint32_t i = 0; e->parts && i < e->sig.n; i++) {
        free(e->parts[i].p);
        e->parts[i].p = NULL;
        e->parts[i].len = 0;
    }
    e->bytes -= e->data_bytes;
    c->bytes -= e->data_bytes;
    e->data_bytes = 0;
}

static void entry_free(struct collect *c, struct entry *e)
{
    release_parts(c, e);
    c->bytes -= e->bytes;
    c->pending--;
    free(e->parts);
    free(e);
}

static void unlink_entry(struct collect *c, struct entry *e)
{
    struct entry **p = &c->entries;

    while (*p != e)
        p = &(*p)->next;
    *p = e->next;
    if (c->tail == &e->next)
        c->tail = p;
}

static bool same_sig(const struct collect_sig *a, const struct collect_sig *b)
{
    return a->len == b->len && memcmp(a->p, b->p, a->len) == 0;
}

/* The place of a node among the members; sig->n: it is none. */
static uint32_t place_of(const struct collect_sig *sig, uint32_t node)
{
    uint32_t low = 0, high = sig->n;

    while (low < high) {
        const uint32_t mid = low + (high - low) / 2;

        if (sig->members[mid] < node)
            low = mid + 1;
        else
            high = mid;
    }
    return low < sig->n && sig->members[low] == node ? low : sig->n;
}

/* NULL: a limit, or no memory. */
static struct entry *entry_new(struct collect *c, const struct collect_sig *sig, int *status)
{
    const bool root = sig->members[0] == c->me;
    const uint64_t bytes = sizeof(struct entry) + sig->len + sig->n * sizeof(uint32_t) +
                           (root ? sig->n * sizeof(struct part) : 0);
    struct entry *e;
    uint32_t *members;

    *status = FAR_ELIMIT;
    if (c->pending >= c->limits.pending || bytes > c->limits.bytes - c->bytes)
        return NULL;
    *status = FAR_ENOMEM;
    e = malloc(sizeof(*e) + sig->n * sizeof(uint32_t) + sig->len);
    if (!e)
        return NULL;
    members = (uint32_t *)(e + 1);
    memcpy(members, sig->members, sig->n * sizeof(*members));
    memcpy(members + sig->n, sig->p, sig->len);
    *e = (struct entry){.sig = {members + sig->n, sig->len, members, sig->n}, .bytes = bytes};
    e->mine = place_of(sig, c->me);
    e->parts = root ? calloc(sig->n, sizeof(*e->parts)) : NULL;
    if (root && !e->parts) {
        free(e);
        return NULL;
    }
    c->pending++;
    c->bytes += bytes;
    *c->tail = e;
    c->tail = &e->next;
    *status = FAR_OK;
    return e;
}

/* Has this member joined? A member other than the root knows this only of itself. */
static bool has_joined(const struct entry *e, uint32_t member)
{
    return e->parts ? e->parts[member].joined : e->entered;
}

/* The first that this member has not joined, or, with `joined`, has. */
static struct entry *entry_find(struct collect *c, const struct collect_sig *sig, uint32_t member,
                                bool joined)
{
    struct entry *e = c->entries;

    while (e && (!same_sig(&e->sig, sig) || has_joined(e, member) != joined))
        e = e->next;
    return e;
}

static void call_back(struct entry *e, int status, const void *data, size_t len)
{
    if (!e->entered || e->answered)
        return;
    e->answered = true;
    e->done(e->done_ctx, status, data, len);
}

/* ---- the root ---- */

/* Notifies the members that have joined, except this node. */
static void send_result(struct collect *c, struct entry *e, int status, const void *data,
                        size_t len)
{
    uint32_t *nodes = malloc(e->sig.n * sizeof(*nodes)), n = 0, one;

    for (uint32_t i = 0; i < e->sig.n; i++) {
        if (i == e->mine || !e->parts[i].joined)
            continue;
        one = e->sig.members[i];
        if (nodes)
            nodes[n++] = one;
        else /* one by one */
            c->ops.send(c->ctx, &one, 1, COLLECT_RESULT, &e->sig, status, data, len);
    }
    if (n)
        c->ops.send(c->ctx, nodes, n, COLLECT_RESULT, &e->sig, status, data, len);
    free(nodes);
}

/* Notifies the members that have joined failed ones of this signature: not before the earlier ones
 * have their results, since a member takes results in the order of its joins. */
static void tell_failed(struct collect *c, const struct collect_sig *sig)
{
    for (struct entry *e = c->entries; e; e = e->next) {
        if (!same_sig(&e->sig, sig))
            continue;
        if (!e->status)
            return;
        if (e->told)
            continue;
        e->told = true;
        send_result(c, e, e->status, NULL, 0);
        call_back(e, e->status, NULL, 0);
    }
}

static void fail(struct collect *c, struct entry *e, int status)
{
    if (e->status)
        return;
    e->status = status;
    release_parts(c, e);
    tell_failed(c, &e->sig);
}

/* All members have joined. */
static void complete(struct collect *c, struct entry *e)
{
    size_t len = 0;
    char *all;

    for (uint32_t i = 0; i < e->sig.n; i++)
        len += e->parts[i].len;
    all = malloc(len ? len : 1);
    if (!all) {
        fail(c, e, FAR_ENOMEM);
        return;
    }
    len = 0;
    for (uint32_t i = 0; i < e->sig.n; i++) {
        memcpy(all + len, e->parts[i].p, e->parts[i].len);
        len += e->parts[i].len;
    }
    release_parts(c, e);
    send_result(c, e, FAR_OK, all, len);
    call_back(e, FAR_OK, all, len);
    free(all);
}

/* Keeps a member's data. */
static void keep(struct collect *c, struct entry *e, struct part *part, const void *data,
                 size_t len)
{
    if (len > c->limits.bytes - c->bytes) {
        fail(c, e, FAR_ELIMIT);
        return;
    }
    part->p = malloc(len ? len : 1);
    if (!part->p) {
        fail(c, e, FAR_ENOMEM);
        return;
    }
    if (len)
        memcpy(part->p, data, len);
    part->len = len;
    e->data_bytes += len;
    e->bytes += len;
    c->bytes += len;
}

/* A member has joined, perhaps this node. False: the entry was freed. */
static bool join(struct collect *c, struct entry *e, uint32_t member, const void *data, size_t len)
{
    const uint32_t node = e->sig.members[member];

    e->parts[member].joined = true;
    e->n_joined++;
    if (!e->status)
        keep(c, e, &e->parts[member], data, len);
    else if (e->told && member == e->mine) /* too late */
        call_back(e, e->status, NULL, 0);
    else if (e->told)
        c->ops.send(c->ctx, &node, 1, COLLECT_RESULT, &e->sig, e->status, NULL, 0);
    if (e->n_joined < e->sig.n)
        return true;
    if (!e->status)
        complete(c, e);
    unlink_entry(c, e);
    tell_failed(c, &e->sig);
    entry_free(c, e);
    return false;
}

/* Can this node still join a collective in which others wait for it? */
static void check_entry(struct collect *c, struct entry *e)
{
    const bool waited_for = e->parts || e->asked;

    if (!waited_for || e->status || has_joined(e, e->mine) || !c->ops.gone(c->ctx, &e->sig))
        return;
    c->ops.stuck(c->ctx, &e->sig);
    if (e->parts) {
        fail(c, e, FAR_EGONE);
        return;
    }
    e->status = FAR_EGONE; /* and reported once */
    c->ops.send(c->ctx, e->sig.members, 1, COLLECT_FAIL, &e->sig, FAR_EGONE, NULL, 0);
}

/* ---- what happens ---- */

void collect_enter(struct collect *c, const struct collect_sig *sig, const void *data, size_t len,
                   host_done_fn done, void *done_ctx)
{
    const uint32_t mine = place_of(sig, c->me);
    struct entry *e = entry_find(c, sig, mine, false);
    int status = FAR_OK;

    if (!e)
        e = entry_new(c, sig, &status);
    if (!e) {
        done(done_ctx, status, NULL, 0);
        return;
    }
    e->entered = true;
    e->done = done;
    e->done_ctx = done_ctx;
    if (e->parts) {
        join(c, e, mine, data, len);
    } else if (len > c->limits.bytes) { /* the root could not keep it, nor a message carry it */
        call_back(e, FAR_ELIMIT, NULL, 0);
        c->ops.send(c->ctx, sig->members, 1, COLLECT_JOIN, &e->sig, FAR_ELIMIT, NULL, 0);
    } else {
        c->ops.send(c->ctx, sig->members, 1, COLLECT_JOIN, &e->sig, FAR_OK, data, len);
    }
}

static int on_join(struct collect *c, uint32_t from, const struct collect_sig *sig, bool whole,
                   const void *data, size_t len)
{
    const uint32_t member = place_of(sig, from);
    struct entry *e;
    int status;

    if (sig->members[0] != c->me)
        return FAR_EINVAL;
    e = entry_find(c, sig, member, false);
    if (!e)
        e = entry_new(c, sig, &status);
    if (!e)
        return status;
    if (!whole)
        fail(c, e, FAR_ELIMIT);
    if (join(c, e, member, data, len))
        check_entry(c, e);
    return FAR_OK;
}

static int on_result(struct collect *c, uint32_t from, const struct collect_sig *sig, int status,
                     const void *data, size_t len)
{
    struct entry *e = sig->members[0] == from ? entry_find(c, sig, 0, true) : NULL;

    if (!e)
        return FAR_EINVAL;
    unlink_entry(c, e);
    call_back(e, status, data, len);
    entry_free(c, e);
    return FAR_OK;
}

static int on_ask(struct collect *c, uint32_t from, const struct collect_sig *sig)
{
    struct entry *e;
    int status;

    if (sig->members[0] != from)
        return FAR_EINVAL;
    if (entry_find(c, sig, 0, true)) /* our JOIN is on its way */
        return FAR_OK;
    e = entry_find(c, sig, 0, false);
    if (!e)
        e = entry_new(c, sig, &status);
    if (!e)
        return status;
    e->asked = true;
    e->status = FAR_OK; /* for each question an answer */
    check_entry(c, e);
    return FAR_OK;
}

static int on_fail(struct collect *c, uint32_t from, const struct collect_sig *sig)
{
    const uint32_t member = place_of(sig, from);

    if (sig->members[0] != c->me)
        return FAR_EINVAL;
    for (struct entry *e = c->entries; e; e = e->next) /* a gone rank does not come back */
        if (same_sig(&e->sig, sig) && !e->parts[member].joined)
            fail(c, e, FAR_EGONE);
    return FAR_OK;
}

int collect_heard(struct collect *c, uint32_t from, enum collect_frame what,
                  const struct collect_sig *sig, int status, const void *data, size_t len)
{
    if (from == c->me || place_of(sig, c->me) == sig->n || place_of(sig, from) == sig->n)
        return FAR_EINVAL;
    switch (what) {
    case COLLECT_JOIN: return on_join(c, from, sig, status == FAR_OK, data, len);
    case COLLECT_RESULT: return on_result(c, from, sig, status, data, len);
    case COLLECT_ASK: return on_ask(c, from, sig);
    case COLLECT_FAIL: return on_fail(c, from, sig);
    default: return FAR_EINVAL;
    }
}

void collect_check(struct collect *c)
{
    for (struct entry *e = c->entries; e; e = e->next)
        check_entry(c, e);
}

void collect_drop(struct collect *c, bool (*is_over)(void *ctx, const struct collect_sig *sig),
                  void *ctx)
{
    for (struct entry *e = c->entries, *next; e; e = next) {
        next = e->next;
        if (!is_over(ctx, &e->sig))
            continue;
        unlink_entry(c, e);
        call_back(e, FAR_EGONE, NULL, 0);
        entry_free(c, e);
    }
}

/* Is it the first of its signature that can still complete? A member that waits in an earlier one
 * would take the question to be about that one. */
static bool is_next(const struct collect *c, const struct entry *e)
{
    const struct entry *first = c->entries;

    while (first != e && (first->status || !same_sig(&first->sig, &e->sig)))
        first = first->next;
    return first == e;
}

/* Asks the members that are missing. */
static void ask(struct collect *c, struct entry *e)
{
    e->asked = true;
    for (uint32_t i = 0; i < e->sig.n; i++)
        if (i != e->mine && !e->parts[i].joined)
            c->ops.send(c->ctx, &e->sig.members[i], 1, COLLECT_ASK, &e->sig, FAR_OK, NULL, 0);
}

void collect_tick(struct collect *c)
{
    for (struct entry *e = c->entries; e; e = e->next)
        if (e->parts && !e->asked && !e->status && is_next(c, e))
            ask(c, e);
}

void collect_destroy(struct collect *c)
{
    while (c && c->entries) {
        struct entry *e = c->entries;

        c->entries = e->next;
        entry_free(c, e);
    }
    free(c);
}
