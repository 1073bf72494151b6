/* SPDX-License-Identifier: BSD-3-Clause */
/* The writer's side of the index: a B+ tree. A change copies the nodes that it changes, and one
 * store links the copies. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "index.h"

#include <errno.h>
#include <string.h>

#define MERGE_BELOW     11u /* two neighbours with fewer entries than this together are merged */
#define LAST_GENERATION 0xfffffffeu

/* The path to a leaf: node[i + 1] is child at[i] of node[i]; the leaf is node[depth - 1]. */
struct path {
    uint32_t depth;
    uint32_t at[MAX_DEPTH];
    void *node[MAX_DEPTH];
};

static inline struct asymreg__inner *inner_of(const struct path *p, uint32_t level)
{
    return p->node[level];
}

static inline uint32_t key_count(const int64_t *keys)
{
    return asymreg__rank(keys, KEY_NONE - 1);
}

static void path_descend(const struct asymreg__index *ix, int64_t key, struct path *p)
{
    void *node = (void *)(ix->root & ~(uintptr_t)63);

    p->depth = (uint32_t)(ix->root & 63);
    for (uint32_t i = 0; i < p->depth; i++) {
        p->node[i] = node;
        if (i + 1 < p->depth) {
            p->at[i] = asymreg__rank(((struct asymreg__inner *)node)->keys, key) - 1;
            node = ((struct asymreg__inner *)node)->child[p->at[i]];
        }
    }
}

static inline struct asymreg__leaf *leaf_of(const struct path *p)
{
    return p->node[p->depth - 1];
}

/* Returns the level at which the path to the next leaf branches off; -1: no next leaf. */
static int path_right_turn(const struct path *p)
{
    for (int i = (int)p->depth - 2; i >= 0; i--)
        if (p->at[i] + 1 < FANOUT && inner_of(p, (uint32_t)i)->keys[p->at[i] + 1] != KEY_NONE)
            return i;
    return -1;
}

static const struct asymreg__leaf *path_next_leaf(const struct path *p)
{
    int turn = path_right_turn(p);
    const void *node;

    if (turn < 0)
        return NULL;
    node = inner_of(p, (uint32_t)turn)->child[p->at[turn] + 1];
    for (uint32_t i = (uint32_t)turn + 1; i + 1 < p->depth; i++)
        node = ((const struct asymreg__inner *)node)->child[0];
    return node;
}

static int path_is_leftmost(const struct path *p)
{
    for (uint32_t i = 0; i + 1 < p->depth; i++)
        if (p->at[i])
            return 0;
    return 1;
}

/* Make nodes from n entries; unused keys are KEY_NONE. */
static struct asymreg__leaf *make_leaf(struct asymreg__index *ix, const int64_t *keys,
                                       const uint32_t *slots, uint32_t n)
{
    struct asymreg__leaf *leaf = asymreg__node_get(ix, LEAF);

    if (n) {
        memcpy(leaf->keys, keys, n * sizeof(*keys));
        memcpy(leaf->slots, slots, n * sizeof(*slots));
    }
    for (; n < FANOUT; n++) {
        leaf->keys[n] = KEY_NONE;
        leaf->slots[n] = 0;
    }
    return leaf;
}

static struct asymreg__inner *make_inner(struct asymreg__index *ix, const int64_t *keys,
                                         void *const *child, uint32_t n)
{
    struct asymreg__inner *inner = asymreg__node_get(ix, INNER);

    memcpy(inner->keys, keys, n * sizeof(*keys));
    memcpy(inner->child, child, n * sizeof(*child));
    inner->keys[0] = INT64_MIN;
    for (; n < FANOUT; n++) {
        inner->keys[n] = KEY_NONE;
        atomic_init(&inner->child[n], NULL);
    }
    return inner;
}

static void set_root(struct asymreg__index *ix, void *node, uint32_t depth)
{
    /* A root with a single child is redundant. */
    while (depth > 1 && ((struct asymreg__inner *)node)->keys[1] == KEY_NONE) {
        void *child = ((struct asymreg__inner *)node)->child[0];
        asymreg__node_retire(ix, INNER, node);
        node = child;
        depth--;
    }
    atomic_store_explicit(&ix->root, (uintptr_t)node | depth, memory_order_release);
}

/* Entries of an inner node during a rewrite: one more than fits. */
struct wide {
    uint32_t n;
    int64_t keys[2 * FANOUT];
    void *child[2 * FANOUT];
};

