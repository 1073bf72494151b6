/* SPDX-License-Identifier: BSD-3-Clause */
/* The index alone: every documented error at, below and above its limit, and random histories
 * against a naive table. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../../libasymreg/src/index/index.h"

static struct asymreg__index *make(uint32_t max_regions)
{
    struct asymreg__index_opts opts = {.max_regions = max_regions};
    struct asymreg__index *ix = NULL;

    assert_int_equal(asymreg__index_create(&opts, &ix), 0);
    return ix;
}

static void rejects_bad_input(void **state)
{
    struct asymreg__index_opts opts = {0};
    struct asymreg__index *ix;
    struct asymreg__reader *r;
    asymreg_id id, id2;

    opts.max_regions = ASYMREG_MAX_REGIONS + 1;
    assert_int_equal(asymreg__index_create(&opts, &ix), -EINVAL);
    ix = make(0);
    assert_int_equal(asymreg__reader_create(ix, &r), 0);
    assert_null(asymreg__index_lookup(r, 0));
    assert_null(asymreg__index_lookup(r, UINT64_MAX));
    assert_int_equal(asymreg__index_insert(ix, 4096, 0, 1, 0, &id), -EINVAL);
    assert_int_equal(asymreg__index_insert(ix, UINT64_MAX, 1, 1, 0, &id), ASYMREG_EOVERFLOW);
    assert_int_equal(asymreg__index_insert(ix, UINT64_MAX - 4095, 4097, 1, 0, &id),
                     ASYMREG_EOVERFLOW);
    assert_int_equal(asymreg__index_insert(ix, 4096, UINT64_MAX, 1, 0, &id), ASYMREG_EOVERFLOW);
    /* Up to the last byte there is. */
    assert_int_equal(asymreg__index_insert(ix, UINT64_MAX - 4095, 4096, 1, 77, &id), 0);
    assert_int_equal(asymreg__index_lookup(r, UINT64_MAX)->value, 77);
    assert_int_equal(asymreg__index_search(r, UINT64_MAX)->value, 77);
    assert_int_equal(asymreg__index_lookup(r, UINT64_MAX - 4095)->id, id);
    assert_null(asymreg__index_lookup(r, UINT64_MAX - 4096));
    assert_int_equal(asymreg__index_insert(ix, UINT64_MAX - 1, 1, 1, 0, &id2), ASYMREG_EOVERLAP);
    assert_int_equal(asymreg__index_remove(ix, id), 0);
    assert_null(asymreg__index_lookup(r, UINT64_MAX));
    assert_int_equal(asymreg__index_remove(ix, id), ASYMREG_ESTALE);
    assert_int_equal(asymreg__index_remove(ix, ASYMREG_ANY), ASYMREG_ESTALE);
    assert_int_equal(asymreg__index_remove(ix, UINT64_MAX), ASYMREG_ESTALE);
    asymreg__reader_destroy(r);
    asymreg__reader_destroy(NULL);
    asymreg__index_destroy(ix);
    asymreg__index_destroy(NULL);
}

static void overlap_and_neighbours(void **state)
{
    struct asymreg__index *ix = make(16);
    struct asymreg__reader *r;
    asymreg_id a, b, id;

    assert_int_equal(asymreg__reader_create(ix, &r), 0);
    assert_int_equal(asymreg__index_insert(ix, 1000, 100, 1, 1, &a), 0);
    assert_int_equal(asymreg__index_insert(ix, 1100, 100, 2, 2, &b), 0); /* adjacent */
    assert_int_equal(asymreg__index_lookup(r, 1099)->value, 1);
    assert_int_equal(asymreg__index_lookup(r, 1100)->value, 2);
    assert_int_equal(asymreg__index_lookup(r, 1100)->prot, 2);
    assert_null(asymreg__index_lookup(r, 999));
    assert_null(asymreg__index_lookup(r, 1200));
    assert_int_equal(asymreg__index_insert(ix, 1000, 100, 1, 1, &id),
                     ASYMREG_EOVERLAP); /* the same */
    assert_int_equal(asymreg__index_insert(ix, 999, 2, 1, 1, &id),
                     ASYMREG_EOVERLAP); /* from the left */
    assert_int_equal(asymreg__index_insert(ix, 1199, 2, 1, 1, &id),
                     ASYMREG_EOVERLAP); /* from the right */
    assert_int_equal(asymreg__index_insert(ix, 1050, 1, 1, 1, &id), ASYMREG_EOVERLAP); /* inside */
    assert_int_equal(asymreg__index_insert(ix, 1, 5000, 1, 1, &id), ASYMREG_EOVERLAP); /* around */
    /* Again at the same address: another identifier, and the last hit is not used for it. */
    assert_int_equal(asymreg__index_lookup(r, 1050)->id, a);
    assert_int_equal(r->hit_generation, a >> 32);
    assert_int_equal(asymreg__index_remove(ix, a), 0);
    assert_null(asymreg__index_lookup(r, 1050));
    assert_int_equal(asymreg__index_insert(ix, 1000, 100, 1, 3, &id), 0);
    assert_true(id != a);
    assert_int_equal(asymreg__index_lookup(r, 1050)->value, 3);
    assert_int_equal(asymreg__index_remove(ix, a), ASYMREG_ESTALE);
    asymreg__reader_destroy(r);
    asymreg__index_destroy(ix);
}

