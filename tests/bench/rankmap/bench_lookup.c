/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a rank to an address, compared with the methods of MPICH 3.2, ch4 (the paper's switch),
 * MPICH main, UCC and Open MPI's sparse groups.
 *
 *     bench_rankmap_lookup [--quick] [--seed N]
 *
 * Communicators of n ranks in a world of 2n: the first half (direct), the second (offset), even
 * ranks (stride), 16 of each 32 (blockstride), even ranks, shuffled in groups of 64 (lut), the
 * same of two process groups (mlut), all shuffled (lut, random order), and four shapes that only
 * ours has models for. `ours` are maps made with RANKMAP_FAST, `ours compact` those without it,
 * where they differ. `mixed` are 64 communicators of all these models, each lookup in another one
 * at random; `mixed strides` 64 strides. `generation 1` to `4` are the odd ranks of the odd ranks
 * of ..., each composed with the one before. `..., ranks of 1 (64) at random` are communicators of
 * one model, and beside them the arrays that maps save: the addresses of each communicator's ranks,
 * 8 bytes each (`ns_per_random_lookup`).
 *
 * A lookup reads the address out of the entry that the library keeps for a process. The lookup
 * knows only the communicator's pointer and reads everything again, as in a program that sends a
 * message after each lookup. Times are the thread's processor time over walks in rank order,
 * medians over alternating trials: `ns_per_lookup` with lookups that may overlap in the processor,
 * `ns_per_dependent_lookup` with each lookup waiting for the address of the one before.
 * Instructions are callgrind's for a function of one lookup, with its load and return.
 */
#include "../bench.h"

#include <rankmap.h>

#include "icount.h"
#include "lookup_worlds.h"

#define N_MIXED     64u
#define MIX_LOOKUPS (1u << 20)
#define N_COUNTED   1024u
#define GENERATIONS 4u
#define MAX_HALF    1024000u /* of the world */

/* ---- Ours ---- */

static inline uint64_t ours_address(const struct rankmap_lookup *c, uint32_t rank)
{
    return *(const uint64_t *)(uintptr_t)rankmap_at_sized(c, rank, sizeof(uint64_t));
}

static inline uint64_t nobranch_address(const struct rankmap_lookup *c, uint32_t rank)
{
    return *(const uint64_t *)(uintptr_t)rankmap_at_nobranch_sized(c, rank, sizeof(uint64_t));
}

/* For a caller that has branched on the model already: no test, the width a constant. The
 * model is the case's, known to the compiler. */
static inline uint64_t affine_address(const struct rankmap_lookup *c, uint32_t rank)
{
    return *(const uint64_t *)(uintptr_t)rankmap_at_form(c, RANKMAP_FORM_AFFINE, rank,
                                                         sizeof(uint64_t));
}

static inline uint64_t block_address(const struct rankmap_lookup *c, uint32_t rank)
{
    return *(const uint64_t *)(uintptr_t)rankmap_at_form(c, RANKMAP_FORM_BLOCK, rank,
                                                         sizeof(uint64_t));
}

static inline uint64_t lut_address(const struct rankmap_lookup *c, uint32_t rank)
{
    return *(const uint64_t *)(uintptr_t)rankmap_at_form(c, RANKMAP_FORM_LUT32, rank,
                                                         sizeof(uint64_t));
}

struct comms {
    struct vcrt_comm vcrt[N_MIXED];
    struct sw_comm sw[N_MIXED];
    struct pmap_comm pmap[N_MIXED];
    struct ucc_comm ucc[N_MIXED];
    struct sparse_comm sparse[N_MIXED];
    _Alignas(64) struct rankmap_lookup ours[N_MIXED];
    _Alignas(64) struct rankmap_lookup compact[N_MIXED]; /* without RANKMAP_FAST */
    struct rankmap *fast_map[N_MIXED], *compact_map[N_MIXED];
};

static struct comms comms;

struct pick {
    uint32_t comm, rank;
};

/* ---- Walks and single lookups of all contestants ---- */

/* WHO(name, field, function, name in figures) */
#define EVERYONE(WHO)                                                                              \
    WHO(ours, ours, ours_address, "ours")                                                          \
    WHO(nobranch, ours, nobranch_address, "ours branch-free")                                      \
    WHO(compact, compact, ours_address, "ours compact")                                            \
    WHO(vcrt, vcrt, vcrt_address, "VC-VCRT")                                                       \
    WHO(sw, sw, sw_address, "switch")                                                              \
    WHO(pmap, pmap, pmap_address, "MPICH main")                                                    \
    WHO(ucc, ucc, ucc_address, "UCC")                                                              \
    WHO(sparse, sparse, sparse_address, "Open MPI sparse")

/* Ours again, the model known; which of these it is depends on the case. */
#define KNOWN(WHO)                                                                                 \
    WHO(affine, ours, affine_address, "")                                                          \
    WHO(block, ours, block_address, "")                                                            \
    WHO(lut, ours, lut_address, "")

#define ENUM(name, field, function, label) WHO_##name,
enum who { WHO_known, EVERYONE(ENUM) N_WHO };

/* The compiler must not keep anything of a communicator from one lookup to the next, nor know where
 * it is. */
#define FORGET() __asm__ volatile("" : : : "memory")
static inline const void *somewhere(const void *p)
{
    __asm__("" : "+r"(p));
    return p;
}

static volatile uint64_t nothing_at_all;
static uint64_t nothing; /* 0, which the compiler cannot know */

#define WALK(name, field, function, label)                                                         \
    static uint64_t walk_##name(uint32_t n, uint32_t rounds)                                       \
    {                                                                                              \
        const __typeof__(comms.field[0]) *comm = somewhere(comms.field);                           \
        uint64_t sum = 0;                                                                          \
                                                                                                   \
        for (uint32_t i = 0; i < rounds; i++)                                                      \
            for (uint32_t r = 0; r < n; r++) {                                                     \
                sum += function(comm, r);                                                          \
                FORGET();                                                                          \
            }                                                                                      \
        return sum;                                                                                \
    }                                                                                              \
    static uint64_t chain_##name(uint32_t n, uint32_t rounds)                                      \
    {                                                                                              \
        const __typeof__(comms.field[0]) *comm = somewhere(comms.field);                           \
        uint64_t sum = 0;                                                                          \
                                                                                                   \
        for (uint32_t i = 0; i < rounds; i++)                                                      \
            for (uint32_t r = 0; r < n; r++) {                                                     \
                uint64_t address = function(comm, r);                                              \
                                                                                                   \
                sum += address;                                                                    \
                r += (uint32_t)(address & nothing);                                                \
                FORGET();                                                                          \
            }                                                                                      \
        return sum;                                                                                \
    }

#define MIX(name, field, function, label)                                                          \
    static uint64_t mix_##name(const struct pick *picks, uint32_t n)                               \
    {                                                                                              \
        const __typeof__(comms.field[0]) *comm = somewhere(comms.field);                           \
        uint64_t sum = 0;                                                                          \
                                                                                                   \
        for (uint32_t i = 0; i < n; i++) {                                                         \
            sum += function(comm + picks[i].comm, picks[i].rank);                                  \
            FORGET();                                                                              \
        }                                                                                          \
        return sum;                                                                                \
    }                                                                                              \
    static uint64_t mixchain_##name(const struct pick *picks, uint32_t n)                          \
    {                                                                                              \
        const __typeof__(comms.field[0]) *comm = somewhere(comms.field);                           \
        uint64_t sum = 0;                                                                          \
                                                                                                   \
        for (uint32_t i = 0; i < n; i++) {                                                         \
            uint64_t address = function(comm + picks[i].comm, picks[i].rank);                      \
                                                                                                   \
            sum += address;                                                                        \
            i += (uint32_t)(address & nothing);                                                    \
            FORGET();                                                                              \
        }                                                                                          \
        return sum;                                                                                \
    }

EVERYONE(WALK)
EVERYONE(MIX)
KNOWN(WALK)

static uint32_t known_form; /* RANKMAP_FORM_... of the current communicator */

static uint64_t walk_known(uint32_t n, uint32_t rounds)
{
    return known_form == RANKMAP_FORM_AFFINE  ? walk_affine(n, rounds)
           : known_form == RANKMAP_FORM_BLOCK ? walk_block(n, rounds)
                                              : walk_lut(n, rounds);
}

static uint64_t chain_known(uint32_t n, uint32_t rounds)
{
    return known_form == RANKMAP_FORM_AFFINE  ? chain_affine(n, rounds)
           : known_form == RANKMAP_FORM_BLOCK ? chain_block(n, rounds)
                                              : chain_lut(n, rounds);
}

static const struct {
    const char *label;
    uint64_t (*walk)(uint32_t n, uint32_t rounds);
    uint64_t (*chain)(uint32_t n, uint32_t rounds);
    uint64_t (*mix)(const struct pick *picks, uint32_t n);
    uint64_t (*mixchain)(const struct pick *picks, uint32_t n);
} everyone[N_WHO] = {{"ours, model known", walk_known, chain_known, NULL, NULL},
#define ENTRY(name, field, function, label)                                                        \
    {label, walk_##name, chain_##name, mix_##name, mixchain_##name},
                     EVERYONE(ENTRY)};

/* ---- Cases ---- */

static const struct {
    enum shape shape;
    const char *name;
} cases[] = {{SHAPE_DIRECT, "direct"},
             {SHAPE_OFFSET, "offset"},
             {SHAPE_STRIDE, "stride"},
             {SHAPE_BLOCKSTRIDE, "blockstride"},
             {SHAPE_LUT, "lut"},
             {SHAPE_MLUT, "mlut"},
             {SHAPE_RANDOM, "lut, random order"},
             {SHAPE_MD, "md-blockstride"},
             {SHAPE_RUNS, "runs"},
             {SHAPE_SET, "bitmap"},
             {SHAPE_SPARSE, "elias-fano"}};

#define N_CASES (sizeof(cases) / sizeof(cases[0]))

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench_rankmap_lookup: %s\n", what);
        exit(1);
    }
}

