/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put and Get. A SPARSE key is stored under its home. PMIWIRE__DENSE, where every lookup begins,
 * has the DENSE keys that no Fence has carried yet and, without ops->find, all keys that Fences
 * have brought.
 */
#include <errno.h>

#include "exchange_internal.h"

static uint32_t owner_of(const struct pmiwire_exchange *x, struct pmiwire_str key)
{
    return (uint32_t)(pmiwire__hash(x->owner_key, key) % x->n_nodes);
}

/* Returns the home of a key that a local rank puts. */
static uint32_t home_of(const struct pmiwire_exchange *x, struct pmiwire_str key)
{
    switch (x->design) {
    case PMIWIRE_DESIGN_TREE: return 0;
    case PMIWIRE_DESIGN_DIRECT: return x->me;
    default: return owner_of(x, key);
    }
}

/* Returns the entry if its value is valid at `seq` Fences. */
static uint32_t find_valid(const struct pmiwire_exchange *x, uint32_t home, struct pmiwire_str key,
                           uint32_t seq)
{
    uint32_t e = pmiwire__key_find(x, home, key);
    const struct pmiwire__key *entry = e != PMIWIRE__NONE ? pmiwire__key_at(x, e) : NULL;

    if (!entry || !(entry->flags & PMIWIRE__KEY_VALUE) || (home != x->me && entry->stamp < seq))
        return PMIWIRE__NONE;
    return e;
}

/* Looks among DENSE keys: first this node's before their Fence, then those that Fences have
 * brought. */
static bool find_dense(const struct pmiwire_exchange *x, struct pmiwire_str key,
                       struct pmiwire_str *value)
{
    uint32_t e = pmiwire__key_find(x, PMIWIRE__DENSE, key);

    if (e != PMIWIRE__NONE) {
        *value = pmiwire__key_value(x, e);
        return true;
    }
    return x->ops.find && x->ops.find(x->ctx, key, value) == 0;
}

/* ---- requests and answers ---- */

static uint16_t asked_bit(uint8_t flags)
{
    return flags & PMIWIRE__FRAME_WAIT ? PMIWIRE__KEY_ASKED_WAIT : PMIWIRE__KEY_ASKED;
}

/* Asks for an entry's value on behalf of those nodes and this one. @param flags WAIT or FRESH */
static void send_request(struct pmiwire_exchange *x, uint32_t e, const char *nodes,
                         uint32_t n_nodes, uint32_t seq, uint8_t flags)
{
    struct pmiwire__key *entry = pmiwire__key_at(x, e);
    struct pmiwire__frame f = {.type = PMIWIRE_FRAME_GET, .flags = flags, .seq = seq};
    struct pmiwire_str key = pmiwire__key_name(x, e);
    uint32_t me = x->me, n = 1,
             to = x->design == PMIWIRE_DESIGN_TREE ? pmiwire__tree_parent(x, x->me) : entry->home;
    struct iovec iov[4];

    f.arg = (uint16_t)(n_nodes + 1);
    if (n_nodes)
        iov[n++] = (struct iovec){(void *)(uintptr_t)nodes, n_nodes * sizeof(uint32_t)};
    iov[n++] = (struct iovec){&me, sizeof(me)};
    iov[n++] = (struct iovec){(void *)(uintptr_t)key.ptr, key.len};
    entry->flags |= asked_bit(flags);
    entry->n_asked += !(flags & PMIWIRE__FRAME_WAIT);
    if (flags & PMIWIRE__FRAME_FRESH)
        entry->flags |= PMIWIRE__KEY_ASKED_FRESH;
    pmiwire__send(x, to, &f, iov, n);
}

static void send_answer(struct pmiwire_exchange *x, uint32_t node, struct pmiwire_str key,
                        const struct pmiwire_str *value, uint32_t stamp, bool wait)
{
    struct pmiwire__frame f = {.type = PMIWIRE_FRAME_ANSWER, .seq = stamp};
    struct pmiwire_str none = {NULL, 0};

    f.flags = (uint8_t)((wait ? PMIWIRE__FRAME_WAIT : 0) | (value ? PMIWIRE__FRAME_FOUND : 0));
    pmiwire__send_pair(x, node, &f, key, value ? *value : none);
}

