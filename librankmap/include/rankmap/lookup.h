/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file lookup.h
 * @brief From a rank to the address of its entry, inline.
 *
 * A lookup binds a map to an array of entries: the entry of an id is at `base + width·id`. A lookup
 * is one cache line of the caller's memory, meant as a member of a communicator. With base 0 and
 * width 1 its result is the id.
 *
 *     rankmap_lookup_init(&comm->lookup, map, (uintptr_t)entries, sizeof(entries[0]));
 *     struct entry *peer = rankmap_addr(&comm->lookup, rank);
 *
 *     // the width is a constant: with a table, one load and one multiplication less
 *     uint64_t at = rankmap_at_sized(&comm->lookup, rank, sizeof(entries[0]));
 *
 * map.h describes the models. *Affine* is offset + stride·rank; *blocks* is blockstride with phase
 * φ = 0. Two functions serve every map and give the same results:
 *
 *   - rankmap_at() tests for affine first, then for the 32-bit table, for blocks and for the
 *     bit-packed table. For any other map it makes a call. It is best if a call site mostly meets
 *     one model, since the processor then predicts the branch. An affine lookup costs 6
 *     instructions of x86-64, including the load of an 8-byte entry and the return. If the entry
 *     is at address 2^63 or above, an affine lookup makes a call.
 *   - rankmap_at_nobranch() adds three terms: affine, blocks, 32-bit table. Terms that the map does
 *     not have are 0. It is best if a call site meets communicators of these models in random
 *     order: its one branch, to a call for maps of other models, then always goes the same way.
 *
 * rankmap_at_sized() and rankmap_at_nobranch_sized() are the same for entries whose width the
 * compiler knows. rankmap_at_form() is for callers that have already branched on the lookup's
 * member `form` (RANKMAP_FORM_…, below): if they pass it as a constant, only the instructions of
 * that form remain.
 *
 * No function here checks that the rank is below the size of the map. Lookups of the forms
 * RANKMAP_FORM_AFFINE, _BLOCK and _PHASED read only the lookup itself (rankmap_at_nobranch() also a
 * constant of the library). The other forms also read the map, which must outlive the lookup.
 *
 * @threads All functions are MT-Safe: a lookup is not written after rankmap_lookup_init().
 */
#ifndef RANKMAP_LOOKUP_H
#define RANKMAP_LOOKUP_H

#include <string.h>

#include <rankmap/map.h>

#if defined(__GNUC__)
#define RANKMAP__LIKELY(condition) __builtin_expect(!!(condition), 1)
/* From here on the compiler takes `value` for a new value. So it cannot move a computation with
 * `value` from behind a branch to before that branch, where both paths would pay for it. */
#define RANKMAP__APART(value) __asm__("" : "+r"(value))
#else
#define RANKMAP__LIKELY(condition) (condition)
#define RANKMAP__APART(value)      (void)(value)
#endif

