/* SPDX-License-Identifier: BSD-3-Clause */
#include "lookup_worlds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct vc *vcs;
static struct ch4_ave *ch4_entries;
static struct main_ave *main_entries;
static struct ompi_proc *procs;
static struct ompi_proc **proc_table;
static struct ch4_table ch4_table[2];
static struct main_table main_table[2], *main_table_list[2] = {&main_table[0], &main_table[1]};
static uint32_t n_max;

struct ch4_table *ch4_tables[2] = {&ch4_table[0], &ch4_table[1]}, *ch4_table0 = &ch4_table[0];
struct main_table **main_tables = main_table_list;
const uint64_t *ucc_addresses;
uint64_t *world_entries;

static void *need(void *p)
{
    if (!p) {
        fprintf(stderr, "bench_rankmap_lookup: out of memory\n");
        exit(1);
    }
    return p;
}

static void *map(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);

    return need(p == MAP_FAILED ? NULL : p);
}

void world_make(uint32_t max_ids)
{
    n_max = max_ids;
    vcs = map(max_ids * sizeof(*vcs));
    ch4_entries = map(max_ids * sizeof(*ch4_entries));
    main_entries = map(max_ids * sizeof(*main_entries));
    procs = map(max_ids * sizeof(*procs));
    proc_table = map(max_ids * sizeof(struct ompi_proc *));
    world_entries = map(max_ids * sizeof(*world_entries));
    ucc_addresses = world_entries;
}

uint64_t world_address(uint64_t id)
{
    return (id + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 8; /* none is 0, and the tag bits are free */
}

void world_fill(const uint32_t *ids, uint32_t n, uint32_t n_ids)
{
    madvise(vcs, n_max * sizeof(*vcs), MADV_DONTNEED);
    madvise(procs, n_max * sizeof(*procs), MADV_DONTNEED);
    ch4_table[0] = (struct ch4_table){n_ids, ch4_entries};
    ch4_table[1] = (struct ch4_table){n_ids / 2, ch4_entries + n_ids / 2};
    main_table[0] = (struct main_table){n_ids, main_entries};
    main_table[1] = (struct main_table){n_ids / 2, main_entries + n_ids / 2};
    memset(world_entries, 0, n_max * sizeof(*world_entries));
    memset(ch4_entries, 0, n_max * sizeof(*ch4_entries));
    memset(main_entries, 0, n_max * sizeof(*main_entries));
    for (uint32_t r = 0; r < n; r++) {
        uint32_t id = ids[r];
        uint64_t address = world_address(id);

        vcs[id].address = address;
        memcpy(ch4_entries[id].address, &address, sizeof(address));
        main_entries[id].address = address;
        procs[id].address = address;
        proc_table[id] = &procs[id];
        world_entries[id] = address;
    }
}

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(((*seed >> 32) * below) >> 32);
}

static void shuffle(uint32_t *ids, uint32_t n, uint64_t *seed)
{
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = draw(seed, i), t = ids[i - 1];

        ids[i - 1] = ids[k];
        ids[k] = t;
    }
}

static uint32_t subset(uint32_t *ids, uint32_t n, uint32_t n_ids, uint64_t *seed)
{
    uint32_t k = 0;

    for (uint32_t id = 0; k < n; id++)
        if (draw(seed, n_ids - id) < n - k)
            ids[k++] = id;
    return n;
}

uint32_t shape_ids(enum shape shape, uint32_t n, uint64_t seed, uint32_t *ids)
{
    if (shape == SHAPE_SET || shape == SHAPE_SPARSE)
        return subset(ids, shape == SHAPE_SET ? n : n / 8, 2 * n, &seed);
    for (uint32_t r = 0; r < n; r++) {
        const uint32_t piece = r / (n / 16);

        switch (shape) {
        case SHAPE_DIRECT: ids[r] = r; break;
        case SHAPE_OFFSET: ids[r] = n + r; break;
        case SHAPE_BLOCKSTRIDE: ids[r] = r / 16 * 32 + r % 16; break;
        case SHAPE_MLUT: ids[r] = r % 2 * n + r / 2; break;
        case SHAPE_MD: ids[r] = r / 16 * 32 + r / 4 % 4 + r % 4 * 4; break;
        case SHAPE_RUNS: ids[r] = r + piece * piece; break;
        default: ids[r] = 2 * r; break;
        }
    }
    if (shape == SHAPE_LUT || shape == SHAPE_MLUT)
        for (uint32_t r = 0; r < n; r += 64)
            shuffle(ids + r, n - r < 64 ? n - r : 64, &seed);
    if (shape == SHAPE_RANDOM)
        shuffle(ids, n, &seed);
    return n;
}

