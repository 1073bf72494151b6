/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys and their waiters. An open-addressing table finds entries by (home, key). Their pairs are
 * records in one arena, ready to be sent. If an update does not fit into the record's place, the
 * new record goes to the end of the arena. If half of the arena is garbage, it is compacted instead
 * of grown.
 */
#include <errno.h>

#include "exchange_internal.h"

#define FIRST_ENTRIES 8u
#define MAX_ENTRIES   (1u << 30)

void pmiwire__keys_init(struct pmiwire_exchange *x)
{
    struct pmiwire__keys *s = &x->store;

    memset(s, 0, sizeof(*s));
    s->free_entry = s->free_waiter = s->waiting = s->copies = s->due_head = s->due_tail =
        PMIWIRE__NONE;
    s->key[0] = (uintptr_t)x * 0x9e3779b97f4a7c15u;
    s->key[1] = ((uintptr_t)&s << 20) ^ (uintptr_t)&pmiwire__key_find;
}

void pmiwire__keys_fini(struct pmiwire_exchange *x)
{
    struct pmiwire__keys *s = &x->store;

    (void)pmiwire__mem_realloc(&x->mem, s->entries, s->cap_entries * sizeof(*s->entries), 0);
    (void)pmiwire__mem_realloc(&x->mem, s->slots.at, s->slots.n * sizeof(*s->slots.at), 0);
    (void)pmiwire__mem_realloc(&x->mem, s->waiters, s->cap_waiters * sizeof(*s->waiters), 0);
    pmiwire__buf_free(&x->mem, &s->arena);
}

/* ---- room ---- */

static int grow_slots(struct pmiwire_exchange *x, size_t n)
{
    struct pmiwire__slots *s = &x->store.slots, fresh = {.n = n};

    fresh.at = pmiwire__mem_realloc(&x->mem, NULL, 0, n * sizeof(*fresh.at));
    if (!fresh.at)
        return -ENOMEM;
    pmiwire__slots_move(&fresh, s);
    (void)pmiwire__mem_realloc(&x->mem, s->at, s->n * sizeof(*s->at), 0);
    *s = fresh;
    return 0;
}

static int grow_entries(struct pmiwire_exchange *x, uint32_t need)
{
    struct pmiwire__keys *s = &x->store;
    uint32_t cap = s->cap_entries ? s->cap_entries : FIRST_ENTRIES;
    size_t slots = s->slots.n ? s->slots.n : FIRST_ENTRIES;
    struct pmiwire__key *entries;

    if (need > MAX_ENTRIES)
        return -ENOMEM;
    while (cap < need)
        cap *= 2;
    while (slots / 8 * 5 < need)
        slots *= 2;
    if (slots > s->slots.n && grow_slots(x, slots) != 0)
        return -ENOMEM;
    if (cap == s->cap_entries)
        return 0;
    entries = pmiwire__mem_realloc(&x->mem, s->entries, s->cap_entries * sizeof(*entries),
                                   cap * sizeof(*entries));
    if (!entries)
        return -ENOMEM;
    s->entries = entries;
    s->cap_entries = cap;
    return 0;
}

/* Move all records to a fresh arena that is at least this many bytes larger. */
static int compact_arena(struct pmiwire_exchange *x, size_t more)
{
    struct pmiwire__keys *s = &x->store;
    struct pmiwire__buf fresh = {0};

    if (pmiwire__buf_room(&x->mem, &fresh, s->arena.len - s->garbage + more) != 0)
        return -ENOMEM;
    for (uint32_t e = 0; e < s->n_entries; e++) {
        struct pmiwire__key *entry = &s->entries[e];
        const char *from = s->arena.ptr + 4 * (size_t)entry->rec;

        if (!(entry->flags & PMIWIRE__KEY_USED))
            continue;
        entry->rec = (uint32_t)(fresh.len / 4);
        pmiwire__buf_add(&fresh, from, entry->room);
    }
    pmiwire__buf_free(&x->mem, &s->arena);
    s->arena = fresh;
    s->garbage = 0;
    return 0;
}

int pmiwire__keys_reserve(struct pmiwire_exchange *x, uint32_t n_entries, size_t record_bytes)
{
    struct pmiwire__keys *s = &x->store;
    uint32_t need = s->n_keys + n_entries;

    /* n_entries counts free entries too, so check the keys in use. */
    if (need < s->n_keys ||
        ((need > s->cap_entries || need > s->slots.n / 8 * 5) && grow_entries(x, need) != 0))
        return -ENOMEM;
    if (s->arena.len + record_bytes <= s->arena.cap)
        return 0;
    if (record_bytes > UINT32_MAX ||
        s->arena.len - s->garbage + record_bytes > (size_t)4 * UINT32_MAX)
        return -ENOMEM;
    if (s->garbage > s->arena.len / 2)
        return compact_arena(x, record_bytes);
    return pmiwire__buf_room(&x->mem, &s->arena, record_bytes);
}

