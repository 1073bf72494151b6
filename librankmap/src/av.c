/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The address vector. Entries are in one mapping, reserved without memory; each group makes its own
 * stretch accessible.
 *
 * Groups, and addresses that do not fit an entry, are in a table each, and each table exists twice.
 * A change copies the present table into the spare one, changes that, and publishes it: a reader
 * has the old table or the new one, and both are right about the groups that the reader may know.
 * The next change overwrites what was the present table. It first counts up n_overwritten; a
 * reader that meets another count at its end than at its beginning reads again. So a reader waits
 * for no writer, and two tables suffice, however many changes there are. A larger table replaces
 * both; since sizes double, all smaller ones together are no larger than the present two.
 *
 * All that a reader loads from a table is atomic, stored with release and loaded with acquire. A
 * reader that loaded what an overwriting change stored then also loads its count.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rankmap/av.h>

#include "internal.h"

#define MAX_ENTRY 16u /* bytes of an address and a tag; larger entries are the caller's own */

#define GET(member)        atomic_load_explicit(&(member), memory_order_acquire)
#define PUT(member, value) atomic_store_explicit(&(member), value, memory_order_release)

/* A group, and the rule of its addresses if they are implicit. */
struct group {
    uint64_t id, base, n_procs;
    uint64_t first, step, tag;
};

/* A group in a table. */
struct group_slot {
    _Atomic uint64_t id, base, n_procs;
    _Atomic uint64_t first, step, tag;
};

/* What groups and escapes begin with. */
struct table {
    struct table *older; /* too small, but a reader may have it still */
    size_t bytes;
};

/* Groups in the order of their bases. */
struct groups {
    struct table table;
    uint32_t cap;
    _Atomic uint32_t n;
    struct group_slot slot[];
};

/* An address that does not fit an entry; key: flat id + 1. */
struct escape {
    _Atomic uint64_t key, addr, tag;
};

/* Open addressing, at most half full. */
struct escapes {
    struct table table;
    size_t n_slots, n;
    struct escape slot[];
};

struct rankmap_av {
    const struct rankmap_allocator *alloc;
    uint32_t width;
    uint32_t next_id;
    uint64_t capacity, tag_mask;
    unsigned char *entries;
    size_t reserved; /* bytes */
    _Atomic uint64_t n_overwritten;
    _Atomic(struct groups *) groups;
    _Atomic(struct escapes *) escapes;
    struct groups *spare_groups;
    struct escapes *spare_escapes;
    struct table *outgrown;
    _Atomic uint64_t table_bytes; /* of all tables of groups and escapes */
};

/* Makes a zeroed table in place of a spare one, or of NULL, that is too small. */
static void *table_new(struct rankmap_av *av, void *spare, size_t bytes)
{
    struct table *table = rankmap__alloc(av->alloc, 1, bytes), *old = spare;

    if (!table)
        return NULL;
    memset(table, 0, bytes);
    table->bytes = bytes;
    av->table_bytes += bytes;
    if (old) {
        old->older = av->outgrown;
        av->outgrown = old;
    }
    return table;
}

/* Returns the spare table with room for n groups. */
static struct groups *groups_spare(struct rankmap_av *av, uint32_t n)
{
    struct groups *g = av->spare_groups, *now = GET(av->groups);
    uint32_t cap = now ? now->cap : 4;

    if (g && n <= g->cap) {
        PUT(av->n_overwritten, av->n_overwritten + 1);
        return g;
    }
    while (cap < n)
        cap *= 2;
    g = table_new(av, g, sizeof(*g) + cap * sizeof(g->slot[0]));
    if (g) {
        g->cap = cap;
        av->spare_groups = g;
    }
    return g;
}

static struct groups *groups_now(const struct rankmap_av *av)
{
    return GET(av->groups);
}

/* A table without groups has one without processes, so that a search need not ask for n. */
static void groups_publish(struct rankmap_av *av, struct groups *g)
{
    struct groups *old = groups_now(av);

    if (g->n == 0)
        PUT(g->slot[0].n_procs, 0);
    PUT(av->groups, g);
    av->spare_groups = old;
}

