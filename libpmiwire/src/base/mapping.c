/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PMI_process_mapping: parser, expansion and encoder.
 *
 * Parser: recursive descent without recursion, since brackets do not nest. It
 * runs twice, to count and check and then to store, so that a failure leaves
 * the caller's arrays alone.
 *
 * Encoder: it writes twice too, once to measure. It works in three layers:
 *
 *   fold     the smallest period p of the whole array; only the first p ranks
 *            are written, since readers repeat the list and stop at the size
 *            of the job;
 *   blocks   equal runs on consecutive nodes become one triple. In a list
 *            that is not repeated the last run may be shorter than its
 *            block says: readers stop before they notice;
 *   groups   (extended grammar) consecutive repeats of up to GROUP_MAX blocks
 *            become `[…]xN`.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <pmiwire/mapping.h>

#include "base_internal.h"

/* Longest `[…]` that the encoder looks for, blocks. */
#define GROUP_MAX 16u
/* A triple of up to this many ranks may be shorter as bare numbers: `(f,n,p)`
   costs 4 bytes and three numbers, n*p bare numbers one comma less. */
#define BARE_MAX 8u
/* What an ssize_t return can say (SSIZE_MAX is not in C11). */
#define LENGTH_MAX (SIZE_MAX / 2)

/* ---- Parser --------------------------------------------------------------- */

struct parser {
    const char *text;
    size_t len;
    size_t pos;                           /* after an error: where it is */
    int rc;                               /* the first error; nothing is consumed behind it */
    struct pmiwire_mapping_block *blocks; /* NULL while counting */
    uint32_t n_blocks;
    uint64_t n_covered; /* ranks that one pass over the list places */
};

static void fail_at(struct parser *ps, size_t pos, int rc)
{
    if (ps->rc == 0) {
        ps->pos = pos;
        ps->rc = rc;
    }
}

/* Consumes spaces; returns where the next token starts. */
static size_t skip_spaces(struct parser *ps)
{
    while (ps->rc == 0 && ps->pos < ps->len && ps->text[ps->pos] == ' ')
        ps->pos++;
    return ps->pos;
}

static int accept_char(struct parser *ps, char c)
{
    skip_spaces(ps);
    if (ps->rc != 0 || ps->pos == ps->len || ps->text[ps->pos] != c)
        return 0;
    ps->pos++;
    return 1;
}

static void expect_char(struct parser *ps, char c)
{
    if (!accept_char(ps, c))
        fail_at(ps, ps->pos, PMIWIRE_EMAPPING);
}

/* Consumes a number from `least` to PMIWIRE_MAPPING_MAX and returns it. */
static uint32_t expect_number(struct parser *ps, uint32_t least)
{
    const size_t start = skip_spaces(ps);
    uint64_t v;
    size_t n;

    if (ps->rc != 0)
        return 0;
    n = pmiwire__parse_digits((struct pmiwire_str){ps->text + start, ps->len - start}, &v);
    if (n == 0 || v < least)
        fail_at(ps, start, PMIWIRE_EMAPPING);
    else if (v > PMIWIRE_MAPPING_MAX)
        fail_at(ps, start, PMIWIRE_EMAPSIZE);
    else
        ps->pos += n;
    return (uint32_t)v;
}

/* block = "(" number "," number "," number ")" / number; adds its ranks to *n_ranks */
static void parse_block(struct parser *ps, uint64_t *n_ranks)
{
    struct pmiwire_mapping_block b = {0, 1, 1, 0, 0};
    const size_t start = skip_spaces(ps);

    if (accept_char(ps, '(')) {
        b.first_node = expect_number(ps, 0);
        expect_char(ps, ',');
        b.n_nodes = expect_number(ps, 1);
        expect_char(ps, ',');
        b.ppn = expect_number(ps, 1);
        expect_char(ps, ')');
    } else {
        b.first_node = expect_number(ps, 0);
    }
    if (ps->rc != 0)
        return;
    /* Each factor is below 2^31 and *n_ranks at most that, so 64 bits hold the sums. */
    *n_ranks += (uint64_t)b.n_nodes * b.ppn;
    if ((uint64_t)b.first_node + b.n_nodes > PMIWIRE_MAPPING_MAX || *n_ranks > PMIWIRE_MAPPING_MAX)
        fail_at(ps, start, PMIWIRE_EMAPSIZE);
    if (ps->blocks != NULL)
        ps->blocks[ps->n_blocks] = b;
    ps->n_blocks++; /* cannot wrap: each block places a rank, and ranks are bounded */
}

