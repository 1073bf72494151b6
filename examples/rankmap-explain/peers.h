/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a communicator's rank map costs in other MPI libraries, in bytes a process, computed from
 * their data structures. Only what stands for the mapping itself is counted, not what each has for
 * a communicator anyhow.
 */
#ifndef RANKMAP_EXPLAIN_PEERS_H
#define RANKMAP_EXPLAIN_PEERS_H

#include <stdint.h>

struct peer_bytes {
    uint64_t table;    /* a plain table of 32-bit ids, of 64-bit ones where one takes more */
    uint64_t pointers; /* VC-VCRT of MPICH up to 3.2, and Open MPI's default: a pointer a rank */
    /* ch4 up to 4.3: direct, offset, stride and stride_block 12 B, lut 4 B a rank, mlut 8 B a
     * rank */
    uint64_t mpich_4_0;
    uint64_t mpich_main; /* since April 2025: offset and stride 16 B, else 8 B a rank */
    uint64_t openmpi;    /* a pointer a rank */
    /* --enable-sparse-groups: the smallest of pointers, strided, runs and bitmap */
    uint64_t openmpi_sparse;
    const char *table_model, *mpich_4_0_model, *mpich_main_model, *openmpi_sparse_model;
};

/* The n ranks of a group as its own library would see them. */
struct peer_group {
    const uint64_t *ids; /* n flat ids */
    uint64_t n;
    uint64_t range; /* all processes: the bits of a bitmap */
    int n_groups;   /* process groups that the ids are of: more than one is an mlut */
    int merged;     /* a union of groups, which Open MPI always makes dense */
};

void peer_count(const struct peer_group *g, struct peer_bytes *bytes);

#endif