static struct group group_load(const struct group_slot *slot)
{
    return (struct group){GET(slot->id),    GET(slot->base), GET(slot->n_procs),
                          GET(slot->first), GET(slot->step), GET(slot->tag)};
}

static void group_store(struct group_slot *slot, const struct group *group)
{
    PUT(slot->id, group->id);
    PUT(slot->base, group->base);
    PUT(slot->n_procs, group->n_procs);
    PUT(slot->first, group->first);
    PUT(slot->step, group->step);
    PUT(slot->tag, group->tag);
}

static void group_move(struct group_slot *to, const struct group_slot *from)
{
    const struct group group = group_load(from);

    group_store(to, &group);
}

/* Finds the group with a pgid. Returns NULL if there is none. */
static const struct group_slot *slot_of_id(const struct groups *g, uint64_t id)
{
    for (uint32_t i = 0, n = GET(g->n); i < n; i++)
        if (GET(g->slot[i].id) == id)
            return &g->slot[i];
    return NULL;
}

/* Finds the group with the lowest pgid from `id` on. Returns NULL if there is none. */
static const struct group_slot *slot_from_id(const struct groups *g, uint64_t id)
{
    const struct group_slot *found = NULL;
    uint64_t lowest = UINT64_MAX;

    for (uint32_t i = 0, n = GET(g->n); i < n; i++) {
        uint64_t here = GET(g->slot[i].id);

        if (here >= id && here < lowest) {
            lowest = here;
            found = &g->slot[i];
        }
    }
    return found;
}

/* Finds the group that has a flat id. Returns NULL if there is none. */
static inline const struct group_slot *slot_of_flat(const struct groups *g, uint64_t flat)
{
    const struct group_slot *slot = g->slot;

    for (uint32_t n = GET(g->n); n > 1;) {
        uint32_t half = n / 2;

        slot = GET(slot[half].base) <= flat ? slot + half : slot;
        n -= half;
    }
    return flat - GET(slot->base) < GET(slot->n_procs) ? slot : NULL;
}

/* Reads the group that `slot_of` finds for a number. Returns whether there is one. */
static bool group_read(const struct rankmap_av *av,
                       const struct group_slot *(*slot_of)(const struct groups *, uint64_t),
                       uint64_t number, struct group *group)
{
    const struct group_slot *slot;
    uint64_t seen;

    do {
        seen = GET(av->n_overwritten);
        slot = slot_of(groups_now(av), number);
        if (slot)
            *group = group_load(slot);
    } while (GET(av->n_overwritten) != seen);
    return slot != NULL;
}

/* Returns whether a flat id is in a group. */
static inline bool flat_is_in_group(const struct rankmap_av *av, uint64_t flat)
{
    const struct group_slot *slot;
    uint64_t seen;

    do {
        seen = GET(av->n_overwritten);
        slot = slot_of_flat(groups_now(av), flat);
    } while (GET(av->n_overwritten) != seen);
    return slot != NULL;
}

static struct rankmap_av_group group_public(const struct group *group)
{
    return (struct rankmap_av_group){
        .id = (uint32_t)group->id, .base = group->base, .n_procs = group->n_procs};
}

