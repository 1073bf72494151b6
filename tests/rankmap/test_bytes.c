/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of communicators of 786,432 processes: the shapes that applications make, each with
 * its limit in bytes of model and tables. The lookup of each is compared with the array that it
 * came from.
 */
#include "rankmap_tools.h"

enum { W = 786432 };

static uint64_t bits_of(uint64_t value)
{
    return value ? 64 - (uint64_t)__builtin_clzll(value) : 0;
}

/* Makes the map, and checks its ids, the bound, and that it fits in `most` bytes. */
static void costs(const char *what, const uint32_t *ids, uint32_t n, uint64_t most)
{
    struct rankmap *map = from32(ids, n);
    struct rankmap_info info = query(map);
    uint64_t bits = bits_of(info.max_id - info.min_id), *all = xmalloc(n * sizeof(*all));

    if (info.model_bytes > most || info.total_bytes > (n * bits + 7) / 8 + 64)
        fail_msg("%s: %s of %llu bytes, %llu allowed", what, info.kind_name,
                 (unsigned long long)info.model_bytes, (unsigned long long)most);
    assert_int_equal(rankmap_ids(map, 0, n, sizeof(uint64_t), all), 0);
    for (uint32_t r = 0; r < n; r++)
        if (all[r] != ids[r])
            fail_msg("%s: rank %u is %llu, not %u", what, r, (unsigned long long)all[r], ids[r]);
    for (uint32_t r = 0; r < n; r += 1009)
        assert_int_equal(rankmap_id(map, r), ids[r]);
    free(all);
    rankmap_unref(map);
}

static void regular(void **state)
{
    uint32_t *a = xmalloc(W * sizeof(*a)), n;

    for (uint32_t r = 0; r < W; r++)
        a[r] = r;
    costs("dup", a, W, 16);
    for (uint32_t r = 0; r < W / 2; r++)
        a[r] = 2 * r + 1;
    costs("odd", a, W / 2, 16);
    for (uint32_t r = 0; r < 1024; r++)
        a[r] = 5 * 1024 + r;
    costs("row", a, 1024, 16);
    for (uint32_t r = 0; r < 768; r++)
        a[r] = 1024 * r + 77;
    costs("column", a, 768, 16);
    for (uint32_t r = 0; r < W; r++)
        a[r] = W - 1 - r;
    costs("reversed", a, W, 16);
    for (uint32_t r = 0; r < W; r++) /* Cartesian, 128·96·64, reordered in node bricks of 4·2·2 */
        a[r] = r % 4 + r / 4 % 2 * 128 + r / 8 % 2 * 128 * 96 + r / 16 % 32 * 4 +
               r / 512 % 48 * 256 + r / 24576 * 2 * 128 * 96;
    costs("bricks of nodes", a, W, 104);
    for (uint32_t r = 0; r < W; r++)
        a[r] = r / 16 + r % 16 * 49152;
    costs("by node, placed cyclically", a, W, 40);
    for (uint32_t r = 0; r < W; r++)
        a[r] = r % 768 * 1024 + r / 768;
    costs("transposed grid", a, W, 40);
    for (uint32_t r = 0; r < W / 4; r++)
        a[r] = r / 4 * 16 + r % 4;
    costs("4 leaders a node", a, W / 4, 40);
    for (uint32_t r = 0; r < 4096; r++)
        a[r] = r % 16 + r / 16 % 16 * 128 + r / 256 * 128 * 96;
    costs("16·16·16 brick", a, 4096, 56);
    n = 0;
    for (uint32_t r = 0; r < W; r++)
        if (r != 123456)
            a[n++] = r;
    costs("shrink, one failed", a, n, 24);
    n = 0;
    for (uint32_t r = 0; r < W; r++)
        if (r / 16 % 4999 != 700 || r / 16 / 4999 >= 10)
            a[n++] = r;
    costs("shrink, ten nodes", a, n, 132);
    for (uint32_t r = 0; r < W; r++)
        a[r] = r < W / 3 ? r + W : r - W / 3;
    costs("merge of two groups", a, W, 24);
    free(a);
}

static uint32_t hilbert(uint32_t side, uint32_t d)
{
    uint32_t x = 0, y = 0;

    for (uint32_t s = 1; s < side; s *= 2) {
        uint32_t rx = 1 & d / 2, ry = 1 & (d ^ rx), swap;

        if (ry == 0) {
            if (rx == 1) {
                x = s - 1 - x;
                y = s - 1 - y;
            }
            swap = x;
            x = y;
            y = swap;
        }
        x += s * rx;
        y += s * ry;
        d /= 4;
    }
    return y * side + x;
}

