/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer target: lists of ranges, process mappings and task maps. Any bytes go through both
 * parsers; an accepted list must have ids within the limit and no blank inside a range, and a
 * mapping must repeat its first period for all ranks. The first byte is the number of ranks.
 */
#include "fuzz.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rankmap.h>

static void try_list(const char *text, size_t len)
{
    struct rankmap_opts opts = {.size = sizeof(opts), .id_limit = 1000000};
    struct rankmap *map = NULL;
    struct rankmap_info info = {.size = sizeof(info)};

    if (rankmap_from_text(text, len, &opts, &map, NULL) < 0) {
        MUST(map == NULL);
        return;
    }
    MUST(rankmap_query(map, &info) == 0 && info.distinct && info.max_id < opts.id_limit);
    MUST(info.n_ranks <= opts.id_limit);
    for (size_t i = 0; i < len; i++)
        if (text[i] == '-' || text[i] == ':')
            MUST(i > 0 && i + 1 < len && !strchr(" \t\r\n", text[i - 1]) &&
                 !strchr(" \t\r\n", text[i + 1]));
    rankmap_unref(map);
}

static void try_nodes(const char *text, size_t len, uint32_t n)
{
    struct rankmap *nodes = NULL, *order = NULL, *some = NULL;

    if (rankmap_nodes_from_text(text, len, n, NULL, &nodes, NULL) < 0) {
        MUST(nodes == NULL);
        return;
    }
    MUST(rankmap_size(nodes) == n);
    MUST(rankmap_ranks_by_node(nodes, NULL, &order) == 0 && rankmap_size(order) == n);
    for (uint32_t i = 0; i < n; i++) { /* a permutation, ascending by node and rank */
        uint64_t rank = rankmap_id(order, i), node = rankmap_id(nodes, (uint32_t)rank);

        MUST(rank < n);
        if (i > 0) {
            uint64_t before = rankmap_id(order, i - 1),
                     its_node = rankmap_id(nodes, (uint32_t)before);

            MUST(its_node < node || (its_node == node && before < rank));
        }
    }
    if (n > 0) {
        MUST(rankmap_ranks_on_node(nodes, rankmap_id(nodes, n / 2), NULL, &some) == 0);
        MUST(rankmap_rank(some, n / 2) >= 0);
    }
    rankmap_unref(some);
    rankmap_unref(order);
    rankmap_unref(nodes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy;

    if (size < 1)
        return 0;
    copy = malloc(size - 1 ? size - 1 : 1);
    MUST(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    try_list(copy, size - 1);
    try_nodes(copy, size - 1, data[0]);
    free(copy);
    return 0;
}
