/* SPDX-License-Identifier: BSD-3-Clause */
/* Placement of ranks on imagined machines, larger than those that run tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/pmirun/place/place.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

/* ---- machines ---- */

static struct place_pu pus[4096];

/* A machine from the number of each object in the enclosing one; 0 NUMA nodes: hwloc reports
 * none. */
static struct place_topology machine(uint32_t sockets, uint32_t numas, uint32_t cores,
                                     uint32_t threads)
{
    const uint32_t n_numas = numas ? numas : 1, per_numa = cores * threads;
    const uint32_t n = sockets * n_numas * per_numa;

    assert_true(n <= N(pus));
    for (uint32_t i = 0; i < n; i++) {
        pus[i] = (struct place_pu){.os = i, .usable = 1};
        for (int k = 0; k < PLACE_LEVELS; k++)
            pus[i].of[k] = PLACE_NONE;
        pus[i].of[PLACE_NODE] = 0;
        pus[i].of[PLACE_SOCKET] = i / (n_numas * per_numa);
        if (numas)
            pus[i].of[PLACE_NUMA] = i / per_numa;
        pus[i].of[PLACE_CORE] = i / threads;
        pus[i].of[PLACE_HWTHREAD] = i;
    }
    return (struct place_topology){.n_pus = n, .pus = pus};
}

static void policy_clear(struct place_policy *p)
{
    free(p->list);
    *p = (struct place_policy){0};
}

static struct place_policy policy(const char *map, const char *bind)
{
    struct place_policy p = {0};

    if (map)
        assert_null(place_parse_map(&p, map));
    if (bind)
        assert_null(place_parse_bind(&p, bind));
    assert_null(place_settle(&p));
    return p;
}

/* The picture of each rank, a blank between two. To be freed. */
static char *pictures(const struct place_topology *t, const char *map, const char *bind, uint32_t n)
{
    struct place_policy p = policy(map, bind);
    struct place_plan plan;
    char *all = calloc(1, 16384);

    assert_int_equal(place_ranks(t, &p, n, &plan), PLACE_OK);
    for (uint32_t i = 0; i < n; i++) {
        struct place_set set = {0};
        char *drawn;

        place_group_set(t, &plan.groups[plan.group_of[i]], &set);
        drawn = place_draw(t, &set);
        strcat(strcat(all, i ? " " : ""), strstr(drawn, ": ") + 2);
        free(drawn);
    }
    place_plan_free(&plan);
    policy_clear(&p);
    return all;
}

static void expect(const struct place_topology *t, const char *map, const char *bind, uint32_t n,
                   const char *wanted)
{
    char *all = pictures(t, map, bind, n);

    if (strcmp(all, wanted) != 0)
        fail_msg("--map-by %s --bind-to %s: %s, not %s", map ? map : "", bind ? bind : "", all,
                 wanted);
    free(all);
}

static void expect_result(const struct place_topology *t, const char *map, const char *bind,
                          uint32_t n, enum place_result wanted, uint32_t room)
{
    struct place_policy p = policy(map, bind);
    struct place_plan plan;

    assert_int_equal(place_ranks(t, &p, n, &plan), wanted);
    assert_int_equal(plan.room, room);
    place_plan_free(&plan);
    policy_clear(&p);
}

/* ---- decisions ---- */

/* As mpiexec.hydra 4.0.2 and mpirun 4.1.4 decide, except where a line's comment names a
 * difference. */
static void as_others(void **state)
{
    static const struct {
        const char *map, *bind;
        uint32_t n;
        const char *wanted;
    } cases[] = {
        {"socket", "core", 3, "[BB/..][../..] [../..][BB/..] [../BB][../..]"},
        {"socket", "hwthread", 3, "[B./..][../..] [../..][B./..] [.B/..][../..]"},
        {"socket", NULL, 3, "[BB/BB][../..] [../..][BB/BB] [BB/BB][../..]"}, /* hydra: not bound */
        {"core", "hwthread", 5,
         "[B./..][../..] [../B.][../..] [../..][B./..] [../..][../B.] [.B/..][../..]"},
        {"core", "socket", 3, "[BB/BB][../..] [BB/BB][../..] [../..][BB/BB]"},
        {"hwthread", "core", 3, "[BB/..][../..] [BB/..][../..] [../BB][../..]"},
        {"slot", "core", 3, "[BB/..][../..] [../BB][../..] [../..][BB/..]"},
        {"node", "socket", 3, "[BB/BB][../..] [../..][BB/BB] [BB/BB][../..]"},
        {NULL, "core", 3, "[BB/..][../..] [../BB][../..] [../..][BB/..]"}, /* mpirun: by socket */
        {NULL, "hwthread", 3, "[B./..][../..] [.B/..][../..] [../B.][../..]"},
        {NULL, "core:2", 2, "[BB/BB][../..] [../..][BB/BB]"},      /* hydra's words */
        {"socket:PE=2", NULL, 2, "[BB/BB][../..] [../..][BB/BB]"}, /* mpirun's */
        {"slot:PE=2", "core", 2, "[BB/BB][../..] [../..][BB/BB]"},
        /* neither's */
        {"socket:block", "core", 3, "[BB/..][../..] [../BB][../..] [../..][BB/..]"},
        {"socket:block", "hwthread", 3, "[B./..][../..] [.B/..][../..] [../..][B./..]"},
        {"core:block", "hwthread", 5,
         "[B./..][../..] [.B/..][../..] [../B.][../..] [../..][B./..] [../..][../B.]"},
    };
    struct place_topology t = machine(2, 1, 2, 2);

    for (size_t i = 0; i < N(cases); i++)
        expect(&t, cases[i].map, cases[i].bind, cases[i].n, cases[i].wanted);
}

