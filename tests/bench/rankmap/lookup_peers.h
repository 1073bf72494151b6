/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Other MPI libraries' ways from a rank to an address, reimplemented from their data structures,
 * one struct and one inline function each. All have the addresses of the same processes, each in
 * its own entry for a process.
 *
 *   vcrt    MPICH up to 3.2: a table of pointers to VCs of 480 bytes
 *   sw      ch4 of MPICH up to 4.3, the paper's: a switch over the models, then the entry of 12
 *           bytes in the process group's table
 *   pmap    MPICH since April 2025: offset and stride or a table of 64-bit ids, the process group
 *           in the upper half, entries of 32 bytes
 *   ucc     UCC's ucc_ep_map_t, then a table of 8-byte addresses
 *   sparse  Open MPI's sparse groups: up the chain of parents to the world, then a table of
 *           pointers to processes
 */
#ifndef FENCEPOST_BENCH_LOOKUP_PEERS_H
#define FENCEPOST_BENCH_LOOKUP_PEERS_H

#include <stdint.h>

/* ---- MPICH 3.2 ---- */

struct vc {
    char before[64]; /* state, reference count, process group, rank in it, ... */
    uint64_t address;
    char after[480 - 72];
};

struct vcrt_comm {
    struct vc **vcrt;
};

static inline uint64_t vcrt_address(const struct vcrt_comm *c, uint32_t rank)
{
    return c->vcrt[rank]->address;
}

/* ---- ch4 ---- */

struct ch4_ave {
    uint32_t address[2]; /* 8 bytes at an alignment of 4, so that an entry has 12 */
    uint32_t flags;
};

struct ch4_table {
    uint64_t size;
    struct ch4_ave *entries;
};

enum ch4_mode {
    CH4_DIRECT,
    CH4_DIRECT_INTRA,
    CH4_OFFSET,
    CH4_OFFSET_INTRA,
    CH4_STRIDE,
    CH4_STRIDE_INTRA,
    CH4_STRIDE_BLOCK,
    CH4_STRIDE_BLOCK_INTRA,
    CH4_LUT,
    CH4_LUT_INTRA,
    CH4_MLUT
};

struct ch4_gpid {
    int32_t avtid, lpid;
};

struct sw_comm {
    int32_t mode, avtid;
    union {
        struct {
            int32_t offset, stride, blocksize;
        } reg;
        const int32_t *lut;
        const struct ch4_gpid *mlut;
    } u;
};

extern struct ch4_table *ch4_tables[2], *ch4_table0;

static inline uint64_t sw_address(const struct sw_comm *c, uint32_t r)
{
    const struct ch4_ave *e;
    int32_t rank = (int32_t)r;
    uint64_t address;

    switch ((enum ch4_mode)c->mode) {
    case CH4_DIRECT: e = &ch4_tables[c->avtid]->entries[rank]; break;
    case CH4_DIRECT_INTRA: e = &ch4_table0->entries[rank]; break;
    case CH4_OFFSET: e = &ch4_tables[c->avtid]->entries[rank + c->u.reg.offset]; break;
    case CH4_OFFSET_INTRA: e = &ch4_table0->entries[rank + c->u.reg.offset]; break;
    case CH4_STRIDE:
        e = &ch4_tables[c->avtid]->entries[rank * c->u.reg.stride + c->u.reg.offset];
        break;
    case CH4_STRIDE_INTRA:
        e = &ch4_table0->entries[rank * c->u.reg.stride + c->u.reg.offset];
        break;
    case CH4_STRIDE_BLOCK:
        e = &ch4_tables[c->avtid]->entries[rank / c->u.reg.blocksize * c->u.reg.stride +
                                           rank % c->u.reg.blocksize + c->u.reg.offset];
        break;
    case CH4_STRIDE_BLOCK_INTRA:
        e = &ch4_table0->entries[rank / c->u.reg.blocksize * c->u.reg.stride +
                                 rank % c->u.reg.blocksize + c->u.reg.offset];
        break;
    case CH4_LUT: e = &ch4_tables[c->avtid]->entries[c->u.lut[rank]]; break;
    case CH4_LUT_INTRA: e = &ch4_table0->entries[c->u.lut[rank]]; break;
    case CH4_MLUT: e = &ch4_tables[c->u.mlut[rank].avtid]->entries[c->u.mlut[rank].lpid]; break;
    default: return 0;
    }
    __builtin_memcpy(&address, e->address, sizeof(address));
    return address;
}

/* ---- MPICH main ---- */

struct main_ave {
    uint64_t address;
    char other[24];
};

struct main_table {
    uint64_t size;
    struct main_ave *entries;
};

struct pmap_comm {
    int32_t size, use_map;
    union {
        struct {
            int64_t offset, stride;
        } stride;
        const int64_t *map;
    } u;
};

extern struct main_table **main_tables;

static inline uint64_t pmap_address(const struct pmap_comm *c, uint32_t rank)
{
    int64_t lpid;

    if ((int32_t)rank < 0 || (int32_t)rank >= c->size)
        return 0;
    if (c->use_map)
        lpid = c->u.map[rank];
    else
        lpid = c->u.stride.offset + (int64_t)rank * c->u.stride.stride;
    return main_tables[lpid >> 32]->entries[lpid & 0x7fffffff].address;
}

/* ---- UCC ---- */

enum ucc_type { UCC_FULL, UCC_STRIDED, UCC_ARRAY, UCC_CB };

struct ucc_comm {
    int32_t type;
    uint64_t ep_num;
    union {
        struct {
            uint64_t start;
            int64_t stride;
        } strided;
        struct {
            const void *map;
            uint64_t elem_size;
        } array;
        struct {
            uint64_t (*cb)(uint64_t ep, void *context);
            void *context;
        } cb;
    } u;
};

extern const uint64_t *ucc_addresses;

static inline uint64_t ucc_address(const struct ucc_comm *c, uint32_t rank)
{
    uint32_t ep;

    switch ((enum ucc_type)c->type) {
    case UCC_FULL: ep = rank; break;
    case UCC_STRIDED:
        ep = (uint32_t)((int64_t)c->u.strided.start + (int64_t)rank * c->u.strided.stride);
        break;
    case UCC_ARRAY:
        if (c->u.array.elem_size == 8)
            ep = (uint32_t)((const uint64_t *)c->u.array.map)[rank];
        else
            ep = ((const uint32_t *)c->u.array.map)[rank];
        break;
    default: ep = (uint32_t)c->u.cb.cb(rank, c->u.cb.context); break;
    }
    return ucc_addresses[ep];
}

/* ---- Open MPI, sparse groups ---- */

struct ompi_proc {
    char before[40];
    uint64_t address;
    char after[80];
};

struct sparse_comm {
    int32_t kind; /* 0: the table of processes, 1: strided */
    int32_t offset, stride;
    const struct sparse_comm *parent;
    struct ompi_proc **procs;
};

static inline uint64_t sparse_address(const struct sparse_comm *c, uint32_t rank)
{
    while (c->kind != 0) {
        rank = (uint32_t)(c->offset + (int32_t)rank * c->stride);
        c = c->parent;
    }
    return c->procs[rank]->address;
}

#endif
