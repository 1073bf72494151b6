/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file map.h
 * @brief Maps: making them, their models and costs, and their packed form.
 *
 * The models, for rank r (⌊⌋ is division without remainder, mod its remainder; the *range* is the
 * greatest id less the least; φ, the *phase*, is the number of ranks that the first block lacks):
 *
 *     direct          r
 *     offset          o + r
 *     stride          o + s·r                                     s of either sign
 *     blockstride     o + s·⌊(r+φ)/b⌋ + t·((r+φ) mod b)           B(o,b,s,t,φ)
 *     md-blockstride  o + Σ sᵢ·dᵢ    d: digits of r+φ, mixed radix, lowest first, last unbounded
 *     runs            o + oₖ + sₖ·(r − rₖ)                         rₖ ≤ r < rₖ₊₁
 *     bitmap          the r-th set bit of a bit vector, from o
 *     elias-fano      the same set, coded in 2 + log2(range/n) bits a rank
 *     frames          o + base[⌊r/2^k⌋] + low[r]                  bit-packed
 *     lut             o + T[r]                                    bit-packed, or 32-bit
 *     view            T_parent[g(r)], g regular                   lut-stride, lut-blockstride, …
 *
 * Finding the model of an array of ids, and its bytes:
 *
 *     struct rankmap_info info = {.size = sizeof(info)};
 *     struct rankmap_error err;
 *     struct rankmap *map;
 *
 *     if (rankmap_from_ids32(ids, n, NULL, &map, &err) < 0)
 *         return complain(err.text);                     // ranks 3 and 17 both have id 5
 *     rankmap_query(map, &info);
 *     printf("%s, %llu bytes\n", info.kind_name, (unsigned long long)info.total_bytes);
 *     id = rankmap_id(map, 7);
 *     rankmap_unref(map);
 *
 * direct, offset, stride, blockstride and md-blockstride are the **regular** models, with one
 * *level* for each digit of the rank: 1, 1, 1, 2 and more. They take 16 bytes with one level, and
 * 8 + 16·levels with more, beside the object's header of 24. *Affine* is the common name of direct,
 * offset and stride.
 *
 * An irregular map gets a bit-packed table, or a slower model that is much smaller: runs, bitmap or
 * elias-fano with half of the table's bytes or less, frames with three quarters or less. In all it
 * takes at most ⌈log2(range + 1)⌉ bits a rank + 64 bytes; with RANKMAP_FAST 32 bits where that is
 * more.
 *
 * @threads Maps are immutable and may be shared between threads; rankmap_ref() and rankmap_unref()
 * are atomic. The functions here are MT-Safe.
 */
#ifndef RANKMAP_MAP_H
#define RANKMAP_MAP_H

#include <sys/types.h>

#include <rankmap/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An immutable sequence of ids. Opaque. */
struct rankmap;

/** Two or more ranks may have the same id, as in a map from ranks to nodes. Such a map is no
 * group. */
#define RANKMAP_ALLOW_DUPLICATES 1u
/**
 * An irregular array whose ids span less than 2^32 becomes RANKMAP_LUT32: its lookups are faster
 * than those of a bit-packed table, and it takes 4 bytes a rank. Maps that are made without an
 * array (of ranges, texts or other maps) may remain RANKMAP_RUNS.
 */
#define RANKMAP_FAST 2u
/** Never make a view of the parent's table (see rankmap_compose()): the child gets its own. */
#define RANKMAP_NO_VIEW 4u

/** How to make a map. NULL stands for all defaults. */
struct rankmap_opts {
    size_t size;                               /**< sizeof(struct rankmap_opts) */
    const struct rankmap_allocator *allocator; /**< NULL: libc's */
    /** ids must be below this; 0: RANKMAP_ID_LIMIT. A limit above RANKMAP_ID_LIMIT:
     * RANKMAP_ERANGE */
    uint64_t id_limit;
    uint32_t flags;    /**< RANKMAP_ALLOW_DUPLICATES and so on */
    uint32_t reserved; /**< 0 */
};