static void irregular(void **state)
{
    uint32_t *a = permutation(W, 77), n = 0;
    uint64_t seed = 6;

    costs("random permutation", a, W, 1970000);
    for (uint32_t r = 0; r < W; r++)
        if (scramble(&seed, 2) == 0)
            a[n++] = r;
    costs("sorted random half", a, n, 104448);
    n = 0;
    for (uint32_t r = 0; r < W; r++)
        if (scramble(&seed, 100) == 0)
            a[n++] = r;
    costs("sorted random hundredth", a, n, 8900);
    free(a);
    a = xmalloc((1u << 20) * sizeof(*a));
    for (uint32_t r = 0; r < 1u << 20; r++)
        a[r] = hilbert(1024, r);
    costs("Hilbert curve", a, 1u << 20, 1800000);
    free(a);
}

/* Communicators of 512K and 768K processes in the paper's figures: no figure grows with the number
 * of processes. */
static void many_communicators(void **state)
{
    struct rankmap *world = affine(0, 1, W), *half, *child;
    uint64_t bytes = 0, models = 0;

    for (uint32_t i = 0; i < 100; i++) {
        half = affine(i % 2, 2, W / 2);
        assert_int_equal(rankmap_compose(world, half, NULL, &child), 0);
        bytes += bytes_of(child);
        models += query(child).model_bytes;
        rankmap_unref(child);
        rankmap_unref(half);
    }
    assert_int_equal(bytes, 100 * (OBJECT_BYTES + 16));
    assert_int_equal(models, 1600);
    rankmap_unref(world);
}

/* The same communicators made by calls on groups, not from their ids: these may not take more. */
static void by_calls(void **state)
{
    const struct rankmap_level bricks[] = {{1, 4},  {128, 2},  {12288, 2},
                                           {4, 32}, {256, 48}, {24576, 0}};
    struct rankmap *world = affine(0, 1, W), *other = affine(W, 1, W), *map, *child,
                   *even = affine(0, 2, W / 2);
    struct rankmap_range nodes[10];
    const uint32_t failed = 123456;

    assert_int_equal(exclude_ranks(world, &failed, 1, NULL, &map), 0);
    assert_int_equal(rankmap_size(map), W - 1);
    assert_true(query(map).model_bytes <= 24);
    rankmap_unref(map);
    for (uint32_t i = 0; i < 10; i++)
        nodes[i] = (struct rankmap_range){(700 + 4999 * (uint64_t)i) * 16 % W,
                                          (700 + 4999 * (uint64_t)i) * 16 % W + 15, 1};
    assert_int_equal(exclude_ranges(world, nodes, 10, NULL, &map), 0);
    assert_int_equal(rankmap_size(map), W - 160);
    assert_true(query(map).model_bytes <= 132);
    rankmap_unref(map);
    assert_int_equal(rankmap_union(other, world, NULL, &map), 0);
    assert_true(query(map).model_bytes <= 24);
    rankmap_unref(map);
    assert_int_equal(rankmap_union(other, world, NULL, &map), 0);
    assert_true(query(map).model_bytes <= 24);
    rankmap_unref(map);
    assert_int_equal(make_layout(0, bricks, 6, 0, W, NULL, &child), 0);
    assert_int_equal(rankmap_compose(world, child, NULL, &map), 0);
    assert_true(query(map).model_bytes <= 104);
    rankmap_unref(child);
    rankmap_unref(map);
    map = rankmap_ref(world);
    for (uint32_t n = W / 2; n > W / 32; n /= 2) { /* even ranks of even ranks of ... */
        struct rankmap *half = affine(0, 2, n);

        assert_int_equal(rankmap_compose(map, half, NULL, &child), 0);
        assert_int_equal(query(child).model_bytes, 16);
        rankmap_unref(half);
        rankmap_unref(map);
        map = child;
    }
    assert_int_equal(rankmap_id(map, 5), 5 * 16);
    rankmap_unref(map);
    assert_int_equal(reverse_ranks(even, NULL, &map), 0);
    assert_int_equal(query(map).model_bytes, 16);
    rankmap_unref(map);
    rankmap_unref(even);
    rankmap_unref(other);
    rankmap_unref(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regular),
        cmocka_unit_test(irregular),
        cmocka_unit_test(many_communicators),
        cmocka_unit_test(by_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
