/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file av.h
 * @brief The address vector: network addresses of all processes, by flat id.
 *
 * A *process group* is a world, or a job that was spawned or connected later. Its number is the
 * *pgid*; an *lpid* is a process's number in its group. The vector gives each group consecutive
 * *flat ids*: a process has the id base + lpid, with the base of its group. The maps of map.h use
 * these ids.
 *
 * The vector is one array of entries, indexed by flat id. rankmap_av_create() reserves address
 * space for opts.capacity entries; the space takes no memory until it is used. The capacity is
 * fixed: choose it large enough for all groups that exist at one time, and for gaps that are too
 * short for a new group. Since entries never move, a group that is added or grows disturbs no
 * reader. Since all groups share the flat ids, one map can contain processes of several groups.
 *
 * An entry has an address and a tag. In the tag the caller stores what it likes, such as the number
 * of the transport or rail. All entries of a vector have the same size:
 *
 *   - 0 bytes (*implicit*): address = first + step·lpid, with one tag for each group; suits the
 *     addresses of FI_AV_TABLE;
 *   - 8 bytes: the address, with the tag in those bits that opts.tag_mask names. The caller chooses
 *     bits that most addresses leave 0. One bit suffices for two transports;
 *   - 12 or 16 bytes: the address, and 32 or 64 bits of tag;
 *   - more than 16 bytes: a struct of the caller's own, such as an endpoint for each rail. The
 *     caller reads and writes these entries itself, from the address of flat id 0 on.
 *
 * With 8 bytes, rankmap_av_set() checks each address. If an address uses the tag's bits, the call
 * stores address and tag in a side table, and makes the entry the **escape**, 64 bits of 1. It does
 * the same if the entry would be 64 bits of 1. Without tag bits there is no escape.
 *
 * A world of n processes, and a communicator bound to its addresses:
 *
 *     struct rankmap_av_opts opts = {.size = sizeof(opts), .entry_bytes = 8, .capacity = 1 << 20};
 *     struct rankmap_info_av info = {.size = sizeof(info)};
 *     struct rankmap_av_group world;
 *     struct rankmap_av *av;
 *
 *     rankmap_av_create(&opts, &av);
 *     rankmap_av_group_add(av, n, &world);
 *     rankmap_av_set(av, world.base + lpid, address, 0);       // for each lpid
 *     rankmap_av_query(av, &info);
 *     rankmap_lookup_init(&lookup, map, (uintptr_t)info.base, info.entry_bytes);
 *
 * rankmap_av_group_retire() returns a group's pages to the system, and frees its flat ids for later
 * groups, but not its pgid. Before you call it, drop all maps that contain these ids.
 *
 * rankmap_av_create(), rankmap_av_group_add() and rankmap_av_query() return -EINVAL for a pointer
 * that is NULL, rankmap_av_group_next() for a map that is NULL. rankmap_av_destroy() accepts NULL.
 * Any other NULL pointer faults. If a call fails, the vector and the call's output are as before.
 *
 * @threads Only one thread at a time may change the vector (add, grow, retire, set, set_rule).
 *          Other threads may meanwhile call rankmap_av_query(), rankmap_av_group_get(),
 *          rankmap_av_group_next() and rankmap_av_locate(). They may read an entry if the entry's
 *          last rankmap_av_set() happens-before the read. For an entry that was never set, the add
 *          or grow of its group must happen-before the read. Set an entry again only while no other
 *          thread reads it. Implicit entries may be read during rankmap_av_set_rule(): the reader
 *          gets the old rule or the new one. A read takes no lock and waits for no writer; it
 *          starts again if changes of the groups or of the side table overtake it.
 *
 * Memory does not grow with the number of changes. The group table and the side table have two
 * copies each: a change fills the spare copy, then publishes it. Exception: a newly escaped address
 * goes into the present copy of the side table while that copy has room. When a table outgrows its
 * copies, larger copies replace them. The smaller copies stay until rankmap_av_destroy(), and all
 * together take no more than the present two. An escaped address stays in the side table until its
 * group retires.
 *
 * Source: "Memory Compression Techniques for Network Address Management in MPI", section III-B, has
 * 12-byte entries with one tag bit, and one vector per group. One flat range for all groups,
 * checked tags, the escape and implicit entries are ours.
 */
#ifndef RANKMAP_AV_H
#define RANKMAP_AV_H

#include <rankmap/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An address vector. Opaque. */
struct rankmap_av;

struct rankmap; /* map.h */

/** How to make an address vector. */
struct rankmap_av_opts {
    size_t size; /**< sizeof(struct rankmap_av_opts) */
    const struct rankmap_allocator
        *allocator;       /**< for group and side tables; NULL: malloc() and free() */
    uint32_t entry_bytes; /**< 0, 8, 12, or 16 to RANKMAP_MAX_WIDTH */
    uint32_t reserved;    /**< 0 */
    /** number of flat ids, 1 to RANKMAP_ID_LIMIT; reserves capacity · entry_bytes of address
     * space */
    uint64_t capacity;
    uint64_t tag_mask; /**< 8-byte entries: bits that hold the tag; 0: no tags */
};

