/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys and who waits for them. Entries are found by (home, key) in a table of open addressing;
 * their pairs are records in one arena, ready to be sent. An update that needs more room than the
 * record has goes to the arena's end; when half of the arena is garbage it is packed instead of
 * grown.
 */
#include <errno.h>

#include "exchange_internal.h"

#define FIRST_ENTRIES 8u
#define MAX_ENTRIES   (1u << 30)

void pmiwire__xstore_init(struct pmiwire_exchange *x)
{
    struct pmiwire__xstore *s = &x->store;

    memset(s, 0, sizeof(*s));
    s->free_entry = s->free_waiter = s->waiting = s->copies = s->due_head = s->due_tail =
        PMIWIRE__XNONE;
    s->key[0] = (uintptr_t)x * 0x9e3779b97f4a7c15u;
    s->key[1] = ((uintptr_t)&s << 20) ^ (uintptr_t)&pmiwire__xfind;
}

void pmiwire__xstore_fini(struct pmiwire_exchange *x)
{
    struct pmiwire__xstore *s = &x->store;

    (void)pmiwire__xrealloc(x, s->entries, s->cap_entries * sizeof(*s->entries), 0);
    (void)pmiwire__xrealloc(x, s->slots, s->n_slots * sizeof(*s->slots), 0);
    (void)pmiwire__xrealloc(x, s->waiters, s->cap_waiters * sizeof(*s->waiters), 0);
    pmiwire__xbuf_free(x, &s->arena);
}

/* ---- room ---- */

static int more_slots(struct pmiwire_exchange *x, uint32_t n_slots)
{
    struct pmiwire__xstore *s = &x->store;
    struct pmiwire__xslot *fresh = pmiwire__xrealloc(x, NULL, 0, n_slots * sizeof(*fresh));
    uint32_t i, j;

    if (!fresh)
        return -ENOMEM;
    memset(fresh, 0, n_slots * sizeof(*fresh));
    for (i = 0; i < s->n_slots; i++) {
        if (!s->slots[i].entry)
            continue;
        for (j = s->slots[i].hash & (n_slots - 1); fresh[j].entry; j = (j + 1) & (n_slots - 1))
            ;
        fresh[j] = s->slots[i];
    }
    (void)pmiwire__xrealloc(x, s->slots, s->n_slots * sizeof(*s->slots), 0);
    s->slots = fresh;
    s->n_slots = n_slots;
    return 0;
}

static int more_entries(struct pmiwire_exchange *x, uint32_t need)
{
    struct pmiwire__xstore *s = &x->store;
    uint32_t cap = s->cap_entries ? s->cap_entries : FIRST_ENTRIES,
             slots = s->n_slots ? s->n_slots : FIRST_ENTRIES;
    struct pmiwire__xentry *entries;

    if (need > MAX_ENTRIES)
        return -ENOMEM;
    while (cap < need)
        cap *= 2;
    while (slots / 8 * 5 < need)
        slots *= 2;
    if (slots > s->n_slots && more_slots(x, slots) != 0)
        return -ENOMEM;
    if (cap == s->cap_entries)
        return 0;
    entries =
        pmiwire__xrealloc(x, s->entries, s->cap_entries * sizeof(*entries), cap * sizeof(*entries));
    if (!entries)
        return -ENOMEM;
    s->entries = entries;
    s->cap_entries = cap;
    return 0;
}

/* Move all records to a fresh arena of at least so many bytes more. */
static int pack(struct pmiwire_exchange *x, size_t more)
{
    struct pmiwire__xstore *s = &x->store;
    struct pmiwire__xbuf fresh = {NULL, 0, 0};
    uint32_t e;

    if (pmiwire__xbuf_room(x, &fresh, s->arena.len - s->garbage + more) != 0)
        return -ENOMEM;
    for (e = 0; e < s->n_entries; e++) {
        struct pmiwire__xentry *entry = &s->entries[e];
        const char *from = s->arena.ptr + 4 * (size_t)entry->rec;

        if (!(entry->flags & PMIWIRE__XE_USED))
            continue;
        entry->rec = (uint32_t)(fresh.len / 4);
        pmiwire__xbuf_add(&fresh, from, entry->room);
    }
    pmiwire__xbuf_free(x, &s->arena);
    s->arena = fresh;
    s->garbage = 0;
    return 0;
}

