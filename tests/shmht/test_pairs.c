/* SPDX-License-Identifier: BSD-3-Clause */
/* One process: every call, every limit at, below and above, every policy, statistics, iteration. */
#define _GNU_SOURCE
#include <errno.h>
#include <unistd.h>

#include "cm.h"

static struct shmht_writer *make(uint64_t max_bytes, uint32_t duplicates, uint64_t expected)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts),
                                     .max_bytes = max_bytes,
                                     .duplicates = duplicates,
                                     .expected_entries = expected};
    struct shmht_writer *w = NULL;

    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    return w;
}

static struct shmht_reader *attach(struct shmht_writer *w)
{
    struct shmht_desc desc;
    struct shmht_reader *r = NULL;

    assert_true(shmht_writer_share(w, &desc) >= 0);
    assert_int_equal(shmht_reader_attach(&desc, shmht_writer_share(w, NULL), NULL, &r, NULL), 0);
    return r;
}

static void check_sums(const struct shmht_reader *r)
{
    struct shmht_stats s;

    assert_int_equal(shmht_reader_stats(r, &s), 0);
    assert_true(s.total_bytes == s.header_bytes + s.live_bytes + s.garbage_bytes + s.table_bytes +
                                     s.old_table_bytes + s.free_bytes);
    assert_true(s.total_bytes <= s.max_bytes && s.entries <= s.slots);
}

static void test_put_get(void **state)
{
    struct shmht_writer *w = make(1 << 20, SHMHT_DUP_REPLACE, 0);
    struct shmht_reader *r = attach(w);
    struct shmht_bytes value = {"old", 3};
    struct shmht_stats s;

    assert_int_equal(shmht_get(r, "absent", 6, &value), SHMHT_ENOENT);
    assert_true(!value.ptr && value.len == 0);
    assert_int_equal(shmht_put(w, "key", 3, "value", 5), SHMHT_PUT_NEW);
    assert_int_equal(shmht_get(r, "key", 3, &value), 0);
    assert_int_equal(value.len, 5);
    assert_memory_equal(value.ptr, "value", 5);
    assert_int_equal(shmht_get(r, "ke", 2, &value), SHMHT_ENOENT);
    assert_int_equal(shmht_get(r, "key\0", 4, &value), SHMHT_ENOENT);
    assert_int_equal(shmht_reader_stats(r, &s), 0);
    assert_true(s.generation == 1 && s.superseded == 0);
    check_sums(r);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

/* Every length of key around the hash's cases and the two forms of a record; any bytes. */
static void test_lengths(void **state)
{
    static const size_t keys[] = {1,  2,   3,   4,   7,   8,    9,    15,   16,    17,   31,
                                  32, 128, 129, 240, 241, 2046, 2047, 2048, 65535, 65536};
    static const size_t values[] = {0, 1, 2, 3, 1023, 1024, 1025, 262143, 262144, 300000};
    static unsigned char bytes[300000 + 16];
    struct shmht_writer *w = make(64 << 20, SHMHT_DUP_REPLACE, 0);
    struct shmht_reader *r = attach(w);
    struct shmht_bytes value;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)mix(i);
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
        for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
            assert_int_equal(shmht_put(w, bytes + 7 * k, keys[k], bytes + v, values[v]),
                             v == 0 ? SHMHT_PUT_NEW : SHMHT_PUT_REPLACED);
            for (size_t before = k < 2 ? 0 : k - 2; before <= k; before++) {
                size_t expect = before < k ? sizeof(values) / sizeof(values[0]) - 1 : v;
                struct shmht_bytes key = {bytes + 7 * before, keys[before]}, many;

                assert_int_equal(shmht_get(r, key.ptr, key.len, &value), 0);
                assert_int_equal(value.len, values[expect]);
                assert_non_null(value.ptr);
                assert_memory_equal(value.ptr, bytes + expect, values[expect]);
                assert_int_equal(shmht_get_many(r, &key, 1, &many), 1);
                assert_true(many.ptr == value.ptr && many.len == value.len);
            }
        }
    check_sums(r);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