int pmiwire__waiters_reserve(struct pmiwire_exchange *x, uint32_t n)
{
    struct pmiwire__keys *s = &x->store;
    uint32_t need = s->n_waiting + n, cap = s->cap_waiters ? s->cap_waiters : FIRST_ENTRIES;
    struct pmiwire__waiter *w;

    if (need <= s->cap_waiters)
        return 0;
    if (need > MAX_ENTRIES)
        return -ENOMEM;
    while (cap < need)
        cap *= 2;
    w = pmiwire__mem_realloc(&x->mem, s->waiters, s->cap_waiters * sizeof(*w), cap * sizeof(*w));
    if (!w)
        return -ENOMEM;
    s->waiters = w;
    s->cap_waiters = cap;
    return 0;
}

/* ---- entries ---- */

static uint32_t hash_key(const struct pmiwire_exchange *x, uint32_t home, struct pmiwire_str key)
{
    uint64_t h = pmiwire__hash(x->store.key, key) + home * UINT64_C(0x9e3779b97f4a7c15);

    return (uint32_t)((h ^ h >> 32) * UINT64_C(0xbf58476d1ce4e5b9) >> 32);
}

/* Returns the slot of a key, or the empty slot where it would go. */
static size_t find_slot(const struct pmiwire_exchange *x, uint32_t hash, uint32_t home,
                        struct pmiwire_str key)
{
    const struct pmiwire__keys *s = &x->store;
    size_t i = pmiwire__slot_next(&s->slots, hash, hash);

    for (; s->slots.at[i].item; i = pmiwire__slot_next(&s->slots, hash, i + 1)) {
        const uint32_t e = (uint32_t)s->slots.at[i].item - 1;

        if (s->entries[e].home == home && pmiwire__str_eq(pmiwire__key_name(x, e), key))
            break;
    }
    return i;
}

uint32_t pmiwire__key_find(const struct pmiwire_exchange *x, uint32_t home, struct pmiwire_str key)
{
    if (x->store.n_keys == 0)
        return PMIWIRE__NONE;
    /* An empty slot's 0 becomes PMIWIRE__NONE. */
    return (uint32_t)x->store.slots.at[find_slot(x, hash_key(x, home, key), home, key)].item - 1;
}

static uint32_t add_record(struct pmiwire__keys *s, struct pmiwire_str key,
                           struct pmiwire_str value)
{
    uint32_t at = (uint32_t)(s->arena.len / 4);

    pmiwire__record_write(s->arena.ptr + s->arena.len, key, value);
    s->arena.len += pmiwire__record_bytes(key.len, value.len);
    return at;
}

uint32_t pmiwire__key_make(struct pmiwire_exchange *x, uint32_t home, struct pmiwire_str key)
{
    struct pmiwire__keys *s = &x->store;
    struct pmiwire_str none = {NULL, 0};
    const uint32_t hash = hash_key(x, home, key);
    struct pmiwire__slot *slot = &s->slots.at[find_slot(x, hash, home, key)];
    struct pmiwire__key *entry;
    uint32_t e;

    if (slot->item)
        return (uint32_t)slot->item - 1;
    e = s->free_entry;
    if (e != PMIWIRE__NONE)
        s->free_entry = s->entries[e].next_copy;
    else
        e = s->n_entries++;
    entry = &s->entries[e];
    memset(entry, 0, sizeof(*entry));
    entry->hash = hash;
    entry->home = home;
    entry->rec = add_record(s, key, none);
    entry->room = (uint32_t)pmiwire__record_bytes(key.len, 0);
    entry->head = entry->tail = entry->prev = entry->next = entry->next_copy = PMIWIRE__NONE;
    entry->flags = PMIWIRE__KEY_USED;
    *slot = (struct pmiwire__slot){hash, (uintptr_t)e + 1};
    s->n_keys++;
    return e;
}

void pmiwire__key_set(struct pmiwire_exchange *x, uint32_t e, struct pmiwire_str value,
                      uint32_t stamp)
{
    struct pmiwire__keys *s = &x->store;
    struct pmiwire__key *entry = &s->entries[e];
    struct pmiwire_str key = pmiwire__key_name(x, e);
    size_t bytes = pmiwire__record_bytes(key.len, value.len);

    if (bytes <= entry->room) {
        char *rec = pmiwire__key_record(x, e);
        uint32_t word = (uint32_t)key.len << 18 | (uint32_t)value.len;

        memcpy(rec, &word, 4);
        if (value.len)
            memmove(rec + 4 + key.len, value.ptr, value.len);
        memset(rec + 4 + key.len + value.len, 0, bytes - 4 - key.len - value.len);
    } else {
        s->garbage += entry->room;
        entry->rec = add_record(s, key, value);
        entry->room = (uint32_t)bytes;
    }
    entry->stamp = stamp;
    entry->flags |= PMIWIRE__KEY_VALUE;
}

