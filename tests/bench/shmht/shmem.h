/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The paper's two hash tables in shared memory, as published (SHMEMPMI, section IV), for comparison
 * with ours.
 *
 * SHMEM-2 (IV-C): a Table of buckets {head, tail} and a KVS of entries {next, key, value}, each in
 * a region of its own. Strings end in NUL, follow each other without padding and have no lengths.
 * Offsets take 4 bytes, which is what the paper's 64 MB for a million pairs amount to. Algorithm 1
 * inserts, Algorithm 2 looks up, Algorithm 3 resizes the Table when there are more keys than
 * buckets (load factor 1, as in all the paper's experiments but Figure 8b); the KVS doubles in
 * place.
 *
 * SHMEM-1 (IV-B): the same in one region, buckets first, offsets from its start. When the entries
 * no longer fit, or there are more keys than buckets, a larger region is made and all pairs move
 * into it.
 *
 * One fault is fixed. The algorithms take `head <= 0` for an empty bucket, but KVS.top starts at 0,
 * so that the first entry has offset 0: the next key of its bucket would overwrite head, and the
 * first would be lost. Here, as in the paper's text, only the invalid value -1 is empty.
 *
 * Left as published: an insert does not look for the key first; a Get checks no offset; and no Get
 * may run during an insert. The paper does not name the hash. The caller knows the key's length,
 * which saves SHMEM-1 and SHMEM-2 a strlen() in each Get.
 */
#ifndef FENCEPOST_SHMHT_SHMEM_H
#define FENCEPOST_SHMHT_SHMEM_H

#ifndef _GNU_SOURCE
#error "shmem.h needs _GNU_SOURCE, for memfd_create() and mremap()"
#endif
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef HAVE_XXHASH
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wshadow"
#define XXH_INLINE_ALL
#include <xxhash.h>
#pragma GCC diagnostic pop
#endif

#define SHMEM_INLINE        static inline __attribute__((always_inline))
#define SHMEM_FIRST_BUCKETS 64u
#define SHMEM_FIRST_BYTES   4096u

enum shmem_hash { SHMEM_FNV1A, SHMEM_XXH3 };

struct shmem_bucket {
    int32_t head, tail;
};

/* A region: a memfd and where this process has it. */
struct shmem_region {
    char *at;
    size_t bytes;
    int fd;
};

static inline int shmem_region_open(struct shmem_region *r, size_t bytes)
{
    void *at;

    r->at = NULL;
    r->bytes = bytes;
    r->fd = memfd_create("bench_shmht_shmem", MFD_CLOEXEC);
    if (r->fd < 0)
        return -errno;
    if (ftruncate(r->fd, (off_t)bytes) != 0 ||
        (at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0)) == MAP_FAILED) {
        close(r->fd);
        r->fd = -1;
        return -errno;
    }
    r->at = at;
    return 0;
}

static inline int shmem_region_grow(struct shmem_region *r, size_t bytes)
{
    void *at;

    if (ftruncate(r->fd, (off_t)bytes) != 0 ||
        (at = mremap(r->at, r->bytes, bytes, MREMAP_MAYMOVE)) == MAP_FAILED)
        return -errno;
    r->at = at;
    r->bytes = bytes;
    return 0;
}

/* A client's view of a region. */
static inline int shmem_region_attach(struct shmem_region *r, int fd, size_t bytes, int flags)
{
    void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED | flags, fd, 0);

    if (at == MAP_FAILED)
        return -errno;
    r->at = at;
    r->bytes = bytes;
    r->fd = -1;
    return 0;
}

static inline void shmem_region_close(struct shmem_region *r)
{
    if (r->at)
        munmap(r->at, r->bytes);
    if (r->fd >= 0)
        close(r->fd);
    r->at = NULL;
    r->fd = -1;
}

/* FNV-1a is good in its low bits, for tables of a power of two; XXH3 in all of them, for tables of
 * any size. */
SHMEM_INLINE uint32_t shmem_index(enum shmem_hash hash, const char *key, size_t len,
                                  uint32_t n_buckets)
{
#ifdef HAVE_XXHASH
    if (hash == SHMEM_XXH3)
        return (uint32_t)((XXH3_64bits(key, len) >> 32) * n_buckets >> 32);
#endif
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)key[i]) * UINT64_C(0x100000001b3);
    return (uint32_t)h & (n_buckets - 1);
}

/* Entries lie at any offset: {int32_t next; char key[], value[];}. */
SHMEM_INLINE int32_t shmem_next(const char *entry)
{
    int32_t next;

    memcpy(&next, entry, sizeof(next));
    return next;
}

SHMEM_INLINE void shmem_set_next(char *entry, int32_t next)
{
    memcpy(entry, &next, sizeof(next));
}