static void test_limits(void **state)
{
    static unsigned char big[SHMHT_MAX_VALUE_BYTES + 1];
    struct shmht_writer *w = make(64 << 20, SHMHT_DUP_REPLACE, 0);
    struct shmht_reader *r = shmht_writer_view(w);
    struct shmht_bytes value;

    memset(big, 'x', sizeof(big));
    assert_int_equal(shmht_put(w, big, 0, "v", 1), SHMHT_EKEYLEN);
    assert_int_equal(shmht_put(w, big, SHMHT_MAX_KEY_BYTES + 1, "v", 1), SHMHT_EKEYLEN);
    assert_int_equal(shmht_put(w, big, SHMHT_MAX_KEY_BYTES, "v", 1), SHMHT_PUT_NEW);
    assert_int_equal(shmht_put(w, "k", 1, big, SHMHT_MAX_VALUE_BYTES + 1), SHMHT_EVALLEN);
    assert_int_equal(shmht_put(w, "k", 1, big, SHMHT_MAX_VALUE_BYTES), SHMHT_PUT_NEW);
    assert_int_equal(shmht_get(r, big, 0, &value), SHMHT_EKEYLEN);
    assert_int_equal(shmht_get(r, big, SHMHT_MAX_KEY_BYTES + 1, &value), SHMHT_EKEYLEN);
    assert_int_equal(shmht_get(r, big, SHMHT_MAX_KEY_BYTES, &value), 0);
    assert_int_equal(shmht_get(r, "k", 1, &value), 0);
    assert_int_equal(value.len, SHMHT_MAX_VALUE_BYTES);
    assert_memory_equal(value.ptr, big, SHMHT_MAX_VALUE_BYTES);
    check_sums(r);
    shmht_writer_destroy(w);
}

static void test_policies(void **state)
{
    struct shmht_stats s;
    struct shmht_bytes value;

    for (uint32_t policy = SHMHT_DUP_REPLACE; policy <= SHMHT_DUP_KEEP; policy++) {
        struct shmht_writer *w = make(1 << 20, policy, 0);
        struct shmht_reader *r = shmht_writer_view(w);
        static const int second[] = {SHMHT_PUT_REPLACED, SHMHT_EEXIST, SHMHT_PUT_KEPT};

        assert_int_equal(shmht_put(w, "k", 1, "1", 1), SHMHT_PUT_NEW);
        assert_int_equal(shmht_put(w, "k", 1, "22", 2), second[policy]);
        assert_int_equal(shmht_get(r, "k", 1, &value), 0);
        assert_int_equal(value.len, policy == SHMHT_DUP_REPLACE ? 2 : 1);
        shmht_reader_stats(r, &s);
        assert_true(s.entries == 1 && s.live_bytes == 8 &&
                    s.garbage_bytes == (policy == SHMHT_DUP_REPLACE ? 8 : 0));
        check_sums(r);
        shmht_writer_destroy(w);
    }
}

