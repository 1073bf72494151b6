/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of a process's own pairs: order, replacement, and chains that stay short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/libpmi2/pairs.h"

static void put(struct pairs *pairs, const char *key, const char *value)
{
    struct pair *pair;

    assert_int_equal(pairs_prepare(pairs, key, value, &pair), 0);
    pairs_add(pairs, pair);
}

static void order_and_replacement(void **state)
{
    static const char *const keys[] = {"b", "a", "c"}, *const values[] = {"2", "4", "3"};
    struct pairs pairs = {0};
    struct pair *p;
    int i = 0;

    assert_null(pairs_find(&pairs, "a"));
    put(&pairs, "b", "2");
    put(&pairs, "a", "1");
    put(&pairs, "c", "3");
    put(&pairs, "a", "4");
    assert_int_equal(pairs.n, 3);
    for (p = pairs.first; p; p = p->next, i++) {
        assert_string_equal(p->key, keys[i]);
        assert_string_equal(p->value, values[i]);
        assert_ptr_equal(pairs_find(&pairs, keys[i]), p);
    }
    assert_int_equal(i, 3);
    assert_int_equal(pairs_prepare(&pairs, "d", "5", &p), 0);
    pairs_drop(p); /* as before the call */
    pairs_drop(NULL);
    assert_null(pairs_find(&pairs, "d"));
    pairs_free(&pairs);
    assert_null(pairs.first);
    assert_null(pairs_find(&pairs, "a"));
}

/* The cost of a put does not grow with the pairs before it: no search is longer than this. */
#define LONGEST_CHAIN 16

static void short_chains(void **state)
{
    struct pairs pairs = {0};
    char key[64];

    for (int i = 0; i < 50000; i++) {
        snprintf(key, sizeof(key), "card-%d", i);
        put(&pairs, key, "v");
    }
    assert_int_equal(pairs.n, 50000);
    for (size_t b = 0; b < pairs.n_buckets; b++) {
        int n = 0;

        for (struct pair *p = pairs.buckets[b]; p; p = p->chain)
            n++;
        assert_true(n <= LONGEST_CHAIN);
    }
    for (int i = 0; i < 50000; i += 77) {
        snprintf(key, sizeof(key), "card-%d", i);
        assert_non_null(pairs_find(&pairs, key));
    }
    pairs_free(&pairs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_and_replacement),
        cmocka_unit_test(short_chains),
    };

    return cmocka_run_group_tests_name("pairs", tests, NULL, NULL);
}
