/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reader given a hostile region, and a table that merges what it exports. The region ends where a
 * PROT_NONE page begins, and begins behind another, so that an access outside it crashes. Every
 * returned pointer must lie inside.
 *
 * The first byte chooses: even, the rest is the region; odd, it is patches of {offset: 2 bytes,
 * length: 1, bytes} to a valid region, after 2 bytes that truncate it. So the fuzzer need not find
 * a whole header first.
 */
#include "fuzz.h"

#include <shmht.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define MAX_REGION 65536u
#define PAGE       4096u

static unsigned char *arena; /* MAX_REGION bytes between two inaccessible pages */
static unsigned char *model;
static size_t model_bytes;

static void set_up(void)
{
    static unsigned char value[3000];
    struct shmht_writer_opts opts = {
        .size = sizeof(opts), .max_bytes = 16384, .seed = 42, .expected_entries = 20};
    struct shmht_writer *w;
    char key[32];
    unsigned char *all =
        mmap(NULL, MAX_REGION + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    MUST(all != MAP_FAILED);
    arena = all + PAGE;
    MUST(mprotect(arena, MAX_REGION, PROT_READ | PROT_WRITE) == 0);
    MUST(posix_memalign((void **)&model, 64, (size_t)opts.max_bytes) == 0);
    memset(model, 0, (size_t)opts.max_bytes);
    opts.region = model;
    MUST(shmht_writer_create(&opts, &w, NULL) == 0);
    for (int i = 0; i < 60; i++) {
        snprintf(key, sizeof(key), "mpi-addr-%d", i % 40);
        MUST(shmht_put(w, key, strlen(key), value, (size_t)i) >= 0);
    }
    MUST(shmht_put(w, value, sizeof(value), "v", 1) == 0); /* a long record */
    shmht_writer_destroy(w);
    model_bytes = (size_t)opts.max_bytes;
}

/* Builds the region at the end of the arena. Returns it. */
static unsigned char *build(const uint8_t *data, size_t size, size_t *bytes)
{
    unsigned char *region;

    if (data[0] % 2 == 0 || size < 3) {
        *bytes = (size - 1) / 64 * 64;
        if (*bytes > MAX_REGION)
            *bytes = MAX_REGION;
        region = arena + MAX_REGION - *bytes;
        memcpy(region, data + 1, *bytes);
        return region;
    }
    *bytes = model_bytes - (data[1] + 256u * data[2]) % model_bytes / 64 * 64;
    region = arena + MAX_REGION - *bytes;
    memcpy(region, model, *bytes);
    for (size_t at = 3; at + 3 <= size;) {
        size_t where = data[at] + 256u * data[at + 1], n = data[at + 2] % 16u + 1;

        at += 3;
        if (n > size - at)
            n = size - at;
        if (where < *bytes)
            memcpy(region + where, data + at, n < *bytes - where ? n : *bytes - where);
        at += n;
    }
    return region;
}

static void inside(const unsigned char *region, size_t bytes, const struct shmht_bytes *b)
{
    const unsigned char *p = b->ptr;

    MUST(p >= region && p <= region + bytes && b->len <= (size_t)(region + bytes - p));
    for (size_t i = 0; i < b->len; i += 64)
        *(volatile const unsigned char *)(p + i);
}

/* What a reader exports is a block, also from a hostile region. */
static void merge_export(struct shmht_reader *r)
{
    static unsigned char block[8192], memory[MAX_REGION] __attribute__((aligned(64)));
    struct shmht_writer_opts opts = {
        .size = sizeof(opts), .max_bytes = sizeof(memory), .region = memory, .seed = 7};
    struct shmht_iter it = {0};
    struct shmht_writer *w;
    ssize_t n = shmht_reader_export(r, &it, block, sizeof(block));
    int rc;

    if (n <= 0)
        return;
    MUST(shmht_writer_create(&opts, &w, NULL) == 0);
    rc = shmht_writer_merge(w, block, (size_t)n, NULL);
    MUST(rc == 0 || rc == SHMHT_EFULL);
    shmht_writer_destroy(w);
}

static void read_all(struct shmht_reader *r, const unsigned char *region, size_t bytes)
{
    struct shmht_bytes keys[40], values[40], key, value;
    struct shmht_iter it = {0};
    struct shmht_stats stats;
    char names[40][32];
    size_t steps = 0;

    MUST(shmht_reader_stats(r, &stats) == 0);
    for (int i = 0; i < 40; i++) {
        snprintf(names[i], sizeof(names[i]), "mpi-addr-%d", i);
        keys[i] = (struct shmht_bytes){names[i], strlen(names[i])};
        if (shmht_get(r, keys[i].ptr, keys[i].len, &value) == 0)
            inside(region, bytes, &value);
    }
    (void)shmht_get_many(r, keys, 40, values);
    for (int i = 0; i < 40; i++)
        if (values[i].ptr)
            inside(region, bytes, &values[i]);
    while (shmht_reader_next(r, &it, &key, &value) == 1) {
        inside(region, bytes, &key);
        inside(region, bytes, &value);
        (void)shmht_get(r, key.ptr, key.len, &value);
        MUST(++steps <= bytes / 4);
    }
    merge_export(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct shmht_reader_opts how = {.size = sizeof(how)};
    struct shmht_reader *r;
    unsigned char *region;
    size_t bytes;

    if (!arena)
        set_up();
    if (size < 1)
        return 0;
    region = build(data, size, &bytes);
    how.region = region;
    how.region_bytes = bytes;
    if (shmht_reader_attach(NULL, -1, &how, &r, NULL) == 0) {
        read_all(r, region, bytes);
        shmht_reader_detach(r);
    }
    return 0;
}
