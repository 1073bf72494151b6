/* SPDX-License-Identifier: BSD-3-Clause */
/* uthash unchanged: the hash handle beside the key and the value in one allocation. */
#include <malloc.h>
#include <stdlib.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wundef"
#include <uthash.h>
#pragma GCC diagnostic pop

#include "peer.h"
#include "records.h"

struct item {
    UT_hash_handle hh;
    struct pair pair;
};

struct store {
    struct item *head;
    size_t malloc_bytes;
};

static void *uthash_create(uint64_t expected)
{
    struct store *s = malloc(sizeof(*s));

    if (!s)
        return NULL;
    s->head = NULL;
    s->malloc_bytes = records_malloc_bytes();
    return s;
}

static int uthash_insert(void *store, const struct pair *pairs, size_t n)
{
    struct store *s = store;

    for (size_t i = 0; i < n; i++) {
        struct item *item = malloc(sizeof(*item));

        if (!item)
            return -1;
        item->pair = pairs[i];
        HASH_ADD(hh, s->head, pair.key.s, KEY_BYTES, item);
    }
    return 0;
}

static inline const void *look_up(void *store, const struct key *key, size_t len)
{
    struct store *s = store;
    struct item *item;

    HASH_FIND(hh, s->head, key->s, len + 1, item);
    return item ? item->pair.value.s : NULL;
}

PEER_LOOPS(uthash, look_up)

static uint64_t uthash_bytes(void *store)
{
    return records_malloc_bytes() - ((struct store *)store)->malloc_bytes;
}

static void uthash_destroy(void *store)
{
    struct store *s = store;
    struct item *item = s->head;

    HASH_CLEAR(hh, s->head);
    while (item) {
        struct item *next = item->hh.next;

        free(item);
        item = next;
    }
    free(s);
}

extern const struct peer_ops peer_uthash;
const struct peer_ops peer_uthash = {
    .name = "uthash",
    .bytes_an_entry = 150,
    .create = uthash_create,
    .insert = uthash_insert,
    .find = uthash_find,
    .get = uthash_get,
    .get_dependent = uthash_get_dependent,
    .bytes = uthash_bytes,
    .destroy = uthash_destroy,
};