void pmiwire__key_remove(struct pmiwire_exchange *x, uint32_t e)
{
    struct pmiwire__keys *s = &x->store;
    struct pmiwire__key *entry = &s->entries[e];

    pmiwire__slot_remove(&s->slots,
                         find_slot(x, entry->hash, entry->home, pmiwire__key_name(x, e)));
    s->garbage += entry->room;
    s->n_keys--;
    entry->flags = 0;
    entry->next_copy = s->free_entry;
    s->free_entry = e;
    if (s->n_keys == 0) { /* no record is left */
        s->arena.len = s->garbage = 0;
        s->n_entries = 0;
        s->free_entry = PMIWIRE__NONE;
    }
}

static bool key_is_needed(const struct pmiwire__key *entry)
{
    return entry->pins || entry->head != PMIWIRE__NONE ||
           (entry->flags & (PMIWIRE__KEY_ASKED | PMIWIRE__KEY_ASKED_WAIT));
}

void pmiwire__key_tidy(struct pmiwire_exchange *x, uint32_t e)
{
    const struct pmiwire__key *entry = &x->store.entries[e];

    /* The next Fence removes a listed copy. */
    if (!key_is_needed(entry) && !(entry->flags & (PMIWIRE__KEY_COPY | PMIWIRE__KEY_VALUE)))
        pmiwire__key_remove(x, e);
}

void pmiwire__key_mark_copy(struct pmiwire_exchange *x, uint32_t e)
{
    struct pmiwire__keys *s = &x->store;

    if (s->entries[e].flags & PMIWIRE__KEY_COPY)
        return;
    s->entries[e].flags |= PMIWIRE__KEY_COPY;
    s->entries[e].next_copy = s->copies;
    s->copies = e;
}

void pmiwire__keys_drop_copies(struct pmiwire_exchange *x)
{
    struct pmiwire__keys *s = &x->store;
    uint32_t e = s->copies;

    s->copies = PMIWIRE__NONE;
    while (e != PMIWIRE__NONE) {
        uint32_t next = s->entries[e].next_copy;

        s->entries[e].flags &= (uint16_t)~PMIWIRE__KEY_COPY;
        if (key_is_needed(&s->entries[e]))
            pmiwire__key_mark_copy(x, e);
        else
            pmiwire__key_remove(x, e);
        e = next;
    }
}

/* ---- waiters ---- */

static void unlink_waiting(struct pmiwire__keys *s, uint32_t e)
{
    struct pmiwire__key *entry = &s->entries[e];

    if (entry->prev != PMIWIRE__NONE)
        s->entries[entry->prev].next = entry->next;
    else
        s->waiting = entry->next;
    if (entry->next != PMIWIRE__NONE)
        s->entries[entry->next].prev = entry->prev;
    entry->prev = entry->next = PMIWIRE__NONE;
}

void pmiwire__waiter_keep(struct pmiwire_exchange *x, uint32_t e, uint32_t w)
{
    struct pmiwire__keys *s = &x->store;
    struct pmiwire__key *entry = &s->entries[e];

    s->waiters[w].next = PMIWIRE__NONE;
    if (entry->head == PMIWIRE__NONE) {
        entry->head = w;
        entry->prev = PMIWIRE__NONE;
        entry->next = s->waiting;
        if (s->waiting != PMIWIRE__NONE)
            s->entries[s->waiting].prev = e;
        s->waiting = e;
    } else {
        s->waiters[entry->tail].next = w;
    }
    entry->tail = w;
}

void pmiwire__waiter_add(struct pmiwire_exchange *x, uint32_t e,
                         const struct pmiwire__waiter *waiter)
{
    struct pmiwire__keys *s = &x->store;
    uint32_t w = s->free_waiter;

    if (w != PMIWIRE__NONE)
        s->free_waiter = s->waiters[w].next;
    else
        w = s->n_waiters++;
    s->n_waiting++;
    s->waiters[w] = *waiter;
    s->waiters[w].entry = e;
    pmiwire__waiter_keep(x, e, w);
}

uint32_t pmiwire__waiters_take(struct pmiwire_exchange *x, uint32_t e)
{
    struct pmiwire__key *entry = &x->store.entries[e];
    uint32_t w = entry->head;

    if (w == PMIWIRE__NONE)
        return w;
    entry->head = entry->tail = PMIWIRE__NONE;
    unlink_waiting(&x->store, e);
    return w;
}

void pmiwire__waiter_free(struct pmiwire_exchange *x, uint32_t w)
{
    struct pmiwire__keys *s = &x->store;

    s->waiters[w].next = s->free_waiter;
    s->free_waiter = w;
    s->n_waiting--;
}

void pmiwire__waiter_due(struct pmiwire_exchange *x, uint32_t w, int rc)
{
    struct pmiwire__keys *s = &x->store;

    s->waiters[w].rc = rc;
    s->waiters[w].next = PMIWIRE__NONE;
    s->entries[s->waiters[w].entry].pins++;
    if (s->due_head == PMIWIRE__NONE)
        s->due_head = w;
    else
        s->waiters[s->due_tail].next = w;
    s->due_tail = w;
}
