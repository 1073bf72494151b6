/* SPDX-License-Identifier: BSD-3-Clause */
#include "../../libshmht/src/hash.h"
#include "cm.h"

#if defined(__has_include)
#if __has_include(<xxhash.h>)
#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wundef"
#include <xxhash.h>
#pragma GCC diagnostic pop
#define HAVE_XXHASH 1
#endif
#endif

static void fill(unsigned char *buf, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf[i] = (unsigned char)(mix(i) >> 11);
}

/* Values that Debian's xxhash.h 0.8.1 gives for buf of fill(), seeds 0 and 1: they hold where that
 * header is not installed. */
static void test_xxh3_known(void **state)
{
    static const struct {
        size_t len;
        uint64_t hash[2];
    } known[] = {
#include "xxh3_known.inc"
    };
    static unsigned char buf[65536];
    uint64_t hash;

    fill(buf, sizeof(buf));
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        for (int s = 0; s < 2; s++) {
            assert_int_equal(shmht__hash(SHMHT_HASH_XXH3, buf, known[i].len, (uint64_t)s, &hash),
                             0);
            assert_true(hash == known[i].hash[s]);
        }
}

static void test_xxh3_reference(void **state)
{
#ifdef HAVE_XXHASH
    static const uint64_t seeds[] = {0, 1, 0x9E3779B185EBCA8DULL, UINT64_MAX};
    static unsigned char buf[70000];
    uint64_t hash;

    fill(buf, sizeof(buf));
    for (size_t len = 0; len <= 65536; len += len < 2100 ? 1 : 1021)
        for (size_t s = 0; s < sizeof(seeds) / sizeof(seeds[0]); s++) {
            assert_int_equal(shmht__hash(SHMHT_HASH_XXH3, buf + len % 9, len, seeds[s], &hash), 0);
            assert_true(hash == XXH3_64bits_withSeed(buf + len % 9, len, seeds[s]));
        }
#else
    printf("xxhash.h is not installed: known values only\n");
#endif
}

static void test_fnv1a(void **state)
{
    uint64_t hash;

    assert_int_equal(shmht__hash(SHMHT_HASH_FNV1A, "", 0, 0, &hash), 0);
    assert_true(hash == 0xcbf29ce484222325ULL);
    assert_int_equal(shmht__hash(SHMHT_HASH_FNV1A, "a", 1, 0, &hash), 0);
    assert_true(hash == 0xaf63dc4c8601ec8cULL);
    assert_int_equal(shmht__hash(SHMHT_HASH_FNV1A, "foobar", 6, 0, &hash), 0);
    assert_true(hash == 0x85944171f73967e8ULL);
}

/* The hash_check of layout 1: the hash of a text, XORed with the rotated hash of its first 8 bytes.
 * With another formula this build and others would refuse each other's tables. */
static void test_check(void **state)
{
    static const char text[] = "libshmht layout 1";
    uint64_t all, first, check;

    for (uint64_t seed = 0; seed < 64; seed++) { /* the upper bit of `first` is set for some */
        assert_int_equal(shmht__hash(SHMHT_HASH_XXH3, text, 17, seed, &all), 0);
        assert_int_equal(shmht__hash(SHMHT_HASH_XXH3, text, 8, seed, &first), 0);
        assert_int_equal(shmht__hash_check(SHMHT_HASH_XXH3, NULL, seed, &check), 0);
        assert_true((check ^ all) == shmht__rotl(first, 1));
    }
}

static void test_unknown(void **state)
{
    uint64_t hash = 5;

    assert_int_equal(shmht__hash(0, "a", 1, 0, &hash), SHMHT_EHASH);
    assert_int_equal(shmht__hash(3, "a", 1, 0, &hash), SHMHT_EHASH);
    assert_int_equal(shmht__hash(SHMHT_HASH_CALLER, "a", 1, 0, &hash), SHMHT_EHASH);
    assert_true(hash == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_xxh3_known), cmocka_unit_test(test_xxh3_reference),
        cmocka_unit_test(test_fnv1a),      cmocka_unit_test(test_check),
        cmocka_unit_test(test_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
