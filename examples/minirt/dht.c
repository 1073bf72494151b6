/* SPDX-License-Identifier: BSD-3-Clause */
/* A distributed hash table that counts: every rank adds random keys, many of them more than once,
 * to a table spread over all ranks. A place is taken with a compare-and-swap of 0 for the key, the
 * next one is tried where another key is, and the count is a remote atomic too: owners take no
 * part. Which place a key has depends on who came first; which keys there are, and their counts,
 * does not. */
#include "program.h"

struct entry {
    uint64_t key, count; /* key 0: free */
};

static void count_key(struct minirt *rt, struct minirt_window *table, uint64_t places, uint64_t key)
{
    struct minirt_team *world = minirt_world(rt);
    uint32_t owner = (uint32_t)((key >> 32) % minirt_size(world));
    uint64_t place = program_random(key, 0) % places, found, at;

    for (uint64_t tried = 0; tried < places; tried++, place = (place + 1) % places) {
        MUST(rt, minirt_window_at(table, world, owner, place * sizeof(struct entry), &at));
        MUST(rt,
             minirt_compare_swap(world, owner, at + offsetof(struct entry, key), 0, key, &found));
        if (found == 0 || found == key) {
            MUST(rt, minirt_add(world, owner, at + offsetof(struct entry, count), 1, NULL));
            return;
        }
    }
    program_die(rt, "a rank's part of the table is full", "more --places, fewer --keys");
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = ((const struct entry *)a)->key, y = ((const struct entry *)b)->key;

    return (x > y) - (x < y);
}

/* Rank 0 reads every part, sorts it, and writes its elements. */
static uint64_t write_counts(struct minirt *rt, struct minirt_window *table, uint64_t places,
                             const char *path, uint64_t *n_keys)
{
    struct minirt_team *world = minirt_world(rt);
    struct entry *part = malloc(places * sizeof(*part));
    FILE *file = fopen(path ? path : "/dev/null", "w");
    uint64_t sum = 0, from;

    *n_keys = 0;
    for (uint32_t r = 0; part && file && r < minirt_size(world); r++) {
        MUST(rt, minirt_window_at(table, world, r, 0, &from));
        MUST(rt, minirt_get(world, r, from, part, places * sizeof(*part)));
        qsort(part, places, sizeof(*part), compare_keys);
        for (uint64_t i = 0; i < places; i++)
            if (part[i].key) {
                fprintf(file, "%u %016" PRIx64 " %" PRIu64 "\n", r, part[i].key, part[i].count);
                sum += part[i].count;
                (*n_keys)++;
            }
    }
    if (!part || !file || ferror(file) || fclose(file) != 0)
        program_die(rt, path ? path : "table", strerror(errno));
    free(part);
    return sum;
}

int main(int argc, char **argv)
{
    struct minirt *rt;
    struct minirt_team *world;
    struct minirt_window *table;
    const char *hints = program_text(argc, argv, "hints"), *out = program_text(argc, argv, "out");
    uint64_t places =
        program_number(argc, argv, "places", 4096, 1, UINT64_C(1) << 32); /* of each rank */
    uint64_t keys =
        program_number(argc, argv, "keys", 4096, 0, UINT64_C(1) << 40); /* added by each rank */
    uint64_t seed = program_number(argc, argv, "seed", 1, 0, UINT64_MAX), sum = 0, n_keys = 0,
             all_right = 1, n;

    program_usage(argc, argv,
                  "minirt-dht [--places N] [--keys N] [--seed N] [--hints TEXT] [--out FILE]",
                  "places keys seed hints out");
    rt = program_start();
    world = minirt_world(rt);
    n = keys * minirt_size(world);
    MUST(rt, minirt_window_create(world, places * sizeof(struct entry), hints, &table));
    memset(minirt_window_base(table), 0, places * sizeof(struct entry));
    MUST(rt, minirt_barrier(world));
    for (uint64_t i = 0; i < keys; i++) /* each key about twice, from a half as many */
        count_key(rt, table, places,
                  program_random(seed, program_random(~seed, minirt_rank(world) * keys + i) %
                                           (n / 2 + 1)) |
                      1);
    MUST(rt, minirt_barrier(world));
    if (minirt_rank(world) == 0) {
        sum = write_counts(rt, table, places, out, &n_keys);
        all_right = sum == n;
        printf("dht: %u ranks, %" PRIu64 " keys, counted %" PRIu64 " of %" PRIu64 " times\n",
               minirt_size(world), n_keys, sum, n);
    }
    MUST(rt, minirt_min(world, &all_right));
    MUST(rt, minirt_window_free(table));
    return program_end(rt) || !all_right;
}