static void make_sw(struct sw_comm *c, enum shape shape, const uint32_t *ids, uint32_t n)
{
    struct ch4_gpid *mlut;
    int32_t *lut;

    memset(c, 0, sizeof(*c));
    switch (shape) {
    case SHAPE_DIRECT: c->mode = CH4_DIRECT_INTRA; return;
    case SHAPE_OFFSET:
        c->mode = CH4_OFFSET_INTRA;
        c->u.reg.offset = (int32_t)ids[0];
        return;
    case SHAPE_STRIDE:
        c->mode = CH4_STRIDE_INTRA;
        c->u.reg.offset = (int32_t)ids[0];
        c->u.reg.stride = (int32_t)(ids[1] - ids[0]);
        return;
    case SHAPE_BLOCKSTRIDE:
        c->mode = CH4_STRIDE_BLOCK_INTRA;
        c->u.reg.offset = (int32_t)ids[0];
        c->u.reg.stride = 32;
        c->u.reg.blocksize = 16;
        return;
    case SHAPE_MLUT:
        c->mode = CH4_MLUT;
        c->u.mlut = mlut = need(malloc(n * sizeof(*mlut)));
        for (uint32_t r = 0; r < n; r++)
            mlut[r] = (struct ch4_gpid){ids[r] >= n, (int32_t)(ids[r] % n)};
        return;
    default:
        c->mode = CH4_LUT_INTRA;
        c->u.lut = lut = need(malloc(n * sizeof(*lut)));
        for (uint32_t r = 0; r < n; r++)
            lut[r] = (int32_t)ids[r];
        return;
    }
}

static void make_pmap(struct pmap_comm *c, enum shape shape, const uint32_t *ids, uint32_t n)
{
    int64_t *lpids;

    memset(c, 0, sizeof(*c));
    c->size = (int32_t)n;
    if (shape <= SHAPE_STRIDE) {
        c->u.stride.offset = ids[0];
        c->u.stride.stride = (int64_t)ids[1] - ids[0];
        return;
    }
    c->use_map = 1;
    c->u.map = lpids = need(malloc(n * sizeof(*lpids)));
    for (uint32_t r = 0; r < n; r++) {
        int second = shape == SHAPE_MLUT && ids[r] >= n;

        lpids[r] = (int64_t)second << 32 | (second ? ids[r] - n : ids[r]);
    }
}

static void make_ucc(struct ucc_comm *c, enum shape shape, const uint32_t *ids, uint32_t n)
{
    uint32_t *array;

    memset(c, 0, sizeof(*c));
    c->ep_num = n;
    if (shape == SHAPE_DIRECT) {
        c->type = UCC_FULL;
    } else if (shape <= SHAPE_STRIDE) {
        c->type = UCC_STRIDED;
        c->u.strided.start = ids[0];
        c->u.strided.stride = (int64_t)ids[1] - ids[0];
    } else {
        c->type = UCC_ARRAY;
        c->u.array.elem_size = 4;
        c->u.array.map = array = need(malloc(n * sizeof(*array)));
        memcpy(array, ids, n * sizeof(*array));
    }
}

void make_peers(struct peers *p, enum shape shape, const uint32_t *ids, uint32_t n)
{
    static const struct sparse_comm world = {0, 0, 1, NULL, NULL};
    static struct sparse_comm top;

    p->vcrt.vcrt = need(malloc(n * sizeof(struct vc *)));
    for (uint32_t r = 0; r < n; r++)
        p->vcrt.vcrt[r] = &vcs[ids[r]];
    make_sw(&p->sw, shape, ids, n);
    make_pmap(&p->pmap, shape, ids, n);
    make_ucc(&p->ucc, shape, ids, n);
    top = world;
    top.procs = proc_table;
    if (shape <= SHAPE_STRIDE) {
        p->sparse =
            (struct sparse_comm){1, (int32_t)ids[0], (int32_t)(ids[1] - ids[0]), &top, NULL};
        return;
    }
    p->sparse = (struct sparse_comm){0, 0, 1, NULL, need(malloc(n * sizeof(struct ompi_proc *)))};
    for (uint32_t r = 0; r < n; r++)
        p->sparse.procs[r] = &procs[ids[r]];
}

void free_peers(struct peers *p, enum shape shape)
{
    free(p->vcrt.vcrt);
    if (shape >= SHAPE_LUT)
        free((void *)(uintptr_t)p->sw.u.lut);
    if (shape > SHAPE_STRIDE) {
        free((void *)(uintptr_t)p->pmap.u.map);
        free((void *)(uintptr_t)p->ucc.u.array.map);
        free(p->sparse.procs);
    }
}
