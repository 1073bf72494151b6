/* SPDX-License-Identifier: BSD-3-Clause */
/* Barriers of groups, PMI 1.2: ranks of this node wait for each other. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server_internal.h"

/* ---- the name of a group ---- */

/* A group's canonical name: equal for equal sets of ranks, in whatever form the client names
 * them. */
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

    g->n_members = j->node_of ? j->node_ranks[node] : j->n_ranks;
    if (g->n_members == j->n_ranks) {
        name_world(g, j);
        return;
    }
    g->words[0] = KIND_NODE;
    g->words[1] = node;
    g->n_words = 2;
}

/* Returns whether all members are on one node. */
static bool on_one_node(const struct pmiwire__job *j, const uint32_t *ranks, uint32_t n)
{
    if (!j->node_of)
        return true;
    for (uint32_t i = 1; i < n; i++)
        if (j->node_of[ranks[i]] != j->node_of[ranks[0]])
            return false;
    return true;
}

/* Parses `r,r,…`. Returns NULL, or the error's text. */
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
            return "group is not a list of ranks";
        if (r < 0 || (uint32_t)r >= j->n_ranks)
            return "group holds a rank that the job does not have";
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
    } else if (j->node_of && on_one_node(j, ranks, n) && n == j->node_ranks[j->node_of[rank]]) {
        name_node(g, j, rank);
    } else {
        if (!j->all_here && !on_one_node(j, ranks, n))
            return "group spans several nodes";
        g->words[0] = KIND_LIST;
        g->words[1] = n;
        g->n_words = 2 + (size_t)n;
        g->n_members = n;
    }
    return NULL;
}

/* ---- who is in it ---- */

static bool is_member(const struct pmiwire__job *j, const struct pmiwire__group *g, uint32_t rank)
{
    switch (g->words[0]) {
    case KIND_WORLD: return true;
    case KIND_NODE: return j->node_of[rank] == g->words[1];
    default: return pmiwire__sorted_find(g->words + 2, g->n_members, rank) != UINT32_MAX;
    }
}

/* Returns the first member that is gone, or PMIWIRE_RANK_NONE. */
static int32_t gone_member(const struct pmiwire__job *j, const struct pmiwire__group *g)
{
    for (uint32_t i = 0; i < j->n_local && j->n_gone; i++) {
        uint32_t rank = j->locals ? j->locals[i] : i;

        if (j->gone[i] && is_member(j, g, rank))
            return (int32_t)rank;
    }
    return PMIWIRE_RANK_NONE;
}

/* ---- life ---- */

/* Finds or makes the group of that name. NULL: out of memory. */
static struct pmiwire__group *find_group(struct pmiwire_server *s, struct pmiwire__job *j,
                                         struct pmiwire_str key, size_t tag_len, bool tagged,
                                         uint32_t n_members)
{
    const struct pmiwire__entry *e = pmiwire__kvs_find(&j->groups, key);
    struct pmiwire__group *g;
    const struct pmiwire_str pointer = {(const char *)&g, sizeof(g)};

    if (e) {
        memcpy(&g, pmiwire__entry_value(e).ptr, sizeof(g));
        return g;
    }
    g = pmiwire__alloc(s, sizeof(*g) + key.len);
    if (!g)
        return NULL;
    memcpy(g->words, key.ptr, key.len);
    g->key = (struct pmiwire_str){(const char *)g->words, key.len};
    g->tag.ptr = tagged ? g->key.ptr + key.len - tag_len : NULL;
    g->tag.len = tag_len;
    g->n_members = n_members;
    pmiwire__link_init(&g->waiters);
    pmiwire__link_init(&g->all);
    if (pmiwire__kvs_put(&j->groups, g->key, pointer, 0) != 0) {
        pmiwire__free(s, g);
        return NULL;
    }
    pmiwire__append(&j->group_list, &g->all);
    return g;
}

/* Removes a group from the job's lists, so that no lookup finds it. */
static void unlist_group(struct pmiwire__job *j, struct pmiwire__group *g)
{
    pmiwire__kvs_remove(&j->groups, g->key);
    pmiwire__unlink(&g->all);
}