static void make_comm(unsigned i, enum shape shape, const uint32_t *ids, uint32_t n)
{
    struct rankmap_opts opts = {.size = sizeof(opts), .flags = RANKMAP_FAST};
    struct peers p;

    make_peers(&p, shape, ids, n);
    comms.vcrt[i] = p.vcrt;
    comms.sw[i] = p.sw;
    comms.pmap[i] = p.pmap;
    comms.ucc[i] = p.ucc;
    comms.sparse[i] = p.sparse;
    check(rankmap_from_ids(ids, sizeof(uint32_t), n, &opts, &comms.fast_map[i], NULL) == 0,
          "rankmap_from_ids()");
    check(rankmap_from_ids(ids, sizeof(uint32_t), n, NULL, &comms.compact_map[i], NULL) == 0,
          "rankmap_from_ids()");
    check(rankmap_lookup_init(&comms.ours[i], comms.fast_map[i], (uintptr_t)world_entries,
                              sizeof(*world_entries)) == 0 &&
              rankmap_lookup_init(&comms.compact[i], comms.compact_map[i], (uintptr_t)world_entries,
                                  sizeof(*world_entries)) == 0,
          "rankmap_lookup_init()");
}

static void free_comm(unsigned i, enum shape shape)
{
    struct peers p = {comms.vcrt[i], comms.sw[i], comms.pmap[i], comms.ucc[i], comms.sparse[i]};

    free_peers(&p, shape);
    rankmap_unref(comms.fast_map[i]);
    rankmap_unref(comms.compact_map[i]);
}