static void full_at_the_limit(void **state)
{
    struct asymreg__index *ix = make(40);
    asymreg_id ids[40], id;

    for (uint32_t i = 0; i < 40; i++)
        assert_int_equal(asymreg__index_insert(ix, 100 + i * 10, 10, 0, i, &ids[i]), 0);
    assert_int_equal(asymreg__index_insert(ix, 5000, 10, 0, 0, &id), ASYMREG_EFULL);
    assert_int_equal(asymreg__index_remove(ix, ids[17]), 0);
    assert_int_equal(asymreg__index_insert(ix, 5000, 10, 0, 0, &id), 0);
    assert_int_equal((uint32_t)id, (uint32_t)ids[17]);
    asymreg__index_destroy(ix);
}

static void slot_out_of_generations_is_not_used_again(void **state)
{
    struct asymreg__index *ix = make(2);
    asymreg_id a, b;

    assert_int_equal(asymreg__index_insert(ix, 100, 10, 0, 0, &a), 0);
    assert_int_equal(asymreg__index_remove(ix, a), 0);
    ix->slots[0].generation = 0xfffffffcu; /* as if after two thousand million lives */
    assert_int_equal(asymreg__index_insert(ix, 100, 10, 0, 0, &a), 0);
    assert_int_equal(a, (uint64_t)0xfffffffdu << 32);
    assert_int_equal(asymreg__index_remove(ix, a), 0);
    assert_int_equal(asymreg__index_remove(ix, a), ASYMREG_ESTALE);
    assert_int_equal(asymreg__index_insert(ix, 100, 10, 0, 0, &b), 0);
    assert_int_equal((uint32_t)b, 1);
    assert_int_equal(asymreg__index_insert(ix, 200, 10, 0, 0, &a), ASYMREG_EFULL);
    asymreg__index_destroy(ix);
}

/* The tree's own rules, at every node. Returns how many regions are below. */
static size_t check_node(struct asymreg__index *ix, const void *node, uintptr_t depth, int64_t lo,
                         int64_t hi, int is_root)
{
    const struct asymreg__inner *inner = node;
    const struct asymreg__leaf *leaf = node;
    size_t total = 0;

    if (depth == 1) {
        uint32_t n = asymreg__rank(leaf->keys, KEY_NONE - 1);
        assert_true(n > 0 || is_root);
        for (uint32_t i = 0; i < n; i++) {
            const struct asymreg__slot *s = &ix->slots[leaf->slots[i]];
            assert_true(leaf->keys[i] >= lo && asymreg__key(s->last) < hi);
            assert_true(s->generation & 1);
            assert_int_equal(asymreg__key(s->start), leaf->keys[i]);
            assert_true(i == 0 || leaf->keys[i] > leaf->keys[i - 1]);
        }
        return n;
    }
    uint32_t n = asymreg__rank(inner->keys, KEY_NONE - 1);
    assert_true(n > (is_root ? 1u : 0u));
    assert_true(inner->keys[0] == INT64_MIN);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(i == 0 || inner->keys[i] > inner->keys[i - 1]);
        assert_true(i == 0 || inner->keys[i] > lo);
        total += check_node(ix, inner->child[i], depth - 1, i ? inner->keys[i] : lo,
                            i + 1 < n ? inner->keys[i + 1] : hi, 0);
    }
    return total;
}

static void check_tree(struct asymreg__index *ix)
{
    size_t n =
        check_node(ix, (void *)(ix->root & ~(uintptr_t)63), ix->root & 63, INT64_MIN, KEY_NONE, 1);

    assert_int_equal(n, ix->n_regions);
}

static uint64_t rng = 88172645463325252u;

