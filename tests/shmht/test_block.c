/* SPDX-License-Identifier: BSD-3-Clause */
#include "cm.h"

static struct shmht_writer *make(uint64_t max_bytes, uint32_t duplicates)
{
    struct shmht_writer_opts opts = {
        .size = sizeof(opts), .max_bytes = max_bytes, .duplicates = duplicates};
    struct shmht_writer *w = NULL;

    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    return w;
}

/* Exports a table from `it` on. Returns as shmht_reader_export(). */
static ssize_t export_from(struct shmht_writer *w, struct shmht_iter *it, void *buf, size_t cap)
{
    return shmht_reader_export(shmht_writer_view(w), it, buf, cap);
}

/* The bytes are those of LAYOUT.md, and a block ends before the first pair that does not fit. */
static void test_export(void **state)
{
    static unsigned char buf[70000], expected[70000], long_key[3000];
    const size_t first = SHMHT_BLOCK_HEADER_BYTES + 8 + 12;
    struct shmht_writer *w = make(1 << 20, SHMHT_DUP_REPLACE), *copy;
    struct shmht_iter it = {0}, before;
    struct shmht_bytes value;
    struct block b;

    assert_int_equal(export_from(w, &it, buf, SHMHT_BLOCK_HEADER_BYTES - 1), SHMHT_ENOBUF);
    assert_int_equal(export_from(w, &it, buf, SHMHT_BLOCK_HEADER_BYTES), 0);
    assert_int_equal(shmht_put(w, "k", 1, "va", 2), SHMHT_PUT_NEW);
    assert_int_equal(shmht_put(w, "key", 3, "value", 5), SHMHT_PUT_NEW);
    before = it;
    assert_int_equal(export_from(w, &it, buf, SHMHT_BLOCK_HEADER_BYTES + 7), SHMHT_ENOBUF);
    assert_int_equal(it.pos, before.pos);
    assert_int_equal(export_from(w, &it, buf, first - 1), SHMHT_BLOCK_HEADER_BYTES + 8);
    it = before;
    memset(buf, 0xa5, sizeof(buf));
    assert_int_equal(export_from(w, &it, buf, first), first);
    block_begin(&b, expected, sizeof(expected));
    block_add(&b, "k", 1, "va", 2);
    block_add(&b, "key", 3, "value", 5);
    assert_int_equal(block_end(&b), first);
    assert_memory_equal(buf, expected, first);
    assert_int_equal(export_from(w, &it, buf, sizeof(buf)), 0);

    assert_int_equal(shmht_put(w, long_key, sizeof(long_key), "long", 4), SHMHT_PUT_NEW);
    block_begin(&b, expected, sizeof(expected));
    block_add(&b, long_key, sizeof(long_key), "long", 4);
    assert_int_equal(export_from(w, &it, buf, sizeof(buf)), block_end(&b));
    assert_memory_equal(buf, expected, b.used);
    copy = make(1 << 20, SHMHT_DUP_REPLACE);
    assert_int_equal(shmht_writer_merge(copy, buf, b.used, NULL), 0);
    assert_int_equal(shmht_get(shmht_writer_view(copy), long_key, sizeof(long_key), &value), 0);
    assert_true(value.len == 4 && memcmp(value.ptr, "long", 4) == 0);
    shmht_writer_destroy(copy);

    block_begin(&b, buf, sizeof(buf)); /* no pair at all */
    assert_int_equal(shmht_writer_merge(w, buf, block_end(&b), NULL), 0);
    shmht_writer_destroy(w);
}

/* Every byte of a block altered, and every length cut: an error with the table unchanged, or a
 * merge whose pairs are all there. */