/**
 * @name Making maps
 *
 * Each function that makes a map returns 0 and stores a map with one reference in `*out`, or
 * returns a negative code and leaves `*out` untouched:
 *
 *   - -ENOMEM
 *   - -EINVAL: a NULL that is not allowed, unknown flags, opts->size, opts->reserved, an allocator
 *     that lacks a function
 *   - RANKMAP_ERANGE: too many ranks; an id not below the limit; a sum that would pass the limit or
 *     fall below 0
 *   - RANKMAP_EDUP: two ranks with the same id
 *   - the codes that the function's own comment adds
 *
 * A formula whose ids are in range still fails with RANKMAP_ERANGE if
 *
 *   - one of its digits alone could move an id by 2^40,
 *   - its offset is beyond ±2^45, or
 *   - rank 0 lies inside a block of more than 2^31 ranks, not at its beginning.
 * @{
 */

/**
 * @brief offset + stride·r: direct, offset and stride.
 * @param offset  id of rank 0
 * @param stride  either sign; 0 only with RANKMAP_ALLOW_DUPLICATES or n ≤ 1
 * @param n       ranks
 * @param opts    NULL: defaults
 * @param out     the map
 * @return as described above
 * @cost O(1)
 */
RANKMAP_API int rankmap_affine(uint64_t offset, int64_t stride, uint32_t n,
                               const struct rankmap_opts *opts, struct rankmap **out);

/**
 * @brief The map of an array of ids: detects its model.
 *
 *   - One pass over the array finds a regular model without phase, at about memory bandwidth. Two
 *     passes find one with a phase φ. The detector compares every element: it invents no regular
 *     array, and misses none of up to RANKMAP_MAX_LEVELS levels, except one that begins inside a
 *     block of more than 2^31 ranks.
 *   - The parameters of a regular model show whether it has duplicate ids, except for three or more
 *     levels that do not nest (see LAYOUT.md). These, and irregular ids that do not ascend, are
 *     searched for duplicates. The search takes scratch: one bit for each id of the range, or 16
 *     bytes a rank if the range is 64 times the size or more (and at least 65,536). For such levels
 *     it takes 8 bytes a rank more.
 *   - 64-bit ids are for flat ids over several process groups.
 *   - You may pass an array of int if opts->id_limit is at most 2^31: a negative value then fails
 *     with RANKMAP_ERANGE.
 *
 * @param ids       array of n ids in rank order, each of id_bytes; need not be kept
 * @param id_bytes  sizeof(uint32_t) or sizeof(uint64_t)
 * @param n         ranks, 0 to RANKMAP_MAX_RANKS
 * @param opts      NULL: defaults
 * @param out       the map
 * @param err       names the rank whose id is out of range, or the two ranks that share an id; or
 *                  NULL
 * @return as described above
 *
 * @cost O(n). A regular array without phase is read once; one of three or more levels may be read
 *       again, to look for a phase that saves a level. After an error, the detail for `err` costs a
 *       sort
 * @source "Memory Compression Techniques for Network Address Management in MPI", section III-C1,
 *         detects stride; the linear detector of n levels is ours
 */
RANKMAP_API int rankmap_from_ids(const void *ids, size_t id_bytes, size_t n,
                                 const struct rankmap_opts *opts, struct rankmap **out,
                                 struct rankmap_error *err);

/** @brief rankmap_from_ids() of 32-bit ids: the compiler checks the array's type. */
static inline int rankmap_from_ids32(const uint32_t *ids, size_t n, const struct rankmap_opts *opts,
                                     struct rankmap **out, struct rankmap_error *err)
{
    return rankmap_from_ids(ids, sizeof(ids[0]), n, opts, out, err);
}

