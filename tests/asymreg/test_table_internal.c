/* SPDX-License-Identifier: BSD-3-Clause */
/* Publication and a peer's copy, in one process: mapped, and through a read function that can fail,
 * tear, or return false data. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include "../../libasymreg/src/table/table.h"

static uint64_t rng = 88172645463325252u;

static uint64_t rnd(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng;
}

struct world {
    struct asymreg__table *table;
    char *memory;
    uint64_t bytes;
    uint64_t segment;
    int reads;
    int fail_at;                     /* the n-th read returns -EIO */
    void (*between)(struct world *); /* after each read */
    struct asymreg__cache *cache;
    struct asymreg__reader *reader;
};

static int read_fn(void *ctx, uint64_t offset, void *dst, size_t bytes)
{
    struct world *w = ctx;

    assert_true(offset % 8 == 0 && bytes % 8 == 0);
    assert_true(offset + bytes <= w->bytes);
    if (++w->reads == w->fail_at)
        return -EIO;
    /* Changes happen in the middle of a read as well as after it. */
    size_t half = w->between ? rnd() % (bytes / 8 + 1) * 8 : bytes;
    memcpy(dst, w->memory + offset, half);
    if (half < bytes) {
        w->between(w);
        memcpy((char *)dst + half, w->memory + offset + half, bytes - half);
    }
    if (w->between)
        w->between(w);
    return 0;
}

static void world_init(struct world *w, uint32_t max_regions, uint32_t ring, int mapped)
{
    struct asymreg__table_opts opts = {
        .max_regions = max_regions, .ring = ring, .max_handle_bytes = 20};
    struct asymreg__cache_opts copts = {.ctx = w, .incarnation = 42};

    memset(w, 0, sizeof(*w));
    w->bytes = asymreg__table_bytes(&opts);
    assert_true(w->bytes > 0);
    w->memory = asymreg__reserve(w->bytes);
    assert_non_null(w->memory);
    assert_int_equal(asymreg__table_create(&opts, w->memory, 42, &w->table), 0);
    assert_int_equal(asymreg__table_segment_add(w->table, 0, UINT64_MAX, "handle", 6, &w->segment),
                     0);
    copts.bytes = w->bytes;
    if (mapped)
        copts.mapped = w->memory;
    else
        copts.read = read_fn;
    assert_int_equal(asymreg__cache_create(&copts, &w->cache), 0);
    assert_int_equal(asymreg__reader_create(asymreg__cache_index(w->cache), &w->reader), 0);
}

static void world_fini(struct world *w)
{
    asymreg__reader_destroy(w->reader);
    asymreg__cache_destroy(w->cache);
    asymreg__table_destroy(w->table);
    asymreg__unreserve(w->memory, w->bytes);
}

/* The copy equals the table. */
static void same(struct world *w)
{
    struct asymreg_region a, b;
    uint64_t at = 0;
    int more;

    do {
        more = asymreg__index_next(asymreg__table_index(w->table), at, &a);
        assert_int_equal(asymreg__index_next(asymreg__cache_index(w->cache), at, &b), more);
        if (more) {
            assert_memory_equal(&a, &b, sizeof(a));
            const struct asymreg_region *found = asymreg__index_lookup(w->reader, a.start);
            assert_non_null(found);
            assert_memory_equal(found, &a, sizeof(a));
            at = a.last + 1;
        }
    } while (more && at);
}

static asymreg_id insert(struct world *w, uint64_t at, uint64_t bytes)
{
    asymreg_id id;

    assert_int_equal(asymreg__table_insert(w->table, at, bytes, ASYMREG_RW, w->segment, &id), 0);
    return id;
}

static int stale(const struct asymreg__cache *cache)
{
    struct asymreg__freshness f = asymreg__cache_freshness(cache);

    return asymreg__stale(&f);
}

/* As after more changes than the log holds: the next refresh reads the leaves. The owner cannot
 * continue after this. */
static void overrun(struct world *w)
{
    struct asymreg__header *h = (void *)w->memory;

    h->log.log_head = ++h->log.log_tail;
}

