/* SPDX-License-Identifier: BSD-3-Clause */
/* Concurrency Kit's ck_ht: one writer, any readers, with the hash that it brings. */
#include <stdbool.h>
#include <stdlib.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wpedantic"
#include <ck_ht.h>
#pragma GCC diagnostic pop

#include "peer.h"
#include "records.h"

struct store {
    ck_ht_t table;
    struct records records;
};

static void *allocate(size_t bytes)
{
    return malloc(bytes);
}

/* There are no readers while the table grows here, so frees need not be deferred. */
static void release(void *p, size_t bytes, bool defer)
{
    (void)bytes, (void)defer;
    free(p);
}

static struct ck_malloc allocator = {.malloc = allocate, .free = release};

static void *ck_create(uint64_t expected)
{
    struct store *s = malloc(sizeof(*s));

    if (!s)
        return NULL;
    records_init(&s->records);
    if (!ck_ht_init(&s->table, CK_HT_MODE_BYTESTRING, NULL, &allocator,
                    expected ? 2 * expected : 64, 1)) {
        free(s);
        return NULL;
    }
    return s;
}

static int ck_insert(void *store, const struct pair *pairs, size_t n)
{
    struct store *s = store;

    for (size_t i = 0; i < n; i++) {
        struct pair *pair = records_add(&s->records, &pairs[i]);
        ck_ht_entry_t entry;
        ck_ht_hash_t hash;

        if (!pair)
            return -1;
        ck_ht_hash(&hash, &s->table, pair->key.s, KEY_BYTES);
        ck_ht_entry_set(&entry, hash, pair->key.s, KEY_BYTES, pair->value.s);
        if (!ck_ht_put_spmc(&s->table, hash, &entry))
            return -1;
    }
    return 0;
}

static inline const void *look_up(void *store, const struct key *key, size_t len)
{
    struct store *s = store;
    ck_ht_entry_t entry;
    ck_ht_hash_t hash;

    ck_ht_hash(&hash, &s->table, key->s, (uint16_t)(len + 1));
    ck_ht_entry_key_set(&entry, key->s, (uint16_t)(len + 1));
    return ck_ht_get_spmc(&s->table, hash, &entry) ? ck_ht_entry_value(&entry) : NULL;
}

PEER_LOOPS(ck, look_up)

static uint64_t ck_bytes(void *store)
{
    return records_bytes(&((struct store *)store)->records);
}

static void ck_destroy(void *store)
{
    struct store *s = store;

    ck_ht_destroy(&s->table);
    records_fini(&s->records);
    free(s);
}

extern const struct peer_ops peer_ck;
const struct peer_ops peer_ck = {
    .name = "ck_ht",
    .bytes_an_entry = 190,
    .create = ck_create,
    .insert = ck_insert,
    .find = ck_find,
    .get = ck_get,
    .get_dependent = ck_get_dependent,
    .bytes = ck_bytes,
    .destroy = ck_destroy,
};
