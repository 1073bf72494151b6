/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PMI_process_mapping: parser, expansion and encoder.
 *
 * Parser: recursive descent without recursion, since brackets do not nest. It
 * runs twice, to count and check and then to store, so that a failure leaves
 * the caller's arrays alone.
 *
 * Encoder: everything is streamed from the caller's array, once to measure
 * and once to write. It works in three layers:
 *
 *   fold     the smallest period p of the whole array; only the first p ranks
 *            are written, since readers repeat the list and stop at the size
 *            of the job;
 *   blocks   equal runs on consecutive nodes become one triple. In a list
 *            that is not repeated the last run may be shorter than its
 *            block says: readers stop before they notice;
 *   groups   (extended grammar) consecutive repeats of up to GROUP_MAX blocks
 *            become `[…]xN`.
 *
 * The smallest period is found in constant space. If it is at most half of
 * the array, the critical factorization theorem gives it exactly and in
 * linear time (Crochemore and Perrin, "Two-way string-matching", J. ACM 38,
 * 1991). A longer one means that the array ends with a copy of its own
 * beginning. Each run of equal nodes gives one candidate. We try the candidates within a budget of
 * FOLD_BUDGET comparisons a rank. Beyond it the encoder writes the list unfolded, which is correct
 * and at most twice as long. Below about sixty ranks the bound cannot be reached, so the fold is
 * exact there.
 */
#include <errno.h>
#include <string.h>

#include <pmiwire/mapping.h>

#include "base_internal.h"

/* Longest `[…]` that the encoder looks for, blocks. */
#define GROUP_MAX 16u
/* Blocks kept in view: two copies of the longest group. A power of two. */
#define WINDOW 32u
/* Comparisons per rank when looking for a period above half of the array. */
#define FOLD_BUDGET 8u
/* A triple of up to this many ranks may be shorter as bare numbers: `(f,n,p)`
   costs 4 bytes and three numbers, n*p bare numbers one comma less. */
#define BARE_MAX 8u
/* What an ssize_t return can say (SSIZE_MAX is not in C11). */
#define LENGTH_MAX (SIZE_MAX / 2)

/* ---- Parser --------------------------------------------------------------- */

struct parser {
    const char *text;
    size_t len;
    size_t pos;
    struct pmiwire_mapping_block *blocks; /* NULL while counting */
    uint32_t n_blocks;
    uint64_t n_covered; /* ranks that one pass over the list places */
};

static void skip_spaces(struct parser *ps)
{
    while (ps->pos < ps->len && ps->text[ps->pos] == ' ')
        ps->pos++;
}

/* The next byte that is not a space, or -1 at the end. Consumes the spaces. */
static int peek_token(struct parser *ps)
{
    skip_spaces(ps);
    return ps->pos < ps->len ? (unsigned char)ps->text[ps->pos] : -1;
}

static int accept_char(struct parser *ps, char c)
{
    if (peek_token(ps) != (unsigned char)c)
        return 0;
    ps->pos++;
    return 1;
}

/* Parses decimal digits, at least one. On failure pos is at the number, or where one should be. */
static int parse_number(struct parser *ps, uint32_t least, uint32_t *value)
{
    int c = peek_token(ps);
    size_t start = ps->pos;
    uint64_t v = 0;

    if (c < '0' || c > '9')
        return PMIWIRE_EMAPPING;
    while (ps->pos < ps->len && ps->text[ps->pos] >= '0' && ps->text[ps->pos] <= '9') {
        v = v * 10 + (uint64_t)(ps->text[ps->pos] - '0');
        if (v > PMIWIRE_MAPPING_MAX) {
            ps->pos = start;
            return PMIWIRE_EMAPSIZE;
        }
        ps->pos++;
    }
    if (v < least) {
        ps->pos = start;
        return PMIWIRE_EMAPPING;
    }
    *value = (uint32_t)v;
    return 0;
}