/** @brief rankmap_from_ids() of 64-bit ids, such as MPICH's lpids. */
static inline int rankmap_from_ids64(const uint64_t *ids, size_t n, const struct rankmap_opts *opts,
                                     struct rankmap **out, struct rankmap_error *err)
{
    return rankmap_from_ids(ids, sizeof(ids[0]), n, opts, out, err);
}

/** @} */

/** @brief One more reference. MT-Safe. Returns map, which may be NULL. */
RANKMAP_API struct rankmap *rankmap_ref(struct rankmap *map);

/** @brief One reference less; the last one frees the map. NULL is allowed. MT-Safe. */
RANKMAP_API void rankmap_unref(struct rankmap *map);

/** @brief Number of ranks. */
RANKMAP_API uint32_t rankmap_size(const struct rankmap *map);

/**
 * @brief The id of a rank.
 * @return the id, or RANKMAP_NO_ID for a rank that the map does not have
 * @cost regular, lut, frames: O(1). Runs: O(log of their number). Bitmap, elias-fano: O(log of the
 *       bit vector's length). A view: as its table. lookup.h has the inline form
 */
RANKMAP_API uint64_t rankmap_id(const struct rankmap *map, uint32_t rank);

/**
 * @brief The ids of consecutive ranks.
 * @param map       the map
 * @param first     first rank
 * @param n         how many
 * @param id_bytes  sizeof(uint32_t) or sizeof(uint64_t)
 * @param out       n ids of id_bytes each
 * @return 0; RANKMAP_ERANGE if first + n is above the size, or if id_bytes is 4 and the map has an
 *         id above 2^32 - 1; -EINVAL (map is NULL, id_bytes). On failure out is untouched
 * @cost O(n); each rank costs less than with rankmap_id()
 */
RANKMAP_API int rankmap_ids(const struct rankmap *map, uint32_t first, uint32_t n, size_t id_bytes,
                            void *out);

/**
 * @name Ranges and text
 * @{
 */

/** The ids first, first + stride, … up to `last`, as in MPI_Group_range_incl(). */
struct rankmap_range {
    uint64_t first;
    /** the range ends here; need not be one of its ids. Below first only with a negative stride */
    uint64_t last;
    int64_t stride; /**< not 0 */
};

/**
 * @brief Ranges of ids, one after the other, as in MPI_Group_range_incl() of the world.
 * @param ranges    array of n_ranges
 * @param n_ranges  0 gives the empty map
 * @param opts      NULL: defaults
 * @param out       the map
 * @param err       names the bad range, or the second of two ranges that share an id (which it
 *                  looks for if there are at most 1,024 ranges); or NULL
 * @return as described above
 * @cost O(n_ranges · log n_ranges) if all strides are ±1, or if no two ranges overlap; otherwise
 *       O(number of ranks)
 */
RANKMAP_API int rankmap_from_ranges(const struct rankmap_range *ranges, size_t n_ranges,
                                    const struct rankmap_opts *opts, struct rankmap **out,
                                    struct rankmap_error *err);

/**
 * @brief A list of ranges as text: `0-99,200-300:4,7,15-8:-1`.
 *
 * - A range is `first`, `first-last` or `first-last:stride` in decimal digits, with no blank
 *   inside.
 * - Ranges are separated by blanks (space, tab, CR, LF), or by one comma with or without blanks
 *   around it. A comma before the first or after the last range is an error.
 * - Blanks alone are the empty map.
 * - A range whose last is below its first counts downwards, with or without a minus sign in its
 *   stride.
 * - A negative stride upwards, or a stride of 0, fails with RANKMAP_ERANGE.
 *
 * @param text  not terminated
 * @param len   bytes
 * @param opts  NULL: defaults
 * @param out   the map
 * @param err   names the byte and what is missing there, or the ranges that share an id; or NULL
 * @return as described above, or RANKMAP_ESYNTAX
 * @cost as rankmap_from_ranges()
 */
RANKMAP_API int rankmap_from_text(const char *text, size_t len, const struct rankmap_opts *opts,
                                  struct rankmap **out, struct rankmap_error *err);