static void test_hostile(void **state)
{
    unsigned char good[512], bad[512];
    struct shmht_bytes key, value, found;
    struct shmht_merged merged;
    struct shmht_stats s;
    struct block b;
    size_t n;

    block_begin(&b, good, sizeof(good));
    for (int i = 0; i < 9; i++)
        block_add(&b, &i, sizeof(i), "some value", (size_t)i);
    n = block_end(&b);
    for (size_t at = 0; at < n; at++)
        for (int bit = 0; bit < 8; bit++) {
            struct shmht_writer *w = make(1 << 20, SHMHT_DUP_REPLACE);
            struct shmht_iter it = {0};
            int rc;

            memcpy(bad, good, n);
            bad[at] ^= (unsigned char)(1 << bit);
            rc = shmht_writer_merge(w, bad, n, &merged);
            shmht_reader_stats(shmht_writer_view(w), &s);
            if (rc < 0) {
                assert_int_equal(s.entries, 0);
            } else {
                assert_int_equal(merged.n_new + merged.n_replaced, 9);
                assert_int_equal(s.entries, merged.n_new);
                while (shmht_reader_next(shmht_writer_view(w), &it, &key, &value) == 1)
                    assert_int_equal(shmht_get(shmht_writer_view(w), key.ptr, key.len, &found), 0);
                assert_int_equal(shmht_writer_merge(w, bad, n, &merged), 0);
                assert_int_equal(merged.n_replaced, 9);
            }
            assert_true(at >= SHMHT_BLOCK_HEADER_BYTES || rc < 0);
            shmht_writer_destroy(w);
        }
    for (size_t len = 0; len < n; len++) {
        struct shmht_writer *w = make(1 << 20, SHMHT_DUP_REPLACE);

        assert_int_equal(shmht_writer_merge(w, good, len, NULL), SHMHT_ETRUNC);
        shmht_writer_destroy(w);
    }
    struct shmht_writer *w = make(1 << 20, SHMHT_DUP_REPLACE);
    memcpy(bad, good, n);
    for (int k = 0; k < 4; k++) /* the other byte order */
        bad[8 + k] = good[11 - k];
    assert_int_equal(shmht_writer_merge(w, bad, n, NULL), SHMHT_EORDER);
    memcpy(bad, good, n);
    bad[12] ^= 2;
    assert_int_equal(shmht_writer_merge(w, bad, n, NULL), SHMHT_EVERSION);
    bad[0] = 'x';
    assert_int_equal(shmht_writer_merge(w, bad, n, NULL), SHMHT_EMAGIC);
    assert_int_equal(shmht_writer_merge(w, good, n + 4, NULL),
                     SHMHT_ECORRUPT); /* something behind it */
    assert_int_equal(shmht_writer_merge(w, good, n, NULL), 0);
    shmht_writer_destroy(w);
}

/* A Fence: two servers export what is new, in pieces, and merge each other's. */
static void test_fence(void **state)
{
    enum { PIECE = 2048, PIECES = 16 };
    static unsigned char buf[2][PIECES][PIECE];
    ssize_t bytes[2][PIECES];
    struct shmht_writer *w[2] = {make(8 << 20, SHMHT_DUP_REPLACE),
                                 make(8 << 20, SHMHT_DUP_REPLACE)};
    struct shmht_iter it[2] = {{0}, {0}};
    struct shmht_bytes value;
    char key[16];

    for (int fence = 0; fence < 3; fence++) {
        struct shmht_merged merged;
        uint64_t n = 0;

        for (int s = 0; s < 2; s++) {
            int piece = -1;

            for (uint64_t i = 0; i < 300; i++) {
                key16(key, (uint64_t)s * 10000 + (uint64_t)fence * 300 + i);
                assert_int_equal(shmht_put(w[s], key, 16, key, 16), 0);
            }
            do {
                piece++;
                assert_true(piece < PIECES);
                bytes[s][piece] =
                    shmht_reader_export(shmht_writer_view(w[s]), &it[s], buf[s][piece], PIECE);
                assert_true(bytes[s][piece] >= 0);
            } while (bytes[s][piece] > 0);
            assert_true(piece > 4);
        }
        for (int s = 0; s < 2; s++)
            for (int piece = 0; bytes[s][piece] > 0; piece++) {
                assert_int_equal(
                    shmht_writer_merge(w[!s], buf[s][piece], (size_t)bytes[s][piece], &merged), 0);
                assert_true(merged.n_replaced == 0 && merged.n_kept == 0);
                n += merged.n_new;
            }
        assert_int_equal(n, 600);
        for (int s = 0; s < 2; s++) { /* the next Fence begins behind what came in by this one */
            struct shmht_bytes k;

            while (shmht_reader_next(shmht_writer_view(w[s]), &it[s], &k, &value) == 1)
                ;
            for (uint64_t i = 0; i < (uint64_t)(fence + 1) * 600; i++) {
                key16(key, i % 2 * 10000 + i / 2);
                assert_int_equal(shmht_get(shmht_writer_view(w[s]), key, 16, &value), 0);
                assert_memory_equal(value.ptr, key, 16);
            }
        }
    }
    assert_int_equal(
        shmht_reader_export(shmht_writer_view(w[0]), &(struct shmht_iter){0}, buf[0][0], 40),
        SHMHT_ENOBUF);
    shmht_writer_destroy(w[0]);
    shmht_writer_destroy(w[1]);
}

