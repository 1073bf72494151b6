/* SPDX-License-Identifier: BSD-3-Clause */
/* Every generator, at its own sizes and at others: its ranks are consistent, and librankmap stores
 * them without loss, in the documented model. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <rankmap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peers.h"
#include "workload.h"

static void make(struct workload *w, const char *spec)
{
    char error[256] = "";

    if (workload_make(w, spec, error, sizeof(error)) != 0)
        fail_msg("%s: %s", spec, error);
}

static int in_a_group(const struct workload *w, uint32_t id)
{
    for (uint32_t g = 0; g < w->n_groups; g++)
        if (id >= w->groups[g].base && id - w->groups[g].base < w->groups[g].n)
            return 1;
    return 0;
}

/* Ids are processes, none twice, and those of the parent at the places that the indirect array
 * names. */
static void check_sound(const struct workload *w)
{
    uint32_t end = 0;
    unsigned char *seen;

    for (uint32_t g = 0; g < w->n_groups; g++)
        if (w->groups[g].base + w->groups[g].n > end)
            end = w->groups[g].base + w->groups[g].n;
    seen = malloc(end);
    assert_non_null(seen);
    for (uint32_t i = 0; i < w->n_comms; i++) {
        const struct workload_comm *c = &w->comms[i];

        assert_true(c->n > 0 && c->count > 0 && c->name[0] != '\0');
        memset(seen, 0, end);
        for (uint32_t r = 0; r < c->n; r++) {
            assert_true(in_a_group(w, c->ids[r]));
            assert_false(seen[c->ids[r]]++);
            if (c->parent >= 0) {
                assert_true(c->of_parent[r] < w->comms[c->parent].n);
                assert_int_equal(c->ids[r], w->comms[c->parent].ids[c->of_parent[r]]);
            } else {
                assert_int_equal(c->ids[r], c->of_parent[r]);
            }
        }
    }
    free(seen);
}

static int is_model(const struct rankmap_info *info, const char *model)
{
    uint32_t kind = info->kind;

    if (strcmp(model, "set") == 0)
        return kind == RANKMAP_BITMAP || kind == RANKMAP_ELIAS_FANO;
    if (strcmp(model, "lut") == 0)
        return kind == RANKMAP_PACKED || kind == RANKMAP_FRAMES || kind == RANKMAP_LUT32;
    if (strcmp(model, "runs") == 0) /* a few pieces, or levels when they are regular */
        return kind == RANKMAP_RUNS || kind == RANKMAP_BLOCKSTRIDE || kind == RANKMAP_MD;
    return strcmp(info->kind_name, model) == 0;
}

static struct rankmap *child_of(struct rankmap *parent, const struct workload_comm *c)
{
    struct rankmap *ranks, *child;

    assert_int_equal(
        rankmap_from_ids(c->of_parent, sizeof(*c->of_parent), c->n, NULL, &ranks, NULL), 0);
    assert_int_equal(rankmap_compose(parent, ranks, NULL, &child), 0);
    rankmap_unref(ranks);
    return child;
}

/* From the array of ids and, where there is a parent, from the parent's map. */
static void check_stored(const struct workload *w, int models)
{
    struct rankmap *maps[WORKLOAD_MAX_COMMS];

    for (uint32_t i = 0; i < w->n_comms; i++) {
        const struct workload_comm *c = &w->comms[i];
        uint32_t *ids = malloc((size_t)c->n * sizeof(*ids));
        struct rankmap_info info = {.size = sizeof(info)};
        struct rankmap *direct;

        assert_non_null(ids);
        assert_int_equal(rankmap_from_ids(c->ids, sizeof(uint32_t), c->n, NULL, &direct, NULL), 0);
        if (c->parent >= 0)
            maps[i] = child_of(maps[c->parent], c);
        else
            maps[i] = rankmap_ref(direct);
        assert_int_equal(rankmap_query(maps[i], &info), 0);
        assert_int_equal(rankmap_size(maps[i]), c->n);
        assert_int_equal(rankmap_ids(maps[i], 0, c->n, sizeof(uint32_t), ids), 0);
        assert_memory_equal(ids, c->ids, c->n * sizeof(*ids));
        assert_int_equal(rankmap_compare(maps[i], direct), RANKMAP_IDENT);
        if (models && !is_model(&info, c->model))
            fail_msg("%s: %s is %s and not %s", w->title, c->name, info.kind_name, c->model);
        rankmap_unref(direct);
        free(ids);
    }
    for (uint32_t i = 0; i < w->n_comms; i++)
        rankmap_unref(maps[i]);
}