/* Returns the number of Fences at which an answer from here is valid. The home's answer includes
 * every pair put before any Fence that is complete here. */
static uint32_t answer_stamp(const struct pmiwire_exchange *x, uint32_t e, uint32_t seq)
{
    const struct pmiwire__key *entry = pmiwire__key_at(x, e);

    if (entry->home != x->me)
        return entry->stamp;
    return x->seq > seq ? x->seq : seq;
}

void pmiwire__requests_send(struct pmiwire_exchange *x, uint32_t e)
{
    static const uint8_t kinds[2] = {0, PMIWIRE__FRAME_WAIT};
    uint32_t seq[2] = {0, 0};
    bool any[2] = {false, false}, fresh = false;

    if (pmiwire__key_at(x, e)->home == x->me)
        return;
    for (uint32_t w = pmiwire__key_at(x, e)->head; w != PMIWIRE__NONE;
         w = x->store.waiters[w].next) {
        const struct pmiwire__waiter *waiter = &x->store.waiters[w];

        any[waiter->wait] = true;
        fresh = fresh || waiter->fresh;
        if (waiter->seq > seq[waiter->wait])
            seq[waiter->wait] = waiter->seq;
    }
    for (uint32_t i = 0; i < 2; i++)
        if (any[i] && !(pmiwire__key_at(x, e)->flags & asked_bit(kinds[i])))
            send_request(x, e, NULL, 0, seq[i], i == 0 && fresh ? PMIWIRE__FRAME_FRESH : kinds[i]);
}

void pmiwire__request_withdraw(struct pmiwire_exchange *x, uint32_t e)
{
    const struct pmiwire__key *entry = pmiwire__key_at(x, e);

    if (entry->head == PMIWIRE__NONE && (entry->flags & PMIWIRE__KEY_ASKED_WAIT) &&
        !(entry->flags & (PMIWIRE__KEY_ASKED | PMIWIRE__KEY_VALUE)))
        send_request(x, e, NULL, 0, x->seq, PMIWIRE__FRAME_FRESH);
}

/* Serves the waiters for which the entry's new value is new enough. */
static void serve_waiters(struct pmiwire_exchange *x, uint32_t e)
{
    struct pmiwire__keys *s = &x->store;
    bool home = pmiwire__key_at(x, e)->home == x->me;
    uint32_t w = pmiwire__waiters_take(x, e), next;

    for (; w != PMIWIRE__NONE; w = next) {
        struct pmiwire__waiter *waiter = &s->waiters[w];

        next = waiter->next;
        if (!home && waiter->seq > pmiwire__key_at(x, e)->stamp) {
            pmiwire__waiter_keep(x, e, w);
        } else if (waiter->remote) {
            struct pmiwire_str value = pmiwire__key_value(x, e);

            send_answer(x, (uint32_t)waiter->token, pmiwire__key_name(x, e), &value,
                        answer_stamp(x, e, waiter->seq), waiter->wait);
            pmiwire__waiter_free(x, w);
        } else {
            pmiwire__waiter_due(x, w, 0);
        }
    }
    pmiwire__requests_send(x, e);
}

/* Serves the waiters after the home had no value at `stamp` Fences. */
static void serve_without_value(struct pmiwire_exchange *x, uint32_t e, uint32_t stamp)
{
    struct pmiwire__keys *s = &x->store;
    const bool in_flight = pmiwire__key_at(x, e)->n_asked > 0;
    uint32_t w = pmiwire__waiters_take(x, e), next;

    for (; w != PMIWIRE__NONE; w = next) {
        struct pmiwire__waiter *waiter = &s->waiters[w];

        next = waiter->next;
        if (waiter->wait || waiter->stale || waiter->seq > stamp) {
            waiter->stale = waiter->stale && in_flight;
            pmiwire__waiter_keep(x, e, w);
        } else if (waiter->remote) {
            send_answer(x, (uint32_t)waiter->token, pmiwire__key_name(x, e), NULL, stamp, false);
            pmiwire__waiter_free(x, w);
        } else {
            pmiwire__waiter_due(x, w, PMIWIRE_ENOENT);
        }
    }
    pmiwire__requests_send(x, e);
    pmiwire__key_tidy(x, e);
}