void pmiwire__groups_free(struct pmiwire__job *j)
{
    while (j->group_list.next && pmiwire__linked(&j->group_list)) {
        struct pmiwire__group *g = PMIWIRE__OF(struct pmiwire__group, all, j->group_list.next);

        unlist_group(j, g);
        pmiwire__free(j->s, g);
    }
    pmiwire__kvs_fini(&j->groups);
}

/* Ends a rank's wait in a barrier. Its arrival still counts: the last rank completes the
 * barrier. */
static void leave_group(struct pmiwire_conn *c)
{
    c->group = NULL;
}

static void answer_group(struct pmiwire_conn *c, uint16_t cmd, const struct pmiwire__group *g)
{
    struct pmiwire__reply r;

    if (!pmiwire__reply_begin(&r, c, cmd, 0, g->tag.len))
        return;
    if (g->tag.ptr && g->tag.len)
        pmiwire_enc_str(&r.e, PMIWIRE_F_TAG, g->tag);
    pmiwire__reply_send(&r, cmd);
}

static void answer_group_gone(struct pmiwire_conn *c, uint16_t cmd, int32_t rank, uint32_t why)
{
    char text[PMIWIRE__GONE_TEXT];

    pmiwire__gone_text(text, rank, why, "this barrier of a group cannot complete");
    if (c->job)
        pmiwire__stuck(c, PMIWIRE_STUCK_GROUP, rank, why, text);
    pmiwire__reply_error(c, cmd, PMIWIRE_EGONE, text);
}

/* Answers the waiters of a group that is on no list. @param why 0: the barrier is complete */
static void release_group(struct pmiwire_server *s, struct pmiwire__group *g, int32_t rank,
                          uint32_t why)
{
    while (pmiwire__linked(&g->waiters)) {
        struct pmiwire_conn *c = PMIWIRE__OF(struct pmiwire_conn, wait, g->waiters.next);

        pmiwire__resume(c);
        if (why)
            answer_group_gone(c, c->pend_cmd, rank, why);
        else
            answer_group(c, c->pend_cmd, g);
    }
    pmiwire__free(s, g);
}

void pmiwire__groups_gone(struct pmiwire__job *j, int32_t rank, uint32_t why,
                          const struct pmiwire__group *entered)
{
    struct pmiwire__link ended, *l, *next;

    pmiwire__link_init(&ended);
    for (l = j->group_list.next; l != &j->group_list; l = next) {
        struct pmiwire__group *g = PMIWIRE__OF(struct pmiwire__group, all, l);

        next = l->next;
        if (g == entered || !is_member(j, g, (uint32_t)rank))
            continue;
        unlist_group(j, g);
        pmiwire__append(&ended, &g->all);
    }
    while (pmiwire__linked(&ended)) {
        struct pmiwire__group *g = PMIWIRE__OF(struct pmiwire__group, all, ended.next);

        pmiwire__unlink(&g->all);
        release_group(j->s, g, rank, why);
    }
}

void pmiwire__do_group(const struct pmiwire__req *q, struct pmiwire_str group)
{
    struct pmiwire_conn *c = q->c;
    struct pmiwire__job *j = c->job;
    const char *colon = memchr(group.ptr, ':', group.len), *wrong = NULL;
    struct pmiwire_str who = {group.ptr, colon ? (size_t)(colon - group.ptr) : group.len};
    struct pmiwire_str tag = {colon ? colon + 1 : NULL, colon ? group.len - who.len - 1 : 0};
    struct group_name name = {0};
    struct pmiwire__group *g;
    struct pmiwire_str key;
    int32_t gone;

    if (pmiwire__refuse_gone(c, q->cmd))
        return;
    /* Each rank takes at least two bytes of the text, so this is enough for the list, its head and
     * the tag. */
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
    (void)pmiwire__pend(c, PMIWIRE__PEND_GROUP, q->cmd, leave_group);
    c->group = g;
    pmiwire__append(&g->waiters, &c->wait);
    if (++g->n_arrived == g->n_members) {
        unlist_group(j, g);
        release_group(q->s, g, 0, 0);
        return;
    }
    gone = g->n_arrived == 1 ? gone_member(j, g) : PMIWIRE_RANK_NONE;
    if (gone != PMIWIRE_RANK_NONE) {
        unlist_group(j, g);
        release_group(q->s, g, gone, pmiwire__rank_why(j, gone));
    }
}
