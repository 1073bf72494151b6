/* SPDX-License-Identifier: BSD-3-Clause */
/* GLib's GHashTable with its hash and comparison of strings. */
#include <glib.h>

#include "peer.h"
#include "records.h"

struct store {
    GHashTable *table;
    struct records records;
};

static void *glib_create(uint64_t expected)
{
    struct store *s = malloc(sizeof(*s));

    (void)expected; /* it cannot report it */
    if (!s)
        return NULL;
    records_init(&s->records);
    s->table = g_hash_table_new(g_str_hash, g_str_equal);
    return s;
}

static int glib_insert(void *store, const struct pair *pairs, size_t n)
{
    struct store *s = store;

    for (size_t i = 0; i < n; i++) {
        struct pair *pair = records_add(&s->records, &pairs[i]);

        if (!pair || !g_hash_table_insert(s->table, pair->key.s, pair->value.s))
            return -1;
    }
    return 0;
}

static inline const void *look_up(void *store, const struct key *key, size_t len)
{
    (void)len; /* it asks for the NUL */
    return g_hash_table_lookup(((struct store *)store)->table, key->s);
}

PEER_LOOPS(glib, look_up)

static uint64_t glib_bytes(void *store)
{
    return records_bytes(&((struct store *)store)->records);
}

static void glib_destroy(void *store)
{
    struct store *s = store;

    g_hash_table_destroy(s->table);
    records_fini(&s->records);
    free(s);
}

extern const struct peer_ops peer_glib;
const struct peer_ops peer_glib = {
    .name = "GHashTable",
    .bytes_an_entry = 160,
    .create = glib_create,
    .insert = glib_insert,
    .find = glib_find,
    .get = glib_get,
    .get_dependent = glib_get_dependent,
    .bytes = glib_bytes,
    .destroy = glib_destroy,
};
