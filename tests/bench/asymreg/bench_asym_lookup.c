/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address to handle: the index, compared with the paper's binary search, the same without branches
 * over an array of keys, UCX's page table, a red-black tree (glibc's tsearch), std::map and
 * absl::btree_map. The first and the third also in batches of 32. Cases: regions spread evenly over
 * the address space (uniform), one behind the other as malloc() packs them (packed), in clusters of
 * 64 or of 1,000 that are far apart (clustered, clusters_1000); looked up at random, or 16 times in
 * a row (repeated). Everything is filled in the same random order; slices of the contestants are
 * interleaved; thread CPU time.
 */
#define _GNU_SOURCE
#include <asymreg.h>
#include <search.h>

#include "../../../libasymreg/src/table/table.h"
#include "../bench.h"
#include "peers.h"

#ifdef HAVE_UCS
#include <ucs/datastruct/pgtable.h>
#endif

#define N_ADDRS 65536u

/* ours */
struct ours {
    struct asymreg__index *ix;
    struct asymreg__reader *reader;
};

static void *ours_create(const struct item *items, size_t n)
{
    struct asymreg__index_opts o = {.max_regions = 0x200000};
    struct ours *self = malloc(sizeof(*self));
    asymreg_id id;

    if (!self || asymreg__index_create(&o, &self->ix) < 0) {
        free(self);
        return NULL;
    }
    asymreg__reader_create(self->ix, &self->reader);
    for (size_t i = 0; i < n; i++)
        if (asymreg__index_insert(self->ix, items[i].start, items[i].bytes, ASYMREG_RW,
                                  items[i].handle, &id) < 0)
            exit(1);
    return self;
}

static void *ours_create_plain(const struct item *items, size_t n)
{
    struct ours *self = ours_create(items, n);

    if (self)
        asymreg__search_pick(self->ix, 1);
    return self;
}

static inline uint64_t ours_find(struct ours *self, uint64_t addr)
{
    const struct asymreg_region *r = asymreg__index_lookup(self->reader, addr);

    return r ? r->value : 0;
}
DEFINE_RUNS(ours, struct ours, ours_find(self, addr))

/* Lookups that are independent can go in batches; a chain cannot. */
static uint64_t ours_many(void *opaque, const uint64_t *addrs, size_t n)
{
    struct ours *self = opaque;
    uint32_t words[ASYMREG__BATCH];
    struct asymreg_region found;
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i += ASYMREG__BATCH) {
        uint32_t k = n - i < ASYMREG__BATCH ? (uint32_t)(n - i) : ASYMREG__BATCH;
        asymreg__reader_enter(self->reader);
        asymreg__index_search_many(self->ix, addrs + i, k, words);
        for (uint32_t j = 0; j < k; j++)
            if (words[j] && asymreg__slot_read(self->ix, words[j] - 1, addrs[i + j], &found))
                sum += found.value;
        asymreg__reader_exit(self->reader);
    }
    return sum;
}

static void ours_destroy(void *opaque)
{
    struct ours *self = opaque;

    asymreg__reader_destroy(self->reader);
    asymreg__index_destroy(self->ix);
    free(self);
}

/* The paper's: a table sorted by start, searched in O(log2 N) comparisons. */
struct sorted {
    struct item *items;
    size_t n;
};

static int by_start(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    return (x->start > y->start) - (x->start < y->start);
}

static void *sorted_create(const struct item *items, size_t n)
{
    struct sorted *self = malloc(sizeof(*self));

    self->items = malloc(n * sizeof(*items));
    self->n = n;
    memcpy(self->items, items, n * sizeof(*items));
    qsort(self->items, n, sizeof(*items), by_start);
    return self;
}

static inline uint64_t sorted_find(const struct sorted *self, uint64_t addr)
{
    size_t low = 0, high = self->n;

    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct item *it = &self->items[middle];
        if (addr < it->start)
            high = middle;
        else if (addr - it->start < it->bytes)
            return it->handle;
        else
            low = middle + 1;
    }
    return 0;
}
DEFINE_RUNS(sorted, const struct sorted, sorted_find(self, addr))

static void sorted_destroy(void *opaque)
{
    struct sorted *self = opaque;

    free(self->items);
    free(self);
}

/* The same without branches, over the starts alone: a hand-tuned binary search. */
struct flat {
    uint64_t *starts;
    struct sorted *sorted;
};

static void *flat_create(const struct item *items, size_t n)
{
    struct flat *self = malloc(sizeof(*self));

    self->sorted = sorted_create(items, n);
    self->starts = malloc(n * sizeof(*self->starts));
    for (size_t i = 0; i < n; i++)
        self->starts[i] = self->sorted->items[i].start;
    return self;
}

static inline uint64_t flat_find(const struct flat *self, uint64_t addr)
{
    const uint64_t *at = self->starts;
    const struct item *it;

    for (size_t n = self->sorted->n; n > 1;) {
        size_t half = n / 2;
        at += half & -(size_t)(at[half] <= addr);
        n -= half;
    }
    it = &self->sorted->items[at - self->starts];
    return addr - it->start < it->bytes ? it->handle : 0;
}
DEFINE_RUNS(flat, const struct flat, flat_find(self, addr))

