/* SPDX-License-Identifier: BSD-3-Clause */
/* Where clients wait for each other: fence, group barriers of PMI 1.2, Slurm's ring. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server_internal.h"

static struct pmiwire_conn *first_waiter(struct pmiwire__link *list)
{
    return PMIWIRE__OF(struct pmiwire_conn, wait, list->next);
}

/* ---- fence ---- */

/* Answer everybody in the fence. Those who come again while this goes on wait for the next one. */
static void release(struct pmiwire__job *j, int rc)
{
    struct pmiwire_server *s;
    struct pmiwire__link list;

    if (!pmiwire__linked(&j->fence))
        return;
    s = first_waiter(&j->fence)->s;
    if (rc == 0)
        s->stats.n_fences++;
    pmiwire__take_all(&j->fence, &list);
    while (pmiwire__linked(&list)) {
        struct pmiwire_conn *c = first_waiter(&list);
        struct pmiwire__reply r;
        uint16_t cmd = c->pend_cmd;

        pmiwire__resume(c);
        if (rc != 0) {
            pmiwire__reply_error(c, cmd, rc, NULL);
        } else if (pmiwire__reply_begin(&r, c, cmd,
                                        pmiwire__ext_bytes(c->job, PMIWIRE__AT_FENCE))) {
            pmiwire_enc_int(&r.e, PMIWIRE_F_RC, 0);
            pmiwire__reply_ext(&r, PMIWIRE__AT_FENCE);
            pmiwire__reply_send(&r, cmd);
        }
    }
}

static void leave_fence(struct pmiwire_conn *c)
{
    c->job->n_fence--;
}

static void enter_fence(const struct pmiwire__req *q)
{
    struct pmiwire_server *s = q->s;
    struct pmiwire__job *j = q->c->job;
    uint32_t number = j->number;
    int rc;

    (void)pmiwire__pend(q->c, PMIWIRE__PEND_HERE, q->cmd, leave_fence);
    pmiwire__append(&j->fence, &q->c->wait);
    j->n_fence++;
    if (j->n_fence < j->n_local || j->fence_out)
        return;
    if (!s->ops.fence) {
        release(j, 0);
        return;
    }
    j->fence_out = true;
    rc = s->ops.fence(s->opts.ctx, number);
    j = pmiwire__job(s, number); /* the callback may have removed it */
    if (rc == PMIWIRE_PENDING || !j || !j->fence_out)
        return;
    j->fence_out = false;
    release(j, rc);
}

int pmiwire_server_fence_done(struct pmiwire_server *s, uint32_t job, int rc)
{
    struct pmiwire__job *j = pmiwire__job(s, job);

    if (!j)
        return PMIWIRE_ENOENT;
    if (!j->fence_out)
        return PMIWIRE_ESTATE;
    pmiwire__enter(s);
    j->fence_out = false;
    release(j, rc);
    pmiwire__leave(s);
    return 0;
}

/* ---- groups ---- */

/* How many of the sorted array are below v. */
static size_t below(const uint32_t *a, size_t n, uint32_t v)
{
    size_t lo = 0;

    while (n > 0) {
        if (a[lo + n / 2] < v) {
            lo += n / 2 + 1;
            n -= n / 2 + 1;
        } else {
            n /= 2;
        }
    }
    return lo;
}

static uint32_t node_size(const struct pmiwire__job *j, uint32_t node)
{
    size_t lo = below(j->nodes_sorted, j->n_ranks, node);
    size_t hi = node == UINT32_MAX ? j->n_ranks : below(j->nodes_sorted, j->n_ranks, node + 1);

    return (uint32_t)(hi - lo);
}

/* A group's canonical name: equal for equal sets of ranks, however the client put it. */
struct group_name {
    uint32_t *
        words; /* in scratch: kind, count or node, ranks in ascending order; then the tag's bytes */
    size_t n_words;
    uint32_t n_members;
};

enum { KIND_WORLD = 'W', KIND_NODE = 'N', KIND_LIST = 'L' };

static void name_world(struct group_name *g, const struct pmiwire__job *j)
{
    g->words[0] = KIND_WORLD;
    g->n_words = 1;
    g->n_members = j->n_ranks;
}

static void name_node(struct group_name *g, const struct pmiwire__job *j, int32_t rank)
{
    uint32_t node = j->node_of ? j->node_of[rank] : 0;

    g->n_members = j->node_of ? node_size(j, node) : j->n_ranks;
    if (g->n_members == j->n_ranks) {
        name_world(g, j);
        return;
    }
    g->words[0] = KIND_NODE;
    g->words[1] = node;
    g->n_words = 2;
}

