/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file group.h
 * @brief Maps as groups: composition, inverse, translation, set operations.
 *
 * A list of ranks is a map too. MPI's calls on groups are:
 *
 * | MPI | here |
 * |---|---|
 * | MPI_Group_incl | rankmap_from_ids() of the ranks, rankmap_compose() |
 * | MPI_Comm_split | rankmap_split() |
 * | MPI_Group_range_incl | rankmap_from_ranges(), rankmap_compose() |
 * | MPI_Group_excl, _range_excl | the same, with rankmap_exclude() |
 * | ranks in reverse | rankmap_compose() with rankmap_affine(n - 1, -1, n) |
 * | MPI_Group_size, _rank | rankmap_size(), rankmap_rank() of the own id |
 * | MPI_Group_translate_ranks, _compare | rankmap_translate(), rankmap_compare() |
 * | MPI_Group_union, _intersection, _difference | rankmap_union() and so on |
 * | MPI_Intercomm_merge | rankmap_union() of the groups, which have no process in common |
 *
 * A communicator without the ranks that failed:
 *
 *     rankmap_from_ids(failed, sizeof(failed[0]), n_failed, NULL, &list, &err);
 *     rankmap_exclude(world, list, NULL, &survivors);       // a shrunk communicator: a few runs
 *     rankmap_translate(survivors, NULL, n, world, ranks);  // their ranks before
 *
 * Results have MPI's order. Where both sides are regular or runs, the functions compute from the
 * parameters; otherwise each takes time linear in the sizes, with a scratch index of the other
 * side.
 *
 * A map made with RANKMAP_ALLOW_DUPLICATES whose ids do not all differ is no group: it is
 * RANKMAP_ENOTINJECTIVE in all functions but rankmap_compose() and rankmap_compare().
 *
 * A result that equals an argument may be that map, with one more reference.
 *
 * @threads All functions are MT-Safe.
 */
#ifndef RANKMAP_GROUP_H
#define RANKMAP_GROUP_H

#include <rankmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The same ids in the same order: MPI_IDENT. */
#define RANKMAP_IDENT 0
/** The same ids, each equally often, in another order: MPI_SIMILAR. */
#define RANKMAP_SIMILAR 1
/** Other ids: MPI_UNEQUAL. */
#define RANKMAP_UNEQUAL 2

/**
 * @brief parent∘child: the child's ids are ranks of the parent, the result's ids are those of the
 *        parent.
 *
 * Makes a communicator from another one. These rules give a regular result without expanding a
 * table (P is the product of the counts of all levels but the last):
 *
 *   - affine ∘ regular, for every parent of one level: all strides are scaled;
 *   - regular ∘ affine, for child strides k·P + c and k·P − c where c, in the parent's mixed radix,
 *     divides: offsets, reversals and even splits are among them, partial first and last blocks
 *     included;
 *   - regular ∘ regular, when no digit of the parent carries: bricks of grids, blocks of blocks.
 *
 * A regular child of a table becomes a view of that table, with a reference to it, unless the table
 * takes more than 8 times the bytes of the child's own: then the child gets its own. A view of a
 * view is a view of the first table: the tenth generation costs what the first does. Any other
 * child is expanded, detected and reduced.
 *
 * @param parent  any map; a view keeps a reference to it
 * @param child   its ids must be below the size of parent: else RANKMAP_ERANGE
 * @param opts    or NULL
 * @param out     a map of child's size
 * @return 0, RANKMAP_ERANGE, RANKMAP_EDUP (a child with equal ids, without
 *         RANKMAP_ALLOW_DUPLICATES), -ENOMEM, -EINVAL
 *
 * @cost O(1) for the rules and for views, except views of node maps; otherwise O(n) time and 4 or 8
 *       bytes a rank of scratch
 * @source the paper, Table II, whose combinations of offset, stride and blockstride that became
 * tables are closed here; the divisibility conditions are those of layout algebra (CuTe)
 */
RANKMAP_API int rankmap_compose(struct rankmap *parent, const struct rankmap *child,
                                const struct rankmap_opts *opts, struct rankmap **out);

/** A rank's arguments to MPI_Comm_split(). */
struct rankmap_member {
    uint32_t rank; /**< in the parent */
    int32_t color; /**< which new communicator it joins; another's color otherwise */
    int32_t key; /**< ranks of the new one are in the order of keys, equal keys in that of ranks */
};

/**
 * @brief MPI_Comm_split(): the map of one color.
 *
 * Reads members of that color alone, in any order, so that only they need be gathered:
 *
 *   - colors and keys of all ranks, from an all-gather: pass them all, each process its own color
 *   - members of the own color alone, from a runtime that brings together equal colors (a key-value
 *     store, a sort over the processes): pass those
 *   - keys that are all equal, as in most programs: they need not travel; leave them 0
 *   - colors that every process can compute (nodes, rows, halves): nothing is gathered at all
 *
 * @param parent     any map; a view keeps a reference to it
 * @param members    array of n_members; each rank of the color once
 * @param n_members  their number
 * @param color      the caller's color. A process with MPI_UNDEFINED does not call
 * @param opts       or NULL
 * @param out        the map; the empty one if no member has the color
 * @param err        the member that the parent does not have, or the rank that comes twice; or NULL
 * @return 0, RANKMAP_ERANGE, RANKMAP_EDUP, -ENOMEM, -EINVAL
 *
 * @cost O(n_members), then that of rankmap_from_ids() and rankmap_compose(); 16 bytes a member of
 * scratch. Keys in order are not sorted
 * @source ours
 */