struct times {
    double ns[N_WHO][BENCH_MAX_TRIALS];
};

static void report(const struct bench *b, const char *which, uint32_t n, const char *metric,
                   struct times *t, unsigned trials, uint32_t skip)
{
    double median[N_WHO];
    char over[64];

    for (unsigned w = 0; w < N_WHO; w++) {
        if (skip >> w & 1)
            continue;
        median[w] = bench_median(t->ns[w], trials);
        bench_figure(b, which, n, everyone[w].label, metric, median[w], "ns");
    }
    for (unsigned w = 0; w < N_WHO; w++) {
        if (skip >> w & 1)
            continue;
        if (w >= WHO_vcrt)
            break;
        snprintf(over, sizeof(over), "%s, over VC-VCRT", metric);
        bench_figure(b, which, n, everyone[w].label, over, median[w] / median[WHO_vcrt], "x");
        snprintf(over, sizeof(over), "%s, over switch", metric);
        bench_figure(b, which, n, everyone[w].label, over, median[w] / median[WHO_sw], "x");
    }
    fprintf(stderr, "%-18s %8lu %-9s |", which, (unsigned long)n,
            strstr(metric, "dependent") ? "dependent" : "");
    for (unsigned w = 0; w < N_WHO; w++)
        fprintf(stderr, skip >> w & 1 ? "     - " : " %6.2f", median[w]);
    fputc('\n', stderr);
}