/* One step of each search in turn, so that their waits for memory overlap. */
static uint64_t flat_many(void *opaque, const uint64_t *addrs, size_t n)
{
    const struct flat *self = opaque;
    const uint64_t *at[ASYMREG__BATCH];
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i += ASYMREG__BATCH) {
        size_t k = n - i < ASYMREG__BATCH ? n - i : ASYMREG__BATCH;
        for (size_t j = 0; j < k; j++)
            at[j] = self->starts;
        for (size_t left = self->sorted->n, half; left > 1; left -= half) {
            half = left / 2;
            for (size_t j = 0; j < k; j++) {
                at[j] += half & -(size_t)(at[j][half] <= addrs[i + j]);
                __builtin_prefetch(at[j] + (left - half) / 2);
            }
        }
        for (size_t j = 0; j < k; j++)
            __builtin_prefetch(&self->sorted->items[at[j] - self->starts]);
        for (size_t j = 0; j < k; j++) {
            const struct item *it = &self->sorted->items[at[j] - self->starts];
            sum += addrs[i + j] - it->start < it->bytes ? it->handle : 0;
        }
    }
    return sum;
}

static void flat_destroy(void *opaque)
{
    struct flat *self = opaque;

    sorted_destroy(self->sorted);
    free(self->starts);
    free(self);
}

/* A red-black tree: glibc's tsearch(). */
struct tree {
    void *root;
    struct item *items;
};

static int by_range(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->start + x->bytes <= y->start)
        return -1;
    return x->start >= y->start + y->bytes;
}

static void *tree_create(const struct item *items, size_t n)
{
    struct tree *self = calloc(1, sizeof(*self));

    self->items = malloc(n * sizeof(*items));
    memcpy(self->items, items, n * sizeof(*items));
    for (size_t i = 0; i < n; i++)
        tsearch(&self->items[i], &self->root, by_range);
    return self;
}

static inline uint64_t tree_find(struct tree *self, uint64_t addr)
{
    struct item key = {addr, 1, 0};
    void *found = tfind(&key, &self->root, by_range);

    return found ? (*(struct item **)found)->handle : 0;
}
DEFINE_RUNS(tree, struct tree, tree_find(self, addr))

static void keep(void *p)
{
}

static void tree_destroy(void *opaque)
{
    struct tree *self = opaque;

    tdestroy(self->root, keep);
    free(self->items);
    free(self);
}

#ifdef HAVE_UCS
struct pgt_item {
    ucs_pgt_region_t region;
    uint64_t handle;
};

struct pgt {
    ucs_pgtable_t table;
    struct pgt_item *items;
};

static ucs_pgt_dir_t *dir_alloc(const ucs_pgtable_t *table)
{
    return aligned_alloc(64, (sizeof(ucs_pgt_dir_t) + 63) / 64 * 64);
}

static void dir_release(const ucs_pgtable_t *table, ucs_pgt_dir_t *dir)
{
    free(dir);
}

static void *pgt_create(const struct item *items, size_t n)
{
    struct pgt *self = malloc(sizeof(*self));

    self->items = aligned_alloc(64, (n * sizeof(*self->items) + 63) / 64 * 64);
    ucs_pgtable_init(&self->table, dir_alloc, dir_release);
    for (size_t i = 0; i < n; i++) {
        self->items[i].region.start = items[i].start;
        self->items[i].region.end = items[i].start + items[i].bytes;
        self->items[i].handle = items[i].handle;
        if (ucs_pgtable_insert(&self->table, &self->items[i].region) != UCS_OK)
            exit(1);
    }
    return self;
}

static inline uint64_t pgt_find(struct pgt *self, uint64_t addr)
{
    const ucs_pgt_region_t *r = ucs_pgtable_lookup(&self->table, addr);

    return r ? ((const struct pgt_item *)(const void *)r)->handle : 0;
}
DEFINE_RUNS(pgt, struct pgt, pgt_find(self, addr))

static void drop(const ucs_pgtable_t *table, ucs_pgt_region_t *region, void *arg)
{
    (void)table, (void)region, (void)arg;
}

static void pgt_destroy(void *opaque)
{
    struct pgt *self = opaque;

    ucs_pgtable_purge(&self->table, drop, NULL);
    ucs_pgtable_cleanup(&self->table);
    free(self->items);
    free(self);
}
#endif

static const struct peer ours = {"ours", ours_create, ours_run, ours_chain, ours_destroy};
static const struct peer ours_batches = {"ours, in batches", ours_create, ours_many, NULL,
                                         ours_destroy};
static const struct peer flat_batches = {"binary search, branch-free, in batches", flat_create,
                                         flat_many, NULL, flat_destroy};
static const struct peer ours_plain = {"ours (plain C)", ours_create_plain, ours_run, ours_chain,
                                       ours_destroy};
static const struct peer sorted = {"binary search", sorted_create, sorted_run, sorted_chain,
                                   sorted_destroy};
static const struct peer flat = {"binary search, branch-free", flat_create, flat_run, flat_chain,
                                 flat_destroy};