int pmiwire__xreserve(struct pmiwire_exchange *x, uint32_t n_entries, size_t record_bytes)
{
    struct pmiwire__xstore *s = &x->store;
    uint32_t need = s->n_keys + n_entries;

    /* Free entries are within n_entries, so that the keys in use are what counts. */
    if (need < s->n_keys ||
        ((need > s->cap_entries || need > s->n_slots / 8 * 5) && more_entries(x, need) != 0))
        return -ENOMEM;
    if (s->arena.len + record_bytes <= s->arena.cap)
        return 0;
    if (record_bytes > UINT32_MAX ||
        s->arena.len - s->garbage + record_bytes > (size_t)4 * UINT32_MAX)
        return -ENOMEM;
    if (s->garbage > s->arena.len / 2)
        return pack(x, record_bytes);
    return pmiwire__xbuf_room(x, &s->arena, record_bytes);
}

int pmiwire__xreserve_waiters(struct pmiwire_exchange *x, uint32_t n)
{
    struct pmiwire__xstore *s = &x->store;
    uint32_t need = s->n_waiting + n, cap = s->cap_waiters ? s->cap_waiters : FIRST_ENTRIES;
    struct pmiwire__xwaiter *w;

    if (need <= s->cap_waiters)
        return 0;
    if (need > MAX_ENTRIES)
        return -ENOMEM;
    while (cap < need)
        cap *= 2;
    w = pmiwire__xrealloc(x, s->waiters, s->cap_waiters * sizeof(*w), cap * sizeof(*w));
    if (!w)
        return -ENOMEM;
    s->waiters = w;
    s->cap_waiters = cap;
    return 0;
}

/* ---- entries ---- */

static uint32_t hash_of(const struct pmiwire_exchange *x, uint32_t home, struct pmiwire_str key)
{
    uint64_t h = pmiwire__hash(x->store.key, key) + home * UINT64_C(0x9e3779b97f4a7c15);

    return (uint32_t)((h ^ h >> 32) * UINT64_C(0xbf58476d1ce4e5b9) >> 32);
}

/* The slot of a key, or the empty one where it would go. */
static uint32_t probe(const struct pmiwire_exchange *x, uint32_t hash, uint32_t home,
                      struct pmiwire_str key)
{
    const struct pmiwire__xstore *s = &x->store;
    uint32_t i;

    for (i = hash & (s->n_slots - 1); s->slots[i].entry; i = (i + 1) & (s->n_slots - 1)) {
        uint32_t e = s->slots[i].entry - 1;
        struct pmiwire_str k;

        if (s->slots[i].hash != hash || s->entries[e].home != home)
            continue;
        k = pmiwire__xkey(x, e);
        if (k.len == key.len && memcmp(k.ptr, key.ptr, key.len) == 0)
            break;
    }
    return i;
}

uint32_t pmiwire__xfind(const struct pmiwire_exchange *x, uint32_t home, struct pmiwire_str key)
{
    if (x->store.n_keys == 0)
        return PMIWIRE__XNONE;
    return x->store.slots[probe(x, hash_of(x, home, key), home, key)].entry - 1; /* 0 - 1 is NONE */
}

static uint32_t new_record(struct pmiwire__xstore *s, struct pmiwire_str key,
                           struct pmiwire_str value)
{
    uint32_t at = (uint32_t)(s->arena.len / 4);

    pmiwire__record_write(s->arena.ptr + s->arena.len, key, value);
    s->arena.len += pmiwire__record_bytes(key.len, value.len);
    return at;
}