static void test_all_at_their_own_sizes(void **state)
{
    const char *name, *arguments, *meaning;
    unsigned n;

    for (n = 0; workload_at(n, &name, &arguments, &meaning); n++) {
        struct workload w;

        assert_true(workload_known(name));
        assert_true(arguments[0] == '[' && meaning[0] != '\0');
        make(&w, name);
        check_sound(&w);
        check_stored(&w, 1);
        workload_free(&w);
    }
    assert_int_equal(n, 24 + 17);
}

static void test_other_sizes(void **state)
{
    static const char *const specs[] = {"nek5000 86",
                                        "nek5000 1 1",
                                        "nwchem 1x1",
                                        "nwchem 3x5 7",
                                        "nwchem 5x1 1",
                                        "bt 1",
                                        "bt 99",
                                        "sp 17",
                                        "mocfe_bone 7",
                                        "mocfe_bone 60",
                                        "graph500 12",
                                        "lsms 200",
                                        "odd-even 12 4096",
                                        "odd-even 3 100",
                                        "reversed 1",
                                        "reversed 2",
                                        "random 1",
                                        "random 2",
                                        "random 100 7",
                                        "random 65537 9",
                                        "cart-reorder 2x2x4",
                                        "cart-reorder 4x6x8",
                                        "by-node 1 1",
                                        "by-node 3 5",
                                        "transpose 1x7",
                                        "transpose 3x5",
                                        "leaders 1 1 1",
                                        "leaders 3 5 50",
                                        "leaders 16 16 64",
                                        "brick 1 1x1x1",
                                        "brick 2 3x3x3",
                                        "shrink 1 1",
                                        "shrink 1 1 5",
                                        "shrink 7 3 999",
                                        "merge 1 1",
                                        "merge 5 3",
                                        "merge-high 5 3",
                                        "merge-high 1 1",
                                        "spawn-chain 2 1",
                                        "spawn-chain 16 100",
                                        "sorted-random 99 1000",
                                        "sorted-random 1 100 5",
                                        "hilbert 1",
                                        "hilbert 3",
                                        "split 100 2",
                                        "  dup\t5\n",
                                        "cian2 64",
                                        "qmcpack 16",
                                        "qmcpack 31"};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct workload w;

        make(&w, specs[i]);
        check_sound(&w);
        check_stored(&w, 0);
        workload_free(&w);
    }
}

