/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a start costs. In a job: time and bytes of each part, of rank 0 and of the slowest rank,
 * after a typical start (teams of all kinds, a window, the peers of a barrier). With --compute
 * N,N,… the bytes for jobs of N ranks: each library is asked for objects of that size and says what
 * they take; where a library does not say, one object is made and measured. Nothing of that needs N
 * processes.
 */
#include <malloc.h>

#include <shmht.h>

#include "program.h"

static int64_t heap_bytes(void)
{
    struct mallinfo2 m = mallinfo2();

    return (int64_t)(m.uordblks + m.hblkhd);
}

/* A typical start: six teams, a window of 64 KiB. */
static void start_typical(struct minirt *rt)
{
    struct minirt_team *world = minirt_world(rt), *t;
    struct minirt_window *w;
    uint32_t columns = minirt_size(world) > 3 ? minirt_size(world) / 2 : 1;

    MUST(rt, minirt_team_dup(world, &t));
    MUST(rt, minirt_team_row(world, columns, &t));
    MUST(rt, minirt_team_column(world, columns, &t));
    MUST(rt, minirt_team_reverse(world, &t));
    MUST(rt, minirt_team_every(world, 4, &t));
    MUST(rt, minirt_team_node(world, &t));
    MUST(rt, minirt_window_create(world, 65536, NULL, &w));
}

/* ---- computed ---- */

#define MEASURED_PAIRS 65536u

static void must_succeed(struct minirt *rt, int rc, const char *what, const char *why)
{
    if (rc < 0)
        program_die(rt, what, why);
}

/* A node's shared memory for an Allgather: the array of all ranks, up to 65,536; more in
 * proportion. */
static uint64_t array_bytes(struct minirt *rt, uint64_t n, uint64_t text)
{
    uint64_t some = n < MEASURED_PAIRS ? n : MEASURED_PAIRS;
    struct shmht_array_opts opts = {
        .size = sizeof(opts), .n_ranks = some, .stride_bytes = (uint32_t)text + 1};
    struct shmht_info_array info;
    struct shmht_array *array;

    must_succeed(rt, shmht_array_create(&opts, &array, NULL), "libshmht", "no array");
    must_succeed(rt, shmht_array_query(array, &info), "libshmht", "array");
    shmht_array_destroy(array);
    return (uint64_t)((double)info.total_bytes / (double)some * (double)n);
}

/* The same for Put-Fence-Get: the table of pairs. */
static uint64_t table_bytes(struct minirt *rt, uint64_t n, uint64_t text)
{
    uint64_t some = n < MEASURED_PAIRS ? n : MEASURED_PAIRS;
    struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = 64u << 20};
    struct shmht_stats stats;
    struct shmht_writer *w;
    char key[32], *value = calloc(1, text + 1);

    must_succeed(rt, shmht_writer_create(&opts, &w, NULL), "libshmht", "no table of 64 MiB");
    for (uint64_t i = 0; i < some; i++)
        must_succeed(rt,
                     shmht_put(w, key,
                               (size_t)snprintf(key, sizeof(key), "minirt-%" PRIu64 "-0", i), value,
                               text + 1),
                     "libshmht", "put");
    must_succeed(rt, shmht_reader_stats(shmht_writer_view(w), &stats), "libshmht", "stats");
    shmht_writer_destroy(w);
    free(value);
    return (uint64_t)((double)(stats.total_bytes - stats.free_bytes) / (double)some * (double)n);
}

static uint64_t bytes_of_map(struct minirt *rt, const struct rankmap *map)
{
    struct rankmap_info info = {.size = sizeof(info)};

    must_succeed(rt, rankmap_query(map, &info), "librankmap", "query");
    return info.total_bytes;
}

/* Maps of a job of n: the world, dup, row, column, reversed, every 4th. */
static uint64_t bytes_of_maps(struct minirt *rt, uint64_t n)
{
    uint32_t columns = n > 3 ? (uint32_t)(n / 2) : 1,
             rows = (uint32_t)((n + columns - 1) / columns);
    struct {
        uint64_t first;
        int64_t stride;
        uint32_t n;
    } child[] = {{0, 1, (uint32_t)n},
                 {0, 1, columns},
                 {0, columns, rows},
                 {n - 1, -1, (uint32_t)n},
                 {0, 4, (uint32_t)((n + 3) / 4)}};
    struct rankmap *world, *ranks, *map;
    uint64_t bytes;

    must_succeed(rt, rankmap_affine(0, 1, (uint32_t)n, NULL, &world), "librankmap", "world");
    bytes = bytes_of_map(rt, world);
    for (size_t i = 0; i < sizeof(child) / sizeof(child[0]); i++) {
        must_succeed(rt, rankmap_affine(child[i].first, child[i].stride, child[i].n, NULL, &ranks),
                     "librankmap", "child");
        must_succeed(rt, rankmap_compose(world, ranks, NULL, &map), "librankmap", "compose");
        bytes += bytes_of_map(rt, map);
        rankmap_unref(ranks);
        rankmap_unref(map);
    }
    rankmap_unref(world);
    return bytes;
}

