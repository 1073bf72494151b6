/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps from text: lists of ranges, PMI_process_mapping, Flux task maps; and ranks by node. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "internal.h"

/* parsed numbers are capped here, out of range for ids and counts */
#define NUMBER_LIMIT (UINT64_C(1) << 41)

/* Text that is read from left to right. */
struct scan {
    const char *begin, *at, *end;
    struct rankmap_error *err;
};

/* Reports that `what` is missing here. */
static int report_missing(struct scan *s, const char *what)
{
    size_t where = (size_t)(s->at - s->begin);
    char found[16] = "the end";

    if (s->at < s->end)
        snprintf(found, sizeof(found), *s->at > ' ' && *s->at <= '~' ? "'%c'" : "byte 0x%02x",
                 (unsigned char)*s->at);
    return rankmap__fail(s->err, RANKMAP_ESYNTAX, where, RANKMAP_NO_ID,
                         "expected %s at byte %zu, not %s", what, where, found);
}

/* Reports that the item that ends here is out of range. */
static int report_beyond(struct scan *s, const char *what)
{
    size_t where = (size_t)(s->at - s->begin);

    return rankmap__fail(s->err, RANKMAP_ERANGE, where, RANKMAP_NO_ID, "%s before byte %zu", what,
                         where);
}

static void skip_blanks(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
        s->at++;
}