RANKMAP_API int rankmap_split(struct rankmap *parent, const struct rankmap_member *members,
                              size_t n_members, int32_t color, const struct rankmap_opts *opts,
                              struct rankmap **out, struct rankmap_error *err);

/**
 * @brief All ranks of a map but the given ones.
 * @param parent  any map
 * @param ranks   a group whose ids are ranks of parent, in any order: rankmap_from_ids(),
 *                rankmap_from_ranges(), rankmap_ranks_on_node() …
 * @param opts    or NULL
 * @param out     the map
 * @return as rankmap_compose(), or RANKMAP_ENOTINJECTIVE
 * @cost that of the ranks, not of the parent, where the parent is direct, offset or stride: the
 *       result is runs; otherwise O(size)
 */
RANKMAP_API int rankmap_exclude(struct rankmap *parent, const struct rankmap *ranks,
                                const struct rankmap_opts *opts, struct rankmap **out);

/**
 * @brief The rank that has an id: the exact inverse of rankmap_id().
 * @param map  any group
 * @param id   any number
 * @return the rank, RANKMAP_ENOENT, or RANKMAP_ENOTINJECTIVE
 *
 * Allocates nothing.
 * @cost regular: O(levels) when strides nest, as those of sub-arrays do, at most O(n) else;
 * elias-fano, bitmap: O(log); ascending runs: O(log runs), other runs: O(runs); lut, frames and
 * views of them: O(n), see rankmap_index_create()
 */
RANKMAP_API int64_t rankmap_rank(const struct rankmap *map, uint64_t id);

/** The inverse of a map, for many queries. Opaque. */
struct rankmap_index;

/**
 * @brief Make the inverse of a map.
 *
 * Stores nothing for a map whose rankmap_rank() is quick; for any other map 4 bytes an id of the
 * range where the range is at most 4 times the size, else a hash table of 12 to 16 bytes a rank.
 * Ids chosen to fall into one bucket cost a binary search in it instead of one step.
 *
 * @param map        a group; a reference is kept
 * @param allocator  or NULL
 * @param out        the index
 * @return 0, RANKMAP_ENOTINJECTIVE, -ENOMEM or -EINVAL
 * @cost O(n)
 */
RANKMAP_API int rankmap_index_create(struct rankmap *map, const struct rankmap_allocator *allocator,
                                     struct rankmap_index **out);

/** @brief Drop an index. NULL is allowed. */
RANKMAP_API void rankmap_index_destroy(struct rankmap_index *index);

/** @brief rankmap_rank() in O(1), or O(log size) at worst. Allocates nothing. */
RANKMAP_API int64_t rankmap_index_rank(const struct rankmap_index *index, uint64_t id);

/**
 * @brief MPI_Group_translate_ranks(): ranks of one map as ranks of another.
 * @param from   map that the ranks are of
 * @param ranks  array of n ranks of it; NULL: 0, 1, … n-1
 * @param n      how many
 * @param to     a group
 * @param out    n ranks of `to`, RANKMAP_NO_RANK for a process that is not in it
 * @return 0, RANKMAP_ERANGE (a rank that `from` does not have; out is untouched),
 *         RANKMAP_ENOTINJECTIVE, -ENOMEM, -EINVAL
 * @cost O(n) where `to` is affine, and allocates nothing then; otherwise O(n + size of `to`) with
 * the scratch of rankmap_index_create(), or n times rankmap_rank() where n is below a sixteenth of
 * the size and that is quick
 */
RANKMAP_API int rankmap_translate(const struct rankmap *from, const uint32_t *ranks, size_t n,
                                  const struct rankmap *to, uint32_t *out);

/**
 * @brief MPI_Group_compare().
 * @param a,b  maps
 * @return RANKMAP_IDENT, RANKMAP_SIMILAR or RANKMAP_UNEQUAL, or -ENOMEM
 * @cost O(1) for affine maps and for maps of equal parameters; otherwise O(n), with 24 bytes a rank
 * of scratch where both have equal ids
 */
RANKMAP_API int rankmap_compare(const struct rankmap *a, const struct rankmap *b);

/**
 * @brief MPI_Group_union(): all of a, then those of b that a does not have.
 * @param a,b   groups
 * @param opts  or NULL
 * @param out   the map
 * @return 0, RANKMAP_ERANGE (more ranks than a map can have), RANKMAP_ENOTINJECTIVE, -ENOMEM,
 *         -EINVAL
 * @cost as rankmap_difference()
 */
RANKMAP_API int rankmap_union(struct rankmap *a, struct rankmap *b, const struct rankmap_opts *opts,
                              struct rankmap **out);

/**
 * @brief MPI_Group_intersection(): those of a that b has too, in the order of a.
 * @param a,b   groups
 * @param opts  or NULL
 * @param out   the map
 * @return as rankmap_union()
 * @cost as rankmap_difference()
 * @source two arithmetic progressions: the Chinese remainder theorem
 */
RANKMAP_API int rankmap_intersection(struct rankmap *a, struct rankmap *b,
                                     const struct rankmap_opts *opts, struct rankmap **out);

/**
 * @brief MPI_Group_difference(): those of a that b does not have, in the order of a.
 * @param a,b   groups
 * @param opts  or NULL
 * @param out   the map
 * @return as rankmap_union()
 * @cost affine and affine: O(log) by the parameters; few runs with few runs: O(product of their
 * numbers); otherwise O(size of a + size of b)
 */
RANKMAP_API int rankmap_difference(struct rankmap *a, struct rankmap *b,
                                   const struct rankmap_opts *opts, struct rankmap **out);

#ifdef __cplusplus
}
#endif
#endif /* RANKMAP_GROUP_H */