/** What rankmap_av_get() returns. */
struct rankmap_av_entry {
    uint64_t addr;
    /** the tag, in the lowest bits: as many as tag_mask has in entries of 8 bytes, 32 in entries of
     * 12 bytes, 64 in entries of 16 bytes and in implicit ones */
    uint64_t tag;
};

/** A process group. */
struct rankmap_av_group {
    uint32_t id; /**< pgid: 0, 1, 2 … in the order of adding */
    uint32_t reserved;
    uint64_t base;    /**< flat id of its process 0 */
    uint64_t n_procs; /**< lpids are below this */
};

/**
 * @brief Make an address vector.
 * @param opts  not NULL; all members are used
 * @param out   the vector
 * @return 0, -ENOMEM (also when the address space cannot be reserved), RANKMAP_ERANGE (capacity is
 *         0 or above RANKMAP_ID_LIMIT, or takes more bytes than a size_t counts), -EINVAL (NULL;
 *         opts->size or reserved; an allocator that lacks a function; entry_bytes; a tag_mask that
 *         has all 64 bits, or that is not 0 although entry_bytes is not 8)
 *
 * Unless entries are implicit, the call reserves their address space by one mmap(); reserved space
 * takes no memory. Destroy the vector with rankmap_av_destroy().
 */
RANKMAP_API int rankmap_av_create(const struct rankmap_av_opts *opts, struct rankmap_av **out);

/** @brief Destroy a vector and free its memory. NULL is allowed. */
RANKMAP_API void rankmap_av_destroy(struct rankmap_av *av);

/**
 * @brief Add a process group: the world, or processes that were spawned or connected.
 *
 * The group gets the lowest free stretch of flat ids that is long enough. An entry that was never
 * set has address 0 and tag 0; each byte of an entry of the caller's own is 0.
 *
 * @param av       the vector
 * @param n_procs  at least 1
 * @param group    filled in
 * @return 0, RANKMAP_EFULL (no such stretch, or 2^32 - 1 groups were added already), -ENOMEM or
 *         -EINVAL (NULL; n_procs is 0)
 * @cost O(groups), and one mprotect() unless entries are implicit
 */
RANKMAP_API int rankmap_av_group_add(struct rankmap_av *av, uint64_t n_procs,
                                     struct rankmap_av_group *group);

/**
 * @brief Set an entry.
 * @param av    the vector, with entries of 8 bytes or more
 * @param id    flat id in a group
 * @param addr  network address
 * @param tag   see struct rankmap_av_entry
 * @return 0, RANKMAP_ENOENT (no group has this id), RANKMAP_ETAG (the tag has more bits than
 *         entries have for it), -EINVAL (implicit entries, or the caller's own), -ENOMEM (side
 *         table)
 *
 * @cost O(log groups) to find the group, then O(1) without an escape. The side table is a hash
 *       table of 24 bytes a slot, at most half full: an escape takes O(1), or O(escapes) when the
 *       table grows
 */
RANKMAP_API int rankmap_av_set(struct rankmap_av *av, uint64_t id, uint64_t addr, uint64_t tag);

/**
 * @brief Read an entry, of up to 16 bytes.
 * @param av     the vector
 * @param id     flat id
 * @param entry  filled in
 * @return 0, RANKMAP_ENOENT (no group has this id), or -EINVAL (entries of the caller's own)
 * @cost O(log groups), and a hash lookup for an escaped entry
 */
RANKMAP_API int rankmap_av_get(const struct rankmap_av *av, uint64_t id,
                               struct rankmap_av_entry *entry);

/** @brief Address in an 8-byte entry, unless it is escaped. */
static inline uint64_t rankmap_av_word_addr(uint64_t word, uint64_t tag_mask)
{
    return word & ~tag_mask;
}

/** @brief 1 if an 8-byte entry is escaped: then rankmap_av_get() returns its address. */
static inline int rankmap_av_word_escaped(uint64_t word, uint64_t tag_mask)
{
    return tag_mask != 0 && word == UINT64_MAX;
}

/**
 * @brief Set the rule of a group of an implicit vector: address = first + step·lpid.
 * @param av     a vector with entry_bytes 0
 * @param id     pgid
 * @param first  address of its process 0
 * @param step   from process to process
 * @param tag    the tag of all these entries
 * @return 0, RANKMAP_ENOENT (no such group), RANKMAP_ERANGE (an address would pass 2^64 - 1),
 *         -EINVAL (entries are not implicit), -ENOMEM
 * @cost O(groups)
 */