/* block = "(" number "," number "," number ")" / number; adds its ranks to *n_ranks */
static int parse_block(struct parser *ps, uint64_t *n_ranks)
{
    struct pmiwire_mapping_block b = {0, 1, 1, 0, 0};
    size_t start;
    int rc;

    skip_spaces(ps);
    start = ps->pos;
    if (accept_char(ps, '(')) {
        if ((rc = parse_number(ps, 0, &b.first_node)) != 0)
            return rc;
        if (!accept_char(ps, ','))
            return PMIWIRE_EMAPPING;
        if ((rc = parse_number(ps, 1, &b.n_nodes)) != 0)
            return rc;
        if (!accept_char(ps, ','))
            return PMIWIRE_EMAPPING;
        if ((rc = parse_number(ps, 1, &b.ppn)) != 0)
            return rc;
        if (!accept_char(ps, ')'))
            return PMIWIRE_EMAPPING;
    } else if ((rc = parse_number(ps, 0, &b.first_node)) != 0) {
        return rc;
    }
    /* Each factor is below 2^31 and *n_ranks at most that, so 64 bits hold the sums. */
    *n_ranks += (uint64_t)b.n_nodes * b.ppn;
    if ((uint64_t)b.first_node + b.n_nodes > PMIWIRE_MAPPING_MAX ||
        *n_ranks > PMIWIRE_MAPPING_MAX) {
        ps->pos = start;
        return PMIWIRE_EMAPSIZE;
    }
    if (ps->blocks != NULL)
        ps->blocks[ps->n_blocks] = b;
    ps->n_blocks++; /* cannot wrap: each block places a rank, and ranks are bounded */
    return 0;
}

/* item = block / "[" block *( "," block ) "]x" number */
static int parse_item(struct parser *ps)
{
    uint32_t first = ps->n_blocks;
    uint32_t rep = 1;
    uint64_t n_ranks = 0;
    size_t start;
    int rc;

    skip_spaces(ps);
    start = ps->pos;
    if (!accept_char(ps, '[')) {
        rc = parse_block(ps, &n_ranks);
        if (rc != 0)
            return rc;
    } else {
        do {
            rc = parse_block(ps, &n_ranks);
            if (rc != 0)
                return rc;
        } while (accept_char(ps, ','));
        if (!accept_char(ps, ']') || !accept_char(ps, 'x'))
            return PMIWIRE_EMAPPING;
        rc = parse_number(ps, 1, &rep);
        if (rc != 0)
            return rc;
        if (ps->blocks != NULL) {
            ps->blocks[first].group_len = ps->n_blocks - first;
            ps->blocks[first].group_rep = rep;
        }
    }
    ps->n_covered += n_ranks * rep;
    if (ps->n_covered > PMIWIRE_MAPPING_MAX) {
        ps->pos = start;
        return PMIWIRE_EMAPSIZE;
    }
    return 0;
}

static int parse_list(struct parser *ps)
{
    static const char word[] = "vector";
    int rc;

    if (!accept_char(ps, '('))
        return PMIWIRE_EMAPPING;
    skip_spaces(ps);
    if (ps->len - ps->pos < sizeof(word) - 1 ||
        memcmp(ps->text + ps->pos, word, sizeof(word) - 1) != 0)
        return PMIWIRE_EMAPPING;
    ps->pos += sizeof(word) - 1;
    if (!accept_char(ps, ','))
        return PMIWIRE_EMAPPING;
    do {
        rc = parse_item(ps);
        if (rc != 0)
            return rc;
    } while (accept_char(ps, ','));
    if (!accept_char(ps, ')') || peek_token(ps) != -1)
        return PMIWIRE_EMAPPING;
    return 0;
}

int pmiwire_mapping_parse(struct pmiwire_str text, struct pmiwire_mapping_block *blocks,
                          uint32_t cap, uint32_t *n_blocks, struct pmiwire_error *err)
{
    struct parser ps = {text.ptr, text.len, 0, NULL, 0, 0};
    uint32_t n_found;
    int rc;

    if (n_blocks == NULL || (text.ptr == NULL && text.len != 0) || (blocks == NULL && cap != 0))
        return pmiwire__error(err, -EINVAL, NULL, "", 0);
    rc = parse_list(&ps);
    if (rc != 0)
        return pmiwire__error(err, rc, NULL, "", ps.pos);
    n_found = ps.n_blocks;
    *n_blocks = n_found;
    if (n_found > cap)
        return pmiwire__error(err, PMIWIRE_ENOBUF, NULL, "", 0);
    ps.pos = 0;
    ps.n_blocks = 0;
    ps.n_covered = 0;
    ps.blocks = blocks;
    return parse_list(&ps);
}

