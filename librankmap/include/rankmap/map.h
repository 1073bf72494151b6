/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file map.h
 * @brief Maps: making them, their models and costs, and their packed form.
 *
 * A map gives each rank r below n an *id*, a number below 2^40. Its *model* is the form in which
 * the map stores the ids. In the table of the models, ⌊⌋ rounds down, and mod is the remainder. The
 * *range* is the greatest id less the least. φ, the *phase*, is the number of ranks that the first
 * block lacks. T is a table; the other letters are parameters of the model.
 *
 *     direct          r
 *     offset          o + r
 *     stride          o + s·r                             s of either sign
 *     blockstride     o + s·⌊(r+φ)/b⌋ + t·((r+φ) mod b)   B(o,b,s,t,φ)
 *     md-blockstride  o + Σ sᵢ·dᵢ                         d: digits of r+φ,
 *                                                         mixed radix,
 *                                                         lowest first,
 *                                                         last unbounded
 *     runs            o + oₖ + sₖ·(r − rₖ)                rₖ ≤ r < rₖ₊₁
 *     bitmap          the r-th set bit of a bit vector, from o
 *     elias-fano      the same set, coded in 2 + log2(range/n) bits a rank
 *     frames          o + base[⌊r/2^k⌋] + low[r]          bit-packed
 *     lut             o + T[r]                            packed, or 32-bit
 *     view            T_parent[g(r)], g regular           lut-stride,
 *                                                         lut-blockstride
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
 * direct, offset, stride, blockstride and md-blockstride are the **regular** models. They have one
 * *level* for each digit of the rank. *Affine* is the common name of direct, offset and stride,
 * which have one level; blockstride has two, md-blockstride three to eight. Besides the object's
 * header of 24 bytes, a regular model takes 16 bytes with one level, and 8 + 16·levels with more.
 * The other models are **irregular**.
 *
 * An irregular array of ids becomes a bit-packed table, or a slower model that is much smaller:
 * runs, bitmap or elias-fano with half of the table's bytes or less, frames with three quarters or
 * less.
 *
 * With its header a map takes at most w bits a rank + 64 bytes. w is ⌈log2(range + 1)⌉; with
 * RANKMAP_FAST it is at least 32. Only runs with duplicate ids may take more, if rankmap_compose()
 * or rankmap_unpack() makes them of other runs.
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

/** Two or more ranks may have the same id, as in a map from ranks to nodes. A map with such ranks
 * is no group: see group.h. */
#define RANKMAP_ALLOW_DUPLICATES 1u
/**
 * An irregular array whose range is below 2^32 becomes RANKMAP_LUT32: its lookups are faster than
 * those of a bit-packed table, and it takes 4 bytes a rank. RANKMAP_RUNS remains possible in two
 * cases: for two runs of one stride, whose lookups are those of blockstride; and for maps that are
 * made without an array (of ranges, texts or other maps).
 */
#define RANKMAP_FAST 2u
/** Never make a view of the parent's table (see rankmap_compose()): the result gets its own. */
#define RANKMAP_NO_VIEW 4u