static uint64_t rnd(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng;
}

#define SPACE 4096u /* addresses of the naive table */

/* owner[a]: value of the region that holds address a, or 0. Values are never used twice. */
struct naive {
    uint64_t owner[SPACE];
    asymreg_id id[SPACE]; /* at the first address of each region */
    uint64_t bytes[SPACE];
};

/* Some addresses at once. */
static void look_up_many(const struct asymreg__index *ix, struct asymreg__reader *r,
                         const struct naive *t, uint64_t base)
{
    uint64_t addrs[ASYMREG__BATCH] = {0};
    uint32_t words[ASYMREG__BATCH], n = (uint32_t)(rnd() % (ASYMREG__BATCH + 1));
    struct asymreg_region found;

    for (uint32_t i = 0; i < n; i++) {
        addrs[i] = base + rnd() % SPACE;
        words[i] = UINT32_MAX;
    }
    asymreg__reader_enter(r);
    asymreg__index_search_many(ix, addrs, n, words);
    for (uint32_t i = 0; i < n; i++)
        if (words[i] && asymreg__slot_read(ix, words[i] - 1, addrs[i], &found))
            assert_int_equal(found.value, t->owner[addrs[i] - base]);
        else
            assert_int_equal(t->owner[addrs[i] - base], 0);
    asymreg__reader_exit(r);
}

static void random_history(int plain, unsigned steps, uint32_t max_bytes, unsigned grow,
                           int no_hints)
{
    struct asymreg__index *ix = make(0);
    struct asymreg__reader *r;
    struct naive *t = calloc(1, sizeof(*t));
    uint64_t value = 0, base = rnd() << 13;

    asymreg__search_pick(ix, plain);
    ix->no_hints = no_hints; /* otherwise few of these lookups search */
    assert_int_equal(asymreg__reader_create(ix, &r), 0);
    for (unsigned step = 0; step < steps; step++) {
        uint64_t at = rnd() % SPACE, n = 1 + rnd() % max_bytes;
        if (rnd() % 100 < (step / 3000 % 2 ? 100 - grow : grow)) {
            int busy = at + n > SPACE;
            for (uint64_t a = at; a < at + n && !busy; a++)
                busy = t->owner[a] != 0;
            if (at + n > SPACE)
                continue;
            asymreg_id id;
            int rc = asymreg__index_insert(ix, base + at, n, (uint32_t)value, value + 1, &id);
            assert_int_equal(rc, busy ? ASYMREG_EOVERLAP : 0);
            if (rc == 0) {
                value++;
                t->id[at] = id;
                t->bytes[at] = n;
                for (uint64_t a = at; a < at + n; a++)
                    t->owner[a] = value;
            }
        } else {
            for (uint64_t a = at; a < SPACE; a++) {
                if (!t->id[a])
                    continue;
                assert_int_equal(asymreg__index_remove(ix, t->id[a]), 0);
                assert_int_equal(asymreg__index_remove(ix, t->id[a]), ASYMREG_ESTALE);
                t->id[a] = 0;
                memset(&t->owner[a], 0, t->bytes[a] * sizeof(t->owner[0]));
                break;
            }
        }
        for (int i = 0; i < 4; i++) {
            uint64_t a = rnd() % SPACE;
            const struct asymreg_region *found = asymreg__index_lookup(r, base + a);
            if (found)
                assert_int_equal(found->value, t->owner[a]);
            else
                assert_int_equal(t->owner[a], 0);
        }
        if (step % 16 == 0)
            look_up_many(ix, r, t, base);
        if (step % 512 == 0)
            check_tree(ix);
    }
    /* In order, all of them. */
    struct asymreg_region region;
    uint64_t a = 0, next = base;
    while (asymreg__index_next(ix, next, &region) && region.start - base < SPACE) {
        for (; base + a < region.start; a++)
            assert_int_equal(t->owner[a], 0);
        assert_int_equal(t->owner[a], region.value);
        assert_int_equal(t->id[a], region.id);
        a += t->bytes[a];
        next = region.last + 1;
        assert_int_equal(base + a, next);
    }
    for (; a < SPACE; a++)
        assert_int_equal(t->owner[a], 0);
    check_tree(ix);
    asymreg__reader_destroy(r);
    asymreg__index_destroy(ix);
    free(t);
}