/* ---- Expansion ------------------------------------------------------------ */

/*
 * Reads the group of blocks from `at` on that repeat together: its length, its copies, and the
 * ranks that one copy places. Returns 0, or -EINVAL for values that the parser never makes: callers
 * may fill in the structs themselves.
 */
static int read_group(const struct pmiwire_mapping_block *blocks, uint32_t n_blocks, uint32_t at,
                      uint32_t *len, uint32_t *rep, uint64_t *n_ranks)
{
    const struct pmiwire_mapping_block *g = &blocks[at];
    uint64_t sum = 0;

    if ((g->group_len == 0) != (g->group_rep == 0) || g->group_len > n_blocks - at ||
        g->group_rep > PMIWIRE_MAPPING_MAX)
        return -EINVAL;
    *len = g->group_len != 0 ? g->group_len : 1;
    *rep = g->group_len != 0 ? g->group_rep : 1;
    for (uint32_t i = 0; i < *len; i++) {
        const struct pmiwire_mapping_block *b = &g[i];

        if (i > 0 && (b->group_len != 0 || b->group_rep != 0))
            return -EINVAL;
        if (b->n_nodes == 0 || b->ppn == 0 || b->ppn > PMIWIRE_MAPPING_MAX ||
            (uint64_t)b->first_node + b->n_nodes > PMIWIRE_MAPPING_MAX)
            return -EINVAL;
        sum += (uint64_t)b->n_nodes * b->ppn;
        if (sum > PMIWIRE_MAPPING_MAX)
            return -EINVAL;
    }
    *n_ranks = sum;
    return 0;
}

/* Ranks that one pass over the list places (1 or more), or -EINVAL. */
static int64_t count_covered(const struct pmiwire_mapping_block *blocks, uint32_t n_blocks)
{
    uint64_t covered = 0;
    uint64_t n_ranks;
    uint32_t len, rep;

    if (blocks == NULL || n_blocks == 0)
        return -EINVAL;
    for (uint32_t at = 0; at < n_blocks; at += len) {
        int rc = read_group(blocks, n_blocks, at, &len, &rep, &n_ranks);

        if (rc != 0)
            return rc;
        covered += n_ranks * rep;
        if (covered > PMIWIRE_MAPPING_MAX)
            return -EINVAL;
    }
    return (int64_t)covered;
}

/* Places the ranks of one block from rank `done` on, up to n_ranks; returns the next rank. */
static uint32_t place_block(const struct pmiwire_mapping_block *b, uint32_t n_ranks, uint32_t done,
                            uint32_t *node_of)
{
    for (uint32_t node = b->first_node; node - b->first_node < b->n_nodes; node++) {
        uint32_t n = b->ppn < n_ranks - done ? b->ppn : n_ranks - done;

        if (n == 0)
            break;
        while (n-- > 0)
            node_of[done++] = node;
    }
    return done;
}

int pmiwire_mapping_expand(const struct pmiwire_mapping_block *blocks, uint32_t n_blocks,
                           uint32_t n_ranks, uint32_t *node_of)
{
    int64_t covered = count_covered(blocks, n_blocks);
    uint32_t n_first, done = 0;

    if (covered < 0 || (node_of == NULL && n_ranks != 0))
        return -EINVAL;
    n_first = (uint64_t)covered < n_ranks ? (uint32_t)covered : n_ranks;
    for (uint32_t at = 0; done < n_first;) {
        uint32_t len = blocks[at].group_len != 0 ? blocks[at].group_len : 1;
        uint32_t rep = blocks[at].group_len != 0 ? blocks[at].group_rep : 1;

        while (rep-- > 0 && done < n_first) {
            for (uint32_t i = 0; i < len && done < n_first; i++)
                done = place_block(&blocks[at + i], n_first, done, node_of);
        }
        at += len;
    }
    for (; done < n_ranks; done++)
        node_of[done] = node_of[done - n_first];
    return 0;
}

/* ---- Encoder: fold -------------------------------------------------------- */

/* Returns where the largest suffix of x[0..n) starts, nodes in rising or falling order; *period is
 * the suffix's smallest period. Constant space, at most 2n comparisons (Crochemore and Perrin,
 * figure 17). */