/* All contestants but those in `skip` walk the current communicator, both ways. */
static void run_walks(struct bench *b, const char *name, uint32_t n, uint32_t lookups, uint64_t sum,
                      uint32_t skip)
{
    static struct times t;
    const unsigned trials = b->quick ? 3 : 7;

    for (unsigned dependent = 0; dependent < 2; dependent++) {
        uint32_t rounds = lookups / (n * (1 + dependent)) ? lookups / (n * (1 + dependent)) : 1;

        for (unsigned trial = 0; trial < trials; trial++) {
            for (unsigned i = 0; i < N_WHO; i++) {
                unsigned w = (i + trial) % N_WHO;
                uint64_t (*walk)(uint32_t, uint32_t) =
                    dependent ? everyone[w].chain : everyone[w].walk;
                uint64_t start, got;

                if (skip >> w & 1)
                    continue;
                if (trial == 0) /* and memory is as warm as it gets */
                    check(walk(n, 1) == sum, "not everyone finds the same addresses");
                start = bench_cpu_ns();
                got = walk(n, rounds);
                t.ns[w][trial] = (double)(bench_cpu_ns() - start) / rounds / n;
                check(got == sum * rounds, "not everyone finds the same addresses");
            }
        }
        report(b, name, n, dependent ? "ns_per_dependent_lookup" : "ns_per_lookup", &t, trials,
               skip);
    }
}

/* The variants of ours without a figure in this case: the same as another, or no form of its
 * own. */
static uint32_t not_in_case(unsigned k)
{
    return (cases[k].shape < SHAPE_LUT || cases[k].shape == SHAPE_MD ? 1u << WHO_compact : 0) |
           (cases[k].shape == SHAPE_MD ? 1u << WHO_known : 0);
}

/* Half the size of the world for a communicator of about n ranks. */
static uint32_t half_of(unsigned k, uint32_t n)
{
    return cases[k].shape != SHAPE_SPARSE ? n : n <= MAX_HALF / 8 ? 8 * n : MAX_HALF;
}

/* One communicator, walked in rank order. */
static void run_case(struct bench *b, unsigned k, uint32_t size, uint32_t lookups)
{
    uint32_t n_half = half_of(k, size), *ids = malloc(n_half * sizeof(*ids)), n;
    uint64_t sum = 0;

    check(ids != NULL, "out of memory");
    n = shape_ids(cases[k].shape, n_half, b->seed, ids);
    world_fill(ids, n, 2 * n_half);
    make_comm(0, cases[k].shape, ids, n);
    known_form = comms.ours[0].form;
    for (uint32_t r = 0; r < n; r++)
        sum += world_address(ids[r]);
    run_walks(b, cases[k].name, n, lookups, sum, not_in_case(k));
    free_comm(0, cases[k].shape);
    free(ids);
}

