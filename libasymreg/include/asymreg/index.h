/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file index.h
 * @brief Layer one: which region holds this address? No I/O, no threads of its own, no other
 *        process.
 *
 * An ordered set of disjoint regions, each with a permission word and a 64-bit value of yours. One
 * thread at a time changes it; any number of threads search it meanwhile and never wait, retry or
 * write to shared memory:
 *
 *     asymreg_index_create(NULL, &ix); asymreg_index_insert(ix, addr, bytes, ASYMREG_RW, my_value,
 *     &id); asymreg_reader_create(ix, &reader); // one for each thread that searches const struct
 *     asymreg_region *r = asymreg_index_lookup(reader, addr);
 *
 * Form: a B+ tree of 16 keys a node, compared 8 at a time where the processor can (AVX-512, AVX2;
 * otherwise plain C with the same results, chosen when the index is created), over an array of
 * 32-byte slots. A change copies one leaf and swaps one pointer; the old leaf is freed when no
 * reader can be in it any more (epochs; where the kernel has membarrier(), a reader pays no fence
 * for that). Each reader remembers its last hit, which costs one comparison and one load to use
 * again. From 64 regions on the index also keeps hints, a word for each stretch of addresses about
 * as long as regions are apart: the slot that is probably meant, which is looked at first, and if
 * it is not the one, the tree is searched. 8 to 32 bytes a region; given up, until there are twice
 * as many, where half of them would be wrong.
 *
 * Linearizable: a lookup answers as of one moment between its call and its return.
 *
 * Source: sorted table and search of "Asymmetric Memory Extension for OpenSHMEM", section 3, with
 * its slowdown (Figure 1) removed; the structure is ours.
 */
#ifndef ASYMREG_INDEX_H
#define ASYMREG_INDEX_H

#include <asymreg/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Most regions of an index, and of a published table. */
#define ASYMREG_MAX_REGIONS 0x4000000u

/**
 * @name How keys are compared
 * @{
 */
#define ASYMREG_SIMD_AUTO   0u /**< the best that this processor has */
#define ASYMREG_SIMD_NONE   1u /**< plain C */
#define ASYMREG_SIMD_AVX2   2u
#define ASYMREG_SIMD_AVX512 3u
/** @} */

/** Options of an index. Zero all, set `size`, then what differs. */
struct asymreg_index_opts {
    size_t size;          /**< sizeof(struct asymreg_index_opts) */
    uint32_t max_regions; /**< 0: 1,048,576. At most ASYMREG_MAX_REGIONS. Costs address space only
                             until used */
    uint32_t simd;        /**< ASYMREG_SIMD_*; -EINVAL for one that this processor lacks */
};

/** Figures of an index, as of the call. */
struct asymreg_index_stats {
    size_t size; /**< sizeof(struct asymreg_index_stats), set by the caller: no more than that is
                    filled */
    uint64_t n_regions; /**< registered now */
    uint64_t bytes;     /**< memory of tree and slots, with what awaits freeing */
    uint64_t n_retired; /**< nodes and slots that await the end of a reader's search */
    uint32_t depth;     /**< levels of the tree; 1: a single leaf */
    uint32_t simd;      /**< what compares: ASYMREG_SIMD_NONE and so on */
};

/** An index. */
struct asymreg_index;

/**
 * One thread's way of searching one index. Its members are for asymreg_index_lookup() alone; the
 * memory is the library's, on cache lines of its own.
 */
struct asymreg_reader {
    struct asymreg_region hit;  /**< the last region found */
    uint64_t hit_span;          /**< its last - start */
    const uint32_t *generation; /**< of its slot, now */
    uint32_t hit_generation;    /**< and when it was found */
    uint32_t nested;            /**< sections entered */
    uint64_t epoch;             /**< announced while searching; 0 outside */
    struct asymreg_index *index;
    struct asymreg_reader *next;
};

/**
 * @brief Make an empty index.
 * @param opts   NULL: all defaults
 * @param index  the new index
 * @return 0, -EINVAL, -ENOMEM
 *
 * MT-Safe. Allocates.
 */
ASYMREG_API int asymreg_index_create(const struct asymreg_index_opts *opts,
                                     struct asymreg_index **index);

/** @brief Free an index, after all its readers. NULL is allowed. One thread. */
ASYMREG_API void asymreg_index_destroy(struct asymreg_index *index);

