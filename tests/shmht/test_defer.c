/* SPDX-License-Identifier: BSD-3-Clause */
/* Growth that waits for shmht_writer_publish(): the pairs that writer and readers find until then,
 * and its memory. */
#include <errno.h>
#include <unistd.h>

#include "cm.h"

enum { N = 20000, MAX_BYTES = 64 << 20 };

static struct shmht_writer *create(uint64_t max_bytes, uint64_t expected,
                                   const struct shmht_allocator *a)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts),
                                     .max_bytes = max_bytes,
                                     .expected_entries = expected,
                                     .flags = SHMHT_DEFER,
                                     .allocator = a};
    struct shmht_writer *w;

    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    return w;
}

static struct shmht_reader *attach(const struct shmht_writer *w)
{
    struct shmht_reader *r;

    assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), NULL, &r, NULL), 0);
    return r;
}

static int put(struct shmht_writer *w, uint64_t i, uint64_t version)
{
    unsigned char value[32];
    char key[16];

    key16(key, i);
    fill32(value, i, version);
    return shmht_put(w, key, sizeof(key), value, sizeof(value));
}

/* The version that a reader finds, the writer where r is NULL; -1: none. */
static int64_t version_at(const struct shmht_writer *w, const struct shmht_reader *r, uint64_t i)
{
    struct shmht_bytes value;
    char key[16];
    int rc;

    key16(key, i);
    rc = r ? shmht_get(r, key, sizeof(key), &value) : shmht_writer_get(w, key, sizeof(key), &value);
    if (rc == SHMHT_ENOENT)
        return -1;
    assert_int_equal(rc, 0);
    return version32(&value, i);
}

static struct shmht_stats stats_of(struct shmht_writer *w)
{
    struct shmht_stats s;

    shmht_reader_stats(shmht_writer_view(w), &s);
    return s;
}

