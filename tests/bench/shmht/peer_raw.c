/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory's own limit: one line of 64 bytes for each entry in a memfd, read at random, with
 * accesses that may overlap, and with accesses that each wait for the one before. No key is hashed
 * or compared: the entry's number is its place.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "peer.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define LINE 64u
#define HUGE ((size_t)2 << 20)

struct store {
    char *lines, *map;
    size_t bytes;
    uint32_t *entries; /* in the order of insertion: pairs do not say their number */
    uint64_t n;
};

static void raw_destroy(void *store)
{
    struct store *s = store;

    if (s->map)
        munmap(s->map, s->bytes + HUGE);
    free(s);
}

static void *raw_create(uint64_t expected)
{
    struct store *s = calloc(1, sizeof(*s));
    int fd;

    if (!s)
        return NULL;
    /* Whole 2 MB blocks, 2 MB-aligned in the file and in memory. */
    s->bytes = ((expected ? expected : MAX_ENTRIES) * LINE + HUGE - 1) / HUGE * HUGE;
    s->map = mmap(NULL, s->bytes + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fd = memfd_create("bench_shmht_raw", MFD_CLOEXEC);
    if (s->map == MAP_FAILED || fd < 0 || ftruncate(fd, (off_t)s->bytes) != 0) {
        if (s->map == MAP_FAILED)
            s->map = NULL;
        if (fd >= 0)
            close(fd);
        raw_destroy(s);
        return NULL;
    }
    s->lines = (char *)(((uintptr_t)s->map + HUGE - 1) / HUGE * HUGE);
    if (mmap(s->lines, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
        MAP_FAILED) {
        close(fd);
        raw_destroy(s);
        return NULL;
    }
    close(fd);
    return s;
}

/* The number is in the key, and only here is it read from there. */
static int raw_insert(void *store, const struct pair *pairs, size_t n)
{
    struct store *s = store;

    for (size_t i = 0; i < n; i++) {
        size_t entry = strtoul(pairs[i].key.s + 8, NULL, 10) / 2;

        if ((entry + 1) * LINE > s->bytes)
            return -1;
        memcpy(s->lines + entry * LINE, &pairs[i], sizeof(pairs[i]));
    }
    s->n += n;
    return 0;
}

static int raw_finish_2m(void *store)
{
    struct store *s = store;

    return madvise(s->lines, s->bytes, MADV_COLLAPSE);
}

static const void *raw_find(void *store, const struct key *key, size_t len)
{
    struct store *s = store;
    size_t number = strtoul(key->s + 8, NULL, 10);

    if (number % 2 || number / 2 >= s->n)
        return NULL;
    return s->lines + number / 2 * LINE + sizeof(struct key);
}

static void raw_get(void *store, const struct queries *queries, struct sum *sum)
{
    const char *lines = ((struct store *)store)->lines;
    const uint32_t *entries = queries->entries;
    uint64_t mix = 0;

    for (size_t i = 0; i < queries->n; i++)
        mix += data_head(lines + (size_t)entries[i] * LINE + sizeof(struct key));
    sum->found += queries->n;
    sum->mix += mix;
}

static void raw_get_dependent(void *store, const struct queries *queries, struct sum *sum)
{
    const char *lines = ((struct store *)store)->lines;
    const uint32_t *entries = queries->entries;
    uint64_t mix = 0, zero = peer_zero;

    for (size_t i = 0; i < queries->n; i++)
        mix += data_head(lines + (entries[i] + (size_t)(mix & zero)) * LINE + sizeof(struct key));
    sum->found += queries->n;
    sum->mix += mix;
}

static uint64_t raw_bytes(void *store)
{
    return ((struct store *)store)->n * LINE;
}

extern const struct peer_ops peer_raw, peer_raw_2m;
const struct peer_ops peer_raw = {
    .name = "raw",
    .bytes_an_entry = LINE,
    .create = raw_create,
    .insert = raw_insert,
    .find = raw_find,
    .get = raw_get,
    .get_dependent = raw_get_dependent,
    .bytes = raw_bytes,
    .destroy = raw_destroy,
};
const struct peer_ops peer_raw_2m = {
    .name = "raw-2m",
    .bytes_an_entry = LINE,
    .create = raw_create,
    .insert = raw_insert,
    .finish = raw_finish_2m,
    .find = raw_find,
    .get = raw_get,
    .get_dependent = raw_get_dependent,
    .bytes = raw_bytes,
    .destroy = raw_destroy,
};