/** How to make a map. NULL stands for all defaults. */
struct rankmap_opts {
    size_t size;                               /**< sizeof(struct rankmap_opts) */
    const struct rankmap_allocator *allocator; /**< NULL: libc's */
    /** ids must be below this; 0: RANKMAP_ID_LIMIT. With a limit above RANKMAP_ID_LIMIT the call
     * fails with RANKMAP_ERANGE */
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
 *   - RANKMAP_ERANGE: more than RANKMAP_MAX_RANKS ranks; an id below 0, or not below
 *     opts->id_limit; opts->id_limit above RANKMAP_ID_LIMIT
 *   - RANKMAP_EDUP: two ranks with the same id, without RANKMAP_ALLOW_DUPLICATES
 *   - the codes that the function's own comment adds
 *
 * Two kinds of formulas cannot be stored although all ids are in range:
 *
 *   - those in which rank 0 is inside a block of more than 2^31 ranks, not at its beginning;
 *   - those in which one digit alone could move an id by 2^40 or more.
 *
 * If the result is such a formula, these functions return RANKMAP_ERANGE:
 *
 *   - rankmap_unpack();
 *   - rankmap_compose(), rankmap_split(), rankmap_include_ranks(), rankmap_include_ranges(),
 *     rankmap_exclude(), rankmap_exclude_ranks() and rankmap_exclude_ranges(), if the result has
 *     more than 2^24 ranks.
 *
 * All other calls make an irregular map of these ids.
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
 *   - One pass over the array, at about memory bandwidth, finds a regular model without phase. A
 *     second search finds one with a phase φ. A model is used only if it gives every id. The
 *     detector finds every regular model of up to RANKMAP_MAX_LEVELS levels, except one in which
 *     rank 0 lies inside a block of more than 2^31 ranks.
 *   - The parameters of most regular models show whether there are duplicate ids. The call searches
 *     the ids themselves if three or more levels do not nest (see LAYOUT.md), or if the ids are
 *     irregular and do not ascend. The search takes one bit of scratch for each id of the range. If
 *     the range is at least 65,536 and at least 64 times the number of ranks, it takes 16 bytes a
 *     rank instead. For a regular model it takes 8 bytes a rank more.
 *   - You may pass an array of int if opts->id_limit is at most 2^31: a negative value then fails
 *     with RANKMAP_ERANGE.
 *
 * @param ids       array of n ids in rank order, each of id_bytes; need not be kept
 * @param id_bytes  sizeof(uint32_t) or sizeof(uint64_t); else -EINVAL
 * @param n         ranks, 0 to RANKMAP_MAX_RANKS
 * @param opts      NULL: defaults
 * @param out       the map
 * @param err       names the rank whose id is out of range, or the two ranks that share an id; or
 *                  NULL
 * @return as described above
 *
 * @cost O(n). A regular array without phase is read once; one of three or more levels may be read
 *       again, to look for a phase that saves a level. After RANKMAP_EDUP, the detail for `err`
 *       costs a sort
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

/** @brief rankmap_from_ids() of 64-bit ids, for ids that may be 2^32 or more. */
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
 * @cost regular: O(levels); lut, frames: O(1); runs: O(log of their number); bitmap, elias-fano:
 *       O(log of the bit vector's length); a view: as its table, and O(levels). lookup.h has the
 *       inline form
 */
RANKMAP_API uint64_t rankmap_id(const struct rankmap *map, uint32_t rank);

/**
 * @brief The ids of consecutive ranks.
 * @param map       the map
 * @param first     first rank
 * @param n         how many
 * @param id_bytes  sizeof(uint32_t) or sizeof(uint64_t)
 * @param out       n ids of id_bytes each
 * @return 0; RANKMAP_ERANGE if first + n is above the map's size, or if id_bytes is 4 and any rank
 *         of the map has an id above 2^32 - 1; -EINVAL (map is NULL, id_bytes). On failure out is
 *         untouched
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
    /** the range ends here; need not be one of its ids */
    uint64_t last;
    int64_t stride; /**< not 0; negative if last is below first, positive if it is above */
};

/**
 * @brief Ranges of ids, one after the other, as in MPI_Group_range_incl() of the world.
 * @param ranges    array of n_ranges
 * @param n_ranges  0 gives the empty map
 * @param opts      NULL: defaults
 * @param out       the map
 * @param err       names the bad range, or, among up to 1,024 ranges, two that share an id; or NULL
 * @return as described above; RANKMAP_ERANGE also for a stride that is 0 or leads away from `last`
 * @cost O(n_ranges · log n_ranges) if there are fewer than 2^23 ranges, and either all strides are
 *       ±1 or no two ranges overlap; otherwise O(number of ranks)
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
 * - An empty text, or blanks alone, is the empty map.
 * - A range whose last is below its first counts downwards, with or without a minus sign in its
 *   stride.
 * - The call fails with RANKMAP_ERANGE if a range that counts upwards has a negative stride, or if
 *   a stride is 0, or 2^41 or more.
 *
 * @param text  not terminated
 * @param len   bytes
 * @param opts  NULL: defaults
 * @param out   the map
 * @param err   names the byte and what is missing there, or the ranges that share an id; or NULL
 * @return as described above, or RANKMAP_ESYNTAX
 * @cost O(len), and that of rankmap_from_ranges()
 */
RANKMAP_API int rankmap_from_text(const char *text, size_t len, const struct rankmap_opts *opts,
                                  struct rankmap **out, struct rankmap_error *err);

/**
 * @brief Node of each rank, from a PMI_process_mapping or a task map.
 *
 * The text is one of these:
 *
 *   - PMI_process_mapping: `(vector,(0,4,16))` means 4 nodes, from node 0 on, of 16 ranks each. The
 *     call also reads what MPICH 4.1 added: a bare number is a node with one rank, and `[…]x3`
 *     repeats what is in the brackets three times. The call repeats the vector until every rank has
 *     its node.
 *   - A task map of Flux RFC 34: `[[0,4,16,1]]` or `{"version":1,"map":[[0,4,16,1]]}`, where the
 *     last number repeats the block. If a task map does not place exactly n ranks, the call fails
 *     with RANKMAP_ERANGE.
 *
 * Blanks may surround numbers, words and punctuation. Nodes are 0 to 2^31 - 1, the other numbers 1
 * to 2^31 - 1. RANKMAP_ALLOW_DUPLICATES is implied.
 *
 * @param text  not terminated
 * @param len   bytes
 * @param n     ranks of the job
 * @param opts  NULL: defaults
 * @param out   a map from rank to node, for the two functions below; it is no group if two ranks
 *              share a node
 * @param err   names the byte and what is wrong there; or NULL
 * @return as described above, or RANKMAP_ESYNTAX
 * @cost O(len) for one block; otherwise O(len + n), to detect the result's model
 */
RANKMAP_API int rankmap_nodes_from_text(const char *text, size_t len, uint32_t n,
                                        const struct rankmap_opts *opts, struct rankmap **out,
                                        struct rankmap_error *err);

/**
 * @brief The ranks of a job, ordered by node, and within a node by rank.
 * @param nodes  from rankmap_nodes_from_text(), or any map from rank to node
 * @param opts   NULL: defaults
 * @param out    a permutation of 0 … n-1
 * @return as described above; RANKMAP_ERANGE also if two nodes' numbers differ by 2^32 or more
 * @cost O(n) with n ranks of `nodes`, and 16 bytes of scratch a rank
 */
RANKMAP_API int rankmap_ranks_by_node(const struct rankmap *nodes, const struct rankmap_opts *opts,
                                      struct rankmap **out);

/**
 * @brief The ranks on one node, ascending.
 * @param nodes  from rankmap_nodes_from_text(), or any map from rank to node
 * @param node   a node without ranks gives the empty map
 * @param opts   NULL: defaults
 * @param out    the ranks
 * @return as described above
 * @cost O(n) with n ranks of `nodes`
 */
RANKMAP_API int rankmap_ranks_on_node(const struct rankmap *nodes, uint64_t node,
                                      const struct rankmap_opts *opts, struct rankmap **out);

/** @} */

/**
 * @name A map's model
 * These functions are MT-Safe, and allocate nothing. They take O(1), and for runs O(their number).
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
    RANKMAP_FRAMES = 9,           /**< two bit-packed tables: a base for each 2^k ranks, and low */
    RANKMAP_PACKED = 10,          /**< lut, bit-packed */
    RANKMAP_LUT32 = 11,           /**< lut, 32 bits a rank */
    RANKMAP_LUT_STRIDE = 12,      /**< view of a parent's table, g of one level */
    RANKMAP_LUT_BLOCKSTRIDE = 13, /**< view of a parent's table, g of two levels and more */
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
    uint64_t min_id;       /**< least id; of a view: of its whole table; 0 in an empty map */
    uint64_t max_id;       /**< greatest id, likewise */
    int64_t offset;        /**< o */
    uint64_t phase;        /**< φ */
    uint32_t n_levels;     /**< regular: 1 to RANKMAP_MAX_LEVELS; views: of g */
    uint32_t n_runs;       /**< runs only */
    uint32_t bits;         /**< lut: bits of a value; frames, elias-fano: of a low part; else 0 */
    uint32_t distinct;     /**< 1 if no id occurs twice, else 0 */
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
 * A packed map is bytes, the same on every machine; librankmap/LAYOUT.md describes them. They hold
 * the formula of a regular map, the runs of a map of runs, and the ids of any other map.
 * @{
 */

/**
 * @brief Write a map.
 * @param map  any
 * @param buf  memory for the bytes; NULL with cap 0 returns only the size
 * @param cap  bytes there
 * @return bytes of the packed map; RANKMAP_ENOBUF, on a 32-bit machine also if the bytes exceed
 *         SSIZE_MAX; -EINVAL (NULL). After an error buf is untouched
 *
 * MT-Safe. Allocates nothing.
 * @cost O(n) for tables
 */
RANKMAP_API ssize_t rankmap_pack(const struct rankmap *map, void *buf, size_t cap);

/**
 * @brief Read a map from untrusted bytes.
 *
 * The call checks every parameter as the functions above do, and checks a table for ids out of
 * range and for duplicate ids. It chooses the map's model anew.
 *
 * @param buf   begins with a packed map; other bytes may follow
 * @param len   bytes there
 * @param opts  NULL: defaults. Set RANKMAP_ALLOW_DUPLICATES for maps that were made with it
 * @param out   the map
 * @return bytes consumed; RANKMAP_EFORMAT, RANKMAP_ERANGE, RANKMAP_EDUP, RANKMAP_ELEVELS, -ENOMEM
 *         or -EINVAL. On failure *out is untouched
 *
 * If a regular map has three or more levels and they do not nest (see LAYOUT.md), it may have
 * duplicate ids. Some levels of stride 0 show them at once; otherwise only a check of every rank
 * finds them. The call makes this check if the map has up to 65,536 ranks. It refuses a larger map
 * with RANKMAP_ERANGE, also with RANKMAP_ALLOW_DUPLICATES, so that a few bytes cannot cost much
 * time.
 *
 * For the same reason it refuses runs with RANKMAP_ERANGE, if all of this holds:
 *
 *   - the runs have more ranks than the body of their packed form has bytes;
 *   - no run of several ranks has stride 0;
 *   - there are 8,388,608 runs or more; or the call has compared 8,388,608 pairs of runs whose
 *     ranges of ids overlap, has found no common id, and has more such pairs to compare.
 *
 * The call allocates memory in proportion to len, and up to 1.5 MiB more for the check of every
 * rank.
 *
 * MT-Safe.
 * @cost O(n) for tables; that of rankmap_from_ranges() for runs; O(1) for regular maps, except for
 *       the check above
 */
RANKMAP_API ssize_t rankmap_unpack(const void *buf, size_t len, const struct rankmap_opts *opts,
                                   struct rankmap **out);

/** @} */

#ifdef __cplusplus
}
#endif
#endif /* RANKMAP_MAP_H */