/* Until the table is full, puts are visible at once. */
static void test_small(void **state)
{
    struct shmht_writer *w = create(MAX_BYTES, 56, NULL);
    struct shmht_reader *r = attach(w);

    for (uint64_t i = 0; i < 56; i++) {
        assert_int_equal(put(w, i, 1), SHMHT_PUT_NEW);
        assert_int_equal(version_at(w, r, i), 1);
    }
    assert_int_equal(shmht_writer_has_unpublished(w), 0);
    assert_int_equal(shmht_writer_publish(w), 0);
    assert_int_equal(stats_of(w).table_grows, 0);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

/* Then the writer finds all pairs, and readers find earlier pairs with their latest values. */
static void test_who_finds_what(void **state)
{
    struct shmht_writer *w = create(MAX_BYTES, 56, NULL);
    struct shmht_reader *r = attach(w);
    uint64_t first;

    for (first = 0; !shmht_writer_has_unpublished(w); first++)
        assert_int_equal(put(w, first, 1), SHMHT_PUT_NEW);
    first--;
    for (uint64_t i = first + 1; i < N; i++)
        assert_int_equal(put(w, i, 1), SHMHT_PUT_NEW);
    for (uint64_t i = 0; i < N; i += 3)
        assert_int_equal(put(w, i, 2), SHMHT_PUT_REPLACED);
    for (uint64_t i = 0; i < N; i++) {
        assert_int_equal(version_at(w, NULL, i), i % 3 ? 1 : 2);
        assert_int_equal(version_at(w, r, i), i >= first ? -1 : i % 3 ? 1 : 2);
    }
    assert_int_equal(version_at(w, NULL, N), -1);
    assert_int_equal(shmht_writer_publish(w), 0);
    assert_int_equal(shmht_writer_has_unpublished(w), 0);
    for (uint64_t i = 0; i < N; i++) {
        assert_int_equal(version_at(w, NULL, i), i % 3 ? 1 : 2);
        assert_int_equal(version_at(w, r, i), i % 3 ? 1 : 2);
    }
    assert_int_equal(version_at(w, r, N), -1);
    assert_int_equal(stats_of(w).entries, N);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

/* One table of the right size, and no large one before it; room for a few more; then twice that. */
static void test_sizes(void **state)
{
    struct shmht_writer *w = create(MAX_BYTES, 56, NULL);
    struct shmht_stats s;

    for (uint64_t i = 0; i < N; i++)
        put(w, i, 1);
    assert_int_equal(shmht_writer_publish(w), 0);
    s = stats_of(w);
    assert_int_equal(s.table_grows, 1);
    assert_in_range(s.slots, N * 10 / 7, N * 10 / 7 + 16);
    assert_in_range(s.old_table_bytes, 0, 2048);
    for (uint64_t i = N; i < N + N / 8; i++)
        put(w, i, 1);
    assert_int_equal(shmht_writer_has_unpublished(w), 0);
    for (uint64_t i = N + N / 8; i < N + N / 4; i++)
        put(w, i, 1);
    assert_int_equal(shmht_writer_has_unpublished(w), 1);
    assert_int_equal(shmht_writer_publish(w), 0);
    assert_int_equal(stats_of(w).slots, 2 * s.slots);
    assert_int_equal(stats_of(w).table_grows, 2);
    shmht_writer_destroy(w);
}

/* Putting the same value again takes no room; another value of the same length does. */
static void test_same_value(void **state)
{
    struct shmht_writer *w = create(MAX_BYTES, 56, NULL);
    uint64_t bytes;

    for (uint64_t i = 0; i < 1000; i++)
        put(w, i, 1);
    for (int round = 0; round < 2; round++) {
        bytes = stats_of(w).live_bytes;
        for (uint64_t i = 0; i < 1000; i++)
            assert_int_equal(put(w, i, 1), SHMHT_PUT_REPLACED);
        assert_int_equal(stats_of(w).garbage_bytes, 0);
        assert_int_equal(stats_of(w).live_bytes, bytes);
        assert_int_equal(shmht_writer_publish(w), 0);
    }
    assert_int_equal(put(w, 7, 2), SHMHT_PUT_REPLACED);
    assert_int_equal(stats_of(w).garbage_bytes, bytes / 1000);
    assert_int_equal(version_at(w, NULL, 7), 2);
    shmht_writer_destroy(w);
}

/* At the cap a put is refused while the table that publishing makes still has room. */
static void test_full(void **state)
{
    for (uint64_t cap = 64 << 10; cap <= 1 << 20; cap *= 2) {
        struct shmht_writer *w = create(cap, 8, NULL);
        struct shmht_reader *r = attach(w);
        uint64_t n = 0;

        while (put(w, n, 1) == SHMHT_PUT_NEW)
            n++;
        assert_int_equal(put(w, n, 1), SHMHT_EFULL);
        assert_in_range(n, (cap - 8192) / 80, cap / 52);
        assert_int_equal(shmht_writer_publish(w), 0);
        for (uint64_t i = 0; i < n; i++)
            assert_int_equal(version_at(w, r, i), 1);
        assert_int_equal(version_at(w, r, n), -1);
        shmht_reader_detach(r);
        shmht_writer_destroy(w);
    }
}

/* A merge of pairs that are already present needs no room. */
static void test_full_merge(void **state)
{
    static unsigned char buf[1 << 20];
    struct shmht_writer *w = create(64 << 10, 8, NULL);
    unsigned char value[32];
    struct block b;
    uint64_t n = 0;
    char key[16];

    while (put(w, n, 1) == SHMHT_PUT_NEW)
        n++;
    for (int how = 0; how < 3; how++) { /* the same; one other value; one more key */
        block_begin(&b, buf, sizeof(buf));
        for (uint64_t i = 0; i < n + (how == 2); i++) {
            key16(key, i);
            fill32(value, i, i == 5 && how == 1 ? 2 : 1);
            block_add(&b, key, sizeof(key), value, sizeof(value));
        }
        assert_int_equal(shmht_writer_merge(w, buf, block_end(&b), NULL),
                         how == 0 ? 0 : SHMHT_EFULL);
    }
    assert_int_equal(version_at(w, NULL, 5), 1);
    assert_int_equal(version_at(w, NULL, n), -1);
    assert_int_equal(stats_of(w).garbage_bytes, 0);
    shmht_writer_destroy(w);
}

/* The same block merged again needs no room, whatever part of the log the first merge has left. */
static void test_merge_again(void **state)
{
    static unsigned char buf[1 << 20];
    static const unsigned char value[100];

    for (uint64_t n = 150; n <= 350; n += 10) {
        struct shmht_writer *w = create(64 << 10, 8, NULL);
        struct shmht_merged merged;
        struct block b;

        assert_int_equal(shmht_writer_reserve(w, 800), 0);
        block_begin(&b, buf, sizeof(buf));
        for (uint64_t i = 0; i < n; i++)
            block_add(&b, &i, sizeof(i), value, sizeof(value));
        for (int round = 0; round < 2; round++)
            assert_int_equal(shmht_writer_merge(w, buf, block_end(&b), &merged), 0);
        assert_int_equal(merged.n_replaced, n);
        shmht_writer_destroy(w);
    }
}

/* A merge whose records fit, while the table of all pairs does not, changes nothing. */
static void test_merge_all_or_nothing(void **state)
{
    static unsigned char buf[1 << 20];
    unsigned char value[32];
    int n_full = 0;
    char key[16];

    for (uint64_t n = 700; n < 1175; n += 25) {
        struct shmht_writer *w = create(64 << 10, 8, NULL);
        struct block b;
        int rc;

        block_begin(&b, buf, sizeof(buf));
        for (uint64_t i = 0; i < n; i++) {
            key16(key, i);
            fill32(value, i, 1);
            block_add(&b, key, sizeof(key), value, sizeof(value));
        }
        rc = shmht_writer_merge(w, buf, block_end(&b), NULL);
        assert_true(rc == 0 || rc == SHMHT_EFULL);
        n_full += rc != 0;
        assert_int_equal(stats_of(w).entries, rc == 0 ? n : 0);
        assert_int_equal(shmht_writer_publish(w), 0);
        shmht_writer_destroy(w);
    }
    assert_in_range(n_full, 2, 18); /* both occur */
}

/* Merges wait too; a compaction publishes. */
static void test_merge(void **state)
{
    static unsigned char buf[1 << 20];
    struct shmht_writer *w = create(MAX_BYTES, 56, NULL), *next;
    struct shmht_merged merged;
    unsigned char value[32];
    struct block b;
    char key[16];

    for (uint64_t i = 0; i < 3000; i++)
        put(w, i, 1);
    block_begin(&b, buf, sizeof(buf));
    for (uint64_t i = 1000; i < 9000; i++) {
        key16(key, i);
        fill32(value, i, i < 2000 ? 1 : 2);
        block_add(&b, key, sizeof(key), value, sizeof(value));
    }
    assert_int_equal(shmht_writer_merge(w, buf, block_end(&b), &merged), 0);
    assert_int_equal(merged.n_new, 6000);
    assert_int_equal(merged.n_replaced, 2000);
    assert_int_equal(stats_of(w).garbage_bytes, 1000 * 52);
    assert_int_equal(shmht_writer_has_unpublished(w), 1);
    assert_int_equal(shmht_writer_compact(w, NULL, &next, NULL), 0);
    assert_int_equal(shmht_writer_has_unpublished(w), 0);
    for (uint64_t i = 0; i < 9000; i++)
        assert_int_equal(version_at(next, shmht_writer_view(next), i), i < 2000 ? 1 : 2);
    assert_int_equal(stats_of(next).entries, 9000);
    shmht_writer_destroy(w);
    shmht_writer_destroy(next);
}

/* A writer that leaves its name behind leaves all entries in the object. */
static void test_kept_name(void **state)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts),
                                     .max_bytes = MAX_BYTES,
                                     .expected_entries = 8,
                                     .flags = SHMHT_DEFER | SHMHT_NAMED | SHMHT_KEEP_NAME};
    struct shmht_desc desc;
    struct shmht_writer *w;
    struct shmht_reader *r;

    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(put(w, i, 1), SHMHT_PUT_NEW);
    assert_int_equal(shmht_writer_has_unpublished(w), 1);
    assert_true(shmht_writer_share(w, &desc) >= 0);
    shmht_writer_destroy(w);
    assert_int_equal(shmht_reader_attach(&desc, -1, NULL, &r, NULL), 0);
    assert_int_equal(unlink(desc.name), 0);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(version_at(NULL, r, i), 1);
    shmht_reader_detach(r);
}