int rankmap_av_create(const struct rankmap_av_opts *given, struct rankmap_av **out)
{
    const struct rankmap_allocator *alloc;
    struct rankmap_av_opts opts;
    struct rankmap_av *av;
    struct groups *groups;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes;

    if (!given || !out || rankmap__opts_take(&opts, given, sizeof(opts)) < 0 ||
        opts.reserved != 0 || rankmap__allocator_take(&alloc, opts.allocator) < 0 ||
        (opts.entry_bytes != 0 && opts.entry_bytes != 8 && opts.entry_bytes != 12 &&
         opts.entry_bytes < 16) ||
        opts.entry_bytes > RANKMAP_MAX_WIDTH ||
        (opts.tag_mask != 0 && (opts.entry_bytes != 8 || opts.tag_mask == UINT64_MAX)))
        return -EINVAL;
    if (opts.capacity == 0 || opts.capacity > RANKMAP_ID_LIMIT ||
        __builtin_mul_overflow(opts.capacity, opts.entry_bytes, &bytes) || bytes > SIZE_MAX - page)
        return RANKMAP_ERANGE;
    av = rankmap__alloc(alloc, 1, sizeof(*av));
    if (!av)
        return -ENOMEM;
    memset(av, 0, sizeof(*av));
    av->alloc = alloc;
    av->width = opts.entry_bytes;
    av->capacity = opts.capacity;
    av->tag_mask = opts.tag_mask;
    groups = groups_spare(av, 1);
    if (groups && bytes > 0) {
        av->reserved = (bytes + page - 1) / page * page;
        av->entries =
            mmap(NULL, av->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (!groups || av->entries == MAP_FAILED) {
        rankmap__free(alloc, groups);
        rankmap__free(alloc, av);
        return -ENOMEM;
    }
    groups_publish(av, groups);
    *out = av;
    return 0;
}

void rankmap_av_destroy(struct rankmap_av *av)
{
    if (!av)
        return;
    while (av->outgrown) {
        struct table *older = av->outgrown->older;

        rankmap__free(av->alloc, av->outgrown);
        av->outgrown = older;
    }
    rankmap__free(av->alloc, groups_now(av));
    rankmap__free(av->alloc, av->spare_groups);
    rankmap__free(av->alloc, GET(av->escapes));
    rankmap__free(av->alloc, av->spare_escapes);
    if (av->entries)
        munmap(av->entries, av->reserved);
    rankmap__free(av->alloc, av);
}

/* Makes the entries of flat ids accessible, in whole pages, some of which may be accessible
 * already. */
static int open_entries(struct rankmap_av *av, uint64_t base, uint64_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), from, to;

    if (av->width == 0)
        return 0;
    from = (size_t)(base * av->width) / page * page;
    to = ((size_t)((base + n) * av->width) + page - 1) / page * page;
    return mprotect(av->entries + from, to - from, PROT_READ | PROT_WRITE) == 0 ? 0 : -ENOMEM;
}

/* Copies the table into the spare one, with room for more groups. */
static struct groups *groups_copy(struct rankmap_av *av, uint32_t extra)
{
    const struct groups *from = groups_now(av);
    uint32_t n = from->n;
    struct groups *g = groups_spare(av, n + extra);

    for (uint32_t i = 0; g && i < n; i++)
        group_move(&g->slot[i], &from->slot[i]);
    if (g)
        PUT(g->n, n);
    return g;
}

int rankmap_av_group_add(struct rankmap_av *av, uint64_t n_procs, struct rankmap_av_group *group)
{
    struct group added = {.n_procs = n_procs};
    struct groups *g;
    uint32_t n, at;
    int rc;

    if (!av || !group || n_procs == 0)
        return -EINVAL;
    g = groups_now(av);
    n = g->n;
    for (at = 0; at < n; at++) {
        const struct group_slot *next = &g->slot[at];

        if (next->base - added.base >= n_procs)
            break;
        added.base = next->base + next->n_procs;
    }
    if (av->capacity - added.base < n_procs || av->next_id == UINT32_MAX)
        return RANKMAP_EFULL;
    rc = open_entries(av, added.base, n_procs);
    if (rc < 0)
        return rc;
    g = groups_copy(av, 1);
    if (!g)
        return -ENOMEM;
    for (uint32_t i = n; i > at; i--)
        group_move(&g->slot[i], &g->slot[i - 1]);
    added.id = av->next_id++;
    group_store(&g->slot[at], &added);
    PUT(g->n, n + 1);
    groups_publish(av, g);
    *group = group_public(&added);
    return 0;
}

/* Returns whether first + step·lpid stays below 2^64. */
static bool rule_fits(uint64_t first, uint64_t step, uint64_t n_procs)
{
    uint64_t reach;

    return !__builtin_mul_overflow(step, n_procs - 1, &reach) && first <= UINT64_MAX - reach;
}

int rankmap_av_group_grow(struct rankmap_av *av, uint32_t id, uint64_t n_procs)
{
    struct groups *g = groups_now(av), *copy;
    const struct group_slot *group = slot_of_id(g, id);
    uint64_t limit = av->capacity;
    int rc;

    if (!group)
        return RANKMAP_ENOENT;
    if (n_procs < group->n_procs)
        return RANKMAP_ERANGE;
    if (group + 1 < g->slot + g->n)
        limit = group[1].base;
    if (limit - group->base < n_procs)
        return RANKMAP_EFULL;
    if (!rule_fits(group->first, group->step, n_procs))
        return RANKMAP_ERANGE;
    rc = open_entries(av, group->base, n_procs);
    if (rc < 0)
        return rc;
    copy = groups_copy(av, 0);
    if (!copy)
        return -ENOMEM;
    PUT(copy->slot[group - g->slot].n_procs, n_procs);
    groups_publish(av, copy);
    return 0;
}

/* Returns the slot of an id, or the empty one where it would go. At every moment half of the slots
 * are empty, also while a table is overwritten, so the search ends. */
static inline struct escape *escape_find(struct escapes *e, uint64_t id)
{
    for (size_t at = id_hash(id);; at++) {
        struct escape *slot = &e->slot[at & (e->n_slots - 1)];
        uint64_t key = GET(slot->key);

        if (key == 0 || key == id + 1)
            return slot;
    }
}

static void escape_store(struct escapes *e, uint64_t id, uint64_t addr, uint64_t tag)
{
    struct escape *slot = escape_find(e, id);

    e->n += slot->key == 0;
    PUT(slot->addr, addr);
    PUT(slot->tag, tag);
    PUT(slot->key, id + 1);
}

/* Makes the spare table one with the present one's entries outside [skip, skip + n_skip), and room
 * for one more. */
static struct escapes *escapes_copy(struct rankmap_av *av, uint64_t skip, uint64_t n_skip)
{
    struct escapes *e = av->spare_escapes, *old = GET(av->escapes);
    size_t n_slots = old ? old->n_slots : 16;

    while (old && 2 * (old->n + 1) > n_slots)
        n_slots *= 2;
    if (e && e->n_slots >= n_slots) {
        PUT(av->n_overwritten, av->n_overwritten + 1);
        for (size_t i = 0; i < e->n_slots; i++)
            PUT(e->slot[i].key, 0);
    } else {
        e = table_new(av, e, sizeof(*e) + n_slots * sizeof(e->slot[0]));
        if (!e)
            return NULL;
        e->n_slots = n_slots;
        av->spare_escapes = e;
    }
    e->n = 0;
    for (size_t i = 0; old && i < old->n_slots; i++) {
        uint64_t key = old->slot[i].key;

        if (key != 0 && !(key - 1 >= skip && key - 1 - skip < n_skip))
            escape_store(e, key - 1, old->slot[i].addr, old->slot[i].tag);
    }
    return e;
}

static void escapes_publish(struct rankmap_av *av, struct escapes *e)
{
    struct escapes *old = GET(av->escapes);

    PUT(av->escapes, e);
    av->spare_escapes = old;
}

static int escape_set(struct rankmap_av *av, uint64_t id, uint64_t addr, uint64_t tag)
{
    struct escapes *e = GET(av->escapes);

    if (!e || (2 * (e->n + 1) > e->n_slots && escape_find(e, id)->key == 0)) {
        e = escapes_copy(av, 0, 0);
        if (!e)
            return -ENOMEM;
        escapes_publish(av, e);
    }
    escape_store(e, id, addr, tag);
    return 0;
}

static int escape_read(const struct rankmap_av *av, uint64_t id, struct rankmap_av_entry *entry)
{
    uint64_t seen;

    do {
        const struct escape *slot;

        seen = GET(av->n_overwritten);
        slot = escape_find(GET(av->escapes), id);
        entry->addr = GET(slot->addr);
        entry->tag = GET(slot->tag);
    } while (GET(av->n_overwritten) != seen);
    return 0;
}

int rankmap_av_group_retire(struct rankmap_av *av, uint32_t id)
{
    const struct groups *now = groups_now(av);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), from, to, whole_from, whole_to;
    const struct group_slot *slot = slot_of_id(now, id);
    struct escapes *e = NULL;
    struct groups *g;
    struct group gone;

    if (!slot)
        return RANKMAP_ENOENT;
    gone = group_load(slot);
    g = groups_copy(av, 0);
    if (g && GET(av->escapes))
        e = escapes_copy(av, gone.base, gone.n_procs);
    if (!g || (GET(av->escapes) && !e))
        return -ENOMEM;
    for (uint32_t i = (uint32_t)(slot - now->slot); i + 1 < now->n; i++)
        group_move(&g->slot[i], &g->slot[i + 1]);
    PUT(g->n, now->n - 1);
    groups_publish(av, g);
    if (e)
        escapes_publish(av, e);
    /* Pages of this group alone go back to the system; the rest of its entries is zeroed. */
    from = (size_t)(gone.base * av->width);
    to = (size_t)((gone.base + gone.n_procs) * av->width);
    whole_from = (from + page - 1) / page * page;
    whole_to = to / page * page;
    if (whole_from < whole_to &&
        madvise(av->entries + whole_from, whole_to - whole_from, MADV_DONTNEED) == 0) {
        memset(av->entries + from, 0, whole_from - from);
        memset(av->entries + whole_to, 0, to - whole_to);
    } else if (to > from) {
        memset(av->entries + from, 0, to - from);
    }
    return 0;
}