static void rejects_bad_sizes(void **state)
{
    struct asymreg__table_opts opts = {0};
    struct asymreg__table *t;
    static char memory[64] __attribute__((aligned(64)));

    assert_true(asymreg__table_bytes(&opts) > 0);
    opts.ring = 8;
    assert_int_equal(asymreg__table_bytes(&opts), 0);
    opts.ring = 17;
    assert_int_equal(asymreg__table_bytes(&opts), 0);
    opts.ring = ASYMREG__MAX_RING * 2;
    assert_int_equal(asymreg__table_bytes(&opts), 0);
    opts.ring = 16;
    assert_true(asymreg__table_bytes(&opts) > 0);
    opts.max_handle_bytes = 1025;
    assert_int_equal(asymreg__table_bytes(&opts), 0);
    opts.max_handle_bytes = 1024;
    assert_true(asymreg__table_bytes(&opts) > 0);
    opts.max_regions = ASYMREG_MAX_REGIONS + 1;
    assert_int_equal(asymreg__table_bytes(&opts), 0);
    assert_int_equal(asymreg__table_create(&opts, memory, 1, &t), -EINVAL);
    opts.max_regions = 1;
    assert_int_equal(asymreg__table_create(&opts, memory + 8, 1, &t), -EINVAL);
    assert_int_equal(asymreg__table_create(&opts, NULL, 1, &t), -EINVAL);
    assert_int_equal(asymreg__table_create(&opts, memory, 0, &t), -EINVAL);
}

static void segments_and_their_rules(void **state)
{
    struct world w;
    struct asymreg__segment_copy seg;
    asymreg_id id;
    uint64_t s, s2;

    world_init(&w, 128, 16, 0);
    assert_int_equal(asymreg__table_segment_add(w.table, 1000, 100, "01234567890123456789", 20, &s),
                     0);
    assert_int_equal(
        asymreg__table_segment_add(w.table, 1000, 100, "012345678901234567890", 21, &s2), -EINVAL);
    assert_int_equal(asymreg__table_segment_add(w.table, 1000, 0, "", 0, &s2), -EINVAL);
    assert_int_equal(asymreg__table_segment_add(w.table, UINT64_MAX - 10, 12, "", 0, &s2),
                     ASYMREG_EOVERFLOW);
    assert_int_equal(asymreg__table_insert(w.table, UINT64_MAX - 9, 10, 1, w.segment, &id),
                     0); /* its last byte is that of the space */
    assert_int_equal(asymreg__table_remove(w.table, id), 0);
    assert_int_equal(asymreg__table_insert(w.table, 999, 10, 1, s, &id), ASYMREG_ERANGE);
    assert_int_equal(asymreg__table_insert(w.table, 1091, 10, 1, s, &id), ASYMREG_ERANGE);
    assert_int_equal(asymreg__table_insert(w.table, 1091, UINT64_MAX, 1, s, &id),
                     ASYMREG_EOVERFLOW);
    assert_int_equal(asymreg__table_insert(w.table, 1000, 100, 0, s, &id), -EINVAL);
    assert_int_equal(asymreg__table_insert(w.table, 1000, 100, 8, s, &id), -EINVAL);
    assert_int_equal(asymreg__table_insert(w.table, 1000, 100, 1, s + 5, &id), ASYMREG_ESTALE);
    assert_int_equal(asymreg__table_insert(w.table, 1000, 100, 1, s, &id), 0);
    assert_int_equal(asymreg__table_segment_remove(w.table, s), ASYMREG_EBUSY);
    assert_int_equal(asymreg__cache_refresh(w.cache), 1);
    const struct asymreg_region *r = asymreg__index_lookup(w.reader, 1099);
    assert_non_null(r);
    assert_int_equal(r->value, s);
    assert_int_equal(asymreg__cache_segment(w.cache, s, &seg), 0);
    assert_int_equal(seg.base, 1000);
    assert_int_equal(seg.last, 1099);
    assert_int_equal(seg.handle_bytes, 20);
    assert_memory_equal(seg.handle, "01234567890123456789", 20);
    assert_int_equal(asymreg__table_remove(w.table, id), 0);
    assert_int_equal(asymreg__table_remove(w.table, id), ASYMREG_ESTALE);
    assert_int_equal(asymreg__table_segment_remove(w.table, s), 0);
    assert_int_equal(asymreg__table_segment_remove(w.table, s), ASYMREG_ESTALE);
    assert_int_equal(asymreg__cache_segment(w.cache, s, &seg), ASYMREG_ESTALE);
    assert_int_equal(asymreg__table_segment_add(w.table, 1000, 100, "again", 5, &s2), 0);
    assert_true(s2 != s);
    assert_int_equal(asymreg__cache_segment(w.cache, s, &seg), ASYMREG_ESTALE);
    assert_int_equal(asymreg__cache_segment(w.cache, s2, &seg), 0);
    assert_memory_equal(seg.handle, "again", 5);
    assert_int_equal(asymreg__cache_segment(w.cache, UINT32_MAX, &seg), ASYMREG_ETABLE);
    world_fini(&w);
}

