/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer target: PMI_process_mapping. Any bytes go through the parser; a list
 * that parses must expand as node_of says, and the encoder's text of the expansion, in either
 * grammar, must parse to the same expansion. The bytes are also read as an array of nodes, since
 * few texts make arrays that are hard to encode. Each buffer has exactly the needed size, so that
 * ASan sees any excess.
 */
#include "fuzz.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <pmiwire/mapping.h>

#define MAX_RANKS 512u

static void *exact(size_t bytes)
{
    void *p = malloc(bytes);

    MUST(p != NULL || bytes == 0);
    return p;
}

/* Parses into an array of exactly the needed blocks; NULL when the text is refused. */
static struct pmiwire_mapping_block *parse(struct pmiwire_str text, uint32_t *n_blocks)
{
    struct pmiwire_mapping_block *blocks;
    struct pmiwire_error err = {0};
    uint32_t n = 0, again = 0;
    int rc = pmiwire_mapping_parse(text, NULL, 0, &n, &err);

    if (rc == PMIWIRE_EMAPPING || rc == PMIWIRE_EMAPSIZE) {
        MUST(err.code == rc && err.offset <= text.len && n == 0);
        return NULL;
    }
    MUST(rc == PMIWIRE_ENOBUF && n > 0 && err.code == rc);
    blocks = exact(n * sizeof(*blocks));
    MUST(pmiwire_mapping_parse(text, blocks, n - 1, &again, NULL) == PMIWIRE_ENOBUF && again == n);
    MUST(pmiwire_mapping_parse(text, blocks, n, &again, NULL) == 0 && again == n);
    *n_blocks = n;
    return blocks;
}

static void check_encode(const uint32_t *node_of, uint32_t n_ranks)
{
    size_t bytes = 64 + (size_t)n_ranks * 32;
    char *room = exact(bytes);
    uint32_t *again = exact(n_ranks * sizeof(*again));
    ssize_t classic = 0;

    for (uint32_t grammar = 0; grammar <= PMIWIRE_MAPPING_EXTENDED; grammar++) {
        ssize_t len = pmiwire_mapping_encode(node_of, n_ranks, grammar, SIZE_MAX, room, bytes);
        struct pmiwire_mapping_block *blocks;
        struct pmiwire_str text;
        uint32_t n_blocks = 0;
        char *tight;

        MUST(len > 0 && (size_t)len < bytes && room[len] == '\0');
        MUST(grammar == PMIWIRE_MAPPING_CLASSIC || len <= classic);
        classic = len;
        tight = exact((size_t)len + 1);
        MUST(pmiwire_mapping_encode(node_of, n_ranks, grammar, (size_t)len, tight,
                                    (size_t)len + 1) == len);
        MUST(memcmp(tight, room, (size_t)len + 1) == 0);
        MUST(pmiwire_mapping_encode(node_of, n_ranks, grammar, (size_t)len, tight, (size_t)len) ==
             PMIWIRE_ENOBUF);
        MUST(pmiwire_mapping_encode(node_of, n_ranks, grammar, (size_t)len - 1, tight,
                                    (size_t)len + 1) == PMIWIRE_EMAPSIZE);
        text.ptr = tight;
        text.len = (size_t)len;
        blocks = parse(text, &n_blocks);
        MUST(blocks != NULL);
        MUST(pmiwire_mapping_expand(blocks, n_blocks, n_ranks, again) == 0);
        MUST(memcmp(node_of, again, n_ranks * sizeof(*again)) == 0);
        free(blocks);
        free(tight);
    }
    free(again);
    free(room);
}

static void try_text(const uint8_t *data, size_t size)
{
    char *copy = exact(size);
    struct pmiwire_str text = {copy, size};
    struct pmiwire_mapping_block *blocks;
    uint32_t n_blocks = 0, n_ranks;
    uint32_t *node_of;

    if (size > 0)
        memcpy(copy, data, size);
    blocks = parse(text, &n_blocks);
    if (blocks != NULL) {
        n_ranks = 1 + data[size / 2] * 2u; /* 1..511, below MAX_RANKS */
        node_of = exact(n_ranks * sizeof(*node_of));
        MUST(pmiwire_mapping_expand(blocks, n_blocks, n_ranks, node_of) == 0);
        check_encode(node_of, n_ranks);
        free(node_of);
    }
    free(blocks);
    free(copy);
}

static void try_array(const uint8_t *data, size_t size)
{
    uint32_t n_ranks = size < MAX_RANKS ? (uint32_t)size : MAX_RANKS;
    uint32_t *node_of;

    if (n_ranks == 0)
        return;
    node_of = exact(n_ranks * sizeof(*node_of));
    for (uint32_t i = 0; i < n_ranks; i++)
        node_of[i] = data[i];
    check_encode(node_of, n_ranks);
    free(node_of);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_text(data, size);
    try_array(data, size);
    return 0;
}