static void test_errors_name_what_is_wrong(void **state)
{
    static const struct {
        const char *spec, *says;
    } wrong[] = {
        {"", "no generator \"\""},
        {"nek", "no generator \"nek\""},
        {"nek5000x 3", "no generator \"nek5000x\""},
        {"nek5000,3", "no generator \"nek5000,3\""},
        {"nek5000 x", "nek5000: \"x\" is not a number (the number of duplicates)"},
        {"nek5000 0", "nek5000: the number of duplicates is 0 and must be from 1 to 1000000"},
        {"nek5000 24 16777217",
         "nek5000: the number of processes is 16777217 and must be from 1 to 16777216"},
        {"nek5000 24 99999999999",
         "nek5000: \"99999999999\" is not a number (the number of processes)"},
        {"nwchem 768y1024",
         "nwchem: \"768y1024\" is not a ROWSxCOLUMNS with at most 16777216 ranks"},
        {"nwchem 768x", "nwchem: \"768x\" is not a ROWSxCOLUMNS with at most 16777216 ranks"},
        {"nwchem 768x0", "nwchem: \"768x0\" is not a ROWSxCOLUMNS with at most 16777216 ranks"},
        {"nwchem 65536x65536",
         "nwchem: \"65536x65536\" is not a ROWSxCOLUMNS with at most 16777216 ranks"},
        {"nwchem 2x2 3 4",
         "nwchem: \"4\" is one argument too many: nwchem [ROWSxCOLUMNS] [WINDOWS]"},
        {"dup 1 2 3 4 5 6 7 8 9", "dup: too many arguments"},
        {"split 1 1", "split: these sizes leave a communicator without ranks"},
        {"leaders 17",
         "leaders: nodes of 16 processes cannot have 17 leaders or make up 786432 processes"},
        {"cart-reorder 3x2x4", "cart-reorder: the grid must be made of bricks of 2x2x4"},
        {"brick 5 4x9x9", "brick: a brick must fit into the grid"},
        {"shrink 4 4 16", "shrink: 16 processes are too few"},
        {"by-node 1048576 17", "by-node: more than 16777216 ranks"},
        {"hilbert 13", "hilbert: order is 13 and must be from 1 to 12"},
    };
    struct workload w;
    char error[256], longest[257];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(workload_make(&w, wrong[i].spec, error, sizeof(error)), -1);
        assert_string_equal(error, wrong[i].says);
    }
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(workload_make(&w, longest, error, sizeof(error)), -1);
    assert_string_equal(error, "a generator and its arguments have at most 255 bytes");
    assert_int_equal(workload_make(&w, longest + 1, error, sizeof(error)), -1);
    assert_memory_equal(error, "no generator \"aaaa", 18);
    /* the part of the message that fits */
    assert_int_equal(workload_make(&w, "nek5000 x", error, 8), -1);
    assert_string_equal(error, "nek5000");
}

/* Peers' bytes, computed by hand. */
static void test_peers(void **state)
{
    static const uint64_t stride[] = {3, 5, 7, 9}, back[] = {9, 7, 5, 3},
                          blocks[] = {0, 1, 4, 5, 8, 9},
                          runs[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11}, mixed[] = {0, 1, 100, 101},
                          one[] = {6};
    const struct {
        struct peer_group group;
        uint64_t mpich_4_0, mpich_main, sparse;
        const char *model, *sparse_model;
    } cases[] = {
        {{stride, 4, 1000, 1, 0}, 12, 16, 12, "stride", "strided"},
        {{back, 4, 1000, 1, 0}, 16, 16, 32, "lut", "dense"},
        {{blocks, 6, 10, 1, 0}, 12, 48, 2, "stride_block", "bitmap"},
        {{runs, 11, 1000, 1, 0}, 12, 88, 16, "stride_block", "sporadic"},
        {{mixed, 4, 200, 2, 1}, 32, 32, 32, "mlut", "dense"},
        {{one, 1, 200, 1, 0}, 12, 16, 8, "offset", "dense"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct peer_bytes b;

        peer_count(&cases[i].group, &b);
        assert_int_equal(b.table, 4 * cases[i].group.n);
        assert_int_equal(b.pointers, 8 * cases[i].group.n);
        assert_int_equal(b.openmpi, 8 * cases[i].group.n);
        assert_int_equal(b.mpich_4_0, cases[i].mpich_4_0);
        assert_string_equal(b.mpich_4_0_model, cases[i].model);
        assert_int_equal(b.mpich_main, cases[i].mpich_main);
        assert_int_equal(b.openmpi_sparse, cases[i].sparse);
        assert_string_equal(b.openmpi_sparse_model, cases[i].sparse_model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_at_their_own_sizes),
        cmocka_unit_test(test_other_sizes),
        cmocka_unit_test(test_errors_name_what_is_wrong),
        cmocka_unit_test(test_peers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