/* Every region and every segment that a table has room for, up to the last byte of its memory. */
static void full_table(void **state)
{
    enum { N = 256, SEGMENTS = 300, PAGE = 4096 };
    struct asymreg__table_opts opts = {
        .max_regions = 1, .max_segments = SEGMENTS, .ring = 16, .max_handle_bytes = 20};
    struct asymreg__cache_opts copts = {0};
    struct asymreg__segment_copy seg;
    struct asymreg__cache *cache;
    struct asymreg__table *table;
    uint64_t values[SEGMENTS], more;
    struct world w;
    char *memory;

    for (int ring = 16; ring <= N; ring += N - 16) { /* by leaves, and by records */
        world_init(&w, N, (uint32_t)ring, 0);
        const struct asymreg__header *h = (const void *)w.memory;
        assert_int_equal(asymreg__cache_refresh(w.cache), 0);
        for (uint32_t i = 0; i < N; i++) {
            insert(&w, 1000 + i * 10, 10);
            assert_int_equal(h->log.n_slots, i + 1);
            assert_int_equal(h->log.log_head, i < h->ring ? 0 : i + 1 - h->ring);
        }
        assert_int_equal(asymreg__cache_refresh(w.cache), N);
        same(&w);
        world_fini(&w);
    }

    copts.bytes = asymreg__table_bytes(&opts);
    copts.mapped = memory = asymreg__reserve(copts.bytes + PAGE);
    assert_non_null(memory);
    assert_int_equal(mprotect(memory + copts.bytes, PAGE, PROT_NONE), 0);
    assert_int_equal(asymreg__table_create(&opts, memory, 42, &table), 0);
    assert_int_equal(asymreg__cache_create(&copts, &cache), 0);
    for (uint64_t i = 0; i < SEGMENTS; i++)
        assert_int_equal(
            asymreg__table_segment_add(table, i, 1, "01234567890123456789", 20, &values[i]), 0);
    assert_int_equal(asymreg__table_segment_add(table, 0, 1, "", 0, &more), ASYMREG_EFULL);
    for (uint64_t i = 0; i < SEGMENTS; i++) {
        assert_int_equal(asymreg__cache_segment(cache, values[i], &seg), 0);
        assert_true(seg.base == i && seg.handle_bytes == 20);
        assert_memory_equal(seg.handle, "01234567890123456789", 20);
    }
    asymreg__cache_destroy(cache);
    asymreg__table_destroy(table);
    asymreg__unreserve(memory, copts.bytes + PAGE);
}

static void delta_and_leaf(void **state)
{
    for (int mapped = 0; mapped < 2; mapped++) {
        struct world w;
        struct asymreg__cache_stats st = {0};
        asymreg_id ids[1000];
        uint64_t leaves;

        world_init(&w, 1000, 16, mapped);
        assert_int_equal(asymreg__cache_refresh(w.cache), 0);
        for (int i = 0; i < 1000; i++)
            ids[i] = insert(&w, 1000 + (uint64_t)i * 10, 10);
        assert_int_equal(asymreg__cache_refresh(w.cache), 1000);
        same(&w);
        asymreg__cache_stats(w.cache, &st);
        assert_int_equal(st.n_records, 0); /* 1000 of them, a ring of 16 */
        leaves = st.n_leaves;
        assert_int_equal(stale(w.cache), 0);

        /* Fifteen changes: records; and the sixteenth still fits, the seventeenth does not. */
        for (int n = 15; n <= 17; n++) {
            for (int i = 0; i < n; i++) {
                assert_int_equal(asymreg__table_remove(w.table, ids[i * 3]), 0);
                if (++i < n)
                    ids[(i - 1) * 3] = insert(&w, 1000 + (uint64_t)(i - 1) * 30, 5);
            }
            if (n % 2) { /* an odd number: one is still out */
                ids[(n - 1) * 3] = 0;
            }
            assert_int_equal(stale(w.cache), mapped);
            assert_true(asymreg__cache_refresh(w.cache) >= 0);
            same(&w);
            asymreg__cache_stats(w.cache, &st);
            if (n <= 16)
                assert_int_equal(st.n_leaves, leaves); /* no leaf was read */
            else
                assert_in_range(st.n_leaves, leaves + 1,
                                leaves + 4); /* those that changed, and no others */
            if (!ids[(n - 1) * 3])
                ids[(n - 1) * 3] = insert(&w, 1000 + (uint64_t)(n - 1) * 30, 5);
            assert_true(asymreg__cache_refresh(w.cache) >= 0);
        }
        world_fini(&w);
    }
}