static size_t maximal_suffix(const uint32_t *x, size_t n, int falling, size_t *period)
{
    size_t best = 0, other = 1, k = 0, p = 1;

    while (other + k < n) {
        uint32_t a = x[best + k], b = x[other + k];

        if (a == b) {
            if (++k == p) {
                other += p;
                k = 0;
            }
        } else if ((b < a) != (falling != 0)) {
            other += k + 1;
            k = 0;
            p = other - best;
        } else {
            best = other++;
            k = 0;
            p = 1;
        }
    }
    *period = p;
    return best;
}

/* Smallest p >= from with x[i] == x[i - p] for all i in p..n, or n. See the head of the file. */
static size_t long_period(const uint32_t *x, size_t n, size_t from)
{
    uint64_t budget = (uint64_t)FOLD_BUDGET * n;
    size_t first_run = 1;

    while (first_run < n && x[first_run] == x[0])
        first_run++;
    for (size_t p = from, end; p < n; p = end) {
        size_t cand, i;

        end = p + 1;
        if (x[p] != x[0])
            continue;
        while (end < n && x[end] == x[0])
            end++;
        if (end == n) /* the last run: its candidate may continue past the end */
            return end - p <= first_run ? p : end - first_run;
        if (end - p < first_run)
            continue;
        /* runs of equal length end together, so a longer one offers one candidate */
        cand = end - first_run;
        for (i = end; i < n && x[i] == x[i - cand]; i++)
            continue;
        if (i == n)
            return cand;
        if (i - end >= budget)
            return n;
        budget -= i - end;
    }
    return n;
}

static size_t smallest_period(const uint32_t *x, size_t n)
{
    size_t p, q;
    size_t cut = maximal_suffix(x, n, 0, &p);
    size_t cut2 = maximal_suffix(x, n, 1, &q);

    if (cut2 > cut) {
        cut = cut2;
        p = q;
    }
    /* x[cut..n) has period p; x has it too when its first `cut` ranks fit */
    if (p <= n - cut &&
        memcmp(x, x + p, cut < n - p ? cut * sizeof(*x) : (n - p) * sizeof(*x)) == 0)
        return p;
    /* otherwise the period is longer than both halves of the factorization */
    return long_period(x, n, (cut > n - cut ? cut : n - cut) + 1);
}

/* ---- Encoder: blocks ------------------------------------------------------ */

struct run_block {
    uint32_t first_node;
    uint32_t n_nodes;
    uint32_t ppn;
};

/* Blocks of x[0..n), one after the other. */
struct cursor {
    const uint32_t *x;
    size_t n;
    size_t pos;
    int may_overrun; /* the last block may name more ranks than are left */
};

static size_t run_length(const struct cursor *cu, size_t from, size_t limit)
{
    size_t len = 0;

    while (len < limit && from + len < cu->n && cu->x[from + len] == cu->x[from])
        len++;
    return len;
}

/* Next block; 0 at the end. Looks at most one rank past the block, so a whole list is linear. */
static int next_block(struct cursor *cu, struct run_block *b)
{
    size_t ppn, start = cu->pos;

    if (cu->pos == cu->n)
        return 0;
    ppn = run_length(cu, cu->pos, SIZE_MAX);
    b->first_node = cu->x[start];
    b->n_nodes = 1;
    b->ppn = (uint32_t)ppn;
    cu->pos += ppn;
    while (cu->pos < cu->n && cu->x[cu->pos] == b->first_node + b->n_nodes) {
        size_t len = run_length(cu, cu->pos, ppn + 1);

        if (len < ppn && cu->may_overrun && cu->pos + len == cu->n &&
            (uint64_t)cu->pos + ppn <= PMIWIRE_MAPPING_MAX) {
            b->n_nodes++;
            cu->pos = cu->n;
        } else if (len == ppn) {
            b->n_nodes++;
            cu->pos += ppn;
        } else {
            break;
        }
    }
    return 1;
}

static int same_block(const struct run_block *a, const struct run_block *b)
{
    return a->first_node == b->first_node && a->n_nodes == b->n_nodes && a->ppn == b->ppn;
}