static void wide_append(struct wide *w, const struct asymreg__inner *from, uint32_t begin,
                        uint32_t end, int64_t first)
{
    for (uint32_t i = begin; i < end; i++, w->n++) {
        w->keys[w->n] = i ? from->keys[i] : first;
        w->child[w->n] = from->child[i];
    }
}

/*
 * Replaces children [at, at + k) of the inner node at `level` by m new ones (0 to 2), whose lower
 * separators are sep[]; level -1 is the root pointer. Continues upwards until the keys of a node do
 * not change: there one store links everything new.
 */
static void children_replace(struct asymreg__index *ix, const struct path *p, int level,
                             uint32_t at, uint32_t k, uint32_t m, void *const *child,
                             const int64_t *sep)
{
    struct wide w = {.n = 0};
    struct asymreg__inner *old;
    uint32_t n_old, depth = p->depth - (uint32_t)(level + 1); /* of the children */

    if (level < 0) {
        void *node = child[0];
        if (m == 2) {
            node = make_inner(ix, sep, child, 2);
            depth++;
        }
        set_root(ix, node, depth);
        return;
    }
    old = inner_of(p, (uint32_t)level);
    if (k == 1 && m == 1) {
        atomic_store_explicit(&old->child[at], child[0], memory_order_release);
        return;
    }
    n_old = key_count(old->keys);
    wide_append(&w, old, 0, at, INT64_MIN);
    for (uint32_t i = 0; i < m; i++, w.n++) {
        w.keys[w.n] = sep[i];
        w.child[w.n] = child[i];
    }
    wide_append(&w, old, at + k, n_old, INT64_MIN);
    asymreg__node_retire(ix, INNER, old);

    /* This node's own index, and the separators around it. */
    uint32_t my_at = level ? p->at[level - 1] : 0;
    const struct asymreg__inner *up = level ? inner_of(p, (uint32_t)level - 1) : NULL;
    int64_t my_sep = up ? up->keys[my_at] : INT64_MIN;

    if (w.n == 0) {
        if (level == 0) {
            set_root(ix, make_leaf(ix, NULL, NULL, 0), 1);
            return;
        }
        children_replace(ix, p, level - 1, my_at, 1, 0, NULL, NULL);
        return;
    }
    if (m < k && up) {
        uint32_t n_up = key_count(up->keys);
        struct asymreg__inner *right = my_at + 1 < n_up ? up->child[my_at + 1] : NULL;
        struct asymreg__inner *left = my_at ? up->child[my_at - 1] : NULL;
        if (right && w.n + key_count(right->keys) < MERGE_BELOW) {
            wide_append(&w, right, 0, key_count(right->keys), up->keys[my_at + 1]);
            asymreg__node_retire(ix, INNER, right);
            void *merged = make_inner(ix, w.keys, w.child, w.n);
            children_replace(ix, p, level - 1, my_at, 2, 1, &merged, &my_sep);
            return;
        }
        if (left && w.n + key_count(left->keys) < MERGE_BELOW) {
            struct wide both = {.n = 0};
            wide_append(&both, left, 0, key_count(left->keys), INT64_MIN);
            for (uint32_t i = 0; i < w.n; i++, both.n++) {
                both.keys[both.n] = i ? w.keys[i] : my_sep;
                both.child[both.n] = w.child[i];
            }
            asymreg__node_retire(ix, INNER, left);
            void *merged = make_inner(ix, both.keys, both.child, both.n);
            children_replace(ix, p, level - 1, my_at - 1, 2, 1, &merged, &up->keys[my_at - 1]);
            return;
        }
    }
    if (w.n <= FANOUT) {
        void *node = make_inner(ix, w.keys, w.child, w.n);
        children_replace(ix, p, level - 1, my_at, 1, 1, &node, &my_sep);
    } else {
        /* Appending at the right or left end of the tree leaves full nodes behind. */
        uint32_t half = at + 2 == w.n && path_right_turn(p) < 0 ? FANOUT
                        : at == 0 && path_is_leftmost(p)        ? 1
                                                                : w.n / 2;
        void *nodes[2] = {make_inner(ix, w.keys, w.child, half),
                          make_inner(ix, w.keys + half, w.child + half, w.n - half)};
        int64_t seps[2] = {my_sep, w.keys[half]};
        children_replace(ix, p, level - 1, my_at, 1, 2, nodes, seps);
    }
}

/*
 * Finds where a region would go: path and position in the leaf. ASYMREG_EOVERLAP: another region,
 * with the slot *conflict, is there. *beyond: the region would reach past the separator on its
 * right, which must grow first.
 */