/* ---- every allocation fails in turn, and all memory is freed ---- */

static struct {
    uint64_t n, fails_at, last_bytes;
    int64_t blocks;
} heap;

static void *heap_realloc(void *ctx, void *p, size_t n)
{
    if (heap.n++ == heap.fails_at)
        return NULL;
    heap.blocks += p == NULL;
    heap.last_bytes = n;
    return realloc(p, n);
}

static void heap_free(void *ctx, void *p)
{
    heap.blocks -= p != NULL;
    free(p);
}

static void test_memory(void **state)
{
    const struct shmht_allocator a = {heap_realloc, heap_free, NULL};
    uint64_t fails_at = 1;

    do {
        struct shmht_writer *w;
        uint64_t n_failed = 0;

        memset(&heap, 0, sizeof(heap));
        heap.fails_at = fails_at;
        w = create(MAX_BYTES, 56, &a);
        for (uint64_t i = 0; i < 2000; i++) {
            int rc = put(w, i, 1);

            if (rc == -ENOMEM) {
                n_failed++;
                assert_int_equal(version_at(w, NULL, i), -1);
                rc = put(w, i, 1);
            }
            assert_int_equal(rc, SHMHT_PUT_NEW);
        }
        assert_int_equal(n_failed, fails_at < heap.n);
        assert_int_equal(shmht_writer_publish(w), 0);
        assert_int_equal(heap.blocks, 1); /* the handle */
        for (uint64_t i = 0; i < 2000; i++)
            assert_int_equal(version_at(w, shmht_writer_view(w), i), 1);
        shmht_writer_destroy(w);
        assert_int_equal(heap.blocks, 0);
    } while (fails_at++ < heap.n);
}