/* ---- Encoder: text -------------------------------------------------------- */

struct sink {
    char *out; /* NULL while measuring */
    uint64_t len;
    uint64_t limit; /* measuring stops when len passes it */
};

static unsigned digits(uint64_t v)
{
    unsigned n = 1;

    while (v >= 10) {
        v /= 10;
        n++;
    }
    return n;
}

static void put_char(struct sink *sk, char c)
{
    if (sk->out != NULL)
        sk->out[sk->len] = c;
    sk->len++;
}

static void put_number(struct sink *sk, uint64_t v)
{
    unsigned n = digits(v);

    if (sk->out != NULL) {
        for (unsigned i = n; i-- > 0; v /= 10)
            sk->out[sk->len + i] = (char)('0' + v % 10);
    }
    sk->len += n;
}

enum form { FORM_TRIPLE, FORM_BARE, FORM_REPEAT };

/* Returns the shortest way to write b, and its length. The classic grammar has triples only. */
static enum form choose_form(const struct run_block *b, uint32_t grammar, int in_group,
                             uint64_t *len)
{
    uint64_t n_ranks = (uint64_t)b->n_nodes * b->ppn;
    enum form form = FORM_TRIPLE;

    *len = 4u + digits(b->first_node) + digits(b->n_nodes) + digits(b->ppn);
    if (grammar == PMIWIRE_MAPPING_CLASSIC)
        return form;
    if (b->n_nodes == 1 && b->ppn > 1 && !in_group) { /* [f]xp */
        form = FORM_REPEAT;
        *len = 3u + digits(b->first_node) + digits(b->ppn);
    }
    if (n_ranks <= BARE_MAX) { /* f,f,f+1,f+1 */
        uint64_t bare = n_ranks - 1;

        for (uint32_t i = 0; i < b->n_nodes; i++)
            bare += (uint64_t)b->ppn * digits((uint64_t)b->first_node + i);
        if (bare < *len) {
            form = FORM_BARE;
            *len = bare;
        }
    }
    return form;
}

static void put_block(struct sink *sk, const struct run_block *b, uint32_t grammar, int in_group)
{
    uint64_t len;

    switch (choose_form(b, grammar, in_group, &len)) {
    case FORM_TRIPLE:
        put_char(sk, '(');
        put_number(sk, b->first_node);
        put_char(sk, ',');
        put_number(sk, b->n_nodes);
        put_char(sk, ',');
        put_number(sk, b->ppn);
        put_char(sk, ')');
        break;
    case FORM_BARE:
        for (uint32_t i = 0; i < b->n_nodes * b->ppn; i++) {
            if (i > 0)
                put_char(sk, ',');
            put_number(sk, b->first_node + i / b->ppn);
        }
        break;
    case FORM_REPEAT:
        put_char(sk, '[');
        put_number(sk, b->first_node);
        put_char(sk, ']');
        put_char(sk, 'x');
        put_number(sk, b->ppn);
        break;
    }
}

/* ---- Encoder: groups ------------------------------------------------------ */

/* The next WINDOW blocks: a ring in front of a cursor. */
struct window {
    struct cursor rest;
    struct run_block ring[WINDOW];
    uint32_t head;
    uint32_t count;
};

static const struct run_block *peek_block(const struct window *w, uint32_t i)
{
    return &w->ring[(w->head + i) % WINDOW];
}

static void fill_window(struct window *w)
{
    while (w->count < WINDOW && next_block(&w->rest, &w->ring[(w->head + w->count) % WINDOW]))
        w->count++;
}

static void drop_blocks(struct window *w, uint64_t n)
{
    while (n-- > 0) {
        w->head = (w->head + 1) % WINDOW;
        w->count--;
        if (w->count == 0)
            fill_window(w);
    }
    fill_window(w);
}

/* Returns how often the first q blocks of the window repeat, 1 or more. */
static uint64_t count_copies(const struct window *w, uint32_t q)
{
    struct cursor ahead = w->rest;
    struct run_block b;
    uint64_t matched = q;

    for (; matched < w->count; matched++) {
        if (!same_block(peek_block(w, (uint32_t)matched), peek_block(w, (uint32_t)(matched % q))))
            return matched / q;
    }
    while (next_block(&ahead, &b) && same_block(&b, peek_block(w, (uint32_t)(matched % q))))
        matched++;
    return matched / q;
}

