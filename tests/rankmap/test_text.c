/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of ranges, process mappings and task maps; ranks by node. */
#include "rankmap_tools.h"

static struct rankmap *list(const char *text)
{
    struct rankmap *map = NULL;

    assert_int_equal(rankmap_from_text(text, strlen(text), NULL, &map, NULL), 0);
    return map;
}

static void lists(void **state)
{
    struct rankmap *map;

    map = list("0-3,8-20:4,7,5-6");
    HAS_IDS(map, 0, 1, 2, 3, 8, 12, 16, 20, 7, 5, 6);
    rankmap_unref(map);
    map = list(" 9-7 3\t1\n");
    HAS_IDS(map, 9, 8, 7, 3, 1);
    rankmap_unref(map);
    map = list("15-8:3");
    HAS_IDS(map, 15, 12, 9);
    rankmap_unref(map);
    map = list("15-8:-3");
    HAS_IDS(map, 15, 12, 9);
    rankmap_unref(map);
    map = list("233-233:-3"); /* one id, whatever the stride */
    HAS_IDS(map, 233);
    rankmap_unref(map);
    map = list("0-4294967293"); /* many ranks in little text, without expanding them */
    assert_int_equal(rankmap_size(map), 4294967294u);
    rankmap_unref(map);
    map = list("4 , 1-2\r\n,7\t0");
    HAS_IDS(map, 4, 1, 2, 7, 0);
    rankmap_unref(map);
    map = list("007-9:02");
    HAS_IDS(map, 7, 9);
    rankmap_unref(map);
    map = list("");
    assert_int_equal(rankmap_size(map), 0);
    rankmap_unref(map);
    map = list(" \t\r\n");
    assert_int_equal(rankmap_size(map), 0);
    rankmap_unref(map);
    assert_int_equal(rankmap_from_text("1\0"
                                       "2",
                                       3, NULL, &map, NULL),
                     RANKMAP_ESYNTAX); /* a NUL ends nothing */
}

static void bad_lists(void **state)
{
    static const struct {
        const char *text;
        int rc;
    } cases[] = {
        {"1,", RANKMAP_ESYNTAX},
        {",1", RANKMAP_ESYNTAX},
        {"1,,2", RANKMAP_ESYNTAX},
        {"a", RANKMAP_ESYNTAX},
        {"1-", RANKMAP_ESYNTAX},
        {"-1", RANKMAP_ESYNTAX},
        {"1-2-3", RANKMAP_ESYNTAX},
        {"1:2", RANKMAP_ESYNTAX},
        {"1-5:", RANKMAP_ESYNTAX},
        {"1-5:0", RANKMAP_ERANGE},
        {"1-5:-1", RANKMAP_ERANGE},
        {"1x2", RANKMAP_ESYNTAX},
        {"1,1", RANKMAP_EDUP},
        {"0-9,5", RANKMAP_EDUP},
        {"0-9:3,6", RANKMAP_EDUP},
        {"1099511627776", RANKMAP_ERANGE},
        {"99999999999999999999999999", RANKMAP_ERANGE},
        {"0-4294967295", RANKMAP_ERANGE},
        {"0-10:99999999999999999999", RANKMAP_ERANGE},
        /* no blank inside of a range */
        {"1- 5", RANKMAP_ESYNTAX},
        {"1 -5", RANKMAP_ESYNTAX},
        {"1 - 5", RANKMAP_ESYNTAX},
        {"1-5: 2", RANKMAP_ESYNTAX},
        {"1-5 :2", RANKMAP_ESYNTAX},
        {"5-1:- 2", RANKMAP_ESYNTAX},
        {"5-1: -2", RANKMAP_ESYNTAX},
        {"1-\n5", RANKMAP_ESYNTAX},
        /* one comma, between two */
        {" ,1", RANKMAP_ESYNTAX},
        {"1 , ,2", RANKMAP_ESYNTAX},
        {"1 ,", RANKMAP_ESYNTAX},
        {"1, \t", RANKMAP_ESYNTAX},
        {",", RANKMAP_ESYNTAX},
        {"+1", RANKMAP_ESYNTAX},
        {"0x10", RANKMAP_ESYNTAX},
        {"1\v2", RANKMAP_ESYNTAX},
        {"1-5:+2", RANKMAP_ESYNTAX},
        {"5-1:--2", RANKMAP_ESYNTAX},
    };
    struct rankmap *map = NULL;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(rankmap_from_text(cases[i].text, strlen(cases[i].text), NULL, &map, NULL),
                         cases[i].rc);
    assert_int_equal(rankmap_from_text(NULL, 3, NULL, &map, NULL), -EINVAL);
    assert_null(map);
}

