/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The paper's SHMEM-1 and SHMEM-2 (shmem.h) as peers. A Get is a client's: through a second,
 * read-only mapping, and, like PMI2_KVS_Get(), a call with a key of any length. -inline is a lower
 * bound that no library reaches: compiled into the caller's loop, for keys of 15 characters alone.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/stat.h>

#include "peer.h"
#include "shmem.h"

struct store2 {
    struct shmem2 server, client;
};

struct store1 {
    struct shmem1 server;
    struct shmem_region server_region; /* while server.region is the client's */
};

/* The memory object's share of the node's memory. */
static uint64_t allocated_bytes(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

/* A power of two, as doubling gives; with XXH3 any number, to meet a requested load factor. */
static uint32_t first_buckets(uint64_t expected)
{
    uint32_t n = SHMEM_FIRST_BUCKETS;

    if (peer_load_percent && expected)
        return (uint32_t)(expected * 100 / peer_load_percent);
    while (n < expected)
        n *= 2;
    return n;
}

static void *create2(uint64_t expected)
{
    struct store2 *s = malloc(sizeof(*s));
    uint32_t n_buckets = first_buckets(expected);
    size_t bytes =
        expected ? expected * (sizeof(int32_t) + sizeof(struct pair)) : SHMEM_FIRST_BYTES;

    if (!s)
        return NULL;
    memset(&s->client, 0, sizeof(s->client));
    s->client.table.fd = s->client.kvs.fd = -1;
    if (shmem2_open(&s->server, n_buckets, bytes) != 0) {
        free(s);
        return NULL;
    }
    if (peer_load_percent)
        s->server.max_load = 1e9;
    return s;
}

static int attach2(void *store, int populate)
{
    struct store2 *s = store;

    return shmem2_attach(&s->client, &s->server, populate ? MAP_POPULATE : 0);
}

static int finish2(void *store)
{
    return attach2(store, 0);
}

static uint64_t allocated2(void *store)
{
    struct shmem2 *s = &((struct store2 *)store)->server;

    return allocated_bytes(s->table.fd) + allocated_bytes(s->kvs.fd);
}

static uint64_t bytes2(void *store)
{
    return shmem2_bytes(&((struct store2 *)store)->server);
}

static void destroy2(void *store)
{
    struct store2 *s = store;

    shmem2_close(&s->client);
    shmem2_close(&s->server);
    free(s);
}

#define LIBRARY_CALL static __attribute__((noinline))

#define SHMEM2(SUFFIX, HASH, NAME, LINKAGE, LENGTH)                                                \
    static int insert2_##SUFFIX(void *store, const struct pair *pairs, size_t n)                   \
    {                                                                                              \
        struct shmem2 *s = &((struct store2 *)store)->server;                                      \
        int rc = 0;                                                                                \
                                                                                                   \
        for (size_t i = 0; i < n && rc == 0; i++)                                                  \
            rc = shmem2_insert(s, HASH, pairs[i].key.s, KEY_CHARS, pairs[i].value.s, VALUE_CHARS); \
        return rc;                                                                                 \
    }                                                                                              \
                                                                                                   \
    LINKAGE const void *look_up2_##SUFFIX(void *store, const struct key *key, size_t len)          \
    {                                                                                              \
        return shmem2_get(&((struct store2 *)store)->client, HASH, key->s, LENGTH);                \
    }                                                                                              \
                                                                                                   \
    PEER_LOOPS(shmem2_##SUFFIX, look_up2_##SUFFIX)                                                 \
                                                                                                   \
    extern const struct peer_ops peer_shmem2_##SUFFIX;                                             \
    const struct peer_ops peer_shmem2_##SUFFIX = {                                                 \
        .name = NAME,                                                                              \
        .bytes_an_entry = 64,                                                                      \
        .create = create2,                                                                         \
        .insert = insert2_##SUFFIX,                                                                \
        .finish = finish2,                                                                         \
        .find = shmem2_##SUFFIX##_find,                                                            \
        .get = shmem2_##SUFFIX##_get,                                                              \
        .get_dependent = shmem2_##SUFFIX##_get_dependent,                                          \
        .attach = attach2,                                                                         \
        .bytes = bytes2,                                                                           \
        .allocated = allocated2,                                                                   \
        .destroy = destroy2,                                                                       \
    };

SHMEM2(fnv1a, SHMEM_FNV1A, "SHMEM-2/FNV-1a", LIBRARY_CALL, len)

#ifdef HAVE_XXHASH
SHMEM2(xxh3, SHMEM_XXH3, "SHMEM-2/XXH3", LIBRARY_CALL, len)
SHMEM2(inline, SHMEM_XXH3, "SHMEM-2/XXH3-inline", SHMEM_INLINE, ((void)len, (size_t)KEY_CHARS))
#define SHMEM1_HASH SHMEM_XXH3
#define SHMEM1_NAME "SHMEM-1/XXH3"
#else
#define SHMEM1_HASH SHMEM_FNV1A
#define SHMEM1_NAME "SHMEM-1/FNV-1a"
#endif

static void *create1(uint64_t expected)
{
    struct store1 *s = malloc(sizeof(*s));
    uint32_t n_buckets = first_buckets(expected);
    size_t bytes =
        expected ? expected * (sizeof(int32_t) + sizeof(struct pair)) : SHMEM_FIRST_BYTES;

    if (!s)
        return NULL;
    s->server_region = (struct shmem_region){NULL, 0, -1};
    if (shmem1_open(&s->server, n_buckets, bytes) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

static int insert1(void *store, const struct pair *pairs, size_t n)
{
    struct shmem1 *s = &((struct store1 *)store)->server;
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        rc =
            shmem1_insert(s, SHMEM1_HASH, pairs[i].key.s, KEY_CHARS, pairs[i].value.s, VALUE_CHARS);
    return rc;
}

static int attach1(void *store, int populate)
{
    struct store1 *s = store;

    return shmem_region_attach(&s->server.region, s->server_region.fd, s->server_region.bytes,
                               populate ? MAP_POPULATE : 0);
}

static int finish1(void *store)
{
    struct store1 *s = store;

    s->server_region = s->server.region;
    return attach1(s, 0);
}

static uint64_t allocated1(void *store)
{
    return allocated_bytes(((struct store1 *)store)->server_region.fd);
}

LIBRARY_CALL const void *look_up1(void *store, const struct key *key, size_t len)
{
    return shmem1_get(&((struct store1 *)store)->server, SHMEM1_HASH, key->s, len);
}

PEER_LOOPS(peer1, look_up1)

static uint64_t bytes1(void *store)
{
    return ((struct store1 *)store)->server.top;
}

static void destroy1(void *store)
{
    struct store1 *s = store;

    shmem_region_close(&s->server.region);
    shmem_region_close(&s->server_region);
    free(s);
}

extern const struct peer_ops peer_shmem1;
const struct peer_ops peer_shmem1 = {
    .name = SHMEM1_NAME,
    .bytes_an_entry = 64,
    .create = create1,
    .insert = insert1,
    .finish = finish1,
    .find = peer1_find,
    .get = peer1_get,
    .get_dependent = peer1_get_dependent,
    .attach = attach1,
    .bytes = bytes1,
    .allocated = allocated1,
    .destroy = destroy1,
};
