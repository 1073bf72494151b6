/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The address vector. Entries are in one mapping, reserved without memory; each group makes its own
 * stretch accessible. A change of the groups replaces their table as a whole, except that a group
 * with ids above all others is appended. A reader has the old table or the new one, and both are
 * right about the groups that the reader may know.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rankmap/av.h>

#include "internal.h"

/* A group, and the rule of its addresses if they are implicit. */
struct group {
    struct rankmap_av_group public;
    uint64_t first, step, tag;
};

/* What groups and escapes begin with. Readers may hold a replaced one until it is reclaimed. */
struct table {
    struct table *older;
    size_t bytes;
};

/* Groups in the order of their pgids, and their places in the order of their bases. */
struct groups {
    struct table table;
    uint32_t cap;
    atomic_uint n;
    uint32_t *by_base;
    struct group group[];
};

/* An address that does not fit an entry; key: flat id + 1. */
struct escape {
    _Atomic uint64_t key;
    uint64_t addr, tag;
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
    _Atomic(struct groups *) groups;
    _Atomic(struct escapes *) escapes;
    struct table *replaced;
    _Atomic uint64_t table_bytes; /* of the tables of groups and escapes, replaced ones included */
};

/* Makes a zeroed table. */
static void *table_new(struct rankmap_av *av, size_t bytes)
{
    struct table *table = rankmap__alloc(av->alloc, 1, bytes);

    if (table) {
        memset(table, 0, bytes);
        table->bytes = bytes;
        av->table_bytes += bytes;
    }
    return table;
}

/* Frees a table or NULL. */
static void table_free(struct rankmap_av *av, void *table)
{
    if (table)
        av->table_bytes -= ((struct table *)table)->bytes;
    rankmap__free(av->alloc, table);
}

/* Keeps a table, or NULL, that another one has replaced. */
static void table_retire(struct rankmap_av *av, void *table)
{
    struct table *old = table;

    if (!old)
        return;
    old->older = av->replaced;
    av->replaced = old;
}

static struct groups *groups_new(struct rankmap_av *av, uint32_t cap)
{
    struct groups *g =
        table_new(av, sizeof(*g) + cap * (sizeof(g->group[0]) + sizeof(g->by_base[0])));

    if (g) {
        g->cap = cap;
        g->by_base = (uint32_t *)(g->group + cap);
    }
    return g;
}

static struct groups *groups_now(const struct rankmap_av *av)
{
    return atomic_load_explicit(&av->groups, memory_order_acquire);
}

static uint32_t groups_count(const struct groups *g)
{
    return atomic_load_explicit(&g->n, memory_order_acquire);
}

static void groups_publish(struct rankmap_av *av, struct groups *g)
{
    struct groups *old = groups_now(av);

    atomic_store_explicit(&av->groups, g, memory_order_release);
    table_retire(av, old);
}