uint32_t pmiwire__xmake(struct pmiwire_exchange *x, uint32_t home, struct pmiwire_str key)
{
    struct pmiwire__xstore *s = &x->store;
    struct pmiwire_str none = {NULL, 0};
    uint32_t hash = hash_of(x, home, key), i = probe(x, hash, home, key), e;
    struct pmiwire__xentry *entry;

    if (s->slots[i].entry)
        return s->slots[i].entry - 1;
    e = s->free_entry;
    if (e != PMIWIRE__XNONE)
        s->free_entry = s->entries[e].next_copy;
    else
        e = s->n_entries++;
    entry = &s->entries[e];
    memset(entry, 0, sizeof(*entry));
    entry->hash = hash;
    entry->home = home;
    entry->rec = new_record(s, key, none);
    entry->room = (uint32_t)pmiwire__record_bytes(key.len, 0);
    entry->head = entry->tail = entry->prev = entry->next = entry->next_copy = PMIWIRE__XNONE;
    entry->flags = PMIWIRE__XE_USED;
    s->slots[i].hash = hash;
    s->slots[i].entry = e + 1;
    s->n_keys++;
    return e;
}

void pmiwire__xset(struct pmiwire_exchange *x, uint32_t e, struct pmiwire_str value, uint32_t stamp)
{
    struct pmiwire__xstore *s = &x->store;
    struct pmiwire__xentry *entry = &s->entries[e];
    struct pmiwire_str key = pmiwire__xkey(x, e);
    size_t bytes = pmiwire__record_bytes(key.len, value.len);

    if (bytes <= entry->room) {
        char *rec = pmiwire__xrecord(x, e);
        uint32_t word = (uint32_t)key.len << 18 | (uint32_t)value.len;

        memcpy(rec, &word, 4);
        if (value.len)
            memmove(rec + 4 + key.len, value.ptr, value.len);
        memset(rec + 4 + key.len + value.len, 0, bytes - 4 - key.len - value.len);
    } else {
        s->garbage += entry->room;
        entry->rec = new_record(s, key, value);
        entry->room = (uint32_t)bytes;
    }
    entry->stamp = stamp;
    entry->flags |= PMIWIRE__XE_VALUE;
}

static void remove_slot(struct pmiwire__xstore *s, uint32_t i)
{
    uint32_t mask = s->n_slots - 1, j = i;

    for (;;) {
        s->slots[i].entry = 0;
        do { /* what a probe would no longer reach moves back */
            j = (j + 1) & mask;
            if (!s->slots[j].entry)
                return;
        } while (((j - s->slots[j].hash) & mask) < ((j - i) & mask));
        s->slots[i] = s->slots[j];
        i = j;
    }
}

void pmiwire__xremove(struct pmiwire_exchange *x, uint32_t e)
{
    struct pmiwire__xstore *s = &x->store;
    struct pmiwire__xentry *entry = &s->entries[e];

    remove_slot(s, probe(x, entry->hash, entry->home, pmiwire__xkey(x, e)));
    s->garbage += entry->room;
    s->n_keys--;
    entry->flags = 0;
    entry->next_copy = s->free_entry;
    s->free_entry = e;
    if (s->n_keys == 0) { /* nothing is left to keep */
        s->arena.len = s->garbage = 0;
        s->n_entries = 0;
        s->free_entry = PMIWIRE__XNONE;
    }
}

static bool needed(const struct pmiwire__xentry *entry)
{
    return entry->pins || entry->head != PMIWIRE__XNONE ||
           (entry->flags & (PMIWIRE__XE_ASKED | PMIWIRE__XE_ASKED_WAIT));
}

void pmiwire__xtidy(struct pmiwire_exchange *x, uint32_t e)
{
    const struct pmiwire__xentry *entry = &x->store.entries[e];

    if (needed(entry) ||
        (entry->flags & PMIWIRE__XE_COPY)) /* one on the list of copies goes with the next Fence */
        return;
    if (!(entry->flags & PMIWIRE__XE_VALUE))
        pmiwire__xremove(x, e);
}