static int find_place(const struct asymreg__index *ix, uint64_t start, uint64_t last,
                      struct path *p, uint32_t *pos, int *beyond, uint32_t *conflict)
{
    const struct asymreg__leaf *leaf, *next;
    int turn;

    path_descend(ix, asymreg__key(start), p);
    leaf = leaf_of(p);
    *pos = asymreg__rank(leaf->keys, asymreg__key(start));
    *beyond = 0;
    if (*pos && ix->slots[leaf->slots[*pos - 1]].last >= start) {
        *conflict = leaf->slots[*pos - 1];
        return ASYMREG_EOVERLAP;
    }
    if (*pos < FANOUT && leaf->keys[*pos] != KEY_NONE) {
        if (leaf->keys[*pos] <= asymreg__key(last)) {
            *conflict = leaf->slots[*pos];
            return ASYMREG_EOVERLAP;
        }
        return 0;
    }
    turn = path_right_turn(p);
    if (turn >= 0 && inner_of(p, (uint32_t)turn)->keys[p->at[turn] + 1] <= asymreg__key(last)) {
        next = path_next_leaf(p);
        if (next->keys[0] <= asymreg__key(last)) {
            *conflict = next->slots[0];
            return ASYMREG_EOVERLAP;
        }
        *beyond = 1;
    }
    return 0;
}

/*
 * Links a slot that will have this content. The caller has reserved nodes, and writes the slot
 * afterwards; only then the region exists. In the other order readers with a hint would find the
 * region before readers that search.
 */
static void link_slot(struct asymreg__index *ix, const struct path *p, uint32_t pos, int beyond,
                      uint32_t slot, const struct asymreg__slot *content)
{
    const struct asymreg__leaf *leaf = leaf_of(p);
    int64_t keys[FANOUT + 1], seps[2] = {INT64_MIN, 0};
    uint32_t slots[FANOUT + 1], n = key_count(leaf->keys);
    int level = (int)p->depth - 2, turn = beyond ? path_right_turn(p) : -1;

    if (turn >= 0) /* nothing lies between the old and the new separator */
        atomic_store_explicit(
            (_Atomic int64_t *)&inner_of(p, (uint32_t)turn)->keys[p->at[turn] + 1],
            asymreg__key(content->last + 1), memory_order_relaxed);
    memcpy(keys, leaf->keys, pos * sizeof(*keys));
    memcpy(slots, leaf->slots, pos * sizeof(*slots));
    keys[pos] = asymreg__key(content->start);
    slots[pos] = slot;
    memcpy(keys + pos + 1, leaf->keys + pos, (n - pos) * sizeof(*keys));
    memcpy(slots + pos + 1, leaf->slots + pos, (n - pos) * sizeof(*slots));
    n++;
    asymreg__node_retire(ix, LEAF, leaf_of(p));
    uint32_t at = level >= 0 ? p->at[level] : 0;
    if (level >= 0)
        seps[0] = inner_of(p, (uint32_t)level)->keys[at];
    if (n <= FANOUT) {
        void *node = make_leaf(ix, keys, slots, n);
        children_replace(ix, p, level, at, 1, 1, &node, seps);
    } else {
        uint32_t half = pos == FANOUT && path_right_turn(p) < 0 ? FANOUT
                        : pos == 0 && path_is_leftmost(p)       ? 1
                                                                : n / 2;
        void *nodes[2] = {make_leaf(ix, keys, slots, half),
                          make_leaf(ix, keys + half, slots + half, n - half)};
        seps[1] = keys[half];
        children_replace(ix, p, level, at, 1, 2, nodes, seps);
    }
    ix->n_regions++;
}

