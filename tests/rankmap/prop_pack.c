/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Property: a packed map reads back with the same ids; a truncated one is an error; one with
 * changed bytes is an error or a map whose ids are distinct and below the limit.
 */
#include "random_map.h"

static uint64_t n_cases, n_refused, n_changed;

/* An accepted map must be valid: ids in range and distinct. */
static void check_sane(const struct rankmap *map)
{
    uint32_t n = rankmap_size(map);
    int64_t *ids;

    if (n > 100000)
        return;
    ids = malloc((n + 1) * sizeof(*ids));
    for (uint32_t r = 0; r < n; r++)
        ids[r] = (int64_t)rankmap_id(map, r);
    CHECK(in_range(ids, n, RANKMAP_ID_LIMIT));
    CHECK(!has_twins(ids, n));
    free(ids);
}

static void run(void)
{
    static int64_t ids[MAX_N], child_ids[MAX_N];
    uint32_t n, n_child;
    uint64_t limits[] = {50, 3000, UINT64_C(1) << 33, RANKMAP_ID_LIMIT};
    struct rankmap *map = random_map(ids, &n, limits[below(4)]), *child, *view, *again = NULL;
    unsigned char *bytes;
    size_t len;
    ssize_t got;

    if (!map)
        return;
    child = n > 0 && below(3) == 0 ? random_map(child_ids, &n_child, n) : NULL;
    if (child) { /* often a view */
        CHECK(rankmap_compose(map, child, NULL, &view) == 0);
        for (uint32_t r = 0; r < n_child; r++)
            child_ids[r] = ids[child_ids[r]];
        memcpy(ids, child_ids, n_child * sizeof(ids[0]));
        n = n_child;
        rankmap_unref(child);
        rankmap_unref(map);
        map = view;
    }
    n_cases++;
    len = (size_t)rankmap_pack(map, NULL, 0);
    bytes = malloc(len);
    CHECK(rankmap_pack(map, bytes, len - 1) == RANKMAP_ENOBUF);
    CHECK(rankmap_pack(map, bytes, len) == (ssize_t)len);
    CHECK(rankmap_unpack(bytes, len, NULL, &again) == (ssize_t)len);
    check_ids(again, ids, n);
    CHECK(rankmap_compare(map, again) == RANKMAP_IDENT);
    rankmap_unref(again);
    again = NULL;
    CHECK(rankmap_unpack(bytes, below(len), NULL, &again) < 0 && again == NULL);
    for (int i = 0; i < 8; i++) {
        unsigned char *at = bytes + (below(2) ? below(len) : below(len < 40 ? len : 40)), old = *at;

        *at = below(2) ? (unsigned char)below(256) : (unsigned char)(old ^ 1u << below(8));
        got = rankmap_unpack(bytes, len, NULL, &again);
        if (got < 0) {
            CHECK(again == NULL);
            n_refused++;
        } else {
            CHECK((size_t)got <= len);
            check_sane(again);
            rankmap_unref(again);
            again = NULL;
            n_changed++;
        }
        if (below(2))
            *at = old;
    }
    free(bytes);
    rankmap_unref(map);
}

int main(int argc, char **argv)
{
    int status = run_cases(argc, argv, run);

    printf("%" PRIu64 " maps; changed bytes: %" PRIu64 " refused, %" PRIu64 " other maps\n",
           n_cases, n_refused, n_changed);
    return status;
}
