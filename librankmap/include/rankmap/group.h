/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file group.h
 * @brief Maps as groups: composition, inverse, translation, set operations.
 *
 * A list of ranks is a map too: its ids are the ranks. map.h describes the models: *affine* is
 * offset + stride·rank, *regular* a formula of one to eight levels, *runs* pieces of constant
 * stride. This table has MPI's calls on groups and communicators, and a reversal:
 *
 * | MPI | here |
 * |---|---|
 * | MPI_Group_incl, _excl | rankmap_include_ranks(), rankmap_exclude_ranks() |
 * | MPI_Comm_split | rankmap_split() |
 * | MPI_Group_range_incl, _range_excl | rankmap_include_ranges(), rankmap_exclude_ranges() |
 * | ranks in reverse | rankmap_compose() with rankmap_affine(n - 1, -1, n) |
 * | MPI_Group_size, _rank | rankmap_size(), rankmap_rank() of the own id |
 * | MPI_Group_translate_ranks, _compare | rankmap_translate(), rankmap_compare() |
 * | MPI_Group_union, _intersection, _difference | rankmap_union() and so on |
 * | MPI_Intercomm_merge | rankmap_union() of the groups, which have no process in common |
 *
 * A communicator without the ranks that failed:
 *
 *     rankmap_exclude_ranks(world, failed, n_failed, NULL, &survivors, &err);   // a few runs
 *     n = rankmap_size(survivors);
 *     rankmap_translate(survivors, NULL, n, world, ranks);            // their ranks in the world
 *
 * Results have MPI's order. Union, intersection and difference compute the result from the
 * parameters if each map is affine or consists of few runs, and the result is a formula or few
 * runs. Otherwise they take time linear in the sizes, and usually make a scratch index or bit
 * vector of one of the maps.
 *
 * A *group* is a map without duplicate ids. Most functions return RANKMAP_ENOTINJECTIVE for a map
 * that is no group. rankmap_compose(), rankmap_include_ranks(), rankmap_include_ranges() and
 * rankmap_compare() accept any map; rankmap_translate() accepts any `from`.
 *
 * If a call fails, its output is untouched. If a result equals an argument, it may be that very
 * map, with one more reference.
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
 * @brief parent∘child: the child's ids are ranks of the parent; the result has the parent's ids of
 *        these ranks.
 *
 * The result is the map of a child communicator. In the cases of the first list the call computes
 * a regular result from the parameters; MODELS.md lists when it may still read ids. A map of two
 * runs of one stride is also two blocks: in both lists it counts as regular, and as the parent of a
 * view also as irregular.
 *
 *   - affine ∘ regular: all strides are scaled;
 *   - regular ∘ affine, if the child's stride is k·P ± W·c. A level's *count* is the number of
 *     values of its digit (struct rankmap_level). P is the product of the parent's counts, without
 *     the last level's; k is any integer; W is the product of the counts of some of the parent's
 *     lowest levels (1 if of none); c divides the count of the level above them. Examples are
 *     offsets, reversals and even splits; the first and last block may be partial;
 *   - regular ∘ regular, if each stride of the child changes only one digit of the parent's rank,
 *     without a carry into the next: for example bricks of grids. A stride may carry if it runs
 *     through a whole digit first, as in blocks of whole blocks.
 *
 * In the other cases:
 *
 *   - One of the two maps is runs, and the other affine: the call computes the result's runs.
 *   - The parent is irregular, and the child regular: the result is a *view* of the parent, and
 *     holds a reference to it. A view of a view is a view of the first table, if the list above
 *     covers the two formulas: the tenth generation costs no more than the first. The result gets a
 *     table of its own instead in three cases: with RANKMAP_NO_VIEW; if this own table takes less
 *     than the view; if this own table takes less than an eighth of the first table.
 *   - Any other two maps: the call expands the result's ids, and finds their model.
 *
 * @param parent  any map; a view keeps a reference to it, or to its table
 * @param child   its ids must be below the size of parent
 * @param opts    NULL: defaults
 * @param out     a map of child's size
 * @return 0; RANKMAP_ERANGE (an id of child is no rank of parent; a resulting id is not below
 *         opts->id_limit; a formula that cannot be stored, see map.h); RANKMAP_EDUP (a child with
 *         duplicate ids, without RANKMAP_ALLOW_DUPLICATES); -ENOMEM; -EINVAL. A parent with
 *         duplicate ids needs no flag
 *
 * @cost
 *   - where the first list applies, and for a view: O(1) if parent and child have no duplicate ids
 *   - for runs: O(number of runs)
 *   - otherwise O(child's size), with 4 or 8 bytes of scratch a rank
 * @source "Memory Compression Techniques for Network Address Management in MPI", Table II. Some
 *         combinations of offset, stride and blockstride are tables there and formulas here. The
 *         divisibility conditions are those of layout algebra (CuTe)
 */
RANKMAP_API int rankmap_compose(struct rankmap *parent, const struct rankmap *child,
                                const struct rankmap_opts *opts, struct rankmap **out);

/** A rank's arguments to MPI_Comm_split(). */
struct rankmap_member {
    uint32_t rank; /**< in the parent */
    int32_t color; /**< the new communicator that it joins */
    int32_t key;   /**< orders the new ranks; equal keys keep the parent's order */
};

/**
 * @brief MPI_Comm_split(): the map of one color.
 *
 * The call uses only the members of that color, in any order. So the runtime can choose what its
 * processes gather:
 *
 * - All-gather the colors and keys of all ranks. Each process passes all of them, and its own
 *   color.
 * - If the runtime can group equal colors (by a key-value store, by a sort over the processes),
 *   gather only the members of the own color, and pass those.
 * - If the keys do not change the order (all are equal, or each is the rank in the parent), leave
 *   all keys 0, and do not gather them. One allreduce shows whether this is so.
 * - If every process can compute the colors (nodes, rows, halves), gather nothing. If the ranks of
 *   a color are a formula, make that map (rankmap_affine(), rankmap_from_text()) and compose it
 *   with the parent: no array, no scratch.
 *
 * @param parent     a group; a view keeps a reference to it, or to its table
 * @param members    array of n_members; each rank of the color once, also with
 *                   RANKMAP_ALLOW_DUPLICATES
 * @param n_members  number of members
 * @param color      the caller's color; a process with MPI_UNDEFINED does not call this
 * @param opts       NULL: defaults
 * @param out        the map; the empty one if no member has the color
 * @param err        names the member that the parent does not have, or the duplicate rank; or NULL
 * @return as rankmap_compose(), or RANKMAP_ENOTINJECTIVE
 *
 * @cost O(n_members), and the cost of rankmap_from_ids() and rankmap_compose(); 16 bytes of scratch
 *       a member. Keys that are in order already need no sort
 * @source ours
 */
RANKMAP_API int rankmap_split(struct rankmap *parent, const struct rankmap_member *members,
                              size_t n_members, int32_t color, const struct rankmap_opts *opts,
                              struct rankmap **out, struct rankmap_error *err);

/**
 * @brief All ranks of a map but the given ones.
 * @param parent  a group
 * @param ranks   a group whose ids are ranks of parent, in any order: rankmap_from_ids(),
 *                rankmap_from_ranges(), rankmap_ranks_on_node() …
 * @param opts    NULL: defaults
 * @param out     the map
 * @return as rankmap_compose(), or RANKMAP_ENOTINJECTIVE
 * @cost O(number of given ranks), but O(size of the parent) in these cases:
 *   - the parent is not affine;
 *   - the given ranks are more than 4,096 runs, or runs with strides other than 1;
 *   - the given ranks are affine and at least 4,096, and the remaining ranks are neither a formula
 *     nor up to three runs.
 */
RANKMAP_API int rankmap_exclude(struct rankmap *parent, const struct rankmap *ranks,
                                const struct rankmap_opts *opts, struct rankmap **out);

/**
 * @brief MPI_Group_incl(): the listed ranks of a map, in the list's order.
 * @param parent  any map; a view keeps a reference to it, or to its table
 * @param ranks   array of n ranks of parent, as MPI passes them; need not be kept
 * @param n       how many
 * @param opts    NULL: defaults
 * @param out     a map of n ranks
 * @param err     names the entry that is no rank of parent, or the two entries that are the same
 *                rank; or NULL
 * @return as rankmap_compose()
 * @cost that of rankmap_from_ids() of the list, and of rankmap_compose()
 */
RANKMAP_API int rankmap_include_ranks(struct rankmap *parent, const int *ranks, size_t n,
                                      const struct rankmap_opts *opts, struct rankmap **out,
                                      struct rankmap_error *err);

/**
 * @brief MPI_Group_excl(): all ranks of a map but the listed ones, in the map's order.
 * @param parent  a group
 * @param ranks   array of n ranks of parent, in any order; need not be kept
 * @param n       how many
 * @param opts    NULL: defaults
 * @param out     the map
 * @param err     as rankmap_include_ranks()
 * @return as rankmap_compose(), or RANKMAP_ENOTINJECTIVE
 * @cost that of rankmap_from_ids() of the list, and of rankmap_exclude()
 */
RANKMAP_API int rankmap_exclude_ranks(struct rankmap *parent, const int *ranks, size_t n,
                                      const struct rankmap_opts *opts, struct rankmap **out,
                                      struct rankmap_error *err);

/**
 * @brief MPI_Group_range_incl(): ranges of a map's ranks, one after the other.
 *
 * A range is three ints: its first rank, its last, and the stride. Its last rank need not be one of
 * its ranks: 6, -1, -2 is the ranks 6, 4, 2 and 0.
 *
 * @param parent  any map; a view keeps a reference to it, or to its table
 * @param ranges  array of 3·n ints: `&ranges[0][0]` of what MPI passes; need not be kept
 * @param n       number of ranges
 * @param opts    NULL: defaults
 * @param out     the map
 * @param err     names the bad range: it has a rank that the parent lacks, or its stride is 0 or
 *                leads away from its last rank. Or it names two ranges that share a rank, if there
 *                are at most 1,024 ranges. May be NULL
 * @return as rankmap_compose(); RANKMAP_ERANGE also for a stride that is 0 or leads away from the
 *         last rank
 * @cost that of rankmap_from_ranges(), and of rankmap_compose()
 */
RANKMAP_API int rankmap_include_ranges(struct rankmap *parent, const int *ranges, size_t n,
                                       const struct rankmap_opts *opts, struct rankmap **out,
                                       struct rankmap_error *err);

/**
 * @brief MPI_Group_range_excl(): all ranks of a map but those of the ranges, in the map's order.
 * @param parent  a group
 * @param ranges  as rankmap_include_ranges(), in any order
 * @param n       number of ranges
 * @param opts    NULL: defaults
 * @param out     the map
 * @param err     as rankmap_include_ranges()
 * @return as rankmap_include_ranges(), or RANKMAP_ENOTINJECTIVE
 * @cost that of rankmap_from_ranges(), and of rankmap_exclude()
 */
RANKMAP_API int rankmap_exclude_ranges(struct rankmap *parent, const int *ranges, size_t n,
                                       const struct rankmap_opts *opts, struct rankmap **out,
                                       struct rankmap_error *err);

/**
 * @brief The rank of an id: the exact inverse of rankmap_id().
 * @param map  any group
 * @param id   any number
 * @return the rank, RANKMAP_ENOENT, or RANKMAP_ENOTINJECTIVE
 *
 * Allocates nothing.
 * @cost
 *   - regular: O(levels) if the strides nest (see LAYOUT.md), as those of sub-arrays do; else at
 *     most O(n)
 *   - bitmap: O(1); elias-fano: O(log² n)
 *   - ascending runs: O(log of their number); other runs: O(their number)
 *   - lut, frames: O(n). See rankmap_index_create()
 *   - a view: the cost for its table and for its formula g; O(n) if the table has duplicate ids
 */
RANKMAP_API int64_t rankmap_rank(const struct rankmap *map, uint64_t id);

/** The inverse of a map, for many queries. Opaque. */
struct rankmap_index;

/**
 * @brief Make the inverse of a map.
 *
 * For a *quick* map the index stores nothing, and calls rankmap_rank(). A map is quick if it is not
 * a view, and is one of these:
 *
 *   - regular, with one or two levels, or with strides that nest (see LAYOUT.md);
 *   - bitmap or elias-fano;
 *   - runs that ascend, or up to 8 runs;
 *   - irregular, with up to 8 ranks.
 *
 * For any other map, the form of the index depends on the range: the greatest id less the least,
 * for a view those of its table. If the range is below 4 times the number of ranks, the index is an
 * array of 4 bytes for each id of the range. Otherwise the index is a hash table of 12 to 16 bytes
 * a rank. An adversary may choose ids that share a bucket; a query in a large bucket is a binary
 * search.
 *
 * @param map        a group; the index keeps a reference
 * @param allocator  NULL: libc's
 * @param out        the index
 * @return 0, RANKMAP_ENOTINJECTIVE, -ENOMEM or -EINVAL
 * @cost O(n)
 */
RANKMAP_API int rankmap_index_create(struct rankmap *map, const struct rankmap_allocator *allocator,
                                     struct rankmap_index **out);

/** @brief Drop an index. NULL is allowed. */
RANKMAP_API void rankmap_index_destroy(struct rankmap_index *index);

/** @brief rankmap_rank() in O(1), or O(log size) at worst; for a quick map as rankmap_rank().
 *        Returns the rank or RANKMAP_ENOENT. Allocates nothing. */
RANKMAP_API int64_t rankmap_index_rank(const struct rankmap_index *index, uint64_t id);

/**
 * @brief MPI_Group_translate_ranks(): ranks of one map as ranks of another.
 * @param from   the map to which `ranks` belong
 * @param ranks  array of n ranks of `from`; NULL: 0, 1, … n-1. The call copies RANKMAP_NO_RANK to
 *               the output, so the output of one call may be the input of another. MPI_PROC_NULL
 *               is copied too where it is -1
 * @param n      how many
 * @param to     a group
 * @param out    n ranks of `to`, RANKMAP_NO_RANK for a process that is not in it; may be `ranks`
 * @return 0, RANKMAP_ERANGE (a rank that `from` does not have), RANKMAP_ENOTINJECTIVE, -ENOMEM,
 *         -EINVAL
 * @cost
 *   - O(n), without allocation, if `to` is affine
 *   - that of n calls of rankmap_rank() if n is at most 2, or if `to` is quick (see
 *     rankmap_index_create()) and n is below a sixteenth of the size of `to`
 *   - otherwise O(n + size of `to`): the call makes a scratch index of `to`
 */
RANKMAP_API int rankmap_translate(const struct rankmap *from, const uint32_t *ranks, size_t n,
                                  const struct rankmap *to, uint32_t *out);

/**
 * @brief MPI_Group_compare().
 * @param a,b  maps
 * @return RANKMAP_IDENT, RANKMAP_SIMILAR or RANKMAP_UNEQUAL; -ENOMEM; -EINVAL (NULL)
 * @cost O(1) for affine maps; O(n) for others. If both maps have distinct ids, in different orders,
 *       the call makes a bit vector or an index of `a`, unless `a` is affine. If both maps have
 *       duplicate ids, in different orders, it takes 24 bytes of scratch a rank
 */
RANKMAP_API int rankmap_compare(const struct rankmap *a, const struct rankmap *b);

/**
 * @brief MPI_Group_union(): all processes of a, then the processes of b that a does not have.
 * @param a,b   groups
 * @param opts  NULL: defaults
 * @param out   the map. If `b` adds no process, it is a new reference to `a`; if `a` is empty, one
 *              to `b`. It may be a new map instead if opts sets id_limit or RANKMAP_NO_VIEW, or if
 *              both are empty
 * @return 0, RANKMAP_ERANGE (more ranks than a map can have; an id not below opts->id_limit),
 *         RANKMAP_ENOTINJECTIVE, -ENOMEM, -EINVAL
 * @cost that of rankmap_difference() of b and a, and of joining that difference to a: O(number of
 *       runs) if a and the difference are affine or runs, otherwise O(size of a + size of b)
 */
RANKMAP_API int rankmap_union(struct rankmap *a, struct rankmap *b, const struct rankmap_opts *opts,
                              struct rankmap **out);

/**
 * @brief MPI_Group_intersection(): the processes of a that b has too, in the order of a.
 * @param a,b   groups
 * @param opts  NULL: defaults
 * @param out   the map
 * @return as rankmap_union()
 * @cost two affine maps: O(log of the strides). Otherwise as rankmap_difference()
 * @source the Chinese remainder theorem, for two arithmetic progressions
 */
RANKMAP_API int rankmap_intersection(struct rankmap *a, struct rankmap *b,
                                     const struct rankmap_opts *opts, struct rankmap **out);

/**
 * @brief MPI_Group_difference(): the processes of a that b does not have, in the order of a.
 * @param a,b   groups
 * @param opts  NULL: defaults
 * @param out   the map
 * @return as rankmap_union()
 * @cost
 *   - two affine maps: O(log of the strides) if the result is a formula or up to three runs;
 *     otherwise O(number of the result's runs) if a loses fewer than 4,096 ids
 *   - one map is runs, and the other runs or affine: let P be the product of their numbers of runs.
 *     If P is at most 4,096, and each run of a loses only stretches of consecutive ranks: O(P) if
 *     the runs of b come in the order of those of a, else at most O(P · runs of b)
 *   - otherwise O(size of a + size of b)
 */
RANKMAP_API int rankmap_difference(struct rankmap *a, struct rankmap *b,
                                   const struct rankmap_opts *opts, struct rankmap **out);

#ifdef __cplusplus
}
#endif
#endif /* RANKMAP_GROUP_H */