static void numa_in_sockets(void **state)
{
    struct place_topology t = machine(2, 2, 2, 1);

    expect(&t, "socket", "numa", 3, "[B/B/./.][./././.] [./././.][B/B/./.] [././B/B][./././.]");
    expect(&t, "numa", "core", 5,
           "[B/././.][./././.] [././B/.][./././.] [./././.][B/././.] [./././.][././B/.] "
           "[./B/./.][./././.]");
    expect(&t, "numa", "socket", 3, "[B/B/B/B][./././.] [B/B/B/B][./././.] [./././.][B/B/B/B]");
}

/* Forbidden processors are left out, and so is an object that has no other. */
static void allowed(void **state)
{
    struct place_topology t = machine(2, 1, 2, 2);

    for (uint32_t i = 0; i < 4; i++)
        t.pus[i].usable = i == 3;
    expect(&t, "socket", "core", 3, "[~~/~B][../..] [~~/~.][BB/..] [~~/~.][../BB]");
    expect(&t, NULL, "socket", 2, "[~~/~B][../..] [~~/~.][BB/BB]");
    expect_result(&t, NULL, "core", 4, PLACE_FULL, 3);
    expect_result(&t, NULL, "hwthread", 6, PLACE_FULL, 5);
    expect_result(&t, "socket:PE=2", "core", 1, PLACE_OK, 1);
    t.pus[3].usable = 0;
    expect(&t, "core", "hwthread", 2, "[~~/~~][B./..] [~~/~~][../B.]");
}

static void too_many(void **state)
{
    struct place_topology t = machine(2, 0, 2, 2);

    expect_result(&t, NULL, "core", 4, PLACE_OK, 4);
    expect_result(&t, NULL, "core", 5, PLACE_FULL, 4);
    expect_result(&t, NULL, "hwthread", 9, PLACE_FULL, 8);
    expect_result(&t, NULL, "socket", 8, PLACE_OK, 8);
    expect_result(&t, NULL, "socket", 9, PLACE_FULL, 8);
    expect_result(&t, NULL, "core:3", 2, PLACE_FULL, 1);
    expect_result(&t, "socket:PE=3", "core", 1, PLACE_NO_ROOM, 0);
    expect_result(&t, NULL, "numa", 1, PLACE_NO_OBJECTS, 0);
    expect_result(&t, "l3cache", "core", 1, PLACE_NO_OBJECTS, 0);
}

/* Every rank has its own core, and each socket the same number of ranks or one more. */
static void large(void **state)
{
    static const char *const maps[] = {"socket", "socket:block", "numa", "core", "slot"};
    struct place_topology t = machine(8, 2, 64, 2);

    for (size_t k = 0; k < N(maps); k++) {
        struct place_policy p = policy(maps[k], "core");
        uint32_t on[8] = {0}, last = 0;
        uint8_t taken[4096] = {0};
        struct place_plan plan;

        assert_int_equal(place_ranks(&t, &p, 1001, &plan), PLACE_OK);
        for (uint32_t i = 0; i < 1001; i++) {
            const struct place_group *g = &plan.groups[plan.group_of[i]];

            assert_int_equal(g->last - g->first, 2);
            assert_false(taken[g->first]);
            taken[g->first] = 1;
            on[g->first / 256]++;
            if (strcmp(maps[k], "socket:block") == 0)
                assert_true(g->first / 256 >= last);
            last = g->first / 256;
        }
        for (uint32_t s = 0; s < 8; s++)
            assert_true(on[s] >= (k < 3 ? 124 : 105) && on[s] <= 128);
        place_plan_free(&plan);
    }
}

/* ---- texts ---- */