/* 64 communicators of one world, each lookup in another. The shapes come in turns; all but LUT and
 * RANDOM in one process group. */
static void run_mix(struct bench *b, const char *name, int strides_only, uint32_t n)
{
    static const enum shape turns[] = {SHAPE_DIRECT,      SHAPE_OFFSET, SHAPE_STRIDE,
                                       SHAPE_BLOCKSTRIDE, SHAPE_LUT,    SHAPE_MLUT};
    static struct times t;
    static enum shape shape[N_MIXED];
    const unsigned trials = b->quick ? 3 : 9;
    struct pick *picks = malloc(MIX_LOOKUPS * sizeof(*picks));
    uint32_t *ids = malloc(N_MIXED * (size_t)n * sizeof(*ids)),
             *all = malloc(2 * (size_t)n * sizeof(*all));
    uint64_t sum = 0;

    check(picks && ids && all, "out of memory");
    for (uint32_t i = 0; i < 2 * n; i++)
        all[i] = i;
    world_fill(all, 2 * n, 2 * n);
    for (unsigned c = 0; c < N_MIXED; c++) {
        shape[c] =
            strides_only ? SHAPE_STRIDE : turns[bench_random(b, sizeof(turns) / sizeof(turns[0]))];
        shape_ids(shape[c], n, b->seed + c, ids + c * (size_t)n);
        if (shape[c] == SHAPE_STRIDE && c % 2)
            for (uint32_t r = 0; r < n; r++)
                ids[c * (size_t)n + r]++; /* the odd ranks, too */
        make_comm(c, shape[c], ids + c * (size_t)n, n);
    }
    for (uint32_t i = 0; i < MIX_LOOKUPS; i++) {
        picks[i] = (struct pick){bench_random(b, N_MIXED), bench_random(b, n)};
        sum += world_address(ids[picks[i].comm * (size_t)n + picks[i].rank]);
    }
    for (unsigned dependent = 0; dependent < 2; dependent++) {
        for (unsigned trial = 0; trial < trials; trial++) {
            for (unsigned i = 0; i < N_WHO; i++) {
                unsigned w = (i + trial) % N_WHO;
                uint64_t (*mix)(const struct pick *, uint32_t) =
                    dependent ? everyone[w].mixchain : everyone[w].mix;
                uint64_t start = bench_cpu_ns(), got;

                if (!mix)
                    continue;
                got = mix(picks, MIX_LOOKUPS);
                t.ns[w][trial] = (double)(bench_cpu_ns() - start) / MIX_LOOKUPS;
                check(got == sum, "not everyone finds the same addresses");
            }
        }
        report(b, name, n, dependent ? "ns_per_dependent_lookup" : "ns_per_lookup", &t, trials,
               1u << WHO_known);
    }
    for (unsigned c = 0; c < N_MIXED; c++)
        free_comm(c, shape[c]);
    free(all);
    free(ids);
    free(picks);
}

static const uint64_t *addresses; /* of the ranks of each communicator in turn */
static uint32_t n_addresses;      /* of one communicator */

static uint64_t mix_array(const struct pick *picks, uint32_t n)
{
    const uint64_t *array = somewhere(addresses);
    uint64_t sum = 0, size = n_addresses;

    for (uint32_t i = 0; i < n; i++) {
        sum += array[picks[i].comm * size + picks[i].rank];
        FORGET();
    }
    return sum;
}