static const struct peer tree = {"red-black tree", tree_create, tree_run, tree_chain, tree_destroy};
#ifdef HAVE_UCS
static const struct peer pgt = {"pgtable", pgt_create, pgt_run, pgt_chain, pgt_destroy};
#endif

static const struct peer *const peers[] = {
    &ours,         &ours_batches, &sorted, &flat, &flat_batches,
#ifdef HAVE_UCS
    &pgt,
#endif
    &tree,
#ifdef HAVE_CXX
    &peer_std_map,
#ifdef HAVE_ABSL
    &peer_absl,
#endif
#endif
    &ours_plain,
};
enum { N_PEERS = sizeof(peers) / sizeof(*peers) };

enum layout { EVEN, PACKED, CLUSTERS_64, CLUSTERS_1000 };

/* Regions of 16-byte granularity (UCX's), in random order. */
static void make_items(struct bench *b, struct item *items, size_t n, enum layout layout)
{
    uint64_t at = UINT64_C(0x7f0000000000);

    for (size_t i = 0; i < n; i++) {
        items[i].bytes = 16 * (1 + (uint64_t)bench_random(b, 64));
        if (layout == CLUSTERS_64 && i % 64 == 0)
            at += UINT64_C(4096) << bench_random(b, 14);
        if (layout == CLUSTERS_1000 && i % 1000 == 0)
            at += UINT64_C(4096) << (10 + bench_random(b, 14));
        items[i].start = at + (layout == EVEN ? 16 * (uint64_t)bench_random(b, 64) : 0);
        at = layout == EVEN ? at + 2048
             : layout == PACKED
                 ? items[i].start + items[i].bytes + 16
                 : items[i].start + items[i].bytes + 16 * (uint64_t)bench_random(b, 4);
        items[i].handle = i + 1;
    }
    for (size_t i = n; i > 1; i--) {
        size_t k = bench_random(b, (uint32_t)i);
        struct item t = items[i - 1];
        items[i - 1] = items[k];
        items[k] = t;
    }
}

static void make_addrs(struct bench *b, const struct item *items, size_t n, int run,
                       uint64_t *addrs)
{
    for (uint32_t i = 0; i < N_ADDRS; i++) {
        static const struct item *it;
        if (i % (uint32_t)run == 0)
            it = &items[bench_random(b, (uint32_t)n)];
        addrs[i] = it->start + bench_random(b, (uint32_t)it->bytes);
    }
}

static void run_case(struct bench *b, const char *name, size_t n, enum layout layout, int run)
{
    unsigned trials = b->quick ? 3 : 15;
    static double ns[N_PEERS][2][BENCH_MAX_TRIALS];
    static uint64_t addrs[N_ADDRS], others[N_ADDRS];
    struct item *items = malloc(n * sizeof(*items));
    void *self[N_PEERS];
    uint64_t want = 0;

    make_items(b, items, n, layout);
    for (int p = 0; p < N_PEERS; p++)
        self[p] = peers[p]->create(items, n);
    for (unsigned t = 0; t < trials + 1; t++) { /* the first is for warming up */
        uint32_t slice = b->quick ? 4096 : N_ADDRS;
        make_addrs(b, items, n, run, addrs);
        make_addrs(b, items, n, 1, others);
        for (int k = 0; k < 2 * N_PEERS; k++) {
            int p = (k / 2 + (int)t) % N_PEERS;
            uint64_t begin, sum;
            if (!self[p] || (k % 2 && !peers[p]->chain))
                continue;
            peers[p]->run(self[p], others, slice); /* the caches hold this contestant's own data */
            begin = bench_cpu_ns();
            sum = (k % 2 ? peers[p]->chain : peers[p]->run)(self[p], addrs, slice);
            if (t)
                ns[p][k % 2][t - 1] = (double)(bench_cpu_ns() - begin) / slice;
            if (k == 0)
                want = sum;
            if (sum != want) {
                fprintf(stderr, "%s finds something else\n", peers[p]->name);
                exit(1);
            }
        }
    }
    for (int p = 0; p < N_PEERS; p++) {
        if (!self[p])
            continue;
        bench_figure(b, name, n, peers[p]->name, "ns_per_lookup", bench_median(ns[p][0], trials),
                     "ns");
        if (peers[p]->chain)
            bench_figure(b, name, n, peers[p]->name, "ns_per_dependent_lookup",
                         bench_median(ns[p][1], trials), "ns");
        peers[p]->destroy(self[p]);
    }
    fflush(stdout);
    free(items);
}

int main(int argc, char **argv)
{
    struct bench b;

    bench_init(&b, "asym_lookup", argc, argv);
    for (size_t n = 1; n <= (b.quick ? 10000u : 1000000u); n *= 10) {
        run_case(&b, "uniform", n, EVEN, 1);
        run_case(&b, "packed", n, PACKED, 1);
        run_case(&b, "clustered", n, CLUSTERS_64, 1);
        run_case(&b, "clusters_1000", n, CLUSTERS_1000, 1);
        run_case(&b, "repeated", n, EVEN, 16);
    }
    return 0;
}