static void texts(void **state)
{
    static const uint32_t cpus[] = {0, 1, 5, 7, 300};
    struct place_topology t = machine(2, 1, 2, 2);
    struct place_set set = {0};
    char *text;

    text = place_set_text(&set);
    assert_string_equal(text, "");
    free(text);
    for (size_t i = 0; i < N(cpus); i++)
        place_set_add(&set, cpus[i]);
    assert_int_equal(place_set_count(&set), 5);
    assert_true(place_set_has(&set, 300) && !place_set_has(&set, 6) && !place_set_has(&set, 8191));
    text = place_set_text(&set);
    assert_string_equal(text, "0-1,5,7,300");
    free(text);
    text = place_draw(&t, &set);
    assert_string_equal(text,
                        "socket 0[core 0[hwt 0-1]], socket 1[core 2-3[hwt 1]]: [BB/..][.B/.B]");
    free(text);
    text = place_locality(&t, &set);
    assert_string_equal(text, "SK0-1:CR0,2-3:HT0-1,5,7:NM0-1");
    free(text);
}

static void wrong_texts(void **state)
{
    static const char *const maps[] = {"",
                                       "x",
                                       "socket:",
                                       "socket:x",
                                       "core:pe=",
                                       "core:PE=0",
                                       "core:PE=8193",
                                       "socket:block:",
                                       "slot,",
                                       "socket:PE=1x",
                                       "ppr:2:x"};
    static const char *const binds[] = {"",        "x",         "core:",       "core:0",  "slot",
                                        "node",    "none:2",    "list",        "list:",   "list:,1",
                                        "list:1,", "list:3-1",  "list:1-",     "list:+1", "list:1 ",
                                        "list:-1", "list:8192", "list:1-8192", "user:x"};

    for (size_t i = 0; i < N(maps); i++) {
        struct place_policy p = {0};

        if (!place_parse_map(&p, maps[i]))
            fail_msg("--map-by \"%s\" is taken", maps[i]);
    }
    for (size_t i = 0; i < N(binds); i++) {
        struct place_policy p = {0};

        if (!place_parse_bind(&p, binds[i]))
            fail_msg("--bind-to \"%s\" is taken", binds[i]);
        policy_clear(&p);
    }
}

/* Options that are valid alone, and not together. */
static void wrong_together(void **state)
{
    static const char *const pairs[][2] = {
        {"socket", "list:0"}, {"slot:PE=2", "none"}, {"slot:PE=2", "core:3"}};
    struct place_policy p = {0};

    for (size_t i = 0; i < N(pairs); i++) {
        assert_null(place_parse_map(&p, pairs[i][0]));
        assert_null(place_parse_bind(&p, pairs[i][1]));
        assert_non_null(place_settle(&p));
        policy_clear(&p);
    }
}

/* The last of each option counts alone: agents get that one only. */
static void given_twice(void **state)
{
    struct place_policy p = {0};

    assert_null(place_parse_map(&p, "slot:PE=2"));
    assert_null(place_parse_map(&p, "socket"));
    assert_null(place_parse_bind(&p, "core:3"));
    assert_null(place_parse_bind(&p, "core"));
    assert_null(place_settle(&p));
    assert_int_equal(p.each, 1);
    policy_clear(&p);
    assert_null(place_parse_bind(&p, "core:3"));
    assert_null(place_parse_bind(&p, "core:2"));
    assert_null(place_parse_map(&p, "slot:PE=2"));
    assert_null(place_settle(&p));
    assert_int_equal(p.each, 2);
    policy_clear(&p);
    assert_null(place_parse_bind(&p, "core:2"));
    assert_null(place_parse_bind(&p, "list:0"));
    assert_null(place_settle(&p));
    policy_clear(&p);
}

static void lists(void **state)
{
    static const char *const wanted[] = {"0-3", "4,6", "8191"};
    struct place_policy p = policy(NULL, "list:0-3,4+6,8191");

    assert_true(place_binds(&p));
    assert_int_equal(p.n_list, 3);
    for (uint32_t i = 0; i < 3; i++) {
        char *text = place_set_text(&p.list[i]);

        assert_string_equal(text, wanted[i]);
        free(text);
    }
    assert_null(place_parse_bind(&p, "none")); /* the last one counts */
    assert_false(place_binds(&p));
    policy_clear(&p);
}

static void orders_of_nodes(void **state)
{
    static const struct {
        const char *map;
        bool cyclic;
    } cases[] = {{"slot", false},       {"node", true},          {"node:block", false},
                 {"slot:cyclic", true}, {"socket:block", false}, {"NODE", true}};

    for (size_t i = 0; i < N(cases); i++) {
        struct place_policy p = policy(cases[i].map, NULL);

        assert_int_equal(p.nodes_cyclic, cases[i].cyclic);
    }
    assert_false(policy("slot", NULL).bind != PLACE_NODE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_others),   cmocka_unit_test(numa_in_sockets),
        cmocka_unit_test(allowed),     cmocka_unit_test(too_many),
        cmocka_unit_test(large),       cmocka_unit_test(texts),
        cmocka_unit_test(wrong_texts), cmocka_unit_test(wrong_together),
        cmocka_unit_test(lists),       cmocka_unit_test(orders_of_nodes),
        cmocka_unit_test(given_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