/* All members on one node? */
static bool on_one_node(const struct pmiwire__job *j, const uint32_t *ranks, uint32_t n)
{
    uint32_t i;

    if (!j->node_of)
        return true;
    for (i = 1; i < n; i++)
        if (j->node_of[ranks[i]] != j->node_of[ranks[0]])
            return false;
    return true;
}

/* `r,r,…`: NULL or what is wrong with it. */
static const char *name_list(struct group_name *g, const struct pmiwire__job *j, int32_t rank,
                             struct pmiwire_str list)
{
    uint32_t *ranks = g->words + 2, n = 0, i;
    bool self = false;

    while (list.len) {
        const char *comma = memchr(list.ptr, ',', list.len);
        struct pmiwire_str word = {list.ptr, comma ? (size_t)(comma - list.ptr) : list.len};
        int32_t r;

        if (pmiwire__parse_int(word, &r) != 0 || (comma && word.len + 1 == list.len))
            return "group is no list of ranks";
        if (r < 0 || (uint32_t)r >= j->n_ranks)
            return "group holds a rank that the job has not";
        self = self || r == rank;
        ranks[n++] = (uint32_t)r;
        list.ptr += word.len + (comma != NULL);
        list.len -= word.len + (comma != NULL);
    }
    if (!self)
        return "group does not hold the rank that asks";
    pmiwire__sort(ranks, n, sizeof(*ranks));
    for (i = 1; i < n; i++)
        if (ranks[i] == ranks[i - 1])
            return "group holds a rank twice";
    if (n == j->n_ranks) {
        name_world(g, j);
    } else if (j->node_of && on_one_node(j, ranks, n) && n == node_size(j, j->node_of[rank])) {
        name_node(g, j, rank);
    } else {
        if (j->n_local != j->n_ranks && !(j->node_of && on_one_node(j, ranks, n)))
            return "group spans several nodes";
        g->words[0] = KIND_LIST;
        g->words[1] = n;
        g->n_words = 2 + (size_t)n;
        g->n_members = n;
    }
    return NULL;
}

static struct pmiwire_str pointer_bytes(struct pmiwire__group **g)
{
    struct pmiwire_str v = {(const char *)g, sizeof(*g)};

    return v;
}

/* The group of that name, made if it is new. NULL: out of memory. */
static struct pmiwire__group *find_group(struct pmiwire_server *s, struct pmiwire__job *j,
                                         struct pmiwire_str key, size_t tag_len, bool tagged,
                                         uint32_t n_members)
{
    const struct pmiwire__entry *e = pmiwire__kvs_find(&j->groups, key);
    struct pmiwire__group *g;

    if (e) {
        memcpy(&g, pmiwire__entry_value(e).ptr, sizeof(g));
        return g;
    }
    g = pmiwire__alloc(s, sizeof(*g) + key.len);
    if (!g)
        return NULL;
    memcpy(g->bytes, key.ptr, key.len);
    g->key.ptr = g->bytes;
    g->key.len = key.len;
    g->tag.ptr = tagged ? g->bytes + key.len - tag_len : NULL;
    g->tag.len = tag_len;
    g->n_members = n_members;
    pmiwire__link_init(&g->waiters);
    if (pmiwire__kvs_put(&j->groups, g->key, pointer_bytes(&g), 0) != 0) {
        pmiwire__free(s, g);
        return NULL;
    }
    return g;
}

static void leave_group(struct pmiwire_conn *c)
{
    struct pmiwire__group *g = c->group;

    c->group = NULL;
    if (g && --g->n_arrived == 0) {
        pmiwire__kvs_remove(&c->job->groups, g->key);
        pmiwire__free(c->s, g);
    }
}

static void release_group(struct pmiwire__group *g)
{
    struct pmiwire_server *s = first_waiter(&g->waiters)->s;

    /* Off the job's list first: a callback may remove the job. One more that has arrived keeps
     * the group until the last answer has its tag. */
    pmiwire__kvs_remove(&first_waiter(&g->waiters)->job->groups, g->key);
    g->n_arrived++;
    while (pmiwire__linked(&g->waiters)) {
        struct pmiwire_conn *c = first_waiter(&g->waiters);
        struct pmiwire__reply r;
        uint16_t cmd = c->pend_cmd;

        pmiwire__resume(c);
        if (!pmiwire__reply_begin(&r, c, cmd, g->tag.len))
            continue;
        pmiwire_enc_int(&r.e, PMIWIRE_F_RC, 0);
        if (g->tag.ptr && g->tag.len)
            pmiwire_enc_str(&r.e, PMIWIRE_F_TAG, g->tag);
        pmiwire__reply_send(&r, cmd);
    }
    pmiwire__free(s, g);
}

