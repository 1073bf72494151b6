/* SPDX-License-Identifier: BSD-3-Clause */
/* The paper's SHMEM-1 and SHMEM-2 (shmem.h) as peers. A Get sees what a client would: a second, read-only mapping. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "peer.h"
#include "shmem.h"

struct store2 {
    struct shmem2 server, client;
};

struct store1 {
    struct shmem1 server;
    struct shmem_region server_region; /* while server.region is the client's */
};

static void *create2(uint64_t expected)
{
    struct store2 *s = malloc(sizeof(*s));
    uint32_t n_buckets = SHMEM_FIRST_BUCKETS;
    size_t bytes = expected ? expected * (sizeof(int32_t) + sizeof(struct pair)) : SHMEM_FIRST_BYTES;

    while (n_buckets < expected)
        n_buckets *= 2;
    if (!s)
        return NULL;
    memset(&s->client, 0, sizeof(s->client));
    s->client.table.fd = s->client.kvs.fd = -1;
    if (shmem2_open(&s->server, n_buckets, bytes) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

static int finish2(void *store)
{
    struct store2 *s = store;

    return shmem2_attach(&s->client, &s->server, 0);
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

#define SHMEM2(SUFFIX, HASH, NAME)                                                                                     \
    static int insert2_##SUFFIX(void *store, const struct pair *pairs, size_t n)                                       \
    {                                                                                                                  \
        struct shmem2 *s = &((struct store2 *)store)->server;                                                          \
        int rc = 0;                                                                                                    \
                                                                                                                       \
        for (size_t i = 0; i < n && rc == 0; i++)                                                                      \
            rc = shmem2_insert(s, HASH, pairs[i].key.s, KEY_CHARS, pairs[i].value.s, VALUE_CHARS);                     \
        return rc;                                                                                                     \
    }                                                                                                                  \
                                                                                                                       \
    SHMEM_INLINE const void *look_up2_##SUFFIX(void *store, const struct key *key)                                     \
    {                                                                                                                  \
        return shmem2_get(&((struct store2 *)store)->client, HASH, key->s, KEY_CHARS);                                 \
    }                                                                                                                  \
                                                                                                                       \
    PEER_LOOPS(shmem2_##SUFFIX, look_up2_##SUFFIX)                                                                     \
                                                                                                                       \
    extern const struct peer_ops peer_shmem2_##SUFFIX;                                                                 \
    const struct peer_ops peer_shmem2_##SUFFIX = {                                                                     \
        .name = NAME,                                                                                                  \
        .bytes_an_entry = 64,                                                                                          \
        .create = create2,                                                                                             \
        .insert = insert2_##SUFFIX,                                                                                    \
        .finish = finish2,                                                                                             \
        .find = shmem2_##SUFFIX##_find,                                                                                \
        .get = shmem2_##SUFFIX##_get,                                                                                  \
        .get_dependent = shmem2_##SUFFIX##_get_dependent,                                                              \
        .bytes = bytes2,                                                                                               \
        .destroy = destroy2,                                                                                           \
    };

SHMEM2(fnv1a, SHMEM_FNV1A, "SHMEM-2/FNV-1a")

#ifdef HAVE_XXHASH
SHMEM2(xxh3, SHMEM_XXH3, "SHMEM-2/XXH3")
#define SHMEM1_HASH SHMEM_XXH3
#define SHMEM1_NAME "SHMEM-1/XXH3"
#else
#define SHMEM1_HASH SHMEM_FNV1A
#define SHMEM1_NAME "SHMEM-1/FNV-1a"
#endif

static void *create1(uint64_t expected)
{
    struct store1 *s = malloc(sizeof(*s));
    uint32_t n_buckets = SHMEM_FIRST_BUCKETS;
    size_t bytes = expected ? expected * (sizeof(int32_t) + sizeof(struct pair)) : SHMEM_FIRST_BYTES;

    while (n_buckets < expected)
        n_buckets *= 2;
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
        rc = shmem1_insert(s, SHMEM1_HASH, pairs[i].key.s, KEY_CHARS, pairs[i].value.s, VALUE_CHARS);
    return rc;
}

static int finish1(void *store)
{
    struct store1 *s = store;

    s->server_region = s->server.region;
    return shmem_region_attach(&s->server.region, s->server_region.fd, s->server_region.bytes, 0);
}

SHMEM_INLINE const void *look_up1(void *store, const struct key *key)
{
    return shmem1_get(&((struct store1 *)store)->server, SHMEM1_HASH, key->s, KEY_CHARS);
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
    .bytes = bytes1,
    .destroy = destroy1,
};