/* item = block / "[" block *( "," block ) "]x" number */
static void parse_item(struct parser *ps)
{
    const size_t start = skip_spaces(ps);
    const uint32_t first = ps->n_blocks;
    uint32_t rep = 1;
    uint64_t n_ranks = 0;

    if (!accept_char(ps, '[')) {
        parse_block(ps, &n_ranks);
    } else {
        do
            parse_block(ps, &n_ranks);
        while (accept_char(ps, ','));
        expect_char(ps, ']');
        expect_char(ps, 'x');
        rep = expect_number(ps, 1);
        if (ps->blocks != NULL) {
            ps->blocks[first].group_len = ps->n_blocks - first;
            ps->blocks[first].group_rep = rep;
        }
    }
    if (ps->rc != 0)
        return;
    ps->n_covered += n_ranks * rep;
    if (ps->n_covered > PMIWIRE_MAPPING_MAX)
        fail_at(ps, start, PMIWIRE_EMAPSIZE);
}

static int parse_list(struct parser *ps)
{
    static const char word[] = "vector";

    expect_char(ps, '(');
    skip_spaces(ps);
    if (ps->len - ps->pos < sizeof(word) - 1 ||
        memcmp(ps->text + ps->pos, word, sizeof(word) - 1) != 0)
        fail_at(ps, ps->pos, PMIWIRE_EMAPPING);
    else if (ps->rc == 0)
        ps->pos += sizeof(word) - 1;
    expect_char(ps, ',');
    do
        parse_item(ps);
    while (accept_char(ps, ','));
    expect_char(ps, ')');
    if (skip_spaces(ps) != ps->len)
        fail_at(ps, ps->pos, PMIWIRE_EMAPPING);
    return ps->rc;
}

