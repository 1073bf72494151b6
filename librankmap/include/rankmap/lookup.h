/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file lookup.h
 * @brief From a rank to the address of its entry, inline.
 *
 * A lookup binds a map to an array of entries: `base + width·id`. It is a cache line of caller's
 * memory, made for the inside of a communicator. With base 0 and width 1 the
 * result is the id itself.
 *
 * Two forms serve every map and give the same results:
 *
 *   - rankmap_at() tests for the affine models first, then for two levels, then for the 32-bit
 *     table. Best where one call site mostly meets one model: the branch is predicted and affine costs 7
 *     instructions with the load of an address and the return.
 *   - rankmap_at_nobranch() computes all three and adds them. Best where one call site meets many
 *     communicators of different models in no order: no branch to mispredict.
 *
 * The rest are single models, for callers that have already branched: rankmap_at_affine(),
 * rankmap_at_block() (which serves affine too), rankmap_at_lut32() and rankmap_at_packed().
 *
 * No function here checks that the rank is below the size of the map. Affine and two-level lookups touch
 * nothing but the 64 bytes; the others read the map, which must outlive them.
 *
 * @threads All functions are MT-Safe: a lookup is not written after rankmap_lookup_init().
 */
#ifndef RANKMAP_LOOKUP_H
#define RANKMAP_LOOKUP_H

#include <string.h>

#include <rankmap/map.h>