/* The place of an error in a text, and the expected syntax there. */
static void details(void **state)
{
    static const struct {
        const char *text;
        uint64_t where;
        const char *said;
    } lists[] = {{"1-2-3", 3, "expected a comma or a blank at byte 3, not '-'"},
                 {"4,", 2, "expected a number at byte 2, not the end"},
                 {"1\v2", 1, "expected a comma or a blank at byte 1, not byte 0x0b"},
                 {"1-5:0,9", 5, "a stride that is 0 or too large before byte 5"},
                 {"4,99999999999999999999", 22, "an id that is too large before byte 22"},
                 {"0-99999999999999999999", 22, "an id that is too large before byte 22"},
                 {"7 1099511627776", 2,
                  "range 1, from 1099511627776 to 1099511627776 by 1, leaves the ids below "
                  "1099511627776"},
                 {"0-4294967295", 0,
                  "range 0, from 0 to 4294967295 by 1, has more ids than 4294967295"},
                 {"0-9, 12,5-20:3 ,77", 8, "ranges 0 and 2 both have id 5"}},
      mappings[] = {{"(vector,(0,2,4)", 15, "expected a comma or ) at byte 15, not the end"},
                    {"(vectr,(0,2,4))", 1, "expected the word vector at byte 1, not 'v'"},
                    {"[[0,2,4,1]]", 11, "the task map places 8 ranks, not 9"}};
    struct rankmap_error err;
    struct rankmap *map = NULL;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        int rc = rankmap_from_text(lists[i].text, strlen(lists[i].text), NULL, &map, &err);

        assert_true(rc < 0 && err.code == rc);
        assert_string_equal(err.text, lists[i].said);
        assert_int_equal(err.where, lists[i].where);
    }
    for (size_t i = 0; i < sizeof(mappings) / sizeof(mappings[0]); i++) {
        int rc = rankmap_nodes_from_text(mappings[i].text, strlen(mappings[i].text), 9, NULL, &map,
                                         &err);

        assert_true(rc < 0 && err.code == rc);
        assert_string_equal(err.text, mappings[i].said);
        assert_int_equal(err.where, mappings[i].where);
    }
}

static void nodes(void **state)
{
    static const struct {
        const char *text;
        uint32_t n, node_of[16];
    } cases[] = {
        {"(vector,(0,2,4))", 8, {0, 0, 0, 0, 1, 1, 1, 1}},
        {"(vector,(0,2,2))", 8, {0, 0, 1, 1, 0, 0, 1, 1}}, /* the list repeats */
        {"(vector,(0,4,1))", 10, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1}},
        {"(vector,(0,1,2),(1,2,1))", 6, {0, 0, 1, 2, 0, 0}},
        {"(vector,(7,1,1))", 3, {7, 7, 7}},
        {"(vector, [(0,2,1)]x2, 5)", 6, {0, 1, 0, 1, 5, 0}},
        {"(vector,[0,(3,2,1)]x2,9)", 8, {0, 3, 4, 0, 3, 4, 9, 0}},
        {"(vector,[7]x2147483647,8)", 3, {7, 7, 7}},        /* the most times */
        {"(vector,2147483647)", 2, {INT32_MAX, INT32_MAX}}, /* the last node */
        {"[[0,2,4,1]]", 8, {0, 0, 0, 0, 1, 1, 1, 1}},
        {"[[0,2,2,2]]", 8, {0, 0, 1, 1, 0, 0, 1, 1}},
        {"[[0,2,1,2],[4,1,3,1]]", 7, {0, 1, 0, 1, 4, 4, 4}},
        {"{\"version\":1,\"map\":[[0,1,3,1]]}", 3, {0, 0, 0}},
        {" { \"map\" : [ [ 1 , 1 , 3 , 1 ] ] , \"version\" : 1 } ", 3, {1, 1, 1}},
        {"[]", 0, {0}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rankmap *map = NULL;

        assert_int_equal(rankmap_nodes_from_text(cases[i].text, strlen(cases[i].text), cases[i].n,
                                                 NULL, &map, NULL),
                         0);
        assert_ids(map, cases[i].node_of, cases[i].n);
        rankmap_unref(map);
    }
}