int rankmap_av_group_get(const struct rankmap_av *av, uint32_t id, struct rankmap_av_group *group)
{
    struct group found;

    if (!group_read(av, slot_of_id, id, &found))
        return RANKMAP_ENOENT;
    *group = group_public(&found);
    return 0;
}

/* Returns whether a map has a process of a group. The map's bounds may be wider than its ids. */
static bool map_meets(const struct rankmap *map, const struct group *group)
{
    uint64_t first = group->base, last = first + group->n_procs - 1, min, max;
    bool found = false;
    struct walk w;

    if (map->n == 0)
        return false;
    rankmap__bounds(map, &min, &max);
    if (max < first || min > last)
        return false;
    if (min >= first && max <= last)
        return true;
    for (rankmap__walk_start(&w, map); !found && rankmap__walk_next(&w);)
        for (uint32_t i = 0; i < w.n; i++)
            found |= w.id[i] >= first && w.id[i] <= last;
    return found;
}

int rankmap_av_group_next(const struct rankmap_av *av, const struct rankmap *map, uint32_t id,
                          struct rankmap_av_group *group)
{
    struct group found;

    if (!map)
        return -EINVAL;
    for (uint64_t from = id; group_read(av, slot_from_id, from, &found); from = found.id + 1)
        if (map_meets(map, &found)) {
            *group = group_public(&found);
            return 0;
        }
    return RANKMAP_ENOENT;
}

