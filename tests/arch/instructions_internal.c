/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * instructions_internal WHAT N: repeats one operation N times, for `instructions`, which counts.
 * Except for `again`, the order of look-ups defeats the cache of the last hit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rankmap.h>
#include <shmht.h>

#include "../../libasymreg/src/index/index.h"

enum { MANY = 1000, STEP = 619 };

static int fail(const char *what)
{
    fprintf(stderr, "instructions: %s\n", what);
    return 1;
}

static int gets(unsigned long n)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = 1 << 20, .seed = 7};
    static char keys[MANY][16];
    struct shmht_writer *w;
    struct shmht_bytes value;

    if (shmht_writer_create(&opts, &w, NULL) != 0)
        return fail("no table");
    for (int i = 0; i < MANY; i++) {
        snprintf(keys[i], sizeof(keys[i]), "mpi-addr-%06d", i);
        if (shmht_put(w, keys[i], 15, "lid 0001 qp 0007", 17) < 0)
            return fail("no put");
    }
    for (unsigned long i = 0; i < n; i++)
        if (shmht_get(shmht_writer_view(w), keys[i * STEP % MANY], 15, &value) != 0)
            return fail("no pair");
    return 0;
}

static int index_lookups(unsigned long n, int again)
{
    const struct asymreg__index_opts opts = {.max_regions = 4096};
    struct asymreg__index *index;
    struct asymreg__reader *reader;
    asymreg_id id;

    if (asymreg__index_create(&opts, &index) != 0 || asymreg__reader_create(index, &reader) != 0)
        return fail("no index");
    for (uint64_t i = 0; i < MANY; i++)
        if (asymreg__index_insert(index, 0x10000 + i * i * 0x100, 0x80, ASYMREG_RW, i, &id) != 0)
            return fail("no region");
    for (uint64_t i = 0; i < n; i++) {
        uint64_t k = again ? 0 : i * STEP % MANY;

        if (!asymreg__index_lookup(reader, 0x10000 + k * k * 0x100 + i % 0x80))
            return fail("not found");
    }
    return 0;
}

static int ranks(unsigned long n, int irregular)
{
    static uint64_t ids[MANY];
    struct rankmap_lookup lookup;
    struct rankmap *map;
    uint64_t sum = 0;

    for (uint64_t i = 0; i < MANY; i++)
        ids[i] = irregular ? i * STEP % 1009 : 5 + 3 * i;
    if (rankmap_from_ids(ids, sizeof(ids[0]), MANY, NULL, &map, NULL) != 0 ||
        rankmap_lookup_init(&lookup, map, 0, 1) != 0)
        return fail("no map");
    for (unsigned long i = 0; i < n; i++) {
        sum += rankmap_at(&lookup, (uint32_t)(i * STEP % MANY));
        __asm__ volatile("" : "+r"(sum));
    }
    return 0;
}

/* The loop itself. */
static int nothing(unsigned long n)
{
    unsigned long sum = 0;

    for (unsigned long i = 0; i < n; i++) {
        sum += i * STEP % MANY;
        __asm__ volatile("" : "+r"(sum));
    }
    return 0;
}

int main(int argc, char **argv)
{
    unsigned long n = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    const char *what = argc == 3 ? argv[1] : "";

    return strcmp(what, "nothing") == 0     ? nothing(n)
           : strcmp(what, "get") == 0       ? gets(n)
           : strcmp(what, "search") == 0    ? index_lookups(n, 0)
           : strcmp(what, "again") == 0     ? index_lookups(n, 1)
           : strcmp(what, "regular") == 0   ? ranks(n, 0)
           : strcmp(what, "irregular") == 0 ? ranks(n, 1)
                                            : fail("usage: instructions_internal WHAT N");
}