static void test_get_many(void **state)
{
    struct shmht_writer *w = make(1 << 22, SHMHT_DUP_REPLACE, 0);
    struct shmht_reader *r = attach(w);
    struct shmht_bytes keys[200], values[200];
    static char names[200][16];
    static char long_key[SHMHT_MAX_KEY_BYTES + 1];

    for (int i = 0; i < 200; i++) {
        key16(names[i], (uint64_t)i);
        keys[i] = (struct shmht_bytes){names[i], 16};
        if (i % 3 != 0)
            assert_int_equal(shmht_put(w, names[i], 16, names[i], (size_t)i % 17), 0);
    }
    for (size_t n = 0; n <= 200; n += n < 70 ? 1 : 43) {
        memset(values, 0xff, sizeof(values));
        assert_int_equal(shmht_get_many(r, keys, n, values), n - (n + 2) / 3);
        for (size_t i = 0; i < n; i++) {
            assert_true(i % 3 == 0 ? values[i].ptr == NULL && values[i].len == 0
                                   : values[i].ptr != NULL && values[i].len == i % 17);
            assert_true(i % 3 == 0 || memcmp(values[i].ptr, names[i], i % 17) == 0);
        }
        assert_true(n == 200 || values[n].len == SIZE_MAX); /* nothing behind */
    }
    keys[0] = (struct shmht_bytes){long_key, SHMHT_MAX_KEY_BYTES};
    assert_int_equal(shmht_get_many(r, keys, 1, values), 0);
    keys[0].len++;
    assert_int_equal(shmht_get_many(r, keys, 1, values), SHMHT_EKEYLEN);
    keys[40].len = 0;
    keys[50] = (struct shmht_bytes){long_key, sizeof(long_key)};
    assert_int_equal(shmht_get_many(r, keys, 200, values), SHMHT_EKEYLEN);
    assert_true(values[40].ptr == NULL && values[50].ptr == NULL && values[41].ptr != NULL &&
                values[199].ptr != NULL);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

/* Pointers stay valid and unchanged through growth and updates; a table grows from the least to
 * many lines. */
static void test_growth(void **state)
{
    enum { N = 20000 };
    struct shmht_writer *w = make(16 << 20, SHMHT_DUP_REPLACE, 1);
    struct shmht_reader *r = attach(w);
    static struct shmht_bytes first[N];
    struct shmht_bytes value;
    unsigned char v[32];
    struct shmht_stats s;
    char key[16];

    for (uint64_t i = 0; i < N; i++) {
        key16(key, i);
        fill32(v, i, 1);
        assert_int_equal(shmht_put(w, key, 16, v, 32), SHMHT_PUT_NEW);
        assert_int_equal(shmht_get(r, key, 16, &first[i]), 0);
    }
    for (uint64_t i = 0; i < N; i++) {
        key16(key, i);
        fill32(v, i, 2);
        assert_int_equal(shmht_put(w, key, 16, v, 32), SHMHT_PUT_REPLACED);
    }
    for (uint64_t i = 0; i < N; i++) {
        key16(key, i);
        assert_int_equal(version32(&first[i], i), 1);
        assert_int_equal(shmht_get(r, key, 16, &value), 0);
        assert_int_equal(version32(&value, i), 2);
    }
    shmht_reader_stats(r, &s);
    assert_true(s.entries == N && s.table_grows >= 8 && s.live_bytes == N * 52 &&
                s.garbage_bytes == N * 52);
    assert_true(
        s.old_table_bytes <=
        s.table_bytes +
            64 * s.table_grows); /* doubling: all old ones are no more than the present one */
    check_sums(r);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

static void test_iteration(void **state)
{
    struct shmht_writer *w = make(1 << 20, SHMHT_DUP_REPLACE, 4);
    struct shmht_reader *r = attach(w);
    struct shmht_iter it = {0};
    struct shmht_bytes key, value;
    char name[16];

    assert_int_equal(shmht_reader_next(r, &it, &key, &value), 0);
    for (uint64_t i = 0; i < 500; i++) {
        key16(name, i);
        assert_int_equal(shmht_put(w, name, 16, &i, sizeof(i)), 0);
    }
    for (uint64_t i = 0; i < 500; i++) { /* continues from the former end */
        key16(name, i);
        assert_int_equal(shmht_reader_next(r, &it, &key, &value), 1);
        assert_memory_equal(key.ptr, name, 16);
        assert_memory_equal(value.ptr, &i, 8);
    }
    assert_int_equal(shmht_reader_next(r, &it, &key, &value), 0);
    key16(name, 7);
    assert_int_equal(shmht_put(w, name, 16, "again", 5), SHMHT_PUT_REPLACED);
    assert_int_equal(shmht_reader_next(r, &it, &key, &value), 1);
    assert_memory_equal(value.ptr, "again", 5);
    assert_int_equal(shmht_reader_next(r, &it, &key, &value), 0);
    it.pos = 0;
    for (uint64_t i = 0; i < 500; i++) { /* the seventh has moved to the end */
        uint64_t expect = i < 7 ? i : i < 499 ? i + 1 : 7;

        key16(name, expect);
        assert_int_equal(shmht_reader_next(r, &it, &key, &value), 1);
        assert_memory_equal(key.ptr, name, 16);
    }
    assert_int_equal(shmht_reader_next(r, &it, &key, &value), 0);
    it.pos++; /* no place of a record */
    assert_int_equal(shmht_reader_next(r, &it, &key, &value), SHMHT_ECORRUPT);
    it.pos = 2;
    assert_int_equal(shmht_reader_next(r, &it, &key, &value), SHMHT_ECORRUPT);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

static uint64_t length_hash(const void *key, size_t len, uint64_t seed)
{
    return len * 7 + seed;
}

static uint64_t other_hash(const void *key, size_t len, uint64_t seed)
{
    return length_hash(key, len, seed) + 1;
}

static void test_hashes(void **state)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = 64 << 20};
    struct shmht_reader_opts how = {.size = sizeof(how)};
    struct shmht_bytes value, alike = {"12345678abcd12345678", 20};
    unsigned char long_key[20] = {0};
    struct shmht_writer *w;
    struct shmht_reader *r;
    uint64_t i;
    int rc = 0;

    opts.hash_id = SHMHT_HASH_FNV1A;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    r = attach(w);
    for (i = 0; i < 1000; i++) {
        memcpy(long_key, &i, sizeof(i));
        assert_int_equal(shmht_put(w, long_key, 1 + i % 20, "v", 1) < 0, 0);
    }
    for (i = 0; i < 1000; i++) {
        memcpy(long_key, &i, sizeof(i));
        assert_int_equal(shmht_get(r, long_key, 1 + i % 20, &value), 0);
    }
    shmht_reader_detach(r);
    shmht_writer_destroy(w);

    opts.hash_id = 77; /* of no object */
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), SHMHT_EHASH);
    opts.hash_id = SHMHT_HASH_CALLER + 3; /* the caller's, without the function */
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), SHMHT_EHASH);
    opts.hash = length_hash;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), NULL, &r, NULL),
                     SHMHT_EHASH);
    how.hash = other_hash;
    how.hash_id = SHMHT_HASH_CALLER + 3;
    assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), &how, &r, NULL),
                     SHMHT_EHASH);
    how.hash = length_hash;
    how.hash_id = SHMHT_HASH_CALLER + 4;
    assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), &how, &r, NULL),
                     SHMHT_EHASH);
    how.hash_id = SHMHT_HASH_CALLER + 3;
    assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), &how, &r, NULL), 0);
    for (i = 0; i < 100000 && rc == 0; i++) /* all of one length: one hash */
        rc = shmht_put(w, &i, sizeof(i), &i, sizeof(i));
    assert_int_equal(rc, SHMHT_EPROBE);
    assert_true(i - 1 == SHMHT_MAX_PROBE * 8);
    i = 8191;
    assert_int_equal(shmht_get(r, &i, sizeof(i), &value), 0);
    i = 99999999;
    assert_int_equal(shmht_get(r, &i, sizeof(i), &value), SHMHT_ENOENT);
    assert_int_equal(shmht_put(w, &i, sizeof(i), "v", 1), SHMHT_EPROBE);
    assert_int_equal(shmht_delete(w, &(uint64_t){77}, sizeof(i)), 0); /* its slot suffices */
    assert_int_equal(shmht_put(w, &i, sizeof(i), "v", 1), SHMHT_PUT_NEW);
    assert_int_equal(shmht_get(r, &i, sizeof(i), &value), 0);
    assert_int_equal(shmht_put(w, "other", 5, "v", 1), 0);
    /* one hash, and the same bytes at both ends */
    assert_int_equal(shmht_put(w, "12345678efgh12345678", 20, "v", 1), SHMHT_PUT_NEW);
    assert_int_equal(shmht_get(r, alike.ptr, alike.len, &value), SHMHT_ENOENT);
    assert_int_equal(shmht_get_many(r, &alike, 1, &value), 0);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