int rankmap_av_locate(const struct rankmap_av *av, uint64_t id, struct rankmap_av_group *group,
                      uint64_t *lpid)
{
    struct group found;

    if (!group_read(av, slot_of_flat, id, &found))
        return RANKMAP_ENOENT;
    *group = group_public(&found);
    *lpid = id - found.base;
    return 0;
}

/* Spreads a tag over the bits of a mask; tag_extract() reverses this. */
static uint64_t tag_deposit(uint64_t tag, uint64_t mask)
{
    uint64_t word = 0;

    for (; mask != 0; mask &= mask - 1, tag >>= 1)
        word |= tag & 1 ? mask & -mask : 0;
    return word;
}

static uint64_t tag_extract(uint64_t word, uint64_t mask)
{
    uint64_t tag = 0;

    for (unsigned i = 0; mask != 0; mask &= mask - 1, i++)
        tag |= (uint64_t)((word & mask & -mask) != 0) << i;
    return tag;
}

static int set_word(struct rankmap_av *av, uint64_t id, uint64_t addr, uint64_t tag)
{
    uint64_t mask = av->tag_mask, word = addr | tag_deposit(tag, mask);
    int rc;

    if (tag_extract(tag_deposit(tag, mask), mask) != tag)
        return RANKMAP_ETAG;
    if (addr & mask || rankmap_av_word_escaped(word, mask)) {
        rc = escape_set(av, id, addr, tag);
        if (rc < 0)
            return rc;
        word = UINT64_MAX;
    }
    __atomic_store_n((uint64_t *)(void *)(av->entries + id * 8), word, __ATOMIC_RELEASE);
    return 0;
}

