/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hash store of byte strings: open addressing, linear probing, 64-bit hashes kept beside the
 * pointers, so that a probe reads an entry only when all 64 bits agree.
 *
 * Clients that choose keys may be hostile. The hash is SipHash-1-3. An engine without I/O has no
 * source of randomness, so its key is made from addresses (of the store, of a stack variable, of a
 * function): with address space randomisation a client cannot compute collisions in advance, and no
 * reply contains a hash. If a probe is long nevertheless, the store is rehashed under another key,
 * at most once for each size of the table. So a client gains nothing even if it knows the first
 * key, and the cost stays within a constant factor.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "server_internal.h"

/* No random set of keys reaches this probe length at the allowed load. */
#define LONG_PROBE  192u
#define FIRST_SLOTS 8u

static uint64_t rotate_key(uint64_t x, int b)
{
    return (x << b) | (x >> (64 - b));
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
    for (size_t i = 0; i < k->n_slots; i++)
        if (k->slots[i].entry)
            k->alloc->free(k->alloc->ctx, k->slots[i].entry);
    if (k->slots)
        k->alloc->free(k->alloc->ctx, k->slots);
    k->slots = NULL;
    k->n_slots = k->n = k->bytes = 0;
}

static struct pmiwire_str entry_key(const struct pmiwire__entry *e)
{
    struct pmiwire_str s = {e->bytes, e->key_len};

    return s;
}

/* Returns the slot of the key, or the empty slot where it would go. */
static size_t store_slot(const struct pmiwire__kvs *k, uint64_t hash, struct pmiwire_str key,
                         size_t *steps)
{
    size_t mask = k->n_slots - 1, i = hash & mask, n = 0;

    for (;; i = (i + 1) & mask, n++) {
        const struct pmiwire__slot *s = &k->slots[i];

        if (!s->entry)
            break;
        if (s->hash == hash && s->entry->key_len == key.len &&
            memcmp(s->entry->bytes, key.ptr, key.len) == 0)
            break;
    }
    if (steps)
        *steps = n;
    return i;
}

/* Puts every entry into a new table of n_slots; `rekey`: under a new hash key. */
static int rebuild_store(struct pmiwire__kvs *k, size_t n_slots, bool rekey)
{
    struct pmiwire__slot *old = k->slots, *fresh;
    size_t n_old = k->n_slots, j;

    if (n_slots > SIZE_MAX / sizeof(*fresh))
        return -ENOMEM;
    fresh = k->alloc->realloc(k->alloc->ctx, NULL, n_slots * sizeof(*fresh));
    if (!fresh)
        return -ENOMEM;
    memset(fresh, 0, n_slots * sizeof(*fresh));
    if (rekey) {
        k->key[0] = rotate_key(k->key[0], 23) ^ ((uintptr_t)fresh * 0x9e3779b97f4a7c15u);
        k->key[1] += k->key[0] ^ (k->n * 0xbf58476d1ce4e5b9u);
        k->rekeyed_at = n_slots;
    }
    for (size_t i = 0; i < n_old; i++) {
        struct pmiwire__slot s = old[i];

        if (!s.entry)
            continue;
        if (rekey)
            s.hash = pmiwire__hash(k->key, entry_key(s.entry));
        for (j = s.hash & (n_slots - 1); fresh[j].entry; j = (j + 1) & (n_slots - 1))
            ;
        fresh[j] = s;
    }
    if (old)
        k->alloc->free(k->alloc->ctx, old);
    k->slots = fresh;
    k->n_slots = n_slots;
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
    size_t i, steps;

    if (k->n + 1 > k->n_slots / 8 * 5) {
        int rc = rebuild_store(k, k->n_slots ? k->n_slots * 2 : FIRST_SLOTS, false);

        /* If memory is short, a table with room for one more is sufficient. */
        if (rc != 0 && k->n + 1 >= k->n_slots)
            return rc;
    }
    hash = pmiwire__hash(k->key, key);
    i = store_slot(k, hash, key, &steps);
    old = k->slots[i].entry;
    if (old && old->value_len == value.len && old->owner == owner) {
        if (value.len)
            memmove(old->bytes + old->key_len, value.ptr, value.len);
        return 0;
    }
    e = make_entry(k, key, value, owner);
    if (!e)
        return -ENOMEM;
    k->slots[i].hash = hash;
    k->slots[i].entry = e;
    k->bytes += key.len + value.len;
    if (old) {
        k->bytes -= (size_t)old->key_len + old->value_len;
        k->alloc->free(k->alloc->ctx, old);
    } else {
        k->n++;
    }
    if (steps > LONG_PROBE && k->rekeyed_at != k->n_slots)
        (void)rebuild_store(k, k->n_slots,
                            true); /* without memory the old table stays: slow, not wrong */
    return 0;
}

const struct pmiwire__entry *pmiwire__kvs_find(const struct pmiwire__kvs *k, struct pmiwire_str key)
{
    if (k->n == 0)
        return NULL;
    return k->slots[store_slot(k, pmiwire__hash(k->key, key), key, NULL)].entry;
}

/* Empties slot i and closes the gap: moves entries back that a probe would no longer reach. */
static void remove_at(struct pmiwire__kvs *k, size_t i)
{
    size_t mask = k->n_slots - 1, j = i;
    struct pmiwire__entry *e = k->slots[i].entry;

    k->n--;
    k->bytes -= (size_t)e->key_len + e->value_len;
    k->alloc->free(k->alloc->ctx, e);
    for (;;) {
        k->slots[i].entry = NULL;
        do {
            j = (j + 1) & mask;
            if (!k->slots[j].entry)
                return;
            /* stays if its home lies cyclically in (i, j] */
        } while (((j - (k->slots[j].hash & mask)) & mask) < ((j - i) & mask));
        k->slots[i] = k->slots[j];
        i = j;
    }
}

bool pmiwire__kvs_remove(struct pmiwire__kvs *k, struct pmiwire_str key)
{
    size_t i;

    if (k->n == 0)
        return false;
    i = store_slot(k, pmiwire__hash(k->key, key), key, NULL);
    if (!k->slots[i].entry)
        return false;
    remove_at(k, i);
    return true;
}

void pmiwire__kvs_remove_owner(struct pmiwire__kvs *k, uint32_t owner)
{
    size_t i = 0;

    while (i < k->n_slots) {
        /* Removal may move another entry here, so look again. An entry that wraps from the front to
         * the end has been seen already, or is another owner's. */
        if (k->slots[i].entry && k->slots[i].entry->owner == owner)
            remove_at(k, i);
        else
            i++;
    }
}
