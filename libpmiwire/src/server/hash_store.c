/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hash store of byte strings, in the table of base/slots.c: a search reads an entry only when all
 * 64 bits of the hash agree.
 *
 * Clients that choose keys may be hostile. The hash is SipHash-1-3. An engine without I/O has no
 * source of randomness, so its key is made from addresses (of the store, of a stack variable, of a
 * function): with address space randomisation a client cannot compute collisions in advance, and no
 * reply contains a hash. If a probe is long nevertheless, the store is rehashed under another key,
 * at most once for each size of the table. So a client gains nothing even if it knows the first
 * key, and the cost stays within a constant factor.
 */
#include <errno.h>
#include <string.h>

#include "server_internal.h"

/* No random set of keys reaches this probe length at the allowed load. */
#define LONG_PROBE  192u
#define FIRST_SLOTS 8u

static struct pmiwire__entry *entry_at(const struct pmiwire__kvs *k, size_t i)
{
    return (struct pmiwire__entry *)k->slots.at[i].item;
}

static struct pmiwire_str entry_key(const struct pmiwire__entry *e)
{
    return (struct pmiwire_str){e->bytes, e->key_len};
}

void pmiwire__kvs_init(struct pmiwire__kvs *k, const struct pmiwire_allocator *alloc)
{
    int here;

    memset(k, 0, sizeof(*k));
    k->alloc = alloc;
    k->key[0] = (uintptr_t)k * 0x9e3779b97f4a7c15u;
    k->key[1] = ((uintptr_t)&here << 20) ^ (uintptr_t)&pmiwire__kvs_put;
}

void pmiwire__kvs_fini(struct pmiwire__kvs *k)
{
    for (size_t i = 0; i < k->slots.n; i++)
        if (k->slots.at[i].item)
            k->alloc->free(k->alloc->ctx, entry_at(k, i));
    if (k->slots.at)
        k->alloc->free(k->alloc->ctx, k->slots.at);
    k->slots = (struct pmiwire__slots){0};
    k->n = k->bytes = 0;
}

/* Returns the slot of the key, or the empty slot where it would go. */
static size_t store_slot(const struct pmiwire__kvs *k, uint64_t hash, struct pmiwire_str key)
{
    size_t i = pmiwire__slot_next(&k->slots, hash, hash);

    while (k->slots.at[i].item && !pmiwire__str_eq(entry_key(entry_at(k, i)), key))
        i = pmiwire__slot_next(&k->slots, hash, i + 1);
    return i;
}

/* Changes the hash key to one that no client can know. The items must move then. */
static void rekey_store(struct pmiwire__kvs *k, uintptr_t address)
{
    k->key[0] = (k->key[0] << 23 | k->key[0] >> 41) ^ (address * 0x9e3779b97f4a7c15u);
    k->key[1] += k->key[0] ^ (k->n * 0xbf58476d1ce4e5b9u);
    k->rekeyed_at = k->slots.n;
    for (size_t i = 0; i < k->slots.n; i++)
        if (k->slots.at[i].item)
            k->slots.at[i].hash = pmiwire__hash(k->key, entry_key(entry_at(k, i)));
}

/* Gives the store n slots; `rekey`: under a new hash key. Returns 0, or -ENOMEM with nothing
 * changed. */
static int resize_store(struct pmiwire__kvs *k, size_t n, bool rekey)
{
    struct pmiwire__slots fresh = {.n = n};

    if (n <= SIZE_MAX / sizeof(*fresh.at))
        fresh.at = k->alloc->realloc(k->alloc->ctx, NULL, n * sizeof(*fresh.at));
    if (!fresh.at)
        return -ENOMEM;
    if (rekey)
        rekey_store(k, (uintptr_t)fresh.at);
    pmiwire__slots_move(&fresh, &k->slots);
    if (k->slots.at)
        k->alloc->free(k->alloc->ctx, k->slots.at);
    k->slots = fresh;
    return 0;
}

static struct pmiwire__entry *make_entry(struct pmiwire__kvs *k, struct pmiwire_str key,
                                         struct pmiwire_str value, uint32_t owner)
{
    struct pmiwire__entry *e;

    if (key.len > UINT32_MAX / 2 || value.len > UINT32_MAX / 2)
        return NULL;
    e = k->alloc->realloc(k->alloc->ctx, NULL, sizeof(*e) + key.len + value.len + 1);
    if (!e)
        return NULL;
    e->key_len = (uint32_t)key.len;
    e->value_len = (uint32_t)value.len;
    e->owner = owner;
    if (key.len)
        memcpy(e->bytes, key.ptr, key.len);
    if (value.len)
        memcpy(e->bytes + key.len, value.ptr, value.len);
    e->bytes[key.len + value.len] = '\0';
    return e;
}

int pmiwire__kvs_put(struct pmiwire__kvs *k, struct pmiwire_str key, struct pmiwire_str value,
                     uint32_t owner)
{
    struct pmiwire__entry *e, *old;
    uint64_t hash;
    size_t i;

    if (k->n + 1 > k->slots.n / 8 * 5) {
        int rc = resize_store(k, k->slots.n ? k->slots.n * 2 : FIRST_SLOTS, false);

        /* If memory is short, a table with room for one more is sufficient. */
        if (rc != 0 && k->n + 1 >= k->slots.n)
            return rc;
    }
    hash = pmiwire__hash(k->key, key);
    i = store_slot(k, hash, key);
    old = entry_at(k, i);
    if (old && old->value_len == value.len && old->owner == owner) {
        if (value.len)
            memmove(old->bytes + old->key_len, value.ptr, value.len);
        return 0;
    }
    e = make_entry(k, key, value, owner);
    if (!e)
        return -ENOMEM;
    k->slots.at[i] = (struct pmiwire__slot){hash, (uintptr_t)e};
    k->bytes += key.len + value.len;
    if (old) {
        k->bytes -= (size_t)old->key_len + old->value_len;
        k->alloc->free(k->alloc->ctx, old);
    } else {
        k->n++;
    }
    /* Without memory the old table stays: slow, not wrong. */
    if (((i - hash) & (k->slots.n - 1)) > LONG_PROBE && k->rekeyed_at != k->slots.n)
        (void)resize_store(k, k->slots.n, true);
    return 0;
}

const struct pmiwire__entry *pmiwire__kvs_find(const struct pmiwire__kvs *k, struct pmiwire_str key)
{
    return k->n ? entry_at(k, store_slot(k, pmiwire__hash(k->key, key), key)) : NULL;
}

static void remove_at(struct pmiwire__kvs *k, size_t i)
{
    struct pmiwire__entry *e = entry_at(k, i);

    k->n--;
    k->bytes -= (size_t)e->key_len + e->value_len;
    k->alloc->free(k->alloc->ctx, e);
    pmiwire__slot_remove(&k->slots, i);
}

bool pmiwire__kvs_remove(struct pmiwire__kvs *k, struct pmiwire_str key)
{
    const size_t i = k->n ? store_slot(k, pmiwire__hash(k->key, key), key) : 0;

    if (k->n == 0 || !k->slots.at[i].item)
        return false;
    remove_at(k, i);
    return true;
}

void pmiwire__kvs_remove_owner(struct pmiwire__kvs *k, uint32_t owner)
{
    for (size_t i = 0; i < k->slots.n;) {
        /* Removal may move another entry here, so look again. An entry that wraps from the front to
         * the end has been seen already, or is another owner's. */
        if (k->slots.at[i].item && entry_at(k, i)->owner == owner)
            remove_at(k, i);
        else
            i++;
    }
}