/* A private table takes at most 12 bytes an entry from the moment it grows. */
static void test_private_bytes(void **state)
{
    const struct shmht_allocator a = {heap_realloc, heap_free, NULL};
    struct shmht_writer *w;
    uint64_t n;

    memset(&heap, 0, sizeof(heap));
    heap.fails_at = UINT64_MAX;
    w = create(MAX_BYTES, 56, &a);
    for (uint64_t i = 0; i < N; i++) {
        n = heap.n;
        assert_int_equal(put(w, i, 1), SHMHT_PUT_NEW);
        if (i > 1000 && heap.n > n)
            assert_in_range(heap.last_bytes, 9 * i, 12 * i);
    }
    shmht_writer_destroy(w);
}

/* Room for this many in advance: one private table, or one that readers see, and no further one. */
static void test_reserve(void **state)
{
    const struct shmht_allocator a = {heap_realloc, heap_free, NULL};
    struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = MAX_BYTES};
    struct shmht_writer *w;
    uint64_t n;

    memset(&heap, 0, sizeof(heap));
    heap.fails_at = UINT64_MAX;
    w = create(MAX_BYTES, 56, &a);
    n = heap.n;
    assert_int_equal(shmht_writer_reserve(w, 56), 0);
    assert_int_equal(shmht_writer_has_unpublished(w), 0);
    assert_int_equal(shmht_writer_reserve(w, N), 0);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(put(w, i, 1), SHMHT_PUT_NEW);
    assert_int_equal(heap.n, n + 1);
    assert_int_equal(shmht_writer_reserve(w, UINT64_MAX), SHMHT_EFULL);
    heap.fails_at = heap.n;
    assert_int_equal(shmht_writer_reserve(w, 2 * N), -ENOMEM);
    assert_int_equal(version_at(w, NULL, N - 1), 1);
    shmht_writer_destroy(w);
    assert_int_equal(heap.blocks, 0);

    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_int_equal(shmht_writer_reserve(w, N), 0);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(put(w, i, 1), SHMHT_PUT_NEW);
    assert_int_equal(stats_of(w).table_grows, 1);
    assert_int_equal(version_at(w, shmht_writer_view(w), N - 1), 1);
    assert_int_equal(shmht_writer_reserve(w, (uint64_t)MAX_BYTES), SHMHT_EFULL);
    shmht_writer_destroy(w);
}

/* A full log has no room to publish a private table: none is made. */
static void test_reserve_full(void **state)
{
    static const unsigned char value[1200];
    struct shmht_writer *w = create(64 << 10, 56, NULL), *next;
    uint64_t n = 0;

    while (shmht_put(w, &n, sizeof(n), value, sizeof(value)) == SHMHT_PUT_NEW)
        n++;
    assert_int_equal(shmht_writer_reserve(w, 1000), SHMHT_EFULL);
    assert_int_equal(shmht_writer_has_unpublished(w), 0);
    assert_int_equal(shmht_writer_compact(w, NULL, &next, NULL), 0);
    assert_int_equal(stats_of(next).entries, n);
    shmht_writer_destroy(w);
    shmht_writer_destroy(next);
}

/* More entries than can be published; their table has 64 bytes more than 4 GiB. */
static void test_reserve_too_much(void **state)
{
    struct shmht_writer *w = create(MAX_BYTES, 56, NULL);

    assert_int_equal(shmht_writer_reserve(w, 483183821), SHMHT_EFULL);
    assert_int_equal(put(w, 0, 1), SHMHT_PUT_NEW);
    shmht_writer_destroy(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),         cmocka_unit_test(test_who_finds_what),
        cmocka_unit_test(test_sizes),         cmocka_unit_test(test_same_value),
        cmocka_unit_test(test_full),          cmocka_unit_test(test_merge),
        cmocka_unit_test(test_memory),        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_reserve_full),  cmocka_unit_test(test_reserve_too_much),
        cmocka_unit_test(test_full_merge),    cmocka_unit_test(test_kept_name),
        cmocka_unit_test(test_merge_again),   cmocka_unit_test(test_merge_all_or_nothing),
        cmocka_unit_test(test_private_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
