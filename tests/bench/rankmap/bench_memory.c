/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes of the communicators' rank maps, and of all communicators and addresses of a process.
 *
 *     bench_rankmap_memory [--quick] [--seed N]
 *
 * Cases named after a generator of rankmap-explain: the map of each of its communicators, ours and
 * other libraries' data structures. Ours is made, checked rank by rank, and counted twice: `map
 * bytes`, the parameters and tables, as counted for the others, and `allocated bytes`, all bytes
 * requested from the allocator. The program fails when ours exceeds the bytes promised for a case,
 * or ceil(log2 range) bits a rank + 64 bytes.
 *
 * Cases named `figure ...`: the paper's Figures 3 to 5, bytes a process, of VC-VCRT (480 bytes a
 * process, a table of pointers for each communicator; `shared`: duplicates share it, as MPICH 3.2's
 * do), of AV-Rankmap as in the paper (12 bytes a process, 12 a communicator), and of ours as
 * allocated: an address vector with tagged entries of 8 bytes, or an implicit one, and one map for
 * each communicator. `paper` has the figures of its text.
 */
#include "../bench.h"

#include <rankmap.h>

#include "peers.h"
#include "workload.h"

#define VC_BYTES  480u
#define AVE_BYTES 12u
#define MIB       (1024.0 * 1024.0)

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench_rankmap_memory: %s\n", what);
        exit(1);
    }
}

/* ---- An allocator that counts ---- */

static uint64_t n_allocated;

#define COUNTED_HEAD 16u /* each block begins with its size, and stays aligned */

static void *count_realloc(void *ctx, void *ptr, size_t bytes)
{
    unsigned char *p = malloc(COUNTED_HEAD + bytes);

    check(!ptr && p, "malloc()");
    memcpy(p, &bytes, sizeof(bytes));
    n_allocated += bytes;
    return p + COUNTED_HEAD;
}

static void count_free(void *ctx, void *ptr)
{
    unsigned char *p = (unsigned char *)ptr - COUNTED_HEAD;
    size_t bytes;

    memcpy(&bytes, p, sizeof(bytes));
    n_allocated -= bytes;
    free(p);
}

static const struct rankmap_allocator counting = {count_realloc, count_free, NULL};
static const struct rankmap_opts options = {.size = sizeof(options), .allocator = &counting};

/* ---- The maps ---- */

/* Makes the map of the i-th communicator the way its parent allows, and checks every rank. */
static struct rankmap *make_map(const struct workload *w, uint32_t i, struct rankmap **maps)
{
    const struct workload_comm *c = &w->comms[i];
    struct rankmap *ranks = NULL, *map = NULL;
    uint32_t *ids = malloc((size_t)c->n * sizeof(*ids));
    int r;

    check(ids != NULL, "out of memory");
    if (c->parent >= 0) {
        r = rankmap_from_ids(c->of_parent, sizeof(uint32_t), c->n, NULL, &ranks, NULL);
        if (r == 0)
            r = rankmap_compose(maps[c->parent], ranks, &options, &map);
        rankmap_unref(ranks);
    } else {
        r = rankmap_from_ids(c->ids, sizeof(uint32_t), c->n, &options, &map, NULL);
    }
    check(r == 0, rankmap_strerror(r));
    check(rankmap_size(map) == c->n && rankmap_ids(map, 0, c->n, sizeof(uint32_t), ids) == 0 &&
              memcmp(ids, c->ids, c->n * sizeof(*ids)) == 0,
          "a map has other ids than it was made of");
    free(ids);
    return map;
}

static uint64_t map_bytes(const struct rankmap *map)
{
    struct rankmap_info info = {.size = sizeof(info)};

    check(rankmap_query(map, &info) == 0, "rankmap_query()");
    return info.model_bytes + info.pinned_bytes;
}

static void count_peers(const struct workload *w, const struct workload_comm *c,
                        struct peer_bytes *bytes)
{
    struct peer_group g = {
        .n = c->n, .range = w->n_processes, .n_groups = (int)w->n_groups, .merged = c->merged};
    uint64_t *ids = malloc((size_t)c->n * sizeof(*ids));

    check(ids != NULL, "out of memory");
    for (uint32_t r = 0; r < c->n; r++)
        ids[r] = c->ids[r];
    g.ids = ids;
    peer_count(&g, bytes);
    free(ids);
}

static unsigned bits_below(uint64_t range)
{
    unsigned bits = 0;

    while (bits < 63 && (UINT64_C(1) << bits) < range)
        bits++;
    return bits;
}

/* A generator, and the most bytes that its largest map may take; 0 where only the general bound
 * holds. */
struct promise {
    const char *spec;
    uint64_t bytes;
};

static const struct promise promises[] = {
    {"dup", 16},
    {"odd-even", 16},
    {"row-column", 16},
    {"reversed", 16},
    {"random", 1970000},
    {"cart-reorder", 104},
    {"by-node", 40},
    {"transpose", 40},
    {"leaders", 40},
    {"brick", 56},
    {"shrink 1 1", 24},
    {"shrink 10 16", 132},
    {"merge", 24},
    {"merge-high", 40},
    {"sorted-random 50", 104000},
    {"sorted-random 1", 8900},
    {"hilbert", 1800000},
    {"spawn-chain", 96},
    {"lsms", 0},
    {"nwchem", 16},
    {"random 17", 0},
    {"random 1000", 0},
    {"sorted-random 50 100", 0},
    {"hilbert 4", 0},
};

static int run_promise(const struct bench *b, const struct promise *p)
{
    struct rankmap *maps[WORKLOAD_MAX_COMMS];
    struct workload w;
    char error[256];
    int failed = 0;

    if (workload_make(&w, p->spec, error, sizeof(error)) != 0) {
        fprintf(stderr, "bench_rankmap_memory: %s\n", error);
        exit(1);
    }
    for (uint32_t i = 0; i < w.n_comms; i++) {
        const struct workload_comm *c = &w.comms[i];
        struct rankmap_info info = {.size = sizeof(info)};
        uint64_t before = n_allocated, ours, allocated, bound;
        struct peer_bytes peer;
        char which[192];

        maps[i] = make_map(&w, i, maps);
        allocated = n_allocated - before;
        ours = map_bytes(maps[i]);
        check(rankmap_query(maps[i], &info) == 0, "rankmap_query()");
        check(allocated == info.total_bytes, "total_bytes is not what was allocated");
        bound = ((uint64_t)c->n * bits_below(info.max_id - info.min_id + 1) + 7) / 8 + 64;
        count_peers(&w, c, &peer);
        snprintf(which, sizeof(which), "%s: %s", p->spec, c->name);
        bench_figure(b, which, c->n, "ours", "map bytes", (double)ours, "bytes");
        bench_figure(b, which, c->n, "ours", "allocated bytes", (double)allocated, "bytes");
        bench_figure(b, which, c->n, "VC-VCRT", "map bytes", (double)peer.pointers, "bytes");
        bench_figure(b, which, c->n, "MPICH 4.0", "map bytes", (double)peer.mpich_4_0, "bytes");
        bench_figure(b, which, c->n, "MPICH main", "map bytes", (double)peer.mpich_main, "bytes");
        bench_figure(b, which, c->n, "Open MPI", "map bytes", (double)peer.openmpi, "bytes");
        bench_figure(b, which, c->n, "Open MPI sparse", "map bytes", (double)peer.openmpi_sparse,
                     "bytes");
        bench_figure(b, which, c->n, "plain table", "map bytes", (double)peer.table, "bytes");
        if (p->bytes)
            bench_figure(b, which, c->n, "promised", "map bytes", (double)p->bytes, "bytes");
        bench_figure(b, which, c->n, "bound", "allocated bytes", (double)bound, "bytes");
        fprintf(stderr, "%-60s %8lu | %-15s %8llu (%llu) | %8llu | %8llu %8llu %8llu %8llu\n",
                which, (unsigned long)c->n, info.kind_name, (unsigned long long)ours,
                (unsigned long long)allocated, (unsigned long long)p->bytes,
                (unsigned long long)peer.pointers, (unsigned long long)peer.mpich_4_0,
                (unsigned long long)peer.mpich_main, (unsigned long long)peer.openmpi_sparse);
        if ((p->bytes && ours > p->bytes) || allocated > bound) {
            fprintf(stderr,
                    "bench_rankmap_memory: %s: %llu bytes (%llu allocated), promised are %llu and "
                    "the bound is %llu\n",
                    which, (unsigned long long)ours, (unsigned long long)allocated,
                    (unsigned long long)p->bytes, (unsigned long long)bound);
            failed = 1;
        }
    }
    for (uint32_t i = 0; i < w.n_comms; i++)
        rankmap_unref(maps[i]);
    workload_free(&w);
    check(n_allocated == 0, "not all memory came back");
    return failed;
}

/* ---- Figures ---- */

struct total {
    double addresses, maps;
};

/* All communicators of a workload, each with a map of its own: bytes of maps. */
static double maps_of(const struct workload *w)
{
    struct rankmap *maps[WORKLOAD_MAX_COMMS];
    double bytes;

    for (uint32_t i = 0; i < w->n_comms; i++)
        maps[i] = make_map(w, i, maps);
    bytes = 0;
    for (uint32_t i = 0; i < w->n_comms; i++) {
        struct rankmap_info info = {.size = sizeof(info)};

        check(rankmap_query(maps[i], &info) == 0, "rankmap_query()");
        bytes += (double)info.total_bytes * w->comms[i].count;
    }
    for (uint32_t i = 0; i < w->n_comms; i++)
        rankmap_unref(maps[i]);
    return bytes;
}

/* An address vector of all processes, filled in. */
static double addresses_of(uint32_t n, uint32_t entry_bytes)
{
    const struct rankmap_av_opts opts = {.size = sizeof(opts),
                                         .allocator = &counting,
                                         .entry_bytes = entry_bytes,
                                         .capacity = UINT64_C(1) << 24,
                                         .tag_mask = entry_bytes == 8 ? UINT64_C(7) : 0};
    struct rankmap_info_av info = {.size = sizeof(info)};
    struct rankmap_av_group group;
    struct rankmap_av *av;
    double bytes;

    check(rankmap_av_create(&opts, &av) == 0 && rankmap_av_group_add(av, n, &group) == 0,
          "rankmap_av_create()");
    if (entry_bytes == 0)
        check(rankmap_av_set_rule(av, group.id, 0, 1, 0) == 0, "rankmap_av_set_rule()");
    else
        for (uint32_t i = 0; i < n; i++)
            check(rankmap_av_set(av, group.base + i, (uint64_t)i << 12, i & 1) == 0,
                  "rankmap_av_set()");
    check(rankmap_av_query(av, &info) == 0, "rankmap_av_query()");
    bytes = (double)info.bytes;
    rankmap_av_destroy(av);
    return bytes;
}

static void total_figure(const struct bench *b, const char *which, uint64_t n, const char *who,
                         struct total t)
{
    bench_figure(b, which, n, who, "bytes of addresses", t.addresses, "bytes");
    bench_figure(b, which, n, who, "bytes of maps", t.maps, "bytes");
    bench_figure(b, which, n, who, "bytes a process", t.addresses + t.maps, "bytes");
}

/* `x` is what the figure has on its x axis, or 0: then it is the number of processes. */
static void figure(const struct bench *b, const char *which, uint64_t x, const char *spec)
{
    struct total vcrt, shared, paper, ours, implicit;
    struct workload w;
    char error[256];
    double n_comms = 0, n;

    if (workload_make(&w, spec, error, sizeof(error)) != 0) {
        fprintf(stderr, "bench_rankmap_memory: %s\n", error);
        exit(1);
    }
    n = w.n_processes;
    vcrt = (struct total){n * VC_BYTES, n * 8}; /* and the world's own */
    shared = vcrt;
    for (uint32_t i = 0; i < w.n_comms; i++) {
        const struct workload_comm *c = &w.comms[i];

        n_comms += c->count;
        vcrt.maps += 8.0 * c->n * c->count;
        if (strcmp(c->model, "direct") != 0 || c->n != w.n_processes)
            shared.maps += 8.0 * c->n * c->count;
    }
    paper = (struct total){n * AVE_BYTES, (n_comms + 1) * 12};
    ours = (struct total){addresses_of(w.n_processes, 8), maps_of(&w)};
    implicit = (struct total){addresses_of(w.n_processes, 0), ours.maps};
    total_figure(b, which, x ? x : w.n_processes, "VC-VCRT", vcrt);
    total_figure(b, which, x ? x : w.n_processes, "VC-VCRT shared", shared);
    total_figure(b, which, x ? x : w.n_processes, "AV-Rankmap", paper);
    total_figure(b, which, x ? x : w.n_processes, "ours", ours);
    total_figure(b, which, x ? x : w.n_processes, "ours implicit", implicit);
    fprintf(stderr,
            "%-26s %8lu | VC-VCRT %6.1f MiB (shared %6.1f), AV-Rankmap %5.2f, ours %5.2f, implicit "
            "%.6f\n",
            which, (unsigned long)w.n_processes, (vcrt.addresses + vcrt.maps) / MIB,
            (shared.addresses + shared.maps) / MIB, (paper.addresses + paper.maps) / MIB,
            (ours.addresses + ours.maps) / MIB, (implicit.addresses + implicit.maps) / MIB);
    workload_free(&w);
}

static void figures(const struct bench *b)
{
    static const struct {
        const char *which, *spec;
    } apps[] = {{"figure 4, nek5000 24", "nek5000 24"},
                {"figure 4, nek5000 86", "nek5000 86"},
                {"figure 5, bt", "bt"},
                {"figure 5, ft", "ft"},
                {"figure 5, sp", "sp"},
                {"figure 5, amg2013", "amg2013"},
                {"figure 5, nekbone", "nekbone"},
                {"figure 5, amr", "amr"}};
    char spec[64];

    for (uint32_t n = 24576; n <= 786432; n *= 2) {
        snprintf(spec, sizeof(spec), "split 10 %lu", (unsigned long)n);
        figure(b, "figure 3, 10 splits", 0, spec);
        snprintf(spec, sizeof(spec), "split 100 %lu", (unsigned long)n);
        figure(b, "figure 3, 100 splits", 0, spec);
    }
    for (uint32_t count = 10; count <= 100; count += 30) {
        snprintf(spec, sizeof(spec), "split %lu", (unsigned long)count);
        figure(b, "figure 3c, 768K processes", count, spec);
    }
    for (unsigned i = 0; i < sizeof(apps) / sizeof(apps[0]); i++)
        figure(b, apps[i].which, 0, apps[i].spec);
    /* The numbers that the paper's text gives for its drawn figures; megabytes are taken as MiB,
     * and system memory as 1 GiB. */
    bench_figure(b, "figure 3, 10 splits", 786432, "paper, VC-VCRT, at least", "bytes a process",
                 0.4 * 1024 * MIB, "bytes");
    bench_figure(b, "figure 3, 100 splits", 786432, "paper, VC-VCRT, at least", "bytes a process",
                 1024 * MIB, "bytes");
    bench_figure(b, "figure 3, 100 splits", 786432, "paper, AV-Rankmap", "bytes a process", 9 * MIB,
                 "bytes");
    bench_figure(b, "figure 4, nek5000 86", 524288, "paper, VC-VCRT", "bytes a process", 250 * MIB,
                 "bytes");
    bench_figure(b, "figure 5, bt", 524288, "paper, VC-VCRT", "bytes a process", 244 * MIB,
                 "bytes");
    bench_figure(b, "figure 5, bt", 524288, "paper, AV-Rankmap", "bytes a process", 4 * MIB,
                 "bytes");
}

int main(int argc, char **argv)
{
    struct bench b;
    int failed = 0;

    bench_init(&b, "rankmap_memory", argc, argv);
    fprintf(stderr,
            "%-60s %8s | ours: model, map bytes (allocated) | promised | VC-VCRT, MPICH 4.0, MPICH "
            "main, Open MPI sparse\n",
            "", "ranks");
    for (unsigned i = 0; i < sizeof(promises) / sizeof(promises[0]); i++)
        failed |= run_promise(&b, &promises[i]);
    figures(&b);
    return failed;
}