static void bad_nodes(void **state)
{
    static const struct {
        const char *text;
        uint32_t n;
        int rc;
    } cases[] = {
        {"", 4, RANKMAP_ESYNTAX},
        {"(vector)", 4, RANKMAP_ESYNTAX},
        {"(vector,)", 4, RANKMAP_ESYNTAX},
        {"(vector,(0,1,1)", 4, RANKMAP_ESYNTAX},
        {"(vector,(0,1,1)))", 4, RANKMAP_ESYNTAX},
        {"(vector,(0,0,1))", 4, RANKMAP_ESYNTAX},
        {"(vector,(0,1,0))", 4, RANKMAP_ESYNTAX},
        {"(vector,[(0,1,1)]x0)", 4, RANKMAP_ESYNTAX},
        {"(vector,[(0,1,1)])", 4, RANKMAP_ESYNTAX},
        {"(vector,(0,1,99999999999))", 4, RANKMAP_ERANGE},
        {"(vector,(2147483647,2,1))", 4, RANKMAP_ERANGE},
        {"(vector,2147483648)", 4, RANKMAP_ERANGE},
        {"(vector,[7]x2147483648)", 4, RANKMAP_ERANGE},
        {"(tensor,(0,1,1))", 4, RANKMAP_ESYNTAX},
        {"[[0,2,4,1]]", 7, RANKMAP_ERANGE}, /* a task map places exactly its ranks */
        {"[[0,2,4,1]]", 9, RANKMAP_ERANGE},
        {"[[0,2147483647,2147483647,2147483647]]", 9, RANKMAP_ERANGE},
        {"[[0,2,4]]", 8, RANKMAP_ESYNTAX},
        {"[[0,2,4,1]", 8, RANKMAP_ESYNTAX},
        {"[[0,2,4,1],]", 8, RANKMAP_ESYNTAX},
        {"{\"version\":2,\"map\":[[0,1,3,1]]}", 3, RANKMAP_ESYNTAX},
        {"{\"map\":[[0,1,3,1]]}", 3, RANKMAP_ESYNTAX},
        {"{\"version\":1,\"version\":1}", 3, RANKMAP_ESYNTAX},
    };
    struct rankmap *map = NULL;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(rankmap_nodes_from_text(cases[i].text, strlen(cases[i].text), cases[i].n,
                                                 NULL, &map, NULL),
                         cases[i].rc);
    assert_null(map);
    /* the last node that a text may name */
    assert_int_equal(rankmap_nodes_from_text("(vector,(1,2147483647,1))", 25, 4, NULL, &map, NULL),
                     0);
    rankmap_unref(map);
}

static void by_node(void **state)
{
    static const char text[] = "(vector,[(0,49152,1)]x16)";
    struct rankmap *map, *order, *some;

    /* one block dealt cyclically is a formula for any number of ranks */
    assert_int_equal(
        rankmap_nodes_from_text("(vector,(0,49152,16))", 21, RANKMAP_MAX_RANKS, NULL, &map, NULL),
        0);
    assert_int_equal(rankmap_id(map, 786432 + 17), 1);
    rankmap_unref(map);
    assert_int_equal(rankmap_nodes_from_text(text, strlen(text), 786432, NULL, &map, NULL), 0);
    assert_int_equal(query(map).model_bytes, 40);
    assert_int_equal(rankmap_ranks_by_node(map, NULL, &order), 0);
    assert_int_equal(kind_of(order), RANKMAP_BLOCKSTRIDE);
    assert_int_equal(query(order).model_bytes, 40);
    assert_int_equal(rankmap_id(order, 16 * 1000 + 3), 3 * 49152 + 1000);
    rankmap_unref(order);
    assert_int_equal(rankmap_ranks_on_node(map, 1000, NULL, &some), 0);
    assert_int_equal(kind_of(some), RANKMAP_STRIDE);
    assert_int_equal(rankmap_size(some), 16);
    rankmap_unref(some);
    assert_int_equal(rankmap_ranks_on_node(map, 49152, NULL, &some), 0);
    assert_int_equal(rankmap_size(some), 0);
    rankmap_unref(some);
    rankmap_unref(map);
    map = affine(0, 1, 0);
    assert_int_equal(rankmap_ranks_by_node(map, NULL, &order), 0);
    assert_int_equal(rankmap_size(order), 0);
    rankmap_unref(order);
    rankmap_unref(map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),   cmocka_unit_test(bad_lists), cmocka_unit_test(nodes),
        cmocka_unit_test(details), cmocka_unit_test(bad_nodes), cmocka_unit_test(by_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