/* The second half of Algorithm 1, and the body of Algorithm 3: entry at `offset` from `base` goes
 * to the end of its bucket. */
SHMEM_INLINE void shmem_link(struct shmem_bucket *bucket, char *base, int32_t offset)
{
    if (bucket->head < 0) {
        bucket->head = bucket->tail = offset;
    } else {
        shmem_set_next(base + bucket->tail, offset);
        bucket->tail = offset;
    }
}

/* Algorithm 2. */
SHMEM_INLINE const char *shmem_look_up(const struct shmem_bucket *bucket, const char *base,
                                       const char *key, size_t len)
{
    for (int32_t offset = bucket->head; offset >= 0;) {
        const char *entry = base + offset;

        if (memcmp(entry + sizeof(int32_t), key, len + 1) == 0)
            return entry + sizeof(int32_t) + len + 1;
        offset = shmem_next(entry);
    }
    return NULL;
}

/* The entry's length, which only its NULs give. */
static inline size_t shmem_entry_bytes(const char *entry, size_t *key_len)
{
    const char *key = entry + sizeof(int32_t), *value;

    *key_len = strlen(key);
    value = key + *key_len + 1;
    return (size_t)(value - entry) + strlen(value) + 1;
}

SHMEM_INLINE void shmem_write(char *entry, const char *key, size_t len, const char *value,
                              size_t value_len)
{
    shmem_set_next(entry, -1);
    memcpy(entry + sizeof(int32_t), key, len + 1);
    memcpy(entry + sizeof(int32_t) + len + 1, value, value_len + 1);
}

/* ---- SHMEM-2 ---------------------------------------------------------------- */

struct shmem2 {
    struct shmem_region table, kvs;
    uint32_t n_buckets;
    uint32_t n_keys;
    size_t top;
    double max_load; /* keys for each bucket */
};

static inline void shmem2_close(struct shmem2 *s)
{
    shmem_region_close(&s->table);
    shmem_region_close(&s->kvs);
}

static inline int shmem2_open(struct shmem2 *s, uint32_t n_buckets, size_t kvs_bytes)
{
    int rc;

    memset(s, 0, sizeof(*s));
    s->table.fd = s->kvs.fd = -1;
    s->n_buckets = n_buckets;
    s->max_load = 1;
    if ((rc = shmem_region_open(&s->table, n_buckets * sizeof(struct shmem_bucket))) != 0 ||
        (rc = shmem_region_open(&s->kvs, kvs_bytes)) != 0) {
        shmem2_close(s);
        return rc;
    }
    memset(s->table.at, 0xff, s->table.bytes);
    return 0;
}

SHMEM_INLINE struct shmem_bucket *shmem2_bucket(const struct shmem2 *s, enum shmem_hash hash,
                                                const char *key, size_t len)
{
    return (struct shmem_bucket *)(void *)s->table.at + shmem_index(hash, key, len, s->n_buckets);
}

/* Algorithm 3, with the Table's new size. */
SHMEM_INLINE int shmem2_resize(struct shmem2 *s, enum shmem_hash hash, uint32_t n_buckets)
{
    size_t bytes = n_buckets * sizeof(struct shmem_bucket), len;
    int rc = bytes == s->table.bytes ? 0 : shmem_region_grow(&s->table, bytes);

    if (rc != 0)
        return rc;
    s->n_buckets = n_buckets;
    memset(s->table.at, 0xff, bytes);
    for (size_t at = 0, next; at < s->top; at = next) {
        char *entry = s->kvs.at + at;

        next = at + shmem_entry_bytes(entry, &len);
        shmem_set_next(entry, -1);
        shmem_link(shmem2_bucket(s, hash, entry + sizeof(int32_t), len), s->kvs.at, (int32_t)at);
    }
    return 0;
}

/* Algorithm 1, and the growth that it calls for. The strings end in NUL behind their lengths. */
SHMEM_INLINE int shmem2_insert(struct shmem2 *s, enum shmem_hash hash, const char *key, size_t len,
                               const char *value, size_t value_len)
{
    size_t bytes = sizeof(int32_t) + len + 1 + value_len + 1, entry = s->top;
    int rc = 0;

    if (entry + bytes > INT32_MAX)
        return -EFBIG;
    if (entry + bytes > s->kvs.bytes)
        rc = shmem_region_grow(&s->kvs, 2 * s->kvs.bytes);
    if (rc == 0 && s->n_keys + 1 > s->max_load * s->n_buckets)
        rc = shmem2_resize(s, hash, 2 * s->n_buckets);
    if (rc != 0)
        return rc;
    shmem_write(s->kvs.at + entry, key, len, value, value_len);
    s->top += bytes;
    s->n_keys++;
    shmem_link(shmem2_bucket(s, hash, key, len), s->kvs.at, (int32_t)entry);
    return 0;
}