static void closed_and_reborn(void **state)
{
    struct world w;
    struct asymreg__cache_opts copts = {.incarnation = 43};
    struct asymreg__cache *c;

    world_init(&w, 128, 16, 1);
    copts.mapped = w.memory;
    copts.bytes = w.bytes;
    assert_int_equal(asymreg__cache_create(&copts, &c), ASYMREG_ESTALE);
    copts.incarnation = 0;
    copts.bytes--;
    assert_int_equal(asymreg__cache_create(&copts, &c), ASYMREG_ETABLE);
    copts.bytes++;
    assert_int_equal(asymreg__cache_create(&copts, &c), 0);
    asymreg__cache_destroy(c);
    insert(&w, 1, 1);
    assert_int_equal(asymreg__cache_refresh(w.cache), 1);
    asymreg__table_destroy(w.table);
    w.table = NULL;
    assert_int_equal(stale(w.cache), 1);
    assert_int_equal(asymreg__cache_refresh(w.cache), ASYMREG_EPEER);
    assert_int_equal(asymreg__cache_create(&copts, &c), ASYMREG_EPEER);
    world_fini(&w);
}

/* Changes at every point at which a reader can be interrupted. */
static asymreg_id live[256];
static uint64_t live_at[256];
static int change_now, n_changes;

static void change(struct world *w)
{
    for (int i = 0; i < change_now; i++) {
        uint32_t k = (uint32_t)(rnd() % 256);
        n_changes++;
        if (live[k]) {
            assert_int_equal(asymreg__table_remove(w->table, live[k]), 0);
            live[k] = 0;
        } else {
            /* Places of varying size in the same cell, so that slots change hands and ranges
             * overlap in time. */
            live_at[k] = 10000 + k * 100 + rnd() % 50;
            live[k] = insert(w, live_at[k], 1 + rnd() % 50);
        }
    }
}

static void changes_while_reading(void **state)
{
    struct world w;

    for (int round = 0; round < 5; round++) {
        memset(live, 0, sizeof(live));
        world_init(&w, 256, 16u << round % 3, 0);
        for (int i = 0; i < 60; i++) {
            change_now = (int)(rnd() % 60);
            change(&w);
            change_now = (int)(rnd() % (round % 2 ? 4 : 40));
            w.between = change;
            int rc = asymreg__cache_refresh(w.cache);
            assert_true(rc >= 0 || rc == ASYMREG_EBUSY);
            w.between = NULL;
            if (rnd() % 2) {
                assert_true(asymreg__cache_refresh(w.cache) >= 0);
                same(&w);
            }
        }
        world_fini(&w);
    }
    assert_true(n_changes > 2000);
}

/*
 * A leaf is copied before a region moves out of it, another after it came: the copies contradict
 * each other, one of them is forgotten, and the records that would put it right are overwritten.
 * Then that leaf has to be copied again, although it has not changed since.
 */
static struct {
    int step, first_read;
    asymreg_id x, a, y, c;
} move;

static void region_moves(struct world *w)
{
    if (move.step == 0 && w->reads == move.first_read + 1) { /* the slots */
        assert_int_equal(asymreg__table_remove(w->table, move.x), 0);
        move.step = 1;
    } else if (move.step == 1 && w->reads == move.first_read + 3) { /* the first leaf, again */
        assert_int_equal(asymreg__table_remove(w->table, move.a), 0);
        assert_int_equal(asymreg__table_remove(w->table, move.y), 0);
        assert_int_equal((uint32_t)insert(w, 150 * 100, 50), 4);
        assert_int_equal((uint32_t)(move.c = insert(w, 1000000, 50)), 150);
        for (int i = 0; i < 20; i++) {
            assert_int_equal(asymreg__table_remove(w->table, move.c), 0);
            assert_int_equal((uint32_t)(move.c = insert(w, 1000000, 50)), 150);
        }
        move.step = 2;
    }
}