/* A Get that finds nothing leaves no old value behind, on each way through it. */
static void test_absent_value(void **state)
{
    /* 9 to 16 bytes are the usual case */
    static const size_t lengths[] = {0, 1, 8, 9, 16, 17, 300, SHMHT_MAX_KEY_BYTES + 1};
    static unsigned char key[SHMHT_MAX_KEY_BYTES + 1];
    struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = 1 << 20};
    struct shmht_bytes value;
    struct shmht_writer *w;

    opts.max_load_percent = 90; /* so that lines are full, and some searches read several */
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    for (uint64_t i = 0; i < 3000; i++) {
        assert_int_equal(shmht_put(w, &(uint64_t[2]){i, 1}, 16, "v", 1), SHMHT_PUT_NEW);
        for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
            memcpy(key, &i, sizeof(i));
            value = (struct shmht_bytes){"old", 3};
            assert_true(shmht_get(shmht_writer_view(w), key, lengths[k], &value) < 0);
            assert_true(!value.ptr && value.len == 0);
            value = (struct shmht_bytes){"old", 3};
            assert_true(shmht_writer_get(w, key, lengths[k], &value) < 0);
            assert_true(!value.ptr && value.len == 0);
        }
    }
    shmht_writer_destroy(w);
}

/* Hash bits of zero look like empty slots to the vector code. */
static uint64_t zero_hash(const void *key, size_t len, uint64_t seed)
{
    (void)key, (void)len;
    return len == 8 || len == 17 ? seed : 0; /* attach's check needs a seed's effect */
}

