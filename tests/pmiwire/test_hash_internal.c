/* SPDX-License-Identifier: BSD-3-Clause */
/* The hash of keys is SipHash-1-3: a weaker one would let a client choose keys that collide. Keys
 * that collide nevertheless change the store's hash key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "../../libpmiwire/src/server/server_internal.h"
#include "../heap.h"

/* The key and message bytes 0, 1, 2… of the paper's test. The values come from a program of its own
 * that gives the paper's values for SipHash-2-4. */
static void known_values(void **state)
{
    static const struct {
        size_t len;
        uint64_t hash;
    } cases[] = {
        {0, 0xabac0158050fc4dcu},  {1, 0xc9f49bf37d57ca93u},  {7, 0xd3927d989bb11140u},
        {8, 0x369095118d299a8eu},  {15, 0xd320d86d2a519956u}, {16, 0xcc4fdd1a7d908b66u},
        {63, 0x9d199062b7bbb3a8u},
    };
    const uint64_t key[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
    const uint32_t one = 1;
    char bytes[64];

    if (*(const char *)&one == 0)
        skip(); /* the library loads words in this machine's byte order */
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)i;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_true(pmiwire__hash(key, (struct pmiwire_str){bytes, cases[i].len}) == cases[i].hash);
}

/* The slots of a store of 161 to 320 keys. */
enum { N_SLOTS = 512, N_KEYS = 300 };

static struct pmiwire_str numbered(char text[16], uint32_t i)
{
    return (struct pmiwire_str){text, (size_t)snprintf(text, 16, "key%u", i)};
}

/* All keys begin at slot 0 under the first hash key. The store finds each under the next, too. */
static void colliding_keys(void **state)
{
    struct heap heap = {0};
    const struct pmiwire_allocator alloc = {heap_realloc, heap_free, &heap};
    uint32_t numbers[N_KEYS], n = 0;
    struct pmiwire__kvs k;
    uint64_t first[2];
    char text[16];

    pmiwire__kvs_init(&k, &alloc);
    memcpy(first, k.key, sizeof(first));
    for (uint32_t i = 0; n < N_KEYS; i++)
        if (pmiwire__hash(first, numbered(text, i)) % N_SLOTS == 0)
            numbers[n++] = i;
    for (uint32_t i = 0; i < N_KEYS; i++) {
        assert_int_equal(pmiwire__kvs_put(&k, numbered(text, numbers[i]), pmiwire_strz("v"), 0), 0);
        for (uint32_t j = 0; j <= i; j += k.rekeyed_at ? 1 : N_KEYS)
            assert_non_null(pmiwire__kvs_find(&k, numbered(text, numbers[j])));
    }
    assert_int_equal(k.slots.n, N_SLOTS);
    assert_int_equal(k.rekeyed_at, N_SLOTS);
    assert_memory_not_equal(k.key, first, sizeof(first));
    pmiwire__kvs_fini(&k);
    assert_int_equal(heap.n_live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(colliding_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