static void enter_group(const struct pmiwire__req *q, struct pmiwire_str group)
{
    struct pmiwire_conn *c = q->c;
    struct pmiwire__job *j = c->job;
    const char *colon = memchr(group.ptr, ':', group.len), *wrong = NULL;
    struct pmiwire_str who = {group.ptr, colon ? (size_t)(colon - group.ptr) : group.len};
    struct pmiwire_str tag = {colon ? colon + 1 : NULL, colon ? group.len - who.len - 1 : 0};
    struct group_name name = {0};
    struct pmiwire__group *g;
    struct pmiwire_str key;

    /* A rank takes two bytes of the text at least, so this holds the list, its head and the tag. */
    name.words = (uint32_t *)(void *)pmiwire__scratch(q->s, (group.len / 2 + 4) * sizeof(uint32_t) +
                                                                group.len);
    if (!name.words) {
        pmiwire__refuse(c, q->cmd, -ENOMEM, NULL);
        return;
    }
    if (pmiwire__str_eq(who, pmiwire_strz("WORLD")))
        name_world(&name, j);
    else if (pmiwire__str_eq(who, pmiwire_strz("NODE")))
        name_node(&name, j, c->rank);
    else
        wrong = name_list(&name, j, c->rank, who);
    if (!wrong && name.n_members > j->n_local)
        wrong = "group spans several nodes";
    if (wrong) {
        pmiwire__refuse(c, q->cmd, PMIWIRE_ETYPE, wrong);
        return;
    }
    key.ptr = (const char *)name.words;
    key.len = name.n_words * sizeof(uint32_t) + tag.len;
    if (tag.len)
        memcpy((char *)name.words + name.n_words * sizeof(uint32_t), tag.ptr, tag.len);
    g = find_group(q->s, j, key, tag.len, colon != NULL, name.n_members);
    if (!g) {
        pmiwire__refuse(c, q->cmd, -ENOMEM, NULL);
        return;
    }
    (void)pmiwire__pend(c, PMIWIRE__PEND_HERE, q->cmd, leave_group);
    c->group = g;
    pmiwire__append(&g->waiters, &c->wait);
    if (++g->n_arrived == g->n_members)
        release_group(g);
}

void pmiwire__do_fence(const struct pmiwire__req *q)
{
    struct pmiwire_str group, value;

    if (pmiwire_msg_ext(q->msg, PMIWIRE_EXT_RING, &value) == 0)
        pmiwire__do_ring(q);
    else if (q->cmd == PMIWIRE_V1_BARRIER_IN &&
             pmiwire_msg_str(q->msg, PMIWIRE_F_GROUP, &group) == 0)
        enter_group(q, group);
    else
        enter_fence(q);
}

/* ---- ring ---- */

/* PMI-2's own answer, or to a PMI-1 client the extension's fields. */
static void send_place(struct pmiwire_conn *c, uint16_t cmd, uint32_t place,
                       struct pmiwire_str left, struct pmiwire_str right)
{
    const struct pmiwire_str none = {NULL, 0};
    struct pmiwire__reply reply;
    char number[16];

    if (!pmiwire__reply_begin(&reply, c, cmd, left.len + right.len))
        return;
    pmiwire_enc_int(&reply.e, PMIWIRE_F_RC, 0);
    pmiwire__reply_bytes(&reply, cmd == PMIWIRE_V2_RING ? PMIWIRE_F_RING_LEFT : 0,
                         left.len ? left : none, right.len ? right : none);
    if (cmd == PMIWIRE_V2_RING) {
        pmiwire_enc_int(&reply.e, PMIWIRE_F_RING_COUNT, place);
        if (left.len)
            pmiwire_enc_str(&reply.e, PMIWIRE_F_RING_LEFT, left);
        if (right.len)
            pmiwire_enc_str(&reply.e, PMIWIRE_F_RING_RIGHT, right);
    } else {
        snprintf(number, sizeof(number), "%u", (unsigned)place);
        pmiwire__enc_ext(&reply.e, PMIWIRE_EXT_PLACE, pmiwire_strz(number));
        if (left.len)
            pmiwire__enc_value(&reply.e, PMIWIRE_EXT_LEFT, left);
        if (right.len)
            pmiwire__enc_value(&reply.e, PMIWIRE_EXT_RIGHT, right);
    }
    pmiwire__reply_send(&reply, cmd);
}

static void answer_ring(struct pmiwire_conn **ring, uint32_t n, uint32_t i)
{
    const struct pmiwire_conn *l = ring[(i + n - 1) % n], *r = ring[(i + 1) % n];
    /* Each conn keeps what it sent: ring-left, then ring-right. */
    struct pmiwire_str left = {l->pend_mem + l->pend_len[0], l->pend_len[1]};
    struct pmiwire_str right = {r->pend_mem, r->pend_len[0]};

    send_place(ring[i], ring[i]->pend_cmd, i, left, right);
}

