/* SPDX-License-Identifier: BSD-3-Clause */
/* A reader of the address vector that changes overtake in the middle of its search. */
#include "../../librankmap/src/av.c"

#include "rankmap_tools.h"

static struct rankmap_av *overtaken;
static int n_changes, n_searches;

/* Searches, and lets changes pass before the caller reads what was found. */
static uint32_t place_then_change(const struct groups *g, uint64_t flat)
{
    uint32_t place = place_of_flat(g, flat);
    struct rankmap_av_group group;

    for (int i = 0; n_searches == 0 && i < n_changes; i++) {
        if (i % 2 == 0)
            assert_int_equal(rankmap_av_group_retire(overtaken, (uint32_t)i / 2), 0);
        else
            assert_int_equal(rankmap_av_group_add(overtaken, 10, &group), 0);
    }
    n_searches++;
    return place;
}

static void reader_reads_again(void **state)
{
    /* One change publishes the spare table, and the reader's own is as it was. The second one
     * overwrites that; from there on the reader must search again. */
    for (n_changes = 0; n_changes <= 4; n_changes++) {
        struct rankmap_av_opts opts = {.size = sizeof(opts), .capacity = 1000};
        struct rankmap_av_group group;
        struct group found;

        assert_int_equal(rankmap_av_create(&opts, &overtaken), 0);
        for (int i = 0; i < 3; i++)
            assert_int_equal(rankmap_av_group_add(overtaken, 10, &group), 0);
        n_searches = 0;
        assert_true(group_read(overtaken, place_then_change, 25, &found));
        assert_true(found.id == 2 && found.base == 20 && found.n_procs == 10);
        assert_int_equal(n_searches, n_changes == 0 ? 1 : 2);
        rankmap_av_destroy(overtaken);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reader_reads_again)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
