/* SPDX-License-Identifier: BSD-3-Clause */
/* Readers of the address vector that changes overtake at each of their loads, and a writer that
 * pauses between any two of its stores. */
#include <setjmp.h>
#include <stdatomic.h>

static void before_load(void);
static void before_store(void);

#undef atomic_load_explicit
#define atomic_load_explicit(object, order) (before_load(), *(object))
#undef atomic_store_explicit
#define atomic_store_explicit(object, value, order) (before_store(), (void)(*(object) = (value)))
#include "../../librankmap/src/av.c"

#include "rankmap_tools.h"

static struct rankmap_av *vector;
static struct rankmap *members;
static int n_loads = -1, n_stores = -1;
static jmp_buf paused;
static uint64_t seed;

/* The groups that come and go: their pgids. */
static uint32_t others[20], n_others;

static void change(void)
{
    struct rankmap_av_group group;
    uint64_t n = 4 + scramble(&seed, 4);

    if (n_others > 0 && scramble(&seed, 2) == 0) {
        uint32_t i = (uint32_t)scramble(&seed, n_others);

        assert_int_equal(rankmap_av_group_retire(vector, others[i]), 0);
        others[i] = others[--n_others];
    } else if (rankmap_av_group_add(vector, n, &group) == 0) {
        others[n_others++] = group.id;
        if (vector->width > 0)
            assert_int_equal(rankmap_av_set(vector, group.base, 1, 1), 0);
    }
}

static void before_store(void)
{
    if (n_stores >= 0 && n_stores-- == 0)
        longjmp(paused, 1);
}

/* Lets another thread store n_stores times, before the load whose turn it is. */
static void before_load(void)
{
    if (n_loads >= 0 && n_loads-- == 0 && setjmp(paused) == 0)
        for (;;)
            change();
}

/* Makes a vector with a group in the ids 20 to 29, which stays, and others below. All addresses are
 * odd, so they are escaped in entries that have a bit of tag; the table of escapes has 32 slots,
 * and 20 and 25 have the same one. */
static void vector_make(uint32_t entry_bytes)
{
    struct rankmap_av_opts opts = {.size = sizeof(opts),
                                   .entry_bytes = entry_bytes,
                                   .capacity = 31,
                                   .tag_mask = entry_bytes == 8};
    struct rankmap_av_group group;

    assert_int_equal(rankmap_av_create(&opts, &vector), 0);
    assert_int_equal(rankmap_av_group_add(vector, 20, &group), 0);
    assert_int_equal(rankmap_av_group_add(vector, 10, &group), 0);
    assert_int_equal(rankmap_av_group_retire(vector, 0), 0);
    if (entry_bytes == 0)
        assert_int_equal(rankmap_av_set_rule(vector, group.id, 41, 2, 1), 0);
    for (uint64_t id = 20; id < 30 && entry_bytes > 0; id++)
        assert_int_equal(rankmap_av_set(vector, id, 1 + 2 * id, 1), 0);
    n_others = 0;
    for (int i = 0; i < 8; i++)
        change();
}

static void read_entry(void)
{
    struct rankmap_av_entry entry = {0};
    uint64_t id = 20 + scramble(&seed, 10);

    assert_int_equal(rankmap_av_get(vector, id, &entry), 0);
    assert_true(entry.addr == 1 + 2 * id && entry.tag == 1);
}

static void read_nothing(void)
{
    struct rankmap_av_entry entry;

    assert_int_equal(rankmap_av_get(vector, 30, &entry), RANKMAP_ENOENT);
}

static void read_group(void)
{
    struct rankmap_av_group group = {0};

    assert_int_equal(rankmap_av_group_get(vector, 1, &group), 0);
    assert_true(group.id == 1 && group.base == 20 && group.n_procs == 10);
}

/* The first group of a map of the ids 25 to 29: the one that stays. */
static void read_next(void)
{
    struct rankmap_av_group group = {0};

    assert_int_equal(rankmap_av_group_next(vector, members, 0, &group), 0);
    assert_true(group.id == 1 && group.base == 20 && group.n_procs == 10);
}

static void read_place(void)
{
    struct rankmap_av_group group = {0};
    uint64_t lpid;

    assert_int_equal(rankmap_av_locate(vector, 25, &group, &lpid), 0);
    assert_true(group.id == 1 && group.base == 20 && group.n_procs == 10 && lpid == 5);
}

static void read_info(void)
{
    struct rankmap_info_av info = {.size = sizeof(info)};

    assert_int_equal(rankmap_av_query(vector, &info), 0);
    assert_true(info.n_procs >= 10 && info.n_procs <= 30 && info.n_groups <= info.n_procs / 4);
}

static void read_again(void (*reader)(void), uint64_t first_seed)
{
    for (uint64_t trial = 0; trial < 1000; trial++)
        for (int at = 0, passed = 1; passed; at++) {
            seed = first_seed + trial;
            vector_make(trial % 3 * 8);
            n_stores = (int)scramble(&seed, 1000);
            n_loads = at;
            reader();
            passed = n_loads < 0;
            n_loads = n_stores = -1;
            rankmap_av_destroy(vector);
        }
}

static void entry(void **state)
{
    read_again(read_entry, 0);
}

static void no_entry(void **state)
{
    read_again(read_nothing, 1000);
}

static void group_of_number(void **state)
{
    read_again(read_group, 2000);
}

static void groups_of_map(void **state)
{
    members = affine(25, 1, 5);
    read_again(read_next, 5000);
    rankmap_unref(members);
}

static void group_of_id(void **state)
{
    read_again(read_place, 3000);
}

static void sizes(void **state)
{
    read_again(read_info, 4000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entry),           cmocka_unit_test(no_entry),
        cmocka_unit_test(group_of_number), cmocka_unit_test(groups_of_map),
        cmocka_unit_test(group_of_id),     cmocka_unit_test(sizes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