/* Removes a region from the tree. The caller has reserved nodes. */
static void unlink_slot(struct asymreg__index *ix, uint32_t slot)
{
    struct path p;
    int64_t key = asymreg__key(ix->slots[slot].start), keys[FANOUT], sep = INT64_MIN;
    uint32_t slots[FANOUT], n, pos, at;
    int level;

    path_descend(ix, key, &p);
    struct asymreg__leaf *leaf = leaf_of(&p);
    pos = asymreg__rank(leaf->keys, key);
    if (!pos || leaf->slots[pos - 1] != slot)
        return;
    pos--;
    n = key_count(leaf->keys) - 1;
    memcpy(keys, leaf->keys, pos * sizeof(*keys));
    memcpy(slots, leaf->slots, pos * sizeof(*slots));
    memcpy(keys + pos, leaf->keys + pos + 1, (n - pos) * sizeof(*keys));
    memcpy(slots + pos, leaf->slots + pos + 1, (n - pos) * sizeof(*slots));
    asymreg__node_retire(ix, LEAF, leaf);
    ix->n_regions--;
    level = (int)p.depth - 2;
    if (level < 0) {
        set_root(ix, make_leaf(ix, keys, slots, n), 1);
        return;
    }
    at = p.at[level];
    if (n == 0) {
        children_replace(ix, &p, level, at, 1, 0, NULL, NULL);
        return;
    }
    /* Merges with a neighbour under the same node, if both are small. */
    struct asymreg__inner *up = inner_of(&p, (uint32_t)level);
    struct asymreg__leaf *left = at ? up->child[at - 1] : NULL;
    struct asymreg__leaf *right = at + 1 < key_count(up->keys) ? up->child[at + 1] : NULL;
    uint32_t n_left = left ? key_count(left->keys) : FANOUT;
    uint32_t n_right = right ? key_count(right->keys) : FANOUT, k = 1;
    if (n_right + n < MERGE_BELOW) {
        memcpy(keys + n, right->keys, n_right * sizeof(*keys));
        memcpy(slots + n, right->slots, n_right * sizeof(*slots));
        asymreg__node_retire(ix, LEAF, right);
        k = 2, n += n_right;
    } else if (n_left + n < MERGE_BELOW) {
        memmove(keys + n_left, keys, n * sizeof(*keys));
        memmove(slots + n_left, slots, n * sizeof(*slots));
        memcpy(keys, left->keys, n_left * sizeof(*keys));
        memcpy(slots, left->slots, n_left * sizeof(*slots));
        asymreg__node_retire(ix, LEAF, left);
        k = 2, n += n_left, at--;
    }
    sep = up->keys[at];
    void *node = make_leaf(ix, keys, slots, n);
    children_replace(ix, &p, level, at, k, 1, &node, &sep);
}

void asymreg__slot_write(struct asymreg__slot *slot, const struct asymreg__slot *content)
{
    /* Stores an even generation, which ends a region, before the content, and an odd one, which
     * begins a region, after it. So a reader that sees new content also sees that the old region
     * has ended. */
    if (!(content->generation & 1)) {
        atomic_store_explicit(&slot->generation, content->generation, memory_order_release);
        return;
    }
    if (atomic_load_explicit(&slot->generation, memory_order_relaxed) & 1)
        atomic_store_explicit(&slot->generation, content->generation - 1, memory_order_relaxed);
    atomic_store_explicit(&slot->start, content->start, memory_order_release);
    atomic_store_explicit(&slot->last, content->last, memory_order_release);
    atomic_store_explicit(&slot->prot, content->prot, memory_order_release);
    atomic_store_explicit(&slot->value, content->value, memory_order_release);
    atomic_store_explicit(&slot->generation, content->generation, memory_order_release);
}

static void write_slot(struct asymreg__index *ix, uint32_t slot,
                       const struct asymreg__slot *content, asymreg__write_fn *write, void *ctx)
{
    if (write)
        write(ctx, ix, slot, content);
    else
        asymreg__slot_write(&ix->slots[slot], content);
}

static int change_reserve(struct asymreg__index *ix)
{
    uint32_t depth = (uint32_t)(ix->root & 63);

    return depth + 2 > MAX_DEPTH ? -ENOMEM : asymreg__mem_reserve(ix, 2 * depth + 4);
}

static int check_range(const struct asymreg__slot *c)
{
    return c->last < c->start || c->start == UINT64_MAX ? ASYMREG_EOVERFLOW : 0;
}

int asymreg__index_insert_with(struct asymreg__index *ix, const struct asymreg__slot *content,
                               asymreg__write_fn *write, void *ctx, asymreg_id *id)
{
    struct asymreg__slot c = *content;
    struct path p;
    uint32_t pos, slot, conflict;
    int beyond, rc;

    rc = check_range(&c);
    if (rc == 0)
        rc = find_place(ix, c.start, c.last, &p, &pos, &beyond, &conflict);
    if (rc < 0)
        return rc;
    if (!ix->free_head && ix->n_used == ix->max_regions)
        return ASYMREG_EFULL;
    rc = change_reserve(ix);
    if (rc < 0)
        return rc;
    if (ix->free_head) {
        slot = ix->free_head - 1;
        ix->free_head = ix->free_next[slot];
    } else {
        slot = ix->n_used++;
        asymreg__slots_grow(ix);
    }
    atomic_init(&c.generation, ix->slots[slot].generation + 1);
    link_slot(ix, &p, pos, beyond, slot, &c);
    write_slot(ix, slot, &c, write, ctx);
    asymreg__hint(ix, slot);
    *id = asymreg__id(slot, c.generation);
    return 0;
}

