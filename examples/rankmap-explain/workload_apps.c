/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applications: the kinds of communicators are those of the paper's Table I. Its text gives the
 * numbers for Nek5000, NWChem and HACC; all other sizes are assumed: blocks of 1/64 of the job
 * (1/16 in the Monte Carlo codes), grids as square as the number of processes allows, two to seven
 * duplicates in the mini-applications of Figure 5, 1 % and 50 % of all ranks, at random, for the
 * irregular groups of LSMS.
 */
#include "workload_make.h"

#define MIRA_HALF UINT32_C(524288) /* 512K, where the paper ran its applications */
#define MIRA      UINT32_C(786432) /* 768K, all of that machine */

/* The largest divisor of n that is not above its square root. */
static uint32_t square_side(uint32_t n)
{
    uint32_t side = 1;

    for (uint32_t d = 1; (uint64_t)d * d <= n; d++)
        if (n % d == 0)
            side = d;
    return side;
}

static void add_block(struct maker *m, uint32_t processes, uint32_t parts, const char *name)
{
    uint32_t n = processes / parts;

    maker_affine(m, "offset", 1, n * (parts / 2), 1, n, name);
}

static void add_rows_and_columns(struct maker *m, uint32_t rows, uint32_t columns)
{
    maker_affine(m, "offset", 1, rows / 2 * columns, 1, columns, "row");
    maker_affine(m, "stride", 1, columns / 2, columns, rows, "column");
}

static void add_dups(struct maker *m, unsigned count, uint32_t processes)
{
    maker_affine(m, "direct", count, 0, 1, processes, "dup of the world");
}

/* Duplicates alone: as many as the application's own number, unless an argument says so. */
static void make_dups(struct maker *m)
{
    uint32_t count = maker_number(m, "the number of duplicates", m->generator->usual, 1, 1000000);

    add_dups(m, count, maker_processes(m, MIRA_HALF));
}

static void make_nwchem(struct maker *m)
{
    uint32_t dims[2] = {768, 1024}, windows, n;

    maker_grid(m, "ROWSxCOLUMNS", 2, dims);
    windows = maker_number(m, "the number of RMA windows", 64, 1, 1000000);
    n = dims[0] * dims[1];
    maker_group(m, 0, n);
    add_rows_and_columns(m, dims[0], dims[1]);
    add_dups(m, windows, n);
    if (n == 1)
        return;
    maker_affine(m, "direct", 1, 0, 1, n / 2, "intercommunicator, local group");
    maker_affine(m, "offset", 1, n / 2, 1, n - n / 2, "intercommunicator, remote group");
}

static void make_hacc(struct maker *m)
{
    maker_affine(m, "direct", 3, 0, 1, maker_processes(m, MIRA), "Cartesian grid, not reordered");
}

static void make_snap(struct maker *m)
{
    uint32_t n = maker_processes(m, MIRA_HALF);

    add_dups(m, 1, n);
    maker_affine(m, "direct", 1, 0, 1, n, "Cartesian grid, not reordered");
}

static void make_dup_and_block(struct maker *m)
{
    uint32_t n = maker_processes(m, MIRA_HALF);

    add_dups(m, 1, n);
    add_block(m, n, 64, "block of 1/64");
}

static void make_cian2(struct maker *m)
{
    add_block(m, maker_processes(m, MIRA_HALF), 64, "block of 1/64");
}

static void make_blocks_and_strides(struct maker *m)
{
    uint32_t n = maker_processes(m, MIRA_HALF);

    add_block(m, n, 16, "block of 1/16");
    maker_affine(m, "stride", 1, n / 32, n / 16 ? n / 16 : 1, n < 16 ? n : 16, "one of each block");
}