/* Serves the waiters after a value has come that this node has no memory to keep: passes it on, and
 * ends the Gets of this node. */
static void serve_without_memory(struct pmiwire_exchange *x, uint32_t e,
                                 const struct pmiwire__record *rec, uint32_t stamp)
{
    struct pmiwire__keys *s = &x->store;
    uint32_t w = pmiwire__waiters_take(x, e), next;

    for (; w != PMIWIRE__NONE; w = next) {
        struct pmiwire__waiter *waiter = &s->waiters[w];

        next = waiter->next;
        if (waiter->seq > stamp) {
            pmiwire__waiter_keep(x, e, w);
        } else if (waiter->remote) {
            send_answer(x, (uint32_t)waiter->token, rec->key, &rec->value, stamp, waiter->wait);
            pmiwire__waiter_free(x, w);
        } else {
            pmiwire__waiter_due(x, w, -ENOMEM);
        }
    }
    pmiwire__requests_send(x, e);
    pmiwire__key_tidy(x, e);
}

/* ---- Put ---- */

static int check_pair(const struct pmiwire_exchange *x, struct pmiwire_str key,
                      struct pmiwire_str value)
{
    if (key.len == 0)
        return PMIWIRE_EEMPTY;
    if (key.len > PMIWIRE_EXCHANGE_MAX_KEY_BYTES)
        return PMIWIRE_EKEYLEN;
    if (value.len > PMIWIRE_EXCHANGE_MAX_VALUE_BYTES ||
        key.len + value.len > x->max_frame - PMIWIRE_EXCHANGE_OVERHEAD_BYTES)
        return PMIWIRE_EVALLEN;
    return 0;
}

static bool put_is_dense(const struct pmiwire_exchange *x, struct pmiwire_str key, uint32_t hint)
{
    struct pmiwire_str value;

    if (x->flags & PMIWIRE_EXCHANGE_FENCE_FREE)
        return false;
    if (hint == PMIWIRE_HINT_DENSE ||
        (hint == PMIWIRE_HINT_NONE && x->unhinted == PMIWIRE_HINT_DENSE))
        return true;
    return find_dense(x, key, &value); /* a Fence has brought the key, or will */
}

/* Returns the entry where this node's Gets wait for a key that a local rank puts, or
 * PMIWIRE__NONE. */
static uint32_t find_waited(const struct pmiwire_exchange *x, struct pmiwire_str key)
{
    uint32_t e = pmiwire__key_find(x, home_of(x, key), key);

    return e != PMIWIRE__NONE && pmiwire__key_at(x, e)->head != PMIWIRE__NONE ? e : PMIWIRE__NONE;
}

/* A Put that is not stored: it only serves waiters. */
static int put_to_waiters(struct pmiwire_exchange *x, struct pmiwire_str key,
                          struct pmiwire_str value)
{
    uint32_t e = find_waited(x, key);

    if (e == PMIWIRE__NONE)
        return 0;
    if (pmiwire__keys_reserve(x, 0, pmiwire__record_bytes(key.len, value.len)) != 0)
        return -ENOMEM;
    pmiwire__key_set(x, e, value, x->seq);
    serve_waiters(x, e);
    return 0;
}

/* Reserves room, so that put_dense() does not fail. Returns 0 or -ENOMEM. */
static int reserve_dense(struct pmiwire_exchange *x, struct pmiwire_str key, size_t value_len,
                         uint32_t waited)
{
    const bool keep = !x->ops.find;
    size_t bytes = pmiwire__record_bytes(key.len, value_len);

    if ((keep || waited != PMIWIRE__NONE) &&
        pmiwire__keys_reserve(x, keep, 2 * bytes + pmiwire__record_bytes(key.len, 0)) != 0)
        return -ENOMEM;
    return pmiwire__is_stopped(x, PMIWIRE_COLL_FENCE)
               ? 0
               : pmiwire__own_reserve(x, PMIWIRE_COLL_FENCE, bytes);
}