static void random_histories(void **state)
{
    for (int plain = 0; plain < 2; plain++) {
        for (int no_hints = 0; no_hints < 2; no_hints++) {
            random_history(plain, 20000, 3, 75, no_hints);
            random_history(plain, 20000, 30, 60, no_hints);
            random_history(plain, 6000, 400, 60, no_hints);
        }
    }
}

static void both_ways_of_comparing_agree(void **state)
{
    struct asymreg__index *ix[2];
    struct asymreg__reader *r[2];
    const uint32_t n = 2;

    for (uint32_t k = 0; k < n; k++) {
        ix[k] = make(0);
        asymreg__search_pick(ix[k], k == 0);
        assert_int_equal(asymreg__reader_create(ix[k], &r[k]), 0);
    }
    for (int i = 0; i < 20000; i++) {
        uint64_t start = rnd() >> (rnd() % 40), bytes = 1 + (rnd() >> (24 + rnd() % 40));
        asymreg_id id;
        int rc = asymreg__index_insert(ix[0], start, bytes, 0, (uint64_t)i, &id);
        for (uint32_t k = 1; k < n; k++)
            assert_int_equal(asymreg__index_insert(ix[k], start, bytes, 0, (uint64_t)i, &id), rc);
        for (int j = 0; j < 4; j++) {
            uint64_t addr = rnd() >> (rnd() % 64);
            const struct asymreg_region *want = asymreg__index_lookup(r[0], addr);
            for (uint32_t k = 1; k < n; k++) {
                const struct asymreg_region *got = asymreg__index_lookup(r[k], addr);
                assert_int_equal(!got, !want);
                if (got)
                    assert_memory_equal(got, want, sizeof(*got));
            }
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        asymreg__reader_destroy(r[k]);
        asymreg__index_destroy(ix[k]);
    }
}

/* Ascending, descending, and in clusters: full, then emptied from either end. Memory stays within
 * what the header's figure allows. */
static void orders_of_growth(void **state)
{
    enum { N = 30000 };
    static asymreg_id ids[N];

    for (int order = 0; order < 3; order++) {
        struct asymreg__index *ix = make(0);
        struct asymreg__index_stats stats = {0};
        for (uint32_t i = 0; i < N; i++) {
            uint32_t k = order == 0 ? i : order == 1 ? N - 1 - i : i % 100 * 300 + i / 100;
            assert_int_equal(asymreg__index_insert(ix, 1000 + k * 64ull, 64, 0, k, &ids[k]), 0);
        }
        check_tree(ix);
        asymreg__index_stats(ix, &stats);
        assert_int_equal(stats.n_regions, N);
        /* Slabs come in powers of two: leave room for one half empty. */
        assert_true(stats.bytes / N <= 64 * 2);
        if (order < 2) /* nodes are full: 1875 leaves, 118 and 8 nodes above them, the root */
            assert_int_equal(stats.depth, 4);
        for (uint32_t i = 0; i < N; i++) {
            assert_int_equal(asymreg__index_remove(ix, ids[order == 1 ? N - 1 - i : i]), 0);
            if (i % 1000 == 0)
                check_tree(ix);
        }
        check_tree(ix);
        asymreg__index_stats(ix, &stats);
        assert_int_equal(stats.n_regions, 0);
        assert_int_equal(stats.depth, 1);
        asymreg__index_destroy(ix);
    }
}

static void build_at_once(void **state)
{
    struct asymreg__index *ix;
    struct asymreg__reader *r;
    uint32_t order[5000];

    for (size_t n = 0; n < 5000; n = n < 40 ? n + 1 : n * 2 + 7) {
        ix = make(0);
        assert_int_equal(asymreg__reader_create(ix, &r), 0);
        for (size_t i = 0; i < n; i++) {
            order[i] = (uint32_t)(n - 1 - i);
            ix->slots[order[i]] = (struct asymreg__slot){
                .start = i * 100 + 7, .last = i * 100 + 56, .generation = 1, .value = i};
        }
        assert_int_equal(asymreg__index_build(ix, order, n), 0);
        check_tree(ix);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(asymreg__index_lookup(r, i * 100 + 7)->value, i);
            assert_int_equal(asymreg__index_lookup(r, i * 100 + 56)->value, i);
            assert_null(asymreg__index_lookup(r, i * 100 + 57));
        }
        if (n > 1) {
            asymreg__reader_destroy(r);
            asymreg__index_destroy(ix);
            ix = make(0);
            assert_int_equal(asymreg__reader_create(ix, &r), 0);
            for (size_t i = 0; i < n; i++)
                ix->slots[order[i]] = (struct asymreg__slot){
                    .start = i * 100, .last = i * 100 + 100, .generation = 1};
            assert_int_equal(asymreg__index_build(ix, order, n), ASYMREG_EOVERLAP);
        }
        asymreg__reader_destroy(r);
        asymreg__index_destroy(ix);
    }
}