/* A block that does not fit: none of its pairs is in the table. Merging the same block again needs
 * no larger table. */
static void test_all_or_nothing(void **state)
{
    static unsigned char buf[1 << 20], text[64];
    struct shmht_writer *w = make(256 << 10, SHMHT_DUP_KEEP);
    struct shmht_merged merged;
    struct shmht_stats s, s2;
    struct block b;
    size_t n;

    block_begin(&b, buf, sizeof(buf));
    for (int i = 0; i < 4000; i++)
        block_add(&b, &i, sizeof(i), text, 60);
    n = block_end(&b);
    assert_int_equal(shmht_writer_merge(w, buf, n, &merged), SHMHT_EFULL);
    shmht_reader_stats(shmht_writer_view(w), &s);
    assert_int_equal(s.entries, 0);
    block_begin(&b, buf, sizeof(buf));
    for (int i = 0; i < 2500; i++)
        block_add(&b, &i, sizeof(i), text, 40);
    n = block_end(&b);
    assert_int_equal(shmht_writer_merge(w, buf, n, &merged), 0);
    assert_true(merged.n_new == 2500);
    shmht_reader_stats(shmht_writer_view(w), &s);
    for (int again = 0; again < 5; again++) {
        assert_int_equal(shmht_writer_merge(w, buf, n, &merged), 0);
        assert_true(merged.n_kept == 2500 && merged.n_new == 0);
    }
    shmht_reader_stats(shmht_writer_view(w), &s2);
    assert_true(s.slots == s2.slots && s.total_bytes == s2.total_bytes && s2.entries == 2500);
    assert_int_equal(s.table_grows, 1); /* for all of them at once */
    shmht_writer_destroy(w);

    w = make(256 << 10, SHMHT_DUP_REPLACE); /* which has free bytes, and 56 entries fit its table */
    block_begin(&b, buf, sizeof(buf));
    for (int i = 0; i < 50; i++)
        block_add(&b, &i, sizeof(i), text, 4);
    for (int again = 0; again < 2; again++)
        assert_int_equal(shmht_writer_merge(w, buf, block_end(&b), NULL), 0);
    shmht_reader_stats(shmht_writer_view(w), &s);
    assert_true(s.entries == 50 && s.table_grows == 0);
    shmht_writer_destroy(w);
}

/* A table that has no room for a larger one is filled up to 90 %, by a merge as by puts. */
static void test_filled_up(void **state)
{
    static unsigned char buf[8192], text[32];

    for (int n = 71; n <= 73; n++) { /* 10 lines of 8 slots */
        struct shmht_writer *w = make(SHMHT_MIN_REGION_BYTES, SHMHT_DUP_REPLACE);
        struct shmht_writer *w2 = make(SHMHT_MIN_REGION_BYTES, SHMHT_DUP_REPLACE);
        struct block b;
        int put = 0;

        block_begin(&b, buf, sizeof(buf));
        for (int i = 0; i < n; i++) {
            block_add(&b, &i, sizeof(i), text,
                      28); /* 36 bytes; beside a table of 20 lines, room for one more */
            put += shmht_put(w2, &i, sizeof(i), text, 28) == 0;
        }
        assert_int_equal(put, n < 72 ? n : 72);
        assert_int_equal(shmht_writer_merge(w, buf, block_end(&b), NULL),
                         n <= 72 ? 0 : SHMHT_EFULL);
        shmht_writer_destroy(w);
        shmht_writer_destroy(w2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export),    cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_fence),     cmocka_unit_test(test_all_or_nothing),
        cmocka_unit_test(test_filled_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