int asymreg__index_remove_with(struct asymreg__index *ix, asymreg_id id, asymreg__write_fn *write,
                               void *ctx)
{
    uint32_t slot = (uint32_t)id, generation = (uint32_t)(id >> 32);
    struct asymreg__slot c;
    int rc;

    if (!asymreg__index_lives(ix, id))
        return ASYMREG_ESTALE;
    rc = change_reserve(ix);
    if (rc < 0)
        return rc;
    c = ix->slots[slot];
    atomic_init(&c.generation, generation + 1);
    write_slot(ix, slot, &c, write, ctx);
    unlink_slot(ix, slot);
    if (c.generation != LAST_GENERATION) { /* otherwise the slot is used up */
        ix->free_next[slot] = ix->free_head;
        ix->free_head = slot + 1;
    }
    return 0;
}

int asymreg__index_put(struct asymreg__index *ix, uint32_t slot,
                       const struct asymreg__slot *content, uint32_t *conflict)
{
    struct path p;
    uint32_t pos;
    int beyond, rc;

    rc = check_range(content);
    if (rc == 0)
        rc = change_reserve(ix);
    if (rc == 0)
        rc = find_place(ix, content->start, content->last, &p, &pos, &beyond, conflict);
    if (rc < 0)
        return rc;
    if (slot >= ix->n_used)
        ix->n_used = slot + 1;
    link_slot(ix, &p, pos, beyond, slot, content);
    asymreg__slot_write(&ix->slots[slot], content);
    asymreg__hint(ix, slot);
    return 0;
}

int asymreg__index_drop(struct asymreg__index *ix, uint32_t slot, uint32_t generation)
{
    struct asymreg__slot c = {.generation = generation};
    int live = ix->slots[slot].generation & 1, rc = live ? change_reserve(ix) : 0;

    if (rc < 0)
        return rc;
    asymreg__slot_write(&ix->slots[slot], &c);
    if (live)
        unlink_slot(ix, slot);
    return 0;
}