/* The share of regions' addresses that a hint finds, in hundredths. */
static unsigned hinted(const struct asymreg__index *ix)
{
    uint64_t yes = 0, all = 0;

    for (uint32_t i = 0; i < ix->n_used; i++) {
        const struct asymreg__slot *s = &ix->slots[i];
        if (!(s->generation & 1))
            continue;
        for (uint64_t a = s->start; a - s->start <= s->last - s->start;
             a += 1 + (s->last - s->start) / 7, all++)
            yes += ix->hints_on &&
                   ix->hints_on[asymreg__hint_place(a >> ix->hint_shift, ix->hint_bits)] == i + 1;
    }
    return all ? (unsigned)(yes * 100 / all) : 0;
}

/* No hint is of an earlier shape of the table: after insertions alone, each leads to a region of
 * its granule. */
static void no_old_words(const struct asymreg__index *ix)
{
    for (uint64_t place = 0; ix->hints && place < UINT64_C(1) << ix->hint_bits; place++) {
        const struct asymreg__slot *s = &ix->slots[ix->hints[place] - 1];
        int belongs = 0;

        if (!ix->hints[place])
            continue;
        for (uint64_t g = s->start >> ix->hint_shift; g <= s->last >> ix->hint_shift && !belongs;
             g++)
            belongs = asymreg__hint_place(g, ix->hint_bits) == place;
        assert_true(s->generation & 1 && belongs);
    }
}

enum { HINTED = 20000 };

/* A layout of regions, in random order: place i begins at place(i) and has bytes(i). */
struct layout {
    const char *name;
    uint64_t (*place)(uint64_t i);
    uint64_t (*bytes)(uint64_t i);
    unsigned least, most; /* hundredths hinted */
};

static uint64_t mix(uint64_t i)
{
    i = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return i ^ i >> 29;
}

static uint64_t dense(uint64_t i)
{
    return 0x10000 + i * 64;
}
static uint64_t pages(uint64_t i)
{
    return 0x7f0000000000 + i * 4096;
}
static uint64_t uneven(uint64_t i)
{
    return 0x555500000000 + i * 3000 + mix(i) % 1000;
}
static uint64_t heaps(uint64_t i)
{
    return 0x7f0000000000 + (mix(i / 64) % 4096 << 30 | i / 64 << 12 | i % 64 * 48);
}
static uint64_t far_apart(uint64_t i)
{
    return (mix(i) & 3) << 60 | i << 30;
}
static uint64_t doubling(uint64_t i)
{
    return i < 40 ? UINT64_C(1) << (20 + i) : i * 32;
}
/* Two of five in clusters of 64, all of them in a few granules of those that are far apart and
 * small: hardly a byte has a hint. */
static uint64_t clusters(uint64_t i)
{
    return i % 5 < 2 ? i / 64 * 4096 + i % 64 * 64 : (i + 1) << 30;
}
static uint64_t or_one(uint64_t i)
{
    return i % 5 < 2 ? 64 : 1;
}
static uint64_t fixed64(uint64_t i)
{
    return (void)i, 64;
}
static uint64_t upto2000(uint64_t i)
{
    return 1 + mix(i) % 2000;
}
static uint64_t upto48(uint64_t i)
{
    return 1 + mix(i) % 48;
}
static uint64_t large(uint64_t i)
{
    return i < 40 ? (UINT64_C(1) << (20 + i)) - 7 : 32;
}