static void test_hash_zero(void **state)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts),
                                     .max_bytes = 1 << 20,
                                     .hash = zero_hash,
                                     .hash_id = SHMHT_HASH_CALLER};
    struct shmht_bytes value, key = {"c", 1};
    struct shmht_writer *w;

    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_int_equal(shmht_get(shmht_writer_view(w), "a", 1, &value), SHMHT_ENOENT);
    assert_int_equal(shmht_put(w, "a", 1, "1", 1), 0);
    assert_int_equal(shmht_put(w, "b", 1, "2", 1), 0);
    assert_int_equal(shmht_get(shmht_writer_view(w), "b", 1, &value), 0);
    assert_int_equal(shmht_get(shmht_writer_view(w), "c", 1, &value), SHMHT_ENOENT);
    assert_int_equal(shmht_get_many(shmht_writer_view(w), &key, 1, &value), 0);
    shmht_writer_destroy(w);
}

static void test_options(void **state)
{
    static const struct shmht_allocator empty;
    struct shmht_error err = {0, NULL, ""};
    struct shmht_writer_opts opts = {.size = sizeof(opts)}, bad;
    struct shmht_writer *w = NULL;

    assert_int_equal(shmht_writer_create(NULL, &w, NULL), -EINVAL);
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), -EINVAL); /* no cap */
    opts.max_bytes = SHMHT_MIN_REGION_BYTES - 1;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), -EINVAL);
    opts.max_bytes = SHMHT_MAX_REGION_BYTES + 1;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), -EINVAL);
    opts.max_bytes = SHMHT_MIN_REGION_BYTES;
    assert_int_equal(shmht_writer_create(&opts, NULL, NULL), -EINVAL);
#define REFUSED(member, value)                                                                     \
    bad = opts;                                                                                    \
    bad.member = value;                                                                            \
    assert_true(shmht_writer_create(&bad, &w, &err) < 0);                                          \
    assert_true(err.code < 0 && err.what != NULL && strchr(err.text, ':') != NULL)
    REFUSED(size, sizeof(opts) - 1);
    REFUSED(flags, 0x8000);
    REFUSED(flags, SHMHT_POPULATE);
    REFUSED(duplicates, 3);
    REFUSED(max_load_percent, 9);
    REFUSED(max_load_percent, 91);
    REFUSED(expected_entries, 1000); /* do not fit */
    REFUSED(expected_entries, UINT64_MAX);
    REFUSED(name, "/dev/shm/x"); /* without SHMHT_NAMED */
    REFUSED(hash, length_hash);  /* without an id */
    REFUSED(allocator, &empty);  /* no functions */
    assert_null(w);
    REFUSED(max_bytes, 0);
    assert_string_equal(err.text,
                        "max_bytes is 0, and must be from 8192 to 274877906944: Invalid argument");
    REFUSED(duplicates, 3);
    assert_string_equal(err.what, "duplicates");
    assert_string_equal(err.text, "duplicates is 3: Invalid argument");
    bad.duplicates = 0; /* a name in a folder that is not there */
    bad.flags = SHMHT_NAMED;
    bad.name = "/dev/shm/none/x";
    assert_int_equal(shmht_writer_create(&bad, &w, &err), -ENOENT);
    assert_string_equal(err.text, "cannot create /dev/shm/none/x: No such file or directory");
    err.code = 5;
    assert_int_equal(shmht_writer_create(&opts, &w, &err), 0);
    assert_int_equal(err.code, 5); /* written on failure alone */
    shmht_writer_destroy(w);
    for (opts.max_load_percent = 10; opts.max_load_percent <= 90; opts.max_load_percent += 80) {
        opts.expected_entries = 1;
        assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
        shmht_reader_detach(attach(w));
        shmht_writer_destroy(w);
    }
    shmht_writer_destroy(NULL);
    shmht_reader_detach(NULL);
}