#ifdef __cplusplus
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast" /* what is inline here is C */
#endif
extern "C" {
#endif

/**
 * @name Forms of a lookup
 * r is the rank, b the ranks of a block, φ the phase (map.h); the other words are members of struct
 * rankmap_lookup. The values never change.
 * @{
 */
#define RANKMAP_FORM_AFFINE 0u /**< base + r·step */
#define RANKMAP_FORM_BLOCK  1u /**< base + r·step + ⌊r/b⌋·jump */
#define RANKMAP_FORM_LUT32  2u /**< base + table[r]·width */
#define RANKMAP_FORM_PHASED 3u /**< base + r·step + ⌊(r+φ)/b⌋·jump: rank 0 is inside a block */
#define RANKMAP_FORM_PACKED 4u /**< base + table[r]·width, bit-packed */
#define RANKMAP_FORM_SLOW   5u /**< base + rankmap_id(map, r)·width */
/** @} */

/** Mask of a lookup for which rankmap_at_nobranch() calls rankmap_lookup_at(). */
#define RANKMAP_MASK_SLOW 1u

/**
 * A map bound to an array. rankmap_lookup_init() fills it in; it may be copied. Arithmetic is
 * modulo 2^64.
 */
struct rankmap_lookup {
    /** AFFINE: the same as base. Else: a number such that guard + r·step has its highest bit set
     * for every rank r */
    uint64_t guard;
    /** address of an entry. LUT32, PACKED: that of the table's least id. SLOW: that of id 0. Else:
     * that of rank 0 */
    uint64_t base;
    uint64_t step;  /**< bytes from rank to rank; 0 with a table */
    uint64_t magic; /**< BLOCK, PHASED: ⌈2^64/b⌉. PACKED: mask of a value. Else: 0 */
    uint64_t jump;  /**< bytes that each block adds to those of step. PACKED: bits of a value */
    /** LUT32, PACKED: points at the ids less the table's least id (uint32_t, or `jump` bits each).
     * SLOW: the map. Else: a uint32_t that is 0, which rankmap_at_nobranch() reads. Never NULL */
    const void *table;
    uint32_t width; /**< bytes an entry */
    /** all ones in RANKMAP_FORM_LUT32, 0 in AFFINE and BLOCK, RANKMAP_MASK_SLOW in the others */
    uint32_t mask;
    uint32_t phase; /**< φ in RANKMAP_FORM_PHASED, else 0 */
    uint32_t form;  /**< RANKMAP_FORM_… */
};

/**
 * @brief Bind a map to an array of entries.
 *
 * Any base is allowed. Affine lookups of entries at address 2^63 and above take the slower path of
 * rankmap_at(). A blockstride map becomes RANKMAP_FORM_SLOW if its step in bytes times its number
 * of ranks is above 2^62.
 *
 * @param lookup  filled in; 64 bytes (i386: 60), best aligned to 64
 * @param map     the call keeps no reference: unless lookup->form is AFFINE, BLOCK or PHASED, the
 *                map must outlive the lookup
 * @param base    address of the entry of id 0, or 0
 * @param width   bytes an entry, 1 to RANKMAP_MAX_WIDTH
 * @return 0, or -EINVAL (lookup or map is NULL; width): *lookup is untouched
 *
 * MT-Safe on distinct lookups. Allocates nothing.
 */
RANKMAP_API int rankmap_lookup_init(struct rankmap_lookup *lookup, const struct rankmap *map,
                                    uint64_t base, uint32_t width);

/** @brief rankmap_at(), not inline: for the cases that the inline functions do not handle.
 *        MT-Safe. */
RANKMAP_API uint64_t rankmap_lookup_at(const struct rankmap_lookup *lookup, uint32_t rank);

/** @brief High 64 bits of a product. */
static inline uint64_t rankmap__mulhi(uint64_t a, uint64_t b)
{
#if defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 rankmap__u128;

    return (uint64_t)((rankmap__u128)a * b >> 64);
#else
    uint64_t lo = (a & 0xffffffffu) * (b & 0xffffffffu);
    uint64_t m1 = (a >> 32) * (b & 0xffffffffu) + (lo >> 32);
    uint64_t m2 = (a & 0xffffffffu) * (b >> 32) + (m1 & 0xffffffffu);

    return (a >> 32) * (b >> 32) + (m1 >> 32) + (m2 >> 32);
#endif
}

/**
 * @brief Value number `index` of a bit-packed table. Each value has `bits` bits, at most 56; `mask`
 *        is 2^bits - 1.
 */
static inline uint64_t rankmap__bits_get(const void *table, uint64_t index, uint64_t bits,
                                         uint64_t mask)
{
    uint64_t at = index * bits, word;

    memcpy(&word, (const unsigned char *)table + (at >> 3), sizeof(word));
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word >> (at & 7) & mask;
}

/**
 * @brief rankmap_at() for callers that have already branched on the form. It has no branch, except
 *        with RANKMAP_FORM_SLOW.
 * @param l      a lookup
 * @param form   its `form`, as a constant; RANKMAP_FORM_BLOCK also works for RANKMAP_FORM_AFFINE,
 *               and RANKMAP_FORM_PHASED for both
 * @param rank   below the size of its map
 * @param width  as in rankmap_lookup_init(): with a table, a constant saves a multiplication
 * @return base + width·id
 * @cost instructions of x86-64, with the load of an address and the return: AFFINE 5, BLOCK 8,
 *       PHASED 10, LUT32 6, PACKED 12
 */
static inline uint64_t rankmap_at_form(const struct rankmap_lookup *l, uint32_t form, uint32_t rank,
                                       uint32_t width)
{
    uint64_t r = rank, at;

    switch (form) {
    case RANKMAP_FORM_AFFINE: return l->base + r * l->step;
    case RANKMAP_FORM_BLOCK:
        RANKMAP__APART(r);
        at = l->base + rankmap__mulhi(r, l->magic) * l->jump;
        RANKMAP__APART(at); /* keeps the order of the sum: the caller's load adds the rest */
        return r * l->step + at;
    case RANKMAP_FORM_PHASED:
        return l->base + r * l->step + rankmap__mulhi(r + l->phase, l->magic) * l->jump;
    case RANKMAP_FORM_LUT32: return l->base + (uint64_t)((const uint32_t *)l->table)[rank] * width;
    case RANKMAP_FORM_PACKED:
        return l->base + rankmap__bits_get(l->table, rank, l->jump, l->magic) * width;
    default: return rankmap_lookup_at(l, rank);
    }
}

/**
 * @brief rankmap_at() for callers that know the width at compile time.
 * @param l      a lookup
 * @param rank   below the size of its map
 * @param width  as in rankmap_lookup_init(): with a table, a constant saves a load and a
 *               multiplication
 * @return base + width·id
 */
static inline uint64_t rankmap_at_sized(const struct rankmap_lookup *l, uint32_t rank,
                                        uint32_t width)
{
    uint64_t at = l->guard + (uint64_t)rank * l->step;

    if (RANKMAP__LIKELY((int64_t)at >= 0))
        return at;
    RANKMAP__APART(rank);
    RANKMAP__APART(l);
    if (RANKMAP__LIKELY(l->form == RANKMAP_FORM_LUT32))
        return rankmap_at_form(l, RANKMAP_FORM_LUT32, rank, width);
    if (RANKMAP__LIKELY(l->form == RANKMAP_FORM_BLOCK))
        return rankmap_at_form(l, RANKMAP_FORM_BLOCK, rank, width);
    if (RANKMAP__LIKELY(l->form == RANKMAP_FORM_PACKED))
        return rankmap_at_form(l, RANKMAP_FORM_PACKED, rank, width);
    return rankmap_lookup_at(l, rank);
}

/**
 * @brief Address of a rank's entry, for any map.
 * @param l     a lookup
 * @param rank  below the size of its map
 * @return base + width·id
 * @cost 6 instructions of x86-64 for affine maps, with the caller's load and the return; MODELS.md
 *       has the others
 */
static inline uint64_t rankmap_at(const struct rankmap_lookup *l, uint32_t rank)
{
    return rankmap_at_sized(l, rank, l->width);
}

/**
 * @brief rankmap_at_sized() without a branch between affine, blocks and 32-bit tables.
 *
 * One branch is left: the forms PHASED, PACKED and SLOW go through rankmap_lookup_at().
 *
 * @param l      a lookup
 * @param rank   below the size of its map
 * @param width  as in rankmap_lookup_init(): a constant saves a load and a multiplication
 * @return base + width·id
 */
static inline uint64_t rankmap_at_nobranch_sized(const struct rankmap_lookup *l, uint32_t rank,
                                                 uint32_t width)
{
    uint32_t mask = l->mask;

    if (!RANKMAP__LIKELY(mask != RANKMAP_MASK_SLOW))
        return rankmap_lookup_at(l, rank);
    return rankmap_at_form(l, RANKMAP_FORM_BLOCK, rank, width) +
           (uint64_t)((const uint32_t *)l->table)[rank & mask] * width;
}

/** @brief rankmap_at_nobranch_sized() with the width of rankmap_lookup_init(). */
static inline uint64_t rankmap_at_nobranch(const struct rankmap_lookup *l, uint32_t rank)
{
    return rankmap_at_nobranch_sized(l, rank, l->width);
}

/** @brief rankmap_at() as a pointer, for lookups whose base is one. */
static inline void *rankmap_addr(const struct rankmap_lookup *l, uint32_t rank)
{
    return (void *)(uintptr_t)rankmap_at(l, rank);
}

#ifdef __cplusplus
}
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
#endif
#endif /* RANKMAP_LOOKUP_H */