/* Hints exist for the usual layouts, survive changes, and are always verified. */
static void hints_help_and_do_not_lie(void **state)
{
    static const struct layout layouts[] = {
        {"dense", dense, fixed64, 100, 100},
        {"pages", pages, upto2000, 95, 100},
        {"uneven", uneven, upto2000, 85, 100},
        {"heaps", heaps, upto48, 50, 100},
        {"far apart", far_apart, upto2000, 50, 100},
        {"some are large", doubling, large, 85, 100},
        {"clusters, given up", clusters, or_one, 0, 0},
    };
    static asymreg_id ids[HINTED];

    for (size_t l = 0; l < sizeof(layouts) / sizeof(*layouts); l++) {
        const struct layout *y = &layouts[l];
        struct asymreg__index *ix = make(0);
        struct asymreg__reader *r;
        assert_int_equal(asymreg__reader_create(ix, &r), 0);
        for (uint64_t k = 0; k < HINTED; k++) {
            uint64_t i = k * 7919 % HINTED;
            assert_int_equal(asymreg__index_insert(ix, y->place(i), y->bytes(i), 0, i, &ids[i]), 0);
        }
        unsigned share = hinted(ix);
        print_message("%s: %u of 100 addresses have a hint\n", y->name, share);
        assert_in_range(share, y->least, y->most);
        no_old_words(ix);
        for (int pass = 0; pass < 3; pass++) {
            for (uint64_t i = 0; i < HINTED; i++) {
                const struct asymreg_region *found =
                    asymreg__index_search(r, y->place(i) + rnd() % y->bytes(i));
                uint64_t past = y->place(i) + y->bytes(i);
                if (!ids[i]) {
                    assert_null(found);
                    continue;
                }
                assert_non_null(found);
                assert_int_equal(found->value, i);
                assert_int_equal(found->id, ids[i]);
                found = asymreg__index_search(r, past);
                assert_true(!found || found->start == past);
            }
            for (uint64_t i = 0; i < HINTED;
                 i++) /* some go; then some come, into slots of others */
                if (ids[i] && rnd() % 3 == 0) {
                    assert_int_equal(asymreg__index_remove(ix, ids[i]), 0);
                    ids[i] = 0;
                }
            for (uint64_t i = 0; i < HINTED; i++)
                if (!ids[i] && rnd() % 2)
                    assert_int_equal(
                        asymreg__index_insert(ix, y->place(i), y->bytes(i), 0, i, &ids[i]), 0);
        }
        asymreg__reader_destroy(r);
        asymreg__index_destroy(ix);
    }
}

/* A copy of an index has hints too, and builds them anew only after a quarter more regions. */
static void hints_of_a_copy(void **state)
{
    enum { N = 1000 };
    struct asymreg__index *ix = make(N);
    uint32_t conflict, n_built = 0;

    for (uint32_t i = 0; i < N; i++) {
        uint32_t before = ix->hints_at;
        const struct asymreg__slot content = {
            .start = dense(i), .last = dense(i) + 63, .generation = 1, .prot = 1};
        assert_int_equal(asymreg__index_put(ix, i, &content, &conflict), 0);
        n_built += ix->hints_at != before;
    }
    assert_int_equal(hinted(ix), 100);
    assert_in_range(n_built, 1, 13); /* 64 * 1.25^13 > N */
    asymreg__index_destroy(ix);
}

/* A reader that never leaves its section delays the freeing of what it may read, and no thread
 * waits. */
static void a_stuck_reader_stops_nobody(void **state)
{
    struct asymreg__index *ix = make(0);
    struct asymreg__reader *stuck;
    struct asymreg__index_stats stats = {0};
    asymreg_id id;

    assert_int_equal(asymreg__reader_create(ix, &stuck), 0);
    asymreg__reader_enter(stuck);
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(asymreg__index_insert(ix, 64, 64, 0, 0, &id), 0);
        assert_int_equal(asymreg__index_remove(ix, id), 0);
    }
    asymreg__index_stats(ix, &stats);
    assert_true(stats.n_retired >= 10000);
    asymreg__reader_exit(stuck);
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(asymreg__index_insert(ix, 64, 64, 0, 0, &id), 0);
        assert_int_equal(asymreg__index_remove(ix, id), 0);
    }
    asymreg__index_stats(ix, &stats);
    assert_true(stats.n_retired < 1000);
    asymreg__reader_destroy(stuck);
    asymreg__index_destroy(ix);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rejects_bad_input),
        cmocka_unit_test(overlap_and_neighbours),
        cmocka_unit_test(full_at_the_limit),
        cmocka_unit_test(slot_out_of_generations_is_not_used_again),
        cmocka_unit_test(random_histories),
        cmocka_unit_test(both_ways_of_comparing_agree),
        cmocka_unit_test(orders_of_growth),
        cmocka_unit_test(build_at_once),
        cmocka_unit_test(hints_help_and_do_not_lie),
        cmocka_unit_test(hints_of_a_copy),
        cmocka_unit_test(a_stuck_reader_stops_nobody),
    };

    if (argc > 1) /* a seed; 0: one of the time of day */
        rng = strtoull(argv[1], NULL, 0);
    if (!rng)
        rng = (uint64_t)time(NULL) << 20 | 1;
    fprintf(stderr, "seed %llu\n", (unsigned long long)rng);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