int pmiwire__exchange_reserve(struct pmiwire_exchange *x, struct pmiwire_str key, size_t value_len)
{
    const uint32_t waited = find_waited(x, key);

    if (x->err)
        return x->err;
    if (!pmiwire__keeps_nothing(x))
        return reserve_dense(x, key, value_len, waited);
    return waited == PMIWIRE__NONE
               ? 0
               : pmiwire__keys_reserve(x, 0, pmiwire__record_bytes(key.len, value_len));
}

/* Keeps a DENSE pair for the Fence and, without ops->find, for this node's Gets. */
static int put_dense(struct pmiwire_exchange *x, struct pmiwire_str key, struct pmiwire_str value)
{
    const struct pmiwire__coll *fence = &x->colls[PMIWIRE_COLL_FENCE];
    const bool keep = !x->ops.find, fenced = !pmiwire__is_stopped(x, PMIWIRE_COLL_FENCE);
    uint32_t waited = find_waited(x, key);

    if (reserve_dense(x, key, value.len, waited) != 0)
        return -ENOMEM;
    if (fenced)
        pmiwire__own_add(x, PMIWIRE_COLL_FENCE, key, value);
    if (keep)
        pmiwire__key_set(x, pmiwire__key_make(x, PMIWIRE__DENSE, key), value,
                         fence->number + fence->own_in);
    if (waited != PMIWIRE__NONE) {
        pmiwire__key_set(x, waited, value, x->seq);
        pmiwire__key_mark_copy(x, waited);
        serve_waiters(x, waited);
    }
    return 0;
}

static void send_put(struct pmiwire_exchange *x, uint32_t home, struct pmiwire_str key,
                     struct pmiwire_str value)
{
    struct pmiwire__frame f = {.type = PMIWIRE_FRAME_PUT, .seq = x->seq};
    uint32_t to = home;

    if (x->design == PMIWIRE_DESIGN_TREE) {
        to = pmiwire__tree_parent(x, x->me);
    } else if (!(x->flags & PMIWIRE_EXCHANGE_FENCE_FREE)) {
        f.flags = PMIWIRE__FRAME_ACK;
        x->n_unacked++;
    }
    pmiwire__send_pair(x, to, &f, key, value);
}

static int put_sparse(struct pmiwire_exchange *x, struct pmiwire_str key, struct pmiwire_str value)
{
    uint32_t home = home_of(x, key), e;

    if (pmiwire__keys_reserve(
            x, 1, pmiwire__record_bytes(key.len, value.len) + pmiwire__record_bytes(key.len, 0)) !=
        0)
        return -ENOMEM;
    e = pmiwire__key_make(x, home, key);
    pmiwire__key_set(x, e, value, x->seq);
    if (home != x->me) {
        pmiwire__key_mark_copy(x, e);
        send_put(x, home, key, value);
    }
    serve_waiters(x, e);
    return 0;
}

int pmiwire_exchange_put(struct pmiwire_exchange *x, int32_t rank, struct pmiwire_str key,
                         struct pmiwire_str value, uint32_t hint)
{
    int rc;

    if (x->err)
        return x->err;
    if (hint > PMIWIRE_HINT_DENSE ||
        (rank != PMIWIRE_RANK_NONE && pmiwire__local_rank(x, rank) == PMIWIRE__NONE))
        return -EINVAL;
    rc = check_pair(x, key, value);
    if (rc != 0)
        return rc;
    pmiwire__exchange_enter(x);
    if (pmiwire__keeps_nothing(x))
        rc = put_to_waiters(x, key, value);
    else
        rc = put_is_dense(x, key, hint) ? put_dense(x, key, value) : put_sparse(x, key, value);
    if (rc == 0)
        x->stats.n_puts++;
    pmiwire__exchange_leave(x);
    return rc;
}