void pmiwire__xcopy(struct pmiwire_exchange *x, uint32_t e)
{
    struct pmiwire__xstore *s = &x->store;

    if (s->entries[e].flags & PMIWIRE__XE_COPY)
        return;
    s->entries[e].flags |= PMIWIRE__XE_COPY;
    s->entries[e].next_copy = s->copies;
    s->copies = e;
}

void pmiwire__xdrop_copies(struct pmiwire_exchange *x)
{
    struct pmiwire__xstore *s = &x->store;
    uint32_t e = s->copies;

    s->copies = PMIWIRE__XNONE;
    while (e != PMIWIRE__XNONE) {
        uint32_t next = s->entries[e].next_copy;

        s->entries[e].flags &= (uint16_t)~PMIWIRE__XE_COPY;
        if (needed(&s->entries[e]))
            pmiwire__xcopy(x, e);
        else
            pmiwire__xremove(x, e);
        e = next;
    }
}

/* ---- waiters ---- */

static void unlink_waiting(struct pmiwire__xstore *s, uint32_t e)
{
    struct pmiwire__xentry *entry = &s->entries[e];

    if (entry->prev != PMIWIRE__XNONE)
        s->entries[entry->prev].next = entry->next;
    else
        s->waiting = entry->next;
    if (entry->next != PMIWIRE__XNONE)
        s->entries[entry->next].prev = entry->prev;
    entry->prev = entry->next = PMIWIRE__XNONE;
}

void pmiwire__xkeep_waiter(struct pmiwire_exchange *x, uint32_t e, uint32_t w)
{
    struct pmiwire__xstore *s = &x->store;
    struct pmiwire__xentry *entry = &s->entries[e];

    s->waiters[w].next = PMIWIRE__XNONE;
    if (entry->head == PMIWIRE__XNONE) {
        entry->head = w;
        entry->prev = PMIWIRE__XNONE;
        entry->next = s->waiting;
        if (s->waiting != PMIWIRE__XNONE)
            s->entries[s->waiting].prev = e;
        s->waiting = e;
    } else {
        s->waiters[entry->tail].next = w;
    }
    entry->tail = w;
}

void pmiwire__xwait(struct pmiwire_exchange *x, uint32_t e, const struct pmiwire__xwaiter *waiter)
{
    struct pmiwire__xstore *s = &x->store;
    uint32_t w = s->free_waiter;

    if (w != PMIWIRE__XNONE)
        s->free_waiter = s->waiters[w].next;
    else
        w = s->n_waiters++;
    s->n_waiting++;
    s->waiters[w] = *waiter;
    s->waiters[w].entry = e;
    pmiwire__xkeep_waiter(x, e, w);
}

uint32_t pmiwire__xtake_waiters(struct pmiwire_exchange *x, uint32_t e)
{
    struct pmiwire__xentry *entry = &x->store.entries[e];
    uint32_t w = entry->head;

    if (w == PMIWIRE__XNONE)
        return w;
    entry->head = entry->tail = PMIWIRE__XNONE;
    unlink_waiting(&x->store, e);
    return w;
}

void pmiwire__xfree_waiter(struct pmiwire_exchange *x, uint32_t w)
{
    struct pmiwire__xstore *s = &x->store;

    s->waiters[w].next = s->free_waiter;
    s->free_waiter = w;
    s->n_waiting--;
}

void pmiwire__xdue(struct pmiwire_exchange *x, uint32_t w, int rc)
{
    struct pmiwire__xstore *s = &x->store;

    s->waiters[w].rc = rc;
    s->waiters[w].next = PMIWIRE__XNONE;
    s->entries[s->waiters[w].entry].pins++;
    if (s->due_head == PMIWIRE__XNONE)
        s->due_head = w;
    else
        s->waiters[s->due_tail].next = w;
    s->due_tail = w;
}