SHMEM_INLINE const char *shmem2_get(const struct shmem2 *s, enum shmem_hash hash, const char *key,
                                    size_t len)
{
    return shmem_look_up(shmem2_bucket(s, hash, key, len), s->kvs.at, key, len);
}

static inline uint64_t shmem2_bytes(const struct shmem2 *s)
{
    return s->n_buckets * sizeof(struct shmem_bucket) + s->top;
}

/* A client's step after the answer to its Fence: maps both regions, to read. */
static inline int shmem2_attach(struct shmem2 *client, const struct shmem2 *s, int flags)
{
    int rc;

    *client = *s;
    client->table.at = client->kvs.at = NULL;
    client->table.fd = client->kvs.fd = -1;
    if ((rc = shmem_region_attach(&client->table, s->table.fd, s->table.bytes, flags)) != 0 ||
        (rc = shmem_region_attach(&client->kvs, s->kvs.fd, s->kvs.bytes, flags)) != 0)
        shmem2_close(client);
    return rc;
}

/* ---- SHMEM-1 ---------------------------------------------------------------- */

struct shmem1 {
    struct shmem_region region; /* n_buckets buckets, then entries up to `top` */
    uint32_t n_buckets;
    uint32_t n_keys;
    size_t top;
};

static inline int shmem1_open(struct shmem1 *s, uint32_t n_buckets, size_t bytes)
{
    int rc;

    memset(s, 0, sizeof(*s));
    s->n_buckets = n_buckets;
    s->top = n_buckets * sizeof(struct shmem_bucket);
    rc = shmem_region_open(&s->region, s->top + bytes);
    if (rc == 0)
        memset(s->region.at, 0xff, s->top);
    return rc;
}

SHMEM_INLINE struct shmem_bucket *shmem1_bucket(const struct shmem1 *s, enum shmem_hash hash,
                                                const char *key, size_t len)
{
    return (struct shmem_bucket *)(void *)s->region.at + shmem_index(hash, key, len, s->n_buckets);
}

SHMEM_INLINE void shmem1_put(struct shmem1 *s, enum shmem_hash hash, const char *key, size_t len,
                             const char *value, size_t value_len)
{
    char *entry = s->region.at + s->top;

    shmem_write(entry, key, len, value, value_len);
    shmem_link(shmem1_bucket(s, hash, key, len), s->region.at, (int32_t)s->top);
    s->top += sizeof(int32_t) + len + 1 + value_len + 1;
    s->n_keys++;
}

/* Moves all pairs into a new region of n_buckets and this many bytes of entries. */
SHMEM_INLINE int shmem1_rebuild(struct shmem1 *s, enum shmem_hash hash, uint32_t n_buckets,
                                size_t bytes)
{
    struct shmem1 larger;
    size_t len, whole;
    int rc;

    if (n_buckets * sizeof(struct shmem_bucket) + bytes > INT32_MAX)
        return -EFBIG;
    rc = shmem1_open(&larger, n_buckets, bytes);
    if (rc != 0)
        return rc;
    for (size_t at = s->n_buckets * sizeof(struct shmem_bucket); at < s->top; at += whole) {
        const char *entry = s->region.at + at, *key = entry + sizeof(int32_t);

        whole = shmem_entry_bytes(entry, &len);
        shmem1_put(&larger, hash, key, len, key + len + 1, whole - sizeof(int32_t) - len - 2);
    }
    shmem_region_close(&s->region);
    *s = larger;
    return 0;
}

SHMEM_INLINE int shmem1_insert(struct shmem1 *s, enum shmem_hash hash, const char *key, size_t len,
                               const char *value, size_t value_len)
{
    size_t bytes = s->region.bytes - s->n_buckets * sizeof(struct shmem_bucket);
    int full = s->top + sizeof(int32_t) + len + 1 + value_len + 1 > s->region.bytes,
        crowded = s->n_keys + 1 > s->n_buckets;
    int rc = 0;

    if (full || crowded)
        rc = shmem1_rebuild(s, hash, crowded ? 2 * s->n_buckets : s->n_buckets,
                            full ? 2 * bytes : bytes);
    if (rc == 0)
        shmem1_put(s, hash, key, len, value, value_len);
    return rc;
}

SHMEM_INLINE const char *shmem1_get(const struct shmem1 *s, enum shmem_hash hash, const char *key,
                                    size_t len)
{
    return shmem_look_up(shmem1_bucket(s, hash, key, len), s->region.at, key, len);
}

#endif
