/* SPDX-License-Identifier: BSD-3-Clause */
/* The tree of nodes: neighbours, subtrees, ways, and the arity by default. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../libpmiwire/src/exchange/exchange_internal.h"

static struct pmiwire_exchange at(uint32_t n_nodes, uint32_t arity, uint32_t node)
{
    return (struct pmiwire_exchange){.n_nodes = n_nodes, .arity = arity, .me = node};
}

static void the_ends(void **state)
{
    struct pmiwire_exchange alone = at(1, 2, 0), last = at(INT32_MAX, 32, INT32_MAX - 1);
    uint32_t v;

    assert_false(pmiwire__tree_neighbour(&alone, 0, &v));
    assert_true(pmiwire__tree_neighbour(&last, 0, &v));
    assert_int_equal(v, (INT32_MAX - 2) / 32);
    assert_false(pmiwire__tree_neighbour(&last, 1, &v));
}

/* Neighbourhood is symmetric, and there are n - 1 links. */
static void links_go_both_ways(void **state)
{
    for (uint32_t n = 1; n <= 300; n++) {
        const uint32_t k = pmiwire_exchange_arity(n);
        uint32_t edges = 0, v, back, j;

        assert_in_range(k, 2, 4);
        for (uint32_t node = 0; node < n; node++) {
            struct pmiwire_exchange x = at(n, k, node);

            for (uint32_t i = 0; pmiwire__tree_neighbour(&x, i, &v); i++) {
                struct pmiwire_exchange y = at(n, k, v);

                assert_true(v < n && v != node);
                for (j = 0; pmiwire__tree_neighbour(&y, j, &back) && back != node; j++)
                    ;
                assert_int_equal(back, node);
                edges++;
            }
        }
        assert_int_equal(edges, 2 * (n - 1));
    }
}

/* Routing reaches every node hop by hop, and a node's subtree is the union of its children's. */
static void every_way(void **state)
{
    for (uint32_t k = 1; k <= 5; k++)
        for (uint32_t from = 0; from < 40; from++)
            for (uint32_t to = 0; to < 40; to++) {
                uint32_t node = from, n = 0;

                while (node != to) {
                    struct pmiwire_exchange x = at(40, k, node);
                    const uint32_t next = pmiwire__tree_hop(&x, to);

                    assert_true(next == pmiwire__tree_parent(&x, node) ||
                                (pmiwire__tree_parent(&x, next) == node &&
                                 pmiwire__tree_under(&x, to, next)));
                    node = next;
                    assert_true(n++ < 80);
                }
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ends),
        cmocka_unit_test(links_go_both_ways),
        cmocka_unit_test(every_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