/*
 * Returns the group at the head of the window that saves most bytes, as its length in blocks and
 * its copies; 0 if no group saves a byte.
 *
 * Cost: a long comparison finds a repetition of that length, and the encoder then skips the
 * repetition. So the whole list costs at most about GROUP_MAX times its length.
 */
static uint32_t best_group(const struct window *w, uint64_t *copies)
{
    uint64_t best = 0, one_group = 0, one_plain = 0;
    uint32_t best_q = 0;

    for (uint32_t q = 1; q <= GROUP_MAX && 2 * q <= w->count; q++) {
        uint64_t len, n, plain, grouped;

        choose_form(peek_block(w, q - 1), PMIWIRE_MAPPING_EXTENDED, 1, &len);
        one_group += len + (q > 1);
        choose_form(peek_block(w, q - 1), PMIWIRE_MAPPING_EXTENDED, 0, &len);
        one_plain += len + (q > 1);
        if (!same_block(peek_block(w, 0), peek_block(w, q)))
            continue;
        n = count_copies(w, q);
        if (n < 2)
            continue;
        plain = n * one_plain + (n - 1);
        grouped = 3u + one_group + digits(n);
        if (grouped < plain && plain - grouped > best) {
            best = plain - grouped;
            best_q = q;
            *copies = n;
        }
    }
    return best_q;
}

static void put_groups(struct sink *sk, const struct cursor *start)
{
    struct window w;

    memset(&w, 0, sizeof(w));
    w.rest = *start;
    fill_window(&w);
    while (w.count > 0 && sk->len <= sk->limit) {
        uint64_t copies = 1;
        uint32_t q = best_group(&w, &copies);

        put_char(sk, ',');
        if (q == 0) {
            put_block(sk, peek_block(&w, 0), PMIWIRE_MAPPING_EXTENDED, 0);
            drop_blocks(&w, 1);
            continue;
        }
        put_char(sk, '[');
        for (uint32_t i = 0; i < q; i++) {
            if (i > 0)
                put_char(sk, ',');
            put_block(sk, peek_block(&w, i), PMIWIRE_MAPPING_EXTENDED, 1);
        }
        put_char(sk, ']');
        put_char(sk, 'x');
        put_number(sk, copies);
        drop_blocks(&w, q * copies);
    }
}

static void put_mapping(struct sink *sk, const struct cursor *start, uint32_t grammar)
{
    struct cursor cu = *start;
    struct run_block b;

    for (const char *s = "(vector"; *s != '\0'; s++)
        put_char(sk, *s);
    if (grammar == PMIWIRE_MAPPING_EXTENDED) {
        put_groups(sk, start);
    } else {
        while (sk->len <= sk->limit && next_block(&cu, &b)) {
            put_char(sk, ',');
            put_block(sk, &b, grammar, 0);
        }
    }
    put_char(sk, ')');
}

ssize_t pmiwire_mapping_encode(const uint32_t *node_of, uint32_t n_ranks, uint32_t grammar,
                               size_t max_len, char *out, size_t cap)
{
    struct cursor start = {node_of, 0, 0, 0};
    struct sink sk = {NULL, 0, max_len < LENGTH_MAX ? max_len : LENGTH_MAX};

    if (node_of == NULL || n_ranks == 0 || n_ranks > PMIWIRE_MAPPING_MAX ||
        grammar > PMIWIRE_MAPPING_EXTENDED || (out == NULL && cap != 0))
        return -EINVAL;
    for (uint32_t i = 0; i < n_ranks; i++) {
        if (node_of[i] >= PMIWIRE_MAPPING_MAX)
            return -EINVAL;
    }
    start.n = smallest_period(node_of, n_ranks);
    start.may_overrun = start.n == n_ranks;
    put_mapping(&sk, &start, grammar);
    if (sk.len > sk.limit)
        return PMIWIRE_EMAPSIZE;
    if (sk.len >= cap)
        return PMIWIRE_ENOBUF;
    sk.out = out;
    sk.len = 0;
    put_mapping(&sk, &start, grammar);
    out[sk.len] = '\0';
    return (ssize_t)sk.len;
}