/* The largest region reserves address space, not memory, and its records are aligned more coarsely.
 * */
static void test_granules(void **state)
{
    static const uint64_t caps[] = {UINT64_C(1) << 34, (UINT64_C(1) << 34) + 4096,
                                    UINT64_C(1) << 36, SHMHT_MAX_REGION_BYTES};
    static const uint64_t bytes[] = {4 + 3 + 5, 16, 16, 64};
    struct shmht_bytes value;
    struct shmht_stats s;

    for (int i = 0; i < 4; i++) {
        struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = caps[i]};
        struct shmht_writer *w;
        struct shmht_reader *r;
        int rc = shmht_writer_create(&opts, &w, NULL);

        if (rc == -ENOMEM) { /* address space may be limited */
            printf("no %llu bytes of address space\n", (unsigned long long)caps[i]);
            continue;
        }
        assert_int_equal(rc, 0);
        r = attach(w);
        assert_int_equal(shmht_put(w, "key", 3, "value", 5), 0);
        assert_int_equal(shmht_get(r, "key", 3, &value), 0);
        shmht_reader_stats(r, &s);
        assert_int_equal(s.live_bytes, bytes[i]);
        assert_true(s.total_bytes < 1 << 20);
        shmht_reader_detach(r);
        shmht_writer_destroy(w);
    }
}

struct counting {
    int left; /* allocations that succeed */
    int live;
};

static void *count_realloc(void *ctx, void *ptr, size_t bytes)
{
    struct counting *c = ctx;

    if (c->left == 0)
        return NULL;
    c->left--;
    c->live++;
    return realloc(ptr, bytes);
}

static void count_free(void *ctx, void *ptr)
{
    struct counting *c = ctx;

    c->live--;
    free(ptr);
}

/* Every allocation failing in turn: an error, and nothing left open or allocated. */
static void test_allocators(void **state)
{
    struct counting c = {0, 0};
    const struct shmht_allocator allocator = {count_realloc, count_free, &c};
    struct shmht_writer_opts opts = {
        .size = sizeof(opts), .max_bytes = 1 << 20, .allocator = &allocator};
    struct shmht_reader_opts how = {.size = sizeof(how), .allocator = &allocator};
    struct shmht_writer *w, *w2;
    struct shmht_reader *r;
    int fds = n_fds(), rc = -ENOMEM;

    for (int allowed = 0; rc != 0; allowed++) {
        assert_true(allowed < 10);
        c.left = allowed;
        w = w2 = NULL;
        r = NULL;
        rc = shmht_writer_create(&opts, &w, NULL);
        if (rc == 0)
            rc = shmht_put(w, "k", 1, "v", 1);
        if (rc == 0)
            rc = shmht_reader_attach(NULL, shmht_writer_share(w, NULL), &how, &r, NULL);
        if (rc == 0)
            rc = shmht_writer_compact(w, NULL, &w2, NULL);
        assert_true(rc == 0 || rc == -ENOMEM);
        shmht_reader_detach(r);
        shmht_writer_destroy(w2);
        shmht_writer_destroy(w);
        assert_int_equal(c.live, 0);
        assert_int_equal(n_fds(), fds);
    }
}