/**
 * @brief Node of each rank, from a PMI_process_mapping or a task map.
 *
 * The text is one of these:
 *
 *   - `(vector,(0,4,16))`, in either grammar of PMI_process_mapping. The vector is repeated until
 *     every rank has its node.
 *   - A task map of Flux RFC 34, `[[0,4,16,1]]` or `{"version":1,"map":[…]}`. It must place exactly
 *     n ranks.
 *
 * Blanks may surround numbers, words and punctuation. Nodes are below 2^31.
 * RANKMAP_ALLOW_DUPLICATES is implied.
 *
 * @param text  not terminated
 * @param len   bytes
 * @param n     ranks of the job
 * @param opts  NULL: defaults
 * @param out   a map from rank to node, for the two functions below; it is no group
 * @param err   names the byte and what is missing there; or NULL
 * @return as described above, or RANKMAP_ESYNTAX
 * @cost O(1) for one block; otherwise O(n), to detect the result's model
 */
RANKMAP_API int rankmap_nodes_from_text(const char *text, size_t len, uint32_t n,
                                        const struct rankmap_opts *opts, struct rankmap **out,
                                        struct rankmap_error *err);

/**
 * @brief The ranks of a job, ordered by node, and within a node by rank.
 * @param nodes  from rankmap_nodes_from_text(), or any map from rank to node; the numbers of nodes
 *               are within 2^32 of each other
 * @param opts   NULL: defaults
 * @param out    a permutation of 0 … n-1
 * @return as described above
 * @cost O(n + nodes)
 */
RANKMAP_API int rankmap_ranks_by_node(const struct rankmap *nodes, const struct rankmap_opts *opts,
                                      struct rankmap **out);

/**
 * @brief The ranks on one node, ascending.
 * @param nodes  as in rankmap_ranks_by_node()
 * @param node   a node without ranks gives the empty map
 * @param opts   NULL: defaults
 * @param out    the ranks
 * @return as described above
 * @cost O(n)
 */
RANKMAP_API int rankmap_ranks_on_node(const struct rankmap *nodes, uint64_t node,
                                      const struct rankmap_opts *opts, struct rankmap **out);

/** @} */

/**
 * @name A map's model MT-Safe, allocate nothing, O(1).
 * @{
 */

/** What a map is made of. The values never change. */
enum rankmap_kind {
    RANKMAP_DIRECT = 1,           /**< r */
    RANKMAP_OFFSET = 2,           /**< o + r */
    RANKMAP_STRIDE = 3,           /**< o + s·r */
    RANKMAP_BLOCKSTRIDE = 4,      /**< two levels */
    RANKMAP_MD = 5,               /**< md-blockstride: three levels and more */
    RANKMAP_RUNS = 6,             /**< pieces, each a stride */
    RANKMAP_BITMAP = 7,           /**< ascending ids, a bit for each id of the range */
    RANKMAP_ELIAS_FANO = 8,       /**< ascending ids, sparse */
    RANKMAP_FRAMES = 9,           /**< bit-packed table of two stages */
    RANKMAP_PACKED = 10,          /**< lut, bit-packed */
    RANKMAP_LUT32 = 11,           /**< lut, 32 bits a rank */
    RANKMAP_LUT_STRIDE = 12,      /**< view of a parent's table, one level */
    RANKMAP_LUT_BLOCKSTRIDE = 13, /**< view of a parent's table, two levels and more */
};

/** One digit of a regular model: its number of values, and what each step adds to the id. */
struct rankmap_level {
    int64_t stride;
    uint64_t count; /**< values of the digit; ignored in the last level, which is unbounded */
};