int asymreg__index_build(struct asymreg__index *ix, const uint32_t *order, size_t n)
{
    size_t n_nodes = (n + FANOUT - 1) / FANOUT, n_up;
    void **nodes;
    int64_t *first;
    uint32_t depth = 1;
    int rc;

    if (n == 0 || ix->n_regions)
        return n ? -EINVAL : 0;
    for (size_t i = 0; i < n; i++) {
        const struct asymreg__slot *s = &ix->slots[order[i]];
        rc = check_range(s);
        if (rc < 0)
            return rc;
        if (i && s->start <= ix->slots[order[i - 1]].last)
            return ASYMREG_EOVERLAP;
    }
    nodes = asymreg__alloc(ix->allocator, n_nodes * sizeof(*nodes));
    first = asymreg__alloc(ix->allocator, n_nodes * sizeof(*first));
    rc = nodes && first ? asymreg__mem_reserve(ix, n_nodes + 1) : -ENOMEM;
    if (rc < 0) {
        asymreg__free(ix->allocator, nodes);
        asymreg__free(ix->allocator, first);
        return -ENOMEM;
    }
    for (size_t i = 0; i < n_nodes; i++) {
        int64_t keys[FANOUT] = {0};
        uint32_t k = (uint32_t)(n - i * FANOUT < FANOUT ? n - i * FANOUT : FANOUT);
        for (uint32_t j = 0; j < k; j++)
            keys[j] = asymreg__key(ix->slots[order[i * FANOUT + j]].start);
        first[i] = keys[0];
        nodes[i] = make_leaf(ix, keys, order + i * FANOUT, k);
    }
    for (; n_nodes > 1; n_nodes = n_up, depth++) {
        n_up = (n_nodes + FANOUT - 1) / FANOUT;
        for (size_t i = 0; i < n_up; i++) {
            uint32_t k = (uint32_t)(n_nodes - i * FANOUT < FANOUT ? n_nodes - i * FANOUT : FANOUT);
            int64_t lowest = first[i * FANOUT];
            void *node = make_inner(ix, first + i * FANOUT, nodes + i * FANOUT, k);
            nodes[i] = node;
            first[i] = lowest;
        }
    }
    asymreg__node_retire(ix, LEAF, (void *)(ix->root & ~(uintptr_t)63));
    set_root(ix, nodes[0], depth);
    ix->n_regions = (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        if (order[i] >= ix->n_used)
            ix->n_used = order[i] + 1;
    asymreg__hints_anew(ix);
    asymreg__free(ix->allocator, nodes);
    asymreg__free(ix->allocator, first);
    return 0;
}

int asymreg__index_create(const struct asymreg__index_opts *opts, struct asymreg__index **index)
{
    uint32_t max_regions = opts->max_regions ? opts->max_regions : 1u << 20;
    struct asymreg__index *ix;
    int rc;

    if (max_regions > ASYMREG_MAX_REGIONS)
        return -EINVAL;
    ix = asymreg__alloc_lines(opts->allocator, sizeof(*ix));
    if (!ix)
        return -ENOMEM;
    ix->allocator = opts->allocator;
    ix->max_regions = max_regions;
    asymreg__search_pick(ix, 0);
    rc = asymreg__mem_init(ix);
    if (rc < 0) {
        asymreg__free_lines(ix->allocator, ix);
        return rc;
    }
    ix->own_slots = !opts->slots;
    ix->no_hints = !ix->own_slots;
    ix->slots =
        opts->slots ? opts->slots : asymreg__reserve(max_regions * sizeof(struct asymreg__slot));
    ix->free_next = asymreg__reserve(max_regions * sizeof(*ix->free_next));
    rc = ix->slots && ix->free_next ? asymreg__mem_reserve(ix, 1) : -ENOMEM;
    if (rc < 0) {
        asymreg__index_destroy(ix);
        return rc;
    }
    set_root(ix, make_leaf(ix, NULL, NULL, 0), 1);
    *index = ix;
    return 0;
}

void asymreg__index_destroy(struct asymreg__index *index)
{
    if (!index)
        return;
    if (index->own_slots)
        asymreg__unreserve(index->slots, index->max_regions * sizeof(*index->slots));
    asymreg__unreserve(index->free_next, index->max_regions * sizeof(*index->free_next));
    asymreg__hints_fini(index);
    asymreg__mem_fini(index);
    asymreg__free_lines(index->allocator, index);
}

int asymreg__index_insert(struct asymreg__index *index, uint64_t start, uint64_t bytes,
                          uint32_t prot, uint64_t value, asymreg_id *id)
{
    struct asymreg__slot c = {
        .start = start, .last = start + bytes - 1, .prot = prot, .value = value};

    if (!bytes)
        return -EINVAL;
    return asymreg__index_insert_with(index, &c, NULL, NULL, id);
}

int asymreg__index_remove(struct asymreg__index *index, asymreg_id id)
{
    return asymreg__index_remove_with(index, id, NULL, NULL);
}

int asymreg__index_next(struct asymreg__index *index, uint64_t addr, struct asymreg_region *region)
{
    int64_t key = asymreg__key(addr < UINT64_MAX ? addr : addr - 1);
    const struct asymreg__leaf *leaf;
    const struct asymreg__slot *s;
    struct path p;
    uint32_t pos, slot;

    path_descend(index, key, &p);
    leaf = leaf_of(&p);
    pos = asymreg__rank(leaf->keys, key);
    if (pos && index->slots[leaf->slots[pos - 1]].last >= addr) {
        slot = leaf->slots[pos - 1];
    } else {
        if (pos == FANOUT || leaf->keys[pos] == KEY_NONE) {
            leaf = path_next_leaf(&p);
            pos = 0;
        }
        if (!leaf)
            return 0;
        slot = leaf->slots[pos];
    }
    s = &index->slots[slot];
    *region = (struct asymreg_region){.start = s->start,
                                      .last = s->last,
                                      .id = asymreg__id(slot, s->generation),
                                      .prot = s->prot,
                                      .value = s->value};
    return 1;
}

void asymreg__index_stats(const struct asymreg__index *index, struct asymreg__index_stats *stats)
{
    *stats = (struct asymreg__index_stats){.n_regions = index->n_regions,
                                           .n_retired = index->n_retired,
                                           .depth = (uint32_t)(index->root & 63)};
    stats->bytes = (uint64_t)index->n_used * sizeof(*index->slots) + asymreg__hint_memory(index);
    for (int i = 0; i < N_CLASSES; i++)
        stats->bytes += index->pools[i].slab_bytes;
}
