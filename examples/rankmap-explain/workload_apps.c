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

static void block(struct maker *m, uint32_t processes, uint32_t parts, const char *name)
{
    uint32_t n = processes / parts;

    maker_affine(m, "offset", 1, n * (parts / 2), 1, n, name);
}

static void rows_and_columns(struct maker *m, uint32_t rows, uint32_t columns)
{
    maker_affine(m, "offset", 1, rows / 2 * columns, 1, columns, "row");
    maker_affine(m, "stride", 1, columns / 2, columns, rows, "column");
}

static void dups(struct maker *m, unsigned count, uint32_t processes)
{
    maker_affine(m, "direct", count, 0, 1, processes, "dup of the world");
}

static void make_dups(struct maker *m, uint32_t usual)
{
    uint32_t count = maker_number(m, "the number of duplicates", usual, 1, 1000000);

    dups(m, count, maker_processes(m, MIRA_HALF));
}

static void nek5000(struct maker *m)
{
    make_dups(m, 24);
}
static void nekbone(struct maker *m)
{
    make_dups(m, 2);
}
static void mcb(struct maker *m)
{
    make_dups(m, 3);
}
static void macsio(struct maker *m)
{
    make_dups(m, 4);
}
static void amg2013(struct maker *m)
{
    make_dups(m, 7);
}
static void cns(struct maker *m)
{
    make_dups(m, 2);
}
static void smc(struct maker *m)
{
    make_dups(m, 2);
}
static void amr(struct maker *m)
{
    make_dups(m, 5);
}

static void nwchem(struct maker *m)
{
    uint32_t dims[2] = {768, 1024}, windows, n;

    maker_grid(m, "ROWSxCOLUMNS", 2, dims);
    windows = maker_number(m, "the number of RMA windows", 64, 1, 1000000);
    n = dims[0] * dims[1];
    maker_group(m, 0, n);
    rows_and_columns(m, dims[0], dims[1]);
    dups(m, windows, n);
    if (n == 1)
        return;
    maker_affine(m, "direct", 1, 0, 1, n / 2, "intercommunicator, local group");
    maker_affine(m, "offset", 1, n / 2, 1, n - n / 2, "intercommunicator, remote group");
}

static void hacc(struct maker *m)
{
    maker_affine(m, "direct", 3, 0, 1, maker_processes(m, MIRA), "Cartesian grid, not reordered");
}

static void snap(struct maker *m)
{
    uint32_t n = maker_processes(m, MIRA_HALF);

    dups(m, 1, n);
    maker_affine(m, "direct", 1, 0, 1, n, "Cartesian grid, not reordered");
}

static void dup_and_block(struct maker *m)
{
    uint32_t n = maker_processes(m, MIRA_HALF);

    dups(m, 1, n);
    block(m, n, 64, "block of 1/64");
}

static void cian2(struct maker *m)
{
    block(m, maker_processes(m, MIRA_HALF), 64, "block of 1/64");
}

static void blocks_and_strides(struct maker *m)
{
    uint32_t n = maker_processes(m, MIRA_HALF);

    block(m, n, 16, "block of 1/16");
    maker_affine(m, "stride", 1, n / 32, n / 16 ? n / 16 : 1, n < 16 ? n : 16, "one of each block");
}

static void mocfe_bone(struct maker *m)
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

static void square_prefix(struct maker *m, uint32_t *side)
{
    uint32_t n = maker_processes(m, MIRA_HALF), s = 0;

    while ((uint64_t)(s + 1) * (s + 1) <= n)
        s++;
    dups(m, 1, n);
    maker_affine(m, "direct", 1, 0, 1, s * s, "the ranks of the largest square");
    *side = s;
}

static void sp(struct maker *m)
{
    uint32_t side;

    square_prefix(m, &side);
}

static void bt(struct maker *m)
{
    uint32_t side;

    square_prefix(m, &side);
    maker_affine(m, "stride", 1, side / 2, side, side, "column of the square");
}

static void dup_rows_columns(struct maker *m)
{
    uint32_t n = maker_processes(m, MIRA_HALF), rows = square_side(n);

    dups(m, 1, n);
    rows_and_columns(m, rows, n / rows);
}

static void lsms(struct maker *m)
{
    uint32_t n = maker_processes(m, MIRA_HALF);
    const uint32_t percents[] = {1, 50};
    uint64_t random = 1;

    block(m, n, 64, "block of 1/64");
    for (unsigned i = 0; i < 2; i++)
        maker_subset(m, n, percents[i], &random);
}

#define DUPS "[DUPLICATES] [PROCESSES]"
#define ALL  "[PROCESSES]"

const struct generator workload_apps[] = {
    {"nek5000", DUPS, "a duplicate for each refinement level: 24 (medium) or 86 (large)", nek5000},
    {"nwchem", "[ROWSxCOLUMNS] [WINDOWS]",
     "row and column of a grid, duplicates for RMA windows, an intercommunicator", nwchem},
    {"hacc", ALL, "Cartesian grids of 3, 2 and 1 dimensions, not reordered", hacc},
    {"qbox", ALL, "a duplicate and a block", dup_and_block},
    {"qmcpack", ALL, "a block and a stride", blocks_and_strides},
    {"cam-se", ALL, "a duplicate and a block", dup_and_block},
    {"namd", ALL, "a duplicate and a block", dup_and_block},
    {"lsms", ALL, "a block and irregular groups", lsms},
    {"sp", ALL, "a duplicate and the largest square of ranks", sp},
    {"bt", ALL, "the same and a column of it", bt},
    {"ft", ALL, "a duplicate and a block", dup_and_block},
    {"graph500", ALL, "a duplicate, a row and a column", dup_rows_columns},
    {"nekbone", DUPS, "duplicates", nekbone},
    {"snap", ALL, "a duplicate and a Cartesian grid", snap},
    {"mcb", DUPS, "duplicates", mcb},
    {"cian2", ALL, "a block", cian2},
    {"mcck", ALL, "a block and a stride", blocks_and_strides},
    {"mocfe_bone", ALL, "the three axes of a grid", mocfe_bone},
    {"pynamic", ALL, "a duplicate, a row and a column", dup_rows_columns},
    {"macsio", DUPS, "duplicates", macsio},
    {"amg2013", DUPS, "duplicates", amg2013},
    {"cns", DUPS, "duplicates", cns},
    {"smc", DUPS, "duplicates", smc},
    {"amr", DUPS, "duplicates", amr},
    {NULL, NULL, NULL, NULL},
};