static uint64_t vector_bytes(struct minirt *rt, uint64_t n)
{
    struct rankmap_av_opts opts = {.size = sizeof(opts), .entry_bytes = 8, .capacity = n};
    struct rankmap_av_group group;
    struct rankmap_info_av info = {.size = sizeof(info)};
    struct rankmap_av *av;

    must_succeed(rt, rankmap_av_create(&opts, &av), "librankmap", "address vector");
    must_succeed(rt, rankmap_av_group_add(av, n, &group), "librankmap", "address vector");
    must_succeed(rt, rankmap_av_query(av, &info), "librankmap", "address vector");
    rankmap_av_destroy(av);
    return info.bytes;
}

/* libasymreg does not report the memory of a context or a peer: makes a context, adds itself under
 * 65 numbers, gets a word from each, and measures. */
static void registry_bytes(struct minirt *rt, uint64_t *context, uint64_t *peer)
{
    struct asymreg_opts opts = {.size = sizeof(opts), .max_regions = 4096, .max_segments = 256};
    char blob[ASYMREG_MAX_BLOB_BYTES];
    uint64_t word = 0, got;
    struct asymreg_context *ctx;
    struct asymreg_worker *worker;
    int64_t before = heap_bytes(), first = 0;
    ssize_t n;

    must_succeed(rt, asymreg_open(&opts, &ctx, NULL), "libasymreg", "open");
    must_succeed(rt, asymreg_worker_create(ctx, &worker), "libasymreg", "worker");
    must_succeed(rt, asymreg_register(ctx, &word, sizeof(word), ASYMREG_RW, NULL, NULL, NULL),
                 "libasymreg", "register");
    n = asymreg_export(ctx, blob, sizeof(blob), NULL);
    must_succeed(rt, (int)n, "libasymreg", "export");
    for (uint32_t i = 0; i < 65; i++) {
        must_succeed(rt, asymreg_import(ctx, i, blob, (size_t)n, NULL), "libasymreg", "import");
        must_succeed(rt, asymreg_get(worker, i, (uintptr_t)&word, ASYMREG_ANY, &got, sizeof(got)),
                     "libasymreg", "get");
        if (i == 0) /* with what is made once */
            first = heap_bytes();
    }
    *peer = (uint64_t)(heap_bytes() - first) / 64;
    *context = (uint64_t)(first - before) - *peer;
    asymreg_worker_destroy(worker);
    asymreg_close(ctx);
}

static void print_computed(struct minirt *rt, const char *list)
{
    uint64_t context, peer;
    struct minirt_info info;

    minirt_get_info(rt, &info);
    registry_bytes(rt, &context, &peer);
    printf("Bytes. A node's: shared memory of the server. A process's: the rest; a barrier needs 2 "
           "log2 n peers; the vector's only touched pages are memory.\n"
           "cards of %u characters, a peer %" PRIu64 ", the registry %" PRIu64
           ", the service window %u\n"
           "%9s | %14s %14s | %8s %8s %12s %12s %14s\n",
           info.card_chars, peer, context, info.service_bytes, "ranks", "node:allgather",
           "node:fence", "fingers", "6 maps", "vector", "barrier's", "all peers");
    for (const char *p = list; *p;) {
        char *end;
        uint64_t n = strtoull(p, &end, 10), rounds = 0;

        if (end == p || n == 0 || n > MINIRT_MAX_RANKS || (*end && *end != ','))
            program_die(rt, "--compute wants numbers of ranks with commas between them", NULL);
        while (UINT64_C(1) << rounds < n)
            rounds++;
        printf("%9" PRIu64 " | %14" PRIu64 " %14" PRIu64 " | %8" PRIu64 " %8" PRIu64 " %12" PRIu64
               " %12" PRIu64 " %14" PRIu64 "\n",
               n, array_bytes(rt, n, info.card_chars), table_bytes(rt, n, info.card_chars),
               rounds * info.finger_bytes, bytes_of_maps(rt, n), vector_bytes(rt, n),
               2 * rounds * peer, n * peer);
        p = *end ? end + 1 : end;
    }
}

int main(int argc, char **argv)
{
    const char *list = program_text(argc, argv, "compute");
    struct minirt *rt;

    program_usage(argc, argv, "minirt-info [--compute N,N,...]", "compute");
    rt = program_start();
    if (!list) {
        start_typical(rt);
        program_report(rt, stdout);
    } else if (minirt_rank(minirt_world(rt)) == 0) {
        print_computed(rt, list);
    }
    return program_end(rt);
}
