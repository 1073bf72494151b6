/* SPDX-License-Identifier: BSD-3-Clause */
/* Shapes of communicators that the applications of the survey hardly stress. */
#include "workload_make.h"

#define MIRA UINT32_C(786432) /* 768K: 49,152 nodes of 16 */

static uint32_t spec_ppn(struct maker *m)
{
    return maker_number(m, "processes a node", 16, 1, 4096);
}

static void make_dup(struct maker *m)
{
    maker_affine(m, "direct", 1, 0, 1, maker_processes(m, MIRA), "dup of the world");
}

static void make_split(struct maker *m)
{
    uint32_t count = maker_number(m, "the number of communicators", 10, 1, 1000000),
             n = maker_processes(m, MIRA);

    maker_affine(m, "stride", count, 0, 2, n / 2, "even ranks");
}

static void make_odd_even(struct maker *m)
{
    uint32_t generations = maker_number(m, "the number of generations", 4, 1, 12),
             n = maker_processes(m, MIRA);

    maker_affine(m, "direct", 1, 0, 1, n, "the world");
    for (uint32_t g = 0; g < generations; g++) {
        uint32_t *ranks = maker_child(m, g, "stride", n /= 2, "odd ranks of the one before");

        for (uint32_t r = 0; ranks && r < n; r++)
            ranks[r] = 2 * r + 1;
    }
}

static void make_row_column(struct maker *m)
{
    uint32_t dims[2] = {768, 1024};

    maker_grid(m, "ROWSxCOLUMNS", 2, dims);
    maker_group(m, 0, dims[0] * dims[1]);
    maker_affine(m, "offset", 1, dims[0] / 2 * dims[1], 1, dims[1], "row");
    maker_affine(m, "stride", 1, dims[1] / 2, dims[1], dims[0], "column");
}

static void make_reversed(struct maker *m)
{
    uint32_t n = maker_processes(m, MIRA),
             *ranks = maker_comm(m, "stride", 1, n, "the world, reversed");

    for (uint32_t r = 0; ranks && r < n; r++)
        ranks[r] = n - 1 - r;
}

static void make_random_order(struct maker *m)
{
    uint32_t n = maker_processes(m, MIRA),
             *ranks = maker_comm(m, "lut", 1, n, "the world in random order");
    uint64_t random = maker_number(m, "seed", 1, 0, UINT32_MAX);

    for (uint32_t r = 0; ranks && r < n; r++) {
        uint32_t k = workload_random(&random, r + 1);

        ranks[r] = ranks[k];
        ranks[k] = r;
    }
}

/* Nodes hold bricks of 2x2x4 of a grid; the grid's ranks are row-major, as MPI_Cart_create's are.
 */
static void make_cart_reorder(struct maker *m)
{
    const uint32_t brick[3] = {2, 2, 4};
    uint32_t dims[3] = {128, 96, 64}, n, *ranks;

    maker_grid(m, "XxYxZ", 3, dims);
    for (unsigned i = 0; i < 3; i++)
        if (dims[i] % brick[i])
            maker_fail(m, "the grid must be made of bricks of 2x2x4");
    n = dims[0] * dims[1] * dims[2];
    maker_group(m, 0, n);
    ranks = maker_comm(m, "md-blockstride", 1, n, "Cartesian grid, each node a brick of 2x2x4");
    for (uint32_t r = 0; ranks && r < n; r++) {
        uint32_t at[3] = {r / dims[2] / dims[1], r / dims[2] % dims[1], r % dims[2]}, node = 0,
                 slot = 0;

        for (unsigned i = 0; i < 3; i++) {
            node = node * (dims[i] / brick[i]) + at[i] / brick[i];
            slot = slot * brick[i] + at[i] % brick[i];
        }
        ranks[r] = node * 16 + slot;
    }
}

static void make_by_node(struct maker *m)
{
    uint32_t nodes = maker_number(m, "the number of nodes", 49152, 1, 1u << 20), ppn = spec_ppn(m),
             n = nodes * ppn;
    uint32_t *ranks;

    if ((uint64_t)nodes * ppn > WORKLOAD_MAX_RANKS)
        maker_fail(m, "more than %lu ranks", (unsigned long)WORKLOAD_MAX_RANKS);
    maker_group(m, 0, n);
    ranks =
        maker_comm(m, "blockstride", 1, n, "ordered by node where ranks were dealt out cyclically");
    for (uint32_t r = 0; ranks && r < n; r++)
        ranks[r] = r / ppn + r % ppn * nodes;
}