/* Checks all records of a PUT, and that this node is to keep them. */
static int check_put(const struct pmiwire_exchange *x, const struct pmiwire__frame *f,
                     const char *p, size_t n, uint32_t *n_pairs)
{
    struct pmiwire__record rec;

    *n_pairs = 0;
    if (x->design == PMIWIRE_DESIGN_DIRECT || (f->flags & ~PMIWIRE__FRAME_ACK) || f->arg ||
        n == 0 || f->seq > x->seq + 1)
        return PMIWIRE_EPROTO;
    if ((f->flags != 0) !=
        (x->design == PMIWIRE_DESIGN_DKVS && !(x->flags & PMIWIRE_EXCHANGE_FENCE_FREE)))
        return PMIWIRE_EPROTO;
    if (x->design == PMIWIRE_DESIGN_TREE &&
        (f->from == 0 || pmiwire__tree_parent(x, f->from) != x->me))
        return PMIWIRE_EPROTO;
    for (size_t at = 0; at < n; at += rec.bytes, ++*n_pairs)
        if (pmiwire__record_read(p + at, n - at, &rec) != 0 ||
            (x->design == PMIWIRE_DESIGN_DKVS && owner_of(x, rec.key) != x->me))
            return PMIWIRE_EPROTO;
    return 0;
}

int pmiwire__on_put(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                    size_t n)
{
    uint32_t home = x->design == PMIWIRE_DESIGN_TREE ? 0 : x->me, n_pairs;
    int rc = check_put(x, f, p, n, &n_pairs);
    struct pmiwire__record rec;

    if (rc != 0)
        return rc;
    if (pmiwire__keys_reserve(x, n_pairs, 2 * n) != 0)
        return -ENOMEM;
    for (size_t at = 0; at < n; at += rec.bytes) {
        uint32_t e;

        rec = pmiwire__record_at(p + at);
        e = pmiwire__key_make(x, home, rec.key);
        if (home == x->me || !(pmiwire__key_at(x, e)->flags & PMIWIRE__KEY_VALUE) ||
            pmiwire__key_at(x, e)->stamp <= f->seq)
            pmiwire__key_set(x, e, rec.value, f->seq);
        if (home != x->me)
            pmiwire__key_mark_copy(x, e);
        serve_waiters(x, e);
    }
    if (home != x->me) {
        struct pmiwire__frame up = {.type = PMIWIRE_FRAME_PUT, .seq = f->seq};

        pmiwire__send_bytes(x, pmiwire__tree_parent(x, x->me), &up, p, n);
    } else if (f->flags & PMIWIRE__FRAME_ACK) {
        struct pmiwire__frame ack = {.type = PMIWIRE_FRAME_ACK, .seq = 1};

        pmiwire__send_bytes(x, f->from, &ack, NULL, 0);
    }
    return 0;
}

int pmiwire__on_ack(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                    size_t n)
{
    (void)p;
    if (n != 0 || f->flags || f->arg || f->seq == 0 || f->seq > x->n_unacked)
        return PMIWIRE_EPROTO;
    x->n_unacked -= f->seq;
    if (x->n_unacked == 0)
        pmiwire__puts_acked(x);
    return 0;
}

/* ---- Get ---- */

/* Queues a Get for a key of this home, and sends a request if none is in flight. */
static int wait_for_value(struct pmiwire_exchange *x, uint32_t home, struct pmiwire_str key,
                          const struct pmiwire__waiter *waiter)
{
    const uint8_t kind = waiter->wait    ? PMIWIRE__FRAME_WAIT
                         : waiter->fresh ? PMIWIRE__FRAME_FRESH
                                         : 0;
    uint32_t e;

    if (pmiwire__waiters_reserve(x, 1) != 0 ||
        pmiwire__keys_reserve(x, 1, pmiwire__record_bytes(key.len, 0)) != 0)
        return -ENOMEM;
    e = pmiwire__key_make(x, home, key);
    pmiwire__waiter_add(x, e, waiter);
    if (home == x->me)
        return PMIWIRE_PENDING;
    if (pmiwire__key_at(x, e)->flags & PMIWIRE__KEY_VALUE)
        x->stats.n_stale++;
    if (pmiwire__key_at(x, e)->flags & asked_bit(kind)) {
        x->stats.n_joined++;
        return PMIWIRE_PENDING;
    }
    x->stats.n_requests++;
    send_request(x, e, NULL, 0, x->seq, kind);
    return PMIWIRE_PENDING;
}

/* No rank is left to put the waiter's key: finds the one to name. */
static void find_gone_rank(const struct pmiwire_exchange *x, struct pmiwire__waiter *waiter,
                           int32_t src)
{
    uint32_t rank;

    for (uint32_t i = 0; i < x->n_local; i++) {
        rank = waiter->named ? (uint32_t)src : x->ranks[i];
        if (rank != waiter->rank && pmiwire__why_gone(x, rank)) {
            waiter->lost = rank;
            waiter->why = pmiwire__why_gone(x, rank);
            return;
        }
    }
}