static void forgotten_and_overrun(void **state)
{
    struct world w;
    asymreg_id ids[200];

    world_init(&w, 256, 16, 0);
    for (uint64_t i = 0; i < 200; i++)
        assert_int_equal((uint32_t)(ids[i] = insert(&w, i * 100, 10)), i);
    assert_int_equal(asymreg__cache_refresh(w.cache), 200);
    for (int i = 0; i < 10; i++) { /* more than the ring holds */
        assert_int_equal(asymreg__table_remove(w.table, ids[10]), 0);
        assert_int_equal((uint32_t)(ids[10] = insert(&w, 1000, 10)), 10);
    }
    assert_int_equal(asymreg__table_remove(w.table, ids[10]), 0);
    assert_int_equal(asymreg__table_remove(w.table, ids[160]), 0);
    memset(&move, 0, sizeof(move));
    move.first_read = w.reads + 2; /* after the log: the leaves' generations */
    move.x = ids[3];
    move.a = ids[150];
    move.y = ids[4];
    w.between = region_moves;
    assert_true(asymreg__cache_refresh(w.cache) >= 0);
    assert_int_equal(move.step, 2);
    w.between = NULL;
    same(&w);
    world_fini(&w);
}

/* When any read fails, the refresh returns the error, and the next one succeeds. */
static void every_read_failing(void **state)
{
    struct world w;

    for (int fail = 1; fail < 40; fail += 1 + (int)(rnd() % 4)) {
        world_init(&w, 1000, 16, 0);
        for (int i = 0; i < 700; i++)
            insert(&w, (uint64_t)i * 100 * (1 + i % 3 * 1000), 10);
        w.reads = 0;
        w.fail_at = fail;
        for (int i = 0; i < 10; i++) {
            int rc = asymreg__cache_refresh(w.cache);
            assert_true(rc >= 0 || rc == -EIO);
            insert(&w, 50 + (uint64_t)i * 100, 10);
            if (i % 3 == 2)
                for (int k = 0; k < 20; k++)
                    insert(&w, 1000000000 + (uint64_t)(i * 20 + k) * 100, 10);
        }
        w.fail_at = 0;
        assert_true(asymreg__cache_refresh(w.cache) >= 0);
        same(&w);
        world_fini(&w);
    }
}

/* A corrupt table: each word in turn has another value. No crash; at most another set of
 * regions. */
static void hostile_words(void **state)
{
    static const uint64_t lies[] = {
        0,          1,   2,  UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << 63, UINT64_C(1) << 32,
        0xffffffff, 128, 129};
    struct world w;

    for (size_t at = rnd() % 4; at < 256; at += 1 + rnd() % 6) {
        for (size_t k = rnd() % 10; k < sizeof(lies) / sizeof(*lies); k += 10) {
            world_init(&w, 256, 16, 0);
            for (uint64_t i = 0; i < 30; i++)
                insert(&w, 1000 + i * 100, 10);
            const struct asymreg__header *h = (const void *)w.memory;
            uint64_t offset = at < 24                  ? at * 8
                              : at < 24 + 96           ? h->ring_at + (at - 24) * 8
                              : at < 24 + 96 + 4       ? h->leaves_at + (at - 120) * 8
                              : at < 24 + 96 + 4 + 120 ? h->slots_at + (at - 124) * 8
                                                       : h->segments_at + (at - 244) * 8;
            if (rnd() % 2)
                assert_int_equal(asymreg__cache_refresh(w.cache), 30);
            memcpy(w.memory + offset, &lies[k], 8);
            asymreg__cache_refresh(w.cache);
            overrun(&w);
            asymreg__cache_refresh(w.cache);
            struct asymreg__segment_copy seg;
            asymreg__cache_segment(w.cache, w.segment, &seg);
            for (uint64_t i = 0; i < 40; i++) {
                const struct asymreg_region *r = asymreg__index_lookup(w.reader, 1000 + i * 100);
                assert_true(!r || (r->start <= 1000 + i * 100 && r->last >= 1000 + i * 100));
                assert_true(!r ||
                            (r->prot && !(r->prot & ~ASYMREG_ALL) && (uint32_t)r->value < 4096));
            }
            world_fini(&w);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rejects_bad_sizes),
        cmocka_unit_test(segments_and_their_rules),
        cmocka_unit_test(full_table),
        cmocka_unit_test(delta_and_leaf),
        cmocka_unit_test(closed_and_reborn),
        cmocka_unit_test(changes_while_reading),
        cmocka_unit_test(forgotten_and_overrun),
        cmocka_unit_test(every_read_failing),
        cmocka_unit_test(hostile_words),
    };

    if (argc > 1) /* a seed; 0: one of the time of day */
        rng = strtoull(argv[1], NULL, 0);
    if (!rng)
        rng = (uint64_t)time(NULL) << 20 | 1;
    fprintf(stderr, "seed %llu (an argument repeats it)\n", (unsigned long long)rng);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