static void make_transpose(struct maker *m)
{
    uint32_t dims[2] = {768, 1024}, n, *ranks;

    maker_grid(m, "ROWSxCOLUMNS", 2, dims);
    n = dims[0] * dims[1];
    maker_group(m, 0, n);
    ranks = maker_comm(m, "blockstride", 1, n, "a grid, transposed");
    for (uint32_t r = 0; ranks && r < n; r++)
        ranks[r] = r % dims[0] * dims[1] + r / dims[0];
}

static void make_leaders(struct maker *m)
{
    uint32_t k = maker_number(m, "leaders a node", 4, 1, 4096), ppn = spec_ppn(m),
             n = maker_processes(m, MIRA), *ranks;

    if (k > ppn || n % ppn) {
        maker_fail(m, "nodes of %lu processes cannot have %lu leaders or make up %lu processes",
                   (unsigned long)ppn, (unsigned long)k, (unsigned long)n);
        return;
    }
    n = n / ppn * k;
    ranks = maker_comm(m, "blockstride", 1, n, "the first %lu of each node", (unsigned long)k);
    for (uint32_t r = 0; ranks && r < n; r++)
        ranks[r] = r / k * ppn + r % k;
}

static void make_brick(struct maker *m)
{
    uint32_t side = maker_number(m, "side", 16, 1, 256), dims[3] = {128, 96, 64},
             n = side * side * side, *ranks;

    maker_grid(m, "XxYxZ", 3, dims);
    if (side > dims[0] || side > dims[1] || side > dims[2])
        maker_fail(m, "a brick must fit into the grid");
    maker_group(m, 0, dims[0] * dims[1] * dims[2]);
    ranks =
        maker_comm(m, "md-blockstride", 1, n, "a cube of %lu out of the grid", (unsigned long)side);
    for (uint32_t r = 0; ranks && r < n; r++)
        ranks[r] = (r / side / side * dims[1] + r / side % side) * dims[2] + r % side;
}

/* One rank is gone, or all ranks of some nodes, evenly spaced, never the first or last. */
static void make_shrink(struct maker *m)
{
    uint32_t failed = maker_number(m, "failed nodes", 10, 1, 4096), ppn = spec_ppn(m),
             n = maker_processes(m, MIRA);
    uint32_t step = n / ppn / (failed + 1) * ppn, k = 0, *ranks;

    if (step <= ppn) {
        maker_fail(m, "%lu processes are too few", (unsigned long)n);
        return;
    }
    ranks = maker_comm(m, "runs", 1, n - failed * ppn, "survivors of %lu failures of %lu",
                       (unsigned long)failed, (unsigned long)ppn);
    for (uint32_t r = 0; ranks && r < n; r++)
        if (r < step || r % step >= ppn || r / step > failed)
            ranks[k++] = r;
}

/* The second group has the flat ids behind those of the first, where an address vector puts it. */
static void merge_groups(struct maker *m, int high)
{
    uint32_t n =
        maker_number(m, "processes of the first group", MIRA / 2, 1, WORKLOAD_MAX_RANKS / 2);
    uint32_t spawned =
                 maker_number(m, "processes of the second group", n, 1, WORKLOAD_MAX_RANKS / 2),
             *ranks;

    maker_group(m, 0, n);
    maker_group(m, n, spawned);
    ranks = maker_comm(m, high ? "runs" : "direct", 1, n + spawned,
                       "two groups merged, the %s first", high ? "second" : "first");
    for (uint32_t r = 0; ranks && r < n + spawned; r++)
        ranks[r] = high ? (r < spawned ? n + r : r - spawned) : r;
    if (!m->failed)
        m->w->comms[0].merged = 1;
}

static void make_merge(struct maker *m)
{
    merge_groups(m, 0);
}

static void make_merge_high(struct maker *m)
{
    merge_groups(m, 1);
}

/* A job that spawns again and again, each time 16 processes more, and merges; every second group
 * has left before the next comes. */