/* Everybody has come: answer all. A connection that fails or closes on the way stays in memory
 * until the outermost call leaves, so its neighbours still find what it sent. */
static void release_ring(struct pmiwire_server *s, struct pmiwire__job *j)
{
    uint32_t n = j->n_ranks, i;
    struct pmiwire_conn **ring = pmiwire__alloc(s, n * sizeof(struct pmiwire_conn *));

    if (!ring) {
        struct pmiwire__link list;

        pmiwire__take_all(&j->ring, &list);
        while (pmiwire__linked(&list)) {
            struct pmiwire_conn *c = first_waiter(&list);

            pmiwire__resume(c);
            pmiwire__reply_error(c, c->pend_cmd, -ENOMEM, NULL);
        }
        return;
    }
    while (pmiwire__linked(&j->ring)) {
        struct pmiwire_conn *c = first_waiter(&j->ring);

        ring[c->rank] = c;
        pmiwire__resume(c);
    }
    for (i = 0; i < n; i++)
        answer_ring(ring, n, i);
    for (i = 0; i < n; i++) {
        pmiwire__free(s, ring[i]->pend_mem);
        ring[i]->pend_mem = NULL;
    }
    pmiwire__free(s, ring);
}

/* Over several nodes: it is served elsewhere. */
static void ring_outside(const struct pmiwire__req *q, struct pmiwire_str left,
                         struct pmiwire_str right)
{
    struct pmiwire_server *s = q->s;
    struct pmiwire_conn *c = q->c;
    struct pmiwire_peer who;
    uint64_t token;
    int rc;

    pmiwire__peer(c, &who);
    token = pmiwire__pend(c, PMIWIRE__PEND_RING, q->cmd, NULL);
    rc = s->ops.ring(s->opts.ctx, &who, left, right, token);
    if (rc == PMIWIRE_PENDING || c->token != token)
        return;
    pmiwire__unpend(c);
    pmiwire__refuse(c, q->cmd, rc < 0 ? rc : PMIWIRE_ESTATE, NULL);
}

int pmiwire_server_ring_done(struct pmiwire_server *s, uint64_t token, int rc, uint32_t place,
                             struct pmiwire_str left, struct pmiwire_str right)
{
    struct pmiwire_conn *c = pmiwire__by_token(s, token);

    if (!c || c->pend != PMIWIRE__PEND_RING)
        return PMIWIRE_ESTALE;
    pmiwire__enter(s);
    if (rc == 0)
        send_place(c, c->pend_cmd, place, left, right);
    else
        pmiwire__reply_error(c, c->pend_cmd, rc, NULL);
    pmiwire__resume(c);
    pmiwire__leave(s);
    return 0;
}

static void leave_ring(struct pmiwire_conn *c)
{
    c->job->n_ring--;
}

void pmiwire__do_ring(const struct pmiwire__req *q)
{
    struct pmiwire_conn *c = q->c;
    struct pmiwire__job *j = c->job;
    struct pmiwire_str left = {0}, right = {0};

    if (q->cmd == PMIWIRE_V2_RING) {
        (void)pmiwire_msg_str(q->msg, PMIWIRE_F_RING_LEFT, &left);
        (void)pmiwire_msg_str(q->msg, PMIWIRE_F_RING_RIGHT, &right);
    } else {
        (void)pmiwire_msg_ext(q->msg, PMIWIRE_EXT_RING, &left);
        right = left;
    }
    if (j->n_local != j->n_ranks && !q->s->ops.ring) {
        pmiwire__refuse(c, q->cmd, PMIWIRE_ESTATE, "ring over several nodes is not served");
        return;
    }
    if (left.len >= q->s->opts.vallen_max || right.len >= q->s->opts.vallen_max) {
        pmiwire__refuse(c, q->cmd, PMIWIRE_EVALLEN, NULL);
        return;
    }
    if (j->n_local != j->n_ranks) {
        ring_outside(q, left, right);
        return;
    }
    pmiwire__free(q->s, c->pend_mem);
    c->pend_mem = pmiwire__alloc(q->s, left.len + right.len);
    if (!c->pend_mem) {
        pmiwire__refuse(c, q->cmd, -ENOMEM, NULL);
        return;
    }
    if (left.len)
        memcpy(c->pend_mem, left.ptr, left.len);
    if (right.len)
        memcpy(c->pend_mem + left.len, right.ptr, right.len);
    c->pend_len[0] = left.len;
    c->pend_len[1] = right.len;
    (void)pmiwire__pend(c, PMIWIRE__PEND_HERE, q->cmd, leave_ring);
    pmiwire__append(&j->ring, &c->wait);
    if (++j->n_ring == j->n_ranks)
        release_ring(q->s, j);
}