/** A map's model, parameters and bytes: rankmap_query(). */
struct rankmap_info {
    size_t size;   /**< sizeof(struct rankmap_info), set by the caller */
    uint32_t kind; /**< enum rankmap_kind */
    uint32_t n_ranks;
    const char *kind_name; /**< such as "stride"; constant */
    uint64_t min_id;       /**< of all ranks; of a view: of the whole table; 0 in an empty map */
    uint64_t max_id;
    int64_t offset;    /**< o */
    uint64_t phase;    /**< φ */
    uint32_t n_levels; /**< regular: 1 to RANKMAP_MAX_LEVELS; views: of g */
    uint32_t n_runs;   /**< runs only */
    uint32_t bits;     /**< lut: bits of a value; frames, elias-fano: of a low part; else 0 */
    uint32_t distinct; /**< 1 if no id occurs twice */
    struct rankmap_level levels[RANKMAP_MAX_LEVELS]; /**< of g for views */
    /** parameters and tables: the figure to compare with other libraries' */
    uint64_t model_bytes;
    uint64_t total_bytes;  /**< the whole object, as requested from the allocator */
    uint64_t pinned_bytes; /**< the table of a view, kept alive by it; else 0 */
};

/**
 * @brief Report a map's model, parameters and bytes.
 * @param map   any
 * @param info  the caller sets `size`, and the call fills in no more bytes than that; a size
 *              below the first release's fails with -EINVAL
 * @return 0 or -EINVAL
 */
RANKMAP_API int rankmap_query(const struct rankmap *map, struct rankmap_info *info);

/**
 * @brief Describe a map in one line: `blockstride, 4096 ranks: (r % 8) + 64*(r / 8); 40 + 24
 *        bytes`.
 * @param map  any
 * @param buf  the text and a NUL, truncated if it does not fit; may be NULL if cap is 0
 * @param cap  bytes there
 * @return length of the whole text without NUL, as snprintf(); -EINVAL (NULL)
 */
RANKMAP_API ssize_t rankmap_describe(const struct rankmap *map, char *buf, size_t cap);

/** @} */

/**
 * @name Pack
 * A packed map is bytes, the same on every machine; librankmap/LAYOUT.md describes them. Regular
 * maps and runs keep their model. A view is packed as the table of its own ids.
 * @{
 */

/**
 * @brief Write a map.
 * @param map  any
 * @param buf  memory for the bytes; NULL with cap 0 returns only the size
 * @param cap  bytes there
 * @return bytes of the packed map; RANKMAP_ENOBUF or -EINVAL (NULL). After an error buf is
 *         untouched
 *
 * MT-Safe. Allocates nothing.
 * @cost O(n) for tables
 */
RANKMAP_API ssize_t rankmap_pack(const struct rankmap *map, void *buf, size_t cap);

/**
 * @brief Read a map from untrusted bytes.
 *
 * The call checks every parameter as the functions above do, and checks a table for ids out of
 * range and for duplicate ids.
 *
 * @param buf   packed map, at its beginning; more may follow
 * @param len   bytes there
 * @param opts  NULL: defaults. Set RANKMAP_ALLOW_DUPLICATES for maps that were made with it
 * @param out   the map
 * @return bytes consumed; RANKMAP_EFORMAT, RANKMAP_ERANGE, RANKMAP_EDUP, RANKMAP_ELEVELS, -ENOMEM
 *         or -EINVAL
 *
 * The call allocates memory in proportion to len, and up to 1.5 MiB more for this check: if a
 * regular map has three or more levels whose strides do not nest (see LAYOUT.md), only a check of
 * every rank finds duplicate ids. The call makes it up to 65,536 ranks. For more it returns
 * RANKMAP_ERANGE, also with RANKMAP_ALLOW_DUPLICATES, so that a few bytes cannot cost much time. It
 * refuses runs in the same way if they are 8,388,608 or more, or more pairs of them overlap.
 *
 * MT-Safe.
 * @cost O(n) for tables; O(1) for regular maps, except for the check above
 */
RANKMAP_API ssize_t rankmap_unpack(const void *buf, size_t len, const struct rankmap_opts *opts,
                                   struct rankmap **out);

/** @} */

#ifdef __cplusplus
}
#endif
#endif /* RANKMAP_MAP_H */