static void make_spawn_chain(struct maker *m)
{
    uint32_t links = maker_number(m, "groups", 8, 2, WORKLOAD_MAX_COMMS),
             n = maker_number(m, "processes of the first", 1024, 1, 65536);
    uint32_t base[WORKLOAD_MAX_COMMS], end = 0;

    for (uint32_t g = 0; g < links; g++) {
        base[g] = end + (g > 0 ? n + g * 16 - 8 : 0);
        end = base[g] + n + g * 16;
        maker_group(m, base[g], n + g * 16);
    }
    for (uint32_t last = 1; last < links; last++) {
        uint32_t size = (last + 1) * n + 8 * last * (last + 1), r = 0;
        uint32_t *ranks =
            maker_comm(m, "runs", 1, size, "merged with group %lu", (unsigned long)last);

        for (uint32_t g = 0; ranks && g <= last; g++)
            for (uint32_t lpid = 0; lpid < n + g * 16; lpid++)
                ranks[r++] = base[g] + lpid;
        if (!m->failed)
            m->w->comms[last - 1].merged = 1;
    }
}

static void make_sorted_random(struct maker *m)
{
    uint32_t percent = maker_number(m, "percent", 50, 1, 99), n = maker_processes(m, MIRA);
    uint64_t random = maker_number(m, "seed", 1, 0, UINT32_MAX);

    maker_subset(m, n, percent, &random);
}

static void make_hilbert(struct maker *m)
{
    uint32_t order = maker_number(m, "order", 10, 1, 12), side = 1u << order, n = side * side,
             *ranks;

    maker_group(m, 0, n);
    ranks = maker_comm(m, "lut", 1, n, "a grid of %lux%lu along a Hilbert curve",
                       (unsigned long)side, (unsigned long)side);
    for (uint32_t r = 0; ranks && r < n; r++) {
        uint32_t x = 0, y = 0, t = r;

        for (uint32_t s = 1; s < side; s *= 2) {
            uint32_t rx = 1 & (t / 2), ry = 1 & (t ^ rx);

            if (ry == 0) {
                uint32_t swap;

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
            t /= 4;
        }
        ranks[r] = y * side + x;
    }
}

const struct generator workload_shapes[] = {
    {"dup", "[PROCESSES]", "a duplicate", make_dup, 0},
    {"split", "[COMMUNICATORS] [PROCESSES]",
     "even ranks of the world, repeatedly (the paper's Figure 3)", make_split, 0},
    {"odd-even", "[GENERATIONS] [PROCESSES]",
     "odd ranks of the odd ranks of ... (the paper's Table VI)", make_odd_even, 0},
    {"row-column", "[ROWSxCOLUMNS]", "a row and a column of a grid", make_row_column, 0},
    {"reversed", "[PROCESSES]", "the world backwards", make_reversed, 0},
    {"random", "[PROCESSES] [SEED]", "the world in random order", make_random_order, 0},
    {"cart-reorder", "[XxYxZ]", "a reordered Cartesian grid, nodes being bricks of 2x2x4",
     make_cart_reorder, 0},
    {"by-node", "[NODES] [PPN]", "ranks ordered by node where they were dealt out cyclically",
     make_by_node, 0},
    {"transpose", "[ROWSxCOLUMNS]", "a grid, transposed", make_transpose, 0},
    {"leaders", "[LEADERS] [PPN] [PROCESSES]", "the first ranks of each node", make_leaders, 0},
    {"brick", "[SIDE] [XxYxZ]", "a cube out of a grid", make_brick, 0},
    {"shrink", "[FAILURES] [PPN] [PROCESSES]", "survivors; PPN ranks are gone in each failure",
     make_shrink, 0},
    {"merge", "[FIRST] [SECOND]", "two process groups merged, the first group first", make_merge,
     0},
    {"merge-high", "[FIRST] [SECOND]", "two process groups merged, the second group first",
     make_merge_high, 0},
    {"spawn-chain", "[GROUPS] [PROCESSES]", "a group spawned and merged, again and again",
     make_spawn_chain, 0},
    {"sorted-random", "[PERCENT] [PROCESSES] [SEED]", "some of the ranks, at random, ascending",
     make_sorted_random, 0},
    {"hilbert", "[ORDER]", "a square grid along a Hilbert curve", make_hilbert, 0},
    {.name = NULL},
};