/* The whole table in the caller's memory, which is not zero. */
static void test_region(void **state)
{
    static _Alignas(64) unsigned char region[16384];
    struct shmht_writer_opts opts = {
        .size = sizeof(opts), .max_bytes = sizeof(region), .region = region};
    struct shmht_reader_opts how = {.size = sizeof(how), .region_bytes = sizeof(region)};
    struct shmht_bytes value;
    struct shmht_writer *w;
    struct shmht_reader *r;
    struct shmht_desc desc;
    uint64_t i, n;
    int rc;

    memset(region, 0xa5, sizeof(region));
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_int_equal(shmht_writer_share(w, NULL), SHMHT_EFIXED);
    assert_int_equal(shmht_writer_share(w, &desc), SHMHT_EFIXED);
    how.region = region + 8;
    assert_int_equal(shmht_reader_attach(NULL, -1, &how, &r, NULL), -EINVAL);
    how.region = region;
    assert_int_equal(shmht_reader_attach(NULL, 0, &how, &r, NULL), -EINVAL);
    how.region_bytes = 4095;
    assert_int_equal(shmht_reader_attach(NULL, -1, &how, &r, NULL), SHMHT_ETRUNC);
    how.region_bytes = sizeof(region);
    assert_int_equal(shmht_reader_attach(NULL, -1, &how, &r, NULL), 0);
    for (n = 0; (rc = shmht_put(w, &n, sizeof(n), &n, sizeof(n))) == 0; n++)
        ;
    assert_int_equal(rc, SHMHT_EFULL);
    assert_true(
        n ==
        10 * 4 * 8 * 90 /
            100); /* tables of 10, 20 and 40 lines; no room for 80, so this one was filled up */
    for (i = 0; i < n; i++) {
        assert_int_equal(shmht_get(r, &i, sizeof(i), &value), 0);
        assert_memory_equal(value.ptr, &i, sizeof(i));
    }
    check_sums(r);
    shmht_reader_detach(r);
    opts.generation = 2;
    assert_int_equal(shmht_writer_compact(w, &opts, &w, NULL), -EINVAL); /* onto itself */
    opts.generation = 0;
    assert_int_equal(shmht_get(shmht_writer_view(w), &n, sizeof(n), &value), SHMHT_ENOENT);
    shmht_writer_destroy(w);
    opts.region = region + 8;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), -EINVAL);
    assert_int_equal(shmht_reader_attach(NULL, -1, &how, &r, NULL), 0); /* the bytes stay */
    for (i = 0; i < n; i++)
        assert_int_equal(shmht_get(r, &i, sizeof(i), &value), 0);
    shmht_reader_detach(r);
}

/* A writer never writes behind its max_bytes, and a reader that is given more memory reads its
 * table. */
