/* SPDX-License-Identifier: BSD-3-Clause */
/* Random access: every rank adds random numbers to random words of a table that is spread over all
 * ranks, with remote atomics; the sums do not depend on the order. Then each rank computes anew
 * what its own part must be, and compares every word. */
#include <time.h>

#include "program.h"

static double now_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Rank 0 writes all parts, one after the other, to a file. */
static void write_table(struct minirt *rt, struct minirt_window *table, uint64_t words,
                        const char *path)
{
    struct minirt_team *world = minirt_world(rt);
    uint64_t *part = malloc(words * 8), from;
    FILE *file = fopen(path, "wb");

    for (uint32_t r = 0; file && part && r < minirt_size(world); r++) {
        MUST(rt, minirt_window_at(table, world, r, 0, &from));
        MUST(rt, minirt_get(world, r, from, part, words * 8));
        if (fwrite(part, 8, words, file) != words)
            break;
    }
    if (!part || !file || ferror(file) || fclose(file) != 0)
        program_die(rt, path, strerror(errno));
    free(part);
}

int main(int argc, char **argv)
{
    struct minirt *rt;
    struct minirt_team *world;
    struct minirt_window *table;
    const char *hints = program_text(argc, argv, "hints"), *out = program_text(argc, argv, "out");
    uint64_t words =
        program_number(argc, argv, "words", 1 << 16, 1, UINT64_C(1) << 40); /* of each rank */
    uint64_t updates =
        program_number(argc, argv, "updates", 1 << 16, 0, UINT64_C(1) << 40); /* by each rank */
    uint64_t seed = program_number(argc, argv, "seed", 1, 0, UINT64_MAX), wrong = 0, *expected,
             *mine, total, at, all_right;
    double begin, took;

    program_usage(argc, argv,
                  "minirt-gups [--words N] [--updates N] [--seed N] [--hints TEXT] [--out FILE]",
                  "words updates seed hints out");
    rt = program_start();
    world = minirt_world(rt);
    total = words * minirt_size(world);
    MUST(rt, minirt_window_create(world, words * 8, hints, &table));
    mine = minirt_window_base(table);
    memset(mine, 0, words * 8); /* a file may hold an older table */
    MUST(rt, minirt_barrier(world));

    begin = now_seconds();
    for (uint64_t i = 0; i < updates; i++) {
        uint64_t x = program_random(seed, minirt_rank(world) * updates + i), word = x % total;

        MUST(rt, minirt_window_at(table, world, (uint32_t)(word / words), word % words * 8, &at));
        MUST(rt, minirt_add(world, (uint32_t)(word / words), at, x, NULL));
    }
    MUST(rt, minirt_barrier(world));
    took = now_seconds() - begin;

    expected = calloc(words, 8);
    if (!expected)
        program_die(rt, "out of memory", NULL);
    for (uint64_t i = 0; i < updates * minirt_size(world); i++) {
        uint64_t x = program_random(seed, i), word = x % total;

        if (word / words == minirt_rank(world))
            expected[word % words] += x;
    }
    for (uint64_t i = 0; i < words; i++)
        wrong += mine[i] != expected[i];
    free(expected);
    if (wrong)
        fprintf(stderr, "gups: rank %u: %" PRIu64 " of %" PRIu64 " words are wrong\n",
                minirt_rank(world), wrong, words);
    if (out && minirt_rank(world) == 0)
        write_table(rt, table, words, out);
    all_right = wrong == 0;
    MUST(rt, minirt_min(world, &all_right));
    if (minirt_rank(world) == 0)
        printf("gups: %u ranks, %" PRIu64 " updates of %" PRIu64 " words, %s, %.6f GUPS\n",
               minirt_size(world), updates * minirt_size(world), total,
               all_right ? "all correct" : "WRONG",
               took > 0 ? (double)(updates * minirt_size(world)) / took / 1e9 : 0.0);
    MUST(rt, minirt_window_free(table));
    return program_end(rt) || !all_right;
}