RANKMAP_API int rankmap_av_set_rule(struct rankmap_av *av, uint32_t id, uint64_t first,
                                    uint64_t step, uint64_t tag);

/**
 * @brief Grow a group in place.
 * @param av       the vector
 * @param id       its pgid
 * @param n_procs  as many as it has, or more
 * @return 0, RANKMAP_EFULL (another group, or opts.capacity, is in the way), RANKMAP_ENOENT (no
 *         such group), -ENOMEM, RANKMAP_ERANGE (fewer processes than the group has; or an address
 *         of its rule would pass 2^64 - 1)
 * @cost O(groups), and one mprotect() unless entries are implicit
 */
RANKMAP_API int rankmap_av_group_grow(struct rankmap_av *av, uint32_t id, uint64_t n_procs);

/**
 * @brief Retire a group: drop its entries, return the pages that they fill to the system, and free
 *        its ids for later groups.
 * @param av  the vector
 * @param id  its pgid
 * @return 0, RANKMAP_ENOENT (no such group) or -ENOMEM
 *
 * No thread may look up the group's entries any more, and no map that contains its ids may be in
 * use.
 */
RANKMAP_API int rankmap_av_group_retire(struct rankmap_av *av, uint32_t id);

/**
 * @brief Get the group with a pgid. The flat id of (pgid, lpid) is the group's base + lpid.
 * @param av     the vector
 * @param id     pgid
 * @param group  filled in
 * @return 0, or RANKMAP_ENOENT (never added, or retired)
 * @cost O(groups)
 */
RANKMAP_API int rankmap_av_group_get(const struct rankmap_av *av, uint32_t id,
                                     struct rankmap_av_group *group);

/**
 * @brief Get the next group that has processes in a map. A loop lists all groups that a
 *        communicator connects.
 *
 * A caller that counts the maps of each group knows when to retire the group:
 *
 *     for (uint32_t id = 0; rankmap_av_group_next(av, map, id, &group) == 0; id = group.id + 1)
 *         n_maps[group.id]++;
 *
 * @param av     the vector
 * @param map    a map of flat ids, with or without duplicates
 * @param id     the lowest pgid of interest
 * @param group  the group with the lowest pgid from `id` on that has a process of the map
 * @return 0, RANKMAP_ENOENT (no further group), or -EINVAL (map is NULL)
 * @cost for each group from `id` to the result: O(groups), and up to O(size of the map). If all ids
 *       of the map (for a view: of its table) are in one group, O(groups) only
 */
RANKMAP_API int rankmap_av_group_next(const struct rankmap_av *av, const struct rankmap *map,
                                      uint32_t id, struct rankmap_av_group *group);

/**
 * @brief Find the process of a flat id: (pgid, lpid).
 * @param av     the vector
 * @param id     flat id
 * @param group  its group
 * @param lpid   its number there
 * @return 0, or RANKMAP_ENOENT (no group has this id)
 * @cost O(log groups)
 */
RANKMAP_API int rankmap_av_locate(const struct rankmap_av *av, uint64_t id,
                                  struct rankmap_av_group *group, uint64_t *lpid);

/** An address vector's base, size and bytes: rankmap_av_query(). */
struct rankmap_info_av {
    size_t size; /**< sizeof(struct rankmap_info_av), set by the caller */
    /**
     * Address of the entry of flat id 0, fixed for the life of the vector: the base of
     * rankmap_lookup_init(). NULL with implicit entries.
     *
     *   - 8 bytes: a uint64_t, from which rankmap_av_word_addr() gets the address, unless the entry
     *     is escaped
     *   - 12 bytes: an address, aligned to 4 bytes only, and a uint32_t tag
     *   - 16 bytes: a uint64_t address and a uint64_t tag
     *   - more: a struct of the caller's own. The array begins at a page, so entry_bytes decides
     *     the alignment
     */
    const void *base;
    /** bytes of the vector's object, of all copies of its tables, and of the entries of all groups;
     * without address space that is only reserved */
    uint64_t bytes;
    uint64_t n_procs;     /**< of all groups */
    uint64_t capacity;    /**< flat ids, as asked for */
    uint64_t tag_mask;    /**< as asked for */
    uint32_t entry_bytes; /**< as asked for */
    uint32_t n_groups;    /**< retired ones not counted */
};

/**
 * @brief Report an address vector's base, size and bytes.
 * @param av    the vector
 * @param info  the caller sets `size`, and the call fills in no more bytes than that; a size
 *              below the first release's fails with -EINVAL
 * @return 0 or -EINVAL
 * @cost O(groups)
 */
RANKMAP_API int rankmap_av_query(const struct rankmap_av *av, struct rankmap_info_av *info);

#ifdef __cplusplus
}
#endif
#endif /* RANKMAP_AV_H */