static void test_region_in_more(void **state)
{
    static _Alignas(64) unsigned char region[16384];
    struct shmht_writer_opts opts = {
        .size = sizeof(opts), .max_bytes = SHMHT_MIN_REGION_BYTES, .region = region};
    struct shmht_reader_opts how = {
        .size = sizeof(how), .region = region, .region_bytes = sizeof(region)};
    struct shmht_bytes value;
    struct shmht_reader *r;
    struct shmht_writer *w;
    struct shmht_stats s;
    uint64_t n = 0;

    memset(region, 0xa5, sizeof(region));
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_int_equal(shmht_reader_attach(NULL, -1, &how, &r, NULL), 0);
    while (shmht_put(w, &n, sizeof(n), "1", 1) >= 0)
        n++;
    assert_in_range(n, 100, 1000);
    for (size_t i = SHMHT_MIN_REGION_BYTES; i < sizeof(region); i++)
        assert_int_equal(region[i], 0xa5);
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(shmht_get(r, &i, sizeof(i), &value), 0);
    shmht_reader_stats(r, &s);
    assert_int_equal(s.total_bytes, SHMHT_MIN_REGION_BYTES);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

static uint64_t seed_of(struct shmht_writer *w)
{
    uint64_t seed;

    assert_int_equal(pread(shmht_writer_share(w, NULL), &seed, sizeof(seed), 40), sizeof(seed));
    return seed;
}

/* Chosen keys meet in the old table alone: a compacted one has a seed that nobody knows yet. */
static void test_compact_seed(void **state)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = 1 << 20, .seed = 5};
    struct shmht_writer *w, *w2, *w3;
    struct shmht_bytes value;

    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_int_equal(shmht_put(w, "mpi-addr-7", 10, "v", 1), SHMHT_PUT_NEW);
    assert_int_equal(shmht_writer_compact(w, NULL, &w2, NULL), 0);
    assert_true(seed_of(w) == 5 && seed_of(w2) != 5);
    assert_int_equal(shmht_get(shmht_writer_view(w2), "mpi-addr-7", 10, &value), 0);
    opts.seed = 6;
    assert_int_equal(shmht_writer_compact(w2, &opts, &w3, NULL), 0);
    assert_true(seed_of(w3) == 6);
    assert_int_equal(shmht_get(shmht_writer_view(w3), "mpi-addr-7", 10, &value), 0);
    shmht_writer_destroy(w3);
    shmht_writer_destroy(w2);
    shmht_writer_destroy(w);
}

/* A compacted table may not overlap the old one's memory at any offset. */
static void test_compact_overlap(void **state)
{
    static _Alignas(64) unsigned char memory[5 * 16384];
    const size_t at[] = {0, 64, 16384 - 64, 2 * 16384 - 64, 2 * 16384};
    struct shmht_writer_opts opts = {.size = sizeof(opts),
                                     .max_bytes = 16384,
                                     .region = memory + 16384},
                             next;
    struct shmht_bytes value;
    struct shmht_writer *w, *w2;

    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_int_equal(shmht_put(w, "k", 1, "v", 1), SHMHT_PUT_NEW);
    for (int i = 0; i < 5; i++) {
        next = (struct shmht_writer_opts){
            .size = sizeof(next), .max_bytes = 16384, .region = memory + at[i]};
        assert_int_equal(shmht_writer_compact(w, &next, &w2, NULL), i == 0 || i == 4 ? 0 : -EINVAL);
        if (i == 0 || i == 4)
            shmht_writer_destroy(w2);
        assert_int_equal(shmht_get(shmht_writer_view(w), "k", 1, &value), 0);
    }
    shmht_writer_destroy(w);
}

static void test_strerror(void **state)
{
    for (int code = SHMHT_ENOENT; code >= SHMHT_EFIXED; code--) {
        assert_string_not_equal(shmht_strerror(code), "unknown error code");
        for (int other = SHMHT_ENOENT; other > code; other--)
            assert_string_not_equal(shmht_strerror(code), shmht_strerror(other));
    }
    assert_string_equal(shmht_strerror(SHMHT_EFIXED - 1), "unknown error code");
    assert_string_equal(shmht_strerror(0), "success");
    assert_string_equal(shmht_strerror(-EIO), "Input/output error");
    assert_string_equal(shmht_strerror(-ENOMEM), "Cannot allocate memory");
    assert_string_equal(shmht_strerror(-4095), "unknown error code");
    assert_string_equal(shmht_strerror(-5000), "unknown error code");
    assert_string_equal(shmht_strerror(7), "unknown error code");
    assert_string_equal(shmht_version(), SHMHT_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_get),         cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_limits),          cmocka_unit_test(test_policies),
        cmocka_unit_test(test_get_many),        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_iteration),       cmocka_unit_test(test_hashes),
        cmocka_unit_test(test_absent_value),    cmocka_unit_test(test_hash_zero),
        cmocka_unit_test(test_options),         cmocka_unit_test(test_granules),
        cmocka_unit_test(test_allocators),      cmocka_unit_test(test_region),
        cmocka_unit_test(test_region_in_more),  cmocka_unit_test(test_compact_seed),
        cmocka_unit_test(test_compact_overlap), cmocka_unit_test(test_strerror),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