/* Accepts the next byte, without skipping blanks. */
static bool accept_here(struct scan *s, char c)
{
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static bool accept_char(struct scan *s, char c)
{
    skip_blanks(s);
    return accept_here(s, c);
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

/* Reads a decimal number without sign or leading blanks; a huge one becomes at least
 * NUMBER_LIMIT. */
static bool number_here(struct scan *s, uint64_t *value)
{
    if (s->at == s->end || *s->at < '0' || *s->at > '9')
        return false;
    for (*value = 0; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
        if (*value < NUMBER_LIMIT)
            *value = *value * 10 + (uint64_t)(*s->at - '0');
    return true;
}

static bool read_number(struct scan *s, uint64_t *value)
{
    skip_blanks(s);
    return number_here(s, value);
}

/* Reads n numbers with commas between them, and the byte behind. */
static bool read_numbers(struct scan *s, uint64_t *values, size_t n, char end)
{
    for (size_t i = 0; i < n; i++)
        if ((i > 0 && !accept_char(s, ',')) || !read_number(s, &values[i]))
            return false;
    return accept_char(s, end);
}

/* first, first-last or first-last:stride, without blanks: they separate ranges */
static int read_range(struct scan *s, struct rankmap_range *out)
{
    uint64_t stride = 1;
    bool down;

    if (!number_here(s, &out->first))
        return report_missing(s, "a number");
    if (out->first >= NUMBER_LIMIT)
        return report_beyond(s, "an id that is too large");
    out->last = out->first;
    out->stride = 1;
    if (!accept_here(s, '-'))
        return 0;
    if (!number_here(s, &out->last))
        return report_missing(s, "the last number of a range");
    if (out->last >= NUMBER_LIMIT)
        return report_beyond(s, "an id that is too large");
    down = out->last < out->first;
    if (accept_here(s, ':')) {
        if (accept_here(s, '-') && out->last > out->first)
            return report_beyond(s, "a negative stride of a range that ascends");
        if (!number_here(s, &stride))
            return report_missing(s, "a stride");
        if (stride == 0 || stride >= NUMBER_LIMIT)
            return report_beyond(s, "a stride that is 0 or too large");
    }
    out->stride = down ? -(int64_t)stride : (int64_t)stride;
    return 0;
}

/* Reads the ranges of a list, up to cap; *n gets their number. */
static int read_ranges(struct scan *s, struct rankmap_range *ranges, size_t cap, size_t *n)
{
    for (*n = 0; *n < cap && !at_end(s);) {
        int rc = read_range(s, &ranges[(*n)++]);
        const char *behind = s->at;

        if (rc < 0)
            return rc;
        if (accept_char(s, ',')) {
            if (at_end(s))
                return report_missing(s, "a number");
        } else if (!at_end(s) && s->at == behind) {
            return report_missing(s, "a comma or a blank");
        }
    }
    return 0;
}

int rankmap_from_text(const char *text, size_t len, const struct rankmap_opts *opts,
                      struct rankmap **out, struct rankmap_error *err)
{
    struct rankmap_error detail = {.code = 0};
    struct scan s = {text, text, text ? text + len : text, &detail};
    struct rankmap_range *ranges;
    size_t n, cap = len / 2 + 1; /* each takes a digit and a separator */
    struct make mk;
    int rc = rankmap__make_init(&mk, opts, out && (text || len == 0));

    if (rc < 0)
        return rankmap__report(rc, &detail, err);
    ranges = rankmap__alloc(mk.alloc, cap, sizeof(*ranges));
    if (!ranges)
        return rankmap__report(-ENOMEM, &detail, err);
    rc = read_ranges(&s, ranges, cap, &n);
    if (rc == 0) {
        rc = rankmap__from_ranges(&mk, ranges, n, "id", out, &detail);
        if (rc < 0 && detail.code == rc) { /* report the range's place in the text */
            s.at = s.begin;
            read_ranges(&s, ranges, (size_t)detail.where, &n);
            skip_blanks(&s);
            detail.where = (uint64_t)(s.at - s.begin);
        }
    }
    rankmap__free(mk.alloc, ranges);
    return rankmap__report(rc, &detail, err);
}

/* ppn ranks on each of n_nodes nodes from first on, `repeat` times. A group of blocks repeats as a
 * whole. */
struct placement {
    uint64_t first, n_nodes, ppn, repeat;
    size_t group_len; /* in a group's first: its number of blocks; else 1 */
    uint64_t group_repeat;
};

/* Placements of a text. */
struct placements {
    struct placement *p;
    size_t n;
};

/* Adds first, nodes, ppn and repeat. */
static int placement_add(struct scan *s, struct placements *all, const uint64_t numbers[4])
{
    if (numbers[1] == 0 || numbers[2] == 0 || numbers[3] == 0)
        return report_missing(s, "a block of at least one node and rank");
    if (numbers[0] > INT32_MAX || numbers[1] > INT32_MAX || numbers[2] > INT32_MAX ||
        numbers[3] > INT32_MAX || numbers[0] + numbers[1] > (uint64_t)INT32_MAX + 1)
        return report_beyond(s, "a block with a number above 2^31 - 1");
    all->p[all->n++] = (struct placement){numbers[0], numbers[1], numbers[2], numbers[3], 1, 1};
    return 0;
}

/* (first,nodes,ppn) or a bare node */
static int vector_block(struct scan *s, struct placements *all)
{
    uint64_t numbers[4] = {0, 1, 1, 1};

    if (accept_char(s, '(')) {
        if (!read_numbers(s, numbers, 3, ')'))
            return report_missing(s, "the rest of a block (node,nodes,ranks)");
    } else if (!read_number(s, numbers)) {
        return report_missing(s, "a node or a block (node,nodes,ranks)");
    }
    return placement_add(s, all, numbers);
}

/* [blocks]xN, behind the bracket */
static int vector_group(struct scan *s, struct placements *all)
{
    size_t head = all->n;
    uint64_t times;

    do {
        int rc = vector_block(s, all);

        if (rc < 0)
            return rc;
    } while (accept_char(s, ','));
    if (!accept_char(s, ']') || !accept_char(s, 'x') || !read_number(s, &times) || times == 0)
        return report_missing(s, "]x and a number of times");
    if (times > INT32_MAX)
        return report_beyond(s, "a number of times above 2^31 - 1");
    all->p[head].group_len = all->n - head;
    all->p[head].group_repeat = times;
    return 0;
}

/* Reads (vector,…) behind the parenthesis. */
static int vector_list(struct scan *s, struct placements *all)
{
    if (!accept_word(s, "vector"))
        return report_missing(s, "the word vector");
    while (accept_char(s, ',')) {
        int rc = accept_char(s, '[') ? vector_group(s, all) : vector_block(s, all);

        if (rc < 0)
            return rc;
    }
    if (all->n == 0)
        return report_missing(s, "a comma and a block");
    return accept_char(s, ')') ? 0 : report_missing(s, "a comma or )");
}

/* Reads [[node,nodes,ppn,repeat],…] behind the first bracket. */
static int taskmap_list(struct scan *s, struct placements *all)
{
    if (accept_char(s, ']'))
        return 0;
    do {
        uint64_t numbers[4];
        int rc;

        if (!accept_char(s, '[') || !read_numbers(s, numbers, 4, ']'))
            return report_missing(s, "a block [node,nodes,ranks,times]");
        rc = placement_add(s, all, numbers);
        if (rc < 0)
            return rc;
    } while (accept_char(s, ','));
    return accept_char(s, ']') ? 0 : report_missing(s, "a comma or ]");
}

/* Reads {"version":1,"map":[…]}, members in either order, behind the brace. */
static int taskmap_object(struct scan *s, struct placements *all)
{
    bool version = false, map = false;
    uint64_t number_of_version;

    do {
        if (!version && accept_word(s, "\"version\"")) {
            version = true;
            if (!accept_char(s, ':') || !read_number(s, &number_of_version) ||
                number_of_version != 1)
                return report_missing(s, "a colon and version 1");
        } else if (!map && accept_word(s, "\"map\"")) {
            int rc;

            map = true;
            if (!accept_char(s, ':') || !accept_char(s, '['))
                return report_missing(s, "a colon and [");
            rc = taskmap_list(s, all);
            if (rc < 0)
                return rc;
        } else {
            return report_missing(s, "one version or map");
        }
    } while (accept_char(s, ','));
    return version && map && accept_char(s, '}') ? 0 : report_missing(s, "version, map and }");
}

/* Writes the nodes of ranks from `at` on, up to n. Returns the next rank. */
static uint32_t place_block(const struct placement *p, uint32_t at, uint32_t n, uint32_t *node_of)
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
                at = place_block(&all->p[i + k], at, n, node_of);
        i += all->p[i].group_len;
    }
    return at;
}

/* Returns how many ranks a task map places, at most `limit`. */
static uint64_t count_placed(const struct placements *all, uint64_t limit)
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
    struct shape shape = {.n = n};
    uint32_t *node_of, at = 0;
    int rc;

    if (all->n == 1 || n == 0) { /* one block, repeated */
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
    rankmap__free(mk->alloc, node_of);
    return rc;
}

/* Parses any of the three forms, with nothing behind it. */
static int placements_of(struct scan *s, struct placements *all, bool *exact)
{
    int rc;

    *exact = true;
    if (accept_char(s, '(')) {
        *exact = false;
        rc = vector_list(s, all);
    } else if (accept_char(s, '[')) {
        rc = taskmap_list(s, all);
    } else if (accept_char(s, '{')) {
        rc = taskmap_object(s, all);
    } else {
        rc = report_missing(s, "(, [ or {");
    }
    return rc == 0 && !at_end(s) ? report_missing(s, "the end of the text") : rc;
}

int rankmap_nodes_from_text(const char *text, size_t len, uint32_t n,
                            const struct rankmap_opts *opts, struct rankmap **out,
                            struct rankmap_error *err)
{
    struct rankmap_error detail = {.code = 0};
    struct scan s = {text, text, text ? text + len : text, &detail};
    struct placements all = {.p = NULL};
    struct make mk;
    uint64_t n_placed;
    bool exact;
    int rc = rankmap__make_init(&mk, opts, text && out);

    if (rc < 0)
        return rankmap__report(rc, &detail, err);
    mk.flags |= RANKMAP_ALLOW_DUPLICATES;
    /* each takes a digit and a separator */
    all.p = rankmap__alloc(mk.alloc, len / 2 + 1, sizeof(*all.p));
    if (!all.p)
        return rankmap__report(-ENOMEM, &detail, err);
    rc = placements_of(&s, &all, &exact);
    n_placed = rc == 0 && exact ? count_placed(&all, RANKMAP_ID_LIMIT) : n;
    if (n_placed != n)
        rc = rankmap__fail(&detail, RANKMAP_ERANGE, len, RANKMAP_NO_ID,
                           "the task map places %" PRIu64 " ranks, not %" PRIu32, n_placed, n);
    if (rc == 0)
        rc = nodes_of(&mk, &all, n, out);
    rankmap__free(mk.alloc, all.p);
    return rankmap__report(rc, &detail, err);
}

int rankmap_ranks_by_node(const struct rankmap *nodes, const struct rankmap_opts *opts,
                          struct rankmap **out)
{
    struct ids ids = {0};
    uint64_t *keys, min, max;
    struct make mk;
    int rc = rankmap__make_init(&mk, opts, nodes && out);

    if (rc < 0)
        return rc;
    if (nodes->n == 0)
        return rankmap__from_ids(&mk, &ids, out);
    rankmap__exact_bounds(nodes, &min, &max);
    if (max - min > UINT32_MAX)
        return RANKMAP_ERANGE;
    keys = rankmap__alloc(mk.alloc, 2 * (uint64_t)nodes->n, sizeof(*keys));
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
    rankmap__free(mk.alloc, keys);
    return rc;
}

int rankmap_ranks_on_node(const struct rankmap *nodes, uint64_t node,
                          const struct rankmap_opts *opts, struct rankmap **out)
{
    struct ids ids = {.n = 0};
    uint32_t *ranks;
    struct walk w;
    struct make mk;
    int rc = rankmap__make_init(&mk, opts, nodes && out);

    if (rc < 0)
        return rc;
    for (rankmap__walk_start(&w, nodes); rankmap__walk_next(&w);)
        for (uint32_t i = 0; i < w.n; i++)
            ids.n += w.id[i] == node;
    ranks = rankmap__alloc(mk.alloc, ids.n, sizeof(*ranks));
    if (!ranks)
        return -ENOMEM;
    ids.a32 = ranks;
    for (rankmap__walk_start(&w, nodes); rankmap__walk_next(&w);)
        for (uint32_t i = 0; i < w.n; i++)
            if (w.id[i] == node)
                *ranks++ = w.first + i;
    mk.distinct = true;
    rc = rankmap__from_ids(&mk, &ids, out);
    rankmap__free(mk.alloc, (void *)(uintptr_t)ids.a32);
    return rc;
}