int pmiwire_mapping_parse(struct pmiwire_str text, struct pmiwire_mapping_block *blocks,
                          uint32_t cap, uint32_t *n_blocks, struct pmiwire_error *err)
{
    struct parser ps = {.text = text.ptr, .len = text.len};
    struct parser again = ps;
    int rc;

    if (n_blocks == NULL || (text.ptr == NULL && text.len != 0) || (blocks == NULL && cap != 0))
        return pmiwire__error(err, -EINVAL, NULL, "", 0);
    rc = parse_list(&ps);
    if (rc != 0)
        return pmiwire__error(err, rc, NULL, "", ps.pos);
    *n_blocks = ps.n_blocks;
    if (ps.n_blocks > cap)
        return pmiwire__error(err, PMIWIRE_ENOBUF, NULL, "", 0);
    again.blocks = blocks;
    return parse_list(&again);
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

/* Returns the smallest p with x[i] == x[i - p] for all i from p on: n without the longest border,
 * the last value of Knuth, Morris and Pratt's failure function. `failure` has n words. */
static uint32_t smallest_period(const uint32_t *x, uint32_t n, uint32_t *failure)
{
    uint32_t k = 0;

    failure[0] = 0;
    for (uint32_t i = 1; i < n; i++) {
        while (k > 0 && x[i] != x[k])
            k = failure[k - 1];
        k += x[i] == x[k];
        failure[i] = k;
    }
    return n - k;
}

/* ---- Encoder: blocks ------------------------------------------------------ */

struct run_block {
    uint32_t first_node;
    uint32_t n_nodes;
    uint32_t ppn;
};

/* How many of the first `limit` entries of x[0..n) are equal. */
static uint32_t run_length(const uint32_t *x, uint32_t n, uint32_t limit)
{
    uint32_t len = 0;

    while (len < limit && len < n && x[len] == x[0])
        len++;
    return len;
}

/* Splits x[0..n) into blocks, of which the last may name more ranks than are left if `may_overrun`.
 * Returns their number, at most n. Linear: looks at most one rank past a block. */
static uint32_t make_blocks(const uint32_t *x, uint32_t n, int may_overrun,
                            struct run_block *blocks)
{
    uint32_t n_blocks = 0;

    for (uint32_t pos = 0; pos < n;) {
        const uint32_t ppn = run_length(x + pos, n - pos, n);
        struct run_block b = {x[pos], 1, ppn};

        for (pos += ppn; pos < n && x[pos] == b.first_node + b.n_nodes; b.n_nodes++) {
            uint32_t len = run_length(x + pos, n - pos, ppn + 1);

            if (len < ppn && may_overrun && pos + len == n &&
                (uint64_t)pos + ppn <= PMIWIRE_MAPPING_MAX)
                pos = n;
            else if (len == ppn)
                pos += ppn;
            else
                break;
        }
        blocks[n_blocks++] = b;
    }
    return n_blocks;
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

static unsigned count_digits(uint64_t v)
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
    unsigned n = count_digits(v);

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

    *len = 4u + count_digits(b->first_node) + count_digits(b->n_nodes) + count_digits(b->ppn);
    if (grammar == PMIWIRE_MAPPING_CLASSIC)
        return form;
    if (b->n_nodes == 1 && b->ppn > 1 && !in_group) { /* [f]xp */
        form = FORM_REPEAT;
        *len = 3u + count_digits(b->first_node) + count_digits(b->ppn);
    }
    if (n_ranks <= BARE_MAX) { /* f,f,f+1,f+1 */
        uint64_t bare = n_ranks - 1;

        for (uint32_t i = 0; i < b->n_nodes; i++)
            bare += (uint64_t)b->ppn * count_digits((uint64_t)b->first_node + i);
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

/* Returns how often the first q of n blocks repeat, 1 or more. */
static uint32_t count_copies(const struct run_block *b, uint32_t n, uint32_t q)
{
    uint32_t matched = q;

    while (matched < n && same_block(&b[matched], &b[matched - q]))
        matched++;
    return matched / q;
}

/*
 * Returns the group at the head of n blocks that saves most bytes, as its length in blocks and its
 * copies; 0 if no group saves a byte.
 *
 * Cost: a long comparison finds a repetition of that length, and the encoder then skips the
 * repetition. So the whole list costs at most about GROUP_MAX times its length.
 */
static uint32_t best_group(const struct run_block *b, uint32_t n, uint32_t *copies)
{
    uint64_t best = 0, one_group = 0, one_plain = 0;
    uint32_t best_q = 0;

    for (uint32_t q = 1; q <= GROUP_MAX && q <= n / 2; q++) {
        uint64_t len, plain, grouped;
        uint32_t times;

        choose_form(&b[q - 1], PMIWIRE_MAPPING_EXTENDED, 1, &len);
        one_group += len + (q > 1);
        choose_form(&b[q - 1], PMIWIRE_MAPPING_EXTENDED, 0, &len);
        one_plain += len + (q > 1);
        times = count_copies(b, n, q);
        if (times < 2)
            continue;
        plain = times * one_plain + (times - 1);
        grouped = 3u + one_group + count_digits(times);
        if (grouped < plain && plain - grouped > best) {
            best = plain - grouped;
            best_q = q;
            *copies = times;
        }
    }
    return best_q;
}

static void put_groups(struct sink *sk, const struct run_block *b, uint32_t n)
{
    for (uint32_t at = 0; at < n && sk->len <= sk->limit;) {
        uint32_t copies = 1, q = best_group(b + at, n - at, &copies);

        put_char(sk, ',');
        if (q == 0) {
            put_block(sk, &b[at++], PMIWIRE_MAPPING_EXTENDED, 0);
            continue;
        }
        put_char(sk, '[');
        for (uint32_t i = 0; i < q; i++) {
            if (i > 0)
                put_char(sk, ',');
            put_block(sk, &b[at + i], PMIWIRE_MAPPING_EXTENDED, 1);
        }
        put_char(sk, ']');
        put_char(sk, 'x');
        put_number(sk, copies);
        at += q * copies;
    }
}

static void put_mapping(struct sink *sk, const struct run_block *b, uint32_t n, uint32_t grammar)
{
    for (const char *s = "(vector"; *s != '\0'; s++)
        put_char(sk, *s);
    if (grammar == PMIWIRE_MAPPING_EXTENDED) {
        put_groups(sk, b, n);
    } else {
        for (uint32_t i = 0; i < n && sk->len <= sk->limit; i++) {
            put_char(sk, ',');
            put_block(sk, &b[i], grammar, 0);
        }
    }
    put_char(sk, ')');
}

/* Measures, then writes: `out` is untouched on failure. */
static ssize_t write_mapping(const struct run_block *b, uint32_t n, uint32_t grammar,
                             size_t max_len, char *out, size_t cap)
{
    struct sink sk = {NULL, 0, max_len < LENGTH_MAX ? max_len : LENGTH_MAX};

    put_mapping(&sk, b, n, grammar);
    if (sk.len > sk.limit)
        return PMIWIRE_EMAPSIZE;
    if (sk.len >= cap)
        return PMIWIRE_ENOBUF;
    sk.out = out;
    sk.len = 0;
    put_mapping(&sk, b, n, grammar);
    out[sk.len] = '\0';
    return (ssize_t)sk.len;
}

ssize_t pmiwire_mapping_encode(const uint32_t *node_of, uint32_t n_ranks, uint32_t grammar,
                               size_t max_len, char *out, size_t cap)
{
    void *scratch; /* the failure function, then the blocks: never more than ranks */
    uint32_t period;
    ssize_t len;

    if (node_of == NULL || n_ranks == 0 || n_ranks > PMIWIRE_MAPPING_MAX ||
        grammar > PMIWIRE_MAPPING_EXTENDED || (out == NULL && cap != 0))
        return -EINVAL;
    for (uint32_t i = 0; i < n_ranks; i++) {
        if (node_of[i] >= PMIWIRE_MAPPING_MAX)
            return -EINVAL;
    }
    scratch = calloc(n_ranks, sizeof(struct run_block));
    if (scratch == NULL)
        return -ENOMEM;
    period = smallest_period(node_of, n_ranks, scratch);
    len = write_mapping(scratch, make_blocks(node_of, period, period == n_ranks, scratch), grammar,
                        max_len, out, cap);
    free(scratch);
    return len;
}