int pmiwire_exchange_get(struct pmiwire_exchange *x, int32_t rank, struct pmiwire_str key,
                         int32_t src, uint32_t how, uint64_t token, struct pmiwire_str *value)
{
    struct pmiwire__waiter waiter = {
        .token = token, .seq = x->seq, .rank = PMIWIRE__NONE, .lost = PMIWIRE__NONE};
    uint32_t home, e;

    x->miss_rank = PMIWIRE__NONE;

    if (x->err)
        return x->err;
    if (how > PMIWIRE_GET_WAIT || src < PMIWIRE_RANK_NONE ||
        (src >= 0 && (uint32_t)src >= x->n_ranks) ||
        (rank != PMIWIRE_RANK_NONE && pmiwire__local_rank(x, rank) == PMIWIRE__NONE))
        return -EINVAL;
    if (key.len == 0 || key.len > PMIWIRE_EXCHANGE_MAX_KEY_BYTES)
        return PMIWIRE_EKEYLEN;
    home = home_of(x, key);
    if (x->design == PMIWIRE_DESIGN_DIRECT && src >= 0 && x->n_nodes > 1)
        home = x->ops.node_of(x->ctx, (uint32_t)src);
    if (home >= x->n_nodes)
        return -EINVAL;
    x->stats.n_gets++;
    if (find_dense(x, key, value)) {
        x->stats.n_local++;
        return 0;
    }
    e = find_valid(x, home, key, x->seq);
    if (e != PMIWIRE__NONE) {
        *value = pmiwire__key_value(x, e);
        x->stats.n_local++;
        return 0;
    }
    if (how == PMIWIRE_GET_LOCAL)
        return PMIWIRE_ENOENT;
    if (x->design == PMIWIRE_DESIGN_DIRECT && src < 0 && x->n_nodes > 1)
        return PMIWIRE_EMISSING;
    if (rank >= 0)
        waiter.rank = (uint32_t)rank;
    waiter.named = src >= 0 && src != rank;
    waiter.needs =
        pmiwire__rank_needed(x, waiter.rank, waiter.named ? (uint32_t)src : PMIWIRE__NONE);
    waiter.wait = how == PMIWIRE_GET_WAIT && waiter.needs != PMIWIRE__NONE;
    waiter.fresh = how == PMIWIRE_GET_WAIT && !waiter.wait;
    if (waiter.fresh)
        find_gone_rank(x, &waiter, src);
    if (home == x->me && !waiter.wait) {
        x->miss_rank = waiter.lost;
        x->miss_why = waiter.why;
        return PMIWIRE_ENOENT;
    }
    return wait_for_value(x, home, key, &waiter);
}

/* Checks a GET's nodes: on the tree each is the parent of the one before, and the last is the
 * sender. */
static int check_get(const struct pmiwire_exchange *x, const struct pmiwire__frame *f,
                     const char *p, size_t n, struct pmiwire_str *key)
{
    uint32_t node = 0, before = 0;

    if ((f->flags && f->flags != PMIWIRE__FRAME_WAIT && f->flags != PMIWIRE__FRAME_FRESH) ||
        f->arg == 0 || f->arg > PMIWIRE__MAX_HOPS || n <= f->arg * sizeof(uint32_t) ||
        f->seq > x->seq + 1)
        return PMIWIRE_EPROTO;
    *key = (struct pmiwire_str){p + f->arg * sizeof(uint32_t), n - f->arg * sizeof(uint32_t)};
    if (key->len > PMIWIRE_EXCHANGE_MAX_KEY_BYTES ||
        (f->arg != 1 && x->design != PMIWIRE_DESIGN_TREE) ||
        (x->design == PMIWIRE_DESIGN_DKVS && owner_of(x, *key) != x->me))
        return PMIWIRE_EPROTO;
    for (uint32_t i = 0; i < f->arg; i++, before = node) {
        memcpy(&node, p + i * sizeof(node), sizeof(node));
        if (node >= x->n_nodes || node == x->me ||
            (i > 0 && pmiwire__tree_parent(x, before) != node))
            return PMIWIRE_EPROTO;
    }
    if (node != f->from ||
        (x->design == PMIWIRE_DESIGN_TREE && (node == 0 || pmiwire__tree_parent(x, node) != x->me)))
        return PMIWIRE_EPROTO;
    return 0;
}