/* Communicators of one shape, ranks drawn at random, beside an array of addresses for each. */
static void run_random(struct bench *b, unsigned k, uint32_t n, unsigned n_comms)
{
    static const struct {
        const char *label;
        uint64_t (*mix)(const struct pick *picks, uint32_t n);
    } who[] = {
        {"array of addresses", mix_array}, {"ours", mix_ours}, {"ours compact", mix_compact}};
    const unsigned n_who = sizeof(who) / sizeof(who[0]), trials = b->quick ? 3 : 9;
    struct pick *picks = malloc(MIX_LOOKUPS * sizeof(*picks));
    uint32_t *ids = malloc(n * sizeof(*ids)), *all = calloc(2 * (size_t)n, sizeof(*all));
    uint64_t *array = malloc(n_comms * (size_t)n * sizeof(*array)), sum = 0;
    double ns[3][BENCH_MAX_TRIALS], median[3];
    char name[64];

    check(picks && ids && all && array, "out of memory");
    for (uint32_t i = 0; i < 2 * n; i++)
        all[i] = i;
    world_fill(all, 2 * n, 2 * n);
    for (unsigned c = 0; c < n_comms; c++) {
        shape_ids(cases[k].shape, n, b->seed + c, ids);
        make_comm(c, cases[k].shape, ids, n);
        for (uint32_t r = 0; r < n; r++)
            array[c * (size_t)n + r] = world_address(ids[r]);
    }
    addresses = array;
    n_addresses = n;
    for (uint32_t i = 0; i < MIX_LOOKUPS; i++) {
        picks[i] = (struct pick){bench_random(b, n_comms), bench_random(b, n)};
        sum += array[picks[i].comm * (size_t)n + picks[i].rank];
    }
    for (unsigned trial = 0; trial < trials; trial++)
        for (unsigned i = 0; i < n_who; i++) {
            unsigned w = (i + trial) % n_who;
            uint64_t start = bench_cpu_ns(), got = who[w].mix(picks, MIX_LOOKUPS);

            ns[w][trial] = (double)(bench_cpu_ns() - start) / MIX_LOOKUPS;
            check(got == sum, "not everyone finds the same addresses");
        }
    snprintf(name, sizeof(name), "%s, ranks of %u at random", cases[k].name, n_comms);
    fprintf(stderr, "%-42s %8lu |", name, (unsigned long)n);
    for (unsigned w = 0; w < n_who; w++) {
        median[w] = bench_median(ns[w], trials);
        bench_figure(b, name, n, who[w].label, "ns_per_random_lookup", median[w], "ns");
        if (w > 0)
            bench_figure(b, name, n, who[w].label, "ns_per_random_lookup, over the array",
                         median[w] / median[0], "x");
        fprintf(stderr, " %s %.2f", who[w].label, median[w]);
    }
    fputc('\n', stderr);
    for (unsigned c = 0; c < n_comms; c++)
        free_comm(c, cases[k].shape);
    free(array);
    free(all);
    free(ids);
    free(picks);
}