/* Returns the index of a pgid, or the index where it would be. */
static uint32_t find_id(const struct groups *g, uint32_t n, uint32_t id)
{
    uint32_t lo = 0;

    while (n > 0) {
        uint32_t half = n / 2;

        if (g->group[lo + half].public.id < id) {
            lo += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return lo;
}

static const struct group *group_of_id(const struct groups *g, uint32_t id)
{
    uint32_t n = groups_count(g), at = find_id(g, n, id);

    return at < n && g->group[at].public.id == id ? &g->group[at] : NULL;
}

static const struct group *group_of_flat(const struct groups *g, uint64_t flat)
{
    uint32_t n = groups_count(g), lo = 0;
    const struct group *found;

    if (n == 0)
        return NULL;
    while (n > 1) {
        uint32_t half = n / 2;

        lo = g->group[g->by_base[lo + half]].public.base <= flat ? lo + half : lo;
        n -= half;
    }
    found = &g->group[g->by_base[lo]];
    return flat >= found->public.base && flat - found->public.base < found->public.n_procs ? found
                                                                                           : NULL;
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
         opts.entry_bytes != 16) ||
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
    groups = groups_new(av, 4);
    if (groups && bytes > 0) {
        av->reserved = (bytes + page - 1) / page * page;
        av->entries =
            mmap(NULL, av->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (!groups || av->entries == MAP_FAILED) {
        table_free(av, groups);
        rankmap__free(alloc, av);
        return -ENOMEM;
    }
    atomic_init(&av->groups, groups);
    atomic_init(&av->escapes, NULL);
    *out = av;
    return 0;
}

void rankmap_av_reclaim(struct rankmap_av *av)
{
    while (av->replaced) {
        struct table *older = av->replaced->older;

        table_free(av, av->replaced);
        av->replaced = older;
    }
}

void rankmap_av_destroy(struct rankmap_av *av)
{
    if (!av)
        return;
    rankmap_av_reclaim(av);
    table_free(av, groups_now(av));
    table_free(av, atomic_load(&av->escapes));
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

/* Copies the table, with room for one more group. */
static struct groups *groups_copy(struct rankmap_av *av, const struct groups *from, uint32_t extra)
{
    uint32_t n = groups_count(from), cap = n + extra <= from->cap ? from->cap : 2 * from->cap;
    struct groups *g = groups_new(av, cap);

    if (!g)
        return NULL;
    memcpy(g->group, from->group, n * sizeof(g->group[0]));
    memcpy(g->by_base, from->by_base, n * sizeof(g->by_base[0]));
    atomic_init(&g->n, n);
    return g;
}

int rankmap_av_group_add(struct rankmap_av *av, uint64_t n_procs, struct rankmap_av_group *group)
{
    struct groups *g;
    struct group added = {.public = {.n_procs = n_procs}};
    uint64_t base = 0;
    uint32_t n, at;
    int rc;

    if (!av || !group || n_procs == 0)
        return -EINVAL;
    g = groups_now(av);
    n = groups_count(g);
    for (at = 0; at < n; at++) {
        const struct rankmap_av_group *next = &g->group[g->by_base[at]].public;

        if (next->base - base >= n_procs)
            break;
        base = next->base + next->n_procs;
    }
    if (av->capacity - base < n_procs || av->next_id == UINT32_MAX)
        return RANKMAP_EFULL;
    rc = open_entries(av, base, n_procs);
    if (rc < 0)
        return rc;
    added.public.id = av->next_id;
    added.public.base = base;
    if (at == n && n < g->cap) { /* above all others: readers see it once n has grown */
        g->group[n] = added;
        g->by_base[n] = n;
        atomic_store_explicit(&g->n, n + 1, memory_order_release);
    } else {
        g = groups_copy(av, g, 1);
        if (!g)
            return -ENOMEM;
        g->group[n] = added;
        memmove(g->by_base + at + 1, g->by_base + at, (n - at) * sizeof(g->by_base[0]));
        g->by_base[at] = n;
        atomic_init(&g->n, n + 1);
        groups_publish(av, g);
    }
    av->next_id++;
    *group = added.public;
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
    const struct group *group = group_of_id(g, id);
    uint32_t n = groups_count(g), at = 0;
    uint64_t limit = av->capacity;
    int rc;

    if (!group)
        return RANKMAP_ENOENT;
    if (n_procs < group->public.n_procs)
        return RANKMAP_ERANGE;
    while (&g->group[g->by_base[at]] != group)
        at++;
    if (at + 1 < n)
        limit = g->group[g->by_base[at + 1]].public.base;
    if (limit - group->public.base < n_procs)
        return RANKMAP_EFULL;
    if (!rule_fits(group->first, group->step, n_procs))
        return RANKMAP_ERANGE;
    rc = open_entries(av, group->public.base, n_procs);
    if (rc < 0)
        return rc;
    copy = groups_copy(av, g, 0);
    if (!copy)
        return -ENOMEM;
    copy->group[group - g->group].public.n_procs = n_procs;
    groups_publish(av, copy);
    return 0;
}

static struct escape *escape_find(struct escapes *e, uint64_t id)
{
    size_t at = id_hash(id) & (e->n_slots - 1);

    for (;; at = (at + 1) & (e->n_slots - 1)) {
        uint64_t key = atomic_load_explicit(&e->slot[at].key, memory_order_acquire);

        if (key == 0 || key == id + 1)
            return &e->slot[at];
    }
}

/* Makes a side table with the old one's entries outside [skip, skip + n_skip), and room for one
 * more. */
static struct escapes *escapes_copy(struct rankmap_av *av, struct escapes *old, uint64_t skip,
                                    uint64_t n_skip)
{
    size_t n_slots = old ? old->n_slots : 16;
    struct escapes *e;

    while (old && 2 * (old->n + 1) > n_slots)
        n_slots *= 2;
    e = table_new(av, sizeof(*e) + n_slots * sizeof(e->slot[0]));
    if (!e)
        return NULL;
    e->n_slots = n_slots;
    for (size_t i = 0; old && i < old->n_slots; i++) {
        uint64_t key = atomic_load_explicit(&old->slot[i].key, memory_order_relaxed);
        struct escape *to;

        if (key == 0 || (key - 1 >= skip && key - 1 - skip < n_skip))
            continue;
        to = escape_find(e, key - 1);
        to->addr = old->slot[i].addr;
        to->tag = old->slot[i].tag;
        atomic_store_explicit(&to->key, key, memory_order_relaxed);
        e->n++;
    }
    return e;
}

static void escapes_publish(struct rankmap_av *av, struct escapes *e)
{
    struct escapes *old = atomic_load(&av->escapes);

    atomic_store_explicit(&av->escapes, e, memory_order_release);
    table_retire(av, old);
}

static int escape_set(struct rankmap_av *av, uint64_t id, uint64_t addr, uint64_t tag)
{
    struct escapes *e = atomic_load(&av->escapes);
    struct escape *slot;

    if (!e || (2 * (e->n + 1) > e->n_slots && atomic_load(&escape_find(e, id)->key) == 0)) {
        e = escapes_copy(av, e, 0, 0);
        if (!e)
            return -ENOMEM;
        escapes_publish(av, e);
    }
    slot = escape_find(e, id);
    e->n += atomic_load(&slot->key) == 0;
    slot->addr = addr;
    slot->tag = tag;
    atomic_store_explicit(&slot->key, id + 1, memory_order_release);
    return 0;
}

int rankmap_av_group_retire(struct rankmap_av *av, uint32_t id)
{
    struct groups *g = groups_now(av), *copy;
    const struct group *group = group_of_id(g, id);
    struct escapes *old = atomic_load(&av->escapes), *e = NULL;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), from, to, whole_from, whole_to;
    struct rankmap_av_group gone;
    uint32_t n = groups_count(g), place, kept = 0;

    if (!group)
        return RANKMAP_ENOENT;
    gone = group->public;
    place = (uint32_t)(group - g->group);
    copy = groups_copy(av, g, 0);
    if (copy && old)
        e = escapes_copy(av, old, gone.base, gone.n_procs);
    if (!copy || (old && !e)) {
        table_free(av, copy);
        return -ENOMEM;
    }
    memmove(copy->group + place, copy->group + place + 1, (n - place - 1) * sizeof(copy->group[0]));
    for (uint32_t i = 0; i < n; i++)
        if (g->by_base[i] != place)
            copy->by_base[kept++] = g->by_base[i] - (g->by_base[i] > place);
    atomic_init(&copy->n, n - 1);
    groups_publish(av, copy);
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
    const struct group *found = group_of_id(groups_now(av), id);

    if (!found)
        return RANKMAP_ENOENT;
    *group = found->public;
    return 0;
}

int rankmap_av_locate(const struct rankmap_av *av, uint64_t id, struct rankmap_av_group *group,
                      uint64_t *lpid)
{
    const struct group *found = group_of_flat(groups_now(av), id);

    if (!found)
        return RANKMAP_ENOENT;
    *group = found->public;
    *lpid = id - found->public.base;
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

    if (av->width == 0)
        return -EINVAL;
    if (!group_of_flat(groups_now(av), id))
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
    struct groups *g = groups_now(av), *copy;
    const struct group *group = group_of_id(g, id);

    if (av->width != 0)
        return -EINVAL;
    if (!group)
        return RANKMAP_ENOENT;
    if (!rule_fits(first, step, group->public.n_procs))
        return RANKMAP_ERANGE;
    copy = groups_copy(av, g, 0);
    if (!copy)
        return -ENOMEM;
    copy->group[group - g->group].first = first;
    copy->group[group - g->group].step = step;
    copy->group[group - g->group].tag = tag;
    groups_publish(av, copy);
    return 0;
}

int rankmap_av_get(const struct rankmap_av *av, uint64_t id, struct rankmap_av_entry *entry)
{
    const struct group *group = group_of_flat(groups_now(av), id);
    const unsigned char *at;
    uint32_t short_tag;
    uint64_t word;

    if (!group)
        return RANKMAP_ENOENT;
    if (av->width == 0) {
        entry->addr = group->first + (id - group->public.base) * group->step;
        entry->tag = group->tag;
        return 0;
    }
    at = av->entries + id * av->width;
    if (av->width == 8) {
        word = __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_ACQUIRE);
        if (rankmap_av_word_escaped(word, av->tag_mask)) {
            const struct escape *e =
                escape_find(atomic_load_explicit(&av->escapes, memory_order_acquire), id);

            entry->addr = e->addr;
            entry->tag = e->tag;
        } else {
            entry->addr = rankmap_av_word_addr(word, av->tag_mask);
            entry->tag = tag_extract(word, av->tag_mask);
        }
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
    const struct groups *g;

    if (!av || !info || info->size < sizeof(all))
        return -EINVAL;
    g = groups_now(av);
    all.size = info->size;
    all.base = av->entries;
    all.entry_bytes = av->width;
    all.tag_mask = av->tag_mask;
    all.capacity = av->capacity;
    all.n_groups = groups_count(g);
    for (uint32_t i = 0; i < all.n_groups; i++)
        all.n_procs += g->group[i].public.n_procs;
    all.bytes = sizeof(*av) + atomic_load(&av->table_bytes) + all.n_procs * av->width;
    *info = all;
    return 0;
}