static uint32_t read_node(const char *nodes, uint32_t i)
{
    uint32_t node;

    memcpy(&node, nodes + i * sizeof(node), sizeof(node));
    return node;
}

/* Removes these nodes' waiters at an entry. The nodes have sent a FRESH request instead, or will
 * ask again. */
static void remove_waiters(struct pmiwire_exchange *x, uint32_t e, const char *nodes, uint32_t n)
{
    uint32_t w = pmiwire__waiters_take(x, e), next, i;

    for (; w != PMIWIRE__NONE; w = next) {
        const struct pmiwire__waiter *waiter = &x->store.waiters[w];

        next = waiter->next;
        for (i = 0; i < n && waiter->token != read_node(nodes, i); i++)
            ;
        if (waiter->remote && waiter->wait && i < n)
            pmiwire__waiter_free(x, w);
        else
            pmiwire__waiter_keep(x, e, w);
    }
    pmiwire__key_tidy(x, e);
}

/* The value is absent or too old: queues the request here, or forwards it. */
static int forward_get(struct pmiwire_exchange *x, const struct pmiwire__frame *f,
                       const char *nodes, struct pmiwire_str key, uint32_t home)
{
    bool wait = f->flags & PMIWIRE__FRAME_WAIT;
    uint32_t e = pmiwire__key_find(x, home, key), i;

    if (e != PMIWIRE__NONE && (f->flags & PMIWIRE__FRAME_FRESH))
        remove_waiters(x, e, nodes, f->arg);
    if (home == x->me && !wait) {
        for (i = 0; i < f->arg; i++)
            send_answer(x, read_node(nodes, i), key, NULL, x->seq > f->seq ? x->seq : f->seq,
                        false);
        return 0;
    }
    if (pmiwire__waiters_reserve(x, f->arg) != 0 ||
        pmiwire__keys_reserve(x, 1, pmiwire__record_bytes(key.len, 0)) != 0)
        return -ENOMEM;
    e = pmiwire__key_make(x, home, key);
    if (home == x->me || ((pmiwire__key_at(x, e)->flags & asked_bit(f->flags)) &&
                          f->flags != PMIWIRE__FRAME_FRESH)) {
        for (i = 0; i < f->arg; i++) {
            const struct pmiwire__waiter waiter = {
                .token = read_node(nodes, i), .seq = f->seq, .remote = true, .wait = wait};

            pmiwire__waiter_add(x, e, &waiter);
        }
        return 0;
    }
    send_request(x, e, nodes, f->arg, x->seq > f->seq ? x->seq : f->seq, f->flags);
    return 0;
}

int pmiwire__on_get(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                    size_t n)
{
    uint32_t home = x->design == PMIWIRE_DESIGN_TREE ? 0 : x->me, e;
    struct pmiwire_str key, value;
    int rc = check_get(x, f, p, n, &key);
    uint32_t stamp;

    if (rc != 0)
        return rc;
    e = find_valid(x, home, key, f->seq);
    stamp = e != PMIWIRE__NONE ? answer_stamp(x, e, f->seq) : f->seq;
    if (find_dense(x, key, &value))
        stamp = f->seq;
    else if (e != PMIWIRE__NONE)
        value = pmiwire__key_value(x, e);
    else
        return forward_get(x, f, p, key, home);
    for (uint32_t i = 0; i < f->arg; i++)
        send_answer(x, read_node(p, i), key, &value, stamp, f->flags & PMIWIRE__FRAME_WAIT);
    return 0;
}