#if defined(__GNUC__)
#define RANKMAP_LIKELY(condition) __builtin_expect(!!(condition), 1)
#else
#define RANKMAP_LIKELY(condition) (condition)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @name Forms of a lookup
 * The values never change.
 * @{
 */
#define RANKMAP_FORM_AFFINE 0u /**< base + r·step */
#define RANKMAP_FORM_BLOCK  1u /**< base + r·step + ⌊(r+φ)/b⌋·jump */
#define RANKMAP_FORM_LUT32  2u /**< base + table[r]·width */
#define RANKMAP_FORM_PACKED 3u /**< the same of a bit-packed table */
#define RANKMAP_FORM_OTHER  4u /**< asks the map */
/** @} */

/**
 * A map bound to an array. Filled in by rankmap_lookup_init(); may be copied. Arithmetic is modulo 2^64.
 */
struct rankmap_lookup {
    uint8_t bent;      /**< 0 in RANKMAP_FORM_AFFINE, 1 in the others: one compare with memory */
    uint8_t form;      /**< RANKMAP_FORM_… */
    uint16_t reserved; /**< 0 */
    uint32_t phase;    /**< φ; 0 unless blocks are cut by rank 0 */
    uint64_t base;     /**< address of the entry of id o */
    uint64_t step;     /**< bytes from rank to rank; packed: mask of a value */
    uint64_t magic;    /**< ⌈2^64/b⌉, and 0 where there is one level */
    uint64_t jump;     /**< bytes that a new block adds; packed: bits of a value */
    const void *table; /**< ids less o; never NULL */
    const struct rankmap *map;
    uint32_t width; /**< bytes an entry */
    uint32_t mask;  /**< all ones with a 32-bit table, else 0 */
};

/**
 * @brief Bind a map to an array of entries.
 *
 * @param lookup  filled in; 64 bytes, best aligned to 64
 * @param map     not kept: must outlive the lookup (affine and two-level ones do not read it again)
 * @param base    address of the entry of id 0, or 0
 * @param width   bytes an entry, 1 to RANKMAP_MAX_WIDTH
 * @return 0, or -EINVAL (NULL, width)
 *
 * MT-Safe on distinct lookups. Allocates nothing.
 */
RANKMAP_API int rankmap_lookup_init(struct rankmap_lookup *lookup, const struct rankmap *map, uint64_t base,
                                    uint32_t width);

/** @brief rankmap_at() of the forms that are not inline. MT-Safe. */
RANKMAP_API uint64_t rankmap_at_other(const struct rankmap_lookup *lookup, uint32_t rank);

/** @brief High 64 bits of a product. */
static inline uint64_t rankmap_mulhi(uint64_t a, uint64_t b)
{
#if defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 rankmap_u128;

    return (uint64_t)((rankmap_u128)a * b >> 64);
#else
    uint64_t lo = (a & 0xffffffffu) * (b & 0xffffffffu);
    uint64_t m1 = (a >> 32) * (b & 0xffffffffu) + (lo >> 32);
    uint64_t m2 = (a & 0xffffffffu) * (b >> 32) + (m1 & 0xffffffffu);

    return (a >> 32) * (b >> 32) + (m1 >> 32) + (m2 >> 32);
#endif
}

/** @brief Lookup of RANKMAP_FORM_AFFINE only. */
static inline uint64_t rankmap_at_affine(const struct rankmap_lookup *l, uint32_t rank)
{
    return l->base + (uint64_t)rank * l->step;
}

/** @brief Lookup of RANKMAP_FORM_AFFINE, and of RANKMAP_FORM_BLOCK with phase 0: no branch. */
static inline uint64_t rankmap_at_block(const struct rankmap_lookup *l, uint32_t rank)
{
    uint64_t r = rank, at = l->base + rankmap_mulhi(r, l->magic) * l->jump;

#if defined(__GNUC__)
    __asm__("" : "+r"(at)); /* keeps the order of the sum, which saves an addition: the load adds the rest */
#endif
    return r * l->step + at;
}

/** @brief Lookup of RANKMAP_FORM_AFFINE, and of RANKMAP_FORM_BLOCK with any phase: no branch. */
static inline uint64_t rankmap_at_phased(const struct rankmap_lookup *l, uint32_t rank)
{
    uint64_t r = rank;

    return l->base + r * l->step + rankmap_mulhi(r + l->phase, l->magic) * l->jump;
}

/**
 * @brief Lookup of RANKMAP_FORM_LUT32 only.
 * @param l      the lookup
 * @param rank   below the size of the map
 * @param width  what rankmap_lookup_init() got: a constant saves a multiplication
 * @return address of the entry
 */
static inline uint64_t rankmap_at_lut32(const struct rankmap_lookup *l, uint32_t rank, uint32_t width)
{
    return l->base + (uint64_t)((const uint32_t *)l->table)[rank] * width;
}

/** @brief The value of `bits` bits at `index` of a bit-packed table, `mask` being 2^bits - 1, bits at most 56. */
static inline uint64_t rankmap_bits_get(const void *table, uint64_t index, uint64_t bits, uint64_t mask)
{
    uint64_t at = index * bits, word;

    memcpy(&word, (const unsigned char *)table + (at >> 3), sizeof(word));
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word >> (at & 7) & mask;
}

/** @brief Lookup of RANKMAP_FORM_PACKED only; width as in rankmap_at_lut32(). */
static inline uint64_t rankmap_at_packed(const struct rankmap_lookup *l, uint32_t rank, uint32_t width)
{
    return l->base + rankmap_bits_get(l->table, rank, l->jump, l->step) * width;
}

/**
 * @brief Where the entry of a rank is; any map.
 * @param l     a lookup
 * @param rank  below the size of its map
 * @return base + width·id
 * @cost 7 instructions for affine maps with the caller's load and return; see the README
 */
static inline uint64_t rankmap_at(const struct rankmap_lookup *l, uint32_t rank)
{
    if (RANKMAP_LIKELY(!l->bent))
        return rankmap_at_affine(l, rank);
    if (l->form == RANKMAP_FORM_BLOCK)
        return rankmap_at_phased(l, rank);
    if (l->form == RANKMAP_FORM_LUT32)
        return rankmap_at_lut32(l, rank, l->width);
    return rankmap_at_other(l, rank);
}

/**
 * @brief rankmap_at() without a branch between the three inline forms.
 *
 * One branch is left, for the maps of RANKMAP_FORM_PACKED and RANKMAP_FORM_OTHER.
 *
 * @param l     a lookup
 * @param rank  below the size of its map
 * @return base + width·id
 */
static inline uint64_t rankmap_at_nobranch(const struct rankmap_lookup *l, uint32_t rank)
{
    if (!RANKMAP_LIKELY(l->form <= RANKMAP_FORM_LUT32))
        return rankmap_at_other(l, rank);
    return rankmap_at_phased(l, rank) +
           (uint64_t)((const uint32_t *)l->table)[rank & l->mask] * l->width;
}

/** @brief rankmap_at() as a pointer, for lookups whose base is one. */
static inline void *rankmap_addr(const struct rankmap_lookup *l, uint32_t rank)
{
    return (void *)(uintptr_t)rankmap_at(l, rank);
}

/** @brief rankmap_at_nobranch() as a pointer. */
static inline void *rankmap_addr_nobranch(const struct rankmap_lookup *l, uint32_t rank)
{
    return (void *)(uintptr_t)rankmap_at_nobranch(l, rank);
}

/**
 * @brief Many lookups: out[i] = rankmap_at(ranks[i]).
 * @param l      a lookup
 * @param ranks  array of n ranks, each below the size of the map
 * @param n      how many
 * @param out    n results
 *
 * MT-Safe. Allocates nothing. One branch on the form for all of them.
 */
RANKMAP_API void rankmap_at_many(const struct rankmap_lookup *l, const uint32_t *ranks, size_t n, uint64_t *out);

#ifdef __cplusplus
}
#endif
#endif /* RANKMAP_LOOKUP_H */
