/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps from text: lists of ranges, PMI_process_mapping, Flux task maps; and what follows from the
 * nodes of ranks. */
#include <errno.h>

#include "internal.h"

/* numbers stop growing here: out of range for ids and counts alike */
#define NUMBER_LIMIT (UINT64_C(1) << 41)

/* Text that is read from left to right. */
struct scan {
    const char *at, *end;
};

static void skip_blanks(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
        s->at++;
}

static bool accept(struct scan *s, char c)
{
    skip_blanks(s);
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

/* The next byte, no blank before it. */
static bool accept_here(struct scan *s, char c)
{
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static bool accept_word(struct scan *s, const char *word)
{
    size_t len = strlen(word);

    skip_blanks(s);
    if ((size_t)(s->end - s->at) < len || memcmp(s->at, word, len) != 0)
        return false;
    s->at += len;
    return true;
}

static bool at_end(struct scan *s)
{
    skip_blanks(s);
    return s->at == s->end;
}

/* A decimal number without sign, and no blank before it; huge ones come out as NUMBER_LIMIT at
 * least. */
static bool number_here(struct scan *s, uint64_t *value)
{
    if (s->at == s->end || *s->at < '0' || *s->at > '9')
        return false;
    for (*value = 0; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
        if (*value < NUMBER_LIMIT)
            *value = *value * 10 + (uint64_t)(*s->at - '0');
    return true;
}

static bool number(struct scan *s, uint64_t *value)
{
    skip_blanks(s);
    return number_here(s, value);
}

/* first, first-last or first-last:stride, without blanks: they separate ranges */
static int range(struct scan *s, struct rankmap_range *out)
{
    uint64_t stride = 1;
    bool down;

    if (!number_here(s, &out->first))
        return RANKMAP_ESYNTAX;
    out->last = out->first;
    out->stride = 1;
    if (!accept_here(s, '-'))
        return 0;
    if (!number_here(s, &out->last))
        return RANKMAP_ESYNTAX;
    down = out->last < out->first;
    if (accept_here(s, ':')) {
        if (accept_here(s, '-') && !down)
            return RANKMAP_ERANGE;
        if (!number_here(s, &stride))
            return RANKMAP_ESYNTAX;
        if (stride == 0 || stride >= NUMBER_LIMIT)
            return RANKMAP_ERANGE;
    }
    out->stride = down ? -(int64_t)stride : (int64_t)stride;
    return 0;
}

int rankmap_from_text(const char *text, size_t len, const struct rankmap_opts *opts,
                      struct rankmap **out)
{
    struct scan s = {text, text ? text + len : text};
    struct rankmap_range *ranges;
    size_t n = 0, cap = len / 2 + 1; /* each takes a digit and a separator */
    struct make mk;
    int rc = rankmap__make_init(&mk, opts);

    if (rc < 0)
        return rc;
    if (!out || (!text && len > 0))
        return -EINVAL;
    ranges = rankmap__alloc(mk.alloc, cap, sizeof(*ranges));
    if (!ranges)
        return -ENOMEM;
    while (rc == 0 && !at_end(&s)) {
        const char *before;

        if (n == cap)
            rc = RANKMAP_ESYNTAX;
        else
            rc = range(&s, &ranges[n++]);
        before = s.at;
        if (rc == 0 && accept(&s, ',')) {
            if (at_end(&s))
                rc = RANKMAP_ESYNTAX;
        } else if (rc == 0 && !at_end(&s) && s.at == before) {
            rc = RANKMAP_ESYNTAX; /* neither comma nor blank */
        }
    }
    if (rc == 0)
        rc = rankmap_from_ranges(ranges, n, opts, out);
    rankmap__free(mk.alloc, ranges, cap, sizeof(*ranges));
    return rc;
}

/* ppn ranks on each of n_nodes nodes from first on, `repeat` times. A group of blocks repeats as a
 * whole. */
struct placement {
    uint64_t first, n_nodes, ppn, repeat;
    size_t group_len; /* of the first of a group: its blocks; else 1 */
    uint64_t group_repeat;
};

/* Placements of a text. */
struct placements {
    struct placement *p;
    size_t n, cap;
};

static int placement_check(const struct placement *p)
{
    if (p->n_nodes == 0 || p->ppn == 0 || p->repeat == 0)
        return RANKMAP_ESYNTAX;
    if (p->first > INT32_MAX || p->n_nodes > INT32_MAX || p->ppn > INT32_MAX ||
        p->repeat > INT32_MAX || p->first + p->n_nodes > (uint64_t)INT32_MAX + 1)
        return RANKMAP_ERANGE;
    return 0;
}

static int placement_add(struct placements *all, const struct placement *p)
{
    int rc = placement_check(p);

    if (rc < 0)
        return rc;
    if (all->n == all->cap)
        return RANKMAP_ESYNTAX; /* more than the text has room for: cannot be */
    all->p[all->n++] = *p;
    return 0;
}

/* (first,n_nodes,ppn) or a bare node */
static int vector_block(struct scan *s, struct placements *all)
{
    struct placement p = {0, 1, 1, 1, 1, 1};

    if (accept(s, '(')) {
        if (!number(s, &p.first) || !accept(s, ',') || !number(s, &p.n_nodes) || !accept(s, ',') ||
            !number(s, &p.ppn) || !accept(s, ')'))
            return RANKMAP_ESYNTAX;
    } else if (!number(s, &p.first)) {
        return RANKMAP_ESYNTAX;
    }
    return placement_add(all, &p);
}

/* (vector,…): what follows the parenthesis */
static int vector_list(struct scan *s, struct placements *all)
{
    int rc;

    if (!accept_word(s, "vector"))
        return RANKMAP_ESYNTAX;
    while (accept(s, ',')) {
        if (accept(s, '[')) {
            size_t head = all->n;
            uint64_t times;

            do {
                if ((rc = vector_block(s, all)) < 0)
                    return rc;
            } while (accept(s, ','));
            if (!accept(s, ']') || !accept(s, 'x') || !number(s, &times) || times == 0)
                return RANKMAP_ESYNTAX;
            if (times > INT32_MAX)
                return RANKMAP_ERANGE;
            all->p[head].group_len = all->n - head;
            all->p[head].group_repeat = times;
        } else if ((rc = vector_block(s, all)) < 0) {
            return rc;
        }
    }
    return accept(s, ')') && at_end(s) && all->n > 0 ? 0 : RANKMAP_ESYNTAX;
}

/* [[node,n_nodes,ppn,repeat],…]: what follows the first bracket */
static int taskmap_list(struct scan *s, struct placements *all)
{
    if (accept(s, ']'))
        return 0;
    do {
        struct placement p = {.group_len = 1, .group_repeat = 1};
        int rc;

        if (!accept(s, '[') || !number(s, &p.first) || !accept(s, ',') || !number(s, &p.n_nodes) ||
            !accept(s, ',') || !number(s, &p.ppn) || !accept(s, ',') || !number(s, &p.repeat) ||
            !accept(s, ']'))
            return RANKMAP_ESYNTAX;
        if ((rc = placement_add(all, &p)) < 0)
            return rc;
    } while (accept(s, ','));
    return accept(s, ']') ? 0 : RANKMAP_ESYNTAX;
}

/* {"version":1,"map":[…]}, members in either order: what follows the brace */
static int taskmap_object(struct scan *s, struct placements *all)
{
    bool version = false, map = false;
    uint64_t number_of_version;
    int rc;

    do {
        if (!version && accept_word(s, "\"version\"")) {
            version = true;
            if (!accept(s, ':') || !number(s, &number_of_version) || number_of_version != 1)
                return RANKMAP_ESYNTAX;
        } else if (!map && accept_word(s, "\"map\"")) {
            map = true;
            if (!accept(s, ':') || !accept(s, '['))
                return RANKMAP_ESYNTAX;
            if ((rc = taskmap_list(s, all)) < 0)
                return rc;
        } else {
            return RANKMAP_ESYNTAX;
        }
    } while (accept(s, ','));
    return version && map && accept(s, '}') ? 0 : RANKMAP_ESYNTAX;
}

/* Writes nodes of ranks from `at` on, up to n; returns how far it came. */
static uint32_t place(const struct placement *p, uint32_t at, uint32_t n, uint32_t *node_of)
{
    for (uint64_t again = 0; again < p->repeat; again++)
        for (uint64_t node = 0; node < p->n_nodes; node++)
            for (uint64_t i = 0; i < p->ppn; i++) {
                if (at == n)
                    return at;
                node_of[at++] = (uint32_t)(p->first + node);
            }
    return at;
}

static uint32_t place_all(const struct placements *all, uint32_t at, uint32_t n, uint32_t *node_of)
{
    for (size_t i = 0; i < all->n && at < n;) {
        for (uint64_t again = 0; again < all->p[i].group_repeat && at < n; again++)
            for (size_t k = 0; k < all->p[i].group_len; k++)
                at = place(&all->p[i + k], at, n, node_of);
        i += all->p[i].group_len;
    }
    return at;
}

/* How many ranks a task map places, at most `limit`. */
static uint64_t placed(const struct placements *all, uint64_t limit)
{
    uint64_t n = 0, product;

    for (size_t i = 0; i < all->n && n <= limit; i++) {
        if (__builtin_mul_overflow(all->p[i].n_nodes, all->p[i].ppn, &product) ||
            __builtin_mul_overflow(product, all->p[i].repeat, &product) || product > limit)
            return limit;
        n += product;
    }
    return min_u64(n, limit);
}

static int nodes_of(const struct make *mk, const struct placements *all, uint32_t n,
                    struct rankmap **out)
{
    struct ids ids = {.n = n};
    struct shape shape = {.n = n, .n_levels = 1, .level = {{1, 0}}};
    uint32_t *node_of, at = 0;
    int rc;

    if (all->n == 1 || n == 0) { /* one block, round and round */
        if (n > 0) {
            shape.o = (int64_t)all->p[0].first;
            shape.n_levels = 3;
            shape.level[0] = (struct rankmap_level){0, all->p[0].ppn};
            shape.level[1] = (struct rankmap_level){1, all->p[0].n_nodes};
            shape.level[2] = (struct rankmap_level){0, 0};
        }
        return rankmap__from_shape(mk, &shape, out);
    }
    node_of = rankmap__alloc(mk->alloc, n, sizeof(*node_of));
    if (!node_of)
        return -ENOMEM;
    while (at < n)
        at = place_all(all, at, n, node_of);
    ids.a32 = node_of;
    rc = rankmap__from_ids(mk, &ids, out);
    rankmap__free(mk->alloc, node_of, n, sizeof(*node_of));
    return rc;
}

int rankmap_nodes_from_text(const char *text, size_t len, uint32_t n,
                            const struct rankmap_opts *opts, struct rankmap **out)
{
    struct scan s = {text, text ? text + len : text};
    struct placements all = {.cap = len / 2 + 1};
    bool taskmap = true;
    struct make mk;
    int rc = rankmap__make_init(&mk, opts);

    if (rc < 0)
        return rc;
    if (!text || !out)
        return -EINVAL;
    mk.flags |= RANKMAP_ALLOW_DUPLICATES;
    all.p = rankmap__alloc(mk.alloc, all.cap, sizeof(*all.p));
    if (!all.p)
        return -ENOMEM;
    if (accept(&s, '(')) {
        taskmap = false;
        rc = vector_list(&s, &all);
    } else if (accept(&s, '[')) {
        rc = taskmap_list(&s, &all);
    } else if (accept(&s, '{')) {
        rc = taskmap_object(&s, &all);
    } else {
        rc = RANKMAP_ESYNTAX;
    }
    if (rc == 0 && !at_end(&s))
        rc = RANKMAP_ESYNTAX;
    if (rc == 0 && taskmap && placed(&all, RANKMAP_ID_LIMIT) != n)
        rc = RANKMAP_ERANGE;
    if (rc == 0)
        rc = nodes_of(&mk, &all, n, out);
    rankmap__free(mk.alloc, all.p, all.cap, sizeof(*all.p));
    return rc;
}

int rankmap_by_node(const struct rankmap *nodes, const struct rankmap_opts *opts,
                    struct rankmap **out)
{
    struct ids ids = {0};
    uint64_t *keys, min, max;
    struct make mk;
    int rc = rankmap__make_init(&mk, opts);

    if (rc < 0)
        return rc;
    if (!nodes || !out)
        return -EINVAL;
    if (nodes->n == 0)
        return rankmap__from_ids(&mk, &ids, out);
    rankmap__exact_bounds(nodes, &min, &max);
    if (max - min > UINT32_MAX)
        return RANKMAP_ERANGE;
    keys = rankmap__alloc(mk.alloc, 2 * (size_t)nodes->n, sizeof(*keys));
    if (!keys)
        return -ENOMEM;
    rankmap__expand(nodes, 0, nodes->n, keys);
    for (uint32_t r = 0; r < nodes->n; r++)
        keys[r] = (keys[r] - min) << 32 | r;
    rankmap__sort(keys, keys + nodes->n, nodes->n, 32, 64);
    for (uint32_t r = 0; r < nodes->n; r++)
        keys[r] &= UINT32_MAX;
    ids.a64 = keys;
    ids.n = nodes->n;
    mk.distinct = true;
    rc = rankmap__from_ids(&mk, &ids, out);
    rankmap__free(mk.alloc, keys, 2 * (size_t)nodes->n, sizeof(*keys));
    return rc;
}

int rankmap_on_node(const struct rankmap *nodes, uint64_t node, const struct rankmap_opts *opts,
                    struct rankmap **out)
{
    uint64_t block[BLOCK];
    uint32_t *ranks = NULL, n = 0, cap = 0;
    struct ids ids;
    struct make mk;
    int rc = rankmap__make_init(&mk, opts);

    if (rc < 0)
        return rc;
    if (!nodes || !out)
        return -EINVAL;
    for (int pass = 0; pass < 2; pass++) { /* count, then keep */
        n = 0;
        for (uint32_t done = 0; done < nodes->n;) {
            uint32_t some = (uint32_t)min_u64(BLOCK, nodes->n - done);

            rankmap__expand(nodes, done, some, block);
            for (uint32_t i = 0; i < some; i++)
                if (block[i] == node) {
                    if (ranks)
                        ranks[n] = done + i;
                    n++;
                }
            done += some;
        }
        if (pass == 0) {
            cap = n;
            ranks = rankmap__alloc(mk.alloc, cap, sizeof(*ranks));
            if (!ranks)
                return -ENOMEM;
        }
    }
    ids = (struct ids){.a32 = ranks, .n = n};
    mk.distinct = true;
    rc = rankmap__from_ids(&mk, &ids, out);
    rankmap__free(mk.alloc, ranks, cap, sizeof(*ranks));
    return rc;
}