static int check_answer(const struct pmiwire_exchange *x, const struct pmiwire__frame *f,
                        const char *p, size_t n, struct pmiwire__record *rec, uint32_t *home)
{
    const uint8_t wait = f->flags & PMIWIRE__FRAME_WAIT, found = f->flags & PMIWIRE__FRAME_FOUND;

    if (f->seq > x->seq + 1 || (wait && !found) || f->flags != (wait | found) || f->arg ||
        pmiwire__record_read(p, n, rec) != 0 || rec->bytes != n || (!found && rec->value.len))
        return PMIWIRE_EPROTO;
    switch (x->design) {
    case PMIWIRE_DESIGN_TREE: *home = 0; break;
    case PMIWIRE_DESIGN_DIRECT: *home = f->from; break;
    default: *home = owner_of(x, rec->key);
    }
    if (x->design == PMIWIRE_DESIGN_TREE ? !pmiwire__tree_under(x, x->me, f->from)
                                         : *home != f->from)
        return PMIWIRE_EPROTO;
    return 0;
}

/* Counts an answer. The last one clears the flags of the requests that were in flight. */
static void count_answer(struct pmiwire__key *entry, uint8_t flags)
{
    uint16_t ended = asked_bit(flags);

    if (!(flags & PMIWIRE__FRAME_WAIT)) {
        if (--entry->n_asked > 0)
            return;
        if (entry->flags & PMIWIRE__KEY_ASKED_FRESH)
            ended |= PMIWIRE__KEY_ASKED_FRESH | PMIWIRE__KEY_ASKED_WAIT;
    }
    entry->flags &= (uint16_t)~ended;
}

int pmiwire__on_answer(struct pmiwire_exchange *x, const struct pmiwire__frame *f, const char *p,
                       size_t n)
{
    struct pmiwire__record rec;
    uint32_t home = 0, e;
    int rc = check_answer(x, f, p, n, &rec, &home);

    if (rc != 0)
        return rc;
    e = pmiwire__key_find(x, home, rec.key);
    if (e == PMIWIRE__NONE || !(pmiwire__key_at(x, e)->flags & asked_bit(f->flags)))
        return 0; /* no Get waits any more */
    count_answer(pmiwire__key_at(x, e), f->flags);
    if (!(f->flags & PMIWIRE__FRAME_FOUND)) {
        serve_without_value(x, e, f->seq);
    } else if (pmiwire__keys_reserve(x, 0, rec.bytes) != 0) {
        serve_without_memory(x, e, &rec, f->seq);
    } else {
        if (!(pmiwire__key_at(x, e)->flags & PMIWIRE__KEY_VALUE) ||
            pmiwire__key_at(x, e)->stamp <= f->seq)
            pmiwire__key_set(x, e, rec.value, f->seq);
        pmiwire__key_mark_copy(x, e);
        serve_waiters(x, e);
    }
    return 0;
}

/* ---- what Fences do to keys ---- */

int pmiwire__fenced_keep(struct pmiwire_exchange *x, const struct pmiwire__record *rec,
                         uint32_t number)
{
    uint32_t e;

    if (pmiwire__keys_reserve(x, 1, rec->bytes + pmiwire__record_bytes(rec->key.len, 0)) != 0)
        return -ENOMEM;
    e = pmiwire__key_make(x, PMIWIRE__DENSE, rec->key);
    if (pmiwire__key_at(x, e)->stamp <= number) /* else it is a Put for the next Fence */
        pmiwire__key_set(x, e, rec->value, number);
    return 0;
}

int pmiwire__after_fence(struct pmiwire_exchange *x)
{
    uint32_t next;

    if (!(x->flags & PMIWIRE_EXCHANGE_FENCE_FREE)) {
        x->seq++;
        pmiwire__keys_drop_copies(x);
    }
    for (uint32_t e = x->store.waiting; e != PMIWIRE__NONE; e = next) {
        struct pmiwire_str value;

        next = pmiwire__key_at(x, e)->next;
        if (!find_dense(x, pmiwire__key_name(x, e), &value))
            continue;
        if (pmiwire__keys_reserve(
                x, 0, pmiwire__record_bytes(pmiwire__key_name(x, e).len, value.len)) != 0)
            return -ENOMEM;
        (void)find_dense(x, pmiwire__key_name(x, e), &value); /* the value may have moved */
        pmiwire__key_set(x, e, value, x->seq);
        pmiwire__key_mark_copy(x, e);
        serve_waiters(x, e);
    }
    return 0;
}