/* The odd ranks of the odd ranks of ...: ours composes, Open MPI's sparse groups climb. */
static void run_generations(struct bench *b, uint32_t n, uint32_t lookups)
{
    static struct sparse_comm chain[GENERATIONS + 1];
    uint32_t world = n << GENERATIONS, *ids = malloc(world * sizeof(*ids));
    const uint32_t skip = ~(1u << WHO_ours | 1u << WHO_sw | 1u << WHO_sparse | 1u << WHO_vcrt);
    struct rankmap *map, *odd, *child;

    check(ids != NULL, "out of memory");
    for (uint32_t r = 0; r < world; r++)
        ids[r] = r;
    world_fill(ids, world, world);
    make_comm(0, SHAPE_DIRECT, ids, world);
    chain[0] = comms.sparse[0];
    free_comm(0, SHAPE_DIRECT);
    check(rankmap_affine(0, 1, world, NULL, &map) == 0, "rankmap_affine()");
    for (unsigned g = 1; g <= GENERATIONS; g++) {
        uint32_t n_child = world >> g, step = 1u << g;
        uint64_t sum = 0;
        char name[32];

        check(rankmap_affine(1, 2, n_child, NULL, &odd) == 0 &&
                  rankmap_compose(map, odd, NULL, &child) == 0,
              "compose");
        rankmap_unref(odd);
        rankmap_unref(map);
        map = child;
        for (uint32_t r = 0; r < n_child; r++)
            ids[r] = step - 1 + r * step;
        make_comm(0, SHAPE_STRIDE, ids, n_child);
        check(rankmap_lookup_init(&comms.ours[0], map, (uintptr_t)world_entries,
                                  sizeof(*world_entries)) == 0,
              "lookup");
        chain[g] = (struct sparse_comm){1, 1, 2, &chain[g - 1], NULL};
        comms.sparse[0] = chain[g];
        for (uint32_t r = 0; r < n; r++)
            sum += world_address(ids[r]);
        snprintf(name, sizeof(name), "generation %u", g);
        run_walks(b, name, n, lookups, sum, skip);
        comms.sparse[0].procs = NULL;
        free_comm(0, SHAPE_STRIDE);
    }
    rankmap_unref(map);
    free(ids);
}

/* ---- Instructions ---- */

/* One function for each way and case, so that callgrind tells them apart. */
#define COUNT_CASE(name, field, function, which)                                                   \
    uint64_t count__##name##__##which(const void *c, uint32_t rank);                               \
    ICOUNT_FUNCTION uint64_t count__##name##__##which(const void *c, uint32_t rank)                \
    {                                                                                              \
        const __typeof__(comms.field[0]) *comm = c;                                                \
                                                                                                   \
        return function(comm, rank);                                                               \
    }
/* clang-format off */
#define COUNT(name, field, function, label) \
    COUNT_CASE(name, field, function, 0) COUNT_CASE(name, field, function, 1) \
    COUNT_CASE(name, field, function, 2) COUNT_CASE(name, field, function, 3) \
    COUNT_CASE(name, field, function, 4) COUNT_CASE(name, field, function, 5) \
    COUNT_CASE(name, field, function, 6) COUNT_CASE(name, field, function, 7) \
    COUNT_CASE(name, field, function, 8) COUNT_CASE(name, field, function, 9) \
    COUNT_CASE(name, field, function, 10)
/* clang-format on */
EVERYONE(COUNT)

COUNT_CASE(known, ours, affine_address, 0)
COUNT_CASE(known, ours, affine_address, 1)
COUNT_CASE(known, ours, affine_address, 2)
COUNT_CASE(known, ours, block_address, 3)
COUNT_CASE(known, ours, lut_address, 4)
COUNT_CASE(known, ours, lut_address, 5)
COUNT_CASE(known, ours, lut_address, 6)
COUNT_CASE(known, ours, ours_address, 7) /* not shown */
COUNT_CASE(known, ours, lut_address, 8)
COUNT_CASE(known, ours, lut_address, 9)
COUNT_CASE(known, ours, lut_address, 10)

#define ALL_CASES(name)                                                                            \
    {                                                                                              \
        count__##name##__0, count__##name##__1, count__##name##__2, count__##name##__3,            \
            count__##name##__4, count__##name##__5, count__##name##__6, count__##name##__7,        \
            count__##name##__8, count__##name##__9, count__##name##__10                            \
    }

static uint64_t (*const counted[N_WHO][N_CASES])(const void *c,
                                                 uint32_t rank) = {ALL_CASES(known),
#define COUNT_ENTRY(name, field, function, label) ALL_CASES(name),
                                                                   EVERYONE(COUNT_ENTRY)};