/**
 * @brief Add a region.
 *
 * @param index  the index
 * @param start  address of the first byte; not 2^64-1
 * @param bytes  length; start + bytes may be 2^64, which ends the region with the last byte there
 *               is
 * @param prot   ASYMREG_* bits, or whatever you want to find again
 * @param value  anything
 * @param id     its identifier
 * @return 0; -EINVAL (no bytes); ASYMREG_EOVERFLOW (wraps, or begins at the last byte);
 *         ASYMREG_EOVERLAP; ASYMREG_EFULL; -ENOMEM. The index is unchanged on failure
 *
 * One writer, any readers. Allocates seldom (a page of nodes at a time). Cost: O(log n), one leaf
 * copied.
 */
ASYMREG_API int asymreg_index_insert(struct asymreg_index *index, uint64_t start, uint64_t bytes,
                                     uint32_t prot, uint64_t value, asymreg_id *id);

/**
 * @brief Take a region out.
 * @param index  the index
 * @param id     from asymreg_index_insert()
 * @return 0; ASYMREG_ESTALE (gone already, or never was); -ENOMEM (nothing changed)
 *
 * When it returns, no lookup that begins finds the region. One writer, any readers.
 */
ASYMREG_API int asymreg_index_remove(struct asymreg_index *index, asymreg_id id);

/**
 * @brief The first region that ends at or after an address, for going through all of them in order.
 * @param index   the index
 * @param addr    where to begin; go on with region->last + 1 until that is 0
 * @param region  the region
 * @return 1, or 0 when there is none
 *
 * For the writer's thread (or while nobody writes). Allocates nothing.
 */
ASYMREG_API int asymreg_index_next(struct asymreg_index *index, uint64_t addr,
                                   struct asymreg_region *region);

/**
 * @brief Figures of an index.
 * @param index  the index
 * @param stats  filled
 * @return 0, -EINVAL
 *
 * For the writer's thread.
 */
ASYMREG_API int asymreg_index_get_stats(const struct asymreg_index *index,
                                        struct asymreg_index_stats *stats);

/**
 * @brief Make a reader.
 * @param index   the index
 * @param reader  the new reader, for one thread at a time
 * @return 0, -ENOMEM
 *
 * MT-Safe. Allocates.
 */
ASYMREG_API int asymreg_reader_create(struct asymreg_index *index, struct asymreg_reader **reader);

/** @brief Free a reader. NULL is allowed. MT-Safe. */
ASYMREG_API void asymreg_reader_destroy(struct asymreg_reader *reader);

/**
 * @brief asymreg_index_lookup() without a look at the last hit.
 * @param reader  this thread's reader
 * @param addr    any address
 * @return as asymreg_index_lookup()
 */
ASYMREG_API const struct asymreg_region *asymreg_index_search(struct asymreg_reader *reader,
                                                              uint64_t addr);

/**
 * @brief Which region holds an address?
 * @param reader  this thread's reader
 * @param addr    any address
 * @return the region, a copy that lives until the next call with this reader; NULL: none
 *
 * Never waits. Allocates nothing, makes no system call. Threads: each its own reader.
 * Cost: a comparison and a load when the last hit serves again; else one search of the tree.
 */
static inline const struct asymreg_region *asymreg_index_lookup(struct asymreg_reader *reader,
                                                                uint64_t addr)
{
    if (addr - reader->hit.start <= reader->hit_span &&
        __atomic_load_n(reader->generation, __ATOMIC_ACQUIRE) == reader->hit_generation)
        return &reader->hit;
    return asymreg_index_search(reader, addr);
}

/**
 * @brief Look up many addresses, in batches that wait for memory together: in large indexes several
 *        times faster than one by one.
 * @param reader   this thread's reader
 * @param addrs    array of n addresses
 * @param n        how many
 * @param regions  array of n: what holds each address; where nothing does, its `id` is ASYMREG_ANY
 *                 and the rest is not set
 * @return how many were found
 *
 * Each answer is as of some moment between call and return. Never waits, allocates nothing. The
 * last hit is neither used nor changed.
 */
ASYMREG_API size_t asymreg_index_lookup_many(struct asymreg_reader *reader, const uint64_t *addrs,
                                             size_t n, struct asymreg_region *regions);

#ifdef __cplusplus
}
#endif
#endif /* ASYMREG_INDEX_H */