static void make_mocfe_bone(struct maker *m)
{
    uint32_t n = maker_processes(m, MIRA_HALF), x, y, z, at;

    /* As cubic as divisors allow: z the largest divisor up to the cube root, then a square. */
    z = 1;
    for (uint32_t d = 1; (uint64_t)d * d * d <= n; d++)
        if (n % d == 0)
            z = d;
    y = square_side(n / z);
    x = n / z / y;
    at = (z / 2 * y + y / 2) * x + x / 2;
    maker_affine(m, "offset", 1, at - x / 2, 1, x, "x axis");
    maker_affine(m, "stride", 1, at - y / 2 * x, x, y, "y axis");
    maker_affine(m, "stride", 1, at - z / 2 * x * y, x * y, z, "z axis");
}

static void add_square(struct maker *m, uint32_t *side)
{
    uint32_t n = maker_processes(m, MIRA_HALF), s = 0;

    while ((uint64_t)(s + 1) * (s + 1) <= n)
        s++;
    add_dups(m, 1, n);
    maker_affine(m, "direct", 1, 0, 1, s * s, "the ranks of the largest square");
    *side = s;
}

static void make_sp(struct maker *m)
{
    uint32_t side;

    add_square(m, &side);
}

static void make_bt(struct maker *m)
{
    uint32_t side;

    add_square(m, &side);
    maker_affine(m, "stride", 1, side / 2, side, side, "column of the square");
}

static void make_dup_rows_columns(struct maker *m)
{
    uint32_t n = maker_processes(m, MIRA_HALF), rows = square_side(n);

    add_dups(m, 1, n);
    add_rows_and_columns(m, rows, n / rows);
}

static void make_lsms(struct maker *m)
{
    uint32_t n = maker_processes(m, MIRA_HALF);
    const uint32_t percents[] = {1, 50};
    uint64_t random = 1;

    add_block(m, n, 64, "block of 1/64");
    for (unsigned i = 0; i < 2; i++)
        maker_subset(m, n, percents[i], &random);
}

#define DUPS "[DUPLICATES] [PROCESSES]"
#define ALL  "[PROCESSES]"

const struct generator workload_apps[] = {
    {"nek5000", DUPS, "a duplicate for each refinement level: 24 (medium) or 86 (large)", make_dups,
     24},
    {"nwchem", "[ROWSxCOLUMNS] [WINDOWS]",
     "row and column of a grid, duplicates for RMA windows, an intercommunicator", make_nwchem, 0},
    {"hacc", ALL, "Cartesian grids of 3, 2 and 1 dimensions, not reordered", make_hacc, 0},
    {"qbox", ALL, "a duplicate and a block", make_dup_and_block, 0},
    {"qmcpack", ALL, "a block and a stride", make_blocks_and_strides, 0},
    {"cam-se", ALL, "a duplicate and a block", make_dup_and_block, 0},
    {"namd", ALL, "a duplicate and a block", make_dup_and_block, 0},
    {"lsms", ALL, "a block and irregular groups", make_lsms, 0},
    {"sp", ALL, "a duplicate and the largest square of ranks", make_sp, 0},
    {"bt", ALL, "the same and a column of it", make_bt, 0},
    {"ft", ALL, "a duplicate and a block", make_dup_and_block, 0},
    {"graph500", ALL, "a duplicate, a row and a column", make_dup_rows_columns, 0},
    {"nekbone", DUPS, "duplicates", make_dups, 2},
    {"snap", ALL, "a duplicate and a Cartesian grid", make_snap, 0},
    {"mcb", DUPS, "duplicates", make_dups, 3},
    {"cian2", ALL, "a block", make_cian2, 0},
    {"mcck", ALL, "a block and a stride", make_blocks_and_strides, 0},
    {"mocfe_bone", ALL, "the three axes of a grid", make_mocfe_bone, 0},
    {"pynamic", ALL, "a duplicate, a row and a column", make_dup_rows_columns, 0},
    {"macsio", DUPS, "duplicates", make_dups, 4},
    {"amg2013", DUPS, "duplicates", make_dups, 7},
    {"cns", DUPS, "duplicates", make_dups, 2},
    {"smc", DUPS, "duplicates", make_dups, 2},
    {"amr", DUPS, "duplicates", make_dups, 5},
    {.name = NULL},
};