/* The program under callgrind: each function N_COUNTED times. */
static int count_main(void)
{
    static uint32_t ids[8 * N_COUNTED];
    const void *field[N_WHO] = {&comms.ours[0],
#define COUNT_FIELD(name, field, function, label) &comms.field[0],
                                EVERYONE(COUNT_FIELD)};

    world_make(16 * N_COUNTED);
    for (unsigned k = 0; k < N_CASES; k++) {
        uint64_t sum = 0;

        uint32_t half = half_of(k, N_COUNTED), n = shape_ids(cases[k].shape, half, 1, ids);

        world_fill(ids, n, 2 * half);
        make_comm(0, cases[k].shape, ids, n);
        for (uint32_t i = 0; i < N_COUNTED; i++)
            sum += world_address(ids[i % n]) * N_WHO;
        for (uint32_t i = 0; i < N_COUNTED; i++)
            for (unsigned w = 0; w < N_WHO; w++)
                sum -= counted[w][k](field[w], i % n);
        check(sum == 0, "not everyone finds the same addresses");
        free_comm(0, cases[k].shape);
    }
    return 0;
}

static void count_found(const char *function, const struct icount *seen, void *context)
{
    static const char *const names[] = {"known",
#define NAME(name, field, function, label) #name,
                                        EVERYONE(NAME)};
    double(*counts)[N_CASES] = context;

    for (unsigned w = 0; w < N_WHO; w++) {
        for (unsigned k = 0; k < N_CASES; k++) {
            char name[96];

            snprintf(name, sizeof(name), "count__%s__%u", names[w], k);
            if (strcmp(name, function) == 0)
                counts[w][k] = (double)seen->instructions / N_COUNTED;
        }
    }
}

static void run_counts(const struct bench *b)
{
    static double counts[N_WHO][N_CASES];

    if (icount_run("--count", "count__", NULL, count_found, counts) != 0)
        return;
    fprintf(stderr, "instructions                          |");
    for (unsigned w = 0; w < N_WHO; w++)
        fprintf(stderr, " %s%s", everyone[w].label, w + 1 < N_WHO ? "," : "\n");
    for (unsigned k = 0; k < N_CASES; k++) {
        fprintf(stderr, "%-37s |", cases[k].name);
        for (unsigned w = 0; w < N_WHO; w++) {
            if (not_in_case(k) >> w & 1) {
                fprintf(stderr, "     - ");
                continue;
            }
            bench_figure(b, cases[k].name, N_COUNTED, everyone[w].label, "instructions",
                         counts[w][k], "instructions");
            fprintf(stderr, " %6.4g", counts[w][k]);
        }
        fputc('\n', stderr);
    }
}

int main(int argc, char **argv)
{
    static const uint32_t sizes[] = {1024, 10240, 102400, MAX_HALF};
    struct bench b;

    if (argc == 2 && strcmp(argv[1], "--count") == 0)
        return count_main();
    bench_init(&b, "rankmap_lookup", argc, argv);
    nothing = nothing_at_all;
    run_counts(&b);
    world_make(b.quick ? 16 * sizes[0] : 2 * MAX_HALF);
    fprintf(stderr, "ns a lookup                           |");
    for (unsigned w = 0; w < N_WHO; w++)
        fprintf(stderr, " %s%s", everyone[w].label, w + 1 < N_WHO ? "," : "\n");
    for (unsigned i = 0; i < (b.quick ? 1u : 4u); i++) {
        for (unsigned k = 0; k < N_CASES; k++)
            run_case(&b, k, sizes[i], b.quick ? 1u << 20 : 2048000);
        for (unsigned k = 0; k < N_CASES; k++)
            if (cases[k].shape == SHAPE_STRIDE || cases[k].shape == SHAPE_BLOCKSTRIDE ||
                cases[k].shape == SHAPE_RANDOM) {
                run_random(&b, k, sizes[i], 1);
                if (i < 3)
                    run_random(&b, k, sizes[i], N_MIXED);
            }
        if (i < 3) {
            run_mix(&b, "mixed", 0, sizes[i]);
            run_mix(&b, "mixed strides", 1, sizes[i]);
        }
    }
    run_generations(&b, 1024, b.quick ? 1u << 20 : 2048000);
    return 0;
}
