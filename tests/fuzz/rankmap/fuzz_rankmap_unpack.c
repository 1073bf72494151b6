/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer target: packed maps. Any bytes go through the reader. An accepted map must be valid:
 * ids below the limit, none twice, an exact inverse, lookups that agree; packed again it must read
 * as the same map. The bytes are placed so that ASan sees any excess. The first byte says whether
 * equal ids are allowed, and picks the limit, and the base and width of a lookup.
 */
#include "fuzz.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rankmap.h>

#define MAX_LOOKED_AT 4096u

/* Looks up all ranks in one batch, through an index. */
static void check_translate(const struct rankmap *map)
{
    static uint32_t ranks[MAX_LOOKED_AT];
    uint32_t n = rankmap_size(map);

    MUST(rankmap_translate(map, NULL, n, map, ranks) == 0);
    for (uint32_t r = 0; r < n; r++)
        MUST(ranks[r] == r);
}

static void check_map(const struct rankmap *map, uint64_t limit, int duplicates, uint64_t base,
                      uint32_t width)
{
    uint32_t n = rankmap_size(map), step = n / MAX_LOOKED_AT + 1;
    struct rankmap_info info = {.size = sizeof(info)};
    struct rankmap_lookup l;

    MUST(rankmap_query(map, &info) == 0);
    MUST(info.n_ranks == n && info.max_id < limit && info.min_id <= info.max_id);
    MUST(duplicates || info.distinct);
    MUST(info.total_bytes >= info.model_bytes + 24);
    MUST(rankmap_lookup_init(&l, map, base, width) == 0);
    MUST(rankmap_id(map, n) == RANKMAP_NO_ID);
    MUST(rankmap_describe(map, NULL, 0) > 0);
    for (uint64_t r = 0; r < n; r += step) {
        uint64_t id = rankmap_id(map, (uint32_t)r), same;

        MUST(id >= info.min_id && id <= info.max_id);
        MUST(rankmap_at(&l, (uint32_t)r) == base + width * id &&
             rankmap_at_nobranch(&l, (uint32_t)r) == base + width * id);
        MUST(rankmap_ids(map, (uint32_t)r, 1, sizeof(uint64_t), &same) == 0 && same == id);
        if (info.distinct && (info.kind < RANKMAP_FRAMES || n <= 256))
            MUST(rankmap_rank(map, id) == (int64_t)r);
    }
    if (info.distinct && n <= MAX_LOOKED_AT)
        check_translate(map);
}

static void check_again(const struct rankmap *map, const struct rankmap_opts *opts)
{
    size_t len = (size_t)rankmap_pack(map, NULL, 0);
    uint8_t *bytes = malloc(len);
    struct rankmap_info info = {.size = sizeof(info)}, info_again = info;
    struct rankmap *again = NULL;

    MUST(bytes != NULL);
    MUST(rankmap_pack(map, bytes, len) == (ssize_t)len);
    MUST(rankmap_unpack(bytes, len, opts, &again) == (ssize_t)len);
    MUST(rankmap_query(map, &info) == 0 && rankmap_query(again, &info_again) == 0);
    if (info.n_ranks <= 1u << 20 || info.kind == info_again.kind)
        MUST(rankmap_compare(map, again) == RANKMAP_IDENT);
    rankmap_unref(again);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rankmap_opts opts = {.size = sizeof(opts)};
    struct rankmap *map = NULL;
    uint64_t limit = RANKMAP_ID_LIMIT;
    uint8_t *copy;
    ssize_t n;

    if (size < 1)
        return 0;
    if (data[0] & 1)
        opts.flags |= RANKMAP_ALLOW_DUPLICATES;
    if (data[0] & 2)
        opts.id_limit = limit = 100000;
    if (data[0] & 4)
        opts.flags |= RANKMAP_FAST;
    copy = malloc(size - 1 ? size - 1 : 1);
    MUST(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    n = rankmap_unpack(copy, size - 1, &opts, &map);
    if (n < 0) {
        MUST(map == NULL);
    } else {
        MUST((size_t)n <= size - 1 && map != NULL);
        check_map(map, limit, data[0] & 1, (uint64_t)(data[0] >> 4) << 60,
                  data[0] & 8 ? RANKMAP_MAX_WIDTH : 1);
        check_again(map, &opts);
        rankmap_unref(map);
    }
    free(copy);
    return 0;
}
