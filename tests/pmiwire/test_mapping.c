/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PMI_process_mapping: syntax tables, limits, random cases against a naive
 * expander, and inputs and outputs that end at a page without access.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* MAP_ANONYMOUS */
#endif
#include <errno.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <pmiwire/mapping.h>

#define CLASSIC  PMIWIRE_MAPPING_CLASSIC
#define EXTENDED PMIWIRE_MAPPING_EXTENDED
#define MAX      PMIWIRE_MAPPING_MAX

/* ---- Tools ---------------------------------------------------------------- */

static uint64_t rng_state = 0x9e3779b97f4a7c15u;

static uint32_t rnd(uint32_t below)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return (uint32_t)((rng_state >> 20) % below);
}

/* Memory that ends at an inaccessible page. */
struct guard {
    char *base;
    size_t bytes;
};

static struct guard guard_open(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct guard g;

    g.bytes = (bytes + page - 1) / page * page;
    g.base = mmap(NULL, g.bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(g.base, MAP_FAILED);
    assert_int_equal(mprotect(g.base + g.bytes, page, PROT_NONE), 0);
    return g;
}

static void guard_close(struct guard *g)
{
    munmap(g->base, g->bytes + (size_t)sysconf(_SC_PAGESIZE));
}

/* `bytes` bytes that end at the guard; alignment is the caller's affair */
static void *guard_end(const struct guard *g, size_t bytes)
{
    assert_true(bytes <= g->bytes);
    return g->base + g->bytes - bytes;
}

static struct guard text_guard, block_guard, out_guard;

static int open_guards(void **state)
{
    text_guard = guard_open(64 * 1024);
    block_guard = guard_open(256 * 1024);
    out_guard = guard_open(64 * 1024);
    return 0;
}

static int close_guards(void **state)
{
    guard_close(&text_guard);
    guard_close(&block_guard);
    guard_close(&out_guard);
    return 0;
}

static int parse_n(const char *text, size_t len, struct pmiwire_mapping_block *blocks, uint32_t cap,
                   uint32_t *n, size_t *err)
{
    struct pmiwire_error e = {.code = 1};
    struct pmiwire_str s;
    char *copy = guard_end(&text_guard, len);
    int rc;

    memcpy(copy, text, len);
    s.ptr = copy;
    s.len = len;
    rc = pmiwire_mapping_parse(s, blocks, cap, n, &e);
    assert_int_equal(e.code, rc < 0 ? rc : 1); /* written on failure alone */
    if (err && (rc == PMIWIRE_EMAPPING || rc == PMIWIRE_EMAPSIZE))
        *err = e.offset;
    return rc;
}

/* Parses text, which must be valid, into exactly the needed blocks. */
static struct pmiwire_mapping_block *parse_ok(const char *text, size_t len, uint32_t *n)
{
    struct pmiwire_mapping_block *blocks;
    uint32_t n_again = 0;

    assert_int_equal(parse_n(text, len, NULL, 0, n, NULL), PMIWIRE_ENOBUF);
    blocks = guard_end(&block_guard, *n * sizeof(*blocks));
    assert_int_equal(parse_n(text, len, blocks, *n, &n_again, NULL), 0);
    assert_int_equal(n_again, *n);
    return blocks;
}

/* One rank at a time, straight from the specification. */
static void naive_expand(const struct pmiwire_mapping_block *blocks, uint32_t n_blocks,
                         uint32_t n_ranks, uint32_t *node_of)
{
    uint32_t rank = 0;

    for (;;) {
        for (uint32_t at = 0; at < n_blocks;) {
            uint32_t len = blocks[at].group_len ? blocks[at].group_len : 1;
            uint32_t rep = blocks[at].group_len ? blocks[at].group_rep : 1;

            for (uint32_t r = 0; r < rep; r++)
                for (uint32_t i = at; i < at + len; i++)
                    for (uint32_t node = 0; node < blocks[i].n_nodes; node++)
                        for (uint32_t k = 0; k < blocks[i].ppn; k++) {
                            if (rank == n_ranks)
                                return;
                            node_of[rank++] = blocks[i].first_node + node;
                        }
            at += len;
        }
    }
}

static uint64_t naive_covered(const struct pmiwire_mapping_block *b, uint32_t n)
{
    uint64_t sum = 0;

    for (uint32_t at = 0; at < n;) {
        uint32_t len = b[at].group_len ? b[at].group_len : 1;
        uint32_t rep = b[at].group_len ? b[at].group_rep : 1;

        for (uint32_t i = at; i < at + len; i++)
            sum += (uint64_t)rep * b[i].n_nodes * b[i].ppn;
        at += len;
    }
    return sum;
}

static size_t naive_period(const uint32_t *x, size_t n)
{
    for (size_t p = 1; p < n; p++) {
        if (memcmp(x, x + p, (n - p) * sizeof(*x)) == 0)
            return p;
    }
    return n;
}

static void check_encode(const uint32_t *node_of, uint32_t n, uint32_t grammar, const char *want)
{
    char out[256];
    size_t len = strlen(want);

    memset(out, '#', sizeof(out));
    assert_int_equal(pmiwire_mapping_encode(node_of, n, grammar, SIZE_MAX, out, sizeof(out)), len);
    assert_string_equal(out, want);
    assert_int_equal(out[len + 1], '#');
}

/* ---- Parser --------------------------------------------------------------- */

struct syntax_case {
    const char *text;
    uint32_t n_blocks;
    struct pmiwire_mapping_block blocks[4];
};

static void test_parse_tables(void **state)
{
    static const struct syntax_case cases[] = {
        {"(vector,(0,1,1))", 1, {{0, 1, 1, 0, 0}}},
        {"(vector,(0,16,16))", 1, {{0, 16, 16, 0, 0}}},
        {"(vector,(0,4,4),(0,4,1))", 2, {{0, 4, 4, 0, 0}, {0, 4, 1, 0, 0}}},
        {"    (vector, (0, 16,16) )", 1, {{0, 16, 16, 0, 0}}},
        {" ( vector , ( 0 , 2 , 3 ) , 7 ) ", 2, {{0, 2, 3, 0, 0}, {7, 1, 1, 0, 0}}},
        {"(vector,(000,01,000000000000000000002))", 1, {{0, 1, 2, 0, 0}}},
        {"(vector,5)", 1, {{5, 1, 1, 0, 0}}},
        {"(vector,0,1,0)", 3, {{0, 1, 1, 0, 0}, {1, 1, 1, 0, 0}, {0, 1, 1, 0, 0}}},
        {"(vector,[3]x4)", 1, {{3, 1, 1, 1, 4}}},
        {"(vector,[(0,2,1),5]x3,9)", 3, {{0, 2, 1, 2, 3}, {5, 1, 1, 0, 0}, {9, 1, 1, 0, 0}}},
        {"(vector,8,[0,1]x2,[(2,1,4)]x1)",
         4,
         {{8, 1, 1, 0, 0}, {0, 1, 1, 2, 2}, {1, 1, 1, 0, 0}, {2, 1, 4, 1, 1}}},
        {"(vector, [ 1 , ( 2 , 3 , 4 ) ] x 5 )", 2, {{1, 1, 1, 2, 5}, {2, 3, 4, 0, 0}}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t n;
        struct pmiwire_mapping_block *b = parse_ok(cases[i].text, strlen(cases[i].text), &n);

        assert_int_equal(n, cases[i].n_blocks);
        for (uint32_t k = 0; k < n; k++)
            assert_memory_equal(&b[k], &cases[i].blocks[k], sizeof(*b));
    }
}

static void test_parse_errors(void **state)
{
    static const struct {
        const char *text;
        size_t offset;
    } cases[] = {
        {"", 0},
        {"   ", 3},
        {"(", 1},
        {"(vecto", 1},
        {"(vectors,(0,1,1))", 7},
        {"(Vector,(0,1,1))", 1},
        {"vector,(0,1,1))", 0},
        {"(vector)", 7},
        {"(vector,)", 8},
        {"(vector (0,1,1))", 8},
        {"(vector,(0,1,1)", 15},
        {"(vector,(0,1,1),)", 16},
        {"(vector,(0,1,1)))", 16},
        {"(vector,(0,1,1))x", 16},
        {"(vector,(0,1,1)) 0", 17},
        {"(vector,(0,1))", 12},
        {"(vector,(0,1,1,1))", 14},
        {"(vector,(,1,1))", 9},
        {"(vector,(+0,1,1))", 9},
        {"(vector,(0,-1,1))", 11},
        {"(vector,(0,1,1.5))", 14},
        {"(vector,(0,1x1,1))", 12},
        {"(vector,(0,0,1))", 11},
        {"(vector,(0,1,0))", 13},
        {"(vector,(0,1,00))", 13},
        {"(vector,(0 1,1))", 11},
        {"(vector,1 2)", 10},
        {"(vector,\t1)", 8},
        {"(vector,1)\n", 10},
        {"(vector,[])", 9},
        {"(vector,[]x2)", 9},
        {"(vector,[0])", 11},
        {"(vector,[0]x)", 12},
        {"(vector,[0]x0)", 12},
        {"(vector,[0]x-1)", 12},
        {"(vector,[0]X2)", 11},
        {"(vector,[0x2)", 10},
        {"(vector,0]x2)", 9},
        {"(vector,[0,]x2)", 11},
        {"(vector,[[0]x2]x2)", 9},
        {"(vector,[0,[1]x2]x2)", 11},
        {"(vector,[0]x2x2)", 13},
        {"(vector,[(0,1,1)x2])", 16},
    };
    static const char with_nul[] = "(vector,(0,1\0,1))";

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pmiwire_mapping_block b, untouched;
        uint32_t n = 77;
        size_t err = 777;

        memset(&b, 0x5a, sizeof(b));
        untouched = b;
        assert_int_equal(parse_n(cases[i].text, strlen(cases[i].text), &b, 1, &n, &err),
                         PMIWIRE_EMAPPING);
        if (err != cases[i].offset)
            print_message("in %s\n", cases[i].text);
        assert_int_equal(err, cases[i].offset);
        assert_int_equal(n, 77);
        assert_memory_equal(&b, &untouched, sizeof(b));
        assert_int_equal(parse_n(cases[i].text, strlen(cases[i].text), &b, 1, &n, NULL),
                         PMIWIRE_EMAPPING);
    }
    {
        struct pmiwire_mapping_block b;
        uint32_t n;
        size_t err;

        assert_int_equal(parse_n(with_nul, sizeof(with_nul) - 1, &b, 1, &n, &err),
                         PMIWIRE_EMAPPING);
        assert_int_equal(err, 12);
    }
}

static void test_parse_arguments(void **state)
{
    struct pmiwire_str absent = {NULL, 0}, broken = {NULL, 3}, good = {"(vector,1)", 10};
    struct pmiwire_mapping_block b;
    uint32_t n = 5;
    struct pmiwire_error err = {.offset = 9};

    assert_int_equal(pmiwire_mapping_parse(absent, &b, 1, &n, &err), PMIWIRE_EMAPPING);
    assert_int_equal(err.offset, 0);
    assert_int_equal(pmiwire_mapping_parse(broken, &b, 1, &n, &err), -EINVAL);
    assert_int_equal(pmiwire_mapping_parse(good, NULL, 1, &n, &err), -EINVAL);
    assert_int_equal(pmiwire_mapping_parse(good, &b, 1, NULL, &err), -EINVAL);
    assert_int_equal(n, 5);
    assert_int_equal(pmiwire_mapping_parse(good, &b, 1, &n, NULL), 0);
    assert_int_equal(n, 1);
}

/* Every text cut short is a syntax error at its end; with room for one block
   too few, the count comes back and nothing is stored. */
static void test_parse_cuts_and_room(void **state)
{
    static const char text[] = "(vector,[(0,2,1),5]x3,9,(10,11,12))";
    struct pmiwire_mapping_block b[4], untouched[4];
    uint32_t n;
    size_t err;

    for (size_t len = 0; len < sizeof(text) - 1; len++) {
        err = 999;
        assert_int_equal(parse_n(text, len, b, 4, &n, &err), PMIWIRE_EMAPPING);
        assert_int_equal(err, len > 0 && len < 7 ? 1 : len);
    }
    memset(b, 0x5a, sizeof(b));
    memcpy(untouched, b, sizeof(b));
    n = 0;
    assert_int_equal(parse_n(text, sizeof(text) - 1, b, 3, &n, &err), PMIWIRE_ENOBUF);
    assert_int_equal(n, 4);
    assert_memory_equal(b, untouched, sizeof(b));
    assert_int_equal(parse_n(text, sizeof(text) - 1, b, 4, &n, &err), 0);
}

static void test_parse_limits(void **state)
{
    static const struct {
        const char *text;
        int rc;
        size_t offset;
    } cases[] = {
        {"(vector,(0,1,2147483646))", 0, 0},
        {"(vector,(0,1,2147483647))", 0, 0},
        {"(vector,(0,1,2147483648))", PMIWIRE_EMAPSIZE, 13},
        {"(vector,(0,2147483646,1))", 0, 0},
        {"(vector,(0,2147483647,1))", 0, 0},
        {"(vector,(0,2147483648,1))", PMIWIRE_EMAPSIZE, 11},
        {"(vector,(1,2147483646,1))", 0, 0},
        {"(vector,(1,2147483647,1))", PMIWIRE_EMAPSIZE, 8}, /* node 2^31 - 1 */
        {"(vector,2147483645)", 0, 0},
        {"(vector,2147483646)", 0, 0},
        {"(vector,2147483647)", PMIWIRE_EMAPSIZE, 8},
        {"(vector,2147483648)", PMIWIRE_EMAPSIZE, 8},
        {"(vector,(2147483646,1,1))", 0, 0},
        {"(vector,(2147483647,1,1))", PMIWIRE_EMAPSIZE, 8},
        {"(vector,[0]x2147483646)", 0, 0},
        {"(vector,[0]x2147483647)", 0, 0},
        {"(vector,[0]x2147483648)", PMIWIRE_EMAPSIZE, 12},
        {"(vector,0,[0]x2147483645)", 0, 0},
        {"(vector,0,[0]x2147483646)", 0, 0},
        {"(vector,0,[0]x2147483647)", PMIWIRE_EMAPSIZE, 10},
        {"(vector,[0]x2147483647,0)", PMIWIRE_EMAPSIZE, 23},
        {"(vector,(0,46340,46341))", 0, 0},                /* 2147441940 */
        {"(vector,(0,46341,46341))", PMIWIRE_EMAPSIZE, 8}, /* 2147488281 */
        {"(vector,(0,65536,65536))", PMIWIRE_EMAPSIZE, 8}, /* 2^32: zero in 32 bits */
        {"(vector,[(0,65536,16384)]x4)", PMIWIRE_EMAPSIZE, 8},
        {"(vector,(0,2147483647,2147483647))", PMIWIRE_EMAPSIZE, 8},
        {"(vector,[(0,1,2147483647)]x2147483647)", PMIWIRE_EMAPSIZE, 8},
        {"(vector,[(0,1,2147483647),0]x1)", PMIWIRE_EMAPSIZE, 26},
        {"(vector,(0,1,2147483646),0)", 0, 0},
        {"(vector,(0,1,2147483647),0)", PMIWIRE_EMAPSIZE, 25},
        {"(vector,4294967296)", PMIWIRE_EMAPSIZE, 8},
        {"(vector,18446744073709551616)", PMIWIRE_EMAPSIZE, 8},
        {"(vector,99999999999999999999999999999999999999)", PMIWIRE_EMAPSIZE, 8},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pmiwire_mapping_block b[4];
        uint32_t n;
        size_t err = 0;
        int rc = parse_n(cases[i].text, strlen(cases[i].text), b, 4, &n, &err);

        if (rc != cases[i].rc || err != cases[i].offset)
            print_message("in %s\n", cases[i].text);
        assert_int_equal(rc, cases[i].rc);
        assert_int_equal(err, cases[i].offset);
        if (rc == 0)
            assert_int_equal(pmiwire_mapping_expand(b, n, 1, &(uint32_t){0}), 0);
    }
}

/* POSIX regular expressions decide the syntax of random and damaged texts. No digit 0. */
static void test_parse_against_regex(void **state)
{
    static const char num[] = " *[1-9]+ *";
    static const char bytes[] = "()[],x 123v";
    static const char *const good[] = {
        "(vector,(1,2,3),(4,5,6))",   "(vector,1,2,[3]x2)",   "(vector,[(1,1,1),2]x3,4)",
        "( vector , [ 1 , 2 ] x 3 )", "(vector,[1]x2,[3]x1)",
    };
    char block[128], re_text[1024];
    regex_t re;
    unsigned n_good = 0, n_bad = 0;

    snprintf(block, sizeof(block), "(%s| *\\(%s,%s,%s\\) *)", num, num, num, num);
    snprintf(re_text, sizeof(re_text), "^ *\\( *vector *(,(%s| *\\[%s(,%s)*\\] *x%s))+\\) *$",
             block, block, block, num);
    assert_int_equal(regcomp(&re, re_text, REG_EXTENDED | REG_NOSUB), 0);
    for (int i = 0; i < 30000; i++) {
        char text[64];
        struct pmiwire_mapping_block b[64];
        uint32_t n;
        size_t len;
        int rc, want;

        snprintf(text, sizeof(text), "%s", good[rnd(sizeof(good) / sizeof(good[0]))]);
        len = strlen(text);
        for (uint32_t k = rnd(3) + 1; k > 0; k--) {
            size_t at = rnd((uint32_t)len);
            char c = bytes[rnd(sizeof(bytes) - 1)];

            switch (rnd(3)) {
            case 0: text[at] = c; break;
            case 1:
                memmove(text + at + 1, text + at, len - at + 1);
                text[at] = c;
                len++;
                break;
            default: memmove(text + at, text + at + 1, len - at); len--;
            }
        }
        want = regexec(&re, text, 0, NULL, 0) == 0;
        rc = parse_n(text, len, b, 64, &n, NULL);
        if (want ? rc != 0 && rc != PMIWIRE_EMAPSIZE : rc == 0)
            print_message("in %s\n", text);
        if (want)
            assert_true(rc == 0 || rc == PMIWIRE_EMAPSIZE);
        else
            assert_int_not_equal(rc, 0);
        *(want ? &n_good : &n_bad) += 1;
    }
    regfree(&re);
    assert_true(n_good > 1000 && n_bad > 1000);
}

/* ---- Expansion ------------------------------------------------------------ */

static void test_expand_known(void **state)
{
    static const struct {
        const char *text;
        uint32_t n;
        uint32_t node_of[12];
    } cases[] = {
        {"(vector,(0,1,1))", 4, {0, 0, 0, 0}},
        {"(vector,(0,2,1))", 5, {0, 1, 0, 1, 0}},
        {"(vector,(0,2,3))", 4, {0, 0, 0, 1}},
        {"(vector,(0,2,2),(2,1,1))", 7, {0, 0, 1, 1, 2, 0, 0}},
        {"(vector,(5,1,2),(3,2,1))", 6, {5, 5, 3, 4, 5, 5}},
        {"(vector,[0,1]x2,2)", 8, {0, 1, 0, 1, 2, 0, 1, 0}},
        {"(vector,7,[(0,2,2)]x2)", 12, {7, 0, 0, 1, 1, 0, 0, 1, 1, 7, 0, 0}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t n, got[13];
        struct pmiwire_mapping_block *b = parse_ok(cases[i].text, strlen(cases[i].text), &n);

        for (uint32_t k = 0; k <= cases[i].n; k++) {
            memset(got, 0xff, sizeof(got));
            assert_int_equal(pmiwire_mapping_expand(b, n, k, got), 0);
            assert_memory_equal(got, cases[i].node_of, k * sizeof(got[0]));
            assert_int_equal(got[k], UINT32_MAX);
        }
    }
}

static void test_expand_bad_blocks(void **state)
{
    static const struct {
        uint32_t n;
        struct pmiwire_mapping_block b[2];
    } bad[] = {
        {0, {{0, 1, 1, 0, 0}}},
        {1, {{0, 0, 1, 0, 0}}},
        {1, {{0, 1, 0, 0, 0}}},
        {1, {{0, 1, 0x80000000u, 0, 0}}},
        {1, {{MAX, 1, 1, 0, 0}}},
        {1, {{UINT32_MAX, 1, 1, 0, 0}}},
        {1, {{1, UINT32_MAX, 1, 0, 0}}},
        {1, {{0, 1, 1, 1, 0}}},
        {1, {{0, 1, 1, 0, 1}}},
        {1, {{0, 1, 1, 2, 1}}},
        {2, {{0, 1, 1, 3, 1}, {0, 1, 1, 0, 0}}},
        {2, {{0, 1, 1, 2, 1}, {0, 1, 1, 1, 1}}},
        {2, {{0, 1, 1, 0, 0}, {0, 1, 1, 2, 1}}},
        {2, {{0, 1, 1, 0, 0}, {0, 1, 1, UINT32_MAX, 1}}},
        {2, {{0, 1, 1, 2, 1}, {0, 0, 1, 0, 0}}},
        {1, {{0, 1, 1, 1, 0x80000000u}}},
        {1, {{0, 65536, 65536, 0, 0}}},
        {1, {{0, 1, 2, 1, 0x40000000u}}},
        {2, {{0, 1, MAX, 0, 0}, {0, 1, 1, 0, 0}}},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        size_t bytes = bad[i].n * sizeof(bad[i].b[0]);
        struct pmiwire_mapping_block *b = guard_end(&block_guard, bytes);
        uint32_t out = 42;

        memcpy(b, bad[i].b, bytes);
        if (pmiwire_mapping_expand(b, bad[i].n, 1, &out) != -EINVAL)
            fail_msg("case %zu", i);
        assert_int_equal(out, 42);
    }
    assert_int_equal(pmiwire_mapping_expand(NULL, 1, 0, NULL), -EINVAL);
    assert_int_equal(pmiwire_mapping_expand(bad[0].b, 1, 1, NULL), -EINVAL);
    assert_int_equal(pmiwire_mapping_expand(bad[0].b, 1, 0, NULL), 0);
}

static int put_random_number(char *at, uint32_t v)
{
    static const char spaces[] = "   ", zeros[] = "00";

    return sprintf(at, "%s%s%u%s", spaces + 3 - (rnd(4) ? 0 : rnd(4)),
                   zeros + 2 - (rnd(4) ? 0 : rnd(3)), v, spaces + 3 - (rnd(4) ? 0 : rnd(4)));
}

static int put_random_block(char *at, struct pmiwire_mapping_block *b)
{
    int n = 0;

    memset(b, 0, sizeof(*b));
    b->first_node = rnd(5);
    b->n_nodes = 1;
    b->ppn = 1;
    if (rnd(3) == 0)
        return put_random_number(at, b->first_node);
    b->n_nodes = rnd(4) + 1;
    b->ppn = rnd(4) + 1;
    at[n++] = '(';
    n += put_random_number(at + n, b->first_node);
    at[n++] = ',';
    n += put_random_number(at + n, b->n_nodes);
    at[n++] = ',';
    n += put_random_number(at + n, b->ppn);
    at[n++] = ')';
    return n;
}

/* Random lists, formatted here: parse, expand and node_of agree with the naive expander. */
static void test_random_lists(void **state)
{
    for (int i = 0; i < 60000; i++) {
        struct pmiwire_mapping_block want[16], *got;
        char text[2048];
        uint32_t n_want = 0, n_got, n_ranks, a[200], b[200];
        int n = sprintf(text, "(vector");

        for (uint32_t items = rnd(4) + 1; items > 0; items--) {
            text[n++] = ',';
            if (rnd(2) == 0) {
                n += put_random_block(text + n, &want[n_want++]);
            } else {
                uint32_t len = rnd(4) + 1, rep = rnd(4) + 1, first = n_want;

                text[n++] = '[';
                for (uint32_t k = 0; k < len; k++) {
                    if (k > 0)
                        text[n++] = ',';
                    n += put_random_block(text + n, &want[n_want++]);
                }
                want[first].group_len = len;
                want[first].group_rep = rep;
                text[n++] = ']';
                text[n++] = 'x';
                n += put_random_number(text + n, rep);
            }
        }
        text[n++] = ')';
        got = parse_ok(text, (size_t)n, &n_got);
        assert_int_equal(n_got, n_want);
        assert_memory_equal(got, want, n_want * sizeof(*want));
        n_ranks = rnd(199) + 1;
        naive_expand(want, n_want, n_ranks, a);
        b[n_ranks] = 0xabcdef;
        assert_int_equal(pmiwire_mapping_expand(got, n_got, n_ranks, b), 0);
        assert_memory_equal(a, b, n_ranks * sizeof(*a));
        assert_int_equal(b[n_ranks], 0xabcdef);
    }
}

/* ---- Encoder -------------------------------------------------------------- */

static void test_encode_known(void **state)
{
    static const struct {
        uint32_t n;
        uint32_t node_of[16];
        const char *classic, *extended;
    } cases[] = {
        /* one node: as Hydra 4.0 writes it */
        {1, {0}, "(vector,(0,1,1))", "(vector,0)"},
        {2, {0, 0}, "(vector,(0,1,1))", "(vector,0)"},
        {16, {0}, "(vector,(0,1,1))", "(vector,0)"},
        {3, {7, 7, 7}, "(vector,(7,1,1))", "(vector,7)"},
        /* cyclic, with the last round cut short */
        {5, {0, 1, 0, 1, 0}, "(vector,(0,2,1))", "(vector,0,1)"},
        {3, {0, 1, 0}, "(vector,(0,2,1))", "(vector,0,1)"},
        {12, {0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2}, "(vector,(0,9,1))", "(vector,(0,9,1))"},
        /* block, with the last node not full */
        {6, {0, 0, 0, 1, 1, 1}, "(vector,(0,2,3))", "(vector,(0,2,3))"},
        {5, {0, 0, 0, 1, 1}, "(vector,(0,2,3))", "(vector,(0,2,3))"},
        {7, {0, 0, 0, 1, 1, 1, 2}, "(vector,(0,3,3))", "(vector,(0,3,3))"},
        {5, {0, 0, 1, 1, 1}, "(vector,(0,1,2),(1,1,3))", "(vector,0,0,[1]x3)"},
        /* plane: blocks of 2 dealt over 3 nodes */
        {13, {0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 0}, "(vector,(0,3,2))", "(vector,(0,3,2))"},
        /* a list that repeats does not get a longer last block */
        {4, {0, 0, 1, 0}, "(vector,(0,1,2),(1,1,1))", "(vector,0,0,1)"},
        {8, {0, 0, 1, 0, 0, 1, 0, 0}, "(vector,(0,1,2),(1,1,1))", "(vector,0,0,1)"},
        /* not on consecutive nodes, or going down */
        {4, {0, 2, 4, 6}, "(vector,(0,1,1),(2,1,1),(4,1,1),(6,1,1))", "(vector,0,2,4,6)"},
        {3, {2, 1, 0}, "(vector,(2,1,1),(1,1,1),(0,1,1))", "(vector,2,1,0)"},
        /* repetition inside a list that does not repeat as a whole */
        {11,
         {0, 1, 2, 0, 1, 2, 0, 1, 2, 9, 9},
         "(vector,(0,3,1),(0,3,1),(0,3,1),(9,1,2))",
         "(vector,[0,1,2]x3,9,9)"},
        {12,
         {9, 4, 2, 2, 4, 2, 2, 4, 2, 2, 8, 8},
         "(vector,(9,1,1),(4,1,1),(2,1,2),(4,1,1),(2,1,2),(4,1,1),(2,1,2),(8,1,2))",
         "(vector,9,[4,2,2]x3,8,8)"},
        {9, {0, 0, 0, 0, 0, 0, 0, 0, 5}, "(vector,(0,1,8),(5,1,1))", "(vector,[0]x8,5)"},
        {3,
         {MAX - 2, MAX - 1, MAX - 1},
         "(vector,(2147483645,1,1),(2147483646,1,2))",
         "(vector,2147483645,[2147483646]x2)"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_encode(cases[i].node_of, cases[i].n, CLASSIC, cases[i].classic);
        check_encode(cases[i].node_of, cases[i].n, EXTENDED, cases[i].extended);
    }
}

static void test_encode_arguments(void **state)
{
    uint32_t x[3] = {0, 1, 0};
    char out[64] = "untouched";

    assert_int_equal(pmiwire_mapping_encode(NULL, 3, CLASSIC, 538, out, 64), -EINVAL);
    assert_int_equal(pmiwire_mapping_encode(x, 0, CLASSIC, 538, out, 64), -EINVAL);
    assert_int_equal(pmiwire_mapping_encode(x, MAX + 1, CLASSIC, 538, out, 64), -EINVAL);
    assert_int_equal(pmiwire_mapping_encode(x, 3, 2, 538, out, 64), -EINVAL);
    assert_int_equal(pmiwire_mapping_encode(x, 3, CLASSIC, 538, NULL, 64), -EINVAL);
    assert_int_equal(pmiwire_mapping_encode(x, 3, CLASSIC, 538, NULL, 0), PMIWIRE_ENOBUF);
    x[2] = MAX;
    assert_int_equal(pmiwire_mapping_encode(x, 3, CLASSIC, 538, out, 64), -EINVAL);
    x[2] = UINT32_MAX;
    assert_int_equal(pmiwire_mapping_encode(x, 3, CLASSIC, 538, out, 64), -EINVAL);
    assert_string_equal(out, "untouched");
    x[2] = MAX - 1;
    check_encode(x, 3, CLASSIC, "(vector,(0,2,1),(2147483646,1,1))");
}

/* max_len and cap one below, at and one above the length, for short lists and for
   one of exactly what MPICH 4.0 takes. */
static void test_encode_limits(void **state)
{
    uint32_t x[64];
    char want[1024];

    for (uint32_t g = CLASSIC; g <= EXTENDED; g++) {
        for (uint32_t n = 1; n <= 64; n++) {
            ssize_t len;

            for (uint32_t i = 0; i < n; i++)
                x[i] = i * i % 61;
            len = pmiwire_mapping_encode(x, n, g, SIZE_MAX, want, sizeof(want));
            assert_true(len > 0);
            for (int d = -1; d <= 1; d++) {
                size_t max_len = (size_t)(len + d), cap = (size_t)(len + 1 + d);
                char *out = guard_end(&out_guard, cap);

                memset(out, '#', cap);
                assert_int_equal(pmiwire_mapping_encode(x, n, g, SIZE_MAX, out, cap),
                                 d < 0 ? PMIWIRE_ENOBUF : len);
                if (d < 0)
                    assert_true(cap == 0 || (out[0] == '#' && out[cap - 1] == '#'));
                else
                    assert_string_equal(out, want);
                memset(out, '#', cap);
                assert_int_equal(pmiwire_mapping_encode(x, n, g, max_len, want, sizeof(want)),
                                 d < 0 ? PMIWIRE_EMAPSIZE : len);
                if (d < 0) /* too long comes before no room */
                    assert_int_equal(pmiwire_mapping_encode(x, n, g, max_len, out, cap),
                                     PMIWIRE_EMAPSIZE);
                assert_true(cap == 0 || out[0] == '#');
            }
            assert_int_equal(pmiwire_mapping_encode(x, n, g, 0, want, sizeof(want)),
                             PMIWIRE_EMAPSIZE);
        }
    }
    /* 8 bytes and 53 times ",(100,1,1)" are 538; with the last node one digit shorter or longer,
       537 and 539 */
    for (int d = -1; d <= 1; d++) {
        char *out = guard_end(&out_guard, PMIWIRE_MAPPING_MPICH40_BYTES + 1);
        ssize_t len;

        for (uint32_t i = 0; i < 53; i++)
            x[i] = 100 + 2 * (i * 37 % 53); /* all different and even: nothing merges */
        x[52] = d < 0 ? 13 : d == 0 ? 993 : 1993;
        len = pmiwire_mapping_encode(x, 53, CLASSIC, SIZE_MAX, want, sizeof(want));
        assert_int_equal(len, (int)PMIWIRE_MAPPING_MPICH40_BYTES + d);
        assert_int_equal(pmiwire_mapping_encode(x, 53, CLASSIC, PMIWIRE_MAPPING_MPICH40_BYTES, out,
                                                PMIWIRE_MAPPING_MPICH40_BYTES + 1),
                         d > 0 ? PMIWIRE_EMAPSIZE : len);
    }
}

/* Properties of any array: both grammars expand to the array, the classic one
   holds only triples, the extended is not longer, and the fold is the smallest period. */
static void check_roundtrip(const uint32_t *x, uint32_t n)
{
    ssize_t classic_len = 0;
    size_t period = naive_period(x, n);

    for (uint32_t g = CLASSIC; g <= EXTENDED; g++) {
        struct pmiwire_mapping_block *b;
        char *out = guard_end(&out_guard, 32 * 1024);
        uint32_t n_blocks, y[512];
        uint64_t covered;
        ssize_t len = pmiwire_mapping_encode(x, n, g, SIZE_MAX, out, 32 * 1024);

        assert_true(len > 0);
        assert_int_equal(strlen(out), len);
        assert_null(strchr(out, ' '));
        b = parse_ok(out, (size_t)len, &n_blocks);
        naive_expand(b, n_blocks, n, y);
        if (memcmp(x, y, n * sizeof(*x)) != 0)
            print_message("wrong: %s\n", out);
        assert_memory_equal(x, y, n * sizeof(*x));
        covered = naive_covered(b, n_blocks);
        if (period < n)
            assert_int_equal(covered, period);
        else
            assert_true(covered >= n);
        if (g == CLASSIC) {
            classic_len = len;
            assert_null(strchr(out, '['));
            for (uint32_t i = 0; i < n_blocks; i++)
                assert_int_equal(b[i].group_len, 0);
            assert_true(strlen(out) >= 8 + n_blocks * 8u); /* no bare numbers */
        } else {
            assert_true(len <= classic_len);
        }
    }
}

static uint32_t make_random(uint32_t *x)
{
    uint32_t n = rnd(rnd(8) == 0 ? 400 : 48) + 1, nodes = rnd(5) + 1, kind = rnd(6), period;

    switch (kind) {
    case 0: /* noise */
        for (uint32_t i = 0; i < n; i++)
            x[i] = rnd(nodes);
        break;
    case 1: /* runs */
        for (uint32_t i = 0, v = 0; i < n; i++)
            x[i] = v = rnd(3) ? v : rnd(nodes);
        break;
    case 2: /* plane */
        period = rnd(5) + 1;
        for (uint32_t i = 0; i < n; i++)
            x[i] = i / period % nodes;
        break;
    case 3: /* noise that repeats, perhaps cut short */
        period = rnd(n) + 1;
        for (uint32_t i = 0; i < n; i++)
            x[i] = i < period ? rnd(nodes) : x[i - period];
        break;
    case 4: /* several repeats one after the other */
        for (uint32_t i = 0, left = 0, p = 1; i < n; i++) {
            if (left == 0) {
                p = rnd(6) + 1;
                left = rnd(40) + p;
            }
            x[i] = left-- % p + (p > 3 ? 8 : 0);
        }
        break;
    default: /* like 3, with one rank moved */
        period = rnd(n) + 1;
        for (uint32_t i = 0; i < n; i++)
            x[i] = i < period ? rnd(nodes) : x[i - period];
        x[rnd(n)] = rnd(nodes);
    }
    return n;
}

static void test_random_arrays(void **state)
{
    uint32_t x[512];

    for (int i = 0; i < 100000; i++)
        check_roundtrip(x, make_random(x));
}

/* Every array of up to 9 ranks over 3 nodes: 29,523 of them. */
static void test_all_small_arrays(void **state)
{
    uint32_t x[9];

    for (uint32_t n = 1; n <= 9; n++) {
        uint32_t count = 1;

        for (uint32_t i = 0; i < n; i++)
            count *= 3;
        for (uint32_t code = 0; code < count; code++) {
            for (uint32_t i = 0, c = code; i < n; i++, c /= 3)
                x[i] = c % 3;
            check_roundtrip(x, n);
        }
    }
}

/* ---- Large jobs ----------------------------------------------------------- */

#define LARGE 1000000u

/* Kinds that would be quadratic for a naive fold or group search, among them. Time is not
   asserted; a quadratic step would take hours here and run into the test's time limit. */
static uint32_t large_node(uint32_t kind, uint32_t i)
{
    switch (kind) {
    case 0: return rnd(1000);
    case 1: return i % 1000;    /* cyclic */
    case 2: return i / 64;      /* block */
    case 3: return i / 4 % 512; /* plane */
    case 4: return 0;
    case 5: return i < LARGE / 2 ? i % 2 : 2 + i % 3; /* two repeats */
    case 6: return i == LARGE / 2 ? 1 : 0;
    case 7: return i == LARGE / 2 ? 2 : i == LARGE - 1 ? 3 : i % 2;   /* many false starts */
    case 8: return (uint32_t)__builtin_popcount(i) & 1u;              /* Thue-Morse: overlap-free */
    case 9: return i == LARGE / 3 || i == LARGE - 2 ? 5 : i % 17 * 2; /* longer than a group */
    case 10: return (i / 33 + i % 33 * 2) % 7;                        /* near repeats */
    case 11: /* long false starts */ return i == LARGE / 2 + 1 ? 2 : i == LARGE - 2 ? 1 : i % 2;
    default: return rnd(2);
    }
}

static void test_large(void **state)
{
    uint32_t *x = malloc(LARGE * sizeof(*x)), *y = malloc(LARGE * sizeof(*y));
    size_t cap = LARGE * 16u;
    char *out = malloc(cap);

    assert_true(x != NULL && y != NULL && out != NULL);
    for (uint32_t kind = 0; kind <= 12; kind++) {
        for (uint32_t i = 0; i < LARGE; i++)
            x[i] = large_node(kind, i);
        for (uint32_t g = CLASSIC; g <= EXTENDED; g++) {
            struct pmiwire_mapping_block *b;
            ssize_t len = pmiwire_mapping_encode(x, LARGE, g, SIZE_MAX, out, cap);
            struct pmiwire_str s = {out, (size_t)len};
            uint32_t n = 0;

            assert_true(len > 0);
            if (kind >= 1 && kind <= 4)
                assert_true(len < 30);
            if (kind == 5 && g == EXTENDED)
                assert_true(len < 50);
            assert_int_equal(pmiwire_mapping_parse(s, NULL, 0, &n, NULL), PMIWIRE_ENOBUF);
            b = malloc(n * sizeof(*b));
            assert_non_null(b);
            assert_int_equal(pmiwire_mapping_parse(s, b, n, &n, NULL), 0);
            assert_int_equal(pmiwire_mapping_expand(b, n, LARGE, y), 0);
            assert_memory_equal(x, y, LARGE * sizeof(*x));
            free(b);
            /* short limit: gives up early */
            if (len > 1000)
                assert_int_equal(
                    pmiwire_mapping_encode(x, LARGE, g, PMIWIRE_MAPPING_MPICH40_BYTES, out, cap),
                    PMIWIRE_EMAPSIZE);
        }
    }
    free(out);
    free(y);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_tables),
        cmocka_unit_test(test_parse_errors),
        cmocka_unit_test(test_parse_arguments),
        cmocka_unit_test(test_parse_cuts_and_room),
        cmocka_unit_test(test_parse_limits),
        cmocka_unit_test(test_parse_against_regex),
        cmocka_unit_test(test_expand_known),
        cmocka_unit_test(test_expand_bad_blocks),
        cmocka_unit_test(test_random_lists),
        cmocka_unit_test(test_encode_known),
        cmocka_unit_test(test_encode_arguments),
        cmocka_unit_test(test_encode_limits),
        cmocka_unit_test(test_random_arrays),
        cmocka_unit_test(test_all_small_arrays),
        cmocka_unit_test(test_large),
    };

    return cmocka_run_group_tests(tests, open_guards, close_guards);
}
