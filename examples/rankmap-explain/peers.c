/* SPDX-License-Identifier: BSD-3-Clause */
#include "peers.h"

#include <stddef.h>

/* ch4's test: the longest run of a[i] = i + offset at the front is the block, the next element
 * gives the stride, then all must fit. */
static int is_stride_block(const uint64_t *a, uint64_t n, uint64_t *block, int64_t *stride)
{
    uint64_t b = 1;

    while (b < n && a[b] == a[0] + b)
        b++;
    *block = b;
    *stride = 1;
    if (b == n)
        return 1;
    *stride = (int64_t)(a[b] - a[0]);
    if (*stride <= 0 || (uint64_t)*stride <= b)
        return 0;
    for (uint64_t i = b; i < n; i++)
        if (a[i] != a[0] + i / b * (uint64_t)*stride + i % b)
            return 0;
    return 1;
}

static int is_stride(const uint64_t *a, uint64_t n, int64_t *stride)
{
    *stride = n > 1 ? (int64_t)(a[1] - a[0]) : 1;
    for (uint64_t i = 2; i < n; i++)
        if ((int64_t)(a[i] - a[i - 1]) != *stride)
            return 0;
    return 1;
}

/* Whether an id takes more than 32 bits: no process group has so many processes. */
static int is_wide(const uint64_t *a, uint64_t n)
{
    uint64_t any = 0;

    for (uint64_t i = 0; i < n; i++)
        any |= a[i];
    return any > UINT32_MAX;
}

static void count_ch4(const struct peer_group *g, struct peer_bytes *bytes, int wide)
{
    uint64_t block;
    int64_t stride;

    if (g->n_groups > 1 || wide) {
        bytes->mpich_4_0 = 8 * g->n;
        bytes->mpich_4_0_model = "mlut";
    } else if (!is_stride_block(g->ids, g->n, &block, &stride)) {
        bytes->mpich_4_0 = 4 * g->n;
        bytes->mpich_4_0_model = "lut";
    } else {
        bytes->mpich_4_0 = 12;
        bytes->mpich_4_0_model = block == g->n ? (g->ids[0] == 0 ? "direct" : "offset")
                                 : block == 1  ? "stride"
                                               : "stride_block";
    }
}

static void count_sparse(const struct peer_group *g, struct peer_bytes *bytes)
{
    uint64_t runs = 1;
    int64_t stride;
    int ascending = 1;

    bytes->openmpi_sparse = bytes->pointers;
    bytes->openmpi_sparse_model = "dense";
    if (g->merged || g->n_groups > 1)
        return;
    for (uint64_t i = 1; i < g->n; i++) {
        runs += g->ids[i] != g->ids[i - 1] + 1;
        ascending &= g->ids[i] > g->ids[i - 1];
    }
    if (8 * runs < bytes->openmpi_sparse) {
        bytes->openmpi_sparse = 8 * runs;
        bytes->openmpi_sparse_model = "sporadic";
    }
    if (ascending && (g->range + 7) / 8 < bytes->openmpi_sparse) {
        bytes->openmpi_sparse = (g->range + 7) / 8;
        bytes->openmpi_sparse_model = "bitmap";
    }
    if (is_stride(g->ids, g->n, &stride) && stride >= 0 && 12 < bytes->openmpi_sparse) {
        bytes->openmpi_sparse = 12;
        bytes->openmpi_sparse_model = "strided";
    }
}

void peer_count(const struct peer_group *g, struct peer_bytes *bytes)
{
    int wide = is_wide(g->ids, g->n);
    int64_t stride;

    bytes->table = (wide ? 8 : 4) * g->n;
    bytes->table_model = wide ? "64 bits a rank" : "32 bits a rank";
    bytes->pointers = bytes->openmpi = 8 * g->n;
    count_ch4(g, bytes, wide);
    count_sparse(g, bytes);
    /* The world is in the upper half of main's 64-bit ids, so that a stride spans worlds only by
     * accident; its own are made of one. */
    if (g->n_groups == 1 && is_stride(g->ids, g->n, &stride)) {
        bytes->mpich_main = 16;
        bytes->mpich_main_model = "stride";
    } else {
        bytes->mpich_main = 8 * g->n;
        bytes->mpich_main_model = "map";
    }
}