int rankmap_av_set(struct rankmap_av *av, uint64_t id, uint64_t addr, uint64_t tag)
{
    unsigned char *entry;
    uint32_t short_tag = (uint32_t)tag;

    if (av->width == 0 || av->width > MAX_ENTRY)
        return -EINVAL;
    if (!slot_of_flat(groups_now(av), id))
        return RANKMAP_ENOENT;
    if (av->width == 8)
        return set_word(av, id, addr, tag);
    entry = av->entries + id * av->width;
    if (av->width == 12) {
        if (tag > UINT32_MAX)
            return RANKMAP_ETAG;
        memcpy(entry + 8, &short_tag, sizeof(short_tag));
    } else {
        memcpy(entry + 8, &tag, sizeof(tag));
    }
    memcpy(entry, &addr, sizeof(addr));
    return 0;
}

int rankmap_av_set_rule(struct rankmap_av *av, uint32_t id, uint64_t first, uint64_t step,
                        uint64_t tag)
{
    struct groups *g = groups_now(av);
    const struct group_slot *slot = slot_of_id(g, id);
    struct group group;
    size_t place;

    if (av->width != 0)
        return -EINVAL;
    if (!slot)
        return RANKMAP_ENOENT;
    place = (size_t)(slot - g->slot);
    group = group_load(slot);
    if (!rule_fits(first, step, group.n_procs))
        return RANKMAP_ERANGE;
    g = groups_copy(av, 0);
    if (!g)
        return -ENOMEM;
    group.first = first;
    group.step = step;
    group.tag = tag;
    group_store(&g->slot[place], &group);
    groups_publish(av, g);
    return 0;
}

static int implicit_read(const struct rankmap_av *av, uint64_t id, struct rankmap_av_entry *entry)
{
    struct rankmap_av_entry found = {0};
    const struct group_slot *slot;
    uint64_t seen;

    do {
        seen = GET(av->n_overwritten);
        slot = slot_of_flat(groups_now(av), id);
        if (slot) {
            found.addr = GET(slot->first) + (id - GET(slot->base)) * GET(slot->step);
            found.tag = GET(slot->tag);
        }
    } while (GET(av->n_overwritten) != seen);
    if (!slot)
        return RANKMAP_ENOENT;
    *entry = found;
    return 0;
}

int rankmap_av_get(const struct rankmap_av *av, uint64_t id, struct rankmap_av_entry *entry)
{
    const unsigned char *at;
    uint32_t short_tag;
    uint64_t word;

    if (av->width == 0)
        return implicit_read(av, id, entry);
    if (av->width > MAX_ENTRY)
        return -EINVAL;
    if (!flat_is_in_group(av, id))
        return RANKMAP_ENOENT;
    at = av->entries + id * av->width;
    if (av->width == 8) {
        word = __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_ACQUIRE);
        if (rankmap_av_word_escaped(word, av->tag_mask))
            return escape_read(av, id, entry);
        entry->addr = rankmap_av_word_addr(word, av->tag_mask);
        entry->tag = tag_extract(word, av->tag_mask);
        return 0;
    }
    memcpy(&entry->addr, at, sizeof(entry->addr));
    if (av->width == 12) {
        memcpy(&short_tag, at + 8, sizeof(short_tag));
        entry->tag = short_tag;
    } else {
        memcpy(&entry->tag, at + 8, sizeof(entry->tag));
    }
    return 0;
}

int rankmap_av_query(const struct rankmap_av *av, struct rankmap_info_av *info)
{
    struct rankmap_info_av all = {.size = sizeof(all)};
    uint64_t seen;

    if (!av || !info || info->size < sizeof(all))
        return -EINVAL;
    all.size = info->size;
    all.base = av->entries;
    all.entry_bytes = av->width;
    all.tag_mask = av->tag_mask;
    all.capacity = av->capacity;
    do {
        const struct groups *g;

        seen = GET(av->n_overwritten);
        g = groups_now(av);
        all.n_groups = GET(g->n);
        all.n_procs = 0;
        for (uint32_t i = 0; i < all.n_groups; i++)
            all.n_procs += GET(g->slot[i].n_procs);
    } while (GET(av->n_overwritten) != seen);
    all.bytes = sizeof(*av) + GET(av->table_bytes) + all.n_procs * av->width;
    *info = all;
    return 0;
}
